"""A run becomes a repository on the Hub that anyone can load: in one commit, or not at all.

What goes up is laid out in a folder of its own and checked there. Large files are sent first, where nobody sees them;
the commit names them all at once, and then what the Hub holds is compared with what was sent. A run that was cut off
is published by the same command: what is there already is not sent again.
"""

import copy
import fnmatch
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import sha, validate_repo_id

import regard.modeling
from regard.model_cards.check import check_files
from regard.model_cards.contents import MAX_FILE_BYTES, STATE_NAMES, check_contents
from regard.model_cards.findings import CheckReport
from regard.model_cards.hub import Damaged, HubError, retrying, say
from regard.model_cards.staging import EVENTS, MODEL, RECORDS, Staged, relative_files, stage

STAGING = ".publishing"  # in a run's folder, while a checkpoint is on its way
# What git does not take for the name of a branch or a tag, and what the Hub keeps for itself.
NO_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/.]|/\.|[/.]$|\.lock$|^@$|^$|^refs/")


class NotPublishable(RuntimeError):
    """The check found something; nothing was sent."""

    def __init__(self, report: CheckReport) -> None:
        number = len(report.findings)
        listed = " ".join(str(finding) for finding in report.findings[:5])
        more = f" And {number - 5} more: `regard check {report.checked}` lists them." if number > 5 else ""
        super().__init__(f"'{report.checked}' was not published. {listed}{more}")
        self.report = report


@dataclass
class Published:
    """What was, or in a dry run would be, published.

    Attributes:
        repo: the repository's id.
        url: of the repository, or of the pull request; None in a dry run, as are the next two.
        commit: the hash of the commit.
        private: whether only its owner sees it.
        files: bytes by path.
        removed: files of an earlier version that are no longer part of it.
        left_out: what stays in the run's folder.
        notes: what differs from the run's folder.
    """

    repo: str
    branch: str | None = None
    tag: str | None = None
    pull_request: bool = False
    url: str | None = None
    commit: str | None = None
    private: bool | None = None
    files: dict[str, int] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def publish(
    run: str | Path,
    repo: str,
    *,
    public: bool = False,
    branch: str | None = None,
    tag: str | None = None,
    pull_request: bool = False,
    message: str | None = None,
    dry_run: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> Published:
    """Publishes a run on the Hub.

    Args:
        run: its folder.
        repo: `user/name`, or a name alone for one's own. It is made if it is not there.
        public: let everyone see it; else a new repository is private, and one that is public is left alone.
        branch: commit there, not to `main`; it is made if it is not there.
        tag: a name for the commit, which the card's snippet then loads.
        pull_request: propose the commit to somebody else's repository. A proposal of yours that is open there under
            the same message is gone on with.
        message: of the commit.
        dry_run: check, and say what would go up; nothing is sent or asked.
        token: by default the one that is logged in.
        endpoint: another Hub; by default that of HF_ENDPOINT.
        max_file_bytes: the most that a file may have.

    Raises:
        NotPublishable: the check found something.
        HubError: the Hub did not take it, or the run was written to meanwhile; the same call goes on from there.
        ValueError: arguments that exclude one another, a name that cannot be, no run, a tag that is taken, or a
            repository that is public already.
    """
    if pull_request and (branch or tag):
        raise ValueError(f"A pull request goes to main, and has no {'branch' if branch else 'tag'} of its own.")
    if pull_request and public:
        raise ValueError("A pull request opens no repository: who sees it is for its owner to say.")
    for what, name in (("branch", branch), ("tag", tag)):
        if name is not None and NO_REF.search(name):
            raise ValueError(
                f"'{name}' is no name for a {what}: letters, digits, '-', '_', '.' and '/' are, as in 'v1'."
            )
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise ValueError(f"'{repo}' is no name for a repository: {' '.join(str(error).split())}") from error
    run, api = Path(run), HfApi(endpoint=endpoint, token=token)
    if not run.is_dir():
        raise ValueError(f"There is no folder '{run}'.")
    if not dry_run:
        repo = whole_id(api, repo)
    with tempfile.TemporaryDirectory(prefix="regard-publish-") as scratch:
        staged = stage(run, Path(scratch) / run.resolve().name, repo, tag or branch)
        report = check_files(staged.folder, str(run), max_file_bytes=max_file_bytes)
        if not report.ok:
            raise NotPublishable(report)
        result = Published(repo, branch, tag, pull_request, files=staged.files())
        result.left_out, result.notes = staged.left_out, staged.notes
        if dry_run:
            return result
        result.private = open_repository(api, repo, public=public, proposing=pull_request)
        tagged = tag is not None and _is_tagged(api, staged, repo, tag)
        if branch is not None:
            retrying(lambda: api.create_branch(repo, branch=branch, exist_ok=True), "making the branch", repo)
        size = sum(result.files.values())
        say(f"Sending {len(result.files)} files, {size / 1e6:,.1f} MB, to {repo}.")
        _send(api, staged, result, message or f"Publish {run.resolve().name}")
        if tag is not None and not tagged:
            make = lambda: api.create_tag(repo, tag=tag, revision=result.commit, exist_ok=True)  # noqa: E731
            retrying(make, "making the tag", repo, f"the files are there, and the tag '{tag}' is not yet")
        if public and result.private:
            opening = lambda: api.update_repo_settings(repo, private=False)  # noqa: E731
            retrying(opening, "opening the repository", repo, "all is there, and still private")
            result.private = False
    return result


def push_checkpoint(
    run: Path, checkpoint: Path, repo: str, message: str, branch: str | None = None, token: str | None = None
) -> Future:
    """Publishes the state of a training, in a thread of its own. A fault is said and ends nothing.

    The files are looked through as by `publish`; the model is not loaded. The checkpoint may be deleted meanwhile.
    """
    folder = run / STAGING / run.resolve().name  # by which its card calls it
    api = HfApi(token=token)

    def send(staged: Staged) -> None:
        findings = check_contents(staged.folder, relative_files(staged.folder))
        if findings:
            raise HubError(" ".join(map(str, findings)))
        if branch is not None:
            retrying(lambda: api.create_branch(repo, branch=branch, exist_ok=True), "making the branch", repo)
        _send(api, staged, Published(repo, branch), message)

    def guarded(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Exception as error:  # the training is worth more than its mirror
            say(f"{checkpoint.name} was not published, and the training goes on: {' '.join(str(error).split())}")

    def send_and_tidy(staged: Staged | None) -> None:
        if staged is not None:
            guarded(lambda: send(staged))
        shutil.rmtree(folder.parent, ignore_errors=True)

    shutil.rmtree(folder.parent, ignore_errors=True)  # of a process that was killed
    staged = guarded(lambda: stage(run, folder, repo, branch, checkpoint=checkpoint))
    return api.run_as_future(send_and_tidy, staged)


def open_repository(api: HfApi, repo: str, public: bool = False, proposing: bool = False) -> bool:
    """Makes the repository if it is not there; returns whether it is private.

    Raises:
        HubError: it cannot be made, or there is none to propose something to.
        ValueError: it is public, and that was not asked for.
    """

    def look() -> bool | None:
        try:
            return bool(api.repo_info(repo).private)
        except RepositoryNotFoundError:
            return None

    private = retrying(look, "looking for the repository", repo)
    if private is None and proposing:
        raise HubError(f"There is no model '{repo}' on the Hub, or the token may not read it.")
    if private is None:
        make = lambda: api.create_repo(repo, private=not public, exist_ok=True)  # noqa: E731
        retrying(make, "making the repository", repo)
        return not public
    if not (private or public or proposing):
        raise ValueError(
            f"'{repo}' is public already, and everyone would see it: publish with --public (in a recipe "
            "training.hub_private_repo: false), or choose another name."
        )
    return private


def whole_id(api: HfApi, repo: str) -> str:
    """The id with its owner; what is wrong with the token is found here, before the work.

    Raises:
        HubError: there is no token, or one that may only read.
    """
    user = retrying(api.whoami, "asking who you are", repo)
    token = user.get("auth", {}).get("accessToken", {})
    if token.get("role") == "read":
        raise HubError(
            f"The token '{token.get('displayName')}' may only read: make one with write access on the Hub's page of "
            "access tokens, and log in with `hf auth login`, or set HF_TOKEN."
        )
    return repo if "/" in repo else f"{user['name']}/{repo}"


def _is_tagged(api: HfApi, staged: Staged, repo: str, tag: str) -> bool:
    """Whether the tag is there and names these very files: then an earlier call got so far.

    Raises:
        ValueError: it names others.
    """
    refs = retrying(lambda: api.list_repo_refs(repo), "reading the tags", repo)
    commit = next((ref.target_commit for ref in refs.tags if ref.name == tag), None)
    if commit is None:
        return False
    there = retrying(lambda: _tree(api, repo, commit), "reading the tag", repo)
    if _difference(_additions(staged), there) is not None:
        raise ValueError(f"'{repo}' has a tag '{tag}' already, and a tag stays where it is: choose another.")
    return True


# --- one commit ------------------------------------------------------------------------------------------------------


def _send(api: HfApi, staged: Staged, result: Published, message: str) -> None:
    """Sends the files and writes into `result` what became of it."""
    repo, additions = result.repo, _additions(staged)
    proposing, ref = result.pull_request, result.branch
    user = retrying(api.whoami, "asking who you are", repo)["name"] if proposing else ""

    def attempt() -> None:
        nonlocal ref
        _refuse_changes(staged)
        if proposing and ref is None:  # one that came to be, though its answer was lost or the process killed
            ref = _proposal(api, repo, message, user)
        creating = proposing and ref is None
        there = api.list_repo_files(repo, revision=ref)
        removed = [name for name in there if name not in additions and is_outdated(name)]
        result.removed = sorted({*result.removed, *removed})
        # The client marks what it has committed, so that each try needs copies; their hashes are not made again.
        operations: list[Any] = [copy.copy(addition) for addition in additions.values()]
        where = {"revision": ref, "create_pr": creating, "num_threads": 2}
        api.preupload_lfs_files(repo, operations, free_memory=False, **where)
        _refuse_ignored(operations, repo)
        operations += [CommitOperationDelete(name, is_folder=False) for name in removed]
        try:
            commit = api.create_commit(repo, operations, commit_message=message, **where)
        except json.JSONDecodeError:  # the page of a server that is busy
            raise
        except ValueError as error:  # of the Hub about the card
            raise HubError(f"The Hub does not take it: {' '.join(str(error).split())}") from error
        if creating and commit.pr_url:
            ref = f"refs/pr/{commit.pr_num}"
        result.commit, result.url = commit.oid, f"{api.endpoint}/{repo}"
        difference = _difference(additions, _tree(api, repo, commit.oid))
        if difference is not None:
            raise Damaged(difference)

    retrying(attempt, "sending the files", repo)
    if proposing and ref is not None:
        result.url = f"{api.endpoint}/{repo}/discussions/{ref.rpartition('/')[2]}"


def _additions(staged: Staged) -> dict[str, CommitOperationAdd]:
    """The files by path, each read once for its hash."""
    return {name: CommitOperationAdd(name, str(staged.folder / name)) for name in staged.files()}


def _refuse_changes(staged: Staged) -> None:
    """What is sent must be what was checked; the Hub itself refuses large files of another hash."""
    changed = staged.changed()
    if changed:
        raise HubError(
            f"{changed[0]} changed while it was on its way: run the same command again when nothing writes to the run."
        )


def _refuse_ignored(operations: list[CommitOperationAdd], repo: str) -> None:
    """The client leaves out of a commit, without a word, what a .gitignore of the repository names."""
    ignored = [operation.path_in_repo for operation in operations if getattr(operation, "_should_ignore", False)]
    if ignored:
        raise HubError(f"The .gitignore of '{repo}' keeps {ignored[0]} out: change it there, and run it again.")


def _proposal(api: HfApi, repo: str, title: str, author: str) -> str | None:
    """The latest pull request of this title and author that is open: its ref, or None."""
    open_ones = [
        one.num
        for one in api.get_repo_discussions(repo)
        if one.is_pull_request and one.title == title and one.author == author and one.status in ("open", "draft")
    ]
    return f"refs/pr/{max(open_ones)}" if open_ones else None


def _tree(api: HfApi, repo: str, revision: str) -> dict[str, RepoFile]:
    listed = api.list_repo_tree(repo, recursive=True, revision=revision)
    return {one.path: one for one in listed if isinstance(one, RepoFile)}


def _difference(additions: dict[str, CommitOperationAdd], there: dict[str, RepoFile]) -> str | None:
    """What the Hub does not hold as it is here, bit by bit: by the hashes that it gives. None if it holds all."""
    for name, addition in additions.items():
        if name not in there:
            return f"{name} did not arrive"
        if there[name].lfs is not None:
            same = addition.upload_info.sha256.hex() == there[name].lfs.sha256
        else:
            with addition.as_file() as file:
                same = sha.git_hash(file.read()) == there[name].blob_id
        if not same:
            return f"{name} arrived damaged"
    return None


def is_outdated(name: str) -> bool:
    """Whether a file of a repository, which the run does not have, is of an earlier version of it or of Trainer's own
    pushes. What somebody else put there stays."""
    if STATE_NAMES.fullmatch(name) or EVENTS.fullmatch(name.rpartition("/")[2]):
        return True
    patterns = (*MODEL, *RECORDS, "pytorch_model*.bin")
    if "/" in name or name == "config.json":
        return False
    own_code = {path.name for path in Path(regard.modeling.__file__).parent.glob("*.py")}
    return name in own_code or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
