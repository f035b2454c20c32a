"""A recipe: the whole of a training run as data, checked before any work starts.

A recipe is a YAML file with the sections `model`, `tokenizer`, `data`, `training` and `evaluation`. `load_recipe`
finds it, lays the command line's `key=value` pairs over it, and has it checked: an unknown key, a value of the wrong
type or settings that exclude one another are refused with one clear sentence. Files and columns are checked by
`regard.train.data`, which opens them, and the arguments' finer rules by `TrainingArguments` itself.
"""

import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from regard.train.checks import check_recipe, nearest
from regard.train.sections import DataSection, EvaluationSection, Recipe, RecipeError, TokenizerSection
from regard.train.yaml_io import read_yaml

__all__ = [
    "DataSection",
    "EvaluationSection",
    "Recipe",
    "RecipeError",
    "TokenizerSection",
    "list_recipes",
    "load_recipe",
    "recipe_text",
]

RUN_RECIPE = "recipe.yaml"  # a run's resolved recipe, inside the run's folder


def list_recipes() -> list[str]:
    """The names of the recipes that come with the package, such as `translation/turkish-en-tr`."""
    root = resources.files("regard.configs")
    return sorted(
        f"{folder.name}/{file.name.removesuffix('.yaml')}"
        for folder in root.iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
    )


def recipe_text(name_or_path: str | os.PathLike[str]) -> str:
    """The YAML of a shipped recipe, of a recipe file, or of the run in a folder.

    Raises:
        RecipeError: when there is no such recipe.
    """
    path = Path(name_or_path)
    if path.is_dir() and (path / RUN_RECIPE).is_file():
        path = path / RUN_RECIPE
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(f"The recipe '{path}' cannot be read: {error}.") from error
    name = str(name_or_path)
    shipped = list_recipes()
    if name.removesuffix(".yaml") in shipped:
        return resources.files("regard.configs").joinpath(f"{name.removesuffix('.yaml')}.yaml").read_text("utf-8")
    if path.is_dir():
        raise RecipeError(f"The folder '{name}' is not a run: it holds no {RUN_RECIPE}.")
    raise RecipeError(f"There is no recipe '{name}'{nearest(name, shipped, otherwise='see `regard list`')}")


def load_recipe(name_or_path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Recipe:
    """Reads, overrides and checks a recipe.

    Args:
        name_or_path: a shipped recipe's name (`translation/multi30k-de-en`), a path to a YAML file, or a run's folder.
        overrides: `key=value` pairs, such as `training.num_train_epochs=3` or `data.test.mine=my.tsv`; the value is
            read as YAML, so that `null`, `true`, `1e-3` and `[bleu, chrf]` mean what they mean in a recipe.

    Raises:
        RecipeError: one sentence that names the key, its value and what would be right.
    """
    text = recipe_text(name_or_path)
    values = _parse(text, f"The recipe '{name_or_path}'")
    if not isinstance(values, dict):
        raise RecipeError(f"The recipe '{name_or_path}' is not a list of sections such as 'model:' and 'data:'.")
    for override in overrides:
        _apply_override(values, override)
    if "name" not in values:
        values["name"] = re.sub(r"[^\w.-]+", "-", Path(name_or_path).name.removesuffix(".yaml").removesuffix(".yml"))
    return check_recipe(values)


def _parse(text: str, where: str) -> Any:
    try:
        return read_yaml(text)
    except ValueError as error:
        raise RecipeError(f"{where} is not valid YAML: {error}.") from error


def _apply_override(values: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    *parents, last = key.strip().split(".")
    if not equals or not all(part.strip() for part in [*parents, last]):
        raise RecipeError(f"'{override}' is not of the form key=value, such as training.num_train_epochs=3.")
    for parent in parents:
        if not isinstance(values.get(parent), dict):
            values[parent] = {}  # data.test.mine=my.tsv names the test sets anew where there was one
        values = values[parent]
    values[last] = _parse(text, f"The value in '{override}'")
