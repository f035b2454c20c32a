"""Attention: first an equation, then a module.

Axes: B batch, T target length (queries), S source length (keys), D width of the model, H query heads, G key-value
heads, K width of a head.
"""

import torch
from torch import nn
from transformers import Cache, EncoderDecoderCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from .configuration_transformer import TransformerConfigBase
from .positions import rotate


def dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scaled dot-product attention ("Attention Is All You Need", equation 1).

        Attention(Q, K, V) = softmax(Q Kᵀ · scale) V,  scale = 1/√K

    The softmax is taken in float32 whatever the inputs' type, so that a mask can neither overflow nor leak.

    Args:
        query: (..., T, K).
        key: (..., S, K).
        value: (..., S, V).
        mask: broadcastable to (..., T, S): boolean with True where a query may look, or a number that is added.
        scale: `None` for one over the square root of the key's width.
        dropout: probability with which a weight is dropped.

    Returns:
        The output (..., T, V) and the weights (..., T, S), whose rows sum to one before dropout.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = ((query * scale) @ key.transpose(-2, -1)).float()  # (..., T, S)
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        else:
            scores = scores + mask
    weights = torch.softmax(scores, dim=-1).to(value.dtype)  # (..., T, S)
    weights = nn.functional.dropout(weights, p=dropout)
    return weights @ value, weights


def eager_attention(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **kwargs,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`dot_product_attention` behind the signature of transformers' attention interface.

    Returns:
        The output (B, T, H, K) and the weights (B, H, T, S).
    """
    if (groups := module.num_key_value_groups) > 1:
        key, value = (states.repeat_interleave(groups, dim=1) for states in (key, value))  # (B, H, S, K) each
    output, weights = dot_product_attention(query, key, value, attention_mask, scaling, dropout)
    return output.transpose(1, 2), weights


class MultiHeadAttention(nn.Module):
    """Multi-head attention ("Attention Is All You Need", section 3.2.2): self-, causal and cross-attention alike.

    Queries come from one sequence, keys and values from the same sequence (self-attention; causal if each query sees
    only what stands before it) or from another one (cross-attention). Projections that read the same input are one
    matrix: it is one product instead of three.

    Args:
        config: widths, heads, biases, dropout.
        layer_idx: number of the layer, under which the cache keeps its keys and values.
        is_causal: what the kernel does when it is given no mask.
        is_cross_attention: take keys and values from another sequence.
        projects_key_value: False if the caller projects keys and values (once for all layers) and hands them over.
    """

    def __init__(
        self,
        config: TransformerConfigBase,
        layer_idx: int,
        is_causal: bool = False,
        is_cross_attention: bool = False,
        projects_key_value: bool = True,
    ):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.is_causal = is_causal
        self.is_cross_attention = is_cross_attention
        self.head_dim = config.head_dim
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        self.scaling = config.head_dim**-0.5
        self.query_size = config.num_attention_heads * config.head_dim
        self.key_value_size = config.num_key_value_heads * config.head_dim

        width, bias = config.hidden_size, config.attention_bias
        if is_cross_attention:
            self.q_proj = nn.Linear(width, self.query_size, bias=bias)
            self.kv_proj = nn.Linear(width, 2 * self.key_value_size, bias=bias) if projects_key_value else None
        else:
            self.qkv_proj = nn.Linear(width, self.query_size + 2 * self.key_value_size, bias=bias)
        output_bias = bias if config.attention_output_bias is None else config.attention_output_bias
        self.out_proj = nn.Linear(self.query_size, width, bias=output_bias)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        key_value_states: torch.Tensor | None = None,
        key_value: torch.Tensor | None = None,
        rotary: tuple[torch.Tensor, torch.Tensor] | None = None,
        cache: Cache | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Attend, and return the output (B, T, D) and, where the kernel gives them, the weights (B, H, T, S).

        Args:
            hidden_states: where the queries come from, (B, T, D).
            attention_mask: as transformers' mask functions make it for the chosen kernel.
            key_value_states: where a cross-attention's keys and values come from, (B, S, D).
            key_value: a cross-attention's keys and values themselves, (B, S, 2 · G · K).
            rotary: cosines and sines from `RotaryPositions`.
            cache: keys and values of earlier positions; extended in place.
        """
        if self.is_cross_attention:
            query = split_heads(self.q_proj(hidden_states), self.head_dim)  # (B, H, T, K)
            key, value = self._cross_key_value(key_value_states, key_value, cache)  # (B, G, S, K)
        else:
            sizes = (self.query_size, self.key_value_size, self.key_value_size)
            query, key, value = (
                split_heads(states, self.head_dim) for states in self.qkv_proj(hidden_states).split(sizes, dim=-1)
            )  # (B, H, T, K), (B, G, T, K), (B, G, T, K)
            if rotary is not None:
                query, key = rotate(query, *rotary), rotate(key, *rotary)
            if cache is not None:
                own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
                key, value = own.update(key, value, self.layer_idx)  # (B, G, S, K)

        output, weights = self._attend(query, key, value, attention_mask, **kwargs)  # (B, T, H, K), (B, H, T, S)
        return self.out_proj(output.flatten(2)), weights

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
        **kwargs,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Call the configured kernel.

        In training on the CPU it computes in float32 even under bfloat16 autocast: there the projections gain from
        bfloat16, but the backward pass of SDPA loses more than they gain.
        """
        kernel = self.config._attn_implementation
        if self.is_cross_attention and is_flash(self.config):
            kernel = "sdpa"  # the flash kernels take a source's padding for the target's
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(kernel, eager_attention)
        kwargs |= {"dropout": self.config.attention_dropout if self.training else 0.0, "scaling": self.scaling}
        if not (value.dtype == torch.bfloat16 and value.device.type == "cpu" and value.requires_grad):
            return attend(self, query, key, value, mask, **kwargs)
        if mask is not None and mask.is_floating_point():
            mask = mask.float()
        with torch.autocast("cpu", enabled=False):
            output, weights = attend(self, query.float(), key.float(), value.float(), mask, **kwargs)
        return output.to(value.dtype), weights

    def _cross_key_value(
        self,
        key_value_states: torch.Tensor | None,
        key_value: torch.Tensor | None,
        cache: EncoderDecoderCache | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of the other sequence: from the cache after the first step, which never changes them."""
        if cache is not None and cache.is_updated.get(self.layer_idx):
            layer = cache.cross_attention_cache.layers[self.layer_idx]
            return layer.keys, layer.values
        if key_value is None:
            key_value = self.kv_proj(key_value_states)  # (B, S, 2 · G · K)
        key, value = (split_heads(states, self.head_dim) for states in key_value.chunk(2, dim=-1))  # (B, G, S, K)
        if cache is not None:
            key, value = cache.cross_attention_cache.update(key, value, self.layer_idx)
            cache.is_updated[self.layer_idx] = True
        return key, value


def is_flash(config: TransformerConfigBase) -> bool:
    """Whether the configured kernel is one of the flash attention family."""
    return "flash" in (config._attn_implementation or "")


def split_heads(states: torch.Tensor, head_dim: int) -> torch.Tensor:
    """(B, T, heads · K) to (B, heads, T, K)."""
    return states.unflatten(-1, (-1, head_dim)).transpose(1, 2)
