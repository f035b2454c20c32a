"""A recipe with `task: word-vectors` becomes a run: a folder with the vectors, their words, and what was measured."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import torch
from safetensors.torch import load_file, save_file
from tqdm.auto import tqdm
from transformers.trainer_utils import set_seed

import regard.modeling
from regard.train import checkpoints, cooccurrence
from regard.train.callbacks import LINES, duration, quiet_libraries
from regard.train.corpus import EncodedCorpus, WordSplitter
from regard.train.glove import GloVeState, train_glove
from regard.train.glove import memory_needed as memory_of_glove
from regard.train.recipe import RUN_RECIPE
from regard.train.records import HISTORY, LOSS_CURVE, METRICS, environment, write_json
from regard.train.run import TOKENIZER, check_folder, remove_run
from regard.train.sections import Recipe, RecipeError, training_of
from regard.train.vectors_start import MODEL_CLASSES, read_start, settings_of, start_on
from regard.train.vectors_text import TEXT, TEXT_FOLDER, TEXT_RECORD, TextProgress, read_text, tokenizer_for
from regard.train.vocabulary import Vocabulary
from regard.train.word2vec import Plan, TrainingState, memory_needed, train_word2vec, usable_cores

SUMS = "adagrad.safetensors"  # of a checkpoint of GloVe

State = TrainingState | GloVeState


def train_vectors(recipe: Recipe, run: Path, resume: bool = False, overwrite: bool = False) -> dict[str, Any]:
    """Reads the text, counts, trains, measures, and saves the run in a folder that `from_pretrained` reads.

    Killed at any moment, it goes on with `resume=True` from its last complete checkpoint: with one worker, to the same
    bytes. The run's tokenizer makes the words that have a vector, each by its row; phrases (`data.phrases`) alone it
    does not make, and they are looked up by their names, such as `new_york`.

    Returns:
        What `metrics.json` holds.

    Raises:
        ValueError: one sentence about the recipe, its data, its test sets or the folder, before any training.
        FloatingPointError: when the loss is not a number any more.
    """
    from regard.train.evaluate_vectors import sets_of

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError(
            "Word vectors are trained in one process, by threads (training.workers): call it without `accelerate "
            "launch` or torchrun."
        )
    if _is_glove(recipe) and not (rate := training_of(recipe)["learning_rate"]) > 0:
        raise RecipeError(f"training.learning_rate: {rate} must be above 0 for GloVe to learn anything.")
    _check_device(recipe)
    check_folder(run, recipe, resume, overwrite)
    sets_of(recipe.evaluation)  # refuses a file that is none, before the work
    with quiet_libraries():
        model, corpus, state, data = _prepare(recipe, run, resume, overwrite)
        history = _train(recipe, run, model, corpus, state, data["digest"])
        model.save_pretrained(run)
        write_json(run / HISTORY, history)
        metrics = _measure_and_record(recipe, run, model, state, data)
        _say(f"the run is in {run}")
        return metrics


def _is_glove(recipe: Recipe) -> bool:
    return recipe.model["type"] == "glove"


def _device(recipe: Recipe) -> torch.device | None:
    """Where the engine torch trains, if not on the processor."""
    on_it = training_of(recipe)["engine"] == "torch" and torch.accelerator.is_available()
    return torch.accelerator.current_accelerator() if on_it else None


def _check_device(recipe: Recipe) -> None:
    workers, device = training_of(recipe)["workers"] or 1, _device(recipe)
    if device is not None and workers > 1:
        raise RecipeError(
            f"training.workers: {workers} are for the processor, and training.engine: torch learns on the device "
            f"'{device.type}', one stretch of the text after the other: set training.workers=null."
        )


# --- before ----------------------------------------------------------------------------------------------------------


def _prepare(
    recipe: Recipe, run: Path, resume: bool, overwrite: bool
) -> tuple[Any, EncodedCorpus, State, dict[str, Any]]:
    """The model, the text in its rows, how far an earlier training came, and what is known of the text.

    The text is read into a hidden folder beside the run's. The run's own is made when nothing was found to be wrong.
    """
    splitter = WordSplitter(recipe.tokenizer.pattern, recipe.tokenizer.lowercase)
    if resume:
        checkpoints.tidy(run)
        prepared = _resume(recipe, run, splitter)
        (run / METRICS).unlink(missing_ok=True)  # from here on the run is not finished
        recipe.save(run / RUN_RECIPE)  # which may train longer than before
        return prepared
    start = read_start(recipe)
    known = [] if start is None else start.index_to_key
    with _beside(run) as folder:
        vocabulary, corpus, data = read_text(recipe, splitter, folder / TEXT_FOLDER, known=known)
        model = _build(recipe, vocabulary, start)
        tokenizer_for(recipe, vocabulary.words).save_pretrained(folder)
        recipe.save(folder / RUN_RECIPE)
        if overwrite:
            remove_run(run)
        _move(folder, run)
    return model, EncodedCorpus.open(run / TEXT_FOLDER / TEXT, corpus.num_words), _fresh_state(recipe), data


def _move(folder: Path, run: Path) -> None:
    """Gives a folder the place of a run, which may be empty; what makes it a run comes last."""
    if not run.is_dir():
        folder.rename(run)
        return
    for path in sorted(folder.iterdir(), key=lambda path: path.name == TOKENIZER):
        path.rename(run / path.name)


def _fresh_state(recipe: Recipe) -> State:
    return GloVeState() if _is_glove(recipe) else TrainingState()


def _resume(recipe: Recipe, run: Path, splitter: WordSplitter) -> tuple[Any, EncodedCorpus, State, dict[str, Any]]:
    """From the last checkpoint; without one from the beginning, on the text as it was encoded.

    Raises:
        RecipeError: before anything is changed, where the text is another one, or where a trained run kept no
            checkpoint.
    """
    checkpoint = checkpoints.last_checkpoint(run)
    record = run / TEXT_FOLDER / TEXT_RECORD
    if checkpoint is None and ((run / checkpoints.WEIGHTS_FILE).is_file() or not record.is_file()):
        raise RecipeError(
            f"The run in '{run}' is trained and kept no checkpoint to go on from (training.save_strategy: no): train "
            "it anew with --overwrite, or train its vectors on in another run with model.start_from."
        )
    saved = {}
    if checkpoint is not None:
        saved = json.loads((checkpoint / checkpoints.STATE_FILE).read_text(encoding="utf-8"))
    digest = saved.pop("text", None)
    model_class = getattr(regard.modeling, MODEL_CLASSES[recipe.model["type"]])
    if not record.is_file():  # the run was finished, and is to go on
        words = model_class.from_pretrained(checkpoint).index_to_key
        with _beside(run) as folder:
            _, _, data = read_text(recipe, splitter, folder / TEXT_FOLDER, words)
            if data["digest"] != digest:
                raise RecipeError(f"data.train: the text is not the one with which the run in '{run}' began.")
            shutil.rmtree(run / TEXT_FOLDER, ignore_errors=True)
            (folder / TEXT_FOLDER).rename(run / TEXT_FOLDER)
    cooccurrence.tidy(run / TEXT_FOLDER)
    data = json.loads(record.read_text(encoding="utf-8"))
    vocabulary = Vocabulary(**data.pop("vocabulary"))
    corpus = EncodedCorpus.open(run / TEXT_FOLDER / TEXT, data["words_of_vocabulary"])
    if checkpoint is None:
        return _build(recipe, vocabulary, read_start(recipe)), corpus, _fresh_state(recipe), data
    state = type(_fresh_state(recipe))(**saved)
    if isinstance(state, GloVeState):
        state.sums = {name: table.numpy() for name, table in load_file(checkpoint / SUMS).items()}
    return model_class.from_pretrained(checkpoint), corpus, state, data


@contextmanager
def _beside(run: Path) -> Iterator[Path]:
    """A hidden folder beside the run's, which is gone afterwards."""
    place = run.resolve()  # which has a name, whatever the run's is, such as '.'
    folder = place.with_name(f".{place.name}.new")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _build(recipe: Recipe, vocabulary: Vocabulary, start: Any | None = None) -> Any:
    """The model with fresh vectors, which follow from the seed, or `start` with more rows, of which the new ones do;
    what it takes in memory is said before."""
    settings = settings_of(recipe)
    width = settings.get("hidden_size", 100)
    if _is_glove(recipe):
        size = memory_of_glove(len(vocabulary.words), width, vocabulary.total, settings.get("window", 15))
    else:
        size = memory_needed(len(vocabulary.words), width, settings.get("objective", "negative-sampling"))
    _say(
        f"{recipe.name}: {vocabulary.total:,} words; {len(vocabulary.words):,} distinct ones have a vector of {width},"
        f" {vocabulary.dropped:,} rarer ones have none; training takes {size / 1e6:,.0f} MB"
    )
    set_seed(training_of(recipe)["seed"])
    if start is not None:
        before = len(start)
        model = start_on(recipe, start, vocabulary)
        _say(
            f"{before:,} words begin from the vectors of {recipe.model['start_from']}, {len(model) - before:,} are new"
        )
        return model
    model_class = getattr(regard.modeling, MODEL_CLASSES[recipe.model["type"]])
    return model_class.from_vocabulary(vocabulary.words, vocabulary.counts, **settings)


# --- training --------------------------------------------------------------------------------------------------------


def _train(
    recipe: Recipe, run: Path, model: Any, corpus: EncodedCorpus, state: State, digest: str
) -> list[dict[str, float]]:
    given, glove = training_of(recipe), _is_glove(recipe)

    def save(state: State) -> None:
        checkpoint = run / f"checkpoint-{state.epoch if glove else state.step}"
        staging = checkpoints.staging(checkpoint)
        model.save_pretrained(staging)
        if glove:
            save_file({name: torch.from_numpy(table) for name, table in state.sums.items()}, staging / SUMS)
        write_json(staging / checkpoints.STATE_FILE, state.to_dict() | {"text": digest})
        checkpoints.publish(checkpoint)
        checkpoints.rotate(run, given["save_total_limit"])

    with VectorProgress() as progress:
        settings = {"epochs": given["num_train_epochs"], "workers": given["workers"], "seed": given["seed"]}
        settings |= {"learning_rate": given["learning_rate"], "state": state}
        settings["save"] = None if given["save_strategy"] == "no" else save
        if glove:
            if not (run / TEXT_FOLDER / cooccurrence.RECORD).is_file():
                _say("counting the pairs of words that are near each other")
            settings |= {"report": progress.report_epoch, "report_counting": TextProgress().report_counting}
            return train_glove(model, corpus, folder=run / TEXT_FOLDER, **settings)
        settings |= {key: given.get(key) for key in ("min_learning_rate", "engine", "logging_steps")}
        settings["save_steps"] = given["save_steps"] if given["save_strategy"] == "steps" else len(corpus.chunks()) - 1
        if "per_device_train_batch_size" in given:
            settings["words_per_batch"] = given["per_device_train_batch_size"]
        if (device := _device(recipe)) is not None:
            model.to(device)
        return train_word2vec(model, corpus, report=progress.report, **settings)


class VectorProgress:
    """Words per second, mean loss of a pair, learning rate and time left, on standard error: on a terminal a bar,
    elsewhere one plain line every few percent. For GloVe, a line for each epoch with the pairs per second."""

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
        speed = entry["words"] / max(1e-9, entry["seconds"])  # of all so far: workers end their steps in bursts
        parts = [f"loss {entry['loss']:.3f}", f"{speed:,.0f} words/s"]
        parts.append(f"learning rate {entry['learning_rate']:.4f}")
        if self.stream.isatty():
            if self.bar is None:
                self.bar = tqdm(
                    total=plan.steps,
                    initial=state.step,  # of a run that goes on, most steps are no work of this process
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
        """A line for each epoch of GloVe, which reads no words any more but pairs."""
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
    seconds = max(1e-9, state.seconds)
    if isinstance(state, GloVeState):
        pairs = last.get("pairs", 0)  # all of them in each epoch
        read = {"pairs": pairs, "pairs_per_second": pairs * state.epoch / seconds}
    else:
        words = last.get("words", 0)
        read = {"words": words, "words_per_second": words / seconds}
    metrics = {
        "recipe": recipe.name,
        "environment": environment(),
        "data": data,
        "model": {
            "parameters": model.num_parameters(),
            "class": type(model).__name__,
            **({"start_from": recipe.model["start_from"]} if recipe.model.get("start_from") else {}),
        },
        "training": {
            "seconds": state.seconds,
            "steps": last.get("step"),
            "epochs": last.get("epoch"),
            **read,
            "final_loss": last.get("epoch_loss", last.get("loss")),
            "workers": 1 if _device(recipe) else training_of(recipe)["workers"] or usable_cores(),
        },
        "evaluation": evaluate_by_recipe(model, recipe.evaluation),
    }
    if state.history:
        plot_history(state.history, run / LOSS_CURVE)
    # A run with metrics is finished, and has no text any more; half of a text must not be taken for one.
    (run / TEXT_FOLDER / TEXT_RECORD).unlink(missing_ok=True)
    shutil.rmtree(run / TEXT_FOLDER)
    write_json(run / METRICS, metrics)
    write_card(run)
    return metrics


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
