"""The runs of a sweep: the recipe and the folder of each, checked before the first is trained."""

import dataclasses
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.evaluation.metrics import TEXT_METRICS
from regard.evaluation.yaml_io import read_yaml
from regard.train.building import training_arguments
from regard.train.data import load_splits
from regard.train.evaluate import SETTINGS
from regard.train.recipe import RUN_RECIPE, load_recipe, recipe_text
from regard.train.records import METRICS
from regard.train.run import TOKENIZER
from regard.train.sections import HOLD_OUT, REGRESSION, WORD_VECTORS, WRITING, Recipe, RecipeError
from regard.train.sweep_values import EXAMPLES, SEED, as_json, shown

GENERATION = {f"evaluation.{name}": name for name in SETTINGS}  # these keys change no weights
LONGEST_NAME = 100  # of a run's folder


@dataclass
class Cell:
    """One run of a sweep: the values and the seed, the recipe that they make, the folder of the trained weights, which
    cells that only generate differently share, and the test sets that it is measured on."""

    values: dict[str, Any]
    seed: int
    recipe: Recipe
    run: Path
    tests: list[str]

    def __str__(self) -> str:
        return ", ".join([*(f"{key}={shown(value)}" for key, value in self.values.items()), f"seed {self.seed}"])


def check_task(recipe: str | os.PathLike[str]) -> None:
    """Refuses what no sweep can train, as a RecipeError."""
    try:
        content = read_yaml(recipe_text(recipe))
    except ValueError:
        return  # `load_recipe` says what is wrong
    if isinstance(content, dict) and content.get("task") == WORD_VECTORS:
        raise RecipeError(
            f"'{recipe}' trains word vectors, which have no validation split for a sweep to judge them on: train each "
            "setting by `regard train`, and compare them by `regard evaluate`."
        )
    if isinstance(content, dict) and content.get("task") == REGRESSION:
        raise RecipeError(f"'{recipe}' is of the task {REGRESSION}, which no sweep trains: use `regard train`.")


def finished_run(
    recipe: Path, values: Mapping[str, Any], overrides: Sequence[str], seeds: int | Sequence[int]
) -> Path | None:
    """The folder of a finished run, where the sweep only generates anew with it."""
    if not all((recipe / name).is_file() for name in (RUN_RECIPE, TOKENIZER, METRICS)):
        return None
    if not values or not all(key in GENERATION for key in values):
        return None
    if seeds:
        raise RecipeError(
            f"--seeds: the run in '{recipe}' has been trained: leave them out, or give {recipe / RUN_RECIPE} to train."
        )
    if others := [text for text in overrides if text.partition("=")[0].strip() not in GENERATION]:
        raise RecipeError(
            f"'{others[0]}' cannot be changed in the finished run '{recipe}': only {', '.join(GENERATION)} can."
        )
    return recipe


def name_and_seed(recipe: Any, overrides: Sequence[str], values: Mapping[str, list[Any]]) -> tuple[str, int]:
    """Of the recipe with the first of all values, which is checked by that."""
    first = [_override(key, several[0]) for key, several in values.items()]
    loaded = load_recipe(recipe, [*overrides, *first])
    return loaded.name, loaded.training.get("seed", 42)


def make_cells(
    recipe: Any,
    overrides: Sequence[str],
    settings: Sequence[dict[str, Any]],
    seeds: Sequence[int],
    folder: Path,
    finished: Path | None = None,
    test: bool = False,
) -> list[Cell]:
    """All cells in the settings' order, their recipes checked. Unless test sets are asked for, they are taken out of
    the recipes, but for rows of the training data: those are held out, and not looked at."""
    cells, runs = [], {}
    for setting, seed in itertools.product(settings, seeds):
        own = [_override(key, value) for key, value in setting.items()]
        own += [] if finished is not None else [f"{SEED}={seed}"]
        loaded = load_recipe(recipe, [*overrides, *own])
        if not test and not holds_test_out(loaded):
            loaded.data.test = None
        weights = loaded.to_dict()
        for name in SETTINGS:
            del weights["evaluation"][name]
        key = as_json(weights)
        if key not in runs:
            runs[key] = finished or folder / free_name(run_name(loaded.name, setting, seed), runs.values())
        tests = [name for name in loaded.data.split_names() if name.startswith("test")] if test else []
        cells.append(Cell(setting, seed, loaded, runs[key], tests))
    return cells


def holds_test_out(recipe: Recipe) -> bool:
    """Whether the test set is rows of the training data."""
    return isinstance(recipe.data.test, str) and HOLD_OUT.fullmatch(recipe.data.test) is not None


def _override(key: str, value: Any) -> str:
    return f"{key}={json.dumps(value, ensure_ascii=False)}"  # JSON is YAML


def run_name(recipe: str, values: Mapping[str, Any], seed: int) -> str:
    """The values that are trained with, after the last parts of their keys where these differ."""
    trained = {key: value for key, value in values.items() if key not in GENERATION}
    last = [key.rpartition(".")[2] for key in trained]
    parts = [
        f"{key if last.count(end) > 1 else end}-{shown(value)}"
        for (key, value), end in zip(trained.items(), last, strict=True)
    ]
    name = re.sub(r"[^\w.-]+", "-", "_".join(parts) or recipe).strip(".-")
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"{name}-seed{seed}"


def free_name(name: str, taken: Any) -> str:
    """-1 and 1 would be one name where signs are left out, as would 'a b' and 'a-b'."""
    names = {path.name for path in taken}
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain([name], numbered) if candidate not in names)


def check_cells(
    cells: Sequence[Cell], values: Mapping[str, Any], finished: Path | None = None, test: bool = False
) -> None:
    """Refuses, as a RecipeError, what a cell could not be judged by, or trained with."""
    if any(cell.recipe.training.get("push_to_hub") for cell in cells):
        raise RecipeError(
            "training.push_to_hub: a sweep publishes none of its runs; publish the best when it is found."
        )
    data: dict[str, Recipe] = {}
    for cell in cells:
        recipe = cell.recipe
        if recipe.data.validation is None:
            raise RecipeError(
                "data.validation names no data, and a sweep is judged on it: give a split, a file, a share such as "
                "5% or a number of training rows to hold out."
            )
        if test and not recipe.data.test:
            raise RecipeError("--test: data.test names no data.")
        writes = recipe.task in WRITING and any(name in TEXT_METRICS for name in recipe.evaluation.metrics)
        idle = [key for key in values if key in GENERATION and key != "evaluation.batch_size" and not writes]
        if idle:
            raise RecipeError(
                f"--values: {idle[0]} changes nothing that is measured, since no metric of evaluation.metrics reads "
                "what a model writes."
            )
        with environment_restored():
            training_arguments(recipe, str(cell.run))  # TrainingArguments has rules of its own
        data.setdefault(as_json(dataclasses.asdict(recipe.data)), recipe)
    if finished is None:  # before the folder is written, or it would be in the way of the call with the right file
        for recipe in data.values():
            train, wanted = load_splits(recipe.data, recipe.task)["train"], recipe.data.max_train_examples
            if EXAMPLES in values and wanted is not None and not recipe.data.streaming and len(train) < wanted:
                raise RecipeError(
                    f"--values: {EXAMPLES}={wanted} is more than the {len(train):,} rows of data.train: give "
                    f"{len(train)} for all of them."
                )


@contextmanager
def environment_restored() -> Iterator[None]:
    """TrainingArguments may leave variables behind (those of torch.compile, where accelerate is older than 1.2), which
    would hold for the next cell: whatever makes one is put in here."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
