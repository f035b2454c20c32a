"""How good is a model: metrics, generation, pictures. The names are loaded when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME_OF = {
    "get_metric": "metrics",
    "load_run": "generation",
    "translate": "generation",
    "generate_text": "generation",
    "plot_history": "pictures",
    "plot_cross_attention": "pictures",
}

__all__ = [
    "generate_text",
    "get_metric",
    "load_run",
    "plot_cross_attention",
    "plot_history",
    "translate",
]

if TYPE_CHECKING:
    from regard.evaluation.generation import generate_text, load_run, translate
    from regard.evaluation.metrics import get_metric
    from regard.evaluation.pictures import plot_cross_attention, plot_history


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'regard.evaluation' has no attribute {name!r}")
    return getattr(import_module(f"regard.evaluation.{_HOME_OF[name]}"), name)
