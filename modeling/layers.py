"""The layers of the Transformer: feed-forward, residual and norm, encoder layer, decoder layer.

Axes: B batch, T target length, S source length, D width of the model, F inner width, G key-value heads, K head width.
"""

from collections.abc import Callable

import torch
from torch import nn
from transformers import Cache
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer

from .attention import MultiHeadAttention
from .configuration_transformer import TransformerConfigBase
from .positions import LearnedPositions, SinusoidalPositions


def make_norm(config: TransformerConfigBase) -> nn.Module:
    """The configured norm over the last axis."""
    if config.norm_type == "rmsnorm":
        return nn.RMSNorm(config.hidden_size, eps=config.norm_eps)
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=config.norm_bias)


def make_activation(config: TransformerConfigBase) -> nn.Module:
    """The configured activation. GPT-2's `gelu_new` is taken as its twin that computes the same in one kernel."""
    return ACT2FN["gelu_pytorch_tanh" if config.hidden_act == "gelu_new" else config.hidden_act]


class Embeddings(nn.Module):
    """Token, position and type embeddings, summed ("Attention Is All You Need", sections 3.4 and 3.5).

    There is no `padding_idx`: padding is the attention mask's business, and a tokenizer whose pad token is also its
    end token must be able to learn that token's vector.
    """

    def __init__(self, config: TransformerConfigBase):
        super().__init__()
        width, kind = config.hidden_size, config.position_embedding_type
        self.scale = width**0.5 if config.scale_embedding else 1.0
        self.embed_tokens = nn.Embedding(config.vocab_size, width)
        self.embed_positions = None
        if kind == "sinusoidal":
            self.embed_positions = SinusoidalPositions(config.max_position_embeddings, width, config.position_base)
        elif kind == "learned":
            self.embed_positions = LearnedPositions(config.max_position_embeddings, width)
        self.embed_types = nn.Embedding(config.type_vocab_size, width) if config.type_vocab_size else None
        self.norm = make_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        inputs_embeds: torch.Tensor,
        position_ids: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
        num_positions: int | None = None,
    ) -> torch.Tensor:
        """Sum of shape (B, T, D).

        Args:
            inputs_embeds: what `embed_tokens` gives, before scaling, (B, T, D).
            position_ids: int64 of shape (B or 1, T).
            token_type_ids: int64 of shape (B, T); `None` means type 0. Without types in the model it is ignored, since
                tokenizers hand it out unasked.
            num_positions: all positions lie below this, if it is known without looking at them.
        """
        hidden_states = inputs_embeds if self.scale == 1.0 else inputs_embeds * self.scale
        if self.embed_positions is not None:
            hidden_states = hidden_states + self.embed_positions(position_ids, num_positions).to(hidden_states.dtype)
        if self.embed_types is not None:
            if token_type_ids is None:
                token_type_ids = torch.zeros_like(position_ids)
            hidden_states = hidden_states + self.embed_types(token_type_ids)
        return self.dropout(self.norm(hidden_states))


class FeedForward(nn.Module):
    """FFN(x) = act(x W₁ + b₁) W₂ + b₂ ("Attention Is All You Need", equation 2), at each position alike.

    Gated (Shazeer, 2020, equation 6), act(x W₁) is multiplied by a second projection of x before W₂.
    """

    def __init__(self, config: TransformerConfigBase):
        super().__init__()
        inner = config.intermediate_size
        self.gated = config.gated_mlp
        self.up_proj = nn.Linear(config.hidden_size, 2 * inner if self.gated else inner, bias=config.mlp_bias)
        self.down_proj = nn.Linear(inner, config.hidden_size, bias=config.mlp_bias)
        self.activation = make_activation(config)
        self.dropout = nn.Dropout(config.activation_dropout)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """(B, T, D) to (B, T, D)."""
        inner = self.up_proj(hidden_states)  # (B, T, F), or (B, T, 2F) gated
        if self.gated:
            gate, inner = inner.chunk(2, dim=-1)  # (B, T, F) each
            inner = self.activation(gate) * inner
        else:
            inner = self.activation(inner)
        return self.down_proj(self.dropout(inner))


class Sublayer(nn.Module):
    """The residual connection and norm around a sub-layer ("Attention Is All You Need", section 3.1).

    Post-norm, as in the paper: LayerNorm(x + Dropout(f(x))). Pre-norm: x + Dropout(f(LayerNorm(x))).
    """

    def __init__(self, config: TransformerConfigBase):
        super().__init__()
        self.pre_norm = config.norm_position == "pre"
        self.norm = make_norm(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden_states: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """(B, T, D) to (B, T, D)."""
        if self.pre_norm:
            return hidden_states + self.dropout(function(self.norm(hidden_states)))
        return self.norm(hidden_states + self.dropout(function(hidden_states)))


class TransformerEncoderLayer(GradientCheckpointingLayer):
    """Self-attention over the whole sequence, then feed-forward."""

    def __init__(self, config: TransformerConfigBase, layer_idx: int):
        super().__init__()
        self.self_attn = MultiHeadAttention(config, layer_idx)
        self.feed_forward = FeedForward(config)
        self.self_attn_sublayer = Sublayer(config)
        self.feed_forward_sublayer = Sublayer(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        rotary: tuple[torch.Tensor, torch.Tensor] | None = None,
        **kwargs,
    ) -> torch.Tensor:
        """(B, T, D) to (B, T, D)."""
        hidden_states = self.self_attn_sublayer(
            hidden_states, lambda states: self.self_attn(states, attention_mask, rotary=rotary, **kwargs)[0]
        )
        return self.feed_forward_sublayer(hidden_states, self.feed_forward)


class TransformerDecoderLayer(GradientCheckpointingLayer):
    """Causal self-attention, cross-attention if there is an encoder, then feed-forward."""

    def __init__(self, config: TransformerConfigBase, layer_idx: int):
        super().__init__()
        self.self_attn = MultiHeadAttention(config, layer_idx, is_causal=True)
        self.self_attn_sublayer = Sublayer(config)
        if config.is_encoder_decoder:
            per_layer = config.cross_attention_key_value == "per_layer"
            self.cross_attn = MultiHeadAttention(
                config, layer_idx, is_cross_attention=True, projects_key_value=per_layer
            )
            self.cross_attn_sublayer = Sublayer(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_sublayer = Sublayer(config)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_key_value: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        rotary: tuple[torch.Tensor, torch.Tensor] | None = None,
        cache: Cache | None = None,
        **kwargs,
    ) -> torch.Tensor:
        """(B, T, D) to (B, T, D); `encoder_hidden_states` is (B, S, D), `encoder_key_value` (B, S, 2 · G · K).

        Tensors with gradients come by position: reentrant gradient checkpointing cuts the graph at those alone.
        """
        hidden_states = self.self_attn_sublayer(
            hidden_states,
            lambda states: self.self_attn(states, attention_mask, rotary=rotary, cache=cache, **kwargs)[0],
        )
        if encoder_hidden_states is not None:
            hidden_states = self.cross_attn_sublayer(
                hidden_states,
                lambda states: self.cross_attn(
                    states,
                    encoder_attention_mask,
                    key_value_states=encoder_hidden_states,
                    key_value=encoder_key_value,
                    cache=cache,
                    **kwargs,
                )[0],
            )
        return self.feed_forward_sublayer(hidden_states, self.feed_forward)
