"""The metric by the number of shots: zero, one and few marked, with chance and other learners beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regard.evaluation.curves import ON_THE_AXIS, not_below_zero
from regard.evaluation.drawing import (
    BLUE,
    GRAY,
    INK,
    ORANGE,
    PALE,
    add_legend,
    check_format,
    clean,
    save_figure,
    series_style,
)
from regard.evaluation.few_shot.measures import SHARES
from regard.evaluation.few_shot.result import FewShotResult
from regard.evaluation.few_shot.table import NAMES, number_of_items, shown, so_many

ONE, FEW = 0.5, 1.29  # where one-shot and few-shot begin on the axis, between 0 and 1 and between 1 and 2 shots
BESIDE = 0.035  # between the bars of two results with as many shots
ENDED: dict[str, Any] = {"fmt": "none", "elinewidth": 1.4, "capsize": 4, "capthick": 1.4}  # bars with ends
MAY_BE_NEGATIVE = ("matthews_correlation",)


def plot_few_shot(
    result: FewShotResult,
    path: str | Path,
    *,
    others: Sequence[FewShotResult] = (),
) -> Path:
    """Draws a result over the numbers of shots.

    The line is the mean over the seeds. Where there are several, a point is each seed's, and the band one standard
    deviation to each side; of a number of shots without a neighbour, bars with ends are the deviation. The other bars
    are the interval over the items. Where prompts had no room for all shots, the line's point is hollow. Learners that
    stand beside the result (`FewShotResult.beside`) have lines of their own, and bars where they have intervals.

    Args:
        path: a .png or .svg file; it is complete or not there.
        others: results of the same task and metric, of other models or settings; each has a line too.

    A result of one number of shots and several groups of items is drawn by group.

    Raises:
        ValueError: another kind of file, or results of different tasks or metrics.
    """
    check_format(path)
    for other in others:
        if (other.task, other.metric) != (result.task, result.metric):
            raise ValueError(
                f"The results of {result.task} ({result.metric}) and {other.task} ({other.metric}) do not go into one "
                "picture."
            )
    if not others and by_group(result):
        return _plot_groups(result, path)
    figure = Figure(figsize=(7, 4.4))
    axes = figure.add_axes((0.1, 0.14, 0.86, 0.76))
    handles, labels = [], []
    results = [result, *others]
    for number, one in enumerate(results):
        handles.append(_draw(axes, one, number))
        labels.append(_name(one, prompted=len(results) == 1))
    for number, curve in enumerate(result.beside, len(results)):
        style, means, spread = series_style(number), curve.means(), curve.deviations()
        places = _places(curve.numbers)
        _spread(axes, places, means, spread, curve.values, number)
        if curve.intervals is not None:
            _bars(axes, places, curve.intervals, number, style)
        handles += axes.plot(places, means, marker="s", markersize=4, linewidth=1.5, **ON_THE_AXIS, **style)
        labels.append(curve.name)
    if result.chance is not None:
        handles.append(axes.axhline(result.chance, color=GRAY, linewidth=1.2, linestyle=":"))
        labels.append(f"chance: {shown(result.metric, result.chance)}")
    numbers = {point.shots for one in results for point in one.points} | {
        n for one in result.beside for n in one.numbers
    }
    learnt = any(one.beside for one in results)  # and not in a prompt
    _axis(axes, sorted(numbers), "examples" if learnt else "examples in the prompt")
    if any(point.cut for one in results for point in one.points):
        handles += axes.plot([], [], "o", markersize=4.5, color=GRAY, markerfacecolor="white")
        labels.append("not all shots fit into the model's context")
    spreads = [_deviations(one) for one in results] + [one.deviations() for one in result.beside]
    if any(_alone(one).any() for one in spreads):
        handles.append(axes.errorbar([np.nan], [np.nan], [np.nan], ecolor=GRAY, **ENDED))
        labels.append("bars with ends: one standard deviation of the seeds to each side")
    name = NAMES[result.metric]
    if result.metric in SHARES:
        axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set_ylabel(name, color=GRAY, fontsize=9)
    clean(axes)
    if result.metric not in MAY_BE_NEGATIVE:
        not_below_zero(axes)
    title = f"{result.task}: {name} by the number of {'examples' if learnt else 'shots'}"
    axes.set_title(title, fontsize=11, color=INK, loc="left", parse_math=False, pad=20)
    add_legend(axes, handles, labels)
    return save_figure(figure, path)


def _draw(axes, result: FewShotResult, number: int):  # noqa: ANN001, ANN202  (matplotlib's)
    """The line of a result with its spread over seeds and its interval over items."""
    style, points = series_style(number), result.points
    places = _places([point.shots for point in points])
    means = np.array([point.mean for point in points])
    _spread(axes, places, means, _deviations(result), [point.by_seed for point in points], number)
    _bars(axes, places, [point.interval for point in points], number, style)
    (line,) = axes.plot(places, means, marker="o", markersize=4.5, linewidth=1.8, **ON_THE_AXIS, **style)
    cut = [place for place, point in enumerate(points) if point.cut]
    hollow = {"color": style["color"], "markerfacecolor": "white", "zorder": 3, "clip_on": False}
    axes.plot(places[cut], means[cut], "o", markersize=4.5, **hollow)
    return line


def _spread(  # noqa: ANN001
    axes,
    places: np.ndarray,
    means: np.ndarray,
    deviations: np.ndarray,
    values: Sequence[Sequence[float]],
    number: int,
) -> None:
    """The seeds' values, where there are several, and one deviation to each side of their mean: a band, which takes
    two numbers of shots that are neighbours, or bars with ends."""
    color, alone = series_style(number)["color"], _alone(deviations)
    axes.fill_between(places, means - deviations, means + deviations, color=color, alpha=0.16, linewidth=0)
    if alone.any():
        where = places[alone] - BESIDE * (number + 1)
        axes.errorbar(where, means[alone], deviations[alone], ecolor=color, alpha=0.6, **ENDED)
    for place, several in zip(places, values, strict=True):
        if len(several) > 1:
            axes.plot([place] * len(several), several, ".", color=color, alpha=0.45, markersize=4, **ON_THE_AXIS)


def _deviations(result: FewShotResult) -> np.ndarray:
    """Of the seeds, float64 (numbers,); NaN where there is none."""
    return np.array([np.nan if point.deviation is None else point.deviation for point in result.points])


def _alone(deviations: np.ndarray) -> np.ndarray:
    """bool (numbers,): those between which and their neighbours no band can be drawn."""
    known = np.isfinite(deviations)
    beside = np.pad(known, 1)
    return known & ~beside[:-2] & ~beside[2:]


def _bars(axes, places: np.ndarray, intervals: Sequence[Sequence[float]], number: int, style) -> None:  # noqa: ANN001
    """The intervals over the items, those of each line beside the others'."""
    low, high = np.array(intervals).T
    axes.vlines(places + BESIDE * number, low, high, color=style["color"], linewidth=1, alpha=0.55)


def _places(numbers: Sequence[float]) -> np.ndarray:
    """log2(1 + shots): 0 has a place, and doublings are about as far apart."""
    return np.log2(1 + np.asarray(numbers, dtype=np.float64))


def _axis(axes, numbers: list[float], label: str) -> None:  # noqa: ANN001
    places = _places(numbers)
    last = float(places[-1])
    axes.set_xlim(min(0.0, float(places[0])) - 0.25, max(last, 0.0) + 0.25)
    axes.set_xticks(places, [f"{number:g}" for number in numbers])
    axes.set_xlabel(label, color=GRAY, fontsize=9)
    left, right = axes.get_xlim()
    edges = (left, ONE, FEW, right)
    for name, low, high in zip(("zero-shot", "one-shot", "few-shot"), edges[:-1], edges[1:], strict=True):
        low, high = max(low, left), min(high, right)
        if not any(low <= place < high for place in places):
            continue
        if low > left:
            axes.axvline(low, color=PALE, linewidth=1.2, zorder=0)
        where = {"xy": ((low + high) / 2, 1.015), "xycoords": ("data", "axes fraction"), "ha": "center"}
        axes.annotate(name, **where, color=BLUE, fontsize=8.5)


def by_group(result: FewShotResult) -> bool:
    """Whether the picture of a result is by group of items: there are several, and one number of shots."""
    return len(result.points) == 1 and len(result.points[0].groups) > 1


def _plot_groups(result: FewShotResult, path: str | Path) -> Path:
    """All items and each group, a line each, with the interval over its items."""
    (point,) = result.points
    rows = [("all", result.items, point.mean, point.interval)]
    rows += [(name, group.items, group.mean, group.interval) for name, group in point.groups.items()]
    figure = Figure(figsize=(7, 0.9 + 0.42 * len(rows)))
    axes = figure.add_axes((0.3, 0.2, 0.66, 0.68))
    for place, (_, _, mean, (low, high)) in enumerate(rows):
        color = ORANGE if place == 0 else BLUE
        axes.hlines(place, low, high, color=color, linewidth=1.4, alpha=0.6)
        axes.plot(mean, place, "o", color=color, markersize=5.5, **ON_THE_AXIS)
    if result.chance is not None:
        axes.axvline(result.chance, color=GRAY, linewidth=1.2, linestyle=":")
        where = {"xy": (result.chance, -0.75), "ha": "center", "va": "bottom"}
        axes.annotate(f"chance: {shown(result.metric, result.chance)}", **where, color=GRAY, fontsize=8.5)
    clean(axes)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color=PALE, linewidth=0.8)
    axes.set_ylim(len(rows) - 0.5, -0.8)
    labels = [f"{name} ({so_many(items, 'item')})" for name, items, _, _ in rows]
    axes.set_yticks(range(len(rows)), labels, parse_math=False)
    if result.metric in SHARES:
        axes.xaxis.set_major_formatter("{x:.0%}")
    name = NAMES[result.metric]
    axes.set_xlabel(f"{name}, and its interval at 95 % over the items", color=GRAY, fontsize=9)
    if result.metric not in MAY_BE_NEGATIVE:
        not_below_zero(axes, "x")
    title = f"{result.task}: {name} of {result.model} with {so_many(point.shots, 'shot')}"
    axes.set_title(title, fontsize=11, color=INK, loc="left", parse_math=False, x=-0.4, pad=18)
    return save_figure(figure, path)


def _name(result: FewShotResult, prompted: bool) -> str:
    seeds, items = len(result.settings["seeds"]), number_of_items(result.items, result.rules)
    by = f"{seeds} seeds, {items}" if seeds > 1 and max(result.settings["shots"]) else items
    return f"{result.model}{', prompted' if prompted else ''} ({by}; bars: 95 % over the items)"
