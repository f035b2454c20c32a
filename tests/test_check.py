"""What `regard check` finds: each fault in a folder that is right otherwise."""

import io
import json
import pickle
import shutil
import struct
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.model_cards import check as check_module
from regard.model_cards.carried_code import code_files
from regard.model_cards.check import _compare, _fixed_point, _is_own_code, _key_findings, check_files, check_folder
from regard.model_cards.contents import check_contents, pickle_kind
from regard.model_cards.elsewhere import observe, refuse_network
from regard.model_cards.findings import CheckReport
from regard.model_cards.metadata import metadata_problems
from regard.model_cards.staging import relative_files, stage
from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM

from .tiny_run import make_run

TOKEN = "hf_" + "aB3" * 11


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def folder(run, tmp_path):
    """What is published of the run, in files of its own."""
    staged = stage(run, tmp_path / "staged", "ada/tiny")
    return Path(shutil.copytree(staged.folder, tmp_path / "folder"))


@pytest.fixture
def staged(run, tmp_path):
    return stage(run, tmp_path / "staged", "ada/tiny", "v1")


def found(folder: Path, **settings) -> list[tuple[str, str]]:
    """The kinds and files of what the checks of files find; nothing is loaded."""
    return [(finding.check, finding.file) for finding in check_files(folder, "it", load=False, **settings).findings]


# --- what is laid out ------------------------------------------------------------------------------------------------


def test_what_is_published(run, staged):
    names = set(staged.files())
    code = {path.name for path in run.glob("*.py")}
    assert "modeling_decoder.py" in code
    assert names == code | {
        "README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json", "recipe.yaml", "metrics.json", "history.json", "loss_curve.png",
        next(name for name in names if name.startswith("logs/")),
    }  # fmt: skip
    assert staged.left_out == ["checkpoint-3/"]
    assert found(staged.folder) == []


def test_other_files_of_a_run_stay_there(run, tmp_path):
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    (folder / "notes.txt").write_text("mine")
    (folder / ".env").write_text(TOKEN)
    (folder / "handler.py").write_text("print()")  # no part of the model's code
    (folder / "lost.png").symlink_to(tmp_path / "nowhere")
    (folder / "elsewhere").symlink_to(tmp_path, target_is_directory=True)
    staged = stage(folder, tmp_path / "staged")
    assert staged.left_out == ["checkpoint-3/", "elsewhere", "handler.py", "lost.png", "notes.txt"]
    assert not {"notes.txt", ".env", "handler.py", "lost.png"} & set(staged.files())


def test_a_file_that_is_written_to_after_it_was_laid_out(run, tmp_path):
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    staged = stage(folder, tmp_path / "staged")
    assert staged.changed() == []
    for name in ("recipe.yaml", "tokenizer.json", "losses.py", "loss_curve.png"):  # copies were laid out
        (folder / name).write_text("")
    assert staged.changed() == []
    assert staged.files()["losses.py"] > 0
    with open(folder / "model.safetensors", "ab") as file:
        file.write(b"0")
    assert staged.changed() == ["model.safetensors"]
    (folder / "model.safetensors").unlink()
    assert staged.changed() == ["model.safetensors"]


def test_no_place_and_no_name_of_the_machine_is_laid_out(run, staged, tmp_path_factory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    event_file = next(name for name in staged.files() if name.startswith("logs/"))
    assert event_file.split("tfevents.")[1].replace(".", "").isdigit()
    assert str(run).encode() in next((run / "logs").iterdir()).read_bytes()
    assert str(run).encode() not in (staged.folder / event_file).read_bytes()
    log = EventAccumulator(str(staged.folder / "logs")).Reload()
    assert [(one.step, one.value) for one in log.Scalars("train/loss")] == [(1, 2.0)]

    recipe = (staged.folder / "recipe.yaml").read_text()
    assert str(run.parent) not in recipe
    assert f"train: PATH/{run.parent.name}/train.txt" in recipe
    assert "hub" not in recipe
    assert json.loads((staged.folder / "metrics.json").read_text())["samples"][0]["source"] == "/the"  # a text
    assert any("data.train" in note for note in staged.notes)


def test_the_card_loads_from_where_it_is_published(staged):
    card = (staged.folder / "README.md").read_text()
    assert 'path = "ada/tiny"' in card
    assert 'revision = "v1"' in card
    assert "revision=revision" in card


def test_an_event_file_that_is_still_written_to(run, tmp_path):
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    path = next((folder / "logs").iterdir())
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    staged = stage(folder, tmp_path / "staged")
    name = next(name for name in staged.files() if name.startswith("logs/"))
    assert 0 < staged.files()[name] < len(whole) - 3
    assert whole.startswith((staged.folder / name).read_bytes()[:20])


# --- secrets, places, pickles, states, sizes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"login(token='{TOKEN}')",
        "ghp_" + "x" * 36,
        "github_pat_" + "1A_" * 12,
        "sk-proj-" + "Ab1_" * 8,
        "AKIA" + "Z7" * 8,
        "AIza" + "q-_9X" * 7,
        "xoxb-1234567890-abc",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----",
        "https://ada:open-sesame@example.org/x",
        "WANDB_API_KEY=" + "0123456789abcdef" * 2,
        "AWS_SECRET_ACCESS_KEY=" + "wJalrXUtnFEMI/K7MDENG" * 2,
        "glpat-" + "x1Y_" * 5,
        "Authorization: Bearer " + "0123456789abcdef",
        '"password": "correct-horse-battery"',
    ],
)
@pytest.mark.parametrize("name", ["README.md", "config.json", "modeling_base.py", "logs/events.out.tfevents.1.0"])
def test_secrets(text, name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\x00\xff binary " * name.startswith("logs") + f"first\n{text}\n".encode())
    findings = check_contents(tmp_path, [name])
    assert {(finding.check, finding.file) for finding in findings} == {("secret", name)}
    assert text not in str(findings[0])  # what a log of the check shows


def test_a_secret_in_the_metadata_of_weights(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors", {"note": TOKEN})
    assert [finding.check for finding in check_contents(tmp_path, ["model.safetensors"])] == ["secret"]


@pytest.mark.parametrize(
    "text",
    [
        *(f"/{top}/ada/corpus.txt" for top in ("home", "Users", "root", "work", "tmp", "mnt")),
        "~/data/train.tsv",
        "C:\\Users\\ada",
        "C:\\\\Users\\\\ada",
        "file:///etc/hosts",
        f"{Path.home()}/x",
        f"C:/{'Users'}/ada",
        f"here:/{'home'}/ada",
    ],
)
@pytest.mark.parametrize("name", ["README.md", "recipe.yaml", "metrics.json", "config.json", "tokenizer_config.json"])
def test_places_on_a_disk(text, name, tmp_path):
    (tmp_path / name).write_text(f'first\n"path": "{text}",\n')
    findings = check_contents(tmp_path, [name])
    assert {finding.check for finding in findings} == {"path"}
    assert findings[0].problem.startswith("in line 2 ")


@pytest.mark.parametrize(
    "text",
    [
        "https://huggingface.co/home/x and https://example.org/tmp/a",
        "either/or, and/data/or, ./tmp/x, runs/home/ada",
        "the path is user/model; 3/4 of it; </s> <s> /s /",
        "A:\nB:\tC:\\n",
        "hf_hub_download, sk-learn, the token is 'mask_token': '<mask>'",
        "http://localhost:8000/@me",
        '"bos_token": "<s>", "pad_token_id": 0',
        "a." * 100_000,  # in which a search for addresses must not begin anew at each letter and read to the end
    ],
)
def test_texts_that_are_no_fault(text, tmp_path):
    (tmp_path / "README.md").write_text(text)
    assert check_contents(tmp_path, ["README.md"]) == []


def test_the_words_of_a_vocabulary_are_no_places(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps({"vocab": {f"/{'home'}/ada": 1}}))
    assert check_contents(tmp_path, ["tokenizer.json"]) == []


def test_an_event_file_that_names_a_machine(tmp_path):
    names = ["events.out.tfevents.1795850815.lab-7.example.12020.0", "events.out.tfevents.1795850815.12020.0.v2"]
    for name in names:
        (tmp_path / name).write_bytes(b"\0")
    findings = check_contents(tmp_path, names)
    assert [(finding.check, finding.file) for finding in findings] == [("path", names[0])]
    assert "'lab-7.example'" in findings[0].problem


class Opened:
    def __reduce__(self):
        return (open, ("unpickled", "w"))


def pickles() -> dict[str, bytes]:
    stream, inside = io.BytesIO(), io.BytesIO()
    torch.save({"a": torch.ones(3)}, stream)
    made = {"of torch": stream.getvalue()}
    stream = io.BytesIO()
    torch.save({"a": torch.ones(3)}, stream, _use_new_zipfile_serialization=False)
    made["of an old torch"] = stream.getvalue()
    for protocol in range(6):
        made[f"of protocol {protocol}"] = pickle.dumps(Opened(), protocol)
        made[f"data of protocol {protocol}"] = pickle.dumps({"lr": 0.1, "names": ["a"]}, protocol)
    np.save(inside, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    made["in an array"] = inside.getvalue()
    inside, fields = io.BytesIO(), [(f"a field {number}", "<f4") for number in range(20)]
    np.save(inside, np.zeros(1, dtype=[*fields, ("last", object)]), allow_pickle=True)
    made["in the last field of an array"] = inside.getvalue()
    for protocol in range(2):  # which have no mark at the beginning; a reader stops at the pickle's end
        made[f"of protocol {protocol}, with a text behind"] = pickle.dumps(Opened(), protocol) + b"\nand more.\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x/data.pkl", b"")
    made["behind a picture"] = b"\x89PNG\r\n\x1a\n" + bytes(50) + stream.getvalue()
    return made


@pytest.mark.parametrize("kind", pickles())
@pytest.mark.parametrize("name", ["pytorch_model.bin", "vocab.txt", "picture.png"])
def test_pickles_by_content(kind, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(pickles()[kind])
    assert [(finding.check, finding.file) for finding in check_contents(tmp_path, [name])] == [("pickle", name)]
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize("name", ["a.bin", "a.PT", "a.pth", "a.pkl", "a.ckpt", "a.joblib"])
def test_pickles_by_name(name, tmp_path):
    (tmp_path / name).write_bytes(b"\x00\x01\x02\x03")
    assert [finding.check for finding in check_contents(tmp_path, [name])] == ["pickle"]


TEXTS = [b"", b"a text.\n", b"0.5\n1.5\n", b"I am.", b"N.", b"{}\n", b"\x80", b"\x80abc."]
WORDS = [b"cat\ndog\n.\n", b"is\nthe\n.\nbig\n"]  # which begin as a pickle that names something


@pytest.mark.parametrize("content", [*TEXTS, *WORDS])
def test_what_is_no_pickle(content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    assert pickle_kind(tmp_path / "x", content) is None


def test_a_pickle_under_the_name_of_weights(folder):
    (folder / "model.safetensors").write_bytes(pickles()["of torch"])
    assert found(folder) == [("weights", "model.safetensors"), ("pickle", "model.safetensors")]


def test_weights_of_any_size_of_header_are_no_pickle(tmp_path):
    for size in (0x0280, 0x0480):  # little-endian these begin with the two bytes of a pickle's protocol
        header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", size) + header.ljust(size) + bytes(4))
        assert check_contents(tmp_path, ["model.safetensors"]) == []


@pytest.mark.parametrize(
    "name",
    [
        "training_args.bin", "optimizer.pt", "optimizer.bin", "scheduler.pt", "scaler.pt", "rng_state.pth",
        "rng_state_0.pth", "trainer_state.json", "checkpoint-10/model.safetensors", "last-checkpoint/config.json",
    ],
)  # fmt: skip
def test_the_state_of_a_training(name, folder):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"{}")
    assert found(folder) == [("state", name)]


def test_a_file_over_the_limit(folder):
    size = (folder / "model.safetensors").stat().st_size
    assert found(folder, max_file_bytes=size) == []
    assert found(folder, max_file_bytes=size - 1) == [("size", "model.safetensors")]


def test_hidden_files_of_a_folder_are_looked_into(folder):
    (folder / ".env").write_text(f"HF_TOKEN={TOKEN}")
    assert found(folder)[0] == ("secret", ".env")


# --- weights, code, map ----------------------------------------------------------------------------------------------


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_weights_that_are_missing_or_broken(folder):
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    assert found(folder) == [("weights", "model.safetensors")]
    weights.unlink()
    assert found(folder) == [("weights", "model.safetensors")]

    def weights_of(folder: Path) -> list[tuple[str, str]]:
        return [(one.check, one.file) for one in check_module._check_weights(folder, relative_files(folder))]

    path, parts = folder / "model.safetensors.index.json", [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    path.write_text(json.dumps({"weight_map": dict(zip("ab", parts, strict=True))}))
    (folder / parts[0]).write_bytes(whole)
    assert found(folder) == [("weights", parts[1])]
    (folder / parts[1]).write_bytes(whole)
    assert weights_of(folder) == []
    weights.write_bytes(whole)  # beside its parts: of which training?
    assert weights_of(folder) == [("weights", path.name)]
    path.unlink()
    assert weights_of(folder) == [("weights", part) for part in parts]
    path.write_text('["no index"]')
    assert weights_of(folder) == [("weights", path.name)]


def test_links(folder, tmp_path):
    (folder / "lost.txt").symlink_to(tmp_path / "nowhere")
    (folder / "docs").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "token.txt").write_text(TOKEN)
    (folder / "token.txt").symlink_to(tmp_path / "token.txt")
    report = check_files(folder, "it", load=False)
    assert [(one.check, one.file) for one in report.findings] == [("path", "lost.txt"), ("secret", "token.txt")]
    assert report.notes[0] == "docs: it was not looked into, since it is a link to another folder."


def test_code_that_is_missing(folder):
    (folder / "positions.py").unlink()
    assert found(folder) == [("code", "positions.py")]


@pytest.mark.parametrize(
    "line",
    ["import regard", "from regard.modeling.layers import x", "from . import layers", "from .sub.x import y",
     "from ..x import y", "import pandas", "def broken(:"],
)  # fmt: skip
def test_code_that_nobody_else_can_import(line, folder):
    path = folder / "losses.py"
    path.write_text(f"{line}\n{path.read_text()}")
    assert found(folder) == [("code", "losses.py")]


def test_code_that_may_be_missing_is_no_fault(folder):
    path = folder / "losses.py"
    path.write_text(f"try:\n    import flash_attn\nexcept ImportError:\n    pass\n{path.read_text()}")
    assert found(folder) == []


def test_only_code_that_is_reached_is_taken(run):
    assert set(code_files(run)) == {path.name for path in run.glob("*.py")}


@pytest.mark.parametrize(
    ("change", "file"),
    [
        (lambda auto_map: auto_map.pop("AutoConfig"), "config.json"),
        (lambda auto_map: auto_map.pop("AutoModelForSequenceClassification"), "config.json"),
        (lambda auto_map: auto_map.clear(), "config.json"),
        (lambda auto_map: auto_map.update(AutoModel="modeling_decoder.Nothing"), "modeling_decoder.py"),
        (lambda auto_map: auto_map.update(AutoModel="eve/x--modeling_decoder.TransformerDecoderModel"), "config.json"),
        (lambda auto_map: auto_map.update(AutoModel="eve/x--elsewhere.Model"), "config.json"),
        (lambda auto_map: auto_map.update(AutoModel="modeling_decoder"), "config.json"),
        (lambda auto_map: auto_map.update(AutoModel="modeling_decoder.sub.Model"), "config.json"),
    ],
)
def test_a_map_that_is_not_full(change, file, folder):
    config = json.loads((folder / "config.json").read_text())
    change(config["auto_map"])
    (folder / "config.json").write_text(json.dumps(config))
    assert found(folder) == [("auto-map", file)]


def test_a_folder_without_a_model(tmp_path):
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n# x\n")
    assert found(tmp_path) == [("auto-map", "config.json"), ("weights", "model.safetensors")]


# --- the card --------------------------------------------------------------------------------------------------------


def test_no_card(folder):
    (folder / "README.md").unlink()
    assert found(folder) == [("metadata", "README.md"), ("licence", "")]


def test_no_licence(folder):
    edit(folder / "README.md", "license: apache-2.0\n", "")
    assert found(folder) == [("licence", "README.md")]


@pytest.mark.parametrize("licence", ["unknown", "mine", "other", "[mit, mine]", "{name: mit}"])
def test_a_licence_that_says_nothing(licence, folder):
    edit(folder / "README.md", "license: apache-2.0\n", f"license: {licence}\n")
    assert found(folder) == [("licence", "README.md")]


def test_a_licence_of_another_name(folder):
    edit(folder / "README.md", "license: apache-2.0\n", "license: other\nlicense_name: house\n")
    assert found(folder) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("library_name: transformers", "library_name: [transformers"),
        ("pipeline_tag: text-generation", "pipeline_tag: guessing"),
        ("pipeline_tag: text-generation", "pipeline_tag: [text-generation]"),
        ("- regard\n", "- 5\n"),
        ("license:", "language: German\nlicense:"),
        ("license:", "datasets: a/b/c\nlicense:"),
        ("value: 2.0", "value: .nan"),
        ("value: 2.0", "value: two"),
        ("type: text-generation", "kind: text-generation"),
    ],
)
def test_metadata_that_the_hub_would_not_take(old, new, folder):
    edit(folder / "README.md", old, new)
    assert set(found(folder)) == {("metadata", "README.md")}


def test_metadata_problems_name_the_field():
    assert metadata_problems({"license": "mit", "language": ["de", "pt-BR"], "datasets": ["user/some.data"]}) == []
    problems = metadata_problems({"model-index": [{"name": "x", "results": [{"metrics": [{"type": "bleu"}]}]}]})
    assert problems[0] == "model-index[0].results[0].task.type is missing."
    assert problems[-1] == "model-index[0].results[0]: bleu is None, which is no number."


def test_a_picture_that_is_not_there(folder):
    (folder / "loss_curve.png").unlink()
    path = folder / "README.md"
    shown = ["![Loss](loss_curve.png)", "![Elsewhere](https://example.org/x.png)", '<img width="9" src="lost.png">']
    path.write_text("\n".join([path.read_text(), *shown, "![A b](a%20b.png)"]))
    (folder / "a b.png").write_bytes(b"\x89PNG")
    problems = [finding.problem for finding in check_files(folder, "it", load=False).findings]
    assert problems == [f"it shows the picture '{name}', which is not in the folder." for name in (
        "loss_curve.png", "lost.png",
    )]  # fmt: skip


# --- loading elsewhere -----------------------------------------------------------------------------------------------


def test_a_run_loads_elsewhere_and_computes_the_same(run):
    """In one process, without regard and offline: every class of the map, tokenizer, outputs, saving again."""
    before = sorted(path.relative_to(run) for path in run.rglob("*"))
    report = check_folder(run)
    assert report.ok, report.findings
    assert report.classes == ["AutoModel", "AutoModelForCausalLM", "AutoModelForSequenceClassification"]
    assert report.checked == str(run)
    assert sorted(path.relative_to(run) for path in run.rglob("*")) == before


def test_what_is_found_by_loading(folder):
    """Code that computes something else, and weights that are missing."""
    edit(folder / "modeling_decoder.py", "self.lm_head(", "2 * self.lm_head(")
    weights = load_file(folder / "model.safetensors")
    lost = next(name for name in weights if name.endswith("out_proj.weight"))
    save_file({k: v for k, v in weights.items() if k != lost}, folder / "model.safetensors", {"format": "pt"})
    report = check_files(folder, "it")
    problems = [f"{finding.check} {finding.problem}" for finding in report.findings]
    assert any(problem.startswith("loading AutoModelForCausalLM misses weights: ") for problem in problems), problems
    assert any(problem.startswith("loading AutoModel misses weights: ") for problem in problems), problems
    assert any(problem.startswith("outputs AutoModelForCausalLM computes other logits") for problem in problems)
    assert not any("AutoModel computes" in problem for problem in problems)


def test_code_that_asks_for_regard_at_run_time_does_not_load(folder):
    path = folder / "losses.py"
    path.write_text(f'{path.read_text()}\n__import__("importlib").import_module("regard.modeling")\n')
    report = check_files(folder, "it")
    assert {finding.check for finding in report.findings} == {"loading"}
    assert all("No module named 'regard'" in finding.problem for finding in report.findings)


def test_code_of_a_stranger_is_not_run_unasked(folder):
    assert _is_own_code(folder)
    path = folder / "losses.py"
    path.write_text(f"{path.read_text()}\n# another version\n")
    assert not _is_own_code(folder)
    path.write_bytes((Path(check_module.regard.modeling.__file__).parent / "losses.py").read_bytes())
    assert _is_own_code(folder)
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text("def generate(): ...\n")  # which the library runs unasked
    assert not _is_own_code(folder)
    report = check_files(folder, "it", load=False)
    assert report.ok
    assert report.classes == []
    assert "--trust-remote-code" in report.notes[0]


def test_a_folder_that_is_not_there(tmp_path):
    for name in (tmp_path / "none", "./none", "a/b/c", "~/none"):
        with pytest.raises(ValueError, match="There is no folder"):
            check_folder(name)
    with pytest.raises(ValueError, match="'my runs' is neither a folder nor an id of the Hub"):
        check_folder("my runs")
    with pytest.raises(ValueError, match="revision 'v1': .* is a folder here"):
        check_folder(tmp_path, revision="v1")


def test_saved_again_it_must_be_the_same(folder, tmp_path):
    again = Path(shutil.copytree(folder, tmp_path / "again"))
    assert _fixed_point(folder, again, {"again": {"differing": []}}) == []
    assert _fixed_point(folder, tmp_path / "none", {}) == []  # it was not saved
    edit(again / "config.json", '"hidden_size": 16', '"hidden_size": 17')
    edit(again / "config.json", '"transformers_version": "', '"transformers_version": "9')  # says who wrote it
    (again / "losses.py").unlink()
    weights = load_file(again / "model.safetensors")
    first = next(iter(weights))
    save_file(weights | {first: weights[first].half()}, again / "model.safetensors")
    findings = _fixed_point(folder, again, {"again": {"differing": ["lm_head.weight"]}})
    assert [(one.check, one.file) for one in findings] == [
        ("round-trip", name) for name in ("", "config.json", "losses.py", "model.safetensors")
    ]
    assert "lm_head.weight" in findings[0].problem
    assert first in findings[-1].problem


@pytest.mark.parametrize(
    ("there", "words", "problem"),
    [
        ({}, [1], None),
        ({}, [2], "The tokenizer gives other tokens elsewhere than here."),
        ({"M.logits": torch.tensor([1.0, 2.001])}, [1], "M computes other logits elsewhere than here."),
        ({"M.logits": torch.ones(2, 1)}, [1], "M computes other logits elsewhere than here."),
        ({"M.ids": torch.tensor([4])}, [1], "M computes other ids elsewhere than here."),
        ({"M.more": torch.ones(1)}, [1], "M computes other more elsewhere than here."),
        ({"M.logits": torch.tensor([1.0, float("nan")])}, [1], "M computes other logits elsewhere than here."),
    ],
)
def test_what_is_compared(there, words, problem, tmp_path):
    ours = {"M.logits": torch.tensor([1.0, 2.0]), "M.ids": torch.tensor([3])}
    save_file(ours, tmp_path / "here")
    save_file(ours | there, tmp_path / "there")
    said = [{"tokenizer": one, "classes": {"M": {}}} for one in ({"ids": [1]}, {"ids": words})]
    assert [one.problem for one in _compare(*said, tmp_path)] == ([problem] if problem else [])


def test_outputs_that_are_no_numbers(tmp_path):
    for place in ("here", "there"):
        save_file({"M.logits": torch.tensor([float("nan")]), "N.loss": torch.tensor([-torch.inf])}, tmp_path / place)
    said = {"tokenizer": {}, "classes": {"M": {}, "N": {}, "O": {}}}
    assert [one.problem for one in _compare(said, said, tmp_path)] == [
        "M computes logits that are no numbers (NaN).", "O gives no output.",
    ]  # fmt: skip


def test_weights_that_the_main_class_does_not_know():
    said = {"prefix": "model", "missing": ["score.weight", "model.a"], "unexpected": ["old"]}
    assert [str(one) for one in _key_findings("M", said, main=True)] == [
        "M misses weights: score.weight, model.a.", "M does not know the weights old.",
    ]  # fmt: skip
    assert [str(one) for one in _key_findings("M", said, main=False)] == ["M misses weights: model.a."]


def test_a_model_of_few_positions(tmp_path):
    """What is generated must fit into the table too: 4 of 8 positions are read, and so 4 are written."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    places = {"position_embedding_type": "learned", "max_position_embeddings": 8, "eos_token_id": None}
    model = TransformerDecoderForCausalLM(TransformerDecoderConfig(vocab_size=20, **sizes, **places))
    model.save_pretrained(tmp_path / "model")
    job = {"folder": str(tmp_path / "model"), "texts": ["a"], "remote": False, "tensors": str(tmp_path / "out")}
    said = observe(job | {"classes": ["AutoModelForCausalLM"], "main": "AutoModelForCausalLM", "again": None})
    assert "error" not in said["classes"]["AutoModelForCausalLM"]
    assert load_file(tmp_path / "out")["AutoModelForCausalLM.generated"].shape == (1, 8)


def test_the_other_process_has_no_network():
    for event, arguments in (
        ("socket.connect", (None, ("192.0.2.1", 443))),
        ("socket.sendto", (None, ("192.0.2.1", 53))),
        ("socket.getaddrinfo", ("huggingface.co", 443, 0, 0, 0)),
        ("socket.gethostbyname", ("huggingface.co",)),
    ):
        with pytest.raises(OSError, match="the network was asked for"):
            refuse_network(event, arguments)
    refuse_network("socket.connect", (None, "a-socket-in-a-folder"))
    refuse_network("open", ("a file", "r", 0))


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        (lambda: types.SimpleNamespace(returncode=1, stderr="A\nB: c\n"), "It does not load elsewhere: B: c."),
        (lambda: types.SimpleNamespace(returncode=-9, stderr=""), "the process ended with status -9"),
        (
            lambda: (_ for _ in ()).throw(subprocess.TimeoutExpired("x", 9)),
            "does not load elsewhere within 900 seconds",
        ),
    ],
)
def test_another_process_that_fails(ends, sentence, tmp_path, monkeypatch):
    """And what it is given: neither tokens nor places where this package or files of other models are."""
    seen = {}

    def run_instead(command, **settings):
        seen.update(settings, command=command)
        return ends()

    monkeypatch.setattr(subprocess, "run", run_instead)
    for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_ENDPOINT", "HUGGING_FACE_HUB_TOKEN", "PYTHONPATH"):
        monkeypatch.setenv(name, "mine")
    report = CheckReport("it")
    assert check_module._observe_elsewhere({}, tmp_path, report) is None
    assert sentence in report.findings[0].problem
    assert "mine" not in seen["env"].values()
    assert (seen["env"]["HF_HUB_OFFLINE"], seen["cwd"], seen["timeout"]) == ("1", tmp_path, 900)
    assert seen["command"][1] == "-P"


def test_the_command_says_what_it_found(folder):
    (folder / "README.md").unlink()
    (folder / "config.json").write_text(f'{{"note": "{TOKEN}"}}')
    words = [sys.executable, "-m", "regard", "check", str(folder), "--json"]
    result = subprocess.run(words, capture_output=True, text=True, cwd=folder.parent, timeout=120)
    assert result.returncode == 1, result.stderr
    said = json.loads(result.stdout)
    assert said["ok"] is False
    assert {finding["check"] for finding in said["findings"]} >= {"secret", "metadata", "licence", "auto-map"}
    assert TOKEN not in result.stdout + result.stderr
