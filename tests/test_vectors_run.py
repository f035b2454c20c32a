"""Word vectors by recipe: the run's folder, killed and resumed, refused and measured."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from safetensors.torch import load_file
from transformers import AutoTokenizer

from regard.modeling import Word2VecModel
from regard.train.recipe import list_recipes, load_recipe
from regard.train.run import train
from regard.train.sections import RecipeError


def write_text(path: Path, lines: int = 300, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    topics = rng.integers(0, 4, lines)
    text = ("Topic " + ", ".join(f"t{t}w{w}" for w in rng.integers(0, 6, 10)) + "!" for t in topics)
    path.write_text("\n".join(text) + "\nrare\n", encoding="utf-8")
    return path


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt")


def recipe_for(text, tmp_path, **sections):
    content = {
        "name": "tiny",
        "task": "word-vectors",
        "model": {"type": "word2vec", "hidden_size": 12, "min_count": 3},
        "tokenizer": {"pattern": r"[\p{L}\p{N}]+", "lowercase": True},
        "data": {"train": str(text)},
        "training": {"num_train_epochs": 3, "workers": 1},
    }
    for section, values in sections.items():
        content[section] = content.get(section, {}) | values
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_recipe(path)


def test_a_run_holds_all_that_was_made(text, tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("word1\tword2\tscore\nt0w0\tt0w1\t9\nt0w0\tt1w1\t1\nt2w0\tt2w1\t8\n", encoding="utf-8")
    recipe = recipe_for(text, tmp_path, evaluation={"similarity": {"mine": str(pairs)}})
    metrics = train(recipe, str(tmp_path / "run"))

    run = tmp_path / "run"
    model, tokenizer = Word2VecModel.from_pretrained(run), AutoTokenizer.from_pretrained(run)
    words = model.index_to_key
    assert words[0] == "topic"
    assert "rare" not in words
    assert tokenizer.convert_tokens_to_ids(words) == list(range(len(words)))
    assert tokenizer("T0W0, unheard")["input_ids"] == [words.index("t0w0"), len(words)]
    assert metrics == json.loads((run / "metrics.json").read_text())
    assert metrics["evaluation"]["mine"]["found"] == 3
    assert metrics["data"]["words"] == 300 * 11 + 1
    assert metrics["data"]["words_of_vocabulary"] == 300 * 11
    assert metrics["training"]["words"] == 3 * 300 * 11
    history = json.loads((run / "history.json").read_text())
    assert len([entry for entry in history if "epoch_loss" in entry]) == 3
    assert load_recipe(run).to_dict() == recipe.to_dict()
    names = {path.name for path in run.iterdir()}
    assert {"README.md", "loss_curve.png", "model.safetensors", "config.json", "recipe.yaml"} <= names
    assert "text" not in names
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pairs.tsv", "run", "text.txt", "tiny.yaml"]
    shown = capsys.readouterr().err
    assert "training takes" in shown
    assert "words/s, learning rate" in shown
    assert "left" in shown


# One process imports the libraries; each part of a run is a child of its own, forked before anything was computed.
SCRIPT = """
import json, os, signal, sys, traceback
from regard.train import checkpoints, vectors_run, word2vec
from regard.train.recipe import load_recipe
from regard.train.run import train

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

def part(run, place, resume=False):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        number, learn, publish = vectors_run.number_sentences, word2vec._Tables.learn, checkpoints.publish
        if place == "reading":
            vectors_run.number_sentences = lambda *arguments: die(number(*arguments))
        elif place == "training":
            word2vec._Tables.learn = lambda self, tokens, rates, step: (die if step == 8 else learn)(
                self, tokens, rates, step
            )
        elif place == "saving":
            checkpoints.publish = lambda path: (die if path.name == "checkpoint-6" else publish)(path)
        train(load_recipe(sys.argv[1]), f"{sys.argv[2]}/{run}", resume=resume)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)

results = {"whole": part("whole", "")}
killed = f"{sys.argv[2]}/killed"
results["reading"] = part("killed", "reading"), os.path.exists(killed)
results["saving"] = part("killed", "saving"), checkpoints.last_checkpoint(killed).name
results["training"] = part("killed", "training", resume=True), checkpoints.last_checkpoint(killed).name
results["resumed"] = part("killed", "", resume=True)
print(json.dumps(results))
"""


@pytest.mark.parametrize("objective", ["negative-sampling", "hierarchical-softmax"])
def test_a_killed_run_ends_where_the_whole_run_ends(tmp_path, objective):
    """Killed while the text is read, then while a checkpoint is saved, then while it trains on."""
    text = write_text(tmp_path / "text.txt", lines=600)
    training = {"save_strategy": "steps", "save_steps": 3, "logging_steps": 2}
    recipe_for(text, tmp_path, model={"objective": objective}, training=training)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "tiny.yaml"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "whole": 0,
        "reading": [-9, False],
        "saving": [-9, "checkpoint-3"],
        "training": [-9, "checkpoint-6"],
        "resumed": 0,
    }, done.stderr
    runs = tmp_path / "killed", tmp_path / "whole"
    weights = [(run / "model.safetensors").read_bytes() for run in runs]
    assert weights[0] == weights[1]
    histories = [json.loads((run / "history.json").read_text()) for run in runs]
    losses = [[(row["step"], row["loss"], row.get("epoch_loss")) for row in history] for history in histories]
    assert losses[0] == losses[1]
    assert not [path.name for path in (*tmp_path.iterdir(), *runs[0].iterdir()) if path.name.startswith(".")]


def test_a_finished_run_trains_longer(text, tmp_path):
    run = str(tmp_path / "run")
    train(recipe_for(text, tmp_path), run)
    before = load_file(tmp_path / "run" / "model.safetensors")["in_embeddings.weight"]
    longer = recipe_for(text, tmp_path, training={"num_train_epochs": 5, "workers": 1})
    metrics = train(longer, run, resume=True)
    assert metrics["training"]["epochs"] == 5
    assert (load_file(tmp_path / "run" / "model.safetensors")["in_embeddings.weight"] != before).any()


def test_folders_that_are_refused(text, tmp_path):
    recipe, run = recipe_for(text, tmp_path), tmp_path / "run"
    with pytest.raises(RecipeError, match="no run in"):
        train(recipe, str(run), resume=True)
    train(recipe, str(run))
    with pytest.raises(RecipeError, match="finished run"):
        train(recipe, str(run))
    other = recipe_for(text, tmp_path, model={"type": "word2vec", "hidden_size": 8, "min_count": 3})
    with pytest.raises(RecipeError, match="model.hidden_size: 8 differs from 12"):
        train(other, str(run), resume=True)
    train(other, str(run), overwrite=True)
    assert Word2VecModel.from_pretrained(run).config.hidden_size == 8
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(RecipeError, match="not a run"):
        train(recipe, str(tmp_path / "mine"), overwrite=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no words to learn from"),
        ("one two\n", "No word occurs min_count=3"),
        ("a\nb\n" * 5, "No sentence holds two"),
    ],
)
def test_a_text_with_nothing_to_learn_leaves_nothing(tmp_path, content, message):
    text = tmp_path / "text.txt"
    text.write_text(content)
    with pytest.raises(ValueError, match=message):
        train(recipe_for(text, tmp_path), str(tmp_path / "run"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt", "tiny.yaml"]


def test_rows_phrases_bound_and_cbow(tmp_path):
    rows = tmp_path / "rows.jsonl"
    lines = ["new york is big", "york is in england"] * 20 + ["a new house\nold york"] * 4
    rows.write_text("".join(json.dumps({"body": line}) + "\n" for line in lines), encoding="utf-8")
    recipe = recipe_for(
        rows, tmp_path, data={"columns": {"text": "body"}, "phrases": [2.5], "phrase_delta": 1},
        model={"architecture": "cbow"}, tokenizer={"vocab_size": 4},
    )  # fmt: skip
    metrics = train(recipe, str(tmp_path / "run"))
    assert metrics["data"]["vocabulary_size"] == 4
    assert Word2VecModel.from_pretrained(tmp_path / "run").config.architecture == "cbow"


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"training": {"learning_rat": 1}}, "did you mean 'training.learning_rate'"),
        ({"training": {"optim": "adamw_torch"}}, "There is no argument 'training.optim'"),
        ({"training": {"output_dir": "x"}}, "--output"),
        ({"training": {"workers": 0}}, "training.workers: 0 is less than 1"),
        ({"training": {"engine": "cuda"}}, "training.engine"),
        ({"training": {"save_strategy": "steps"}}, "training.save_steps is missing"),
        ({"training": {"per_device_train_batch_size": 8}}, "engine: torch"),
        ({"training": {"learning_rate": "fast"}}, "'fast' is not a number"),
        ({"model": {"windw": 3}}, "did you mean 'model.window'"),
        ({"model": {"vocab_size": 3}}, "tokenizer.vocab_size is the most words"),
        ({"model": {"objective": "full-softmax"}}, "Trainer"),
        ({"model": {"type": "decoder"}}, "takes 'word2vec' or 'glove', not 'decoder'"),
        ({"model": {"num_negatives": 0}}, "num_negatives"),
        ({"tokenizer": {"kind": "byte-bpe"}}, "word vectors take 'word'"),
        ({"tokenizer": {"min_frequency": 3}}, "model.min_count"),
        ({"tokenizer": {"pattern": "["}}, "regular expression"),
        ({"data": {"validation": "5%"}}, "data.validation: word vectors are measured"),
        ({"data": {"phrases": [-1.0]}}, "data.phrases: -1.0"),
        ({"evaluation": {"metrics": ["bleu"]}}, "evaluation.similarity"),
    ],
)
def test_recipes_that_cannot_be(text, tmp_path, sections, message):
    with pytest.raises(RecipeError, match=message):
        recipe_for(text, tmp_path, **sections)


def test_a_missing_text_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"data.train: there is no file .*nothing.txt"):
        train(recipe_for(tmp_path / "nothing.txt", tmp_path), str(tmp_path / "run"))


def test_phrases_are_for_word_vectors_alone():
    with pytest.raises(RecipeError, match="data.phrases is for the task word-vectors"):
        load_recipe("language-modeling/tinyshakespeare-char", ["data.phrases=[1]"])


@pytest.mark.parametrize("name", [name for name in list_recipes() if name.startswith("word-vectors/wiki-")])
def test_the_shipped_recipes_train_on_a_file(name, text, tmp_path):
    overrides = [f"data.train={text}", "model.hidden_size=8", "model.min_count=2", "training.num_train_epochs=1"]
    metrics = train(load_recipe(name, overrides), str(tmp_path / "run"))
    assert np.isfinite(metrics["training"]["final_loss"])


def test_the_benchmark_runs_both_tools_and_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    pytest.importorskip("gensim", reason="the benchmark's other tool")
    from regard.benchmarks import word_vectors
    from regard.benchmarks.report import markers

    calls = []

    def in_this_process(command, check):
        calls.append(command)
        return word_vectors.main(command[3:])

    monkeypatch.setattr(word_vectors, "subprocess", SimpleNamespace(run=in_this_process))
    text = write_text(tmp_path / "text.txt")
    pairs = "word1\tword2\tscore\nt\tw\t9\nt\ttopic\t1\nw\ttopic\t8\n"  # the pattern parts letters and digits
    (tmp_path / "pairs.tsv").write_text(pairs)
    begin, end = markers("word vectors")
    (tmp_path / "README.md").write_text(f"before\n{begin}\n{end}\nafter\n", encoding="utf-8")
    arguments = [
        str(text),
        "--similarity",
        str(tmp_path / "pairs.tsv"),
        "--architecture",
        "skip-gram",
        "--epochs",
        "1",
    ]
    arguments += ["--seeds", "1", "--out", str(tmp_path), "--parts", str(tmp_path / "parts")]
    assert word_vectors.main(arguments) in (0, 1)  # 1: too slow or too bad, which is nothing for a test to judge
    record = json.loads((tmp_path / "results" / "word_vectors.json").read_text())
    (result,) = record["results"]
    assert result["quality"]["ours"].keys() == result["quality"]["gensim"].keys() == {"pairs"}
    assert record["words"] == result["records"]["gensim"][0]["words"]
    assert "| skip-gram | **" in (tmp_path / "README.md").read_text()
    assert str(tmp_path) not in (tmp_path / "results" / "word_vectors.json").read_text()

    done = len(calls)
    next((tmp_path / "parts").glob("contest-skip-gram-ours-*")).unlink()
    word_vectors.main(arguments)
    assert len(calls) == done + 1
