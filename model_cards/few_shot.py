"""The card's section on few-shot prompting, from the results that lie in the run's folder."""

import re
import shlex
from collections.abc import Sequence

from huggingface_hub import EvalResult

from regard.evaluation.few_shot.result import FewShotResult, Point, read_result
from regard.evaluation.few_shot.table import (
    NAMES,
    counts,
    group_table,
    how,
    large,
    majority_note,
    rules_note,
    shown,
    so_many,
    with_spread,
)
from regard.model_cards.records import Records, with_placeholder
from regard.model_cards.tables import cell, number, table
from regard.train.few_shot_options import SETTLED, items_of

FILES = "few-shot-*.json"
TYPES = {"greedy": "accuracy"}  # of metrics, where the Hub has another name


def few_shot_results(records: Records) -> list[FewShotResult]:
    """The run's results without their prompts, by the names of the tasks.

    Raises:
        ValueError: a file that cannot be read.
    """
    return [read_result(path, records=False) for path in sorted(records.folder.glob(FILES))]


def few_shot_table(results: Sequence[FewShotResult]) -> str:
    """A row for each task, a column for each number of shots."""
    numbers = sorted({point.shots for result in results for point in result.points})
    rows = []
    for result in results:
        points = {point.shots: point for point in result.points}
        last = result.points[-1]
        low, high = (shown(result.metric, edge) for edge in last.interval)
        rows.append([
            result.task,
            NAMES[result.metric],
            number(result.items),
            chance_of(result),
            *(_cell(result, points[shots]) if shots in points else "" for shots in numbers),
            f"{low} to {high}",
        ])  # fmt: skip
    head = ["task", "measure", "items", "chance", *(so_many(shots, "shot") for shots in numbers)]
    return table([*head, "95 % of the last"], rows, numbers_from=2)


def chance_of(result: FewShotResult) -> str:
    """Where a text is written and no choice is made, a guess is as good as never right."""
    if result.chance is None:
        return "≈ 0%" if result.metric == "greedy" else ""
    return shown(result.metric, result.chance)


def few_shot_notes(results: Sequence[FewShotResult]) -> str:
    """Which tasks are at chance, and how each was asked."""
    lines = []
    if at_chance := [cell(result.task) for result in results if _is_at_chance(result)]:
        lines.append(
            f"**At chance:** {', '.join(at_chance)}. With any number of shots the interval holds what guessing gives."
        )
    lines.append("How each was asked:")
    lines.append("\n".join(f"- {cell(one.task)}: {_how(one)}" for one in results))
    return "\n\n".join(lines)


def _how(result: FewShotResult) -> str:
    """How a task was asked, and what has to be known beside its figures."""
    told = [*majority_note(result), *rules_note(result), *counts(result), *_beside(result)]
    return " ".join([how(result), *told])


def few_shot_groups(results: Sequence[FewShotResult]) -> str:
    """Of tasks whose items are in groups, a table of them."""
    tables = {result.task: group_table(result) for result in results}
    return "\n\n".join(f"{cell(task)} by group:\n\n{text}" for task, text in tables.items() if text)


def few_shot_commands(results: Sequence[FewShotResult], place: str) -> str:
    """What measures it again, a line a task."""
    return "\n".join(_command(result, place) for result in results)


def few_shot_eval_results(results: Sequence[FewShotResult], place: str) -> list[EvalResult]:
    """The same for the metadata."""
    found = []
    for result in results:
        for point in result.points:
            path = result.data.get("path")
            found.append(
                EvalResult(
                    task_type="text-generation",
                    dataset_type=path or "unknown",
                    dataset_name=result.task,
                    dataset_config=result.data.get("name") if path else result.task,  # tells those of no id apart
                    dataset_split=result.data.get("split"),
                    metric_type=TYPES.get(result.metric, result.metric),
                    metric_name=f"{NAMES[result.metric]}, {point.shots}-shot",
                    metric_value=round(point.mean, 4),
                    metric_args={"command": _command(result, place)},
                )
            )
    return found


def _beside(result: FewShotResult) -> list[str]:
    """What other learners come to by the number of examples, a sentence each, and how fine-tuning was settled."""
    lines = []
    for curve in result.beside:
        points = zip(curve.numbers, curve.means(), strict=True)
        told = ", ".join(f"{shown(result.metric, mean)} with {so_many(n, 'example')}" for n, mean in points)
        name = re.sub(r" \(([0-9,]+ items?)\)$", rf" ({NAMES[result.metric]} over \1)", curve.name)
        lines.append(f"{name[0].upper()}{name[1:]}: {told}.")
    return [*lines, SETTLED] if any(items_of(curve) is not None for curve in result.beside) else lines


def _cell(result: FewShotResult, point: Point) -> str:
    perplexity = "" if point.perplexity is None else f" (perplexity {large(point.perplexity)})"
    return with_spread(result.metric, point.mean, point.deviation) + perplexity


def _is_at_chance(result: FewShotResult) -> bool:
    chance = result.chance
    return chance is not None and all(point.interval[0] <= chance <= point.interval[1] for point in result.points)


def _command(result: FewShotResult, place: str) -> str:
    settings = result.settings
    words = ["regard", "few-shot", place, "--task", str(with_placeholder(result.source or result.task))]
    words += ["--shots", *map(str, settings["shots"])]
    if max(settings["shots"]):
        seeds = settings["seeds"]
        several = ",".join(map(str, seeds)) + "," * (len(seeds) == 1)  # one number would be how many
        words += ["--seeds", str(len(seeds)) if seeds == list(range(len(seeds))) else several]
        if result.majority is not None and not settings["balanced"]:  # with labels, balanced is the default
            words += ["--random"]
    if result.limit is not None:
        words += ["--limit", str(result.limit)]
    if result.measures_choices and settings["normalisation"] != "none":
        words += ["--normalisation", settings["normalisation"]]
    words += ["--calibrate"] * settings["calibrate"]
    if settings["permutations"] > 1:
        words += ["--permutations", str(settings["permutations"])]
    for items in filter(None, map(items_of, result.beside)):
        words += ["--fine-tune", *(["--fine-tune-items", str(items)] if items != result.items else [])]
    for key, value in result.overrides.items():
        words += ["--set", f"{key}={with_placeholder(value)}"]
    return shlex.join(words)
