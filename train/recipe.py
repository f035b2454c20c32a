"""A recipe: the whole of a training run as data, checked before any work starts.

A recipe is a YAML file with the sections `model`, `tokenizer`, `data`, `training` and `evaluation`. `load_recipe`
finds it, lays the command line's `key=value` pairs over it, and has it checked: an unknown key, a value of the wrong
type or settings that exclude one another are refused with one clear sentence. Files and columns are checked by
`regard.train.data`, which opens them, and the arguments' finer rules by `TrainingArguments` itself.
"""

import logging
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from regard.evaluation.naming import nearest
from regard.evaluation.readers import local_file
from regard.evaluation.yaml_io import apply_override, read_yaml
from regard.train.checks import check_recipe
from regard.train.sections import HOLD_OUT, DataSection, EvaluationSection, Recipe, RecipeError, TokenizerSection

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

logger = logging.getLogger(__name__)

RUN_RECIPE = "recipe.yaml"  # a run's resolved recipe, inside the run's folder
# Held out where someone's own training file takes the place of a data set; of a stream the length is not known.
DEFAULT_HOLD_OUT, DEFAULT_HOLD_OUT_OF_STREAM = "5%, at most 1000", "1000"


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

    Where `data.train` is a file and the other splits are those of the data set `data.path`, that data set is left out,
    since it is other data: validation rows are then held out of the file, and a warning says so.

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
        try:
            apply_override(values, override, "training.num_train_epochs=3")
        except ValueError as error:
            raise RecipeError(str(error)) from error
    if "name" not in values:
        values["name"] = re.sub(r"[^\w.-]+", "-", Path(name_or_path).name.removesuffix(".yaml").removesuffix(".yml"))
    recipe = check_recipe(values)
    if recipe.data.path is not None and local_file(recipe.data.train) is not None:
        _leave_out_other_data(recipe.data, [override.partition("=")[0].strip() for override in overrides])
    return recipe


def _leave_out_other_data(data: DataSection, overridden: Sequence[str]) -> None:
    """Names the splits that will be used with a training file: other files, and rows held out of it."""
    left_out, path = [], data.path
    if data.validation is not None and local_file(data.validation) is None and not HOLD_OUT.fullmatch(data.validation):
        if "data.validation" in overridden:
            raise RecipeError(
                f"data.validation: '{data.validation}' is no file of a known kind; beside a file as data.train it is "
                "another file, a share of it such as 5%, or a number of its rows such as 1000."
            )
        left_out, data.validation = ["data.validation"], None
    sets = data.test if isinstance(data.test, dict) else {"": data.test} if data.test else {}
    drawn = isinstance(data.test, str) and HOLD_OUT.fullmatch(data.test)
    own = {name: value for name, value in sets.items() if drawn or local_file(value) is not None}
    left_out += [f"data.test.{name}".rstrip(".") for name in sets if name not in own]
    if len(own) < len(sets):
        data.test = own or None  # of a single test set, which has no name, all or nothing is left
    data.path = data.name = None
    if not left_out:
        return
    held_out = data.validation is None
    if held_out:
        data.validation = DEFAULT_HOLD_OUT_OF_STREAM if data.streaming else DEFAULT_HOLD_OUT
    logger.warning(
        "data.train is the file %s, so the splits of %s are not used (%s)%s.",
        data.train,
        path,
        ", ".join(left_out),
        f"; validation is {data.validation} rows of the file" if held_out else "",
    )


def _parse(text: str, where: str) -> Any:
    try:
        return read_yaml(text)
    except ValueError as error:
        raise RecipeError(f"{where} is not valid YAML: {error}.") from error
