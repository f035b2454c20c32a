"""A recipe with `task: word-vectors` becomes a run: a folder with the vectors, their words, and what was measured."""

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase
from transformers.trainer_utils import set_seed

import regard.modeling
from regard.train import checkpoints
from regard.train.callbacks import LINES, duration, quiet_libraries
from regard.train.corpus import EncodedCorpus, RowSentences, TextSentences, WordSplitter, number_sentences
from regard.train.glove import GloVeState, train_glove
from regard.train.phrases import join_phrases
from regard.train.readers import local_file
from regard.train.recipe import RUN_RECIPE
from regard.train.records import HISTORY, LOSS_CURVE, METRICS, environment, write_json
from regard.train.run import check_folder, remove_run
from regard.train.sections import WORD_VECTORS, Recipe, RecipeError
from regard.train.tokenization import SPECIAL_TOKENS, WORD_PATTERN, word_tokenizer
from regard.train.vocabulary import Vocabulary
from regard.train.word2vec import Plan, TrainingState, memory_needed, train_word2vec

MODEL_CLASSES = {"word2vec": "Word2VecModel", "glove": "GloVeModel"}
TEXT_FOLDER, TEXT, TEXT_RECORD = "text", "words.int32", "text.json"  # the encoded text, until the run is finished
SUMS = "adagrad.safetensors"  # of a checkpoint of GloVe
COMPARED_LINES = 200  # of the text, which are split by the tokenizer too
DEFAULTS = {
    "num_train_epochs": 5,
    "learning_rate": 0.025,
    "min_learning_rate": 1e-4,
    "seed": 42,
    "workers": None,
    "save_strategy": "epoch",
    "save_total_limit": 2,
}

Sentences = TextSentences | RowSentences
State = TrainingState | GloVeState


def train_vectors(recipe: Recipe, run: Path, resume: bool = False, overwrite: bool = False) -> dict[str, Any]:
    """Reads the text, counts, trains, measures, and saves the run in a folder that `from_pretrained` reads.

    Killed at any moment, it goes on with `resume=True` from its last complete checkpoint: with one worker, to the same
    bytes.

    Returns:
        What `metrics.json` holds.

    Raises:
        ValueError: one sentence about the recipe, its data, its test sets or the folder, before any training.
        FloatingPointError: when the loss is not a number any more.
    """
    from regard.train.evaluate_vectors import sets_of

    check_folder(run, recipe, resume, overwrite)
    sets_of(recipe.evaluation)  # refuses a file that is none, before the work
    with quiet_libraries():
        model, corpus, state, data = _prepare(recipe, run, resume, overwrite)
        history = _train(recipe, run, model, corpus, state)
        model.save_pretrained(run)
        write_json(run / HISTORY, history)
        return _measure_and_record(recipe, run, model, state, data)


# --- before ----------------------------------------------------------------------------------------------------------


def _prepare(
    recipe: Recipe, run: Path, resume: bool, overwrite: bool
) -> tuple[Any, EncodedCorpus, State, dict[str, Any]]:
    """The model, the text in its rows, how far an earlier training came, and what is known of the text.

    The text is read into a hidden folder beside the run's. The run's own is made when nothing was found to be wrong.
    """
    splitter = WordSplitter(recipe.tokenizer.pattern or WORD_PATTERN, recipe.tokenizer.lowercase)
    sentences = open_sentences(recipe, splitter)
    if resume:
        checkpoints.tidy(run)
        (run / METRICS).unlink(missing_ok=True)  # from here on the run is not finished
        return _resume(recipe, run, sentences)
    with _beside(run) as folder:
        vocabulary, corpus, data = _read(recipe, sentences, folder / TEXT_FOLDER)
        tokenizer = word_tokenizer(vocabulary.words, recipe.tokenizer.pattern, recipe.tokenizer.lowercase)
        _compare_splits(splitter, tokenizer, sentences)
        model = _build(recipe, vocabulary)
        tokenizer.save_pretrained(folder)
        recipe.save(folder / RUN_RECIPE)
        if overwrite:
            remove_run(run)
        folder.rename(run)
    return model, EncodedCorpus.open(run / TEXT_FOLDER / TEXT, corpus.num_words), _fresh_state(recipe), data


def _fresh_state(recipe: Recipe) -> State:
    return GloVeState() if recipe.model["type"] == "glove" else TrainingState()


def _resume(recipe: Recipe, run: Path, sentences: Sentences) -> tuple[Any, EncodedCorpus, State, dict[str, Any]]:
    """From the last checkpoint; without one from the beginning, on the text as it was encoded."""
    checkpoint = checkpoints.last_checkpoint(run)
    record = run / TEXT_FOLDER / TEXT_RECORD
    model_class = getattr(regard.modeling, MODEL_CLASSES[recipe.model["type"]])
    if not record.is_file():  # the run was finished, and is to go on
        words = model_class.from_pretrained(checkpoint or run).index_to_key
        with _beside(run) as folder:
            _read(recipe, sentences, folder / TEXT_FOLDER, words)
            shutil.rmtree(run / TEXT_FOLDER, ignore_errors=True)
            (folder / TEXT_FOLDER).rename(run / TEXT_FOLDER)
    data = json.loads(record.read_text(encoding="utf-8"))
    vocabulary = Vocabulary(**data.pop("vocabulary"))
    corpus = EncodedCorpus.open(run / TEXT_FOLDER / TEXT, data["words_of_vocabulary"])
    if checkpoint is None:
        return _build(recipe, vocabulary), corpus, _fresh_state(recipe), data
    saved = json.loads((checkpoint / checkpoints.STATE_FILE).read_text(encoding="utf-8"))
    if saved.pop("numbers") != len(corpus.tokens):
        raise RecipeError(
            f"data.train: the text is not the one with which the run in '{run}' began: it is of another length."
        )
    state = type(_fresh_state(recipe))(**saved)
    if isinstance(state, GloVeState):
        state.sums = {name: table.numpy() for name, table in load_file(checkpoint / SUMS).items()}
    return model_class.from_pretrained(checkpoint), corpus, state, data


@contextmanager
def _beside(run: Path) -> Iterator[Path]:
    """A hidden folder beside the run's, which is gone afterwards."""
    folder = run.with_name(f".{run.name}.new")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def open_sentences(recipe: Recipe, splitter: WordSplitter) -> Sentences:
    """The lines of the recipe's text, each a sentence.

    Raises:
        ValueError: data that is not there.
    """
    path = local_file(recipe.data.train)
    if path is not None and path.suffix.lower() == ".txt":
        if not path.is_file():
            raise RecipeError(f"data.train: there is no file '{path}'.")
        return TextSentences(path, splitter.lines)
    from regard.train.data import load_splits

    return RowSentences(load_splits(recipe.data, WORD_VECTORS)["train"], "text", splitter.lines)


def _read(
    recipe: Recipe, sentences: Sentences, folder: Path, words: list[str] | None = None
) -> tuple[Vocabulary, EncodedCorpus, dict[str, Any]]:
    """Leaves in the folder the text in rows, and a record of it; the rows are those of `words`, if they are given."""
    start = time.perf_counter()
    folder.mkdir()
    text = number_sentences(sentences, folder / "first.int32")
    least = recipe.model.get("min_count", 5)
    if recipe.data.phrases:
        text = join_phrases(text, recipe.data.phrases, recipe.data.phrase_delta, least, folder / "phrases.int32")
    if words is None:
        vocabulary = text.vocabulary(least, recipe.tokenizer.vocab_size, list(SPECIAL_TOKENS.values()))
    else:
        counts = dict(zip(text.words, text.counts.tolist(), strict=True))
        total = int(text.counts.sum())
        vocabulary = Vocabulary(words, np.array([counts.get(w, 0) for w in words]), total, len(counts) - len(words))
    corpus = text.encode(vocabulary.words, folder / TEXT)
    for path in folder.iterdir():
        if path.name != TEXT:
            path.unlink()
    data = {
        "words": vocabulary.total,
        "words_of_vocabulary": corpus.num_words,
        "vocabulary_size": len(vocabulary.words),
        "distinct_words_left_out": vocabulary.dropped,
        "seconds": time.perf_counter() - start,
    }
    kept = {**asdict(vocabulary), "counts": vocabulary.counts.tolist()}
    write_json(folder / TEXT_RECORD, {**data, "vocabulary": kept})
    return vocabulary, corpus, data


def _compare_splits(splitter: WordSplitter, tokenizer: PreTrainedTokenizerBase, sentences: Sentences) -> None:
    """The words that are learnt must be those that the run's tokenizer makes: two libraries read one pattern."""
    normalize, split = tokenizer.backend_tokenizer.normalizer, tokenizer.backend_tokenizer.pre_tokenizer
    lines = (line for text in sentences.blocks() for line in text.split("\n"))
    for line in islice(lines, COMPARED_LINES):
        made = [word for word, _ in split.pre_tokenize_str(normalize.normalize_str(line))]
        if made != (found := splitter(line)):
            differing = next((one for one in zip(found, made, strict=False) if one[0] != one[1]), (found, made))
            raise RecipeError(
                f"tokenizer.pattern: {splitter.pattern!r} finds other words in training than the tokenizer does "
                f"({differing[0]!r} and {differing[1]!r}): write it without what the libraries read differently."
            )


def _build(recipe: Recipe, vocabulary: Vocabulary) -> Any:
    """The model with fresh vectors, which follow from the seed; what it takes in memory is said before."""
    settings = {key: value for key, value in recipe.model.items() if key != "type"}
    width = settings.get("hidden_size", 100)
    size = memory_needed(len(vocabulary.words), width, settings.get("objective", "negative-sampling"))
    _say(
        f"{recipe.name}: {vocabulary.total:,} words; {len(vocabulary.words):,} distinct ones have a vector of {width},"
        f" {vocabulary.dropped:,} rarer ones have none; training takes {size / 1e6:,.0f} MB"
    )
    set_seed(recipe.training.get("seed", DEFAULTS["seed"]))
    model_class = getattr(regard.modeling, MODEL_CLASSES[recipe.model["type"]])
    return model_class.from_vocabulary(vocabulary.words, vocabulary.counts, **settings)


# --- training --------------------------------------------------------------------------------------------------------


def _train(recipe: Recipe, run: Path, model: Any, corpus: EncodedCorpus, state: State) -> list[dict[str, float]]:
    given = DEFAULTS | recipe.training
    glove = recipe.model["type"] == "glove"

    def save(state: State) -> None:
        checkpoint = run / f"checkpoint-{state.epoch if glove else state.step}"
        staging = checkpoints.staging(checkpoint)
        model.save_pretrained(staging)
        if glove:
            save_file({name: torch.from_numpy(table) for name, table in state.sums.items()}, staging / SUMS)
        write_json(staging / checkpoints.STATE_FILE, state.to_dict() | {"numbers": len(corpus.tokens)})
        checkpoints.publish(checkpoint)
        checkpoints.rotate(run, given["save_total_limit"])

    with VectorProgress() as progress:
        settings = {"epochs": given["num_train_epochs"], "workers": given["workers"], "seed": given["seed"]}
        settings |= {"learning_rate": given["learning_rate"], "state": state}
        settings["save"] = None if given["save_strategy"] == "no" else save
        if glove:
            return train_glove(model, corpus, folder=run / TEXT_FOLDER, report=progress.report_epoch, **settings)
        settings |= {key: given[key] for key in ("min_learning_rate", "engine", "logging_steps") if key in given}
        settings["save_steps"] = given["save_steps"] if given["save_strategy"] == "steps" else len(corpus.chunks()) - 1
        if "per_device_train_batch_size" in given:
            settings["words_per_batch"] = given["per_device_train_batch_size"]
        if given.get("engine") == "torch" and torch.accelerator.is_available():
            model.to(torch.accelerator.current_accelerator())
        return train_word2vec(model, corpus, report=progress.report, **settings)


class VectorProgress:
    """Words per second, mean loss of a pair, learning rate and time left, on standard error: on a terminal a bar,
    elsewhere one plain line every few percent."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.bar: tqdm | None = None
        self.shown = -1

    def __enter__(self) -> "VectorProgress":
        return self

    def __exit__(self, *error: Any) -> None:
        if self.bar is not None:
            self.bar.close()

    def report(self, state: TrainingState, plan: Plan) -> None:
        entry = state.history[-1]
        parts = [f"loss {entry['loss']:.3f}", f"{entry['words_per_second']:,.0f} words/s"]
        parts.append(f"learning rate {entry['learning_rate']:.4f}")
        if self.stream.isatty():
            if self.bar is None:
                self.bar = tqdm(
                    total=plan.steps,
                    desc="training",
                    unit="step",
                    file=self.stream,
                    dynamic_ncols=True,
                    mininterval=0.2,
                )
            self.bar.set_postfix_str(", ".join(parts), refresh=False)
            self.bar.update(state.step - self.bar.n)
            return
        if (part := state.step * LINES // plan.steps) == self.shown:
            return
        self.shown = part
        share = plan.share(state.step)
        left = entry["seconds"] * (1 - share) / share
        line = f"step {state.step:>6} of {plan.steps} ({share:4.0%}), epoch {entry['epoch']:.2f}, "
        print(line + ", ".join([*parts, f"{duration(left)} left"]), file=self.stream, flush=True)

    def report_epoch(self, state: GloVeState, epochs: int) -> None:
        """A line for each epoch of GloVe."""
        entry = state.history[-1]
        left = state.seconds / state.epoch * (epochs - state.epoch)
        print(
            f"epoch {state.epoch:>3} of {epochs}, loss {entry['loss']:.4f}, {entry['pairs_per_second']:,.0f} pairs/s, "
            f"{duration(left)} left",
            file=self.stream,
            flush=True,
        )


# --- after -----------------------------------------------------------------------------------------------------------


def _measure_and_record(recipe: Recipe, run: Path, model: Any, state: State, data: dict[str, Any]) -> dict[str, Any]:
    """Measures on the recipe's test sets, and writes down what is known of the run; the encoded text is deleted."""
    from regard.evaluation.curves import plot_history
    from regard.model_cards.card import write_card
    from regard.train.evaluate_vectors import evaluate_by_recipe

    _say(f"trained for {duration(state.seconds)}; evaluating")
    last = state.history[-1] if state.history else {}
    words = last.get("words") or round(data["words_of_vocabulary"] * last.get("epoch", 0))
    metrics = {
        "recipe": recipe.name,
        "environment": environment(),
        "data": data,
        "model": {"parameters": model.num_parameters(), "class": type(model).__name__},
        "training": {
            "seconds": state.seconds,
            "steps": last.get("step", last.get("epoch")),
            "epochs": last.get("epoch"),
            "words": words,
            "words_per_second": words / state.seconds if state.seconds else 0.0,
            "final_loss": last.get("epoch_loss", last.get("loss")),
            "workers": recipe.training.get("workers") or os.cpu_count(),
        },
        "evaluation": evaluate_by_recipe(model, recipe.evaluation),
    }
    if state.history:
        plot_history([{"step": entry["epoch"], **entry} for entry in state.history], run / LOSS_CURVE)
    write_json(run / METRICS, metrics)
    write_card(run)
    (run / TEXT_FOLDER / TEXT_RECORD).unlink(missing_ok=True)  # first, so that no half of the folder is taken for one
    shutil.rmtree(run / TEXT_FOLDER)
    return metrics


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
