"""A tokenizer at work on the rows of a data set, and the names under which `datasets` caches what comes of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from datasets import Features, IterableDataset, List, Value
from transformers import PreTrainedTokenizerBase

from regard.evaluation.files import file_digest
from regard.train.fingerprints import fingerprint
from regard.train.sections import WRITING, Recipe, RecipeError
from regard.train.subword_dropout import word_lengths

IDS = List(Value("int32"))


def encode_cut(
    tokenizer: Any, max_length: int, *texts: Any, with_words: bool = False, as_target: bool = False
) -> tuple[dict[str, list], list[int]]:
    """Encodings of at most `max_length` tokens, special ones kept, and the lengths before truncation. `words`, if
    asked for, are the numbers of tokens of the words. Some tokenizers, as Marian's, cut a target by other pieces."""

    def encode(*sides: Any, **settings: Any) -> Any:
        return tokenizer(text_target=sides[0], **settings) if as_target else tokenizer(*sides, **settings)

    encoding = encode(*texts, verbose=False)
    encoded = dict(encoding)
    if with_words:
        encoded["words"] = [word_lengths(encoding.word_ids(row)) for row in range(len(encoded["input_ids"]))]
    lengths = [len(ids) for ids in encoded["input_ids"]]
    for row in (i for i, length in enumerate(lengths) if length > max_length):
        sides = (None if side is None else side[row] for side in texts)
        cut = encode(*sides, truncation=True, max_length=max_length)
        for name in cut:
            encoded[name][row] = cut[name]
        if with_words:
            encoded["words"][row] = word_lengths(cut.word_ids())
    return encoded, lengths


def map_rows(
    dataset: Any,
    function: Any,
    tokenizer: Any,
    parameters: dict[str, Any],
    features: Features,
    keep: Sequence[str] = (),
    batch_size: int = 1000,
) -> Any:
    """What a function of a batch, a tokenizer and `parameters` makes of rows, in columns that `features` names, and
    those that it is to `keep`. A stream stays one."""
    arguments = {
        "batched": True,
        "batch_size": batch_size,
        "fn_kwargs": {"tokenizer": tokenizer, **parameters},
        "remove_columns": [name for name in dataset.features if name not in keep],
        "features": features,
    }
    if isinstance(dataset, IterableDataset):
        return dataset.map(function, **arguments)
    name = fingerprint(dataset._fingerprint, tokenizer_state(tokenizer), function.__name__, parameters, list(features))
    return dataset.map(function, new_fingerprint=name, desc="Tokenising", **arguments)


def tokenizer_state(tokenizer: PreTrainedTokenizerBase) -> list[Any]:
    """All that decides how texts are cut: a fast tokenizer's bytes, without the padding and truncation of its last
    call, or the files of another; and the settings that transformers keeps beside them."""
    if tokenizer.is_fast:
        state = json.loads(tokenizer.backend_tokenizer.to_str()) | {"padding": None, "truncation": None}
    else:
        with TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            files = sorted(Path(folder).iterdir())
            state = {"class": type(tokenizer).__name__} | {file.name: file_digest(file) for file in files}
    return [state, tokenizer.split_special_tokens, tokenizer.truncation_side]


def check_fast(recipe: Recipe, tokenizer: PreTrainedTokenizerBase, which: str) -> None:
    """Raises RecipeError for a tokenizer of Python's where the places of words in a text are needed, or its merges."""
    if tokenizer.is_fast or (recipe.task in WRITING and recipe.data.bpe_dropout == 0):
        return
    need = "data.bpe_dropout" if recipe.task in WRITING else f"the task {recipe.task}"
    raise RecipeError(
        f"{which} is a {type(tokenizer).__name__}, which is not fast, as {need} needs it: name one of the same tokens "
        "that has a tokenizer.json in tokenizer.path."
    )
