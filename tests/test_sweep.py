"""Sweeps, tiny: what is trained, what is shared, what is kept when one is killed, and what is refused."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest
from datasets import Dataset

from regard.train import sweep as sweeping
from regard.train import sweep_cells
from regard.train.evaluate import evaluate_run
from regard.train.layouts import Layout
from regard.train.masking import IGNORED
from regard.train.recipe import load_recipe
from regard.train.run import train
from regard.train.sweep import sweep
from regard.train.sweep_cells import free_name, make_cells, run_name
from regard.train.sweep_judged import check_comparable, checked_metric
from regard.train.sweep_table import settings_of, table, with_deviation
from regard.train.sweep_values import grid_of, one_by_one, parse_seeds, parse_values
from regard.train.trainer import TrainingDiverged

RATE, WIDTH = "training.learning_rate", "model.intermediate_size"
BEAMS, PENALTY = "evaluation.num_beams", "evaluation.length_penalty"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """Letters to capitals. The test set does not exist: whoever looks at it fails."""
    folder = tmp_path_factory.mktemp("data")
    rng = random.Random(0)
    lines = [" ".join(rng.choices("abcdefgh", k=rng.randint(1, 6))) for _ in range(40)]
    for name, part in (("train", lines[:32]), ("valid", lines[32:])):
        rows = "".join(f"{line}\t{line.upper()}\n" for line in part)
        (folder / f"{name}.tsv").write_text("source\ttarget\n" + rows)
    values = {
        "name": "tiny",
        "task": "translation",
        "model": {
            "type": "transformer", "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16,
            "encoder_layers": 1, "decoder_layers": 1,
        },
        "tokenizer": {"kind": "word", "vocab_size": 40, "min_frequency": 1},
        "data": {
            "train": str(folder / "train.tsv"), "validation": str(folder / "valid.tsv"),
            "test": str(folder / "not-there.tsv"), "max_tokens_per_batch": 64,
        },
        "training": {
            "max_steps": 4, "learning_rate": 0.01, "warmup_steps": 1, "logging_steps": 1, "save_steps": 2,
            "report_to": "none", "seed": 5,
        },
        "evaluation": {"metrics": ["chrf", "exact_match"], "max_new_tokens": 6, "num_beams": 1, "samples": 1},
    }  # fmt: skip
    path = folder / "tiny.yaml"
    path.write_text(json.dumps(values))  # JSON is YAML
    return path


@pytest.fixture
def trainings(monkeypatch):
    """The folders of the runs that are trained, with whether they are resumed."""
    seen = []

    def counted(recipe, output_dir, resume):
        seen.append((output_dir, resume))
        return train(recipe, output_dir, resume=resume)

    monkeypatch.setattr(sweeping, "train", counted)
    return seen


@pytest.fixture
def untrained(monkeypatch):
    """Runs that are only said to be trained: their folders, each with the environment that it met."""
    seen = []

    def pretended(recipe, output_dir, resume):
        seen.append((output_dir.rpartition("/")[2], dict(os.environ)))
        measures = {"validation": {"loss": 1.0, "chrf": 50.0}}
        return {"evaluation": measures, "training": {"seconds": 1.0}, "model": {"parameters": 1}, "environment": {}}

    monkeypatch.setattr(sweeping, "train", pretended)
    return seen


@pytest.fixture(scope="module")
def swept(recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweeps") / "rates"
    return folder, sweep(recipe, [], {RATE: [0.01, 0.03], WIDTH: [24]}, [1, 2], folder)


def test_the_grid_is_trained_and_measured(swept):
    folder, result = swept
    names = [f"learning_rate-{rate}_intermediate_size-24-seed{seed}" for rate in (0.01, 0.03) for seed in (1, 2)]
    assert [cell["run"] for cell in result["cells"]] == names
    for cell in result["cells"]:
        run = folder / cell["run"]
        made = load_recipe(run)
        assert made.training["learning_rate"] == cell["values"][RATE]
        assert (made.training["seed"], made.model["intermediate_size"]) == (cell["seed"], 24)
        assert made.data.test is None
        metrics = json.loads((run / "metrics.json").read_text())
        assert list(metrics["evaluation"]) == ["validation"]  # an ordinary run, but for its test set
        assert cell["validation"] == metrics["evaluation"]["validation"]
        assert cell["validation"].keys() >= {"loss", "perplexity", "chrf", "exact_match"}
        assert cell["seconds"] == metrics["training"]["seconds"]
        assert cell["parameters"] == metrics["model"]["parameters"]
        assert cell["environment"]["torch"]
    assert json.loads((folder / "sweep.json").read_text()) == result
    assert len({json.dumps(cell["validation"]) for cell in result["cells"]}) == 4


def test_the_table_has_means_deviations_and_the_best(swept):
    folder, result = swept
    text = (folder / "sweep.md").read_text()
    assert text == table(result)
    first, each = text.split(" of each seed:")
    head, _, *rows = [line.strip("| ").split(" | ") for line in first.splitlines() if line.startswith("|")]
    assert head[:3] == [RATE, WIDTH, "chrf"]
    assert len(rows) == 2
    bold = 0
    for row, setting in zip(rows, result["settings"], strict=True):
        scores = [cell["validation"]["chrf"] for cell in result["cells"] if cell["values"] == setting["values"]]
        assert setting["mean"]["chrf"] == pytest.approx(sum(scores) / 2)
        assert setting["deviation"]["chrf"] == pytest.approx(abs(scores[0] - scores[1]) / 2**0.5)  # n - 1 = 1
        assert row[:2] == [str(setting["values"][RATE]), "24"]
        assert row[2].strip("*") == f"{setting['mean']['chrf']:.4g} ± {statistics.stdev(scores):.2g}"
        assert row[2].startswith("**") == setting["best"]
        bold += setting["best"]
    assert bold == 1
    assert max(result["settings"], key=lambda setting: setting["mean"]["chrf"])["best"]
    assert f"--values {RATE}=0.01,0.03" in text
    assert "no test set was read" in text


def test_lower_is_better_for_a_loss(swept, recipe):
    folder, _ = swept
    values = {RATE: [0.01, 0.03], WIDTH: [24]}
    result = sweep(recipe, [], values, [1, 2], folder, resume=True, metric="loss")  # nothing is left to train
    least = min(result["settings"], key=lambda setting: setting["mean"]["loss"])
    assert [setting["best"] for setting in result["settings"]] == [one is least for one in result["settings"]]
    sweep(recipe, [], values, [1, 2], folder, resume=True)  # as it was, for the other tests


def test_another_grid_is_not_gone_on_with(swept, recipe, trainings):
    folder, _ = swept
    before = (folder / "sweep.json").read_text()
    for values, seeds, overrides, sentence in (
        ({RATE: [0.01, 0.02], WIDTH: [24]}, [1, 2], [], r"values\.training\.learning_rate: \[0\.01, 0\.02\] differs"),
        ({RATE: [0.01, 0.03], WIDTH: [24]}, [1, 3], [], r"seeds: \[1, 3\] differs from \[1, 2\]"),
        ({RATE: [0.01, 0.03], WIDTH: [24]}, [1, 2], ["training.warmup_steps=2"], r"training\.warmup_steps: 2 differs"),
    ):
        with pytest.raises(ValueError, match=sentence):
            sweep(recipe, overrides, values, seeds, folder, resume=True)
    with pytest.raises(ValueError, match="already holds a sweep.*--resume"):
        sweep(recipe, [], {RATE: [0.01]}, [1], folder)
    assert (folder / "sweep.json").read_text() == before
    assert trainings == []


def test_cells_that_only_generate_otherwise_share_a_run(recipe, tmp_path, trainings):
    values = {BEAMS: [1, 2], "evaluation.max_new_tokens": [3, 6], RATE: [0.01, 0.02]}
    result = sweep(recipe, [], values, [], tmp_path / "beams")
    assert [folder.rpartition("/")[2] for folder, _ in trainings] == [
        "learning_rate-0.01-seed5",
        "learning_rate-0.02-seed5",
    ]
    assert len(result["cells"]) == 8
    assert load_recipe(trainings[0][0]).evaluation.max_new_tokens == 6  # room for the longest
    for cell in result["cells"]:
        run = tmp_path / "beams" / cell["run"]
        settings = {key.rpartition(".")[2]: value for key, value in cell["values"].items() if key != RATE}
        assert cell["validation"] == evaluate_run(run, "validation", **settings)["validation"]
        assert cell["evaluation_seconds"] > 0
    assert "of evaluation" in table(result)


def test_a_finished_run_is_only_evaluated(swept, tmp_path, trainings):
    folder, whole = swept
    run = folder / whole["cells"][0]["run"]
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    result = sweep(run, [f"{BEAMS}=2"], {PENALTY: [0.2, 2.0]}, output_dir=tmp_path / "penalties")
    assert trainings == []
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    assert [cell["values"] for cell in result["cells"]] == [{PENALTY: 0.2}, {PENALTY: 2.0}]
    for cell in result["cells"]:
        again = evaluate_run(run, "validation", num_beams=2, length_penalty=cell["values"][PENALTY])
        assert cell["validation"] == again["validation"]
        assert (cell["seed"], cell["run"]) == (1, run.name)
    with pytest.raises(ValueError, match="has been trained: leave them out"):
        sweep(run, [], {PENALTY: [0.2]}, [1], tmp_path / "no")
    with pytest.raises(ValueError, match=r"'model\.dropout=0' cannot be changed in the finished run"):
        sweep(run, ["model.dropout=0"], {PENALTY: [0.2]}, [], tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_a_killed_sweep_goes_on_to_the_same_results(recipe, tmp_path, trainings):
    """The real command, killed in its second run as soon as that has a checkpoint."""
    grid = ["--values", f"{RATE}=0.01,0.02"]
    command = [sys.executable, "-m", "regard", "sweep", str(recipe), "training.max_steps=40", "training.seed=1", *grid]
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        [*command, "--output", str(killed)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    second = killed / "learning_rate-0.02-seed1"
    deadline = time.monotonic() + 600
    while not list(second.glob("checkpoint-*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors[-2000:]
    assert not (second / "metrics.json").exists()
    assert len(json.loads((killed / "sweep.json").read_text())["cells"]) == 1
    assert "1 of 2 cells are done" in (killed / "sweep.md").read_text()

    call = (recipe, ["training.max_steps=40", "training.seed=1"], {RATE: [0.01, 0.02]})
    result = sweep(*call, output_dir=killed, resume=True)
    assert trainings == [(str(second), True)]
    whole = sweep(*call, output_dir=tmp_path / "whole")
    assert [c["validation"] for c in result["cells"]] == [c["validation"] for c in whole["cells"]]
    for name in ("learning_rate-0.01-seed1", "learning_rate-0.02-seed1"):
        weights = [(folder / name / "model.safetensors").read_bytes() for folder in (killed, tmp_path / "whole")]
        assert weights[0] == weights[1]


def test_a_run_killed_among_its_first_files_begins_anew(recipe, tmp_path, trainings, monkeypatch):
    def killed(recipe, output_dir, resume):
        recipe.save(f"{output_dir}/recipe.yaml")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sweeping, "train", killed)
        with pytest.raises(KeyboardInterrupt):
            sweep(recipe, [], {RATE: [0.01]}, [], tmp_path / "sweep")
    result = sweep(recipe, [], {RATE: [0.01]}, [], tmp_path / "sweep", resume=True)
    assert [resumed for _, resumed in trainings] == [False]
    assert len(result["cells"]) == 1


def test_a_diverged_run_is_recorded_and_the_sweep_goes_on(recipe, tmp_path, monkeypatch):
    calls = []

    def diverging(recipe, output_dir, resume):
        calls.append(output_dir)
        if recipe.training["learning_rate"] > 1:
            raise TrainingDiverged("The training loss is nan at step 3.")
        return train(recipe, output_dir, resume=resume)

    monkeypatch.setattr(sweeping, "train", diverging)
    values = {RATE: [9.0, 0.01], BEAMS: [1, 2]}
    result = sweep(recipe, [], values, [], tmp_path / "sweep")
    assert len(calls) == 2  # once for both beam widths
    assert [cell.get("diverged") for cell in result["cells"]] == ["The training loss is nan at step 3."] * 2 + [
        None
    ] * 2
    assert "| 9.0 | 1 | " in table(result)
    assert "1 diverged" in table(result)
    assert any(setting["best"] for setting in result["settings"][2:])
    sweep(recipe, [], values, [], tmp_path / "sweep", resume=True)
    assert len(calls) == 2


def test_an_infinite_measure_has_no_deviation():
    cells = [
        {
            "values": {},
            "seed": seed,
            "validation": {"loss": loss, "perplexity": value},
            "parameters": 1,
            "seconds": 1.0,
        }
        for seed, loss, value in ((1, 1.0, 3.0), (2, 2.0, float("inf")))
    ]
    (setting,) = settings_of(cells, "loss")
    assert setting["mean"] == {"loss": 1.5, "perplexity": float("inf")}
    assert setting["deviation"] == {"loss": pytest.approx(0.5**0.5)}


def test_trials_are_a_seeded_part_of_the_grid():
    def planned(seed, trials):
        grid = grid_of({RATE: [0.1, 0.2, 0.3], WIDTH: [8, 16]}, trials, seed)
        return [tuple(setting.values()) for setting in grid]

    grid = planned(1, None)
    assert grid == [(rate, width) for rate in (0.1, 0.2, 0.3) for width in (8, 16)]
    assert planned(1, 2) == planned(1, 2)
    assert len({tuple(planned(seed, 2)) for seed in range(8)}) > 1
    for seed in range(8):
        part = planned(seed, 3)
        assert len(part) == 3
        assert part == [setting for setting in grid if setting in part]  # in the grid's order
    assert planned(1, 9) == grid


def test_one_value_at_a_time_beside_the_recipe_as_it_is(recipe, tmp_path, trainings):
    folder = tmp_path / "ingredients"
    result = sweep(recipe, [], {RATE: [0.03], WIDTH: [24, 8]}, output_dir=folder, one_at_a_time=True)
    changed = [{}, {RATE: 0.03}, {WIDTH: 24}, {WIDTH: 8}]
    assert [cell["values"] for cell in result["cells"]] == changed
    assert [str(run).rpartition("/")[2] for run, _ in trainings] == [
        "tiny-seed5", "learning_rate-0.03-seed5", "intermediate_size-24-seed5", "intermediate_size-8-seed5",
    ]  # fmt: skip
    for cell in result["cells"]:  # all else is the recipe's
        plain, used = load_recipe(recipe), load_recipe(folder / cell["run"])
        assert used.training["learning_rate"] == cell["values"].get(RATE, plain.training["learning_rate"])
        assert used.model["intermediate_size"] == cell["values"].get(WIDTH, plain.model["intermediate_size"])
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table(result).splitlines() if line.startswith("|")]
    assert rows[0] == "changed"
    assert rows[2:] == ["nothing", f"{RATE}=0.03", f"{WIDTH}=24", f"{WIDTH}=8"]
    assert "--one-at-a-time" in result["command"]
    with pytest.raises(ValueError, match="--one-at-a-time makes none"):
        sweep(recipe, [], {RATE: [0.03]}, output_dir=folder, one_at_a_time=True, trials=1)


def test_numbers_are_short_and_plain():
    assert with_deviation(41.2345, 0.1234) == "41.23 ± 0.12"
    assert with_deviation(38231.4, 291.2) == "38,231 ± 291"
    assert with_deviation(9999.6, 99.6) == "10,000 ± 100"  # which would be 1e+04 ± 1e+02
    assert with_deviation(0.5, None) == "0.5"
    assert with_deviation(None, None) == ""


def test_values_are_read_as_yaml():
    assert parse_values(["a.b=1,1e-3,x", "c=[bleu],[bleu, chrf]", 'd={m: 1},null,"5%, at most 9",true']) == {
        "a.b": [1, 0.001, "x"],
        "c": [["bleu"], ["bleu", "chrf"]],
        "d": [{"m": 1}, None, "5%, at most 9", True],
    }
    assert parse_seeds("1, 2,3") == [1, 2, 3]
    assert parse_seeds(None) == []


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["model.dropout"], "not of the form KEY=V1,V2"),
        (["=1"], "not of the form KEY=V1,V2"),
        (["a=1", "a=2"], "a is given twice: give all its values at once"),
        (["a=[1,2"], "is not values between commas"),
    ],
)
def test_texts_that_are_no_values(texts, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_values(texts)


def test_seeds_are_a_number_a_list_or_one_alone():
    assert (parse_seeds("3"), parse_seeds("1,2"), parse_seeds("7,")) == (3, [1, 2], [7])


@pytest.mark.parametrize("text", ["1,x", "1.5", "-1", "", ",", "1,,"])
def test_seeds_that_are_no_whole_numbers(text):
    with pytest.raises(ValueError, match="is no whole number of at least 0"):
        parse_seeds(text)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ({"values": {}}, "needs values to go through"),
        ({"values": {RATE: []}}, "training.learning_rate has no values"),
        ({"values": {RATE: [0.1, 0.1]}}, "training.learning_rate has the value 0.1 twice"),
        ({"values": {"training.learning_rat": [1]}}, "did you mean 'training.learning_rate'?"),
        ({"values": {RATE: [0.1, "x"]}}, "training.learning_rate: 'x' is not a number"),
        ({"values": {"training.seed": [1]}}, "training.seed is given by --seeds"),
        ({"values": {"data.test": ["a.tsv"]}}, "data.test is not read in a sweep"),
        ({"values": {"name": ["a"]}}, "name is one for the whole sweep"),
        ({"values": {RATE: [1]}, "overrides": [f"{RATE}=2"]}, "learning_rate is both set and swept"),
        ({"values": {"data": [{}], "data.train": ["x"]}}, "data and data.train set the same thing"),
        (
            {"overrides": ["training.seed=1"], "seeds": [1, 2]},
            "training.seed and a list of --seeds say the same thing",
        ),
        ({"seeds": [1, 1]}, "--seeds: 1 is given twice"),
        ({"seeds": [-1]}, "--seeds: -1 is no whole number"),
        ({"trials": 0}, "--trials: 0 is less than 1"),
        ({"metric": "bleu"}, "'bleu' is not measured: it is one of loss, chrf, exact_match, perplexity"),
        ({"overrides": ["data.validation=null"]}, "data.validation names no data, and a sweep is judged on it"),
        (
            {"values": {BEAMS: [1]}, "overrides": ["evaluation.metrics=[]"]},
            "num_beams changes nothing that is measured",
        ),
        ({"values": {"training.eval_strategy": ["no", "sometimes"]}}, "training.eval_strategy: 'sometimes'"),
        ({"values": {"data.train": ["there.tsv", "here.tsv"]}}, "data.train: the file there.tsv does not exist"),
        ({"values": {"data.validation": ["5%", "9%"]}}, "data.validation changes what is judged"),
        (
            {"values": {"tokenizer.vocab_size": [20, 30]}, "metric": "loss"},
            "tokenizer.vocab_size changes the tokens that are predicted, so that loss could not be compared",
        ),
        ({"overrides": ["data.train=mistyped.tsv"]}, "data.train: the file mistyped.tsv does not exist"),
        ({"resume": True}, "There is no sweep in .* to resume"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_trained(recipe, tmp_path, trainings, call, sentence):
    settings = {"values": {RATE: [0.01]}, "output_dir": tmp_path / "sweep"} | call
    with pytest.raises(ValueError, match=sentence.replace("?", r"\?")):
        sweep(recipe, **settings)
    assert trainings == []
    assert not (tmp_path / "sweep").exists()


MODELS = {
    "translation": "transformer", "causal-lm": "decoder", "masked-lm": "encoder", "sequence-classification": "encoder",
    "token-classification": "encoder", "question-answering": "encoder", "denoising": "transformer",
}  # fmt: skip
MEASURED = {
    "translation": ["bleu", "bleu_moses_lowercase"], "causal-lm": ["word_perplexity"],
    "masked-lm": ["pseudo_perplexity"], "sequence-classification": ["accuracy"],
    "token-classification": ["tag_accuracy"], "question-answering": ["squad_f1"], "denoising": ["gap_perplexity"],
}  # fmt: skip
WORDS, HELD_OUT = {"kind": "word", "vocab_size": 40}, {"validation": "5%"}
OWN = {"train": "a.tsv", "target_language": "en"}


def compare(folder, task, metric, values, data=(), tokenizer=(), one_at_a_time=False):
    """What a sweep says of its cells before it looks for any data."""
    recipe = {
        "name": "tiny",
        "task": task,
        "model": {"type": MODELS[task]},
        "tokenizer": dict(tokenizer),
        "data": {"train": "train.jsonl", "validation": "valid.jsonl", "target_language": "en"} | dict(data),
        "training": {"max_steps": 1},
        "evaluation": {"metrics": MEASURED[task]},
    }
    path = folder / "tiny.yaml"
    path.write_text(json.dumps(recipe))
    settings = one_by_one(values) if one_at_a_time else grid_of(values, None, 1)
    cells = make_cells(path, [], settings, [1, 2], folder / "sweep")
    check_comparable(cells, values, checked_metric(metric, cells))


@pytest.mark.parametrize(
    ("task", "metric", "values", "given", "sentence"),
    [
        ("translation", "bleu", {"data.train": ["a.tsv", "b.tsv"]}, {"data": HELD_OUT}, "data.train changes what is"),
        (
            "translation",
            "bleu",
            {"data.path": ["x/a", "x/b"]},
            {"data": {"train": "train", "validation": "dev"}},
            "data.path changes what is",
        ),
        (
            "causal-lm",
            "word_perplexity",
            {"data.name": ["a", "b"]},
            {"data": {"path": "x/a", "train": "train"} | HELD_OUT},
            "data.name changes what is",
        ),
        (
            "causal-lm",
            "loss",
            {"data.name": ["a", "b"]},
            {"data": {"path": "x/a", "train": "train", "validation": "dev"}},
            "data.name changes what is",
        ),
        ("translation", "bleu", {"data.streaming": [False, True]},
         {"data": {"validation": "9"}}, "data.streaming changes what is"),
        ("translation", "bleu", {"data.columns.target": ["de", "fr"]}, {}, r"data\.columns\.target changes what is"),
        ("translation", "bleu", {"data.columns": [{"target": "de"}, {}]}, {}, r"columns\.target changes what is"),
        ("translation", "bleu", {"data": [OWN | {"validation": name} for name in ("b.tsv", "c.tsv")]}, {},
         "--values: data.validation changes what is"),
        ("translation", "bleu", {"data.train": ["train", "a.tsv"]},
         {"data": {"path": "x/a", "validation": "dev"}}, "data.train changes data.validation, which changes what"),
        ("translation", "bleu_moses_lowercase", {"data.target_language": ["de", "fr"]}, {}, "language changes what"),
        ("masked-lm", "pseudo_perplexity", {"evaluation.pseudo_perplexity_rows": [1, 2]}, {}, "_rows changes what is"),
        ("masked-lm", "pseudo_perplexity", {"data.block_size": [16, 32]}, {}, "data.block_size changes what is"),
        ("masked-lm", "loss", {"data.block_size": [16, 32]}, {}, "data.block_size changes what is"),
        ("causal-lm", "perplexity", {"data.packing": ["blocks", "documents"]}, {}, "data.packing changes what is"),
        ("masked-lm", "loss", {"data.mask_probability": [0.1, 0.2]}, {}, "tokens .* choose pseudo_perplexity by"),
        ("masked-lm", "loss", {"data.whole_word_masking": [False, True]}, {}, "word_masking changes what"),
        ("denoising", "gap_perplexity", {"data.noise_density": [0.1, 0.2]}, {}, "noise_density changes what"),
        ("denoising", "loss", {"data.denoising_target": ["spans", "text"]}, {}, "tokens .* choose gap_perplexity by"),
        ("question-answering", "loss", {"data.doc_stride": [16, 32]}, {}, "doc_stride changes what is"),
        ("token-classification", "loss", {"data.max_length": [16, 32]}, {}, "max_length changes what is"),
        ("translation", "loss", {"model.start_from": ["a", "b"]}, {}, "start_from changes the tokens"),
        ("masked-lm", "pseudo_perplexity", {"tokenizer.vocab_size": [300, 400]}, {}, r"tokens .* be compared\.$"),
        ("translation", "loss", {"data.max_source_length": [8, 9]}, {}, "source_length changes where .* are cut"),
        ("translation", "perplexity", {"data.max_target_length": [8, 9]}, {}, r"target_length changes .* bleu\.$"),
        ("translation", "loss", {"tokenizer.vocab_size": [300, 400]}, {}, r"the tokens .* such as bleu\.$"),
        ("translation", "loss", {"data.train": ["a.tsv", "b.tsv"]}, {}, "data.train changes the tokens"),
        ("causal-lm", "loss", {"tokenizer.vocab_size": [300, 400]}, {}, "tokens .*: choose word_perplexity by"),
        ("causal-lm", "loss", {"tokenizer.lowercase": [False, True]}, {}, r"lowercase changes .* compared\.$"),
        ("causal-lm", "loss", {"tokenizer.vocab_size": [20, 40]}, {"tokenizer": WORDS}, r"the tokens .* compared\.$"),
        ("causal-lm", "word_perplexity", {"tokenizer.vocab_size": [20, 40]}, {"tokenizer": WORDS}, "size .* <unk>"),
        ("causal-lm", "word_perplexity", {"data.train": ["a.txt", "b.txt"]}, {"tokenizer": WORDS}, "train .* <unk>"),
        ("causal-lm", "word_perplexity", {"tokenizer.lowercase": [False, True]}, {}, "lowercase changes the text"),
        ("causal-lm", "word_perplexity", {"tokenizer.kind": ["byte-bpe", "char"]}, {}, "kind changes the text"),
        ("causal-lm", "word_perplexity", {"tokenizer.pattern": ["a", "b"]}, {"tokenizer": WORDS}, "pattern .* text"),
        ("causal-lm", "word_perplexity", {"tokenizer.path": ["a", "b"]}, {}, "path changes the text"),
    ],
)  # fmt: skip
def test_cells_that_are_judged_on_different_things_are_refused(tmp_path, task, metric, values, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        compare(tmp_path, task, metric, values, **given)


def test_the_recipe_as_it_is_is_one_of_the_cells_that_are_compared(tmp_path):
    with pytest.raises(ValueError, match=r"data\.packing changes what is judged"):
        compare(tmp_path, "causal-lm", "loss", {"data.packing": ["documents"]}, one_at_a_time=True)
    compare(tmp_path, "causal-lm", "loss", {"data.packing": ["documents"]})  # here it is that of all


@pytest.mark.parametrize(
    ("task", "metric", "values", "given"),
    [
        ("translation", "bleu", {"data.train": ["a.tsv", "b.tsv"]}, {}),  # the validation file is one
        ("translation", "bleu", {"data.max_source_length": [8, 9], "tokenizer.vocab_size": [300, 400]}, {}),
        ("translation", "loss", {"data.train": ["a.tsv", "b.tsv"]}, {"tokenizer": {"path": "x"}}),
        ("translation", "loss", {"data.bpe_dropout": [0, 0.1], "data.block_size": [8, 9]}, {}),
        ("sequence-classification", "loss", {"tokenizer.vocab_size": [300, 400], "data.max_length": [8, 9]}, {}),
        ("masked-lm", "pseudo_perplexity", {"data.mask_probability": [0.1, 0.2]}, {}),
        ("question-answering", "squad_f1", {"data.doc_stride": [16, 32], "tokenizer.vocab_size": [300, 400]}, {}),
        ("token-classification", "loss", {"tokenizer.vocab_size": [300, 400]}, {}),
        ("token-classification", "tag_accuracy", {"data.max_length": [16, 32]}, {}),  # in which lost words are missed
        ("masked-lm", "loss", {"evaluation.pseudo_perplexity_rows": [1, 2]}, {}),
        ("denoising", "gap_perplexity", {"data.denoising_target": ["spans", "text"]}, {}),
        ("causal-lm", "word_perplexity", {"tokenizer.vocab_size": [300, 400], "data.train": ["a.txt", "b.txt"]}, {}),
        ("causal-lm", "word_perplexity", {"tokenizer.vocab_size": [300, 400]}, {"tokenizer": {"lowercase": True}}),
        ("causal-lm", "loss", {"data.block_size": [16, 32]}, {}),
        ("causal-lm", "loss", {"data.columns.text": ["a", "b"]},
         {"data": {"validation": "valid.txt"}, "tokenizer": {"path": "x"}}),  # a text has no columns
    ],
)  # fmt: skip
def test_cells_that_are_judged_on_the_same_are_compared(tmp_path, task, metric, values, given):
    compare(tmp_path, task, metric, values, **given)


@pytest.mark.parametrize("size", [3, 7, 16, 500])
def test_each_token_is_judged_once_however_long_a_causal_models_rows_are(size):
    """Why data.block_size may be swept: N - 1 targets of a stream of N tokens, or of each document."""
    lengths = [1, 5, 40, 2, 17]
    tokens = np.split(np.arange(sum(lengths)), np.cumsum(lengths)[:-1])
    dataset = Dataset.from_dict({"input_ids": [part.tolist() for part in tokens]})
    expected = list(range(1, sum(lengths)))
    rows = Layout("blocks", size, ((), ())).rows(dataset)
    assert [token for row in rows for token in row["input_ids"][1:]] == expected
    rows = Layout("blocks", size, ((), ()), stride=2).rows(dataset)
    assert [token for row in rows for token in row["labels"] if token != IGNORED] == expected
    rows = Layout("documents", size, ((), ())).rows(dataset)
    targets = sorted(token for row in rows for token in row["labels"] if token != IGNORED)
    assert targets == [token for part in tokens for token in part[1:]]


def test_a_mistyped_file_does_not_stand_in_the_way_of_the_right_one(recipe, tmp_path, untrained):
    call = {"values": {RATE: [0.01, 0.02]}, "output_dir": tmp_path / "sweep"}
    with pytest.raises(ValueError, match=r"data\.validation: the file vlid\.tsv does not exist"):
        sweep(recipe, ["data.validation=vlid.tsv"], **call)
    assert len(sweep(recipe, [], **call)["cells"]) == 2


def test_one_and_one_point_zero_are_two_values(recipe, tmp_path, untrained):
    """1 == 1.0 in Python, and neither may pass for the other: not as a cell that is done, nor as the same sweep."""
    key = "training.num_train_epochs"
    result = sweep(recipe, [], {key: [1, 1.0]}, [], tmp_path / "sweep")
    assert [run for run, _ in untrained] == ["num_train_epochs-1-seed5", "num_train_epochs-1.0-seed5"]
    assert [str(setting["values"][key]) for setting in result["settings"]] == ["1", "1.0"]
    again = sweep(recipe, [], {key: [1, 1.0]}, [], tmp_path / "sweep", resume=True)
    assert len(untrained) == 2
    assert json.dumps(again["cells"]) == json.dumps(result["cells"])
    with pytest.raises(ValueError, match=r"num_train_epochs: 1\.0 differs from 1, "):
        sweep(recipe, [], {key: [1.0, 1]}, [], tmp_path / "sweep", resume=True)


def test_settings_are_told_apart_by_their_types_and_not_by_their_order():
    def cell(values):
        return {"values": values, "seed": 1, "validation": {"loss": 1.0}, "parameters": 1, "seconds": 1.0}

    cells = [cell({"a": value, "b": 0}) for value in (1, 1.0, True)] + [cell({"b": 0, "a": 1})]
    assert [len(setting["seeds"]) for setting in settings_of(cells, "loss")] == [2, 1, 1]


def test_what_training_arguments_leave_in_the_environment_is_taken_out(recipe, tmp_path, untrained, monkeypatch):
    """As TrainingArguments do with torch.compile's variables where accelerate is older than 1.2."""
    plain = sweep_cells.training_arguments

    def leaving(recipe, output_dir):
        assert "LEFT_BEHIND" not in os.environ  # by the cell before
        os.environ["LEFT_BEHIND"] = output_dir
        return plain(recipe, output_dir)

    monkeypatch.setattr(sweep_cells, "training_arguments", leaving)
    try:
        sweep(recipe, [], {RATE: [0.01, 0.02]}, [], tmp_path / "sweep")
        assert "LEFT_BEHIND" not in os.environ
    finally:
        os.environ.pop("LEFT_BEHIND", None)
    assert ["LEFT_BEHIND" in environment for _, environment in untrained] == [False, False]


def test_a_folder_with_something_else_is_refused(recipe, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="something that is not a sweep"):
        sweep(recipe, [], {RATE: [0.01]}, [], tmp_path)
    with pytest.raises(ValueError, match="is a file, not a folder for a sweep"):
        sweep(recipe, [], {RATE: [0.01]}, [], tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_task_that_no_sweep_trains_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is of the task in-context-regression, which no sweep trains"):
        sweep("in-context/linear-regression", seeds=2, output_dir=tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_several_processes_are_refused(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="runs in one process"):
        sweep(recipe, [], {RATE: [0.01]}, [], tmp_path / "sweep")


def test_names_of_runs_differ_and_are_short(recipe, tmp_path):
    values = {"data.validation": ["5%", "5"], "model.dropout": [0.1], "data.bpe_dropout": [0.0]}
    cells = make_cells(recipe, [], grid_of(values, None, 1), [1], tmp_path)
    assert [cell.run.name for cell in cells] == [
        "validation-5-_dropout-0.1_bpe_dropout-0.0-seed1",
        "validation-5_dropout-0.1_bpe_dropout-0.0-seed1",
    ]
    assert run_name("tiny", {"model.dropout": 0, "other.dropout": 1}, 1) == "model.dropout-0_other.dropout-1-seed1"
    long = [run_name("tiny", {"data.train": "x" * 150 + end}, 1) for end in "ab"]
    assert len(set(long)) == 2
    assert max(map(len, long)) < 120
    assert free_name("a", [tmp_path / "a", tmp_path / "a-2"]) == "a-3"


def test_the_command_prints_the_table_or_json(swept, recipe):
    folder, result = swept
    call = [sys.executable, "-m", "regard", "sweep", str(recipe), "--values", f"{RATE}=0.01,0.03"]
    call += ["--values", f"{WIDTH}=24", "--seeds", "1,2", "--output", str(folder), "--resume"]
    shown = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert (shown.returncode, shown.stdout) == (0, table(result)), shown.stderr
    as_json = subprocess.run([*call, "--json"], capture_output=True, text=True, timeout=120)
    assert json.loads(as_json.stdout) == result
