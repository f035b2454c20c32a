"""A run of the task in-context-regression: rows of linear functions, made when they are needed, and no tokenizer.

A row is a function of (split, seed, epoch, row), as `regard.evaluation.in_context.regression` draws it, so that a run
goes on exactly where it was stopped, with any number of workers.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.trainer_utils import set_seed

from regard.evaluation.in_context.regression import (
    Regressions,
    baselines,
    draw_regression,
    draw_regressions,
    errors_by_examples,
)
from regard.evaluation.in_context.regression_picture import plot_regression
from regard.modeling import InContextRegressionConfig, TransformerDecoderForInContextRegression
from regard.train import checkpoints
from regard.train.building import check_launch, optimizer_factory, training_arguments, wants_tensorboard
from regard.train.callbacks import TensorBoard, duration, quiet_libraries
from regard.train.collators import EpochCollator, TellEpoch, flat
from regard.train.fine_tuning import StopWithoutProgress
from regard.train.in_context import EVALUATION_SEED, MEASURED_ROWS
from regard.train.recipe import RUN_RECIPE
from regard.train.records import HISTORY, LOSS_CURVE, METRICS, environment, write_json
from regard.train.sections import Recipe
from regard.train.trainer import RegardTrainer

PICTURE = "regression.png"
LOGS = "logs"
RATIOS = {  # of the model's error to another, by kind of error
    "over_least_squares": ("least squares", "clean"),
    "over_least_squares_noisy": ("least squares", "noisy"),
    "over_ridge": ("ridge", "clean"),
}


class RegressionRows(torch.utils.data.Dataset):
    """The numbers of a split's rows."""

    def __init__(self, split: str, rows: int) -> None:
        self.split, self.rows = split, rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"split": self.split, "row": int(row)}


class RegressionCollator(EpochCollator):
    """Draws rows: `inputs` (B, K, d), `values` and `labels` (B, K), float32."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        self.seed, self.shape = recipe.training.get("seed", 42), shape_of(recipe)

    def __call__(self, features: Sequence[Any]) -> dict[str, Tensor]:
        epoch, drawn = self.epoch, []
        for one in flat(features):
            training = one["split"] == "train"
            place = (self.seed, epoch, one["row"]) if training else (EVALUATION_SEED, 0, one["row"])
            drawn.append(draw_regression(one["split"], *place, **self.shape))
        inputs, values = (
            torch.from_numpy(np.concatenate([getattr(row, name) for row in drawn]).astype(np.float32))
            for name in ("inputs", "values")
        )
        return {"inputs": inputs, "values": values, "labels": values.clone()}


def shape_of(recipe: Recipe) -> dict[str, Any]:
    """What the rows of a recipe are like, as `draw_regression` takes it."""
    size = recipe.model.get("input_size", InContextRegressionConfig.input_size)
    return {"input_size": size, "examples": recipe.data.block_size, "noise": recipe.data.noise}


def train_regression(recipe: Recipe, run: Path, resume: bool, overwrite: bool, test: bool) -> dict[str, Any]:
    """As `regard.train.run.train`, which calls it for this task."""
    from regard.train.run import average, check_folder, make_repository, publish_run, remove_run, training_record

    args = training_arguments(recipe, str(run))
    check_launch(recipe, args)
    check_folder(run, recipe, resume, overwrite)
    main = args.process_index == 0
    if args.push_to_hub and main:
        make_repository(run, args)
    with quiet_libraries():
        set_seed(recipe.training.get("seed", 42))
        settings = {key: value for key, value in recipe.model.items() if key != "type"}
        config = InContextRegressionConfig(**{"max_position_embeddings": 2 * recipe.data.block_size} | settings)
        model = TransformerDecoderForInContextRegression(config)
        with args.main_process_first(local=False, desc="folder"):
            if main and resume:
                checkpoints.tidy(run)
            before = checkpoints.last_checkpoint(run) if resume else None
            if main:
                if overwrite:
                    remove_run(run)
                run.mkdir(parents=True, exist_ok=True)
                (run / METRICS).unlink(missing_ok=True)  # from here on the run is not finished
                config.save_pretrained(run)
                recipe.save(run / RUN_RECIPE)
        collator = RegressionCollator(recipe)
        validation, patience = recipe.data.validation, recipe.training.get("early_stopping_patience")
        callbacks = [TellEpoch(collator)] + ([TensorBoard(str(run / LOGS))] if wants_tensorboard(recipe) else [])
        trainer = RegardTrainer(
            model,
            args,
            data_collator=collator,
            train_dataset=RegressionRows("train", int(recipe.data.train)),
            eval_dataset=None if validation is None else RegressionRows("validation", int(validation)),
            callbacks=callbacks + ([] if patience is None else [StopWithoutProgress(patience)]),
            optimizer_cls_and_kwargs=optimizer_factory(recipe, args),
            layer_lr_decay=recipe.training.get("layer_lr_decay"),
        )
        if main:
            _say(f"{recipe.name}: {model.num_parameters():,} parameters")
        trainer.train(resume_from_checkpoint=before)
        trainer.save_model(str(run), _internal_call=True)
        if not main:
            return {}
        averaged = average(recipe, run)
        write_json(run / HISTORY, trainer.state.log_history)
        training = training_record(trainer) | ({"averaged_checkpoints": averaged} if averaged else {})
        _say(f"trained for {duration(training['seconds'])}; evaluating")
        metrics = _record(recipe, run, training, trainer.state.log_history, test)
        if args.push_to_hub:
            publish_run(run, trainer)
        return metrics


def _record(recipe: Recipe, run: Path, training: dict[str, Any], history: list, test: bool) -> dict[str, Any]:
    from regard.evaluation.curves import plot_history
    from regard.model_cards.card import write_card

    splits = [name for name in recipe.data.split_names() if name != "train" and (test or name != "test")]
    model = load_regression(run)
    metrics = {
        "recipe": recipe.name,
        "environment": environment(),
        "data": {name: {"rows": int(getattr(recipe.data, name))} for name in ("train", *splits)},
        "model": {"parameters": model.num_parameters(), "class": type(model).__name__},
        "training": training,
        "evaluation": {name: evaluate_regression(model, recipe, name) for name in splits},
    }
    if any("loss" in entry or "eval_loss" in entry for entry in history):  # a run shorter than logging_steps has none
        plot_history(history, run / LOSS_CURVE)
    if splits:
        plot_regression(metrics["evaluation"][splits[-1]], run / PICTURE)
    write_json(run / METRICS, metrics)
    write_card(run)
    _say(f"the run is in {run}")
    return metrics


def load_regression(run: str | os.PathLike[str]) -> TransformerDecoderForInContextRegression:
    """The model of a run, ready to be used, on a GPU if there is one. Raises ValueError where it cannot be loaded."""
    try:
        model = TransformerDecoderForInContextRegression.from_pretrained(run, use_safetensors=True)
    except OSError as error:
        raise ValueError(f"'{run}' cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    return model.to("cuda" if torch.cuda.is_available() else "cpu")


def evaluate_regression(model: TransformerDecoderForInContextRegression, recipe: Recipe, split: str) -> dict[str, Any]:
    """A model beside least squares on a split of its recipe.

    Returns:
        `squared_error`, the mean of the values as they came over all examples; `by_examples`, for the model and
        each baseline the errors with 0, 1, 2, ... examples, as `errors_by_examples` has them, None (in metrics.json
        null) where those of least squares have no mean; and where the recipe names the metric, the error of the model
        at 2d examples over that of least squares, `over_least_squares` against w·x and `over_least_squares_noisy`
        against the values with their noise, and over that of ridge, the best predictor, `over_ridge` against w·x.
    """
    shape = shape_of(recipe)
    number = int(getattr(recipe.data, split))
    number = min(number, MEASURED_ROWS) if split == "train" else number
    rows = draw_regressions(number, split, EVALUATION_SEED, **shape)
    predicted = predict(model, rows, recipe.evaluation.batch_size)
    errors = {"model": errors_by_examples(predicted, rows)} | baselines(rows, shape["noise"])
    measures: dict[str, Any] = {"squared_error": float(np.mean(errors["model"]["noisy"])), "by_examples": errors}
    shots = 2 * shape["input_size"]
    if "over_least_squares" in recipe.evaluation.metrics:
        for name, (baseline, kind) in RATIOS.items():
            measures[name] = errors["model"][kind][shots] / errors[baseline][kind][shots]
    return measures | {"input_size": shape["input_size"], "noise": shape["noise"]}


@torch.no_grad()
def predict(model: TransformerDecoderForInContextRegression, rows: Regressions, batch_size: int = 256) -> np.ndarray:
    """(B, K) what the model says at each point, from the examples before it."""
    inputs, values = (torch.from_numpy(one.astype(np.float32)).to(model.device) for one in (rows.inputs, rows.values))
    parts = zip(inputs.split(batch_size), values.split(batch_size), strict=True)
    training = model.training
    model.eval()
    try:
        predicted = torch.cat([model(inputs=x, values=y).logits.float().cpu() for x, y in parts])
    finally:
        model.train(training)
    return predicted.double().numpy()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
