"""The checks of tasks whose rows the package makes: in-context tasks, and linear regression in context."""

import dataclasses
import math
from typing import Any

from regard.train.sections import (
    IN_CONTEXT,
    LEARN_FROM,
    NUM_SPECIAL_TOKENS,
    REGRESSION,
    Recipe,
    RecipeError,
)
from regard.train.value_checks import check_choice

MOST_ROWS = 10_000_000  # of a split: their numbers are held in memory
BY_LENGTH = ("group_by_length", "batch_rebalance")  # of `train_sampling_strategy`
# The keys of `data` that have an effect.
DATA_KEYS = {
    IN_CONTEXT: ("train", "validation", "test", "block_size", "columns", "tasks", "learn_from"),
    REGRESSION: ("train", "validation", "test", "block_size", "columns", "noise"),
}
# Of a model without tokens: the keys of `evaluation` that have an effect, and those of `model` that have none.
REGRESSION_EVALUATION = ("metrics", "batch_size", "average_checkpoints")
TOKEN_FIELDS = (
    "vocab_size", "type_vocab_size", "tie_word_embeddings", "label_smoothing", "pad_token_id", "bos_token_id",
    "eos_token_id", "start_from", "embeddings", "freeze_embeddings",
)  # fmt: skip


def check_made_rows(recipe: Recipe) -> None:
    """Refuses what is no number of rows, and what would have no effect.

    Raises:
        RecipeError: one sentence about the first thing that cannot work.
    """
    data = recipe.data
    for key in ("train", "validation", "test"):
        value = getattr(data, key)
        if value is None:
            continue
        if not (isinstance(value, str) and value.isdecimal() and value.strip("0")):
            raise RecipeError(
                f"data.{key}: {value!r} is no number of rows, such as 2000; {recipe.task} makes its data."
            )
        if len(value) > len(str(MOST_ROWS)) or int(value) > MOST_ROWS:
            raise RecipeError(
                f"data.{key}: {value} rows are too many: at most {MOST_ROWS}, and each epoch makes others."
            )
    _refuse_without_effect(recipe, "data", DATA_KEYS[recipe.task], "whose rows are made")
    if (strategy := recipe.training.get("train_sampling_strategy")) in BY_LENGTH:
        raise RecipeError(
            f"training.train_sampling_strategy: '{strategy}' needs the rows' lengths, and those of {recipe.task} are "
            "made when they are needed: it is 'random' or 'sequential'."
        )
    if recipe.task == REGRESSION:
        _check_regression(recipe)
    else:
        _check_in_context(recipe)


def check_no_tokenizer(recipe: Recipe) -> None:
    """Refuses settings of a tokenizer where there is none."""
    _refuse_without_effect(recipe, "tokenizer", (), "which reads no text")


def _check_regression(recipe: Recipe) -> None:
    from regard.modeling import InContextRegressionConfig

    data = recipe.data
    if not 0 <= data.noise < math.inf:
        raise RecipeError(f"data.noise: {data.noise} is not a number of at least 0.")
    size = recipe.model.get("input_size", InContextRegressionConfig.input_size)
    if "over_least_squares" in recipe.evaluation.metrics and isinstance(size, int):
        _check_over_least_squares(data.noise, size, data.block_size)
    _refuse_without_effect(recipe, "evaluation", REGRESSION_EVALUATION, "which writes no text")
    none = f"has no effect on {recipe.task}, whose model has no tokens: leave it out."
    for key in TOKEN_FIELDS:
        plain = getattr(InContextRegressionConfig, key, None)
        if (value := recipe.model.get(key, plain)) not in (plain, None, False):
            raise RecipeError(f"model.{key}: {value!r} {none}")
    if smoothing := recipe.training.get("label_smoothing_factor"):
        raise RecipeError(f"training.label_smoothing_factor: {smoothing!r} {none}")


def _check_over_least_squares(noise: float, size: int, examples: int) -> None:
    """The error of least squares at 2d examples must be there, and have a mean above 0."""
    if noise == 0:
        raise RecipeError(
            "evaluation.metrics: over_least_squares divides by the error of least squares, which is 0 where "
            "data.noise is 0: set data.noise above 0, or leave the metric out."
        )
    if size == 1:
        raise RecipeError(
            "model.input_size: 1 is too small for over_least_squares: the error of least squares has no mean at 2 "
            "examples of one coordinate; at least 2."
        )
    if examples <= 2 * size:
        raise RecipeError(
            f"data.block_size: {examples} examples are too few for over_least_squares, which asks after twice "
            f"model.input_size: at least {2 * size + 1}."
        )


def _check_in_context(recipe: Recipe) -> None:
    from regard.evaluation.in_context.tasks import CHARACTERS, task_named

    data, tokenizer = recipe.data, recipe.tokenizer
    check_choice(data.learn_from, LEARN_FROM, "data.learn_from")
    for name, weight in data.tasks.items():
        try:
            task_named(name)
        except ValueError as error:
            raise RecipeError(f"data.tasks: {error}") from error
        if weight is not None and not 0 <= weight < math.inf:
            raise RecipeError(f"data.tasks.{name}: {weight} is no weight above 0; 0 or null leaves a task out.")
    weights = {name: weight for name, weight in data.tasks.items() if weight}
    if data.tasks and not weights:
        raise RecipeError("data.tasks: every task is left out, by 0 or null: one at least has a weight above 0.")
    data.tasks = weights
    if data.block_size < 32:
        raise RecipeError(f"data.block_size: {data.block_size} leaves no room for examples: at least 32.")
    if tokenizer.path is not None or recipe.model.get("start_from") is not None:
        return  # it is there already
    if tokenizer.kind != "char":
        raise RecipeError(f"tokenizer.kind: in-context takes 'char', not '{tokenizer.kind}'.")
    if tokenizer.vocab_size < (least := len(CHARACTERS) + NUM_SPECIAL_TOKENS):
        raise RecipeError(
            f"tokenizer.vocab_size: {tokenizer.vocab_size} is too small for the {len(CHARACTERS)} characters of "
            f"in-context and {NUM_SPECIAL_TOKENS} special tokens: at least {least}."
        )


def _refuse_without_effect(recipe: Recipe, section: str, effective: tuple[str, ...], why: str) -> None:
    given: Any = getattr(recipe, section)
    for f in dataclasses.fields(given):
        if f.name in effective:
            continue
        plain = f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        if (value := getattr(given, f.name)) != plain:
            raise RecipeError(f"{section}.{f.name}: {value!r} has no effect on {recipe.task}, {why}: leave it out.")
