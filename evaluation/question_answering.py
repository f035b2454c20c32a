"""Extractive question answering: the part of a context that answers a question, or nothing.

A context that is longer than a model reads at once is cut into windows that overlap, each behind the question. In each
the likeliest span of context tokens is sought, and "no answer" is the span of the first token alone, as BERT has it
(Devlin et al., 2019, section 4.3). Of all windows the best span counts, and the lowest score of "no answer". Answers
are cut out of the context as it came, by the offsets of their tokens.

Axes: B windows, T positions.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.generation import position_limit

logger = logging.getLogger(__name__)

SETTINGS = "question_answering"  # the field of a model's config that says how it was evaluated
MAX_LENGTH, DOC_STRIDE, MAX_ANSWER_LENGTH = 384, 128, 30  # where a model's config says nothing

Window = dict[str, Any]


# --- windows ---------------------------------------------------------------------------------------------------------


def cut_windows(
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[str],
    contexts: Sequence[str],
    max_length: int,
    doc_stride: int,
) -> list[list[Window]]:
    """The windows of each context, with the question in front as the tokenizer's template has pairs.

    Args:
        tokenizer: with a `tokenizers` backend.
        questions, contexts: as many of each.
        max_length: the most tokens of a window. A question that would leave too little room is cut.
        doc_stride: tokens of the context that two windows share.

    Returns:
        For each context at least one window: `input_ids`, perhaps `token_type_ids`; `first`, the position of the first
        of its context tokens, which come without a gap; `starts` and `ends`, where in the context the text of each of
        these begins and ends, white space left out (a token of white space alone begins where it ends); `number`, that
        of the first of them among all of the context; `cut`, whether the question was cut.

    Raises:
        ValueError: the windows are too short, or nothing stands before the context.
    """
    names = [name for name in ("input_ids", "token_type_ids") if name in tokenizer.model_input_names]
    encoding = tokenizer(
        list(questions), list(contexts), return_offsets_mapping=True, verbose=False, padding=False, truncation=False
    )
    windows = []
    for row, context in enumerate(contexts):
        columns = {name: encoding[name][row] for name in names}
        offsets = [_bare(context, *offset) for offset in encoding["offset_mapping"][row]]
        windows.append(_windows(columns, encoding.sequence_ids(row), offsets, max_length, doc_stride))
    return windows


def _bare(context: str, start: int, end: int) -> tuple[int, int]:
    """An offset without the white space that some tokenizers make part of a word."""
    text = context[start:end]
    return end - len(text.lstrip()), start + len(text.rstrip()) if text.strip() else end


def _windows(
    columns: dict[str, list[int]],
    sides: list[int | None],
    offsets: list[tuple[int, int]],
    max_length: int,
    doc_stride: int,
) -> list[Window]:
    question = [i for i, side in enumerate(sides) if side == 0]
    context = [i for i, side in enumerate(sides) if side == 1]
    begin, end = (context[0], context[-1] + 1) if context else (len(sides), len(sides))
    special = len(sides) - len(question) - (end - begin)
    spare = max_length - doc_stride - special
    if spare < 2:
        raise ValueError(
            f"data.max_length: {max_length} leaves no room for a question beside {special} special tokens and the "
            f"{doc_stride} of data.doc_stride: make the one larger or the other smaller."
        )
    dropped = set(question[spare // 2 :])  # so that a window goes on by half of what is spare at least
    head = [i for i in range(begin) if i not in dropped]
    if not head:
        raise ValueError(
            "The question is empty and the tokenizer puts no token before it, so that none stands for no answer."
        )
    room = max_length - len(head) - (len(sides) - end)
    windows = []
    for start in range(0, max(1, end - begin - doc_stride), room - doc_stride):
        inside = range(begin + start, min(begin + start + room, end))
        places = [*head, *inside, *range(end, len(sides))]
        window: Window = {name: [column[i] for i in places] for name, column in columns.items()}
        window |= {"first": len(head), "number": start, "cut": bool(dropped)}
        windows.append(window | {"starts": [offsets[i][0] for i in inside], "ends": [offsets[i][1] for i in inside]})
    return windows


def answer_positions(windows: Sequence[Window], span: tuple[int, int] | None) -> list[tuple[int, int] | None]:
    """For each window of a context the positions of the first and the last token of an answer.

    Args:
        windows: as `cut_windows` returns them for one context.
        span: where the answer begins and ends in the context; None where there is none.

    Returns:
        The first token of all, (0, 0), for a window that does not hold the whole answer; None for each window where
        the answer has no token, so that nothing can be learnt from it.
    """
    if span is None:
        return [(0, 0)] * len(windows)
    start, end = span
    tokens = {
        window["number"] + i
        for window in windows
        for i, (a, b) in enumerate(zip(window["starts"], window["ends"], strict=True))
        if a < b and a < end and start < b
    }
    if not tokens:
        return [None] * len(windows)
    positions: list[tuple[int, int] | None] = []
    for window in windows:
        first, last = min(tokens) - window["number"], max(tokens) - window["number"]
        holds = first >= 0 and last < len(window["starts"])
        positions.append((window["first"] + first, window["first"] + last) if holds else (0, 0))
    return positions


# --- spans -----------------------------------------------------------------------------------------------------------


def best_spans(
    start_logits: np.ndarray, end_logits: np.ndarray, allowed: np.ndarray, max_answer_length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The likeliest span of each window that begins and ends at allowed tokens and is not too long.

    Args:
        start_logits, end_logits: (B, T).
        allowed: bool of shape (B, T).
        max_answer_length: the most tokens of a span.

    Returns:
        Score, first and last position of each window's span, (B,) each; the score is minus infinity where no span is
        allowed. Of equal ones it is the shortest, and of these the first.
    """
    start = np.where(allowed, start_logits.astype(np.float64), -np.inf)
    end = np.where(allowed, end_logits.astype(np.float64), -np.inf)
    score, first, last = (np.full(len(start), fill, kind) for fill, kind in ((-np.inf, float), (0, int), (0, int)))
    for longer in range(min(max_answer_length, start.shape[1])):
        sums = start[:, : start.shape[1] - longer] + end[:, longer:]  # (B, T - longer)
        place = sums.argmax(1)
        found = np.take_along_axis(sums, place[:, None], 1)[:, 0]
        better = found > score
        score, first, last = (
            np.where(better, new, old) for new, old in ((found, score), (place, first), (place + longer, last))
        )
    return score, first, last


@dataclass
class Spans:
    """The best span of each item, over all its windows.

    Attributes:
        score: float64 (items,), the sum of the logits of its first and last token; minus infinity without any.
        null: float64 (items,), the lowest such sum of the first token of a window, which stands for no answer.
        start, end: int64 (items,), where the span begins and ends in the context.
        loss: mean over the windows that have positions, in nats; 0 without any.
    """

    score: np.ndarray
    null: np.ndarray
    start: np.ndarray
    end: np.ndarray
    loss: float

    def texts(self, contexts: Sequence[str], threshold: float | None) -> list[str]:
        """The answers, cut out of the contexts: none, an empty text, where "no answer" has a score higher than the
        span's by more than `threshold`; None takes the span in any case."""
        answered = np.isfinite(self.score)
        if threshold is not None:
            answered &= self.null - self.score <= threshold
        spans = zip(contexts, self.start, self.end, answered, strict=True)
        return [context[start:end] if taken else "" for context, start, end, taken in spans]


@torch.no_grad()
def read_windows(
    model: PreTrainedModel,
    windows: Sequence[Window] | Any,
    items: Sequence[int] | np.ndarray,
    *,
    pad_token_id: int = 0,
    batch_size: int = 32,
    max_answer_length: int = MAX_ANSWER_LENGTH,
) -> Spans:
    """What a model finds in windows. Pads are masked, so that neither they nor the batch size change an answer.

    Args:
        model: for question answering, in any mode; it is evaluated without dropout.
        windows: as of `cut_windows`, in a list or a data set; with `start_positions` and `end_positions` the loss is
            computed too.
        items: the number, from 0 on without gaps, of the item that each window belongs to.
        pad_token_id: what fills short rows up.
        batch_size: windows at once.
        max_answer_length: the most tokens of an answer.
    """
    items = np.asarray(items)
    number = int(items.max()) + 1 if len(items) else 0
    result = Spans(*(np.full(number, fill) for fill in (-np.inf, np.inf)), *np.zeros((2, number), np.int64), 0.0)
    order = np.argsort([-len(window["input_ids"]) for window in windows], kind="stable")
    total, targets, was_training = 0.0, 0, model.training
    model.eval()
    try:
        for chosen in (order[i : i + batch_size] for i in range(0, len(order), batch_size)):
            batch = [windows[int(i)] for i in chosen]
            inputs, allowed = _tensors(batch, pad_token_id, model.device)
            outputs = model(**inputs)
            if "start_positions" in inputs:
                counted = int((inputs["start_positions"] >= 0).sum())
                total, targets = total + outputs.loss.item() * counted, targets + counted
            start, end = (logits.float().cpu().numpy() for logits in (outputs.start_logits, outputs.end_logits))
            score, first, last = best_spans(start, end, allowed, max_answer_length)
            null = start[:, 0].astype(np.float64) + end[:, 0]
            for row, (item, window) in enumerate(zip(items[chosen], batch, strict=True)):
                result.null[item] = min(result.null[item], null[row])
                if score[row] > result.score[item]:
                    result.score[item] = score[row]
                    result.start[item] = window["starts"][first[row] - window["first"]]
                    result.end[item] = window["ends"][last[row] - window["first"]]
    finally:
        model.train(was_training)
    result.loss = total / targets if targets else 0.0
    return result


def _tensors(
    batch: list[Window], pad_token_id: int, device: torch.device
) -> tuple[dict[str, torch.Tensor], np.ndarray]:
    """What the model takes, (B, T) or (B,), and where an answer may begin and end, (B, T)."""
    width = max(len(window["input_ids"]) for window in batch)
    ids, mask, types = (np.full((len(batch), width), fill) for fill in (pad_token_id, 0, 0))
    allowed = np.zeros((len(batch), width), bool)
    for row, window in enumerate(batch):
        length, first = len(window["input_ids"]), window["first"]
        ids[row, :length], mask[row, :length] = window["input_ids"], 1
        types[row, :length] = window.get("token_type_ids", 0)
        allowed[row, first : first + len(window["starts"])] = np.less(window["starts"], window["ends"])
    inputs = {"input_ids": ids, "attention_mask": mask}
    if "token_type_ids" in batch[0]:
        inputs["token_type_ids"] = types
    for name in ("start_positions", "end_positions"):
        if name in batch[0]:
            inputs[name] = np.array([window[name] for window in batch])
    return {name: torch.from_numpy(value).to(device) for name, value in inputs.items()}, allowed


# --- answers ---------------------------------------------------------------------------------------------------------


def answer(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    question: str | Sequence[str],
    context: str | Sequence[str],
    *,
    batch_size: int = 32,
    max_length: int | None = None,
    doc_stride: int | None = None,
    max_answer_length: int | None = None,
    null_threshold: float | None = None,
) -> dict[str, Any] | list[dict[str, Any]]:
    """The part of the context that answers the question, or of each of several questions that of its context.

    A setting that is None is that of the run, which its config holds: it answers as it was evaluated.

    Args:
        question, context: a text each, or as many of the one as of the other.
        batch_size: windows at once: a matter of speed alone.
        max_length, doc_stride: see `cut_windows`.
        max_answer_length: the most tokens of an answer.
        null_threshold: the answer is empty where "no answer" has a score higher than the best span's by more. A model
            that learnt from answerable questions alone always answers, and so does any with `math.inf`.

    Returns:
        For each question `answer`, cut out of the context as it came and empty for none; `start` and `end` in the
        context, None for none; and `margin`, by how much its score is above that of no answer, None for a context
        without text.

    Raises:
        ValueError: another kind of model, no text, a blank question, or a setting that cannot work.
    """
    questions, contexts = ([one] if isinstance(one, str) else list(one) for one in (question, context))
    if isinstance(question, str) != isinstance(context, str) or len(questions) != len(contexts):
        raise ValueError("question and context must be a text each, or lists of equally many texts.")
    if not all(isinstance(text, str) for text in (*questions, *contexts)):
        raise ValueError("question and context must be texts.")
    if not all(text.strip() for text in questions):
        raise ValueError("A question is empty.")
    if not hasattr(model, "qa_outputs"):
        raise ValueError(f"A {type(model).__name__} does not answer questions from a context.")
    given = {
        "max_length": max_length,
        "doc_stride": doc_stride,
        "max_answer_length": max_answer_length,
        "null_threshold": null_threshold,
    }
    settings = answer_settings(model, tokenizer) | {name: value for name, value in given.items() if value is not None}
    for name, least in (("batch_size", 1), ("max_length", 1), ("doc_stride", 0), ("max_answer_length", 1)):
        value = batch_size if name == "batch_size" else settings[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name}={value!r} must be a whole number, at least {least}.")
    if not questions:
        return []
    cut = cut_windows(tokenizer, questions, contexts, settings["max_length"], settings["doc_stride"])
    if long := sum(windows[0]["cut"] for windows in cut):
        logger.warning(
            "%d of %d questions are too long for windows of %d tokens and were cut.",
            long,
            len(questions),
            settings["max_length"],
        )
    spans = read_windows(
        model,
        [window for windows in cut for window in windows],
        np.repeat(np.arange(len(cut)), [len(windows) for windows in cut]),
        pad_token_id=tokenizer.pad_token_id or 0,
        batch_size=batch_size,
        max_answer_length=settings["max_answer_length"],
    )
    found = []
    for i, text in enumerate(spans.texts(contexts, settings["null_threshold"])):
        place = {"start": int(spans.start[i]), "end": int(spans.end[i])} if text else {"start": None, "end": None}
        margin = float(spans.score[i] - spans.null[i])  # minus infinity where there is nothing to choose from
        found.append({"answer": text, **place, "margin": margin if math.isfinite(margin) else None})
    return found[0] if isinstance(question, str) else found


def answer_settings(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """How a model was evaluated; where its config does not say so, the usual settings as far as it can read."""
    limits = [limit for limit in (tokenizer.model_max_length, position_limit(model)) if limit]
    longest = min(MAX_LENGTH, *limits)
    usual = {
        "max_length": longest,
        "doc_stride": min(DOC_STRIDE, longest // 3),
        "max_answer_length": MAX_ANSWER_LENGTH,
    }
    return usual | {"null_threshold": None} | (getattr(model.config, SETTINGS, None) or {})


def choose_threshold(spans: Spans, scores: Sequence[float]) -> float:
    """The threshold of `Spans.texts` that gives the highest mean score, as the SQuAD 2.0 script chooses it; halfway
    between the items that it parts, and of equally good ones the lowest.

    Args:
        spans: the best spans of items, some without an answer.
        scores: what each item's span is worth if it is given as the answer (0 to 1). Giving none is worth 1 where that
            is right, which is told by a negative number here.
    """
    found = np.isfinite(spans.score)  # nothing is answered of the others in any case
    if not found.any():
        return 0.0
    margins, scores = (spans.null - spans.score)[found], np.asarray(scores)[found]
    order = np.argsort(margins, kind="stable")
    margins, gains = margins[order], np.where(scores < 0, -1.0, scores)[order]
    totals = np.concatenate([[0.0], np.cumsum(gains)])  # where the first so many items are answered
    edges = np.concatenate([[margins[0] - 1], (margins[:-1] + margins[1:]) / 2, [margins[-1] + 1]])
    parts = np.concatenate([[True], margins[:-1] < margins[1:], [True]])  # equal margins are not parted
    return float(edges[np.where(parts, totals, -np.inf).argmax()])
