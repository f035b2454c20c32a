"""`regard predict`: the labels of a file, against the model asked row by row, whatever the batches."""

import json

import pytest
import torch
from typer.testing import CliRunner

from regard.cli import app
from regard.evaluation.generation import load_run
from regard.modeling import TransformerEncoderConfig, TransformerEncoderForSequenceClassification
from regard.train import predict as predicting
from regard.train.predict import predict_file, predict_tags, predict_texts

from .label_runs import LABELS, SIZES, make_run, texts_recipe, words_recipe

TEXTS = ["a bank", "the river sees the bank by it", "", "it " * 60, "sees", "the the the"]


@pytest.fixture(scope="module")
def texts_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    return make_run(folder / "run", texts_recipe(folder, pairs=False))


@pytest.fixture(scope="module")
def words_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    return make_run(folder / "run", words_recipe(folder))


def alone(model, tokenizer, text, length):
    """The logits of one text without padding, at all its tokens or for the whole."""
    ids = tokenizer(text, truncation=True, max_length=length, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        return model(input_ids=ids).logits[0].softmax(-1)


def test_labels_are_the_models_and_no_batch_changes_them(texts_run, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n")
    model, tokenizer = load_run(texts_run)
    rows = predict_file(texts_run, path)
    assert [row["text"] for row in rows] == TEXTS
    for row in rows:
        chances = alone(model, tokenizer, row["text"], 20)
        assert list(row["probabilities"]) == LABELS
        assert list(row["probabilities"].values()) == pytest.approx(chances.tolist(), abs=2e-6)
        assert row["label"] == LABELS[int(chances.argmax())]
        assert row["probability"] == row["probabilities"][row["label"]]
    for size in (1, 2, 5):
        for one, other in zip(rows, predict_file(texts_run, path, batch_size=size), strict=True):
            assert other["label"] == one["label"]
            assert other["probabilities"] == pytest.approx(one["probabilities"], abs=2e-6)
    assert predict_texts(model, tokenizer, []) == []


def test_columns_are_those_of_the_runs_data(tmp_path):
    run = make_run(tmp_path / "run", texts_recipe(tmp_path))
    table = tmp_path / "pairs.tsv"
    table.write_text("id\tsecond\ttext\n1\tthe river\ta bank\n2\tit\tit sees\n")
    model, tokenizer = load_run(run)
    expected = predict_texts(model, tokenizer, ["a bank", "it sees"], ["the river", "it"], 20)
    assert predict_file(run, table) == expected
    assert expected[0].keys() == {"text", "text_pair", "label", "probability", "probabilities"}
    swapped = predict_texts(model, tokenizer, ["the river", "it"], ["a bank", "it sees"], 20)
    assert [row["probabilities"] for row in swapped] != [row["probabilities"] for row in expected]
    table.write_text("text\tother\na bank\tthe river\n")
    with pytest.raises(
        ValueError, match="has no column 'second', which the run reads: its columns are 'text', 'other'"
    ):
        predict_file(run, table)
    (tmp_path / "a.txt").write_text("a bank\n")
    with pytest.raises(ValueError, match="labels pairs of texts"):
        predict_file(run, tmp_path / "a.txt")


def test_lines_and_cells_are_read_as_they_are(texts_run, tmp_path):
    """A mark at the beginning, carriage returns and blank lines of a text; quotes, commas and line ends of a CSV."""
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfa bank\r\n\r\nthe river")
    assert [row["text"] for row in predict_file(texts_run, tmp_path / "a.txt")] == ["a bank", "", "the river"]
    (tmp_path / "a.csv").write_text('id,text\n1,"a, ""bank""\nby"\n2,it\n')
    assert [row["text"] for row in predict_file(texts_run, tmp_path / "a.csv")] == ['a, "bank"\nby', "it"]


def test_a_model_without_a_recipe_reads_the_second_text_that_a_file_has(tmp_path):
    run = make_run(tmp_path / "run", texts_recipe(tmp_path))
    (run / "recipe.yaml").rename(tmp_path / "kept.yaml")
    table = tmp_path / "pairs.tsv"
    table.write_text("text\ttext_pair\na bank\tthe river\n")
    model, tokenizer = load_run(run)
    assert predict_file(run, table) == predict_texts(model, tokenizer, ["a bank"], ["the river"])
    table.write_text("text\na bank\n")
    assert predict_file(run, table) == predict_texts(model, tokenizer, ["a bank"])


def test_a_column_may_be_an_entry_of_another(tmp_path):
    """As in the data that the run was trained on: `review.text` is the entry `text` of the column `review`."""
    values = json.loads(texts_recipe(tmp_path, pairs=False).read_text())
    values["data"]["columns"] = {"text": "review.text"}
    (tmp_path / "tiny.yaml").write_text(json.dumps(values))
    run = make_run(tmp_path / "run", tmp_path / "tiny.yaml")
    table = tmp_path / "reviews.jsonl"
    table.write_text('{"review": {"text": "a bank", "stars": 3}}\n')
    model, tokenizer = load_run(run)
    assert predict_file(run, table) == predict_texts(model, tokenizer, ["a bank"], None, 20)
    table.write_text('{"review": {"stars": 3}}\n')
    with pytest.raises(ValueError, match=r"line 1: there is no column 'review\.text'"):
        predict_file(run, table)
    table.write_text('{"text": "a bank"}\n')
    with pytest.raises(ValueError, match=r"has no column 'review\.text', which the run reads: its columns are 'text'"):
        predict_file(run, table)


def test_a_model_on_the_hub_is_read_by_its_own_recipe(tmp_path, monkeypatch, caplog):
    run = make_run(tmp_path / "run", texts_recipe(tmp_path))
    model, tokenizer = load_run(run)
    asked = []

    def download(repository, name):
        asked.append((repository, name))
        if repository == "a/other":
            raise predicting.EntryNotFoundError("there is none")
        if repository == "a/unasked":
            raise predicting.LocalEntryNotFoundError("the Hub is not reached, and no copy lies here")
        return str(run / name)

    monkeypatch.setattr(predicting, "load_run", lambda path: (model, tokenizer))
    monkeypatch.setattr(predicting, "hf_hub_download", download)
    table = tmp_path / "pairs.tsv"
    long = "the river " * 30  # of which the recipe reads 20 tokens
    caplog.clear()
    table.write_text(f"second\ttext\ttext_pair\n{long}\ta bank\tit\n")
    assert predict_file("a/b", table) == predict_texts(model, tokenizer, ["a bank"], [long], 20)
    assert predict_file("a/other", table) == predict_texts(model, tokenizer, ["a bank"], ["it"])
    assert asked == [("a/b", "recipe.yaml"), ("a/other", "recipe.yaml")]
    assert caplog.messages == []
    assert predict_file("a/unasked", table) == predict_file("a/other", table)
    assert caplog.messages[0].startswith("The Hub cannot be asked for the recipe.yaml of a/unasked: columns are read")


def test_every_word_has_a_tag_until_the_sentence_is_cut(words_run, tmp_path):
    sentences = [["a", "bank"], ["it", "sees", "the", "river", "by", "the", "bank", "a"], [], ["river"]]
    path = tmp_path / "words.jsonl"
    path.write_text("".join(json.dumps({"tokens": words}) + "\n" for words in sentences))
    rows = predict_file(words_run, path)
    model, tokenizer = load_run(words_run)
    for words, row in zip(sentences, rows, strict=True):
        chances, best = alone(model, tokenizer, " ".join(words), 8)[1:-1].max(-1)  # a word is a token here
        tags = [model.config.id2label[i] for i in best.tolist()]
        rest = [None] * (len(words) - len(tags))
        assert (row["tokens"], row["tags"]) == (words, tags + rest)
        assert row["probabilities"][: len(tags)] == pytest.approx(chances.tolist(), abs=2e-6)
        assert row["probabilities"][len(tags) :] == rest
    assert len([tag for tag in rows[1]["tags"] if tag is None]) == 2  # of eight words, beside two special tokens
    for size in (1, 3):
        for one, other in zip(rows, predict_tags(model, tokenizer, sentences, 8, size), strict=True):
            assert other["tags"] == one["tags"]
    plain = tmp_path / "words.txt"
    plain.write_text("a bank\nriver\n")
    assert [row["tags"] for row in predict_file(words_run, plain)] == [rows[0]["tags"], rows[3]["tags"]]


def test_the_command_writes_a_line_for_each(texts_run, tmp_path):
    path, out = tmp_path / "texts.txt", tmp_path / "out.jsonl"
    path.write_text("a bank\nthe river\n")
    expected = predict_file(texts_run, path)
    result = CliRunner().invoke(app, ["predict", str(texts_run), str(path)])
    assert [json.loads(line) for line in result.stdout.splitlines()] == expected
    assert CliRunner().invoke(app, ["predict", str(texts_run), str(path), "--output", str(out)]).stdout == ""
    assert [json.loads(line) for line in out.read_text().splitlines()] == expected
    as_json = CliRunner().invoke(app, ["predict", str(texts_run), str(path), "--json"])
    assert json.loads(as_json.stdout) == expected


def test_what_cannot_be_labelled_is_refused(texts_run, tmp_path):
    from .card_runs import make_run as other_run

    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "a.jsonl").write_text('{"text": 3}\n')
    (tmp_path / "b.jsonl").write_text('{"text": "a"}\n{"texts": "b"}\n')
    number = TransformerEncoderForSequenceClassification(
        TransformerEncoderConfig(num_labels=1, vocab_size=30, **SIZES)
    )
    number.save_pretrained(tmp_path / "number")
    load_run(texts_run)[1].save_pretrained(tmp_path / "number")
    language_model = other_run(tmp_path / "lm", "causal-lm")
    for run, name, sentence in (
        (texts_run, "a.pdf", "is not a file of a kind that is read"),
        (texts_run, "none.txt", "There is no file"),
        (texts_run, "a.jsonl", "line 1: column 'text' holds something else than text"),
        (texts_run, "b.jsonl", "line 2: there is no column 'text'"),
        (tmp_path / "number", "a.txt", "has one label alone"),
        (language_model, "a.txt", "labels neither texts nor words"),
    ):
        with pytest.raises(ValueError, match=sentence):
            predict_file(run, tmp_path / name)
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        predict_file(texts_run, tmp_path / "a.txt", batch_size=0)
