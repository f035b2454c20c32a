"""What each recipe of word vectors is worth for its time: `python -m regard.benchmarks.word_vector_recipes RUN ...`.

Finished runs, trained on one text and measured on the same sets, are put side by side: how they were learnt, how long
it took, what they measure, and how they answer the questions that lectures put to word vectors, each with the rank of
the expected answer.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from regard.benchmarks.report import machine, part_of, write_part
from regard.evaluation.vectors_report import MEASURES
from regard.evaluation.word_neighbours import nearest_neighbours
from regard.modeling.word_vectors import load_word_vectors
from regard.train.records import METRICS, environment, read_json, write_json

PART = "word vector recipes"  # of README.md
QUESTIONS = (
    "madrid - spain + france = paris",
    "king - man + woman = queen",
    "german + airline = lufthansa",
    "russian + river = volga",
    "vietnam + capital = hanoi",
    "czech + currency = koruna",
)
SHOWN = 3  # answers to a question


def read_run(run: Path, questions: list[str]) -> dict[str, Any]:
    """What a run recorded, and its answers.

    Raises:
        ValueError: it is not a finished run of word vectors, or was measured on nothing.
    """
    if not (run / METRICS).is_file():
        raise ValueError(f"There is no finished run in '{run}': give the folder that `regard train` wrote.")
    metrics = read_json(run / METRICS)
    vectors = load_word_vectors(run)
    if not metrics.get("evaluation"):
        raise ValueError(f"The run in '{run}' was measured on no set: `regard evaluate` measures it.")
    config = read_json(run / "config.json")
    keys = ("model_type", "architecture", "objective", "hidden_size", "window")
    return {
        "name": run.resolve().name,
        "environment": metrics["environment"],
        "settings": {key: config[key] for key in keys if key in config},
        "epochs": metrics["training"]["epochs"],
        "seconds": metrics["training"]["seconds"],
        "vocabulary": len(vectors),
        "measures": {name: each[MEASURES[each["kind"]][1]] for name, each in metrics["evaluation"].items()},
        "answers": [answer(vectors, question) for question in questions],
    }


def answer(vectors: Any, question: str) -> dict[str, Any]:
    """The nearest words; where the expected one is in the vocabulary, with its rank."""
    asked, _, expected = question.partition(" = ")
    there = expected in vectors
    found = nearest_neighbours(vectors, [question if there else asked], topn=SHOWN, pass_over=True)[0]
    return {"question": question, "in_vocabulary": there, **found}


def tables(records: list[dict[str, Any]]) -> str:
    """Quality by recipe, and the answers, as Markdown."""
    names = list(dict.fromkeys(name for record in records for name in record["measures"]))
    lines = [
        f"| run | width | window | epochs | seconds | {' | '.join(names)} |",
        "|---" * (5 + len(names)) + "|",
    ]
    for record in records:
        settings, measures = record["settings"], record["measures"]
        cells = [f"{measures[name]:.3f}" if measures.get(name) is not None else "" for name in names]
        lines.append(
            f"| {record['name']} | {settings['hidden_size']} | {settings['window']} | {record['epochs']:g} "
            f"| {record['seconds']:,.0f} | {' | '.join(cells)} |"
        )
    lines += ["", f"| question | {' | '.join(record['name'] for record in records)} |"]
    lines.append("|---" * (1 + len(records)) + "|")
    for place, question in enumerate(each["question"] for each in records[0]["answers"]):
        cells = [cell(record["answers"][place]) for record in records]
        lines.append(f"| {question} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(found: dict[str, Any]) -> str:
    if "error" in found:
        return "a word is missing"
    words = ", ".join(one["word"] for one in found["neighbours"])
    if not found["in_vocabulary"]:
        return f"too rare: {words}"
    rank = f"{found['rank']:,}" if found["rank"] else "none"
    return f"**{rank}**: {words}" if found["rank"] == 1 else f"{rank}: {words}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--questions", nargs="*", default=list(QUESTIONS), help="sums with the word that is expected")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder of results/ and README.md")
    options = parser.parse_args(arguments)
    readme = options.out / "README.md"
    try:
        if readme.is_file():
            part_of(readme, PART)
        records = [read_run(run, options.questions) for run in options.runs]
    except ValueError as error:
        parser.error(str(error))
    write_json(options.out / "results" / "word_vector_recipes.json", {"environment": environment(), "runs": records})
    print(tables(records))
    if readme.is_file():
        write_part(readme, PART, f"{machine(records[0]['environment'])}.\n\n{tables(records)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
