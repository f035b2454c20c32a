"""A small Hub for the tests: the HTTP routes that `huggingface_hub` calls, on loopback, with its files on disk.

The real client talks to it over real HTTP, so that publishing and loading are tested as they happen to a user:

    with HubServer(tmp_path / "hub") as hub:
        token = hub.token("ada")                      # hub.token("ada", write=False): one that may only read
        waits = hub.online(monkeypatch, token)        # the client of this process, push_to_hub, from_pretrained
        subprocess.run([...], env=hub.env(token))     # or another process, also for load_dataset
        hub.fail("lfs_upload", drop="request")        # the next upload breaks off in the middle
        assert hub.files("ada/model") == {...}        # what a reader of the main branch gets

What is where: `ROUTES` lists the routes, each served by the method `on_<route>` of `HubServer`; `fail` plans faults.
Requests, answers and error texts follow huggingface_hub 2.4.0 (hf_api.py, _commit_api.py, lfs.py, file_download.py).
Two deliberate differences from huggingface.co:

- Xet is not served (its routes answer 404): the client must run with HF_HUB_DISABLE_XET=1, and then takes plain LFS.
- A 401 names its cause in `X-Error-Code`: the client infers "repository not found" from a bare 401 over https only.
"""

import base64
import dataclasses
import datetime
import hashlib
import http.server
import json
import os
import re
import secrets
import socket
import struct
import sys
import threading
import time
import types
import urllib.parse
from pathlib import Path
from typing import Any, NamedTuple

import yaml

# One route a line: method, path, name. {repo} is models/USER/NAME or datasets/USER/NAME, {page} the same as a page's
# address (a model's has no prefix). A HEAD is answered as its GET, without the body.
ROUTES = """
GET     /api/whoami-v2                              whoami
POST    /api/validate-yaml                          validate_yaml
POST    /api/repos/create                           create_repo
DELETE  /api/repos/delete                           delete_repo
GET     /api/{repo}                                 info
GET     /api/{repo}/revision/{rev}                  info
GET     /api/{repo}/auth-check                      auth_check
GET     /api/{repo}/auth-check/{write}              auth_check
PUT     /api/{repo}/settings                        settings
POST    /api/{repo}/preupload/{rev}                 preupload
POST    /{page}.git/info/lfs/objects/batch          lfs_batch
PUT     /lfs/{oid}                                  lfs_upload
POST    /lfs/{oid}/verify                           lfs_verify
GET     /lfs/{oid}                                  lfs_download
POST    /api/{repo}/commit/{rev}                    commit
GET     /{page}/resolve/{rev}/{path}                resolve
GET     /api/{repo}/tree/{rev}                      tree
GET     /api/{repo}/tree/{rev}/{path}               tree
POST    /api/{repo}/paths-info/{rev}                paths_info
GET     /api/{repo}/commits/{rev}                   commits
GET     /api/{repo}/refs                            refs
POST    /api/{repo}/branch/{rev}                    create_branch
DELETE  /api/{repo}/branch/{rev}                    delete_branch
POST    /api/{repo}/tag/{rev}                       create_tag
DELETE  /api/{repo}/tag/{rev}                       delete_tag
GET     /api/{repo}/discussions                     discussions
POST    /api/{repo}/discussions                     create_discussion
GET     /api/{repo}/discussions/{num}               discussion
GET     /api/{repo}/xet-write-token/{rev}           xet
GET     /api/{repo}/xet-read-token/{rev}            xet
GET     /api/models/{name}                          no_such_repo
GET     /api/datasets/{name}                        no_such_repo
GET     /{name}/resolve/{rev}/{path}                no_such_repo
"""
FIELDS = {
    "repo": r"(?P<kind>models|datasets)/(?P<repo>[^/]+/[^/]+)",
    "page": r"(?:(?P<kind>datasets)/)?(?P<repo>[^/]+/[^/]+?)",
    "path": r"(?P<path>.+)",
    "write": r"(?P<write>write)",
}  # any other field is one segment of the path, which may hold an escaped slash: refs%2Fpr%2F1


def _pattern(path: str) -> re.Pattern:
    literals_and_fields = re.split(r"\{(\w+)\}", path)
    parts = [
        FIELDS.get(part, f"(?P<{part}>[^/]+)") if i % 2 else re.escape(part)
        for i, part in enumerate(literals_and_fields)
    ]
    return re.compile("".join(parts))


TABLE = [(method, _pattern(path), name) for method, path, name in map(str.split, ROUTES.strip().splitlines())]
NAMES = {name for _, _, name in TABLE}
LOOPBACK = "127.0.0.1,localhost"
CAN_BE_DAMAGED = {"commit", "lfs_upload", "lfs_download", "resolve"}

# What a new repository tracks as large files, and its first commit.
LFS_ENDINGS = (".arrow", ".bin", ".gz", ".h5", ".npy", ".npz", ".onnx", ".parquet", ".pickle", ".pkl", ".pt", ".pth")
LFS_ENDINGS += (".safetensors", ".tar", ".zip")
GIT_ATTRIBUTES = "".join(f"*{end} filter=lfs diff=lfs merge=lfs -text\n" for end in LFS_ENDINGS).encode()
LARGEST_REGULAR_FILE = 10 * 1024 * 1024
LICENCES = {"apache-2.0", "mit", "bsd-3-clause", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "gpl-3.0", "unknown", "other"}


class HubError(Exception):
    """An error answer in the Hub's words: status, sentence, and the code from which the client picks its exception."""

    def __init__(self, status: int, message: str, code: str | None = None, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        line = " ".join(message.encode("ascii", "replace").decode().split())
        self.headers = {"X-Error-Message": line, **({"X-Error-Code": code} if code else {}), **headers}


class Answer(NamedTuple):
    """What a route returns: `body` is bytes, or a value that is sent as JSON."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = {}


class Seen(NamedTuple):
    """A request that the server answered; status 0: the connection was dropped instead."""

    route: str
    method: str
    path: str
    status: int
    user: str | None


@dataclasses.dataclass
class User:
    """Whom a token stands for."""

    name: str
    write: bool
    orgs: tuple[str, ...] = ()


@dataclasses.dataclass
class Fault:
    """What is to go wrong, on which route, and how often; see `HubServer.fail`."""

    route: str
    times: int
    skip: int
    status: int | None
    retry_after: int | None
    drop: str | None
    damage: bool


@dataclasses.dataclass
class Call:
    """One request, parsed. `args` are the fields of its route, unescaped; `damage` asks the route to spoil a byte."""

    route: str
    args: dict[str, str]
    query: dict[str, list[str]]
    headers: Any
    body: bytes
    user: User | None
    damage: bool

    def json(self) -> dict:
        return json.loads(self.body or b"{}")

    def carry(self, content: bytes) -> bytes:
        """`content` as it comes through: with its last bit turned if this request is to be damaged."""
        return content[:-1] + bytes([content[-1] ^ 1]) if self.damage and content else content


@dataclasses.dataclass
class Repo:
    """A repository: `refs` names commits, a commit holds the whole list of its files.

    Commits are dicts of id, parent, title, message, date, user, and files: path -> {oid, size, lfs}, where oid is the
    git hash of the file (of its pointer, for a large one) and lfs is the sha256 of a large file or None.
    """

    kind: str  # "models" or "datasets", as in its routes
    id: str
    private: bool
    refs: dict[str, str] = dataclasses.field(default_factory=dict)
    commits: dict[str, dict] = dataclasses.field(default_factory=dict)
    discussions: list[dict] = dataclasses.field(default_factory=list)

    @property
    def page(self) -> str:
        return self.id if self.kind == "models" else f"{self.kind}/{self.id}"

    def at(self, revision: str) -> dict:
        """The commit of a branch, a tag, a pull request or a hash (or its beginning)."""
        for ref in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            if ref in self.refs:
                return self.commits[self.refs[ref]]
        found = [oid for oid in self.commits if len(revision) >= 7 and oid.startswith(revision)]
        if len(found) != 1:
            raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[found[0]]

    def branch(self, revision: str) -> str:
        """The ref that a commit to `revision` moves: tags and hashes do not move."""
        for ref in (f"refs/heads/{revision}", revision):
            if ref in self.refs and not ref.startswith("refs/tags/"):
                return ref
        raise HubError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def history(self, revision: str) -> list[dict]:
        """The commits that lead to a revision, newest first."""
        commits = [self.at(revision)]
        while commits[-1]["parent"]:
            commits.append(self.commits[commits[-1]["parent"]])
        return commits

    def add(self, ref: str, files: dict[str, dict], title: str, message: str, user: User) -> dict:
        """A new commit of `files` at the tip of `ref`: the only place where a branch moves."""
        parent = self.refs.get(ref)
        oid = hashlib.sha1(json.dumps([parent, title, files, len(self.commits)]).encode()).hexdigest()
        commit = {"id": oid, "parent": parent, "title": title, "message": message, "date": _now(), "user": user.name}
        self.commits[oid] = {**commit, "files": dict(sorted(files.items()))}
        self.refs[ref] = oid
        return self.commits[oid]


class HubServer:
    """The server. As a context manager it starts on a free port and stops; repositories stay in `folder`.

    Args:
        folder: Where its files go; a second server on the same folder finds what the first one had.
        page_size: Entries on one page of a listing.

    Attributes:
        url: The endpoint.
        requests: What was asked and how it ended, in order.
        unknown: What was asked without a route for it, such as "GET /api/spaces/ada/app"; answered by 501.
    """

    def __init__(self, folder: str | Path, page_size: int = 1000) -> None:
        self.folder = Path(folder)
        self.page_size = page_size
        self.url = ""
        self.requests: list[Seen] = []
        self.unknown: list[str] = []
        self._objects = self.folder / "objects"  # contents by hash: of git for regular files, sha256 for large ones
        self._objects.mkdir(parents=True, exist_ok=True)
        self._repos: dict[tuple[str, str], Repo] = {}
        for path in (self.folder / "repos").rglob("*.json"):
            repo = Repo(**json.loads(path.read_text()))
            self._repos[repo.kind, repo.id] = repo
        self._users: dict[str, User] = {}
        self._faults: list[Fault] = []
        self._lock = threading.RLock()
        self._key = secrets.token_hex()

    # ---------------------------------------------------------------------------------------------- for the tests

    def __enter__(self) -> "HubServer":
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hub = self
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.hub = None  # connections that clients keep open are closed at their next request
        self._server.shutdown()
        self._server.server_close()

    def token(self, name: str, write: bool = True, orgs: tuple[str, ...] = ()) -> str:
        """A token of the user `name`, in the form of a real one: to write what is theirs, or only to read it."""
        digest = hashlib.sha256(f"{name} {write} {orgs}".encode()).hexdigest()
        token = f"hf_{digest[:34].translate(str.maketrans('0123456789', 'GHIJKLMNOP'))}"
        self._users[token] = User(name, write, tuple(orgs))
        return token

    def env(self, token: str | None = None, home: str | Path | None = None) -> dict[str, str]:
        """The environment of a process whose Hub is this one.

        `load_dataset` there looks up `datasets-server.<host>` first, in vain: set `datasets.config.USE_PARQUET_EXPORT`
        to False before it, so that no name is looked up.

        Args:
            home: Its HF_HOME, so its cache (default: one that all processes of this server share).
        """
        home = Path(home or self.folder / "home")
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))}
        return {
            **keep,
            **({"HF_TOKEN": token} if token else {}),
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
            "NO_PROXY": LOOPBACK,
            "no_proxy": LOOPBACK,
        }

    def online(self, monkeypatch: Any, token: str | None = None) -> list[float]:
        """Make this the Hub of the client in this process, which otherwise is offline here; its waits take no time.

        Also of what uses the client (`push_to_hub`, `from_pretrained`), with a cache under `folder` and this token
        only. Not of `datasets`, which reads HF_ENDPOINT once: that needs a process with `env`.

        Returns:
            The seconds that the client wanted to sleep before it tried again, filled as it does.
        """
        import huggingface_hub.file_download
        import huggingface_hub.hf_api
        import huggingface_hub.utils._http
        from huggingface_hub import constants

        waits: list[float] = []
        clock = types.SimpleNamespace(**{**vars(time), "sleep": waits.append})
        for module in (huggingface_hub.utils._http, huggingface_hub.file_download):
            monkeypatch.setattr(module, "time", clock)
        home = self.folder / "home"
        for name, value in {
            "ENDPOINT": self.url,
            "HUGGINGFACE_CO_URL_TEMPLATE": f"{self.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}",
            "HF_HUB_CACHE": str(home / "hub"),
            "HF_TOKEN_PATH": str(home / "token"),
            "HF_HUB_OFFLINE": False,
            "HF_HUB_DISABLE_XET": True,
        }.items():
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setattr(huggingface_hub.hf_api.api, "endpoint", self.url)
        if "transformers" in sys.modules:
            monkeypatch.setattr("transformers.utils.hub._hf_api", None)  # made anew, with this endpoint
        monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
        for name, value in {"HF_TOKEN": token or "", "NO_PROXY": LOOPBACK, "no_proxy": LOOPBACK}.items():
            monkeypatch.setenv(name, value)
        huggingface_hub.utils._http.close_session()  # made with the proxies of the environment
        return waits

    def api(self, token: str | bool | None = False) -> Any:
        """The real client with this endpoint, for this process; without a token it sends none, not the user's own."""
        from huggingface_hub import HfApi

        return HfApi(endpoint=self.url, token=token)

    def repo(self, repo_id: str, repo_type: str = "model") -> Repo | None:
        """The repository itself (refs, commits, private, discussions), or None."""
        return self._repos.get((f"{repo_type}s", repo_id))

    def files(self, repo_id: str, revision: str = "main", repo_type: str = "model") -> dict[str, bytes]:
        """What a repository holds at a revision, path -> content; empty if there is no such repository."""
        repo = self.repo(repo_id, repo_type)
        return {p: self._content(entry) for p, entry in repo.at(revision)["files"].items()} if repo else {}

    def fail(
        self,
        route: str,
        *,
        times: int = 1,
        skip: int = 0,
        status: int | None = None,
        retry_after: int | None = None,
        drop: str | None = None,
        damage: bool = False,
    ) -> None:
        """Let the next `times` requests of a route go wrong, after `skip` that go well.

        Args:
            route: A name of `ROUTES`, or "*" for any route.
            status: Answer with this error instead (429, 500, 503, ...); nothing is done.
            retry_after: The `Retry-After` that goes with it, in seconds.
            drop: "request": the connection breaks when half of the request was read; nothing is done.
                "response": all is done, but the connection breaks in the middle of the answer.
            damage: One bit of the file is turned on its way: of what comes in (commit: its first regular file;
                lfs_upload) or of what goes out (resolve, lfs_download).
        Raises:
            ValueError: For a route that does not exist, or unless exactly one of status, drop and damage is given.
        """
        if route not in NAMES | {"*"}:
            raise ValueError(f"route {route!r} does not exist: one of {', '.join(sorted(NAMES))} or *")
        if (status is not None) + (drop is not None) + damage != 1 or drop not in (None, "request", "response"):
            raise ValueError('give one of status, drop ("request" or "response") and damage')
        if damage and route not in CAN_BE_DAMAGED:
            raise ValueError(f"route {route!r} carries no file to damage: {', '.join(sorted(CAN_BE_DAMAGED))} do")
        self._faults.append(Fault(route, times, skip, status, retry_after, drop, damage))

    def heal(self) -> None:
        """Forget the faults that were planned and did not happen."""
        self._faults.clear()

    # ------------------------------------------------------------------------------------------- users and rights

    def _user(self, headers: Any) -> User | None:
        token = (headers.get("Authorization") or "").removeprefix("Bearer ")
        if token and token not in self._users:
            raise HubError(401, "Invalid credentials in Authorization header")
        return self._users.get(token)

    @staticmethod
    def _owns(user: User | None, repo_id: str) -> bool:
        return user is not None and repo_id.split("/")[0] in (user.name, *user.orgs)

    def _open(self, call: Call, write: bool = False, propose: bool = False) -> Repo:
        """The repository of a request, if its user may read it (write to it, or propose a change to it)."""
        kind, repo_id = call.args.get("kind") or "models", call.args["repo"]
        repo = self._repos.get((kind, repo_id))
        if repo is None or (repo.private and not self._owns(call.user, repo_id)):
            self.on_no_such_repo(call)
        if (write or propose) and call.user is None:
            raise HubError(401, "Invalid username or password.", "RepoNotFound")
        if (write or propose) and not call.user.write:
            raise HubError(403, "Forbidden: you must use a write token to upload to a repository.")
        if write and not self._owns(call.user, repo_id):
            raise HubError(403, "Forbidden: pass `create_pr=1` as a query parameter to create a Pull Request")
        return repo

    def _open_to_change(self, call: Call) -> Repo:
        """As `_open`; a pull request asks for less, while it is made and for its author."""
        proposes = "create_pr" in call.query or self._is_proposal(call, call.args["rev"])
        return self._open(call, write=not proposes, propose=True)

    def _is_proposal(self, call: Call, ref: str) -> bool:
        """Whether a ref is that of a pull request of the user's own."""
        author = call.user and {"name": call.user.name}
        return any(d["author"] == author and ref == f"refs/pr/{d['num']}" for d in self._open(call).discussions)

    # ------------------------------------------------------------------------------------------- contents on disk

    def _content(self, entry: dict) -> bytes:
        return (self._objects / (entry["lfs"] or entry["oid"])).read_bytes()

    def _keep(self, name: str, content: bytes) -> None:
        _write(self._objects / name, content)

    def _regular(self, content: bytes) -> dict:
        """A regular file, kept: its entry in a commit."""
        oid = _git_hash(content)
        self._keep(oid, content)
        return {"oid": oid, "size": len(content), "lfs": None}

    def _save(self, repo: Repo) -> None:
        _write(self.folder / "repos" / repo.kind / f"{repo.id}.json", json.dumps(dataclasses.asdict(repo)).encode())

    def _signed(self, host: str, oid: str, action: str = "") -> str:
        """The address of a large file for whoever holds it, as storage signs its links: no token is sent there."""
        key = hashlib.sha256(f"{self._key} {oid} {action}".encode()).hexdigest()
        return f"{self.url.replace('127.0.0.1', host)}/lfs/{oid}{action and '/verify'}?key={key}"

    def _check_signature(self, call: Call, action: str = "") -> str:
        oid = call.args["oid"]
        if call.headers.get("Authorization") and not action:
            raise HubError(400, "Only one auth mechanism allowed: a signed link takes no token")
        if not self._signed("127.0.0.1", oid, action).endswith(f"?key={call.query.get('key', [''])[0]}"):
            raise HubError(403, "SignatureDoesNotMatch")
        return oid

    # ------------------------------------------------------------------------------------- users and repositories

    def on_whoami(self, call: Call) -> Answer:
        if call.user is None:
            raise HubError(401, "Invalid username or password.")
        role = "write" if call.user.write else "read"
        auth = {"type": "access_token", "accessToken": {"displayName": "tests", "role": role, "createdAt": _now()}}
        orgs = [{"type": "org", "name": name, "fullname": name, "roleInOrg": role} for name in call.user.orgs]
        return Answer({"type": "user", "name": call.user.name, "fullname": call.user.name, "orgs": orgs, "auth": auth})

    def on_validate_yaml(self, call: Call) -> Answer:
        errors, warnings = _check_card(call.json()["content"])
        as_json = {"errors": [{"message": e} for e in errors], "warnings": [{"message": w} for w in warnings]}
        return Answer(as_json, 400 if errors else 200)

    def on_create_repo(self, call: Call) -> Answer:
        wish = call.json()
        if call.user is None:
            raise HubError(401, "Invalid username or password.")
        kind, owner = f"{wish.get('type') or 'model'}s", wish.get("organization") or call.user.name
        repo_id = f"{owner}/{wish['name']}"
        if not call.user.write or not self._owns(call.user, repo_id):
            raise HubError(403, f'You don\'t have the rights to create a {kind[:-1]} under the namespace "{owner}"')
        private = wish.get("visibility") == "private" or bool(wish.get("private"))
        repo = Repo(kind, repo_id, private)
        if (kind, repo_id) in self._repos:
            message = f"You already created this {kind[:-1]} repo"
            return Answer({"error": message, "url": f"{self.url}/{repo.page}"}, 409, {"X-Error-Message": message})
        files = {".gitattributes": self._regular(GIT_ATTRIBUTES)}
        repo.add("refs/heads/main", files, "initial commit", "", call.user)
        self._repos[kind, repo_id] = repo
        self._save(repo)
        return Answer({"url": f"{self.url}/{repo.page}", "name": repo_id, "id": _git_hash(repo_id.encode())[:24]})

    def on_delete_repo(self, call: Call) -> Answer:
        wish = call.json()
        owner = wish.get("organization") or (call.user.name if call.user else "")
        call.args |= {"kind": f"{wish.get('type') or 'model'}s", "repo": f"{owner}/{wish['name']}"}
        repo = self._open(call, write=True)
        del self._repos[repo.kind, repo.id]
        (self.folder / "repos" / repo.kind / f"{repo.id}.json").unlink()
        return Answer()

    def on_settings(self, call: Call) -> Answer:
        repo, wish = self._open(call, write=True), call.json()
        if "visibility" in wish or "private" in wish:
            repo.private = wish.get("visibility") == "private" or bool(wish.get("private"))
        self._save(repo)
        return Answer({"private": repo.private})

    def on_auth_check(self, call: Call) -> Answer:
        self._open(call, write=bool(call.args.get("write")))
        return Answer({})

    def on_no_such_repo(self, call: Call) -> Answer:
        """No repository, or one that the user may not know of: told apart only by whether there is a user."""
        if call.user is None:
            raise HubError(401, "Invalid username or password.", "RepoNotFound")
        raise HubError(404, "Repository not found", "RepoNotFound")

    def on_info(self, call: Call) -> Answer:
        repo = self._open(call)
        commit = repo.at(call.args.get("rev", "main"))
        files = commit["files"]
        card = _front_matter(self._content(files["README.md"]).decode()) if "README.md" in files else None
        card = card if isinstance(card, dict) else {}
        siblings = [{"rfilename": path} for path in files]
        if "blobs" in call.query:
            for sibling, entry in zip(siblings, files.values(), strict=True):
                sibling |= {"blobId": entry["oid"], "size": entry["size"]}
                if entry["lfs"]:
                    sibling["lfs"] = {
                        "sha256": entry["lfs"],
                        "size": entry["size"],
                        "pointerSize": len(_pointer(entry)),
                    }
        info = {
            "_id": _git_hash(repo.id.encode())[:24],
            "id": repo.id,
            "author": repo.id.split("/")[0],
            "sha": commit["id"],
            "createdAt": repo.history("main")[-1]["date"],
            "lastModified": commit["date"],
            "private": repo.private,
            "gated": False,
            "disabled": False,
            "downloads": 0,
            "likes": 0,
            "tags": [*card.get("tags", []), *([f"license:{card['license']}"] if "license" in card else [])],
            "cardData": card,
            "siblings": siblings,
            **{key: card[key] for key in ("library_name", "pipeline_tag", "model-index") if key in card},
        }
        wanted = call.query.get("expand")
        return Answer({k: v for k, v in info.items() if k in ("_id", "id", *wanted)} if wanted else info)

    # -------------------------------------------------------------------------------------------------- uploading

    def on_preupload(self, call: Call) -> Answer:
        """Which of some files are large ones, and the hash that the repository has of each (to skip what is there)."""
        repo, wish = self._open_to_change(call), call.json()
        there = repo.at(call.args["rev"])["files"]
        hosted = self._content(there[".gitignore"]).decode() if ".gitignore" in there else ""
        patterns = wish.get("gitIgnore", hosted).split()  # those that are a name or end in a slash; git knows more
        answer = []
        for file in wish["files"]:
            text = b"\0" not in base64.b64decode(file["sample"])
            large = file["path"].endswith(LFS_ENDINGS) or file["size"] > LARGEST_REGULAR_FILE or not text
            ignore = any(file["path"] == one or one.endswith("/") and file["path"].startswith(one) for one in patterns)
            answer.append({"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": ignore})
            old = there.get(file["path"])
            if old and bool(old["lfs"]) == large:
                answer[-1]["oid"] = old["lfs"] or old["oid"]
        return Answer({"files": answer, "commitOid": repo.at(call.args["rev"])["id"]})

    def on_lfs_batch(self, call: Call) -> Answer:
        """Where to put large files; for one that was uploaded before there is nothing to do."""
        wish = call.json()
        ref = wish.get("ref", {}).get("name")  # none where a pull request is made
        self._open(call, write=ref is not None and not self._is_proposal(call, ref), propose=True)
        objects = []
        for file in wish["objects"]:
            objects.append({"oid": file["oid"], "size": file["size"], "authenticated": True})
            if not (self._objects / file["oid"]).exists():
                links = {"upload": self._signed("localhost", file["oid"])}
                links["verify"] = self._signed("127.0.0.1", file["oid"], "verify")
                objects[-1]["actions"] = {action: {"href": href, "header": {}} for action, href in links.items()}
        return Answer({"transfer": "basic", "objects": objects, "hash_algo": "sha256"})

    def on_lfs_upload(self, call: Call) -> Answer:
        oid, content = self._check_signature(call), call.carry(call.body)
        if hashlib.sha256(content).hexdigest() != oid:
            raise HubError(400, "XAmzContentSHA256Mismatch: the SHA256 given does not match what was received")
        self._keep(oid, content)
        return Answer(headers={"ETag": f'"{oid}"'})

    def on_lfs_verify(self, call: Call) -> Answer:
        path = self._objects / self._check_signature(call, "verify")
        if not path.exists() or path.stat().st_size != call.json()["size"]:
            raise HubError(400, "Size mismatch, or the file was not uploaded")
        return Answer({})

    def on_commit(self, call: Call) -> Answer:
        """Add and delete files in one commit, or in a pull request: all of it, or on any error nothing."""
        create_pr = "create_pr" in call.query
        repo = self._open_to_change(call)
        ref = repo.branch(call.args["rev"])
        head = repo.at(ref)
        files = dict(head["files"])
        header: dict = {}
        for line in call.body.splitlines():
            key, value = json.loads(line)["key"], json.loads(line)["value"]
            path = value.get("path", "")
            if key == "header":
                header = value
            elif key == "file":
                content = call.carry(base64.b64decode(value["content"]))
                call.damage = False  # one file is enough
                self._check_file(path, content)
                files[path] = self._regular(content)
            elif key == "lfsFile":
                files[path] = self._large(path, value["oid"])
            elif key in ("deletedFile", "deletedFolder"):
                gone = [
                    p for p in files if p == path or (key == "deletedFolder" and p.startswith(path.rstrip("/") + "/"))
                ]
                if not gone:
                    raise HubError(404, "A file with this name doesn't exist", "EntryNotFound")
                for p in gone:
                    del files[p]
            else:
                raise HubError(400, f"Unknown operation: {key}")
        if not head["id"].startswith(header.get("parentCommit", "")):
            raise HubError(412, "A commit has happened since. Please refresh and try again.")
        pull = self._discuss(repo, header["summary"], header["description"], call.user, ref) if create_pr else None
        ref = f"refs/pr/{pull['num']}" if pull else ref
        commit = repo.add(ref, files, header["summary"], header["description"], call.user)
        self._save(repo)
        page = f"{self.url}/{repo.page}"
        answer = {"success": True, "commitOid": commit["id"], "commitUrl": f"{page}/commit/{commit['id']}"}
        return Answer({**answer, **({"pullRequestUrl": f"{page}/discussions/{pull['num']}"} if pull else {})})

    @staticmethod
    def _check_file(path: str, content: bytes) -> None:
        if len(content) > LARGEST_REGULAR_FILE:
            raise HubError(
                400, f"Your push was rejected because it contains files larger than 10 MiB. Offending: {path}"
            )
        errors = _check_card(content.decode(errors="replace"))[0] if path == "README.md" else []
        if errors:
            raise HubError(400, f"Invalid metadata in README.md. {' '.join(errors)}")

    def _large(self, path: str, oid: str) -> dict:
        """A large file that was uploaded before: its entry in a commit."""
        if not (self._objects / oid).exists():
            message = "Your push was rejected because an LFS pointer pointed to a file that does not exist."
            raise HubError(400, f"{message} Offending file: {path}")
        entry = {"size": (self._objects / oid).stat().st_size, "lfs": oid}
        return {"oid": _git_hash(_pointer(entry)), **entry}

    def on_xet(self, call: Call) -> Answer:
        raise HubError(404, "This server has no Xet storage: set HF_HUB_DISABLE_XET=1")

    # ------------------------------------------------------------------------------------- listing and downloading

    def on_resolve(self, call: Call) -> Answer:
        """A file; of a large one the address in storage (another host for the client), its hash and its size."""
        commit = self._open(call).at(call.args["rev"])
        headers = {"X-Repo-Commit": commit["id"]}
        entry = commit["files"].get(call.args["path"])
        if entry is None:
            raise HubError(404, "Entry not found", "EntryNotFound", **headers)
        if entry["lfs"]:
            headers |= {"X-Linked-ETag": f'"{entry["lfs"]}"', "X-Linked-Size": str(entry["size"])}
            return Answer(b"", 302, {**headers, "Location": self._signed("localhost", entry["lfs"])})
        return _part(call, self._content(entry), {**headers, "ETag": f'"{entry["oid"]}"'})

    def on_lfs_download(self, call: Call) -> Answer:
        oid = self._check_signature(call)
        return _part(call, (self._objects / oid).read_bytes(), {"ETag": f'"{oid}"'})

    def on_tree(self, call: Call) -> Answer:
        files = self._open(call).at(call.args["rev"])["files"]
        folder = call.args.get("path", "").strip("/")
        prefix = f"{folder}/" if folder else ""
        recursive = call.query.get("recursive", ["false"])[0].lower() in ("true", "1")
        paths = set()
        for path in files:
            if path.startswith(prefix):
                parts = path[len(prefix) :].split("/")
                paths |= {prefix + "/".join(parts[:n]) for n in range(1, len(parts) + 1 if recursive else 2)}
        if folder and not paths:
            raise HubError(404, f"{folder} does not exist", "EntryNotFound")
        return self._pages(call, [_listed(files, path) for path in sorted(paths)])

    def on_paths_info(self, call: Call) -> Answer:
        files = self._open(call).at(call.args["rev"])["files"]
        form = "json" not in call.headers.get("Content-Type", "")
        paths = urllib.parse.parse_qs(call.body.decode()).get("paths", []) if form else call.json()["paths"]
        listed = [_listed(files, path.rstrip("/")) for path in paths]
        return Answer([item for item in listed if item])

    def on_commits(self, call: Call) -> Answer:
        def listed(commit: dict) -> dict:
            return {k: commit[k] for k in ("id", "title", "message", "date")} | {"authors": [{"user": commit["user"]}]}

        return self._pages(call, [listed(commit) for commit in self._open(call).history(call.args["rev"])])

    def _pages(self, call: Call, items: list[dict]) -> Answer:
        """One page of a list, with the address of the next one as the Hub gives it."""
        start = int(call.query.get("cursor", ["0"])[0])
        end = start + self.page_size
        query = urllib.parse.urlencode({**call.query, "cursor": [str(end)]}, doseq=True)
        link = {"Link": f'<{self.url}{call.args["address"]}?{query}>; rel="next"'} if end < len(items) else {}
        return Answer(items[start:end], 200, link)

    # ------------------------------------------------------------------------- branches, tags and pull requests

    def on_refs(self, call: Call) -> Answer:
        repo = self._open(call)

        def listed(folder: str) -> list[dict]:
            found = [(ref, oid) for ref, oid in repo.refs.items() if ref.startswith(folder)]
            return [{"name": ref.removeprefix(folder), "ref": ref, "targetCommit": oid} for ref, oid in found]

        answer = {"branches": listed("refs/heads/"), "tags": listed("refs/tags/"), "converts": []}
        return Answer({**answer, **({"pullRequests": listed("refs/pr/")} if "include_prs" in call.query else {})})

    def on_create_branch(self, call: Call) -> Answer:
        repo, name = self._open(call, write=True), call.args["rev"]
        if name.startswith("refs/"):
            raise HubError(400, f"Invalid reference for a branch: {name}")
        return self._point(
            repo, f"refs/heads/{name}", call.json().get("startingPoint") or "main", "Reference already exists"
        )

    def on_create_tag(self, call: Call) -> Answer:
        ref = f"refs/tags/{call.json()['tag']}"
        return self._point(self._open(call, write=True), ref, call.args["rev"], "Tag reference exists already")

    def _point(self, repo: Repo, ref: str, revision: str, taken: str) -> Answer:
        if ref in repo.refs:
            raise HubError(409, taken)
        repo.refs[ref] = repo.at(revision)["id"]
        self._save(repo)
        return Answer({}, 201)

    def on_delete_branch(self, call: Call) -> Answer:
        if call.args["rev"] == "main":
            raise HubError(403, "Cannot delete the default branch")
        return self._unpoint(call, f"refs/heads/{call.args['rev']}")

    def on_delete_tag(self, call: Call) -> Answer:
        return self._unpoint(call, f"refs/tags/{call.args['rev']}")

    def _unpoint(self, call: Call, ref: str) -> Answer:
        repo = self._open(call, write=True)
        if repo.refs.pop(ref, None) is None:
            raise HubError(404, f"Invalid rev id: {call.args['rev']}", "RevisionNotFound")
        self._save(repo)
        return Answer({})

    def _discuss(self, repo: Repo, title: str, text: str, user: User, base: str | None) -> dict:
        """A new discussion, or with a `base` a pull request against it, whose ref starts there."""
        num = len(repo.discussions) + 1
        author = {"name": user.name}
        latest = {"raw": text, "html": text, "updatedAt": _now(), "author": author}
        data = {"edited": False, "hidden": False, "latest": latest, "history": [latest]}
        event = {"id": f"{num:024x}", "type": "comment", "createdAt": _now(), "author": author, "data": data}
        pull = {"changes": {"base": base}, "filesWithConflicts": [], "diff": ""} if base else {}
        discussion = {"num": num, "title": title, "author": author, "createdAt": _now(), "events": [event], **pull}
        discussion |= {"status": "draft" if base else "open", "isPullRequest": bool(base)}
        discussion["repo"] = {"name": repo.id, "type": repo.kind[:-1]}
        repo.discussions.append(discussion)
        if base:
            repo.refs[f"refs/pr/{num}"] = repo.refs[base]
        return discussion

    def on_create_discussion(self, call: Call) -> Answer:
        repo, wish = self._open(call, propose=True), call.json()
        base = "refs/heads/main" if wish.get("pullRequest") else None
        discussion = self._discuss(repo, wish["title"], wish["description"], call.user, base)
        self._save(repo)
        return Answer({"num": discussion["num"], "pullRequest": bool(base)}, 201)

    def on_discussions(self, call: Call) -> Answer:
        found, start = self._open(call).discussions, int(call.query.get("p", ["0"])[0]) * self.page_size
        return Answer({"discussions": found[start : start + self.page_size], "count": len(found), "start": start})

    def on_discussion(self, call: Call) -> Answer:
        found = [d for d in self._open(call).discussions if str(d["num"]) == call.args["num"]]
        if not found:
            raise HubError(404, "Discussion not found")
        return Answer(found[0])

    # ------------------------------------------------------------------------------------------------- the server

    def _match(self, method: str, path: str) -> tuple[str, dict[str, str]]:
        for verb, pattern, name in TABLE:
            found = pattern.fullmatch(path) if verb == ("GET" if method == "HEAD" else method) else None
            if found:
                args = {k: urllib.parse.unquote(v) for k, v in found.groupdict().items() if v is not None}
                return name, {**args, "address": path}
        return "", {}

    def _note(self, route: str, method: str, path: str, status: int, user: User | None) -> None:
        if route:
            self.requests.append(Seen(route, method, path, status, user.name if user else None))
        else:
            self.unknown.append(f"{method} {path}")

    def _fault(self, route: str) -> Fault | None:
        """The fault that this request of a route meets, if any; each call counts."""
        for fault in self._faults:
            if route and fault.route in (route, "*"):
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                if not fault.times:
                    self._faults.remove(fault)
                return fault
        return None

    def _answer(self, call: Call, fault: Fault | None) -> Answer:
        """What the route says; every error becomes an answer, so that a client never waits."""
        try:
            if fault and fault.status:
                again = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
                raise HubError(fault.status, f"{http.HTTPStatus(fault.status).phrase} (planned by the test)", **again)
            if not call.route:
                raise HubError(501, "The Hub of the tests has no such route")
            if not call.route.startswith("lfs_") or call.route == "lfs_batch":
                call.user = self._user(call.headers)
            with self._lock:
                return getattr(self, f"on_{call.route}")(call)
        except HubError as error:
            return Answer({"error": error.message}, error.status, error.headers)
        except Exception as error:
            return Answer({"error": f"the Hub of the tests failed: {type(error).__name__}: {error}"}, 500)


class _Server(http.server.ThreadingHTTPServer):
    """One thread a connection; `hub` is None once the server has stopped."""

    request_queue_size = 64
    hub: HubServer | None = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that went away is no error here
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    """HTTP 1.1 around `HubServer._answer`: bodies in, answers out, connections that break where a fault says so."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits for the client to acknowledge its head

    def serve(self) -> None:
        hub = self.server.hub
        if hub is None:
            self.close_connection = True
            return
        path, _, query = self.path.partition("?")
        route, args = hub._match(self.command, path)
        with hub._lock:
            fault = hub._fault(route)
        if fault and fault.drop == "request":
            hub._note(route, self.command, path, 0, None)
            return self.break_off()
        damage, dropped = bool(fault and fault.damage), bool(fault and fault.drop)
        call = Call(route, args, urllib.parse.parse_qs(query), self.headers, self.body(), None, damage)
        answer = hub._answer(call, fault)
        hub._note(route, self.command, path, 0 if dropped else answer.status, call.user)
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body, default=str).encode()
        kind = "application/octet-stream" if isinstance(answer.body, bytes) else "application/json; charset=utf-8"
        length = max(len(body), int(dropped))  # of an empty answer that is to break off, a byte is announced
        self.send_response(answer.status)
        for key, value in {"Content-Type": kind, "Content-Length": str(length), **answer.headers}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: length // 2] if dropped else body)
        self.close_connection = self.close_connection or dropped

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = serve

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def break_off(self) -> None:
        """Read half of the request and reset the connection, as a network fault does."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0) // 2)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Silent: `HubServer.requests` is the log."""


# ------------------------------------------------------------------------------------------------------ small helpers


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _git_hash(content: bytes) -> str:
    """The hash that git gives a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _pointer(entry: dict) -> bytes:
    """What git holds in place of a large file."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{entry['lfs']}\nsize {entry['size']}\n".encode()


def _write(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{threading.get_ident()}.part")
    part.write_bytes(content)
    os.replace(part, path)


def _listed(files: dict[str, dict], path: str) -> dict | None:
    """A file or a folder as listings show it; None if there is neither."""
    if path in files:
        entry = files[path]
        item = {"type": "file", "path": path, "oid": entry["oid"], "size": entry["size"]}
        lfs = {"oid": entry["lfs"], "size": entry["size"], "pointerSize": len(_pointer(entry))}
        return {**item, "lfs": lfs} if entry["lfs"] else item
    inside = {p: entry["oid"] for p, entry in files.items() if p.startswith(f"{path}/")}
    oid = hashlib.sha1(json.dumps(inside).encode()).hexdigest()
    return {"type": "directory", "path": path, "oid": oid, "size": 0} if inside else None


def _part(call: Call, content: bytes, headers: dict[str, str]) -> Answer:
    """A file, or the range of it that the request asks for."""
    headers = {**headers, "Accept-Ranges": "bytes"}
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", call.headers.get("Range") or "")
    if not asked:
        return Answer(call.carry(content), 200, headers)
    first, last = asked.groups()
    start = int(first) if first else max(len(content) - int(last), 0)
    end = min(int(last) + 1 if first and last else len(content), len(content))
    if start >= end:
        raise HubError(416, "The requested range is not satisfiable", **{"Content-Range": f"bytes */{len(content)}"})
    where = {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}
    return Answer(call.carry(content[start:end]), 206, {**headers, **where})


def _front_matter(card: str) -> Any:
    """The YAML at the head of a card; None if there is none.

    Raises:
        yaml.YAMLError: If it is not YAML.
    """
    found = re.match(r"---\r?\n(.*?)\r?\n---(\r?\n|$)", card, re.DOTALL)
    return yaml.safe_load(found[1]) if found else None


def _check_card(card: str) -> tuple[list[str], list[str]]:
    """The errors and warnings that the Hub has for the metadata of a card; fewer checks than its own."""
    try:
        metadata = _front_matter(card)
    except yaml.YAMLError as error:
        return [f"YAML: {error}"], []
    if metadata is None:
        return [], ["empty or missing yaml metadata in repo card"]
    if not isinstance(metadata, dict):
        return ['"metadata" must be of type object'], []
    errors = []
    licences = metadata.get("license", "other")
    if not LICENCES.issuperset(licences if isinstance(licences, list) else [licences]):
        errors.append(f'"license" must be one of [{", ".join(sorted(LICENCES))}, ...]')
    if not all(isinstance(tag, str) for tag in metadata.get("tags") or []):
        errors.append('"tags" must be an array of strings')
    for i, entry in enumerate(metadata.get("model-index") or []):
        if not entry.get("name"):
            errors.append(f'"model-index[{i}].name" is required')
        for j, result in enumerate(entry.get("results") or []):
            where = f"model-index[{i}].results[{j}]"
            need = {"task": ["type"], "dataset": ["type", "name"]}
            errors += [f'"{where}.{a}.{b}" is required' for a in need for b in need[a] if not result.get(a, {}).get(b)]
            metrics = enumerate(result.get("metrics") or [])
            errors += [
                f'"{where}.metrics[{k}]" needs type and value' for k, m in metrics if not {"type", "value"} <= m.keys()
            ]
    return errors, []
