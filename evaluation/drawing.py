"""What all pictures share: colours, plain axes, text that is never read as mathematics, files that are whole."""

import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from regard.evaluation.files import check_output_file, replacing

logger = logging.getLogger(__name__)

INK, GRAY, PALE, BLUE, ORANGE = "#222222", "#737983", "#e6e8eb", "#3b6fb6", "#d9822b"
SERIES = (BLUE, ORANGE, "#3f9168", "#b5484d", "#7a5fa8", "#7c6a58", "#c46ba0", "#2b93a8", "#8f8f2a", "#5b6675")
DASHES = ("-", "--", ":", "-.")
FORMATS = (".png", ".svg")
DPI = 150
MISSING_GLYPH = re.compile(r"Glyph (\d+) ")  # how matplotlib's warning begins
NAMED_CHARACTERS = 10


def check_format(path: str | Path, formats: Sequence[str] = FORMATS) -> str:
    """The ending of a picture's file, in lower case: looked at before any work is done for it.

    Raises:
        ValueError: it is none of `formats`, or there can be no such file.
    """
    file, endings = Path(path), f"{', '.join(formats[:-1])} or {formats[-1]}"
    if not str(path).strip():
        raise ValueError(f"The picture has no name: give a file that ends in {endings}.")
    if file.is_dir():
        raise ValueError(f"The picture '{path}' is a folder: give a file in it that ends in {endings}.")
    if file.suffix.lower() not in formats:
        raise ValueError(f"The picture '{path}' must end in {endings}, after a name.")
    check_output_file(file, f"The picture '{path}'")
    return file.suffix.lower()


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


def add_legend(
    axes: Any, handles: Sequence[Any], labels: Sequence[str], below: float = 0.17, columns: int = 1
) -> None:
    """A legend under the axes, one line each, where it hides nothing. Names are shown as they are, "_a" and "$b$" too.

    Args:
        below: how far under them, as a share of their height: the labels of the x axis are in between.
        columns: so many of them, where there are many lines.
    """
    legend = axes.legend(
        handles,
        [str(i) for i in range(len(labels))],
        loc="upper left",
        bbox_to_anchor=(-0.02, -below),
        frameon=False,
        fontsize=9,
        ncols=columns,
        handlelength=1.8,
        borderaxespad=0,
    )
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_parse_math(False)
        text.set_text(label)


def save_figure(figure: Figure, path: str | Path, way_out: str = "") -> Path:
    """Writes a picture as its ending says; the same figure gives the same bytes.

    Args:
        way_out: how characters that the font lacks can be seen all the same, said in the warning about them.

    Raises:
        ValueError: another ending than those of `FORMATS`.
    """
    ending, path = check_format(path), Path(path)
    metadata = {"Date": None} if ending == ".svg" else {}
    with replacing(path) as partial, matplotlib.rc_context({"svg.hashsalt": "regard"}), missing_glyphs() as missing:
        figure.savefig(partial, format=ending[1:], dpi=DPI, bbox_inches="tight", pad_inches=0.12, metadata=metadata)
    if missing:
        named = ", ".join(missing[:NAMED_CHARACTERS]) + (", ..." if len(missing) > NAMED_CHARACTERS else "")
        logger.warning("The font of pictures lacks %s, and shows boxes instead%s.", named, way_out)
    return path


@contextmanager
def missing_glyphs() -> Iterator[list[str]]:
    """Takes matplotlib's warnings about characters that its font lacks, one a place: they are in the list afterwards,
    each once. All other warnings are passed on."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield found
    for one in caught:
        if match := MISSING_GLYPH.match(str(one.message)):
            found.append(chr(int(match[1])))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno, source=one.source)
    found[:] = dict.fromkeys(found)
