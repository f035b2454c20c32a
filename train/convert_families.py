"""Which of the library's architectures become which of ours, and what their checkpoints hold beside the weights."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedConfig
from transformers.models.auto import modeling_auto

import regard.modeling
from regard.train import convert_configs as configs
from regard.train import convert_weights as weights
from regard.train.convert_weights import Weights

NO_HEAD = "none"
# What a head is called here, and the auto class of those who have it.
HEADS = {
    NO_HEAD: "AutoModel",
    "masked-lm": "AutoModelForMaskedLM",
    "causal-lm": "AutoModelForCausalLM",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
    "sequence-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification",
    "question-answering": "AutoModelForQuestionAnswering",
}
_LIBRARY = {
    NO_HEAD: modeling_auto.MODEL_MAPPING_NAMES,
    "masked-lm": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "causal-lm": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "seq2seq-lm": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "sequence-classification": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "token-classification": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "question-answering": modeling_auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES,
}


@dataclass(frozen=True)
class Family:
    """One architecture of the library.

    Attributes:
        name: what it is called.
        base: our model without a head.
        config: gives our configuration for the library's.
        refusals: says what would not compute the same, for the library's configuration and a head of ours.
        weights: gives the weights our names; see `convert_weights`.
        prefix: of the backbone's names under a head.
        parts: what those names begin with after it. A checkpoint may leave the prefix out.
        buffers: a pattern of names that hold no weights, but what follows from the configuration.
        tied: names of one matrix, the most usual one first, if `tie_word_embeddings` says so.
        first_position: rows of the position table before that of position 0, for the library's configuration.
    """

    name: str
    base: str
    config: Callable[[Any], PreTrainedConfig]
    refusals: Callable[[Any, str], Iterator[str]]
    weights: Callable[[Weights], Weights]
    prefix: str
    parts: tuple[str, ...]
    buffers: str
    tied: Callable[[Any], tuple[str, ...]]
    first_position: Callable[[Any], int] = lambda config: 0

    @property
    def heads(self) -> dict[str, str]:
        """Our class for each head that there is."""
        family = next(each for each in regard.modeling.FAMILIES if self.base in each.auto_classes.values())
        return {head: family.auto_classes[name] for head, name in HEADS.items() if name in family.auto_classes}

    def canonical(self, name: str) -> str:
        """A tensor's name as the library's class with a head has it today."""
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        return self.prefix + name if name.startswith(self.parts) else name

    def is_buffer(self, name: str) -> bool:
        return re.search(self.buffers, name) is not None


def _bert_tables(config: Any) -> tuple[str, ...]:
    return ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight")


def _marian_tables(config: Any) -> tuple[str, ...]:
    """Without `share_encoder_decoder_embeddings` the encoder has a table of its own."""
    if config.share_encoder_decoder_embeddings:
        return _bart_tables(config)
    return ("model.decoder.embed_tokens.weight", "lm_head.weight")


def _bart_tables(config: Any) -> tuple[str, ...]:
    sides = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
    return ("model.shared.weight", *sides, "lm_head.weight")


_ENCODER = "TransformerEncoderModel"
_BERT_PARTS = ("embeddings.", "encoder.", "pooler.")
_BERT_BUFFERS = r"embeddings\.(position_ids|token_type_ids)$"
_ROBERTA = Family(
    "RoBERTa", _ENCODER, configs.roberta_config, configs.roberta_refusals, weights.roberta_weights,
    prefix="roberta.", parts=_BERT_PARTS, buffers=_BERT_BUFFERS,
    tied=lambda config: ("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
    first_position=configs.roberta_first_position,
)  # fmt: skip


def _llama(name: str) -> Family:
    return Family(
        name, "TransformerDecoderModel", configs.llama_config, configs.llama_refusals, weights.llama_weights,
        prefix="model.", parts=("embed_tokens.", "layers.", "norm."), buffers=r"rotary_emb\.inv_freq$",
        tied=lambda config: ("model.embed_tokens.weight", "lm_head.weight"),
    )  # fmt: skip


FAMILIES = {
    "bert": Family(
        "BERT", _ENCODER, configs.bert_config, configs.bert_refusals, weights.bert_weights,
        prefix="bert.", parts=_BERT_PARTS, buffers=_BERT_BUFFERS, tied=_bert_tables,
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "distilbert": Family(
        "DistilBERT", _ENCODER, configs.distilbert_config, configs.no_refusals, weights.distilbert_weights,
        prefix="distilbert.", parts=("embeddings.", "transformer."), buffers=_BERT_BUFFERS,
        tied=lambda config: ("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"),
    ),
    "gpt2": Family(
        "GPT-2", "TransformerDecoderModel", configs.gpt2_config, configs.gpt2_refusals, weights.gpt2_weights,
        prefix="transformer.", parts=("wte.", "wpe.", "h.", "ln_f."), buffers=r"\.attn\.(bias|masked_bias)$",
        tied=lambda config: ("transformer.wte.weight", "lm_head.weight"),
    ),
    "llama": _llama("Llama"),
    "mistral": _llama("Mistral"),
    "qwen2": _llama("Qwen2"),
    "bart": Family(
        "BART", "TransformerModel", configs.bart_config, configs.bart_refusals, weights.bart_weights,
        prefix="model.", parts=("shared.", "encoder.", "decoder."), buffers=r"(encoder|decoder)\.version$",
        tied=_bart_tables, first_position=lambda config: configs.BART_FIRST_POSITION,
    ),
    "marian": Family(
        "Marian", "TransformerModel", configs.marian_config, configs.marian_refusals, weights.marian_weights,
        prefix="model.", parts=("shared.", "encoder.", "decoder."), buffers=r"\.embed_positions\.weight$",
        tied=_marian_tables,
    ),
}  # fmt: skip
# Of some that are asked for, why not.
OTHERS = {
    "albert": "its layers share their weights",
    "deberta": "its positions are relative",
    "deberta-v2": "its positions are relative",
    "gemma": "its norms add one to their weights",
    "gemma2": "it caps its logits, and its norms add one to their weights",
    "gpt_neox": "it turns a part of each head, and its sub-layers stand side by side",
    "mbart": "its norms stand before the sub-layers and after the last of them, which no part of this command maps",
    "modernbert": "its layers see windows of different widths",
    "mpnet": "its positions are relative",
    "mt5": "its positions are relative",
    "phi3": "its projections are cut otherwise, and its positions are scaled",
    "qwen3": "it normalises queries and keys",
    "smollm3": "some of its layers have no positions",
    "t5": "its positions are relative",
}


def source_head(model_type: str, architecture: str) -> str | None:
    """The head of one of the library's classes, or None if our classes have none like it."""
    if architecture == "BertForPreTraining":
        return "masked-lm"  # and one for the next sentence beside it
    heads = FAMILIES[model_type].heads
    return next((head for head in heads if _LIBRARY[head].get(model_type) == architecture), None)


def library_class(model_type: str, head: str) -> str:
    """The library's class for a head."""
    return _LIBRARY[head][model_type]
