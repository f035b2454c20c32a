"""The models that are compared: one of ours and one of the library's, of the same shape, with the same settings."""

from dataclasses import dataclass

import torch
from transformers import GPT2Config, GPT2LMHeadModel, MarianConfig, MarianMTModel, PreTrainedModel

from regard.modeling import (
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerDecoderForCausalLM,
    TransformerForConditionalGeneration,
)

Batch = dict[str, torch.Tensor]

PAD, BOS, EOS, FIRST_WORD = 0, 1, 2, 3
TOKENS = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
DROPOUT, INITIALIZER_RANGE = 0.1, 0.02


@dataclass(frozen=True)
class Shape:
    """Sizes of the models and of their batches.

    Args:
        width: of the residual stream; the feed-forward layer is four times as wide.
        layers: of the decoder; the encoder-decoder has `side_layers` on each side.
        block: tokens in a row of the decoder's batch.
        rows: rows of the decoder's batch.
        batch_tokens: tokens, pads included, of a source batch of the encoder-decoder.
    """

    width: int
    heads: int
    layers: int
    side_layers: int
    vocab_size: int
    block: int
    rows: int
    batch_tokens: int


SHAPES = {
    "tiny": Shape(width=32, heads=2, layers=1, side_layers=1, vocab_size=200, block=16, rows=2, batch_tokens=64),
    "small": Shape(
        width=256, heads=4, layers=4, side_layers=3, vocab_size=8000, block=128, rows=16, batch_tokens=2048
    ),
}


def decoders(shape: Shape) -> tuple[PreTrainedModel, PreTrainedModel]:
    """This package's decoder with GPT-2's options, and GPT-2."""
    ours = TransformerDecoderForCausalLM(
        TransformerDecoderConfig(
            **TOKENS,
            vocab_size=shape.vocab_size,
            hidden_size=shape.width,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            intermediate_size=4 * shape.width,
            hidden_act="gelu_new",
            norm_position="pre",
            position_embedding_type="learned",
            max_position_embeddings=shape.block,
            scale_embedding=False,
            attention_bias=True,
            dropout=DROPOUT,
            initializer_range=INITIALIZER_RANGE,
        )
    )
    peer = GPT2LMHeadModel(
        GPT2Config(
            **TOKENS,
            vocab_size=shape.vocab_size,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=shape.heads,
            n_positions=shape.block,
            embd_pdrop=DROPOUT,
            resid_pdrop=DROPOUT,
            attn_pdrop=0.0,
            initializer_range=INITIALIZER_RANGE,
        )
    )
    return ours, peer


def encoder_decoders(shape: Shape) -> tuple[PreTrainedModel, PreTrainedModel]:
    """This package's encoder-decoder with Marian's biases, and Marian."""
    ours = TransformerForConditionalGeneration(
        TransformerConfig(
            **TOKENS,
            vocab_size=shape.vocab_size,
            hidden_size=shape.width,
            encoder_layers=shape.side_layers,
            decoder_layers=shape.side_layers,
            num_attention_heads=shape.heads,
            intermediate_size=4 * shape.width,
            max_position_embeddings=128,
            attention_bias=True,
            dropout=DROPOUT,
            label_smoothing=0.0,
            initializer_range=INITIALIZER_RANGE,
            decoder_start_token_id=BOS,
        )
    )
    peer = MarianMTModel(
        MarianConfig(
            **TOKENS,
            vocab_size=shape.vocab_size,
            d_model=shape.width,
            encoder_layers=shape.side_layers,
            decoder_layers=shape.side_layers,
            encoder_attention_heads=shape.heads,
            decoder_attention_heads=shape.heads,
            encoder_ffn_dim=4 * shape.width,
            decoder_ffn_dim=4 * shape.width,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=128,
            dropout=DROPOUT,
            init_std=INITIALIZER_RANGE,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    )
    return ours, peer


def words(shape: Shape, size: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Tokens as frequent as Zipf's law has them, so that there is something to learn. int64 of this size."""
    rank = torch.arange(1, shape.vocab_size - FIRST_WORD + 1)
    drawn = torch.multinomial(1 / rank, torch.Size(size).numel(), replacement=True, generator=generator)
    return drawn.view(size) + FIRST_WORD


def blocks(shape: Shape, count: int) -> list[Batch]:
    """Batches of a language model: full blocks, no pads."""
    generator = torch.Generator().manual_seed(0)
    rows = [words(shape, (shape.rows, shape.block), generator) for _ in range(count)]
    return [{"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids} for ids in rows]


def pairs(shape: Shape, count: int) -> list[Batch]:
    """Batches of a translator: pairs of 5 to 40 tokens, sorted by length and packed by token count, with few pads.

    The batches are spread over all lengths.
    """
    generator = torch.Generator().manual_seed(0)
    batches = []
    for length in torch.linspace(8, 38, count).round().long().tolist():
        rows = max(1, shape.batch_tokens // (length + 1))
        source_lengths = torch.randint(length - 1, length + 2, (rows,), generator=generator)
        target_lengths = source_lengths + torch.randint(-2, 3, (rows,), generator=generator)
        source, mask = _padded(shape, source_lengths, generator)
        target, target_mask = _padded(shape, target_lengths, generator)
        labels = target.masked_fill(target_mask == 0, -100)
        batches.append({"input_ids": source, "attention_mask": mask, "labels": labels})
    return batches


def _padded(shape: Shape, lengths: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    longest = int(lengths.max())
    mask = (torch.arange(longest) < lengths[:, None]).long()
    ids = words(shape, (len(lengths), longest), generator)
    ids[torch.arange(len(lengths)), lengths - 1] = EOS
    return ids.masked_fill(mask == 0, PAD), mask
