"""Configuration of the decoder that learns linear functions from examples in its context (Garg et al., 2022)."""

from typing import Literal

from huggingface_hub.dataclasses import strict

from .configuration_transformer import TransformerDecoderConfig


@strict
class InContextRegressionConfig(TransformerDecoderConfig):
    """A decoder without tokens: it reads points and the values of a function there. `TransformerConfigBase` explains
    the other fields; the defaults are pre-norm and learned positions, as in "What Can Transformers Learn In-Context?"
    (Garg et al., 2022, section 3), whose model is GPT-2's.

    Args:
        input_size: the number d of a point's coordinates.
        max_position_embeddings: points and values together, two for each example.

    Raises:
        ValueError: if `input_size` is below 1, or two fields do not fit together.
    """

    model_type = "regard-in-context-regression"

    input_size: int = 5
    vocab_size: int = 1
    norm_position: Literal["post", "pre"] = "pre"
    position_embedding_type: Literal["sinusoidal", "learned", "rotary", "none"] = "learned"
    hidden_act: str = "gelu"
    scale_embedding: bool = False
    attention_bias: bool = True
    dropout: float | int = 0.0
    tie_word_embeddings: bool = False
    use_cache: bool = False
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    def _check_fields(self) -> None:
        super()._check_fields()
        if self.input_size < 1:
            raise ValueError(f"input_size={self.input_size} must be at least 1.")
