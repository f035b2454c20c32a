"""How well cosines agree with people's judgement of how alike two words are."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.evaluation.word_sets import Pair
from regard.evaluation.word_table import WordTable


def spearman(one: Sequence[float] | np.ndarray, other: Sequence[float] | np.ndarray) -> float | None:
    """Spearman's rank correlation: Pearson's of the ranks, where equal values share the mean of their ranks
    (Spearman, 1904; Kendall, 1945, for ties). None where one side is constant or has fewer than two values."""
    first, second = mean_ranks(one), mean_ranks(other)
    if len(first) != len(second):
        raise ValueError(f"Ranks of {len(first)} and of {len(second)} values cannot be correlated.")
    if len(first) < 2:
        return None
    first, second = first - first.mean(), second - second.mean()
    scale = np.sqrt((first @ first) * (second @ second))
    return float(first @ second / scale) if scale > 0 else None


def mean_ranks(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Ranks from 1, float64; equal values share the mean of the ranks that they take together."""
    _, groups, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[groups]


def evaluate_similarity(table: WordTable, pairs: Sequence[Pair]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Spearman's correlation of cosines and scores, by each convention about pairs with a missing word.

    Returns:
        The measures: `spearman` of the pairs that are found, `spearman_missing_as_zero` of all, where a cosine that
        cannot be had is 0, `spearman_missing_as_mean`, where it is the mean of the others, and the counts `pairs`,
        `found` and their ratio `coverage`; a correlation that is not defined is None. And each pair with its
        `cosine`, None where a word is missing.

    Raises:
        ValueError: no pairs.
    """
    if not pairs:
        raise ValueError("There are no pairs of words to measure on.")
    first, second = table.rows(pair.word1 for pair in pairs), table.rows(pair.word2 for pair in pairs)
    there = (first >= 0) & (second >= 0)
    left, right = table.units[first[there]].astype(np.float64), table.units[second[there]].astype(np.float64)
    found = np.einsum("pd,pd->p", left, right)
    scores = np.array([pair.score for pair in pairs])
    cosines = np.full(len(pairs), np.nan)
    cosines[there] = found
    mean = float(found.mean()) if len(found) else 0.0
    measures = {
        "spearman": spearman(found, scores[there]),
        "spearman_missing_as_zero": spearman(np.where(there, cosines, 0.0), scores),
        "spearman_missing_as_mean": spearman(np.where(there, cosines, mean), scores),
        "pairs": len(pairs),
        "found": int(there.sum()),
        "coverage": float(there.mean()),
    }
    each = [
        pair._asdict() | {"cosine": float(cosine) if is_there else None}
        for pair, cosine, is_there in zip(pairs, cosines, there, strict=True)
    ]
    return measures, each
