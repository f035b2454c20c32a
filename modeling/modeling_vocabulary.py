"""What models of static word vectors share: a table with a row a word, and the words, which travel with the weights.

Axes: V vocabulary, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import nn
from transformers import initialization as init
from transformers.utils import ModelOutput

from .configuration_word_vectors import WordVectorsConfigBase
from .modeling_base import RegardPreTrainedModel
from .vector_files import check_words
from .word_vectors import WordVectorsMixin


@dataclass
class WordVectorsOutput(ModelOutput):
    """
    Args:
        loss: a float32 scalar, if there were labels.
        last_hidden_state: the vectors of the input, (..., D): of word2vec those of `in_embeddings`, of GloVe the sums.
    """

    loss: torch.Tensor | None = None
    last_hidden_state: torch.Tensor | None = None


class VocabularyPreTrainedModel(WordVectorsMixin, RegardPreTrainedModel):
    """Base class of models whose rows are words, in order of falling count.

    Persistent buffers, which no cast to another precision touches:
        vocabulary: uint8 of shape (vocabulary_bytes,), the words in UTF-8, joined by newlines.
        counts: int64 of shape (V,), how often each word occurs in the training text.
    """

    config: WordVectorsConfigBase
    supports_gradient_checkpointing = False
    _words: tuple[torch.Tensor, int, list[str]] | None = None
    _ids: tuple[list[str], dict[str, int]] | None = None

    def __init__(self, config: WordVectorsConfigBase):
        super().__init__(config)
        self.in_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.register_buffer("vocabulary", torch.zeros(config.vocabulary_bytes, dtype=torch.uint8))
        self.register_buffer("counts", torch.zeros(config.vocab_size, dtype=torch.int64))

    def post_init(self) -> None:
        super().post_init()
        # Buffers follow from the text, alike in every process, and stay as they are: DDP shall not send them around.
        self._ddp_params_and_buffers_to_ignore += [name for name, _ in self.named_buffers()]

    def _init_weights(self, module: nn.Module) -> None:
        """Buffers that no checkpoint has filled: no words and no counts."""
        if module is self:
            init.zeros_(self.vocabulary)
            init.zeros_(self.counts)

    @classmethod
    def from_vocabulary(cls, words: Sequence[str], counts: Sequence[int] | np.ndarray, **settings: Any) -> Self:
        """A model with random vectors for these words.

        Args:
            words: in order of falling count.
            counts: how often each occurs.
            settings: further fields of the configuration.

        Raises:
            ValueError: if words and counts do not fit together, or a word is no string, is empty, occurs twice or
                holds a newline.
        """
        words, counts = list(words), np.asarray(counts, dtype=np.int64)
        buffer = encode_words(words)
        check_counts(words, counts)
        if (counts[1:] > counts[:-1]).any():
            later = int((counts[1:] > counts[:-1]).argmax()) + 1
            raise ValueError(
                f"words must come in order of falling count: {words[later]!r} ({counts[later]}) follows "
                f"{words[later - 1]!r} ({counts[later - 1]})."
            )
        sizes = {"vocab_size": len(words), "vocabulary_bytes": len(buffer)}
        for name, size in sizes.items():
            if settings.get(name, size) != size:
                raise ValueError(
                    f"{name}={settings[name]} does not fit the words, for which it is {size}: leave it out."
                )
        model = cls(cls.config_class(**{**settings, **sizes}))
        with torch.no_grad():
            model.vocabulary.copy_(torch.from_numpy(buffer))
            model.counts.copy_(torch.from_numpy(counts))
        model._counts_changed()
        return model

    def _counts_changed(self) -> None:
        """Make anew what follows from the counts."""

    def __len__(self) -> int:
        return self.config.vocab_size

    @property
    def vector_size(self) -> int:
        """D, the width of a vector."""
        return self.config.hidden_size

    @property
    def index_to_key(self) -> list[str]:
        """The words, in order of their rows.

        Raises:
            ValueError: if the model was made from a configuration alone, and so has no words.
        """
        buffer = self.vocabulary
        version = 0 if buffer.is_inference() else buffer._version
        if self._words is None or self._words[0] is not buffer or self._words[1] != version:
            if not buffer.any():  # nor has a model of a saved configuration, whose buffer is there
                raise ValueError(f"This {type(self).__name__} has no words: make it with from_vocabulary.")
            words = buffer.cpu().numpy().tobytes().decode("utf-8").split("\n")
            self._words = (buffer, version, words)
        return self._words[2]

    @property
    def key_to_index(self) -> dict[str, int]:
        """The row of each word."""
        words = self.index_to_key
        if self._ids is None or self._ids[0] is not words:
            self._ids = (words, {word: row for row, word in enumerate(words)})
        return self._ids[1]

    @property
    def vectors(self) -> np.ndarray:
        """float32 of shape (V, D): the centre vectors; on a CPU in float32 they are the weights themselves."""
        return self._rows(slice(None))

    def _rows(self, rows: np.ndarray | slice) -> np.ndarray:
        return rows_of(self.in_embeddings.weight, rows)

    def look_up(self, ids: torch.Tensor, *tables: nn.Embedding) -> torch.Tensor:
        """The vectors of words, (..., D): of a table, or summed over several.

        A run's tokenizer gives the word of row i the id i; after the V words it has `<unk>`, V, and `<pad>`, V + 1.
        These two have no row, and their vector is zero; so is that of ids below 0, with which contexts are padded.

        Raises:
            ValueError: an id beyond these, which belongs to another tokenizer. In compiled code it is torch's error.
        """
        size = self.config.vocab_size
        if not torch.compiler.is_compiling() and ids.numel() and (greatest := int(ids.max())) > size + 1:
            raise ValueError(
                f"There is no word of id {greatest} among the {size:,} of this {type(self).__name__}: its own "
                f"tokenizer has ids up to {size + 1}, of which the last two are <unk> and <pad>."
            )
        known = (ids >= 0) & (ids != size) & (ids != size + 1)
        rows = ids.where(known, 0)
        return sum(table(rows) for table in tables).where(known[..., None], 0)

    def extend_vocabulary(self, words: Sequence[str], counts: Sequence[int] | np.ndarray) -> list[str]:
        """Add rows for new words after those that are there, which keep their places and their values.

        Args:
            words: new ones get a row each; those that have one are passed over.
            counts: how often each of `words` occurs in the new text; added to the counts of words that are there.

        Returns:
            The words that were added.

        Raises:
            ValueError: as `from_vocabulary`.
        """
        words, added_counts = list(words), np.asarray(counts, dtype=np.int64)
        check_counts(words, added_counts)
        ids = self.key_to_index
        encode_words(words)  # the same conditions as for the first words
        new = [word for word in words if word not in ids]
        merged = self.counts.cpu().numpy().copy()
        fresh = [count for word, count in zip(words, added_counts, strict=True) if word not in ids]
        for word, count in zip(words, added_counts, strict=True):
            if word in ids:
                merged[ids[word]] += count
        device = self.counts.device
        if new:
            buffer = encode_words([*self.index_to_key, *new])
            self._add_rows(len(new), np.asarray(fresh))
            self.vocabulary = torch.from_numpy(buffer).to(device)
            self.config.vocabulary_bytes = len(buffer)
            self.config.vocab_size += len(new)
        self.counts = torch.from_numpy(np.concatenate([merged, np.asarray(fresh, dtype=np.int64)])).to(device)
        return new

    def _add_rows(self, number: int, counts: np.ndarray) -> None:
        """Grow the tables by so many words; `counts` are those of the new words."""
        raise NotImplementedError

    def _grow(self, module: nn.Embedding, number: int) -> None:
        """Add rows to a table, initialised as at the beginning."""
        more = nn.Embedding(number, module.embedding_dim, device=module.weight.device, dtype=module.weight.dtype)
        more.begins_at_zero = getattr(module, "begins_at_zero", False)
        self._init_weights(more)
        table = torch.cat([module.weight.detach(), more.weight.detach()])
        module.weight = nn.Parameter(table, requires_grad=module.weight.requires_grad)
        module.num_embeddings += number

    def get_input_embeddings(self) -> nn.Embedding:
        return self.in_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.in_embeddings = value

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, **kwargs
    ) -> nn.Embedding:
        """Rows are words here: only `extend_vocabulary` adds some.

        Raises:
            ValueError: if the number would change.
        """
        number = self.config.vocab_size if new_num_tokens is None else new_num_tokens
        number += -number % (pad_to_multiple_of or 1)
        if number != self.config.vocab_size:
            raise ValueError(
                f"resize_token_embeddings to {number} would leave rows without words: a "
                f"{type(self).__name__} of {self.config.vocab_size} words grows by extend_vocabulary."
            )
        return self.in_embeddings


def rows_of(table: torch.Tensor, rows: np.ndarray | slice) -> np.ndarray:
    """Some rows in float32: the same memory for a slice where numpy can read it, else a copy of these alone."""
    index = rows if isinstance(rows, slice) else torch.from_numpy(rows).to(table.device)
    return table.detach()[index].to("cpu", torch.float32).numpy()


def encode_words(words: list[str]) -> np.ndarray:
    """Words in UTF-8, joined by newlines, as uint8.

    Raises:
        ValueError: if a word is no string, is empty, holds a newline, occurs twice or cannot be written in UTF-8.
    """
    check_words(words)
    for number, word in enumerate(words):
        if not word or "\n" in word:
            raise ValueError(f"a word must not be empty or hold a newline: {word!r} (word {number}).")
    text = "\n".join(words)
    try:
        return np.frombuffer(text.encode("utf-8"), dtype=np.uint8).copy()
    except UnicodeEncodeError:
        bad = next(word for word in words if any("\ud800" <= character <= "\udfff" for character in word))
        raise ValueError(f"a word must be valid Unicode: {bad!r} holds half a surrogate pair.") from None


def check_counts(words: list[str], counts: np.ndarray) -> None:
    """See that there is one count for each word, not negative.

    Raises:
        ValueError: if not.
    """
    if counts.shape != (len(words),):
        raise ValueError(
            f"counts must be one number for each of the {len(words)} words: their shape is {counts.shape}."
        )
    if len(counts) and counts.min() < 0:
        raise ValueError(f"counts must not be negative: {words[counts.argmin()]!r} has {counts.min()}.")
