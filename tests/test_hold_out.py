"""Rows held out of the training data: how many, which ones, and groups that stay together."""

import json

import pytest
from datasets import Dataset

from regard.train.data import load_splits
from regard.train.hold_out import hold_out
from regard.train.recipe import load_recipe
from regard.train.sections import DataSection

ROWS = Dataset.from_dict({"text": [f"row {number}" for number in range(40)]})
GROUPS = [f"group {number // 4}" for number in range(40)]  # ten groups of four


def numbers(parts):
    return {name: [int(text.split()[1]) for text in part["text"]] for name, part in parts.items()}


def test_two_splits_are_taken_and_neither_depends_on_the_other():
    both = numbers(hold_out(ROWS, {"validation": "10%", "test": "8"}))
    assert {name: len(rows) for name, rows in both.items()} == {"train": 28, "validation": 4, "test": 8}
    assert sorted(sum(both.values(), [])) == list(range(40))
    assert all(rows == sorted(rows) for rows in both.values())
    assert numbers(hold_out(ROWS, {"validation": "10%"}))["validation"] == both["validation"]
    assert numbers(hold_out(ROWS, {"test": "8"}))["test"] == both["test"]
    assert numbers(hold_out(ROWS, {"test": "50%, at most 8"}))["test"] == both["test"]
    assert numbers(hold_out(ROWS, {"test": "8"}, seed=1))["test"] != both["test"]
    in_order = numbers(hold_out(ROWS, {"validation": "4", "test": "8"}, ordered=True))
    assert (in_order["validation"], in_order["test"]) == ([36, 37, 38, 39], list(range(8)))


def test_groups_are_held_out_whole():
    parts = numbers(hold_out(ROWS, {"validation": "10%", "test": "6"}, groups=GROUPS))
    # 4 rows are one group; 6 rows are reached with two.
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 28, "validation": 4, "test": 8}
    groups = {name: {GROUPS[row] for row in rows} for name, rows in parts.items()}
    assert sum(map(len, groups.values())) == len(set(GROUPS))
    other = numbers(hold_out(ROWS, {"validation": "10%", "test": "6"}, groups=GROUPS, seed=3))
    assert other["test"] != parts["test"]
    # The groups decide, and not the order of the rows in the file.
    turned = hold_out(ROWS.select(range(39, -1, -1)), {"validation": "10%", "test": "6"}, groups=GROUPS[::-1])
    assert {name: sorted(rows) for name, rows in numbers(turned).items()} == parts


def test_groups_of_unequal_sizes_are_whole_too():
    """So many that the rows that are wanted are together, and no group that is not needed."""
    groups = [f"group {n}" for n in range(1, 9) for _ in range(n)][:36]  # of 1 to 8 rows
    rows = ROWS.select(range(36))
    for seed in range(10):
        parts = numbers(hold_out(rows, {"validation": "25%", "test": "7"}, groups=groups, seed=seed))
        found = {name: {groups[row] for row in chosen} for name, chosen in parts.items()}
        assert sum(map(len, found.values())) == 8
        for name, wanted in (("validation", 9), ("test", 7)):
            sizes = [groups.count(group) for group in found[name]]
            assert len(parts[name]) == sum(sizes) >= wanted
            assert sum(sizes) - max(sizes) < wanted


@pytest.mark.parametrize(
    ("wanted", "groups", "sentence"),
    [
        ({"validation": "40"}, None, "data.validation: '40' of the 40 rows of data.train leaves one side empty."),
        ({"test": "0"}, None, "data.test: '0' of the 40 rows of data.train leaves one side empty."),
        ({"test": "0%"}, None, "data.test: '0%' of the 40 rows of data.train leaves one side empty."),
        ({"test": "0.0%, at most 5"}, None, "data.test: '0.0%, at most 5' of the 40 rows"),
        ({"validation": "20", "test": "20"}, None, "data.validation: '20' and data.test: '20' of the 40 rows"),
        (
            {"test": "37"},
            GROUPS,
            "data.test: '37' of the 40 rows of data.train, which are 10 groups by data.split_by,",
        ),
    ],
)
def test_a_side_without_rows_is_refused(wanted, groups, sentence):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is looked at
        hold_out(ROWS, wanted, groups=groups)
    assert str(caught.value).startswith(sentence)


def test_a_recipe_holds_out_by_a_column(tmp_path, caplog):
    """The column need not be one that the model is given."""
    path = tmp_path / "a.jsonl"
    rows = [{"text": f"row {n}", "label": "ab"[n % 2], "film": n // 4} for n in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = DataSection(train=str(path), validation="10%", test="20%", split_by="film")
    splits = load_splits(data, "sequence-classification")
    assert {name: split.column_names for name, split in splits.items()} == dict.fromkeys(
        ("train", "validation", "test"), ["text", "label"]
    )
    parts = numbers(splits)
    films = {name: {row // 4 for row in rows} for name, rows in parts.items()}
    assert sum(map(len, films.values())) == 10
    assert [len(rows) for rows in parts.values()] == [28, 4, 8]
    assert numbers(load_splits(data, "sequence-classification", ["test"]))["test"] == parts["test"]
    data.validation, data.test = str(path), None
    load_splits(data, "sequence-classification")
    assert "data.split_by: no rows are held out of data.train, so it is not used." in caplog.text
    data.validation, data.split_by = "10%", "flim"
    with pytest.raises(
        ValueError, match=r"data\.split_by: there is no column 'flim' in .*, whose columns are 'text', "
    ):
        load_splits(data, "sequence-classification")


def test_a_share_of_the_test_rows_outlives_another_training_file():
    recipe = load_recipe("question-answering/xquad-minilm", ["data.train=mine.jsonl"])
    assert (recipe.data.path, recipe.data.validation, recipe.data.test) == (None, "10%", "20%")
    assert load_recipe("classification/sst2-encoder", ["data.test=100"]).data.test == "100"
