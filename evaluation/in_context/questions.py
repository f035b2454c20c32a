"""Items of the in-context tasks for few-shot prompting, each with examples of its hidden rule."""

from regard.evaluation.few_shot.items import Item
from regard.evaluation.in_context.rules import chance_of, check_split, draw_until
from regard.evaluation.in_context.tasks import IN_CONTEXT_TASKS, Example, draw_examples_of, task_named

POOL = 24  # examples of an item's rule, from which its shots are drawn
NUMBER = 200  # items where nothing else is said


def items(name: str, number: int | None = None, seed: int = 0, *, split: str = "test", pool: int = POOL) -> list[Item]:
    """Questions of a task under rules that training never uses.

    An item's fields are `input` and `output`; its choices are the right answer and what other rules of the same kind
    make of its input, in any order, so that without an example chance is one over their number: all of them are
    equally likely to be the rule. `references` is the right answer, for free generation up to the end of the line.
    `rule` names the hidden rule, which other items may share: a task may have fewer rules than items are asked for.

    Args:
        name: the task's, one of `IN_CONTEXT_TASKS`.
        number: how many items; 200 by default.
        seed: the same seed gives the same items in any process.
        split: of which rules: "test", "validation" or "train".
        pool: how many examples each item brings. Where a task has fewer inputs, some come more than once; none is
            that of the question.

    Raises:
        ValueError: no such task or split, or a number that is not whole or below 1.
    """
    if not isinstance(name, str):
        raise ValueError(f"task={name!r} must be the name of an in-context task: {', '.join(IN_CONTEXT_TASKS)}.")
    check_split(split)
    for what, value in (("number", NUMBER if number is None else number), ("pool", pool)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{what}={value!r} is not a whole number.")
        if value < 1:
            raise ValueError(f"{what}={value} is less than 1.")
    return [_item(name, split, seed, index, pool) for index in range(NUMBER if number is None else number)]


def in_context_items(
    number: int | None = None, seed: int = 0, *, task: str, split: str = "test", pool: int = POOL
) -> list[Item]:
    """`items` as `regard.evaluation.few_shot.items.builtin_items` calls it, with the task's name as an option."""
    return items(task, number, seed, split=split, pool=pool)


def _item(name: str, split: str, seed: int, index: int, pool: int) -> Item:
    task, chance = task_named(name), chance_of("item", name, split, seed, index)

    def question() -> tuple | None:
        frame, rule = task.draw(split, chance)
        text = task.input(frame, chance)
        others = task.rivals(frame, rule, text, split, chance)
        return None if others is None else (frame, rule, text, others)

    frame, rule, text, others = draw_until(question, lambda drawn: drawn is not None)
    right = task.output(frame, rule, text)
    choices = [right, *others]
    chance.shuffle(choices)
    shown = draw_examples_of(task, frame, rule, chance, number=pool, without=text)
    own = f"{name}-{split}-{seed}-{index}"
    return Item(
        id=own,
        fields={"input": text, "output": right},
        choices=tuple(choices),
        answer=choices.index(right),
        references=(right,),
        group=name,
        rule=task.key(frame, rule),
        pool=tuple(_shot(f"{own}-{place}", example) for place, example in enumerate(shown)),
    )


def _shot(own: str, example: Example) -> Item:
    return Item(
        id=own,
        fields={"input": example.input, "output": example.output},
        choices=(example.output,),
        answer=0,
        references=(example.output,),
    )
