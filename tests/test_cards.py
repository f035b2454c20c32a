"""The model card: rendered from hand-made records of runs with tiny real models."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.repocard_data import model_index_to_eval_results

from regard.evaluation.curves import plot_history
from regard.evaluation.generation import load_run, translate
from regard.evaluation.yaml_io import read_yaml
from regard.model_cards.card import render_card, write_card
from regard.train.evaluate import generation
from regard.train.recipe import load_recipe

from .card_runs import BLEU, METRICS, make_run


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
    history = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.5, "epoch": 1}, {"step": 2, "eval_loss": 1.7}]
    (folder / "history.json").write_text(json.dumps(history))
    plot_history(history, folder / "loss_curve.png")
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


def test_each_value_says_how_it_was_measured(run):
    results = {(r.dataset_split, r.metric_type): r.metric_args for r in ModelCard(render_card(run)).data.eval_results}
    command = "regard evaluate runs/multi30k-de-en --split"
    assert results["validation", "loss"] == {"command": f"{command} validation"}
    assert results["2016_flickr", "perplexity"] == {"command": f"{command} test:2016_flickr"}
    assert results["2016_flickr", "bleu"] == {
        "command": f"{command} test:2016_flickr", "num_beams": 5, "max_new_tokens": 128, "signature": BLEU,
    }  # fmt: skip


def test_the_metadata_is_a_fixed_point(run, tmp_path):
    """Written, loaded and written again by the Hub's own classes, nothing is lost or changed."""
    path = write_card(run, tmp_path / "card.md")
    card = ModelCard.load(path)
    again = ModelCardData(**card.data.to_dict())
    assert again.to_dict() == card.data.to_dict()
    assert str(ModelCard(str(card))) == str(card)
    assert str(card) == path.read_text()
    block = yaml.safe_load(path.read_text().split("---\n")[1])
    assert block == card.data.to_dict()
    name, results = model_index_to_eval_results(block["model-index"])
    assert (name, results) == ("multi30k-de-en", card.data.eval_results)
    assert results[0] == EvalResult(
        task_type="translation",
        dataset_type="unknown",
        dataset_name="multi30k",
        dataset_split="validation",
        metric_type="loss",
        metric_name="loss (nats)",
        metric_value=1.7345,
        metric_args={"command": "regard evaluate runs/multi30k-de-en --split validation"},
    )


def test_tables_are_whole(run):
    """Each row of a table has as many cells as its header, whatever stands in them."""
    text = re.sub(r"```.*?```", "", render_card(run), flags=re.S)
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.M)
    assert len(tables) == 7
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, table


def test_a_repository_on_the_hub(run, tmp_path, monkeypatch, capsys):
    """The card of a repository loads from there; here a folder of that name stands for it."""
    text = render_card(run, repo_id="somebody/some-model")
    assert 'path = "somebody/some-model"\nrevision = "main"  # better the id of a commit' in text
    assert text.count("from_pretrained(path, revision=revision, trust_remote_code=True)") == 2
    assert "`hf download somebody/some-model --local-dir runs/multi30k-de-en`" in text
    assert "The repository carries the model's code" in text
    assert "pin a commit" in text
    assert 'revision = "v1.0"' in render_card(run, repo_id="somebody/some-model", revision="v1.0")
    (tmp_path / "somebody").mkdir()
    (tmp_path / "somebody" / "some-model").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", text, flags=re.S)[1], {})
    assert capsys.readouterr().out
    with pytest.raises(ValueError, match="'a/b/c' is no id of a repository, such as user/name"):
        render_card(run, repo_id="a/b/c")


def test_every_heading_with_its_record(run):
    text = render_card(run)
    assert headings(text) == [
        "Use", "Results", "Samples", "What it looks like inside", "Model", "Data", "Training",
        "Time, environment and carbon", "Run it again", "Limits", "Licence", "Citation",
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
        "| cores of the machine | 2 |\n| threads | 1 |",
        "mean of the checkpoints at steps 3,000, 3,804",
        "![Training and validation loss by step](loss_curve.png)",
        "![Cross-attention](cross_attention.png)",
        r'| Ein Mann \| mit "Hut". | A man. Yes &amp;lt;s>. | A \*man\* &lt;b>. |',
        "`regard evaluate runs/multi30k-de-en` measures this again.",
        "The training took 0.40 hours on A Processor, 1 thread. Power was not measured, so no emissions are stated",
        "- It was trained on sources of up to 128 tokens and targets of up to 128.",
        "│ cross-attention, 2 heads of 8 ",
        "| token embeddings, also of the output layer | 4,480 |",
        "Vaswani, Ashish",
    ):
        assert part in text
    assert "The training loss has smoothed labels, the validation loss does not." in text
    assert "\n\n\n" not in text
    assert "{{" not in text
    assert "None" not in text


def test_text_from_the_data_has_no_mark_up(tmp_path):
    """By CommonMark a backslash takes its meaning from any of these signs; a fence ends at one as long as itself."""
    samples = [{"source": "[a](b) ~~c~~ $d$", "target": "![e](f.png)", "prediction": "g"}]
    text = render_card(make_run(tmp_path / "one", recipe="translation/multi30k-de-en", metrics={"samples": samples}))
    assert r"| \[a\](b) \~\~c\~\~ \$d\$ | !\[e\](f.png) | g |" in text
    samples = [{"source": "", "target": "", "prediction": "a\n```\n\n\n~~~~~\n\n\nb\x0cc"}]
    folder = make_run(tmp_path / "two", "causal-lm", "language-modeling/wikitext2-bpe", {"samples": samples})
    text = render_card(folder)
    assert "\n~~~~~~text\na\n```\n\n\n~~~~~\n\n\nb\x0cc\n~~~~~~\n" in text
    assert "\n\n\n" not in text.replace(samples[0]["prediction"], "")


def test_what_is_no_number_is_left_out(tmp_path):
    evaluation = {"validation": {"loss": 1.5, "perplexity": float("inf"), "bleu": None}}
    text = render_card(make_run(tmp_path, recipe="translation/multi30k-de-en", metrics={"evaluation": evaluation}))
    assert "| split | loss (nats) |\n| --- | ---: |\n| validation | 1.500 |" in text
    assert [(r.metric_type, r.metric_value) for r in ModelCard(text).data.eval_results] == [("loss", 1.5)]


@pytest.mark.parametrize(
    ("training", "rows"),
    [
        ({"workers": 3}, ["workers, each a thread | 3", "cores of the machine | 2"]),  # which are the threads
        ({"processes": 2}, ["cores of the machine | 2", "processes | 2", "threads of each process | 1"]),
        ({"processes": 1}, ["cores of the machine | 2", "threads | 1"]),
    ],
)
def test_threads_are_those_of_the_training(training, rows, tmp_path):
    metrics = {"environment": {"cores": 2, "threads": 1}, "training": training}
    text = render_card(make_run(tmp_path, metrics=metrics))
    _, _, table = text.partition("## Time, environment and carbon\n\n")
    assert table.partition("\n\n")[0].splitlines()[2:] == [f"| {row} |" for row in rows]


def test_settings_that_are_off_have_no_row(tmp_path):
    off = ["evaluation.average_checkpoints=0"]
    text = render_card(make_run(tmp_path, recipe="translation/multi30k-de-en", metrics=None, overrides=off))
    assert "average_checkpoints" not in text.replace(off[0], "")


def test_a_model_that_writes_small_letters_says_so(tmp_path):
    said = "- It writes small letters alone"
    small = make_run(tmp_path / "small", recipe="translation/multi30k-en-de-small", metrics=None)
    assert said in render_card(small)
    taken = ["tokenizer.path=mine"]  # of another's tokenizer nothing is known
    other = make_run(tmp_path / "o", recipe="translation/multi30k-en-de-small", metrics=None, overrides=taken)
    assert said not in render_card(other)


def test_columns_that_are_no_languages(tmp_path):
    files = ["data.train=a.tsv", "data.validation=b.tsv", "data.test=c.tsv"]
    text = render_card(make_run(tmp_path, recipe="translation/cmudict-g2p", metrics=None, overrides=files))
    assert "A Transformer that reads `word` and writes `phones`, trained from scratch" in text
    assert "language" not in text[text.index("**It is for**") : text.index("## Model")]
    assert "Sentences" not in text
    assert not ModelCard(text).data.language


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
    command = f"regard train recipe.yaml data.train=PATH/{tmp_path.name}/my.tsv"
    assert f"{command} --output runs/{tmp_path.name}\n" in text  # the folder's name, which is not the recipe's
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


def test_a_folder_of_data_is_no_data_set_of_the_hub(tmp_path, monkeypatch):
    folder = make_run(tmp_path / "run", recipe="translation/multi30k-de-en", overrides=["data.path=my/pairs"])
    monkeypatch.chdir(tmp_path)
    assert ModelCard(render_card(folder)).data.datasets == ["my/pairs"]
    (tmp_path / "my" / "pairs").mkdir(parents=True)  # which `load_dataset` takes first
    text = render_card(folder)
    assert ModelCard(text).data.datasets is None
    assert "huggingface.co/datasets" not in text
    assert "`regard` on my/pairs." in text


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
            "denoising/wikipedia-seq2seq",
            [],
            "The perplexity in the gaps is over the tokens that were taken out, and over nothing else.",
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


def test_the_command_gives_text_as_text(tmp_path):
    """Whatever YAML would make of it without quotes, alone and in a list."""
    texts = ["[a-z]+|[^ ]", "a: b", "12", "yes #1", "", "null", "a, b"]
    files = ["data.train=a.tsv", "data.validation=b.tsv", "data.test=c.tsv"]
    folder = make_run(tmp_path, recipe="translation/cmudict-g2p", metrics=None, overrides=files)
    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    recipe["training"] |= {f"own_{number}": text for number, text in enumerate(texts)}
    recipe["training"]["own_list"] = [*texts, 1.5, True, None]
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    command = next(line for line in render_card(folder).splitlines() if line.startswith("regard train"))
    found = {key: read_yaml(text) for key, _, text in (word.partition("=") for word in shlex.split(command)[3:])}
    assert [found[f"training.own_{number}"] for number in range(len(texts))] == texts
    assert found["training.own_list"] == [*texts, 1.5, True, None]
    assert "data.train=a.tsv" in command  # what needs no quotes has none


def test_what_is_missing_is_left_out(tmp_path):
    folder = make_run(tmp_path / "bare", metrics=None)
    text = render_card(folder)
    assert headings(text) == ["Use", "Model", "Limits", "Citation"]
    assert "from scratch" not in text
    assert "carries the model's code" in text
    assert not re.search(r"\| parameters \| \d", text)  # of the record; the parts are counted in the weights
    assert "# bare\n\nA Transformer that reads a text and writes another.\n" in text
    assert "measures this again" not in text
    assert "emissions" not in text
    data = ModelCard(text).data
    assert data.eval_results is None
    assert data.license is None
    assert data.pipeline_tag is None

    partly = {"recipe": "some", "training": {"steps": 7, "final_loss": None}, "evaluation": {}, "samples": []}
    text = render_card(make_run(tmp_path / "partly", metrics=partly))
    assert headings(text) == ["Use", "Model", "Time, environment and carbon", "Limits", "Citation"]
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


def test_a_card_names_the_steps_or_the_epochs_that_a_run_was_limited_by(tmp_path):
    by_steps = make_run(tmp_path / "one", recipe="translation/multi30k-de-en", overrides=["training.max_steps=50"])
    text = render_card(by_steps)
    assert "| training.max_steps | 50 |" in text
    assert "| training.num_train_epochs |" not in text


def test_the_snippet_of_pairs_gives_both_texts(tmp_path, monkeypatch, capsys):
    """As two texts, as the model was trained: the shortest of the samples, and not one text with a mark in it."""
    pairs = [("A man with a hat. {second}", "A man."), ("A {texts} man", "a | hat"), ("A man with a man.", "A hat.")]
    samples = [{"source": " ||| ".join(pair), "target": "0", "prediction": "1"} for pair in pairs]
    metrics = {"recipe": "rte-minilm", "evaluation": {}, "samples": samples}
    overrides = ["model.start_from=null"]
    folder = make_run(
        tmp_path / "runs" / "rte-minilm", "sequence-classification", "classification/rte-minilm", metrics, overrides
    )
    code = re.search(r"```python\n(.*?)```", render_card(folder), flags=re.S)[1]
    assert 'tokenizer("A {texts} man", "a | hat", return_tensors="pt")' in code
    card = render_card(folder)
    assert "| first text | second text | reference | output |" in card
    assert "| A man with a man. | A hat. | 0 | 1 |" in card
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(code, {})
    model, tokenizer = load_run(folder, device="cpu")
    expected = model(**tokenizer("A {texts} man", "a | hat", return_tensors="pt")).logits.argmax(-1).item()
    assert capsys.readouterr().out == f"{model.config.id2label[expected]}\n"


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
