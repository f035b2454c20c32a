"""The deep averaging network, beyond the contract that it shares with the other models (tests/families.py)."""

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import Trainer, TrainingArguments

from regard.modeling import DANConfig, DANForSequenceClassification, load_word_vectors
from regard.modeling.modeling_dan import drop_words
from regard.train.recipe import load_recipe
from regard.train.run import train


def dan(**settings) -> DANForSequenceClassification:
    torch.manual_seed(0)
    settings = {"vocab_size": 30, "hidden_size": 6, "intermediate_size": 8, "num_labels": 3} | settings
    return DANForSequenceClassification(DANConfig(**settings)).eval()


def test_logits_are_those_of_the_paper_by_hand():
    """Equations 1 to 3: the mean, then g(W z + b) layer by layer, then the classifier."""
    model = dan(num_hidden_layers=2)
    ids = torch.tensor([4, 9, 9, 21])
    z = model.embeddings.embed_tokens.weight[ids].sum(0) / 4
    for layer in model.layers:
        z = torch.relu(layer.dense.weight @ z + layer.dense.bias)
    expected = model.classifier.weight @ z + model.classifier.bias
    torch.testing.assert_close(model(ids[None]).logits[0], expected)


def test_the_order_of_words_changes_nothing():
    model = dan()
    torch.testing.assert_close(model(torch.tensor([[3, 7, 8]])).logits, model(torch.tensor([[8, 3, 7]])).logits)


@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_nothing(layers, side):
    model = dan(num_hidden_layers=layers)
    rows = [torch.tensor([3, 7, 8, 9, 4]), torch.tensor([12, 5]), torch.tensor([], dtype=torch.long)]
    ids, mask = torch.zeros(3, 8, dtype=torch.long), torch.zeros(3, 8)
    for number, row in enumerate(rows):
        where = slice(0, len(row)) if side == "right" else slice(8 - len(row), 8)
        ids[number, where], mask[number, where] = row, 1
    logits = model(ids, attention_mask=mask).logits
    for number, row in enumerate(rows):  # a text without words is the mean of none: zero
        torch.testing.assert_close(logits[number], model(row[None]).logits[0])
    assert logits.isfinite().all()


def test_words_are_dropped_whole_as_often_as_said_and_never_all():
    torch.manual_seed(0)
    real = torch.ones(4000, 20, dtype=torch.bool)
    real[:, 15:] = False
    kept = drop_words(real, 0.3)
    assert not kept[:, 15:].any()
    share, number = kept[:, :15].float().mean().item(), 4000 * 15
    assert share == pytest.approx(0.7, abs=5 * (0.21 / number) ** 0.5)
    one = drop_words(torch.tensor([[True, False]]).expand(500, 2), 0.9)
    assert one[:, 0].all()
    pair = drop_words(torch.ones(2000, 2, dtype=torch.bool), 0.99)
    assert pair.any(-1).all()
    assert pair.float().mean(0).sub(0.5).abs().max() < 0.06  # the one that stays is drawn, not always the first
    assert not drop_words(torch.zeros(2, 3, dtype=torch.bool), 0.5).any()


def test_the_mean_is_over_the_words_that_stay():
    """Texts of one word have the same mean however many of its copies are dropped; evaluation drops none."""
    model = dan(word_dropout=0.5).train()
    ids = torch.tensor([[7] * 9])
    torch.testing.assert_close(model(ids).logits, model.eval()(ids).logits)
    mixed = torch.tensor([[3, 4, 5, 6, 7, 8]])
    model.train()
    assert any(not torch.equal(model(mixed).logits, model(mixed).logits) for _ in range(5))
    model.eval()
    assert torch.equal(model(mixed).logits, model(mixed).logits)


def test_frozen_vectors_stay_and_the_rest_learns(tmp_path):
    dan(freeze_embeddings=True).save_pretrained(tmp_path)
    model = DANForSequenceClassification.from_pretrained(tmp_path).train()
    table = model.get_input_embeddings().weight
    assert not table.requires_grad
    before = table.clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    ids, labels = torch.tensor([[3, 4], [5, 6]]), torch.tensor([0, 2])
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = model(ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert torch.equal(table, before)
    assert dan().get_input_embeddings().weight.requires_grad


def test_frozen_vectors_stay_frozen_when_the_table_is_another():
    model = dan(freeze_embeddings=True).train()
    model.resize_token_embeddings(37)
    assert not model.get_input_embeddings().weight.requires_grad
    model.set_input_embeddings(nn.Embedding(37, 6))
    assert not model.get_input_embeddings().weight.requires_grad
    model = dan()
    model.set_input_embeddings(nn.Embedding(30, 6))
    assert model.get_input_embeddings().weight.requires_grad


def test_it_has_no_word_vectors_to_load(tmp_path):
    dan().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds a model of type 'regard-dan', which is no table of words and vectors"):
        load_word_vectors(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "something else"}')
    with pytest.raises(ValueError, match="a model of type 'something else', which is no table"):
        load_word_vectors(tmp_path)


def test_it_trains_with_trainer(tmp_path):
    generator = torch.Generator().manual_seed(0)
    rows = []
    for number in range(64):  # the label is the third of the vocabulary that the words come from
        label = number % 3
        ids = torch.randint(3 + 9 * label, 3 + 9 * (label + 1), (5,), generator=generator)
        rows.append({"input_ids": ids, "attention_mask": torch.ones(5), "labels": label})
    model = dan(word_dropout=0.2)
    arguments = TrainingArguments(
        str(tmp_path), num_train_epochs=12, learning_rate=0.02, report_to="none", save_strategy="no", use_cpu=True,
        disable_tqdm=True,
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=rows).train()
    model.eval()
    said = model(torch.stack([row["input_ids"] for row in rows])).logits.argmax(-1)
    assert said.tolist() == [row["labels"] for row in rows]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocab_size", 0),
        ("hidden_size", 0),
        ("intermediate_size", 0),
        ("num_hidden_layers", -1),
        ("word_dropout", 1.0),
        ("dropout", -0.1),
        ("initializer_range", -1.0),
        ("hidden_act", "rellu"),
        ("pad_token_id", 32000),
        ("freeze_embeddings", "yes"),
    ],
)
def test_a_bad_value_is_named(field, value):
    with pytest.raises((ValueError, StrictDataclassError), match=field):
        DANConfig(**{field: value})


def test_every_field_survives(tmp_path):
    settings = {
        "vocab_size": 77, "hidden_size": 5, "intermediate_size": 6, "num_hidden_layers": 0, "hidden_act": "gelu",
        "word_dropout": 0.1, "dropout": 0.2, "freeze_embeddings": True, "initializer_range": 0.3, "pad_token_id": None,
        "bos_token_id": 4, "eos_token_id": [5, 6], "num_labels": 4,
    }  # fmt: skip
    DANConfig(**settings).save_pretrained(tmp_path)
    again = DANConfig.from_pretrained(tmp_path)
    assert {name: getattr(again, name) for name in settings} == settings


def test_linear_layers_are_not_shared_or_lost():
    assert sum(isinstance(module, nn.Linear) for module in dan(num_hidden_layers=3).modules()) == 4
    assert sum(isinstance(module, nn.Linear) for module in dan(num_hidden_layers=0).modules()) == 1


def test_the_recipe_trains(tmp_path):
    """Kind and unkind words; the tokenizer puts no marks around a text, whose mean is of its words alone."""
    lines = ["good fine film\t1", "bad dull film\t0", "a good one\t1", "a dull bad one\t0"] * 12
    file = tmp_path / "train.tsv"
    file.write_text("sentence\tlabel\n" + "\n".join(lines) + "\n", encoding="utf-8")
    recipe = load_recipe(
        "classification/sst2-dan",
        [f"data.train={file}", f"data.validation={file}", "model.hidden_size=8", "training.num_train_epochs=8",
         "training.learning_rate=0.02", "tokenizer.vocab_size=20", "training.report_to=none"],
    )  # fmt: skip
    metrics = train(recipe, str(tmp_path / "run"))
    assert metrics["evaluation"]["validation"]["accuracy"] == 1.0
    assert metrics["model"]["class"] == "DANForSequenceClassification"
    from regard.evaluation.generation import load_run

    model, tokenizer = load_run(tmp_path / "run")
    assert len(tokenizer("good film").input_ids) == 2
    assert model.config.id2label == {0: "0", 1: "1"}
