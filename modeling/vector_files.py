"""Files of word vectors: the formats of word2vec (text and binary), GloVe and fastText, and each of them compressed.

| format | header | a word's record |
|---|---|---|
| word2vec text, fastText .vec | `V D` | the word, a blank, D decimal numbers and a newline |
| word2vec binary | `V D` | the word, a blank, D numbers of four bytes, in some files a newline |
| GloVe text | none | as word2vec text |

They are told apart by what is in the file. That can err in one case: a binary file of a few numbers whose bytes happen
to spell a text. Axes: V vocabulary, D width.
"""

import gzip
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from transformers.utils import logging

from .decimals import PADDING, find_numbers, parse_numbers

logger = logging.get_logger(__name__)

HEAD = 2**16  # bytes by which the format is told
BLOCK = 2**19  # bytes that are parsed together
LONGEST = 2**24  # bytes of a line
PACKED = 1032  # times that gzip can make a file smaller, at most
HEADER = re.compile(rb"\s*(\d+)[ \t]+(\d+)[ \t\r]*(?:\n|\Z)")
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
BLANKS = re.compile(r"[ \t\n\r\f\v]")

NOT_READ = {
    b"\x80": "is a pickle, as gensim's save() writes, and is not read, since a pickle can run any code: load it in "
    "gensim and write it again by save_word2vec_format",
    b"\x93NUMPY": "is an array without words, as gensim's save() puts beside its pickle: load the pickle in gensim "
    "and write it again by save_word2vec_format",
    b"PK\x03\x04": "is a zip archive: unpack it and give the file in it",
    b"BZh": "is compressed by bzip2: unpack it, or compress it by gzip",
    b"\xfd7zXZ": "is compressed by xz: unpack it, or compress it by gzip",
    b"\xba\x16\x4f\x2f": "is fastText's own .bin: use the .vec file that fastText writes beside it",
}


def read_vectors(
    path: str | os.PathLike[str], limit: int | None = None, errors: Literal["strict", "replace", "ignore"] = "strict"
) -> tuple[list[str], np.ndarray]:
    """Words and their vectors from a file in any of the formats.

    Of a word that occurs twice the first vector is kept, with a warning.

    Args:
        path: the file.
        limit: read so many words from the beginning.
        errors: what to do with words that are not UTF-8, as in `bytes.decode`.

    Returns:
        the words, and float32 of shape (V, D).

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it has none of the formats, is cut off or damaged; the sentence names the line or word.
    """
    path = Path(path)
    try:
        with _opened(path) as file:
            head = file.read(HEAD) + file.readline(LONGEST)
            for magic, reason in NOT_READ.items():
                if head.startswith(magic):
                    raise ValueError(f"{path} {reason}.")
            if not head.strip():
                raise ValueError(f"{path} is empty.")
            skipped = 3 if head.startswith(b"\xef\xbb\xbf") else 0  # a mark of byte order
            header = HEADER.match(head, skipped)
            if header is None:
                if CONTROL.search(head):
                    raise ValueError(
                        f"{path} is no file of word vectors: it is neither text nor has it a header `V D`."
                    )
                num_words, width, binary = None, _common_width(head[skipped:], path), False
            else:
                skipped = header.end()
                num_words, width = _read_header(header, path)
                binary = _is_binary(head[skipped:], width)
            file.seek(skipped)
            read = _read_binary if binary else _read_text
            words, vectors = read(file, path, num_words, width, limit, errors, 2 if header else 1)
    except (EOFError, gzip.BadGzipFile, gzip.zlib.error) as error:
        raise ValueError(f"{path} cannot be decompressed, it may be cut off: {error}.") from None
    return _first_of_each(words, vectors, path)


def write_vectors(
    path: str | os.PathLike[str], words: Sequence[str], vectors: np.ndarray, binary: bool = False
) -> None:
    """Write word2vec's text or binary format, compressed if the name ends in .gz.

    Text has nine significant digits, by which float32 is read again exactly. The file appears when it is complete.

    Args:
        path: the file, replaced if it is there.
        words: in the order of the rows.
        vectors: (V, D).
        binary: write numbers of four bytes.

    Raises:
        ValueError: before anything is written, if there is nothing to write, words and vectors do not fit together, a
            word occurs twice, is empty or holds white space, at which other tools would cut it, or is not valid
            Unicode, or if a number is not finite.
    """
    vectors = np.asarray(vectors, dtype="<f4")
    check_words(words)
    if vectors.ndim != 2 or len(vectors) != len(words) or not vectors.size:
        raise ValueError(
            f"vectors of shape {vectors.shape} cannot be written for {len(words)} words: there must be a row for each "
            "of them, and at least one number."
        )
    for word in words:
        if not word or BLANKS.search(word):
            raise ValueError(
                f"the word {word!r} cannot be written: the word2vec format has no empty words and none with white "
                "space; join its parts by an underscore."
            )
    encoded = [_encode(word) for word in words]
    _check_finite(vectors, words, "cannot be written")
    record = " ".join(["%.9g"] * vectors.shape[1])
    with _replacing(Path(path)) as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n".encode())
        for word, vector in zip(encoded, vectors, strict=True):
            numbers = vector.tobytes() if binary else (record % tuple(vector.tolist())).encode()
            file.write(word + b" " + numbers + b"\n")


# Telling formats apart


def _read_header(header: re.Match[bytes], path: Path) -> tuple[int, int]:
    """V and D, if the file can hold a vector of that width: an array is made for it."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        size *= PACKED if file.read(2) == b"\x1f\x8b" else 1
    long = max(map(len, header.groups())) > 18
    num_words, width = (0, 0) if long else map(int, header.groups())
    if long or 2 * width > size:  # a number takes a digit and a blank, or four bytes
        shown = header[0].decode().strip()
        raise ValueError(
            f"{path}: the header says {shown[:40]!r}, words and width, for which the file is too short: it is cut off "
            "or damaged."
        )
    if num_words < 1 or width < 1:
        raise ValueError(f"{path}: the header says {num_words} words of width {width}: there is nothing.")
    return num_words, width


def _is_binary(records: bytes, width: int) -> bool:
    """Whether what follows the header is binary, from its first bytes.

    Text has the right number of decimal numbers in its first line; damaged text at least no control characters.
    """
    numbers = records.split(b"\n", 1)[0].rsplit(None, width)[1:]
    if len(numbers) == width and all(map(_is_number, numbers)):
        return False
    try:
        records[: records.rfind(b"\n") + 1].decode("utf-8")
    except UnicodeDecodeError:
        return True
    return CONTROL.search(records) is not None


def _common_width(head: bytes, path: Path) -> int:
    """How many numbers most of the first lines end in, in a file without a header."""
    lines = head.split(b"\n")
    lines = [line.split() for line in (lines[:-1] or lines)]
    widths = Counter()
    for parts in lines:
        numeric = [_is_number(part) for part in parts[1:]][::-1]
        widths[numeric.index(False) if False in numeric else len(numeric)] += 1
    width = widths.most_common(1)[0][0]
    if width < 1:
        raise ValueError(f"{path} is no file of word vectors: its lines are not a word and numbers.")
    return width


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return b"_" not in text


# Text


def _read_text(
    file: BinaryIO, path: Path, num_words: int | None, width: int, limit: int | None, errors: str, line: int
) -> tuple[list[str], np.ndarray]:
    """Records of text; `line` is the number of the first one's line."""
    wanted = min(limit or num_words, num_words) if num_words else limit
    words: list[str] = []
    table = _Table(width)
    for lines in _blocks_of_lines(file):
        if wanted is not None and len(words) + len(lines) >= wanted and limit:
            lines = lines[: wanted - len(words)]
        new_words, vectors = _parse_lines(lines, width, path, line + len(words))
        words += _decode(new_words, errors, path, len(words))
        _check_finite(vectors, words[-len(vectors) :], f"in {path} cannot be used")
        table.add(vectors)
        if limit and len(words) == wanted:
            break
    if num_words and len(words) != (wanted if limit else num_words):
        raise ValueError(
            f"{path}: the header says {num_words} words, and the file has {len(words)}: it may be cut off."
        )
    return words, table.finished()


def _blocks_of_lines(file: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a file with their ends, many at a time, without empty ones after the last."""
    empty: list[bytes] = []
    while lines := file.readlines(BLOCK):
        lines = empty + lines
        last = len(lines)
        while last and not lines[last - 1].strip():
            last -= 1
        empty = lines[last:]
        if last:
            yield lines[:last]


def _parse_lines(lines: list[bytes], width: int, path: Path, first: int) -> tuple[list[bytes], np.ndarray]:
    """Words and vectors of some lines, the first of which has this number in the file."""
    words, _, numbers = map(list, zip(*(line.partition(b" ") for line in lines), strict=True))
    text, starts, ends, found = _lay_out(numbers)
    irregular = [row for row in np.flatnonzero(found != width)] + [row for row, word in enumerate(words) if not word]
    if irregular:
        for row in irregular:
            words[row], numbers[row] = _split(lines[row], width, path, first + int(row))
        text, starts, ends, _ = _lay_out(numbers)
    try:
        return words, parse_numbers(text, starts, ends).reshape(len(lines), width)
    except ValueError:
        row, bad = next(
            (row, part) for row, line in enumerate(numbers) for part in line.split() if not _is_number(part)
        )
        raise ValueError(f"{path}, line {first + row}: {bad!r} is no number.") from None


def _lay_out(numbers: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ends of lines one after the other, where each number in them begins and ends, and how many each of them has."""
    padding = b" " * PADDING
    text = np.frombuffer(b"".join([padding, *numbers, padding]), dtype=np.uint8)
    starts, ends = find_numbers(text)
    lengths = np.array([len(part) for part in numbers])
    bounds = PADDING + np.concatenate([[0], lengths.cumsum()])
    return text, starts, ends, np.diff(np.searchsorted(starts, bounds))


def _split(line: bytes, width: int, path: Path, number: int) -> tuple[bytes, bytes]:
    """A line that is not a word, a blank and the right number of numbers.

    There are published words with blanks in them; more numbers than there should be are no part of a word.

    Raises:
        ValueError: if it is no record.
    """
    parts = line.split()
    surplus = parts[1 : len(parts) - width]
    if len(parts) <= width or any(map(_is_number, surplus)) or line[:1].isspace():
        found = sum(map(_is_number, parts[1:]))
        what = "no word" if line[:1].isspace() else f"{found} numbers where {width} belong"
        raise ValueError(f"{path}, line {number}: {what}, in {_shown(line)}.")
    word = line.rsplit(None, width)[0]
    return word, line[len(word) :]


# Binary


def _read_binary(
    file: BinaryIO, path: Path, num_words: int, width: int, limit: int | None, errors: str, line: int
) -> tuple[list[str], np.ndarray]:
    """Records of a word, a blank and four bytes a number."""
    wanted = min(limit or num_words, num_words)
    size = 4 * width
    words: list[str] = []
    table = _Table(width)
    data = b""
    while len(words) < wanted:
        more = file.read(min(max(BLOCK, 2 * size), LONGEST))
        if not more:
            raise ValueError(
                f"{path}: the header says {num_words} words of width {width}, and the file ends after "
                f"{len(words)}: it is cut off, or its numbers do not have four bytes."
            )
        data, place = data + more, 0
        new_words, numbers = [], []
        while len(words) + len(new_words) < wanted:
            start = data.find(b" ", place) + 1
            if not start or start + size > len(data):
                break
            new_words.append(data[place : start - 1].lstrip(b"\n"))
            numbers.append(data[start : start + size])
            place = start + size
        data = data[place:]
        decoded = _decode(new_words, errors, path, len(words))
        vectors = np.frombuffer(b"".join(numbers), dtype="<f4").reshape(-1, width)
        _check_finite(vectors, decoded, f"in {path} cannot be used")
        words += decoded
        table.add(vectors)
    if wanted == num_words and (data + file.read(BLOCK)).strip(b"\n"):
        raise ValueError(f"{path}: the header says {num_words} words of width {width}, and more follows them.")
    return words, table.finished()


class _Table:
    """Rows of float32 that come by blocks; memory grows in place where the system can, so that none is there twice."""

    def __init__(self, width: int):
        self.rows, self.filled = np.empty((0, width), dtype=np.float32), 0

    def add(self, vectors: np.ndarray) -> None:
        end = self.filled + len(vectors)
        if end > len(self.rows):
            self._resize(max(end, len(self.rows) * 5 // 4))
        self.rows[self.filled : end] = vectors
        self.filled = end

    def finished(self) -> np.ndarray:
        self._resize(self.filled)
        return self.rows

    def _resize(self, number: int) -> None:
        self.rows.resize((number, self.rows.shape[1]), refcheck=False)


# Words


def check_words(words: Sequence[str]) -> None:
    """See that words are strings, each there once.

    Raises:
        ValueError: if not.
    """
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"a word must be a string, not {word!r}.")
    if len(set(words)) < len(words):
        double = Counter(words).most_common(1)[0][0]
        raise ValueError(f"a word must occur once: {double!r} occurs twice.")


def _decode(words: list[bytes], errors: str, path: Path, before: int) -> list[str]:
    """Each word by itself: a binary file can have one with a newline in it."""
    decoded = []
    for number, word in enumerate(words, before + 1):
        try:
            text = word.decode("utf-8", errors)
        except UnicodeDecodeError:
            raise ValueError(
                f"{path}, word {number}: {word!r} is not UTF-8; errors='replace' reads it all the same."
            ) from None
        if not text:
            without = f" without what is not UTF-8 in {word!r}" if word else ""
            raise ValueError(f"{path}, word {number}: it is empty{without}.")
        decoded.append(text)
    return decoded


def _encode(word: str) -> bytes:
    try:
        return word.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"the word {word!r} cannot be written: it is not valid Unicode.") from None


def _first_of_each(words: list[str], vectors: np.ndarray, path: Path) -> tuple[list[str], np.ndarray]:
    """Without the rows of words that came before."""
    if len(set(words)) == len(words):
        return words, vectors
    rows: dict[str, int] = {}
    for row, word in enumerate(words):
        rows.setdefault(word, row)
    double = next(word for row, word in enumerate(words) if rows[word] != row)
    logger.warning(
        f"{path}: {len(words) - len(rows)} words occur again, such as {double!r}: the first vector of each is kept."
    )
    return list(rows), vectors[list(rows.values())]


def _check_finite(vectors: np.ndarray, words: Sequence[str], what: str) -> None:
    finite = np.isfinite(vectors).all(1)
    if not finite.all():
        word = words[int(finite.argmin())]
        raise ValueError(f"the vector of {word!r} {what}: it holds a number that is not finite in float32.")


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


# Files


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with open(path, "rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not compressed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file under another name in the same folder, which becomes `path` when all is written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(partial, "wb") as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                    yield packed
            else:
                yield file
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
