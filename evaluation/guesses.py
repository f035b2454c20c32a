"""What a model makes of one text: the next token, the words behind masks, a label, labels of words, an answer,
neighbours.

Axes: T length, V vocabulary.
"""

from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.generation import _encode_prompt, _evaluating, _room, encode_sources
from regard.evaluation.question_answering import answer
from regard.evaluation.tokens import readable_tokens
from regard.evaluation.word_neighbours import nearest_neighbours
from regard.modeling.word_vectors import WordVectorsMixin

Guesses = list[tuple[str, float]]

SHOWN = 10
HEADS = {
    "ForMaskedLM": "fill",
    "ForSequenceClassification": "label",
    "ForTokenClassification": "tag",
    "ForQuestionAnswering": "answer",
}


def kind_of(model: PreTrainedModel) -> str:
    """What a model does with a text: "translate", "continue", "fill", "label", "tag", "answer" or "neighbours".

    Raises:
        ValueError: none of these, as a base model without a head.
    """
    if isinstance(model, WordVectorsMixin):
        return "neighbours"
    if model.can_generate():
        return "translate" if model.config.is_encoder_decoder else "continue"
    name = type(model).__name__
    for ending, kind in HEADS.items():
        if name.endswith(ending):
            return kind
    raise ValueError(f"A {name} neither writes nor labels a text, so there is nothing to show.")


def next_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, number: int = SHOWN) -> Guesses:
    """The likeliest tokens after a text, which may be empty, and their probabilities, likeliest first.

    Raises:
        ValueError: another kind of model, or a text longer than its position table.
    """
    _check(model, "continue", "continues a text")
    row = _encode_prompt(model, tokenizer, text)
    _room(model, [row], 1)
    return _likeliest(tokenizer, _logits(model, row)[-1], number, row)


def fill_masks(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, number: int = SHOWN
) -> list[Guesses]:
    """The likeliest tokens for each mask in a text, and their probabilities.

    Raises:
        ValueError: another kind of model, or a text without a mask.
    """
    _check(model, "fill", "fills masks")
    row = _row(model, tokenizer, text)
    places = [i for i, token in enumerate(row) if token == tokenizer.mask_token_id]
    if not places:
        raise ValueError(f"Write {tokenizer.mask_token} in place of each word that is to be guessed.")
    logits = _logits(model, row)  # (T, V)
    return [_likeliest(tokenizer, logits[place], number, row[:place]) for place in places]


def label_text(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str) -> Guesses:
    """Each label of a classifier and its probability, likeliest first; where labels do not exclude one another, each
    has a probability of its own.

    Raises:
        ValueError: another kind of model, or a text without tokens.
    """
    _check(model, "label", "labels a text")
    logits = _logits(model, _row(model, tokenizer, text))  # (labels,)
    if model.config.problem_type == "regression":
        raise ValueError("The model gives a number and no label.")
    several = model.config.problem_type == "multi_label_classification"
    chances = logits.sigmoid() if several else logits.softmax(-1)
    names = [model.config.id2label[i] for i in range(len(chances))]
    return sorted(zip(names, chances.tolist(), strict=True), key=lambda guess: -guess[1])


def tag_words(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str) -> list[tuple[str, str, float]]:
    """The words of a text, each with the label of its first token, as a tagger is trained, and that label's
    probability.

    Raises:
        ValueError: another kind of model, or a text without tokens.
    """
    _check(model, "tag", "labels words")
    row = _row(model, tokenizer, text)
    chances, best = _logits(model, row).softmax(-1).max(-1)  # (T,)
    encoding = tokenizer(text, truncation=True, max_length=len(row), return_offsets_mapping=True)
    words: list[tuple[int, int, int]] = []  # where each begins and ends, and its first token
    before = None
    for i, (word, (start, end)) in enumerate(zip(encoding.word_ids(), encoding["offset_mapping"], strict=True)):
        start += len(text[start:end]) - len(text[start:end].lstrip())
        if word is None or start >= end:
            continue
        begun = words and start == words[-1][1] and text[start - 1].isalnum() and text[start].isalnum()
        if words and (word == before or begun):  # characters that are tokens make words too
            words[-1] = (words[-1][0], end, words[-1][2])
        else:
            words.append((start, end, i))
        before = word
    labels = model.config.id2label
    return [(text[start:end], labels[best[i].item()], chances[i].item()) for start, end, i in words]


def guesses(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str, context: str = ""
) -> dict[str, Any]:
    """The table that answers a text, for any model but a translator.

    Args:
        context: for a model that answers questions, the text that the answer to `text` is in.

    Returns:
        `headers`, and `rows` of as many cells.

    Raises:
        ValueError: nothing can be said of that text.
    """
    kind = kind_of(model)
    if kind == "neighbours":
        [found] = nearest_neighbours(model, [text], SHOWN)
        rows = [(one["word"], one["similarity"]) for one in found["neighbours"]]
        return {"headers": ["word", "similarity"], "rows": rows}
    if kind == "fill":
        masks = fill_masks(model, tokenizer, text)
        rows = [(i, *guess) for i, filled in enumerate(masks, 1) for guess in filled]
        return {"headers": ["mask", "token", "probability"], "rows": rows}
    if kind == "tag":
        return {"headers": ["word", "label", "probability"], "rows": tag_words(model, tokenizer, text)}
    if kind == "answer":
        said = answer(model, tokenizer, text, context)
        return {"headers": ["answer", "begins at", "better than none by"], "rows": [_answer_row(said)]}
    if kind == "label":
        return {"headers": ["label", "probability"], "rows": label_text(model, tokenizer, text)}
    return {"headers": ["next token", "probability"], "rows": next_tokens(model, tokenizer, text)}


def _answer_row(said: dict[str, Any]) -> tuple[str, str, float | str]:
    if said["start"] is None:
        return "(none)", "", "" if said["margin"] is None else said["margin"]
    return said["answer"], f"character {said['start']}", said["margin"]


def _check(model: PreTrainedModel, kind: str, does: str) -> None:
    if kind_of(model) != kind:
        raise ValueError(f"A {type(model).__name__} is no model that {does}.")


def _row(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    [row] = encode_sources(model, tokenizer, [text])
    if not row:
        raise ValueError("The text is empty.")
    return row


def _logits(model: PreTrainedModel, row: list[int]) -> torch.Tensor:
    """What the model says of one text, on the CPU: (T, V), or (labels,) of a classifier."""
    with _evaluating(model), torch.no_grad():
        ids = torch.tensor([row], device=model.device)
        return model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0].float().cpu()


def _likeliest(tokenizer: PreTrainedTokenizerBase, logits: torch.Tensor, number: int, before: list[int]) -> Guesses:
    """Tokens are told as they stand after those before them: "-ing" goes on with a word."""
    chances, ids = logits.softmax(-1).topk(min(number, len(logits)))
    tokens = [readable_tokens(tokenizer, [*before[-1:], i])[-1] for i in ids.tolist()]
    return list(zip(tokens, chances.tolist(), strict=True))
