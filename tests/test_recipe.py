"""Recipes: what is shipped loads and explains itself; what cannot work is refused with one sentence."""

import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from regard.evaluation.readers import SUFFIXES
from regard.train.recipe import RecipeError, list_recipes, load_recipe, recipe_text
from regard.train.sections import TASKS

FLAGSHIP = "translation/multi30k-de-en"
STREAMED = "masked-lm/wikipedia-bert"
CLASSIFIER = "classification/sst2-encoder"


@pytest.mark.parametrize("name", list_recipes())
def test_shipped_recipes_load(name):
    recipe = load_recipe(name)
    assert name.endswith(f"/{recipe.name}")
    assert recipe.evaluation.metrics or recipe.task == "word-vectors"  # which test sets measure, and users have those


@pytest.mark.parametrize("name", list_recipes())
def test_every_key_of_a_shipped_recipe_is_explained_on_its_line(name):
    silent = [
        line
        for line in recipe_text(name).splitlines()
        if line.strip() and not line.startswith("#") and ":" in line and not line.partition(" # ")[2].strip()
    ]
    # The names of the sections speak for themselves; `training` says where its keys come from.
    assert [line for line in silent if line.rstrip() not in ("model:", "tokenizer:", "data:", "evaluation:")] == []


@pytest.mark.parametrize("name", list_recipes())
def test_a_recipe_names_kinds_of_files_that_its_task_reads(name):
    """A text has no columns, such as a label's, and .conll files are of tagged words."""
    task = TASKS[load_recipe(name).task]
    named = set(re.findall(r"\.\w+", " ".join(re.findall(r"a file: (\..*)", recipe_text(name)))))
    assert named <= {*SUFFIXES}
    assert ".txt" not in named or task.roles == ("text",)
    assert named.isdisjoint({".conll", ".conllu"}) or "tags" in task.roles


def test_each_task_has_a_shipped_recipe():
    assert {load_recipe(name).task for name in list_recipes()} == {
        "translation",
        "causal-lm",
        "masked-lm",
        "sequence-classification",
        "token-classification",
        "summarization",
        "question-answering",
        "denoising",
        "word-vectors",
        "in-context",
        "in-context-regression",
    }


@pytest.mark.parametrize(
    ("name", "overrides", "sentence"),
    [
        # Names
        ("nothing-of-the-kind", [], "There is no recipe 'nothing-of-the-kind': see `regard list`."),
        ("translation/turkish-entr", [], "There is no recipe 'translation/turkish-entr': did you mean "),
        (FLAGSHIP, ["modle.type=decoder"], "There is no section 'modle': did you mean 'model'?"),
        (FLAGSHIP, ["model.hiden_size=3"], "There is no key 'model.hiden_size': did you mean 'model.hidden_size'?"),
        (FLAGSHIP, ["data.strem=1"], "There is no key 'data.strem': did you mean 'data.streaming'?"),
        (
            FLAGSHIP,
            ["training.learning_rat=1"],
            "There is no argument 'training.learning_rat': did you mean 'training.learning_rate'?",
        ),
        (FLAGSHIP, ["data.columns.src=de"], "There is no role 'data.columns.src' in translation: did you mean "),
        (FLAGSHIP, ["name=a/b"], "name: 'a/b' is no name for a folder: use letters, digits, '-', '_' and '.'."),
        # Types
        (FLAGSHIP, ["training.learning_rate=fast"], "training.learning_rate: 'fast' is not a number."),
        (FLAGSHIP, ["training.num_train_epochs=true"], "training.num_train_epochs: True is not a number."),
        (FLAGSHIP, ["training.bf16=yes"], "training.bf16: 'yes' is not true or false."),
        (FLAGSHIP, ["model.hidden_size=2.5"], "model.hidden_size: 2.5 is not a whole number."),
        (FLAGSHIP, ["model=3"], "model: 3 is not a section with keys of its own."),
        (FLAGSHIP, ["evaluation.metrics=bleu"], "evaluation.metrics: 'bleu' is not a list of texts."),
        (FLAGSHIP, ["data.train=null"], "data.train is missing."),
        (FLAGSHIP, ["training.seed"], "'training.seed' is not of the form key=value, such as "),
        (FLAGSHIP, ["training.seed=[1"], "The value in 'training.seed=[1' is not valid YAML: "),
        # Values
        (FLAGSHIP, ["task=translate"], "task: 'translate' is not known: it is 'translation', "),
        (FLAGSHIP, ["training.lr_scheduler_type=cosin"], "training.lr_scheduler_type: 'cosin' is not known: "),
        (FLAGSHIP, ["model.type=gru"], "model.type: 'gru' is not known: it is 'transformer', 'encoder', 'decoder', "),
        (FLAGSHIP, ["model.norm_type=layer"], "model.norm_type: 'layer' is not 'layernorm' or 'rmsnorm'."),
        (FLAGSHIP, ["model.hidden_act=rellu"], "model.hidden_act: 'rellu' is not known: did you mean 'relu'?"),
        (FLAGSHIP, ["training.num_train_epochs=0"], "training.num_train_epochs: 0 is not a number above 0."),
        (FLAGSHIP, ["training.max_steps=0"], "training.max_steps: 0 trains nothing: give at least 1, or -1 to count"),
        (FLAGSHIP, ["training.max_steps=-5"], "training.max_steps: -5 trains nothing: give at least 1, or -1"),
        (FLAGSHIP, ["training.learning_rate=-1"], "training.learning_rate: -1 is not a number of at least 0."),
        (FLAGSHIP, ["training.max_grad_norm=.nan"], "training.max_grad_norm: nan is not a number of at least 0."),
        (FLAGSHIP, ["training.adam_beta2=1"], "training.adam_beta2: 1 is not a number of at least 0 and below 1."),
        (FLAGSHIP, ["model.num_attention_heads=0"], "model.num_attention_heads: 0 is less than 1."),
        (FLAGSHIP, ["tokenizer.kind=bpe"], "tokenizer.kind: 'bpe' is not known: it is 'byte-bpe', "),
        (FLAGSHIP, ["tokenizer.vocab_size=100"], "tokenizer.vocab_size: 100 is too small for byte-bpe, "),
        (FLAGSHIP, ["data.mask_probability=2"], "data.mask_probability: 2.0 is not between 0 and 1."),
        (FLAGSHIP, ["data.path=builtin:turkisch"], "data.path: 'builtin:turkisch' is not known: "),
        # Settings that do not fit together
        (FLAGSHIP, ["model.type=decoder"], "model.type: the task translation takes 'transformer', not 'decoder'."),
        (FLAGSHIP, ["model.hidden_size=100", "model.num_attention_heads=7"], "model: hidden_size=100 is not a mult"),
        (FLAGSHIP, ["model.vocab_size=500"], "model.vocab_size: 500 differs from tokenizer.vocab_size, 8000: "),
        (
            FLAGSHIP,
            ["training.per_device_train_batch_size=8"],
            "training.per_device_train_batch_size and data.max_tokens_per_batch exclude each other: ",
        ),
        (FLAGSHIP, ["evaluation.metrics=[accuracy]"], "evaluation.metrics: 'accuracy' does not fit the task "),
        (FLAGSHIP, ["evaluation.metrics=[blue]"], "evaluation.metrics: 'blue' is not known: it is 'bleu', "),
        (FLAGSHIP, ["data.validation=null"], "training.eval_strategy asks for evaluation, and data.v"),
        (FLAGSHIP, ["data.streaming=true"], "data.max_tokens_per_batch needs all lengths in advance, "),
        (STREAMED, ["training.max_steps=-1"], "data.streaming needs training.max_steps: "),
        (STREAMED, ["data.block_size=1024"], "data.block_size: 1024 is more than model.max_position_embeddings, 5"),
        (FLAGSHIP, ["evaluation.average_checkpoints=9"], "evaluation.average_checkpoints: 9 checkpoints cannot "),
        (STREAMED, ["data.validation=null", "training.eval_strategy=no"], "evaluation.metrics: perplexity cannot be "),
        (STREAMED, ["tokenizer.max_texts=0"], "tokenizer.max_texts: 0 is less than 1."),
        (FLAGSHIP, ["data.max_source_length=1"], "data.max_source_length: 1 leaves no room for text "),
        (
            CLASSIFIER,
            ["data.columns.text=label"],
            "data.columns.label: the column 'label' is data.columns.text already: name another.",
        ),
        (CLASSIFIER, ["model.freeze_embeddings=true"], "model.freeze_embeddings: true is for vectors that are there "),
        (CLASSIFIER, ["data.max_length=2"], "data.max_length: 2 leaves no room for text beside the special tokens"),
        (FLAGSHIP, ["training.save_only_model=true"], "training.save_only_model: true saves checkpoints without "),
        (FLAGSHIP, ["training.output_dir=x"], "training.output_dir does not belong in a recipe: "),
        (FLAGSHIP, ["training.label_smoothing_factor=0.2"], "training.label_smoothing_factor (0.2) and model.label_"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_one_sentence(name, overrides, sentence):
    with pytest.raises(RecipeError) as caught:
        load_recipe(name, overrides)
    message = str(caught.value)
    assert message.startswith(sentence)
    assert "\n" not in message
    assert message[-1] in ".?"


def test_overrides_are_read_as_yaml():
    recipe = load_recipe(
        FLAGSHIP,
        [
            "training.learning_rate=1e-3",  # text in YAML 1.1
            "training.max_steps=1e2",
            "data.columns.source=no",  # false in YAML 1.1; the code of Norwegian
            "data.test.mine=my.tsv",
            "data.validation=valid.jsonl",
            "evaluation.metrics=[chrf]",
            "model.hidden_size=128",
            "training.run_name=a=b",
        ],
    )
    assert recipe.training["learning_rate"] == 0.001
    assert recipe.training["max_steps"] == 100
    assert isinstance(recipe.training["max_steps"], int)
    assert recipe.training["run_name"] == "a=b"
    assert recipe.data.columns == {"source": "no", "target": "en"}
    assert recipe.data.test == {"mine": "my.tsv"}
    assert recipe.data.validation == "valid.jsonl"
    assert recipe.evaluation.metrics == ["chrf"]
    assert recipe.model["hidden_size"] == 128


@pytest.mark.parametrize("held_out", ["1000", "5%"])
def test_validation_may_be_held_out(held_out):
    assert load_recipe(FLAGSHIP, [f"data.validation={held_out}"]).data.validation == held_out


def test_ones_own_file_takes_the_place_of_the_whole_data_set(tmp_path, caplog):
    """The recipe that is saved names what is used, and is the same when it is read again."""
    recipe = load_recipe(FLAGSHIP, ["data.train=my.tsv"])
    assert (recipe.data.path, recipe.data.name, recipe.data.test) == (None, None, None)
    assert recipe.data.validation == "5%, at most 1000"
    assert "so the splits of bentrevett/multi30k are not used (data.validation, data.test)" in caplog.text
    caplog.clear()
    recipe.save(tmp_path / "recipe.yaml")
    assert load_recipe(tmp_path) == recipe
    own = load_recipe(FLAGSHIP, ["data.train=my.tsv", "data.validation=v.tsv", "data.test=t.tsv"]).data
    assert (own.path, own.validation, own.test) == (None, "v.tsv", "t.tsv")
    assert not caplog.records
    tested = load_recipe(FLAGSHIP, ["data.train=my.tsv", "data.test=t.tsv"]).data
    assert (tested.validation, tested.test) == ("5%, at most 1000", "t.tsv")
    assert "(data.validation);" in caplog.text
    caplog.clear()
    with pytest.raises(RecipeError, match="data.validation: '-5' is no file of a known kind.*such as 5%"):
        load_recipe(FLAGSHIP, ["data.train=my.tsv", "data.validation=-5"])
    mixed = load_recipe(FLAGSHIP, ["data.train=my.tsv", "data.validation=3", "data.test.a=a.tsv", "data.test.b=test"])
    assert (mixed.data.validation, mixed.data.test) == ("3", {"a": "a.tsv"})
    assert "(data.test.b)." in caplog.text
    stream = load_recipe(STREAMED, ["data.train=my.txt"]).data
    assert (stream.path, stream.validation) == (None, "1000")


def test_a_tokenizer_of_a_stream_reads_so_many_rows():
    assert load_recipe(STREAMED, ["tokenizer.max_texts=null"]).tokenizer.max_texts == 100_000
    assert load_recipe(STREAMED).tokenizer.max_texts == 50_000
    assert load_recipe(FLAGSHIP).tokenizer.max_texts is None


def test_what_an_existing_tokenizer_settles_is_named(tmp_path, caplog):
    recipe = load_recipe(FLAGSHIP, ["tokenizer.path=mine", "tokenizer.lowercase=true"])
    assert "these are not used: tokenizer.lowercase, tokenizer.max_length." in caplog.text
    caplog.clear()
    recipe.save(tmp_path / "recipe.yaml")
    assert load_recipe(tmp_path) == recipe
    assert not caplog.records


def test_smoothing_is_handed_to_the_model():
    recipe = load_recipe("language-modeling/wikitext2-bpe", ["training.label_smoothing_factor=0.2"])
    assert recipe.model["label_smoothing"] == 0.2
    assert "label_smoothing_factor" not in recipe.training


@pytest.mark.parametrize("name", list_recipes())
def test_a_saved_recipe_is_the_same_recipe(name, tmp_path):
    texts = [] if name.startswith("word-vectors/") else ["training.run_name='1e-3'", "training.hub_model_id='no'"]
    recipe = load_recipe(name, texts)
    recipe.save(tmp_path / "run" / "recipe.yaml")
    assert load_recipe(tmp_path / "run") == recipe  # a run's folder
    assert load_recipe(tmp_path / "run" / "recipe.yaml") == recipe  # a file
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["recipe.yaml"]


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_ones_own_recipe_needs_few_lines(tmp_path):
    path = write(
        tmp_path,
        "task: causal-lm\nmodel: {type: decoder}\ndata: {train: a.txt}\n",
    )
    recipe = load_recipe(path)
    assert recipe.name == "mine"
    assert recipe.data.columns == {"text": "text"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("task: causal-lm\ntask: masked-lm\n", "is not valid YAML: 'task' is given twice in line 2."),
        ("model: [\n", "is not valid YAML: "),
        ("- a\n- b\n", "is not a list of sections such as 'model:' and 'data:'."),
        ("", "is not a list of sections such as 'model:' and 'data:'."),
        ("model: {type: decoder}\n", "The recipe names no task: it is 'translation', "),
        ("task: causal-lm\ndata: {train: a.txt}\n", "model.type is missing: the task causal-lm takes 'decoder'."),
        ("task: causal-lm\nmodel: {type: decoder}\n", "data.train is missing."),
    ],
)
def test_files_that_are_no_recipe(tmp_path, text, sentence):
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(tmp_path, text))
    assert sentence in str(caught.value)


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(RecipeError, match="is not a run: it holds no recipe.yaml"):
        load_recipe(tmp_path)


def test_yaml_cannot_make_objects(tmp_path):
    with pytest.raises(RecipeError, match="is not valid YAML"):
        load_recipe(write(tmp_path, "task: !!python/object/apply:os.getcwd []\n"))


def test_recipes_are_listed_without_heavy_imports():
    code = "import sys, regard.train.recipe as r; r.list_recipes(); print({'torch', 'datasets'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_recipes_are_package_data():
    root = resources.files("regard.configs")
    assert all(root.joinpath(f"{name}.yaml").is_file() for name in list_recipes())
