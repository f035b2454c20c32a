"""Muon for the matrices inside a model, AdamW for everything else, as one optimiser.

Muon (Jordan et al., 2024; Liu et al., 2025, "Muon is Scalable for LLM Training") replaces a matrix's momentum M by the
nearest matrix whose singular values are all near 1, so that every direction is learnt at the same pace. Embeddings,
output heads, norms and biases are not such maps, and stay with AdamW.

torch's own Muon takes one matrix at a time and takes a fused projection (queries, keys and values in one) for a single
map. Here each map is treated by itself, and all of one shape in one batched product, which is what small models need.
"""

import inspect
import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, TrainingArguments

from regard.train.devices import multiplies_bfloat16

MUON = "muon"  # as `training.optim`
OPTIONS = {"momentum": 0.95, "matrix_learning_rate": None}  # as `training.optim_args`
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic polynomial that drives singular values to about 1 (Jordan)
ITERATIONS = 5
UPDATE_RMS = 0.2  # of AdamW's updates, so that a learning rate means the same for both (Liu et al., section 2.2)


class Muon(torch.optim.AdamW):
    """AdamW that updates the parameter groups marked `use_muon` by Muon.

    A marked group holds (out, in) matrices, and `parts`: for each, the sizes of the maps that are stacked along its
    first axis. A step is

        M <- momentum · M + G
        U = NewtonSchulz(G + momentum · M)
        W <- (1 - lr · decay) W - lr · 0.2 √max(out, in) U
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group["use_muon"]]
        try:
            loss = inspect.unwrap(torch.optim.Adam.step)(self, closure)  # without the hooks, which are for one step
        finally:
            self.param_groups = groups
        for group in groups:
            if group["use_muon"]:
                self._step_matrices(group)
        return loss

    def _step_matrices(self, group: dict[str, Any]) -> None:
        maps: dict[torch.Size, list[tuple[torch.Tensor, torch.Tensor]]] = defaultdict(list)
        for weight, sizes in zip(group["params"], group["parts"], strict=True):
            if weight.grad is None:
                continue
            state = self.state[weight]
            if not state:
                state["step"] = torch.zeros(())  # unused; AdamW asks for it when a state is loaded
                state["momentum_buffer"] = torch.zeros_like(weight)
            momentum = state["momentum_buffer"].mul_(group["momentum"]).add_(weight.grad)
            direction = weight.grad.add(momentum, alpha=group["momentum"])  # Nesterov's
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            for part, its_direction in zip(weight.split(sizes), direction.split(sizes), strict=True):
                maps[part.shape].append((part, its_direction))
        for shape, pairs in maps.items():
            updates = orthogonalize(torch.stack([direction for _, direction in pairs]))  # (maps, out, in)
            rate = group["lr"] * UPDATE_RMS * max(shape) ** 0.5
            torch._foreach_add_([part for part, _ in pairs], list(updates), alpha=-rate)


def orthogonalize(matrices: torch.Tensor) -> torch.Tensor:
    """Matrices of the same singular vectors, with singular values between about 0.7 and 1.2; those that were next to
    nothing beside the others stay below.

    Args:
        matrices: (N, out, in), any dtype.

    Returns:
        (N, out, in) of the same dtype, computed in bfloat16 where that is fast: a few per cent more or less make no
        difference.
    """
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = (matrices.mT if tall else matrices).to(
        torch.bfloat16 if multiplies_bfloat16(matrices.device) else torch.float32
    )
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)  # the largest singular value is then at most 1
    for _ in range(ITERATIONS):
        gram = x @ x.mT  # (N, smaller, smaller)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)


def muon_options(text: str | None) -> dict[str, float | None]:
    """What `training.optim_args` says of Muon, such as "momentum=0.95, matrix_learning_rate=0.01".

    Raises:
        ValueError: an unknown option, or one that is no number above 0 (and below 1 for the momentum).
    """
    options, given = dict(OPTIONS), set()
    for pair in filter(None, (pair.strip() for pair in (text or "").split(","))):
        name, _, value = (part.strip() for part in pair.partition("="))
        if name not in OPTIONS:
            raise ValueError(f"training.optim_args: Muon has no option '{name}': there are {', '.join(OPTIONS)}.")
        if name in given:
            raise ValueError(f"training.optim_args: {name} is given twice.")
        given.add(name)
        try:
            options[name] = float(value)
        except ValueError:
            options[name] = math.nan
        if not 0 < options[name] < (1 if name == "momentum" else math.inf):
            limit = "between 0 and 1" if name == "momentum" else "above 0"
            raise ValueError(f"training.optim_args: '{pair}' does not set {name} to a number {limit}.")
    return options


def build_muon(
    model: PreTrainedModel, args: TrainingArguments, momentum: float, matrix_learning_rate: float | None
) -> Muon:
    """The optimiser of a model. Matrices decay, inside it and in its embeddings; norms and biases do not.

    Args:
        model: its inner matrices are the weights of all `nn.Linear` of its base model.
        args: learning rate, weight decay and the settings of AdamW.
        momentum: of Muon.
        matrix_learning_rate: the peak for the inner matrices; `args.learning_rate` where it is None.
    """
    maps = {
        id(module.weight): (module.weight, map_sizes(name, module, model))
        for name, module in model.base_model.named_modules()
        if isinstance(module, nn.Linear) and module.weight.requires_grad
    }
    others = [p for p in model.parameters() if p.requires_grad and id(p) not in maps]
    groups = [
        {
            "params": [weight for weight, _ in maps.values()],
            "parts": [list(sizes) for _, sizes in maps.values()],
            "lr": matrix_learning_rate or args.learning_rate,
            "momentum": momentum,
            "use_muon": True,
        },
        {"params": [p for p in others if p.dim() > 1], "use_muon": False},
        {"params": [p for p in others if p.dim() <= 1], "use_muon": False, "weight_decay": 0.0},
    ]
    return Muon(
        [group for group in groups if group["params"]],
        lr=args.learning_rate,
        betas=(args.adam_beta1, args.adam_beta2),
        eps=args.adam_epsilon,
        weight_decay=args.weight_decay,
    )


def map_sizes(name: str, module: nn.Linear, model: PreTrainedModel) -> tuple[int, ...]:
    """The sizes of the maps that a projection stacks along its output.

    Queries, keys and values are one projection here, and so are the two halves of a gated feed-forward layer.
    """
    width, config = module.out_features, model.config
    query, key_value = (heads * config.head_dim for heads in (config.num_attention_heads, config.num_key_value_heads))
    kind = name.rpartition(".")[2]
    if kind == "qkv_proj":
        return (query, key_value, key_value)
    if kind.endswith("kv_proj"):
        return (key_value,) * (width // key_value)
    if kind == "up_proj" and config.gated_mlp:
        return (width // 2,) * 2
    return (width,)
