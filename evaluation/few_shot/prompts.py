"""Description, shots and query as one text that the model can read.

    description + shot + separator + ... + shot + separator + query

Where that is too long, whole shots are left out, those farthest from the query first; description and query stay. What
is too long without any shot is an error: a text cut anywhere else is another question.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from regard.evaluation.few_shot.items import Item
from regard.evaluation.few_shot.templates import Texts

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from regard.evaluation.few_shot.task import Task

SLACK = 8  # tokens that a text may have beyond its bytes: those that a tokenizer puts around it
NO_LIMIT = 10**9  # beyond it a tokenizer's limit stands for none
KEPT = 256  # beginnings of prompts whose tokens are counted once: more than there are numbers of shots


class Room(Protocol):
    """How much a model can read."""

    limit: int | None

    def needs(self, pairs: Sequence[tuple[str, str | None]], before: str = "") -> int:
        """The tokens that the longest of several prompts takes with its completion; where that is None it is still to
        be written. A bound will do that is on the same side of the limit.

        Args:
            before: what all of them begin with, and the prompts of other items too.
        """


@dataclass(frozen=True)
class Prompt:
    """What one item is asked with.

    Attributes:
        before: description and shots, the same for many items.
        queries: what follows: one text, or one an option where the options differ in it.
        completions: what is scored after it, one an option; empty where the model writes.
        shots: the examples that are shown, in their order.
        dropped: how many more were to be shown and did not fit.
    """

    before: str
    queries: tuple[str, ...]
    completions: tuple[str, ...]
    shots: tuple[Item, ...]
    dropped: int = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """The whole prompts: one, or one an option."""
        return tuple(self.before + query for query in self.queries)

    def pairs(self) -> list[tuple[str, str | None]]:
        """The prompt of each option with what is scored after it; a single one with None where the model writes."""
        if not self.completions:
            return [(self.texts[0], None)]
        texts = self.texts * (len(self.completions) if len(self.queries) == 1 else 1)
        return list(zip(texts, self.completions, strict=True))


def completions_of(task: "Task", item: Item) -> tuple[str, ...]:
    """What is scored, one an option: what joins it to the query goes with it, and a text without a query has none."""
    return tuple(task.join + choice if task.takes_shots else choice for choice in item.choices)


def build(texts: Texts, item: Item, shots: Sequence[Item], room: Room, calibrate: bool = False) -> Prompt:
    """The prompt of an item, with as many of the shots as there is room for.

    Args:
        calibrate: the same shots have to fit before "N/A" too, which may be longer than what is asked.

    Raises:
        ValueError: description and query alone are too long.
    """
    task = texts.task
    shown = [texts.example(shot) + task.separator for shot in shots]
    queries, completions = texts.queries(item), completions_of(task, item)
    free = texts.content_free(item) if calibrate else None

    def prompt(dropped: int) -> Prompt:
        before = task.description + "".join(shown[dropped:])
        return Prompt(before, queries, completions, tuple(shots[dropped:]), dropped)

    def fits(dropped: int) -> bool:
        if room.limit is None:
            return True
        return room.needs(pairs(prompt(dropped)), prompt(dropped).before) <= room.limit

    def pairs(asked: Prompt) -> list[tuple[str, str | None]]:
        without = [] if free is None else [(asked.before + free, completion) for completion in completions]
        return asked.pairs() + without

    if fits(0):
        return prompt(0)
    dropped = bisect_left(range(len(shown) + 1), True, key=fits)
    if dropped > len(shown):
        needed = room.needs(pairs(prompt(len(shown))))
        raise ValueError(
            f"{item.named[0].upper()}{item.named[1:]} takes {needed} tokens without any shot, and the model reads "
            f"{room.limit}: shorten the description or the item, leave it out of the data, or take another model."
        )
    return prompt(dropped)


class ModelRoom:
    """The room of a model: the smaller of its table of positions and its tokenizer's limit.

    Args:
        new_tokens: how many are written where a completion is None.
    """

    def __init__(self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", new_tokens: int = 0):
        from regard.evaluation.generation import position_limit

        own = tokenizer.model_max_length
        limits = [one for one in (own if own < NO_LIMIT else None, position_limit(model)) if one]
        self.limit = min(limits, default=None)
        self.model = model
        self.tokenizer = tokenizer
        self.new_tokens = new_tokens
        self.tokens = lru_cache(KEPT)(lambda text: len(tokenizer(text, verbose=False)["input_ids"]))

    def needs(self, pairs: Sequence[tuple[str, str | None]], before: str = "") -> int:
        """As `Room` says; a bound where that is enough, since a token is at least a byte of its text. What many items
        have before their query is counted once: each item's whole text would take longer than the model does."""
        bound = max(len((prompt + (completion or "")).encode()) for prompt, completion in pairs)
        bound += SLACK + self.new_tokens
        if self.limit is None or bound <= self.limit:
            return bound
        if before:
            shared = self.tokens(before)
            bound += shared - len(before.encode())
            if bound <= self.limit or shared - SLACK > self.limit:
                return bound
        from regard.evaluation.few_shot.joining import Request
        from regard.evaluation.few_shot.scoring import positions_needed
        from regard.evaluation.generation import _encode_prompt

        requests = [Request(prompt, completion) for prompt, completion in pairs if completion is not None]
        if requests:
            return max(positions_needed(self.model, self.tokenizer, requests))
        if self.model.config.is_encoder_decoder:
            read = max(len(self.tokenizer(prompt, verbose=False)["input_ids"]) for prompt, _ in pairs)
            return max(read, self.new_tokens)
        read = max(len(_encode_prompt(self.model, self.tokenizer, prompt)) for prompt, _ in pairs)
        return read + self.new_tokens - 1  # the last token that is written is not read
