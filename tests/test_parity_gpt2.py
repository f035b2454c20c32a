"""The decoder against the library's GPT-2."""

import pytest
import torch
from transformers import GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel

from regard.modeling import TransformerDecoderForCausalLM, TransformerDecoderForSequenceClassification
from regard.train.convert_configs import gpt2_config
from regard.train.convert_weights import gpt2_weights

from .parity import (
    assert_same_gradients,
    assert_same_maps,
    ids_and_mask,
    mapped,
    positions_of_real_tokens,
    randomize,
)

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

CONFIGS = {
    "one head": {"n_embd": 8, "n_layer": 1, "n_head": 1},
    "deeper": {"n_embd": 32, "n_layer": 3, "n_head": 4},
    "relu, narrow, untied": {
        "n_embd": 24,
        "n_layer": 2,
        "n_head": 3,
        "n_inner": 20,
        "activation_function": "relu",
        "layer_norm_epsilon": 1e-3,
        "tie_word_embeddings": False,
    },
}


def pair(config: str = "deeper", kernel: str = "sdpa"):
    """Ours and the library's, with the same weights."""
    theirs = GPT2Config(**CONFIGS[config], **TOKENS, vocab_size=40, n_positions=32, attn_implementation=kernel)
    peer = randomize(GPT2LMHeadModel(theirs))
    config = gpt2_config(theirs)
    config._attn_implementation = kernel
    return mapped(TransformerDecoderForCausalLM(config), gpt2_weights(peer.state_dict())), peer


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("config", CONFIGS)
def test_logits_and_loss(config, kernel, side):
    ours, peer = pair(config, kernel)
    ids, mask = ids_and_mask(40, (3, 9), (0, 2, 5), side)
    labels = ids.masked_fill(mask == 0, -100)
    with torch.no_grad():
        output = ours(ids, mask, labels=labels)
        expected = peer(ids, attention_mask=mask, position_ids=positions_of_real_tokens(mask), labels=labels)
    real = mask.bool()
    torch.testing.assert_close(output.logits[real], expected.logits[real], **CLOSE)
    if side == "right":  # on the left, the last pad's logits, which are anything, predict the first token
        torch.testing.assert_close(output.loss, expected.loss, **CLOSE)


@pytest.mark.parametrize("config", CONFIGS)
def test_hidden_states_and_attentions(config):
    ours, peer = pair(config, "eager")
    ids, mask = ids_and_mask(40, (3, 9), (0, 2, 5), "right")
    with torch.no_grad():
        output = ours(ids, mask, output_hidden_states=True, output_attentions=True)
        expected = peer(ids, attention_mask=mask, output_hidden_states=True, output_attentions=True)
    real = mask.bool()
    for states, expected_states in zip(output.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(states[real], expected_states[real], **CLOSE)
    assert_same_maps(output.attentions, expected.attentions, real)


@pytest.mark.parametrize("loss_only", [False, True])
def test_gradients(loss_only):
    ours, peer = pair()
    ids, mask = ids_and_mask(40, (3, 9), (0, 2, 5), "right")
    labels = ids.masked_fill(mask == 0, -100)
    ours(ids, mask, labels=labels, loss_only=loss_only).loss.backward()
    peer(ids, attention_mask=mask, labels=labels).loss.backward()
    assert_same_gradients(ours, peer, gpt2_weights)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("config", CONFIGS)
def test_generation(config, use_cache, num_beams):
    ours, peer = pair(config)
    ids, mask = ids_and_mask(40, (3, 6), (0, 1, 4), "left")
    settings = {"max_new_tokens": 15, "num_beams": num_beams, "do_sample": False, "use_cache": use_cache, **TOKENS}
    generated, expected = (model.generate(ids, attention_mask=mask, **settings) for model in (ours, peer))
    assert torch.equal(generated, expected)


def test_sequence_classification():
    """GPT-2 finds the last token by the pad's id, which right padding makes the same as ours by the mask."""
    theirs = GPT2Config(**CONFIGS["deeper"], **TOKENS, vocab_size=40, n_positions=32, num_labels=3)
    peer = randomize(GPT2ForSequenceClassification(theirs))
    config = gpt2_config(theirs)
    config.num_labels = 3
    ours = mapped(TransformerDecoderForSequenceClassification(config), gpt2_weights(peer.state_dict()))
    ids, mask = ids_and_mask(40, (3, 9), (0, 2, 5), "right")
    batch = {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([0, 2, 1])}
    output, expected = ours(**batch), peer(**batch)
    torch.testing.assert_close(output.logits, expected.logits, **CLOSE)
    torch.testing.assert_close(output.loss, expected.loss, **CLOSE)
    output.loss.backward()
    expected.loss.backward()
    assert_same_gradients(ours, peer, gpt2_weights)
