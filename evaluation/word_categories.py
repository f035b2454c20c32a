"""Whether words fall into the groups that people put them in."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from regard.evaluation.word_sets import Member
from regard.evaluation.word_table import WordTable

STARTS = 20  # of k-means, of which the tightest clustering is taken


def purity(clusters: Sequence[Hashable], categories: Sequence[Hashable]) -> float:
    """The share of items that belong to the most frequent category of their cluster (Zhao & Karypis, 2001)."""
    if not len(categories):
        raise ValueError("The purity of no items is not defined.")
    found: dict[Hashable, Counter] = defaultdict(Counter)
    for cluster, category in zip(clusters, categories, strict=True):
        found[cluster][category] += 1
    return sum(max(counts.values()) for counts in found.values()) / len(categories)


def evaluate_categories(
    table: WordTable, members: Sequence[Member], seed: int = 0
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The purity of clusters that k-means finds among the unit vectors, as many as there are categories.

    Args:
        seed: of the starts of k-means; the same seed gives the same clusters.

    Returns:
        The measures: `purity` of the words that are found (None where fewer than two of two categories are),
        `purity_missing_wrong`, where the others count as misplaced, the counts `words`, `found`, `categories` and the
        ratio `coverage`. And each word with its `cluster`, None where it is missing.

    Raises:
        ValueError: no words.
    """
    from sklearn.cluster import KMeans

    if not members:
        raise ValueError("There are no words in categories to measure on.")
    places = table.rows(member.word for member in members)
    there = places >= 0
    categories = [member.category for member, is_there in zip(members, there, strict=True) if is_there]
    wanted = len(set(categories))
    clusters: list[int] = []
    if wanted > 1:
        units = table.units[places[there]].astype("float64")
        clusters = KMeans(wanted, n_init=STARTS, random_state=seed).fit_predict(units).tolist()
    pure = purity(clusters, categories) if clusters else None
    measures = {
        "purity": pure,
        "purity_missing_wrong": (pure or 0.0) * len(categories) / len(members),
        "words": len(members),
        "found": len(categories),
        "categories": len({member.category for member in members}),
        "coverage": len(categories) / len(members),
    }
    found = iter(clusters)
    each = [
        member._asdict() | {"cluster": next(found, None) if is_there else None}
        for member, is_there in zip(members, there, strict=True)
    ]
    return measures, each
