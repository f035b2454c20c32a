"""`regard minimal-pairs`: sentences of which one is English, as a file for any benchmark."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import MEASURE, CallError, JsonOption, _print_json, app


@app.command(
    "minimal-pairs", rich_help_panel=MEASURE, epilog="Example: regard minimal-pairs pairs.jsonl --number 1000"
)
def minimal_pairs(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="A .jsonl file to write.")],
    number: Annotated[int, typer.Option(min=1, help="How many pairs.")] = 1000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same pairs on any machine.")] = 0,
    phenomenon: Annotated[
        list[str] | None,
        typer.Option(help="Only agreement, reflexives, determiners or word-order; repeatable, by default all."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write minimal pairs: two sentences that differ in as little as can be, of which one is English.

    Each line has sentence_good, sentence_bad, phenomenon and paradigm. The first pairs of a longer file are those of a
    shorter one. `regard few-shot MODEL --task minimal-pairs` asks which sentence a model finds more probable, of these
    or of any file with the first two keys.
    """
    if output.is_dir():
        raise CallError(f"OUT: '{output}' is a folder: name a file in it.")
    if output.suffix != ".jsonl":
        raise CallError(f"OUT: '{output}' must end in .jsonl, which is what is written.")
    from regard.evaluation.minimal_pairs import write_minimal_pairs

    write_minimal_pairs(output, number, seed, phenomenon)
    if as_json:
        _print_json({"file": str(output), "number": number, "seed": seed})
    else:
        typer.echo(f"Wrote {output}: {number:,} pairs.")
