"""Learning curves of sweeps: what their folders hold, handed to the function that draws it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from regard.evaluation.drawing import check_format
from regard.evaluation.learning_curves import LearningCurve, plot_learning_curves
from regard.train.run_pictures import name_runs
from regard.train.sweep_compare import read_sweep
from regard.train.sweep_table import SPLIT
from regard.train.sweep_values import EXAMPLES, as_json, shown


def plot_sweep_curves(
    sweeps: Sequence[str | os.PathLike[str]], path: str | Path, *, metric: str | None = None, split: str = SPLIT
) -> Path:
    """The learning curves of several sweeps together: a line for each sweep, or where other values vary too, for each
    combination of them.

    Args:
        sweeps: folders of sweeps over `data.max_train_examples`.
        path: a .png or .svg file; it is complete or not there.
        metric: by default the one that the sweeps were judged by.
        split: "validation", or a test set ("test", "test:<name>") of sweeps that measured it.

    Raises:
        ValueError: a folder without a sweep, a sweep over no numbers of examples, or one that did not measure this.
    """
    check_format(path)
    found = {name: read_sweep(folder) for name, folder in name_runs(sweeps).items()}
    judged = list(dict.fromkeys(result["metric"] for result in found.values()))
    if metric is None and len(judged) > 1:
        raise ValueError(f"The sweeps were judged by {' and '.join(judged)}: choose one by metric (--metric).")
    metric = metric or judged[0]
    curves, chances = [], []
    for name, result in found.items():
        if result.get("one_at_a_time") or EXAMPLES not in result["values"]:
            raise ValueError(
                f"The sweep '{name}' has no learning curve: it is one over numbers of examples, such as "
                f"--values {EXAMPLES}=16,64,256."
            )
        curves += _curves_of(name, result, metric, split)
        chances += [cell["baselines"][split][metric] for cell in result["cells"] if _has_baseline(cell, split, metric)]
    same = len(set(chances)) == 1  # and else the sweeps were not measured on the same
    return plot_learning_curves(curves, path, metric=metric, split=split, chance=chances[0] if same else None)


def _has_baseline(cell: Mapping[str, Any], split: str, metric: str) -> bool:
    return metric in cell.get("baselines", {}).get(split, {})


def _curves_of(name: str, result: Mapping[str, Any], metric: str, split: str) -> list[LearningCurve]:
    """One for each combination of the other values."""
    lines: dict[str, dict[int | None, list[tuple[float, float]]]] = {}  # of each seed, by what was asked for
    for cell in result["cells"]:
        if "diverged" in cell or cell.get(split, {}).get(metric, 0.0) is None:  # what was no number is null
            continue
        if metric not in cell.get(split, {}):
            measured = [key for key, measures in cell.items() if isinstance(measures, dict) and metric in measures]
            on = f" on {split}: it is on {' and '.join(measured)}" if measured else ""
            raise ValueError(f"The sweep '{name}' has not measured {metric}{on}.")
        others = {key: value for key, value in cell["values"].items() if key != EXAMPLES}
        points = lines.setdefault(as_json(others), {})
        points.setdefault(cell["values"][EXAMPLES], []).append((cell["examples"], cell[split][metric]))
    if not lines:
        raise ValueError(f"The sweep '{name}' has no run that came to its end.")
    more = [key for key in result["values"] if key != EXAMPLES and len(result["values"][key]) > 1]
    curves = []
    for others, points in lines.items():
        told = [f"{key}={shown(_value(result, others, key))}" for key in more]
        columns = sorted([*zip(*several, strict=True)] for several in points.values())
        numbers = [fmean(numbers) for numbers, _ in columns]  # a seed may draw an example that is left out
        curves.append(LearningCurve(", ".join([name, *told]), numbers, [list(values) for _, values in columns]))
    return curves


def _value(result: Mapping[str, Any], others: str, key: str) -> Any:
    cells = (cell["values"] for cell in result["cells"])
    return next(v[key] for v in cells if as_json({k: w for k, w in v.items() if k != EXAMPLES}) == others)
