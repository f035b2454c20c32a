"""The checks of a task: each refuses what cannot work with a sentence that names the key and what would be right."""

import dataclasses
import logging
import re
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from jinja2 import TemplateSyntaxError

from regard.evaluation.few_shot.items import BUILTIN
from regard.evaluation.few_shot.templates import compile_template
from regard.evaluation.naming import either, nearest

if TYPE_CHECKING:
    from regard.evaluation.few_shot.task import Choices, Data, Task

logger = logging.getLogger(__name__)
Made = TypeVar("Made")

CHOICE_METRICS = ("accuracy", "f1", "f1_binary", "matthews_correlation", "greedy")
"""Of choices. `greedy`: the share of items whose right completion is the likeliest token at every place, so that the
model would write it (LAMBADA's accuracy); such a task may have a single choice."""
OF_LABELS = ("f1", "f1_binary", "matthews_correlation")
TEXT_METRICS = ("exact_match", "bleu", "squad_exact_match", "squad_f1")
"""Of free texts, as `regard.evaluation.metrics` has them."""
SOURCES = {
    "path": ("name", "split", "shots_split"),
    "file": ("shots_file",),
    "builtin": ("number", "seed", "options"),
}
"""Where data come from, and the keys that go with each."""
OPTIONS = ("labels", "field", "templates", "contexts")
LONGEST_NAME = 200  # bytes of UTF-8: most file systems take 255, of which other parts of the names need some
INTERNAL = ("folder", "source", "overrides")  # no key of the YAML


def make(cls: type[Made], values: Any, prefix: str = "") -> Made:
    """A dataclass of plain values and of other dataclasses from nested mappings.

    Raises:
        ValueError: an unknown key, with the nearest; a value of another type; a key that is missing.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{prefix.rstrip('.')}: {values!r} is not a section with keys of its own.")
    hints = typing.get_type_hints(cls)
    known = [one.name for one in dataclasses.fields(cls) if one.name not in INTERNAL]
    for key in values:
        if key not in known:
            raise ValueError(f"there is no key '{prefix}{key}'{nearest(str(key), known, prefix)}")
    for one in dataclasses.fields(cls):
        if one.default is one.default_factory is dataclasses.MISSING and one.name not in values:
            raise ValueError(f"{prefix}{one.name} is missing.")
    return cls(**{key: _typed(value, hints[key], f"{prefix}{key}") for key, value in values.items()})


def take_source(values: dict[str, Any], overridden: Sequence[str]) -> None:
    """Leaves out where the data came from when the overrides name another place."""
    data = values.get("data")
    given = [source for source in SOURCES if f"data.{source}" in overridden]
    if not isinstance(data, dict) or len(given) != 1:
        return
    had_shots = "shots_split" in data or "shots_file" in data
    for source, keys in SOURCES.items():
        for key in (source, *keys):
            if source != given[0] and f"data.{key}" not in overridden:
                data.pop(key, None)
    if given[0] == "file" and "data.shots_file" not in overridden:
        data.pop("shots_file", None)
        if had_shots:
            logger.warning(
                "data.file is %s, so the shots come from that file too, never the item that is asked; "
                "data.shots_file=train.jsonl draws them from another.",
                data["file"],
            )


def check(task: "Task", values: Mapping[str, Any]) -> None:
    """Whether the keys fit together; `values` are those that were given.

    Raises:
        ValueError: they do not.
    """
    if not re.fullmatch(r"\w[\w.-]*", task.name):
        raise ValueError(f"name: '{task.name}' must be letters, digits, '-', '_' and '.': files are named after it.")
    if (length := len(task.name.encode())) > LONGEST_NAME:
        raise ValueError(
            f"name: '{task.name[:20]}...' has {length} bytes and must have at most {LONGEST_NAME}: files are named "
            "after it."
        )
    _check_data(task.data)
    _check_kind(task, values)
    _check_metric(task)
    for where, source in _templates(task):
        try:
            compile_template(source)
        except TemplateSyntaxError as error:
            raise ValueError(f"{where}: '{source}' is not a Jinja template ({error.message}).") from error


def _check_data(data: "Data") -> None:
    given = [source for source in SOURCES if getattr(data, source)]
    if len(given) != 1:
        got = f"are {' and '.join(given)}" if given else "is none of them"
        raise ValueError(f"data: one of {either(SOURCES)} says where the items come from, but there {got}.")
    for source, keys in SOURCES.items():
        for key in keys:
            default = {"seed": 0, "options": {}}.get(key)
            if source != given[0] and getattr(data, key) != default:
                raise ValueError(f"data.{key} goes with data.{source}, not with data.{given[0]}.")
    if data.path and not data.split:
        raise ValueError("data.split is missing: it names the split of data.path that is asked, such as validation.")
    if data.builtin and data.builtin not in BUILTIN:
        raise ValueError(f"data.builtin: there is no generator '{data.builtin}'{nearest(data.builtin, BUILTIN)}")
    if data.number is not None and data.number < 1:
        raise ValueError(f"data.number: {data.number} must be at least 1.")


def _check_kind(task: "Task", values: Mapping[str, Any]) -> None:
    if task.choices and task.generation:
        raise ValueError("choices and generation exclude each other: the model chooses or writes freely.")
    if not (task.choices or task.generation or task.data.builtin):
        raise ValueError("choices or generation is missing: the model chooses, or writes freely.")
    if task.answer is None and not task.data.builtin:
        raise ValueError("answer is missing: it says which choice, or which text, is right.")
    if isinstance(task.answer, dict) and set(task.answer) != {"field"}:
        raise ValueError("answer: a mapping has the one key 'field', the name of a field with a list of texts.")
    if isinstance(task.answer, dict) and not isinstance(task.answer["field"], str):
        raise ValueError(f"answer.field: {task.answer['field']!r} must be the name of a field with a list of texts.")
    if task.choices and task.answer is None:
        raise ValueError(
            f"choices: the generator '{task.data.builtin}' brings its own, so other ones need an answer that says "
            "which of them is right: leave choices out, or say answer too."
        )
    if task.choices:
        _check_choices(task.choices, task.metric)
    if task.is_partial and task.query:
        raise ValueError("query is left out where choices.contexts says what comes before: it holds the queries.")
    if not task.is_partial and "query" not in values:
        raise ValueError("query is missing: it is what the model is asked; an empty one compares whole texts.")
    if task.writes and not task.query.strip():
        raise ValueError("query is empty, but a model that writes freely has to be asked something.")
    if task.generation:
        if task.generation.max_new_tokens < 1:
            raise ValueError(f"generation.max_new_tokens: {task.generation.max_new_tokens} must be at least 1.")
        if "" in task.generation.stop:
            raise ValueError("generation.stop holds an empty text, which would end every answer before it begins.")


def _check_choices(choices: "Choices", metric: str) -> None:
    given = [name for name in OPTIONS if getattr(choices, name) is not None]
    if len(given) != 1:
        got = f"are {' and '.join(given)}" if given else "is none of them"
        raise ValueError(f"choices: one of {either(OPTIONS)} says what they are, but there {got}.")
    name, options = given[0], getattr(choices, given[0])
    if (choices.continuation is None) == (name == "contexts"):
        raise ValueError("choices.continuation is the same text after each of choices.contexts, and goes with it.")
    if isinstance(options, str):
        return
    least = 1 if metric == "greedy" and name == "templates" else 2
    if len(options) < least:
        raise ValueError(f"choices.{name}: {options!r} must be at least {least} texts.")
    if name == "labels" and (len(set(options)) < len(options) or "" in options):
        raise ValueError(f"choices.labels: {options!r} must be texts that differ, none of them empty.")


def _check_metric(task: "Task") -> None:
    fitting = TEXT_METRICS if task.writes else CHOICE_METRICS
    if task.metric not in (*TEXT_METRICS, *CHOICE_METRICS):
        raise ValueError(f"metric: '{task.metric}' is not known{nearest(task.metric, fitting)}")
    if task.metric not in fitting:
        kind = "free texts" if task.writes else "choices"
        raise ValueError(f"metric: '{task.metric}' does not fit {kind}, which take {either(fitting)}.")
    if task.metric in OF_LABELS and not task.labels:
        raise ValueError(f"metric: '{task.metric}' counts labels, and takes choices.labels.")
    if task.metric == "f1_binary" and len(task.labels or ()) != 2:
        raise ValueError("metric: 'f1_binary' is of the second of two labels; 'f1' is the mean over more.")


def _templates(task: "Task") -> Iterator[tuple[str, str]]:
    """All templates, with the names of their keys."""
    choices = task.choices
    several = {
        "query": task.query,
        "example": task.example,
        "id": task.id,
        "group": task.group,
        "answer": None if isinstance(task.answer, dict) else task.answer,
        "choices.templates": choices and choices.templates,
        "choices.contexts": choices and (None if isinstance(choices.contexts, str) else choices.contexts),
        "choices.continuation": choices and choices.continuation,
    }
    for where, sources in several.items():
        for source in [sources] if isinstance(sources, str) else sources or ():
            yield where, source


def _typed(value: Any, hint: Any, where: str) -> Any:
    """The value, if it is of the type; a whole number is a text too."""
    choices = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
    for choice in choices:
        if dataclasses.is_dataclass(choice) and value is not None:
            return make(choice, value, f"{where}.")
        fits, converted = _convert(value, choice)
        if fits:
            return converted
    names = dict.fromkeys(_name(choice) for choice in choices if choice is not types.NoneType)
    quotes = " (true and false are texts in quotes alone)" if isinstance(value, bool | list) else ""
    raise ValueError(f"{where}: {value!r} is not {either(names, quote=False)}{quotes}.")


def _convert(value: Any, hint: Any) -> tuple[bool, Any]:
    origin = typing.get_origin(hint) or hint
    if origin is types.NoneType:
        return value is None, None
    if isinstance(value, bool):
        return False, None
    if origin is str:
        return isinstance(value, str | int), str(value)
    if origin is list:
        parts: Iterable[tuple[bool, Any]] = [_convert(one, str) for one in value] if isinstance(value, list) else []
        return isinstance(value, list) and all(fits for fits, _ in parts), [one for _, one in parts]
    if origin is dict:
        return isinstance(value, dict), value
    return isinstance(value, origin), value


def _name(hint: Any) -> str:
    names = {str: "text", int: "a whole number", list: "a list of texts", dict: "a mapping"}
    return names.get(typing.get_origin(hint) or hint, "a section with keys of its own")
