"""A recipe becomes a run: a folder with the trained model, its tokenizer, its code and all that was measured."""

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase, TrainingArguments

from regard.evaluation.files import check_output_folder, replacing
from regard.evaluation.in_context.scoring import at_a_glance, exact_match_by_examples
from regard.evaluation.yaml_io import read_yaml
from regard.train import checkpoints
from regard.train.batching import batch_by_tokens
from regard.train.building import (
    build_model,
    build_tokenizer,
    check_launch,
    label_names,
    load_tokenizer,
    optimizer_factory,
    training_arguments,
    wants_tensorboard,
)
from regard.train.callbacks import TensorBoard, duration, quiet_libraries
from regard.train.collators import EpochCollator, TellEpoch, collator_for
from regard.train.data import data_seed, load_splits, prepare_splits
from regard.train.data_files import check_files, record_files
from regard.train.embeddings import describe_start, read_embeddings, start_from_embeddings
from regard.train.fine_tuning import (
    StopWithoutProgress,
    WeightedCrossEntropy,
    class_weights,
    freeze_backbone,
    trained_parameters,
)
from regard.train.fine_tuning_checks import starts_from_weights
from regard.train.lora import add_lora, check_peft
from regard.train.preprocessing import DataReport
from regard.train.questions import settle_threshold
from regard.train.recipe import RUN_RECIPE, load_recipe
from regard.train.records import FIRST_WEIGHTS, HISTORY, LOSS_CURVE, METRICS, environment, read_json, write_json
from regard.train.sections import (
    IN_CONTEXT,
    LABELLING,
    QUESTION_ANSWERING,
    REGRESSION,
    WORD_VECTORS,
    Recipe,
    RecipeError,
)
from regard.train.start_from import (
    Start,
    describe_weights,
    read_start,
    start_of_checkpoint,
    start_tokenizer,
    take_weights,
)
from regard.train.trainer import RegardTrainer

LOGS = "logs"
TOKENIZER, CONFIG = "tokenizer.json", "config.json"
START = "embeddings.json"  # how a model began from word vectors
ACCUMULATION = "gradient_accumulation_steps"
LABELS_SHOWN = 20  # at the start of a training
# What a resumed run may change of its recipe: how long and how often, not what is computed.
CHANGEABLE = {
    "num_train_epochs",
    "max_steps",
    "logging_steps",
    "logging_first_step",
    "report_to",
    "eval_strategy",
    "eval_steps",
    "save_strategy",
    "save_steps",
    "save_total_limit",
    "per_device_eval_batch_size",
    "push_to_hub",
    "hub_model_id",
    "hub_strategy",
    "hub_private_repo",
    "hub_always_push",
    "hub_revision",
    "early_stopping_patience",
    "workers",  # of word vectors
}


def train(
    recipe: Recipe,
    output_dir: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    test: bool = True,
) -> dict[str, Any]:
    """Trains by a recipe, evaluates, and saves the run in a folder that `from_pretrained` reads.

    Killed at any moment, it goes on with `resume=True` from its last complete checkpoint to the same weights.

    Args:
        recipe: a checked recipe, from `load_recipe`.
        output_dir: the run's folder; `runs/<name of the recipe>` by default.
        resume: go on with the run in that folder.
        overwrite: delete the run in that folder first.
        test: measure on the test sets too. Rows held out as one are not trained on either way.

    Returns:
        What `metrics.json` holds; of several processes, the main one's alone.

    Raises:
        ValueError: one sentence about the recipe, its data or the folder, before any work starts.
        TrainingDiverged: when the loss is not a number any more.
    """
    run = Path(output_dir) if output_dir is not None else Path("runs") / recipe.name
    if recipe.task == WORD_VECTORS:
        if find_spec("numba") is None:
            raise RecipeError("The task word-vectors needs numba, which is not installed: pip install numba.")
        from regard.train.vectors_run import train_vectors

        return train_vectors(recipe, run, resume, overwrite)
    if recipe.task == REGRESSION:
        from regard.train.in_context_regression import train_regression

        return train_regression(recipe, run, resume, overwrite, test)
    if recipe.training.get("lora") is not None:
        check_peft()
    args = training_arguments(recipe, str(run))
    check_launch(recipe, args)
    check_folder(run, recipe, resume, overwrite)
    if args.push_to_hub and args.process_index == 0:
        make_repository(run, args)
    with quiet_libraries():
        return _train(recipe, run, args, resume, overwrite, test)


def _train(
    recipe: Recipe, run: Path, args: TrainingArguments, resume: bool, overwrite: bool, test: bool
) -> dict[str, Any]:
    splits, prepared, trainer, report, checkpoint = _prepare(recipe, run, args, resume, overwrite)
    if args.process_index == 0:
        trained = trained_parameters(trainer.model)
        share = "" if trained is None else f", of which {trained:,} are trained"
        _say(f"{recipe.name}: {trainer.model.num_parameters():,} parameters{share}\n{report}")
        if recipe.task in LABELLING:
            _say(_labels(list(trainer.model.config.id2label.values())))
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.model.config.use_cache = True
    trainer.save_model(str(run), _internal_call=True)  # it is published when its results are there too
    if args.process_index != 0:
        return {}
    averaged = average(recipe, run)
    training = training_record(trainer) | ({"averaged_checkpoints": averaged} if averaged else {})
    write_json(run / HISTORY, trainer.state.log_history)
    measured = [name for name in prepared if name != "train" and (test or not name.startswith("test"))]
    prepared = {name: prepared[name] for name in measured}
    metrics = _evaluate_and_record(recipe, run, splits, prepared, report, training, trainer.state.log_history)
    _say(f"the run is in {run}")
    if args.push_to_hub:
        publish_run(run, trainer)
    return metrics


# --- before ----------------------------------------------------------------------------------------------------------


def check_folder(run: Path, recipe: Recipe, resume: bool, overwrite: bool) -> None:
    """Refuses a folder that cannot become this run.

    Raises:
        ValueError: it holds another run, a finished one, something else or nothing to resume, or takes no files.
    """
    is_run = _is_run(run)
    if run.exists() and not run.is_dir():
        raise RecipeError(f"'{run}' is a file, not a folder for a run: choose another with --output.")
    if overwrite and is_run and Path.cwd().is_relative_to(run.resolve()):
        raise RecipeError(
            f"'{run}' is the folder in which this command runs, and --overwrite deletes it: go elsewhere."
        )
    if resume:
        if not is_run:
            raise RecipeError(f"There is no run in '{run}' to resume: leave out --resume to begin one.")
        _check_same(load_recipe(run), recipe, run)
        check_files(run, [recipe.data])
    elif is_run and not overwrite:
        state = "a finished run" if (run / METRICS).is_file() else "a run that did not come to its end"
        raise RecipeError(
            f"'{run}' already holds {state}: go on with it by --resume, choose another folder with --output, or "
            "replace it by --overwrite."
        )
    elif not is_run and run.is_dir() and any(run.iterdir()):
        raise RecipeError(f"The folder '{run}' holds something that is not a run: choose another one with --output.")
    check_output_folder(run)


def _is_run(folder: Path) -> bool:
    """Whether a folder holds a run, of whatever task.

    A recipe alone may be someone's own, in a folder that must not be deleted.
    """
    if not (folder / RUN_RECIPE).is_file():
        return False
    try:
        recipe = read_yaml((folder / RUN_RECIPE).read_text(encoding="utf-8"))
    except ValueError:
        recipe = None  # a broken one, which `load_recipe` tells
    has_tokenizer = not isinstance(recipe, dict) or recipe.get("task") != REGRESSION
    return (folder / (TOKENIZER if has_tokenizer else CONFIG)).is_file()


def remove_run(run: Path) -> None:
    """Deletes a run, if there is one; killed in between, no half of it is left."""
    if run.is_dir():
        replaced = run.with_name(f".{run.name}.replaced")
        shutil.rmtree(replaced, ignore_errors=True)
        run.rename(replaced)
        shutil.rmtree(replaced)


def _check_same(before: Recipe, now: Recipe, run: Path) -> None:
    """A resumed run is the same run: it may only train longer, or be watched and evaluated otherwise."""
    old, new = before.to_dict(), now.to_dict()
    if old["task"] != new["task"]:
        raise RecipeError(f"task: '{new['task']}' is not the task of the run in '{run}', '{old['task']}'.")
    for section in ("model", "tokenizer", "data", "training"):
        for key in sorted({*old[section], *new[section]}):
            if section == "training" and key in (*CHANGEABLE, ACCUMULATION):
                continue
            was, is_now = old[section].get(key), new[section].get(key)
            if was != is_now:
                raise RecipeError(
                    f"{section}.{key}: {is_now!r} differs from {was!r}, with which the run in '{run}' began; a run is "
                    "resumed by the same recipe, though it may train longer (training.num_train_epochs)."
                )
    _check_same_steps(old["training"], new["training"], run)


def _check_same_steps(before: dict[str, Any], now: dict[str, Any], run: Path) -> None:
    """Processes times accumulation stay as they were, or a step would be made of other examples."""
    checkpoint = checkpoints.last_checkpoint(run)
    if checkpoint is None:  # it begins anew
        return
    states = checkpoint.glob("rng_state_*.pth")  # one for each process; of a single one, rng_state.pth
    were = max(1, len(list(states)))
    are = int(os.environ.get("WORLD_SIZE", "1"))
    was, is_now = (one.get(ACCUMULATION, 1) for one in (before, now))
    if were * was == are * is_now:
        return
    right = were * was / are
    way = f"set training.{ACCUMULATION}={right:.0f}" if right.is_integer() else f"launch {were} again"
    raise RecipeError(
        f"training.{ACCUMULATION}: {is_now} on {_processes(are)} makes other steps than those that the run in '{run}' "
        f"began with, {was} on {_processes(were)}: {way}."
    )


def _processes(number: int) -> str:
    return "1 process" if number == 1 else f"{number} processes"


def _prepare(
    recipe: Recipe, run: Path, args: TrainingArguments, resume: bool, overwrite: bool
) -> tuple[dict[str, Any], dict[str, Any], RegardTrainer, Any, Path | None]:
    """Everything that a training needs, and the checkpoint that it goes on from. What is quickly checked comes first;
    the folder is touched last, when nothing was found to be wrong."""
    main = args.process_index == 0
    existing = load_tokenizer(recipe) if recipe.tokenizer.path is not None else None
    begins = starts_from_weights(recipe)
    with args.main_process_first(local=False, desc="start"):  # it may have to be fetched
        start = read_start(recipe, run) if begins and not resume else None
    with args.main_process_first(local=False, desc="data"):
        splits = load_splits(recipe.data, recipe.task, seed=data_seed(recipe))
        labels = label_names(recipe, splits["train"])
    with args.main_process_first(local=False, desc="tokenizer"):  # the others then find it in the folder
        if main and resume:
            checkpoints.tidy(run)  # before any process looks for the last one
        before = checkpoints.last_checkpoint(run) if resume else None
        vectors = read_embeddings(recipe) if before is None else None
        if begins and resume:
            start = read_start(recipe, run) if before is None else start_of_checkpoint(recipe, before)
        if main and before is None:
            tokenizer = existing or _new_tokenizer(recipe, splits["train"], start)
        else:  # from the checkpoint, which is complete: the run's own may have been half written
            tokenizer = AutoTokenizer.from_pretrained(before or run, trust_remote_code=False)
        model = build_model(recipe, tokenizer, labels, start)
        begun = start_from_embeddings(recipe, model, tokenizer, vectors) if vectors is not None else None
        taken = take_weights(model, start) if begins and before is None else None
        _settle_what_is_trained(recipe, model, taken, run)
        collator = collator_for(recipe, tokenizer, model)
        prepared, report = prepare_splits(splits, recipe, tokenizer)
        train_dataset, weighted = prepared["train"], None
        if (wanted := recipe.training.get("class_weights")) is not None:
            weighted = class_weights(wanted, list(model.config.id2label.values()), train_dataset)
        if recipe.data.streaming:
            train_dataset = EndlessStream(train_dataset)
        elif recipe.data.max_tokens_per_batch is not None:
            train_dataset = batch_by_tokens(train_dataset, recipe.data.max_tokens_per_batch)
            report.splits["train"].pad_share = train_dataset.pad_share
        if main:
            if overwrite:
                remove_run(run)
            run.mkdir(parents=True, exist_ok=True)
            (run / METRICS).unlink(missing_ok=True)  # from here on the run is not finished
            recipe.save(run / RUN_RECIPE)
            record_files(run, [recipe.data])
            tokenizer.save_pretrained(run)
            if begun is not None:
                write_json(run / START, begun)
                _say(describe_start(begun))
            if taken is not None:
                write_json(run / FIRST_WEIGHTS, taken)
                _say(describe_weights(taken))
    callbacks = [TellEpoch(collator)] if isinstance(collator, EpochCollator) else []
    if wants_tensorboard(recipe):
        callbacks.append(TensorBoard(str(run / LOGS)))
    if (patience := recipe.training.get("early_stopping_patience")) is not None:
        callbacks.append(StopWithoutProgress(patience))
    if recipe.evaluation.induction_steps is not None:
        from regard.train.induction import RecordInduction

        callbacks.append(RecordInduction(tokenizer, run, recipe.evaluation.induction_steps))
    if weighted is not None:
        model.config.problem_type = "single_label_classification"  # which the model's own loss would find out
    trainer = RegardTrainer(
        model,
        args,
        data_collator=collator,
        train_dataset=train_dataset,
        eval_dataset=prepared.get("validation"),
        processing_class=tokenizer,
        compute_metrics=_label_metrics(recipe, prepared.get("validation")),
        callbacks=callbacks,
        optimizer_cls_and_kwargs=optimizer_factory(recipe, args),
        compute_loss_func=None if weighted is None else WeightedCrossEntropy(weighted),
        frozen_backbone=bool(recipe.training.get("freeze_backbone")),
        layer_lr_decay=recipe.training.get("layer_lr_decay"),
    )
    return splits, prepared, trainer, report, before


def _new_tokenizer(recipe: Recipe, train_split: Any, start: Start | None) -> PreTrainedTokenizerBase:
    return build_tokenizer(recipe, train_split) if start is None else start_tokenizer(recipe, start)


def _settle_what_is_trained(recipe: Recipe, model: PreTrainedModel, taken: dict[str, Any] | None, run: Path) -> None:
    """`taken` is the record of the weights that were taken over; in a run that goes on, its folder holds it."""
    if recipe.training.get("freeze_backbone"):
        freeze_backbone(model)
    if (lora := recipe.training.get("lora")) is not None:
        add_lora(model, lora, recipe.task, taken or read_json(run / FIRST_WEIGHTS))
        if recipe.training.get("gradient_checkpointing"):  # which would find nothing to train below the first layer
            model.enable_input_require_grads()


def _labels(names: list[str]) -> str:
    """How many labels there are and the first of them: values of a score that were taken for labels show here."""
    shown = ", ".join([*names[:LABELS_SHOWN], *(["…"] if len(names) > LABELS_SHOWN else [])])
    return f"{len(names)} labels: {shown}"


class EndlessStream(torch.utils.data.IterableDataset):
    """A stream over and over, in another order each time, so that Trainer sees one epoch and counts steps alone."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[dict[str, Any]]:
        epoch, seen = 0, True
        while seen:
            self.dataset.set_epoch(epoch)
            seen = False
            for example in self.dataset:
                seen = True
                yield example | {"epoch": epoch}
            epoch += 1


def _label_metrics(recipe: Recipe, validation: Any) -> Any:
    """What Trainer's `compute_metrics` is for labels of texts and of words, and for answers in context."""
    if recipe.task not in (*LABELLING, IN_CONTEXT) or not set(recipe.evaluation.metrics) - {"perplexity"}:
        return None

    def compute(prediction: Any) -> dict[str, Any]:
        from regard.train.evaluate import compute_metrics, tags_of

        predictions, references = prediction.predictions, prediction.label_ids
        if recipe.task == IN_CONTEXT:
            return at_a_glance(exact_match_by_examples(predictions, references, validation["task"]))
        if recipe.task == "token-classification":
            predictions, references = tags_of(validation, predictions, references)
        return compute_metrics(recipe.evaluation.metrics, predictions, references, recipe)

    return compute


# --- after -----------------------------------------------------------------------------------------------------------


def average(recipe: Recipe, run: Path) -> list[int]:
    """Replaces the saved weights by the mean of the last checkpoints; returns those checkpoints' steps."""
    wanted = recipe.evaluation.average_checkpoints
    chosen = checkpoints.list_checkpoints(run)[-wanted:] if wanted else []
    if len(chosen) < wanted:
        _say(f"evaluation.average_checkpoints: {wanted} are wanted and there are {len(chosen)}, which are averaged.")
    if chosen:
        weights = checkpoints.average_weights(chosen)
        with replacing(run / checkpoints.WEIGHTS_FILE) as partial:
            save_file(weights, partial, metadata={"format": "pt"})
    return [checkpoints.step_of(path) for path in chosen]


def training_record(trainer: RegardTrainer) -> dict[str, Any]:
    """Over all parts of a run that was resumed."""
    history = trainer.state.log_history
    last = next((entry for entry in reversed(history) if "tokens" in entry), {})
    seconds, tokens = last.get("seconds", 0.0), last.get("tokens", 0)
    return {
        "seconds": seconds,
        "steps": trainer.state.global_step,
        "epochs": trainer.state.epoch,
        "tokens": tokens,
        "tokens_per_second": tokens / seconds if seconds else 0.0,
        "final_loss": next((entry["loss"] for entry in reversed(history) if "loss" in entry), None),
        "processes": trainer.args.world_size,
        **_choices(trainer),
    }


def _choices(trainer: RegardTrainer) -> dict[str, Any]:
    """How many weights were trained, where not all; the step whose weights were kept; what each label weighed."""
    args, found = trainer.args, {}
    if (trained := trained_parameters(trainer.model)) is not None:
        found["trained_parameters"] = trained
    if args.load_best_model_at_end and trainer.state.best_global_step:
        found["best_step"] = trainer.state.best_global_step
        found["best_by"] = args.metric_for_best_model.removeprefix("eval_")
    if isinstance(trainer.compute_loss_func, WeightedCrossEntropy):
        names = trainer.model.config.id2label.values()
        found["class_weights"] = dict(zip(names, trainer.compute_loss_func.weights.tolist(), strict=True))
    return found


def _evaluate_and_record(
    recipe: Recipe, run: Path, splits: dict, prepared: dict, report: DataReport, training: dict, history: list
) -> dict[str, Any]:
    """Measures what was saved, as `evaluate_run` does later: the folder, loaded afresh, in float32."""
    from regard.evaluation.curves import plot_history
    from regard.evaluation.generation import load_run
    from regard.model_cards.card import write_card
    from regard.train.errors import label_report, write_errors
    from regard.train.evaluate import evaluate_split, rounded, sample_outputs

    _say(f"trained for {duration(training['seconds'])}; evaluating")
    model, tokenizer = load_run(run)
    if recipe.task == QUESTION_ANSWERING:
        settle_threshold(run, model, tokenizer, recipe, splits["train"], prepared.get("validation"))
    evaluation, predictions = {}, {}
    mean = report.splits["train"].mean_target_words
    lead = None if mean is None else rounded(mean)
    for name, split in prepared.items():
        evaluation[name], predictions[name] = evaluate_split(
            model, tokenizer, recipe, split, report.splits[name], lead
        )
    shown = next((name for name in prepared if name != "validation"), "validation")  # the first test set
    rows = (splits if recipe.task == "sequence-classification" else prepared).get(shown)
    metrics = {
        "recipe": recipe.name,
        "environment": environment(),
        "data": report.to_dict(),
        "model": {"parameters": model.num_parameters(), "class": type(model).__name__},
        "training": training,
        "evaluation": evaluation,
        "samples": sample_outputs(model, tokenizer, recipe, rows, predictions.get(shown)),
    }
    if any("loss" in entry or "eval_loss" in entry for entry in history):  # a run shorter than logging_steps has none
        plot_history(history, run / LOSS_CURVE)
    if recipe.model.get("embeddings"):
        metrics["model"]["embeddings"] = read_json(run / START)
    if starts_from_weights(recipe):
        metrics["model"]["start"] = read_json(run / FIRST_WEIGHTS)
    if recipe.task in LABELLING and prepared:
        number = recipe.evaluation.errors
        reports = {
            name: label_report(model, tokenizer, recipe, splits[name], split, predictions[name], number)
            for name, split in prepared.items()
        }
        write_errors(run, reports)
    write_json(run / METRICS, metrics)
    write_card(run)
    return metrics


def make_repository(run: Path, args: TrainingArguments) -> None:
    """Before the work: a token that may not write is not found out after an hour."""
    from huggingface_hub import HfApi

    from regard.model_cards.publish import open_repository, whole_id

    api = HfApi(token=args.hub_token)
    repo = whole_id(api, args.hub_model_id or run.absolute().name)
    open_repository(api, repo, public=args.hub_private_repo is False)


def publish_run(run: Path, trainer: RegardTrainer) -> None:
    from regard.model_cards.publish import publish

    args, repo = trainer.args, trainer.hub_model_id
    settings = {"public": args.hub_private_repo is False, "branch": args.hub_revision, "token": args.hub_token}
    _say(f"publishing; should it fail, `regard publish {run} --repo {repo}` does it again")
    publish(run, repo, message="End of training", **settings)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
