"""Each tool works with published folders, where it is installed; the matrix says so.

The tools' Python is that of the variable REGARD_TOOLS_PYTHON, by default the present one; regard is refused in it
either way.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from regard.benchmarks.report import markers, write_part

from .folders import make_folders
from .matrix import PART, ROWS, SCRIPTS, Row, absent, main, run, table, tools_python, versions


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    return make_folders(tmp_path_factory.mktemp("published") / "folders")


@pytest.fixture(scope="module")
def found() -> dict[str, str | None]:
    return versions(tools_python())


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.script, marks=[pytest.mark.slow] if row.slow else []) for row in ROWS]
)
def test_tool(row: Row, folders, found, tmp_path):
    lacking = absent(row, found)
    if lacking:
        pytest.skip(f"{', '.join(lacking)} not installed in {tools_python()}: `pip install regard[tools]`")
    fault = run(row, folders, tmp_path, tools_python())
    assert fault is None, fault


def test_every_script_has_its_row():
    scripts = {path.stem.removeprefix("use_") for path in Path(__file__).parent.glob("use_*.py")}
    assert scripts == {row.script for row in ROWS}


def test_regard_is_refused(tmp_path, folders):
    """The folders' code cannot have come from the package, nor from its folder `modeling`."""
    program = (
        "from published import load\ntry:\n    import {name}\nexcept ModuleNotFoundError as error:\n    print(error)"
    )
    for name in ("regard", "modeling"):
        done = subprocess.run(
            [sys.executable, "-c", program.format(name=name), str(folders)],
            env=os.environ | {"PYTHONPATH": str(SCRIPTS)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout == f"No module named '{name}'\n", done.stderr


def test_table(tmp_path, found):
    outcomes = {row.script: "yes" for row in ROWS} | {"onnx": "no", "trl": "not installed"}
    text = table(outcomes, dict.fromkeys(found, "1.2") | {"trl": None})
    lines = text.splitlines()
    assert len(lines) == 2 + len(ROWS)
    assert all(line.count(" | ") == 3 for line in lines[2:])
    assert [line.split(" | ")[1] for line in lines if "TRL" in line] == ["–"]
    readme = tmp_path / "README.md"
    readme.write_text("before\n" + "\n".join(markers(PART)) + "\nafter\n")
    write_part(readme, PART, text)
    assert text in readme.read_text()


def test_the_readme_says_what_the_scripts_check():
    """Its table is written by the matrix: what a row says is what its script does now."""
    begin, end = markers(PART)
    part = (SCRIPTS.parents[1] / "README.md").read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")][1:]
    assert [(name, done) for name, _, done, _ in rows] == [(row.name, row.done) for row in ROWS]


def test_a_script_that_fails_is_told(tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho went wrong >&2\nexit 3\n")
    fake.chmod(0o755)
    assert run(ROWS[0], tmp_path, tmp_path, str(fake)) == "went wrong"
    fake.write_text("#!/bin/sh\nexit 3\n")
    assert run(ROWS[0], tmp_path, tmp_path, str(fake)) == "It ended with status 3."
    fake.write_text("#!/bin/sh\nsleep 60\n")
    assert run(ROWS[0], tmp_path, tmp_path, str(fake), timeout=0.2) == "It took longer than 0 seconds."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--only", "nonsense"], "the rows are pipelines"), (["--only", "peft", "--out", "x"], "--out wants all rows")],
)
def test_wrong_calls(arguments, says, capsys):
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert says in capsys.readouterr().err


def test_a_file_without_the_markers_is_refused_first(tmp_path):
    with pytest.raises(ValueError, match="has no place for the part 'works with'"):
        main(["--out", str(tmp_path / "README.md")])


def test_a_python_that_cannot_run_is_named(tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    fake.chmod(0o755)
    with pytest.raises(OSError, match="cannot run: broken"):
        versions(str(fake))
