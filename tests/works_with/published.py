"""What each script here begins with: the published folders, loaded where regard cannot be imported.

A script is called as `python use_<tool>.py FOLDERS` in an empty working folder; it fails if anything is not right.
"""

import sys
from pathlib import Path
from typing import Any


class _NotHere:
    """Refuses regard, should the environment have it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in ("regard", "modeling"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, _NotHere())

import torch  # noqa: E402
import transformers  # noqa: E402

HOME = Path(sys.argv[1])

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.manual_seed(0)


def path(name: str) -> str:
    return str(HOME / name)


def load(auto_class: str, name: str, **settings: Any) -> transformers.PreTrainedModel:
    """A folder's model in evaluation mode, of the class that the folder's own code defines."""
    model = getattr(transformers, auto_class).from_pretrained(path(name), trust_remote_code=True, **settings)
    assert type(model).__module__.startswith("transformers_modules."), type(model)
    return model.eval()


def tokenizer_of(name: str) -> transformers.PreTrainedTokenizerBase:
    return transformers.AutoTokenizer.from_pretrained(path(name), trust_remote_code=True)


def both(auto_class: str, name: str, **settings: Any) -> tuple[Any, Any]:
    return load(auto_class, name, **settings), tokenizer_of(name)


def same(one: Any, other: Any, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other), atol=tolerance, rtol=tolerance)


def falls(losses: list[float], by: float = 0.7) -> None:
    """The last loss is below `by` times the first."""
    assert losses[-1] < by * losses[0], losses
