"""What a run is worth: its loss and its metrics on the splits of its recipe."""

import dataclasses
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.baselines import first_sentence, first_words
from regard.evaluation.generation import generate_text, load_run, translate
from regard.evaluation.in_context.scoring import exact_match_by_examples
from regard.evaluation.likelihood import perplexity, pseudo_log_likelihood
from regard.evaluation.metrics import OF_A_LANGUAGE, TEXT_METRICS, get_metric
from regard.train.callbacks import quiet_libraries
from regard.train.collators import GapCollator, collator_for
from regard.train.data import data_seed, load_splits, prepare_splits
from regard.train.errors import label_report, shortened, write_errors
from regard.train.in_context import answer_to, sample_of, sampled_rows
from regard.train.masking import IGNORED
from regard.train.measure import EvaluationBatches, has_vocabulary_head, measure
from regard.train.preprocessing import mean_words
from regard.train.questions import questions_of, read_questions
from regard.train.recipe import load_recipe
from regard.train.records import METRICS, holds_vectors, read_json, write_json
from regard.train.sections import (
    DENOISING,
    IN_CONTEXT,
    LABELLING,
    PAIR,
    QUESTION_ANSWERING,
    REGRESSION,
    WRITING,
    DataSection,
    EvaluationSection,
    Recipe,
)
from regard.train.split_reports import SplitReport
from regard.train.tagging import LOST, word_tags

SETTINGS = ("num_beams", "length_penalty", "max_new_tokens", "no_repeat_ngram_size", "batch_size")
NO_ANSWER = "(no answer)"  # a sample's
NO_TAG = "–"  # a sample's, of a word that was cut off
AS_EVALUATION = "evaluated:"  # the training split is then laid out as an evaluation split is


def evaluate_run(
    run: str | os.PathLike[str],
    split: str | None = None,
    overrides: Sequence[str] = (),
    *,
    errors: int | None = None,
    **settings: Any,
) -> dict[str, dict[str, Any]]:
    """Measures a run on its recipe's data, as the end of its training did. Only what is measured is read.

    A run of word vectors has no splits: it is measured on its test sets by `evaluate_vectors_at`, which takes other
    overrides and settings.

    Args:
        run: the run's folder.
        split: one split ("validation", "test", "test:<name>" or the name alone, "train"); all but "train" by default.
        overrides: other data, as `key=value` pairs such as `data.test.mine=my.tsv`.
        errors: of a run that labels texts or words, the confusions of its labels and so many errors, those of which
            the model was surest first: they are under "errors" in the measures of each split.
        settings: what differs from the recipe's: `num_beams`, `length_penalty`, `max_new_tokens`,
            `no_repeat_ngram_size`, `batch_size`.

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
        if errors is not None:
            raise ValueError(f"'{run}' holds word vectors, which label nothing that could be wrong.")
        return evaluate_vectors_at(run, overrides, **settings)
    check_settings(settings)
    if errors is not None and errors < 0:
        raise ValueError(f"errors={errors} is less than 0.")
    if others := [text for text in overrides if not text.startswith("data.")]:
        raise ValueError(f"'{others[0]}' is no data to evaluate on, such as data.test.mine=my.tsv.")
    with quiet_libraries():
        return _evaluate_run(run, split, overrides, settings, errors)


def _evaluate_run(
    run: str | os.PathLike[str],
    split: str | None,
    overrides: Sequence[str],
    settings: dict[str, Any],
    errors: int | None,
) -> dict[str, Any]:
    recipe = load_recipe(run, overrides)
    if errors is not None and recipe.task not in LABELLING:
        raise ValueError(f"The run '{run}' gives no labels that could be wrong: its task is {recipe.task}.")
    if recipe.task == REGRESSION:
        return _evaluate_regression(run, recipe, split, overrides, settings)
    recipe.evaluation = dataclasses.replace(recipe.evaluation, **settings)
    chosen = chosen_splits(recipe.data, split)
    model, tokenizer = load_run(run)
    labels = [model.config.id2label[i] for i in range(model.config.num_labels)] if recipe.task in LABELLING else None
    splits = load_splits(recipe.data, recipe.task, chosen, labels, data_seed(recipe))
    lead = lead_words(run, recipe) if recipe.task == "summarization" else None
    results, reports = {}, {}
    kept = recipe.evaluation.errors
    for name in chosen:
        prepared, report = prepare_split(name, splits[name], recipe, tokenizer)
        results[name], predictions = evaluate_split(model, tokenizer, recipe, prepared, report, lead)
        if recipe.task in LABELLING:
            reports[name] = label_report(
                model, tokenizer, recipe, splits[name], prepared, predictions, max(kept, errors or 0)
            )
    if split is None and not overrides and not settings and _update_records(run, results) and reports:
        write_errors(run, {name: shortened(report, kept) for name, report in reports.items()})
    if errors is not None:
        results = {name: one | {"errors": shortened(reports[name], errors)} for name, one in results.items()}
    return results


def _update_records(run: str | os.PathLike[str], results: dict[str, Any]) -> bool:
    """Writes what was measured into `metrics.json`; False where there is none."""
    records = Path(run) / METRICS
    if records.is_file():
        write_json(records, read_json(records) | {"evaluation": results})
    return records.is_file()


def _evaluate_regression(
    run: str | os.PathLike[str], recipe: Recipe, split: str | None, overrides: Sequence[str], settings: dict[str, Any]
) -> dict[str, Any]:
    from regard.train.in_context_regression import evaluate_regression, load_regression

    if others := [name for name in settings if name != "batch_size"]:
        name = others[0]
        raise ValueError(f"{name}={settings[name]} has no effect on {recipe.task}, which writes no text.")
    recipe.evaluation = dataclasses.replace(recipe.evaluation, **settings)
    chosen = chosen_splits(recipe.data, split)
    model = load_regression(run)
    results = {name: evaluate_regression(model, recipe, name) for name in chosen}
    if split is None and not overrides and not settings:
        _update_records(run, results)
    return results


def lead_words(run: str | os.PathLike[str], recipe: Recipe) -> int:
    """How many words of a document the lead baseline takes: as many as a summary to train on has, on average."""
    records = Path(run) / METRICS
    recorded = read_json(records).get("data", {}).get("train", {}) if records.is_file() else {}
    mean = recorded.get("mean_target_words")
    if mean is None:
        train = load_splits(recipe.data, recipe.task, ["train"], seed=data_seed(recipe))["train"]
        mean = mean_words(row["target"] for row in train)
    return rounded(mean)


def rounded(mean: float) -> int:
    return max(1, round(mean))


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


def prepare_split(name: str, rows: Any, recipe: Recipe, tokenizer: PreTrainedTokenizerBase) -> tuple[Any, SplitReport]:
    """A split laid out to be measured, the training split too, and what became of its rows."""
    key = AS_EVALUATION + name if name == "train" else name
    prepared, report = prepare_splits({key: rows}, recipe, tokenizer)
    return prepared[key], report.splits[key]


def evaluate_split(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
    dataset: Any,
    report: SplitReport | None = None,
    lead: int | None = None,
) -> tuple[dict[str, Any], list | None]:
    """Loss and metrics of a model on a prepared split, and what it predicted: texts (for each of its `items`), numbers
    of classes, or the tags of each sentence.

    Args:
        report: of the split, which tells the length of its text for `word_perplexity` and `bits_per_byte`.
        lead: the words that the lead baseline of a summarizer takes; the measures then hold its `baselines`.
    """
    evaluation = recipe.evaluation
    if recipe.task == QUESTION_ANSWERING:
        return _answers(model, tokenizer, recipe, dataset)
    batches = EvaluationBatches(dataset, evaluation.batch_size, collator_for(recipe, tokenizer, model))
    in_context = recipe.task == IN_CONTEXT and "exact_match_by_examples" in evaluation.metrics
    result = measure(model, batches, model.device, predict=in_context or recipe.task in LABELLING)
    measures: dict[str, Any] = {"loss": result.loss}
    if has_vocabulary_head(model):
        measures["perplexity"] = result.perplexity
    if "word_perplexity" in evaluation.metrics:
        if not report.words:
            raise ValueError("evaluation.metrics: word_perplexity needs a text with words, and there is none.")
        measures["word_perplexity"] = perplexity(result.loss * result.targets / report.words)
    if "bits_per_byte" in evaluation.metrics:
        measures["bits_per_byte"] = result.loss * result.targets / (report.text_bytes * math.log(2))
    if "gap_perplexity" in evaluation.metrics:
        gaps = EvaluationBatches(dataset, evaluation.batch_size, GapCollator(model, tokenizer.pad_token_id))
        measures["gap_perplexity"] = measure(model, gaps, model.device).perplexity
    if "pseudo_perplexity" in evaluation.metrics:
        measures["pseudo_perplexity"] = pseudo_perplexity(model, tokenizer, dataset, evaluation)
    predictions, references, metrics = None, None, []
    if in_context:
        measures |= exact_match_by_examples(result.predictions, result.labels, dataset["task"])
    if recipe.task == "sequence-classification":
        metrics = evaluation.metrics
        predictions, references = result.predictions.tolist(), result.labels.tolist()
    elif recipe.task == "token-classification":
        metrics = evaluation.metrics
        predictions, references = tags_of(dataset, result.predictions, result.labels)
        measures["lost_words"] = sum(row.count(LOST) for row in predictions)
    elif recipe.task in WRITING and (metrics := [m for m in evaluation.metrics if m in TEXT_METRICS]):
        sources, references = items(recipe, dataset)
        predictions = write(model, tokenizer, recipe, sources)
    measures |= compute_metrics(metrics, predictions, references, recipe)
    if lead is not None and predictions is not None:
        measures["baselines"] = {
            name: compute_metrics(metrics, texts, references, recipe, signed=False)
            for name, texts in summary_baselines(sources, lead).items()
        }
    return measures, predictions


def _answers(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe, dataset: Any
) -> tuple[dict[str, Any], list[str]]:
    """Loss and metrics of answers, and the answers: of each question once, however many windows its context has."""
    spans, threshold = read_questions(model, tokenizer, recipe, dataset)
    rows = questions_of(dataset)
    texts = spans.texts(rows["context"][:], threshold)
    measures = {"loss": spans.loss} | compute_metrics(recipe.evaluation.metrics, texts, rows["answer"][:], recipe)
    return measures | ({} if threshold is None else {"null_threshold": threshold}), texts


def filled_in(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, row: dict[str, list[int]]) -> str:
    """What a denoiser makes of a text with gaps, greedily, in as many tokens as the target has. A row may hold the
    ends of documents, so that it goes on until it has written as many as are in the target."""
    inputs, end = torch.tensor([row["input_ids"]], device=model.device), tokenizer.eos_token_id
    settings = {"max_new_tokens": len(row["labels"]), "num_beams": 1, "do_sample": False, "eos_token_id": None}
    with torch.no_grad():
        written = model.generate(input_ids=inputs, **settings)[0, 1:].tolist()
    ends = [place for place, token in enumerate(written) if token == end]
    number = row["labels"].count(end)
    return tokenizer.decode(written[: ends[number - 1]] if len(ends) >= number else written)


def compute_metrics(
    names: Iterable[str], predictions: Any, references: Any, recipe: Recipe, signed: bool = True
) -> dict[str, Any]:
    """Metrics by their names, with what the recipe says that they need to know, and `signed` by how they counted."""
    measures: dict[str, Any] = {}
    for name in names:
        options = {"language": recipe.data.target_language} if name in OF_A_LANGUAGE else {}
        measures |= get_metric(name).compute(predictions=predictions, references=references, **options)
    return {name: value for name, value in measures.items() if signed or not name.endswith("_signature")}


def tags_of(dataset: Any, predictions: Any, labels: Any) -> tuple[list[list[str]], list[list[str]]]:
    """The predicted tags of each sentence's words, `LOST` where no piece stood for one, and the right ones."""
    names = dataset.features["tags"].feature.names
    references = [[names[tag] for tag in row] for row in dataset["tags"]]
    return word_tags(predictions, labels, dataset["kept"], list(map(len, references)), names), references


def write(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe, sources: Sequence[str]
) -> list[str]:
    """What the model makes of each source, by the recipe's settings; a document is cut as it was in training."""
    limit = recipe.data.max_source_length if recipe.task == "summarization" else None
    return translate(model, tokenizer, sources, max_source_length=limit, **generation(recipe.evaluation))


def summary_baselines(documents: Sequence[str], lead: int) -> dict[str, list[str]]:
    """Summaries without a model, under the names that a card shows."""
    return {
        f"first {lead} words": [first_words(document, lead) for document in documents],
        "first sentence": [first_sentence(document) for document in documents],
    }


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
    if recipe.task in WRITING:
        all_sources, references = items(recipe, rows)
        chosen = _spread(len(all_sources), number)
        sources, targets = [all_sources[i] for i in chosen], [" / ".join(references[i]) for i in chosen]
        written = write(model, tokenizer, recipe, sources) if predictions is None else [predictions[i] for i in chosen]
    elif recipe.task == "token-classification":
        chosen = _spread(len(rows), number)
        names = rows.features["tags"].feature.names
        sources = [" ".join(rows[i]["tokens"]) for i in chosen]
        targets = [" ".join(names[tag] for tag in rows[i]["tags"]) for i in chosen]
        written = [" ".join(tag or NO_TAG for tag in predictions[i]) for i in chosen]
    elif recipe.task == QUESTION_ANSWERING:
        asked = questions_of(rows)
        chosen = _spread(len(asked), number)
        sources = [PAIR.join(asked[i][c] for c in ("question", "context")) for i in chosen]
        targets = [" / ".join(dict.fromkeys(asked[i]["answer"])) or NO_ANSWER for i in chosen]
        written = [predictions[i] or NO_ANSWER for i in chosen]
    elif recipe.task == IN_CONTEXT:
        chosen = sampled_rows(len(rows), len(set(rows["task"])), number)
        shown = [sample_of(tokenizer, rows[i]) for i in chosen]
        sources, targets = [prompt for prompt, _ in shown], [answer for _, answer in shown]
        written = [answer_to(model, tokenizer, prompt, recipe.evaluation.max_new_tokens) for prompt in sources]
    elif recipe.task == DENOISING:
        chosen = [rows[i] for i in _spread(len(rows), number)]
        sources, targets = ([tokenizer.decode(row[side][:-1]) for row in chosen] for side in ("input_ids", "labels"))
        written = [filled_in(model, tokenizer, row) for row in chosen]
    else:
        chosen = _spread(len(rows), number)
        names = model.config.id2label
        sources = [PAIR.join(rows[i][c] for c in ("text", "text_pair") if c in rows[i]) for i in chosen]
        targets = [names[rows[i]["label"]] for i in chosen]
        written = [names[predictions[i]] for i in chosen]
    columns = zip(sources, targets, written, strict=True)
    return [{"source": source, "target": target, "prediction": text} for source, target, text in columns]


def _spread(length: int, number: int) -> list[int]:
    """At most `number` positions at even distances."""
    number = min(number, length)
    return [i * length // number for i in range(number)]
