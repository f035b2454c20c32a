"""The recipe's `model.start_from`: vectors that are there already are trained on with another text and its new words.

Words of the model keep their rows and begin from their vectors. Words of the new text that it lacks get rows after
them, if they occur `min_count` times there. What is counted is added up.
"""

import json
from pathlib import Path
from typing import Any

import regard.modeling
from regard.train.recipe import RUN_RECIPE, load_recipe
from regard.train.sections import CONFIG_CLASSES, Recipe, RecipeError
from regard.train.vocabulary import Vocabulary

MODEL_CLASSES = {"word2vec": "Word2VecModel", "glove": "GloVeModel"}
FIXED = ("hidden_size", "architecture", "objective")  # what is settled with the first vectors
OTHER_KEYS = ("type", "start_from")  # of the section `model`, which are no fields of the config


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """The fields of the model's config that the recipe gives."""
    return {key: value for key, value in recipe.model.items() if key not in OTHER_KEYS}


def read_start(recipe: Recipe) -> Any | None:
    """The model that the recipe trains on.

    Raises:
        RecipeError: there is nothing, it is no such model, or it does not fit the recipe.
    """
    name = recipe.model.get("start_from")
    if name is None:
        return None
    path = Path(name).expanduser()
    if not (path / "config.json").is_file():
        raise RecipeError(f"model.start_from: '{name}' is no folder with a model, such as a run of word vectors.")
    model_class = getattr(regard.modeling, MODEL_CLASSES[recipe.model["type"]])
    try:
        found = json.loads((path / "config.json").read_text(encoding="utf-8")).get("model_type")
        if found != model_class.config_class.model_type:
            raise RecipeError(
                f"model.start_from: '{name}' is a model of type {found!r}, not '{recipe.model['type']}'."
            )
        model = model_class.from_pretrained(path, use_safetensors=True)
        model.index_to_key  # noqa: B018  (refuses one without words)
    except (OSError, ValueError) as error:
        if isinstance(error, RecipeError):
            raise
        raise RecipeError(f"model.start_from: '{name}' cannot be read: {' '.join(str(error).split())}") from error
    _check_fit(recipe, name, path, model)
    return model


def _check_fit(recipe: Recipe, name: str, path: Path, model: Any) -> None:
    plain = getattr(regard.modeling, CONFIG_CLASSES[recipe.model["type"]])()
    for key in FIXED:
        wanted = recipe.model.get(key, getattr(plain, key, None))
        if (has := getattr(model.config, key, None)) != wanted:
            raise RecipeError(f"model.{key}: {wanted!r} differs from {has!r}, which the vectors of '{name}' have.")
    if not (path / RUN_RECIPE).is_file():
        return
    before = load_recipe(path).tokenizer
    for key in ("pattern", "lowercase"):
        now, was = getattr(recipe.tokenizer, key), getattr(before, key)
        if now != was:
            raise RecipeError(
                f"tokenizer.{key}: {now!r} differs from {was!r}, with which the words of '{name}' were made."
            )


def start_on(recipe: Recipe, model: Any, vocabulary: Vocabulary) -> Any:
    """The model with rows for all words of the vocabulary, which begins with its own, and the recipe's settings."""
    for key, value in settings_of(recipe).items():
        setattr(model.config, key, value)
    model.extend_vocabulary(vocabulary.words, vocabulary.counts)
    return model
