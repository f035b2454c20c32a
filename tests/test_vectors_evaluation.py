"""Word vectors on test sets: against scipy, gensim, formulas by hand, and vectors whose structure is planted."""

import csv
import json
import re
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from transformers import pipeline
from typer.testing import CliRunner

import regard
from regard.cli import _is_wrong_call, app
from regard.evaluation import word_analogies
from regard.evaluation.vectors_report import aligned, evaluate_vectors, notes, read_sets, report_table
from regard.evaluation.word_analogies import evaluate_analogies
from regard.evaluation.word_categories import evaluate_categories, purity
from regard.evaluation.word_neighbours import nearest_neighbours, neighbour_table, parse_query
from regard.evaluation.word_sets import (
    Member,
    Pair,
    Question,
    name_files,
    read_analogies,
    read_categories,
    read_similarity,
)
from regard.evaluation.word_similarity import evaluate_similarity, mean_ranks, spearman
from regard.evaluation.word_table import NAMED, SPELLINGS, WordTable, check_words, vectors_at
from regard.model_cards.card import render_card
from regard.modeling.modeling_glove import GloVeModel
from regard.modeling.modeling_word2vec import Word2VecModel
from regard.modeling.word_vectors import WordVectors
from regard.train.evaluate import evaluate_run
from regard.train.evaluate_vectors import evaluate_vectors_at
from regard.train.recipe import load_recipe
from regard.train.records import holds_vectors, read_json, write_json
from regard.train.tokenization import word_tokenizer

PAIRS = "word1\tword2\tscore\nking\tqueen\t9\nking\triver\t1\nriver\tlake\t8.5\nking\tyeti\t2\n"
QUESTIONS = "category\ta\tb\tc\td\nroyal\tman\tking\twoman\tqueen\ngram1\tman\twoman\tking\tqueen\n"
GROUPS = "category\tword\npeople\tking\npeople\tqueen\npeople\t\nwater\triver\nwater\tlake\nwater\tyeti\n"


def planted() -> WordVectors:
    """Royalty, gender and water are a direction each, so that king - man + woman is exactly queen."""
    directions = {
        "man": (1, 0, 0, 1),
        "woman": (0, 1, 0, 1),
        "king": (1, 0, 3, 1),
        "queen": (0, 1, 3, 1),
        "river": (-3, -3, 0.1, 1),
        "lake": (-3, -3, -0.1, 1),
        "the": (0, 0, 0, -2),
    }
    return WordVectors(list(directions), np.array(list(directions.values()), dtype=np.float32))


def random_vectors(words: list[str], width: int = 12, seed: int = 0) -> WordVectors:
    rng = np.random.default_rng(seed)
    return WordVectors(words, rng.standard_normal((len(words), width)).astype(np.float32))


@pytest.fixture
def files(tmp_path):
    for name, text in (("pairs", PAIRS), ("questions", QUESTIONS), ("groups", GROUPS)):
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8")
    return tmp_path


# --- similarity ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_ranks_of_ties_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 6, 40), rng.integers(0, 6, 40) / 7
    assert spearman(one, other) == pytest.approx(spearmanr(one, other).statistic, abs=1e-12)
    assert mean_ranks([3, 1, 3, 2]).tolist() == [3.5, 1, 3.5, 2]


def test_a_correlation_that_is_not_defined_is_none():
    assert spearman([1.0], [2.0]) is None
    assert spearman([1, 1, 1], [1, 2, 3]) is None


def test_each_convention_about_missing_words():
    """Against scipy on the cosines as each convention has them."""
    vectors = planted()
    pairs = [Pair("king", "queen", 9), Pair("king", "river", 1), Pair("river", "lake", 8), Pair("king", "yeti", 4)]
    measures, each = evaluate_similarity(WordTable(vectors), pairs)
    cosines = [vectors.similarity(pair.word1, pair.word2) for pair in pairs[:3]]
    scores = [pair.score for pair in pairs]
    assert [item["cosine"] for item in each[:3]] == pytest.approx(cosines, abs=1e-6)
    assert each[3]["cosine"] is None
    assert measures["spearman"] == pytest.approx(spearmanr(cosines, scores[:3]).statistic)
    for key, value in (("zero", 0.0), ("mean", np.mean(cosines))):
        expected = spearmanr([*cosines, value], scores).statistic
        assert measures[f"spearman_missing_as_{key}"] == pytest.approx(expected)
    assert (measures["pairs"], measures["found"], measures["coverage"]) == (4, 3, 0.75)


def test_case_is_folded_or_kept_and_a_zero_vector_is_missing():
    vectors = WordVectors(["Paris", "paris", "nought"], np.array([[1, 0], [0, 1], [0, 0]], dtype=np.float32))
    folded, kept = WordTable(vectors), WordTable(vectors, fold_case=False)
    assert [folded.row(word) for word in ("paris", "PARIS", "nought", "yeti")] == [0, 0, None, None]
    assert [kept.row(word) for word in ("paris", "PARIS", "nought")] == [1, None, None]
    assert np.isfinite(folded.units).all()


@pytest.mark.parametrize("as_zero", [False, True])
def test_similarity_is_gensims(tmp_path, as_zero):
    pytest.importorskip("gensim", reason="gensim, the reference, is not installed")
    from gensim.models import KeyedVectors

    rng = np.random.default_rng(1)
    words = [f"Word{i}" if i % 3 else f"word{i}" for i in range(60)]
    chosen = zip(*rng.integers(0, 80, (2, 90)), rng.random(90), strict=True)
    pairs = [(f"word{a}", f"WORD{b}", round(score, 1)) for a, b, score in chosen]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\t{s}\n" for a, b, s in pairs), encoding="utf-8")
    vectors = random_vectors(words)
    reference = KeyedVectors(12)
    reference.add_vectors(words, vectors.vectors)
    _, expected, missing = reference.evaluate_word_pairs(path, dummy4unknown=as_zero)
    measures, _ = evaluate_similarity(WordTable(vectors), read_similarity(path))
    assert measures["spearman_missing_as_zero" if as_zero else "spearman"] == pytest.approx(expected[0], abs=1e-9)
    assert 100 * (1 - measures["coverage"]) == pytest.approx(missing)


# --- analogies -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["add", "mul"])
def test_planted_analogies_are_found_without_their_own_words(method):
    questions = [
        Question("family", "man", "king", "woman", "queen"),
        Question("gram", "man", "woman", "king", "queen"),
    ]
    questions += [Question("gram", "king", "queen", "man", "woman"), Question("gram", "king", "queen", "man", "yeti")]
    measures, each = evaluate_analogies(WordTable(planted()), questions, method, ranks=True)
    assert [item["prediction"] for item in each] == ["queen", "queen", "woman", None]
    assert [item["rank"] for item in each] == [1, 1, 1, None]
    assert measures["accuracy"] == 1
    assert measures["accuracy_missing_wrong"] == 0.75
    assert measures["semantic"] == measures["sections"]["family"] | {"questions": 1}
    assert measures["syntactic"]["found"] == measures["sections"]["gram"]["found"] == 2
    assert measures["syntactic"]["coverage"] == pytest.approx(2 / 3)


def test_the_words_of_a_question_are_no_answers():
    """b - a + c is nearest to c itself where a and b are alike."""
    vectors = WordVectors(
        ["a", "b", "c", "d", "e"], np.array([[1, 0.1], [1, 0], [0, 1], [0.2, 1], [1, 1]], np.float32)
    )
    (item,) = evaluate_analogies(WordTable(vectors), [Question("s", "a", "b", "c", "d")], ranks=True)[1]
    assert (item["prediction"], item["rank"]) == ("d", 1)
    (item,) = evaluate_analogies(WordTable(vectors), [Question("s", "a", "b", "c", "c")], ranks=True)[1]
    assert (item["correct"], item["rank"]) == (False, None)


@pytest.mark.parametrize("method", ["add", "mul"])
def test_scores_and_batches_are_the_formulas(method, monkeypatch):
    """Levy & Goldberg (2014), equations 3 and 4, question by question; batches are smaller than the set, and blocks of
    seven words than the vocabulary."""
    words = [f"w{i}" for i in range(40)]
    vectors = random_vectors(words, width=5)
    vectors.vectors[7] = 0  # a word without a direction is no answer, and no question is found that has it
    unit = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True).clip(1e-9)
    rng = np.random.default_rng(3)
    quads = [tuple(rng.choice(40, 4, replace=False)) for _ in range(50)]
    monkeypatch.setattr(word_analogies, "QUESTIONS", 6)
    monkeypatch.setattr(word_analogies, "SCORES", 6 * 7 + 5)
    questions = [Question("s", *(words[i] for i in quad)) for quad in quads]
    _, each = evaluate_analogies(WordTable(vectors), questions, method, ranks=True)
    for (a, b, c, d), item in zip(quads, each, strict=True):
        if 7 in (a, b, c, d):
            assert item["prediction"] is None
            continue
        cosines = [unit @ unit[i] for i in (a, b, c)]
        shifted = [(1 + one) / 2 for one in cosines]
        scores = cosines[1] - cosines[0] + cosines[2]
        if method == "mul":
            scores = shifted[1] * shifted[2] / (shifted[0] + 1e-6)
        scores[[7, a, b, c]] = -np.inf
        assert item["prediction"] == words[scores.argmax()]
        assert item["rank"] == 1 + (scores > scores[d]).sum()


def test_a_question_without_other_words_has_no_answer():
    """All words of the vocabulary are its own: it was found, and no word is right."""
    table = WordTable(random_vectors(["a", "b", "c"]))
    measures, (item,) = evaluate_analogies(table, [Question("s", "a", "b", "c", "a")], ranks=True)
    assert (item["prediction"], item["correct"], item["rank"]) == (None, False, None)
    assert (measures["found"], measures["coverage"], measures["accuracy"]) == (1, 1.0, 0.0)


@pytest.mark.parametrize("method", ["add", "mul"])
@pytest.mark.parametrize("scores", [2**20, 1])
def test_the_rank_is_that_of_the_best_spelling(monkeypatch, method, scores):
    """dd comes first, and Dd, the more frequent one, third: where case is folded they are one word."""
    monkeypatch.setattr(word_analogies, "SCORES", scores)
    words = {"a": (1, 0, 0), "b": (1, 1, 0), "c": (0, 0, 1), "Dd": (0.2, 0.6, 0.4), "e": (0, 1, 0.9), "dd": (0, 1, 1)}
    vectors = WordVectors(list(words), np.array(list(words.values()), np.float32))
    question = [Question("s", "a", "b", "c", "dd")]
    (folded,) = evaluate_analogies(WordTable(vectors), question, method, ranks=True)[1]
    assert (folded["prediction"], folded["correct"], folded["rank"]) == ("dd", True, 1)
    (other,) = evaluate_analogies(
        WordTable(vectors, fold_case=False), [Question("s", "a", "b", "c", "e")], ranks=True
    )[1]
    assert (other["prediction"], other["rank"]) == ("dd", 2)


@pytest.mark.parametrize(("restrict", "fold"), [(None, True), (60, True), (None, False)])
def test_analogies_are_gensims(tmp_path, restrict, fold):
    pytest.importorskip("gensim", reason="gensim, the reference, is not installed")
    from gensim.models import KeyedVectors

    rng = np.random.default_rng(2)
    words = [f"word{i}" for i in range(70)] + [f"Word{i}" for i in range(30)]  # spellings that differ in case alone
    vectors = random_vectors(words, width=3, seed=4)
    reference = KeyedVectors(3)
    reference.add_vectors(words, vectors.vectors)
    lines = [": first"]
    lines += [" ".join(f"{'wW'[i % 2]}ord{n}" for n in rng.choice(80, 4, replace=False)) for i in range(200)]
    lines.insert(90, ": gram-second")
    path = tmp_path / "questions-words.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    limit = {} if restrict is None else {"restrict_vocab": restrict}
    score, sections = reference.evaluate_word_analogies(path, case_insensitive=fold, **limit)
    table = WordTable(vectors, restrict, fold)
    measures, _ = evaluate_analogies(table, read_analogies(path))
    assert measures["accuracy"] == pytest.approx(score)
    assert 0 < score < 1
    for section in sections[:-1]:
        ours = measures["sections"][section["section"]]
        assert ours["correct"] == len(section["correct"])
        assert ours["found"] == len(section["correct"]) + len(section["incorrect"])


# --- categories ------------------------------------------------------------------------------------------------------


def test_purity_is_the_formula():
    """Manning et al., Introduction to Information Retrieval, figure 16.4: (5 + 4 + 3) / 17."""
    clusters = [0] * 6 + [1] * 6 + [2] * 5
    categories = list("xxxxxo") + list("xoooov") + list("xxvvv")
    assert purity(clusters, categories) == pytest.approx(12 / 17)


def test_planted_categories_are_found_the_same_way_each_time():
    rng = np.random.default_rng(0)
    centres = np.eye(4, 8, dtype=np.float32) * 5
    words = [f"w{i}" for i in range(40)]
    vectors = WordVectors(words, (centres.repeat(10, axis=0) + rng.standard_normal((40, 8)) / 5).astype(np.float32))
    members = [Member(f"c{i // 10}", word) for i, word in enumerate(words)] + [Member("c0", "yeti")]
    measures, each = evaluate_categories(WordTable(vectors), members, seed=3)
    assert measures["purity"] == 1
    assert measures["purity_missing_wrong"] == pytest.approx(40 / 41)
    assert each[-1]["cluster"] is None
    assert evaluate_categories(WordTable(vectors), members, seed=3)[1] == each
    few, _ = evaluate_categories(WordTable(vectors), [Member("a", "w0"), Member("b", "yeti")])
    assert few["purity"] is None


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "word1\tword2\tscore\nold\tnew\t1.58\nhard\teasy\t9\n",
        "# a comment\nold\tnew\t1.58\nhard\teasy\t9\n\n",
        "Word 1,Word 2,Human (mean)\nold,new,1.58\nhard,easy,9\n",
        "word1\tword2\tPOS\tSimLex999\tconc\nold\tnew\tA\t1.58\t2.7\nhard\teasy\tA\t9\t3\n",
        "word1;word2;raters;score\nold;new;12;1.58\nhard;easy;10;9\n",
        "old new 1.58\r\nhard easy 9\r\n",
        "Word 1,Word 2,Human (Mean),1,2,3\nold,new,1.58,7,2,1\nhard,easy,9,8,9,10\n",
        "Word 1\tWord 2\tHuman (Mean)\t1\t2\nold\tnew\t1.58\t7\t2\nhard\teasy\t9\t8\t9\n",
        ",word1,word2,score\n0,old,new,1.58\n1,hard,easy,9\n",
        "ID,Word 1,Word 2,Human\n1,old,new,1.58\n2,hard,easy,9\n",
        "score\tword1\tword2\n1.58\told\tnew\n9\thard\teasy\n",
        "word_1,word_2,rater1,rater2,mean\nold,new,1,2,1.58\nhard,easy,8,9,9\n",
        "old;new;1.58\nhard;easy;9\n",
        "old-j new-j 1.58\nhard-j easy-a 9\n",
        "old\tnew\t1.58\t1\t2\nhard\teasy\t9\t\t3\n",
        "\ufeffold\tnew\t1.58\nhard\teasy\t9",
    ],
)
def test_pairs_are_read_as_they_are_published(tmp_path, text):
    path = tmp_path / "pairs.txt"
    path.write_bytes(text.encode())
    assert read_similarity(path) == [Pair("old", "new", 1.58), Pair("hard", "easy", 9)]


def test_parts_of_speech_are_taken_off_from_all_words_or_none(tmp_path, caplog):
    path = tmp_path / "men.txt"
    path.write_text("sun-n sunlight-n 50\ndry-j run-v 3\n", "utf-8")
    assert read_similarity(path) == [Pair("sun", "sunlight", 50), Pair("dry", "run", 3)]
    assert "end in parts of speech, as in 'sun-n'" in caplog.text
    path.write_text("x-r sunlight-n 50\ndry-j run 3\n", "utf-8")
    assert read_similarity(path)[0] == Pair("x-r", "sunlight-n", 50)
    path.write_text("animal\tcat-n\nanimal\tdog-n\ntool\thammer-n\n", "utf-8")
    assert [member.word for member in read_categories(path)] == ["cat", "dog", "hammer"]


@pytest.mark.parametrize(
    "text",
    [
        "old\tnew\tA\t1.58\nhard\teasy\tA\t9\n",  # as SimVerb has it: no header, and a column of words between
        "a\tb\t1.58\nc\td\t9\n",  # letters may be words
        "1\t2\t1.58\n3\t4\t9\n",  # and so may numbers
        "mean average 1.58\nhard score 9\n",  # and what headers say
    ],
)
def test_what_looks_like_other_columns_and_is_none(tmp_path, text):
    path = tmp_path / "pairs.txt"
    path.write_text(text, "utf-8")
    assert [pair.score for pair in read_similarity(path)] == [1.58, 9]
    assert read_similarity(path)[0].word1 == text.split()[0]


@pytest.mark.parametrize(
    "header",
    ["category,word1,word2,word3,word4", "x,w1,w2,w3,w4", "relation,left,right,left,right", "Category,A,B,C,D"],
)
def test_headers_of_analogies_are_no_questions(tmp_path, header):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\nfamily,boy,girl,man,woman\nfamily,man,woman,boy,girl\n", "utf-8")
    assert [question.section for question in read_analogies(path)] == ["family", "family"]


@pytest.mark.parametrize(
    "text",
    [
        "class\tword\nanimal\tcat\nanimal\tdog\ntool\thammer\n",
        "concept;class\ncat;animal\ndog;animal\nhammer;tool\n",
        ",class,Wort\n1,animal,cat\n2,animal,dog\n3,tool,hammer\n",
        "Wort,class,freq\ncat,animal,3\ndog,animal,2\nhammer,tool,1\n",
        "Klasse\tword\nanimal\tcat\nanimal\tdog\ntool\thammer\n",
        "animal cat\nanimal dog\ntool hammer\n",
    ],
)
def test_headers_of_categories_are_no_words(tmp_path, text):
    path = tmp_path / "c.txt"
    path.write_text(text, "utf-8")
    assert read_categories(path) == [Member("animal", "cat"), Member("animal", "dog"), Member("tool", "hammer")]


def test_a_category_may_have_the_name_of_a_header(tmp_path):
    path = tmp_path / "c.txt"
    path.write_text("group\tteam\ngroup\tsquad\ntool\thammer\n", "utf-8")
    assert read_categories(path)[0] == Member("group", "team")


def test_both_forms_of_analogies_are_the_same(tmp_path):
    table, original = tmp_path / "a.tsv", tmp_path / "b.txt"
    table.write_text("category\ta\tb\tc\td\nfamily\tboy\tgirl\tman\twoman\ngram1\tbig\tbigger\tsad\tsadder\n", "utf-8")
    original.write_text(": family\nboy girl man woman\n: gram1\nbig bigger sad sadder\n", "utf-8")
    assert read_analogies(table) == read_analogies(original)
    assert read_analogies(table)[1] == Question("gram1", "big", "bigger", "sad", "sadder")


def test_a_line_without_a_word_lists_none(files):
    words = [member.word for member in read_categories(files / "groups.tsv")]
    assert words == ["king", "queen", "river", "lake", "yeti"]


def test_a_field_that_csv_refuses_is_one_sentence(tmp_path):
    path = tmp_path / "set.tsv"
    path.write_text(f"a,b,{'9' * 2000}\nc,d,1\n")
    limit = csv.field_size_limit(1000)  # of the process, which others may have raised
    try:
        with pytest.raises(ValueError, match="line 1: it cannot be read as fields"):
            read_similarity(path)
    finally:
        csv.field_size_limit(limit)


@pytest.mark.parametrize(
    ("reader", "content", "sentence"),
    [
        (read_similarity, b"", "holds no test set: it is empty"),
        (read_similarity, b"a\tb\t1\nc\td\tnan\n", "line 2: 'nan' is no score"),
        (read_similarity, b"a\tb\tscore\nc\td\tgood\ne\tf\t1\n", "line 2: 'good' is no score"),
        (read_similarity, b"a\tb\t1\nc\td\n", "line 2: 'c d' is not two words and a score"),
        (read_similarity, b"a\tb\t1\n\td\t3\n", "line 2: ' d 3' is not two words and a score"),
        (read_similarity, b"word1\tword2\tscore\na\tb\t1\n", "holds 1 pair"),
        (read_similarity, b"word1\tword2\tscore\n", "holds no pairs"),
        (
            read_similarity,
            b"# t\n\nt\ttiger\tcat\t7.35\ni\tbook\tpaper\t7\n",
            "line 3: the first column, 't', is a letter",
        ),
        (read_similarity, b"0,tiger,cat,7.35\n1,book,paper,7\n", "the first column, '0', is a number in every row"),
        (read_similarity, b"1\tBrazil\tn\tnut\tn\tx\t1.1\n2\ta\tn\tb\tn\tx\t2\n", "the third is a word, 'n'"),
        (read_similarity, b"tiger\tcat\tnan\na\tb\t1\nc\td\t2\n", "line 1: 'nan' is no score"),
        (read_similarity, b"tiger,cat,\na,b,1\nc,d,2\n", "line 1: '' is no score"),
        (read_similarity, b"a,b,nan,1,2\nc,d,3,1,2\ne,f,3,1,2\n", "line 1: 'nan' is no score"),
        (
            read_similarity,
            b"alt;neu;7,35\nhart;weich;8,5\n",
            "'7,35' is no score, which must be a finite number, with a",
        ),
        (read_similarity, b"a b 1_000\nc d 3\ne f 4\n", "line 1: '1_000' is no score"),
        (read_similarity, b"tiger cat\na b 7\nc d 6\n", "line 1: 'tiger cat' is not two words and a score"),
        (
            read_similarity,
            b'"word1" "word2" "score"\n"1" "a" "b" 7\n"2" "c" "d" 6\n',
            "a header of 3 names, and its rows have 4",
        ),
        (read_similarity, b"\xff\xfe\x00", "is not UTF-8: byte 0"),
        (read_analogies, b"boy girl man woman\n", "line 1: 'boy girl man woman' is not a section and four words"),
        (read_analogies, b"boy girl man woman\n", "one that names their section, such as ': family'"),
        (read_analogies, b": family\nboy girl man\n", "line 2: 'boy girl man' is not four words"),
        (read_analogies, b": \nboy girl man woman\n", "line 1: the section has no name"),
        (read_analogies, b": family\n", "nothing under its header"),
        (read_analogies, b"category\ta\tb\tc\td\n", "nothing under its header"),
        (read_categories, b"category\tword\nanimal\tcat\n", "has one category, 'animal'"),
        (read_categories, b"cat\n", "line 1: 'cat' is not a category and a word"),
        (read_categories, b"cat\tanimal\ndog\tanimal\nhammer\ttool\n", "are the columns swapped?"),
        (read_categories, b"0,animal,cat\n1,animal,dog\n2,tool,hammer\n", "line 1: '0 animal cat' has more than two"),
        (read_categories, b"animal cat\nanimal polar bear\ntool saw\n", "line 2: 'animal polar bear' has more than"),
        (
            read_categories,
            b"word1\tword2\tscore\nlove\tsex\t6.77\nlove\thate\t3\ntiger\tcat\t7.35\n",
            "no header says which of them are the category and the word",
        ),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, reader, content, sentence):
    path = tmp_path / "set.tsv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        reader(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_sets(tmp_path):
    assert name_files(["data/ws.353.tsv", "mine=x.tsv"], "similarity") == {"ws": "data/ws.353.tsv", "mine": "x.tsv"}
    assert name_files(["mine=a=b/c.tsv", ".tsv", "=x.tsv"], "analogies") == {
        "mine": "a=b/c.tsv",
        "tsv": ".tsv",
        "x": "x.tsv",
    }
    (tmp_path / "a=b").mkdir()
    (tmp_path / "a=b" / "c.tsv").touch()
    path = f"{tmp_path}/a=b/c.tsv"
    assert name_files([path, f"x=y={path}"], "analogies") == {"c": path, "x=y": path}
    for text in ("mine=", "", " "):
        with pytest.raises(ValueError, match="names no file of similarity"):
            name_files([text], "similarity")
    with pytest.raises(ValueError, match="Two sets of similarity are called 'a'"):
        name_files(["x/a.tsv", "y/a.tsv"], "similarity")
    with pytest.raises(ValueError, match="There is no file 'nowhere.tsv'"):
        read_sets(similarity={"a": "nowhere.tsv"})
    with pytest.raises(ValueError, match="Both a set of similarity and one of analogies are called 'a'"):
        read_sets({"a": "x"}, {"a": "y"})


# --- the report ------------------------------------------------------------------------------------------------------


def all_sets(files):
    names = {"similarity": {"pairs": "pairs"}, "analogies": {"q": "questions"}, "categories": {"groups": "groups"}}
    return {kind: {name: str(files / f"{file}.tsv") for name, file in one.items()} for kind, one in names.items()}


def test_one_report_of_all_sets(files):
    predictions = files / "items.jsonl"
    results = evaluate_vectors(planted(), read_sets(**all_sets(files)), predictions=predictions)
    assert {name: one["kind"] for name, one in results.items()} == {
        "pairs": "similarity",
        "q": "analogies",
        "groups": "categories",
    }
    assert json.loads(json.dumps(results)) == results
    assert results["q"]["vocabulary"] == 7
    table = report_table(results)
    assert "pairs" in table
    assert "3 of 4" in table
    assert "  semantic" in table
    items = [json.loads(line) for line in predictions.read_text("utf-8").splitlines()]
    assert len(items) == 4 + 2 + 5
    assert items[4]["prediction"] == "queen"
    assert items[4]["rank"] == 1
    smaller = evaluate_vectors(planted(), read_sets(**all_sets(files)), analogy_vocabulary=3)
    assert smaller["q"]["found"] == 0
    assert smaller["q"]["accuracy"] is None
    assert "not defined" in report_table(smaller)


def test_notes_are_about_what_was_measured(files):
    sets = all_sets(files)
    results = evaluate_vectors(planted(), read_sets(similarity=sets["similarity"]))
    (first, second) = notes(results)
    assert first == "Of all: a pair with a missing word has the cosine 0."
    assert second.startswith("Case is folded: ")
    assert report_table(results).endswith(f"\n\n{first}\n{second}\n")
    kept = evaluate_vectors(planted(), read_sets(analogies=sets["analogies"]), fold_case=False)
    assert notes(kept) == [
        "Of all: what is missing is wrong.",
        "An analogy is right where the right word comes first of all but the question's own.",
    ]
    assert "Case is folded in pairs: " in notes(kept | results)[-1]


def test_nothing_is_no_measure():
    table = WordTable(planted())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for measure in (evaluate_similarity, evaluate_analogies, evaluate_categories):
            with pytest.raises(ValueError, match=r"There are no .* to measure on\."):
                measure(table, [])


def test_columns_are_even_whatever_the_script():
    lines = aligned(["a", "b"], [["日本", "1"], ["xyz", "22"]], numbers_from=1).split("\n")
    assert lines == ["a      b", "日本   1", "xyz   22"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"analogy_method": "sum"}, "it is 'add' or 'mul'"),
        ({"analogy_vocabulary": 0}, "analogy_vocabulary=0 leaves no words"),
        ({"predictions": "x.txt"}, "must end in .jsonl"),
    ],
)
def test_settings_that_cannot_be(files, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        evaluate_vectors(planted(), read_sets(**all_sets(files)), **settings)
    (files / "broken.txt").write_text("these are no vectors\n", "utf-8")
    with pytest.raises(ValueError, match=sentence):  # before the vectors are read
        evaluate_vectors_at(files / "broken.txt", **all_sets(files), **settings)


def command(*words, status=0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if status:
        assert result.exception is not None
        assert _is_wrong_call(result.exception), result.exception
        return str(result.exception)
    assert result.exception is None, result.exception
    return result.stdout


def test_the_command_on_any_file(files):
    path = files / "vectors.txt"
    planted().save_word2vec_format(path)
    sets = ["--similarity", files / "pairs.tsv", "--analogies", f"q={files / 'questions.tsv'}"]
    sets += ["--categories", files / "groups.tsv"]
    measured = evaluate_vectors(planted(), read_sets(**all_sets(files)))
    assert json.loads(command("evaluate", path, *sets, "--json")) == measured
    assert command("evaluate", path, *sets) == report_table(measured)
    assert "There is nothing to measure" in command("evaluate", path, status=2)
    assert "--num-beams does not fit" in command("evaluate", path, "--num-beams", 2, status=2)
    assert "--similarity does not fit" in command("evaluate", files, *sets, status=2)
    for override in ("evaluation.similarity.a=b", "data.test.x=y.tsv"):
        assert "has no recipe to change" in command("evaluate", path, override, *sets, status=2)
    assert "--keep-case does not fit" in command("evaluate", files, "--keep-case", status=2)
    assert "--fold-case does not fit" in command("evaluate", files, "--fold-case", status=2)


def test_vectors_that_are_not_there(files):
    """One sentence before anything else is looked at, by the command and in Python."""
    nowhere, pairs = files / "nowhere.txt", files / "pairs.tsv"
    sentence = f"There is no run or file of word vectors at '{nowhere}'."
    assert command("evaluate", nowhere, "--similarity", pairs, status=2) == sentence
    assert command("evaluate", nowhere, "--num-beams", 2, status=2) == sentence
    assert command("neighbours", nowhere, "king", status=2) == sentence
    for words in (["vectors", nowhere, "a"], ["one-hot", nowhere, "a", "b"], ["analogies", nowhere, "a:b", "c:d"]):
        assert command("plot", *words, "-o", files / "x.png", status=2) == sentence
    with pytest.raises(ValueError, match="There is no run or file of word vectors at"):
        evaluate_vectors_at(nowhere, similarity={"a": str(pairs)})


def test_json_is_strict(monkeypatch):
    """No NaN, which is no JSON, and nothing turned into text that no one meant to be."""
    import regard.train.sweep

    result = {"loss": float("nan"), "more": [1.5, float("inf"), ("x", None)]}
    monkeypatch.setattr(regard.train.sweep, "sweep", lambda *_, **__: result)
    shown = command("sweep", "translation/turkish-en-tr", "--values", "model.dropout=0,0.1", "--json")
    assert json.loads(shown, parse_constant=pytest.fail) == {"loss": None, "more": [1.5, None, ["x", None]]}
    result["more"] = object()
    with pytest.raises(TypeError, match="object is not JSON serializable"):
        CliRunner().invoke(
            app,
            ["sweep", "translation/turkish-en-tr", "--values", "model.dropout=0", "--json"],
            catch_exceptions=False,
        )


def word_run(folder, model_class=Word2VecModel, files=None):
    """A finished run: a model with the planted vectors, a recipe with these test sets, and records."""
    vectors = planted()
    model = model_class.from_vocabulary(vectors.index_to_key, [70, 60, 50, 40, 30, 20, 10], hidden_size=4)
    model.in_embeddings.weight.data.copy_(model.in_embeddings.weight.new_tensor(vectors.vectors))
    if model_class is GloVeModel:
        model.out_embeddings.weight.data.zero_()
    model.save_pretrained(folder)
    kind = "glove" if model_class is GloVeModel else "word2vec"
    sets = all_sets(files) if files else {}
    overrides = [f"evaluation.{key}.{name}={path}" for key, one in sets.items() for name, path in one.items()]
    recipe = load_recipe("word-vectors/wiki-skipgram", ["data.train=text.txt", "data.streaming=false", *overrides])
    recipe.model = {"type": kind, "hidden_size": 4}
    recipe.training = {"num_train_epochs": 1}
    recipe.save(folder / "recipe.yaml")
    write_json(folder / "metrics.json", {"recipe": recipe.name, "training": {"words": 1234, "words_per_second": 99.0}})
    return folder


@pytest.mark.parametrize("model_class", [Word2VecModel, GloVeModel])
def test_a_run_is_measured_by_its_recipe(files, model_class, tmp_path):
    run = word_run(tmp_path / "run", model_class, files)
    assert holds_vectors(run)
    results = json.loads(command("evaluate", run, "--json"))
    assert results == evaluate_vectors(planted(), read_sets(**all_sets(files)))
    assert read_json(run / "metrics.json")["evaluation"] == results
    other = evaluate_vectors_at(run, similarity={"other": str(files / "pairs.tsv")})
    assert list(other) == ["other"]
    assert read_json(run / "metrics.json")["evaluation"] == results  # other sets leave the record as it is
    changed = evaluate_vectors_at(run, [f"evaluation.similarity.more={files / 'pairs.tsv'}"], analogy_method="mul")
    assert list(changed) == ["pairs", "more", "q", "groups"]
    assert changed["q"]["method"] == "mul"
    more = f"evaluation.similarity.more={files / 'pairs.tsv'}"
    with pytest.raises(ValueError, match="adds to the recipe's test sets, and --similarity takes their place"):
        evaluate_vectors_at(run, [more], similarity={"other": str(files / "pairs.tsv")})
    kept = evaluate_vectors_at(run, ["evaluation.fold_case=false"], similarity={"other": str(files / "pairs.tsv")})
    assert kept["other"]["fold_case"] is False
    for override in ("data.test.mine=my.tsv", "evaluation.num_beams=2"):
        assert f"'{override}' is no test set of word vectors" in command("evaluate", run, override, status=2)


def test_evaluate_run_measures_word_vectors_too(files, tmp_path, capfd):
    """Which have no splits: nothing was measured, and the record was emptied."""
    run = word_run(tmp_path / "run", files=files)
    results = regard.evaluate_run(run)
    assert results == evaluate_vectors(planted(), read_sets(**all_sets(files)))
    assert read_json(run / "metrics.json")["evaluation"] == results
    changed = evaluate_run(run, None, [f"evaluation.similarity.more={files / 'pairs.tsv'}"], fold_case=False)
    assert "more" in changed
    assert read_json(run / "metrics.json")["evaluation"] == results
    with pytest.raises(ValueError, match="holds word vectors, which have no split 'test'"):
        evaluate_run(run, "test")
    with pytest.raises(ValueError, match="There is no setting 'num_beams' of word vectors"):
        evaluate_run(run, num_beams=2)
    command("neighbours", run, "king")
    assert "Loading weights" not in capfd.readouterr().err


@pytest.mark.parametrize("model_class", [Word2VecModel, GloVeModel])
def test_features_of_texts_with_unknown_words_and_padding(model_class, tmp_path):
    """`<unk>` and `<pad>` come after the words, and have no row: their vectors are zero, and no other id is let by."""
    run = word_run(tmp_path / "run", model_class)
    word_tokenizer(planted().index_to_key).save_pretrained(run)
    features = pipeline("feature-extraction", model=str(run), return_tensors=True)
    features.tokenizer.pad_token = "<pad>"
    vectors = vectors_at(run)
    (unknown,) = features("king yeti queen")
    expected = [vectors.get_vector("king"), np.zeros(4), vectors.get_vector("queen")]
    np.testing.assert_array_equal(unknown.numpy(), np.stack(expected))
    model = features.model
    batch = features.tokenizer(["king yeti queen", "man"], padding=True, return_tensors="pt")
    hidden = model(**batch).last_hidden_state.detach().numpy()  # (2, 3, 4)
    np.testing.assert_array_equal(hidden[0], np.stack(expected))
    np.testing.assert_array_equal(hidden[1], np.stack([vectors.get_vector("man"), np.zeros(4), np.zeros(4)]))
    assert not model(torch.tensor([-100])).last_hidden_state.any()
    assert model(torch.zeros(0, dtype=torch.int64)).last_hidden_state.shape == (0, 4)
    with pytest.raises(ValueError, match="There is no word of id 9 among the 7 of this"):
        model(torch.tensor([1, 9]))


def test_a_sweep_of_word_vectors_is_refused_at_once():
    sentence = "trains word vectors, which have no validation split for a sweep to judge them on"
    recipe = "word-vectors/wiki-skipgram"
    assert sentence in command("sweep", recipe, status=2)
    assert sentence in command("sweep", recipe, "--values", "model.window=3,5", "--metric", "spearman", status=2)


@pytest.mark.parametrize("model_class", [Word2VecModel, GloVeModel])
def test_the_card_of_a_run(files, model_class, tmp_path):
    run = word_run(tmp_path / "run", model_class, files)
    empty = render_card(run)
    assert "## Results" not in empty
    evaluate_vectors_at(run)
    card = render_card(run)
    name = "GloVe" if model_class is GloVeModel else "skip-gram with negative sampling"
    assert f"Word vectors{' (GloVe)' if name == 'GloVe' else ''}" in card
    assert name in card
    assert "| pairs | Spearman |" in card
    assert "3CosAdd" in card
    assert "Attention Is All You Need" not in card
    assert ("pennington2014" if name == "GloVe" else "mikolov2013") in card
    assert "words per second | 99" in card
    assert "type: spearman" in card
    assert "AutoTokenizer" not in card
    assert str(tmp_path) not in card


def test_only_word_vectors_have_word_sets():
    with pytest.raises(ValueError, match="evaluation.similarity measures word vectors, and the task is translation"):
        load_recipe("translation/multi30k-de-en", ["evaluation.similarity.x=y.tsv"])
    with pytest.raises(ValueError, match="evaluation.analogy_method: 'sum' is not known"):
        load_recipe("word-vectors/wiki-skipgram", ["evaluation.analogy_method=sum"])


# --- neighbours ------------------------------------------------------------------------------------------------------


def test_neighbours_of_words_and_sums():
    vectors = planted()
    one, other = nearest_neighbours(vectors, ["river", "king - man + woman = queen"], topn=2)
    assert one["neighbours"][0]["word"] == "lake"
    assert one["neighbours"][0]["similarity"] == pytest.approx(vectors.similarity("river", "lake"))
    assert other["neighbours"][0]["word"] == "queen"
    assert (other["expected"], other["rank"]) == ("queen", 1)
    assert other["similarity"] == pytest.approx(other["neighbours"][0]["similarity"])
    table = neighbour_table([one, other])
    assert "lake" in table.split("\n")[1]
    assert table.endswith(f"king - man + woman = queen: number 1, {other['similarity']:.3f}\n")
    (far,) = nearest_neighbours(vectors, ["river = the"], topn=1)
    nearer = [word for word in vectors if word not in ("river", "the")]
    nearer = [word for word in nearer if vectors.similarity("river", word) > vectors.similarity("river", "the")]
    assert far["rank"] == 1 + len(nearer)
    (outside,) = nearest_neighbours(vectors, ["man = lake"], topn=1, restrict_vocab=4)
    assert outside["rank"] is None
    assert neighbour_table([outside]).endswith("man = lake: not among the first 4 words\n")


@pytest.mark.parametrize("method", ["add", "mul"])
def test_vectors_of_zeros_are_before_no_word(method):
    """`the` is on the other side, with a cosine below 0; two words without a direction are no neighbours."""
    vectors = planted()
    words = [*vectors.index_to_key, "nought", "void"]
    padded = WordVectors(words, np.concatenate([vectors.vectors, np.zeros((2, 4), np.float32)]))
    query = ["lake - king = the"]
    (plain,), (other,) = (nearest_neighbours(one, query, method=method) for one in (vectors, padded))
    assert plain == other
    (zero,) = nearest_neighbours(padded, ["king = nought"], method=method)
    assert (zero["rank"], zero["note"]) == (None, "its vector has no direction")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("", "A query is empty"),
        ("king queen", "cannot be read"),
        ("king -", "cannot be read"),
        ("- king", "cannot be read"),
        ("king = queen + man", "cannot be read"),
        ("kinge", r"The word 'kinge' \(did you mean 'king'\?\) is not among the 7"),
        ("king - quen + zzzzzz", r"The words 'quen' \(did you mean 'queen'\?\), 'zzzzzz' are not among"),
        ("king = king", "its own words are no answers"),
    ],
)
def test_queries_that_cannot_be(query, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_query(query, planted())


def test_a_word_with_signs_or_blanks_is_a_word():
    vectors = random_vectors(["new york", "-", "a", "b"])
    assert [parse_query(text, vectors).positive for text in ("new york", "-", "a + b")] == [
        ("new york",),
        ("-",),
        ("a", "b"),
    ]


def test_the_command_of_neighbours(tmp_path):
    path = tmp_path / "v.txt"
    planted().save_word2vec_format(path)
    answers = json.loads(command("neighbours", path, "king", "man + king", "--topn", 3, "--json"))
    assert [len(answer["neighbours"]) for answer in answers] == [3, 3]
    assert "river" in command("neighbours", path, "lake", "--topn", 1)
    assert "did you mean 'king'" in command("neighbours", path, "kinng", status=2)
    assert not any("rank" in answer for answer in answers)
    reverse = json.loads(command("neighbours", path, "- man + king", "king - man", "--topn", 3, "--json"))
    assert reverse[0]["query"] == "- man + king"
    assert reverse[0]["neighbours"] == reverse[1]["neighbours"]
    assert "cannot be read" in command("neighbours", path, "- king", status=2)
    (path.parent / "broken.txt").write_text("these are no vectors\n", "utf-8")
    for wrong in (path, path.parent / "broken.txt"):
        assert "The method 'sum' is not known" in command("neighbours", wrong, "king", "--method", "sum", status=2)


def test_an_unknown_word_leaves_the_other_queries_their_answers(tmp_path):
    path = tmp_path / "v.txt"
    planted().save_word2vec_format(path)
    result = CliRunner().invoke(app, ["neighbours", str(path), "lake", "kinng", "king + qeen", "--topn", "1"])
    assert result.exit_code == 1
    assert "river" in result.stdout
    assert "kinng" not in result.stdout
    assert result.stderr.splitlines() == [
        "regard: The word 'kinng' (did you mean 'king'?) is not among the 7 of the vocabulary.",
        "regard: The word 'qeen' (did you mean 'queen'?) is not among the 7 of the vocabulary.",
    ]
    result = CliRunner().invoke(app, ["neighbours", str(path), "kinng", "lake", "--json"])
    assert result.exit_code == 1
    assert [set(answer) for answer in json.loads(result.stdout)] == [{"query", "error"}, {"query", "neighbours"}]
    with pytest.raises(ValueError, match="'kinng'"):
        nearest_neighbours(planted(), ["lake", "kinng"])


def test_many_missing_words_are_one_short_sentence(monkeypatch):
    """And the vocabulary is gone through for a few of them alone."""
    vectors, asked = planted(), []
    monkeypatch.setattr(WordVectors, "nearest_spelling", lambda _, word: asked.append(word))
    with pytest.raises(ValueError, match=f"and {100 - NAMED} more are not among the 7") as caught:
        check_words(vectors, [f"x{i}" for i in range(100)])
    assert len(str(caught.value)) < 200
    assert asked == [f"x{i}" for i in range(SPELLINGS)]
