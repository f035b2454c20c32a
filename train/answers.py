"""Right answers to a question as data sets state them, and whether they stand where they are said to."""

from typing import Any

SHOWN = 40  # characters of a context that an error shows


def right_answers(context: str, answer: Any, start: Any, place: str) -> tuple[list[str], list[int]]:
    """The right answers of a question, and where each begins in its context; none for one without an answer.

    Args:
        context: the text that holds them.
        answer: a text, or a list of texts (as SQuAD has them on the Hub, under `answers.text`); None, an empty text
            and an empty list stand for none.
        start: the character, from 0 on, at which the answer begins, or a list of as many.
        place: the row, for an error.

    Raises:
        ValueError: other kinds of values, not as many of the one as of the other, or another text at that place.
    """
    texts = [] if answer in (None, "") else [answer] if isinstance(answer, str) else answer
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{place}: an answer is a text or a list of texts, and not {answer!r:.60}.")
    if not texts:
        return [], []
    starts = start if isinstance(start, list) else [start]
    numbers = [int(one) if isinstance(one, str) and one.strip().isdecimal() else one for one in starts]
    if any(not isinstance(number, int) or isinstance(number, bool) for number in numbers):
        raise ValueError(f"{place}: where an answer begins is a whole number for each, and not {start!r:.60}.")
    if len(texts) != len(numbers):
        raise ValueError(f"{place}: there are {len(texts)} answers and {len(numbers)} places where they begin.")
    for text, number in zip(texts, numbers, strict=True):
        if not text.strip():
            raise ValueError(f"{place}: an answer is blank: leave the text, or the list, empty where there is none.")
        there = context[number : number + len(text)] if number >= 0 else ""
        if there != text:
            raise ValueError(_elsewhere(context, text, number, there, place))
    return texts, numbers


def _elsewhere(context: str, text: str, number: int, there: str, place: str) -> str:
    stands = f"where '{there[:SHOWN]}' stands" if there else f"and the context has {len(context)} characters"
    sentence = f"{place}: the answer '{text[:SHOWN]}' is said to begin at character {number} of the context, {stands}"
    found = min((i for i in _places(context, text)), key=lambda i: abs(i - number), default=None)
    return f"{sentence}; it is not in the context." if found is None else f"{sentence}; it begins at {found}."


def _places(context: str, text: str) -> list[int]:
    places, found = [], context.find(text)
    while found >= 0:
        places.append(found)
        found = context.find(text, found + 1)
    return places
