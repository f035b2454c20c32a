"""A determiner agrees with its noun in number, in whether it is counted, and (a, an) with the sound that follows.

The two sentences differ in the determiner alone, or in the noun alone. In half of the pairs the noun is singular (or a
mass, or begins with a consonant) and in half it is not.
"""

from regard.evaluation.minimal_pairs.lexicon import (
    ANIMALS,
    CLAUSAL,
    LANDMARKS,
    MASSES,
    NUMERALS,
    OBJECTS,
    PEOPLE,
    PLACES,
    TEXTS,
    Kind,
    Noun,
    Verb,
    add_s,
    words,
)
from regard.evaluation.minimal_pairs.phrases import (
    Draw,
    Pair,
    Paradigm,
    adjective,
    deed,
    either,
    person,
    setting,
    swap,
)

DEMONSTRATIVES = (("this", "these"), ("that", "those"))
OF_ONE = words("every each another")
OF_SEVERAL = words("many several both few")

# What "a" or "an" stands before: by sound, not by letter ("an honest", "a unique").
# "historian" is left out: some write "an" before an h that begins no stressed syllable.
PLACED = PLACES.nouns + LANDMARKS
SOUNDING = tuple(noun for noun in PEOPLE.nouns if noun.one != "historian")
SEEN = (SOUNDING, ANIMALS.nouns, TEXTS.nouns, OBJECTS.nouns, PLACED)
AFTER_A = (
    (PEOPLE.nouns, words("young rich famous tall strong brave European")),
    (PLACED, words("small large beautiful famous unique new")),
    (OBJECTS.nouns, words("small large beautiful new useful unique")),
)
AFTER_AN = (
    (PEOPLE.nouns, words("old angry important unknown honest English Italian")),
    (PLACED, words("old important ancient unknown empty English Italian")),
    (OBJECTS.nouns, words("old expensive ancient unusual ordinary Italian")),
)


def demonstrative(draw: Draw, plural: bool) -> Pair:
    """The teacher visited _ old castles: these, not this."""
    done, kind, verb = _done(draw, CLAUSAL)
    noun = f"{adjective(draw, kind)}{draw.fresh(kind.nouns).form(plural)}"
    return swap(f"{done} _ {noun}{setting(draw, verb)}", *either(*draw.one(DEMONSTRATIVES), plural))


def demonstrative_noun(draw: Draw, plural: bool) -> Pair:
    """The teacher visited these old _: castles, not castle."""
    done, kind, verb = _done(draw, CLAUSAL)
    return _noun(draw, f"{done} {draw.one(DEMONSTRATIVES)[plural]}", kind, kind.nouns, setting(draw, verb), plural)


def irregular_noun(draw: Draw, plural: bool) -> Pair:
    """The teacher helped these young _: children, not child."""
    subject = person(draw, draw.chance(), [noun for noun in PEOPLE.nouns if _regular(noun)])
    kind = draw.one((PEOPLE, PEOPLE, ANIMALS))
    verb = draw.one(("helped", "followed", "protected", "watched", "saved", "visited"))
    before = f"{subject} {verb} {draw.one(DEMONSTRATIVES)[plural]}"
    return _noun(draw, before, kind, [noun for noun in kind.nouns if not _regular(noun)], setting(draw), plural)


def quantifier(draw: Draw, plural: bool) -> Pair:
    """The teacher visited _ old castles: many, not every."""
    done, kind, verb = _done(draw)
    noun = f"{adjective(draw, kind)}{draw.fresh(kind.nouns).form(plural)}"
    frame = f"{done} _ {noun}{setting(draw, verb)}"
    return swap(frame, *either(draw.one(OF_ONE), draw.one(OF_SEVERAL), plural))


def quantifier_noun(draw: Draw, plural: bool) -> Pair:
    """The teacher visited two old _: castles, not castle."""
    done, kind, verb = _done(draw)
    word = draw.one((*NUMERALS, *OF_SEVERAL) if plural else (*OF_ONE, "one"))
    return _noun(draw, f"{done} {word}", kind, kind.nouns, setting(draw, verb), plural)


def much_many(draw: Draw, counted: bool) -> Pair:
    """How _ gold did the king find? Much, not many."""
    what = draw.one(MASSES)
    if counted:
        kind = draw.one((ANIMALS, OBJECTS))
        what = f"{adjective(draw, kind)}{draw.fresh(kind.nouns).many}"
    who, verb, when = person(draw, draw.chance()), draw.one(words("buy sell find want see bring lose")), setting(draw)
    right = either("much", "many", counted)
    if draw.chance():
        return swap(f"how _ {what} did {who} {verb}{when}", *right, end="?")
    return swap(f"{who} did not {verb} _ {what}{when}", *right)


def article(draw: Draw, vowel: bool) -> Pair:
    """The king saw _ island in the morning: an, not a."""
    nouns = [noun for several in SEEN for noun in several if (noun.one[0] in "aeiou") == vowel]
    return _article(draw, draw.fresh(nouns).one, vowel)


def article_adjective(draw: Draw, vowel: bool) -> Pair:
    """The king saw _ old castle in the morning: an, though a castle."""
    nouns, adjectives = draw.one(AFTER_AN if vowel else AFTER_A)
    return _article(draw, f"{draw.fresh(adjectives)} {draw.fresh(nouns).one}", vowel)


def _done(draw: Draw, without: tuple[str, ...] = ()) -> tuple[str, Kind, Verb]:
    """Who did something, the kind that it was done to, and the verb: ("the teacher visited", PLACES, visit)."""
    subject = person(draw, draw.chance())
    kind, verb = deed(draw, without=without)
    return f"{subject} {verb.past}", kind, verb


def _noun(
    draw: Draw, before: str, kind: Kind, nouns: "tuple[Noun, ...] | list[Noun]", after: str, plural: bool
) -> Pair:
    noun = draw.fresh(nouns)
    return swap(f"{before} {adjective(draw, kind)}_{after}", *either(noun.one, noun.many, plural))


def _regular(noun: Noun) -> bool:
    return noun.many == add_s(noun.one)


def _article(draw: Draw, what: str, vowel: bool) -> Pair:
    saw = draw.one(words("saw found noticed described watched wanted"))
    return swap(f"{person(draw, draw.chance())} {saw} _ {what}{setting(draw)}", *either("a", "an", vowel))


PARADIGMS: dict[str, Paradigm] = {
    "demonstrative": demonstrative,
    "demonstrative-noun": demonstrative_noun,
    "irregular-noun": irregular_noun,
    "quantifier": quantifier,
    "quantifier-noun": quantifier_noun,
    "much-many": much_many,
    "a-an": article,
    "a-an-adjective": article_adjective,
}
