"""Summaries: how they are scored, what takes no model, how documents are cut, and a whole run.

ROUGE is counted by hand from Lin (2004): F of the n-grams, or of the longest common subsequence, that two texts share.
"""

import json
import os
import random
import subprocess
import sys

import pytest
from datasets import Dataset

from regard.evaluation.baselines import first_sentence, first_words
from regard.evaluation.generation import encode_sources, load_run, translate
from regard.evaluation.metrics import get_metric
from regard.model_cards.tables import sample_table
from regard.train.building import build_model, generation_settings
from regard.train.data import prepare_splits
from regard.train.evaluate import evaluate_run
from regard.train.recipe import list_recipes, load_recipe
from regard.train.sections import DataSection, Recipe, RecipeError
from regard.train.tokenization import TASK_OPTIONS, train_tokenizer

# --- ROUGE


@pytest.mark.parametrize(
    ("name", "prediction", "reference", "expected"),
    [
        ("rouge1", "the cat sat", "the cat sat on the mat", 2 * 1 * (3 / 6) / (1 + 3 / 6)),
        ("rouge1", "the the the", "the cat", 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)),  # each word counts once
        ("rouge2", "the cat sat", "the cat sat on the mat", 2 * 1 * (2 / 5) / (1 + 2 / 5)),
        ("rouge2", "a b c d", "c d a b", 2 / 3),  # "a b" and "c d", of three and three
        ("rougeL", "police killed the gunman", "police kill the gunman", 1),  # stemmed
        ("rougeL", "the gunman kill police", "police kill the gunman", 1 / 2),  # Lin's example: "the gunman"
        ("rougeL", "police the gunman killed", "police kill the gunman", 3 / 4),
        ("rouge1", "OIL PRICES, up!", "oil price up", 1),  # case and signs are none of its business
        ("rouge1", "nothing", "in common", 0),
    ],
)
def test_rouge_by_hand(name, prediction, reference, expected):
    scores = get_metric(name).compute(predictions=[prediction], references=[reference])
    assert scores[name] == pytest.approx(100 * expected)
    assert scores[f"{name}_signature"].startswith("mean-F|case:lower|stemmer:porter|tokens:a-z0-9|rouge_score:")


def test_rouge_is_a_mean_and_takes_the_best_reference():
    scores = get_metric("rouge1").compute(
        predictions=["a b", "c"], references=[["x y", "a b", "a"], ["d"]]
    )  # 1 by the second reference, and 0
    assert scores["rouge1"] == 50


def test_kinds_of_english_are_english():
    """Stemmed, `kills` is `kill`."""
    for language in ("en", "en-GB", "EN_US"):
        assert (
            get_metric("rouge1").compute(predictions=["kills"], references=["kill"], language=language)["rouge1"]
            == 100
        )
    assert get_metric("rouge1").compute(predictions=["kills"], references=["kill"], language="enm")["rouge1"] == 0


def test_words_of_other_languages_are_whole(caplog):
    """`şişli` and `işli` share no word, and their letters a-z the parts `i` and `li`."""
    pair = {"predictions": ["Şişli"], "references": ["İşli"]}
    scores = get_metric("rouge1").compute(**pair, language="tr")
    assert scores["rouge1"] == 0
    assert "stemmer:none|tokens:unicode" in scores["rouge1_signature"]
    assert "data.target_language" not in caplog.text
    assert get_metric("rouge1").compute(**pair)["rouge1"] > 0
    assert "name the language of other texts in data.target_language" in caplog.text


# --- what takes no model


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("Oil rose. Gold fell.", "Oil rose."),
        ("Oil rose\n 3.5 pct. Gold fell.", "Oil rose 3.5 pct."),
        ("Mr. J. Smith of U.S. Steel Corp. left. He is 60.", "Mr. J. Smith of U.S. Steel Corp. left."),
        ('"Why?" he asked. Nobody knew.', '"Why?" he asked.'),
        ('He said "no." "Yes," she said.', 'He said "no."'),
        ("no end at all", "no end at all"),
        ("", ""),
    ],
)
def test_the_first_sentence(document, sentence):
    assert first_sentence(document) == sentence


def test_the_first_words():
    assert first_words(" Oil  rose again today. ", 2) == "Oil rose"
    assert first_words("Oil", 2) == "Oil"


# --- data


def test_documents_are_cut_and_long_summaries_left_out():
    """With </s>: a document of 11 tokens is cut to 6, one of 3 is not; a summary of 5 tokens is too long."""
    tokenizer = train_tokenizer(["a b c"] * 3, "word", 8, min_frequency=1, template="eos")
    rows = [("a " * 10, "b c"), ("a b", "b"), ("a", "a b c a"), ("", "a")]
    data = DataSection(train="train", max_source_length=6, max_target_length=4)
    recipe = Recipe("test", "summarization", {"type": "transformer"}, data)
    split = Dataset.from_list([{"source": source, "target": target} for source, target in rows])
    prepared, report = prepare_splits({"train": split, "test": split}, recipe, tokenizer)
    train, test = report.splits["train"], report.splits["test"]
    assert (train.examples, train.dropped, train.truncated, train.empty) == (2, 1, 1, 1)
    assert (test.examples, test.dropped, test.truncated) == (4, 0, 2)
    assert train.mean_target_words == pytest.approx((2 + 1 + 4 + 1) / 4)
    assert test.mean_target_words is None
    assert [len(ids) for ids in prepared["train"]["input_ids"]] == [6, 3]
    assert all(ids[-1] == tokenizer.eos_token_id for ids in prepared["train"]["input_ids"])


# --- a run

LETTERS = "abcdefgh"
DATA = {"source": "document", "target": "summary"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """`regard train` as a process: the headline of eight letters is the first two, in capitals."""
    folder = tmp_path_factory.mktemp("summaries")
    rng = random.Random(0)
    for name, number in (("train", 160), ("test", 16)):
        rows = []
        for _ in range(number):
            words = rng.choices(LETTERS, k=8)
            rows.append({"document": " ".join(words), "summary": " ".join(words[:2]).upper()})
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_attention_heads": 2, "dropout": 0.0}
    recipe = {
        "name": "headlines",
        "task": "summarization",
        "model": {"type": "transformer", "encoder_layers": 1, "decoder_layers": 1, **sizes},
        "tokenizer": {"kind": "word", "lowercase": True, "vocab_size": 13, "min_frequency": 1, "max_length": 32},
        "data": {"train": "train.jsonl", "test": "test.jsonl", "columns": DATA, "max_source_length": 6},
        "training": {"num_train_epochs": 12, "learning_rate": 0.01, "per_device_train_batch_size": 16},
        "evaluation": {"metrics": ["rouge1", "rougeL"], "num_beams": 2, "max_new_tokens": 6, "samples": 2},
    }
    recipe["evaluation"]["no_repeat_ngram_size"] = 3
    (folder / "headlines.yaml").write_text(json.dumps(recipe))
    command = [sys.executable, "-m", "regard", "train", "headlines.yaml", "--output", "run"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "run", done.stdout


def test_a_summariser_stands_beside_what_takes_no_model(run, monkeypatch):
    folder, printed = run
    metrics = json.loads((folder / "metrics.json").read_text())
    test = metrics["evaluation"]["test"]
    assert test.keys() >= {"loss", "perplexity", "rouge1", "rougeL", "rouge1_signature", "baselines"}
    assert test["rouge1"] > 60
    assert metrics["data"]["train"]["mean_target_words"] == 2
    assert metrics["data"]["train"]["truncated"] == 160  # of nine tokens, with the end
    assert test["baselines"]["first 2 words"]["rouge1"] == 100
    # A document is one sentence of eight words: two of them right, or fewer where a letter comes twice.
    assert test["baselines"]["first sentence"]["rouge1"] == pytest.approx(100 * 2 * (1 / 4) / (1 / 4 + 1))
    assert "test, first 2 words: rouge1 100, rougeL 100" in printed
    assert f"test: loss {test['loss']:.4g}" in printed
    monkeypatch.chdir(folder.parent)
    again = evaluate_run(folder, "test", batch_size=3)["test"]
    assert again["rouge1"] == test["rouge1"]
    assert again["baselines"] == test["baselines"]


def test_the_card_of_a_summariser(run):
    card = (run[0] / "README.md").read_text()
    assert "pipeline_tag: summarization" in card
    assert "| test, first 2 words of the text | " in card
    assert sample_table([{"source": "a " * 300, "target": "b", "prediction": "c"}]).endswith(" a … | b | c |")
    assert "- ROUGE-1 signature: `mean-F|" in card
    assert "truncation=True, max_length=6" in card
    assert "num_beams=2, max_new_tokens=6, no_repeat_ngram_size=3" in card
    assert "first 6 tokens of a document" in card
    assert "baselines" not in card.partition("---\n\n")[0]


def test_a_run_writes_as_it_was_evaluated(run):
    model, tokenizer = load_run(run[0], "cpu")
    assert model.generation_config.no_repeat_ngram_size == 3
    long, cut = "a b c d e f g h", "a b c d e"
    assert translate(model, tokenizer, [long], max_source_length=6) == translate(model, tokenizer, [cut])
    tokenizer.model_max_length = 4  # not what the documents are cut by
    assert len(encode_sources(model, tokenizer, [long], 6)[0]) == 6
    assert len(encode_sources(model, tokenizer, [long])[0]) == 4
    [once] = translate(model, tokenizer, [long], no_repeat_ngram_size=1, max_new_tokens=9)
    assert len(set(once.split())) == len(once.split())
    for setting in ({"max_source_length": 0}, {"no_repeat_ngram_size": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(setting))}=(0|-1) must be a whole number, at least"):
            translate(model, tokenizer, [long], **setting)


# --- recipes


@pytest.mark.parametrize("name", [name for name in list_recipes() if name.startswith("summarization/")])
def test_the_recipes_build(name):
    recipe = load_recipe(name)
    tokenizer = train_tokenizer(["Oil rose. Gold fell."], recipe.tokenizer.kind, 280, **TASK_OPTIONS[recipe.task])
    model = build_model(recipe, tokenizer)
    assert model.config.max_position_embeddings >= recipe.data.max_source_length
    assert generation_settings(recipe, model).max_new_tokens == recipe.evaluation.max_new_tokens
    assert recipe.tokenizer.max_length == recipe.data.max_source_length


def test_what_is_of_other_tasks_is_refused():
    with pytest.raises(RecipeError, match="no_repeat_ngram_size is for the tasks translation and summarization"):
        load_recipe("classification/sst2-encoder", ["evaluation.no_repeat_ngram_size=3"])
    with pytest.raises(RecipeError, match="'bleu' does not fit the task summarization"):
        load_recipe("summarization/reuters-headlines", ["evaluation.metrics=[bleu]"])
    with pytest.raises(RecipeError, match="no_repeat_ngram_size: -1 is less than 0"):
        load_recipe("summarization/reuters-headlines", ["evaluation.no_repeat_ngram_size=-1"])
