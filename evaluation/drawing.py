"""What all pictures share: colours, plain axes, text that is never read as mathematics, files that are whole."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from regard.evaluation.files import replacing

INK, GRAY, PALE, BLUE, ORANGE = "#222222", "#737983", "#e6e8eb", "#3b6fb6", "#d9822b"
SERIES = (BLUE, ORANGE, "#3f9168", "#b5484d", "#7a5fa8", "#7c6a58", "#c46ba0", "#2b93a8", "#8f8f2a", "#5b6675")
DASHES = ("-", "--", ":", "-.")
FORMATS = (".png", ".svg")
DPI = 150


def check_format(path: str | Path, formats: Sequence[str] = FORMATS) -> str:
    """The ending of a picture's file, in lower case: looked at before any work is done for it.

    Raises:
        ValueError: it is none of `formats`.
    """
    ending = Path(path).suffix.lower()
    if ending not in formats:
        raise ValueError(f"The picture '{path}' must end in {', '.join(formats[:-1])} or {formats[-1]}.")
    return ending


def series_style(number: int) -> dict[str, Any]:
    """Colour and line of the nth of several things; after the colours are through, they come again dashed."""
    return {
        "color": SERIES[number % len(SERIES)],
        "linestyle": DASHES[number // len(SERIES) % len(DASHES)],
    }


def clean(axes: Any) -> None:
    """Two pale edges and horizontal lines."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#c8ccd2")
    axes.tick_params(colors=INK, length=3)
    axes.grid(axis="y", color=PALE, linewidth=0.8)
    axes.set_axisbelow(True)


def add_legend(axes: Any, handles: Sequence[Any], labels: Sequence[str], below: float = 0.17) -> None:
    """A legend under the axes, one line each, where it hides nothing. Names are shown as they are, "_a" and "$b$" too.

    Args:
        below: how far under them, as a share of their height: the labels of the x axis are in between.
    """
    legend = axes.legend(
        handles,
        [str(i) for i in range(len(labels))],
        loc="upper left",
        bbox_to_anchor=(-0.02, -below),
        frameon=False,
        fontsize=9,
        handlelength=1.8,
        borderaxespad=0,
    )
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_parse_math(False)
        text.set_text(label)


def save_figure(figure: Figure, path: str | Path) -> Path:
    """Writes a picture as its ending says; the same figure gives the same bytes.

    Raises:
        ValueError: another ending than those of `FORMATS`.
    """
    ending, path = check_format(path), Path(path)
    metadata = {"Date": None} if ending == ".svg" else {}
    with replacing(path) as partial, matplotlib.rc_context({"svg.hashsalt": "regard"}):
        figure.savefig(partial, format=ending[1:], dpi=DPI, bbox_inches="tight", pad_inches=0.12, metadata=metadata)
    return path
