"""Weights of independent implementations under this package's names.

Two functions a family: `<family>_config` reads a peer's configuration as one of ours, `<family>_weights` gives a
peer's weights our names and layout. The second is linear in the weights, so it maps gradients as well.
"""

import re
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn

from regard.modeling import TransformerConfig, TransformerDecoderConfig, TransformerEncoderConfig

Weights = dict[str, torch.Tensor]


def rename(weights: Weights, rules: Iterable[tuple[str, str]]) -> Weights:
    """Apply each (pattern, replacement) in turn to every name."""
    renamed = {}
    for name, weight in weights.items():
        for pattern, replacement in rules:
            name = re.sub(pattern, replacement, name)
        renamed[name] = weight
    return renamed


def fuse(weights: Weights, parts: Sequence[str], whole: str) -> Weights:
    """Stack the rows of projections that read the same input: `x.q_proj.weight`, ... become `x.qkv_proj.weight`."""
    fused = {}
    for name, weight in weights.items():
        owner, _, kind = name.rpartition(".")  # "layers.0.self_attn.q_proj", "weight"
        parent, _, part = owner.rpartition(".")
        if part == parts[0]:
            fused[f"{parent}.{whole}.{kind}"] = torch.cat([weights[f"{parent}.{each}.{kind}"] for each in parts])
        elif part not in parts:
            fused[name] = weight
    return fused


# torch.nn.MultiheadAttention, nn.TransformerEncoder, nn.TransformerDecoder: weights only, there is no configuration.


def torch_self_attention_weights(weights: Weights) -> Weights:
    """`nn.MultiheadAttention` over one sequence: `in_proj` is queries, keys and values, stacked as here."""
    return rename(weights, [(r"in_proj_(weight|bias)$", r"qkv_proj.\1")])


def torch_cross_attention_weights(weights: Weights) -> Weights:
    """`nn.MultiheadAttention` from one sequence to another."""
    split = {}
    for name, weight in weights.items():
        prefix, stacked, kind = name.partition("in_proj_")
        if not stacked:
            split[name] = weight
            continue
        width = len(weight) // 3
        split[f"{prefix}q_proj.{kind}"], split[f"{prefix}kv_proj.{kind}"] = weight.split([width, 2 * width])
    return split


def torch_stack_weights(weights: Weights) -> Weights:
    """`nn.TransformerEncoder` or `nn.TransformerDecoder`; the latter's `multihead_attn` is the cross-attention."""
    is_decoder = any("multihead_attn" in name for name in weights)
    weights = rename(weights, [("multihead_attn", "cross_attn"), ("linear1", "feed_forward.up_proj")])
    cross = {name: weight for name, weight in weights.items() if ".cross_attn." in name}
    own = {name: weight for name, weight in weights.items() if name not in cross}
    norms = ["self_attn", "cross_attn", "feed_forward"] if is_decoder else ["self_attn", "feed_forward"]
    return rename(
        torch_self_attention_weights(own) | torch_cross_attention_weights(cross),
        [("linear2", "feed_forward.down_proj")]
        + [(rf"\.norm{number}\.", f".{name}_sublayer.norm.") for number, name in enumerate(norms, start=1)],
    )


# BERT


def bert_config(config) -> TransformerEncoderConfig:
    return TransformerEncoderConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        hidden_act=config.hidden_act,
        norm_eps=config.layer_norm_eps,
        position_embedding_type="learned",
        max_position_embeddings=config.max_position_embeddings,
        scale_embedding=False,
        embedding_norm=True,
        type_vocab_size=config.type_vocab_size,
        attention_bias=True,
        dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        classifier_dropout=config.classifier_dropout,
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_word_embeddings,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        num_labels=config.num_labels,
        problem_type=config.problem_type,
    )


def bert_weights(weights: Weights) -> Weights:
    """Any head over BERT. A bare `BertModel` has no prefix `bert.` in its names: put it there before."""
    weights = rename(
        weights,
        [
            # A pooler belongs to the classification head here, and BERT's classifier is that head's second matrix; the
            # classifier of single tokens has no pooler and keeps its name.
            *([(r"^classifier\.", "classifier.out_proj.")] if "bert.pooler.dense.weight" in weights else []),
            (r"^bert\.pooler\.dense\.", "classifier.dense."),
            (r"^bert\.encoder\.layer\.", "model.layers."),
            (r"^bert\.embeddings\.", "model.embeddings."),
            (r"word_embeddings", "embed_tokens"),
            (r"position_embeddings", "embed_positions"),
            (r"token_type_embeddings", "embed_types"),
            (r"embeddings\.LayerNorm", "embeddings.norm"),
            (r"attention\.self\.", "self_attn."),
            (r"attention\.output\.dense", "self_attn.out_proj"),
            (r"attention\.output\.LayerNorm", "self_attn_sublayer.norm"),
            (r"intermediate\.dense", "feed_forward.up_proj"),
            (r"output\.dense", "feed_forward.down_proj"),
            (r"output\.LayerNorm", "feed_forward_sublayer.norm"),
            (r"^cls\.predictions\.transform\.LayerNorm", "transform.norm"),
            (r"^cls\.predictions\.transform", "transform"),
            (r"^cls\.predictions\.decoder", "lm_head"),
            (r"^cls\.predictions\.bias", "lm_head.bias"),
        ],
    )
    return fuse(weights, ("query", "key", "value"), "qkv_proj")


# GPT-2


def gpt2_config(config) -> TransformerDecoderConfig:
    return TransformerDecoderConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.n_embd,
        num_hidden_layers=config.n_layer,
        num_attention_heads=config.n_head,
        intermediate_size=config.n_inner or 4 * config.n_embd,
        hidden_act=config.activation_function,
        norm_position="pre",
        norm_eps=config.layer_norm_epsilon,
        position_embedding_type="learned",
        max_position_embeddings=config.n_positions,
        scale_embedding=False,
        attention_bias=True,
        dropout=config.resid_pdrop,
        attention_dropout=config.attn_pdrop,
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_word_embeddings,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
    )


def gpt2_weights(weights: Weights) -> Weights:
    """GPT-2 keeps its matrices as (in, out)."""
    matrices = re.compile(r"\.(c_attn|c_proj|c_fc)\.weight$")
    weights = {name: weight.T if matrices.search(name) else weight for name, weight in weights.items()}
    return rename(
        weights,
        [
            (r"^transformer\.wte", "model.embeddings.embed_tokens"),
            (r"^transformer\.wpe", "model.embeddings.embed_positions"),
            (r"^transformer\.ln_f", "model.norm"),
            (r"^transformer\.h\.", "model.layers."),
            (r"attn\.c_attn", "self_attn.qkv_proj"),
            (r"attn\.c_proj", "self_attn.out_proj"),
            (r"mlp\.c_fc", "feed_forward.up_proj"),
            (r"mlp\.c_proj", "feed_forward.down_proj"),
            (r"ln_1", "self_attn_sublayer.norm"),
            (r"ln_2", "feed_forward_sublayer.norm"),
        ],
    )


# Llama


def llama_config(config) -> TransformerDecoderConfig:
    return TransformerDecoderConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        intermediate_size=config.intermediate_size,
        hidden_act=config.hidden_act,
        gated_mlp=True,
        norm_type="rmsnorm",
        norm_position="pre",
        norm_eps=config.rms_norm_eps,
        position_embedding_type="rotary",
        position_base=config.rope_parameters["rope_theta"],
        max_position_embeddings=config.max_position_embeddings,
        scale_embedding=False,
        attention_bias=config.attention_bias,
        mlp_bias=config.mlp_bias,
        dropout=0.0,
        attention_dropout=config.attention_dropout,
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_word_embeddings,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
    )


def llama_weights(weights: Weights) -> Weights:
    weights = rename(
        weights,
        [
            (r"^model\.embed_tokens", "model.embeddings.embed_tokens"),
            (r"self_attn\.o_proj", "self_attn.out_proj"),
            (r"mlp\.", "feed_forward."),
            (r"input_layernorm", "self_attn_sublayer.norm"),
            (r"post_attention_layernorm", "feed_forward_sublayer.norm"),
        ],
    )
    weights = fuse(weights, ("q_proj", "k_proj", "v_proj"), "qkv_proj")
    return fuse(weights, ("gate_proj", "up_proj"), "up_proj")


# Marian


def marian_config(config) -> TransformerConfig:
    return TransformerConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.d_model,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        num_attention_heads=config.encoder_attention_heads,
        intermediate_size=config.encoder_ffn_dim,
        hidden_act=config.activation_function,
        position_embedding_type="sinusoidal",
        max_position_embeddings=config.max_position_embeddings,
        scale_embedding=config.scale_embedding,
        attention_bias=True,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.activation_dropout,
        initializer_range=config.init_std,
        label_smoothing=0.0,
        tie_word_embeddings=config.tie_word_embeddings,
        pad_token_id=config.pad_token_id,
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )


def marian_weights(weights: Weights) -> Weights:
    """Marian puts all sines before all cosines where the paper interleaves them: the same model with its residual
    stream in another order, which every matrix that reads or writes the stream follows.

    Raises:
        ValueError: if `final_logits_bias` is not zero, for which there is no place here.
    """
    weights = {name: weight for name, weight in weights.items() if "embed_positions" not in name}
    if weights.pop("final_logits_bias", torch.zeros(1)).any():
        raise ValueError("final_logits_bias is not zero: the output layer has no bias here.")

    width = next(weight.shape[-1] for name, weight in weights.items() if name.endswith("q_proj.weight"))
    interleaved = torch.arange(width).view(2, width // 2).T.flatten()  # 0, D/2, 1, D/2 + 1, ...
    reads = re.compile(r"(q_proj|k_proj|v_proj|fc1|shared|embed_tokens|lm_head)\.weight$")
    writes = re.compile(r"(out_proj|fc2|layer_norm)\.(weight|bias)$")
    for name, weight in weights.items():
        if reads.search(name):
            weights[name] = weight[:, interleaved]
        elif writes.search(name):
            weights[name] = weight[interleaved]

    weights = rename(
        weights,
        [
            (r"model\.shared", "model.encoder.embed_tokens"),
            (r"embed_tokens", "embeddings.embed_tokens"),
            (r"encoder_attn_layer_norm", "cross_attn_sublayer.norm"),
            (r"encoder_attn", "cross_attn"),
            (r"self_attn_layer_norm", "self_attn_sublayer.norm"),
            (r"final_layer_norm", "feed_forward_sublayer.norm"),
            (r"fc1", "feed_forward.up_proj"),
            (r"fc2", "feed_forward.down_proj"),
        ],
    )
    cross = {name: weight for name, weight in weights.items() if ".cross_attn." in name}
    own = {name: weight for name, weight in weights.items() if name not in cross}
    own = fuse(own, ("q_proj", "k_proj", "v_proj"), "qkv_proj")
    return own | fuse(cross, ("k_proj", "v_proj"), "kv_proj")


# What the tests share


def randomize(model: nn.Module, seed: int = 0, std: float = 0.1) -> nn.Module:
    """Noise on every weight, so that no norm is one, no bias zero, and a part mapped wrongly shows; in eval mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # Marian's sinusoids are a frozen parameter
                parameter.add_(torch.randn(parameter.shape, generator=generator) * std)
    return model.eval()


def mapped(ours: nn.Module, weights: Weights) -> nn.Module:
    """Our model with these weights, every one of them and no other, in eval mode."""
    ours.load_state_dict(weights, strict=True)
    return ours.eval()


def assert_same_gradients(ours: nn.Module, peer: nn.Module, weights: Callable[[Weights], Weights]) -> None:
    """After a backward pass through both: the peer's gradients under our names are ours."""
    expected = weights({name: each.grad for name, each in peer.named_parameters() if each.grad is not None})
    actual = {name: each.grad for name, each in ours.named_parameters()}
    assert expected.keys() == actual.keys()
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def assert_same_maps(ours: Sequence[torch.Tensor], peer: Sequence[torch.Tensor], real: torch.Tensor) -> None:
    """Attention weights (B, H, T, S) of each layer are equal where the query is a real token, bool of (B, T)."""
    assert len(ours) == len(peer) > 0
    for weights, expected in zip(ours, peer, strict=True):
        torch.testing.assert_close(weights.transpose(1, 2)[real], expected.transpose(1, 2)[real], rtol=1e-5, atol=1e-5)


def ids_and_mask(vocab_size: int, shape: tuple[int, int], pads: Sequence[int], side: str, pad_token_id: int = 0):
    """Random tokens, row i with `pads[i]` pads on one side; no special token among the real ones.

    Returns:
        ids and mask, int64 of this shape.
    """
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(5, vocab_size, shape, generator=generator)
    mask = torch.ones_like(ids)
    for row, count in enumerate(pads):
        where = slice(0, count) if side == "left" else slice(shape[1] - count, None)
        ids[row, where], mask[row, where] = pad_token_id, 0
    return ids, mask


def positions_of_real_tokens(mask: torch.Tensor) -> torch.Tensor:
    """Real tokens counted from 0, for peers that would count the pads before them."""
    return (mask.cumsum(-1) - 1).clamp(min=0)
