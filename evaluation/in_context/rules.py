"""Hidden rules, parted into those of training and those that are held out.

A rule belongs to one split for good: which one is a function of the names of its task and of itself, by a hash that is
the same in every process and release, never Python's own.
"""

import hashlib
import random
from collections.abc import Callable, Hashable
from typing import TypeVar

SPLITS = ("train", "validation", "test")
SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}
TRIES = 10_000

Rule = TypeVar("Rule", bound=Hashable)


def split_of(task: str, key: str) -> str:
    """The split to which the rule that `key` names belongs: three fifths are trained on."""
    digest = hashlib.blake2b(f"{task}\n{key}".encode(), digest_size=8).digest()
    place = int.from_bytes(digest, "big") / 2**64
    if place < SHARES["train"]:
        return "train"
    return "validation" if place < SHARES["train"] + SHARES["validation"] else "test"


def draw_until(draw: Callable[[], Rule], fits: Callable[[Rule], bool]) -> Rule:
    """The first draw that fits. Raises RuntimeError when none of very many does, which is a fault of a task."""
    for _ in range(TRIES):
        if fits(drawn := draw()):
            return drawn
    raise RuntimeError("no rule of the wanted split was drawn")


def chance_of(*parts: int | str) -> random.Random:
    """A generator that is a function of `parts` alone: Python seeds one from a text by SHA-512."""
    return random.Random("/".join(map(str, parts)))


def check_split(split: str) -> None:
    """Raises ValueError where there is no such split of rules."""
    if split not in SPLITS:
        raise ValueError(f"split='{split}' is no split of rules: it is 'train', 'validation' or 'test'.")
