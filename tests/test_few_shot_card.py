"""What a card says of few-shot prompting, and what of it is published."""

import dataclasses
import json

import pytest
from huggingface_hub import ModelCard

from regard.evaluation.few_shot.picture import plot_few_shot
from regard.evaluation.few_shot.result import FewShotResult, Group, Point, read_result
from regard.evaluation.few_shot.table import notes
from regard.evaluation.learning_curves import LearningCurve
from regard.model_cards.card import render_card
from regard.model_cards.few_shot import few_shot_commands, few_shot_notes, few_shot_table
from regard.model_cards.pictures import PROMPTED as PART
from regard.model_cards.pictures import find_pictures
from regard.model_cards.records import read_records
from regard.model_cards.staging import stage
from regard.train.few_shot_options import APART, NAME, PROMPTED

from .tiny_run import make_run

SETTINGS = {
    "shots": [0, 4], "seeds": [0, 1, 2], "balanced": True, "normalisation": "byte", "calibrate": True,
    "permutations": 2,
}  # fmt: skip


def _point(shots, mean, deviation, interval, **more):
    counts = {"prompts": 30, "cut": 0, "dropped": 0, "ties": 0, "unbalanced": 0}
    return Point(shots, mean, deviation, interval, [[mean]], None, **counts | more)


def _result(task, points, **more):
    values = {"metric": "accuracy", "data": {"file": "films.tsv"}, "items": 1200, "limit": None, "chance": 0.5}
    values |= {"settings": SETTINGS, "majority": 0.55, "source": task, "interval_kind": "wilson"}
    record = {"shots": 0, "item": "0", "prompt": "the text of a film", "prediction": 1, "correct": True}
    about = {"task": task, "model": "tiny", "architecture": "Tiny", "parameters": 7, "points": points}
    return FewShotResult(**about, **values | more, records=[record])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = make_run(tmp_path_factory.mktemp("runs"))
    low, cut = _point(0, 0.51, None, (0.45, 0.57)), {"cut": 3, "dropped": 9, "fewest": 1}
    _result(
        "films", [low, _point(4, 0.5312, 0.0123, (0.48, 0.58), **cut)], source=str(folder / "films.yaml"),
        overrides={"data.file": str(folder / "films.tsv"), "metric": "accuracy"}, limit=1200, drawn_from=5000,
    ).save(folder / "few-shot-films.json")  # fmt: skip
    groups = {"agreement": Group(600, 0.9, (0.87, 0.92), 0.5), "reflexives": Group(600, 0.6, (0.56, 0.64), 0.5)}
    settings = SETTINGS | {
        "shots": [0],
        "balanced": False,
        "normalisation": "none",
        "calibrate": False,
        "permutations": 1,
    }
    pairs = dataclasses.replace(low, mean=0.75, interval=(0.72, 0.78), groups=groups)
    _result("pairs", [pairs], settings=settings, majority=None).save(folder / "few-shot-pairs.json")
    (folder / "few-shot-films.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    return folder


def test_the_card_has_every_task_with_chance_beside_it(run):
    card = render_card(run)
    section = card[card.index("## Few-shot prompting") : card.index("## Samples")]
    for line in (
        "| task | measure | items | chance | 0 shots | 4 shots | 95 % of the last |",
        "| films | accuracy | 1,200 | 50.0% | 51.0% | 53.1% ± 1.2 | 48.0% to 58.0% |",
        "| pairs | accuracy | 1,200 | 50.0% | 75.0% |  | 72.0% to 78.0% |",
        "**At chance:** films. With any number of shots the interval holds what guessing gives.",
        "- films: Accuracy over 1,200 items, drawn at random from 5,000; the shots are drawn, balanced by label, by 3 "
        "seeds; normalisation of choices: byte, calibrated. Always the most frequent label: 55.0%. At 4 shots 3 of 30 "
        "prompts had no room for all: 9 shots were left out, and 3.7 were shown in the mean (at least 1).",
        "| reflexives | 600 | 60.0% | 56.0% to 64.0% | 50.0% |",
        "![A few-shot task's metric by the number of examples in the prompt](few-shot-films.png)",
        "regard few-shot runs/tiny --task PATH/tiny/films.yaml --shots 0 4 --seeds 3 --limit 1200 --normalisation "
        "byte --calibrate --permutations 2 --set data.file=PATH/tiny/films.tsv --set metric=accuracy",
        "regard few-shot runs/tiny --task pairs --shots 0\n",
    ):
        assert line in section
    measured = {(r.dataset_name, r.metric_name): r.metric_args["command"] for r in ModelCard(card).data.eval_results}
    assert measured["pairs", "accuracy, 0-shot"] == "regard few-shot runs/tiny --task pairs --shots 0"
    assert measured["films", "accuracy, 4-shot"].startswith(
        "regard few-shot runs/tiny --task PATH/tiny/films.yaml --sh"
    )
    assert str(run) not in card


def test_chance_is_told_where_nothing_is_to_be_chosen():
    """The last word of a passage may be any word: LAMBADA."""
    words = _result("words", [_point(0, 0.007, None, (0.005, 0.009))], metric="greedy", chance=None, majority=None)
    assert "| words | greedy accuracy | 1,200 | ≈ 0% | 0.7% | 0.5% to 0.9% |" in few_shot_table([words])
    assert "Chance is next to nothing: no choices are given." in notes(words)[0]


def test_the_command_asks_in_the_same_way(run):
    """At random in spite of labels, one seed that is not the first, and fine-tuning for some of the items."""
    beside = [
        LearningCurve(f"{NAME} (50 items)", [1, 4], [[0.5], [0.75]]),
        LearningCurve(f"{PROMPTED} (50 items)", [1, 4], [[0.25], [0.5]]),
    ]
    settings = SETTINGS | {"balanced": False, "seeds": [7]}
    point = _point(4, 0.5, None, (0.45, 0.57))
    result = _result("films", [point], settings=settings, beside=beside)
    assert few_shot_commands([result], "runs/tiny") == (
        "regard few-shot runs/tiny --task films --shots 0 4 --seeds 7, --random --normalisation byte --calibrate "
        "--permutations 2 --fine-tune --fine-tune-items 50"
    )
    assert few_shot_notes([result]).endswith(
        "Fine-tuned on the same examples (accuracy over 50 items): 50.0% with 1 example, 75.0% with 4 examples. "
        "Prompted, on the items of fine-tuning (accuracy over 50 items): 25.0% with 1 example, 50.0% with 4 examples. "
        "Rate and steps of fine-tuning are settled by cross-validation on up to 3 draws of as many examples, and all "
        "seeds share them: behind fine-tuning on k examples are up to 3k labelled ones. One example takes a default."
    )
    whole = _result("films", [point], items=50, majority=None, settings=settings, beside=beside[:1])
    assert few_shot_commands([whole], "runs/tiny").endswith("--seeds 7, --normalisation byte --calibrate "
                                                            "--permutations 2 --fine-tune")  # fmt: skip


def test_examples_that_do_not_fit_are_not_called_the_same():
    """The line of fine-tuning has another name then, by which the command is known all the same."""
    beside = [LearningCurve(f"{APART} (1 item)", [4], [[0.5]])]
    cut = _point(4, 0.5, None, (0.45, 0.57), cut=3, dropped=9, fewest=1)
    result = _result("films", [cut], beside=beside)
    told = few_shot_notes([result])
    assert "9 shots were left out, and 3.7 were shown in the mean (at least 1). Fine-tuned on those exam" in told
    assert "Fine-tuned on those examples that fit alone (accuracy over 1 item): 50.0% with 4 examples." in told
    assert "the same examples" not in told
    assert few_shot_commands([result], "runs/tiny").endswith("--fine-tune --fine-tune-items 1")
    before = dataclasses.replace(result, points=[dataclasses.replace(cut, fewest=None)])  # it was not counted
    assert "and 3.7 were shown in the mean. Fine-tuned" in few_shot_notes([before])


def test_a_picture_says_what_it_shows(tmp_path):
    """By the result of its name: the number of examples, of two ways, or groups of items at one number."""
    folder = make_run(tmp_path)
    groups = {name: Group(600, 0.9, (0.87, 0.92), 0.5) for name in ("agreement", "reflexives")}
    point = _point(4, 0.5, None, (0.45, 0.57))
    results = {
        "films": _result("films", [point]),
        "pairs": _result("pairs", [dataclasses.replace(point, groups=groups)]),
        "tuned": _result("tuned", [point], beside=[LearningCurve(f"{NAME} (50 items)", [4], [[0.5]])]),
    }
    for name, result in results.items():
        result.save(folder / f"few-shot-{name}.json")
        plot_few_shot(result, folder / f"few-shot-{name}.png")
    (folder / "few-shot-alone.png").write_bytes(b"")
    alts = {one.path.stem: one.kind.alt for one in find_pictures(read_records(folder)) if one.kind.part == PART}
    assert alts == {
        "few-shot-alone": "A few-shot task's metric by the number of examples in the prompt",
        "few-shot-films": "A few-shot task's metric by the number of examples in the prompt",
        "few-shot-pairs": "A few-shot task's metric by group of items",
        "few-shot-tuned": "A few-shot task's metric by the number of examples, prompted and fine-tuned",
    }


def test_items_that_share_rules_are_told():
    point = _point(4, 0.5, None, (0.3, 0.7))
    shared = _result("swapping", [point], items=200, rules=18, majority=None)
    note = "Items under one rule count for less in the interval where they are right or wrong together."
    assert "- swapping: Accuracy over 200 items under 18 rules; the shots" in few_shot_notes([shared])
    assert note in few_shot_notes([shared])
    assert "rule" not in few_shot_notes([dataclasses.replace(shared, rules=None)])


def test_a_result_that_says_nothing_of_rules_or_a_limit_is_read(run, tmp_path):
    """As those from before these were counted."""
    saved = json.loads((run / "few-shot-pairs.json").read_text())
    for key in ("rules", "drawn_from"):
        del saved[key]
    (tmp_path / "few-shot-pairs.json").write_text(json.dumps(saved))
    assert read_result(tmp_path / "few-shot-pairs.json") == read_result(run / "few-shot-pairs.json")


def test_the_prompts_are_not_published(run, tmp_path):
    """They are the texts of a data set: what is sent renders the same section."""
    staged = stage(run, tmp_path / "staged")
    sent = json.loads((tmp_path / "staged" / "few-shot-films.json").read_text())
    assert "records" not in sent
    assert sent["overrides"]["data.file"] == "PATH/tiny/films.tsv"
    assert "few-shot-films.json: the prompts, which are the data set's texts, stay here." in staged.notes
    assert (
        read_result(tmp_path / "staged" / "few-shot-films.json").points
        == read_result(run / "few-shot-films.json").points
    )
    assert render_card(tmp_path / "staged").count("| films | accuracy | 1,200 |") == 1


def test_a_run_without_results_has_no_section(tmp_path):
    assert "Few-shot" not in render_card(make_run(tmp_path))


def test_a_broken_result_is_named(tmp_path):
    folder = make_run(tmp_path)
    (folder / "few-shot-films.json").write_text("{}")
    with pytest.raises(ValueError, match="few-shot-films.json' is no result that `regard few-shot` wrote"):
        render_card(folder)
