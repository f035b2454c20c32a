"""From rows to what a model sees: tokenised pairs and texts, blocks of text, packed documents; and a report of what
was done.

Every step is cached by `datasets` under a fingerprint that is made here, from the rows' own fingerprint, the
tokenizer, the parameters and the code's source, so that the same inputs are reused and changed ones never are. The
fingerprint that `datasets` makes would hash a function by its name, and a tokenizer with the padding of its last call.

The layouts of text for language models are in `regard.train.layouts`.
"""

import dataclasses
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset, Features, IterableDataset, List, Value
from transformers import PreTrainedTokenizerBase

from regard.train.batching import list_lengths
from regard.train.denoising import SpanCorruption, corrupted_lengths, longest_text
from regard.train.fingerprints import fingerprint
from regard.train.layouts import Layout, special_affixes
from regard.train.masking import IGNORED, TokenMasker, mark_inside, mask_tokens, take_marks
from regard.train.questions import encode_questions
from regard.train.readers import ENDS
from regard.train.sections import DENOISING, QUESTION_ANSWERING, Recipe
from regard.train.subword_dropout import word_lengths
from regard.train.tagging import continued_labels, encode_tagged

logger = logging.getLogger(__name__)

IDS = List(Value("int32"))
SHUFFLE_BUFFER = 10_000  # examples of a stream among which the next is drawn
MASK_SEED = 42  # of evaluations: whatever the seed of the training, the same tokens are masked


@dataclass
class SplitReport:
    """What became of the rows of one split. None: not known, since the rows are read as they come (`data.streaming`).

    Attributes:
        rows: rows of the source; for a text file, pieces of it.
        examples: what a model is given: pairs, texts, or blocks of text.
        tokens: tokens of the examples, special ones included, each counted once; source and target together.
        targets: labels that a loss is computed on (before masking by chance, for masked-lm in training: None).
        words: of running text: what white space parts, and the ends of lines, as the corpora of language modelling
            count. A measure of length that no tokenizer changes; the ends of documents are targets, and no words.
        empty: rows without text. Left out of training pairs and of language models' text; else kept.
        dropped: pairs left out of training because a side is too long.
        truncated: examples cut to the greatest length (evaluation pairs, texts of classification).
        without_targets: examples that a loss would ignore whole. They add nothing; training pairs are left out, and so
            are sentences of tagged words.
        lost_words: words of such sentences that no piece stands for, since they were cut off or hold nothing that the
            tokenizer reads. They are scored as missed.
        mean_target_words: of the summaries to train on (of a stream the first 10,000), in words that white space
            parts.
        pad_share: pads among the input and label positions of all batches, where the data decides it.
    """

    rows: int | None = None
    examples: int | None = None
    tokens: int | None = None
    targets: int | None = None
    words: int | None = None
    empty: int | None = 0
    dropped: int | None = 0
    truncated: int | None = 0
    without_targets: int | None = 0
    lost_words: int | None = 0
    mean_target_words: float | None = None
    pad_share: float | None = None

    def sentence(self) -> str:
        """The report in a line: `29,000 rows, 28,990 examples, 10 dropped`."""
        values = dataclasses.asdict(self)
        shown = [f"{values[key]:,} {key}" for key in ("rows", "examples", "tokens") if values[key] is not None]
        for key in ("empty", "dropped", "truncated", "without_targets", "lost_words"):
            if values[key]:
                shown.append(f"{values[key]:,} {key.replace('_', ' ')}")
        if self.pad_share is not None:
            shown.append(f"{self.pad_share:.1%} pads")
        return ", ".join(shown) or "read as they come"


@dataclass
class DataReport:
    """A report for each split."""

    splits: dict[str, SplitReport] = field(default_factory=dict)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Plain numbers, for the run's records."""
        return {name: dataclasses.asdict(split) for name, split in self.splits.items()}

    def __str__(self) -> str:
        return "\n".join(f"{name}: {split.sentence()}" for name, split in self.splits.items())


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
    denoising: `input_ids` and, in validation and test, `labels`, corrupted here, once; training rows are of text and
    their number, `row`, and corrupted by the collator.
    question-answering: windows of the contexts, as `regard.train.questions.encode_questions` explains.

    A streamed training split stays a stream, shuffled in a buffer.

    Args:
        splits: what `load_splits` returns.
        recipe: the recipe.
        tokenizer: a tokenizer with a `tokenizers` backend.

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
    }.get(recipe.task, _prepare_stream)
    prepared, report = {}, DataReport()
    for name, split in splits.items():
        training = name == "train"
        prepared[name], report.splits[name] = prepare(split, recipe, tokenizer, training)
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
    encoded = _map(dataset, encode_pairs, tokenizer, parameters, Features(features | words | kept), keep=list(kept))
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
    sources, source_lengths = _encode(tokenizer, max_source_length, batch["source"], with_words=with_words)
    targets, target_lengths = _encode(tokenizer, max_target_length, batch["target"], with_words=with_words)
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
    encoded = _map(dataset, encode_texts, tokenizer, limits, Features(features))
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
    encoded, lengths = _encode(tokenizer, max_length, batch["text"], batch.get("text_pair"))
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
    encoded = _map(dataset, encode_tagged, tokenizer, parameters, Features(features | kept), keep=list(kept))
    away = [*notes, "kept"] if training else list(notes)
    if isinstance(dataset, IterableDataset):
        encoded = encoded.filter(lambda row: len(row["kept"]) > 0) if training else encoded
        report = SplitReport(empty=None, truncated=None, without_targets=None, lost_words=None)
        return encoded.remove_columns(away), report
    length, lost, empty = (np.asarray(encoded.with_format("numpy")[name][:]) for name in notes)
    targets = list_lengths(encoded, "kept")
    keep = targets > 0 if training else np.ones(len(length), bool)
    report = SplitReport(
        rows=len(length),
        examples=int(keep.sum()),
        tokens=int(np.minimum(length, recipe.data.max_length)[keep].sum()),
        targets=int(targets.sum()),
        words=int((targets + lost).sum()),
        empty=int(empty.sum()),
        truncated=int((length > recipe.data.max_length).sum()),
        without_targets=int((targets == 0).sum()),
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
    encoded = _map(dataset, encode_questions, tokenizer, parameters, Features(features), batch_size=100)
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


# --- streams of text -------------------------------------------------------------------------------------------------


def _prepare_stream(dataset: Any, recipe: Recipe, tokenizer: Any, training: bool) -> tuple[Any, SplitReport]:
    data, masked, denoises = recipe.data, recipe.task == "masked-lm", recipe.task == DENOISING
    words = masked and data.whole_word_masking
    streaming = isinstance(dataset, IterableDataset)
    ends = [ENDS] if ENDS in dataset.features else []
    features = {"input_ids": IDS, "words": Value("int32"), "empty": Value("bool")} | dict.fromkeys(ends, Value("bool"))
    # Few rows at a time: those of a text file are long, and a tokenizer at work holds many bytes for each token.
    parameters = {"with_words": True} if words else {}
    encoded = _map(dataset, encode_stream, tokenizer, parameters, Features(features), keep=ends, batch_size=100)
    layout = Layout(
        kind="masked" if masked else DENOISING if denoises else data.packing,
        block_size=_text_length(data) if denoises else data.block_size,
        affixes=special_affixes(tokenizer),
        stride=None if training else recipe.evaluation.stride,
    )
    if layout.kind == "documents" and not layout.affixes[0] and "word_perplexity" in recipe.evaluation.metrics:
        raise ValueError(
            "evaluation.metrics: word_perplexity counts every word, and with data.packing: documents the first token "
            "of a text is not predicted, since this tokenizer puts none before it: choose data.packing: blocks."
        )
    # An evaluation meets the same masks each time: they are part of the data.
    masker = TokenMasker.of(tokenizer, data) if masked else SpanCorruption.of(tokenizer, data) if denoises else None
    features = {name: IDS for name in layout.columns}
    if masker is not None:
        told = {"inside": List(Value("bool"))} if words else {"row": Value("int64")} if denoises else {}
        features |= told if training else {"labels": IDS}
    arguments = {
        "dataset": encoded,
        "layout": layout,
        "masker": None if training else masker,
        "seed": MASK_SEED,
        "words": words,
    }
    if streaming:
        rows = IterableDataset.from_generator(lay_out, features=Features(features), gen_kwargs=arguments)
        return rows, SplitReport(empty=None, dropped=None, truncated=None, without_targets=None)
    drawn = masker is not None and not training
    arguments_key = [dataclasses.asdict(layout), dataclasses.asdict(masker) if drawn else None]
    name = fingerprint(encoded._fingerprint, arguments_key, MASK_SEED if masker is not None else None, list(features))
    rows = Dataset.from_generator(lay_out, features=Features(features), gen_kwargs=arguments, fingerprint=name)
    report = _stream_report(encoded, rows, layout, masked, training)
    return rows, _denoising_report(report, rows, data) if denoises else report


def _text_length(data: Any) -> int:
    return longest_text(data.block_size, data.noise_density, data.mean_span_length)


def encode_stream(batch: dict[str, list[str]], tokenizer: Any, with_words: bool = False) -> dict[str, list]:
    """Tokenises texts without special tokens: those belong to documents, and a document may be several rows. With
    words, the ids of tokens that go on with one are marked (`mark_inside`)."""
    encoded = tokenizer(batch["text"], add_special_tokens=False, verbose=False, return_attention_mask=False)
    ids = encoded["input_ids"]
    if with_words:
        ids = [mark_inside(row, encoded.word_ids(number)) for number, row in enumerate(ids)]
    return {
        "input_ids": ids,
        "words": [len(text.split()) + text.count("\n") for text in batch["text"]],
        "empty": [not ids for ids in encoded["input_ids"]],
    }


def lay_out(
    dataset: Any, layout: Layout, masker: TokenMasker | SpanCorruption | None, seed: int, words: bool = False
) -> Any:
    """Yields the rows of a layout, masked or corrupted by (seed, number of the row) where there is a masker; `words`
    tells that ids are marked."""
    for number, row in enumerate(layout.rows(dataset)):
        ids, inside = take_marks(row["input_ids"]) if words else (row["input_ids"], None)
        if masker is None:
            told = {"inside": inside} if words else {"row": number} if layout.kind == DENOISING else {}
            yield row | {"input_ids": ids} | told
            continue
        generator = np.random.default_rng([seed, number])
        if isinstance(masker, SpanCorruption):
            ids, labels = masker.corrupt(ids, generator)
        else:
            ids, labels = mask_tokens(ids, masker, generator, inside)
        yield row | {"input_ids": ids, "labels": labels}


def _denoising_report(report: SplitReport, rows: Dataset, data: Any) -> SplitReport:
    """What the rows of training become is known by their lengths."""
    lengths = [list_lengths(rows, name) for name in ("input_ids", "labels") if name in rows.column_names]
    if len(lengths) == 1:
        rates = data.noise_density, data.mean_span_length
        lengths = [np.array(side) for side in zip(*(corrupted_lengths(n, *rates) for n in lengths[0]), strict=True)]
    report.tokens, report.targets = int(sum(side.sum() for side in lengths)), int(lengths[1].sum())
    report.without_targets = 0
    return report


def _stream_report(encoded: Dataset, rows: Dataset, layout: Layout, masked: bool, training: bool) -> SplitReport:
    report = SplitReport(rows=len(encoded), examples=len(rows), tokens=0, targets=0)
    columns = encoded.with_format("numpy")
    report.empty, report.words = int(np.sum(columns["empty"][:])), int(np.sum(columns["words"][:], dtype=np.int64))
    positions = 0
    for table in rows.with_format("arrow").iter(1024):
        lengths = pc.list_value_length(table["input_ids"]).to_numpy()
        positions += len(lengths) * layout.block_size
        report.tokens += int(lengths.sum())
        if "labels" in table.column_names:
            labels = table["labels"].combine_chunks()
            counted = np.concatenate([[0], np.cumsum(labels.values.to_numpy() != IGNORED)])
            targets = np.diff(counted[labels.offsets.to_numpy()])
        elif masked:
            continue
        else:
            targets = lengths - 1
        report.targets += int(targets.sum())
        report.without_targets += int((targets == 0).sum())
    if len(rows) and not masked and layout.kind == "blocks":
        report.tokens = report.targets + 1  # a block begins with the last token of the one before
    if masked and training:
        report.targets = None
    if layout.kind == "documents":
        report.pad_share = 1 - report.tokens / positions if positions else 0.0
    return report


# --- the tokenizer and the cache -------------------------------------------------------------------------------------


def _encode(
    tokenizer: Any, max_length: int, *texts: Any, with_words: bool = False
) -> tuple[dict[str, list], list[int]]:
    """Encodings of at most `max_length` tokens, special ones kept, and the lengths before truncation. `words`, if
    asked for, are the numbers of tokens of the words."""
    encoding = tokenizer(*texts, verbose=False)
    encoded = dict(encoding)
    if with_words:
        encoded["words"] = [word_lengths(encoding.word_ids(row)) for row in range(len(encoded["input_ids"]))]
    lengths = [len(ids) for ids in encoded["input_ids"]]
    for row in (i for i, length in enumerate(lengths) if length > max_length):
        cut = tokenizer(
            *(None if side is None else side[row] for side in texts), truncation=True, max_length=max_length
        )
        for name in cut:
            encoded[name][row] = cut[name]
        if with_words:
            encoded["words"][row] = word_lengths(cut.word_ids())
    return encoded, lengths


def _map(
    dataset: Any,
    function: Any,
    tokenizer: Any,
    parameters: dict[str, Any],
    features: Features,
    keep: Sequence[str] = (),
    batch_size: int = 1000,
) -> Any:
    arguments = {
        "batched": True,
        "batch_size": batch_size,
        "fn_kwargs": {"tokenizer": tokenizer, **parameters},
        "remove_columns": [name for name in dataset.features if name not in keep],
        "features": features,
    }
    if isinstance(dataset, IterableDataset):
        return dataset.map(function, **arguments)
    name = fingerprint(dataset._fingerprint, tokenizer_state(tokenizer), function.__name__, parameters, list(features))
    return dataset.map(function, new_fingerprint=name, desc="Tokenising", **arguments)


def tokenizer_state(tokenizer: PreTrainedTokenizerBase) -> list[Any]:
    """All that decides how texts are cut: the tokenizer's bytes, without the padding and truncation of its last call,
    and the settings that transformers keeps beside them.

    Raises:
        ValueError: when it has no `tokenizers` backend.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(
            f"tokenizer.path: {type(tokenizer).__name__} has no fast tokenizer: give one with a tokenizer.json."
        )
    state = json.loads(backend.to_str()) | {"padding": None, "truncation": None}
    return [state, tokenizer.split_special_tokens, tokenizer.truncation_side]


def _seed(recipe: Recipe) -> int:
    return recipe.training.get("seed", 42)
