"""Confusions and errors of runs that label: against scikit-learn, and against the model asked item by item."""

import json

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, matthews_corrcoef
from typer.testing import CliRunner

from regard.cli import app
from regard.evaluation.confusion import MOST_LABELS, count_confusions, plot_confusion, row_shares
from regard.evaluation.generation import load_run
from regard.model_cards.card import render_card
from regard.model_cards.staging import stage
from regard.train.errors import majority_scores, plot_run_confusion, write_errors
from regard.train.evaluate import evaluate_run
from regard.train.preprocessing import encode_texts

from .label_runs import make_run, texts_recipe, words_recipe


@pytest.fixture(scope="module")
def texts_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    return make_run(folder / "run", texts_recipe(folder))


@pytest.fixture(scope="module")
def words_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    return make_run(folder / "run", words_recipe(folder))


@pytest.fixture(scope="module")
def measured(texts_run):
    return evaluate_run(texts_run, errors=100)


def rows_of(run, split):
    return [json.loads(line) for line in (run.parent / f"{split}.jsonl").read_text().splitlines()]


def chances_of(run, rows):
    """The probabilities of each row's labels, asked one by one."""
    model, tokenizer = load_run(run)
    found = []
    for row in rows:
        batch = {"text": [row["text"]], "text_pair": [row["second"]], "label": [0]}
        encoded = encode_texts(batch, tokenizer, 20)
        names = ("input_ids", "attention_mask", "token_type_ids")
        inputs = {name: torch.tensor(encoded[name]) for name in names if name in encoded}
        with torch.no_grad():
            found.append(model(**inputs).logits[0].softmax(-1).tolist())
    return np.array(found)


def test_counts_and_shares_are_scikit_learns():
    rng = np.random.default_rng(0)
    right, predicted = rng.integers(0, 5, 300), rng.integers(0, 4, 300)  # the last is never predicted
    right[right == 2] = 3  # and the third never right
    counts = count_confusions(right, predicted, 5)
    assert (counts == confusion_matrix(right, predicted, labels=range(5))).all()
    shares = confusion_matrix(right, predicted, labels=range(5), normalize="true")
    assert row_shares(counts) == pytest.approx(shares)
    assert count_confusions([], [], 2).tolist() == [[0, 0], [0, 0]]


def test_the_picture_names_labels_counts_and_shares(tmp_path):
    counts = np.array([[30, 10], [5, 1234]])
    text = plot_confusion(counts, ["$no$", "yes"], tmp_path / "a.svg", "test:mine").read_text()
    for shown in ("$no$", "1,234", "75%", "75% of 40", "100% of 1,239", "test:mine: 1,264 of 1,279 right"):
        assert shown in text
    many = np.eye(MOST_LABELS, dtype=int) * 7
    many[0, 0] = 0
    names = [f"label {i}" for i in range(MOST_LABELS)]
    text = plot_confusion(many, names, tmp_path / "b.svg").read_text()
    assert "label 49" in text
    assert "100% of 7" in text
    assert ">none<" in text or "<!-- none -->" in text
    with pytest.raises(ValueError, match="51 labels cannot be read: at most 50"):
        plot_confusion(np.eye(51, dtype=int), [str(i) for i in range(51)], tmp_path / "c.svg")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_confusion(np.zeros((2, 2), int), ["a", "b"], tmp_path / "c.svg")
    assert not (tmp_path / "c.svg").exists()


def test_rows_of_the_picture_are_right_labels_and_columns_predicted_ones(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "regard.evaluation.confusion.save_figure", lambda figure, path: seen.setdefault("axes", figure.axes[0])
    )
    plot_confusion(np.array([[30, 10], [0, 5]]), ["no", "yes"], tmp_path / "a.png")
    axes = seen["axes"]
    assert axes.images[0].get_array().tolist() == [[0.75, 0.25], [0.0, 1.0]]
    texts = {text.get_position(): text.get_text() for text in axes.texts}  # at column and row
    assert texts == {(0, 0): "30\n75%", (1, 0): "10\n25%", (1, 1): "5\n100%"}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted label", "right label")
    (beside,) = axes.child_axes
    assert [label.get_text() for label in beside.get_yticklabels()] == ["75% of 40", "100% of 5"]


def test_a_runs_confusions_are_those_of_its_labels_one_by_one(texts_run, measured):
    rows = rows_of(texts_run, "test")
    labels = ["no", "perhaps", "yes"]
    guesses = [labels[i] for i in chances_of(texts_run, rows).argmax(1)]
    report = measured["test"]["errors"]
    right = [row["label"] for row in rows]
    assert report["confusion"] == confusion_matrix(right, guesses, labels=labels).tolist()
    assert report["labels"] == labels
    assert report["wrong"] == sum(r != g for r, g in zip(right, guesses, strict=True)) == len(report["errors"]) > 4
    assert measured["test"]["accuracy"] == pytest.approx(accuracy_score(right, guesses))


def test_errors_come_surest_first_with_both_texts(texts_run, measured):
    rows = rows_of(texts_run, "validation")
    chances = chances_of(texts_run, rows)
    labels = ["no", "perhaps", "yes"]
    wrong = [i for i, row in enumerate(rows) if labels[chances[i].argmax()] != row["label"]]
    wrong.sort(key=lambda i: -chances[i].max())
    errors = measured["validation"]["errors"]["errors"]
    assert [error["row"] for error in errors] == wrong
    for i, error in zip(wrong, errors, strict=True):
        assert (error["text"], error["text_pair"]) == (rows[i]["text"], rows[i]["second"])
        assert (error["label"], error["predicted"]) == (rows[i]["label"], labels[chances[i].argmax()])
        assert error["probability"] == pytest.approx(chances[i].max(), abs=2e-6)


def test_the_batch_size_changes_no_error(texts_run, measured):
    again = evaluate_run(texts_run, "validation", errors=100, batch_size=1)["validation"]["errors"]
    before = measured["validation"]["errors"]
    assert again["confusion"] == before["confusion"]
    assert [error["row"] for error in again["errors"]] == [error["row"] for error in before["errors"]]


def test_wrong_words_are_told_with_their_sentence_and_lost_ones_are_counted(words_run):
    report = evaluate_run(words_run, "validation", errors=500)["validation"]["errors"]
    rows = rows_of(words_run, "validation")
    model, tokenizer = load_run(words_run)
    pairs, expected, lost = [], [], 0
    for i, row in enumerate(rows):  # every word is a token, between a start and an end token
        words = row["tokens"][:6]
        lost += len(row["tokens"]) - len(words)
        ids = tokenizer(" ".join(words), return_tensors="pt")["input_ids"]
        with torch.no_grad():
            chances = model(input_ids=ids).logits[0, 1:-1].softmax(-1)
        for place, (word, tag) in enumerate(zip(words, row["tags"], strict=False)):
            guess = model.config.id2label[int(chances[place].argmax())]
            pairs.append((tag, guess))
            if guess != tag:
                about = (round(float(chances[place].max()), 4), i, place, word, tag, guess, " ".join(row["tokens"]))
                expected.append(about)
    assert report["lost"] == lost > 0
    assert report["confusion"] == confusion_matrix(*zip(*pairs, strict=True), labels=report["labels"]).tolist()
    found = [
        (round(e["probability"], 4), e["row"], e["place"], e["word"], e["label"], e["predicted"], e["text"])
        for e in report["errors"]
    ]
    assert sorted(one[1:] for one in found) == sorted(one[1:] for one in expected)
    assert [one[0] for one in found] == pytest.approx(sorted((one[0] for one in expected), reverse=True), abs=2e-4)


def test_the_most_frequent_label_is_scikit_learns_dummy():
    right = np.repeat([0, 1, 2], [5, 11, 2])
    report = {"confusion": [[5, 0, 0], [3, 8, 0], [0, 2, 0]]}
    guesses = DummyClassifier(strategy="most_frequent").fit(right[:, None], right).predict(right[:, None])
    metrics = ["accuracy", "f1", "matthews_correlation", "tag_accuracy"]
    two = majority_scores({"confusion": [[1, 3], [0, 12]]}, ["f1_binary"])
    assert two == pytest.approx({"f1_binary": f1_score([0] * 4 + [1] * 12, [1] * 16)})
    assert majority_scores(report, metrics) == pytest.approx(
        {
            "accuracy": accuracy_score(right, guesses),
            "f1": f1_score(right, guesses, average="macro", zero_division=0),
            "matthews_correlation": matthews_corrcoef(right, guesses),
            "tag_accuracy": 11 / 18,
        }
    )
    assert majority_scores(report, ["span_f1"]) == {}
    assert majority_scores({"confusion": [[0]]}, metrics) == {}


def test_a_run_keeps_its_errors_and_its_card_shows_them(texts_run, measured, tmp_path):
    found = json.loads(json.dumps({name: measures["errors"] for name, measures in measured.items()}))
    found["test"]["errors"] = found["test"]["errors"][:2]
    (texts_run / "metrics.json").write_text(json.dumps({"evaluation": {"test": {"loss": 1.0}}}))
    found["test"]["errors"][0] |= {"text": "/a | b", "text_pair": "x" * 400}
    write_errors(texts_run, found)
    assert json.loads((texts_run / "errors.json").read_text()) == found
    assert (texts_run / "confusion.png").stat().st_size > 5000
    card = render_card(texts_run)
    assert "## Errors" in card
    assert f"On test, {found['test']['wrong']} of 16 labels are wrong; here are the 2 of which" in card
    assert r"| /a \| b | " + "x" * 300 + "… | " in card
    assert "(confusion.png)" in card
    staged = stage(texts_run, tmp_path / "staged").folder  # texts are no places on a disk
    assert json.loads((staged / "errors.json").read_text()) == found
    assert (staged / "confusion.png").is_file()
    drawn = plot_run_confusion(texts_run, tmp_path / "kept.svg", "test").read_text()
    assert f"test: {16 - found['test']['wrong']} of 16 right" in drawn
    (texts_run / "errors.json").unlink()  # then it is measured
    assert plot_run_confusion(texts_run, tmp_path / "anew.svg").read_text().count("of 16 right") == 1
    assert "## Errors" not in render_card(texts_run)


def test_the_first_test_set_is_drawn_and_else_the_first_split(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("regard.train.errors.plot_confusion", lambda counts, names, path, title: drawn.append(title))
    report = {"labels": ["a", "b"], "confusion": [[1, 0], [0, 1]]}
    write_errors(tmp_path, {"validation": report, "test:mine": report, "test:other": report})
    write_errors(tmp_path, {"validation": report})
    assert drawn == ["test:mine", "validation"]


def test_the_commands_print_and_draw(texts_run, measured, tmp_path):
    call = ["evaluate", str(texts_run), "--split", "test", "--errors", "2"]
    lines = CliRunner().invoke(app, call).stdout.splitlines()
    assert len(lines) == 3
    first = measured["test"]["errors"]["errors"][0]
    assert lines[1] == (
        f"test: {first['predicted']} ({first['probability']:.1%}), not {first['label']}: "
        f"{first['text']} ||| {first['text_pair']}"
    )
    as_json = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
    assert as_json["test"]["errors"]["errors"] == measured["test"]["errors"]["errors"][:2]
    picture = tmp_path / "a.png"
    result = CliRunner().invoke(app, ["plot", "confusion", str(texts_run), "-o", str(picture), "--json"])
    assert json.loads(result.stdout) == {"picture": str(picture)}
    assert picture.is_file()


def test_looking_at_more_errors_changes_nothing_that_the_run_keeps(tmp_path):
    run = make_run(tmp_path / "run", texts_recipe(tmp_path))  # whose recipe keeps four errors
    (run / "metrics.json").write_text("{}")
    evaluate_run(run)
    kept = json.loads((run / "errors.json").read_text())
    assert {len(report["errors"]) for report in kept.values()} == {4}
    for number in (0, 7):
        shown = evaluate_run(run, errors=number)
        assert [len(measures["errors"]["errors"]) for measures in shown.values()] == [number] * 2
        assert json.loads((run / "errors.json").read_text()) == kept


def test_what_labels_nothing_has_no_errors(texts_run, tmp_path):
    from .card_runs import make_run as other_run

    run = other_run(tmp_path / "run", "causal-lm", "language-modeling/tinyshakespeare-char")
    for call in (lambda: evaluate_run(run, errors=3), lambda: plot_run_confusion(run, tmp_path / "a.png")):
        with pytest.raises(ValueError, match="gives no labels.*its task is causal-lm"):
            call()
    with pytest.raises(ValueError, match="There is no run in"):
        plot_run_confusion(tmp_path, tmp_path / "a.png")
    with pytest.raises(ValueError, match="errors=-1 is less than 0"):
        evaluate_run(texts_run, errors=-1)
