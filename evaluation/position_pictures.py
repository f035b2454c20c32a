"""What a model knows of positions: its table as a picture, and how alike two positions are by their distance.

Axes: P positions, D width of the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from transformers import PreTrainedConfig, PreTrainedModel

from regard.evaluation.drawing import BLUE, GRAY, INK, check_format, clean, save_figure
from regard.modeling.positions import LearnedPositions, sinusoidal_table

MOST_POSITIONS = 128  # of a table, drawn by default
LEARNED, ROTARY = "learned", "rotary"
UNITS = {ROTARY: "sine and cosine of each pair in turn"}


@dataclass(frozen=True)
class PositionTable:
    """A table to look at.

    Attributes:
        kind: "sinusoidal", "learned" or "rotary".
        part: whose it is, where a model has several: "encoder" or "decoder".
        table: float32 of shape (P, D). Rotary positions add nothing to a token: the table holds the sines and cosines
            of the angles by which they turn a head's pairs.
    """

    kind: str
    part: str
    table: torch.Tensor


def position_tables(
    config: PreTrainedConfig, model: PreTrainedModel | None = None, number: int | None = None
) -> list[PositionTable]:
    """The position tables of a model: one, or two where encoder and decoder have each learned theirs.

    Args:
        config: of any of this package's Transformers; sinusoids and rotations follow from it.
        model: where positions are learned.
        number: so many positions from the first; by default those that the model was made for, at most
            `MOST_POSITIONS`.

    Raises:
        ValueError: the model has no positions, fewer, or has not learned them yet.
    """
    if number is not None and number < 2:
        raise ValueError(f"positions={number} must be at least 2: a distance takes two of them.")
    kind = getattr(config, "position_embedding_type", None)
    made_for = getattr(config, "max_position_embeddings", MOST_POSITIONS)
    wanted = min(made_for, MOST_POSITIONS) if number is None else number
    if kind in ("sinusoidal", ROTARY):
        width = config.head_dim if kind == ROTARY else config.hidden_size
        return [PositionTable(kind, "", sinusoidal_table(wanted, width, config.position_base))]
    if kind != LEARNED:
        said = f"position_embedding_type='{kind}'" if kind else f"the model type '{config.model_type}'"
        raise ValueError(f"With {said} there is no position table to draw.")
    if model is None:
        raise ValueError("Learned positions are mere noise before they are trained: give a run, not its recipe.")
    if wanted > made_for:
        raise ValueError(f"positions={number} is more than the {made_for} that the model has learned.")
    return [
        PositionTable(kind, _part(name), module.weight.detach().float().cpu()[:wanted])
        for name, module in model.named_modules()
        if isinstance(module, LearnedPositions)
    ]


def _part(name: str) -> str:
    return next((part for part in ("encoder", "decoder") if part in name.split(".")), "")


def dot_products_by_distance(table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The dot products of all pairs of positions at each distance: their mean, the least and the greatest.

    For sinusoids, sin a sin b + cos a cos b = cos(a - b) in each pair, so that the three are one: the sum of
    cos(distance / base^(2i / D)) over the D/2 pairs i, wherever the two positions are.

    Args:
        table: (P, D).

    Returns:
        Three tensors of float64 and shape (P,), by distance from 0.
    """
    table = table.double()
    products = table @ table.T  # (P, P)
    diagonals = [products.diagonal(distance) for distance in range(len(table))]
    found = [(one.mean(), one.min(), one.max()) for one in diagonals]
    mean, least, greatest = (torch.stack(values) for values in zip(*found, strict=True))
    return mean, least, greatest


def plot_positions(tables: Sequence[PositionTable], path: str | Path) -> Path:
    """The position tables of a model, and beside each the dot products of its positions by their distance.

    Args:
        path: a .png or .svg file; it is complete or not there.

    Raises:
        ValueError: another kind of file, or no table.
    """
    check_format(path)
    if not tables:
        raise ValueError("There is no position table to draw.")
    figure = Figure(figsize=(11, 4.2 * len(tables)), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
    grid = figure.add_gridspec(len(tables), 2, width_ratios=(1.15, 1))
    for row, table in enumerate(tables):
        _draw_table(figure, figure.add_subplot(grid[row, 0]), table)
        _draw_products(figure.add_subplot(grid[row, 1]), table)
    return save_figure(figure, path)


def _draw_table(figure: Figure, axes: Any, one: PositionTable) -> None:
    highest = float(one.table.abs().max())
    image = axes.imshow(
        one.table.numpy(), cmap="RdBu_r", vmin=-highest, vmax=highest, aspect="auto", interpolation="nearest"
    )
    axes.set_xlabel(UNITS.get(one.kind, "unit"), color=GRAY, fontsize=9)
    axes.set_ylabel("position", color=GRAY, fontsize=9)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    for edge in axes.spines.values():
        edge.set_visible(False)
    axes.tick_params(colors=INK, length=3)
    bar = figure.colorbar(image, ax=axes, aspect=30, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=GRAY)
    about = {
        "sinusoidal": "Sinusoidal positions: sine and cosine in turn",
        LEARNED: "Learned positions",
        ROTARY: "Rotary positions: sine and cosine of the angles",
    }
    part = f" of the {one.part}" if one.part else ""
    axes.set_title(f"{about[one.kind]}{part}", fontsize=11, color=INK, loc="left")


def _draw_products(axes: Any, one: PositionTable) -> None:
    mean, least, greatest = dot_products_by_distance(one.table)
    distances = range(len(mean))
    alike = bool((greatest - least).max() <= 1e-4 * mean[0].abs())
    if not alike:
        band = axes.fill_between(distances, least, greatest, color=BLUE, alpha=0.18, linewidth=0)
    (line,) = axes.plot(distances, mean, color=BLUE, linewidth=1.6)
    axes.axhline(0, color="#c8ccd2", linewidth=0.8)
    axes.set_xlabel("distance between two positions", color=GRAY, fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    clean(axes)
    title = "Dot products by distance" + (": the same wherever the two are" if alike else "")
    axes.set_title(title, fontsize=11, color=INK, loc="left")
    if not alike:
        axes.legend([line, band], ["mean over all pairs", "least to greatest"], frameon=False, fontsize=9)
