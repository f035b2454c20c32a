"""Which words a table has: counted exactly, the rare ones left out, the most frequent first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Vocabulary:
    """The words of a text that get a row.

    Args:
        words: in order of falling count; words of the same count in order of their first appearance.
        counts: int64, how often each occurs.
        total: words in the text, all of them.
        dropped: how many distinct words have no row.
    """

    words: list[str]
    counts: np.ndarray
    total: int
    dropped: int


def count_words(sentences: Iterable[Sequence[str]], min_count: int = 5, max_words: int | None = None) -> Vocabulary:
    """Counts the words of sentences, and keeps the frequent ones.

    Nothing is pruned on the way: counts are exact, and so is the choice. Memory is that of a dictionary of the
    distinct words, about 150 bytes each, however long the text is.

    Args:
        sentences: lists of words, walked through once.
        min_count: how often a word must occur.
        max_words: at most so many words, the most frequent ones.

    Raises:
        ValueError: an unfit corpus (see `regard.train.corpus.number_sentences`), or fewer than two words left.
    """
    from regard.train.corpus import number_sentences

    return number_sentences(sentences, keep_tokens=False).vocabulary(min_count, max_words)


def select_words(
    words: Sequence[str],
    counts: np.ndarray,
    min_count: int = 5,
    max_words: int | None = None,
    without: Sequence[str] = (),
) -> Vocabulary:
    """The vocabulary of counted words, which come in order of their first appearance; `without` have no row.

    Raises:
        ValueError: where fewer than two words are left.
    """
    for name, value in {"min_count": min_count, "max_words": max_words}.items():
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} must be at least 1.")
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] >= min_count]
    if unwanted := set(without):
        order = np.array([number for number in order if words[number] not in unwanted], dtype=np.int64)
    order = order[:max_words]
    if max_words == 1:
        raise ValueError("max_words=1 leaves one word alone, and two are needed: one predicts nothing.")
    if len(order) < 2:
        most = int(counts.argmax())
        found = "Only one word occurs" if len(order) else "No word occurs"
        raise ValueError(
            f"{found} min_count={min_count} times or more, and two are needed; the most frequent of {len(words):,}, "
            f"{words[most]!r}, occurs {counts[most]:,} times."
        )
    return Vocabulary([words[i] for i in order], counts[order], int(counts.sum()), len(words) - len(order))


def update_vocabulary(
    model: Any, sentences: Iterable[Sequence[str]], min_count: int | None = None
) -> dict[str, list[str]]:
    """Prepares a model of word vectors for more text: words that it has not get rows, and counts are added up.

    Rows that are there stay as they are. In training that follows, a centre vector changes only where its word occurs
    in the new text; the context vector of any word can change, since any word can be drawn as a negative.

    Args:
        model: a `Word2VecModel` or `GloVeModel`; changed.
        sentences: the new text, lists of words, walked through once.
        min_count: how often a new word must occur in the new text; by default the model's own.

    Returns:
        `added`, the words that got a row, most frequent first, and `below_min_count`, those that are too rare.

    Raises:
        ValueError: as `regard.train.corpus.number_sentences`, and for a `min_count` below 1.
    """
    from regard.train.corpus import number_sentences

    if min_count is not None and min_count < 1:
        raise ValueError(f"min_count={min_count} must be at least 1.")
    least = model.config.min_count if min_count is None else min_count
    text = number_sentences(sentences, keep_tokens=False)
    known = model.key_to_index
    order = np.argsort(-text.counts, kind="stable")
    rare = [text.words[i] for i in order if text.words[i] not in known and text.counts[i] < least]
    kept = [i for i in order if text.words[i] in known or text.counts[i] >= least]
    added = model.extend_vocabulary([text.words[i] for i in kept], text.counts[kept]) if kept else []
    return {"added": added, "below_min_count": rare}


def keep_probabilities(counts: np.ndarray, threshold: float) -> np.ndarray:
    """How likely an occurrence of each word is kept by subsampling: min(1, (sqrt(f / t) + 1) t / f).

    The formula of the original program, whose paper (Mikolov et al., 2013, equation 5) gives a similar one.

    Args:
        counts: of V words.
        threshold: t; 0 keeps all.

    Returns:
        float64 of shape (V,); f is a word's share of all words.
    """
    counts = np.asarray(counts, dtype=np.float64)
    if threshold <= 0 or not counts.any():
        return np.ones(len(counts))
    ratio = np.maximum(counts / counts.sum() / threshold, 1e-300)
    return np.minimum(1.0, (np.sqrt(ratio) + 1.0) / ratio)


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's method: one of V words in proportion to its weight by one random number and one look.

    Args:
        weights: float64 of shape (V,), not negative.

    Returns:
        `limits` uint64 (V,) and `others` int32 (V,): of a column drawn evenly, its own word is taken if 32 random bits
        are below its limit, else its other.
    """
    size = len(weights)
    share = weights * (size / weights.sum())
    limits, others = np.full(size, 2**32, np.uint64), np.arange(size).astype(np.int32)
    small, large = np.empty(size, np.int64), np.empty(size, np.int64)
    smalls = larges = 0
    for word in range(size):
        if share[word] < 1:
            small[smalls] = word
            smalls += 1
        else:
            large[larges] = word
            larges += 1
    while smalls and larges:
        smalls -= 1
        low, high = small[smalls], large[larges - 1]
        limits[low], others[low] = np.uint64(share[low] * 2.0**32), high
        share[high] -= 1 - share[low]
        if share[high] < 1:
            larges -= 1
            small[smalls] = high
            smalls += 1
    return limits, others
