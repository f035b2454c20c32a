"""Configurations of the Transformer three ways: encoder, decoder, encoder-decoder.

The defaults are the base model of "Attention Is All You Need" (Vaswani et al., 2017, section 3 and table 3):
post-norm, sinusoidal positions, embeddings scaled by the square root of the width, tied embeddings, ReLU, projections
of attention without biases. Everything else is an option with a reason given beside it.
"""

from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN


@strict
class TransformerConfigBase(PreTrainedConfig):
    """What the three configurations share.

    Args:
        vocab_size: number of tokens, special tokens included.
        hidden_size: width of the residual stream, d_model in the paper.
        num_attention_heads: number of query heads.
        num_key_value_heads: number of key and value heads. `None` means as many as query heads (the paper); fewer
            gives grouped-query attention (Ainslie et al., 2023), as Llama has it.
        head_dim: width of a head. `None` means `hidden_size / num_attention_heads` (the paper).
        intermediate_size: inner width of the feed-forward layer.
        hidden_act: its activation, a name that transformers knows: `"relu"` (the paper), `"gelu"` (BERT), `"silu"`.
        gated_mlp: multiply the activation by a second projection (Shazeer, 2020). With `"silu"` this is SwiGLU.
        norm_type: `"layernorm"` (the paper) or `"rmsnorm"` (Zhang and Sennrich, 2019).
        norm_position: `"post"`, after the residual sum (the paper), or `"pre"`, before the sub-layer (GPT-2), with one
            more norm after the last layer.
        norm_eps: the constant under the root.
        position_embedding_type: `"sinusoidal"` (the paper), `"learned"` (BERT, GPT-2), `"rotary"` (Su et al., 2021) or
            `"none"`.
        position_base: base of the sinusoids' and the rotation's frequencies: 10,000 in the paper.
        max_position_embeddings: length of the position table. Learned positions end there; sinusoids grow when asked.
        scale_embedding: multiply token embeddings by the square root of the width (section 3.4).
        embedding_norm: normalise the sum of the embeddings (BERT).
        type_vocab_size: number of token types (BERT's segments); 0 for none.
        attention_bias: biases on the projections of attention.
        attention_output_bias: bias on the last of them; `None` means as `attention_bias` says. Qwen2 has biases on
            queries, keys and values alone.
        mlp_bias: biases in the feed-forward layer (equation 2 has them).
        norm_bias: bias in the layer norms.
        dropout: on the output of each sub-layer and on the sum of the embeddings (section 5.4).
        attention_dropout: on the attention weights; 0 in the paper.
        activation_dropout: inside the feed-forward layer; 0 in the paper.
        classifier_dropout: before a classification head; `None` takes `dropout`.
        initializer_range: `None` draws matrices from Xavier's uniform distribution and embeddings from N(0,
            1/width); a number draws all of them from N(0, number²), as BERT and GPT-2 do.
        label_smoothing: share of the target's probability that is spread over the vocabulary (section 5.4). Acts on
            the training loss alone: in evaluation mode the loss is the plain negative log-likelihood.

    Raises:
        ValueError: if two fields do not fit together; the message names them.
    """

    vocab_size: int = 32000
    hidden_size: int = 512
    num_attention_heads: int = 8
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    intermediate_size: int = 2048
    hidden_act: str = "relu"
    gated_mlp: bool = False
    norm_type: Literal["layernorm", "rmsnorm"] = "layernorm"
    norm_position: Literal["post", "pre"] = "post"
    norm_eps: float = 1e-5
    position_embedding_type: Literal["sinusoidal", "learned", "rotary", "none"] = "sinusoidal"
    position_base: float | int = 10000.0
    max_position_embeddings: int = 1024
    scale_embedding: bool = True
    embedding_norm: bool = False
    type_vocab_size: int = 0
    attention_bias: bool = False
    attention_output_bias: bool | None = None
    mlp_bias: bool = True
    norm_bias: bool = True
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    activation_dropout: float | int = 0.0
    classifier_dropout: float | int | None = None
    initializer_range: float | int | None = None
    label_smoothing: float | int = 0.0
    tie_word_embeddings: bool = True
    use_cache: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2

    def __post_init__(self, **kwargs):
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads
        if self.head_dim is None and self.num_attention_heads > 0:
            if self.hidden_size % self.num_attention_heads:
                raise ValueError(
                    f"hidden_size={self.hidden_size} is not a multiple of num_attention_heads="
                    f"{self.num_attention_heads}: change one of them or give head_dim."
                )
            self.head_dim = self.hidden_size // self.num_attention_heads
        super().__post_init__(**kwargs)
        self._check_fields()

    def _check_fields(self) -> None:
        counts = ("vocab_size", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
        counts += ("intermediate_size", "max_position_embeddings")
        counts += ("encoder_layers", "decoder_layers", "num_hidden_layers")
        for name in counts:
            if getattr(self, name, 1) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1.")
        for name in ("type_vocab_size", "initializer_range"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name}={value} must not be negative.")
        for name in ("norm_eps", "position_base"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}={getattr(self, name)} must be above 0.")
        for name in ("dropout", "attention_dropout", "activation_dropout", "classifier_dropout", "label_smoothing"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise ValueError(f"{name}={value} must be at least 0 and below 1.")
        for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
            value = getattr(self, name, None)
            for token in value if isinstance(value, list) else [value]:
                if token is not None and not 0 <= token < self.vocab_size:
                    raise ValueError(f"{name}={value} must be at least 0 and below vocab_size={self.vocab_size}.")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ValueError(
                f"num_attention_heads={self.num_attention_heads} is not a multiple of num_key_value_heads="
                f"{self.num_key_value_heads}: each key head serves the same number of query heads."
            )
        if self.position_embedding_type == "rotary" and self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} must be even for rotary positions, which turn pairs of units.")
        if self.hidden_act not in ACT2FN:
            raise ValueError(f"hidden_act={self.hidden_act!r} is no activation of transformers: 'gelu' is.")


@strict
class TransformerEncoderConfig(TransformerConfigBase):
    """A stack of encoder layers; `TransformerConfigBase` explains the other fields.

    Args:
        classifier_act: the activation in the head that classifies texts: `"tanh"` (BERT), `"relu"` (DistilBERT).
        classifier_pooling: what that head reads: `"cls"`, the vector of the first token (BERT), or `"mean"`, the mean
            of all, which is better where pretraining gave the first token no task of its own.
    """

    model_type = "regard-encoder"

    num_hidden_layers: int = 6
    classifier_act: str = "tanh"
    classifier_pooling: Literal["cls", "mean"] = "cls"

    def _check_fields(self) -> None:
        super()._check_fields()
        if self.classifier_act not in ACT2FN:
            raise ValueError(f"classifier_act={self.classifier_act!r} is no activation of transformers: 'tanh' is.")


@strict
class TransformerDecoderConfig(TransformerConfigBase):
    """A stack of causal layers without cross-attention; `TransformerConfigBase` explains the fields."""

    model_type = "regard-decoder"

    num_hidden_layers: int = 6


@strict
class TransformerConfig(TransformerConfigBase):
    """The encoder-decoder of the paper, with one vocabulary for source and target.

    Args:
        encoder_layers: number of encoder layers.
        decoder_layers: number of decoder layers.
        cross_attention_key_value: `"per_layer"` projects the encoder's output to keys and values in each decoder layer
            (the paper); `"shared"` projects it once for all layers, which saves weights and time.
        output_bias: bias on the output layer, as the models that Marian trained have it.
        decoder_start_token_id: the token that the decoder's input begins with; the targets follow, shifted right.
    """

    model_type = "regard-transformer"
    attribute_map = {"num_hidden_layers": "encoder_layers"}

    encoder_layers: int = 6
    decoder_layers: int = 6
    cross_attention_key_value: Literal["per_layer", "shared"] = "per_layer"
    output_bias: bool = False
    label_smoothing: float | int = 0.1
    is_encoder_decoder: bool = True
    decoder_start_token_id: int | None = 1
