"""A verb agrees with its subject, also across what stands between them. The two sentences differ in the verb alone.

In half of the pairs the subject is singular and in half plural, so that neither form of the verb is the likelier one
by itself, and the -s of one of them is right as often as it is wrong.
"""

from regard.evaluation.minimal_pairs.lexicon import (
    ANIMALS,
    FREQUENCIES,
    KIN,
    NUMERALS,
    OBJECTS,
    PEOPLE,
    PLACES,
    TEXTS,
    Kind,
    Verb,
)
from regard.evaluation.minimal_pairs.phrases import (
    Draw,
    Pair,
    Paradigm,
    deed,
    either,
    noun_of,
    person,
    place,
    swap,
    thing_done,
)

KINDS = (PEOPLE, ANIMALS, TEXTS, OBJECTS, PLACES)
# Of whom others are: "the leader of the soldiers".
HEADS = KIN + tuple(noun for noun in PEOPLE.nouns if noun.one in ("teacher", "doctor", "leader", "servant", "captain"))


def be(draw: Draw, plural: bool) -> Pair:
    """The old castles _ empty."""
    kind, subject = _subject(draw, plural)
    return swap(f"{subject} _ {_state(draw, kind)}", *_be(draw, plural))


def verb(draw: Draw, plural: bool) -> Pair:
    """The teacher often _ the museum."""
    subject = person(draw, plural)
    verb, what = thing_done(draw)
    often = f"{draw.one(FREQUENCIES)} " if draw.chance() else ""
    return swap(f"{subject} {often}_ {what}", *_present(verb, plural))


def have(draw: Draw, plural: bool) -> Pair:
    """The teacher _ already visited the museum."""
    subject = person(draw, plural)
    verb, what = thing_done(draw)
    when = draw.one(("", "often ", "never ", "always ", "already ", "not "))
    return swap(f"{subject} _ {when}{verb.participle} {what}", *either("has", "have", plural))


def pronoun(draw: Draw, plural: bool) -> Pair:
    """She _ tired in the old city. "I" goes with "have" and "you" with "are", as plurals do."""
    tense = draw.one(("present", "past", "perfect"))
    if tense == "perfect":
        subject = draw.one(("I", "we", "you", "they") if plural else ("he", "she"))
        often = draw.one(("", "often ", "never ", "always "))
        frame = f"{subject} _ {often}been {draw.fresh(PEOPLE.predicates)} {_inside(draw)}"
        return swap(frame, *either("has", "have", plural))
    subject = draw.one(("we", "you", "they") if plural else ("I", "he", "she"))
    one, many = ("was", "were") if tense == "past" else ("am" if subject == "I" else "is", "are")
    return swap(f"{subject} _ {_state(draw, PEOPLE)} {_inside(draw)}", *either(one, many, plural))


def question(draw: Draw, plural: bool) -> Pair:
    """_ the teacher know the story?"""
    if draw.chance(0.3):
        kind, subject = _subject(draw, plural)
        return swap(f"_ {subject} {draw.fresh(kind.predicates)}", *_be(draw, plural), end="?")
    subject = person(draw, plural)
    verb, what = thing_done(draw)
    frame = f"{draw.one(('', '', 'why ', 'when '))}_ {subject} {verb.base} {what}"
    return swap(frame, *either("does", "do", plural), end="?")


def there(draw: Draw, plural: bool) -> Pair:
    """There _ two old castles near the river."""
    kind = draw.one(KINDS)
    several = draw.one((*NUMERALS, "many", "several", "some"))
    one = draw.one(("one", "another", "only one"))
    what = noun_of(draw, kind, plural, f"{several} " if plural else f"{one} ")
    return swap(f"there _ {what} {place(draw, inside=kind is not PLACES)}", *_be(draw, plural))


def attractor(draw: Draw, plural: bool) -> Pair:
    """The keys near the box _ old: a noun of the other number stands beside the verb."""
    if draw.chance():
        kind, subject = PEOPLE, f"the {draw.fresh(HEADS).form(plural)} of {person(draw, not plural, kin=())}"
    else:
        kind = draw.one((PEOPLE, ANIMALS, OBJECTS))
        near, beside = draw.one(((PLACES, ("near",)), (PEOPLE, ("near", "behind", "beside"))))
        subject = f"{noun_of(draw, kind, plural)} {draw.one(beside)} {noun_of(draw, near, not plural)}"
    return swap(f"{subject} _ {_state(draw, kind)}", *_be(draw, plural))


def after_subject_relative(draw: Draw, plural: bool) -> Pair:
    """The teacher who helped the students _ tired: the past tense inside tells no number."""
    subject = person(draw, plural, kin=())
    kind, verb = deed(draw)
    what = noun_of(draw, kind, not plural)
    return swap(f"{subject} who {verb.past} {what} _ {_state(draw, PEOPLE)}", *_be(draw, plural))


def after_object_relative(draw: Draw, plural: bool) -> Pair:
    """The castle that the kings visited _ old."""
    kind, verb = deed(draw)
    what = noun_of(draw, kind, plural)
    who = person(draw, not plural)
    return swap(f"{what} that {who} {verb.past} _ {_state(draw, kind)}", *_be(draw, plural))


def in_subject_relative(draw: Draw, plural: bool) -> Pair:
    """The teacher who _ the students must be tired: no other verb tells the number."""
    subject = person(draw, plural, kin=())
    verb, what = thing_done(draw)
    modal = draw.one(("must", "could", "may"))
    frame = f"{subject} who _ {what} {modal} be {draw.fresh(PEOPLE.predicates)}"
    return swap(frame, *_present(verb, plural))


def in_object_relative(draw: Draw, plural: bool) -> Pair:
    """The castle that the kings _ is old: the verb inside goes with the kings."""
    kind, verb = deed(draw)
    what = noun_of(draw, kind, not plural)
    who = person(draw, plural)
    rest = f"{'is' if plural else 'are'} {draw.fresh(kind.predicates)}"
    return swap(f"{what} that {who} _ {rest}", *_present(verb, plural))


def _subject(draw: Draw, plural: bool) -> tuple[Kind, str]:
    kind = draw.one(KINDS)
    return kind, person(draw, plural) if kind is PEOPLE else noun_of(draw, kind, plural)


def _state(draw: Draw, kind: Kind) -> str:
    return f"{draw.one(('', '', 'not ', 'still ', 'also '))}{draw.fresh(kind.predicates)}"


def _inside(draw: Draw) -> str:
    return noun_of(draw, PLACES, False, "in the ")


def _be(draw: Draw, plural: bool) -> Pair:
    return either(*draw.one((("is", "are"), ("was", "were"))), plural)


def _present(verb: Verb, plural: bool) -> Pair:
    return either(verb.present(False), verb.present(True), plural)


PARADIGMS: dict[str, Paradigm] = {
    "be": be,
    "verb": verb,
    "have": have,
    "pronoun": pronoun,
    "question": question,
    "there": there,
    "attractor": attractor,
    "after-subject-relative": after_subject_relative,
    "after-object-relative": after_object_relative,
    "in-subject-relative": in_subject_relative,
    "in-object-relative": in_object_relative,
}
