"""The card's section on wrong labels: those of which the model was surest."""

import json
from typing import Any

from regard.model_cards.records import Records
from regard.model_cards.tables import number, split_name, table
from regard.train.records import ERRORS

LONGEST = 300  # characters of a text in a table


def error_note(records: Records) -> str:
    """Which errors are shown, of how many; empty where there are none."""
    split, report = _shown(records)
    errors = report.get("errors")
    if not errors:
        return ""
    labelled = sum(map(sum, report["confusion"]))
    which = f"the {number(len(errors))} of which the model was surest" if report["wrong"] > len(errors) else "all"
    return (
        f"On {split_name(split)}, {number(report['wrong'])} of {number(labelled)} labels are wrong; here are {which}."
    )


def error_table(records: Records) -> str:
    """A line for each; empty where there are none."""
    _, report = _shown(records)
    errors = report.get("errors") or []
    texts = [name for name in ("text", "text_pair", "word") if any(name in error for error in errors)]
    rows = [
        [
            *(_cut(error.get(name, "")) for name in texts),
            error["label"],
            error["predicted"],
            f"{error['probability']:.1%}",
        ]
        for error in errors
    ]
    head = [name.replace("text_pair", "second text") for name in texts]
    return table([*head, "right label", "predicted", "its probability"], rows, numbers_from=len(head) + 2)


def _shown(records: Records) -> tuple[str, dict[str, Any]]:
    """The split whose samples are shown too, and its report: the first test set, or else the first."""
    path = records.folder / ERRORS
    reports = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    split = next((name for name in reports if name.startswith("test")), next(iter(reports), ""))
    return split, reports.get(split, {})


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
