"""What of a run is published, laid out in a folder of its own: no checkpoint, no place or name of a machine.

A file is taken because its kind is known; whatever else lies in the run's folder stays there.
"""

import fnmatch
import os
import re
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.evaluation.yaml_io import read_yaml, write_yaml
from regard.model_cards.card import render_card
from regard.model_cards.carried_code import CONFIG, CodeError, code_files
from regard.model_cards.metadata import CARD
from regard.model_cards.records import with_placeholder
from regard.train.checkpoints import CHECKPOINT
from regard.train.convert_source import SENTENCE_FILES, TOKENIZER
from regard.train.recipe import RUN_RECIPE
from regard.train.records import ERRORS, FIRST_WEIGHTS, METRICS, read_json, write_json

WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json")
SENTENCE_MODULES = ("[0-9]_*/config.json", "[0-9]_*/model.safetensors")  # of sentence-transformers
MODEL = (CONFIG, "generation_config.json", *WEIGHTS, *TOKENIZER, *SENTENCE_FILES)
RECORDS = (RUN_RECIPE, METRICS, "history.json", ERRORS, "embeddings.json", FIRST_WEIGHTS, "conversion.json")
ADAPTER = ("adapter/adapter_config.json", "adapter/adapter_model.safetensors")  # of LoRA
PICTURES = ("*.png", "*.svg", "images/*.png", "images/*.svg")
FEW_SHOT = "few-shot-*.json"
LICENCE_FILES = tuple(name + end for name in ("LICENSE", "LICENCE") for end in ("", ".MD", ".TXT"))
EVENTS = re.compile(r"events\.out\.tfevents\.(\d+)\..+")
LOG_FOLDER = "logs"
CACHES = ("__pycache__", ".git", ".cache")  # of tools, in any folder
ARGUMENTS_TAG = "args/text_summary"  # all of TrainingArguments, with the folders of this machine


@dataclass
class Staged:
    """A folder as it will be published.

    Attributes:
        folder: where it is.
        notes: what differs from the run's folder, a sentence each.
        left_out: files and folders of the run that stay where they are.
        stamps: what says of each file whether it was written to since.
    """

    folder: Path
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    stamps: dict[str, tuple[int, ...] | None] = field(default_factory=dict)

    def files(self) -> dict[str, int]:
        """Bytes by path, in alphabetical order."""
        return {name: (self.folder / name).stat().st_size for name in sorted(relative_files(self.folder))}

    def changed(self) -> list[str]:
        """The files that are not any more what they were when they were laid out: weights, which are links."""
        return [name for name, stamp in self.stamps.items() if _stamp(self.folder / name) != stamp]


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def is_run(folder: Path) -> bool:
    """Whether a folder is what `regard train` wrote, rather than any folder with a model."""
    return (folder / RUN_RECIPE).is_file() and (folder / CONFIG).is_file()


def stage(
    run: Path, folder: Path, repo_id: str | None = None, revision: str | None = None, checkpoint: Path | None = None
) -> Staged:
    """Lays out what is published of a run.

    Args:
        run: its folder.
        folder: a new one. Files are copies, so that what is checked is what is sent, whatever becomes of the run;
            weights, which are large, are links: those of a checkpoint, which may be deleted soon, hard ones.
        repo_id: where it will be published, for the snippet of the card.
        revision: the tag or branch there, for the same.
        checkpoint: takes the model from there, while the run is still training; then it has no results yet.

    Raises:
        ValueError: it is no folder with a model, or a record of it cannot be read.
    """
    source = run if checkpoint is None else checkpoint
    if not (source / CONFIG).is_file():
        raise ValueError(f"'{source}' holds no model: there is no {CONFIG} in it.")
    folder.mkdir(parents=True)
    staged = Staged(folder)
    try:
        code = code_files(source)
    except CodeError:
        code = [path.name for path in source.glob("*.py")]  # whose fault the check names
    taken = [name for name in sorted(os.listdir(source)) if _matches(name, MODEL) and (source / name).is_file()] + code
    for name in taken:
        _place(source / name, folder / name, stays=checkpoint is None)
    if checkpoint is None:
        for name in relative_files(run):
            if (_matches(name, (*PICTURES, *ADAPTER, *SENTENCE_MODULES)) or name.upper() in LICENCE_FILES) and (
                run / name
            ).is_file():
                _place(run / name, folder / name)
                taken.append(name)
    for name in RECORDS if checkpoint is None else (RUN_RECIPE, FIRST_WEIGHTS):
        if (run / name).is_file():
            _write_record(run / name, staged)
            taken.append(name)
    for path in sorted(run.glob(FEW_SHOT)) if checkpoint is None else ():
        _write_few_shot(path, staged)
        taken.append(path.name)
    taken += _write_events(run, staged)
    try:
        _write_card(run, staged, repo_id, revision)
    except ValueError as error:  # names the folder that is read
        raise ValueError(str(error).replace(str(folder), str(run))) from error
    staged.left_out = sorted(_others(run, {*taken, CARD}))
    staged.stamps = {name: _stamp(folder / name) for name in staged.files()}
    return staged


def relative_files(folder: Path, everything: bool = False) -> list[str]:
    """The files of a folder and its subfolders, and links to other folders, which are not followed; without
    `everything`, not what is local to a run: checkpoints and hidden things."""
    found = []
    for root, folders, names in os.walk(folder):
        here = Path(root).relative_to(folder)
        folders[:] = [name for name in folders if name not in CACHES and (everything or not _is_local(name))]
        names += [name for name in folders if (Path(root) / name).is_symlink()]
        found += [(here / name).as_posix() for name in names if everything or not name.startswith(".")]
    return sorted(found)


def _is_local(folder_name: str) -> bool:
    return folder_name.startswith(".") or bool(CHECKPOINT.fullmatch(folder_name))


def _others(run: Path, taken: set[str]) -> Iterator[str]:
    yield from (name for name in relative_files(run) if name not in taken)
    yield from (
        f"{path.name}/" for path in run.iterdir() if path.is_dir() and path.name not in CACHES and _is_local(path.name)
    )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) and name.count("/") == pattern.count("/") for pattern in patterns)


def _place(source: Path, target: Path, stays: bool = True) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if not _matches(source.name, WEIGHTS):
        shutil.copyfile(source, target)
    elif stays:
        target.symlink_to(source.resolve())
    else:
        try:
            os.link(source, target)
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, target)


def _write_record(source: Path, staged: Staged) -> None:
    """Copies a record; where a setting is a place on this machine, PATH stands for it."""
    changed: list[str] = []
    if source.name == ERRORS:  # labels, counts and texts, which may begin with a slash
        _place(source, staged.folder / source.name)
        return
    if source.suffix == ".yaml":
        try:
            content = read_yaml(source.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{source.name} is not valid YAML: {error}") from error
        content = _without_places(_without_destination(content, staged), "", changed)
        text = write_yaml(content)
    else:
        content = read_json(source)
        samples = content.pop("samples", None) if isinstance(content, dict) else None  # texts may begin with a slash
        content = _without_places(content, "", changed)
        if samples is not None:
            content["samples"] = samples
        text = None
    target = staged.folder / source.name
    if not changed and text is None:
        _place(source, target)
    elif text is not None:
        target.write_text(text, encoding="utf-8")
    else:
        write_json(target, content)
    if changed:
        staged.notes.append(f"{source.name}: PATH stands for a place on this machine in {', '.join(changed)}.")


def _write_few_shot(source: Path, staged: Staged) -> None:
    """Copies a few-shot result without its prompts: they are a data set's texts, and no card shows them."""
    content, changed = read_json(source), []
    if content.pop("records", None):
        staged.notes.append(f"{source.name}: the prompts, which are the data set's texts, stay here.")
    write_json(staged.folder / source.name, _without_places(content, "", changed))
    if changed:
        staged.notes.append(f"{source.name}: PATH stands for a place on this machine in {', '.join(changed)}.")


def _without_destination(recipe: Any, staged: Staged) -> Any:
    """A recipe without what says where to publish: whoever runs it again has another account."""
    training = recipe.get("training") if isinstance(recipe, dict) else None
    if not isinstance(training, dict):
        return recipe
    kept = {key: value for key, value in training.items() if key != "push_to_hub" and not key.startswith("hub_")}
    if kept != training:
        staged.notes.append(f"{RUN_RECIPE}: the settings that say where to publish are left out.")
    return recipe | {"training": kept}


def _without_places(value: Any, key: str, changed: list[str]) -> Any:
    if isinstance(value, dict):
        return {k: _without_places(v, f"{key}.{k}" if key else str(k), changed) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_places(one, key, changed) for one in value]
    if isinstance(value, str) and with_placeholder(value) != value:
        changed.append(key)
        return with_placeholder(value)
    return value


# --- TensorBoard -----------------------------------------------------------------------------------------------------


def _write_events(run: Path, staged: Staged) -> list[str]:
    """The event files, under names that do not name the machine, without the arguments; returns those of the run."""
    found = [name for name in relative_files(run) if EVENTS.fullmatch(name.rpartition("/")[2])]
    found = [name for name in found if (run / name).is_file()]
    for number, name in enumerate(found):
        time = EVENTS.fullmatch(name.rpartition("/")[2])[1]
        target = staged.folder / LOG_FOLDER / f"events.out.tfevents.{time}.{number}"
        target.parent.mkdir(exist_ok=True)
        with open(target, "wb") as file:
            for record in _records(run / name):
                if not _is_arguments(record):
                    file.write(record)
    if found:
        staged.notes.append(
            f"{LOG_FOLDER}: the event files' names do not name the machine, and TensorBoard's `args` are left out."
        )
    return found


def _records(path: Path) -> Iterator[bytes]:
    """The records of an event file as they are: length and its checksum, content and its checksum. Of a file that is
    still written to, the last one may be cut off, and is left out."""
    with open(path, "rb") as file:
        while len(header := file.read(12)) == 12:
            size = struct.unpack("<Q", header[:8])[0] + 4
            content = file.read(size)
            if len(content) < size:
                return
            yield header + content


def _is_arguments(record: bytes) -> bool:
    if ARGUMENTS_TAG.encode() not in record:
        return False
    from tensorboard.compat.proto.event_pb2 import Event

    event = Event.FromString(record[12:-4])
    return any(value.tag == ARGUMENTS_TAG for value in event.summary.value)


# --- the card --------------------------------------------------------------------------------------------------------


def _write_card(run: Path, staged: Staged, repo_id: str | None, revision: str | None) -> None:
    """Rendered again, for where it will lie; of a folder without a recipe, the card that somebody wrote is kept."""
    if not (run / RUN_RECIPE).is_file() and (run / CARD).is_file():
        _place(run / CARD, staged.folder / CARD)
        return
    text = render_card(staged.folder, repo_id=repo_id, revision=revision)
    (staged.folder / CARD).write_text(text, encoding="utf-8")
    if (run / CARD).is_file() and (run / CARD).read_text(encoding="utf-8", errors="replace") not in (
        text,
        render_card(staged.folder),
        render_card(run),
    ):
        staged.notes.append(
            f"{CARD}: the card is rendered from the run's records; what else the one in the folder says is not sent."
        )
