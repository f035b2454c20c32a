"""The demo's English-Turkish generator.

The Turkish forms below were written by hand after the standard grammar (vowel harmony, consonant alternations, case,
possession and verb inflection as in Göksel and Kerslake, "Turkish: A Comprehensive Grammar", 2005, and the spelling of
the Turkish Language Association's dictionary), not taken from the program.
"""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from regard.train import turkish, turkish_lexicon
from regard.train.turkish import SIZES, all_stems, make_pairs, noun_phrase, say, sentences, split_of
from regard.train.turkish_grammar import (
    ablative,
    accusative,
    aorist,
    attach,
    capitalize,
    continuous,
    dative,
    future,
    locative,
    past,
    plural,
    possessive,
    pronoun,
    question,
)
from regard.train.turkish_lexicon import ADJECTIVES, NOUNS, VERBS, Adjective, Noun, Verb

PERSONS = ["1sg", "2sg", "3sg", "1pl", "2pl", "3pl"]


def noun(tr: str) -> Noun:
    return next(noun for noun in NOUNS if noun.tr == tr)


def verb(tr: str, en: str | None = None) -> Verb:
    return next(verb for verb in VERBS if verb.tr == tr and en in (None, verb.en))


def adjective(en: str) -> Adjective:
    return next(adjective for adjective in ADJECTIVES if adjective.en == en)


@pytest.mark.parametrize(
    ("form", "forms"),
    [
        # -lEr: two-way harmony.
        (plural, "kedi:kediler kitap:kitaplar göl:göller okul:okullar kız:kızlar öykü:öyküler"),
        # -(y)I: four-way harmony, buffer y after a vowel.
        (accusative, "fare:fareyi kedi:kediyi elma:elmayı komşu:komşuyu öykü:öyküyü ayı:ayıyı radyo:radyoyu"),
        (accusative, "ev:evi kız:kızı göl:gölü okul:okulu adam:adamı balkon:balkonu"),
        # Softening in words of several syllables, p ç t k.
        (accusative, "kitap:kitabı ağaç:ağacı kanat:kanadı çocuk:çocuğu ekmek:ekmeği mektup:mektubu yoğurt:yoğurdu"),
        (accusative, "köpek:köpeği balık:balığı havuç:havucu armut:armudu sözlük:sözlüğü sincap:sincabı ilaç:ilacı"),
        # Words of one syllable keep it, except kurt.
        (accusative, "at:atı süt:sütü et:eti top:topu ip:ipi park:parkı kurt:kurdu"),
        # Loans that keep it; saat takes front vowels.
        (accusative, "saat:saati bilet:bileti ceket:ceketi sepet:sepeti bisiklet:bisikleti avukat:avukatı"),
        # Vowel loss, doubling, and su.
        (accusative, "resim:resmi şehir:şehri nehir:nehri metin:metni sır:sırrı su:suyu"),
        (dative, "okul:okula ev:eve bahçe:bahçeye oda:odaya sokak:sokağa mutfak:mutfağa şehir:şehre su:suya köy:köye"),
        # d becomes t after a voiceless consonant; no softening before a consonant.
        (
            locative,
            "ev:evde okul:okulda sınıf:sınıfta sokak:sokakta park:parkta şehir:şehirde bahçe:bahçede saat:saatte",
        ),
        (ablative, "ev:evden okul:okuldan köpek:köpekten kurt:kurttan ayı:ayıdan göl:gölden kitap:kitaptan su:sudan"),
    ],
)
def test_noun_cases(form, forms):
    for pair in forms.split():
        word, expected = pair.split(":")
        assert form(noun(word)) == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        # my, your, his, our, your (plural), their
        ("kitap", "kitabım kitabın kitabı kitabımız kitabınız kitapları"),
        ("kedi", "kedim kedin kedisi kedimiz kediniz kedileri"),
        ("anne", "annem annen annesi annemiz anneniz anneleri"),
        ("top", "topum topun topu topumuz topunuz topları"),
        ("su", "suyum suyun suyu suyumuz suyunuz suları"),
        ("resim", "resmim resmin resmi resmimiz resminiz resimleri"),
        ("saat", "saatim saatin saati saatimiz saatiniz saatleri"),
    ],
)
def test_possessives(word, expected):
    assert [possessive(noun(word), person) for person in PERSONS] == expected.split()


def test_possessive_with_case_and_plural():
    kitap, kedi, oda = noun("kitap"), noun("kedi"), noun("oda")
    assert possessive(kitap, "1sg", "acc") == "kitabımı"
    assert possessive(kitap, "2sg", "acc") == "kitabını"
    assert possessive(kitap, "3sg", "acc") == "kitabını"  # the buffer n of the third person
    assert possessive(kedi, "3sg", "acc") == "kedisini"
    assert possessive(kedi, "3sg", "dat") == "kedisine"
    assert possessive(oda, "3sg", "loc") == "odasında"
    assert possessive(oda, "3sg", "abl") == "odasından"
    assert possessive(oda, "1sg", "loc") == "odamda"
    assert possessive(kitap, "3pl", "acc") == "kitaplarını"
    assert possessive(kitap, "1sg", plural=True) == "kitaplarım"
    assert possessive(kitap, "3sg", plural=True) == "kitapları"
    assert possessive(kitap, "3pl", plural=True) == "kitapları"  # never kitaplarları
    assert possessive(kedi, "1pl", "acc", plural=True) == "kedilerimizi"


def test_pronouns():
    def forms(case):
        return " ".join(pronoun(person, case) for person in PERSONS)

    assert forms("acc") == "beni seni onu bizi sizi onları"
    assert forms("dat") == "bana sana ona bize size onlara"
    assert forms("abl") == "benden senden ondan bizden sizden onlardan"


@pytest.mark.parametrize(
    ("tense", "word", "negative", "expected"),
    [
        (past, "ye", False, "yedim yedin yedi yedik yediniz yediler"),
        (past, "oku", True, "okumadım okumadın okumadı okumadık okumadınız okumadılar"),
        (past, "tut", False, "tuttum tuttun tuttu tuttuk tuttunuz tuttular"),
        (continuous, "ye", False, "yiyorum yiyorsun yiyor yiyoruz yiyorsunuz yiyorlar"),
        (continuous, "gör", True, "görmüyorum görmüyorsun görmüyor görmüyoruz görmüyorsunuz görmüyorlar"),
        (future, "ye", False, "yiyeceğim yiyeceksin yiyecek yiyeceğiz yiyeceksiniz yiyecekler"),
        (future, "al", True, "almayacağım almayacaksın almayacak almayacağız almayacaksınız almayacaklar"),
        (aorist, "ye", False, "yerim yersin yer yeriz yersiniz yerler"),
        (aorist, "oku", False, "okurum okursun okur okuruz okursunuz okurlar"),
        (aorist, "ye", True, "yemem yemezsin yemez yemeyiz yemezsiniz yemezler"),
        (aorist, "oku", True, "okumam okumazsın okumaz okumayız okumazsınız okumazlar"),
    ],
)
def test_persons(tense, word, negative, expected):
    assert [tense(verb(word), person, negative) for person in PERSONS] == expected.split()


@pytest.mark.parametrize(
    ("tense", "negative", "forms"),
    [
        (
            past,
            False,
            "gel:geldi git:gitti iç:içti sat:sattı oku:okudu gör:gördü uyu:uyudu aç:açtı tat:tattı düş:düştü",
        ),
        (past, True, "ye:yemedi iç:içmedi gör:görmedi al:almadı git:gitmedi uyu:uyumadı"),
        # Narrowing of a final a or e before -yor, with rounding from the vowel before it.
        (
            continuous,
            False,
            "oku:okuyor iste:istiyor dinle:dinliyor oyna:oynuyor topla:topluyor boya:boyuyor ara:arıyor",
        ),
        (continuous, False, "söyle:söylüyor yürü:yürüyor bekle:bekliyor kovala:kovalıyor gülümse:gülümsüyor"),
        # git-, et- and tat- soften; the other verbs do not.
        (continuous, False, "git:gidiyor tat:tadıyor kaybet:kaybediyor tut:tutuyor at:atıyor unut:unutuyor it:itiyor"),
        (
            continuous,
            True,
            "ye:yemiyor oku:okumuyor al:almıyor git:gitmiyor söyle:söylemiyor oyna:oynamıyor iç:içmiyor",
        ),
        (future, False, "git:gidecek oku:okuyacak iste:isteyecek yürü:yürüyecek at:atacak gel:gelecek kır:kıracak"),
        (future, True, "ye:yemeyecek git:gitmeyecek oku:okumayacak"),
        # Aorist: -r after a vowel, -Er after one syllable, -Ir after several and for thirteen verbs.
        (
            aorist,
            False,
            "iste:ister yaz:yazar iç:içer git:gider sat:satar kork:korkar tat:tadar kaybet:kaybeder it:iter",
        ),
        (
            aorist,
            False,
            "al:alır bul:bulur gel:gelir gör:görür kal:kalır vur:vurur çalış:çalışır otur:oturur düşün:düşünür",
        ),
        (aorist, True, "al:almaz gör:görmez git:gitmez"),
    ],
)
def test_tenses(tense, negative, forms):
    for pair in forms.split():
        word, expected = pair.split(":")
        assert tense(verb(word), negative=negative) == expected


def test_verbs_of_two_words():
    assert past(verb("ziyaret et")) == "ziyaret etti"
    assert continuous(verb("takip et"), "1sg") == "takip ediyorum"
    assert aorist(verb("yardım et")) == "yardım eder"
    assert future(verb("dans et"), "1pl") == "dans edeceğiz"
    assert continuous(verb("nefret et"), negative=True) == "nefret etmiyor"


@pytest.mark.parametrize(
    ("tense", "word", "person", "negative", "expected"),
    [
        ("past", "ye", "3sg", False, "yedi mi"),
        ("past", "gör", "2sg", False, "gördün mü"),
        ("past", "oku", "1pl", False, "okuduk mu"),
        ("past", "al", "3sg", True, "almadı mı"),
        ("past", "ye", "3pl", False, "yediler mi"),
        ("continuous", "ye", "2sg", False, "yiyor musun"),
        ("continuous", "ye", "1sg", False, "yiyor muyum"),
        ("continuous", "gel", "1pl", False, "geliyor muyuz"),
        ("continuous", "ye", "3pl", False, "yiyorlar mı"),
        ("continuous", "ye", "2sg", True, "yemiyor musun"),
        ("future", "ye", "2sg", False, "yiyecek misin"),
        ("future", "al", "1sg", False, "alacak mıyım"),
        ("future", "git", "3pl", False, "gidecekler mi"),
        ("aorist", "ye", "2sg", False, "yer misin"),
        ("aorist", "gör", "2pl", False, "görür müsünüz"),
        ("aorist", "oku", "1sg", False, "okur muyum"),
        ("aorist", "ye", "1sg", True, "yemez miyim"),
        ("aorist", "ye", "1pl", True, "yemez miyiz"),
    ],
)
def test_questions(tense, word, person, negative, expected):
    assert question(verb(word), tense, person, negative) == expected


def test_rules_work_for_words_outside_the_lexicon():
    assert accusative(Noun("renk", "color", tags=frozenset({"soft"}))) == "rengi"
    assert accusative(Noun("gol", "goal", tags=frozenset({"front"}))) == "golü"
    assert possessive(Noun("oğul", "son", tags=frozenset({"drops"})), "1sg") == "oğlum"
    assert continuous(Verb("de", "say", flags=frozenset({"narrow"}))) == "diyor"
    assert future(Verb("de", "say", flags=frozenset({"narrow"}))) == "diyecek"
    assert aorist(Verb("seyret", "watch", flags=frozenset({"soft"}))) == "seyreder"
    assert attach("kitap", "DEn") == "kitaptan"
    with pytest.raises(ValueError, match="tense must be"):
        turkish.verb_form(verb("ye"), "perfect")


def test_capital_letters():
    assert [capitalize(word) for word in ("inek", "ısır", "çocuk", "öykü", "kedi")] == [
        "İnek",
        "Isır",
        "Çocuk",
        "Öykü",
        "Kedi",
    ]


def test_the_running_example():
    cat = noun_phrase(noun("kedi"), "the")
    mouse = noun_phrase(noun("fare"), "the", "acc")
    eat = verb("ye")
    assert say(cat, eat, mouse, "past", False, False) == ("The cat ate the mouse.", "Kedi fareyi yedi.")
    assert say(cat, eat, mouse, "past", True, False) == ("The cat did not eat the mouse.", "Kedi fareyi yemedi.")
    assert say(cat, eat, mouse, "past", False, True) == ("Did the cat eat the mouse?", "Kedi fareyi yedi mi?")
    assert say(cat, eat, mouse, "continuous", False, True) == ("Is the cat eating the mouse?", "Kedi fareyi yiyor mu?")
    assert say(cat, eat, mouse, "aorist", False, False) == ("The cat eats the mouse.", "Kedi fareyi yer.")
    assert say(cat, eat, mouse, "aorist", True, False) == ("The cat does not eat the mouse.", "Kedi fareyi yemez.")
    assert say(cat, eat, mouse, "future", False, False) == ("The cat will eat the mouse.", "Kedi fareyi yiyecek.")
    assert split_of(("kedi", "ye", "fare")) == "test"


def test_phrases():
    def both(*args, **kwargs):
        phrase = noun_phrase(*args, **kwargs)
        return phrase.en, phrase.tr

    assert both(noun("kedi"), "the", adjective=adjective("small")) == ("the small cat", "küçük kedi")
    assert both(noun("fare"), "a", "acc") == ("a mouse", "bir fare")
    assert both(noun("fare"), "the", "acc", plural=True) == ("the mice", "fareleri")
    assert both(noun("elma"), "a", "acc") == ("an apple", "bir elma")
    assert both(noun("kedi"), "a", "acc", adjective=adjective("old")) == ("an old cat", "yaşlı bir kedi")
    assert both(noun("köpek"), "a", "abl") == ("a dog", "bir köpekten")
    assert both(noun("su"), "", "acc") == ("water", "su")
    assert both(noun("kitap"), "his", "acc") == ("his book", "kitabını")
    assert both(noun("kitap"), "my", "acc", True, adjective("old"))[0] == "my old books"


def test_state_verbs_use_iyor_for_the_simple_present():
    child, water = noun_phrase(noun("çocuk"), "the"), noun_phrase(noun("süt"), "", "acc")
    assert say(child, verb("iste"), water, "aorist", False, False) == ("The child wants milk.", "Çocuk süt istiyor.")
    assert say(child, verb("iste"), water, "aorist", True, True)[1] == "Çocuk süt istemiyor mu?"


def test_english_forms():
    def forms(tr, en=None):
        return [turkish.english_verb(verb(tr, en), form) for form in ("third", "past", "ing")]

    assert forms("ye") == ["eats", "ate", "eating"]
    assert forms("yaz") == ["writes", "wrote", "writing"]
    assert forms("kes") == ["cuts", "cut", "cutting"]
    assert forms("taşı") == ["carries", "carried", "carrying"]
    assert forms("izle") == ["watches", "watched", "watching"]
    assert forms("ara") == ["looks for", "looked for", "looking for"]
    assert forms("unut") == ["forgets", "forgot", "forgetting"]
    assert forms("aç") == ["opens", "opened", "opening"]
    assert forms("kucakla") == ["hugs", "hugged", "hugging"]
    assert forms("git") == ["goes to", "went to", "going to"]
    assert forms("gör") == ["sees", "saw", "seeing"]
    assert forms("bin", "get on") == ["gets on", "got on", "getting on"]
    plurals = {
        "çocuk": "children",
        "fare": "mice",
        "kutu": "boxes",
        "öykü": "stories",
        "kurt": "wolves",
        "kedi": "cats",
    }
    plurals |= {"domates": "tomatoes", "maymun": "monkeys", "otobüs": "buses", "piyano": "pianos", "bıçak": "knives"}
    assert {word: turkish.english_plural(noun(word)) for word in plurals} == plurals


@pytest.fixture(scope="module")
def splits():
    return {split: list(sentences(split)) for split in SIZES}


def test_sizes_and_stems(splits):
    assert {split: len(rows) for split, rows in splits.items()} == SIZES
    stems = list(all_stems())
    assert len(stems) >= 350
    assert set(stems) <= {stem for row in splits["train"] for stem in row.stems}


def test_combinations_are_held_out_and_stems_are_not(splits):
    train = splits["train"]
    triples, texts = {row.triple for row in train}, {row.en for row in train}
    stems = Counter(stem for row in train for stem in set(row.stems))
    for split in ("validation", "test"):
        for row in splits[split]:
            assert row.triple not in triples
            assert row.en not in texts
            assert min(stems[stem] for stem in row.stems) >= 10
    assert not {row.triple for row in splits["validation"]} & {row.triple for row in splits["test"]}


def test_other_seeds_keep_the_split(splits):
    triples = {row.triple for row in splits["test"]}
    assert not triples & {row.triple for row in sentences("train", seed=7, size=2_000)}
    assert make_pairs("test", seed=1, size=50) != make_pairs("test", seed=0, size=50)
    assert make_pairs("test", size=50) == make_pairs("test")[:50]


def test_the_target_is_a_function_of_the_source(splits):
    targets = {}
    for seed in (1, 2, 3):
        for row in [*splits["train"], *splits["validation"], *splits["test"], *sentences("train", seed, 5_000)]:
            assert targets.setdefault(row.en, row.tr) == row.tr


def test_an_english_word_has_one_translation():
    assert len({noun.en for noun in NOUNS}) == len(NOUNS)
    assert len({noun.tr for noun in NOUNS}) == len(NOUNS)
    complement_types = {}
    for use in VERBS:  # "play the piano" and "play in the garden" differ in whether there is an object
        complement_types.setdefault((use.en, use.case == "loc"), set()).add(use.tr)
    assert all(len(stems) == 1 for stems in complement_types.values())
    for word in NOUNS:  # "old" is yaşlı of living things and eski of others, never both
        english = [adjective.en for adjective in ADJECTIVES if turkish_lexicon.fits(adjective.types, word)]
        assert len(set(english)) == len(english)


def test_every_type_in_use_belongs_to_some_noun():
    known = {tag for word in NOUNS for tag in word.tags}
    used = {t.lstrip("-") for use in VERBS for t in use.subjects + use.objects}
    used |= {t.lstrip("-") for word in ADJECTIVES for t in word.types}
    assert used <= known


def test_english_sentences_are_well_formed(splits):
    mass = {word.en for word in NOUNS if "mass" in word.tags}
    for row in splits["train"]:
        words = row.en[:-1].split()
        assert row.en[0].isupper()
        assert row.en[-1] in ".?"
        assert "  " not in row.en
        assert (row.en[-1] == "?") == (row.tr[-1] == "?")
        for word, following in zip(words, words[1:], strict=False):
            if word.lower() in ("a", "an"):
                assert (word.lower() == "an") == (following[0] in "aeiou"), row.en
                assert following not in mass, row.en
        if row.en[-1] == "?":
            assert words[0] in {"Did", "Do", "Does", "Am", "Is", "Are", "Will"}
        assert not set(words) & {"i", "mouses", "childs", "mans", "womans", "eated", "goed", "gos"}


def test_turkish_sentences_obey_vowel_harmony(splits):
    """An independent check on finished text: the particle and -yor agree with the vowel before them."""
    high = dict(zip("aıeiouöü", "ııiiuuüü", strict=True))
    for row in splits["train"]:
        assert row.tr[0].isupper()
        assert "  " not in row.tr
        words = row.tr[:-1].split()
        if row.tr[-1] == "?":
            verb_vowel = [letter for letter in words[-2].lower() if letter in high][-1]
            assert words[-1][:2] == "m" + high[verb_vowel], row.tr
        for word in words:
            assert not word.endswith(("ayor", "eyor", "oyor")), row.tr


def test_the_same_in_another_process():
    code = "import json; from regard.train.turkish import make_pairs; print(json.dumps(make_pairs('train', 3, 300)))"
    for hash_seed in ("0", "12345"):
        result = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert json.loads(result.stdout) == make_pairs("train", 3, 300)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="split must be one of train, validation, test, not 'dev'"):
        make_pairs("dev")
    with pytest.raises(ValueError, match="size must be at least 0, not -1"):
        make_pairs("train", size=-1)
    assert make_pairs("test", size=0) == []


def test_a_size_beyond_the_words_is_an_error(monkeypatch):
    only = next(sentences("train"))
    monkeypatch.setattr(turkish, "_draw", lambda rng: only)
    with pytest.raises(ValueError, match="size=2 is more than the generator finds for split 'train': use at most 1"):
        make_pairs("train", size=2)
