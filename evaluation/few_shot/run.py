"""Zero-, one- and few-shot prompting of a model: `few_shot` asks every item with every number of shots and every seed.

No weight is changed: the examples stand in the prompt (Brown et al., 2020, "Language Models are Few-Shot Learners").
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.evaluation.few_shot.asking import (
    Reader,
    Records,
    chosen,
    measures_unconditional,
    unconditional_scores,
    written,
)
from regard.evaluation.few_shot.items import Item
from regard.evaluation.few_shot.joining import Request
from regard.evaluation.few_shot.prompts import ModelRoom, build
from regard.evaluation.few_shot.result import FewShotResult, collect
from regard.evaluation.few_shot.rows import check_limit, limited, load_items, source_of
from regard.evaluation.few_shot.rules import check_normalisation
from regard.evaluation.few_shot.scoring import Score, score
from regard.evaluation.few_shot.shots import Drawn, Pool, orders
from regard.evaluation.few_shot.task import Task, load_task
from regard.evaluation.few_shot.templates import Texts
from regard.evaluation.few_shot.unknown import unknown_tokens
from regard.evaluation.few_shot.writing import write

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Show = Callable[[str], Any]
PATIENCE = 20  # seconds without a word


class ModelReader:
    """A model with its tokenizer as a `Reader`."""

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        task: Task,
        batch_size: int,
        show: Show | None = None,
    ):
        self.model, self.tokenizer, self.batch_size = model, tokenizer, batch_size
        self.show = _now_and_then(show)
        self.generation = task.generation
        self.room = ModelRoom(model, tokenizer, task.generation.max_new_tokens if task.generation else 0)

    def score(self, requests: Sequence[Request]) -> list[Score]:
        return score(self.model, self.tokenizer, requests, batch_size=self.batch_size, show=self.show)

    def write(self, prompts: Sequence[str]) -> list[str]:
        settings = {"stop": self.generation.stop, "max_new_tokens": self.generation.max_new_tokens}
        return write(self.model, self.tokenizer, prompts, batch_size=self.batch_size, show=self.show, **settings)


@dataclass(frozen=True)
class Settings:
    """How a task is asked; `few_shot` tells what each of them is."""

    shots: tuple[int, ...]
    seeds: tuple[int, ...]
    balanced: bool
    normalisation: str
    calibrate: bool
    permutations: int


def few_shot(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    task: Task | str | Path,
    *,
    shots: Sequence[int] | None = None,
    seeds: int | Sequence[int] = 5,
    balanced: bool | None = None,
    normalisation: str = "none",
    calibrate: bool = False,
    permutations: int = 1,
    limit: int | None = None,
    batch_size: int = 32,
    name: str | None = None,
    data: tuple[Sequence[Item], Sequence[Item]] | None = None,
    show: Show | None = None,
) -> FewShotResult:
    """How well a model does a task that it is shown in its prompt.

    Args:
        model: a causal language model or an encoder-decoder.
        task: a task, a shipped task's name or a YAML file.
        shots: numbers of examples, by default 0, 1, 2 and 4, and 0 alone of a task without a prompt; 0 is asked once,
            whatever the seeds.
        seeds: how many, from 0 on, or which; each draws other examples.
        balanced: show every label as often as the others, give or take one; by default where the task has labels.
        normalisation: how choices of different length are compared, one of `rules.NORMALISATIONS`.
        calibrate: divide by the probability that a choice has after "N/A" in the place of the question.
        permutations: in how many orders the shots of a seed are shown, at most as many as there are.
        limit: so many items, drawn at random but always the same ones.
        batch_size: a matter of speed.
        name: of the model in the result; by default its own name or path without folders.
        data: all items and the pool of shots, where they are loaded already (`rows.load_items`).
        show: called with a line about each step.

    Raises:
        ValueError: a setting, a task or data that cannot work, more shots than the pool has, or an item that the model
            has no room for.
    """
    task = task if isinstance(task, Task) else load_task(task)
    settings = settings_of(task, shots, seeds, balanced, normalisation, calibrate, permutations)
    check_limit(limit)  # before data are loaded, which may take long
    every, pool = load_items(task) if data is None else data
    items = limited(every, limit)
    unknown = unknown_tokens(model, tokenizer, Texts(task), items)
    records = ask(task, items, pool, settings, ModelReader(model, tokenizer, task, batch_size, show), show)
    counts = {item.id: count for item, count in zip(items, unknown, strict=True)}
    records = [record | {"unknown": counts[record["item"]]} for record in records]
    about = {
        "model": name or (str(model.config._name_or_path).rstrip("/").rpartition("/")[2] or type(model).__name__),
        "architecture": type(model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "data": source_of(task.data),
        "limit": limit,
        "drawn_from": len(every) if len(items) < len(every) else None,
        "source": task.source,
        "overrides": task.overrides,
    }
    return collect(task, items, settings, records, about)


def ask(
    task: Task,
    items: Sequence[Item],
    pool: Sequence[Item],
    settings: Settings,
    reader: Reader,
    show: Show | None = None,
) -> Records:
    """Asks all items with all numbers of shots, seeds and orders.

    Returns:
        One record a prompt, as `FewShotResult.records` holds them.
    """
    show = show or (lambda line: None)
    texts = Texts(task)
    drawn = draw(texts, items, pool, settings)
    unconditional = unconditional_scores(texts, items, settings.normalisation, reader)
    records: Records = []
    steps = [
        (number, seed, place, order)
        for number, seed in drawn
        for place, order in enumerate(orders(number, settings.permutations, seed or 0))
    ]
    for step, (number, seed, place, order) in enumerate(steps, 1):
        show(f"{_what(number, seed, place, settings)} ({step} of {len(steps)})")
        several = drawn[number, seed]
        prompts = [
            build(texts, item, [one.shots[shot] for shot in order], reader.room, settings.calibrate)
            for item, one in zip(items, several, strict=True)
        ]
        if task.writes:
            answered = written(items, prompts, reader)
        else:
            answered = chosen(texts, items, prompts, settings.normalisation, settings.calibrate, unconditional, reader)
        asked = {"shots": number, "seed": seed, "order": place if number else None}
        for item, one, prompt, answer in zip(items, several, prompts, answered, strict=True):
            shown = {"shown": [shot.id for shot in prompt.shots], "dropped": prompt.dropped}
            about = {"item": item.id, "group": item.group, "balanced": one.balanced}
            records.append(asked | about | shown | answer)
    return records


def settings_of(
    task: Task,
    shots: Sequence[int] | None = None,
    seeds: int | Sequence[int] = 5,
    balanced: bool | None = None,
    normalisation: str = "none",
    calibrate: bool = False,
    permutations: int = 1,
) -> Settings:
    """The settings of `few_shot` for a task, checked.

    Raises:
        ValueError: one that cannot work, with the task.
    """
    if isinstance(seeds, int) and seeds < 1:
        raise ValueError(f"seeds={seeds} says how many and must be at least 1; the seed {seeds} alone is [{seeds}].")
    seeds = range(seeds) if isinstance(seeds, int) else seeds
    if shots is None:
        shots = (0, 1, 2, 4) if task.takes_shots else (0,)
    if not shots or min(shots) < 0:
        raise ValueError(f"shots={list(shots)} must be numbers of examples, 0 or more.")
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds={list(seeds)} must be at least one, and no seed twice.")
    if permutations < 1:
        raise ValueError(f"permutations={permutations} must be at least 1.")
    if not task.takes_shots and max(shots) > 0:
        raise ValueError(
            f"The task '{task.name}' compares whole texts without a prompt, so shots={max(shots)} cannot be: 0 is "
            "what it takes."
        )
    if balanced and not task.labels:
        raise ValueError(f"balanced: the task '{task.name}' has no labels (choices.labels) to show equally often.")
    check_normalisation(normalisation)
    if task.writes and normalisation != "none":
        raise ValueError(
            f"normalisation: in the task '{task.name}' the model writes, and there is nothing to compare."
        )
    if normalisation == "unconditional" and not measures_unconditional(task):
        raise ValueError(
            f"normalisation: in the task '{task.name}' the options do not differ in what is scored after a question, "
            "so 'unconditional' says nothing: it must be none, token, character or byte."
        )
    if calibrate and (task.writes or task.is_partial or not task.takes_shots or task.metric == "greedy"):
        raise ValueError(
            f"calibrate: the task '{task.name}' does not choose among answers to a question, whose content could be "
            "taken out."
        )
    numbers = tuple(dict.fromkeys(sorted(shots)))
    return Settings(
        numbers,
        tuple(seeds),
        bool(task.labels) if balanced is None else balanced,
        normalisation,
        calibrate,
        permutations,
    )


def draw(
    texts: Texts, items: Sequence[Item], pool: Sequence[Item], settings: Settings
) -> dict[tuple[int, int | None], list[Drawn]]:
    """The shots of every item by number of shots and seed: all of them before the first is asked, so that what cannot
    be drawn is known at once."""
    how = {"balanced": settings.balanced, "labels": len(texts.task.labels or ())}
    shared = Pool(pool, texts.asked, **how)
    own = {item.id: Pool(item.pool, texts.asked, **how) for item in items if item.pool is not None}
    drawn: dict[tuple[int, int | None], list[Drawn]] = {}
    for number in settings.shots:
        for seed in settings.seeds if number else (None,):
            drawn[number, seed] = [
                own[item.id].draw(item, number, seed or 0, item.id)
                if item.id in own
                else shared.draw(item, number, seed or 0)
                for item in items
            ]
    return drawn


def _now_and_then(show: Show | None) -> Callable[[int, int], Any] | None:
    """How far a long step is, every `PATIENCE` seconds."""
    if show is None:
        return None
    last = time.monotonic()

    def tell(done: int, every: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PATIENCE:
            last = time.monotonic()
            show(f"  {done:,} of {every:,}")

    return tell


def _what(number: int, seed: int | None, place: int, settings: Settings) -> str:
    if seed is None:
        return "0 shots"
    order = f", order {place + 1}" if settings.permutations > 1 else ""
    return f"{number} shot{'s' if number > 1 else ''}, seed {seed}{order}"
