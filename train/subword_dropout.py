"""BPE dropout: words are cut anew each time, some merges being skipped (Provilkov, Emelianenko and Voita, ACL 2020).

At each step every merge that the current pieces of a word allow is skipped with probability p, each place for itself;
of those left, the one learnt first is done, the leftmost where it fits several times; when none is left, the word is
cut. With p = 0 that is the tokenizer's own way to cut.

`tokenizers` has a BPE dropout too, but its random numbers cannot be seeded. Here the caller's generator decides all.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import chain, groupby, islice
from typing import Any

import numpy as np

KNOWN_STATES = 250_000  # words in the making whose merges are remembered: some 200 MB
LONGEST_KNOWN = 24  # symbols of such a word: longer ones hardly ever come again
UNFIT = ("continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges", "dropout")

Pieces = tuple[int, ...]


class SubwordDropout:
    """Cuts words that a BPE tokenizer has cut, again and otherwise."""

    def __init__(
        self, merges: Mapping[tuple[int, int], tuple[int, int]], symbols: Mapping[int, Pieces], probability: float
    ) -> None:
        """
        Args:
            merges: for two tokens that can be merged, the rank of the merge (the lowest is done first) and the token
                that they become.
            symbols: for each token, the tokens of its single symbols. A word with a token that is not among them
                (special, unknown, added) stays as it is.
            probability: p, at least 0 and below 1.
        """
        self.merges = merges
        self.symbols = symbols
        self.probability = probability
        self._known: dict[Pieces, list[tuple[int, int]]] = {}

    @classmethod
    def of(cls, tokenizer: Any, probability: float) -> "SubwordDropout":
        """With the merges of a tokenizer.

        Raises:
            ValueError: when it is no BPE tokenizer, or one that cuts words in another way than by merges alone.
        """
        state = json.loads(tokenizer.backend_tokenizer.to_str())
        model, special = state["model"], {token["id"] for token in state["added_tokens"]}
        if model.get("type") != "BPE":
            raise ValueError(f"data.bpe_dropout needs a BPE tokenizer, and this one is of type {model.get('type')}.")
        if unfit := [name for name in UNFIT if model.get(name)]:
            raise ValueError(
                f"data.bpe_dropout needs a BPE tokenizer that cuts words by its merges alone, and this one has "
                f"{unfit[0]}={model[unfit[0]]!r}."
            )
        vocab = model["vocab"]
        merges = {(vocab[a], vocab[b]): (rank, vocab[a + b]) for rank, (a, b) in enumerate(model["merges"])}
        symbols = {
            token: tuple(vocab[symbol] for symbol in text)
            for text, token in vocab.items()
            if token not in special and all(symbol in vocab for symbol in text)
        }
        return cls(merges, symbols, probability)

    def cut(self, ids: Sequence[int], words: Sequence[int], generator: np.random.Generator) -> list[int]:
        """A text's tokens, each word cut anew.

        Args:
            ids: the tokens of the text, as the tokenizer cuts it, with special tokens.
            words: how many of them each word has (`word_lengths`), in order.
            generator: where the random numbers come from; nothing else decides.
        """
        rest = iter(ids)
        parts = [tuple(islice(rest, count)) for count in words]
        starts = [self._symbols_of(part) for part in parts]
        # A step asks for the number of merges skipped before one is done. Each step but the last makes a word shorter.
        skipped = generator.geometric(1 - self.probability, sum(map(len, starts))) - 1
        draws = iter(skipped.tolist())
        cut: list[int] = []
        for part, pieces in zip(parts, starts, strict=True):
            if not pieces:
                cut += part
                continue
            while moves := self._moves(pieces):
                draw = next(draws)
                if draw >= len(moves):
                    break
                place, merged = moves[draw]
                pieces = (*pieces[:place], merged, *pieces[place + 2 :])
            cut += pieces
        return cut

    def _symbols_of(self, part: Pieces) -> Pieces:
        """The single symbols of a word; none for a word that stays as it is."""
        if not all(token in self.symbols for token in part):
            return ()
        return tuple(chain.from_iterable(self.symbols[token] for token in part))

    def _moves(self, pieces: Pieces) -> list[tuple[int, int]]:
        """The merges that the pieces of a word allow, the first to be done first: where, and what becomes."""
        if (moves := self._known.get(pieces)) is not None:
            return moves
        found = [
            (*self.merges[pair], place)
            for place, pair in enumerate(zip(pieces, pieces[1:], strict=False))
            if pair in self.merges
        ]
        moves = [(place, merged) for _, merged, place in sorted(found)]
        if len(pieces) <= LONGEST_KNOWN:
            if len(self._known) >= KNOWN_STATES:
                self._known.clear()
            self._known[pieces] = moves
        return moves


def word_lengths(word_ids: Sequence[int | None]) -> list[int]:
    """The number of tokens of each word, from the number of each token's word (None: no word's)."""
    return [len(list(group)) for _, group in groupby(word_ids)]
