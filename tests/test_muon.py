"""The optimiser Muon: its step against numpy's singular value decomposition and torch's AdamW."""

import numpy as np
import pytest
import torch
from torch import nn
from transformers import TrainingArguments

from regard.modeling import TransformerConfig, TransformerDecoderConfig, TransformerDecoderForCausalLM
from regard.modeling import TransformerForConditionalGeneration as Seq2Seq
from regard.train.building import optimizer_factory
from regard.train.muon import build_muon, map_sizes, muon_options, orthogonalize
from regard.train.recipe import load_recipe
from regard.train.sections import RecipeError

TINY = {"vocab_size": 20, "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 32}


def decoder(**settings):
    torch.manual_seed(0)
    return TransformerDecoderForCausalLM(TransformerDecoderConfig(**TINY, num_hidden_layers=2, **settings))


def muon_for(model, tmp_path, momentum=0.95, matrix_learning_rate=None, **settings):
    args = TrainingArguments(str(tmp_path), use_cpu=True, **settings)
    return build_muon(model, args, momentum, matrix_learning_rate)


@pytest.mark.parametrize("shape", [(3, 24, 24), (2, 16, 48), (2, 48, 16)])
@pytest.mark.parametrize(("fast", "error"), [(True, 0.1), (False, 1e-4)])  # bfloat16 keeps eight bits, float32 24
def test_orthogonalizing_keeps_singular_vectors_and_levels_their_values(shape, fast, error, monkeypatch):
    monkeypatch.setattr("regard.train.muon.multiplies_bfloat16", lambda device: fast)
    torch.manual_seed(0)
    matrices = torch.randn(shape)
    found = orthogonalize(matrices).double().numpy()
    for matrix, result in zip(matrices.double().numpy(), found, strict=True):
        u, values, vt = np.linalg.svd(matrix, full_matrices=False)
        values = values / np.linalg.norm(values)
        for _ in range(5):  # the quintic acts on each singular value, as it does on a number
            values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
        rotated = u.T @ result @ vt.T
        assert np.abs(rotated - np.diag(values)).max() < error
        assert np.median(values) == pytest.approx(1, abs=0.3)


def test_a_matrix_moves_by_the_formula_of_the_papers(tmp_path):
    model = decoder()
    optimizer = muon_for(model, tmp_path, learning_rate=0.01, weight_decay=0.1, momentum=0.9)
    weight = model.base_model.layers[0].self_attn.out_proj.weight
    before, momentum = weight.detach().clone(), torch.zeros_like(weight)
    for seed in (1, 2):
        torch.manual_seed(seed)
        gradient = torch.randn_like(weight)
        optimizer.zero_grad()
        weight.grad = gradient.clone()
        optimizer.step()
        momentum = 0.9 * momentum + gradient
        update = orthogonalize((gradient + 0.9 * momentum)[None])[0]
        before = before * (1 - 0.01 * 0.1) - 0.01 * 0.2 * 16**0.5 * update
        torch.testing.assert_close(weight.detach(), before)


def test_what_is_no_inner_matrix_moves_by_adamw(tmp_path):
    models = [decoder(), decoder()]
    settings = {"learning_rate": 0.01, "weight_decay": 0.1, "adam_beta2": 0.95}
    optimizer = muon_for(models[0], tmp_path, **settings)
    inner = {n for n, p in models[0].named_parameters() if p.dim() > 1 and "embed" not in n and "lm_head" not in n}
    decayed = [p for n, p in models[1].named_parameters() if p.dim() > 1 and n not in inner]
    plain = [p for n, p in models[1].named_parameters() if p.dim() <= 1]
    groups = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for model, stepped in ((models[0], optimizer), (models[1], reference)):
        torch.manual_seed(1)
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        stepped.step()
    for (name, mine), theirs in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        assert torch.equal(mine, theirs) != (name in inner), name


def test_each_stacked_map_is_levelled_by_itself(tmp_path):
    model = decoder(num_key_value_heads=2, gated_mlp=True, mlp_bias=False)
    optimizer = muon_for(model, tmp_path, learning_rate=1.0, weight_decay=0.0)
    layer = model.base_model.layers[0]
    for weight, sizes in (
        (layer.self_attn.qkv_proj.weight, (16, 8, 8)),
        (layer.feed_forward.up_proj.weight, (32, 32)),
    ):
        torch.manual_seed(0)
        scales = torch.cat([torch.full((size, 1), 10.0**i) for i, size in enumerate(sizes)])
        weight.grad = scales * torch.randn_like(weight)  # taken as one map, the smallest part would hardly move
        before = weight.detach().clone()
        optimizer.step()
        moved = (before - weight.detach()).split(sizes)
        for part in moved:
            norm = torch.linalg.matrix_norm(part / (0.2 * max(part.shape) ** 0.5))
            assert norm == pytest.approx(min(part.shape) ** 0.5, rel=0.25)  # all singular values near 1
        weight.grad = None


def test_map_sizes_of_cross_attention():
    shared = Seq2Seq(TransformerConfig(**TINY, encoder_layers=1, decoder_layers=2, cross_attention_key_value="shared"))
    sizes = {
        name.rpartition(".")[2]: map_sizes(name, module, shared)
        for name, module in shared.base_model.named_modules()
        if isinstance(module, nn.Linear)
    }
    assert sizes == {
        "qkv_proj": (16, 16, 16),
        "q_proj": (16,),
        "cross_kv_proj": (16, 16),
        "out_proj": (16,),
        "up_proj": (32,),
        "down_proj": (16,),
    }


def test_the_state_survives_saving(tmp_path):
    def step(model, optimizer, seed):
        torch.manual_seed(seed)
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()

    model = decoder()
    optimizer = muon_for(model, tmp_path, matrix_learning_rate=0.02)
    step(model, optimizer, 1)
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    other = decoder()
    other.load_state_dict(model.state_dict())
    resumed = muon_for(other, tmp_path, matrix_learning_rate=0.02)
    resumed.load_state_dict(torch.load(tmp_path / "optimizer.pt", weights_only=True))
    for pair in ((model, optimizer), (other, resumed)):
        step(*pair, 2)
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_step_is_one_step_for_its_hooks(tmp_path):
    model = decoder()
    torch.optim.AdamW(model.parameters())  # torch hooks the step of a class when one is made
    optimizer, steps = muon_for(model, tmp_path), []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    optimizer.step()
    assert len(steps) == 1


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["training.optim_args=5"], "training.optim_args: 5 is not text"),
        (["training.optim_args={momentum: 0.9}"], "training.optim_args: .* is not text"),
        (["training.optim_args=speed=1"], "Muon has no option 'speed'"),
        (["training.fsdp=full_shard"], "training.fsdp parts the matrices"),
    ],
)
def test_recipes_that_cannot_work(overrides, sentence):
    files = ["data.train=a.txt", "data.validation=b.txt"]
    with pytest.raises(RecipeError, match=sentence):
        load_recipe("language-modeling/tinyshakespeare-char", [*files, *overrides])


@pytest.mark.parametrize(
    ("variable", "name"), [("ACCELERATE_USE_FSDP", "FSDP"), ("ACCELERATE_USE_DEEPSPEED", "DeepSpeed")]
)
def test_a_launch_that_parts_matrices_is_refused(monkeypatch, variable, name):
    recipe = load_recipe("language-modeling/tinyshakespeare-char", ["data.train=a.txt", "data.validation=b.txt"])
    assert optimizer_factory(recipe, None) is not None
    monkeypatch.setenv(variable, "true")
    with pytest.raises(RecipeError, match=f"muon needs whole matrices, and {name} parts them"):
        optimizer_factory(recipe, None)


def test_options():
    assert muon_options(None) == {"momentum": 0.95, "matrix_learning_rate": None}
    assert muon_options("momentum=0.9, matrix_learning_rate=1e-2") == {"momentum": 0.9, "matrix_learning_rate": 0.01}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("beta=1", "Muon has no option 'beta': there are momentum, matrix_learning_rate"),
        ("momentum=1", "'momentum=1' does not set momentum to a number between 0 and 1"),
        (
            "matrix_learning_rate=fast",
            "'matrix_learning_rate=fast' does not set matrix_learning_rate to a number above 0",
        ),
        ("momentum", "'momentum' does not set momentum to a number"),
        ("momentum=0.9,momentum=0.8", "momentum is given twice"),
    ],
)
def test_options_that_cannot_work(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        muon_options(text)
