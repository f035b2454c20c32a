"""Minimal pairs without end: the paradigms in turn, each pair drawn by the seed and its place in the list."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from regard.evaluation.few_shot.items import Item
from regard.evaluation.files import check_output_file, replacing
from regard.evaluation.minimal_pairs import agreement, determiners, reflexives, word_order
from regard.evaluation.minimal_pairs.phrases import Draw
from regard.evaluation.naming import nearest

PHENOMENA = {
    "agreement": agreement.PARADIGMS,
    "reflexives": reflexives.PARADIGMS,
    "determiners": determiners.PARADIGMS,
    "word-order": word_order.PARADIGMS,
}
NUMBER = 1000
TRIES = 1000  # draws before a paradigm is taken to have no more pairs


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences that differ in as little as can be, of which one is English.

    Attributes:
        phenomenon: what the difference is about, a key of `PHENOMENA`.
        paradigm: how it is made, a key of the phenomenon's paradigms.
    """

    sentence_good: str
    sentence_bad: str
    phenomenon: str
    paradigm: str


def minimal_pairs(
    number: int | None = None, seed: int = 0, phenomena: Sequence[str] | None = None
) -> list[MinimalPair]:
    """Pairs of sentences: all phenomena as often, and all paradigms of a phenomenon as often.

    The same seed gives the same pairs on every machine, and the first pairs of a longer list are the shorter list.
    No sentence comes twice.

    Args:
        number: how many; 1,000 by default.
        phenomena: which, keys of `PHENOMENA`; by default all.

    Raises:
        ValueError: a number that is negative or more than there are, no phenomenon of that name, or no list of names.
    """
    number = NUMBER if number is None else number
    if number < 0:
        raise ValueError(f"number={number}: it must be 0 or more.")
    return list(islice(_pairs(seed, _chosen(phenomena)), number))


def minimal_pair_items(number: int | None = None, seed: int = 0, phenomena: Sequence[str] | None = None) -> list[Item]:
    """The same as items of a few-shot task: which of two sentences is the likelier, counted by phenomenon.

    In half of the items the right sentence is the second choice.
    """
    return [_item(index, pair) for index, pair in enumerate(minimal_pairs(number, seed, phenomena))]


def write_minimal_pairs(
    path: str | os.PathLike[str], number: int | None = None, seed: int = 0, phenomena: Sequence[str] | None = None
) -> Path:
    """Writes them as JSONL with the keys `sentence_good`, `sentence_bad`, `phenomenon` and `paradigm`.

    Raises:
        ValueError: as `minimal_pairs` does, or where there can be no such file.
    """
    check_output_file(path, f"The file '{path}'")
    pairs = minimal_pairs(number, seed, phenomena)
    with replacing(path) as partial:
        partial.write_text("".join(f"{json.dumps(vars(pair))}\n" for pair in pairs), encoding="utf-8")
    return Path(path)


def _item(index: int, pair: MinimalPair) -> Item:
    choices = (pair.sentence_good, pair.sentence_bad)
    turned = index % 2 == 1
    return Item(
        id=f"{pair.phenomenon}/{pair.paradigm}/{index}",
        fields=dict(vars(pair)),
        choices=choices[::-1] if turned else choices,
        answer=int(turned),
        group=pair.phenomenon,
    )


def _chosen(phenomena: Sequence[str] | str | None) -> list[str]:
    phenomena = [phenomena] if isinstance(phenomena, str) else phenomena  # as a task's options may have it
    is_list = isinstance(phenomena, Sequence) and all(isinstance(name, str) for name in phenomena)
    if phenomena is not None and not is_list:
        raise ValueError(f"phenomena={phenomena!r} must be a list of names: {', '.join(PHENOMENA)}.")
    for name in phenomena or ():
        if name not in PHENOMENA:
            raise ValueError(f"phenomena: there is no '{name}'{nearest(name, PHENOMENA)}")
    return list(dict.fromkeys(phenomena)) if phenomena else list(PHENOMENA)


def _pairs(seed: int, phenomena: Sequence[str]) -> Iterator[MinimalPair]:
    written: set[str] = set()
    for turn in count():
        for phenomenon in phenomena:
            names = list(PHENOMENA[phenomenon])
            # Each paradigm twice before the next round, one of either side: as many singulars as plurals.
            name, side = names[turn // 2 % len(names)], turn % 2 == 1
            yield _new_pair(f"{seed}/{phenomenon}/{turn}", phenomenon, name, side, written)


def _new_pair(key: str, phenomenon: str, name: str, side: bool, written: set[str]) -> MinimalPair:
    for attempt in range(TRIES):
        good, bad = PHENOMENA[phenomenon][name](Draw(f"{key}/{attempt}"), side)
        if written.isdisjoint((good, bad)):
            written.update((good, bad))
            return MinimalPair(good, bad, phenomenon, name)
    raise ValueError(f"number: there are no more pairs of {phenomenon}, {name}: ask for fewer, or of other phenomena.")
