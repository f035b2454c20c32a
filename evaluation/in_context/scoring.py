"""How well a model answers with no example, one, two, ...: exact matches by the number of examples before them.

A row holds many examples, and each is a question with those before it as its shots. An answer counts where every
character of it and the end of its line are the likeliest after the right ones before them, which is where greedy
generation would write it.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

IGNORED = -100
SHOTS = (0, 1, 2, 4, 8)  # that are named in results


def answers_right(predictions: np.ndarray, labels: np.ndarray) -> list[bool]:
    """Whether each answer of a row is right, in their order.

    Args:
        predictions: (T,) the likeliest token after each position.
        labels: (T,) the row's tokens where they belong to an answer, else -100.
    """
    wanted, guessed = labels[1:], predictions[:-1]
    counts = wanted != IGNORED
    number = np.cumsum(counts & ~np.concatenate([[False], counts[:-1]]))  # of the answer that began last, from 1
    wrong = set(number[counts & (wanted != guessed)].tolist())
    return [one not in wrong for one in range(1, int(number.max(initial=0)) + 1)]


def exact_match_by_examples(
    predictions: Sequence[np.ndarray], labels: Sequence[np.ndarray], tasks: Sequence[str]
) -> dict[str, Any]:
    """Exact match of a prepared split.

    Args:
        predictions, labels: rows as `answers_right` takes them.
        tasks: the name of each row's task.

    Returns:
        `exact_match_<k>` for k of `SHOTS`, as far as all tasks have so many examples: the share of right answers with
        k examples before them, the mean over the tasks; and `by_task`, for each task the shares for 0, 1, 2, ...
        examples, each over the rows that go so far, while these are at least half of the task's.
    """
    right: dict[str, list[list[bool]]] = defaultdict(list)
    for guess, label, task in zip(predictions, labels, tasks, strict=True):
        right[task].append(answers_right(np.asarray(guess), np.asarray(label)))
    by_task = {task: _shares(rows) for task, rows in sorted(right.items())}
    longest = min(map(len, by_task.values()), default=0)
    measures: dict[str, Any] = {
        f"exact_match_{shots}": float(np.mean([shares[shots] for shares in by_task.values()]))
        for shots in SHOTS
        if shots < longest
    }
    return measures | {"by_task": by_task}


def _shares(rows: list[list[bool]]) -> list[float]:
    """The share of right answers in each place, over the rows that have it, while these are half of all: the last
    places of the few rows that go further would be chance."""
    shares = []
    for place in range(max(map(len, rows))):
        answers = [row[place] for row in rows if len(row) > place]
        if 2 * len(answers) < len(rows):
            break
        shares.append(float(np.mean(answers)))
    return shares


def at_a_glance(measures: dict[str, Any], shots: int = 4) -> dict[str, float]:
    """Numbers alone, for a log: what `exact_match_by_examples` returns, with each task's share at so many examples."""
    by_task = {f"{task}_{shots}": shares[shots] for task, shares in measures["by_task"].items() if len(shares) > shots}
    return {name: value for name, value in measures.items() if name != "by_task"} | by_task
