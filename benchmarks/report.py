"""The parts of README.md that a command writes, each between two markers."""

from pathlib import Path
from typing import Any

from regard.evaluation.files import replacing


def markers(part: str) -> tuple[str, str]:
    return f"<!-- begin: {part} -->", f"<!-- end: {part} -->"


def write_part(readme: Path, part: str, text: str) -> None:
    """Puts a text between the markers of a part.

    Raises:
        ValueError: when the file has not each marker once.
    """
    before = readme.read_text(encoding="utf-8")
    begin, end = markers(part)
    if before.count(begin) != 1 or before.count(end) != 1:
        raise ValueError(f"{readme} has no place for the part '{part}': it needs the lines {begin} and {end}.")
    head, rest = before.split(begin)
    with replacing(readme) as partial:
        partial.write_text(f"{head}{begin}\n{text.strip()}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def machine(environment: dict[str, Any]) -> str:
    """`2026-11-28: AMD EPYC, 1 of 2 cores; torch 2.13.0, transformers 5.24.0`."""
    cores = f"{environment['threads']} of {environment['cores']} cores"
    versions = f"torch {environment['torch']}, transformers {environment['transformers']}"
    return f"{environment['date']}: {environment['cpu']}, {cores}; {versions}"
