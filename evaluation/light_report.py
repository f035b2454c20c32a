"""What `light` saw, as plain values and as text."""

from typing import Any

from regard.evaluation.light import Light, Use


def light_record(seen: Light) -> dict[str, Any]:
    """All that was measured, but for the vectors themselves, as plain values."""
    names = seen.names()
    return {
        "word": seen.word,
        "sentences": seen.sentences,
        "uses": [{"name": name, **vars(use)} for name, use in zip(names, seen.uses, strict=True)],
        "stages": seen.stages,
        "between": {
            f"{names[one]}-{names[two]}": cosine.tolist()
            for (one, two), cosine in zip(seen.pairs(), seen.between(), strict=True)
        },
        "from_layer_0": {
            name: [None, *cosine.tolist()] for name, cosine in zip(names, seen.from_layer_0(), strict=True)
        },
        "two_other_tokens": seen.others,
        "causal": seen.causal,
    }


def light_table(seen: Light) -> str:
    """The uses, then a line for each stage."""
    record = light_record(seen)
    text = [f"{name:>3} {_marked(seen, use)}" for name, use in zip(seen.names(), seen.uses, strict=True)]
    columns = dict(record["between"])
    columns |= {f"{name} and its layer 0": cosine for name, cosine in record["from_layer_0"].items()}
    columns |= {"two other tokens": seen.others} if seen.others else {}
    widths = [max(len(name), 7) for name in columns]
    lines = ["  ".join([f"{'layer':>5}", *(f"{name:>{width}}" for name, width in zip(columns, widths, strict=True))])]
    for number, stage in enumerate(seen.stages):
        cells = ["" if column[number] is None else f"{column[number]:.3f}" for column in columns.values()]
        lines.append("  ".join([f"{stage:>5}", *(f"{c:>{width}}" for c, width in zip(cells, widths, strict=True))]))
    return "\n".join([*text, "", "cosine similarity of", *lines, "", *notes(seen), ""])


def notes(seen: Light) -> list[str]:
    """What a reader of the numbers must know."""
    said = ["token: the embedding without any context; layer 0: what the first layer reads."]
    cosines = seen.between()
    if (cosines[:, 0] < 1 - 1e-6).any():
        said.append(
            "The uses are other tokens, as a word after a space may be another than without: they begin apart."
        )
    elif (cosines[:, 1] < 1 - 1e-6).any():
        said.append("Layer 0 differs by the word's place in its sentence: positions are added there.")
    if seen.causal:
        said.append("The model reads from left to right: what comes after the word does not move its vector.")
    if seen.unknown:
        said.append("The tokenizer does not know all of the word: its unknown token stands for any such word.")
    return said


def _marked(seen: Light, use: Use) -> str:
    """The sentence with the word in brackets, and its pieces where it has several."""
    text = seen.sentences[use.sentence - 1]
    pieces = f"  ({' '.join(use.pieces)})" if len(use.pieces) > 1 else ""
    return f"{text[: use.start]}[{text[use.start : use.end]}]{text[use.end :]}{pieces}".replace("\n", " ")
