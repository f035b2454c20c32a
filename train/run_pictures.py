"""Pictures of runs: what their folders hold, handed to the functions that draw it."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from regard.evaluation.curves import BLEU, BLEU_MOSES, BLEU_NAMES, check_x, plot_curves
from regard.evaluation.drawing import check_format
from regard.evaluation.generation import load_config, load_run, translate
from regard.evaluation.lengths import Bucket, bleu_by_length, plot_lengths
from regard.evaluation.metrics import get_metric
from regard.evaluation.naming import nearest
from regard.evaluation.position_pictures import LEARNED, plot_positions, position_tables
from regard.train.building import model_config
from regard.train.callbacks import quiet_libraries
from regard.train.checkpoints import STATE_FILE, last_checkpoint, list_checkpoints, step_of
from regard.train.data import load_splits
from regard.train.evaluate import check_settings, chosen_splits, generation, items, prepare_split
from regard.train.recipe import RUN_RECIPE, list_recipes, load_recipe
from regard.train.records import HISTORY, read_json
from regard.train.sections import DataSection, Recipe

Run = str | os.PathLike[str]
History = list[dict[str, Any]]


# --- curves ----------------------------------------------------------------------------------------------------------


def plot_run_curves(
    runs: Sequence[Run], path: str | Path, *, x: str = "step", quantities: Sequence[str] | None = None
) -> Path:
    """The curves of several runs together, as `plot_curves` draws them; a run that still trains as far as its last
    checkpoint.

    Args:
        quantities: as `plot_curves` takes them. "bleu", of translation runs, is in no log: each checkpoint that a run
            has kept translates the validation split, greedily, and BLEU is counted as the recipes count it.

    Raises:
        ValueError: a folder that is no run, a run without what BLEU takes, runs that count it differently, or what
            `plot_curves` refuses.
    """
    check_format(path)
    check_x(x)
    named = name_runs(runs)
    histories = {name: read_history(run) for name, run in named.items()}
    if quantities is not None and BLEU in quantities:
        metric, measured = _bleu_of_checkpoints(named)
        histories = {name: history + measured[name] for name, history in histories.items()}
        quantities = [metric if quantity == BLEU else quantity for quantity in quantities]
    return plot_curves(histories, path, x=x, quantities=quantities)


def read_history(run: Run) -> History:
    """The trainer's log of a run: of the one it wrote when it had finished and the one of its last checkpoint, that
    which goes further. A finished run that is resumed to train longer has gone beyond the former.

    Raises:
        ValueError: there is none in the folder, or it cannot be read.
    """
    path, checkpoint = Path(run) / HISTORY, last_checkpoint(run)
    logs = []
    if path.is_file():
        logs.append(_rows(path))
    if checkpoint is not None:
        logs.append(_rows(checkpoint / STATE_FILE, "log_history", "history"))
    if not logs:
        raise ValueError(f"There is no {HISTORY} in '{run}': give folders that `regard train` wrote.")
    return max(logs, key=lambda rows: max((row["step"] for row in rows), default=-1))  # of equals the first


def _rows(path: Path, *keys: str) -> History:
    """The rows of a file, under the first of the keys that there is. Of word vectors each pass is a step where the
    log counts passes alone, and their words are what others call tokens."""
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"'{path}' cannot be read: {error}.") from error
    if keys:
        content = next((content[key] for key in keys if key in content), None) if isinstance(content, dict) else None
    rows = []
    for row in content if isinstance(content, list) else [None]:
        step = row.get("step", row.get("epoch")) if isinstance(row, dict) else None
        if not isinstance(step, int):
            raise ValueError(f"'{path}' cannot be read: it must hold a list of rows, each with its step.")
        rows.append({"step": step, **({"tokens": row["words"]} if "words" in row else {}), **row})
    return rows


def _bleu_of_checkpoints(runs: Mapping[str, Path]) -> tuple[str, dict[str, History]]:
    """The metric, and each run's rows of `step` and the metric, a checkpoint each; everything is looked at before
    anything is translated."""
    recipes, kept = _translation_recipes(runs), {name: list_checkpoints(run) for name, run in runs.items()}
    metric, options = _common_bleu(runs, recipes)
    for name, run in runs.items():
        if "validation" not in recipes[name].data.split_names():
            raise ValueError(f"The run '{run}' has no validation split, on which its BLEU is measured.")
        if not kept[name]:
            raise ValueError(f"The run '{run}' has kept no checkpoint, by which its BLEU is measured.")
    with quiet_libraries():
        return metric, {name: [_measure(each, recipes[name], metric, options) for each in kept[name]] for name in runs}


def _measure(checkpoint: Path, recipe: Recipe, metric: str, options: dict[str, Any]) -> dict[str, Any]:
    model, tokenizer = load_run(checkpoint)
    sources, references = _split_texts(recipe, "validation", tokenizer)
    predictions = translate(model, tokenizer, sources, **generation(recipe.evaluation) | {"num_beams": 1})
    bleu = get_metric(metric).compute(predictions=predictions, references=references, **options)[metric]
    return {"step": step_of(checkpoint), metric: bleu}


# --- lengths ---------------------------------------------------------------------------------------------------------


def plot_run_lengths(
    runs: Sequence[Run],
    path: str | Path,
    *,
    split: str | None = None,
    width: int | None = None,
    **settings: Any,
) -> dict[str, list[Bucket]]:
    """BLEU by source length of translation runs on a split, which each of them translates; BLEU as their recipes
    count it.

    Args:
        path: a .png or .svg file; it is complete or not there.
        split: as `evaluate_run` names it; by default the recipe's first test set, or else its validation split.
        width: of a bucket in words.
        settings: as `evaluate_run` takes them.

    Returns:
        What was drawn: each run's buckets under its name.

    Raises:
        ValueError: a folder that is no translation run, no such split, or runs that translate different sentences or
            count BLEU differently.
    """
    check_format(path)
    check_settings(settings)
    if width is not None and width < 1:
        raise ValueError(f"width={width} must be at least 1 word.")
    named = name_runs(runs)
    recipes = _translation_recipes(named)
    metric, options = _common_bleu(named, recipes)
    splits = {name: _split_of(recipe.data, split) for name, recipe in recipes.items()}
    with quiet_libraries():
        loaded = {name: load_run(run) for name, run in named.items()}
        texts = {name: _split_texts(recipe, splits[name], loaded[name][1]) for name, recipe in recipes.items()}
        first = next(iter(named))
        for name, (sources, _) in texts.items():
            if sources != texts[first][0]:
                raise ValueError(
                    f"The runs '{named[first]}' and '{named[name]}' translate different sentences, "
                    f"{splits[first]} and {splits[name]}: compare runs on the same."
                )
        results = {}
        for name, (sources, references) in texts.items():
            evaluation = dataclasses.replace(recipes[name].evaluation, **settings)
            predictions = translate(*loaded[name], sources, **generation(evaluation))
            results[name] = bleu_by_length(sources, predictions, references, width, metric, **options)
    plot_lengths(results, path, ", ".join(dict.fromkeys(splits.values())))
    return results


def _split_of(data: DataSection, split: str | None) -> str:
    measured = chosen_splits(data, split)
    if not measured:
        raise ValueError("The run's recipe has no split to measure: choose --split train.")
    return next((name for name in measured if name.startswith("test")), measured[0])


# --- positions -------------------------------------------------------------------------------------------------------


def plot_run_positions(run_or_recipe: Run, path: str | Path, number: int | None = None) -> Path:
    """The position table of a run, or of the model that a recipe describes, as `plot_positions` draws it.

    Args:
        number: how many positions.

    Raises:
        ValueError: neither a run nor a recipe, or what `position_tables` refuses.
    """
    check_format(path)
    name, model = str(run_or_recipe), None
    if (Path(run_or_recipe) / "config.json").is_file():
        config = load_config(run_or_recipe)
        if getattr(config, "position_embedding_type", None) == LEARNED:
            model, _ = load_run(run_or_recipe)
    elif Path(run_or_recipe).exists() or name.removesuffix(".yaml") in list_recipes():
        config = model_config(load_recipe(run_or_recipe))
    else:
        raise ValueError(
            f"There is no run or recipe '{name}'{nearest(name, list_recipes(), otherwise='see `regard list`')}"
        )
    return plot_positions(position_tables(config, model, number), path)


# --- what they share -------------------------------------------------------------------------------------------------


def name_runs(runs: Sequence[Run]) -> dict[str, Path]:
    """Each run as it was given, under its folder's name, with as many of the folders above as tell runs of one name
    apart. A link is named by its own name.

    Raises:
        ValueError: no run, or one given twice.
    """
    paths = [Path(run) for run in runs]
    if not paths:
        raise ValueError("There is nothing to draw: give at least one run.")
    real = [path.resolve() for path in paths]
    twice = next((run for run, path in zip(runs, real, strict=True) if real.count(path) > 1), None)
    if twice is not None:
        raise ValueError(f"The run '{twice}' is given more than once.")
    named = [Path(os.path.abspath(path)) for path in paths]
    if len(set(named)) < len(named):  # `..` behind a link leads elsewhere
        named = real
    depth = 1
    while len({path.parts[-depth:] for path in named}) < len(named):
        depth += 1
    return {"/".join(name.parts[-depth:]): path for name, path in zip(named, paths, strict=True)}


def _translation_recipes(runs: Mapping[str, Path]) -> dict[str, Recipe]:
    for run in runs.values():
        if not (run / RUN_RECIPE).is_file():
            raise ValueError(f"There is no run in '{run}': give folders that `regard train` wrote.")
    recipes = {name: load_recipe(run) for name, run in runs.items()}
    for name, recipe in recipes.items():
        if recipe.task != "translation":
            raise ValueError(f"The run '{runs[name]}' does not translate: its task is {recipe.task}.")
    return recipes


def _common_bleu(runs: Mapping[str, Path], recipes: Mapping[str, Recipe]) -> tuple[str, dict[str, Any]]:
    """The metric by which all of the runs count BLEU, and the options of its `compute`.

    Raises:
        ValueError: two of them count it differently.
    """
    counts = {name: _own_bleu(recipe) for name, recipe in recipes.items()}
    first = next(iter(runs))
    for name, count in counts.items():
        if count != counts[first]:
            told = " and ".join(" ".join([one, *options.values()]) for one, options in (counts[first], count))
            raise ValueError(
                f"The runs '{runs[first]}' and '{runs[name]}' count BLEU differently, by {told}: draw them apart."
            )
    return counts[first]


def _own_bleu(recipe: Recipe) -> tuple[str, dict[str, Any]]:
    """The first BLEU among the recipe's metrics, or else the usual one."""
    metric = next((metric for metric in recipe.evaluation.metrics if metric in BLEU_NAMES), BLEU)
    return metric, {"language": recipe.data.target_language} if metric == BLEU_MOSES else {}


def _split_texts(recipe: Recipe, split: str, tokenizer: PreTrainedTokenizerBase) -> tuple[list[str], list[list[str]]]:
    """The sources of a split, and the references of each."""
    rows = load_splits(recipe.data, recipe.task, [split])
    prepared, _ = prepare_split(split, rows[split], recipe, tokenizer)
    return items(recipe, prepared)
