"""Text as numbers: sentences from files, data sets or lists, read once and kept as one array of word numbers.

    sentences = TextSentences("text.txt", WordSplitter(r"\\w+", lowercase=True))
    numbered = number_sentences(sentences, "text.ids")           # numbers in order of first appearance, and counts
    vocabulary = numbered.vocabulary(min_count=5)
    corpus = numbered.encode(vocabulary.words, "text.tokens")    # numbers are rows; -1 ends a sentence

A text is read and split once; what follows works on arrays. With a path they are files, mapped into memory, so that a
text may be larger than memory: what grows with it is the dictionary of its distinct words alone. Without a path the
arrays are held in memory. Lines may be of any length, as in a corpus that is one line: what is longer than a mebibyte
is cut at a blank, and its parts are sentences of their own.
"""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import regex

from regard.evaluation.files import replacing
from regard.train.vocabulary import Vocabulary, select_words
from regard.train.word2vec_kernels import MAX_SENTENCE, compiled

BREAK = -1  # ends a sentence
BLOCK = 2**18  # words that are looked up at once
STRETCH = 2**22  # numbers of an array that are worked on at once
LONGEST_LINE = 2**20  # bytes in a file, characters in a row of a data set; a longer one is cut
ROWS = 32  # of a data set that are read at once: each may be a book
CHUNK = 50_000  # words of a chunk, a step of the training; a short text has at least 64 chunks of 1,000 or more
LEAST_CHUNK, CHUNKS_OF_SHORT_TEXT = 1_000, 64
LEFT_OUT = -2  # stands for words without a row while a text is encoded

_WHITESPACE_WORDS = r"\S+"
_NO_WHITESPACE = ("\x1c", "\x1d", "\x1e", "\x1f")  # for Unicode and the tokenizer, though not for str.split
# The names of control tokens are no words, and the tokenizer begins a match at none of them.
_CONTROL_TOKENS = ("<pad>", "<s>", "</s>", "<mask>")
_NOT_CONTROL = "(?!" + "|".join(_CONTROL_TOKENS) + ")"
# What `\w` is for the tokenizer's library, Oniguruma. It lacks the joiners U+200C and U+200D, which are in that of
# `regex`; outside a class such as `[\w-]` it has those numbers of Latin-1 that are no digits.
_WORD_IN_CLASS = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}"
_WORD = _WORD_IN_CLASS + "²³¹¼½¾"
# Texts in which a pattern would show that it matches nothing at all somewhere.
_PROBES = ("", "a", "A1 b_2, c-d.\te'f")


class WordSplitter:
    """What the words of a text are: as `regard.train.tokenization` has them for the kind `word`, several times faster.

    Args:
        pattern: a regular expression of what a word is; `\\S+` is what blanks part. By default words and signs, as
            `regard.train.tokenization.WORD_PATTERN` has them.
        lowercase: lower-case the text first.

    Raises:
        ValueError: for a pattern that is none, or that matches the empty text.
    """

    def __init__(self, pattern: str | None = None, lowercase: bool = False) -> None:
        from regard.train.tokenization import WORD_PATTERN

        self.pattern, self.lowercase = WORD_PATTERN if pattern is None else pattern, lowercase
        try:
            compiled_pattern = regex.compile(_as_the_tokenizer_reads(self.pattern))
        except regex.error as error:
            raise ValueError(f"tokenizer.pattern={pattern!r} is not a regular expression: {error}.") from error
        if compiled_pattern.groups:
            raise ValueError(
                f"tokenizer.pattern={pattern!r} has groups: write them as (?:...), which keeps the match whole."
            )
        if any("" in compiled_pattern.findall(probe) for probe in _PROBES):
            raise ValueError(
                f"tokenizer.pattern={pattern!r} matches the empty text, which is no word: write + in place of *, or "
                "{1,} in place of {0,}."
            )
        # Most texts hold nothing rare, and the shorter pattern finds the same words in them.
        self._find = compiled_pattern.findall
        self._find_exactly = regex.compile(f"{_NOT_CONTROL}(?:{compiled_pattern.pattern})").findall
        self._rare = () if pattern is None else _CONTROL_TOKENS
        if pattern == _WHITESPACE_WORDS:
            self._find, self._rare = str.split, self._rare + _NO_WHITESPACE

    def __call__(self, text: str) -> list[str]:
        """The words of one sentence."""
        text = self.normalize(text)
        return self._finder(text)(text)

    def lines(self, text: str) -> Iterator[list[str]]:
        """The words of each line of a text that has any; a line ends with a newline, with or without a return."""
        text = self.normalize(text)
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        find = self._finder(text)
        for line in text.split("\n"):
            if words := find(line):
                yield words

    def normalize(self, text: str) -> str:
        """NFC, and lower case if asked for, letter by letter: a sigma at the end of a word is one like the others."""
        if text.isascii():
            return text.lower() if self.lowercase else text
        text = unicodedata.normalize("NFC", text)
        if self.lowercase:
            text = unicodedata.normalize("NFC", text.replace("Σ", "σ").lower())
        return text

    def _finder(self, text: str) -> Callable[[str], list[str]]:
        return self._find_exactly if any(rare in text for rare in self._rare) else self._find


def _as_the_tokenizer_reads(pattern: str) -> str:
    """A pattern in which `\\w` and `\\W` are written out as the tokenizer's library takes them."""
    parts, inside = [], False
    for part in regex.findall(r"(?s)\\.|\[:\^?\w+:\]|\[\^?\]?|.", pattern):
        if part == r"\w":
            part = _WORD_IN_CLASS if inside else f"[{_WORD}]"
        elif part == r"\W" and not inside:
            part = f"[^{_WORD}]"
        elif part.startswith("[") and not part.startswith("[:"):
            inside = True
        elif part == "]":
            inside = False
        parts.append(part)
    return "".join(parts)


class TextSentences:
    """The lines of a text file in UTF-8, each a sentence; as often as it is walked through, and in bounded memory.

    Args:
        path: of the file.
        split: makes the sentences of a piece of the text, as `WordSplitter.lines`.
        block: bytes that are read at once.
        longest: bytes of a line that is not cut.

    Raises (when walked through):
        ValueError: for a line that is not UTF-8.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        split: Callable[[str], Iterator[list[str]]],
        block: int = 2**20,
        longest: int = LONGEST_LINE,
    ) -> None:
        self.path, self._split, self._block, self._longest = Path(path), split, block, longest

    def __iter__(self) -> Iterator[list[str]]:
        for text in self.blocks():
            yield from self._split(text)

    def blocks(self) -> Iterator[str]:
        """The text in pieces that end with a line, or with a blank of a line that is too long."""
        lines_before, rest, first = 0, b"", True
        with open(self.path, "rb") as file:
            while block := rest + file.read(self._block):
                line = file.readline(self._longest)
                block, rest = block + line, b""
                if len(line) == self._longest and not line.endswith(b"\n"):
                    end = _last_cut(block)
                    block, rest = block[:end], block[end:]
                try:
                    text = block.decode("utf-8")
                except UnicodeDecodeError as error:
                    number = lines_before + block.count(b"\n", 0, error.start) + 1
                    raise ValueError(
                        f"{self.path}, line {number}: the byte 0x{block[error.start]:02x} is not UTF-8; save the file "
                        "as UTF-8."
                    ) from None
                if first:
                    text, first = text.removeprefix("\ufeff"), False
                lines_before += block.count(b"\n")
                yield text


def _last_cut(block: bytes) -> int:
    """Where to cut bytes that end inside a line: after the last blank, else before the last character."""
    end = max(block.rfind(blank) for blank in (b"\n", b" ", b"\t")) + 1
    if end:
        return end
    end = len(block) - 1
    while end > len(block) - 4 and block[end] & 0xC0 == 0x80:  # a byte that goes on a character of UTF-8
        end -= 1
    return end


class RowSentences:
    """The lines of a column of a data set, each a sentence; as often as it is walked through, and in bounded memory.

    Args:
        dataset: of the library `datasets`, in memory or streamed.
        column: holds the text.
        split: makes the sentences of a piece of the text, as `WordSplitter.lines`.

    Raises:
        ValueError: for a column that is not there, and, when walked through, for a row that holds no text.
    """

    def __init__(self, dataset: Any, column: str, split: Callable[[str], Iterator[list[str]]]) -> None:
        present = dataset.column_names
        if present is not None and column not in present:  # of some streams they are not known
            raise ValueError(
                f"There is no column {column!r} in the data set, which has {', '.join(map(repr, present))}."
            )
        self._dataset, self._column, self._split = dataset.select_columns([column]), column, split

    def __iter__(self) -> Iterator[list[str]]:
        for text in self.blocks():
            yield from self._split(text)

    def blocks(self) -> Iterator[str]:
        """The text in pieces: a row, or a part of one that is long."""
        number = 0
        for rows in self._dataset.iter(ROWS):
            for text in rows[self._column]:
                number += 1
                if not isinstance(text, str):
                    raise ValueError(f"Row {number}: the column {self._column!r} holds {text!r}, not text.")
                yield from _pieces(text)


def _pieces(text: str) -> Iterator[str]:
    """A text in parts of bounded length, cut at the end of a line, else at a blank, else anywhere."""
    start = 0
    while len(text) - start > LONGEST_LINE:
        stop = start + LONGEST_LINE
        end = text.rfind("\n", start, stop) + 1 or max(text.rfind(blank, start, stop) for blank in " \t") + 1 or stop
        yield text[start:end]
        start = end
    yield text[start:] if start else text


@dataclass(frozen=True)
class EncodedCorpus:
    """A text in the numbers of a vocabulary.

    Args:
        tokens: int32, each word by its row, each sentence (of at most 10,000 words) ended by -1.
        num_words: how many of them are words.
    """

    tokens: np.ndarray
    num_words: int

    def chunks(self) -> np.ndarray:
        """int64 of shape (number of chunks + 1,): where each begins and the last ends. None cuts a sentence."""
        wanted = min(CHUNK, max(LEAST_CHUNK, len(self.tokens) // CHUNKS_OF_SHORT_TEXT))
        bounds = [0]
        while bounds[-1] < len(self.tokens):
            near = bounds[-1] + wanted
            coming = self.tokens[near - 1 : near + MAX_SENTENCE]  # holds the end of a sentence, or of the text
            ends = np.flatnonzero(coming == BREAK)
            bounds.append(near + int(ends[0]) if len(ends) else len(self.tokens))
        return np.asarray(bounds)

    @classmethod
    def open(cls, path: str | os.PathLike[str], num_words: int) -> "EncodedCorpus":
        """A corpus that was written to a file."""
        return cls(np.memmap(path, dtype=np.int32, mode="r"), num_words)


@dataclass(frozen=True)
class NumberedText:
    """A text whose words have the numbers of their first appearance, from 0 on; -1 ends a sentence.

    Args:
        words, counts: the distinct words, and how often each occurs, int64.
        tokens: int32; None where only counts were asked for.
    """

    words: list[str]
    counts: np.ndarray
    tokens: np.ndarray | None

    def vocabulary(self, min_count: int = 5, max_words: int | None = None, without: Sequence[str] = ()) -> Vocabulary:
        """As `regard.train.vocabulary.count_words`."""
        return select_words(self.words, self.counts, min_count, max_words, without)

    def encode(self, words: Sequence[str], path: str | os.PathLike[str] | None = None) -> EncodedCorpus:
        """The text in rows of a vocabulary; words without a row are left out, and their neighbours move together.

        Raises:
            ValueError: where no sentence has two words of the vocabulary, so that there is nothing to learn; or for a
                text that was counted alone.
        """
        if self.tokens is None:
            raise ValueError("The text was only counted: call number_sentences with keep_tokens=True to encode it.")
        rows = {word: row for row, word in enumerate(words)}
        table = np.array([rows.get(word, LEFT_OUT) for word in self.words] + [BREAK], dtype=np.int32)  # [-1] is BREAK
        num_words = longest = length = 0
        with ArraySink(path) as sink:
            for start in range(0, len(self.tokens), STRETCH):
                stretch, length, number, most = _encode(np.array(self.tokens[start : start + STRETCH]), table, length)
                num_words, longest = num_words + number, max(longest, most)
                sink.append(stretch)
        if longest < 2:
            if path is not None:
                Path(path).unlink(missing_ok=True)
            raise ValueError(
                "No sentence holds two words of the vocabulary, so there is no context to learn from: give sentences "
                "of several words, or a lower min_count."
            )
        return EncodedCorpus(sink.array, num_words)


def number_sentences(
    sentences: Iterable[Sequence[str]],
    path: str | os.PathLike[str] | None = None,
    keep_tokens: bool = True,
    report: Callable[[int, int], None] | None = None,
) -> NumberedText:
    """Reads sentences once, counts their words and gives each a number.

    Args:
        sentences: lists of words; a generator will do, as it is walked through once.
        path: a file for the numbers, written under another name first.
        keep_tokens: `False` only counts.
        report: called now and then with the number of words that were read, and of distinct ones among them.

    Raises:
        ValueError: no sentences at all, a sentence that is not split into words, or a word that is not text.
    """
    if isinstance(sentences, str | bytes):
        raise ValueError("The corpus is a text where a list of sentences is wanted, each a list of words: split it.")
    # The end of a sentence is looked up as any word: an object that equals no word has the number -1.
    end = object()
    numbers: defaultdict[Any, int] = defaultdict()
    numbers.default_factory = lambda: len(numbers) - 1
    numbers[end] = BREAK
    counts, known, read = np.zeros(0, dtype=np.int64), 0, 0
    with ArraySink(path if keep_tokens else None) as sink:
        for block in _blocks(sentences, end):
            try:
                ids = np.fromiter(map(numbers.__getitem__, block), dtype=np.int32, count=len(block))
            except TypeError:
                word = next(word for word in block if word is not end and not isinstance(word, str))
                raise ValueError(f"A word must be text, not {word!r}.") from None
            seen = np.bincount(ids + 1, minlength=len(numbers))
            read += len(ids) - int(seen[0])  # [0] are the ends of sentences
            seen[1 : len(counts) + 1] += counts
            counts = seen[1:]
            if len(numbers) > known:
                _check_words(numbers, known)
                known = len(numbers)
            if keep_tokens:
                sink.append(ids)
            if report is not None:
                report(read, known - 1)
        words = list(numbers)[1:]
        if not words:
            raise ValueError(
                "There are no words to learn from: the corpus is empty, or a generator that was used up before."
            )
    return NumberedText(words, counts, sink.array if keep_tokens else None)


def _blocks(sentences: Iterable[Sequence[str]], end: object) -> Iterator[list[Any]]:
    block: list[Any] = []
    for number, sentence in enumerate(sentences, 1):
        words = sentence if type(sentence) is list else _words_of(sentence, number)
        if len(words) > BLOCK:
            if block:
                yield block
            yield from (words[start : start + BLOCK] for start in range(0, len(words), BLOCK))
            block = []
        else:
            block.extend(words)
        block.append(end)
        if len(block) >= BLOCK:
            yield block
            block = []
    if block:
        yield block


def _words_of(sentence: Any, number: int) -> Sequence[str]:
    """A sentence that is no list, as one.

    Raises:
        ValueError: where it is none, or its words have no order.
    """
    if isinstance(sentence, str | bytes):
        raise ValueError(f"Sentence {number} is a text, not a list of words: {sentence[:40]!r}. Split it first.")
    if isinstance(sentence, Mapping):
        names = ", ".join(map(repr, list(sentence)[:5]))
        raise ValueError(
            f"Sentence {number} is a row with the columns {names}, not a list of words: walk through its column of "
            "text, split into words, as regard.train.corpus.RowSentences does."
        )
    if isinstance(sentence, Set):
        raise ValueError(f"Sentence {number} is a set, and the order of words matters: give a list of them.")
    try:
        return list(sentence)
    except TypeError:
        raise ValueError(f"Sentence {number} is {sentence!r}, not a list of words.") from None


def _check_words(numbers: dict[Any, int], known: int) -> None:
    """Refuses what is not text among the words that are new."""
    for word in islice(numbers, max(known, 1), None):
        if not isinstance(word, str):
            raise ValueError(f"A word must be text, not {word!r}.")


@compiled
def _encode(ids, table, length):
    """Rows for numbers; the length of the sentence that is not ended, how many words, and the longest sentence."""
    rows = np.empty(2 * len(ids), np.int32)
    used = words = longest = 0
    for place in range(len(ids)):
        row = table[ids[place]]
        if row == LEFT_OUT:
            continue
        if row == BREAK:
            if length:
                rows[used] = BREAK
                used += 1
            length = 0
            continue
        if length == MAX_SENTENCE:
            rows[used] = BREAK
            used += 1
            length = 0
        rows[used] = row
        used += 1
        words += 1
        length += 1
        longest = max(longest, length)
    return rows[:used], length, words, longest


class ArraySink:
    """Collects int32 arrays to one: in memory, or in a file that is complete or not there."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path, self._parts = path, []
        self.array = np.zeros(0, dtype=np.int32)

    def __enter__(self) -> "ArraySink":
        if self._path is not None:
            self._replacing = replacing(self._path)
            self._file = open(self._replacing.__enter__(), "wb")
        return self

    def append(self, part: np.ndarray) -> None:
        if self._path is None:
            self._parts.append(part)
        else:
            self._file.write(part.tobytes())

    def __exit__(self, *error: Any) -> None:
        if self._path is None:
            if self._parts:
                self.array = np.concatenate(self._parts)
            return
        empty = self._file.tell() == 0
        self._file.close()
        self._replacing.__exit__(*error)
        if error[0] is None and not empty:
            self.array = np.memmap(self._path, dtype=np.int32, mode="r")
