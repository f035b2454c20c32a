"""Tasks whose hidden rule is about places: swapping, copying, induction and lookup."""

import random

from regard.evaluation.in_context.base import InContextTask, some_letters


class Swapping(InContextTask):
    """The letters of the input in another order, which is the rule: `abcd>cbad`."""

    name = "swapping"

    def frame(self, chance: random.Random) -> int:
        return chance.choice((3, 4, 5))

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
    """Letters of the input copied, one of them at least more than once: `abc>abca`, by places that are the rule."""

    name = "copying"

    def frame(self, chance: random.Random) -> tuple[int, int]:
        length = chance.choice((3, 4, 5))
        return length, chance.choice(range(length, 7))

    def rule(self, frame: tuple[int, int], chance: random.Random) -> tuple[int, ...]:
        length, copies = frame
        places = [0] * copies
        while len(set(places)) in (1, copies):
            places = [chance.randrange(length) for _ in range(copies)]
        return tuple(places)

    def key(self, frame: tuple[int, int], rule: tuple[int, ...]) -> str:
        return f"{frame[0]}:{''.join(map(str, rule))}"

    def input(self, frame: tuple[int, int], chance: random.Random) -> str:
        return some_letters(frame[0], chance)


class Induction(InContextTask):
    """The last letter stood earlier in the input: the output is what stood at two distances from it there.

    By the rule (1, 2), `rewaxkmqt` followed by `a` gives `xk`: as in A B ... A, the next letter is B. Other rules look
    before the letter, or further on, as in (-1, 3), which gives `wm`.
    """

    name = "induction"
    length = 9
    distances = (-3, -2, -1, 1, 2, 3)

    def frame(self, chance: random.Random) -> None:
        return None

    def rule(self, frame: None, chance: random.Random) -> tuple[int, int]:
        return tuple(chance.sample(self.distances, 2))

    def key(self, frame: None, rule: tuple[int, int]) -> str:
        return f"{rule[0]} {rule[1]}"

    def input(self, frame: None, chance: random.Random) -> str:
        letters = some_letters(self.length, chance)
        furthest = max(self.distances)
        return letters + letters[chance.randrange(furthest, self.length - furthest)]

    def output(self, frame: None, rule: tuple[int, int], text: str) -> str:
        place = text.index(text[-1])
        return "".join(text[place + distance] for distance in rule)


class Lookup(InContextTask):
    """Keys with values in any order; the output are the values of two of the keys, which are the rule.

    By the rule (b, k), `k3b7z1m9` gives `73`. All inputs of a sequence have the same four keys.
    """

    name = "lookup"

    def frame(self, chance: random.Random) -> str:
        return "".join(sorted(some_letters(4, chance)))

    def rule(self, frame: str, chance: random.Random) -> tuple[str, str]:
        return tuple(chance.sample(frame, 2))

    def key(self, frame: str, rule: tuple[str, str]) -> str:
        return "".join(rule)

    def input(self, frame: str, chance: random.Random) -> str:
        keys = chance.sample(frame, len(frame))
        values = chance.sample("0123456789", len(frame))
        return "".join(key + value for key, value in zip(keys, values, strict=True))

    def output(self, frame: str, rule: tuple[str, str], text: str) -> str:
        return "".join(text[text.index(key) + 1] for key in rule)
