"""What a run's folder holds about itself, and where its data came from, without naming the machine."""

import json
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from transformers import AutoConfig, PretrainedConfig

import regard.modeling  # noqa: F401  (registers the configurations with AutoConfig)
from regard.evaluation.yaml_io import read_yaml
from regard.train.records import FIRST_WEIGHTS
from regard.train.sections import HOLD_OUT, REGRESSION

MADE = "made as they are needed"  # rows that are no file's


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
    def place(self) -> str:
        """Where the card says that the run's folder lies: among others, under its own name, and on no machine."""
        return f"runs/{self.folder.resolve().name}"

    @property
    def task(self) -> str | None:
        return self.recipe.get("task")

    def section(self, name: str) -> dict[str, Any]:
        """A section of the recipe, or an empty one."""
        return self.recipe.get(name) or {}

    @property
    def start(self) -> dict[str, Any]:
        """What is known of the model whose weights this one began from, also while it is still training."""
        known = self.metrics.get("model", {}).get("start")
        path = self.folder / FIRST_WEIGHTS
        if known is None and path.is_file():
            known = json.loads(path.read_text(encoding="utf-8"))
        return known or {}

    @property
    def carries_code(self) -> bool:
        """Whether the model loads from the folder where this package is not installed."""
        return bool(getattr(self.config, "auto_map", None)) and any(self.folder.glob("*.py"))

    def pictures(self, pattern: str) -> list[Path]:
        return sorted(path for path in self.folder.glob(pattern) if path.suffix in (".png", ".svg"))


def own_tokenizer(records: Records) -> dict[str, Any]:
    """The settings of the tokenizer that the run trained; empty where it took one that was there, or has none."""
    settings = records.section("tokenizer") if records.task != REGRESSION else {}
    return {} if settings.get("path") or records.section("model").get("start_from") else settings


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
    """The data set's id on the Hub or in the package; of files the training file's name, or where that says nothing,
    as `train.jsonl` does, that of its folder."""
    if data.get("path"):
        return None if is_machine_path(data["path"]) else data["path"]
    if not data.get("train"):
        return None
    if is_made(data):
        return "made by regard"
    file = PurePath(data["train"])
    folder = file.parent.name
    return folder if file.stem.startswith("train") and folder.strip(".~") else file.name


def is_on_hub(data: dict[str, Any]) -> bool:
    """Whether the data set's name is an id on the Hub: a folder of that name here is read before the Hub is asked."""
    path = data.get("path")
    return bool(path) and ":" not in path and not is_machine_path(path) and not Path(path).exists()


def is_builtin(data: dict[str, Any]) -> bool:
    """Whether the package makes the data itself."""
    return str(data.get("path")).startswith("builtin:")


def is_made(data: dict[str, Any]) -> bool:
    """Whether the package makes the rows as they are needed: a split is then their number."""
    return str(data.get("train")).isdecimal()


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


def with_placeholder(value: Any) -> Any:
    """A value of a recipe for somebody else's command line: PATH stands for a place on this machine's disk."""
    if isinstance(value, str) and (PurePath(value).is_absolute() or value.startswith("~")):
        return f"PATH/{without_machine(value)}"
    return value


def is_held_out(data: dict[str, Any]) -> bool:
    """Whether the validation rows are some of the training file's: a number or a share of them, as `5%` is."""
    return HOLD_OUT.fullmatch(data.get("validation") or "") is not None


def split_sources(data: dict[str, Any]) -> dict[str, str]:
    """Where each split is from: the name of a split or of a file, or rows held out. Keys are those of the metrics."""
    if is_made(data):
        return {key: MADE for key in ("train", "validation", "test") if data.get(key)}
    sources = {key: data[key] for key in ("train", "validation") if data.get(key)}
    together = f", by {data['split_by']}" if data.get("split_by") else ""
    if is_held_out(data):
        unit = "" if "%" in sources["validation"] else " rows"
        sources["validation"] = f"held out of train: {sources['validation']}{unit}{together}"
    if data.get("max_train_examples") and "train" in sources:
        sources["train"] = f"{without_machine(sources['train'])}, up to {data['max_train_examples']:,} rows of it"
    test = data.get("test")
    if isinstance(test, str) and HOLD_OUT.fullmatch(test):
        held_out = {"test": f"held out of train: {test}{'' if '%' in test else ' rows'}{together}"}
        return {key: without_machine(one) for key, one in sources.items()} | held_out
    sources |= {f"test:{key}": one for key, one in test.items()} if isinstance(test, dict) else {}
    if isinstance(test, str):
        sources["test"] = test
    return {key: without_machine(one) for key, one in sources.items()}
