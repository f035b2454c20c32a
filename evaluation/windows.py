"""Long texts in rows that overlap, so that each token is predicted once, and after enough others.

The training of `regard.train.layouts` cuts its streams in the same way, without the overlap.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from regard.modeling.losses import IGNORE_INDEX

Row = dict[str, np.ndarray]


def blocks(parts: Iterable[tuple[np.ndarray, bool]], size: int, stride: int) -> Iterator[Row]:
    """Rows of `size` tokens, each `stride` tokens further on; the last is as long as what is left."""
    rest, waiting, held = np.empty(0, np.int32), [], 0
    for part, _ in parts:
        waiting.append(part)
        held += len(part)
        if held >= 64 * size:
            rest, waiting, held = np.concatenate([rest, *waiting]), [], 0
            count = max(0, (len(rest) - 1 - size) // stride + 1)  # a token beyond a row shows that it is not the last
            for start in range(0, count * stride, stride):
                yield {"input_ids": rest[start : start + size]}
            rest = rest[count * stride :]
    rest = np.concatenate([rest, *waiting])
    for start in range(0, max(1, len(rest) - size + stride), stride):
        if len(rest) - start > 1:
            yield {"input_ids": rest[start : start + size]}


def windows(parts: Iterable[tuple[np.ndarray, bool]], size: int, stride: int) -> Iterator[Row]:
    """Overlapping `blocks` with labels: each token but the first of all has one, in one row.

    Args:
        parts: of a stream of token ids, each with whether a document ends there, which changes nothing here.
        size: tokens of a row. The last of them is predicted and need not be read.
        stride: how much further on each row begins; at most size - 1, with which rows overlap by one token.
    """
    for number, row in enumerate(blocks(parts, size, stride)):
        labels = row["input_ids"].copy()
        labels[: size - stride if number else 1] = IGNORE_INDEX
        yield row | {"labels": labels}
