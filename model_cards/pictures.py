"""The pictures of a card: which of a run's files they are, where they stand, and how those that a run lacks are drawn.

A picture is a file in the run's folder, known by its name; `regard plot` draws it under any of these names too.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.model_cards.records import Records, read_records
from regard.train.records import HISTORY, read_json
from regard.train.sections import DENOISING, WORD_VECTORS

CURVES, INSIDE, RESULTS, PROMPTED = "curves", "inside", "results", "prompted"  # parts of the card
SELF_ATTENTION = "Each row is a token that looks, each column a token that it looks at."
SHOWN_TOKENS = 24  # of a text whose attention is drawn
MOST_HEADS = 4  # beside one another in one picture
FREQUENT, SHOWN_WORDS = 100, 80  # the most frequent words say how, not what: those after them are drawn
IN_THE_LOSS_CURVE = ("loss", "eval_loss", "eval_perplexity")


@dataclass(frozen=True)
class Kind:
    """What a picture shows.

    Attributes:
        pattern: of its file's name.
        part: of the card: CURVES, INSIDE, RESULTS or PROMPTED.
        alt: what is read where it cannot be seen.
        note: a line above it.
    """

    pattern: str
    part: str
    alt: str
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture of a run: its file, and what it shows."""

    path: Path
    kind: Kind


LOSS = Kind("loss_curve.*", CURVES, "Training loss by step")
LOSSES = replace(LOSS, alt="Training and validation loss by step")
FEW_SHOT = Kind("few-shot-*.*", PROMPTED, "A few-shot task's metric by the number of examples in the prompt")
FEW_SHOT_BESIDE = replace(FEW_SHOT, alt="A few-shot task's metric by the number of examples, prompted and fine-tuned")
FEW_SHOT_GROUPS = replace(FEW_SHOT, alt="A few-shot task's metric by group of items")
KINDS = (  # the first that fits, of all others
    FEW_SHOT,
    Kind("curves.*", CURVES, "What was logged in training, by step"),
    Kind("*bleu*.*", CURVES, "BLEU of the validation split by step"),
    Kind("*lengths*.*", RESULTS, "BLEU by the length of the source", "By the length of the source:"),
    Kind("confusion*.*", RESULTS, "Right and predicted labels", "Which labels it takes for which:"),
    Kind("*regression*.*", RESULTS, "Squared error by the number of examples", "By the number of examples:"),
    Kind(
        "*induction*.*",
        INSIDE,
        "Induction heads by step",
        "Random tokens that come twice: their loss by step, how each head looks to what followed last time, and where "
        "the best of them looks in the end.",
    ),
    Kind("*encoder_attention*.*", INSIDE, "Self-attention of the encoder", SELF_ATTENTION),
    Kind("*decoder_attention*.*", INSIDE, "Self-attention of the decoder", SELF_ATTENTION),
    Kind(
        "*attention*.*",
        INSIDE,
        "Cross-attention",
        "Each row is a target token, each column a source token; a row shows where the decoder looked to write that "
        "token.",
    ),
    Kind("*positions*.*", INSIDE, "Positions", "What the model is told of positions, and how alike two of them are:"),
    Kind("*vectors*.*", INSIDE, "Words in a plane", "Some of its more frequent words, by the vectors that it learnt:"),
)


def find_pictures(records: Records) -> list[Picture]:
    """The run's pictures that a card shows, in its order; of a loss curve in two formats the first alone."""
    found: dict[Path, Kind] = {}
    for path in records.pictures(LOSS.pattern)[:1]:
        validated = any("eval_loss" in row for row in _history(records))
        found[path] = LOSSES if validated else LOSS
    for kind in KINDS:
        for path in records.pictures(kind.pattern):
            found.setdefault(path, _few_shot(path) if kind is FEW_SHOT else kind)
    return [Picture(path, kind) for path, kind in found.items()]


def _few_shot(path: Path) -> Kind:
    """What a picture of few-shot prompting shows, by the result beside it."""
    from regard.evaluation.few_shot.picture import by_group
    from regard.evaluation.few_shot.result import read_result

    if not path.with_suffix(".json").is_file():
        return FEW_SHOT
    result = read_result(path.with_suffix(".json"), records=False)
    if by_group(result):
        return FEW_SHOT_GROUPS
    return FEW_SHOT_BESIDE if result.beside else FEW_SHOT


def _history(records: Records) -> list[dict[str, Any]]:
    """The run's log, empty where there is none."""
    path = records.folder / HISTORY
    if not path.is_file():
        return []
    try:
        return read_json(path)
    except ValueError as error:
        raise ValueError(f"The log '{path}' cannot be read: {error}.") from error


def draw_pictures(run_dir: str | Path) -> list[Path]:
    """Draws into the run's folder what its card could show and lacks, from what the run recorded.

    Of word vectors some words in a plane; of a Transformer its attention as it reads and writes the first recorded
    sample, and how its induction heads came about where it recorded that; of the log what the loss curve does not
    show. A run without samples has no attention drawn: no text is made up.

    Returns:
        The files that were drawn.

    Raises:
        ValueError: it is not a run, or a record cannot be read.
    """
    from regard.train.callbacks import quiet_libraries

    records = read_records(run_dir)
    there = {picture.kind.part for picture in find_pictures(records)}
    with quiet_libraries():
        drawn = [*_draw_curves(records), *([] if INSIDE in there else _draw_inside(records))]
        return [*drawn, *_draw_induction(records)]


def _draw_curves(records: Records) -> list[Path]:
    from regard.evaluation.curves import plot_curves, quantities_of

    path, history = records.folder / "curves.png", _history(records)
    if records.task == WORD_VECTORS or records.pictures("curves.*"):
        return []
    more = [name for name in quantities_of(history) if name not in IN_THE_LOSS_CURVE]
    return [plot_curves({records.name: history}, path, quantities=more)] if more else []


def _draw_inside(records: Records) -> list[Path]:
    if records.task == DENOISING:  # sentinels in a text are no tokens to a tokenizer
        return []
    if records.task == WORD_VECTORS:
        return _draw_vectors(records)
    sample = next(iter(records.metrics.get("samples") or [{"source": ""}]))
    continued = sample["prediction"] if records.task == "causal-lm" else ""
    read = sample["source"] + continued
    if not read.strip() or not hasattr(records.config, "num_attention_heads"):
        return []
    from regard.evaluation.attention_pictures import plot_attention
    from regard.evaluation.generation import load_run

    model, tokenizer = load_run(records.folder, device="cpu")
    if records.config.is_encoder_decoder:
        path = records.folder / "cross_attention.png"
        return [plot_attention(model, tokenizer, read, sample["prediction"], path, layer="mean", head="mean")]
    which = "decoder" if records.config.model_type == "regard-decoder" else "encoder"
    path = records.folder / f"{which}_attention.png"
    head = "all" if records.config.num_attention_heads <= MOST_HEADS else "mean"
    return [plot_attention(model, tokenizer, _beginning(tokenizer, read), None, path, layer=-1, head=head)]


def _draw_induction(records: Records) -> list[Path]:
    """Of a run that recorded how its induction heads came about."""
    from regard.train.induction import INDUCTION, plot_run_induction

    if not (records.folder / INDUCTION).is_file() or records.pictures("*induction*.*"):
        return []
    return [plot_run_induction(records.folder, records.folder / "induction.png")]


def _beginning(tokenizer: Any, text: str) -> str:
    ids = tokenizer(text, add_special_tokens=False).input_ids[:SHOWN_TOKENS]
    return tokenizer.decode(ids, skip_special_tokens=True)


def _draw_vectors(records: Records) -> list[Path]:
    from regard.evaluation.vector_pictures import plot_vectors
    from regard.modeling.word_vectors import load_word_vectors

    vectors = load_word_vectors(records.folder)
    words = list(vectors.index_to_key)
    chosen = words[FREQUENT : FREQUENT + SHOWN_WORDS] if len(words) > FREQUENT + 2 else words[:SHOWN_WORDS]
    return [plot_vectors(vectors, chosen, records.folder / "vectors.png")] if len(chosen) > 2 else []
