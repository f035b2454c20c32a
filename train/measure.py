"""Losses as ratios of sums over targets, and predictions, over any data set, batch size and number of processes.

Axes: B examples, T positions, V vocabulary or classes.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather, pad_across_processes
from datasets import Dataset
from transformers import PreTrainedModel

from regard.evaluation.likelihood import perplexity
from regard.train.batching import list_lengths

IGNORED = -100
UNCOUNTED = -1  # the row number of an example that another process counts
Batch = dict[str, torch.Tensor]


@dataclass
class Measurement:
    """What a pass over a data set gave.

    Attributes:
        loss: the negative log-likelihood of all targets, over their number; 0 where there are none.
        targets: their number.
        examples: the examples seen, each once.
        predictions, labels, chances: where they were asked for, one row an example in the order of the data set; the
            last are the probabilities of the predictions. Rows of unequal length are filled with -100.
    """

    loss: float
    targets: int
    examples: int
    predictions: np.ndarray | None = None
    labels: np.ndarray | None = None
    chances: np.ndarray | None = None

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)


class EvaluationBatches:
    """One process's share of a data set in batches of a fixed number of examples, of like length together.

    The batches are the same whatever the number of processes, and each belongs to exactly one of them. Where they do
    not divide evenly, a process is given another's batch once more, not to be counted: under FSDP every process must
    make every forward pass.

    Iterating draws from no random generator, so that evaluating leaves the training as it was.
    """

    def __init__(
        self, dataset: Any, batch_size: int, collate: Callable[[list], Batch], rank: int = 0, world: int = 1
    ) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.collate = collate
        self.rank = rank
        self.world = world

    def __len__(self) -> int:
        """The number of batches for each process. Raises TypeError for a stream."""
        return -(-len(self.dataset) // (self.batch_size * self.world))

    def __iter__(self) -> Iterator[tuple[np.ndarray, Batch, bool]]:
        """Yields the rows' numbers, the collated batch, and whether it counts."""
        batches = self._sorted() if hasattr(self.dataset, "__len__") else self._as_they_come()
        while group := list(islice(batches, self.world)):
            counts = self.rank < len(group)
            rows, examples = group[self.rank if counts else 0]
            yield rows, self.collate(examples() if callable(examples) else examples), counts

    def _sorted(self) -> Iterator[tuple[np.ndarray, Any]]:
        order = np.argsort(-example_lengths(self.dataset), kind="stable")  # if memory is short, it shows at once
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            yield rows, lambda rows=rows: [self.dataset[int(row)] for row in rows]  # read by its own process alone

    def _as_they_come(self) -> Iterator[tuple[np.ndarray, Any]]:
        examples, start = iter(self.dataset), 0
        while batch := list(islice(examples, self.batch_size)):
            yield np.arange(start, start + len(batch)), batch
            start += len(batch)


def example_lengths(dataset: Any) -> np.ndarray:
    """Of each example the longer of input and target, (examples,)."""
    if isinstance(dataset, Dataset):
        lists = [c for c in ("input_ids", "labels") if hasattr(dataset.features.get(c), "feature")]
        lengths = [list_lengths(dataset, column) for column in lists]
        return np.max(lengths, axis=0) if lengths else np.zeros(len(dataset), np.int64)
    return np.array([_longest(dataset[i]) for i in range(len(dataset))], np.int64)


def _longest(example: Any) -> int:
    columns = [example[c] for c in ("input_ids", "labels") if c in example] if isinstance(example, dict) else []
    return max((len(c) for c in columns if hasattr(c, "__len__") and np.ndim(c)), default=0)


def measure(
    model: torch.nn.Module,
    batches: EvaluationBatches,
    device: torch.device | str = "cpu",
    *,
    predict: bool = False,
    chances: bool = False,
    on_step: Callable[[], Any] | None = None,
) -> Measurement:
    """Evaluates a model. Memory does not grow with the data, but for the predicted ids where they are asked for.

    Args:
        model: gives `.loss`, the mean over a batch's targets, and `.logits`.
        batches: what to evaluate on.
        device: where the model is.
        predict: keep the predictions (`predicted`) and labels.
        chances: keep the probabilities of the predictions too, which must be classes or tokens.
        on_step: called after each batch.
    """
    inner = getattr(model, "module", model)
    loss_only = takes_loss_only(inner) and not predict
    total, targets, examples = 0.0, 0, 0
    kept: list[tuple[Any, ...]] = []
    was_training = model.training
    model.eval()
    device = torch.device(device)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), torch.no_grad():
        torch.manual_seed(0)  # a collator or model that draws draws the same each time
        for rows, batch, counts in batches:
            batch = {name: value.to(device) for name, value in batch.items()}
            outputs = model(**batch, **({"loss_only": True} if loss_only else {}))
            if counts:
                number = count_targets(inner, batch)
                if number:
                    total += outputs.loss.item() * number  # summed in Python: not every device has float64
                targets += number
                examples += len(rows)
            if predict and "labels" in batch:
                guesses = predicted(outputs.logits, batch["labels"], inner.config).cpu().numpy()
                numbers = rows if counts else [UNCOUNTED] * len(rows)  # so that no process comes with nothing
                columns = [numbers, guesses, batch["labels"].cpu().numpy()]
                columns += [outputs.logits.float().softmax(-1).amax(-1).cpu().numpy()] if chances else []
                kept += zip(*columns, strict=True)
            if on_step is not None:
                on_step()
    model.train(was_training)
    if batches.world > 1:  # never on a device without float64 (MPS), which works alone
        sums = gather(torch.tensor([[total, targets, examples]], dtype=torch.float64, device=device)).sum(dim=0)
        total, targets, examples = sums[0].item(), int(sums[1]), int(sums[2])
    result = Measurement(total / targets if targets else 0.0, targets, examples)
    if predict:
        tables = _in_order(kept, batches.world, device)
        result.predictions, result.labels, result.chances = [*tables, None, None, None][:3]
    return result


def takes_loss_only(model: torch.nn.Module) -> bool:
    """Whether the model can compute its head at the targets alone."""
    return "loss_only" in inspect.signature(model.forward).parameters


def count_targets(model: torch.nn.Module, batch: Batch) -> int:
    """The number of labels that the loss of `model` is the mean of."""
    labels = batch.get("labels")
    if "start_positions" in batch:  # of spans, one target an example; what is not in it has none
        return int((batch["start_positions"] >= 0).sum())
    if labels is None or labels.is_floating_point():
        return len(next(iter(batch.values())))  # regression, several labels: one target an example
    if shifts_labels(model):
        labels = labels[..., 1:]
    return int((labels != IGNORED).sum())


def shifts_labels(model: torch.nn.Module) -> bool:
    """Whether the loss compares position t with label t + 1: a causal language model."""
    is_encoder_decoder = getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    return getattr(model, "loss_type", None) == "ForCausalLM" and not is_encoder_decoder


def has_vocabulary_head(model: torch.nn.Module) -> bool:
    """Whether the model predicts tokens, so that e to the loss is a perplexity."""
    return isinstance(model, PreTrainedModel) and model.get_output_embeddings() is not None


def predicted(logits: torch.Tensor, labels: torch.Tensor, config: Any) -> torch.Tensor:
    """Predictions as small as labels are, so that no logits pile up.

    Args:
        logits: (B, V) or (B, T, V).
        labels: as the model takes them.
        config: names the `problem_type`.

    Returns:
        The likeliest class or token, int64 (B,) or (B, T); 0 or 1 for each of several labels, int64 (B, V); the
        numbers themselves for a regression, (B,) or (B, V).
    """
    if not labels.is_floating_point():
        return logits.argmax(-1)
    if getattr(config, "problem_type", None) == "regression" or logits.shape[-1] == 1:
        return logits.float().view(labels.shape)
    return (logits > 0).long()


def _in_order(kept: list[tuple[Any, ...]], world: int, device: torch.device) -> list[np.ndarray]:
    """Predictions, labels and what else was kept of all processes, sorted by their rows' numbers."""
    if not kept:
        return []
    numbers, *tables = (_table(list(column)) for column in zip(*kept, strict=True))
    if world > 1:
        numbers, *tables = (_gathered(table, device) for table in (numbers, *tables))
    order = np.argsort(numbers, kind="stable")
    order = order[np.count_nonzero(numbers == UNCOUNTED) :]
    return [table[order] for table in tables]


def _table(rows: list[Any]) -> np.ndarray:
    """Rows of one kind as one array, filled with -100 where they are of unequal length."""
    if np.ndim(rows[0]) == 0:
        return np.array(rows)
    table = np.full((len(rows), max(map(len, rows))), IGNORED, rows[0].dtype)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row
    return table


def _gathered(table: np.ndarray, device: torch.device) -> np.ndarray:
    """The rows of all processes. Those that fill up the shorter tables have the number UNCOUNTED."""
    tensor = torch.as_tensor(table, device=device)
    if tensor.dim() > 1:
        tensor = pad_across_processes(tensor, dim=1, pad_index=IGNORED)
    return gather(pad_across_processes(tensor, dim=0, pad_index=UNCOUNTED)).cpu().numpy()
