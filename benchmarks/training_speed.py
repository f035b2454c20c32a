"""Speed beside the library's own models, as ratios: `python -m regard.benchmarks.training_speed`.

Both models of a pair work in turn in one process, on the same batches, with the same settings. A ratio is taken within
each round, so that whatever else the machine does meets both, and the median over the rounds is reported.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import logging

from regard.benchmarks.peers import BOS, PAD, SHAPES, Batch, Shape, blocks, decoders, encoder_decoders, pairs
from regard.benchmarks.report import machine, write_part
from regard.train.records import environment, write_json

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
PART = "training speed"  # of README.md
BATCHES = 8


@dataclass
class Contest:
    """One piece of work that both models of a pair do.

    Args:
        name: what it is.
        ours, peer: do the work on a batch and return its loss, or None where there is none.
        batches: taken in turn.
        tokens: how many tokens the work on a batch goes through or gives.
        steps: pieces of work in a block, which is timed as a whole.
        must_win: a ratio below 1 is a failure of the command.
    """

    name: str
    ours: Callable[[Batch], float | None]
    peer: Callable[[Batch], float | None]
    batches: list[Batch]
    tokens: Callable[[Batch], int]
    facts: dict[str, str | int] = field(default_factory=dict)
    steps: int = 2
    must_win: bool = False


def trainer(model: PreTrainedModel, **options: bool) -> Callable[[Batch], float]:
    """One training step as `Trainer` takes it: loss, gradients, clipping, AdamW."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(batch: Batch) -> float:
        loss = model(**batch, **options).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def writer(model: PreTrainedModel, num_beams: int, new_tokens: int) -> Callable[[Batch], None]:
    """Generation with a cache, always to the same length."""

    def generate(batch: Batch) -> None:
        inputs = {name: each for name, each in batch.items() if name != "labels"}
        model.eval().generate(
            **inputs,
            num_beams=num_beams,
            do_sample=False,
            min_new_tokens=new_tokens,
            max_new_tokens=new_tokens,
            pad_token_id=PAD,
            bos_token_id=BOS,
        )

    return generate


def contests(shape: Shape) -> list[Contest]:
    """Training of both families, then generation by both, greedily and with a beam."""
    found = []
    for make, batches in ((decoders, blocks(shape, BATCHES)), (encoder_decoders, pairs(shape, BATCHES))):
        torch.manual_seed(0)
        ours, peer = make(shape)
        name = f"{type(ours).__name__} / {type(peer).__name__}"
        facts = {
            "parameters_ours": trainable(ours),
            "parameters_peer": trainable(peer),
            "attention_ours": ours.config._attn_implementation,
            "attention_peer": peer.config._attn_implementation,
        }
        found.append(
            Contest(
                f"training: {name}",
                trainer(ours, loss_only=True),
                trainer(peer),
                batches,
                real_tokens,
                facts,
                must_win=True,
            )
        )
        prompts, new_tokens = prompts_for(ours, batches)
        for num_beams, kind in ((1, "greedy"), (4, "beam of 4")):
            found.append(
                Contest(
                    f"generation, {kind}: {name}",
                    writer(ours, num_beams, new_tokens),
                    writer(peer, num_beams, new_tokens),
                    prompts,
                    lambda batch, count=new_tokens: len(batch["input_ids"]) * count,
                    facts,
                    steps=1,
                )
            )
    return found


def trainable(model: nn.Module) -> int:
    return sum(each.numel() for each in model.parameters() if each.requires_grad)


def real_tokens(batch: Batch) -> int:
    """Tokens without pads: of source and target, or of the blocks, whose targets are the input itself."""
    if batch["labels"] is batch["input_ids"]:
        return batch["input_ids"].numel()
    return int(batch["attention_mask"].sum() + (batch["labels"] != -100).sum())


def prompts_for(model: PreTrainedModel, batches: list[Batch]) -> tuple[list[Batch], int]:
    """Eight rows of each batch to go on from, and how many tokens to write."""
    length = batches[0]["input_ids"].shape[1] if model.config.is_encoder_decoder else 8
    prompts = [{name: batch[name][:8, :length] for name in ("input_ids", "attention_mask")} for batch in batches]
    return prompts, 24 if length + 24 <= model.config.max_position_embeddings else 4


def measure(contest: Contest, rounds: int, clock: Callable[[], float]) -> dict:
    """Run both sides in turn, after a block each that is not counted; the side that begins changes with the round."""
    sides = {"ours": contest.ours, "peer": contest.peer}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    losses: dict[str, float | None] = {}
    tokens = []
    for number in range(-1, rounds):
        work = [
            contest.batches[(number * contest.steps + step) % len(contest.batches)] for step in range(contest.steps)
        ]
        for side in sorted(sides, reverse=bool(number % 2)):
            start = clock()
            results = [sides[side](batch) for batch in work]
            elapsed = clock() - start
            losses[side] = None if results[0] is None else statistics.fmean(results)
            if number >= 0:
                seconds[side].append(elapsed)
        if number >= 0:
            tokens.append(sum(contest.tokens(batch) for batch in work))
    ratios = [peer / ours for ours, peer in zip(seconds["ours"], seconds["peer"], strict=True)]
    return {
        "name": contest.name,
        "ratio": round(statistics.median(ratios), 3),
        "ratio_lowest": round(min(ratios), 3),
        "ratio_highest": round(max(ratios), 3),
        "tokens_per_second_ours": round(sum(tokens) / sum(seconds["ours"])),
        "tokens_per_second_peer": round(sum(tokens) / sum(seconds["peer"])),
        "loss_ours": losses["ours"],
        "loss_peer": losses["peer"],
        "must_win": contest.must_win,
        **contest.facts,
    }


def table(results: list[dict]) -> str:
    """The results as Markdown."""
    lines = [
        "| work: ours / peer | ratio (lowest to highest round) | tokens per second | weights | last loss |",
        "|---|---|---|---|---|",
    ]
    for each in results:
        loss = "" if each["loss_ours"] is None else f"{each['loss_ours']:.2f} / {each['loss_peer']:.2f}"
        lines.append(
            f"| {each['name']} | **{each['ratio']:.2f}** ({each['ratio_lowest']:.2f} to {each['ratio_highest']:.2f}) "
            f"| {each['tokens_per_second_ours']:,} / {each['tokens_per_second_peer']:,} "
            f"| {each['parameters_ours']:,} / {each['parameters_peer']:,} | {loss} |"
        )
    return "\n".join(lines)


def write(record: dict, folder: Path) -> None:
    """Into the folder: `results/training_speed.json`, and the table between the markers of README.md if it has one."""
    (folder / "results").mkdir(parents=True, exist_ok=True)
    write_json(folder / "results" / "training_speed.json", record)
    readme = folder / "README.md"
    if readme.exists():
        caption = (
            f"{machine(record['environment'])}; shape `{record['shape']}`, {record['rounds']} rounds, "
            f"{record['clock']} time."
        )
        write_part(readme, PART, f"{caption}\n\n{table(record['results'])}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: 1)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, whose median is reported (default: 5)")
    parser.add_argument("--shape", choices=SHAPES, default="small", help="sizes (default: small)")
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="cpu",
        help="the processor's time, which other work on the machine does not lengthen, or wall time (default: cpu)",
    )
    parser.add_argument("--only", default="", help="only work whose name contains this, such as 'training'")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for results/ and README.md (default: this package's; then only a run without other options is "
        "written)",
    )
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads must be at least 1.")

    logging.set_verbosity_error()
    torch.set_num_threads(options.threads)
    results = []
    for contest in contests(SHAPES[options.shape]):
        if options.only in contest.name:
            results.append(measure(contest, options.rounds, CLOCKS[options.clock]))
            print(f"{results[-1]['ratio']:.2f}  {contest.name}", flush=True)
    if not results:
        parser.error(f"--only {options.only!r} fits no work.")

    record = {
        "environment": environment(),
        "shape": options.shape,
        "rounds": options.rounds,
        "clock": options.clock,
        "results": results,
    }
    print(f"\n{table(results)}")
    if options.out is not None:
        write(record, options.out)
    elif options == parser.parse_args([]):
        write(record, Path(__file__).parent)
    else:
        print("\nNot written, since it is not the run that is documented: --out FOLDER writes it.", file=sys.stderr)
    slower = [each["name"] for each in results if each["must_win"] and each["ratio"] < 1]
    if slower:
        print(f"\nSlower than the peer: {'; '.join(slower)}.", file=sys.stderr)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
