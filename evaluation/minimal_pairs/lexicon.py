"""The words of the minimal pairs: frequent ones, in kinds that fit each other (people read texts and feed animals).

Nearly every form is frequent in an encyclopaedia, so that a small model has met it and is asked for the grammar alone.
Left out are words that would make a wrong sentence right: nouns with one form for both numbers (sheep, series), groups
that take either verb (family, team), verbs that are prepositions too (like), or whose bare form is a modal's (need).
"""

from dataclasses import dataclass

CONSONANTS = "bcdfghjklmnpqrstvwxyz"


@dataclass(frozen=True)
class Noun:
    """A noun that is counted. gender: "he" or "she" where the word tells it, else None."""

    one: str
    many: str
    gender: str | None = None

    def form(self, plural: bool) -> str:
        return self.many if plural else self.one


@dataclass(frozen=True)
class Verb:
    base: str
    past: str
    participle: str

    def present(self, plural: bool) -> str:
        """Of the third person."""
        return self.base if plural else add_s(self.base)


@dataclass(frozen=True)
class Kind:
    """Nouns that the same may be said of: adjectives that stand before them, and others that follow "is"."""

    nouns: tuple[Noun, ...]
    attributes: tuple[str, ...]
    predicates: tuple[str, ...]


def add_s(word: str) -> str:
    """The ending -s of plurals and of verbs: -es after a hiss, -ies for a consonant and y."""
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word[-1] == "y" and word[-2] in CONSONANTS:
        return word[:-1] + "ies"
    return word + "s"


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _nouns(text: str, gender: str | None = None) -> tuple[Noun, ...]:
    """From "king man/men": a plural that the rule does not give stands after a stroke."""
    pairs = (word.partition("/") for word in text.split())
    return tuple(Noun(one, many or add_s(one), gender) for one, _, many in pairs)


def _verbs(text: str) -> tuple[Verb, ...]:
    """From "help see/saw/seen": regular ones by their base."""
    return tuple(_verb(*word.split("/")) for word in text.split())


def _verb(base: str, past: str | None = None, participle: str | None = None) -> Verb:
    if past is None:
        y = base[-1] == "y" and base[-2] in CONSONANTS
        past = base + "d" if base.endswith("e") else base[:-1] + "ied" if y else base + "ed"
    return Verb(base, past, participle or past)


MEN = _nouns("man/men boy king prince actor gentleman/gentlemen priest emperor", "he")
WOMEN = _nouns("woman/women girl queen princess actress lady", "she")
# Said with whose they are: "my brother"; "the brother" would leave one asking.
KIN_MEN = _nouns("brother son uncle", "he")
KIN_WOMEN = _nouns("sister daughter aunt", "she")
KIN = KIN_MEN + KIN_WOMEN + _nouns("friend")

PEOPLE = Kind(
    MEN
    + WOMEN
    + _nouns(
        "teacher student doctor writer artist farmer soldier scientist singer player leader lawyer engineer poet "
        "painter president minister captain officer worker driver child/children author composer hunter merchant "
        "servant bishop editor philosopher historian scholar visitor prisoner"
    ),
    words("young old rich poor famous tall strong brave"),
    words(
        "tired happy angry rich poor famous sick hungry busy proud late ready afraid sad strong safe free alone wrong "
        "silent young old tall"
    ),
)
ANIMALS = Kind(
    _nouns("dog cat horse cow bird lion wolf/wolves bear elephant rabbit mouse/mice snake tiger monkey"),
    words("young old small large black white wild brown"),
    words("tired hungry small large old young dangerous afraid wild sick dead fast strong"),
)
TEXTS = Kind(
    _nouns("letter story poem book novel article report song"),
    words("old new short long famous"),
    words("old new short long famous important popular difficult good"),
)
OBJECTS = Kind(
    _nouns("box sword key picture map ring cup table chair bag bottle lamp flag coin stone knife/knives hat clock"),
    words("old new small large beautiful black white"),
    words("old new small large beautiful expensive broken lost black white"),
)
PLACES = Kind(
    _nouns(
        "city town village valley forest castle church school garden hospital museum palace temple house library "
        "station market"
    ),
    words("old small large beautiful famous"),
    words("old small large beautiful famous important safe dark empty"),
)
# Not said of the same thing: "the old clock is new".
_OPPOSITES = ("old new young", "small large", "short long tall", "black white brown", "rich poor", "strong sick")
OPPOSITES = {one: words(group) for group in _OPPOSITES for one in words(group)}
LANDMARKS = _nouns("river mountain lake bridge tower road wall island")
MASSES = words("gold silver iron water wine milk sugar bread rice salt corn cotton coal wood money")

# What people do to each kind.
DEEDS: tuple[tuple[Kind, tuple[Verb, ...]], ...] = (
    (
        PEOPLE,
        _verbs(
            "know/knew/known love help trust fear follow protect support respect visit teach/taught remember "
            "understand/understood watch"
        ),
    ),
    (ANIMALS, _verbs("own buy/bought sell/sold feed/fed fear follow protect watch love see/saw/seen hear/heard")),
    (
        TEXTS,
        _verbs(
            "know/knew/known love write/wrote/written remember buy/bought sell/sold describe understand/understood"
        ),
    ),
    (OBJECTS, _verbs("own carry buy/bought sell/sold keep/kept hide/hid/hidden use hold/held find/found lose/lost")),
    (PLACES, _verbs("visit know/knew/known love leave/left protect describe remember see/saw/seen")),
)
# What lasts: "knew the poem" wants no "near the river" after it.
STATES = words("know love trust fear support respect remember understand own")
# After these "that" may begin a clause, so that "knew that houses" is not wrong before the sentence ends.
CLAUSAL = words("know fear remember understand see hear write find trust teach")

REFLEXIVE = _verbs("hurt/hurt help describe defend protect save blame prepare introduce see/saw/seen hide/hid/hidden")
# Their place is no object, so that no adjective after it can be a result ("painted the house white").
STAYING = words("lived died stayed slept waited arrived sat remained")

POSSESSIVES = words("my his her our their")
FREQUENCIES = words("often always never usually sometimes rarely")
NUMERALS = words("two three four five six seven eight nine ten")
MOMENTS = (
    "during the war",
    "before the war",
    "after the battle",
    "last year",
    "last night",
    "in the morning",
    "in the evening",
    "in the summer",
    "in the winter",
    "many years ago",
    "on the first day",
    "after the meeting",
)
