"""What a card shows of models that learn in context: results by the number of examples, and induction heads."""

from typing import Any

import numpy as np

from regard.model_cards.records import Records
from regard.model_cards.tables import split_name, table
from regard.train.sections import IN_CONTEXT, REGRESSION

SHOWN = (0, 1, 2, 4, 8, 16)  # examples; those in between are in metrics.json
NO_MEAN = "–"
BY_EXAMPLES = {IN_CONTEXT: "by_task", REGRESSION: "by_examples"}  # the measure that has a table
NOTES = {
    IN_CONTEXT: (
        "An answer is right where each of its characters and the end of its line are what the model finds likeliest. "
        "The rules of these rows were held out: no row of training has one of them."
    ),
    REGRESSION: (
        "Errors are squared, of w·x without the noise of its value, each from the examples before it. Every row has "
        "weights of its own. Least squares takes the smallest weights where there are several; ridge knows how large "
        "noise and weights are, and no predictor has a smaller expected error."
    ),
}
WITHOUT_MEAN = (
    f"{NO_MEAN} stands at d - 1 to d + 1 examples of d coordinates, from which the error of least squares has no mean "
    "under noise: its weights are now and then so far off that the mean of more rows only grows."
)
INDUCTION_NOTE = (
    "This was recorded in training. Prefix matching is the share of a head's attention that goes, from a token that "
    "has come before, to the one that followed it then."
)


def in_context_results(records: Records) -> str:
    """A table for each split that was measured, and one of induction heads where the run recorded them, below the
    card's own; empty without either.

    Raises:
        ValueError: the record of induction heads is broken, or another model's.
    """
    evaluation = records.metrics.get("evaluation", {}) if records.task in BY_EXAMPLES else {}
    parts = [_split(split, measures) for split, measures in evaluation.items()]
    return "\n\n".join(part for part in [*parts, _induction(records)] if part)


def in_context_notes(records: Records) -> list[str]:
    """How it was counted, of the tables that are there."""
    evaluation = records.metrics.get("evaluation", {})
    tables = [found for one in evaluation.values() if (found := one.get(BY_EXAMPLES.get(records.task)))]
    if not tables:
        return []
    broken = records.task == REGRESSION and any(None in one["clean"] for found in tables for one in found.values())
    return [NOTES[records.task], *([WITHOUT_MEAN] if broken else [])]


def _split(split: str, measures: dict[str, Any]) -> str:
    shares = measures.get("by_task") or {}
    errors = {name: one["clean"] for name, one in (measures.get("by_examples") or {}).items()}
    lines, what = (shares, "exact match") if shares else (errors, "squared error")
    longest = max(map(len, lines.values()), default=0)
    if not longest:
        return ""
    shots = [number for number in SHOWN if number < longest]
    if errors and (size := measures["input_size"]) * 2 < longest:
        shots = sorted({*shots, size, 2 * size})
    rows = [
        [name, *(_cell(line[number], bool(shares)) if number < len(line) else "" for number in shots)]
        for name, line in lines.items()
    ]
    return f"{split_name(split)}, {what} by the number of examples:\n\n" + table(["", *map(str, shots)], rows, 1)


def _cell(value: float | None, share: bool) -> str:
    if value is None:
        return NO_MEAN
    return f"{value:.1%}" if share else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def _induction(records: Records) -> str:
    """How well the model foretells random tokens that come again, at the last step that was measured."""
    from regard.train.induction import INDUCTION, check_heads, read_points

    path = records.folder / INDUCTION
    if not path.is_file():
        return ""
    points = read_points(path)
    check_heads(points, path, records.config)
    last = points[-1]
    scores = np.array(last["prefix_matching"])  # (L, H)
    layer, head = np.unravel_index(np.argmax(scores), scores.shape)
    header = ["nats a token, where it comes first", "again", "gain", "best head", "its prefix matching"]
    losses = (f"{one:.3f}" for one in (last["first"], last["second"], last["first"] - last["second"]))
    shown = table(header, [[*losses, f"layer {layer}, head {head}", f"{scores.max():.3f}"]], 0)
    return f"Random tokens that come twice, at step {last['step']:,}:\n\n{shown}\n\n{INDUCTION_NOTE}"
