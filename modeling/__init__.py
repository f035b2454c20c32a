"""The models. Importing this package registers them with transformers' Auto classes."""

import sys

import transformers
from transformers import AutoConfig

from .configuration_dan import DANConfig
from .configuration_in_context_regression import InContextRegressionConfig
from .configuration_transformer import TransformerConfig, TransformerDecoderConfig, TransformerEncoderConfig
from .configuration_word_vectors import GloVeConfig, Word2VecConfig
from .modeling_dan import DANForSequenceClassification
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
from .modeling_glove import GloVeModel
from .modeling_in_context_regression import TransformerDecoderForInContextRegression
from .modeling_seq2seq import TransformerForConditionalGeneration, TransformerModel, TransformerPreTrainedModel
from .modeling_word2vec import Word2VecModel
from .word_vectors import WordVectors, load_word_vectors

__all__ = [
    "DANConfig",
    "DANForSequenceClassification",
    "GloVeConfig",
    "GloVeModel",
    "InContextRegressionConfig",
    "TransformerConfig",
    "TransformerDecoderConfig",
    "TransformerDecoderForCausalLM",
    "TransformerDecoderForInContextRegression",
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
    "Word2VecConfig",
    "Word2VecModel",
    "WordVectors",
    "load_word_vectors",
]

FAMILIES = (
    TransformerEncoderPreTrainedModel,
    TransformerDecoderPreTrainedModel,
    TransformerPreTrainedModel,
    Word2VecModel,
    GloVeModel,
    DANForSequenceClassification,
    TransformerDecoderForInContextRegression,
)
for family in FAMILIES:
    AutoConfig.register(family.config_class.model_type, family.config_class, exist_ok=True)
    for auto_class, name in family.auto_classes.items():
        model_class = getattr(sys.modules[family.__module__], name)
        getattr(transformers, auto_class).register(family.config_class, model_class, exist_ok=True)
