"""A word in different sentences: how far its vector moves from context-free to contextual, layer by layer.

Axes: U uses of the word, L layers (0 is what the first of them reads), T tokens, D width.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as library_logging

from regard.evaluation.attention import attention_kinds
from regard.evaluation.generation import load_config, load_tokenizer, position_limit
from regard.evaluation.tokens import readable_tokens

logger = logging.getLogger(__name__)

MOST_USES = 8
TOKEN = "token"  # the first stage: the embedding of the word's pieces alone, whatever is around them
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
IN_A_WORD = f"(?:(?![{UNSPACED}])\\w)"  # a letter beside which a word goes on: not of scripts without spaces


@dataclass(frozen=True)
class Use:
    """One occurrence of the word.

    Attributes:
        sentence, occurrence: numbers from 1 on, the latter in its sentence.
        start, end: its characters.
        pieces: its tokens, readable.
    """

    sentence: int
    occurrence: int
    start: int
    end: int
    pieces: list[str]


@dataclass(frozen=True)
class Light:
    """A word's vectors in its uses.

    Attributes:
        word, sentences: as given.
        uses: U of them, in the order of the sentences.
        tokens: float64 (U, E), the mean of the embeddings of a use's pieces.
        vectors: float64 (U, 1 + L, D), the mean of the vectors of a use's pieces at each layer.
        others: for each stage, the mean cosine of two different other tokens of the sentences: how alike any two are
            there. Empty where there are no two.
        causal: whether a token sees those before it alone.
        unknown: whether the tokenizer does not know a piece.
    """

    word: str
    sentences: list[str]
    uses: list[Use]
    tokens: np.ndarray
    vectors: np.ndarray
    others: list[float]
    causal: bool
    unknown: bool

    @property
    def stages(self) -> list[str]:
        """What `between` and `others` are measured at: the token embedding, then the layers from 0 on."""
        return [TOKEN, *map(str, range(self.vectors.shape[1]))]

    def names(self) -> list[str]:
        """What each use is called: the number of its sentence, with a letter where that has several."""
        numbers = [use.sentence for use in self.uses]
        return [f"{use.sentence}{_letter(use, numbers)}" for use in self.uses]

    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of uses, as places in `uses`."""
        return list(combinations(range(len(self.uses)), 2))

    def between(self) -> np.ndarray:
        """The cosine of each pair of uses at each stage, float64 (pairs, 2 + L)."""
        one, two = (list(side) for side in zip(*self.pairs(), strict=True))
        first = cosines(self.tokens[one], self.tokens[two])[:, None]
        return np.concatenate([first, cosines(self.vectors[one], self.vectors[two])], axis=1)

    def from_layer_0(self) -> np.ndarray:
        """The cosine of each use's vector at each layer with its own at layer 0, float64 (U, 1 + L)."""
        return cosines(self.vectors, self.vectors[:, :1])


def cosines(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Of vectors along the last axis; those of length 0 have a cosine of 0. Equal vectors have exactly 1."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(two, axis=-1)
    products = (one * two).sum(-1) / np.where(lengths > 0, lengths, 1)
    same = (one == two).all(-1) & (lengths > 0)
    return np.where(same, 1.0, np.clip(products, -1, 1))


def load_layers(path: str | Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The body of a run or of a model on the Hub, without its head, and its tokenizer. Its weights are read from
    safetensors alone, and no code of a repository is run.

    Raises:
        ValueError: there is no such model, it has no layers, or its weights are not all there.
    """
    config = load_config(path)
    if type(config) not in AutoModel._model_mapping:
        raise ValueError(f"'{path}' is of the type {config.model_type}, which has no layers to look into.")
    try:
        with _quiet():
            model, found = AutoModel.from_pretrained(
                path, config=config, trust_remote_code=False, use_safetensors=True, output_loading_info=True
            )
    except OSError as error:
        raise ValueError(f"'{path}' cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    if missing := sorted(name for name in found["missing_keys"] if "pooler" not in name):  # which is no layer
        raise ValueError(f"'{path}' lacks weights of the model's layers, such as {missing[0]}.")
    return model.eval(), load_tokenizer(path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without a report on the head's weights, which are left out on purpose, and without a bar."""
    verbosity, bar = library_logging.get_verbosity(), library_logging.is_progress_bar_enabled()
    library_logging.set_verbosity_error()
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        library_logging.set_verbosity(verbosity)
        if bar:
            library_logging.enable_progress_bar()


@torch.no_grad()
def light(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    word: str,
    sentences: Sequence[str],
    occurrence: int | None = None,
) -> Light:
    """Looks at a word in sentences, each read by itself.

    Args:
        model: an encoder, a decoder, or an encoder-decoder, of which the encoder reads; with or without a head.
        tokenizer: a fast one, which knows where in the text its tokens are.
        word: as it is written, capitals too: a whole word, or several.
        sentences: two or more, or one in which the word occurs twice.
        occurrence: only the nth in each sentence, from 1 on; by default all.

    Raises:
        ValueError: a sentence without the word or with too many tokens, too few or too many uses, or a model without
            layers.
    """
    word, sentences = word.strip(), list(sentences)
    if not word:
        raise ValueError("The word is empty.")
    if twice := next((text for i, text in enumerate(sentences) if text in sentences[:i]), None):
        raise ValueError(f"The sentence {twice!r} is given twice.")
    if not tokenizer.is_fast:
        raise ValueError(f"A {type(tokenizer).__name__} does not tell where its tokens are in a text.")
    places = [_places(word, text, number, occurrence) for number, text in enumerate(sentences, 1)]
    if (number := sum(map(len, places))) < 2:
        raise ValueError(f"'{word}' is not used twice, and two uses are compared: give another sentence.")
    if number > MOST_USES:
        raise ValueError(
            f"'{word}' is used {number} times, and at most {MOST_USES} are compared: choose occurrence=1."
        )
    reader = model.get_encoder() if model.config.is_encoder_decoder else model.base_model
    limit, unknown = position_limit(model), False
    uses, tokens, vectors, rest = [], [], [], []
    for number, (text, found) in enumerate(zip(sentences, places, strict=True), 1):
        encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
        ids = encoded["input_ids"]
        if limit is not None and len(ids) > limit:
            raise ValueError(f"Sentence {number} has {len(ids)} tokens, and the model reads {limit}: shorten it.")
        stages = _stages(model, reader, ids)
        pieces_of = [_pieces(encoded["offset_mapping"], start, end) for start, end, _ in found]
        readable = readable_tokens(tokenizer, ids)
        for (start, end, nth), pieces in zip(found, pieces_of, strict=True):
            if not pieces:
                raise ValueError(f"The tokenizer makes nothing of '{word}' in {text!r}.")
            uses.append(Use(number, nth, start, end, [readable[piece] for piece in pieces]))
            means = [stage[pieces].mean(0) for stage in stages]
            tokens.append(means[0])
            vectors.append(np.stack(means[1:]))
            unknown = unknown or any(ids[piece] == tokenizer.unk_token_id for piece in pieces)
        own = {piece for pieces in pieces_of for piece in pieces}
        others = [i for i, special in enumerate(encoded["special_tokens_mask"]) if not special and i not in own]
        rest.append(([ids[i] for i in others], [stage[others] for stage in stages]))
    causal = "encoder" not in attention_kinds(model)
    return Light(word, sentences, uses, np.stack(tokens), np.stack(vectors), _likeness(rest), causal, unknown)


def _places(word: str, text: str, number: int, occurrence: int | None) -> list[tuple[int, int, int]]:
    """Start, end and number of the word's occurrences in a text."""
    found = list(re.finditer(f"(?<!{IN_A_WORD}){re.escape(word)}(?!{IN_A_WORD})", text))
    if not found:
        near = re.search(re.escape(word), text, re.IGNORECASE)
        hint = f": there is '{near[0]}', and it is looked for as a whole word and as it is written" if near else ""
        raise ValueError(f"There is no '{word}' in sentence {number}, {text!r}{hint}.")
    places = [(match.start(), match.end(), nth) for nth, match in enumerate(found, 1)]
    if occurrence is None:
        return places
    if not 1 <= occurrence <= len(places):
        raise ValueError(f"occurrence={occurrence}: '{word}' is {len(places)} times in sentence {number}, {text!r}.")
    return [places[occurrence - 1]]


def _pieces(offsets: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """The tokens that hold a character of a stretch of text."""
    return [i for i, (first, last) in enumerate(offsets) if first < end and last > start and last > first]


def _stages(model: PreTrainedModel, reader: Any, ids: list[int]) -> list[np.ndarray]:
    """A text's vectors, float64 (T, D) each: the token embeddings, then the layers from 0 on."""
    row = torch.tensor([ids], device=model.device)
    was_training = model.training
    model.eval()
    outputs = reader(input_ids=row, attention_mask=torch.ones_like(row), output_hidden_states=True)
    model.train(was_training)
    if not getattr(outputs, "hidden_states", None):
        raise ValueError(f"A {type(model).__name__} has no layers to look into.")
    stages = [reader.get_input_embeddings()(row), *outputs.hidden_states]
    return [stage[0].double().cpu().numpy() for stage in stages]


def _likeness(rest: Sequence[tuple[list[int], list[np.ndarray]]]) -> list[float]:
    """At each stage the mean cosine of two tokens that are not the same one; empty where there are no two."""
    ids = np.array([i for row, _ in rest for i in row])
    different = ids[:, None] != ids
    if not different.any():
        return []
    means = []
    for stage in zip(*(stages for _, stages in rest), strict=True):
        vectors = np.concatenate(stage)
        units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        means.append(float((units @ units.T)[different].mean()))
    return means


def _letter(use: Use, sentences: list[int]) -> str:
    return chr(ord("a") + use.occurrence - 1) if sentences.count(use.sentence) > 1 else ""
