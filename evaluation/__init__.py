"""How good is a model: metrics, generation, pictures. The names are loaded when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME_OF = {
    "get_metric": "metrics",
    "load_run": "generation",
    "translate": "generation",
    "generate_text": "generation",
    "attention_maps": "attention",
    "bleu_by_length": "lengths",
    "position_tables": "position_pictures",
    "plot_attention": "attention_pictures",
    "plot_curves": "curves",
    "plot_history": "curves",
    "plot_lengths": "lengths",
    "plot_positions": "position_pictures",
    "evaluate_vectors": "vectors_report",
    "read_sets": "vectors_report",
    "nearest_neighbours": "word_neighbours",
    "plot_vectors": "vector_pictures",
    "plot_analogies": "vector_pictures",
    "plot_one_hot": "vector_pictures",
}

__all__ = [
    "attention_maps",
    "bleu_by_length",
    "evaluate_vectors",
    "generate_text",
    "get_metric",
    "load_run",
    "nearest_neighbours",
    "plot_analogies",
    "plot_attention",
    "plot_curves",
    "plot_history",
    "plot_lengths",
    "plot_one_hot",
    "plot_positions",
    "plot_vectors",
    "position_tables",
    "read_sets",
    "translate",
]

if TYPE_CHECKING:
    from regard.evaluation.attention import attention_maps
    from regard.evaluation.attention_pictures import plot_attention
    from regard.evaluation.curves import plot_curves, plot_history
    from regard.evaluation.generation import generate_text, load_run, translate
    from regard.evaluation.lengths import bleu_by_length, plot_lengths
    from regard.evaluation.metrics import get_metric
    from regard.evaluation.position_pictures import plot_positions, position_tables
    from regard.evaluation.vector_pictures import plot_analogies, plot_one_hot, plot_vectors
    from regard.evaluation.vectors_report import evaluate_vectors, read_sets
    from regard.evaluation.word_neighbours import nearest_neighbours


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'regard.evaluation' has no attribute {name!r}")
    return getattr(import_module(f"regard.evaluation.{_HOME_OF[name]}"), name)
