"""Pictures of runs: what their folders hold, handed to the functions that draw it."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import regard.modeling
from regard.evaluation.curves import plot_curves
from regard.evaluation.drawing import check_format
from regard.evaluation.generation import load_run, translate
from regard.evaluation.lengths import Bucket, bleu_by_length, plot_lengths
from regard.evaluation.position_pictures import plot_positions, position_tables
from regard.train.building import longest_sequence
from regard.train.callbacks import quiet_libraries
from regard.train.checkpoints import STATE_FILE, last_checkpoint
from regard.train.data import load_splits
from regard.train.evaluate import check_settings, chosen_splits, generation, items, prepare_split
from regard.train.recipe import RUN_RECIPE, load_recipe
from regard.train.records import HISTORY, read_json
from regard.train.sections import CONFIG_CLASSES, DataSection, Recipe

Run = str | os.PathLike[str]


def plot_run_curves(
    runs: Sequence[Run], path: str | Path, *, x: str = "step", quantities: Sequence[str] | None = None
) -> Path:
    """The curves of several runs together, as `plot_curves` draws them; a run that still trains as far as its last
    checkpoint.

    Raises:
        ValueError: a folder that is no run, or what `plot_curves` refuses.
    """
    check_format(path)
    histories = {name: read_history(run) for name, run in name_runs(runs).items()}
    return plot_curves(histories, path, x=x, quantities=quantities)


def read_history(run: Run) -> list[dict[str, Any]]:
    """The trainer's log of a run.

    Raises:
        ValueError: there is none in the folder.
    """
    path = Path(run) / HISTORY
    if path.is_file():
        return read_json(path)
    checkpoint = last_checkpoint(run)
    if checkpoint is None:
        raise ValueError(f"There is no {HISTORY} in '{run}': give folders that `regard train` wrote.")
    return read_json(checkpoint / STATE_FILE)["log_history"]


def name_runs(runs: Sequence[Run]) -> dict[str, Path]:
    """Each run under its folder's name, with as many of the folders above as tell runs of one name apart.

    Raises:
        ValueError: no run, or one given twice.
    """
    paths = [Path(run).absolute().resolve() for run in runs]
    if not paths:
        raise ValueError("There is nothing to draw: give at least one run.")
    twice = next((run for run, path in zip(runs, paths, strict=True) if paths.count(path) > 1), None)
    if twice is not None:
        raise ValueError(f"The run '{twice}' is given more than once.")
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    return {"/".join(path.parts[-depth:]): path for path in paths}


def plot_run_lengths(
    runs: Sequence[Run],
    path: str | Path,
    *,
    split: str | None = None,
    width: int | None = None,
    **settings: Any,
) -> dict[str, list[Bucket]]:
    """BLEU by source length of translation runs on a split, which each of them translates.

    Args:
        path: a .png or .svg file; it is complete or not there.
        split: as `evaluate_run` names it; by default the recipe's first test set, or else its validation split.
        width: of a bucket in words.
        settings: as `evaluate_run` takes them.

    Returns:
        What was drawn: each run's buckets under its name.

    Raises:
        ValueError: a folder that is no translation run, no such split, or runs of different sentences.
    """
    check_format(path)
    check_settings(settings)
    if width is not None and width < 1:
        raise ValueError(f"width={width} must be at least 1 word.")
    named = name_runs(runs)
    for run in runs:
        if not (Path(run) / RUN_RECIPE).is_file():
            raise ValueError(f"There is no run in '{run}': give folders that `regard train` wrote.")
    recipes = {name: load_recipe(run) for name, run in named.items()}
    for name, recipe in recipes.items():
        if recipe.task != "translation":
            raise ValueError(f"'{name}' does not translate: its task is {recipe.task}.")
    splits = {name: _split_of(recipe.data, split) for name, recipe in recipes.items()}
    results = {}
    with quiet_libraries():
        for name, recipe in recipes.items():
            recipe.evaluation = dataclasses.replace(recipe.evaluation, **settings)
            results[name] = _buckets(named[name], recipe, splits[name], width)
    plot_lengths(results, path, ", ".join(dict.fromkeys(splits.values())))
    return results


def _split_of(data: DataSection, split: str | None) -> str:
    measured = chosen_splits(data, split)
    if not measured:
        raise ValueError("The run's recipe has no split to measure: choose --split train.")
    return next((name for name in measured if name.startswith("test")), measured[0])


def _buckets(run: Path, recipe: Recipe, split: str, width: int | None) -> list[Bucket]:
    model, tokenizer = load_run(run)
    rows = load_splits(recipe.data, recipe.task, [split])
    prepared, _ = prepare_split(split, rows[split], recipe, tokenizer)
    sources, references = items(recipe, prepared)
    predictions = translate(model, tokenizer, sources, **generation(recipe.evaluation))
    return bleu_by_length(sources, predictions, references, width)


def plot_run_positions(run_or_recipe: Run, path: str | Path, number: int | None = None) -> Path:
    """The position table of a run, or of the model that a recipe describes, as `plot_positions` draws it.

    Args:
        number: how many positions.

    Raises:
        ValueError: neither a run nor a recipe, or what `position_tables` refuses.
    """
    check_format(path)
    model = None
    if (Path(run_or_recipe) / "config.json").is_file():
        model, _ = load_run(run_or_recipe)
        config = model.config
    else:
        recipe = load_recipe(run_or_recipe)
        settings = {"max_position_embeddings": longest_sequence(recipe)} | recipe.model
        config = getattr(regard.modeling, CONFIG_CLASSES[settings.pop("type")])(**settings)
    return plot_positions(position_tables(config, model, number), path)
