"""Few-shot scoring beside lm-eval: `python -m regard.benchmarks.few_shot MODEL FILE --out benchmarks`.

Both score the choices of the same multiple-choice items after the same prompts, with the same model, from the texts to
the log-probabilities, in turn in one process. FILE is JSONL with `question`, `choices` and `answer` (the place of the
right one); shots come from its first items. Once all items have the same shots, and once each has shots of its own,
so that the query alone is shared by its choices. Ratios of time are taken within each round; their median is shown.
"""

import argparse
import json
import random
import statistics
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from regard.benchmarks.report import machine, part_of, write_part
from regard.benchmarks.training_speed import CLOCKS
from regard.evaluation.few_shot.scoring import Request, score
from regard.evaluation.generation import load_run
from regard.train.records import environment, write_json

PART = "few-shot"  # of README.md
TARGET = 2.0  # the least ratio where the items have the same shots
TOLERANCE = 1e-4  # of a log-probability
SAME, OWN = "the same for all", "each item's own"

Item = dict[str, Any]


def prompt_of(item: Item, answered: bool = False) -> str:
    end = f" {item['choices'][item['answer']]}\n\n" if answered else ""
    return f"Question: {item['question']}\nAnswer:{end}"


def requests_of(pool: list[Item], items: list[Item], shots: int, kind: str) -> list[Request]:
    """What is asked of both: one request a choice."""
    draw, requests = random.Random(0), []
    for item in items:
        shown = pool[:shots] if kind == SAME else draw.sample(pool, shots)
        prompt = "".join(prompt_of(one, answered=True) for one in shown) + prompt_of(item)
        requests += [Request(prompt, f" {choice}") for choice in item["choices"]]
    return requests


def accuracy(items: list[Item], values: list[float]) -> float:
    """The share of the items whose right choice has the highest value, the first of several."""
    right, start = 0, 0
    for item in items:
        of_item = values[start : start + len(item["choices"])]
        right += of_item.index(max(of_item)) == item["answer"]
        start += len(of_item)
    return right / len(items)


def peer(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, batch_size: int) -> Any:
    """lm-eval's scoring of requests: a function from them to log-probabilities."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    scorer = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=batch_size)

    def scores(requests: list[Request]) -> list[float]:
        instances = [Instance("loglikelihood", {}, (each.prompt, each.choice), 0) for each in requests]
        return [found for found, _ in scorer.loglikelihood(instances, disable_tqdm=True)]

    return scores


def measure(
    kind: str, items: list[Item], requests: list[Request], sides: dict[str, Any], rounds: int, clock: str
) -> dict[str, Any]:
    """Seconds of both sides in each round, after one that is not counted; the side that begins changes."""
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    values: dict[str, list[float]] = {}
    for number in range(rounds):
        for side in sorted(sides, reverse=bool(number % 2)):
            if number == 0:
                sides[side](requests[: len(items[0]["choices"])])
            start = CLOCKS[clock]()
            values[side] = sides[side](requests)
            seconds[side].append(CLOCKS[clock]() - start)
    ratios = [theirs / own for own, theirs in zip(seconds["ours"], seconds["peer"], strict=True)]
    return {
        "shots": kind,
        "items": len(items),
        "requests": len(requests),
        "ratio": statistics.median(ratios),
        "ratio_lowest": min(ratios),
        "ratio_highest": max(ratios),
        "seconds": seconds,
        "accuracy": {side: accuracy(items, found) for side, found in values.items()},
        "largest_difference": max(abs(a - b) for a, b in zip(values["ours"], values["peer"], strict=True)),
    }


def table(results: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = [
        "| shots | choices of items | times lm-eval (lowest to highest) | choices per second, ours / lm-eval "
        "| accuracy, ours / lm-eval | largest difference of a log-probability |",
        "|---|---|---|---|---|---|",
    ]
    for each in results:
        ours, theirs = (each["requests"] / statistics.median(each["seconds"][side]) for side in ("ours", "peer"))
        lines.append(
            f"| {each['shots']} | {each['requests']:,} of {each['items']:,} | **{each['ratio']:.1f}** "
            f"({each['ratio_lowest']:.1f} to {each['ratio_highest']:.1f}) | {ours:,.0f} / {theirs:,.0f} "
            f"| {each['accuracy']['ours']:.3f} / {each['accuracy']['peer']:.3f} | {each['largest_difference']:.1g} |"
        )
    return "\n".join(lines)


def faults(results: list[dict[str, Any]]) -> list[str]:
    """What falls short, a sentence each."""
    found = []
    for each in results:
        if each["shots"] == SAME and each["ratio"] < TARGET:
            found.append(f"Shots {each['shots']}: {each['ratio']:.2f} times lm-eval's speed, below {TARGET:g}.")
        if each["largest_difference"] > TOLERANCE:
            found.append(f"Shots {each['shots']}: log-probabilities differ by {each['largest_difference']:.2g}.")
        if len(set(each["accuracy"].values())) > 1:
            found.append(f"Shots {each['shots']}: accuracies differ, {each['accuracy']}.")
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", metavar="MODEL", help="the folder of a causal language model, or a Hub id")
    parser.add_argument("file", type=Path, metavar="FILE", help="JSONL with question, choices and answer")
    parser.add_argument("--shots", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--items", type=int, default=80, help="that are asked (default: %(default)s)")
    parser.add_argument("--pool", type=int, default=50, help="items to draw shots from (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=32, help="of both (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: %(default)s)")
    parser.add_argument(
        "--clock", choices=CLOCKS, default="cpu", help="the processor's time, or wall time (%(default)s)"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    options = parser.parse_args(arguments)
    readme = options.out / "README.md"
    if readme.is_file():
        part_of(readme, PART)  # refuses one without a place for the table, before the work
    rows = [json.loads(line) for line in options.file.read_text(encoding="utf-8").splitlines() if line.strip()]
    pool, items = rows[: options.pool], rows[options.pool : options.pool + options.items]
    if min(options.shots, options.rounds, options.threads, options.batch_size) < 1 or options.shots > len(pool):
        parser.error(
            "--shots, --rounds, --threads and --batch-size must be at least 1, and --pool as many as --shots."
        )
    if not items:
        parser.error(f"{options.file} has {len(rows)} items, and --pool takes {options.pool}: there is none to ask.")

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(options.threads)
    model, tokenizer = load_run(options.model, "cpu")
    sides = {
        "ours": lambda asked: [
            found.log_probability for found in score(model, tokenizer, asked, batch_size=options.batch_size)
        ],
        "peer": peer(model, tokenizer, options.batch_size),
    }
    results = []
    for kind in (SAME, OWN):
        requests = requests_of(pool, items, options.shots, kind)
        results.append(measure(kind, items, requests, sides, options.rounds, options.clock))
        print(f"{results[-1]['ratio']:.1f}  shots {kind}", flush=True)
    record = {
        "environment": environment() | {"lm_eval": version("lm_eval")},
        "model": Path(options.model).name,
        "architecture": type(model).__name__,
        "parameters": model.num_parameters(),
        "file": options.file.name,
        "shots": options.shots,
        "batch_size": options.batch_size,
        "rounds": options.rounds,
        "clock": options.clock,
        "results": results,
    }
    write_json(options.out / "results" / "few_shot.json", record)
    print(table(results))
    if readme.is_file():
        caption = (
            f"{machine(record['environment'])}, lm-eval {version('lm_eval')}; `{record['model']}` "
            f"({record['architecture']}, {record['parameters']:,} weights) on `{record['file']}`, {options.shots} "
            f"shots, batches of {options.batch_size}, {options.rounds} rounds, {options.clock} time."
        )
        write_part(readme, PART, f"{caption}\n\n{table(results)}")
    short = faults(results)
    for sentence in short:
        print(sentence, file=sys.stderr)
    return int(bool(short))


if __name__ == "__main__":
    sys.exit(main())
