"""Loads a published folder and says what it computes: in this process, or in one that cannot import regard.

Run as a script, with a job in a file, it is that other process. It imports nothing of this package.
"""

import contextlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

NEW_TOKENS = 8


class Absent:
    """Keeps this package from being imported, wherever it is installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] == "regard":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def refuse_network(event: str, arguments: tuple) -> None:
    """An audit hook: no name is looked up and nothing is sent. Sockets that are files, which libraries use among their
    own processes, are left alone."""
    sends = event in ("socket.connect", "socket.sendto") and isinstance(arguments[-1], tuple)
    if sends or event in ("socket.getaddrinfo", "socket.gethostbyname"):
        raise OSError("the network was asked for, and loading must work without")


def observe(job: dict[str, Any]) -> dict[str, Any]:
    """Loads the tokenizer and each class, and writes what they compute for the texts.

    Args:
        job: `folder`; `classes`, the auto classes to load; `main`, the one of the architecture that was saved, or
            None; `texts`; `remote`, whether the folder's own code is run; `tensors`, the file for the outputs;
            `again`, a folder to save the main class to and load it from, or None; and `threads`, of the computation.

    Returns:
        What is no tensor: for the tokenizer and each class either what was found or an `error`.
    """
    folder, remote = job["folder"], job["remote"]
    said: dict[str, Any] = {"classes": {}}
    tensors: dict[str, torch.Tensor] = {}
    tokenizer = None
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=remote)
        ids = [tokenizer(text)["input_ids"] for text in job["texts"]]
        said["tokenizer"] = {"ids": ids, "decoded": [tokenizer.decode(one) for one in ids], "length": len(tokenizer)}
    except Exception as error:  # whatever is wrong with it is what is to be told
        said["tokenizer"] = {"error": _sentence(error)}
    for name in job["classes"]:
        try:
            said["classes"][name] = _observe_class(name, job, tokenizer, tensors)
        except Exception as error:  # as above
            said["classes"][name] = {"error": _sentence(error)}
    if said["classes"] and not any(one.get("reads_tokens", True) for one in said["classes"].values()):
        said["tokenizer"] = {}  # there need be none
    save_file(tensors, job["tensors"])
    return said


@torch.no_grad()
def _observe_class(name: str, job: dict[str, Any], tokenizer: Any, tensors: dict[str, torch.Tensor]) -> dict[str, Any]:
    auto_class = getattr(transformers, name)
    settings = {"trust_remote_code": job["remote"], "output_loading_info": True}
    model, info = auto_class.from_pretrained(job["folder"], **settings)
    model.eval()
    said = {
        "class": type(model).__name__,
        "missing": sorted(info["missing_keys"]),
        "unexpected": sorted(info["unexpected_keys"]),
        "prefix": model.base_model_prefix if hasattr(model, model.base_model_prefix) else "",
        "reads_tokens": model.get_input_embeddings() is not None,
    }
    if name == job["main"] and job["again"] and not said["missing"]:
        said["again"] = _save_and_load(model, auto_class, job)
    state = model.state_dict()
    for key in info["missing_keys"]:  # a new head begins at random; here it is the same in both processes
        values = torch.linspace(-0.1, 0.1, state[key].numel()).reshape(state[key].shape)
        state[key].copy_(values.to(state[key].dtype))
    inputs = _inputs(model, tokenizer, job["texts"])
    outputs = dict(model(**inputs).items())
    if name == job["main"] and model.can_generate():
        given = _inputs(model, tokenizer, job["texts"][:1])  # without padding, whose side is the user's business
        given.pop("decoder_input_ids", None)
        room = _positions(model.config) - given["input_ids"].shape[1]
        outputs["generated"] = model.generate(**given, max_new_tokens=min(NEW_TOKENS, room), do_sample=False)
    for key, value in outputs.items():
        if torch.is_tensor(value):
            tensors[f"{name}.{key}"] = value.contiguous().clone()
    return said


def _inputs(model: Any, tokenizer: Any, texts: list[str]) -> dict[str, torch.Tensor]:
    """What the forward pass of any model here takes, for a batch of texts of different lengths."""
    if model.get_input_embeddings() is None:
        return _points(model.config)
    names = inspect.signature(model.forward).parameters
    vocab_size, config = model.get_input_embeddings().weight.shape[0], model.config
    longest = _positions(config) // 2
    if hasattr(model, "index_to_key"):  # word vectors: an unknown word has no row
        return {"input_ids" if "input_ids" in names else next(iter(names)): torch.arange(min(vocab_size, longest))}
    if tokenizer is None or len(tokenizer) == 0:
        encoded = {"input_ids": torch.arange(min(vocab_size, longest))[None]}
    else:
        padding = tokenizer.pad_token is not None
        encoded = dict(tokenizer(texts if padding else texts[:1], padding=padding, return_tensors="pt"))
    encoded = {key: value[:, :longest] for key, value in encoded.items()}
    ids = encoded["input_ids"]
    if int(ids.max()) >= vocab_size:
        raise ValueError(f"the tokenizer gives the id {int(ids.max())}, and the model has {vocab_size} rows")
    inputs = {key: value for key, value in encoded.items() if key in names}
    if getattr(config, "is_encoder_decoder", False):
        start = config.decoder_start_token_id if config.decoder_start_token_id is not None else 0
        inputs["decoder_input_ids"] = torch.cat([torch.full_like(ids[:, :1], start), ids[:, :-1]], dim=1)
    return inputs


def _points(config: Any) -> dict[str, torch.Tensor]:
    """Of a model that reads no tokens: two rows of points, and the values of a function there."""
    shape = 2, _positions(config) // 2, config.input_size
    inputs = torch.arange(shape[0] * shape[1] * shape[2]).sin().reshape(shape)
    return {"inputs": inputs, "values": inputs.sum(-1)}


def _positions(config: Any) -> int:
    """How long a text may be here: not more than its position table, of which half is left for what is generated."""
    return max(min(getattr(config, "max_position_embeddings", None) or 64, 64), 2)


def _save_and_load(model: Any, auto_class: Any, job: dict[str, Any]) -> dict[str, Any]:
    """What is saved and loaded again must hold the same numbers."""
    model.save_pretrained(job["again"])
    with contextlib.suppress(OSError, ValueError):  # a folder without a tokenizer, which was said already
        # A fresh one: padding that was once asked for is saved.
        tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"], trust_remote_code=job["remote"])
        tokenizer.save_pretrained(job["again"])
    loaded = auto_class.from_pretrained(job["again"], trust_remote_code=job["remote"])
    before, after = model.state_dict(), loaded.state_dict()
    differing = [key for key in before if key not in after or not torch.equal(before[key], after[key])]
    return {"differing": differing + [key for key in after if key not in before]}


def _sentence(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def main() -> None:
    """Reads the job from the file that is named on the command line, and writes the answer to the one after it."""
    sys.meta_path.insert(0, Absent())
    sys.addaudithook(refuse_network)
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch.set_num_threads(job["threads"])
    said = observe(job)
    Path(sys.argv[2]).write_text(json.dumps(said), encoding="utf-8")


if __name__ == "__main__":
    main()
