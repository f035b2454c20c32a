"""Pictures of word vectors: words in a plane, analogies as arrows, one-hot vectors beside embeddings.

Axes: N words, D width of a vector.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from regard.evaluation.drawing import BLUE, GRAY, INK, PALE, SERIES, add_legend, check_format, save_figure
from regard.evaluation.labels import label_points
from regard.evaluation.word_sets import Member
from regard.evaluation.word_table import check_words, vectors_of
from regard.modeling.word_vectors import WordVectorsMixin

logger = logging.getLogger(__name__)

METHODS = ("pca", "tsne")
FEWEST_FOR_TSNE = 16  # with a perplexity of 5, the least that its authors advise: a third of the other words
MOST_WORDS = 500
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")  # one for each time that the colours are through
OTHERS, OTHERS_COLOUR = "other words", "#a6abb3"  # those that are in no group
LEGEND_SIGN, LEGEND_LETTER = 0.45, 0.072  # widths in a legend, in inches
MOST_NUMBERS = 14  # a matrix of more words shows colours alone
MARGINS = 0.055, 0.06, 0.02, 0.06  # left, bottom, right, top of a panel, as shares of its side
GROWTH, ATTEMPTS = 1.25, 4  # a picture whose labels find no room is drawn again, larger


def plot_vectors(
    vectors: WordVectorsMixin,
    words: Sequence[str],
    path: str | Path,
    *,
    methods: Sequence[str] | None = None,
    neighbours: int = 0,
    groups: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Path:
    """Words in a plane by their unit vectors, a panel for each method.

    Args:
        words: at least three, with their neighbours.
        path: a .png or .svg file; it is complete or not there.
        methods: "pca" and "tsne"; by default both, or with few words PCA alone, which is said.
        neighbours: so many nearest neighbours of each word are drawn too, in its colour, and the word itself is bold.
        groups: the group of each word; those of one group share a colour, and after ten of them another sign too.
            Words without a group are grey.
        seed: of t-SNE.

    Raises:
        ValueError: a word that is missing, too few or too many of them or of groups, another method or kind of file.
    """
    check_format(path)
    words = list(dict.fromkeys(words))
    check_choice(len(words), neighbours, methods)
    check_words(vectors, words)
    group_of = {word: (groups or {}).get(word) for word in words} if groups else {word: word for word in words}
    asked = set(words)
    if neighbours:
        for word, near in zip(words, _neighbours(vectors, words, neighbours), strict=True):
            for other in near:
                group_of.setdefault(other, (groups or {}).get(other, group_of[word]))
        words = list(group_of)
        check_choice(len(words), 0, methods)
    chosen = _methods(methods, len(words))
    units = vectors_of(vectors, words)
    styles = _styles(group_of) if groups or neighbours else dict.fromkeys(words, (BLUE, MARKERS[0]))
    shown = [styles[group_of[word]] for word in words]
    inks = None  # of the labels
    if len(set(shown)) > 1:
        inks = [GRAY if group_of[word] is None else colour for word, (colour, _) in zip(words, shown, strict=True)]
    bold = [bool(neighbours) and word in asked for word in words]
    panels = [_project(units, method, seed) for method in chosen]

    def draw(side: float) -> tuple[Figure, int]:
        figure, overlapping = Figure(figsize=(side * len(panels), side)), 0
        for number, (points, titles) in enumerate(panels):
            axes = _panel(figure, points, number, len(panels), titles)
            sizes = np.array([26 if one else 14 for one in bold])
            for style in dict.fromkeys(shown):
                its = np.array([one == style for one in shown])
                axes.scatter(*points[its].T, s=sizes[its], c=style[0], marker=style[1], zorder=3, linewidths=0)
            overlapping += label_points(axes, points, words, inks, bold)
            if groups and number == 0 and len(styles) > 1:
                names = [OTHERS if name is None else name for name in styles]
                handles = [axes.scatter([], [], s=20, c=colour, marker=sign) for colour, sign in styles.values()]
                widest = LEGEND_SIGN + LEGEND_LETTER * max(map(len, names))
                columns = min(len(names), max(1, int(side * len(panels) / widest)))
                add_legend(axes, handles, names, below=0.08, columns=columns)
        return figure, overlapping

    return save_figure(_with_room(draw, 5.2 + 0.03 * len(words), path), path)


def check_choice(words: int, neighbours: int, methods: Sequence[str] | None) -> None:
    """Refuses, as a ValueError, what can be told of a picture by `plot_vectors` without its vectors."""
    if neighbours < 0:
        raise ValueError(f"neighbours={neighbours} must not be negative.")
    if methods is not None:
        if unknown := [method for method in methods if method not in METHODS]:
            raise ValueError(f"The method '{unknown[0]}' is not known: it is 'pca' or 'tsne'.")
        if not len(methods):
            raise ValueError("There is no method to draw by: choose 'pca', 'tsne' or both.")
    if words > MOST_WORDS or (words < 3 and not (neighbours and words)):
        more = ", or so many neighbours of each too (neighbours=8, in the command --neighbours 8)" if words < 3 else ""
        raise ValueError(f"{_so_many(words)}: give 3 to {MOST_WORDS}{more}.")


def _so_many(words: int) -> str:
    return {0: "No words make a picture", 1: "One word makes no picture"}.get(words, f"{words} words make no picture")


def _styles(group_of: Mapping[str, str | None]) -> dict[str | None, tuple[str, str]]:
    """A colour and a sign for each group, those without one last."""
    names = [name for name in dict.fromkeys(group_of.values()) if name is not None]
    if len(names) > (most := len(SERIES) * len(MARKERS)):
        raise ValueError(f"{len(names)} groups of words cannot be told apart in a picture: draw at most {most}.")
    styles: dict[str | None, tuple[str, str]] = {
        name: (SERIES[i % len(SERIES)], MARKERS[i // len(SERIES)]) for i, name in enumerate(names)
    }
    return styles | ({None: (OTHERS_COLOUR, MARKERS[0])} if None in group_of.values() else {})


def words_of_categories(vectors: WordVectorsMixin, members: Sequence[Member], path: str | Path) -> dict[str, str]:
    """The category of each word of a set that the vocabulary has; a warning counts the others.

    Args:
        members: from `read_categories`.
        path: where they were read.
    """
    groups = {member.word: member.category for member in members if member.word in vectors.key_to_index}
    if missing := len({member.word for member in members}) - len(groups):
        logger.warning("%s of the %s words of '%s' are not in the vocabulary.", missing, missing + len(groups), path)
    return groups


def _neighbours(vectors: WordVectorsMixin, words: Sequence[str], number: int) -> list[list[str]]:
    rows = [vectors.key_to_index[word] for word in words]
    found, _ = vectors.nearest(vectors_of(vectors, words), topn=number, exclude=[[row] for row in rows])
    return [[vectors.index_to_key[row] for row in near if row >= 0] for near in found]


def _methods(methods: Sequence[str] | None, words: int) -> list[str]:
    if methods is None:
        if words >= FEWEST_FOR_TSNE:
            return list(METHODS)
        logger.warning("Drawn by PCA alone: t-SNE takes at least %s words, and there are %s.", FEWEST_FOR_TSNE, words)
        return ["pca"]
    if "tsne" in methods and words < FEWEST_FOR_TSNE:
        raise ValueError(f"t-SNE of {words} words shows nothing: it takes at least {FEWEST_FOR_TSNE}.")
    return list(dict.fromkeys(methods))


def _project(units: np.ndarray, method: str, seed: int) -> tuple[np.ndarray, tuple[str, str, str]]:
    """Points of shape (N, 2), and the titles of the panel and its axes."""
    from sklearn.manifold import TSNE

    if method == "pca":
        points, shares = principal_plane(units)
        return points, ("PCA", *(f"component {i + 1}: {share:.0%} of the variance" for i, share in enumerate(shares)))
    perplexity = min(30.0, (len(units) - 1) / 3)
    points = TSNE(2, perplexity=perplexity, init="random", random_state=seed).fit_transform(units)
    return points.astype(np.float64), (f"t-SNE, perplexity {perplexity:.3g}", "", "")


def principal_plane(units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first two principal components of vectors (N, D).

    Returns:
        float64 of shape (N, 2), and the shares of the variance that the two have.

    Raises:
        ValueError: all vectors are the same.
    """
    from sklearn.decomposition import PCA

    if units.shape[1] < 2 or np.ptp(units, axis=0).max() == 0:
        raise ValueError("These vectors span no plane: they are all the same, or have a width of 1.")
    pca = PCA(2, svd_solver="full").fit(units.astype(np.float64))
    return pca.transform(units.astype(np.float64)), pca.explained_variance_ratio_


def _with_room(draw: Any, side: float, path: str | Path) -> Figure:
    """Draws larger until no two labels cover one another, or it has been tried often enough, which is said."""
    for _ in range(ATTEMPTS):
        figure, overlapping = draw(side)
        if not overlapping:
            return figure
        side *= GROWTH
    logger.warning("%s pairs of labels still cover one another in '%s': draw fewer words.", overlapping, path)
    return figure


def _panel(figure: Figure, points: np.ndarray, number: int, panels: int, titles: tuple[str, str, str]) -> Any:
    """Square axes with one scale for both directions, so that distances are what they are."""
    left, bottom, right, top = MARGINS
    width = 1 / panels
    axes = figure.add_axes(((number + left) * width, bottom, (1 - left - right) * width, 1 - bottom - top))
    low, high = points.min(axis=0), points.max(axis=0)
    reach = max((high - low).max(), 1e-6) * 0.58
    for middle, limit in zip((low + high) / 2, (axes.set_xlim, axes.set_ylim), strict=True):
        limit(middle - reach, middle + reach)
    axes.set_xticks([])
    axes.set_yticks([])
    for edge in axes.spines.values():
        edge.set_color(PALE)
    axes.set_title(titles[0], fontsize=11, color=INK, loc="left", parse_math=False)
    axes.set_xlabel(titles[1], fontsize=9, color=GRAY)
    axes.set_ylabel(titles[2], fontsize=9, color=GRAY)
    return axes


# --- analogies -------------------------------------------------------------------------------------------------------


def parse_pairs(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Reads pairs such as `man:woman`.

    Raises:
        ValueError: what is not two different words with a colon between.
    """
    pairs = []
    for text in texts:
        first, colon, second = text.partition(":")
        if not (first and colon and second) or ":" in second or first == second:
            raise ValueError(f"'{text}' is no pair of two words: write it as man:woman.")
        pairs.append((first, second))
    return pairs


def check_pairs(pairs: Sequence[tuple[str, str]]) -> None:
    """Refuses fewer than two different pairs, as a ValueError."""
    if len(set(pairs)) < 2:
        raise ValueError("One pair is no analogy: give at least two, such as man:woman king:queen.")


def parallelism(vectors: WordVectorsMixin, pairs: Sequence[tuple[str, str]]) -> float:
    """How parallel the ways from the first to the second word of pairs are: the mean cosine of two of them."""
    steps = vectors_of(vectors, [b for _, b in pairs]) - vectors_of(vectors, [a for a, _ in pairs])  # (N, D)
    steps = steps.astype(np.float64)
    steps /= np.linalg.norm(steps, axis=1, keepdims=True).clip(1e-12)
    cosines = steps @ steps.T  # (N, N)
    return float(cosines[np.triu_indices(len(pairs), 1)].mean())


def plot_analogies(vectors: WordVectorsMixin, pairs: Sequence[tuple[str, str]], path: str | Path) -> Path:
    """An arrow from the first to the second word of each pair, in the principal plane of their unit vectors.

    Args:
        pairs: at least two, such as ("man", "woman") and ("king", "queen").
        path: a .png or .svg file; it is complete or not there.

    Raises:
        ValueError: a word that is missing, fewer than two pairs, or another kind of file.
    """
    check_format(path)
    pairs = list(dict.fromkeys(pairs))
    check_pairs(pairs)
    words = list(dict.fromkeys(word for pair in pairs for word in pair))
    check_words(vectors, words)
    points, shares = principal_plane(vectors_of(vectors, words))
    place = dict(zip(words, points, strict=True))
    title = (
        f"Mean cosine of two arrows in all {vectors.vectors.shape[1]} dimensions: {parallelism(vectors, pairs):.2f}"
    )
    titles = (title, *(f"component {i + 1}: {share:.0%} of the variance" for i, share in enumerate(shares)))
    between = np.linspace(0.05, 0.95, 24)[:, None]
    marks = np.concatenate([place[a] * (1 - between) + place[b] * between for a, b in pairs])

    def draw(side: float) -> tuple[Figure, int]:
        figure = Figure(figsize=(side, side))
        axes = _panel(figure, points, 0, 1, titles)
        style = {
            "arrowstyle": "-|>",
            "color": BLUE,
            "linewidth": 1.2,
            "shrinkA": 4,
            "shrinkB": 4,
            "mutation_scale": 11,
        }
        for a, b in pairs:
            axes.annotate("", xy=place[b], xytext=place[a], arrowprops=style, zorder=2)
        axes.scatter(*points.T, s=16, c=INK, zorder=3, linewidths=0)
        return figure, label_points(axes, points, words, marks=marks, size=10)

    return save_figure(_with_room(draw, 6 + 0.05 * len(words), path), path)


# --- one-hot ---------------------------------------------------------------------------------------------------------


def plot_one_hot(vectors: WordVectorsMixin, words: Sequence[str], path: str | Path) -> Path:
    """The cosines of words as one-hot vectors, of which each is as far from any other, beside those of their vectors.

    Args:
        words: at least two.
        path: a .png or .svg file; it is complete or not there.

    Raises:
        ValueError: a word that is missing, too few or too many of them, or another kind of file.
    """
    check_format(path)
    words = list(dict.fromkeys(words))
    check_number(len(words))
    units = vectors_of(vectors, words).astype(np.float64)
    size, width = len(vectors.index_to_key), vectors.vectors.shape[1]
    matrices = {
        f"One-hot vectors of width {size:,}": np.eye(len(words)),
        f"Embeddings of width {width:,}": np.clip(units @ units.T, -1, 1),
    }
    side = 2.2 + 0.34 * len(words)
    figure = Figure(figsize=(2 * side + 0.9, side + 0.3), layout="constrained")
    axes = figure.subplots(1, 2)
    for one, (title, matrix) in zip(axes, matrices.items(), strict=True):
        image = _draw_matrix(one, matrix, words, title)
    bar = figure.colorbar(image, ax=axes, aspect=30, pad=0.02, shrink=0.8, ticks=[-1, -0.5, 0, 0.5, 1], format="{x:g}")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=GRAY)
    bar.set_label("cosine", color=GRAY, fontsize=9)
    return save_figure(figure, path)


def check_number(words: int) -> None:
    """Refuses, as a ValueError, too few or too many words for `plot_one_hot`."""
    if not 2 <= words <= MOST_WORDS // 5:
        raise ValueError(f"{_so_many(words)}: give 2 to {MOST_WORDS // 5}.")


def _draw_matrix(axes: Any, matrix: np.ndarray, words: Sequence[str], title: str) -> Any:
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    rotation = {"rotation": 90} if max(map(len, words)) > 4 or len(words) > 8 else {}
    axes.set_xticks(range(len(words)), words, fontsize=9, parse_math=False, **rotation)
    axes.set_yticks(range(len(words)), words, fontsize=9, parse_math=False)
    axes.tick_params(length=0, colors=INK)
    for edge in axes.spines.values():
        edge.set_visible(False)
    axes.set_title(title, fontsize=11, color=INK, loc="left", parse_math=False)
    if len(words) <= MOST_NUMBERS:
        for row, values in enumerate(matrix):
            for column, value in enumerate(values):
                ink = "white" if abs(value) > 0.6 else INK
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7.5, color=ink)
    return image
