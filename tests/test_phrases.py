"""Pairs of words that come together more often than chance has it."""

import itertools
import re
from collections import Counter

import numpy as np
import pytest

from regard.train.corpus import BREAK, STRETCH, number_sentences
from regard.train.phrases import _written as WRITTEN  # noqa: N812
from regard.train.phrases import find_phrases, join_phrases


def words_of(text) -> list[list[str]]:
    joined = " ".join("\n" if i == BREAK else text.words[i] for i in text.tokens)
    return [line.split() for line in joined.split("\n") if line.strip()]


def planted() -> list[list[str]]:
    rng = np.random.default_rng(0)
    noise = [[f"w{i}" for i in rng.integers(0, 30, 12)] for _ in range(400)]
    for sentence in noise[:150]:
        sentence[3:5] = ["new", "york"]
    for sentence in noise[:60]:
        sentence[5:6] = ["times"]
    return noise


def score_all(sentences, delta):
    """Equation 6 by a plain count."""
    words = Counter(word for sentence in sentences for word in sentence)
    pairs = Counter(pair for sentence in sentences for pair in itertools.pairwise(sentence))
    total = sum(words.values())
    return {(a, b): (n - delta) / (words[a] * words[b]) * total for (a, b), n in pairs.items()}


@pytest.mark.parametrize("delta", [0, 5])
@pytest.mark.parametrize("threshold", [0.9, 20])
def test_phrases_are_those_above_the_threshold(threshold, delta):
    sentences = planted()
    text = number_sentences(sentences)
    found = find_phrases(text, threshold, delta, min_count=1)
    pairs = {(text.words[a], text.words[b]) for a, b in zip(*np.divmod(found, len(text.words)), strict=True)}
    assert pairs == {pair for pair, score in score_all(sentences, delta).items() if score > threshold}


def test_a_pass_joins_from_the_left_and_the_next_makes_longer_phrases():
    sentences = planted()
    once = join_phrases(number_sentences(sentences), [20])
    joined = [" ".join(s).replace("new york", "new_york") for s in sentences]
    assert [" ".join(s) for s in words_of(once)] == joined
    twice = join_phrases(number_sentences(sentences), [20, 20])
    assert [" ".join(s) for s in words_of(twice)] == [s.replace("new_york times", "new_york_times") for s in joined]


def test_counts_and_words_are_those_of_the_new_text():
    for thresholds in ([20], [20, 20], [0.9], []):
        text = join_phrases(number_sentences(planted()), thresholds)
        counts = Counter(w for s in words_of(text) for w in s)
        assert dict(zip(text.words, text.counts.tolist(), strict=True)) == counts


def test_no_phrase_crosses_the_end_of_a_sentence_or_overlaps():
    text = number_sentences([["a", "b", "a", "b", "a"]] * 30 + [["x"], ["b"]])
    assert words_of(join_phrases(text, [0.0], delta=0, min_count=1))[0] == ["a_b", "a_b", "a"]
    text = number_sentences([["a"], ["b"]] * 50)
    assert words_of(join_phrases(text, [0.0], delta=0)) == [["a"], ["b"]] * 50


def test_a_word_that_looks_like_a_phrase_is_that_phrase():
    text = join_phrases(number_sentences([["new", "york"]] * 20 + [["new_york"]] * 3), [0.5], min_count=1, delta=0)
    assert text.counts[text.words.index("new_york")] == 23
    assert len(set(text.words)) == len(text.words)


def test_stretches_leave_no_seam(monkeypatch, tmp_path):
    sentences = planted()
    whole = words_of(join_phrases(number_sentences(sentences), [20, 20]))
    monkeypatch.setattr("regard.train.phrases.STRETCH", 7)
    parts = join_phrases(number_sentences(sentences), [20, 20], path=tmp_path / "phrases")
    assert words_of(parts) == whole
    assert STRETCH > 7


def test_pairs_that_do_not_fit_the_memory_are_merged_from_files(monkeypatch, tmp_path):
    sentences = planted()
    text = number_sentences(sentences)
    whole = find_phrases(text, 0.9, 1, min_count=1)
    monkeypatch.setattr("regard.train.phrases.STRETCH", 100)
    runs = []
    monkeypatch.setattr("regard.train.phrases._written", lambda *given: runs.append(given[0]) or WRITTEN(*given))
    for most in (3, 100, 400):
        monkeypatch.setattr("regard.train.phrases.MOST_PAIRS", most)
        runs.clear()
        assert find_phrases(text, 0.9, 1, min_count=1, folder=tmp_path).tolist() == whole.tolist()
        assert len(runs) > 1
    assert not list(tmp_path.iterdir())
    assert find_phrases(text, 0.9, min_count=10**6).tolist() == []


def test_of_the_files_of_the_passes_the_last_one_stays(tmp_path):
    told = []
    text = join_phrases(
        number_sentences(planted()), [20, 20, 20], path=tmp_path / "phrases", report=lambda *n: told.append(n)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["phrases3"]
    assert (tmp_path / "phrases3").stat().st_size == 4 * len(text.tokens)
    assert [number for number, _ in told] == [1, 2, 3]
    assert told[0][1] == len(find_phrases(number_sentences(planted()), 20))


def test_negative_settings_are_refused():
    text = number_sentences([["a", "b"]])
    for settings in ({"thresholds": [-1]}, {"thresholds": [1], "delta": -1}, {"thresholds": [float("nan")]}):
        with pytest.raises(ValueError, match=re.escape("must not be negative")):
            join_phrases(text, **settings)
