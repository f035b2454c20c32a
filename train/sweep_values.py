"""What a sweep goes through: values and seeds, as the command line has them, checked and combined."""

import itertools
import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from regard.evaluation.yaml_io import read_yaml
from regard.train.sections import RecipeError

SEED = "training.seed"
EXAMPLES = "data.max_train_examples"
LARGEST_SEED = 2**32 - 1


def parse_values(texts: Sequence[str]) -> dict[str, list[Any]]:
    """`KEY=V1,V2` as `{"KEY": [V1, V2]}`, each value read as in a recipe: `[bleu],[bleu, chrf]` are two lists.

    Raises:
        RecipeError: a text of another form, or a key that is given twice.
    """
    found: dict[str, list[Any]] = {}
    for text in texts:
        key, equals, several = text.partition("=")
        key = key.strip()
        if not equals or not key:
            raise RecipeError(f"--values: '{text}' is not of the form KEY=V1,V2, such as model.dropout=0.1,0.3.")
        if key in found:
            raise RecipeError(f"--values: {key} is given twice: give all its values at once, as {key}=V1,V2.")
        try:
            found[key] = read_yaml(f"[{several}]")
        except ValueError as error:
            raise RecipeError(f"--values: '{text}' is not values between commas: {error}.") from error
    return found


def parse_seeds(text: str | None) -> int | list[int]:
    """`3` as how many seeds, `1,2,3` as the seeds themselves, `7,` as one alone.

    Raises:
        RecipeError: what is no whole number.
    """
    parts = [part.strip() for part in text.split(",")] if text is not None else []
    alone = len(parts) == 2 and parts[1] == ""
    parts = parts[:1] if alone else parts
    for part in parts:
        if not re.fullmatch(r"[0-9]+", part):
            raise RecipeError(
                f"--seeds: '{part}' is no whole number of at least 0; seeds are given as '1,2,3', one alone "
                "as '7,', or as '3', how many."
            )
    numbers = [int(part) for part in parts]
    return numbers[0] if len(numbers) == 1 and not alone else numbers


def check_values(values: Mapping[str, list[Any]], overrides: Sequence[str], seeds: int | Sequence[int]) -> None:
    """Refuses, as a RecipeError, what is no sweep or says a thing twice."""
    if isinstance(seeds, int) and seeds < 1:
        raise RecipeError(f"--seeds: {seeds} seeds are less than one.")
    several = seeds > 1 if isinstance(seeds, int) else len(seeds) > 1
    if not values and not several:
        raise RecipeError(
            "A sweep needs values to go through, or several seeds: give --values KEY=V1,V2, such as "
            "model.dropout=0.1,0.3, or --seeds 3."
        )
    given = {text.partition("=")[0].strip() for text in overrides}
    for key, choices in values.items():
        if not choices:
            raise RecipeError(f"--values: {key} has no values: give them as {key}=V1,V2.")
        texts = [as_json(value) for value in choices]
        if twice := next((text for i, text in enumerate(texts) if text in texts[:i]), None):
            raise RecipeError(f"--values: {key} has the value {twice} twice.")
        if key in ("name", "task"):
            raise RecipeError(f"--values: {key} is one for the whole sweep.")
        if key == SEED:
            raise RecipeError("--values: training.seed is given by --seeds, such as --seeds 1,2,3.")
        if key == "data.test" or key.startswith("data.test."):
            raise RecipeError(f"--values: {key} is not read in a sweep, which is judged on data.validation alone.")
        for other in [*given, *(name for name in values if name != key)]:
            if key == other:
                raise RecipeError(f"{key} is both set and swept: leave out one.")
            if key.startswith(f"{other}.") or other.startswith(f"{key}."):
                raise RecipeError(f"--values: {key} and {other} set the same thing: leave out one.")
    if SEED in given and not isinstance(seeds, int) and seeds:
        raise RecipeError("training.seed and a list of --seeds say the same thing: leave out one.")


def check_test(values: Mapping[str, list[Any]]) -> None:
    """Refuses test figures beside anything that is being chosen, as a RecipeError."""
    if chosen := [key for key in values if key != EXAMPLES]:
        raise RecipeError(
            f"--test: {chosen[0]} varies, and who looks at a test set while choosing it reports too good a figure: "
            f"choose on the validation split, and then sweep seeds (and {EXAMPLES}) alone with --test."
        )


def checked_seeds(seeds: int | Sequence[int], own: int) -> list[int]:
    """The seeds: as they are given, or so many from the recipe's own on.

    Raises:
        RecipeError: no whole number, one twice, or none.
    """
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        seeds = range(own, own + seeds)
    for i, seed in enumerate(seeds):
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= LARGEST_SEED:
            raise RecipeError(f"--seeds: {seed!r} is no whole number from 0 to {LARGEST_SEED}.")
        if seed in seeds[:i]:
            raise RecipeError(f"--seeds: {seed} is given twice.")
    return list(seeds) or [own]


def grid_of(values: Mapping[str, list[Any]], trials: int | None, seed: int) -> list[dict[str, Any]]:
    """All combinations, or some of them, in the order in which the values are given. Without values, the recipe as it
    is."""
    whole = [dict(zip(values, choice, strict=True)) for choice in itertools.product(*values.values())]
    if trials is None or trials >= len(whole):
        return whole
    return [whole[i] for i in sorted(random.Random(seed).sample(range(len(whole)), trials))]


def one_by_one(values: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Nothing changed, and then each value by itself."""
    return [{}, *({key: value} for key, several in values.items() for value in several)]


def as_json(value: Any) -> str:
    """What values are told apart by: 1, 1.0 and true are equal in Python, and three values of a recipe."""
    return json.dumps(value, sort_keys=True)


def shown(value: Any) -> str:
    """A value as a reader wants it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
