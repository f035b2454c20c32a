"""`regard convert`: a pretrained model of the library's, as one of ours."""

from typing import Annotated

import typer

from regard.cli import TRAIN, JsonOption, _print_json, _results_alone, _write, app
from regard.share_commands import _clear_errors


@app.command(rich_help_panel=TRAIN, epilog="Example: regard convert FacebookAI/roberta-base runs/roberta-base")
def convert(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A folder with a model, or an id on the Hub.")],
    out: Annotated[str, typer.Argument(metavar="OUT", help="The new folder.")],
    revision: Annotated[str | None, typer.Option(help="Of a Hub id: the branch, tag or commit.")] = None,
    head: Annotated[
        str | None,
        typer.Option(
            help="By default the source's: none, masked-lm, causal-lm, seq2seq-lm, sequence-classification, "
            "token-classification, question-answering."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare what both compute, which takes memory for two.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Convert pretrained weights (BERT, RoBERTa, DistilBERT, GPT-2, Llama, Mistral, Qwen2, Marian, BART).

    The result is a run's folder with the tokenizer, to fine-tune (model.start_from), generate with or publish. It
    computes what the source computes; what has no exact counterpart here is refused, and nothing is dropped in
    silence. Weights are read from safetensors alone.
    """
    with _results_alone(as_json), _clear_errors():
        from regard.train.convert import convert as convert_model

        result = convert_model(source, out, revision=revision, head=head, check=check)
    if as_json:
        _print_json(result.to_dict())
        return
    _write(f"{result.architecture} of {result.source}: {result.model} in {result.out}\n", None)
    _write("".join(f"- {line}\n" for line in result.lines()), None)
