"""Puts finished sweeps into this folder: their records, and their tables in README.md."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from regard.benchmarks.report import machine, part_of, write_part
from regard.train.records import read_json, write_json
from regard.train.sweep import SWEEP, table

PART = "ingredients"  # of README.md


def collect(sweeps: list[Path], folder: Path) -> None:
    """Copies the records of sweeps to `folder/results`, and writes all that lie there into `folder/README.md`.

    Raises:
        ValueError: before anything is written, where a folder holds no finished sweep or one that names a place of
            this machine, two have the same name, or README.md has no place for the tables.
    """
    records: dict[str, dict[str, Any]] = {}
    for sweep in sweeps:
        if sweep.name in records:
            raise ValueError(f"Two sweeps are called '{sweep.name}': rename a folder, since its name is kept.")
        records[sweep.name] = finished_sweep(sweep)
    part_of(folder / "README.md", PART)
    for name, record in records.items():
        write_json(folder / "results" / f"{PART}-{name}.json", record)
    parts = []
    for path in sorted((folder / "results").glob(f"{PART}-*.json")):
        record = read_json(path)
        text = table(record).replace("# Sweep of ", "### ", 1)
        parts.append(f"{text.strip()}\n\n{machine(record['environment'])}.")
    write_part(folder / "README.md", PART, "\n\n".join(parts))


def finished_sweep(sweep: Path) -> dict[str, Any]:
    """The record of a sweep's folder.

    Raises:
        ValueError: there is none, it is not whole, or it names a place of this machine.
    """
    if not (sweep / SWEEP).is_file():
        raise ValueError(f"There is no sweep in '{sweep}': give the folder that `regard sweep` wrote.")
    record = read_json(sweep / SWEEP)
    done, planned = len(record.get("cells", [])), record.get("cells_planned")
    if done != planned:
        raise ValueError(f"The sweep in '{sweep}' has {done} of its {planned} cells: go on with it by --resume.")
    if any(text in json.dumps(record) for text in ('"/', "=/", " /", '"~')):
        raise ValueError(f"The sweep in '{sweep}' names a place of this machine: give its files by relative paths.")
    return record


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweeps", nargs="+", type=Path, metavar="SWEEP", help="the folder of a finished sweep")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder of results/ and README.md")
    options = parser.parse_args(arguments)
    try:
        collect([sweep.absolute() for sweep in options.sweeps], options.out)
    except ValueError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
