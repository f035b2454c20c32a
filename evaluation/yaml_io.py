"""YAML as a recipe or a task means it.

PyYAML reads version 1.1, where `1e-3` is text, the language code `no` is false, `12:30` is 750 and a key given twice
loses its first value in silence. Here `1e-3` is a number, `no`, `12:30` and dates are text, keys are text, and a key
given twice is an error.
"""

import re
import typing
from typing import Any

import yaml


def read_yaml(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        ValueError: a phrase that says what is wrong in which line.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{error.problem}{line}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def apply_override(values: dict[str, Any], override: str, example: str) -> None:
    """Lays `key=value` over nested values; a dotted key makes what it goes through.

    Args:
        example: of the form, for whoever misses it.

    Raises:
        ValueError: one sentence, where it is not of that form or the value is not YAML.
    """
    key, equals, text = override.partition("=")
    *parents, last = key.strip().split(".")
    if not equals or not all(part.strip() for part in [*parents, last]):
        raise ValueError(f"'{override}' is not of the form key=value, such as {example}.")
    for parent in parents:
        if not isinstance(values.get(parent), dict):
            values[parent] = {}  # data.test.mine=my.tsv names the test sets anew where there was one
        values = values[parent]
    try:
        values[last] = read_yaml(text)
    except ValueError as error:
        quotes = (
            "; a text with '{', '[' or ': ' in it stands in quotes of its own" if re.search(r"[{\[]|: ", text) else ""
        )
        raise ValueError(f"The value in '{override}' is not valid YAML: {error}{quotes}.") from error


def write_yaml(value: Any) -> str:
    """`value` as YAML, with the keys in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _Loader(yaml.SafeLoader):
    """A SafeLoader, so that it makes plain values only, with the plain values of version 1.2."""

    yaml_implicit_resolvers: typing.ClassVar[dict] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                key_node.tag = "tag:yaml.org,2002:str"  # test: {2016: ...} names a set, not a number
                name, mark = key_node.value, key_node.start_mark
                if name in keys:
                    raise yaml.MarkedYAMLError(problem=f"'{name}' is given twice", problem_mark=mark)
                keys.add(name)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Writes what versions 1.1 and 1.2 read alike: text that either would take for something else is quoted."""


_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$")
for _tag, _pattern, _first in (
    ("null", re.compile(r"(~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"(true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("int", re.compile(r"[-+]?(0|[1-9][0-9_]*)$"), list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _pattern, _first)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
