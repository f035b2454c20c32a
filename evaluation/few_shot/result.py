"""What few-shot prompting came to: one point for each number of shots, and every prompt with its answer."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import regard
from regard.evaluation.few_shot.items import rules_of
from regard.evaluation.few_shot.measures import SHARES, clusters_of, interval, statistics, value
from regard.evaluation.few_shot.task_checks import CHOICE_METRICS
from regard.evaluation.files import json_line, json_text, replacing
from regard.evaluation.learning_curves import LearningCurve

if TYPE_CHECKING:
    from regard.evaluation.few_shot.items import Item
    from regard.evaluation.few_shot.run import Settings
    from regard.evaluation.few_shot.task import Task

FORMAT = "regard-few-shot-1"
RECORDS = '  "records": ['  # begins the last line of the summary


@dataclass(frozen=True)
class Group:
    """The items of one group, as `Point` counts all."""

    items: int
    mean: float
    interval: tuple[float, float]
    chance: float | None


@dataclass(frozen=True)
class Point:
    """How well a number of shots does.

    Attributes:
        shots: how many were to be shown.
        mean: the metric, over all seeds and orders.
        deviation: of the seeds, each the mean over its orders (sample standard deviation, over n - 1); None for one.
        interval: at 95 % over the items, as `measures.interval` takes it.
        values: the metric by seed and order, (seeds, orders).
        order_deviation: of the orders of the same shots, the mean over the seeds; None for one order.
        cut: prompts that had no room for all shots.
        dropped: shots that were left out of them, in all.
        ties: prompts with several best choices, of which one was drawn.
        unbalanced: prompts whose labels could not be shown equally often, though they were to be.
        groups: by the items' group.
        perplexity: of the right completions, for the metric `greedy`: e to the mean negative log-probability.
        fewest: the least shots that a prompt shows; None in results from before this was counted.
    """

    shots: int
    mean: float
    deviation: float | None
    interval: tuple[float, float]
    values: list[list[float]]
    order_deviation: float | None
    prompts: int
    cut: int
    dropped: int
    ties: int
    unbalanced: int
    groups: dict[str, Group] = field(default_factory=dict)
    perplexity: float | None = None
    fewest: int | None = None

    @property
    def by_seed(self) -> list[float]:
        """The metric of each seed, the mean over its orders."""
        return [float(np.mean(several)) for several in self.values]


@dataclass(frozen=True)
class FewShotResult:
    """A task's result.

    Attributes:
        settings: how it was asked, as `run.few_shot` takes it: `shots`, `seeds`, `balanced`, `normalisation`,
            `calibrate`, `permutations`.
        interval_kind: Wilson's, or that of the bootstrap.
        chance: the metric of guessing; None where there is none.
        majority: the share of the most frequent label among the items; None without labels.
        records: one a prompt: `shots`, `seed`, `order`, `item`, `group`, `balanced`, `shown` (the ids of the shots),
            `dropped`, `prompt`, `prediction`, `correct` and `unknown` (tokens of the item that the vocabulary lacks).
            Of choices also `answer`, `tied` (whether several were the best) and `choices`, each with `text`,
            `log_probability`, `tokens`, `characters`, `bytes`, `greedy`, `value` (by the normalisation), where they
            were measured `unconditional` and `content_free`, and where it has one of its own `prompt`. Of free texts
            also `references`. Empty where the summary alone was kept.
        beside: other learners by the number of examples, such as fine-tuning on the same ones.
        source: the task as it was named, a shipped one's name or a file.
        overrides: of its keys.
        drawn_from: how many items there were, where the limit left some out; None where all were asked.
        rules: how many hidden rules the items follow, where some share one; None where each stands alone.
    """

    task: str
    metric: str
    model: str
    architecture: str
    parameters: int
    data: dict[str, Any]
    items: int
    limit: int | None
    settings: dict[str, Any]
    interval_kind: str
    chance: float | None
    majority: float | None
    points: list[Point]
    records: list[dict[str, Any]] = field(default_factory=list)
    beside: list[LearningCurve] = field(default_factory=list)
    source: str = ""
    overrides: dict[str, str] = field(default_factory=dict)
    version: str = regard.__version__
    drawn_from: int | None = None
    rules: int | None = None

    def point(self, shots: int) -> Point:
        """Raises ValueError where so many shots were not shown."""
        for point in self.points:
            if point.shots == shots:
                return point
        raise ValueError(f"shots={shots} were not shown, but {', '.join(str(one.shots) for one in self.points)}.")

    @property
    def measures_choices(self) -> bool:
        """Whether the model chose, and did not write."""
        return self.metric in CHOICE_METRICS

    def summary(self) -> dict[str, Any]:
        """All but the records, as JSON has it."""
        content = {"format": FORMAT} | asdict(replace(self, records=[]))
        content.pop("records")
        return content

    def save(self, path: str | Path) -> Path:
        """Writes all of it as JSON, a record a line; the file is complete or not there."""
        head = json_text(self.summary()).rstrip().removesuffix("}").rstrip()
        with replacing(path) as partial, open(partial, "w", encoding="utf-8") as file:
            file.write(f"{head},\n{RECORDS}")
            for number, record in enumerate(self.records):
                file.write(f"{',' if number else ''}\n    {json_line(record)}")
            file.write("\n  ]\n}\n")
        return Path(path)


def read_result(path: str | Path, records: bool = True) -> FewShotResult:
    """What `FewShotResult.save` wrote.

    Args:
        records: whether the records are read; without them, a file with all prompts is as quickly read as a small one.

    Raises:
        ValueError: it is no such file.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8") if records else _head(path))
        content.update({} if records else {"records": []})
        if content.pop("format") != FORMAT:
            raise ValueError("it has another format")
        points = []
        for point in content.pop("points"):
            groups = {
                name: Group(**group | {"interval": tuple(group["interval"])})
                for name, group in point["groups"].items()
            }
            points.append(Point(**point | {"groups": groups, "interval": tuple(point["interval"])}))
        beside = [LearningCurve(**curve) for curve in content.pop("beside")]
        return FewShotResult(points=points, beside=beside, **content)
    except FileNotFoundError as error:
        raise ValueError(f"There is no few-shot result '{path}'.") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"'{path}' is no result that `regard few-shot` wrote ({error}).") from error


def _head(path: str | Path) -> str:
    """The text of a file without its records, which `save` writes last and on lines of their own."""
    lines: list[str] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith(RECORDS):
                return "".join(lines).rstrip().removesuffix(",") + "}"
            lines.append(line)
    return "".join(lines)


def collect(
    task: "Task",
    items: "Sequence[Item]",
    settings: "Settings",
    records: list[dict[str, Any]],
    about: Mapping[str, Any],
) -> FewShotResult:
    """The result of records.

    Args:
        items: that were asked; the records hold them in this order, again and again.
        about: `model`, `architecture`, `parameters`, `data`, `limit` and `drawn_from` of the result, `source` and
            `overrides`.
    """
    points = []
    for number in settings.shots:
        some = [record for record in records if record["shots"] == number]
        runs = [some[start : start + len(items)] for start in range(0, len(some), len(items))]
        points.append(_point(task, items, number, runs))
    majority = None
    if task.labels:
        answers = [item.answer for item in items]
        majority = max(map(answers.count, set(answers))) / len(answers)
    return FewShotResult(
        task=task.name,
        metric=task.metric,
        items=len(items),
        settings=asdict(settings) | {"shots": list(settings.shots), "seeds": list(settings.seeds)},
        interval_kind="wilson" if task.metric in SHARES else "bootstrap",
        chance=_chance(task, items),
        majority=majority,
        points=points,
        records=records,
        rules=rules_of(items),
        **about,
    )


def _point(task: "Task", items: "Sequence[Item]", number: int, runs: list[list[dict[str, Any]]]) -> Point:
    """Args: runs: the records of each seed and order, seeds first."""
    tables = [statistics(task, run) for run in runs]
    measured = [value(task.metric, table.sum(0)) for table in tables]
    per_seed = len({run[0]["order"] for run in runs})
    several = [measured[start : start + per_seed] for start in range(0, len(measured), per_seed)]
    by_seed = [float(np.mean(one)) for one in several]
    prompts = [record for run in runs for record in run]
    groups = {}
    for name in dict.fromkeys(item.group for item in items if item.group is not None):
        where = [place for place, item in enumerate(items) if item.group == name]
        parts, some = [table[where] for table in tables], [items[place] for place in where]
        mean = float(np.mean([value(task.metric, part.sum(0)) for part in parts]))
        groups[name] = Group(len(some), mean, interval(task.metric, parts, clusters_of(some)), _chance(task, some))
    return Point(
        shots=number,
        mean=float(np.mean(by_seed)),
        deviation=float(np.std(by_seed, ddof=1)) if len(by_seed) > 1 else None,
        interval=interval(task.metric, tables, clusters_of(items)),
        values=several,
        order_deviation=float(np.mean([np.std(one, ddof=1) for one in several])) if per_seed > 1 else None,
        prompts=len(prompts),
        cut=sum(record["dropped"] > 0 for record in prompts),
        dropped=sum(record["dropped"] for record in prompts),
        ties=sum(record.get("tied", False) for record in prompts),
        unbalanced=sum(not record["balanced"] for record in prompts),
        groups=groups,
        perplexity=_perplexity(prompts) if task.metric == "greedy" else None,
        fewest=min(number - record["dropped"] for record in prompts),
    )


def _chance(task: "Task", items: "Sequence[Item]") -> float | None:
    """The metric of taking any choice with the same probability."""
    if task.metric == "accuracy":
        return sum(1 / len(item.choices) for item in items) / len(items)
    return 0.0 if task.metric == "matthews_correlation" else None


def _perplexity(prompts: Sequence[Mapping[str, Any]]) -> float:
    found = [record["choices"][record["answer"]]["log_probability"] for record in prompts]
    mean = -math.fsum(found) / len(found)
    return math.exp(mean) if mean < 700 else math.inf
