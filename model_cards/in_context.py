"""What a card shows of models that learn in context: results by the number of examples."""

from typing import Any

from regard.model_cards.records import Records
from regard.model_cards.tables import split_name, table
from regard.train.sections import IN_CONTEXT, REGRESSION

SHOWN = (0, 1, 2, 4, 8, 16)  # examples; those in between are in metrics.json
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


def in_context_results(records: Records) -> str:
    """A table for each split that was measured, below the card's own; empty for other tasks."""
    if records.task not in NOTES:
        return ""
    parts = [_split(split, measures) for split, measures in records.metrics.get("evaluation", {}).items()]
    return "\n\n".join(part for part in parts if part)


def in_context_notes(records: Records) -> list[str]:
    """How it was counted."""
    return [NOTES[records.task]] if records.task in NOTES and records.metrics.get("evaluation") else []


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


def _cell(value: float, share: bool) -> str:
    return f"{value:.1%}" if share else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
