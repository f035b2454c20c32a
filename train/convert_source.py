"""Where weights come from: a folder or a repository on the Hub, read without running or unpickling anything."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from regard.evaluation.yaml_io import read_yaml
from regard.train.convert_weights import Weights

CONFIG, CARD = "config.json", "README.md"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
TOKENIZER = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "vocab.txt", "merges.txt", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "source.spm",
    "target.spm", "target_vocab.json", "chat_template.jinja",
)  # fmt: skip
SENTENCE_FILES = ("modules.json", "config_sentence_transformers.json", "sentence_*_config.json")
WANTED = (
    CONFIG,
    CARD,
    "generation_config.json",
    WEIGHTS,
    INDEX,
    "model-*-of-*.safetensors",
    *TOKENIZER,
    *SENTENCE_FILES,
)
WANTED_BELOW = ("config.json", "model.safetensors")  # in folders of sentence-transformers, such as 1_Pooling
PICKLES = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "model*.bin")


class ConversionError(ValueError):
    """What cannot be converted, and why: one sentence."""


@dataclass(frozen=True)
class Source:
    """What is converted.

    Attributes:
        folder: where its files are.
        name: the id on the Hub, or the folder's name.
        revision: the commit, of a repository on the Hub.
        config: its config.json as it is written.
    """

    folder: Path
    name: str
    revision: str | None
    config: dict[str, Any]

    @property
    def is_on_hub(self) -> bool:
        return self.revision is not None

    def card(self) -> dict[str, Any]:
        return card_metadata(self.folder)

    def has(self, names: Iterable[str]) -> bool:
        return any((self.folder / name).is_file() for name in names)


def card_metadata(folder: Path) -> dict[str, Any]:
    """The metadata of a folder's card; none if there is no card, or it cannot be read."""
    path = folder / CARD
    text = path.read_text(encoding="utf-8-sig", errors="replace") if path.is_file() else ""
    block = re.match(r"---\s*\n(.*?)\n---\s*(?:\n|$)", text, re.DOTALL)
    try:
        metadata = read_yaml(block[1]) if block else {}
    except ValueError:
        return {}
    return metadata if isinstance(metadata, dict) else {}


def open_source(source: str | Path, revision: str | None = None) -> Source:
    """Finds a folder, or downloads what is needed of a repository on the Hub.

    Raises:
        ConversionError: there is no model, or only one that is pickled.
        ValueError: there is no such folder, or a revision of one.
        HubError: there is no such repository, or it cannot be reached.
    """
    path, name = Path(source), str(source)
    if path.is_dir():
        if revision is not None:
            raise ValueError(f"revision={revision!r} is for a repository on the Hub, and '{name}' is a folder.")
        _check_files([each.name for each in path.iterdir() if each.is_file()], name)
        return Source(path, path.resolve().name, None, _read_config(path))
    is_local = path.exists() or path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1
    if is_local or ("/" in name and path.parent.is_dir()):
        raise ValueError(f"There is no folder '{name}': give a folder with a model, or a Hub id such as 'user/model'.")
    folder, commit = _download(name, revision)
    return Source(folder, name, commit, _read_config(folder))


def _download(repo_id: str, revision: str | None) -> tuple[Path, str]:
    """What is needed of a repository, and its commit."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError

    from regard.model_cards.hub import retrying

    api = HfApi()
    try:
        info = retrying(lambda: api.model_info(repo_id, revision=revision), "asking", repo_id)
    except HFValidationError as error:
        raise ValueError(f"'{repo_id}' is neither a folder nor an id of the Hub, such as 'user/model'.") from error
    names = [file.rfilename for file in info.siblings or []]
    _check_files(names, repo_id)
    wanted = [name for name in names if _is_wanted(name)]
    download = lambda: api.snapshot_download(repo_id, revision=info.sha, allow_patterns=wanted)  # noqa: E731
    return Path(retrying(download, "downloading", repo_id)), info.sha


def _is_wanted(name: str) -> bool:
    folder, _, base = name.rpartition("/")
    if not folder:
        return any(fnmatchcase(name, pattern) for pattern in WANTED)
    return base in WANTED_BELOW and re.fullmatch(r"\d+_\w+", folder) is not None


def _check_files(names: list[str], called: str) -> None:
    if CONFIG not in names:
        if "adapter_config.json" in names:
            raise ConversionError(f"'{called}' holds an adapter without its model: merge it into the model first.")
        raise ConversionError(f"'{called}' holds no model: there is no {CONFIG} in it.")
    if WEIGHTS in names or INDEX in names:
        return
    pickled = [name for name in names if any(fnmatchcase(name, pattern) for pattern in PICKLES)]
    if pickled:
        raise ConversionError(
            f"'{called}' holds its weights as a pickle alone ({pickled[0]}), and reading one may run any code. Where "
            "you trust it, save it as safetensors first: load it with transformers and `save_pretrained` it to a "
            "folder, or ask the Hub's space safetensors/convert for one, and give --revision refs/pr/NUMBER."
        )
    raise ConversionError(f"'{called}' holds no weights: there is neither {WEIGHTS} nor {INDEX} in it.")


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConversionError(f"{CONFIG} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(config, dict):
        raise ConversionError(f"{CONFIG} holds no JSON object.")
    return config


def read_weights(folder: Path) -> Weights:
    """All tensors of a checkpoint, whole or in parts, under the names of the file.

    Raises:
        ConversionError: a part is missing or broken, or the index says something else than the parts.
    """
    if (folder / WEIGHTS).is_file():
        return _read_file(folder / WEIGHTS)
    try:
        placed = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
        files = sorted(set(placed.values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise ConversionError(f"{INDEX} is no index of weights.") from error
    if strange := [name for name in files if not isinstance(name, str) or Path(name).name != name]:
        raise ConversionError(f"{INDEX} names {strange[0]!r}, which is no file beside it.")
    weights: Weights = {}
    for name in files:
        part = _read_file(folder / name)
        if twice := sorted(part.keys() & weights.keys()):
            raise ConversionError(f"{name} holds {twice[0]}, and another part does so too.")
        weights |= part
    if missing := sorted(placed.keys() - weights.keys()):
        raise ConversionError(f"{INDEX} names {missing[0]}, which {placed[missing[0]]} does not hold.")
    return weights


def _read_file(path: Path) -> Weights:
    if not path.is_file():
        raise ConversionError(f"{path.name} is missing: {INDEX} names it as a part of the weights.")
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (the file is no dictionary)
    except (SafetensorError, OSError) as error:
        raise ConversionError(f"{path.name} is broken: {' '.join(str(error).split())}") from error


def widest_dtype(weights: Weights) -> torch.dtype:
    """A type that holds every floating-point number of the weights as it is.

    Raises:
        ConversionError: there are none, or they are of a type for quantised weights.
    """
    found = {weight.dtype for weight in weights.values() if weight.is_floating_point()}
    if not found:
        raise ConversionError("the weights hold no floating-point number.")
    if small := {dtype for dtype in found if dtype.itemsize < 2}:
        raise ConversionError(f"the weights hold {small.pop()}: take the model that was not quantised.")
    widest = found.pop()
    for dtype in found:
        widest = torch.promote_types(widest, dtype)
    return widest
