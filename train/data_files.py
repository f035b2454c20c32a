"""Whether the files that a run or a sweep learns from are still those with which it began."""

from collections.abc import Iterable
from pathlib import Path

from regard.evaluation.files import file_digest
from regard.evaluation.readers import local_file
from regard.train.records import read_json, write_json
from regard.train.sections import DataSection, RecipeError

FILES = "data_files.json"


def record_files(folder: Path, sections: Iterable[DataSection]) -> None:
    """Writes down in `folder` what the files of these recipes hold, as SHA-256."""
    write_json(folder / FILES, _digests(sections))


def check_files(folder: Path, sections: Iterable[DataSection]) -> None:
    """Before something in `folder` goes on. What an earlier version began has no record, and is not checked.

    Raises:
        RecipeError: a file holds something else than when it began.
    """
    if not (folder / FILES).is_file():
        return
    began = read_json(folder / FILES)
    for named, digest in _digests(sections).items():
        if began.get(named, digest) != digest:
            raise RecipeError(
                f"{named} holds something else than when '{folder}' began: put that file back, or begin anew with "
                "another --output."
            )


def _digests(sections: Iterable[DataSection]) -> dict[str, str]:
    """Of the files to train and to validate on, by field and name. A stream may be too long to be read for this."""
    found = {}
    for data in sections:
        for field, value in (("data.train", data.train), ("data.validation", data.validation)):
            file = None if value is None or data.streaming else local_file(str(value))
            if file is not None and file.is_file() and (named := f"{field}: '{value}'") not in found:
                found[named] = file_digest(file)
    return found
