"""How induction heads come about in a training: measured every so many steps, and drawn."""

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from regard.evaluation.drawing import check_format
from regard.evaluation.generation import load_run, position_limit
from regard.evaluation.induction import LENGTH, InductionProbe, make_probe, measure_induction, record_of
from regard.evaluation.induction_pictures import plot_induction
from regard.evaluation.tokens import readable_tokens
from regard.train.records import read_json, write_json

INDUCTION = "induction.json"
logger = logging.getLogger(__name__)


class RecordInduction(TrainerCallback):
    """Measures induction heads at the first step, every so many, and at the last; the points are in the run's
    `induction.json`. Nothing random is drawn, so the training is as it would have been without.

    Attributes:
        clock_stopped: around a measurement; `RegardTrainer` puts here what stops the clock of its tokens per second.
    """

    clock_stopped: Callable[[], AbstractContextManager] = nullcontext

    def __init__(self, tokenizer: PreTrainedTokenizerBase, folder: str | os.PathLike[str], every: int) -> None:
        self.tokenizer, self.path, self.every = tokenizer, Path(folder) / INDUCTION, every

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Of a run that goes on, the points up to its checkpoint stay."""
        model = getattr(model, "module", model)
        self.probe, self.points = fitting_probe(self.tokenizer, model), []
        if state.global_step and self.path.is_file():
            try:
                kept = read_points(self.path)
                check_heads(kept, self.path, model.config)
            except ValueError as error:
                logger.warning("%s A new record begins at step %d.", error, state.global_step)
                kept = []
            self.points = [point for point in kept if point["step"] <= state.global_step]
        if not self.points:
            self._measure(state, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if state.global_step % self.every == 0 or state.global_step >= state.max_steps:
            self._measure(state, model)

    def on_evaluate(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Early stopping ends the training here; at its very end the model has the best weights, not the last."""
        if control.should_training_stop:
            self._measure(state, model)

    def on_train_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Of a training that something else has stopped."""
        if not args.load_best_model_at_end:
            self._measure(state, model)

    def _measure(self, state: Any, model: Any) -> None:
        """A step that is there already is not measured again."""
        if not state.is_world_process_zero or (self.points and self.points[-1]["step"] == state.global_step):
            return
        with self.clock_stopped():
            measures = measure_induction(getattr(model, "module", model), self.probe)
            self.points.append(record_of(measures, state.global_step))
            write_json(self.path, self.points)


def fitting_probe(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> InductionProbe:
    """`make_probe`, no longer than the model's positions reach.

    Raises:
        ValueError: they do not reach two tokens twice, after the start token if there is one.
    """
    limit, start = position_limit(model), tokenizer.bos_token_id is not None
    return make_probe(tokenizer, length=LENGTH if limit is None else min(LENGTH, (limit - start) // 2))


def plot_run_induction(run: str | os.PathLike[str], path: str | os.PathLike[str]) -> Path:
    """Draws what a run recorded with `evaluation.induction_steps`, beside the attention of its best head.

    Raises:
        ValueError: another kind of file, or a folder that is no run or has no such record, or a broken one or one of
            another model.
    """
    check_format(path)
    record = Path(run) / INDUCTION
    if not record.is_file():
        raise ValueError(
            f"'{run}' has no record of induction heads, {INDUCTION}: train with evaluation.induction_steps=50, as "
            "the recipe in-context/induction-decoder does."
        )
    points = read_points(record)
    model, tokenizer = load_run(run)
    check_heads(points, record, model.config)
    probe = fitting_probe(tokenizer, model)
    tokens = readable_tokens(tokenizer, probe.ids[0].tolist())
    return plot_induction(points, measure_induction(model, probe), probe, tokens, path)


def read_points(record: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The points of a training, at least one, as `record_of` makes them. Raises ValueError of a file without them."""
    try:
        points = read_json(record)
        scores = np.array([point["prefix_matching"] for point in points], float)  # (points, L, H)
        others = np.array([[point[name] for name in ("step", "first", "second")] for point in points], float)
        sound = scores.ndim == 3 and np.isfinite(scores).all() and np.isfinite(others).all()
    except (ValueError, TypeError, KeyError):
        sound = False
    if not sound:
        raise ValueError(f"'{record}' is no record of induction heads, as evaluation.induction_steps writes it.")
    return points


def check_heads(points: list[dict[str, Any]], record: str | os.PathLike[str], config: PreTrainedConfig) -> None:
    """Raises ValueError where the points in the file `record` are of other layers and heads than a model's."""
    layers, heads = np.shape(points[0]["prefix_matching"])
    if (layers, heads) != (config.num_hidden_layers, config.num_attention_heads):
        raise ValueError(
            f"'{record}' is of {layers} layers with {heads} heads each, and the model has {config.num_hidden_layers} "
            f"with {config.num_attention_heads}: it is another model's."
        )
