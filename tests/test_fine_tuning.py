"""A frozen backbone, rates by layer, weights of classes, early stopping and LoRA."""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import types
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from sklearn.utils.class_weight import compute_class_weight
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

import regard.modeling as modeling
from regard.train import checkpoints, lora
from regard.train import run as run_module
from regard.train.building import check_launch, training_arguments
from regard.train.collators import ClassificationCollator
from regard.train.fine_tuning import StopWithoutProgress, WeightedCrossEntropy, class_weights, depth
from regard.train.muon import build_muon
from regard.train.recipe import load_recipe
from regard.train.run import train
from regard.train.tokenization import train_tokenizer
from regard.train.trainer import RegardTrainer

from .test_trainer import SIZES, TrainingArguments, texts

needs_peft = pytest.mark.skipif(find_spec("peft") is None, reason="peft is not installed")
ENCODER = SIZES | {"num_hidden_layers": 2, "norm_position": "pre", "num_labels": 3}


def classifier(**settings):
    torch.manual_seed(0)
    return modeling.TransformerEncoderForSequenceClassification(
        modeling.TransformerEncoderConfig(**ENCODER | settings)
    )


def labelled(number=8):
    return texts(number).map(lambda row, i: {"labels": i % 3}, with_indices=True)


def trainer_for(tmp_path, model, data, evaluation=None, collator=None, args=None, **more):
    settings = {
        "report_to": "none", "use_cpu": True, "save_strategy": "no", "remove_unused_columns": False,
        "logging_steps": 1, "max_grad_norm": 0, "lr_scheduler_type": "constant", "learning_rate": 0.1,
        "train_sampling_strategy": "sequential",
    }  # fmt: skip
    arguments = TrainingArguments(str(tmp_path), **settings | (args or {}))
    return RegardTrainer(
        model, arguments, collator or ClassificationCollator(0), train_dataset=data, eval_dataset=evaluation, **more
    )


def losses(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


# --- a frozen backbone -----------------------------------------------------------------------------------------------


def test_a_frozen_backbone_stays_bit_by_bit_and_drops_nothing(tmp_path):
    """At dropout 0.5 the loss of the first step is that of the evaluation, but for the head, which has none here."""
    model = classifier(dropout=0.5, classifier_dropout=0.0)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trainer = trainer_for(
        tmp_path, model, labelled(), labelled(), frozen_backbone=True,
        args={"per_device_train_batch_size": 8, "max_steps": 3},
    )  # fmt: skip
    plain = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert losses(trainer)[0] == pytest.approx(plain, rel=1e-6)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith("model."), name
    assert losses(trainer)[-1] < losses(trainer)[0]


def test_a_frozen_backbone_keeps_nothing_for_gradients(tmp_path):
    """What autograd keeps of a forward pass does not grow with the number of layers."""

    def kept(layers, frozen):
        model = classifier(num_hidden_layers=layers)
        trainer = trainer_for(tmp_path, model, labelled(), frozen_backbone=frozen)
        saved = []
        batch = ClassificationCollator(0)(list(labelled()))
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
            trainer.compute_loss(model, batch)
        return sum(saved)

    assert kept(1, True) == kept(4, True) < kept(1, False) < kept(4, False)


def test_there_must_be_something_to_train(tmp_path):
    model = modeling.TransformerDecoderForCausalLM(modeling.TransformerDecoderConfig(**SIZES, num_hidden_layers=1))
    with pytest.raises(ValueError, match="nothing would be trained"):
        trainer_for(tmp_path, model, texts(2), frozen_backbone=True)


# --- rates by layer --------------------------------------------------------------------------------------------------


def test_depths_are_counted_from_the_head():
    """By hand: L is 2 layers for an encoder, and 1 + 2 for an encoder-decoder."""
    encoder = classifier(embedding_norm=True, position_embedding_type="learned")
    found = {name: depth(name, encoder) for name, _ in encoder.named_parameters()}
    for name, level in found.items():
        expected = 0 if name.startswith("classifier.") else 3 if "embeddings." in name else None
        expected = {"layers.0.": 2, "layers.1.": 1}.get(name[6:15], 1 if expected is None else expected)
        assert level == expected, name
    assert found["model.norm.weight"] == 1
    both = modeling.TransformerForConditionalGeneration(
        modeling.TransformerConfig(
            **SIZES, encoder_layers=1, decoder_layers=2, norm_position="pre", cross_attention_key_value="shared",
            tie_word_embeddings=False,
        )
    )  # fmt: skip
    names = dict(both.named_parameters())
    by_part = {
        "lm_head.": 0, "model.decoder.layers.1.": 1, "model.decoder.norm.": 1, "model.decoder.layers.0.": 2,
        "model.decoder.cross_kv_proj.": 2, "model.encoder.layers.0.": 3, "model.encoder.norm.": 3,
        "model.encoder.embeddings.": 4, "model.decoder.embeddings.": 4,
    }  # fmt: skip
    for name in names:
        assert depth(name, both) == next(level for part, level in by_part.items() if name.startswith(part)), name
    dan = modeling.DANForSequenceClassification(modeling.DANConfig(vocab_size=9, hidden_size=4, intermediate_size=4))
    layers = dan.config.num_hidden_layers
    assert depth("embeddings.embed_tokens.weight", dan) == layers + 1
    assert [depth(f"layers.{i}.dense.weight", dan) for i in (0, layers - 1)] == [layers, 1]
    assert depth("classifier.weight", dan) == 0


@pytest.mark.parametrize("muon", [False, True])
def test_each_layer_moves_at_its_own_rate(tmp_path, muon):
    """Without weight decay a first step of AdamW, and of Muon, is proportional to the rate: d^k of the whole one."""
    moved = []
    for decay in (None, 0.5):
        model = classifier()
        before = {name: tensor.clone() for name, tensor in model.named_parameters()}
        trainer = trainer_for(
            tmp_path, model, labelled(), layer_lr_decay=decay,
            args={"per_device_train_batch_size": 8, "max_steps": 1, "learning_rate": 0.01},
        )  # fmt: skip
        if muon:
            trainer.optimizer_cls_and_kwargs = (
                lambda: build_muon,
                {"args": trainer.args, "momentum": 0.9, "matrix_learning_rate": 0.02},
            )
        trainer.train()
        assert trainer.state.log_history[0]["learning_rate"] == (0.02 if muon and decay is None else 0.01)
        moved.append({name: tensor.detach() - before[name] for name, tensor in model.named_parameters()})
    for name, change in moved[0].items():
        assert change.abs().max() > 0
        torch.testing.assert_close(moved[1][name], change * 0.5 ** depth(name, model), rtol=1e-3, atol=2e-8)


# --- weights of classes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "steps"), [(8, 1), (2, 4)])
def test_class_weights_are_those_of_one_batch(tmp_path, size, steps):
    """torch's own weighted cross-entropy on all examples together: the loss, and each weight after a step of SGD."""
    weights, model = torch.tensor([1.0, 5.0, 0.25]), classifier()
    batch = ClassificationCollator(0)(list(labelled()))
    reference = classifier()
    loss = cross_entropy(reference(**batch).logits, batch["labels"], weight=weights)
    loss.backward()
    trainer = trainer_for(
        tmp_path, model, labelled(), labelled(), compute_loss_func=WeightedCrossEntropy(weights),
        args={
            "per_device_train_batch_size": size, "gradient_accumulation_steps": steps, "max_steps": 1, "optim": "sgd",
        },
    )  # fmt: skip
    evaluated = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert losses(trainer)[0] == pytest.approx(loss.item(), rel=1e-5)
    assert evaluated == pytest.approx(cross_entropy(reference(**batch).logits, batch["labels"]).item(), rel=1e-5)
    for (name, parameter), (_, other) in zip(model.named_parameters(), reference.named_parameters(), strict=True):
        torch.testing.assert_close(parameter, other - 0.1 * other.grad, rtol=1e-4, atol=1e-6, msg=name)


def test_weighted_loss_of_tags():
    """Of each token that has a tag; a batch without any adds nothing, and its gradient is 0."""
    loss = WeightedCrossEntropy(torch.tensor([1.0, 3.0]))
    logits = torch.randn(2, 4, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.tensor([[0, 1, -100, 1], [-100, -100, 0, -100]])
    expected = cross_entropy(logits.flatten(0, 1), labels.flatten(), weight=loss.weights)
    torch.testing.assert_close(loss({"logits": logits}, labels), expected)
    nothing = loss({"logits": logits}, torch.full_like(labels, -100))
    nothing.backward()
    assert nothing.item() == 0
    assert not logits.grad.any()


def test_balanced_weights_are_scikit_learns():
    counted = [0] * 5 + [2] * 3 + [3]
    expected = compute_class_weight("balanced", classes=np.array([0, 2, 3]), y=counted)
    found = class_weights("balanced", list("abcd"), Dataset.from_dict({"labels": counted}))
    assert found.tolist() == pytest.approx([expected[0], 1.0, expected[1], expected[2]])
    tags = Dataset.from_dict({"labels": [[-100, 0, 0, 0], [0, 2, 2, 0, 2, -100], [3]]})
    assert class_weights("balanced", list("abcd"), tags).tolist() == pytest.approx(found.tolist())
    assert class_weights({"b": 3.0}, list("ab"), None).tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match=r"'posi' is no label of data\.train: did you mean 'pos'"):
        class_weights({"posi": 3.0}, ["neg", "pos"], None)


# --- early stopping --------------------------------------------------------------------------------------------------

ACCURACIES = [0.5, 0.7, 0.6, 0.7, 0.9, 0.9]  # after each epoch; what only equals the best is no progress


def early(tmp_path, patience, resume=False, stop_after=None):
    """A training that is told how good it is; perhaps stopped after the checkpoint of an epoch."""

    def measured(prediction):
        return {"accuracy": ACCURACIES[trainer.state.global_step // 2 - 1]}

    trainer = trainer_for(
        tmp_path, classifier(), labelled(), labelled(4), compute_metrics=measured,
        callbacks=[StopWithoutProgress(patience)],
        args={
            "num_train_epochs": 6, "per_device_train_batch_size": 4, "eval_strategy": "epoch",
            "save_strategy": "epoch", "load_best_model_at_end": True, "metric_for_best_model": "accuracy",
            "save_total_limit": 2,
        },
    )  # fmt: skip
    original = trainer._save_checkpoint

    def save(*args):
        original(*args)
        if trainer.state.global_step == 2 * (stop_after or 0):
            raise KeyboardInterrupt

    trainer._save_checkpoint = save
    if stop_after:
        with pytest.raises(KeyboardInterrupt):
            trainer.train(resume_from_checkpoint=resume or None)
    else:
        trainer.train(resume_from_checkpoint=resume or None)
    return trainer


@pytest.mark.parametrize(("patience", "stops", "best"), [(2, 4, 2), (1, 3, 2), (3, 6, 5)])
def test_early_stopping_stops_when_it_should_and_keeps_the_best(tmp_path, capsys, patience, stops, best):
    trainer = early(tmp_path, patience)
    assert trainer.state.global_step == 2 * stops
    if stops < 6:  # before its end, which it then tells
        assert f"stops at step {2 * stops}: accuracy was no better in " in capsys.readouterr().err
    kept = load_file(tmp_path / f"checkpoint-{2 * best}" / "model.safetensors")
    for name, tensor in trainer.model.state_dict().items():
        assert torch.equal(tensor, kept[name]), name


@pytest.mark.parametrize(("name", "more_is_better"), [("loss", False), ("eval_perplexity", False), ("f1", True)])
def test_progress_is_what_the_measure_says(name, more_is_better):
    """By hand: the best of these is the third; the two after it are more than it, or less. Step 0 is no training."""
    values = [9.0, 3.0, 2.0, 1.0, 2.5, 1.0]  # the first is measured before the first step
    values = [-value for value in values] if more_is_better else values
    key = f"eval_{name.removeprefix('eval_')}"
    log = [{"step": step, key: value} for step, value in enumerate(values)]
    args = types.SimpleNamespace(metric_for_best_model=name, greater_is_better=more_is_better, process_index=0)
    for patience, stops in ((1, True), (2, True), (3, False)):
        control = types.SimpleNamespace(should_training_stop=False)
        state = types.SimpleNamespace(log_history=log, global_step=5)
        StopWithoutProgress(patience).on_evaluate(args, state, control)
        assert control.should_training_stop == stops


def test_a_resumed_run_stops_where_the_whole_one_does(tmp_path):
    """Stopped while its patience was running out, and again when it had run out; its folder was moved meanwhile."""
    early(tmp_path / "here", 2, stop_after=3)
    (tmp_path / "here").rename(tmp_path / "there")
    trainer = early(tmp_path / "there", 2, resume=True, stop_after=4)
    assert trainer.state.global_step == 8
    (tmp_path / "there").rename(tmp_path / "elsewhere")
    trainer = early(tmp_path / "elsewhere", 2, resume=True)
    assert trainer.state.global_step == 8
    kept = load_file(tmp_path / "elsewhere" / "checkpoint-4" / "model.safetensors")
    assert all(torch.equal(tensor, kept[name]) for name, tensor in trainer.model.state_dict().items())


# --- recipes ---------------------------------------------------------------------------------------------------------

WORDS = list("abcdefghijkl")
SHAPE = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "num_hidden_layers": 2}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts, a third of them with the rarer label, and a masked and a causal model to begin from."""
    folder = tmp_path_factory.mktemp("tuning")
    rng = random.Random(0)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(1, 7))) for _ in range(41)]
    rows = [json.dumps({"text": line, "label": "has a" if "a" in line else "none"}) for line in lines]
    (folder / "train.jsonl").write_text("\n".join(rows[:30]) + "\n")
    (folder / "valid.jsonl").write_text("\n".join(rows[30:]) + "\n")
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    tokenizer = train_tokenizer(lines, "word", 60, min_frequency=1)
    torch.manual_seed(1)
    sizes = {"vocab_size": len(tokenizer), **SHAPE, "dropout": 0.0}
    masked = modeling.TransformerEncoderForMaskedLM(modeling.TransformerEncoderConfig(**sizes))
    causal = modeling.TransformerDecoderForCausalLM(modeling.TransformerDecoderConfig(**sizes))
    for name, model in {"masked": masked, "causal": causal}.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def recipe_file(files, task="sequence-classification"):
    kind, start, suffix = ("decoder", "causal", "txt") if task == "causal-lm" else ("encoder", "masked", "jsonl")
    values = {
        "name": "tiny",
        "task": task,
        "model": {"type": kind, "start_from": str(files / start)},
        "data": {"train": str(files / f"train.{suffix}"), "max_length": 16, "block_size": 16},
        "training": {
            "num_train_epochs": 2, "learning_rate": 0.05, "logging_steps": 1, "per_device_train_batch_size": 8,
            "report_to": "none", "save_strategy": "epoch",
        },
        "evaluation": {"samples": 0, "max_new_tokens": 4},
    }  # fmt: skip
    if suffix == "jsonl":
        values["data"]["validation"] = str(files / "valid.jsonl")
        values["evaluation"]["metrics"] = ["accuracy"]
    path = files / f"{task}.yaml"
    path.write_text(json.dumps(values))  # JSON is YAML
    return path


SCRATCH = "model.start_from=null"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["training.freeze_backbone=yes please"], "is not true or false"),
        (["training.freeze_backbone=true", SCRATCH], r"name them in model\.start_from"),
        (["training.freeze_backbone=true", "training.layer_lr_decay=0.9"], "exclude each other"),
        (["training.freeze_backbone=true", "training.lora={}"], "exclude each other"),
        (["training.layer_lr_decay=1.1"], "not a number above 0 and at most 1"),
        (["training.layer_lr_decay=0"], "not a number above 0 and at most 1"),
        (["training.lora={}", SCRATCH], r"name them in model\.start_from"),
        (["training.lora.rank=4"], r"no key 'training\.lora\.rank': it is 'r'"),
        (["training.lora.r=0"], r"lora\.r: 0 is not a whole number of at least 1"),
        (["training.lora.lora_alpha=-1"], "not a number above 0"),
        (["training.lora.lora_dropout=1"], "at least 0 and below 1"),
        (["training.lora.target_modules=qkv_proj"], "is not a list of names"),
        (["training.lora.r=4", "training.optim=muon"], "leave out one"),
        (["training.lora.r=4", "training.fsdp=full_shard"], r"fsdp parts the weights that training\.lora needs whole"),
        (["training.layer_lr_decay=0.9", "training.deepspeed=zero.json"], "deepspeed parts the weights"),
        (["training.lora.r=4", "evaluation.average_checkpoints=2"], "exclude .* set evaluation.average_checkpoints=0"),
        (["training.class_weights=even"], "'even' is not 'balanced'"),
        (["training.class_weights={}"], "names no label"),
        (["training.class_weights={none: 0}"], r"class_weights\.none: 0\.0 is not a number above 0"),
        (["training.class_weights=balanced", "data.streaming=true", "training.max_steps=2"], "as they come"),
        (["training.label_smoothing_factor=0.1"], r"label_smoothing_factor: 0\.1 has no effect on sequence-classif"),
        (["model.label_smoothing=0.1"], r"model\.label_smoothing: 0\.1 has no effect on sequence-classification"),
        (["training.early_stopping_patience=0"], "is less than 1"),
        (["training.early_stopping_patience=2", "data.validation=null", "evaluation.metrics=[]"], "to judge by"),
        (["training.early_stopping_patience=2", "evaluation.average_checkpoints=2"], "=0 for the best"),
        (["training.early_stopping_patience=2", "training.load_best_model_at_end=false"], "would not"),
        (["training.early_stopping_patience=2", "training.eval_strategy=no"], "needs evaluations"),
        (
            ["training.early_stopping_patience=2", "data.streaming=true", "training.max_steps=9"],
            r"all steps are one epoch: set training\.eval_strategy=steps",
        ),
        (
            ["training.early_stopping_patience=2", "training.eval_strategy=steps", "training.save_strategy=steps"],
            "eval_steps is missing",
        ),
        (["training.early_stopping_patience=2", "training.save_strategy=no"], "does not keep what is best"),
        (["training.early_stopping_patience=2", "training.metric_for_best_model=f1"], "name it in evaluation.metrics"),
        (["training.early_stopping_patience=2", "training.metric_for_best_model=bleu"], "it is loss, accuracy"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(files, more, sentence):
    with pytest.raises(ValueError, match=sentence):
        load_recipe(recipe_file(files), more)


def test_launches_that_part_weights_or_batches_are_refused(files, monkeypatch):
    for key in ("lora={}", "layer_lr_decay=0.9"):
        recipe = load_recipe(recipe_file(files), [f"training.{key}"])
        for variable, name in (("ACCELERATE_USE_FSDP", "FSDP"), ("ACCELERATE_USE_DEEPSPEED", "DeepSpeed")):
            with monkeypatch.context() as patch:
                patch.setenv(variable, "true")
                with pytest.raises(ValueError, match=f"needs whole weights, and {name} parts them"):
                    check_launch(recipe, types.SimpleNamespace(n_gpu=1))
    recipe = load_recipe(recipe_file(files), ["training.class_weights=balanced"])
    check_launch(recipe, types.SimpleNamespace(n_gpu=1))
    with pytest.raises(ValueError, match=r"class_weights: one process for 2 GPUs"):
        check_launch(recipe, types.SimpleNamespace(n_gpu=2))


def more_is_better(recipe, folder) -> bool:
    return training_arguments(recipe, str(folder)).greater_is_better


def test_early_stopping_settles_what_it_needs(files, tmp_path):
    training = load_recipe(recipe_file(files), ["training.early_stopping_patience=3"]).training
    assert training["load_best_model_at_end"] is True
    assert (training["eval_strategy"], training["metric_for_best_model"]) == ("epoch", "loss")
    more = ["training.early_stopping_patience=3", "training.metric_for_best_model=eval_accuracy"]
    assert more_is_better(load_recipe(recipe_file(files), more), tmp_path) is True
    more = ["training.early_stopping_patience=3", "training.metric_for_best_model=perplexity"]
    more += [f"data.validation={files / 'train.txt'}"]
    assert more_is_better(load_recipe(recipe_file(files, "causal-lm"), more), tmp_path) is False


def test_the_best_is_told_the_right_way_round_without_early_stopping_too(files, tmp_path):
    """TrainingArguments itself takes all that does not end in "loss" for better where it is more."""
    more = ["training.load_best_model_at_end=true", "training.eval_strategy=epoch"]
    more += [f"data.validation={files / 'train.txt'}", "training.metric_for_best_model=perplexity"]
    assert more_is_better(load_recipe(recipe_file(files, "causal-lm"), more), tmp_path) is False
    with pytest.raises(ValueError, match=r"does not give 'word_perplexity', which is measured at the end alone"):
        load_recipe(recipe_file(files, "causal-lm"), [*more, "training.metric_for_best_model=word_perplexity"])


ALL = [
    "training.layer_lr_decay=0.8", "training.class_weights=balanced", "training.early_stopping_patience=2",
    "training.metric_for_best_model=accuracy", "model.dropout=0.0", "training.num_train_epochs=3",
]  # fmt: skip


@pytest.fixture(scope="module")
def tuned(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "tuned"
    return folder, train(load_recipe(recipe_file(files), ALL), str(folder))


def test_a_run_records_how_it_was_tuned(files, tuned):
    folder, metrics = tuned
    history = json.loads((folder / "history.json").read_text())
    accuracies = {row["step"]: row["eval_accuracy"] for row in history if "eval_accuracy" in row}
    best = max(accuracies, key=lambda step: (accuracies[step], -step))
    assert (metrics["training"]["best_step"], metrics["training"]["best_by"]) == (best, "accuracy")
    assert metrics["evaluation"]["validation"]["accuracy"] == accuracies[best]
    kept = load_file(folder / f"checkpoint-{best}" / "model.safetensors")
    assert all(torch.equal(tensor, kept[name]) for name, tensor in load_file(folder / "model.safetensors").items())
    weights = metrics["training"]["class_weights"]
    rows = [json.loads(line)["label"] for line in (files / "train.jsonl").read_text().splitlines()]
    expected = compute_class_weight("balanced", classes=np.array(["has a", "none"]), y=rows)
    assert list(weights.values()) == pytest.approx(expected.tolist())
    card = (folder / "README.md").read_text()
    assert f"the best by accuracy, at step {best}" in card
    assert "| training.class_weights | balanced |" in card


def test_the_labels_are_told_before_the_training(files, tmp_path, capsys):
    """Values of a score, each of which would be a class, show here."""
    train(load_recipe(recipe_file(files), ["training.max_steps=1", "model.dropout=0.0"]), str(tmp_path / "few"))
    assert "2 labels: has a, none\n" in capsys.readouterr().err
    scored = tmp_path / "scored.tsv"
    scored.write_text("text\tlabel\n" + "".join(f"a text\t{i / 10}\n" for i in range(30)), encoding="utf-8")
    more = [f"data.train={scored}", "data.validation=null", "training.eval_strategy=no", "evaluation.metrics=[]"]
    train(load_recipe(recipe_file(files), ["training.max_steps=1", *more]), str(tmp_path / "many"))
    assert "30 labels: 0.0, 0.1, 0.2" in (shown := capsys.readouterr().err)
    assert "1.9, …\n" in shown


def test_a_run_with_a_frozen_backbone(files, tmp_path):
    """The head alone is trained, 8 · 8 + 8 and 2 · 8 + 2 weights, and after a stop it is so again."""
    more = ["training.freeze_backbone=true", "model.dropout=0.3", "training.max_steps=3"]
    metrics = train(load_recipe(recipe_file(files), more), str(tmp_path / "run"))
    assert metrics["training"]["trained_parameters"] == 72 + 18
    assert "| weights trained | 90 |" in (tmp_path / "run/README.md").read_text()
    more[-1] = "training.max_steps=5"
    assert train(load_recipe(recipe_file(files), more), str(tmp_path / "run"), resume=True)["training"]["steps"] == 5
    ours, start = load_file(tmp_path / "run/model.safetensors"), load_file(files / "masked/model.safetensors")
    assert all(torch.equal(ours[name], tensor) for name, tensor in start.items() if name.startswith("model."))


def test_padding_and_batch_size_change_no_prediction(tuned):
    """Of a fine-tuned model, in evaluation, to the rounding of float32: alone, in one batch, and padded to 40."""
    folder, _ = tuned
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = ["a b c", "d", "e f g h i j k", "b b"]
    with torch.no_grad():
        alone = torch.cat([model(**tokenizer(row, return_tensors="pt")).logits for row in rows])
        for options in ({"padding": True}, {"padding": "max_length", "max_length": 40}):
            together = model(**tokenizer(rows, return_tensors="pt", **options)).logits
            torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)
        left = tokenizer(rows, return_tensors="pt", padding=True, padding_side="left")
        torch.testing.assert_close(model(**left).logits, alone, rtol=1e-5, atol=1e-5)


def test_two_processes_tune_as_one_does(files, tuned, tmp_path):
    """Four examples for each of two processes: the steps of eight, weighted over all of them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--main_process_port"]
    settings = [*ALL, "training.per_device_train_batch_size=4"]
    done = subprocess.run(
        [sys.executable, *launch, str(port), "-m", "regard", "train", str(recipe_file(files)), *settings, "--output",
         str(tmp_path / "two")],
        env=os.environ | {"ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("begins from the weights of") == 1
    found = [json.loads((folder / "history.json").read_text()) for folder in (tmp_path / "two", tuned[0])]
    for name in ("loss", "eval_loss", "learning_rate"):
        one, two = ({row["step"]: row[name] for row in history if name in row} for history in found)
        assert one == pytest.approx(two, rel=2e-5), name


# --- LoRA ------------------------------------------------------------------------------------------------------------


def test_without_peft_a_sentence_says_so(files, tmp_path, monkeypatch):
    monkeypatch.setattr(lora, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install peft"):
        train(load_recipe(recipe_file(files), ["training.lora={}"]), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@needs_peft
def test_an_adapter_is_saved_loaded_and_merged(files, tmp_path, capsys):
    """What PeftModel computes with the adapter on the model that it began from is what the merged run computes."""
    from peft import PeftModel

    more = ["training.lora={r: 2, lora_alpha: 6}", "training.num_train_epochs=3", "training.save_total_limit=5"]
    recipe = load_recipe(recipe_file(files), [*more, "training.early_stopping_patience=5"])
    assert recipe.training["lora"] == {"r": 2, "lora_alpha": 6, "lora_dropout": 0.0, "target_modules": None}
    run = tmp_path / "run"
    train(recipe, str(run))
    # r (in + out) for each of qkv_proj 8 to 24, out_proj 8 to 8, up_proj 8 to 16 and down_proj 16 to 8, in 2 layers;
    # and the head, 8 · 8 + 8 and 2 · 8 + 2.
    assert f"of which {2 * 2 * (32 + 16 + 24 + 24) + 72 + 18:,} are trained" in capsys.readouterr().err
    merged, start = load_file(run / "model.safetensors"), load_file(files / "masked/model.safetensors")
    for name, tensor in merged.items():
        projection = name.startswith("model.") and "_proj.weight" in name
        assert torch.equal(tensor, start.get(name, torch.empty(0))) == (name.startswith("model.") and not projection)

    model = AutoModelForSequenceClassification.from_pretrained(run).eval()
    base = AutoModelForSequenceClassification.from_pretrained(files / "masked", num_labels=2)
    adapted = PeftModel.from_pretrained(base, run / "adapter").eval()
    assert sorted(path.name for path in (run / "adapter").iterdir() if path.suffix != ".md") == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    batch = AutoTokenizer.from_pretrained(run)(["a b c", "d e"], padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = model(**batch).logits
        torch.testing.assert_close(adapted(**batch).logits, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(adapted.merge_and_unload()(**batch).logits, expected, rtol=1e-5, atol=1e-5)
    kept = checkpoints.list_checkpoints(run)[0]
    loaded = AutoModelForSequenceClassification.from_pretrained(kept, output_loading_info=True)[1]
    assert not any(loaded[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        (["training.layer_lr_decay=0.7", "training.class_weights=balanced"], ["model.safetensors"]),
        pytest.param(
            ["training.lora.lora_dropout=0.2"], ["model.safetensors", "adapter/adapter_model.safetensors"],
            marks=needs_peft,
        ),
    ],
)  # fmt: skip
def test_a_stopped_run_resumes_to_the_same_weights(files, tmp_path, monkeypatch, more, kept):
    """Bit for bit those of the run that was never stopped, which goes by the same rates and weights."""
    recipe = load_recipe(recipe_file(files), [*more, "model.dropout=0.1"])
    train(recipe, str(tmp_path / "whole"))
    original = RegardTrainer._save_checkpoint

    def save_and_stop(self, *args):
        original(self, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module.RegardTrainer, "_save_checkpoint", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, str(tmp_path / "stopped"))
    train(recipe, str(tmp_path / "stopped"), resume=True)
    for name in kept:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes(), name


@needs_peft
def test_a_resumed_adapter_names_no_folder_as_its_model(files, tmp_path, monkeypatch):
    """The folder that the run began from may be gone by then: its path would stand for a repository of that name."""
    shutil.copytree(files / "masked", tmp_path / "start")
    recipe = load_recipe(recipe_file(files), ["training.lora.r=2", f"model.start_from={tmp_path / 'start'}"])
    original = RegardTrainer._save_checkpoint

    def save_and_stop(self, *args):
        original(self, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_module.RegardTrainer, "_save_checkpoint", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, str(tmp_path / "run"))
    shutil.rmtree(tmp_path / "start")
    train(recipe, str(tmp_path / "run"), resume=True)
    config = json.loads((tmp_path / "run/adapter/adapter_config.json").read_text())
    assert config["base_model_name_or_path"] is None


@needs_peft
def test_lora_of_a_language_model_leaves_its_head(files, tmp_path):
    from peft import PeftModel

    more = ["training.lora={target_modules: [qkv_proj]}", "training.gradient_checkpointing=true"]
    run = tmp_path / "run"
    train(load_recipe(recipe_file(files, "causal-lm"), more), str(run))
    merged, start = load_file(run / "model.safetensors"), load_file(files / "causal/model.safetensors")
    assert {name for name in merged if not torch.equal(merged[name], start[name])} == {
        f"model.layers.{i}.self_attn.qkv_proj.weight" for i in (0, 1)
    }
    base = AutoModelForCausalLM.from_pretrained(files / "causal")
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        torch.testing.assert_close(
            PeftModel.from_pretrained(base, run / "adapter").eval()(input_ids=ids).logits,
            AutoModelForCausalLM.from_pretrained(run).eval()(ids).logits,
            rtol=1e-5, atol=1e-5,
        )  # fmt: skip
    recipe = load_recipe(recipe_file(files, "causal-lm"), ["training.lora={target_modules: [q_proj]}"])
    with pytest.raises(ValueError, match=r"is called 'q_proj': there are down_proj, out_proj, qkv_proj, up_proj"):
        train(recipe, str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()
