"""The card of a converted model: where it comes from, what became of each part, and how to load it."""

from typing import TYPE_CHECKING, Any

from regard.evaluation.yaml_io import write_yaml
from regard.train.convert_families import HEADS, NO_HEAD
from regard.train.convert_source import Source

if TYPE_CHECKING:
    from regard.train.convert import Conversion

PIPELINES = {
    NO_HEAD: "feature-extraction",
    "masked-lm": "fill-mask",
    "causal-lm": "text-generation",
    "sequence-classification": "text-classification",
    "token-classification": "token-classification",
    "question-answering": "question-answering",
}
# Of the source's metadata, what is true of the converted model as well.
KEPT = ("language", "license", "license_name", "license_link", "datasets")


def conversion_card(result: "Conversion", source: Source, config: Any, head: str) -> str:
    """A card as Markdown with the Hub's metadata.

    Args:
        result: what was converted, and what became of it.
        source: where it comes from.
        config: our configuration.
        head: that of the result.
    """
    stated = source.card()
    metadata = {name: stated[name] for name in KEPT if stated.get(name)}
    if source.is_on_hub:
        metadata["base_model"] = source.name
    metadata |= {"library_name": "transformers", "tags": ["regard", "converted"]}
    pipeline = PIPELINES.get(head) or (
        stated.get("pipeline_tag") if isinstance(stated.get("pipeline_tag"), str) else ""
    )
    if pipeline:
        metadata["pipeline_tag"] = pipeline
    name = source.name.rpartition("/")[2]
    place = f"[{source.name}](https://huggingface.co/{source.name})" if source.is_on_hub else f"the folder `{name}`"
    at = f", commit `{source.revision}`" if source.revision else ""
    licence = (
        f"That of the source, which its card states as `{result.licence}`. The code that lies beside the weights is "
        "Apache-2.0."
        if result.licence
        else "The source's card states none: ask whoever made it before you pass it on. The code that lies beside the "
        "weights is Apache-2.0."
    )
    parts = [
        f"# {name}, converted",
        f"The weights of {place}{at}, a `{result.architecture}`, in the model `{result.model}` of the Python package "
        "`regard`. Nothing was trained: it computes what its source computes.",
        f"## Use\n\n```python\n{_snippet(result, head)}\n```",
        'The folder carries the model\'s code. From the Hub, pin a commit that you have looked at (`revision="..."`).',
        f"## Conversion\n\n{_list(result.lines())}",
        f"## Model\n\n{_table(config, result)}",
        "## Limits\n\nIt knows what its source knows, and repeats what is wrong or one-sided there: see the source's "
        "own card for its data, its measured quality and what it is for.",
        f"## Licence\n\n{licence}",
    ]
    header = write_yaml(metadata)
    return f"---\n{header}---\n\n" + "\n\n".join(parts) + "\n"


def _snippet(result: "Conversion", head: str) -> str:
    auto_class = HEADS[head]
    lines = [f"from transformers import {auto_class}, AutoTokenizer", "", 'folder = "."  # or where it is published']
    lines += [f"model = {auto_class}.from_pretrained(folder, trust_remote_code=True)"]
    lines += ["tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)"] if result.tokenizer else []
    return "\n".join(lines)


def _table(config: Any, result: "Conversion") -> str:
    layers = (
        f"{config.encoder_layers} + {config.decoder_layers}" if config.is_encoder_decoder else config.num_hidden_layers
    )
    rows = {
        "parameters": f"{result.parameters:,}",
        "layers": layers,
        "width": config.hidden_size,
        "heads": config.num_attention_heads,
        "feed-forward": config.intermediate_size,
        "vocabulary": config.vocab_size,
        "positions": f"{config.position_embedding_type}, up to {config.max_position_embeddings}",
        "weights": result.dtype,
    }
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in rows.items())


def _list(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
