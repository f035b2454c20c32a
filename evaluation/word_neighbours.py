"""The nearest neighbours of words and of sums of words, such as `madrid - spain + france`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.evaluation.vectors_report import aligned
from regard.evaluation.word_table import check_words
from regard.modeling.word_vectors import WordVectorsMixin

OPERATORS = ("+", "-", "=")


@dataclass(frozen=True)
class Query:
    """Words that are added and taken away, and the one that is expected to come out."""

    text: str
    positive: tuple[str, ...]
    negative: tuple[str, ...] = ()
    expected: str | None = None


def parse_query(text: str, vectors: WordVectorsMixin) -> Query:
    """Reads `king`, `czech + currency` or `madrid - spain + france = paris`, with blanks around the signs.

    Raises:
        ValueError: it cannot be read so, or a word is missing.
    """
    if text in vectors.key_to_index:  # a word may have blanks, or be a sign itself
        return Query(text, (text,))
    tokens = text.split()
    if not tokens:
        raise ValueError("A query is empty: give a word, or a sum such as 'madrid - spain + france'.")
    tokens = tokens if tokens[0] in OPERATORS[:2] else ["+", *tokens]
    signs, words = tokens[::2], tokens[1::2]
    sound = len(signs) == len(words) and all(sign in OPERATORS for sign in signs) and "=" not in signs[:-1]
    if not sound or not any(sign == "+" for sign in signs):
        raise ValueError(
            f"The query '{text}' cannot be read: it is a word, or a sum as 'madrid - spain + france = paris'."
        )
    check_words(vectors, words)
    by_sign = {one: tuple(word for sign, word in zip(signs, words, strict=True) if sign == one) for one in OPERATORS}
    expected = by_sign["="][0] if by_sign["="] else None
    if expected in (*by_sign["+"], *by_sign["-"]):
        raise ValueError(f"The query '{text}' expects '{expected}', and its own words are no answers to it.")
    return Query(text, by_sign["+"], by_sign["-"], expected)


def nearest_neighbours(
    vectors: WordVectorsMixin,
    queries: Sequence[str],
    topn: int = 10,
    method: str = "add",
    restrict_vocab: int | None = None,
) -> list[dict[str, Any]]:
    """The words nearest to each query, nearest first, without the query's own.

    Args:
        queries: as `parse_query` reads them.
        method: "add" for the cosine with the sum of unit vectors (3CosAdd), "mul" for 3CosMul.
        restrict_vocab: only among so many of the first words, which are the most frequent.

    Returns:
        For each `query` its `neighbours`, each a `word` and its `similarity`, and where a word is `expected`, its own
        `similarity` and its `rank` from 1 among all words but the query's own, None where it is not among the first
        `restrict_vocab`.

    Raises:
        ValueError: a query cannot be read, a word is missing, or `topn` is not at least 1.
    """
    if topn < 1:
        raise ValueError(f"topn={topn} must be at least 1.")
    read = [parse_query(text, vectors) for text in queries]
    return [_answer(vectors, query, topn, method, restrict_vocab) for query in read]


def _answer(
    vectors: WordVectorsMixin, query: Query, topn: int, method: str, restrict_vocab: int | None
) -> dict[str, Any]:
    near = vectors.most_similar(
        list(query.positive), list(query.negative), topn=topn, restrict_vocab=restrict_vocab, method=method
    )
    answer: dict[str, Any] = {
        "query": query.text,
        "neighbours": [{"word": word, "similarity": float(similarity)} for word, similarity in near],
    }
    if query.expected is None:
        return answer
    scores = np.array(
        vectors.most_similar(
            list(query.positive), list(query.negative), topn=None, restrict_vocab=restrict_vocab, method=method
        )
    )  # (V,)
    places = vectors.key_to_index
    own = [places[word] for word in (*query.positive, *query.negative)]
    scores[[row for row in own if row < len(scores)]] = -np.inf
    row = places[query.expected]
    there = row < len(scores)
    return answer | {
        "expected": query.expected,
        "rank": 1 + int((scores > scores[row]).sum()) if there else None,
        "similarity": float(scores[row]) if there else None,
    }


def neighbour_table(answers: Sequence[dict[str, Any]]) -> str:
    """A column for each query, a row for each rank, and a line for each word that was expected."""
    longest = max(len(answer["neighbours"]) for answer in answers)
    rows = []
    for rank in range(longest):
        cells = [answer["neighbours"][rank : rank + 1] for answer in answers]
        rows.append([str(rank + 1), *(f"{one[0]['word']} {one[0]['similarity']:.3f}" if one else "" for one in cells)])
    text = aligned(["", *(answer["query"] for answer in answers)], rows) + "\n"
    for answer in answers:
        if "expected" in answer:
            where = (
                f"number {answer['rank']:,}, {answer['similarity']:.3f}" if answer["rank"] else "not among the words"
            )
            text += f"\n{answer['query']}: {where}"
    return text.rstrip("\n") + "\n"
