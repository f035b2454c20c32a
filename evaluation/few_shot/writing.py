"""What a model writes after a prompt, greedily, up to a stop string.

Axes: B prompts, P tokens that all prompts begin with, T tokens of the longest prompt.
"""

import contextlib
import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import torch
from transformers import Cache, PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.few_shot.joining import common_length
from regard.evaluation.few_shot.prefixes import can_pack
from regard.evaluation.few_shot.scoring import check_batch_size, check_length
from regard.evaluation.generation import (
    _check_at_least_one,
    _encode_prompt,
    _evaluating,
    _pad,
    _pad_id,
    position_limit,
    translate,
)
from regard.evaluation.stopping import StopStrings, _first_stop, new_text
from regard.modeling.compatibility import CACHE_NAME, cache_of

Ids = list[int]
# A model's own settings may say otherwise: a penalty on repetition would fall on the answers that the shots show.
PLAIN = {
    "do_sample": False, "num_beams": 1, "repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "min_length": 0, "min_new_tokens": None,
    "forced_eos_token_id": None, "exponential_decay_length_penalty": None, "guidance_scale": None,
    "prompt_lookup_num_tokens": None, "stop_strings": None, "max_time": None,
}  # fmt: skip


def write(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[str],
    *,
    stop: Sequence[str] = (),
    max_new_tokens: int = 32,
    batch_size: int = 32,
    show: Callable[[int, int], Any] | None = None,
) -> list[str]:
    """The likeliest token again and again: the text that follows each prompt, without the prompt, in their order.

    A text ends before the first of the stop strings, however the tokens are cut, at the model's end token, or after
    `max_new_tokens`; where the model's positions end sooner, so does the text. What all prompts begin with is read
    once, where the model permits. An encoder-decoder reads the prompt with its encoder, without white space at its
    end, as `score` does. Other settings of the model's generation config, as a penalty on repetition, are left aside.

    Args:
        stop: strings of which none is empty.
        batch_size: prompts at once, at most: a matter of speed.
        show: called with the number of prompts that are done, and of all.

    Raises:
        ValueError: a prompt that is longer than the model's positions, which is refused and never cut, an empty stop
            string, or a number below 1.
    """
    check_batch_size(batch_size)
    _check_at_least_one(max_new_tokens=max_new_tokens)
    if isinstance(stop, str) or "" in stop:
        raise ValueError(f"stop={stop!r} must be a list of strings, none of them empty.")
    if model.config.is_encoder_decoder:
        prompts = [text.rstrip() for text in prompts]
        rows = [list(tokenizer(text, verbose=False)["input_ids"]) for text in prompts]
    else:
        rows = [_encode_prompt(model, tokenizer, text) for text in prompts]
    check_length(model, [len(row) for row in rows])
    texts = [""] * len(prompts)
    done = 0
    with _evaluating(model), _plainly(model), torch.no_grad():
        shared, cache = (0, None) if model.config.is_encoder_decoder else _beginning(model, rows)
        for room, batch in _batches(model, rows, max_new_tokens, batch_size):
            if model.config.is_encoder_decoder:
                # The tokenizer's own limit, where texts would be cut, is not the model's.
                settings = {"batch_size": batch_size, "max_source_length": max(len(rows[n]) for n in batch) or 1}
                some = [prompts[number] for number in batch]
                written = translate(model, tokenizer, some, max_new_tokens=room, **settings)
                written = [text[: _first_stop(text, stop)] for text in written]
            else:
                written = _continue(model, tokenizer, [rows[n] for n in batch], room, list(stop), shared, cache)
            for number, text in zip(batch, written, strict=True):
                texts[number] = text
            done += len(batch)
            if show is not None:
                show(done, len(prompts))
    return texts


@contextlib.contextmanager
def _plainly(model: PreTrainedModel) -> Iterator[None]:
    """Generation takes the likeliest token; begin and end tokens and what may never be written stay the model's."""
    own = model.generation_config
    model.generation_config = copy.deepcopy(own)
    for name, value in PLAIN.items():
        setattr(model.generation_config, name, value)
    try:
        yield
    finally:
        model.generation_config = own


def _batches(
    model: PreTrainedModel, rows: Sequence[Ids], max_new_tokens: int, batch_size: int
) -> list[tuple[int, Ids]]:
    """Numbers of rows of like length, with the room for new tokens that each of them has: a batch is written to one
    length, and no row may end sooner because of a longer one beside it."""
    limit = None if model.config.is_encoder_decoder else position_limit(model)
    groups: dict[int, Ids] = defaultdict(list)
    for number in sorted(range(len(rows)), key=lambda number: -len(rows[number])):
        room = max_new_tokens if limit is None else min(max_new_tokens, limit - len(rows[number]) + 1)
        groups[room].append(number)
    return [
        (room, numbers[begin : begin + batch_size])
        for room, numbers in groups.items()
        for begin in range(0, len(numbers), batch_size)
    ]


def _beginning(model: PreTrainedModel, rows: Sequence[Ids]) -> tuple[int, Cache | None]:
    """How many tokens all rows begin with, but for the last of each, and the cache of these."""
    if len(rows) < 2 or not can_pack(model):
        return 0, None
    first = reduce(lambda one, other: one[: common_length(one, other)], rows)
    shared = min(len(first), min(map(len, rows)) - 1)
    if not shared:
        return 0, None
    ids = torch.tensor([rows[0][:shared]], device=model.device)
    return shared, cache_of(model(input_ids=ids, use_cache=True))


def _continue(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Ids],
    room: int,
    stops: Sequence[str],
    shared: int,
    cache: Cache | None,
) -> list[str]:
    """What follows each row. Pads stand after the `shared` tokens, which are in the cache."""
    pad = _pad_id(model, tokenizer)
    inputs = _pad([row[shared:] for row in rows], pad, model.device, side="left")  # (B, T - P)
    settings: dict[str, Any] = {"max_new_tokens": room, "pad_token_id": pad}
    if cache is not None:
        before = torch.tensor([rows[0][:shared]], device=model.device).expand(len(rows), -1)  # (B, P)
        inputs["input_ids"] = torch.cat([before, inputs["input_ids"]], dim=1)  # (B, T)
        inputs["attention_mask"] = torch.cat([torch.ones_like(before), inputs["attention_mask"]], dim=1)
        settings[CACHE_NAME] = copy.deepcopy(cache)  # generation extends it
        settings[CACHE_NAME].batch_repeat_interleave(len(rows))
    if stops:
        settings["stopping_criteria"] = [StopStrings(tokenizer, stops, rows)]
    start = inputs["input_ids"].shape[1]
    output = model.generate(**inputs, **settings)  # (B, T + new)
    return [new_text(tokenizer, row, ids[start:].tolist(), stops) for row, ids in zip(rows, output, strict=True)]
