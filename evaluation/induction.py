"""Induction heads: what lets a model foretell the second half of a text that repeats its first.

In A B ... A an induction head looks from the second A to what followed the first one, B, and copies it (Olsson et al.,
2022, "In-context Learning and Induction Heads"). Random tokens that come twice show it: nothing can foretell their
first occurrence, and nothing but the first occurrence the second.

Axes: R rows, N tokens before they are repeated, L layers, H heads, T positions, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

ROWS, LENGTH = 32, 20


@dataclass(frozen=True)
class InductionProbe:
    """Rows of random tokens that come twice.

    Attributes:
        ids: int64 of shape (R, T), T = 2N, or 2N + 1 with a start token in front.
        length: N.
    """

    ids: torch.Tensor
    length: int

    @property
    def second(self) -> range:
        """The positions of the second occurrence."""
        return range(self.ids.shape[1] - self.length, self.ids.shape[1])


@dataclass(frozen=True)
class InductionMeasures:
    """What a model does with a probe.

    Attributes:
        first, second: the mean loss of a token, in nats, where it comes first and where it comes again; but for the
            first token of each, which nothing says is coming.
        prefix_matching: float64 of shape (L, H): how much of each head's attention goes, from a token that has come
            before, to the one that followed it then (Olsson et al., 2022).
        attention: float32 of shape (L, H, T, T), of the first row.
    """

    first: float
    second: float
    prefix_matching: np.ndarray
    attention: np.ndarray

    @property
    def gain(self) -> float:
        """How much better a token is foretold where it comes again."""
        return self.first - self.second

    @property
    def best_head(self) -> tuple[int, int]:
        layer, head = np.unravel_index(np.argmax(self.prefix_matching), self.prefix_matching.shape)
        return int(layer), int(head)


def make_probe(
    tokenizer: PreTrainedTokenizerBase, rows: int = ROWS, length: int = LENGTH, seed: int = 0
) -> InductionProbe:
    """A probe of a tokenizer's ordinary tokens, in a row each at most once where there are so many.

    Raises:
        ValueError: fewer than two of either, or a tokenizer without ordinary tokens.
    """
    if rows < 1 or length < 2:
        raise ValueError(f"rows={rows}, length={length}: at least one row and two tokens are needed.")
    ordinary = np.setdiff1d(np.arange(len(tokenizer)), tokenizer.all_special_ids)
    if len(ordinary) < 2:
        raise ValueError("The tokenizer has no ordinary tokens to repeat.")
    generator = np.random.default_rng(seed)
    again = length > len(ordinary)
    drawn = np.stack([generator.choice(ordinary, length, replace=again) for _ in range(rows)])  # (R, N)
    start = [] if tokenizer.bos_token_id is None else [np.full((rows, 1), tokenizer.bos_token_id)]
    return InductionProbe(torch.from_numpy(np.concatenate([*start, drawn, drawn], axis=1)), length)


@torch.no_grad()
def measure_induction(model: PreTrainedModel, probe: InductionProbe) -> InductionMeasures:
    """Losses and attention of a causal language model on a probe; the model is left as it was.

    Args:
        model: gives logits (R, T, V), and attention weights (R, H, T, T) of each of its L layers.
        probe: ids (R, T), T = 2N, or 2N + 1 with a start token.

    Returns:
        Losses in nats, scores (L, H) and the first row's attention (L, H, T, T).

    Raises:
        ValueError: the model does not predict tokens from those before them.
    """
    if model.config.is_encoder_decoder or not model.can_generate():
        raise ValueError(f"A {type(model).__name__} does not foretell one token from those before it.")
    training, implementation = model.training, model.config._attn_implementation
    model.eval()
    try:
        model.set_attn_implementation("eager")  # the fused kernels never hold the weights
        ids = probe.ids.to(model.device)
        outputs = model(input_ids=ids, output_attentions=True, use_cache=False)
    finally:
        model.train(training)
        model.set_attn_implementation(implementation)
    logits = outputs.logits[:, :-1].float().transpose(1, 2)  # (R, V, T - 1)
    losses = nn.functional.cross_entropy(logits, ids[:, 1:], reduction="none").cpu().numpy()  # of tokens 1, 2, ...
    second = probe.second
    before = range(second.start - probe.length, second.start)
    first_losses, second_losses = (losses[:, part.start : part.stop - 1] for part in (before, second))
    weights = torch.stack(outputs.attentions).float().cpu().numpy()  # (L, R, H, T, T)
    looks = np.array(second[:-1])
    followed = looks - probe.length + 1  # what came after the token where it came first
    matching = weights[:, :, :, looks, followed].mean(axis=(1, 3))  # (L, H)
    return InductionMeasures(
        float(first_losses.mean()), float(second_losses.mean()), matching.astype(np.float64), weights[:, 0]
    )


def record_of(measures: InductionMeasures, step: int) -> dict[str, Any]:
    """A point of a training, as plain numbers."""
    return {
        "step": step,
        "first": measures.first,
        "second": measures.second,
        "prefix_matching": np.round(measures.prefix_matching, 6).tolist(),
    }
