"""The library's weights under this package's names, a family a function.

Each function takes weights under the names of the library's own class with its head, and is linear in them, so that it
maps gradients as well. What it does not know keeps its name.
"""

import re
from collections.abc import Iterable, Sequence

import torch

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
    """Stack the rows of projections that read the same input: `x.q_proj.weight`, ... become `x.qkv_proj.weight`.

    Raises:
        ValueError: if some of the parts are there and others are not.
    """
    fused = {}
    for name, weight in weights.items():
        owner, _, kind = name.rpartition(".")  # "layers.0.self_attn.q_proj", "weight"
        parent, _, part = owner.rpartition(".")
        if part not in parts:
            fused[name] = weight
            continue
        names = [f"{parent}.{each}.{kind}" for each in parts]
        if missing := [each for each in names if each not in weights]:
            raise ValueError(f"{name} is there, and {', '.join(missing)} is missing.")
        if part == parts[0]:
            fused[f"{parent}.{whole}.{kind}"] = torch.cat([weights[each] for each in names])
    return fused


def without_first_positions(weights: Weights, count: int) -> Weights:
    """Learned positions, of weights under our names, without the first rows, which stand for no position."""
    return {name: each[count:] if name.endswith("embed_positions.weight") else each for name, each in weights.items()}


# Encoders


def bert_weights(weights: Weights) -> Weights:
    """Any head over BERT."""
    weights = dict(weights)
    if "cls.predictions.decoder.bias" in weights:
        weights.pop("cls.predictions.bias", None)  # another name of it
    weights = rename(
        weights,
        [
            # A pooler belongs to the classification head here, and BERT's classifier is that head's second matrix; the
            # classifier of single tokens has no pooler and keeps its name.
            *([(r"^classifier\.", "classifier.out_proj.")] if "bert.pooler.dense.weight" in weights else []),
            (r"^bert\.pooler\.dense\.", "classifier.dense."),
            *_BERT_LAYERS,
            (r"^cls\.predictions\.transform\.LayerNorm", "transform.norm"),
            (r"^cls\.predictions\.transform", "transform"),
            (r"^cls\.predictions\.decoder", "lm_head"),
            (r"^cls\.predictions\.bias", "lm_head.bias"),
        ],
    )
    return fuse(weights, ("query", "key", "value"), "qkv_proj")


_BERT_LAYERS = (
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
)


def roberta_weights(weights: Weights) -> Weights:
    """Any head over RoBERTa, with all rows of its positions: see `without_first_positions`."""
    weights = dict(weights)
    if "lm_head.decoder.bias" in weights:
        weights.pop("lm_head.bias", None)  # another name of it
    weights = rename(
        weights,
        [
            (r"^roberta\.", "bert."),
            *_BERT_LAYERS,
            (r"^lm_head\.dense", "transform.dense"),
            (r"^lm_head\.layer_norm", "transform.norm"),
            (r"^lm_head\.decoder", "lm_head"),
        ],
    )
    return fuse(weights, ("query", "key", "value"), "qkv_proj")


def distilbert_weights(weights: Weights) -> Weights:
    """Any head over DistilBERT."""
    weights = rename(
        weights,
        [
            *([(r"^classifier\.", "classifier.out_proj.")] if "pre_classifier.weight" in weights else []),
            (r"^pre_classifier\.", "classifier.dense."),
            (r"^vocab_transform", "transform.dense"),
            (r"^vocab_layer_norm", "transform.norm"),
            (r"^vocab_projector", "lm_head"),
            (r"^distilbert\.transformer\.layer\.", "model.layers."),
            (r"^distilbert\.embeddings\.", "model.embeddings."),
            (r"word_embeddings", "embed_tokens"),
            (r"position_embeddings", "embed_positions"),
            (r"embeddings\.LayerNorm", "embeddings.norm"),
            (r"\.attention\.", ".self_attn."),
            (r"out_lin", "out_proj"),
            (r"sa_layer_norm", "self_attn_sublayer.norm"),
            (r"ffn\.lin1", "feed_forward.up_proj"),
            (r"ffn\.lin2", "feed_forward.down_proj"),
            (r"output_layer_norm", "feed_forward_sublayer.norm"),
        ],
    )
    return fuse(weights, ("q_lin", "k_lin", "v_lin"), "qkv_proj")


# Decoders


def gpt2_weights(weights: Weights) -> Weights:
    """Any head over GPT-2, which keeps its matrices as (in, out)."""
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


def llama_weights(weights: Weights) -> Weights:
    """Any head over Llama, Mistral or Qwen2."""
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


# Encoder-decoders


def bart_weights(weights: Weights) -> Weights:
    """BART, with all rows of its positions: see `without_first_positions`."""
    weights = dict(weights)
    if "final_logits_bias" in weights:
        weights["lm_head.bias"] = weights.pop("final_logits_bias").flatten()  # (1, V) to (V,)
    weights = rename(
        weights,
        [
            (r"model\.shared", "model.encoder.embed_tokens"),
            (r"embed_(tokens|positions)", r"embeddings.embed_\1"),
            (r"layernorm_embedding", "embeddings.norm"),
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


def marian_weights(weights: Weights) -> Weights:
    """Marian puts all sines before all cosines where the paper interleaves them: the same model with its residual
    stream in another order, which every matrix that reads or writes the stream follows. Its sinusoids are left out.
    """
    weights = {name: weight for name, weight in weights.items() if "embed_positions" not in name}
    width = next(weight.shape[-1] for name, weight in weights.items() if name.endswith("q_proj.weight"))
    order = marian_stream_order(width)
    reads = re.compile(r"(q_proj|k_proj|v_proj|fc1|shared|embed_tokens|lm_head)\.weight$")
    writes = re.compile(r"(out_proj|fc2|layer_norm)\.(weight|bias)$")
    for name, weight in weights.items():
        if reads.search(name):
            weights[name] = weight[:, order]
        elif writes.search(name):
            weights[name] = weight[order]
    return bart_weights(weights)


def marian_stream_order(width: int) -> torch.Tensor:
    """Where each unit of our residual stream stands in Marian's: 0, D/2, 1, D/2 + 1, ... for an even width D."""
    return torch.arange(width).view(2, width // 2).T.flatten()
