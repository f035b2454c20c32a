"""Publishing on a real server with the real client: what is there afterwards, and what when something goes wrong."""

import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import huggingface_hub.constants
import pytest
from huggingface_hub import HfApi
from safetensors.torch import load
from transformers import TrainingArguments
from transformers.trainer_utils import HubStrategy

from regard.model_cards import hub as hub_module
from regard.model_cards import publish as publish_module
from regard.model_cards.card import write_card
from regard.model_cards.check import check_files, check_folder
from regard.model_cards.hub import HubError
from regard.model_cards.publish import NotPublishable, is_outdated, publish, push_checkpoint
from regard.model_cards.staging import stage
from regard.train.recipe import load_recipe
from regard.train.run import train
from regard.train.sections import RecipeError
from regard.train.trainer import RegardTrainer

from .hub_server import HubServer
from .tiny_run import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def changed(run, tmp_path):
    """The run with another history."""
    folder = Path(shutil.copytree(run, tmp_path / "changed"))
    (folder / "history.json").write_text('[{"step": 1, "loss": 2.0}]')
    return folder


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A server of which this process's client knows; `waits` are the seconds that somebody wanted to wait."""
    with HubServer(tmp_path / "hub") as server:
        server.waits = server.online(monkeypatch)
        monkeypatch.setattr(hub_module, "time", types.SimpleNamespace(sleep=server.waits.append))
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", server.token("ada"))
        # Loading in another process takes seconds; that it happens is tested below, and in test_check.
        light = lambda *words, **settings: check_files(*words, **settings, load=False)  # noqa: E731
        monkeypatch.setattr(publish_module, "check_files", light)
        yield server


def of_the_model(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name != ".gitattributes"}


def commits(hub: HubServer, repo: str = "ada/tiny", revision: str = "main") -> list[str]:
    return [commit["title"] for commit in hub.repo(repo).history(revision)]


# --- what is there ---------------------------------------------------------------------------------------------------


def test_one_private_commit_with_all_of_it(run, hub):
    result = publish(run, "tiny")
    assert (result.repo, result.private, result.url) == ("ada/tiny", True, f"{hub.url}/ada/tiny")
    assert hub.repo("ada/tiny").private
    assert commits(hub) == ["Publish tiny", "initial commit"]
    assert result.commit == hub.repo("ada/tiny").at("main")["id"]
    files = of_the_model(hub.files("ada/tiny"))
    assert {name: len(content) for name, content in files.items()} == result.files
    assert files["model.safetensors"] == (run / "model.safetensors").read_bytes()
    assert files["modeling_decoder.py"] == (run / "modeling_decoder.py").read_bytes()
    assert b'path = "ada/tiny"' in files["README.md"]
    assert str(run.parent).encode() not in b"".join(files.values())
    assert result.left_out == ["checkpoint-3/"]


def test_that_a_card_written_by_hand_stays_here_is_told(changed, tmp_path):
    card = write_card(changed)
    assert not any("rendered" in note for note in stage(changed, tmp_path / "as rendered").notes)
    card.write_text(card.read_text() + "My own words.\n")
    staged = stage(changed, tmp_path / "by hand")
    assert "README.md: the card is rendered from the run's records" in " ".join(staged.notes)
    assert "My own words" not in (staged.folder / "README.md").read_text()


def test_a_recipe_that_cannot_be_read_is_named(changed, tmp_path):
    (changed / "recipe.yaml").write_text("model: [")
    with pytest.raises(ValueError, match="recipe.yaml is not valid YAML"):
        stage(changed, tmp_path / "staged")


def test_published_again_nothing_is_sent_and_no_commit_made(run, hub):
    first = publish(run, "tiny", message="First")
    uploads = [seen for seen in hub.requests if seen.route == "lfs_upload"]
    again = publish(run, "tiny")
    assert again.commit == first.commit
    assert commits(hub) == ["First", "initial commit"]
    assert [seen for seen in hub.requests if seen.route == "lfs_upload"] == uploads


def test_open_from_the_beginning_and_opened_later(run, hub):
    assert publish(run, "open", public=True).private is False
    assert not hub.repo("ada/open").private
    publish(run, "tiny")
    assert publish(run, "tiny", public=True).private is False
    assert not hub.repo("ada/tiny").private


def test_a_public_repository_is_not_written_to_unasked(run, hub):
    publish(run, "open", public=True)
    before = hub.repo("ada/open").at("main")["id"]
    with pytest.raises(ValueError, match="'ada/open' is public already"):
        publish(run, "open", message="Other")
    assert hub.repo("ada/open").at("main")["id"] == before


def test_a_branch_and_a_tag(run, changed, hub):
    result = publish(run, "tiny", branch="trial", tag="v1")
    repo = hub.repo("ada/tiny")
    assert set(hub.files("ada/tiny")) == {".gitattributes"}
    assert repo.refs["refs/heads/trial"] == repo.refs["refs/tags/v1"] == result.commit
    assert b'revision = "v1"' in hub.files("ada/tiny", "trial")["README.md"]
    with pytest.raises(ValueError, match="has a tag 'v1' already"):
        publish(changed, "tiny", tag="v1")
    assert publish(run, "tiny", branch="trial", tag="v1").commit == result.commit  # which is what it names


def test_a_pull_request_to_somebody_else(run, changed, hub, monkeypatch):
    publish(run, "tiny", public=True)
    main = hub.repo("ada/tiny").at("main")["id"]
    monkeypatch.setenv("HF_TOKEN", hub.token("eve"))
    result = publish(changed, "ada/tiny", pull_request=True, message="Better")
    assert result.url == f"{hub.url}/ada/tiny/discussions/1"
    assert hub.repo("ada/tiny").at("main")["id"] == main
    assert hub.files("ada/tiny", "refs/pr/1")["history.json"] == (changed / "history.json").read_bytes()
    assert publish(run, "ada/tiny", pull_request=True).commit == main  # nothing to propose, and so nothing is
    (changed / "history.json").write_text("[]")
    weights = bytearray((changed / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (changed / "model.safetensors").write_bytes(weights)  # a large file, into the proposal that is open
    assert publish(changed, "ada/tiny", pull_request=True, message="Better").url == result.url
    assert hub.files("ada/tiny", "refs/pr/1")["model.safetensors"] == weights
    with pytest.raises(HubError, match="There is no model 'ada/none'"):
        publish(run, "ada/none", pull_request=True)


def test_what_an_earlier_version_left_behind_is_removed(run, hub):
    publish(run, "tiny")
    api = hub.api(hub.token("ada"))
    for name in ("training_args.bin", "modeling_rnn.py", "losses.py", "runs/x/events.out.tfevents.1.lab.2.0",
                 "last-checkpoint/optimizer.pt", "handler.py", "LICENSE", "docs/a.md"):  # fmt: skip
        api.upload_file(path_or_fileobj=b"old", path_in_repo=name, repo_id="ada/tiny")
    result = publish(run, "tiny")
    assert set(result.removed) == {
        "training_args.bin", "runs/x/events.out.tfevents.1.lab.2.0", "last-checkpoint/optimizer.pt",
    }  # fmt: skip
    assert {"handler.py", "LICENSE", "docs/a.md", "modeling_rnn.py"} <= set(hub.files("ada/tiny"))
    assert hub.files("ada/tiny")["losses.py"] == (run / "losses.py").read_bytes()


@pytest.mark.parametrize(
    ("name", "outdated"),
    [("modeling_encoder.py", True), ("pytorch_model.bin", True), ("vocab.txt", True), ("config.json", False),
     ("README.md", False), (".gitattributes", False), ("onnx/model.safetensors", False)],
)  # fmt: skip
def test_what_is_taken_for_outdated(name, outdated):
    assert is_outdated(name) is outdated


def test_a_dry_run_asks_nothing(run, hub):
    result = publish(run, "tiny", dry_run=True)
    assert hub.requests == []
    assert result.files["model.safetensors"] == (run / "model.safetensors").stat().st_size
    assert result.url is None


@pytest.mark.parametrize("settings", [{"branch": "b"}, {"tag": "t"}, {"public": True}])
def test_arguments_that_exclude_one_another(run, settings):
    with pytest.raises(ValueError, match="A pull request (goes to main|opens no repository)"):
        publish(run, "tiny", pull_request=True, **settings)


@pytest.mark.parametrize("name", ["", "v 1", "-v", "v1.lock", "a..b", "/a", "a/", "a//b", "v~1", "refs/pr/1", "a/.b"])
def test_names_that_git_does_not_take(name, run):
    """As `git check-ref-format` has them: found before the commit, which a tag would come after."""
    for what in ("branch", "tag"):
        with pytest.raises(ValueError, match=f"'{name}' is no name for a {what}"):
            publish(run, "tiny", **{what: name})


def test_what_the_check_finds_is_not_sent(run, hub, tmp_path):
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    (folder / "losses.py").unlink()
    with pytest.raises(NotPublishable, match=r"was not published\. losses\.py: it is needed and missing\."):
        publish(folder, "tiny")
    assert hub.repo("ada/tiny") is None


def test_no_run_and_no_name(run, tmp_path):
    with pytest.raises(ValueError, match="There is no folder"):
        publish(tmp_path / "none", "tiny")
    with pytest.raises(ValueError, match="no name for a repository"):
        publish(run, "a/b/c")


# --- what goes wrong -------------------------------------------------------------------------------------------------

PASSING = {
    "the upload breaks off": ("lfs_upload", {"drop": "request"}),
    "the upload's answer is lost": ("lfs_upload", {"drop": "response"}),
    "the upload arrives damaged": ("lfs_upload", {"damage": True}),
    "too many requests": ("preupload", {"status": 429, "retry_after": 7}),
    "the server stumbles at the commit": ("commit", {"status": 500}),
    "the commit breaks off": ("commit", {"drop": "request"}),
    "somebody else writes at the same time": ("commit", {"status": 412}),
    "the commit's answer is lost": ("commit", {"drop": "response"}),
    "the repository's answer is lost": ("create_repo", {"drop": "response"}),
    "busy at the beginning": ("whoami", {"status": 503, "times": 2}),
    "busy at the end": ("create_tag", {"status": 503}),
    "the tag's answer is lost": ("create_tag", {"drop": "response"}),
    "the listing breaks off": ("tree", {"drop": "response"}),
}


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_is_waited_for(fault, run, hub):
    route, how = PASSING[fault]
    hub.fail(route, **how)
    result = publish(run, "tiny", tag="v1")
    assert hub.waits
    assert commits(hub) == ["Publish tiny", "initial commit"]
    assert hub.repo("ada/tiny").refs["refs/tags/v1"] == result.commit
    assert {name: len(content) for name, content in of_the_model(hub.files("ada/tiny")).items()} == result.files
    if "retry_after" in how:
        assert max(hub.waits) >= 7


def test_a_pull_request_whose_answer_is_lost_is_not_made_twice(run, changed, hub):
    publish(run, "tiny")
    hub.fail("commit", drop="response")
    result = publish(changed, "tiny", pull_request=True, message="Better")
    assert [discussion["title"] for discussion in hub.repo("ada/tiny").discussions] == ["Better"]
    assert result.url == f"{hub.url}/ada/tiny/discussions/1"
    assert result.commit == hub.repo("ada/tiny").refs["refs/pr/1"]


def test_a_file_that_was_damaged_on_its_way_is_sent_again(run, hub, capsys):
    hub.fail("commit", damage=True)  # which the server takes
    result = publish(run, "tiny")
    assert "arrived damaged while sending the files: trying again" in capsys.readouterr().err
    assert commits(hub) == ["Publish tiny", "Publish tiny", "initial commit"]
    assert result.commit == hub.repo("ada/tiny").at("main")["id"]
    for name, content in of_the_model(hub.files("ada/tiny")).items():
        if (run / name).is_file() and name not in ("README.md", "recipe.yaml"):
            assert content == (run / name).read_bytes(), name


def test_what_stays_damaged_is_not_called_done(run, hub):
    hub.fail("commit", damage=True, times=1000)
    with pytest.raises(
        HubError, match="arrived damaged while sending the files, 5 times: .* is not right yet, and the"
    ):
        publish(run, "tiny")
    hub.heal()
    result = publish(run, "tiny")
    assert {name: len(content) for name, content in of_the_model(hub.files("ada/tiny")).items()} == result.files


@pytest.mark.parametrize(
    ("route", "sentence"),
    [
        ("create_tag", "the files are there, and the tag 'v1' is not yet"),
        ("settings", "all is there, and still private"),
    ],
)
def test_a_fault_after_the_commit(route, sentence, run, hub):
    hub.api(hub.token("ada")).create_repo("ada/tiny", private=True)
    hub.fail(route, status=503, times=1000)
    with pytest.raises(HubError, match=f"5 times: {sentence}, and the same command goes on from there"):
        publish(run, "tiny", tag="v1", public=True)
    hub.heal()
    result = publish(run, "tiny", tag="v1", public=True)
    assert commits(hub) == ["Publish tiny", "initial commit"]
    assert hub.repo("ada/tiny").refs["refs/tags/v1"] == result.commit
    assert not hub.repo("ada/tiny").private


@pytest.mark.parametrize(
    ("name", "moment"), [("model.safetensors", "preupload_lfs_files"), ("history.json", "create_commit")]
)
def test_a_run_that_is_written_to_meanwhile(name, moment, changed, hub, monkeypatch):
    """What is sent is what was checked: of large files that is said, of small ones there are copies."""
    there, before = getattr(HfApi, moment), (changed / name).read_bytes()

    def write_first(self, *words, **settings):
        (changed / name).write_bytes(before + b" ")
        return there(self, *words, **settings)

    monkeypatch.setattr(HfApi, moment, write_first)
    if name == "history.json":
        publish(changed, "tiny")
        assert hub.files("ada/tiny")[name] == before
        return
    with pytest.raises(HubError, match=f"^{name} changed while it was on its way: run the same command again when"):
        publish(changed, "tiny")
    assert set(hub.files("ada/tiny")) == {".gitattributes"}


def test_what_the_repository_ignores_is_not_left_out_in_silence(run, hub):
    api = hub.api(hub.token("ada"))
    api.create_repo("ada/tiny", private=True)
    api.upload_file(path_or_fileobj=b"logs/\n", path_in_repo=".gitignore", repo_id="ada/tiny")
    with pytest.raises(HubError, match=r"The \.gitignore of 'ada/tiny' keeps logs/events\S+ out: change it there"):
        publish(run, "tiny")
    assert set(hub.files("ada/tiny")) == {".gitattributes", ".gitignore"}


@pytest.mark.parametrize("route", ["lfs_upload", "preupload", "commit"])
def test_after_a_fault_that_stays_nothing_is_to_be_seen_and_the_same_call_completes(route, run, hub):
    hub.fail(route, status=503, times=1000)
    with pytest.raises(HubError, match="503 while sending the files, 5 times"):
        publish(run, "tiny")
    assert set(hub.files("ada/tiny")) == {".gitattributes"}
    hub.heal()
    before = sum(seen.route == "lfs_upload" and seen.status == 200 for seen in hub.requests)
    result = publish(run, "tiny")
    assert {name: len(content) for name, content in of_the_model(hub.files("ada/tiny")).items()} == result.files
    sent = sum(seen.route == "lfs_upload" and seen.status == 200 for seen in hub.requests) - before
    large = [entry for entry in hub.repo("ada/tiny").at("main")["files"].values() if entry["lfs"]]
    assert sent == (0 if route == "commit" else len(large))  # what came through is not sent again


def test_tokens_that_may_not(run, hub, monkeypatch):
    for token, sentence in (
        (hub.token("ada", write=False), "may only read: make one with write access"),
        ("hf_" + "x" * 34, "The Hub does not know the token"),
        (hub.token("eve"), r"The token may not write to 'ada/tiny' \(.*rights.*\): make one with write access"),
    ):
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(HubError, match=sentence) as caught:
            publish(run, "ada/tiny")
        assert "\n" not in str(caught.value)
        assert token not in str(caught.value)
    assert hub.repo("ada/tiny") is None
    assert hub.waits == []  # that does not pass


def test_a_right_to_write_that_is_missing_at_the_commit(run, hub, monkeypatch):
    publish(run, "tiny", public=True)
    before = hub.repo("ada/tiny").at("main")["id"]
    monkeypatch.setenv("HF_TOKEN", hub.token("eve"))
    with pytest.raises(HubError, match="The token may not write to 'ada/tiny'"):
        publish(run, "ada/tiny", public=True)
    assert hub.repo("ada/tiny").at("main")["id"] == before


def test_no_token_and_no_network(run, hub, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(run / "none"))
    with pytest.raises(HubError, match=r"(no token|does not know the token).*hf auth login"):
        publish(run, "tiny")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set"):
        publish(run, "tiny", token="hf_x")


def test_a_card_that_the_hub_does_not_take(run, hub, monkeypatch):
    hub.fail("validate_yaml", status=400)
    with pytest.raises(HubError, match="The Hub does not take it: "):
        publish(run, "tiny")
    assert set(hub.files("ada/tiny")) == {".gitattributes"}


def test_a_repository_is_checked_by_its_id(run, hub, monkeypatch):
    publish(run, "tiny")
    with pytest.raises(HubError, match="holds model.safetensors, which is larger than 20,000 bytes"):
        check_folder("ada/tiny", max_file_bytes=20_000)
    with pytest.raises(HubError, match="There is no model 'ada/none' on the Hub"):
        check_folder("ada/none")
    with pytest.raises(HubError, match="no such branch, tag or commit"):
        check_folder("ada/tiny", revision="v9")
    monkeypatch.setenv("HF_TOKEN", hub.token("eve"))
    with pytest.raises(HubError, match="There is no model 'ada/tiny' on the Hub, or the token may not read it"):
        check_folder("ada/tiny")


def test_code_of_somebody_else_is_not_run_unasked(run, hub):
    publish(run, "tiny")
    code = b"raise AssertionError('it was run')"
    api = hub.api(hub.token("ada"))
    api.upload_file(path_or_fileobj=code, path_in_repo="custom_generate/generate.py", repo_id="ada/tiny")
    report = check_folder("ada/tiny")
    assert (report.ok, report.classes) == (True, [])
    assert "--trust-remote-code runs it" in report.notes[0]


# --- Trainer's push_to_hub -------------------------------------------------------------------------------------------

TINY = [
    "model.hidden_size=16", "model.num_hidden_layers=1", "model.num_attention_heads=2", "model.intermediate_size=32",
    "tokenizer.max_length=32", "data.block_size=16", "training.max_steps=4", "training.per_device_train_batch_size=2",
    "training.eval_steps=4", "training.save_steps=2", "training.logging_steps=1", "training.warmup_steps=1",
    "evaluation.samples=1", "evaluation.max_new_tokens=4", "training.push_to_hub=true",
]  # fmt: skip


def recipe(folder: Path, *more: str):
    for name in ("train", "valid"):
        (folder / f"{name}.txt").write_text("the cat saw the dog, and the dog saw the cat.\n" * 20)
    files = [f"data.train={folder}/train.txt", f"data.validation={folder}/valid.txt"]
    return load_recipe("language-modeling/tinyshakespeare-char", [*TINY, *files, *more])


def test_push_to_hub_keeps_the_same_repository_while_it_trains(tmp_path, hub):
    run = tmp_path / "runs" / "tiny"
    train(recipe(tmp_path), str(run))
    titles = commits(hub)
    assert titles[0] == "End of training"
    assert titles[-2:] == ["Training in progress, step 2", "initial commit"]
    repo = hub.repo("ada/tiny")
    assert repo.private
    states = {commit["title"]: commit for commit in repo.history("main")}
    half = hub.files("ada/tiny", states["Training in progress, step 2"]["id"])
    whole = hub.files("ada/tiny")
    for files in (half, whole):
        assert {"config.json", "model.safetensors", "tokenizer.json", "modeling_decoder.py", "README.md",
                "recipe.yaml"} <= set(files)  # fmt: skip
        assert not [name for name in files if name.endswith((".bin", ".pt", ".pth")) or "checkpoint" in name]
        assert set(json.loads(files["config.json"])["auto_map"]) >= {"AutoConfig", "AutoModel", "AutoModelForCausalLM"}
        assert b'path = "ada/tiny"' in files["README.md"]
        assert b"license: apache-2.0" in files["README.md"]
        assert str(tmp_path).encode() not in b"".join(files.values())
        assert any(name.startswith("logs/events.out.tfevents.") for name in files)
    assert whole["model.safetensors"] == (run / "model.safetensors").read_bytes() != half["model.safetensors"]
    assert "metrics.json" in whole
    assert "metrics.json" not in half
    assert not (run / ".publishing").exists()


def test_weights_of_somebody_else_keep_their_licence_while_they_are_tuned(tmp_path, hub):
    """With LoRA: what is published is whole at each save, and at the end the adapter lies beside it."""
    pytest.importorskip("peft")
    start = tmp_path / "runs" / "start"
    adam = ["training.optim=adamw_torch", "training.optim_args=null"]
    train(recipe(tmp_path, *adam, "training.push_to_hub=false", "training.max_steps=1"), str(start))
    (start / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    run = tmp_path / "runs" / "tiny"
    train(recipe(tmp_path, *adam, f"model.start_from={start}", "training.lora={r: 2}"), str(run))
    states = {commit["title"]: commit for commit in hub.repo("ada/tiny").history("main")}
    half = hub.files("ada/tiny", states["Training in progress, step 2"]["id"])
    whole = hub.files("ada/tiny")
    for files in (half, whole):
        assert b"license: mit" in files["README.md"]
        assert b"which its card states as `mit`" in files["README.md"]
        assert "apart.safetensors" not in files
        assert str(tmp_path).encode() not in b"".join(files.values())
    assert {"adapter/adapter_config.json", "adapter/adapter_model.safetensors"} <= whole.keys()
    assert {name for name in load(whole["model.safetensors"])} == {name for name in load(half["model.safetensors"])}


def test_a_push_that_fails_ends_no_training(tmp_path, hub, capsys):
    run = tmp_path / "runs" / "tiny"
    hub.fail("preupload", status=403, times=1)
    train(recipe(tmp_path, "training.save_steps=4"), str(run))
    assert (
        "checkpoint-4 was not published, and the training goes on: The token may not write" in capsys.readouterr().err
    )
    assert commits(hub) == ["End of training", "initial commit"]


def test_a_checkpoint_is_looked_through_too(changed, hub, capsys):
    hub.api(hub.token("ada")).create_repo("ada/tiny", private=True)
    checkpoint = changed / "checkpoint-3"
    push_checkpoint(changed, checkpoint, "ada/tiny", "Step 3", branch="trial").result()
    assert commits(hub, revision="trial") == ["Step 3", "initial commit"]
    assert set(hub.files("ada/tiny")) == {".gitattributes"}
    (checkpoint / "tokenizer_config.json").write_text(json.dumps({"token": "hf_" + "aB3" * 11}))
    push_checkpoint(changed, checkpoint, "ada/tiny", "Step 4").result()
    assert "checkpoint-3 was not published, and the training goes on: tokenizer_config" in capsys.readouterr().err
    assert commits(hub) == ["initial commit"]
    assert not (changed / ".publishing").exists()


def test_a_token_that_may_not_write_is_found_before_the_work(tmp_path, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", hub.token("ada", write=False))
    with pytest.raises(HubError, match="may only read"):
        train(recipe(tmp_path), str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("training.hub_strategy=checkpoint", "'checkpoint' would publish the states of the optimiser"),
        ("training.hub_strategy=all_checkpoints", "it is 'every_save' or 'end'"),
        ("training.hub_token=hf_x", "training.hub_token does not belong in a recipe"),
    ],
)
def test_settings_that_would_give_something_away(setting, sentence, tmp_path):
    with pytest.raises(RecipeError, match=sentence):
        recipe(tmp_path, setting)


def test_trainer_by_itself(run, tmp_path, hub, monkeypatch):
    """Outside of `regard train`, where there is no recipe: a card is rendered, with the licence that is given."""
    from regard.modeling import TransformerDecoderForCausalLM

    model = TransformerDecoderForCausalLM.from_pretrained(run)
    settings = {"report_to": "none", "use_cpu": True, "push_to_hub": True, "hub_strategy": "end"}
    trainer = RegardTrainer(model, TrainingArguments(str(tmp_path / "mine"), **settings))
    with pytest.raises(NotPublishable, match="no licence is stated"):
        trainer.push_to_hub()
    trainer.push_to_hub("Done", license="mit", tags="toy")
    assert commits(hub, "ada/mine") == ["Done", "initial commit"]
    files = hub.files("ada/mine")
    assert b"license: mit" in files["README.md"]
    assert "training_args.bin" not in files
    before = len(hub.requests)
    trainer.args.hub_strategy = HubStrategy.EVERY_SAVE
    trainer.push_in_progress = types.SimpleNamespace(is_done=lambda: False)
    trainer._push_from_checkpoint(str(run / "checkpoint-3"))  # the last one is not through yet
    assert len(hub.requests) == before
    trainer.push_in_progress, trainer.args.hub_revision = None, "trial"
    trainer._push_from_checkpoint(str(run / "checkpoint-3"))
    trainer._finish_current_push()
    assert commits(hub, "ada/mine", "trial") == ["Training in progress, step 0", *commits(hub, "ada/mine")]
    before = len(hub.requests)
    monkeypatch.setattr(trainer, "is_world_process_zero", lambda: False)  # as in the others of several processes
    trainer.push_in_progress = trainer.hub_model_id = None
    trainer._push_from_checkpoint(str(run / "checkpoint-3"))
    assert trainer.push_to_hub() is None
    assert len(hub.requests) == before
    with pytest.raises(ValueError, match="would publish the states"):
        RegardTrainer(model, TrainingArguments(str(tmp_path / "other"), **settings | {"hub_strategy": "checkpoint"}))


# --- the commands, and a reader without regard -----------------------------------------------------------------------

READER = """
import re, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "regard":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from huggingface_hub import ModelCard, snapshot_download
from transformers import AutoModel, AutoModelForCausalLM

card = ModelCard.load("ada/tiny")
snippet = re.search(r"```python\\n(.*?)```", card.content, re.DOTALL)[1]
exec(snippet)
print("class", type(model).__name__, type(model).__module__.split(".")[0])
print("base", type(AutoModel.from_pretrained("ada/tiny", trust_remote_code=True)).__name__)
print("licence", card.data.license)
print("folder", snapshot_download("ada/tiny", revision="v1"))
"""


def test_the_commands_and_a_reader_who_has_no_regard(run, tmp_path):
    with HubServer(tmp_path / "hub") as hub:
        environment = hub.env(hub.token("ada")) | {"OMP_NUM_THREADS": "1"}

        def call(*words: str, ok: int = 0) -> subprocess.CompletedProcess:
            result = subprocess.run(
                [sys.executable, *words], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300
            )
            assert result.returncode == ok, result.stderr[-3000:]
            return result

        listed = call("-m", "regard", "publish", str(run), "--repo", "ada/tiny", "--dry-run").stdout
        assert "model.safetensors" in listed
        assert "Stays here: checkpoint-3/" in listed
        assert hub.requests == []
        call("-m", "regard", "publish", str(run), "--repo", "tiny", "--tag", "v1", "--json")
        assert {"model.safetensors", "README.md"} <= set(hub.files("ada/tiny", "v1"))
        said = json.loads(call("-m", "regard", "check", "ada/tiny", "--json").stdout)
        assert said["ok"], said["findings"]
        assert "AutoModelForCausalLM" in said["classes"]  # its code is this version's own, and so it was run
        (tmp_path / "reader.py").write_text(READER)
        lines = dict(line.split(" ", 1) for line in call("reader.py").stdout.splitlines() if " " in line)
        assert lines["class"] == "TransformerDecoderForCausalLM transformers_modules"
        assert lines["base"] == "TransformerDecoderModel"
        assert lines["licence"] == "apache-2.0"
        assert os.path.isfile(os.path.join(lines["folder"], "model.safetensors"))
