"""`regard predict`: labels for a file, or answers."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli import USE, CallError, JsonOption, _results_alone, _write, app

# Valid in JSON, but a reader that parts lines as Python's str.splitlines does would part them here.
LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


@app.command(rich_help_panel=USE, epilog="Example: regard predict runs/sst2-dan reviews.txt --output labels.jsonl")
def predict(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run, or an id on the Hub.")],
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A text a line (.txt), or a table with the columns of the run's data."),
    ],
    output: Annotated[Path | None, typer.Option(help="Write to this file, not to standard output.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows at once.")] = 32,
    as_json: JsonOption = False,
) -> None:
    """Label the texts of a file, tag their words, or answer questions from contexts: a line of JSON for each.

    With --json one list of them. The tag of a word is null where none is given: in a long text that was cut before it,
    and where no token stands for it, as for a word of zero width. An empty question has an empty answer.
    """
    if output is not None and output.is_dir():
        raise CallError(f"--output: '{output}' is a folder: name a file in it.")
    with _results_alone(True):
        from regard.train.predict import predict_file

        rows = predict_file(run, file, batch_size)
    lines = [json.dumps(row, ensure_ascii=False).translate(LINE_ENDS) for row in rows]
    _write(f"[{', '.join(lines)}]\n" if as_json else "".join(f"{line}\n" for line in lines), output)
