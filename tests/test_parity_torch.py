"""Attention and layers against torch's: `scaled_dot_product_attention`, `MultiheadAttention`, `nn.Transformer`."""

import pytest
import torch
from torch import nn

from regard.modeling import (
    TransformerConfig,
    TransformerDecoderModel,
    TransformerEncoderConfig,
    TransformerEncoderModel,
    TransformerModel,
)
from regard.modeling.attention import MultiHeadAttention, dot_product_attention
from regard.modeling.losses import SmoothedCrossEntropy, cross_entropy

from .parity import (
    assert_same_gradients,
    ids_and_mask,
    mapped,
    randomize,
    torch_cross_attention_weights,
    torch_self_attention_weights,
    torch_stack_weights,
)

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SHAPES = [(8, 1, 16), (32, 4, 64), (48, 6, 40)]  # width, heads, feed-forward


def causal(length: int) -> torch.Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("kind", ["none", "boolean", "added"])
def test_pure_function_is_sdpa(kind, scale):
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 4)
    boolean = torch.rand(2, 1, 5, 7) < 0.6
    boolean[..., 0] = True
    mask = {"none": None, "boolean": boolean, "added": torch.randn(5, 7)}[kind]
    output, weights = dot_product_attention(query, key, value, mask, scale)
    expected = nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=scale)
    torch.testing.assert_close(output, expected, **CLOSE)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5), **CLOSE)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_and_its_gradient_are_torchs(smoothing):
    torch.manual_seed(0)
    logits, peer_logits = (torch.randn(12, 7, generator=torch.Generator().manual_seed(0)) for _ in range(2))
    labels = torch.randint(7, (12,)).masked_fill(torch.rand(12) < 0.3, -100)
    loss = cross_entropy(logits.requires_grad_(), labels, label_smoothing=smoothing)
    expected = nn.functional.cross_entropy(peer_logits.requires_grad_(), labels, label_smoothing=smoothing)
    (3 * loss).backward()
    (3 * expected).backward()
    torch.testing.assert_close(loss, expected, **CLOSE)
    torch.testing.assert_close(logits.grad, peer_logits.grad, **CLOSE)
    exact = torch.randn(12, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda each: SmoothedCrossEntropy.apply(each, labels, smoothing), exact)


@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_loss_keeps_its_digits_far_from_zero(offset):
    """Only differences of logits count; against torch's loss in float64. Rows enough for several parts."""
    torch.manual_seed(0)
    logits, labels = torch.randn(90, 6000) + offset, torch.randint(6000, (90,))
    exact = logits.double().requires_grad_()
    expected = nn.functional.cross_entropy(exact, labels, label_smoothing=0.1)
    loss = cross_entropy(logits.requires_grad_(), labels, label_smoothing=0.1)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(logits.grad.double(), exact.grad, rtol=1e-4, atol=1e-9)


def test_loss_compiles_once_for_any_number_of_targets():
    torch._dynamo.reset()
    compiled = torch.compile(cross_entropy, fullgraph=True, backend="eager")
    with torch._dynamo.config.patch(recompile_limit=2, fail_on_recompile_limit_hit=True):
        for number in range(2, 14):
            logits, labels = torch.randn(number, 7), torch.arange(number) % 7
            expected = nn.functional.cross_entropy(logits, labels)
            torch.testing.assert_close(compiled(logits, labels), expected, **CLOSE)


def test_labels_out_of_range_are_refused():
    """Only -100 is ignored; torch's own loss refuses these too."""
    for label in (-1, 7):
        with pytest.raises(RuntimeError, match="out of bounds"):
            cross_entropy(torch.randn(2, 7), torch.tensor([0, label]))


def attention_pair(width: int, heads: int, bias: bool, kernel: str, cross: bool = False, is_causal: bool = False):
    """Ours and torch's multi-head attention with the same weights."""
    torch.manual_seed(0)
    peer = randomize(nn.MultiheadAttention(width, heads, bias=bias, batch_first=True))
    config = TransformerEncoderConfig(
        hidden_size=width, num_attention_heads=heads, attention_bias=bias, attn_implementation=kernel
    )
    ours = MultiHeadAttention(config, 0, is_causal=is_causal, is_cross_attention=cross)
    weights = torch_cross_attention_weights if cross else torch_self_attention_weights
    return mapped(ours, weights(peer.state_dict())), peer


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("width", "heads", "_"), SHAPES)
def test_self_attention_is_multihead_attention(width, heads, _, bias, kernel):
    ours, peer = attention_pair(width, heads, bias, kernel)
    states = torch.randn(3, 6, width)
    real = ids_and_mask(9, (3, 6), (0, 2, 4), "right")[1].bool()
    output, weights = ours(states, real[:, None, None, :])
    expected, expected_weights = peer(states, states, states, key_padding_mask=~real, average_attn_weights=False)
    torch.testing.assert_close(output, expected, **CLOSE)
    if kernel == "eager":
        torch.testing.assert_close(weights, expected_weights, **CLOSE)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize(("width", "heads", "_"), SHAPES)
def test_causal_attention_is_multihead_attention(width, heads, _, kernel):
    ours, peer = attention_pair(width, heads, True, kernel, is_causal=True)
    states = torch.randn(3, 6, width)
    mask = causal(6)[None, None] if kernel == "eager" else None  # sdpa is told by the module
    expected = peer(states, states, states, attn_mask=~causal(6), need_weights=False)[0]
    torch.testing.assert_close(ours(states, mask)[0], expected, **CLOSE)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("width", "heads", "_"), SHAPES)
def test_cross_attention_is_multihead_attention(width, heads, _, bias, kernel):
    ours, peer = attention_pair(width, heads, bias, kernel, cross=True)
    states, source = torch.randn(3, 4, width), torch.randn(3, 7, width)
    real = ids_and_mask(9, (3, 7), (0, 2, 4), "left")[1].bool()
    output = ours(states, real[:, None, None, :], key_value_states=source)[0]
    expected = peer(states, source, source, key_padding_mask=~real, need_weights=False)[0]
    torch.testing.assert_close(output, expected, **CLOSE)


def stack_config(width, heads, inner, position, activation, layers=2) -> TransformerConfig:
    """A bare stack of layers: embeddings are given, without positions, scale or dropout."""
    return TransformerConfig(
        vocab_size=10,
        hidden_size=width,
        encoder_layers=layers,
        decoder_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        hidden_act=activation,
        norm_position=position,
        position_embedding_type="none",
        scale_embedding=False,
        attention_bias=True,
        dropout=0.0,
    )


def torch_stack(kind: str, width, heads, inner, position, activation, layers=2) -> nn.Module:
    torch.manual_seed(0)
    layer = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}[kind](
        width, heads, inner, dropout=0.0, activation=activation, batch_first=True, norm_first=position == "pre"
    )
    norm = nn.LayerNorm(width) if position == "pre" else None
    if kind == "encoder":
        return randomize(nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False))
    return randomize(nn.TransformerDecoder(layer, layers, norm))


def with_embeddings(model, weights):
    """The stack's weights with the token table of our model, which these tests do not use."""
    return weights | {"embeddings.embed_tokens.weight": model.embeddings.embed_tokens.weight}


STACKS = [(*shape, position, act) for shape in SHAPES for position in ("post", "pre") for act in ("relu", "gelu")]


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("stack", STACKS)
def test_encoder_is_nn_transformer_encoder(stack, kernel):
    peer = torch_stack("encoder", *stack)
    config = stack_config(*stack)
    config._attn_implementation = kernel
    ours = TransformerEncoderModel(config)
    mapped(ours, with_embeddings(ours, torch_stack_weights(peer.state_dict())))
    states = torch.randn(3, 7, stack[0])
    for side in ("left", "right"):
        mask = ids_and_mask(9, (3, 7), (0, 2, 4), side)[1]
        output = ours(inputs_embeds=states, attention_mask=mask).last_hidden_state
        expected = peer(states, src_key_padding_mask=~mask.bool())
        torch.testing.assert_close(output[mask.bool()], expected[mask.bool()], **CLOSE)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("stack", STACKS)
def test_decoder_is_nn_transformer_decoder(stack, kernel):
    peer = torch_stack("decoder", *stack)
    config = stack_config(*stack)
    config._attn_implementation = kernel
    ours = TransformerDecoderModel(config)
    mapped(ours, with_embeddings(ours, torch_stack_weights(peer.state_dict())))
    states, source = torch.randn(3, 5, stack[0]), torch.randn(3, 7, stack[0])
    mask = ids_and_mask(9, (3, 7), (0, 2, 4), "right")[1]
    output = ours(inputs_embeds=states, encoder_hidden_states=source, encoder_attention_mask=mask).last_hidden_state
    expected = peer(states, source, tgt_mask=~causal(5), memory_key_padding_mask=~mask.bool())
    torch.testing.assert_close(output, expected, **CLOSE)


@pytest.mark.parametrize("position", ["post", "pre"])
def test_encoder_and_decoder_together_are_nn_transformer(position):
    stack = (32, 4, 64, position, "relu")
    encoder, decoder = torch_stack("encoder", *stack), torch_stack("decoder", *stack)
    peer = nn.Transformer(stack[0], stack[1], custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
    randomize(peer)
    ours = TransformerModel(stack_config(*stack))
    weights = {}
    for side, part in (("encoder", peer.encoder), ("decoder", peer.decoder)):
        named = with_embeddings(getattr(ours, side), torch_stack_weights(part.state_dict()))
        weights |= {f"{side}.{name}": weight for name, weight in named.items()}
    mapped(ours, weights)
    source, target = torch.randn(2, 7, 32), torch.randn(2, 5, 32)
    mask = ids_and_mask(9, (2, 7), (0, 3), "right")[1]
    output = ours(inputs_embeds=source, attention_mask=mask, decoder_inputs_embeds=target).last_hidden_state
    expected = peer(
        source,
        target,
        tgt_mask=~causal(5),
        src_key_padding_mask=~mask.bool(),
        memory_key_padding_mask=~mask.bool(),
    )
    torch.testing.assert_close(output, expected, **CLOSE)


@pytest.mark.parametrize("position", ["post", "pre"])
def test_gradients_are_those_of_nn_transformer_decoder(position):
    stack = (32, 4, 64, position, "gelu")
    peer = torch_stack("decoder", *stack)
    ours = TransformerDecoderModel(stack_config(*stack))
    mapped(ours, with_embeddings(ours, torch_stack_weights(peer.state_dict())))
    ours.embeddings.embed_tokens.weight.requires_grad_(False)
    states, source, direction = torch.randn(2, 5, 32), torch.randn(2, 7, 32), torch.randn(2, 5, 32)
    (ours(inputs_embeds=states, encoder_hidden_states=source).last_hidden_state * direction).sum().backward()
    (peer(states, source, tgt_mask=~causal(5)) * direction).sum().backward()
    del ours.embeddings
    assert_same_gradients(ours, peer, torch_stack_weights)
