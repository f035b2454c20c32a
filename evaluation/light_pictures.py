"""A word in different sentences, drawn: its likeness by layer, and the ways of its vectors in a plane.

Axes: U uses of the word, L layers, D width.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regard.evaluation.drawing import GRAY, INK, PALE, add_legend, check_format, clean, save_figure, series_style
from regard.evaluation.labels import label_points
from regard.evaluation.light import Light, Use
from regard.evaluation.light_report import notes
from regard.evaluation.vector_pictures import principal_plane

CONTEXT = 34  # characters on each side of the word in a legend
LONGEST_WORD = 24  # of a title, in characters
SIDE = 5.4  # of a panel, in inches
LINE = 0.036  # of a legend, as a share of the figure's height
COLUMNS = 2


def plot_light(seen: Light, path: str | Path) -> Path:
    """Two panels: the cosines of the word's uses by layer, and their vectors at all layers in one plane, joined from
    layer 0 on.

    Args:
        seen: what `light` saw.
        path: a .png or .svg file; it is complete or not there.

    Raises:
        ValueError: another kind of file.
    """
    check_format(path)
    figure = Figure(figsize=(2 * SIDE + 1.2, SIDE))
    _draw_cosines(figure.add_axes((0.06, 0.12, 0.41, 0.78)), seen)
    _draw_ways(figure.add_axes((0.55, 0.12, 0.44, 0.78)), seen)
    lines = max(math.ceil((len(seen.pairs()) + 2) / COLUMNS), len(seen.uses))  # of the longer legend
    for number, line in enumerate(notes(seen)):
        figure.text(0.06, -0.06 - LINE * (lines + number), line, fontsize=9, color=GRAY)
    return save_figure(figure, path)


def _draw_cosines(axes: Any, seen: Light) -> None:
    names, places, handles, labels = seen.names(), np.arange(len(seen.stages)), [], []
    for number, ((one, two), cosine) in enumerate(zip(seen.pairs(), seen.between(), strict=True)):
        handles += axes.plot(places, cosine, marker="o", markersize=4, linewidth=1.8, **series_style(number + 3))
        labels.append(f"in {names[one]} and in {names[two]}")
    moved = seen.from_layer_0().mean(axis=0)
    handles += axes.plot(places[1:], moved, color=INK, linewidth=1.2, linestyle="--")
    labels.append("each and itself at layer 0, mean")
    if seen.others:
        handles += axes.plot(places, seen.others, color=GRAY, linewidth=1.2, linestyle=":")
        labels.append("two other tokens, mean")
    axes.set_xticks(places, seen.stages)
    axes.set_xlabel("layer", color=GRAY, fontsize=9)
    axes.set_ylabel("cosine similarity", color=GRAY, fontsize=9)
    axes.set_ylim(min(0.0, *(line.get_ydata().min() for line in handles)) - 0.03, 1.03)
    clean(axes)
    word = seen.word if len(seen.word) <= LONGEST_WORD else f"{seen.word[:LONGEST_WORD]}…"
    title = f"“{word}”: how alike its vectors are, layer by layer"
    axes.set_title(title, fontsize=11, color=INK, loc="left", parse_math=False)
    add_legend(axes, handles, labels, columns=COLUMNS)


def _draw_ways(axes: Any, seen: Light) -> None:
    """Directions alone: vectors grow from layer to layer, and cosines do not see it."""
    uses, layers, width = seen.vectors.shape
    lengths = np.linalg.norm(seen.vectors, axis=2, keepdims=True)
    units = (seen.vectors / np.maximum(lengths, 1e-12)).reshape(-1, width)
    points, shares = principal_plane(units)
    ways = points.reshape(uses, layers, 2)
    low, high = points.min(axis=0), points.max(axis=0)
    reach = max((high - low).max(), 1e-6) * 0.58
    for middle, limit in zip((low + high) / 2, (axes.set_xlim, axes.set_ylim), strict=True):
        limit(middle - reach, middle + reach)
    handles: list[Any] = []
    colours: dict[tuple[float, ...], str] = {}  # of each layer's number where it stands
    for number, way in enumerate(ways):
        style = series_style(number)
        handles += axes.plot(*way.T, marker="o", markersize=4.5, linewidth=1.4, alpha=0.85, **style)
        for layer, point in enumerate(np.round(way, 6)):
            shared = (layer, *point) in colours  # where uses do not differ, their number is written once
            colours[layer, *point] = INK if shared else style["color"]
    layers_there, *there = zip(*colours, strict=True)
    between = np.linspace(0.1, 0.9, 9)[:, None, None, None]
    marks = (ways[:, :-1] * (1 - between) + ways[:, 1:] * between).reshape(-1, 2)  # along the lines
    label_points(
        axes, np.stack(there, axis=1), list(map(str, layers_there)), list(colours.values()), marks=marks, size=8
    )
    axes.set_xticks([])
    axes.set_yticks([])
    for edge in axes.spines.values():
        edge.set_color(PALE)
    axes.set_xlabel(f"component 1: {shares[0]:.0%} of the variance", fontsize=9, color=GRAY)
    axes.set_ylabel(f"component 2: {shares[1]:.0%} of the variance", fontsize=9, color=GRAY)
    title = "The ways of its vectors (PCA of their directions; numbers are layers)"
    axes.set_title(title, fontsize=11, color=INK, loc="left")
    legends = [f"{name}  {_around(seen, use)}" for name, use in zip(seen.names(), seen.uses, strict=True)]
    add_legend(axes, handles, legends)


def _around(seen: Light, use: Use) -> str:
    """The word with what is next to it."""
    text = seen.sentences[use.sentence - 1]
    first, last = max(0, use.start - CONTEXT), use.end + CONTEXT
    return f"{'…' if first else ''}{text[first:last]}{'…' if last < len(text) else ''}".replace("\n", " ")
