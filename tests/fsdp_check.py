"""A tiny run by fully sharded data parallelism beside the same run by one process: to be started where GPUs are.

    python -m tests.fsdp_check --processes 2

It starts itself by `accelerate launch --use_fsdp`, and alone on one GPU, in float32, and asserts that accelerate
distributed the one by FSDP, that both runs have the same loss at every step, and that what the sharded one saved loads
into one process with the same loss. accelerate ignores FSDP on a CPU, so that without GPUs there is nothing to assert.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STEPS = 12
ROWS = 8  # of a step, over all processes
# Sums in another order, in float32, which Adam's division by small gradients enlarges; see tests/test_processes.py.
ROUNDING = 1e-3
ROOT = Path(__file__).resolve().parents[1]


def train(folder: Path) -> None:
    """One process's part: trains, saves, and writes the losses and how it was distributed to `record.json`."""
    import torch
    from transformers import TrainingArguments

    from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM
    from regard.train.collators import CausalLMCollator
    from regard.train.trainer import RegardTrainer

    generator = torch.Generator().manual_seed(0)
    rows = [{"input_ids": torch.randint(4, 23, (9,), generator=generator).tolist()} for _ in range(32)]
    torch.manual_seed(0)
    config = TransformerDecoderConfig(
        vocab_size=23, hidden_size=32, num_attention_heads=4, intermediate_size=64, num_hidden_layers=2, dropout=0.0
    )
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    args = TrainingArguments(
        str(folder), max_steps=STEPS, per_device_train_batch_size=ROWS // processes, learning_rate=0.01,
        per_device_eval_batch_size=2, logging_steps=1, save_strategy="no", report_to="none",
        remove_unused_columns=False,
    )  # fmt: skip
    trainer = RegardTrainer(
        TransformerDecoderForCausalLM(config), args, CausalLMCollator(0), train_dataset=rows, eval_dataset=rows[:16]
    )
    trainer.train()
    found = trainer.evaluate()["eval_loss"]
    trainer.save_model(str(folder / "model"))
    if args.process_index == 0:
        record = {
            "distributed": trainer.accelerator.distributed_type.value,
            "processes": args.world_size,
            "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
            "eval_loss": found,
        }
        (folder / "record.json").write_text(json.dumps(record))


def evaluate(folder: Path) -> float:
    """The loss of what was saved, of one process, on the rows that the run was evaluated on."""
    import torch

    from regard.modeling import TransformerDecoderForCausalLM

    generator = torch.Generator().manual_seed(0)
    rows = torch.stack([torch.randint(4, 23, (9,), generator=generator) for _ in range(32)])[:16]
    model = TransformerDecoderForCausalLM.from_pretrained(folder / "model")
    with torch.no_grad():
        return model(input_ids=rows, labels=rows).loss.item()


def launch(folder: Path, *words: str, gpus: int) -> dict[str, Any]:
    """Trains in processes of their own that see the first GPUs, so many, as Trainer takes all that it sees.

    Returns:
        The record. Raises RuntimeError with what they said if they fail.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, *words, "-m", "tests.fsdp_check", "--train", str(folder)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ",".join(visible.split(",")[:gpus])},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{folder.name} failed: {done.stderr[-3000:]}")
    return json.loads((folder / "record.json").read_text())


def sharded(processes: int) -> list[str]:
    """The words of `accelerate launch`: the second version of FSDP, each layer a unit, whole weights saved."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [
        "-m", "accelerate.commands.launch", "--use_fsdp", "--fsdp_version", "2",
        "--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP", "--fsdp_state_dict_type", "FULL_STATE_DICT",
        "--mixed_precision", "no", "--num_machines", "1", "--num_processes", str(processes),
        "--main_process_port", str(port),
    ]  # fmt: skip


def compare(whole: dict[str, Any], split: dict[str, Any], loaded: float, processes: int) -> list[str]:
    """What is wrong, a sentence each."""
    wrong = []
    if split["distributed"] != "FSDP" or split["processes"] != processes:
        wrong.append(f"It ran as {split['distributed']} on {split['processes']} processes, not FSDP on {processes}.")
    pairs = [*zip(whole["losses"], split["losses"], strict=True), (whole["eval_loss"], split["eval_loss"])]
    for step, (one, several) in enumerate(pairs, start=1):
        if not abs(one - several) <= ROUNDING * abs(one):
            wrong.append(f"Loss {step} of {len(pairs)} is {several} on several processes and {one} on one.")
    if not abs(loaded - split["eval_loss"]) <= ROUNDING * abs(loaded):
        wrong.append(f"What was saved has the loss {loaded} in one process, and had {split['eval_loss']}.")
    return wrong


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fsdp_check", description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, help="how many, each with a GPU of its own (default: all GPUs)")
    parser.add_argument("--train", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.train:
        train(options.train)
        return 0

    import torch

    processes = options.processes or torch.cuda.device_count()
    if not 1 <= processes <= torch.cuda.device_count() or ROWS % processes:
        print(
            f"FSDP needs a GPU for each process, and accelerate ignores it on a CPU: {torch.cuda.device_count()} GPUs "
            f"were found for {processes or 'any number of'} processes (1, 2, 4 or 8).",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="regard-fsdp-") as scratch:
        whole = launch(Path(scratch, "whole"), gpus=1)
        split = launch(Path(scratch, "sharded"), *sharded(processes), gpus=processes)
        wrong = compare(whole, split, evaluate(Path(scratch, "sharded")), processes)
    print("\n".join(wrong) or f"FSDP on {processes} GPUs: {STEPS} losses as on one process, and the model loads.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
