"""Puts pairs of finished sweeps into this folder: the same task with pretrained weights and without."""

import argparse
import sys
from pathlib import Path
from typing import Any

from regard.benchmarks.ingredients import finished_sweep
from regard.benchmarks.report import machine, part_of, write_part
from regard.train.records import read_json, write_json
from regard.train.sweep_compare import compare_sweeps
from regard.train.sweep_table import with_deviation

PART = "pretraining"  # of README.md
HEAD = "| task | split | measure | pretrained | from scratch | difference, 95 % interval | better |"
BETTER = {"first": "pretrained", "second": "from scratch", "neither": "not told by these seeds"}


def collect(pairs: list[tuple[Path, Path]], folder: Path) -> None:
    """Compares each pair of sweeps, pretrained and from scratch, on every split that they measured; writes a record a
    pair to `folder/results`, and all that lie there into `folder/README.md`.

    Raises:
        ValueError: before anything is written, where two sweeps are no pair, or README.md has no place for the table.
    """
    records = {}
    for pair in pairs:
        name, record = _compared(*pair)
        if name in records:
            raise ValueError(f"Two pairs are of the recipe '{name}': give one of each.")
        records[name] = record
    part_of(folder / "README.md", PART)
    for name, record in records.items():
        write_json(folder / "results" / f"{PART}-{name}.json", record)
    paths = sorted((folder / "results").glob(f"{PART}-*.json"))
    write_part(folder / "README.md", PART, table([read_json(path) for path in paths]))


def _compared(pretrained: Path, scratch: Path) -> tuple[str, dict[str, Any]]:
    first, second = finished_sweep(pretrained), finished_sweep(scratch)
    if not first["recipe"]["model"].get("start_from") or second["recipe"]["model"].get("start_from"):
        raise ValueError(
            f"'{pretrained}' must be a sweep with model.start_from, and '{scratch}' one without, in this order."
        )
    tokenizer = first["recipe"]["tokenizer"]["path"] or first["recipe"]["model"]["start_from"]
    if second["recipe"]["tokenizer"]["path"] != tokenizer:
        raise ValueError(
            f"'{pretrained}' has the tokenizer of '{tokenizer}', and '{scratch}' has not: sweep it with "
            f"tokenizer.path={tokenizer}."
        )
    if max(len(sweep["settings"]) for sweep in (first, second)) > 1:
        raise ValueError(f"'{pretrained}' and '{scratch}' must have one setting each, of several seeds.")
    splits = ["validation", *first["settings"][0].get("test", {})]
    comparisons = {split: vars(compare_sweeps(pretrained, scratch, first["metric"], split)[0]) for split in splits}
    commands = {"pretrained": first["command"], "scratch": second["command"]}
    record = {"name": first["name"], "metric": first["metric"], "comparisons": comparisons, "commands": commands}
    return first["name"], record | {"environment": first["environment"]}


def table(records: list[dict[str, Any]]) -> str:
    """The Markdown of the records, with the commands that made them."""
    lines, commands, machines = [HEAD, "|---|---|---|---:|---:|---:|---|"], [], []
    for record in records:
        for split, one in record["comparisons"].items():
            low, high = one["interval"]
            sides = (with_deviation(*side) for side in zip(one["means"], one["deviations"], strict=True))
            difference = f"{one['difference']:+.3g} ({low:+.3g} to {high:+.3g})"
            cells = [record["name"], split, record["metric"], *sides, difference, BETTER[one["verdict"]]]
            lines.append(f"| {' | '.join(cells)} |")
        commands += record["commands"].values()
        machines.append(f"{machine(record['environment'])}.")
    fenced = "\n".join(commands)
    return "\n\n".join(["\n".join(lines), f"```\n{fenced}\n```", *dict.fromkeys(machines)])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "sweeps",
        nargs="+",
        type=Path,
        metavar="SWEEP",
        help="of each pair the sweep with pretrained weights, then that without",
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder of results/ and README.md")
    options = parser.parse_args(arguments)
    if len(options.sweeps) % 2:
        parser.error(
            f"{len(options.sweeps)} sweeps are no pairs: give the one with pretrained weights, then that without."
        )
    sweeps = [sweep.absolute() for sweep in options.sweeps]
    try:
        collect(list(zip(sweeps[::2], sweeps[1::2], strict=True)), options.out)
    except ValueError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
