"""What can be asked of word vectors, against gensim's `KeyedVectors` and formulas written out."""

import copy
import pickle
import sys

import numpy as np
import pytest
import torch

from regard.modeling.word_vectors import UnknownWordError, WordVectors, WordVectorsMixin, top

NUMBER, WIDTH = 60, 9
WORDS = [f"w{number}" for number in range(NUMBER)]


def random_vectors(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(NUMBER, WIDTH)).astype(np.float32)


@pytest.fixture
def ours() -> WordVectors:
    return WordVectors(WORDS, random_vectors())


@pytest.fixture(scope="module")
def theirs():
    models = pytest.importorskip("gensim.models", reason="gensim, the tool that is compared with, is not installed")
    result = models.KeyedVectors(WIDTH)
    result.add_vectors(WORDS, random_vectors())
    return result


def assert_same_answers(one: list, other: list) -> None:
    assert [word for word, _ in one] == [word for word, _ in other]
    np.testing.assert_allclose([score for _, score in one], [score for _, score in other], atol=1e-5)


# gensim's meaning


QUESTIONS = [
    {"positive": ["w1"]},
    {"positive": "w1"},
    {"positive": ["w1", "w2"], "negative": ["w3"]},
    {"positive": ["w1", "w2"], "negative": "w3", "topn": 1},
    {"positive": ["w1", "w2"], "negative": ["w3", "w4"], "topn": 25},
    {"negative": ["w5"]},
    {"positive": ["w1"], "restrict_vocab": 20},
    {"positive": ["w40", "w3"], "restrict_vocab": 20, "topn": 100},
    {"positive": ["w1", "w1"], "topn": NUMBER},
    {"positive": ["w1"], "topn": 0},
    {"positive": [7, np.int64(8)]},
]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_most_similar(ours, theirs, question):
    assert_same_answers(ours.most_similar(**question), theirs.most_similar(**question))


@pytest.mark.parametrize("number", range(4))
def test_most_similar_by_vectors_and_weights(ours, theirs, number):
    vectors = np.random.default_rng(7).normal(size=(2, WIDTH)).astype(np.float32)
    question = [
        {"positive": [vectors[0]]},
        {"positive": vectors, "negative": ["w3"]},
        {"positive": [("w1", 2.0), "w2"], "negative": [("w3", -0.5)]},
        {"positive": [(vectors[0], 0.3), ("w1", 1)], "negative": [vectors[1]]},
    ][number]
    assert_same_answers(ours.most_similar(**question), theirs.most_similar(**question))


def test_rows_tensors_and_arrays_of_words(ours):
    pair = ours.most_similar([("w7", 0.5), ("w8", 2.0)])
    assert ours.most_similar([(7, 0.5), (np.int64(8), 2)]) == pair
    assert ours.most_similar((7, 0.5)) == ours.most_similar("w7")
    assert ours.most_similar((7, 8)) == ours.most_similar(["w7", "w8"])  # two rows, as in gensim
    tensor = torch.from_numpy(random_vectors(5)[:2].copy())
    assert ours.most_similar(tensor[0]) == ours.most_similar(tensor[0].numpy())
    assert ours.most_similar([tensor[0], (tensor[1], 0.5)]) == ours.most_similar(
        [tensor[0].numpy(), (tensor[1].numpy(), 0.5)]
    )
    assert ours.most_similar(tensor) == ours.most_similar(list(tensor.numpy()))
    for kind in (None, object):
        assert ours.most_similar(np.array(["w1", "w2"], dtype=kind)) == ours.most_similar(["w1", "w2"])


def test_one_vector_and_one_pair_stand_for_lists(ours):
    assert ours.most_similar(ours["w1"])[0][0] == "w1"  # a vector's own word is not left out
    assert ours.similar_by_vector(ours["w1"]) == ours.most_similar([ours["w1"]])
    assert ours.most_similar(("w1", 2.0)) == ours.most_similar([("w1", 2.0)])
    assert ours.similar_by_word("w1", topn=3) == ours.most_similar("w1")[:3]


@pytest.mark.parametrize(
    "question",
    [
        {"positive": ["w1"]},
        {"positive": ["w1", "w2"], "negative": ["w3"]},
        {"positive": ["w1", "w2"], "negative": ["w3", "w9"], "topn": 20},
    ],
    ids=str,
)
def test_multiplied_similarities(ours, theirs, question):
    result = ours.most_similar_cosmul(**question)
    assert_same_answers(result, theirs.most_similar_cosmul(**question))
    assert result == ours.most_similar(**question, method="mul")


def test_multiplied_similarities_by_hand(ours):
    """Levy and Goldberg (2014), equation 4, with similarities shifted to [0, 1] and ε = 10⁻⁶."""
    scores = ours.most_similar(["w1", "w2"], ["w3"], topn=None, method="mul")
    one, two, three = (
        np.array([(1 + ours.similarity(word, given)) / 2 for word in WORDS]) for given in ("w1", "w2", "w3")
    )
    np.testing.assert_allclose(scores, one * two / (three + 1e-6), rtol=1e-4)


def test_all_similarities(ours, theirs):
    np.testing.assert_allclose(ours.most_similar("w1", topn=None), theirs.most_similar("w1", topn=None), atol=1e-6)
    assert ours.most_similar("w1", topn=None, restrict_vocab=10).shape == (10,)


def test_pairs_and_sets(ours, theirs):
    for one, other in (("w1", "w2"), ("w3", "w3"), ("w50", "w0")):
        assert ours.similarity(one, other) == pytest.approx(theirs.similarity(one, other), abs=1e-6)
        assert ours.distance(one, other) == pytest.approx(theirs.distance(one, other), abs=1e-6)
        assert ours.closer_than(one, other) == theirs.closer_than(one, other)
    assert ours.rank("w1", "w2") == theirs.rank("w1", "w2")
    assert ours.rank("w1", ours.most_similar("w1")[2][0]) == 3
    sets = (["w1", "w2", "w3"], ["w4", "w5"])
    assert ours.n_similarity(*sets) == pytest.approx(float(theirs.n_similarity(*sets)), abs=1e-6)
    for words in (["w1", "w2", "w3", "w4"], ["w9", "w8"], ["w5"]):
        assert ours.doesnt_match(words) == ours.doesnt_match(set(words)) == theirs.doesnt_match(words)
    some = ["w4", "w9", "w2"]
    assert ours.most_similar_to_given("w1", some) == theirs.most_similar_to_given("w1", some)
    for query in ("w1", random_vectors(9)[0]):
        np.testing.assert_allclose(ours.distances(query), theirs.distances(query), atol=1e-6)
        np.testing.assert_allclose(ours.distances(query, some), theirs.distances(query, some), atol=1e-6)


def test_names_of_gensim_4(ours, theirs):
    assert ours.key_to_index == theirs.key_to_index
    assert ours.index_to_key == theirs.index_to_key
    assert ours.vector_size == theirs.vector_size
    assert len(ours) == len(theirs) == NUMBER
    assert ours.get_index("w7") == 7
    assert ours.get_index("nonsense", default=-1) == theirs.get_index("nonsense", default=-1) == -1
    assert ours.similar_by_key("w1") == ours.similar_by_word("w1")
    assert WordVectors(["a", "b"], np.ones((2, 3)), [7, 4]).get_vecattr("b", "count") == 4
    with pytest.raises(KeyError, match="no attribute 'count'"):
        ours.get_vecattr("w1", "count")
    assert "w1" in ours
    assert "nonsense" not in ours
    assert NUMBER not in ours
    assert list(ours)[:2] == ["w0", "w1"]
    np.testing.assert_array_equal(ours["w1"], theirs["w1"])
    np.testing.assert_array_equal(ours[["w1", "w2"]], theirs[["w1", "w2"]])
    np.testing.assert_allclose(ours.get_vector("w1", norm=True), theirs.get_vector("w1", norm=True), rtol=1e-6)


# Many queries at once


def test_nearest_is_most_similar_for_each_query(ours, monkeypatch):
    queries = random_vectors(3)[:17]
    exclude = [[row, row + 1] for row in range(17)]
    expected = [
        [
            (word, score)
            for word, score in ours.most_similar(query, topn=8)
            if ours.get_index(word) not in (row, row + 1)
        ]
        for row, query in enumerate(queries)
    ]
    for scores, block in ((2**24, 2**18), (NUMBER * 5, 50)):
        monkeypatch.setattr("regard.modeling.word_vectors.SCORES", scores)
        monkeypatch.setattr("regard.modeling.word_vectors.BLOCK", block)
        indices, similarities = ours.nearest(queries, topn=6, exclude=exclude)
        assert indices.dtype == np.int64
        for row in range(17):
            answers = list(zip((WORDS[index] for index in indices[row]), similarities[row], strict=True))
            assert_same_answers(answers, expected[row][:6])


def test_nearest_says_where_there_are_fewer(ours):
    indices, similarities = ours.nearest(np.stack([ours["w1"], np.zeros(WIDTH)]), topn=5, restrict_vocab=3)
    assert sorted(indices[0, :3]) == [0, 1, 2]
    assert indices[0, 3:].tolist() == [-1, -1]
    assert similarities[0, 3:].tolist() == [0, 0]
    assert indices[1].tolist() == [-1] * 5
    assert np.isfinite(similarities).all()


def test_the_ends_of_what_can_be_asked(ours):
    assert ours.nearest(np.ones((2, WIDTH)), topn=0)[0].shape == (2, 0)
    assert ours.nearest(ours["w59"][None], topn=1, exclude=[[-1, 100]])[0].tolist() == [[59]]  # no such rows
    assert len(ours.most_similar("w1", topn=10**12)) == NUMBER - 1
    empty = WordVectors([], np.zeros((0, 3)))
    assert empty.nearest(np.ones((1, 3)), topn=2)[0].tolist() == [[-1, -1]]
    assert empty.most_similar(np.ones(3)) == []


def test_nearest_refuses_what_does_not_fit(ours):
    with pytest.raises(ValueError, match=r"shape \(Q, 9\), not \(2, 4\)"):
        ours.nearest(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="one item for each of the 2 queries, not 1"):
        ours.nearest(np.ones((2, WIDTH)), exclude=[[1]])


def test_top_against_a_sort():
    scores = np.random.default_rng(0).integers(0, 6, (20, 50)).astype(np.float32)  # many ties
    scores[:, 10:20] = -np.inf
    for topn in (1, 7, 40, 50, 60):
        indices, best = top(scores, topn)
        for row, values in enumerate(scores):
            order = sorted(np.flatnonzero(values > -np.inf), key=lambda index: (-values[index], index))[:topn]
            assert indices[row, : len(order)].tolist() == order
            assert best[row, : len(order)].tolist() == values[order].tolist()
            assert (indices[row, len(order) :] == -1).all()


# Norms follow the data; zeros have no direction (case 86)


def test_what_changes_is_compared_as_it_is(ours):
    ours.most_similar("w1")
    ours.add_vectors("new", ours["w1"] * 3 + 1e-3)
    assert ours.most_similar("w1")[0][0] == "new"
    assert len(ours) == NUMBER + 1
    ours.vectors[5] = ours["w1"] * 0.01
    assert {word for word, _ in ours.most_similar("w1", topn=2)} == {"new", "w5"}
    ours.vectors[5] *= -1
    assert ours.similarity("w1", "w5") == pytest.approx(-1)
    ours.vectors *= 1e-3
    assert ours.most_similar("w1")[0][0] == "new"


def test_zero_vectors(ours):
    ours.vectors[[3, 4]] = 0
    ours.vectors[0] = 1
    ours.vectors[1:3] = -1  # all that is left for w0 among the first is opposite to it
    assert ours.similarity("w3", "w1") == 0
    assert ours.similarity("w3", "w3") == 0
    assert ours.similarity("w3", "w4") == 0
    assert ours.n_similarity(["w3"], ["w1"]) == 0
    scores = ours.most_similar("w0", topn=None)
    assert scores[3] == scores[4] == 0
    assert np.isfinite(scores).all()
    assert ours.most_similar("w0", restrict_vocab=5) == [("w1", pytest.approx(-1)), ("w2", pytest.approx(-1))]
    for method in ("add", "mul"):
        everything = dict(ours.most_similar(["w1", "w7"], ["w8"], topn=NUMBER, method=method))
        assert not {"w3", "w4"} & set(everything)
        assert np.isfinite(list(everything.values())).all()
    np.testing.assert_array_equal(ours.get_vector("w3", norm=True), np.zeros(WIDTH))
    with pytest.raises(ValueError, match="no direction"):
        ours.most_similar("w3")
    with pytest.raises(ValueError, match="no direction"):
        ours.most_similar("w7", "w7")
    assert ours.doesnt_match(["w1", "w2", "w3"]) == "w3"


def test_zero_vectors_are_neither_near_nor_far(ours):
    ours.vectors[[3, 4]] = 0
    ours.vectors[5] = -ours["w1"]
    assert len(ours.closer_than("w1", "w5")) == NUMBER - 4  # all but the two words and those of zeros
    for first, second in (("w1", "w3"), ("w3", "w1")):
        with pytest.raises(ValueError, match="the vector of 'w3' is zero, which has no direction"):
            ours.rank(first, second)
    for question in ({"positive": "w3"}, {"positive": ["w1", "w2"], "negative": ["w3"]}):
        with pytest.raises(ValueError, match="the vector of 'w3' is zero, which has no direction"):
            ours.most_similar_cosmul(**question)
    with pytest.raises(ValueError, match="a vector that is given is zero"):
        ours.most_similar_cosmul(np.zeros(WIDTH))


@pytest.mark.parametrize(
    "question",
    [
        {"positive": ["w1", "w2"], "negative": ["w2", "w1"]},
        {"positive": ["w1", "w2", "w3"], "negative": ["w3", "w1", "w2"]},
        {"positive": [("w1", 0.1), ("w1", 0.2), ("w1", -0.3)]},
        {"positive": [("w1", 0.0)]},
        {"positive": [np.full(WIDTH, 0.1, dtype=np.float32), (np.full(WIDTH, 0.3, dtype=np.float32), -1 / 3)]},
        {"positive": [np.full(WIDTH, 1e30), np.full(WIDTH, -1e30)]},
    ],
    ids=str,
)
def test_what_cancels_has_no_direction(ours, question):
    with pytest.raises(ValueError, match="add up to zero"):
        ours.most_similar(**question)


@pytest.mark.parametrize("scale", [1e-38, 1e-25, 1e25, 1e37])
def test_lengths_beyond_the_range_of_squares(scale):
    """Cosines do not depend on length: 1, 1/√2 and 0, and -1, worked out by hand."""
    rows = np.array([[1, 0], [1, 1], [0, 1], [-1, 0]], dtype=np.float32) * np.float32(scale)
    vectors = WordVectors(list("abcd"), rows)
    expected = [1, 0.5**0.5, 0, -1]
    np.testing.assert_allclose(vectors.most_similar("a", topn=None), expected, atol=1e-6)
    np.testing.assert_allclose([vectors.similarity("a", word) for word in "abcd"], expected, atol=1e-6)
    assert [word for word, _ in vectors.most_similar("a")] == ["b", "c", "d"]
    assert vectors.nearest(rows[:1], topn=4)[0].tolist() == [[0, 1, 2, 3]]
    mixed = WordVectors(["a", "b"], np.stack([rows[0], np.array([1, 1], dtype=np.float32)]))
    assert mixed.similarity("a", "b") == pytest.approx(0.5**0.5)


NOT_FINITE = [
    lambda vectors: vectors.most_similar("w2"),
    lambda vectors: vectors.most_similar("w3"),
    lambda vectors: vectors.most_similar(["w1"], ["w2"]),
    lambda vectors: vectors.most_similar_cosmul(["w1", "w2"]),
    lambda vectors: vectors.most_similar(np.full(WIDTH, np.nan)),
    lambda vectors: vectors.most_similar([np.array([np.inf] + [1] * (WIDTH - 1))]),
    lambda vectors: vectors.similarity("w2", "w1"),
    lambda vectors: vectors.similarity("w1", "w3"),
    lambda vectors: vectors.distance("w2", "w2"),
    lambda vectors: vectors.distances("w2"),
    lambda vectors: vectors.distances("w1", ["w2"]),
    lambda vectors: vectors.n_similarity(["w1", "w2"], ["w4"]),
    lambda vectors: vectors.doesnt_match(["w1", "w2", "w4"]),
    lambda vectors: vectors.rank("w1", "w2"),
    lambda vectors: vectors.closer_than("w2", "w1"),
    lambda vectors: vectors.most_similar_to_given("w1", ["w4", "w2"]),
]


@pytest.mark.parametrize("ask", NOT_FINITE)
def test_what_is_not_finite_is_no_question(ours, ask):
    ours.vectors[2] = np.nan
    ours.vectors[3, 0] = np.inf
    with pytest.raises(ValueError, match=r"(the vector of 'w[23]'|a vector that is given) holds a number that is not"):
        ask(ours)


def test_queries_that_are_not_finite_have_no_neighbours(ours):
    queries = np.stack([ours["w1"], np.full(WIDTH, np.nan), np.full(WIDTH, np.inf), ours["w5"]])
    indices, similarities = ours.nearest(queries, topn=3)
    assert (indices[1:3] == -1).all()
    assert (similarities[1:3] == 0).all()
    assert indices[[0, 3], 0].tolist() == [1, 5]
    np.testing.assert_array_equal(indices[[0, 3]], ours.nearest(queries[[0, 3]], topn=3)[0])


def test_vectors_that_are_not_finite_are_no_answer(ours):
    ours.vectors[2] = np.nan
    ours.vectors[3, 0] = np.inf
    answers = ours.most_similar("w1", topn=NUMBER)
    assert len(answers) == NUMBER - 3
    assert np.isfinite([score for _, score in answers]).all()


def test_vectors_that_are_given_cannot_be_written_to(ours):
    with pytest.raises(ValueError, match="read-only"):
        ours["w1"][0] = 1


# Words without a vector


def test_an_unknown_word_is_named_with_the_nearest_spelling(ours):
    ours.add_vectors(["paris", "New_York", "London"], np.ones((3, WIDTH)))
    for word, near in (("Paris", "'paris'"), ("parsi", "'paris'"), ("New York", "'New_York'"), ("lodnon", "'London'")):
        with pytest.raises(KeyError, match=f"There is no vector for '{word}' among the 63 words: did you mean {near}"):
            ours.similarity("w1", word)
    with pytest.raises(UnknownWordError, match=r"no vector for 'xyzzy' among the 63 words\.$") as error:
        ours["xyzzy"]
    assert error.value.word == "xyzzy"
    assert isinstance(pickle.loads(pickle.dumps(error.value)), KeyError)


@pytest.mark.parametrize(
    "ask",
    [
        lambda vectors: vectors["nonsense"],
        lambda vectors: vectors[["w1", "nonsense"]],
        lambda vectors: vectors[NUMBER],
        lambda vectors: vectors.get_vector("nonsense"),
        lambda vectors: vectors.most_similar("nonsense"),
        lambda vectors: vectors.most_similar("w1", ["nonsense"]),
        lambda vectors: vectors.most_similar([("nonsense", 1.0)]),
        lambda vectors: vectors.most_similar_cosmul("nonsense"),
        lambda vectors: vectors.similarity("w1", "nonsense"),
        lambda vectors: vectors.n_similarity(["w1", "nonsense"], ["w2"]),
        lambda vectors: vectors.doesnt_match(["w1", "w2", "nonsense"]),
        lambda vectors: vectors.rank("w1", "nonsense"),
    ],
)
def test_no_unknown_word_is_passed_over(ours, ask):
    with pytest.raises(UnknownWordError):
        ask(ours)


def test_bad_calls_are_named(ours):
    for call, sentence in (
        (lambda: ours.most_similar(), "at least one word"),
        (lambda: ours.most_similar("w1", method="max"), "method='max' must be 'add' or 'mul'"),
        (lambda: ours.most_similar(np.ones(3)), r"shape \(3,\) cannot be compared with vectors of width 9"),
        (lambda: ours.most_similar("w1", restrict_vocab=0), "restrict_vocab=0"),
        (lambda: ours.n_similarity([], ["w1"]), "at least one word on either side"),
        (lambda: ours.n_similarity("w1", ["w2"]), "needs a list"),
        (lambda: ours.n_similarity(["w1"], "w2"), "needs a list"),
        (lambda: ours.doesnt_match([]), "needs a list of words"),
        (lambda: ours.doesnt_match("w1 w2"), "needs a list of words"),
        (lambda: ours.add_vectors("new", np.ones(4)), "width 4 cannot join vectors of width 9"),
        (lambda: ours.add_vectors(["a", "a"], np.ones((2, WIDTH))), "'a' occurs twice"),
        (lambda: WordVectors(["a", "a"], np.ones((2, 3))), "'a' occurs twice"),
        (lambda: WordVectors([5, 1, 0], np.eye(3)), "a word must be a string, not 5"),
        (lambda: ours.add_vectors([5], np.ones((1, WIDTH))), "a word must be a string, not 5"),
        (lambda: WordVectors(["a"], np.ones((2, 3))), r"a row for each of the 1 words: their shape is \(2, 3\)"),
        (lambda: WordVectors(["a"], np.ones((1, 3)), [1, 2]), "1 words but 2 counts"),
    ):
        with pytest.raises(ValueError, match=sentence):
            call()
    assert len(ours) == NUMBER
    # gensim's second argument is another one, `fvocab`: here there is none that it could be mistaken for.
    for call in (
        lambda: ours.save_word2vec_format("v.txt", "vocabulary.txt"),
        lambda: ours.add_vectors("new", np.ones(WIDTH), None),
        lambda: ours.most_similar("w1", None, 10, 5),
    ):
        with pytest.raises(TypeError, match="positional"):
            call()


def test_the_sentence_on_an_unknown_word_is_made_once(ours, monkeypatch):
    with pytest.raises(UnknownWordError) as error:
        ours["w1x"]
    asked = []
    monkeypatch.setattr(WordVectors, "nearest_spelling", lambda self, word: asked.append(word))
    assert str(error.value) == str(error.value)
    assert asked == ["w1x"]
    monkeypatch.undo()
    monkeypatch.setattr("regard.modeling.word_vectors.SPELLINGS", 5)
    assert ours.nearest_spelling("ww44") is None
    assert ours.nearest_spelling("ww4") == "w4"


# Adding


def test_words_that_are_there_stay_unless_they_are_replaced(ours):
    before, new = ours["w1"].copy(), np.ones((2, WIDTH), dtype=np.float32)
    ours.add_vectors(["w1", "new"], new)
    np.testing.assert_array_equal(ours["w1"], before)
    np.testing.assert_array_equal(ours["new"], new[1])
    ours.add_vectors(["w1", "newer"], new, replace=True)
    np.testing.assert_array_equal(ours["w1"], new[0])
    assert ours.index_to_key[-2:] == ["new", "newer"]
    assert len(ours) == len(ours.vectors) == NUMBER + 2
    ours.add_vectors([], np.ones((0, WIDTH)))
    ours.add_vectors([], [])
    assert len(ours) == NUMBER + 2


def test_the_array_that_was_given_is_never_written_to():
    given = np.ones((2, 3), dtype=np.float32)
    given.flags.writeable = False  # as of a file that is mapped
    vectors = WordVectors(["a", "b"], given)
    vectors.add_vectors(["a", "c"], np.full((2, 3), 9.0), replace=True)
    assert given.tolist() == [[1, 1, 1]] * 2
    assert vectors["a"].tolist() == vectors["c"].tolist() == [9, 9, 9]


def test_float32_is_taken_without_a_copy():
    vectors = random_vectors()
    assert WordVectors(WORDS, vectors).vectors is vectors
    assert WordVectors(WORDS, vectors.astype(np.float64)).vectors.dtype == np.float32


# Handing over


def test_to_gensim(ours, theirs):
    ours = WordVectors(WORDS, ours.vectors, counts=range(NUMBER, 0, -1))
    result = ours.to_gensim()
    assert type(result) is type(theirs)
    assert result.index_to_key == WORDS
    np.testing.assert_array_equal(result.vectors, ours.vectors)
    assert result.get_vecattr("w3", "count") == NUMBER - 3
    assert_same_answers(result.most_similar("w1"), ours.most_similar("w1"))
    result.vectors[0] = 0
    assert ours["w0"].any()  # a copy


def test_to_gensim_without_gensim(ours, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ImportError, match="to_gensim needs the package gensim"):
        ours.to_gensim()


def test_anything_with_words_and_vectors_can_be_asked(ours):
    class Table(WordVectorsMixin):
        index_to_key, key_to_index, vectors = ours.index_to_key, ours.key_to_index, ours.vectors

    assert Table().most_similar("w1") == ours.most_similar("w1")
    assert copy.deepcopy(ours).most_similar("w1") == ours.most_similar("w1")
