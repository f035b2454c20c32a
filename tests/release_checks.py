"""What tests/releases.py runs in the environment of one release of transformers, over every entry of families.py.

`python -m tests.release_checks own FOLDER` checks the release and leaves its models in FOLDER, each in one of its own;
`python -m tests.release_checks load FOLDER` loads what another release left there. Each writes a JSON of faults.
"""

import argparse
import json
import math
import traceback
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import Trainer, TrainingArguments

from .families import ENTRIES, Entry, output_of
from .test_contract_generation import generate, talkative

EXPECTED = "expected.safetensors"
SEARCHES = {"greedy": {}, "beams": {"num_beams": 3}}
Faults = dict[str, dict[str, str | None]]  # check to entry to what went wrong, None if nothing did


def logits(entry: Entry, model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return output_of(model.eval()(**entry.inputs()))


def constructs(entry: Entry, folder: Path) -> None:
    """The model is built and its output, and its loss if it has one, are numbers."""
    model = entry.model()
    assert torch.isfinite(logits(entry, model)).all()
    if entry.has_loss:
        assert math.isfinite(model(**entry.labelled())["loss"].item())


def generates(entry: Entry, folder: Path) -> None:
    """Greedily and by beams, with and without a cache: the same ids."""
    model, inputs = talkative(entry), prompts(entry)
    for name, search in SEARCHES.items():
        ids = [generate(model, **inputs, **search, use_cache=use_cache) for use_cache in (True, False)]
        assert torch.equal(*ids), f"{name}: {ids[0].tolist()} with a cache, {ids[1].tolist()} without"


def trains(entry: Entry, folder: Path) -> None:
    """One step of Trainer moves the weights; what it saves gives the same output, by its class and by the auto one."""
    model, batch = entry.model(), entry.labelled()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    rows = [{name: values[row] for name, values in batch.items()} for row in range(3)]
    with TemporaryDirectory() as scratch:
        args = TrainingArguments(
            scratch, max_steps=1, per_device_train_batch_size=3, learning_rate=0.01, logging_steps=1, use_cpu=True,
            save_strategy="no", report_to="none", disable_tqdm=True, remove_unused_columns=False,
        )  # fmt: skip
        trainer = Trainer(model, args, train_dataset=rows)
        trainer.train()
        assert math.isfinite(trainer.state.log_history[0]["loss"])
        assert any(not torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
        trainer.save_model(scratch)
        loads_equal(entry, Path(scratch), logits(entry, model), exactly=True)


def saves(entry: Entry, folder: Path) -> None:
    """Saved and loaded again it gives the same output. The folder and its output are left for the other releases."""
    model = talkative(entry) if entry.generates else entry.model()
    found = {"logits": logits(entry, model)}
    if entry.generates:
        found |= {name: generate(model, **prompts(entry), **search) for name, search in SEARCHES.items()}
    model.save_pretrained(folder / str(entry))
    save_file({name: values.contiguous() for name, values in found.items()}, folder / str(entry) / EXPECTED)
    loads_equal(entry, folder / str(entry), found["logits"], exactly=True)


def loads_others(entry: Entry, folder: Path) -> None:
    """What another release saved gives its output and generates its ids; saved again, it has its weights."""
    expected = load_file(folder / str(entry) / EXPECTED)
    model = loads_equal(entry, folder / str(entry), expected.pop("logits"), exactly=False)
    for name, ids in expected.items():
        assert torch.equal(generate(model, **prompts(entry), **SEARCHES[name]), ids), name
    weights = load_file(folder / str(entry) / "model.safetensors")
    with TemporaryDirectory() as scratch:
        model.save_pretrained(scratch)
        again = load_file(Path(scratch, "model.safetensors"))
    assert set(again) == set(weights)
    assert all(torch.equal(again[name], weights[name]) for name in weights)


def prompts(entry: Entry) -> dict[str, torch.Tensor]:
    return {name: values for name, values in entry.inputs().items() if name != "decoder_input_ids"}


def loads_equal(entry: Entry, folder: Path, expected: torch.Tensor, exactly: bool) -> torch.nn.Module:
    """Loads by the model's class and by its auto class; releases may add in another order, which rounds to 1e-6."""
    for model_class in (getattr(transformers, entry.auto_class), entry.model_class):
        model = model_class.from_pretrained(folder)
        assert type(model) is entry.model_class
        difference = (logits(entry, model) - expected).abs().max().item()
        assert difference == 0 if exactly else difference < 1e-5, f"outputs differ by {difference}"
    return model.eval()


Check = tuple[Callable[[Entry, Path], None], Callable[[Entry], bool]]
OWN: dict[str, Check] = {
    "construct": (constructs, lambda entry: True),
    "generate": (generates, lambda entry: entry.generates),
    "train a step": (trains, lambda entry: entry.has_loss),
    "save and load": (saves, lambda entry: True),
}
OTHERS: dict[str, Check] = {"load": (loads_others, lambda entry: True)}


def run(checks: dict[str, Check], folder: Path) -> Faults:
    """Runs each check on the entries that it is for."""
    found: Faults = {}
    for name, (check, fits) in checks.items():
        found[name] = {}
        for entry in filter(fits, ENTRIES):
            try:
                check(entry, folder)
                found[name][str(entry)] = None
            except Exception as fault:
                place = traceback.extract_tb(fault.__traceback__)[-1]
                message = f"{type(fault).__name__}: {fault}"[:500]
                found[name][str(entry)] = f"{message} ({Path(place.filename).name}, {place.name})"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.release_checks", description=__doc__.splitlines()[0])
    parser.add_argument("checks", choices=("own", "load"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file of what was found")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    found = run(OWN if options.checks == "own" else OTHERS, options.folder)
    options.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
