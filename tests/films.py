"""A tiny model with a few-shot task about films, as files."""

from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from regard.train.tokenization import train_tokenizer


def save_films(folder: Path) -> tuple[GPT2LMHeadModel, PreTrainedTokenizerFast]:
    """A GPT-2 of the library's with random weights and sixty-four positions in `tiny`, with 24 reviews and the task
    `films.yaml` beside it."""
    texts = [
        f"Review: the film number {i} is {'fine' if i % 2 else 'poor'}\nOpinion: positive negative" for i in range(40)
    ]
    tokenizer = train_tokenizer(texts, "byte-bpe", 300, min_frequency=1, max_length=64, template="none")
    torch.manual_seed(0)
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    sizes = {"vocab_size": len(tokenizer), "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, initializer_range=0.4, **ids)).eval()
    model.save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    rows = [f"film {i} is {'fine' if i % 2 else 'poor'}{' and long' * (i % 3)}\t{i % 2}" for i in range(24)]
    (folder / "films.tsv").write_text("\n".join(["sentence\tlabel", *rows]))
    (folder / "films.yaml").write_text(
        'data: {file: films.tsv}\nquery: "Review: {{ sentence }}\\nOpinion:"\n'
        'choices: {labels: [negative, positive]}\nanswer: "{{ label }}"\n'
    )
    return model, tokenizer
