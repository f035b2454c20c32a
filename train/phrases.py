"""Phrases: two words that come together more often than chance has it become one word, as `new_york`.

    score(a, b) = (count(a b) - delta) / (count(a) count(b)) * total

Mikolov et al., "Distributed Representations of Words and Phrases and their Compositionality" (2013), equation 6; the
number of words in the text makes a threshold mean the same for texts of any length, as in the original program.

Phrases are found by what they have in this text, so a tokenizer that splits text by a pattern never makes one: look
them up by their name, `vectors["new_york"]`.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from regard.train.corpus import BREAK, STRETCH, ArraySink, NumberedText
from regard.train.word2vec_kernels import compiled

MOST_PAIRS = 2**22  # distinct pairs of words that are counted in memory; more are written to sorted files, and merged

Counted = tuple[np.ndarray, np.ndarray]  # pairs as a * V + b, in order and each once, and how often they come together


def join_phrases(
    text: NumberedText,
    thresholds: Sequence[float],
    delta: float = 5.0,
    min_count: int = 5,
    path: str | os.PathLike[str] | None = None,
    report: Callable[[int, int], None] | None = None,
) -> NumberedText:
    """Joins phrases in a numbered text, in one pass for each threshold, so that longer ones grow from shorter ones.

    Pairs are joined from the left; a word is part of one phrase in a pass. Counting takes less than a
    gigabyte, however many distinct pairs there are: what is more goes to files, 16 bytes a pair.

    Args:
        text: from `number_sentences`.
        thresholds: a pair whose score is above is a phrase.
        delta: what is taken off a pair's count, so that rare pairs are none.
        min_count: words that are rarer are in no phrase.
        path: a file for the new text; each pass writes `path` with its number added, and deletes that of the pass
            before. By default it is held in memory.
        report: called after each pass with its number, from 1 on, and the number of distinct phrases it found.

    Raises:
        ValueError: for a threshold or delta that is negative.
    """
    for name, value in [*(("threshold", each) for each in thresholds), ("delta", delta)]:
        if not value >= 0:
            raise ValueError(f"The {name} of phrases, {value}, must not be negative.")
    before = None  # the file of the last pass
    for number, threshold in enumerate(thresholds, 1):
        phrases = find_phrases(text, threshold, delta, min_count, None if path is None else Path(path).parent)
        now = None if path is None else Path(f"{path}{number}")
        text = _join(text, phrases, now)
        if before is not None:
            before.unlink()
        before = now
        if report is not None:
            report(number, len(phrases))
    return text


def find_phrases(
    text: NumberedText,
    threshold: float,
    delta: float = 5.0,
    min_count: int = 5,
    folder: str | os.PathLike[str] | None = None,
) -> np.ndarray:
    """The pairs of words whose score is above a threshold, as a * V + b, in order; int64.

    Args:
        folder: where files are, while they are needed, if there are more pairs than memory is meant to hold; by
            default that of the system.
    """
    total, found = text.counts.sum(), [np.zeros(0, dtype=np.int64)]
    with tempfile.TemporaryDirectory(prefix=".pairs", dir=folder) as place:
        for pairs, together in _count_pairs(text, min_count, Path(place)):
            first, second = np.divmod(pairs, len(text.words))
            expected = text.counts[first].astype(np.float64) * text.counts[second]
            found.append(pairs[(together - delta) / expected * total > threshold])
    return np.concatenate(found)


def _count_pairs(text: NumberedText, min_count: int, place: Path) -> Iterator[Counted]:
    """Neighbours and how often they come together, in order, in parts."""
    frequent = np.append(text.counts >= min_count, False)  # [-1] is the end of a sentence
    size, runs = len(text.words), []
    merged = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    waiting: list[Counted] = []
    for start in range(0, len(text.tokens), STRETCH):
        stretch = text.tokens[start : start + STRETCH + 1].astype(np.int64)  # the next one's first word too
        a, b = stretch[:-1], stretch[1:]
        real = frequent[a] & frequent[b]
        waiting.append(np.unique(a[real] * size + b[real], return_counts=True))
        if sum(len(keys) for keys, _ in waiting) > len(merged[0]):  # each pair is merged a few times at most
            merged, waiting = _merge([merged, *waiting]), []
            if len(merged[0]) > MOST_PAIRS:
                runs.append(_written(merged, place / f"{len(runs)}"))
                merged = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    merged = _merge([merged, *waiting])
    if not runs:
        yield merged
        return
    waiting.clear()
    yield from _merged_runs([*runs, merged])


def _merge(parts: list[Counted]) -> Counted:
    keys, counts = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.add.reduceat(counts, starts) if len(starts) else counts


def _written(counted: Counted, path: Path) -> Counted:
    """The same, in files."""
    files = [path.with_suffix(f".{name}.npy") for name in ("pairs", "counts")]
    for file, array in zip(files, counted, strict=True):
        np.save(file, array)
    return tuple(np.load(file, mmap_mode="r") for file in files)


def _merged_runs(runs: list[Counted]) -> Iterator[Counted]:
    """All runs as one, in parts of at most twice `MOST_PAIRS` pairs before they are merged."""
    step = max(1, MOST_PAIRS // len(runs))
    # A mark stands for `step` pairs of its run, so as many marks as there are runs stand for `MOST_PAIRS`.
    marks = np.sort(np.concatenate([keys[::step] for keys, _ in runs]))[:: len(runs)]
    cuts = [np.append(np.searchsorted(keys, marks), len(keys)) for keys, _ in runs]
    for part in pairwise(range(len(marks) + 1)):
        places = [slice(cut[part[0]], cut[part[1]]) for cut in cuts]
        yield _merge([(keys[at], counts[at]) for (keys, counts), at in zip(runs, places, strict=True)])


def _join(text: NumberedText, phrases: np.ndarray, path: Path | None) -> NumberedText:
    words, numbers = list(text.words), {word: number for number, word in enumerate(text.words)}
    joined = np.empty(len(phrases), dtype=np.int32)
    for place, (a, b) in enumerate(zip(*np.divmod(phrases, len(text.words)), strict=True)):
        word = f"{text.words[a]}_{text.words[b]}"  # which the text can hold already
        joined[place] = numbers.setdefault(word, len(words))
        if joined[place] == len(words):
            words.append(word)
    counts = np.zeros(len(words), dtype=np.int64)
    for part in _joined(text, phrases, joined):
        counts += np.bincount(part + 1, minlength=len(words) + 1)[1:]
    kept = counts > 0  # a word can be in phrases alone
    new = np.append(np.where(kept, np.cumsum(kept) - 1, BREAK), BREAK).astype(np.int32)
    with ArraySink(path) as sink:
        for part in _joined(text, phrases, joined):
            sink.append(new[part])
    return NumberedText([word for word, keep in zip(words, kept, strict=True) if keep], counts[kept], sink.array)


def _joined(text: NumberedText, phrases: np.ndarray, joined: np.ndarray) -> Iterator[np.ndarray]:
    """The text with its phrases joined, in parts."""
    before = BREAK
    for start in range(0, len(text.tokens), STRETCH):
        stretch = np.array(text.tokens[start : start + STRETCH])
        part, before = _join_stretch(stretch, before, phrases, joined, len(text.words))
        yield part
    if before != BREAK:
        yield np.array([before], dtype=np.int32)


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
