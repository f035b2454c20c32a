"""`model.embeddings` in a recipe: which tokens begin from a vector, what the record keeps, and what is refused."""

import json
import shutil

import numpy as np
import pytest
import torch

from regard.modeling import Word2VecModel, WordVectors
from regard.train import run as runs
from regard.train.recipe import load_recipe
from regard.train.run import train
from regard.train.sections import RecipeError

TEXT = ["the good film", "the bad film", "a good end", "a bad end"] * 8
KNOWN = ["the", "film", "good", "unseen"]
QUICK = ["training.max_steps=2", "training.report_to=none", "training.save_strategy=no", "training.eval_strategy=no"]
LAYER = ["model.hidden_size=8", "model.num_attention_heads=2", "model.intermediate_size=8"]
TINY = {
    "encoder": [*LAYER, "model.num_hidden_layers=1"],
    "decoder": [*LAYER, "model.num_hidden_layers=1"],
    "seq2seq": [*LAYER, "model.encoder_layers=1", "model.decoder_layers=1", "evaluation.average_checkpoints=0",
                "evaluation.metrics=[]"],
    "dan": ["model.hidden_size=8", "model.intermediate_size=8"],
}  # fmt: skip
RECIPES = {
    "encoder": "classification/sst2-encoder",
    "decoder": "language-modeling/wikitext2-words",
    "seq2seq": "translation/tatoeba-en-tr",
    "dan": "classification/sst2-dan",
}


def vectors_file(folder, width: int = 8, words=KNOWN):
    path = folder / "vectors.txt"
    numbers = np.random.default_rng(0).normal(size=(len(words), width)).astype(np.float32)
    WordVectors(list(words), numbers).save_word2vec_format(path)
    return path, dict(zip(words, numbers, strict=True))


def recipe_of(kind: str, folder, *overrides):
    if kind == "decoder":
        file = folder / "text.txt"
        file.write_text("\n".join(TEXT) + "\n", encoding="utf-8")
        data = ["data.block_size=8", "evaluation.stride=4", "data.test=null"]
    elif kind == "seq2seq":
        file = folder / "text.jsonl"
        names = load_recipe(RECIPES[kind], ["data.train=x.jsonl"]).data.columns
        rows = [json.dumps({names["source"]: line, names["target"]: line[::-1]}) for line in TEXT]
        file.write_text("\n".join(rows) + "\n", encoding="utf-8")
        data = ["data.test=null"]
    else:
        file = folder / "text.tsv"
        rows = [f"{line}\t{int('good' in line)}" for line in TEXT]
        file.write_text("\n".join(["sentence\tlabel", *rows]) + "\n", encoding="utf-8")
        data = []
    words = ["tokenizer.kind=word", "tokenizer.vocab_size=40", "tokenizer.min_frequency=1"]
    return load_recipe(
        RECIPES[kind],
        [f"data.train={file}", f"data.validation={file}", *data, *words, *TINY[kind], *QUICK, *overrides],
    )


@pytest.fixture
def first_weights(monkeypatch):
    """The model as it is when training begins."""
    seen = []
    original = runs.RegardTrainer

    def recording(model, *args, **kwargs):
        seen.append(model.get_input_embeddings().weight.detach().clone())
        return original(model, *args, **kwargs)

    monkeypatch.setattr(runs, "RegardTrainer", recording)
    return seen


@pytest.mark.parametrize("kind", RECIPES)
def test_every_type_of_model_begins_from_the_vectors(kind, tmp_path, first_weights, capsys):
    file, numbers = vectors_file(tmp_path)
    metrics = train(recipe_of(kind, tmp_path, f"model.embeddings={file}"), str(tmp_path / "run"))
    from regard.evaluation.generation import load_run

    _, tokenizer = load_run(tmp_path / "run")
    vocabulary, (table,) = tokenizer.get_vocab(), first_weights
    for word in ("the", "film", "good"):
        torch.testing.assert_close(table[vocabulary[word]], torch.from_numpy(numbers[word]), atol=1e-5, rtol=1e-5)
    record = metrics["model"]["embeddings"]
    assert (record["source"], record["words"], record["found"], record["frozen"]) == (str(file), 4, 3, False)
    assert record["missing"] == len(tokenizer) - len(set(tokenizer.all_special_ids)) - 3
    assert "bad" in record["missing_examples"]
    assert f"3 of the {3 + record['missing']} tokens" in capsys.readouterr().err
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["model"]["embeddings"] == record


@pytest.mark.parametrize("kind", ["encoder", "dan"])
def test_frozen_vectors_are_the_files_after_training(kind, tmp_path):
    file, numbers = vectors_file(tmp_path)
    recipe = recipe_of(kind, tmp_path, f"model.embeddings={file}", "model.freeze_embeddings=true")
    assert train(recipe, str(tmp_path / "run"))["model"]["embeddings"]["frozen"] is True
    from regard.evaluation.generation import load_run

    model, tokenizer = load_run(tmp_path / "run")
    row = model.get_input_embeddings().weight[tokenizer.get_vocab()["film"]]
    torch.testing.assert_close(row.detach(), torch.from_numpy(numbers["film"]), atol=1e-5, rtol=1e-5)


def test_a_run_of_word_vectors_is_taken_too(tmp_path, first_weights):
    torch.manual_seed(0)
    source = Word2VecModel.from_vocabulary(["the", "film"], [2, 1], hidden_size=8)
    source.save_pretrained(tmp_path / "vectors")
    train(recipe_of("dan", tmp_path, f"model.embeddings={tmp_path / 'vectors'}"), str(tmp_path / "run"))
    from regard.evaluation.generation import load_run

    _, tokenizer = load_run(tmp_path / "run")
    row = first_weights[0][tokenizer.get_vocab()["film"]]
    torch.testing.assert_close(row, source.in_embeddings.weight[source.key_to_index["film"]].detach())


def test_a_resumed_run_needs_the_file_no_more(tmp_path):
    file, _ = vectors_file(tmp_path)
    steps = ["training.save_strategy=steps", "training.save_steps=1", f"model.embeddings={file}"]
    whole = train(recipe_of("dan", tmp_path, *steps), str(tmp_path / "whole"))
    train(recipe_of("dan", tmp_path, *steps, "training.max_steps=1"), str(tmp_path / "run"))
    shutil.move(file, tmp_path / "elsewhere.txt")
    resumed = train(recipe_of("dan", tmp_path, *steps), str(tmp_path / "run"), resume=True)
    assert resumed["model"]["embeddings"] == whole["model"]["embeddings"]


@pytest.mark.parametrize(
    ("width", "words", "sentence"),
    [
        (5, KNOWN, r"have 5 numbers, and model\.hidden_size is 8: make them the same"),
        (8, ["xx", "yy"], r"none of the \d+ tokens has a word vector"),
    ],
)
def test_vectors_that_do_not_fit_are_refused_before_training(width, words, sentence, tmp_path):
    file, _ = vectors_file(tmp_path, width, words)
    with pytest.raises(RecipeError, match=rf"^model\.embeddings: .*{sentence}") as caught:
        train(recipe_of("dan", tmp_path, f"model.embeddings={file}"), str(tmp_path / "run"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_what_is_no_file_of_vectors_is_refused(tmp_path):
    with pytest.raises(RecipeError, match=r"^model\.embeddings: there is no file or folder 'nowhere\.txt'\.$"):
        train(recipe_of("dan", tmp_path, "model.embeddings=nowhere.txt"), str(tmp_path / "run"))
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(RecipeError, match=r"^model\.embeddings: "):
        train(recipe_of("dan", tmp_path, f"model.embeddings={tmp_path / 'empty.txt'}"), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("model.embedings=x", "There is no key 'model.embedings': did you mean 'model.embeddings'"),
        ("model.embeddings=7", "model.embeddings: 7 is not text or null"),
        ("model.freeze_embeddings=often", "model.freeze_embeddings: 'often' is not true or false"),
    ],
)
def test_keys_are_checked(override, sentence):
    with pytest.raises(RecipeError) as caught:
        load_recipe("classification/sst2-encoder", [override])
    assert str(caught.value).startswith(sentence)
