"""A checkpoint beside the library's class: every tensor there, none too many, each of its shape, its numbers finite.

What does not fit is said in the names of the source's file, which its owner knows; ours mean nothing to them.
"""

import copy
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import transformers

from regard.train.convert_families import Family, library_class
from regard.train.convert_source import CONFIG, ConversionError
from regard.train.convert_weights import Weights

Shapes = dict[str, tuple[int, ...]]
NAMED = 3  # tensors in a message; the others are counted
# What names of layers begin with, as `Family.canonical` gives them, and the field that says how many there are.
LAYERS = {
    "bert.encoder.layer.": "num_hidden_layers",
    "roberta.encoder.layer.": "num_hidden_layers",
    "distilbert.transformer.layer.": "n_layers",
    "transformer.h.": "n_layer",
    "model.layers.": "num_hidden_layers",
    "model.encoder.layers.": "encoder_layers",
    "model.decoder.layers.": "decoder_layers",
}
# Fields that are one side of a matrix; where one is wrong, all its matrices are, and the field is the cause.
SIZES = (
    "vocab_size", "max_position_embeddings", "type_vocab_size", "hidden_size", "intermediate_size", "dim",
    "hidden_dim", "n_embd", "n_inner", "n_positions", "d_model", "encoder_ffn_dim", "decoder_ffn_dim", "num_labels",
)  # fmt: skip


def expected_shapes(family: Family, config: Any, head: str) -> Shapes:
    """The tensors of the library's class with a head, under the names that `Family.canonical` gives.

    Raises:
        ConversionError: the library builds no such model.
    """
    name = library_class(config.model_type, head)
    try:
        with torch.device("meta"):  # shapes alone: no memory, however large it is
            model = getattr(transformers, name)(copy.deepcopy(config))
    except Exception as error:  # whatever a wrong number makes it meet
        raise ConversionError(f"{CONFIG} describes no {name} that can be built: {one_line(error)}") from error
    return {family.canonical(key): tuple(weight.shape) for key, weight in model.state_dict().items()}


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def check_whole(weights: Weights, expected: Shapes, missing: Sequence[str], excess: Sequence[str], family: Family,
                config: Any, head: str) -> None:  # fmt: skip
    """Sees that a checkpoint holds the tensors of the library's class, in their shapes.

    Args:
        weights: the checkpoint, under the names of its file.
        expected: see `expected_shapes`.
        missing: those of the class that are needed and are not there, as `Family.canonical` calls them.
        excess: those that the class does not have, as the file calls them.
        family: the architecture.
        config: the library's configuration.
        head: that of the class.

    Raises:
        ConversionError: something is missing, has no place, or has another shape.
    """
    known = [family.canonical(name) for name in weights]
    spelled = _spelling(family, weights)
    begin = f"the weights are not those of the {library_class(config.model_type, head)} that {CONFIG} describes: "
    if expected.keys().isdisjoint(known):
        first = spelled(next(iter(expected)))
        raise ConversionError(f"{begin}they hold none of its tensors, such as {first}, but {_named(list(weights))}.")
    phrases = []
    for stem, field in LAYERS.items():
        phrase, in_layers = _layers(stem, field, known, expected, config, spelled)
        if phrase:
            phrases.append(phrase)
            missing = [name for name in missing if not name.startswith(in_layers)]
            excess = [name for name in excess if not family.canonical(name).startswith(in_layers)]
    if missing:
        phrases.append(f"{_named([spelled(name) for name in missing])} {_is(missing)} missing")
    if excess:
        phrases.append(f"{_named(excess)} {'have' if excess[1:] else 'has'} no place in it, and would be lost")
    if phrases := [*phrases, *_shapes(weights, expected, family, config)]:
        raise ConversionError(f"{begin}{'; '.join(phrases)}.")


def _layers(stem: str, field: str, known: Iterable[str], expected: Shapes, config: Any,
            spelled: Callable[[str], str]) -> tuple[str, tuple[str, ...]]:  # fmt: skip
    """What is to be said of whole layers that are missing or too many, and what their tensors' names begin with."""
    held, wanted = _by_layer(stem, known), _by_layer(stem, expected)
    missing = sorted(wanted.keys() - held.keys())
    parts = wanted.get(0, set())  # of a layer; one tensor too many makes no layer
    beyond = sorted(layer for layer in held.keys() - wanted.keys() if held[layer] >= parts)
    if not missing and not beyond:
        return "", ()
    count = len(held.keys() & (wanted.keys() | set(beyond)))
    found = [spelled(f"{stem}{layer}") for layer in missing or beyond]
    said = f"{_named(found)} {_is(found)} missing" if missing else f"{_named(found)} would be lost"
    ends = tuple(f"{stem}{layer}." for layer in [*missing, *beyond])
    number = getattr(config, field, len(wanted))
    return f"{field}={number}, and they hold {count} layer{'s' * (count != 1)}, so that {said}", ends


def _by_layer(stem: str, names: Iterable[str]) -> dict[int, set[str]]:
    """The names' ends, by the number of their layer."""
    found: dict[int, set[str]] = {}
    for name in names:
        if match := re.match(rf"{re.escape(stem)}(\d+)\.(.+)", name):
            found.setdefault(int(match[1]), set()).add(match[2])
    return found


def _shapes(weights: Weights, expected: Shapes, family: Family, config: Any) -> list[str]:
    """A phrase on the tensors of another shape, and the field that may be wrong instead; or none."""
    wrong = [
        (name, tuple(weight.shape), expected[family.canonical(name)])
        for name, weight in weights.items()
        if tuple(weight.shape) != expected.get(family.canonical(name), tuple(weight.shape))
    ]
    if not wrong:
        return []
    name, shape, wanted = wrong[0]
    differing = {size for each, size in zip(shape, wanted, strict=False) if each != size}
    fields = [f"{field}={size}" for field in SIZES for size in differing if getattr(config, field, None) == size]
    cause = f" ({', '.join(fields)})" if fields else ""
    more = f", and {len(wrong) - 1} more have others too" if wrong[1:] else ""
    return [f"{name} has the shape {shape}, and {CONFIG} asks for {wanted}{cause}{more}"]


def check_finite(weights: Weights) -> None:
    """Sees that all numbers are finite: with others in it a model computes nothing.

    Args:
        weights: those that are used, under the names of the file.

    Raises:
        ConversionError: some are not.
    """
    wrong = [name for name, weight in weights.items() if not weight.isfinite().all()]
    if wrong:
        first = weights[wrong[0]]
        count = first.numel() - int(first.isfinite().sum())
        kinds = [kind for kind, found in (("NaN", first.isnan()), ("infinity", first.isinf())) if found.any()]
        more = f", and so it is in {len(wrong) - 1} more" if wrong[1:] else ""
        raise ConversionError(
            f"the weights are broken: {count:,} of the {first.numel():,} numbers in {wrong[0]} are not finite "
            f"({' and '.join(kinds)}){more}."
        )


def _spelling(family: Family, names: Weights) -> Callable[[str], str]:
    """How the file would write a name that it does not hold: with the backbone's prefix or not, with norms of 2018."""
    is_bare = any(name.startswith(family.parts) for name in names)
    is_old = any(name.endswith(("LayerNorm.gamma", "LayerNorm.beta")) for name in names)

    def spelled(name: str) -> str:
        name = name.removeprefix(family.prefix) if is_bare else name
        if is_old:
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        return name

    return spelled


def _named(names: Sequence[str]) -> str:
    """The first of some names, and how many others there are."""
    listed, more = list(names[:NAMED]), len(names) - NAMED
    if not names[1:]:
        return names[0]
    last = f"{more} more" if more > 0 else listed.pop()
    return f"{', '.join(listed)} and {last}"


def _is(names: Sequence[str]) -> str:
    return "are" if names[1:] else "is"
