"""Linear regression in context, drawn: the error by the number of examples, beside least squares."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regard.evaluation.drawing import BLUE, GRAY, INK, ORANGE, add_legend, check_format, clean, save_figure

LINES = {
    "model": ("the decoder, in context", {"color": BLUE, "linewidth": 2.2, "marker": "o", "markersize": 4}),
    "least squares": ("least squares", {"color": ORANGE, "linewidth": 1.6}),
    "ridge": ("ridge, the best there is", {"color": INK, "linewidth": 1.2, "linestyle": "--"}),
    "zero": ("zero, whatever the examples", {"color": GRAY, "linewidth": 1.2, "linestyle": ":"}),
}
ROOM = 1.6  # above the error without examples: what errs by more has learnt nothing


def plot_regression(measures: dict[str, Any], path: str | Path) -> Path:
    """The squared error of w·x by the number of examples, for the model and its baselines.

    The line of least squares is broken where its error has no mean.

    Args:
        measures: of a split, as `regard.train.in_context_regression.evaluate_regression` returns them.
        path: a .png or .svg file; it is complete or not there.

    Raises:
        ValueError: another kind of file.
    """
    check_format(path)
    figure = Figure(figsize=(6.4, 4.2))
    axes = figure.add_axes((0.1, 0.14, 0.88, 0.76))
    size, handles, labels = measures["input_size"], [], []
    for name, (label, style) in LINES.items():
        errors = np.array(measures["by_examples"][name]["clean"], float)  # NaN where there is no mean
        handles += axes.plot(np.arange(len(errors)), errors, **style)
        without = np.flatnonzero(np.isnan(errors)).tolist()
        ends = " to ".join(map(str, sorted({*without[:1], *without[-1:]})))
        labels.append(f"{label}, no mean at {ends}" if ends else label)
    axes.set_ylim(0, ROOM * measures["by_examples"]["zero"]["clean"][0])
    for shots, note in ((size, "d"), (2 * size, "2d")):
        if shots >= len(errors):
            break
        axes.axvline(shots, color=GRAY, linewidth=0.8, linestyle=":")
        axes.text(shots + 0.1, axes.get_ylim()[1] * 0.95, note, fontsize=9, color=GRAY)
    axes.set_xlabel("examples in the context", color=GRAY, fontsize=9)
    axes.set_ylabel("squared error of w·x", color=GRAY, fontsize=9)
    clean(axes)
    title = f"Linear functions of {size} coordinates, noise {measures['noise']:g}"
    axes.set_title(title, fontsize=11, color=INK, loc="left", parse_math=False)
    add_legend(axes, handles, labels, columns=2)
    return save_figure(figure, path)
