"""Many rows in few passes: what rows share at their beginning is computed once.

Rows in lexicographic order are a tree: each row is the one before it up to some token, and goes on by itself. A pass
takes some rows, and writes each token of their tree once, in one row of the model's input. A mask lets a token see
those on its own path alone, and its position is its depth. Keys and values of the path to the last row are kept for
the next pass, whose first row shares most with it. So the description and the shots are computed once for all
queries, a query once for all its choices, and no position is a pad. A pass without branches needs no mask, so that
the memory of one grows with the square of `TOKENS` and never with that of a long prompt:

    tokens      shots ... query A | yes | no | query B | yes | no
    position    0     ... 40        51    51   40        48    48
    sees                            all of its own path, and nothing of the other branches

The vocabulary's head is computed at the positions alone that predict a scored token. Choices of one token share the
position before them, and take no input of their own.

Axes: T tokens of a pass, K kept before them, N positions that predict, V vocabulary.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicLayer

from regard.evaluation.few_shot.joining import Row, common_length
from regard.modeling.compatibility import CACHE_NAME, cache_of

TOKENS = 1024  # new ones in a pass: more would mostly look at one another's masked keys
MASKED_KERNELS = ("sdpa", "eager")  # that take a mask of who sees whom
# In a configuration, these tell of layers that count the distance between tokens in the row, not by their positions.
LOCAL = ("sliding_window", "window_size", "attention_window", "attention_chunk_size", "local_attention")
BY_LENGTH = ("dynamic", "longrope")  # rotary angles that depend on the longest row of a batch
SLACK = {torch.float32: 1e-4, torch.float64: 1e-4}  # how far a trial may be off for each token and each nat
HALF_SLACK = 0.05  # the same where weights have 8 or 11 bits

Sums = list[tuple[float, bool]]
_TRIED: WeakKeyDictionary[PreTrainedModel, tuple[Any, bool]] = WeakKeyDictionary()  # each model is tried out once


@dataclass
class Pass:
    """Some rows as one.

    Attributes:
        tokens, positions: of the new tokens, T each.
        branches: for each row with new tokens, where they begin and end among the new ones, and which columns (kept
            ones first) its path has before them.
        rows: the numbers of the rows.
        places: of each row, the new tokens that predict its scored ones.
        path: the columns of the last row's path.
    """

    kept: int
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    branches: list[tuple[int, int, list[int]]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    places: list[list[int]] = field(default_factory=list)
    path: list[int] = field(default_factory=list)

    def add(self, number: int, row: Row, shared: int) -> None:
        """Adds a row, which shares so many tokens with the row before it."""
        begin, read = len(self.tokens), len(row.ids) - 1
        self.branches.append((begin, begin + read - shared, self.path[:shared]))
        self.path = self.path[:shared] + list(range(self.kept + begin, self.kept + begin + read - shared))
        self.tokens += row.ids[shared:read]
        self.positions += range(shared, read)
        self.rows.append(number)
        self.places.append([column - self.kept for column in self.path[row.start - 1 :]])

    def shared_with(self, row: Row, before: Row) -> int:
        """How many tokens of a row need not be computed again: those of the row before it, but none that predicts a
        scored token and was computed in an earlier pass, since its prediction was not kept."""
        shared = min(common_length(before.ids, row.ids), len(before.ids) - 1, len(row.ids) - 1, len(self.path))
        computed_earlier = sum(column < self.kept for column in self.path[row.start - 1 : shared])
        return row.start - 1 if computed_earlier else shared

    def mask(self) -> np.ndarray | None:
        """Who sees whom, bool (T, K + T); None where each token sees all before it, as a model does unasked."""
        columns = self.kept
        for begin, end, before in self.branches:
            if end > begin and len(before) != columns:
                break
            columns += end - begin
        else:
            return None
        seen = np.zeros((len(self.tokens), self.kept + len(self.tokens)), bool)
        for begin, end, before in self.branches:
            seen[begin:end, before] = True
            seen[begin:end, self.kept + begin : self.kept + end] = np.tri(end - begin, dtype=bool)
        return seen


def passes(rows: Sequence[Row], batch_size: int) -> Iterator[Pass]:
    """Rows in lexicographic order, put together in passes of at most `batch_size` rows and `TOKENS` new tokens."""
    if not rows:
        return
    order = sorted(range(len(rows)), key=lambda number: rows[number].ids)
    current, before = Pass(0), rows[order[0]]
    for number in order:
        row = rows[number]
        shared = current.shared_with(row, before)
        new = len(row.ids) - 1 - shared
        if current.rows and (len(current.rows) == batch_size or len(current.tokens) + new > TOKENS):
            yield current
            shared = min(common_length(before.ids, row.ids), len(before.ids) - 1, row.start - 1)
            current = Pass(shared, path=list(range(shared)))
        current.add(number, row, shared)
        before = row
    yield current


@torch.no_grad()
def packed_sums(
    model: PreTrainedModel, rows: Sequence[Row], batch_size: int, done: Callable[[int], Any] = lambda number: None
) -> Sums:
    """Of each row Σ log P of its scored tokens, and whether each of them is the likeliest at its place.

    Args:
        model: one that `can_pack`.
        rows: in any order; which of them are computed together changes nothing.
        batch_size: rows in a pass, at most.
        done: called with the number of rows of each pass.
    """
    device, dtype = model.device, model.dtype
    keeps = "logits_to_keep" in inspect.signature(model.forward).parameters
    results: Sums = [(0.0, False)] * len(rows)
    cache, path = None, []
    for each in passes(rows, batch_size):
        if each.kept:
            keep_columns(cache, torch.tensor(path[: each.kept], device=device))
        else:
            cache = None
        seen, mask = each.mask(), None
        if seen is not None:
            mask = torch.zeros(1, 1, *seen.shape, dtype=dtype, device=device)  # (1, 1, T, K + T)
            mask.masked_fill_(torch.from_numpy(~seen).to(device), torch.finfo(dtype).min)
        wanted = sorted({place for places in each.places for place in places})  # N
        at = torch.tensor(wanted, device=device)
        outputs = model(
            input_ids=torch.tensor([each.tokens], device=device),
            attention_mask=mask,
            position_ids=torch.tensor([each.positions], device=device),
            use_cache=True,
            **{CACHE_NAME: cache},
            **({"logits_to_keep": at} if keeps else {}),
        )
        logits = outputs.logits[0] if keeps else outputs.logits[0, at]  # (N, V)
        cache, path = cache_of(outputs), each.path
        index = dict(zip(wanted, range(len(wanted)), strict=True))
        where = [[index[place] for place in places] for places in each.places]
        targets = [rows[number].ids[rows[number].start :] for number in each.rows]
        for number, result in zip(each.rows, sums_at(logits, where, targets), strict=True):
            results[number] = result
        done(len(each.rows))
    return results


def keep_columns(cache: Any, columns: torch.Tensor) -> None:
    """Leaves in a cache only the keys and values at these columns, in this order."""
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys.index_select(-2, columns), layer.values.index_select(-2, columns)


def sums_at(logits: torch.Tensor, where: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Sums:
    """Of each row the sum of log-probabilities, in float64, and whether each target is the likeliest token.

    Args:
        logits: (N, V).
        where: for each target of each row, which of the N predicts it.
        targets: token ids of each row.
    """
    lengths = [len(each) for each in targets]
    flat = torch.tensor([i for each in where for i in each], device=logits.device)
    wanted = torch.tensor([token for each in targets for token in each], device=logits.device)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    chances = logits[flat, wanted] - logits.logsumexp(-1)[flat]
    likeliest = (logits.argmax(-1)[flat] == wanted).cpu().split(lengths)
    return [
        (each.double().sum().item(), bool(greedy.all()))
        for each, greedy in zip(chances.cpu().split(lengths), likeliest, strict=True)
    ]


def can_pack(model: PreTrainedModel) -> bool:
    """Whether a model computes the same for rows that are packed as for each of them alone.

    It must take positions, a cache that can be cut, and a mask of who sees whom. Whether it heeds them is tried out
    on a few short rows, since models take arguments that they do not use, such as those with a recurrent state. A
    model that fails reads whole rows, which is slower and gives the same.
    """
    config = text_config(model)
    taken = set(inspect.signature(model.forward).parameters)
    if not {"input_ids", "attention_mask", "position_ids", "use_cache"} <= taken or CACHE_NAME not in taken:
        return False
    if getattr(config, "_attn_implementation", None) not in MASKED_KERNELS:
        return False
    kinds = set(getattr(config, "layer_types", None) or ("full_attention",))
    if kinds != {"full_attention"} or any(getattr(config, name, None) for name in LOCAL) or depends_on_longest(model):
        return False
    how = config._attn_implementation, model.dtype
    if _TRIED.get(model, (None, None))[0] != how:
        _TRIED[model] = how, _packs_the_same(model)
    return _TRIED[model][1]


def text_config(model: PreTrainedModel) -> Any:
    """The configuration of what reads text, which of a model for pictures and texts is a part."""
    find = getattr(model.config, "get_text_config", None)
    return model.config if find is None else find(decoder=True)


def depends_on_longest(model: PreTrainedModel) -> bool:
    """Whether a row's outputs depend on the longest row beside it: LongRoPE (Ding et al., 2024) as the library has it
    turns all rows by other angles as soon as one of them is longer than the model was trained on at first."""
    settings = getattr(text_config(model), "rope_parameters", None) or {}
    kinds = [settings, *(each for each in settings.values() if isinstance(each, dict))]  # one for each kind of layer
    return any(each.get("rope_type") in BY_LENGTH for each in kinds)


@torch.no_grad()
def _packs_the_same(model: PreTrainedModel) -> bool:
    """Rows that branch within a pass, at two depths, in two passes: the second begins with a cache that was cut."""
    a, b, c, d = (token % text_config(model).vocab_size for token in (5, 6, 7, 8))
    tails = [(a, b, c, d, a), (a, c, b, d, d), (b, d, a, c), (c, c, d, a, b, d), (d, a)]
    rows = [Row((a, b, c, d, *tail), 4) for tail in tails]
    try:
        cache = cache_of(model(input_ids=torch.tensor([rows[0].ids], device=model.device), use_cache=True))
        if any(type(layer) is not DynamicLayer for layer in cache.layers):
            return False
        packed = packed_sums(model, rows, batch_size=3)
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError, NotImplementedError):
        return False  # whatever the model has against it, rows by themselves are what it was made for
    slack = SLACK.get(model.dtype, HALF_SLACK)
    for row, (found, _) in zip(rows, packed, strict=True):
        logits = model(input_ids=torch.tensor([row.ids[:-1]], device=model.device)).logits[0, row.start - 1 :]
        alone = sums_at(logits, [range(row.scored)], [row.ids[row.start :]])[0][0]
        if not abs(found - alone) <= slack * (row.scored + abs(alone)) / 2:
            return False
    return True
