"""Text as numbers: sentences from files, data sets or lists, read once and kept as one array of word numbers.

    sentences = TextSentences("text.txt", WordSplitter(r"\\w+", lowercase=True))
    numbered = number_sentences(sentences, "text.ids")           # numbers in order of first appearance, and counts
    vocabulary = numbered.vocabulary(min_count=5)
    corpus = numbered.encode(vocabulary.words, "text.tokens")    # numbers are rows; -1 ends a sentence

A text is read and split once; what follows works on arrays. With a path they are files, mapped into memory, so that a
text may be larger than memory: what grows with it is the dictionary of its distinct words alone. Without a path the
arrays are held in memory.
"""

import os
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
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
CHUNK = 50_000  # words of a chunk, a step of the training; a short text has at least 64 chunks of 1,000 or more
LEAST_CHUNK, CHUNKS_OF_SHORT_TEXT = 1_000, 64
LEFT_OUT = -2  # stands for words without a row while a text is encoded

_WHITESPACE_WORDS = r"\S+"


class WordSplitter:
    """What the words of a text are: as `regard.train.tokenization` has them for the kind `word`, several times faster.

    Args:
        pattern: a regular expression of what a word is; `\\S+` is what blanks part.
        lowercase: lower-case the text first.

    Raises:
        ValueError: for a pattern that is none.
    """

    def __init__(self, pattern: str, lowercase: bool = False) -> None:
        self.pattern, self.lowercase = pattern, lowercase
        try:
            self._find = regex.compile(pattern).findall
        except regex.error as error:
            raise ValueError(f"tokenizer.pattern={pattern!r} is not a regular expression: {error}.") from error
        if regex.compile(pattern).groups:
            raise ValueError(
                f"tokenizer.pattern={pattern!r} has groups: write them as (?:...), which keeps the match whole."
            )
        if pattern == _WHITESPACE_WORDS:
            self._find = str.split

    def __call__(self, text: str) -> list[str]:
        """The words of one sentence."""
        return self._find(self.normalize(text))

    def lines(self, text: str) -> Iterator[list[str]]:
        """The words of each line of a text that has any."""
        find = self._find
        for line in self.normalize(text).split("\n"):
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


class TextSentences:
    """The lines of a text file in UTF-8, each a sentence; as often as it is walked through, and in bounded memory.

    Raises (when walked through):
        ValueError: for a line that is not UTF-8.
    """

    def __init__(self, path: str | os.PathLike[str], split: Callable[[str], Iterator[list[str]]], block: int = 2**20):
        self.path, self._split, self._block = Path(path), split, block

    def __iter__(self) -> Iterator[list[str]]:
        for text in self.blocks():
            yield from self._split(text)

    def blocks(self) -> Iterator[str]:
        """The text in pieces that end with a line."""
        lines_before = 0
        with open(self.path, "rb") as file:
            while block := file.read(self._block):
                block += file.readline()
                try:
                    text = block.decode("utf-8")
                except UnicodeDecodeError as error:
                    line = lines_before + block.count(b"\n", 0, error.start) + 1
                    raise ValueError(
                        f"{self.path}, line {line}: the byte 0x{block[error.start]:02x} is not UTF-8; save the file "
                        "as UTF-8."
                    ) from None
                if not lines_before:
                    text = text.removeprefix("\ufeff")
                lines_before += block.count(b"\n")
                yield text


class RowSentences:
    """The lines of a column of a data set, each a sentence."""

    def __init__(self, dataset: Any, column: str, split: Callable[[str], Iterator[list[str]]]) -> None:
        self._dataset, self._column, self._split = dataset.select_columns([column]), column, split

    def __iter__(self) -> Iterator[list[str]]:
        for text in self.blocks():
            yield from self._split(text)

    def blocks(self) -> Iterator[str]:
        for rows in self._dataset.iter(1000):
            yield from rows[self._column]


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
            ValueError: where no sentence has two words of the vocabulary, so that there is nothing to learn.
        """
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
    sentences: Iterable[Sequence[str]], path: str | os.PathLike[str] | None = None, keep_tokens: bool = True
) -> NumberedText:
    """Reads sentences once, counts their words and gives each a number.

    Args:
        sentences: lists of words; a generator will do, as it is walked through once.
        path: a file for the numbers, written under another name first.
        keep_tokens: `False` only counts.

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
    counts, known = np.zeros(0, dtype=np.int64), 0
    with ArraySink(path if keep_tokens else None) as sink:
        for block in _blocks(sentences, end):
            try:
                ids = np.fromiter(map(numbers.__getitem__, block), dtype=np.int32, count=len(block))
            except TypeError:
                word = next(word for word in block if word is not end and not isinstance(word, str))
                raise ValueError(f"A word must be text, not {word!r}.") from None
            new = np.bincount(ids + 1, minlength=len(numbers))[1:]
            new[: len(counts)] += counts
            counts = new
            if len(numbers) > known:
                _check_words(numbers, known)
                known = len(numbers)
            if keep_tokens:
                sink.append(ids)
        words = list(numbers)[1:]
        if not words:
            raise ValueError(
                "There are no words to learn from: the corpus is empty, or a generator that was used up before."
            )
    return NumberedText(words, counts, sink.array if keep_tokens else None)


def _blocks(sentences: Iterable[Sequence[str]], end: object) -> Iterator[list[Any]]:
    block: list[Any] = []
    for number, sentence in enumerate(sentences, 1):
        if isinstance(sentence, str | bytes):
            raise ValueError(f"Sentence {number} is a text, not a list of words: {sentence[:40]!r}. Split it first.")
        try:
            block.extend(sentence)
        except TypeError:
            raise ValueError(f"Sentence {number} is {sentence!r}, not a list of words.") from None
        block.append(end)
        if len(block) >= BLOCK:
            yield block
            block = []
    if block:
        yield block


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
