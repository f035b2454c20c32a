"""What a run's folder holds about itself, and where its data came from, without naming the machine."""

import json
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from transformers import AutoConfig, PretrainedConfig

import regard.modeling  # noqa: F401  (registers the configurations with AutoConfig)
from regard.train.yaml_io import read_yaml


@dataclass(frozen=True)
class Records:
    """A run's records; what a run has not written is empty.

    Attributes:
        config: the model's configuration.
        metrics: of metrics.json.
        recipe: of recipe.yaml.
        folder: where the pictures are.
    """

    config: PretrainedConfig
    metrics: dict[str, Any]
    recipe: dict[str, Any]
    folder: Path

    @property
    def name(self) -> str:
        return self.recipe.get("name") or self.metrics.get("recipe") or self.folder.resolve().name

    @property
    def task(self) -> str | None:
        return self.recipe.get("task")

    def section(self, name: str) -> dict[str, Any]:
        """A section of the recipe, or an empty one."""
        return self.recipe.get(name) or {}

    def pictures(self, pattern: str) -> list[Path]:
        return sorted(path for path in self.folder.glob(pattern) if path.suffix in (".png", ".svg"))


def read_records(run_dir: str | Path) -> Records:
    """Reads a run's folder.

    Raises:
        ValueError: it is not a folder with a model, or a record in it cannot be read.
    """
    folder = Path(run_dir)
    if not (folder / "config.json").is_file():
        raise ValueError(f"'{run_dir}' is not a run: it holds no config.json.")
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        metrics = folder / "metrics.json"
        recipe = folder / "recipe.yaml"
        return Records(
            config,
            json.loads(metrics.read_text(encoding="utf-8")) if metrics.is_file() else {},
            read_yaml(recipe.read_text(encoding="utf-8")) if recipe.is_file() else {},
            folder,
        )
    except (OSError, ValueError) as error:
        raise ValueError(
            f"The records of the run '{run_dir}' cannot be read: {' '.join(str(error).split())}"
        ) from error


def data_id(data: dict[str, Any]) -> str | None:
    """The data set's id: that of the Hub or of the package, else the folder of the training file."""
    if data.get("path"):
        return None if is_machine_path(data["path"]) else data["path"]
    if not data.get("train"):
        return None
    file = PurePath(data["train"])
    return file.parent.name or file.stem


def is_on_hub(data: dict[str, Any]) -> bool:
    path = data.get("path")
    return bool(path) and ":" not in path and not is_machine_path(path)


def is_machine_path(text: str) -> bool:
    """Whether a text is a place on somebody's disk that says nothing to others."""
    return PurePath(text).is_absolute() or text.startswith((".", "~"))


def without_machine(value: Any) -> Any:
    """A value of a recipe, with a path cut to the file and its folder. A Hub id has no more parts than that."""
    if isinstance(value, dict):
        return {key: without_machine(one) for key, one in value.items()}
    if not isinstance(value, str) or "/" not in value:
        return value
    return "/".join([part for part in PurePath(value).parts if part not in ("..", "/", "~")][-2:])


def split_sources(data: dict[str, Any]) -> dict[str, str]:
    """Where each split is from: the name of a split or of a file. Keys are those of the metrics."""
    sources = {key: data[key] for key in ("train", "validation") if data.get(key)}
    test = data.get("test")
    sources |= {f"test:{key}": one for key, one in test.items()} if isinstance(test, dict) else {}
    if isinstance(test, str):
        sources["test"] = test
    return {key: without_machine(one) for key, one in sources.items()}
