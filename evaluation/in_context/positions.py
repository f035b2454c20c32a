"""Tasks that are solved by looking at the right place: swapping, copying, induction and lookup."""

import random
from string import digits

from regard.evaluation.in_context.base import InContextTask, some_letters


class Swapping(InContextTask):
    """The letters of the input in another order, which is the rule: `abcde>cbaed`.

    Inputs have five letters: of the 23 other orders of four, too few are left to train on for a model to learn more
    than these by heart.
    """

    name = "swapping"
    length = 5

    def frame(self, chance: random.Random) -> int:
        return self.length

    def rule(self, frame: int, chance: random.Random) -> tuple[int, ...]:
        order = list(range(frame))
        while order == sorted(order):  # what changes nothing is no swapping
            chance.shuffle(order)
        return tuple(order)

    def key(self, frame: int, rule: tuple[int, ...]) -> str:
        return "".join(map(str, rule))

    def input(self, frame: int, chance: random.Random) -> str:
        return some_letters(frame, chance)

    def output(self, frame: int, rule: tuple[int, ...], text: str) -> str:
        return "".join(text[place] for place in rule)


class Copying(Swapping):
    """Letters of the input copied, one of them at least more than once: `abcde>dadbe`, by places that are the rule."""

    name = "copying"

    def rule(self, frame: int, chance: random.Random) -> tuple[int, ...]:
        places = [0] * frame
        while len(set(places)) in (1, frame):
            places = [chance.randrange(frame) for _ in range(frame)]
        return tuple(places)


class Induction(InContextTask):
    """What came next the last time? Ten letters stand in a hidden circle, and the output is the three after the input.

    Of the circle `pkzbmwtcxe`, `k` gives `zbm`, and where `p>kzb` stands before it, its first letter is read off
    there: as in A B ... A, the next is B ("In-context Learning and Induction Heads", Olsson et al., 2022).
    """

    name = "induction"
    letters, following = 10, 3

    def frame(self, chance: random.Random) -> str:
        return "".join(sorted(some_letters(self.letters, chance)))

    def rule(self, frame: str, chance: random.Random) -> str:
        return frame[0] + "".join(chance.sample(frame[1:], len(frame) - 1))  # a circle may begin anywhere

    def key(self, frame: str, rule: str) -> str:
        return rule

    def input(self, frame: str, chance: random.Random) -> str:
        return chance.choice(frame)

    def output(self, frame: str, rule: str, text: str) -> str:
        place = rule.index(text)
        return "".join(rule[(place + step) % len(rule)] for step in range(1, self.following + 1))


class Lookup(InContextTask):
    """A hidden table gives each of four keys a value, and the output puts the values to the keys: `kbz>k3b7z1`.

    It is the associative recall by which architectures are compared ("Zoology: Measuring and Improving Recall in
    Efficient Language Models", Arora et al., 2023), with a few pairs shown at a time. The rule is the table.
    """

    name = "lookup"
    keys, asked = 4, 3

    def frame(self, chance: random.Random) -> str:
        return "".join(sorted(some_letters(self.keys, chance)))

    def rule(self, frame: str, chance: random.Random) -> str:
        return "".join(chance.sample(digits, len(frame)))

    def key(self, frame: str, rule: str) -> str:
        return f"{frame}>{rule}"

    def input(self, frame: str, chance: random.Random) -> str:
        return "".join(chance.sample(frame, self.asked))

    def output(self, frame: str, rule: str, text: str) -> str:
        return "".join(key + rule[frame.index(key)] for key in text)
