"""Whether one sweep beats another by more than the spread of its seeds."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from regard.evaluation.directions import LOWER_IS_BETTER
from regard.train.checks import check_recipe
from regard.train.records import read_json
from regard.train.sweep_judged import differences
from regard.train.sweep_table import SPLIT, TEST, settings_of, with_deviation
from regard.train.sweep_values import as_json, shown

SWEEP = "sweep.json"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """The difference of two means, with what the seeds say of it.

    Attributes:
        values: the setting that the two have in common.
        means, deviations, seeds: of the first and the second; deviations over n - 1.
        difference: first minus second.
        interval: of the difference, by Welch's t (1947), at 95 %: the variances may differ.
        verdict: "first", "second", or "neither" where 0 is in the interval.
    """

    values: dict[str, Any]
    means: tuple[float, float]
    deviations: tuple[float, float]
    seeds: tuple[int, int]
    difference: float
    interval: tuple[float, float]
    verdict: str


def compare(
    first: Sequence[float],
    second: Sequence[float],
    lower_is_better: bool = False,
    values: dict[str, Any] | None = None,
) -> Comparison:
    """Compares what some seeds gave with what others gave.

    Raises:
        ValueError: fewer than two of either, whose spread is not known, or a value that is no finite number.
    """
    sides = [list(map(float, side)) for side in (first, second)]
    for side in sides:
        if len(side) < 2:
            raise ValueError("One seed has no spread: compare at least two of each.")
        if not all(map(math.isfinite, side)):
            raise ValueError("A value is no finite number: a mean of such is no comparison.")
    means = [math.fsum(side) / len(side) for side in sides]
    variances = [math.fsum((x - m) ** 2 for x in side) / (len(side) - 1) for side, m in zip(sides, means, strict=True)]
    parts = [variance / len(side) for variance, side in zip(variances, sides, strict=True)]  # of the means
    difference, error = means[0] - means[1], math.sqrt(sum(parts))
    reach = 0.0
    if error > 0:
        freedom = sum(parts) ** 2 / sum(p**2 / (len(side) - 1) for p, side in zip(parts, sides, strict=True))
        reach = float(student.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    interval = (difference - reach, difference + reach)
    verdict = (
        "neither" if interval[0] <= 0 <= interval[1] else "second" if (difference > 0) == lower_is_better else "first"
    )
    deviations = tuple(map(math.sqrt, variances))
    seeds = tuple(map(len, sides))
    return Comparison(values or {}, tuple(means), deviations, seeds, difference, interval, verdict)


def read_sweep(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """What a sweep's folder holds. Raises ValueError where it holds none."""
    path = Path(folder) / SWEEP
    if not path.is_file():
        beside = f"{str(folder).rstrip('/')}-sweep"
        hint = f"is it '{beside}'?" if (Path(beside) / SWEEP).is_file() else "give a folder that `regard sweep` wrote."
        raise ValueError(f"There is no sweep in '{folder}': {hint}")
    return read_json(path)


def compare_sweeps(
    first: str | os.PathLike[str], second: str | os.PathLike[str], metric: str | None = None, split: str = SPLIT
) -> list[Comparison]:
    """Compares two sweeps, setting by setting: the one that each has, or those whose values both have.

    Args:
        metric: by default the one that the sweeps were judged by.
        split: "validation", or a test set ("test", "test:<name>") of sweeps that measured it.

    Raises:
        ValueError: sweeps that were judged on different things, that have no setting in common, or of which one has
            not measured this with two seeds, or has a seed that diverged.
    """
    folders = (first, second)
    results = [read_sweep(folder) for folder in folders]
    metric = metric or results[0]["metric"]
    one, two = (check_recipe(result["recipe"]) for result in results)
    changed = [key for key, _ in differences(one, two, metric, split)]
    if changed:
        raise ValueError(f"'{first}' and '{second}' were judged on different things: they differ in {changed[0]}.")
    settings = [{as_json(one["values"]): one for one in settings_of(result["cells"], metric)} for result in results]
    if all(len(several) == 1 for several in settings):
        pairs = [tuple(next(iter(several.values())) for several in settings)]
    else:
        pairs = [(settings[0][key], settings[1][key]) for key in settings[0] if key in settings[1]]
    if not pairs:
        raise ValueError(f"'{first}' and '{second}' have no setting in common: sweep the same values in both.")
    comparisons = []
    for pair in pairs:
        columns = [_column(setting, metric, split, folder) for setting, folder in zip(pair, folders, strict=True)]
        values = pair[0]["values"] if pair[0]["values"] == pair[1]["values"] else {}
        comparisons.append(compare(*columns, metric in LOWER_IS_BETTER, values))
    return comparisons


def _column(setting: Mapping[str, Any], metric: str, split: str, folder: Any) -> list[float]:
    """What each seed gave. A setting is not to win for the luck of the seeds that did not diverge."""
    where = "".join(f", {key}={shown(value)}" for key, value in setting["values"].items())
    if diverged := setting["diverged"]:
        raise ValueError(
            f"In the sweep in '{folder}'{where}, seed {diverged[0]} diverged: there is no mean to compare."
        )
    each = (setting if split == SPLIT else setting.get(TEST, {}).get(split, {})).get("each", {})
    if metric not in each:
        there = f": it has {', '.join(each)}" if each else ""
        raise ValueError(f"The sweep in '{folder}' has not measured {metric} on {split}{there}.")
    if len(each[metric]) < 2:
        raise ValueError(f"The sweep in '{folder}'{where} has one seed, which has no spread: give it two by --seeds.")
    return each[metric]


def comparison_text(comparisons: Sequence[Comparison], first: str, second: str, metric: str) -> str:
    """A line for each comparison, and what it comes to."""
    lines = []
    for one in comparisons:
        where = ", ".join(f"{key}={shown(value)}" for key, value in one.values.items())
        sides = [
            f"{name} {with_deviation(mean, deviation)} ({seeds} seeds)"
            for name, mean, deviation, seeds in zip((first, second), one.means, one.deviations, one.seeds, strict=True)
        ]
        low, high = one.interval
        neither = "the seeds spread too far to tell" if low < high else "there is no difference"
        said = {"first": f"{first} is better", "second": f"{second} is better"}.get(one.verdict, neither)
        lines.append(
            f"{f'{where}: ' if where else ''}{metric}: {', '.join(sides)}; difference {one.difference:+.4g}, "
            f"95 % interval {low:+.4g} to {high:+.4g}: {said}."
        )
    return "\n".join(lines) + "\n"
