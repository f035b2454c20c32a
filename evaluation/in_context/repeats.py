"""Texts whose second half repeats the first: random letters, which only a look back can foretell."""

from regard.evaluation.in_context.base import LETTERS
from regard.evaluation.in_context.rules import chance_of

ROWS = {"train": 60_000, "validation": 500, "test": 500}
SHORTEST, LONGEST = 10, 30  # letters before they come again


def make_repeats(split: str) -> list[dict[str, str]]:
    """The texts of "train", "validation" or "test", as rows with one column, `text`; the same ones each time."""
    chance = chance_of("repeats", split)
    return [
        {"text": 2 * "".join(chance.choices(LETTERS, k=chance.randint(SHORTEST, LONGEST)))} for _ in range(ROWS[split])
    ]
