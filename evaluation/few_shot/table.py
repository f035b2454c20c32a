"""A few-shot result as Markdown: a row for each number of shots, how it was counted, and what there is by group."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from regard.evaluation.few_shot.measures import SHARES
from regard.evaluation.few_shot.result import FewShotResult, Point

NAMES = {
    "accuracy": "accuracy",
    "greedy": "greedy accuracy",
    "exact_match": "exact match",
    "f1": "F1 (macro)",
    "f1_binary": "F1 (second label)",
    "matthews_correlation": "Matthews correlation",
    "bleu": "BLEU",
    "squad_exact_match": "exact match (SQuAD)",
    "squad_f1": "F1 (SQuAD)",
}
INTERVALS = {
    "wilson": "The interval is Wilson's over the items{seeds}.",
    "bootstrap": "The interval is the bootstrap's over the items.",
}


def table(result: FewShotResult) -> str:
    """The Markdown of a result."""
    parts = [f"# {result.task}, {result.model}", how(result), point_table(result), *notes(result)]
    groups = group_table(result)
    return "\n\n".join([*parts, *([groups] if groups else [])]) + "\n"


def how(result: FewShotResult) -> str:
    """How the task was asked, in a sentence or two."""
    settings, shown = result.settings, max(result.settings["shots"]) > 0
    drawn = "" if result.drawn_from is None else f", drawn at random from {result.drawn_from:,}"
    name = NAMES[result.metric]
    text = f"{name[0].upper()}{name[1:]} over {number_of_items(result.items, result.rules)}{drawn}"
    if shown:
        how_drawn = ", balanced by label," if settings["balanced"] else ""
        text += f"; the shots are drawn{how_drawn} by {so_many(len(settings['seeds']), 'seed')}"
    if result.measures_choices and result.metric != "greedy":
        rule = settings["normalisation"]
        text += f"; normalisation of choices: {rule}{', calibrated' if settings['calibrate'] else ''}"
    return f"{text}."


def number_of_items(items: int, rules: int | None) -> str:
    """So many items, and under how many rules where some share one."""
    return so_many(items, "item") + ("" if rules is None else f" under {so_many(rules, 'rule')}")


def so_many(number: int, noun: str) -> str:
    """So many of a thing: 1 shot, 2 shots."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def point_table(result: FewShotResult) -> str:
    """A row for each number of shots, with a column for each learner that stands beside."""
    points, metric = result.points, result.metric
    columns = {"shots": [f"{point.shots:,}" for point in points]}
    columns[NAMES[metric]] = [shown(metric, point.mean) for point in points]
    if any(point.deviation is not None for point in points):
        columns["± over seeds"] = [spread(metric, point.deviation) for point in points]
    columns["95 % over items"] = [f"{shown(metric, p.interval[0])} to {shown(metric, p.interval[1])}" for p in points]
    if any(point.order_deviation is not None for point in points):
        columns["± over orders"] = [spread(metric, point.order_deviation) for point in points]
        columns["lowest to highest order"] = [_range(metric, point) for point in points]
    if any(point.perplexity is not None for point in points):
        columns["perplexity"] = [large(point.perplexity) for point in points]
    for curve in result.beside:
        known = dict(zip(curve.numbers, zip(curve.means(), curve.deviations(), strict=True), strict=True))
        columns[curve.name] = [with_spread(metric, *known[p.shots]) if p.shots in known else "" for p in points]
    return _markdown(list(columns), zip(*columns.values(), strict=True))


def group_table(result: FewShotResult) -> str:
    """A row for each group of items; empty without several."""
    names = list(result.points[0].groups)
    if len(names) < 2:
        return ""
    head = ["group", "items", *(so_many(p.shots, "shot") for p in result.points), "95 %", "chance"]
    rows = []
    for name in names:
        groups = [point.groups[name] for point in result.points]
        low, high = groups[-1].interval
        chance = "" if groups[0].chance is None else shown(result.metric, groups[0].chance)
        means = [shown(result.metric, group.mean) for group in groups]
        interval = f"{shown(result.metric, low)} to {shown(result.metric, high)}"
        rows.append([name.replace("|", "\\|"), f"{groups[0].items:,}", *means, interval, chance])
    if len(result.points) > 1:
        head[-2] = f"95 % at {so_many(result.points[-1].shots, 'shot')}"
    return _markdown(head, rows)


def notes(result: FewShotResult) -> list[str]:
    """What has to be known beside the figures: chance, the interval, and what did not go as asked."""
    several = any(point.deviation is not None for point in result.points)
    found = [] if result.chance is None else [f"Chance is {shown(result.metric, result.chance)}."]
    if result.metric == "greedy":  # no choices, any text may be written
        found.append("Chance is next to nothing: no choices are given.")
    found += majority_note(result)
    found.append(INTERVALS[result.interval_kind].format(seeds=", which more seeds do not narrow" if several else ""))
    found += rules_note(result)
    if several:
        found.append("± over seeds is the sample standard deviation of what other shots give.")
    return [" ".join(found), *counts(result)]


def majority_note(result: FewShotResult) -> list[str]:
    """What the most frequent label alone gives, where it is more than chance says."""
    if result.majority is None or result.metric != "accuracy":
        return []
    return [f"Always the most frequent label: {shown(result.metric, result.majority)}."]


def rules_note(result: FewShotResult) -> list[str]:
    """What items that share a rule do to the interval."""
    if result.rules is None:
        return []
    return ["Items under one rule count for less in the interval where they are right or wrong together."]


def counts(result: FewShotResult) -> list[str]:
    """How many prompts were cut, not balanced or tied, a sentence each."""
    lines = []
    for point in result.points:
        shots, prompts = so_many(point.shots, "shot"), so_many(point.prompts, "prompt")
        if point.cut:
            left = f"{so_many(point.dropped, 'shot')} {'was' if point.dropped == 1 else 'were'} left out"
            mean = f"{_mean_shots(point):.3g}"
            least = "" if point.fewest is None else f" (at least {point.fewest:,})"
            lines.append(
                f"At {shots} {point.cut:,} of {prompts} had no room for all: {left}, and {mean} "
                f"{'was' if mean == '1' else 'were'} shown in the mean{least}."
            )
        if point.unbalanced:
            unbalanced = so_many(point.unbalanced, "prompt")
            lines.append(
                f"At {shots} the labels of {unbalanced} are not balanced: the pool has too few examples of some."
            )
        if point.ties:
            lines.append(
                f"At {shots} {point.ties:,} of {prompts} {'has' if point.ties == 1 else 'have'} several best choices, "
                "of which one was drawn."
            )
    return lines


def shown(metric: str, value: float) -> str:
    """A value of a metric: a share in per cent."""
    if metric in SHARES:
        return f"{value:.1%}"
    return f"{value:.1f}" if metric in ("bleu", "squad_exact_match", "squad_f1") else f"{value:.3f}"


def large(number: float | None) -> str:
    """Four digits, or a whole number where it has more; empty where there is none."""
    if number is None:
        return ""
    return f"{number:.4g}" if number < 10_000 else f"{number:,.0f}"


def spread(metric: str, deviation: float | None) -> str:
    """A deviation in the metric's unit; empty where there is none, as of one seed: None, or NaN in an array."""
    return "" if deviation is None or math.isnan(deviation) else shown(metric, deviation).removesuffix("%")


def with_spread(metric: str, mean: float, deviation: float | None) -> str:
    """A mean with its deviation over the seeds, where it has one."""
    deviates = spread(metric, deviation)
    return shown(metric, mean) + (f" ± {deviates}" if deviates else "")


def _range(metric: str, point: Point) -> str:
    """Of all orders of all seeds."""
    if point.order_deviation is None:
        return ""
    values = np.array(point.values)
    return f"{shown(metric, values.min())} to {shown(metric, values.max())}"


def _mean_shots(point: Point) -> float:
    return point.shots - point.dropped / point.prompts


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---:" if number else "---" for number in range(len(head))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
