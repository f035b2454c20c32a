"""Induction heads: the measures on models whose answer is known, and the picture.

A stub that attends where an induction head does, or spreads its attention evenly, has scores that are worked out here.
"""

import json
import logging
import time
import types

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, TrainerCallback, TrainingArguments

from regard.evaluation.induction import InductionProbe, make_probe, measure_induction, record_of
from regard.evaluation.induction_pictures import plot_induction
from regard.model_cards.card import render_card
from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM
from regard.train import induction
from regard.train.building import check_launch
from regard.train.collators import CausalLMCollator
from regard.train.induction import RecordInduction, fitting_probe, plot_run_induction
from regard.train.recipe import load_recipe
from regard.train.run import train
from regard.train.sections import RecipeError
from regard.train.tokenization import train_tokenizer
from regard.train.trainer import RegardTrainer

from .card_runs import make_run


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["abcdefghijklmnopqrstuvwxyz"], "char", 64, template="bos")


def make_model(tokenizer):
    torch.manual_seed(0)
    settings = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    return TransformerDecoderForCausalLM(TransformerDecoderConfig(vocab_size=len(tokenizer), **settings))


class Stub(nn.Module):
    """Head 0 looks at what followed the same token last time, head 1 evenly at all before it; the second occurrence
    is foretold with the probability `sure`, the first is anyone's guess."""

    def __init__(self, vocabulary: int, length: int, sure: float) -> None:
        super().__init__()
        self.vocabulary, self.length, self.sure = vocabulary, length, sure
        self.config = TransformerDecoderConfig()

    def can_generate(self):
        return True

    def set_attn_implementation(self, name):
        pass

    @property
    def device(self):
        return torch.device("cpu")

    def forward(self, input_ids, **kwargs):
        rows, positions = input_ids.shape
        even = torch.ones(positions, positions).tril() / torch.arange(1, positions + 1)[:, None]
        induction = even.clone()
        logits = torch.zeros(rows, positions, self.vocabulary)
        for place in range(positions - self.length, positions):
            induction[place] = 0
            induction[place, place - self.length + 1] = 1
            if place + 1 < positions:
                odds = self.sure / (1 - self.sure) * (self.vocabulary - 1)
                logits[:, place].scatter_(1, input_ids[:, place + 1, None], float(np.log(odds)))
        maps = torch.stack([induction, even])[None].expand(rows, -1, -1, -1)
        outputs = type("Outputs", (), {})()
        outputs.logits, outputs.attentions = logits, (maps,)
        return outputs


def test_a_head_that_copies_is_found(tokenizer):
    probe, vocabulary = make_probe(tokenizer, rows=4, length=6), len(tokenizer)
    measures = measure_induction(Stub(vocabulary, 6, sure=0.9), probe)
    assert measures.first == pytest.approx(np.log(vocabulary), abs=1e-5)  # of an even guess
    assert measures.second == pytest.approx(-np.log(0.9), abs=1e-5)
    assert measures.gain == measures.first - measures.second
    assert measures.best_head == (0, 0)
    # The second occurrence stands at places 7 to 12 of 13; all but its last look, evenly at as many as stand before.
    even = np.mean([1 / (place + 1) for place in range(7, 12)])
    np.testing.assert_allclose(measures.prefix_matching, [[1.0, even]], atol=1e-6)


def test_the_probe_repeats_ordinary_tokens(tokenizer):
    probe = make_probe(tokenizer, rows=3, length=20, seed=4)
    assert isinstance(probe, InductionProbe)
    assert probe.ids.shape == (3, 41)
    assert (probe.ids[:, 0] == tokenizer.bos_token_id).all()
    assert torch.equal(probe.ids[:, 1:21], probe.ids[:, 21:])
    assert not set(probe.ids[:, 1:].flatten().tolist()) & set(tokenizer.all_special_ids)
    assert all(len(set(row[1:21].tolist())) == 20 for row in probe.ids)
    assert torch.equal(probe.ids, make_probe(tokenizer, rows=3, length=20, seed=4).ids)
    with pytest.raises(ValueError, match="at least one row and two tokens"):
        make_probe(tokenizer, length=1)


def test_a_model_that_fails_is_left_as_it_was(tokenizer, monkeypatch):
    model = make_model(tokenizer).train()
    monkeypatch.setattr(model, "set_attn_implementation", lambda name: 1 / 0 if name == "eager" else None)
    with pytest.raises(ZeroDivisionError):
        measure_induction(model, make_probe(tokenizer, rows=2))
    assert model.training


def test_a_model_is_left_as_it_was(tokenizer):
    model = make_model(tokenizer).train()
    state = torch.random.get_rng_state()
    measures = measure_induction(model, make_probe(tokenizer, rows=2))
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(torch.random.get_rng_state(), state)
    assert measures.prefix_matching.shape == (2, 2)
    assert measures.attention.shape == (2, 2, 41, 41)
    assert measures.gain == pytest.approx(0, abs=0.3)  # it has learnt nothing yet


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_picture_is_drawn_and_is_the_same_each_time(tokenizer, tmp_path, ending):
    model, probe = make_model(tokenizer), make_probe(tokenizer, rows=2, length=5)
    measures = measure_induction(model, probe)
    record = [record_of(measures, step) for step in (0, 10, 20)]
    tokens = [str(one) for one in range(probe.ids.shape[1])]
    drawn = [plot_induction(record, measures, probe, tokens, tmp_path / f"{n}.{ending}").read_bytes() for n in (1, 2)]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) > 1000
    with pytest.raises(ValueError, match="no point of a training"):
        plot_induction([], measures, probe, tokens, tmp_path / "x.png")


def test_runs_without_a_record_are_told_how_to_get_one(tmp_path):
    with pytest.raises(ValueError, match="has no record of induction heads, induction.json"):
        plot_run_induction(tmp_path, tmp_path / "x.png")
    with pytest.raises(ValueError, match="must end in"):
        plot_run_induction(tmp_path, tmp_path / "x.pdf")


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "[1]", '[{"step": 0}]', '[{"step": 0, "first": 1, "second": 1, "prefix_matching": [1]}]']
)
def test_a_broken_record_is_named(tmp_path, text):
    (tmp_path / "induction.json").write_text(text)
    with pytest.raises(ValueError, match=r"induction.json' is no record of induction heads"):
        plot_run_induction(tmp_path, tmp_path / "x.png")


def test_the_probe_is_no_longer_than_learned_positions(tokenizer):
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    for positions, kind, length in ((32, "learned", 15), (200, "learned", 20), (32, "rotary", 20)):
        places = {"max_position_embeddings": positions, "position_embedding_type": kind}
        model = TransformerDecoderForCausalLM(TransformerDecoderConfig(vocab_size=len(tokenizer), **sizes, **places))
        probe = fitting_probe(tokenizer, model)
        assert probe.length == length
        measure_induction(model, probe)


def test_the_probe_is_no_longer_than_a_library_models_positions(tokenizer):
    """GPT-2 calls them n_positions, and does not name their kind: (32 - 1) // 2 tokens, twice, after the start."""
    sizes = {"n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes))
    probe = fitting_probe(tokenizer, model)
    assert probe.length == 15
    assert measure_induction(model, probe).prefix_matching.shape == (1, 2)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            ["model.max_position_embeddings=4"],
            "model.max_position_embeddings: 4 learned positions are too few for evaluation.induction_steps, .* 5",
        ),
        (
            ["model.max_position_embeddings=null", "data.block_size=4"],
            "data.block_size: 4 learned positions are too few for evaluation.induction_steps",
        ),
    ],
)
def test_positions_that_reach_no_repeated_tokens_are_refused(settings, sentence):
    recipe = "in-context/induction-decoder"
    with pytest.raises(RecipeError, match=sentence):
        load_recipe(recipe, ["model.position_embedding_type=learned", *settings])


@pytest.mark.parametrize(
    "settings",
    [
        ["model.position_embedding_type=rotary", "model.max_position_embeddings=4"],  # computed for any length
        ["model.position_embedding_type=learned", "model.max_position_embeddings=5", "data.block_size=5"],
    ],
)
def test_positions_that_reach_are_taken(settings):
    load_recipe("in-context/induction-decoder", settings)


# --- the record of a training ----------------------------------------------------------------------------------------


def trainer_for(folder, tokenizer, *callbacks, **settings):
    rows = Dataset.from_list([{"input_ids": tokenizer(text)["input_ids"]} for text in ("abcabc", "xyzxyz", "klklkl")])
    plain = {"max_steps": 5, "per_device_train_batch_size": 1, "report_to": "none", "use_cpu": True}
    plain |= {"save_strategy": "no", "remove_unused_columns": False, "logging_steps": 1}
    return RegardTrainer(
        make_model(tokenizer),
        TrainingArguments(str(folder), **plain | settings),
        CausalLMCollator(tokenizer.pad_token_id),
        train_dataset=rows,
        eval_dataset=rows,
        callbacks=[*callbacks, RecordInduction(tokenizer, folder, every=2)],
    )


def steps_of(folder):
    return [point["step"] for point in json.loads((folder / "induction.json").read_text())]


class StopAfterThree(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step == 3


def test_the_last_step_is_measured_wherever_the_training_ends(tokenizer, tmp_path):
    trainer_for(tmp_path / "whole", tokenizer).train()
    assert steps_of(tmp_path / "whole") == [0, 2, 4, 5]
    trainer = trainer_for(tmp_path / "stopped", tokenizer, StopAfterThree())
    trainer.train()
    assert steps_of(tmp_path / "stopped") == [0, 2, 3]
    last = json.loads((tmp_path / "stopped" / "induction.json").read_text())[-1]
    assert last == record_of(measure_induction(trainer.model, fitting_probe(tokenizer, trainer.model)), 3)


def test_the_last_step_of_early_stopping_is_measured_before_the_best_weights_come_back(tmp_path):
    """At rate 0 the evaluation at step 6 is no better than that at step 3."""
    settings = [
        "model.hidden_size=16", "model.num_hidden_layers=1", "model.num_attention_heads=2",
        "model.intermediate_size=16", "data.validation=8", "data.test=null", "data.block_size=48",
        "training.max_steps=12", "training.bf16=false", "training.per_device_train_batch_size=2",
        "training.eval_steps=3", "training.save_steps=3", "training.report_to=none", "training.learning_rate=0",
        "training.early_stopping_patience=1", "evaluation.samples=0", "evaluation.induction_steps=4",
    ]  # fmt: skip
    metrics = train(load_recipe("in-context/mixture-decoder", settings), tmp_path / "run", test=False)
    assert (metrics["training"]["steps"], metrics["training"]["best_step"]) == (6, 3)
    assert steps_of(tmp_path / "run") == [0, 4, 6]


def test_at_the_end_the_best_weights_are_not_taken_for_the_last(tokenizer, tmp_path):
    callback = RecordInduction(tokenizer, tmp_path, every=2)
    state = types.SimpleNamespace(global_step=0, max_steps=9, is_world_process_zero=True)
    control = types.SimpleNamespace(should_training_stop=True)
    model = make_model(tokenizer)
    callback.on_train_begin(None, state, control, model=model)
    state.global_step = 7
    callback.on_train_end(types.SimpleNamespace(load_best_model_at_end=True), state, control, model=model)
    assert steps_of(tmp_path) == [0]
    callback.on_evaluate(None, state, control, model=model)
    callback.on_train_end(types.SimpleNamespace(load_best_model_at_end=False), state, control, model=model)
    assert steps_of(tmp_path) == [0, 7]  # once


def test_measuring_is_no_time_of_the_training(tokenizer, tmp_path, monkeypatch):
    """By a clock that each puts forward by 1,000 seconds: alone, and within an evaluation that ends the training."""
    now, real = [0.0], time.perf_counter
    monkeypatch.setattr(time, "perf_counter", lambda: real() + now[0])

    def slow(*given):
        now[0] += 1000
        return measure_induction(*given)

    class StopHere(TrainerCallback):
        def on_evaluate(self, args, state, control, **kwargs):
            control.should_training_stop = state.global_step == 3

    monkeypatch.setattr(induction, "measure_induction", slow)
    trainer = trainer_for(tmp_path, tokenizer, StopHere(), eval_strategy="steps", eval_steps=3)
    trainer.train()
    assert steps_of(tmp_path) == [0, 2, 3]
    assert now[0] == 3000
    logged = [entry["seconds"] for entry in trainer.state.log_history if "seconds" in entry]
    assert len(logged) >= 3
    assert all(0 < seconds < 500 for seconds in logged)


def test_a_record_of_another_model_is_not_continued(tokenizer, tmp_path, caplog):
    """Nor drawn as if it were the run's, nor shown on its card."""
    run = make_run(tmp_path / "run", "causal-lm")  # of one layer with two heads
    other = {"step": 4, "first": 3.0, "second": 1.0, "prefix_matching": [[0.5, 0.1], [0.2, 0.3]]}
    (run / "induction.json").write_text(json.dumps([other]))
    sentence = "is of 2 layers with 2 heads each, and the model has 1 with 2: it is another model's"
    for reader in (lambda: plot_run_induction(run, tmp_path / "x.png"), lambda: render_card(run)):
        with pytest.raises(ValueError, match=sentence):
            reader()
    for content in (json.dumps([other | {"prefix_matching": [[0.5, 0.1]]}]), "[", json.dumps([])):
        (tmp_path / "induction.json").write_text(content)
        caplog.clear()
        callback = RecordInduction(tokenizer, tmp_path, every=2)
        state = types.SimpleNamespace(global_step=6, max_steps=9, is_world_process_zero=True)
        with caplog.at_level(logging.WARNING):
            callback.on_train_begin(None, state, None, model=make_model(tokenizer))
        assert steps_of(tmp_path) == [6]
        assert "A new record begins at step 6." in caplog.text


def test_the_card_tells_what_became_of_induction(tmp_path):
    run = make_run(tmp_path / "run", "causal-lm")
    assert "Random tokens" not in render_card(run)
    first = {"step": 0, "first": 3.5, "second": 3.5, "prefix_matching": [[0.9, 0.1]]}
    last = {"step": 1200, "first": 3.4567, "second": 0.25, "prefix_matching": [[0.125, 0.75]]}
    (run / "induction.json").write_text(json.dumps([first, last]))
    card = render_card(run)
    assert "Random tokens that come twice, at step 1,200:" in card
    assert "| 3.457 | 0.250 | 3.207 | layer 0, head 1 | 0.750 |" in card  # the gain is the difference
    assert card.index("## Results") < card.index("Random tokens") < card.index("## Model")


def test_heads_are_not_measured_where_weights_are_parted(monkeypatch):
    recipe = load_recipe("in-context/induction-decoder")
    args = types.SimpleNamespace(n_gpu=1)
    check_launch(recipe, args)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(RecipeError, match="evaluation.induction_steps: 20 has one process measure .*FSDP parts them"):
        check_launch(recipe, args)
