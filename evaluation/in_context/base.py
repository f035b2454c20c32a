"""What every in-context task is made of."""

import random
from abc import ABC, abstractmethod
from string import ascii_lowercase
from typing import Any, ClassVar

from regard.evaluation.in_context.rules import draw_until, split_of

LETTERS = ascii_lowercase
Frame = Any  # what the rules of one sequence share, in view of whoever sees an input
Rule = Any


class InContextTask(ABC):
    """Examples (input, output) under a hidden rule.

    A task is drawn in three steps: a `frame`, such as the number of letters in an input; a hidden `rule` for it; and
    examples under that rule. Inputs are drawn by the frame alone or treat the rules of a frame alike, so that whoever
    has seen no example cannot tell which of a frame's rules holds: with the outputs of other rules of the same frame
    and split as choices, chance is exactly one over the number of choices.

    Attributes:
        name: of the task, in recipes and on pictures.
        choices: how many answers an item offers.
    """

    name: ClassVar[str]
    choices: ClassVar[int] = 4

    @abstractmethod
    def frame(self, chance: random.Random) -> Frame:
        """Draws a frame."""

    @abstractmethod
    def rule(self, frame: Frame, chance: random.Random) -> Rule:
        """Draws one of the frame's rules, all of them equally likely."""

    @abstractmethod
    def key(self, frame: Frame, rule: Rule) -> str:
        """The name by which a rule is on one side of the split or the other."""

    @abstractmethod
    def input(self, frame: Frame, chance: random.Random) -> str:
        """Draws an input."""

    @abstractmethod
    def output(self, frame: Frame, rule: Rule, text: str) -> str:
        """What the rule makes of an input."""

    def draw(self, split: str, chance: random.Random) -> tuple[Frame, Rule]:
        """A frame, and a rule of the split."""

        def one() -> tuple[Frame, Rule]:
            frame = self.frame(chance)
            return frame, self.rule(frame, chance)

        return draw_until(one, lambda drawn: split_of(self.name, self.key(*drawn)) == split)

    def rivals(self, frame: Frame, rule: Rule, text: str, split: str, chance: random.Random) -> list[str] | None:
        """Outputs for `text` by other rules of the frame and split, distinct from the right one and one another; None
        where there are too few."""
        right = self.output(frame, rule, text)
        others: dict[str, None] = {}
        for _ in range(60 * self.choices):
            other = self.rule(frame, chance)
            answer = self.output(frame, other, text)
            if answer != right and split_of(self.name, self.key(frame, other)) == split:
                others[answer] = None
            if len(others) == self.choices - 1:
                return list(others)
        return None


def some_letters(number: int, chance: random.Random) -> str:
    """So many distinct letters."""
    return "".join(chance.sample(LETTERS, number))
