"""Files of word vectors: every format against gensim's reader and writer, and what is wrong with bad ones."""

import gzip
import os
import pickle
import tracemalloc

import numpy as np
import pytest

from regard.modeling.decimals import PADDING, find_numbers, parse_numbers
from regard.modeling.vector_files import read_vectors, write_vectors
from regard.modeling.word_vectors import WordVectors, load_word_vectors

from .families import listening

WORDS = ["the", "日本", "naïve", "\u00a0", "3.14", "a-b", "'s", "-1", "1"]


@pytest.fixture(scope="module")
def keyed_vectors():
    models = pytest.importorskip(
        "gensim.models", reason="gensim, which these files are exchanged with, is not installed"
    )
    return models.KeyedVectors


def table(rows: int = len(WORDS), width: int = 7, seed: int = 0) -> np.ndarray:
    """Vectors of every size: some numbers are written with an exponent, some with several digits before the point."""
    generator = np.random.default_rng(seed)
    return (generator.normal(size=(rows, width)) * 10.0 ** generator.integers(-7, 4, (rows, width))).astype(np.float32)


def write(path, text: str | bytes):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# Numbers


def parse(text: bytes) -> np.ndarray:
    padded = np.frombuffer(b" " * PADDING + text + b" " * PADDING, dtype=np.uint8)
    return parse_numbers(padded, *find_numbers(padded))


@pytest.mark.parametrize(
    "style",
    ["%.1f", "%.4f", "%.6f", "%.8f", "%.9f", "%.15f", "%.17f", "%.24f", "%.30f", "%.9g", "%.3e", "%.18e", "%r", "%d"],
)
@pytest.mark.parametrize("scale", [1e-30, 1e-9, 1e-6, 1e-3, 0.3, 1.0, 50.0, 1e20])
def test_numbers_are_those_of_float(style, scale):
    values = (np.random.default_rng(0).normal(size=2000) * scale).tolist() + [0.0, -0.0, 1.0, -9.5]
    texts = [style % value for value in values]
    expected = np.array([float(text) for text in texts], dtype=np.float32)
    result = parse(" ".join(texts).encode())
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, expected)  # nearest, however many digits there are


def test_float32_is_read_again_exactly():
    values = table(50, 40).ravel()
    for texts in ([str(value) for value in values], [f"{value:.9g}" for value in values]):
        np.testing.assert_array_equal(parse("\t \r".join(texts).encode()), values)


@pytest.mark.parametrize(
    "text",
    [
        b"1.2.3 4.5",
        b"1.2.3 4",
        b"--1.5",
        b"-",
        b"- 1.5",
        b"- .5",
        b".",
        b"1.5-",
        b"-.",
        b"0.1_0",
        b"a.5",
        b"0.5f",
        b"0.-5",
    ]
    + [b"1,5", b"\xd9\xa1.5", b"0.12345678x", b"x 0.5 0.5", b"0.5 1e", b"e5 0.5", b"1.5 2..5", b"2.5 -.-5"]
    + [b"1.5e5e5 7", b"1.5e+", b"1.5ee5", b"1.5e-5.5 7", b"7 1.5e", b"1.5e5- 7"],
)
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ValueError, match="could not convert"):
        parse(text)


def test_unusual_numbers():
    text = b".5 -.5 5. -5. 1e3 -1E-3 +2.5 007.25 12 0.00000000000000000001 123456789.125 1.5e+05 -2.5E7 1.e2 2.5e-100"
    np.testing.assert_array_equal(parse(text), np.array([float(part) for part in text.split()], dtype=np.float32))
    assert parse(b"").shape == (0,)


# Exchange with gensim


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_gensim_reads_what_is_written(keyed_vectors, tmp_path, binary, ending):
    path, vectors = tmp_path / f"vectors{ending}", table()
    write_vectors(path, WORDS, vectors, binary)
    unpacked = gzip.decompress(path.read_bytes()) if ending else path.read_bytes()
    assert unpacked.split(b"\n", 1)[0] == b"9 7"
    theirs = keyed_vectors.load_word2vec_format(str(path), binary=binary)
    assert theirs.index_to_key == WORDS
    np.testing.assert_array_equal(theirs.vectors, vectors)  # nine digits: text too is exact
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(("binary", "header"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_what_gensim_writes_is_read(keyed_vectors, tmp_path, binary, ending, header):
    theirs = keyed_vectors(7)
    theirs.add_vectors(WORDS, table())
    path = tmp_path / f"any-name.at-all{ending}"
    theirs.save_word2vec_format(str(path), binary=binary, write_header=header)
    words, vectors = read_vectors(path)
    assert words == WORDS
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, theirs.vectors)
    part = read_vectors(path, limit=4)
    assert part[0] == WORDS[:4]
    np.testing.assert_array_equal(part[1], theirs.vectors[:4])


@pytest.mark.parametrize("binary", [False, True])
def test_files_of_many_blocks(keyed_vectors, tmp_path, monkeypatch, binary):
    """Records that lie across the borders of blocks."""
    vectors, words = table(300, 5), [f"word-{number}" for number in range(300)]
    write_vectors(tmp_path / "vectors", words, vectors, binary)
    for size in (64, 1000, 2**20):
        monkeypatch.setattr("regard.modeling.vector_files.BLOCK", size)
        read_words, read = read_vectors(tmp_path / "vectors")
        assert read_words == words
        np.testing.assert_array_equal(read, vectors)
        assert read_vectors(tmp_path / "vectors", limit=123)[0] == words[:123]


def test_gensims_own_files_are_refused_with_the_way_out(keyed_vectors, tmp_path):
    theirs = keyed_vectors(7)
    theirs.add_vectors(WORDS, table())
    theirs.save(str(tmp_path / "vectors.kv"))
    theirs.save(str(tmp_path / "split.kv"), sep_limit=0)
    for name in ("vectors.kv", "split.kv", "split.kv.vectors.npy"):
        with pytest.raises(ValueError, match=f"{name} is .*gensim.*save_word2vec_format"):
            load_word_vectors(tmp_path / name)


# Published files


def test_published_forms(tmp_path):
    """Blanks at the end of lines (word2vec, fastText), no header (GloVe), Windows' line ends, tabs, words of parts."""
    expected = np.array([[0.5, -1.25], [2.0, 0.001]], dtype=np.float32)
    for text in (
        "2 2\nof 0.5 -1.25 \nat 2 1e-3 \n",
        "2 2\nof 0.5 -1.25\nat 2 1e-3",
        "of 0.5 -1.25\nat 2 1e-3\n",
        "of 0.5 -1.25\r\nat 2 1e-3\r\n",
        "2 2 \r\nof 0.5 -1.25\r\nat 2 1e-3\r\n",
        "of\t0.5\t-1.25\nat\t2\t1e-3\n",
        "of 0.5  -1.25\nat  2 1e-3\n\n\n",
        "\ufeffof 0.5 -1.25\nat 2 1e-3\n",
    ):
        for content in (text.encode(), gzip.compress(text.encode())):
            words, vectors = read_vectors(write(tmp_path / "vectors.bin", content))
            assert words == ["of", "at"], text
            np.testing.assert_array_equal(vectors, expected)


@pytest.mark.parametrize("header", ["", "5 2\n"])
def test_words_with_blanks_as_in_the_largest_glove(tmp_path, header):
    text = header + "of 0.5 1\n. . . 0.25 2\nat name@domain.com 0.5 3\n1 2/3 0.5 4\nto 1 5\n"
    words, vectors = read_vectors(write(tmp_path / "glove.txt", text))
    assert words == ["of", ". . .", "at name@domain.com", "1 2/3", "to"]
    np.testing.assert_array_equal(vectors[:, 1], [1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match=r"'\. \. \.'"):
        WordVectors(words, vectors).save_word2vec_format(tmp_path / "again.txt")
    assert not (tmp_path / "again.txt").exists()


@pytest.mark.parametrize("size", [64, 2**19])
def test_a_newline_in_a_word_of_a_binary_file_moves_no_other(tmp_path, monkeypatch, size):
    monkeypatch.setattr("regard.modeling.vector_files.BLOCK", size)
    vectors, words = table(4, 6), ["x", "a\nb", "x\nb", "c"]
    records = [word.encode() + b" " + row.tobytes() for word, row in zip(words, vectors, strict=True)]
    read_words, read = read_vectors(write(tmp_path / "vectors.bin", b"4 6\n" + b"".join(records)))
    assert read_words == words
    np.testing.assert_array_equal(read, vectors)
    with pytest.raises(ValueError, match=r"'a\\nb' cannot be written"):
        WordVectors(read_words, read).save_word2vec_format(tmp_path / "again.bin", binary=True)


def test_one_line_longer_than_what_the_format_is_told_by(tmp_path):
    numbers = " ".join(["0.123456789"] * 9000)
    words, vectors = read_vectors(write(tmp_path / "wide.txt", f"the {numbers}\nof {numbers}\n"))
    assert words == ["the", "of"]
    assert vectors.shape == (2, 9000)


def test_the_table_is_in_memory_once(tmp_path):
    """What reading takes at its peak, of memory that Python and numpy know of, is the table and some blocks."""
    path, vectors = tmp_path / "vectors", np.random.default_rng(0).normal(size=(20_000, 100)).astype(np.float32)
    words = [f"w{number}" for number in range(len(vectors))]
    for binary in (True, False):
        write_vectors(path, words, vectors, binary)
        tracemalloc.start()
        read = read_vectors(path)[1]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert read.shape == vectors.shape
        assert peak < 1.25 * vectors.nbytes + 14_000_000


def test_the_original_binary_format_has_newlines(tmp_path):
    vectors = table(3, 4)
    content = b"3 4\n" + b"".join(
        word + b" " + row.tobytes() + b"\n" for word, row in zip([b"a", b"b", b"c"], vectors, strict=True)
    )
    words, read = read_vectors(write(tmp_path / "vectors.txt", content))
    assert words == ["a", "b", "c"]
    np.testing.assert_array_equal(read, vectors)


def test_duplicates_keep_the_first(tmp_path, caplog):
    path = write(tmp_path / "vectors.txt", "a 1.5 2\nb 3.5 4\na 5.5 6\n")
    with listening(caplog):
        words, vectors = read_vectors(path)
    assert words == ["a", "b"]
    np.testing.assert_array_equal(vectors, [[1.5, 2], [3.5, 4]])
    assert "1 words occur again, such as 'a'" in caplog.text


# Bad files


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"3 2\na 0.5 1\nb 0.5 1\n", "the header says 3 words, and the file has 2: it may be cut off"),
        (b"1 2\na 0.5 1\nb 0.5 1\n", "the header says 1 words, and the file has 2"),
        (b"2 3\na 0.5 1\nb 0.5 1\n", "line 2: 2 numbers where 3 belong, in 'a 0.5 1'"),
        (b"2 1\na 0.5 1\nb 0.5 1\n", "line 2: 2 numbers where 1 belong"),
        (b"0 1\n", "the header says 0 words of width 1"),
        (b"400000 300", "the header says '400000 300', .* too short"),
        (b"400000 300\n", "the header says '400000 300', .* too short"),
        (b"2 1", "the header says 2 words, and the file has 0"),
        (b"2 99999999999999999999\na 0.5\n", "the header says '2 99999999999999999999', .* too short"),
        (b"2 10000000000\na \x00\x01\x02\xff\n", "the header says '2 10000000000', .* too short"),
        (
            gzip.compress(b"2 10000000000\na \x00\x01\x02\xff\n", mtime=0),
            "the header says '2 10000000000', .* too short",
        ),
        (b"9" * 5000 + b" 2\na 0.5 1\n", "the header says '9{40}', .* too short"),
        (b"a 0.5 1\nb 0.5\nc 1 1\n", "line 2: 1 numbers where 2 belong, in 'b 0.5'"),
        (b"a 0.5 1\nb 0.5 2 3\nc 1 1\n", "line 2: 3 numbers where 2 belong"),
        (b"a 0.5 1\n\nc 1 1\n", "line 2: no word"),
        (b"a 0.5 1\nb 0.5 x1\nc 1 1\n", "line 2: b'x1' is no number"),
        (b"a 0.5 1\nb 0.5 1_0\nc 1 1\n", "line 2: b'1_0' is no number"),
        (b"2 2\na 0.5 1\nb 0.5 0x1\n", "line 3: b'0x1' is no number"),
        (b"a 0.5 1\n 0.5 1\nc 1 1\n", "line 2: no word"),
        (b"a 0.5 1\nb nan 1\n", "the vector of 'b' in .* holds a number that is not finite"),
        (b"a 0.5 1\nb 1e39 1\n", "the vector of 'b' in .* holds a number that is not finite"),
        (b"a 0.5 1\nb\xff 0.5 1\n", "word 2: b'b.xff' is not UTF-8"),
        (b"just some text\nof several lines\n", "its lines are not a word and numbers"),
        (bytes(range(256)) * 4, "is no file of word vectors"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (b"\xba\x16\x4f\x2frest", "use the .vec file"),
        (b"BZh9rest", "bzip2"),
        (gzip.compress(b"a 0.5 1\n" * 2000, mtime=0)[:-9], "cannot be decompressed, it may be cut off"),
        (b"\x1f\x8bnonsense", "cannot be decompressed"),
    ],
)
def test_bad_text_is_named(tmp_path, content, sentence):
    path = write(tmp_path / "vectors.txt", content)
    with pytest.raises(ValueError, match=sentence) as error:
        load_word_vectors(path)
    assert str(path) in str(error.value)
    assert str(error.value).count("\n") == 0


def test_bad_binary_is_named(tmp_path):
    vectors, path = table(5, 30), tmp_path / "vectors.bin"
    write_vectors(path, list("abcde"), vectors, binary=True)
    whole = path.read_bytes()
    for content, sentence in (
        (whole[:-40], "the header says 5 words of width 30, and the file ends after 4: it is cut off"),
        (whole.replace(b"5 30", b"6 30", 1), "ends after 5"),
        (whole.replace(b"5 30", b"4 30", 1), "the header says 4 words of width 30, and more follows"),
        (whole.replace(b"a ", b" ", 1), "word 1: it is empty"),
        (whole.replace(b"\nb ", b"\n\xff ", 1), r"word 2: b'\\xff' is not UTF-8"),
        (whole.replace(vectors[2].tobytes(), np.full(30, np.nan, np.float32).tobytes()), "the vector of 'c'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            read_vectors(write(path, content))
    words, _ = read_vectors(write(path, whole.replace(b"\nb ", b"\n\xff ", 1)), errors="replace")
    assert words == ["a", "\ufffd", "c", "d", "e"]
    assert load_word_vectors(path, errors="replace").index_to_key == words
    with pytest.raises(ValueError, match=r"word 2: it is empty without what is not UTF-8 in b'\\xff'"):
        load_word_vectors(path, errors="ignore")


def test_pickles_are_never_opened(tmp_path):
    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    for protocol in (2, 4, 5):
        path = write(tmp_path / "vectors.txt", pickle.dumps(Harmful(), protocol))
        with pytest.raises(ValueError, match="pickle"):
            load_word_vectors(path)
    assert not (tmp_path / "harm").exists()


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no run or file of word vectors at .*nothing.txt"):
        load_word_vectors(tmp_path / "nothing.txt")
    with pytest.raises(ValueError, match="no config.json"):
        load_word_vectors(tmp_path)
    with pytest.raises(ValueError, match="limit=0"):
        load_word_vectors(tmp_path, limit=0)


# Words that the format cannot hold (case 80)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("word", ["New York", "a\nb", "", "a\tb", "a\rb", "\ud800"])
def test_words_that_readers_would_cut_are_refused(tmp_path, binary, word):
    path = write(tmp_path / "vectors", "what was there")
    with pytest.raises(ValueError, match="cannot be written") as error:
        write_vectors(path, ["hello", word], table(2), binary)
    assert repr(word) in str(error.value)
    assert path.read_text() == "what was there"


@pytest.mark.parametrize(
    ("words", "vectors", "sentence"),
    [
        (["a"], np.ones((2, 3)), r"vectors of shape \(2, 3\) cannot be written for 1 words"),
        (["a"], np.ones(3), r"vectors of shape \(3,\) cannot be written for 1 words"),
        ([], np.ones((0, 3)), r"vectors of shape \(0, 3\) cannot be written for 0 words"),
        (["a"], np.ones((1, 0)), r"vectors of shape \(1, 0\) cannot be written for 1 words"),
        (["a", "a"], np.ones((2, 3)), "a word must occur once: 'a' occurs twice"),
        ([5], np.ones((1, 3)), "a word must be a string, not 5"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(tmp_path, words, vectors, sentence):
    with pytest.raises(ValueError, match=sentence):
        write_vectors(tmp_path / "vectors", words, vectors)
    assert not list(tmp_path.iterdir())


def test_numbers_that_are_not_finite_are_refused(tmp_path):
    with pytest.raises(ValueError, match="the vector of 'b' cannot be written"):
        write_vectors(tmp_path / "vectors", ["a", "b"], np.array([[1.0], [np.nan]], dtype=np.float32))
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = write(tmp_path / "vectors", "what was there")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_vectors(path, ["a", "b"], table(2))
    assert path.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [path]
