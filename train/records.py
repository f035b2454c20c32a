"""What a run writes down about itself."""

import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any

from regard.evaluation.files import json_text, replacing

METRICS, HISTORY, LOSS_CURVE, ERRORS = "metrics.json", "history.json", "loss_curve.png", "errors.json"
FIRST_WEIGHTS = "start.json"  # how a model began from the weights of another one
VECTOR_MODEL_TYPES = ("regard-word2vec", "regard-glove")


def write_json(path: str | os.PathLike[str], content: Any) -> None:
    """Writes JSON in UTF-8, as `json_text` has it."""
    with replacing(path) as partial:
        partial.write_text(json_text(content), encoding="utf-8")


def read_json(path: str | os.PathLike[str]) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def holds_vectors(path: str | os.PathLike[str]) -> bool:
    """Whether there are word vectors: a file, or a folder whose model is a table of them."""
    config = Path(path) / "config.json"
    if not config.is_file():
        return Path(path).is_file()
    try:
        return json.loads(config.read_text(encoding="utf-8")).get("model_type") in VECTOR_MODEL_TYPES
    except (ValueError, AttributeError):
        return False  # what reads the model says what is wrong with it


def environment() -> dict[str, Any]:
    """The versions and the machine that a result belongs to."""
    import torch
    import transformers

    import regard

    found = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "regard": regard.__version__,
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "date": datetime.date.today().isoformat(),
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
