"""A reflexive agrees with the subject of its own clause. The two sentences differ in the reflexive alone.

Subjects have a gender that the word tells, since "the teacher hurt themselves" is said of one person too. In half of
the pairs the subject is the one gender or number and in half the other.
"""

from regard.evaluation.minimal_pairs.lexicon import (
    KIN_MEN,
    KIN_WOMEN,
    MEN,
    REFLEXIVE,
    WOMEN,
    words,
)
from regard.evaluation.minimal_pairs.phrases import Draw, Pair, Paradigm, either, person, setting, swap

SELF = {"he": "himself", "she": "herself", "they": "themselves"}
# Pairs of subjects that neither can stand for the other ("we" has "I" in it), with their reflexives.
PERSONS = (
    (("I", "myself"), ("you", "yourself")),
    (("I", "myself"), ("he", "himself")),
    (("I", "myself"), ("she", "herself")),
    (("I", "myself"), ("they", "themselves")),
    (("we", "ourselves"), ("he", "himself")),
    (("we", "ourselves"), ("she", "herself")),
    (("we", "ourselves"), ("they", "themselves")),
    (("you", "yourself"), ("he", "himself")),
    (("you", "yourself"), ("they", "themselves")),
    (("he", "himself"), ("she", "herself")),
)
INSIDE = words("followed loved trusted knew visited respected feared remembered helped")
SAYING = words("said knew thought believed hoped heard")


def _one(draw: Draw, woman: bool, plural: bool = False, kin: bool = True) -> str:
    nouns, relatives = (WOMEN, KIN_WOMEN) if woman else (MEN, KIN_MEN)
    return person(draw, plural, nouns, relatives if kin else ())


def _gender(woman: bool) -> Pair:
    return either("himself", "herself", woman)


def number(draw: Draw, plural: bool) -> Pair:
    """The kings defended _ during the war."""
    woman = draw.chance()
    subject = _one(draw, woman, plural)
    right, wrong = either(SELF["she" if woman else "he"], SELF["they"], plural)
    return swap(f"{subject} {draw.one(REFLEXIVE).past} _{setting(draw)}", right, wrong)


def gender(draw: Draw, woman: bool) -> Pair:
    """The queen defended _ during the war."""
    return swap(f"{_one(draw, woman)} {draw.one(REFLEXIVE).past} _{setting(draw)}", *_gender(woman))


def person_of(draw: Draw, second: bool) -> Pair:
    """We defended _ during the war."""
    pair = draw.one(PERSONS)
    (subject, right), (_, wrong) = pair[second], pair[not second]
    verb = draw.one(REFLEXIVE)
    form = draw.one(
        (verb.past, f"will {verb.base}", f"could {verb.base}", f"must {verb.base}", f"did not {verb.base}")
    )
    after = setting(draw, share=0.9, past=form == verb.past or form.startswith("did"))
    return swap(f"{subject} {form} _{after}", right, wrong)


def across_relative(draw: Draw, woman: bool) -> Pair:
    """The king that the queen followed defended _: the nearer noun is of the other gender."""
    subject, other = _one(draw, woman, kin=False), _one(draw, not woman)
    inside = draw.one(INSIDE)
    return swap(f"{subject} that {other} {inside} {draw.one(REFLEXIVE).past} _{setting(draw)}", *_gender(woman))


def across_relative_number(draw: Draw, plural: bool) -> Pair:
    """The king that the princes followed defended _: the nearer noun is of the other number."""
    woman = draw.chance()
    subject, other = _one(draw, woman, plural, kin=False), _one(draw, woman, not plural)
    inside = draw.one(INSIDE)
    right, wrong = either(SELF["she" if woman else "he"], SELF["they"], plural)
    return swap(f"{subject} that {other} {inside} {draw.one(REFLEXIVE).past} _{setting(draw)}", right, wrong)


def own_clause(draw: Draw, woman: bool) -> Pair:
    """The king said that the queen had defended _: not the subject of the clause outside."""
    other, subject = _one(draw, not woman), _one(draw, woman)
    frame = f"{other} {draw.one(SAYING)} that {subject} had {draw.one(REFLEXIVE).participle} _{setting(draw)}"
    return swap(frame, *_gender(woman))


def owner(draw: Draw, woman: bool) -> Pair:
    """The brother of the queen defended _: not who stands within the subject."""
    kin = draw.fresh(KIN_WOMEN if woman else KIN_MEN).one
    other = person(draw, False, MEN if woman else WOMEN, kin=())
    return swap(f"the {kin} of {other} {draw.one(REFLEXIVE).past} _{setting(draw)}", *_gender(woman))


PARADIGMS: dict[str, Paradigm] = {
    "number": number,
    "gender": gender,
    "person": person_of,
    "across-relative-gender": across_relative,
    "across-relative-number": across_relative_number,
    "own-clause": own_clause,
    "owner": owner,
}
