"""Pretrained weights in: a checkpoint of the library's becomes a run's folder with one of our models.

Nothing is taken on trust: every tensor of the source is used or named in the report, every weight of the result is
filled or named, and what was written is loaded again and compared with the library's own model.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, GenerationConfig, PreTrainedConfig, PreTrainedModel
from transformers import logging as library_logging

import regard.modeling
from regard.train.callbacks import quiet_libraries
from regard.train.convert_card import conversion_card
from regard.train.convert_check import largest_difference
from regard.train.convert_configs import config_notes
from regard.train.convert_families import FAMILIES, NO_HEAD, OTHERS, Family, library_class, source_head
from regard.train.convert_sentences import copy_sentence_files
from regard.train.convert_source import (
    CARD,
    CONFIG,
    ConversionError,
    Source,
    open_source,
    read_weights,
    widest_dtype,
)
from regard.train.convert_tensors import sort_tensors
from regard.train.convert_tokenizer import copy_tokenizer
from regard.train.convert_weights import Weights
from regard.train.convert_whole import one_line
from regard.train.records import environment, write_json
from regard.train.sections import LABELLING

RECORD, GENERATION = "conversion.json", "generation_config.json"
FAITHFUL = 1e-4  # of the largest output: what a difference in the order of additions may come to in a deep model
# What acts only while sampling, and only in a beam search.
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff")
BEAMS = ("early_stopping", "length_penalty")


@dataclass
class Conversion:
    """What was converted, and what became of it.

    Attributes:
        source: the id on the Hub, or the folder's name.
        revision: the commit, of a repository on the Hub.
        licence: as the source's card states it, or None.
        architecture: the library's class.
        model: our class.
        out: the folder.
        dtype: of the weights.
        parameters: their number, tied ones once.
        used: number of the source's tensors that are in the result.
        left_out: each other tensor of the source, and why it is not.
        fresh: weights that the source does not have, drawn at random.
        tokenizer: its class, or None if the source has none.
        notes: what else is to be known, a sentence each.
        difference: the largest one between outputs of the library's model and of ours, as a share of the largest
            output where that is above 1; None if they were not compared.
    """

    source: str
    revision: str | None
    licence: str | None
    architecture: str
    model: str
    out: str
    dtype: str
    parameters: int
    used: int
    left_out: dict[str, str]
    fresh: list[str]
    tokenizer: str | None = None
    notes: list[str] = field(default_factory=list)
    difference: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        """What became of each tensor, and what else is to be known, a sentence each."""
        found = [f"{self.parameters:,} parameters in {self.dtype}; {self.used} tensors of the source are used."]
        reasons: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            reasons.setdefault(reason, []).append(name)
        found += [f"Left out: {_few(names)} ({reason})." for reason, names in reasons.items()]
        if self.fresh:
            found.append(f"Drawn at random, and to be trained: {_few(self.fresh)}.")
        found += self.notes
        if self.difference is not None:
            found.append(
                "Loaded again and compared with the library's own model on random tokens, in float32: outputs differ "
                f"by at most {self.difference:.1e} of the largest."
            )
        return found


def convert(
    source: str | Path, out: str | Path, *, revision: str | None = None, head: str | None = None, check: bool = True
) -> Conversion:
    """Converts a pretrained model of the library's into a folder that `from_pretrained` reads as one of ours.

    BERT, RoBERTa, XLM-RoBERTa and DistilBERT become encoders; GPT-2, Llama, Mistral and Qwen2 decoders; Marian and
    BART encoder-decoders. The folder holds weights, configuration, the models' code, tokenizer, generation
    configuration, what sentence-transformers needs where the source has it, a card, and a record of the conversion.

    Args:
        source: a folder with config.json and safetensors, or an id on the Hub.
        out: the new folder; an empty one may be there.
        revision: of an id on the Hub: the branch, tag or commit.
        head: the head of the result: "none", "masked-lm", "causal-lm", "seq2seq-lm", "sequence-classification",
            "token-classification" or "question-answering". By default that of the source.
        check: load the result and the source, and compare what they compute.

    Raises:
        ConversionError: something has no exact counterpart here, or the source is not whole. Nothing is written.
        ValueError: there is no such source, or `out` is not free.
        HubError: the Hub cannot be reached, or has no such repository.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"'{out}' is there already and not empty: name a new folder.")
    if out.resolve() == Path.cwd():
        raise ValueError(f"'{out}' is the folder in which this command runs, and would be replaced: name a new one.")
    found = open_source(source, revision)
    with _quiet():
        return _convert(found, out, head, check)


def _convert(source: Source, out: Path, head: str | None, check: bool) -> Conversion:
    family, config, architecture, own_head = _read_architecture(source, head)
    head = own_head if head is None else head
    reasons = [*_refusals(source), *family.refusals(config, head)]
    if reasons:
        raise ConversionError(f"'{source.name}' cannot be represented exactly: {'; '.join(reasons)}.")

    ours = _our_config(family, config, own_head, head)
    weights = read_weights(source.folder)
    dtype = widest_dtype(weights)
    tensors = sort_tensors(weights, family, config, own_head, head)
    del weights
    notes = [*tensors.notes, *config_notes(config)]
    ours.tie_word_embeddings = tensors.tied
    if tensors.output_bias:
        ours.output_bias = True
    model, fresh = _build(family.heads[head], ours, dtype, tensors.weights, head != own_head)
    result = Conversion(
        source.name,
        source.revision,
        _licence(source),
        architecture,
        type(model).__name__,
        str(out),
        str(dtype).removeprefix("torch."),
        model.num_parameters(),
        tensors.used,
        tensors.left_out,
        fresh,
        notes=notes,
    )
    with _placed(out.resolve()) as folder:
        if model.can_generate():
            model.generation_config = _generation_config(source, result.notes)
        model.save_pretrained(folder)
        result.tokenizer = copy_tokenizer(source, folder, ours.vocab_size, result.notes)
        result.notes += copy_sentence_files(source.folder, folder)
        if check:
            del model
            result.difference = largest_difference(source, folder, config, head, own_head)
            if not result.difference <= FAITHFUL:
                raise ConversionError(
                    f"'{source.name}' was converted, but computes something else than the library's {architecture}: "
                    f"outputs differ by {result.difference:.1e}. It is not one that this version knows exactly."
                )
        write_json(folder / RECORD, {**result.to_dict(), "out": out.name, "environment": environment()})
        (folder / CARD).write_text(conversion_card(result, source, ours, head), encoding="utf-8")
    return result


def _read_architecture(source: Source, head: str | None) -> tuple[Family, Any, str, str]:
    """The family, the library's configuration, its class, and the head of ours that corresponds to it."""
    model_type = source.config.get("model_type")
    if not model_type or not isinstance(model_type, str):
        known = ", ".join(f"'{each}'" for each in FAMILIES)
        found = "names no model_type" if not model_type else f"has model_type={model_type!r}, which is no name"
        raise ConversionError(
            f"{CONFIG} of '{source.name}' {found}: it is to say which model this is, one of {known}."
        )
    family = _family(model_type, source)
    try:
        config = AutoConfig.from_pretrained(source.folder, trust_remote_code=False)
    except Exception as error:  # the library's strict configurations raise classes of their own
        raise ConversionError(f"{CONFIG} is not one of {family.name}: {one_line(error)}") from error
    if config.model_type != model_type:  # the library reads some as those of another architecture
        model_type = config.model_type
        family = _family(model_type, source)
    if head is not None and head not in family.heads:
        raise ConversionError(f"head={head!r}: {family.name} is converted with {', '.join(family.heads)}.")
    named = source.config.get("architectures") or []
    if len(named) != 1 or not isinstance(named[0], str):
        if head is None:
            raise ConversionError(
                f"{CONFIG} names {len(named)} architectures, and not the one: say with head which its weights have."
            )
        return family, config, library_class(model_type, head), head
    own_head = source_head(model_type, named[0])
    if own_head is None and head is None:
        raise ConversionError(
            f"{named[0]} has a head that ours have not: say with head which one the result shall have: "
            f"{', '.join(family.heads)}."
        )
    return family, config, named[0], own_head or NO_HEAD


def _family(model_type: str, source: Source) -> Family:
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    if model_type.startswith("regard-"):
        raise ConversionError(f"'{source.name}' is one of this package's models already.")
    reason = f": {OTHERS[model_type]}" if model_type in OTHERS else ""
    known = ", ".join(f"'{each}'" for each in FAMILIES)
    raise ConversionError(f"model_type {model_type!r} has no exact counterpart here{reason}. Those of {known} have.")


def _our_config(family: Family, config: Any, own_head: str, head: str) -> PreTrainedConfig:
    """Ours for the library's, with its labels where the head that gives them comes along."""
    try:
        ours = family.config(config)
    except Exception as error:  # as above
        raise ConversionError(f"the configuration has no counterpart here: {one_line(error)}") from error
    if head in LABELLING and head == own_head:
        _check_labels(config.id2label)
        ours.id2label = dict(config.id2label)
        ours.label2id = dict(config.label2id or {name: number for number, name in config.id2label.items()})
        ours.problem_type = config.problem_type
    else:
        ours.num_labels, ours.problem_type = 2, None
    return ours


def _check_labels(names: dict[int, str]) -> None:
    """Sees that each output has a label, and each label one output: what is predicted is said by its name."""
    if sorted(names) != list(range(len(names))):
        numbers = ", ".join(map(str, sorted(names)))
        raise ConversionError(f"id2label in {CONFIG} has the numbers {numbers}: they must be 0 to {len(names) - 1}.")
    numbers: dict[str, list[int]] = {}
    for number, name in names.items():
        if not isinstance(name, str) or not name.strip():
            raise ConversionError(f"id2label in {CONFIG} calls label {number} {name!r}: give it a name.")
        numbers.setdefault(name, []).append(number)
    for name, several in numbers.items():
        if several[1:]:
            raise ConversionError(
                f"id2label in {CONFIG} calls the labels {' and '.join(map(str, several))} {name!r} alike: give each a "
                "name of its own."
            )


def _refusals(source: Source) -> Iterator[str]:
    """What no family can have, a phrase each."""
    config = source.config
    if any(str(name).startswith(("AutoConfig", "AutoModel")) for name in config.get("auto_map") or ()):
        yield "auto_map: the repository brings code of its own, and what that computes is not known"
    if config.get("quantization_config"):
        yield "quantization_config: its weights are quantised; take the model that it was made from"
    if config.get("pruned_heads"):
        yield "pruned_heads: all layers have the same number of heads here"


def _few(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:6]) + (f" and {len(names) - 6} more" if names[6:] else "")


def _licence(source: Source) -> str | None:
    """As its card states it: a name of the Hub's, or the name beside "other"."""
    card = source.card()
    stated = card.get("license_name") if card.get("license") == "other" else card.get("license")
    return ", ".join(map(str, stated)) if isinstance(stated, list) else stated


def _build(
    name: str, config: PreTrainedConfig, dtype: torch.dtype, weights: Weights, may_be_fresh: bool
) -> tuple[PreTrainedModel, list[str]]:
    """Our model with these weights, each of which has its place; and the names of those that were drawn.

    Raises:
        ConversionError: our model cannot be built, or a weight has no place, has another shape, or is missing.
    """
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model: PreTrainedModel = getattr(regard.modeling, name)(config).to(dtype)
    except (ValueError, KeyError) as error:
        raise ConversionError(f"the configuration has no counterpart here: {error}") from error
    if not hasattr(model, model.base_model_prefix):  # a backbone alone
        weights = {key.removeprefix(f"{model.base_model_prefix}."): weight for key, weight in weights.items()}
    own = model.state_dict()
    fresh = sorted(own.keys() - weights.keys())
    wrong = [key for key in fresh if not may_be_fresh or key.startswith(f"{model.base_model_prefix}.")]
    wrong += [key for key, weight in weights.items() if key not in own or weight.shape != own[key].shape]
    if wrong:  # the source is whole, which was looked at: it is our mapping that does not fit it
        raise ConversionError(
            f"the weights do not fit our {name}, as {_few(wrong)} would be missing, without a place or of another "
            "shape: this version does not know such a source exactly."
        )
    model.load_state_dict(weights, strict=False)
    return model.eval(), fresh


def _generation_config(source: Source, notes: list[str]) -> GenerationConfig:
    """The source's own; old checkpoints have it in their config.json.

    Settings that do nothing, which the library loads and then refuses to save, are left out.
    """
    try:
        if (source.folder / GENERATION).is_file():
            generation = GenerationConfig.from_pretrained(source.folder)
        else:
            generation = GenerationConfig.from_model_config(dict(source.config))
            generation._from_model_config = False  # else it is made again from ours, which has none of it
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConversionError(f"{GENERATION} cannot be read: {one_line(error)}") from error
    if generation.pad_token_id is not None and generation.pad_token_id < 0:  # of old checkpoints: there is none
        generation.pad_token_id = None
    idle = [] if generation.do_sample else [*SAMPLING]
    idle += [] if (generation.num_beams or 1) > 1 else [*BEAMS]
    default = GenerationConfig()
    try:
        generation.validate(strict=True)
    except ValueError:
        given = [name for name in idle if getattr(generation, name, None) != getattr(default, name, None)]
        for name in given:
            setattr(generation, name, getattr(default, name))
        notes.append(f"{GENERATION}: {', '.join(given)} did nothing there, and the library would not save it.")
        try:
            generation.validate(strict=True)
        except ValueError as error:
            raise ConversionError(f"{GENERATION} cannot be kept: {one_line(error)}") from error
    return generation


@contextmanager
def _placed(out: Path) -> Iterator[Path]:
    """A folder beside `out`, an absolute path, which takes its place when all is written; else nothing is left."""
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    folder.chmod(0o777 & ~_umask())  # mkdtemp's own is for one user alone
    try:
        yield folder
        if out.exists():
            out.rmdir()
        os.replace(folder, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's reports of what it finds in checkpoints: ours says more."""
    level = library_logging.get_verbosity()
    library_logging.set_verbosity_error()
    try:
        with quiet_libraries():
            yield
    finally:
        library_logging.set_verbosity(level)
