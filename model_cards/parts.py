"""How many parameters each part of a model has, read from the headers of its weight files."""

from collections import Counter
from pathlib import Path

from safetensors import SafetensorError, safe_open

from regard.model_cards.records import Records
from regard.model_cards.tables import number, table

# What a parameter's name holds, in the order of looking, and where its part stands in the table.
PARTS = (
    ("embed_tokens", 0, "token embeddings"),
    ("embed_positions", 1, "position embeddings"),
    ("embed_types", 1, "type embeddings"),
    ("in_embeddings", 0, "word vectors"),
    ("out_embeddings", 1, "output vectors"),
    ("in_bias", 2, "biases"),
    ("out_bias", 2, "biases"),
    ("transform.", 9, "output layer"),
    ("lm_head", 9, "output layer"),
    ("classifier", 9, "output layer"),
    ("score", 9, "output layer"),
    ("qa_outputs", 9, "output layer"),
    ("norm", 6, "norms"),
    ("self_attn", 3, "self-attention"),
    ("cross_", 4, "cross-attention"),
    ("feed_forward", 5, "feed-forward"),
    ("layers.", 5, "hidden layers"),
)
OTHER = (8, "other")
SHARED = "token embeddings, also of the output layer"
LANGUAGE_HEADS = ("MaskedLM", "CausalLM", "ConditionalGeneration")


def count_parts(records: Records) -> dict[str, int]:
    """The parameters of each part, in the order of the model: empty where the folder holds no weights.

    Raises:
        ValueError: a file of weights that cannot be read.
    """
    counts: Counter[tuple[int, int, str]] = Counter()
    for name, size in _sizes(records.folder).items():
        place, part = next(((at, what) for key, at, what in PARTS if key in name), OTHER)
        side = next((side for side in ("encoder", "decoder") if side in name.split(".")), "")
        if part == "token embeddings":
            side, part = "", SHARED if _shares_output(records) else part
        counts[
            (0 if place < 2 else 9 if place == 9 else 1 + (side == "decoder"), place, f"{side} {part}".strip())
        ] += size
    return {part: counts[key] for key in sorted(counts) for part in [key[-1]]}


def parts_table(records: Records) -> str:
    """The parts, their parameters and their share of all; empty where the folder holds no weights."""
    counts = count_parts(records)
    total = sum(counts.values())
    rows = [(part, number(size), f"{size / total:.1%}") for part, size in counts.items()]
    return table(["part", "parameters", "share"], [*rows, ("all", number(total), "100.0%")] if rows else [], 1)


def _shares_output(records: Records) -> bool:
    architecture = (records.config.architectures or [""])[0]
    return records.config.tie_word_embeddings and architecture.endswith(LANGUAGE_HEADS)


def _sizes(folder: Path) -> dict[str, int]:
    """The elements of each tensor that training changes: integers are a vocabulary, counts or a tree."""
    sizes = {}
    for path in sorted(folder.glob("model*.safetensors")):
        try:
            with safe_open(path, framework="numpy") as file:
                for name in file.keys():  # noqa: SIM118  (no mapping)
                    header = file.get_slice(name)
                    if header.get_dtype().startswith(("F", "BF")):
                        sizes[name] = _product(header.get_shape())
        except (OSError, SafetensorError) as error:
            raise ValueError(f"The weights '{path}' cannot be read: {error}.") from error
    return sizes


def _product(shape: list[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
