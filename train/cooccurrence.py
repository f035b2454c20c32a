"""How often words occur near each other, counted in bounded memory.

X_ij is the sum over the places of word i, and over the words j at most `window` places away in the same sentence, of
one over their distance (Pennington et al., 2014, section 4.2). Pairs are added up in a hash table of fixed size. When
it is full, it is written to a file in the order of its pairs, and at the end the files are merged, a range of pairs at
a time.

The table takes 256 MB at most, and sorting what is in it as much again; the merge takes less. The result, 12 bytes a
pair, is mapped into memory from files where a folder is given. Without one it is held in memory.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.evaluation.files import replacing
from regard.train.corpus import BREAK, EncodedCorpus
from regard.train.word2vec_kernels import compiled

TABLE = 2**24  # places of the hash table, 16 bytes each
MERGE = 2**22  # pairs that are merged at once
EMPTY = -1
FILES = {"rows": np.int32, "columns": np.int32, "counts": np.float32}


@dataclass(frozen=True)
class Cooccurrences:
    """The pairs that occur, each once.

    Args:
        rows, columns: int32 of shape (N,), word i and context word j.
        counts: float32 of shape (N,), X_ij.
    """

    rows: np.ndarray
    columns: np.ndarray
    counts: np.ndarray

    def __len__(self) -> int:
        return len(self.counts)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> "Cooccurrences | None":
        """Those that `count_cooccurrences` wrote to a folder, or None where they are not complete."""
        paths = {name: Path(folder) / f"{name}.bin" for name in FILES}
        sizes = {path.stat().st_size if path.is_file() else 0 for path in paths.values()}
        if len(sizes) != 1 or sizes == {0}:  # all three types take 4 bytes
            return None
        return cls(**{name: np.memmap(paths[name], dtype=kind, mode="r") for name, kind in FILES.items()})


def count_cooccurrences(
    corpus: EncodedCorpus,
    vocab_size: int,
    window: int,
    symmetric: bool = True,
    folder: str | os.PathLike[str] | None = None,
    table_size: int = TABLE,
) -> Cooccurrences:
    """Counts the pairs of a text; `regard.train.cooccurrence` explains what is counted and the memory that it takes.

    Args:
        corpus: in the rows of a vocabulary of `vocab_size` words.
        window: how far apart two words may be.
        symmetric: contexts on both sides; else those on the left alone.
        folder: for the result; without one it is held in memory.
        table_size: places of the hash table, a power of two.

    Raises:
        ValueError: for a table size that is no power of two of at least 16, or a text without any pair.
    """
    if table_size < 16 or table_size & (table_size - 1):
        raise ValueError(f"table_size={table_size} must be a power of two, of at least 16.")
    enough = 2 * window * len(corpus.tokens) * 4 // 3  # no text has more pairs
    table_size = min(table_size, 1 << max(4, enough.bit_length()))
    with tempfile.TemporaryDirectory(dir=folder, prefix=".pairs-") as place:
        runs = list(_sorted_runs(corpus, vocab_size, window, symmetric, table_size, Path(place)))
        if not sum(len(keys) for keys, _ in runs):
            raise ValueError(
                "No two words of the vocabulary stand in one sentence, so there are no pairs to count: give "
                "sentences of several words, or a lower min_count."
            )
        return _collect(_merged(runs), vocab_size, symmetric, folder)


def _sorted_runs(
    corpus: EncodedCorpus, vocab_size: int, window: int, symmetric: bool, table_size: int, place: Path
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs in order, each with its sum; one run after another, of which a pair may be in several."""
    keys, sums = np.full(table_size, EMPTY, dtype=np.int64), np.zeros(table_size)
    used, number, bounds = 0, 0, corpus.chunks()
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        tokens, reached = np.asarray(corpus.tokens[start:stop]), 0
        while True:
            reached, used = _count(tokens, reached, window, symmetric, vocab_size, keys, sums, used)
            if reached == len(tokens):
                break
            yield _written(*_emptied(keys, sums), place, number)
            used, number = 0, number + 1
    yield _emptied(keys, sums)


def _emptied(keys: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    full = np.flatnonzero(keys != EMPTY)
    full = full[np.argsort(keys[full])]
    result = keys[full], sums[full]
    keys[:], sums[:] = EMPTY, 0.0
    return result


def _written(keys: np.ndarray, sums: np.ndarray, place: Path, number: int) -> tuple[np.ndarray, np.ndarray]:
    paths = place / f"{number}.keys.npy", place / f"{number}.sums.npy"
    for path, array in zip(paths, (keys, sums), strict=True):
        np.save(path, array)
    return tuple(np.load(path, mmap_mode="r") for path in paths)


@compiled
def _count(tokens, place, window, symmetric, vocab_size, keys, sums, used):
    """Adds pairs from a place on, until the text ends or the table is three quarters full; where that was.

    With contexts on both sides X is symmetric, and only pairs i <= j are kept.
    """
    mask, shift = np.uint64(len(keys) - 1), np.uint64(32)
    limit = len(keys) // 4 * 3 - window
    start = place  # of the sentence
    while start > 0 and tokens[start - 1] != BREAK:
        start -= 1
    while place < len(tokens):
        word = tokens[place]
        if word == BREAK:
            start = place + 1
        else:
            if used > limit:
                return place, used
            for other in range(max(start, place - window), place):
                context = tokens[other]
                key = np.int64(word) * vocab_size + context
                if symmetric and context < word:
                    key = np.int64(context) * vocab_size + word
                slot = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15) >> shift) & mask
                while keys[slot] != key and keys[slot] != EMPTY:
                    slot = (slot + np.uint64(1)) & mask
                if keys[slot] == EMPTY:
                    keys[slot] = key
                    used += 1
                sums[slot] += 1.0 / (place - other)
        place += 1
    return place, used


def _merged(runs: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs in order, each once, in parts: those of one range of keys, of all runs."""
    step = max(1, MERGE // (4 * len(runs)))
    marks = np.sort(np.concatenate([keys[::step] for keys, _ in runs]))[:: 4 * len(runs)]  # about MERGE pairs apart
    cuts = [np.concatenate([[0], np.searchsorted(keys, marks[1:]), [len(keys)]]) for keys, _ in runs]
    for part in range(len(marks)):
        slices = [slice(cut[part], cut[part + 1]) for cut in cuts]
        keys = np.concatenate([run[0][piece] for run, piece in zip(runs, slices, strict=True)])
        sums = np.concatenate([run[1][piece] for run, piece in zip(runs, slices, strict=True)])
        order = np.argsort(keys, kind="stable")
        keys, sums = keys[order], sums[order]
        first = np.flatnonzero(np.diff(keys, prepend=EMPTY))
        if len(first):
            yield keys[first], np.add.reduceat(sums, first)


def _collect(
    parts: Iterator[tuple[np.ndarray, np.ndarray]], vocab_size: int, symmetric: bool, folder: str | os.PathLike | None
) -> Cooccurrences:
    """Keys as rows and columns; with contexts on both sides also the pairs the other way round."""
    held: dict[str, list[np.ndarray]] = {name: [] for name in FILES}
    with ExitStack() as stack:
        files = {}
        if folder is not None:
            for name in FILES:
                partial = stack.enter_context(replacing(Path(folder) / f"{name}.bin"))
                files[name] = stack.enter_context(open(partial, "wb"))
        for keys, sums in parts:
            rows, columns = keys // vocab_size, keys % vocab_size
            if symmetric:
                other = rows != columns
                sums = np.where(other, sums, 2 * sums)  # word i near word i: each is the other's context
                rows, columns = np.concatenate([rows, columns[other]]), np.concatenate([columns, rows[other]])
                sums = np.concatenate([sums, sums[other]])
            for name, array in zip(FILES, (rows, columns, sums), strict=True):
                array = array.astype(FILES[name])
                if folder is None:
                    held[name].append(array)
                else:
                    files[name].write(array.tobytes())
    if folder is None:
        return Cooccurrences(**{name: np.concatenate(arrays) for name, arrays in held.items()})
    return Cooccurrences.open(folder)
