"""What became of the rows of a data set on their way to a model, in numbers."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from datasets import Dataset

from regard.train.masking import IGNORED


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
        text_bytes: of the same text, in UTF-8.
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
        also_in_train: rows that read what a training row reads too, so that a model may know them by heart.
    """

    rows: int | None = None
    examples: int | None = None
    tokens: int | None = None
    targets: int | None = None
    words: int | None = None
    text_bytes: int | None = None
    empty: int | None = 0
    dropped: int | None = 0
    truncated: int | None = 0
    without_targets: int | None = 0
    lost_words: int | None = 0
    mean_target_words: float | None = None
    pad_share: float | None = None
    also_in_train: int | None = None

    def sentence(self) -> str:
        """The report in a line: `29,000 rows, 28,990 examples, 10 dropped`."""
        values = dataclasses.asdict(self)
        shown = [f"{values[key]:,} {key}" for key in ("rows", "examples", "tokens") if values[key] is not None]
        for key in ("empty", "dropped", "truncated", "without_targets", "lost_words", "also_in_train"):
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


def list_targets(dataset: Dataset) -> np.ndarray:
    """How many of each row's `labels` count, (rows,)."""
    columns = dataset.select_columns("labels").with_format("arrow")
    return np.concatenate([targets_of(table) for table in columns.iter(1024)])


def targets_of(table: Any) -> np.ndarray:
    """The same of an Arrow table."""
    labels = table["labels"].combine_chunks()
    counted = np.concatenate([[0], np.cumsum(labels.values.to_numpy() != IGNORED)])
    return np.diff(counted[labels.offsets.to_numpy()])
