"""Turkish word formation as rules: vowel harmony, consonant alternations, noun cases, possession, verbs, questions.

Suffixes are written as grammars write them, in letters that harmony fills in:

    E    a or e                 a after a back vowel (a ı o u), e after a front one (e i ö ü)
    I    ı, i, u or ü           the high vowel that agrees with the last vowel in backness and rounding
    D    d or t                 t after a voiceless consonant (f s t k ç ş h p)
    (y)  a buffer consonant     only after a vowel      fare + (y)I -> fareyi    ev + (y)I -> evi
    (I)  a linking vowel        only after a consonant  kitap + (I)m -> kitabım  kedi + (I)m -> kedim

Persons are "1sg" "2sg" "3sg" "1pl" "2pl" "3pl"; cases are "nom" "acc" "dat" "loc" "abl".
"""

from __future__ import annotations

import re

from regard.train.turkish_lexicon import Noun, Verb

VOWELS = "aıoueiöü"
BACK = "aıou"
VOICELESS = "fstkçşhp"
SOFTENED = {"p": "b", "ç": "c", "t": "d", "k": "ğ"}
HIGH = {"a": "ı", "ı": "ı", "e": "i", "i": "i", "o": "u", "u": "u", "ö": "ü", "ü": "ü"}
FRONTED = {"a": "e", "ı": "i", "o": "ö", "u": "ü"}

CASES = {"nom": "", "acc": "(y)I", "dat": "(y)E", "loc": "DE", "abl": "DEn"}
CASES_AFTER_THIRD_PERSON = {"nom": "", "acc": "nI", "dat": "nE", "loc": "nDE", "abl": "nDEn"}
POSSESSIVES = {"1sg": "(I)m", "2sg": "(I)n", "3sg": "(s)I", "1pl": "(I)mIz", "2pl": "(I)nIz", "3pl": "lErI"}
PRONOUNS = {"1sg": "ben", "2sg": "sen", "3sg": "o", "1pl": "biz", "2pl": "siz", "3pl": "onlar"}

PAST_PERSONS = {"1sg": "m", "2sg": "n", "3sg": "", "1pl": "k", "2pl": "nIz", "3pl": "lEr"}
PERSONS = {"1sg": "(y)Im", "2sg": "sIn", "3sg": "", "1pl": "(y)Iz", "2pl": "sInIz", "3pl": "lEr"}
# The thirteen monosyllables whose aorist is -Ir though the others take -Er.
AORIST_IR = ("al", "bil", "bul", "dur", "gel", "gör", "kal", "ol", "öl", "san", "var", "ver", "vur")


def syllables(word: str) -> int:
    """Number of vowels of the last word (that is: syllables)."""
    return sum(letter in VOWELS for letter in word.split()[-1])


def last_vowel(word: str) -> str:
    """The vowel that decides the harmony of whatever follows."""
    return next(letter for letter in reversed(word) if letter in VOWELS)


def attach(word: str, suffix: str, front: bool = False) -> str:
    """Adds a suffix, one letter at a time, each agreeing with what stands before it.

    front: the word takes front vowels although its own last vowel is a back one (saat -> saati).
    """
    for part in re.findall(r"\(.\)|.", suffix):
        letter = part.strip("()")
        # A bracketed vowel must not meet a vowel, a bracketed consonant must not meet a consonant.
        if part != letter and (letter in "EI" or letter in VOWELS) == (word[-1] in VOWELS):
            continue
        if letter in "EI":
            model = FRONTED.get(last_vowel(word), last_vowel(word)) if front else last_vowel(word)
            letter = HIGH[model] if letter == "I" else ("a" if model in BACK else "e")
            front = False  # from here on the suffix's own vowel decides
        elif letter == "D":
            letter = "t" if word[-1] in VOICELESS else "d"
        word += letter
    return word


def soften(word: str) -> str:
    """p ç t k at the end become b c d ğ; k after n becomes g (renk -> reng-)."""
    if word.endswith("nk"):
        return word[:-1] + "g"
    return word[:-1] + SOFTENED.get(word[-1], word[-1])


# ---- nouns


def before_vowel(noun: Noun) -> str:
    """The stem before a suffix that begins with a vowel.

    Words of several syllables soften a final p ç t k (kitap -> kitab-), words of one do not (süt, at, top), except
    for those marked hard or soft. Marked words lose a vowel (resim -> resm-), double a consonant (sır -> sırr-) or
    end in y (su -> suy-).
    """
    word = noun.tr
    if "y-stem" in noun.tags:
        return word + "y"
    if "doubles" in noun.tags:
        return word + word[-1]
    if "drops" in noun.tags:
        return word[:-2] + word[-1]
    softens = "soft" in noun.tags or (syllables(word) > 1 and "hard" not in noun.tags)
    return soften(word) if softens else word


def noun_form(noun: Noun, case: str = "nom", plural: bool = False, possessor: str | None = None) -> str:
    """Noun + plural + possessive + case, in this order.

    "Their book", "their books" and "his books" are all kitapları: -lEr is never doubled. After a third-person
    possessive the case takes a buffer n: kitabı + nI -> kitabını.
    """
    suffixes = ["lEr"] if plural else []
    if possessor == "3pl" and plural:
        suffixes.append("I")
    elif possessor:
        suffixes.append(POSSESSIVES[possessor])
    suffixes.append((CASES_AFTER_THIRD_PERSON if possessor in ("3sg", "3pl") else CASES)[case])

    form, bare = noun.tr, True
    for suffix in filter(None, suffixes):
        # After a consonant (y)I, (s)I and (I)m all begin with a vowel; lEr and DE never do.
        if bare and re.match(r"(\([ys]\))?\(?[EI]", suffix):
            stem = form if form[-1] in VOWELS and "y-stem" not in noun.tags else before_vowel(noun)
        else:
            stem = form
        form = attach(stem, suffix, front=bare and "front" in noun.tags)
        bare = False
    return form


def plural(noun: Noun) -> str:
    """-lEr: kediler, kitaplar."""
    return noun_form(noun, plural=True)


def accusative(noun: Noun) -> str:
    """-(y)I, the case of a definite object: fareyi, kitabı."""
    return noun_form(noun, "acc")


def dative(noun: Noun) -> str:
    """-(y)E, to: okula, bahçeye."""
    return noun_form(noun, "dat")


def locative(noun: Noun) -> str:
    """-DE, in, on, at: evde, sınıfta."""
    return noun_form(noun, "loc")


def ablative(noun: Noun) -> str:
    """-DEn, from: evden, sokaktan."""
    return noun_form(noun, "abl")


def possessive(noun: Noun, possessor: str, case: str = "nom", plural: bool = False) -> str:
    """kitabım, kitabın, kitabı, kitabımız, kitabınız, kitapları; with a case: kitabını."""
    return noun_form(noun, case, plural, possessor)


def pronoun(person: str, case: str = "nom") -> str:
    """A personal pronoun in a case: o becomes on- before any suffix; the datives bana and sana are irregular."""
    if case == "dat" and person in ("1sg", "2sg"):
        return {"1sg": "bana", "2sg": "sana"}[person]
    base = "on" if person == "3sg" and case != "nom" else PRONOUNS[person]
    return attach(base, CASES[case])


# ---- verbs


def verb_before_vowel(verb: Verb) -> str:
    """git- et- tat- become gid- ed- tad- before a vowel; the other verbs keep their t (unutuyor, satar)."""
    return soften(verb.tr) if "soft" in verb.flags else verb.tr


def continuous_stem(stem: str) -> str:
    """Stem + -Iyor. A final a or e is narrowed to a high vowel that agrees with the vowel before it.

    oku -> okuyor, dinle -> dinliyor, oyna -> oynuyor, ye -> yiyor, and so with the negative: görme -> görmüyor.
    """
    if stem[-1] in "ae":
        shortened = stem[:-1]
        model = last_vowel(shortened) if syllables(stem) > 1 else stem[-1]
        return shortened + HIGH[model] + "yor"
    return attach(stem, "(I)yor")


def tense_stem(verb: Verb, tense: str, negative: bool) -> str:
    """The verb with negation and tense, in the third person singular.

    past       -DI      yedi     negative -mEDI     yemedi
    present    -Iyor    yiyor    negative -mIyor    yemiyor (narrowing)
    future     -(y)EcEk yiyecek  negative -mEyEcEk  yemeyecek
    aorist     -r/Er/Ir yer      negative -mEz      yemez
    """
    negated = attach(verb.tr, "mE")
    if tense == "past":
        return attach(negated if negative else verb.tr, "DI")
    if tense == "continuous":
        return continuous_stem(negated if negative else verb_before_vowel(verb))
    if tense == "future":
        stem = negated if negative else verb_before_vowel(verb)
        if "narrow" in verb.flags and not negative:
            stem = stem[:-1] + "i"
        return attach(stem, "(y)EcEk")
    if tense != "aorist":
        raise ValueError(f"tense must be past, continuous, future or aorist, not {tense!r}")
    if negative:
        return negated + "z"
    if verb.tr[-1] in VOWELS:
        return verb.tr + "r"
    # Verbs built with et- (seyret-, kaybet-) follow et-: -Er, however many syllables they have.
    narrow_vowel = verb.tr in AORIST_IR or (syllables(verb.tr) > 1 and "soft" not in verb.flags)
    return attach(verb_before_vowel(verb), "Ir" if narrow_vowel else "Er")


def verb_form(verb: Verb, tense: str, person: str = "3sg", negative: bool = False) -> str:
    """A statement's verb: tense and negation, then the person.

    The past has its own endings (yedim, yedik); the other tenses share theirs (yiyorum, yeriz), before which the
    k of the future softens (yiyeceğim). The negative aorist is irregular in the first person: yemem, yemeyiz.
    """
    stem = tense_stem(verb, tense, negative)
    if tense == "past":
        return attach(stem, PAST_PERSONS[person])
    if person in ("1sg", "1pl"):
        if tense == "future":
            stem = soften(stem)
        elif tense == "aorist" and negative:
            return stem[:-1] + "m" if person == "1sg" else attach(stem[:-1], "yIz")
    return attach(stem, PERSONS[person])


def past(verb: Verb, person: str = "3sg", negative: bool = False) -> str:
    """yedim yedin yedi yedik yediniz yediler; yemedi."""
    return verb_form(verb, "past", person, negative)


def continuous(verb: Verb, person: str = "3sg", negative: bool = False) -> str:
    """yiyorum yiyorsun yiyor yiyoruz yiyorsunuz yiyorlar; yemiyor."""
    return verb_form(verb, "continuous", person, negative)


def future(verb: Verb, person: str = "3sg", negative: bool = False) -> str:
    """yiyeceğim yiyeceksin yiyecek yiyeceğiz yiyeceksiniz yiyecekler; yemeyecek."""
    return verb_form(verb, "future", person, negative)


def aorist(verb: Verb, person: str = "3sg", negative: bool = False) -> str:
    """yerim yersin yer yeriz yersiniz yerler; yemem yemezsin yemez yemeyiz yemezsiniz yemezler."""
    return verb_form(verb, "aorist", person, negative)


def question(verb: Verb, tense: str, person: str = "3sg", negative: bool = False) -> str:
    """A yes-no question: the particle mI, a word of its own that harmonises with the verb.

    In the past it follows the whole form (yedin mi?). Otherwise the person moves to the particle (yiyor musun?,
    yiyecek miyim?), except for -lEr, which stays on the verb (yiyorlar mı?).
    """
    if tense == "past" or person == "3pl":
        return attach(verb_form(verb, tense, person, negative), " mI")
    return attach(tense_stem(verb, tense, negative), " mI" + PERSONS[person])


def capitalize(sentence: str) -> str:
    """First letter in upper case, the Turkish way: i -> İ and ı -> I."""
    return {"i": "İ", "ı": "I"}.get(sentence[0], sentence[0].upper()) + sentence[1:]
