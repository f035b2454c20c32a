"""Runs made by hand, for tests of what is rendered from them: tiny random models with records."""

import json

import torch

from regard.modeling import (
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerDecoderForCausalLM,
    TransformerEncoderConfig,
    TransformerEncoderForMaskedLM,
    TransformerEncoderForSequenceClassification,
    TransformerForConditionalGeneration,
)
from regard.train.recipe import load_recipe
from regard.train.tokenization import TASK_OPTIONS, train_tokenizer

SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
BLEU = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
METRICS = {
    "recipe": "multi30k-de-en",
    "environment": {
        "python": "3.11.9", "torch": "2.13.0+cpu", "transformers": "5.24.0", "regard": "0.1.0",
        "cpu": "A Processor", "cores": 2, "threads": 1, "date": "2026-11-28",
    },
    "data": {
        "train": {"rows": 29000, "examples": 28990, "tokens": 912345, "dropped": 10, "pad_share": 0.04},
        "validation": {"rows": 1014, "examples": 1014, "tokens": 30001, "truncated": 2, "pad_share": None},
        "test:2016_flickr": {"rows": 1000, "examples": 1000, "tokens": 29876, "dropped": 0, "truncated": 0},
    },
    "model": {"parameters": 7654321, "class": "TransformerForConditionalGeneration"},
    "training": {
        "seconds": 1440.3, "steps": 3804, "epochs": 8.0, "tokens": 7211111, "tokens_per_second": 5006.7,
        "final_loss": 2.3456, "averaged_checkpoints": [3000, 3804],
    },
    "evaluation": {
        "validation": {"loss": 1.7345, "perplexity": 5.6662},
        "test:2016_flickr": {"loss": 1.7, "perplexity": 5.4739, "bleu": 36.4567, "bleu_signature": BLEU},
    },
    "samples": [{"source": 'Ein Mann | mit "Hut".', "target": "A man.\nYes &lt;s>.", "prediction": "A *man* <b>."}],
}  # fmt: skip


def make_run(folder, task="translation", recipe=None, metrics=METRICS, overrides=()):
    """A run's folder with a tiny random model of its task, a tokenizer and these records."""
    torch.manual_seed(0)
    kind = "wordpiece" if task == "sequence-classification" else "byte-bpe"
    size = 45 if kind == "wordpiece" else 280
    tokenizer = train_tokenizer(["Ein Mann mit Hut. A man with a hat."] * 3, kind, size, **TASK_OPTIONS[task])
    config = {"vocab_size": len(tokenizer), **SIZES}
    model = {
        "translation": lambda: TransformerForConditionalGeneration(
            TransformerConfig(encoder_layers=1, decoder_layers=2, **config)
        ),
        "causal-lm": lambda: TransformerDecoderForCausalLM(TransformerDecoderConfig(num_hidden_layers=1, **config)),
        "masked-lm": lambda: TransformerEncoderForMaskedLM(TransformerEncoderConfig(num_hidden_layers=1, **config)),
        "sequence-classification": lambda: TransformerEncoderForSequenceClassification(
            TransformerEncoderConfig(num_hidden_layers=1, **config)
        ),
    }[task]()
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if recipe is not None:
        load_recipe(recipe, overrides).save(folder / "recipe.yaml")
    if metrics is not None:
        (folder / "metrics.json").write_text(json.dumps(metrics))
    return folder
