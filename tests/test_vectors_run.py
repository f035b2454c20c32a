"""Word vectors by recipe: the run's folder, killed and resumed, refused and measured."""

import io
import json
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from transformers import AutoTokenizer

from regard.modeling import GloVeModel, Word2VecModel
from regard.train import vectors_run, vectors_text
from regard.train.recipe import list_recipes, load_recipe
from regard.train.records import write_json as WRITE  # noqa: N812
from regard.train.run import train
from regard.train.sections import RecipeError, training_of
from regard.train.word2vec import Plan, TrainingState


def write_text(path: Path, lines: int = 300, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    topics = rng.integers(0, 4, lines)
    text = ("Topic " + ", ".join(f"t{t}w{w}" for w in rng.integers(0, 6, 10)) + "!" for t in topics)
    path.write_text("\n".join(text) + "\nrare\n", encoding="utf-8")
    return path


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt")


def neighbours_of_one_topic(vectors) -> float:
    """The share of the words whose nearest neighbour is of their own topic, of which there are four."""
    words = [word for word in vectors.index_to_key if word[0] == "t" and word[2:3] == "w"]
    return np.mean([vectors.most_similar(word, topn=1)[0][0][:2] == word[:2] for word in words])


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
    assert f"; evaluating\nthe run is in {run}\n" in shown
    assert "words/s, learning rate" in shown
    assert "left" in shown


# One process imports the libraries; each part of a run is a child of its own, forked before anything was computed.
SCRIPT = """
import json, os, signal, sys, traceback
from regard.train import checkpoints, vectors_text, word2vec, word2vec_torch
from regard.train.recipe import load_recipe
from regard.train.run import train

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

saved, step = sys.argv[3], int(sys.argv[4])
tables = word2vec_torch.BatchedTables if sys.argv[5] == "torch" else word2vec._Tables

def part(run, place, resume=False):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        number, learn, publish = vectors_text.number_sentences, tables.learn, checkpoints.publish
        if place == "reading":
            vectors_text.number_sentences = lambda *arguments, **more: die(number(*arguments, **more))
        elif place == "training":
            tables.learn = lambda self, tokens, rates, now: (die if now == step else learn)(self, tokens, rates, now)
        elif place == "saving":
            checkpoints.publish = lambda path: (die if path.name == saved else publish)(path)
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


@pytest.mark.parametrize(
    ("sections", "names", "step"),
    [
        ({}, ["checkpoint-3", "checkpoint-6"], 8),
        ({"model": {"objective": "hierarchical-softmax"}}, ["checkpoint-3", "checkpoint-6"], 8),
        ({"data": {"phrases": [0.9, 0.9], "phrase_delta": 1.0}}, ["checkpoint-3", "checkpoint-6"], 8),
        ({"training": {"engine": "torch"}}, ["checkpoint-1", "checkpoint-2"], 2),  # whose steps are longer
    ],
    ids=["negative sampling", "hierarchical softmax", "phrases", "torch"],
)
def test_a_killed_run_ends_where_the_whole_run_ends(tmp_path, sections, names, step):
    """Killed while the text is read, then while a checkpoint is saved, then while it trains on."""
    text = write_text(tmp_path / "text.txt", lines=600)
    training = {"save_strategy": "steps", "save_steps": 3, "logging_steps": 2} | sections.get("training", {})
    recipe_for(text, tmp_path, **sections | {"training": training})
    engine = training.get("engine", "numba")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "tiny.yaml"), str(tmp_path), names[1], str(step), engine]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "whole": 0,
        "reading": [-9, False],
        "saving": [-9, names[0]],
        "training": [-9, names[1]],
        "resumed": 0,
    }, done.stderr
    runs = tmp_path / "killed", tmp_path / "whole"
    weights = [(run / "model.safetensors").read_bytes() for run in runs]
    assert weights[0] == weights[1]
    histories = [json.loads((run / "history.json").read_text()) for run in runs]
    losses = [[(row["step"], row["loss"], row.get("epoch_loss")) for row in history] for history in histories]
    assert losses[0] == losses[1]
    words = Word2VecModel.from_pretrained(runs[0]).index_to_key
    assert any("_" in word for word in words) == ("data" in sections)  # the pattern finds no such word
    assert not [path.name for path in (*tmp_path.iterdir(), *runs[0].iterdir()) if path.name.startswith(".")]


def test_a_finished_run_trains_longer(text, tmp_path):
    run = tmp_path / "run"
    model = {"subsample": 0.0}
    short = recipe_for(text, tmp_path, model=model, training={"num_train_epochs": 1, "learning_rate": 0.1})
    before = train(short, str(run))["training"]
    longer = recipe_for(text, tmp_path, model=model, training={"num_train_epochs": 20, "learning_rate": 0.1})
    metrics = train(longer, str(run), resume=True)
    assert metrics["training"]["epochs"] == 20
    assert metrics["training"]["final_loss"] < before["final_loss"]
    assert neighbours_of_one_topic(Word2VecModel.from_pretrained(run)) == 1  # by chance a quarter
    assert load_recipe(run).training["num_train_epochs"] == 20
    assert not (run / "text").exists()


def test_a_run_is_not_resumed_on_another_text(text, tmp_path):
    run = tmp_path / "run"
    train(recipe_for(text, tmp_path), str(run))
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    first = text.read_text(encoding="utf-8")
    text.write_text(first[:-20].replace("t0w0", "t0w1", 1) + first[-20:], encoding="utf-8")  # of the same length
    longer = recipe_for(text, tmp_path, training={"num_train_epochs": 5})
    with pytest.raises(RecipeError, match=r"data.train: the text is not the one with which the run in .* began"):
        train(longer, str(run), resume=True)
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
    assert not (run / "text").exists()
    text.unlink()
    with pytest.raises(RecipeError, match="data.train: there is no file"):
        train(longer, str(run), resume=True)
    assert (run / "metrics.json").is_file()
    text.write_text(first, encoding="utf-8")
    assert train(longer, str(run), resume=True)["training"]["epochs"] == 5


def stopped(*arguments, **settings):
    raise KeyboardInterrupt


def test_a_run_whose_text_was_read_goes_on_without_it(text, tmp_path, monkeypatch):
    recipe, run = recipe_for(text, tmp_path), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(vectors_run, "train_word2vec", stopped)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, str(run))
    train(recipe, str(tmp_path / "whole"))
    text.unlink()
    train(recipe, str(run), resume=True)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (run, tmp_path / "whole")]
    assert weights[0] == weights[1]


def test_a_run_that_kept_no_checkpoint_is_not_begun_again(text, tmp_path):
    run = tmp_path / "run"
    recipe = recipe_for(text, tmp_path, training={"save_strategy": "no"})
    train(recipe, str(run))
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(RecipeError, match="kept no checkpoint to go on from"):
        train(recipe, str(run), resume=True)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_a_run_with_metrics_holds_no_text(text, tmp_path, monkeypatch):
    run = tmp_path / "run"

    def write(path, content):
        if Path(path).name == "metrics.json":
            assert not (run / "text").exists()
            raise KeyboardInterrupt

    monkeypatch.setattr(vectors_run, "write_json", lambda path, content: write(path, content) or WRITE(path, content))
    with pytest.raises(KeyboardInterrupt):
        train(recipe_for(text, tmp_path), str(run))
    assert not (run / "metrics.json").exists()


def test_the_folder_of_a_run_may_be_the_present_one(text, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    recipe = recipe_for(text, tmp_path)
    train(recipe, ".")
    assert (tmp_path / "here" / "metrics.json").is_file()
    with pytest.raises(RecipeError, match="the folder in which this command runs"):
        train(recipe, ".", overwrite=True)
    train(recipe_for(text, tmp_path, training={"num_train_epochs": 4}), ".", resume=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "text.txt", "tiny.yaml"]


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
        model={"architecture": "cbow", "subsample": 0.0}, tokenizer={"vocab_size": 4},
    )  # fmt: skip
    metrics = train(recipe, str(tmp_path / "run"))
    assert metrics["data"]["vocabulary_size"] == 4
    model = Word2VecModel.from_pretrained(tmp_path / "run")
    assert model.config.architecture == "cbow"
    assert "new_york" in model.index_to_key
    assert training_of(recipe)["learning_rate"] == 0.05
    assert training_of(recipe_for(rows, tmp_path))["learning_rate"] == 0.025
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run")
    assert len(tokenizer("new york")["input_ids"]) == 2


def test_a_stream_of_rows(tmp_path):
    rows = tmp_path / "rows.jsonl"
    text = write_text(tmp_path / "text.txt").read_text(encoding="utf-8")
    rows.write_text("".join(json.dumps({"text": line}) + "\n" for line in text.splitlines()), encoding="utf-8")
    recipes = [recipe_for(tmp_path / "text.txt", tmp_path), recipe_for(rows, tmp_path, data={"streaming": True})]
    weights = []
    for number, recipe in enumerate(recipes):
        train(recipe, str(tmp_path / f"run{number}"))
        weights.append((tmp_path / f"run{number}" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": None}, "line 3: column 'text' holds no value where text is wanted"),
        ({"text": 7}, "line 3: column 'text' holds a whole number where text is wanted"),
        ({"txt": "a b"}, "line 3.* no column 'text'"),
    ],
)
def test_rows_without_text_are_refused(tmp_path, row, message, streaming):
    rows = tmp_path / "rows.jsonl"
    content = [{"text": "the cat sat"}, {"text": "the cat ran"}, row]
    rows.write_text("".join(json.dumps(each) + "\n" for each in content), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        train(recipe_for(rows, tmp_path, data={"streaming": streaming}), str(tmp_path / "run"))
    with pytest.raises(ValueError, match="no column 'body'"):
        train(recipe_for(rows, tmp_path, data={"columns": {"text": "body"}}), str(tmp_path / "run"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl", "tiny.yaml"]


def test_a_text_of_one_line(tmp_path, monkeypatch):
    path = write_text(tmp_path / "text.txt")
    lines = path.read_text(encoding="utf-8").split("\n")
    path.write_text(" ".join(lines), encoding="utf-8")
    monkeypatch.setattr(vectors_text, "COMPARED", 100)
    metrics = train(recipe_for(path, tmp_path, model={"subsample": 0.0}), str(tmp_path / "run"))
    assert metrics["data"]["words_of_vocabulary"] == 300 * 11


def test_the_words_are_those_of_the_tokenizer(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text("<s> 5 m² of a\u200db the cat </s>\n" * 9, encoding="utf-8")
    for pattern in (r"\S+", r"\w+", None):
        run = tmp_path / "run"
        tokenizer = {"pattern": pattern, "max_length": 7}
        train(recipe_for(path, tmp_path, model={"subsample": 0.0}, tokenizer=tokenizer), str(run), overwrite=True)
        tokenizer = AutoTokenizer.from_pretrained(run)
        words = Word2VecModel.from_pretrained(run).index_to_key
        assert len(words) > 5
        assert [tokenizer(word)["input_ids"] for word in words] == [[row] for row in range(len(words))]
        assert tokenizer.model_max_length == 7
    assert "cuts them otherwise" not in capsys.readouterr().err


def test_a_pattern_that_the_tokenizer_reads_otherwise_is_refused(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cafe added beef\n" * 9, encoding="utf-8")
    for pattern, message in (
        (r"(?:(?!\s)\h)+|[a-z]", "finds other words in training than the tokenizer"),  # blanks, or digits to base 16
        (r"(?<=\s)\w+", "does not make that one word where it stands alone, as with 100%"),
    ):
        with pytest.raises(RecipeError, match=message):
            train(recipe_for(path, tmp_path, tokenizer={"pattern": pattern}), str(tmp_path / "run"))
    with pytest.raises(ValueError, match="matches the empty text"):
        train(recipe_for(tmp_path / "none.txt", tmp_path, tokenizer={"pattern": r"[\p{L}]*"}), str(tmp_path / "run"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt", "tiny.yaml"]


def test_words_that_the_tokenizer_does_not_make_have_no_vector(tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_text(("the cat sat on the mat with a dog\n" * 7 + "the xy ran\n") * 5, encoding="utf-8")
    pattern = "x(?=y)|(?<=x)y|[a-w]+"  # x and y are found beside each other alone
    recipe = recipe_for(path, tmp_path, model={"subsample": 0.0}, tokenizer={"pattern": pattern})
    train(recipe, str(tmp_path / "run"))
    words = Word2VecModel.from_pretrained(tmp_path / "run").index_to_key
    assert {"the", "cat", "ran"} <= set(words)
    assert not {"x", "y"} & set(words)
    assert (
        "2 words have no vector, since the tokenizer cuts them otherwise, such as 'x', 'y'" in capsys.readouterr().err
    )


class TestTrainingOn:
    def recipe(self, tmp_path, text, **sections):
        model = {"start_from": str(tmp_path / "old"), "subsample": 0.0} | sections.pop("model", {})
        return recipe_for(text, tmp_path, model=model, **sections)

    def more_text(self, tmp_path):
        """Two new words, each beside words of one topic, one word that is rare, and one of the old words alone."""
        rng = np.random.default_rng(1)
        lines = (" ".join([*(f"t{t}w{w}" for w in rng.integers(0, 6, 5)), f"new{t}"]) for t in rng.integers(0, 2, 400))
        path = tmp_path / "new.txt"
        path.write_text("\n".join(lines) + "\ntopic seldom seldom\n", encoding="utf-8")
        return path

    @pytest.mark.parametrize("objective", ["negative-sampling", "hierarchical-softmax"])
    def test_old_words_begin_from_their_vectors_and_new_ones_are_added(self, text, tmp_path, objective):
        train(recipe_for(text, tmp_path, model={"objective": objective}), str(tmp_path / "old"))
        old = Word2VecModel.from_pretrained(tmp_path / "old")
        still = {"num_train_epochs": 1, "learning_rate": 0.0, "min_learning_rate": 0.0}
        recipe = self.recipe(tmp_path, self.more_text(tmp_path), model={"objective": objective}, training=still)
        metrics = train(recipe, str(tmp_path / "run"))
        model, tokenizer = (
            Word2VecModel.from_pretrained(tmp_path / "run"),
            AutoTokenizer.from_pretrained(tmp_path / "run"),
        )
        assert model.index_to_key[: len(old)] == old.index_to_key
        assert set(model.index_to_key[len(old) :]) == {"new0", "new1"}
        assert (model.vectors[: len(old)] == old.vectors).all()
        topic = old.get_index("topic")
        assert model.counts[topic] == old.counts[topic] + 1
        assert tokenizer("new0")["input_ids"] == [model.get_index("new0")]
        assert metrics["model"]["start_from"] == str(tmp_path / "old")
        assert metrics["data"]["words_before"] == len(old)
        assert metrics["data"]["distinct_words_left_out"] == 1

    def test_new_words_are_learnt(self, text, tmp_path, capsys):
        settings = {"num_train_epochs": 20, "learning_rate": 0.1}
        train(recipe_for(text, tmp_path, model={"subsample": 0.0}, training=settings), str(tmp_path / "old"))
        train(self.recipe(tmp_path, self.more_text(tmp_path), training=settings), str(tmp_path / "run"))
        model = Word2VecModel.from_pretrained(tmp_path / "run")
        assert neighbours_of_one_topic(model) == 1
        topics = [[f"t{topic}w{word}" for word in range(6)] for topic in range(4)]
        for number in (0, 1):
            similar = [model.n_similarity([f"new{number}"], words) for words in topics]
            assert np.argmax(similar) == number
            assert similar[number] > np.sort(similar)[-2] + 0.1
        assert "begin from the vectors of" in capsys.readouterr().err

    def test_glove(self, text, tmp_path):
        model = {"type": "glove", "x_max": 10.0}
        train(recipe_for(text, tmp_path, model=model), str(tmp_path / "old"))
        recipe = recipe_for(self.more_text(tmp_path), tmp_path, model=model | {"start_from": str(tmp_path / "old")})
        metrics = train(recipe, str(tmp_path / "run"))
        assert np.isfinite(metrics["training"]["final_loss"])
        assert "new1" in GloVeModel.from_pretrained(tmp_path / "run")

    def test_killed_before_its_first_checkpoint(self, text, tmp_path, monkeypatch):
        train(recipe_for(text, tmp_path), str(tmp_path / "old"))
        recipe = self.recipe(tmp_path, self.more_text(tmp_path))
        with monkeypatch.context() as patch:
            patch.setattr(vectors_run, "train_word2vec", stopped)
            with pytest.raises(KeyboardInterrupt):
                train(recipe, str(tmp_path / "run"))
        train(recipe, str(tmp_path / "run"), resume=True)
        train(recipe, str(tmp_path / "whole"))
        weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("run", "whole")]
        assert weights[0] == weights[1]

    def test_a_bound_is_of_all_words(self, text, tmp_path):
        train(recipe_for(text, tmp_path), str(tmp_path / "old"))
        old = Word2VecModel.from_pretrained(tmp_path / "old")
        for room in (1, -5):
            bound = {"vocab_size": len(old) + room}
            recipe = self.recipe(tmp_path, self.more_text(tmp_path), tokenizer=bound)
            train(recipe, str(tmp_path / "run"), overwrite=True)
            assert len(Word2VecModel.from_pretrained(tmp_path / "run")) == len(old) + max(0, room)

    @pytest.mark.parametrize(
        ("sections", "message"),
        [
            ({"model": {"start_from": "nowhere"}}, "model.start_from: 'nowhere' is no folder with a model"),
            ({"model": {"hidden_size": 8}}, "model.hidden_size: 8 differs from 12, which the vectors of .* have"),
            ({"model": {"architecture": "cbow"}}, "model.architecture: 'cbow' differs from 'skip-gram'"),
            ({"model": {"objective": "hierarchical-softmax"}}, "model.objective: 'hierarchical-softmax' differs"),
            ({"tokenizer": {"lowercase": False}}, "tokenizer.lowercase: False differs from True"),
            ({"model": {"type": "glove", "subsample": None}}, "is a model of type 'regard-word2vec', not 'glove'"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, text, tmp_path, sections, message):
        train(recipe_for(text, tmp_path), str(tmp_path / "old"))
        given = {"start_from": str(tmp_path / "old")} | sections.get("model", {})
        given = {key: value for key, value in given.items() if value is not None}
        recipe = recipe_for(text, tmp_path, **sections | {"model": given})
        with pytest.raises(RecipeError, match=message):
            train(recipe, str(tmp_path / "run"))
        assert not (tmp_path / "run").exists()


def test_reading_is_told_on_the_way():
    stream = io.StringIO()
    progress = vectors_text.TextProgress(stream, first=0)
    progress.report(1234567, 89012)
    progress.report(1234568, 89012)  # at once: not every block has a line
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("read 1,234,567 words in 0 s, 89,012 distinct ones, ")
    assert line.endswith(" words/s")


def test_the_bar_of_a_resumed_training_begins_where_it_goes_on():
    """The speed that it shows is that of all words so far, since several workers end their steps in bursts."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    entry = {"loss": 1.0, "words": 6000, "seconds": 2.0, "words_per_second": 1e9, "learning_rate": 0.1}
    plan = Plan(np.arange(11), 100, 10, 0.1, 0.0)
    with vectors_run.VectorProgress(Terminal()) as progress:
        progress.report(TrainingState(step=60, history=[entry]), plan)
        assert (progress.bar.n, progress.bar.initial, progress.bar.total) == (60, 60, 100)
        progress.report(TrainingState(step=70, history=[entry]), plan)
        assert (progress.bar.n, progress.bar.initial) == (70, 60)
        assert "3,000 words/s" in progress.bar.postfix


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
        ({"training": {"learning_rate": 1e-5}}, "training.min_learning_rate: 0.0001 is above training.learning_rate"),
        ({"training": {"learning_rate": 0.1, "min_learning_rate": 0.2}}, "training.min_learning_rate: 0.2 is above"),
        ({"training": {"learning_rate": float("inf")}}, "training.learning_rate: inf is not a number"),
        ({"training": {"seed": -1}}, "training.seed: -1 is not between 0 and"),
        ({"training": {"seed": 2**33}}, "training.seed: 8589934592 is not between 0 and"),
        (
            {"training": {"engine": "torch"}, "model": {"objective": "hierarchical-softmax"}},
            "training.engine: 'torch' has no hierarchical softmax",
        ),
        ({"training": {"save_steps": 5}}, "training.save_steps: 5 is for training.save_strategy: steps"),
        ({"training": {"save_strategy": "steps", "save_steps": 0}}, "training.save_steps: 0 is less than 1"),
        (
            {"training": {"engine": "torch", "per_device_train_batch_size": 100}},
            "per_device_train_batch_size: 100 words are no whole number of blocks of 16, such as 96",
        ),
        ({"data": {"max_tokens_per_batch": 9}}, "data.max_tokens_per_batch: 9 has no effect on word vectors"),
        ({"data": {"packing": "documents"}}, "data.packing: 'documents' has no effect on word vectors"),
        ({"data": {"block_size": 9}}, "data.block_size: 9 has no effect on word vectors"),
        ({"evaluation": {"average_checkpoints": 2}}, "evaluation.average_checkpoints: 2 has no effect"),
        ({"evaluation": {"num_beams": 2}}, "evaluation.num_beams: 2 has no effect"),
    ],
)
def test_recipes_that_cannot_be(text, tmp_path, sections, message):
    with pytest.raises(RecipeError, match=message):
        recipe_for(text, tmp_path, **sections)


def test_settings_of_another_architecture_are_left_out_and_named(text, tmp_path, caplog):
    """So that a shipped recipe is trained with another objective or architecture by one override."""
    with caplog.at_level(logging.WARNING):
        tree = load_recipe("word-vectors/wiki-skipgram", ["model.objective=hierarchical-softmax"])
        skip_gram = load_recipe("word-vectors/wiki-cbow", ["model.architecture=skip-gram"])
    assert not {"num_negatives", "negative_exponent"} & tree.model.keys()
    assert "cbow_mean" not in skip_gram.model
    assert "not used: model.num_negatives, model.negative_exponent." in caplog.text
    assert "not used: model.cbow_mean." in caplog.text


def test_threads_and_a_device_exclude_each_other(text, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.accelerator.is_available", lambda: True)
    monkeypatch.setattr("torch.accelerator.current_accelerator", lambda: SimpleNamespace(type="cuda"))
    with pytest.raises(RecipeError, match="training.workers: 2 are for the processor.*'cuda'"):
        train(recipe_for(text, tmp_path, training={"engine": "torch", "workers": 2}), str(tmp_path / "run"))


def test_several_processes_are_refused(text, tmp_path, monkeypatch):
    """Each would make, and remove, the same hidden folder."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RecipeError, match="are trained in one process, by threads .* without `accelerate launch`"):
        train(recipe_for(text, tmp_path), str(tmp_path / "run"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt", "tiny.yaml"]


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

    def in_this_process(command, **settings):
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
    assert [contest["quality"].keys() for contest in result["contests"]] == [{"pairs"}] * len(result["records"])
    assert record["words"] == result["records"]["gensim"][0]["words"]
    assert all(f"| skip-gram, {tool} |" in (tmp_path / "README.md").read_text() for tool in result["records"])
    assert str(tmp_path) not in (tmp_path / "results" / "word_vectors.json").read_text()

    done = len(calls)
    next((tmp_path / "parts").glob("contest-skip-gram-gensim-*")).unlink()
    word_vectors.main(arguments)
    assert len(calls) == done + 1
