"""The two sentences have the same words, and two neighbours (words or phrases) have changed places in the wrong one.

So no count of words or tokens tells them apart.
"""

from regard.evaluation.minimal_pairs.lexicon import (
    ANIMALS,
    FREQUENCIES,
    MOMENTS,
    NUMERALS,
    OBJECTS,
    PEOPLE,
    PLACES,
    STAYING,
    TEXTS,
)
from regard.evaluation.minimal_pairs.phrases import (
    Draw,
    Pair,
    Paradigm,
    deed,
    person,
    place,
    setting,
    swap,
    thing_done,
)

# They show their case, so that "she the castle visited" is no noun with a relative clause, as "the king the queen
# visited" is.
PRONOUNS = ("I", "he", "she", "we", "they")


def _exchange(before: str, first: str, second: str, after: str = "", end: str = ".") -> Pair:
    """`before first second after` is right, `before second first after` wrong."""
    return swap(" ".join(part for part in (before, "_", after) if part), f"{first} {second}", f"{second} {first}", end)


def adjective_noun(draw: Draw, _: bool) -> Pair:
    """The king lived in the [old] [castle]. Not an object's: that the king found empty or left young."""
    if draw.chance():
        before = f"{person(draw, draw.chance())} {draw.one(STAYING)} {draw.one(('in', 'near'))} the"
        return _exchange(before, draw.fresh(PLACES.attributes), draw.fresh(PLACES.nouns).one, draw.one(("", *MOMENTS)))
    verb, what = thing_done(draw)
    noun = draw.fresh(PEOPLE.nouns).form(draw.chance())
    return _exchange("the", draw.fresh(PEOPLE.attributes), noun, f"{verb.past} {what}{setting(draw, verb)}")


def determiner_noun(draw: Draw, _: bool) -> Pair:
    """The king visited [the] [castle]."""
    subject = person(draw, draw.chance())
    kind, verb = deed(draw)
    what = draw.fresh(kind.nouns).form(draw.chance())
    return _exchange(f"{subject} {verb.past}", "the", what, setting(draw, verb).strip())


def verb_object(draw: Draw, _: bool) -> Pair:
    """She [visited] [the old castle]."""
    subject = draw.one(PRONOUNS)
    often = f" {draw.one(FREQUENCIES)}" if draw.chance() else ""
    verb, what = thing_done(draw)
    return _exchange(f"{subject}{often}", verb.past, what, setting(draw, verb).strip())


def subject_verb(draw: Draw, _: bool) -> Pair:
    """Did [the king] [visit] the castle?"""
    auxiliary = draw.one(("did", "will", "can", "must", "should"))
    subject = person(draw, draw.chance())
    verb, what = thing_done(draw)
    return _exchange(auxiliary, subject, verb.base, what, end="?")


def question(draw: Draw, _: bool) -> Pair:
    """Why [did] [the king] visit the castle?"""
    auxiliary = draw.one(("did", "will", "can", "must", "should"))
    subject = person(draw, draw.chance())
    verb, what = thing_done(draw)
    return _exchange(draw.one(("why", "when")), auxiliary, subject, f"{verb.base} {what}", end="?")


def adverb(draw: Draw, _: bool) -> Pair:
    """The king [often] [visited] the castle."""
    subject = person(draw, draw.chance())
    verb, what = thing_done(draw)
    return _exchange(subject, draw.one(FREQUENCIES), verb.past, what)


def negation(draw: Draw, _: bool) -> Pair:
    """The king [did] [not] visit the castle."""
    subject = person(draw, draw.chance())
    verb, what = thing_done(draw)
    auxiliary = draw.one(("did", "will", "could", "must", "should"))
    after = setting(draw, verb, past=auxiliary == "did")
    return _exchange(subject, auxiliary, "not", f"{verb.base} {what}{after}")


def auxiliaries(draw: Draw, _: bool) -> Pair:
    """The king [must] [have] visited the castle."""
    subject = person(draw, draw.chance())
    verb, what = thing_done(draw)
    modal = draw.one(("must", "could", "may", "should", "would"))
    return _exchange(subject, modal, "have", f"{verb.participle} {what}{setting(draw, verb)}")


def preposition(draw: Draw, _: bool) -> Pair:
    """The king slept [in] [the castle]."""
    subject = person(draw, draw.chance())
    where, _, what = place(draw).partition(" ")
    # Nothing with a preposition of its own kind after it: "the castle in in the morning" is wrong twice.
    when = draw.one(("", *(moment for moment in MOMENTS if not moment.startswith(("in ", "on ")))))
    return _exchange(f"{subject} {draw.one(STAYING)}", where, what, when)


def possessor(draw: Draw, _: bool) -> Pair:
    """The queen sold [the] [king's] horse."""
    subject = person(draw, draw.chance())
    kind, verb = deed(draw, (ANIMALS, TEXTS, OBJECTS))
    owners = [noun for noun in PEOPLE.nouns if not noun.one.endswith("s")]
    owner, owned = draw.fresh(owners).one, draw.fresh(kind.nouns).form(draw.chance())
    return _exchange(f"{subject} {verb.past}", "the", f"{owner}'s", f"{owned}{setting(draw, verb)}")


def numeral(draw: Draw, _: bool) -> Pair:
    """There were [two] [old] castles near the river."""
    if draw.chance():
        kind, before, after = PLACES, "there were", place(draw, inside=False)
    else:
        subject = person(draw, draw.chance())
        kind, verb = deed(draw)
        before, after = f"{subject} {verb.past}", setting(draw, verb).strip()
    noun = draw.fresh(kind.nouns).many
    return _exchange(before, draw.one(NUMERALS), draw.fresh(kind.attributes), f"{noun} {after}".strip())


PARADIGMS: dict[str, Paradigm] = {
    "adjective-noun": adjective_noun,
    "determiner-noun": determiner_noun,
    "verb-object": verb_object,
    "subject-verb": subject_verb,
    "question": question,
    "adverb": adverb,
    "negation": negation,
    "auxiliaries": auxiliaries,
    "preposition": preposition,
    "possessor": possessor,
    "numeral": numeral,
}
