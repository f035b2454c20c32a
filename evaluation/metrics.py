"""Metrics as `evaluate.Metric` objects that need no network: nothing is downloaded, locked or left in a cache.

`evaluate.load` asks the Hub even for accuracy. These classes hold the same interface (`add`, `add_batch`, `compute`)
over sacrebleu, scikit-learn and seqeval. Importing this module takes seconds, because `evaluate` does.
"""

import difflib
import math
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import evaluate
from datasets import Features, List, Value

from regard.evaluation.directions import LOWER_IS_BETTER as LOWER_IS_BETTER  # with the metrics that it is about
from regard.evaluation.likelihood import perplexity
from regard.evaluation.moses import lowercased_moses_tokens
from regard.evaluation.rouge import rouge, rouge_signature
from regard.evaluation.squad import score_answer

STRING, INTEGER, NUMBER = Value("string"), Value("int64"), Value("float64")


def get_metric(name: str) -> "LocalMetric":
    """A fresh metric by its name in `METRICS`.

    Raises:
        ValueError: an unknown name.
    """
    if name in METRICS:
        return METRICS[name]()
    near = difflib.get_close_matches(str(name), METRICS, n=1, cutoff=0.4)
    hint = f": did you mean '{near[0]}'?" if near else "."
    raise ValueError(f"There is no metric '{name}' among {', '.join(METRICS)}{hint}")


class LocalMetric(evaluate.Metric):
    """A metric that keeps its examples in memory and touches neither network nor disk.

    On several processes, gather the predictions first and compute on one: what is in memory cannot be shared.

    Class attributes that a metric sets:
        inputs: the columns, or a list of such choices of which the first that fits the data is taken.
    """

    inputs: Features | list[Features]

    def __init__(self) -> None:
        super().__init__(keep_in_memory=True)

    def _info(self) -> evaluate.MetricInfo:
        about = (self.__doc__ or "").strip()
        return evaluate.MetricInfo(description=about, citation="", inputs_description=about, features=self.inputs)

    def _build_data_dir(self) -> str:
        return self._data_dir_root  # the library makes a folder here, even for what stays in memory

    def _infer_feature_from_batch(self, batch: dict[str, Sequence[Any]]) -> Features:
        if not all(len(column) for column in batch.values()):
            sizes = ", ".join(f"{len(column)} {name}" for name, column in batch.items())
            raise ValueError(f"{self.name} has nothing to compare: {sizes}.")
        return super()._infer_feature_from_batch(batch)

    def _finalize(self) -> None:
        if self.writer is None:
            raise ValueError(f"{self.name} has nothing to compare: nothing was added.")
        super()._finalize()


TEXTS = [
    Features({"predictions": STRING, "references": STRING}),
    Features({"predictions": STRING, "references": List(STRING)}),
]
LABELS = Features({"predictions": INTEGER, "references": INTEGER})
TAGS = Features({"predictions": List(STRING), "references": List(STRING)})


class Bleu(LocalMetric):
    """Corpus BLEU (Papineni et al., 2002) as sacrebleu computes it (Post, 2018), 0 to 100, with its signature.

    Predictions are detokenised texts, references one text or a list of texts each. `compute` takes `lowercase=True`
    and `tokenize="none"` for what `sacrebleu -lc --tok none` computes, and any other tokenizer of sacrebleu.
    """

    inputs = TEXTS

    def _compute(
        self, predictions: list[str], references: list, lowercase: bool = False, tokenize: str | None = None
    ) -> dict[str, Any]:
        from sacrebleu.metrics import BLEU

        metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=tokenize == "none")
        score = metric.corpus_score(predictions, _streams(references)).score
        return {"bleu": score, "bleu_signature": str(metric.get_signature())}


class Chrf(LocalMetric):
    """Corpus chrF (Popović, 2015) as sacrebleu computes it, 0 to 100, with its signature.

    Predictions are detokenised texts, references one text or a list of texts each. `compute` takes `lowercase` and
    `word_order`: 2 makes it chrF++ (Popović, 2017).
    """

    inputs = TEXTS

    def _compute(
        self, predictions: list[str], references: list, lowercase: bool = False, word_order: int = 0
    ) -> dict[str, Any]:
        from sacrebleu.metrics import CHRF

        metric = CHRF(lowercase=lowercase, word_order=word_order)
        score = metric.corpus_score(predictions, _streams(references)).score
        return {"chrf": score, "chrf_signature": str(metric.get_signature())}


class BleuMosesLowercase(LocalMetric):
    """Corpus BLEU, 0 to 100, on lower-cased Moses tokens, with a signature that names every step.

    Predictions and references are ordinary texts. Both are lower-cased, their punctuation is normalised and they are
    tokenised by Moses' rules (`lowercased_moses_tokens`), and the tokens are counted as `sacrebleu -lc --tok none`
    counts them. Published scores of small Multi30k models are of this kind. They are not those of `bleu`, and the
    two must never stand in one column.

    `compute` takes `language`, the code of the predictions' language, such as `de`.
    """

    inputs = TEXTS

    def _compute(self, predictions: list[str], references: list, language: str | None = None) -> dict[str, Any]:
        from sacrebleu.metrics import BLEU

        if language is None:
            raise ValueError(f"{self.name} tokenises by the rules of a language: give it, such as language='de'.")
        metric = BLEU(lowercase=True, tokenize="none", force=True)
        streams = _streams([lowercased_moses_tokens(several, language) for several in _lists(references)])
        score = metric.corpus_score(lowercased_moses_tokens(predictions, language), streams).score
        steps = (
            f"pre:lowercase,normalize-punctuation.{language},tokenizer.{language}|sacremoses:{version('sacremoses')}"
        )
        return {
            "bleu_moses_lowercase": score,
            "bleu_moses_lowercase_signature": f"{metric.get_signature()}|{steps}",
        }


def _lists(references: list[str] | list[list[str]]) -> list[list[str]]:
    """The references of every example as a list, also where there is one."""
    return [[one] if isinstance(one, str) else one for one in references]


def _streams(references: list[str] | list[list[str]]) -> list[list[str | None]]:
    """References by number, as sacrebleu wants them: the first of every example, the second of every example, ..."""
    several = _lists(references)
    return [[one[i] if i < len(one) else None for one in several] for i in range(max(map(len, several)))]


class ExactMatch(LocalMetric):
    """The share of predictions, 0 to 1, that equal a reference; white space at the ends does not count."""

    inputs = TEXTS

    def _compute(self, predictions: list[str], references: list) -> dict[str, float]:
        pairs = zip(predictions, _lists(references), strict=True)
        return {"exact_match": sum(p.strip() in map(str.strip, r) for p, r in pairs) / len(predictions)}


class SquadExactMatch(LocalMetric):
    """The share of questions, 0 to 100, that are answered right by the rule of SQuAD: case, punctuation, articles and
    runs of white space do not count, and of several right answers any one will do.

    References are lists of right answers, empty for a question without one, which the empty answer answers.
    `compute` takes `version`, 1 or 2 (`regard.evaluation.squad` tells how they differ): 2 by default where there are
    questions without an answer, and then what the two kinds of questions have is given too.
    """

    inputs = Features({"predictions": STRING, "references": List(STRING)})
    kind, place = "squad_exact_match", 0

    def _compute(
        self, predictions: list[str], references: list[list[str]], version: int | None = None
    ) -> dict[str, float]:
        answerable = [bool(several) for several in references]
        version = version or (1 if all(answerable) else 2)
        if version not in (1, 2) or (version == 1 and not all(answerable)):
            raise ValueError(f"version={version} of {self.name} must be 2, or 1 where all questions have an answer.")
        pairs = zip(predictions, references, strict=True)
        scores = [score_answer(prediction, several, version)[self.place] for prediction, several in pairs]
        kinds = {"": scores}
        if not all(answerable):
            kinds["_has_answer"] = [score for score, has in zip(scores, answerable, strict=True) if has]
            kinds["_no_answer"] = [score for score, has in zip(scores, answerable, strict=True) if not has]
        return {f"{self.kind}{end}": 100 * math.fsum(some) / len(some) for end, some in kinds.items() if some}


class SquadF1(SquadExactMatch):
    """The mean F1 of the words of an answer, 0 to 100, by the rule of SQuAD; else as `squad_exact_match`."""

    kind, place = "squad_f1", 1


class PhoneErrorRate(LocalMetric):
    """Errors per hundred phones of spelling to sound: edits to the nearest pronunciation over its length, both summed
    over all items. Lower is better; more errors than phones give more than 100.

    The usual measure of the task (Yao & Zweig, 2015, "Sequence-to-sequence neural net models for grapheme-to-phoneme
    conversion"): an edit inserts, deletes or substitutes one phone, a token between white space, and of several right
    pronunciations the nearest counts. Where several are equally near, the shortest is taken for the length, so that a
    tie never lowers the rate.
    """

    inputs = TEXTS

    def _compute(self, predictions: list[str], references: list) -> dict[str, float]:
        edits, phones = 0, 0
        for prediction, several in zip(predictions, _lists(references), strict=True):
            tokens = [reference.split() for reference in several]
            distance, length = min((edit_distance(prediction.split(), one), len(one)) for one in tokens)
            edits, phones = edits + distance, phones + length
        if phones == 0:
            raise ValueError(f"{self.name} divides by the length of the references, and all of them are empty.")
        return {"phone_error_rate": 100 * edits / phones}


class WordErrorRate(LocalMetric):
    """The share of items, 0 to 100, whose prediction is none of their references, token by token. Lower is better.

    The usual measure of spelling to sound beside `phone_error_rate`, from the same source: a word is right or wrong as
    a whole, and any of its pronunciations is right. It is not the measure of that name in speech recognition, which
    counts edits of words in a sentence.
    """

    inputs = TEXTS

    def _compute(self, predictions: list[str], references: list) -> dict[str, float]:
        pairs = zip(predictions, _lists(references), strict=True)
        wrong = sum(p.split() not in [reference.split() for reference in r] for p, r in pairs)
        return {"word_error_rate": 100 * wrong / len(predictions)}


def edit_distance(one: Sequence[Any], other: Sequence[Any]) -> int:
    """The fewest insertions, deletions and substitutions that make `one` into `other` (Levenshtein, 1966), by dynamic
    programming over prefixes (Wagner & Fischer, 1974)."""
    row = list(range(len(other) + 1))  # row[j]: from the items of `one` so far to the first j of `other`
    for i, left in enumerate(one, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
    return row[-1]


class Accuracy(LocalMetric):
    """The share of labels, 0 to 1, that are right."""

    inputs = LABELS

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        from sklearn.metrics import accuracy_score

        return {"accuracy": float(accuracy_score(references, predictions))}


class F1(LocalMetric):
    """F1 over the classes, 0 to 1.

    `compute` takes `average`: "macro" (the mean over the classes, the default), "micro" (over all examples; the
    accuracy, when each has one label), "weighted" (by how often a class occurs) or "binary" (of class 1): say which
    with the number, they differ widely on skewed data. A class never predicted counts as 0.
    """

    inputs = LABELS

    def _compute(self, predictions: list[int], references: list[int], average: str = "macro") -> dict[str, float]:
        from sklearn.metrics import f1_score

        if average not in ("macro", "micro", "weighted", "binary"):
            raise ValueError(f"average='{average}' of f1 must be macro, micro, weighted or binary.")
        score = float(f1_score(references, predictions, average=average, zero_division=0))
        return {"f1": score}


class F1Binary(LocalMetric):
    """F1 of the second of two labels, 0 to 1: what GLUE reports of paraphrases (MRPC), where `f1` is the mean of both
    labels."""

    inputs = LABELS

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        return {"f1_binary": F1()._compute(predictions, references, average="binary")["f1"]}


class MatthewsCorrelation(LocalMetric):
    """Matthews' correlation coefficient, -1 to 1, for two classes or more; 0 when all predictions are one class."""

    inputs = LABELS

    def _compute(self, predictions: list[int], references: list[int]) -> dict[str, float]:
        from sklearn.metrics import matthews_corrcoef

        return {"matthews_correlation": float(matthews_corrcoef(references, predictions))}


class SpanF1(LocalMetric):
    """F1, precision and recall, 0 to 1, over whole spans of B-/I-/O tags, one tag a word, as conlleval counts them.

    A prediction shorter than its reference, because the model's input was cut, is taken as O on the lost words, and so
    is an empty tag. They are counted: their spans are missed, not forgotten.
    """

    inputs = TAGS

    def _compute(self, predictions: list[list[str]], references: list[list[str]]) -> dict[str, float]:
        from seqeval.metrics import f1_score, precision_score, recall_score

        predictions = _whole(self.name, predictions, references)
        lost = sum(row.count("") for row in predictions)
        predictions = [[tag or "O" for tag in row] for row in predictions]
        scores = {"span_f1": f1_score, "span_precision": precision_score, "span_recall": recall_score}
        result = {key: float(score(references, predictions, zero_division=0)) for key, score in scores.items()}
        return result | {"span_lost_words": lost}


class TagAccuracy(LocalMetric):
    """The share of words, 0 to 1, whose tag is right. Words that a prediction lacks at its end, because the model's
    input was cut, and words with an empty tag are wrong."""

    inputs = TAGS

    def _compute(self, predictions: list[list[str]], references: list[list[str]]) -> dict[str, float]:
        pairs = zip(_whole(self.name, predictions, references), references, strict=True)
        right = [guess == tag for row, tags in pairs for guess, tag in zip(row, tags, strict=True)]
        if not right:
            raise ValueError(f"{self.name} has nothing to compare: there is no word.")
        return {"tag_accuracy": sum(right) / len(right)}


def _whole(name: str, predictions: list[list[str]], references: list[list[str]]) -> list[list[str]]:
    """Predictions with an empty tag for each word that they lack at the end."""
    for number, (row, tags) in enumerate(zip(predictions, references, strict=True)):
        if len(row) > len(tags):
            raise ValueError(
                f"{name} got {len(row)} tags for the {len(tags)} words of example {number}: score one tag a word, not "
                "one a token."
            )
    return [row + [""] * (len(tags) - len(row)) for row, tags in zip(predictions, references, strict=True)]


class Rouge1(LocalMetric):
    """ROUGE-1 (Lin, 2004), the F-measure of words in common, 0 to 100, as rouge_score computes it, with a signature.

    Predictions are texts, references one text or a list of texts each. `compute` takes `language`, the code of the
    texts' language, such as `de`: English by default, whose words are stemmed.
    """

    inputs = TEXTS
    kind = "rouge1"

    def _compute(self, predictions: list[str], references: list, language: str | None = None) -> dict[str, Any]:
        score = rouge(self.kind, predictions, _lists(references), language)
        return {self.kind: score, f"{self.kind}_signature": rouge_signature(language)}


class Rouge2(Rouge1):
    """ROUGE-2 (Lin, 2004), the F-measure of pairs of neighbours in common; else as `rouge1`."""

    kind = "rouge2"


class RougeL(Rouge1):
    """ROUGE-L (Lin, 2004), the F-measure of the longest common subsequence of the words of two texts, whose lines are
    not told apart (`rougeLsum` of rouge_score is another measure); else as `rouge1`."""

    kind = "rougeL"


class Perplexity(LocalMetric):
    """exp of the mean negative log-likelihood of a target, a ratio of sums over all targets.

    `nll_sum` is a batch's (or window's, or document's) sum of negative log-likelihoods in nats, `count` its number of
    targets, so the result does not depend on how the data were cut into batches.
    """

    inputs = Features({"nll_sum": NUMBER, "count": INTEGER})

    def _compute(self, nll_sum: list[float], count: list[int]) -> dict[str, float]:
        if sum(count) <= 0 or min(count) < 0:
            raise ValueError(f"perplexity needs at least one target, and got a count of {sum(count)}.")
        loss = math.fsum(nll_sum) / sum(count)
        return {"perplexity": perplexity(loss), "loss": loss}


METRICS: dict[str, type[LocalMetric]] = {
    "bleu": Bleu,
    "bleu_moses_lowercase": BleuMosesLowercase,
    "chrf": Chrf,
    "exact_match": ExactMatch,
    "squad_exact_match": SquadExactMatch,
    "squad_f1": SquadF1,
    "phone_error_rate": PhoneErrorRate,
    "word_error_rate": WordErrorRate,
    "accuracy": Accuracy,
    "f1": F1,
    "f1_binary": F1Binary,
    "matthews_correlation": MatthewsCorrelation,
    "span_f1": SpanF1,
    "tag_accuracy": TagAccuracy,
    "rouge1": Rouge1,
    "rouge2": Rouge2,
    "rougeL": RougeL,
    "perplexity": Perplexity,
}

TEXT_METRICS = tuple(name for name, metric in METRICS.items() if metric.inputs is TEXTS)
"""Those that compare written text with references."""

OF_A_LANGUAGE = ("bleu_moses_lowercase", "rouge1", "rouge2", "rougeL")
"""Those whose `compute` takes the language of the texts."""
