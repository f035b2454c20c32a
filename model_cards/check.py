"""Whether a folder can be published: does it load anywhere, compute the same there, and give nothing away?"""

import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file
from transformers.utils import logging as library_logging

import regard.modeling
from regard.evaluation.generation import auto_class_name
from regard.model_cards import elsewhere
from regard.model_cards.carried_code import CONFIG, check_code, code_files, mapped, read_config
from regard.model_cards.contents import MAX_FILE_BYTES, check_contents
from regard.model_cards.findings import CheckReport, Finding
from regard.model_cards.hub import download, say
from regard.model_cards.metadata import CARD, check_card
from regard.model_cards.staging import is_run, relative_files, stage
from regard.train.callbacks import quiet_libraries

TEXTS = ("A small test.", "The cat saw the dog, and the dog saw the cat: 12 × 3 = 36!")
SECONDS = 900  # that the other process may take
VERSION_KEYS = ("transformers_version", "_name_or_path")  # of a configuration; they say who wrote it
# How variables begin that would lead the other process to this package, to the network, to files that were loaded
# before, or to somebody's account.
UNWANTED = ("PYTHONPATH", "PYTHONHOME", "HF_", "HUGGING", "TRANSFORMERS_")
INDEX = "model.safetensors.index.json"


def check_folder(
    folder_or_hub_id: str | os.PathLike[str],
    *,
    revision: str | None = None,
    token: str | None = None,
    trust_remote_code: bool = False,
    endpoint: str | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> CheckReport:
    """Checks what is, or would be, published.

    The model and its tokenizer are loaded, by every auto class of the map, in a process that cannot import regard, in
    another directory and offline; their outputs must be those of this process, and saving and loading them there must
    change nothing. The files are searched for secrets, places on somebody's disk, pickles and the state of a
    training. A run is checked as `regard publish` would send it, with whatever else lies in its folder.

    Args:
        folder_or_hub_id: a folder, or the id of a model on the Hub, which is downloaded.
        revision: of a Hub id, the branch, tag or commit.
        token: of a Hub id, for a private one; by default the one that is logged in.
        trust_remote_code: of a Hub id, run code that is not this version's own. A folder's code is always run.
        endpoint: another Hub; by default that of HF_ENDPOINT.
        max_file_bytes: the most that a file may have.

    Raises:
        ValueError: there is no such folder, or a revision of one was asked for.
        HubError: there is no such repository, or it cannot be reached.
    """
    folder = Path(folder_or_hub_id)
    if revision is not None and folder.is_dir():
        raise ValueError(f"revision '{revision}': '{folder}' is a folder here, and has none; a model of the Hub has.")
    with tempfile.TemporaryDirectory(prefix="regard-check-") as scratch:
        if folder.is_dir():
            if not is_run(folder):
                return check_files(folder, str(folder), max_file_bytes=max_file_bytes, scratch=Path(scratch))
            try:
                staged = stage(folder, Path(scratch) / folder.resolve().name)
            except ValueError as error:  # records that cannot be read: then it is checked as it is
                report = check_files(folder, str(folder), max_file_bytes=max_file_bytes, scratch=Path(scratch))
                report.findings.append(Finding("metadata", CARD, f"it cannot be rendered: {error}"))
                return report
            strays = [name for name in staged.left_out if not name.endswith("/")]
            for name in strays:
                target = staged.folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to((folder / name).resolve())
            report = check_files(staged.folder, str(folder), max_file_bytes=max_file_bytes, scratch=Path(scratch))
            report.notes += staged.notes
            return report
        name = str(folder_or_hub_id)
        if folder.exists() or folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
            raise ValueError(f"There is no folder '{name}'.")
        say(f"There is no folder '{name}' here: asking the Hub for a model of that name.")
        snapshot = download(name, revision, token, max_file_bytes, endpoint)
        trusted = trust_remote_code or _is_own_code(snapshot)
        return check_files(snapshot, name, max_file_bytes=max_file_bytes, scratch=Path(scratch), load=trusted)


def check_files(
    folder: Path, called: str, *, max_file_bytes: int = MAX_FILE_BYTES, scratch: Path | None = None, load: bool = True
) -> CheckReport:
    """Checks a folder as it is, called `called`; without `load` the model is not loaded, and no code of it runs."""
    report = CheckReport(called)
    names = []
    for name in relative_files(folder, everything=True):
        if (folder / name).is_file():
            names.append(name)
        elif (folder / name).is_dir():
            report.notes.append(f"{name}: it was not looked into, since it is a link to another folder.")
        else:
            report.findings.append(Finding("path", name, "it is a link to nothing, or no file."))
    report.files = {name: (folder / name).stat().st_size for name in names}
    report.findings += check_contents(folder, names, max_file_bytes)
    report.findings += check_card(folder, names)
    report.findings += check_code(folder)
    report.findings += _check_weights(folder, names)
    unsafe = [finding for finding in report.findings if finding.check in ("code", "auto-map", "weights", "pickle")]
    if not load:
        report.notes.append(
            "It was not loaded, since its code is not that of this version of regard: --trust-remote-code runs it."
        )
    elif unsafe:
        report.notes.append("It was not loaded: see to what was found first.")
    else:
        say("Loading it offline, in another process that cannot import regard.")
        with tempfile.TemporaryDirectory(prefix="regard-load-", dir=scratch) as place:
            _check_loading(folder, Path(place), report)
    return report


def _check_weights(folder: Path, names: list[str]) -> list[Finding]:
    """Whether the weights are there: whole, or else all the parts that an index names, and never both."""
    parts = {name for name in names if fnmatch.fnmatchcase(name, "model-*-of-*.safetensors")}
    whole, needed = "model.safetensors" in names, set()
    if INDEX in names:
        try:
            needed = set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError, TypeError):
            return [Finding("weights", INDEX, "it is no index of weights.")]
        if whole:
            return [Finding("weights", INDEX, "model.safetensors is there too, and only one of them can be right.")]
    elif not whole:
        return [Finding("weights", "model.safetensors", "the weights are missing.")]
    missing = [Finding("weights", one, "it is a part of the weights, and missing.") for one in needed - set(names)]
    return missing + [Finding("weights", one, "no index names it.") for one in sorted(parts - needed)]


def _is_own_code(folder: Path) -> bool:
    """Whether a downloaded folder's code is what this version of the package would have saved: all of it, since the
    library runs more than what the auto map reaches, such as `custom_generate/generate.py`."""
    own = Path(regard.modeling.__file__).parent
    names = [name for name in relative_files(folder, everything=True) if name.endswith((".py", ".so", ".pyd"))]
    return all((own / name).is_file() and (own / name).read_bytes() == (folder / name).read_bytes() for name in names)


# --- loading here and elsewhere --------------------------------------------------------------------------------------


def _check_loading(folder: Path, scratch: Path, report: CheckReport) -> None:
    config = read_config(folder)
    classes = list(dict.fromkeys(name for name, _ in mapped(folder) if name.startswith("AutoModel")))
    known = config.get("model_type") in transformers.CONFIG_MAPPING
    main = _main_class(folder, classes) if known else None
    if not classes and main is not None:
        classes = [main]
    job = {"folder": str(folder.resolve()), "classes": classes, "texts": TEXTS, "threads": torch.get_num_threads()}
    job |= {"main": main or (classes[0] if classes else None)}
    there_job = job | {"remote": True, "tensors": str(scratch / "there"), "again": str(scratch / "again")}
    there = _observe_elsewhere(there_job, scratch, report)
    if there is None:
        return
    for name, said in there["classes"].items():
        if "error" in said:
            report.findings.append(Finding("loading", "", f"{name} does not load elsewhere: {said['error']}."))
        else:
            report.classes.append(name)
            report.findings += _key_findings(name, said, name == job["main"])
    if "error" in there["tokenizer"]:
        problem = f"The tokenizer does not load elsewhere: {there['tokenizer']['error']}."
        report.findings.append(Finding("tokenizer", "", problem))
    report.findings += _fixed_point(folder, Path(there_job["again"]), there["classes"].get(job["main"], {}))
    if not known:
        report.notes.append(
            f"Outputs were not compared: the model type {config.get('model_type')!r} is not known here."
        )
        return
    job["classes"] = report.classes
    with quiet_libraries(), _silent():
        here = elsewhere.observe(job | {"remote": False, "tensors": str(scratch / "here"), "again": None})
    report.findings += _compare(here, there, scratch)


@contextmanager
def _silent() -> Iterator[None]:
    """Without the library's report of heads that begin at random: that is meant here."""
    level = library_logging.get_verbosity()
    library_logging.set_verbosity_error()
    try:
        yield
    finally:
        library_logging.set_verbosity(level)


def _main_class(folder: Path, classes: list[str]) -> str | None:
    try:
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
        return auto_class_name(config)
    except (OSError, ValueError):
        return classes[0] if classes else None


def _observe_elsewhere(job: dict[str, Any], scratch: Path, report: CheckReport) -> dict[str, Any] | None:
    (scratch / "job.json").write_text(json.dumps(job), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}
    environment |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HOME": str(scratch / "home")}
    environment |= {"HF_MODULES_CACHE": str(scratch / "modules")}
    command = [sys.executable, "-P", elsewhere.__file__, str(scratch / "job.json"), str(scratch / "said.json")]
    settings: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": SECONDS}
    try:
        process = subprocess.run(command, cwd=scratch, env=environment, text=True, errors="replace", **settings)
    except subprocess.TimeoutExpired:
        report.findings.append(Finding("loading", "", f"It does not load elsewhere within {SECONDS} seconds."))
        return None
    if process.returncode != 0:
        lines = process.stderr.strip().splitlines() or [f"the process ended with status {process.returncode}"]
        report.findings.append(Finding("loading", "", f"It does not load elsewhere: {lines[-1]}."))
        return None
    return json.loads((scratch / "said.json").read_text(encoding="utf-8"))


def _key_findings(name: str, said: dict[str, Any], main: bool) -> list[Finding]:
    """Weights that the model lacks, or that nobody asked for. A head that was not trained may begin at random."""
    prefix = f"{said['prefix']}."
    missing = [key for key in said["missing"] if main or not said["prefix"] or key.startswith(prefix)]
    problems = []
    if missing:
        problems.append(f"{name} misses weights: {_few(missing)}.")
    if main and said["unexpected"]:
        problems.append(f"{name} does not know the weights {_few(said['unexpected'])}.")
    return [Finding("loading", "", problem) for problem in problems]


def _few(keys: list[str]) -> str:
    return ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")


def _compare(here: dict[str, Any], there: dict[str, Any], scratch: Path) -> list[Finding]:
    findings = []
    if here["tokenizer"] != there["tokenizer"] and "error" not in there["tokenizer"]:
        findings.append(Finding("tokenizer", "", "The tokenizer gives other tokens elsewhere than here."))
    expected, found = load_file(scratch / "here"), load_file(scratch / "there")
    for name, said in here["classes"].items():
        if "error" in said:
            findings.append(Finding("loading", "", f"{name} does not load here: {said['error']}."))
            continue
        ours = {key: value for key, value in expected.items() if key.startswith(f"{name}.")}
        theirs = {key: value for key, value in found.items() if key.startswith(f"{name}.")}
        differing = [key for key in ours if key not in theirs or not _same(ours[key], theirs[key])]
        differing += [key for key in theirs if key not in ours]
        wrong = [key for key, value in ours.items() if value.isnan().any()]
        if differing:
            findings.append(
                Finding("outputs", "", f"{name} computes other {_outputs(differing)} elsewhere than here.")
            )
        if wrong:
            findings.append(Finding("outputs", "", f"{name} computes {_outputs(wrong)} that are no numbers (NaN)."))
        if not ours:
            findings.append(Finding("outputs", "", f"{name} gives no output."))
    return findings


def _outputs(keys: list[str]) -> str:
    return ", ".join(key.partition(".")[2] for key in keys)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    return torch.allclose(one.float(), other.float(), rtol=1e-4, atol=1e-5, equal_nan=True)


def _fixed_point(folder: Path, again: Path, said: dict[str, Any]) -> list[Finding]:
    """Whether what was loaded elsewhere and saved there is what lies in the folder."""
    if "again" not in said:
        return []
    findings = []
    if said["again"]["differing"]:
        problem = f"Saved and loaded again, other weights come back: {_few(said['again']['differing'])}."
        findings.append(Finding("round-trip", "", problem))
    for name in (CONFIG, "generation_config.json", "tokenizer.json"):
        if (folder / name).is_file() and _content(folder / name) != _content(again / name):
            findings.append(Finding("round-trip", name, "saved again, it holds something else."))
    for name in code_files(folder):
        if not (again / name).is_file() or (again / name).read_bytes() != (folder / name).read_bytes():
            findings.append(Finding("round-trip", name, "saved again, it is missing or holds something else."))
    before, after = _tensors(folder), _tensors(again)
    differing = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    if differing:
        problem = f"saved again, it holds other tensors: {_few(differing)}."
        findings.append(Finding("round-trip", "model.safetensors", problem))
    return findings


def _content(path: Path) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if isinstance(content, dict):
        content = {key: value for key, value in content.items() if key not in VERSION_KEYS}
    return content


def _tensors(folder: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of each tensor of the weights; that the numbers are the same was seen when they were loaded."""
    found = {}
    for path in folder.glob("model*.safetensors"):
        with safe_open(path, "pt") as file:
            for key in file.keys():  # noqa: SIM118  (the file is no dictionary)
                part = file.get_slice(key)
                found[key] = (str(part.get_dtype()), tuple(part.get_shape()))
    return found
