"""The checks of a recipe: each refuses what cannot work with one sentence that names the key and what would be right.

The classes that know the keys of `model` and `training` are imported when a recipe is checked, so that importing this
module costs nothing.
"""

import dataclasses
import re
from typing import Any

from regard.evaluation.naming import either
from regard.train.data_checks import check_data
from regard.train.evaluation_checks import check_evaluation
from regard.train.model_checks import check_model
from regard.train.sections import (
    CONFIG_CLASSES,
    TASKS,
    WORD_VECTORS,
    DataSection,
    EvaluationSection,
    Recipe,
    RecipeError,
    TokenizerSection,
)
from regard.train.tokenizer_checks import check_tokenizer
from regard.train.training_checks import check_training
from regard.train.value_checks import build, check_choice, check_keys, typed

# What the sections hold for other tasks alone.
NOT_FOR_WORDS = {
    "data": (
        "target_language", "max_tokens_per_batch", "max_source_length", "max_target_length", "max_length",
        "block_size", "packing", "mask_probability", "bpe_dropout", "label_all_pieces", "split_by", "split_seed",
    ),
    "evaluation": (
        "num_beams", "length_penalty", "max_new_tokens", "no_repeat_ngram_size", "batch_size", "average_checkpoints",
        "samples", "errors", "group_references", "stride", "pseudo_perplexity_rows",
    ),
}  # fmt: skip


def check_recipe(values: dict[str, Any]) -> Recipe:
    """The recipe that plain sections describe.

    Raises:
        RecipeError: one sentence about the first thing that cannot work.
    """
    for section in ("model", "tokenizer", "data", "training", "evaluation"):
        if values.get(section) is None:
            values[section] = {}
        if not isinstance(values[section], dict):
            raise RecipeError(f"{section}: {values[section]!r} is not a section with keys of its own.")
    check_keys(values, [f.name for f in dataclasses.fields(Recipe)], "", "section")
    if "task" not in values:
        raise RecipeError(f"The recipe names no task: it is {either(TASKS)}.")
    for key in ("name", "task"):
        values[key] = typed(values[key], str, key)
    if not re.fullmatch(r"\w[\w.-]*", values["name"]):
        raise RecipeError(f"name: '{values['name']}' is no name for a folder: use letters, digits, '-', '_' and '.'.")
    check_choice(values["task"], TASKS, "task")

    if values["task"] == WORD_VECTORS:
        _settle_words(values["tokenizer"], values["model"])
    for key in ("train", "validation", "test"):
        held_out = values["data"].get(key)
        if isinstance(held_out, int) and not isinstance(held_out, bool):
            values["data"][key] = str(held_out)  # data.validation=1000: so many rows of the training data
    recipe = Recipe(
        name=values["name"],
        task=values["task"],
        model=dict(values["model"]),
        tokenizer=build(TokenizerSection, values["tokenizer"], "tokenizer"),
        data=build(DataSection, values["data"], "data"),
        training=dict(values["training"]),
        evaluation=build(EvaluationSection, values["evaluation"], "evaluation"),
    )
    _check_task(recipe)
    if recipe.task == WORD_VECTORS:
        _check_not_for_words(recipe)
    check_tokenizer(recipe)
    check_data(recipe)
    check_evaluation(recipe)
    check_training(recipe)
    check_model(recipe)
    return recipe


def _check_task(recipe: Recipe) -> None:
    task, model_type = TASKS[recipe.task], recipe.model.get("type")
    if model_type is None:
        raise RecipeError(f"model.type is missing: the task {recipe.task} takes {either(task.model_types)}.")
    check_choice(typed(model_type, str, "model.type"), CONFIG_CLASSES, "model.type")
    if model_type not in task.model_types:
        raise RecipeError(f"model.type: the task {recipe.task} takes {either(task.model_types)}, not '{model_type}'.")


def _settle_words(tokenizer: dict[str, Any], model: dict[str, Any]) -> None:
    """What word vectors ask of the tokenizer: words, as many as there are if nothing else is said."""
    plain = TokenizerSection()
    for key in ("min_frequency", "path", "max_texts"):
        if tokenizer.get(key, getattr(plain, key)) != getattr(plain, key):
            end = "model.min_count says how often a word must occur" if key == "min_frequency" else "leave it out"
            raise RecipeError(f"tokenizer.{key} is not for word vectors, whose words are those of the text: {end}.")
    if tokenizer.setdefault("kind", "word") != "word":
        raise RecipeError(f"tokenizer.kind: word vectors take 'word', not {tokenizer['kind']!r}.")
    tokenizer.setdefault("vocab_size", None)
    for key in ("vocab_size", "vocabulary_bytes", "huffman_depth"):
        if key in model:
            end = ": tokenizer.vocab_size is the most words that have a vector" if key == "vocab_size" else ""
            raise RecipeError(f"model.{key} follows from the text{end}.")


def _check_not_for_words(recipe: Recipe) -> None:
    """Refuses what would have no effect."""
    for section, names in NOT_FOR_WORDS.items():
        plain = {f.name: f.default for f in dataclasses.fields(getattr(recipe, section))}
        for name in names:
            if (value := getattr(getattr(recipe, section), name)) != plain[name]:
                raise RecipeError(f"{section}.{name}: {value!r} has no effect on word vectors: leave it out.")
