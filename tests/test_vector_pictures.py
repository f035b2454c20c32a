"""Pictures of word vectors: labels part, planes and cosines are what they should be, and errors are one sentence."""

import xml.etree.ElementTree

import matplotlib.colors
import numpy as np
import pytest
from typer.testing import CliRunner

from regard.cli import _is_wrong_call, app
from regard.evaluation import vector_pictures
from regard.evaluation.drawing import SERIES
from regard.evaluation.labels import nearest_edge, place_labels
from regard.evaluation.vector_pictures import (
    FEWEST_FOR_TSNE,
    MARKERS,
    OTHERS,
    OTHERS_COLOUR,
    parallelism,
    parse_pairs,
    plot_analogies,
    plot_one_hot,
    plot_vectors,
    principal_plane,
)
from regard.modeling.word_vectors import WordVectors

WORDS = ["man", "woman", "king", "queen", "uncle", "aunt", "river", "lake"]


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((len(WORDS), 6)).astype(np.float32)
    table[1::2] = table[::2] + np.array([0, 0, 0, 0, 0, 2], dtype=np.float32)
    return WordVectors(WORDS, table)


def many_vectors(number: int) -> WordVectors:
    words = [f"w{i:03}" for i in range(number)]
    return WordVectors(words, np.random.default_rng(1).standard_normal((number, 6)).astype(np.float32))


def drawn_figure(monkeypatch, call):
    """The figure that a function hands over to be saved."""
    kept = []
    monkeypatch.setattr(vector_pictures, "save_figure", lambda figure, path: kept.append(figure) or path)
    call()
    return kept[0]


def styles_of(axes) -> dict:
    """The colour of each point of a panel, and the outline of its sign, by its place."""
    found = {}
    for points in axes.collections:
        outline = tuple(map(tuple, points.get_paths()[0].vertices.round(3)))
        for place in points.get_offsets():
            found[tuple(np.round(place, 6))] = (matplotlib.colors.to_hex(points.get_facecolor()[0]), outline)
    return found


def texts_of(path) -> list[str]:
    """The texts of a picture: matplotlib writes each as a comment before its outlines."""
    parser = xml.etree.ElementTree.XMLParser(target=xml.etree.ElementTree.TreeBuilder(insert_comments=True))
    root = xml.etree.ElementTree.parse(path, parser=parser).getroot()
    return [node.text.strip() for node in root.iter() if node.tag is xml.etree.ElementTree.Comment]


# --- labels ----------------------------------------------------------------------------------------------------------


def boxes_overlap(centres, sizes) -> bool:
    """Pair by pair, by hand."""
    for i in range(len(centres)):
        for j in range(i):
            if all(abs(centres[i][k] - centres[j][k]) < (sizes[i][k] + sizes[j][k]) / 2 - 1e-9 for k in (0, 1)):
                return True
    return False


@pytest.mark.parametrize("seed", range(3))
def test_labels_of_crowded_points_do_not_overlap(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(300, 60, (45, 2))
    sizes = np.stack([rng.uniform(25, 70, 45), np.full(45, 13.0)], axis=1)
    marks = np.concatenate([points, np.full((45, 2), 7.0)], axis=1)
    placement = place_labels(points, sizes, marks, (0, 0, 600, 600))
    assert placement.overlapping == 0
    assert not boxes_overlap(placement.centres, sizes)
    assert (placement.centres - sizes / 2 >= 0).all()
    assert (placement.centres + sizes / 2 <= 600).all()


def test_a_lone_label_is_beside_its_point_and_overlaps_are_counted():
    alone = place_labels(
        np.array([[50.0, 50.0]]), np.array([[20.0, 10.0]]), np.array([[50.0, 50.0, 7, 7]]), (0, 0, 99, 99)
    )
    assert alone.centres.tolist() == [[65.0, 50.0]]
    assert nearest_edge(np.array([[50.0, 50.0]]), alone.centres, np.array([[20.0, 10.0]])).tolist() == [[55.0, 50.0]]
    crowd = place_labels(np.full((60, 2), 50.0), np.full((60, 2), 80.0), np.full((1, 4), 50.0), (0, 0, 99, 99))
    assert crowd.overlapping > 0
    assert place_labels(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 4)), (0, 0, 1, 1)).overlapping == 0


# --- what is drawn ---------------------------------------------------------------------------------------------------


def test_the_plane_is_the_two_first_singular_vectors(vectors):
    """Against numpy's singular value decomposition; signs are free."""
    centred = vectors.vectors.astype(np.float64) - vectors.vectors.mean(axis=0, dtype=np.float64)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    points, shares = principal_plane(vectors.vectors)
    np.testing.assert_allclose(np.abs(points), np.abs(left[:, :2] * values[:2]), atol=1e-9)
    np.testing.assert_allclose(shares, (values**2 / (values**2).sum())[:2])
    with pytest.raises(ValueError, match="span no plane"):
        principal_plane(np.ones((4, 3)))


def test_parallel_ways_have_a_cosine_of_one():
    table = WordVectors(list("abcd"), np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=np.float32))
    assert parallelism(table, [("a", "b"), ("c", "b")]) == pytest.approx(1)
    assert parallelism(table, [("a", "b"), ("b", "c")]) == pytest.approx(-1)
    assert parallelism(table, [("a", "b"), ("a", "d")]) == pytest.approx(0.5)


def test_vectors_in_a_plane(vectors, tmp_path):
    more = many_vectors(FEWEST_FOR_TSNE)
    path = plot_vectors(more, more.index_to_key, tmp_path / "words.svg")
    texts = texts_of(path)
    for word in more:
        assert texts.count(word) == 2  # a panel each for PCA and t-SNE
    assert "PCA" in texts
    assert "t-SNE, perplexity 5" in texts
    again = plot_vectors(more, more.index_to_key, tmp_path / "again.svg")
    assert again.read_bytes() == path.read_bytes()
    few = texts_of(plot_vectors(vectors, WORDS[:3], tmp_path / "few.svg"))
    assert [few.count(word) for word in WORDS[:3]] == [1, 1, 1]
    near = texts_of(plot_vectors(vectors, ["river"], tmp_path / "near.svg", neighbours=3, methods=["pca"]))
    shown = {"river", *(word for word, _ in vectors.most_similar("river", topn=3))}
    assert shown == set(near) & set(WORDS)


def test_few_words_are_drawn_by_pca_alone_which_is_said(tmp_path, caplog):
    more = many_vectors(FEWEST_FOR_TSNE)
    plot_vectors(more, more.index_to_key[:-1], tmp_path / "a.svg")
    assert caplog.messages == ["Drawn by PCA alone: t-SNE takes at least 16 words, and there are 15."]
    caplog.clear()
    plot_vectors(more, more.index_to_key[:-1], tmp_path / "a.svg", methods=["pca"])
    plot_vectors(more, more.index_to_key, tmp_path / "a.svg")
    assert caplog.messages == []


def test_more_groups_than_colours_differ_by_their_signs(monkeypatch, tmp_path):
    """21 groups of two words, of which one more word has none."""
    table = many_vectors(43)
    words = table.index_to_key
    groups = {word: f"group {i // 2}" for i, word in enumerate(words[:42])}
    figure = drawn_figure(monkeypatch, lambda: plot_vectors(table, words, "a.png", methods=["pca"], groups=groups))
    (axes,) = figure.axes
    styles = styles_of(axes)
    points, _ = principal_plane(table.vectors / np.linalg.norm(table.vectors, axis=1, keepdims=True))
    found = [styles[tuple(np.round(point, 6))] for point in points]
    assert found[0:42:2] == found[1:42:2]
    assert len(set(found)) == 22
    assert len({colour for colour, _ in found[:42]}) == len(SERIES)
    assert found[42][0] == OTHERS_COLOUR
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [*dict.fromkeys(groups.values()), OTHERS]
    assert axes.get_legend()._ncols > 1
    assert {text.get_text() for text in axes.texts} == set(words)
    more = many_vectors(len(SERIES) * len(MARKERS) + 1)
    with pytest.raises(ValueError, match="81 groups of words cannot be told apart in a picture: draw at most 80"):
        plot_vectors(more, more.index_to_key, tmp_path / "a.png", groups={word: word for word in more})


def test_neighbours_have_the_group_of_their_word(monkeypatch):
    """Two clusters: what is near a word is drawn as the word is, unless it has a group of its own."""
    near = np.random.default_rng(0).standard_normal((10, 6)) / 50
    table = WordVectors([f"w{i}" for i in range(10)], (np.eye(2, 6).repeat(5, axis=0) + near).astype(np.float32))
    groups = {"w0": "first", "w5": "second", "w1": "second"}
    figure = drawn_figure(
        monkeypatch, lambda: plot_vectors(table, list(groups), "a.png", methods=["pca"], groups=groups, neighbours=4)
    )
    (axes,) = figure.axes
    colours = {text.get_text(): text.get_color() for text in axes.texts}
    first = {word for word, colour in colours.items() if colour == colours["w0"]}
    assert first == {"w0", "w2", "w3", "w4"}
    assert {word for word, colour in colours.items() if colour == colours["w5"]} == set(table) - first
    assert {text.get_text() for text in axes.texts if text.get_fontweight() == "bold"} == set(groups)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["first", "second"]


def test_labels_that_find_no_room_are_said(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(vector_pictures, "label_points", lambda *_, **__: 3)
    table = many_vectors(4)
    paths = [
        plot_vectors(table, table.index_to_key, tmp_path / "a.svg", methods=["pca"]),
        plot_analogies(table, [("w000", "w001"), ("w002", "w003")], tmp_path / "b.svg"),
    ]
    assert all(path.is_file() for path in paths)
    said = [f"3 pairs of labels still cover one another in '{path}': draw fewer words." for path in paths]
    assert caplog.messages == said


def test_analogies_and_one_hot(vectors, tmp_path):
    pairs = parse_pairs(["man:woman", "king:queen", "uncle:aunt"])
    texts = texts_of(plot_analogies(vectors, pairs, tmp_path / "a.svg"))
    assert set(WORDS[:6]) <= set(texts)
    assert any(f"dimensions: {parallelism(vectors, pairs):.2f}" in text for text in texts)
    texts = texts_of(plot_one_hot(vectors, ["river", "lake", "king"], tmp_path / "b.svg"))
    assert texts.count("1.00") == 6
    assert texts.count("0.00") >= 6
    assert texts.count(f"{vectors.similarity('river', 'lake'):.2f}") >= 2
    assert "One-hot vectors of width 8" in texts


def test_words_are_never_mathematics(tmp_path):
    words = ["$x$", "a_b", "日本", "_c"]
    table = WordVectors(words, np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32))
    for path in (plot_vectors(table, words, tmp_path / "a.svg"), plot_one_hot(table, words, tmp_path / "b.svg")):
        assert set(words) <= set(texts_of(path))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda v, p: plot_vectors(v, ["king", "quen", "man"], p),
            r"The word 'quen' \(did you mean 'queen'\?\) is not",
        ),
        (
            lambda v, p: plot_vectors(v, ["king"], p),
            r"One word makes no picture: give 3 to 500, or so many neighbours of each too .*--neighbours 8",
        ),
        (lambda v, p: plot_vectors(v, [], p, neighbours=3), "No words make a picture"),
        (lambda v, p: plot_vectors(v, WORDS, p, neighbours=-1), "neighbours=-1 must not be negative"),
        (lambda v, p: plot_vectors(v, WORDS, p, methods=[]), "There is no method to draw by"),
        (lambda v, p: plot_vectors(v, WORDS[:4], p, methods=["tsne"]), "t-SNE of 4 words shows nothing"),
        (lambda v, p: plot_vectors(v, WORDS, p, methods=["umap"]), "'umap' is not known"),
        (lambda v, p: plot_analogies(v, [("man", "woman")], p), "One pair is no analogy"),
        (lambda v, p: plot_one_hot(v, ["king"], p), "One word makes no picture"),
        (lambda v, p: plot_one_hot(v, WORDS, p.with_suffix(".pdf")), "must end in .png or .svg"),
        (lambda v, p: parse_pairs(["man-woman"]), "'man-woman' is no pair"),
        (lambda v, p: parse_pairs(["man:man"]), "'man:man' is no pair"),
    ],
)
def test_what_cannot_be_drawn(vectors, tmp_path, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(vectors, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_the_commands(vectors, tmp_path):
    path, groups = tmp_path / "v.txt", tmp_path / "groups.tsv"
    vectors.save_word2vec_format(path)
    groups.write_text("category\tword\nf\twoman\nf\tqueen\nm\tman\nm\tking\nm\tyeti\n", "utf-8")

    def run(*words):
        result = CliRunner().invoke(app, ["plot", *map(str, words)])
        return result.exception if result.exception is not None else result.stdout

    for name, words in (
        ("vectors", ["--words", "king", "queen", "man"]),
        ("vectors", ["king", "queen", "man", "--method", "pca"]),
        ("vectors", ["--categories", groups]),
        ("analogies", ["man:woman", "king:queen"]),
        ("one-hot", ["river", "lake"]),
    ):
        picture = tmp_path / f"{name}.png"
        assert run(name, path, *words, "-o", picture) == f"Wrote {picture}\n"
        assert picture.read_bytes().startswith(b"\x89PNG")
        picture.unlink()
    error = run("vectors", path, "kingg", "queen", "man", "-o", tmp_path / "x.png")
    assert "did you mean 'king'" in str(error)
    assert _is_wrong_call(error)
    assert "must end in" in str(run("one-hot", path, "river", "lake", "-o", tmp_path / "x.gif"))

    picture, broken = tmp_path / "x.png", tmp_path / "broken.txt"
    broken.write_text("these are no vectors\n", "utf-8")
    for sentence, words in (  # before the vectors are read
        ("There is no file 'no.tsv'", ["vectors", broken, "--categories", "no.tsv"]),
        ("'umap' is not known", ["vectors", broken, "king", "queen", "man", "--method", "umap"]),
        ("One word makes no picture", ["vectors", broken, "king"]),
        ("No words make a picture", ["vectors", broken]),
        ("One word makes no picture", ["one-hot", broken, "king", "king"]),
        ("One pair is no analogy", ["analogies", broken, "king:queen"]),
    ):
        assert sentence in str(run(*words, "-o", picture)), words
    assert (
        run("vectors", path, "river", "--categories", groups, "--neighbours", 2, "-o", picture) == f"Wrote {picture}\n"
    )
