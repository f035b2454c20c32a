"""Configuration of the deep averaging network (Iyyer et al., 2015)."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN


@strict
class DANConfig(PreTrainedConfig):
    """A classifier that sees a text as the mean of its words.

    The defaults are those of Iyyer et al., "Deep Unordered Composition Rivals Syntactic Methods for Text
    Classification" (2015), section 4: three layers of 300 units on vectors of 300, and 0.3 of the words dropped.

    Args:
        vocab_size: number of words, special tokens included.
        hidden_size: width of a word's vector.
        intermediate_size: width of the hidden layers.
        num_hidden_layers: how many of them there are; with 0 the mean itself is classified.
        hidden_act: their activation, a name that transformers knows.
        word_dropout: share of a text's words that are left out of the mean in training (section 3.1).
        dropout: on the output of each hidden layer.
        freeze_embeddings: leave the word vectors as they are.
        initializer_range: `None` draws matrices from Xavier's uniform distribution and vectors from N(0, 1/width); a
            number draws all of them from N(0, number²).

    Raises:
        ValueError: if a field has a value that cannot be; the message names it.
    """

    model_type = "regard-dan"

    vocab_size: int = 32000
    hidden_size: int = 300
    intermediate_size: int = 300
    num_hidden_layers: int = 3
    hidden_act: str = "relu"
    word_dropout: float | int = 0.3
    dropout: float | int = 0.0
    freeze_embeddings: bool = False
    initializer_range: float | int | None = None
    tie_word_embeddings: bool = False
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        for name in ("vocab_size", "hidden_size", "intermediate_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1.")
        for name in ("num_hidden_layers", "initializer_range"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name}={value} must not be negative.")
        for name in ("word_dropout", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and below 1.")
        for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
            value = getattr(self, name)
            for token in value if isinstance(value, list) else [value]:
                if token is not None and not 0 <= token < self.vocab_size:
                    raise ValueError(f"{name}={value} must be at least 0 and below vocab_size={self.vocab_size}.")
        if self.hidden_act not in ACT2FN:
            raise ValueError(f"hidden_act={self.hidden_act!r} is no activation of transformers: 'gelu' is.")
