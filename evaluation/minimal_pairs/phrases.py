"""Phrases drawn for a sentence, and a sentence written with what is right and with what is wrong in it."""

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from regard.evaluation.minimal_pairs.lexicon import (
    DEEDS,
    KIN,
    LANDMARKS,
    MOMENTS,
    OPPOSITES,
    PEOPLE,
    PLACES,
    POSSESSIVES,
    STATES,
    Kind,
    Noun,
    Verb,
)

T = TypeVar("T")
Pair = tuple[str, str]  # the sentence that is right, the one that is wrong

SLOT = "_"


class Draw:
    """The choices made for one sentence, in an order that its key settles.

    Only `random()` is used, the one draw that Python promises to keep from release to release.
    """

    def __init__(self, key: str):
        self._random = random.Random(int.from_bytes(hashlib.sha256(key.encode()).digest(), "big"))
        self._taken: set[object] = set()

    def one(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]

    def fresh(self, options: Sequence[T]) -> T:
        """One that this sentence does not have yet, nor its opposite: "the teacher helps the teachers" says little."""
        chosen = self.one([option for option in options if option not in self._taken])
        self._taken.update((chosen, *OPPOSITES.get(chosen, ())))
        return chosen

    def chance(self, share: float = 0.5) -> bool:
        return self._random.random() < share


# What makes a pair: choices, and whether the pair's side is the plural (or whatever a paradigm turns by it).
Paradigm = Callable[[Draw, bool], Pair]


def sentence(words: str, end: str = ".") -> str:
    return words[0].upper() + words[1:] + end


def swap(frame: str, right: str, wrong: str, end: str = ".") -> Pair:
    """A frame with one slot, filled both ways."""
    return sentence(frame.replace(SLOT, right), end), sentence(frame.replace(SLOT, wrong), end)


def either(form: str, other: str, plural: bool) -> Pair:
    """(right, wrong) of a singular and a plural form."""
    return (other, form) if plural else (form, other)


# --- phrases ---------------------------------------------------------------------------------------------------------


def adjective(draw: Draw, kind: Kind, share: float = 0.35) -> str:
    """An adjective with the space after it, or nothing."""
    return f"{draw.fresh(kind.attributes)} " if draw.chance(share) else ""


def noun_of(draw: Draw, kind: Kind, plural: bool, determiner: str = "the ", share: float = 0.35) -> str:
    """the old castle."""
    return f"{determiner}{adjective(draw, kind, share)}{draw.fresh(kind.nouns).form(plural)}"


def person(draw: Draw, plural: bool, nouns: Sequence[Noun] = PEOPLE.nouns, kin: Sequence[Noun] = KIN) -> str:
    """the young kings, her brother."""
    if kin and draw.chance(0.2):
        return f"{draw.fresh(POSSESSIVES)} {draw.fresh(kin).form(plural)}"
    return f"the {adjective(draw, PEOPLE)}{draw.fresh(nouns).form(plural)}"


def place(draw: Draw, inside: bool = True) -> str:
    """near the river, in the old city; the latter not for what is itself as large as a city."""
    if draw.chance(0.3):
        return f"near the {draw.fresh(LANDMARKS).one}"
    return f"{draw.one(('in', 'near') if inside else ('near',))} {noun_of(draw, PLACES, False)}"


def setting(draw: Draw, verb: Verb | None = None, share: float = 0.5, past: bool = True) -> str:
    """Where or (of what is past) when something was done, with the space before it; nothing after a verb of state."""
    if (verb is not None and verb.base in STATES) or not draw.chance(share):
        return ""
    where, when = draw.one(((True, False), (False, True), (True, True)) if past else ((True, False),))
    return (f" {place(draw)}" if where else "") + (f" {draw.one(MOMENTS)}" if when else "")


def deed(draw: Draw, kinds: Sequence[Kind] = (), without: Sequence[str] = ()) -> tuple[Kind, Verb]:
    """What people do, and to what kind: one of `kinds`, or any; no verb whose base is in `without`."""
    kind, verbs = draw.one([(kind, verbs) for kind, verbs in DEEDS if not kinds or kind in kinds])
    return kind, draw.one([verb for verb in verbs if verb.base not in without])


def thing_done(draw: Draw) -> tuple[Verb, str]:
    """A verb with its object: (own, "the old horses")."""
    kind, verb = deed(draw)
    return verb, noun_of(draw, kind, draw.chance())
