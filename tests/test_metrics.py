"""Each metric against a value worked out by hand, from a paper, or by the library that is known for it."""

import math
import os
import re
import subprocess
import sys
from functools import cache
from itertools import product

import numpy as np
import pytest
import sacrebleu
import sklearn.metrics

from regard.evaluation.metrics import LOWER_IS_BETTER, METRICS, TEXT_METRICS, edit_distance, get_metric
from regard.evaluation.moses import lowercased_moses_tokens

CASES = {
    "bleu": (["the cat sat on the mat"], ["the cat sat on the mat"]),
    "chrf": (["the cat"], ["the cat"]),
    "exact_match": (["the cat"], ["the cat"]),
    "bleu_moses_lowercase": (["the cat sat on the mat"], ["the cat sat on the mat"]),
    "phone_error_rate": (["K AE T"], ["K AE T"]),
    "word_error_rate": (["K AE T"], ["K AE T"]),
    "accuracy": ([1, 0], [1, 0]),
    "f1": ([1, 0], [1, 0]),
    "f1_binary": ([1, 0], [1, 0]),
    "matthews_correlation": ([1, 0], [1, 0]),
    "span_f1": ([["B-X", "O"]], [["B-X", "O"]]),
    "tag_accuracy": ([["B-X", "O"]], [["B-X", "O"]]),
    "rouge1": (["the cat"], ["the cat"]),
    "rouge2": (["the cat"], ["the cat"]),
    "rougeL": (["the cat"], ["the cat"]),
    "squad_exact_match": (["the cat"], [["the cat"]]),
    "squad_f1": (["the cat"], [["the cat"]]),
}
OPTIONS = {"bleu_moses_lowercase": {"language": "en"}}
SYSTEM = ["It is a guide to action which ensures that the military obeys.", "He read the book", "Two dogs run ."]
REFERENCE = [
    "It is a guide to action that ensures that the military will obey.",
    "he read a book",
    "Two dogs are running.",
]


def test_unknown_name_names_the_nearest():
    with pytest.raises(ValueError, match="no metric 'blue'.*did you mean 'bleu'"):
        get_metric("blue")
    with pytest.raises(ValueError, match="matthews_correlation"):
        get_metric("matthews")


def test_bleu_is_cased_detokenised_corpus_bleu_with_its_signature():
    result = get_metric("bleu").compute(predictions=SYSTEM, references=REFERENCE)
    assert result["bleu"] == sacrebleu.corpus_bleu(SYSTEM, [REFERENCE]).score
    assert re.fullmatch(r"nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:[\d.]+", result["bleu_signature"])


def test_bleu_by_hand():
    """One wrong word: 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 quadruples are right; no length penalty."""
    result = get_metric("bleu").compute(predictions=["the dog sat on the mat"], references=["the cat sat on the mat"])
    assert result["bleu"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)


def test_bleu_lowercase_and_untokenised():
    result = get_metric("bleu").compute(predictions=SYSTEM, references=REFERENCE, lowercase=True, tokenize="none")
    assert result["bleu"] == sacrebleu.corpus_bleu(SYSTEM, [REFERENCE], lowercase=True, tokenize="none").score
    assert "case:lc" in result["bleu_signature"]
    assert "tok:none" in result["bleu_signature"]


def test_bleu_with_several_references_each():
    second = ["It is the guiding principle.", "He has read the book", "Two dogs run."]
    result = get_metric("bleu").compute(
        predictions=SYSTEM, references=[list(pair) for pair in zip(REFERENCE, second, strict=True)]
    )
    assert result["bleu"] == sacrebleu.corpus_bleu(SYSTEM, [REFERENCE, second]).score
    ragged = get_metric("bleu").compute(
        predictions=SYSTEM, references=[[REFERENCE[0], second[0]], *([r] for r in REFERENCE[1:])]
    )
    assert "nrefs:var" in ragged["bleu_signature"]


def test_chrf_and_chrf_plus_plus():
    result = get_metric("chrf").compute(predictions=SYSTEM, references=REFERENCE)
    assert result["chrf"] == sacrebleu.corpus_chrf(SYSTEM, [REFERENCE]).score
    assert "nw:0" in result["chrf_signature"]
    plus = get_metric("chrf").compute(predictions=SYSTEM, references=REFERENCE, word_order=2)
    assert plus["chrf"] == sacrebleu.corpus_chrf(SYSTEM, [REFERENCE], word_order=2).score


def test_exact_match_is_cased_and_takes_any_reference():
    metric = get_metric("exact_match")
    assert metric.compute(predictions=["Evet. ", "hayır"], references=["Evet.", "Hayır"]) == {"exact_match": 0.5}
    assert metric.compute(predictions=["b"], references=[["a", "b"]]) == {"exact_match": 1.0}


# Lines of Multi30k's German test set of 2016, and what its own script made of them (test_2016_flickr.lc.norm.tok.de;
# the quotation marks stand there as &quot;).
MOSES = {
    "Ein Mann mit einem orangefarbenen Hut, der etwas anstarrt.": (
        "ein mann mit einem orangefarbenen hut , der etwas anstarrt ."
    ),
    "Ein Boston Terrier läuft über saftig-grünes Gras vor einem weißen Zaun.": (
        "ein boston terrier läuft über saftig-grünes gras vor einem weißen zaun ."
    ),
    'Eine Frau auf einem Boot namens "El Corazon" lässt schwarze Gewichte ins Wasser fallen.': (
        'eine frau auf einem boot namens " el corazon " lässt schwarze gewichte ins wasser fallen .'
    ),
    "Zwei Männer in Schwarz in einer Stadt": "zwei männer in schwarz in einer stadt",
}


def test_moses_tokens_are_those_of_multi30k():
    assert lowercased_moses_tokens(MOSES, "de") == list(MOSES.values())
    assert lowercased_moses_tokens(["Don't!"], "en") == ["don 't !"]
    assert lowercased_moses_tokens(["Er sagt: „Ja“ – und geht…"], "de") == ['er sagt : " ja " - und geht ...']
    with pytest.raises(ValueError, match="'xx' is not a language that sacremoses knows: as, bn"):
        lowercased_moses_tokens(["a"], "xx")


def test_bleu_on_lower_cased_moses_tokens_is_what_sacrebleu_counts_on_the_tokens():
    """The tokens stand here as Moses sets them; sacrebleu is called on them as by `sacrebleu -lc --tok none`."""
    predictions = ["Ein Mann, der läuft.", "Zwei Hunde im saftig-grünen Gras spielen"]
    references = ["Ein Mann läuft, der singt.", "Zwei Hunde spielen im saftig-grünen Gras."]
    second = ["ein mann der läuft!", "Hunde im Gras"]
    tokens = ["ein mann , der läuft .", "zwei hunde im saftig-grünen gras spielen"]
    reference_tokens = ["ein mann läuft , der singt .", "zwei hunde spielen im saftig-grünen gras ."]
    counted = sacrebleu.corpus_bleu(tokens, [reference_tokens], lowercase=True, tokenize="none", force=True)
    metric = get_metric("bleu_moses_lowercase")
    result = metric.compute(predictions=predictions, references=references, language="de")
    assert result["bleu_moses_lowercase"] == pytest.approx(counted.score)
    assert re.fullmatch(
        r"nrefs:1\|case:lc\|eff:no\|tok:none\|smooth:exp\|version:[\d.]+"
        r"\|pre:lowercase,normalize-punctuation.de,tokenizer.de\|sacremoses:[\d.]+",
        result["bleu_moses_lowercase_signature"],
    )
    both = [list(pair) for pair in zip(references, second, strict=True)]
    result = metric.compute(predictions=predictions, references=both, language="de")
    second_tokens = ["ein mann der läuft !", "hunde im gras"]
    counted = sacrebleu.corpus_bleu(tokens, [reference_tokens, second_tokens], tokenize="none", force=True)
    assert result["bleu_moses_lowercase"] == pytest.approx(counted.score)
    with pytest.raises(ValueError, match="by the rules of a language: give it, such as language='de'"):
        metric.compute(predictions=predictions, references=references)


def test_edit_distance_against_the_recursive_definition():
    """Every pair of sequences of up to four of two items."""

    @cache
    def distance(a, b):
        if not a or not b:
            return len(a) + len(b)
        if a[0] == b[0]:
            return distance(a[1:], b[1:])
        return 1 + min(distance(a[1:], b), distance(a, b[1:]), distance(a[1:], b[1:]))

    sequences = ["".join(letters) for n in range(5) for letters in product("xy", repeat=n)]
    assert all(edit_distance(a, b) == distance(a, b) for a in sequences for b in sequences)
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance(["AA", "B"], ["AAB"]) == 2  # tokens, not characters


def test_phone_error_rate_by_hand():
    """Against one reference each: 1 substitution in 3, 1 insertion in 2, 2 deletions in 4, none in 1."""
    predictions = ["K AH T", "B OW T", "S T", "AH"]
    references = ["K AE T", "B OW", "S AA R T", "AH"]
    result = get_metric("phone_error_rate").compute(predictions=predictions, references=references)
    assert result == {"phone_error_rate": pytest.approx(100 * (1 + 1 + 2 + 0) / (3 + 2 + 4 + 1))}
    result = get_metric("word_error_rate").compute(predictions=predictions, references=references)
    assert result == {"word_error_rate": 75.0}


def test_the_nearest_pronunciation_counts_and_of_equally_near_ones_the_shortest():
    rate = get_metric("phone_error_rate")
    several = [["T AH M EY T OW", "T AH M AA T OW"]]
    assert rate.compute(predictions=["T AH M AA T OW"], references=several) == {"phone_error_rate": 0.0}
    wrong = rate.compute(predictions=["T M AA T OW"], references=several)
    assert wrong == {"phone_error_rate": pytest.approx(100 / 6)}
    for tied in (["AH", "AH B K"], ["AH B K", "AH"]):  # one edit from either, in either order
        assert rate.compute(predictions=["AH B"], references=[tied]) == {"phone_error_rate": 100.0}
    assert rate.compute(predictions=["AH  B "], references=[["AH B", "AH"]]) == {"phone_error_rate": 0.0}
    predictions, references = ["T AH M AA T OW ", "B"], [*several, ["B AH", "B IY"]]
    right = get_metric("word_error_rate").compute(predictions=predictions, references=references)
    assert right == {"word_error_rate": 50.0}
    with pytest.raises(ValueError, match="divides by the length of the references"):
        rate.compute(predictions=["AH"], references=[""])


def test_what_is_better():
    assert set(METRICS) & LOWER_IS_BETTER == {"perplexity", "phone_error_rate", "word_error_rate"}
    texts = {"bleu", "bleu_moses_lowercase", "chrf", "exact_match", "rouge1", "rouge2", "rougeL"}
    assert texts == set(TEXT_METRICS) - LOWER_IS_BETTER


PREDICTED, GOLD = [0, 2, 1, 0, 0, 1, 1, 2, 0], [0, 1, 2, 0, 1, 1, 1, 0, 0]


def test_accuracy():
    assert get_metric("accuracy").compute(predictions=PREDICTED, references=GOLD) == {"accuracy": 5 / 9}


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_f1_averages(average):
    result = get_metric("f1").compute(predictions=PREDICTED, references=GOLD, average=average)
    expected = sklearn.metrics.f1_score(GOLD, PREDICTED, average=average)
    assert result == {"f1": pytest.approx(expected)}


def test_f1_by_hand():
    """Class 0: precision 3/4, recall 3/4. Class 1: 2/3, 2/4. Class 2: 0. F1 = 3/4, 4/7, 0."""
    result = get_metric("f1").compute(predictions=PREDICTED, references=GOLD)
    assert result["f1"] == pytest.approx((3 / 4 + 4 / 7 + 0) / 3)
    with pytest.raises(ValueError, match="average='mean'"):
        get_metric("f1").compute(predictions=[0], references=[0], average="mean")


def test_f1_of_the_second_label_by_hand():
    """Of label 1 two are right, one too many, one missed: precision and recall 2/3."""
    result = get_metric("f1_binary").compute(predictions=[1, 1, 0, 1, 0], references=[1, 0, 1, 1, 0])
    assert result == {"f1_binary": pytest.approx(2 / 3)}


def test_matthews_correlation_by_hand():
    """TP 6, FN 2, TN 3, FP 1: (6*3 - 1*2) / sqrt(7 * 8 * 4 * 5) = 0.478."""
    predictions = [1] * 6 + [0] * 2 + [0] * 3 + [1]
    references = [1] * 8 + [0] * 4
    result = get_metric("matthews_correlation").compute(predictions=predictions, references=references)
    assert result["matthews_correlation"] == pytest.approx(16 / math.sqrt(7 * 8 * 4 * 5))
    one_class = get_metric("matthews_correlation").compute(predictions=[1, 1], references=[1, 0])
    assert one_class["matthews_correlation"] == 0


def test_span_f1_counts_whole_spans():
    """Of three gold spans one is found, of two predicted spans one is right (the example of seqeval's README)."""
    gold = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O", "B-LOC"]]
    predicted = [["O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O", "O"]]
    result = get_metric("span_f1").compute(predictions=predicted, references=gold)
    assert result == {
        "span_f1": pytest.approx(2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3)),
        "span_precision": 1 / 2,
        "span_recall": pytest.approx(1 / 3),
        "span_lost_words": 0,
    }


def test_span_f1_counts_words_lost_to_truncation_as_missed():
    result = get_metric("span_f1").compute(
        predictions=[["B-LOC", "O"]], references=[["B-LOC", "O", "O", "B-PER", "I-PER"]]
    )
    assert (result["span_recall"], result["span_precision"], result["span_lost_words"]) == (0.5, 1.0, 3)
    with pytest.raises(ValueError, match="3 tags for the 2 words of example 0"):
        get_metric("span_f1").compute(predictions=[["O", "O", "O"]], references=[["O", "O"]])


def test_perplexity_weighs_windows_by_their_targets():
    """Means of 1.0 over 3 targets and 3.0 over 1: exp(6/4) = 4.4817, not exp(2) = 7.389."""
    metric = get_metric("perplexity")
    assert metric.compute(nll_sum=[3.0, 3.0], count=[3, 1])["perplexity"] == pytest.approx(4.4817, abs=1e-4)
    metric.add_batch(nll_sum=[3.0], count=[3])
    metric.add(nll_sum=3.0, count=1)
    assert metric.compute() == {"perplexity": pytest.approx(math.exp(1.5)), "loss": pytest.approx(1.5)}
    assert metric.compute(nll_sum=[1e6], count=[1])["perplexity"] == math.inf
    with pytest.raises(ValueError, match="at least one target"):
        metric.compute(nll_sum=[0.0], count=[0])


def test_batches_give_what_the_whole_gives():
    metric = get_metric("accuracy")
    for start in range(0, 9, 4):
        metric.add_batch(
            predictions=np.array(PREDICTED[start : start + 4]), references=np.array(GOLD[start : start + 4])
        )
    assert metric.compute() == {"accuracy": 5 / 9}
    assert metric.compute(predictions=[1], references=[1]) == {"accuracy": 1.0}  # nothing is left from before


@pytest.mark.parametrize("name", CASES)
def test_nothing_to_compare_is_an_error(name):
    with pytest.raises(ValueError, match="has nothing to compare"):
        get_metric(name).compute()
    with pytest.raises(ValueError, match="has nothing to compare"):
        get_metric(name).compute(predictions=[], references=[])
    predictions, references = CASES[name]
    with pytest.raises(ValueError, match=r"[Mm]ismatch"):
        get_metric(name).compute(predictions=predictions, references=references * 2)


def test_no_network_and_no_files(tmp_path):
    """In a process whose sockets raise, with a home of its own: every metric computes and nothing is written."""
    script = f"""
import socket
def refuse(*args, **kwargs):
    raise OSError("no network here")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
from regard.evaluation.metrics import METRICS, get_metric
cases = {CASES!r}
for name in METRICS:
    if name == "perplexity":
        print(name, get_metric(name).compute(nll_sum=[1.0], count=[2]))
    else:
        options = {OPTIONS!r}.get(name, {{}})
        print(name, get_metric(name).compute(predictions=cases[name][0], references=cases[name][1], **options))
"""
    hidden = {"HF_EVALUATE_OFFLINE", "HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE", "HF_DATASETS_CACHE", "HF_MODULES_CACHE"}
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    environment |= {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(METRICS)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and "matplotlib" not in str(path)] == []


def test_the_package_loads_without_evaluate():
    script = "import sys, regard.evaluation; print('evaluate' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
