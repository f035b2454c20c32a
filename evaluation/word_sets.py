"""The test sets of word vectors, read from files: pairs with scores, analogies in sections, words in categories.

Each reader takes the file as its makers publish it as well as a table with a header: fields are parted by tabs,
commas, semicolons or, where there are none of these, by blanks. Lines that begin with `#` are comments. A table whose
columns could be others than those that are asked for is refused, since a test set misread gives a number all the same.
"""

import csv
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

logger = logging.getLogger(__name__)

# How headers name columns, in lower case and without blanks and signs.
FIRST_WORDS, SECOND_WORDS = ("word1", "w1", "wordone", "firstword"), ("word2", "w2", "wordtwo", "secondword")
SCORES = (  # the first of these that there is
    "score",
    "meanscore",
    "averagescore",
    "humanmean",
    "mean",
    "average",
    "humanscore",
    "simlex999",
    "rating",
    "similarity",
    "relatedness",
)
CATEGORIES = ("category", "class", "group", "section", "relation", "type", "label", "topic", "cluster")
WORDS = ("word", "words", "item", "member", "term", "instance", "concept")
FOUR_WORDS = tuple({"a", "b", "c", "d"} | {f"{name}{i}" for name in ("word", "w", "term") for i in range(1, 5)})
INDICES = ("", "id", "index", "no", "nr", "number")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
NO_NAME = re.compile(
    r"|-|\?|na|n/a|nan|none|null|[+-]?inf|[+-]?\.?[0-9].*"
)  # a score, though one that is missing or bad
LETTER = re.compile(r"[A-Za-z]")
TAGGED = re.compile(r"(.+)-[nvjar]")  # a lemma with its part of speech, as in a published form of MEN


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
        ValueError: two files of one name, or no file.
    """
    named: dict[str, str] = {}
    for text in files:
        name, path = _name_and_path(text)
        if not path.strip():
            raise ValueError(f"'{text}' names no file of {kind}: give FILE, or NAME=FILE.")
        base = Path(path).name
        name = name or base.lstrip(".").partition(".")[0] or base
        if name in named:
            raise ValueError(f"Two sets of {kind} are called '{name}': tell them apart by a name, as in first={path}.")
        named[name] = path
    return named


def _name_and_path(text: str) -> tuple[str, str]:
    """A path may hold an equals sign itself: what leads to a file is taken, and else what follows the first sign."""
    if Path(text).is_file() or "=" not in text:
        return "", text
    parts = text.split("=")
    ways = [("=".join(parts[:i]), "=".join(parts[i:])) for i in range(1, len(parts))]
    return next(((name, path) for name, path in ways if Path(path).is_file()), ways[0])


def read_similarity(path: str | os.PathLike[str]) -> list[Pair]:
    """Pairs of words with a score.

    The words are in the columns that a header calls word1 and word2, else in the first two; the score is in the one
    that it calls `score`, `mean` or the like, else in the first after the words that is a number in every row. A first
    line is a header where it names the words, or where it has no number in the column of the scores. Where every word
    ends in a part of speech, as in `sun-n`, it is taken off, and a warning says so.

    Raises:
        ValueError: no such file, no text, not such a table, or one whose words must be in other columns; the sentence
            names the file and the line.
    """
    rows = _rows(path)
    names = [_plain(field) for field in rows[0][1]]
    first, second = (
        next((i for i, n in enumerate(names) if n in known), None) for known in (FIRST_WORDS, SECOND_WORDS)
    )
    named = first is not None and second is not None
    words = (first, second) if named else (0, 1)
    data = rows[1:]
    width = max(3, *(place + 1 for place in words))
    if data:
        _check_width(path, data, width, "two words and a score", filled=words)
        column = _score_column(data, names, words)
        cell = rows[0][1][column] if column < len(names) else ""
        if not named and _plain(cell) not in SCORES and NO_NAME.fullmatch(cell.lower()):
            data = rows  # the first line is a pair like the others
        elif len(names) < (least := min(len(fields) for _, fields in data)):
            raise ValueError(
                f"'{path}' has a header of {len(names)} names, and its rows have {least} fields: name every column."
            )
    elif not named:
        data = rows
    _check_width(path, data, width, "two words and a score", filled=words)
    if len(data) < 2:
        raise ValueError(
            f"'{path}' holds {len(data) or 'no'} pair{'' if len(data) == 1 else 's'} of words with a score: "
            "a correlation takes two or more."
        )
    if not named:
        _check_first_columns(path, data)
    column = _score_column(data, names if data is not rows else [], words)
    for line, fields in data:
        if not _is_number(fields[column]):
            comma = " and no comma" if DECIMAL_COMMA.fullmatch(fields[column]) else ""
            raise ValueError(
                f"'{path}', line {line}: '{fields[column][:80]}' is no score, which must be a finite number, with a "
                f"decimal point{comma}."
            )
    found = [Pair(fields[words[0]], fields[words[1]], float(fields[column])) for _, fields in data]
    bare = _without_tags(path, [word for pair in found for word in pair[:2]])
    return [Pair(a, b, pair.score) for a, b, pair in zip(bare[::2], bare[1::2], found, strict=True)]


def _score_column(rows: Sequence[tuple[int, list[str]]], names: Sequence[str], words: Sequence[int]) -> int:
    """The column of the scores: one that is named so, else the first after the words that mostly holds numbers, or as
    many as there are in any. What is no number in it can be shown then, and no column beside it is taken instead."""
    width = min(len(fields) for _, fields in rows)
    others = [i for i in range(width) if i not in words]
    for name in SCORES:
        if (column := next((i for i in others if i < len(names) and names[i] == name), None)) is not None:
            return column

    def numbers(column: int) -> int:
        cells = [fields[column] for _, fields in rows]
        return sum(_is_number(cell) or DECIMAL_COMMA.fullmatch(cell) is not None for cell in cells)

    columns = [i for i in others if i > max(words)] or others
    return next((i for i in columns if numbers(i) > len(rows) / 2), max(columns, key=numbers))


def _check_first_columns(path: str | os.PathLike[str], rows: Sequence[tuple[int, list[str]]]) -> None:
    """Without names the words are in the first two columns; an index or a letter for the relation in the first, and
    a word in the third, tell that they are not."""
    first = [fields[0] for _, fields in rows]
    kind = "number" if all(map(_is_number, first)) else "letter" if all(map(LETTER.fullmatch, first)) else None
    if kind is not None and not any(_is_number(fields[2]) for _, fields in rows):
        line, fields = rows[0]
        raise ValueError(
            f"'{path}', line {line}: the first column, '{fields[0]}', is a {kind} in every row, and the third is a "
            f"word, '{fields[2]}': put the words into the first two columns, or add a header such as word1, word2, "
            "score that names them."
        )


def _without_tags(path: str | os.PathLike[str], words: Sequence[str]) -> list[str]:
    """Words without their parts of speech, where every one has one."""
    found = [TAGGED.fullmatch(word) for word in words]
    if not all(found):
        return list(words)
    logger.warning("'%s': the words end in parts of speech, as in '%s', which are taken off.", path, words[0])
    return [match[1] for match in found]


def read_analogies(path: str | os.PathLike[str]) -> list[Question]:
    """Questions in sections: five fields, the section first, or four words a line under lines such as `: family`.

    Raises:
        ValueError: no such file, no text, or neither of the two; the sentence names the file and the line.
    """
    rows = _rows(path, sections=True)
    if rows[0][1][0].startswith(":"):
        return _sectioned(path, rows)
    if len(rows[0][1]) == 4:
        line, fields = rows[0]
        raise ValueError(
            f"'{path}', line {line}: '{' '.join(fields)}' is not a section and four words; lines of four words follow "
            "one that names their section, such as ': family'."
        )
    names, sections = [_plain(field) for field in rows[0][1]], Counter(fields[0] for _, fields in rows)
    named = names[0] in CATEGORIES and sections[rows[0][1][0]] == 1
    if named or (len(names) == 5 and all(name in FOUR_WORDS for name in names[1:])):
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
    """Words with the category that each belongs to: two fields, the category first, or as a header names them (`word`
    and `category`, or the like). A line with a category and no word, as there is after each category of some published
    copies, lists nothing. Parts of speech are taken off as in `read_similarity`.

    Raises:
        ValueError: no such file, no text, not such a table, more than two columns without these names, fewer than two
            categories, or a word in each alone.
    """
    table = _rows(path)
    category, word, rows = _category_columns(table)
    if rows is table and (wide := next((row for row in table if len(row[1]) > 2), None)) is not None:
        line, fields = wide
        raise ValueError(
            f"'{path}', line {line}: '{' '.join(fields)}' has more than two fields, and no header says which of them "
            "are the category and the word: name the columns category and word."
        )
    _check_width(path, rows, max(category, word) + 1, "a category and a word", filled=[category])
    members = _some(path, [Member(fields[category], fields[word]) for _, fields in rows if fields[word]])
    several = {member.category for member in members}
    if len(several) < 2:
        raise ValueError(
            f"'{path}' has one category, '{members[0].category}': clusters are told apart by two or more."
        )
    if len(several) >= len({member.word for member in members}):
        raise ValueError(
            f"'{path}' has {len(several):,} categories, such as '{members[0].category}', and no more words than that: "
            "are the columns swapped? The category comes first, or a header names word and category."
        )
    bare = _without_tags(path, [member.word for member in members])
    return [Member(member.category, word) for member, word in zip(members, bare, strict=True)]


def _category_columns(rows: list[tuple[int, list[str]]]) -> tuple[int, int, list[tuple[int, list[str]]]]:
    """The columns of categories and of words, and the rows without a header. A header's name for the category is no
    category of another row."""
    fields = rows[0][1]
    names = [_plain(field) for field in fields]
    category = next((i for i, name in enumerate(names) if name in CATEGORIES), None)
    if category is None and len(names) == 2 and (set(names) & set(WORDS[:2])):  # a name of its own beside `word`
        category = 0 if names[1] in WORDS[:2] else 1
    if category is None or sum(len(row) > category and row[category] == fields[category] for _, row in rows) > 1:
        return 0, 1, rows
    others = [i for i, name in enumerate(names) if i != category and name not in INDICES]
    word = next((i for i in others if names[i] in WORDS), others[0] if others else None)
    return (0, 1, rows) if word is None else (category, word, rows[1:])


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
    separator = _separator([line for _, line in lines if not (sections and line.startswith(":"))])
    if separator is None:
        return [(number, line.split()) for number, line in lines]
    quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    found = []
    for number, line in lines:
        try:
            (fields,) = csv.reader([line], delimiter=separator, quoting=quoting)
        except csv.Error as error:  # such as a field of more than 131,072 characters
            raise ValueError(f"'{path}', line {number}: it cannot be read as fields: {error}.") from error
        found.append((number, [field.strip() for field in fields]))
    return found


def _separator(lines: Sequence[str]) -> str | None:
    """What parts the fields of a table; of commas and semicolons the latter where each line has as many: the former
    are in numbers then."""
    if not lines or "\t" in lines[0]:
        return "\t" if lines else None
    if ";" in lines[0] and len({line.count(";") for line in lines}) == 1:
        return ";"
    return next((one for one in (",", ";") if one in lines[0]), None)


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
    return NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def _plain(text: str) -> str:
    """A name of a column as it is compared: `Human (Mean)` is `humanmean`."""
    return "".join(one for one in text.lower() if one.isalnum())
