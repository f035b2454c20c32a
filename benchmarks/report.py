"""The parts of README.md that a command writes, each between two markers."""

from pathlib import Path
from typing import Any

from regard.evaluation.files import replacing


def markers(part: str) -> tuple[str, str]:
    return f"<!-- begin: {part} -->", f"<!-- end: {part} -->"


def part_of(readme: Path, part: str) -> tuple[str, str]:
    """What stands before and after a part.

    Raises:
        ValueError: when the file is not there, or has not each marker once, in order.
    """
    begin, end = markers(part)
    text = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found or begin in rest or end in after:
        raise ValueError(f"{readme} has no place for the part '{part}': it needs the lines {begin} and {end}.")
    return before, after


def write_part(readme: Path, part: str, text: str) -> None:
    """Puts a text between the markers of a part. Raises ValueError as `part_of` does."""
    before, after = part_of(readme, part)
    begin, end = markers(part)
    with replacing(readme) as partial:
        partial.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def machine(environment: dict[str, Any]) -> str:
    """`2026-11-28: AMD EPYC, 1 of 2 cores; torch 2.13.0, transformers 5.24.0`."""
    cores = f"{environment['threads']} of {environment['cores']} cores"
    versions = f"torch {environment['torch']}, transformers {environment['transformers']}"
    return f"{environment['date']}: {environment['cpu']}, {cores}; {versions}"
