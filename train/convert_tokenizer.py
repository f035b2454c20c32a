"""The source's tokenizer, saved beside the weights; it must be the same one when it is loaded from there."""

import json
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from regard.train.convert_source import TOKENIZER, ConversionError, Source

TEXTS = (
    "A small test.", "The cat saw the dog, and the dog saw the cat: 12 × 3 = 36!", "", "It's  naïve,\n日本 2026 🙂",
)  # fmt: skip
SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")  # which alone are no tokenizer
BEGIN = "the tokenizer cannot be taken along: "


def copy_tokenizer(source: Source, folder: Path, vocab_size: int, notes: list[str]) -> str | None:
    """Saves the source's tokenizer, under the name of its class, and sees that it is the same when loaded from there.

    Raises:
        ConversionError: it cannot be loaded, or would be another one.
    """
    if not source.has(set(TOKENIZER) - set(SETTINGS)):
        notes.append("The source has no tokenizer.")
        return None
    tokenizer = _load(source.folder)
    before = _behaviour(tokenizer)
    try:
        tokenizer.save_pretrained(folder)
        again = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # as below
        kind = type(tokenizer).__name__
        raise ConversionError(f"{BEGIN}once saved, this {kind} cannot be loaded again.") from error
    after = _behaviour(again)
    if changed := [name for name in before if before[name] != after[name]]:
        raise ConversionError(f"{BEGIN}saved and loaded again, {', '.join(changed)} would be others.")
    if len(tokenizer) > vocab_size:
        notes.append(
            f"The tokenizer has {len(tokenizer)} tokens and the model {vocab_size} rows, as in the source: the last "
            "ones cannot be read."
        )
    if tokenizer.pad_token_id is None:
        notes.append(
            "The tokenizer has no pad token, as in the source; in fine-tuning its end token stands for one."
            if tokenizer.eos_token_id is not None
            else "The tokenizer has no pad token, as in the source: batches need one."
        )
    if not tokenizer.is_fast:
        notes.append(
            f"A {type(tokenizer).__name__} is no fast tokenizer: recipes of translation and summarization take it, "
            "those of other tasks, and data.bpe_dropout, do not."
        )
    return type(tokenizer).__name__


def _load(folder: Path) -> Any:
    """The source's. The library's messages on one that it cannot build are lists of what it tried: ours is its own.

    Raises:
        ConversionError: it cannot be built.
    """
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # what reads a broken file raises whatever it meets there
        found = [name for name in TOKENIZER if (folder / name).is_file()]
        if broken := [name for name in found if name.endswith(".json") and not _is_object(folder / name)]:
            raise ConversionError(f"{BEGIN}{broken[0]} is broken, as it holds no JSON object.") from error
        if isinstance(error, ImportError):
            said = " ".join(str(error).split()).partition(". ")[0].rstrip(".")  # the rest is on how to install it
            raise ConversionError(f"{BEGIN}the library lacks a package for it ({said}).") from error
        raise ConversionError(
            f"{BEGIN}the library builds none from {', '.join(found)}, so that one of them is broken, or a file or a "
            "package that they need, such as sentencepiece, is missing."
        ) from error


def _is_object(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def _behaviour(tokenizer: Any) -> dict[str, Any]:
    """What a tokenizer does that a model depends on.

    Raises:
        ConversionError: it cannot read some text.
    """
    try:
        ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    except Exception as error:  # the library's are of no class of their own
        said = " ".join(str(error).split())
        raise ConversionError(f"{BEGIN}it cannot read every text ({said}).") from error
    return {
        "tokens": ids,
        "the target's tokens": [tokenizer(text_target=text)["input_ids"] for text in TEXTS],
        "texts": tokenizer.batch_decode(ids),
        "special tokens": (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id),
        "the number of tokens": len(tokenizer),
        "the greatest length": tokenizer.model_max_length,
        "the side of padding": tokenizer.padding_side,
        "the chat template": tokenizer.chat_template,
    }
