"""The checks of a recipe's tokenizer."""

import dataclasses
import logging

from regard.train.made_checks import check_no_tokenizer
from regard.train.sections import (
    DENOISING,
    NUM_SPECIAL_TOKENS,
    REGRESSION,
    TOKENIZER_KINDS,
    WORD_VECTORS,
    Recipe,
    RecipeError,
    TokenizerSection,
)
from regard.train.value_checks import check_choice, check_least

logger = logging.getLogger(__name__)

STREAMED_TEXTS = 100_000  # rows that a tokenizer is trained on where data.streaming has no end


def check_tokenizer(recipe: Recipe) -> None:
    """Refuses a tokenizer that cannot be trained; one that is there already is taken as it is."""
    tokenizer = recipe.tokenizer
    if recipe.task == WORD_VECTORS:
        check_least(
            tokenizer, "tokenizer", max_length=1, **({} if tokenizer.vocab_size is None else {"vocab_size": 2})
        )
        if tokenizer.pattern is not None:
            _check_pattern(tokenizer)
        return
    if recipe.task == REGRESSION:
        check_no_tokenizer(recipe)
        return
    if tokenizer.vocab_size is None:
        raise RecipeError("tokenizer.vocab_size: null is for word vectors; a number is needed here.")
    starts = recipe.model.get("start_from") is not None
    if tokenizer.path is not None or starts:
        _leave_out_what_a_tokenizer_settles(tokenizer)
    check_choice(tokenizer.kind, TOKENIZER_KINDS, "tokenizer.kind")
    check_least(tokenizer, "tokenizer", min_frequency=1, max_length=1, vocab_size=NUM_SPECIAL_TOKENS + 1)
    if tokenizer.pattern is not None:
        _check_pattern(tokenizer)
    bytes_alone = tokenizer.path is None and tokenizer.kind == "byte-bpe" and recipe.task != DENOISING  # has sentinels
    if bytes_alone and tokenizer.vocab_size < 256 + NUM_SPECIAL_TOKENS:
        raise RecipeError(
            f"tokenizer.vocab_size: {tokenizer.vocab_size} is too small for byte-bpe, which needs the 256 bytes and "
            f"{NUM_SPECIAL_TOKENS} special tokens: at least {256 + NUM_SPECIAL_TOKENS}."
        )

    if tokenizer.max_texts is not None:
        check_least(tokenizer, "tokenizer", max_texts=1)
    elif recipe.data.streaming and tokenizer.path is None and not starts:
        tokenizer.max_texts = STREAMED_TEXTS


def _check_pattern(tokenizer: TokenizerSection) -> None:
    from regard.train.tokenization import check_pattern

    try:
        check_pattern(tokenizer.kind, tokenizer.pattern)
    except ValueError as error:
        raise RecipeError(str(error)) from error


def _leave_out_what_a_tokenizer_settles(tokenizer: TokenizerSection) -> None:
    """An existing tokenizer is taken as it is: what the recipe says of training one is set back, and named."""
    plain = TokenizerSection(path=tokenizer.path)
    others = [f.name for f in dataclasses.fields(plain) if getattr(tokenizer, f.name) != getattr(plain, f.name)]
    if others:
        names = ", ".join(f"tokenizer.{name}" for name in others)
        place = "tokenizer.path" if tokenizer.path is not None else "model.start_from"
        logger.warning("The tokenizer is that of %s, so these are not used: %s.", place, names)
    for name in others:
        setattr(tokenizer, name, getattr(plain, name))
