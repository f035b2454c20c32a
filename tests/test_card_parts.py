"""What a card says of an architecture: its diagram, its parameters by part, its papers, its pictures."""

import json
import re

import pytest
import torch
from huggingface_hub import ModelCard, ModelCardData

from regard.evaluation.curves import plot_history
from regard.model_cards.card import render_card
from regard.model_cards.citations import citation
from regard.model_cards.diagram import architecture_diagram
from regard.model_cards.parts import count_parts, parts_table
from regard.model_cards.pictures import CURVES, INSIDE, RESULTS, draw_pictures, find_pictures
from regard.model_cards.records import read_records
from regard.model_cards.tables import computing
from regard.model_cards.vectors import vector_eval_results
from regard.modeling import (
    DANConfig,
    GloVeConfig,
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
    Word2VecConfig,
    Word2VecModel,
)
from regard.train.recipe import load_recipe
from regard.train.tokenization import TASK_OPTIONS, train_tokenizer

from .card_runs import METRICS, make_run
from .families import ANY_KIND, ENTRIES, Entry, every

CLASSES = {entry.model_class: entry for entry in ENTRIES}  # one variant of each: its last


# --- the diagram -----------------------------------------------------------------------------------------------------


def diagram_of(entry: Entry) -> list[str]:
    config = entry.config()
    config.architectures = [entry.model_class.__name__]
    return architecture_diagram(config).splitlines()


@every(kind=ANY_KIND)
def test_a_diagram_is_drawn_whole(entry):
    """Each box has its four corners above one another, with walls between, and no line ends in blanks."""
    lines = diagram_of(entry)
    assert all(line == line.rstrip() for line in lines)
    at = {
        (row, column): sign for row, line in enumerate(lines) for column, sign in enumerate(line) if sign in "┌┐└┘│─"
    }
    for (row, left), sign in at.items():
        if sign != "┌":
            continue
        right = next(column for column in range(left, 200) if at.get((row, column)) == "┐")
        bottom = next(below for below in range(row + 1, 99) if at.get((below, left)) != "│")
        assert (at[bottom, left], at[bottom, right]) == ("└", "┘")
        assert all(at.get((below, right)) == "│" for below in range(row + 1, bottom))
        assert all(at.get((bottom, column)) == "─" for column in range(left + 1, right))
    assert sum(sign == "┌" for sign in at.values()) == {"seq2seq": 2, "table": 0}.get(entry.kind, 1)


@every(kind="seq2seq")
def test_the_encoder_leads_into_cross_attention(entry):
    lines = diagram_of(entry)
    row, line = next((row, line) for row, line in enumerate(lines) if "→│" in line)
    assert "→│ cross-attention, 4 heads of" in line
    turn = line.index("└")
    assert set(line[turn + 1 : line.index("→")]) == {"─"}
    assert lines[row - 1][turn] == "│"


def test_a_diagram_says_what_the_configuration_says():
    paper = TransformerConfig(architectures=["TransformerForConditionalGeneration"])
    text = architecture_diagram(paper)
    for part in (
        "encoder, 6 layers", "decoder, 6 layers", "32,000 token embeddings of width 512", "× √512",
        "+ sinusoidal positions", "│ causal self-attention, 8 heads of 64", "feed-forward 512 → 2,048 → 512, relu",
        "│ add, LayerNorm", "a score for each of 32,000 tokens", "(weights: the token embeddings)",
    ):  # fmt: skip
        assert part in text
    assert "rotary" not in text
    options = {"norm_position": "pre", "norm_type": "rmsnorm", "position_embedding_type": "rotary", "gated_mlp": True}
    config = TransformerDecoderConfig(**options, num_key_value_heads=2, hidden_act="silu", scale_embedding=False)
    text = architecture_diagram(config)
    for part in ("causal rotary self-attention, 8 heads of 64 (2 of keys), add", "RMSNorm", ", gated silu, add"):
        assert part in text
    assert "√" not in text
    assert "LayerNorm" not in text
    assert text.endswith("a vector of width 512 for each token")


def test_a_diagram_of_what_is_not_attention():
    dan = DANConfig(num_hidden_layers=0, num_labels=4)
    assert architecture_diagram(dan).split("\n")[-1].strip() == "a score for each of 4 labels"
    assert "hidden" not in architecture_diagram(dan)
    assert "against 7 words drawn at random" in architecture_diagram(Word2VecConfig(num_negatives=7))
    tree = architecture_diagram(Word2VecConfig(objective="hierarchical-softmax", vocab_size=1000))
    assert "inner nodes, 999 × 100" in tree
    assert "a word before it, up to 15 words away" in architecture_diagram(GloVeConfig(symmetric=False))


# --- a model without a recipe ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", CLASSES.values(), ids=str)
def test_a_model_without_a_recipe_is_named_and_used_as_what_it_is(entry, tmp_path, monkeypatch, capsys):
    entry.model().save_pretrained(tmp_path / "runs" / "it")
    if entry.kind == "table":  # which hold their words
        words = [f"word{number}" for number in range(8)]
        entry.model_class.from_vocabulary(words, range(80, 72, -1), hidden_size=4).save_pretrained(
            tmp_path / "runs" / "it"
        )
    texts = ["A text", "once upon a time"]
    tokenizer = train_tokenizer(texts, "word", 11, min_frequency=1, **TASK_OPTIONS["masked-lm"])
    tokenizer.save_pretrained(tmp_path / "runs" / "it")
    text = render_card(tmp_path / "runs" / "it")
    about = text.partition("# it\n\n")[2].partition("\n")[0]
    assert about.startswith({"table": "Word vectors"}.get(entry.kind, "A deep" if "DAN" in str(entry) else "A Trans"))
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(re.search(r"```python\n(.*?)```", text, flags=re.S)[1], {})
    assert capsys.readouterr().out  # the id that a random model finds best may stand for nothing


# --- parameters by part ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", CLASSES.values(), ids=str)
def test_the_parts_are_all_there_is(entry, tmp_path):
    """Every parameter is in a part that has a name, and once, though the weights of a tied model have two."""
    model = entry.model()
    model.save_pretrained(tmp_path)
    parts = count_parts(read_records(tmp_path))
    assert sum(parts.values()) == model.num_parameters()
    assert not [part for part in parts if "other" in part]


def test_the_parts_by_their_formulas(tmp_path):
    """D width, F inner width: 4 D² for an attention, 2 D F + D + F for a feed-forward layer, 2 D for a norm."""
    folder = make_run(tmp_path, metrics=None)
    config = read_records(folder).config
    d, f, v = config.hidden_size, config.intermediate_size, config.vocab_size
    assert count_parts(read_records(folder)) == {
        "token embeddings, also of the output layer": v * d,
        "encoder self-attention": 4 * d * d,
        "encoder feed-forward": 2 * d * f + d + f,
        "encoder norms": 2 * 2 * d,
        "decoder self-attention": 2 * 4 * d * d,
        "decoder cross-attention": 2 * 4 * d * d,
        "decoder feed-forward": 2 * (2 * d * f + d + f),
        "decoder norms": 2 * 3 * 2 * d,
    }
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ValueError, match=r"The weights '.*model\.safetensors' cannot be read"):
        count_parts(read_records(folder))
    (folder / "model.safetensors").unlink()
    assert parts_table(read_records(folder)) == ""


def test_weights_in_several_files_are_counted_once(tmp_path):
    model = next(entry for entry in ENTRIES if entry.kind == "seq2seq" and entry.generates).model()
    model.save_pretrained(tmp_path, max_shard_size="10KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    assert sum(count_parts(read_records(tmp_path)).values()) == model.num_parameters()


def test_embeddings_that_began_from_word_vectors(tmp_path):
    start = {
        "source": "/somewhere/of/somebody/glove/vectors.txt",
        "words": 9,
        "found": 1200,
        "missing": 34,
        "frozen": False,
    }
    metrics = {"model": {"embeddings": start}}
    text = render_card(make_run(tmp_path, "causal-lm", "language-modeling/wikitext2-bpe", metrics))
    assert "| embeddings begun from | glove/vectors.txt: 1,200 of 1,234 tokens |" in text
    assert "that continues text, trained with the Python package" in text
    assert "somebody" not in text


# --- papers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "keys"),
    [
        (TransformerConfig(), ["vaswani2017attention"]),
        (TransformerEncoderConfig(), ["devlin2019bert", "vaswani2017attention"]),
        (TransformerDecoderConfig(), ["radford2018improving", "vaswani2017attention"]),
        (
            TransformerDecoderConfig(
                position_embedding_type="rotary", norm_type="rmsnorm", gated_mlp=True, num_key_value_heads=1
            ),
            ["radford2018improving", "vaswani2017attention", "su2021roformer", "zhang2019root", "shazeer2020glu",
             "ainslie2023gqa"],
        ),
        (DANConfig(), ["iyyer2015deep"]),
        (TransformerConfig(norm_position="pre"), ["vaswani2017attention", "xiong2020layer"]),
        (Word2VecConfig(), ["mikolov2013efficient", "mikolov2013distributed"]),
        (
            Word2VecConfig(objective="hierarchical-softmax"),
            ["mikolov2013efficient", "mikolov2013distributed", "morin2005hierarchical"],
        ),
        (Word2VecConfig(objective="full-softmax", subsample=0), ["mikolov2013efficient"]),
        (GloVeConfig(), ["pennington2014glove"]),
    ],
)  # fmt: skip
def test_the_papers_of_an_architecture(config, keys):
    said, entries = citation(config)
    assert [line.partition("{")[2].rstrip(",") for line in entries.splitlines() if line.startswith("@")] == keys
    assert entries.count("{") == entries.count("}")
    assert said.count("(") == len(keys)
    assert said.startswith("The model follows ")


def test_only_what_is_used_of_word2vec_is_named():
    """The second paper has negative sampling and subsampling; a tree needs no negatives, 0 leaves no word out."""
    assert "its negative sampling and subsampling (" in citation(Word2VecConfig())[0]
    assert "its negative sampling (" in citation(Word2VecConfig(subsample=0))[0]
    said = citation(Word2VecConfig(objective="hierarchical-softmax"))[0]
    assert "its subsampling (Mikolov et al., 2013) and hierarchical softmax (Morin and Bengio, 2005)" in said


# --- pictures --------------------------------------------------------------------------------------------------------


def test_pictures_are_known_by_their_names(tmp_path):
    folder = make_run(tmp_path, metrics=METRICS, recipe="translation/multi30k-de-en")
    for name in ("loss_curve.png", "loss_curve.svg", "curves.png", "bleu.png", "lengths.svg", "encoder_attention.png",
                 "positions.png", "cross_attention.png", "vectors.png", "photo.png", "attention.html"):  # fmt: skip
        (folder / name).write_bytes(b"")
    found = [(picture.path.name, picture.kind.part) for picture in find_pictures(read_records(folder))]
    assert found == [
        ("loss_curve.png", CURVES), ("curves.png", CURVES), ("bleu.png", CURVES), ("lengths.svg", RESULTS),
        ("encoder_attention.png", INSIDE), ("cross_attention.png", INSIDE), ("positions.png", INSIDE),
        ("vectors.png", INSIDE),
    ]  # fmt: skip
    text = render_card(folder)
    parts = (
        "## Results", "(lengths.svg)", "## What it looks like inside", "a token that looks", "(encoder_attention.png)",
        "a target token", "(cross_attention.png)", "## Training", "(loss_curve.png)", "(bleu.png)",
    )  # fmt: skip
    order = [text.index(part) for part in parts]
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("task", "recipe", "drawn"),
    [
        ("translation", "translation/multi30k-de-en", ["cross_attention.png"]),
        ("causal-lm", "language-modeling/wikitext2-bpe", ["decoder_attention.png"]),
        ("sequence-classification", "classification/sst2-encoder", ["curves.png", "encoder_attention.png"]),
        ("masked-lm", "masked-lm/wikipedia-bert", []),
    ],
)
def test_pictures_are_drawn_from_records(task, recipe, drawn, tmp_path):
    """The first recorded sample is looked at; a run without samples is given no text that it has not."""
    samples = [] if task == "masked-lm" else [{"source": "A man.", "target": "x", "prediction": " with a hat"}]
    folder = make_run(tmp_path, task, recipe, METRICS | {"samples": samples})
    log = [{"step": 1, "loss": 2.0}, {"step": 1, "eval_loss": 2.0, "eval_runtime": 3.0}]
    if task == "sequence-classification":
        log[1]["eval_accuracy"] = 0.5
    (folder / "history.json").write_text(json.dumps(log))
    assert [path.name for path in draw_pictures(folder)] == drawn
    assert all((folder / name).stat().st_size > 1000 for name in drawn)
    assert draw_pictures(folder) == []
    text = render_card(folder)
    assert all(f"]({name})" in text for name in drawn)


def test_a_picture_that_is_there_stays(tmp_path):
    folder = make_run(tmp_path, metrics=METRICS, recipe="translation/multi30k-de-en")
    plot_history([{"step": 1, "loss": 2.0}], folder / "my_attention.svg")
    assert draw_pictures(folder) == []


def test_words_are_drawn_in_a_plane(tmp_path):
    torch.manual_seed(0)
    words = [f"word{number}" for number in range(8)]
    Word2VecModel.from_vocabulary(words, range(80, 72, -1), hidden_size=4).save_pretrained(tmp_path)
    (tmp_path / "recipe.yaml").write_text("name: mine\ntask: word-vectors\n")
    assert [path.name for path in draw_pictures(tmp_path)] == ["vectors.png"]
    log = [{"step": 1, "loss": 2.0}]
    (tmp_path / "history.json").write_text(json.dumps(log))
    plot_history(log, tmp_path / "loss_curve.png")
    text = render_card(tmp_path)
    assert "![Training loss by step](loss_curve.png)" in text  # nothing was validated
    assert "![Words in a plane](vectors.png)" in text
    assert "| word vectors | 32 | 50.0% |" in text


# --- the text of word vectors ----------------------------------------------------------------------------------------


def test_words_and_phrases_of_a_text(tmp_path):
    Word2VecModel.from_vocabulary(["a", "b"], [3, 2], hidden_size=4).save_pretrained(tmp_path)
    recipe = load_recipe("word-vectors/wiki-skipgram", ["data.train=text.txt", "data.phrases=[200,100.5]"])
    recipe.save(tmp_path / "recipe.yaml")
    assert "The text has" not in render_card(tmp_path)
    counted = {"words": 12345, "words_of_vocabulary": 12000, "vocabulary_size": 1234, "digest": "x"}
    (tmp_path / "metrics.json").write_text(json.dumps({"data": counted}))
    text = render_card(tmp_path)
    assert (
        "The text has 12,345 words; 12,000 of them are among the 1,234 distinct ones that have a vector. Before"
        in text
    )
    assert "those with a score above 200, then above 100.500." in text
    recipe.data.phrases = []
    recipe.save(tmp_path / "recipe.yaml")
    assert "score" not in render_card(tmp_path)


# --- results and hours -----------------------------------------------------------------------------------------------


def test_sets_of_words_stay_apart_in_the_metadata():
    """The Hub groups by task, type, configuration and split of a data set, and not by its name."""
    one = {"kind": "similarity", "spearman": 0.5, "coverage": 1.0}
    results = vector_eval_results({"first": one, "second": one | {"spearman": 0.25}}, "feature-extraction", "do it")
    data = ModelCardData(model_name="x", eval_results=results)
    read = ModelCard(f"---\n{data.to_yaml()}\n---\n").data.eval_results
    assert read == results
    assert [(r.dataset_name, r.metric_type, r.metric_value) for r in read] == [
        ("first", "spearman", 0.5),
        ("first", "coverage", 1.0),
        ("second", "spearman", 0.25),
        ("second", "coverage", 1.0),
    ]
    assert {r.metric_args["command"] for r in read} == {"do it"}


@pytest.mark.parametrize(
    ("environment", "training", "said"),
    [
        ({"cpu": "C", "threads": 4}, {"seconds": 5400}, "1.50 hours on C, 4 threads"),
        ({"cpu": "C", "threads": 1}, {"seconds": 3600, "processes": 2}, "1.00 hours on C, 2 processes of 1 thread"),
        ({"cpu": "C", "threads": 1}, {"seconds": 36, "workers": 8}, "0.01 hours on C, 8 threads"),
        ({"cpu": "C", "threads": 1}, {"seconds": 13}, "0.004 hours on C, 1 thread"),
        ({"cpu": "C", "gpu": "G", "threads": 4}, {"seconds": 1800, "processes": 2}, "0.50 hours on 2 × G"),
        ({"cpu": "C"}, {}, ""),
        ({}, {"seconds": 5400}, ""),
    ],
)
def test_hours_of_hardware(environment, training, said, tmp_path):
    metrics = {"environment": environment, "training": training}
    folder = make_run(tmp_path, "causal-lm", metrics=metrics)
    assert computing(read_records(folder)) == said
    assert ("no emissions are stated" in render_card(folder)) == bool(said)
