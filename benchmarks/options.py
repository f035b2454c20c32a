"""Fine-tuning or prompting: `python -m regard.benchmarks.options RUN --out benchmarks`.

The same k examples in three ways, on the same items with the same scorer: a trained model reads them in its prompt, a
copy of it learns them, and the same architecture with random weights learns them. RUN is a run that was trained on
in-context tasks. Accuracy, seconds of a seed and the memory of tensors stand beside each other.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from regard.benchmarks.report import machine, part_of, write_part
from regard.evaluation.few_shot.table import shown, with_spread
from regard.evaluation.few_shot.task import load_task
from regard.evaluation.generation import load_run
from regard.train.few_shot_options import Option, fine_tune_and_score
from regard.train.records import environment, write_json

PART = "options"  # of README.md
TASKS = ("swapping", "lookup", "word-classes")
SEED = 0  # of the random weights
WAYS = ("prompted", "fine-tuned", "from scratch")


def without_training(model: PreTrainedModel) -> PreTrainedModel:
    """The same architecture with weights that are drawn anew."""
    transformers.set_seed(SEED)
    return type(model)(model.config).eval().to(model.device)


def measure(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, tasks: list[str], **settings: Any
) -> list[dict[str, Any]]:
    """A record for each task and number of examples: what each of `WAYS` came to.

    Args:
        tasks: names of shipped tasks, or files.
        settings: as `fine_tune_and_score` takes them.
    """
    scratch, records = without_training(model), []
    for one in tasks:
        task = load_task(one)
        both, alone = (
            fine_tune_and_score(side, tokenizer, task, name=name, show=_say, **settings) for side in (model, scratch)
        )
        for point, other in zip(both.points, alone.points, strict=True):
            ways = zip(WAYS, (point.prompting, point.fine_tuning, other.fine_tuning), strict=True)
            records.append(
                {
                    "task": task.name,
                    "metric": task.metric,
                    "examples": point.shots,
                    **{way: asdict(option) for way, option in ways},
                    "schedules": {way: asdict(at.schedule) for way, at in zip(WAYS[1:], (point, other), strict=True)},
                }
            )
            _say(f"{task.name}, {point.shots}: " + ", ".join(f"{way} {records[-1][way]['values']}" for way in WAYS))
        records[-1] |= {"items": both.items, "rules": both.rules}
    return records


def table(record: dict[str, Any]) -> str:
    """The Markdown of a record."""
    measured = ["accuracy, 95 % over items", "seconds", "memory"]
    head = ["task", "examples", *(f"{way}: {what}" for way in WAYS for what in measured)]
    lines = [head, ["---", "---:", *["---:"] * (len(head) - 2)]]
    for row in record["rows"]:
        cells = [row["task"], str(row["examples"])]
        for way in WAYS:
            option = Option(**row[way])
            low, high = (shown(row["metric"], edge) for edge in option.interval)
            mean = with_spread(row["metric"], option.mean, None)
            cells += [f"{mean} ({low} to {high})", f"{option.seconds:,.3g}", f"{option.memory / 1e6:,.3g} MB"]
        lines.append(cells)
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    what = f"`{record['run']}` ({record['class']}, {record['weights']:,} weights), {record['items']} items a task"
    seeds = f"seeds {', '.join(map(str, record['seeds']))}"
    return f"{machine(record['environment'])}; {what}, {seeds}.\n\n{rows}\n\n```\n{record['command']}\n```"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", help="a run of the task in-context")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), help="shipped tasks with hidden rules")
    parser.add_argument("--shots", nargs="+", type=int, default=[1, 4, 8], help="numbers of examples")
    parser.add_argument("--seeds", type=int, default=3, help="how many draw the examples")
    parser.add_argument("--items", type=int, default=50, help="questions of a task")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder of results/ and README.md")
    options = parser.parse_args(arguments)
    logging.disable_progress_bar()
    settings = {"shots": options.shots, "seeds": options.seeds, "items": options.items}
    try:
        part_of(options.out / "README.md", PART)  # before the work
        model, tokenizer = load_run(options.run)
        name = Path(options.run).resolve().name
        rows = measure(model, tokenizer, name, options.tasks, **settings)
    except ValueError as error:
        parser.error(str(error))
    chosen = [("--tasks", options.tasks), ("--shots", options.shots)]
    chosen += [("--seeds", [options.seeds]), ("--items", [options.items])]
    given = " ".join([options.run, *(f"{name} {' '.join(map(str, values))}" for name, values in chosen)])
    record = {
        "run": name,
        "class": type(model).__name__,
        "weights": model.num_parameters(),
        "items": options.items,
        "seeds": list(range(options.seeds)),
        "rows": rows,
        "command": f"python -m regard.benchmarks.options {given}",
        "environment": environment(),
    }
    write_json(options.out / "results" / "options.json", record)
    write_part(options.out / "README.md", PART, table(record))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
