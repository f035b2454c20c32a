"""word2vec beside gensim, speed and quality: `python -m regard.benchmarks.word_vectors TEXT`.

The engines of this package, compiled and in torch's batches (on the CPU), and gensim get the same words of the same
text, split by this package, and the same settings: width 100, window 5, 5 negatives, words that occur 5 times,
subsampling from 1e-3, 5 epochs, the learning rate falling in a line. The clock is that on the wall. Two ratios are
shown: of training alone, and of reading, counting and training. This package turns words into numbers once, as it
reads them; gensim does so in each epoch, which is in its time of training. Compiling is measured apart. Speed is words
of the text, rare ones counted, times epochs, over the seconds of training.

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
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regard.benchmarks.report import machine, part_of, write_part
from regard.evaluation.vectors_report import evaluate_vectors, read_sets
from regard.train.records import environment, read_json, write_json

PART = "word vectors"  # of README.md
PATTERN = r"[\p{L}\p{M}]+|\p{N}+"
SETTINGS = {"width": 100, "window": 5, "negatives": 5, "min_count": 5, "subsample": 1e-3, "min_learning_rate": 1e-4}
LEARNING_RATES = {"skip-gram": 0.025, "cbow": 0.05}  # the original program's
TARGETS = {"skip-gram": {"compiled": 5.0, "torch": 3.0}, "cbow": {"compiled": 2.0}}  # the least ratio of the speeds
ENGINES = {"compiled": "numba", "torch": "torch"}  # by their names in the table
TOLERANCE = 0.01  # how far a measure may lie below gensim's mean
SWEPT = (2, 3, 4)
KEYS = {"similarity": "spearman", "analogies": "accuracy"}


def train_ours(
    text: str, architecture: str, epochs: int, workers: int, seed: int, engine: str
) -> tuple[Any, dict[str, Any]]:
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
        model, corpus, epochs, LEARNING_RATES[architecture], SETTINGS["min_learning_rate"], workers, seed, engine
    )
    whole = clock.lap()
    seconds["train"] = history[-1]["seconds"]
    seconds["compile and copy"] = whole - seconds["train"]
    return model, {"seconds": seconds, "words": vocabulary.total, "loss": history[-1]["epoch_loss"]}


def train_gensim(text: str, architecture: str, epochs: int, workers: int, seed: int) -> tuple[Any, dict[str, Any]]:
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
    settings = [job[key] for key in ("text", "architecture", "epochs", "workers", "seed")]
    engine = ENGINES.get(job["tool"])
    vectors, record = train_gensim(*settings) if engine is None else train_ours(*settings, engine)
    read = read_sets(**sets)
    results = evaluate_vectors(vectors, read) if read else {}
    record["quality"] = {name: measures[KEYS[measures["kind"]]] for name, measures in results.items()}
    record["words_per_second"] = record["words"] * job["epochs"] / record["seconds"]["train"]
    return job | record


def run_job(job: dict[str, Any], sets: dict[str, dict[str, str]], folder: Path, **environment: str) -> dict[str, Any]:
    """The record of a job: of an earlier run of the same, else of a process of its own."""
    name = "-".join(str(job[key]) for key in ("part", "architecture", "tool", "epochs", "workers", "seed"))
    path = folder / f"{name}.json"
    names = {name for files in sets.values() for name in files}
    if path.is_file():
        record = read_json(path)
        if all(record.get(key) == value for key, value in job.items()) and record["quality"].keys() == names:
            return record
    print(f"{name} ...", file=sys.stderr, flush=True)
    request = json.dumps({"job": job, "sets": sets, "path": str(path)})
    command = [sys.executable, "-m", "regard.benchmarks.word_vectors", "--job", request]
    subprocess.run(command, check=True, env=os.environ | environment)
    return read_json(path)


def seconds_of_compiling(job: dict[str, Any], folder: Path) -> float:
    """Of a first training on a machine; later ones find what it compiled on the disk."""
    with tempfile.TemporaryDirectory() as nothing:
        record = run_job(job | {"part": "compile", "tool": "compiled"}, {}, folder, NUMBA_CACHE_DIR=nothing)
    return record["seconds"]["compile and copy"]


def compare(
    text: str, architecture: str, epochs: int, seeds: list[int], workers: int, sets: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """Sweeps gensim's workers, then trains each seed by every tool in turn."""
    job = {
        "text": text,
        "architecture": architecture,
        "seed": seeds[0],
        "epochs": 1,
        "tool": "gensim",
        "part": "sweep",
    }
    job |= {"settings": SETTINGS, "versions": versions()}
    sweep = {number: run_job(job | {"workers": number}, {}, folder)["words_per_second"] for number in SWEPT}
    best = max(sweep, key=sweep.get)
    tools = dict.fromkeys(TARGETS[architecture], workers) | {"gensim": best}
    records: dict[str, list[dict[str, Any]]] = {tool: [] for tool in tools}
    for seed in seeds:
        for tool, number in tools.items():
            each = job | {"seed": seed, "epochs": epochs, "tool": tool, "workers": number, "part": "contest"}
            records[tool].append(run_job(each, sets, folder))
    contests = [contest(architecture, tool, each, records["gensim"]) for tool, each in records.items()]
    return {
        "architecture": architecture,
        "gensim_sweep": sweep,
        "compiling": seconds_of_compiling(job | {"workers": workers}, folder),
        "contests": contests,
        "records": records,
    }


def contest(architecture: str, tool: str, ours: list[dict[str, Any]], gensim: list[dict[str, Any]]) -> dict[str, Any]:
    """Ratios of the speeds, taken within a seed, and means over the seeds of what was measured."""

    def ratio(seconds: Any) -> float:
        return statistics.median(seconds(theirs) / seconds(own) for own, theirs in zip(ours, gensim, strict=True))

    def means(records: list[dict[str, Any]]) -> dict[str, float]:
        return {name: statistics.fmean(each["quality"][name] for each in records) for name in records[0]["quality"]}

    quality, floor = means(ours), means(gensim)
    return {
        "architecture": architecture,
        "tool": tool,
        "workers": ours[0]["workers"],
        "ratio": ratio(lambda record: record["seconds"]["train"]),
        "ratio_all": ratio(lambda record: record["seconds"]["read and count"] + record["seconds"]["train"]),
        "target": TARGETS[architecture].get(tool),
        "words_per_second": statistics.median(record["words_per_second"] for record in ours),
        "quality": quality,
        "below": [name for name, measure in quality.items() if measure < floor[name] - TOLERANCE],
    }


def table(contests: list[dict[str, Any]]) -> str:
    """Speed and quality as Markdown."""
    names = list(contests[0]["quality"])
    lines = [
        f"| | workers | words per second | times gensim | with reading | {' | '.join(names)} |",
        "|---" * (5 + len(names)) + "|",
    ]
    for each in contests:
        measures = " | ".join(f"{each['quality'][name]:.3f}" for name in names)
        lines.append(
            f"| {each['architecture']}, {each['tool']} | {each['workers']} | {each['words_per_second']:,.0f} "
            f"| {each['ratio']:.2f} | {each['ratio_all']:.2f} | {measures} |"
        )
    return "\n".join(lines)


def caption(record: dict[str, Any]) -> str:
    sweeps = "; ".join(
        f"{each['architecture']}: "
        + ", ".join(f"{speed:,.0f} with {number}" for number, speed in each["gensim_sweep"].items())
        for each in record["results"]
    )
    compiling = " and ".join(f"{each['compiling']:.0f} s ({each['architecture']})" for each in record["results"])
    found = record["environment"]
    return (
        f"{machine(found)}, numba {found['numba']}, gensim {found['gensim']}; {record['words']:,} words, "
        f"{record['epochs']} epochs, means of quality and medians of speed over {record['seeds']} seeds. Compiling, "
        f"which a machine does once, is not counted: {compiling}. gensim's words per second by its workers, in one "
        f"epoch each: {sweeps}."
    )


def versions() -> dict[str, str]:
    return {name: version(name) for name in ("gensim", "numba", "torch")}


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
        "environment": environment() | versions() | {"threads": options.workers},
        "words": results[0]["records"]["gensim"][0]["words"],
        "epochs": options.epochs,
        "seeds": len(options.seeds),
        "settings": SETTINGS | {"pattern": PATTERN, "learning_rates": LEARNING_RATES},
        "results": results,
    }
    for each in results:
        for one in (one for records in each["records"].values() for one in records):
            one["text"] = Path(one["text"]).name
    write_json(options.out / "results" / "word_vectors.json", record)
    contests = [one for each in results for one in each["contests"]]
    print(table(contests))
    if readme.is_file():
        write_part(readme, PART, f"{caption(record)}\n\n{table(contests)}")
    failed = False
    for each in contests:
        name = f"{each['architecture']}, {each['tool']}"
        if each["target"] is not None and each["ratio"] < each["target"]:
            failed = True
            print(f"{name}: {each['ratio']:.2f} times gensim's speed, below {each['target']:g}.", file=sys.stderr)
        for measure_name in each["below"]:
            failed = True
            print(f"{name}: {measure_name} is more than {TOLERANCE} below gensim's mean.", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
