"""Analogies: which word is to c as b is to a?

Axes: Q questions of a batch, V words of the vocabulary, D width of a vector.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.evaluation.word_sets import Question
from regard.evaluation.word_table import WordTable

METHODS = ("add", "mul")
EPSILON = 1e-6  # keeps 3CosMul's division from being one by zero
BATCH_NUMBERS = 2**24  # so many scores at once, 64 MiB
SYNTACTIC = "gram"  # how the original set's names of sections about grammar begin


def evaluate_analogies(
    table: WordTable, questions: Sequence[Question], method: str = "add", ranks: bool = False
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The share of questions whose best answer of the whole vocabulary is the right one.

    The words of a question are no answers to it, as in the original (Mikolov et al., 2013, "Efficient estimation of
    word representations in vector space"), nor are, where case is folded, their other spellings.

    Args:
        table: the words to choose from.
        questions: with their sections.
        method: "add" for the greatest cos(x, b) - cos(x, a) + cos(x, c), or "mul" for the greatest
            cos(x, b) cos(x, c) / (cos(x, a) + epsilon), cosines shifted to 0 to 1 (Levy & Goldberg, 2014, eq. 3, 4).
        ranks: also the rank of the right answer in each question.

    Returns:
        The measures: `accuracy` of the questions whose four words are found, `accuracy_missing_wrong` of all, the
        counts `questions`, `found`, `correct` and the ratio `coverage`, and the same of each of `sections` and, where
        sections are named as in the original set, of `semantic` and `syntactic`. And each question with its
        `prediction` (None where a word is missing), whether it is `correct`, and its `rank`.
    """
    if method not in METHODS:
        raise ValueError(f"The analogy method '{method}' is not known: it is 'add' or 'mul'.")
    places = np.stack([table.rows(question[i] for question in questions) for i in range(1, 5)], axis=1)  # (Q, 4)
    there = (places >= 0).all(axis=1)
    answers = np.full(len(questions), -1, dtype=np.int64)
    positions = np.zeros(len(questions), dtype=np.int64)
    answers[there], positions[there] = _answer(table, places[there], method, ranks)
    each = []
    for question, answer, rank, is_there in zip(questions, answers, positions, there, strict=True):
        right = bool(is_there) and table.keys[answer] == table.key(question.d)
        row = question._asdict() | {"prediction": table.words[answer] if is_there else None, "correct": right}
        each.append(row | ({"rank": int(rank) if is_there and rank else None} if ranks else {}))
    return _summary(each), each


def _summary(each: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sections: dict[str, list] = defaultdict(list)
    for row in each:
        sections[row["section"]].append(row)
    syntactic = [row for row in each if row["section"].startswith(SYNTACTIC)]
    semantic = [row for row in each if not row["section"].startswith(SYNTACTIC)]
    measures: dict[str, Any] = _shares(each)
    if syntactic and semantic:
        measures |= {"semantic": _shares(semantic), "syntactic": _shares(syntactic)}
    return measures | {"sections": {name: _shares(rows) for name, rows in sections.items()}}


def _shares(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found, correct = sum(row["prediction"] is not None for row in rows), sum(row["correct"] for row in rows)
    return {
        "accuracy": correct / found if found else None,
        "accuracy_missing_wrong": correct / len(rows),
        "questions": len(rows),
        "found": found,
        "correct": correct,
        "coverage": found / len(rows),
    }


def _answer(table: WordTable, places: np.ndarray, method: str, ranks: bool) -> tuple[np.ndarray, np.ndarray]:
    """The row of the best answer to each question, and the rank of the right one from 1 (0 where it is one of the
    question's own words, which are no answers), int64 of shape (Q,) each.

    Args:
        places: rows of a, b, c and d, int64 of shape (Q, 4).
    """
    units, spellings = table.units, _other_spellings(table.keys)
    silent = np.flatnonzero(~units.any(axis=1))
    size = max(1, BATCH_NUMBERS // len(units))
    answers, positions = np.empty(len(places), np.int64), np.zeros(len(places), np.int64)
    for start in range(0, len(places), size):
        batch = places[start : start + size]
        scores = _scores(units, batch, method)  # (Q, V)
        rows = np.arange(len(batch))
        scores[:, silent] = -np.inf  # a vector of zeros points nowhere
        scores[rows[:, None], batch[:, :3]] = -np.inf
        if spellings:
            for row, words in enumerate(batch[:, :3]):
                for word in words:
                    scores[row, spellings.get(table.keys[word], ())] = -np.inf
        answers[start : start + size] = scores.argmax(axis=1)
        if ranks:
            right = scores[rows, batch[:, 3]]
            rank = 1 + np.count_nonzero(scores > right[:, None], axis=1)
            positions[start : start + size] = np.where(right > -np.inf, rank, 0)
    return answers, positions


def _scores(units: np.ndarray, batch: np.ndarray, method: str) -> np.ndarray:
    """How well each word of the vocabulary answers each question, float32 of shape (Q, V)."""
    a, b, c = (batch[:, i] for i in range(3))
    if method == "add":  # one product for all three cosines, since the sum of cosines is the cosine's sum
        return (units[b] - units[a] + units[c]) @ units.T  # (Q, D) (D, V)
    words, inverse = np.unique(batch[:, :3], return_inverse=True)  # neighbouring questions share most of their words
    shifted = (1 + units[words] @ units.T) / 2  # (words, V)
    a, b, c = inverse.reshape(-1, 3).T
    scores = shifted[b]
    scores *= shifted[c]
    scores /= (shifted + np.float32(EPSILON))[a]
    return scores


def _other_spellings(keys: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each word that several rows are spellings of."""
    rows: dict[str, list[int]] = defaultdict(list)
    if len(set(keys)) < len(keys):
        for row, key in enumerate(keys):
            rows[key].append(row)
    return {key: several for key, several in rows.items() if len(several) > 1}
