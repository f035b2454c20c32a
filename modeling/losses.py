"""Losses. Axes: N targets, V vocabulary, K negatives, L steps of a path in a tree."""

import torch
from torch import nn
from transformers import PreTrainedConfig
from transformers.utils import is_torchdynamo_compiling, logging

logger = logging.get_logger(__name__)

IGNORE_INDEX = -100


def cross_entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Mean negative log-likelihood of the labels, over those that are not -100.

    With smoothing e, the target distribution is 1 - e on the label plus e/V on each token (Szegedy et al., 2016,
    section 7; "Attention Is All You Need", section 5.4).

    Args:
        logits: (N, V).
        labels: int64 of shape (N,); -100 is ignored.
        num_items_in_batch: divide the sum by this instead of the number of labels. `Trainer` gives the number of
            labels in all the micro-batches of a step, so that accumulating them equals one larger batch.
        label_smoothing: share of the probability that is spread over the vocabulary.

    Returns:
        A scalar, float32 (or float64, of such logits). It is 0, with zero gradients, if every label is ignored.
    """
    labels = labels.to(logits.device)
    real = (labels != IGNORE_INDEX).sum()
    # On another device than the CPU, looking at the number would make it wait.
    if not is_torchdynamo_compiling() and (labels.numel() == 0 or (labels.device.type == "cpu" and real == 0)):
        logger.warning_once("A batch has no labels but -100: it adds nothing to the loss.")
    total = SmoothedCrossEntropy.apply(logits, labels, label_smoothing)
    return total / _denominator(real, num_items_in_batch, total.device)


class SmoothedCrossEntropy(torch.autograd.Function):
    """Sum over the real targets of (1 - e) · -log p(label) - e · mean over the vocabulary of log p.

    The same as torch's, which writes (N, V) numbers several times over. Here the gradient is p - q for the target
    distribution q, nothing of that shape is kept but the logits as they came, and both passes go through them by as
    many rows as stay in the cache. Computed in float32, or in float64 for logits of that kind.
    """

    @staticmethod
    def forward(ctx, logits: torch.Tensor, labels: torch.Tensor, smoothing: float) -> torch.Tensor:
        real = labels != IGNORE_INDEX  # (N,)
        index = labels.where(real, 0)[:, None]  # (N, 1)
        # Nothing small is made inside the loop that outlives it: it would keep the memory around it from being reused.
        log_z = torch.empty(len(logits), dtype=torch.promote_types(logits.dtype, torch.float32), device=logits.device)
        losses = torch.empty_like(log_z)  # (N,)
        for rows in _parts(logits):
            shifted = _shifted(logits[rows])  # (rows, V)
            losses[rows] = -(1 - smoothing) * shifted.gather(1, index[rows])[:, 0]
            if smoothing:
                losses[rows] -= smoothing * shifted.mean(-1)
            log_z[rows] = shifted.exp_().sum(-1).log()
        if ctx.needs_input_grad[0]:  # an evaluation lets go of its logits at once
            ctx.save_for_backward(logits, index, real, log_z)
            ctx.smoothing = smoothing
        return (losses + log_z).where(real, 0).sum()

    @staticmethod
    def backward(ctx, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        logits, index, real, log_z = ctx.saved_tensors
        scale = (real * gradient)[:, None]  # (N, 1)
        result = torch.empty_like(logits)
        for rows in _parts(logits):
            difference = (_shifted(logits[rows]) - log_z[rows, None]).exp_()  # p - q, (rows, V)
            if ctx.smoothing:
                difference.sub_(ctx.smoothing / difference.shape[1])
            label = torch.full_like(index[rows], ctx.smoothing - 1, dtype=difference.dtype)
            result[rows] = difference.scatter_add_(1, index[rows], label).mul_(scale[rows])
        return result, None, None


def _shifted(logits: torch.Tensor) -> torch.Tensor:
    """Less the greatest of each row: of large logits, only differences keep their digits."""
    logits = _exact(logits)
    return logits - logits.amax(-1, keepdim=True)


def _exact(values: torch.Tensor) -> torch.Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _parts(logits: torch.Tensor) -> list[slice]:
    """Slices of rows. On a CPU each is about a megabyte; elsewhere, and in a compiled graph, one is all."""
    if logits.device.type != "cpu" or is_torchdynamo_compiling():
        return [slice(None)]
    rows = max(1, 2**18 // logits.shape[1])
    return [slice(start, start + rows) for start in range(0, max(1, len(logits)), rows)]


def classification_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    config: PreTrainedConfig,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """The loss of a sequence classifier: cross-entropy, binary cross-entropy per label, or squared error.

    Args:
        logits: (B, labels).
        config: its `problem_type` says which; unset, it is guessed and kept, since pipelines read from it what the
            scores mean.
        labels: int64 (B,) for "single_label_classification"; (B, labels) of 0 and 1 for "multi_label_classification";
            numbers of shape (B,) or (B, labels) for "regression".
        num_items_in_batch: as in `cross_entropy`.

    Returns:
        A float32 scalar: the mean over the labels' elements.
    """
    if config.problem_type is None:
        config.problem_type = _guess_problem_type(logits.shape[-1], labels)
    if config.problem_type == "single_label_classification":
        return cross_entropy(logits, labels.view(-1), num_items_in_batch)
    labels = labels.to(logits.device, torch.float32).view_as(logits)
    if config.problem_type == "regression":
        total = nn.functional.mse_loss(logits.float(), labels, reduction="sum")
    else:
        total = nn.functional.binary_cross_entropy_with_logits(logits.float(), labels, reduction="sum")
    return total / _denominator(labels.new_tensor(labels.numel()), num_items_in_batch, total.device)


def negative_sampling_loss(
    positive: torch.Tensor,
    negative: torch.Tensor,
    real: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Tell a target from words that were drawn (Mikolov et al., 2013, equation 4).

        -log σ(u_o·v_c) - Σ_k log σ(-u_k·v_c)

    Args:
        positive: u_o·v_c of shape (N,).
        negative: u_k·v_c of shape (N, K).
        real: bool of shape (N,): the targets that count.
        num_items_in_batch: as in `cross_entropy`.

    Returns:
        A float32 scalar: the mean over the targets, summed over the negatives of each.
    """
    loss = nn.functional.softplus(-_exact(positive)) + nn.functional.softplus(_exact(negative)).sum(-1)  # (N,)
    return loss.where(real, 0).sum() / _denominator(real.sum(), num_items_in_batch, loss.device)


def hierarchical_softmax_loss(
    scores: torch.Tensor,
    codes: torch.Tensor,
    real: torch.Tensor,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """Take each turn on the way to a word in a binary tree (Mikolov et al., 2013, equation 3; Morin and Bengio, 2005).

        -Σ_l log σ((1 - 2·code_l) · u_l·v_c)

    The two turns at a node have probabilities that sum to one, and so have all words.

    Args:
        scores: u_l·v_c at the nodes of each target's path, (N, L).
        codes: (N, L) of 0 and 1, and -1 after a path's end.
        real: bool of shape (N,): the targets that count.
        num_items_in_batch: as in `cross_entropy`.

    Returns:
        A float32 scalar: the mean over the targets.
    """
    loss = nn.functional.softplus((2 * codes - 1) * _exact(scores)).where(codes >= 0, 0).sum(-1)  # (N,)
    return loss.where(real, 0).sum() / _denominator(real.sum(), num_items_in_batch, loss.device)


def weighted_least_squares(
    predicted: torch.Tensor,
    counts: torch.Tensor,
    x_max: float,
    alpha: float,
    num_items_in_batch: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """How far scores are from the logarithm of counts, by weight (Pennington et al., 2014, equations 8 and 9).

        f(X) · (predicted - log X)²,   f(X) = min(1, (X / x_max)^alpha)

    Args:
        predicted: (N,).
        counts: X of shape (N,), above 0; a pair of another count adds nothing.
        num_items_in_batch: as in `cross_entropy`.

    Returns:
        A float32 scalar: the mean over the pairs.
    """
    counts = counts.to(predicted.device, torch.float32)
    real = counts > 0  # (N,)
    counts = counts.where(real, 1)  # a power or logarithm of the others would spoil the gradients
    weight = (counts / x_max).clamp(max=1) ** alpha
    loss = weight * (_exact(predicted) - counts.log()) ** 2  # (N,)
    return loss.where(real, 0).sum() / _denominator(real.sum(), num_items_in_batch, loss.device)


def _guess_problem_type(num_labels: int, labels: torch.Tensor) -> str:
    """transformers' rule: one label is a regression, integer labels are classes, others are several labels at once."""
    if num_labels == 1:
        return "regression"
    return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"


def _denominator(
    real: torch.Tensor, num_items_in_batch: torch.Tensor | int | None, device: torch.device
) -> torch.Tensor | int:
    """What the sum is divided by; at least 1, so that a step without any target gives 0 and not 0/0."""
    if num_items_in_batch is None:
        return real.clamp(min=1)
    if torch.is_tensor(num_items_in_batch):
        return num_items_in_batch.to(device).clamp(min=1)
    return max(num_items_in_batch, 1)
