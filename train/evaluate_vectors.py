"""What word vectors are worth: a run's on the test sets of its recipe, those of any file on sets that are given."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.evaluation.vectors_report import WordSets, check_settings, evaluate_vectors, read_sets
from regard.evaluation.word_table import Vectors, check_place, vectors_at
from regard.train.recipe import RUN_RECIPE, load_recipe
from regard.train.records import METRICS, read_json, write_json
from regard.train.sections import WORD_SETS, EvaluationSection

SETTINGS = ("fold_case", "analogy_method", "analogy_vocabulary")


def sets_of(evaluation: EvaluationSection) -> WordSets:
    """The test sets that a recipe names, read from their files.

    Raises:
        ValueError: a file that is not there or is no such set.
    """
    return read_sets(**{kind: getattr(evaluation, kind) for kind in WORD_SETS})


def evaluate_by_recipe(vectors: Vectors, evaluation: EvaluationSection) -> dict[str, dict[str, Any]]:
    """The measures of each test set that a recipe names; none where it names none."""
    sets = sets_of(evaluation)
    return evaluate_vectors(vectors, sets, **{name: getattr(evaluation, name) for name in SETTINGS}) if sets else {}


def evaluate_vectors_at(
    path: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    similarity: Mapping[str, str] | None = None,
    analogies: Mapping[str, str] | None = None,
    categories: Mapping[str, str] | None = None,
    predictions: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> dict[str, dict[str, Any]]:
    """Measures the word vectors of a run, a model's folder or a file.

    Args:
        path: a run, a folder with a model of word vectors, or a file in any format that `load_word_vectors` reads.
        overrides: of a run's recipe, `key=value` pairs such as `evaluation.similarity.mine=my.tsv`, which adds a set
            to the recipe's.
        similarity, analogies, categories: files of test sets by name; without any, those of the run's recipe.
        predictions: a .jsonl file for each pair, question and word.
        settings: what differs from the recipe's: `fold_case`, `analogy_method`, `analogy_vocabulary`.

    Returns:
        The measures of each set. Where a run was measured by its recipe alone, its `metrics.json` is brought up to
        date.

    Raises:
        ValueError: no vectors, no test set, one that cannot be read, sets that are named both ways, or a setting that
            cannot be; before the vectors are read.
    """
    if unknown := [name for name in settings if name not in SETTINGS]:
        raise ValueError(f"There is no setting '{unknown[0]}' of word vectors: there are {', '.join(SETTINGS)}.")
    check_place(path)
    given = {"similarity": similarity or {}, "analogies": analogies or {}, "categories": categories or {}}
    is_run = (Path(path) / RUN_RECIPE).is_file()
    if overrides and not is_run:
        raise ValueError(
            f"'{path}' has no recipe to change by '{overrides[0]}': give the sets by --similarity and so on."
        )
    _check_overrides(overrides, next((kind for kind, files in given.items() if files), None))
    counted: dict[str, Any] = {}
    if is_run:
        evaluation = load_recipe(path, overrides).evaluation
        counted = {name: getattr(evaluation, name) for name in SETTINGS}
    counted |= settings
    check_settings(counted.get("analogy_method", "add"), counted.get("analogy_vocabulary"), predictions)
    sets = sets_of(evaluation) if is_run and not any(given.values()) else read_sets(**given)
    if not sets:
        raise ValueError(
            f"There is nothing to measure '{path}' on: give files by --similarity, --analogies or --categories"
            + (", or name them in the recipe's evaluation section." if is_run else ".")
        )
    results = evaluate_vectors(vectors_at(path), sets, predictions=predictions, **counted)
    records = Path(path) / METRICS
    if is_run and not overrides and not settings and not any(given.values()) and records.is_file():
        write_json(records, read_json(records) | {"evaluation": results})
    return results


def _check_overrides(overrides: Sequence[str], given: str | None) -> None:
    """Refuses overrides that would change nothing: of other keys, and of the recipe's sets beside a kind of them that
    is `given`, which is measured alone."""
    for text in overrides:
        section, _, key = text.partition("=")[0].strip().partition(".")
        kind = key.partition(".")[0]
        if section != "evaluation" or kind not in (*WORD_SETS, *SETTINGS):
            raise ValueError(f"'{text}' is no test set of word vectors, such as evaluation.similarity.mine=my.tsv.")
        if given is not None and kind in WORD_SETS:
            raise ValueError(
                f"'{text}' adds to the recipe's test sets, and --{given} takes their place: name all of them one way."
            )
