"""Which words get a row: exact counts, subsampling, and words that come later."""

import tracemalloc
import unicodedata

import numpy as np
import pytest
from datasets import Dataset
from tokenizers import Regex, pre_tokenizers

from regard.modeling import Word2VecModel
from regard.train import corpus as corpus_module
from regard.train.corpus import BREAK, EncodedCorpus, RowSentences, TextSentences, WordSplitter, number_sentences
from regard.train.tokenization import word_tokenizer
from regard.train.vocabulary import count_words, keep_probabilities, update_vocabulary
from regard.train.word2vec_kernels import MAX_SENTENCE


def zipf_sentences(types: int) -> list[list[str]]:
    """Word i occurs 1 + types // (i + 1) times, the words in no order."""
    counts = [1 + types // (i + 1) for i in range(types)]
    words = np.repeat(np.arange(types), counts)
    np.random.default_rng(0).shuffle(words)
    return [[f"w{i}" for i in part] for part in np.array_split(words, 2000)]


def test_a_bound_keeps_the_true_most_frequent_words_with_their_true_counts():
    types, bound = 47_000, 10_000
    sentences = zipf_sentences(types)
    vocabulary = count_words(sentences, min_count=1, max_words=bound)

    true = np.array([1 + types // (i + 1) for i in range(types)])
    assert len(vocabulary.words) == bound
    assert {f"w{i}" for i in np.flatnonzero(true > true[bound])} <= set(vocabulary.words)
    assert all(true[int(w[1:])] == n for w, n in zip(vocabulary.words, vocabulary.counts, strict=True))
    assert vocabulary.counts.tolist() == sorted(true, reverse=True)[:bound]
    assert (vocabulary.total, vocabulary.dropped) == (true.sum(), types - bound)


def test_words_of_one_count_come_in_order_of_appearance():
    vocabulary = count_words([["c", "b", "a"], ["a", "b", "c", "d"]], min_count=2)
    assert vocabulary.words == ["c", "b", "a"]
    assert (vocabulary.total, vocabulary.dropped) == (7, 1)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([], "empty, or a generator that was used up"),
        ([[], []], "no words to learn from"),
        ("the cat sat", "split it"),
        (["the cat sat"], "Sentence 1 is a text, not a list of words"),
        ([["a"], 5], "Sentence 2 is 5"),
        ([["a", 7]], "A word must be text, not 7"),
        ([["a", ["b"]]], "A word must be text"),
        ([["a"], None], "Sentence 2 is None, not a list"),
        ([{"id": 1, "text": "the cat"}], "Sentence 1 is a row with the columns 'id', 'text'.*RowSentences"),
        (Dataset.from_dict({"text": ["the cat"]}), "Sentence 1 is a row with the columns 'text'"),
        ([{"a", "b"}], "Sentence 1 is a set, and the order of words matters"),
        ([["a", "b", "c"]], "No word occurs min_count=5 times.*'a', occurs 1 times"),
        ([["a"] * 9 + ["b"]], "Only one word occurs min_count=5"),
    ],
)
def test_a_corpus_without_a_vocabulary_is_refused(sentences, message):
    with pytest.raises(ValueError, match=message):
        count_words(sentences)


def test_a_generator_can_be_used_once():
    generator = (words for words in [["a", "b"]] * 5)
    assert count_words(generator).words == ["a", "b"]
    with pytest.raises(ValueError, match="used up"):
        count_words(generator)


def test_sentences_are_anything_that_has_words_in_an_order(monkeypatch):
    monkeypatch.setattr(corpus_module, "BLOCK", 7)
    sentences = [list("abc"), tuple("ab"), np.array(["a", "c"]), (word for word in "bb"), list("abc") * 9]
    text = number_sentences(sentences)
    assert text.tokens.tolist() == [0, 1, 2, -1, 0, 1, -1, 0, 2, -1, 1, 1, -1, *[0, 1, 2] * 9, -1]
    assert dict(zip(text.words, text.counts.tolist(), strict=True)) == {"a": 12, "b": 13, "c": 11}


def test_what_was_read_is_told(monkeypatch):
    monkeypatch.setattr(corpus_module, "BLOCK", 4)
    told = []
    number_sentences([["a", "b"], ["a"], ["c", "d", "a"]], report=lambda *numbers: told.append(numbers))
    assert told == [(3, 2), (6, 4)]


def test_a_text_that_was_only_counted_cannot_be_encoded():
    with pytest.raises(ValueError, match="keep_tokens=True"):
        number_sentences([["a", "b"]], keep_tokens=False).encode(["a", "b"])


@pytest.mark.parametrize("in_a_file", [True, False])
def test_sentences_and_their_words_in_rows(tmp_path, in_a_file):
    sentences = [["a", "b", "rare", "a"], [], ["rare"], ["b", "b", "a"]]
    text = number_sentences(sentences, tmp_path / "text.int32" if in_a_file else None)
    corpus = text.encode(["b", "a"], tmp_path / "rows.int32" if in_a_file else None)
    assert corpus.tokens.tolist() == [1, 0, 1, BREAK, 0, 0, 1, BREAK]
    assert corpus.num_words == 6
    assert text.vocabulary(min_count=2).words == ["a", "b", "rare"]
    if in_a_file:
        again = EncodedCorpus.open(tmp_path / "rows.int32", 6)
        assert again.tokens.tolist() == corpus.tokens.tolist()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.int32", "text.int32"]


def test_a_sentence_of_any_length_loses_no_word():
    length = 2 * MAX_SENTENCE + 123
    corpus = number_sentences([["a", "b"] * (length // 2) + ["a"]]).encode(["a", "b"])
    assert corpus.num_words == length
    assert np.diff(np.flatnonzero(corpus.tokens == BREAK), prepend=-1).tolist() == [MAX_SENTENCE + 1] * 2 + [124]


def test_chunks_end_with_sentences_and_hold_all():
    rng = np.random.default_rng(0)
    sentences = [["a"] * n for n in rng.integers(1, 400, 2000)] + [["b"] * 5]
    corpus = number_sentences(sentences).encode(["a", "b"])
    bounds = corpus.chunks()
    assert bounds[0] == 0
    assert bounds[-1] == len(corpus.tokens)
    assert (np.diff(bounds) > 0).all()
    assert (corpus.tokens[bounds[1:] - 1] == BREAK).all()
    assert len(bounds) > 20


def test_sentences_without_two_known_words_are_refused(tmp_path):
    text = number_sentences([["a", "x"], ["b", "y"], ["a"]] * 3)
    with pytest.raises(ValueError, match="No sentence holds two words"):
        text.encode(["a", "b"], tmp_path / "rows")
    assert not list(tmp_path.iterdir())


def test_text_files_are_read_in_blocks_line_by_line(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\ufeffThe Cat\n\nsat -- on É E\u0301 ΣΑΣ\r\nlast", encoding="utf-8")
    split = WordSplitter(r"[\p{L}\p{M}]+|\p{N}+", lowercase=True)
    expected = [["the", "cat"], ["sat", "on", "é", "é", "σασ"], ["last"]]
    for block in (1, 7, 2**20):
        sentences = TextSentences(path, split.lines, block)
        assert list(sentences) == expected
        assert list(sentences) == expected, "a text can be walked through again"


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"good\n" * 10 + b"b\xffd\n")
    with pytest.raises(ValueError, match=r"text.txt, line 11: the byte 0xff is not UTF-8"):
        list(TextSentences(path, WordSplitter(r"\S+").lines, block=16))


def test_a_line_without_an_end_is_cut_at_blanks(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"wört{i}" for i in rng.integers(0, 1000, 5000)]
    path = tmp_path / "text.txt"
    path.write_text("first line\n" + " ".join(words), encoding="utf-8")
    for block, longest in ((1, 50), (64, 100), (1000, 999), (2**20, 64)):
        sentences = list(TextSentences(path, WordSplitter(r"\S+").lines, block, longest))
        assert sentences[0] == ["first", "line"]
        assert [word for sentence in sentences[1:] for word in sentence] == words
        assert max(map(len, sentences)) <= (block + 2 * longest) // 5 or block == 2**20


@pytest.mark.parametrize("letter", ["a", "é", "字", "𝒳"])
def test_a_line_without_blanks_is_cut_between_letters(tmp_path, letter):
    path = tmp_path / "text.txt"
    path.write_text(letter * 1000, encoding="utf-8")
    for block, longest in ((1, 8), (7, 9), (8, 11)):
        parts = [word for words in TextSentences(path, WordSplitter(r"\S+").lines, block, longest) for word in words]
        assert "".join(parts) == letter * 1000


def test_the_place_of_bytes_that_are_no_text_is_told_in_a_long_line_too(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"good\n" * 3 + b"long " * 100 + b"b\xffd\n")
    with pytest.raises(ValueError, match=r"text.txt, line 4: the byte 0xff"):
        list(TextSentences(path, WordSplitter(r"\S+").lines, block=16, longest=20))


def test_rows_of_a_data_set_may_be_books(monkeypatch):
    monkeypatch.setattr(corpus_module, "LONGEST_LINE", 100)
    rng = np.random.default_rng(0)
    books = [" ".join(f"w{i}" for i in rng.integers(0, 1000, number)) for number in (3, 1000, 0, 50)]
    books.append("x" * 250)
    for dataset in (Dataset.from_dict({"text": books, "id": range(5)}), Dataset.from_dict({"text": books})):
        for rows in (dataset, dataset.to_iterable_dataset()):
            sentences = list(RowSentences(rows, "text", WordSplitter(r"\S+").lines))
            assert max(len(" ".join(sentence)) for sentence in sentences) <= 100
            words = [word for sentence in sentences for word in sentence]
            assert words[:-3] == " ".join(books[:-1]).split()
            assert "".join(words[-3:]) == books[-1]
    with pytest.raises(ValueError, match=r"no column 'txt' in the data set, which has 'text'"):
        RowSentences(dataset, "txt", WordSplitter(r"\S+").lines)
    numbers = Dataset.from_dict({"text": ["a", "b", None]})
    with pytest.raises(ValueError, match="Row 3: the column 'text' holds None, not text"):
        list(RowSentences(numbers, "text", WordSplitter(r"\S+").lines))


def test_line_ends_of_windows_are_no_part_of_a_word():
    assert list(WordSplitter("[^ ]+").lines("the cat\r\nsat\r\n")) == [["the", "cat"], ["sat"]]


def test_patterns_that_are_none_are_refused():
    for pattern in ("[a", "(a)b"):
        with pytest.raises(ValueError, match="tokenizer.pattern"):
            WordSplitter(pattern)
    for pattern in (r"[\p{L}]*", r"\b", r"(?:ab)?", r"x{0,}"):
        with pytest.raises(ValueError, match="matches the empty text"):
            WordSplitter(pattern)


def tokenizer_words(text: str, pattern: str | None, lowercase: bool) -> list[str]:
    backend = word_tokenizer(["a"], pattern, lowercase).backend_tokenizer
    return [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(backend.normalizer.normalize_str(text))]


@pytest.mark.parametrize("pattern", [None, r"\S+", r"\w+", r"[\w'-]+", r"\W+", r"[^ ]+", r"[\p{L}\p{M}]+|\p{N}+"])
@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "<s> the cat </s> <pad>x <mask> <unk> a<s>b <PAD> <S>",
        "5 m² and x³, ¼ of a\u200db; don't re-read the_cat",
        "a\x1cb\x1dc\x1ed\x1fe\x85f\u3000g",
        "İstanbul ΣΑΣ É E\u0301",
    ],
)
def test_words_are_those_that_the_tokenizer_makes(pattern, lowercase, text):
    assert WordSplitter(pattern, lowercase)(text) == tokenizer_words(text, pattern, lowercase)


def test_word_characters_are_those_of_the_tokenizer():
    """Each library has the Unicode of its time: letters that one of them alone knows are left out."""
    letters = [chr(i) for i in range(0x3000) if unicodedata.is_normalized("NFC", chr(i))]

    def ours(pattern: str) -> set[str]:
        return {letter for letter in letters if WordSplitter(pattern)(letter)}

    def theirs(pattern: str) -> set[str]:
        split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
        return {letter for letter in letters if split.pre_tokenize_str(letter)}

    categories = r"[\p{L}\p{M}\p{N}\p{Pc}]"
    known_to_one = ours(categories) ^ theirs(categories)
    for pattern in (r"\w", r"[\w]"):
        assert len(ours(pattern)) > 5000
        assert ours(pattern) - known_to_one == theirs(pattern) - known_to_one
    assert ours(r"\S") == theirs(r"\S")
    assert ours(r"\S+") == theirs(r"\S+")


def test_subsampling_keeps_by_share():
    """Expected values: the original's formula with t = 1e-3, by hand."""
    shares = np.array([0.01, 0.001, 2.618e-3, 1e-9])
    counts = np.append(shares, 1 - shares.sum()) * 1e12
    kept = keep_probabilities(counts, 1e-3)
    assert kept[0] == pytest.approx((10**0.5 + 1) / 10, abs=1e-5)
    assert kept[0] == pytest.approx(0.41623, abs=1e-5)
    assert kept[1:4].tolist() == [1, pytest.approx(1, abs=1e-4), 1]
    assert keep_probabilities(counts, 0).tolist() == [1] * 5
    assert keep_probabilities(np.array([0, 3]), 1e-3)[0] == 1


class TestMoreWords:
    def model(self):
        return Word2VecModel.from_vocabulary(["a", "b"], [9, 8], hidden_size=4, min_count=5)

    def test_rare_words_are_told_and_not_added(self):
        assert update_vocabulary(self.model(), [["python"]]) == {"added": [], "below_min_count": ["python"]}

    def test_nothing_new_changes_no_row(self):
        model = self.model()
        before = model.vectors.copy()
        assert update_vocabulary(model, [["a", "b", "a"]]) == {"added": [], "below_min_count": []}
        assert model.index_to_key == ["a", "b"]
        assert (model.vectors == before).all()
        assert model.counts.tolist() == [11, 9]

    def test_a_least_count_that_cannot_be_is_refused(self):
        with pytest.raises(ValueError, match="min_count=-3 must be at least 1"):
            update_vocabulary(self.model(), [["a"]], min_count=-3)

    def test_old_words_keep_their_rows(self):
        model = self.model()
        before = model.vectors.copy()
        new = [["a", "new"]] * 5 + [["newer"] * 3, ["rare"]]
        assert update_vocabulary(model, new, min_count=3) == {"added": ["new", "newer"], "below_min_count": ["rare"]}
        assert model.key_to_index == {"a": 0, "b": 1, "new": 2, "newer": 3}
        assert (model.vectors[:2] == before).all()
        assert model.counts.tolist() == [14, 8, 5, 3]


@pytest.mark.parametrize("end", ["\n", " "], ids=["lines", "one line"])
def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch, end):
    monkeypatch.setattr("regard.train.corpus.BLOCK", 2**12)
    monkeypatch.setattr("regard.train.corpus.STRETCH", 2**14)
    path = tmp_path / "text.txt"

    def peak(lines: int) -> int:
        path.write_text("".join(f"a b c d e f g w{i % 50}{end}" for i in range(lines)), encoding="utf-8")
        tracemalloc.start()
        sentences = TextSentences(path, WordSplitter(r"\S+").lines, block=2**14, longest=2**14)
        text = number_sentences(sentences, tmp_path / "text.int32")
        corpus = text.encode(text.vocabulary(1).words, tmp_path / "rows.int32")
        corpus.chunks()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert corpus.num_words == 8 * lines
        return most

    peak(100)  # compiles
    assert peak(40_000) < 1.5 * peak(8_000)
