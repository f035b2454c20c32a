"""The command on a run: a text comes out the same by argument, file, standard input and Python; the README runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import regard
from regard import TransformerConfig, TransformerForConditionalGeneration, Word2VecModel, load_run, translate
from regard.train.tokenization import train_tokenizer

# A blank line, leading spaces, a carriage return before the end of a line, a separator that is no end of a line
# (case 24 of what users run into), and no end to the last line.
TEN_LINES = "The cat slept.\r\n\n  The dog ran.\nOne.\u2028Two.\n   \nA.\nB b.\n\r\nThe cat ran.\nThe end"
SHORT = ("--num-beams", "2", "--max-new-tokens", "6")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder that holds the run `runs/demo`: a tiny model with random weights."""
    home = tmp_path_factory.mktemp("home")
    tokenizer = train_tokenizer(["The cat slept.", "Kedi uyudu."], "byte-bpe", 270, min_frequency=1, template="eos")
    torch.manual_seed(0)
    model = TransformerForConditionalGeneration(
        TransformerConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            encoder_layers=1,
            decoder_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
        )
    )
    for part in (model, tokenizer):
        part.save_pretrained(home / "runs" / "demo")
    return home


def command(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
    result = subprocess.run(
        [sys.executable, "-m", "regard", *words], input=stdin, capture_output=True, cwd=folder, timeout=120
    )
    assert result.returncode == 0, result.stderr.decode()
    assert result.stderr == b""  # nothing but the result is said, where there is nothing to say
    return result.stdout


def test_argument_file_input_and_python_give_the_same(folder):
    run = "runs/demo"
    (folder / "in.txt").write_bytes(TEN_LINES.encode())
    by_file = command(folder, "translate", run, "--file", "in.txt", *SHORT)
    by_input = command(folder, "translate", run, *SHORT, stdin=TEN_LINES.encode())
    by_argument = command(folder, "translate", run, TEN_LINES, *SHORT)
    command(folder, "translate", run, "--file", "in.txt", "--output", "out.txt", *SHORT)

    model, tokenizer = load_run(folder / run)
    by_python = translate(model, tokenizer, TEN_LINES.split("\n"), num_beams=2, max_new_tokens=6)

    assert by_input == by_file == by_argument == (folder / "out.txt").read_bytes()
    lines = by_file.decode().split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(TEN_LINES.split("\n")) == 10
    assert lines == [re.sub(r"[\r\n]+", " ", line) for line in by_python]
    assert [i for i, line in enumerate(lines) if line == ""] == [1, 4, 7]


def test_a_run_of_word_vectors_says_its_result_alone(folder):
    """No bar of the weights among it: `command` sees that standard error is empty."""
    words = ["madrid", "france", "spain", "paris", "oslo", "norway"]
    Word2VecModel.from_vocabulary(words, [6, 5, 4, 3, 2, 1]).save_pretrained(folder / "runs" / "words")
    (folder / "pairs.tsv").write_text("madrid\tspain\t9\noslo\tnorway\t8\nparis\toslo\t3\n", "utf-8")
    assert b"3 of 3" in command(folder, "evaluate", "runs/words", "--similarity", "pairs.tsv")
    assert b"paris" in command(folder, "neighbours", "runs/words", "- oslo + madrid")
    for picture in (
        ["vectors", *words, "--method", "pca"],
        ["one-hot", *words],
        ["analogies", "oslo:norway", "paris:france"],
    ):
        what, *rest = picture
        assert command(folder, "plot", what, "runs/words", *rest, "-o", "words.png") == b"Wrote words.png\n"


def test_json_and_n_best(folder):
    run = "runs/demo"
    (pair,) = json.loads(command(folder, "translate", run, "The cat slept.", "--json", *SHORT))
    assert pair["source"] == "The cat slept."
    best = command(folder, "translate", run, "The cat slept.\n\nThe end", "--n-best", "2", *SHORT).decode()
    numbers = [line.partition(" ||| ")[0] for line in best.removesuffix("\n").split("\n")]
    assert numbers == sorted(numbers)
    assert set(numbers) == {"0", "1", "2"}
    assert best.startswith(f"0 ||| {pair['translation']}")


def test_the_code_of_the_readme_runs(folder):
    """The blocks as they stand, but for the network: what is pushed is saved."""
    readme = Path(regard.__file__).resolve().parent.parent / "README.md"
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text("utf-8"), flags=re.DOTALL)
    assert len(blocks) == 3
    vectors = Word2VecModel.from_vocabulary(
        ["madrid", "france", "spain", "paris", "oslo", "norway"], [6, 5, 4, 3, 2, 1]
    )
    vectors.save_pretrained(folder / "runs" / "wiki-skipgram")
    for code in blocks:
        code = code.replace("part.push_to_hub(", "part.save_pretrained(")
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, timeout=120)
        assert result.returncode == 0, result.stderr
    assert (folder / "my-name" / "en-tr-tuned" / "modeling_seq2seq.py").is_file()
    load_run(folder / "my-name" / "en-tr-tuned")
    assert (folder / "vectors.txt").read_text().startswith("6 100\n")
