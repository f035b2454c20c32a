"""A run that is killed, anywhere, and resumed ends where the whole run ends: losses and weights, bit for bit."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.train import checkpoints

# One process imports the libraries; each part of a run is a child of its own, forked before anything was computed.
SCRIPT = r"""
import json, os, signal, sys
import numpy as np
import torch
from torch.utils.data import IterableDataset
from transformers import TrainerCallback, TrainingArguments
from regard.modeling import TransformerConfig, TransformerForConditionalGeneration
from regard.train import checkpoints
from regard.train.collators import Seq2SeqCollator
from regard.train.run import EndlessStream
from regard.train.trainer import RegardTrainer

torch.set_num_threads(1)

def pairs(number):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, size=(number, 2))
    draw = lambda n: rng.integers(4, 23, n).tolist()
    return [{"input_ids": draw(n), "labels": draw(m)} for n, m in lengths]

class Stream(IterableDataset):
    def set_epoch(self, epoch):
        self.epoch = epoch
    def __iter__(self):
        data = pairs(10)
        for i in np.random.default_rng(self.epoch).permutation(len(data)):
            yield data[i]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Killer(TrainerCallback):
    def __init__(self, step):
        self.step = step
    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == self.step:  # the checkpoint of this step is there
            die()

def part(folder, resume=False, kill_at=None, kill_in_save=None, stream=False, dropout=0.1, **settings):
    torch.manual_seed(3)
    model = TransformerForConditionalGeneration(TransformerConfig(
        vocab_size=23, hidden_size=8, num_attention_heads=2, intermediate_size=16, dropout=dropout, encoder_layers=1,
        decoder_layers=1,
    ))
    settings = {"num_train_epochs": 3, "gradient_accumulation_steps": 2, "eval_strategy": "epoch"} | settings
    settings = {"logging_steps": 1, "save_steps": 1} | settings
    args = TrainingArguments(
        folder, use_cpu=True, report_to="none", per_device_train_batch_size=2, learning_rate=0.01,
        save_strategy="steps", save_total_limit=2, remove_unused_columns=False, **settings,
    )
    data = EndlessStream(Stream()) if stream else pairs(28)  # 14 batches, 7 steps
    trainer = RegardTrainer(
        model, args, Seq2SeqCollator(0), train_dataset=data, eval_dataset=pairs(5),
        callbacks=[Killer(kill_at)] if kill_at else [],
    )
    if kill_in_save:
        place, step = kill_in_save
        owner = checkpoints if hasattr(checkpoints, place) else trainer
        original = getattr(owner, place)
        def interrupted(*args, **kwargs):
            if trainer.state.global_step != step:
                return original(*args, **kwargs)
            if place == "_save_rng_state":
                original(*args, **kwargs)  # almost all is written
            die()
        setattr(owner, place, interrupted)
    trainer.train(resume_from_checkpoint=resume or None)
    if args.process_index == 0:
        trainer.save_model(folder)
        losses = {e["step"]: e["loss"] for e in trainer.state.log_history if "loss" in e}
        evals = {e["step"]: e["eval_loss"] for e in trainer.state.log_history if "eval_loss" in e}
        tokens = {e["step"]: e["tokens"] for e in trainer.state.log_history if "tokens" in e}
        record = {"losses": losses, "evals": evals, "tokens": tokens, "steps": trainer.state.global_step}
        json.dump(record, open(f"{folder}/record.json", "w"))

def child(*args, **kwargs):
    pid = os.fork()
    if pid == 0:
        try:
            part(*args, **kwargs)
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

if __name__ == "__main__":
    for arguments in json.loads(sys.argv[1]):
        expected = arguments.pop("expected", 0)
        code = child(**arguments)
        assert code == expected, (arguments, code)
"""


def run_parts(tmp_path, *parts):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    for part in parts:
        part["folder"] = str(tmp_path / part["folder"])
        if "kill_at" in part or "kill_in_save" in part:
            part["expected"] = -9
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(parts)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def same(tmp_path, one, other):
    records = [json.loads((tmp_path / name / "record.json").read_text()) for name in (one, other)]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in (one, other)]
    assert records[0]["losses"] == records[1]["losses"]
    assert records[0]["evals"] == records[1]["evals"]
    assert records[0]["tokens"] == records[1]["tokens"]
    assert weights[0] == weights[1]
    return records[0]


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir() if "checkpoint" in path.name)


def test_killed_and_resumed_is_the_whole_run(tmp_path):
    """Dropout 0.1, accumulation, 3 epochs of 7 steps: killed inside an epoch, at its edge, and in three places of a
    save."""
    run_parts(
        tmp_path,
        {"folder": "whole"},
        {"folder": "mid", "kill_at": 5},
        {"folder": "mid", "resume": True, "kill_at": 16},
        {"folder": "mid", "resume": True},
        {"folder": "edge", "kill_at": 7},
        {"folder": "edge", "resume": True},
        {"folder": "save", "kill_in_save": ["_save_optimizer_and_scheduler", 4]},
        {"folder": "save", "resume": True, "kill_in_save": ["_save_rng_state", 9]},
        {"folder": "save", "resume": True, "kill_in_save": ["rotate", 12]},
        {"folder": "save", "resume": True},
    )
    record = same(tmp_path, "whole", "mid")
    assert record["steps"] == 21
    assert len(record["losses"]) == 21
    same(tmp_path, "whole", "edge")
    same(tmp_path, "whole", "save")
    for name in ("whole", "mid", "edge", "save"):
        assert names(tmp_path / name) == ["checkpoint-20", "checkpoint-21"]
        assert not list((tmp_path / name).rglob("training_args.bin"))


def test_more_epochs_and_a_finished_run(tmp_path):
    """With a rate that does not depend on the end, two epochs and then a third are three; resuming what is finished
    makes no step more, and `max_steps` in the middle of an epoch is an end like another."""
    run_parts(
        tmp_path,
        {"folder": "whole", "lr_scheduler_type": "constant_with_warmup", "warmup_steps": 5},
        {"folder": "more", "num_train_epochs": 2, "lr_scheduler_type": "constant_with_warmup", "warmup_steps": 5},
        {"folder": "more", "resume": True, "lr_scheduler_type": "constant_with_warmup", "warmup_steps": 5},
        {"folder": "short", "max_steps": 9},
        {"folder": "again", "max_steps": 9},
        {"folder": "again", "max_steps": 9, "resume": True},
    )
    same(tmp_path, "whole", "more")
    assert same(tmp_path, "short", "again")["steps"] == 9


def test_what_was_not_yet_logged_is_kept(tmp_path):
    """Logs every 3 steps and saves every 2: what came since the last log is logged with each checkpoint."""
    settings = {"logging_steps": 3, "save_steps": 2, "max_steps": 9}
    run_parts(
        tmp_path,
        {"folder": "whole", **settings},
        {"folder": "killed", **settings, "kill_at": 5},
        {"folder": "killed", **settings, "resume": True},
    )
    assert list(same(tmp_path, "whole", "killed")["losses"]) == ["2", "3", "4", "6", "8", "9"]


def test_it_may_log_and_save_at_other_steps(tmp_path):
    """Every step until it is killed at the fifth; then every fourth is logged and every tenth saved, and what is saved
    is logged. The library would go on as before, and warn that the arguments do not match."""
    done = run_parts(
        tmp_path,
        {"folder": "whole"},
        {"folder": "other", "kill_at": 5},
        {"folder": "other", "resume": True, "logging_steps": 4, "save_steps": 10},
    )
    steps = json.loads((tmp_path / "other" / "record.json").read_text())["losses"]
    assert list(steps) == ["1", "2", "3", "4", "5", "8", "10", "12", "16", "20", "21"]
    assert "do not match" not in done.stderr
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("whole", "other")]
    assert weights[0] == weights[1]


def test_a_stream_goes_on_in_a_later_pass(tmp_path):
    """5 batches a pass and 12 batches in all: killed in the second pass."""
    settings = {"stream": True, "max_steps": 6, "eval_strategy": "no"}
    run_parts(
        tmp_path,
        {"folder": "whole", **settings},
        {"folder": "killed", **settings, "kill_at": 4},
        {"folder": "killed", **settings, "resume": True},
    )
    same(tmp_path, "whole", "killed")


def launch_two(tmp_path, *parts):
    """Each part by two processes of `accelerate launch` together, one part after another; returns what ended."""
    (tmp_path / "script.py").write_text(SCRIPT)
    launcher = tmp_path / "launch.py"
    launcher.write_text("import json, sys\nfrom script import part\nfor one in json.loads(sys.argv[1]): part(**one)\n")
    parts = [{**one, "folder": str(tmp_path / one["folder"])} for one in parts]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    return subprocess.run(
        [sys.executable, *command, "--main_process_port", str(port), str(launcher), json.dumps(parts)],
        env=os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_two_processes_resume_too(tmp_path):
    assert launch_two(tmp_path, {"folder": "whole", "max_steps": 6}).returncode == 0
    assert launch_two(tmp_path, {"folder": "killed", "max_steps": 6, "kill_at": 5}).returncode != 0
    assert names(tmp_path / "killed") == ["checkpoint-4", "checkpoint-5"]
    done = launch_two(tmp_path, {"folder": "killed", "max_steps": 6, "resume": True})
    assert done.returncode == 0, done.stderr[-3000:]
    same(tmp_path, "whole", "killed")


@pytest.mark.slow
def test_checkpoints_of_one_process_and_of_two_are_interchangeable(tmp_path):
    """A run begun by two processes is ended by one, and the other way round, in the middle of the second epoch: one
    with twice the accumulation makes the same steps. Without dropout, whose masks each process draws itself."""
    plain = {"dropout": 0.0, "lr_scheduler_type": "constant_with_warmup", "warmup_steps": 5}
    one, two = {**plain, "gradient_accumulation_steps": 2}, {**plain, "gradient_accumulation_steps": 1}
    run_parts(
        tmp_path,
        {"folder": "whole", **one},
        {"folder": "begun-by-one", "max_steps": 9, **one},
    )
    done = launch_two(
        tmp_path,
        {"folder": "begun-by-two", "max_steps": 9, **two},
        {"folder": "begun-by-one", "resume": True, **two},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert {path.name for path in (tmp_path / "begun-by-two/checkpoint-9").glob("rng_state*")} == {
        "rng_state_0.pth",
        "rng_state_1.pth",
    }
    run_parts(tmp_path, {"folder": "begun-by-two", "resume": True, **one})

    whole = json.loads((tmp_path / "whole/record.json").read_text())
    weights = load_file(tmp_path / "whole/model.safetensors")
    assert whole["steps"] == len(whole["losses"]) == 21
    for name in ("begun-by-one", "begun-by-two"):
        record = json.loads((tmp_path / name / "record.json").read_text())
        assert record["steps"] == 21
        assert record["tokens"] == whole["tokens"]
        # Sums in another order, as in test_processes.py; a batch left out or taken twice shows by 1e-2.
        assert record["losses"] == pytest.approx(whole["losses"], rel=1e-4), name
        evals = {step: record["evals"][step] for step in whole["evals"]}  # and at 9, where the first part ended
        assert evals == pytest.approx(whole["evals"], rel=1e-4), name
        torch.testing.assert_close(load_file(tmp_path / name / "model.safetensors"), weights, rtol=1e-3, atol=1e-4)
        assert set(load_file(tmp_path / name / "checkpoint-21/model.safetensors")) == set(weights)


# --- the folder's rules ----------------------------------------------------------------------------------------------


def checkpoint(run, step, complete=True):
    folder = run / f"checkpoint-{step}"
    folder.mkdir(parents=True)
    save_file({"w": torch.full((2,), float(step))}, folder / "model.safetensors")
    if complete:
        (folder / "trainer_state.json").write_text("{}")
    return folder


def test_only_complete_checkpoints_count(tmp_path):
    checkpoint(tmp_path, 9)
    checkpoint(tmp_path, 10)
    checkpoint(tmp_path, 11, complete=False)
    (tmp_path / ".saving-checkpoint-12").mkdir()
    (tmp_path / "checkpoint-best").mkdir()
    assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == ["checkpoint-9", "checkpoint-10"]
    assert checkpoints.last_checkpoint(tmp_path).name == "checkpoint-10"
    assert checkpoints.last_checkpoint(tmp_path / "nothing") is None


def test_leftovers_are_removed_and_a_replaced_checkpoint_comes_back(tmp_path):
    checkpoint(tmp_path, 3)
    checkpoint(tmp_path, 4).rename(tmp_path / ".replaced-checkpoint-4")  # killed between two renames
    checkpoint(tmp_path, 2).rename(tmp_path / ".removing-checkpoint-2")
    (tmp_path / ".saving-checkpoint-5").mkdir()
    (tmp_path / "logs").mkdir()
    checkpoints.tidy(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-3", "checkpoint-4", "logs"]


@pytest.mark.parametrize(
    ("limit", "best", "left"),
    [
        (2, None, [3, 4]),
        (1, None, [4]),
        (2, "checkpoint-1", [1, 4]),
        (1, "checkpoint-1", [1, 4]),
        (None, None, [1, 2, 3, 4]),
    ],
)
def test_the_latest_and_the_best_stay(tmp_path, limit, best, left):
    for step in (1, 2, 3, 4):
        checkpoint(tmp_path, step)
    checkpoints.rotate(tmp_path, limit, best)
    assert [checkpoints.step_of(path) for path in checkpoints.list_checkpoints(tmp_path)] == left


def test_publishing_replaces_and_the_average_is_the_mean(tmp_path):
    one, two = checkpoint(tmp_path, 1), checkpoint(tmp_path, 2)
    assert checkpoints.average_weights([one, two])["w"].tolist() == [1.5, 1.5]
    other = tmp_path / "other"
    checkpoint(other, 2).rename(checkpoints.staging(two))
    save_file({"w": torch.full((2,), 5.0)}, checkpoints.staging(two) / "model.safetensors")
    checkpoints.publish(two)
    assert load_file(two / "model.safetensors")["w"].tolist() == [5.0, 5.0]
    assert names(tmp_path) == ["checkpoint-1", "checkpoint-2"]
    save_file({"v": torch.zeros(2)}, one / "model.safetensors")
    with pytest.raises(ValueError, match="cannot be averaged"):
        checkpoints.average_weights([two, one])
