"""What every in-context task is made of."""

import random
from abc import ABC, abstractmethod
from string import ascii_lowercase
from typing import Any, ClassVar

from regard.evaluation.in_context.rules import draw_until, split_of

LETTERS = ascii_lowercase
Frame = Any  # what the rules of one sequence share, in view of whoever sees an input
Rule = Any
TRIES_FOR_RIVALS = 200  # of any split, one in five of which is wanted


class InContextTask(ABC):
    """Examples (input, output) under a hidden rule.

    A task is drawn in three steps: a `frame`, such as the number of letters in an input; a hidden `rule` for it; and
    examples under that rule. Inputs are drawn by the frame alone or treat the rules of a frame alike, so that whoever
    has seen no example cannot tell which of a frame's rules holds. `rivals` draws the other choices so that chance is
    exactly one over their number.

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
        """Outputs for `text` by other rules of the frame and split; None where two choices would be the same.

        Then another rule is to be drawn too: the rules of an item are drawn alike and kept or dropped together, so
        that each is as likely as the others to be the hidden one, also where some answers are those of many rules. To
        draw the others until they differ would make the commonest answer more often right than the rest.
        """
        drawn = [rule]
        for _ in range(TRIES_FOR_RIVALS):
            other = self.rule(frame, chance)
            if split_of(self.name, self.key(frame, other)) == split:
                drawn.append(other)
            if len(drawn) == self.choices:
                break
        answers = [self.output(frame, one, text) for one in drawn]
        return answers[1:] if len(set(answers)) == self.choices else None


def some_letters(number: int, chance: random.Random) -> str:
    """So many distinct letters."""
    return "".join(chance.sample(LETTERS, number))
