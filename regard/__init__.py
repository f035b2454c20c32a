"""regard: language models along the road to attention, each a Hugging Face model that can be read in one sitting.

The public names are loaded when they are first used, so that `import regard` and the command start at once. Using any
model or config name registers all of them with the Auto classes; `import regard.modeling` does so too.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "regard.modeling": (
        "TransformerEncoderConfig",
        "TransformerEncoderModel",
        "TransformerEncoderForMaskedLM",
        "TransformerEncoderForSequenceClassification",
        "TransformerEncoderForTokenClassification",
        "TransformerEncoderForQuestionAnswering",
        "TransformerDecoderConfig",
        "TransformerDecoderModel",
        "TransformerDecoderForCausalLM",
        "TransformerDecoderForSequenceClassification",
        "TransformerConfig",
        "TransformerModel",
        "TransformerForConditionalGeneration",
        "DANConfig",
        "DANForSequenceClassification",
        "Word2VecConfig",
        "Word2VecModel",
        "GloVeConfig",
        "GloVeModel",
        "InContextRegressionConfig",
        "TransformerDecoderForInContextRegression",
        "WordVectors",
        "load_word_vectors",
    ),
    "regard.evaluation.generation": ("load_run", "translate", "generate_text"),
    "regard.evaluation.question_answering": ("answer",),
    "regard.evaluation.few_shot.task": ("list_tasks", "load_task"),
    "regard.evaluation.few_shot.run": ("few_shot",),
    "regard.evaluation.few_shot.result": ("read_result",),
    "regard.evaluation.few_shot.picture": ("plot_few_shot",),
    "regard.evaluation.attention_pictures": ("plot_attention",),
    "regard.evaluation.light": ("light", "load_layers"),
    "regard.evaluation.light_pictures": ("plot_light",),
    "regard.evaluation.vectors_report": ("evaluate_vectors", "read_sets"),
    "regard.evaluation.word_neighbours": ("nearest_neighbours",),
    "regard.evaluation.vector_pictures": ("plot_vectors", "plot_analogies", "plot_one_hot"),
    "regard.train.run_pictures": ("plot_run_curves", "plot_run_lengths", "plot_run_positions"),
    "regard.train.induction": ("plot_run_induction",),
    "regard.train.corpus": ("number_sentences",),
    "regard.train.vocabulary": ("update_vocabulary",),
    "regard.train.word2vec": ("train_word2vec",),
    "regard.train.glove": ("train_glove",),
    "regard.train.recipe": ("Recipe", "RecipeError", "load_recipe", "list_recipes"),
    "regard.train.run": ("train_recipe",),
    "regard.train.sweep": ("sweep",),
    "regard.train.sweep_compare": ("compare_sweeps",),
    "regard.train.sweep_pictures": ("plot_sweep_curves",),
    "regard.train.errors": ("plot_run_confusion",),
    "regard.train.predict": ("predict_file",),
    "regard.train.convert": ("convert",),
    "regard.train.evaluate": ("evaluate_run",),
    "regard.model_cards.card": ("write_card",),
    "regard.model_cards.check": ("check_folder",),
    "regard.model_cards.publish": ("publish",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_NAMES_AT_HOME = {"train_recipe": "train"}  # here `train` is the subpackage, so the function needs a name of its own

__all__ = ["__version__", *_HOME_OF]

if TYPE_CHECKING:
    from regard.evaluation.attention_pictures import plot_attention
    from regard.evaluation.few_shot.picture import plot_few_shot
    from regard.evaluation.few_shot.result import read_result
    from regard.evaluation.few_shot.run import few_shot
    from regard.evaluation.few_shot.task import list_tasks, load_task
    from regard.evaluation.generation import generate_text, load_run, translate
    from regard.evaluation.light import light, load_layers
    from regard.evaluation.light_pictures import plot_light
    from regard.evaluation.question_answering import answer
    from regard.evaluation.vector_pictures import plot_analogies, plot_one_hot, plot_vectors
    from regard.evaluation.vectors_report import evaluate_vectors, read_sets
    from regard.evaluation.word_neighbours import nearest_neighbours
    from regard.model_cards.card import write_card
    from regard.model_cards.check import check_folder
    from regard.model_cards.publish import publish
    from regard.modeling import (
        DANConfig,
        DANForSequenceClassification,
        GloVeConfig,
        GloVeModel,
        InContextRegressionConfig,
        TransformerConfig,
        TransformerDecoderConfig,
        TransformerDecoderForCausalLM,
        TransformerDecoderForInContextRegression,
        TransformerDecoderForSequenceClassification,
        TransformerDecoderModel,
        TransformerEncoderConfig,
        TransformerEncoderForMaskedLM,
        TransformerEncoderForQuestionAnswering,
        TransformerEncoderForSequenceClassification,
        TransformerEncoderForTokenClassification,
        TransformerEncoderModel,
        TransformerForConditionalGeneration,
        TransformerModel,
        Word2VecConfig,
        Word2VecModel,
        WordVectors,
        load_word_vectors,
    )
    from regard.train.convert import convert
    from regard.train.corpus import number_sentences
    from regard.train.errors import plot_run_confusion
    from regard.train.evaluate import evaluate_run
    from regard.train.glove import train_glove
    from regard.train.induction import plot_run_induction
    from regard.train.predict import predict_file
    from regard.train.recipe import Recipe, RecipeError, list_recipes, load_recipe
    from regard.train.run import train as train_recipe
    from regard.train.run_pictures import plot_run_curves, plot_run_lengths, plot_run_positions
    from regard.train.sweep import sweep
    from regard.train.sweep_compare import compare_sweeps
    from regard.train.sweep_pictures import plot_sweep_curves
    from regard.train.vocabulary import update_vocabulary
    from regard.train.word2vec import train_word2vec


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), _NAMES_AT_HOME.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
