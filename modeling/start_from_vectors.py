"""Begin a model's token embeddings from word vectors that are there already. Axes: V tokens, D width."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

WORD_BEGINS = ("Ġ", "▁")  # what byte-level and SentencePiece tokenizers put where a word begins
GOES_ON = "##"  # what WordPiece puts where one goes on


class FoundVectors(NamedTuple):
    """Tokens that began from a vector, and those that had none, in order of their rows."""

    found: list[str]
    missing: list[str]


def words_of_tokens(tokenizer: Any) -> dict[int, str]:
    """The word that each token stands for, by its row; parts of words and special tokens stand for none.

    In a vocabulary of whole words each token is its word. In one of subwords, a token is a word if it begins one:
    where beginnings are marked, those with the mark; where continuations are, those without. Such a token also begins
    longer words, and starts from the vector of the shorter all the same.

    Args:
        tokenizer: a tokenizer of transformers, or a mapping from tokens to rows.
    """
    special = _special_rows(tokenizer)
    tokens = {row: token for token, row in _vocabulary(tokenizer).items() if row not in special}
    if isinstance(tokenizer, Mapping):
        return tokens
    for mark in WORD_BEGINS:
        marked = {row: token for row, token in tokens.items() if token.startswith(mark)}
        if marked and _is_mark(mark, tokenizer):
            return {row: tokenizer.convert_tokens_to_string([token]).strip() for row, token in marked.items()}
    if not _is_mark(GOES_ON, tokenizer):
        return tokens
    return {row: token for row, token in tokens.items() if not token.startswith(GOES_ON) or token == GOES_ON}


def start_embeddings(
    table: torch.Tensor, vectors: Any, tokenizer: Any, seed: int = 0, lowercase: bool = False
) -> FoundVectors:
    """Write vectors into the rows of the tokens that have one, in place.

    The rows of other tokens are drawn from a normal distribution with, in each dimension, the mean and the standard
    deviation of those that were found; if that is one alone, with the deviation of the table as it was. Rows of
    special tokens, and rows that are no token's, stay as they are.

    Args:
        table: (V, D).
        vectors: with `key_to_index` and `vectors` (words, D), as `WordVectors` has them.
        tokenizer: see `words_of_tokens`.
        seed: of the draw.
        lowercase: look a word that is missing up in lower case too.

    Raises:
        ValueError: before anything is changed, if the widths differ, a row is not in the table, no token has a vector,
            or one that is found is not finite.
    """
    source = np.asarray(vectors.vectors)
    ids = vectors.key_to_index
    if source.shape[1] != table.shape[1]:
        raise ValueError(
            f"word vectors of width {source.shape[1]} do not fit token embeddings of width {table.shape[1]}: the "
            f"model's hidden_size must be {source.shape[1]}."
        )
    words = words_of_tokens(tokenizer)
    rows, places, found, missing, missing_rows = [], [], [], [], []
    names = {row: token for token, row in _vocabulary(tokenizer).items()}
    if names and max(names) >= len(table):
        raise ValueError(
            f"token {names[max(names)]!r} has row {max(names)}, and the model has {len(table)} rows of token "
            "embeddings: it belongs to another tokenizer."
        )
    special = _special_rows(tokenizer)
    for row in sorted(names):
        if row in special:
            continue
        word = words.get(row)
        place = None if word is None else ids.get(word)
        if place is None and word is not None and lowercase:
            place = ids.get(word.lower())
        if place is None:
            missing.append(names[row])
            missing_rows.append(row)
        else:
            found.append(names[row])
            rows.append(row)
            places.append(place)
    if not found:
        raise ValueError(
            f"none of the {len(missing)} tokens has a word vector, of {len(ids)} there are: are both of one language, "
            "and is the one lowercased and the other not?"
        )
    known = torch.from_numpy(np.array(source[places], dtype=np.float32))  # (found, D)
    finite = known.isfinite().all(1)
    if not finite.all():
        raise ValueError(f"the vector of {found[int(finite.int().argmin())]!r} holds a number that is not finite.")
    spread = (known if len(known) > 1 else table.detach().to("cpu", torch.float32)).std(0, correction=0)  # (D,)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(missing), table.shape[1], generator=generator)
    drawn = known.mean(0) + spread * noise  # (missing, D)
    with torch.no_grad():
        table[torch.tensor(rows, device=table.device)] = known.to(table)
        table[torch.tensor(missing_rows, device=table.device, dtype=torch.long)] = drawn.to(table)
    return FoundVectors(found, missing)


def _vocabulary(tokenizer: Any) -> Mapping[str, int]:
    return tokenizer if isinstance(tokenizer, Mapping) else tokenizer.get_vocab()


def _special_rows(tokenizer: Any) -> set[int]:
    return set() if isinstance(tokenizer, Mapping) else set(tokenizer.all_special_ids)


def _is_mark(mark: str, tokenizer: Any) -> bool:
    """Whether the tokenizer takes this from tokens when it joins them to text; elsewhere it is a part of words."""
    return mark not in tokenizer.convert_tokens_to_string(["a", f"{mark}a"])
