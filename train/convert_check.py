"""What a conversion wrote, beside the library's own model of the source: both compute the same for the same tokens."""

from pathlib import Path
from typing import Any

import torch
import transformers

import regard.modeling
from regard.train.convert_families import FAMILIES, NO_HEAD, library_class
from regard.train.convert_source import ConversionError, Source
from regard.train.convert_weights import marian_stream_order

LENGTH, PADS, TARGET_LENGTH = 24, 5, 12
OUTPUTS = ("logits", "start_logits", "end_logits", "last_hidden_state")


@torch.no_grad()
def largest_difference(source: Source, folder: Path, config: Any, head: str, own_head: str) -> float:
    """The largest difference between outputs, as a share of the largest output where that is above 1, in float32.

    A head that the source does not have is left aside: then the backbones are compared.

    Args:
        source: what was converted.
        folder: what was written.
        config: the library's configuration.
        head, own_head: that of the result, and that of the source.

    Raises:
        ConversionError: the library's own outputs are not finite, and nothing can be compared with them.
    """
    head = head if head == own_head else NO_HEAD
    peer_class = getattr(transformers, library_class(config.model_type, head))
    our_class = getattr(regard.modeling, FAMILIES[config.model_type].heads[head])
    settings = {"dtype": torch.float32, "trust_remote_code": False}
    peer = peer_class.from_pretrained(source.folder, use_safetensors=True, **settings).eval()
    ours = our_class.from_pretrained(folder, **settings).eval()
    batch = _batch(ours.config, config, rows=1 if head == "sequence-classification" else 2)
    outputs, expected = ours(**batch), peer(**batch)
    real = batch["attention_mask"].bool()
    differences = []
    for name in OUTPUTS:
        if expected.get(name) is None:
            continue
        found, wanted = outputs[name], expected[name]
        if name == "last_hidden_state" and config.model_type == "marian":
            wanted = wanted[..., marian_stream_order(wanted.shape[-1])]
        if found.shape[:2] == real.shape and not ours.config.is_encoder_decoder:
            found, wanted = found[real], wanted[real]  # what stands at padding may be anything
        if not wanted.isfinite().all():
            raise ConversionError(
                f"'{source.name}' computes nothing in the library either: {name} of its {type(peer).__name__} are not "
                "finite numbers, though all weights are; they are too large."
            )
        differences.append(float((found - wanted).abs().max() / max(1.0, float(wanted.abs().max()))))
    return float(torch.tensor(differences).max())  # nan if one is: Python's own might pass over it


def _batch(ours: Any, theirs: Any, rows: int) -> dict[str, torch.Tensor]:
    """Random tokens, of which none is the pad token; the second row ends in padding."""
    generator = torch.Generator().manual_seed(0)
    pad = theirs.pad_token_id if theirs.pad_token_id is not None and theirs.pad_token_id >= 0 else theirs.vocab_size
    length = min(LENGTH, ours.max_position_embeddings)

    def tokens(count: int) -> torch.Tensor:
        ids = torch.randint(theirs.vocab_size - 1, (rows, count), generator=generator)
        return ids + (ids >= pad)

    batch = {"input_ids": tokens(length)}
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    if rows > 1 and length > PADS:
        batch["attention_mask"][1, -PADS:] = 0
        batch["input_ids"][1, -PADS:] = pad if pad < theirs.vocab_size else 0
    if ours.type_vocab_size > 1:
        batch["token_type_ids"] = torch.randint(ours.type_vocab_size, (rows, length), generator=generator)
    if ours.is_encoder_decoder:
        batch["decoder_input_ids"] = tokens(min(TARGET_LENGTH, length))
    return batch
