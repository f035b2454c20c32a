"""A tokenizer at work on the rows of a data set, and the names under which `datasets` caches what comes of it."""

import json
from collections.abc import Sequence
from typing import Any

from datasets import Features, IterableDataset, List, Value
from transformers import PreTrainedTokenizerBase

from regard.train.fingerprints import fingerprint
from regard.train.subword_dropout import word_lengths

IDS = List(Value("int32"))


def encode_cut(
    tokenizer: Any, max_length: int, *texts: Any, with_words: bool = False
) -> tuple[dict[str, list], list[int]]:
    """Encodings of at most `max_length` tokens, special ones kept, and the lengths before truncation. `words`, if
    asked for, are the numbers of tokens of the words."""
    encoding = tokenizer(*texts, verbose=False)
    encoded = dict(encoding)
    if with_words:
        encoded["words"] = [word_lengths(encoding.word_ids(row)) for row in range(len(encoded["input_ids"]))]
    lengths = [len(ids) for ids in encoded["input_ids"]]
    for row in (i for i, length in enumerate(lengths) if length > max_length):
        cut = tokenizer(
            *(None if side is None else side[row] for side in texts), truncation=True, max_length=max_length
        )
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
    """All that decides how texts are cut: the tokenizer's bytes, without the padding and truncation of its last call,
    and the settings that transformers keeps beside them.

    Raises:
        ValueError: when it has no `tokenizers` backend.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ValueError(
            f"tokenizer.path: {type(tokenizer).__name__} has no fast tokenizer: give one with a tokenizer.json."
        )
    state = json.loads(backend.to_str()) | {"padding": None, "truncation": None}
    return [state, tokenizer.split_special_tokens, tokenizer.truncation_side]
