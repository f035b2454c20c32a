"""The phase change of induction heads, drawn: losses and heads by step, and where the best head looks in the end."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

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
from regard.evaluation.induction import InductionMeasures, InductionProbe

PANEL, HEIGHT = 4.6, 5.0  # inches
NAMED_HEADS = 4  # the best ones have a colour; the others are gray
LINE = 0.9  # of the height of a line is the size of its letters, or it would run into the next


def plot_induction(
    record: Sequence[dict[str, Any]],
    measures: InductionMeasures,
    probe: InductionProbe,
    tokens: Sequence[str],
    path: str | Path,
) -> Path:
    """Three panels: the loss of repeated random tokens where they come first and again, by step; each head's
    prefix-matching score, by step; and the attention of the best head, at the end.

    Args:
        record: points of a training, as `regard.evaluation.induction.record_of` makes them, in order.
        measures: of the trained model.
        probe: what it was measured on.
        tokens: (T,) the tokens of the probe's first row, readable.
        path: a .png or .svg file; it is complete or not there.

    Raises:
        ValueError: another kind of file, or a record without a point.
    """
    check_format(path)
    if not record:
        raise ValueError("There is no point of a training to draw.")
    figure = Figure(figsize=(3 * PANEL + 1.0, HEIGHT))
    steps = np.array([point["step"] for point in record])
    _draw_losses(figure.add_axes((0.045, 0.13, 0.27, 0.76)), steps, record)
    _draw_heads(figure.add_axes((0.365, 0.13, 0.27, 0.76)), steps, record)
    _draw_map(figure.add_axes((0.71, 0.13, 0.27, 0.76)), measures, probe, tokens)
    return save_figure(figure, path)


def _draw_losses(axes: Any, steps: np.ndarray, record: Sequence[dict[str, Any]]) -> None:
    first, second = (np.array([point[name] for point in record]) for name in ("first", "second"))
    handles = axes.plot(steps, first, color=GRAY, linewidth=1.6)
    handles += axes.plot(steps, second, color=BLUE, linewidth=2.0)
    handles += axes.plot(steps, first - second, color=ORANGE, linewidth=1.6, linestyle="--")
    axes.set_ylim(min(0.0, float((first - second).min())) - 0.05, None)
    axes.set_xlabel("step", color=GRAY, fontsize=9)
    axes.set_ylabel("nats a token", color=GRAY, fontsize=9)
    clean(axes)
    axes.set_title("Random tokens that come twice", fontsize=11, color=INK, loc="left")
    labels = ["loss where they come first", "loss where they come again", "gain: the difference"]
    add_legend(axes, handles, labels)


def _draw_heads(axes: Any, steps: np.ndarray, record: Sequence[dict[str, Any]]) -> None:
    scores = np.array([point["prefix_matching"] for point in record])  # (points, L, H)
    layers, heads = scores.shape[1:]
    ranked = np.argsort(-scores[-1].ravel(), kind="stable")
    handles, labels = [], []
    for place, number in reversed(list(enumerate(ranked))):  # the best above the others
        layer, head = divmod(int(number), heads)
        named = place < NAMED_HEADS
        style = series_style(place) | {"linewidth": 1.8} if named else {"color": GRAY, "linewidth": 0.7, "alpha": 0.6}
        line = axes.plot(steps, scores[:, layer, head], clip_on=False, **style)
        if named:
            handles, labels = line + handles, [f"layer {layer}, head {head}", *labels]
    others = len(ranked) - NAMED_HEADS
    if others > 0:
        handles += axes.plot([], [], color=GRAY, linewidth=0.7)
        labels.append(f"the other {others} heads" if others > 1 else "the other head")
    axes.set_ylim(0, 1)
    axes.set_xlabel("step", color=GRAY, fontsize=9)
    axes.set_ylabel("attention to what followed last time", color=GRAY, fontsize=9)
    clean(axes)
    axes.set_title(f"Prefix matching of {layers} × {heads} heads", fontsize=11, color=INK, loc="left")
    add_legend(axes, handles, labels, columns=2)


def _draw_map(axes: Any, measures: InductionMeasures, probe: InductionProbe, tokens: Sequence[str]) -> None:
    layer, head = measures.best_head
    weights = measures.attention[layer, head]  # (T, T)
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    half = probe.second.start - 0.5
    axes.axhline(half, color=ORANGE, linewidth=0.9)
    axes.axvline(half, color=ORANGE, linewidth=0.9)
    side = 72 * min(axes.bbox.size) / axes.figure.dpi  # of the map, in points
    size = min(9.0, LINE * side / len(tokens))
    for ticks, turned in ((axes.set_xticks, 90), (axes.set_yticks, 0)):
        ticks(range(len(tokens)), tokens, fontsize=size, rotation=turned, parse_math=False)
    axes.tick_params(length=0, colors=INK)
    for edge in axes.spines.values():
        edge.set_color(PALE)
    axes.set_xlabel("looked at; the lines part first and second occurrence", color=GRAY, fontsize=9)
    axes.set_ylabel("looks", color=GRAY, fontsize=9)
    axes.set_title(f"Attention of layer {layer}, head {head}", fontsize=11, color=INK, loc="left")
