"""The Transformer decoder: every token sees those before it (Vaswani et al., 2017; as GPT-2, Radford et al., 2019).

Axes: B batch, T length, S source length, D width, V vocabulary, N targets.
"""

import torch
from torch import nn
from transformers import Cache, DynamicCache, EncoderDecoderCache, GenerationMixin
from transformers.masking_utils import create_bidirectional_mask, create_causal_mask
from transformers.modeling_outputs import (
    BaseModelOutputWithPastAndCrossAttentions,
    CausalLMOutputWithPast,
    SequenceClassifierOutputWithPast,
)
from transformers.utils import can_return_tuple, is_torchdynamo_compiling, logging
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .attention import MultiHeadAttention, is_flash
from .compatibility import accept_both_cache_names, cache_field, cache_of
from .configuration_transformer import TransformerConfigBase, TransformerDecoderConfig
from .layers import Embeddings, TransformerDecoderLayer, make_norm
from .losses import IGNORE_INDEX, classification_loss, cross_entropy
from .modeling_base import RegardPreTrainedModel, default_position_ids, documents_in_row
from .positions import RotaryPositions

logger = logging.get_logger(__name__)


class TransformerDecoderPreTrainedModel(RegardPreTrainedModel):
    _no_split_modules = ["TransformerDecoderLayer"]
    config: TransformerDecoderConfig
    config_class = TransformerDecoderConfig
    auto_classes = {
        "AutoModel": "TransformerDecoderModel",
        "AutoModelForCausalLM": "TransformerDecoderForCausalLM",
        "AutoModelForSequenceClassification": "TransformerDecoderForSequenceClassification",
    }
    _can_record_outputs = {
        "hidden_states": TransformerDecoderLayer,
        "attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="self_attn"),
        "cross_attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="cross_attn"),
    }


class TransformerDecoderModel(TransformerDecoderPreTrainedModel):
    """Embeddings and a stack of causal layers; inside an encoder-decoder, each with cross-attention."""

    _auto_class = "AutoModel"

    def __init__(self, config: TransformerConfigBase):
        super().__init__(config)
        num_layers = config.decoder_layers if config.is_encoder_decoder else config.num_hidden_layers
        self.embeddings = Embeddings(config)
        rotary = config.position_embedding_type == "rotary"
        self.rotary = RotaryPositions(config.head_dim, config.position_base) if rotary else None
        self.cross_kv_proj = None
        if config.is_encoder_decoder and config.cross_attention_key_value == "shared":
            size = 2 * config.num_key_value_heads * config.head_dim
            self.cross_kv_proj = nn.Linear(config.hidden_size, size, bias=config.attention_bias)
        self.layers = nn.ModuleList(TransformerDecoderLayer(config, layer_idx) for layer_idx in range(num_layers))
        self.norm = make_norm(config) if config.norm_position == "pre" else nn.Identity()
        self.gradient_checkpointing = False
        self.mark_residual_projections()
        self.post_init()

    @accept_both_cache_names
    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Vectors that know their left context, `last_hidden_state` of shape (B, T, D).

        Args:
            input_ids: int64 of shape (B, T).
            attention_mask: (B, past + T) with 1 on real tokens and 0 on padding, on either side.
            token_type_ids: int64 of shape (B, T), if the model has types.
            position_ids: int64 of shape (B or 1, T); by default real tokens are counted from 0. Where a position does
                not follow the one before it, a new packed document begins, which sees nothing of the others.
            inputs_embeds: (B, T, D), instead of `input_ids`.
            encoder_hidden_states: (B, S, D), inside an encoder-decoder.
            encoder_attention_mask: (B, S).
            cache: keys and values of earlier positions, extended in place.
            use_cache: make a cache if none is given.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds.")
        if inputs_embeds is None:
            inputs_embeds = self.embeddings.embed_tokens(input_ids)  # (B, T, D)
        if self.gradient_checkpointing and self.training and torch.is_grad_enabled() and cache is not None:
            logger.warning_once("Gradient checkpointing runs each layer twice: the cache is left out.")
            cache, use_cache = None, False
        past = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
        documents, num_positions = None, None
        if position_ids is None:
            position_ids, num_positions = default_position_ids(inputs_embeds, attention_mask, past)
        else:
            documents = documents_in_row(position_ids, len(inputs_embeds), attention_mask, past)
        if documents is not None and is_flash(self.config):
            raise ValueError(
                "position_ids pack several documents in a row, and flash attention's kernel would let them see one "
                'another: load the model with attn_implementation="sdpa".'
            )
        if use_cache and cache is None:
            cache = DynamicCache(config=self.config)
        if cache is not None and encoder_hidden_states is not None and not isinstance(cache, EncoderDecoderCache):
            cache = EncoderDecoderCache(cache, DynamicCache(config=self.config))
        own_cache = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache

        hidden_states = self.embeddings(inputs_embeds, position_ids, token_type_ids, num_positions)
        mask = create_causal_mask(
            config=self.config,
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            and_mask_function=None if documents is None else same_document(documents),
            **cache_field(own_cache),
        )
        encoder_mask, encoder_key_value = None, None
        if encoder_hidden_states is not None:
            if is_flash(self.config):  # cross-attention then runs on SDPA: see MultiHeadAttention
                encoder_mask = None if encoder_attention_mask is None else encoder_attention_mask[:, None, None].bool()
            else:
                encoder_mask = create_bidirectional_mask(
                    config=self.config,
                    inputs_embeds=inputs_embeds,
                    attention_mask=encoder_attention_mask,
                    encoder_hidden_states=encoder_hidden_states,
                )
            if self.cross_kv_proj is not None and not (cache is not None and cache.is_updated.get(0)):
                encoder_key_value = self.cross_kv_proj(encoder_hidden_states)  # (B, S, 2 · G · K)
        rotary = self.rotary(position_ids, hidden_states.dtype) if self.rotary is not None else None
        for layer in self.layers:
            hidden_states = layer(
                hidden_states,
                mask,
                encoder_hidden_states,
                encoder_key_value,
                encoder_attention_mask=encoder_mask,
                rotary=rotary,
                cache=cache,
                **kwargs,
            )
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=self.norm(hidden_states), **cache_field(cache)
        )


def same_document(documents: torch.Tensor):
    """A mask function for transformers' mask helpers: a query sees the keys of its own document.

    Args:
        documents: int64 of shape (B, T). A static cache has more keys than that, which the causal mask hides.
    """
    last = documents.shape[1] - 1

    def mask_function(batch_idx, head_idx, q_idx, kv_idx):
        return documents[batch_idx, q_idx] == documents[batch_idx, kv_idx.clamp(max=last)]

    return mask_function


class TransformerDecoderForCausalLM(TransformerDecoderPreTrainedModel, GenerationMixin):
    """Predicts the next token."""

    _auto_class = "AutoModelForCausalLM"
    _tied_weights_keys = {"lm_head.weight": "model.embeddings.embed_tokens.weight"}

    def __init__(self, config: TransformerDecoderConfig):
        super().__init__(config)
        self.model = TransformerDecoderModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self._labels_are_checked = False
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head = new_embeddings

    @accept_both_cache_names
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        cache: Cache | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | torch.Tensor = 0,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> CausalLMOutputWithPast:
        """Logits of shape (B, T, V), and with labels the loss of each token given those before it.

        Args:
            labels: int64 of shape (B, T): the input itself, with -100 on what is not to be learnt. They are shifted
                here: do not shift them.
            logits_to_keep: compute the last so many positions' logits only (0: all), or those at these indices.
            num_items_in_batch: number of targets in the whole step; see `losses.cross_entropy`.
            loss_only: compute the head at the targets alone and return no logits: training needs no others.
        """
        if labels is not None and use_cache is None:
            use_cache = False
        outputs = self.model(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            inputs_embeds,
            cache=cache,
            use_cache=use_cache,
            **kwargs,
        )
        hidden_states = outputs.last_hidden_state
        targets = None
        if labels is not None:
            self._warn_of_shifted_labels(input_ids, labels)
            targets = nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORE_INDEX).to(hidden_states.device)  # (B, T)
        if loss_only and targets is not None:
            real = targets != IGNORE_INDEX
            hidden_states, targets = hidden_states[real], targets[real]  # (N, D), (N,)
        elif targets is None:
            keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
            hidden_states = hidden_states[:, keep]
        logits = self.lm_head(hidden_states)  # (B, T, V) or (N, V)

        loss = None
        if targets is not None:
            loss = cross_entropy(
                logits.view(-1, logits.shape[-1]),
                targets.reshape(-1),
                num_items_in_batch,
                self.config.label_smoothing if self.training else 0.0,
            )
        return CausalLMOutputWithPast(
            loss=loss,
            logits=None if loss_only and loss is not None else logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            **cache_field(cache_of(outputs)),
        )

    def _warn_of_shifted_labels(self, input_ids: torch.Tensor | None, labels: torch.Tensor) -> None:
        """Look at the first training batch for labels that the caller shifted, which teach the token after next.

        Constant input would pass for shifted, so labels equal to their input are never suspected.
        """
        if self._labels_are_checked or not self.training or input_ids is None or is_torchdynamo_compiling():
            return
        self._labels_are_checked = True
        if torch.equal(labels[:, :-1], input_ids[:, 1:]) and not torch.equal(labels[:, 1:], input_ids[:, 1:]):
            logger.warning("The labels are the input shifted by one; the model shifts them itself: labels=input_ids.")


class TransformerDecoderForSequenceClassification(TransformerDecoderPreTrainedModel):
    """Labels a text by the vector of its last real token, which has seen all the others."""

    _auto_class = "AutoModelForSequenceClassification"

    def __init__(self, config: TransformerDecoderConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = TransformerDecoderModel(config)
        dropout = config.dropout if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(dropout)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    @accept_both_cache_names
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        cache: Cache | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> SequenceClassifierOutputWithPast:
        """Logits of shape (B, labels), and with labels their loss.

        Args:
            attention_mask: (B, T) with 0 on padding. Without it every token counts as real, whatever its id: where the
                pad token is also the end token, ids cannot tell them apart.
            labels: see `losses.classification_loss`.
            num_items_in_batch: number of label elements in the whole step.
            loss_only: return no logits.
        """
        outputs = self.model(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            inputs_embeds,
            cache=cache,
            use_cache=bool(use_cache),
            **kwargs,
        )
        hidden_states = outputs.last_hidden_state
        if attention_mask is None:
            last = hidden_states[:, -1]  # (B, D)
        else:
            positions = torch.arange(attention_mask.shape[1], device=hidden_states.device)
            rows = torch.arange(hidden_states.shape[0], device=hidden_states.device)
            last = hidden_states[rows, (positions * attention_mask.to(positions)).argmax(-1)]  # (B, D)
        logits = self.score(self.dropout(last))  # (B, labels)

        loss = None
        if labels is not None:
            loss = classification_loss(logits, labels, self.config, num_items_in_batch)
        return SequenceClassifierOutputWithPast(
            loss=loss,
            logits=None if loss_only and loss is not None else logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            **cache_field(cache_of(outputs)),
        )
