"""The model card: rendered from hand-made records of runs with tiny real models."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch
from huggingface_hub import ModelCard

from regard.evaluation.curves import plot_history
from regard.evaluation.generation import load_run, translate
from regard.model_cards.card import render_card, write_card
from regard.modeling import (
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerDecoderForCausalLM,
    TransformerEncoderConfig,
    TransformerEncoderForMaskedLM,
    TransformerEncoderForSequenceClassification,
    TransformerForConditionalGeneration,
)
from regard.train.evaluate import generation
from regard.train.recipe import load_recipe
from regard.train.tokenization import TASK_OPTIONS, train_tokenizer

SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
METRICS = {
    "recipe": "multi30k-de-en",
    "environment": {
        "python": "3.11.9", "torch": "2.13.0+cpu", "transformers": "5.24.0", "regard": "0.1.0",
        "cpu": "A Processor", "cores": 2, "threads": 1, "date": "2026-11-28",
    },
    "data": {
        "train": {"rows": 29000, "examples": 28990, "tokens": 912345, "dropped": 10, "pad_share": 0.04},
        "validation": {"rows": 1014, "examples": 1014, "tokens": 30001, "truncated": 2, "pad_share": None},
        "test:2016_flickr": {"rows": 1000, "examples": 1000, "tokens": 29876, "dropped": 0, "truncated": 0},
    },
    "model": {"parameters": 7654321, "class": "TransformerForConditionalGeneration"},
    "training": {
        "seconds": 1440.3, "steps": 3804, "epochs": 8.0, "tokens": 7211111, "tokens_per_second": 5006.7,
        "final_loss": 2.3456, "averaged_checkpoints": [3000, 3804],
    },
    "evaluation": {
        "validation": {"loss": 1.7345, "perplexity": 5.6662},
        "test:2016_flickr": {"loss": 1.7, "perplexity": 5.4739, "bleu": 36.4567, "bleu_signature": BLEU},
    },
    "samples": [{"source": 'Ein Mann | mit "Hut".', "target": "A man.\nYes.", "prediction": "A *man* <b>."}],
}  # fmt: skip


def make_run(folder, task="translation", recipe=None, metrics=METRICS, overrides=()):
    """A run's folder with a tiny random model of its task, a tokenizer and these records."""
    torch.manual_seed(0)
    kind = "wordpiece" if task == "sequence-classification" else "byte-bpe"
    size = 45 if kind == "wordpiece" else 280
    tokenizer = train_tokenizer(["Ein Mann mit Hut. A man with a hat."] * 3, kind, size, **TASK_OPTIONS[task])
    config = {"vocab_size": len(tokenizer), **SIZES}
    model = {
        "translation": lambda: TransformerForConditionalGeneration(
            TransformerConfig(encoder_layers=1, decoder_layers=2, **config)
        ),
        "causal-lm": lambda: TransformerDecoderForCausalLM(TransformerDecoderConfig(num_hidden_layers=1, **config)),
        "masked-lm": lambda: TransformerEncoderForMaskedLM(TransformerEncoderConfig(num_hidden_layers=1, **config)),
        "sequence-classification": lambda: TransformerEncoderForSequenceClassification(
            TransformerEncoderConfig(num_hidden_layers=1, **config)
        ),
    }[task]()
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if recipe is not None:
        load_recipe(recipe, overrides).save(folder / "recipe.yaml")
    if metrics is not None:
        (folder / "metrics.json").write_text(json.dumps(metrics))
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    base = tmp_path_factory.mktemp("somewhere")
    data = base / "home" / "somebody" / "multi30k"
    overrides = [
        "data.path=null",
        f"data.train={data}/train.jsonl",
        f"data.validation={data}/val.jsonl",
        f"data.test.2016_flickr={data}/test_2016_flickr.jsonl",
        "training.num_train_epochs=8",
    ]
    folder = make_run(
        base / "runs" / "multi30k-de-en", "translation", "translation/multi30k-de-en", METRICS, overrides
    )
    plot_history([{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5, "epoch": 1}], folder / "loss_curve.png")
    plot_history([{"step": 1, "loss": 2.0}], folder / "cross_attention.png")  # any picture will do
    return folder


def headings(text):
    return re.findall(r"^## (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), flags=re.M)


def test_metadata(run):
    data = ModelCard(render_card(run)).data
    assert data.license == "apache-2.0"
    assert {result.dataset_type for result in data.eval_results} == {"unknown"}  # "multi30k" is no id on the Hub
    assert data.language == ["de", "en"]
    assert (data.library_name, data.pipeline_tag) == ("transformers", "translation")
    assert data.model_name == "multi30k-de-en"
    found = {(r.dataset_name, r.dataset_split, r.metric_type): r.metric_value for r in data.eval_results}
    assert found == {
        ("multi30k", "validation", "loss"): 1.7345,
        ("multi30k", "validation", "perplexity"): 5.6662,
        ("multi30k", "2016_flickr", "loss"): 1.7,
        ("multi30k", "2016_flickr", "perplexity"): 5.4739,
        ("multi30k", "2016_flickr", "bleu"): 36.4567,
    }
    assert not data.datasets  # local files are no data set of the Hub


def test_every_heading_with_its_record(run):
    text = render_card(run)
    assert headings(text) == [
        "Use", "Results", "Samples", "What it looks at", "Model", "Data", "Training", "Time and environment",
        "Run it again", "Limits", "Licence", "Citation",
    ]  # fmt: skip
    for part in (
        "translates from German to English",
        "| test: 2016_flickr | 1.700 | 5.47 | 36.46 |",
        f"- BLEU signature: `{BLEU}`",
        "| parameters | 7,654,321 |",
        "| layers | 1 encoder, 2 decoder |",
        "| train | multi30k/train.jsonl | 29,000 | 28,990 | 912,345 | 10 |  | 4.0% |",
        "| training.num_train_epochs | 8 |",
        "| training.learning_rate | 0.001 |",
        "| model.label_smoothing | 0.1 |",
        "| time of training | 24 min |",
        "| tokens per second | 5,007 |",
        "mean of the checkpoints at steps 3,000, 3,804",
        "![Training and validation loss by step](loss_curve.png)",
        "![Cross-attention](cross_attention.png)",
        r'| Ein Mann \| mit "Hut". | A man. Yes. | A \*man\* &lt;b>. |',
        "regard evaluate runs/multi30k-de-en",
        "Vaswani, Ashish",
    ):
        assert part in text
    assert "\n\n\n" not in text
    assert "{{" not in text
    assert "None" not in text


def test_no_path_of_the_machine(run):
    text = render_card(run)
    assert "somebody" not in text
    assert str(run.parent) not in text
    assert "/home/" not in text
    command = next(line for line in text.splitlines() if line.startswith("regard train"))
    assert command == (
        "regard train translation/multi30k-de-en data.train=PATH/multi30k/train.jsonl data.path=null "
        "data.validation=PATH/multi30k/val.jsonl data.test.2016_flickr=PATH/multi30k/test_2016_flickr.jsonl "
        "training.num_train_epochs=8"
    )
    assert "PATH stands for the folder where the files are." in text


def test_a_relative_path_stays_as_given(tmp_path):
    overrides = ["data.path=null", "data.train=../my/train.tsv", "data.validation=5%", "data.test=null"]
    text = render_card(make_run(tmp_path, recipe="translation/multi30k-de-en", metrics=None, overrides=overrides))
    assert "data.train=../my/train.tsv" in text
    assert "PATH" not in text


def test_a_recipe_of_ones_own_is_named_with_its_place(tmp_path):
    overrides = ["name=mine", "data.path=null", f"data.train={tmp_path}/my.tsv", "data.validation=5%"]
    text = render_card(make_run(tmp_path, recipe="translation/multi30k-de-en", metrics=None, overrides=overrides))
    assert f"regard train recipe.yaml data.train=PATH/{tmp_path.name}/my.tsv\n" in text
    assert "`recipe.yaml` is in the run's folder." in text


def test_ones_own_file_in_a_recipe_of_the_package(tmp_path):
    """`data.train=my.tsv` alone: the card speaks of that file and of the rows held out of it, not of Multi30k."""
    metrics = METRICS | {"evaluation": {"validation": {"loss": 1.5}}, "data": {"train": {"rows": 90}}}
    folder = make_run(
        tmp_path, recipe="translation/multi30k-de-en", metrics=metrics, overrides=["data.train=data/my.tsv"]
    )
    text = render_card(folder)
    assert "trained from scratch with the Python package `regard` on my.tsv." in text
    assert "| train | data/my.tsv | 90 |" in text
    assert "| validation | held out of train: 5%" in text
    assert "bentrevett" not in text
    data = ModelCard(text).data
    assert [(r.dataset_type, r.dataset_name) for r in data.eval_results] == [("unknown", "my.tsv")]
    assert data.datasets is None


@pytest.mark.parametrize(
    ("recipe", "overrides", "sentence"),
    [
        (
            "language-modeling/wikitext2-bpe",
            ["data.block_size=100", "evaluation.stride=20"],
            "Each token is predicted from at least 80 tokens before it, but for those at the beginning. "
            "Words are what white space parts in the text as it comes; the end of a line counts as one.",
        ),
        (
            "language-modeling/tinyshakespeare-char",
            ["data.train=a.txt", "data.validation=b.txt"],
            "The text is judged in blocks of 64 tokens, each without what came before it.",
        ),
        (
            "translation/cmudict-g2p",
            ["data.train=a.tsv", "data.validation=b.tsv", "data.test=c.tsv"],
            "Rows with the same source are one item, and any of their targets is a right answer.",
        ),
        (
            "masked-lm/wikipedia-bert",
            ["evaluation.metrics=[pseudo_perplexity]", "evaluation.pseudo_perplexity_rows=7"],
            "The pseudo-perplexity masks one token at a time, in 7 rows (or all) spread evenly over the split.",
        ),
    ],
)
def test_how_the_evaluation_counted(recipe, overrides, sentence, tmp_path):
    metrics = METRICS | {"evaluation": {"validation": {"loss": 1.5}}}
    assert f"\n{sentence}\n" in render_card(make_run(tmp_path, recipe=recipe, metrics=metrics, overrides=overrides))


def test_the_command_makes_the_same_recipe(run):
    """What the card says to run gives the run's recipe, but for the place of the files."""
    command = next(line for line in render_card(run).splitlines() if line.startswith("regard train"))
    recipe, *overrides = command.split()[2:]
    again, before = load_recipe(recipe, overrides).to_dict(), load_recipe(run).to_dict()
    for section in (again, before):
        for key in ("train", "validation", "test"):
            section["data"].pop(key)
    assert again == before


def test_what_is_missing_is_left_out(tmp_path):
    folder = make_run(tmp_path / "bare", metrics=None)
    text = render_card(folder)
    assert headings(text) == ["Use", "Model", "Limits", "Citation"]
    assert "from scratch" not in text
    assert "carries the model's code" in text
    assert "parameters" not in text
    assert "# bare" in text
    data = ModelCard(text).data
    assert data.eval_results is None
    assert data.license is None
    assert data.pipeline_tag is None

    partly = {"recipe": "some", "training": {"steps": 7, "final_loss": None}, "evaluation": {}, "samples": []}
    text = render_card(make_run(tmp_path / "partly", metrics=partly))
    assert headings(text) == ["Use", "Model", "Time and environment", "Limits", "Citation"]
    assert "| steps | 7 |" in text
    assert "loss" not in text


def test_not_a_run(tmp_path):
    with pytest.raises(ValueError, match=r"holds no config\.json"):
        render_card(tmp_path)
    folder = make_run(tmp_path / "run")
    (folder / "metrics.json").write_text("{")
    with pytest.raises(ValueError, match="cannot be read"):
        render_card(folder)


TASKS = {
    "causal-lm": ("language-modeling/wikitext2-bpe", {"test": {"loss": 4.0, "perplexity": 54.598}}),
    "masked-lm": ("masked-lm/wikipedia-bert", {}),
    "sequence-classification": ("classification/sst2-encoder", {"validation": {"accuracy": 0.8123, "f1": 0.81}}),
}


@pytest.mark.parametrize("task", TASKS)
def test_snippets_of_other_tasks_run(task, tmp_path, monkeypatch, capsys):
    recipe, evaluation = TASKS[task]
    name = load_recipe(recipe).name
    samples = [{"source": "A man.", "target": "positive", "prediction": "negative"}]
    if task == "causal-lm":
        samples = [{"source": "", "target": "", "prediction": "A man\n\n\n# with a hat"}]
    metrics = {"recipe": name, "evaluation": evaluation, "samples": samples}
    folder = make_run(tmp_path / "runs" / name, task, recipe, metrics)
    text = render_card(folder)
    assert f"regard train {recipe}\n" in text
    data = ModelCard(text).data
    path = load_recipe(recipe).data.path
    assert data.datasets == (None if path is None else [path])
    assert {r.dataset_type for r in data.eval_results or []} <= {path or "unknown"}
    assert len(data.eval_results or []) == len([v for one in evaluation.values() for v in one])
    if task == "causal-lm":
        assert "~~~~text\nA man\n\n\n# with a hat\n~~~~" in text
        assert "54.60" in text
    if task == "sequence-classification":
        assert "| validation | 81.2% | 0.810 |" in text
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(re.search(r"```python\n(.*?)```", text, flags=re.S)[1], {})
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("overrides", "arguments"),
    [
        ((), "num_beams=5, max_new_tokens=128"),
        (("evaluation.length_penalty=0.6",), "num_beams=5, length_penalty=0.6, max_new_tokens=128"),
        (("evaluation.length_penalty=0.6", "evaluation.num_beams=1"), "num_beams=1, max_new_tokens=128"),
    ],
)
def test_the_snippet_decodes_as_was_scored(overrides, arguments, tmp_path, monkeypatch, capsys):
    folder = make_run(tmp_path / "runs" / "multi30k-de-en", recipe="translation/multi30k-de-en", overrides=overrides)
    text = render_card(folder)
    assert f"model.generate(**inputs, {arguments})" in text
    assert f"generated with `{arguments}`" in text
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(re.search(r"```python\n(.*?)```", text, flags=re.S)[1], {})
    settings = generation(load_recipe(folder).evaluation)
    scored = translate(*load_run(folder, device="cpu"), [METRICS["samples"][0]["source"]], **settings)
    assert capsys.readouterr().out == scored[0] + "\n"


def test_a_folder_without_code_does_not_claim_it(tmp_path):
    folder = make_run(tmp_path, recipe="translation/turkish-en-tr", metrics=None)
    assert "trust_remote_code=True" in render_card(folder)
    for file in folder.glob("*.py"):
        file.unlink()
    text = render_card(folder)
    assert "trust_remote_code" not in text
    assert "Code and weights: Apache-2.0.\n" in text  # the package's own sentences have no other source


def test_the_snippet_runs_where_regard_is_not_imported(run):
    code = re.search(r"```python\n(.*?)```", render_card(run), flags=re.S)[1]
    code += "\nimport sys\nassert 'regard' not in sys.modules\nprint('ran')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=run.parent.parent, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("ran\n")


def test_write_card(run, tmp_path):
    assert write_card(run) == run / "README.md"
    assert (run / "README.md").read_text() == render_card(run)
    path = write_card(str(run), str(tmp_path / "cards" / "translation-multi30k.md"))
    text = path.read_text()
    links = re.findall(r"!\[.*\]\((.*)\)", text)
    assert sorted(links) == [
        "images/translation-multi30k-cross_attention.png",
        "images/translation-multi30k-loss_curve.png",
    ]
    for link in links:
        assert (path.parent / link).read_bytes() == (run / link.rpartition("translation-multi30k-")[2]).read_bytes()
    written = [name for _, _, names in os.walk(tmp_path) for name in names]
    assert len(written) == 3  # nothing half-written is left
    assert write_card(run, path).read_text() == text


def test_a_card_without_the_last_record_still_names_its_data(tmp_path):
    folder = make_run(tmp_path / "turkish-en-tr", recipe="translation/turkish-en-tr", metrics=None)
    text = render_card(folder)
    assert "translates from English to Turkish" in text
    assert "`builtin:turkish`" in text
    assert "Results" not in headings(text)
