"""All test sets of word vectors in one report: measured, as a table, and each item in a file."""

import json
import os
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.evaluation.files import replacing
from regard.evaluation.word_analogies import check_method, evaluate_analogies
from regard.evaluation.word_categories import evaluate_categories
from regard.evaluation.word_sets import (
    Member,
    Pair,
    Question,
    check_sets,
    read_analogies,
    read_categories,
    read_similarity,
)
from regard.evaluation.word_similarity import evaluate_similarity
from regard.evaluation.word_table import Vectors, WordTable

HEADER = ("set", "measure", "of those found", "of all", "found", "coverage")
# Kind of a set: what is measured, its key, the key of the other convention, and how many items there are.
MEASURES = {
    "similarity": ("Spearman", "spearman", "spearman_missing_as_zero", "pairs"),
    "analogies": ("accuracy", "accuracy", "accuracy_missing_wrong", "questions"),
    "categories": ("purity", "purity", "purity_missing_wrong", "words"),
}


@dataclass(frozen=True)
class WordSets:
    """Test sets by name."""

    similarity: dict[str, list[Pair]] = field(default_factory=dict)
    analogies: dict[str, list[Question]] = field(default_factory=dict)
    categories: dict[str, list[Member]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.similarity or self.analogies or self.categories)


def read_sets(
    similarity: Mapping[str, str] | None = None,
    analogies: Mapping[str, str] | None = None,
    categories: Mapping[str, str] | None = None,
) -> WordSets:
    """Reads test sets, each the file of a name.

    Raises:
        ValueError: two sets of one name, or a file that is not there or is no such set.
    """
    files = {"similarity": similarity or {}, "analogies": analogies or {}, "categories": categories or {}}
    check_sets(files)
    return WordSets(
        {name: read_similarity(path) for name, path in files["similarity"].items()},
        {name: read_analogies(path) for name, path in files["analogies"].items()},
        {name: read_categories(path) for name, path in files["categories"].items()},
    )


def evaluate_vectors(
    vectors: Vectors,
    sets: WordSets,
    *,
    fold_case: bool = True,
    analogy_method: str = "add",
    analogy_vocabulary: int | None = None,
    seed: int = 0,
    predictions: str | os.PathLike[str] | None = None,
) -> dict[str, dict[str, Any]]:
    """Measures word vectors on test sets.

    Args:
        vectors: of a model or a file, the most frequent word first.
        sets: from `read_sets`.
        fold_case: whether "Paris" is found under "paris" and the other way round, as in the reference tools.
        analogy_method: "add" or "mul", as `evaluate_analogies` explains.
        analogy_vocabulary: questions and answers are among so many of the first words alone; the original tool takes
            30,000. By default all.
        seed: of the clustering.
        predictions: a .jsonl file that is to hold each item with what was predicted for it.

    Returns:
        The measures of each set under its name, with its `kind` and how it was counted.

    Raises:
        ValueError: no set, an unknown method, or a vocabulary of nothing.
    """
    if not sets:
        raise ValueError(
            "There is nothing to measure word vectors on: name a set of similarity, analogies or categories."
        )
    check_settings(analogy_method, analogy_vocabulary, predictions)
    table = WordTable(vectors, fold_case=fold_case)
    results: dict[str, dict[str, Any]] = {}
    items: list[dict[str, Any]] = []

    def record(name: str, kind: str, outcome: tuple[dict, list[dict]], **settings: Any) -> None:
        measures, each = outcome
        results[name] = {"kind": kind, **measures, "fold_case": fold_case, **settings}
        items.extend({"set": name, "kind": kind, **item} for item in each)

    for name, pairs in sets.similarity.items():
        record(name, "similarity", evaluate_similarity(table, pairs))
    if sets.analogies:
        first = table if analogy_vocabulary is None else WordTable(vectors, analogy_vocabulary, fold_case)
        settings = {"method": analogy_method, "vocabulary": len(first.words)}
        for name, questions in sets.analogies.items():
            outcome = evaluate_analogies(first, questions, analogy_method, ranks=predictions is not None)
            record(name, "analogies", outcome, **settings)
    for name, members in sets.categories.items():
        record(name, "categories", evaluate_categories(table, members, seed), seed=seed)
    if predictions is not None:
        with replacing(predictions) as partial:
            lines = (json.dumps(item, ensure_ascii=False, allow_nan=False) + "\n" for item in items)
            partial.write_text("".join(lines), encoding="utf-8")
    return results


def check_settings(
    analogy_method: str = "add",
    analogy_vocabulary: int | None = None,
    predictions: str | os.PathLike[str] | None = None,
) -> None:
    """Refuses settings of `evaluate_vectors` that cannot be, as a ValueError: before any vectors are read."""
    check_method(analogy_method)
    if analogy_vocabulary is not None and analogy_vocabulary < 1:
        raise ValueError(f"analogy_vocabulary={analogy_vocabulary} leaves no words: it must be at least 1.")
    if predictions is not None and (Path(predictions).suffix != ".jsonl" or Path(predictions).is_dir()):
        raise ValueError(
            f"The file of predictions, '{predictions}', must end in .jsonl: it holds one JSON object a line."
        )


def report_rows(results: Mapping[str, Mapping[str, Any]], sections: bool = True) -> list[list[str]]:
    """The cells of the report, under `HEADER`: a row for each set, and for each section of a set of analogies."""
    rows = []
    for name, measures in results.items():
        parts = {part: measures[part] for part in ("semantic", "syntactic") if part in measures}
        parts |= measures.get("sections", {}) if sections else {}
        rows.append(_row(name, measures["kind"], measures))
        rows += [_row(f"  {part}", measures["kind"], inner) for part, inner in parts.items()]
    return rows


def _row(name: str, kind: str, measures: Mapping[str, Any]) -> list[str]:
    title, key, all_key, total = MEASURES[kind]
    values = [_shown(measures[one], kind) for one in (key, all_key)]
    return [name, title, *values, f"{measures['found']:,} of {measures[total]:,}", f"{measures['coverage']:.1%}"]


def _shown(value: float | None, kind: str) -> str:
    if value is None:
        return "not defined"
    return f"{value:.1%}" if kind == "analogies" else f"{value:.3f}"


def report_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The report as text for a terminal, with notes on how it was counted."""
    return "\n".join([aligned(HEADER, report_rows(results), numbers_from=2), "", *notes(results), ""])


def notes(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Sentences on how the sets of a report were counted, for the kinds that it has."""
    kinds = {measures["kind"] for measures in results.values()}
    missing = []
    if "similarity" in kinds:
        missing.append("a pair with a missing word has the cosine 0")
    if kinds - {"similarity"}:
        missing.append("what is missing in the other sets counts as wrong" if missing else "what is missing is wrong")
    said = [f"Of all: {', and '.join(missing)}."] if missing else []
    if "analogies" in kinds:
        said.append("An analogy is right where the right word comes first of all but the question's own.")
    folded = [name for name, measures in results.items() if measures["fold_case"]]
    if folded:
        where = "" if len(folded) == len(results) else f" in {', '.join(folded)}"
        said.append(f"Case is folded{where}: Paris and paris are one word, with the vector of the more frequent one.")
    return said


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int | None = None) -> str:
    """A table in columns of even width; those from `numbers_from` on are set to the right."""
    lines = [list(header), *rows]
    widths = [max(_width(line[column]) for line in lines) for column in range(len(header))]
    right = len(header) if numbers_from is None else numbers_from
    return "\n".join(
        "  ".join(
            " " * (width - _width(text)) + text if column >= right else text + " " * (width - _width(text))
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _width(text: str) -> int:
    """How many columns of a terminal a text takes: East Asian characters take two, marks above others none."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text
    )
