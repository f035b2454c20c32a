"""Rows of local files, each with its place, so that an error can name the file and the line.

JSONL, JSON, CSV, TSV, Parquet and text files are read row by row, in bounded memory. Why not the loaders of
`datasets`: they turn the words "null" and "NA" of a CSV into missing values, report no line numbers, and lose the
line ends of a text.

A TSV file has no quoting (as on Tatoeba and in GLUE, where a lone `"` is a character as any other); a CSV file has.
Both name their columns in the first line.

A CoNLL file (.conll) has a word with its tags on a line and a blank line after each sentence, which is a row: of
lists, `tokens` of the first column and `tags` of the last, those between under their numbers. A .conllu file has the
ten columns of Universal Dependencies under their names.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Row = tuple[str, dict[str, Any]]  # ("my.tsv, line 3", {"de": ..., "en": ...})

PIECE_LENGTH = 4096  # characters of a text file that make a row, more or less
LONGEST_PIECE = 4 * PIECE_LENGTH  # a line longer than this is cut before a space

# Kinds of files that someone may try; the name of a split never ends so.
OTHER_KINDS = (
    ".arrow", ".bz2", ".doc", ".docx", ".gz", ".html", ".lz4", ".npy", ".npz", ".ods", ".odt", ".pdf", ".pkl", ".rtf",
    ".tab", ".tar", ".tgz", ".tmx", ".xls", ".xlsx", ".xml", ".xz", ".yaml", ".yml", ".zip", ".zst",
)  # fmt: skip

TEXT, ENDS = "text", "ends_document"  # the columns of a text file's rows
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


def local_file(value: str) -> Path | None:
    """The path that a field of `data` names, if its suffix is that of a kind of file that is read."""
    path = Path(value).expanduser()
    return path if path.suffix.lower() in SUFFIXES else None


def columns_of(path: Path) -> list[str]:
    """The names of the columns of a file: of its header, its schema, or its first row.

    Raises:
        ValueError: when the file is empty or malformed.
    """
    if path.suffix.lower() == ".parquet":
        return _parquet(path).schema_arrow.names
    if path.suffix.lower() in (".csv", ".tsv"):
        return _header(_cells(path), path)
    for _, row in read_rows(path):
        return list(row)
    raise ValueError(f"{path} is empty.")


def read_rows(path: Path, documents: bool = False) -> Iterator[Row]:
    """Yields the rows of a file with the place of each.

    Args:
        path: a file whose suffix is one of `READERS`, or a text file.
        documents: whether the blank lines of a text file part documents; else the file is one document.

    Raises:
        ValueError: at the first row that is malformed, naming the file and the line.
    """
    suffix = path.suffix.lower()
    if suffix == ".txt":
        return _read_text(path, documents)
    return READERS[suffix](path)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, without their ends. Raises ValueError where it is not UTF-8."""
    for _, line in _marked(_lines(path)):
        yield line.removesuffix("\n").removesuffix("\r")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file from 1 on, line ends kept."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield number, line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{path}, line {number}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8; "
                    "save the file as UTF-8."
                ) from None


def _marked(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The same lines without the byte order mark that some editors put first."""
    for number, line in lines:
        yield number, line.removeprefix("\ufeff") if number == 1 else line


def _read_json_lines(path: Path) -> Iterator[Row]:
    for number, line in _marked(_lines(path)):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            row = json.loads(line, object_pairs_hook=_object_of)
        except json.JSONDecodeError as error:
            raise ValueError(f"{place}: not valid JSON ({error.msg} at character {error.colno}).") from None
        except _NamedTwice as error:
            raise ValueError(f"{place}: {error}") from None
        yield place, _object(row, place)


def _read_json(path: Path) -> Iterator[Row]:
    """A list of objects, or JSON lines under the other suffix."""
    text = "".join(line for _, line in _marked(_lines(path)))
    if not text.lstrip().startswith("["):
        yield from _read_json_lines(path)
        return
    try:
        rows = json.loads(text, object_pairs_hook=_object_of)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: not valid JSON ({error.msg}).") from None
    except _NamedTwice as error:
        raise ValueError(f"{path}: {error}") from None
    for number, row in enumerate(rows, 1):
        place = f"{path}, item {number}"
        yield place, _object(row, place)


class _NamedTwice(ValueError):
    """Of two values under one name JSON's reader would keep the last and say nothing."""


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise _NamedTwice(f"the name '{next(name for name in names if names.count(name) > 1)}' stands twice in a row.")
    return values


def _object(row: Any, place: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f'{place}: a row must be an object such as {{"text": "..."}}, not {json.dumps(row)[:40]}.')
    return row


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row of a CSV or TSV file, with the row's last line."""
    lines = _marked(_lines(path))
    if path.suffix.lower() == ".tsv":
        for number, line in lines:
            yield number, line.rstrip("\r\n").split("\t")
        return
    csv.field_size_limit(2**31 - 1)  # the module's own limit, 128 KiB, is a document's size
    reader = csv.reader((line for _, line in lines), strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: not valid CSV ({error}).") from None
        yield reader.line_num, cells


def _header(rows: Iterator[tuple[int, list[str]]], path: Path) -> list[str]:
    _, header = next(rows, (1, []))
    if not any(header):
        raise ValueError(f"{path} is empty: its first line names the columns, and rows follow.")
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{path}, line 1: the column '{twice}' is named twice.")
    return header


def _read_cells(path: Path) -> Iterator[Row]:
    rows = _cells(path)
    header = _header(rows, path)
    for number, cells in rows:
        if not any(cells) and len(cells) <= 1:
            continue  # an empty line
        place = f"{path}, line {number}"
        if len(cells) != len(header):
            raise ValueError(f"{place}: {len(cells)} cells where the first line names {len(header)} columns.")
        yield place, dict(zip(header, cells, strict=True))


def _read_conll(path: Path) -> Iterator[Row]:
    """Lines that are no words are left out: comments, ranges and empty nodes of .conllu; CoNLL-2003's -DOCSTART-."""
    universal = path.suffix.lower() == ".conllu"
    names, words, first = list(CONLLU) if universal else [], [], 1
    for number, line in _marked(_lines(path)):
        line = line.rstrip("\r\n")
        if not line.strip():
            if words:
                yield f"{path}, line {first}", _sentence(names, words)
            words = []
            continue
        if universal and line.startswith("#"):
            continue
        cells = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))  # a word may hold other spaces
        if universal and not cells[0].isdecimal() and re.fullmatch(r"\d+[-.]\d+", cells[0]):
            continue
        if cells[0] == "-DOCSTART-":
            continue
        if not names:
            names = ["tokens", *map(str, range(2, len(cells))), "tags"]
        if len(cells) != len(names):
            raise ValueError(f"{path}, line {number}: {len(cells)} columns where {len(names)} are wanted.")
        first = first if words else number
        words.append(cells)
    if words:
        yield f"{path}, line {first}", _sentence(names, words)


def _sentence(names: list[str], words: list[list[str]]) -> dict[str, Any]:
    return {name: list(column) for name, column in zip(names, zip(*words, strict=True), strict=True)}


def _parquet(path: Path) -> Any:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{path} is not a Parquet file ({str(error).splitlines()[0]}).") from None


def _read_parquet(path: Path) -> Iterator[Row]:
    number = 0
    for batch in _parquet(path).iter_batches(batch_size=1024):
        for row in batch.to_pylist():
            number += 1
            yield f"{path}, row {number}", row


def _read_text(path: Path, documents: bool) -> Iterator[Row]:
    """Pieces that joined are the file, character for character; each says whether a document ends with it.

    A piece ends at the end of a line, so that hardly a word is cut even where a tokenizer joins words; memory is
    bounded by the longest line. A document ends with the last blank line after it, or with the file.
    """
    pieces = _document_pieces(path) if documents else _line_pieces(path)
    previous: tuple[int, str, bool] | None = None
    for piece in pieces:
        if previous is not None:
            yield _text_row(path, *previous)
        previous = piece
    if previous is not None:
        yield _text_row(path, previous[0], previous[1], True)


def _text_row(path: Path, number: int, text: str, ends: bool) -> Row:
    return f"{path}, line {number}", {TEXT: text, ENDS: ends}


def _line_pieces(path: Path) -> Iterator[tuple[int, str, bool]]:
    for number, lines in _grouped(_lines(path)):
        yield from ((number, part, False) for part in _cut(lines))


def _document_pieces(path: Path) -> Iterator[tuple[int, str, bool]]:
    first, lines = 1, []
    blank = written = False  # whether the line before was blank; whether the document has more than blank lines
    for number, line in _lines(path):
        if line.strip():
            if blank and written:
                yield from _ended(first, "".join(lines))
                first, lines = number, []
            written = True
        lines.append(line)
        blank = not line.strip()
    if lines:
        yield from _ended(first, "".join(lines))


def _ended(first: int, document: str) -> Iterator[tuple[int, str, bool]]:
    parts = list(_cut(document))
    for index, part in enumerate(parts):
        yield first, part, index == len(parts) - 1


def _grouped(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    first, parts, length = 1, [], 0
    for number, line in lines:
        if not parts:
            first = number
        parts.append(line)
        length += len(line)
        if length >= PIECE_LENGTH:
            yield first, "".join(parts)
            parts, length = [], 0
    if parts:
        yield first, "".join(parts)


def _cut(text: str) -> Iterator[str]:
    """Parts of at most `LONGEST_PIECE` characters, cut before a space where there is one."""
    start = 0
    while len(text) - start > LONGEST_PIECE:
        spaces = [match.start() for match in re.finditer(r"\s", text[start + PIECE_LENGTH : start + LONGEST_PIECE])]
        end = start + (PIECE_LENGTH + spaces[-1] if spaces else LONGEST_PIECE)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".jsonl": _read_json_lines,
    ".json": _read_json,
    ".csv": _read_cells,
    ".tsv": _read_cells,
    ".parquet": _read_parquet,
    ".conll": _read_conll,
    ".conllu": _read_conll,
}
SUFFIXES = (*READERS, ".txt")
