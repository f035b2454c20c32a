"""Minimal pairs: each pair is right and wrong by a rule that is checked here from the words alone, without the
generator's own knowledge of number and gender."""

import itertools
import json
import os
import re
import subprocess
import sys

import pytest

from regard.evaluation.few_shot.items import builtin_items
from regard.evaluation.minimal_pairs import PHENOMENA, MinimalPair, minimal_pairs, write_minimal_pairs

PAIRS = minimal_pairs(6000, seed=5)
IRREGULAR = {"men", "women", "gentlemen", "children", "wolves", "mice", "knives"}
SINGULAR_S = {"princess", "actress"}
ENDS = {"of", "near", "behind", "beside", "who", "that"}
ADVERBS = {"often", "always", "never", "usually", "sometimes", "rarely"}
MALE = ["man", "boy", "king", "prince", "actor", "gentleman", "priest", "emperor", "brother", "son", "uncle"]
FEMALE = ["woman", "girl", "queen", "princess", "actress", "lady", "sister", "daughter", "aunt"]


def of(phenomenon: str, *paradigms: str) -> list[MinimalPair]:
    found = [p for p in PAIRS if p.phenomenon == phenomenon and (not paradigms or p.paradigm in paradigms)]
    assert len(found) > 100
    return found


def words(sentence: str) -> list[str]:
    return re.findall(r"[a-z']+", sentence.lower())


def difference(pair: MinimalPair) -> tuple[int, str, str]:
    """Where the two sentences differ, and the words there; they differ in one place."""
    good, bad = words(pair.sentence_good), words(pair.sentence_bad)
    assert len(good) == len(bad)
    places = [place for place, (one, other) in enumerate(zip(good, bad, strict=True)) if one != other]
    assert len(places) == 1, pair
    return places[0], good[places[0]], bad[places[0]]


def is_plural(noun: str) -> bool:
    return noun in IRREGULAR or (noun.endswith("s") and noun not in SINGULAR_S)


def is_plural_verb(verb: str) -> bool:
    return verb in ("are", "were", "have", "do") or not verb.endswith("s")


def test_the_same_seed_gives_the_same_pairs_and_a_longer_list_begins_as_a_shorter_one():
    assert minimal_pairs(300, seed=5) == PAIRS[:300]
    assert minimal_pairs(40, seed=6) != PAIRS[:40]


def test_another_process_with_another_hash_seed_gives_the_same(tmp_path):
    code = "from regard.evaluation.minimal_pairs import write_minimal_pairs as w; import sys; w(sys.argv[1], 60, 3)"
    texts = []
    for hash_seed in ("1", "2"):
        path = tmp_path / f"{hash_seed}.jsonl"
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        subprocess.run([sys.executable, "-P", "-c", code, str(path)], check=True, env=environment, cwd=tmp_path)
        texts.append(path.read_text())
    assert texts[0] == texts[1] == write_minimal_pairs(tmp_path / "here.jsonl", 60, 3).read_text()


def test_the_first_pairs_stay_what_they_are():
    """Written down on the day that they were made: figures measured on a seed stay comparable."""
    first = [(p.sentence_good, p.sentence_bad) for p in minimal_pairs(4, seed=0)]
    assert first == [
        ("The book is also old.", "The book are also old."),
        ("The princess saw herself.", "The princess saw themselves."),
        ("His sons carried this bag.", "His sons carried these bag."),
        (
            "His brothers stayed near the beautiful market after the battle.",
            "His brothers stayed near the market beautiful after the battle.",
        ),
    ]


def test_no_sentence_comes_twice_and_no_wrong_one_is_right_elsewhere():
    good, bad = [p.sentence_good for p in PAIRS], [p.sentence_bad for p in PAIRS]
    assert len(set(good)) == len(set(bad)) == len(PAIRS)
    assert not set(good) & set(bad)


def test_phenomena_and_their_paradigms_come_equally_often():
    counts = {name: sum(p.phenomenon == name for p in PAIRS) for name in PHENOMENA}
    assert counts == dict.fromkeys(PHENOMENA, 1500)
    for name, paradigms in PHENOMENA.items():
        several = [sum(p.phenomenon == name and p.paradigm == one for p in PAIRS) for one in paradigms]
        assert max(several) - min(several) <= 2


def test_sentences_are_written_as_sentences():
    for pair in PAIRS:
        for sentence in (pair.sentence_good, pair.sentence_bad):
            assert re.fullmatch(r"[A-Z][A-Za-z']*( [A-Za-z']+)+[.?]", sentence), sentence


def test_length_does_not_give_the_right_sentence_away():
    """Whoever takes the shorter sentence (or draws where both are as long) is right in half of each paradigm's pairs:
    the two sides come in turn, and a pair of forms is as often right one way round as the other."""
    for name, paradigms in PHENOMENA.items():
        for paradigm in paradigms:
            several = of(name, paradigm)
            gains = [len(p.sentence_bad) - len(p.sentence_good) for p in several]
            right = sum((gain > 0) + 0.5 * (gain == 0) for gain in gains) / len(gains)
            assert abs(right - 0.5) < 0.12, (paradigm, right)


def test_subject_and_verb_agree_in_the_right_sentence_alone():
    """The verb goes with the number of its subject: the noun before the first preposition or relative pronoun, or in
    an object relative the noun after "that"."""
    paradigms = ("be", "verb", "have", "attractor", "after-subject-relative", "after-object-relative")
    for pair in of("agreement", *paradigms, "in-subject-relative", "in-object-relative"):
        place, right, wrong = difference(pair)
        before = words(pair.sentence_good)[:place]
        if pair.paradigm == "in-object-relative":
            before = before[before.index("that") + 1 :]
        subject = list(itertools.takewhile(lambda word: word not in ENDS, before))
        noun = [word for word in subject if word not in ADVERBS][-1]
        assert is_plural_verb(right) == is_plural(noun), pair
        assert is_plural_verb(wrong) != is_plural(noun), pair


def test_there_and_pronouns_have_the_right_form_of_be():
    own = {"i": {"am", "was", "have"}, "he": {"is", "was", "has"}, "she": {"is", "was", "has"}}
    own |= dict.fromkeys(("we", "you", "they"), {"are", "were", "have"})
    for pair in of("agreement", "pronoun"):
        _, right, wrong = difference(pair)
        subject = words(pair.sentence_good)[0]
        assert right in own[subject]
        assert wrong not in own[subject]
    for pair in of("agreement", "there"):
        _, right, _ = difference(pair)
        assert (right in ("are", "were")) != bool({"one", "another"} & set(words(pair.sentence_good))), pair


def test_reflexives_go_with_the_subject_of_their_clause():
    """Which is the first noun with a gender, but for a clause in a clause."""
    genders = dict.fromkeys(MALE, "himself") | dict.fromkeys(FEMALE, "herself")
    singular = {"men": "man", "women": "woman", "gentlemen": "gentleman", "ladies": "lady"}
    singular |= {f"{noun}{ending}": noun for noun in genders for ending in ("s", "es")}
    for pair in of("reflexives"):
        _, right, wrong = difference(pair)
        clause = words(pair.sentence_good)
        if pair.paradigm == "person":
            continue
        if pair.paradigm == "own-clause":
            clause = clause[clause.index("that") + 1 :]
        noun = next(word for word in clause if singular.get(word, word) in genders)
        assert right == ("themselves" if noun in singular else genders[noun]), pair
        assert wrong in {"himself", "herself", "themselves"} - {right}


def test_pronouns_have_their_own_reflexives():
    own = {
        "i": "myself",
        "you": "yourself",
        "he": "himself",
        "she": "herself",
        "we": "ourselves",
        "they": "themselves",
    }
    for pair in of("reflexives", "person"):
        _, right, wrong = difference(pair)
        assert right == own[words(pair.sentence_good)[0]] != wrong


def test_determiners_fit_their_nouns():
    one, several = {"this", "that", "every", "each", "another", "one"}, {"these", "those", "many", "few", "both"}
    for pair in of("determiners", "demonstrative", "quantifier"):
        _, right, wrong = difference(pair)
        assert (right in one) != (wrong in one), pair
    for pair in of("determiners", "demonstrative-noun", "irregular-noun", "quantifier-noun"):
        place, right, wrong = difference(pair)
        assert is_plural(right) != is_plural(wrong), pair
        before = set(words(pair.sentence_good)[place - 2 : place])
        assert is_plural(right) != bool(before & one), pair
        assert is_plural(right) or not before & several, pair


def test_a_and_an_go_by_the_sound():
    for pair in of("determiners", "a-an", "a-an-adjective"):
        place, right, wrong = difference(pair)
        following = words(pair.sentence_good)[place + 1]
        vowel = following[0] in "aeiou" or following == "honest"
        vowel = vowel and following not in ("european", "unique", "useful")
        assert (right, wrong) == (("an", "a") if vowel else ("a", "an")), pair


def test_word_order_exchanges_two_neighbours_and_nothing_else():
    for pair in of("word-order"):
        good, bad = words(pair.sentence_good), words(pair.sentence_bad)
        assert good != bad
        assert sorted(good) == sorted(bad)
        start = next(i for i, (a, b) in enumerate(zip(good, bad, strict=True)) if a != b)
        end = len(good) - next(i for i, (a, b) in enumerate(zip(good[::-1], bad[::-1], strict=True)) if a != b)
        part, turned = good[start:end], bad[start:end]
        assert any(part[cut:] + part[:cut] == turned for cut in range(1, len(part))), pair


def test_items_of_a_task_have_the_right_sentence_at_either_place():
    items = builtin_items("minimal-pairs", 40, 1, phenomena=["word-order", "determiners"])
    assert [item.answer for item in items] == [0, 1] * 20
    assert {item.group for item in items} == {"word-order", "determiners"}
    for item in items:
        assert item.choices[item.answer] == item.fields["sentence_good"]
        assert item.choices[1 - item.answer] == item.fields["sentence_bad"]


def test_a_file_has_the_keys_that_benchmarks_read(tmp_path):
    rows = [json.loads(line) for line in write_minimal_pairs(tmp_path / "p.jsonl", 8).read_text().splitlines()]
    assert len(rows) == 8
    assert set(rows[0]) == {"sentence_good", "sentence_bad", "phenomenon", "paradigm"}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"number": -1}, "number=-1"),
        ({"number": 1, "phenomena": ["agrement"]}, "there is no 'agrement': did you mean 'agreement'?"),
    ],
)
def test_what_cannot_be_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        minimal_pairs(**settings)


def test_a_file_that_cannot_be_written_is_told_before_pairs_are_made(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("regard.evaluation.minimal_pairs.generation.minimal_pairs", pytest.fail)
    with pytest.raises(ValueError, match=r"^The file '.*file/p.jsonl' cannot be written: '.*file' is a file, not a f"):
        write_minimal_pairs(tmp_path / "file" / "p.jsonl")


def test_a_paradigm_without_more_pairs_says_so(monkeypatch):
    monkeypatch.setitem(PHENOMENA, "agreement", {"one": lambda draw, side: (f"Good {side}.", f"Bad {side}.")})
    with pytest.raises(ValueError, match="there are no more pairs of agreement, one"):
        minimal_pairs(3, phenomena=["agreement"])


def test_the_command_writes_a_file(tmp_path):
    from typer.testing import CliRunner

    from regard.cli import app

    path = tmp_path / "pairs.jsonl"
    settings = ["--number", "12", "--seed", "2", "--phenomenon", "reflexives", "--json"]
    result = CliRunner().invoke(app, ["minimal-pairs", str(path), *settings])
    assert result.exit_code == 0
    pairs = [MinimalPair(**json.loads(line)) for line in path.read_text().splitlines()]
    assert pairs == minimal_pairs(12, 2, ["reflexives"])
