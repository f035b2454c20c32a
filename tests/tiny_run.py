"""A run as `regard train` leaves it, tiny and without training: for the tests of checking and publishing."""

import json
from pathlib import Path

import torch
from torch.utils.tensorboard import SummaryWriter

from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM
from regard.train.recipe import load_recipe
from regard.train.tokenization import train_tokenizer

TEXTS = ["the cat saw the dog .", "the dog saw the cat .", "a small test , and an end !"] * 4
SETTINGS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def make_run(folder: Path, name: str = "tiny") -> Path:
    """A language model with all that a run has: card, records, a picture, an event file, a checkpoint with pickles."""
    from regard.model_cards.card import write_card

    run = folder / name
    tokenizer = train_tokenizer(TEXTS, "byte-bpe", 280, min_frequency=1, max_length=64, template="bos")
    torch.manual_seed(0)
    ids = {key: getattr(tokenizer, key) for key in ("pad_token_id", "bos_token_id", "eos_token_id")}
    model = TransformerDecoderForCausalLM(TransformerDecoderConfig(vocab_size=len(tokenizer), **SETTINGS, **ids))
    model.save_pretrained(run)
    tokenizer.save_pretrained(run)
    overrides = [f"model.{key}={value}" for key, value in SETTINGS.items()]
    overrides += [f"data.train={folder}/train.txt", f"data.validation={folder}/valid.txt", f"name={name}"]
    overrides += ["training.push_to_hub=true", "training.hub_model_id=ada/mirror"]
    load_recipe("language-modeling/tinyshakespeare-char", overrides).save(run / "recipe.yaml")
    metrics = {
        "recipe": name,
        "environment": {"python": "3", "torch": torch.__version__},
        "model": {"parameters": model.num_parameters(), "class": type(model).__name__},
        "evaluation": {"validation": {"loss": 2.0, "perplexity": 7.389}},
        "samples": [{"source": "/the", "prediction": " cat"}],
    }
    (run / "metrics.json").write_text(json.dumps(metrics))
    (run / "history.json").write_text("[]")
    (run / "loss_curve.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    with SummaryWriter(str(run / "logs")) as writer:  # names the machine in the file's name, and here in it a folder
        writer.add_text("args", json.dumps({"output_dir": str(run)}))
        writer.add_scalar("train/loss", 2.0, 1)
    checkpoint = run / "checkpoint-3"
    model.save_pretrained(checkpoint)
    tokenizer.save_pretrained(checkpoint)
    torch.save({"state": {}}, checkpoint / "optimizer.pt")
    (checkpoint / "trainer_state.json").write_text("{}")
    write_card(run)
    return run
