"""What the tests against independent implementations share, and the weights of torch's own layers under our names.

Those of the library's models are mapped by what `regard convert` uses: `regard.train.convert_configs` and
`regard.train.convert_weights`.
"""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from regard.train.convert_weights import Weights, rename

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


# For all of them


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
