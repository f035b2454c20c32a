"""Labels of points that hide neither one another nor the points: where each of them is to go.

Axes: N points with a label each, M further marks that labels should not cover, K places to choose from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg

from regard.evaluation.drawing import GRAY, INK, missing_glyphs

ANGLES = np.deg2rad([0, 180, 90, 270, 30, 150, 330, 210, 60, 120, 300, 240])  # the ones that read best first
GAPS = (5.0, 9.0, 14.0, 20.0, 28.0, 38.0, 50.0, 65.0, 82.0, 100.0)  # between a point and its label, in pixels
SWEEPS = 12
# What is paid for a whole label's worth of the thing; an angle and a gap cost little, and only decide between equals.
COVERS_LABEL, COVERS_MARK, OUTSIDE, PER_ANGLE, PER_GAP = 100.0, 30.0, 100.0, 0.01, 0.02
FAR = 10.0  # a label so far from its point gets a line to it


@dataclass(frozen=True)
class Placement:
    """Where the labels are.

    Attributes:
        centres: float64 of shape (N, 2).
        gaps: float64 of shape (N,), the distance between a point and its label.
        overlapping: how many pairs of labels still cover one another.
    """

    centres: np.ndarray
    gaps: np.ndarray
    overlapping: int


def place_labels(points: np.ndarray, sizes: np.ndarray, marks: np.ndarray, bounds: Sequence[float]) -> Placement:
    """Finds places near the points by going round the labels again and again: each takes the place that costs least
    as the others lie, until none moves.

    Args:
        points: (N, 2), in pixels.
        sizes: width and height of the labels, (N, 2).
        marks: centre, width and height of what should not be covered, the points among it, (M, 4).
        bounds: left, bottom, right and top of what labels should stay in.
    """
    if not len(points):
        return Placement(np.zeros((0, 2)), np.zeros(0), 0)
    gaps, angles = np.repeat(GAPS, len(ANGLES)), np.tile(ANGLES, len(GAPS))  # (K,)
    towards = np.stack([np.cos(angles), np.sin(angles)], axis=1)  # (K, 2)
    liked = PER_ANGLE * np.tile(np.arange(len(ANGLES)), len(GAPS)) + PER_GAP * gaps  # (K,)
    places = points[:, None] + towards * (gaps[:, None] + sizes[:, None] / 2)  # (N, K, 2)

    low, high = np.array(bounds[:2]), np.array(bounds[2:])
    fixed = np.empty(places.shape[:2])  # (N, K), the costs that do not depend on the other labels
    for i, (centres, size) in enumerate(zip(places, sizes, strict=True)):
        outside = np.maximum(low - (centres - size / 2), 0) + np.maximum(centres + size / 2 - high, 0)
        covered = _overlap(centres, size, marks[:, :2], marks[:, 2:]).sum(axis=1)
        fixed[i] = liked + OUTSIDE * (outside / size).sum(axis=1) + COVERS_MARK * covered

    taken = fixed.argmin(axis=1)  # (N,)
    crowded = np.argsort([-np.count_nonzero(np.abs(points - one).max(axis=1) < 60) for one in points], kind="stable")
    everyone = np.arange(len(points))
    for _ in range(SWEEPS):
        before = taken.copy()
        for i in crowded:
            others = everyone != i
            centres = places[everyone, taken][others]
            shares = _overlap(places[i], sizes[i], centres, sizes[others]).sum(axis=1)
            taken[i] = (fixed[i] + COVERS_LABEL * (shares + (shares > 0))).argmin()
        if (taken == before).all():
            break
    centres = places[everyone, taken]
    pairs = np.abs(centres[:, None] - centres) < (sizes[:, None] + sizes) / 2  # (N, N, 2)
    overlapping = (np.count_nonzero(pairs.all(axis=2)) - len(points)) // 2
    return Placement(centres, gaps[taken], overlapping)


def _overlap(centres: np.ndarray, size: np.ndarray, others: np.ndarray, other_sizes: np.ndarray) -> np.ndarray:
    """Which share of a box of `size` at each of (K, 2) is covered by each of the others (M, 2), (K, M)."""
    reach = (size + other_sizes) / 2  # (M, 2)
    common = np.clip(reach - np.abs(centres[:, None] - others), 0, np.minimum(size, other_sizes))  # (K, M, 2)
    return common.prod(axis=2) / size.prod()


def nearest_edge(points: np.ndarray, centres: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The point of each box that is nearest to a point, (N, 2) each."""
    return np.clip(points, centres - sizes / 2, centres + sizes / 2)


def label_points(
    axes: Any,
    points: np.ndarray,
    labels: Sequence[str],
    colours: Sequence[str] | None = None,
    bold: Sequence[bool] | None = None,
    marks: np.ndarray | None = None,
    size: float = 9,
) -> int:
    """Writes labels beside points of axes whose limits and place in the figure are settled.

    Args:
        points: (N, 2), in the axes' data.
        colours, bold: of each label.
        marks: further points that labels should not cover, (M, 2), in the axes' data.

    Returns:
        How many pairs of labels still cover one another.
    """
    figure = axes.figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    texts = [
        axes.text(
            *point,
            label,
            ha="center",
            va="center",
            fontsize=size,
            color=INK if colours is None else colours[i],
            fontweight="bold" if bold is not None and bold[i] else "normal",
            parse_math=False,
            zorder=1.5,  # over the lines to labels, below points and arrows
            bbox={"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        )
        for i, (point, label) in enumerate(zip(points, labels, strict=True))
    ]
    with missing_glyphs():  # told when the picture is saved
        boxes = [text.get_window_extent(renderer) for text in texts]
    sizes = np.array([(box.width + 3, box.height + 1) for box in boxes]).reshape(-1, 2)
    to_pixels, avoided = axes.transData, np.asarray(points)
    if marks is not None and len(marks):
        avoided = np.concatenate([avoided, marks])
    pixels = to_pixels.transform(avoided)
    boxes = np.concatenate([pixels, np.full_like(pixels, 7.0)], axis=1)  # (M, 4)
    placement = place_labels(pixels[: len(points)], sizes, boxes, axes.bbox.extents)
    to_data = to_pixels.inverted()
    ends = nearest_edge(pixels[: len(points)], placement.centres, sizes)
    for text, point, centre, end, gap in zip(texts, points, placement.centres, ends, placement.gaps, strict=True):
        text.set_position(to_data.transform(centre))
        if gap > FAR:
            axes.plot(*zip(point, to_data.transform(end), strict=True), color=GRAY, linewidth=0.5, alpha=0.6, zorder=1)
    return placement.overlapping
