"""The Transformer encoder: every token sees every other (Vaswani et al., 2017; as BERT, Devlin et al., 2019).

Axes: B batch, T length, D width, V vocabulary, N targets.
"""

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.masking_utils import create_bidirectional_mask
from transformers.modeling_outputs import (
    BaseModelOutput,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.output_capturing import OutputRecorder, capture_outputs

from .attention import MultiHeadAttention
from .configuration_transformer import TransformerConfigBase, TransformerEncoderConfig
from .layers import Embeddings, TransformerEncoderLayer, make_activation, make_norm
from .losses import IGNORE_INDEX, classification_loss, cross_entropy
from .modeling_base import RegardPreTrainedModel, default_position_ids
from .positions import RotaryPositions


class TransformerEncoderPreTrainedModel(RegardPreTrainedModel):
    _no_split_modules = ["TransformerEncoderLayer"]
    config: TransformerEncoderConfig
    config_class = TransformerEncoderConfig
    auto_classes = {
        "AutoModel": "TransformerEncoderModel",
        "AutoModelForMaskedLM": "TransformerEncoderForMaskedLM",
        "AutoModelForSequenceClassification": "TransformerEncoderForSequenceClassification",
        "AutoModelForTokenClassification": "TransformerEncoderForTokenClassification",
        "AutoModelForQuestionAnswering": "TransformerEncoderForQuestionAnswering",
    }
    _can_record_outputs = {
        "hidden_states": TransformerEncoderLayer,
        "attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="self_attn"),
    }


class TransformerEncoderModel(TransformerEncoderPreTrainedModel):
    """Embeddings and a stack of encoder layers."""

    _auto_class = "AutoModel"

    def __init__(self, config: TransformerConfigBase):
        super().__init__(config)
        self.embeddings = Embeddings(config)
        rotary = config.position_embedding_type == "rotary"
        self.rotary = RotaryPositions(config.head_dim, config.position_base) if rotary else None
        self.layers = nn.ModuleList(
            TransformerEncoderLayer(config, layer_idx) for layer_idx in range(config.num_hidden_layers)
        )
        self.norm = make_norm(config) if config.norm_position == "pre" else nn.Identity()
        self.gradient_checkpointing = False
        self.mark_residual_projections()
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> BaseModelOutput:
        """Contextual vectors, `last_hidden_state` of shape (B, T, D).

        Args:
            input_ids: int64 of shape (B, T).
            attention_mask: (B, T) with 1 on real tokens and 0 on padding, on either side.
            token_type_ids: int64 of shape (B, T), if the model has types.
            position_ids: int64 of shape (B or 1, T); by default real tokens are counted from 0.
            inputs_embeds: (B, T, D), instead of `input_ids`.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds.")
        if inputs_embeds is None:
            inputs_embeds = self.embeddings.embed_tokens(input_ids)  # (B, T, D)
        num_positions = None
        if position_ids is None:
            position_ids, num_positions = default_position_ids(inputs_embeds, attention_mask, None)

        hidden_states = self.embeddings(inputs_embeds, position_ids, token_type_ids, num_positions)
        mask = create_bidirectional_mask(
            config=self.config, inputs_embeds=inputs_embeds, attention_mask=attention_mask
        )
        rotary = self.rotary(position_ids, hidden_states.dtype) if self.rotary is not None else None
        for layer in self.layers:
            hidden_states = layer(hidden_states, mask, rotary=rotary, **kwargs)
        return BaseModelOutput(last_hidden_state=self.norm(hidden_states))


class MaskedLMHead(nn.Module):
    """Dense, activation, norm (Devlin et al., 2019), before the tied output projection."""

    def __init__(self, config: TransformerConfigBase):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = make_activation(config)
        self.norm = make_norm(config)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return self.norm(self.activation(self.dense(hidden_states)))


class TransformerEncoderForMaskedLM(TransformerEncoderPreTrainedModel):
    """Predicts the tokens that were masked."""

    _auto_class = "AutoModelForMaskedLM"
    _tied_weights_keys = {"lm_head.weight": "model.embeddings.embed_tokens.weight"}

    def __init__(self, config: TransformerEncoderConfig):
        super().__init__(config)
        self.model = TransformerEncoderModel(config)
        self.transform = MaskedLMHead(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head = new_embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> MaskedLMOutput:
        """Logits of shape (B, T, V), and with labels their loss.

        Args:
            labels: int64 of shape (B, T): the token that was masked, -100 where none was.
            num_items_in_batch: number of targets in the whole step; see `losses.cross_entropy`.
            loss_only: compute the head at the targets alone and return no logits: training needs no others.
        """
        outputs = self.model(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs)
        hidden_states = outputs.last_hidden_state
        if loss_only and labels is not None:
            labels = labels.to(hidden_states.device)
            real = labels != IGNORE_INDEX
            hidden_states, labels = hidden_states[real], labels[real]  # (N, D), (N,)
        logits = self.lm_head(self.transform(hidden_states))  # (B, T, V) or (N, V)

        loss = None
        if labels is not None:
            loss = cross_entropy(
                logits.view(-1, logits.shape[-1]),
                labels.reshape(-1),
                num_items_in_batch,
                self.config.label_smoothing if self.training else 0.0,
            )
        return MaskedLMOutput(
            loss=loss,
            logits=None if loss_only and loss is not None else logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class SequenceClassificationHead(nn.Module):
    """Dense and tanh (BERT's pooler) or another activation, then a projection to the labels."""

    def __init__(self, config: TransformerEncoderConfig):
        super().__init__()
        dropout = config.dropout if config.classifier_dropout is None else config.classifier_dropout
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[config.classifier_act]
        self.dropout = nn.Dropout(dropout)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return self.out_proj(self.dropout(self.activation(self.dense(hidden_states))))


def first_vector(hidden_states: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """The vector (B, D) of each text's first real token, of (B, T, D); the mask is (B, T)."""
    if attention_mask is None:
        return hidden_states[:, 0]
    rows = torch.arange(hidden_states.shape[0], device=hidden_states.device)
    return hidden_states[rows, attention_mask.to(hidden_states.device).long().argmax(-1)]  # (B, D)


def mean_vector(hidden_states: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
    """The mean (B, D) of the vectors of each text's real tokens, of (B, T, D); the mask is (B, T)."""
    if attention_mask is None:
        return hidden_states.mean(1)
    weights = attention_mask.to(hidden_states.device).ne(0).float()[:, :, None]  # (B, T, 1)
    total = (hidden_states.float() * weights).sum(1)  # (B, D), summed in float32 whatever the model's numbers
    return (total / weights.sum(1).clamp(min=1)).to(hidden_states.dtype)


class TransformerEncoderForSequenceClassification(TransformerEncoderPreTrainedModel):
    """Labels a text by the vector of its first real token, or by the mean of all (`classifier_pooling`)."""

    _auto_class = "AutoModelForSequenceClassification"

    def __init__(self, config: TransformerEncoderConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = TransformerEncoderModel(config)
        self.classifier = SequenceClassificationHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> SequenceClassifierOutput:
        """Logits of shape (B, labels), and with labels their loss.

        Args:
            labels: see `losses.classification_loss`.
            num_items_in_batch: number of label elements in the whole step.
            loss_only: return no logits.
        """
        outputs = self.model(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs)
        pool = mean_vector if self.config.classifier_pooling == "mean" else first_vector
        logits = self.classifier(pool(outputs.last_hidden_state, attention_mask))  # (B, labels)

        loss = None
        if labels is not None:
            loss = classification_loss(logits, labels, self.config, num_items_in_batch)
        return SequenceClassifierOutput(
            loss=loss,
            logits=None if loss_only and loss is not None else logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class TransformerEncoderForTokenClassification(TransformerEncoderPreTrainedModel):
    """Labels each token."""

    _auto_class = "AutoModelForTokenClassification"

    def __init__(self, config: TransformerEncoderConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = TransformerEncoderModel(config)
        dropout = config.dropout if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> TokenClassifierOutput:
        """Logits of shape (B, T, labels), and with labels their loss.

        Args:
            labels: int64 of shape (B, T), -100 where a token has none.
            num_items_in_batch: number of labelled tokens in the whole step.
            loss_only: return no logits.
        """
        outputs = self.model(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))  # (B, T, labels)

        loss = None
        if labels is not None:
            loss = cross_entropy(logits.view(-1, self.num_labels), labels.reshape(-1), num_items_in_batch)
        return TokenClassifierOutput(
            loss=loss,
            logits=None if loss_only and loss is not None else logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class TransformerEncoderForQuestionAnswering(TransformerEncoderPreTrainedModel):
    """Marks where an answer begins and ends."""

    _auto_class = "AutoModelForQuestionAnswering"

    def __init__(self, config: TransformerEncoderConfig):
        super().__init__(config)
        self.model = TransformerEncoderModel(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        start_positions: torch.Tensor | None = None,
        end_positions: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> QuestionAnsweringModelOutput:
        """Logits of shape (B, T) for the first and for the last token of the answer, and their mean loss.

        Args:
            start_positions, end_positions: int64 of shape (B,). A position outside the input or on a pad (an answer
                that was cut off) adds nothing to the loss, and no pad is compared with the answer.
            num_items_in_batch: number of questions in the whole step.
            loss_only: return no logits.
        """
        outputs = self.model(input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds, **kwargs)
        start_logits, end_logits = self.qa_outputs(outputs.last_hidden_state).unbind(-1)  # (B, T) each

        loss = None
        if start_positions is not None and end_positions is not None:
            length = start_logits.shape[1]
            start, end = start_positions.view(-1), end_positions.view(-1)
            inside = (start >= 0) & (start < length) & (end >= 0) & (end < length)
            start_scores, end_scores = start_logits, end_logits
            if attention_mask is not None and attention_mask.dim() == 2:
                # No answer begins at a pad: else the loss would depend on how far a row is padded.
                pads = attention_mask.to(start.device) == 0  # (B, T)
                for positions in (start, end):
                    inside = inside & ~pads.gather(1, positions.clamp(0, length - 1)[:, None])[:, 0]
                lowest = torch.finfo(start_logits.dtype).min
                start_scores = start_logits.masked_fill(pads.to(start_logits.device), lowest)
                end_scores = end_logits.masked_fill(pads.to(end_logits.device), lowest)
            start, end = (torch.where(inside, positions, IGNORE_INDEX) for positions in (start, end))
            loss = (
                cross_entropy(start_scores, start, num_items_in_batch)
                + cross_entropy(end_scores, end, num_items_in_batch)
            ) / 2
        return QuestionAnsweringModelOutput(
            loss=loss,
            start_logits=None if loss_only and loss is not None else start_logits,
            end_logits=None if loss_only and loss is not None else end_logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
