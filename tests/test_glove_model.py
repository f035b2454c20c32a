"""GloVe as a model: the loss against the formula, gradients, saving, training."""

import math
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModel, Trainer, TrainingArguments

from regard.modeling import GloVeConfig, GloVeModel, load_word_vectors

from .test_remote_code import FOLDER, load_elsewhere

WORDS = ["the", "日本", "naïve", "cat", "dog", "fish"]
COUNTS = [50, 20, 9, 9, 6, 3]
ROWS, COLUMNS = torch.tensor([0, 3, 5, 3]), torch.tensor([1, 0, 2, 4])
PAIRS = torch.tensor([250.0, 100.0, 3.5, 0.2])


def model_of(**settings) -> GloVeModel:
    torch.manual_seed(0)
    model = GloVeModel.from_vocabulary(WORDS, COUNTS, hidden_size=4, **settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model


@torch.no_grad()
@pytest.mark.parametrize("settings", [{}, {"x_max": 10.0, "alpha": 0.5}], ids=str)
def test_loss_is_equation_8(settings):
    """f(X)·(w_i·w~_j + b_i + b~_j - log X)², f(X) = min(1, (X/x_max)^α), written out (Pennington et al., 2014)."""
    model = model_of(**settings)
    x_max, alpha = settings.get("x_max", 100.0), settings.get("alpha", 0.75)
    total = 0.0
    for row, column, count in zip(ROWS.tolist(), COLUMNS.tolist(), PAIRS.tolist(), strict=True):
        score = float(model.in_embeddings.weight[row] @ model.out_embeddings.weight[column])
        score += float(model.in_bias.weight[row]) + float(model.out_bias.weight[column])
        total += min(1.0, (count / x_max) ** alpha) * (score - math.log(count)) ** 2
    assert model(ROWS, COLUMNS, PAIRS).loss.item() == pytest.approx(total / 4, rel=1e-5)
    parts = [
        model(ROWS[part], COLUMNS[part], PAIRS[part], num_items_in_batch=4).loss for part in (slice(1), slice(1, 4))
    ]
    assert sum(parts).item() == pytest.approx(total / 4, rel=1e-5)


def test_gradients_against_finite_differences():
    model = model_of().double()
    names = [name for name, _ in model.named_parameters()]

    def loss(*tables: torch.Tensor) -> torch.Tensor:
        tables = dict(zip(names, tables, strict=True))
        return torch.func.functional_call(model, tables, (ROWS, COLUMNS, PAIRS)).loss

    assert torch.autograd.gradcheck(loss, tuple(model.parameters()))


@pytest.mark.parametrize("count", [0.0, -1.0, math.nan])
def test_pairs_that_never_occur_add_nothing(count):
    model, counts = model_of(), PAIRS.clone()
    counts[1] = count
    rest = [0, 2, 3]
    torch.testing.assert_close(model(ROWS, COLUMNS, counts).loss, model(ROWS[rest], COLUMNS[rest], PAIRS[rest]).loss)
    loss = model(ROWS, COLUMNS, torch.full((4,), count)).loss
    loss.backward()
    assert loss == 0
    assert not any(parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_loses_digits_alone(dtype):
    model = model_of().to(dtype)
    loss = model(ROWS, COLUMNS, PAIRS).loss
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, model_of()(ROWS, COLUMNS, PAIRS).loss, rtol=0.05, atol=0)
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_what_is_returned_on_request():
    loss, vectors = model_of()(ROWS, COLUMNS, PAIRS, return_dict=False)
    assert (loss.shape, vectors.shape) == ((), (4, 4))
    assert model_of()(ROWS, COLUMNS, PAIRS, return_loss=False).loss is None


def test_vectors_are_the_sum_of_both_tables():
    model = model_of()
    expected = (model.in_embeddings.weight + model.out_embeddings.weight).detach().numpy()
    np.testing.assert_array_equal(model.vectors, expected)
    np.testing.assert_array_equal(model["cat"], expected[3])
    np.testing.assert_array_equal(model(ROWS).last_hidden_state.detach().numpy(), expected[ROWS])
    cosine = expected[3] @ expected[4] / np.linalg.norm(expected[3]) / np.linalg.norm(expected[4])
    assert model.similarity("cat", "dog") == pytest.approx(cosine, abs=1e-6)
    with torch.no_grad():
        model.out_embeddings.weight[4] = 2 * model.in_embeddings.weight[3] + 2 * model.out_embeddings.weight[3]
        model.in_embeddings.weight[4] = 0
    assert model.most_similar("cat", topn=1)[0] == ("dog", pytest.approx(1))


def test_initial_values():
    model = GloVeModel.from_vocabulary([f"w{i}" for i in range(300)], [1] * 300, hidden_size=20)
    for table in model.parameters():
        assert table.abs().max() <= 0.5 / 20
        assert table.std().item() == pytest.approx(1 / 20 / math.sqrt(12), rel=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_round_trip(dtype, tmp_path):
    model = model_of()
    model.save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path, dtype=dtype)
    assert type(loaded) is GloVeModel
    assert loaded.index_to_key == WORDS
    assert loaded.counts.tolist() == COUNTS
    for name, tensor in model.state_dict().items():
        expected = tensor.to(dtype) if tensor.is_floating_point() else tensor
        assert torch.equal(loaded.state_dict()[name], expected), name
    vectors = load_word_vectors(tmp_path)
    assert vectors.index_to_key == WORDS
    np.testing.assert_array_equal(vectors.vectors, model.vectors)
    np.testing.assert_array_equal(loaded["cat"], loaded.vectors[3])
    assert loaded.most_similar("cat", restrict_vocab=3, topn=None).shape == (3,)


def test_it_loads_where_regard_is_not_installed(tmp_path):
    model, folder = model_of(), tmp_path / "moved" / FOLDER
    model.save_pretrained(tmp_path / "saved")
    shutil.move(tmp_path / "saved", folder)
    torch.save({"rows": ROWS}, tmp_path / "inputs.pt")
    job = {"auto_class": "AutoModel", "path": str(folder), "cwd": str(tmp_path), "inputs": str(tmp_path / "inputs.pt")}
    job |= {"result": str(tmp_path / "result.pt"), "generate": False, "again": str(tmp_path / "again"), "word": "cat"}
    (said,) = load_elsewhere([job], tmp_path)
    assert (said["class"], said["module"]) == ("GloVeModel", "transformers_modules")
    assert said["missing"] == said["unexpected"] == []
    assert said["most_similar"] == [list(pair) for pair in model.most_similar("cat")]
    result = torch.load(job["result"], weights_only=True)
    for name, tensor in model.state_dict().items():
        assert torch.equal(result["state"][name], tensor), name
    assert GloVeModel.from_pretrained(job["again"]).index_to_key == WORDS


def test_new_words():
    model = model_of()
    before = model.vectors.copy()
    assert model.extend_vocabulary(["bird", "cat"], [2, 1]) == ["bird"]
    np.testing.assert_array_equal(model.vectors[: len(WORDS)], before)
    assert {len(table) for table in model.parameters()} == {len(WORDS) + 1}
    assert model.counts.tolist() == [50, 20, 9, 10, 6, 3, 2]
    assert "bird" in model


def test_trainer_lowers_the_loss(tmp_path):
    torch.manual_seed(0)
    model = GloVeModel.from_vocabulary(WORDS, COUNTS, hidden_size=8)
    pairs = [(row, column, 40.0 if row // 2 == column // 2 else 2.0) for row in range(6) for column in range(6)]
    data = [{"rows": row, "columns": column, "counts": count} for row, column, count in pairs]
    arguments = TrainingArguments(
        str(tmp_path), num_train_epochs=40, per_device_train_batch_size=12, learning_rate=0.05, logging_steps=10,
        save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True, lr_scheduler_type="constant",
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < 0.1 * losses[0]
    assert model.most_similar("cat", topn=1)[0][0] == "naïve"  # rows 2 and 3 belong together


def test_bad_calls_and_fields_are_named():
    with pytest.raises(ValueError, match="columns and counts together"):
        model_of()(ROWS, COLUMNS)
    for field in ("x_max", "alpha"):
        for value in (0, math.inf, math.nan):
            with pytest.raises(ValueError, match=f"{field}={value} must be above 0, and finite"):
                GloVeConfig(**{field: value})
