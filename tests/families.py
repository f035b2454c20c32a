"""The registry of tiny models that the contract tests run over.

One `Entry` is one model class in one variant of its configuration. A new family joins by its item in `FAMILIES` and
inherits every test whose flags it has: tests take `@every()` for all entries, or `@every(causal=True)` and the like.
"""

import logging
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

import regard.modeling as modeling

PAD, BOS, EOS = 0, 1, 2
FIRST_WORD = 5
ANY_KIND = ("encoder", "decoder", "seq2seq", "table")
IGNORE = -100

Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Entry:
    """One model class in one variant.

    Args:
        model_class: the class under test.
        config_class: its configuration.
        variant: name of the options.
        settings: fields of the configuration.
        auto_class: the auto class that it answers to.
        make_labels: (config, batch, length, generator) to the arguments that give a loss.
        kind: "encoder", "decoder" or "seq2seq": what a position may see, and which arguments carry the input; or
            "table" for static word vectors, which have no positions, masks or layers: only tests that ask for it get
            it.
        label_names: what `find_labels` must say.
        token_loss: the loss is taken over a vocabulary at several positions, so `loss_only` skips positions, labels of
            -100 are ignored, and label smoothing acts.
        generates: has `generate`.
        attends: has attention, and so maps of it.
        has_base: wraps a base model as `model`, which has a class and an entry of its own.
    """

    model_class: type[PreTrainedModel]
    config_class: type[PreTrainedConfig]
    variant: str
    settings: dict[str, Any]
    auto_class: str
    kind: str
    make_labels: Callable[[PreTrainedConfig, int, int, torch.Generator], Batch] | None = None
    label_names: tuple[str, ...] = ("labels",)
    token_loss: bool = False
    generates: bool = False
    attends: bool = True
    has_base: bool = True

    def __str__(self) -> str:
        return f"{self.model_class.__name__}-{self.variant}"

    @property
    def causal(self) -> bool:
        return self.kind != "encoder"

    @property
    def has_loss(self) -> bool:
        return self.make_labels is not None

    @property
    def tied(self) -> bool:
        return self.settings.get("tie_word_embeddings", True)

    @property
    def positions(self) -> str:
        return self.settings.get("position_embedding_type", "sinusoidal")

    def config(self, **overrides) -> PreTrainedConfig:
        return self.config_class(**{**self.settings, **overrides})

    def model(self, seed: int = 0, perturbed: bool = True, **overrides) -> PreTrainedModel:
        """A model in evaluation mode. `perturbed` moves biases and norms from 0 and 1, so that no test misses them."""
        torch.manual_seed(seed)
        model = self.model_class(self.config(**overrides)).eval()
        if perturbed:
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.dim() == 1:
                        parameter.add_(torch.randn_like(parameter) * 0.1)
        return model

    def inputs(self, batch: int = 3, length: int = 7, seed: int = 1, target_length: int | None = None) -> Batch:
        """Input without padding; a seq2seq model gets decoder input as well."""
        generator = torch.Generator().manual_seed(seed)
        config = self.config()
        inputs = {self.model_class.main_input_name: words(config, (batch, length), generator)}
        if getattr(config, "type_vocab_size", 0):
            inputs["token_type_ids"] = torch.randint(config.type_vocab_size, (batch, length), generator=generator)
        if self.kind == "seq2seq":
            inputs["decoder_input_ids"] = words(config, (batch, target_length or length - 1), generator)
            inputs["decoder_input_ids"][:, 0] = config.decoder_start_token_id
        return inputs

    def labelled(self, batch: int = 3, length: int = 7, seed: int = 1) -> Batch:
        """Input and labels, so that the model returns a loss."""
        inputs = self.inputs(batch, length, seed)
        inputs.pop("decoder_input_ids", None)
        generator = torch.Generator().manual_seed(seed + 1)
        labels = self.make_labels(self.config(), batch, length, generator)
        if self.kind == "decoder" and self.token_loss:
            labels = {"labels": inputs["input_ids"].clone()}
            labels["labels"][0, :2] = IGNORE
        return {**inputs, **labels}


@contextmanager
def listening(caplog):
    """Let pytest's `caplog` hear the library's loggers, which do not propagate, and what they say only once."""
    logger = logging.getLogger("transformers")
    transformers.utils.logging.warning_once.cache_clear()
    level = logger.level
    logger.setLevel(logging.WARNING)
    logger.addHandler(caplog.handler)
    try:
        yield
    finally:
        logger.removeHandler(caplog.handler)
        logger.setLevel(level)


def words(config: PreTrainedConfig, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Random ids that are no special tokens."""
    return torch.randint(FIRST_WORD, config.vocab_size, shape, generator=generator)


def output_of(outputs: Any) -> torch.Tensor:
    """What a model says, whatever its head: logits, or the last hidden states."""
    for name in ("logits", "start_logits", "last_hidden_state"):
        if outputs.get(name) is not None:
            return outputs[name]
    raise AssertionError(f"no output among {list(outputs)}")


def token_labels(config: PreTrainedConfig, batch: int, length: int, generator: torch.Generator) -> Batch:
    """A vocabulary id at most positions, -100 at the others."""
    labels = words(config, (batch, length), generator)
    labels[0, length // 2 :] = IGNORE
    return {"labels": labels}


def tag_labels(config: PreTrainedConfig, batch: int, length: int, generator: torch.Generator) -> Batch:
    labels = torch.randint(config.num_labels, (batch, length), generator=generator)
    labels[0, length // 2 :] = IGNORE
    return {"labels": labels}


def class_labels(config: PreTrainedConfig, batch: int, length: int, generator: torch.Generator) -> Batch:
    return {"labels": torch.randint(config.num_labels, (batch,), generator=generator)}


def context_labels(config: PreTrainedConfig, batch: int, length: int, generator: torch.Generator) -> Batch:
    """Of word2vec: a word at each centre, or one for each row of context words."""
    shape = (batch,) if config.architecture == "cbow" else (batch, length)
    return {"labels": words(config, shape, generator)}


def pair_labels(config: PreTrainedConfig, batch: int, length: int, generator: torch.Generator) -> Batch:
    """Of GloVe: context words and how often each pair occurs."""
    columns = words(config, (batch, length), generator)
    return {"columns": columns, "counts": torch.rand(columns.shape, generator=generator) * 200}


def span_labels(config: PreTrainedConfig, batch: int, length: int, generator: torch.Generator) -> Batch:
    start = torch.randint(length // 2, (batch,), generator=generator)
    return {"start_positions": start, "end_positions": start + 1}


TINY = {
    "vocab_size": 41,
    "hidden_size": 16,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
    "num_labels": 3,
}

# Each option is in at least one variant, and no two variants differ by one option alone.
VARIANTS = {
    "paper": {},
    "bert": {
        "position_embedding_type": "learned",
        "hidden_act": "gelu",
        "scale_embedding": False,
        "embedding_norm": True,
        "type_vocab_size": 2,
        "attention_bias": True,
        "initializer_range": 0.02,
        "norm_eps": 1e-12,
    },
    "gpt2": {
        "norm_position": "pre",
        "position_embedding_type": "learned",
        "hidden_act": "gelu_new",
        "scale_embedding": False,
        "attention_bias": True,
        "attention_output_bias": False,
        "initializer_range": 0.02,
    },
    "llama": {
        "norm_position": "pre",
        "norm_type": "rmsnorm",
        "position_embedding_type": "rotary",
        "hidden_act": "silu",
        "gated_mlp": True,
        "mlp_bias": False,
        "scale_embedding": False,
        "num_key_value_heads": 2,
        "head_dim": 6,
        "tie_word_embeddings": False,
    },
    "bare": {
        "norm_position": "pre",
        "position_embedding_type": "none",
        "norm_bias": False,
        "position_base": 100000.0,
        "num_key_value_heads": 1,
        "head_dim": 5,
    },
}
ENCODER_VARIANTS = {**VARIANTS, "bare": {**VARIANTS["bare"], "classifier_act": "relu"}}
ENCODER_SETTINGS = {**TINY, "num_hidden_layers": 2}
SEQ2SEQ_SETTINGS = {**TINY, "encoder_layers": 2, "decoder_layers": 3}
SEQ2SEQ_VARIANTS = {
    **VARIANTS,
    "shared": {
        "cross_attention_key_value": "shared",
        "position_base": 100000.0,
        "attention_bias": True,
        "output_bias": True,
    },
    "shared-llama": {**VARIANTS["llama"], "cross_attention_key_value": "shared"},
}

# Without word dropout, which would draw anew in each of two passes that a test compares.
DAN_SETTINGS = {
    "vocab_size": 41,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "word_dropout": 0.0,
    "num_labels": 3,
}
DAN_VARIANTS = {
    "paper": {},
    "bare": {"num_hidden_layers": 1, "hidden_act": "gelu", "initializer_range": 0.02},
}

TABLE_SETTINGS = {"vocab_size": 41, "hidden_size": 16}

FAMILIES = [
    {
        "config_class": modeling.TransformerEncoderConfig,
        "kind": "encoder",
        "settings": ENCODER_SETTINGS,
        "variants": ENCODER_VARIANTS,
        "heads": [
            {"model_class": modeling.TransformerEncoderModel, "auto_class": "AutoModel", "label_names": ()},
            {
                "model_class": modeling.TransformerEncoderForMaskedLM,
                "auto_class": "AutoModelForMaskedLM",
                "make_labels": token_labels,
                "token_loss": True,
            },
            {
                "model_class": modeling.TransformerEncoderForSequenceClassification,
                "auto_class": "AutoModelForSequenceClassification",
                "make_labels": class_labels,
            },
            {
                "model_class": modeling.TransformerEncoderForTokenClassification,
                "auto_class": "AutoModelForTokenClassification",
                "make_labels": tag_labels,
            },
            {
                "model_class": modeling.TransformerEncoderForQuestionAnswering,
                "auto_class": "AutoModelForQuestionAnswering",
                "make_labels": span_labels,
                "label_names": ("start_positions", "end_positions"),
            },
        ],
    },
    {
        "config_class": modeling.TransformerDecoderConfig,
        "kind": "decoder",
        "settings": ENCODER_SETTINGS,
        "variants": VARIANTS,
        "heads": [
            {"model_class": modeling.TransformerDecoderModel, "auto_class": "AutoModel", "label_names": ()},
            {
                "model_class": modeling.TransformerDecoderForCausalLM,
                "auto_class": "AutoModelForCausalLM",
                "make_labels": token_labels,
                "token_loss": True,
                "generates": True,
            },
            {
                "model_class": modeling.TransformerDecoderForSequenceClassification,
                "auto_class": "AutoModelForSequenceClassification",
                "make_labels": class_labels,
            },
        ],
    },
    {
        "config_class": modeling.TransformerConfig,
        "kind": "seq2seq",
        "settings": SEQ2SEQ_SETTINGS,
        "variants": SEQ2SEQ_VARIANTS,
        "heads": [
            {"model_class": modeling.TransformerModel, "auto_class": "AutoModel", "label_names": ()},
            {
                "model_class": modeling.TransformerForConditionalGeneration,
                "auto_class": "AutoModelForSeq2SeqLM",
                "make_labels": token_labels,
                "token_loss": True,
                "generates": True,
            },
        ],
    },
    {
        "config_class": modeling.DANConfig,
        "kind": "encoder",
        "settings": DAN_SETTINGS,
        "variants": DAN_VARIANTS,
        "heads": [
            {
                "model_class": modeling.DANForSequenceClassification,
                "auto_class": "AutoModelForSequenceClassification",
                "make_labels": class_labels,
                "attends": False,
                "has_base": False,
            },
        ],
    },
    {
        "config_class": modeling.Word2VecConfig,
        "kind": "table",
        "settings": TABLE_SETTINGS,
        "variants": {
            "paper": {},
            "cbow": {"architecture": "cbow", "objective": "full-softmax", "cbow_mean": False},
            "tree": {"objective": "hierarchical-softmax", "initializer_range": 0.02},
        },
        "heads": [
            {
                "model_class": modeling.Word2VecModel,
                "auto_class": "AutoModel",
                "make_labels": context_labels,
                "attends": False,
                "has_base": False,
            },
        ],
    },
    {
        "config_class": modeling.GloVeConfig,
        "kind": "table",
        "settings": TABLE_SETTINGS,
        "variants": {"paper": {}},
        "heads": [
            {
                "model_class": modeling.GloVeModel,
                "auto_class": "AutoModel",
                "make_labels": pair_labels,
                "label_names": (),
                "attends": False,
                "has_base": False,
            },
        ],
    },
]

ENTRIES = [
    Entry(
        config_class=family["config_class"],
        kind=family["kind"],
        variant=variant,
        settings={**family["settings"], **options},
        **head,
    )
    for family in FAMILIES
    for head in family["heads"]
    for variant, options in family["variants"].items()
]


def select(**flags) -> list[Entry]:
    """The entries whose flags have these values; a tuple allows several. Without a kind, all but tables."""
    flags.setdefault("kind", ("encoder", "decoder", "seq2seq"))

    def fits(entry: Entry) -> bool:
        return all(
            getattr(entry, name) in value if isinstance(value, tuple) else getattr(entry, name) == value
            for name, value in flags.items()
        )

    return [entry for entry in ENTRIES if fits(entry)]


def every(**flags):
    """Run a test for each entry with these flags, as its argument `entry`."""
    return pytest.mark.parametrize("entry", select(**flags), ids=str)
