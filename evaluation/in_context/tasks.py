"""The in-context tasks by name, and sequences of examples under one hidden rule.

All share one form, a line for each example: `input>output`. A sequence is a function of its seed and numbers alone.
"""

import difflib
import random
from dataclasses import dataclass

from regard.evaluation.in_context.base import Frame, InContextTask, Rule
from regard.evaluation.in_context.mappings import AllOrAny, Arithmetic, Cipher, WordClasses
from regard.evaluation.in_context.positions import Copying, Induction, Lookup, Swapping
from regard.evaluation.in_context.rules import chance_of, check_split

IN_CONTEXT_TASKS: dict[str, InContextTask] = {
    task.name: task
    for task in (
        Swapping(),
        Copying(),
        Induction(),
        Lookup(),
        Cipher(),
        Arithmetic(),
        WordClasses(),
        AllOrAny(),
    )
}
ARROW, END = ">", "\n"
CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789" + ARROW + END
"""All that a sequence is made of."""
NEW_INPUT = 30  # draws after which an input may come again


@dataclass(frozen=True)
class Example:
    """An input and what the sequence's rule makes of it."""

    input: str
    output: str

    @property
    def text(self) -> str:
        return f"{self.input}{ARROW}{self.output}{END}"


def task_named(name: str) -> InContextTask:
    """Raises ValueError, with the nearest name, where there is no such task."""
    if name not in IN_CONTEXT_TASKS:
        near = difflib.get_close_matches(name, IN_CONTEXT_TASKS, n=1)
        hint = f": did you mean '{near[0]}'?" if near else f": there are {', '.join(IN_CONTEXT_TASKS)}."
        raise ValueError(f"There is no in-context task '{name}'{hint}")
    return IN_CONTEXT_TASKS[name]


def draw_examples(
    name: str,
    split: str,
    seed: int | str,
    index: int | str,
    *,
    number: int | None = None,
    characters: int | None = None,
) -> list[Example]:
    """Examples under one rule, each with another input where the task has so many.

    Args:
        name: the task's.
        split: "train", "validation" or "test": of which rules.
        seed, index: what the examples are a function of.
        number: how many.
        characters: or instead, so many that their text is at least so long.

    Raises:
        ValueError: no such task or split, or both a number and characters, or neither.
    """
    check_split(split)
    if (number is None) == (characters is None):
        raise ValueError("give either number or characters.")
    task, chance = task_named(name), chance_of(name, split, seed, index)
    return draw_examples_of(task, *task.draw(split, chance), chance, number=number, characters=characters)


def draw_examples_of(
    task: InContextTask,
    frame: Frame,
    rule: Rule,
    chance: random.Random,
    *,
    number: int | None = None,
    characters: int | None = None,
    without: str | None = None,
) -> list[Example]:
    """Examples of a given rule, none of them with the input `without`.

    Raises:
        RuntimeError: the task draws no other input, which is a fault of it.
    """
    examples: list[Example] = []
    seen: set[str] = set()
    length = 0
    while length < characters if number is None else len(examples) < number:
        drawn = [task.input(frame, chance)]
        while (drawn[-1] in seen or drawn[-1] == without) and len(drawn) < NEW_INPUT:
            drawn.append(task.input(frame, chance))
        if (text := next((one for one in reversed(drawn) if one != without), None)) is None:
            raise RuntimeError(f"the task {task.name} has no other input than {without!r}")
        seen.add(text)
        examples.append(Example(text, task.output(frame, rule, text)))
        length += len(examples[-1].text)
    return examples
