"""A metric by the number of training examples: one line a learner, with the spread of its seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from regard.evaluation.curves import PROSE
from regard.evaluation.drawing import GRAY, INK, add_legend, check_format, clean, save_figure, series_style

TICK_ROOM = 0.08  # of the axis, for the label of a tick


@dataclass(frozen=True)
class LearningCurve:
    """How good a learner is with so many examples.

    Attributes:
        name: of the learner.
        numbers: of examples, at least 1, rising.
        values: the metric of each seed for each number; the seeds may be more for some than for others.
        intervals: of the mean at 95 % over what was asked, (low, high) for each number; None where none was measured.
    """

    name: str
    numbers: Sequence[float]
    values: Sequence[Sequence[float]]
    intervals: Sequence[Sequence[float]] | None = None

    def means(self) -> np.ndarray:
        """float64 (numbers,)."""
        return np.array([np.mean(several) for several in self.values])

    def deviations(self) -> np.ndarray:
        """The sample standard deviation (over n - 1), float64 (numbers,); NaN of one seed, which has none."""
        return np.array([np.std(several, ddof=1) if len(several) > 1 else np.nan for several in self.values])


def plot_learning_curves(
    curves: Sequence[LearningCurve],
    path: str | Path,
    *,
    metric: str,
    split: str = "validation",
    chance: float | None = None,
) -> Path:
    """The mean over the seeds by the number of examples, on a logarithmic axis, with a band of one standard deviation
    to each side, where there are several, and a point for each seed.

    Args:
        path: a .png or .svg file; it is complete or not there.
        metric, split: what was measured, and on what.
        chance: the metric of a learner that always gives the most frequent label.

    Raises:
        ValueError: no curve, or another kind of file.
    """
    check_format(path)
    if not curves:
        raise ValueError("There is nothing to draw: give at least one learning curve.")
    figure = Figure(figsize=(7, 4.4))
    axes = figure.add_axes((0.1, 0.12, 0.86, 0.8))
    handles, labels = [], []
    for number, curve in enumerate(curves):
        style, means, spread = series_style(number), curve.means(), curve.deviations()
        axes.fill_between(curve.numbers, means - spread, means + spread, color=style["color"], alpha=0.16, linewidth=0)
        for place, several in zip(curve.numbers, curve.values, strict=True):
            axes.plot([place] * len(several), several, ".", color=style["color"], alpha=0.45, markersize=4)
        handles += axes.plot(curve.numbers, means, marker="o", markersize=4.5, linewidth=1.8, **style)
        labels.append(f"{curve.name}{_seeds(curve)}")
    if chance is not None:
        handles.append(axes.axhline(chance, color=GRAY, linewidth=1.2, linestyle=":"))
        labels.append(f"always the most frequent label: {chance:.3g}")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(_ticks(curves)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("training examples", color=GRAY, fontsize=9)
    name = PROSE.get(metric, metric.replace("_", " "))
    axes.set_ylabel(name, color=GRAY, fontsize=9)
    clean(axes)
    title = f"{name} on {split.replace(':', ': ')} by the number of training examples"
    axes.set_title(title, fontsize=11, color=INK, loc="left", parse_math=False)
    add_legend(axes, handles, labels)
    return save_figure(figure, path)


def _ticks(curves: Sequence[LearningCurve]) -> list[float]:
    """The numbers of examples, but for those so close to a smaller one that their labels would cover it."""
    first, *others = sorted({number for curve in curves for number in curve.numbers})
    room = TICK_ROOM * np.log(others[-1] / first) if others else 0.0
    ticks = [first]
    for number in others:
        if np.log(number / ticks[-1]) >= room:
            ticks.append(number)
    return ticks


def _seeds(curve: LearningCurve) -> str:
    """How many runs a point is the mean of."""
    least, most = min(map(len, curve.values)), max(map(len, curve.values))
    if most == 1:
        return ", one seed"
    return f", {most} seeds" if least == most else f", {least} to {most} seeds"
