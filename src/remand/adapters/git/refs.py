"""Refs: task branches, a worktree's state by its refs, and the private git folder of a confined agent."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from remand.adapters.git.command import OUR_IDENTITY, git_error, one_per_line, parse_batch_check, run_git
from remand.adapters.git.commit_import import alternates
from remand.adapters.git.files import Trash, is_real_folder, list_below, read_below, read_line_below
from remand.adapters.git.linked_worktree import LinkedWorktree
from remand.adapters.git.location import read_ref
from remand.adapters.system.files import read_start
from remand.app.errors import EnvironmentFault
from remand.domain.ids import is_commit, is_git_branch

HEADS = "refs/heads/"
BUSY = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"),
    *("rebase-merge", "rebase-apply", "sequencer"),
)
"""Files that git keeps beside HEAD while an operation is in progress."""
_MAX_BRANCH = 1024
_MAX_NAME = 240
"""Longest name: a file name has at most 255 bytes, and git adds `.lock`."""
_MAX_AGENT_PACKED = 64 << 20
_MAX_ASIDE = 50


class LinkedWorktreeState(NamedTuple):
    """The state of a worktree."""

    tip: str = ""
    """The commit of the task's branch; empty if there is no branch."""
    at: str = ""
    """The commit that its files are based on; empty if that is unknown."""
    is_on_branch: bool = True
    is_busy: bool = False
    """True if a merge, a rebase or the like was left unfinished."""


def is_valid_branch(branch: str) -> bool:
    """True for a valid branch name that git can store as a file."""
    if not is_git_branch(branch) or len(branch) > _MAX_BRANCH:
        return False
    return all(len(part.encode()) <= _MAX_NAME for part in branch.split("/"))


def read_worktree_state(common_dir: str, entry: str, branch: str) -> LinkedWorktreeState:
    """The state of a worktree, read from the repository's own files."""
    return _read_state(common_dir, entry, branch, lambda name: read_ref(common_dir, name))


def _read_state(git_dir: str, entry: str, branch: str, read: Callable[[str], str]) -> LinkedWorktreeState:
    own = f"worktrees/{entry}"
    head = read_line_below(git_dir, f"{own}/HEAD")
    name = head.removeprefix("ref: ").strip() if head.startswith("ref: ") else ""
    is_branch = name.startswith(HEADS) and is_valid_branch(name.removeprefix(HEADS))
    tip = _commit(read(HEADS + branch))
    return LinkedWorktreeState(
        tip=tip,
        at=_commit(read(name)) if is_branch else _commit(head),
        is_on_branch=name == HEADS + branch,
        is_busy=any(os.path.lexists(os.path.join(git_dir, own, left)) for left in BUSY),
    )


def read_ref_below(git_dir: str, name: str) -> str:
    """The commit that a ref points to in an agent's git folder; empty if there is none."""
    for _ in range(2):  # git may move it between the two places meanwhile.
        line = read_line_below(git_dir, name, 100)
        if is_commit(line):
            return line
        wanted = b" " + name.encode("utf-8", "surrogateescape")
        for row in (read_below(git_dir, "packed-refs", _MAX_AGENT_PACKED) or b"").split(b"\n"):
            if row.endswith(wanted):
                return row.removesuffix(wanted).decode("ascii", "replace")
    return ""


def find_stashed_commits(git_dir: str, branch: str) -> list[str]:
    """The commits of other branches and of the stash in an agent's git folder, without duplicates, up to a limit."""
    found = []
    for row in (read_below(git_dir, "packed-refs", _MAX_AGENT_PACKED) or b"").split(b"\n"):
        commit, _, name = row.decode("utf-8", "surrogateescape").partition(" ")
        if name == "refs/stash" or (name.startswith(HEADS) and name != HEADS + branch):
            found.append(commit)
    found += [read_ref_below(git_dir, name) for name in _loose_refs(git_dir, HEADS + branch)]
    stashed = read_below(git_dir, "logs/refs/stash", 1 << 20) or b""
    found += [row.split(b" ")[1].decode("ascii", "replace") for row in stashed.split(b"\n") if b" " in row]
    return list(dict.fromkeys(filter(is_commit, found)))[:_MAX_ASIDE]


def _loose_refs(git_dir: str, branch: str) -> list[str]:
    """The names of loose refs. Enters folders, but follows no links."""
    names = ["refs/stash"]
    pending = ["refs/heads"]
    while pending and len(names) < _MAX_ASIDE:
        folder = pending.pop()
        for name in list_below(git_dir, folder):
            path = f"{folder}/{name}"
            if is_real_folder(os.path.join(git_dir, path)):
                pending.append(path)
            elif path != branch:
                names.append(path)
    return names


def _commit(text: str) -> str:
    return text if is_commit(text) else ""


KEPT = "refs/remand/kept/"
LOCK_SECONDS = 3.0
"""After this time a ref's lock counts as abandoned: git holds one for milliseconds."""
_UNDER_WAY = ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START")


class RefMoved(EnvironmentFault):
    """A ref is not where the caller expected it: somebody else moved it meanwhile."""


def require_valid_branch(branch: str) -> None:
    """Raises if git would not accept a branch of that name."""
    if not is_valid_branch(branch):
        raise EnvironmentFault(f"{branch[:80]!r} is not a valid branch name. Give the task another one.")


class Branches:
    """Reads and moves refs by name and value, regardless of what is checked out; runs no hook."""

    def __init__(self, common_dir: str, root: str) -> None:
        self._root = root
        self._folder = common_dir
        self._alone = OUR_IDENTITY | {"GIT_DIR": common_dir, "GIT_NO_REPLACE_OBJECTS": "1"}

    def tip(self, branch: str) -> str:
        return self.commit_at(HEADS + branch)

    def commit_at(self, ref: str) -> str:
        found = read_ref(self._folder, ref)
        return found if is_commit(found) else ""

    def require_free(self, branch: str, entry: str) -> None:
        """Raises if another worktree has the branch checked out."""
        if os.path.isdir(os.path.join(self._folder, "reftable")):
            raise EnvironmentFault(
                "The repository keeps its refs in a reftable, which is not supported. "
                "Run `git refs migrate --ref-format=files`."
            )
        for folder, used in self._branches_in_use(entry):
            if used == branch:
                raise EnvironmentFault(_in_use_message(branch, folder))

    def create(self, branch: str, start: str) -> str:
        """Creates a branch at a commit and returns that commit.

        A git process that a killed scheduler started may be creating the same branch at this moment.
        """
        if not is_commit(start) or not start.strip("0"):
            raise EnvironmentFault(
                f"There is no branch {branch}, and no commit to create it from. Commit to the base first."
            )
        reason = self._update(HEADS + branch, start, "0" * len(start))
        if not reason or self.tip(branch) == start:
            return start
        for other in self._names():
            if other.startswith(f"{branch}/") or branch.startswith(f"{other}/"):
                raise EnvironmentFault(
                    f"Branch {branch} cannot be created beside the branch {other}: git keeps them as files. "
                    "Give the task another branch, or rename that one."
                )
        raise EnvironmentFault(f"Branch {branch} cannot begin at {start[:12]}: {reason}")

    def move(self, branch: str, commit: str, before: str) -> None:
        """Moves a branch from one commit to another; raises RefMoved if it is no longer at the first."""
        reason = self._update(HEADS + branch, commit, before)
        if reason and self.tip(branch) != before:
            raise RefMoved(f"Branch {branch} was moved by somebody else: {reason}")
        if reason:
            raise EnvironmentFault(f"Branch {branch} cannot be moved to {commit[:12]}: {reason}")

    def remove(self, branch: str, commit: str) -> None:
        """Removes a branch if it is at that commit and not checked out anywhere."""
        if any(used == branch for _, used in self._branches_in_use("")):
            return
        arguments = ("update-ref", "--no-deref", "-d", HEADS + branch, commit)
        run_git(self._folder, *arguments, environment=self._alone)

    def keep_commit(self, task_id: str, commit: str) -> str:
        """Protects a commit from being pruned; returns the ref that does. Earlier refs stay."""
        for number in count():
            ref = KEPT + task_id + (f"-{number}" if number else "")
            found = self.commit_at(ref)
            if found == commit:
                return ref
            if found:
                continue
            reason = self._update(ref, commit, "0" * len(commit))
            if not reason:
                return ref
            if not self.commit_at(ref):
                raise EnvironmentFault(f"{commit[:12]} cannot be kept at {ref}: {reason}")
        raise AssertionError("there is always another number")

    def has_commit(self, commit: str) -> bool:
        return bool(self.existing_commits([commit]))

    def existing_commits(self, commits: Iterable[str]) -> list[str]:
        """The commits that the repository has, each once."""
        names = one_per_line([commit for commit in dict.fromkeys(commits) if is_commit(commit)])
        answer = run_git(self._folder, "cat-file", "--batch-check", stdin=names, environment=self._alone)
        return [name for name, kind, _ in parse_batch_check(answer.stdout) if kind == "commit"]

    def is_ancestor(self, commit: str, other: str) -> bool:
        """True if a commit equals the other or is in its history."""
        if commit == other:
            return True
        process = run_git(self._folder, "merge-base", "--is-ancestor", commit, other, environment=self._alone)
        return not process.returncode

    def _update(self, ref: str, commit: str, before: str) -> str:
        """Moves a ref; returns why it failed, or an empty string. Removes abandoned locks."""
        lock = os.path.join(self._folder, f"{ref}.lock")
        arguments = ("update-ref", "--no-deref", "-m", "remand", ref, commit, before)
        for is_last in (False, True):
            answer = run_git(self._folder, *arguments, environment=self._alone)
            if not answer.returncode:
                return ""
            if is_last or not _is_lock_released(lock):
                break
        return git_error(answer.stderr)

    def _names(self) -> list[str]:
        answer = run_git(self._folder, "for-each-ref", "--format=%(refname)", HEADS, environment=self._alone)
        return [
            row.decode("utf-8", "surrogateescape").removeprefix(HEADS) for row in answer.stdout.splitlines()
        ]

    def _branches_in_use(self, entry: str) -> Iterator[tuple[str, str]]:
        """The branches that other worktrees use, each with the worktree's folder."""
        if not _is_bare(self._folder):
            for branch in _in_use(self._folder):
                yield self._root, branch
        entries = os.path.join(self._folder, "worktrees")
        with suppress(FileNotFoundError):
            for name in os.listdir(entries):
                if name != entry:
                    folder = os.path.join(entries, name)
                    for branch in _in_use(folder):
                        yield os.path.dirname(read_line_below(folder, "gitdir")) or folder, branch


def _in_use_message(branch: str, folder: str) -> str:
    if not os.path.isdir(folder):
        return f"Branch {branch} counts as checked out in {folder}, which is gone. Run `git worktree prune`."
    return (
        f"Branch {branch} is checked out in {folder}. Switch to another branch there "
        "(`git switch`), or give the task another branch."
    )


def _in_use(git_dir: str) -> Iterator[str]:
    """The branches that a worktree uses: checked out, being rebased, or being bisected."""
    head = read_line_below(git_dir, "HEAD")
    if head.startswith(f"ref: {HEADS}"):
        yield head.removeprefix(f"ref: {HEADS}").strip()
    for name in _UNDER_WAY:
        if os.path.lexists(os.path.join(git_dir, name)):
            yield read_line_below(git_dir, name).removeprefix(HEADS)


def _is_bare(common_dir: str) -> bool:
    """True if the repository has no worktree of its own, whatever its HEAD says."""
    rows = read_start(os.path.join(common_dir, "config"), 1 << 20).split(b"\n")
    return any(b"".join(row.split()).lower() in (b"bare=true", b"bare") for row in rows)


def _is_lock_released(lock: str) -> bool:
    """Waits for a lock to be released; removes an abandoned one. False if there was no lock."""
    try:
        found = os.lstat(lock).st_ino
    except OSError:
        return False
    deadline = time.monotonic() + LOCK_SECONDS
    with suppress(OSError):
        while os.lstat(lock).st_ino == found:
            if time.monotonic() > deadline:
                os.unlink(lock)
            time.sleep(0.02)
    return True


BASE_OBJECTS = "base-objects"
"""Where the sandbox mounts the real object folder."""
_MAX_TAGS_PACKED = 256 << 20
_MAX_TAGS = 20_000
_MAX_STORES = 8
_CONFIG = """\
[core]
	repositoryformatversion = {version}
	filemode = true
	bare = false
	logallrefupdates = true
	checkstat = minimal
[user]
	name = {name}
	email = {email}
[gc]
	auto = 0
[maintenance]
	auto = false
[commit]
	gpgsign = false
[tag]
	gpgsign = false
{extensions}"""
"""Files have another owner inside the sandbox: without `checkstat`, git would read all of them again."""


class AgentGitSettings(NamedTuple):
    """What a confined agent gets besides its branch."""

    refs: Mapping[str, str]
    """The base's refs, by full name, with their commits."""
    name: str
    email: str
    excluded: Sequence[str]
    """Remand's own files in the worktree."""


class PrivateGitFolder:
    """The private git folder of one worktree."""

    def __init__(self, path: str, linked: LinkedWorktree, trash: Trash) -> None:
        self.path = path
        self._linked = linked
        self._trash = trash

    def is_made(self) -> bool:
        return is_real_folder(self.path)

    def read_state(self, branch: str) -> LinkedWorktreeState:
        """The state of the worktree, read from a git folder into which an agent may have written anything."""
        return _read_state(self.path, self._linked.name, branch, lambda name: read_ref_below(self.path, name))

    def make(self, branch: str, tip: str, agent_git_settings: AgentGitSettings) -> None:
        """Recreates it. The index records how the files look, so that git need not read them again."""
        draft = f"{self.path}.new"
        self._discard(draft)
        try:
            self._write(draft, branch, tip, agent_git_settings)
            self.remove()
            os.rename(draft, self.path)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def _write(self, folder: str, branch: str, tip: str, agent_git_settings: AgentGitSettings) -> None:
        own = os.path.join("worktrees", self._linked.name)
        for name in ("objects/info", "objects/pack", BASE_OBJECTS, "refs/heads", "info", own):
            os.makedirs(os.path.join(folder, name), mode=0o700)
        for name, text in self._texts(branch, tip, agent_git_settings).items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path, "x", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
        shutil.copy2(self._linked.index, os.path.join(folder, own, "index"))

    def remove(self) -> None:
        self._discard(self.path)

    def _discard(self, path: str) -> None:
        if os.path.lexists(path):
            self._trash.throw(path)

    def _texts(self, branch: str, tip: str, agent_git_settings: AgentGitSettings) -> dict[str, str]:
        common, own = self._linked.common_dir, f"worktrees/{self._linked.name}"
        refs = {name: commit for name, commit in agent_git_settings.refs.items() if name != HEADS + branch}
        is_sha256 = len(tip) == 64
        excluded = (read_below(common, "info/exclude", 1 << 16) or b"").decode("utf-8", "surrogateescape")
        texts = {
            "HEAD": f"{tip}\n",  # On no branch, so that each can be checked out in the worktree.
            "config": _CONFIG.format(
                version=int(is_sha256),
                name=_config_value(agent_git_settings.name),
                email=_config_value(agent_git_settings.email),
                extensions="[extensions]\n\tobjectformat = sha256\n" if is_sha256 else "",
            ),
            HEADS + branch: f"{tip}\n",
            "packed-refs": _packed_refs(common, refs),
            "info/exclude": excluded.rstrip("\n")
            + "\n"
            + "".join(f"/{name}\n" for name in agent_git_settings.excluded),
            "objects/info/alternates": alternates(
                f"../{BASE_OBJECTS}", self._linked.objects, *_borrowed_stores(self._linked.objects)
            ),
            f"{own}/HEAD": f"ref: {HEADS}{branch}\n",
            f"{own}/commondir": "../..\n",
            f"{own}/gitdir": os.path.join(self._linked.folder, ".git") + "\n",
        }
        shallow = read_below(common, "shallow", 64 << 20)
        return texts | ({"shallow": shallow.decode("ascii", "replace")} if shallow else {})


def _config_value(text: str) -> str:
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _packed_refs(common_dir: str, refs: Mapping[str, str]) -> str:
    """The refs of the base and the repository's tags, in the format of `packed-refs`."""
    rows = {name: commit for name, commit in [*_tags(common_dir), *refs.items()] if commit}
    names = sorted(rows, key=lambda name: name.encode("utf-8", "surrogateescape"))
    listed = "".join(f"{rows[name]} {name}\n" for name in names)
    return f"# pack-refs with: sorted \n{listed}"


def _borrowed_stores(objects: str) -> list[str]:
    """The alternate object folders of a repository that was cloned by reference."""
    found: list[str] = []
    waiting = [objects]
    while waiting and len(found) < _MAX_STORES:
        store = waiting.pop()
        rows = (read_below(store, "info/alternates", 1 << 16) or b"").decode("utf-8", "surrogateescape")
        for row in rows.split("\n"):
            further = os.path.normpath(os.path.join(store, row))
            if row and row[0] not in '#"' and further not in found:
                found.append(further)
                waiting.append(further)
    return found


def _tags(common_dir: str) -> list[tuple[str, str]]:
    """Tags with their targets, up to a limit."""
    packed = (read_below(common_dir, "packed-refs", _MAX_TAGS_PACKED) or b"").decode(
        "utf-8", "surrogateescape"
    )
    found = []
    for row in packed.split("\n"):
        commit, _, name = row.partition(" ")
        if name.startswith("refs/tags/"):
            found.append((name, commit))
    for folder, _, names in os.walk(os.path.join(common_dir, "refs", "tags")):
        for file in names:
            path = os.path.join(folder, file)
            name = os.path.relpath(path, common_dir)
            content = (read_below(common_dir, name, 100) or b"").decode("ascii", "replace").strip()
            if len(content) in (40, 64):
                found.append((name, content))
    return found[-_MAX_TAGS:]
