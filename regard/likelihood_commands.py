"""`regard perplexity`: how well a language model predicts the documents of a file."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli import MEASURE, JsonOption, _load, _print_json, _results_alone, _write, app


@app.command(
    rich_help_panel=MEASURE, epilog="Example: regard perplexity runs/wikitext2-bpe articles.jsonl --window 512"
)
def perplexity(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a causal language model, or a Hub id.")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A text (.txt), or rows with a text each (.jsonl, .csv, ...).")
    ],
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens read at once; by default as many as in training, or as the model can."),
    ] = None,
    stride: Annotated[
        int | None, typer.Option(min=1, help="Tokens predicted in each further window; by default half of it.")
    ] = None,
    column: Annotated[str, typer.Option(help="Where a row has its text.")] = "text",
    blank_lines: Annotated[
        bool, typer.Option("--blank-lines", help="Blank lines part the documents of a .txt file, which else is one.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Windows at once.")] = 8,
    as_json: JsonOption = False,
) -> None:
    """Measure a language model on documents: perplexity by token, word and byte, and bits per byte.

    Long documents are read in overlapping windows, and each token is predicted once. Figures per word and byte can be
    compared between models with different tokenizers.
    """
    with _results_alone(as_json):
        from regard.evaluation.document_likelihood import document_likelihood, read_documents

        documents = read_documents(file, column, blank_lines=blank_lines)
        loaded, tokenizer = _load(model)
        window = _window_of_training(model) if window is None else window
        settings = {"window": window, "stride": stride, "batch_size": batch_size}
        result = document_likelihood(loaded, tokenizer, documents, **settings)
    if as_json:
        _print_json(result.record())
        return
    lines = [
        f"{name:18}{value:,.4f}" if isinstance(value, float) else f"{name:18}{value:,}"
        for name, value in result.record().items()
    ]
    _write("\n".join(lines) + "\n", None)


def _window_of_training(model: str) -> int | None:
    """The tokens that a run of this package read at once; None of other models. A model with computed positions can
    read more, and predicts worse there."""
    if not (Path(model) / "recipe.yaml").is_file():
        return None
    from regard.train.recipe import load_recipe

    recipe = load_recipe(model)
    return recipe.data.block_size - 1 if recipe.task == "causal-lm" else None
