"""The checks of what a recipe says of fine-tuning: `model.start_from`, and the keys of `training` beside those of
TrainingArguments. Each refuses what cannot work with one sentence, before any work starts."""

import math
from typing import Any

from regard.evaluation.naming import nearest
from regard.train.muon import MUON
from regard.train.sections import LABELLING, QUESTION_ANSWERING, TASKS, WORD_VECTORS, Recipe, RecipeError

BALANCED = "balanced"
LORA = {"r": 8, "lora_alpha": 16, "lora_dropout": 0.0, "target_modules": None}
MEASURED_IN_TRAINING = LABELLING  # the tasks whose metrics are measured at each evaluation, not at the end alone


def check_fine_tuning(recipe: Recipe) -> None:
    """Checks the keys of `FINE_TUNING_KEYS`, which have their types, and completes what follows from them.

    Raises:
        RecipeError: one sentence about the first thing that cannot work.
    """
    _check_start(recipe)
    _check_backbone(recipe)
    _check_lora(recipe)
    _check_class_weights(recipe)
    _check_smoothing(recipe)
    _settle_early_stopping(recipe)
    _settle_best(recipe)


def starts_from_weights(recipe: Recipe) -> bool:
    """Whether `model.start_from` names a model to fine-tune; for word vectors it means another thing."""
    return recipe.task != WORD_VECTORS and recipe.model.get("start_from") is not None


def _check_start(recipe: Recipe) -> None:
    if not starts_from_weights(recipe):
        return
    if recipe.model.get("embeddings") is not None:
        raise RecipeError(
            "model.embeddings and model.start_from exclude each other: the embeddings come with the other weights."
        )


def _check_backbone(recipe: Recipe) -> None:
    training, has_weights = recipe.training, starts_from_weights(recipe)
    for key in ("freeze_backbone", "lora"):
        if training.get(key) not in (None, False) and not has_weights:
            raise RecipeError(f"training.{key} is for weights that are there already: name them in model.start_from.")
    if training.get("freeze_backbone"):
        if recipe.model["type"] == "dan":
            raise RecipeError(
                "training.freeze_backbone: a deep averaging network has embeddings and hidden layers, and no backbone "
                "apart from them: model.freeze_embeddings keeps the embeddings as they are."
            )
        for key in ("lora", "layer_lr_decay"):
            if training.get(key) is not None:
                raise RecipeError(
                    f"training.freeze_backbone and training.{key} exclude each other: what is frozen does not learn."
                )
    decay = training.get("layer_lr_decay")
    if decay is not None and not 0 < decay <= 1:
        raise RecipeError(f"training.layer_lr_decay: {decay} is not a number above 0 and at most 1.")


def _check_lora(recipe: Recipe) -> None:
    training = recipe.training
    for key in ("lora", "layer_lr_decay"):
        for other in ("fsdp", "deepspeed"):
            if training.get(key) is not None and training.get(other):
                raise RecipeError(
                    f"training.{other} parts the weights that training.{key} needs whole: leave out one."
                )
    if training.get("lora") is None:
        return
    for key in training["lora"]:
        if key not in LORA:
            raise RecipeError(f"There is no key 'training.lora.{key}'{nearest(key, LORA, 'training.lora.')}")
    lora = training["lora"] = LORA | training["lora"]
    if not _is_number(lora["r"]) or lora["r"] != int(lora["r"]) or lora["r"] < 1:
        raise RecipeError(f"training.lora.r: {lora['r']!r} is not a whole number of at least 1.")
    if not _is_number(lora["lora_alpha"]) or lora["lora_alpha"] <= 0:
        raise RecipeError(f"training.lora.lora_alpha: {lora['lora_alpha']!r} is not a number above 0.")
    if not _is_number(lora["lora_dropout"]) or not 0 <= lora["lora_dropout"] < 1:
        raise RecipeError(
            f"training.lora.lora_dropout: {lora['lora_dropout']!r} is not a number of at least 0 and below 1."
        )
    lora["r"] = int(lora["r"])
    modules = lora["target_modules"]
    if modules is not None and (
        not isinstance(modules, list) or not modules or not all(isinstance(name, str) for name in modules)
    ):
        raise RecipeError(
            f"training.lora.target_modules: {modules!r} is not a list of names such as [qkv_proj, out_proj], or null."
        )
    if recipe.model["type"] == "dan":
        raise RecipeError("training.lora is for projections of attention, which a deep averaging network has not.")
    if training.get("optim") == MUON:
        raise RecipeError("training.lora: its factors are no maps for training.optim: muon: leave out one.")
    if recipe.evaluation.average_checkpoints:
        raise RecipeError(
            "training.lora and evaluation.average_checkpoints exclude each other: the mean of the merged weights is "
            "not what one adapter gives: set evaluation.average_checkpoints=0, or leave out training.lora."
        )


def _check_class_weights(recipe: Recipe) -> None:
    weights = recipe.training.get("class_weights")
    if weights is None:
        return
    if recipe.task not in LABELLING:
        raise RecipeError(f"training.class_weights is for the tasks {' and '.join(LABELLING)}, not for {recipe.task}.")
    if isinstance(weights, str):
        if weights != BALANCED:
            raise RecipeError(
                f"training.class_weights: '{weights}' is not '{BALANCED}', nor a weight for each label, "
                "such as {neg: 1, pos: 3}."
            )
        if recipe.data.streaming:
            raise RecipeError(
                "training.class_weights: 'balanced' counts the labels of the training data, and data.streaming reads "
                "them as they come: give a weight for each label."
            )
        return
    if not weights:
        raise RecipeError("training.class_weights: {} names no label: give each a weight, or leave it out.")
    recipe.training["class_weights"] = {str(label): weight for label, weight in weights.items()}
    for label, weight in weights.items():
        if not 0 < weight < math.inf:
            raise RecipeError(f"training.class_weights.{label}: {weight} is not a number above 0.")


def _check_smoothing(recipe: Recipe) -> None:
    """The losses of models that predict tokens alone have it."""
    if recipe.task not in (*LABELLING, QUESTION_ANSWERING):
        return
    for section, key in (("training", "label_smoothing_factor"), ("model", "label_smoothing")):
        if value := getattr(recipe, section).get(key):
            raise RecipeError(
                f"{section}.{key}: {value!r} has no effect on {recipe.task}, whose loss is not smoothed: leave it out."
            )


def _settle_early_stopping(recipe: Recipe) -> None:
    """Early stopping needs evaluations, and checkpoints at the same times: each epoch, where nothing else is said."""
    training, data = recipe.training, recipe.data
    patience = training.get("early_stopping_patience")
    if patience is None:
        return
    if patience < 1:
        raise RecipeError(f"training.early_stopping_patience: {patience} is less than 1.")
    if data.validation is None:
        raise RecipeError("training.early_stopping_patience needs data to judge by: name it in data.validation.")
    if recipe.evaluation.average_checkpoints:
        raise RecipeError(
            "training.early_stopping_patience and evaluation.average_checkpoints exclude each other: the final "
            "weights are the best ones or the mean of several: set evaluation.average_checkpoints=0 for the best."
        )
    if training.setdefault("load_best_model_at_end", True) is not True:
        raise RecipeError(
            "training.early_stopping_patience keeps the best weights, and training.load_best_model_at_end: false "
            "would not: leave it out."
        )
    evaluates = str(training.setdefault("eval_strategy", "epoch"))
    if evaluates == "no":
        raise RecipeError("training.early_stopping_patience needs evaluations, and training.eval_strategy is 'no'.")
    if evaluates == "epoch" and data.streaming:
        raise RecipeError(
            "training.early_stopping_patience needs evaluations before the end, and with data.streaming all steps are "
            "one epoch: set training.eval_strategy=steps and training.eval_steps."
        )
    saves = str(training.setdefault("save_strategy", evaluates))
    if evaluates == "steps" == saves:
        if not training.get("eval_steps"):
            raise RecipeError(
                "training.eval_steps is missing: training.eval_strategy is 'steps', and for "
                "training.early_stopping_patience there is a checkpoint with each evaluation."
            )
        training.setdefault("save_steps", training["eval_steps"])
    if saves not in (evaluates, "best"):
        raise RecipeError(
            f"training.save_strategy: '{saves}' does not keep what is best: for training.early_stopping_patience it "
            f"is '{evaluates}', as training.eval_strategy is."
        )


def _settle_best(recipe: Recipe) -> None:
    """Which weights are the best: by what each evaluation measures, and the right way round."""
    training = recipe.training
    keeps_best = training.get("load_best_model_at_end") or str(training.get("save_strategy")) == "best"
    if not keeps_best and training.get("metric_for_best_model") is None:
        return
    name = (training.get("metric_for_best_model") or "loss").removeprefix("eval_")
    training["metric_for_best_model"] = name
    known = _measured_in_training(recipe)
    if name not in known:
        task = TASKS[recipe.task]
        end = f": it is {', '.join(known)}"
        if name in task.metrics and recipe.task in MEASURED_IN_TRAINING:
            end = ": name it in evaluation.metrics"
        elif name in task.metrics:
            end = f", which is measured at the end alone{end}"
        raise RecipeError(f"training.metric_for_best_model: an evaluation does not give '{name}'{end}.")


def _measured_in_training(recipe: Recipe) -> list[str]:
    """What each evaluation during training gives."""
    task = TASKS[recipe.task]
    measured = ["loss", *(["perplexity"] if "perplexity" in task.metrics else [])]
    return measured + (recipe.evaluation.metrics if recipe.task in MEASURED_IN_TRAINING else [])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
