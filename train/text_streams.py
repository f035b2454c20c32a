"""Running text, tokenised and laid out in rows for language models, masked ones and denoisers."""

import dataclasses
from typing import Any

import numpy as np
import pyarrow.compute as pc
from datasets import Dataset, Features, IterableDataset, List, Value

from regard.evaluation.readers import ENDS
from regard.train.batching import list_lengths
from regard.train.denoising import SpanCorruption, lengths_of, text_length
from regard.train.encoding import IDS, map_rows
from regard.train.fingerprints import fingerprint
from regard.train.layouts import Layout, special_affixes
from regard.train.masking import TokenMasker, mark_inside, mask_tokens, take_marks
from regard.train.sections import DENOISING, TEXT_LIKELIHOODS, Recipe
from regard.train.split_reports import SplitReport, targets_of

MASK_SEED = 42  # of evaluations: whatever the seed of the training, the same tokens are masked


def prepare_stream(dataset: Any, recipe: Recipe, tokenizer: Any, training: bool) -> tuple[Any, SplitReport]:
    """One split, as `regard.train.preprocessing.prepare_splits` explains, and its report."""
    data, masked, denoises = recipe.data, recipe.task == "masked-lm", recipe.task == DENOISING
    words = masked and data.whole_word_masking
    streaming = isinstance(dataset, IterableDataset)
    ends = [ENDS] if ENDS in dataset.features else []
    sizes = {"words": Value("int32"), "text_bytes": Value("int32"), "empty": Value("bool")}
    features = {"input_ids": IDS} | sizes | dict.fromkeys(ends, Value("bool"))
    # Few rows at a time: those of a text file are long, and a tokenizer at work holds many bytes for each token.
    parameters = {"with_words": True} if words else {}
    encoded = map_rows(dataset, encode_stream, tokenizer, parameters, Features(features), keep=ends, batch_size=100)
    layout = Layout(
        kind="masked" if masked else DENOISING if denoises else data.packing,
        block_size=text_length(data) if denoises else data.block_size,
        affixes=special_affixes(tokenizer),
        stride=None if training else recipe.evaluation.stride,
    )
    whole = next((name for name in TEXT_LIKELIHOODS if name in recipe.evaluation.metrics), None)
    if layout.kind == "documents" and not layout.affixes[0] and whole is not None:
        raise ValueError(
            f"evaluation.metrics: {whole} counts the whole text, and with data.packing: documents the first token of "
            "a text is not predicted, since this tokenizer puts none before it: choose data.packing: blocks."
        )
    # An evaluation meets the same masks each time: they are part of the data.
    masker = TokenMasker.of(tokenizer, data) if masked else SpanCorruption.of(tokenizer, data) if denoises else None
    features = {name: IDS for name in layout.columns}
    if masker is not None:
        told = {"inside": List(Value("bool"))} if words else {"row": Value("int64")} if denoises else {}
        drawn = {"labels": IDS, "taken": List(Value("bool"))} if denoises else {"labels": IDS}
        features |= told if training else drawn
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
        "text_bytes": [len(text.encode()) for text in batch["text"]],
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
            yield row | masker.corrupt(ids, generator)._asdict()
            continue
        ids, labels = mask_tokens(ids, masker, generator, inside)
        yield row | {"input_ids": ids, "labels": labels}


def _denoising_report(report: SplitReport, rows: Dataset, data: Any) -> SplitReport:
    """What the rows of training become is known by their lengths."""
    lengths = [list_lengths(rows, name) for name in ("input_ids", "labels") if name in rows.column_names]
    if len(lengths) == 1:
        lengths = [np.array(side) for side in zip(*(lengths_of(n, data) for n in lengths[0]), strict=True)]
    report.tokens, report.targets = int(sum(side.sum() for side in lengths)), int(lengths[1].sum())
    report.without_targets = 0
    return report


def _stream_report(encoded: Dataset, rows: Dataset, layout: Layout, masked: bool, training: bool) -> SplitReport:
    report = SplitReport(rows=len(encoded), examples=len(rows), tokens=0, targets=0)
    columns = encoded.with_format("numpy")
    for name in ("empty", "words", "text_bytes"):
        setattr(report, name, int(np.sum(columns[name][:], dtype=np.int64)))
    positions = 0
    for table in rows.with_format("arrow").iter(1024):
        lengths = pc.list_value_length(table["input_ids"]).to_numpy()
        positions += len(lengths) * layout.block_size
        report.tokens += int(lengths.sum())
        if "labels" in table.column_names:
            targets = targets_of(table)
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
