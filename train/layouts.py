"""How a language model's text is cut into rows, so that nothing is lost.

blocks      causal: the documents one after another in one stream, cut every `block_size - 1` tokens into rows of
            `block_size`: a row begins with the last token of the row before, since the first token of a row is not
            predicted. A stream of N tokens has N - 1 predictions, each made once. With a `stride`, for evaluation, a
            row begins only `stride` tokens after the one before, and `labels` has its last `stride` tokens alone, so
            that each is predicted from at least block_size - stride tokens before it, but for the first row's.
documents   causal: whole documents, as many in a row as fit; `position_ids` start anew with each, by which
            attention tells them apart, and the first token of each has no label, since nothing comes before it.
masked      each row is full of text between the special tokens that the tokenizer's template puts around a text.
denoising   the documents one after another, each with its end, cut into rows of `block_size` tokens. These are what is
            corrupted (`regard.train.denoising`), and not what a model sees.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from regard.evaluation.readers import ENDS
from regard.evaluation.windows import Row, blocks, windows
from regard.train.masking import IGNORED

BATCH = 1024  # rows read at a time, and documents among which those are sought that fit together


@dataclass(frozen=True)
class Layout:
    """A way to cut text: `kind` is "blocks", "documents", "masked" or "denoising"; `affixes` stand around each
    document; with a `stride` blocks overlap."""

    kind: str
    block_size: int
    affixes: tuple[tuple[int, ...], tuple[int, ...]]
    stride: int | None = None

    def __post_init__(self) -> None:
        if self.kind == "masked" and self.block_size <= sum(map(len, self.affixes)):
            raise ValueError(f"data.block_size: {self.block_size} leaves no room for text beside the special tokens.")

    @property
    def columns(self) -> list[str]:
        if self.kind == "documents":
            return ["input_ids", "position_ids", "labels"]
        return ["input_ids"] if self.stride is None else ["input_ids", "labels"]

    def rows(self, dataset: Any) -> Iterator[Row]:
        """The rows made of a data set with a column `input_ids` and perhaps `ends_document`, plain or iterable."""
        prefix, suffix = (np.asarray(affix, np.int32) for affix in self.affixes)
        if self.kind == "documents":
            return pack(whole(documents(dataset, prefix, suffix)), self.block_size)
        if self.kind == "blocks":
            parts = documents(dataset, prefix, suffix)
            if self.stride is None:
                return blocks(parts, self.block_size, self.block_size - 1)
            return windows(parts, self.block_size, self.stride)
        if self.kind == "denoising":
            return masked_blocks(documents(dataset, prefix[:0], suffix), self.block_size, prefix[:0], suffix[:0])
        return masked_blocks(documents(dataset, prefix[:0], suffix), self.block_size, prefix, suffix)


def special_affixes(tokenizer: PreTrainedTokenizerBase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids around a document: those of the tokenizer's template, and its end token at the end in any case.

    (The template of a causal model's tokenizer has no end token, or a prompt would end before it is continued.)
    """
    encoded = tokenizer("a", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"], np.asarray(encoded["special_tokens_mask"], bool)
    if special.all():  # the vocabulary knows nothing of the letter
        first = sum(i in (tokenizer.bos_token_id, tokenizer.cls_token_id) for i in ids[:1])
        prefix, suffix = ids[:first], ids[first:]
    else:
        text = np.flatnonzero(~special)
        prefix, suffix = ids[: text[0]], ids[text[-1] + 1 :]
    if not suffix and tokenizer.eos_token_id is not None:
        suffix = [tokenizer.eos_token_id]
    return tuple(prefix), tuple(suffix)


def documents(dataset: Any, prefix: np.ndarray, suffix: np.ndarray) -> Iterator[tuple[np.ndarray, bool]]:
    """Parts of documents with their special tokens, and whether a document ends with it. Empty ones are left out."""
    begins = True
    for table in dataset.with_format("arrow").iter(BATCH):
        column = table["input_ids"].combine_chunks()
        ends = table[ENDS].to_pylist() if ENDS in table.column_names else [True] * len(column)
        ids, offsets = column.values.to_numpy(), column.offsets.to_numpy()
        for start, end, ended in zip(offsets[:-1], offsets[1:], ends, strict=True):
            if begins and ended and start == end:
                continue
            part = [prefix] * begins + [ids[start:end]] + [suffix] * ended
            yield np.concatenate(part), ended
            begins = ended


def whole(parts: Iterable[tuple[np.ndarray, bool]]) -> Iterator[np.ndarray]:
    """Documents out of their parts."""
    kept: list[np.ndarray] = []
    for part, ends in parts:
        kept.append(part)
        if ends:
            yield np.concatenate(kept)
            kept = []
    if kept:
        yield np.concatenate(kept)


def pack(whole_documents: Iterable[np.ndarray], size: int) -> Iterator[Row]:
    """Rows of at most `size` tokens that hold whole documents; a longer one is cut as in `blocks`."""
    waiting: list[np.ndarray] = []
    for document in whole_documents:
        waiting.extend(document[start : start + size] for start in range(0, max(1, len(document) - 1), size - 1))
        if len(waiting) >= BATCH:
            yield from map(_packed, best_fit(waiting, size))
            waiting = []
    yield from map(_packed, best_fit(waiting, size))


def best_fit(pieces: list[np.ndarray], size: int) -> list[list[np.ndarray]]:
    """Pieces put together, the longest first, each into the fullest row that has room for it."""
    rows: list[list[np.ndarray]] = []
    spaces: list[tuple[int, int]] = []  # (room left, row), sorted
    for piece in sorted(pieces, key=len, reverse=True):
        found = bisect_left(spaces, (len(piece), 0))
        if found == len(spaces):
            rows.append([])
            room, row = size, len(rows) - 1
        else:
            room, row = spaces.pop(found)
        rows[row].append(piece)
        insort(spaces, (room - len(piece), row))
    return rows


def _packed(pieces: list[np.ndarray]) -> Row:
    ids = np.concatenate(pieces)
    labels = ids.copy()
    labels[np.cumsum([0, *map(len, pieces)][:-1])] = IGNORED
    return {"input_ids": ids, "position_ids": np.concatenate([np.arange(len(p)) for p in pieces]), "labels": labels}


def masked_blocks(
    parts: Iterable[tuple[np.ndarray, bool]], size: int, prefix: np.ndarray, suffix: np.ndarray
) -> Iterator[Row]:
    """Rows of at most `size` tokens: `prefix`, text, `suffix`. Inside the text `suffix` parts the documents."""
    room = size - len(prefix) - len(suffix)
    rest, waiting, held = np.empty(0, np.int32), [], 0
    for part, _ in parts:
        waiting.append(part)
        held += len(part)
        if held >= 64 * room:
            rest, waiting, held = np.concatenate([rest, *waiting]), [], 0
            count = len(rest) // room
            for start in range(0, count * room, room):
                yield from _wrapped(rest[start : start + room], prefix, suffix)
            rest = rest[count * room :]
    rest = np.concatenate([rest, *waiting])
    for start in range(0, len(rest), room):
        yield from _wrapped(rest[start : start + room], prefix, suffix)


def _wrapped(text: np.ndarray, prefix: np.ndarray, suffix: np.ndarray) -> Iterator[Row]:
    if np.array_equal(text, suffix):
        return  # the end of the document before, and no text
    ended = len(suffix) > 0 and np.array_equal(text[-len(suffix) :], suffix)
    yield {"input_ids": np.concatenate([prefix, text, suffix[:0] if ended else suffix])}
