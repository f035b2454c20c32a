"""The checks of how a recipe trains."""

import dataclasses
import math
from typing import Any

from regard.train.sections import (
    FINE_TUNING_KEYS,
    RESERVED_TRAINING_KEYS,
    VECTOR_TRAINING_KEYS,
    WORD_VECTORS,
    Recipe,
    RecipeError,
    training_of,
)
from regard.train.value_checks import check_choice, check_keys, typed

STRATEGIES_WITH_STATE = ("checkpoint", "all_checkpoints")  # of `hub_strategy`


def check_training(recipe: Recipe) -> None:
    """Refuses arguments of training that are unknown or cannot work; settles what follows from others."""
    from regard.train.fine_tuning_checks import check_fine_tuning
    from regard.train.muon import MUON, muon_options

    training, data, evaluation = recipe.training, recipe.data, recipe.evaluation
    for key, reason in RESERVED_TRAINING_KEYS.items():
        if key in training:
            raise RecipeError(f"training.{key} does not belong in a recipe: {reason}.")
    if recipe.task == WORD_VECTORS:
        _check_vector_training(recipe)
        return
    fields = _training_fields() | FINE_TUNING_KEYS
    check_keys(training, fields, "training.", "argument")
    if training.get("optim") == MUON:  # ours, beside those of TrainingArguments
        fields = fields | {"optim": str, "optim_args": str | None}
    for key, value in training.items():
        fitting = typed(value, fields[key], f"training.{key}")
        training[key] = value if isinstance(value, int) else fitting  # 800 steps stay 800, though the field says float
    check_fine_tuning(recipe)
    if training.get("optim") == MUON:
        try:
            muon_options(training.get("optim_args"))
        except ValueError as error:
            raise RecipeError(str(error)) from error
        for key in ("fsdp", "deepspeed"):
            if training.get(key):
                raise RecipeError(f"training.{key} parts the matrices that training.optim: muon needs whole.")
    if training.get("save_only_model"):
        raise RecipeError(
            "training.save_only_model: true saves checkpoints without the optimiser, from which no run can be resumed."
        )
    if training.get("hub_strategy") in STRATEGIES_WITH_STATE:
        raise RecipeError(state_stays_here(training["hub_strategy"]))
    for key in ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps"):
        if training.get(key, 1) < 1:
            raise RecipeError(f"training.{key}: {training[key]} is less than 1.")

    for key in ("seed", "data_seed"):
        if training.get(key) is not None and not 0 <= training[key] < 2**32:
            raise RecipeError(f"training.{key}: {training[key]} is not between 0 and 2**32 - 1.")
    if not training.get("num_train_epochs", 1) > 0:
        raise RecipeError(f"training.num_train_epochs: {training['num_train_epochs']} is not a number above 0.")
    if (steps := training.get("max_steps", -1)) < 1 and steps != -1:
        raise RecipeError(f"training.max_steps: {steps} trains nothing: give at least 1, or -1 to count by epochs.")
    for key in ("learning_rate", "warmup_steps", "weight_decay", "max_grad_norm", "adam_epsilon"):
        if not training.get(key, 0) >= 0:  # nor a number that is none
            raise RecipeError(f"training.{key}: {training[key]} is not a number of at least 0.")
    for key in ("adam_beta1", "adam_beta2"):
        if not 0 <= training.get(key, 0) < 1:
            raise RecipeError(f"training.{key}: {training[key]} is not a number of at least 0 and below 1.")

    if data.max_tokens_per_batch is not None and "per_device_train_batch_size" in training:
        raise RecipeError(
            "training.per_device_train_batch_size and data.max_tokens_per_batch exclude each other: a batch holds "
            "either a number of examples or a number of tokens."
        )
    if data.streaming and data.max_tokens_per_batch is not None:
        raise RecipeError(
            "data.max_tokens_per_batch needs all lengths in advance, and data.streaming reads them as they come: set "
            "training.per_device_train_batch_size instead."
        )
    if data.streaming and training.get("max_steps", -1) < 1:
        raise RecipeError("data.streaming needs training.max_steps: a stream has no length to count epochs by.")
    evaluates = training.get("eval_strategy", "no") != "no" or training.get("eval_on_start", False)
    if data.validation is None and evaluates:
        raise RecipeError("training.eval_strategy asks for evaluation, and data.validation names no data for it.")
    kept = training.get("save_total_limit")
    if evaluation.average_checkpoints > 1 and kept is not None and kept < evaluation.average_checkpoints:
        raise RecipeError(
            f"evaluation.average_checkpoints: {evaluation.average_checkpoints} checkpoints cannot be averaged when "
            f"training.save_total_limit keeps {kept}."
        )
    if evaluation.average_checkpoints > 0 and training.get("save_strategy") == "no":
        raise RecipeError("evaluation.average_checkpoints needs checkpoints, and training.save_strategy is 'no'.")
    # Smoothing lives in the model's own loss, where it acts in training alone; Trainer's would take the labels out of
    # the model and smooth the evaluation loss too.
    smoothing = training.pop("label_smoothing_factor", None)
    if smoothing is not None and recipe.model.setdefault("label_smoothing", smoothing) != smoothing:
        raise RecipeError(
            f"training.label_smoothing_factor ({smoothing}) and model.label_smoothing "
            f"({recipe.model['label_smoothing']}) are the same setting and differ: keep one."
        )


def state_stays_here(strategy: str) -> str:
    """Why a `hub_strategy` of TrainingArguments is refused."""
    return (
        f"training.hub_strategy: '{strategy}' would publish the states of the optimiser and of chance, which are "
        "pickles, and of use here alone; it is 'every_save' or 'end'."
    )


def _check_vector_training(recipe: Recipe) -> None:
    training, glove = recipe.training, recipe.model["type"] == "glove"
    check_keys(training, VECTOR_TRAINING_KEYS, "training.", "argument")
    for key in ("min_learning_rate", "per_device_train_batch_size", "engine", "logging_steps", "save_steps"):
        if glove and key in training:
            raise RecipeError(f"training.{key} is for word2vec; GloVe is trained, logged and saved by epochs.")
    for key, value in training.items():
        training[key] = typed(value, VECTOR_TRAINING_KEYS[key], f"training.{key}")
    for key in ("num_train_epochs", "workers", "per_device_train_batch_size", "logging_steps", "save_steps"):
        if training.get(key) is not None and training[key] < 1:
            raise RecipeError(f"training.{key}: {training[key]} is less than 1.")
    for key in ("learning_rate", "min_learning_rate"):
        if not 0 <= training.get(key, 0) < math.inf:
            raise RecipeError(f"training.{key}: {training[key]} is not a number of at least 0.")
    given = training_of(recipe)
    if not glove and given["min_learning_rate"] > given["learning_rate"]:
        raise RecipeError(
            f"training.min_learning_rate: {given['min_learning_rate']} is above training.learning_rate, "
            f"{given['learning_rate']}, from which the rate falls."
        )
    if not 0 <= given["seed"] < 2**32:
        raise RecipeError(f"training.seed: {given['seed']} is not between 0 and 2**32 - 1.")
    check_choice(given["engine"], ("numba", "torch"), "training.engine")
    strategies = ("no", "epoch") if glove else ("no", "epoch", "steps")
    check_choice(given["save_strategy"], strategies, "training.save_strategy")
    _check_engine(recipe, given)
    if given["save_strategy"] == "steps" and "save_steps" not in training:
        raise RecipeError("training.save_steps is missing: training.save_strategy is 'steps'.")
    if given["save_strategy"] != "steps" and "save_steps" in training:
        raise RecipeError(
            f"training.save_steps: {training['save_steps']} is for training.save_strategy: steps, and that is "
            f"'{given['save_strategy']}'."
        )
    if recipe.model.get("objective") == "full-softmax":
        raise RecipeError(
            "model.objective: 'full-softmax' compares each word with the whole vocabulary and is trained by "
            "transformers' Trainer in Python: choose 'negative-sampling' or 'hierarchical-softmax'."
        )


def _check_engine(recipe: Recipe, training: dict[str, Any]) -> None:
    """What one of the two engines cannot do."""
    words, torch_trains = training.get("per_device_train_batch_size"), training["engine"] == "torch"
    if words is not None and not torch_trains:
        raise RecipeError(
            "training.per_device_train_batch_size is for training.engine: torch, which learns in batches."
        )
    if torch_trains and recipe.model.get("objective") == "hierarchical-softmax":
        raise RecipeError(
            "training.engine: 'torch' has no hierarchical softmax: set training.engine=numba, or "
            "model.objective=negative-sampling."
        )
    if words is not None:
        from regard.train.word2vec_torch import BLOCK

        if words % BLOCK:
            near = max(BLOCK, round(words / BLOCK) * BLOCK)
            raise RecipeError(
                f"training.per_device_train_batch_size: {words} words are no whole number of blocks of {BLOCK}, such "
                f"as {near}."
            )


def _training_fields() -> dict[str, Any]:
    from transformers.training_args import TrainingArguments

    return {f.name: f.type for f in dataclasses.fields(TrainingArguments) if f.init}
