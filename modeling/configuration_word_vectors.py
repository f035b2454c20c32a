"""Configurations of static word vectors: word2vec and GloVe.

Mikolov et al., "Distributed Representations of Words and Phrases and their Compositionality" (2013), and Pennington et
al., "GloVe: Global Vectors for Word Representation" (2014). The defaults are those of the papers' code but for the
architecture, which is CBOW in word2vec.c, and GloVe's width, which is 50 there.
"""

import math
from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig


@strict
class WordVectorsConfigBase(PreTrainedConfig):
    """What the two configurations share.

    Args:
        vocab_size: number of words.
        hidden_size: width of a vector.
        window: how many words on either side of a word can be its context.
        min_count: words that are rarer in the training text have no vector.
        vocabulary_bytes: length of the buffer that holds the words; set by `from_vocabulary`.

    Raises:
        ValueError: if a field has a value that cannot be; the message names it.
    """

    vocab_size: int = 30000
    hidden_size: int = 100
    window: int = 5
    min_count: int = 5
    vocabulary_bytes: int = 0
    tie_word_embeddings: bool = False

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self._check_fields()

    def _check_fields(self) -> None:
        if self.vocab_size < 2:
            raise ValueError(f"vocab_size={self.vocab_size} must be at least 2: one word alone predicts nothing.")
        for name in ("hidden_size", "window", "min_count"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1.")
        if self.vocabulary_bytes < 0:
            raise ValueError(f"vocabulary_bytes={self.vocabulary_bytes} must not be negative.")


@strict
class Word2VecConfig(WordVectorsConfigBase):
    """Skip-gram and continuous bag of words; `WordVectorsConfigBase` explains the other fields.

    Args:
        architecture: `"skip-gram"` predicts each context word from the centre, `"cbow"` the centre from its context.
        objective: `"negative-sampling"` (Mikolov et al., 2013, equation 4), `"hierarchical-softmax"` (equation 3, over
            a Huffman tree), or `"full-softmax"` (equation 2).
        num_negatives: words drawn against each target, k in the paper.
        negative_exponent: they are drawn in proportion to their count to this power.
        subsample: frequency from which on words are left out at random in training; 0 leaves none out.
        cbow_mean: the context is the mean of its vectors; `False` takes their sum.
        initializer_range: `None` draws the centre vectors from U(-0.5/D, 0.5/D), as the original does; a number draws
            them from N(0, number²). Context vectors begin at zero.
        huffman_depth: longest path in the Huffman tree; set by `from_vocabulary`. With 0 the tree is balanced.
    """

    model_type = "regard-word2vec"

    architecture: Literal["skip-gram", "cbow"] = "skip-gram"
    objective: Literal["negative-sampling", "hierarchical-softmax", "full-softmax"] = "negative-sampling"
    num_negatives: int = 5
    negative_exponent: float | int = 0.75
    subsample: float | int = 1e-3
    cbow_mean: bool = True
    initializer_range: float | int | None = None
    huffman_depth: int = 0

    def _check_fields(self) -> None:
        super()._check_fields()
        if self.num_negatives < 1:
            raise ValueError(f"num_negatives={self.num_negatives} must be at least 1.")
        for name in ("subsample", "initializer_range", "huffman_depth"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"{name}={value} must be finite and not negative.")
        if not math.isfinite(self.negative_exponent):
            raise ValueError(f"negative_exponent={self.negative_exponent} must be finite.")
        if self.objective == "hierarchical-softmax":
            least = (self.vocab_size - 1).bit_length()
            self.huffman_depth = self.huffman_depth or least
            if self.huffman_depth < least:
                raise ValueError(
                    f"huffman_depth={self.huffman_depth} must be at least {least} for vocab_size={self.vocab_size}."
                )


@strict
class GloVeConfig(WordVectorsConfigBase):
    """Global vectors; `WordVectorsConfigBase` explains the other fields.

    Args:
        x_max: a pair that occurs so often, or more often, has the full weight of 1 (equation 9).
        alpha: exponent of the weight below that.
        symmetric: count contexts on both sides; `False` counts those on the left alone.
    """

    model_type = "regard-glove"

    window: int = 15
    x_max: float | int = 100.0
    alpha: float | int = 0.75
    symmetric: bool = True

    def _check_fields(self) -> None:
        super()._check_fields()
        for name in ("x_max", "alpha"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be above 0, and finite.")
