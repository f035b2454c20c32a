"""How induction heads come about in a training: measured every so many steps, and drawn."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from regard.evaluation.drawing import check_format
from regard.evaluation.generation import load_run
from regard.evaluation.induction import LENGTH, InductionProbe, make_probe, measure_induction, record_of
from regard.evaluation.induction_pictures import plot_induction
from regard.evaluation.tokens import readable_tokens
from regard.train.records import read_json, write_json

INDUCTION = "induction.json"


class RecordInduction(TrainerCallback):
    """Measures induction heads at the first step, every so many, and at the last; the points are in the run's
    `induction.json`. Nothing random is drawn, so the training is as it would have been without."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, folder: str | os.PathLike[str], every: int) -> None:
        self.tokenizer, self.path, self.every = tokenizer, Path(folder) / INDUCTION, every

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Of a run that goes on, the points up to its checkpoint stay."""
        self.probe = fitting_probe(self.tokenizer, getattr(model, "module", model))
        kept = read_json(self.path) if state.global_step and self.path.is_file() else []
        self.points = [point for point in kept if point["step"] <= state.global_step]
        if not self.points:
            self._measure(state, model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if state.global_step % self.every == 0 or state.global_step >= state.max_steps:
            self._measure(state, model)

    def _measure(self, state: Any, model: Any) -> None:
        if not state.is_world_process_zero:
            return
        self.points.append(
            record_of(measure_induction(getattr(model, "module", model), self.probe), state.global_step)
        )
        write_json(self.path, self.points)


def fitting_probe(tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> InductionProbe:
    """`make_probe`, no longer than learned positions reach. Raises ValueError where they do not reach four tokens."""
    config, length = model.config, LENGTH
    if getattr(config, "position_embedding_type", None) == "learned":
        start = tokenizer.bos_token_id is not None
        length = min(length, (config.max_position_embeddings - start) // 2)
    return make_probe(tokenizer, length=length)


def plot_run_induction(run: str | os.PathLike[str], path: str | os.PathLike[str]) -> Path:
    """Draws what a run recorded with `evaluation.induction_steps`, beside the attention of its best head.

    Raises:
        ValueError: another kind of file, or a folder that is no run or has no such record, or a broken one.
    """
    check_format(path)
    record = Path(run) / INDUCTION
    if not record.is_file():
        raise ValueError(
            f"'{run}' has no record of induction heads, {INDUCTION}: train with evaluation.induction_steps=50, as "
            "the recipe in-context/induction-decoder does."
        )
    points = _read_points(record)
    model, tokenizer = load_run(run)
    probe = fitting_probe(tokenizer, model)
    tokens = readable_tokens(tokenizer, probe.ids[0].tolist())
    return plot_induction(points, measure_induction(model, probe), probe, tokens, path)


def _read_points(record: Path) -> list[dict[str, Any]]:
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
