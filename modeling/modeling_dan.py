"""The deep averaging network: a text is the mean of its words, whatever their order (Iyyer et al., 2015).

Axes: B batch, T length, D width of the word vectors, H width of a hidden layer.
"""

import torch
from torch import nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import can_return_tuple

from .configuration_dan import DANConfig
from .losses import classification_loss
from .modeling_base import RegardPreTrainedModel


def drop_words(real: torch.Tensor, share: float) -> torch.Tensor:
    """Leaves out each word with probability `share`, but never all of a text (section 3.1 of the paper).

    Each word draws a number from 0 to 1, and those at or above `share` stay; so does the highest of a text.

    Args:
        real: bool of shape (B, T), the words that are there.

    Returns:
        bool of shape (B, T), the words that stay.
    """
    draws = torch.rand(real.shape, device=real.device).masked_fill(~real, -1.0)
    highest = torch.zeros_like(real).scatter(1, draws.argmax(-1, keepdim=True), True)
    return real & ((draws >= share) | highest)


class AveragedEmbeddings(nn.Module):
    """Word vectors and their mean over the real tokens: av = 1/|X| · Σ v_w (equation 1)."""

    def __init__(self, config: DANConfig):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.frozen = config.freeze_embeddings
        self.word_dropout = config.word_dropout
        self.train()

    def train(self, mode: bool = True) -> "AveragedEmbeddings":
        """Keeps frozen vectors frozen: `from_pretrained` makes new parameters, and ends in evaluation mode."""
        if self.frozen:
            self.embed_tokens.weight.requires_grad_(False)
        return super().train(mode)

    def forward(self, inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """The mean of shape (B, D); zero for a text without words.

        Args:
            inputs_embeds: (B, T, D).
            attention_mask: (B, T), 0 on padding; anything else is a real token.
        """
        if attention_mask is None:
            real = torch.ones(inputs_embeds.shape[:2], dtype=torch.bool, device=inputs_embeds.device)
        else:
            real = attention_mask.to(inputs_embeds.device).bool()  # (B, T)
        if self.training and self.word_dropout > 0 and real.shape[1] > 0:
            real = drop_words(real, self.word_dropout)
        weights = real / real.sum(-1, keepdim=True).clamp(min=1)  # (B, T), the rows sum to 1
        return torch.einsum("bt,btd->bd", weights.to(inputs_embeds.dtype), inputs_embeds)


class DANLayer(GradientCheckpointingLayer):
    """A hidden layer: z_i = g(W_i z_{i-1} + b_i) (equation 3)."""

    def __init__(self, config: DANConfig, width: int):
        super().__init__()
        self.dense = nn.Linear(width, config.intermediate_size)
        self.activation = ACT2FN[config.hidden_act]
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.activation(self.dense(hidden_states)))


class DANForSequenceClassification(RegardPreTrainedModel):
    """Labels a text by the mean of its word vectors, through a few hidden layers."""

    config: DANConfig
    config_class = DANConfig
    _auto_class = "AutoModelForSequenceClassification"
    auto_classes = {"AutoModelForSequenceClassification": "DANForSequenceClassification"}
    _no_split_modules = ["DANLayer"]

    def __init__(self, config: DANConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.embeddings = AveragedEmbeddings(config)
        widths = [config.hidden_size] + [config.intermediate_size] * config.num_hidden_layers
        self.layers = nn.ModuleList(DANLayer(config, width) for width in widths[:-1])
        self.classifier = nn.Linear(widths[-1], config.num_labels)
        self.gradient_checkpointing = False
        self.post_init()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        super().set_input_embeddings(value)
        self.embeddings.train(self.embeddings.training)  # frozen vectors stay so

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> SequenceClassifierOutput:
        """Logits of shape (B, labels), and with labels their loss.

        Args:
            input_ids: int64 of shape (B, T).
            attention_mask: (B, T) with 1 on real tokens and 0 on padding, on either side.
            inputs_embeds: (B, T, D), instead of `input_ids`.
            labels: see `losses.classification_loss`.
            num_items_in_batch: number of label elements in the whole step.
            loss_only: return no logits.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds.")
        if inputs_embeds is None:
            inputs_embeds = self.embeddings.embed_tokens(input_ids)  # (B, T, D)
        hidden_states = self.embeddings(inputs_embeds, attention_mask)  # (B, D)
        for layer in self.layers:
            hidden_states = layer(hidden_states)  # (B, H)
        logits = self.classifier(hidden_states)  # (B, labels)

        loss = None
        if labels is not None:
            loss = classification_loss(logits, labels, self.config, num_items_in_batch)
        return SequenceClassifierOutput(loss=loss, logits=None if loss_only and loss is not None else logits)
