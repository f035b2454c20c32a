"""What is asked of a model: one item of a task, and the door to the generators of items that the package brings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any

from regard.evaluation.naming import nearest

# The name in a task's `data.builtin`, and the function that makes its items: (number, seed, **options) -> list[Item].
BUILTIN: dict[str, tuple[str, str]] = {
    "in-context": ("regard.evaluation.in_context.questions", "in_context_items"),
    "minimal-pairs": ("regard.evaluation.minimal_pairs", "minimal_pair_items"),
}


@dataclass(frozen=True)
class Item:
    """One question with what may be answered to it.

    Attributes:
        id: names the item among those of its task; the same text is the same item.
        fields: what the task's templates read.
        choices: what may complete the query, one text an option, as they are: what stands between query and choice is
            the task's `join`. Empty where the model writes freely.
        answer: the place of the right one among `choices`.
        references: what a free answer is compared with.
        contexts: the query of each option, where the options differ in what comes before and `choices` holds the same
            continuation for all (partial scoring: Trinh and Le 2018, "A Simple Method for Commonsense Reasoning").
            Empty where all share the task's query.
        group: what the item is counted under beside the whole, such as the phenomenon of a minimal pair.
        pool: the item's own examples, where they follow the hidden rule of the item; None where the task has one pool
            for all. The items in it have no pool.
        rule: names the hidden rule that the answer follows, where other items may follow it too, so that they may be
            right or wrong together; None where the item stands alone.
        place: where the row stands that it was made of, such as "dev.tsv, line 3"; "" where it comes from no file.
    """

    id: str
    fields: dict[str, Any] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    answer: int | None = None
    references: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    group: str | None = None
    pool: "tuple[Item, ...] | None" = None
    rule: str | None = None
    place: str = field(default="", compare=False)

    @property
    def named(self) -> str:
        """The item in a sentence: "the item '1' (dev.tsv, line 3)"."""
        return f"the item '{self.id}'{f' ({self.place})' if self.place else ''}"

    def __post_init__(self) -> None:
        if self.answer is not None and not 0 <= self.answer < len(self.choices):
            raise ValueError(f"{self.named}: answer={self.answer}, but it has {len(self.choices)} choices.")
        if self.contexts and len(self.contexts) != len(self.choices):
            raise ValueError(
                f"{self.named}: {len(self.contexts)} contexts for {len(self.choices)} choices: there must be one "
                "of each for every option."
            )
        if any(not choice for choice in self.choices):
            raise ValueError(f"{self.named}: a choice is empty, so there is nothing to score.")
        if self.pool is not None and any(one.pool is not None for one in self.pool):
            raise ValueError(f"{self.named}: an example of its pool has a pool of its own.")


def rules_of(items: Sequence[Item]) -> int | None:
    """How many rules the items follow, where some share one; None where each stands alone."""
    rules = [item.rule for item in items if item.rule is not None]
    return len(set(rules)) if len(set(rules)) < len(rules) else None


def builtin_items(name: str, number: int | None = None, seed: int = 0, /, **options: Any) -> list[Item]:
    """Items that the package makes: the one door from a task's `data.builtin` to the generators.

    Args:
        name: of the generator, a key of `BUILTIN`.
        number: how many; None for as many as the generator makes where it is not told.
        seed: the same seed gives the same items in every process.
        options: the generator's own, from the task's `data.options`.

    Raises:
        ValueError: a name that there is no generator of, or what the generator refuses.
    """
    if name not in BUILTIN:
        raise ValueError(f"data.builtin: there is no generator '{name}': it must be one of {', '.join(BUILTIN)}.")
    module, function = BUILTIN[name]
    make: Callable[..., list[Item]] = getattr(import_module(module), function)
    _check_options(name, make, options)
    return make(number, seed, **options)


def _check_options(name: str, make: Callable[..., list[Item]], options: dict[str, Any]) -> None:
    """Refuses an option that there is none of, and asks for one that is wanted; values the generators check."""
    known = dict(list(signature(make).parameters.items())[2:])  # after number and seed
    for option in options:
        if option in ("number", "seed"):
            raise ValueError(
                f"data.options.{option}: it is no option of a generator, but a key of data: data.{option}."
            )
        if option not in known:
            there = nearest(option, known, "data.options.")
            raise ValueError(f"data.options.{option}: the generator '{name}' has no such option{there}")
    for option, parameter in known.items():
        if parameter.default is parameter.empty and option not in options:
            raise ValueError(f"data.options.{option} is missing: the generator '{name}' needs it.")
