"""Normalisations, calibration, metrics and intervals of few-shot prompting, each with its exact value."""

import math

import numpy as np
import pytest

from regard.evaluation.few_shot.items import Item, rules_of
from regard.evaluation.few_shot.measures import clusters_of, effective_number, interval, statistics, value, wilson
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


def test_what_has_no_probability_is_never_the_answer():
    """By division of probabilities: 0/0 is taken as 0, 0/0.5 is 0 and 0.5/0.25 is 2. Where only the question makes a
    choice possible, 0.1/0 is infinite, and it is the answer. JSON's null is such a zero too, and no missing number."""
    for nothing in (-math.inf, None):
        never = _choice("a", nothing, 1, content_free=nothing, unconditional=nothing)
        choices = [
            never,
            _choice("b", nothing, 2, content_free=math.log(0.5), unconditional=-1.0),
            _choice("c", math.log(0.5), 1, content_free=math.log(0.25), unconditional=math.log(0.125)),
        ]
        for rule in NORMALISATIONS:
            worth = values(choices, rule, calibrate=True)
            assert worth == [-math.inf, -math.inf, pytest.approx(math.log(2))]
            assert predict(worth, "1") == 2
        assert values(choices, "unconditional") == [-math.inf, -math.inf, pytest.approx(math.log(4))]
        lifted = _choice("d", math.log(0.1), 1, content_free=nothing, unconditional=nothing)
        for rule in ("none", "token", "character", "byte"):
            assert predict(values([*choices, lifted], rule, calibrate=True), "1") == 3
        assert values([lifted], "unconditional") == [math.inf]
    with pytest.raises(ValueError, match="The choice 'a' has no 'content_free' log-probability: it was not measured"):
        values([_choice("a", -1.0, 1)], calibrate=True)


def test_after_calibration_the_probability_without_a_question_makes_no_difference():
    """(p / p_u) / (p_cf / p_u) = p / p_cf, also where p_u is 0 and both quotients are infinite."""
    for unconditional in (-3.0, -math.inf):
        choice = _choice("a", -1.0, 1, content_free=-2.5, unconditional=unconditional)
        assert values([choice], "unconditional", calibrate=True) == [1.5]


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
    low, high = interval("bleu", [table], np.arange(3))
    assert low <= expected <= high


def test_the_bootstrap_finds_the_spread_of_a_mean():
    """The mean of n values has a standard deviation of σ/√n, so that 95 % lie within 1.96 of them. Runs over the same
    items do not make it smaller."""
    scores = np.random.default_rng(0).normal(50, 10, 400)
    run = np.stack([scores, np.ones(400)], axis=1)
    alone = np.arange(400)
    low, high = interval("squad_f1", [run], alone)
    assert high - low == pytest.approx(2 * 1.96 * scores.std() / 20, rel=0.1)
    assert interval("squad_f1", [run, run, run], alone) == (pytest.approx(low), pytest.approx(high))


def test_the_bootstrap_draws_whole_rules():
    """Each value four times, under one rule: no more is known than of the 100 different ones, σ/√100."""
    scores = np.random.default_rng(0).normal(50, 10, 100)
    run = np.stack([np.repeat(scores, 4), np.ones(400)], axis=1)
    low, high = interval("squad_f1", [run], np.repeat(np.arange(100), 4))
    assert high - low == pytest.approx(2 * 1.96 * scores.std() / 10, rel=0.1)


# --- items that share a rule -----------------------------------------------------------------------------------------


def test_items_under_one_rule_are_one_cluster():
    items = [Item(str(i), rule=rule) for i, rule in enumerate(["x", None, "y", "x", None])]
    assert clusters_of(items).tolist() == [0, 1, 2, 0, 3]
    assert (rules_of(items), rules_of(items[:3]), rules_of(items[1:2])) == (2, None, None)


def test_items_without_shared_rules_are_as_many_as_they_are():
    correct = np.array([1.0, 0, 0, 1, 1, 1, 0, 1])
    run = np.stack([correct, np.ones(8)], axis=1)
    for one in (correct, np.ones(8), np.zeros(8)):
        assert effective_number(one, np.arange(8)) == 8
    assert interval("accuracy", [run], np.arange(8)) == wilson(5 / 8, 8)


def test_where_all_items_of_a_rule_agree_each_rule_counts_once():
    """20 rules of 10 items, half of which are always right: the variance is p(1 - p)/(M - 1), as of 19 items; not
    fewer than M = 20 are taken. Of unequal clusters N² / Σ n_c² are left: 12² / (8² + 4²) = 1.8 of two."""
    clusters = np.repeat(np.arange(20), 10)
    assert effective_number(np.repeat([0.0, 1.0] * 10, 10), clusters) == 20
    assert effective_number(np.repeat([0.0, 1.0], [8, 4]), np.repeat([0, 1], [8, 4])) == pytest.approx(1.8)


def test_the_design_effect_has_the_value_of_its_formula():
    """By hand: 4 rules of 5 items, of which 5, 4, 1 and 2 are right: p = 12/20 and x_c - p n_c = 2, 1, -2, -1. The
    variance is 4/3 · 10 / 400 = 1/30, that of 20 independent items 0.24/20: they count as 20 · 0.012 · 30 = 7.2."""
    correct = np.concatenate([np.repeat([1.0, 0.0], [right, 5 - right]) for right in (5, 4, 1, 2)])
    clusters = np.repeat(np.arange(4), 5)
    assert effective_number(correct, clusters) == pytest.approx(7.2)
    run = np.stack([correct, np.ones(20)], axis=1)
    assert interval("accuracy", [run], clusters) == pytest.approx(wilson(0.6, 7.2))
    assert interval("accuracy", [run, run], clusters) == pytest.approx(wilson(0.6, 7.2))


def test_items_that_do_not_go_together_are_as_many_as_they_are():
    """Of each rule one item in two is right: less variance than of independent items, which make no sample larger."""
    assert effective_number(np.tile([1.0, 0.0], 50), np.repeat(np.arange(10), 10)) == 100


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_where_no_answer_differs_each_rule_counts_once(answer):
    """Whether the items of a rule agree by it or each for itself is not to be seen."""
    correct, clusters = np.full(200, answer), np.repeat(np.arange(20), 10)
    assert effective_number(correct, clusters) == 20
    run = np.stack([correct, np.ones(200)], axis=1)
    assert interval("accuracy", [run, run], clusters) == wilson(answer, 20)
    assert effective_number(np.array([1.0, 0.0, 1.0]), np.zeros(3, int)) == 1  # a single rule tells nothing of others


def test_the_interval_holds_the_share_of_all_rules_as_often_as_it_says():
    """200 items under 20 rules, of which a model gets 9 in 10 right or, of as many rules, 3 in 10: 0.6 over all. Of
    400 samples, Wilson's of 200 independent items holds that far less often than 95 %."""
    chance, clusters, held = np.random.default_rng(0), np.repeat(np.arange(20), 10), [0, 0]
    for _ in range(400):
        shares = chance.choice([0.9, 0.3], 20)
        run = np.stack([(chance.random(200) < shares[clusters]).astype(float), np.ones(200)], axis=1)
        for which, of in enumerate((clusters, np.arange(200))):
            low, high = interval("accuracy", [run], of)
            held[which] += low <= 0.6 <= high
    assert 0.92 <= held[0] / 400 <= 0.98
    assert held[1] / 400 < 0.8
