"""In-context tasks: rules as the issue describes them, held-out rules, chance without examples, and the same in any
process. Expected answers are worked out by hand from the rules' definitions."""

import random
import subprocess
import sys
from hashlib import blake2b

import numpy as np
import pytest

from regard.evaluation.few_shot.items import builtin_items
from regard.evaluation.in_context import CHARACTERS, IN_CONTEXT_TASKS, draw_examples, items
from regard.evaluation.in_context.base import InContextTask
from regard.evaluation.in_context.repeats import LONGEST, SHORTEST, make_repeats
from regard.evaluation.in_context.rules import SHARES, split_of
from regard.evaluation.in_context.scoring import answers_right, at_a_glance, exact_match_by_examples

TASKS = sorted(IN_CONTEXT_TASKS)
KEYS = {
    "10234": 0.512,
    "43210": 0.585,
    "24103": 0.89,
    "01243": 0.313,
    "03214": 0.605,
    "31240": 0.584,
}  # where orders of five letters stand in the range of the hash


@pytest.mark.parametrize(
    ("name", "frame", "rule", "text", "answer"),
    [
        ("swapping", 5, (2, 1, 0, 3), "abcd", "cbad"),  # the lectures' example
        ("swapping", 5, (2, 1, 0, 4, 3), "abcde", "cbaed"),
        ("copying", 5, (3, 0, 3, 1, 4), "abcde", "dadbe"),
        ("induction", "bcekmptwxz", "bmwtcxepkz", "k", "zbm"),
        ("induction", "bcekmptwxz", "bmwtcxepkz", "p", "kzb"),
        ("lookup", "bkmz", "7391", "kbz", "k3b7z1"),
        ("cipher", ("abcdef", "qxfghj"), "qxfghj", "abcd", "qxfg"),
        ("arithmetic", None, (3, 1, 7), "2051", "0124"),
        ("word-classes", (("animals", "music", "weather"), "fkp"), "kfp", "wolf", "k"),
        ("word-classes", (("animals", "music", "weather"), "fkp"), "kfp", "drum", "f"),
        ("word-classes", (("animals", "music", "weather"), "fkp"), "kfp", "rain", "p"),
        ("all-or-any", ("md", "kx"), "kx", "mmmm", "k"),
        ("all-or-any", ("md", "kx"), "kx", "mmdm", "x"),
        ("all-or-any", ("md", "kx"), "kx", "dd", "x"),
    ],
)
def test_the_rules_say_what_they_say(name, frame, rule, text, answer):
    assert IN_CONTEXT_TASKS[name].output(frame, rule, text) == answer


@pytest.mark.parametrize("name", TASKS)
def test_examples_are_a_function_of_seed_and_index(name):
    drawn = [draw_examples(name, "train", 3, index, number=8) for index in range(6)]
    assert drawn == [draw_examples(name, "train", 3, index, number=8) for index in range(6)]
    assert drawn != [draw_examples(name, "train", 4, index, number=8) for index in range(6)]
    assert len({tuple(examples) for examples in drawn}) == 6
    for examples in drawn:
        assert len({example.input for example in examples}) == 8  # each with another input
        assert set("".join(example.text for example in examples)) <= set(CHARACTERS)
    text = "".join(example.text for example in draw_examples(name, "test", 0, 0, characters=100))
    assert len(text) >= 100
    assert text.endswith("\n")


def test_other_processes_draw_the_same():
    code = (
        "from regard.evaluation.in_context import *\n"
        "print([draw_examples(n, 'test', 1, 2, number=3) for n in sorted(IN_CONTEXT_TASKS)])\n"
        "print(items('swapping', 2, seed=5))"
    )
    for hash_seed in ("1", "2"):
        said = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
        ).stdout
        examples, made = said.splitlines()
        assert examples == str([draw_examples(name, "test", 1, 2, number=3) for name in TASKS])
        assert made == str(items("swapping", 2, seed=5))


@pytest.mark.parametrize("name", TASKS)
def test_rules_are_held_out(name):
    """By their keys: no rule of one split is one of another, and each has about its share of those that come."""
    task, keys = IN_CONTEXT_TASKS[name], {}
    for split in SHARES:
        chance = random.Random(f"{name}{split}")
        keys[split] = {task.key(*task.draw(split, chance)) for _ in range(150)}
        assert {split_of(name, key) for key in keys[split]} == {split}
    assert not keys["train"] & (keys["validation"] | keys["test"])
    assert not keys["validation"] & keys["test"]
    parts = [split_of(name, str(number)) for number in range(4000)]
    for split, share in SHARES.items():
        assert parts.count(split) / 4000 == pytest.approx(share, abs=0.03)


def test_a_rule_stays_on_its_side():
    """In every release, since a model that was trained before would else be tested on what it has seen: below 0.6 of
    the range of 64 bits of BLAKE2b lies what is trained on, below 0.8 what validates."""
    numbers = {
        key: int.from_bytes(blake2b(f"swapping\n{key}".encode(), digest_size=8).digest(), "big") for key in KEYS
    }
    assert {key: round(number / 2**64, 3) for key, number in numbers.items()} == KEYS
    for key, place in KEYS.items():
        assert split_of("swapping", key) == ("train" if place < 0.6 else "validation" if place < 0.8 else "test")
    drawn = draw_examples("swapping", "test", 0, 0, number=2)
    assert [example.text for example in drawn] == ["hmavn>anmhv\n", "qjmoh>mhjqo\n"]


@pytest.mark.parametrize("name", TASKS)
def test_without_an_example_every_choice_is_as_likely(name):
    """The right answer's place among the sorted choices says nothing; a guess by any fixed rule is right once in so
    many times as there are choices (within four standard errors)."""
    number, task = 400, IN_CONTEXT_TASKS[name]
    made = items(name, number, seed=1, pool=1)
    right = np.array([sorted(item.choices).index(item.choices[item.answer]) for item in made])
    wanted, error = 1 / task.choices, (1 / task.choices * (1 - 1 / task.choices) / number) ** 0.5
    for place in range(task.choices):
        assert (right == place).mean() == pytest.approx(wanted, abs=4 * error)


class Lopsided(InContextTask):
    """Eight of ten rules say `a`, one says `b` and one `c`."""

    name, choices = "lopsided", 2

    def frame(self, chance):
        return None

    def rule(self, frame, chance):
        return chance.randrange(10)

    def key(self, frame, rule):
        return "all of them"

    def input(self, frame, chance):
        return "x"

    def output(self, frame, rule, text):
        return "bc"[rule - 8] if rule >= 8 else "a"


def test_the_commonest_answer_is_no_more_often_right():
    """Of the choices `a` and `b` each is right half of the time (within four standard errors of 400)."""
    task, chance, right = Lopsided(), random.Random(0), []
    split = split_of(task.name, task.key(None, 0))
    while len(right) < 400:
        rule = task.rule(None, chance)
        others = task.rivals(None, rule, "x", split, chance)
        if others is not None and "c" not in (answer := task.output(None, rule, "x"), *others):
            right.append(answer)
    assert right.count("a") / 400 == pytest.approx(0.5, abs=4 * 0.5 / 20)


def test_pairs_of_letters_are_held_out_in_either_order():
    task = IN_CONTEXT_TASKS["all-or-any"]
    assert task.key(("md", "kx"), "kx") == task.key(("dm", "kx"), "xk")


@pytest.mark.parametrize("name", TASKS)
def test_items_bring_examples_of_their_own_rule(name, monkeypatch):
    task, drawn = IN_CONTEXT_TASKS[name], []
    monkeypatch.setattr(task, "draw", lambda *args: drawn.append(type(task).draw(task, *args)) or drawn[-1])
    for number in range(1, 11):
        item = items(name, number, seed=2)[-1]
        frame, rule = drawn[-1]  # the last one that was drawn is that of the last item
        for one in (item, *item.pool):
            assert one.fields["output"] == task.output(frame, rule, one.fields["input"])
        assert len(item.choices) == len(set(item.choices)) == IN_CONTEXT_TASKS[name].choices
        assert item.references == (item.choices[item.answer],) == (item.fields["output"],)
        assert len(item.pool) == 24
        assert all(shot.fields["input"] != item.fields["input"] for shot in item.pool)
        assert len({one.id for one in (item, *item.pool)}) == 25
    assert items(name, 3, seed=2) == items(name, 10, seed=2)[:3]


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="did you mean 'swapping'"):
        items("swaping", 1)
    with pytest.raises(ValueError, match="split='dev' is no split of rules"):
        items("swapping", 1, split="dev")
    with pytest.raises(ValueError, match="number=0 is less than 1"):
        items("swapping", 0)
    with pytest.raises(ValueError, match=r"pool=2.5 is not a whole number"):
        items("swapping", 1, pool=2.5)
    with pytest.raises(ValueError, match="number=True is not a whole number"):
        items("swapping", True)
    with pytest.raises(ValueError, match="either number or characters"):
        draw_examples("swapping", "train", 0, 0)


def test_the_door_of_few_shot_tasks_opens():
    assert builtin_items("in-context", 2, 7, task="lookup") == items("lookup", 2, 7)


def test_answers_are_scored_whole():
    """By hand: two answers of two tokens; the second one's last token is wrong in the second row."""
    labels = np.array([-100, -100, 5, 6, -100, -100, 7, 8])
    good = np.array([0, 5, 6, 0, 0, 7, 8, 0])  # what follows each position
    bad = np.array([0, 5, 6, 0, 0, 7, 9, 0])
    assert answers_right(good, labels) == [True, True]
    assert answers_right(bad, labels) == [True, False]
    assert answers_right(bad[:2], labels[:2]) == []
    measures = exact_match_by_examples([good, bad, good], [labels] * 3, ["a", "a", "b"])
    assert measures["by_task"] == {"a": [1.0, 0.5], "b": [1.0, 1.0]}
    assert measures["exact_match_0"] == 1.0
    assert measures["exact_match_1"] == 0.75  # the mean of the tasks
    assert "exact_match_2" not in measures
    assert at_a_glance(measures, 1) == {"exact_match_0": 1.0, "exact_match_1": 0.75, "a_1": 0.5, "b_1": 1.0}


def test_rows_of_different_lengths_count_as_far_as_they_go():
    """By hand: of four rows all have one answer, two have two, of which one is right, and one, which is less than
    half of them, has three. The other task has no third answer, so there is no mean for two examples."""
    long, middle, short = ([-100, *[5] * 0, 5, -100, 5, -100, 5], [-100, 5, -100, 5], [-100, 5])
    right, wrong = ([5, 0, 5, 0, 5, 0], [5, 0, 6, 0])
    rows = [(right, long), (wrong, middle), ([5, 0], short), ([5, 0], short), (right[:4], middle)]
    measures = exact_match_by_examples(
        [np.array(one) for one, _ in rows], [np.array(one) for _, one in rows], ["a", "a", "a", "a", "b"]
    )
    assert measures["by_task"] == {"a": [1.0, 0.5], "b": [1.0, 1.0]}
    assert measures["exact_match_1"] == 0.75
    assert "exact_match_2" not in measures


def test_repeats_come_twice():
    rows = make_repeats("validation")
    assert rows == make_repeats("validation")
    for row in rows:
        half = len(row["text"]) // 2
        assert row["text"][:half] == row["text"][half:]
        assert SHORTEST <= half <= LONGEST
