"""Labels of words: read, laid on the pieces of a tokenizer, learnt, and scored word by word.

Expected values are counted by hand from what each test writes.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, Features, List, Value
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModelForTokenClassification, PreTrainedTokenizerFast, pipeline

from regard.evaluation.generation import load_run
from regard.evaluation.guesses import tag_words
from regard.evaluation.metrics import get_metric
from regard.train import data as data_module
from regard.train.building import build_model, label_names
from regard.train.collators import collator_for
from regard.train.data import load_splits, prepare_splits
from regard.train.evaluate import evaluate_run, evaluate_split
from regard.train.recipe import list_recipes, load_recipe
from regard.train.sections import DataSection, EvaluationSection, Recipe, RecipeError
from regard.train.tagging import LOST, check_spans, continued_labels, encode_tagged, word_tags
from regard.train.tokenization import TASK_OPTIONS, train_tokenizer

NAMES = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
IGNORED = -100


def wordpiece(*pieces):
    """A tokenizer as BERT's, with these pieces."""
    vocabulary = {piece: i for i, piece in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *pieces])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")


def encoded(words, tags, tokenizer, max_length=128, continued=None):
    batch = {"tokens": [words], "tags": [[NAMES.index(tag) for tag in tags]]}
    return {name: column[0] for name, column in encode_tagged(batch, tokenizer, max_length, continued).items()}


def recipe_of(data, **evaluation):
    settings = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    model = {"type": "encoder", **settings}
    return Recipe("test", "token-classification", model, data, evaluation=EvaluationSection(**evaluation))


# --- pieces


def test_the_first_piece_of_a_word_has_its_label():
    """Wash|##ington|visits between [CLS] and [SEP]."""
    tokenizer = wordpiece("Wash", "##ington", "visits")
    row = encoded(["Washington", "visits"], ["B-LOC", "O"], tokenizer)
    assert tokenizer.convert_ids_to_tokens(row["input_ids"]) == ["[CLS]", "Wash", "##ington", "visits", "[SEP]"]
    assert row["labels"] == [IGNORED, 0, IGNORED, 4, IGNORED]
    assert (row["kept"], row["lost"]) == ([0, 1], 0)
    tags = word_tags(np.array([[4, 0, 0, 4, 4]]), np.array([row["labels"]]), [row["kept"]], [2], NAMES)
    assert tags == [["B-LOC", "O"]]
    scores = get_metric("span_f1").compute(predictions=tags, references=[["B-LOC", "O"]])
    assert (scores["span_f1"], scores["span_precision"]) == (1, 1)  # one entity, not two


def test_all_pieces_of_a_word_are_one_entity():
    tokenizer = wordpiece("Wash", "##ington", "visits", "##ed")
    assert continued_labels(NAMES) == [2, 3, 2, 3, 4]
    row = encoded(["Washington", "visitsed"], ["B-LOC", "O"], tokenizer, continued=continued_labels(NAMES))
    assert row["labels"] == [IGNORED, 0, 2, 4, 4, IGNORED]
    assert continued_labels(["B-LOC", "O"]) == [IGNORED, 1]  # there is no I-LOC that a piece could have
    assert continued_labels(["ADJ", "VERB"]) == [0, 1]


def test_what_is_learnt_is_counted():
    """Wash|##ington and Wash|##s: of all pieces the last has no label, since there is no I-PER."""
    names = ["B-LOC", "B-PER", "I-LOC", "O"]
    features = Features({"tokens": List(Value("string")), "tags": List(ClassLabel(names=names))})
    rows = {"tokens": [["Washington", "Washs"], []], "tags": [[0, 1], []]}
    split = Dataset.from_dict(rows, features=features)
    for every, targets in ((False, 2), (True, 3)):
        recipe = recipe_of(DataSection(train="train", label_all_pieces=every))
        prepared, report = prepare_splits({"train": split}, recipe, wordpiece("Wash", "##ington", "##s"))
        found = report.splits["train"]
        assert (found.targets, found.words, found.examples, found.without_targets) == (targets, 2, 1, 1)
        assert sum(label != IGNORED for label in prepared["train"][0]["labels"]) == targets


def test_words_that_are_cut_off_are_counted_and_missed():
    """150 words and two special tokens in 128 positions: 24 words are lost, one of the two places among them."""
    tokenizer = wordpiece("a")
    tags = ["O"] * 150
    tags[5] = tags[140] = "B-LOC"
    rows = {"tokens": [["a"] * 150], "tags": [[NAMES.index(tag) for tag in tags]]}
    features = Features({"tokens": List(Value("string")), "tags": List(ClassLabel(names=NAMES))})
    data = DataSection(train="train", max_length=128)
    recipe = recipe_of(data, metrics=["tag_accuracy", "span_f1"])
    prepared, report = prepare_splits({"test": Dataset.from_dict(rows, features=features)}, recipe, tokenizer)
    split = report.splits["test"]
    assert (split.truncated, split.lost_words, split.targets, split.words) == (1, 24, 126, 150)
    assert "24 lost words" in split.sentence()

    model = build_model(recipe, tokenizer, NAMES)
    with torch.no_grad():  # the label of every word is O
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.0, 0, 0, 0, 1]))
    measures, predictions = evaluate_split(model, tokenizer, recipe, prepared["test"])
    assert predictions == [["O"] * 126 + [LOST] * 24]
    assert measures["tag_accuracy"] == pytest.approx(125 / 150)
    assert (measures["span_recall"], measures["lost_words"], measures["span_lost_words"]) == (0, 24, 24)
    assert measures["loss"] == pytest.approx((125 * (np.log(4 + np.e) - 1) + np.log(4 + np.e)) / 126, rel=1e-5)


@pytest.mark.parametrize("kind", ["byte-bpe", "wordpiece", "unigram", "word", "char"])
def test_each_tokenizer_sees_running_text(kind):
    """The pieces are those of the joined words, and the labelled ones begin the words."""
    words = ["Ankara'da", "kar", "yağdı", ",", "soğuktu", "."]
    tokenizer = train_tokenizer([" ".join(words)] * 3, kind, 300 if kind == "byte-bpe" else 60, min_frequency=1)
    batch = {"tokens": [words, []], "tags": [list(range(len(words))), []]}
    rows = encode_tagged(batch, tokenizer, 64)
    assert rows["input_ids"] == tokenizer([" ".join(words), ""])["input_ids"]
    assert rows["kept"] == [list(range(len(words))), []]
    assert rows["empty"] == [False, True]
    starts = [i for i, label in enumerate(rows["labels"][0]) if label != IGNORED] + [len(rows["labels"][0]) - 1]
    ids = rows["input_ids"][0]
    pieces = [tokenizer.decode(ids[i:j]).strip() for i, j in zip(starts, starts[1:], strict=False)]
    if kind != "word":  # of which a word is all that it knows
        assert [piece.replace(" ", "") for piece in pieces] == words


@pytest.mark.parametrize("prefix", [False, True])
def test_a_tokenizer_as_robertas_begins_words_with_their_space(prefix):
    """Whose offsets leave the space out, and which may put one before the first word."""
    tokenizer = train_tokenizer(["so it rains in Rome"] * 3, "byte-bpe", 275, min_frequency=1)
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), True, prefix)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, add_prefix_space=prefix)
    row = encoded(["it", "rains", "in", "Rome"], ["O", "O", "O", "B-LOC"], tokenizer)
    assert row["input_ids"] == tokenizer("it rains in Rome")["input_ids"]
    pieces = tokenizer.convert_ids_to_tokens(row["input_ids"])
    first = [piece for piece, label in zip(pieces, row["labels"], strict=True) if label != IGNORED]
    assert [piece[:2] for piece in first] == ["Ġi" if prefix else "it", "Ġr", "Ġi", "ĠR"]
    assert row["kept"] == [0, 1, 2, 3]


def test_pieces_of_white_space_belong_to_no_word():
    """Of three spaces, two are pieces of their own, and the last begins the next word."""
    tokenizer = train_tokenizer(["a b"] * 3, "byte-bpe", 263, min_frequency=1)
    row = encoded(["a", " ", "b"], ["O", "O", "B-LOC"], tokenizer)
    assert tokenizer.convert_ids_to_tokens(row["input_ids"][1:-1]) == ["a", "Ġ", "Ġ", "Ġb"]
    assert row["labels"] == [IGNORED, 4, IGNORED, IGNORED, 0, IGNORED]
    assert row["kept"] == [0, 2]


def test_words_that_a_tokenizer_does_not_read_are_lost():
    """A blank, and a control character, which BERT's normaliser deletes."""
    row = encoded(["a", " ", "\x00", "a"], ["O", "O", "B-LOC", "B-PER"], wordpiece("a"))
    assert (row["kept"], row["lost"]) == ([0, 3], 2)
    assert row["labels"] == [IGNORED, 4, 1, IGNORED]
    tags = word_tags(np.array([[0, 4, 1, 0]]), np.array([row["labels"]]), [row["kept"]], [4], NAMES)
    assert tags == [["O", LOST, LOST, "B-PER"]]


def test_pads_have_no_label():
    """Label 0 is B-LOC, and a pad is none."""
    tokenizer = wordpiece("a")
    collate = collator_for(recipe_of(DataSection(train="train")), tokenizer)
    rows = [encoded(["a"] * length, ["B-LOC"] * length, tokenizer) for length in (1, 3)]
    batch = collate(rows)
    assert batch["labels"].tolist() == [[IGNORED, 0, IGNORED, IGNORED, IGNORED], [IGNORED, 0, 0, 0, IGNORED]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1] * 5]
    assert set(batch) == {"input_ids", "attention_mask", "labels"}


# --- scores


def test_spans_counted_by_hand():
    """Gold: a person of two words, a place, a place. Predicted: the person, a place one word too long, and nothing."""
    gold = [["B-PER", "I-PER", "O", "B-LOC", "O"], ["O", "B-LOC"]]
    predicted = [["B-PER", "I-PER", "O", "B-LOC", "I-LOC"], ["O", LOST]]
    scores = get_metric("span_f1").compute(predictions=predicted, references=gold)
    assert scores == {
        "span_precision": 1 / 2,
        "span_recall": pytest.approx(1 / 3),
        "span_f1": pytest.approx(2 / 5),
        "span_lost_words": 1,
    }
    assert get_metric("tag_accuracy").compute(predictions=predicted, references=gold) == {"tag_accuracy": 5 / 7}


def test_tags_that_are_lacking_are_wrong():
    metric = get_metric("tag_accuracy")
    assert metric.compute(predictions=[["O"]], references=[["O", "O", "B-LOC"]]) == {"tag_accuracy": 1 / 3}
    with pytest.raises(ValueError, match="tag_accuracy got 2 tags for the 1 words of example 0"):
        metric.compute(predictions=[["O", "O"]], references=[["O"]])


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["ADJ", "VERB"], "'ADJ' is none of these: choose 'tag_accuracy'"),
        (["B-LOC", "LOC", "O"], "'LOC' is none of these"),
        (["B-", "O"], "'B-' is none of these"),
        (["B-PER", "I-LOC", "I-PER", "O"], "with the tag 'I-LOC' and without 'B-LOC'"),
    ],
)
def test_tags_that_mark_no_spans(names, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_spans(names)
    features = Features({"tokens": List(Value("string")), "tags": List(ClassLabel(names=names))})
    rows = Dataset.from_dict({"tokens": [["a"]], "tags": [[0]]}, features=features)
    data = DataSection(train="train", validation="valid.jsonl")
    with pytest.raises(ValueError, match=sentence):
        label_names(recipe_of(data, metrics=["span_f1"]), rows)
    assert label_names(recipe_of(data, metrics=["tag_accuracy"]), rows) == names


# --- rows

ROWS = [
    {"tokens": ["Ada", "Lovelace", "visits", "Rome"], "tags": ["B-PER", "I-PER", "O", "B-LOC"]},
    {"tokens": ["It", "rains"], "tags": ["O", "O"]},
]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def loaded(train, **settings):
    rows = load_splits(DataSection(train=str(train), **settings), "token-classification")["train"]
    names = rows.features["tags"].feature.names
    return [{"tokens": row["tokens"], "tags": [names[tag] for tag in row["tags"]]} for row in rows]


def test_each_kind_of_file_gives_the_same_sentences(tmp_path):
    assert loaded(write(tmp_path / "a.jsonl", ROWS)) == ROWS
    Dataset.from_list(ROWS).to_parquet(tmp_path / "a.parquet")
    assert loaded(tmp_path / "a.parquet") == ROWS
    cells = "".join(f"{' '.join(row['tokens'])}\t{' '.join(row['tags'])}\n" for row in ROWS)
    (tmp_path / "a.tsv").write_text("tokens\ttags\n" + cells)
    assert loaded(tmp_path / "a.tsv") == ROWS
    pairs = [[f"{word} X {tag}\n" for word, tag in zip(row["tokens"], row["tags"], strict=True)] for row in ROWS]
    text = "-DOCSTART- -X- O\n\n" + "\n".join("".join(lines) for lines in pairs)
    (tmp_path / "a.conll").write_text(text)
    assert loaded(tmp_path / "a.conll") == ROWS
    (tmp_path / "tab.conll").write_text(text.replace(" ", "\t") + "\n\n")
    assert loaded(tmp_path / "tab.conll") == ROWS


def test_spaces_of_other_kinds_are_letters_of_a_word(tmp_path):
    """Of a .conll file, whose columns are parted by blanks, as in `10\u00a0000`."""
    path = tmp_path / "a.conll"
    path.write_text("10\u00a0000  CD B-SUM \nlire NNS O\n", encoding="utf-8")
    assert loaded(path) == [{"tokens": ["10\u00a0000", "lire"], "tags": ["B-SUM", "O"]}]


def test_universal_dependencies(tmp_path):
    """A range of words and an empty node are no words."""
    lines = ["# text = du lies", "1-2\tdu\t" + "\t".join("_" * 8)]
    lines += [f"{i}\t{word}\t_\t{tag}\t_\t_\t0\t_\t_\t_" for i, word, tag in (("1", "de", "ADP"), ("2", "le", "DET"))]
    lines += ["2.1\tva\t" + "\t".join("_" * 8), "3\tlis\t_\tVERB\t_\t_\t0\t_\t_\t_", ""]
    (tmp_path / "a.conllu").write_text("\n".join(lines))
    columns = {"tokens": "form", "tags": "upos"}
    assert loaded(tmp_path / "a.conllu", columns=columns) == [
        {"tokens": ["de", "le", "lis"], "tags": ["ADP", "DET", "VERB"]}
    ]
    with pytest.raises(ValueError, match="there is no column 'tokens'.*'id', 'form', 'lemma', 'upos'"):
        loaded(tmp_path / "a.conllu")


def test_a_data_set_of_the_hub_states_its_tags(monkeypatch):
    features = Features({"tokens": List(Value("string")), "ner_tags": List(ClassLabel(names=["O", "B-X", "I-X"]))})
    rows = Dataset.from_dict({"tokens": [["a", "b"]], "ner_tags": [[1, 0]]}, features=features)
    monkeypatch.setattr(data_module, "load_dataset", lambda *args, **kwargs: rows)
    columns = {"tags": "ner_tags"}
    assert loaded("train", path="some/data", columns=columns) == [{"tokens": ["a", "b"], "tags": ["B-X", "O"]}]
    split = load_splits(DataSection("train", path="some/data", columns=columns), "token-classification")["train"]
    assert split.features["tags"].feature.names == ["O", "B-X", "I-X"]  # in the order that it states


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "line 2: 2 words in column 'tokens' and 1 tags in column 'tags'"),
        ({"tokens": ["a", 3], "tags": ["O", "O"]}, "line 2: column 'tokens' holds a whole number where a word is"),
        ({"tokens": ["a"], "tags": [None]}, "line 2: column 'tags' holds no value where a label"),
        ({"tokens": ["a"], "tags": 1}, "line 2: column 'tags' holds a whole number where a list is wanted"),
        ({"tokens": None, "tags": []}, "line 2: column 'tokens' holds no value where a list is wanted"),
    ],
)
def test_rows_that_are_no_tagged_sentences(tmp_path, row, sentence):
    with pytest.raises(ValueError, match=sentence):
        loaded(write(tmp_path / "a.jsonl", [ROWS[0], row]))


def test_a_stream_of_sentences(tmp_path):
    """It leaves out what nothing can be learnt from, as the whole does."""
    path = write(tmp_path / "a.jsonl", [*ROWS, {"tokens": [], "tags": []}])
    tokenizer, made = train_tokenizer(["Ada Lovelace visits Rome It rains"], "word", 20, min_frequency=1), {}
    for streaming in (False, True):
        data = DataSection(train=path, validation=path, streaming=streaming)
        splits, report = prepare_splits(load_splits(data, "token-classification"), recipe_of(data), tokenizer)
        made[streaming] = sorted((row["input_ids"], row["labels"]) for row in splits["train"])
        assert (len(made[streaming]), len(splits["validation"])) == (2, 3)
        assert set(next(iter(splits["train"]))) == {"input_ids", "attention_mask", "labels"}
    assert made[True] == made[False]
    assert report.splits["train"].lost_words is None  # not known in advance


def test_a_tag_that_is_not_trained_on_is_one_that_will_be_missed(tmp_path, caplog):
    train = write(tmp_path / "train.jsonl", ROWS)
    data = DataSection(train=train, test=write(tmp_path / "test.jsonl", [{"tokens": ["a"], "tags": ["B-MISC"]}]))
    splits = load_splits(data, "token-classification")
    names = ["B-LOC", "B-PER", "I-PER", "O", "B-MISC"]
    assert [split.features["tags"].feature.names for split in splits.values()] == [names, names]
    assert splits["test"][0]["tags"] == [4]
    assert "data.test: data.train has no 'B-MISC', so no training teaches these tags." in caplog.text
    with pytest.raises(ValueError, match="test.jsonl, line 1: the label 'B-MISC'.* which are 'B-LOC', 'B-PER', "):
        load_splits(data, "token-classification", ["test"], names[:4])  # a model's labels are what they are


def test_lines_that_are_no_conll(tmp_path):
    (tmp_path / "a.conll").write_text("a O\nb\n")
    with pytest.raises(ValueError, match="a.conll, line 2: 1 columns where 2 are wanted"):
        loaded(tmp_path / "a.conll")


# --- runs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """`regard train` as a process: places are capitals, persons begin with P and have two words."""
    folder = tmp_path_factory.mktemp("tagging")
    generator = np.random.default_rng(0)
    kinds = [(["ROME"], ["B-LOC"]), (["PARIS"], ["B-LOC"]), (["Pat", "Poe"], ["B-PER", "I-PER"]), (["goes"], ["O"])]
    kinds += [(["to"], ["O"]), (["well"], ["O"])]
    for name, number in (("train", 120), ("valid", 16), ("test", 16)):
        chosen = [[kinds[i] for i in generator.integers(len(kinds), size=4)] for _ in range(number)]
        rows = [{"words": sum((w for w, _ in row), []), "ner": sum((t for _, t in row), [])} for row in chosen]
        write(folder / f"{name}.jsonl", rows)
    recipe = {
        "name": "tags",
        "task": "token-classification",
        "model": {"type": "encoder", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2},
        "tokenizer": {"kind": "byte-bpe", "vocab_size": 290, "min_frequency": 1},
        "data": {
            **{"train": "train.jsonl", "validation": "valid.jsonl", "test": "test.jsonl"},
            **{"columns": {"tokens": "words", "tags": "ner"}, "max_length": 40, "label_all_pieces": True},
        },
        "training": {"num_train_epochs": 8, "learning_rate": 0.01, "eval_strategy": "epoch", "save_strategy": "epoch"},
        "evaluation": {"metrics": ["span_f1", "tag_accuracy"], "samples": 2},
    }
    recipe["model"]["intermediate_size"] = 32
    recipe["training"] |= {"load_best_model_at_end": True, "metric_for_best_model": "span_f1", "logging_steps": 10}
    (folder / "tags.yaml").write_text(json.dumps(recipe))
    command = [sys.executable, "-m", "regard", "train", "tags.yaml", "--output", "run", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "run", json.loads(done.stdout)


def test_a_tagger_learns_and_is_measured(run, monkeypatch):
    folder, metrics = run
    test = metrics["evaluation"]["test"]
    assert test["span_f1"] == test["tag_accuracy"] == 1
    assert test["lost_words"] == 0
    assert "perplexity" not in test
    assert metrics["data"]["train"]["lost_words"] == 0
    assert metrics["model"]["class"] == "TransformerEncoderForTokenClassification"
    history = json.loads((folder / "history.json").read_text())
    assert [row["eval_span_f1"] for row in history if "eval_loss" in row][-1] == 1
    monkeypatch.chdir(folder.parent)
    for batch_size in (1, 7):
        again = evaluate_run(folder, "test", batch_size=batch_size)["test"]
        assert again == {name: pytest.approx(value, rel=1e-5) for name, value in test.items()}


def test_longer_sentences_are_measured_by_all_their_words(run, monkeypatch):
    folder, _ = run
    monkeypatch.chdir(folder.parent)
    write(folder.parent / "long.jsonl", [{"words": ["ROME"] * 100, "ner": ["B-LOC"] * 100}])
    measures = evaluate_run(folder, "test:long", ["data.test.long=long.jsonl"])["test:long"]
    assert measures["lost_words"] > 0
    assert measures["span_recall"] == pytest.approx(1 - measures["lost_words"] / 100)
    assert measures["span_precision"] == 1


def test_a_tagger_is_used_by_the_names_of_its_labels(run):
    folder, metrics = run
    config = AutoModelForTokenClassification.from_pretrained(folder).config
    assert config.id2label == dict(enumerate(["B-LOC", "B-PER", "I-PER", "O"]))
    tagger = pipeline("token-classification", str(folder), aggregation_strategy="first")
    found = [(one["entity_group"], one["word"].strip()) for one in tagger("Pat Poe goes to ROME")]
    assert found == [("PER", "Pat Poe"), ("LOC", "ROME")]
    words = [(word, label) for word, label, _ in tag_words(*load_run(folder, "cpu"), "Pat Poe goes to ROME")]
    assert words == [("Pat", "B-PER"), ("Poe", "I-PER"), ("goes", "O"), ("to", "O"), ("ROME", "B-LOC")]
    card = (folder / "README.md").read_text()
    assert "pipeline_tag: token-classification" in card
    assert "| test | " in card
    assert "100.0%" in card
    assert "AutoModelForTokenClassification" in card
    assert metrics["samples"][0]["prediction"] == metrics["samples"][0]["target"]


TAGGING = [name for name in list_recipes() if name.startswith("tagging/")]


@pytest.mark.parametrize("name", TAGGING)
def test_the_recipes_build(name):
    recipe = load_recipe(name)
    assert recipe.task == "token-classification"
    if recipe.model.get("start_from"):
        return
    texts = ["A small text , and an end ."] * 3
    tokenizer = train_tokenizer(texts, recipe.tokenizer.kind, 60, **TASK_OPTIONS[recipe.task])
    model = build_model(recipe, tokenizer, NAMES)
    assert model.config.max_position_embeddings >= recipe.data.max_length
    assert model.config.num_labels == len(NAMES)


def test_a_metric_of_two_labels_needs_two():
    rows = Dataset.from_dict({"label": [0]}, features=Features({"label": ClassLabel(names=["a", "b", "c"])}))
    recipe = load_recipe("classification/sst2-encoder", ["evaluation.metrics=[f1_binary]"])
    with pytest.raises(RecipeError, match="'f1_binary' is of the second of two labels, and data.train has 3"):
        label_names(recipe, rows)


def test_what_is_of_another_task_is_refused():
    with pytest.raises(RecipeError, match="data.label_all_pieces is for the task token-classification"):
        load_recipe("classification/sst2-encoder", ["data.label_all_pieces=true"])
    with pytest.raises(RecipeError, match="'tag_accuracy' does not fit the task sequence-classification"):
        load_recipe("classification/sst2-encoder", ["evaluation.metrics=[tag_accuracy]"])
