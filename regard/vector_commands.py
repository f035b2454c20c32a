"""`regard neighbours`: what is near a word."""

from typing import Annotated

import typer

from regard.cli import USE, JsonOption, VectorsArgument, _print_json, _results_alone, _write, app


@app.command(
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
    """The nearest neighbours of words and of sums of words, and at which place an expected word comes."""
    with _results_alone(as_json):
        from regard.evaluation.word_neighbours import nearest_neighbours, neighbour_table
        from regard.modeling.word_vectors import load_word_vectors

        answers = nearest_neighbours(load_word_vectors(vectors), queries, topn, method, restrict_vocab)
    if as_json:
        _print_json(answers)
    else:
        _write(neighbour_table(answers), None)
