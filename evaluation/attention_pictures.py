"""Attention as heat maps: one layer and head, or all of them on one sheet; a page to choose from is `attention_page`.

Axes: L layers, H heads, T tokens that look, S tokens that are looked at.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.attention import ALL, AttentionMaps, attention_maps
from regard.evaluation.attention_page import write_attention_page
from regard.evaluation.drawing import DPI, FORMATS, GRAY, INK, check_format, missing_glyphs, save_figure

PAGE = ".html"
TITLES = {
    "cross": "Cross-attention",
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
}
READING = {
    "cross": "rows: tokens written; columns: source tokens looked at",
    "encoder": "rows: tokens that look; columns: tokens looked at",
    "decoder": "rows: tokens that look; columns: tokens looked at, never later ones",
}
POINT = 1 / 72  # in inches, as all lengths here
LONGEST_SIDE = 25_000 / DPI  # beyond it a picture needs gigabytes to be drawn
LARGEST_AREA = 120_000_000 / DPI**2
NUMBERED_CELLS = 400  # up to so many, the weights are written into a single map, where its cells are wide enough
NUMBERED_WIDTH = 0.4
NUMBERED_FROM = 0.1
CAPTION_SIZE, COLUMN_GAP = 8, 0.16
WAY_OUT = "; an .html page shows them in the fonts of the reader's browser"


def plot_attention(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None = None,
    path: str | Path = "attention.png",
    *,
    which: str | None = None,
    layer: int | str = ALL,
    head: int | str = ALL,
) -> Path:
    """Draws the attention of a text; `attention_maps` and `AttentionMaps.choose` say what the arguments mean.

    Args:
        path: a .png or .svg file, or .html for one self-contained page on which the reader chooses layer and head and
            which begins with those given; it is complete or not there.

    Raises:
        ValueError: another kind of file, an attention, layer or head that is not there, a text without tokens, or maps
            too many and large for one picture.
    """
    ending = check_attention_format(path)
    maps = attention_maps(model, tokenizer, source, target, which)
    if ending == PAGE:
        return write_attention_page(maps, path, TITLES[maps.which], READING[maps.which], layer, head)
    return save_figure(draw_attention(maps, layer, head), path, WAY_OUT)


def check_attention_format(path: str | Path) -> str:
    """`check_format` where a page will do as well."""
    return check_format(path, (*FORMATS, PAGE))


def draw_attention(maps: AttentionMaps, layer: int | str = ALL, head: int | str = ALL) -> Figure:
    """The figure: layers from the top down, heads from left to right, one scale of colour for all.

    Raises:
        ValueError: a layer or head that is not there, or more than fits into one picture.
    """
    weights, layers, heads = maps.choose(layer, head)  # (layers, heads, T, S)
    rows, columns, height, width = weights.shape
    single = rows == columns == 1
    cell_width, cell_height = max(0.24, min(0.62, 12 / width)), max(0.2, min(0.46, 9 / height))
    roomy = single and _fits(width * cell_width, height * cell_height)
    if roomy:  # wide cells, where few tokens leave the room
        size = min(11.0, cell_height * 0.72 / POINT, cell_width * 0.9 / POINT)
    else:
        cell_width = cell_height = max(0.125, min(0.26, 3.6 / max(width, height)))
        size = min(8.5, cell_width * 0.8 / POINT)
    widest = max(text_width(label, size) for label in maps.keys)
    upright = roomy and widest < cell_width - 0.06
    map_width, map_height = width * cell_width, height * cell_height
    captions = [] if single else [f"{one}, {other}" for one in layers for other in heads]
    sticks_out = max((text_width(caption, CAPTION_SIZE) - map_width for caption in captions), default=0.0)
    column_gap = max(COLUMN_GAP, sticks_out + 0.1)  # a caption is wider than a map of few tokens
    row_gap = 0.2 + CAPTION_SIZE * POINT
    whole_width = columns * map_width + (columns - 1) * column_gap
    whole_height = rows * map_height + (rows - 1) * row_gap
    _check_size(whole_width, whole_height, rows * columns, max(width, height))

    figure = Figure(figsize=(whole_width, whole_height))  # saving adds the room that labels and titles take
    highest = float(weights.max())
    for row in range(rows):
        for column in range(columns):
            left, top = column * (map_width + column_gap), row * (map_height + row_gap)
            bottom = whole_height - top - map_height
            axes = figure.add_axes(
                (left / whole_width, bottom / whole_height, map_width / whole_width, map_height / whole_height)
            )
            image = axes.imshow(weights[row, column].numpy(), cmap="Blues", vmin=0, vmax=highest, aspect="auto")
            _label(axes, maps.queries if column == 0 else [], maps.keys if row == 0 else [], size, upright, roomy)
            _part_cells(axes, height, width, roomy)
            if roomy and cell_width >= NUMBERED_WIDTH and height * width <= NUMBERED_CELLS:
                _write_numbers(axes, weights[0, 0], size)
            if not single:
                axes.set_xlabel(captions[row * columns + column], fontsize=CAPTION_SIZE, color=GRAY, labelpad=3)

    above = size * POINT if upright else widest * (0.71 if roomy else 1) + 0.02
    _add_scale(figure, image, whole_width, whole_height, max(0.0, sticks_out / 2))
    lines = [TITLES[maps.which] + (f", {layers[0]}, {heads[0]}" if single else ""), READING[maps.which]]
    for number, (line, fontsize, color) in enumerate(zip(lines, (12, 9), (INK, GRAY), strict=True)):
        up = above + 0.2 + (0.24 if number == 0 else 0)
        figure.text(0, 1 + up / whole_height, line, fontsize=fontsize, color=color, ha="left", va="bottom")
    return figure


def text_width(text: str, size: float) -> float:
    """In inches, in the font that pictures are written in."""
    font = FontProperties(size=size)
    with missing_glyphs():  # told of when they are drawn
        path = TextPath((0, 0), text.replace("$", "S"), size=size, prop=font)
    return path.get_extents().width * POINT if text else 0.0


def _fits(width: float, height: float) -> bool:
    return max(width, height) <= LONGEST_SIDE and width * height <= LARGEST_AREA


def _check_size(width: float, height: float, number: int, tokens: int) -> None:
    if _fits(width, height):
        return
    maps, way = "a map", "write an .html page"
    if number > 1:
        maps, way = f"{number} maps", "choose a layer and a head, or write an .html page"
    raise ValueError(f"The picture would be too large, with {maps} of up to {tokens} tokens a side: {way}.")


def _label(axes: Any, queries: Sequence[str], keys: Sequence[str], size: float, upright: bool, roomy: bool) -> None:
    if upright:
        turn: dict[str, Any] = {"rotation": 0, "ha": "center"}
    elif roomy:
        turn = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    else:
        turn = {"rotation": 90, "ha": "center"}
    axes.set_xticks(range(len(keys)), keys, fontsize=size, parse_math=False, **turn)
    axes.set_yticks(range(len(queries)), queries, fontsize=size, parse_math=False)
    axes.tick_params(
        top=True, labeltop=True, bottom=False, labelbottom=False, length=0, pad=3, labelsize=size, labelcolor=INK
    )


def _part_cells(axes: Any, height: int, width: int, roomy: bool) -> None:
    for edge in axes.spines.values():
        edge.set_visible(not roomy)
        edge.set_color("#c8ccd2")
        edge.set_linewidth(0.6)
    axes.set_xticks([i - 0.5 for i in range(1, width)], minor=True)
    axes.set_yticks([i - 0.5 for i in range(1, height)], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5 if roomy else 0.4)
    axes.tick_params(which="minor", length=0, top=False, left=False)


def _write_numbers(axes: Any, weights: torch.Tensor, size: float) -> None:
    half = float(weights.max()) * 0.6
    for row, column in (weights >= NUMBERED_FROM).nonzero().tolist():
        share = float(weights[row, column])
        color = "white" if share > half else INK
        axes.text(column, row, f"{share:.0%}", ha="center", va="center", fontsize=min(8, size), color=color)


def _add_scale(figure: Figure, image: Any, width: float, height: float, aside: float) -> None:
    """`aside`: how far the captions of the last column stick out."""
    length = min(height, 3.2)
    place = figure.add_axes((1 + (aside + 0.18) / width, 1 - length / height, 0.12 / width, length / height))
    bar = figure.colorbar(image, cax=place, format=lambda share, _: f"{share:.0%}")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=GRAY)
