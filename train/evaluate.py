"""What a run is worth: its loss and its metrics on the splits of its recipe."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.generation import generate_text, load_run, translate
from regard.evaluation.likelihood import perplexity, pseudo_log_likelihood
from regard.evaluation.metrics import TEXT_METRICS, get_metric
from regard.train.callbacks import quiet_libraries
from regard.train.collators import collator_for
from regard.train.data import load_splits, prepare_splits
from regard.train.masking import IGNORED
from regard.train.measure import EvaluationBatches, has_vocabulary_head, measure
from regard.train.recipe import load_recipe
from regard.train.records import METRICS, holds_vectors, read_json, write_json
from regard.train.sections import DataSection, EvaluationSection, Recipe

SETTINGS = ("num_beams", "length_penalty", "max_new_tokens", "batch_size")
AS_EVALUATION = "evaluated:"  # the training split is then laid out as an evaluation split is


def evaluate_run(
    run: str | os.PathLike[str], split: str | None = None, overrides: Sequence[str] = (), **settings: Any
) -> dict[str, dict[str, Any]]:
    """Measures a run on its recipe's data, as the end of its training did. Only what is measured is read.

    A run of word vectors has no splits: it is measured on its test sets by `evaluate_vectors_at`, which takes other
    overrides and settings.

    Args:
        run: the run's folder.
        split: one split ("validation", "test", "test:<name>" or the name alone, "train"); all but "train" by default.
        overrides: other data, as `key=value` pairs such as `data.test.mine=my.tsv`.
        settings: what differs from the recipe's: `num_beams`, `length_penalty`, `max_new_tokens`, `batch_size`.

    Returns:
        The measures of each split. Where all splits were measured by the recipe's settings, `metrics.json` is brought
        up to date.

    Raises:
        ValueError: the folder is no run, there is no such split, or a setting is not known.
    """
    if holds_vectors(run):
        from regard.train.evaluate_vectors import evaluate_vectors_at

        if split is not None:
            raise ValueError(f"'{run}' holds word vectors, which have no split '{split}': they have test sets.")
        return evaluate_vectors_at(run, overrides, **settings)
    check_settings(settings)
    if others := [text for text in overrides if not text.startswith("data.")]:
        raise ValueError(f"'{others[0]}' is no data to evaluate on, such as data.test.mine=my.tsv.")
    with quiet_libraries():
        return _evaluate_run(run, split, overrides, settings)


def _evaluate_run(
    run: str | os.PathLike[str], split: str | None, overrides: Sequence[str], settings: dict[str, Any]
) -> dict[str, Any]:
    recipe = load_recipe(run, overrides)
    recipe.evaluation = dataclasses.replace(recipe.evaluation, **settings)
    chosen = chosen_splits(recipe.data, split)
    model, tokenizer = load_run(run)
    classes = sorted(model.config.id2label.items()) if recipe.task == "sequence-classification" else []
    splits = load_splits(recipe.data, recipe.task, chosen, [label for _, label in classes] or None)
    results = {}
    for name in chosen:
        prepared, words = prepare_split(name, splits[name], recipe, tokenizer)
        results[name], _ = evaluate_split(model, tokenizer, recipe, prepared, words)
    records = Path(run) / METRICS
    if split is None and not overrides and not settings and records.is_file():
        write_json(records, read_json(records) | {"evaluation": results})
    return results


def check_settings(settings: Iterable[str]) -> None:
    """Refuses what is no setting of an evaluation, as a ValueError."""
    if unknown := [name for name in settings if name not in SETTINGS]:
        raise ValueError(f"There is no setting '{unknown[0]}' of an evaluation: there are {', '.join(SETTINGS)}.")


def chosen_splits(data: DataSection, split: str | None) -> list[str]:
    """The names of the splits to measure: the one that is given, by name or as `test:<name>`, or all but "train".

    Raises:
        ValueError: there is no such split, or it has no end.
    """
    names = data.split_names()
    if split is None:
        return [name for name in names if name != "train"]
    chosen = next((name for name in (split, f"test:{split}") if name in names), None)
    if chosen is None:
        raise ValueError(f"The run's recipe has no split '{split}': it has {', '.join(names)}.")
    if data.streaming and chosen == "train":
        raise ValueError("data.streaming: the training data is read as it comes, and has no end to evaluate up to.")
    return [chosen]


def prepare_split(name: str, rows: Any, recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> tuple[Any, int | None]:
    """A split laid out to be measured, the training split too, and how many words its text has."""
    key = AS_EVALUATION + name if name == "train" else name
    prepared, report = prepare_splits({key: rows}, recipe, tokenizer)
    return prepared[key], report.splits[key].words


def evaluate_split(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
    dataset: Any,
    words: int | None = None,
) -> tuple[dict[str, Any], list | None]:
    """Loss and metrics of a model on a prepared split, and its translations (of each of its `items`) or predicted
    classes. `words` is the length of the split's text, for `word_perplexity`."""
    evaluation = recipe.evaluation
    classifies = recipe.task == "sequence-classification"
    batches = EvaluationBatches(dataset, evaluation.batch_size, collator_for(recipe, tokenizer, model))
    result = measure(model, batches, model.device, predict=classifies)
    measures: dict[str, Any] = {"loss": result.loss}
    if has_vocabulary_head(model):
        measures["perplexity"] = result.perplexity
    if "word_perplexity" in evaluation.metrics:
        if not words:
            raise ValueError("evaluation.metrics: word_perplexity needs a text with words, and there is none.")
        measures["word_perplexity"] = perplexity(result.loss * result.targets / words)
    if "pseudo_perplexity" in evaluation.metrics:
        measures["pseudo_perplexity"] = pseudo_perplexity(model, tokenizer, dataset, evaluation)
    predictions, references, metrics = None, None, []
    if classifies:
        metrics = evaluation.metrics
        predictions, references = result.predictions.tolist(), result.labels.tolist()
    elif recipe.task == "translation" and (metrics := [m for m in evaluation.metrics if m in TEXT_METRICS]):
        sources, references = items(recipe, dataset)
        predictions = translate(model, tokenizer, sources, **generation(evaluation))
    for name in metrics:
        options = {"language": recipe.data.target_language} if name == "bleu_moses_lowercase" else {}
        measures |= get_metric(name).compute(predictions=predictions, references=references, **options)
    return measures, predictions


def pseudo_perplexity(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, dataset: Any, evaluation: EvaluationSection
) -> float:
    """Of some rows, evenly spread over the split, since each of their tokens takes a pass of its own."""
    rows = [unmasked(dataset[i]) for i in _spread(len(dataset), evaluation.pseudo_perplexity_rows)]
    total, tokens = pseudo_log_likelihood(model, tokenizer, rows, evaluation.batch_size)
    return perplexity(-total / tokens)


def unmasked(row: dict[str, list[int]]) -> list[int]:
    """The ids of a row of evaluation as they were before it was masked."""
    pairs = zip(row["input_ids"], row["labels"], strict=True)
    return [token if label == IGNORED else label for token, label in pairs]


def items(recipe: Recipe, rows: Any) -> tuple[list[str], list[list[str]]]:
    """What is translated, and the references of each: every row with its own or, with `evaluation.group_references`,
    every source once with all of its own, each of them once, in the order in which they come."""
    sources, targets = rows["source"][:], rows["target"][:]
    if not recipe.evaluation.group_references:
        return sources, [[target] for target in targets]
    grouped: dict[str, dict[str, None]] = {}
    for source, target in zip(sources, targets, strict=True):
        grouped.setdefault(source, {})[target] = None
    return list(grouped), [list(several) for several in grouped.values()]


def generation(evaluation: EvaluationSection) -> dict[str, Any]:
    """The settings of `translate`."""
    return {name: getattr(evaluation, name) for name in SETTINGS}


def sample_outputs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
    rows: Any,
    predictions: list | None,
) -> list[dict[str, str]]:
    """What the model makes of some rows, spread evenly over a split; a language model's are texts from nothing.

    Args:
        rows: the split, with columns named by role. Where rows are grouped, all references of a source are shown.
        predictions: what `evaluate_split` returned, if it was of this split.
    """
    number = recipe.evaluation.samples
    if recipe.task == "causal-lm":
        length = recipe.evaluation.max_new_tokens
        texts = [generate_text(model, tokenizer, "", max_new_tokens=length, seed=i) for i in range(number)]
        return [{"source": "", "target": "", "prediction": text} for text in texts]
    if recipe.task == "masked-lm" or rows is None or number == 0:
        return []
    if recipe.task == "translation":
        all_sources, references = items(recipe, rows)
        chosen = _spread(len(all_sources), number)
        sources, targets = [all_sources[i] for i in chosen], [" / ".join(references[i]) for i in chosen]
        if predictions is None:
            written = translate(model, tokenizer, sources, **generation(recipe.evaluation))
        else:
            written = [predictions[i] for i in chosen]
    else:
        chosen = _spread(len(rows), number)
        names = model.config.id2label
        sources = [" ||| ".join(rows[i][c] for c in ("text", "text_pair") if c in rows[i]) for i in chosen]
        targets = [names[rows[i]["label"]] for i in chosen]
        written = [names[predictions[i]] for i in chosen]
    columns = zip(sources, targets, written, strict=True)
    return [{"source": source, "target": target, "prediction": text} for source, target, text in columns]


def _spread(length: int, number: int) -> list[int]:
    """At most `number` positions at even distances."""
    number = min(number, length)
    return [i * length // number for i in range(number)]
