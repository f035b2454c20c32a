"""What must not be inside a published file: secrets, places on somebody's disk, pickles, the state of a training.

A file is judged by what it holds, not only by its name: a pickle that is called `vocab.txt` is one.
"""

import io
import json
import os
import pickletools
import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from regard.model_cards.findings import Finding

MAX_FILE_BYTES = 50 * 10**9  # what transformers itself makes of weights, and the Hub takes at once
READ = 64 * 2**20  # of a file of no known kind, so much of its beginning is looked at

SECRETS = {
    "a Hugging Face token": r"\b(?:hf|api_org)_[A-Za-z0-9]{20,}",
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    "a GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "an API key": r"\bsk-[A-Za-z0-9_-]{20,}",
    "an AWS key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a Google key": r"\bAIza[A-Za-z0-9_-]{35}",
    "a Slack token": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "a PyPI token": r"\bpypi-[A-Za-z0-9_-]{50,}",
    "a private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----",
    "a signed token": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    # Without the limits a text of a million `a.a.a.` would take for ever.
    "a password in an address": r"\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@\"'<>]{1,200}:[^\s/:@\"'<>]{1,200}@[\w.-]+",
    "the token of a request": r"(?i:\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|token)\s+)[A-Za-z0-9._~+/-]{16,}",
    "something called a secret": (
        r"(?i:(?<![a-z])(?:api_?key|secret(?:_?key)?|access_?(?:token|key)|auth_?token|hub_token|password)"
        r"[\"']?\s*[:=]\s*[\"']?)[A-Za-z0-9+/_-]{16,}\b"
    ),
}
PLACES = re.compile(
    r"(?<![\w./~<-])(?:"
    r"/(?:home|Users|root|work|workspaces?|tmp|mnt|media|scratch|data|content|kaggle|Volumes|private|opt|srv|var|nfs|"
    r"gpfs|lustre|storage|projects?|shared|export|raid|notebooks|teamspace|dbfs)/[\w.+@-]+"
    r"|~/[\w.+-]+"
    r"|[A-Za-z]:(?:\\{1,2}|/)(?:Users|Documents and Settings|Windows|work|data|temp)\b)"
    r"|\bfile:///\w+"
)
PICKLE_NAMES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill", ".npz")
STATE_NAMES = re.compile(
    r"training_args\.bin|(?:optimizer|scheduler|scaler)\.(?:pt|bin|safetensors)|rng_state.*\.pth|trainer_state\.json"
    r"|adagrad\.safetensors|(?:.*/)?(?:checkpoint-\d+|last-checkpoint)/.*"
)
EVENT_NAME = re.compile(r"events\.out\.tfevents\.\d+\.(.+)")
# Instructions of a pickle that name something, and those that call it; the others only lay out data.
NAMES, CALLS = {"GLOBAL", "STACK_GLOBAL", "INST"}, {"REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"}
OBJECTS = re.compile(rb"['\"](?:[|<>=]?O\d*|object)['\"]")  # a type of numpy's, in the head of a file
ARCHIVES = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"7z\xbc\xaf": "7-Zip", b"Rar!": "RAR"}
# Words of a vocabulary are the data's, whatever they look like.
VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "merges.txt", "added_tokens.json", "target_vocab.json")


def check_contents(folder: Path, names: list[str], max_file_bytes: int = MAX_FILE_BYTES) -> list[Finding]:
    """Looks into each file, in order. Nothing is unpickled."""
    findings: list[Finding] = []
    for name in names:
        path = folder / name

        def say(check: str, problem: str, name: str = name) -> None:
            findings.append(Finding(check, name, problem))

        size = path.stat().st_size
        if size > max_file_bytes:
            say("size", f"{size:,} bytes are more than the {max_file_bytes:,} that one file may have.")
        if STATE_NAMES.fullmatch(name) or STATE_NAMES.fullmatch(path.name):
            say("state", "it is of a checkpoint, from which a training goes on: it stays at home.")
            continue
        _check_one(path, name, say)
    return findings


def _check_one(path: Path, name: str, say: Callable[[str, str], None]) -> None:
    if path.suffix == ".safetensors":
        problem = safetensors_problem(path)
        if problem is None:
            _check_text(_safetensors_metadata(path), name, say, lines=False)
            return
        say("weights", problem)
    with open(path, "rb") as file:
        head = file.read(READ)
    kind = pickle_kind(path, head)
    if kind is None and path.suffix.lower() in PICKLE_NAMES:
        kind = f"a file called {path.suffix}, which others take for a pickle"
    if kind is not None:
        say("pickle", f"it is {kind}: loading it may run any code.")
        return
    event = EVENT_NAME.fullmatch(path.name)
    if event:
        machine = [part for part in event[1].split(".") if not part.isdigit() and part != "v2"]
        if machine:
            say("path", f"its name holds that of a machine, '{'.'.join(machine)}'.")
    try:
        text, is_text = head.decode("utf-8"), b"\0" not in head
    except UnicodeDecodeError:
        text, is_text = head.decode("latin-1"), False
    _check_text(text, name, say, lines=is_text, places=(is_text or bool(event)) and path.name not in VOCABULARIES)


def _check_text(
    text: str, name: str, say: Callable[[str, str], None], lines: bool = True, places: bool = True
) -> None:
    for what, pattern in SECRETS.items():
        for match in _some(re.finditer(pattern, text)):
            say("secret", f"{_where(text, match, lines)}it holds {what}, '{match[0][:6]}…'.")
    if not places:
        return
    own = [str(place) for place in (Path.home(), Path.cwd()) if len(place.parts) > 2]
    found = list(_some(PLACES.finditer(text)))
    for place in own:
        if not found:
            found += _some(re.finditer(rf"{re.escape(place)}\b", text))
    for match in found:
        say("path", f"{_where(text, match, lines)}'{match[0]}' is a place on somebody's disk.")


def _some(matches: Iterator[re.Match]) -> Iterator[re.Match]:
    """The first three: a file with one has often many."""
    for _, match in zip(range(3), matches, strict=False):
        yield match


def _where(text: str, match: re.Match, lines: bool) -> str:
    number = text.count("\n", 0, match.start()) + 1
    return f"in line {number} " if lines else ""


def pickle_kind(path: str | os.PathLike[str], head: bytes) -> str | None:
    """What a file is, if it is a pickle, holds one, or may hold one where nobody sees it.

    Args:
        path: the file.
        head: its beginning.
    """
    if zipfile.is_zipfile(path):  # by its end: a zip may follow anything
        with zipfile.ZipFile(path) as archive:
            pickles = [name for name in archive.namelist() if name.endswith((".pkl", ".pickle"))]
        return "a zip archive with pickles in it, as torch.save writes" if pickles else "a zip archive"
    if head[257:262] == b"ustar":
        return "a tar archive"
    for magic, kind in ARCHIVES.items():
        if head.startswith(magic):
            return f"a {kind} archive"
    if head.startswith(b"\x93NUMPY"):
        types, _, _ = head[12:].partition(b"\n")  # after mark, version and length
        return "a numpy file of Python objects, which are pickled" if OBJECTS.search(types) else None
    if head.startswith(b"\x80") and head[1:2] <= b"\x05" and _begins_like_pickle(head):
        return "a pickle"
    return "a pickle" if _is_old_pickle(head) else None


def _begins_like_pickle(head: bytes) -> bool:
    """Whether the bytes are instructions of a pickle, at least the first ones: the file may be longer than `head`."""
    number = 0
    try:
        for _, _, _ in pickletools.genops(head):
            number += 1
            if number == 8:
                return True
    except Exception:  # whatever the bytes make it stumble over
        return number >= 3
    return True


def _is_old_pickle(head: bytes) -> bool:
    """Whether the bytes are a pickle of the old protocols, which have no mark at the beginning: the whole of them, or
    their beginning, where that calls something, since a reader stops at the pickle's end whatever follows."""
    stream, found = io.BytesIO(head), []
    try:
        for instruction, _, _ in pickletools.genops(stream):
            if not found and instruction.stack_before:  # there is nothing yet that it could take
                return False
            found.append(instruction.name)
    except Exception:  # as above
        return False
    acts = not (NAMES.isdisjoint(found) or CALLS.isdisjoint(found))
    return acts or (len(found) > 2 and not head[stream.tell() :].strip())


def safetensors_problem(path: Path) -> str | None:
    """What is wrong with the form of a safetensors file: a sentence, or None."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return None if file.keys() else "it holds no tensor."
    except (SafetensorError, OSError) as error:
        return f"it is no safetensors file, or a broken one ({' '.join(str(error).split())})."


def _safetensors_metadata(path: Path) -> str:
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        return json.dumps(json.loads(file.read(size)).get("__metadata__", {}))
