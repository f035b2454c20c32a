"""How well a causal language model predicts documents: perplexity by token, word and byte, and bits per byte.

A document that is longer than what the model reads at once is read in windows, each `stride` tokens further on. Each
token but the first is predicted once, from at least window - stride tokens before it, but for those of the first
window. All figures are ratios of sums over all documents, never means of means:

    perplexity        exp(-Σ log P / tokens)        says how good the model is for its tokenizer
    word_perplexity   exp(-Σ log P / words)         does not ask how words are cut; words are parted by white space
    byte_perplexity   exp(-Σ log P / bytes)         nor what a word is; bytes of UTF-8
    bits_per_byte     -Σ log P / (bytes · ln 2)

The last three are of the text alone where each of its tokens is predicted: a document begins with what the tokenizer's
template puts first, or with the begin or the end token, which are read and not predicted. Where there is none, the
first token of a document is missing from the sum.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.few_shot.joining import Row, bare_ids, first_token, template
from regard.evaluation.few_shot.scoring import check_batch_size, check_predicts, row_sums
from regard.evaluation.generation import position_limit
from regard.evaluation.likelihood import perplexity
from regard.evaluation.readers import ENDS, TEXT, columns_of, local_file, read_rows
from regard.evaluation.windows import windows
from regard.modeling.losses import IGNORE_INDEX

LONGEST_WINDOW = 1024  # where neither model nor tokenizer says how much is read at once
NO_LIMIT = 1_000_000  # a tokenizer's limit beyond this says that there is none
ROWS_AT_ONCE = 64  # batches of windows that are made before they are computed, those of like length together


@dataclass(frozen=True)
class DocumentLikelihood:
    """What documents are worth to a model.

    Attributes:
        log_likelihood: Σ log P of all predicted tokens, in nats.
        documents, tokens, words, bytes: how many there are; tokens are those that were predicted.
        unknown: tokens among them that stand for what the vocabulary lacks. They cost less than what they stand for,
            so that with many of them figures per word and byte cannot be compared.
        window, stride: as they were.
    """

    log_likelihood: float
    documents: int
    tokens: int
    words: int
    bytes: int
    unknown: int
    window: int
    stride: int

    @property
    def perplexity(self) -> float:
        return perplexity(-self.log_likelihood / self.tokens)

    @property
    def word_perplexity(self) -> float:
        """Infinite where the documents have no words."""
        return perplexity(-self.log_likelihood / self.words) if self.words else math.inf

    @property
    def byte_perplexity(self) -> float:
        return perplexity(-self.log_likelihood / self.bytes)

    @property
    def bits_per_byte(self) -> float:
        return -self.log_likelihood / (self.bytes * math.log(2))

    def record(self) -> dict[str, Any]:
        """All figures by name."""
        names = ("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte")
        return {name: getattr(self, name) for name in names} | asdict(self)


def document_likelihood(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    documents: Iterable[str],
    *,
    window: int | None = None,
    stride: int | None = None,
    batch_size: int = 8,
    show: Callable[[int], Any] | None = None,
) -> DocumentLikelihood:
    """Measures a causal language model on documents, which are read one after another.

    Args:
        documents: texts; those without a token are left out.
        window: how many tokens the model reads at once; by default as many as the model, or else the tokenizer, says.
        stride: tokens that are predicted in each window but the first, from 1 to `window`; by default half of it. The
            smaller it is, the more the model has seen before each token, and the longer it takes.
        batch_size: windows at once, at most; fewer when they are long.
        show: called with the number of tokens that are predicted so far.

    Raises:
        ValueError: another kind of model, numbers that cannot work, or nothing to predict.
    """
    if model.config.is_encoder_decoder:
        raise ValueError(f"A {type(model).__name__} does not predict a text: that takes a causal language model.")
    check_predicts(model)
    window, stride = _sizes(model, tokenizer, window, stride)
    counts = {"documents": 0, "words": 0, "bytes": 0, "unknown": 0}
    unknown = tokenizer.unk_token_id
    first: list[int] | None = None

    def encoded() -> Iterator[list[int]]:
        nonlocal first
        for text in documents:
            ids = bare_ids(tokenizer, [text])[0]
            if not ids:
                continue
            first = _first(model, tokenizer, text, ids) if first is None else first
            counts["documents"] += 1
            counts["words"] += len(text.split())
            counts["bytes"] += len(text.encode())
            counts["unknown"] += ids[0 if first else 1 :].count(unknown)
            yield first + ids

    total, tokens = windowed_log_likelihood(model, encoded(), window, stride, batch_size, show)
    return DocumentLikelihood(total, tokens=tokens, window=window, stride=stride, **counts)


def windowed_log_likelihood(
    model: PreTrainedModel,
    documents: Iterable[Sequence[int]],
    window: int,
    stride: int,
    batch_size: int = 8,
    show: Callable[[int], Any] | None = None,
) -> tuple[float, int]:
    """Σ log P of each token of documents but their first ones, and how many these are.

    Args:
        documents: token ids.
        window: ids that the model reads at once; the one after them is predicted too.
        stride: from 1 to `window`.

    Raises:
        ValueError: numbers that cannot work, or no token to predict.
    """
    check_batch_size(batch_size)
    if not 1 <= stride <= window:
        raise ValueError(f"stride={stride} must be at least 1 and at most the window, {window}.")
    total, tokens, waiting = 0.0, 0, []

    def compute() -> None:
        nonlocal total, tokens
        total += math.fsum(log_probability for log_probability, _ in row_sums(model, waiting, batch_size, share=False))
        tokens += sum(row.scored for row in waiting)
        waiting.clear()
        if show is not None:
            show(tokens)

    for document in documents:
        for row in windows([(np.asarray(document, np.int64), True)], window + 1, stride):
            start = int(np.argmax(row["labels"] != IGNORE_INDEX))
            waiting.append(Row(tuple(row["input_ids"].tolist()), start))
            if len(waiting) == ROWS_AT_ONCE * batch_size:
                compute()
    if waiting:
        compute()
    if not tokens:
        raise ValueError("The documents have no token to predict.")
    return total, tokens


def read_documents(path: str | Path, column: str = TEXT, *, blank_lines: bool = False) -> Iterator[str]:
    """The documents of a file: a row each, or one of a text file.

    Args:
        path: a .txt file, whose line ends are kept and byte order mark is not, or one with rows (.jsonl, .json, .csv,
            .tsv, .parquet).
        column: where a row has its text.
        blank_lines: they part the documents of a text file.

    Raises:
        ValueError: a file of another kind, without the column, or malformed.
        FileNotFoundError: no such file.
    """
    file = local_file(str(path))
    if file is None:
        raise ValueError(f"'{path}' is no file of documents, such as texts.txt or texts.jsonl.")
    if not file.is_file():
        raise FileNotFoundError(f"There is no file '{path}'.")
    if file.suffix.lower() == ".txt":
        return _whole_texts(read_rows(file, blank_lines))
    if column not in (columns := columns_of(file)):
        raise ValueError(f"{path} has no column '{column}': it has {', '.join(columns)}.")
    return _column_texts(read_rows(file), column)


def _whole_texts(rows: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    pieces: list[str] = []
    for number, (_, row) in enumerate(rows):
        pieces.append(row[TEXT] if number else row[TEXT].removeprefix("\ufeff"))
        if row[ENDS]:
            yield "".join(pieces)
            pieces = []


def _column_texts(rows: Iterable[tuple[str, dict[str, Any]]], column: str) -> Iterator[str]:
    for place, row in rows:
        if not isinstance(row.get(column), str):
            raise ValueError(f"{place}: '{column}' is no text.")
        yield row[column]


def _sizes(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, window: int | None, stride: int | None
) -> tuple[int, int]:
    limit = position_limit(model)
    if window is None:
        known = (limit, getattr(model.config, "max_position_embeddings", None), tokenizer.model_max_length)
        window = next((int(n) for n in known if n is not None and n < NO_LIMIT), LONGEST_WINDOW)
    if not isinstance(window, int) or isinstance(window, bool) or window < 1:
        raise ValueError(f"window={window!r} must be a whole number, at least 1.")
    if limit is not None and window > limit:
        raise ValueError(f"window={window} is more than the model has positions, {limit}.")
    stride = max(1, window // 2) if stride is None else stride
    return window, stride


def _first(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, ids: list[int]) -> list[int]:
    """What stands before each document, perhaps nothing."""
    found = template(tokenizer, [text], [ids])[0]
    if found:
        return found
    try:
        return [first_token(model, tokenizer)]
    except ValueError:
        return []
