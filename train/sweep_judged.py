"""Whether the runs of a sweep can be compared: what is judged, and the unit that it is judged by, must be the same."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from regard.evaluation.metrics import OF_A_LANGUAGE
from regard.evaluation.readers import local_file
from regard.train.sections import (
    DENOISING,
    HOLD_OUT,
    LABELLING,
    QUESTION_ANSWERING,
    TEXT_LIKELIHOODS,
    WRITING,
    DataSection,
    Recipe,
    RecipeError,
)
from regard.train.sweep_cells import Cell
from regard.train.sweep_table import SPLIT
from regard.train.sweep_values import EXAMPLES, SEED

PER_TOKEN = {"loss", "perplexity", "gap_perplexity", "pseudo_perplexity"}  # measures of which a token is the unit


def checked_metric(metric: str | None, cells: Sequence[Cell]) -> str:
    """The metric that tells the best: the first of `evaluation.metrics`, or the loss, where none is named.

    Raises:
        RecipeError: a cell does not measure it.
    """
    metric = metric or next(iter(cells[0].recipe.evaluation.metrics), "loss")
    for cell in cells:
        measured = ["loss", *cell.recipe.evaluation.metrics]
        measured += ["perplexity"] if cell.recipe.task not in (*LABELLING, QUESTION_ANSWERING) else []
        if metric not in measured:
            raise RecipeError(
                f"--metric: '{metric}' is not measured: it is one of {', '.join(dict.fromkeys(measured))}; "
                "evaluation.metrics names more."
            )
    return metric


def check_comparable(cells: Sequence[Cell], values: Mapping[str, Any], metric: str) -> None:
    """Refuses, as a RecipeError, cells that are judged on different things."""
    for cell in cells[1:]:
        for key, why in differences(cells[0].recipe, cell.recipe, metric):
            if key == SEED:  # by which the examples are drawn that a tokenizer is trained on
                raise RecipeError(f"--seeds: with {EXAMPLES}, a seed changes {why}.")
            # One field may follow from another: with a file to train on, other rows to validate on.
            follows = not any(_is_of(key, swept) for swept in values)
            name = f"{', '.join(values)} changes {key}, which" if follows else key
            raise RecipeError(f"--values: {name} changes {why}.")


def differences(first: Recipe, other: Recipe, metric: str, split: str = SPLIT) -> list[tuple[str, str]]:
    """The keys in which two recipes differ though a metric on a split is to be compared, each with what it changes."""
    one, two = flat(first.to_dict()), flat(other.to_dict())
    changed = [key for key in {**one, **two} if one.get(key) != two.get(key)]
    judged = itertools.product(_judged(first, metric, split).items(), changed)
    return [(key, why) for (field, why), key in judged if _is_of(key, field)]


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Sections as keys with dots."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


def _is_of(key: str, field: str) -> bool:
    return key == field or key.startswith(f"{field}.")


def _named(data: DataSection, split: str) -> tuple[str, str | None]:
    """The field that names a split, and what it names: None where there is no such test set."""
    if split == SPLIT:
        return "data.validation", data.validation
    if not isinstance(data.test, dict):
        return "data.test", data.test
    name = split.partition(":")[2]
    return f"data.test.{name}", data.test.get(name)


def _judged(recipe: Recipe, metric: str, split: str) -> dict[str, str]:
    """The fields that decide what a metric is measured on, each with what a sweep of it would change."""
    data, task = recipe.data, recipe.task
    found: dict[str, str] = {}

    def add(why: str, *fields: str) -> None:
        for field in fields:
            found.setdefault(field, why)

    rows = "what is judged, so that the runs could not be compared"
    field, named = _named(data, split)
    add(rows, "task", field, "evaluation.stride", "evaluation.group_references", "evaluation.metrics")
    file = None if named is None else local_file(named)
    if named is not None and HOLD_OUT.fullmatch(named):
        # Of a stream the first rows are held out, and else others.
        add(rows, "data.train", "data.path", "data.name", "data.streaming", "data.split_by", "data.split_seed")
    elif file is None:
        add(rows, "data.path", "data.name")
    if file is None or file.suffix.lower() != ".txt":
        add(rows, "data.columns")
    if metric in OF_A_LANGUAGE:
        add(rows, "data.target_language")
    if metric == "pseudo_perplexity":
        add(rows, "evaluation.pseudo_perplexity_rows")
    if task == "causal-lm":
        # Of packed documents the first token is no target, and in blocks all but the very first are. `block_size` is
        # free: however long the rows, with a stride or without, each token of the stream (or of its document) is a
        # target once, and the context that it is predicted from is what such a sweep is about.
        add(rows, "data.packing")
    if task == "masked-lm":
        # The masks are drawn row by row, and rows are drawn for pseudo_perplexity: in others, other tokens are judged.
        add(rows, "data.block_size")
        if metric != "pseudo_perplexity":
            add(_tokens(metric, ": choose pseudo_perplexity by --metric"), "data.mask_probability")
            add(rows, "data.mask_share", "data.random_share", "data.whole_word_masking")
    if task == DENOISING:
        add(rows, "data.block_size", "data.noise_density", "data.mean_span_length")
        if metric != "gap_perplexity":  # which is over what was taken out, whatever else is written
            add(_tokens(metric, ": choose gap_perplexity by --metric"), "data.denoising_target")
    if task == QUESTION_ANSWERING and metric == "loss":  # which is over windows
        add(rows, "data.max_length", "data.doc_stride")
    if task == "token-classification" and metric == "loss":  # which the words that are cut off have no part in
        add(rows, "data.max_length")

    tokenizer = recipe.tokenizer
    trained = tokenizer.path is None and not recipe.model.get("start_from")
    keeps_all = tokenizer.kind == "byte-bpe" and trained
    cut = ("tokenizer.path", "model.start_from", "tokenizer.kind", "tokenizer.lowercase", "tokenizer.pattern")
    learnt: tuple[str, ...] = ()
    if trained:  # on these
        learnt = ("data.train", "data.path", "data.name", EXAMPLES)
        if data.max_train_examples is not None:
            learnt += () if recipe.training.get("data_seed") is not None else (SEED,)
            learnt += ("training.data_seed",)
    if metric in TEXT_LIKELIHOODS:
        text = (
            f"the text that is predicted (words may become <unk> or lower-case), so that {metric} could not be "
            "compared: of tokenizers only those of kind byte-bpe, trained with the same tokenizer.lowercase, keep all"
        )
        add(text, *cut, *(() if keeps_all else ("tokenizer", *learnt)))
    elif metric in PER_TOKEN and task not in LABELLING:
        text_metric = ": choose a metric of the text that is written by --metric, such as bleu"
        advice = text_metric if task in WRITING else ""
        add(_tokens(metric, advice), *cut)
        if task == "causal-lm" and keeps_all:
            advice = ": choose word_perplexity by --metric"
        add(_tokens(metric, advice), "tokenizer", *learnt)
        if task in WRITING:
            lengths = f"where the validation pairs are cut, so that {metric} could not be compared{text_metric}"
            add(lengths, "data.max_source_length", "data.max_target_length")
    return found


def _tokens(metric: str, advice: str) -> str:
    return f"the tokens that are predicted, so that {metric} could not be compared{advice}"
