"""The items of a task and the pool that its shots are drawn from: of the Hub, of files, or of a generator."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.evaluation.few_shot.items import Item, builtin_items
from regard.evaluation.few_shot.templates import content_fields, example_of, item_of, queries_of
from regard.evaluation.naming import either
from regard.evaluation.readers import READERS, Row, read_rows

if TYPE_CHECKING:
    from regard.evaluation.few_shot.task import Data, Task


def load_items(task: "Task") -> tuple[list[Item], list[Item]]:
    """What is asked, and what the shots are drawn from: the same items, where the task names no other source.

    Items that bring a pool of their own draw from that.

    Raises:
        ValueError: data that cannot be read, or an item that a template does not fit, in one sentence.
    """
    data = task.data
    source = data.split or data.file or data.builtin
    items = _items(task, source)
    if not items:
        raise ValueError(f"The task '{task.name}' has no items: '{source}' holds none.")
    pool = items
    shots = data.shots_split or data.shots_file
    if shots is not None and shots not in (data.split, data.file):
        # Rows of two sources with the same number or name are not the same item.
        pool = _items(task, shots, f"{Path(shots).stem if data.file else shots}/")
    _check_texts(task, items, pool)
    return items, pool


def _check_texts(task: "Task", items: Sequence[Item], pool: Sequence[Item]) -> None:
    """So that what a template does not fit, in whichever row, is known before a model is loaded."""
    for item in items:
        queries_of(task, item)
        content_fields(task, item)
    for shot in pool if task.takes_shots else ():
        example_of(task, shot)


def limited(items: Sequence[Item], limit: int | None) -> Sequence[Item]:
    """So many of the items, drawn at random but always the same ones, in their order; all where `limit` is None or no
    fewer. A limit is at least 1 (`check_limit`)."""
    if limit is None or limit >= len(items):
        return items
    return [items[number] for number in sorted(random.Random("limit").sample(range(len(items)), limit))]


def check_limit(limit: int | None) -> None:
    """Raises ValueError where there is one below 1."""
    if limit is not None and limit < 1:
        raise ValueError(f"limit={limit} must be at least 1.")


def source_of(data: "Data") -> dict[str, Any]:
    """Where the items come from, without naming a folder."""
    if data.builtin:
        named = {"builtin": data.builtin, "number": data.number, "seed": data.seed, **data.options}
    elif data.path:
        named = {"path": data.path, "name": data.name, "split": data.split, "shots_split": data.shots_split}
    else:
        named = {"file": Path(data.file).name, "shots_file": data.shots_file and Path(data.shots_file).name}
    return {key: value for key, value in named.items() if value is not None}


def _items(task: "Task", source: str, prefix: str = "") -> list[Item]:
    if task.data.builtin:
        given = builtin_items(task.data.builtin, task.data.number, task.data.seed, **task.data.options)
        items = [item_of(task, one.fields, number, one) for number, one in enumerate(given)]
    else:
        rows = _split(task.data, source) if task.data.path else _file(task, source)
        items = [item_of(task, row, number, prefix=prefix, place=place) for number, (place, row) in enumerate(rows)]
    _check_names(items, task)
    return items


def _check_names(items: Sequence[Item], task: "Task") -> None:
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise ValueError(f"The task '{task.name}' has two items with the id '{item.id}': each has one of its own.")
        seen.add(item.id)


def _file(task: "Task", name: str) -> Iterator[Row]:
    path = Path(name).expanduser()
    if not path.is_file() and task.folder is not None and (task.folder / path).is_file():
        path = task.folder / path
    if path.suffix.lower() not in READERS:  # a text file has pieces, not rows with fields
        raise ValueError(f"data.file: '{name}' is no file of a known kind: its name ends in {either(READERS)}.")
    if not path.is_file():
        key = "shots_file" if name == task.data.shots_file else "file"
        raise ValueError(
            f"The task '{task.name}' reads the file '{name}', and there is none: name yours with --set "
            f"data.{key}=PATH, or data.{key} in a task file."
        )
    yield from read_rows(path)


def _split(data: "Data", split: str) -> Iterator[Row]:
    from datasets import load_dataset

    try:
        rows = load_dataset(data.path, data.name, split=split)
    except (OSError, ValueError, RuntimeError) as error:  # no network, no such data set or split, a script inside
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise ValueError(
            f"The split '{split}' of the data set '{data.path}' cannot be loaded ({reason}): check the name and the "
            "network, or give a local file instead, such as --set data.file=validation.jsonl --set "
            "data.shots_file=train.jsonl."
        ) from error
    return ((f"{split}, row {number}", row) for number, row in enumerate(rows, 1))
