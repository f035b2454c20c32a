"""The nearest neighbours of words and of sums of words, such as `madrid - spain + france`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.evaluation.vectors_report import aligned
from regard.evaluation.word_table import UnknownWords, check_words
from regard.modeling.word_vectors import WordVectorsMixin

OPERATORS = ("+", "-", "=")
METHODS = ("add", "mul")


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
        UnknownWords: a word is missing.
        ValueError: it cannot be read so.
    """
    text = text.strip()
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
    pass_over: bool = False,
) -> list[dict[str, Any]]:
    """The words nearest to each query, nearest first, without the query's own.

    Args:
        queries: as `parse_query` reads them.
        method: "add" for the cosine with the sum of unit vectors (3CosAdd), "mul" for 3CosMul.
        restrict_vocab: only among so many of the first words, which are the most frequent.
        pass_over: a query with a missing word has an `error`, which names it, in place of `neighbours`; by default it
            is refused with all the others.

    Returns:
        For each `query` its `neighbours`, each a `word` and its `similarity`, and where a word is `expected`, its own
        `similarity` and its `rank` from 1 among all words but the query's own. Both are None where it can be no
        answer, and a `note` says why.

    Raises:
        UnknownWords: a word is missing.
        ValueError: a query cannot be read, or a setting cannot be.
    """
    check_settings(topn, method, restrict_vocab)
    read: list[Query | dict[str, Any]] = []
    for text in queries:
        try:
            read.append(parse_query(text, vectors))
        except UnknownWords as error:
            if not pass_over:
                raise
            read.append({"query": text.strip(), "error": str(error)})
    return [
        query if isinstance(query, dict) else _answer(vectors, query, topn, method, restrict_vocab) for query in read
    ]


def check_settings(topn: int, method: str, restrict_vocab: int | None) -> None:
    """Refuses settings of neighbours that cannot be, as a ValueError."""
    if topn < 1:
        raise ValueError(f"topn={topn} must be at least 1.")
    if method not in METHODS:
        raise ValueError(f"The method '{method}' is not known: it is 'add' or 'mul'.")
    if restrict_vocab is not None and restrict_vocab < 1:
        raise ValueError(f"restrict_vocab={restrict_vocab} leaves no words: it must be at least 1.")


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
    table = np.asarray(vectors.vectors)[: len(scores)]
    scores[~table.any(axis=1) | ~np.isfinite(scores)] = -np.inf  # as among the neighbours: they have no direction
    row = places[query.expected]
    answer |= {"expected": query.expected, "rank": None, "similarity": None}
    if row >= len(scores):
        return answer | {"note": f"not among the first {len(scores):,} words"}
    if scores[row] == -np.inf:
        return answer | {"note": "its vector has no direction"}
    return answer | {"rank": 1 + int((scores > scores[row]).sum()), "similarity": float(scores[row])}


def neighbour_table(answers: Sequence[dict[str, Any]]) -> str:
    """A column for each query that was answered, a row for each rank, and a line for each word that was expected."""
    answers = [answer for answer in answers if "neighbours" in answer]
    longest = max((len(answer["neighbours"]) for answer in answers), default=0)
    rows = []
    for rank in range(longest):
        cells = [answer["neighbours"][rank : rank + 1] for answer in answers]
        rows.append([str(rank + 1), *(f"{one[0]['word']} {one[0]['similarity']:.3f}" if one else "" for one in cells)])
    text = aligned(["", *(answer["query"] for answer in answers)], rows) + "\n"
    for answer in answers:
        if "expected" in answer:
            where = f"number {answer['rank']:,}, {answer['similarity']:.3f}" if answer["rank"] else answer["note"]
            text += f"\n{answer['query']}: {where}"
    return text.rstrip("\n") + "\n"
