"""Pictures of a run: its loss curve, and what its decoder looks at in the source.

Axes: T target tokens, S source tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.files import replacing
from regard.evaluation.tokens import readable_tokens

INK, GRAY, BLUE, ORANGE = "#222222", "#8a8f98", "#3b6fb6", "#d9822b"
FORMATS = (".png", ".svg")


def plot_history(history: Sequence[Mapping[str, Any]], path: str | Path, title: str | None = None) -> Path:
    """The loss curve: training and validation loss by step, epochs along the top.

    Args:
        history: the trainer's log, rows with `step` and `loss` (training) or `eval_loss` (validation), maybe `epoch`.
        path: a .png or .svg file; it is complete or not there.

    Raises:
        ValueError: no loss in the history, or another kind of file.
    """
    training = [(row["step"], row["loss"]) for row in history if "loss" in row]
    validation = [(row["step"], row["eval_loss"]) for row in history if "eval_loss" in row]
    if not training and not validation:
        raise ValueError("The history holds no losses to draw: no row has 'loss' or 'eval_loss'.")

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    if training:
        steps, losses = zip(*training, strict=True)
        few = "." if len(training) == 1 else ""
        axes.plot(steps, losses, color=BLUE, linewidth=1.2, alpha=0.85, marker=few, label="training")
    if validation:
        steps, losses = zip(*validation, strict=True)
        axes.plot(steps, losses, color=ORANGE, linewidth=1.8, marker="o", markersize=4, label="validation")
        best = min(range(len(losses)), key=losses.__getitem__)
        axes.annotate(
            f"{losses[best]:.3f}",
            (steps[best], losses[best]),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            color=ORANGE,
            fontsize=9,
            bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        )
    axes.set_xlabel("step")
    axes.set_ylabel("loss per target (nats)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    _clean(axes)
    axes.grid(axis="y", color="#e6e8eb", linewidth=0.8)
    axes.legend(frameon=False)
    _add_epochs(axes, history)
    if title:
        axes.set_title(title, fontsize=11, color=INK)
    return _save(figure, path)


def _add_epochs(axes: Any, history: Sequence[Mapping[str, Any]]) -> None:
    """A second axis in epochs, where there is more than one and steps and epochs go together."""
    rows = [row for row in history if row.get("epoch") and row.get("step")]
    if not rows or rows[-1]["epoch"] <= 1:
        return
    steps_per_epoch = rows[-1]["step"] / rows[-1]["epoch"]
    top = axes.secondary_xaxis(
        "top", functions=(lambda step: step / steps_per_epoch, lambda epoch: epoch * steps_per_epoch)
    )
    top.set_xlabel("epoch", color=GRAY)
    top.xaxis.set_major_locator(MaxNLocator(integer=True))
    top.tick_params(colors=GRAY, length=3)
    top.spines["top"].set_visible(False)


@dataclass(frozen=True)
class CrossAttention:
    """Where the decoder looked.

    Attributes:
        weights: float32 of shape (T, S); row t is the look that led to target token t, and adds up to 1.
        source, target: the tokens, readable, of length S and T.
    """

    weights: torch.Tensor
    source: list[str]
    target: list[str]


@torch.no_grad()
def cross_attention(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
) -> CrossAttention:
    """The weights of the decoder's attention to the source, averaged over the layers and heads not chosen.

    Args:
        source: the text that is read.
        target: the text that is written; by default what the model writes, greedily.
        layer: one decoder layer; negative numbers count from the last.
        head: one head.

    Raises:
        ValueError: not an encoder-decoder model, a blank text, or a layer or head that is not there.
    """
    if not model.config.is_encoder_decoder:
        raise ValueError(f"A {type(model).__name__} has no cross-attention: that takes an encoder-decoder model.")
    if not source.strip() or (target is not None and not target.strip()):
        raise ValueError("A blank text has no tokens to attend to.")
    device = model.device
    source_ids = torch.tensor([tokenizer(source)["input_ids"]], device=device)  # (1, S)

    training, implementation = model.training, model.config._attn_implementation
    model.eval()
    model.set_attn_implementation("eager")  # the fused kernels never hold the weights
    try:
        if target is not None:
            written = torch.tensor([tokenizer(text_target=target)["input_ids"]], device=device)  # (1, T)
        else:
            written = model.generate(source_ids, num_beams=1, do_sample=False, max_new_tokens=128)[:, 1:]
        start = model.generation_config.decoder_start_token_id
        start = model.config.decoder_start_token_id if start is None else start
        outputs = model(
            input_ids=source_ids,
            decoder_input_ids=torch.cat([torch.full_like(written[:, :1], start), written[:, :-1]], dim=1),
            output_attentions=True,
            use_cache=False,
        )
    finally:
        model.set_attn_implementation(implementation)
        model.train(training)

    weights = torch.stack(outputs.cross_attentions)[:, 0].float().cpu()  # (layers, heads, T, S)
    weights = _choose(_choose(weights, 0, "layer", layer), 0, "head", head)  # (T, S)
    return CrossAttention(
        weights, readable_tokens(tokenizer, source_ids[0].tolist()), readable_tokens(tokenizer, written[0].tolist())
    )


def _choose(weights: torch.Tensor, dim: int, name: str, number: int | None) -> torch.Tensor:
    if number is None:
        return weights.mean(dim)
    size = weights.shape[dim]
    if not -size <= number < size:
        raise ValueError(f"{name}={number} is not there: the decoder has {size} of them, from 0 to {size - 1}.")
    return weights.select(dim, number)


def plot_cross_attention(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    source: str,
    target: str | None = None,
    path: str | Path = "cross_attention.png",
    *,
    layer: int | None = None,
    head: int | None = None,
) -> Path:
    """A heat map of `cross_attention`: source tokens along the top, target tokens down the side.

    Args:
        path: a .png or .svg file; it is complete or not there.
    """
    found = cross_attention(model, tokenizer, source, target, layer=layer, head=head)
    rows, columns = found.weights.shape
    figure = Figure(figsize=(1.8 + 0.62 * columns, 1.5 + 0.46 * rows), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(found.weights, cmap="Blues", vmin=0, aspect="auto")
    slanted = max(map(len, found.source)) > 6
    axes.set_xticks(range(columns), found.source, rotation=40 if slanted else 0, ha="left" if slanted else "center")
    axes.set_yticks(range(rows), found.target)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0, labelsize=11, labelcolor=INK)
    for edge in axes.spines.values():
        edge.set_visible(False)
    axes.set_xticks([i - 0.5 for i in range(1, columns)], minor=True)
    axes.set_yticks([i - 0.5 for i in range(1, rows)], minor=True)
    axes.grid(which="minor", color="white", linewidth=2)
    axes.tick_params(which="minor", length=0, top=False, left=False)
    if rows * columns <= 200:
        half = float(found.weights.max()) * 0.6
        for row in range(rows):
            for column in range(columns):
                share = float(found.weights[row, column])
                if share >= 0.1:
                    color = "white" if share > half else INK
                    axes.text(column, row, f"{share:.0%}", ha="center", va="center", fontsize=8, color=color)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=25, pad=0.02, format=lambda share, _: f"{share:.0%}")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, labelcolor=GRAY)
    axes.set_title(_which(layer, head), fontsize=9, color=GRAY, pad=10)
    return _save(figure, path)


def _which(layer: int | None, head: int | None) -> str:
    if layer is None and head is None:
        return "cross-attention, mean of all layers and heads"
    layers = "mean of all layers" if layer is None else f"decoder layer {layer}"
    heads = "mean of all heads" if head is None else f"head {head}"
    return f"cross-attention, {layers}, {heads}"


def _clean(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#c8ccd2")
    axes.tick_params(colors=INK, length=3)


def _save(figure: Figure, path: str | Path) -> Path:
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"The picture '{path}' must end in {' or '.join(FORMATS)}.")
    with replacing(path) as partial:
        figure.savefig(partial, format=path.suffix.lower()[1:], dpi=150)
    return path
