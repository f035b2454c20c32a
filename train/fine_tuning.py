"""How weights that are there already are trained further: a frozen backbone, rates by layer, weights of classes, and
an end where nothing gets better. What a recipe says of them is checked in `regard.train.fine_tuning_checks`."""

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from transformers import PreTrainedModel, TrainerCallback

from regard.evaluation.naming import nearest
from regard.train.fine_tuning_checks import BALANCED
from regard.train.masking import IGNORED
from regard.train.sections import RecipeError

LAYER = re.compile(r"layers\.(\d+)\.")


# --- the backbone ----------------------------------------------------------------------------------------------------


def in_backbone(name: str, model: PreTrainedModel) -> bool:
    """Whether a weight of this name belongs to the body of a model, and not to its head."""
    if hasattr(model, model.base_model_prefix):
        return name.startswith(f"{model.base_model_prefix}.")
    return not name.startswith("classifier.")  # a deep averaging network


def freeze_backbone(model: PreTrainedModel) -> None:
    """Lets the weights of the head alone be trained; one that is tied to the body stays as it is.

    Raises:
        RecipeError: there is nothing else than the body.
    """
    names = [name for name, _ in model.named_parameters() if not in_backbone(name, model)]
    if not names:
        raise RecipeError(
            f"training.freeze_backbone: all weights of a {type(model).__name__} are those of its backbone: nothing "
            "would be trained."
        )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not in_backbone(name, model))


def trained_parameters(model: PreTrainedModel) -> int | None:
    """How many weights are trained, None where all are."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return None if trained == model.num_parameters() else trained


# --- rates by layer --------------------------------------------------------------------------------------------------


def depth(name: str, model: PreTrainedModel) -> int:
    """How far a weight is from the output: 0 for the head, 1 for the top layer, L for the lowest, L + 1 for
    embeddings.

    A norm after the last layer counts as that layer. In an encoder-decoder the encoder's layers come below the
    decoder's, so that L is their sum, and what projects the encoder's output for all layers counts as the lowest of
    the decoder.

    Raises:
        ValueError: a weight of the body that is in no layer.
    """
    config = model.config
    below = config.encoder_layers if config.is_encoder_decoder else 0
    layers = below + (config.decoder_layers if below else config.num_hidden_layers)
    if not in_backbone(name, model):
        return 0
    if "embeddings." in name:
        return layers + 1
    first, last = (0, below or layers) if not below or "encoder." in name else (below, layers)
    if found := LAYER.search(name):
        return layers - first - int(found[1])
    if "cross_kv_proj." in name:
        return layers - below
    if ".norm." in name or name.startswith("norm."):
        return layers - last + 1
    raise ValueError(f"training.layer_lr_decay: {name} of a {type(model).__name__} is in no layer.")


def spread_rates(optimizer: torch.optim.Optimizer, model: PreTrainedModel, decay: float) -> None:
    """Parts the groups of an optimiser by layer, in place: a weight at depth k is trained at decay^k times the rate
    (Howard and Ruder, 2018, section 3.2; here as in ELECTRA, whose head has the whole rate).

    The first group is the head's, whose rate is what Trainer logs.
    """
    depths = {id(parameter): depth(name, model) for name, parameter in model.named_parameters()}
    groups: list[tuple[int, dict[str, Any]]] = []
    for group in optimizer.param_groups:
        rows = defaultdict(list)
        for row, parameter in enumerate(group["params"]):
            rows[depths[id(parameter)]].append(row)
        for level, chosen in rows.items():
            part = group | {"params": [group["params"][row] for row in chosen], "lr": group["lr"] * decay**level}
            if "parts" in group:  # of Muon: the maps in each of the matrices
                part["parts"] = [group["parts"][row] for row in chosen]
            groups.append((level, part))
    optimizer.param_groups = [group for _, group in sorted(groups, key=lambda pair: pair[0])]


# --- weights of classes ----------------------------------------------------------------------------------------------


class WeightedCrossEntropy:
    """Cross-entropy in which each class counts by its weight, as `compute_loss_func` of Trainer.

        Σ w(y) · -log p(y) / Σ w(y)

    over the targets of a whole step: `RegardTrainer` sums the denominator over all its batches and processes. It is
    the loss of training alone; an evaluation measures the plain negative log-likelihood.
    """

    def __init__(self, weights: torch.Tensor) -> None:
        """
        Args:
            weights: (classes,), above 0.
        """
        self.weights = weights.float()

    def __call__(
        self, outputs: Any, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None
    ) -> torch.Tensor:
        """A float32 scalar for logits (..., classes) and labels (...), -100 for what does not count; 0 without any
        target.

        Args:
            num_items_in_batch: the denominator: what `total` gives for all labels of the step.
        """
        logits = outputs["logits"].flatten(0, -2).float()  # (N, classes)
        labels = labels.flatten().to(logits.device)  # (N,)
        weights = self.weights.to(logits.device)
        loss = torch.nn.functional.cross_entropy(logits, labels, weights, ignore_index=IGNORED, reduction="sum")
        total = self.total(labels) if num_items_in_batch is None else torch.as_tensor(num_items_in_batch)
        total = total.to(loss.device)
        return loss / torch.where(total > 0, total, torch.ones_like(total))

    def total(self, labels: torch.Tensor) -> torch.Tensor:
        """The sum of the weights of all labels that count."""
        return self.weights.to(labels.device)[labels[labels != IGNORED]].sum()


def class_weights(wanted: str | dict[str, float], labels: Sequence[str], dataset: Any) -> torch.Tensor:
    """The weight of each label.

    Args:
        wanted: "balanced", or weights by name; a label that is left out weighs 1.
        labels: the names of the labels, by number.
        dataset: the prepared training split, whose `labels` are counted for "balanced": N targets, n of a label, and K
            labels that occur give it N / (K n), so that all of them together weigh the same.

    Raises:
        RecipeError: a name that is no label's.
    """
    if wanted == BALANCED:
        counts = torch.from_numpy(_label_counts(dataset, len(labels))).double()
        weights = counts.sum() / (counts.count_nonzero() * counts)
        return weights.where(counts > 0, 1).float()
    for name in wanted:
        if name not in labels:
            raise RecipeError(f"training.class_weights: '{name}' is no label of data.train{nearest(name, labels)}")
    return torch.tensor([wanted.get(label, 1.0) for label in labels])


def _label_counts(dataset: Any, number: int) -> np.ndarray:
    counts = np.zeros(number, np.int64)
    for table in dataset.select_columns("labels").with_format("arrow").iter(10_000):
        column = table["labels"].combine_chunks()
        values = (pc.list_flatten(column) if hasattr(column.type, "value_type") else column).to_numpy()
        counts += np.bincount(values[values != IGNORED], minlength=number)
    return counts


# --- an end ----------------------------------------------------------------------------------------------------------


class StopWithoutProgress(TrainerCallback):
    """Ends a training when the last `patience` evaluations brought nothing better than the best before them.

    It goes by the log of the run, so that one that was stopped and goes on ends where the whole run ends.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._stop_if_due(args, state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._stop_if_due(args, state, control)

    def _stop_if_due(self, args: Any, state: Any, control: Any) -> None:
        name = f"eval_{args.metric_for_best_model.removeprefix('eval_')}"
        values = [entry[name] for entry in state.log_history if name in entry and entry.get("step")]
        best = 0
        for place, value in enumerate(values):
            if value > values[best] if args.greater_is_better else value < values[best]:
                best = place
        if len(values) - 1 - best >= self.patience:
            if args.process_index == 0:
                number = f"{self.patience} evaluations" if self.patience > 1 else "the last evaluation"
                measure = name.removeprefix("eval_")
                print(f"stops at step {state.global_step}: {measure} was no better in {number}", file=sys.stderr)
            control.should_training_stop = True
