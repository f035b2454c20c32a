"""Which examples are shown: drawn by a seed, the same in every process, and never the one that is asked.

The shots of a seed are the same for all items, so that what comes before the query is the same text and is computed
once; where the asked item is among them, a spare takes its place. Of fewer shots, each is among those of more. Text
seeds go through SHA-512 in `random.Random`, so that nothing depends on the process's own hashes.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from regard.evaluation.few_shot.items import Item

FEW = 6  # shots whose orders are all listed: 720


@dataclass(frozen=True)
class Drawn:
    """The shots of one item, in the order of their drawing, and whether each label has as many, give or take one."""

    shots: tuple[Item, ...]
    balanced: bool


class Pool:
    """Examples to draw shots from.

    Args:
        examples: what there is to draw.
        text_of: the text that is asked of an item; two items that ask the same are the same.
        balanced: whether every label is shown as often as the others, give or take one.
        labels: how many labels there are; what is drawn balanced has one of them as its answer.
    """

    def __init__(
        self, examples: Sequence[Item], text_of: Callable[[Item], object], *, balanced: bool = False, labels: int = 0
    ):
        self.examples = examples
        self.text_of = text_of
        self.balanced = balanced
        self.labels = labels
        self.order = cache(self._order)
        self.text = cache(lambda place: text_of(examples[place]))

    def draw(self, item: Item, number: int, seed: int, salt: str = "") -> Drawn:
        """The shots for an item; none of them is the item, by its name or by its text.

        Args:
            number: how many.
            seed: other seeds draw others.
            salt: other draws of the same seed, for a pool that is one item's own.

        Raises:
            ValueError: more than there are beside the item.
        """
        order = self.order(seed, salt)
        chosen, spares = list(order[:number]), itertools.islice(order, number, None)
        waiting: list[int] = []  # spares that were passed over for their label
        asked = self.text_of(item)
        for place, example in enumerate(chosen):
            if self._is(example, item, asked):
                chosen[place] = self._spare(example, item, asked, spares, waiting)
        if len(chosen) < number or None in chosen:
            usable = sum(not self._is(example, item, asked) for example in range(len(self.examples)))
            others = sum(one.id != item.id for one in self.examples) - usable
            same = f", nor are the {others:,} that ask the same text" if others else ""
            raise ValueError(
                f"shots={number}: the pool has {usable:,} examples beside {item.named}, which is never shown "
                f"itself{same}."
            )
        shots = tuple(self.examples[example] for example in chosen)
        return Drawn(shots, not self.balanced or self._is_balanced(shots))

    def _order(self, seed: int, salt: str) -> list[int]:
        """All examples in the order of their drawing: shuffled or, balanced, one of each label in turn."""
        draw = random.Random(f"shots/{seed}/{salt}/{'balanced' if self.balanced else 'random'}")
        order = list(range(len(self.examples)))
        draw.shuffle(order)
        if not self.balanced:
            return order
        by_label: list[list[int]] = [[] for _ in range(self.labels)]
        for example in order:
            by_label[self.examples[example].answer].append(example)
        draw.shuffle(by_label)
        rounds = itertools.zip_longest(*by_label)
        return [example for one in rounds for example in one if example is not None]

    def _spare(
        self, replaced: int, item: Item, asked: object, spares: Iterator[int], waiting: list[int]
    ) -> int | None:
        """The next example that is not the item, of the same label where labels are balanced and there is one."""
        label = self.examples[replaced].answer
        for example in spares:
            if self._is(example, item, asked):
                continue
            if not self.balanced or self.examples[example].answer == label:
                return example
            waiting.append(example)
        return waiting.pop(0) if waiting else None

    def _is(self, example: int, item: Item, asked: object) -> bool:
        return self.examples[example].id == item.id or self.text(example) == asked

    def _is_balanced(self, shots: Sequence[Item]) -> bool:
        counts = Counter(shot.answer for shot in shots)
        several = [counts[label] for label in range(self.labels)]
        return max(several) - min(several) <= 1


def orders(shots: int, number: int, seed: int) -> list[tuple[int, ...]]:
    """Orders in which so many shots are shown, all different, at most `number` and at most all there are.

    The first is a shuffle too: shots that are drawn label by label would else be shown so, and the last label wins
    (Zhao et al., 2021, "Calibrate Before Use", section 4).
    """
    draw = random.Random(f"orders/{seed}/{shots}")
    if shots <= FEW:
        every = list(itertools.permutations(range(shots)))
        draw.shuffle(every)
        return every[:number]
    found: dict[tuple[int, ...], None] = {}
    while len(found) < min(number, math.factorial(shots)):
        found[tuple(draw.sample(range(shots), shots))] = None
    return list(found)
