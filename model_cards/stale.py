"""Whether the cards that are kept beside the package still say what its runs recorded, and writing them again.

The card of a recipe `<task>/<name>` is `<task>-<name>.md`, and its run is the folder `<name>`, where `regard train`
puts it. Other folders, such as those of a sweep, are experiments and have no card here.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from regard.model_cards.card import card_files, write_files
from regard.train.recipe import list_recipes
from regard.train.records import METRICS

CARDS = Path(__file__).parent
IMAGES = "images"
NOT_CARDS = ("template.md",)
IMAGE = re.compile(rf"\]\(({IMAGES}/[^)\s]+)\)")


@dataclass(frozen=True)
class CardState:
    """What was found of one card.

    Attributes:
        card: its file.
        run: the folder it was rendered from; None where that is not there, so that the card cannot be checked.
        problem: how it differs from what the run recorded, a sentence; "" if it does not, or cannot be checked.
        written: whether it was written again.
    """

    card: Path
    run: Path | None
    problem: str = ""
    written: bool = False

    @property
    def fails(self) -> bool:
        return bool(self.problem) and not self.written

    def __str__(self) -> str:
        if self.written:
            return f"{self.card.name}: written from {self.run}"
        if self.problem:
            return f"{self.card.name}: {self.problem}"
        return (
            f"{self.card.name}: as {self.run} says"
            if self.run
            else f"{self.card.name}: not checked, no run of it here"
        )


def check_cards(runs: str | Path, cards: str | Path = CARDS, rewrite: bool = False) -> list[CardState]:
    """Renders the card of every recipe of the package that was run, and compares it with the one that is kept.

    Args:
        runs: the folder of the runs.
        cards: the folder of the cards.
        rewrite: write those that differ or are missing.

    Returns:
        The state of each card, in alphabetical order: of all finished runs and of all files in the folder of cards.

    Raises:
        ValueError: no folder of runs, not one finished run of a recipe in it, or a record that cannot be read.
    """
    runs, cards = Path(runs), Path(cards)
    if not runs.is_dir():
        raise ValueError(f"There is no folder '{runs}' with runs in it.")
    recipes = {f"{name.replace('/', '-')}.md": runs / name.rpartition("/")[2] for name in list_recipes()}
    run_of = {card: run for card, run in recipes.items() if (run / METRICS).is_file()}
    if not run_of:
        raise ValueError(f"There is no finished run of a recipe of the package in '{runs}': `regard train` makes one.")
    files = {card: card_files(run, cards / card) for card, run in run_of.items()}
    states = {card: _check(run_of[card], cards / card, files[card], rewrite) for card in run_of}
    for path in cards.glob("*.md"):
        if path.name not in states and path.name not in NOT_CARDS:
            problem = "" if path.name in recipes else "there is no recipe of that name in the package"
            states[path.name] = CardState(path, None, problem)
    shown = {path for several in files.values() for path in several}
    unused = [path for path in _unlinked_images(cards) if path not in shown]
    lost = [CardState(path, None, "no card shows this picture") for path in unused]
    return [*(states[name] for name in sorted(states)), *lost]


def _check(run: Path, card: Path, files: dict[Path, bytes], rewrite: bool) -> CardState:
    problem = next(filter(None, (_difference(path, content) for path, content in files.items())), "")
    if problem and rewrite:
        write_files(files)
    return CardState(card, run, problem, written=bool(problem) and rewrite)


def _difference(path: Path, content: bytes) -> str:
    """How a file differs from what it should hold, "" if it does not."""
    if not path.is_file():
        return "there is no card yet" if path.suffix == ".md" else f"the picture {path.name} is missing"
    kept = path.read_bytes()
    if kept == content:
        return ""
    if path.suffix != ".md":
        return f"the picture {path.name} is another one now"
    old, new = (text.decode(errors="replace").splitlines() for text in (kept, content))
    row = next(
        (i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new))
    )
    said = [repr(lines[row]) if row < len(lines) else "nothing" for lines in (old, new)]
    return f"stale from line {row + 1}, which says {said[0]} and should say {said[1]}"


def _unlinked_images(cards: Path) -> list[Path]:
    used = {name for path in cards.glob("*.md") for name in IMAGE.findall(path.read_text(encoding="utf-8"))}
    return [path for path in sorted((cards / IMAGES).glob("*")) if f"{IMAGES}/{path.name}" not in used]
