"""The script that tries releases of transformers: what it asks pip for, what it counts and writes; and FSDP's script.

Neither is run: the one downloads, and the other needs GPUs.
"""

import json
import os
import re
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from . import fsdp_check, release_checks, releases
from .families import ENTRIES

DECODER = next(entry for entry in ENTRIES if entry.kind == "decoder" and entry.generates)


def test_the_oldest_release_is_the_one_that_the_project_names():
    wanted = releases.requirements(releases.oldest(), "2.13.0")
    assert re.fullmatch(r"5\.\d+\.\d+", releases.oldest())
    assert f"transformers=={releases.oldest()}" in wanted
    assert "torch==2.13.0" in wanted
    assert len({releases.name_of(each) for each in wanted}) == len(wanted)
    assert any(each.startswith("transformers>=") for each in releases.requirements(releases.NEWEST, "2.13.0"))


def test_the_package_is_copied_without_what_was_built(tmp_path):
    releases.copy_package(tmp_path)
    assert {"modeling", "regard", "train", "pyproject.toml", "README.md", "LICENSE"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert not list(tmp_path.rglob("__pycache__"))


def test_table_counts_and_names_the_faults():
    good, bad = releases.summary({"a": None, "b": None}), releases.summary({"a": None, "b": "ValueError:\n no"})
    packages = dict.fromkeys(releases.SHOWN, "1.0")
    record = {
        "date": "2026-01-02",
        "python": "3.11.1",
        "torch": "2.0",
        "releases": {
            "5.17.0": {
                "packages": packages,
                "megabytes": 1234,
                "checks": {"construct": good, "load the other's": bad},
            },
            "5.24.0": {"packages": packages, "megabytes": 900, "checks": {"construct": good}},
        },
    }
    lines = releases.table(record).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    assert rows[0] == ["transformers", "with", "construct", "load the other's", "environment"]
    assert [rows[1][0], *rows[1][2:]] == ["5.17.0", "2 of 2", "1 of 2", "1,234 MB"]
    assert [rows[2][0], *rows[2][2:]] == ["5.24.0", "2 of 2", "–", "900 MB"]
    assert lines[-1] == "- 5.17.0, load the other's, b: ValueError: no"


def test_a_check_that_fails_is_a_fault_of_its_entry(tmp_path):
    def check(entry, folder):
        if entry is DECODER:
            raise ValueError("not this one")

    found = release_checks.run({"some": (check, lambda entry: entry.kind == "decoder")}, tmp_path)
    faults = {name: fault for name, fault in found["some"].items() if fault}
    assert faults == {str(DECODER): "ValueError: not this one (test_releases.py, check)"}
    assert set(found["some"]) == {str(entry) for entry in ENTRIES if entry.kind == "decoder"}


def test_the_checks_see_what_is_broken(tmp_path, monkeypatch):
    """A weight that is not what was saved, a cache that changes what is written, an output that is no number."""
    release_checks.saves(DECODER, tmp_path)
    release_checks.loads_others(DECODER, tmp_path)
    file = tmp_path / str(DECODER) / "model.safetensors"
    weights = load_file(file)
    name = next(name for name in weights if "norm" in name and name.endswith("weight"))
    save_file(weights | {name: weights[name] + 0.1}, file, metadata={"format": "pt"})
    with pytest.raises(AssertionError, match="outputs differ by"):
        release_checks.loads_others(DECODER, tmp_path)
    monkeypatch.setattr(
        release_checks, "generate", lambda model, use_cache, **_: torch.tensor([[1, 2 if use_cache else 3]])
    )
    with pytest.raises(AssertionError, match=r"\[\[1, 2\]\] with a cache, \[\[1, 3\]\] without"):
        release_checks.generates(DECODER, tmp_path)
    monkeypatch.setattr(release_checks, "output_of", lambda outputs: torch.tensor([float("nan")]))
    with pytest.raises(AssertionError):
        release_checks.constructs(DECODER, tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"distributed": "MULTI_GPU"}, "not FSDP on 2"),
        ({"losses": [3.0, 2.1]}, "Loss 2 of 3"),
        ({"losses": [3.0, float("nan")]}, "Loss 2 of 3"),
        ({"eval_loss": 1.9}, "Loss 3 of 3"),
    ],
)
def test_sharded_and_whole_are_compared(change, words):
    whole = {"distributed": "NO", "processes": 1, "losses": [3.0, 2.0], "eval_loss": 1.5}
    split = {**whole, "distributed": "FSDP", "processes": 2, **change}
    wrong = fsdp_check.compare(whole, split, split["eval_loss"], 2)
    assert (not wrong) if words is None else (words in wrong[0])
    assert fsdp_check.compare(whole, whole | {"distributed": "FSDP", "processes": 2}, 1.4, 2)


def test_fsdp_without_gpus_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fsdp_check"],
        cwd=fsdp_check.ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("FSDP needs a GPU for each process")
    assert len(done.stderr.splitlines()) == 1


def test_committed_table_is_what_its_results_say():
    folder = releases.ROOT / "benchmarks"
    results = folder / "results" / "releases.json"
    if not results.is_file():
        pytest.skip("no results are committed yet")
    record = json.loads(results.read_text(encoding="utf-8"))
    assert releases.table(record) in (folder / "README.md").read_text(encoding="utf-8")
    assert releases.oldest() in record["releases"]
