"""The models. Importing this package registers them with transformers' Auto classes."""

import sys

import transformers
from transformers import AutoConfig

from .configuration_transformer import TransformerConfig, TransformerDecoderConfig, TransformerEncoderConfig
from .modeling_decoder import (
    TransformerDecoderForCausalLM,
    TransformerDecoderForSequenceClassification,
    TransformerDecoderModel,
    TransformerDecoderPreTrainedModel,
)
from .modeling_encoder import (
    TransformerEncoderForMaskedLM,
    TransformerEncoderForQuestionAnswering,
    TransformerEncoderForSequenceClassification,
    TransformerEncoderForTokenClassification,
    TransformerEncoderModel,
    TransformerEncoderPreTrainedModel,
)
from .modeling_seq2seq import TransformerForConditionalGeneration, TransformerModel, TransformerPreTrainedModel

__all__ = [
    "TransformerConfig",
    "TransformerDecoderConfig",
    "TransformerDecoderForCausalLM",
    "TransformerDecoderForSequenceClassification",
    "TransformerDecoderModel",
    "TransformerEncoderConfig",
    "TransformerEncoderForMaskedLM",
    "TransformerEncoderForQuestionAnswering",
    "TransformerEncoderForSequenceClassification",
    "TransformerEncoderForTokenClassification",
    "TransformerEncoderModel",
    "TransformerForConditionalGeneration",
    "TransformerModel",
]

for family in (TransformerEncoderPreTrainedModel, TransformerDecoderPreTrainedModel, TransformerPreTrainedModel):
    AutoConfig.register(family.config_class.model_type, family.config_class, exist_ok=True)
    for auto_class, name in family.auto_classes.items():
        model_class = getattr(sys.modules[family.__module__], name)
        getattr(transformers, auto_class).register(family.config_class, model_class, exist_ok=True)
