"""Lines of text from an argument, a file or standard input, the same way whichever it is."""

import re
import sys
from collections.abc import Iterable
from pathlib import Path


def read_lines(text: str | None, file: Path | None) -> list[str]:
    """The lines of `text`, else of `file`, else of standard input, without their ends.

    Only a line feed, with or without a carriage return before it, ends a line: `str.splitlines` would also split at
    characters such as U+2028, and as many lines have to come out as `wc -l` counts.

    Raises:
        ValueError: if both are given, or the bytes are not UTF-8.
    """
    if text is not None and file is not None:
        raise ValueError("Give the text or --file, not both.")
    if text is None:
        if file is None and sys.stdin.isatty():
            print("One text a line; Ctrl-D ends.", file=sys.stderr)
        raw = file.read_bytes() if file is not None else sys.stdin.buffer.read()
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{file or 'Standard input'} is not UTF-8: byte {error.start} cannot be read.") from error
    elif not text.endswith("\n"):
        text += "\n"  # an argument is a line even when it is empty; an empty file has none
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def join_lines(lines: Iterable[str]) -> str:
    """One line each, however many line ends a text has inside."""
    return "".join(re.sub(r"[\r\n]+", " ", line) + "\n" for line in lines)
