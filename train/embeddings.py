"""The recipe's `model.embeddings`: a model's token embeddings begin from word vectors that are there already."""

from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.train.sections import Recipe, RecipeError

SHOWN = 20  # of the tokens without a vector, in the record


def read_embeddings(recipe: Recipe) -> Any | None:
    """The word vectors that a recipe names: any file that `regard.load_word_vectors` reads, or the folder of a run.

    Raises:
        RecipeError: there is nothing, it holds no vectors, or they are of another width than the model.
    """
    name = recipe.model.get("embeddings")
    if name is None:
        return None
    from regard.modeling import load_word_vectors
    from regard.train.building import model_config

    path = Path(name).expanduser()
    if not path.exists():
        raise RecipeError(f"model.embeddings: there is no file or folder '{name}'.")
    try:
        vectors = load_word_vectors(path)
    except (OSError, ValueError) as error:
        raise RecipeError(f"model.embeddings: {' '.join(str(error).split())}") from error
    width = model_config(recipe).hidden_size
    if vectors.vectors.shape[1] != width:
        raise RecipeError(
            f"model.embeddings: the vectors of '{name}' have {vectors.vectors.shape[1]} numbers, and "
            f"model.hidden_size is {width}: make them the same."
        )
    return vectors


def start_from_embeddings(
    recipe: Recipe, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, vectors: Any
) -> dict[str, Any]:
    """Writes the vectors into the model, and returns what is known of it for the run's record.

    In a vocabulary of whole words each token is looked up, first as it is, then in lower case; in one of subwords
    those tokens alone that can be a whole word, since parts of words have no vector. The others are drawn like those
    that were found, special tokens keep their first values.

    Raises:
        RecipeError: when not one token has a vector.
    """
    seed = recipe.training.get("seed", 42)
    try:
        found, missing = model.load_word_vectors(vectors, tokenizer, seed=seed, lowercase=True)
    except ValueError as error:
        raise RecipeError(f"model.embeddings: '{recipe.model['embeddings']}' does not fit: {error}") from error
    return {
        "source": recipe.model["embeddings"],
        "words": len(vectors),
        "found": len(found),
        "missing": len(missing),
        "missing_examples": missing[:SHOWN],
        "frozen": bool(recipe.model.get("freeze_embeddings", False)),
    }


def describe_start(record: dict[str, Any]) -> str:
    """One sentence about a record of `start_from_embeddings`."""
    tokens = record["found"] + record["missing"]
    examples = ", ".join(record["missing_examples"][:5])
    return (
        f"{record['found']:,} of the {tokens:,} tokens ({record['found'] / tokens:.0%}) begin from the vectors of "
        f"{record['source']}, which {'stay as they are' if record['frozen'] else 'are trained further'}"
        + (f"; the others, such as {examples}, are drawn at random like them" if examples else "")
    )
