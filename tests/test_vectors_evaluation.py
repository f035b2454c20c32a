"""Word vectors on test sets: against scipy, gensim, formulas by hand, and vectors whose structure is planted."""

import json

import numpy as np
import pytest
from scipy.stats import spearmanr
from typer.testing import CliRunner

from regard.cli import _is_wrong_call, app
from regard.evaluation import word_analogies
from regard.evaluation.vectors_report import aligned, evaluate_vectors, read_sets, report_table
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
from regard.evaluation.word_table import WordTable
from regard.model_cards.card import render_card
from regard.modeling.modeling_glove import GloVeModel
from regard.modeling.modeling_word2vec import Word2VecModel
from regard.modeling.word_vectors import WordVectors
from regard.train.evaluate_vectors import evaluate_vectors_at
from regard.train.recipe import load_recipe
from regard.train.records import holds_vectors, read_json, write_json

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
    """Levy & Goldberg (2014), equations 3 and 4, question by question; the batches are smaller than the set."""
    words = [f"w{i}" for i in range(40)]
    vectors = random_vectors(words, width=5)
    vectors.vectors[7] = 0  # a word without a direction is no answer, and no question is found that has it
    unit = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True).clip(1e-9)
    rng = np.random.default_rng(3)
    quads = [tuple(rng.choice(40, 4, replace=False)) for _ in range(50)]
    monkeypatch.setattr(word_analogies, "BATCH_NUMBERS", 3 * 40)
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
        "\ufeffold\tnew\t1.58\nhard\teasy\t9",
    ],
)
def test_pairs_are_read_as_they_are_published(tmp_path, text):
    path = tmp_path / "pairs.txt"
    path.write_bytes(text.encode())
    assert read_similarity(path) == [Pair("old", "new", 1.58), Pair("hard", "easy", 9)]


def test_both_forms_of_analogies_are_the_same(tmp_path):
    table, original = tmp_path / "a.tsv", tmp_path / "b.txt"
    table.write_text("category\ta\tb\tc\td\nfamily\tboy\tgirl\tman\twoman\ngram1\tbig\tbigger\tsad\tsadder\n", "utf-8")
    original.write_text(": family\nboy girl man woman\n: gram1\nbig bigger sad sadder\n", "utf-8")
    assert read_analogies(table) == read_analogies(original)
    assert read_analogies(table)[1] == Question("gram1", "big", "bigger", "sad", "sadder")


def test_a_line_without_a_word_lists_none(files):
    words = [member.word for member in read_categories(files / "groups.tsv")]
    assert words == ["king", "queen", "river", "lake", "yeti"]


@pytest.mark.parametrize(
    ("reader", "content", "sentence"),
    [
        (read_similarity, b"", "holds no test set: it is empty"),
        (read_similarity, b"a\tb\t1\nc\td\tnan\n", "line 2: 'nan' is no score"),
        (read_similarity, b"a\tb\tscore\nc\td\tgood\ne\tf\t1\n", "line 2: 'good' is no score"),
        (read_similarity, b"a\tb\t1\nc\td\n", "line 2: 'c d' is not two words and a score"),
        (read_similarity, b"a\tb\t1\n\td\t3\n", "line 2: ' d 3' is not two words and a score"),
        (read_similarity, b"word1\tword2\tscore\na\tb\t1\n", "holds 1 pair"),
        (read_similarity, b"\xff\xfe\x00", "is not UTF-8: byte 0"),
        (read_analogies, b"boy girl man woman\n", "line 1: 'boy girl man woman' is not a section and four words"),
        (read_analogies, b": family\nboy girl man\n", "line 2: 'boy girl man' is not four words"),
        (read_analogies, b": \nboy girl man woman\n", "line 1: the section has no name"),
        (read_analogies, b": family\n", "nothing under its header"),
        (read_analogies, b"category\ta\tb\tc\td\n", "nothing under its header"),
        (read_categories, b"category\tword\nanimal\tcat\n", "has one category, 'animal'"),
        (read_categories, b"cat\n", "line 1: 'cat' is not a category and a word"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, reader, content, sentence):
    path = tmp_path / "set.tsv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence.replace("(", r"\(")) as caught:
        reader(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_sets(tmp_path):
    assert name_files(["data/ws.353.tsv", "mine=x.tsv"], "similarity") == {"ws": "data/ws.353.tsv", "mine": "x.tsv"}
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


def test_columns_are_even_whatever_the_script():
    lines = aligned(["a", "b"], [["日本", "1"], ["xyz", "22"]], numbers_from=1).split("\n")
    assert lines == ["a      b", "日本   1", "xyz   22"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"analogy_method": "sum"}, "it is 'add' or 'mul'"),
        ({"analogy_vocabulary": 0}, "must be at least 1"),
        ({"predictions": "x.txt"}, "must end in .jsonl"),
    ],
)
def test_settings_that_cannot_be(files, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        evaluate_vectors(planted(), read_sets(**all_sets(files)), **settings)


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
    assert "has no recipe to change" in command("evaluate", path, "evaluation.similarity.a=b", *sets, status=2)


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
