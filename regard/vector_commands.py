"""`regard neighbours`: what is near a word."""

import re
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from regard.cli import (
    USE,
    CallError,
    JsonOption,
    VectorsArgument,
    _print_json,
    _results_alone,
    _say_error,
    _write,
    app,
)

MINUS_FIRST = re.compile(r"-\s")  # no option begins so


class QueryCommand(TyperCommand):
    """A command that takes `- king + queen` as an argument: a blank in front of it keeps it from being an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {text}" if MINUS_FIRST.match(text) else text for text in args])


@app.command(
    cls=QueryCommand,
    rich_help_panel=USE,
    epilog='Example: regard neighbours runs/wiki-skipgram king "madrid - spain + france = paris"',
)
def neighbours(
    vectors: VectorsArgument,
    queries: Annotated[
        list[str],
        typer.Argument(metavar="QUERY...", help="A word, or a sum of words; after = the word that should come out."),
    ],
    topn: Annotated[int, typer.Option(min=1, help="How many neighbours of each.")] = 10,
    method: Annotated[str, typer.Option(help="How sums are taken: add (3CosAdd) or mul (3CosMul).")] = "add",
    restrict_vocab: Annotated[
        int | None, typer.Option(min=1, help="Only among so many of the most frequent words.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The nearest neighbours of words and of sums of words, and at which place an expected word comes.

    A query with a word that is not in the vocabulary is named on standard error, and the exit status is 1; the others
    are answered.
    """
    with _results_alone(as_json):
        from regard.evaluation.word_neighbours import check_settings, nearest_neighbours, neighbour_table
        from regard.evaluation.word_table import vectors_at

        check_settings(topn, method, restrict_vocab)
        answers = nearest_neighbours(vectors_at(vectors), queries, topn, method, restrict_vocab, pass_over=True)
    errors = [answer["error"] for answer in answers if "error" in answer]
    if len(errors) == len(answers):
        raise CallError(" ".join(errors))
    if as_json:
        _print_json(answers)
    else:
        _write(neighbour_table(answers), None)
    for error in errors:
        _say_error(error)
    if errors:
        raise typer.Exit(1)
