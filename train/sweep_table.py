"""What a sweep found: means and deviations over the seeds, as records and as Markdown."""

import json
import math
import shlex
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from regard.evaluation.directions import LOWER_IS_BETTER
from regard.train.sweep_values import SEED, as_json, shown

SPLIT, TEST = "validation", "test"
TIMES = ("seconds", "evaluation_seconds")


def settings_of(records: Sequence[dict[str, Any]], metric: str) -> list[dict[str, Any]]:
    """For each setting its measures over the seeds, on the validation split and, under "test", on each test set."""
    groups: dict[str, list[dict]] = {}
    for record in records:
        groups.setdefault(as_json(record["values"]), []).append(record)
    settings = []
    for group in groups.values():
        whole = [record for record in group if SPLIT in record]
        setting = {
            "values": group[0]["values"],
            "seeds": [record["seed"] for record in whole],
            "diverged": [record["seed"] for record in group if SPLIT not in record],
            **_over_seeds([record[SPLIT] for record in whole]),
        }
        if tests := dict.fromkeys(name for record in whole for name in record if _is_test(name)):
            setting[TEST] = {name: _over_seeds([record[name] for record in whole]) for name in tests}
        if whole:
            setting["parameters"] = whole[0]["parameters"]
        for name in ("examples", *TIMES):
            if numbers := [record[name] for record in whole if record.get(name) is not None]:
                setting[name] = statistics.fmean(numbers)
        settings.append(setting)
    # A setting that diverges with one seed is not to be chosen for the luck of the others.
    whole = [setting for setting in settings if metric in setting["mean"] and not setting["diverged"]]
    scores = [setting["mean"][metric] for setting in whole if not math.isnan(setting["mean"][metric])]
    best = (min if metric in LOWER_IS_BETTER else max)(scores, default=None)
    for setting in settings:
        setting["best"] = setting in whole and setting["mean"][metric] == best
    return settings


def _is_test(name: str) -> bool:
    return name == TEST or name.startswith(f"{TEST}:")


def _over_seeds(measures: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each measure's mean, its sample standard deviation (over n - 1) where there are several finite values, and the
    values themselves, in the order of the seeds."""
    first, *others = measures or [{}]
    # A loss that was no number is null in the record of its run: without all seeds there is no mean.
    names = [name for name in first if all(isinstance(one.get(name), int | float) for one in (first, *others))]
    columns = {name: [one[name] for one in measures] for name in names}
    return {
        "mean": {name: statistics.fmean(column) for name, column in columns.items()},
        "deviation": {
            name: statistics.stdev(column)
            for name, column in columns.items()
            if len(column) > 1 and all(map(math.isfinite, column))
        },
        "each": columns,
    }


# --- Markdown --------------------------------------------------------------------------------------------------------


def table(result: Mapping[str, Any]) -> str:
    """The Markdown of a sweep: a line for each setting, the test sets' figures, and those of each seed."""
    settings, metric = result["settings"], result["metric"]
    tests = list(dict.fromkeys(name for setting in settings for name in setting.get(TEST, {})))
    several = max((len(setting["seeds"]) for setting in settings), default=0) > 1
    done, better = len(result["cells"]), "lower" if metric in LOWER_IS_BETTER else "higher"
    if tests:
        read = "Measured on the validation split and, as nothing is chosen here, on the test sets."
    else:
        read = "Measured on the validation split; no test set was read."
    best = f" The best {metric} ({better} is better) is bold." if len(settings) > 1 else ""
    spread = " ± is the standard deviation over the seeds." if several else ""
    text = [
        f"# Sweep of {result['name']}\n",
        f"{read}{best}{spread}",
        f"{done} of {result['cells_planned']} cells are done.\n" if done < result["cells_planned"] else "",
        _main_table(result),
        *(f"\nOn {name}:\n\n{_test_table(result, name)}" for name in tests),
        *([f"\n{_each_seed(result)}"] if several else []),
        f"\n```\n{result['command']}\n```\n",
    ]
    return "\n".join(text)


def _main_table(result: Mapping[str, Any]) -> str:
    settings, metric = result["settings"], result["metric"]
    measures = _measures(result, [setting["mean"] for setting in settings])
    timed = any("evaluation_seconds" in setting for setting in settings)
    numbers = {"parameters": ",", "seconds": ",.1f"} | ({"evaluation_seconds": ",.1f"} if timed else {})
    names, rows = _names(result), []
    for setting in settings:
        line = _name(result, setting)
        for name in measures:
            text = with_deviation(setting["mean"].get(name), setting["deviation"].get(name))
            line.append(f"**{text}**" if name == metric and setting["best"] and len(settings) > 1 else text)
        line += [format(setting[name], form) if name in setting else "" for name, form in numbers.items()]
        diverged = setting["diverged"]
        rows.append([*line, f"{len(setting['seeds'])}" + (f", {len(diverged)} diverged" if diverged else "")])
    about = ["parameters", "seconds of training", *(["of evaluation"] if timed else []), "seeds"]
    return _markdown([*names, *measures, *about], rows, len(names))


def _test_table(result: Mapping[str, Any], split: str) -> str:
    found = [setting.get(TEST, {}).get(split, {"mean": {}, "deviation": {}}) for setting in result["settings"]]
    measures, names = _measures(result, [one["mean"] for one in found]), _names(result)
    rows = [
        [*_name(result, setting), *(with_deviation(one["mean"].get(m), one["deviation"].get(m)) for m in measures)]
        for setting, one in zip(result["settings"], found, strict=True)
    ]
    return _markdown([*names, *measures], rows, len(names))


def _each_seed(result: Mapping[str, Any]) -> str:
    """Of one setting all measures, of several that which decides."""
    settings, metric = result["settings"], result["metric"]
    seeds, names = result["seeds"], _names(result)
    chosen = [metric] if names else _measures(result, [settings[0]["mean"]])
    splits = list(dict.fromkeys([SPLIT, *(name for setting in settings for name in setting.get(TEST, {}))]))
    rows = []
    for setting in settings:
        for split in splits:
            each = setting["each"] if split == SPLIT else setting.get(TEST, {}).get(split, {}).get("each", {})
            for name in chosen:
                of_seed = dict(zip(setting["seeds"], each[name], strict=True)) if name in each else {}
                line = [*_name(result, setting), *([split] if len(splits) > 1 else []), *([] if names else [name])]
                rows.append([*line, *(_number(of_seed[seed], 4) if seed in of_seed else "" for seed in seeds)])
    head = [*names, *(["split"] if len(splits) > 1 else []), *([] if names else ["measure"])]
    title = f"{metric} of each seed:" if names else "Each seed:"
    return f"{title}\n\n{_markdown([*head, *(f'seed {seed}' for seed in seeds)], rows, len(head))}"


def _measures(result: Mapping[str, Any], means: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of the measures, the one that decides first."""
    return sorted(dict.fromkeys(name for one in means for name in one), key=lambda name: name != result["metric"])


def _names(result: Mapping[str, Any]) -> list[str]:
    """The columns that tell the settings apart."""
    return ["changed"] if result["one_at_a_time"] else list(result["values"])


def _name(result: Mapping[str, Any], setting: Mapping[str, Any]) -> list[str]:
    values = setting["values"]
    if result["one_at_a_time"]:
        line = [", ".join(f"{key}={shown(value)}" for key, value in values.items()) or "nothing"]
    else:
        line = [shown(values[key]) for key in result["values"]]
    return [text.replace("|", "\\|") for text in line]


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]], names: int) -> str:
    """The columns after the first `names` hold numbers."""
    lines = [head, ["---"] * names + ["---:"] * (len(head) - names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_deviation(mean: float | None, deviation: float | None) -> str:
    """`41.23 ± 0.12`; what is None is left out."""
    if mean is None:
        return ""
    return _number(mean, 4) + ("" if deviation is None else f" ± {_number(deviation, 2)}")


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}g}" if abs(value) < 10**digits - 0.5 else f"{value:,.0f}"  # never 3.8e+03


def command(
    recipe: Any,
    overrides: Sequence[str],
    values: Mapping[str, list[Any]],
    seeds: Sequence[int],
    metric: str,
    **more: Any,
) -> str:
    """The call that makes a sweep; `more` are further options by their names, of which those that are false or None
    were not given."""
    words = ["regard", "sweep", str(recipe), *overrides]
    if len(seeds) == 1 and not any(text.partition("=")[0].strip() == SEED for text in overrides):
        words.append(f"{SEED}={seeds[0]}")
    for key, several in values.items():
        words += ["--values", f"{key}={','.join(json.dumps(value, ensure_ascii=False) for value in several)}"]
    words += ["--seeds", ",".join(map(str, seeds))] if len(seeds) > 1 else []
    for name, value in more.items():
        if value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join([*words, "--metric", metric])
