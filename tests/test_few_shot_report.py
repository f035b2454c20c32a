"""The files of few-shot prompting: written before other learners begin, and in the place of an earlier result."""

import json
import shutil
from pathlib import Path

import pytest

from regard.evaluation.few_shot.report import run_few_shot
from regard.evaluation.few_shot.result import read_result
from regard.evaluation.learning_curves import LearningCurve

from .films import save_films

SETTINGS = {"shots": [0, 1], "seeds": 1, "limit": 6}
FILES = ["few-shot-films.json", "few-shot-films.png"]
TUNED = "fine-tuning-films.json"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    save_films(folder)
    return str(folder / "tiny"), str(folder / "films.yaml")


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, ValueError])
def test_what_prompting_gave_is_kept_if_other_learners_fail(run, tmp_path, error):
    said, there = [], []

    def beside(*model, **settings):
        there.extend(_names(tmp_path))
        raise error

    with pytest.raises(error):
        run_few_shot(*run, output=tmp_path, beside=beside, show=said.append, **SETTINGS)
    assert there == FILES
    assert _names(tmp_path) == FILES
    result = read_result(tmp_path / FILES[0])
    assert ([point.shots for point in result.points], len(result.records), result.beside) == ([0, 1], 12, [])
    assert said[-1] == (
        f"Fine-tuning did not come to its end: what prompting gave is kept in {tmp_path / FILES[0]}"
        f"{'' if error is ValueError else ', and the same command begins again with both'}."
    )


def test_the_lines_of_other_learners_are_written_when_they_end(run, tmp_path):
    curve = LearningCurve("another", [1], [[0.5]])
    result, files = run_few_shot(*run, output=tmp_path, beside=lambda *model, **settings: [curve], **SETTINGS)
    assert [path.name for path in files] == FILES
    assert read_result(files[0]).beside == result.beside == [curve]


def test_an_earlier_result_is_named_and_goes_with_what_stood_beside_it(run, tmp_path):
    said = []
    run_few_shot(*run, output=tmp_path, show=said.append, **SETTINGS)
    assert not [line for line in said if "earlier" in line]
    (tmp_path / TUNED).write_text(json.dumps({"of": "an earlier run"}))
    (tmp_path / "fine-tuning-other.json").write_text("{}")
    run_few_shot(*run, output=tmp_path, show=said.append, **SETTINGS | {"shots": [0]})
    (line,) = [line for line in said if "earlier" in line]
    places = ", ".join(str(tmp_path / name) for name in (*FILES, TUNED))
    assert line == f"Replaces the earlier result, whose files go: {places}."
    assert _names(tmp_path) == sorted([*FILES, "fine-tuning-other.json"])
    assert [point.shots for point in read_result(tmp_path / FILES[0]).points] == [0]


def test_a_folder_of_another_model_is_refused(run, tmp_path):
    """A card shows what lies in its run's folder; and one model's result does not go for another's."""
    model, task = run
    other = tmp_path / "other"
    shutil.copytree(model, other)
    with pytest.raises(
        ValueError, match=r"^--output: '.*other' is the folder of a model, whose card would show the res"
    ):
        run_few_shot(model, task, output=other, **SETTINGS)
    assert _names(other) == _names(Path(model))
    run_few_shot(str(other), task, **SETTINGS)  # its own
    run_few_shot(model, task, output=tmp_path / "out", **SETTINGS)
    kept = (tmp_path / "out" / FILES[0]).read_bytes()
    with pytest.raises(
        ValueError, match=r"is the result of another model, 'tiny': name another folder for that of 'ot"
    ):
        run_few_shot(str(other), task, output=tmp_path / "out", **SETTINGS)
    assert (tmp_path / "out" / FILES[0]).read_bytes() == kept


def test_an_earlier_result_stays_if_prompting_fails(run, tmp_path):
    """Until there is a new one: the second has more shots than there are examples."""
    run_few_shot(*run, output=tmp_path, **SETTINGS)
    (tmp_path / TUNED).write_text("{}")
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="shots=50: the pool has 23 examples"):
        run_few_shot(*run, output=tmp_path, **SETTINGS | {"shots": [50]})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
