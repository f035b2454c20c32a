"""`regard few-shot`: what a language model does with a task that it is shown in its prompt."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from regard.cli import MEASURE, CallError, JsonOption, _load, _print_json, _results_alone, _write, app

BETWEEN = r"(\s*,\s*|\s+)"  # two numbers
NUMBERS = re.compile(rf"\s*[0-9]+({BETWEEN}[0-9]+)*\s*,?\s*")
LIKE_NUMBERS = re.compile(r"[-+]?[0-9][0-9.,\s]*")  # refused as numbers, and not taken for another option or a folder
OF_NUMBERS = ("--shots", "--seeds")  # options that take all the numbers after them


class NumbersCommand(TyperCommand):
    """A command that takes `--shots 0 1 2 4` as `--shots 0,1,2,4`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _gathered(args))


def _gathered(args: list[str]) -> list[str]:
    """The numbers after such an option in one word with it. The first word after it is its value, whatever it is but
    another option."""
    found: list[str] = []
    gathering = first = False
    for word in args:
        is_value = first and not word.startswith("-")
        if word in OF_NUMBERS:
            found.append(f"{word}=")
            gathering = first = True
            continue
        if gathering and (is_value or LIKE_NUMBERS.fullmatch(word)):
            found[-1] += word if found[-1].endswith(("=", ",")) else f",{word}"
        else:
            found.append(word)
            gathering = word.partition("=")[0] in OF_NUMBERS
        first = False
    return found


def _list_tasks(wanted: bool) -> None:
    if wanted:
        from regard.evaluation.few_shot.task import list_tasks

        typer.echo("\n".join(list_tasks()))
        raise typer.Exit()


@app.command(
    "few-shot",
    cls=NumbersCommand,
    rich_help_panel=MEASURE,
    epilog="Example: regard few-shot runs/mine --task sst2 --shots 0 1 2 4 8 16 --seeds 5",
)
def few_shot(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run's folder, or a model's id on the Hub.")],
    task: Annotated[str, typer.Option(help="A task that comes with the package (--tasks), or a YAML file.")],
    shots: Annotated[
        list[str] | None, typer.Option(metavar="N...", help="Numbers of examples; by default 0 1 2 4.")
    ] = None,
    seeds: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N|1,2,3", help="How many draws of the examples, or their seeds (one: 3,); by default 5."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many of the items, drawn at random.")] = None,
    balanced: Annotated[
        bool | None,
        typer.Option(
            "--balanced/--random", help="Whether each label is shown as often; by default where there are labels."
        ),
    ] = None,
    normalisation: Annotated[
        str, typer.Option(help="What choices are compared by: none, token, character, byte or unconditional.")
    ] = "none",
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help='Divide by what a choice has after "N/A" (Zhao et al., 2021).')
    ] = False,
    permutations: Annotated[int, typer.Option(min=1, help="In how many orders the same shots are shown.")] = 1,
    fine_tune: Annotated[
        bool,
        typer.Option("--fine-tune", help="Fine-tune on the same examples too: a line in the picture, and a table."),
    ] = False,
    fine_tune_items: Annotated[
        int | None,
        typer.Option(
            min=1, help="Fine-tune for so many items; by default all, or 50 where each has examples of its own."
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Prompts at once: a matter of speed.")] = 32,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A key of the task, as data.file=my.jsonl; repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="The folder of JSON and picture; by default the run's, of the Hub's runs/few-shot/<model>."),
    ] = None,
    tasks: Annotated[
        bool, typer.Option("--tasks", help="List the tasks.", is_eager=True, callback=_list_tasks)
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a language model examples of a task in its prompt, and count what it gets right.

    No weight changes. Written are a table, `few-shot-<task>.json` with every prompt, choice, log-probability and
    prediction, and a picture of that name.
    """
    if fine_tune_items is not None and not fine_tune:
        raise CallError("--fine-tune-items goes with --fine-tune.")
    with _results_alone(as_json):
        numbers = _numbers(shots, "--shots", "0 1 2 4")
        seed_numbers = _numbers(seeds, "--seeds", "5 for five of them, or --seeds 1,2,3 for these")
        how_many = len(seed_numbers) == 1 and seeds is not None and "," not in seeds[0]  # and `3,` is the seed 3
        if how_many and seed_numbers[0] < 1:
            raise CallError("--seeds 0: how many must be at least 1; the seed 0 alone is '--seeds 0,'.")
        from regard.evaluation.few_shot.task import load_task

        loaded = load_task(task, set_ or [])  # before torch is imported, which takes seconds
        from regard.evaluation.few_shot.report import OTHERS, run_few_shot
        from regard.evaluation.few_shot.table import table

        options: list[Any] = []
        result, files = run_few_shot(
            model,
            loaded,
            output=output,
            load=_load,
            shots=numbers or None,
            seeds=seed_numbers[0] if how_many else seed_numbers or 5,
            balanced=balanced,
            normalisation=normalisation,
            calibrate=calibrate,
            permutations=permutations,
            limit=limit,
            batch_size=batch_size,
            show=lambda line: typer.echo(line, err=True),
            beside=_fine_tuned(options, fine_tune_items) if fine_tune else None,
        )
        for one in options:
            files.append(one.save(files[0].with_name(f"{OTHERS}{result.task}.json")))
    if as_json:
        _print_json(result.summary() | {"files": [str(file) for file in files]})
        return
    _write(table(result), None)
    for one in options:
        from regard.train.few_shot_options import options_table

        _write(f"\n{options_table(one)}", None)
    for file in files:
        typer.echo(f"Wrote {file}")


def _fine_tuned(options: list[Any], items: int | None) -> Callable[..., Any]:
    """Gives the lines of fine-tuning, and puts the whole comparison into the list."""
    from regard.train.few_shot_options import fine_tune_and_score

    def beside(*model: Any, **settings: Any) -> Any:
        options.append(fine_tune_and_score(*model, items=items, **settings))
        return options[-1].curves()

    return beside


def _numbers(words: list[str] | None, option: str, example: str) -> list[int]:
    """The numbers of an option, which may be given several times."""
    found = []
    for word in words or ():
        if not NUMBERS.fullmatch(word):
            raise CallError(f"{option}: '{word}' must be whole numbers of at least 0, such as {option} {example}.")
        found += [int(number) for number in re.findall("[0-9]+", word)]
    return found
