"""Where a generated text ends, and what of it can be shown already.

Everything is decided on decoded text, never on tokens: a stop string may begin in one token and end in the next, and a
character may take several. The work on a token does not grow with the text.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase, StoppingCriteria
from transformers.generation.streamers import BaseStreamer

INCOMPLETE = "\ufffd"  # what a decoder writes for bytes that are not a whole character yet
CONTEXT = 8  # more tokens than a stop string has bytes: the first are decoded otherwise elsewhere, some to nothing


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
    return text[: _first_stop(text, stops)]


class StopStrings(StoppingCriteria):
    """Ends each row as soon as its new text holds a stop string, however the string is cut into tokens.

    A stop string that is there since the last token lies within a window of the last tokens, and only that is decoded
    at each step; the whole text is where the window holds one, which may be the prompt's.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stops: Sequence[str], prompts: Sequence[Sequence[int]]):
        self.tokenizer = tokenizer
        self.stops = stops
        self.prompts = prompts
        self.start = max(map(len, prompts))
        self.window = max(len(stop.encode()) for stop in stops) + CONTEXT
        self.done = [False] * len(prompts)

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> torch.BoolTensor:
        beams = len(input_ids) // len(self.prompts)
        if beams > 1:  # whose rows change places
            self.done = [False] * len(input_ids)
        for i, tail in enumerate(input_ids[:, -self.window :].tolist()):
            if not self.done[i] and self._stops_in(self.tokenizer.decode(tail, skip_special_tokens=True)):
                written = input_ids[i, self.start :].tolist()
                self.done[i] = self._stops_in(new_text(self.tokenizer, self.prompts[i // beams], written))
        return torch.tensor(self.done, device=input_ids.device)

    def _stops_in(self, text: str) -> bool:
        return any(stop in text for stop in self.stops)


class TextStream(BaseStreamer):
    """Hands on the new text piece by piece: no part of a character, and nothing that may be part of a stop string.

    The tokens since the last whole character are decoded after the piece before them, not after the whole text.
    """

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
        self.before = list(prompt)  # the tokens of the piece before
        self.waiting: list[int] = []  # tokens that are not in the text yet
        self.text = ""
        self.shown = 0

    def put(self, value: torch.Tensor) -> None:
        if self.written is None:
            self.written = []
            return
        new = value.flatten().tolist()
        self.written += new
        self.waiting += new
        piece = new_text(self.tokenizer, self.before, self.waiting)
        if not piece or piece.endswith(INCOMPLETE):
            return
        self.text += piece
        self.before, self.waiting = self.waiting, []
        # A stop string cannot begin before what was shown: its beginning would have been held back.
        whole = self.text[: _first_stop(self.text, self.stops, self.shown)]
        if whole == self.text:
            held = max((k for stop in self.stops for k in range(1, len(stop)) if whole.endswith(stop[:k])), default=0)
            whole = whole[: len(whole) - held]
        self._hand_on(whole)

    def end(self) -> None:
        self._hand_on(new_text(self.tokenizer, self.prompt, self.written or [], self.stops))

    def _hand_on(self, text: str) -> None:
        if len(text) > self.shown:
            self.show(text[self.shown :])
            self.shown = len(text)


def _first_stop(text: str, stops: Sequence[str], start: int = 0) -> int:
    """Where the first of the stop strings begins; the length of the text if it holds none."""
    return min((at for stop in stops if (at := text.find(stop, start)) >= 0), default=len(text))
