"""The picture of few-shot prompting: what is drawn of seeds, and where the axes begin and what they are called."""

import dataclasses

import numpy as np
import pytest

from regard.evaluation.few_shot.picture import plot_few_shot
from regard.evaluation.few_shot.result import FewShotResult, Group, Point
from regard.evaluation.few_shot.table import group_table, how, number_of_items, table
from regard.evaluation.learning_curves import LearningCurve

SETTINGS = {
    "shots": [0, 1], "seeds": [0, 1, 2], "balanced": False, "normalisation": "none", "calibrate": False,
    "permutations": 1,
}  # fmt: skip
COUNTS = {"prompts": 30, "cut": 0, "dropped": 0, "ties": 0, "unbalanced": 0}
ENDS = "bars with ends: one standard deviation of the seeds to each side"


def _point(shots, seeds, interval, **more):
    deviation = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else None
    values = [[one] for one in seeds]
    return Point(shots, float(np.mean(seeds)), deviation, interval, values, None, **COUNTS | more)


def _result(points, metric="accuracy", **more):
    settings = SETTINGS | {"shots": [point.shots for point in points]}
    given = {"interval_kind": "wilson", "chance": None, "majority": None, "limit": None, "data": {}} | more
    about = {"task": "films", "model": "tiny", "architecture": "Tiny", "parameters": 7, "items": 10}
    return FewShotResult(**about, metric=metric, points=points, settings=settings, **given)


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draws a result, and gives the axes."""

    def draw(result):
        found = []
        monkeypatch.setattr("regard.evaluation.few_shot.picture.save_figure", lambda figure, _: found.append(figure))
        plot_few_shot(result, tmp_path / "a.png")
        return found[0].axes[0]

    return draw


def _ended_bars(axes):
    """The bars with ends of the picture, from low to high; the last, without a place, stands in the legend."""
    found = [one.lines[2][0].get_segments() for one in axes.containers[:-1]]
    return [[segment[:, 1].tolist() for segment in segments] for segments in found]


def test_a_line_of_one_number_shows_its_seeds_and_their_deviation(drawn):
    """Seeds 0.7, 0.8 and 0.9 deviate by 0.1 from their mean, 0.8; those of prompting, 0.5 and 0.7, by 0.1 √2. Zero
    shots are asked once, so that one shot has no neighbour to draw a band to."""
    tuned = LearningCurve("fine-tuned on the same examples (10 items)", [1], [[0.7, 0.8, 0.9]], [[0.6, 0.95]])
    points = [_point(0, [0.5], (0.3, 0.7)), _point(1, [0.5, 0.7], (0.4, 0.75))]
    axes = drawn(_result(points, beside=[tuned]))
    deviation = 0.1 * 2**0.5
    assert _ended_bars(axes) == [[pytest.approx([0.6 - deviation, 0.6 + deviation])], [pytest.approx([0.7, 0.9])]]
    seeds = [line.get_ydata() for line in axes.lines if line.get_marker() == "."]
    assert [list(several) for several in seeds] == [[0.5, 0.7], [0.7, 0.8, 0.9]]
    assert ENDS in [text.get_text() for text in axes.get_legend().get_texts()]


def test_neighbours_have_a_band(drawn):
    points = [_point(shots, [0.4, 0.6], (0.3, 0.7)) for shots in (1, 2)]
    axes = drawn(_result(points))
    assert axes.containers == []
    assert ENDS not in [text.get_text() for text in axes.get_legend().get_texts()]
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((0.5 - 0.02**0.5, 0.5 + 0.02**0.5))


def test_the_axis_is_that_of_all_that_is_drawn(drawn):
    """Who is fine-tuned has no prompt with examples in it."""
    points = [_point(0, [0.5], (0.3, 0.7)), _point(1, [0.6], (0.4, 0.75))]
    axes = drawn(_result(points))
    assert axes.get_xlabel() == "examples in the prompt"
    assert axes.get_title(loc="left") == "films: accuracy by the number of shots"
    axes = drawn(_result(points, beside=[LearningCurve("fine-tuned", [1], [[0.7]])]))
    assert axes.get_xlabel() == "examples"
    assert axes.get_title(loc="left") == "films: accuracy by the number of examples"


@pytest.mark.parametrize(
    ("metric", "seeds", "low", "high"),
    [
        ("bleu", [0.0, 0.0], 0, 1),  # of zeros alone, matplotlib's own axis is from -0.055 to 0.055
        ("bleu", [0.0, 0.6], 0, None),  # the deviation is larger than the mean
        ("accuracy", [0.0, 0.1], 0, None),
        ("matthews_correlation", [0.0, 0.1], None, None),
    ],
)
def test_what_is_never_negative_begins_at_0(drawn, metric, seeds, low, high):
    points = [_point(shots, seeds, (min(seeds), max(seeds))) for shots in (1, 2)]
    found = drawn(_result(points, metric)).get_ylim()
    assert found[0] == low if low is not None else found[0] < 0
    assert found[1] == high if high is not None else found[1] > max(seeds)


def test_groups_are_named_with_their_items_and_begin_at_0(drawn):
    groups = {"a": Group(1, 0.0, (0.0, 0.2), None), "b": Group(9, 0.1, (0.0, 0.3), None)}
    axes = drawn(_result([_point(1, [0.09], (0.0, 0.3), groups=groups)]))
    assert axes.get_xlim()[0] == 0
    assert [label.get_text() for label in axes.get_yticklabels()] == ["all (10 items)", "a (1 item)", "b (9 items)"]
    assert axes.get_title(loc="left") == "films: accuracy of tiny with 1 shot"


def test_one_of_a_thing_is_one():
    """In every sentence and head of a column."""
    assert (number_of_items(1, 1), number_of_items(1200, 2)) == ("1 item under 1 rule", "1,200 items under 2 rules")
    groups = {name: Group(5, 0.5, (0.2, 0.8), None) for name in "ab"}
    one = _point(1, [0.5], (0.3, 0.7), groups=groups, cut=2, dropped=2, ties=1, unbalanced=1, fewest=0)
    result = _result([_point(0, [0.5], (0.3, 0.7), groups=groups), one])
    assert group_table(result).startswith("| group | items | 0 shots | 1 shot | 95 % at 1 shot | chance |\n")
    text = table(result)
    for sentence in (
        "At 1 shot 2 of 30 prompts had no room for all: 2 shots were left out, and 0.933 were shown in the mean (at "
        "least 0).",
        "At 1 shot the labels of 1 prompt are not balanced: the pool has too few examples of some.",
        "At 1 shot 1 of 30 prompts has several best choices, of which one was drawn.",
    ):
        assert sentence in text
    assert "1 shots" not in text
    assert "drawn by 1 seed;" in how(dataclasses.replace(result, settings=result.settings | {"seeds": [0]}))
