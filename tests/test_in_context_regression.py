"""In-context regression: the model of Garg et al. (2022), its data, and the predictors that it is compared with."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from regard.evaluation.few_shot.report import run_few_shot
from regard.evaluation.generation import load_run
from regard.evaluation.in_context import regression_picture
from regard.evaluation.in_context.regression import (
    Regressions,
    baselines,
    draw_regression,
    draw_regressions,
    errors_by_examples,
    least_squares,
    predict_by,
    ridge,
)
from regard.model_cards.in_context import in_context_notes, in_context_results
from regard.model_cards.publish import publish
from regard.model_cards.records import Records
from regard.modeling import InContextRegressionConfig, TransformerDecoderForInContextRegression
from regard.train import in_context_regression
from regard.train.evaluate import evaluate_run
from regard.train.recipe import load_recipe
from regard.train.run import train
from regard.train.sections import RecipeError

from .hub_server import HubServer
from .test_trainer import run_on_two

RECIPE = "in-context/linear-regression"
SHAPE = {"input_size": 3, "examples": 8, "noise": 0.5}
TINY = [
    "model.hidden_size=16", "model.num_hidden_layers=1", "model.num_attention_heads=2", "model.intermediate_size=16",
    "data.validation=8", "data.test=8", "training.max_steps=4", "training.per_device_train_batch_size=2",
    "training.eval_steps=2", "training.save_steps=2", "training.logging_steps=2", "training.report_to=none",
    "training.lr_scheduler_type=constant",
]  # fmt: skip


def make_model(**settings):
    torch.manual_seed(0)
    config = {"input_size": 3, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config |= {"intermediate_size": 24, "max_position_embeddings": 16}
    return TransformerDecoderForInContextRegression(InContextRegressionConfig(**config | settings)).eval()


def make_batch(rows=4):
    drawn = draw_regressions(rows, **SHAPE)
    return {
        "inputs": torch.tensor(drawn.inputs, dtype=torch.float32),
        "values": torch.tensor(drawn.values, dtype=torch.float32),
    }


@pytest.mark.parametrize("positions", ["learned", "rotary", "sinusoidal"])
def test_a_prediction_sees_the_examples_before_it_alone(positions):
    model, batch = make_model(position_embedding_type=positions), make_batch()
    before = model(**batch).logits
    assert before.shape == (4, 8)
    for name in ("inputs", "values"):
        changed = {key: value.clone() for key, value in batch.items()}
        changed[name][:, 5] += 1.0
        after = model(**changed).logits
        first = 5 if name == "inputs" else 6  # the value at a point is no part of its own prediction
        torch.testing.assert_close(after[:, :first], before[:, :first])
        assert (after[:, first] - before[:, first]).abs().min() > 1e-6
    asked = model(batch["inputs"], batch["values"][:, :-1]).logits  # the last value is not known
    torch.testing.assert_close(asked, before)


def test_the_loss_is_the_mean_squared_error_and_reaches_every_weight():
    model, batch = make_model(), make_batch()
    outputs = model(**batch, labels=batch["values"])
    expected = ((outputs.logits - batch["values"]) ** 2).mean()
    torch.testing.assert_close(outputs.loss, expected)
    outputs.loss.backward()
    assert [name for name, weight in model.named_parameters() if weight.grad is None] == []
    short = model(**batch, labels=batch["values"], loss_only=True)
    assert short.logits is None
    torch.testing.assert_close(short.loss, expected)


def test_labels_that_are_no_numbers_are_ignored():
    """As -100 is among tokens: they change neither the loss of the others nor its gradient."""
    model, batch = make_model(), make_batch()
    labels, other = batch["values"].clone(), batch["values"].clone()
    labels[1, 2:], labels[3] = torch.nan, torch.nan
    expected = ((model(**batch).logits - other) ** 2)[~labels.isnan()]
    assert len(expected) == 18  # 2 rows of 8, and 2 labels
    expected.mean().backward()
    wanted = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    loss = model(**batch, labels=labels).loss
    torch.testing.assert_close(loss, expected.mean())
    loss.backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight.grad, wanted[name])
    torch.testing.assert_close(model(**batch, labels=labels, num_items_in_batch=9).loss, expected.sum() / 9)
    assert model(**batch, labels=torch.full_like(labels, torch.nan)).loss == 0


def test_points_are_read_in_the_dtype_of_the_weights():
    """bfloat16 rounds by 2^-9, of which two layers make some more."""
    model, batch = make_model(), make_batch()
    before = model(**batch).logits
    model.to(torch.bfloat16)
    outputs = model(**batch, labels=batch["values"])
    assert outputs.logits.dtype == torch.bfloat16
    torch.testing.assert_close(outputs.logits.float(), before, rtol=0.05, atol=0.05)
    outputs.loss.backward()
    wide = make_model()(batch["inputs"].double(), batch["values"].double())
    torch.testing.assert_close(wide.logits, before)


def test_a_model_that_fails_is_left_in_training(monkeypatch):
    model = make_model().train()
    monkeypatch.setattr(model, "forward", lambda **batch: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        in_context_regression.predict(model, draw_regressions(2, **SHAPE))
    assert model.training


def test_it_is_saved_and_loaded_by_its_auto_class(tmp_path):
    model, batch = make_model(), make_batch()
    model.save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path)
    assert type(loaded) is TransformerDecoderForInContextRegression
    assert torch.equal(loaded(**batch).logits, model(**batch).logits)
    assert len(loaded(**batch, output_hidden_states=True).hidden_states) == 3


def test_what_cannot_be_read_is_refused():
    model, batch = make_model(), make_batch()
    with pytest.raises(ValueError, match=r"inputs have the shape \(4, 8, 2\): \(B, K, 3\) is right"):
        model(batch["inputs"][..., :2], batch["values"])
    for values in (batch["values"][:, :5], batch["values"][:2], batch["values"][0], batch["values"][..., None]):
        with pytest.raises(
            ValueError, match=r"values have the shape \(.*\): \(4, 8\) is right, one for each point, or one"
        ):
            model(batch["inputs"], values)
    with pytest.raises(ValueError, match=r"labels have the shape \(4, 1\): \(4, 8\) is right, one for each point"):
        model(**batch, labels=batch["values"][:, :1])  # which would be compared with every prediction
    with pytest.raises(Exception, match="input_size=0 must be at least 1"):
        InContextRegressionConfig(input_size=0)


def test_rows_are_a_function_of_their_numbers():
    one = draw_regression("train", 1, 2, 3, **SHAPE)
    same = draw_regression("train", 1, 2, 3, **SHAPE)
    assert np.array_equal(one.inputs, same.inputs)
    assert np.array_equal(one.values, same.values)
    for other in (("test", 1, 2, 3), ("train", 0, 2, 3), ("train", 1, 0, 3), ("train", 1, 2, 0)):
        assert not np.array_equal(draw_regression(*other, **SHAPE).inputs, one.inputs)


def test_least_squares_and_ridge_are_what_they_are_called():
    """Against the normal equations, and against torch's solver where there are fewer examples than coordinates."""
    rows = draw_regressions(3, **SHAPE)
    x, y = rows.inputs[0], rows.values[0]
    np.testing.assert_allclose(least_squares(x, y), np.linalg.solve(x.T @ x, x.T @ y))
    smallest = torch.linalg.pinv(torch.tensor(x[:2])) @ torch.tensor(y[:2])
    np.testing.assert_allclose(least_squares(x[:2], y[:2]), smallest.numpy())
    weights = ridge(0.5)(x, y)
    np.testing.assert_allclose(x.T @ (y - x @ weights), 0.25 * weights, atol=1e-9)  # where the gradient is zero
    predicted = predict_by(least_squares, rows)
    assert predicted[0, 0] == 0
    assert predicted[1, 5] == pytest.approx(rows.inputs[1, 5] @ least_squares(rows.inputs[1, :5], rows.values[1, :5]))


def test_errors_have_their_known_means():
    """With w, x ~ N(0, I): zero errs by d, and least squares from n > d + 1 examples by noise² d / (n - d - 1), the
    mean of an inverse Wishart's trace (within four standard errors of the sample)."""
    rows = draw_regressions(800, input_size=3, examples=15, noise=0.5)
    found = baselines(rows, 0.5)
    squares = (predict_by(least_squares, rows) - rows.clean)[:, 14] ** 2
    assert found["least squares"]["clean"][14] == pytest.approx(squares.mean())
    error = squares.std() / len(squares) ** 0.5
    assert found["least squares"]["clean"][14] == pytest.approx(0.25 * 3 / (14 - 3 - 1), abs=4 * error)
    assert found["zero"]["clean"][7] == pytest.approx(3, abs=0.6)
    assert found["zero"]["noisy"][7] - found["zero"]["clean"][7] == pytest.approx(0.25, abs=0.25)
    for shots in (1, *range(5, 15)):  # the best predictor there is
        assert found["ridge"]["clean"][shots] < found["least squares"]["clean"][shots] * 1.02
    same = Regressions(rows.inputs, rows.values, rows.clean)
    assert errors_by_examples(rows.clean, same)["clean"] == [0.0] * 15


def test_of_fewer_examples_than_coordinates_least_squares_errs_by_its_known_mean():
    """Of d = 6 coordinates one example leaves five unknown, and noise errs by noise² n / (d - n - 1)."""
    rows = draw_regressions(3000, input_size=6, examples=2, noise=0.5)
    squares = (predict_by(least_squares, rows) - rows.clean)[:, 1] ** 2
    assert baselines(rows, 0.5)["least squares"]["clean"][1] == pytest.approx(squares.mean())
    assert squares.mean() == pytest.approx(5 + 0.25 / 4, abs=4 * squares.std() / len(squares) ** 0.5)


@pytest.mark.parametrize(
    ("size", "noise", "without"), [(3, 0.5, [2, 3, 4]), (2, 0.5, [1, 2, 3]), (1, 0.5, [1, 2]), (3, 0.0, [])]
)
def test_a_mean_that_does_not_exist_is_left_out(size, noise, without):
    """An inverse Wishart matrix of d dimensions has a mean above d + 1 degrees of freedom: n > d + 1, or d > n + 1."""
    errors = baselines(draw_regressions(3, input_size=size, examples=8, noise=noise), noise)
    for kind in ("clean", "noisy"):
        assert [shots for shots, error in enumerate(errors["least squares"][kind]) if error is None] == without
        assert None not in errors["ridge"][kind] + errors["zero"][kind]


def test_the_collator_draws_by_the_recipes_seed_and_the_epoch():
    """Rows of training are those of `draw_regression`, of these numbers; rows of evaluation are the same always."""
    shape = {"input_size": 5, "examples": 12, "noise": 0.5}  # of the recipe
    rows = [{"split": "train", "row": 2}, {"split": "train", "row": 5}, {"split": "test", "row": 2}]
    for seed in (1, 2):
        collator = in_context_regression.RegressionCollator(load_recipe(RECIPE, [f"training.seed={seed}"]))
        for epoch in (0, 3):
            collator.set_epoch(epoch)
            batch = collator(rows)
            numbers = [("train", seed, epoch, 2), ("train", seed, epoch, 5), ("test", 0, 0, 2)]
            for place, expected in enumerate(draw_regression(*one, **shape) for one in numbers):
                for name, wanted in (("inputs", "inputs"), ("values", "values"), ("labels", "values")):
                    assert batch[name].dtype == torch.float32
                    np.testing.assert_array_equal(batch[name][place], getattr(expected, wanted)[0].astype(np.float32))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            ["data.noise=0"],
            "evaluation.metrics: over_least_squares divides by .* is 0 where data.noise is 0: set data.noise above 0",
        ),
        (["model.input_size=1"], "model.input_size: 1 is too small for over_least_squares: .*; at least 2"),
        (
            ["training.train_sampling_strategy=group_by_length"],
            "sampling_strategy: 'group_by_length' needs the rows' lengths, .*: it is 'random' or 'sequential'",
        ),
        (["training.train_sampling_strategy=batch_rebalance"], "'batch_rebalance' needs the rows' lengths"),
        (["data.noise=-1"], "data.noise: -1.0 is not a number of at least 0"),
        (["data.train=10000001"], "data.train: 10000001 rows are too many: at most 10000000"),
        (["data.max_length=9"], "data.max_length: 9 has no effect on in-context-regression, whose rows are made"),
        (
            ["tokenizer.kind=char"],
            "tokenizer.kind: 'char' has no effect on in-context-regression, which reads no text",
        ),
        (
            ["evaluation.samples=3"],
            "evaluation.samples: 3 has no effect on in-context-regression, which writes no text",
        ),
        (["model.start_from=runs/x"], "model.start_from: 'runs/x' has no effect on .* whose model has no tokens"),
        (["model.vocab_size=9"], "model.vocab_size: 9 has no effect on in-context-regression"),
        (["training.label_smoothing_factor=0.1"], "training.label_smoothing_factor: 0.1 has no effect on"),
        (["model.max_position_embeddings=20"], "data.block_size: 12 examples take 24 positions, more than .*, 20"),
        (["training.seed=-1"], r"training.seed: -1 is not between 0 and 2\*\*32 - 1"),
        (["training.data_seed=4294967296"], "training.data_seed: 4294967296 is not between"),
        (["data.block_size=10"], "data.block_size: 10 examples are too few for over_least_squares.*at least 11"),
        (["data.validation=5%"], "data.validation: '5%' is no number of rows"),
        (["model.input_size=0"], "model: .*input_size=0 must be at least 1"),
        (["data.tasks={swapping: 1}"], "data.tasks is for the task in-context, not for in-context-regression"),
    ],
)
def test_recipes_that_cannot_work_are_refused(settings, sentence):
    with pytest.raises(RecipeError, match=sentence):
        load_recipe(RECIPE, settings)


def test_rows_in_context_have_no_lengths_to_sort_by_either():
    with pytest.raises(RecipeError, match="'group_by_length' needs the rows' lengths, and those of in-context are"):
        load_recipe("in-context/mixture-decoder", ["training.train_sampling_strategy=group_by_length"])


@pytest.mark.parametrize(
    "settings", [["data.noise=0", "evaluation.metrics=[]"], ["training.train_sampling_strategy=sequential"]]
)
def test_recipes_beside_those_are_taken(settings):
    load_recipe(RECIPE, settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A whole run, of four steps."""
    folder = tmp_path_factory.mktemp("runs") / "lines"
    train(load_recipe(RECIPE, TINY), folder)
    return folder


def weights_of(folder):
    return load_file(folder / "model.safetensors")


def test_a_run_that_goes_on_ends_in_the_same_weights(run, tmp_path):
    train(load_recipe(RECIPE, [*TINY, "training.max_steps=2"]), tmp_path / "parts", test=False)
    parts = train(load_recipe(RECIPE, TINY), tmp_path / "parts", resume=True)
    measures = json.loads((run / "metrics.json").read_text())["evaluation"]
    assert parts["evaluation"] == measures
    whole, parts = weights_of(run), weights_of(tmp_path / "parts")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    errors = measures["test"]["by_examples"]
    for name, baseline, kind in (
        ("over_least_squares", "least squares", "clean"),
        ("over_least_squares_noisy", "least squares", "noisy"),
        ("over_ridge", "ridge", "clean"),
    ):
        assert measures["test"][name] == errors["model"][kind][10] / errors[baseline][kind][10]


def test_a_run_that_goes_on_meets_the_rows_of_its_epochs(tmp_path, monkeypatch):
    """Seven rows, two at a time, are epochs of four steps: stopped where one ends, and again within the next."""
    drawn = []

    def draw(split, seed, epoch, row, **shape):
        drawn.extend([(epoch, row)] if split == "train" else [])
        return draw_regression(split, seed, epoch, row, **shape)

    monkeypatch.setattr(in_context_regression, "draw_regression", draw)
    few = [*TINY, "data.train=7", "training.eval_strategy=no"]
    train(load_recipe(RECIPE, [*few, "training.max_steps=10"]), tmp_path / "whole", test=False)
    for epoch in (0, 1):
        assert sorted(row for one, row in drawn if one == epoch) == list(range(7))
    assert {epoch for epoch, _ in drawn} == {0, 1, 2}
    for steps in (4, 6, 10):
        recipe = load_recipe(RECIPE, [*few, f"training.max_steps={steps}"])
        train(recipe, tmp_path / "parts", resume=steps > 4, test=False)
    whole, parts = weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_what_a_run_leaves(run):
    assert (run / "regression.png").stat().st_size > 1000
    card = (run / "README.md").read_text()
    assert "test, squared error by the number of examples" in card
    shown = [line.split(" | ") for line in card.split("\n") if line.startswith(("|  | 0 |", "| least squares |"))]
    for header, least in zip(shown[::2], shown[1::2], strict=True):  # of validation and test
        gone = [number for number, error in zip(header, least, strict=True) if error.strip(" |") == "–"]
        assert gone == ["4", "5"]  # and 6, which has no column: d - 1 to d + 1
    assert card.count("– stands at d - 1 to d + 1 examples of d coordinates, from which the error") == 1
    assert "| error over that of ridge, 2d examples |" in card
    recorded = json.loads((run / "metrics.json").read_text())["evaluation"]["test"]["by_examples"]["least squares"]
    assert [shots for shots, error in enumerate(recorded["clean"]) if error is None] == [4, 5, 6]
    assert "| coordinates of a point | 5 |" in card
    assert "It was trained on 12 examples in a row" in card
    assert not {"| vocabulary", "| tokenizer"} & set(card.replace(" |", "\n").split("\n"))  # it has neither


@pytest.mark.parametrize(
    ("task", "measures", "note"),
    [
        ("in-context", {"by_task": {"swapping": [0.0, 1.0]}}, "An answer is right where"),
        ("in-context-regression", {"by_examples": {"model": {"clean": [1.0]}}, "input_size": 1}, "Errors are squared"),
        ("causal-lm", {}, None),
    ],
)
def test_how_it_was_counted_is_told_beside_the_table_alone(tmp_path, task, measures, note):
    """A run with metrics: [perplexity] has no table."""
    without = Records(None, {"evaluation": {"test": {"loss": 1.0}}}, {"task": task}, tmp_path)
    assert (in_context_results(without), in_context_notes(without)) == ("", [])
    records = Records(None, {"evaluation": {"test": {"loss": 1.0} | measures}}, {"task": task}, tmp_path)
    assert bool(in_context_results(records)) == bool(note)
    assert [told.startswith(note) for told in in_context_notes(records)] == ([True] if note else [])


def test_accumulated_gradients_are_those_of_a_larger_batch(tmp_path):
    plain = ["training.optim=sgd", "training.max_steps=2", "training.save_strategy=no", "training.eval_strategy=no"]
    plain += ["training.logging_steps=1", "training.warmup_steps=0", "training.max_grad_norm=0", "data.test=null"]
    ways = {"large": ["per_device_train_batch_size=4"], "small": ["gradient_accumulation_steps=2"]}
    for name, settings in ways.items():
        train(load_recipe(RECIPE, [*TINY, *plain, *(f"training.{one}" for one in settings)]), tmp_path / name)
    large, small = (weights_of(tmp_path / name) for name in ways)
    for name, weight in large.items():
        torch.testing.assert_close(small[name], weight, rtol=1e-5, atol=1e-6)
    losses = [
        [entry["loss"] for entry in json.loads((tmp_path / name / "history.json").read_text()) if "loss" in entry]
        for name in ways
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


# Six rows, four at a time: of the last two, both are the first process's, and the second one has repeats alone.
SIX = [
    *TINY, "data.train=6", "training.max_steps=4", "training.optim=sgd", "training.learning_rate=0.1",
    "training.warmup_steps=0", "training.max_grad_norm=0", "training.logging_steps=1", "training.save_strategy=no",
    "training.eval_strategy=no",
]  # fmt: skip
TWO = """
import json, os, sys
from regard.train.recipe import load_recipe
from regard.train.run import train
from tests.test_in_context_regression import RECIPE, SIX

folder = sys.argv[1]
train(load_recipe(RECIPE, SIX), folder + "/two", test=False)
json.dump(None, open(folder + "/result-" + os.environ["RANK"] + ".json", "w"))
"""


def test_two_processes_train_as_one(tmp_path):
    """Rows that come again to fill up the last batches of an epoch count once. One that counts twice shows by 1e-2."""
    run_on_two(TWO, tmp_path)
    train(load_recipe(RECIPE, [*SIX, "training.per_device_train_batch_size=4"]), tmp_path / "one", test=False)
    one, two = weights_of(tmp_path / "one"), weights_of(tmp_path / "two")
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-5, atol=1e-6)
    losses = [
        [entry["loss"] for entry in json.loads((tmp_path / name / "history.json").read_text()) if "loss" in entry]
        for name in ("one", "two")
    ]
    assert len(losses[0]) == 4
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_what_other_tasks_have_of_a_training_it_has_too(tmp_path):
    """The mean of checkpoints, and the end of a training that brings nothing more."""
    train(load_recipe(RECIPE, [*TINY, "evaluation.average_checkpoints=2"]), tmp_path / "mean")
    two, four = (weights_of(tmp_path / "mean" / f"checkpoint-{step}") for step in (2, 4))
    for name, weight in weights_of(tmp_path / "mean").items():
        torch.testing.assert_close(weight, (two[name] + four[name]) / 2)
    record = json.loads((tmp_path / "mean" / "metrics.json").read_text())["training"]
    assert record["averaged_checkpoints"] == [2, 4]
    worse = ["training.learning_rate=0", "training.early_stopping_patience=1", "training.layer_lr_decay=0.5"]
    metrics = train(load_recipe(RECIPE, [*TINY, *worse, "training.max_steps=8"]), tmp_path / "stopped")
    assert metrics["training"]["steps"] == 4


def test_a_run_is_measured_again(run, monkeypatch):
    records = run / "metrics.json"
    whole = json.loads(records.read_text())
    assert evaluate_run(run, "test", batch_size=3)["test"]["by_examples"]["model"]["clean"] == pytest.approx(
        whole["evaluation"]["test"]["by_examples"]["model"]["clean"]
    )
    records.write_text(json.dumps(whole | {"evaluation": {}}))
    assert evaluate_run(run) == whole["evaluation"]
    assert json.loads(records.read_text()) == whole  # brought up to date
    drawn = []
    monkeypatch.setattr(in_context_regression, "MEASURED_ROWS", 3)
    draw = lambda rows, *words, **shape: drawn.append(rows) or draw_regressions(rows, *words, **shape)  # noqa: E731
    monkeypatch.setattr(in_context_regression, "draw_regressions", draw)
    evaluate_run(run, "train")
    assert drawn == [3]  # of a million
    with pytest.raises(ValueError, match="num_beams=3 has no effect on in-context-regression, which writes no text"):
        evaluate_run(run, num_beams=3)
    with pytest.raises(ValueError, match="gives no labels that could be wrong"):
        evaluate_run(run, errors=3)


def test_the_line_of_least_squares_is_broken_where_it_has_no_mean(run, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(regression_picture, "save_figure", lambda figure, path: drawn.append(figure))
    measures = json.loads((run / "metrics.json").read_text())["evaluation"]["test"]
    regression_picture.plot_regression(measures, tmp_path / "x.png")
    axes = drawn[0].axes[0]
    line = axes.lines[list(regression_picture.LINES).index("least squares")].get_ydata()
    assert np.flatnonzero(np.isnan(line)).tolist() == [4, 5, 6]
    assert "least squares, no mean at 4 to 6" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_it_is_said_to_read_no_text(run):
    with pytest.raises(ValueError, match="reads points and the values of a function there, no text, and has no token"):
        load_run(run)
    with pytest.raises(ValueError, match="few-shot prompting takes a causal language model"):
        run_few_shot(str(run), "swapping")


def test_a_folder_without_weights_is_named(run, tmp_path):
    for name in ("config.json", "recipe.yaml"):
        shutil.copy(run / name, tmp_path)
    with pytest.raises(ValueError, match="cannot be loaded: .*no file named model.safetensors"):
        evaluate_run(tmp_path)


def test_it_is_checked_and_published_without_a_tokenizer(run, tmp_path, monkeypatch):
    """By the real client, once checked in a process that cannot import regard; and by the training itself."""
    with HubServer(tmp_path / "hub") as hub:
        hub.online(monkeypatch, hub.token("ada"))
        result = publish(run, "lines")
        files = hub.files("ada/lines")
        assert result.commit is not None
        assert {"model.safetensors", "modeling_in_context_regression.py", "regression.png"} <= set(files)
        assert not [name for name in files if "token" in name]
        assert b"AutoModel.from_pretrained(path, revision=revision, trust_remote_code=True)" in files["README.md"]
        settings = ["training.push_to_hub=true", "training.hub_model_id=ada/pushed", "training.max_steps=2"]
        train(load_recipe(RECIPE, [*TINY, *settings]), tmp_path / "pushed")
        pushed = hub.files("ada/pushed")
        assert pushed["model.safetensors"] == (tmp_path / "pushed" / "model.safetensors").read_bytes()
        assert "metrics.json" in pushed
