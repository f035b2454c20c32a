"""Runs that label texts or words, tiny and untrained: random models whose labels are wrong often enough."""

import json
import random
from pathlib import Path

import torch

from regard.modeling import (
    TransformerEncoderConfig,
    TransformerEncoderForSequenceClassification,
    TransformerEncoderForTokenClassification,
)
from regard.train.recipe import load_recipe
from regard.train.tokenization import TASK_OPTIONS, train_tokenizer

LABELS = ["no", "perhaps", "yes"]
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 1}


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(["a", "bank", "by", "the", "river", "sees", "it"], k=rng.randint(1, 9)))


def write_rows(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def make_recipe(folder: Path, task: str, data: dict, **sections: dict) -> Path:
    """A recipe file beside its data."""
    values = {
        "name": "tiny",
        "task": task,
        "model": {"type": "encoder", **SIZES},
        "tokenizer": {"kind": "word", "vocab_size": 30, "min_frequency": 1},
        "data": data,
        "training": {"max_steps": 3, "per_device_train_batch_size": 8, "report_to": "none", "save_strategy": "no"},
    } | sections
    path = folder / "tiny.yaml"
    path.write_text(json.dumps(values))  # JSON is YAML
    return path


def texts_recipe(folder: Path, pairs: bool = True, rows: int = 40) -> Path:
    """Labels of texts, or of pairs of texts."""
    rng, splits = random.Random(0), {}
    for name, number in (("train", rows), ("validation", 24), ("test", 16)):
        found = [{"text": sentence(rng), "second": sentence(rng), "label": LABELS[i % 3]} for i in range(number)]
        splits[name] = str(write_rows(folder / f"{name}.jsonl", found))
    columns = {"text_pair": "second"} if pairs else {}
    metrics = {"metrics": ["accuracy", "f1", "matthews_correlation"], "errors": 4}
    return make_recipe(
        folder, "sequence-classification", splits | {"columns": columns, "max_length": 20}, evaluation=metrics
    )


def words_recipe(folder: Path) -> Path:
    """Tags of words; the longest sentences are cut."""
    rng, splits = random.Random(0), {}
    for name in ("train", "validation"):
        words = [sentence(rng).split() for _ in range(20)]
        found = [{"tokens": row, "tags": [rng.choice(["DET", "NOUN", "VERB"]) for _ in row]} for row in words]
        splits[name] = str(write_rows(folder / f"{name}.jsonl", found))
    return make_recipe(
        folder,
        "token-classification",
        splits | {"max_length": 8},
        evaluation={"metrics": ["tag_accuracy"], "errors": 5},
    )


def make_run(folder: Path, recipe_path: Path) -> Path:
    """A run's folder with a random model."""
    recipe = load_recipe(recipe_path)
    rng = random.Random(0)
    texts = [sentence(rng) for _ in range(60)]
    tokenizer = train_tokenizer(texts, "word", 30, min_frequency=1, **TASK_OPTIONS[recipe.task])
    words = recipe.task == "token-classification"
    labels = ["DET", "NOUN", "VERB"] if words else LABELS
    torch.manual_seed(3)
    config = TransformerEncoderConfig(
        vocab_size=len(tokenizer),
        initializer_range=0.5,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
        pad_token_id=tokenizer.pad_token_id,
        **SIZES,
    )
    kinds = (TransformerEncoderForSequenceClassification, TransformerEncoderForTokenClassification)
    kinds[words](config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    recipe.save(folder / "recipe.yaml")
    return folder
