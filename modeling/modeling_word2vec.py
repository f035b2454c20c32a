"""word2vec: two vectors a word, so that the words around a centre can be told from it, or it from them.

Mikolov et al., "Efficient Estimation of Word Representations in Vector Space" (2013) and "Distributed Representations
of Words and Phrases and their Compositionality" (2013).

Axes: B pairs in a batch, C context words, D width, V vocabulary, K negatives, L steps of a path in the Huffman tree.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from transformers import initialization as init
from transformers.utils import can_return_tuple, is_torchdynamo_compiling

from .configuration_word_vectors import Word2VecConfig
from .huffman import balanced_tree, graft, huffman_tree
from .losses import IGNORE_INDEX, cross_entropy, hierarchical_softmax_loss, negative_sampling_loss
from .modeling_vocabulary import VocabularyPreTrainedModel, WordVectorsOutput

NOISE_TOTAL = 2**40  # of the integer weights that negatives are drawn by: exact sums on every device


class Word2VecModel(VocabularyPreTrainedModel):
    """Skip-gram and continuous bag of words, with full softmax, negative sampling or hierarchical softmax.

    Tables:
        in_embeddings: (V, D), a vector v for each word as centre (in CBOW, as context); what `vectors` shows.
        out_embeddings: (V, D), a vector u for each word that is predicted; with hierarchical softmax (V - 1, D), one
            for each inner node of the Huffman tree.

    With hierarchical softmax the tree is stored too: `huffman_nodes` int32 and `huffman_codes` int8, both (V, L); it
    is balanced where no counts are known. `noise_bounds`, int64 of shape (V + 1,), follows from the counts and is not
    stored.
    """

    config: Word2VecConfig
    config_class = Word2VecConfig
    _auto_class = "AutoModel"
    auto_classes = {"AutoModel": "Word2VecModel"}
    _noise_of: tuple[torch.Tensor, int] | None = None

    def __init__(self, config: Word2VecConfig):
        super().__init__(config)
        tree = config.objective == "hierarchical-softmax"
        self.out_embeddings = nn.Embedding(config.vocab_size - tree, config.hidden_size)
        self.out_embeddings.begins_at_zero = True
        self.register_buffer("noise_bounds", torch.zeros(config.vocab_size + 1, dtype=torch.int64), persistent=False)
        if tree:
            shape = (config.vocab_size, config.huffman_depth)
            self.register_buffer("huffman_nodes", torch.zeros(shape, dtype=torch.int32))
            self.register_buffer("huffman_codes", torch.zeros(shape, dtype=torch.int8))
        self.post_init()

    def _counts_changed(self) -> None:
        if self.config.objective == "hierarchical-softmax":
            self._set_tree(*huffman_tree(self.counts.cpu().numpy()))
        self._renew_noise()

    def _load_from_state_dict(self, *args) -> None:
        super()._load_from_state_dict(*args)
        self._renew_noise()

    def _set_tree(self, nodes: np.ndarray, codes: np.ndarray) -> None:
        device = self.huffman_nodes.device
        self.huffman_nodes = torch.from_numpy(nodes).to(device)
        self.huffman_codes = torch.from_numpy(codes).to(device)
        self.config.huffman_depth = nodes.shape[1]

    def extend_vocabulary(self, words: Sequence[str], counts: Sequence[int] | np.ndarray) -> list[str]:
        """As in the base class; negatives follow the new counts."""
        new = super().extend_vocabulary(words, counts)
        self._renew_noise()
        return new

    def _add_rows(self, number: int, counts: np.ndarray) -> None:
        self._grow(self.in_embeddings, number)
        self._grow(self.out_embeddings, number)
        if self.config.objective == "hierarchical-softmax":
            old = (self.huffman_nodes.cpu().numpy(), self.huffman_codes.cpu().numpy())
            self._set_tree(*graft(*old, counts))

    def _init_weights(self, module: nn.Module) -> None:
        """Centre vectors from U(-0.5/D, 0.5/D) or N(0, initializer_range²); the others zero, as in the original.

        Of a tree, nodes and codes belong together: where a checkpoint lacks one of them, both are made anew.
        """
        super()._init_weights(module)
        if module is self:
            if self.config.objective == "hierarchical-softmax":
                tree = (self.huffman_nodes, self.huffman_codes)
                if not all(getattr(buffer, "_is_hf_initialized", False) for buffer in tree):
                    self._set_tree(*balanced_tree(*self.huffman_nodes.shape))
            self._renew_noise()
        if isinstance(module, nn.Embedding):
            if getattr(module, "begins_at_zero", False):
                init.zeros_(module.weight)
            elif self.config.initializer_range is None:
                init.uniform_(module.weight, -0.5 / module.embedding_dim, 0.5 / module.embedding_dim)
            else:
                init.normal_(module.weight, std=self.config.initializer_range)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor,
        labels: torch.Tensor | None = None,
        context_mask: torch.Tensor | None = None,
        negative_ids: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        loss_only: bool = False,
        **kwargs,
    ) -> WordVectorsOutput:
        """The vectors of words, and with labels the loss of predicting them.

        Args:
            input_ids: int64. Skip-gram: the centre words, (B,). CBOW: the context words, (B, C), -100 on padding.
                Without labels, any shape, and the ids of `<unk>` and `<pad>` have a vector of zeros.
            labels: int64 of shape (B,). Skip-gram: a context word of each centre; CBOW: the centre words. -100 is
                ignored, and so is a row of CBOW without context.
            context_mask: (B, C), 0 on padding; instead of -100.
            negative_ids: int64 of shape (B, K), for negative sampling; by default they are drawn, K being
                `num_negatives`.
            num_items_in_batch: as in `losses.cross_entropy`.
            loss_only: return no vectors.

        Raises:
            ValueError: if the shapes are not those of the architecture.
        """
        if labels is None:
            return WordVectorsOutput(last_hidden_state=self.look_up(input_ids, self.in_embeddings))
        vectors, hidden, real = self._hidden(input_ids, context_mask)  # hidden: (B, D)
        if labels.shape != hidden.shape[:-1]:
            raise ValueError(
                f"labels of shape {tuple(labels.shape)} do not fit input_ids of shape {tuple(input_ids.shape)} in "
                f"architecture={self.config.architecture!r}: one label belongs to each {self._input_kind()}."
            )
        labels = labels.to(hidden.device).where(real, IGNORE_INDEX)
        loss = self._loss(hidden, labels, negative_ids, num_items_in_batch)
        return WordVectorsOutput(loss=loss, last_hidden_state=None if loss_only else vectors)

    def _input_kind(self) -> str:
        return "centre word" if self.config.architecture == "skip-gram" else "row of context words"

    def _hidden(
        self, input_ids: torch.Tensor, context_mask: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Vectors of the input, what the output is predicted from (B, D), and whether it is there at all (B,)."""
        real = input_ids >= 0  # (B,) or (B, C)
        vectors = self.in_embeddings(input_ids.clamp(min=0))  # (B, D) or (B, C, D)
        if self.config.architecture == "skip-gram":
            return vectors, vectors, real
        if input_ids.dim() < 2:
            raise ValueError(f"CBOW takes input_ids of shape (B, C), not {tuple(input_ids.shape)}.")
        if context_mask is not None:
            real = real & context_mask.to(real.device).bool()
        hidden = vectors.where(real[..., None], 0).sum(-2)  # (B, D)
        if self.config.cbow_mean:
            hidden = hidden / real.sum(-1, keepdim=True).clamp(min=1)
        return vectors, hidden, real.any(-1)

    def _loss(
        self,
        hidden: torch.Tensor,
        labels: torch.Tensor,
        negative_ids: torch.Tensor | None,
        num_items_in_batch: torch.Tensor | int | None,
    ) -> torch.Tensor:
        hidden, labels = hidden.flatten(0, -2), labels.flatten()  # (B, D), (B,)
        if self.config.objective == "full-softmax":
            logits = hidden @ self.out_embeddings.weight.T  # (B, V)
            return cross_entropy(logits, labels, num_items_in_batch)
        real = labels != IGNORE_INDEX
        targets = labels.where(real, 0)
        if self.config.objective == "hierarchical-softmax":
            nodes, codes = self.huffman_nodes[targets].long(), self.huffman_codes[targets]  # (B, L)
            scores = torch.einsum("bld,bd->bl", self.out_embeddings(nodes.clamp(min=0)), hidden)
            return hierarchical_softmax_loss(scores, codes, real, num_items_in_batch)
        if negative_ids is None:
            negative_ids = self.draw_negatives(targets)
        rows = torch.cat([targets[:, None], negative_ids.to(targets.device).view(len(targets), -1)], 1)  # (B, 1 + K)
        scores = torch.einsum("bkd,bd->bk", self.out_embeddings(rows), hidden)  # (B, 1 + K)
        return negative_sampling_loss(scores[:, 0], scores[:, 1:], real, num_items_in_batch)

    def noise_weights(self) -> torch.Tensor:
        """How likely each word is drawn as a negative: int64 of shape (V,), in proportion to count^exponent.

        Without counts all words are as likely. A negative exponent, of which 0 has no power, takes a count of 0 as 1.
        Whole numbers, so that sums of them are exact.
        """
        weights, exponent = self.counts.cpu().double(), self.config.negative_exponent
        if exponent < 0 or not weights.any():
            weights = weights.clamp(min=1)
        weights = weights**exponent
        return (weights / weights.sum() * NOISE_TOTAL).round().long().clamp(min=1)

    def _renew_noise(self) -> None:
        """Make `noise_bounds` anew if the counts have changed: the running sum of `noise_weights`, from 0 on."""
        if self.counts.is_meta:
            return
        of = (self.counts, 0 if self.counts.is_inference() else self.counts._version)
        if self._noise_of is None or self._noise_of[0] is not of[0] or self._noise_of[1] != of[1]:
            bounds = nn.functional.pad(self.noise_weights().cumsum(0), (1, 0))  # (V + 1,)
            self.noise_bounds, self._noise_of = bounds.to(self.counts.device), of

    def draw_negatives(self, targets: torch.Tensor, num_negatives: int | None = None) -> torch.Tensor:
        """Words drawn in proportion to count^exponent, the target never among its own.

        One number below the others' total, moved past the target's share if it is not before it, is a draw from the
        distribution without the target: nothing is drawn twice.

        Args:
            targets: int64 of shape (B,).
            num_negatives: by default the configuration's.

        Returns:
            int64 of shape (B, K).
        """
        if not is_torchdynamo_compiling():  # which knows no versions: a compiled graph reads what was renewed before
            self._renew_noise()
        bounds = self.noise_bounds  # (V + 1,)
        targets = targets.to(bounds.device)
        start, end = bounds[targets][:, None], bounds[targets + 1][:, None]  # (B, 1)
        shape = (len(targets), num_negatives or self.config.num_negatives)
        draw = torch.randint(2**62, shape, device=bounds.device) % (bounds[-1] - (end - start))  # (B, K)
        draw = torch.where(draw < start, draw, draw + (end - start))
        return torch.searchsorted(bounds, draw, right=True) - 1

    def log_probabilities(self, input_ids: torch.Tensor, context_mask: torch.Tensor | None = None) -> torch.Tensor:
        """log P(word | input) for every word of the vocabulary, float32 of shape (B, V).

            P(o | c) = exp(u_o·v_c) / Σ_w exp(u_w·v_c)

        With hierarchical softmax, the product of the turns on the way to each word. A model that was trained by
        negative sampling tells words from noise; the softmax over its scores is shown all the same.

        Args:
            input_ids, context_mask: as in `forward`.
        """
        hidden = self._hidden(input_ids, context_mask)[1]
        scores = (hidden @ self.out_embeddings.weight.T).float()  # (B, V) or (B, V - 1)
        if self.config.objective != "hierarchical-softmax":
            return scores.log_softmax(-1)
        result = scores.new_zeros((*scores.shape[:-1], self.config.vocab_size))
        for nodes, codes in zip(self.huffman_nodes.T.long(), self.huffman_codes.T, strict=True):  # a step of all paths
            turn = (1 - 2 * codes) * scores[..., nodes.clamp(min=0)]  # (B, V)
            result = result + nn.functional.logsigmoid(turn).where(nodes >= 0, 0)
        return result
