"""How often words occur near each other, counted in bounded memory.

X_ij is the sum over the places of word i, and over the words j at most `window` places away in the same sentence, of
one over their distance (Pennington et al., 2014, section 4.2). Pairs are added up in a hash table of fixed size. When
it is full, its pairs are written down in order, as a run. 64 runs are merged to one, and at the end all of them, a
range of pairs at a time.

Memory: the table takes 256 MB at most, and sorting what is in it 300 MB more; the merge takes less. The result is
mapped from files where a folder is given; without one it is held, and for a moment held twice.

Disk: 12 bytes a pair for the result. While it is counted, runs lie beside it (in the folder, or where the system keeps
temporary files), 16 bytes for each of their pairs: 13 GB at most for 64 runs that are not merged yet, and the merged
ones, where a pair is written once for each 64 runs that hold it. No run keeps a file open.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.evaluation.files import replacing
from regard.train.corpus import BREAK, STRETCH, EncodedCorpus
from regard.train.records import write_json
from regard.train.word2vec_kernels import compiled

TABLE = 2**24  # places of the hash table, 16 bytes each
LEAST_TABLE = 16
SORTING = 24  # bytes for each pair of a full table: its place, the order, and both as they become a run
TOGETHER = 64  # runs that are merged to one
MERGE = 2**22  # pairs that are merged at once
EMPTY = -1
FILES = {"rows": np.int32, "columns": np.int32, "counts": np.float32}
RECORD = "pairs.json"  # of what the pairs in a folder were counted
RUNS = ".pairs-"  # how the folder of the runs begins


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
    def open(
        cls, folder: str | os.PathLike[str], counted_from: dict[str, Any] | None = None
    ) -> "Cooccurrences | None":
        """Those that `count_cooccurrences` wrote to a folder.

        Args:
            counted_from: what `source` says of the text; where it is given, pairs of something else are not taken.

        Returns:
            None where the pairs are not there, not complete or of something else.
        """
        try:
            record = json.loads((Path(folder) / RECORD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        paths = {name: Path(folder) / f"{name}.bin" for name in FILES}
        sizes = {path.stat().st_size if path.is_file() else 0 for path in paths.values()}
        if len(sizes) != 1 or sizes == {0}:  # all three types take 4 bytes
            return None
        if counted_from is not None and record != counted_from:
            return None
        return cls(**{name: np.memmap(paths[name], dtype=kind, mode="r") for name, kind in FILES.items()})


def source(corpus: EncodedCorpus, vocab_size: int, window: int, symmetric: bool) -> dict[str, Any]:
    """From what pairs are counted, for the record beside them: all that decides what they are."""
    digest = hashlib.sha256()
    for start in range(0, len(corpus.tokens), STRETCH):
        digest.update(np.ascontiguousarray(corpus.tokens[start : start + STRETCH], dtype="<i4"))
    return {
        "vocab_size": int(vocab_size),
        "window": int(window),
        "symmetric": bool(symmetric),
        "numbers": len(corpus.tokens),
        "sha256": digest.hexdigest(),
    }


def tidy(folder: str | os.PathLike[str]) -> None:
    """Removes what a process that was killed while it counted left in the folder of the pairs."""
    for path in Path(folder).glob(f"{RUNS}*"):
        shutil.rmtree(path)
    for name in (*(f"{name}.*.bin" for name in FILES), f"{Path(RECORD).stem}.*.json"):
        for path in Path(folder).glob(f".{name}"):
            path.unlink()


def memory_needed(numbers: int, window: int) -> int:
    """Bytes that counting takes at most, for a text of so many words: the table, and sorting what is in it."""
    size = _table_size(numbers, window, TABLE)
    return 16 * size + SORTING * (size * 3 // 4)


def count_cooccurrences(
    corpus: EncodedCorpus,
    vocab_size: int,
    window: int,
    symmetric: bool = True,
    folder: str | os.PathLike[str] | None = None,
    table_size: int = TABLE,
    report: Callable[[int, int], None] | None = None,
) -> Cooccurrences:
    """Counts the pairs of a text; `regard.train.cooccurrence` explains what is counted, and the memory and the disk
    that it takes.

    Args:
        corpus: in the rows of a vocabulary of `vocab_size` words.
        window: how far apart two words may be.
        symmetric: contexts on both sides; else those on the left alone.
        folder: for the result, and a record of what it was counted from; without one it is held in memory.
        table_size: places of the hash table, a power of two.
        report: called now and then with the numbers of words of the text that are counted, and of all.

    Raises:
        ValueError: for a window below 1, a table size that is no power of two of at least 16 or too small for the
            window, words beyond the vocabulary, or a text without any pair.
    """
    if window < 1:
        raise ValueError(f"window={window} must be at least 1.")
    if table_size < LEAST_TABLE or table_size & (table_size - 1):
        raise ValueError(f"table_size={table_size} must be a power of two, of at least {LEAST_TABLE}.")
    if table_size * 3 // 4 <= window:  # a word's pairs would never find room
        raise ValueError(
            f"table_size={table_size} is too small for window={window}: three quarters of it must be more."
        )
    _check_tokens(corpus, vocab_size)
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    table_size = _table_size(len(corpus.tokens), window, table_size)
    with tempfile.TemporaryDirectory(dir=folder, prefix=RUNS) as place:
        runs = _sorted_runs(corpus, vocab_size, window, symmetric, table_size, Path(place), report)
        if not sum(len(keys) for keys, _ in runs):
            raise ValueError(
                "No two words of the vocabulary stand in one sentence, so there are no pairs to count: give "
                "sentences of several words, or a lower min_count."
            )
        if folder is None:
            return _held(_merged(runs), vocab_size, symmetric)
        (Path(folder) / RECORD).unlink(missing_ok=True)  # the files are not what it says from here on
        _write(_merged(runs), vocab_size, symmetric, Path(folder))
    write_json(Path(folder) / RECORD, source(corpus, vocab_size, window, symmetric))
    return Cooccurrences.open(folder)


def _table_size(numbers: int, window: int, most: int) -> int:
    enough = 2 * window * numbers * 4 // 3  # no text has more pairs
    return min(most, 1 << max(LEAST_TABLE.bit_length() - 1, enough.bit_length()))


def _check_tokens(corpus: EncodedCorpus, vocab_size: int) -> None:
    for start in range(0, len(corpus.tokens), STRETCH):
        stretch = corpus.tokens[start : start + STRETCH]
        if stretch.max() >= vocab_size:
            raise ValueError(
                f"The corpus has words beyond the {vocab_size:,} rows of the model: encode it with the model's words."
            )
        if stretch.min() < BREAK:
            raise ValueError(
                f"The corpus holds {stretch.min()}, which is no word: rows begin at 0, and {BREAK} ends a sentence."
            )


class _Runs:
    """Sorted runs, one after another in two files, of which slices are mapped when they are merged."""

    def __init__(self, place: Path, name: str) -> None:
        self.paths = [place / f"{name}.keys.bin", place / f"{name}.sums.bin"]
        self.ends = [0]

    def append(self, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> None:
        """Adds one run, which comes in parts."""
        keys_path, sums_path = self.paths
        length = 0
        with open(keys_path, "ab") as keys_file, open(sums_path, "ab") as sums_file:
            for keys, sums in parts:
                keys.tofile(keys_file)
                sums.tofile(sums_file)
                length += len(keys)
        self.ends.append(self.ends[-1] + length)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def mapped(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Keys and sums of each run."""
        if not len(self):
            return []
        keys, sums = (
            np.memmap(path, dtype=kind, mode="r")
            for path, kind in zip(self.paths, (np.int64, np.float64), strict=True)
        )
        return [(keys[one:other], sums[one:other]) for one, other in zip(self.ends[:-1], self.ends[1:], strict=True)]

    def clear(self) -> None:
        for path in self.paths:
            path.unlink()
        self.ends = [0]


def _sorted_runs(
    corpus: EncodedCorpus,
    vocab_size: int,
    window: int,
    symmetric: bool,
    table_size: int,
    place: Path,
    report: Callable[[int, int], None] | None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs in order, each with its sum; one run after another, of which a pair may be in several."""
    keys, sums = np.full(table_size, EMPTY, dtype=np.int64), np.zeros(table_size)
    fresh, merged = _Runs(place, "fresh"), _Runs(place, "merged")
    used, bounds = 0, corpus.chunks()
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        tokens, reached = np.asarray(corpus.tokens[start:stop]), 0
        while True:
            reached, used = _count(tokens, reached, window, symmetric, vocab_size, keys, sums, used)
            if reached == len(tokens):
                break
            fresh.append([_emptied(keys, sums)])
            used = 0
            if len(fresh) == TOGETHER:
                merged.append(_merged(fresh.mapped()))
                fresh.clear()
        if report is not None:
            report(round(float(stop / bounds[-1]) * corpus.num_words), corpus.num_words)
    return [*merged.mapped(), *fresh.mapped(), _emptied(keys, sums)]


def _emptied(keys: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    full = np.flatnonzero(keys != EMPTY)
    full = full[np.argsort(keys[full])]
    result = keys[full], sums[full]
    keys[:], sums[:] = EMPTY, 0.0
    return result


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


def _directed(
    parts: Iterable[tuple[np.ndarray, np.ndarray]], vocab_size: int, symmetric: bool
) -> Iterator[tuple[np.ndarray, ...]]:
    """Rows, columns and counts of keys; with contexts on both sides also of the pairs the other way round."""
    for keys, sums in parts:
        rows, columns = keys // vocab_size, keys % vocab_size
        if symmetric:
            other = rows != columns
            sums = np.where(other, sums, 2 * sums)  # word i near word i: each is the other's context
            rows, columns = np.concatenate([rows, columns[other]]), np.concatenate([columns, rows[other]])
            sums = np.concatenate([sums, sums[other]])
        yield tuple(array.astype(kind) for array, kind in zip((rows, columns, sums), FILES.values(), strict=True))


def _held(parts: Iterable[tuple[np.ndarray, np.ndarray]], vocab_size: int, symmetric: bool) -> Cooccurrences:
    columns = zip(*_directed(parts, vocab_size, symmetric), strict=True)
    return Cooccurrences(*(np.concatenate(column) for column in columns))


def _write(parts: Iterable[tuple[np.ndarray, np.ndarray]], vocab_size: int, symmetric: bool, folder: Path) -> None:
    with ExitStack() as stack:
        partial = [stack.enter_context(replacing(folder / f"{name}.bin")) for name in FILES]
        files = [stack.enter_context(open(path, "wb")) for path in partial]
        for arrays in _directed(parts, vocab_size, symmetric):
            for file, array in zip(files, arrays, strict=True):
                array.tofile(file)
