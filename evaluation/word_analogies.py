"""Analogies: which word is to c as b is to a?

Axes: Q questions of a batch, V words of the vocabulary, B words of a block of it, D width of a vector.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from regard.evaluation.word_sets import Question
from regard.evaluation.word_table import WordTable

METHODS = ("add", "mul")
EPSILON = 1e-6  # keeps 3CosMul's division from being one by zero
QUESTIONS = 1024  # of a batch; the table is read once for each
SCORES = 2**22  # so many at once, 16 MiB: a batch goes through the table in blocks
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
        `prediction` (None where a word is missing, or where all words are the question's own), whether it is
        `correct`, and the `rank` of the right answer, of its spellings the best.

    Raises:
        ValueError: no questions, or an unknown method.
    """
    check_method(method)
    if not questions:
        raise ValueError("There are no analogies to measure on.")
    places = np.stack([table.rows(question[i] for question in questions) for i in range(1, 5)], axis=1)  # (Q, 4)
    there = (places >= 0).all(axis=1)
    answers = np.full(len(questions), -1, dtype=np.int64)
    positions = np.zeros(len(questions), dtype=np.int64)
    answers[there], positions[there] = _answer(table, places[there], method, ranks)
    each = []
    for question, answer, rank in zip(questions, answers, positions, strict=True):
        right = bool(answer >= 0) and table.keys[answer] == table.key(question.d)
        row = question._asdict() | {"prediction": table.words[answer] if answer >= 0 else None, "correct": right}
        each.append(row | ({"rank": int(rank) or None} if ranks else {}))
    return _summary(each, there.tolist()), each


def check_method(method: str) -> None:
    """Refuses what is no method, as a ValueError."""
    if method not in METHODS:
        raise ValueError(f"The analogy method '{method}' is not known: it is 'add' or 'mul'.")


def _summary(each: Sequence[dict[str, Any]], there: Sequence[bool]) -> dict[str, Any]:
    """The measures of all questions and of their parts, from each one's outcome and whether its words were found."""
    outcomes = [(row["section"], is_there, row["correct"]) for row, is_there in zip(each, there, strict=True)]
    sections: dict[str, list] = defaultdict(list)
    for outcome in outcomes:
        sections[outcome[0]].append(outcome)
    syntactic = [outcome for outcome in outcomes if outcome[0].startswith(SYNTACTIC)]
    semantic = [outcome for outcome in outcomes if not outcome[0].startswith(SYNTACTIC)]
    measures: dict[str, Any] = _shares(outcomes)
    if syntactic and semantic:
        measures |= {"semantic": _shares(semantic), "syntactic": _shares(syntactic)}
    return measures | {"sections": {name: _shares(several) for name, several in sections.items()}}


def _shares(outcomes: Sequence[tuple[str, bool, bool]]) -> dict[str, Any]:
    found, correct = sum(is_there for _, is_there, _ in outcomes), sum(right for _, _, right in outcomes)
    return {
        "accuracy": correct / found if found else None,
        "accuracy_missing_wrong": correct / len(outcomes),
        "questions": len(outcomes),
        "found": found,
        "correct": correct,
        "coverage": found / len(outcomes),
    }


def _answer(table: WordTable, places: np.ndarray, method: str, ranks: bool) -> tuple[np.ndarray, np.ndarray]:
    """The row of the best answer to each question (-1 where there is none but its own words, which are no answers),
    and the rank of the right one from 1 (0 where it is one of its own words), int64 of shape (Q,) each.

    Args:
        places: rows of a, b, c and d, int64 of shape (Q, 4).
    """
    spellings = _other_spellings(table.keys)
    silent = np.flatnonzero(~table.units.any(axis=1))
    answers, positions = np.full(len(places), -1, np.int64), np.zeros(len(places), np.int64)
    for start in range(0, len(places), QUESTIONS):
        batch = places[start : start + QUESTIONS]
        own = _all_spellings(table.keys, spellings, batch[:, :3])
        right = _all_spellings(table.keys, spellings, batch[:, 3:])
        best, aim = np.full((2, len(batch)), -np.inf, np.float32)
        for first, scores in _blocks(table.units, batch, method, silent, own):
            rows, found = scores.argmax(axis=1), scores.max(axis=1)
            better = found > best  # of equal ones the first, so that blocks are as the whole
            answers[start : start + len(batch)][better] = first + rows[better]
            best[better] = found[better]
            questions, columns = _within(right, first, scores.shape[1])
            np.maximum.at(aim, questions, scores[questions, columns])
        if ranks:  # again: how many are better is known when the right one's score is
            rank = np.ones(len(batch), np.int64)
            for _, scores in _blocks(table.units, batch, method, silent, own):
                rank += np.count_nonzero(scores > aim[:, None], axis=1)
            positions[start : start + len(batch)] = np.where(aim > -np.inf, rank, 0)
    return answers, positions


def _blocks(
    units: np.ndarray, batch: np.ndarray, method: str, silent: np.ndarray, own: tuple[np.ndarray, np.ndarray]
) -> Iterator[tuple[int, np.ndarray]]:
    """The first row of each block of the vocabulary, and how well its words answer each question, float32 of shape
    (Q, B), -inf for words that are no answers."""
    size = max(1, SCORES // len(batch))
    score = _scorer(units, batch, method)
    for first in range(0, len(units), size):
        scores = score(units[first : first + size])
        scores[:, silent[(silent >= first) & (silent < first + size)] - first] = -np.inf  # zeros point nowhere
        scores[_within(own, first, size)] = -np.inf
        yield first, scores


def _scorer(units: np.ndarray, batch: np.ndarray, method: str) -> Callable[[np.ndarray], np.ndarray]:
    """What takes unit vectors (B, D) to how well they answer each question, float32 of shape (Q, B)."""
    a, b, c = (batch[:, i] for i in range(3))
    if method == "add":  # one product for all three cosines, since the sum of cosines is the cosine's sum
        sought = units[b] - units[a] + units[c]  # (Q, D)
        return lambda block: sought @ block.T
    words, inverse = np.unique(batch[:, :3], return_inverse=True)  # neighbouring questions share most of their words
    given = units[words]  # (words, D)
    a, b, c = inverse.reshape(-1, 3).T

    def product(block: np.ndarray) -> np.ndarray:
        shifted = (1 + given @ block.T) / 2  # (words, B)
        scores = shifted[b]
        scores *= shifted[c]
        scores /= (shifted + np.float32(EPSILON))[a]
        return scores

    return product


def _within(pairs: tuple[np.ndarray, np.ndarray], first: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Those of pairs of a question and a row whose row is in a block, the row counted from the block's first."""
    questions, rows = pairs
    inside = (rows >= first) & (rows < first + size)
    return questions[inside], rows[inside] - first


def _all_spellings(
    keys: Sequence[str], spellings: dict[str, list[int]], places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (Q, words) with those of other spellings: pairs of a question and a row, int64 of shape (pairs,) each."""
    questions, rows = np.repeat(np.arange(len(places)), places.shape[1]), places.reshape(-1)
    if not spellings:
        return questions, rows
    several = [spellings.get(keys[row], [row]) for row in rows]
    return np.repeat(questions, [len(one) for one in several]), np.concatenate(several).astype(np.int64)


def _other_spellings(keys: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each word that several rows are spellings of."""
    rows: dict[str, list[int]] = defaultdict(list)
    if len(set(keys)) < len(keys):
        for row, key in enumerate(keys):
            rows[key].append(row)
    return {key: several for key, several in rows.items() if len(several) > 1}
