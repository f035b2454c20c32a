"""Learning curves: which examples are drawn, what a sweep over their number records, and how it is drawn."""

import json
from collections import Counter

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from typer.testing import CliRunner

from regard.cli import app
from regard.evaluation.learning_curves import LearningCurve, plot_learning_curves
from regard.model_cards.records import split_sources
from regard.train.data import data_seed, load_splits
from regard.train.recipe import load_recipe
from regard.train.subset import first_examples, in_turn
from regard.train.sweep import sweep
from regard.train.sweep_pictures import plot_sweep_curves

from .label_runs import LABELS, texts_recipe, words_recipe

EXAMPLES = "data.max_train_examples"


def labelled(labels):
    features = Features({"text": Value("string"), "label": ClassLabel(names=LABELS)})
    return Dataset.from_dict({"text": [f"row {i}" for i in range(len(labels))], "label": labels}, features=features)


def test_labels_take_turns():
    """By a loop: in each round the next row of every label that has one left, in the order of the rows."""
    labels = np.random.default_rng(0).integers(0, 4, 60)
    labels[labels == 2] = 3
    rounds, seen = {}, Counter()
    for row, label in enumerate(labels):
        rounds.setdefault(seen[label], []).append(row)
        seen[label] += 1
    assert in_turn(labels).tolist() == [row for turn in sorted(rounds) for row in rounds[turn]]


def test_fewer_examples_are_some_of_the_more_and_labels_are_balanced(caplog):
    train = labelled([0] * 50 + [1] * 8 + [2] * 30)
    before: set = set()
    for number in (1, 2, 3, 7, 24, 25, 60, 87):
        part = first_examples(train, number, seed=5)
        assert len(part) == number
        assert before < set(part["text"])
        before = set(part["text"])
        counts = np.bincount(part["label"], minlength=3)
        if number <= 24:  # three times the rarest label
            assert counts.max() - counts.min() <= 1
        assert part["text"] == sorted(part["text"], key=lambda text: int(text.split()[1]))  # in the split's own order
    assert np.bincount(part["label"]).tolist()[1] == 8  # all that there are
    assert first_examples(train, 88, seed=5) is train
    assert not caplog.text
    assert first_examples(train, 1000, seed=5) is train
    assert "data.max_train_examples: 1000 are more than data.train's 88: all are taken." in caplog.text
    chosen = {seed: tuple(first_examples(train, 10, seed)["text"]) for seed in range(5)}
    assert len(set(chosen.values())) == 5
    assert tuple(first_examples(train, 10, 3)["text"]) == chosen[3]


def test_rows_without_labels_are_drawn_alike():
    train = Dataset.from_dict({"source": [str(i) for i in range(400)]})
    part = first_examples(train, 200, seed=0)
    halves = [sum(int(text) < 200 for text in part["source"]), 200]
    assert 75 < halves[0] < 125  # 100, with a deviation of about 5
    assert set(first_examples(train, 50, seed=0)["source"]) < set(part["source"])


def test_only_the_training_split_is_smaller(tmp_path):
    path = texts_recipe(tmp_path)
    whole, small = load_recipe(path), load_recipe(path, [f"{EXAMPLES}=9", "data.validation=25%"])
    splits = load_splits(small.data, small.task, seed=1)
    assert {name: len(split) for name, split in splits.items()} == {"train": 9, "validation": 10, "test": 16}
    others = load_splits(load_recipe(path, ["data.validation=25%"]).data, whole.task)
    assert splits["validation"][:] == others["validation"][:]
    assert set(splits["train"]["text"]) <= set(others["train"]["text"])  # of what is not held out
    assert splits["train"].features["label"].names == LABELS
    assert load_splits(small.data, small.task, ["test"])["test"][:] == splits["test"][:]
    assert load_splits(small.data, small.task, ["train"], seed=2)["train"][:] != splits["train"][:]
    tags = load_recipe(words_recipe(tmp_path), [f"{EXAMPLES}=5"])
    assert len(load_splits(tags.data, tags.task)["train"]) == 5


def test_a_card_tells_how_many_examples_were_drawn():
    data = {"train": "/x/sst2/train.tsv", "max_train_examples": 1024}
    assert split_sources(data) == {"train": "sst2/train.tsv, up to 1,024 rows of it"}
    held_out = split_sources(data | {"test": "5%"})
    assert held_out == {"train": "sst2/train.tsv, up to 1,024 rows of it", "test": "held out of train: 5%"}


def test_the_seed_of_the_data_draws():
    assert data_seed(load_recipe("translation/turkish-en-tr", ["training.seed=7"])) == 7
    assert data_seed(load_recipe("translation/turkish-en-tr", ["training.seed=7", "training.data_seed=3"])) == 3
    assert data_seed(load_recipe("translation/turkish-en-tr", ["training.data_seed=0"])) == 0


@pytest.mark.parametrize(
    ("recipe", "overrides", "sentence"),
    [
        ("translation/turkish-en-tr", [f"{EXAMPLES}=0"], r"max_train_examples: 0 is less than 1"),
        ("translation/turkish-en-tr", [f"{EXAMPLES}=x"], r"max_train_examples: 'x' is not a whole number or null"),
        ("language-modeling/tinyshakespeare-char", [f"{EXAMPLES}=9"], "causal-lm reads running text, which has no"),
        (
            "translation/turkish-en-tr",
            [f"{EXAMPLES}=9", "data.streaming=true", "data.max_tokens_per_batch=null", "training.max_steps=5"],
            r"data\.max_train_examples are drawn from all, and data\.streaming reads as they come",
        ),
    ],
)
def test_what_has_no_examples_to_count_is_refused(recipe, overrides, sentence):
    with pytest.raises(ValueError, match=sentence):
        load_recipe(recipe, overrides)


# --- a sweep over them -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("curve")
    path = texts_recipe(folder)
    values = {EXAMPLES: [6, None]}
    return folder / "sweep", sweep(path, [], values, 2, folder / "sweep", test=True)


def test_a_sweep_records_the_examples_and_what_the_most_frequent_label_gives(swept):
    folder, result = swept
    assert [cell["examples"] for cell in result["cells"]] == [6, 6, 40, 40]
    assert [setting["examples"] for setting in result["settings"]] == [6, 40]
    for cell in result["cells"]:
        run = folder / cell["run"]
        metrics = json.loads((run / "metrics.json").read_text())
        assert metrics["data"]["train"]["examples"] == cell["examples"]
        assert cell["test"] == metrics["evaluation"]["test"]
        assert cell["baselines"]["test"]["accuracy"] == 6 / 16  # labels in turn: six, five and five
        assert cell["baselines"]["validation"]["accuracy"] == 8 / 24
        assert cell["baselines"]["test"]["matthews_correlation"] == 0
        assert {path.name for path in run.iterdir()} >= {"errors.json", "confusion.png"}
        assert "confusion.png" in (run / "README.md").read_text()
        errors = json.loads((run / "errors.json").read_text())
        assert all(len(report["errors"]) <= 4 for report in errors.values())


def test_the_curves_of_sweeps_are_drawn_together(swept, tmp_path):
    folder, result = swept
    text = plot_sweep_curves([folder], tmp_path / "a.svg", metric="accuracy", split="test").read_text()
    for shown in ("sweep, 2 seeds", "always the most frequent label: 0.375", "accuracy on test by the number of"):
        assert shown in text
    other = tmp_path / "other"
    other.mkdir()
    changed = json.loads(json.dumps(result))
    assert [cell["seed"] for cell in changed["cells"]] == [42, 43, 42, 43]
    changed["cells"][1]["validation"]["accuracy"] = None  # what was no number
    (other / "sweep.json").write_text(json.dumps(changed))
    call = ["plot", "learning-curve", str(folder), str(other), "-o", str(tmp_path / "b.svg"), "--json"]
    assert json.loads(CliRunner().invoke(app, call).stdout) == {"picture": str(tmp_path / "b.svg")}
    text = (tmp_path / "b.svg").read_text()
    assert "other, 1 to 2 seeds" in text
    assert "accuracy on validation" in text  # by which the sweeps were judged


def test_a_curve_holds_what_each_seed_had_on_the_split(swept, tmp_path, monkeypatch):
    folder, result = swept
    monkeypatch.setattr("regard.train.sweep_pictures.plot_learning_curves", lambda curves, path, **settings: curves)
    for split in ("validation", "test"):
        (curve,) = plot_sweep_curves([folder], tmp_path / "a.png", metric="loss", split=split)
        losses = [cell[split]["loss"] for cell in result["cells"]]
        assert (curve.numbers, curve.values) == ([6, 40], [losses[:2], losses[2:]])
    assert losses != [cell["validation"]["loss"] for cell in result["cells"]]


def test_means_and_deviations_of_a_curve():
    values = [[0.1, 0.4, 0.25], [0.5]]
    curve = LearningCurve("a", [8, 16], values)
    assert curve.means().tolist() == pytest.approx([np.mean(values[0]), 0.5])
    first, second = curve.deviations()
    assert first == pytest.approx(np.std(values[0], ddof=1))
    assert np.isnan(second)  # one seed deviates from nothing


def test_the_axis_is_logarithmic_and_the_band_is_one_deviation(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "regard.evaluation.learning_curves.save_figure", lambda figure, path: seen.setdefault("axes", figure.axes[0])
    )
    curve = LearningCurve("a", [16, 64, 256], [[0.5, 0.7], [0.6, 0.9], [0.8, 0.8]])
    plot_learning_curves([curve], tmp_path / "a.png", metric="accuracy", chance=0.5)
    axes = seen["axes"]
    assert axes.get_xscale() == "log"
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    for number, values in zip(curve.numbers, curve.values, strict=True):
        edges = corners[np.isclose(corners[:, 0], number), 1]
        mean, deviation = np.mean(values), np.std(values, ddof=1)
        assert (edges.min(), edges.max()) == pytest.approx((mean - deviation, mean + deviation))
    assert axes.lines[-1].get_ydata()[0] == 0.5


@pytest.mark.filterwarnings("error")
def test_a_number_with_one_seed_has_no_band(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "regard.evaluation.learning_curves.save_figure", lambda figure, path: seen.setdefault("axes", figure.axes[0])
    )
    several = LearningCurve("a", [2, 4, 8], [[0.1, 0.3], [0.2, 0.4], [0.5]])
    single = LearningCurve("b", [2, 4], [[1], [1]])
    plot_learning_curves([several, single], tmp_path / "a.png", metric="accuracy")
    band, none = seen["axes"].collections
    assert {x for path in band.get_paths() for x, _ in path.vertices} == {2, 4}
    assert not none.get_paths()
    for format in ("png", "svg"):
        monkeypatch.undo()
        plot_learning_curves([several, single], tmp_path / f"a.{format}", metric="accuracy")


def test_labels_of_the_axis_do_not_cover_one_another(tmp_path, monkeypatch):
    """Where two sweeps drew nearly as many examples, the smaller number is written: 16 and 17, of 16 to 4,096, are a
    hundredth of the axis apart."""
    seen = {}
    monkeypatch.setattr(
        "regard.evaluation.learning_curves.save_figure", lambda figure, path: seen.setdefault("axes", figure.axes[0])
    )
    first = LearningCurve("a", [16, 256, 4096], [[0.5], [0.6], [0.8]])
    second = LearningCurve("b", [17, 260.5, 1024, 4000], [[0.5], [0.6], [0.7], [0.8]])
    plot_learning_curves([first, second], tmp_path / "a.png", metric="accuracy")
    assert list(seen["axes"].get_xticks()) == [16, 256, 1024, 4000]
    assert list(seen["axes"].get_xticks(minor=True)) == []


def test_what_is_no_learning_curve_is_refused(swept, tmp_path):
    folder, result = swept
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "sweep.json").write_text(json.dumps(result | {"values": {"model.dropout": [0.1]}}))
    judged = tmp_path / "judged"
    judged.mkdir()
    (judged / "sweep.json").write_text(json.dumps(result | {"metric": "loss"}))
    for sweeps, settings, sentence in (
        ([plain], {}, "The sweep 'plain' has no learning curve"),
        ([folder, judged], {}, "judged by accuracy and loss: choose one"),
        ([folder], {"metric": "bleu"}, r"has not measured bleu\.$"),
        ([folder], {"split": "test:x"}, "has not measured accuracy on test:x: it is on validation and test"),
        ([tmp_path], {}, "There is no sweep in"),
    ):
        with pytest.raises(ValueError, match=sentence):
            plot_sweep_curves(sweeps, tmp_path / "a.png", **settings)
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_learning_curves([], tmp_path / "a.png", metric="accuracy")
