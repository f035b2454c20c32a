"""Every tensor of a checkpoint finds its place in our model, or a reason why it has none."""

import re
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.modeling.positions import sinusoidal_table
from regard.train.convert_families import NO_HEAD, Family
from regard.train.convert_source import ConversionError
from regard.train.convert_weights import Weights, marian_stream_order, without_first_positions

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
        ConversionError: some of a matrix's parts are missing, or a table is not what the configuration says.
    """
    kept, names, left_out, notes = {}, {}, {}, []
    for name, weight in weights.items():
        known = family.canonical(name)
        reason = _reason_to_leave(known, weight, family, own_head, head)
        if reason is not None:
            left_out[name] = reason
        elif known in kept:
            raise ConversionError(f"the weights hold {known} twice: {names[known]} and {name}.")
        else:
            kept[known], names[known] = weight, name
    for known, reason in _without_use(kept, family, config, head).items():
        left_out[names[known]] = reason
        del kept[known]
    kept.pop(SHARED, None)  # its numbers are in the tables now
    tied = _is_one_matrix(kept, family, config, head)
    if config.tie_word_embeddings and not tied:
        notes.append("The source says tie_word_embeddings, and its tables differ: they stay apart, and train apart.")
    try:
        ours = family.weights(kept)
    except ValueError as error:  # of a matrix that is not whole
        raise ConversionError(f"the weights are not whole: {error}") from error
    if (first := family.first_position(config)) > 0:
        ours = without_first_positions(ours, first)
        notes.append(f"The first {first} rows of each position table are left out: no token stands there.")
    if family.name == "Marian":
        notes.append(
            "The units of the residual stream stand in another order, so that sines and cosines alternate: hidden "
            "states are the library's in that order, logits are the same."
        )
    return SortedTensors(ours, len(weights) - len(left_out), left_out, tied, BIAS in kept, notes)


def _reason_to_leave(known: str, weight: torch.Tensor, family: Family, own_head: str, head: str) -> str | None:
    """Why a tensor has no place in the result, or None."""
    if family.is_buffer(known):
        if family.name == "Marian":
            _check_sinusoids(known, weight)
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


def _check_sinusoids(name: str, table: torch.Tensor) -> None:
    positions, width = table.shape
    expected = sinusoidal_table(positions, width)[:, torch.argsort(marian_stream_order(width))]
    if not torch.allclose(table.float(), expected, rtol=0, atol=2 * torch.finfo(table.dtype).eps):
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
