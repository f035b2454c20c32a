"""The Transformer of "Attention Is All You Need" (Vaswani et al., 2017): an encoder, and a decoder that attends to it.

Axes: B batch, T target length, S source length, D width, V vocabulary, N targets.
"""

import torch
from torch import nn
from transformers import Cache, GenerationMixin
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput
from transformers.utils import can_return_tuple

from .compatibility import accept_both_cache_names, cache_field, cache_of
from .configuration_transformer import TransformerConfig
from .losses import IGNORE_INDEX, cross_entropy
from .modeling_base import RegardPreTrainedModel
from .modeling_decoder import TransformerDecoderModel
from .modeling_encoder import TransformerEncoderModel


class TransformerPreTrainedModel(RegardPreTrainedModel):
    config: TransformerConfig
    config_class = TransformerConfig
    auto_classes = {
        "AutoModel": "TransformerModel",
        "AutoModelForSeq2SeqLM": "TransformerForConditionalGeneration",
    }

    def get_input_embeddings(self) -> nn.Embedding:
        return self._base.encoder.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self._base.encoder.set_input_embeddings(value)

    def get_encoder(self, modality: str | None = None) -> TransformerEncoderModel:
        return self._base.encoder

    def get_decoder(self) -> TransformerDecoderModel:
        return self._base.decoder

    @property
    def _base(self) -> "TransformerModel":
        return getattr(self, self.base_model_prefix, self)

    def _resize_token_embeddings(self, new_num_tokens, pad_to_multiple_of=None, mean_resizing=True) -> nn.Embedding:
        """Source and target share a vocabulary, so the decoder's table follows the encoder's, tied or not."""
        decoder = self._base.decoder
        resized = self._get_resized_embeddings(
            decoder.get_input_embeddings(), new_num_tokens, pad_to_multiple_of, mean_resizing
        )
        decoder.set_input_embeddings(resized)
        return super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)


class TransformerModel(TransformerPreTrainedModel):
    """Encoder and decoder without a head."""

    _auto_class = "AutoModel"
    _tied_weights_keys = {"decoder.embeddings.embed_tokens.weight": "encoder.embeddings.embed_tokens.weight"}

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        self.encoder = TransformerEncoderModel(config)
        self.decoder = TransformerDecoderModel(config)
        self.post_init()

    @accept_both_cache_names
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        decoder_position_ids: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
        **kwargs,
    ) -> Seq2SeqModelOutput:
        """The decoder's vectors, `last_hidden_state` of shape (B, T, D), and the encoder's.

        Args:
            input_ids: the source, int64 of shape (B, S).
            attention_mask: (B, S) with 0 on the source's padding, on either side.
            token_type_ids: int64 of shape (B, S), if the model has types.
            decoder_input_ids: the target shifted right, int64 of shape (B, T).
            decoder_attention_mask: (B, past + T) with 0 on the target's padding. Padding on the right needs none: no
                token sees what follows it.
            decoder_position_ids: int64 of shape (B or 1, T).
            encoder_outputs: what the encoder gave before, instead of `input_ids`.
            inputs_embeds, decoder_inputs_embeds: (B, S, D) and (B, T, D), instead of ids.
            cache, use_cache: see `TransformerDecoderModel`.
        """
        if (decoder_input_ids is None) == (decoder_inputs_embeds is None):
            raise ValueError("give decoder_input_ids or decoder_inputs_embeds, or labels to a model with a head.")
        if encoder_outputs is None:
            encoder_outputs = self.encoder(
                input_ids, attention_mask, token_type_ids, inputs_embeds=inputs_embeds, **kwargs
            )
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs)

        outputs = self.decoder(
            decoder_input_ids,
            decoder_attention_mask,
            position_ids=decoder_position_ids,
            inputs_embeds=decoder_inputs_embeds,
            encoder_hidden_states=encoder_outputs.last_hidden_state,
            encoder_attention_mask=attention_mask,
            cache=cache,
            use_cache=use_cache,
            **kwargs,
        )
        return Seq2SeqModelOutput(
            last_hidden_state=outputs.last_hidden_state,
            decoder_hidden_states=outputs.hidden_states,
            decoder_attentions=outputs.attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
            **cache_field(cache_of(outputs)),
        )


class TransformerForConditionalGeneration(TransformerPreTrainedModel, GenerationMixin):
    """Writes a target given a source: translation, summarisation."""

    _auto_class = "AutoModelForSeq2SeqLM"
    _tied_weights_keys = {
        "model.decoder.embeddings.embed_tokens.weight": "model.encoder.embeddings.embed_tokens.weight",
        "lm_head.weight": "model.encoder.embeddings.embed_tokens.weight",
    }

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        self.model = TransformerModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=config.output_bias)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head = new_embeddings

    def prepare_decoder_input_ids_from_labels(self, labels: torch.Tensor) -> torch.Tensor:
        """The decoder's input for these targets: shifted right by one, the start token in front, -100 made padding.

        Args:
            labels: int64 of shape (B, T).

        Returns:
            int64 of shape (B, T).
        """
        start, pad = self.config.decoder_start_token_id, self.config.pad_token_id
        for name, value in (("decoder_start_token_id", start), ("pad_token_id", pad)):
            if value is None:
                raise ValueError(f"{name} is not set in the configuration: labels cannot be shifted without it.")
        shifted = labels.new_full(labels.shape, start)
        shifted[:, 1:] = labels[:, :-1]
        return shifted.masked_fill(shifted == IGNORE_INDEX, pad)

    @accept_both_cache_names
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        decoder_input_ids: torch.Tensor | None = None,
        decoder_attention_mask: torch.Tensor | None = None,
        decoder_position_ids: torch.Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        inputs_embeds: torch.Tensor | None = None,
        decoder_inputs_embeds: torch.Tensor | None = None,
        cache: Cache | None = None,
        labels: torch.Tensor | None = None,
        use_cache: bool | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> Seq2SeqLMOutput:
        """Logits of shape (B, T, V), and with labels their loss. `TransformerModel` explains the other arguments.

        Args:
            labels: the target, int64 of shape (B, T), -100 on padding. The decoder's input is made from it, shifted
                right; the loss compares `logits[:, t]` with `labels[:, t]`.
            num_items_in_batch: number of targets in the whole step; see `losses.cross_entropy`.
            loss_only: compute the head at the targets alone and return no logits: training needs no others.
        """
        if labels is not None:
            use_cache = False if use_cache is None else use_cache
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        outputs = self.model(
            input_ids,
            attention_mask,
            token_type_ids,
            decoder_input_ids,
            decoder_attention_mask,
            decoder_position_ids,
            encoder_outputs,
            inputs_embeds,
            decoder_inputs_embeds,
            cache=cache,
            use_cache=use_cache,
            **kwargs,
        )
        hidden_states = outputs.last_hidden_state
        if loss_only and labels is not None:
            labels = labels.to(hidden_states.device)
            real = labels != IGNORE_INDEX
            hidden_states, labels = hidden_states[real], labels[real]  # (N, D), (N,)
        logits = self.lm_head(hidden_states)  # (B, T, V) or (N, V)

        loss = None
        if labels is not None:
            loss = cross_entropy(
                logits.view(-1, logits.shape[-1]),
                labels.reshape(-1),
                num_items_in_batch,
                self.config.label_smoothing if self.training else 0.0,
            )
        return Seq2SeqLMOutput(
            loss=loss,
            logits=None if loss_only and loss is not None else logits,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
            **cache_field(cache_of(outputs)),
        )
