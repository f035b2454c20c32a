"""Files that are complete or not there, and JSON that any program reads."""

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Gives another name in the same folder to write to, which becomes `path` when all is written.

    Killed or failing in between, what was at `path` is still there as it was. The other name keeps the ending, by
    which some writers choose their format. A link stays a link; what is no file, such as a pipe or /dev/null, is
    written to as it is.
    """
    path = Path(path)
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def check_output_folder(folder: str | os.PathLike[str]) -> None:
    """Whether a folder is there or can be made, and can be written to: asked before hours of work.

    Raises:
        ValueError: it cannot.
    """
    there = next(place for place in (Path(folder), *Path(folder).absolute().parents) if place.exists())
    if not there.is_dir():
        raise ValueError(f"--output: '{there}' is a file, and the results go into a folder.")
    _check_takes_files(there, "--output")


def check_output_file(path: str | os.PathLike[str], name: str) -> None:
    """The same of a file, which is in a folder that is there or can be made.

    Args:
        name: of the file, as the sentence begins with it.

    Raises:
        ValueError: it cannot be written.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        return  # a pipe or /dev/null, which is written to as it is
    there = next(place for place in path.absolute().parents if place.exists())
    if not there.is_dir():
        raise ValueError(f"{name} cannot be written: '{there}' is a file, not a folder.")
    _check_takes_files(there, f"{name} cannot be written")


def _check_takes_files(folder: Path, beginning: str) -> None:
    try:
        os.rmdir(tempfile.mkdtemp(dir=folder))
    except OSError as error:
        raise ValueError(
            f"{beginning}: nothing can be written to the folder '{folder}' ({error.strerror}): choose another one."
        ) from error


def json_text(content: Any) -> str:
    """Strict JSON, indented, with a line end: what is no number, as an infinite perplexity, is null.

    Raises:
        TypeError: something that JSON has no form for.
    """
    return json.dumps(_strict(content), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def json_line(content: Any) -> str:
    """The same on one line, without a line end."""
    return json.dumps(_strict(content), ensure_ascii=False, allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def file_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of what a file holds, in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
