"""Batches by token count: examples of like length together, as many as a budget of tokens allows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset


class TokenBatches(torch.utils.data.Dataset):
    """Batches of fixed composition; item k is the whole k-th batch, a list of examples.

    Trainer takes it with `per_device_train_batch_size=1` and a collator that unpacks the list. The number of batches
    never changes and their order is the sampler's, a function of (seed, epoch), so that counting epochs, resuming in
    the middle of one and sharing batches among processes stay the library's business.
    """

    def __init__(self, dataset: Dataset, batches: Sequence[np.ndarray], pad_share: float) -> None:
        """
        Args:
            dataset: the examples.
            batches: for each batch, the rows of its examples.
            pad_share: pads among all positions of source and target in these batches.
        """
        self.dataset = dataset
        self.batches = batches
        self.pad_share = pad_share

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> list[dict[str, Any]]:
        columns = self.dataset[self.batches[index]]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def batch_by_tokens(dataset: Dataset, max_tokens: int) -> TokenBatches:
    """Sorts the examples by their lengths and cuts the order into batches.

    A batch of n examples holds n x max(longest source, longest target) <= max_tokens positions, by the lengths that
    the tokenizer gives: rows that `data.bpe_dropout` cuts anew are longer, and the batches stay.

    Args:
        dataset: with a column `input_ids`, and perhaps `labels`, of lists.
        max_tokens: the budget.

    Raises:
        ValueError: when the data set is streamed or empty, or when an example is longer than the budget.
    """
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"data.max_tokens_per_batch needs all lengths in advance, which {type(dataset).__name__} does not have: "
            "set data.streaming=false, or training.per_device_train_batch_size instead."
        )
    if len(dataset) == 0:
        raise ValueError("data.max_tokens_per_batch: there are no examples to make batches of.")
    source = list_lengths(dataset, "input_ids")
    has_target = "labels" in dataset.features and hasattr(dataset.features["labels"], "feature")
    target = list_lengths(dataset, "labels") if has_target else np.zeros_like(source)
    width = np.maximum(np.maximum(source, target), 1)
    if (longest := int(width.max())) > max_tokens:
        raise ValueError(
            f"data.max_tokens_per_batch: {max_tokens} is less than the longest example, of {longest} tokens "
            f"(row {int(width.argmax())})."
        )
    # By target, and among equal targets by source, up and down in turn: no jump of the source where the target grows.
    order = np.lexsort((np.where(target % 2, source, -source), target))
    batches, positions = [], 0
    start = 0
    while start < len(order):
        candidates = order[start : start + max_tokens // width[order[start]]]
        taken = np.arange(1, len(candidates) + 1)
        count = np.searchsorted(taken * np.maximum.accumulate(width[candidates]), max_tokens, side="right")
        batch = candidates[:count]
        positions += count * (int(source[batch].max()) + int(target[batch].max()))
        batches.append(batch)
        start += count
    tokens = int(source.sum() + target.sum())
    return TokenBatches(dataset, batches, pad_share=1 - tokens / positions if positions else 0.0)


def list_lengths(dataset: Dataset, column: str) -> np.ndarray:
    """The lengths of the lists in a column, (rows,), read without making lists of them."""
    arrow = dataset.select_columns(column).with_format("arrow")
    parts = [pc.list_value_length(table[column]).to_numpy() for table in arrow.iter(100_000)]
    return np.concatenate(parts).astype(np.int64)
