"""The recipe's `model.start_from`: a model begins from the weights of another one, under whatever head its task asks.

    start = read_start(recipe)                        its configuration, checked against the recipe
    tokenizer = start_tokenizer(start)
    model = build_model(recipe, tokenizer, labels, start)
    record = take_weights(model, start)               backbone from there; the head too, where it is the same one

The model is built afresh by its seed first, so that a head which is not taken over begins as in a run from scratch.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoTokenizer, GenerationConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

import regard.modeling
from regard.train.convert_source import CARD, CONFIG, INDEX, WEIGHTS, card_metadata
from regard.train.data_checks import LENGTHS
from regard.train.encoding import check_fast
from regard.train.fine_tuning import in_backbone
from regard.train.model_checks import config_fields
from regard.train.records import VECTOR_MODEL_TYPES
from regard.train.sections import CONFIG_CLASSES, WEIGHTLESS, WRITING, Recipe, RecipeError

logger = logging.getLogger(__name__)

GENERATION = "generation_config.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
# What is fetched of a repository: no code, which is this package's, and nothing pickled.
FETCHED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja", CARD)
BASE = "model."  # before the names of a backbone's weights, in a model with a head
NOT_BY_LABEL = "classifier.dense."  # of a head's weights, those without a row for each label
# Of a generation config, what a vocabulary asks for; the rest is the recipe's.
TOKEN_RULES = (
    "bad_words_ids", "forced_bos_token_id", "forced_eos_token_id", "suppress_tokens", "begin_suppress_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class Start:
    """A model to begin from.

    Attributes:
        name: as the recipe names it.
        folder: where its files are.
        config: its configuration.
    """

    name: str
    folder: Path
    config: PreTrainedConfig


def read_start(recipe: Recipe, output: Path | None = None) -> Start:
    """The model that `model.start_from` names: the folder of a run or a converted model, or a repository on the Hub.

    Args:
        recipe: the recipe.
        output: the folder of the new run, which must not be the old one's.

    Raises:
        RecipeError: there is none, it is another kind of model, its weights are not safetensors, or the recipe asks
            for what they do not allow.
    """
    name = recipe.model["start_from"]
    folder = _folder_of(name, (CONFIG,))
    if output is not None and folder.resolve().is_relative_to(output.resolve()):
        raise RecipeError(f"model.start_from: '{name}' lies in the folder of this run: choose another with --output.")
    _read(recipe, name, folder)  # before the weights of another kind of model are fetched
    folder = _folder_of(name, FETCHED)
    start = _read(recipe, name, folder)
    if not any((folder / file).is_file() for file in (WEIGHTS, INDEX)):
        pickled = any((folder / file).is_file() for file in PICKLES)
        end = ", and its pickle is not opened: save it as safetensors" if pickled else ""
        raise RecipeError(f"model.start_from: '{name}' holds no {WEIGHTS}{end}.")
    return start


def start_of_checkpoint(recipe: Recipe, checkpoint: Path) -> Start:
    """The same model in a run that goes on: its configuration is the checkpoint's, and the first weights are not asked
    for again."""
    return _read(recipe, recipe.model["start_from"], checkpoint)


def _read(recipe: Recipe, name: str, folder: Path) -> Start:
    config_class = getattr(regard.modeling, CONFIG_CLASSES[recipe.model["type"]])
    try:
        found = json.loads((folder / CONFIG).read_text(encoding="utf-8")).get("model_type")
        _check_type(name, found, recipe, config_class)
        start = Start(name, folder, config_class.from_pretrained(folder))
    except RecipeError:
        raise
    except Exception as error:  # the library's strict configurations raise classes of their own
        raise RecipeError(
            f"model.start_from: {CONFIG} of '{name}' cannot be read: {' '.join(str(error).split())}"
        ) from error
    _check_settled(recipe, start)
    return start


def _folder_of(name: str, files: Sequence[str]) -> Path:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        folder = _fetched(name, files)
    if not (folder / CONFIG).is_file():
        raise RecipeError(f"model.start_from: '{name}' holds no model: it has no {CONFIG}.")
    return folder


def _fetched(name: str, files: Sequence[str]) -> Path:
    """The folder in which a repository's files of these kinds lie on this machine."""
    folder = Path(name).expanduser()
    looks_local = folder.is_absolute() or name.startswith((".", "~")) or len(folder.parts) != 2
    if folder.exists() or looks_local or folder.parent.is_dir():
        raise RecipeError(
            f"model.start_from: there is no folder '{name}': give that of a run or of a converted model, or a Hub id "
            "such as 'user/model'."
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=list(files), ignore_patterns="*/*"))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise RecipeError(
            f"model.start_from: there is no folder '{name}', and no repository of that name can be had: {reason}. "
            "(`regard convert` makes a folder of a checkpoint of the library's.)"
        ) from error


def _check_type(name: str, found: Any, recipe: Recipe, config_class: type[PreTrainedConfig]) -> None:
    if found == config_class.model_type:
        return
    if found in VECTOR_MODEL_TYPES:
        raise RecipeError(f"model.start_from: '{name}' holds word vectors: name them in model.embeddings.")
    ours = {getattr(regard.modeling, known).model_type: kind for kind, known in CONFIG_CLASSES.items()}
    if found in ours:
        raise RecipeError(
            f"model.start_from: '{name}' is a model of type '{ours[found]}', and model.type is "
            f"'{recipe.model['type']}'."
        )
    raise RecipeError(
        f"model.start_from: '{name}' is a model of another package ({found!r}): make it one of this package with "
        f"`regard convert {name} FOLDER` and name that folder."
    )


def _check_settled(recipe: Recipe, start: Start) -> None:
    """What the weights were made with stays; and they have a place for each token of the recipe's sequences."""
    from regard.train.building import longest_sequence

    learned = getattr(start.config, "position_embedding_type", None) == "learned"
    given = {key: value for key, value in recipe.model.items() if key in config_fields(recipe.model["type"])[1]}
    settled = {}
    for key, value in given.items():
        free = key in WEIGHTLESS and not (learned and key == "max_position_embeddings")
        if not free and value != (has := getattr(start.config, key)):
            settled[key] = has
    if settled:
        keys = ", ".join(f"model.{key}: {given[key]!r}" for key in settled)
        there = " ".join(f"model.{key}={json.dumps(has)}" for key, has in settled.items())
        raise RecipeError(
            f"{keys} {'differs' if len(settled) == 1 else 'differ'} from what the weights of '{start.name}' were made "
            f"with: set {there}"
        )
    longest = longest_sequence(recipe)
    if learned and longest > start.config.max_position_embeddings:
        raise RecipeError(
            f"model.start_from: '{start.name}' has {start.config.max_position_embeddings} learned positions, and the "
            f"recipe lets a sequence have {longest} tokens: lower "
            f"{_lengths_beyond(start.config.max_position_embeddings, recipe)}."
        )


def _lengths_beyond(limit: int, recipe: Recipe) -> str:
    """The keys of the task that let a sequence have more tokens."""
    lengths = {f"data.{name}": getattr(recipe.data, name) for name in LENGTHS.get(recipe.task, ("block_size",))}
    if recipe.task in WRITING:
        lengths["evaluation.max_new_tokens"] = recipe.evaluation.max_new_tokens
    return " and ".join([key for key, length in lengths.items() if length > limit] or lengths)


def start_tokenizer(recipe: Recipe, start: Start) -> PreTrainedTokenizerBase:
    """The tokenizer that lies with the weights. Where it has no pad token, as those of GPT-2 and Llama, its end token
    stands for one: masks tell them apart, and the ends of texts are learnt.

    Raises:
        RecipeError: there is none, or one that is not fast where that is needed, or has neither a pad token nor an end
            token.
    """
    try:
        tokenizer = AutoTokenizer.from_pretrained(start.folder, trust_remote_code=False)
    except Exception as error:  # a library is not installed; or of a broken file, whatever its reader meets there
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        if not any(start.folder.glob("*token*")) and not any(start.folder.glob("vocab*")):
            reason = "no file of one lies there"
        raise RecipeError(
            f"model.start_from: '{start.name}' has no tokenizer that can be loaded: name one in tokenizer.path "
            f"({reason})."
        ) from error
    check_fast(recipe, tokenizer, f"model.start_from: the tokenizer of '{start.name}'")
    if tokenizer.pad_token_id is None:
        number = start.config.pad_token_id if start.config.pad_token_id is not None else tokenizer.eos_token_id
        if number is not None:
            tokenizer.pad_token = tokenizer.convert_ids_to_tokens(number)
            logger.warning("The tokenizer of %s has no pad token: %r stands for one.", start.name, tokenizer.pad_token)
    if tokenizer.pad_token_id is None:
        raise RecipeError(
            f"model.start_from: the tokenizer of '{start.name}' has no pad token, which batches need, nor an end "
            "token that could stand for it: name one that has it in tokenizer.path."
        )
    return tokenizer


def start_settings(recipe: Recipe, start: Start, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The fields of the model's config: those of the start, and what the recipe sets anew.

    Raises:
        RecipeError: the tokenizer does not fit the start's table of embeddings.
    """
    from regard.train.building import longest_sequence

    fields, config = config_fields(recipe.model["type"])[1], start.config
    from_there = recipe.tokenizer.path is None
    which = f"model.start_from: the tokenizer of '{start.name}'" if from_there else "tokenizer.path: the tokenizer"
    its = "its model" if from_there else f"'{start.name}'"
    way = "name one that fits in tokenizer.path" if from_there else "take the one that lies there"
    if len(tokenizer) > config.vocab_size:
        raise RecipeError(
            f"{which} has {len(tokenizer)} tokens, and {its} has vectors for {config.vocab_size}: {way}."
        )
    if config.pad_token_id is not None and tokenizer.pad_token_id != config.pad_token_id:
        raise RecipeError(
            f"{which} has the pad token number {tokenizer.pad_token_id}, and that of {its} is {config.pad_token_id}: "
            f"{way}."
        )
    if not from_there:
        _tell_other_tokens(start, tokenizer)
    settings = {name: getattr(config, name) for name in fields}
    settings |= {key: value for key, value in recipe.model.items() if key in WEIGHTLESS and key in fields}
    if "num_labels" in recipe.model:
        settings["num_labels"] = recipe.model["num_labels"]
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and "max_position_embeddings" not in recipe.model:
        settings["max_position_embeddings"] = max(positions, longest_sequence(recipe))  # of learned ones: not more
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        if settings.get(name) is None:
            settings[name] = getattr(tokenizer, name)
    return {name: value for name, value in settings.items() if value is not None or name != "decoder_start_token_id"}


def _tell_other_tokens(start: Start, tokenizer: PreTrainedTokenizerBase) -> None:
    """Vectors go by numbers: a tokenizer that gives a number to another token than the start's has others' vectors."""
    try:
        own = AutoTokenizer.from_pretrained(start.folder, trust_remote_code=False).get_vocab()
    except Exception:  # none lies there, or one that cannot be loaded: so another is named
        return
    there, tokens = {number: token for token, number in own.items()}, tokenizer.get_vocab()
    if others := sum(there.get(number, token) != token for token, number in tokens.items()):
        logger.warning(
            "tokenizer.path: %d of its %d tokens have the number of another token of %s, and begin with the vector of "
            "that.",
            others,
            len(tokens),
            start.name,
        )


def token_rules(start: Start) -> dict[str, Any]:
    """What the start's generation config says of single tokens, as some vocabularies need it."""
    if not (start.folder / GENERATION).is_file():
        return {}
    try:
        config = GenerationConfig.from_pretrained(start.folder)
    except (OSError, ValueError) as error:
        raise RecipeError(f"model.start_from: {GENERATION} of '{start.name}' cannot be read: {error}") from error
    rules = {name: getattr(config, name, None) for name in TOKEN_RULES}
    return {name: value for name, value in rules.items() if value is not None}


# --- weights ---------------------------------------------------------------------------------------------------------


def take_weights(model: PreTrainedModel, start: Start) -> dict[str, Any]:
    """Writes the start's weights into the model, and returns what is known of it for the run's record.

    All of the backbone must be there. A head is taken if it is one of the same class and, where it has labels, of the
    same names: their rows are put in the model's order. Any other head keeps the weights that it was built with.

    Returns:
        `source`; `repository`, where it is one on the Hub or its card names the one that it is made of; `licence`,
        `licence_name` and `licence_link`, where its card states them; `head`: "kept", "fresh" or None for a model
        without weights outside its backbone; `fresh`: the names of its modules then;
        `other_labels`: whether that is why; `left`: what of the start was not taken.

    Raises:
        RecipeError: before anything is changed, when weights are missing, unreadable, of another shape or not finite.
    """
    source = _Tensors(start)
    has_base = any(name.startswith(BASE) for name, _ in model.named_parameters())
    labels = _same_labels(model, start)
    same_class = type(model).__name__ in (start.config.architectures or [])
    chosen: list[tuple[torch.Tensor, str]] = []
    fresh, head, taken = [], 0, set()
    for names in _names(model).values():
        in_body = any(in_backbone(name, model) for name in names)
        keys = [key for name in names for key in source.keys_of(name, in_body, has_base)]
        found = keys[0] if keys else None
        if in_body and found is None:
            raise RecipeError(
                f"model.start_from: the weights of '{start.name}' lack {names[0]}: they are not those of a "
                f"'{start.config.model_type}' model as its {CONFIG} describes it."
            )
        head += not in_body
        if not in_body and (found is None or not same_class or labels is False):
            fresh.append(names[0])
            continue
        parameter = model.get_parameter(names[0])
        if source.shape(found) != tuple(parameter.shape):
            raise RecipeError(
                f"model.start_from: {found} of '{start.name}' has the shape {source.shape(found)}, and "
                f"{tuple(parameter.shape)} is wanted."
            )
        chosen.append((parameter, found))
        taken.update(keys)
    if broken := next((key for _, key in chosen if not source.read(key).isfinite().all()), None):
        raise RecipeError(
            f"model.start_from: {broken} of '{start.name}' holds values that are no numbers (NaN or infinite): begin "
            "from weights whose training did not diverge."
        )
    rows, card = labels if isinstance(labels, list) else None, card_metadata(start.folder)
    with torch.no_grad():
        for parameter, key in chosen:
            tensor = source.read(key)
            by_label = rows is not None and source.is_head(key) and not key.startswith(NOT_BY_LABEL)
            parameter.copy_(tensor[rows] if by_label else tensor)
    return {
        "source": start.name,
        "repository": _text(card.get("base_model")) if Path(start.name).expanduser().exists() else start.name,
        "licence": _text(card.get("license")),
        "licence_name": _text(card.get("license_name")),
        "licence_link": _text(card.get("license_link")),
        "head": None if not head else "fresh" if fresh else "kept",
        "fresh": list(dict.fromkeys(name.partition(".")[0] for name in fresh)),
        "other_labels": bool(fresh) and same_class and labels is False,
        "left": list(dict.fromkeys(_part(key) for key in source.keys if key not in taken)),
    }


def describe_weights(record: dict[str, Any]) -> str:
    """One sentence about a record of `take_weights`."""
    begun = f"begins from the weights of {record['source']}"
    left = f"; not taken over: {', '.join(record['left'])}" if record["left"] else ""
    if record["head"] != "fresh":
        return f"{begun}, head included{left}" if record["head"] else f"{begun}{left}"
    why = "its labels are others there" if record["other_labels"] else "there is none of its kind there"
    return f"{begun}: the backbone is kept, the head ({', '.join(record['fresh'])}) is fresh, as {why}{left}"


def _text(stated: Any) -> str | None:
    return stated if isinstance(stated, str) else None


class _Tensors:
    """The weights in a folder's safetensors, read one by one."""

    def __init__(self, start: Start) -> None:
        self.start = start
        try:
            index = start.folder / INDEX
            names = [WEIGHTS]
            if not (start.folder / WEIGHTS).is_file():
                names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
            if outside := [name for name in names if Path(name).name != name]:
                raise ValueError(f"{INDEX} names '{outside[0]}', which is no file beside it")
            files = [safe_open(start.folder / name, "pt") for name in names]
            self.files = {key: file for file in files for key in file.keys()}  # noqa: SIM118
        except Exception as error:  # safetensors has errors of its own kind
            raise RecipeError(
                f"model.start_from: the weights of '{start.name}' cannot be read: {' '.join(str(error).split())}"
            ) from error
        self.keys = list(self.files)
        self.has_base = any(key.startswith(BASE) for key in self.keys)

    def keys_of(self, name: str, in_body: bool, has_base: bool) -> list[str]:
        """The name under which the start has the weight that the model has under this one, if it has it."""
        if in_body and has_base and not self.has_base:
            name = name.removeprefix(BASE)
        return [name] if name in self.files else []

    def is_head(self, key: str) -> bool:
        return not key.startswith(BASE) if self.has_base else key.startswith("classifier.")

    def shape(self, key: str) -> tuple[int, ...]:
        return tuple(self.files[key].get_slice(key).get_shape())

    def read(self, key: str) -> torch.Tensor:
        return self.files[key].get_tensor(key)


def _names(model: PreTrainedModel) -> dict[int, list[str]]:
    """The names of each weight: several of one that is tied."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return names


def _same_labels(model: PreTrainedModel, start: Start) -> list[int] | bool | None:
    """For each label of the model its number in the start; False where the names are others, None without labels."""
    if not hasattr(model, "num_labels"):
        return None
    here, there = _labels(model.config), _labels(start.config)
    if sorted(here) != sorted(there) or len(set(there)) != len(there):
        return False
    return [there.index(label) for label in here]


def _labels(config: PreTrainedConfig) -> Sequence[str]:
    return [label for _, label in sorted(config.id2label.items())]


def _part(key: str) -> str:
    """The name of a weight's module, as far as it tells a reader something: `transform`, `classifier`."""
    return key.removeprefix(BASE).partition(".")[0]
