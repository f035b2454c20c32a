"""The test sets of word vectors, read from files: pairs with scores, analogies in sections, words in categories.

Each reader takes the file as its makers publish it as well as a table with a header: fields are parted by tabs,
commas, semicolons or, where there are none of these, by blanks. Lines that begin with `#` are comments.
"""

import csv
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SEPARATORS = ("\t", ",", ";")


class Pair(NamedTuple):
    """Two words, and how alike people found them."""

    word1: str
    word2: str
    score: float


class Question(NamedTuple):
    """`a` is to `b` as `c` is to `d`."""

    section: str
    a: str
    b: str
    c: str
    d: str


class Member(NamedTuple):
    """A word, and the category that it belongs to."""

    category: str
    word: str


def name_files(files: Sequence[str], kind: str) -> dict[str, str]:
    """Each file under a name: `mine=file.tsv` says it, otherwise it is the file's name without its ending.

    Raises:
        ValueError: two files of one name.
    """
    named: dict[str, str] = {}
    for text in files:
        name, _, path = text.rpartition("=") if "=" in text and not Path(text).is_file() else ("", "", text)
        name = name or Path(path).name.partition(".")[0]
        if name in named:
            raise ValueError(f"Two sets of {kind} are called '{name}': tell them apart by a name, as in first={path}.")
        named[name] = path
    return named


def read_similarity(path: str | os.PathLike[str]) -> list[Pair]:
    """Pairs of words with a score: the first two fields, and the first that is a number in every row.

    A first line whose other fields hold no number is a header; a column that it calls `score` is taken for it.

    Raises:
        ValueError: no such file, no text, or not such a table; the sentence names the file and the line.
    """
    rows = _rows(path)
    header = rows[0][1] if not any(_is_number(field) for field in rows[0][1][2:]) else []
    rows = rows[1:] if header else rows
    _check_width(path, rows, 3, "two words and a score", filled=[0, 1])
    if len(rows) < 2:
        raise ValueError(f"'{path}' holds {len(rows)} pair of words with a score: a correlation takes two or more.")
    columns = range(2, min(len(fields) for _, fields in rows))
    named = [column for column in columns if column < len(header) and header[column].strip().lower() == "score"]
    numbers = [column for column in named or columns if all(_is_number(fields[column]) for _, fields in rows)]
    if not numbers:
        column = (named or list(columns))[0]
        line, fields = next((line, fields) for line, fields in rows if not _is_number(fields[column]))
        raise ValueError(f"'{path}', line {line}: '{fields[column]}' is no score, which must be a finite number.")
    return [Pair(fields[0], fields[1], float(fields[numbers[0]])) for _, fields in rows]


def read_analogies(path: str | os.PathLike[str]) -> list[Question]:
    """Questions in sections: five fields, the section first, or four words a line under lines such as `: family`.

    Raises:
        ValueError: no such file, no text, or neither of the two; the sentence names the file and the line.
    """
    rows = _rows(path, sections=True)
    if rows[0][1][0].startswith(":"):
        return _sectioned(path, rows)
    if [field.strip().lower() for field in rows[0][1][1:]] == ["a", "b", "c", "d"]:
        rows = rows[1:]
    _check_width(path, rows, 5, "a section and four words", filled=range(5), exactly=True)
    return [Question(*fields) for _, fields in _some(path, rows)]


def _sectioned(path: str | os.PathLike[str], rows: Sequence[tuple[int, list[str]]]) -> list[Question]:
    questions, section = [], ""
    for line, fields in rows:
        if fields[0].startswith(":"):
            section = " ".join(fields).lstrip(":").strip()
            if not section:
                raise ValueError(f"'{path}', line {line}: the section has no name after the colon.")
        elif len(fields) != 4:
            raise ValueError(f"'{path}', line {line}: '{' '.join(fields)}' is not four words.")
        else:
            questions.append(Question(section, *fields))
    return list(_some(path, questions))


def read_categories(path: str | os.PathLike[str]) -> list[Member]:
    """Words with the category that each belongs to: two fields, the category first, or with a header that names
    the columns `word` and `category`. A line with a category and no word, as there is after each category of some
    published copies, lists nothing.

    Raises:
        ValueError: no such file, no text, not such a table, or fewer than two categories.
    """
    rows = _rows(path)
    names = [field.strip().lower() for field in rows[0][1]]
    category, word = 0, 1
    if "word" in names and "category" in names:
        category, word, rows = names.index("category"), names.index("word"), rows[1:]
    _check_width(path, rows, max(category, word) + 1, "a category and a word", filled=[category])
    members = _some(path, [Member(fields[category], fields[word]) for _, fields in rows if fields[word]])
    if len({member.category for member in members}) < 2:
        raise ValueError(
            f"'{path}' has one category, '{members[0].category}': clusters are told apart by two or more."
        )
    return members


def check_sets(sets: Mapping[str, Mapping[str, str]]) -> None:
    """Refuses two sets of one name, of whatever kind: results are told apart by it."""
    seen: dict[str, str] = {}
    for kind, files in sets.items():
        for name in files:
            if name in seen:
                raise ValueError(f"Both a set of {seen[name]} and one of {kind} are called '{name}': rename one.")
            seen[name] = kind


# --- lines and fields ------------------------------------------------------------------------------------------------


def _rows(path: str | os.PathLike[str], sections: bool = False) -> list[tuple[int, list[str]]]:
    """The fields of each line that holds something, with its number; `sections`: lines with a colon are no table's."""
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"There is no file '{path}' to read a test set from.")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"'{path}' is not UTF-8: byte {error.start} cannot be read.") from error
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    lines = [(number, line.rstrip("\r")) for number, line in lines if not line.startswith("#")]
    if not lines:
        raise ValueError(f"'{path}' holds no test set: it is empty.")
    table = [line for _, line in lines if not (sections and line.startswith(":"))]
    separator = next((one for one in SEPARATORS if table and one in table[0]), None)
    if separator is None:
        return [(number, line.split()) for number, line in lines]
    quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    found = []
    for number, line in lines:
        (fields,) = csv.reader([line], delimiter=separator, quoting=quoting)
        found.append((number, [field.strip() for field in fields]))
    return found


def _check_width(
    path: str | os.PathLike[str],
    rows: Sequence[tuple[int, list[str]]],
    width: int,
    what: str,
    filled: Sequence[int],
    exactly: bool = False,
) -> None:
    """Refuses a row with fewer fields than `width`, another number where it is `exactly` that, or an empty field among
    those that must be `filled`."""
    for line, fields in rows:
        fits = len(fields) == width if exactly else len(fields) >= width
        if not fits or not all(fields[i] for i in filled):
            raise ValueError(f"'{path}', line {line}: '{' '.join(fields)}' is not {what}.")


def _some(path: str | os.PathLike[str], items: Sequence) -> Sequence:
    if not items:
        raise ValueError(f"'{path}' holds no test set: there is nothing under its header.")
    return items


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
