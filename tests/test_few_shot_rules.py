"""Normalisations, calibration, metrics and intervals of few-shot prompting, each with its exact value."""

import math

import numpy as np
import pytest

from regard.evaluation.few_shot.measures import interval, statistics, value, wilson
from regard.evaluation.few_shot.rules import NORMALISATIONS, best, predict, values
from regard.evaluation.few_shot.task import Choices, Data, Generation, Task


def _choice(text, log_probability, tokens, **more):
    return {
        "text": text,
        "log_probability": log_probability,
        "tokens": tokens,
        "characters": len(text),
        "bytes": len(text.encode()),
        **more,
    }


def test_length_counts_tokens_characters_or_bytes_as_the_rule_says():
    """-4 for two characters of six bytes and -5 for three of three: per character -2 and -1.667, per byte -0.667 and
    -1.667, so that the rules disagree."""
    choices = [_choice("鲸鱼", -4.0, 2, unconditional=-5.0), _choice("abc", -5.0, 1, unconditional=-5.5)]
    assert values(choices, "none") == [-4.0, -5.0]
    assert values(choices, "character") == [-2.0, pytest.approx(-5 / 3)]
    assert values(choices, "byte") == [pytest.approx(-4 / 6), pytest.approx(-5 / 3)]
    assert values(choices, "token") == [-2.0, -5.0]
    assert values(choices, "unconditional") == [1.0, 0.5]
    assert {rule: predict(values(choices, rule), "1") for rule in NORMALISATIONS} == {
        "none": 0,
        "token": 0,
        "character": 1,
        "byte": 0,
        "unconditional": 0,
    }


@pytest.mark.parametrize("rule", NORMALISATIONS)
def test_after_calibration_the_content_free_prompt_has_no_favourite(rule):
    """Zhao et al. (2021), section 5: W = diag(p_cf)⁻¹ makes the prediction for the content-free input uniform."""
    free = {"a": -0.1, "bb": -2.5, "ccc": -7.0}
    choices = [_choice(text, lp, 1, unconditional=-3.0, content_free=lp) for text, lp in free.items()]
    assert values(choices, rule, calibrate=True) == [0.0, 0.0, 0.0]


def test_calibration_is_a_division_of_probabilities():
    """p = (0.6, 0.3) and p_cf = (0.8, 0.1) are worth (0.75, 3) by W p, so the prediction changes."""
    choices = [
        _choice("x", math.log(0.6), 1, content_free=math.log(0.8)),
        _choice("y", math.log(0.3), 1, content_free=math.log(0.1)),
    ]
    worth = values(choices, "none", calibrate=True)
    assert [math.exp(one) for one in worth] == [pytest.approx(0.75), pytest.approx(3.0)]
    assert (predict(values(choices), "1"), predict(worth, "1")) == (0, 1)


def test_of_equal_choices_none_is_favoured():
    """One of two is drawn by the item's name: over many names each about half the time (binomial, 4 deviations), and
    the same for the same name."""
    drawn = [predict([-1.0, -1.0, -2.0], str(name)) for name in range(400)]
    assert best([-1.0, -1.0, -2.0]) == [0, 1]
    assert set(drawn) == {0, 1}
    assert abs(sum(drawn) - 200) < 40
    assert drawn == [predict([-1.0, -1.0, -2.0], str(name)) for name in range(400)]


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match="normalisation: 'bytes' is not known: did you mean 'byte'?"):
        values([_choice("a", -1.0, 1)], "bytes")
    with pytest.raises(ValueError, match="The choice 'a' has no 'unconditional' log-probability: it was not measured"):
        values([_choice("a", -1.0, 1)], "unconditional")
    with pytest.raises(ValueError, match="no number"):
        predict([math.nan, -1.0], "1")


def test_wilson_has_the_values_of_its_formula():
    """(p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n): for 8 of 10, 0.490 to 0.943 (Newcombe, 1998, gives
    81/263: 0.2553 to 0.3662); never of width 0."""
    assert wilson(81 / 263, 263) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))
    assert wilson(0.8, 10) == (pytest.approx(0.490, abs=5e-4), pytest.approx(0.943, abs=5e-4))
    low, high = wilson(1.0, 50)
    assert high == 1.0
    assert low == pytest.approx(1 / (1 + 1.959964**2 / 50))


def _labels(metric, number):
    return Task("t", Data(file="x.tsv"), "{{ x }}", choices=Choices(labels=list("abc")[:number]), metric=metric)


@pytest.mark.parametrize("metric", ["f1", "f1_binary", "matthews_correlation"])
def test_metrics_of_labels_are_those_of_the_package(metric):
    """`regard.evaluation.metrics` computes them with scikit-learn."""
    from regard.evaluation.metrics import get_metric

    draw = np.random.default_rng(1)
    for labels in (2,) if metric == "f1_binary" else (2, 3):
        right, predicted = draw.integers(0, labels, 60).tolist(), draw.integers(0, labels, 60).tolist()
        records = [{"answer": a, "prediction": p, "correct": a == p} for a, p in zip(right, predicted, strict=True)]
        found = value(metric, statistics(_labels(metric, labels), records).sum(0))
        assert found == pytest.approx(get_metric(metric).compute(predictions=predicted, references=right)[metric])


def test_bleu_of_summed_ngrams_is_that_of_the_corpus():
    """sacrebleu's corpus score, through the package's metric."""
    from regard.evaluation.metrics import get_metric

    predictions = ["the cat sat on the mat", "a dog barked", "he reads the long book today"]
    references = [["the cat sat on a mat"], ["a dog barked loudly"], ["he reads a long book", "he read the long book"]]
    task = Task("t", Data(file="x.tsv"), "{{ x }}", generation=Generation(), metric="bleu")
    records = [{"prediction": p, "references": r} for p, r in zip(predictions, references, strict=True)]
    table = statistics(task, records)
    expected = get_metric("bleu").compute(predictions=predictions, references=references)["bleu"]
    assert value("bleu", table.sum(0)) == pytest.approx(expected)
    low, high = interval("bleu", [table])
    assert low <= expected <= high


def test_the_bootstrap_finds_the_spread_of_a_mean():
    """The mean of n values has a standard deviation of σ/√n, so that 95 % lie within 1.96 of them. Runs over the same
    items do not make it smaller."""
    scores = np.random.default_rng(0).normal(50, 10, 400)
    run = np.stack([scores, np.ones(400)], axis=1)
    low, high = interval("squad_f1", [run])
    assert high - low == pytest.approx(2 * 1.96 * scores.std() / 20, rel=0.1)
    assert interval("squad_f1", [run, run, run]) == (pytest.approx(low), pytest.approx(high))
