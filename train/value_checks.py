"""Values of a recipe as the types that its fields have, each refused in one sentence that names its key."""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from regard.evaluation.naming import either, nearest
from regard.train.sections import RecipeError


def build(cls: type, values: Mapping[str, Any], section: str) -> Any:
    """A section of its class, with every value as its field is typed."""
    fields = {f.name: f for f in dataclasses.fields(cls)}
    check_keys(values, fields, f"{section}.", "key")
    for name, spec in fields.items():
        required = spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING
        if required and values.get(name) is None:
            raise RecipeError(f"{section}.{name} is missing.")
    return cls(**{key: typed(value, fields[key].type, f"{section}.{key}") for key, value in values.items()})


def typed(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type `hint` has it: a whole number may stand for a number, and 1e4 for a whole number."""
    choices = _members(hint)
    enums = [choice for choice in choices if isinstance(choice, type) and issubclass(choice, Enum)]
    if enums and isinstance(value, str):
        # TrainingArguments types such settings as "an enumeration or text"; only the enumeration's values work.
        check_choice(value, [member.value for member in enums[0]], where)
        return value
    for choice in choices:
        fits, converted = _convert(value, choice)
        if fits:
            return converted
    names = [_type_name(choice) for choice in choices if choice not in enums]
    hint = ""
    if isinstance(value, Mapping) and any(item is None and ":" in str(key) for key, item in value.items()):
        hint = ": a blank follows each colon"
    elif isinstance(value, Mapping):
        _check_items(value, choices, where)
    raise RecipeError(f"{where}: {value!r} is not {either(dict.fromkeys(names), quote=False)}{hint}.")


def _check_items(value: Mapping[str, Any], choices: Iterable[Any], where: str) -> None:
    """Refuses the first value of a mapping that is not as the one type of mapping has it, and not all of them."""
    inner = [typing.get_args(choice)[1] for choice in choices if typing.get_origin(choice) is dict]
    for key, item in value.items() if len(inner) == 1 else ():
        typed(item, inner[0], f"{where}.{key}")


def _members(hint: Any) -> list[Any]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [member for part in typing.get_args(hint) for member in _members(part)]
    return [hint]


def _convert(value: Any, hint: Any) -> tuple[bool, Any]:
    if len(choices := _members(hint)) > 1:  # of the values of a mapping
        fitting = (found for choice in choices if (found := _convert(value, choice))[0])
        return next(fitting, (False, value))
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if hint is Any or isinstance(hint, str):
        return True, value
    if hint in (None, type(None)):
        return value is None, value
    if origin is typing.Literal:
        return value in args, value
    if origin is bool:
        return isinstance(value, bool), value
    if isinstance(value, bool):
        return False, value
    if origin is int:
        whole = isinstance(value, float) and value.is_integer()
        return isinstance(value, int) or whole, int(value) if whole else value
    if origin is float:
        return isinstance(value, int | float), float(value) if isinstance(value, int) else value
    if origin is dict and isinstance(value, Mapping):
        inner = args[1] if args else Any
        pairs = {key: _convert(item, inner) for key, item in value.items()}
        return all(fits for fits, _ in pairs.values()), {key: item for key, (_, item) in pairs.items()}
    if origin in (list, tuple) and isinstance(value, list):
        items = [_convert(item, args[0] if args else Any) for item in value]
        return all(fits for fits, _ in items), [item for _, item in items]
    return isinstance(origin, type) and isinstance(value, origin), value


def _type_name(hint: Any) -> str:
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is typing.Literal:
        return either(map(repr, args), quote=False)
    if origin in (list, tuple, dict) and args and args[-1] in (str, float):
        what = "texts" if args[-1] is str else "numbers"
        return f"a mapping of names to {what} such as {{name: ...}}" if origin is dict else f"a list of {what}"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list"}
    names |= {dict: "a mapping such as {name: ...}", tuple: "a list", None: "null", type(None): "null"}
    return names.get(origin, getattr(origin, "__name__", str(origin)))


def check_keys(values: Iterable[str], known: Iterable[str], prefix: str, what: str, where: str = "") -> None:
    """Refuses a key that is not known, and names the nearest that is."""
    known = list(known)
    for key in values:
        if key not in known:
            raise RecipeError(f"There is no {what} '{prefix}{key}'{where}{nearest(key, known, prefix)}")


def check_choice(value: str, choices: Iterable[str], where: str) -> None:
    """Refuses a value that is none of the choices."""
    choices = list(choices)
    if value not in choices:
        end = nearest(value, choices) if len(choices) > 12 else f": it is {either(choices)}."
        raise RecipeError(f"{where}: '{value}' is not known{end}")


def check_least(section: Any, prefix: str, **least: int) -> None:
    """Refuses a number of a section that is less than the least given under its name."""
    for name, minimum in least.items():
        if getattr(section, name) < minimum:
            raise RecipeError(f"{prefix}.{name}: {getattr(section, name)} is less than {minimum}.")
