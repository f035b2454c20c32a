"""From a row of data to an item, and from an item to the texts that a prompt is made of.

The templates are Jinja's, in its sandbox: they read the fields of a row and nothing else. A field that is not there is
an error, not an empty text, and so is one without a value: null, or a NaN. `{{ field | default("none given") }}` and
`{{ field or other }}` say what stands in its place.
"""

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from regard.evaluation.few_shot.items import Item

if TYPE_CHECKING:
    from regard.evaluation.few_shot.task import Task


class Missing(StrictUndefined):
    """The value of a field that has none. It is false and none, and no text can be made of it."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, Missing)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__


def _text_of(value: Any) -> Any:
    """What stands in the text in the place of an expression."""
    if _is_missing(value):
        raise ValueError(f"an expression gives {value} in the place of a text")
    return value


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, finalize=_text_of)
ENVIRONMENT.tests["none"] = lambda value: value is None or isinstance(value, Missing)
CONTENT_FREE = "N/A"  # of Zhao et al. (2021), section 5
WHOLE = re.compile(r"(-?[0-9]+)\.0")  # how a whole number is kept in a column that lacks some values
NO_GROUP = "(none)"  # the group of items whose own is empty
SHOWN_FIELDS = 12
# What a template, or Python's methods in it, can raise.
FAULTS = (TemplateError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError, MemoryError)


@cache
def compile_template(source: str) -> Template:
    """Raises jinja2's TemplateSyntaxError where it is none."""
    return ENVIRONMENT.from_string(source)


def render(source: str, fields: Mapping[str, Any], where: str) -> str:
    """The text of a template.

    Args:
        where: begins the sentence of an error, such as "query of the item '3'".

    Raises:
        ValueError: a field that is not there or has no value, or what the template makes of one cannot be.
    """
    try:
        return compile_template(source).render({name: _marked(value, str(name)) for name, value in fields.items()})
    except FAULTS as error:
        names = [str(name) for name in fields][:SHOWN_FIELDS]
        what = str(error).rstrip(".") or f"'{source}' is too much for the memory"
        raise ValueError(f"{where}: {what}; the fields are {', '.join(names) or 'none'}.") from error


def _marked(value: Any, name: str) -> Any:
    """The value of a field, with `Missing` for what it lacks."""
    if _is_missing(value):
        return Missing(f"'{name}' has no value ({'null' if value is None else 'NaN'})")
    if isinstance(value, Mapping):
        return {key: _marked(one, f"{name}.{key}") for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(one, f"{name}[{place}]") for place, one in enumerate(value)]
    return value


def item_of(
    task: "Task",
    fields: Mapping[str, Any],
    number: int,
    given: Item | None = None,
    prefix: str = "",
    place: str = "",
) -> Item:
    """A row as an item.

    Args:
        number: of the row, from 0 on, its name where the task has no `id`.
        given: the item of a generator, whose parts stand where the task says nothing of its own.
        prefix: of the item's name.
        place: of the row, for sentences: "dev.tsv, line 3".

    Raises:
        ValueError: a template or a value that cannot be right, with the item's name and place.
    """
    name = given.id if given else str(number)
    if task.id is not None:
        name = render(task.id, fields, f"id of {place or f'row {number}'}")
    name = prefix + name
    where = Item(name, place=place).named
    contexts, choices = _options(task, fields, where) if task.choices else ((), ())
    if given and not task.choices:
        contexts, choices = given.contexts, given.choices
    answer, references = (given.answer, given.references) if given else (None, ())
    if task.writes:
        choices, contexts, answer = (), (), None
        references = _references(task, fields, where) if task.answer is not None else references
        if not references:
            raise ValueError(f"answer of {where}: there is no right text to compare with.")
    elif task.answer is not None:
        answer = _place(task, fields, choices, where)
    if not task.writes and (answer is None or not choices):
        raise ValueError(f"{where[0].upper()}{where[1:]} has no choices with a right one: say choices and answer.")
    group = given.group if given else None
    if task.group is not None:
        group = render(task.group, fields, f"group of {where}")
        group = group if group.strip() else NO_GROUP
    pool = None
    if given and given.pool is not None:
        pool = tuple(item_of(task, one.fields, index, one) for index, one in enumerate(given.pool))
    rule = given.rule if given else None
    return Item(name, dict(fields), choices, answer, references, contexts, group, pool, rule, place)


class Texts:
    """The texts of a task's items, each rendered once; an item is known by its identity while this lives."""

    def __init__(self, task: "Task"):
        self.task = task
        self._kept: dict[tuple[str, int], tuple[Item, Any]] = {}  # with the item, so that its id stays its own

    def queries(self, item: Item) -> tuple[str, ...]:
        """As `queries_of`."""
        return self._keep("queries", item, queries_of)

    def asked(self, item: Item) -> tuple[str, ...]:
        """What tells two items apart: the queries but for white space around them."""
        return tuple(query.strip() for query in self.queries(item))

    def example(self, item: Item) -> str:
        """As `example_of`."""
        return self._keep("example", item, example_of)

    def content_free(self, item: Item) -> str:
        """As `content_free_query`."""
        return self._keep("content_free", item, content_free_query)

    def _keep(self, name: str, item: Item, make: Callable[["Task", Item], Any]) -> Any:
        if (name, id(item)) not in self._kept:
            self._kept[name, id(item)] = item, make(self.task, item)
        return self._kept[name, id(item)][1]


def queries_of(task: "Task", item: Item) -> tuple[str, ...]:
    """What is asked: one text, or one an option where the options differ in what comes before."""
    if item.contexts:
        return item.contexts
    return (render(task.query, item.fields, f"query of {item.named}"),)


def example_of(task: "Task", item: Item) -> str:
    """The item as a shot: its query with the right completion."""
    queries = queries_of(task, item)
    answer = item.references[0] if task.writes else item.choices[item.answer]
    query = queries[item.answer if len(queries) > 1 else 0]
    fields = {**item.fields, "query": query, "join": task.join, "answer": answer}
    return render(task.example, fields, f"example of {item.named}")


def content_free_query(task: "Task", item: Item) -> str:
    """The query with "N/A" in the place of its content, for calibration."""
    where = f"query of {item.named} without its content"
    names = [name for name, value in item.fields.items() if isinstance(value, str)]
    if task.content:
        names = content_fields(task, item)
    return render(task.query, {**item.fields, **dict.fromkeys(names, CONTENT_FREE)}, where)


def content_fields(task: "Task", item: Item) -> list[str]:
    """The fields of the task's `content` that an item has: of "premise or question" the first that is there.

    Raises:
        ValueError: none of them is there.
    """
    return [_first_there(item, several) for several in task.content or ()]


def _first_there(item: Item, several: str) -> str:
    found = next((name for one in several.split(" or ") if (name := one.strip()) in item.fields), None)
    if found is None:
        raise ValueError(f"content: {item.named} has no field '{several}', but {', '.join(map(str, item.fields))}.")
    return found


def _options(
    task: "Task", fields: Mapping[str, Any], where: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:  # contexts, choices
    choices = task.choices
    if choices.labels is not None:
        return (), tuple(choices.labels)
    if choices.field is not None:
        return (), _texts(fields, choices.field, f"choices.field of {where}")
    if choices.templates is not None:
        return (), tuple(render(one, fields, f"choices.templates of {where}") for one in choices.templates)
    if isinstance(choices.contexts, str):
        contexts = _texts(fields, choices.contexts, f"choices.contexts of {where}")
    else:
        contexts = tuple(render(one, fields, f"choices.contexts of {where}") for one in choices.contexts)
    continuation = render(choices.continuation, fields, f"choices.continuation of {where}")
    return contexts, (continuation,) * len(contexts)


def _texts(fields: Mapping[str, Any], path: str, where: str) -> tuple[str, ...]:
    value = next((found for one in path.split(" or ") if (found := _inside(fields, one.strip())) is not None), None)
    if value is None:
        names = ", ".join(map(str, fields))
        raise ValueError(f"{where}: there is no field '{path}' with a value; the fields are {names}.")
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{where}: the field '{path}' holds {value!r:.60} where a list of texts is wanted.")
    return tuple(value)


def _inside(fields: Mapping[str, Any], path: str) -> Any:
    """What a field holds, or a field in it; None where there is none."""
    value: Any = fields
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def _place(task: "Task", fields: Mapping[str, Any], choices: tuple[str, ...], where: str) -> int:
    if not isinstance(task.answer, str):
        raise ValueError("answer: of choices it is one template, the place of the right one or its text.")
    text = render(task.answer, fields, f"answer of {where}").strip()
    if text not in choices and (whole := WHOLE.fullmatch(text)):
        text = whole[1]
    named = task.labels is not None and any(one.isdecimal() and one != str(i) for i, one in enumerate(task.labels))
    if text.lstrip("-").isdecimal() and not named:  # of the labels 1 to 5, a 1 would else be the second
        if 0 <= int(text) < len(choices):
            return int(text)
        raise ValueError(f"answer of {where}: {text} is no place among its {len(choices)} choices, counted from 0.")
    if choices.count(text) == 1:
        return choices.index(text)
    otherwise = ", whose places are not taken where they are numbers" if named else ", and no place either"
    raise ValueError(f"answer of {where}: '{text}' is none of the choices {', '.join(choices)}{otherwise}.")


def _references(task: "Task", fields: Mapping[str, Any], where: str) -> tuple[str, ...]:
    if isinstance(task.answer, dict):
        return _texts(fields, task.answer["field"], f"answer of {where}")
    templates = [task.answer] if isinstance(task.answer, str) else task.answer
    texts = (render(one, fields, f"answer of {where}") for one in templates)
    return tuple(text for text in texts if text.strip())
