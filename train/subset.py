"""The first examples of a training split in an order that a seed draws: the points of a learning curve."""

import logging

import numpy as np
from datasets import ClassLabel, Dataset

from regard.train.fingerprints import fingerprint

logger = logging.getLogger(__name__)


def first_examples(train: Dataset, number: int, seed: int) -> Dataset:
    """So many rows of a split, in the split's own order; all where it has no more.

    With one seed, fewer rows are always some of the more. Where rows have a label, each label has as many of them as
    any other, or one fewer, until it has no more.
    """
    if number > len(train):
        logger.warning("data.max_train_examples: %d are more than data.train's %d: all are taken.", number, len(train))
    if number >= len(train):
        return train
    order = np.random.default_rng(seed).permutation(len(train))
    if isinstance(train.features.get("label"), ClassLabel):
        order = order[in_turn(np.asarray(train["label"])[order])]
    name = fingerprint(train._fingerprint, "first examples", number, seed)
    return train.select(np.sort(order[:number]), new_fingerprint=name)


def in_turn(labels: np.ndarray) -> np.ndarray:
    """An order, int64 (rows,), in which the labels take turns: first the first row of each label, then the second of
    each, and so on, each time in the order in which they stand.

    Args:
        labels: int64 (rows,).
    """
    by_label = np.argsort(labels, kind="stable")  # (rows,), the rows of each label together, in their order
    counts = np.bincount(labels)
    before = np.cumsum(counts) - counts  # (labels,), the rows of the labels below each
    turn = np.empty(len(labels), np.int64)
    turn[by_label] = np.arange(len(labels)) - np.repeat(before, counts)  # how many of its label come before a row
    return np.argsort(turn, kind="stable")
