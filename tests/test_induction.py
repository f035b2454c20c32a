"""Induction heads: the measures on models whose answer is known, and the picture.

A stub that attends where an induction head does, or spreads its attention evenly, has scores that are worked out here.
"""

import types

import numpy as np
import pytest
import torch
from torch import nn

from regard.evaluation.induction import InductionProbe, make_probe, measure_induction, record_of
from regard.evaluation.induction_pictures import plot_induction
from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM
from regard.train.building import check_launch
from regard.train.induction import fitting_probe, plot_run_induction
from regard.train.recipe import load_recipe
from regard.train.sections import RecipeError
from regard.train.tokenization import train_tokenizer


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


def test_heads_are_not_measured_where_weights_are_parted(monkeypatch):
    recipe = load_recipe("in-context/induction-decoder")
    args = types.SimpleNamespace(n_gpu=1)
    check_launch(recipe, args)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(RecipeError, match="evaluation.induction_steps: 20 has one process measure .*FSDP parts them"):
        check_launch(recipe, args)
