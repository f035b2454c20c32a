"""Every tensor of a checkpoint finds its place in our model, or a reason why it has none."""

import re
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.modeling.positions import sinusoidal_table
from regard.train.convert_families import NO_HEAD, Family
from regard.train.convert_source import ConversionError
from regard.train.convert_weights import Weights, marian_stream_order, without_first_positions
from regard.train.convert_whole import Shapes, check_finite, check_whole, expected_shapes

# What a head's tensors are called, in any of the library's classes.
HEAD_TENSORS = {
    NO_HEAD: r"(?!)",
    "masked-lm": r"cls\.predictions\.|lm_head\.|vocab_(transform|layer_norm|projector)\.",
    "causal-lm": r"lm_head\.",
    "seq2seq-lm": r"lm_head\.|final_logits_bias$",
    "sequence-classification": r"(pre_)?classifier\.|score\.",
    "token-classification": r"classifier\.",
    "question-answering": r"qa_outputs\.",
}
OUTPUT_TABLES = (
    "lm_head.weight",
    "lm_head.decoder.weight",
    "cls.predictions.decoder.weight",
    "vocab_projector.weight",
)
LANGUAGE_MODELS = ("masked-lm", "causal-lm", "seq2seq-lm")
SHARED = "model.shared.weight"  # of encoder-decoders, which the tables of both sides are names of
BIAS = "final_logits_bias"
# Two names of one bias: either is enough.
SAME_BIAS = {
    "cls.predictions.bias": "cls.predictions.decoder.bias",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
    "lm_head.bias": "lm_head.decoder.bias",
    "lm_head.decoder.bias": "lm_head.bias",
}


@dataclass
class SortedTensors:
    """A checkpoint's tensors.

    Attributes:
        weights: under our names, the backbone's with `model.` in front.
        used: how many of the checkpoint's they hold.
        left_out: the others, and why.
        tied: whether our embeddings and output layer are one matrix.
        output_bias: whether our output layer has a bias.
        notes: what else is to be known, a sentence each.
    """

    weights: Weights
    used: int
    left_out: dict[str, str]
    tied: bool
    output_bias: bool
    notes: list[str] = field(default_factory=list)


def sort_tensors(weights: Weights, family: Family, config: Any, own_head: str, head: str) -> SortedTensors:
    """Gives each tensor of a checkpoint its place.

    Args:
        weights: under the names of the checkpoint.
        family: its architecture.
        config: the library's configuration.
        own_head: that of the checkpoint.
        head: that of the result.

    Raises:
        ConversionError: the weights are not those of the library's class, or hold numbers that are not finite.
    """
    kept, names, left_out, notes = {}, {}, {}, []
    for name, weight in weights.items():
        known = family.canonical(name)
        if family.name == "Marian" and family.is_buffer(known):
            _check_sinusoids(name, weight)
        reason = _reason_to_leave(known, family, own_head, head)
        if reason is not None:
            left_out[name] = reason
        elif known in kept:
            raise ConversionError(f"the weights hold one tensor under two names: {names[known]} and {name}.")
        else:
            kept[known], names[known] = weight, name
    for known, reason in _without_use(kept, family, config, head).items():
        left_out[names[known]] = reason
        del kept[known]
    shared_head = head if head == own_head else NO_HEAD  # another one is drawn at random, and need not be there
    expected = expected_shapes(family, config, shared_head)
    excess = [known for known in names if known in kept and known not in expected and known != SHARED]
    for known in [known for known in excess if known.endswith(".bias") and not kept[known].any()]:
        left_out[names[known]] = "it is zero, and adds nothing"
        del kept[known]
        excess.remove(known)
    missing = _missing(kept, expected, family, config, own_head, head)
    check_whole(weights, expected, missing, [names[known] for known in excess], family, config, shared_head)
    check_finite({name: weights[name] for known, name in names.items() if known in kept})
    kept.pop(SHARED, None)  # its numbers are in the tables now
    tied = _is_one_matrix(kept, family, config, head)
    if config.tie_word_embeddings and not tied:
        notes.append("The source says tie_word_embeddings, and its tables differ: they stay apart, and train apart.")
    ours = family.weights(kept)
    if (first := family.first_position(config)) > 0:
        ours = without_first_positions(ours, first)
        notes.append(f"The first {first} rows of each position table are left out: no token stands there.")
    if family.name == "Marian":
        notes.append(
            "The units of the residual stream stand in another order, so that sines and cosines alternate: hidden "
            "states are the library's in that order, logits are the same."
        )
    return SortedTensors(ours, len(weights) - len(left_out), left_out, tied, BIAS in kept, notes)


def _reason_to_leave(known: str, family: Family, own_head: str, head: str) -> str | None:
    """Why a tensor has no place in the result, or None."""
    if family.is_buffer(known):
        return "it follows from the configuration"
    if known.startswith(f"{family.prefix}pooler."):
        if family.name == "BERT" and head == "sequence-classification":
            return None  # the head's first matrix
        return "the pooler, which of ours only BERT's head that classifies texts has"
    if known.startswith(family.prefix):
        return None
    if re.match(HEAD_TENSORS[head], known) and head == own_head:
        return None
    return "a head that the result does not have"


def _missing(kept: Weights, expected: Shapes, family: Family, config: Any, own_head: str, head: str) -> list[str]:
    """Names of the library's class that the result needs, and that are not there."""
    tables = _tables(family, config, head)
    without = [] if any(name in kept for name in tables) or not config.tie_word_embeddings else tables
    found = [*without[:1]]  # of one matrix, its most usual name
    for name in expected:
        # A pooler is a head's, here: where the source has another head, it may be drawn at random as well.
        is_optional = name in (SHARED, BIAS) or (name.startswith(f"{family.prefix}pooler.") and head != own_head)
        is_there = name in kept or name in without or any(SAME_BIAS.get(name) in names for names in (kept, found))
        if not is_optional and not is_there and _reason_to_leave(name, family, own_head, head) is None:
            found.append(name)
    return found


def _check_sinusoids(name: str, table: torch.Tensor) -> None:
    is_table = table.dim() == 2 and table.shape[1] % 2 == 0 and table.is_floating_point()
    if is_table:
        positions, width = table.shape
        expected = sinusoidal_table(positions, width)[:, torch.argsort(marian_stream_order(width))]
        is_table = torch.allclose(table.float(), expected, rtol=0, atol=2 * torch.finfo(table.dtype).eps)
    if not is_table:
        raise ConversionError(f"{name} is not the table of sinusoids that the library computes.")


def _without_use(kept: Weights, family: Family, config: Any, head: str) -> dict[str, str]:
    """Names that the library's model would not read, and why. Fills those of one matrix that is there once."""
    tables = _tables(family, config, head)
    present = [name for name in tables if name in kept]
    if config.tie_word_embeddings and present:
        for name in tables:
            kept.setdefault(name, kept[present[0]])
    found = {}
    if SHARED in kept and not any(_same(kept.get(name), kept[SHARED]) for name in tables if name != SHARED):
        found[SHARED] = "each table has numbers of its own"
    for bias in ("cls.predictions.", "lm_head."):
        if f"{bias}bias" in kept and not _same(
            kept.get(f"{bias}decoder.bias", kept[f"{bias}bias"]), kept[f"{bias}bias"]
        ):
            found[f"{bias}bias"] = f"{bias}decoder.bias is what is added"
    if BIAS in kept and not kept[BIAS].any():
        found[BIAS] = "it is zero, and adds nothing"
    return found


def _tables(family: Family, config: Any, head: str) -> list[str]:
    """The names of one matrix, without the output layer's where the head has none."""
    names = family.tied(config)
    return [name for name in names if head in LANGUAGE_MODELS or name not in OUTPUT_TABLES]


def _is_one_matrix(kept: Weights, family: Family, config: Any, head: str) -> bool:
    """Whether ours can be one matrix: tables that differ stay apart, whatever the configuration says, as in the
    library."""
    tables = [name for name in _tables(family, config, head) if name != SHARED]
    if family.base == "TransformerModel":  # its encoder may have a table of its own
        tables += ["model.encoder.embed_tokens.weight"]
    return bool(config.tie_word_embeddings) and all(_same(kept.get(name), kept.get(tables[0])) for name in tables)


def _same(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return one is other or torch.equal(one, other)
