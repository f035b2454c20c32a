"""GloVe: two vectors and two biases a word, whose products are the logarithms of co-occurrence counts.

Pennington et al., "GloVe: Global Vectors for Word Representation" (2014).

Axes: N pairs of words, V vocabulary, D width.
"""

import numpy as np
import torch
from torch import nn
from transformers import initialization as init

from .configuration_word_vectors import GloVeConfig
from .losses import weighted_least_squares
from .modeling_vocabulary import VocabularyPreTrainedModel, WordVectorsOutput, to_numpy


class GloVeModel(VocabularyPreTrainedModel):
    """Weighted least squares on the logarithm of co-occurrence counts.

    Tables:
        in_embeddings, out_embeddings: (V, D), a vector for each word and one for each context word.
        in_bias, out_bias: (V, 1), the same for the biases.

    `vectors` is the sum of both tables (section 4.2), computed when asked for.
    """

    main_input_name = "rows"
    config: GloVeConfig
    config_class = GloVeConfig
    _auto_class = "AutoModel"
    auto_classes = {"AutoModel": "GloVeModel"}

    def __init__(self, config: GloVeConfig):
        super().__init__(config)
        self.out_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.in_bias = nn.Embedding(config.vocab_size, 1)
        self.out_bias = nn.Embedding(config.vocab_size, 1)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Vectors and biases from U(-0.5/D, 0.5/D), as in the published code."""
        if isinstance(module, nn.Embedding):
            bound = 0.5 / self.config.hidden_size
            init.uniform_(module.weight, -bound, bound)

    @property
    def vectors(self) -> np.ndarray:
        """float32 of shape (V, D): the sum of a word's two vectors, a new array each time."""
        return to_numpy(self.in_embeddings.weight) + to_numpy(self.out_embeddings.weight)

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        return to_numpy(self.in_embeddings.weight)[indices] + to_numpy(self.out_embeddings.weight)[indices]

    def _add_rows(self, number: int, counts: np.ndarray) -> None:
        for table in (self.in_embeddings, self.out_embeddings, self.in_bias, self.out_bias):
            self._grow(table, number)

    def forward(
        self,
        rows: torch.Tensor,
        columns: torch.Tensor | None = None,
        counts: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> WordVectorsOutput:
        """The vectors of words, and with columns and counts the loss of equation 8.

            f(X_ij) · (w_i·w~_j + b_i + b~_j - log X_ij)²

        Args:
            rows: int64 of shape (N,), words i. Without columns, any shape.
            columns: int64 of shape (N,), context words j.
            counts: X_ij of shape (N,), above 0.
            num_items_in_batch: number of pairs in the whole step.
            loss_only: return no vectors.

        Raises:
            ValueError: if columns are given without counts or the other way round.
        """
        if (columns is None) != (counts is None):
            raise ValueError("give columns and counts together: a pair of words and how often it occurs.")
        vectors = None if loss_only else self.in_embeddings(rows) + self.out_embeddings(rows)
        if columns is None:
            return WordVectorsOutput(last_hidden_state=vectors)
        predicted = (self.in_embeddings(rows) * self.out_embeddings(columns)).sum(-1)  # (N,)
        predicted = predicted + self.in_bias(rows)[..., 0] + self.out_bias(columns)[..., 0]
        config = self.config
        loss = weighted_least_squares(predicted, counts, config.x_max, config.alpha, num_items_in_batch)
        return WordVectorsOutput(loss=loss, last_hidden_state=vectors)
