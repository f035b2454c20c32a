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
    """The last letter stood earlier in the input: the output is what stood at three distances from it there.

    By the rule (1, 2, 3), `rewaxkmq` followed by `a` gives `xkm`: as in A B ... A, the next letter is B. Other rules
    look before the letter too, as (-1, 3, -2), which gives `wme`.
    """

    name = "induction"
    length = 8
    distances = (-3, -2, -1, 1, 2, 3)
    looked_at = 3

    def frame(self, chance: random.Random) -> None:
        return None

    def rule(self, frame: None, chance: random.Random) -> tuple[int, ...]:
        return tuple(chance.sample(self.distances, self.looked_at))

    def key(self, frame: None, rule: tuple[int, ...]) -> str:
        return " ".join(map(str, rule))

    def input(self, frame: None, chance: random.Random) -> str:
        letters = some_letters(self.length, chance)
        furthest = max(self.distances)
        return letters + letters[chance.randrange(furthest, self.length - furthest)]

    def output(self, frame: None, rule: tuple[int, ...], text: str) -> str:
        place = text.index(text[-1])
        return "".join(text[place + distance] for distance in rule)


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
