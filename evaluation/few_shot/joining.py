"""Prompt and choice as tokens: what is read, and from where on it is scored.

A tokenizer writes a text as a whole, and the text of a prompt with a choice need not begin with the tokens of the
prompt alone: "The ans" and "wer" are written " answer", and a space at the end of a prompt belongs to the next word.
So prompt and choice are written together, and scored from the first token on that holds a character of the choice. A
choice that merges with the prompt's end, or changes how it is written, is then scored with that end; so are the other
choices of this prompt, or they would be compared under different conditions:

    "c: " + "a"     read: "c", ":"     scored: " a"
    "c: " + "b"     read: "c", ":"     scored: " ", "b"     (alone: read "c", ":", " " and scored "b")

So what a choice is scored from depends on the others that are asked after its prompt, if one of them merges, and on
nothing else. Without a merge, as where a prompt does not end in white space and the choice begins with it, each is
log P(choice | prompt) by itself. (lm-eval scores the white space at the end of a prompt with every choice, so that
there its log-probabilities are of more than the choice.)

What the tokenizer's template puts in front of a text is read and never scored, and what it puts at the end is left
out: a prompt does not end before its choice, and a choice is how the text goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

Ids = list[int]
AT_ONCE = 256  # texts that are written as tokens together
SEEN = 16  # texts in which a template is looked for


@dataclass(frozen=True)
class Request:
    """How likely is `choice` after `prompt`? Both are taken letter for letter; the prompt may be empty."""

    prompt: str
    choice: str


@dataclass(frozen=True)
class Row:
    """Σ log P(ids[t] | ids[:t]) over t ≥ `start` is asked for, and `start` is at least 1.

    Args:
        ids: token ids; the last one is predicted and never read.
        start: the place of the first that is scored.
    """

    ids: tuple[int, ...]
    start: int

    @property
    def scored(self) -> int:
        return len(self.ids) - self.start


def join(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, requests: Sequence[Request]) -> list[Row]:
    """The row of each request, for a causal language model.

    Where nothing stands before the first scored token, as with an empty prompt and a template without a first token,
    the tokenizer's or the model's begin token does, or else the end token.

    Raises:
        ValueError: an empty choice, or no token to begin with where one is needed.
    """
    _check(requests)
    wholes, cuts = _cut(tokenizer, requests)
    starts: dict[str, tuple[int, Ids]] = {}  # of each prompt, and the tokens of one of its choices
    for request, whole, cut in zip(requests, wholes, cuts, strict=True):
        start, other = starts.get(request.prompt, (cut, whole))
        start = min(start, cut)
        starts[request.prompt] = min(start, common_length(other[:start], whole[:start])), whole
    first = template(tokenizer, [each.prompt + each.choice for each in requests[:SEEN]], wholes[:SEEN])[0]
    rows = []
    for request, whole in zip(requests, wholes, strict=True):
        start = starts[request.prompt][0]
        if start < len(first) or whole[: len(first)] != first:  # or the prompt itself begins with these tokens
            whole, start = [*first, *whole], start + len(first)
        if start == 0:
            whole, start = [first_token(model, tokenizer), *whole], 1
        rows.append(Row(tuple(whole), start))
    return rows


def join_apart(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, requests: Sequence[Request]
) -> tuple[list[tuple[int, ...]], list[Row]]:
    """The source of each request, with its special tokens, and the row of its decoder, for an encoder-decoder.

    The decoder begins a text of its own, so that white space between prompt and choice belongs to neither.

    Raises:
        ValueError: an empty choice, or no token to begin with where one is needed.
    """
    _check(requests)
    prompts = list(dict.fromkeys(request.prompt for request in requests))
    stripped = [prompt.rstrip() for prompt in prompts]
    encoded = tokenizer(stripped, verbose=False, return_attention_mask=False)["input_ids"] if prompts else []
    # A source without any token has nothing that could be attended to.
    sources = {p: tuple(ids) or (first_token(model, tokenizer),) for p, ids in zip(prompts, encoded, strict=True)}
    choices = [request.choice.lstrip() for request in requests]
    targets = bare_ids(tokenizer, choices, side="text_target")
    for request, ids in zip(requests, targets, strict=True):
        if not ids:
            raise ValueError(f"The choice {request.choice!r} has no token in this model's tokenizer.")
    first = [decoder_start(model), *template(tokenizer, choices, targets, side="text_target")[0]]
    rows = [Row((*first, *ids), len(first)) for ids in targets]
    return [sources[request.prompt] for request in requests], rows


def _check(requests: Sequence[Request]) -> None:
    for number, request in enumerate(requests):
        if not isinstance(request.prompt, str) or not isinstance(request.choice, str):
            raise ValueError(f"Request {number}: prompt and choice must be texts, not {request!r}.")
        if not request.choice:
            raise ValueError(f"Request {number}: the choice is empty, so there is nothing to score.")


def _cut(tokenizer: PreTrainedTokenizerBase, requests: Sequence[Request]) -> tuple[list[Ids], list[int]]:
    """The ids of each prompt with its choice, without special tokens, and the place of the first of the choice.

    Raises:
        ValueError: a choice of which the tokenizer leaves nothing.
    """
    wholes: list[Ids] = []
    cuts: list[int] = []
    for start in range(0, len(requests), AT_ONCE):  # places in the text take much more memory than tokens
        some = requests[start : start + AT_ONCE]
        ids, spans = _written(tokenizer, [request.prompt + request.choice for request in some])
        own = dict.fromkeys(request.prompt for request in some)
        if spans is None:
            own = dict(zip(own, bare_ids(tokenizer, list(own)), strict=True))
        for number, (request, whole) in enumerate(zip(some, ids, strict=True)):
            if spans is None:
                # The choice begins where the tokens are not those of the prompt; one unknown word may hold the end of
                # the prompt and the whole choice.
                cut = min(common_length(own[request.prompt], whole), max(0, len(whole) - 1))
            else:
                cut = len(whole)
                while cut and spans[number][cut - 1][1] > len(request.prompt):  # it ends within the choice
                    cut -= 1
            if cut == len(whole):
                raise ValueError(
                    f"The choice {request.choice!r} has no token in this model's tokenizer, so there is nothing to "
                    "score."
                )
            wholes.append(whole)
            cuts.append(cut)
    return wholes, cuts


def _written(
    tokenizer: PreTrainedTokenizerBase, texts: list[str]
) -> tuple[list[Ids], list[list[tuple[int, int]]] | None]:
    """The ids of each text without special tokens, and which characters each stands for, if the tokenizer tells."""
    if not tokenizer.is_fast:
        return bare_ids(tokenizer, texts), None
    encoded = tokenizer(
        texts, add_special_tokens=False, verbose=False, return_attention_mask=False, return_offsets_mapping=True
    )
    return [list(ids) for ids in encoded["input_ids"]], encoded["offset_mapping"]


def bare_ids(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], side: str = "text") -> list[Ids]:
    """The ids of each text without special tokens; `side` is "text", or "text_target" for what a decoder reads."""
    if not texts:
        return []
    settings: dict[str, Any] = {"add_special_tokens": False, "verbose": False, "return_attention_mask": False}
    return [list(ids) for ids in tokenizer(**{side: list(texts)}, **settings)["input_ids"]]


def template(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], bare: Sequence[Ids], side: str = "text"
) -> tuple[Ids, Ids]:
    """What the tokenizer puts in front of a text and after it, seen at the first text that leaves no doubt: of a text
    that is itself a begin token, either of two may be the tokenizer's.

    Args:
        texts, bare: texts, and their ids without special tokens.
        side: "text", or "text_target".
    """
    found: tuple[Ids, Ids] = [], []
    for text, ids in zip(texts, bare, strict=True):
        if not ids:
            continue
        whole = list(tokenizer(**{side: text}, verbose=False)["input_ids"])
        starts = [start for start in range(len(whole) - len(ids) + 1) if whole[start : start + len(ids)] == ids]
        if starts:
            found = whole[: starts[0]], whole[starts[0] + len(ids) :]
        if len(starts) == 1:
            break
    return found


def common_length(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids two sequences share at their beginning."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:  # compared at once, which is the usual case
        return length
    return next(i for i in range(length) if one[i] != other[i])


def first_token(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """A token for a text to begin with.

    Raises:
        ValueError: neither model nor tokenizer names one.
    """
    known = tokenizer.bos_token_id, getattr(model.config, "bos_token_id", None), tokenizer.eos_token_id
    size = getattr(model.config, "vocab_size", None)  # GPT-2's configuration names 50256 whatever its vocabulary is
    found = next((token for token in known if isinstance(token, int) and (size is None or token < size)), None)
    if found is None:
        raise ValueError(
            "A text without a prompt needs a token to begin with, and neither model nor tokenizer names a begin or an "
            "end token: give a prompt."
        )
    return found


def decoder_start(model: PreTrainedModel) -> int:
    """The token that the decoder of an encoder-decoder begins with.

    Raises:
        ValueError: the model names none.
    """
    for settings in (getattr(model, "generation_config", None), model.config):
        for name in ("decoder_start_token_id", "bos_token_id"):
            token = getattr(settings, name, None)
            if isinstance(token, int):
                return token
    raise ValueError(f"decoder_start_token_id is not set in the {type(model).__name__}'s configuration.")
