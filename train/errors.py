"""Where a run that labels texts or words is wrong: the confusions of its labels, and the errors it was surest of.

A run keeps them in `errors.json`: for each split its `labels`, `confusion` (a row for each right label, a column for
each predicted one), how many words were `lost` because their sentence was cut, and `errors`, the surest first.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.confusion import MOST_LABELS, count_confusions, plot_confusion
from regard.evaluation.drawing import check_format
from regard.evaluation.metrics import get_metric
from regard.train.collators import collator_for
from regard.train.masking import IGNORED
from regard.train.measure import EvaluationBatches, measure
from regard.train.records import ERRORS, read_json, write_json
from regard.train.sections import LABELLING, Recipe

CONFUSION = "confusion.png"
DIGITS = 6  # of a probability; those after them depend on how the items were put into batches
TEXTS, WORDS = LABELLING
MAJORITY_METRICS = ("accuracy", "f1", "f1_binary", "matthews_correlation")


def label_report(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
    rows: Any,
    dataset: Any,
    predictions: Sequence[Any],
    number: int,
) -> dict[str, Any]:
    """What `errors.json` holds of one split.

    Args:
        recipe: of one of the tasks `LABELLING` in `regard.train.sections`.
        rows: of texts, the split as it was loaded; words are in the prepared one.
        dataset: the split as it was prepared, of as many rows.
        predictions: what `evaluate_split` predicted for it.
        number: how many errors to show. The same items are found each time, whatever the seed and the batch size.
    """
    if recipe.task == TEXTS:
        names = [model.config.id2label[i] for i in range(model.config.num_labels)]
        right = [[label] for label in dataset["labels"]]
        guessed = [[label] for label in predictions]
    else:
        rows, names = dataset, dataset.features["tags"].feature.names
        numbers = {name: i for i, name in enumerate(names)}
        right, guessed = rows["tags"][:], [[numbers.get(tag) for tag in row] for row in predictions]
    items = [
        (i, place, r, g)
        for i, (row, guess) in enumerate(zip(right, guessed, strict=True))
        for place, (r, g) in enumerate(zip(row, guess, strict=True))
    ]
    seen = [item for item in items if item[3] is not None]
    wrong = [(i, place, r, g) for i, place, r, g in seen if r != g]
    counts = count_confusions([r for *_, r, _ in seen], [g for *_, g in seen], len(names))
    chances: dict[int, dict[int, float]] = {}
    if wrong and number:
        chosen = sorted({i for i, *_ in wrong})
        chances = dict(zip(chosen, _chances(model, tokenizer, recipe, dataset.select(chosen)), strict=True))
        wrong.sort(key=lambda item: (-round(chances[item[0]][item[1]], DIGITS), item[:2]))
    errors = [
        {
            "row": i,
            **_shown(rows[i], place),
            "label": names[r],
            "predicted": names[g],
            "probability": round(chances[i][place], DIGITS),
        }
        for i, place, r, g in wrong[:number]
    ]
    return {
        "labels": list(names),
        "confusion": counts.tolist(),
        "lost": len(items) - len(seen),
        "wrong": len(wrong),
        "errors": errors,
    }


def _shown(row: Mapping[str, Any], place: int) -> dict[str, Any]:
    if "tokens" in row:
        return {"text": " ".join(row["tokens"]), "word": row["tokens"][place], "place": place}
    return {name: row[name] for name in ("text", "text_pair") if name in row}


def _chances(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe, dataset: Any
) -> list[dict[int, float]]:
    """Of each row the probability of what was predicted: of its label, or of each of its words that has one."""
    batches = EvaluationBatches(dataset, recipe.evaluation.batch_size, collator_for(recipe, tokenizer, model))
    result = measure(model, batches, model.device, predict=True, chances=True)
    if recipe.task == TEXTS:
        return [{0: chance} for chance in result.chances.tolist()]
    places = zip(dataset["kept"], result.chances, result.labels, strict=True)
    return [dict(zip(kept, row[own != IGNORED].tolist(), strict=True)) for kept, row, own in places]


def shortened(report: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A report with so many of its errors, the surest."""
    return {**report, "errors": report["errors"][:number]}


def write_errors(run: str | os.PathLike[str], found: Mapping[str, dict[str, Any]]) -> None:
    """Keeps the reports of a run's splits, and draws the confusions of its first test set or else of the first."""
    run = Path(run)
    write_json(run / ERRORS, found)
    split = next((name for name in found if name.startswith("test")), next(iter(found)))
    report = found[split]
    counts = np.array(report["confusion"])
    if len(report["labels"]) <= MOST_LABELS and counts.sum():
        plot_confusion(counts, report["labels"], run / CONFUSION, split)


def read_errors(run: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """The reports of a run's splits; empty where it keeps none."""
    path = Path(run) / ERRORS
    return read_json(path) if path.is_file() else {}


def plot_run_confusion(run: str | os.PathLike[str], path: str | Path, split: str | None = None) -> Path:
    """The confusions of a run on a split, which is measured anew where the run has not kept them.

    Args:
        split: as `evaluate_run` names it; by default the recipe's first test set, or else its validation split.

    Raises:
        ValueError: it is no run that labels, there is no such split, or what `plot_confusion` refuses.
    """
    from regard.train.evaluate import chosen_splits, evaluate_run
    from regard.train.recipe import RUN_RECIPE, load_recipe

    check_format(path)
    if not (Path(run) / RUN_RECIPE).is_file():
        raise ValueError(f"There is no run in '{run}': give a folder that `regard train` wrote.")
    recipe = load_recipe(run)
    if recipe.task not in LABELLING:
        raise ValueError(f"The run '{run}' gives no labels: its task is {recipe.task}.")
    names = chosen_splits(recipe.data, split)
    if not names:
        raise ValueError("The run's recipe has no split to measure: choose --split train.")
    name = next((name for name in names if name.startswith("test")), names[0])
    report = read_errors(run).get(name)
    if report is None:
        report = evaluate_run(run, name, errors=0)[name]["errors"]
    return plot_confusion(np.array(report["confusion"]), report["labels"], path, name)


def majority_scores(report: Mapping[str, Any], metrics: Sequence[str]) -> dict[str, float]:
    """What the metrics of a split are when the most frequent label is always given: the least that a model must beat.

    Args:
        report: of the split, from `label_report`.
    """
    numbers = np.array(report["confusion"]).sum(axis=1)  # of each right label
    if not numbers.sum():
        return {}
    scores = {"tag_accuracy": float(numbers.max() / numbers.sum())} if "tag_accuracy" in metrics else {}
    right = np.repeat(np.arange(len(numbers)), numbers)
    for name in metrics:
        if name in MAJORITY_METRICS:
            guesses = np.full(len(right), numbers.argmax())
            scores |= get_metric(name).compute(predictions=guesses, references=right)
    return scores
