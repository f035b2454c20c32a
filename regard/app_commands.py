"""`regard app`: a page to try a model on."""

from typing import Annotated

import typer

from regard.cli import USE, app


@app.command("app", rich_help_panel=USE, epilog="Example: regard app runs/demo")
def serve(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a run, or an id on the Hub.")],
    host: Annotated[
        str, typer.Option(help="Who may open it: this machine alone, or, by 0.0.0.0, all that reach it.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="By default the first that is free from 7860 on.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page too.")] = False,
) -> None:
    """Open a page on which a text gets its next tokens, its translation and alignment, or its label.

    The page's address is printed; Ctrl-C ends it. It needs the package gradio, which the extra `app` brings.
    """
    from regard.evaluation.app import open_app

    open_app(model, host, port, browser)
