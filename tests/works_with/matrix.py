"""Which tools work with what regard publishes: one row a tool, each a script that is run where regard is not imported.

`python -m tests.works_with.matrix --out README.md` runs all of them in the Python that REGARD_TOOLS_PYTHON names (by
default the present one), and writes the table between the markers of the part "works with".
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent
PART = "works with"
PYTHON = "REGARD_TOOLS_PYTHON"


@dataclass(frozen=True)
class Row:
    """One tool.

    Args:
        name: what it is called.
        script: `use_<script>.py` is run.
        packages: distributions that it needs; the first one's version stands in the table.
        done: what the script does and checks.
        limit: what to mind, or what does not work, if there is such a thing.
        slow: takes a minute or more.
    """

    name: str
    script: str
    packages: tuple[str, ...]
    done: str
    limit: str = ""
    slow: bool = False


ROWS = (
    Row(
        "`pipeline`",
        "pipelines",
        ("transformers",),
        "text-generation, fill-mask, text-classification, token-classification and feature-extraction give what the "
        "model's own outputs say, alone and in batches",
    ),
    Row(
        "`generate`",
        "generate",
        ("transformers",),
        "greedy, beam search, sampling, assisted decoding, prompt look-up, streaming; with and without a cache",
    ),
    Row(
        "`Trainer`, `Seq2SeqTrainer`",
        "trainer",
        ("transformers", "accelerate", "datasets"),
        "losses fall; evaluation and generation in training agree with the model; what is saved loads",
    ),
    Row(
        "PEFT",
        "peft",
        ("peft",),
        "LoRA learns on decoder and encoder-decoder; the adapter is saved, loaded and merged with equal outputs",
    ),
    Row(
        "TRL",
        "trl",
        ("trl", "datasets"),
        "`SFTTrainer` on texts, packed texts, and prompts with completions",
        "set `tokenizer.split_special_tokens = False`, since it writes the end token as text",
    ),
    Row(
        "lm-eval",
        "lm_eval",
        ("lm_eval", "datasets"),
        "accuracy on multiple choice and perplexity per byte are those of the model's own outputs",
        "perplexity wants `add_bos_token=False`, since it puts a first token of its own",
    ),
    Row(
        "sentence-transformers",
        "sentence_transformers",
        ("sentence-transformers",),
        "an encoder's mean vector and a decoder's last, alone and in batches; saved, loaded and trained",
    ),
    Row(
        "`torch.compile`",
        "compile",
        ("torch",),
        "one graph: equal outputs, gradients and generated tokens",
        slow=True,
    ),
    Row(
        "`torch.export`",
        "export",
        ("torch",),
        "one graph for any number and length of texts; equal outputs",
        "without a cache: `model.config.use_cache = False`",
    ),
    Row(
        "ONNX",
        "onnx",
        ("onnxruntime", "onnx", "onnxscript"),
        "transformers' `OnnxExporter`; equal outputs in onnxruntime for any number and length of texts",
        "without a cache, as `torch.export`",
        slow=True,
    ),
    Row(
        "int8 quantisation",
        "quantisation",
        ("torch",),
        "`quantize_dynamic` on all matrices: outputs within 5%, generation with a cache as without",
    ),
    Row("gensim", "gensim", ("gensim",), "word vectors by file, text or binary, and by `to_gensim`: equal neighbours"),
    Row("safetensors", "safetensors", ("safetensors",), "files open alone, hold each weight once, and load"),
    Row("AutoTokenizer", "tokenizer", ("tokenizers", "datasets"), "every folder's, by transformers and by tokenizers"),
    Row(
        "Gradio",
        "gradio",
        ("gradio",),
        "a page over a pipeline answers as the pipeline; see `regard app`",
        "not by `Interface.from_pipeline`, which gradio 6.31 has not brought to transformers 5",
    ),
)


def tools_python() -> str:
    """The Python whose packages are the tools."""
    return os.environ.get(PYTHON) or sys.executable


def versions(python: str) -> dict[str, str | None]:
    """The version of each distribution that a row needs, None where it is not installed.

    Raises:
        OSError: there is no such Python, or it cannot run.
    """
    names = sorted({name for row in ROWS for name in row.packages})
    program = (
        "import importlib.metadata as m, json, sys\n"
        "def version(name):\n"
        "    try: return m.version(name)\n"
        "    except m.PackageNotFoundError: return None\n"
        "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    )
    done = subprocess.run([python, "-c", program, *names], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise OSError(f"{PYTHON}={python} cannot run: {done.stderr.strip()}")
    return json.loads(done.stdout)


def absent(row: Row, found: dict[str, str | None]) -> list[str]:
    """The distributions that a row needs and the environment lacks."""
    return [name for name in row.packages if found[name] is None]


def environment(work: Path) -> dict[str, str]:
    """The variables of a script's process: offline, and with its caches in its own folder."""
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "HF_ENDPOINT")}
    variables |= {
        "HF_HOME": str(work / "hf"),
        "HF_MODULES_CACHE": str(work / "hf" / "modules"),
        "HF_DATASETS_CACHE": str(work / "hf" / "datasets"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_EVALUATE_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "GRADIO_ANALYTICS_ENABLED": "False",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(work / "inductor"),
    }
    variables.setdefault("OMP_NUM_THREADS", "1")
    return variables


def run(row: Row, folders: Path, work: Path, python: str, timeout: float = 600) -> str | None:
    """Runs a row's script.

    Args:
        folders: what `make_folders` wrote.
        work: an empty folder for what the script writes.

    Returns:
        None if all is right, or the end of what it said.
    """
    try:
        done = subprocess.run(
            [python, str(SCRIPTS / f"use_{row.script}.py"), str(folders.resolve())],
            cwd=work,
            env=environment(work),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"It took longer than {timeout:.0f} seconds."
    if done.returncode == 0:
        return None
    return (done.stderr or done.stdout).strip()[-3000:] or f"It ended with status {done.returncode}."


def table(outcomes: dict[str, str], found: dict[str, str | None]) -> str:
    """Markdown. `outcomes` gives for each script "yes", "no" or "not installed"."""
    lines = ["| tool | version | what is checked | works |", "|---|---|---|---|"]
    for row in ROWS:
        works = outcomes[row.script] + (f"; {row.limit}" if row.limit and outcomes[row.script] == "yes" else "")
        lines.append(f"| {row.name} | {found[row.packages[0]] or '–'} | {row.done} | {works} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.works_with.matrix", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="SCRIPT", help="one row; repeatable; writes nothing")
    parser.add_argument("--out", type=Path, metavar="FILE", help=f"write the table there, as the part '{PART}'")
    options = parser.parse_args(arguments)
    unknown = set(options.only or ()) - {row.script for row in ROWS}
    if unknown:
        parser.error(f"--only {', '.join(sorted(unknown))}: the rows are {', '.join(row.script for row in ROWS)}.")
    if options.only and options.out:
        parser.error("--out wants all rows, and --only runs some.")

    from regard.benchmarks.report import part_of, write_part

    from .folders import make_folders

    if options.out:
        part_of(options.out, PART)  # refused before an hour's work, not after it
    python = tools_python()
    found, outcomes = versions(python), {}
    with tempfile.TemporaryDirectory(prefix="regard-works-with-") as scratch:
        folders = make_folders(Path(scratch, "folders"))
        for row in ROWS:
            if options.only and row.script not in options.only:
                continue
            lacking = absent(row, found)
            work = Path(scratch, row.script)
            work.mkdir()
            fault = None if lacking else run(row, folders, work, python)
            outcomes[row.script] = "not installed" if lacking else "no" if fault else "yes"
            print(f"{row.name}: {outcomes[row.script]}", *([fault] if fault else []), sep="\n", flush=True)
    if not options.only:
        print(table(outcomes, found))
    if options.out:
        write_part(options.out, PART, table(outcomes, found))
    return int("no" in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
