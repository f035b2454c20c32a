"""Talking to the Hub: several tries where the network or the server fails for a moment, and clear sentences else."""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from huggingface_hub import HfApi
from huggingface_hub.errors import (
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import validate_repo_id

TRIES = 5
LONGEST_WAIT = 300  # seconds, whatever the server asks for
# What a server says when it may do better in a moment; 412: somebody else wrote at the same time.
PASSING = {408, 412, 425, 429, 500, 502, 503, 504}
LOGIN = "log in with `hf auth login`, or set HF_TOKEN"

Result = TypeVar("Result")


class HubError(RuntimeError):
    """The Hub did not do what was asked: one sentence, with what to do about it."""


class Damaged(RuntimeError):
    """What the Hub holds is not what was sent."""


def retrying(
    do: Callable[[], Result], what: str, repo_id: str, left: str = "nothing half-done is to be seen"
) -> Result:
    """Does something on the Hub, again where the fault may pass.

    Args:
        do: may be called several times.
        what: for the sentences, such as "sending the files".
        repo_id: the same.
        left: what is there when it was not done, for the same.

    Raises:
        HubError: it cannot be done, or not after several tries.
    """
    for number in range(1, TRIES + 1):
        try:
            return do()
        except Exception as error:
            cause = root_cause(error)
            if not may_pass(cause):
                if isinstance(error, HubError):
                    raise
                raise HubError(explain(cause, repo_id)) from error
            if number == TRIES:
                left = "what is on the Hub is not right yet" if isinstance(cause, Damaged) else left
                raise HubError(
                    f"{_short(cause)} while {what}, {TRIES} times: {left}, and the same command goes on from there."
                ) from error
            wait = min(_asked_wait(cause) or 2 ** (number - 1), LONGEST_WAIT)
            say(f"{_short(cause)} while {what}: trying again in {wait} s ({number + 1} of {TRIES}).")
            time.sleep(wait)
    raise AssertionError("the loop returns or raises")


def say(text: str) -> None:
    """What happens meanwhile: on standard error, since the result goes to standard output."""
    print(text, file=sys.stderr, flush=True)


def root_cause(error: BaseException) -> BaseException:
    """What an upload stumbled over: the client wraps it."""
    while isinstance(error, RuntimeError) and not isinstance(error, HubError | Damaged) and error.__cause__:
        error = error.__cause__
    return error


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed in a moment."""
    if isinstance(error, Damaged):
        return True
    if isinstance(error, OfflineModeIsEnabled):  # a ConnectionError
        return False
    if isinstance(error, HfHubHTTPError):
        status = _status(error)
        return status in PASSING or bool(status == 400 and re.search(r"mismatch|digest|checksum", str(error), re.I))
    # Of the HTTP library, which differs between versions of the client; and of Xet, which tells one from another only
    # by its text.
    names = {one.__name__ for one in type(error).__mro__}
    module = type(error).__module__.partition(".")[0]
    return (
        isinstance(error, ConnectionError | TimeoutError | json.JSONDecodeError)
        or "TransportError" in names
        or module == "hf_xet"
    )


def explain(error: BaseException, repo_id: str) -> str:
    """One sentence about an error that does not pass."""
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, so the Hub cannot be asked: unset it."
    if isinstance(error, LocalTokenNotFoundError):
        return f"There is no token for the Hub: {LOGIN} to one that may write."
    if isinstance(error, RevisionNotFoundError):
        return f"'{repo_id}' has no such branch, tag or commit."
    status = _status(error)
    if status == 401 and "Invalid credentials" in str(error):
        return f"The Hub does not know the token: {LOGIN} to one that is valid."
    if isinstance(error, RepositoryNotFoundError):
        return f"There is no model '{repo_id}' on the Hub, or the token may not read it."
    if status == 401:
        return f"The Hub does not know the token, or there is none: {LOGIN}."
    if status == 403:
        return (
            f"The token may not write to '{repo_id}' ({_server_says(error)}): make one with write access on the Hub's "
            f"page of access tokens, and {LOGIN} to it."
        )
    if isinstance(error, OSError) and error.filename:  # of this machine
        return f"{error.filename} cannot be read: {error.strerror}."
    if status is not None:
        return f"The Hub refused it with status {status}: {_server_says(error)}"
    return f"The Hub could not be used: {' '.join(str(error).split()) or type(error).__name__}"


def download(repo_id: str, revision: str | None, token: str | None, max_bytes: int, endpoint: str | None) -> Path:
    """A model of the Hub as a folder; a file that is larger than `max_bytes` is refused before anything is read.

    Raises:
        HubError: it is not there, or cannot be reached.
        ValueError: it is no id.
    """
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ValueError(f"'{repo_id}' is neither a folder nor an id of the Hub, such as 'user/model'.") from error
    api = HfApi(endpoint=endpoint, token=token)
    info = retrying(
        lambda: api.model_info(repo_id, revision=revision, files_metadata=True),
        f"asking for '{repo_id}'",
        repo_id,
        "nothing was fetched",
    )
    large = [file.rfilename for file in info.siblings or [] if (file.size or 0) > max_bytes]
    if large:
        raise HubError(f"'{repo_id}' holds {large[0]}, which is larger than {max_bytes:,} bytes.")
    folder = retrying(lambda: api.snapshot_download(repo_id, revision=info.sha), "downloading", repo_id)
    return Path(folder)


def _status(error: BaseException) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _asked_wait(error: BaseException) -> int | None:
    headers = getattr(getattr(error, "response", None), "headers", {})
    asked = headers.get("Retry-After", "")
    return int(asked) if asked.isdigit() else None


def _short(error: BaseException) -> str:
    if isinstance(error, Damaged):
        return str(error)
    status = _status(error)
    return f"The Hub answered {status}" if status is not None else f"The connection failed ({type(error).__name__})"


def _server_says(error: BaseException) -> str:
    said = getattr(error, "server_message", None) or str(error)
    return " ".join(said.split()).rstrip(".")
