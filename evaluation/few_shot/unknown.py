"""What of a task a tokenizer cannot write: tokens that stand for whatever its vocabulary lacks."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from regard.evaluation.few_shot.items import Item
from regard.evaluation.few_shot.joining import bare_ids
from regard.evaluation.few_shot.prompts import completions_of
from regard.evaluation.few_shot.templates import Texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


def unknown_tokens(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", texts: Texts, items: Sequence[Item]
) -> list[int]:
    """How many tokens of each item's queries and completions, or right answers, are unknown. Where some are, a warning
    tells their share: two texts that differ in them alone are the same to the model."""
    task, counts, tokens = texts.task, [0] * len(items), 0
    sides = (
        ("text", [texts.queries(item) for item in items]),
        (
            "text_target" if model.config.is_encoder_decoder else "text",
            [item.references if task.writes else completions_of(task, item) for item in items],
        ),
    )
    for side, several in sides:
        owners = [number for number, some in enumerate(several) for _ in dict.fromkeys(some)]
        flat = [text for some in several for text in dict.fromkeys(some)]
        for number, ids in zip(owners, bare_ids(tokenizer, flat, side), strict=True):
            counts[number] += ids.count(tokenizer.unk_token_id)
            tokens += len(ids)
    if unknown := sum(counts):
        logger.warning(
            "%s of the tokens of what is asked (%s of %s) are unknown to the model's tokenizer and read as %s: the "
            "figures say little of texts that it cannot write.",
            f"{unknown / tokens:.1%}",
            f"{unknown:,}",
            f"{tokens:,}",
            tokenizer.unk_token,
        )
    return counts
