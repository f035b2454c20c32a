"""Where a generated text ends, and what of it can be shown already.

Everything is decided on decoded text, never on tokens: a stop string may begin in one token and end in the next, and a
character may take several.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase, StoppingCriteria
from transformers.generation.streamers import BaseStreamer

INCOMPLETE = "\ufffd"  # what a decoder writes for bytes that are not a whole character yet


def new_text(
    tokenizer: PreTrainedTokenizerBase, prompt: Sequence[int], written: Sequence[int], stops: Sequence[str] = ()
) -> str:
    """The text of the tokens `written` after `prompt`, up to the first of `stops`.

    Decoded together with the prompt: alone, many tokenizers would drop the space in front of the first word.
    """
    before = tokenizer.decode(list(prompt), skip_special_tokens=True)
    text = tokenizer.decode([*prompt, *written], skip_special_tokens=True)
    if not text.startswith(before):
        text, before = tokenizer.decode(list(written), skip_special_tokens=True), ""
    text = text[len(before) :]
    return text[: min((at for at in map(text.find, stops) if at >= 0), default=len(text))]


class StopStrings(StoppingCriteria):
    """Ends each row as soon as its new text holds a stop string, however the string is cut into tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stops: Sequence[str], prompts: Sequence[Sequence[int]]):
        self.tokenizer = tokenizer
        self.stops = stops
        self.prompts = prompts
        self.start = max(map(len, prompts))

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> torch.BoolTensor:
        beams = len(input_ids) // len(self.prompts)
        done = []
        for i, row in enumerate(input_ids[:, self.start :].tolist()):
            text = new_text(self.tokenizer, self.prompts[i // beams], row)
            done.append(any(stop in text for stop in self.stops))
        return torch.tensor(done, device=input_ids.device)


class TextStream(BaseStreamer):
    """Hands on the new text piece by piece: no part of a character, and nothing that may be part of a stop string."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        stops: Sequence[str],
        prompt: Sequence[int],
        show: Callable[[str], Any],
    ):
        self.tokenizer = tokenizer
        self.stops = stops
        self.prompt = prompt
        self.show = show
        self.written: list[int] | None = None  # None until the prompt has come by
        self.shown = 0

    def put(self, value: torch.Tensor) -> None:
        if self.written is None:
            self.written = []
            return
        self.written += value.flatten().tolist()
        text = new_text(self.tokenizer, self.prompt, self.written)
        whole = new_text(self.tokenizer, self.prompt, self.written, self.stops)
        if len(whole) == len(text):
            whole = whole.rstrip(INCOMPLETE)
            held = max((k for stop in self.stops for k in range(1, len(stop)) if whole.endswith(stop[:k])), default=0)
            whole = whole[: len(whole) - held]
        self._hand_on(whole)

    def end(self) -> None:
        self._hand_on(new_text(self.tokenizer, self.prompt, self.written or [], self.stops))

    def _hand_on(self, text: str) -> None:
        if len(text) > self.shown:
            self.show(text[self.shown :])
            self.shown = len(text)
