"""The encoder-decoder against the library's Marian, a Transformer of 2017 whose sinusoids stand in another order."""

import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from regard.modeling import TransformerForConditionalGeneration
from regard.train.convert_configs import marian_config
from regard.train.convert_weights import marian_weights

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
    "small": {"d_model": 16, "layers": (1, 1), "heads": 2, "inner": 24, "activation_function": "relu"},
    "uneven, scaled, starts with pad": {
        "d_model": 32,
        "layers": (1, 3),
        "heads": 4,
        "inner": 64,
        "activation_function": "swish",
        "scale_embedding": True,
        "decoder_start_token_id": 0,
    },
    "untied": {
        "d_model": 24,
        "layers": (2, 2),
        "heads": 3,
        "inner": 40,
        "activation_function": "gelu",
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
    },
}


def pair(config: str = "uneven, scaled, starts with pad", kernel: str = "sdpa", output_bias: bool = False, **more):
    """Ours and the library's, with the same weights."""
    fields = {"decoder_start_token_id": 1, **CONFIGS[config], **more}
    encoder_layers, decoder_layers = fields.pop("layers")
    heads, inner = fields.pop("heads"), fields.pop("inner")
    theirs = MarianConfig(
        **fields,
        **TOKENS,
        vocab_size=40,
        max_position_embeddings=32,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=inner,
        decoder_ffn_dim=inner,
        forced_eos_token_id=None,
        attn_implementation=kernel,
    )
    peer = randomize(MarianMTModel(theirs))
    config = marian_config(theirs)
    config._attn_implementation, config.output_bias = kernel, output_bias
    weights = peer.state_dict()
    if output_bias:
        peer.final_logits_bias.normal_(generator=torch.Generator().manual_seed(1))
    else:
        del weights["final_logits_bias"]
    return mapped(TransformerForConditionalGeneration(config), marian_weights(weights)), peer


def batch() -> dict[str, torch.Tensor]:
    ids, mask = ids_and_mask(40, (3, 9), (0, 2, 5), "right")
    labels, label_mask = ids_and_mask(40, (3, 7), (1, 0, 4), "right")
    return {"input_ids": ids, "attention_mask": mask, "labels": labels.masked_fill(label_mask == 0, -100)}


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("config", CONFIGS)
def test_logits_and_loss(config, kernel):
    ours, peer = pair(config, kernel)
    with torch.no_grad():
        output, expected = ours(**batch()), peer(**batch())
    torch.testing.assert_close(output.logits, expected.logits, **CLOSE)
    torch.testing.assert_close(output.loss, expected.loss, **CLOSE)


@pytest.mark.parametrize("config", CONFIGS)
def test_attentions(config):
    ours, peer = pair(config, "eager")
    with torch.no_grad():
        output, expected = (model(**batch(), output_attentions=True) for model in (ours, peer))
    real = batch()["attention_mask"].bool()
    assert_same_maps(output.encoder_attentions, expected.encoder_attentions, real)
    targets = torch.ones(batch()["labels"].shape, dtype=torch.bool)
    assert_same_maps(output.decoder_attentions, expected.decoder_attentions, targets)
    assert_same_maps(output.cross_attentions, expected.cross_attentions, targets)


@pytest.mark.parametrize("loss_only", [False, True])
@pytest.mark.parametrize("config", CONFIGS)
def test_gradients(config, loss_only):
    """The start token is not the pad here, whose vector Marian never trains (`padding_idx`)."""
    ours, peer = pair(config, decoder_start_token_id=1)
    ours(**batch(), loss_only=loss_only).loss.backward()
    peer(**batch()).loss.backward()
    assert_same_gradients(ours, peer, marian_weights)


@pytest.mark.parametrize("num_beams", [1, 4])
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("config", CONFIGS)
def test_generation(config, use_cache, num_beams):
    ours, peer = pair(config)
    source = {name: each for name, each in batch().items() if name != "labels"}
    settings = {
        "max_new_tokens": 15,
        "num_beams": num_beams,
        "do_sample": False,
        "use_cache": use_cache,
        "decoder_start_token_id": ours.config.decoder_start_token_id,
        **TOKENS,
    }
    generated, expected = (model.generate(**source, **settings) for model in (ours, peer))
    assert torch.equal(generated, expected)


def test_a_bias_of_the_output_layer():
    """What Marian trains has one; the library keeps it as a buffer, which is zero in a new model."""
    ours, peer = pair(output_bias=True)
    with torch.no_grad():
        output, expected = ours(**batch()), peer(**batch())
    torch.testing.assert_close(output.logits, expected.logits, **CLOSE)
    torch.testing.assert_close(output.loss, expected.loss, **CLOSE)
    assert not torch.allclose(peer.final_logits_bias, torch.zeros(()))
