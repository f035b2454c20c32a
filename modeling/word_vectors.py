"""What can be asked of word vectors, in the terms of gensim 4, over any table with a row a word.

Axes: V vocabulary, D width, Q queries.
"""

import difflib
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

import numpy as np
from transformers import AutoModel, PreTrainedConfig

from .configuration_word_vectors import GloVeConfig, Word2VecConfig
from .vector_files import check_words, read_vectors, write_vectors

Key = str | int | np.ndarray
Keys = Key | tuple[Key, float] | Sequence[Key | tuple[Key, float]] | None

BLOCK = 2**18  # numbers of the table that are looked at together: about a megabyte, so that they stay in the cache
SCORES = 2**24  # similarities that are held at a time
CANCELLED = 1e-6  # of the terms' lengths: what is left of a sum that is zero but for rounding
SPELLINGS = 50_000  # words, from the most frequent, among which the nearest spelling is looked for
# Lengths whose squares float32 holds with all their digits.
SHORTEST, LONGEST = 1e-15, 1e15


class UnknownWordError(KeyError):
    """A word that has no vector; the sentence names it and the nearest spelling, looked for when it is read."""

    def __init__(self, word: Any, vectors: "WordVectorsMixin"):
        super().__init__(word)
        self.word, self.vectors = word, vectors

    def __str__(self) -> str:
        return self.sentence

    @cached_property
    def sentence(self) -> str:
        near = self.vectors.nearest_spelling(self.word) if isinstance(self.word, str) else None
        hint = f": did you mean {near!r}?" if near is not None else "."
        return f"There is no vector for {self.word!r} among the {len(self.vectors)} words{hint}"

    def __reduce__(self):
        return KeyError, (str(self),)


class WordVectorsMixin:
    """gensim 4's `KeyedVectors` interface, over what a class gives: `index_to_key`, `key_to_index` and `vectors`.

    Norms are never stored: a vector that has just changed is compared as it is now. A vector of zeros has no
    direction: its similarity to anything is 0, and it is never among the most similar. One that is not finite is
    refused in a question and is never among the answers.

    A word without a vector is an `UnknownWordError` (a `KeyError`) in every method, and never passed over in silence;
    `word in vectors` tells beforehand. gensim leaves unknown words out of `doesnt_match` and `n_similarity`.
    """

    index_to_key: list[str]
    key_to_index: dict[str, int]
    vectors: np.ndarray

    # Words and rows

    @property
    def vector_size(self) -> int:
        """D, the width of a vector."""
        return self.vectors.shape[1]

    def __len__(self) -> int:
        return len(self.index_to_key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.index_to_key)

    def __contains__(self, key: object) -> bool:
        return self._row_of(key) is not None

    def __getitem__(self, keys: str | int | Sequence[str | int]) -> np.ndarray:
        """The vector of a word (D,), or those of several (N, D)."""
        if isinstance(keys, str | Integral):
            return self.get_vector(keys)
        return self._rows(np.array([self.get_index(key) for key in keys], dtype=np.int64))

    def get_index(self, key: str | int, default: int | None = None) -> int:
        """The row of a word; a number below V is a row itself.

        Raises:
            UnknownWordError: if the word has none, and there is no default.
        """
        row = self._row_of(key)
        if row is None and default is None:
            raise UnknownWordError(key, self)
        return default if row is None else row

    def get_vecattr(self, key: str | int, attr: str) -> int:
        """How often a word occurs in the training text; "count" is the only attribute.

        Raises:
            KeyError: if there is another attribute asked for, or no counts are known.
        """
        counts = getattr(self, "counts", None)
        if attr != "count" or counts is None:
            raise KeyError(f"there is no attribute {attr!r}: 'count' is one where counts are known.")
        return int(counts[self.get_index(key)])

    def get_vector(self, key: str | int, norm: bool = False) -> np.ndarray:
        """The vector of a word, float32 of shape (D,), which cannot be written to; with `norm`, of length 1.

        Raises:
            UnknownWordError: if the word has none.
        """
        vector = self._rows(np.array([self.get_index(key)]))[0]
        if norm:
            vector = unit(vector)
        vector.flags.writeable = False
        return vector

    def nearest_spelling(self, word: str) -> str | None:
        """The word that is written most alike, if one of the first `SPELLINGS` is."""
        ids = self.key_to_index
        for variant in (word.lower(), word.capitalize(), word.upper(), word.replace(" ", "_")):
            if variant in ids:
                return variant
        alike: dict[str, str] = {}
        for other in islice(self.index_to_key, SPELLINGS):
            if abs(len(other) - len(word)) <= 2:
                alike.setdefault(other.lower(), other)
        near = difflib.get_close_matches(word.lower(), alike, n=1, cutoff=0.7)
        return alike[near[0]] if near else None

    def _row_of(self, key: object) -> int | None:
        if isinstance(key, str):
            return self.key_to_index.get(key)
        if isinstance(key, Integral) and 0 <= key < len(self):
            return int(key)
        return None

    def _rows(self, rows: np.ndarray | slice) -> np.ndarray:
        """Some vectors, (N, D): copies, but a view for a slice where the memory is numpy's. No others are touched."""
        return self.vectors[rows]

    def _given(self, key: Key, directed: bool = False) -> np.ndarray:
        """The vector of a word, or the one that is given, (D,): finite, and if `directed` not zero.

        Raises:
            UnknownWordError: if the word has no vector.
            ValueError: if the vector is not of this kind, or does not have the width of the others.
        """
        word = isinstance(key, str | Integral)
        vector = self.get_vector(key) if word else np.asarray(key, dtype=np.float32)
        name = f"the vector of {key!r}" if word else "a vector that is given"
        if vector.shape != (self.vector_size,):
            raise ValueError(
                f"a vector of shape {vector.shape} cannot be compared with vectors of width {self.vector_size}."
            )
        if not np.isfinite(vector).all():
            raise ValueError(f"{name} holds a number that is not finite: it has no direction.")
        if directed and not vector.any():
            raise ValueError(f"{name} is zero, which has no direction.")
        return vector

    def _directions(self, words: Sequence[str]) -> np.ndarray:
        """Unit vectors of words, (N, D)."""
        return unit(np.stack([self._given(word) for word in words]))

    # Similarity

    def similarity(self, first: str, second: str) -> float:
        """The cosine of the angle between two words' vectors."""
        one, other = self._directions([first, second])
        return float(one @ other)

    def n_similarity(self, first: Sequence[str], second: Sequence[str]) -> float:
        """The cosine of the angle between the means of two sets of words.

        Raises:
            ValueError: if a set is empty, or one word and no list.
        """
        if isinstance(first, str) or isinstance(second, str) or not len(first) or not len(second):
            raise ValueError("n_similarity needs a list with at least one word on either side.")
        one, other = (unit(np.mean([self._given(word) for word in words], 0)) for words in (first, second))
        return float(one @ other)

    def distance(self, first: str, second: str) -> float:
        """1 - `similarity`."""
        return 1 - self.similarity(first, second)

    def distances(self, word_or_vector: Key, other_words: Sequence[str] = ()) -> np.ndarray:
        """1 - the cosine with each of some words, or with all of them, (N,)."""
        query = self._given(word_or_vector)
        if len(other_words):
            return 1 - self._directions(other_words) @ unit(query)
        return 1 - self._cosines(query[None])[0]

    def most_similar_to_given(self, word: str, words: Sequence[str]) -> str:
        """The one of some words that is most similar to a word."""
        return max(words, key=lambda other: self.similarity(word, other))

    def doesnt_match(self, words: Sequence[str]) -> str:
        """The word that is least similar to the mean of the words' directions.

        Raises:
            ValueError: if there are no words.
        """
        if isinstance(words, str) or not len(words):
            raise ValueError(f"doesnt_match needs a list of words, not {words!r}.")
        words = list(words)
        directions = self._directions(words)  # (N, D)
        scores = directions @ unit(directions.mean(0))
        return words[min(range(len(words)), key=lambda number: (scores[number], words[number]))]

    def rank(self, first: str, second: str) -> int:
        """How near the second word is to the first: 1 for its nearest neighbour."""
        return len(self.closer_than(first, second)) + 1

    def closer_than(self, first: str, second: str) -> list[str]:
        """All words that are nearer to the first word than the second is, in order of their rows.

        Raises:
            ValueError: if either has a vector of zeros, which is neither near nor far.
        """
        query = self._given(first, directed=True)
        self._given(second, directed=True)
        cosines = self._cosines(query[None])  # (1, V)
        closer = np.flatnonzero((cosines[0] > cosines[0, self.get_index(second)]) & self._has_direction(cosines))
        return [self.index_to_key[index] for index in closer if index != self.get_index(first)]

    # Neighbours

    def most_similar(
        self,
        positive: Keys = None,
        negative: Keys = None,
        topn: int | None = 10,
        *,
        restrict_vocab: int | None = None,
        method: Literal["add", "mul"] = "add",
    ) -> list[tuple[str, float]] | np.ndarray:
        """The words most similar to some words and least to others: b - a + a' is `positive=[b, a'], negative=[a]`.

        "add" (3CosAdd; Mikolov et al., 2013) takes the cosine with the sum of the words' unit vectors, by weight.
        "mul" (3CosMul; Levy and Goldberg, 2014, equation 4) takes the product of the similarities to the positive
        words over that of those to the negative ones, each shifted to [0, 1].

        Args:
            positive, negative: a word, a vector of shape (D,), a pair of one of these and its weight, or a list of
                such; two rows are (7, 8), a row and its weight (7, 0.5). In "add" a vector is taken at its own length,
                and weights act; as in gensim, one that is given to a negative word replaces the -1 and is usually
                below 0 too. "mul" looks at directions alone.
            topn: how many words to return; `None` returns the scores of all of them.
            restrict_vocab: look among so many words from the beginning, the most frequent.
            method: "add" or "mul".

        Returns:
            `topn` pairs of word and score, without the words that were given; or float32 of shape (V or
            restrict_vocab,).

        Raises:
            UnknownWordError: if a word has no vector.
            ValueError: if nothing was given, a vector is not finite, or what was given has no direction: in "add" it
                adds up to zero, in "mul" one of the vectors is zero.
        """
        positive, negative = as_list(positive), as_list(negative)
        if not positive and not negative:
            raise ValueError("most_similar needs at least one word or vector.")
        if isinstance(topn, Integral) and topn < 1:
            return []
        items = [(item, 1.0) for item in positive] + [(item, -1.0) for item in negative]
        items = [item if is_pair(item) else (item, weight) for item, weight in items]
        given = [self.get_index(key) for key, _ in items if isinstance(key, str | Integral)]
        vectors = [self._given(key, directed=method == "mul") for key, _ in items]
        limit = self._limit(restrict_vocab)
        if method == "mul":
            cosines = self._cosines(np.stack(vectors), limit)  # (N, V)
            scores = _product(cosines, len(positive))
        elif method == "add":
            query, length = np.zeros(self.vector_size), 0.0  # in float64: (D,), and how long it could be
            for (key, weight), vector in zip(items, vectors, strict=True):
                term = unit(vector) if isinstance(key, str | Integral) else vector
                query += weight * term.astype(np.float64)
                length += abs(weight) * np.linalg.norm(term.astype(np.float64))
            if not np.linalg.norm(query) > CANCELLED * length:
                raise ValueError("the words and vectors given add up to zero, which has no direction.")
            cosines = self._cosines(query[None], limit)  # (1, V)
            scores = cosines[0].copy()
        else:
            raise ValueError(f"method={method!r} must be 'add' or 'mul'.")
        if topn is None:
            return scores
        scores[~self._has_direction(cosines)] = -np.inf
        scores[[row for row in given if row < limit]] = -np.inf
        indices, best = top(scores[None], min(topn, limit))
        return [
            (self.index_to_key[index], float(score))
            for index, score in zip(indices[0], best[0], strict=True)
            if index >= 0
        ]

    def most_similar_cosmul(
        self, positive: Keys = None, negative: Keys = None, topn: int | None = 10, restrict_vocab: int | None = None
    ) -> list[tuple[str, float]] | np.ndarray:
        """`most_similar` by 3CosMul."""
        return self.most_similar(positive, negative, topn, restrict_vocab=restrict_vocab, method="mul")

    def similar_by_word(self, word: str, topn: int | None = 10, restrict_vocab: int | None = None):
        """`most_similar` to one word."""
        return self.most_similar(word, topn=topn, restrict_vocab=restrict_vocab)

    similar_by_key = similar_by_word

    def similar_by_vector(self, vector: np.ndarray, topn: int | None = 10, restrict_vocab: int | None = None):
        """`most_similar` to one vector, whose own word is not left out."""
        return self.most_similar(np.asarray(vector), topn=topn, restrict_vocab=restrict_vocab)

    def nearest(
        self,
        queries: np.ndarray,
        topn: int = 10,
        restrict_vocab: int | None = None,
        exclude: Sequence[Sequence[int]] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows most similar to each of many vectors, by one matrix product.

        Args:
            queries: (Q, D).
            topn: how many for each.
            restrict_vocab: as in `most_similar`.
            exclude: for each query, rows that shall not be among them.

        Returns:
            int64 and float32 of shape (Q, topn): rows, nearest first, and their cosines. Where there are fewer (a
            small table; a query that is zero or not finite has none), the rest is -1 and 0.

        Raises:
            ValueError: if the shapes do not fit.
        """
        queries = np.asarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.vector_size:
            raise ValueError(f"queries must be of shape (Q, {self.vector_size}), not {queries.shape}.")
        if exclude is not None and len(exclude) != len(queries):
            raise ValueError(f"exclude must have one item for each of the {len(queries)} queries, not {len(exclude)}.")
        indices = np.full((len(queries), topn), -1, dtype=np.int64)
        similarities = np.zeros((len(queries), topn), dtype=np.float32)
        limit = self._limit(restrict_vocab)
        real = np.isfinite(queries).all(1) & queries.any(1)  # (Q,)
        queries = np.where(real[:, None], queries, 0)
        step = max(1, SCORES // max(1, limit))
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            scores = self._cosines(queries[part], limit)  # (step, V)
            scores[:, ~self._has_direction(scores)] = -np.inf
            scores[~real[part]] = -np.inf
            for row, others in enumerate([] if exclude is None else exclude[part]):
                scores[row, [other for other in others if 0 <= other < limit]] = -np.inf
            indices[part], similarities[part] = top(scores, topn)
        return indices, similarities

    def _limit(self, restrict_vocab: int | None) -> int:
        if restrict_vocab is not None and restrict_vocab < 1:
            raise ValueError(f"restrict_vocab={restrict_vocab} must be at least 1.")
        return min(restrict_vocab or len(self), len(self))

    def _cosines(self, queries: np.ndarray, limit: int | None = None) -> np.ndarray:
        """Cosines of (Q, D) with the first rows, (Q, limit); 0 where either side is zero.

        By blocks of rows, so that their norms are taken while they are in the cache.
        """
        table = self._rows(slice(limit))
        queries = unit(queries).T  # (D, Q)
        scores = np.empty((len(table), queries.shape[1]), dtype=np.float32)
        step = max(1, BLOCK // max(1, table.shape[1]))
        with np.errstate(all="ignore"):  # vectors that are zero, not finite, or whose squares are not
            for start in range(0, len(table), step):
                block, part = table[start : start + step], scores[start : start + step]
                norms = np.sqrt(np.einsum("ij,ij->i", block, block))
                np.matmul(block, queries, out=part)
                part /= norms[:, None]
                odd = np.flatnonzero(~((norms > SHORTEST) & (norms < LONGEST)))
                part[odd] = unit(block[odd]) @ queries
        return np.ascontiguousarray(scores.T)

    def _has_direction(self, cosines: np.ndarray) -> np.ndarray:
        """Which rows can be an answer, being finite and not zero, from their cosines (Q, V): bool of shape (V,)."""
        suspects = np.flatnonzero((cosines == 0).all(0) | ~np.isfinite(cosines).all(0))
        result = np.ones(cosines.shape[1], dtype=bool)
        rows = self._rows(suspects)
        result[suspects] = np.isfinite(rows).all(1) & rows.any(1)
        return result

    # Other tools

    def save_word2vec_format(self, path: str | os.PathLike[str], *, binary: bool = False) -> None:
        """Write the vectors in the format of the original word2vec, which every tool reads; a name in .gz compresses.

        Raises:
            ValueError: if a word is empty, holds white space or cannot be written in UTF-8: readers would stumble.
        """
        write_vectors(path, self.index_to_key, self.vectors, binary)

    def to_gensim(self) -> Any:
        """The same vectors as gensim's `KeyedVectors`, with counts where they are known.

        Raises:
            ImportError: if gensim is not installed.
        """
        try:
            from gensim.models import KeyedVectors
        except ImportError:
            raise ImportError("to_gensim needs the package gensim: `pip install gensim`.") from None
        result = KeyedVectors(self.vector_size, count=len(self))
        result.index_to_key, result.key_to_index = list(self.index_to_key), dict(self.key_to_index)
        result.vectors[:] = self.vectors
        result.next_index = len(self)
        counts = getattr(self, "counts", None)
        if counts is not None:
            result.expandos["count"] = np.array(counts.tolist(), dtype=np.int64)
        return result


class WordVectors(WordVectorsMixin):
    """Vectors of words that came from anywhere.

    Args:
        words: strings, each once.
        vectors: (V, D); float32 is taken as it is and not copied.
        counts: how often each word occurs, if that is known.

    Raises:
        ValueError: if these do not fit together.
    """

    def __init__(self, words: Sequence[str], vectors: np.ndarray, counts: Sequence[int] | np.ndarray | None = None):
        self.index_to_key = list(words)
        self.vectors = np.asarray(vectors, dtype=np.float32)
        self.counts = None if counts is None else np.asarray(counts, dtype=np.int64)
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.index_to_key):
            raise ValueError(
                f"vectors must have a row for each of the {len(self.index_to_key)} words: "
                f"their shape is {self.vectors.shape}."
            )
        if self.counts is not None and len(self.counts) != len(self.index_to_key):
            raise ValueError(f"there are {len(self.index_to_key)} words but {len(self.counts)} counts.")
        check_words(self.index_to_key)
        self.key_to_index = {word: row for row, word in enumerate(self.index_to_key)}

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, width {self.vector_size})"

    def add_vectors(self, words: Sequence[str] | str, vectors: np.ndarray, *, replace: bool = False) -> None:
        """Add words with their vectors; those of words that are there stay, unless `replace` is set.

        The table is a new one afterwards: the array that it was made from is never written to.

        Raises:
            ValueError: if the shapes do not fit, a word is no string or is given twice; nothing is added then.
        """
        words = [words] if isinstance(words, str) else list(words)
        if not len(words) and not len(vectors):
            return
        vectors = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
        if vectors.shape[1] != self.vector_size:
            raise ValueError(f"vectors of width {vectors.shape[1]} cannot join vectors of width {self.vector_size}.")
        if len(vectors) != len(words):
            raise ValueError(f"{len(words)} words cannot have {len(vectors)} vectors.")
        check_words(words)
        new = [number for number, word in enumerate(words) if word not in self.key_to_index]
        self.vectors = np.concatenate([self.vectors, vectors[new]])
        if replace:
            old = [number for number, word in enumerate(words) if word in self.key_to_index]
            self.vectors[[self.key_to_index[words[number]] for number in old]] = vectors[old]
        for number in new:
            self.key_to_index[words[number]] = len(self.index_to_key)
            self.index_to_key.append(words[number])
        if self.counts is not None:
            self.counts = np.concatenate([self.counts, np.zeros(len(new), dtype=np.int64)])


def load_word_vectors(
    path: str | os.PathLike[str],
    limit: int | None = None,
    errors: Literal["strict", "replace", "ignore"] = "strict",
) -> WordVectors:
    """Word vectors from a file, or from the folder of a run or a model.

    Formats are told apart by what is in the file, not by its name: word2vec text and binary, GloVe text without a
    header, fastText's .vec, and each of them compressed by gzip. See `vector_files.read_vectors`.

    Args:
        path: the file or folder.
        limit: read so many words from the beginning.
        errors: what to do with words in a file that are not UTF-8, as in `bytes.decode`.

    Raises:
        FileNotFoundError: if there is nothing.
        ValueError: if it is none of these, or damaged; the sentence says where.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise ValueError(f"limit={limit} must be at least 1.")
    if not path.exists():
        raise FileNotFoundError(f"There is no run or file of word vectors at '{path}'.")
    if not path.is_dir():
        return WordVectors(*read_vectors(path, limit, errors))
    if not (path / "config.json").exists():
        raise ValueError(f"{path} holds no model: there is no config.json in it.")
    kind = PreTrainedConfig.get_config_dict(path)[0].get("model_type")
    if kind not in (Word2VecConfig.model_type, GloVeConfig.model_type):
        raise ValueError(
            f"{path} holds a model of type {kind!r}, which is no table of words and vectors: word2vec and GloVe are."
        )
    model = AutoModel.from_pretrained(path)
    return WordVectors(
        model.index_to_key[:limit], np.array(model.vectors[:limit]), model.counts.cpu().numpy()[:limit].copy()
    )


def unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors divided by their length, float32 of the same shape; those of zeros stay so.

    Where squares would leave the range of float32, vectors are divided by their largest number first.
    """
    with np.errstate(all="ignore"):  # vectors that are not finite have no direction: NaN
        length = np.linalg.norm(vectors, axis=-1, keepdims=True)
        if not ((length > SHORTEST) & (length < LONGEST)).all():
            largest = np.abs(vectors).max(-1, keepdims=True, initial=0)
            vectors = np.divide(vectors, largest, out=np.zeros(vectors.shape, dtype=np.float32), where=largest != 0)
            length = np.linalg.norm(vectors, axis=-1, keepdims=True)
        return np.divide(vectors, length, out=np.zeros(vectors.shape, dtype=np.float32), where=length != 0)


def top(scores: np.ndarray, topn: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest of each row of scores (Q, V), largest first; of equal ones the first. -inf is no score.

    Returns:
        int64 and float32 of shape (Q, topn): their places and the scores; -1 and 0 where there are fewer.
    """
    indices = np.full((len(scores), topn), -1, dtype=np.int64)
    best = np.zeros((len(scores), topn), dtype=np.float32)
    for row, values in enumerate(scores):
        if 0 < topn < len(values):
            threshold = np.partition(values, len(values) - topn)[len(values) - topn]
            candidates = np.flatnonzero((values >= threshold) & (values > -np.inf))
        else:
            candidates = np.flatnonzero(values > -np.inf)
        order = candidates[np.argsort(-values[candidates], kind="stable")[:topn]]
        indices[row, : len(order)], best[row, : len(order)] = order, values[order]
    return indices, best


def as_list(keys: Keys) -> list:
    """One word, vector or weighted pair as a list of one; a matrix as a list of its rows."""
    if keys is None:
        return []
    if isinstance(keys, str | Integral) or (is_pair(keys) and not isinstance(keys[1], Integral)):
        return [keys]
    if hasattr(keys, "__array__"):  # of numpy, or a tensor
        keys = np.asarray(keys)
        return [keys] if keys.ndim == 1 and keys.dtype.kind in "fiu" else list(keys)
    return list(keys)


def is_pair(item: Any) -> bool:
    """Whether this is (word or vector, weight)."""
    return (
        isinstance(item, tuple)
        and len(item) == 2
        and (isinstance(item[0], str | Integral) or hasattr(item[0], "__array__"))
        and isinstance(item[1], Real)
    )


def _product(cosines: np.ndarray, num_positive: int) -> np.ndarray:
    """3CosMul's score of each word, from the cosines with all terms (N, V), the positive ones first."""
    shifted = (1 + cosines) / 2
    return shifted[:num_positive].prod(0) / (shifted[num_positive:].prod(0) + 1e-6)
