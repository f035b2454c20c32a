"""`regard compare`: two sweeps, by more than the spread of their seeds."""

from typing import Annotated

import typer

from regard.cli import MEASURE, JsonOption, _print_json, _results_alone, _write, app


@app.command(
    rich_help_panel=MEASURE, epilog="Example: regard compare runs/tuned-sweep runs/scratch-sweep --split test"
)
def compare(
    first: Annotated[str, typer.Argument(metavar="SWEEP", help="The folder of a sweep with several seeds.")],
    second: Annotated[str, typer.Argument(metavar="SWEEP", help="That of another on the same data.")],
    metric: Annotated[str | None, typer.Option(help="By default the one that the first was judged by.")] = None,
    split: Annotated[str, typer.Option(help="validation or, of sweeps with --test, a test set.")] = "validation",
    as_json: JsonOption = False,
) -> None:
    """Tell whether one sweep beats another by more than the spread of its seeds.

    The interval is that of Welch's t at 95 %. Settings that both sweeps have are compared, one by one.
    """
    with _results_alone(as_json):
        from regard.train.sweep_compare import compare_sweeps, comparison_text, read_sweep

        metric = metric or read_sweep(first)["metric"]
        comparisons = compare_sweeps(first, second, metric, split)
    if as_json:
        _print_json({"metric": metric, "split": split, "comparisons": [vars(one) for one in comparisons]})
    else:
        _write(comparison_text(comparisons, first, second, metric), None)
