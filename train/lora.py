"""LoRA (Hu et al., 2021) through PEFT: W stays, and a product of two thin matrices is learnt beside it, W + s·B·A.

The factors are put into the model itself, which stays the class that it is. What is saved is whole: the folder holds
the merged weights of an ordinary model, and in `adapter/` what `peft.PeftModel` loads onto the model that it began
from. A checkpoint holds the weights apart as well, from which a run goes on bit for bit.
"""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from regard.train.fine_tuning import in_backbone
from regard.train.measure import has_vocabulary_head
from regard.train.sections import RecipeError

ADAPTER = "adapter"  # the folder
APART = "apart.safetensors"  # the weights of a checkpoint, not merged
NAME = "default"  # PEFT's, of the only adapter
# Every projection of attention and of the feed-forward layers; queries, keys and values are one.
PROJECTIONS = ("qkv_proj", "q_proj", "kv_proj", "cross_kv_proj", "out_proj", "up_proj", "down_proj")
TASK_TYPES = {
    "sequence-classification": "SEQ_CLS",
    "token-classification": "TOKEN_CLS",
    "question-answering": "QUESTION_ANS",
    "causal-lm": "CAUSAL_LM",
    "in-context": "CAUSAL_LM",
    "translation": "SEQ_2_SEQ_LM",
    "summarization": "SEQ_2_SEQ_LM",
    "denoising": "SEQ_2_SEQ_LM",
}


def check_peft() -> None:
    """Raises RecipeError where PEFT is not installed."""
    if find_spec("peft") is None:
        raise RecipeError("training.lora needs peft, which is not installed: pip install peft.")


def add_lora(model: PreTrainedModel, settings: dict[str, Any], task: str, begun: dict[str, Any]) -> None:
    """Puts the factors into a model, in place. They and the head are trained, and nothing else; a head that predicts
    tokens belongs to the weights that were there and stays.

    Args:
        model: with the weights that it starts from.
        settings: `training.lora`, complete.
        task: the recipe's.
        begun: the record of the weights that it started from (`take_weights`), also in a run that goes on. The adapter
            names the source if that is a repository.

    Raises:
        RecipeError: nothing has a name of `target_modules`, or a head that predicts tokens would stay random.
    """
    from peft import LoraConfig, inject_adapter_in_model

    names = settings["target_modules"] or list(PROJECTIONS)
    linear = [name for name, part in model.named_modules() if isinstance(part, torch.nn.Linear)]
    present = {name.rpartition(".")[2] for name in linear if in_backbone(name, model)}
    if missing := [name for name in settings["target_modules"] or [] if name not in present]:
        raise RecipeError(
            f"training.lora.target_modules: no projection of a {type(model).__name__} is called '{missing[0]}': there "
            f"are {', '.join(sorted(present))}."
        )
    writes = has_vocabulary_head(model)
    if writes and begun["head"] == "fresh":
        raise RecipeError(
            f"training.lora: '{begun['source']}' has no head that predicts tokens, and LoRA would leave the new one "
            "as it was drawn: leave out training.lora."
        )
    head = [] if writes else [n for n, part in model.named_children() if n != model.base_model_prefix]
    head = [name for name in head if any(True for _ in getattr(model, name).parameters())]
    chosen = "|".join(re.escape(name) for name in sorted(set(names) & present))
    config = LoraConfig(
        r=settings["r"],
        lora_alpha=settings["lora_alpha"],
        lora_dropout=settings["lora_dropout"],
        target_modules=rf"{model.base_model_prefix}\.(.+\.)?({chosen})",
        task_type=TASK_TYPES.get(task),
        base_model_name_or_path=begun["source"] if begun["source"] == begun["repository"] else None,
    )
    inject_adapter_in_model(config, model)
    model.peft_config[NAME].modules_to_save = head or None  # what is written; PEFT would put the head into a wrapper
    for name in head:
        getattr(model, name).requires_grad_(True)


def has_lora(model: Any) -> bool:
    """Whether `add_lora` was here."""
    return any(hasattr(part, "lora_A") for part in model.modules())


@torch.no_grad()
def merged_weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The weights of the ordinary model that computes the same, W + s·B·A in the place of W."""
    products = {
        name: part.get_delta_weight(NAME) for name, part in model.named_modules() if hasattr(part, "get_delta_weight")
    }
    merged = {}
    for key, tensor in model.state_dict().items():
        owner, layer, leaf = key.rpartition(".base_layer.")
        if ".lora_" in key:
            continue
        if not layer:
            merged[key] = tensor
        else:
            merged[f"{owner}.{leaf}"] = tensor + products[owner].to(tensor.dtype) if leaf == "weight" else tensor
    return merged


def save_adapter(model: PreTrainedModel, folder: str | Path) -> None:
    """Writes `adapter/`: the factors and the head, under PEFT's names."""
    adapter = Path(folder) / ADAPTER
    adapter.mkdir(exist_ok=True)
    config = model.peft_config[NAME]
    config.inference_mode, before = True, config.inference_mode
    config.save_pretrained(adapter)
    config.inference_mode = before
    heads = tuple(f"{name}." for name in config.modules_to_save or ())
    weights = {
        f"base_model.model.{key.replace(f'.{NAME}.', '.')}": tensor.contiguous()
        for key, tensor in model.state_dict().items()
        if ".lora_" in key or (heads and key.startswith(heads))
    }
    save_file(weights, adapter / "adapter_model.safetensors", metadata={"format": "pt"})


def save_apart(model: PreTrainedModel, folder: str | Path) -> None:
    """Writes all weights of a model, those that are tied once, with the factors beside what they are added to."""
    weights = {name: parameter.detach().contiguous() for name, parameter in model.named_parameters()}
    save_file(weights, Path(folder) / APART, metadata={"format": "pt"})


def load_apart(model: PreTrainedModel, folder: str | Path) -> None:
    """Reads what `save_apart` wrote.

    Raises:
        ValueError: the weights are not the model's.
    """
    weights, parameters = load_file(Path(folder) / APART), dict(model.named_parameters())
    if weights.keys() != parameters.keys():
        other = sorted(weights.keys() ^ parameters.keys())[0]
        raise ValueError(f"{Path(folder) / APART} is of another model: only one of them has {other}.")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
