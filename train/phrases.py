"""Phrases: two words that come together more often than chance has it become one word, as `new_york`.

    score(a, b) = (count(a b) - delta) / (count(a) count(b)) * total

Mikolov et al., "Distributed Representations of Words and Phrases and their Compositionality" (2013), equation 6; the
number of words in the text makes a threshold mean the same for texts of any length, as in the original program.
"""

import os
from collections.abc import Sequence

import numpy as np

from regard.train.corpus import BREAK, STRETCH, ArraySink, NumberedText
from regard.train.word2vec_kernels import compiled


def join_phrases(
    text: NumberedText,
    thresholds: Sequence[float],
    delta: float = 5.0,
    min_count: int = 5,
    path: str | os.PathLike[str] | None = None,
) -> NumberedText:
    """Joins phrases in a numbered text, in one pass for each threshold, so that longer ones grow from shorter ones.

    Pairs are joined from the left; a word is part of one phrase in a pass. Counting takes 32 bytes for each distinct
    pair of words that occur `min_count` times.

    Args:
        text: from `number_sentences`.
        thresholds: a pair whose score is above is a phrase.
        delta: what is taken off a pair's count, so that rare pairs are none.
        min_count: words that are rarer are in no phrase.
        path: a file for the new text; each pass writes `path` with its number added. By default it is held in memory.

    Raises:
        ValueError: for a threshold or delta that is negative.
    """
    for name, value in [*(("threshold", each) for each in thresholds), ("delta", delta)]:
        if not value >= 0:
            raise ValueError(f"The {name} of phrases, {value}, must not be negative.")
    for number, threshold in enumerate(thresholds):
        text = _join(
            text, find_phrases(text, threshold, delta, min_count), None if path is None else f"{path}{number}"
        )
    return text


def find_phrases(text: NumberedText, threshold: float, delta: float = 5.0, min_count: int = 5) -> np.ndarray:
    """The pairs of words whose score is above a threshold, as a * V + b, in order; int64."""
    pairs, together = _count_pairs(text, min_count)
    first, second = np.divmod(pairs, len(text.words))
    expected = text.counts[first].astype(np.float64) * text.counts[second]
    return pairs[(together - delta) / expected * text.counts.sum() > threshold]


def _count_pairs(text: NumberedText, min_count: int) -> tuple[np.ndarray, np.ndarray]:
    """Neighbours, as a * V + b in order, and how often they come together."""
    frequent = np.append(text.counts >= min_count, False)  # [-1] is the end of a sentence
    size = len(text.words)
    merged = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    for start in range(0, len(text.tokens), STRETCH):
        stretch = text.tokens[start : start + STRETCH + 1].astype(np.int64)  # the next one's first word too
        a, b = stretch[:-1], stretch[1:]
        real = frequent[a] & frequent[b]
        waiting.append(np.unique(a[real] * size + b[real], return_counts=True))
        if sum(len(keys) for keys, _ in waiting) > len(merged[0]):  # each pair is merged a few times at most
            merged, waiting = _merge([merged, *waiting]), []
    return _merge([merged, *waiting])


def _merge(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    keys, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.add.reduceat(counts, starts) if len(starts) else counts


def _join(text: NumberedText, phrases: np.ndarray, path: str | None) -> NumberedText:
    words, numbers = list(text.words), {word: number for number, word in enumerate(text.words)}
    joined = np.empty(len(phrases), dtype=np.int32)
    for place, (a, b) in enumerate(zip(*np.divmod(phrases, len(text.words)), strict=True)):
        word = f"{text.words[a]}_{text.words[b]}"  # which the text can hold already
        joined[place] = numbers.setdefault(word, len(words))
        if joined[place] == len(words):
            words.append(word)
    counts = np.zeros(len(words), dtype=np.int64)
    before = BREAK
    with ArraySink(path) as sink:
        for start in range(0, len(text.tokens), STRETCH):
            part, before = _join_stretch(
                np.array(text.tokens[start : start + STRETCH]), before, phrases, joined, len(text.words)
            )
            counts += np.bincount(part + 1, minlength=len(words) + 1)[1:]
            sink.append(part)
        if before != BREAK:
            counts[before] += 1
            sink.append(np.array([before], dtype=np.int32))
    kept = counts > 0  # a word can be in phrases alone
    new = np.append(np.where(kept, np.cumsum(kept) - 1, BREAK), BREAK).astype(np.int32)
    if kept.all():
        return NumberedText(words, counts, sink.array)
    with ArraySink(None if path is None else f"{path}n") as renumbered:
        for start in range(0, len(sink.array), STRETCH):
            renumbered.append(new[sink.array[start : start + STRETCH]])
    return NumberedText([word for word, keep in zip(words, kept, strict=True) if keep], counts[kept], renumbered.array)


@compiled
def _join_stretch(tokens, before, phrases, joined, size):
    """Words that are not joined to the next; `before` is the last one, which waits for the next stretch."""
    result = np.empty(len(tokens) + 1, np.int32)
    used = 0
    for place in range(len(tokens)):
        word = tokens[place]
        if before == BREAK:
            before = word
            if word == BREAK:
                result[used] = BREAK
                used += 1
            continue
        if word != BREAK:
            key = np.int64(before) * size + word
            found = np.searchsorted(phrases, key)
            if found < len(phrases) and phrases[found] == key:
                result[used] = joined[found]
                used += 1
                before = BREAK
                continue
        result[used] = before
        used += 1
        before = word
        if word == BREAK:
            result[used] = BREAK
            used += 1
    return result[:used], before
