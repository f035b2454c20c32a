"""A sweep: a recipe trained with each combination of a few values and seeds, judged on the validation split alone.

A test set is for one look at the end, with what the sweep chose: `data.test` is taken out of every recipe here, so its
files are not even opened. Settings that only change how text is generated do not train again: they share a run.
"""

import dataclasses
import hashlib
import itertools
import json
import logging
import math
import os
import random
import re
import shlex
import shutil
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.evaluation.files import replacing
from regard.evaluation.metrics import LOWER_IS_BETTER, TEXT_METRICS
from regard.train import checkpoints
from regard.train.building import training_arguments
from regard.train.data import load_splits
from regard.train.evaluate import SETTINGS, evaluate_run
from regard.train.readers import local_file
from regard.train.recipe import RUN_RECIPE, load_recipe, recipe_text
from regard.train.records import METRICS, environment, read_json, write_json
from regard.train.run import TOKENIZER, train
from regard.train.sections import HOLD_OUT, WORD_VECTORS, Recipe, RecipeError
from regard.train.trainer import TrainingDiverged
from regard.train.yaml_io import read_yaml

SWEEP, TABLE = "sweep.json", "sweep.md"
SPLIT = "validation"
GENERATION = {f"evaluation.{name}": name for name in SETTINGS}  # these keys change no weights
PER_TOKEN = {"loss", "perplexity", "pseudo_perplexity"}  # measures of which a token is the unit
LONGEST_NAME = 100  # of a run's folder


@dataclass
class Cell:
    """One run of a sweep: the values and the seed, the recipe that they make, and the folder of the trained weights,
    which cells that only generate differently share."""

    values: dict[str, Any]
    seed: int
    recipe: Recipe
    run: Path


def sweep(
    recipe: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    values: Mapping[str, Sequence[Any]] | None = None,
    seeds: Sequence[int] = (),
    output_dir: str | os.PathLike[str] | None = None,
    resume: bool = False,
    trials: int | None = None,
    metric: str | None = None,
    one_at_a_time: bool = False,
) -> dict[str, Any]:
    """Trains a recipe with each combination of values and each seed, and measures each on the validation split.

    Cells that differ only in `evaluation.num_beams`, `length_penalty`, `max_new_tokens` or `batch_size` share one
    training. Where only these are swept, `recipe` may be a finished run's folder: then nothing is trained. A training
    that diverges is recorded as such, and the sweep goes on. Killed at any moment, a sweep goes on with `resume=True`.

    Args:
        recipe: what `load_recipe` takes.
        overrides: `key=value` pairs for all cells.
        values: the values of each swept key, such as `{"model.dropout": [0.1, 0.3]}`.
        seeds: `training.seed` of the runs of each combination; by default the recipe's own.
        output_dir: the sweep's folder, `runs/<name of the recipe>-sweep` by default. It gets a folder for each run,
            and `sweep.json` and `sweep.md`, which are written again after each cell.
        resume: go on with the sweep in that folder.
        trials: only so many of the combinations, drawn by the first seed.
        metric: by what the best is told; by default the first of `evaluation.metrics`, or the loss.
        one_at_a_time: not the combinations, but the recipe as it is, and then with each value alone: what each
            ingredient gives.

    Returns:
        What `sweep.json` holds; `table` makes Markdown of it.

    Raises:
        ValueError: one sentence about the recipe, a value or the folder, before the first cell is trained.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError("A sweep runs in one process: call it without `accelerate launch`.")
    _check_task(recipe)
    values = {key: list(several) for key, several in (values or {}).items()}
    _check_values(values, overrides)
    seeds = _checked_seeds(seeds)
    if trials is not None and trials < 1:
        raise RecipeError(f"--trials: {trials} is less than 1.")
    if trials is not None and one_at_a_time:
        raise RecipeError("--trials draws from the combinations of values, and --one-at-a-time makes none.")
    finished = _finished_run(Path(recipe), values, overrides, seeds)
    with _said_once():
        name, own_seed = _name_and_seed(recipe, overrides, {} if one_at_a_time else values)
        seeds = seeds or [own_seed]
        folder = Path(output_dir) if output_dir is not None else Path("runs") / f"{name}-sweep"
        settings = _one_at_a_time(values) if one_at_a_time else _grid(values, trials, seeds[0])
        cells = _cells(recipe, overrides, settings, seeds, folder, finished)
    if any(cell.recipe.training.get("push_to_hub") for cell in cells):
        raise RecipeError(
            "training.push_to_hub: a sweep publishes none of its runs; publish the best when it is found."
        )
    metric = _checked_metric(metric, cells)
    _check_comparable(cells, values, metric)
    _check_cells(cells, values, finished)

    plan = {
        "recipe": cells[0].recipe.to_dict(),
        "run": None if finished is None else str(finished),
        "values": values,
        "seeds": seeds,
        "trials": trials,
        "one_at_a_time": one_at_a_time,
    }
    plan = json.loads(json.dumps(plan))  # as it is read again
    records = _records(folder, plan, resume)
    command = _command(recipe, overrides, values, seeds if finished is None else [], trials, metric, one_at_a_time)
    about = {"name": name, "command": command, "metric": metric, "split": SPLIT, "cells_planned": len(cells)}

    def write() -> dict[str, Any]:
        result = about | plan | {"environment": environment(), "settings": _settings(records, metric)}
        result["cells"] = records
        write_json(folder / SWEEP, result)
        with replacing(folder / TABLE) as partial:
            partial.write_text(table(result), encoding="utf-8")
        return result

    result = write()
    done = {(_as_json(record["values"]), record["seed"]) for record in records}
    generates = any(key in GENERATION for key in values)
    for number, cell in enumerate(cells, 1):
        if (_as_json(cell.values), cell.seed) in done:
            continue
        _say(f"sweep, {number} of {len(cells)}: {_described(cell)}")
        with _environment_restored():
            records.append(_measured(cell, cells, records, finished, generates))
        result = write()
    return result


def parse_values(texts: Sequence[str]) -> dict[str, list[Any]]:
    """`KEY=V1,V2` as `{"KEY": [V1, V2]}`, each value read as in a recipe: `[bleu],[bleu, chrf]` are two lists.

    Raises:
        RecipeError: a text of another form, or a key that is given twice.
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, several = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise RecipeError(f"--values: '{text}' is not of the form KEY=V1,V2, such as model.dropout=0.1,0.3.")
        if key in found:
            raise RecipeError(f"--values: {key} is given twice: give all its values at once, as {key}=V1,V2.")
        try:
            found[key] = read_yaml(f"[{several}]")
        except ValueError as error:
            raise RecipeError(f"--values: '{text}' is not values between commas: {error}.") from error
    return found


def parse_seeds(text: str | None) -> list[int]:
    """`1,2,3` as numbers. Raises RecipeError for what is no whole number."""
    parts = [part.strip() for part in text.split(",")] if text is not None else []
    for part in parts:
        if not re.fullmatch(r"[0-9]+", part):
            raise RecipeError(f"--seeds: '{part}' is no whole number of at least 0; seeds are given as 1,2,3.")
    return [int(part) for part in parts]


def table(result: Mapping[str, Any]) -> str:
    """The Markdown of a sweep: a line for each setting."""
    keys, settings, metric = list(result["values"]), result["settings"], result["metric"]
    measures = list(dict.fromkeys(name for setting in settings for name in setting["mean"]))
    measures.sort(key=lambda name: name != metric)  # the one that decides comes first
    timed = any("evaluation_seconds" in setting for setting in settings)
    names = ["changed"] if result["one_at_a_time"] else keys
    head = [*names, *measures, "parameters", "seconds of training", *(["of evaluation"] if timed else []), "seeds"]
    lines = [head, ["---"] * len(names) + ["---:"] * (len(head) - len(names))]
    for setting in settings:
        line = [_shown(setting["values"][key]) for key in keys if key in setting["values"]]
        if result["one_at_a_time"]:
            line = [", ".join(f"{key}={_shown(value)}" for key, value in setting["values"].items()) or "nothing"]
        line = [text.replace("|", "\\|") for text in line]
        for name in measures:
            text = _with_deviation(setting["mean"].get(name), setting["deviation"].get(name))
            line.append(f"**{text}**" if name == metric and setting["best"] else text)
        numbers = {"parameters": ",", "seconds": ",.1f"} | ({"evaluation_seconds": ",.1f"} if timed else {})
        line += [format(setting[name], form) if name in setting else "" for name, form in numbers.items()]
        diverged = setting["diverged"]
        line.append(f"{len(setting['seeds'])}" + (f", {len(diverged)} diverged" if diverged else ""))
        lines.append(line)
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    several = max((len(setting["seeds"]) for setting in settings), default=0) > 1
    done = len(result["cells"])
    text = [
        f"# Sweep of {result['name']}\n",
        f"Measured on the validation split; no test set was read. The best {metric} ({better} is better) is bold."
        + (" ± is the standard deviation over the seeds." if several else ""),
        f"{done} of {result['cells_planned']} cells are done.\n" if done < result["cells_planned"] else "",
        "\n".join(f"| {' | '.join(line)} |" for line in lines),
        f"\n```\n{result['command']}\n```\n",
    ]
    return "\n".join(text)


# --- what is asked for -----------------------------------------------------------------------------------------------


def _check_task(recipe: str | os.PathLike[str]) -> None:
    try:
        content = read_yaml(recipe_text(recipe))
    except ValueError:
        return  # `load_recipe` says what is wrong
    if isinstance(content, dict) and content.get("task") == WORD_VECTORS:
        raise RecipeError(
            f"'{recipe}' trains word vectors, which have no validation split for a sweep to judge them on: train each "
            "setting by `regard train`, and compare them by `regard evaluate`."
        )


def _check_values(values: dict[str, list[Any]], overrides: Sequence[str]) -> None:
    if not values:
        raise RecipeError(
            "A sweep needs values to go through: give --values KEY=V1,V2, such as model.dropout=0.1,0.3."
        )
    given = {text.partition("=")[0].strip() for text in overrides}
    for key, several in values.items():
        if not several:
            raise RecipeError(f"--values: {key} has no values: give them as {key}=V1,V2.")
        texts = [_as_json(value) for value in several]
        if twice := next((text for i, text in enumerate(texts) if text in texts[:i]), None):
            raise RecipeError(f"--values: {key} has the value {twice} twice.")
        if key in ("name", "task"):
            raise RecipeError(f"--values: {key} is one for the whole sweep.")
        if key == "training.seed":
            raise RecipeError("--values: training.seed is given by --seeds, such as --seeds 1,2,3.")
        if key == "data.test" or key.startswith("data.test."):
            raise RecipeError(f"--values: {key} is not read in a sweep, which is judged on data.validation alone.")
        for other in [*given, *(name for name in values if name != key)]:
            if key == other:
                raise RecipeError(f"{key} is both set and swept: leave out one.")
            if key.startswith(f"{other}.") or other.startswith(f"{key}."):
                raise RecipeError(f"--values: {key} and {other} set the same thing: leave out one.")
    if "training.seed" in given:
        raise RecipeError("training.seed is given by --seeds in a sweep, such as --seeds 1,2,3.")


def _checked_seeds(seeds: Sequence[int]) -> list[int]:
    for i, seed in enumerate(seeds):
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
            raise RecipeError(f"--seeds: {seed!r} is no whole number from 0 to {2**32 - 1}.")
        if seed in seeds[:i]:
            raise RecipeError(f"--seeds: {seed} is given twice.")
    return list(seeds)


def _finished_run(
    recipe: Path, values: Mapping[str, Any], overrides: Sequence[str], seeds: Sequence[int]
) -> Path | None:
    """The folder of a finished run, where the sweep only generates anew with it."""
    if not all((recipe / name).is_file() for name in (RUN_RECIPE, TOKENIZER, METRICS)):
        return None
    if not all(key in GENERATION for key in values):
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


def _name_and_seed(recipe: Any, overrides: Sequence[str], values: Mapping[str, list[Any]]) -> tuple[str, int]:
    first = [_override(key, several[0]) for key, several in values.items()]
    loaded = load_recipe(recipe, [*overrides, *first])
    return loaded.name, loaded.training.get("seed", 42)


def _grid(values: Mapping[str, list[Any]], trials: int | None, seed: int) -> list[dict[str, Any]]:
    """All combinations, or some of them, in the order in which the values are given."""
    grid = [dict(zip(values, choice, strict=True)) for choice in itertools.product(*values.values())]
    if trials is None or trials >= len(grid):
        return grid
    return [grid[i] for i in sorted(random.Random(seed).sample(range(len(grid)), trials))]


def _one_at_a_time(values: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Nothing changed, and then each value by itself."""
    return [{}, *({key: value} for key, several in values.items() for value in several)]


def _cells(
    recipe: Any,
    overrides: Sequence[str],
    settings: Sequence[dict[str, Any]],
    seeds: Sequence[int],
    folder: Path,
    finished: Path | None,
) -> list[Cell]:
    """All cells in the settings' order, their recipes checked."""
    cells, runs = [], {}
    for setting, seed in itertools.product(settings, seeds):
        own = [_override(key, value) for key, value in setting.items()]
        own += [] if finished is not None else [f"training.seed={seed}"]
        loaded = load_recipe(recipe, [*overrides, *own])
        loaded.data.test = None
        weights = loaded.to_dict()
        for name in SETTINGS:
            del weights["evaluation"][name]
        key = _as_json(weights)
        if key not in runs:
            runs[key] = finished or folder / _free_name(_run_name(loaded.name, setting, seed), runs.values())
        cells.append(Cell(setting, seed, loaded, runs[key]))
    return cells


def _override(key: str, value: Any) -> str:
    return f"{key}={json.dumps(value, ensure_ascii=False)}"  # JSON is YAML


def _run_name(recipe: str, values: Mapping[str, Any], seed: int) -> str:
    """The values that are trained with, after the last parts of their keys where these differ."""
    trained = {key: value for key, value in values.items() if key not in GENERATION}
    last = [key.rpartition(".")[2] for key in trained]
    parts = [
        f"{key if last.count(end) > 1 else end}-{_shown(value)}"
        for (key, value), end in zip(trained.items(), last, strict=True)
    ]
    name = re.sub(r"[^\w.-]+", "-", "_".join(parts) or recipe).strip(".-")
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return f"{name}-seed{seed}"


def _free_name(name: str, taken: Any) -> str:
    """-1 and 1 would be one name where signs are left out, as would 'a b' and 'a-b'."""
    names = {path.name for path in taken}
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain([name], numbered) if candidate not in names)


def _checked_metric(metric: str | None, cells: Sequence[Cell]) -> str:
    metric = metric or next(iter(cells[0].recipe.evaluation.metrics), "loss")
    for cell in cells:
        measured = ["loss", *cell.recipe.evaluation.metrics]
        measured += ["perplexity"] if cell.recipe.task != "sequence-classification" else []
        if metric not in measured:
            raise RecipeError(
                f"--metric: '{metric}' is not measured: it is one of {', '.join(dict.fromkeys(measured))}; "
                "evaluation.metrics names more."
            )
    return metric


def _check_comparable(cells: Sequence[Cell], values: Mapping[str, Any], metric: str) -> None:
    """What is judged, and the unit that it is judged by, must be the same in all cells."""
    judged = _judged(cells[0].recipe, metric)
    first = _flat(cells[0].recipe.to_dict())
    for cell in cells[1:]:
        own = _flat(cell.recipe.to_dict())
        changed = [key for key in {**first, **own} if first.get(key) != own.get(key)]
        for (field, why), key in itertools.product(judged.items(), changed):
            if _is_of(key, field):
                # One field may follow from another: with a file to train on, other rows to validate on.
                follows = not any(_is_of(key, swept) for swept in values)
                name = f"{', '.join(values)} changes {key}, which" if follows else key
                raise RecipeError(f"--values: {name} changes {why}.")


def _is_of(key: str, field: str) -> bool:
    return key == field or key.startswith(f"{field}.")


def _judged(recipe: Recipe, metric: str) -> dict[str, str]:
    """The fields that decide what a metric is measured on, each with what a sweep of it would change."""
    data, task = recipe.data, recipe.task
    found: dict[str, str] = {}

    def add(why: str, *fields: str) -> None:
        for field in fields:
            found.setdefault(field, why)

    rows = "what is judged, so that the runs could not be compared"
    add(rows, "data.validation", "evaluation.stride", "evaluation.group_references", "evaluation.metrics")
    file = None if data.validation is None else local_file(data.validation)
    if data.validation is not None and HOLD_OUT.fullmatch(data.validation):
        # Of a stream the first rows are held out, and else others.
        add(rows, "data.train", "data.path", "data.name", "data.streaming")
    elif file is None:
        add(rows, "data.path", "data.name")
    if file is None or file.suffix.lower() != ".txt":
        add(rows, "data.columns")
    if metric == "bleu_moses_lowercase":
        add(rows, "data.target_language")
    if metric == "pseudo_perplexity":
        add(rows, "evaluation.pseudo_perplexity_rows")
    if task == "causal-lm":
        # Of packed documents the first token is no target, and in blocks all but the very first are. `block_size` is
        # free: however long the rows, with a stride or without, each token of the stream (or of its document) is a
        # target once, and the context that it is predicted from is what such a sweep is about.
        add(rows, "data.packing")
    if task == "masked-lm":
        # The masks are drawn row by row, and rows are drawn for pseudo_perplexity: in others, other tokens are judged.
        add(rows, "data.block_size")
        if metric != "pseudo_perplexity":
            add(_tokens(metric, ": choose pseudo_perplexity by --metric"), "data.mask_probability")

    tokenizer = recipe.tokenizer
    keeps_all = tokenizer.kind == "byte-bpe" and tokenizer.path is None
    cut = ("tokenizer.path", "tokenizer.kind", "tokenizer.lowercase", "tokenizer.pattern")
    learnt = () if tokenizer.path is not None else ("data.train", "data.path", "data.name")  # what it is trained on
    if metric == "word_perplexity":
        text = (
            "the text that is predicted (words may become <unk> or lower-case), so that word_perplexity could not be "
            "compared: of tokenizers only those of kind byte-bpe, trained with the same tokenizer.lowercase, keep all"
        )
        add(text, *cut, *(() if keeps_all else ("tokenizer", *learnt)))
    elif metric in PER_TOKEN and task != "sequence-classification":  # of which the unit is a text
        text_metric = ": choose a metric of the text that is written by --metric, such as bleu"
        advice = text_metric if task == "translation" else ""
        add(_tokens(metric, advice), *cut)
        if task == "causal-lm" and keeps_all:
            advice = ": choose word_perplexity by --metric"
        add(_tokens(metric, advice), "tokenizer", *learnt)
        if task == "translation":
            lengths = f"where the validation pairs are cut, so that {metric} could not be compared{text_metric}"
            add(lengths, "data.max_source_length", "data.max_target_length")
    return found


def _tokens(metric: str, advice: str) -> str:
    return f"the tokens that are predicted, so that {metric} could not be compared{advice}"


def _check_cells(cells: Sequence[Cell], values: Mapping[str, Any], finished: Path | None) -> None:
    data: dict[str, Recipe] = {}
    for cell in cells:
        recipe = cell.recipe
        if recipe.data.validation is None:
            raise RecipeError(
                "data.validation names no data, and a sweep is judged on it: give a split, a file, a share such as "
                "5% or a number of training rows to hold out."
            )
        writes = recipe.task == "translation" and any(name in TEXT_METRICS for name in recipe.evaluation.metrics)
        idle = [key for key in values if key in GENERATION and key != "evaluation.batch_size" and not writes]
        if idle:
            raise RecipeError(
                f"--values: {idle[0]} changes nothing that is measured, since no metric of evaluation.metrics reads "
                "what a model writes."
            )
        with _environment_restored():
            training_arguments(recipe, str(cell.run))  # TrainingArguments has rules of its own
        data.setdefault(_as_json(dataclasses.asdict(recipe.data)), recipe)
    if finished is None:  # before the folder is written, or it would be in the way of the call with the right file
        for recipe in data.values():
            load_splits(recipe.data, recipe.task)


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
    old, new = _flat({key: before.get(key) for key in plan}), _flat(plan)
    for key in dict.fromkeys([*old, *new]):
        if _as_json(old.get(key)) != _as_json(new.get(key)):
            name, now, was = key.removeprefix("recipe."), _shown(new.get(key)), _shown(old.get(key))
            raise RecipeError(
                f"{name}: {now} differs from {was}, with which the sweep in '{folder}' began: resume it by the same "
                "call, or choose another folder with --output."
            )
    return before["cells"]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return found


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
        _say(f"sweep: {_described(cell)} is left: {diverged}")
        return record | {"diverged": diverged, "environment": environment()}
    start = time.perf_counter()
    if generates:  # all in the same way, so that their seconds compare
        settings = {name: getattr(cell.recipe.evaluation, name) for name in SETTINGS}
        measures = evaluate_run(cell.run, SPLIT, **settings)[SPLIT]
        record["evaluation_seconds"] = time.perf_counter() - start
    else:
        measures = metrics["evaluation"][SPLIT]
    record |= {SPLIT: measures, "seconds": metrics["training"]["seconds"]}
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
    return train(recipe, str(run), resume=begun)


@contextmanager
def _environment_restored() -> Iterator[None]:
    """TrainingArguments may leave variables behind (those of torch.compile, where accelerate is older than 1.2), which
    would hold for the next cell: whatever makes one is put in here."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _said_once() -> Iterator[None]:
    """What is said of a recipe is said of each cell's, and once is enough."""
    seen: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        before = len(seen)
        seen.add(record.getMessage())
        return len(seen) > before

    loggers = [logging.getLogger(f"regard.train.{module}") for module in ("recipe", "checks")]
    for logger in loggers:
        logger.addFilter(is_new)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_new)


# --- the table -------------------------------------------------------------------------------------------------------


def _settings(records: Sequence[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """For each setting the mean over its seeds, and the standard deviation where there are several."""
    groups: dict[str, list[dict]] = {}
    for record in records:
        groups.setdefault(_as_json(record["values"]), []).append(record)
    settings = []
    for group in groups.values():
        whole = [record for record in group if SPLIT in record]
        names = [name for name, value in (whole[0][SPLIT] if whole else {}).items() if isinstance(value, int | float)]
        columns = {name: [record[SPLIT][name] for record in whole] for name in names}
        setting = {
            "values": group[0]["values"],
            "seeds": [record["seed"] for record in whole],
            "diverged": [record["seed"] for record in group if SPLIT not in record],
            "mean": {name: statistics.fmean(column) for name, column in columns.items()},
            "deviation": {
                name: statistics.stdev(column)
                for name, column in columns.items()
                if len(column) > 1 and all(map(math.isfinite, column))
            },
        }
        if whole:
            setting["parameters"] = whole[0]["parameters"]
        for name in ("seconds", "evaluation_seconds"):
            if seconds := [record[name] for record in whole if name in record]:
                setting[name] = statistics.fmean(seconds)
        settings.append(setting)
    # A setting that diverges with one seed is not to be chosen for the luck of the others.
    whole = [setting for setting in settings if metric in setting["mean"] and not setting["diverged"]]
    scores = [setting["mean"][metric] for setting in whole if not math.isnan(setting["mean"][metric])]
    best = (min if metric in LOWER_IS_BETTER else max)(scores, default=None)
    for setting in settings:
        setting["best"] = setting in whole and setting["mean"][metric] == best
    return settings


def _with_deviation(mean: float | None, deviation: float | None) -> str:
    if mean is None:
        return ""
    return _number(mean, 4) + ("" if deviation is None else f" ± {_number(deviation, 2)}")


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"  # never 3.8e+03


def _as_json(value: Any) -> str:
    """What values are told apart by: 1, 1.0 and true are equal in Python, and three values of a recipe."""
    return json.dumps(value, sort_keys=True)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _described(cell: Cell) -> str:
    return ", ".join([*(f"{key}={_shown(value)}" for key, value in cell.values.items()), f"seed {cell.seed}"])


def _command(
    recipe: Any,
    overrides: Sequence[str],
    values: Mapping[str, list[Any]],
    seeds: Sequence[int],
    trials: int | None,
    metric: str,
    one_at_a_time: bool,
) -> str:
    """The call that makes this sweep."""
    words = ["regard", "sweep", str(recipe), *overrides]
    for key, several in values.items():
        words += ["--values", f"{key}={','.join(json.dumps(value, ensure_ascii=False) for value in several)}"]
    words += ["--seeds", ",".join(map(str, seeds))] if seeds else []
    words += ["--trials", str(trials)] if trials is not None else []
    words += ["--one-at-a-time"] if one_at_a_time else []
    return shlex.join([*words, "--metric", metric])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
