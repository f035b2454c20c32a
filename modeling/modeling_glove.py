"""GloVe: two vectors and two biases a word, whose products are the logarithms of co-occurrence counts.

Pennington et al., "GloVe: Global Vectors for Word Representation" (2014).

Axes: N pairs of words, V vocabulary, D width.
"""

import numpy as np
import torch
from torch import nn
from transformers import initialization as init
from transformers.utils import can_return_tuple

from .configuration_word_vectors import GloVeConfig
from .losses import weighted_least_squares
from .modeling_vocabulary import VocabularyPreTrainedModel, WordVectorsOutput, rows_of


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
        super()._init_weights(module)
        if isinstance(module, nn.Embedding):
            bound = 0.5 / self.config.hidden_size
            init.uniform_(module.weight, -bound, bound)

    def _rows(self, rows: np.ndarray | slice) -> np.ndarray:
        return rows_of(self.in_embeddings.weight, rows) + rows_of(self.out_embeddings.weight, rows)

    def _add_rows(self, number: int, counts: np.ndarray) -> None:
        for table in (self.in_embeddings, self.out_embeddings, self.in_bias, self.out_bias):
            self._grow(table, number)

    @can_return_tuple
    def forward(
        self,
        rows: torch.Tensor | None = None,
        columns: torch.Tensor | None = None,
        counts: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        input_ids: torch.Tensor | None = None,
        return_loss: bool = True,  # by its default `Trainer` knows that there is one to evaluate, without labels
        **kwargs,
    ) -> WordVectorsOutput:
        """The vectors of words, and with columns and counts the loss of equation 8.

            f(X_ij) · (w_i·w~_j + b_i + b~_j - log X_ij)²

        Args:
            rows: int64 of shape (N,), words i. Without columns, any shape, and the ids of `<unk>` and `<pad>` have a
                vector of zeros.
            columns: int64 of shape (N,), context words j.
            counts: X_ij of shape (N,), above 0.
            num_items_in_batch: number of pairs in the whole step.
            loss_only: return no vectors.
            input_ids: another name of `rows`, under which a tokenizer gives them.
            return_loss: `False` gives the vectors alone.

        Raises:
            ValueError: if there are no rows, or columns are given without counts or the other way round.
        """
        rows = input_ids if rows is None else rows
        if rows is None:
            raise ValueError("give rows, the ids of words.")
        if (columns is None) != (counts is None):
            raise ValueError("give columns and counts together: a pair of words and how often it occurs.")
        if columns is None or not return_loss:
            tables = (self.in_embeddings, self.out_embeddings)
            return WordVectorsOutput(last_hidden_state=None if loss_only else self.look_up(rows, *tables))
        vectors = None if loss_only else self.in_embeddings(rows) + self.out_embeddings(rows)
        predicted = (self.in_embeddings(rows) * self.out_embeddings(columns)).sum(-1)  # (N,)
        predicted = predicted + self.in_bias(rows)[..., 0] + self.out_bias(columns)[..., 0]
        config = self.config
        loss = weighted_least_squares(predicted, counts, config.x_max, config.alpha, num_items_in_batch)
        return WordVectorsOutput(loss=loss, last_hidden_state=vectors)
