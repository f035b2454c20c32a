"""Splits from files, from the package and from the Hub: what is loaded, refused, tokenised and cached.

Expected values are counted by hand from the files that each test writes.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from datasets import ClassLabel, Dataset, Features, IterableDataset, Value

from regard.evaluation.readers import PIECE_LENGTH, columns_of, read_rows
from regard.train import data as data_module
from regard.train import fingerprints
from regard.train.building import label_names
from regard.train.data import load_splits, prepare_splits
from regard.train.sections import DataSection, Recipe
from regard.train.tokenization import train_tokenizer
from regard.train.turkish import make_pairs

PAIRS = [("ein Hund", "a dog"), ("eine Katze", "a cat"), ("der Hund schläft", "the dog sleeps")]
COLUMNS = {"source": "de", "target": "en"}


def write(path, text):
    path.write_bytes(text.encode("utf-8"))
    return str(path)


def tsv(path, rows, header=("de", "en")):
    return write(path, "".join("\t".join(row) + "\n" for row in [header, *rows]))


def jsonl(path, rows):
    return write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def section(train, **settings):
    return DataSection(train=str(train), **settings)


def recipe_of(task, data, **training):
    model_type = {"translation": "transformer", "causal-lm": "decoder"}.get(task, "encoder")
    return Recipe(name="test", task=task, model={"type": model_type}, data=data, training=training)


def sentence(error):
    text = str(error.value)
    assert "\n" not in text
    return text


# --- the kinds of files


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv", ".parquet"])
def test_each_kind_of_file_gives_the_same_rows(tmp_path, suffix):
    rows = [*PAIRS, ("NA", "null"), ('sie sagt "ja", oder', "she says, 'yes'")]
    path = tmp_path / f"train{suffix}"
    table = Dataset.from_dict({"en": [e for _, e in rows], "id": list(range(5)), "de": [d for d, _ in rows]})
    if suffix == ".tsv":
        tsv(path, [(e, str(i), d) for i, (d, e) in enumerate(rows)], ("en", "id", "de"))
    elif suffix == ".json":
        path.write_text(json.dumps(table.to_list()), encoding="utf-8")
    else:
        getattr(table, {".jsonl": "to_json", ".csv": "to_csv", ".parquet": "to_parquet"}[suffix])(path)
    splits = load_splits(section(path, columns=COLUMNS), "translation")
    assert list(splits) == ["train"]
    assert splits["train"].to_list() == [{"source": d, "target": e} for d, e in rows]
    assert columns_of(path) == ["en", "id", "de"]


def test_windows_line_ends_and_a_byte_order_mark_are_not_data(tmp_path):
    write(tmp_path / "a.tsv", "\ufeffde\ten\r\nja\tyes\r\n\r\n")
    splits = load_splits(section(tmp_path / "a.tsv", columns=COLUMNS), "translation")
    assert splits["train"].to_list() == [{"source": "ja", "target": "yes"}]


def test_cells_of_csv_hold_commas_quotes_and_line_ends(tmp_path):
    write(tmp_path / "a.csv", 'de,en\n"a, ""b""","c\nd"\n')
    splits = load_splits(section(tmp_path / "a.csv", columns=COLUMNS), "translation")
    assert splits["train"].to_list() == [{"source": 'a, "b"', "target": "c\nd"}]


def test_nested_columns_are_named_with_a_dot(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", [{"translation": {"de": d, "en": e}} for d, e in PAIRS])
    columns = {"source": "translation.de", "target": "translation.en"}
    splits = load_splits(section(path, columns=columns), "translation")
    assert splits["train"]["target"][:] == [e for _, e in PAIRS]


def test_several_test_sets_keep_their_names(tmp_path):
    path = tsv(tmp_path / "a.tsv", PAIRS)
    splits = load_splits(section(path, columns=COLUMNS, test={"2016": path, "mine": path}), "translation")
    assert list(splits) == ["train", "test:2016", "test:mine"]


def test_streaming_gives_the_same_rows_as_they_come(tmp_path):
    path = tsv(tmp_path / "a.tsv", PAIRS)
    splits = load_splits(section(path, columns=COLUMNS, streaming=True), "translation")
    assert isinstance(splits["train"], IterableDataset)
    assert [row["source"] for row in splits["train"]] == [d for d, _ in PAIRS]


def test_the_turkish_pairs_come_with_the_package():
    columns = {"source": "en", "target": "tr"}
    splits = load_splits(section("validation", path="builtin:turkish", test="test", columns=columns), "translation")
    assert list(splits) == ["train", "test"]
    assert splits["test"].to_list() == [{"source": row["en"], "target": row["tr"]} for row in make_pairs("test")]


# --- what is refused


def refused(data, task="translation"):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the callers look at the sentence
        load_splits(data, task)
    return sentence(error)


def test_a_missing_file(tmp_path):
    assert "data.train: the file" in refused(section(tmp_path / "none.tsv"))
    path = tsv(tmp_path / "a.tsv", PAIRS)
    text = refused(section(path, columns=COLUMNS, test={"mine": str(tmp_path / "none.tsv")}))
    assert "data.test.mine" in text
    assert "none.tsv does not exist" in text


def test_an_unknown_kind_of_file():
    text = refused(section("my.docx"))
    assert "data.train: 'my.docx'" in text
    assert ".parquet" in text


@pytest.mark.parametrize("value", ["my.xlsx", "my.tsv.gz", "data/mine", "C:\\\\mine"])
def test_what_looks_like_a_file_is_not_sought_on_the_hub(value, monkeypatch):
    monkeypatch.setattr(data_module, "load_dataset", None)
    text = refused(section(value, path="x/y"), "causal-lm")
    assert text.startswith(f"data.train: '{value}' is not a file of a kind that is read, which are .jsonl, ")


def test_a_file_of_another_kind_that_is_there_is_no_split(tmp_path, monkeypatch):
    monkeypatch.setattr(data_module, "load_dataset", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.xyz").write_text("a")
    assert "'pairs.xyz' is not a file of a kind that is read" in refused(section("pairs.xyz", path="x/y"), "causal-lm")


@pytest.mark.parametrize(("name", "content"), [("a.tsv", ""), ("a.tsv", "de\ten\n"), ("a.jsonl", "\n"), ("a.csv", "")])
def test_an_empty_file(tmp_path, name, content):
    write(tmp_path / name, content)
    text = refused(section(tmp_path / name, columns=COLUMNS))
    assert text.startswith("data.train: ")
    assert ("has no row below the names of its columns" if "de" in content else "is empty") in text


def test_an_empty_text(tmp_path):
    write(tmp_path / "a.txt", "")
    assert "is empty" in refused(section(tmp_path / "a.txt"), "causal-lm")


def test_a_column_that_is_not_there_lists_those_that_are(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", [{"de": "ja", "eng": "yes", "id": 1}])
    text = refused(section(path, columns=COLUMNS))
    assert "data.train: there is no column 'en' (is it 'eng'?)" in text
    assert "'de', 'eng', 'id'" in text
    assert "data.columns.source=... data.columns.target=..." in text


def test_a_tsv_without_a_header_says_how_to_name_its_columns(tmp_path):
    text = refused(section(tsv(tmp_path / "my.tsv", PAIRS[1:], PAIRS[0]), columns=COLUMNS))
    assert "no column 'de'" in text
    assert "my.tsv, whose first line names 'ein Hund', 'a dog'" in text
    assert "data.columns.source=..." in text
    assert "'de<TAB>en'" in text


def test_unknown_roles(tmp_path):
    text = refused(section(tsv(tmp_path / "a.tsv", PAIRS), columns={"text": "de"}))
    assert "no role 'text'" in text


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.tsv", "de\ten\nja\tyes\nnein\n", "a.tsv, line 3: 1 cells where the first line names 2 columns"),
        ("a.tsv", "de\tde\nja\tyes\n", "the column 'de' is named twice"),
        ("a.csv", 'de,en\nja,yes\n"nein,no\n', "line 3: not valid CSV"),
        ("a.jsonl", '{"de": "ja", "en": "yes"}\n\n{"de": \n', "a.jsonl, line 3: not valid JSON"),
        ("a.jsonl", '{"de": "ja", "en": "yes"}\n["de"]\n', 'line 2: a row must be an object such as {"text": "..."}'),
        ("a.jsonl", '{"de": "ja", "en": "yes"}\n{"de": "nein"}\n', "a.jsonl, line 2: there is no column 'en'"),
        ("a.jsonl", '{"de": "ja", "en": null}\n', "line 1: column 'en' holds no value where text is wanted"),
        ("a.jsonl", '{"de": "ja", "en": 3}\n', "column 'en' holds a whole number where text is wanted"),
        ("a.json", '[{"de": "ja", "en": "yes"},\n{"de"]', "a.json, line 2: not valid JSON"),
        (
            "a.jsonl",
            '{"de": "ja", "de": "nein", "en": "yes"}\n',
            "a.jsonl, line 1: the name 'de' stands twice in a row",
        ),
        ("a.json", '[{"de": "ja", "en": "yes", "en": "no"}]', "a.json: the name 'en' stands twice in a row"),
        ("a.parquet", "no parquet", "is not a Parquet file"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(tmp_path, name, content, expected):
    write(tmp_path / name, content)
    text = refused(section(tmp_path / name, columns=COLUMNS))
    assert text.startswith("data.train: ")
    assert expected in text


def test_bytes_that_are_not_utf8(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"fine\ncaf\xe9\n")
    text = refused(section(tmp_path / "a.txt"), "causal-lm")
    assert "a.txt, line 2: byte 4 (0xe9) is not UTF-8" in text


def test_a_text_file_has_no_pairs(tmp_path):
    write(tmp_path / "a.txt", "ein Hund\n")
    assert "is a text without columns" in refused(section(tmp_path / "a.txt"))


def test_a_hub_that_does_not_answer_names_the_field_and_the_way_out():
    text = refused(section("train", path="someone/something", columns=COLUMNS))
    assert "data.path 'someone/something' cannot be loaded" in text
    assert "data.train=train.jsonl" in text


def test_a_split_that_the_package_does_not_have():
    text = refused(section("dev", path="builtin:turkish", columns={"source": "en", "target": "tr"}))
    assert "data.train: 'dev' is not a split of builtin:turkish: it has 'train', 'validation', 'test'" in text


# --- data sets of the Hub (the loader is replaced: no network)


@pytest.fixture
def hub(monkeypatch):
    held = {}

    def load(path, name=None, split=None, streaming=False):
        if split not in held:
            raise ValueError(f'Unknown split "{split}". Should be one of {list(held)}.')
        return held[split].to_iterable_dataset() if streaming else held[split]

    monkeypatch.setattr(data_module, "load_dataset", load)
    return held


@pytest.mark.parametrize("streaming", [False, True])
def test_a_hub_data_set_is_renamed_and_checked(hub, streaming):
    hub["train"] = Dataset.from_list([{"translation": {"de": d, "en": e}, "id": 1} for d, e in PAIRS])
    columns = {"source": "translation.de", "target": "translation.en"}
    data = section("train", path="x/y", columns=columns, streaming=streaming)
    assert list(load_splits(data, "translation")["train"]) == [{"source": d, "target": e} for d, e in PAIRS]
    data.columns = COLUMNS
    assert "no column 'de' in train, whose columns are 'translation', 'id'" in refused(data)


def test_a_missing_value_in_a_hub_data_set(hub):
    hub["train"] = Dataset.from_list([{"text": "a"}, {"text": None}])
    assert "x/y, split 'train', row 2: column 'text' holds no value" in refused(
        section("train", path="x/y"), "causal-lm"
    )


def test_a_hub_split_that_is_not_there(hub):
    hub["train"] = Dataset.from_list([{"text": "a"}])
    text = refused(section("train", path="x/y", validation="dev"), "causal-lm")
    assert "data.validation" in text
    assert "Unknown split" in text


def test_labels_of_a_hub_data_set_keep_their_names(hub):
    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    hub["train"] = Dataset.from_dict({"text": ["a", "b"], "label": [1, 1]}, features=features)
    hub["test"] = Dataset.from_dict({"text": ["a", "b"], "label": [0, -1]}, features=features)
    splits = load_splits(section("train", path="x/y"), "sequence-classification")
    assert splits["train"].features["label"].names == ["neg", "pos"]
    assert splits["train"]["label"][:] == [1, 1]
    text = refused(section("train", path="x/y", test="test"), "sequence-classification")
    assert "row 2: the label -1 in column 'label' is not in 0 to 1" in text


# --- labels of files


def test_labels_are_numbered_in_the_order_of_their_names(tmp_path):
    path = tsv(tmp_path / "a.tsv", [("x", "pos"), ("y", "neg"), ("z", "pos")], ("text", "label"))
    train = load_splits(section(path), "sequence-classification")["train"]
    assert train.features["label"].names == ["neg", "pos"]
    assert train["label"][:] == [1, 0, 1]


def test_labels_that_are_numbers_keep_their_order(tmp_path):
    rows = [{"text": "x", "label": label} for label in (10, 2, 0, 2)]
    train = load_splits(section(jsonl(tmp_path / "a.jsonl", rows)), "sequence-classification")["train"]
    assert train.features["label"].names == ["0", "2", "10"]
    assert train["label"][:] == [2, 1, 0, 1]


def test_a_label_out_of_range_names_the_line(tmp_path):
    train = tsv(tmp_path / "a.tsv", [("x", "0"), ("y", "1")], ("text", "label"))
    valid = tsv(tmp_path / "b.tsv", [("x", "0"), ("y", "2")], ("text", "label"))
    text = refused(section(train, validation=valid), "sequence-classification")
    assert text.startswith("data.validation: ")
    assert (
        "b.tsv, line 3: the label '2' in column 'label' is not among those of data.train, which are '0', '1'" in text
    )


@pytest.mark.parametrize(
    ("label", "kind", "way"),
    [(0.5, "0.5", ': write it as "0.5".'), (1.0, "1.0", ": write it as 1."), (None, "no value", "is wanted."),
     (True, "true", ': write it as "true".'), (float("nan"), "a number", "is wanted.")],
)  # fmt: skip
def test_a_label_of_the_wrong_type(tmp_path, label, kind, way):
    path = jsonl(tmp_path / "a.jsonl", [{"text": "x", "label": 0}, {"text": "y", "label": label}])
    text = refused(section(path), "sequence-classification")
    assert f"line 2: column 'label' holds {kind} where a label" in text
    assert text.endswith(way)


def test_labels_are_all_numbers_or_all_names(tmp_path):
    """One row with a number among names would be one more class."""
    rows = [{"text": "x", "label": "HUM"}, {"text": "y", "label": 5}, {"text": "z", "label": "LOC"}]
    text = refused(section(jsonl(tmp_path / "a.jsonl", rows)), "sequence-classification")
    assert "a.jsonl, line 2: the label in column 'label' is the number 5, and that in " in text
    assert "a.jsonl, line 1 is the name 'HUM': labels are all numbers or all names." in text
    rows = [{"tokens": ["a", "b"], "tags": ["X", 1]}]
    assert "the number 1" in refused(section(jsonl(tmp_path / "b.jsonl", rows)), "token-classification")
    rows = [{"text": "x", "label": "1"}, {"text": "y", "label": 0}]  # numbers, if one of them is in quotes
    train = load_splits(section(jsonl(tmp_path / "c.jsonl", rows)), "sequence-classification")["train"]
    assert train.features["label"].names == ["0", "1"]


@pytest.mark.parametrize("role", ["label", "tags"])
def test_labels_that_no_training_row_is_left_of_are_told(tmp_path, role, caplog):
    """Three labels of one row each, of which two rows are held out; or four, of which two are trained on."""
    names = {"label": "wxyz", "tags": [["w"], ["x"], ["y"], ["z"]]}[role]
    text = {"label": ("text", "t"), "tags": ("tokens", ["t"])}[role]
    path = jsonl(tmp_path / "a.jsonl", [{text[0]: text[1], role: name} for name in names])
    task = {"label": "sequence-classification", "tags": "token-classification"}[role]
    splits = load_splits(section(path, validation="2"), task)
    kinds = splits["validation"].features[role]
    held_out = sorted(
        getattr(kinds, "feature", kinds).names[n[0] if role == "tags" else n] for n in splits["validation"][role]
    )
    told = (
        f"data.validation: no row of '{held_out[0]}', '{held_out[1]}' is left in data.train, so no training teaches "
    )
    assert [record.getMessage() for record in caplog.records] == [told + "these labels."]
    caplog.clear()
    load_splits(section(path, validation=path), task)
    assert not caplog.records
    load_splits(section(path, validation=path, max_train_examples=3), task)
    assert "is left in data.train, so no training teaches this label." in caplog.text


def test_rows_that_are_trained_on_too_are_counted(tmp_path):
    """By what is read: a row with another label is the same one; white space around a text makes no other."""
    train = tsv(tmp_path / "a.tsv", [("a b", "c", "x"), ("d", "e", "y"), ("", "", "x")], ("first", "second", "label"))
    rows = [("a b ", "c", "y"), ("a", "b c", "x"), ("d", "e", "y"), ("", "", "x"), ("f", "g", "x")]
    test = tsv(tmp_path / "b.tsv", rows, ("first", "second", "label"))
    data, recipe = labelled(train, None, test=test, validation=train)
    _, report = prepare_splits(load_splits(data, recipe.task), recipe, word_tokenizer("bos-eos"))
    assert report.splits["train"].also_in_train is None
    assert report.splits["validation"].also_in_train == 2
    assert report.splits["test"].also_in_train == 2
    assert "2 also in train" in str(report).splitlines()[-1]
    data = section(tsv(tmp_path / "c.tsv", PAIRS), columns=COLUMNS, test=tsv(tmp_path / "d.tsv", PAIRS[:1]))
    recipe = recipe_of("translation", data)
    _, report = prepare_splits(load_splits(data, "translation"), recipe, word_tokenizer())
    assert report.splits["test"].also_in_train == 1


def test_a_single_label_teaches_nothing(tmp_path):
    path = tsv(tmp_path / "a.tsv", [("x", "0")], ("text", "label"))
    assert "there is nothing to learn" in refused(section(path), "sequence-classification")


# --- held-out rows


def numbered(path, count):
    return tsv(path, [(f"s{i}", f"t{i}") for i in range(count)])


@pytest.mark.parametrize(("value", "count"), [("5%", 10), ("0.1%", 1), ("7", 7)])
def test_validation_rows_are_held_out_always_the_same(tmp_path, value, count):
    data = section(numbered(tmp_path / "a.tsv", 200), columns=COLUMNS, validation=value)
    splits = load_splits(data, "translation")
    train, valid = set(splits["train"]["source"]), set(splits["validation"]["source"])
    assert (len(train), len(valid)) == (200 - count, count)
    assert not train & valid
    again = load_splits(data, "translation")
    assert again["validation"].to_list() == splits["validation"].to_list()
    assert again["validation"]._fingerprint == splits["validation"]._fingerprint


def test_the_end_of_a_text_is_held_out(tmp_path):
    rows = [{"text": str(i)} for i in range(10)]
    splits = load_splits(section(jsonl(tmp_path / "a.jsonl", rows), validation="20%"), "causal-lm")
    assert splits["validation"]["text"][:] == ["8", "9"]


def test_holding_out_everything_is_refused(tmp_path):
    data = section(numbered(tmp_path / "a.tsv", 5), columns=COLUMNS, validation="5")
    assert "data.validation: '5' of the 5 rows" in refused(data)
    data.streaming = True
    assert "leave nothing to train on" in refused(data)
    data.validation = "5%"
    assert "holds a share of data.train out, whose length is not known" in refused(data)


def test_a_share_may_have_a_limit(tmp_path):
    data = section(numbered(tmp_path / "my.tsv", 300), columns=COLUMNS, validation="5%, at most 12")
    assert len(load_splits(data, "translation")["validation"]) == 12  # 5 % would be 15


def test_a_stream_holds_its_first_rows_out(tmp_path):
    data = section(numbered(tmp_path / "a.tsv", 9), columns=COLUMNS, validation="2", test=str(tmp_path / "a.tsv"))
    data.streaming = True
    splits = load_splits(data, "translation")
    assert isinstance(splits["train"], IterableDataset)
    assert [row["source"] for row in splits["train"]] == [f"s{i}" for i in range(2, 9)]
    assert splits["validation"]["source"][:] == ["s0", "s1"]
    assert len(splits["test"]) == 9  # read whole: what is evaluated has a length


def test_only_what_is_asked_for_is_read(tmp_path):
    path = tsv(tmp_path / "test.tsv", [("x", "b"), ("y", "a")], ("text", "label"))
    data = section(tmp_path / "moved.tsv", test={"mine": path, "other": str(tmp_path / "moved.tsv")})
    splits = load_splits(data, "sequence-classification", ["test:mine"], ["a", "b", "c"])
    assert list(splits) == ["test:mine"]
    assert splits["test:mine"]["label"][:] == [1, 0]


# --- texts for language models


AWKWARD = "\n\n  First line \r\nsecond\tline   \n\n\n" + "Grüße, İstanbul \u2028 \x0b\n" * 700 + "\n \nno line end  "


@pytest.mark.parametrize("packing", ["blocks", "documents"])
@pytest.mark.parametrize("text", [AWKWARD, "x" * (9 * PIECE_LENGTH), ("word " * 30_000), "\n", "a\n\nb\n\n", "\n\na"])
def test_the_pieces_of_a_text_are_the_file_byte_for_byte(tmp_path, text, packing):
    path = write(tmp_path / "a.txt", text)
    train = load_splits(section(path, packing=packing), "causal-lm")["train"]
    assert "".join(train["text"]).encode() == Path(path).read_bytes()
    assert train["ends_document"][-1] is True
    assert all(len(piece) <= 5 * PIECE_LENGTH for piece in train["text"])


def test_blank_lines_part_documents_where_they_are_packed(tmp_path):
    path = Path(write(tmp_path / "a.txt", "\none\nstill one\n\n \ntwo\n\nthree"))
    rows = [row for _, row in read_rows(path, documents=True)]
    assert [row["text"] for row in rows] == ["\none\nstill one\n\n \n", "two\n\n", "three"]
    assert all(row["ends_document"] for row in rows)
    assert [row["text"] for _, row in read_rows(path)] == ["\none\nstill one\n\n \ntwo\n\nthree"]


def char_tokenizer(text, template="bos"):
    return train_tokenizer([text], "char", 200, min_frequency=1, template=template)


def test_a_character_model_sees_the_file(tmp_path):
    text = "\n\n First line  \n\nsecond\n" * 50 + "end "
    data = section(write(tmp_path / "a.txt", text), block_size=16)
    tokenizer = char_tokenizer(text)
    splits, report = prepare_splits(load_splits(data, "causal-lm"), recipe_of("causal-lm", data), tokenizer)
    blocks = splits["train"]["input_ids"][:]
    stream = [blocks[0][0]] + [token for block in blocks for token in block[1:]]
    assert stream[0] == tokenizer.bos_token_id
    assert stream[-1] == tokenizer.eos_token_id
    known = tokenizer.convert_ids_to_tokens(stream[1:-1])
    assert len(known) == len(text)
    assert tokenizer.decode(stream[1:-1]) == text
    assert report.splits["train"].tokens == len(text) + 2


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 14, 15, 16, 500, 10_000])
def test_each_token_but_the_first_is_predicted_once(tmp_path, length):
    """Case 69: a stream of N tokens has N - 1 predictions, whatever the size of the blocks."""
    text = ("abcdefg" * length)[:length]
    for block_size in (2, 8):
        data = section(write(tmp_path / "a.txt", text), block_size=block_size)
        tokenizer = char_tokenizer("abcdefg")
        splits, report = prepare_splits(load_splits(data, "causal-lm"), recipe_of("causal-lm", data), tokenizer)
        blocks = splits["train"]["input_ids"][:]
        stream = [tokenizer.bos_token_id, *tokenizer.convert_tokens_to_ids(list(text)), tokenizer.eos_token_id]
        predicted = [token for block in blocks for token in block[1:]]
        assert predicted == stream[1:]
        assert all(len(block) == block_size for block in blocks[:-1])
        assert report.splits["train"].targets == len(stream) - 1 == length + 1
        assert report.splits["train"].tokens == len(stream)
        assert report.splits["train"].without_targets == 0


def test_documents_follow_one_another_with_their_special_tokens(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", [{"text": "ab"}, {"text": ""}, {"text": "c"}])
    data = section(path, block_size=100)
    tokenizer = char_tokenizer("abc")
    splits, report = prepare_splits(load_splits(data, "causal-lm"), recipe_of("causal-lm", data), tokenizer)
    tokens = ["<s>", "a", "b", "</s>", "<s>", "c", "</s>"]
    assert splits["train"]["input_ids"][:] == [tokenizer.convert_tokens_to_ids(tokens)]
    assert (report.splits["train"].rows, report.splits["train"].empty) == (3, 1)


def test_packed_documents_are_whole_and_start_anew(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", [{"text": t} for t in ("abc", "d", "ab", "a", "abcdabcdab")])
    data = section(path, block_size=8, packing="documents")
    tokenizer = char_tokenizer("abcd")
    splits, report = prepare_splits(load_splits(data, "causal-lm"), recipe_of("causal-lm", data), tokenizer)
    rows = [[tokenizer.convert_ids_to_tokens(r["input_ids"]), r["position_ids"]] for r in splits["train"].to_list()]
    # With <s> and </s> the lengths are 5, 3, 4, 3 and 12; the last is cut into 8 and 5 that overlap by one.
    b, e = "<s>", "</s>"
    assert rows == [
        [[b, *"abcdabc"], [0, 1, 2, 3, 4, 5, 6, 7]],
        [[b, *"abc", e, b, "d", e], [0, 1, 2, 3, 4, 0, 1, 2]],
        [[*"cdab", e, b, "a", e], [0, 1, 2, 3, 4, 0, 1, 2]],
        [[b, *"ab", e], [0, 1, 2, 3]],
    ]
    for row in splits["train"]:
        expected = np.where(np.asarray(row["position_ids"]) == 0, -100, row["input_ids"])
        assert row["labels"] == expected.tolist()
    # Each token of a document but its first is predicted once: 4 + 2 + 3 + 2 + 11.
    assert report.splits["train"].targets == 22
    assert report.splits["train"].pad_share == pytest.approx(1 - 28 / 32)


def test_masked_blocks_hold_each_token_once_between_special_tokens(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", [{"text": "abcde"}, {"text": "fg"}])
    data = section(path, validation=path, block_size=6)
    tokenizer = char_tokenizer("abcdefg", "bos-eos")
    splits, report = prepare_splits(load_splits(data, "masked-lm"), recipe_of("masked-lm", data), tokenizer)
    rows = [tokenizer.convert_ids_to_tokens(row) for row in splits["train"]["input_ids"]]
    b, e = "<s>", "</s>"
    assert rows == [[b, *"abcd", e], [b, "e", e, *"fg", e]]
    assert splits["train"].column_names == ["input_ids"]
    assert report.splits["train"].targets is None
    labels = splits["validation"]["labels"][:]
    assert report.splits["validation"].targets == sum(label != -100 for row in labels for label in row)


def test_evaluation_masks_are_part_of_the_data(tmp_path):
    """Case 52: the same at each evaluation, whatever draws from the global generators and the training's seed."""
    path = write(tmp_path / "a.txt", "abcdefg" * 300)
    data = section(path, validation=path, block_size=64)
    tokenizer = char_tokenizer("abcdefg", "bos-eos")

    def masked(seed):
        np.random.seed(seed + 1)
        splits = prepare_splits(load_splits(data, "masked-lm"), recipe_of("masked-lm", data, seed=seed), tokenizer)[0]
        return splits["validation"].to_list(), splits["train"].to_list()

    first, plain = masked(1)
    assert masked(1)[0] == masked(2)[0] == first
    for row, original in zip(first, plain, strict=True):
        labels = np.asarray(row["labels"])
        hidden = labels != -100
        assert (labels[hidden] == np.asarray(original["input_ids"])[hidden]).all()
        assert (np.asarray(row["input_ids"])[~hidden] == np.asarray(original["input_ids"])[~hidden]).all()


def test_masked_models_need_a_mask_token_and_blocks(tmp_path):
    data = section(write(tmp_path / "a.txt", "abc"))
    tokenizer = char_tokenizer("abc", "bos-eos")
    tokenizer.mask_token = None
    with pytest.raises(ValueError, match="no mask token"):
        prepare_splits(load_splits(data, "masked-lm"), recipe_of("masked-lm", data), tokenizer)
    data.packing = "documents"
    assert "data.packing: 'documents' is for causal-lm" in refused(data, "masked-lm")


# --- pairs


def word_tokenizer(template="eos", **settings):
    words = "a b c d e f"
    return train_tokenizer([words], "word", 50, min_frequency=1, template=template, **settings)


def test_long_training_pairs_are_dropped_and_counted_and_evaluation_pairs_truncated(tmp_path):
    rows = [("a b", "c"), ("a b c d", "d"), ("a", "a b c d e"), (" ", "b"), ("a b c", "a b c")]
    path = tsv(tmp_path / "a.tsv", rows)
    data = section(path, columns=COLUMNS, validation=path, max_source_length=4, max_target_length=4)
    tokenizer = word_tokenizer()
    splits, report = prepare_splits(load_splits(data, "translation"), recipe_of("translation", data), tokenizer)
    ids = tokenizer.convert_tokens_to_ids
    eos = tokenizer.eos_token_id
    assert splits["train"].to_list() == [
        {"input_ids": [*ids(["a", "b"]), eos], "attention_mask": [1, 1, 1], "labels": [*ids(["c"]), eos]},
        {"input_ids": [*ids(["a", "b", "c"]), eos], "attention_mask": [1] * 4, "labels": [*ids(["a", "b", "c"]), eos]},
    ]
    assert splits["validation"]["source"][:] == [source for source, _ in rows]
    assert splits["validation"]["input_ids"][1] == [*ids(["a", "b", "c"]), eos]
    assert splits["validation"]["labels"][2] == [*ids(["a", "b", "c"]), eos]
    assert splits["validation"]["input_ids"][3] == [eos]
    train, valid = report.splits["train"], report.splits["validation"]
    assert (train.rows, train.examples, train.dropped, train.truncated, train.empty) == (5, 2, 2, 0, 1)
    assert (train.tokens, train.targets) == (3 + 2 + 4 + 4, 2 + 4)
    assert (valid.rows, valid.examples, valid.dropped, valid.truncated, valid.empty) == (5, 5, 0, 2, 1)
    assert json.loads(json.dumps(report.to_dict()))["train"]["dropped"] == 2
    assert "train: 5 rows, 2 examples, 13 tokens, 1 empty, 2 dropped" in str(report)


def test_rows_without_targets_are_counted(tmp_path):
    """Case 42: without an end token an empty target has no label at all."""
    path = tsv(tmp_path / "a.tsv", [("a", "b"), ("a", "")])
    data = section(path, columns=COLUMNS, validation=path)
    tokenizer = word_tokenizer("bos")
    tokenizer.backend_tokenizer.post_processor = None
    splits, report = prepare_splits(load_splits(data, "translation"), recipe_of("translation", data), tokenizer)
    assert len(splits["train"]) == 1
    assert splits["validation"]["labels"][1] == []
    assert report.splits["validation"].without_targets == 1


def test_nothing_left_is_refused(tmp_path):
    data = section(tsv(tmp_path / "a.tsv", [("a b c", "a")]), columns=COLUMNS, max_source_length=2)
    with pytest.raises(ValueError, match=r"data.train: nothing is left of it \(1 rows, 0 examples, .*1 dropped\)"):
        prepare_splits(load_splits(data, "translation"), recipe_of("translation", data), word_tokenizer())


def test_streamed_pairs_are_the_same_pairs(tmp_path):
    path = tsv(tmp_path / "a.tsv", [("a b", "c"), ("a b c d", "d"), ("b", "a")])
    made = {}
    for streaming in (False, True):
        data = section(path, columns=COLUMNS, validation=path, max_source_length=4, streaming=streaming)
        splits, _ = prepare_splits(load_splits(data, "translation"), recipe_of("translation", data), word_tokenizer())
        made[streaming] = sorted(map(str, splits["train"])), splits["validation"].to_list()
    assert made[True] == made[False]
    data.max_tokens_per_batch = 100
    with pytest.raises(ValueError, match="data.max_tokens_per_batch needs all lengths in advance"):
        prepare_splits(load_splits(data, "translation"), recipe_of("translation", data), word_tokenizer())


def test_a_streamed_text_gives_the_same_blocks(tmp_path):
    path = write(tmp_path / "a.txt", "abcdefg\n" * 3000)
    made = {}
    for streaming in (False, True):
        data = section(path, block_size=33, streaming=streaming)
        recipe = recipe_of("causal-lm", data)
        splits, _ = prepare_splits(load_splits(data, "causal-lm"), recipe, char_tokenizer("abcdefg\n"))
        made[streaming] = sorted(row["input_ids"] for row in splits["train"])
    assert made[True] == made[False]


# --- texts with a label


def labelled(path, rows, **settings):
    data = section(path if rows is None else tsv(path, rows, ("first", "second", "label")), **settings)
    data.columns = {"text": "first", "text_pair": "second", "label": "label"}
    return data, recipe_of("sequence-classification", data)


def test_texts_are_truncated_and_counted(tmp_path):
    data, recipe = labelled(tmp_path / "a.tsv", [("a b c", "d", "x"), ("d", "e", "y")], max_length=5)
    tokenizer = word_tokenizer("bos-eos", return_token_type_ids=True)
    splits, report = prepare_splits(load_splits(data, "sequence-classification"), recipe, tokenizer)
    ids = tokenizer.convert_tokens_to_ids
    # <s> a b c </s> d </s> is two too long: the longer side is cut.
    assert splits["train"].to_list() == [
        {
            "input_ids": ids(["<s>", "a", "</s>", "d", "</s>"]),
            "attention_mask": [1] * 5,
            "token_type_ids": [0, 0, 0, 1, 1],
            "labels": 0,
        },
        {
            "input_ids": ids(["<s>", "d", "</s>", "e", "</s>"]),
            "attention_mask": [1] * 5,
            "token_type_ids": [0, 0, 0, 1, 1],
            "labels": 1,
        },
    ]
    assert splits["train"].features["labels"].names == ["x", "y"]
    train = report.splits["train"]
    assert (train.examples, train.tokens, train.targets, train.truncated) == (2, 10, 2, 1)


def test_more_labels_than_the_model_has(tmp_path):
    data, recipe = labelled(tmp_path / "a.tsv", [("a", "b", "x"), ("d", "e", "y"), ("d", "e", "z")])
    train = load_splits(data, "sequence-classification")["train"]
    assert label_names(recipe, train) == ["x", "y", "z"]
    recipe.model["num_labels"] = 2
    with pytest.raises(ValueError, match="model.num_labels: 2 is less than the 3 labels of data.train"):
        label_names(recipe, train)


def test_a_block_without_room_for_text_is_refused_in_one_sentence(tmp_path):
    data = section(write(tmp_path / "a.txt", "abc"), block_size=2)
    with pytest.raises(ValueError, match=r"data.block_size: 2 leaves no room for text beside the special tokens\."):
        prepare_splits(load_splits(data, "masked-lm"), recipe_of("masked-lm", data), char_tokenizer("abc", "bos-eos"))


# --- the cache (case 59)

PREPARE = """
import json, os, sys
from pathlib import Path
from regard.train.data import load_splits, prepare_splits
from regard.train.sections import DataSection, Recipe
from transformers import AutoTokenizer

def cached():
    return set(Path(os.environ["HF_DATASETS_CACHE"]).rglob("*.arrow"))

for task, settings, folder, padded in json.loads(sys.argv[1]):
    before = cached()
    data = DataSection(**settings)
    recipe = Recipe(name="x", task=task, model={"type": "transformer"}, data=data)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if padded:
        tokenizer(["a", "a b"], padding=True, truncation=True, max_length=2)
    splits, _ = prepare_splits(load_splits(data, task), recipe, tokenizer)
    print(json.dumps([len(cached() - before), *(split._fingerprint for split in splits.values())]))
"""


def prepared(cache, *jobs):
    """Prepares data in a process of its own. For each job: the number of new cache files, and the fingerprints."""
    environment = os.environ | {"HF_DATASETS_CACHE": str(cache)}
    command = [sys.executable, "-c", PREPARE, json.dumps(jobs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_another_process_reuses_the_same_inputs_and_never_changed_ones(tmp_path):
    mine, other = str(tmp_path / "tokenizer"), str(tmp_path / "other")
    word_tokenizer().save_pretrained(mine)
    train_tokenizer(["a b c d e f g"], "word", 50, min_frequency=1, template="eos").save_pretrained(other)
    path = tsv(tmp_path / "a.tsv", [("a b", "c"), ("b", "d"), ("c", "e")])
    pairs = {"train": path, "columns": COLUMNS, "validation": "1"}
    text = {"train": write(tmp_path / "a.txt", "a b c d e f " * 50), "block_size": 8}
    jobs = [("translation", pairs, mine, False), ("causal-lm", text, mine, False)]
    first_pairs, first_text = prepared(tmp_path / "cache", *jobs)
    assert first_pairs[0] > 0
    assert first_text[0] > 0
    padded, limited, retokenised, plain, blocks = prepared(
        tmp_path / "cache",
        ("translation", pairs, mine, True),  # a call with padding and truncation came in between
        ("translation", pairs | {"max_source_length": 64}, mine, False),
        ("translation", pairs, other, False),
        ("causal-lm", text, mine, False),
        ("causal-lm", text | {"block_size": 16}, mine, False),
    )
    assert padded == [0, *first_pairs[1:]]
    assert plain == [0, *first_text[1:]]
    for first, changed in [(first_pairs, limited), (first_pairs, retokenised), (first_text, blocks)]:
        assert changed[0] > 0
        assert not set(first[1:]) & set(changed[1:])


def test_one_letter_of_a_file_changes_the_data_even_at_the_same_time_and_size(tmp_path):
    path = tmp_path / "a.tsv"
    data = section(tsv(path, [("a b", "c"), ("b", "d")]), columns=COLUMNS)
    recipe, tokenizer = recipe_of("translation", data), word_tokenizer()
    first = prepare_splits(load_splits(data, "translation"), recipe, tokenizer)[0]["train"]
    times = path.stat()
    tsv(path, [("a b", "c"), ("b", "e")])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = prepare_splits(load_splits(data, "translation"), recipe, tokenizer)[0]["train"]
    assert changed._fingerprint != first._fingerprint
    assert changed["labels"][1] == [*tokenizer.convert_tokens_to_ids(["e"]), tokenizer.eos_token_id]


def test_a_changed_preprocessing_version_is_not_served_from_the_cache(tmp_path, monkeypatch):
    data = section(tsv(tmp_path / "a.tsv", PAIRS), columns=COLUMNS)
    recipe, tokenizer = recipe_of("translation", data), word_tokenizer()
    first = prepare_splits(load_splits(data, "translation"), recipe, tokenizer)[0]["train"]._fingerprint
    assert prepare_splits(load_splits(data, "translation"), recipe, tokenizer)[0]["train"]._fingerprint == first
    for setting, value in (("split_special_tokens", False), ("truncation_side", "left")):  # not in tokenizer.json
        other = word_tokenizer()
        setattr(other, setting, value)
        assert prepare_splits(load_splits(data, "translation"), recipe, other)[0]["train"]._fingerprint != first
    monkeypatch.setattr(fingerprints, "PREPROCESSING_VERSION", -1)
    assert prepare_splits(load_splits(data, "translation"), recipe, tokenizer)[0]["train"]._fingerprint != first


def test_each_key_that_changes_rows_changes_their_name(tmp_path):
    """Two recipes that differ in one key never share what is cached."""
    words, rows = list("abcdefg"), []
    for number in range(8):
        found = [words[(number + i) % 7] for i in range(5)]
        rows.append({"tokens": found, "tags": ["O", "B-X"] * 2 + ["O"], "film": number // 2, "text": " ".join(found)})
        rows[-1] |= {"question": "a", "context": " ".join(found), "answer": found[0], "answer_start": 0}
    path = jsonl(tmp_path / "a.jsonl", rows)
    tokenizer = train_tokenizer([" ".join(words)], "word", 40, min_frequency=1, sentinels=9)
    changes = {
        "token-classification": {"label_all_pieces": True, "max_length": 4, "split_seed": 1, "split_by": "film"},
        "question-answering": {"doc_stride": 1, "max_length": 11},
        "masked-lm": {"whole_word_masking": True, "mask_probability": 0.3, "mask_share": 0.5, "random_share": 0.2},
        "denoising": {"noise_density": 0.3, "mean_span_length": 2.0, "block_size": 9},
    }
    for task, keys in changes.items():
        names = []
        for change in [{}, *({key: value} for key, value in keys.items())]:
            data = section(path, **{"validation": "25%", "max_length": 12, "doc_stride": 2, "block_size": 12} | change)
            prepared, _ = prepare_splits(load_splits(data, task), recipe_of(task, data), tokenizer)
            # What is learnt from these is drawn by the collator; what they are measured on is drawn here.
            drawn = task in ("masked-lm", "denoising")
            names.append(prepared["validation" if drawn else "train"]._fingerprint)
        assert len(set(names)) == len(names), task


def test_the_code_that_makes_rows_is_part_of_their_name():
    """Every module of `regard.train` that `data.py` needs, directly or not, but for those whose results are part of it
    in another way."""
    folder, found, waiting = Path(fingerprints.__file__).parent, set(), ["data"]
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            source = folder.joinpath(f"{name}.py").read_text(encoding="utf-8")
            waiting += re.findall(r"from regard\.train\.(\w+) import", source)
    settings, made_data = {"sections", "records"}, {"turkish", "turkish_grammar", "turkish_lexicon"}
    made_when_asked = {"in_context", "collators"}  # rows there are numbers, which a collator makes examples of
    others = {"fingerprints", "batching", "split_reports", "overlap"} | settings | made_data | made_when_asked
    assert found - set(fingerprints.MODULES) == others
