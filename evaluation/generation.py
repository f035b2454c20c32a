"""Load a run and let it write: translations in batches, continuations of a prompt.

Axes: B batch, T target length, S source length.
"""

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import regard.modeling  # noqa: F401  (registers the models with the Auto classes, so that no remote code runs)
from regard.evaluation.stopping import StopStrings, TextStream, new_text

logger = logging.getLogger(__name__)

AUTO_CLASSES = (
    "AutoModelForSeq2SeqLM",
    "AutoModelForCausalLM",
    "AutoModelForMaskedLM",
    "AutoModelForSequenceClassification",
    "AutoModelForTokenClassification",
    "AutoModelForQuestionAnswering",
    "AutoModel",
)
WANTS_CODE = "trust_remote_code"  # in the library's refusals to run a repository's code unasked
OWN_CODE = "it needs code of its own, and no code of a repository is run here"
WITHOUT_TOKENS = ("regard-in-context-regression",)  # types of models that read no text
WORD_BOUNDARY = "\u2581"  # of SentencePiece
GROWING_POSITIONS = ("sinusoidal", "rotary", "none")  # of this package's models: computed for any length
DEFAULT_NEW_TOKENS = 128  # of a translation, where nothing says how long it may be
SOURCE_TOKENS_PER_ROW = 128  # a batch holds up to batch_size rows, and fewer when they are longer than this


def load_run(
    path: str | Path, device: str | torch.device | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model, ready to be used, and the tokenizer of a run's folder or of a repository on the Hub.

    Args:
        path: a folder that `save_pretrained` wrote, or a Hub id.
        device: where the model goes; a GPU if there is one, by default.

    Raises:
        ValueError: no such folder or repository, no model in it, one that reads no text, or an architecture that no
            auto class knows.
    """
    config = load_config(path)
    if config.model_type in WITHOUT_TOKENS:
        raise ValueError(f"'{path}' reads points and the values of a function there, no text, and has no tokenizer.")
    try:
        auto_class = getattr(transformers, auto_class_name(config))
        model = auto_class.from_pretrained(path, config=config, use_safetensors=True, trust_remote_code=False)
    except OSError as error:
        raise ValueError(f"'{path}' cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    tokenizer = load_tokenizer(path)
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return model.eval().to(device), tokenizer


def load_config(path: str | Path) -> transformers.PretrainedConfig:
    """The configuration alone; the arguments and what is raised are those of `load_run`."""
    _check_place(path)
    try:
        return AutoConfig.from_pretrained(path, trust_remote_code=False)
    except OSError as error:
        raise ValueError(f"'{path}' cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    except ValueError as error:  # a type of model that is not known
        why = OWN_CODE if WANTS_CODE in str(error) else str(error).strip().partition(". ")[0].rstrip(".")
        raise ValueError(f"'{path}' cannot be loaded: {why}.") from error


def load_tokenizer(path: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer alone; the arguments and what is raised are those of `load_run`."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    # Of a file that is missing a ValueError about optional packages, or a TypeError about a path that is None.
    except (OSError, ValueError, TypeError) as error:
        why = OWN_CODE if WANTS_CODE in str(error) else "its tokenizer.json is missing or broken"
        raise ValueError(f"'{path}' has no tokenizer that can be loaded: {why}.") from error
    if _writes_nothing(tokenizer):
        raise ValueError(
            f"'{path}' has no tokenizer that can be loaded: its tokenizer.json, or what it is made of, is missing; "
            "save the tokenizer there too, with its save_pretrained."
        )
    return tokenizer


def _writes_nothing(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether it has no tokens but those that stand for no text, as one that the library makes where there are no
    files; a word boundary is among these."""
    special = (token.content for token in tokenizer.added_tokens_decoder.values() if token.special)
    made = {*tokenizer.all_special_tokens, *special, WORD_BOUNDARY}
    return len(tokenizer) <= len(made) and made.issuperset(tokenizer.get_vocab())


def auto_class_name(config: transformers.PretrainedConfig) -> str:
    """The auto class that loads the architecture a configuration names, such as "AutoModelForSeq2SeqLM".

    Raises:
        ValueError: if there is none.
    """
    architecture = (getattr(config, "architectures", None) or ["of no name"])[0]
    for name in AUTO_CLASSES:
        known = getattr(transformers, name)._model_mapping.get(type(config), ())
        if architecture in [one.__name__ for one in (known if isinstance(known, tuple) else (known,))]:
            return name
    raise ValueError(f"The model is a {architecture}, which none of {', '.join(AUTO_CLASSES)} loads.")


def _check_place(path: str | Path) -> None:
    folder = Path(path)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ValueError(f"The folder '{path}' holds no model: it has no config.json.")
        return
    looks_local = folder.is_absolute() or str(path).startswith((".", "~")) or len(folder.parts) != 2
    if folder.exists() or looks_local or folder.parent.is_dir():
        raise ValueError(f"There is no folder '{path}': give a run's folder, or a Hub id such as 'user/model'.")


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    num_beams: int | None = None,
    n_best: int = 1,
    batch_size: int = 32,
    max_new_tokens: int | None = None,
    length_penalty: float | None = None,
    no_repeat_ngram_size: int | None = None,
    max_source_length: int | None = None,
) -> list[str] | list[list[str]]:
    """What a sequence-to-sequence model makes of each text, in their order, by beam search.

    The batch size is a matter of speed: texts of like length are put together, and padding is masked. A blank text
    stays blank. A text longer than the tokenizer's or the model's limit is cut, and how many were cut is logged.
    A setting that is None is that of the model's generation config: a run translates as it was evaluated.

    Args:
        texts: the sources.
        num_beams: width of the search; 1 is greedy. Where it is None, at least `n_best`.
        n_best: how many translations of each text, at most `num_beams`.
        batch_size: texts at once; fewer when they are long.
        max_new_tokens: the longest translation in tokens; a learned position table can end it sooner.
        length_penalty: hypotheses compete by log-probability / length ** length_penalty.
        no_repeat_ngram_size: no run of so many tokens is written twice in a text; 0 allows all.
        max_source_length: texts are cut at so many tokens, in the place of the tokenizer's limit.

    Returns:
        One string a text; with `n_best` above 1 a list a text, best first: distinct, and fewer where the search finds
        no more.

    Raises:
        ValueError: a setting that cannot work.
    """
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise ValueError("texts must be a list of texts, each a string.")
    if not model.config.is_encoder_decoder:
        raise ValueError(f"A {type(model).__name__} does not translate: that takes an encoder-decoder model.")
    own = model.generation_config
    num_beams = max(own.num_beams or 1, n_best) if num_beams is None else num_beams
    max_new_tokens = longest_translation(model) if max_new_tokens is None else max_new_tokens
    if length_penalty is None:
        length_penalty = 1.0 if own.length_penalty is None else own.length_penalty
    if not math.isfinite(length_penalty):
        raise ValueError(f"length_penalty={length_penalty} must be a finite number.")
    if no_repeat_ngram_size is None:
        no_repeat_ngram_size = own.no_repeat_ngram_size or 0
    _check_at_least_one(num_beams=num_beams, n_best=n_best, batch_size=batch_size, max_new_tokens=max_new_tokens)
    if max_source_length is not None:
        _check_at_least_one(max_source_length=max_source_length)
    if not isinstance(no_repeat_ngram_size, int) or no_repeat_ngram_size < 0:
        raise ValueError(f"no_repeat_ngram_size={no_repeat_ngram_size!r} must be a whole number, at least 0.")
    if n_best > num_beams:
        raise ValueError(f"n_best={n_best} translations need a search at least as wide, but num_beams={num_beams}.")

    results: list[list[str]] = [[""] for _ in texts]
    rows = {i: ids for i, ids in enumerate(encode_sources(model, tokenizer, texts, max_source_length)) if ids}
    settings: dict[str, Any] = {"num_beams": num_beams, "do_sample": False, "pad_token_id": _pad_id(model, tokenizer)}
    settings["no_repeat_ngram_size"] = no_repeat_ngram_size
    settings["max_new_tokens"] = min(max_new_tokens, position_limit(model) or max_new_tokens)
    if num_beams > 1:
        # All beams are asked for: two of them can be the same text cut into different tokens.
        settings |= {"length_penalty": length_penalty, "num_return_sequences": num_beams if n_best > 1 else 1}
    for batch in _batches_by_length(rows, batch_size):
        inputs = _pad([rows[i] for i in batch], settings["pad_token_id"], model.device)
        with _evaluating(model):
            output = model.generate(**inputs, **settings)  # (B * returned, T)
        written = tokenizer.batch_decode(output, skip_special_tokens=True)
        returned = len(written) // len(batch)
        for place, i in enumerate(batch):
            several = written[place * returned : (place + 1) * returned]
            results[i] = list(dict.fromkeys(several))[:n_best]
    return results if n_best > 1 else [several[0] for several in results]


def longest_translation(model: PreTrainedModel) -> int:
    """How many tokens a translation may have where nothing else is said: the run's own number, as far as the model has
    positions."""
    wanted = model.generation_config.max_new_tokens or DEFAULT_NEW_TOKENS
    return min(wanted, position_limit(model) or wanted)


def encode_sources(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_length: int | None = None
) -> list[list[int] | None]:
    """The tokens of each text, None for a blank one, cut at `max_length` or else the tokenizer's limit, and at the
    model's."""
    limit = min(limit for limit in (max_length or tokenizer.model_max_length, position_limit(model)) if limit)
    encoded: list[list[int] | None] = []
    cut = 0
    for text in texts:
        if not text.strip():
            encoded.append(None)
            continue
        ids = tokenizer(text, verbose=False)["input_ids"]
        if len(ids) > limit:
            cut += 1
            ids = tokenizer(text, truncation=True, max_length=limit)["input_ids"]
        encoded.append(ids)
    if cut:
        logger.warning("%d of %d texts are longer than %d tokens and were cut there.", cut, len(texts), limit)
    return encoded


def _batches_by_length(rows: dict[int, list[int]], batch_size: int) -> Iterator[list[int]]:
    """Numbers of rows of like length, the longest first: what does not fit into memory shows at once."""
    batch: list[int] = []
    for i in sorted(rows, key=lambda i: -len(rows[i])):
        if batch and (len(batch) + 1) * len(rows[batch[0]]) > batch_size * SOURCE_TOKENS_PER_ROW:
            yield batch
            batch = []
        batch.append(i)
        if len(batch) == batch_size:
            yield batch
            batch = []
    if batch:
        yield batch


def _pad(rows: list[list[int]], pad_id: int, device: torch.device, side: str = "right") -> dict[str, torch.Tensor]:
    """`input_ids` and `attention_mask`, int64 of shape (B, S)."""
    longest = max(map(len, rows))
    gaps = [longest - len(row) for row in rows]
    ids, mask = [], []
    for row, gap in zip(rows, gaps, strict=True):
        pads, zeros, ones = [pad_id] * gap, [0] * gap, [1] * len(row)
        ids.append(row + pads if side == "right" else pads + row)
        mask.append(ones + zeros if side == "right" else zeros + ones)
    return {
        "input_ids": torch.tensor(ids, device=device),
        "attention_mask": torch.tensor(mask, device=device),
    }


def generate_text(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompt: str | Sequence[str],
    *,
    max_new_tokens: int = 100,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    num_beams: int = 1,
    seed: int | None = None,
    stop: str | Sequence[str] = (),
    with_prompt: bool = False,
    stream: Callable[[str], Any] | None = None,
) -> str | list[str]:
    """How a language model continues a prompt, or each of several prompts as one batch.

    Args:
        prompt: how the text begins; it may be empty.
        max_new_tokens: the longest continuation; where a learned position table ends sooner, so does the text, and a
            warning is logged.
        temperature: below 1 likely tokens become likelier; 0 takes the likeliest each time.
        top_k: sample from the k likeliest tokens, 0 for all.
        top_p: sample from the likeliest tokens that hold this share of the probability.
        num_beams: above 1 a beam search, which does not sample.
        seed: the same seed gives the same text and leaves the global random state as it was.
        stop: the text ends before any of these, wherever the tokens are cut; each row by itself.
        with_prompt: put the prompt in front of the result.
        stream: called with each piece of the continuation as it is written, in whole characters; the pieces together
            are the continuation. `lambda piece: print(piece, end="", flush=True)` shows it.

    Raises:
        ValueError: a setting that cannot work, a prompt longer than the model's position table, or an empty prompt for
            a model without a token to begin with.
    """
    prompts = [prompt] if isinstance(prompt, str) else list(prompt)
    stops = [stop] if isinstance(stop, str) else list(stop)
    if model.config.is_encoder_decoder or not model.can_generate():
        raise ValueError(f"A {type(model).__name__} does not continue a prompt: that takes a causal language model.")
    _check_at_least_one(max_new_tokens=max_new_tokens, num_beams=num_beams)
    if temperature < 0 or top_k < 0 or not 0 < top_p <= 1:
        raise ValueError(
            f"temperature={temperature}, top_k={top_k}, top_p={top_p}: the first two must be 0 or more, the third "
            "above 0 and at most 1."
        )
    if "" in stops:
        raise ValueError("stop holds an empty string, which would end every text before it begins.")
    if stream is not None and (len(prompts) != 1 or num_beams > 1):
        raise ValueError("stream shows the text of one prompt without a beam search.")
    if not prompts:
        return []

    rows = [_encode_prompt(model, tokenizer, text) for text in prompts]
    settings: dict[str, Any] = {
        "max_new_tokens": _room(model, rows, max_new_tokens),
        "num_beams": num_beams,
        "do_sample": temperature > 0 and num_beams == 1,
        "pad_token_id": _pad_id(model, tokenizer),
    }
    if settings["do_sample"]:
        settings |= {"temperature": float(temperature), "top_k": top_k, "top_p": float(top_p)}
    inputs = _pad(rows, settings["pad_token_id"], model.device, side="left")
    start = inputs["input_ids"].shape[1]
    if stops:
        settings["stopping_criteria"] = [StopStrings(tokenizer, stops, rows)]
    if stream is not None:
        settings["streamer"] = TextStream(tokenizer, stops, rows[0], stream)
    with _evaluating(model), _seeded(seed, model.device):
        output = model.generate(**inputs, **settings)  # (B, S + T)
    texts = [new_text(tokenizer, row, ids[start:].tolist(), stops) for row, ids in zip(rows, output, strict=True)]
    if with_prompt:
        texts = [before + after for before, after in zip(prompts, texts, strict=True)]
    return texts[0] if isinstance(prompt, str) else texts


def _encode_prompt(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompt: str) -> list[int]:
    """The prompt's tokens, with what the tokenizer puts in front of a text but not with what it puts at the end."""
    ids = list(tokenizer(prompt, verbose=False)["input_ids"])
    bare = tokenizer(prompt, add_special_tokens=False, verbose=False)["input_ids"]
    if len(ids) > len(bare) and ids[-1] == tokenizer.eos_token_id:
        ids.pop()
    if ids:
        return ids
    starts = (model.config.bos_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id)
    start = next((token for token in starts if token is not None), None)
    if start is None:
        raise ValueError("The prompt is empty, and neither model nor tokenizer names a token to begin with.")
    return [start]


def _room(model: PreTrainedModel, rows: list[list[int]], wanted: int) -> int:
    """How many tokens can follow the longest prompt. The last one written is not read, so it needs no position."""
    limit = position_limit(model)
    if limit is None:
        return wanted
    longest = max(map(len, rows))
    if longest > limit:
        raise ValueError(f"The prompt has {longest} tokens, but the model has {limit} positions: shorten it.")
    room = limit - longest + 1
    if room < wanted:
        logger.warning("The text ends after %d new tokens, not %d: the model has %d positions.", room, wanted, limit)
    return min(room, wanted)


def position_limit(model: PreTrainedModel) -> int | None:
    """The longest sequence that the model's position table allows; None where positions are computed as needed."""
    if getattr(model.config, "position_embedding_type", None) in GROWING_POSITIONS:
        return None
    limit = getattr(model.config, "max_position_embeddings", None)
    if limit is None:
        return None
    tables = (module for name, module in model.named_modules() if name.endswith("position_embeddings"))
    pads = [table.padding_idx for table in tables if getattr(table, "padding_idx", None) is not None]
    return limit - pads[0] - 1 if pads else limit  # RoBERTa's texts begin after the position of pads


def _pad_id(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Pads are masked, so any id will do; finished rows are filled with it too, so it is one that decoding skips."""
    for token in (tokenizer.pad_token_id, model.config.pad_token_id, tokenizer.eos_token_id):
        if token is not None:
            return token
    return 0


def _check_at_least_one(**settings: int) -> None:
    for name, value in settings.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}={value!r} must be a whole number, at least 1.")


@contextlib.contextmanager
def _evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Without dropout, also in the midst of training."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


@contextlib.contextmanager
def _seeded(seed: int | None, device: torch.device) -> Iterator[None]:
    """A random state of its own, so that a seeded text does not change what is drawn afterwards."""
    if seed is None:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
