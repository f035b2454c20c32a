"""The ends of sentences about a name that is not known."""

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], prefix: str = "", otherwise: str | None = None) -> str:
    """The end of a sentence about an unknown name: the nearest one, else `otherwise`, else all if they are few."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f": did you mean '{prefix}{near[0]}'?"
    if otherwise is None and 0 < len(known) <= 12:
        otherwise = f"it is {either(known)}"
    return f": {otherwise}." if otherwise else "."


def either(names: Iterable[str], quote: bool = True) -> str:
    """The names with `or` before the last."""
    names = [f"'{name}'" if quote else str(name) for name in names]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
