"""A sweep: a recipe trained with each combination of a few values and seeds, judged on the validation split.

A test set is for one look at the end, with what the sweep chose: `data.test` is taken out of every recipe here, so its
files are not even opened, but where nothing is chosen, since the seeds and the number of examples alone vary. Settings
that only change how text is generated do not train again: they share a run.
"""

import dataclasses
import json
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.evaluation.files import replacing
from regard.train import checkpoints
from regard.train.checks import check_recipe
from regard.train.data_files import check_files, record_files
from regard.train.errors import majority_scores, read_errors
from regard.train.evaluate import SETTINGS, evaluate_run
from regard.train.recipe import RUN_RECIPE
from regard.train.records import METRICS, environment, read_json, write_json
from regard.train.run import TOKENIZER, train
from regard.train.sections import RecipeError
from regard.train.sweep_cells import (
    GENERATION,
    Cell,
    check_cells,
    check_task,
    environment_restored,
    finished_run,
    holds_test_out,
    make_cells,
    name_and_seed,
)
from regard.train.sweep_judged import check_comparable, checked_metric, flat
from regard.train.sweep_table import SPLIT, command, settings_of, table
from regard.train.sweep_values import as_json, check_test, check_values, checked_seeds, grid_of, one_by_one, shown
from regard.train.trainer import TrainingDiverged

SWEEP, TABLE = "sweep.json", "sweep.md"


def sweep(
    recipe: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    values: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | Sequence[int] = (),
    output_dir: str | os.PathLike[str] | None = None,
    resume: bool = False,
    trials: int | None = None,
    metric: str | None = None,
    one_at_a_time: bool = False,
    test: bool = False,
) -> dict[str, Any]:
    """Trains a recipe with each combination of values and each seed, and measures each on the validation split.

    Cells that differ only in `evaluation.num_beams`, `length_penalty`, `max_new_tokens`, `no_repeat_ngram_size` or
    `batch_size` share one training. Where only these are swept, `recipe` may be a finished run's folder: then nothing
    is trained. A training that diverges is recorded as such, and the sweep goes on. Killed at any moment, a sweep goes
    on with `resume=True`.

    Args:
        recipe: what `load_recipe` takes.
        overrides: `key=value` pairs for all cells.
        values: the values of each swept key, such as `{"model.dropout": [0.1, 0.3]}`. Several seeds may go without.
        seeds: `training.seed` of the runs of each combination, or how many seeds from the recipe's own on; by default
            that alone.
        output_dir: the sweep's folder, `runs/<name of the recipe>-sweep` by default. It gets a folder for each run,
            and `sweep.json` and `sweep.md`, which are written again after each cell.
        resume: go on with the sweep in that folder.
        trials: only so many of the combinations, drawn by the first seed.
        metric: by what the best is told; by default the first of `evaluation.metrics`, or the loss.
        one_at_a_time: not the combinations, but the recipe as it is, and then with each value alone: what each
            ingredient gives.
        test: measure on the test sets too: for a final comparison, in which nothing but the seeds and
            `data.max_train_examples` may vary.

    Returns:
        What `sweep.json` holds; `table` makes Markdown of it.

    Raises:
        ValueError: one sentence about the recipe, a value or the folder, before the first cell is trained.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError("A sweep runs in one process: call it without `accelerate launch`.")
    check_task(recipe)
    values = {key: list(several) for key, several in (values or {}).items()}
    check_values(values, overrides, seeds)
    if test:
        check_test(values)
    if trials is not None and trials < 1:
        raise RecipeError(f"--trials: {trials} is less than 1.")
    if one_at_a_time and not values:
        raise RecipeError("--one-at-a-time changes one of the --values at a time, and none are given.")
    if trials is not None and one_at_a_time:
        raise RecipeError("--trials draws from the combinations of values, and --one-at-a-time makes none.")
    finished = finished_run(Path(recipe), values, overrides, seeds)
    with _said_once():
        name, own_seed = name_and_seed(recipe, overrides, {} if one_at_a_time else values)
        seeds = checked_seeds(seeds, own_seed)
        folder = Path(output_dir) if output_dir is not None else Path("runs") / f"{name}-sweep"
        settings = one_by_one(values) if one_at_a_time else grid_of(values, trials, seeds[0])
        cells = make_cells(recipe, overrides, settings, seeds, folder, finished, test)
    metric = checked_metric(metric, cells)
    check_comparable(cells, values, metric)
    check_cells(cells, values, finished, test)

    plan = {
        "recipe": cells[0].recipe.to_dict(),
        "run": None if finished is None else str(finished),
        "values": values,
        "seeds": seeds,
        "trials": trials,
        "one_at_a_time": one_at_a_time,
        "test": test,
    }
    plan = json.loads(json.dumps(plan))  # as it is read again
    records = _records(folder, plan, resume)
    learns_from = [cell.recipe.data for cell in cells]
    if resume:
        check_files(folder, learns_from)
    options = {"trials": trials, "one_at_a_time": one_at_a_time, "test": test}
    call = command(recipe, overrides, values, seeds if finished is None else [], metric, **options)
    about = {"name": name, "command": call, "metric": metric, "split": SPLIT, "cells_planned": len(cells)}

    def write() -> dict[str, Any]:
        result = about | plan | {"environment": environment(), "settings": settings_of(records, metric)}
        result["cells"] = records
        write_json(folder / SWEEP, result)
        with replacing(folder / TABLE) as partial:
            partial.write_text(table(result), encoding="utf-8")
        return result

    result = write()
    if not resume:  # after sweep.json, by which the folder is known as a sweep's
        record_files(folder, learns_from)
    done = {(as_json(record["values"]), record["seed"]) for record in records}
    generates = any(key in GENERATION for key in values)
    for number, cell in enumerate(cells, 1):
        if (as_json(cell.values), cell.seed) in done:
            continue
        _say(f"sweep, {number} of {len(cells)}: {cell}")
        with environment_restored():
            records.append(_measured(cell, cells, records, finished, generates))
        result = write()
    return result


# --- the folder ------------------------------------------------------------------------------------------------------


def _records(folder: Path, plan: dict[str, Any], resume: bool) -> list[dict[str, Any]]:
    """The cells that are done already, in a folder that holds this sweep or nothing yet."""
    if folder.exists() and not folder.is_dir():
        raise RecipeError(f"'{folder}' is a file, not a folder for a sweep: choose another with --output.")
    if not resume:
        if (folder / SWEEP).is_file():
            raise RecipeError(
                f"'{folder}' already holds a sweep: go on with it by --resume, or choose another folder with --output."
            )
        if folder.is_dir() and any(folder.iterdir()):
            raise RecipeError(
                f"The folder '{folder}' holds something that is not a sweep: choose another with --output."
            )
        return []
    if not (folder / SWEEP).is_file():
        raise RecipeError(f"There is no sweep in '{folder}' to resume: leave out --resume to begin one.")
    before = read_json(folder / SWEEP)
    old, new = flat(_plan_of(before)), flat(plan)
    for key in dict.fromkeys([*old, *new]):
        if as_json(old.get(key)) != as_json(new.get(key)):
            name, now, was = key.removeprefix("recipe."), shown(new.get(key)), shown(old.get(key))
            raise RecipeError(
                f"{name}: {now} differs from {was}, with which the sweep in '{folder}' began: resume it by the same "
                "call, or choose another folder with --output."
            )
    return before["cells"]


def _plan_of(before: dict[str, Any]) -> dict[str, Any]:
    """What a sweep began with. One that an earlier version wrote lacks what came since: fields of the recipe, which
    have their defaults then, and what the sweep was asked for."""
    plan = {key: before.get(key) for key in ("recipe", "run", "values", "seeds", "trials")}
    plan["recipe"] = json.loads(json.dumps(check_recipe(plan["recipe"]).to_dict()))
    plan["one_at_a_time"] = before.get("one_at_a_time", False)
    plan["test"] = before.get("test", "--test" in before.get("command", "").split())
    return plan


# --- one cell --------------------------------------------------------------------------------------------------------


def _measured(
    cell: Cell, cells: Sequence[Cell], records: Sequence[dict], finished: Path | None, generates: bool
) -> dict[str, Any]:
    """The record of a cell, trained if no other cell has trained its run."""
    record: dict[str, Any] = {"values": cell.values, "seed": cell.seed, "run": cell.run.name}
    diverged = next((r["diverged"] for r in records if r["run"] == cell.run.name and "diverged" in r), None)
    try:
        metrics = {} if diverged else _trained(cell, cells) if finished is None else read_json(finished / METRICS)
    except TrainingDiverged as error:
        diverged = str(error)
    if diverged:
        _say(f"sweep: {cell} is left: {diverged}")
        return record | {"diverged": diverged, "environment": environment()}
    start = time.perf_counter()
    if generates:  # all in the same way, so that their seconds compare
        settings = {name: getattr(cell.recipe.evaluation, name) for name in SETTINGS}
        measures = evaluate_run(cell.run, SPLIT, **settings)[SPLIT]
        record["evaluation_seconds"] = time.perf_counter() - start
    else:
        measures = metrics["evaluation"][SPLIT]
    record |= {SPLIT: measures, "seconds": metrics["training"]["seconds"]}
    record |= {name: metrics["evaluation"][name] for name in cell.tests}
    record["examples"] = metrics.get("data", {}).get("train", {}).get("examples")
    if baselines := {
        name: majority_scores(report, cell.recipe.evaluation.metrics) for name, report in read_errors(cell.run).items()
    }:
        record["baselines"] = baselines
    return record | {"parameters": metrics["model"]["parameters"], "environment": metrics["environment"]}


def _trained(cell: Cell, cells: Sequence[Cell]) -> dict[str, Any]:
    """The metrics of the cell's run, trained to its end."""
    run = cell.run
    if (run / METRICS).is_file():
        return read_json(run / METRICS)
    # The longest text that a cell of this run generates, which a model with learned positions must have room for.
    longest = max(other.recipe.evaluation.max_new_tokens for other in cells if other.run == run)
    recipe = dataclasses.replace(
        cell.recipe, evaluation=dataclasses.replace(cell.recipe.evaluation, max_new_tokens=longest)
    )
    begun = all((run / name).is_file() for name in (RUN_RECIPE, TOKENIZER))
    if run.is_dir() and not begun and not checkpoints.list_checkpoints(run):
        shutil.rmtree(run)  # killed while its first files were written
    held_out = {} if cell.tests or not holds_test_out(recipe) else {"test": False}
    return train(recipe, str(run), resume=begun, **held_out)


@contextmanager
def _said_once() -> Iterator[None]:
    """What is said of a recipe is said of each cell's, and once is enough."""
    seen: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        before = len(seen)
        seen.add(record.getMessage())
        return len(seen) > before

    loggers = [
        logging.getLogger(f"regard.train.{module}") for module in ("recipe", "tokenizer_checks", "model_checks")
    ]
    for logger in loggers:
        logger.addFilter(is_new)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_new)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
