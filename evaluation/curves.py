"""Pictures of how a training went: one run's losses, and several runs beside one another."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from regard.evaluation.directions import LOWER_IS_BETTER
from regard.evaluation.drawing import (
    BLUE,
    GRAY,
    INK,
    ORANGE,
    add_legend,
    check_format,
    clean,
    save_figure,
    series_style,
)

History = Sequence[Mapping[str, Any]]

X_AXES = {
    "step": "step",
    "epoch": "epoch",
    "tokens": "tokens read in training",
    "seconds": "seconds of training",
}
LOSS, VALIDATION_LOSS, VALIDATION_PERPLEXITY = "loss", "eval_loss", "eval_perplexity"
# In what a training loss is counted: told by a key that the logs of word2vec and of GloVe have beside it.
UNITS = {"words_per_second": "nats per pair", "pairs_per_second": "weighted squared error per pair"}
USUAL_UNIT = "nats per target"
BLEU, BLEU_MOSES = "bleu", "bleu_moses_lowercase"
BLEU_NAMES = {BLEU: "BLEU", BLEU_MOSES: "BLEU (Moses tokens, lower-cased)"}
PROSE = {"f1": "F1"}
ON_THE_AXIS: dict[str, Any] = {"clip_on": False, "zorder": 2.6}  # what lies on an axis is seen whole, over its edge
AFTER_EXAMPLES = re.compile(r"(.+)_(\d+)")  # what a task in context is measured by: exact_match_4, swapping_4
BOOKKEEPING = ("_runtime", "_per_second", "_model_preparation_time")
COLUMNS = 3


def plot_history(history: History, path: str | Path, title: str | None = None) -> Path:
    """The loss curve: training and validation loss by step, epochs along the top.

    Args:
        history: the trainer's log, rows with `step` and `loss` (training) or `eval_loss` (validation), maybe `epoch`;
            or that of word vectors.
        path: a .png or .svg file; it is complete or not there.

    Raises:
        ValueError: no loss in the history, or another kind of file.
    """
    check_format(path)
    training, validation = (
        [(row["step"], row[name]) for row in history if name in row] for name in (LOSS, VALIDATION_LOSS)
    )
    if not training and not validation:
        raise ValueError("The history holds no losses to draw: no row has 'loss' or 'eval_loss'.")

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    if training:
        steps, losses = zip(*training, strict=True)
        few = "." if len(training) == 1 else ""
        axes.plot(steps, losses, color=BLUE, linewidth=1.2, alpha=0.85, marker=few, label="training")
    if validation:
        steps, losses = zip(*validation, strict=True)
        axes.plot(steps, losses, color=ORANGE, linewidth=1.8, marker="o", markersize=4, label="validation")
        best = best_of(VALIDATION_LOSS, np.array(losses, dtype=np.float64))
        if best is not None:
            axes.annotate(
                f"{losses[best]:.3f}",
                (steps[best], losses[best]),
                xytext=(0, 9),
                textcoords="offset points",
                ha="center",
                color=ORANGE,
                fontsize=9,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
            )
    axes.set_xlabel("epoch" if _steps_are_epochs(history) else "step")
    axes.set_ylabel(f"loss ({unit_of_loss(history)})")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if len(drawn := {step for step, _ in training + validation}) == 1:  # left alone, matplotlib divides the one step
        axes.set_xlim(min(drawn) - 1, max(drawn) + 1)
    clean(axes)
    not_below_zero(axes)
    axes.legend(frameon=False)
    _add_epochs(axes, history)
    if title:
        axes.set_title(title, fontsize=11, color=INK, parse_math=False)
    return save_figure(figure, path)


def _add_epochs(axes: Any, history: History) -> None:
    """A second axis in epochs, where there is more than one and steps and epochs go together."""
    rows = [row for row in history if row.get("epoch") and row.get("step")]
    if not rows or rows[-1]["epoch"] <= 1 or _steps_are_epochs(history):
        return
    steps_per_epoch = rows[-1]["step"] / rows[-1]["epoch"]
    top = axes.secondary_xaxis(
        "top", functions=(lambda step: step / steps_per_epoch, lambda epoch: epoch * steps_per_epoch)
    )
    top.set_xlabel("epoch", color=GRAY)
    top.xaxis.set_major_locator(MaxNLocator(integer=True))
    top.tick_params(colors=GRAY, length=3)
    top.spines["top"].set_visible(False)


def _steps_are_epochs(history: History) -> bool:
    return len(history) > 0 and all(row.get("epoch") == row.get("step") is not None for row in history)


def unit_of_loss(history: History) -> str:
    """In what the training loss of a log is counted: word2vec's is the mean of a centre and one context word, GloVe's
    no likelihood at all."""
    return next((unit for key, unit in UNITS.items() if any(key in row for row in history)), USUAL_UNIT)


# --- several runs ----------------------------------------------------------------------------------------------------


def plot_curves(
    histories: Mapping[str, History],
    path: str | Path,
    *,
    x: str = "step",
    quantities: Sequence[str] | None = None,
) -> Path:
    """The curves of several runs together, one panel a quantity, with each run's best (of its training loss the last).

    Args:
        histories: each run's log under its name, perhaps with rows of `step` and `bleu` or `bleu_moses_lowercase`:
            that of greedy translations of the validation split, which no training logs.
        path: a .png or .svg file; it is complete or not there.
        x: "step", "epoch", "tokens" or "seconds". The log says tokens and seconds with the training loss; between
            those rows they are taken to grow evenly with the steps.
        quantities: names from the logs, such as "loss", "eval_loss" or "eval_accuracy"; by default all, and of the
            validation perplexity and loss the latter alone, whose exponential the former is.

    Raises:
        ValueError: no such axis, quantity or kind of file, no run, or one that has nothing to draw.
    """
    check_format(path)
    check_x(x)
    if not histories:
        raise ValueError("There is nothing to draw: give the history of at least one run.")
    found = {name: quantities_of(history) for name, history in histories.items()}
    for name, own in found.items():
        if not own:
            raise ValueError(f"The history of '{name}' holds nothing to draw: no loss and no validation metric.")
    there = sorted({quantity for own in found.values() for quantity in own}, key=_order)
    if quantities is None:
        spared = all(VALIDATION_LOSS in own for own in found.values() if VALIDATION_PERPLEXITY in own)
        wanted = [quantity for quantity in there if not (spared and quantity == VALIDATION_PERPLEXITY)]
    else:
        wanted = list(dict.fromkeys(quantities))
    if not wanted:
        raise ValueError(f"There is no quantity to draw: choose among {', '.join(there)}.")
    for quantity in wanted:
        if quantity not in there:
            raise ValueError(f"No run has recorded the quantity '{quantity}': there are {', '.join(there)}.")
    for name, own in found.items():
        if not set(own) & set(wanted):
            raise ValueError(f"The history of '{name}' has no {' or '.join(wanted)} to draw: it has {', '.join(own)}.")

    columns = min(COLUMNS, len(wanted))
    rows = -(-len(wanted) // columns)
    height = 3.5 + 0.2 * len(histories)
    figure = Figure(figsize=(5.4 * columns, height * rows), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.15, h_pad=0.15)
    for number, quantity in enumerate(wanted):
        _draw_quantity(figure.add_subplot(rows, columns, number + 1), histories, quantity, x)
    return save_figure(figure, path)


def not_below_zero(axes: Any, axis: str = "y") -> None:
    """Lets an axis of what is never negative begin at 0, where the margin would go below; where all is 0, it ends
    at 1.

    Args:
        axis: "x" or "y".
    """
    low, high = getattr(axes, f"get_{axis}lim")()
    if low < 0:
        all_zero = np.isclose(low, -high)  # matplotlib's margins around a single value
        getattr(axes, f"set_{axis}lim")(0, 1 if all_zero else high)


def check_x(x: str) -> None:
    """Refuses what is no x axis, as a ValueError."""
    if x not in X_AXES:
        raise ValueError(f"The x axis '{x}' is not one of {', '.join(X_AXES)}.")


def quantities_of(history: History) -> list[str]:
    """What a log holds to be drawn: the training loss and every number measured on the validation split."""
    names = {
        name: None
        for row in history
        for name, value in row.items()
        if (name == LOSS or name in BLEU_NAMES or name.startswith("eval_"))
        and not name.endswith(BOOKKEEPING)
        and isinstance(value, int | float)
    }
    return sorted(names, key=_order)


def points(history: History, quantity: str, x: str) -> tuple[np.ndarray, np.ndarray]:
    """A quantity's values and where they stand on the x axis, float64 of shape (values,) each.

    Raises:
        ValueError: the log does not say where.
    """
    rows = [row for row in history if quantity in row]
    values = np.array([row[quantity] for row in rows], dtype=np.float64)
    if all(x in row for row in rows):
        return np.array([row[x] for row in rows], dtype=np.float64), values
    known = {0: 0.0} | {row["step"]: float(row[x]) for row in history if x in row}
    if len(known) == 1:
        raise ValueError(f"no row of its history has '{x}'")
    steps = sorted(known)
    return np.interp([row["step"] for row in rows], steps, [known[step] for step in steps]), values


def _order(quantity: str) -> tuple[int, str]:
    return (0 if quantity == LOSS else 1 if quantity == VALIDATION_LOSS else 2, quantity)


def _draw_quantity(axes: Any, histories: Mapping[str, History], quantity: str, x: str) -> None:
    handles, labels, negative = [], [], False
    units = {name: unit_of_loss(own) for name, own in histories.items() if any(quantity in row for row in own)}
    mixed = quantity == LOSS and len(set(units.values())) > 1
    for number, (name, history) in enumerate(histories.items()):
        if not any(quantity in row for row in history):
            continue
        try:
            where, values = points(history, quantity, x)
        except ValueError as error:
            raise ValueError(f"'{name}' cannot be drawn by {x}: {error}.") from error
        style = series_style(number) | {"linewidth": 1.3 if quantity == LOSS else 1.8}
        marker = "o" if quantity != LOSS or len(values) == 1 else ""
        handles += axes.plot(where, values, marker=marker, markersize=3.5, **ON_THE_AXIS, **style)
        negative |= bool((values < 0).any())
        labels.append(f"{name}  {_summary(quantity, x, where, values)}" + (f" ({units[name]})" if mixed else ""))
    axes.set_title(
        _title(quantity, None if mixed else next(iter(units.values()))),
        fontsize=11,
        color=INK,
        loc="left",
        parse_math=False,
    )
    axes.set_xlabel(X_AXES[x], color=GRAY, fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=x == "step", steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(EngFormatter(sep="\N{NARROW NO-BREAK SPACE}") if x == "tokens" else "{x:,g}")
    clean(axes)
    if not negative:
        not_below_zero(axes)
    add_legend(axes, handles, labels)


def _title(quantity: str, unit: str | None) -> str:
    """Of a panel; without one unit of all runs the training loss is no comparison, and the title says so."""
    if quantity == LOSS:
        return f"training loss ({unit}, as trained)" if unit else "training loss (each in a unit of its own)"
    if quantity in BLEU_NAMES:
        return f"validation {BLEU_NAMES[quantity]}, greedy"
    name, after = quantity.removeprefix("eval_"), ""
    if found := AFTER_EXAMPLES.fullmatch(name):
        name, number = found[1], int(found[2])
        after = f" after {number or 'no'} example{'s' * (number != 1)}"
    unit = " (nats per target)" if name == "loss" else ""
    return f"validation {PROSE.get(name, name.replace('_', ' '))}{after}{unit}"


def _summary(quantity: str, x: str, where: np.ndarray, values: np.ndarray) -> str:
    if quantity == LOSS:
        return f"last {values[-1]:.4g}"
    best = best_of(quantity, values)
    if best is None:
        return "never a number"
    unit = {"seconds": "after {:,.0f} s", "tokens": "after {:,.0f} tokens"}.get(x, f"at {x} {{:,.4g}}")
    if x == "step":
        unit = "at step {:,.0f}"
    return f"best {values[best]:.4g} {unit.format(where[best])}"


def best_of(quantity: str, values: np.ndarray) -> int | None:
    """The place of the best of a quantity's values, float64 of shape (values,); None where none is a number."""
    if np.isnan(values).all():
        return None
    lower = quantity.removeprefix("eval_") in LOWER_IS_BETTER
    return int(np.nanargmin(values) if lower else np.nanargmax(values))
