"""English -> Turkish sentence pairs for the demo: `make_pairs("train")` gives rows with keys `en` and `tr`.

A sentence is drawn from typed verbs (people read readable things, predators eat smaller animals), said in both
languages by rules, and put into a split by its (subject, verb, complement) triple, so that the test asks for
combinations of words that training never showed. Choices that make the Turkish a function of the English:

- Subject pronouns are not spoken in Turkish; the verb tells the person ("I slept." -> "Uyudum."), and he, she and it
  come out the same. "You" is one person. After a plural noun the verb stays singular ("Kediler fareyi yedi.");
  unspoken "they" is heard in the verb ("Fareyi yediler.").
- Possessors are not spoken either ("my cat" -> "kedim"). An unspoken third-person possessor is understood as the
  subject, so "his book" is an object only where the subject is such a person, and "your book" only where it is not.
- The progressive is -iyor and the simple present the aorist ("eats" -> "yer"); of verbs of state English has only the
  simple present, and Turkish prefers -iyor ("wants" -> "istiyor").
- A definite object takes the accusative, an indefinite one does not: "the mouse" -> "fareyi", "a mouse" -> "bir fare".
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass

from regard.train.turkish_grammar import capitalize, noun_form, pronoun, question, verb_form
from regard.train.turkish_lexicon import ADJECTIVES, NOUNS, VERBS, Adjective, Noun, Verb, fits

SIZES = {"train": 20_000, "validation": 500, "test": 1_000}

PRONOUNS = {"1sg": ("I",), "2sg": ("you",), "3sg": ("he", "she", "it"), "1pl": ("we",), "3pl": ("they",)}
OBJECT_PRONOUNS = {"1sg": ("me",), "2sg": ("you",), "3sg": ("him", "her"), "1pl": ("us",), "3pl": ("them",)}
DETERMINERS = {"1sg": ("my",), "2sg": ("your",), "3sg": ("his", "her"), "1pl": ("our",), "3pl": ("their",)}
BE = {"1sg": "am", "3sg": "is"}
RUNNING_EXAMPLE = ("kedi", "ye", "fare")
CONSONANTS = "bcdfghjklmnpqrstvwxyz"


# ---- English


def english_plural(noun: Noun) -> str:
    """cats, boxes, cookies, and the irregular ones of the lexicon."""
    return noun.en_plural or _add_s(noun.en)


def _add_s(word: str) -> str:
    """The ending -s of plurals and of the third person: -es after a hiss, -ies for a consonant and y."""
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word[-1] == "y" and word[-2] in CONSONANTS:
        return word[:-1] + "ies"
    return word + "s"


def _doubles(word: str) -> bool:
    """Whether the last consonant doubles before -ed and -ing: one short stressed vowel before it (cut, forget)."""
    one_syllable = sum(letter in "aeiou" for letter in word) == 1
    short = len(word) > 2 and word[-1] in CONSONANTS and word[-1] not in "wxy" and word[-2] in "aeiou"
    return short and (one_syllable or word == "forget")


def english_verb(verb: Verb, form: str) -> str:
    """`base`, `past`, `third` (eats) or `ing` (eating) of a verb; the first word of "look for" inflects."""
    if form == "past" and verb.en_past:
        return verb.en_past
    word, space, rest = verb.en.partition(" ")
    if form == "third":
        word = word + "es" if word.endswith("o") else _add_s(word)  # goes, but pianos
    elif form in ("past", "ing"):
        ending = "ed" if form == "past" else "ing"
        if _doubles(word):
            word += word[-1]
        elif word.endswith("e") and not word.endswith("ee"):
            word = word[:-1]
        elif form == "past" and word[-1] == "y" and word[-2] in CONSONANTS:
            word = word[:-1] + "i"
        word += ending
    return word + space + rest


def with_article(phrase: str) -> str:
    """a cat, an apple."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def english_clause(subject: str, person: str, verb: Verb, tense: str, negative: bool, asks: bool, rest: str) -> str:
    """Subject, verb and complement in order, with the auxiliary that tense, negation and question need.

    person "3pl" stands for plural nouns too; "you" takes the forms of the plural.
    """
    third = person == "3sg"
    if tense == "continuous":
        auxiliary, main = BE.get(person, "are"), english_verb(verb, "ing")
    elif tense == "future":
        auxiliary, main = "will", verb.en
    elif negative or asks:
        auxiliary = "did" if tense == "past" else "does" if third else "do"
        main = verb.en
    else:
        auxiliary, main = "", english_verb(verb, "past" if tense == "past" else "third" if third else "base")
    negation = "not" if negative else ""
    order = [auxiliary, subject, negation] if asks else [subject, auxiliary, negation]
    sentence = " ".join(word for word in [*order, main, rest] if word)
    return sentence[0].upper() + sentence[1:] + ("?" if asks else ".")


# ---- phrases in both languages


@dataclass(frozen=True)
class Phrase:
    """A noun phrase in both languages, with what agreement needs and the stems it is made of.

    person is the English one, verb_person what the Turkish verb shows. They differ for plural nouns: the verb of
    "the cats eat" is singular in Turkish.
    owners are the possessive pronouns that can refer back to it: none for animals and things.
    """

    en: str
    tr: str
    person: str
    verb_person: str
    owners: tuple[str, ...]
    stems: tuple[str, ...]


@dataclass(frozen=True)
class Sentence:
    """A pair with what it was made from: (subject, verb, complement) stems and all stems."""

    en: str
    tr: str
    triple: tuple[str, str, str]
    stems: tuple[str, ...]


def noun_phrase(
    noun: Noun, determiner: str, case: str = "nom", plural: bool = False, adjective: Adjective | None = None
) -> Phrase:
    """determiner: "the", "a", "" (bare, uncountable) or an English possessive pronoun ("my").

    Only definite objects show the accusative. "bir" stands between adjective and noun: küçük bir kedi.
    """
    possessor = next((person for person, words in DETERMINERS.items() if determiner in words), None)
    shown = "nom" if case == "acc" and determiner in ("a", "") else case
    en = english_plural(noun) if plural else noun.en
    tr = noun_form(noun, shown, plural, possessor)
    if determiner == "a":
        tr = f"bir {tr}"
    if adjective:
        en, tr = f"{adjective.en} {en}", f"{adjective.tr} {tr}"
    en = with_article(en) if determiner == "a" else f"{determiner} {en}".strip()
    owners: tuple[str, ...] = ()
    if "person" in noun.tags:
        singular = tuple(word for word, other in (("his", "she"), ("her", "he")) if other not in noun.tags)
        owners = ("their",) if plural else singular
    stems = (noun.tr, adjective.tr) if adjective else (noun.tr,)
    return Phrase(en, tr, "3pl" if plural else "3sg", "3sg", owners, stems)


def say(
    subject: Phrase, verb: Verb, complement: Phrase | None, tense: str, negative: bool, asks: bool
) -> tuple[str, str]:
    """The sentence in English (subject, verb, complement) and in Turkish (subject, complement, verb)."""
    rest = complement.en if complement else ""
    en = english_clause(subject.en, subject.person, verb, tense, negative, asks, rest)
    if tense == "aorist" and "state" in verb.flags:
        tense = "continuous"
    form = (question if asks else verb_form)(verb, tense, subject.verb_person, negative)
    words = [subject.tr, complement.tr if complement else "", form]
    tr = " ".join(word for word in words if word)
    return en, capitalize(tr) + ("?" if asks else ".")


# ---- drawing sentences


def _owners(subject: Phrase) -> list[str]:
    """Possessive pronouns that an object may have beside this subject (see the head of the file)."""
    if subject.person in ("1sg", "1pl", "2sg"):
        return ["my", "our", "your"]
    return ["my", "our", *subject.owners]


@functools.cache
def _uses() -> list[list[Verb]]:
    """The uses of each English verb: play (an instrument), play (in the garden)."""
    by_english: dict[str, list[Verb]] = {}
    for verb in VERBS:
        by_english.setdefault(verb.en, []).append(verb)
    return list(by_english.values())


@functools.cache
def _nouns(types: tuple[str, ...]) -> list[Noun]:
    return [noun for noun in NOUNS if fits(types, noun)]


@functools.cache
def _adjectives(noun: Noun) -> tuple[list[Adjective], list[float]]:
    """The adjectives that fit a noun, those that fit few nouns with a larger weight."""
    fitting = [adjective for adjective in ADJECTIVES if fits(adjective.types, noun)]
    return fitting, [1 / len(_nouns(adjective.types)) for adjective in fitting]


@functools.cache
def _rarity() -> dict[Noun, float]:
    """The weight of each noun among those that a verb accepts: the fewer verbs accept it, the larger.

    Without it a word such as "axe" would be seen ten times less often than "cat".
    """
    expected = dict.fromkeys(NOUNS, 0.0)
    for uses in _uses():
        for verb in uses:
            for types in (verb.subjects, verb.objects):
                for noun in _nouns(types):
                    expected[noun] += 1 / len(uses) / len(_nouns(types))
    return {noun: 1 / share for noun, share in expected.items()}


def _choose(rng: random.Random, nouns: list[Noun]) -> Noun:
    return rng.choices(nouns, [_rarity()[noun] for noun in nouns])[0]


def _modifier(rng: random.Random, noun: Noun, share: float) -> Adjective | None:
    fitting, weights = _adjectives(noun)
    return rng.choices(fitting, weights)[0] if fitting and rng.random() < share else None


def _is_plural(rng: random.Random, noun: Noun, determiner: str, share: float) -> bool:
    possible = determiner not in ("a", "") and "mass" not in noun.tags and noun.en_plural != "-"
    one_each = "single" in noun.tags and determiner != "the"  # "my mothers"
    return possible and not one_each and rng.random() < share


def _subject(rng: random.Random, verb: Verb, noun: Noun | None, plain: bool) -> Phrase:
    """A noun phrase, or a pronoun where `noun` is None; "a cat" only in plain statements."""
    if noun is None:
        people = "person" in verb.subjects
        person = rng.choice([*PRONOUNS]) if people else rng.choice(["3sg", "3pl"])
        words = PRONOUNS[person]
        if person == "3sg":
            words = ("he", "she") if people else ("it",)
        word = rng.choice(words)
        owners = {"he": ("his",), "she": ("her",), "they": ("their",) if people else ()}.get(word, ())
        return Phrase(word, "", person, person, owners, (person,))
    determiners = ["the"] * 6
    if plain:
        determiners.append("a")
    if "mine" in noun.tags:
        determiners += ["my", "your", rng.choice(["his", "her"]), "our", "their"]
    determiner = rng.choice(determiners)
    plural = _is_plural(rng, noun, determiner, 0.2)
    return noun_phrase(noun, determiner, "nom", plural, _modifier(rng, noun, 0.2))


def _complement(rng: random.Random, verb: Verb, noun: Noun, subject: Phrase, negative: bool) -> Phrase:
    """The object, or the place with its preposition, in the case that the verb wants."""
    if verb.case == "loc":
        determiner = rng.choice(["my", "our", "the", "the"]) if "mine" in noun.tags else "the"
        phrase = noun_phrase(noun, determiner, "loc", adjective=_modifier(rng, noun, 0.1))
        preposition = next(word for word in ("in", "at", "on") if word in noun.tags)
        return Phrase(f"{preposition} {phrase.en}", phrase.tr, phrase.person, phrase.verb_person, (), phrase.stems)
    determiners = ["the"] * 3
    if "mass" in noun.tags:
        if "bare" in verb.flags:
            determiners += [""] * 3
    elif "def" not in verb.flags and not negative:
        determiners += ["a"] * 2
    if "mine" in noun.tags:
        determiners += rng.sample(_owners(subject), 2)
    determiner = rng.choice(determiners)
    plural = "place" not in noun.tags and _is_plural(rng, noun, determiner, 0.2)
    return noun_phrase(noun, determiner, verb.case, plural, _modifier(rng, noun, 0.2))


def _object_pronoun(rng: random.Random, verb: Verb, subject: Phrase) -> Phrase:
    """me, you, him, her, us, them: never one that includes the subject ("I saw us")."""
    persons = [person for person in OBJECT_PRONOUNS if person[0] != subject.person[0] or person[0] == "3"]
    person = rng.choice(persons)
    return Phrase(rng.choice(OBJECT_PRONOUNS[person]), pronoun(person, verb.case), person, person, (), (person,))


def _size(noun: Noun) -> int:
    return int(next(tag[1:] for tag in noun.tags if tag[0] == "s" and tag[1:].isdigit()))


def _draw(rng: random.Random) -> Sentence:
    """One sentence; each English verb is as likely as every other, so that none is rare."""
    verb = rng.choice(rng.choice(_uses()))
    smaller = "smaller" in verb.flags
    noun = _choose(rng, _nouns(verb.subjects)) if smaller or rng.random() < 0.7 else None
    negative, asks = rng.random() < 0.3, rng.random() < 0.3
    tense = rng.choice(["past", "aorist", "future", "past" if "state" in verb.flags else "continuous"])
    subject = _subject(rng, verb, noun, plain=not negative and not asks)
    if verb.en == verb.en_past and tense == "aorist" and not (negative or asks or subject.person == "3sg"):
        tense = "past"  # "They read the book." must mean one thing

    objects = [
        other for other in _nouns(verb.objects) if other != noun and not (smaller and _size(other) >= _size(noun))
    ]
    complement = None
    if "person" in verb.objects and rng.random() < 0.12:
        complement = _object_pronoun(rng, verb, subject)
    elif objects and not ("maybe" in verb.flags and rng.random() < 0.3):
        complement = _complement(rng, verb, _choose(rng, objects), subject, negative)

    en, tr = say(subject, verb, complement, tense, negative, asks)
    triple = (subject.stems[0], verb.tr, complement.stems[0] if complement else "")
    return Sentence(en, tr, triple, subject.stems + (verb.tr,) + (complement.stems if complement else ()))


def split_of(triple: tuple[str, str, str]) -> str:
    """The split that owns a combination of words: a tenth is for the test, a twentieth for validation.

    A hash of the words decides, so that the splits are disjoint whatever the seeds and sizes. "The cat ate the mouse."
    is always left to the test, so that a model that translates it has not been shown it.
    """
    share = hashlib.sha256("|".join(triple).encode()).digest()[0] / 256
    if triple == RUNNING_EXAMPLE:
        return "test"
    return "test" if share < 0.1 else "validation" if share < 0.15 else "train"


def sentences(split: str, seed: int = 0, size: int | None = None) -> Iterator[Sentence]:
    """`size` different sentences of a split, the same in every process.

    Raises ValueError for an unknown split, a negative size, and a size beyond what the words can make.
    """
    if split not in SIZES:
        raise ValueError(f"split must be one of {', '.join(SIZES)}, not {split!r}")
    size = SIZES[split] if size is None else size
    if size < 0:
        raise ValueError(f"size must be at least 0, not {size}")
    rng = random.Random(f"turkish/{split}/{seed}")
    seen: set[str] = set()
    for _ in range(100 * size + 1_000):
        if len(seen) == size:
            return
        sentence = _draw(rng)
        if split_of(sentence.triple) == split and sentence.en not in seen:
            seen.add(sentence.en)
            yield sentence
    if len(seen) < size:
        raise ValueError(f"size={size} is more than the generator finds for split {split!r}: use at most {len(seen)}")


def make_pairs(split: str, seed: int = 0, size: int | None = None) -> list[dict[str, str]]:
    """Rows {"en": ..., "tr": ...} of "train" (20,000), "validation" (500) or "test" (1,000); see `sentences`."""
    return [{"en": sentence.en, "tr": sentence.tr} for sentence in sentences(split, seed, size)]


def all_stems() -> Iterator[str]:
    """Every Turkish stem that the generator knows, each once per part of speech."""
    for words in (NOUNS, VERBS, ADJECTIVES):
        yield from dict.fromkeys(word.tr for word in words)
