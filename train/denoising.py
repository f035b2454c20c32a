"""Span corruption, the denoising objective of T5 (Raffel et al., 2020, section 3.1.4) and of BART (Lewis et al., 2020,
section 2.2, text infilling).

    text              Thank you for inviting me to your party last week
    input             Thank you <extra_id_0> me to your party <extra_id_1> week </s>
    target, "spans"   <extra_id_0> for inviting <extra_id_1> last </s>
    target, "text"    Thank you for inviting me to your party last week </s>

Spans of a text are taken out, and a sentinel stands in the place of each. The target is what was taken out, behind the
sentinels (T5), or the whole text (BART, which has one mask for all spans where sentinels are numbered here). The first
is short. The second makes a small model attend to its input within some hundred steps, since most of the text is there
to be copied; with the first it stays with what is frequent for far longer.

How many tokens and spans there are depends on the length of the text alone, so that all rows of one length are still
of one length, and nothing is padded or lost.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from regard.train.sections import DataSection

SENTINEL = "<extra_id_{}>"
TARGETS = SPANS, TEXT = "spans", "text"  # as `data.denoising_target`


def noise_of(length: int, density: float, mean_span: float) -> tuple[int, int]:
    """How many tokens are taken out of a text of `length` tokens, in how many spans."""
    noise = min(max(round(length * density), 1), max(length - 1, 1))
    kept = length - noise
    return noise, max(1, min(round(noise / mean_span), kept))


def corrupted_lengths(length: int, density: float, mean_span: float, target: str = SPANS) -> tuple[int, int]:
    """The lengths of input and target that `length` tokens become, a sentinel a span and the end token included."""
    noise, spans = noise_of(length, density, mean_span)
    return length - noise + spans + 1, (length if target == TEXT else noise + spans) + 1


def longest_text(input_length: int, density: float, mean_span: float) -> int:
    """The most tokens of text whose corrupted input has at most `input_length`.

    Raises:
        ValueError: not even two have, of which one stays.
    """

    def fits(length: int) -> bool:
        return corrupted_lengths(length, density, mean_span)[0] <= input_length

    if not fits(2):
        raise ValueError(
            f"data.block_size: {input_length} leaves no room for text beside a sentinel and an end token: at least 3."
        )
    most = 2
    while fits(2 * most):
        most *= 2
    # A text with one more token never has a shorter input.
    return bisect_left(range(2 * most), True, lo=most, key=lambda length: not fits(length)) - 1


def lengths_of(length: int, data: DataSection) -> tuple[int, int]:
    """`corrupted_lengths` by the rates of a recipe."""
    return corrupted_lengths(length, data.noise_density, data.mean_span_length, data.denoising_target)


def text_length(data: DataSection) -> int:
    """The tokens of text in a row of a recipe: the most whose input fits into a block."""
    return longest_text(data.block_size, data.noise_density, data.mean_span_length)


def number_of_sentinels(data: DataSection) -> int:
    """How many a recipe needs: one for each span of its longest texts."""
    return noise_of(text_length(data), data.noise_density, data.mean_span_length)[1]


class Corrupted(NamedTuple):
    """A text with gaps: what is read (S,), what is written (T,), and where in that the tokens stand that were taken
    out, a boolean (T,)."""

    input_ids: np.ndarray
    labels: np.ndarray
    taken: np.ndarray


@dataclass(frozen=True)
class SpanCorruption:
    """Corrupts rows of token ids.

    Attributes:
        density: share of the tokens that are taken out.
        mean_span: tokens of a span on average.
        sentinels: the ids of <extra_id_0>, <extra_id_1>, ...
        eos_id: what ends an input and a target.
        target: what is written, "spans" or "text".
    """

    density: float
    mean_span: float
    sentinels: tuple[int, ...]
    eos_id: int
    target: str = SPANS

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, data: DataSection) -> "SpanCorruption":
        """By the rates of a recipe, with the sentinels of a tokenizer.

        Raises:
            ValueError: when it has too few of them, or no end token.
        """
        needed, vocabulary = number_of_sentinels(data), tokenizer.get_vocab()
        names = [SENTINEL.format(i) for i in range(needed)]
        if missing := [name for name in names if name not in vocabulary]:
            raise ValueError(
                f"The tokenizer has no token {missing[0]}, and denoising puts {needed} sentinels, {names[0]} to "
                f"{names[-1]}, in the place of text: leave out tokenizer.path and model.start_from, and one that has "
                "them is trained."
            )
        if tokenizer.eos_token_id is None:
            raise ValueError("The tokenizer has no end token, which denoising needs: set its eos_token.")
        sentinels = tuple(vocabulary[name] for name in names)
        return cls(data.noise_density, data.mean_span_length, sentinels, tokenizer.eos_token_id, data.denoising_target)

    def corrupt(self, ids: np.ndarray, generator: np.random.Generator) -> Corrupted:
        """Input and target of a text. As in T5's own code, kept and taken spans take turns, a kept one comes first,
        and all ways to cut them are equally likely.

        Args:
            ids: (T,), without sentinels; empty parts and special tokens inside are text as any other.
            generator: where chance comes from.
        """
        noise, spans = noise_of(len(ids), self.density, self.mean_span)
        gone = _cut_into(noise, spans, generator)
        kept = _cut_into(len(ids) - noise, spans, generator) if len(ids) > noise else np.zeros(1, np.int64)
        edges = np.cumsum(np.stack([kept, gone], axis=1).reshape(-1))[:-1]
        parts = np.split(np.asarray(ids), edges)
        marks = [np.array([sentinel], parts[0].dtype) for sentinel in self.sentinels[:spans]]
        end = np.array([self.eos_id], parts[0].dtype)
        before = parts[::2] if self.target == TEXT else marks
        inputs = [part for pair in zip(parts[::2], marks, strict=True) for part in pair]
        targets = [part for pair in zip(before, parts[1::2], strict=True) for part in pair]
        taken = np.repeat(np.arange(len(targets) + 1) % 2 == 1, [*map(len, targets), 1])
        return Corrupted(np.concatenate([*inputs, end]), np.concatenate([*targets, end]), taken)


def _cut_into(number: int, parts: int, generator: np.random.Generator) -> np.ndarray:
    """The lengths of so many parts, each at least 1, that have `number` in all: any way to cut is equally likely."""
    cuts = np.sort(generator.choice(number - 1, parts - 1, replace=False)) + 1 if parts > 1 else np.zeros(0, np.int64)
    return np.diff(np.concatenate([[0], cuts, [number]]))
