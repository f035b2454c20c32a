"""Word vectors as the test sets see them: read from where they are, rows of length one, found by word, with or without
regard to case.

Axes: V words of the vocabulary, D width of a vector.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from transformers.utils import logging as library_logging

from regard.modeling.word_vectors import WordVectors, WordVectorsMixin, load_word_vectors, unit

NAMED = 10  # so many of the words that are missing are named
SPELLINGS = 3  # for so many of these a spelling is looked for, which goes through the vocabulary


class Vectors(Protocol):
    """What every table of vectors of this package gives: `index_to_key[i]` is the word of row i, the most frequent
    first, and `vectors` is float32 of shape (V, D)."""

    index_to_key: Sequence[str]
    vectors: np.ndarray


class WordTable:
    """The unit vectors of a vocabulary.

    Where case is folded, of words that differ in case alone the first, most frequent one is found under all spellings.
    A word whose vector is zero has no direction, and counts as missing.

    Attributes:
        words: the vocabulary's words, or so many of the first ones as were asked for.
        units: float32 of shape (V, D), each row of length one, or zero.
        keys: the words as they are looked up.
    """

    def __init__(self, vectors: Vectors, restrict_vocab: int | None = None, fold_case: bool = True) -> None:
        """Takes over a table.

        Args:
            vectors: of any model or file.
            restrict_vocab: only so many of the first words, which are the most frequent.
            fold_case: whether "Paris" is found under "paris" and the other way round.

        Raises:
            ValueError: no words, or a restriction to none.
        """
        if restrict_vocab is not None and restrict_vocab < 1:
            raise ValueError(f"restrict_vocab={restrict_vocab} leaves no words: it must be at least 1.")
        self.words = list(vectors.index_to_key[:restrict_vocab])
        if not self.words:
            raise ValueError("There are no word vectors to evaluate: the vocabulary is empty.")
        self.units = unit(np.asarray(vectors.vectors)[:restrict_vocab])
        self.fold_case = fold_case
        self.keys = [self.key(word) for word in self.words]
        self._rows: dict[str, int] = {}
        for row, (key, is_zero) in enumerate(zip(self.keys, ~self.units.any(axis=1), strict=True)):
            if not is_zero:
                self._rows.setdefault(key, row)

    def key(self, word: str) -> str:
        """A word as it is looked up. Upper case, as in the reference tools: it folds ß and ss, ς and σ."""
        return word.upper() if self.fold_case else word

    def row(self, word: str) -> int | None:
        """The row of a word, or None where it is missing."""
        return self._rows.get(self.key(word))

    def rows(self, words: Iterable[str]) -> np.ndarray:
        """The rows of words, int64, with -1 where one is missing."""
        return np.array([self._rows.get(self.key(word), -1) for word in words], dtype=np.int64)


class UnknownWords(ValueError):
    """Words that are not in the vocabulary."""


def check_place(path: str | os.PathLike[str]) -> None:
    """Refuses, as a ValueError, a place at which there is nothing."""
    if not Path(path).exists():
        raise ValueError(f"There is no run or file of word vectors at '{path}'.")


def vectors_at(path: str | os.PathLike[str]) -> WordVectors:
    """The vectors of a run, a model's folder or a file, as `load_word_vectors` reads them, without the library's bar.

    Raises:
        ValueError: there is nothing, or nothing of the kind.
    """
    check_place(path)
    shown = library_logging.is_progress_bar_enabled()
    library_logging.disable_progress_bar()
    try:
        return load_word_vectors(path)
    finally:
        if shown:
            library_logging.enable_progress_bar()


def vectors_of(vectors: WordVectorsMixin, words: Sequence[str]) -> np.ndarray:
    """The unit vectors of words, float32 of shape (words, D).

    Raises:
        ValueError: words that are missing, each with the nearest spelling that there is.
    """
    check_words(vectors, words)
    return unit(np.asarray(vectors.vectors)[[vectors.key_to_index[word] for word in words]])


def check_words(vectors: WordVectorsMixin, words: Iterable[str]) -> None:
    """Refuses words that are missing in one sentence, the first of them with their nearest spelling.

    Raises:
        UnknownWords: if there are any.
    """
    missing = [word for word in dict.fromkeys(words) if word not in vectors.key_to_index]
    if not missing:
        return
    near = {word: vectors.nearest_spelling(word) for word in missing[:SPELLINGS]}
    said = [f"'{one}'" + (f" (did you mean '{near[one]}'?)" if near.get(one) else "") for one in missing[:NAMED]]
    said += [f"and {len(missing) - NAMED:,} more"] if len(missing) > NAMED else []
    be = "The word {} is" if len(missing) == 1 else "The words {} are"
    raise UnknownWords(f"{be.format(', '.join(said))} not among the {len(vectors.index_to_key):,} of the vocabulary.")
