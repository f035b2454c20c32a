"""The folders that the scripts load: a tiny model of each family with its tokenizer, as a run or the Hub holds it."""

from pathlib import Path

import torch

from regard.modeling import (
    DANConfig,
    DANForSequenceClassification,
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerDecoderForCausalLM,
    TransformerEncoderConfig,
    TransformerEncoderForMaskedLM,
    TransformerEncoderForSequenceClassification,
    TransformerEncoderForTokenClassification,
    TransformerForConditionalGeneration,
    Word2VecModel,
)
from regard.train.tokenization import train_tokenizer, word_tokenizer

from .texts import LABELS, PAIRS, SENTENCES

TEXTS = [text for pair in PAIRS for text in pair]
WIDTHS = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
ROTARY = {
    "norm_position": "pre",
    "norm_type": "rmsnorm",
    "position_embedding_type": "rotary",
    "gated_mlp": True,
    "hidden_act": "silu",
    "num_key_value_heads": 2,
}
NAMES = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}


def make_folders(home: Path) -> Path:
    """Writes them into a folder that is not there yet, with weights drawn by a seed.

    `decoder` (sinusoidal), `decoder-rotary`, `assistant` (smaller, with the first one's tokenizer), `encoder`,
    `classifier`, `tagger`, `dan`, `translator` and `words`.
    """
    torch.manual_seed(0)
    _save_decoders(home)
    _save_encoders(home)
    tokenizer = train_tokenizer(TEXTS, "byte-bpe", 300, min_frequency=1, max_length=64, template="eos")
    config = TransformerConfig(encoder_layers=2, decoder_layers=2, **_sizes(tokenizer), **WIDTHS)
    _save(TransformerForConditionalGeneration(config), tokenizer, home / "translator")

    counts = {word: sum(word in sentence.split() for sentence in SENTENCES) for word in " ".join(SENTENCES).split()}
    words = sorted(counts, key=lambda word: (-counts[word], word))
    model = Word2VecModel.from_vocabulary(words, [counts[word] for word in words], hidden_size=16)
    _save(model, word_tokenizer(words), home / "words")
    return home


def _save_decoders(home: Path) -> None:
    tokenizer = train_tokenizer(SENTENCES, "byte-bpe", 300, min_frequency=1, max_length=64, template="bos")
    sizes = _sizes(tokenizer)
    for name, settings in (("decoder", {}), ("decoder-rotary", ROTARY)):
        config = TransformerDecoderConfig(num_hidden_layers=2, **sizes, **WIDTHS, **settings)
        _save(TransformerDecoderForCausalLM(config), tokenizer, home / name)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    _save(TransformerDecoderForCausalLM(TransformerDecoderConfig(**sizes, **small)), tokenizer, home / "assistant")


def _save_encoders(home: Path) -> None:
    tokenizer = train_tokenizer(
        SENTENCES, "word", 40, min_frequency=1, max_length=64, template="bos-eos", split_special_tokens=False
    )
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    config = {"num_hidden_layers": 2, **sizes, **WIDTHS}
    _save(TransformerEncoderForMaskedLM(TransformerEncoderConfig(**config)), tokenizer, home / "encoder")
    for name, model_class in (
        ("classifier", TransformerEncoderForSequenceClassification),
        ("tagger", TransformerEncoderForTokenClassification),
    ):
        _save(model_class(TransformerEncoderConfig(**config, **NAMES)), tokenizer, home / name)
    averaging = DANConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=2, **sizes, **NAMES)
    _save(DANForSequenceClassification(averaging), tokenizer, home / "dan")


def _sizes(tokenizer) -> dict[str, int]:
    names = ("pad_token_id", "bos_token_id", "eos_token_id")
    return {"vocab_size": len(tokenizer), **{name: getattr(tokenizer, name) for name in names}}


def _save(model, tokenizer, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
