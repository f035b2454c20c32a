"""Two processes under `accelerate launch` train and evaluate as one process does with the same global batch."""

import json
import os
import random
import socket
import subprocess
import sys

import pytest
import torch

from .test_trainer import models_and_data, run_on_two, trainer_for

WORDS = list("abcdefghijklmnop")
SETTINGS = {
    "model": {
        "type": "transformer", "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32,
        "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0,
    },
    "tokenizer": {"kind": "word", "vocab_size": 60, "min_frequency": 1},
    "training": {
        "num_train_epochs": 2, "learning_rate": 0.01, "warmup_steps": 2, "logging_steps": 1, "eval_strategy": "epoch",
        "save_strategy": "no", "report_to": "none",
    },
    "evaluation": {"batch_size": 2, "samples": 0, "num_beams": 1, "max_new_tokens": 8},
}  # fmt: skip
# The sum of a step's gradients is taken in another order. float32 rounds by 2^-24 = 6e-8, and the dozen steps of Adam,
# which divides gradients by their own size, however small, carry that on and enlarge it. An example that is trained on
# twice shows by 1e-2.
ROUNDING = {"rel": 2e-5}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """Letters to capitals: 61 pairs to train on and 9 to evaluate on, neither of which two processes share evenly."""
    folder = tmp_path_factory.mktemp("data")
    rng = random.Random(0)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(1, 9))) for _ in range(70)]
    for name, part in (("train", lines[:61]), ("valid", lines[61:])):
        rows = "".join(f"{line}\t{line.upper()}\n" for line in part)
        (folder / f"{name}.tsv").write_text("source\ttarget\n" + rows)
    data = {"train": str(folder / "train.tsv"), "validation": str(folder / "valid.tsv")}
    path = folder / "tiny.yaml"
    path.write_text(json.dumps({"name": "tiny", "task": "translation", "data": data, **SETTINGS}))  # JSON is YAML
    return path


def run(recipe, output, processes, *settings):
    """The real command; returns the run's history and its metrics."""
    launch = []
    if processes > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", str(processes)]
        launch += ["--main_process_port", str(port)]
    done = subprocess.run(
        [sys.executable, *launch, "-m", "regard", "train", str(recipe), *settings, "--output", str(output)],
        env=os.environ | {"ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "no labels but -100" not in done.stderr
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["training"]["processes"] == processes
    return json.loads((output / "history.json").read_text()), metrics


def curve(history, name):
    return {row["step"]: row[name] for row in history if name in row}


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (
            ["data.max_tokens_per_batch=40", "training.gradient_accumulation_steps=2"],
            ["data.max_tokens_per_batch=40"],
        ),
        (["training.per_device_train_batch_size=8"], ["training.per_device_train_batch_size=4"]),
    ],
    ids=["tokens", "examples"],
)
def test_two_processes_give_the_loss_curve_of_one(recipe, tmp_path, one, two):
    alone, metrics = run(recipe, tmp_path / "one", 1, *one)
    both, shared = run(recipe, tmp_path / "two", 2, *two)
    steps = metrics["training"]["steps"]
    assert len(curve(alone, "loss")) == steps > 10
    for name in ("loss", "eval_loss", "grad_norm", "learning_rate"):
        assert curve(both, name) == pytest.approx(curve(alone, name), **ROUNDING), name
    assert curve(both, "tokens") == curve(alone, "tokens")
    final = [found["evaluation"]["validation"]["loss"] for found in (shared, metrics)]
    assert final[0] == pytest.approx(final[1], **ROUNDING)
    # Nine examples in batches of two, of which the processes have three and two: what one process alone measures.
    assert curve(both, "eval_loss")[steps] == pytest.approx(final[1], **ROUNDING)


# Eight examples, six at a time: of the last two, both are the first process's, which is given one more, and the second
# process has none but repeats.
KINDS = ("seq2seq", "causal", "masked", "classifier")
SGD = {
    "num_train_epochs": 2, "optim": "sgd", "learning_rate": 0.1, "max_grad_norm": 0, "logging_steps": 1,
    "train_sampling_strategy": "sequential",
}  # fmt: skip
SCRIPT = """
import json, sys
import torch
from tests.test_processes import KINDS, train_kind

folder, found = sys.argv[1], {}
for kind in KINDS:
    losses, weights, process = train_kind(folder, kind, per_device_train_batch_size=3)
    found[kind] = {"losses": losses, "weights": weights}
json.dump(found, open(f"{folder}/result-{process}.json", "w"))
"""


def train_kind(folder, kind, **settings):
    build, collator, data = models_and_data()[kind]
    torch.manual_seed(0)
    trainer = trainer_for(folder, build(), collator, data, **SGD, **settings)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    weights = [parameter.double().norm().item() for parameter in trainer.model.parameters()]
    return losses, weights, trainer.args.process_index


def test_no_task_trains_twice_on_an_example(tmp_path):
    found = run_on_two(SCRIPT, tmp_path)
    for kind in KINDS:
        losses, weights, _ = train_kind(tmp_path, kind, per_device_train_batch_size=6)
        assert len(losses) == 4
        for process in found:
            assert process[kind]["losses"] == pytest.approx(losses, rel=1e-5), kind
            assert process[kind]["weights"] == pytest.approx(weights, rel=1e-5, abs=1e-7), kind
