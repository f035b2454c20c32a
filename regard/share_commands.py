"""`regard check` and `regard publish`: what goes to the Hub, and whether it may."""

import contextlib
import os
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from regard.cli import SHARE, JsonOption, RunArgument, _print_json, _results_alone, _say_error, _write, app


@contextlib.contextmanager
def _clear_errors() -> Iterator[None]:
    """What was found, or what the Hub refused, is a sentence and exit status 1: the call was not wrong."""
    try:
        yield
    except Exception as error:
        from regard.model_cards.hub import HubError
        from regard.model_cards.publish import NotPublishable

        if not isinstance(error, HubError | NotPublishable) or os.environ.get("REGARD_DEBUG", "0") not in ("", "0"):
            raise
        _say_error(str(error))
        raise typer.Exit(1) from error


@app.command(rich_help_panel=SHARE, epilog="Example: regard check runs/multi30k-de-en")
def check(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER_OR_HUB_ID", help="A run, any folder with a model, or an id on the Hub.")
    ],
    revision: Annotated[str | None, typer.Option(help="Of a Hub id: the branch, tag or commit.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Of a Hub id: run code that is not this version's own.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check that a model loads and computes the same where regard is not installed, and gives nothing away.

    It is loaded in another process, offline, by each of its auto classes. The files are searched for secrets, places
    on a disk, pickles and the state of a training; the card's metadata must be valid. A run is checked as it would be
    published, and what else lies in its folder is searched too. Nothing is changed.
    """
    with _results_alone(as_json), _clear_errors():
        from regard.model_cards.check import check_folder

        report = check_folder(folder, revision=revision, trust_remote_code=trust_remote_code)
    if as_json:
        _print_json(report.to_dict())
    else:
        _write("".join(f"{finding}\n" for finding in report.findings), None)
        _write("".join(f"Note: {note}\n" for note in report.notes), None)
        loaded = f" It loads by {', '.join(report.classes)}." if report.classes else ""
        found = f"{len(report.findings)} found" if report.findings else "nothing found"
        _write(f"{report.checked}: {len(report.files)} files, {found}.{loaded}\n", None)
    if not report.ok:
        raise typer.Exit(1)


@app.command(rich_help_panel=SHARE, epilog="Example: regard publish runs/multi30k-de-en --repo multi30k-de-en")
def publish(
    run: RunArgument,
    repo: Annotated[str, typer.Option(metavar="[USER/]NAME", help="The repository; it is made if it is not there.")],
    public: Annotated[
        bool, typer.Option("--public", help="Open the whole repository to everyone; a new one is private.")
    ] = False,
    branch: Annotated[str | None, typer.Option(help="Commit to this branch, not to main.")] = None,
    tag: Annotated[str | None, typer.Option(help="A name for this version, which the card's snippet loads.")] = None,
    pull_request: Annotated[
        bool, typer.Option("--pull-request", help="Propose it to a repository that is somebody else's.")
    ] = False,
    message: Annotated[str | None, typer.Option(help="Of the commit.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check, list what would go up, and send nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Publish a run on the Hub: model, code, tokenizer, card, results, recipe and logs, in one commit.

    What goes up is checked first, as `regard check` does; the card is rendered anew, and what is of no kind that
    belongs to a run stays in its folder. Cut off in between, the same command goes on from there. The token is that of
    `hf auth login` or HF_TOKEN.
    """
    with _results_alone(as_json), _clear_errors():
        from regard.model_cards.publish import publish as publish_run

        settings: dict[str, Any] = {"public": public, "branch": branch, "tag": tag, "pull_request": pull_request}
        result = publish_run(run, repo, message=message, dry_run=dry_run, **settings)
    if as_json:
        _print_json(result.to_dict())
        return
    stays = f"Stays here: {', '.join(result.left_out)}\n" if result.left_out else ""
    if not dry_run:
        _write("".join([*(f"Note: {note}\n" for note in result.notes), stays]), None)
        seen = "private" if result.private else "public"
        _write(f"Published {result.url} ({seen}), commit {result.commit}.\n", None)
        return
    width = max(map(len, result.files))
    listed = [f"{name:{width}}  {size:>13,} bytes\n" for name, size in result.files.items()]
    listed += [f"Note: {note}\n" for note in result.notes]
    listed += [stays]
    total = sum(result.files.values())
    _write("".join([*listed, f"{len(result.files)} files, {total:,} bytes, would go to {result.repo}.\n"]), None)
