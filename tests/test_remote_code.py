"""A saved folder is complete: it loads where regard cannot be imported, from any path, through every auto class."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from .families import ENTRIES, Entry, output_of, select

SAVED = select(variant=("paper", "llama", "shared"))
BASES = select(auto_class="AutoModel", variant="paper")
FOLDER = "my model-v1.0"  # a space, a dash and a dot

# Runs where regard is not importable. Reads one JSON object per line: what to load and from where; says what it got.
LOADER = """
import json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "regard" or name.startswith(("regard.", "modeling.")) or name == "modeling":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import os, torch, transformers

for line in open(sys.argv[1]):
    job = json.loads(line)
    os.chdir(job["cwd"])
    auto_class = getattr(transformers, job["auto_class"])
    model, info = auto_class.from_pretrained(job["path"], trust_remote_code=True, output_loading_info=True)
    config = transformers.AutoConfig.from_pretrained(job["path"], trust_remote_code=True)
    inputs = torch.load(job["inputs"], weights_only=True)
    with torch.no_grad():
        outputs = model(**inputs)
        if job["generate"]:
            ids = inputs.pop("input_ids")
            for name in ("decoder_input_ids", "token_type_ids"):
                inputs.pop(name, None)
            greedy = model.generate(ids, max_new_tokens=6, do_sample=False)
            without = model.generate(ids, max_new_tokens=6, do_sample=False, use_cache=False)
            assert torch.equal(greedy, without)
            outputs["generated"] = greedy
    if job["again"]:
        model.save_pretrained(job["again"])
    result = {key: value for key, value in outputs.items() if torch.is_tensor(value)}
    torch.save({"state": model.state_dict(), "buffers": dict(model.named_buffers()), "outputs": result}, job["result"])
    print(json.dumps({
        "class": type(model).__name__,
        "most_similar": model.most_similar(job["word"]) if "word" in job else None,
        "module": type(model).__module__.split(".")[0],
        "config": type(config).__name__,
        "missing": sorted(info["missing_keys"]),
        "unexpected": sorted(info["unexpected_keys"]),
        "note": getattr(sys.modules[type(model).__module__.rsplit(".", 1)[0] + ".losses"], "NOTE", None),
    }))
"""


def load_elsewhere(jobs: list[dict], tmp_path: Path) -> list[dict]:
    """Do these jobs in one fresh process without regard, with its standard input closed."""
    script, list_of_jobs = tmp_path / "loader.py", tmp_path / "jobs.jsonl"
    script.write_text(LOADER, encoding="utf-8")
    list_of_jobs.write_text("".join(json.dumps(job) + "\n" for job in jobs), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_MODULES_CACHE": str(tmp_path / "modules"), "HF_HUB_OFFLINE": "1"}
    process = subprocess.run(
        [sys.executable, str(script), str(list_of_jobs)],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    return [json.loads(line) for line in process.stdout.splitlines()]


def job_for(entry: Entry, folder: Path, tmp_path: Path, **changes) -> dict:
    torch.save(entry.inputs(), tmp_path / f"{entry}-inputs.pt")
    return {
        "auto_class": entry.auto_class,
        "folder": str(folder),
        "path": str(folder),
        "cwd": str(tmp_path),
        "inputs": str(tmp_path / f"{entry}-inputs.pt"),
        "result": str(tmp_path / f"{entry}-result.pt"),
        "generate": entry.generates,
        "again": None,
        **changes,
    }


def heads_of(base: Entry) -> list[Entry]:
    return [e for e in ENTRIES if e.config_class is base.config_class and e.variant == base.variant]


@pytest.fixture(scope="module")
def remote_path(tmp_path_factory):
    return tmp_path_factory.mktemp("remote")


@pytest.fixture(scope="module")
def elsewhere(remote_path):
    """Each model saved here, its folder moved, and loaded in another process: one for all, since it is slow."""
    tmp_path, jobs, names = remote_path, [], []
    for number, entry in enumerate(SAVED):
        saved = tmp_path / "saved" / str(entry)
        entry.model().save_pretrained(saved)
        folder = tmp_path / "moved" / str(entry) / FOLDER
        shutil.move(saved, folder)
        place = number % 3  # an absolute path, ./folder, and the folder itself, in turn
        paths = [(folder, tmp_path), (f"./{FOLDER}", folder.parent), (".", folder)]
        path, cwd = paths[place]
        again = str(tmp_path / "again" / str(entry))
        jobs.append(job_for(entry, folder, tmp_path, path=str(path), cwd=str(cwd), again=again))
        names.append(str(entry))
    for base in BASES:  # from the folder of the last head, every class of the family
        folder = tmp_path / "moved" / str(heads_of(base)[-1]) / FOLDER
        for head in heads_of(base):
            result = str(tmp_path / "family-result.pt")
            jobs.append(job_for(head, folder, tmp_path, generate=False, result=result))
            names.append(f"family of {head}")
    said = load_elsewhere(jobs, tmp_path)
    return {name: (job, answer) for name, job, answer in zip(names, jobs, said, strict=True)}


@pytest.mark.parametrize("entry", SAVED, ids=str)
def test_folder_loads_where_regard_is_not_installed(entry: Entry, elsewhere):
    job, said = elsewhere[str(entry)]
    assert said["class"] == entry.model_class.__name__
    assert said["config"] == entry.config_class.__name__
    assert said["module"] == "transformers_modules"
    assert said["missing"] == said["unexpected"] == []
    result, model = torch.load(job["result"], weights_only=True), entry.model()
    assert result["state"].keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(result["state"][name], tensor), name
    for name, buffer in model.named_buffers():
        assert torch.equal(result["buffers"][name], buffer), name
    torch.testing.assert_close(
        result["outputs"][next(iter(result["outputs"]))], output_of(model(**entry.inputs())), atol=1e-6, rtol=1e-6
    )


@pytest.mark.parametrize("entry", SAVED, ids=str)
def test_what_remote_code_saves_loads_here(entry: Entry, elsewhere):
    job, _ = elsewhere[str(entry)]
    model = entry.model()
    loaded = entry.model_class.from_pretrained(job["again"])
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    configurations = [Path(folder, "config.json").read_text() for folder in (job["folder"], job["again"])]
    assert json.loads(configurations[0]) == json.loads(configurations[1])


@pytest.mark.parametrize("base", BASES, ids=str)
def test_every_auto_class_of_a_family_loads_from_one_folder(base: Entry, elsewhere):
    """The map is the family's, not only that of the class that was saved."""
    for head in heads_of(base):
        job, said = elsewhere[f"family of {head}"]
        assert said["class"] == head.model_class.__name__
        assert not any(name.startswith("model.") for name in said["missing"]), said
    folder = Path(job["folder"])
    auto_map = json.loads((folder / "config.json").read_text())["auto_map"]
    assert set(auto_map) == {"AutoConfig", *(head.auto_class for head in heads_of(base))}
    for target in auto_map.values():
        assert (folder / f"{target.split('.')[0]}.py").exists(), target


def test_edited_helper_file_is_seen_by_a_new_process(elsewhere, remote_path):
    entry = select(auto_class="AutoModelForCausalLM", variant="paper")[0]
    job, said = elsewhere[str(entry)]
    assert said["note"] is None
    helper = Path(job["folder"]) / "losses.py"
    helper.write_text(helper.read_text(encoding="utf-8") + '\nNOTE = "edited"\n', encoding="utf-8")
    assert load_elsewhere([job], remote_path)[0]["note"] == "edited"


@pytest.mark.parametrize("entry", select(variant="paper"), ids=str)
def test_folder_holds_code_and_no_pickle(entry: Entry, tmp_path):
    entry.model().save_pretrained(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"config.json", "model.safetensors", "configuration_transformer.py", "modeling_base.py"} <= names
    assert all(name.endswith((".json", ".safetensors", ".py")) for name in names)
    for path in tmp_path.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import regard" not in text
        assert "from regard" not in text
        assert "from __future__" not in text  # it would turn the annotation that gives config_class into a string
