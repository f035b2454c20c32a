"""`regard light`: a word in different sentences, layer by layer."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import MEASURE, JsonOption, _print_json, _results_alone, _write, app


@app.command(
    rich_help_panel=MEASURE,
    epilog='Example: regard light runs/wikipedia-hour light "The light of the sun." "The box is light." -o light.png',
)
def light(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a run, or an id on the Hub.")],
    word: Annotated[str, typer.Argument(help="As it is written in the sentences.")],
    sentences: Annotated[list[str], typer.Argument(metavar="SENTENCE...", help="Two or more that use the word.")],
    occurrence: Annotated[
        int | None, typer.Option(min=1, help="Only the nth in each sentence; by default all that there are.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A picture too, a .png or .svg file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """How far a word's vector moves from context-free to contextual: the likeness of its uses, layer by layer.

    Any encoder, decoder, or encoder of an encoder-decoder, of this package or of transformers.
    """
    with _results_alone(as_json):
        from regard.evaluation.drawing import check_format
        from regard.evaluation.light import light as look
        from regard.evaluation.light import load_layers
        from regard.evaluation.light_report import light_record, light_table

        if output is not None:
            check_format(output)
        seen = look(*load_layers(model), word, sentences, occurrence)
        if output is not None:
            from regard.evaluation.light_pictures import plot_light

            plot_light(seen, output)
    if as_json:
        _print_json(light_record(seen) | ({} if output is None else {"picture": str(output)}))
        return
    _write(light_table(seen), None)
    if output is not None:
        _write(f"Wrote {output}\n", None)
