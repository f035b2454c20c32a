"""In-context regression: the model of Garg et al. (2022), its data, and the predictors that it is compared with."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

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
from regard.modeling import InContextRegressionConfig, TransformerDecoderForInContextRegression
from regard.train.evaluate import evaluate_run
from regard.train.recipe import load_recipe
from regard.train.run import train
from regard.train.sections import RecipeError

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
    with pytest.raises(ValueError, match="values are 5 a row, and inputs 8: as many, or one fewer"):
        model(batch["inputs"], batch["values"][:, :5])
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
    for shots in range(1, 15):  # the best predictor there is
        assert found["ridge"]["clean"][shots] < found["least squares"]["clean"][shots] * 1.02
    same = Regressions(rows.inputs, rows.values, rows.clean)
    assert errors_by_examples(rows.clean, same)["clean"] == [0.0] * 15


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["data.noise=-1"], "data.noise: -1.0 is not a number of at least 0"),
        (["data.block_size=10"], "data.block_size: 10 examples are too few for over_least_squares.*at least 11"),
        (["data.validation=5%"], "data.validation: '5%' is no number of rows"),
        (["model.input_size=0"], "model: .*input_size=0 must be at least 1"),
        (["data.tasks={swapping: 1}"], "data.tasks is for the task in-context, not for in-context-regression"),
    ],
)
def test_recipes_that_cannot_work_are_refused(settings, sentence):
    with pytest.raises(RecipeError, match=sentence):
        load_recipe(RECIPE, settings)


def test_a_run_that_goes_on_ends_in_the_same_weights(tmp_path):
    def recipe(steps):
        return load_recipe(RECIPE, [*TINY, f"training.max_steps={steps}"])

    whole = train(recipe(4), tmp_path / "whole")
    train(recipe(2), tmp_path / "parts", test=False)
    parts = train(recipe(4), tmp_path / "parts", resume=True)
    assert whole["evaluation"] == parts["evaluation"]
    assert evaluate_run(tmp_path / "whole", "test")["test"] == whole["evaluation"]["test"]
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    measures = json.loads((tmp_path / "whole" / "metrics.json").read_text())["evaluation"]["test"]
    errors = measures["by_examples"]
    assert measures["over_least_squares"] == errors["model"]["clean"][10] / errors["least squares"]["clean"][10]
    assert (tmp_path / "whole" / "regression.png").stat().st_size > 1000
    card = (tmp_path / "whole" / "README.md").read_text()
    assert "test, squared error by the number of examples" in card
