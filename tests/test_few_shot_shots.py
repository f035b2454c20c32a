"""Which shots are shown: no leak, seeds, balance, orders."""

import itertools
import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from regard.evaluation.few_shot.items import Item
from regard.evaluation.few_shot.shots import Pool, orders

LABELS = ("no", "yes")


def _items(number, labels=2):
    return [Item(str(i), {"q": f"question {i}"}, LABELS, i % labels) for i in range(number)]


def _text(item):
    return item.fields["q"]


def _ids(drawn):
    return [shot.id for shot in drawn.shots]


@pytest.mark.parametrize("balanced", [False, True])
def test_the_asked_item_is_never_among_its_shots(balanced):
    """A set of three and two shots, with 100 seeds: the other two are shown, each time."""
    items = _items(3)
    pool = Pool(items, _text, balanced=balanced, labels=2)
    for seed, item in itertools.product(range(100), items):
        assert sorted(_ids(pool.draw(item, 2, seed))) == sorted({"0", "1", "2"} - {item.id})


def test_an_item_with_the_same_text_is_the_same_item():
    """Another name in another split does not make it another."""
    pool = Pool([Item(f"train/{i}", {"q": f"question {i % 3}"}, LABELS, 0) for i in range(6)], _text)
    for seed in range(30):
        shots = pool.draw(_items(1)[0], 4, seed).shots
        assert {_text(shot) for shot in shots} == {"question 1", "question 2"}
    with pytest.raises(ValueError, match="4 examples beside the item '0', which is never shown itself, nor are the 2"):
        pool.draw(_items(1)[0], 5, 0)


def test_more_shots_than_there_are_is_an_error():
    with pytest.raises(ValueError, match=r"has 2 examples beside the item '0', which is never shown itself\.$"):
        Pool(_items(3), _text).draw(_items(1)[0], 3, 0)


@pytest.mark.parametrize("balanced", [False, True])
def test_a_seed_shows_all_items_the_same_shots(balanced):
    """But for those that are among them, where one spare takes the place; fewer shots are some of more."""
    items = _items(40)
    pool = Pool(items, _text, balanced=balanced, labels=2)
    outside = Item("other", {"q": "another"}, LABELS, 0)
    shots = _ids(pool.draw(outside, 8, 3))
    assert set(_ids(pool.draw(outside, 4, 3))) < set(shots)
    for item in items:
        own = _ids(pool.draw(item, 8, 3))
        changed = [place for place in range(8) if own[place] != shots[place]]
        assert changed == ([shots.index(item.id)] if item.id in shots else [])
        assert item.id not in own


def _everything():
    """The shots of five seeds, and orders of three."""
    pool, item = Pool(_items(50), _text, balanced=True, labels=2), Item("x", {"q": "x"}, LABELS, 0)
    return [[_ids(pool.draw(item, 4, seed)) for seed in range(5)], [orders(4, 3, seed) for seed in range(3)]]


def test_seeds_change_the_shots_and_the_process_does_not():
    """A new process, with another seed of Python's own hashes, draws the same."""
    drawn, shuffled = _everything()
    assert len({tuple(shots) for shots in drawn}) == 5
    assert len({tuple(one) for one in shuffled}) == 3
    code = f"import json, runpy; print(json.dumps(runpy.run_path({__file__!r})['_everything']()))"
    settings = {"env": os.environ | {"PYTHONHASHSEED": "77"}, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", code], check=True, **settings)
    assert json.loads(done.stdout) == json.loads(json.dumps(_everything()))


def test_balanced_shots_show_every_label_as_often():
    """4 of 2 labels are 2 + 2, 5 are 3 + 2, though nine of ten in the pool have one label; at random they are not."""
    pool = [Item(str(i), {"q": f"q{i}"}, LABELS, int(i % 10 == 0)) for i in range(100)]
    item = Item("x", {"q": "x"}, LABELS, 0)
    for seed in range(20):
        even = Pool(pool, _text, balanced=True, labels=2)
        assert Counter(shot.answer for shot in even.draw(item, 4, seed).shots) == {0: 2, 1: 2}
        assert sorted(Counter(shot.answer for shot in even.draw(item, 5, seed).shots).values()) == [2, 3]
        for asked in pool[:21]:
            assert Counter(shot.answer for shot in even.draw(asked, 4, seed).shots) == {0: 2, 1: 2}
    uneven = [Counter(s.answer for s in Pool(pool, _text).draw(item, 4, seed).shots)[1] for seed in range(20)]
    assert sum(uneven) < 20


def test_a_label_that_runs_out_is_reported():
    pool = Pool([Item(str(i), {"q": f"q{i}"}, LABELS, int(i == 0)) for i in range(9)], _text, balanced=True, labels=2)
    item = Item("x", {"q": "x"}, LABELS, 0)
    assert pool.draw(item, 3, 0).balanced
    assert not pool.draw(item, 6, 0).balanced
    assert not pool.draw(pool.examples[0], 2, 0).balanced


def test_orders_are_all_different_and_the_drawing_is_shuffled():
    """3! = 6 of three shots; of 8 as many as are asked for. Balanced shots are drawn label by label: in most seeds the
    order in which they are shown is another (one of 24 is the same)."""
    assert sorted(orders(3, 10, 0)) == sorted(itertools.permutations(range(3)))
    assert len(set(orders(8, 50, 0))) == 50
    assert orders(0, 5, 0) == [()]
    assert orders(3, 2, 0) == orders(3, 10, 0)[:2]
    assert sum(orders(4, 1, seed)[0] == (0, 1, 2, 3) for seed in range(48)) < 8
