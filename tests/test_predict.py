"""`regard predict`: the labels of a file, against the model asked row by row, whatever the batches."""

import json
import sys

import pytest
import torch
from typer.testing import CliRunner

from regard.cli import app, main
from regard.evaluation.generation import load_run
from regard.modeling import (
    TransformerEncoderConfig,
    TransformerEncoderForQuestionAnswering,
    TransformerEncoderForSequenceClassification,
)
from regard.train import predict as predicting
from regard.train.predict import predict_answers, predict_file, predict_tags, predict_texts

from .label_runs import LABELS, SIZES, make_run, texts_recipe, words_recipe
from .test_tagging import wordpiece

TEXTS = ["a bank", "the river sees the bank by it", "", "it " * 60, "sees", "the the the"]


@pytest.fixture(scope="module")
def texts_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    return make_run(folder / "run", texts_recipe(folder, pairs=False))


@pytest.fixture(scope="module")
def words_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    return make_run(folder / "run", words_recipe(folder))


@pytest.fixture(scope="module")
def questions_run(tmp_path_factory):
    """Of a tokenizer that deletes characters of zero width, and reads 12 tokens at once; it always answers."""
    folder, tokenizer = tmp_path_factory.mktemp("questions") / "run", wordpiece("who", "sees", "the", "river")
    torch.manual_seed(0)
    settings = {"max_length": 12, "doc_stride": 3, "max_answer_length": 2, "null_threshold": None}
    config = TransformerEncoderConfig(vocab_size=len(tokenizer), question_answering=settings, **SIZES)
    TransformerEncoderForQuestionAnswering(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


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
    with pytest.raises(ValueError, match="labels pairs of texts") as caught:
        predict_file(run, tmp_path / "a.txt")
    assert str(caught.value).endswith(
        "a table (.tsv, .csv, .jsonl, .json or .parquet) with the columns 'text' and 'second'."
    )


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
    table.write_text(f"second\ttext\ttext_pair\n{long}\ta bank\tit\n")
    assert predict_file("a/b", table) == predict_texts(model, tokenizer, ["a bank"], [long], 20)
    caplog.clear()  # of the second texts, which were cut
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
        (texts_run, "a.jsonl", "line 1: column 'text' holds the number 3 where a text is wanted, which may be empty"),
        (texts_run, "b.jsonl", "line 2: there is no column 'text'"),
        (tmp_path / "number", "a.txt", "has one label alone"),
        (language_model, "a.txt", "labels neither texts nor words"),
    ):
        with pytest.raises(ValueError, match=sentence):
            predict_file(run, tmp_path / name)
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        predict_file(texts_run, tmp_path / "a.txt", batch_size=0)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (2.5, "the number 2.5"),
        (["ü"], 'the list ["ü"]'),
        ({"a": "b" * 80}, 'the object {"a": "' + "b" * 33 + "..."),
    ],
)
def test_what_is_no_text_is_shown(texts_run, words_run, tmp_path, value, shown):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n' + json.dumps({"text": value}) + "\n")
    with pytest.raises(ValueError, match="^") as caught:
        predict_file(texts_run, path)
    assert (
        str(caught.value) == f"{path}, line 2: column 'text' holds {shown} where a text is wanted, which may be empty."
    )
    path.write_text(json.dumps({"tokens": ["a", value]}))
    with pytest.raises(ValueError, match="^") as caught:
        predict_file(words_run, path)
    assert str(caught.value) == f"{path}, line 1: column 'tokens' holds {shown} where each word must be a text."


def test_an_empty_question_has_an_empty_answer(questions_run, tmp_path):
    """And one that the tokenizer deletes. The others are answered as without it, and nothing at all may be asked."""
    questions, contexts = ["who sees", " ", "", "\u200b", "the river"], ["the river sees"] * 5
    path = tmp_path / "asked.jsonl"
    pairs = zip(questions, contexts, strict=True)
    path.write_text("".join(json.dumps({"question": q, "context": c}) + "\n" for q, c in pairs))
    rows = predict_file(questions_run, path)
    assert [row["question"] for row in rows] == questions
    model, tokenizer = load_run(questions_run)
    assert [rows[0], rows[4]] == predict_answers(model, tokenizer, ["who sees", "the river"], contexts[:2])
    assert rows[0]["answer"]
    nothing = {"answer": "", "start": None, "end": None, "margin": None}
    for question, row in zip(questions[1:4], rows[1:4], strict=True):
        assert row == {"question": question, "context": contexts[0], **nothing}
    without_context = predict_answers(model, tokenizer, ["who sees"], [""])[0]
    assert {name: without_context[name] for name in nothing} == nothing
    assert predict_answers(model, tokenizer, [""], ["the river"]) == [
        {"question": "", "context": "the river", **nothing}
    ]
    assert predict_answers(model, tokenizer, [], []) == []
    (tmp_path / "asked.txt").write_text("who sees\n")
    with pytest.raises(ValueError, match=r"\(\.tsv, .*\.parquet\) with the columns 'question' and 'context'\.$"):
        predict_file(questions_run, tmp_path / "asked.txt")


def test_what_is_cut_is_said(texts_run, words_run, questions_run, tmp_path, caplog):
    path = tmp_path / "a.txt"
    fits, too_long = "a " * 18, "a " * 19  # beside two special tokens, 20 of which are read
    path.write_text(f"{fits}\n{too_long}\n\n{too_long}\n")
    caplog.clear()
    predict_file(texts_run, path)
    assert caplog.messages == ["2 of 4 texts are longer than 20 tokens and were cut there."]
    path.write_text(f"{fits}\n")
    caplog.clear()
    predict_file(texts_run, path)
    assert caplog.messages == []
    predict_texts(*load_run(texts_run), ["a", "a"], ["a", too_long], 20)
    assert caplog.messages == ["1 of 2 pairs of texts are longer than 20 tokens and were cut there."]
    path.write_text("a bank\nit sees the river by the bank\n")
    caplog.clear()
    rows = predict_file(words_run, path)
    said = "1 of 2 texts are longer than 8 tokens and were cut there: words after that have the tag null."
    assert caplog.messages == [said]
    assert [tag is None for tag in rows[1]["tags"]] == [False] * 6 + [True]
    caplog.clear()
    predict_answers(*load_run(questions_run), ["who", "who " * 9, ""], ["the river"] * 3)
    assert caplog.messages == ["1 of 2 questions are too long for windows of 12 tokens and were cut."]
    said = " ".join(CliRunner().invoke(app, ["predict", "--help"]).stdout.split())
    assert "The tag of a word is null where none is given" in said


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.txt", ""), ("a.tsv", "text\n"), ("a.csv", "id,text\n"), ("a.jsonl", ""), ("a.json", "[]")],
)
def test_a_file_without_texts_is_told(texts_run, tmp_path, caplog, name, text):
    path = tmp_path / name
    path.write_text(text)
    caplog.clear()
    assert predict_file(texts_run, path) == []
    assert caplog.messages == [f"'{path}' holds no texts: nothing is predicted."]


def test_notices_are_on_standard_error(questions_run, tmp_path, monkeypatch, capsys):
    path = tmp_path / "a.tsv"
    path.write_text("question\tcontext\n")
    for variable in ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(variable, "1")  # so that what the command sets is gone after it
    monkeypatch.setattr(sys, "argv", ["regard", "predict", str(questions_run), str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"'{path}' holds no questions: nothing is predicted.\n")


def test_a_line_of_output_is_one_for_every_reader(texts_run, tmp_path):
    """Also for those that part lines where `str.splitlines` does; all other characters stay readable."""
    ends, path, out = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", tmp_path / "a.jsonl", tmp_path / "out.jsonl"
    texts = [f"a{end}bank, größer" for end in ends]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert CliRunner().invoke(app, ["predict", str(texts_run), str(path), "--output", str(out)]).exit_code == 0
    written = out.read_bytes().decode()  # as it is, line ends too
    assert len(written.splitlines()) == len(ends)
    assert [json.loads(line)["text"] for line in written.splitlines()] == texts
    assert written.count("bank, größer") == len(ends)
    whole = CliRunner().invoke(app, ["predict", str(texts_run), str(path), "--json"]).stdout
    assert len(whole.splitlines()) == 1
    assert json.loads(whole) == [json.loads(line) for line in written.splitlines()]
