"""What a task's metric comes to, over all items or any sample of them, and how sure that is.

Every metric here is a function of sums over the items, so that it can be taken of a sample with repetition as easily
as of all: of right answers, of pairs of label and prediction (F1, Matthews' correlation), of n-grams (BLEU).
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from regard.evaluation.few_shot.items import Item
    from regard.evaluation.few_shot.task import Task

SHARES = ("accuracy", "greedy", "exact_match")
"""Metrics that are a share of the items, whose interval is Wilson's."""
Z = 1.959964  # of the normal distribution, 95 %
RESAMPLES = 1000


def statistics(task: "Task", records: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """What each item adds to the sums that the metric is made of, float64 (N, D); N items."""
    if task.metric in SHARES:
        return np.array([[float(record["correct"]), 1.0] for record in records])
    if task.metric == "bleu":
        return np.array([_ngrams(record["prediction"], record["references"]) for record in records], dtype=np.float64)
    if task.metric.startswith("squad"):
        return np.array([[_squad(task.metric, record), 1.0] for record in records])
    size = len(task.labels or ())
    pairs = np.zeros((len(records), size * size))
    for row, record in zip(pairs, records, strict=True):
        row[record["answer"] * size + record["prediction"]] = 1.0
    return pairs


def value(metric: str, sums: np.ndarray) -> float:
    """The metric of sums of statistics, float64 (D,)."""
    if metric == "bleu":
        from sacrebleu.metrics import BLEU

        counts = [int(one) for one in sums]
        return BLEU.compute_bleu(counts[:4], counts[4:8], counts[8], counts[9], smooth_method="exp").score
    if metric in ("f1", "f1_binary", "matthews_correlation"):
        table = sums.reshape(math.isqrt(len(sums)), -1)  # rows: right labels, columns: predictions
        return {"f1": _macro_f1, "f1_binary": _second_f1, "matthews_correlation": _correlation}[metric](table)
    return float(sums[0] / sums[1])


def wilson(share: float, number: float) -> tuple[float, float]:
    """The interval of a share of so many at 95 % (Wilson, 1927, "Probable Inference, the Law of Succession, and
    Statistical Inference"): within 0 and 1, and not of width 0 where all items are right."""
    centre = share + Z**2 / (2 * number)
    spread = Z * math.sqrt(share * (1 - share) / number + Z**2 / (4 * number**2))
    low, high = (centre - spread) / (1 + Z**2 / number), (centre + spread) / (1 + Z**2 / number)
    return max(0.0, min(low, share)), min(1.0, max(high, share))


def clusters_of(items: "Sequence[Item]") -> np.ndarray:
    """The number of each item's cluster, int64 (N,): items under one rule are one, and one without is its own."""
    numbers: dict[int | str, int] = {}
    keys = (place if item.rule is None else item.rule for place, item in enumerate(items))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def effective_number(correct: np.ndarray, clusters: np.ndarray) -> float:
    """How many independent items say as much about a share p as these N, of which those of a cluster may go together.

    n_eff = N / design effect (Kish, 1965, "Survey Sampling"): the variance of the share over that which as many
    independent items would give it, p(1 - p)/N. The share is the ratio of two sums over M clusters, of right answers
    x_c and of items n_c, so its variance is about

        M / (M - 1) · Σ (x_c - p n_c)² / N²

    At most it is N. At least it is N² / Σ n_c², what is left where all items of each cluster agree: M for clusters of
    one size. This is also what is taken where no answer is wrong, or none is right: such answers do not tell whether
    those of a cluster agree by its rule or each for itself, so that each rule counts once.

    Args:
        correct: float (N,), the share of runs that have the item right.
        clusters: int (N,), as `clusters_of` numbers them.
    """
    number, sizes, share = len(correct), np.bincount(clusters), correct.mean()
    least = number**2 / int((sizes**2).sum())
    if len(sizes) == 1 or share in (0, 1):
        return least
    right = np.bincount(clusters, weights=correct)
    variance = len(sizes) / (len(sizes) - 1) * ((right - share * sizes) ** 2).sum() / number**2
    found = share * (1 - share) / variance if variance > 0 else number
    return float(min(number, max(least, found)))


def interval(metric: str, runs: Sequence[np.ndarray], clusters: np.ndarray) -> tuple[float, float]:
    """The interval at 95 % over the items, of the mean over runs (seeds, orders) that ask the same ones.

    Wilson's for a share: the runs ask the same items, so they do not make the sample larger, and items that share a
    rule make it smaller, as `effective_number` says. For any other metric the bootstrap's (Efron, 1979): the clusters,
    single items where none is shared, are drawn again with repetition, the same for all runs, `RESAMPLES` times.

    Args:
        runs: the statistics of each run, (N, D).
        clusters: (N,), as `clusters_of` numbers them.
    """
    if metric in SHARES:
        share = float(np.mean([value(metric, run.sum(0)) for run in runs]))
        return wilson(share, effective_number(np.mean([run[:, 0] for run in runs], axis=0), clusters))
    number = int(clusters.max()) + 1
    runs = [_by_cluster(run, clusters, number) for run in runs]  # each (M, D)
    draw = np.random.default_rng(0)
    weights = draw.multinomial(number, np.full(number, 1 / number), RESAMPLES)  # (R, M)
    sums = [weights @ run for run in runs]  # each (R, D)
    means = [np.mean([value(metric, run[sample]) for run in sums]) for sample in range(RESAMPLES)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _by_cluster(run: np.ndarray, clusters: np.ndarray, number: int) -> np.ndarray:
    sums = np.zeros((number, run.shape[1]))
    np.add.at(sums, clusters, run)
    return sums


def _macro_f1(table: np.ndarray) -> float:
    """The mean of F1 over the labels that occur or are predicted."""
    hits, total = np.diag(table), table.sum(0) + table.sum(1)
    there = total > 0
    return float(np.mean(2 * hits[there] / total[there]))


def _second_f1(table: np.ndarray) -> float:
    total = table[1].sum() + table[:, 1].sum()
    return float(2 * table[1, 1] / total) if total else 0.0


def _correlation(table: np.ndarray) -> float:
    """Matthews' correlation coefficient of any number of labels (Gorodkin, 2004, R_K)."""
    number, right, predicted = table.sum(), table.sum(1), table.sum(0)
    spread = (number**2 - right @ right) * (number**2 - predicted @ predicted)
    return float((np.trace(table) * number - right @ predicted) / math.sqrt(spread)) if spread > 0 else 0.0


def _ngrams(prediction: str, references: Sequence[str]) -> list[int]:
    """What sacrebleu counts of a sentence: n-grams in common and in all, of 1 to 4, and the two lengths."""
    from sacrebleu.metrics import BLEU

    score = BLEU(effective_order=True).sentence_score(prediction, list(references))  # the counts are the same without
    return [*score.counts, *score.totals, score.sys_len, score.ref_len]


def _squad(metric: str, record: Mapping[str, Any]) -> float:
    from regard.evaluation.squad import score_answer

    return 100 * score_answer(record["prediction"], record["references"], 1)[int(metric == "squad_f1")]
