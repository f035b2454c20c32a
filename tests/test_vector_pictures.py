"""Pictures of word vectors: labels part, planes and cosines are what they should be, and errors are one sentence."""

import xml.etree.ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from regard.cli import _is_wrong_call, app
from regard.evaluation.labels import nearest_edge, place_labels
from regard.evaluation.vector_pictures import (
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
    path = plot_vectors(vectors, WORDS, tmp_path / "words.svg")
    texts = texts_of(path)
    for word in WORDS:
        assert texts.count(word) == 2  # a panel each for PCA and t-SNE
    assert "PCA" in texts
    again = plot_vectors(vectors, WORDS, tmp_path / "again.svg")
    assert again.read_bytes() == path.read_bytes()
    few = texts_of(plot_vectors(vectors, WORDS[:3], tmp_path / "few.svg"))
    assert [few.count(word) for word in WORDS[:3]] == [1, 1, 1]
    near = texts_of(plot_vectors(vectors, ["river"], tmp_path / "near.svg", neighbours=3, methods=["pca"]))
    shown = {"river", *(word for word, _ in vectors.most_similar("river", topn=3))}
    assert shown == set(near) & set(WORDS)


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
        (lambda v, p: plot_vectors(v, ["king"], p), "1 words make no picture"),
        (lambda v, p: plot_vectors(v, WORDS[:4], p, methods=["tsne"]), "t-SNE of 4 words shows nothing"),
        (lambda v, p: plot_vectors(v, WORDS, p, methods=["umap"]), "'umap' is not known"),
        (lambda v, p: plot_analogies(v, [("man", "woman")], p), "One pair is no analogy"),
        (lambda v, p: plot_one_hot(v, ["king"], p), "1 words make no picture"),
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
