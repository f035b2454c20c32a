"""The benchmark runs, compares like with like and writes what it says. No figure of speed is asserted."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.benchmarks import options, training_speed, vector_files, word_vector_recipes, word_vectors
from regard.benchmarks.ingredients import collect
from regard.benchmarks.peers import SHAPES, blocks, decoders, encoder_decoders, pairs
from regard.benchmarks.report import markers, write_part
from regard.benchmarks.training_speed import main, real_tokens
from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM, Word2VecModel
from regard.train.building import build_tokenizer
from regard.train.recipe import load_recipe
from regard.train.records import environment

TINY = SHAPES["tiny"]


@pytest.mark.parametrize("make", [decoders, encoder_decoders])
@pytest.mark.parametrize("shape", SHAPES)
def test_both_sides_have_the_same_number_of_weights(shape, make):
    with torch.device("meta"):
        ours, peer = make(SHAPES[shape])
    counts = [sum(each.numel() for each in model.parameters() if each.requires_grad) for model in (ours, peer)]
    assert counts[0] == counts[1]


def test_batches():
    for batch in blocks(TINY, 3):
        assert batch["input_ids"].shape == (TINY.rows, TINY.block)
        assert real_tokens(batch) == TINY.rows * TINY.block
    for batch in pairs(SHAPES["small"], 8):
        size = batch["input_ids"].numel()
        assert 0.9 * SHAPES["small"].batch_tokens < size <= SHAPES["small"].batch_tokens * 1.05
        assert batch["attention_mask"].sum() > 0.85 * size
        assert ((batch["input_ids"] == 0) == (batch["attention_mask"] == 0)).all()
        assert real_tokens(batch) == batch["attention_mask"].sum() + (batch["labels"] >= 0).sum()


def test_command_writes_its_results(tmp_path):
    readme = tmp_path / "README.md"
    begin, end = markers("training speed")
    readme.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    command = [sys.executable, "-m", "regard.benchmarks", "--shape", "tiny", "--rounds", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: a ratio below 1, which is nothing for a test to judge

    record = json.loads((tmp_path / "results" / "training_speed.json").read_text(encoding="utf-8"))
    assert {"torch", "transformers", "cpu"} <= record["environment"].keys()
    assert len(record["results"]) == 6
    for each in record["results"]:
        assert each["ratio_lowest"] <= each["ratio"] <= each["ratio_highest"]
        assert each["name"] in done.stdout
        if each["must_win"]:
            assert each["loss_ours"] == pytest.approx(each["loss_peer"], rel=0.1)

    text = readme.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("\n| ") == 1 + 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "results"]


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ([], [Path(training_speed.__file__).parent]),
        (["--rounds", "1"], []),
        (["--clock", "wall"], []),
        (["--shape", "tiny"], []),
        (["--only", "work"], []),
        (["--threads", "2"], []),
        (["--only", "work", "--out", "somewhere"], [Path("somewhere")]),
    ],
)
def test_only_the_documented_run_replaces_the_committed_results(arguments, written, monkeypatch, capsys):
    facts = {"parameters_ours": 1, "parameters_peer": 1}
    contest = training_speed.Contest("work", lambda batch: 1.0, lambda batch: 1.0, [{}], lambda batch: 1, facts)
    monkeypatch.setattr(training_speed, "contests", lambda shape: [contest])
    monkeypatch.setattr(training_speed.torch, "set_num_threads", lambda number: None)
    folders = []
    monkeypatch.setattr(training_speed, "write", lambda record, folder: folders.append(folder))
    clocks = dict.fromkeys(("wall", "cpu"), itertools.count().__next__)  # every piece of work takes a second
    monkeypatch.setattr(training_speed, "CLOCKS", clocks)
    assert main(arguments) == 0
    assert folders == written
    shown = capsys.readouterr()
    assert "| work |" in shown.out
    assert ("Not written" in shown.err) == (not written)


def test_the_committed_results_are_those_of_the_documented_command():
    folder = Path(training_speed.__file__).parent
    record = json.loads((folder / "results" / "training_speed.json").read_text(encoding="utf-8"))
    assert (record["shape"], record["rounds"], record["clock"]) == ("small", 5, "cpu")
    assert training_speed.table(record["results"]) in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--only", "nothing of the kind", "--shape", "tiny"]])
def test_wrong_calls(arguments, tmp_path, capsys):
    with pytest.raises(SystemExit) as error:
        main([*arguments, "--out", str(tmp_path)])
    assert error.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_sweeps_are_collected(tmp_path):
    """The table is the sweep's own; sweeps that were collected before stay."""
    setting = {"values": {}, "mean": {"loss": 1.25}, "deviation": {}, "best": True, "seeds": [1], "diverged": []}
    environment = {"date": "2026-01-02", "cpu": "a cpu", "threads": 1, "cores": 2, "torch": "2", "transformers": "5"}
    record = {
        "name": "tiny", "command": "regard sweep tiny", "metric": "loss", "values": {"model.dropout": [0.1]},
        "one_at_a_time": True, "settings": [setting, setting | {"values": {"model.dropout": 0.1}, "best": False}],
        "cells": [{}, {}], "cells_planned": 2, "environment": environment,
    }  # fmt: skip
    begin, end = markers("ingredients")
    (tmp_path / "README.md").write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sweep.json").write_text(json.dumps(record | {"name": name}))
        collect([tmp_path / name], tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "\nold\n" not in text
    assert [line for line in text.splitlines() if line.startswith("###")] == ["### one", "### two"]
    assert text.count("| nothing | **1.25** |") == text.count("| model.dropout=0.1 | 1.25 |") == 2
    assert text.count("2026-01-02: a cpu, 1 of 2 cores; torch 2, transformers 5.") == 2
    assert json.loads((tmp_path / "results" / "ingredients-one.json").read_text())["name"] == "one"

    (tmp_path / "one" / "sweep.json").write_text(json.dumps(record | {"cells": [{}]}))
    with pytest.raises(ValueError, match="has 1 of its 2 cells"):
        collect([tmp_path / "one"], tmp_path)
    with pytest.raises(ValueError, match="There is no sweep in"):
        collect([tmp_path / "three"], tmp_path)
    for changed, sentence in (({"command": "regard sweep /a/b"}, "names a place"), ({"cells": None}, "0 of its 2")):
        (tmp_path / "one" / "sweep.json").write_text(json.dumps({k: v for k, v in (record | changed).items() if v}))
        with pytest.raises(ValueError, match=sentence):
            collect([tmp_path / "one"], tmp_path)
    with pytest.raises(ValueError, match="Two sweeps are called 'two'"):
        collect([tmp_path / "two", tmp_path / "two"], tmp_path)
    with pytest.raises(ValueError, match="has no place for the part 'ingredients'"):
        collect([tmp_path / "two"], tmp_path / "two")
    assert not (tmp_path / "two" / "results").exists()
    with pytest.raises(ValueError, match="has no place for the part 'more'"):
        write_part(tmp_path / "README.md", "more", "text")


# --- word vectors beside gensim --------------------------------------------------------------------------------------


def record(seconds: float, **quality: float) -> dict:
    return {
        "workers": 2,
        "seconds": {"read and count": 10.0, "train": seconds, "compile and copy": 5.0},
        "words_per_second": 1000 / seconds,
        "quality": quality,
    }


def test_a_contest_is_judged_within_seeds_and_by_means():
    """The median of 40/10, 60/10 and 30/10 is 4; with ten seconds of reading on both sides it is 50/20."""
    ours = [record(10.0, men=0.6, simlex=0.30), record(10.0, men=0.5, simlex=0.31), record(10.0, men=0.4, simlex=0.29)]
    gensim = [
        record(40.0, men=0.5, simlex=0.3101),
        record(60.0, men=0.5, simlex=0.3101),
        record(30.0, men=0.5, simlex=0.3101),
    ]
    result = word_vectors.contest("skip-gram", "compiled", ours, gensim)
    assert result["ratio"] == pytest.approx(4.0)
    assert result["ratio_all"] == pytest.approx(2.5)
    assert result["words_per_second"] == pytest.approx(100.0)
    assert result["quality"] == pytest.approx({"men": 0.5, "simlex": 0.30})
    assert result["below"] == ["simlex"]  # by .0101; .01 is allowed
    assert "| skip-gram, compiled | 2 | 100 | 4.00 | 2.50 | 0.500 | 0.300 |" in word_vectors.table([result])


@pytest.mark.slow
def test_word_vectors_are_trained_by_all_tools(tmp_path):
    pytest.importorskip("gensim")
    words = ["red", "green", "blue", "one", "two", "three"]
    lines = [" ".join(words[3 * (i % 2) + (i * j) % 3] for j in range(1, 9)) for i in range(600)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("red\tblue\t9\none\ttwo\t8\nred\ttwo\t1\n", encoding="utf-8")
    readme = tmp_path / "README.md"
    readme.write_text("\n".join(markers(word_vectors.PART)), encoding="utf-8")
    command = [sys.executable, "-m", "regard.benchmarks.word_vectors", "text.txt", "--similarity", "pairs.tsv"]
    command += ["--epochs", "2", "--seeds", "1", "--workers", "1", "--out", "."]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr  # 1: something falls short, which is nothing for a test to judge
    found = json.loads((tmp_path / "results" / "word_vectors.json").read_text(encoding="utf-8"))
    assert [each["architecture"] for each in found["results"]] == ["skip-gram", "cbow"]
    assert [len(each["contests"]) for each in found["results"]] == [3, 2]
    assert found["words"] == 4800
    assert str(tmp_path) not in json.dumps(found)
    assert "skip-gram, torch" in readme.read_text(encoding="utf-8")

    again = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
    assert "..." not in again.stderr  # nothing is trained a second time


def test_vector_files_are_read_by_both(tmp_path):
    pytest.importorskip("gensim")
    readme = tmp_path / "README.md"
    readme.write_text("\n".join(markers(vector_files.PART)), encoding="utf-8")
    assert vector_files.main(["--words", "50", "--width", "7", "--rounds", "1", "--out", str(tmp_path)]) in (0, 1)
    found = json.loads((tmp_path / "results" / "vector_files.json").read_text(encoding="utf-8"))
    assert [each["format"] for each in found["results"]] == ["text", "binary"]
    assert [each["largest_difference"] for each in found["results"]] == [0.0, 0.0]
    assert "| text |" in readme.read_text(encoding="utf-8")


def test_recipes_of_word_vectors_are_put_side_by_side(tmp_path, capsys):
    """The right answers are laid into the vectors: paris = madrid - spain + france, and queen is nearer to man."""
    words = ["madrid", "spain", "france", "paris", "king", "man", "woman", "queen"]
    model = Word2VecModel.from_vocabulary(words, [9, 8, 7, 6, 5, 4, 3, 2], hidden_size=4)
    rows = [
        [1, 1, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [1, 0, 1, 0],
        [0, 0, 1, 1],
        [0, 1, 0, 1],
        [1, 0, 0, 1],
        [1, 0, 1, 1],
    ]
    model.in_embeddings.weight.data.copy_(torch.tensor(rows, dtype=torch.float32))
    model.save_pretrained(tmp_path / "ours")
    measures = {"pairs": {"kind": "similarity", "spearman": 0.25}}
    metrics = {"training": {"epochs": 2.0, "seconds": 3.0}, "evaluation": measures, "environment": environment()}
    (tmp_path / "ours" / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    questions = ["madrid - spain + france = paris", "king + woman = lufthansa", "frog + king = toad"]
    command = [str(tmp_path / "ours"), "--out", str(tmp_path), "--questions", *questions]
    assert word_vector_recipes.main(command) == 0
    shown = capsys.readouterr().out
    assert "| ours | 4 | 5 | 2 | 3 | 0.250 |" in shown
    assert "| madrid - spain + france = paris | **1**: paris, " in shown
    assert "| king + woman = lufthansa | too rare: queen, " in shown
    assert "| frog + king = toad | a word is missing |" in shown
    with pytest.raises(SystemExit):
        word_vector_recipes.main([str(tmp_path), "--out", str(tmp_path)])
    assert "There is no finished run in" in capsys.readouterr().err


def test_the_same_examples_in_three_ways(tmp_path):
    """A row for each number of examples, with all three ways; random weights are those of the seed; and a
    README without a place is refused before the work."""
    recipe = load_recipe("in-context/mixture-decoder")
    tokenizer = build_tokenizer(recipe, None)
    config = TransformerDecoderConfig(
        vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        position_embedding_type="rotary", pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    torch.manual_seed(1)
    for part in (TransformerDecoderForCausalLM(config), tokenizer):
        part.save_pretrained(tmp_path / "run")
    words = "--tasks lookup --shots 1 2 --seeds 2 --items 2"
    call = [str(tmp_path / "run"), *words.split()]
    out = tmp_path / "out"
    with pytest.raises(SystemExit):
        options.main([*call, "--out", str(out)])
    out.mkdir()
    (out / "README.md").write_text("before\n" + "\n".join(markers("options")) + "\nafter\n")
    options.main([*call, "--out", str(out)])
    record = json.loads((out / "results" / "options.json").read_text())
    assert [(row["task"], row["examples"]) for row in record["rows"]] == [("lookup", 1), ("lookup", 2)]
    for row in record["rows"]:
        for way in options.WAYS:
            assert len(row[way]["values"]) == 2
            assert row[way]["interval"][0] <= sum(row[way]["values"]) / 2 <= row[way]["interval"][1]
            assert row[way]["seconds"] > 0
            assert row[way]["memory"] > 0
    text = (out / "README.md").read_text()
    assert text.startswith("before\n")
    assert text.count("\n| lookup | ") == 2
    assert f"`run` (TransformerDecoderForCausalLM, {record['weights']:,} weights), 2 items a task, seeds 0, 1." in text
    model = TransformerDecoderForCausalLM(config)
    first, second = (options.without_training(model).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["lm_head.weight"], model.state_dict()["lm_head.weight"])
