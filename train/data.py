"""From a recipe's `data` section to splits whose columns are named by their role.

    load_splits(data, task)                     rows: source, target | text | text, [text_pair], label | tokens, tags |
                                                question, context, answer, answer_start
    prepare_splits(splits, recipe, tokenizer)   examples: input_ids, labels, ... (in `regard.train.preprocessing`)

A split is a local file (`my.tsv`), a split of the data set that `data.path` names (`train`), or, for
`data.validation` and `data.test`, rows held out of the training data (`5%`, `1000`, `5%, at most 1000`), always the
same ones.
"""

import difflib
import json
import logging
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import ClassLabel, Dataset, Features, IterableDataset, List, Value, load_dataset
from datasets.exceptions import DatasetGenerationError

from regard.evaluation.files import file_digest
from regard.evaluation.readers import ENDS, OTHER_KINDS, SUFFIXES, TEXT, columns_of, local_file, read_rows
from regard.train.answers import right_answers
from regard.train.fingerprints import fingerprint
from regard.train.hold_out import hold_out
from regard.train.preprocessing import DataReport, SplitReport, prepare_splits
from regard.train.sections import HOLD_OUT, IN_CONTEXT, TASKS, DataSection, Recipe
from regard.train.subset import first_examples

__all__ = ["DataReport", "SplitReport", "load_splits", "prepare_splits"]

logger = logging.getLogger(__name__)

Splits = dict[str, Dataset | IterableDataset]

BUILTIN_SPLITS = ("train", "validation", "test")
GROUP = "group"  # the column that data.split_by names, until the rows are held out
LABELS = ("label", "tags")  # roles whose values become numbers


@dataclass(frozen=True)
class Source:
    """One split as the recipe names it: `value` of the field `field`."""

    field: str
    value: str

    @property
    def file(self) -> Path | None:
        return local_file(self.value)

    @property
    def is_hold_out(self) -> bool:
        return self.field in ("data.validation", "data.test") and HOLD_OUT.fullmatch(self.value) is not None


def load_splits(
    data: DataSection,
    task: str,
    only: Collection[str] | None = None,
    labels: list[str] | None = None,
    seed: int = 42,
) -> Splits:
    """Loads what the recipe names, checked, with columns named by role.

    Held out are the last rows for language models, whose text is one stretch; of a stream the first rows; and else
    rows, or with `data.split_by` groups of rows, drawn by `data.split_seed`.

    Args:
        data: the section of the recipe.
        task: one of `regard.train.sections.TASKS`.
        only: load these splits alone, all by default.
        labels: the names of the labels or tags, those of the training split by default.
        seed: by which `data.max_train_examples` are drawn.

    Returns:
        "train", "validation" and "test", or "test:<name>" for each of several test sets: those that the recipe names.
        Labels are a `ClassLabel` whose names are the distinct labels of the training split, sorted; tags are a list
        of them, one for each of the words in `tokens`. Text files give the further column `ends_document`. With
        `data.streaming` the training split is an iterable data set.

    Raises:
        ValueError: one sentence that names the field and what is wrong: a file or column that is not there, an empty
            file, a malformed line, a missing value, a wrong type, an unknown label, words and tags that are not as
            many, a Hub that does not answer.
    """
    if task == IN_CONTEXT:
        from regard.train.in_context import in_context_rows

        return in_context_rows(data, only)
    if task == "masked-lm" and data.packing == "documents":
        raise ValueError("data.packing: 'documents' is for causal-lm; masked-lm takes 'blocks'.")
    roles = TASKS[task].roles + TASKS[task].optional_roles
    columns = {role: data.columns.get(role, role) for role in TASKS[task].roles} | dict(data.columns)
    if unknown := [role for role in columns if role not in roles]:
        raise ValueError(f"data.columns: there is no role '{unknown[0]}' in {task}; the roles are {_quoted(roles)}.")
    sources = _sources(data)
    wanted = {key: sources.pop(key).value for key, source in dict(sources).items() if source.is_hold_out}
    if data.split_by is not None and not wanted:
        logger.warning("data.split_by: no rows are held out of data.train, so it is not used.")
    names = data.split_names() if only is None else only
    holds_out = bool(wanted) and not {"train", *wanted}.isdisjoint(names)
    sources = {key: source for key, source in sources.items() if key in names or (key == "train" and holds_out)}
    grouped = {GROUP: data.split_by} if holds_out and data.split_by is not None else {}
    wanted_columns = {key: columns | (grouped if key == "train" else {}) for key in sources}
    for key, source in sources.items():
        _check_source(source, data, task, wanted_columns[key])
    labelled = next((role for role in LABELS if role in columns), None)
    choosing: list[str] = []  # the labels of the training rows, where not all of these are trained on
    if labelled is not None and labels is None:
        labels = _label_names(_sources(data)["train"], data, columns[labelled], several=labelled == "tags")
        if "train" in names and (holds_out or data.max_train_examples is not None):
            choosing = labels.copy()
        if labelled == "tags":
            labels += _tags_not_trained(sources, data, columns["tags"], labels)
    splits = {key: _load(source, data, wanted_columns[key], labels) for key, source in sources.items()}
    if holds_out and data.streaming:
        splits |= _held_out_of_stream(splits["train"], wanted["validation"])
    elif holds_out:
        groups = splits["train"][GROUP][:] if grouped else None
        rows = splits["train"].remove_columns(list(grouped))
        ordered = TASKS[task].roles == ("text",)
        splits |= hold_out(rows, wanted, ordered=ordered, seed=data.split_seed, groups=groups)
    if "train" in names and data.max_train_examples is not None:
        splits["train"] = first_examples(splits["train"], data.max_train_examples, seed)
    if choosing:
        _tell_untaught(splits, labelled, choosing)
    for key, split in splits.items():
        if key != "train" and isinstance(split, IterableDataset):  # evaluations are repeated, and their data is small
            splits[key] = Dataset.from_list(list(split), features=split.features)
    return {key: splits[key] for key in names}


def data_seed(recipe: Recipe) -> int:
    """By which examples are drawn."""
    seed = recipe.training.get("data_seed")
    return recipe.training.get("seed", 42) if seed is None else seed


# --- which data ------------------------------------------------------------------------------------------------------


def _sources(data: DataSection) -> dict[str, Source]:
    sources = {"train": Source("data.train", data.train)}
    if data.validation is not None:
        sources["validation"] = Source("data.validation", data.validation)
    if isinstance(data.test, Mapping):
        sources |= {f"test:{name}": Source(f"data.test.{name}", value) for name, value in data.test.items()}
    elif data.test is not None:
        sources["test"] = Source("data.test", data.test)
    return sources


def _check_source(source: Source, data: DataSection, task: str, columns: Mapping[str, str]) -> None:
    """What can be said of a source before it is read whole."""
    file = source.file
    if file is None:
        if _looks_like_a_file(source.value) or Path(source.value).is_file():  # a folder may be called `train`
            raise ValueError(
                f"{source.field}: '{source.value}' is not a file of a kind that is read, which are "
                f"{', '.join(SUFFIXES)}, and no name of a split."
            )
        if data.path is None:
            raise ValueError(
                f"{source.field}: '{source.value}' is not a file of a known kind ({', '.join(SUFFIXES)}), and "
                "data.path names no data set that it could be a split of."
            )
        return
    if not file.is_file():
        raise ValueError(f"{source.field}: the file {file} does not exist (seen from {Path.cwd()}).")
    if file.suffix.lower() == ".txt":
        if data.split_by is not None and source.field == "data.train":
            raise ValueError(f"data.split_by: {file} is a text without columns, such as '{data.split_by}'.")
        if TASKS[task].roles != ("text",):
            raise ValueError(
                f"{source.field}: {file} is a text without columns, and {task} needs {_quoted(TASKS[task].roles)}: "
                "give a .tsv, .csv, .jsonl or .parquet file."
            )
    else:
        with _named(source):
            _check_columns(source, columns, columns_of(file), has_header=file.suffix.lower() in (".csv", ".tsv"))
    with _named(source):
        if next(read_rows(file), None) is None:
            tabular = file.suffix.lower() in (".csv", ".tsv")
            raise ValueError(f"{file} {'has no row below the names of its columns' if tabular else 'is empty'}.")


def _looks_like_a_file(value: str) -> bool:
    path = Path(value)
    return "/" in value or "\\" in value or value in (".", "..") or path.suffix.lower() in OTHER_KINDS


def _check_columns(source: Source, columns: Mapping[str, str], present: list[str], has_header: bool = False) -> None:
    group = columns.get(GROUP)
    columns = {role: column for role, column in columns.items() if role != GROUP}
    if group is not None and group not in present and group.partition(".")[0] not in present:
        raise ValueError(
            f"data.split_by: there is no column '{group}' in {source.value}, whose columns are {_quoted(present)}."
        )
    missing = [c for c in columns.values() if c not in present and c.partition(".")[0] not in present]
    if not missing:
        return
    near = difflib.get_close_matches(missing[0], present, n=1)
    shown = [name if len(name) <= 40 else name[:37] + "..." for name in present]
    message = f"there is no column '{missing[0]}'" + (f" (is it '{near[0]}'?)" if near else "")
    message += f" in {source.value}, whose {'first line names' if has_header else 'columns are'} {_quoted(shown)}"
    settings = " ".join(f"data.columns.{role}=..." for role in columns)
    if has_header:
        separator = "," if source.value.lower().endswith(".csv") else "<TAB>"
        header = separator.join(columns.values())
        raise ValueError(f"{message}: say which is which with {settings}, or put the line '{header}' first.")
    raise ValueError(f"{message}: say which is which with {settings}.")


@contextmanager
def _named(source: Source) -> Iterator[None]:
    """Puts the field before the message of a ValueError."""
    try:
        yield
    except (ValueError, DatasetGenerationError) as error:
        reason = error if isinstance(error, ValueError) else error.__cause__
        if not isinstance(reason, ValueError):
            raise
        raise ValueError(f"{source.field}: {reason}") from reason


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


# --- reading ---------------------------------------------------------------------------------------------------------


def _load(source: Source, data: DataSection, columns: dict[str, str], labels: list[str] | None) -> Any:
    classes = Value("string") if labels is None else ClassLabel(names=labels)  # without labels there is no such role
    kinds = {
        "label": classes,
        "tags": List(classes),
        "tokens": List(Value("string")),
        "answer": List(Value("string")),
        "answer_start": List(Value("int32")),
    }
    features = Features({role: kinds.get(role, Value("string")) for role in columns})
    if source.file is not None:
        return _load_file(source, data, columns, features)
    return _load_named(source, data, columns, features)


def _load_file(source: Source, data: DataSection, columns: dict[str, str], features: Features) -> Any:
    documents = data.packing == "documents"
    is_text = source.file.suffix.lower() == ".txt"
    if is_text:
        columns, features = {TEXT: TEXT, ENDS: ENDS}, Features({TEXT: Value("string"), ENDS: Value("bool")})
    arguments = {"path": str(source.file), "columns": columns, "features": features, "documents": documents}
    with _named(source):
        if data.streaming:
            return IterableDataset.from_generator(_role_rows, features=features, gen_kwargs=arguments)
        name = fingerprint(file_digest(source.file), columns, str(features), documents)
        return Dataset.from_generator(_role_rows, features=features, gen_kwargs=arguments, fingerprint=name)


def _role_rows(path: str, columns: dict[str, str], features: Features, documents: bool) -> Iterator[dict[str, Any]]:
    for place, row in read_rows(Path(path), documents):
        yield _to_roles(row, place, columns, features)


def _load_named(source: Source, data: DataSection, columns: dict[str, str], features: Features) -> Any:
    """A split of `data.path`: the Hub's, or the generator's in the package."""
    with _named(source):
        dataset = _open_split(source, data)
        present = list(dataset.features or next(iter(dataset), {}))
        _check_columns(source, columns, present)
        where = f"{data.path}, split '{source.value}', row"
        given = _stated((dataset.features or {}).get(columns.get("label", columns.get("tags"))))

        def rename(row: dict[str, Any], index: int) -> dict[str, Any]:
            return _to_roles(row, f"{where} {index + 1}", columns, features, given)

        arguments = {"with_indices": True, "remove_columns": present, "features": features}
        if data.streaming:
            return dataset.map(rename, **arguments)
        name = fingerprint(dataset._fingerprint, columns, str(features))
        return dataset.map(rename, new_fingerprint=name, desc=f"Reading {source.value}", **arguments)


def _open_split(source: Source, data: DataSection) -> Any:
    if data.path.startswith("builtin:"):
        from regard.evaluation.in_context.repeats import make_repeats
        from regard.train.turkish import make_pairs

        if source.value not in BUILTIN_SPLITS:
            raise ValueError(f"'{source.value}' is not a split of {data.path}: it has {_quoted(BUILTIN_SPLITS)}.")
        make = make_repeats if data.path == "builtin:repeats" else make_pairs
        dataset = Dataset.from_list(make(source.value))
        return dataset.to_iterable_dataset() if data.streaming else dataset
    try:
        return load_dataset(data.path, data.name, split=source.value, streaming=data.streaming)
    except (
        OSError,
        ValueError,
        RuntimeError,
    ) as error:  # no network, no such data set, no such split, a script inside
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise ValueError(
            f"the split '{source.value}' of data.path '{data.path}' cannot be loaded ({reason}): check the name and "
            "the network, or give local files instead, such as data.train=train.jsonl data.validation=valid.jsonl."
        ) from error


def _to_roles(
    row: Mapping[str, Any], place: str, columns: Mapping[str, str], features: Features, given: Any = None
) -> dict[str, Any]:
    """A row with its columns named by role, checked; `given` is the label's feature where the data set states one."""
    example: dict[str, Any] = {}
    for role, column in columns.items():
        value = pick(row, column, place)
        if role == "label":
            value = _label_number(_label_text(value, column, place, given), features[role].names, column, place)
        elif role == "tokens":
            value = row_items(value, column, place)
            if wrong := [word for word in value if not isinstance(word, str)]:
                raise ValueError(f"{place}: column '{column}' holds {_kind(wrong[0])} where a word is wanted.")
        elif role == "tags":
            names = features[role].feature.names
            tags = [_label_text(one, column, place, given) for one in row_items(value, column, place)]
            value = [_label_number(tag, names, column, place) for tag in tags]
        elif role == GROUP:
            value = json.dumps(value, sort_keys=True, default=str)
        elif role not in (ENDS, "answer", "answer_start") and not isinstance(value, str):
            raise ValueError(f"{place}: column '{column}' holds {_kind(value)} where text is wanted.")
        example[role] = value
    if "answer" in example:
        stated = example["answer"], example["answer_start"]
        example["answer"], example["answer_start"] = right_answers(example["context"], *stated, place)
    words, marks = len(example.get("tokens", ())), len(example.get("tags", ()))
    if words != marks:
        raise ValueError(
            f"{place}: {words} words in column '{columns['tokens']}' and {marks} tags in column '{columns['tags']}', "
            "and each word has one."
        )
    return example


def row_items(value: Any, column: str, place: str) -> list[Any]:
    """The words or tags of a row: a list or, in a table's cell, what white space parts."""
    if isinstance(value, str):
        return value.split()
    if not isinstance(value, list):
        raise ValueError(f"{place}: column '{column}' holds {_kind(value)} where a list is wanted.")
    return value


def _label_number(label: str, names: list[str], column: str, place: str) -> int:
    if label not in names:
        raise ValueError(
            f"{place}: the label '{label}' in column '{column}' is not among those of data.train, which are "
            f"{_quoted(names[:20])}{'' if len(names) <= 20 else ', ...'}."
        )
    return names.index(label)


def pick(row: Mapping[str, Any], column: str, place: str) -> Any:
    """The value of a column; `translation.de` is the entry `de` of the column `translation`.

    Raises:
        ValueError: there is no such column.
    """
    if column in row:
        return row[column]
    value: Any = row
    for part in column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise ValueError(f"{place}: there is no column '{column}'.")
        value = value[part]
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "no value"
    names = {bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), f"a {type(value).__name__}")


# --- labels ----------------------------------------------------------------------------------------------------------


def _stated(feature: Any) -> Any:
    """The `ClassLabel` of a column of labels or of lists of them, where the data set states one."""
    return getattr(feature, "feature", feature)


def _label_names(source: Source, data: DataSection, column: str, several: bool = False) -> list[str]:
    """The distinct labels of the training data: whole numbers in their order, names in the alphabet's. With `several`
    each row has a list of them."""
    found = _labels_found(source, data, column, several)
    if isinstance(found, list):
        return found
    if not found:
        raise ValueError(f"{source.field}: there is no label in column '{column}'.")
    if len(found) < 2:
        raise ValueError(
            f"{source.field}: every label in column '{column}' is '{min(found)}': there is nothing to learn."
        )
    if all(re.fullmatch(r"-?\d+", label) for label in found):
        return sorted(found, key=int)
    return sorted(found)


def _tags_not_trained(sources: Mapping[str, Source], data: DataSection, column: str, trained: list[str]) -> list[str]:
    """Rare tags can be in a test set alone: they are labels too, which no model learns, and so are missed."""
    others: dict[str, None] = {}
    for source in (source for key, source in sources.items() if key != "train"):
        found = sorted(set(_labels_found(source, data, column, several=True)) - set(trained))
        if found:
            logger.warning(
                "%s: data.train has no %s, so no training teaches these tags.", source.field, _quoted(found)
            )
        others |= dict.fromkeys(found)
    return list(others)


def _tell_untaught(splits: Splits, role: str, names: list[str]) -> None:
    """Labels of which all rows are held out, or left out by data.max_train_examples, and which are asked for then."""

    def found(split: Dataset) -> set[str]:
        values = split[role][:]
        numbers = set(values) if role == "label" else {number for row in values for number in row}
        return {name for number, name in enumerate(names) if number in numbers}

    whole = {key: split for key, split in splits.items() if isinstance(split, Dataset)}
    for key in [key for key in whole if key != "train" and "train" in whole]:
        if untaught := sorted(found(whole[key]) - found(whole["train"])):
            logger.warning(
                "data.%s: no row of %s is left in data.train, so no training teaches %s.",
                key.replace(":", "."),
                _quoted(untaught[:20]) + (", ..." if len(untaught) > 20 else ""),
                "this label" if len(untaught) == 1 else "these labels",
            )


def _labels_found(source: Source, data: DataSection, column: str, several: bool) -> list[str] | set[str]:
    """The names that a data set states, in their order, or else those that its rows have."""

    kinds: dict[str, tuple[str, Any]] = {}  # the first number and the first name, with their places

    def labels(row: Mapping[str, Any], place: str) -> list[str]:
        value = pick(row, column, place)
        values = row_items(value, column, place) if several else [value]
        texts = [_label_text(one, column, place) for one in values]
        for one, text in zip(values, texts, strict=True):
            if isinstance(one, int) or not re.fullmatch(r"-?\d+", text):  # a number in quotes may be either
                kinds.setdefault("number" if isinstance(one, int) else "name", (place, one))
        if len(kinds) == 2:
            (where, number), (there, name) = kinds["number"], kinds["name"]
            raise ValueError(
                f"{where}: the label in column '{column}' is the number {number}, and that in {there} is the name "
                f"'{name}': labels are all numbers or all names."
            )
        return texts

    with _named(source):
        if source.file is not None:
            rows: Any = read_rows(source.file)
            return {label for place, row in rows for label in labels(row, place)}
        else:
            dataset = _open_split(source, data)
            given = _stated((dataset.features or {}).get(column))
            if isinstance(given, ClassLabel):
                return list(given.names)
            if data.streaming:
                raise ValueError(
                    f"the data set {data.path} does not state the labels of column '{column}', which data.streaming "
                    "needs: set data.streaming=false."
                )
            _check_columns(source, {"label": column}, dataset.column_names)
            place = f"{data.path}, split '{source.value}', row"
            rows = enumerate(dataset.select_columns([column.partition(".")[0]]), 1)
            return {label for n, row in rows for label in labels(row, f"{place} {n}")}


def _label_text(value: Any, column: str, place: str, given: Any = None) -> str:
    if isinstance(given, ClassLabel) and isinstance(value, int):
        if not 0 <= value < given.num_classes:
            raise ValueError(
                f"{place}: the label {value} in column '{column}' is not in 0 to {given.num_classes - 1}."
            )
        return given.names[value]
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        kind = "no value" if value == "" else _kind(value)
        way = ""
        if isinstance(value, bool | float) and math.isfinite(value):  # NaN is no value that could be written otherwise
            whole = isinstance(value, float) and value.is_integer()
            kind, way = json.dumps(value), f": write it as {int(value) if whole else json.dumps(json.dumps(value))}"
        raise ValueError(
            f"{place}: column '{column}' holds {kind} where a label, a whole number or a name, is wanted{way}."
        )
    return str(value).strip()


# --- holding out -----------------------------------------------------------------------------------------------------


def _held_out_of_stream(train: IterableDataset, value: str) -> Splits:
    """The first rows, whatever the order: where a stream ends is not known."""
    _, _, number = HOLD_OUT.fullmatch(value).groups()
    if not int(number or 0):
        raise ValueError(
            f"data.validation: '{value}' holds a share of data.train out, whose length is not known with "
            "data.streaming: name a file, a split, or a number of rows."
        )
    rest = train.skip(int(number))
    if next(iter(rest), None) is None:
        raise ValueError(f"data.validation: '{number}' rows held out of data.train leave nothing to train on.")
    return {"train": rest, "validation": train.take(int(number))}
