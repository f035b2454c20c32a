"""The demo: a translator from English to Turkish, trained while one waits, and what can be done with it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.train.recipe import load_recipe
from regard.train.turkish import make_pairs

RECIPE = "translation/turkish-en-tr"
FOLDER = "runs/demo"
PICTURE = "cross_attention.png"
RUNNING_EXAMPLE = "The cat ate the mouse."
SENTENCES = (
    RUNNING_EXAMPLE,
    "The cats did not eat the mice.",
    "Will my old teacher read your books?",
    "Are the children drinking the water?",
    "I forgot our doctor.",
)

# What someone without regard would run: nothing but transformers. The finder makes sure of it.
ELSEWHERE = """
import json, sys

class NoRegard:
    def find_spec(self, name, path=None, target=None):
        if name == "regard" or name.startswith("regard."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoRegard())
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.utils import logging

logging.disable_progress_bar()
folder, text = sys.argv[1:]
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
batch = tokenizer([text], return_tensors="pt")
print(json.dumps(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)[0]))
"""


def run_demo(
    output_dir: str | None = None,
    overrides: Sequence[str] = (),
    max_steps: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Trains the translator, shows what it learnt, and loads it where regard is not installed.

    Args:
        output_dir: the run's folder, which must not hold a run yet; by default `runs/demo`, which is replaced.
        overrides: `key=value` settings of the recipe `translation/turkish-en-tr`.
        max_steps: stop so early, for a look at how it goes.
        resume: go on with the run in that folder.
        overwrite: delete the run in that folder first.

    Returns:
        What `metrics.json` holds, with the `translations` shown, the `picture` and the translation made `elsewhere`.

    Raises:
        ValueError: one sentence about the settings or the folder.
        RuntimeError: when the saved run does not load in another process.
    """
    from regard.evaluation.attention_pictures import plot_attention
    from regard.evaluation.generation import load_run, translate
    from regard.model_cards.card import write_card
    from regard.train.callbacks import duration, quiet_libraries
    from regard.train.run import train

    settings = [*overrides, *([f"training.max_steps={max_steps}"] if max_steps else [])]
    recipe = load_recipe(RECIPE, settings)
    run = Path(output_dir or FOLDER)
    _show_data()
    replace = overwrite or (output_dir is None and not resume)
    metrics = train(recipe, str(run), resume=resume, overwrite=replace)
    if not metrics:  # not the main process
        return {}
    test = metrics["evaluation"]["test"]
    pairs = metrics["data"]["test"]["examples"]
    seconds = metrics["training"]["seconds"]
    print(f"\nTrained in {duration(seconds)}. Of {pairs:,} sentences whose combinations of words it has never seen,")
    print(f"{test['exact_match']:.1%} come out right to the letter.\n")

    with quiet_libraries():
        model, tokenizer = load_run(run)
        evaluation = recipe.evaluation
        translations = translate(
            model, tokenizer, SENTENCES, num_beams=evaluation.num_beams, max_new_tokens=evaluation.max_new_tokens
        )
        picture = plot_attention(model, tokenizer, RUNNING_EXAMPLE, path=run / PICTURE, layer="mean", head="mean")
        write_card(run)
    width = max(map(len, SENTENCES))
    for source, translation in zip(SENTENCES, translations, strict=True):
        print(f"  {source:{width}}   {translation}")
    print(f"\nWhere it looked as it wrote the first one, subject, object, verb: {picture}")

    elsewhere = translate_elsewhere(run, RUNNING_EXAMPLE)
    print(f"Loaded by transformers alone, in another process that cannot import regard: {elsewhere}\n")
    _show_next_steps(run)
    shown = [{"source": s, "prediction": t} for s, t in zip(SENTENCES, translations, strict=True)]
    return metrics | {"translations": shown, "picture": str(picture), "elsewhere": elsewhere}


def translate_elsewhere(run: str | os.PathLike[str], text: str) -> str:
    """What the run makes of a text in a process that has transformers and not regard.

    Raises:
        RuntimeError: when that process fails.
    """
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            [sys.executable, "-I", "-c", ELSEWHERE, str(Path(run).resolve()), text],
            cwd=empty,
            env=os.environ | {"HF_MODULES_CACHE": empty, "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"The run in {run} does not load without regard: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def _show_data() -> None:
    pairs = make_pairs("train", size=3)
    print("A Transformer learns to translate English to Turkish, from nothing but pairs such as these:\n")
    width = max(len(pair["en"]) for pair in pairs)
    for pair in pairs:
        print(f"  {pair['en']:{width}}   {pair['tr']}")
    print(flush=True)


def _show_next_steps(run: Path) -> None:
    regard, tensorboard = _command("regard"), _command("tensorboard")
    print("Next:")
    for command, why in (
        (f'{regard} translate {run} "The dog saw the cat."', "another sentence"),
        (f"{tensorboard} --logdir {run}", "the training, step by step"),
        (f"less {run}/README.md", "the model's card, written from what was measured"),
        (f"{regard} demo --output runs/rotary model.position_embedding_type=rotary", "another design"),
        (f"{regard} train translation/multi30k-de-en data.train=my.tsv", "your own pairs"),
        (f"{regard} list", "all recipes"),
    ):
        print(f"  {command}\n      {why}")


def _command(name: str) -> str:
    """How the user's shell finds an installed command: by its name, or beside this interpreter."""
    if shutil.which(name) is not None:
        return name
    beside = shutil.which(name, path=Path(sys.executable).parent)
    if beside is None:
        return f"{sys.executable} -m {name}"
    return os.path.relpath(beside) if Path(beside).is_relative_to(Path.cwd()) else beside
