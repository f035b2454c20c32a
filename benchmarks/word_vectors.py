"""word2vec beside gensim, speed and quality: `python -m regard.benchmarks.word_vectors TEXT`.

Both tools get the same words of the same text, split by this package, and the same settings: width 100, window 5, 5
negatives, words that occur 5 times, subsampling from 1e-3, 5 epochs, the learning rate falling in a line. The clock is
that on the wall. Two ratios are shown: of training alone, and of reading, counting, compiling and training. Speed is
words of the text, rare ones counted, times epochs, over the seconds of training.

Each training is a process of its own, and its result is written as it ends, so that the command goes on where it was
stopped: first a sweep over gensim's workers for one epoch, whose fastest is used then; then each seed by both tools in
turn.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from regard.benchmarks.report import machine, part_of, write_part
from regard.evaluation.vectors_report import evaluate_vectors, read_sets
from regard.train.records import environment, read_json, write_json

PART = "word vectors"  # of README.md
PATTERN = r"[\p{L}\p{M}]+|\p{N}+"
SETTINGS = {"width": 100, "window": 5, "negatives": 5, "min_count": 5, "subsample": 1e-3, "min_learning_rate": 1e-4}
LEARNING_RATES = {"skip-gram": 0.025, "cbow": 0.05}  # the original program's
TARGETS = {"skip-gram": 5.0, "cbow": 2.0}  # the least ratio of the speeds
TOLERANCE = 0.01  # how far a measure may lie below gensim's mean
SWEPT = (2, 3, 4)
TOOLS = ("ours", "gensim")
KEYS = {"similarity": "spearman", "analogies": "accuracy"}


def train_ours(text: str, architecture: str, epochs: int, workers: int, seed: int) -> tuple[Any, dict[str, float]]:
    """A trained `Word2VecModel`, and seconds of each part of the work."""
    import torch

    from regard.modeling import Word2VecModel
    from regard.train.corpus import TextSentences, WordSplitter, number_sentences
    from regard.train.word2vec import train_word2vec

    seconds, clock = {}, Clock()
    numbered = number_sentences(TextSentences(text, WordSplitter(PATTERN, lowercase=True).lines))
    vocabulary = numbered.vocabulary(SETTINGS["min_count"])
    corpus = numbered.encode(vocabulary.words)
    seconds["read and count"] = clock.lap()
    torch.manual_seed(seed)
    model = Word2VecModel.from_vocabulary(
        vocabulary.words, vocabulary.counts, hidden_size=SETTINGS["width"], window=SETTINGS["window"],
        num_negatives=SETTINGS["negatives"], min_count=SETTINGS["min_count"], subsample=SETTINGS["subsample"],
        architecture=architecture,
    )  # fmt: skip
    clock.lap()
    history = train_word2vec(
        model, corpus, epochs, LEARNING_RATES[architecture], SETTINGS["min_learning_rate"], workers, seed
    )
    whole = clock.lap()
    seconds["train"] = history[-1]["seconds"]
    seconds["compile and copy"] = whole - seconds["train"]
    return model, {"seconds": seconds, "words": vocabulary.total, "loss": history[-1]["epoch_loss"]}


def train_gensim(text: str, architecture: str, epochs: int, workers: int, seed: int) -> tuple[Any, dict[str, float]]:
    """The vectors of gensim's Word2Vec as `WordVectors`, and seconds of each part of the work."""
    from gensim.models import Word2Vec

    from regard.modeling.word_vectors import WordVectors
    from regard.train.corpus import TextSentences, WordSplitter

    seconds, clock = {}, Clock()
    sentences = list(TextSentences(text, WordSplitter(PATTERN, lowercase=True).lines))
    model = Word2Vec(
        vector_size=SETTINGS["width"], window=SETTINGS["window"], negative=SETTINGS["negatives"],
        min_count=SETTINGS["min_count"], sample=SETTINGS["subsample"], sg=int(architecture == "skip-gram"),
        alpha=LEARNING_RATES[architecture], min_alpha=SETTINGS["min_learning_rate"], workers=workers, seed=seed,
    )  # fmt: skip
    model.build_vocab(sentences)
    seconds["read and count"] = clock.lap()
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    seconds["train"] = clock.lap()
    return WordVectors(model.wv.index_to_key, model.wv.vectors), {
        "seconds": seconds,
        "words": model.corpus_total_words,
    }


class Clock:
    """Seconds on the wall since the last lap."""

    def __init__(self) -> None:
        self.last = time.perf_counter()

    def lap(self) -> float:
        before, self.last = self.last, time.perf_counter()
        return self.last - before


def measure(job: dict[str, Any], sets: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Trains as a job says, and measures the vectors."""
    train = train_ours if job["tool"] == "ours" else train_gensim
    vectors, record = train(*(job[key] for key in ("text", "architecture", "epochs", "workers", "seed")))
    read = read_sets(**sets)
    results = evaluate_vectors(vectors, read) if read else {}
    record["quality"] = {name: measures[KEYS[measures["kind"]]] for name, measures in results.items()}
    record["words_per_second"] = record["words"] * job["epochs"] / record["seconds"]["train"]
    return job | record


def run_job(job: dict[str, Any], sets: dict[str, dict[str, str]], folder: Path) -> dict[str, Any]:
    """The record of a job: of an earlier run on the same text and sets, else of a process of its own."""
    name = "-".join(str(job[key]) for key in ("part", "architecture", "tool", "epochs", "workers", "seed"))
    path = folder / f"{name}.json"
    names = {name for files in sets.values() for name in files}
    if path.is_file() and (record := read_json(path))["text"] == job["text"] and record["quality"].keys() == names:
        return record
    print(f"{name} ...", file=sys.stderr, flush=True)
    request = json.dumps({"job": job, "sets": sets, "path": str(path)})
    subprocess.run([sys.executable, "-m", "regard.benchmarks.word_vectors", "--job", request], check=True)
    return read_json(path)


def compare(
    text: str, architecture: str, epochs: int, seeds: list[int], workers: int, sets: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """Sweeps gensim's workers, then trains each seed by both tools; ratios are taken within a seed."""
    job = {
        "text": text,
        "architecture": architecture,
        "seed": seeds[0],
        "epochs": 1,
        "tool": "gensim",
        "part": "sweep",
    }
    sweep = {number: run_job(job | {"workers": number}, {}, folder)["words_per_second"] for number in SWEPT}
    best = max(sweep, key=sweep.get)
    records: dict[str, list[dict[str, Any]]] = {tool: [] for tool in TOOLS}
    for seed in seeds:
        for tool, number in zip(TOOLS, (workers, best), strict=True):
            each = job | {"seed": seed, "epochs": epochs, "tool": tool, "workers": number, "part": "contest"}
            records[tool].append(run_job(each, sets, folder))
    return {"architecture": architecture, "gensim_sweep": sweep, "gensim_workers": best, **summary(records)}


def summary(records: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Ratios of the speeds by seed, and means over the seeds of what was measured."""
    pairs = list(zip(*(records[tool] for tool in TOOLS), strict=True))

    def ratio(seconds: Any) -> float:
        return statistics.median(seconds(gensim) / seconds(ours) for ours, gensim in pairs)

    names = records["ours"][0]["quality"]
    means = {
        tool: {name: statistics.fmean(each["quality"][name] for each in records[tool]) for name in names}
        for tool in TOOLS
    }
    return {
        "ratio": ratio(lambda record: record["seconds"]["train"]),
        "ratio_all": ratio(lambda record: sum(record["seconds"].values())),
        "words_per_second": {
            tool: statistics.median(record["words_per_second"] for record in records[tool]) for tool in TOOLS
        },
        "quality": means,
        "below": [name for name in names if means["ours"][name] < means["gensim"][name] - TOLERANCE],
        "records": records,
    }


def table(results: list[dict[str, Any]]) -> str:
    """Speed and quality as Markdown."""
    names = list(results[0]["quality"]["ours"])
    lines = [
        f"| ours / gensim | ratio, training | ratio, all | words per second | {' | '.join(names)} |",
        "|---" * (4 + len(names)) + "|",
    ]
    for each in results:
        ours, gensim = (each["quality"][tool] for tool in TOOLS)
        speeds = " / ".join(f"{each['words_per_second'][tool]:,.0f}" for tool in TOOLS)
        measures = [f"{ours[name]:.3f} / {gensim[name]:.3f}" for name in names]
        lines.append(
            f"| {each['architecture']} | **{each['ratio']:.2f}** | {each['ratio_all']:.2f} | {speeds} "
            f"| {' | '.join(measures)} |"
        )
    return "\n".join(lines)


def caption(record: dict[str, Any]) -> str:
    sweeps = "; ".join(
        f"{each['architecture']}: "
        + ", ".join(f"{speed:,.0f} with {number}" for number, speed in each["gensim_sweep"].items())
        for each in record["results"]
    )
    return (
        f"{machine(record['environment'])}; {record['words']:,} words, {record['epochs']} epochs, means and medians "
        f"over {record['seeds']} seeds, {record['workers']} workers of ours. The ratio of all counts reading, counting"
        " and, of ours, compiling too, which a cache on disk spares later processes. gensim's words per second by its "
        f"workers in a sweep: {sweeps}."
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", nargs="?", help="a text file, a sentence or paragraph a line")
    parser.add_argument("--similarity", nargs="*", default=[], help="files of pairs with scores")
    parser.add_argument("--analogies", nargs="*", default=[], help="files of questions")
    parser.add_argument("--architecture", nargs="*", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--epochs", type=int, default=5, help="passes over the text (default: 5)")
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3], help="(default: 1 2 3)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="of ours (default: one a core)")
    parser.add_argument(
        "--out", type=Path, required="--job" not in (arguments or sys.argv), help="folder for the results"
    )
    parser.add_argument(
        "--parts",
        type=Path,
        default=Path("runs/word-vectors-benchmark"),
        help="folder for what ended (default: %(default)s)",
    )
    parser.add_argument("--job", help=argparse.SUPPRESS)  # a training in a process of its own
    options = parser.parse_args(arguments)
    if options.job is not None:
        request = json.loads(options.job)
        write_json(request["path"], measure(request["job"], request["sets"]))
        return 0
    if options.text is None or not Path(options.text).is_file():
        parser.error(f"there is no text '{options.text}': give the file to train on")

    from regard.evaluation.word_sets import name_files

    sets = {kind: name_files(getattr(options, kind), kind) for kind in KEYS}
    readme = options.out / "README.md"
    if readme.is_file():
        part_of(readme, PART)  # refuses one without a place for the table, before the work
    folder = options.parts
    folder.mkdir(parents=True, exist_ok=True)
    text = str(Path(options.text).resolve())
    results = [
        compare(text, architecture, options.epochs, options.seeds, options.workers, sets, folder)
        for architecture in options.architecture
    ]
    record = {
        "environment": environment(),
        "words": results[0]["records"]["ours"][0]["words"],
        "epochs": options.epochs,
        "seeds": len(options.seeds),
        "workers": options.workers,
        "settings": SETTINGS | {"pattern": PATTERN, "learning_rates": LEARNING_RATES},
        "results": results,
    }
    for each in results:
        for one in (one for tool in TOOLS for one in each["records"][tool]):
            one["text"] = Path(one["text"]).name
    write_json(options.out / "results" / "word_vectors.json", record)
    print(table(results))
    if readme.is_file():
        write_part(readme, PART, f"{caption(record)}\n\n{table(results)}")
    failed = False
    for each in results:
        if each["ratio"] < TARGETS[each["architecture"]]:
            failed = True
            print(f"{each['architecture']}: the ratio is below {TARGETS[each['architecture']]}.", file=sys.stderr)
        for name in each["below"]:
            failed = True
            print(f"{each['architecture']}: {name} is more than {TOLERANCE} below gensim's mean.", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
