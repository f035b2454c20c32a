"""How many rows of a held-out split are training rows too: what a model knows by heart tells nothing of others."""

from collections.abc import Iterable, Iterator

import numpy as np
from datasets import Dataset

from regard.train.sections import IN_CONTEXT, REGRESSION, WORD_VECTORS

# What is read of a row; a label or a translation that differs makes no other row of it.
READ = ("source", "text", "text_pair", "tokens", "question", "context")
MADE = (IN_CONTEXT, REGRESSION, WORD_VECTORS)  # tasks whose rows are drawn by a rule, or that have one split


class TrainingRows:
    """What the rows of a training split read, as numbers of 64 bits."""

    def __init__(self, train: Dataset) -> None:
        self.read = np.unique(_numbers(train))

    def shared(self, split: Dataset) -> int:
        """How many rows of another split read what a training row reads. Rows without text are not counted."""
        return int(np.isin(_numbers(split), self.read).sum())


def training_rows(splits: dict[str, object], task: str) -> TrainingRows | None:
    """Of these splits; None where the rows are made, or read as they come."""
    train = splits.get("train")
    return TrainingRows(train) if isinstance(train, Dataset) and task not in MADE and len(splits) > 1 else None


def _numbers(split: Dataset) -> np.ndarray:
    """int64 (rows with text,): equal where the texts are equal, in this process."""
    columns = split.select_columns([role for role in READ if role in split.column_names])
    return np.fromiter(_hashes(columns.iter(1000)), np.int64)


def _hashes(batches: Iterable[dict[str, list]]) -> Iterator[int]:
    for batch in batches:
        for row in zip(*batch.values(), strict=True):
            texts = tuple(" ".join(text) if isinstance(text, list) else text.strip() for text in row)
            if any(texts):
                yield hash(texts)
