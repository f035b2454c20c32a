"""Training on in-context tasks: what a row holds and that it follows from its number alone, recipes, a whole run."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from regard.cli import app
from regard.evaluation.in_context.rules import split_of
from regard.evaluation.in_context.tasks import CHARACTERS, IN_CONTEXT_TASKS, draw_examples
from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM
from regard.train import in_context
from regard.train.building import build_tokenizer
from regard.train.collators import collator_for
from regard.train.data import load_splits, prepare_splits
from regard.train.evaluate import evaluate_run
from regard.train.in_context import SequenceEncoder, answer_to, prepare_in_context, sample_of, sampled_rows
from regard.train.recipe import load_recipe
from regard.train.run import train
from regard.train.sections import RecipeError
from regard.train.tokenization import train_tokenizer

RECIPE = "in-context/mixture-decoder"
TINY = [
    "model.hidden_size=16", "model.num_hidden_layers=1", "model.num_attention_heads=2", "model.intermediate_size=16",
    "data.validation=8", "data.test=8", "data.block_size=48", "training.max_steps=4", "training.bf16=false",
    "training.per_device_train_batch_size=2", "training.eval_steps=2", "training.save_steps=2",
    "training.logging_steps=2", "training.report_to=none", "evaluation.samples=2", "evaluation.induction_steps=2",
]  # fmt: skip


@pytest.fixture(scope="module")
def recipe():
    return load_recipe(RECIPE, TINY)


@pytest.fixture(scope="module")
def tokenizer(recipe):
    return build_tokenizer(recipe, None)


def test_labels_are_the_answers(recipe, tokenizer):
    encoder = SequenceEncoder.of(tokenizer, recipe.data)
    row = encoder.training_row(seed=0, epoch=0, row=5, learn_all=False)
    assert len(row["input_ids"]) == len(row["labels"]) == 48
    assert row["input_ids"][0] == tokenizer.bos_token_id
    text = tokenizer.decode(row["input_ids"], skip_special_tokens=True)
    # In text, where an answer is, by the form of a line: after '>', with the end of the line.
    inside = False
    for character, label in zip(text, row["labels"][1:], strict=True):
        assert (label != -100) == inside
        inside = character == ">" or (inside and character != "\n")
    everywhere = encoder.training_row(seed=0, epoch=0, row=5, learn_all=True)
    assert everywhere["input_ids"] == row["input_ids"]
    assert everywhere["labels"] == [-100, *row["input_ids"][1:]]


def test_a_row_follows_from_seed_epoch_and_row_alone(recipe, tokenizer):
    one, other = (collator_for(recipe, tokenizer) for _ in range(2))
    together, apart = one([{"row": 3}, {"row": 9}]), other([{"row": 9}])
    assert torch.equal(together["input_ids"][1], apart["input_ids"][0])
    assert torch.equal(together["labels"][1, 1:], apart["labels"][0, 1:])
    other.set_epoch(1)
    assert not torch.equal(other([{"row": 9}])["input_ids"][0], apart["input_ids"][0])


def test_rows_are_of_the_recipes_seed_and_the_rules_of_training(recipe, tokenizer, monkeypatch):
    """What a collator writes is what `draw_examples` gives for the seed, the epoch and the row, of answers alone; and
    of all tasks no rule is drawn but those of training, as of evaluation but its own."""
    splits = []
    for task in IN_CONTEXT_TASKS.values():
        draw = type(task).draw
        monkeypatch.setattr(
            task, "draw", lambda *args, t=task, d=draw: splits.append((t.name, args[0])) or d(t, *args)
        )
    encoder = SequenceEncoder.of(tokenizer, recipe.data)
    for seed, epoch in ((1, 0), (2, 0), (2, 3)):
        collator = collator_for(load_recipe(RECIPE, [*TINY, f"training.seed={seed}"]), tokenizer)
        splits.clear()
        collator.set_epoch(epoch)
        batch = collator([{"row": row} for row in range(60)])
        assert set(splits) == {(name, "train") for name in IN_CONTEXT_TASKS}
        for row, (name, _) in enumerate(splits[:60]):
            examples = draw_examples(name, "train", seed, f"{epoch}.{row}", characters=48)
            wanted = encoder.encode(examples, learn_all=False)
            assert batch["input_ids"][row].tolist() == wanted["input_ids"]
            assert batch["labels"][row, 1:].tolist() == wanted["labels"][1:]
    for split in ("validation", "test"):
        splits.clear()
        for row in range(8):
            encoder.evaluation_row(split, row)
        assert splits == [(name, split) for name in recipe.data.tasks]


def test_weights_say_how_often_a_task_comes(recipe, tokenizer):
    """Three rows of swapping to one of arithmetic: a binomial share, within four standard errors."""
    data = load_recipe(RECIPE, [*TINY, "data.tasks={swapping: 3, arithmetic: 1}"]).data
    encoder = SequenceEncoder.of(tokenizer, data)
    digits = set(tokenizer.convert_tokens_to_ids(list("0123456789")))
    rows = [encoder.training_row(0, 0, row, False)["input_ids"] for row in range(300)]
    assert np.mean([not digits & set(row) for row in rows]) == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / 300) ** 0.5)


def test_evaluation_is_of_whole_examples_under_held_out_rules(recipe, tokenizer):
    splits = load_splits(recipe.data, recipe.task)
    assert [len(split) for split in splits.values()] == [1_000_000, 8, 8]
    prepared, report = prepare_splits({name: splits[name] for name in ("validation", "test")}, recipe, tokenizer)
    assert prepared["validation"]["task"] == list(recipe.data.tasks)
    assert prepared["validation"]["input_ids"] != prepared["test"]["input_ids"]
    for row in prepared["test"]:
        assert row["input_ids"][-1] == tokenizer.convert_tokens_to_ids("\n")
        assert len(row["input_ids"]) <= 48
    assert report.splits["test"].targets == sum(np.sum(np.array(row["labels"]) != -100) for row in prepared["test"])
    # The rule of a row of swapping is read off its first example: its letters are distinct.
    asked, answer = tokenizer.decode(prepared["test"][0]["input_ids"][1:]).split("\n")[0].split(">")
    assert split_of("swapping", "".join(str(asked.index(letter)) for letter in answer)) == "test"


@pytest.mark.parametrize(("task", "inputs"), [("induction", 10), ("word-classes", 18)])
def test_a_question_of_evaluation_was_not_answered_before(tokenizer, task, inputs):
    """In a row that is longer than the task has inputs."""
    data = load_recipe(RECIPE, [*TINY, "data.block_size=600", f"data.tasks={{{task}: 1}}"]).data
    for row in range(3):
        text = tokenizer.decode(SequenceEncoder.of(tokenizer, data).evaluation_row("test", row)["input_ids"][1:])
        asked = [line.split(">")[0] for line in text.split("\n")[:-1]]
        assert len(asked) == len(set(asked)) > inputs - 3


def test_of_the_training_rules_a_part_is_measured(recipe, tokenizer, monkeypatch):
    monkeypatch.setattr(in_context, "MEASURED_ROWS", 3)
    rows, report = prepare_in_context(
        load_splits(recipe.data, recipe.task)["train"], "evaluated:train", recipe, tokenizer
    )
    assert len(rows) == report.rows == 3
    asked, answer = tokenizer.decode(rows[0]["input_ids"][1:]).split("\n")[0].split(">")
    assert split_of("swapping", "".join(str(asked.index(letter)) for letter in answer)) == "train"


def test_a_sample_asks_after_examples(recipe, tokenizer):
    row = {"input_ids": tokenizer("ab>ba\ncd>dc\nef>fe\ngh>hg\nij>ji\nkl>lk\n")["input_ids"]}
    assert sample_of(tokenizer, row) == ("ab>ba\ncd>dc\nef>fe\ngh>hg\nij>", "ji")


def test_the_tokenizer_reads_characters(recipe):
    words = train_tokenizer(["ab cd"], "word", 20, min_frequency=1)
    with pytest.raises(ValueError, match="'a' is no token of it, and the task in-context reads one token a character"):
        SequenceEncoder.of(words, recipe.data)
    assert len(set(CHARACTERS)) == len(CHARACTERS)
    pieces = train_tokenizer(["rain snow wind"] * 9, "byte-bpe", 280, min_frequency=1)
    with pytest.raises(
        ValueError, match="as other tokens than its characters, and the task in-context reads one token"
    ):
        SequenceEncoder.of(pieces, recipe.data)


def test_samples_are_of_one_task_after_another():
    """Rows of eight tasks take turns: sixteen of 1,600 rows are two of each; few rows come once."""
    chosen = sampled_rows(1600, 8, 16)
    assert sorted(row % 8 for row in chosen) == sorted([*range(8)] * 2)
    assert all(abs(row - 100 * place) < 8 for place, row in enumerate(chosen))
    assert sampled_rows(3, 8, 16) == [0, 1, 2]
    assert sampled_rows(8, 8, 0) == []


def test_a_sample_is_as_long_as_the_recipe_lets_it_be(tokenizer):
    """A model that writes nothing but `a` never ends a line."""
    config = TransformerDecoderConfig(
        vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8
    )
    model = TransformerDecoderForCausalLM(config).eval()
    favourite = tokenizer.convert_tokens_to_ids("a")
    model.lm_head.register_forward_hook(
        lambda head, inputs, logits: torch.full_like(logits, -1.0).index_fill(-1, torch.tensor(favourite), 1.0)
    )
    assert answer_to(model, tokenizer, "ab>", 3) == "aaa"
    assert answer_to(model, tokenizer, "ab>", 5) == "aaaaa"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["data.tasks={swaping: 1}"], "data.tasks: There is no in-context task 'swaping': did you mean 'swapping'"),
        (["data.tasks={swapping: 0, copying: null}"], "data.tasks: every task is left out, by 0 or null"),
        (["data.tasks.swapping=-1"], "data.tasks.swapping: -1.0 is no weight above 0; 0 or null leaves a task out"),
        (["data.tasks.swapping=a"], "data.tasks.swapping: 'a' is not a number or null."),
        (["data.train=my.txt"], "data.train: 'my.txt' is no number of rows, such as 2000"),
        (["data.tasks={swapping: many}"], "data.tasks.swapping: 'many' is not a number or null."),
        (["data.train=20000000"], "data.train: 20000000 rows are too many: at most 10000000"),
        (["data.test=" + "9" * 20], "data.test: 9+ rows are too many"),
        (["data.path=imdb"], "data.path: 'imdb' has no effect on in-context, whose rows are made: leave it out"),
        (["data.packing=documents"], "data.packing: 'documents' has no effect on in-context"),
        (["data.max_train_examples=9"], "data.max_train_examples: 9 has no effect on in-context"),
        (["tokenizer.vocab_size=42"], "tokenizer.vocab_size: 42 is too small for the 38 characters of in-context"),
        (["data.learn_from=inputs"], "data.learn_from: 'inputs' is not known: it is 'answers' or 'all'"),
        (["data.block_size=8"], "data.block_size: 8 leaves no room for examples: at least 32"),
        (["tokenizer.kind=byte-bpe", "tokenizer.vocab_size=300"], "tokenizer.kind: in-context takes 'char'"),
        (["data.noise=0.5"], "data.noise is for the task in-context-regression, not for in-context"),
        (["evaluation.induction_steps=0"], "evaluation.induction_steps: 0 is less than 1"),
    ],
)
def test_what_cannot_work_is_refused(settings, sentence):
    with pytest.raises(RecipeError, match=sentence.replace("(", r"\(")):
        load_recipe(RECIPE, settings)


def test_an_override_leaves_a_task_out():
    every = load_recipe(RECIPE).data.tasks
    data = load_recipe(RECIPE, ["data.tasks.swapping=0", "data.tasks.copying=null"]).data
    assert data.tasks == {name: weight for name, weight in every.items() if name not in ("swapping", "copying")}


def test_it_may_begin_from_weights_that_are_there():
    """The tokenizer is then that model's."""
    assert load_recipe(RECIPE, ["model.start_from=runs/before"]).model["start_from"] == "runs/before"


def test_other_tasks_have_none_of_it():
    with pytest.raises(RecipeError, match="data.tasks is for the task in-context, not for causal-lm"):
        load_recipe("language-modeling/wikitext2-bpe", ["data.tasks={swapping: 1}"])


def test_a_run_that_goes_on_ends_in_the_same_weights(tmp_path):
    """Whole, and stopped after two of four steps: the same weights, records and measures. Three rows make an epoch, so
    that it is stopped at the end of the first."""

    def recipe(steps):
        settings = [f"training.max_steps={steps}", "training.lr_scheduler_type=constant", "data.train=3"]
        return load_recipe(RECIPE, [*TINY, *settings])

    whole = train(recipe(4), tmp_path / "whole")
    train(recipe(2), tmp_path / "parts", test=False)
    parts = train(recipe(4), tmp_path / "parts", resume=True)
    assert whole["evaluation"] == parts["evaluation"]
    assert evaluate_run(tmp_path / "whole", "test")["test"] == whole["evaluation"]["test"]
    drawn = CliRunner().invoke(
        app, ["plot", "induction", str(tmp_path / "whole"), "-o", str(tmp_path / "induction.png")]
    )
    assert drawn.stdout == f"Wrote {tmp_path / 'induction.png'}\n"
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    points = [json.loads((tmp_path / name / "induction.json").read_text()) for name in ("whole", "parts")]
    assert points[0] == points[1]
    assert [point["step"] for point in points[0]] == [0, 2, 4]
    measures = json.loads((tmp_path / "whole" / "metrics.json").read_text())["evaluation"]["test"]
    assert set(measures["by_task"]) == set(IN_CONTEXT_TASKS)
    assert {"loss", "perplexity", "exact_match_0", "exact_match_2"} <= set(measures)
    card = (tmp_path / "whole" / "README.md").read_text()
    assert "test, exact match by the number of examples" in card
    assert "It was trained on rows of 48 tokens: in longer prompts it answers worse." in card
    assert (tmp_path / "induction.png").stat().st_size > 1000
