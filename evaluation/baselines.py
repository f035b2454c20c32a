"""Summaries that take no model: a system that does not beat them has learnt nothing about its documents."""

import regex

# A full stop after one of these ends no sentence: a single letter, "U.S", or up to four letters with a capital, as
# "Mr", "Corp" and "Dec" are. So a sentence that ends with such a name goes on into the next.
_SHORT = r"(?:\p{L}|\p{Lu}\p{L}{1,3}|\p{L}+(?:\.\p{L}+)+)"
_WITHIN = regex.compile(rf"(?:^|(?<=[^\p{{L}}.])){_SHORT}\.(?=\s)")
_END = regex.compile(r"[.!?…]+[\"'”’)\]]*(?=\s+[\p{Lu}\p{N}\"'“‘(\[])")


def first_words(document: str, number: int) -> str:
    """The first words of a document, as white space parts them."""
    return " ".join(document.split()[:number])


def first_sentence(document: str) -> str:
    """A document up to the end of its first sentence, on one line; all of it where no sentence ends.

    A sentence ends with `.`, `!`, `?` or `…`, before white space and what can begin another: a capital, a digit, a
    quotation mark or a bracket.
    """
    text = " ".join(document.split())
    within = {match.end() for match in _WITHIN.finditer(text)}
    ends = (match for match in _END.finditer(text) if match.start() + 1 not in within)
    end = next(ends, None)
    return text if end is None else text[: end.end()]
