"""Tokenizers: what is lost, what is not, and that a saved one comes back as it was."""

import json
import math
import os
import subprocess
import sys
import warnings
from itertools import product

import numpy as np
import pytest
from tokenizers.decoders import DecodeStream
from transformers import AutoTokenizer, DataCollatorForLanguageModeling, TextStreamer

from regard.train.sections import REGRESSION, TASKS, WORD_VECTORS
from regard.train.tokenization import KINDS, TASK_OPTIONS, TEMPLATES, train_tokenizer
from regard.train.unigram import Lattice, train_unigram

TEXTS = [
    "The cat ate the mouse.",
    "The mouse did not eat the cat, did it?",
    "Kedi fareyi yedi.",
    "Fare kediyi yemedi; köpekler (büyük ve küçük) şaşırdı!",
    "Don't you see Ankara'nın ışıkları at 12:30 for 3.14 lira?",
    "the cat  and\tthe mouse\nand the dog",
    "ein gemütlicher Hund und eine süße Maus, well-known [here]",
] * 3
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
# Case: decode(encode(s)) == s
HARD = [
    "x != y",
    " two spaces ",
    "a\n\tb",
    "the party . . .",
    " lead",
    "   more lead",
    "",
    "\u2026 ellipsis",
    "e\u0301",
    "\r\n\u00a0\u3000 spaces",
    "don't (go) [now] {or} 3.14",
    "</s><s> a</s>b <mask>",
    "▁ Ġ ## ##x",
]
UNSEEN = [
    "😀 smile",
    "日本語のテキスト",
    "👩\u200d👩\u200d👧\u200d👦 family",
    "∰ ⊭ ℵ",
    "नमस्ते",
    "\x00\x1f\x7f",
    "\ufffd",
]


def trained(kind, vocab_size=400, texts=TEXTS, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # small corpora yield small vocabularies
        return train_tokenizer(texts, kind, vocab_size, **options)


def round_trip(tokenizer, text):
    return tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True)


# --- text in, the same text out ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HARD + UNSEEN)
def test_byte_bpe_gives_every_text_back(text):
    tokenizer = trained("byte-bpe", template="eos")
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids[:-1]) == text
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    assert min(ids[:-1], default=5) > 4  # no unknown, no control token


@pytest.mark.parametrize("text", ["a😀b 日本 👩\u200d👩\u200d👧\u200d👦 ∰ e\u0301 son", " lead and trail "])
def test_streamed_decoding_writes_whole_characters(text, capsys):
    tokenizer = trained("byte-bpe", 261, template="none")  # bytes only: each of these characters is several tokens
    ids = tokenizer(text)["input_ids"]
    assert len(ids) == len(text.encode())
    stream = DecodeStream(skip_special_tokens=True)
    chunks = [chunk for i in ids if (chunk := stream.step(tokenizer.backend_tokenizer, i)) is not None]
    assert "".join(chunks) == text
    assert not any("\ufffd" in chunk for chunk in chunks)
    streamer = TextStreamer(tokenizer)
    for i in ids:
        streamer.put(np.array([i]))
    streamer.end()
    assert capsys.readouterr().out == text + "\n"


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_lost_is_lost_once(kind, lowercase):
    tokenizer = trained(kind, lowercase=lowercase)
    for text in HARD + UNSEEN + TEXTS:
        once = round_trip(tokenizer, text)
        assert round_trip(tokenizer, once) == once, text


@pytest.mark.parametrize("kind", ["unigram", "wordpiece", "word", "char"])
def test_ordinary_sentences_survive_every_kind(kind):
    tokenizer = trained(kind, min_frequency=1)
    for text in [text for text in TEXTS if "\n" not in text]:
        assert round_trip(tokenizer, text) == text


def test_char_keeps_known_characters_and_marks_others():
    text = "First Citizen:\n\nBefore  we proceed,\thear me.\n e\u0301$"
    tokenizer = trained("char", texts=[text], template="none")  # "$" occurs once, below min_frequency
    assert len(tokenizer) == len(set(text)) + len(SPECIAL)
    assert tokenizer(text)["input_ids"] == [tokenizer.convert_tokens_to_ids(c) for c in text]
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer("hZm")["input_ids"][1] == tokenizer.unk_token_id


def test_declared_losses():
    word = trained("word", 600, min_frequency=1, template="none")
    assert word.tokenize("Kedi fareyi yedi.") == ["Kedi", "fareyi", "yedi", "."]
    assert word.tokenize("Don't see Ankara'nın 3.14 (12:30)") == [
        "Don't",
        "see",
        "Ankara'nın",
        "3.14",
        "(",
        "12:30",
        ")",
    ]
    assert word("The zebra ate")["input_ids"][1] == word.unk_token_id
    assert round_trip(word, "The  cat\nate .") == "The cat ate."
    unigram = trained("unigram", template="none")
    assert round_trip(unigram, "  The\n cat ▁ate ") == "The cat ate"
    assert unigram("😀")["input_ids"][-1] == unigram.unk_token_id
    wordpiece = trained("wordpiece", template="none")
    assert wordpiece("tacos unsee")["input_ids"].count(wordpiece.unk_token_id) == 0  # new words, known characters
    assert wordpiece("caжt cat")["input_ids"][0] == wordpiece.unk_token_id
    for kind in ("word", "wordpiece", "unigram"):  # NFC: a decomposed letter is the composed one
        tokenizer = trained(kind, min_frequency=1)
        assert tokenizer("ko\u0308pekler")["input_ids"] == tokenizer("köpekler")["input_ids"]


PHONES = r"[A-Z]+|[^\sA-Z]"


def test_a_pattern_says_what_a_word_is(tmp_path):
    texts = ["photon", "F OW T AA N", "o'er-2.", "OW ER T UW ##"]
    trained("word", texts=texts, pattern=PHONES, min_frequency=1, template="eos").save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.tokenize("photon o'er-2.") == list("photono'er-2.")
    assert tokenizer.tokenize("F OW\tT  AA N") == ["F", "OW", "T", "AA", "N"]
    assert set(tokenizer.get_vocab()) == {*SPECIAL, *"photnr'e-2.#", "F", "OW", "T", "AA", "N", "ER", "UW"}
    assert round_trip(tokenizer, "F OW T AA N") == "F OW T AA N"
    assert round_trip(tokenizer, "  F  OW ") == "F OW"
    assert round_trip(tokenizer, "T # . OW") == "T # . OW"  # one space between any two, whatever they are
    assert tokenizer("F ZH")["input_ids"][1:] == [tokenizer.unk_token_id, tokenizer.eos_token_id]
    padded = [tokenizer("F OW")["input_ids"] + [0, 0]]
    assert tokenizer.batch_decode(padded, skip_special_tokens=True) == ["F OW"]


def test_a_pattern_drops_what_it_does_not_match_and_may_take_lower_case():
    tokenizer = trained("word", texts=["AB12cd", "ab"], pattern="[a-z]+", min_frequency=1, lowercase=True)
    assert tokenizer.tokenize("AB12cd") == ["ab", "cd"]
    assert round_trip(tokenizer, "AB12cd") == "ab cd"


@pytest.mark.parametrize(
    ("kind", "pattern", "sentence"),
    [
        ("word", "[A-", r"tokenizer.pattern='\[A-' is not a regular expression: .*premature end of char-class\."),
        ("char", "[A-Z]", r"tokenizer.pattern='\[A-Z\]' is for kind 'word', and tokenizer.kind is 'char'\."),
        ("word", "[0-4]x", r"tokenizer.pattern='\[0-4\]x' matches nothing in the texts\."),
        ("word", "", "tokenizer.pattern='' matches nothing in the texts"),
    ],
)
def test_a_pattern_that_cannot_work_is_refused(kind, pattern, sentence):
    with pytest.raises(ValueError, match=sentence):
        train_tokenizer(TEXTS, kind, 100, pattern=pattern)


def test_lowercase_follows_unicode_not_turkish():
    tokenizer = trained("byte-bpe", lowercase=True)
    assert round_trip(tokenizer, "KEDI Fareyi") == "kedi fareyi"
    assert round_trip(tokenizer, "İIı") == "i\u0307iı"
    assert tokenizer("THE CAT")["input_ids"] == tokenizer("the cat")["input_ids"]


# --- special tokens, templates, saving ---------------------------------------------------------------------------


def expected_template(template, first, second=None):
    """The SPECIAL ids around texts, written out by hand."""
    bos, eos = template in ("bos", "bos-eos"), template in ("eos", "bos-eos")
    ids = [1] * bos + first + [2] * eos
    types = [0] * len(ids)
    if second is not None:
        ids, types = ids + second + [2] * eos, types + [1] * (len(second) + eos)
    return ids, types


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_comes_back_the_same(kind, template, tmp_path):
    tokenizer = trained(kind, max_length=77, template=template, return_token_type_ids=template == "bos-eos")
    tokenizer.save_pretrained(tmp_path / "a")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "a")
    loaded.save_pretrained(tmp_path / "b")
    assert (tmp_path / "a/tokenizer.json").read_bytes() == (tmp_path / "b/tokenizer.json").read_bytes()
    assert type(loaded) is type(tokenizer)
    for t in (tokenizer, loaded):
        assert [t.pad_token, t.bos_token, t.eos_token, t.unk_token, t.mask_token] == SPECIAL
        assert [t.pad_token_id, t.bos_token_id, t.eos_token_id, t.unk_token_id, t.mask_token_id] == [0, 1, 2, 3, 4]
        assert sorted(t.get_vocab().values()) == list(range(len(t)))
        assert t.vocab_size == len(t) <= 400
        assert (t.model_max_length, t.padding_side, t.split_special_tokens) == (77, "right", True)
        assert t.clean_up_tokenization_spaces is False
        assert t.model_input_names[0] == "input_ids"
        assert t.get_vocab() == tokenizer.get_vocab()

        cat, dog = (t(text, add_special_tokens=False)["input_ids"] for text in ("the cat", "and dog"))
        assert min(cat + dog) >= 3
        assert t("the cat")["input_ids"] == expected_template(template, cat)[0]
        pair = t("the cat", "and dog", return_token_type_ids=True)
        assert (pair["input_ids"], pair["token_type_ids"]) == expected_template(template, cat, dog)
        assert ("token_type_ids" in t("the cat", "and dog")) == (template == "bos-eos")

        batch = t(["the cat", "the cat and the mouse"], padding=True)
        padding = len(batch["input_ids"][1]) - len(t("the cat")["input_ids"])
        assert padding > 0
        assert batch["input_ids"][0] == t("the cat")["input_ids"] + [0] * padding
        assert batch["attention_mask"][0] == [1] * len(t("the cat")["input_ids"]) + [0] * padding
        long = t("the cat " * 100, truncation=True)["input_ids"]
        assert len(long) == 77
        assert (long[-1] == 2) == (template in ("eos", "bos-eos"))


READ = """
import json, sys
sys.modules["regard"] = None  # as where it is not installed
from transformers import AutoTokenizer
t = AutoTokenizer.from_pretrained(sys.argv[1])
texts = json.loads(sys.argv[2])
print()  # a question may stand on the line
print(json.dumps([type(t).__name__, t.all_special_tokens, t(texts)["input_ids"], t.model_max_length]))
"""


@pytest.mark.parametrize("auto_map", [None, {"AutoConfig": "configuration_nowhere.NowhereConfig"}])
def test_a_run_folder_loads_where_regard_is_not_installed(auto_map, tmp_path):
    """The folder also holds the config of a model that the reader does not know; standard input is closed."""
    tokenizer = trained("unigram")
    tokenizer.save_pretrained(tmp_path)
    config = {"model_type": "regard-nowhere"} | ({"auto_map": auto_map} if auto_map else {})
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "auto_map" not in json.loads((tmp_path / "tokenizer_config.json").read_text())
    texts = ["The cat ate the mouse.", "", "a</s>b"]
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path), json.dumps(texts)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    name, special, ids, max_length = json.loads(done.stdout.splitlines()[-1])
    assert name == type(tokenizer).__name__
    assert special == tokenizer.all_special_tokens
    assert ids == tokenizer(texts)["input_ids"]
    assert max_length == 512


@pytest.mark.parametrize("kind", KINDS)
def test_text_cannot_carry_control_tokens(kind, tmp_path):
    """Also not when the names are so frequent in training that a trainer would like to make them one piece."""
    texts = TEXTS + [" ".join(SPECIAL), "".join(SPECIAL), "word</s>word <s>", "a<pad>"] * 50
    trained(kind, 600, texts).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for text in texts:
        assert not {0, 1, 2, 4} & set(tokenizer(text)["input_ids"][1:-1]), text
        assert not {0, 1, 2, 4} & set(tokenizer(text, add_special_tokens=False)["input_ids"]), text
    assert tokenizer.encode("</s>", add_special_tokens=False, split_special_tokens=False) == [
        2
    ]  # when one asks for it


@pytest.mark.parametrize("kind", KINDS)
def test_masked_language_models_read_their_mask(kind, tmp_path):
    trained(kind, **TASK_OPTIONS["masked-lm"]).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer("The <mask> ate")["input_ids"]
    assert ids.count(4) == 1
    if kind in ("byte-bpe", "unigram"):  # the space before a mask belongs to it, as to any other piece
        assert ids[: ids.index(4)] == tokenizer("The")["input_ids"][:-1]
    assert 4 not in tokenizer("The <mask> ate", split_special_tokens=True)["input_ids"]


def test_a_causal_prompt_is_open_ended():
    """Generation goes on from a prompt that does not end in </s>; see also that a task exists for each recipe kind."""
    tokenizer = trained("byte-bpe", **TASK_OPTIONS["causal-lm"])
    ids = tokenizer("the cat")["input_ids"]
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.eos_token_id not in ids
    assert set(TASK_OPTIONS) == set(TASKS) - {WORD_VECTORS, REGRESSION}


def test_the_end_keeps_its_label_when_rows_are_padded():
    """pad and eos are two tokens here, so that the library's collator ignores only padding."""
    tokenizer = trained("byte-bpe", template="eos")
    rows = [tokenizer("x"), tokenizer("x y z")]
    labels = DataCollatorForLanguageModeling(tokenizer, mlm=False)(rows)["labels"]
    assert (labels == tokenizer.eos_token_id).sum(1).tolist() == [1, 1]
    assert (labels == -100).sum(1).tolist() == [len(rows[1]["input_ids"]) - len(rows[0]["input_ids"]), 0]


# --- training -----------------------------------------------------------------------------------------------------

TRAIN = """
import sys, warnings
warnings.simplefilter("ignore")
from regard.train.tokenization import train_tokenizer
texts = open(sys.argv[1], encoding="utf-8").read().split("|")
for kind in sys.argv[3:]:
    train_tokenizer(iter(texts), kind, 400).save_pretrained(f"{sys.argv[2]}/{kind}")
"""


def test_training_is_the_same_in_every_process(tmp_path):
    rng = np.random.default_rng(0)  # many words of equal frequency: ties everywhere
    words = ["".join(letters) for letters in product("bdk", "aeı", "nrş", "aeı")]
    (tmp_path / "texts").write_text("|".join([*TEXTS, *(" ".join(rng.permutation(words)) for _ in range(4))]))
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", TRAIN, str(tmp_path / "texts"), str(tmp_path / seed), *KINDS],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
        )
    for kind in KINDS:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            one, two = (tmp_path / seed / kind / name for seed in ("1", "2"))
            assert one.read_bytes() == two.read_bytes(), kind


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_asked_for_is_the_size_given(kind, caplog):
    size = {"byte-bpe": 290, "wordpiece": 120, "unigram": 90, "word": 30, "char": 30}[kind]
    tokenizer = train_tokenizer((text for text in TEXTS), kind, size)
    assert len(tokenizer) == size
    assert sorted(tokenizer.get_vocab().values()) == list(range(size))
    assert not caplog.records
    small = train_tokenizer(TEXTS, kind, 9999)
    said = f"tokenizer.vocab_size: 9999 entries were asked for, and the texts yield {len(small)} of kind {kind}"
    assert (said in caplog.text) == (kind != "char")  # of characters there are as many as there are


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [["a"], ["ab"], ["a b"], ["", "kedi", ""], ["ab" * 500], ["日本語" * 60]])
def test_tiny_corpora(kind, texts):
    tokenizer = trained(kind, texts=texts, min_frequency=1)
    assert sorted(tokenizer.get_vocab().values()) == list(range(len(tokenizer)))
    if kind != "wordpiece":  # its words end at 100 characters
        assert all(round_trip(tokenizer, text) == text for text in texts)


def test_min_frequency_bounds_the_vocabulary():
    texts = ["kedi kedi kedi fare fare köpek"]
    assert set(trained("word", texts=texts, min_frequency=2).get_vocab()) == {*SPECIAL, "kedi", "fare"}
    assert set(trained("word", 6, texts=texts).get_vocab()) == {*SPECIAL, "kedi"}
    assert not any(len(piece) > 2 for piece, _ in train_unigram({"▁fare": 1, "▁köpek": 1}, 100))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ((TEXTS, "byte-bpe", 260), ["260", "261", "256 bytes"]),
        ((TEXTS, "unigram", 20), ["20", "distinct characters"]),
        ((TEXTS, "wordpiece", 20), ["20", "characters"]),
        ((TEXTS, "word", 5), ["5", "6"]),
        ((TEXTS, "char", 5), ["5", "6"]),
        ((TEXTS, "bytebpe", 400), ["'bytebpe'", "did you mean 'byte-bpe'?"]),
        ((TEXTS, "word", 0), ["vocab_size=0"]),
        ((TEXTS, "word", "400"), ["vocab_size='400'"]),
        (("one text", "word", 400), ["iterable"]),
        ((["a", None], "char", 400), ["item 1", "None"]),
        ((["a", None], "byte-bpe", 400), ["item 1", "None"]),
        *[(([], kind, 400), ["empty"]) for kind in KINDS],
        *[((["", " \n"], kind, 400), ["empty"]) for kind in KINDS],
    ],
)
def test_errors_say_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=r".") as error:
        train_tokenizer(*call)
    assert all(word in str(error.value) for word in words), error.value


def test_unknown_template_names_the_nearest():
    with pytest.raises(ValueError, match="template='bos_eos'.*did you mean 'bos-eos'"):
        train_tokenizer(TEXTS, "char", 100, template="bos_eos")


# --- the unigram model against an enumeration ----------------------------------------------------------------------


def segmentations(word, pieces):
    if not word:
        yield []
    for end in range(1, len(word) + 1):
        if word[:end] in pieces:
            yield from ([word[:end], *rest] for rest in segmentations(word[end:], pieces))


def test_unigram_expectations_equal_a_sum_over_all_segmentations():
    pieces = ["a", "b", "ab", "ba", "aba", "bab"]
    p = np.array([0.3, 0.2, 0.15, 0.15, 0.1, 0.1])
    words, frequency = ["abab", "b", "abbabaab", "bab"], np.array([3.0, 1.0, 2.0, 5.0])
    expected, totals = dict.fromkeys(pieces, 0.0), []
    for word, n in zip(words, frequency, strict=True):
        paths = list(segmentations(word, pieces))
        weights = [math.prod(p[pieces.index(piece)] for piece in path) for path in paths]
        totals.append(sum(weights))
        for path, weight in zip(paths, weights, strict=True):
            for piece in path:
                expected[piece] += n * weight / sum(weights)
    lattice = Lattice(words, {piece: i for i, piece in enumerate(pieces)})
    np.testing.assert_allclose(lattice.forward(p)[1], np.array(totals)[lattice.order], rtol=1e-12)
    np.testing.assert_allclose(lattice.expected_counts(p, frequency), list(expected.values()), rtol=1e-12)


def test_unigram_finds_the_words_that_made_the_text():
    """Two-word compounds of ten stems, each met once: the stems explain them best and outlive all other substrings."""
    stems = ["kedi", "fare", "araba", "orman", "yol", "deniz", "kitap", "masa", "okul", "bahçe"]
    counts = {one + two: 1 for one in stems for two in stems if one != two}
    characters = len(set("".join(stems)))
    pieces = [piece for piece, _ in train_unigram(counts, characters + len(stems))]
    assert {piece for piece in pieces if len(piece) > 1} == set(stems)
    assert set(pieces[: len(stems)]) == set(stems)
