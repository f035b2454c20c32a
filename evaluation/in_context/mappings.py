"""Tasks whose hidden rule maps what is read to something else: ciphers, arithmetic, and classes with labels."""

import random
from string import digits

from regard.evaluation.in_context.base import InContextTask, some_letters

WORDS = {
    "animals": "horse cow goat sheep wolf bear",
    "plants": "oak pine fern rose lily moss",
    "food": "bread rice soup cheese butter pasta",
    "clothes": "shirt coat hat glove scarf shoe",
    "tools": "hammer saw drill axe shovel rake",
    "body": "hand foot knee elbow ear nose",
    "weather": "rain snow wind storm fog hail",
    "music": "drum flute violin piano harp trumpet",
    "vehicles": "car bus train bike ship truck",
    "house": "roof door window wall floor stairs",
}


class Cipher(InContextTask):
    """Each letter stands for another, by a mapping of six letters that is the rule: `abcd>qxfg`."""

    name = "cipher"
    letters, length = 6, 4

    def frame(self, chance: random.Random) -> tuple[str, str]:
        return "".join(sorted(some_letters(self.letters, chance))), "".join(sorted(some_letters(self.letters, chance)))

    def rule(self, frame: tuple[str, str], chance: random.Random) -> str:
        return "".join(chance.sample(frame[1], self.letters))

    def key(self, frame: tuple[str, str], rule: str) -> str:
        return f"{frame[0]}>{rule}"

    def input(self, frame: tuple[str, str], chance: random.Random) -> str:
        return "".join(chance.sample(frame[0], self.length))

    def output(self, frame: tuple[str, str], rule: str, text: str) -> str:
        return text.translate(str.maketrans(frame[0], rule))


class Arithmetic(InContextTask):
    """Each digit times a hidden number, plus a second, modulo a third: by (3, 1, 7), `2051>0124`."""

    name = "arithmetic"
    length = 4
    rules = tuple((factor, added, m) for m in range(5, 11) for factor in range(1, m) for added in range(m))

    def frame(self, chance: random.Random) -> None:
        return None

    def rule(self, frame: None, chance: random.Random) -> tuple[int, int, int]:
        return chance.choice(self.rules)

    def key(self, frame: None, rule: tuple[int, int, int]) -> str:
        return " ".join(map(str, rule))

    def input(self, frame: None, chance: random.Random) -> str:
        return "".join(chance.choice(digits) for _ in range(self.length))

    def output(self, frame: None, rule: tuple[int, int, int], text: str) -> str:
        factor, added, modulus = rule
        return "".join(str((factor * int(digit) + added) % modulus) for digit in text)


class WordClasses(InContextTask):
    """Words of three classes, which no one names, each with a label: `horse>k`, `drum>f`, `rain>p`, `wolf>k`.

    Held out are sets of three classes. The rule is which class has which of the three labels.
    """

    name = "word-classes"
    choices = 3

    def frame(self, chance: random.Random) -> tuple[tuple[str, ...], str]:
        return tuple(sorted(chance.sample(sorted(WORDS), 3))), "".join(sorted(some_letters(3, chance)))

    def rule(self, frame: tuple[tuple[str, ...], str], chance: random.Random) -> str:
        return "".join(chance.sample(frame[1], 3))

    def key(self, frame: tuple[tuple[str, ...], str], rule: str) -> str:
        return " ".join(frame[0])

    def input(self, frame: tuple[tuple[str, ...], str], chance: random.Random) -> str:
        return chance.choice(WORDS[chance.choice(frame[0])].split())

    def output(self, frame: tuple[tuple[str, ...], str], rule: str, text: str) -> str:
        return next(label for name, label in zip(frame[0], rule, strict=True) if text in WORDS[name].split())


class AllOrAny(InContextTask):
    """Rows of two letters; one label says that all of them are the first letter, another that any is the second.

    With A and B as `m` and `d`, `mmmm>k` and `mmdm>x`. Held out are pairs of letters, in either order; the rule is
    which label has which meaning.
    """

    name = "all-or-any"
    choices = 2
    lengths = range(2, 9)

    def frame(self, chance: random.Random) -> tuple[str, str]:
        letters = some_letters(4, chance)
        return letters[:2], "".join(sorted(letters[2:]))

    def rule(self, frame: tuple[str, str], chance: random.Random) -> str:
        return "".join(chance.sample(frame[1], 2))

    def key(self, frame: tuple[str, str], rule: str) -> str:
        return "".join(sorted(frame[0]))

    def input(self, frame: tuple[str, str], chance: random.Random) -> str:
        a, b = frame[0]
        row = [a] * chance.choice(self.lengths)
        if chance.random() < 0.5:
            row = [chance.choice(frame[0]) for _ in row]
            row[chance.randrange(len(row))] = b
        return "".join(row)

    def output(self, frame: tuple[str, str], rule: str, text: str) -> str:
        return rule[0] if set(text) == {frame[0][0]} else rule[1]
