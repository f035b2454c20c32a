"""Where a model looks as it reads or writes one text: the weights of every layer and head.

Axes: L layers, H heads, T tokens that look, S tokens that are looked at.
"""

import operator
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.generation import encode_sources, longest_translation, position_limit
from regard.evaluation.tokens import readable_tokens
from regard.modeling import TransformerDecoderConfig, TransformerEncoderConfig

KINDS = ("cross", "encoder", "decoder")
ALL, MEAN = "all", "mean"
CAUSAL = {TransformerDecoderConfig.model_type: True, TransformerEncoderConfig.model_type: False}


@dataclass(frozen=True)
class AttentionMaps:
    """What one kind of attention did with one text, without padding.

    Attributes:
        which: "cross" (what is written looks at the source), "encoder" or "decoder" (tokens look at one another).
        weights: float32 of shape (L, H, T, S). Each row adds up to 1.
        queries: the T tokens that look, readable. Across: those written, each by the look in its row.
        keys: the S tokens that are looked at, readable.
    """

    which: str
    weights: torch.Tensor
    queries: list[str]
    keys: list[str]

    def choose(self, layer: int | str = ALL, head: int | str = ALL) -> tuple[torch.Tensor, list[str], list[str]]:
        """Some of the maps.

        Args:
            layer, head: a number from 0, negative from the last; "all"; or "mean", the mean of all.

        Returns:
            float32 of shape (layers chosen, heads chosen, T, S), and what the layers and the heads are called.

        Raises:
            ValueError: a layer or head that is not there.
        """
        weights, layers = _choose(self.weights, 0, "layer", layer)
        weights, heads = _choose(weights, 1, "head", head)
        return weights, layers, heads


def _choose(weights: torch.Tensor, dim: int, name: str, wanted: int | str) -> tuple[torch.Tensor, list[str]]:
    size = weights.shape[dim]
    if wanted == MEAN:
        return weights.mean(dim, keepdim=True), [f"mean of {size} {name}s" if size > 1 else f"{name} 0"]
    if wanted == ALL:
        return weights, [f"{name} {i}" for i in range(size)]
    try:
        number = int(wanted) if isinstance(wanted, str) else operator.index(wanted)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={wanted!r} must be a whole number, 'all' or 'mean'.") from None
    if not -size <= number < size:
        raise ValueError(f"{name}={number} is not there: the model has {size} of them, from 0 to {size - 1}.")
    return weights.narrow(dim, number % size, 1), [f"{name} {number % size}"]


def attention_kinds(model: PreTrainedModel) -> tuple[str, ...]:
    """The kinds of attention that a model has, the one to look at first in front."""
    if model.config.is_encoder_decoder:
        return KINDS
    return ("decoder",) if _is_causal(model) else ("encoder",)


def _is_causal(model: PreTrainedModel) -> bool:
    """Whether tokens look at those before them alone.

    This package's models are known by the model type: loaded from a repository's own code, their classes are others.
    Of other models, most attention layers say it themselves, for the kernels, unless the configuration lifts the mask;
    where none says it, those that write are causal.
    """
    if model.config.model_type in CAUSAL:
        return CAUSAL[model.config.model_type]
    if not getattr(model.config, "is_causal", True):
        return False
    told = [module.is_causal for module in model.modules() if isinstance(getattr(module, "is_causal", None), bool)]
    return any(told) if told else model.can_generate()


@torch.no_grad()
def attention_maps(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None = None,
    which: str | None = None,
) -> AttentionMaps:
    """The attention weights of a text, computed by the eager kernel: the fused ones never hold them.

    Args:
        source: the text that is read; what is longer than the tokenizer's or the model's limit is cut, as `translate`
            cuts it.
        target: the text that an encoder-decoder writes; by default what `translate` writes with `num_beams=1`.
        which: "cross", "encoder" or "decoder"; by default the first that the model has. In an encoder-decoder's
            "decoder", the tokens are those that are read back: the start token, then what was written but its last.

    Raises:
        ValueError: an attention that the model does not have, a text without tokens, or a target longer than the
            model's position table.
    """
    kinds = attention_kinds(model)
    which = kinds[0] if which is None else which
    if which not in KINDS:
        raise ValueError(f"which={which!r} is no kind of attention: there are {', '.join(KINDS)}.")
    if which not in kinds:
        own = f"no attention but its {kinds[0]} self-attention"
        raise ValueError(f"A {type(model).__name__} has no {which} attention: it has {own}.")
    writes = model.config.is_encoder_decoder and which != "encoder"
    if target is not None and not writes:
        raise ValueError("A target text goes with the cross or decoder attention of an encoder-decoder model alone.")
    source_ids = _tensor(model, "source", source, encode_sources(model, tokenizer, [source])[0])  # (1, S)
    if not writes:
        target_ids = None
    elif target is None:
        target_ids = _written(model, source_ids)  # by the model's own kernel, as `translate` writes
    else:
        target_ids = _target(model, tokenizer, target)

    training, implementation = model.training, model.config._attn_implementation
    model.eval()
    model.set_attn_implementation("eager")
    try:
        if not writes:
            reader = model.get_encoder() if model.config.is_encoder_decoder else model
            maps = reader(input_ids=source_ids, output_attentions=True).attentions
            queries = keys = source_ids
        else:
            read_back = _shifted(model, target_ids)  # (1, T)
            outputs = model(input_ids=source_ids, decoder_input_ids=read_back, output_attentions=True, use_cache=False)
            across = which == "cross"
            maps = outputs.cross_attentions if across else outputs.decoder_attentions
            queries, keys = (target_ids, source_ids) if across else (read_back, read_back)
    finally:
        model.set_attn_implementation(implementation)
        model.train(training)
    weights = torch.stack(tuple(maps))[:, 0].float().cpu()  # (L, H, T, S)
    return AttentionMaps(which, weights, *(readable_tokens(tokenizer, ids[0].tolist()) for ids in (queries, keys)))


def _tensor(model: PreTrainedModel, name: str, text: str, ids: list[int] | None) -> torch.Tensor:
    """int64 of shape (1, tokens)."""
    if not ids:
        raise ValueError(f"The {name} text {text!r} has no tokens to look at.")
    return torch.tensor([ids], device=model.device)


def _target(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str) -> torch.Tensor:
    """The tokens of a given target, all of them, int64 of shape (1, T)."""
    ids = tokenizer(text_target=text, truncation=False, verbose=False)["input_ids"] if text.strip() else None
    limit = position_limit(model)
    if ids and limit is not None and len(ids) > limit:
        raise ValueError(f"The target text has {len(ids)} tokens, but the model has {limit} positions: shorten it.")
    return _tensor(model, "target", text, ids)


def _written(model: PreTrainedModel, source_ids: torch.Tensor) -> torch.Tensor:
    """What `translate` writes greedily, int64 of shape (1, T)."""
    if not model.can_generate():
        raise ValueError(f"A {type(model).__name__} does not write: give the target text.")
    training = model.training
    model.eval()
    settings = {"num_beams": 1, "do_sample": False, "max_new_tokens": longest_translation(model)}
    written = model.generate(source_ids, attention_mask=torch.ones_like(source_ids), **settings)
    model.train(training)
    return written[:, 1:]


def _shifted(model: PreTrainedModel, target_ids: torch.Tensor) -> torch.Tensor:
    """What the decoder reads to write the target: the start token, then all but the last, (1, T)."""
    start = getattr(model.generation_config, "decoder_start_token_id", None)
    start = model.config.decoder_start_token_id if start is None else start
    return torch.cat([torch.full_like(target_ids[:, :1], start), target_ids[:, :-1]], dim=1)
