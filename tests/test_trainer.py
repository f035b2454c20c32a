"""The Trainer: accumulation, losses over targets, evaluation on any number of processes, schedules, columns."""

import json
import math
import os
import socket
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import TrainingArguments

from regard.modeling import (
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerDecoderForCausalLM,
    TransformerEncoderConfig,
    TransformerEncoderForMaskedLM,
    TransformerEncoderForSequenceClassification,
    TransformerForConditionalGeneration,
)
from regard.train.collators import CausalLMCollator, ClassificationCollator, Seq2SeqCollator
from regard.train.measure import EvaluationBatches, measure
from regard.train.trainer import RegardTrainer, TrainingDiverged

from .families import listening

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"vocab_size": 23, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "dropout": 0.0}


def seq2seq(**settings):
    torch.manual_seed(0)
    given = {"encoder_layers": 1, "decoder_layers": 1, "label_smoothing": 0.0} | settings
    return TransformerForConditionalGeneration(TransformerConfig(**SIZES | given))


def pairs(number, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=(number, 2))
    return Dataset.from_list(
        [{"input_ids": rng.integers(4, 23, n).tolist(), "labels": rng.integers(4, 23, m).tolist()} for n, m in lengths]
    )


def texts(number):
    return pairs(number).remove_columns("labels")


def trainer_for(tmp_path, model, collator, train=None, evaluation=None, compute_metrics=None, **settings):
    settings = {"report_to": "none", "use_cpu": True, "save_strategy": "no", "remove_unused_columns": False} | settings
    args = TrainingArguments(str(tmp_path), **settings)
    return RegardTrainer(
        model, args, collator, train_dataset=train, eval_dataset=evaluation, compute_metrics=compute_metrics
    )


def models_and_data():
    mlm = texts(8).map(lambda row: {"labels": [-100, *row["input_ids"][1:]] if len(row["input_ids"]) > 1 else [7]})
    labelled = texts(8).map(lambda row, i: {"labels": i % 3}, with_indices=True)
    encoder = TransformerEncoderConfig(**SIZES, num_hidden_layers=1, num_labels=3)
    decoder = TransformerDecoderConfig(**SIZES, num_hidden_layers=1)
    return {
        "seq2seq": (lambda: seq2seq(), Seq2SeqCollator(0), pairs(8)),
        "causal": (lambda: TransformerDecoderForCausalLM(decoder), CausalLMCollator(0), texts(8)),
        "masked": (lambda: TransformerEncoderForMaskedLM(encoder), Seq2SeqCollator(0), mlm),
        "classifier": (
            lambda: TransformerEncoderForSequenceClassification(encoder),
            ClassificationCollator(0),
            labelled,
        ),
    }


@pytest.mark.parametrize("kind", ["seq2seq", "causal", "masked", "classifier"])
def test_accumulation_equals_a_larger_batch(tmp_path, kind):
    build, collator, data = models_and_data()[kind]
    found = []
    for size, steps in ((8, 1), (2, 4)):
        torch.manual_seed(0)
        trainer = trainer_for(
            tmp_path, build(), collator, data, max_steps=1, optim="sgd", learning_rate=0.1, max_grad_norm=0,
            per_device_train_batch_size=size, gradient_accumulation_steps=steps, logging_steps=1,
        )  # fmt: skip
        trainer.train()
        found.append((trainer.state.log_history[0]["loss"], trainer.model.state_dict()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for name, tensor in found[0][1].items():
        torch.testing.assert_close(tensor, found[1][1][name], rtol=1e-4, atol=1e-6)


def test_a_short_last_group_is_scaled_by_its_own_targets(tmp_path):
    """Five examples, four at a time: the second step is one example, and its loss that example's mean."""
    trainer = trainer_for(
        tmp_path, seq2seq(), Seq2SeqCollator(0), pairs(5), num_train_epochs=1, learning_rate=0.0, logging_steps=1,
        per_device_train_batch_size=1, gradient_accumulation_steps=4, train_sampling_strategy="sequential",
    )  # fmt: skip
    trainer.train()
    model = trainer.model.eval()
    batch = Seq2SeqCollator(0)([pairs(5)[4]])
    assert trainer.state.log_history[1]["loss"] == pytest.approx(model(**batch).loss.item(), rel=1e-5)


class Losses(torch.nn.Module):
    """A model whose targets have the losses that its input states: the arithmetic by hand."""

    def __init__(self):
        super().__init__()
        self.config = types.SimpleNamespace(is_encoder_decoder=False)
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, losses, labels, num_items_in_batch=None, **kwargs):
        total = (losses * labels.ne(-100)).sum() * self.scale
        number = labels.ne(-100).sum() if num_items_in_batch is None else num_items_in_batch
        return {"loss": total / number}


def test_the_loss_of_a_step_is_a_ratio_of_sums(tmp_path):
    """Token losses {4} and {2, 2, 2} are 2.5 together, not 3 (a mean of means) or 6 (a sum of means)."""
    data = [
        {"losses": torch.tensor([4.0, 9.0, 9.0]), "labels": torch.tensor([1, -100, -100])},
        {"losses": torch.tensor([2.0, 2.0, 2.0]), "labels": torch.tensor([1, 1, 1])},
    ]
    trainer = trainer_for(
        tmp_path, Losses(), None, data, max_steps=1, learning_rate=0.0, logging_steps=1,
        per_device_train_batch_size=1, gradient_accumulation_steps=2,
    )  # fmt: skip
    trainer.train()
    assert trainer.state.log_history[0]["loss"] == pytest.approx(2.5)


@pytest.mark.parametrize("batch_size", [1, 3, 7, 50])
def test_evaluation_loss_is_over_targets_for_any_batch_size(tmp_path, batch_size):
    model, data = seq2seq(label_smoothing=0.3), pairs(17)
    total = targets = 0
    for row in data:  # by hand: the library's cross-entropy on logits, one example at a time
        batch = Seq2SeqCollator(0)([row])
        with torch.no_grad():
            logits = model.eval()(**batch).logits[0]
        total += torch.nn.functional.cross_entropy(logits, batch["labels"][0], reduction="sum").item()
        targets += len(row["labels"])
    trainer = trainer_for(tmp_path, model, Seq2SeqCollator(0), evaluation=data, per_device_eval_batch_size=batch_size)
    metrics = trainer.evaluate()
    assert metrics["eval_loss"] == pytest.approx(total / targets, rel=1e-5)
    assert metrics["eval_perplexity"] == pytest.approx(math.exp(total / targets), rel=1e-4)


def test_causal_evaluation_counts_each_token_but_the_first():
    torch.manual_seed(0)
    model = TransformerDecoderForCausalLM(TransformerDecoderConfig(**SIZES, num_hidden_layers=1)).eval()
    data = texts(9)
    result = measure(model, EvaluationBatches(data, 4, CausalLMCollator(0)))
    total = 0.0
    for row in data:
        ids = torch.tensor([row["input_ids"]])
        with torch.no_grad():
            logits = model(ids).logits
        total += torch.nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="sum").item()
    assert result.targets == sum(len(row["input_ids"]) - 1 for row in data)
    assert result.loss == pytest.approx(total / result.targets, rel=1e-5)


def test_no_device_needs_float64(monkeypatch):
    """Apple's GPUs have none."""
    monkeypatch.setattr(torch.Tensor, "double", None)
    assert measure(seq2seq(), EvaluationBatches(pairs(3), 2, Seq2SeqCollator(0))).loss > 0


def test_rows_without_targets_do_not_count(tmp_path):
    data = [*pairs(3), {"input_ids": [5, 6], "labels": [-100, -100]}]
    with_it = measure(seq2seq(), EvaluationBatches(data, 1, Seq2SeqCollator(0)))
    without = measure(seq2seq(), EvaluationBatches(data[:3], 2, Seq2SeqCollator(0)))
    assert with_it.loss == pytest.approx(without.loss, rel=1e-6)
    assert measure(seq2seq(), EvaluationBatches(data[3:], 2, Seq2SeqCollator(0))).loss == 0.0


def test_evaluation_draws_nothing_and_leaves_the_mode(tmp_path):
    trainer = trainer_for(tmp_path, seq2seq(dropout=0.5).train(), Seq2SeqCollator(0), evaluation=pairs(5))
    state = torch.get_rng_state()
    first = trainer.evaluate()["eval_loss"]
    assert trainer.evaluate()["eval_loss"] == first
    assert torch.equal(torch.get_rng_state(), state)
    assert trainer.model.training


def test_predictions_are_one_array_of_classes_in_order(tmp_path):
    build, collator, data = models_and_data()["classifier"]
    seen = {}

    def metrics(prediction):
        seen["shape"], seen["labels"] = prediction.predictions.shape, prediction.label_ids.tolist()
        return {"accuracy": float((prediction.predictions == prediction.label_ids).mean())}

    trainer = trainer_for(
        tmp_path, build(), collator, evaluation=data, compute_metrics=metrics, per_device_eval_batch_size=3
    )
    result = trainer.evaluate()
    assert seen == {"shape": (8,), "labels": [i % 3 for i in range(8)]}
    assert "eval_accuracy" in result
    assert "eval_perplexity" not in result
    with torch.no_grad():
        expected = [trainer.model.eval()(**collator([row])).logits.argmax().item() for row in data]
    assert trainer.predict(data).predictions.tolist() == expected


def test_no_logits_are_made_where_only_the_loss_is_asked_for(tmp_path):
    model, seen = seq2seq(), []
    model.register_forward_hook(lambda module, args, output: seen.append(output.logits))
    trainer_for(tmp_path, model, Seq2SeqCollator(0), evaluation=pairs(6)).evaluate()
    trainer = trainer_for(tmp_path, model, Seq2SeqCollator(0), pairs(4), max_steps=1)
    trainer.train()
    assert seen
    assert all(logits is None for logits in seen)


def test_smoothing_goes_into_the_model_and_not_into_the_evaluation(tmp_path):
    plain = trainer_for(tmp_path, seq2seq(), Seq2SeqCollator(0), pairs(4), pairs(6)).evaluate()["eval_loss"]
    trainer = trainer_for(
        tmp_path, seq2seq(), Seq2SeqCollator(0), pairs(4), pairs(6), label_smoothing_factor=0.3, max_steps=1,
        learning_rate=0.0, per_device_train_batch_size=4, logging_steps=1,
    )  # fmt: skip
    assert trainer.evaluate()["eval_loss"] == pytest.approx(plain, rel=1e-6)
    trainer.train()
    batch = Seq2SeqCollator(0)(list(pairs(4)))
    with torch.no_grad():
        logits = trainer.model.eval()(**batch).logits.log_softmax(-1)
    real = batch["labels"] != -100
    picked = -logits[real].gather(1, batch["labels"][real][:, None]).mean()
    uniform = -logits[real].mean()
    logged = next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)
    assert logged == pytest.approx((0.7 * picked + 0.3 * uniform).item(), rel=1e-5)


def test_smoothing_that_would_do_nothing_is_refused(tmp_path):
    """A classifier's configuration has the field too, for the model with a head over tokens."""
    model = TransformerEncoderForSequenceClassification(TransformerEncoderConfig(**SIZES, num_hidden_layers=1))
    with pytest.raises(ValueError, match="TransformerEncoderForSequenceClassification does no label smoothing"):
        trainer_for(tmp_path, model, ClassificationCollator(0), label_smoothing_factor=0.1)


def test_a_column_too_many_does_no_harm(tmp_path):
    data = pairs(6).add_column("note", ["text"] * 6)
    trainer = trainer_for(tmp_path, seq2seq(), Seq2SeqCollator(0), data, data, max_steps=1, remove_unused_columns=True)
    trainer.train()
    assert "eval_loss" in trainer.evaluate()


def test_no_column_that_fits_is_named(tmp_path):
    data = Dataset.from_dict({"de": ["ja"], "en": ["yes"]})
    trainer = trainer_for(tmp_path, seq2seq(), Seq2SeqCollator(0), data, max_steps=1, remove_unused_columns=True)
    with pytest.raises(ValueError, match=r"input_ids.*de") as error:
        trainer.train()
    assert "en" in str(error.value)


def test_the_rate_is_a_function_of_optimiser_steps(tmp_path):
    """Linear warm-up and decay by their formula, at every step, with and without accumulation."""
    for accumulation in (1, 2):
        trainer = trainer_for(
            tmp_path, seq2seq(), Seq2SeqCollator(0), pairs(12), max_steps=10, warmup_steps=4, learning_rate=0.01,
            per_device_train_batch_size=2, gradient_accumulation_steps=accumulation, logging_steps=1,
        )  # fmt: skip
        trainer.train()
        rates = [entry["learning_rate"] for entry in trainer.state.log_history if "learning_rate" in entry]
        expected = [0.01 * (k / 4 if k < 4 else (10 - k) / 6) for k in range(10)]
        assert rates == pytest.approx(expected)


def test_a_warm_up_longer_than_the_training_is_told(tmp_path, caplog):
    settings = {"max_steps": 4, "per_device_train_batch_size": 2}
    trainer_for(tmp_path, seq2seq(), Seq2SeqCollator(0), pairs(8), warmup_steps=3, **settings).train()
    assert "warmup_steps" not in caplog.text
    trainer_for(tmp_path, seq2seq(), Seq2SeqCollator(0), pairs(8), warmup_steps=800, **settings).train()
    assert "rises until step 800, and the training ends at step 4" in caplog.text


@pytest.mark.parametrize("fast", [True, False])
def test_bfloat16_on_a_processor_that_does_not_multiply_it_is_told(tmp_path, caplog, monkeypatch, fast):
    monkeypatch.setattr("regard.train.trainer.multiplies_bfloat16", lambda device: fast)
    settings = {"max_steps": 1, "per_device_train_batch_size": 2, "bf16": True}
    trainer_for(tmp_path, seq2seq(), Seq2SeqCollator(0), pairs(8), **settings).train()
    assert ("this processor does not multiply bfloat16" in caplog.text) != fast


def test_a_loss_that_is_no_number_stops_before_a_checkpoint(tmp_path):
    data = [{"losses": torch.tensor([math.nan]), "labels": torch.tensor([1])}] * 4
    trainer = trainer_for(
        tmp_path, Losses(), None, data, max_steps=3, save_strategy="steps", save_steps=1, logging_steps=2
    )
    with pytest.raises(TrainingDiverged, match="loss is nan at step 1"):
        trainer.train()
    assert not list(tmp_path.glob("*checkpoint-*"))


def test_progress_is_plain_lines_without_a_terminal(tmp_path, capsys):
    trainer = trainer_for(
        tmp_path, seq2seq(), Seq2SeqCollator(0), pairs(8), pairs(3), max_steps=40, eval_strategy="steps",
        eval_steps=20, per_device_train_batch_size=2, logging_steps=1,
    )  # fmt: skip
    trainer.train()
    lines = capsys.readouterr().err.splitlines()
    steps = [line for line in lines if "tokens/s" in line]
    assert 20 <= len(steps) <= 22
    assert "of 40" in steps[-1]
    assert "loss" in steps[-1]
    assert "left" in steps[-1]
    assert sum("validation: loss" in line for line in lines) == 2
    assert not any("\r" in line for line in lines)


def test_tokens_are_counted_without_pads(tmp_path):
    data = pairs(8)
    trainer = trainer_for(
        tmp_path, seq2seq(), Seq2SeqCollator(0), data, num_train_epochs=2, per_device_train_batch_size=3
    )
    trainer.train()
    tokens = sum(len(row["input_ids"]) + len(row["labels"]) for row in data)
    assert trainer.state.log_history[-1]["tokens"] == 2 * tokens


MEMORY = """
import os, resource, sys
import torch
from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM
from regard.train.collators import CausalLMCollator
from regard.train.measure import EvaluationBatches, measure

def peak(number):
    read, write = os.pipe()
    if os.fork() == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        torch.manual_seed(0)
        model = TransformerDecoderForCausalLM(TransformerDecoderConfig(
            vocab_size=8000, hidden_size=8, num_attention_heads=1, intermediate_size=8, num_hidden_layers=1,
        ))
        rows = [{"input_ids": torch.randint(5, 8000, (128,)).tolist()} for _ in range(number)]
        measure(model, EvaluationBatches(rows, 32, CausalLMCollator(0)))
        os.write(write, str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before).encode())
        os._exit(0)
    os.wait()
    return int(os.read(read, 99))

print(peak(64), peak(640))
"""


def test_memory_does_not_grow_with_the_data():
    """A vocabulary of 8,000 and 128 tokens an example: ten times the examples, the same peak."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    small, large = map(int, done.stdout.split())
    assert small > 100_000  # kB: one batch's logits are 131 MB
    assert large < 1.2 * small


def run_on_two(script, tmp_path):
    """Runs a script on two CPU processes; returns what each wrote to `result-<rank>.json`."""
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={port}", path]
    environment = os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = str(ROOT)  # so that a script may import what the tests define
    done = subprocess.run(
        [*map(str, command), str(tmp_path)], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((tmp_path / f"result-{rank}.json").read_text()) for rank in (0, 1)]


TWO = """
import json, sys
import numpy as np
import torch
from transformers import TrainingArguments
from regard.train.measure import EvaluationBatches, measure
from regard.train.trainer import RegardTrainer
from regard.modeling import *
from regard.train.collators import *

folder = sys.argv[1]

def pairs(number):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, size=(number, 2))
    draw = lambda n: rng.integers(4, 23, n).tolist()
    return [{"input_ids": draw(n), "labels": draw(m)} for n, m in lengths]

class Value(torch.nn.Module):
    config = None
    def forward(self, value, labels, **kwargs):
        return type("Output", (), {"loss": value.mean(), "logits": torch.nn.functional.one_hot(labels, 9).float()})

def collate(rows):
    return {"value": torch.tensor([float(r) for r in rows]), "labels": torch.tensor(rows)}

args = TrainingArguments(
    folder, use_cpu=True, report_to="none", max_steps=12, warmup_steps=3, learning_rate=0.01, logging_steps=1,
    per_device_train_batch_size=2, save_strategy="no", optim="sgd", max_grad_norm=0,
    train_sampling_strategy="sequential", per_device_eval_batch_size=4, remove_unused_columns=False,
)
nine = EvaluationBatches(list(range(9)), 5, collate, args.process_index, args.world_size)
result = measure(Value(), nine, predict=True)
three = EvaluationBatches(list(range(3)), 5, collate, args.process_index, args.world_size)
torch.manual_seed(0)
model = TransformerForConditionalGeneration(TransformerConfig(
    vocab_size=23, hidden_size=8, num_attention_heads=2, intermediate_size=16, dropout=0.0, encoder_layers=1,
    decoder_layers=1,
))
trainer = RegardTrainer(
    model, args, Seq2SeqCollator(0), train_dataset=pairs(48), eval_dataset=pairs(13)
)
before = trainer.evaluate()["eval_loss"]
trainer.train()
rows = [e for e in trainer.state.log_history if "learning_rate" in e]
out = {
    "mean": result.loss, "examples": result.examples, "predictions": result.predictions.tolist(),
    "three": measure(Value(), three, predict=True).predictions.tolist(), "before": before,
    "rates": [e["learning_rate"] for e in rows], "losses": [e["loss"] for e in rows], "tokens": rows[-1]["tokens"],
    "weights": sum(p.double().abs().sum().item() for p in model.parameters()),
}
json.dump(out, open(f"{folder}/result-{args.process_index}.json", "w"))
"""


def test_two_processes_count_nothing_twice_and_train_as_one_does(tmp_path):
    first, second = run_on_two(TWO, tmp_path)
    assert first["mean"] == 4.0  # of 0..8; repeats would make it 3.6 or 4.4
    assert first["examples"] == 9
    assert first["predictions"] == list(range(9))
    assert first["three"] == [0, 1, 2]  # the second process has no batch of its own
    assert first["weights"] == second["weights"]
    torch.manual_seed(0)
    data = [row for row in _two_pairs(48)]
    trainer = trainer_for(
        tmp_path, seq2seq(label_smoothing=0.1), Seq2SeqCollator(0), data, _two_pairs(13), max_steps=12,
        warmup_steps=3, learning_rate=0.01, logging_steps=1, per_device_train_batch_size=4, optim="sgd",
        max_grad_norm=0, train_sampling_strategy="sequential",
    )  # fmt: skip
    assert first["before"] == pytest.approx(trainer.evaluate()["eval_loss"], rel=1e-6)
    trainer.train()
    rows = [entry for entry in trainer.state.log_history if "learning_rate" in entry]
    assert first["rates"] == pytest.approx([row["learning_rate"] for row in rows])
    assert first["losses"] == pytest.approx([row["loss"] for row in rows], rel=1e-5)
    assert first["tokens"] == rows[-1]["tokens"]
    weights = sum(p.double().abs().sum().item() for p in trainer.model.parameters())
    assert first["weights"] == pytest.approx(weights, rel=1e-6)


def _two_pairs(number):
    return list(pairs(number))


def test_tied_weights_are_not_reported_missing_on_resume(tmp_path, caplog):
    """A checkpoint holds them once; other keys that are missing are reported."""
    data, settings = pairs(6), {"save_strategy": "steps", "save_steps": 1}
    trainer_for(tmp_path, seq2seq(), Seq2SeqCollator(0), data, max_steps=1, **settings).train()
    trainer = trainer_for(tmp_path, seq2seq(), Seq2SeqCollator(0), data, max_steps=2, **settings)
    with listening(caplog):
        trainer.train(resume_from_checkpoint=True)
        assert "missing keys" not in caplog.text
        trainer._issue_warnings_after_load(trainer.model.load_state_dict({}, strict=False))
        assert "missing keys" in caplog.text
