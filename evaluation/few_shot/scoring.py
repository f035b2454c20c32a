"""How likely is each choice after its prompt: Σ log P of the whole choice, for any language model with a head.

Decoders read prompt and choice as one text (`joining`). Where the model lets rows be packed, what requests share is
computed once (`prefixes`); other models read whole rows. Of an encoder-decoder, the encoder reads each prompt once and
the decoder each choice.

A request longer than the model's positions is refused, never cut. Results do not depend on the batch size, on the
order of the requests or on the tokenizer's padding side, but for rounding.

Axes: B rows, T positions, S source length, V vocabulary, N positions that predict.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutput

from regard.evaluation.few_shot.joining import Request, Row, join, join_apart
from regard.evaluation.few_shot.prefixes import Sums, can_pack, depends_on_longest, packed_sums, sums_at
from regard.evaluation.generation import _batches_by_length, _evaluating, _pad, position_limit

Show = Callable[[int, int], Any]
_PREDICT: WeakSet[PreTrainedModel] = WeakSet()  # models that were found to predict what comes next


@dataclass(frozen=True)
class Score:
    """What a model thinks of a choice.

    Attributes:
        log_probability: of the whole choice given its prompt, in nats.
        tokens: how many tokens were scored.
        greedy: each of them is the likeliest at its place.
    """

    log_probability: float
    tokens: int
    greedy: bool


def score(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    requests: Sequence[Request],
    *,
    batch_size: int = 32,
    show: Show | None = None,
) -> list[Score]:
    """The score of each request, in their order.

    Args:
        model: a causal language model or an encoder-decoder.
        requests: in any order. Give those that belong together in one call: what they share is computed once, and the
            choices of a prompt are scored from the same token on.
        batch_size: rows at once, at most: a matter of speed.
        show: called with the number of requests that are done, and of all, as the work goes on.

    Raises:
        ValueError: an empty choice, a request that is too long for the model, an empty prompt where neither model nor
            tokenizer has a token to begin with, or another kind of model.
    """
    check_batch_size(batch_size)
    check_predicts(model)
    if model.config.is_encoder_decoder:
        sources, rows = join_apart(model, tokenizer, requests)
        check_length(model, [max(len(source), len(row.ids) - 1) for source, row in zip(sources, rows, strict=True)])
        sums = decoder_sums(model, sources, rows, batch_size, pad_of(tokenizer), show)
    else:
        rows = join(model, tokenizer, requests)
        check_length(model, [len(row.ids) - 1 for row in rows])
        sums = row_sums(model, rows, batch_size, show=show)
    return [Score(total, row.scored, greedy) for row, (total, greedy) in zip(rows, sums, strict=True)]


def positions_needed(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, requests: Sequence[Request]
) -> list[int]:
    """How many positions of the model each request takes, which `position_limit` must allow. Raises as `score` does,
    but not for what is too long."""
    if model.config.is_encoder_decoder:
        sources, rows = join_apart(model, tokenizer, requests)
        return [max(len(source), len(row.ids) - 1) for source, row in zip(sources, rows, strict=True)]
    return [len(row.ids) - 1 for row in join(model, tokenizer, requests)]


def row_sums(
    model: PreTrainedModel, rows: Sequence[Row], batch_size: int, *, share: bool = True, show: Show | None = None
) -> Sums:
    """Of each row of a causal language model Σ log P of its scored tokens, and whether they are the likeliest.

    Args:
        share: compute once what rows have in common at their beginning, where the model permits.
    """
    done = _counter(show, len(rows))
    with _evaluating(model):
        if share and can_pack(model):
            return packed_sums(model, rows, batch_size, done)
        return whole_sums(model, rows, batch_size, done)


@torch.no_grad()
def whole_sums(model: PreTrainedModel, rows: Sequence[Row], batch_size: int, done: Callable[[int], Any]) -> Sums:
    """As `packed_sums`, for any causal language model: rows of like length together, padded on the right, where no
    token sees the pads, each by itself where a longer one beside it would tell. Rows that read the same tokens are
    computed once."""
    results: Sums = [(0.0, False)] * len(rows)
    alike: dict[tuple[int, ...], list[int]] = {}
    for number, row in enumerate(rows):
        alike.setdefault(row.ids[:-1], []).append(number)
    inputs = dict(enumerate(list(ids) for ids in alike))
    members = list(alike.values())
    taken = inspect.signature(model.forward).parameters
    keeps = "logits_to_keep" in taken
    settings = {"use_cache": False} if "use_cache" in taken else {}
    for batch in _batches_by_length(inputs, 1 if depends_on_longest(model) else batch_size):
        numbers = [number for i in batch for number in members[i]]
        line = {number: place for place, i in enumerate(batch) for number in members[i]}
        first = min(rows[number].start for number in numbers) - 1
        padded = _pad([inputs[i] for i in batch], 0, model.device)
        length = padded["input_ids"].shape[1]
        kept = {"logits_to_keep": torch.arange(first, length, device=model.device)} if keeps else {}
        logits = model(**padded, **kept, **settings).logits  # (B, T or T - first, V)
        logits = logits if keeps else logits[:, first:]
        width = logits.shape[1]
        where = [
            [line[number] * width + t - first for t in range(rows[number].start - 1, len(rows[number].ids) - 1)]
            for number in numbers
        ]
        targets = [rows[number].ids[rows[number].start :] for number in numbers]
        for number, result in zip(numbers, chosen_sums(logits.flatten(0, 1), where, targets), strict=True):
            results[number] = result
        done(len(numbers))
    return results


@torch.no_grad()
def decoder_sums(
    model: PreTrainedModel,
    sources: Sequence[tuple[int, ...]],
    rows: Sequence[Row],
    batch_size: int,
    pad: int,
    show: Show | None = None,
) -> Sums:
    """As `row_sums`, of an encoder-decoder whose decoder reads `rows`. Each source is encoded once.

    Args:
        sources: what the encoder reads for each row.
        pad: an id to fill rows with; it is masked.
    """
    results: Sums = [(0.0, False)] * len(rows)
    done = _counter(show, len(rows))
    askers: dict[tuple[int, ...], list[int]] = {}
    for number, source in enumerate(sources):
        askers.setdefault(source, []).append(number)
    distinct = list(askers)
    with _evaluating(model):
        for batch in _batches_by_length({i: list(source) for i, source in enumerate(distinct)}, batch_size):
            read = _pad([list(distinct[i]) for i in batch], pad, model.device)
            encoded = model.get_encoder()(**read).last_hidden_state  # (B, S, D)
            pairs = sorted(
                ((line, number) for line, i in enumerate(batch) for number in askers[distinct[i]]),
                key=lambda pair: -len(rows[pair[1]].ids),
            )
            for some in _chunks(pairs, batch_size):
                lines = torch.tensor([line for line, _ in some], device=model.device)
                those = [rows[number] for _, number in some]
                written = _pad([list(row.ids[:-1]) for row in those], pad, model.device)
                logits = model(
                    encoder_outputs=BaseModelOutput(last_hidden_state=encoded[lines]),
                    attention_mask=read["attention_mask"][lines],
                    decoder_input_ids=written["input_ids"],
                    use_cache=False,
                ).logits  # (B, T, V)
                length = logits.shape[1]
                where = [
                    range(i * length + row.start - 1, i * length + len(row.ids) - 1) for i, row in enumerate(those)
                ]
                found = chosen_sums(logits.flatten(0, 1), where, [row.ids[row.start :] for row in those])
                for (_, number), result in zip(some, found, strict=True):
                    results[number] = result
                done(len(some))
    return results


def chosen_sums(logits: torch.Tensor, where: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Sums:
    """`sums_at`, with the softmax at those of the logits (B · T, V) alone that predict something."""
    wanted = sorted({place for places in where for place in places})
    index = dict(zip(wanted, range(len(wanted)), strict=True))
    chosen = logits[torch.tensor(wanted, device=logits.device)]  # (N, V)
    return sums_at(chosen, [[index[place] for place in places] for places in where], targets)


def check_batch_size(batch_size: int) -> None:
    """Raises ValueError where it is no whole number above 0."""
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
        raise ValueError(f"batch_size={batch_size!r} must be a whole number, at least 1.")


def check_predicts(model: PreTrainedModel) -> None:
    """Raises ValueError where the model does not predict what comes next: masked language models have a head of the
    same shape, and even a model for generation can be one that looks ahead (as BERT without `is_decoder`)."""
    if model in _PREDICT:
        return
    takes = "that takes a causal language model or an encoder-decoder"
    if not model.can_generate():
        raise ValueError(f"A {type(model).__name__} does not predict what comes next: {takes}.")
    if not model.config.is_encoder_decoder:
        rows = torch.tensor([[2, 2, 1], [2, 2, 2]], device=model.device)  # they differ at their ends alone
        with _evaluating(model), torch.no_grad():
            one, other = model(input_ids=rows, attention_mask=torch.ones_like(rows)).logits[:, :2].float()  # (2, V)
        # Not the same to the last bit, since experts work on as many tokens as they are given.
        if (one - other).abs().max() > 0.02 * one.abs().max():
            raise ValueError(f"This {type(model).__name__} sees the tokens that it is to predict: {takes}.")
    _PREDICT.add(model)


def check_length(model: PreTrainedModel, lengths: Sequence[int]) -> None:
    """Raises ValueError where one is more than the positions of the model."""
    limit = position_limit(model)
    if limit is None:
        return
    for number, length in enumerate(lengths):
        if length > limit:
            raise ValueError(
                f"Request {number} takes {length} positions, and the model has {limit}: shorten its prompt, or give "
                "fewer shots."
            )


def pad_of(tokenizer: PreTrainedTokenizerBase) -> int:
    """An id that rows are filled with."""
    return 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def _chunks(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _counter(show: Show | None, total: int) -> Callable[[int], None]:
    """Adds up what is done, and tells it."""
    count = 0

    def done(number: int) -> None:
        nonlocal count
        count += number
        if show is not None:
            show(count, total)

    return done
