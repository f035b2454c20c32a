"""A decoder that learns a function from examples in its context, without a step of gradient (Garg et al., 2022).

Axes: B batch, K examples, d coordinates of a point, D width.
"""

from dataclasses import dataclass

import torch
from torch import nn
from transformers.utils import ModelOutput, can_return_tuple
from transformers.utils.output_capturing import OutputRecorder

from .attention import MultiHeadAttention
from .configuration_in_context_regression import InContextRegressionConfig
from .layers import TransformerDecoderLayer
from .modeling_base import RegardPreTrainedModel
from .modeling_decoder import TransformerDecoderModel


@dataclass
class InContextRegressionOutput(ModelOutput):
    """What the regression returns.

    Attributes:
        loss: float32, the mean squared error over all labels that are numbers; 0 where there are none.
        logits: (B, K) the predicted values, the first from no example, the last from K - 1 of them.
        hidden_states, attentions: as every model returns them, of 2K positions.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None
    attentions: tuple[torch.Tensor, ...] | None = None


class TransformerDecoderForInContextRegression(RegardPreTrainedModel):
    """Reads x₁, f(x₁), x₂, f(x₂), ... and predicts f(xₖ) at xₖ from the examples before it.

    Points and values are read in by one linear map, a value as the first coordinate of a vector that is zero
    elsewhere, and a linear map reads the prediction out (Garg et al., 2022, section 3 and appendix A.1).

    Attributes:
        ignores_nan_labels: a label that is no number adds nothing to the loss, as -100 adds nothing to that of tokens.
            `RegardTrainer` reads it, and so takes the labels off examples that come again at the end of an epoch.
    """

    ignores_nan_labels = True
    config: InContextRegressionConfig
    config_class = InContextRegressionConfig
    main_input_name = "inputs"
    _auto_class = "AutoModel"
    auto_classes = {"AutoModel": "TransformerDecoderForInContextRegression"}
    _no_split_modules = ["TransformerDecoderLayer"]
    _can_record_outputs = {
        "hidden_states": TransformerDecoderLayer,
        "attentions": OutputRecorder(MultiHeadAttention, index=1, layer_name="self_attn"),
    }

    def __init__(self, config: InContextRegressionConfig):
        super().__init__(config)
        self.read_in = nn.Linear(config.input_size, config.hidden_size)
        self.model = TransformerDecoderModel(config)
        self.model.embeddings.embed_tokens = None  # there are no tokens
        self.read_out = nn.Linear(config.hidden_size, 1)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        inputs: torch.Tensor,
        values: torch.Tensor,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> InContextRegressionOutput:
        """Predicted values of shape (B, K), and with labels their mean squared error.

        Args:
            inputs: (B, K, d) the points, of any dtype: they are read in that of the weights.
            values: (B, K) of the function at the points, or (B, K - 1) where the last is only asked for. A prediction
                sees those before it alone.
            labels: float of shape (B, K), what is to be predicted, mostly the values; NaN is ignored.
            num_items_in_batch: number of labels but NaN in the whole step; see `losses.cross_entropy`.
            loss_only: return no predictions.

        Raises:
            ValueError: points of another number of coordinates, or another number of values or labels.
        """
        if inputs.dim() != 3 or inputs.shape[-1] != self.config.input_size:
            raise ValueError(
                f"inputs have the shape {tuple(inputs.shape)}: (B, K, {self.config.input_size}) is right."
            )
        rows, examples = inputs.shape[:2]
        if tuple(values.shape) not in ((rows, examples), (rows, examples - 1)):
            raise ValueError(
                f"values have the shape {tuple(values.shape)}: ({rows}, {examples}) is right, one for each point, or "
                "one fewer a row."
            )
        if labels is not None and tuple(labels.shape) != (rows, examples):
            raise ValueError(
                f"labels have the shape {tuple(labels.shape)}: ({rows}, {examples}) is right, one for each point."
            )
        values = nn.functional.pad(values.to(inputs.dtype), (0, examples - values.shape[1]))  # (B, K)
        padded = nn.functional.pad(values[..., None], (0, self.config.input_size - 1))  # (B, K, d)
        interleaved = torch.stack([inputs, padded], dim=2).flatten(1, 2).to(self.read_in.weight.dtype)  # (B, 2K, d)
        outputs = self.model(inputs_embeds=self.read_in(interleaved), **{"use_cache": False} | kwargs)
        logits = self.read_out(outputs.last_hidden_state[:, ::2])[..., 0]  # (B, K), at the points
        loss = None
        if labels is not None:
            labels = labels.to(logits.device).float()
            real = ~labels.isnan()  # (B, K)
            total = (logits.float() - labels).where(real, 0).square().sum()  # 0, and of gradient 0, at the others
            number = real.sum() if num_items_in_batch is None else num_items_in_batch
            loss = total / torch.as_tensor(number, device=total.device).clamp(min=1)
        return InContextRegressionOutput(
            loss=loss,
            logits=None if loss_only and loss is not None else logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )
