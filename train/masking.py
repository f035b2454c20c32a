"""Masking for masked language models, as in BERT (Devlin et al. 2019, section 3.1)."""

from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

IGNORED = -100  # a label that the loss does not look at


@dataclass(frozen=True)
class TokenMasker:
    """What masking needs to know.

    Attributes:
        probability: of a token to be chosen.
        mask_id: the id of the mask token.
        special_ids: ids that are never chosen and never drawn as a random token.
        vocab_size: number of ids.
    """

    probability: float
    mask_id: int
    special_ids: tuple[int, ...]
    vocab_size: int

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, probability: float) -> "TokenMasker":
        """The masker of a tokenizer.

        Raises:
            ValueError: when the tokenizer has no mask token.
        """
        if tokenizer.mask_token_id is None:
            raise ValueError("The tokenizer has no mask token, which masked-lm needs: set its mask_token.")
        return cls(probability, tokenizer.mask_token_id, tuple(sorted(tokenizer.all_special_ids)), len(tokenizer))


def mask_tokens(
    input_ids: np.ndarray, masker: TokenMasker, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Chooses tokens and hides most of them: of those chosen, 80 % become the mask, 10 % a random ordinary token, 10
    % stay.

    Args:
        input_ids: any shape; pads, being special, are never chosen.
        masker: the rates and ids.
        generator: where chance comes from.

    Returns:
        New inputs, and labels of the same shape: the true id where a token was chosen, elsewhere -100.
    """
    input_ids = np.asarray(input_ids)
    chosen = (generator.random(input_ids.shape) < masker.probability) & ~np.isin(input_ids, masker.special_ids)
    fate = generator.random(input_ids.shape)
    ordinary = np.setdiff1d(np.arange(masker.vocab_size), masker.special_ids)
    random_ids = generator.choice(ordinary, input_ids.shape) if len(ordinary) else input_ids
    labels = np.where(chosen, input_ids, IGNORED)
    masked = np.where(chosen & (fate < 0.8), masker.mask_id, input_ids)
    return np.where(chosen & (fate >= 0.9), random_ids, masked), labels
