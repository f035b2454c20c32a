"""How good is a model: metrics, generation, pictures. The names are loaded when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME_OF = {
    "get_metric": "metrics",
    "load_run": "generation",
    "translate": "generation",
    "generate_text": "generation",
    "attention_maps": "attention",
    "plot_attention": "attention_pictures",
    "plot_curves": "curves",
    "plot_history": "curves",
}

__all__ = [
    "attention_maps",
    "generate_text",
    "get_metric",
    "load_run",
    "plot_attention",
    "plot_curves",
    "plot_history",
    "translate",
]

if TYPE_CHECKING:
    from regard.evaluation.attention import attention_maps
    from regard.evaluation.attention_pictures import plot_attention
    from regard.evaluation.curves import plot_curves, plot_history
    from regard.evaluation.generation import generate_text, load_run, translate
    from regard.evaluation.metrics import get_metric


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'regard.evaluation' has no attribute {name!r}")
    return getattr(import_module(f"regard.evaluation.{_HOME_OF[name]}"), name)
