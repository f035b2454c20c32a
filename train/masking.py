"""Masking for masked language models, as in BERT (Devlin et al. 2019, section 3.1), by tokens or by whole words."""

from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

from regard.train.sections import DataSection

IGNORED = -100  # a label that the loss does not look at


@dataclass(frozen=True)
class TokenMasker:
    """What masking needs to know.

    Attributes:
        probability: of a token, or of a whole word, to be chosen.
        mask_id: the id of the mask token.
        special_ids: ids that are never chosen and never drawn as a random token.
        vocab_size: number of ids.
        mask_share, random_share: of the chosen tokens, those that become the mask and those that become a random
            token; the rest stay as they are.
        whole_words: choose all tokens of a word or none, as the later BERT models do.
    """

    probability: float
    mask_id: int
    special_ids: tuple[int, ...]
    vocab_size: int
    mask_share: float = 0.8
    random_share: float = 0.1
    whole_words: bool = False

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, data: DataSection) -> "TokenMasker":
        """The masker of a tokenizer, by the rates of a recipe.

        Raises:
            ValueError: when the tokenizer has no mask token.
        """
        if tokenizer.mask_token_id is None:
            raise ValueError("The tokenizer has no mask token, which masked-lm needs: set its mask_token.")
        ids = tokenizer.mask_token_id, tuple(sorted(tokenizer.all_special_ids)), len(tokenizer)
        return cls(data.mask_probability, *ids, data.mask_share, data.random_share, data.whole_word_masking)


def mask_tokens(
    input_ids: np.ndarray,
    masker: TokenMasker,
    generator: np.random.Generator,
    inside: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses tokens and hides most of them: of those chosen, by the usual rates, 80 % become the mask, 10 % a random
    ordinary token, 10 % stay.

    Args:
        input_ids: any shape, and with `inside` (T,); pads, being special, are never chosen.
        masker: the rates and ids.
        generator: where chance comes from.
        inside: bool (T,), whether a token goes on with the word of the token before it. Words are then chosen whole,
            each with the same probability, so that the rate of tokens stays; what becomes of a chosen token is drawn
            for each by itself.

    Returns:
        New inputs, and labels of the same shape: the true id where a token was chosen, elsewhere -100.
    """
    input_ids = np.asarray(input_ids)
    special = np.isin(input_ids, masker.special_ids)
    drawn = generator.random(input_ids.shape)
    if inside is not None and input_ids.size:
        after_special = np.concatenate([[True], special[:-1]])
        begins = ~np.asarray(inside, bool) | special | after_special  # the rest of a cut word is a word too
        drawn = drawn[np.flatnonzero(begins)[np.cumsum(begins) - 1]]  # a word goes by what its first token drew
    chosen = (drawn < masker.probability) & ~special
    fate = generator.random(input_ids.shape)
    ordinary = np.setdiff1d(np.arange(masker.vocab_size), masker.special_ids)
    random_ids = generator.choice(ordinary, input_ids.shape) if len(ordinary) else input_ids
    labels = np.where(chosen, input_ids, IGNORED)
    masked = np.where(chosen & (fate < masker.mask_share), masker.mask_id, input_ids)
    return np.where(chosen & (fate >= 1 - masker.random_share), random_ids, masked), labels


def mark_inside(input_ids: list[int], word_ids: list[int | None]) -> list[int]:
    """The ids of a text with those that go on with the word of the token before them as ~id, which is negative: so the
    words survive the cutting into rows, which moves ids and looks at nothing else."""
    pairs = zip([None, *word_ids[:-1]], word_ids, input_ids, strict=True)
    return [~token if word is not None and word == before else token for before, word, token in pairs]


def take_marks(marked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ids, and whether each goes on with a word, from what `mark_inside` made."""
    inside = marked < 0
    return np.where(inside, ~marked, marked), inside
