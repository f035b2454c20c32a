"""A whole evaluation: a task is asked of a model in a folder or on the Hub, and what came out is written down."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard.evaluation.few_shot.picture import plot_few_shot
from regard.evaluation.few_shot.result import FewShotResult, read_result
from regard.evaluation.few_shot.rows import check_limit, limited, load_items
from regard.evaluation.few_shot.run import draw, few_shot, settings_of
from regard.evaluation.few_shot.task import Task, load_task
from regard.evaluation.few_shot.templates import Texts
from regard.evaluation.files import check_output_folder
from regard.evaluation.generation import auto_class_name, load_config, load_run
from regard.evaluation.learning_curves import LearningCurve

LANGUAGE_MODELS = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM")
HUB_RUNS = Path("runs", "few-shot")  # where the results of models on the Hub go
PREFIX = "few-shot-"  # of the files' names
OTHERS = "fine-tuning-"  # of the file about other learners that stand beside a result


def run_few_shot(
    model: str,
    task: Task | str,
    overrides: Sequence[str] = (),
    output: Path | None = None,
    *,
    load: Callable[[str], tuple[Any, Any]] = load_run,
    limit: int | None = None,
    batch_size: int = 32,
    show: Callable[[str], Any] | None = None,
    beside: Callable[..., list[LearningCurve]] | None = None,
    **settings: Any,
) -> tuple[FewShotResult, list[Path]]:
    """Asks a task of a model and writes `few-shot-<task>.json` and `few-shot-<task>.png`.

    Whatever can be refused is refused before the model is loaded. An earlier result in the folder is replaced, and
    what is told of other learners beside it goes, since they are not those of the new one. The files are written
    before other learners learn, so that nothing is lost if these are stopped, and again with their lines.

    Args:
        model: a run's folder, or a model's id on the Hub.
        task: a shipped task's name, a YAML file, or a task that was loaded.
        overrides: of the task's keys, `key=value`.
        output: the folder of the files; by default the run's, of a model on the Hub `runs/few-shot/<model>`.
        load: gives model and tokenizer.
        limit, batch_size, show, settings: as `few_shot` takes them.
        beside: gives other learners' lines, from the model, the tokenizer and the task, and `data`, `name`,
            `batch_size`, `show` and the settings by their names.

    Returns:
        The result, and the files.

    Raises:
        ValueError: as `few_shot` does; a model that is no language model; or a folder of another model, or with the
            result of one.
    """
    loaded = task if isinstance(task, Task) else load_task(task, overrides)
    if not any(settings_of(loaded, **settings).shots) and beside is not None:
        raise ValueError(f"The task '{loaded.name}' is asked without shots, so no other learner can learn from them.")
    local = Path(model).is_dir()
    folder = output or (Path(model) if local else HUB_RUNS / model.replace("/", "-"))
    check_output_folder(folder)
    name = Path(model).resolve().name if local else model
    _check_whose(folder, loaded.name, model, name)
    _check_model(model)
    check_limit(limit)
    items, pool = load_items(loaded)
    draw(Texts(loaded), limited(items, limit), pool, settings_of(loaded, **settings))  # more shots than there are
    show = show or (lambda line: None)
    if earlier := _earlier(loaded.name, folder):
        show(f"Replaces the earlier result, whose files go: {', '.join(map(str, earlier))}.")
    more = {"name": name, "batch_size": batch_size, "show": show, **settings}
    prompted = *load(model), loaded
    result = few_shot(*prompted, limit=limit, data=(items, pool), **more)
    files = write(result, folder)
    if beside is None:
        return result, files
    try:
        lines = beside(*prompted, data=(limited(items, limit), pool), **more)
    except BaseException as error:  # an interruption too
        again = "" if isinstance(error, ValueError) else ", and the same command begins again with both"
        show(f"Fine-tuning did not come to its end: what prompting gave is kept in {files[0]}{again}.")
        raise
    result = dataclasses.replace(result, beside=lines)
    return result, write(result, folder)


def write(result: FewShotResult, folder: Path) -> list[Path]:
    """Writes a result's JSON and picture, in the place of those of an earlier one and of the file about other learners
    beside it; each file is complete or not there."""
    (folder / f"{OTHERS}{result.task}.json").unlink(missing_ok=True)
    picture = plot_few_shot(result, folder / f"{PREFIX}{result.task}.png")
    return [result.save(folder / f"{PREFIX}{result.task}.json"), picture]


def _earlier(task: str, folder: Path) -> list[Path]:
    """The files of an earlier result."""
    names = (f"{PREFIX}{task}.json", f"{PREFIX}{task}.png", f"{OTHERS}{task}.json")
    return [folder / name for name in names if (folder / name).is_file()]


def _check_whose(folder: Path, task: str, model: str, name: str) -> None:
    """A run's folder is for its own results, which its card shows, and a result goes for one of the same model alone.

    Raises:
        ValueError: the folder is another model's, or the earlier result in it.
    """
    if (folder / "config.json").is_file() and folder.resolve() != Path(model).resolve():
        raise ValueError(
            f"--output: '{folder}' is the folder of a model, whose card would show the results of '{model}' as its "
            "own: name another folder."
        )
    path = folder / f"{PREFIX}{task}.json"
    if path.is_file() and (other := read_result(path, records=False).model) != name:
        raise ValueError(
            f"--output: '{path}' is the result of another model, '{other}': name another folder for that of '{name}'."
        )


def _check_model(model: str) -> None:
    config = load_config(model)
    if auto_class_name(config) not in LANGUAGE_MODELS:
        raise ValueError(
            f"'{model}' is a {config.architectures[0]}: few-shot prompting takes a causal language model or an "
            "encoder-decoder, which give a text a probability after another."
        )
