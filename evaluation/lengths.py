"""How good translations are by the length of what was translated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sacrebleu.metrics.bleu import MAX_NGRAM_ORDER
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from regard.evaluation.curves import BLEU, BLEU_MOSES, BLEU_NAMES
from regard.evaluation.drawing import GRAY, INK, SERIES, add_legend, check_format, clean, save_figure
from regard.evaluation.metrics import get_metric
from regard.evaluation.moses import lowercased_moses_tokens

WIDTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
MOST_BUCKETS = 8
TOO_SHORT = "too short for BLEU"
COVERED = 0.98  # of the sentences by buckets of one width; the last bucket holds all that is longer


@dataclass(frozen=True)
class Bucket:
    """Sentences of `shortest` to `longest` words (no end where it is None), and the BLEU of their translations.

    It is None where there are no such sentences, and where no translation has the four tokens of a 4-gram: BLEU would
    be 0 whatever they say. `metric` says which BLEU it is, "bleu" or "bleu_moses_lowercase".
    """

    shortest: int
    longest: int | None
    sentences: int
    bleu: float | None
    metric: str = BLEU

    @property
    def name(self) -> str:
        if self.longest is None:
            return f"{self.shortest} or more"
        return str(self.shortest) if self.shortest == self.longest else f"{self.shortest}–{self.longest}"


def length_in_words(text: str) -> int:
    """By white space, so that runs with different tokenizers can be compared; at least 1."""
    return max(1, len(text.split()))


def bucket_bounds(lengths: Sequence[int], width: int | None = None) -> list[tuple[int, int | None]]:
    """The first and last length of each bucket: of one width, but for the last, which holds the few longest.

    Args:
        lengths: at least 1 each.
        width: by default the least of `WIDTHS` by which at most `MOST_BUCKETS` buckets do.
    """
    ordered = sorted(lengths)
    covered = ordered[min(len(ordered) - 1, int(COVERED * len(ordered)))]
    if width is None:
        width = next((w for w in WIDTHS if -(-covered // w) < MOST_BUCKETS), WIDTHS[-1])
    number = max(1, -(-covered // width))
    bounds: list[tuple[int, int | None]] = [(i * width + 1, (i + 1) * width) for i in range(number)]
    if ordered[-1] > number * width:
        bounds.append((number * width + 1, None))
    return bounds


def bleu_by_length(
    sources: Sequence[str],
    predictions: Sequence[str],
    references: Sequence[str] | Sequence[list[str]],
    width: int | None = None,
    metric: str = BLEU,
    language: str | None = None,
) -> list[Bucket]:
    """The corpus BLEU of each bucket of source lengths, by sacrebleu.

    Args:
        metric: "bleu" or "bleu_moses_lowercase".
        language: the code of the predictions' language, such as "de", by whose rules the latter tokenises.

    Raises:
        ValueError: nothing to measure, a width below 1, another metric, or no language where it takes one.
    """
    if not sources:
        raise ValueError("There are no sentences to measure by their length.")
    if width is not None and width < 1:
        raise ValueError(f"width={width} must be at least 1 word.")
    if metric not in BLEU_NAMES:
        raise ValueError(f"metric={metric!r} is no BLEU: there are {' and '.join(BLEU_NAMES)}.")
    if metric == BLEU_MOSES and language is None:
        raise ValueError(f"{metric} tokenises by the rules of a language: give it, such as language='de'.")
    options = {"language": language} if metric == BLEU_MOSES else {}
    has_ngram = [len(tokens.split()) >= MAX_NGRAM_ORDER for tokens in _tokenised(predictions, metric, language)]
    lengths = [length_in_words(source) for source in sources]
    buckets = []
    for shortest, longest in bucket_bounds(lengths, width):
        rows = [i for i, n in enumerate(lengths) if n >= shortest and (longest is None or n <= longest)]
        bleu = None
        if any(has_ngram[i] for i in rows):
            chosen = {"predictions": [predictions[i] for i in rows], "references": [references[i] for i in rows]}
            bleu = get_metric(metric).compute(**chosen, **options)[metric]
        buckets.append(Bucket(shortest, longest, len(rows), bleu, metric))
    return buckets


def _tokenised(texts: Sequence[str], metric: str, language: str | None) -> list[str]:
    """Texts as the metric counts them, white space between their tokens."""
    return lowercased_moses_tokens(texts, language) if metric == BLEU_MOSES else list(map(Tokenizer13a(), texts))


def plot_lengths(results: Mapping[str, Sequence[Bucket]], path: str | Path, split: str | None = None) -> Path:
    """BLEU by source length, a bar a run in each bucket, and below it how many sentences the bucket holds.

    Args:
        results: each run's buckets under its name; they must be the same sentences' and of the same metric for all.
        path: a .png or .svg file; it is complete or not there.
        split: named in the title.

    Raises:
        ValueError: another kind of file, nothing to draw, or buckets that differ.
    """
    check_format(path)
    if not results or not all(results.values()):
        raise ValueError("There is nothing to draw: give the buckets of at least one run.")
    first_name, first = next(iter(results.items()))
    for name, buckets in results.items():
        if [(b.name, b.sentences) for b in buckets] != [(b.name, b.sentences) for b in first]:
            raise ValueError(f"'{first_name}' and '{name}' translate different sentences, so their buckets differ.")
        if buckets[0].metric != first[0].metric:
            told = f"{first[0].metric} and {buckets[0].metric}"
            raise ValueError(f"'{first_name}' and '{name}' count BLEU differently, by {told}: draw them apart.")
    share = 0.8 / len(results)
    figure = Figure(figsize=(max(6.5, 1.2 + len(first) * max(0.85, 0.42 * len(results))), 4.2), layout="constrained")
    axes = figure.add_subplot()
    handles = []
    for number, buckets in enumerate(results.values()):
        offset = (number - (len(results) - 1) / 2) * share
        places = [i + offset for i in range(len(buckets))]
        heights = [bucket.bleu or 0.0 for bucket in buckets]
        handles.append(axes.bar(places, heights, width=share * 0.92, color=SERIES[number % len(SERIES)]))
        texts = ["" if bucket.bleu is None else f"{bucket.bleu:.1f}" for bucket in buckets]
        axes.bar_label(handles[-1], texts, fontsize=9 if len(results) < 3 else 7, color=INK, padding=2)
        for place, bucket in zip(places, buckets, strict=True):
            if bucket.sentences and bucket.bleu is None:
                _write_above(axes, place, TOO_SHORT)
    axes.set_xticks(range(len(first)), [f"{b.name}\n{_counted(b.sentences)}" for b in first], fontsize=9)
    axes.set_xlabel("words in the source, and how many sentences have so many", color=GRAY, fontsize=9)
    axes.set_ylabel(BLEU_NAMES[first[0].metric])
    title = "BLEU by source length" + (f", {split}" if split else "")
    axes.set_title(title, fontsize=11, color=INK, loc="left", parse_math=False)
    axes.margins(y=0.1)
    clean(axes)
    axes.tick_params(axis="x", length=0)
    add_legend(axes, handles, list(results), below=0.22)
    return save_figure(figure, path)


def _write_above(axes: Any, place: float, text: str) -> None:
    """In the place of a bar."""
    where = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "va": "bottom", "rotation": 90}
    box = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}  # over the lines of the grid
    axes.annotate(text, (place, 0), fontsize=8, color=GRAY, bbox=box, **where)


def _counted(number: int) -> str:
    return f"n = {number:,}"
