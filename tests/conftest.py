"""What every test relies on: no network, one thread, and nothing read that another run of the tests left behind."""

import os
import shutil
import tempfile

_CACHE = tempfile.mkdtemp(prefix="regard-tests-")

# Set before any library reads them, and inherited by the commands that tests start.
os.environ.update(
    {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_EVALUATE_OFFLINE": "1",
        "HF_DATASETS_CACHE": f"{_CACHE}/datasets",
        "HF_MODULES_CACHE": f"{_CACHE}/modules",
        "TOKENIZERS_PARALLELISM": "false",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "120",
    }
)
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_unconfigure() -> None:
    shutil.rmtree(_CACHE, ignore_errors=True)
