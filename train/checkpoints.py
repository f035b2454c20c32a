"""Checkpoints that are complete or not there, whenever the process is killed.

A checkpoint is written under a hidden name and then renamed to `checkpoint-N`, which the file system does in one step;
one that is no longer wanted is renamed to a hidden name before it is deleted. So every folder called `checkpoint-N` is
complete, and the highest N is the one to resume from. `tidy` removes what a killed process left behind.
"""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file

CHECKPOINT = re.compile(r"checkpoint-(\d+)")
SAVING, REPLACED, REMOVING = ".saving-", ".replaced-", ".removing-"
STATE_FILE, WEIGHTS_FILE = "trainer_state.json", "model.safetensors"


def list_checkpoints(run: str | os.PathLike[str]) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    found = [path for path in Path(run).glob("checkpoint-*") if CHECKPOINT.fullmatch(path.name)]
    return sorted((path for path in found if (path / STATE_FILE).is_file()), key=step_of)


def last_checkpoint(run: str | os.PathLike[str]) -> Path | None:
    """The complete checkpoint of the latest step, if there is one."""
    return next(reversed(list_checkpoints(run)), None)


def step_of(checkpoint: Path) -> int:
    return int(CHECKPOINT.fullmatch(checkpoint.name)[1])


def staging(checkpoint: Path) -> Path:
    """Where a checkpoint is written before it gets its name."""
    return checkpoint.with_name(SAVING + checkpoint.name)


def publish(checkpoint: Path) -> None:
    """Gives a checkpoint that was written to `staging(checkpoint)` its name."""
    replaced = checkpoint.with_name(REPLACED + checkpoint.name)
    if checkpoint.exists():
        checkpoint.rename(replaced)
    staging(checkpoint).rename(checkpoint)
    shutil.rmtree(replaced, ignore_errors=True)


def rotate(run: str | os.PathLike[str], limit: int | None, best: str | None = None) -> None:
    """Deletes the oldest checkpoints until `limit` are left; the latest and the best always stay."""
    checkpoints = list_checkpoints(run)
    if limit is None or limit <= 0:
        return
    kept = {checkpoints[-1].name, Path(best).name if best else checkpoints[-1].name} if checkpoints else set()
    removable = [path for path in checkpoints if path.name not in kept]
    for path in removable[: max(0, len(checkpoints) - max(limit, len(kept)))]:
        doomed = path.with_name(REMOVING + path.name)
        path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def tidy(run: str | os.PathLike[str]) -> None:
    """Removes what a process that was killed while it saved or deleted left behind."""
    for replaced in Path(run).glob(f"{REPLACED}checkpoint-*"):
        checkpoint = replaced.with_name(replaced.name.removeprefix(REPLACED))
        if not checkpoint.exists():  # killed between the two renames
            replaced.rename(checkpoint)
    for prefix in (SAVING, REPLACED, REMOVING):
        for leftover in Path(run).glob(f"{prefix}checkpoint-*"):
            shutil.rmtree(leftover)


def average_weights(checkpoints: Sequence[Path]) -> dict[str, torch.Tensor]:
    """The float32 mean of the weights of several checkpoints.

    Raises:
        ValueError: when they do not hold the same tensors.
    """
    total: dict[str, torch.Tensor] = {}
    for checkpoint in checkpoints:
        weights = load_file(checkpoint / WEIGHTS_FILE)
        if total and weights.keys() != total.keys():
            raise ValueError(f"{checkpoint} and {checkpoints[0]} hold different tensors: they cannot be averaged.")
        for name, tensor in weights.items():
            tensor = tensor.to(torch.float32)
            total[name] = total[name] + tensor if name in total else tensor
    return {name: tensor / len(checkpoints) for name, tensor in total.items()}
