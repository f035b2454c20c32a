"""Two ways to use the same k examples, beside each other: fine-tuning on them (Option A), or showing them (Option B).

Both answer the same items with the same scorer. Fine-tuned, a fresh copy of the model learns the examples and is asked
without any; prompted, the model stays as it is and reads them each time. Where the items have hidden rules and bring
examples of them, each item is a task of its own: a copy learns from its examples and answers this item alone.

What the model has no room for is left out and counted, of each way by itself: a copy learns each example that fits
alone, and a prompt has to hold all of them together with the query.
"""

import dataclasses
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.few_shot.items import Item, rules_of
from regard.evaluation.few_shot.measures import clusters_of, interval, statistics, value
from regard.evaluation.few_shot.rows import load_items
from regard.evaluation.few_shot.run import ModelReader, Settings, ask, draw, settings_of
from regard.evaluation.few_shot.table import NAMES, number_of_items, shown, so_many, with_spread
from regard.evaluation.few_shot.task import Task
from regard.evaluation.few_shot.templates import Texts
from regard.evaluation.files import json_text, replacing
from regard.evaluation.learning_curves import LearningCurve
from regard.train.few_shot_fine_tuning import DRAWS, Learner, Schedule, settling
from regard.train.tensor_memory import peak_memory

NAME = "fine-tuned on the same examples"
APART = "fine-tuned on those examples that fit alone"  # where not all of them were shown, or not all learnt
PROMPTED = "prompted, on the items of fine-tuning"
ITEMS = 50  # that are fine-tuned for, where each has examples of its own
SETTLED = (
    f"Rate and steps of fine-tuning are settled by cross-validation on up to {DRAWS} draws of as many examples, and "
    f"all seeds share them: behind fine-tuning on k examples are up to {DRAWS}k labelled ones. One example takes a "
    "default."
)
FORMAT = "regard-few-shot-options-1"

Records = list[dict[str, Any]]


@dataclass(frozen=True)
class Option:
    """What a way came to.

    Attributes:
        values: the metric of each seed; of prompting the mean over the orders in which the examples are shown.
        interval: of their mean, at 95 % over the items, as `measures.interval` takes it.
        seconds: of a seed, the mean: learning from the examples, if that is done, and answering all items once.
        memory: bytes at once, at most, as `peak_memory` counts them.
        examples: that were learnt or shown for an item, the mean: fewer than asked for where not all fit.
        fewest: the least of them for any item.
    """

    values: list[float]
    interval: tuple[float, float]
    seconds: float
    memory: int
    examples: float
    fewest: int

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))

    @property
    def deviation(self) -> float | None:
        """Of the seeds, over n - 1; None for one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


@dataclass(frozen=True)
class OptionsPoint:
    """Both ways with so many examples.

    Attributes:
        schedule: how the copies of all seeds were fine-tuned, as it was settled on examples alone.
        settling_draws: on how many sets of so many examples; 0 where one example takes the default.
        settling_examples: the labelled examples in them, each counted once.
        settling_seconds: what that took, once for all seeds; in no option's seconds.
        copies: how many were fine-tuned for a seed, the mean.
    """

    shots: int
    prompting: Option
    fine_tuning: Option
    schedule: Schedule
    settling_draws: int
    settling_examples: int
    settling_seconds: float
    copies: float

    @property
    def same_examples(self) -> bool:
        """Whether both ways had all of them."""
        return self.prompting.fewest == self.fine_tuning.fewest == self.shots


@dataclass(frozen=True)
class OptionsResult:
    """A task's comparison.

    Attributes:
        items: that both ways answered.
        drawn_from: how many there were, where some were left out; None where all were asked.
        rules: how many hidden rules the items follow, where some share one; None where each stands alone.
        permutations: in how many orders prompting showed the examples.
        predictions: one for each item, seed and number of examples, of the fine-tuned copies.
    """

    task: str
    metric: str
    model: str
    items: int
    drawn_from: int | None
    rules: int | None
    permutations: int
    seeds: list[int]
    points: list[OptionsPoint]
    predictions: Records = field(default_factory=list)

    @property
    def same_examples(self) -> bool:
        """Whether both ways had all examples, whatever their number."""
        return all(point.same_examples for point in self.points)

    def curves(self) -> list[LearningCurve]:
        """By the number of examples, for the picture of few-shot prompting: fine-tuning and, where it left items out,
        prompting on those that both answered, since the picture's own line is that of all."""
        name = NAME if self.same_examples else APART
        curves = [self._curve(name, [point.fine_tuning for point in self.points])]
        if self.drawn_from is not None:
            curves.append(self._curve(PROMPTED, [point.prompting for point in self.points]))
        return curves

    def _curve(self, name: str, options: Sequence[Option]) -> LearningCurve:
        return LearningCurve(
            f"{name} ({number_of_items(self.items, None)})",
            [point.shots for point in self.points],
            [option.values for option in options],
            [list(option.interval) for option in options],
        )

    def save(self, path: str | Path) -> Path:
        """Writes JSON; the file is complete or not there."""
        with replacing(path) as partial:
            partial.write_text(json_text({"format": FORMAT} | asdict(self)), encoding="utf-8")
        return Path(path)


def fine_tune_and_score(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    task: Task,
    *,
    shots: Sequence[int] | None = None,
    seeds: int | Sequence[int] = 5,
    balanced: bool | None = None,
    normalisation: str = "none",
    calibrate: bool = False,
    permutations: int = 1,
    items: int | None = None,
    batch_size: int = 32,
    name: str | None = None,
    data: tuple[Sequence[Item], Sequence[Item]] | None = None,
    show: Callable[[str], Any] | None = None,
) -> OptionsResult:
    """Fine-tunes on the examples that prompting shows, and does both. Of either, what does not fit is left out.

    Args:
        model: a causal language model or an encoder-decoder; it is not changed.
        shots: numbers of examples, by default those of `few_shot`; 0 is left out, since nothing is learnt from it.
        seeds, balanced, normalisation, calibrate, permutations, batch_size, name, data, show: as `few_shot` takes
            them; in what order examples are learnt makes no difference, since each step is of all of them.
        items: so many of them, evenly over the list; by default all, or `ITEMS` where each has examples of its own.

    Raises:
        ValueError: as `few_shot` does; no number of examples above 0; less than one item; no example that fits.
    """
    if items is not None and items < 1:
        raise ValueError(f"items={items} must be at least 1.")
    settings = settings_of(task, shots, seeds, balanced, normalisation, calibrate, permutations)
    numbers = tuple(number for number in settings.shots if number)
    if not numbers:
        raise ValueError(f"shots={list(settings.shots)}: fine-tuning takes one example at least.")
    every, pool = load_items(task) if data is None else data
    if items is None and any(item.pool is not None for item in every):
        items = ITEMS
    asked = every if items is None or items >= len(every) else _evenly(every, items)
    both = _Both(model, tokenizer, task, asked, pool, dataclasses.replace(settings, shots=numbers), batch_size)
    if not any(both.learner.fits(shot) for drawn in both.drawn.values() for one in drawn for shot in one.shots):
        raise ValueError(
            f"The task '{task.name}': no example fits into the {both.learner.limit:,} tokens that the model reads, so "
            "that it cannot be fine-tuned on any."
        )
    points = []
    for number in numbers:
        if show is not None:
            show(f"fine-tuning on {so_many(number, 'example')} ({len(points) + 1} of {len(numbers)})")
        points.append(both.point(number))
    return OptionsResult(
        task=task.name,
        metric=task.metric,
        model=name or type(model).__name__,
        items=len(asked),
        drawn_from=len(every) if len(asked) < len(every) else None,
        rules=rules_of(asked),
        permutations=permutations,
        seeds=list(settings.seeds),
        points=points,
        predictions=both.predictions,
    )


@dataclass(frozen=True)
class _Run:
    """What a seed came to.

    Attributes:
        tables: the statistics of the items, (N, D), one for each order of the examples.
        seconds: those of one order.
        examples: how many were learnt or shown, for each item and order.
    """

    tables: list[np.ndarray]
    seconds: float
    examples: list[int]


class _Both:
    """A model and its copy, with the items that both answer."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        task: Task,
        items: Sequence[Item],
        pool: Sequence[Item],
        settings: Settings,
        batch_size: int,
    ) -> None:
        self.task, self.items, self.pool, self.settings = task, items, pool, settings
        self.clusters = clusters_of(items)
        self.learner = Learner(model, tokenizer, task, batch_size)
        self.prompted = ModelReader(model, tokenizer, task, batch_size)
        self.tuned = ModelReader(self.learner.model, tokenizer, task, batch_size)
        self.without = dataclasses.replace(settings, shots=(0,), seeds=(0,), permutations=1)
        self.drawn = draw(Texts(task), items, pool, settings)
        self.predictions: Records = []
        self.batch_size = batch_size

    def point(self, number: int) -> OptionsPoint:
        groups = {seed: self._groups(number, seed) for seed in self.settings.seeds}
        draws = _draws(list(groups.values()))
        start = time.perf_counter()
        schedule = self.learner.settle(draws)
        seconds = time.perf_counter() - start
        settled = settling(draws)
        few = dataclasses.replace(schedule, steps=min(schedule.steps, 2))  # the second has all that later ones have
        learning = peak_memory(self.learner.model, lambda: self.learner.learn(draws[0], few))
        tuned = [self._fine_tuned(number, seed, groups[seed], schedule) for seed in self.settings.seeds]
        shown = [self._shown(number, seed) for seed in self.settings.seeds]
        return OptionsPoint(
            shots=number,
            prompting=self._option(shown, peak_memory(self.learner.first, lambda: self._ask_some(number))),
            fine_tuning=self._option(tuned, max(learning, peak_memory(self.learner.model, lambda: self._ask_some(0)))),
            schedule=schedule,
            settling_draws=len(settled),
            settling_examples=len({shot.id for shots in settled for shot in shots}),
            settling_seconds=seconds,
            copies=float(np.mean([sum(bool(shots) for shots, _ in several) for several in groups.values()])),
        )

    def _groups(self, number: int, seed: int) -> list[tuple[tuple[Item, ...], list[int]]]:
        """Sets of examples with the places of the items that have them. Most items share theirs, where all have one
        pool; an item that is among the examples itself has another one in its place. Examples that do not fit are
        left out."""
        groups: dict[tuple[str, ...], tuple[tuple[Item, ...], list[int]]] = {}
        for place, one in enumerate(self.drawn[number, seed]):
            shots = tuple(filter(self.learner.fits, one.shots))
            groups.setdefault(tuple(shot.id for shot in shots), (shots, []))[1].append(place)
        return list(groups.values())

    def _fine_tuned(
        self, number: int, seed: int, groups: list[tuple[tuple[Item, ...], list[int]]], schedule: Schedule
    ) -> _Run:
        start = time.perf_counter()
        records: Records = [{}] * len(self.items)
        for shots, places in groups:
            self.learner.learn(shots, schedule)
            some = [self.items[place] for place in places]
            for place, record in zip(places, self._ask(some, self.without, self.tuned), strict=True):
                records[place] = record
        seconds = time.perf_counter() - start
        for record in records:
            kept = {name: record[name] for name in ("item", "prediction", "correct")}
            self.predictions.append({"shots": number, "seed": seed} | kept)
        learnt = [len(shots) for shots, places in groups for _ in places]
        return _Run([statistics(self.task, records)], seconds, learnt)

    def _shown(self, number: int, seed: int) -> _Run:
        """The same of prompting."""
        settings = dataclasses.replace(self.settings, shots=(number,), seeds=(seed,))
        start = time.perf_counter()
        records = self._ask(self.items, settings, self.prompted)
        seconds = time.perf_counter() - start
        size = len(self.items)
        by_order = [records[start : start + size] for start in range(0, len(records), size)]
        tables = [statistics(self.task, several) for several in by_order]
        return _Run(tables, seconds / len(tables), [number - record["dropped"] for record in records])

    def _ask_some(self, number: int) -> None:
        """A batch of items with so many shots, by the copy where there are none."""
        seeds = self.settings.seeds[:1] if number else (0,)
        settings = dataclasses.replace(self.settings, shots=(number,), seeds=seeds, permutations=1)
        self._ask(self.items[: self.batch_size], settings, self.prompted if number else self.tuned)

    def _ask(self, items: Sequence[Item], settings: Settings, reader: ModelReader) -> Records:
        return ask(self.task, items, self.pool, settings, reader)

    def _option(self, runs: Sequence[_Run], memory: int) -> Option:
        """Of the runs of all seeds."""
        metric, examples = self.task.metric, [number for run in runs for number in run.examples]
        return Option(
            values=[float(np.mean([value(metric, table.sum(0)) for table in run.tables])) for run in runs],
            interval=interval(metric, [table for run in runs for table in run.tables], self.clusters),
            seconds=float(np.mean([run.seconds for run in runs])),
            memory=memory,
            examples=float(np.mean(examples)),
            fewest=min(examples),
        )


def items_of(curve: LearningCurve) -> int | None:
    """For how many items a line of fine-tuning was measured, by its name; None for another line."""
    found = re.fullmatch(rf"(?:{NAME}|{APART}) \(([0-9,]+) items?\)", curve.name)
    return int(found[1].replace(",", "")) if found else None


def options_table(result: OptionsResult) -> str:
    """Both ways in Markdown: a row for each number of examples."""
    metric, counted = result.metric, not result.same_examples
    measured = ["95 % over items", "seconds", "memory"]
    head = ["examples"]
    for way, examples in (("A: fine-tuned", "learnt"), ("B: prompted", "shown")):
        head += [way, *([examples] if counted else []), *measured]
    head.append("settled for A")
    lines = [head, ["---:"] * (len(head) - 1) + ["---"]]
    for point in result.points:
        cells = [str(point.shots)]
        for option in (point.fine_tuning, point.prompting):
            low, high = (shown(metric, edge) for edge in option.interval)
            cells += [
                with_spread(metric, option.mean, option.deviation),
                *([_examples(option)] if counted else []),
                f"{low} to {high}",
                f"{option.seconds:,.3g}",
                f"{option.memory / 1e6:,.3g} MB",
            ]
        rate, steps = point.schedule.learning_rate, point.schedule.steps
        how = f"rate {rate:g}, {so_many(steps, 'step')}"
        if point.settling_draws:
            draws = so_many(point.settling_draws, "draw")
            how += f", on {draws} with {point.settling_examples:,} examples, in {point.settling_seconds:,.3g} s"
        lines.append([*cells, how])
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"## {result.task}, {result.model}: fine-tuning or prompting\n\n{_about(result)}\n\n{rows}\n"


def _about(result: OptionsResult) -> str:
    """What the figures of the table are."""
    name, seeds = NAMES[result.metric], so_many(len(result.seeds), "seed")
    drawn = "" if result.drawn_from is None else f", of {result.drawn_from:,},"
    text = f"{name[0].upper()}{name[1:]} over {number_of_items(result.items, result.rules)}{drawn} and {seeds}, "
    if result.same_examples:
        text += "both ways with the same examples, items and scorer."
    else:
        text += (
            "both ways with the same items and scorer. The examples are not always the same: those that do not fit "
            "into what the model reads are left out, of A each that is too long alone, of B as many as the prompt has "
            "no room for. Learnt and shown are how many were left for an item, in the mean."
        )
    if result.permutations > 1:
        text += f" B is the mean over {result.permutations} orders of the examples, or as many as there are."
    text += " Seconds are those of a seed, and memory is what tensors take at once."
    return f"{text} {SETTLED} This is not in the seconds."


def _examples(option: Option) -> str:
    """How many were learnt or shown, and the least of any item where that is fewer."""
    least = "" if option.fewest == option.examples else f" (at least {option.fewest:,})"
    return f"{option.examples:.3g}{least}"


def _draws(by_seed: Sequence[list[tuple[tuple[Item, ...], list[int]]]]) -> list[tuple[Item, ...]]:
    """The sets of examples that a schedule is settled on, those of the most items first; of examples that do not fit
    an empty one is left, which is the last."""
    counts: Counter[tuple[str, ...]] = Counter()
    shots: dict[tuple[str, ...], tuple[Item, ...]] = {}
    for groups in by_seed:
        for several, places in groups:
            key = tuple(one.id for one in several)
            shots[key] = several
            counts[key] += len(places)
    return [shots[key] for key in sorted(shots, key=lambda key: (not key, -counts[key]))]


def _evenly(items: Sequence[Item], number: int) -> list[Item]:
    return [items[place * len(items) // number] for place in range(number)]
