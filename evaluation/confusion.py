"""Which labels a model takes for which: the matrix of right and predicted labels, counted and drawn.

Axes: K labels; rows are right ones, columns predicted ones.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regard.evaluation.attention_pictures import text_width
from regard.evaluation.drawing import GRAY, INK, check_format, save_figure

MOST_LABELS = 50
SHARES_UP_TO = 12  # labels: cells have room for a share below the count
DARK = 0.55  # a share from which on the ink is white


def count_confusions(right: Sequence[int], predicted: Sequence[int], labels: int) -> np.ndarray:
    """How often each right label was predicted as each, int64 (K, K)."""
    places = np.asarray(right, np.int64) * labels + np.asarray(predicted, np.int64)
    return np.bincount(places, minlength=labels * labels).reshape(labels, labels)


def row_shares(counts: np.ndarray) -> np.ndarray:
    """Of each right label the share of each prediction, float64 (K, K); a label that does not occur has zeros."""
    sums = counts.sum(axis=1, keepdims=True)
    return counts / np.maximum(sums, 1)


def plot_confusion(counts: np.ndarray, names: Sequence[str], path: str | Path, title: str = "") -> Path:
    """The matrix with its counts, coloured by the shares of each row; to the right each label's recall and number.

    Args:
        counts: (K, K), from `count_confusions`.
        names: of the labels.
        path: a .png or .svg file; it is complete or not there.
        title: what was labelled.

    Raises:
        ValueError: more labels than can be read, nothing to count, or another kind of file.
    """
    check_format(path)
    number = len(names)
    if number > MOST_LABELS:
        raise ValueError(f"A picture of {number} labels cannot be read: at most {MOST_LABELS} are drawn.")
    if not counts.sum():
        raise ValueError("There is nothing to draw: no item has a label.")
    cell = max(0.27, min(0.8, 8.5 / number))  # inches
    size = min(10.0, cell * 72 * (0.24 if number <= SHARES_UP_TO else 0.34))
    label_size = min(10.0, cell * 72 * 0.5)
    side = cell * number
    figure = Figure(figsize=(side, side))
    axes = figure.add_axes((0, 0, 1, 1))
    shares = row_shares(counts)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row, column in np.argwhere(counts > 0):
        text = f"{counts[row, column]:,}"
        text += f"\n{shares[row, column]:.0%}" if number <= SHARES_UP_TO else ""
        ink = "white" if shares[row, column] > DARK else INK
        axes.text(column, row, text, ha="center", va="center", fontsize=_fitting(text, size, cell), color=ink)
    widest = max(text_width(name, label_size) for name in names)
    turn = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if widest > cell - 0.05 else {}
    axes.set_xticks(range(number), names, fontsize=label_size, parse_math=False, **turn)
    axes.set_yticks(range(number), names, fontsize=label_size, parse_math=False)
    _label_rows(axes, counts, shares, label_size)
    axes.set_xticks(np.arange(number - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(number - 1) + 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.0)
    axes.tick_params(which="both", length=0, colors=INK)
    for edge in axes.spines.values():
        edge.set_color("#c8ccd2")
    axes.set_xlabel("predicted label", color=GRAY, fontsize=10)
    axes.set_ylabel("right label", color=GRAY, fontsize=10)
    right, total = int(np.trace(counts)), int(counts.sum())
    about = f"{title}: " if title else ""
    figure.text(
        0, 1 + 0.12 / side, f"{about}{right:,} of {total:,} right", fontsize=12, color=INK, ha="left", va="bottom",
        parse_math=False,
    )  # fmt: skip
    return save_figure(figure, path)


def _fitting(text: str, size: float, cell: float) -> float:
    """The font size at which a cell holds its longest line."""
    width = max(_width(line) for line in text.split("\n")) * size / 10
    return size * min(1.0, (cell - 0.04) / width)


@cache
def _width(text: str) -> float:
    """At 10 points; cells hold the same few numbers."""
    return text_width(text, 10)


def _label_rows(axes: Any, counts: np.ndarray, shares: np.ndarray, size: float) -> None:
    """What of each right label was found, and how many there are."""
    beside = axes.secondary_yaxis("right")
    found = [
        f"{shares[i, i]:.0%} of {total:,}" if total else "none" for i, total in enumerate(counts.sum(axis=1).tolist())
    ]
    beside.set_yticks(range(len(found)), found, fontsize=size * 0.9)
    beside.tick_params(length=0, colors=GRAY)
    beside.spines["right"].set_visible(False)
