"""Loading a file of word vectors beside gensim: `python -m regard.benchmarks.vector_files`.

A file of random vectors, 100,000 words of width 300, is written in word2vec's text and binary formats, and read by
both packages in turn in one process. The clock is that on the wall; the file lies in the system's cache. Ratios are
taken within each round; their median is shown.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from regard.benchmarks.report import machine, part_of, write_part
from regard.modeling.word_vectors import WordVectors, load_word_vectors
from regard.train.records import environment, write_json

PART = "vector files"  # of README.md
TARGETS = {"text": 10.0}  # the least ratio


def seconds(read: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = read()
    return time.perf_counter() - start, result


def measure(path: Path, binary: bool, rounds: int) -> dict[str, Any]:
    """Seconds of both packages in each round, and by how much their vectors differ at most."""
    from gensim.models import KeyedVectors

    ours, gensim, difference = [], [], 0.0
    for _ in range(rounds):
        taken, vectors = seconds(lambda: load_word_vectors(path))
        ours.append(taken)
        taken, theirs = seconds(lambda: KeyedVectors.load_word2vec_format(str(path), binary=binary))
        gensim.append(taken)
        if vectors.index_to_key != theirs.index_to_key:
            raise ValueError(f"The two packages read different words from {path}.")
        difference = max(difference, float(np.abs(vectors.vectors - theirs.vectors).max()))
    ratios = [theirs / own for own, theirs in zip(ours, gensim, strict=True)]
    return {
        "format": "binary" if binary else "text",
        "bytes": path.stat().st_size,
        "ratio": statistics.median(ratios),
        "ratio_lowest": min(ratios),
        "ratio_highest": max(ratios),
        "seconds": {"ours": ours, "gensim": gensim},
        "largest_difference": difference,
    }


def table(results: list[dict[str, Any]]) -> str:
    """The results as Markdown."""
    lines = [
        "| format | megabytes | times gensim (lowest to highest) | seconds, ours / gensim | largest difference |",
        "|---|---|---|---|---|",
    ]
    for each in results:
        ours, gensim = (statistics.median(each["seconds"][tool]) for tool in ("ours", "gensim"))
        lines.append(
            f"| {each['format']} | {each['bytes'] / 1e6:.0f} | **{each['ratio']:.1f}** ({each['ratio_lowest']:.1f} to "
            f"{each['ratio_highest']:.1f}) | {ours:.2f} / {gensim:.2f} | {each['largest_difference']:.1g} |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--words", type=int, default=100_000, help="(default: %(default)s)")
    parser.add_argument("--width", type=int, default=300, help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    options = parser.parse_args(arguments)
    readme = options.out / "README.md"
    if readme.is_file():
        part_of(readme, PART)  # refuses one without a place for the table, before the work

    numbers = np.random.default_rng(0).normal(0, 0.3, (options.words, options.width)).astype(np.float32)
    vectors = WordVectors([f"word{row}" for row in range(options.words)], numbers)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for binary in (False, True):
            path = Path(folder) / ("vectors.bin" if binary else "vectors.txt")
            vectors.save_word2vec_format(path, binary=binary)
            results.append(measure(path, binary, options.rounds))
    record = {
        "environment": environment() | {"gensim": version("gensim")},
        "words": options.words,
        "width": options.width,
        "rounds": options.rounds,
        "results": results,
    }
    write_json(options.out / "results" / "vector_files.json", record)
    print(table(results))
    if readme.is_file():
        caption = (
            f"{machine(record['environment'])}, gensim {version('gensim')}; {options.words:,} words of width "
            f"{options.width}, {options.rounds} rounds."
        )
        write_part(readme, PART, f"{caption}\n\n{table(results)}")
    slow = [each for each in results if each["ratio"] < TARGETS.get(each["format"], 0)]
    for each in slow:
        target = TARGETS[each["format"]]
        print(f"{each['format']}: {each['ratio']:.1f} times gensim's speed, below {target:g}.", file=sys.stderr)
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
