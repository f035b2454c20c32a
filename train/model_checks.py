"""The checks of a recipe's model."""

import dataclasses
import logging
from typing import Any

from regard.train.data_checks import LENGTHS
from regard.train.sections import (
    CONFIG_CLASSES,
    DENOISING,
    EMBEDDING_KEYS,
    REGRESSION,
    START_KEYS,
    VECTOR_MODEL_KEYS,
    WEIGHTLESS,
    WORD_VECTORS,
    WRITING,
    Recipe,
    RecipeError,
)
from regard.train.value_checks import check_choice, check_keys, typed

logger = logging.getLogger(__name__)


def check_model(recipe: Recipe) -> None:
    """Refuses fields that the model's config does not have or take, and lengths beyond its positions."""
    tokenizer = recipe.tokenizer
    config_class, hints = config_fields(recipe.model["type"])
    if recipe.task == "sequence-classification":
        hints["num_labels"] = int  # a property of every config, not a field; taken from the data where it is not given
    fields = set(hints)
    hints = (VECTOR_MODEL_KEYS if recipe.task == WORD_VECTORS else EMBEDDING_KEYS | START_KEYS) | hints
    given = {key: value for key, value in recipe.model.items() if key != "type"}
    check_keys(given, hints, "model.", "key")
    given = {key: typed(value, hints[key], f"model.{key}") for key, value in given.items()}
    begun = recipe.task != WORD_VECTORS and given.get("start_from") is not None
    if given.get("freeze_embeddings") and given.get("embeddings") is None and not begun:
        raise RecipeError(
            "model.freeze_embeddings: true is for vectors that are there already: name them in model.embeddings."
        )
    recipe.model = {"type": recipe.model["type"], **given}
    given = {key: value for key, value in given.items() if key in fields}
    if begun:  # what the weights have settled is compared with them when they are read
        given = {key: value for key, value in given.items() if key in WEIGHTLESS}
    sized = tokenizer.path is None and recipe.task != REGRESSION
    if sized and given.get("vocab_size", tokenizer.vocab_size) != tokenizer.vocab_size:
        raise RecipeError(
            f"model.vocab_size: {given['vocab_size']} differs from tokenizer.vocab_size, {tokenizer.vocab_size}: "
            "leave it out, and it is the size of the trained vocabulary."
        )
    if given.get("num_attention_heads", 1) < 1:
        raise RecipeError(f"model.num_attention_heads: {given['num_attention_heads']} is less than 1.")
    if "hidden_act" in given:
        check_choice(given["hidden_act"], _activations(), "model.hidden_act")
    try:
        has_tokens = recipe.task not in (WORD_VECTORS, REGRESSION)
        config = config_class(**({"vocab_size": tokenizer.vocab_size} if has_tokens else {}) | given)
    except Exception as error:  # the library's strict configs raise classes of their own, with the sentence as cause
        raise RecipeError(f"model: {' '.join(str(error.__cause__ or error).split())}") from error
    if recipe.model["type"] == "word2vec":
        _leave_out_what_is_not_trained(recipe.model)
    if getattr(config, "position_embedding_type", None) == "learned" and "max_position_embeddings" in given:
        from regard.train.building import longest_sequence

        keys = [f"data.{name}" for name in LENGTHS.get(recipe.task, ("block_size",))]
        for key in [*keys, "evaluation.max_new_tokens"] if recipe.task in WRITING else keys:
            section, name = key.split(".")
            length = getattr(getattr(recipe, section), name)
            if recipe.task == REGRESSION and 2 * length > config.max_position_embeddings:
                raise RecipeError(
                    f"{key}: {length} examples take {2 * length} positions, more than model.max_position_embeddings, "
                    f"{config.max_position_embeddings}, and learned positions end there."
                )
            if (
                recipe.task == DENOISING
                and (longest := longest_sequence(recipe)) > config.max_position_embeddings >= length
            ):
                raise RecipeError(
                    f"{key}: {length} tokens to read make targets of {longest}, more than model."
                    f"max_position_embeddings, {config.max_position_embeddings}, and learned positions end there."
                )
            if length > config.max_position_embeddings:
                raise RecipeError(
                    f"{key}: {length} is more than model.max_position_embeddings, {config.max_position_embeddings}, "
                    "and learned positions end there."
                )


def _leave_out_what_is_not_trained(model: dict[str, Any]) -> None:
    """Settings of another architecture or objective of word2vec, as a recipe has them that was changed to this one."""
    others = []
    if model.get("objective") == "hierarchical-softmax":
        others += ["num_negatives", "negative_exponent"]
    if model.get("architecture", "skip-gram") == "skip-gram":
        others += ["cbow_mean"]
    if others := [key for key in others if key in model]:
        names = ", ".join(f"model.{key}" for key in others)
        logger.warning("These are of another architecture or objective, and not used: %s.", names)
    for key in others:
        del model[key]


def config_fields(model_type: str) -> tuple[type, dict[str, Any]]:
    """The config class of a model type, and the types of the fields that it and its bases in `regard` declare."""
    from transformers import PreTrainedConfig

    import regard.modeling

    config_class = getattr(regard.modeling, CONFIG_CLASSES[model_type])
    hints: dict[str, Any] = {}
    for base in reversed(config_class.__mro__):
        if issubclass(base, PreTrainedConfig) and base is not PreTrainedConfig:
            hints |= {name: hint for name, hint in vars(base).get("__annotations__", {}).items()}
    names = {f.name for f in dataclasses.fields(config_class) if f.init}
    return config_class, {name: hint for name, hint in hints.items() if name in names}


def _activations() -> list[str]:
    from transformers.activations import ACT2FN

    return sorted(ACT2FN)
