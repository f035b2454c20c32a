"""Rows held out of the training data: always the same ones, and rows that belong together in one split."""

from collections.abc import Mapping, Sequence

import numpy as np
from datasets import Dataset

from regard.train.fingerprints import fingerprint
from regard.train.sections import HOLD_OUT


def hold_out(
    train: Dataset,
    wanted: Mapping[str, str],
    *,
    ordered: bool = False,
    seed: int = 0,
    groups: Sequence[str] | None = None,
) -> dict[str, Dataset]:
    """Parts the training rows.

    Which rows are validated on does not depend on whether there is a test split, nor the other way round: they are
    taken from the two ends of one order.

    Args:
        train: all rows.
        wanted: for "validation", "test" or both a share or a number of rows, as `data.validation` takes them.
        ordered: keep the order of the rows, the last ones being validated on, as one text is cut; else it is drawn.
        seed: by which it is drawn.
        groups: of each row the group to which it belongs, which no two splits share. Then groups are drawn, until as
            many rows as wanted are together, and the last of them may make it more.

    Returns:
        "train" and what is wanted, each in the order in which its rows came.

    Raises:
        ValueError: a split would have no rows.
    """
    order, sizes = np.arange(len(train)), np.ones(len(train), np.int64)  # the rows, unit by unit
    if groups is not None:
        order, sizes = _members(groups)
    if not ordered or groups is not None:
        drawn = np.random.default_rng(seed).permutation(len(sizes))
        parts = np.split(order, np.cumsum(sizes)[:-1]) if groups is not None else None
        order = order[drawn] if parts is None else np.concatenate([parts[unit] for unit in drawn])
        sizes = sizes[drawn]
    ends = {"validation": len(order), "test": 0}
    for name, value in wanted.items():
        count = _rows_wanted(value, len(order))
        together = np.cumsum(sizes if name == "test" else sizes[::-1])
        number = int(np.searchsorted(together, count))
        if count == 0 or number >= len(sizes) - 1:
            raise ValueError(_empty_side(f"data.{name}: '{value}'", len(order), groups))
        ends[name] = together[number] if name == "test" else len(order) - together[number]
    if ends["test"] >= ends["validation"]:
        both = " and ".join(f"data.{name}: '{value}'" for name, value in wanted.items())
        raise ValueError(_empty_side(both, len(order), groups))
    rows = {"train": order[ends["test"] : ends["validation"]]}
    rows |= {"validation": order[ends["validation"] :], "test": order[: ends["test"]]}
    key = [train._fingerprint, "held out", dict(wanted), ordered, seed, groups is not None]
    return {
        name: train.select(np.sort(rows[name]), new_fingerprint=fingerprint(name, *key)) for name in ("train", *wanted)
    }


def _rows_wanted(value: str, rows: int) -> int:
    share, limit, number = HOLD_OUT.fullmatch(value).groups()
    count = int(number) if number else max(float(share) > 0, round(rows * float(share) / 100))  # a row at least
    return min(count, int(limit or count))


def _members(groups: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The rows group by group, in the alphabet's order of the groups (not that of the file), and the groups' sizes."""
    _, numbers = np.unique(np.asarray(groups, object), return_inverse=True)
    return np.argsort(numbers, kind="stable"), np.bincount(numbers)


def _empty_side(what: str, rows: int, groups: Sequence[str] | None) -> str:
    among = "" if groups is None else f", which are {len(set(groups))} groups by data.split_by,"
    return f"{what} of the {rows} rows of data.train{among} leaves one side empty."
