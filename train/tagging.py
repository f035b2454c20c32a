"""Labels of words, and of the pieces that a tokenizer cuts them into.

A sentence is tokenised as running text, its words joined by one space, and each piece belongs to the word that its
characters lie in. So every tokenizer sees what it saw when it was trained, and what it will see in use: a byte-level
one `" visits"` with its space. The first piece of a word has its label and the others have none, or with
`data.label_all_pieces`, in training, the label of a word that goes on.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.train.masking import IGNORED

LOST = ""  # the tag of a word that no piece stands for; no label is empty


def encode_tagged(
    batch: dict[str, list], tokenizer: Any, max_length: int, continued: Sequence[int] | None = None
) -> dict[str, list]:
    """Tokenises sentences, truncated, with a label for each piece.

    Args:
        batch: `tokens`, lists of words, and `tags`, as many ids of labels.
        tokenizer: with a `tokenizers` backend.
        max_length: the most pieces, special tokens included.
        continued: for each label the one of a word's further pieces; None: these have none, -100.

    Returns:
        `input_ids`, `attention_mask`, `token_type_ids` where the tokenizer makes them, and `labels`; `kept`, the
        numbers of the words that have a piece; `length`, the pieces before truncation, `lost`, the words without a
        piece, and `empty`.
    """
    spans = [_word_spans(words) for words in batch["tokens"]]
    texts = [" ".join(words) for words in batch["tokens"]]
    encoded = dict(tokenizer(texts, return_offsets_mapping=True, verbose=False))
    lengths = [len(ids) for ids in encoded["input_ids"]]
    for row in (i for i, length in enumerate(lengths) if length > max_length):
        cut = tokenizer(texts[row], return_offsets_mapping=True, truncation=True, max_length=max_length)
        for name in cut:
            encoded[name][row] = cut[name]
    labels, kept = [], []
    for offsets, (numbers, starts, ends), tags in zip(
        encoded.pop("offset_mapping"), spans, batch["tags"], strict=True
    ):
        pieces = [_word_of(start, end, starts, ends) for start, end in offsets]
        own, seen = [], []
        for place in pieces:
            if place is None:
                own.append(IGNORED)
            elif not seen or seen[-1] != place:
                own.append(tags[numbers[place]])
                seen.append(place)
            else:
                own.append(IGNORED if continued is None else continued[tags[numbers[place]]])
        labels.append(own)
        kept.append([numbers[place] for place in seen])
    return encoded | {
        "labels": labels,
        "kept": kept,
        "length": lengths,
        "lost": [len(words) - len(seen) for words, seen in zip(batch["tokens"], kept, strict=True)],
        "empty": [not words for words in batch["tokens"]],
    }


def _word_spans(words: list[str]) -> tuple[list[int], list[int], list[int]]:
    """Of the words that are not blank: their numbers, and where each begins and ends in the joined text."""
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    found = [(i, int(end) - len(word), int(end)) for i, (word, end) in enumerate(zip(words, ends, strict=True))]
    shown = [(i, start, end) for i, start, end in found if words[i].strip()]
    return [i for i, _, _ in shown], [start for _, start, _ in shown], [end for _, _, end in shown]


def _word_of(start: int, end: int, starts: list[int], ends: list[int]) -> int | None:
    """The place in `starts` of the first word that a piece has a character of; None for special tokens and spaces."""
    place = bisect_right(ends, start)
    return place if place < len(starts) and max(start, starts[place]) < end else None


def continued_labels(names: Sequence[str]) -> list[int]:
    """For each label that of a word's further pieces: I-X for B-X, so that one entity stays one, or none where the
    data has no I-X; any other label itself."""
    numbers = {name: i for i, name in enumerate(names)}
    return [numbers.get(f"I-{name[2:]}", IGNORED) if name.startswith("B-") else i for i, name in enumerate(names)]


def check_spans(names: Sequence[str]) -> None:
    """Refuses tags that mark no spans by B-, I- and O, each I- with a B- of its own.

    Raises:
        ValueError: one sentence that names the first such tag.
    """
    for name in names:
        if name != "O" and not (name[:2] in ("B-", "I-") and name[2:]):
            raise ValueError(
                f"evaluation.metrics: 'span_f1' counts spans that tags such as B-PER, I-PER and O mark, and '{name}' "
                "is none of these: choose 'tag_accuracy'."
            )
        if name.startswith("I-") and f"B-{name[2:]}" not in names:
            raise ValueError(
                f"evaluation.metrics: 'span_f1' counts spans, and with the tag '{name}' and without 'B-{name[2:]}' in "
                "data.train two that are neighbours could not be told apart: write the first word of each with B-."
            )


def word_tags(
    predictions: np.ndarray, labels: np.ndarray, kept: Sequence[Sequence[int]], sizes: Sequence[int], names: Any
) -> list[list[str]]:
    """The predicted tag of each word, `LOST` where no piece stood for it.

    Args:
        predictions, labels: (sentences, pieces), as `measure` gives them: labels are -100 but at first pieces.
        kept: of each sentence the numbers of the words that have a first piece, in order.
        sizes: the number of its words.
        names: the label of each id.
    """
    tags = []
    for row, own, numbers, size in zip(predictions, labels, kept, sizes, strict=True):
        sentence = [LOST] * size
        for number, guess in zip(numbers, row[own != IGNORED].tolist(), strict=True):
            sentence[number] = names[guess]
        tags.append(sentence)
    return tags
