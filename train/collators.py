"""From examples to a batch of tensors, one collator a task.

Each takes a list of examples, or a list of such lists (batches by token count). Columns that a model does not take are
left behind. Pads are known by the length of each example and never by their id: where pad and end of sentence are the
same token, the end keeps its label. The labels that count are exactly those that are not -100, in every task, since
Trainer counts them so (`num_items_in_batch`).

Axes: B examples, T positions.
"""

import hashlib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from regard.train.denoising import SpanCorruption
from regard.train.masking import IGNORED, TokenMasker, mask_tokens
from regard.train.sections import DENOISING, IN_CONTEXT, QUESTION_ANSWERING, WRITING, Recipe
from regard.train.subword_dropout import SubwordDropout

Example = dict[str, Any]
Features = Sequence[Example] | Sequence[Sequence[Example]]


def collator_for(
    recipe: Recipe, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel | None = None
) -> Callable[[Features], dict[str, Tensor]]:
    """The collator of the recipe's task.

    Raises:
        ValueError: when the tokenizer lacks a pad token, or the mask token that masked-lm needs, or has more tokens
            than the model, or when `data.bpe_dropout` does not fit it.
    """
    if tokenizer.pad_token_id is None:
        raise ValueError("The tokenizer has no pad token, which batches need: set its pad_token.")
    if model is not None and len(tokenizer) > model.config.vocab_size:
        raise ValueError(
            f"model.vocab_size: {model.config.vocab_size} is less than the {len(tokenizer)} tokens of the tokenizer."
        )
    data, seed = recipe.data, recipe.training.get("seed", 42)
    if recipe.task == "translation" and data.bpe_dropout > 0:
        dropout = SubwordDropout.of(tokenizer, data.bpe_dropout)
        limits = data.max_source_length, data.max_target_length
        return ResegmentingCollator(tokenizer.pad_token_id, dropout, seed, *limits)
    if recipe.task in WRITING:
        return Seq2SeqCollator(tokenizer.pad_token_id)
    if recipe.task == "causal-lm":
        return CausalLMCollator(tokenizer.pad_token_id)
    if recipe.task == "masked-lm":
        masker = TokenMasker.of(tokenizer, data)
        return MaskedLMCollator(tokenizer.pad_token_id, masker, seed if data.mask_seed is None else data.mask_seed)
    if recipe.task == DENOISING:
        return DenoisingCollator(tokenizer.pad_token_id, SpanCorruption.of(tokenizer, data), seed)
    if recipe.task == IN_CONTEXT:
        from regard.train.in_context import InContextCollator, SequenceEncoder

        encoder = SequenceEncoder.of(tokenizer, data)
        return InContextCollator(tokenizer.pad_token_id, encoder, seed, data.learn_from == "all")
    if recipe.task == QUESTION_ANSWERING:
        return QuestionCollator(tokenizer.pad_token_id)
    if recipe.task == "token-classification":
        return TaggingCollator(tokenizer.pad_token_id)
    return ClassificationCollator(tokenizer.pad_token_id)


class EpochCollator:
    """A collator that does otherwise in each epoch; `TellEpoch` tells it which one begins.

    The number is in shared memory, so that workers of a loader that outlive an epoch learn of the next.
    """

    def __init__(self) -> None:
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    @property
    def epoch(self) -> int:
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        self._epoch.fill_(epoch)


class TellEpoch(TrainerCallback):
    """Tells an `EpochCollator` which epoch begins."""

    def __init__(self, collator: EpochCollator) -> None:
        self.collator = collator

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.collator.set_epoch(int(state.epoch or 0))


class Seq2SeqCollator:
    """`input_ids` and `attention_mask` (B, T) of the sources, `labels` (B, T') of the targets with -100 for pads.

    The decoder's inputs are not made here: the model shifts the labels itself, once.
    """

    def __init__(self, pad_token_id: int, pad_to_multiple_of: int | None = None) -> None:
        self.pad_token_id = pad_token_id
        self.multiple = pad_to_multiple_of

    def __call__(self, features: Features) -> dict[str, Tensor]:
        examples = flat(features)
        sources = rows_of(examples, "input_ids")
        return {
            "input_ids": padded(sources, self.pad_token_id, self.multiple),
            "attention_mask": attention_mask(sources, self.multiple),
            "labels": padded(rows_of(examples, "labels"), IGNORED, self.multiple),
        }


class ResegmentingCollator(EpochCollator, Seq2SeqCollator):
    """A `Seq2SeqCollator` that cuts words anew (`data.bpe_dropout`) in rows that have a number, `row`: those of
    training.

    How a row is cut is a function of (seed, epoch, row) alone: not of the batch, the process or the worker, nor of
    where a run was resumed. A side that would be longer than allowed stays as the tokenizer cuts it.
    """

    def __init__(
        self,
        pad_token_id: int,
        dropout: SubwordDropout,
        seed: int,
        max_source_length: int,
        max_target_length: int,
        pad_to_multiple_of: int | None = None,
    ) -> None:
        EpochCollator.__init__(self)
        Seq2SeqCollator.__init__(self, pad_token_id, pad_to_multiple_of)
        self.dropout = dropout
        self.seed = seed
        self.sides = (
            ("input_ids", "source_words", max_source_length),
            ("labels", "target_words", max_target_length),
        )

    def __call__(self, features: Features) -> dict[str, Tensor]:
        epoch = self.epoch
        examples = [self.cut(example, epoch) if "row" in example else example for example in flat(features)]
        return super().__call__(examples)

    def cut(self, example: Example, epoch: int) -> Example:
        generator = np.random.default_rng([self.seed, epoch, example["row"]])
        cut = {name: self.dropout.cut(example[name], example[words], generator) for name, words, _ in self.sides}
        return {name: cut[name] if len(cut[name]) <= limit else example[name] for name, _, limit in self.sides}


class CausalLMCollator:
    """`input_ids` and `labels` (B, T), the labels unshifted (the model shifts them); the first is -100, as nothing
    predicts it.

    With `position_ids` (packed documents) there is never an `attention_mask`: the documents are kept apart by their
    positions, and pads are one more document. Else there is one where something is padded.
    """

    def __init__(self, pad_token_id: int, pad_to_multiple_of: int | None = None) -> None:
        self.pad_token_id = pad_token_id
        self.multiple = pad_to_multiple_of

    def __call__(self, features: Features) -> dict[str, Tensor]:
        examples = flat(features)
        inputs = rows_of(examples, "input_ids")
        batch = {"input_ids": padded(inputs, self.pad_token_id, self.multiple)}
        labels = rows_of(examples, "labels") if "labels" in examples[0] else inputs
        batch["labels"] = padded(labels, IGNORED, self.multiple)
        batch["labels"][:, 0] = IGNORED
        if "position_ids" in examples[0]:
            batch["position_ids"] = packed_positions(rows_of(examples, "position_ids"), batch["input_ids"].shape[1])
        else:
            add_mask_where_padded(batch, inputs, self.multiple)
        return batch


class MaskedLMCollator(EpochCollator):
    """Masks rows anew each time they are seen; rows that come with `labels` (evaluation) are masked already.

    The masks are a function of the seed, the epoch and the batch: its tokens and their order. So a resumed run meets
    the masks that the whole run met, whatever else draws from the global generators, and a row that comes in another
    company, or in another epoch, is masked otherwise.
    """

    def __init__(
        self, pad_token_id: int, masker: TokenMasker, seed: int, pad_to_multiple_of: int | None = None
    ) -> None:
        super().__init__()
        self.pad_token_id = pad_token_id
        self.masker = masker
        self.seed = seed
        self.multiple = pad_to_multiple_of

    def __call__(self, features: Features) -> dict[str, Tensor]:
        examples = flat(features)
        inputs = rows_of(examples, "input_ids")
        if "labels" in examples[0]:
            labels = rows_of(examples, "labels")
        else:
            inside = rows_of(examples, "inside") if "inside" in examples[0] else None  # of whole words
            inputs, labels = self.masked(inputs, inside)
        batch = {
            "input_ids": padded(inputs, self.pad_token_id, self.multiple),
            "labels": padded(labels, IGNORED, self.multiple),
        }
        add_mask_where_padded(batch, inputs, self.multiple)
        return batch

    def masked(
        self, inputs: list[np.ndarray], inside: list[np.ndarray] | None = None
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        ends = np.cumsum([len(row) for row in inputs])
        ids = np.concatenate(inputs)
        key = hashlib.blake2b(ids.tobytes() + ends.tobytes(), digest_size=8).digest()
        generator = np.random.default_rng([self.seed, self.epoch, int.from_bytes(key, "little")])
        goes_on = None
        if inside is not None:  # no word goes on from the row before, though one may be cut between two rows
            goes_on = np.concatenate(inside) > 0
            goes_on[ends[:-1]] = False
        masked, labels = mask_tokens(ids, self.masker, generator, goes_on)
        return np.split(masked, ends[:-1]), np.split(labels, ends[:-1])


class ClassificationCollator:
    """`input_ids`, `attention_mask` and, where there are any, `token_type_ids` (B, T); `labels` (B,)."""

    def __init__(self, pad_token_id: int, pad_to_multiple_of: int | None = None) -> None:
        self.pad_token_id = pad_token_id
        self.multiple = pad_to_multiple_of

    def __call__(self, features: Features) -> dict[str, Tensor]:
        examples = flat(features)
        inputs = rows_of(examples, "input_ids")
        batch = {
            "input_ids": padded(inputs, self.pad_token_id, self.multiple),
            "attention_mask": attention_mask(inputs, self.multiple),
        }
        if "token_type_ids" in examples[0]:
            batch["token_type_ids"] = padded(rows_of(examples, "token_type_ids"), 0, self.multiple)
        if "labels" in examples[0]:
            batch["labels"] = torch.tensor([example["labels"] for example in examples])
        return batch


class DenoisingCollator(EpochCollator, Seq2SeqCollator):
    """A `Seq2SeqCollator` of texts whose spans are taken out anew each time, in rows that have a number, `row`; rows
    that come with `labels` (evaluation) are corrupted already.

    How a row is corrupted is a function of (seed, epoch, row) alone. A stream, which knows no epochs, says in `epoch`
    how often it has begun anew.
    """

    def __init__(
        self, pad_token_id: int, corruption: SpanCorruption, seed: int, pad_to_multiple_of: int | None = None
    ) -> None:
        EpochCollator.__init__(self)
        Seq2SeqCollator.__init__(self, pad_token_id, pad_to_multiple_of)
        self.corruption = corruption
        self.seed = seed

    def __call__(self, features: Features) -> dict[str, Tensor]:
        epoch = self.epoch
        return super().__call__([one if "labels" in one else self.corrupt(one, epoch) for one in flat(features)])

    def corrupt(self, example: Example, epoch: int) -> Example:
        generator = np.random.default_rng([self.seed, example.get("epoch", epoch), example["row"]])
        return self.corruption.corrupt(np.asarray(example["input_ids"], np.int64), generator)._asdict()


class GapCollator(Seq2SeqCollator):
    """A `Seq2SeqCollator` of corrupted rows whose loss is over the tokens that were `taken` out alone: the decoder
    reads the whole target, in `decoder_input_ids`, and `labels` are -100 elsewhere."""

    def __init__(self, model: PreTrainedModel, pad_token_id: int) -> None:
        super().__init__(pad_token_id)
        self.shift = model.prepare_decoder_input_ids_from_labels

    def __call__(self, features: Features) -> dict[str, Tensor]:
        batch, taken = super().__call__(features), padded(rows_of(flat(features), "taken"), False)
        labels = batch["labels"]
        return batch | {"decoder_input_ids": self.shift(labels), "labels": labels.masked_fill(~taken.bool(), IGNORED)}


class QuestionCollator(ClassificationCollator):
    """A `ClassificationCollator` of windows, with `start_positions` and `end_positions` (B,) in place of labels."""

    def __call__(self, features: Features) -> dict[str, Tensor]:
        examples = flat(features)
        batch = super().__call__(examples)
        names = [name for name in ("start_positions", "end_positions") if name in examples[0]]
        return batch | {name: torch.tensor([example[name] for example in examples]) for name in names}


class TaggingCollator(ClassificationCollator):
    """A `ClassificationCollator` with `labels` (B, T), -100 on pads, whatever label has the number 0."""

    def __call__(self, features: Features) -> dict[str, Tensor]:
        examples = flat(features)
        labels = rows_of(examples, "labels")
        inputs = [{name: value for name, value in example.items() if name != "labels"} for example in examples]
        return super().__call__(inputs) | {"labels": padded(labels, IGNORED, self.multiple)}


# --- parts -----------------------------------------------------------------------------------------------------------


def flat(features: Features) -> list[Example]:
    """The examples of a list of examples, or of a list of batches."""
    return list(chain.from_iterable(features)) if isinstance(features[0], list) else list(features)


def rows_of(examples: list[Example], column: str) -> list[np.ndarray]:
    """The rows of a column. Raises ValueError, naming the columns there are, when an example lacks it."""
    for example in examples:
        if column not in example:
            raise ValueError(f"The batch needs a column '{column}', and the data has {sorted(example)}.")
    return [np.asarray(example[column], np.int64) for example in examples]


def padded(rows: list[np.ndarray], value: int, multiple: int | None = None) -> Tensor:
    """Rows of B lengths as (B, T), filled with `value` on the right; T is at least 1, and a multiple of `multiple`."""
    width = max(1, *(len(row) for row in rows))
    width = -(-width // multiple) * multiple if multiple else width
    batch = np.full((len(rows), width), value, np.int64)
    for line, row in zip(batch, rows, strict=True):
        line[: len(row)] = row
    return torch.from_numpy(batch)


def attention_mask(rows: list[np.ndarray], multiple: int | None = None) -> Tensor:
    """(B, T): 1 where a row has a token, 0 where it is padded."""
    return padded([np.ones(len(row)) for row in rows], 0, multiple)


def add_mask_where_padded(batch: dict[str, Tensor], rows: list[np.ndarray], multiple: int | None) -> None:
    """Without a mask, attention takes its fast path: so full blocks get none."""
    if any(len(row) < batch["input_ids"].shape[1] for row in rows):
        batch["attention_mask"] = attention_mask(rows, multiple)


def packed_positions(rows: list[np.ndarray], width: int) -> Tensor:
    """(B, T): the positions of packed documents, and for the pads those of one more document."""
    return torch.from_numpy(np.stack([np.concatenate([row, np.arange(width - len(row))]) for row in rows]))
