"""From rows to what a model sees: tokenised pairs and texts, words with tags, questions with windows, running text in
rows; and a report of what was done.

Every step is cached by `datasets` under a fingerprint that is made here, from the rows' own fingerprint, the
tokenizer, the parameters and the code's source, so that the same inputs are reused and changed ones never are. The
fingerprint that `datasets` makes would hash a function by its name, and a tokenizer with the padding of its last call.

Running text is in `regard.train.text_streams`, and its layouts in `regard.train.layouts`.
"""

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
from datasets import Dataset, Features, IterableDataset, List, Value
from transformers import PreTrainedTokenizerBase

from regard.train.batching import list_lengths
from regard.train.encoding import IDS, encode_cut, map_rows
from regard.train.fingerprints import fingerprint
from regard.train.overlap import training_rows
from regard.train.questions import encode_questions
from regard.train.sections import IN_CONTEXT, QUESTION_ANSWERING, Recipe
from regard.train.split_reports import DataReport, SplitReport, list_targets
from regard.train.tagging import continued_labels, encode_tagged
from regard.train.text_streams import prepare_stream

logger = logging.getLogger(__name__)

SHUFFLE_BUFFER = 10_000  # examples of a stream among which the next is drawn


def prepare_splits(
    splits: dict[str, Dataset | IterableDataset], recipe: Recipe, tokenizer: PreTrainedTokenizerBase
) -> tuple[dict[str, Dataset | IterableDataset], DataReport]:
    """Tokenises the splits and lays them out for the recipe's task.

    translation: `input_ids`, `attention_mask`, `labels`; `source` and `target` stay in validation and test. Training
    pairs with a side longer than allowed are dropped, evaluation pairs truncated; both are counted. With
    `data.bpe_dropout`, training pairs also tell what it takes to cut them anew: `row`, the number of the pair, and
    `source_words` and `target_words`, the numbers of tokens of their words.
    summarization: the same, but that training documents are truncated too; only a summary can be too long.
    sequence-classification: `input_ids`, `attention_mask`, `token_type_ids` where the tokenizer makes them, `labels`.
    token-classification: the same, with a label for each token, -100 but at the first piece of a word (in training all
    pieces may have one); `tokens`, `tags` and `kept`, the words that have a piece, stay in validation and test.
    causal-lm: `input_ids`; with `data.packing: documents` also `position_ids` and `labels`. Each token but the first
    of the stream (of each document) is predicted once.
    masked-lm: `input_ids`; in validation and test also `labels`: those are masked here, once, so that every evaluation
    meets the same masks; training rows are masked by the collator, which whole words are told by `inside`.
    denoising: `input_ids` and, in validation and test, `labels` and which of them were `taken` out, corrupted here,
    once; training rows are of text and their number, `row`, and corrupted by the collator.
    in-context: of training the numbers of the rows, `row`, from which the collator makes them; else `input_ids`,
    `labels` and the name of the row's `task`.
    question-answering: windows of the contexts, as `regard.train.questions.encode_questions` explains.

    A streamed training split stays a stream, shuffled in a buffer.

    Args:
        splits: what `load_splits` returns.
        recipe: the recipe.
        tokenizer: a tokenizer that `check_fast` lets through.

    Returns:
        The prepared splits under the same names, and the report.

    Raises:
        ValueError: when nothing is left to train on, when a masked model's tokenizer has no mask token, or when
            streaming is asked for together with batches by token count.
    """
    data = recipe.data
    if data.streaming and data.max_tokens_per_batch is not None:
        raise ValueError(
            "data.max_tokens_per_batch needs all lengths in advance, and data.streaming reads them as they come: set "
            "training.per_device_train_batch_size instead."
        )
    prepare = {
        "translation": _prepare_pairs,
        "summarization": _prepare_pairs,
        "sequence-classification": _prepare_texts,
        "token-classification": _prepare_tagged,
        QUESTION_ANSWERING: _prepare_questions,
    }.get(recipe.task, prepare_stream)
    prepared, report = {}, DataReport()
    trained = training_rows(splits, recipe.task)
    for name, split in splits.items():
        training = name == "train"
        if recipe.task == IN_CONTEXT:
            from regard.train.in_context import prepare_in_context

            prepared[name], report.splits[name] = prepare_in_context(split, name, recipe, tokenizer)
            continue
        prepared[name], report.splits[name] = prepare(split, recipe, tokenizer, training)
        if trained is not None and not training and isinstance(split, Dataset):
            report.splits[name].also_in_train = trained.shared(split)
        if report.splits[name].examples == 0:
            raise ValueError(
                f"data.{name.replace(':', '.')}: nothing is left of it ({report.splits[name].sentence()})."
            )
        if isinstance(split, IterableDataset):
            prepared[name] = prepared[name].shuffle(seed=_seed(recipe), buffer_size=SHUFFLE_BUFFER)
    return prepared, report


# --- pairs -----------------------------------------------------------------------------------------------------------


def _prepare_pairs(dataset: Any, recipe: Recipe, tokenizer: Any, training: bool) -> tuple[Any, SplitReport]:
    limits = {"max_source_length": recipe.data.max_source_length, "max_target_length": recipe.data.max_target_length}
    features = {"input_ids": IDS, "attention_mask": List(Value("int8")), "labels": IDS}
    features |= {"source_length": Value("int32"), "target_length": Value("int32"), "empty": Value("bool")}
    kept = {} if training else {"source": Value("string"), "target": Value("string")}
    anew = training and recipe.data.bpe_dropout > 0
    words = dict.fromkeys(("source_words", "target_words"), IDS) if anew else {}
    parameters = limits | ({"with_words": True} if anew else {})
    encoded = map_rows(
        dataset, encode_pairs, tokenizer, parameters, Features(features | words | kept), keep=list(kept)
    )
    if anew:
        name = fingerprint(encoded._fingerprint, "row")
        encoded = encoded.add_column("row", np.arange(len(encoded)), new_fingerprint=name)
    notes = ["source_length", "target_length", "empty"]
    summarizes = recipe.task == "summarization"  # a document is cut, and its beginning says the most

    def too_long(row: dict[str, Any]) -> Any:
        long = row["target_length"] > limits["max_target_length"]
        return long if summarizes else long | (row["source_length"] > limits["max_source_length"])

    def usable(row: dict[str, Any]) -> Any:
        return ~too_long(row) & (row["target_length"] > 0) & ~row["empty"]

    if isinstance(dataset, IterableDataset):
        logger.warning("data.streaming: pairs that are empty or too long are left out uncounted.")
        kept_pairs = encoded.filter(lambda row: bool(usable({name: np.asarray(row[name]) for name in notes})))
        some = dataset.take(SHUFFLE_BUFFER) if summarizes else []
        return kept_pairs.remove_columns(notes), SplitReport(
            empty=None,
            dropped=None,
            truncated=None,
            without_targets=None,
            mean_target_words=mean_words(row["target"] for row in some) if summarizes else None,
        )
    row = {name: np.asarray(encoded.with_format("numpy")[name][:]) for name in notes}
    source = np.minimum(row["source_length"], limits["max_source_length"])
    target = np.minimum(row["target_length"], limits["max_target_length"])
    long = too_long(row)
    cut = long | (row["source_length"] > source)
    keep = usable(row) if training else np.ones(len(long), bool)
    report = SplitReport(
        rows=len(long),
        examples=int(keep.sum()),
        tokens=int((source + target)[keep].sum()),
        targets=int(target[keep].sum()),
        empty=int(row["empty"].sum()),
        dropped=int((long & ~row["empty"]).sum()) if training else 0,
        truncated=int((cut & keep).sum()),
        without_targets=int((row["target_length"] == 0).sum()),
        mean_target_words=mean_words(dataset["target"]) if training and summarizes else None,
    )
    if not keep.all():
        name = fingerprint(encoded._fingerprint, "usable", limits)
        encoded = encoded.select(np.flatnonzero(keep), new_fingerprint=name)
    return encoded.remove_columns(notes), report


def mean_words(texts: Iterable[str]) -> float:
    """The mean number of words of those texts that have any."""
    counts = [len(text.split()) for text in texts if text.strip()]
    return sum(counts) / len(counts) if counts else 0.0


def encode_pairs(
    batch: dict[str, list[str]],
    tokenizer: Any,
    max_source_length: int,
    max_target_length: int,
    with_words: bool = False,
) -> dict[str, list]:
    """Tokenises both sides, truncated, with the lengths that they had before and, if asked for, those of words."""
    sources, source_lengths = encode_cut(tokenizer, max_source_length, batch["source"], with_words=with_words)
    targets, target_lengths = encode_cut(
        tokenizer, max_target_length, batch["target"], with_words=with_words, as_target=True
    )
    words = {"source_words": sources["words"], "target_words": targets["words"]} if with_words else {}
    return words | {
        "input_ids": sources["input_ids"],
        "attention_mask": sources["attention_mask"],
        "labels": targets["input_ids"],
        "source_length": source_lengths,
        "target_length": target_lengths,
        "empty": [not s.strip() or not t.strip() for s, t in zip(batch["source"], batch["target"], strict=True)],
    }


# --- texts with a label ----------------------------------------------------------------------------------------------


def _prepare_texts(dataset: Any, recipe: Recipe, tokenizer: Any, training: bool) -> tuple[Any, SplitReport]:
    limits = {"max_length": recipe.data.max_length}
    label = dataset.features["label"]
    features = {"input_ids": IDS, "attention_mask": List(Value("int8"))}
    if "token_type_ids" in tokenizer.model_input_names:
        features["token_type_ids"] = List(Value("int8"))
    features |= {"labels": label, "length": Value("int32"), "empty": Value("bool")}
    encoded = map_rows(dataset, encode_texts, tokenizer, limits, Features(features))
    notes = ["length", "empty"]
    if isinstance(dataset, IterableDataset):
        return encoded.remove_columns(notes), SplitReport(empty=None, truncated=None)
    length, empty = (np.asarray(encoded.with_format("numpy")[name][:]) for name in notes)
    report = SplitReport(
        rows=len(length),
        examples=len(length),
        tokens=int(np.minimum(length, recipe.data.max_length).sum()),
        targets=len(length),
        empty=int(empty.sum()),
        truncated=int((length > recipe.data.max_length).sum()),
    )
    return encoded.remove_columns(notes), report


def encode_texts(batch: dict[str, list], tokenizer: Any, max_length: int) -> dict[str, list]:
    """Tokenises texts or pairs of texts, truncated, with the lengths that they had before."""
    encoded, lengths = encode_cut(tokenizer, max_length, batch["text"], batch.get("text_pair"))
    empty = [not text.strip() for text in batch["text"]]
    return {**encoded, "labels": batch["label"], "length": lengths, "empty": empty}


# --- tagged words ----------------------------------------------------------------------------------------------------


def _prepare_tagged(dataset: Any, recipe: Recipe, tokenizer: Any, training: bool) -> tuple[Any, SplitReport]:
    every = training and recipe.data.label_all_pieces
    names = dataset.features["tags"].feature.names
    parameters = {"max_length": recipe.data.max_length, "continued": continued_labels(names) if every else None}
    features = {"input_ids": IDS, "attention_mask": List(Value("int8"))}
    if "token_type_ids" in tokenizer.model_input_names:
        features["token_type_ids"] = List(Value("int8"))
    notes = {"length": Value("int32"), "lost": Value("int32"), "empty": Value("bool")}
    features |= {"labels": IDS, "kept": IDS, **notes}
    kept = {} if training else {name: dataset.features[name] for name in ("tokens", "tags")}
    encoded = map_rows(dataset, encode_tagged, tokenizer, parameters, Features(features | kept), keep=list(kept))
    away = [*notes, "kept"] if training else list(notes)
    if isinstance(dataset, IterableDataset):
        encoded = encoded.filter(lambda row: len(row["kept"]) > 0) if training else encoded
        report = SplitReport(empty=None, truncated=None, without_targets=None, lost_words=None)
        return encoded.remove_columns(away), report
    length, lost, empty = (np.asarray(encoded.with_format("numpy")[name][:]) for name in notes)
    labelled = list_lengths(encoded, "kept")  # words
    targets = list_targets(encoded) if every else labelled
    keep = labelled > 0 if training else np.ones(len(length), bool)
    report = SplitReport(
        rows=len(length),
        examples=int(keep.sum()),
        tokens=int(np.minimum(length, recipe.data.max_length)[keep].sum()),
        targets=int(targets.sum()),
        words=int((labelled + lost).sum()),
        empty=int(empty.sum()),
        truncated=int((length > recipe.data.max_length).sum()),
        without_targets=int((labelled == 0).sum()),
        lost_words=int(lost.sum()),
    )
    if not keep.all():
        encoded = encoded.select(
            np.flatnonzero(keep), new_fingerprint=fingerprint(encoded._fingerprint, "with labels")
        )
    return encoded.remove_columns(away), report


# --- questions -------------------------------------------------------------------------------------------------------


def _prepare_questions(dataset: Any, recipe: Recipe, tokenizer: Any, training: bool) -> tuple[Any, SplitReport]:
    data = recipe.data
    parameters = {"max_length": data.max_length, "doc_stride": data.doc_stride, "training": training}
    features = {"input_ids": IDS, "start_positions": Value("int32"), "end_positions": Value("int32")}
    if "token_type_ids" in tokenizer.model_input_names:
        features["token_type_ids"] = List(Value("int8"))
    notes = ["cut", "lost", "opens"]
    features |= dict.fromkeys(notes, Value("bool"))
    if not training:
        name = fingerprint(dataset._fingerprint, "item")
        dataset = dataset.add_column("item", np.arange(len(dataset)), new_fingerprint=name)
        features |= {"first": Value("int32"), "starts": IDS, "ends": IDS, "item": Value("int64")}
        features |= {name: dataset.features[name] for name in ("question", "context", "answer")}
    elif not isinstance(dataset, IterableDataset) and not any(dataset["answer"]):
        raise ValueError(
            "data.columns.answer: no question of data.train has an answer, so that there is nothing to learn."
        )
    encoded = map_rows(dataset, encode_questions, tokenizer, parameters, Features(features), batch_size=100)
    if isinstance(dataset, IterableDataset):
        return encoded.remove_columns(notes), SplitReport(empty=None, truncated=None, without_targets=None)
    cut, lost, opens = (np.asarray(encoded.with_format("numpy")[name][:]) for name in notes)
    report = SplitReport(
        rows=len(dataset),
        examples=len(encoded),
        tokens=int(list_lengths(encoded, "input_ids").sum()),
        targets=int((~lost).sum()),
        empty=sum(not text.strip() for text in dataset["context"]),
        truncated=int((cut & opens).sum()),
        without_targets=int((lost & opens).sum()),
    )
    return encoded.remove_columns(notes), report


def _seed(recipe: Recipe) -> int:
    return recipe.training.get("seed", 42)
