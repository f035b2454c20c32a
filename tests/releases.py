"""Which releases of transformers the package works with: each in an environment of its own, over every family.

`python -m tests.releases --out benchmarks` makes an environment for the oldest release that pyproject.toml allows and
for the newest that pip finds, runs tests/release_checks.py and a training by `regard train` in each, and lets each
release load what the others saved. It writes `results/releases.json`, and the table into the README there.

The environments lie in a temporary folder, or in the one that --folder names, where they are found again; the table
says how large each is.
"""

import argparse
import datetime
import json
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PART = "releases"
NEWEST = "newest"
TORCH = "2.13.0"
SHOWN = ("torch", "transformers", "huggingface_hub", "tokenizers", "accelerate", "datasets")
COMMAND = "regard train"

RECIPE = {
    "name": "tiny",
    "task": "translation",
    "model": {"type": "transformer", "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32,
              "encoder_layers": 1, "decoder_layers": 1},
    "tokenizer": {"kind": "word", "vocab_size": 60, "min_frequency": 1},
    "training": {"num_train_epochs": 1, "learning_rate": 0.01, "warmup_steps": 2, "logging_steps": 1,
                 "per_device_train_batch_size": 8, "eval_strategy": "epoch", "save_strategy": "epoch",
                 "report_to": "none"},
    "evaluation": {"batch_size": 4, "samples": 1, "num_beams": 2, "max_new_tokens": 8},
}  # fmt: skip

Record = dict[str, Any]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def name_of(requirement: str) -> str:
    """`huggingface_hub` of `huggingface_hub>=1.0`."""
    return re.match(r"[\w.-]+", requirement)[0]


def oldest() -> str:
    """The oldest release that pyproject.toml allows, with a zero for the part that it leaves out: `5.17.0`."""
    requirement = next(each for each in project()["project"]["dependencies"] if name_of(each) == "transformers")
    version = re.search(r">=\s*([\d.]+)", requirement)[1]
    return version if version.count(".") == 2 else f"{version}.0"


def requirements(version: str, torch: str) -> list[str]:
    """What pip is asked for: the package's own dependencies, with this release and this torch, and pytest."""
    fixed = {"torch": f"torch=={torch}"}
    if version != NEWEST:
        fixed["transformers"] = f"transformers=={version}"
    return [fixed.get(name_of(each), each) for each in project()["project"]["dependencies"]] + ["pytest>=8"]


def copy_package(to: Path) -> None:
    """The package's sources, so that what pip builds stands there and not in the repository."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in project()["tool"]["setuptools"]["package-dir"].values():
        shutil.copytree(ROOT / name, to / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, to)


def environment_python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_environment(folder: Path, version: str, torch: str, sources: Path) -> None:
    """An environment with one release, or what it lacks of it.

    Raises:
        RuntimeError: pip cannot install it.
    """
    python = environment_python(folder)
    if not python.is_file():
        venv.create(folder, with_pip=True)
    # torch comes first and alone: the release that is named, from wherever the small CPU build is offered.
    for words in ([f"torch=={torch}"], requirements(version, torch), ["--no-deps", "--force-reinstall", str(sources)]):
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"pip cannot install {' '.join(words)}: {done.stderr.strip()[-2000:]}")


def megabytes(folder: Path) -> int:
    """What an environment's own files take."""
    return round(sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()) / 1e6)


def versions(python: Path) -> dict[str, str]:
    program = "import importlib.metadata as m, json, sys; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    done = subprocess.run([python, "-c", program, *SHOWN], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def call(python: Path, work: Path, *words: str) -> str | None:
    """Runs a module in an environment, in a folder with the tests and without the repository; None, or its fault."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and name[:3] != "HF_"}
    variables |= {"HF_HOME": str(work / "hf"), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    variables |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [str(python), "-m", *words]
    done = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr or done.stdout).strip()[-2000:] or "it says nothing"


def checks(python: Path, work: Path, which: str, folder: Path) -> dict[str, dict[str, str | None]]:
    """Of each check of tests/release_checks.py each entry's fault, or None.

    Raises:
        RuntimeError: the checks cannot run at all.
    """
    out = folder.with_suffix(f".{which}.json")
    fault = call(python, work, "tests.release_checks", which, str(folder), "--out", str(out))
    if fault is not None:
        raise RuntimeError(f"tests/release_checks.py cannot run in {python}: {fault}")
    return json.loads(out.read_text())


def summary(results: dict[str, str | None]) -> Record:
    """How many passed, of how many, and the faults of the others."""
    faults = {name: fault for name, fault in results.items() if fault is not None}
    return {"passed": len(results) - len(faults), "of": len(results), "faults": faults}


def train(python: Path, work: Path, run: Path) -> Record:
    """A recipe by the command: trained, resumed for an epoch more, and evaluated with beams."""
    generator = random.Random(0)
    lines = [" ".join(generator.choices("abcdefghijklmnop", k=generator.randint(1, 9))) for _ in range(40)]
    recipe = {**RECIPE, "data": {}}
    for name, part in (("train", lines[:32]), ("validation", lines[32:])):
        path = run.parent / f"{name}.tsv"
        path.write_text("source\ttarget\n" + "".join(f"{line}\t{line.upper()}\n" for line in part))
        recipe["data"][name] = str(path)
    path = run.parent / "tiny.yaml"
    path.write_text(json.dumps(recipe))  # JSON is YAML
    words = ("regard", "train", str(path), "--output", str(run))
    results = {
        "train": call(python, work, *words),
        "resume": call(python, work, *words, "--resume", "training.num_train_epochs=2"),
        "evaluate": call(python, work, "regard", "evaluate", str(run)),
    }
    return summary(results)


def table(record: Record) -> str:
    """Markdown: a row for each release, and the faults below, of which there should be none."""
    releases = record["releases"]
    names = list(next(iter(releases.values()))["checks"])
    head = [
        f"{record['date']}: Python {record['python']}, torch {record['torch']}; how many models of "
        "tests/families.py pass, each class in each of its variants.",
        "",
        f"| transformers | with | {' | '.join(names)} | environment |",
        "|---|---|" + "---|" * (len(names) + 1),
    ]
    faults = []
    for version, release in releases.items():
        others = ", ".join(
            f"{name} {release['packages'][name]}" for name in SHOWN if name not in ("torch", "transformers")
        )
        cells = []
        for name in names:
            check = release["checks"].get(name)
            cells.append("–" if check is None else f"{check['passed']} of {check['of']}")
            for entry, fault in (check or {"faults": {}})["faults"].items():
                faults.append(f"- {version}, {name}, {entry}: {' '.join(fault.split())[-300:]}")
        head.append(f"| {version} | {others} | {' | '.join(cells)} | {release['megabytes']:,} MB |")
    return "\n".join([*head, *(["", *faults] if faults else [])])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.releases", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--versions", nargs="+", default=[oldest(), NEWEST], help="releases, or 'newest' (default: %(default)s)"
    )
    parser.add_argument("--torch", default=TORCH, help="the release of torch (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the environments lie and stay; by default a temporary one")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write results/releases.json and README.md there")
    options = parser.parse_args(arguments)

    environments = options.folder.resolve() if options.folder else None
    if environments and environments.is_relative_to(ROOT):
        parser.error(
            f"--folder {options.folder}: environments have no place in the repository; name a folder outside."
        )

    from regard.benchmarks.report import part_of, write_part
    from regard.train.records import write_json

    if options.out:
        part_of(options.out / "README.md", PART)  # refused before the work, not after it
    with tempfile.TemporaryDirectory(prefix="regard-releases-") as scratch:
        record = run(options.versions, options.torch, environments or Path(scratch, "environments"), Path(scratch))
    print(table(record))
    if options.out:
        write_json(options.out / "results" / "releases.json", record)
        write_part(options.out / "README.md", PART, table(record))
    return int(any(check["faults"] for each in record["releases"].values() for check in each["checks"].values()))


def run(wanted: list[str], torch: str, environments: Path, scratch: Path) -> Record:
    """Makes the environments and runs everything in them. Raises RuntimeError as `make_environment` and `checks`."""
    copy_package(scratch / "sources")
    work = scratch / "work"
    shutil.copytree(ROOT / "tests", work / "tests", ignore=shutil.ignore_patterns("__pycache__", "works_with"))
    releases: dict[str, Record] = {}
    pythons: dict[str, Path] = {}
    for each in wanted:
        environment = environments / each
        print(f"{each}: making {environment}", file=sys.stderr, flush=True)
        make_environment(environment, each, torch, scratch / "sources")
        packages = versions(environment_python(environment))
        version = packages["transformers"]
        if version in releases:
            continue  # the newest one, which was named too
        pythons[version] = environment_python(environment)
        releases[version] = {"packages": packages, "megabytes": megabytes(environment)}
        (scratch / version).mkdir()
        print(f"{version}: checking", file=sys.stderr, flush=True)
        own = checks(pythons[version], work, "own", scratch / version / "saved")
        releases[version]["checks"] = {name: summary(results) for name, results in own.items()}
        releases[version]["checks"][COMMAND] = train(pythons[version], work, scratch / version / "run")
    for version, python in pythons.items():
        loaded = {}
        for other in pythons:
            if other != version:
                found = checks(python, work, "load", scratch / other / "saved")["load"]
                loaded |= {f"{entry} of {other}": fault for entry, fault in found.items()}
        if loaded:
            releases[version]["checks"]["load the other's"] = summary(loaded)
    first = next(iter(releases.values()))["packages"]
    return {
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "torch": first["torch"],
        "releases": releases,
    }


if __name__ == "__main__":
    sys.exit(main())
