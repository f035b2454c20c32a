"""The names under which `datasets` caches what this package makes of data."""

import hashlib
import json
from pathlib import Path
from typing import Any

PREPROCESSING_VERSION = 1  # raise it when a change elsewhere (a library's) must not be served from the cache
# Those that make rows and examples.
MODULES = (
    "data", "layouts", "masking", "preprocessing", "../evaluation/readers", "subset", "subword_dropout", "tagging",
    "answers", "denoising", "encoding", "hold_out", "questions", "text_streams", "../evaluation/question_answering",
)  # fmt: skip


def fingerprint(*parts: Any) -> str:
    """A name for a data set that is made of `parts` (plain values): it changes with them, and with the code that makes
    rows and examples."""
    code = [Path(__file__).parent.joinpath(f"{module}.py").read_text(encoding="utf-8") for module in MODULES]
    content = json.dumps([PREPROCESSING_VERSION, code, parts], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]
