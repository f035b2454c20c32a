"""The Hub of the tests against the real client: every route, every fault, and what is there afterwards."""

import hashlib
import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx2
import pytest
from huggingface_hub import (
    CommitOperationAdd,
    CommitOperationCopy,
    CommitOperationDelete,
    HfApi,
    HfFileSystem,
    ModelCard,
    create_repo,
    hf_hub_download,
)
from huggingface_hub.errors import (
    BadRequestError,
    EntryNotFoundError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import get_session

from .hub_server import GIT_ATTRIBUTES, HubServer

CARD = b"---\nlicense: apache-2.0\ntags: [tiny]\n---\n# A model\n"
WEIGHTS = bytes(range(256)) * 400
FILES = {
    "README.md": CARD,
    "config.json": b"{}\n",
    "model.safetensors": WEIGHTS,
    "logs/a b#1.txt": "ç 日本\n".encode(),
}
PUBLISHED = {".gitattributes": GIT_ATTRIBUTES, **FILES}


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with HubServer(tmp_path / "hub") as server:
        server.waits = server.online(monkeypatch)
        yield server
        # Nothing that the client asks for is missing here, but for a list of agents for its user agent string.
        assert set(server.unknown) <= {"GET /api/agent-harnesses"}


@pytest.fixture
def ada(hub) -> HfApi:
    """The client of a user who owns the empty repository ada/model."""
    api = hub.api(hub.token("ada"))
    api.create_repo("ada/model")
    return api


@pytest.fixture
def run(tmp_path) -> Path:
    """A folder with the files of `FILES`, to be uploaded."""
    for name, content in FILES.items():
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "run"


def publish(api: HfApi, run: Path, **options):
    return api.upload_folder(repo_id="ada/model", folder_path=run, **options)


def adding(**files: bytes) -> list[CommitOperationAdd]:
    return [CommitOperationAdd(name.replace("_", "."), io.BytesIO(content)) for name, content in files.items()]


def git_hash(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


# --------------------------------------------------------------------------------------------- users and repositories


@pytest.mark.parametrize("write", [True, False])
def test_a_token_says_whose_it_is_and_what_it_may(hub, write):
    me = hub.api(hub.token("ada", write=write, orgs=("lab",))).whoami()
    assert (me["name"], me["orgs"][0]["name"]) == ("ada", "lab")
    assert me["auth"]["accessToken"]["role"] == ("write" if write else "read")


def test_a_token_that_nobody_has_is_refused(hub, ada):
    with pytest.raises(HfHubHTTPError, match="Invalid user token"):
        hub.api("hf_wrong").whoami()
    with pytest.raises(HfHubHTTPError, match="Invalid credentials"):
        hub.api("hf_wrong").model_info("ada/model")


@pytest.mark.parametrize(("repo_type", "prefix"), [("model", ""), ("dataset", "datasets/")])
def test_a_repository_is_made_once_and_deleted(hub, repo_type, prefix):
    api = hub.api(hub.token("ada", orgs=("lab",)))
    for repo_id in ("ada/new", "lab/new"):
        url = api.create_repo(repo_id, repo_type=repo_type)
        assert (str(url), url.repo_id, url.repo_type) == (f"{hub.url}/{prefix}{repo_id}", repo_id, repo_type)
    assert api.create_repo("new", repo_type=repo_type, exist_ok=True).repo_id == "ada/new"
    with pytest.raises(HfHubHTTPError, match=f"already created this {repo_type}"):
        api.create_repo("ada/new", repo_type=repo_type)
    assert api.repo_exists("ada/new", repo_type=repo_type)
    assert not api.repo_exists("ada/new", repo_type="dataset" if repo_type == "model" else "model")
    assert hub.files("ada/new", repo_type=repo_type) == {".gitattributes": GIT_ATTRIBUTES}
    api.delete_repo("ada/new", repo_type=repo_type)
    assert not api.repo_exists("ada/new", repo_type=repo_type)
    assert hub.repo("ada/new", repo_type) is None
    with pytest.raises(RepositoryNotFoundError):
        api.delete_repo("ada/new", repo_type=repo_type)
    api.delete_repo("ada/new", repo_type=repo_type, missing_ok=True)


def test_a_namespace_belongs_to_its_user(hub, ada):
    for name in ("bob/model", "nobody/model"):
        with pytest.raises(HfHubHTTPError, match="403 Forbidden: You don't have the rights to create"):
            ada.create_repo(name)
    with pytest.raises(HfHubHTTPError, match="401"):
        hub.api().create_repo("ada/other")
    assert hub.repo("bob/model") is None


def test_a_private_repository_is_missing_for_everyone_else(hub, ada, run, tmp_path):
    ada.create_repo("ada/secret", private=True)
    ada.upload_file(repo_id="ada/secret", path_or_fileobj=b"x", path_in_repo="x.txt")
    assert ada.model_info("ada/secret").private
    for other, status in ((hub.api(), "401"), (hub.api(hub.token("bob")), "404")):
        for ask in (
            lambda api: api.model_info("ada/secret"),
            lambda api: api.hf_hub_download("ada/secret", "x.txt", cache_dir=tmp_path / "cache"),
            lambda api: api.snapshot_download("ada/secret", cache_dir=tmp_path / "cache"),
            lambda api: api.list_repo_files("ada/secret"),
            lambda api: api.list_repo_refs("ada/secret"),
            lambda api: api.get_paths_info("ada/secret", ["x.txt"]),
        ):
            with pytest.raises(RepositoryNotFoundError, match=status):
                ask(other)
            with pytest.raises(RepositoryNotFoundError, match=status):
                other.model_info("ada/missing")
    assert hub.api(hub.token("ada", write=False)).file_exists("ada/secret", "x.txt")
    ada.update_repo_settings("ada/secret", private=False)
    assert not hub.api().model_info("ada/secret").private
    ada.update_repo_settings("ada/secret", visibility="private")
    assert hub.repo("ada/secret").private


def test_a_repository_without_an_owner_is_missing(hub, ada, tmp_path):
    assert not ada.repo_exists("gpt2")
    with pytest.raises(RepositoryNotFoundError):
        ada.hf_hub_download("gpt2", "config.json", cache_dir=tmp_path)


@pytest.mark.parametrize("who", ["a reader", "another user"])
def test_who_may_not_write_changes_nothing(hub, ada, run, who):
    api = hub.api(hub.token("ada", write=False) if who == "a reader" else hub.token("bob"))
    message = "you must use a write token" if who == "a reader" else "pass `create_pr=1`"
    with pytest.raises(HfHubHTTPError, match=message):
        publish(api, run)
    for change in (
        lambda: api.create_branch("ada/model", branch="b"),
        lambda: api.create_tag("ada/model", tag="t"),
        lambda: api.update_repo_settings("ada/model", private=True),
        lambda: api.delete_repo("ada/model"),
        lambda: api.auth_check("ada/model", write=True),
    ):
        with pytest.raises(HfHubHTTPError, match="403"):
            change()
    api.auth_check("ada/model")
    assert hub.files("ada/model") == {".gitattributes": GIT_ATTRIBUTES}
    assert list(hub.repo("ada/model").refs) == ["refs/heads/main"]
    assert not Counter(seen.route for seen in hub.requests) & Counter(["lfs_upload", "lfs_batch"])


# ----------------------------------------------------------------------------------------------------------- uploading


def test_a_commit_holds_what_was_sent(hub, ada, run):
    info = publish(ada, run, commit_message="first", commit_description="why")
    assert info.oid == hub.repo("ada/model").refs["refs/heads/main"]
    assert info.commit_url == f"{hub.url}/ada/model/commit/{info.oid}"
    assert hub.files("ada/model") == PUBLISHED
    files = {file.path: file for file in ada.list_repo_tree("ada/model", recursive=True) if hasattr(file, "blob_id")}
    assert files.keys() == PUBLISHED.keys()
    for path, content in FILES.items():
        assert files[path].size == len(content)
        if path == "model.safetensors":
            assert files[path].lfs.sha256 == hashlib.sha256(content).hexdigest()
        else:
            assert files[path].lfs is None
            assert files[path].blob_id == git_hash(content)
    assert [seen.route for seen in hub.requests if seen.route.startswith("lfs_")] == [
        "lfs_batch",
        "lfs_upload",
        "lfs_verify",
    ]
    commits = ada.list_repo_commits("ada/model")
    assert [(commit.title, commit.message) for commit in commits] == [("first", "why"), ("initial commit", "")]
    assert commits[0].authors == ["ada"]


def test_what_is_large_goes_as_a_large_file(hub, ada):
    ada.create_commit(
        "ada/model",
        adding(a_txt=b"text", b_png=b"\x89PNG\0\0", c_safetensors=b"w", d_bin=b"", e_txt=b"x" * (10 * 2**20 + 1)),
        commit_message="kinds",
    )
    large = {path for path, entry in hub.repo("ada/model").at("main")["files"].items() if entry["lfs"]}
    assert large == {"b.png", "c.safetensors", "e.txt"}  # an empty file never is


def test_what_is_there_is_not_sent_again(hub, ada, run):
    first = publish(ada, run)
    before = Counter(seen.route for seen in hub.requests)
    assert publish(ada, run).oid == first.oid
    again = Counter(seen.route for seen in hub.requests) - before
    assert not again & Counter(["commit", "lfs_upload"])
    (run / "config.json").write_bytes(b'{"a": 1}')
    assert publish(ada, run).oid != first.oid
    assert hub.files("ada/model") == {**PUBLISHED, "config.json": b'{"a": 1}'}
    assert hub.files("ada/model", first.oid) == PUBLISHED


def test_what_the_repository_ignores_is_left_out_by_the_client(hub, ada, run):
    ada.upload_file(repo_id="ada/model", path_or_fileobj=b"logs/\nREADME.md\n", path_in_repo=".gitignore")
    publish(ada, run)
    assert hub.files("ada/model").keys() == {".gitattributes", ".gitignore", "config.json", "model.safetensors"}


def test_delete_and_copy(hub, ada, run):
    publish(ada, run)
    operations = [
        CommitOperationCopy("model.safetensors", "old/model.safetensors"),
        CommitOperationCopy("config.json", "old/config.json"),
        CommitOperationDelete("config.json"),
        CommitOperationDelete("logs/"),
    ]
    ada.create_commit("ada/model", operations, commit_message="move")
    moved = {"old/model.safetensors": WEIGHTS, "old/config.json": b"{}\n"}
    left = {path: PUBLISHED[path] for path in (".gitattributes", "README.md", "model.safetensors")}
    assert hub.files("ada/model") == {**left, **moved}


def test_a_commit_is_all_or_nothing(hub, ada, run):
    head = publish(ada, run).oid
    operations = [*adding(new_txt=b"new"), CommitOperationDelete("missing.txt")]
    with pytest.raises(EntryNotFoundError, match="A file with this name doesn't exist"):
        ada.create_commit("ada/model", operations, commit_message="half")
    large = CommitOperationAdd("ghost.bin", io.BytesIO(b"never uploaded"))
    large._upload_mode, large._is_uploaded = "lfs", True
    with pytest.raises(BadRequestError, match="a file that does not exist. Offending file: ghost.bin"):
        ada.create_commit("ada/model", [*adding(new_txt=b"new"), large], commit_message="half")
    assert hub.repo("ada/model").refs == {"refs/heads/main": head}
    assert hub.files("ada/model") == PUBLISHED


def test_a_commit_upon_an_old_one_is_refused(hub, ada, run):
    first = ada.model_info("ada/model").sha
    second = publish(ada, run, parent_commit=first[:10]).oid
    with pytest.raises(HfHubHTTPError, match=r"412[\s\S]*A commit has happened since"):
        ada.create_commit("ada/model", adding(a_txt=b"a"), commit_message="late", parent_commit=first)
    assert hub.repo("ada/model").refs["refs/heads/main"] == second


@pytest.mark.parametrize(
    ("card", "message"),
    [
        (b"---\na: [\n---\n", "YAML"),
        (b"---\n- a\n---\n", "object"),
        (b"---\nlicense: mine\n---\n", '"license" must be one of'),
        (b"---\nlicense: [mit, mine]\n---\n", '"license" must be one of'),
        (b"---\ntags: [1]\n---\n", '"tags" must be'),
        (b"---\nmodel-index: [{results: []}]\n---\n", r'"model-index\[0\].name" is required'),
        (
            b"---\nmodel-index: [{name: a, results: [{task: {type: t}, dataset: {type: d}, metrics: [{}]}]}]\n---\n",
            r'(?s)"model-index\[0\].results\[0\].dataset.name" is required.*metrics\[0\]" needs type and value',
        ),
    ],
)
def test_a_card_with_wrong_metadata_is_refused(hub, ada, run, monkeypatch, card, message):
    (run / "README.md").write_bytes(card)
    with pytest.raises(ValueError, match=message):
        publish(ada, run)
    monkeypatch.setattr(HfApi, "_validate_yaml", lambda *args, **kwargs: None)
    with pytest.raises(BadRequestError, match="Invalid metadata in README.md"):  # nor by a client that does not ask
        publish(ada, run)
    assert hub.files("ada/model") == {".gitattributes": GIT_ATTRIBUTES}


def test_the_metadata_of_a_card_shows_in_the_repository(hub, ada, run):
    with pytest.warns(UserWarning, match="empty or missing yaml metadata"):
        ada.upload_file(repo_id="ada/model", path_or_fileobj=b"# No metadata\n", path_in_repo="README.md")
    publish(ada, run)
    info = ada.model_info("ada/model", files_metadata=True)
    assert (info.card_data.license, info.tags) == ("apache-2.0", ["tiny", "license:apache-2.0"])
    assert {sibling.rfilename: sibling.size for sibling in info.siblings} == {k: len(v) for k, v in PUBLISHED.items()}
    assert {sibling.rfilename for sibling in info.siblings if sibling.lfs} == {"model.safetensors"}
    assert ada.model_info("ada/model", expand=["sha"]).siblings is None


def test_xet_is_not_served(hub, ada):
    answer = get_session().get(f"{hub.url}/api/models/ada/model/xet-write-token/main")
    assert (answer.status_code, "HF_HUB_DISABLE_XET" in answer.json()["error"]) == (404, True)


def test_what_the_server_does_not_know_is_noted(hub):
    hub.unknown.clear()
    answer = get_session().get(f"{hub.url}/api/spaces/ada/app?blobs=1")
    assert (answer.status_code, answer.json()["error"]) == (501, "The Hub of the tests has no such route")
    assert (hub.unknown, hub.requests) == (["GET /api/spaces/ada/app"], [])
    hub.unknown.clear()


# ------------------------------------------------------------------------------------------- listing and downloading


@pytest.mark.parametrize("page_size", [1, 2, 1000])
def test_listings_have_every_entry_once(hub, ada, run, page_size):
    publish(ada, run)
    (run / "logs" / "deep").mkdir()
    (run / "logs" / "deep" / "b.txt").write_text("b")
    publish(ada, run)
    hub.page_size = page_size
    top = [item.path for item in ada.list_repo_tree("ada/model")]
    assert top == [".gitattributes", "README.md", "config.json", "logs", "model.safetensors"]
    assert [item.path for item in ada.list_repo_tree("ada/model", "logs")] == ["logs/a b#1.txt", "logs/deep"]
    everything = [item.path for item in ada.list_repo_tree("ada/model", recursive=True)]
    assert everything == sorted([*PUBLISHED, "logs", "logs/deep", "logs/deep/b.txt"])
    assert sorted(ada.list_repo_files("ada/model")) == sorted([*PUBLISHED, "logs/deep/b.txt"])
    assert len(ada.list_repo_commits("ada/model")) == 3
    with pytest.raises(EntryNotFoundError):
        list(ada.list_repo_tree("ada/model", "missing"))
    info = ada.get_paths_info("ada/model", ["logs", "model.safetensors", "missing"])
    assert [(item.path, getattr(item, "size", None)) for item in info] == [
        ("logs", None),
        ("model.safetensors", 102400),
    ]


def test_a_file_comes_back_with_its_hash_and_its_commit(hub, ada, run, tmp_path):
    oid = publish(ada, run).oid
    for path, content in FILES.items():
        local = Path(ada.hf_hub_download("ada/model", path, cache_dir=tmp_path / "cache"))
        assert local.read_bytes() == content
        meta = ada.get_hf_file_metadata(url=f"{hub.url}/ada/model/resolve/main/{path.replace('#', '%23')}")
        assert (meta.commit_hash, meta.size) == (oid, len(content))
        large = path == "model.safetensors"
        assert meta.etag == (hashlib.sha256(content).hexdigest() if large else git_hash(content))
        assert (meta.location.split("?")[0].startswith(hub.url.replace("127.0.0.1", "localhost"))) == large
    snapshot = Path(ada.snapshot_download("ada/model", revision=oid, cache_dir=tmp_path / "other"))
    got = {str(path.relative_to(snapshot)): path.read_bytes() for path in snapshot.rglob("*") if path.is_file()}
    assert got == PUBLISHED


def test_storage_gives_a_large_file_to_whoever_has_its_link_and_to_nobody_else(hub, ada, run):
    publish(ada, run)
    link = ada.get_hf_file_metadata(url=f"{hub.url}/ada/model/resolve/main/model.safetensors").location
    assert get_session().get(link).content == WEIGHTS
    assert get_session().get(link[:-1]).status_code == 403
    assert get_session().get(link, headers={"Authorization": f"Bearer {ada.token}"}).status_code == 400


@pytest.mark.parametrize("path", ["model.safetensors", "README.md"])
def test_a_part_of_a_file(hub, ada, run, path):
    publish(ada, run)
    content = FILES[path]
    for asked, part in (("5-9", content[5:10]), ("7-", content[7:]), ("-3", content[-3:]), ("0-999999", content)):
        answer = get_session().get(f"{hub.url}/ada/model/resolve/main/{path}", headers={"Range": f"bytes={asked}"})
        assert (answer.status_code, answer.content) == (206, part)
        assert answer.headers["Content-Range"].endswith(f"/{len(content)}")
    answer = get_session().get(f"{hub.url}/ada/model/resolve/main/{path}", headers={"Range": "bytes=999999-"})
    assert answer.status_code == 416
    files = HfFileSystem(endpoint=hub.url, token=ada.token, skip_instance_cache=True)
    with files.open(f"ada/model/{path}", block_size=16) as file:
        file.seek(10)
        assert file.read(5) == content[10:15]


def test_what_is_missing_is_named_as_the_client_knows_it(hub, ada, run, tmp_path):
    publish(ada, run)
    with pytest.raises(EntryNotFoundError):
        ada.hf_hub_download("ada/model", "missing.json", cache_dir=tmp_path)
    assert list(tmp_path.glob("models--ada--model/.no_exist/*/missing.json"))  # remembered under its commit
    for revision in ("missing", "0" * 40):
        with pytest.raises(RevisionNotFoundError):
            ada.hf_hub_download("ada/model", "config.json", revision=revision, cache_dir=tmp_path)
        with pytest.raises(RevisionNotFoundError):
            ada.model_info("ada/model", revision=revision)
    assert not ada.revision_exists("ada/model", "missing")
    assert not ada.file_exists("ada/model", "missing.json")


# ------------------------------------------------------------------------------ branches, tags and pull requests


def test_branches_and_tags(hub, ada, run):
    start = ada.model_info("ada/model").sha
    ada.create_branch("ada/model", branch="run/1")
    ada.create_branch("ada/model", branch="run/1", exist_ok=True)
    with pytest.raises(HfHubHTTPError, match="Reference already exists"):
        ada.create_branch("ada/model", branch="run/1")
    with pytest.raises(BadRequestError, match="Invalid reference"):
        ada.create_branch("ada/model", branch="refs/pr/5")
    head = publish(ada, run, revision="run/1").oid
    assert hub.files("ada/model") == {".gitattributes": GIT_ATTRIBUTES}
    assert hub.files("ada/model", "run/1") == PUBLISHED
    ada.create_tag("ada/model", tag="v1", revision="run/1")
    ada.create_tag("ada/model", tag="v1", exist_ok=True)
    with pytest.raises(HfHubHTTPError, match="Tag reference exists"):
        ada.create_tag("ada/model", tag="v1")
    with pytest.raises(RevisionNotFoundError):
        ada.create_tag("ada/model", tag="v2", revision="missing")
    with pytest.raises(RevisionNotFoundError):
        publish(ada, run, revision="missing")
    refs = ada.list_repo_refs("ada/model")
    assert {branch.name: branch.target_commit for branch in refs.branches} == {"main": start, "run/1": head}
    assert {tag.name: tag.target_commit for tag in refs.tags} == {"v1": head}
    assert ada.model_info("ada/model", revision="v1").sha == head
    ada.create_branch("ada/model", branch="from-tag", revision="v1")
    assert hub.files("ada/model", "from-tag") == PUBLISHED
    (run / "config.json").write_text("[]")
    with pytest.raises(RevisionNotFoundError):  # a tag stays where it is
        publish(ada, run, revision="v1")
    ada.delete_branch("ada/model", branch="run/1")
    ada.delete_tag("ada/model", tag="v1")
    with pytest.raises(RevisionNotFoundError):
        ada.delete_tag("ada/model", tag="v1")
    with pytest.raises(HfHubHTTPError, match="403"):
        ada.delete_branch("ada/model", branch="main")
    assert list(hub.repo("ada/model").refs) == ["refs/heads/main", "refs/heads/from-tag"]


@pytest.mark.parametrize("name", ["ada", "bob"])
def test_a_pull_request_waits_beside_the_main_branch(hub, ada, run, tmp_path, name):
    api = hub.api(hub.token(name))
    info = publish(api, run, create_pr=True, commit_message="Add the model", commit_description="It is good.")
    assert (info.pr_url, info.pr_revision) == (f"{hub.url}/ada/model/discussions/1", "refs/pr/1")
    assert hub.files("ada/model") == {".gitattributes": GIT_ATTRIBUTES}
    assert hub.files("ada/model", "refs/pr/1") == PUBLISHED
    local = api.hf_hub_download("ada/model", "config.json", revision="refs/pr/1", cache_dir=tmp_path)
    assert Path(local).read_bytes() == b"{}\n"
    details = api.get_discussion_details("ada/model", 1)
    assert (details.title, details.author, details.status) == ("Add the model", name, "draft")
    assert (details.git_reference, details.target_branch) == ("refs/pr/1", "refs/heads/main")
    assert details.events[0].content == "It is good."
    refs = api.list_repo_refs("ada/model", include_pull_requests=True)
    assert [(pull.ref, pull.target_commit) for pull in refs.pull_requests] == [("refs/pr/1", info.oid)]
    api.create_commit(
        "ada/model", adding(more_bin=b"more"), commit_message="more", revision="refs/pr/1"
    )  # a large one
    assert hub.files("ada/model", "refs/pr/1") == {**PUBLISHED, "more.bin": b"more"}
    with pytest.raises(HfHubHTTPError, match="403"):
        hub.api(hub.token("eve")).upload_file(
            repo_id="ada/model", path_or_fileobj=b"x", path_in_repo="x.bin", revision="refs/pr/1"
        )


def test_discussions(hub, ada):
    ada.create_discussion("ada/model", title="A question", description="Why?")
    pull = ada.create_pull_request("ada/model", title="An answer")
    assert (pull.num, pull.git_reference) == (2, "refs/pr/2")
    assert hub.files("ada/model", "refs/pr/2") == hub.files("ada/model")
    hub.page_size = 1
    found = [(d.num, d.title, d.is_pull_request) for d in ada.get_repo_discussions("ada/model")]
    assert found == [(1, "A question", False), (2, "An answer", True)]
    with pytest.raises(HfHubHTTPError, match="Discussion not found"):
        ada.get_discussion_details("ada/model", 3)
    with pytest.raises(HfHubHTTPError, match="401"):
        hub.api().create_discussion("ada/model", title="Anonymous")


# -------------------------------------------------------------------------------------------------------------- faults


def nothing_is_published(hub) -> bool:
    return hub.files("ada/model") == {".gitattributes": GIT_ATTRIBUTES} and len(hub.repo("ada/model").commits) == 1


@pytest.mark.parametrize("route", ["preupload", "lfs_batch", "lfs_upload", "lfs_verify"])
@pytest.mark.parametrize("fault", [{"status": 429, "retry_after": 7}, {"status": 503}])
def test_the_client_waits_and_tries_again(hub, ada, run, route, fault):
    hub.fail(route, times=2, **fault)
    publish(ada, run)
    assert len(hub.waits) == 2
    assert min(hub.waits) >= fault.get("retry_after", 0)
    assert hub.files("ada/model") == PUBLISHED
    assert [seen.status for seen in hub.requests if seen.route == route] == [fault["status"]] * 2 + [200]


@pytest.mark.parametrize(
    ("route", "status"),
    [(route, 500) for route in ("preupload", "lfs_batch", "lfs_upload", "lfs_verify", "validate_yaml")]
    + [("commit", status) for status in (429, 500, 503)],
)
def test_a_hub_that_stays_down_publishes_nothing_and_a_second_run_completes(hub, ada, run, route, status):
    hub.fail(route, times=6, status=status)
    with pytest.raises((HfHubHTTPError, RuntimeError)) as caught:
        publish(ada, run)
    assert str(status) in f"{caught.value} {caught.value.__cause__}"
    assert nothing_is_published(hub)
    hub.heal()
    publish(ada, run)
    assert hub.files("ada/model") == PUBLISHED


@pytest.mark.parametrize("size", [1000, 3_000_000])
def test_an_upload_that_breaks_off_is_sent_again(hub, ada, size):
    hub.fail("lfs_upload", drop="request")
    ada.upload_file(repo_id="ada/model", path_or_fileobj=b"w" * size, path_in_repo="model.safetensors")
    assert hub.files("ada/model")["model.safetensors"] == b"w" * size
    assert [seen.status for seen in hub.requests if seen.route == "lfs_upload"] == [0, 200]
    assert len(hub.waits) == 1


@pytest.mark.parametrize("route", ["lfs_upload", "commit", "preupload"])
def test_a_connection_that_keeps_breaking_publishes_nothing_and_a_second_run_completes(hub, ada, run, route):
    hub.fail(route, times=6, drop="request")
    with pytest.raises((httpx2.TransportError, RuntimeError)):
        publish(ada, run)
    assert nothing_is_published(hub)
    uploads = sum(seen.route == "lfs_upload" and seen.status == 200 for seen in hub.requests)
    hub.heal()
    publish(ada, run)
    assert hub.files("ada/model") == PUBLISHED
    again = sum(seen.route == "lfs_upload" and seen.status == 200 for seen in hub.requests)
    assert (uploads, again) == ((1, 1) if route == "commit" else (0, 1))  # what was uploaded is not sent again


def test_a_commit_whose_answer_is_lost_is_there_once(hub, ada, run):
    hub.fail("commit", drop="response")
    with pytest.raises(httpx2.TransportError):
        publish(ada, run)
    assert hub.files("ada/model") == PUBLISHED
    publish(ada, run)
    assert len(hub.repo("ada/model").commits) == 2


@pytest.mark.parametrize("route", ["lfs_upload", "lfs_verify", "preupload"])
def test_an_answer_that_is_lost_is_asked_for_again(hub, ada, run, route):
    hub.fail(route, drop="response")
    publish(ada, run)
    assert hub.files("ada/model") == PUBLISHED
    assert [seen.status for seen in hub.requests if seen.route == route] == [0, 200]


@pytest.mark.parametrize("path", ["model.safetensors", "README.md"])
def test_a_download_that_breaks_off_goes_on_where_it_was(hub, ada, run, tmp_path, monkeypatch, path):
    publish(ada, run)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 16)
    hub.fail("lfs_download" if path == "model.safetensors" else "resolve", drop="response", skip=path == "README.md")
    local = ada.hf_hub_download("ada/model", path, cache_dir=tmp_path / "cache")
    assert Path(local).read_bytes() == FILES[path]
    assert [seen.status for seen in hub.requests][-2:] == [0, 206]


def test_a_large_file_that_arrives_damaged_is_refused(hub, ada, run):
    hub.fail("lfs_upload", damage=True)
    with pytest.raises(RuntimeError, match=r"model\.safetensors") as caught:
        publish(ada, run)
    assert isinstance(caught.value.__cause__, BadRequestError)
    assert "SHA256" in str(caught.value.__cause__)
    assert nothing_is_published(hub)
    publish(ada, run)
    assert hub.files("ada/model") == PUBLISHED


def test_a_regular_file_that_arrives_damaged_shows_by_its_hash(hub, ada, run):
    hub.fail("commit", damage=True)
    publish(ada, run)
    assert sorted(path for path, content in hub.files("ada/model").items() if content != PUBLISHED[path]) == [
        "README.md"
    ]
    (file,) = ada.get_paths_info("ada/model", ["README.md"])
    assert file.blob_id != git_hash(CARD)
    publish(ada, run)
    assert hub.files("ada/model") == PUBLISHED


@pytest.mark.parametrize(("route", "path"), [("resolve", "README.md"), ("lfs_download", "model.safetensors")])
def test_a_download_that_arrives_damaged_shows_by_its_hash(hub, ada, run, tmp_path, route, path):
    publish(ada, run)
    hub.fail(route, damage=True, skip=route == "resolve")  # the first is the HEAD
    content = Path(ada.hf_hub_download("ada/model", path, cache_dir=tmp_path)).read_bytes()
    assert len(content) == len(FILES[path])
    assert content != FILES[path]


def test_faults_are_counted(hub, ada):
    hub.fail("*", status=500, skip=1, times=2)
    codes = [get_session().get(f"{hub.url}/api/models/ada/model").status_code for _ in range(5)]
    assert codes == [200, 500, 500, 200, 200]
    hub.fail("info", status=500)
    hub.heal()
    assert get_session().get(f"{hub.url}/api/models/ada/model").status_code == 200


@pytest.mark.parametrize(
    ("route", "fault", "message"),
    [
        ("comit", {"status": 500}, "route 'comit' does not exist"),
        ("commit", {}, "one of status, drop"),
        ("commit", {"status": 500, "damage": True}, "one of status, drop"),
        ("commit", {"drop": "both"}, "one of status, drop"),
        ("tree", {"damage": True}, "carries no file"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(hub, route, fault, message):
    with pytest.raises(ValueError, match=message):
        hub.fail(route, **fault)


# ---------------------------------------------------------------------------------------------------- the whole of it


def test_repositories_outlive_the_server(hub, ada, run, tmp_path):
    publish(ada, run)
    ada.create_tag("ada/model", tag="v1")
    with HubServer(tmp_path / "hub") as other:
        assert other.files("ada/model", "v1") == PUBLISHED
        other.api(other.token("ada")).delete_repo("ada/model")
    with pytest.raises(httpx2.TransportError):
        get_session().get(f"{other.url}/api/models/ada/model")
    assert HubServer(tmp_path / "hub").repo("ada/model") is None


MODEL = """
import json, torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertConfig, BertForMaskedLM, BertTokenizerFast
torch.manual_seed(0)
open("vocab.txt", "w").write("\\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]))
sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
model = BertForMaskedLM(BertConfig(vocab_size=7, **sizes)).eval()
first = model.push_to_hub("ada/bert", private=True).oid
BertTokenizerFast("vocab.txt").push_to_hub("ada/bert")
tokenizer = AutoTokenizer.from_pretrained("ada/bert")
again = AutoModelForMaskedLM.from_pretrained("ada/bert", revision=first).eval()
batch = tokenizer("a b", return_tensors="pt")
try:
    AutoTokenizer.from_pretrained("ada/bert", token=False, cache_dir="other")
except OSError as error:
    refused = str(error)
same = torch.equal(model(**batch).logits, again(**batch).logits)
print(json.dumps([batch["input_ids"].tolist(), same, refused]))
"""
DATA = """
import json
import datasets
datasets.config.USE_PARQUET_EXPORT = False
datasets.Dataset.from_dict({"text": ["a", "b", "c"]}).push_to_hub("ada/parquet")
sizes = {}
for name in ("ada/parquet", "ada/lines"):
    sizes[name] = {split: data["text"] for split, data in datasets.load_dataset(name).items()}
stream = datasets.load_dataset("ada/lines", split="train", streaming=True)
print(json.dumps([{k: {s: list(t) for s, t in v.items()} for k, v in sizes.items()}, [row["text"] for row in stream]]))
"""


def python(hub: HubServer, folder: Path, code: str, *args: str, token: str | None) -> subprocess.CompletedProcess:
    """Run `code` in a process whose Hub is this one and whose cache is new."""
    folder.mkdir()
    command = [sys.executable, "-P", "-c", code, *args]
    return subprocess.run(command, env=hub.env(token, folder), cwd=folder, capture_output=True, text=True, timeout=600)


def test_transformers_pushes_and_loads_in_another_process(hub, tmp_path):
    done = python(hub, tmp_path / "model", MODEL, token=hub.token("ada"))
    assert done.returncode == 0, done.stderr
    ids, same, refused = json.loads(done.stdout)
    assert ids == [[2, 5, 6, 3]]
    assert same
    assert "If this is a private repository, make sure to pass a token" in refused
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md"} <= hub.files("ada/bert").keys()
    assert hub.repo("ada/bert").private
    assert not list((tmp_path / "model" / "other").rglob("*.json"))


def test_the_client_of_this_process_needs_no_endpoint(hub, monkeypatch):
    hub.online(monkeypatch, hub.token("ada"))
    create_repo("card")
    ModelCard(CARD.decode()).push_to_hub("ada/card")
    local = Path(hf_hub_download("ada/card", "README.md"))
    assert local.read_bytes() == hub.files("ada/card")["README.md"]
    assert local.is_relative_to(hub.folder)
    hub.online(monkeypatch)
    with pytest.raises(HfHubHTTPError, match="401"):
        create_repo("ada/other")


def test_datasets_pushes_and_loads_in_another_process(hub, tmp_path):
    api = hub.api(hub.token("ada"))
    api.create_repo("ada/lines", repo_type="dataset", private=True)
    for split, words in (("train", "de"), ("test", "f")):
        lines = "".join(json.dumps({"text": word}) + "\n" for word in words)
        api.upload_file(
            repo_id="ada/lines", repo_type="dataset", path_or_fileobj=lines.encode(), path_in_repo=f"{split}.jsonl"
        )
    done = python(hub, tmp_path / "data", DATA, token=hub.token("ada"))
    assert done.returncode == 0, done.stderr
    lines = {"train": ["d", "e"], "test": ["f"]}
    assert json.loads(done.stdout) == [{"ada/parquet": {"train": ["a", "b", "c"]}, "ada/lines": lines}, ["d", "e"]]
