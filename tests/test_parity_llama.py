"""The decoder's later options against the library's Llama: RMSNorm, SwiGLU, rotary positions, grouped-query heads."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from regard.modeling import TransformerDecoderForCausalLM
from regard.train.convert_configs import llama_config
from regard.train.convert_weights import llama_weights

from .parity import (
    assert_same_gradients,
    assert_same_maps,
    ids_and_mask,
    mapped,
    randomize,
)

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

CONFIGS = {
    "plain": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24},
    "grouped, tied, base 500000": {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 56,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    },
    "one key head, wide heads, biases": {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "intermediate_size": 40,
        "attention_bias": True,
        "mlp_bias": True,
        "rms_norm_eps": 1e-5,
    },
    "narrow heads": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 2,
        "intermediate_size": 40,
        "hidden_act": "gelu",
    },
}


def pair(config: str = "grouped, tied, base 500000", kernel: str = "sdpa"):
    """Ours and the library's, with the same weights."""
    theirs = LlamaConfig(
        **CONFIGS[config], **TOKENS, vocab_size=40, max_position_embeddings=64, attn_implementation=kernel
    )
    peer = randomize(LlamaForCausalLM(theirs))
    config = llama_config(theirs)
    config._attn_implementation = kernel
    return mapped(TransformerDecoderForCausalLM(config), llama_weights(peer.state_dict())), peer


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("config", CONFIGS)
def test_logits_and_loss(config, kernel, side):
    ours, peer = pair(config, kernel)
    ids, mask = ids_and_mask(40, (3, 11), (0, 2, 5), side)
    labels = ids.masked_fill(mask == 0, -100)
    with torch.no_grad():
        output, expected = (model(ids, attention_mask=mask, labels=labels) for model in (ours, peer))
    real = mask.bool()
    torch.testing.assert_close(output.logits[real], expected.logits[real], **CLOSE)
    if side == "right":  # on the left, the last pad's logits, which are anything, predict the first token
        torch.testing.assert_close(output.loss, expected.loss, **CLOSE)


@pytest.mark.parametrize("config", CONFIGS)
def test_hidden_states_and_attentions(config):
    ours, peer = pair(config, "eager")
    ids, mask = ids_and_mask(40, (3, 11), (0, 2, 5), "right")
    with torch.no_grad():
        output, expected = (
            model(ids, attention_mask=mask, output_hidden_states=True, output_attentions=True)
            for model in (ours, peer)
        )
    real = mask.bool()
    for states, expected_states in zip(output.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(states[real], expected_states[real], **CLOSE)
    assert_same_maps(output.attentions, expected.attentions, real)


@pytest.mark.parametrize("loss_only", [False, True])
def test_gradients(loss_only):
    ours, peer = pair()
    ids, mask = ids_and_mask(40, (3, 11), (0, 2, 5), "right")
    labels = ids.masked_fill(mask == 0, -100)
    ours(ids, mask, labels=labels, loss_only=loss_only).loss.backward()
    peer(ids, attention_mask=mask, labels=labels).loss.backward()
    assert_same_gradients(ours, peer, llama_weights)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("config", CONFIGS)
def test_generation(config, use_cache, num_beams):
    ours, peer = pair(config)
    ids, mask = ids_and_mask(40, (3, 6), (0, 1, 4), "left")
    settings = {"max_new_tokens": 15, "num_beams": num_beams, "do_sample": False, "use_cache": use_cache, **TOKENS}
    generated, expected = (model.generate(ids, attention_mask=mask, **settings) for model in (ours, peer))
    assert torch.equal(generated, expected)
