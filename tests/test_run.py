"""Whole runs, tiny: from a recipe and a file to a folder that loads, evaluates and resumes."""

import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer

from regard.train import building, checkpoints, demo
from regard.train.building import build_tokenizer
from regard.train.demo import run_demo
from regard.train.evaluate import evaluate_run
from regard.train.recipe import load_recipe
from regard.train.run import check_folder, train
from regard.train.trainer import RegardTrainer

SMALL = [
    "model.hidden_size=16",
    "model.num_attention_heads=2",
    "model.intermediate_size=32",
    "tokenizer.kind=word",
    "tokenizer.vocab_size=60",
    "tokenizer.min_frequency=1",
    "training.learning_rate=0.01",
    "training.warmup_steps=2",
    "training.logging_steps=2",
]
SEQ2SEQ = ["model.encoder_layers=1", "model.decoder_layers=1", "evaluation.max_new_tokens=8", "evaluation.num_beams=2"]
WORDS = list("abcdefghijklmnop")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Letters to capitals, a text, and texts with a label."""
    folder = tmp_path_factory.mktemp("data")
    rng = random.Random(0)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(1, 7))) for _ in range(80)]
    for name, part in (("train", lines[:60]), ("valid", lines[60:68]), ("test", lines[68:])):
        rows = "".join(f"{line}\t{line.upper()}\n" for line in part)
        (folder / f"{name}.tsv").write_text("source\ttarget\n" + rows)
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps({"text": line, "label": "has a" if "a" in line else "none"}) + "\n" for line in part)
        )
    return folder


def recipe_file(files, task="translation", name="tiny", more=()):
    kind = {"translation": "transformer", "causal-lm": "decoder"}.get(task, "encoder")
    suffix = {"translation": "tsv", "sequence-classification": "jsonl"}.get(task, "txt")
    data = {split: str(files / f"{split}.{suffix}") for split in ("train", "test")}
    data["validation"] = str(files / f"valid.{suffix}")
    text = {"name": name, "task": task, "model": {"type": kind}, "data": data}
    text["training"] = {"num_train_epochs": 2, "eval_strategy": "epoch", "save_strategy": "epoch"}
    path = files / f"{name}-{task}.yaml"
    path.write_text(json.dumps(text))  # JSON is YAML
    settings = [*SMALL, *(SEQ2SEQ if task == "translation" else ["model.num_hidden_layers=1"])]
    return path, [*settings, *more]


def translation(files, *more):
    base = ["data.max_tokens_per_batch=64", "evaluation.metrics=[bleu,exact_match]", "evaluation.samples=3"]
    path, settings = recipe_file(files, more=[*base, *more])
    return load_recipe(path, settings)


@pytest.fixture(scope="module")
def run(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    recipe = translation(files, "evaluation.average_checkpoints=2", "training.save_total_limit=3")
    return folder, recipe, train(recipe, str(folder))


def test_the_folder_holds_the_run(run):
    folder, recipe, metrics = run
    present = {path.name for path in folder.iterdir()}
    assert present >= {
        "config.json", "model.safetensors", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "modeling_seq2seq.py", "recipe.yaml", "metrics.json", "history.json", "loss_curve.png", "logs", "README.md",
    }  # fmt: skip
    assert not [path for path in folder.rglob("*") if path.name == "training_args.bin" or path.suffix == ".bin"]
    assert not [name for name in present if name.startswith(".")]
    assert any(path.name.startswith("events.") for path in (folder / "logs").iterdir())
    assert load_recipe(folder) == recipe
    assert json.loads((folder / "metrics.json").read_text()) == metrics
    history = json.loads((folder / "history.json").read_text())
    assert [row["epoch"] for row in history if "eval_loss" in row] == [1, 2]


def test_the_records_say_what_was_measured(run):
    _, recipe, metrics = run
    assert metrics["recipe"] == "tiny"
    assert metrics["data"]["train"]["rows"] == 60
    assert 0 < metrics["data"]["train"]["pad_share"] < 0.5
    tokens = metrics["data"]["train"]["tokens"]
    assert metrics["training"]["tokens"] == 2 * tokens
    rate = metrics["training"]["tokens"] / metrics["training"]["seconds"]
    assert metrics["training"]["tokens_per_second"] == pytest.approx(rate)
    assert set(metrics["evaluation"]) == {"validation", "test"}
    assert metrics["evaluation"]["test"].keys() >= {"loss", "perplexity", "bleu", "bleu_signature", "exact_match"}
    assert [set(sample) for sample in metrics["samples"]] == [{"source", "target", "prediction"}] * 3
    assert metrics["model"]["class"] == "TransformerForConditionalGeneration"
    assert metrics["environment"]["torch"] == torch.__version__


def test_the_weights_are_the_mean_of_the_last_checkpoints(run):
    folder, _, metrics = run
    steps = metrics["training"]["averaged_checkpoints"]
    assert steps == [checkpoints.step_of(path) for path in checkpoints.list_checkpoints(folder)][-2:]
    parts = [load_file(folder / f"checkpoint-{step}" / "model.safetensors") for step in steps]
    saved = load_file(folder / "model.safetensors")
    for name, tensor in saved.items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, (parts[0][name] + parts[1][name]) / 2)


def test_the_saved_settings_are_the_recipes(run):
    folder, recipe, _ = run
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    generation = model.generation_config
    assert (generation.num_beams, generation.max_new_tokens) == (2, 8)
    assert (generation.pad_token_id, generation.bos_token_id, generation.eos_token_id) == (0, 1, 2)
    assert generation.decoder_start_token_id == 1
    assert model.config.vocab_size == len(tokenizer)
    assert model.config.max_position_embeddings == 128
    assert model.config.label_smoothing == 0.1
    assert model.config.use_cache


def test_evaluating_again_gives_the_same_numbers(run):
    folder, _, metrics = run
    before = (folder / "metrics.json").read_text()
    assert evaluate_run(folder) == metrics["evaluation"]
    assert json.loads((folder / "metrics.json").read_text()) == json.loads(before)
    only = evaluate_run(folder, "test", num_beams=1, batch_size=1)
    assert list(only) == ["test"]
    assert only["test"]["loss"] == pytest.approx(metrics["evaluation"]["test"]["loss"], rel=1e-5)
    assert (folder / "metrics.json").read_text() == before
    assert "bleu" in evaluate_run(folder, "train")["train"]
    with pytest.raises(ValueError, match="no split 'tset'.*validation"):
        evaluate_run(folder, "tset")
    with pytest.raises(ValueError, match="no setting 'beams'"):
        evaluate_run(folder, beams=3)


def test_a_folder_that_is_taken_is_refused(run, files, tmp_path):
    folder, recipe, _ = run
    with pytest.raises(ValueError, match="finished run.*--resume.*--output.*--overwrite"):
        train(recipe, str(folder))
    (tmp_path / "notes.txt").write_text("mine")
    for settings in ({}, {"overwrite": True}):
        with pytest.raises(ValueError, match="not a run"):
            train(recipe, str(tmp_path), **settings)
    with pytest.raises(ValueError, match="no run.*to resume"):
        train(recipe, str(tmp_path / "none"), resume=True)
    changed = translation(files, "training.learning_rate=0.02")
    with pytest.raises(ValueError, match=r"training\.learning_rate: 0\.02 differs from 0\.01"):
        train(changed, str(folder), resume=True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_run_does_not_go_on_with_other_data(run, files, split):
    folder, recipe, _ = run
    file, before = files / f"{split}.tsv", (files / f"{split}.tsv").read_bytes()
    file.write_bytes(before + before.splitlines(keepends=True)[-1])
    with pytest.raises(ValueError, match=rf"'.*{split}\.tsv' holds something else than when '.*tiny' began: put that"):
        train(recipe, str(folder), resume=True)
    file.write_bytes(before)
    assert (folder / "metrics.json").is_file()


def test_a_resumed_step_is_made_of_as_many_examples(run, files, tmp_path, monkeypatch):
    """In tests/test_resume.py two processes go on to the same losses where one with twice the accumulation stopped."""
    folder = tmp_path / "run"
    shutil.copytree(run[0], folder)
    plain, twice = translation(files), translation(files, "training.gradient_accumulation_steps=2")

    def resumes(recipe, processes):
        monkeypatch.setenv("WORLD_SIZE", str(processes))
        check_folder(folder, recipe, resume=True, overwrite=False)

    resumes(plain, 1)
    with pytest.raises(ValueError, match=r"steps: 2 on 1 process makes .* began with, 1 on 1 process: set .*=1\."):
        resumes(twice, 1)
    with pytest.raises(ValueError, match=r"steps: 1 on 2 processes makes .* 1 on 1 process: launch 1 again\."):
        resumes(plain, 2)

    for process in range(2):  # as if two had begun it: each keeps a random state
        (checkpoints.last_checkpoint(folder) / f"rng_state_{process}.pth").touch()
    resumes(plain, 2)
    resumes(twice, 1)
    with pytest.raises(ValueError, match=r"steps: 1 on 1 process makes .* 1 on 2 processes: set training.*=2\."):
        resumes(plain, 1)


def test_a_folder_with_ones_own_recipe_is_not_deleted(run, tmp_path):
    _, recipe, _ = run
    recipe.save(tmp_path / "recipe.yaml")
    (tmp_path / "metrics.json").write_text("{}")
    for settings, sentence in (({"overwrite": True}, "not a run"), ({}, "not a run"), ({"resume": True}, "no run")):
        with pytest.raises(ValueError, match=sentence):
            train(recipe, str(tmp_path), **settings)
    assert {path.name for path in tmp_path.iterdir()} == {"recipe.yaml", "metrics.json"}


def test_a_run_of_another_task_is_known_by_its_own_recipe(run, tmp_path):
    """Of linear regression, which has no tokenizer, and of one that has, each in the other's place."""
    regression = load_recipe("in-context/linear-regression")
    unfinished = tmp_path / "lines"
    unfinished.mkdir()
    regression.save(unfinished / "recipe.yaml")
    (unfinished / "config.json").write_text("{}")
    for folder, recipe in ((unfinished, run[1]), (run[0], regression)):
        check_folder(folder, recipe, resume=False, overwrite=True)
        with pytest.raises(ValueError, match="already holds a"):
            check_folder(folder, recipe, resume=False, overwrite=False)
        with pytest.raises(ValueError, match="task: '.*' is not the task of the run"):
            check_folder(folder, recipe, resume=True, overwrite=False)
    (unfinished / "config.json").unlink()  # a recipe alone
    with pytest.raises(ValueError, match="not a run"):
        check_folder(unfinished, run[1], resume=False, overwrite=True)


def test_a_run_whose_recipe_is_broken_is_a_run_still(run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "recipe.yaml").write_text("name: [")
    (folder / "tokenizer.json").write_text("{}")
    check_folder(folder, run[1], resume=False, overwrite=True)
    with pytest.raises(ValueError, match="is not valid YAML"):
        check_folder(folder, run[1], resume=True, overwrite=False)


@pytest.mark.parametrize("task", ["translation", "causal-lm", "masked-lm", "sequence-classification"])
def test_a_streamed_run(files, tmp_path, task):
    """Evaluated in its midst and at its end, with validation rows taken from the stream."""
    more = ["data.streaming=true", "training.max_steps=3", "training.per_device_train_batch_size=4"]
    more += ["training.eval_strategy=steps", "training.eval_steps=2", "evaluation.samples=2", "data.block_size=16"]
    more += ["tokenizer.max_texts=40", "evaluation.max_new_tokens=4"]
    more += [] if task.endswith("lm") else ["data.validation=10"]
    more += ["evaluation.metrics=[accuracy]"] if task == "sequence-classification" else []
    path, settings = recipe_file(files, task, name="stream", more=more)
    metrics = train(load_recipe(path, settings), str(tmp_path / "run"))
    assert metrics["training"]["steps"] == 3
    assert set(metrics["evaluation"]) == {"validation", "test"}
    if not task.endswith("lm"):
        assert metrics["data"]["validation"]["rows"] == 10
    assert len(metrics["samples"]) == (0 if task == "masked-lm" else 2)
    assert evaluate_run(tmp_path / "run") == metrics["evaluation"]
    with pytest.raises(ValueError, match=r"data\.streaming"):
        evaluate_run(tmp_path / "run", "train")


def test_a_tokenizer_is_trained_on_so_many_rows(files):
    recipe = translation(files, "tokenizer.max_texts=1")
    split = Dataset.from_list([{"source": "a b", "target": "A B"}, {"source": "c", "target": "C"}])
    for rows in (split, split.to_iterable_dataset()):
        assert {*build_tokenizer(recipe, rows).get_vocab()} >= {"a", "b", "A", "B"}
        assert not {"c", "C"} & {*build_tokenizer(recipe, rows).get_vocab()}


def test_all_reports_hold_tensorboard_once(files, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "get_available_reporting_integrations", lambda: ["tensorboard", "wandb"])
    recipe = translation(files, "training.report_to=all")
    assert building.training_arguments(recipe, str(tmp_path)).report_to == ["wandb"]
    assert building.wants_tensorboard(recipe)


def test_evaluating_reads_only_what_it_measures(files, tmp_path):
    moved = tmp_path / "train.jsonl"
    moved.write_bytes((files / "train.jsonl").read_bytes())
    more = ["evaluation.metrics=[accuracy]", "data.max_length=32", f"data.train={moved}"]
    path, settings = recipe_file(files, "sequence-classification", more=more)
    metrics = train(load_recipe(path, settings), str(tmp_path / "run"))
    moved.unlink()
    assert evaluate_run(tmp_path / "run", "test")["test"] == metrics["evaluation"]["test"]
    before = (tmp_path / "run" / "metrics.json").read_text()
    mine = f"data.test.mine={files / 'valid.jsonl'}"
    assert evaluate_run(tmp_path / "run", "mine", [mine])["test:mine"] == metrics["evaluation"]["validation"]
    assert (tmp_path / "run" / "metrics.json").read_text() == before
    with pytest.raises(ValueError, match=r"'model\.type=x' is no data to evaluate on"):
        evaluate_run(tmp_path / "run", overrides=["model.type=x"])


def test_what_is_wrong_with_the_data_leaves_everything_as_it_was(run, files, tmp_path):
    folder, recipe, _ = run
    bad = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, max_tokens_per_batch=3))
    with pytest.raises(ValueError, match=r"data\.max_tokens_per_batch: 3 is less"):
        train(bad, str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()
    with pytest.raises(ValueError, match=r"data\.max_tokens_per_batch"):
        train(bad, str(folder), overwrite=True)
    assert (folder / "metrics.json").is_file()


def test_more_epochs_go_on_where_the_run_ended(files, tmp_path):
    """With a rate that knows no end, 1 epoch and 1 more are 2 from the start, bit for bit."""
    constant = "training.lr_scheduler_type=constant_with_warmup"
    two = train(translation(files, constant), str(tmp_path / "two"))
    train(translation(files, constant, "training.num_train_epochs=1"), str(tmp_path / "more"))
    more = train(translation(files, constant), str(tmp_path / "more"), resume=True)
    assert more["training"]["steps"] == two["training"]["steps"]
    assert more["training"]["tokens"] == two["training"]["tokens"]
    assert more["evaluation"] == two["evaluation"]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("two", "more")]
    assert weights[0] == weights[1]
    again = train(translation(files, constant), str(tmp_path / "two"), resume=True)  # finished: measures again
    assert again["evaluation"] == two["evaluation"]
    assert (tmp_path / "two" / "model.safetensors").read_bytes() == weights[0]


def test_a_run_too_short_for_a_log_is_finished_without_a_curve(files, tmp_path):
    settings = ["max_steps=1", "logging_steps=50", "eval_strategy=no", "save_strategy=no"]
    recipe = translation(files, *(f"training.{setting}" for setting in settings), "evaluation.average_checkpoints=0")
    assert train(recipe, str(tmp_path / "short"))["training"]["steps"] == 1
    assert "loss_curve.png" not in (tmp_path / "short" / "README.md").read_text(encoding="utf-8")


def test_a_checkpoint_that_was_being_replaced_is_gone_on_from(files, tmp_path, monkeypatch):
    """The folder is tidied before any process looks for the last checkpoint."""
    train(translation(files), str(tmp_path / "run"))
    last = checkpoints.last_checkpoint(tmp_path / "run")
    last.rename(last.with_name(f".replaced-{last.name}"))  # killed between two renames
    seen, original = [], RegardTrainer.train
    monkeypatch.setattr(
        RegardTrainer,
        "train",
        lambda self, resume_from_checkpoint: seen.append(resume_from_checkpoint) or original(self, last),
    )
    train(translation(files), str(tmp_path / "run"), resume=True)
    assert seen == [last]


def test_a_tokenizer_that_is_not_there_is_found_before_the_data_is_read(files, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.train.run.load_splits", None)
    with pytest.raises(ValueError, match=r"tokenizer\.path: .*none' cannot be loaded"):
        train(translation(files, f"tokenizer.path={tmp_path / 'none'}"), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_the_command_killed_and_resumed_is_the_whole_run(files, tmp_path):
    """The real command, killed by SIGKILL as soon as its first checkpoint is there."""
    path, settings = recipe_file(files, more=["data.max_tokens_per_batch=64", "training.num_train_epochs=12"])
    settings += ["evaluation.metrics=[exact_match]", "training.save_total_limit=2"]
    command = [sys.executable, "-m", "regard", "train", str(path), *settings, "--output"]
    whole = train(load_recipe(path, settings), str(tmp_path / "whole"))
    killed = tmp_path / "killed"
    process = subprocess.Popen([*command, str(killed)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 120
    while not checkpoints.list_checkpoints(killed) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors[-2000:]
    done = subprocess.run([*command, str(killed), "--resume", "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["evaluation"] == whole["evaluation"]
    weights = [(folder / "model.safetensors").read_bytes() for folder in (tmp_path / "whole", killed)]
    assert weights[0] == weights[1]


def test_a_language_model_and_its_perplexity(files, tmp_path):
    path, settings = recipe_file(files, "causal-lm", more=["data.block_size=16", "evaluation.max_new_tokens=5"])
    metrics = train(load_recipe(path, [*settings, "evaluation.samples=2"]), str(tmp_path / "lm"))
    test = metrics["evaluation"]["test"]
    assert test["perplexity"] == pytest.approx(torch.tensor(test["loss"]).exp().item(), rel=1e-4)
    assert len(metrics["samples"]) == 2
    assert evaluate_run(tmp_path / "lm") == metrics["evaluation"]


def test_a_masked_language_model(files, tmp_path):
    path, settings = recipe_file(files, "masked-lm", more=["data.block_size=16"])
    metrics = train(load_recipe(path, settings), str(tmp_path / "mlm"))
    assert evaluate_run(tmp_path / "mlm") == metrics["evaluation"]
    assert metrics["evaluation"]["validation"]["perplexity"] > 1


def test_a_classifier_knows_its_labels_by_name(files, tmp_path):
    more = ["evaluation.metrics=[accuracy,f1]", "training.per_device_train_batch_size=8", "evaluation.samples=4"]
    path, settings = recipe_file(files, "sequence-classification", more=[*more, "data.max_length=32"])
    metrics = train(load_recipe(path, settings), str(tmp_path / "classes"))
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "classes")
    assert model.config.id2label == {0: "has a", 1: "none"}
    assert {sample["prediction"] for sample in metrics["samples"]} <= {"has a", "none"}
    assert metrics["evaluation"]["test"].keys() >= {"loss", "accuracy", "f1"}
    assert evaluate_run(tmp_path / "classes") == metrics["evaluation"]
    history = json.loads((tmp_path / "classes" / "history.json").read_text())
    assert [row for row in history if "eval_accuracy" in row]


def test_two_processes_make_one_run(files, tmp_path):
    path, settings = recipe_file(files, more=["training.per_device_train_batch_size=4", "training.num_train_epochs=1"])
    command = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port"]
    command += [str(20_000 + os.getpid() % 20_000), "-m", "regard", "train", str(path), *settings, "--json"]
    done = subprocess.run(
        [sys.executable, *command, "--output", str(tmp_path / "two")],
        env=os.environ | {"ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    metrics = json.loads(done.stdout)  # one process alone prints
    assert metrics["training"]["processes"] == 2
    assert metrics["training"]["steps"] == 8  # 60 pairs, 8 at a time
    assert evaluate_run(tmp_path / "two") == metrics["evaluation"]
    history = json.loads((tmp_path / "two" / "history.json").read_text())
    logged = next(row["eval_loss"] for row in history if "eval_loss" in row)
    assert logged == pytest.approx(metrics["evaluation"]["validation"]["loss"], rel=1e-5)


def test_the_demo_in_short(tmp_path, capsys):
    small = ["model.hidden_size=32", "model.num_attention_heads=2", "model.intermediate_size=64"]
    result = run_demo(str(tmp_path / "demo"), [*small, "evaluation.max_new_tokens=6"], max_steps=6)
    shown = capsys.readouterr().out
    assert result["elsewhere"] == result["translations"][0]["prediction"]
    assert result["translations"][0]["source"] == "The cat ate the mouse."
    assert (tmp_path / "demo" / "cross_attention.png").stat().st_size > 1000
    assert result["training"]["steps"] == 6
    assert "right to the" in shown
    assert f"regard translate {tmp_path}/demo" in shown
    with pytest.raises(ValueError, match="--overwrite"):
        run_demo(str(tmp_path / "demo"), max_steps=6)


def test_the_demo_names_commands_that_the_shell_finds(tmp_path, monkeypatch):
    tool = tmp_path / "bin" / "regard"
    tool.parent.mkdir()
    tool.touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(tool.with_name("python")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo._command("regard") == "bin/regard"
    monkeypatch.setenv("PATH", str(tool.parent))
    assert demo._command("regard") == "regard"
