"""A task's story travels with its branch: events are committed in files, and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple, Protocol

from remand.app.errors import UsageError
from remand.app.group_lines import groups_without, lines_of_task
from remand.app.ledger import Ledger
from remand.domain.ids import session_name
from remand.domain.task import Task
from remand.ledger import codec, signatures
from remand.ledger.signatures import is_group

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.jsonl")


class Publisher(Protocol):
    """Puts files on branches."""

    def current_branch(self) -> str:
        """The branch checked out where we were called."""

    def exists(self, branch: str) -> bool:
        """True when there is such a branch."""

    def sizes(self, branch: str) -> dict[str, int]:
        """The event files a branch has, with their sizes."""

    def read(self, branch: str, name: str) -> bytes:
        """An event file's content on a branch."""

    def deleted(self, branch: str, names: set[str]) -> dict[str, bytes]:
        """Those of the files that the branch once had, with the content they had last."""

    def commit(self, branch: str, files: dict[str, bytes], message: str) -> str:
        """Commits files on a branch."""


class Published(NamedTuple):
    """What was committed where; no commit when the branch had it all."""

    branch: str
    commit: str
    files: list[str]
    events: int


def publish_all(ledger: Ledger, publisher: Publisher, base: str) -> Published:
    """Commits every event that the current branch does not have.

    The open segment is closed first, so that no file changes any more once it is on a branch. Files travel
    whole under their own names; one that the branch deleted is brought back as it was. Events whose file is
    gone or damaged, or differs from the branch's, get a new file from the ledger.
    """
    branch = publisher.current_branch()
    if not branch:
        raise UsageError("No branch is checked out here. Check one out, or name a task with --task.")
    closed = {name: path for name, path in ledger.closed_files().items() if _NAME.fullmatch(name)}
    there = publisher.sizes(branch)
    files: dict[str, bytes] = {}
    damaged = False
    for name, path in closed.items():
        content = ledger.content(path)
        if name not in there:
            is_whole = bool(content) and not ledger.problems_in(path)
            files |= {name: content} if is_whole else {}
            damaged |= not is_whole
        elif content and there[name] != len(content):
            damaged = True
    damaged |= ledger.has_lost_lines()
    gone = ledger.vanished_files() - set(there)
    if gone:
        files |= publisher.deleted(branch, gone)
        gone -= set(files) | (set(publisher.sizes(base)) if base != branch else set())
    if gone or damaged:
        loose = _in_no_file(ledger, publisher, branch, files.values())
        files |= _named(loose) if loose else {}
    return _commit(publisher, branch, files, "log: publish events")


def publish_task(ledger: Ledger, publisher: Publisher, task: Task) -> Published:
    """Commits the task's events on its branch, with the groups that name them and what stands between them.

    A reader can so tell that none of the task's events was left out, without having those of others.
    """
    branch = task.branch or publisher.current_branch()
    if not branch:
        raise UsageError(
            f"Task {task.id} has no branch yet. Give it one: remand task edit {task.id} --branch B"
        )
    if not publisher.exists(branch):
        raise UsageError(f"There is no branch {branch} yet. Create it first: git branch {branch}")
    present = _lines_on(publisher, branch)
    with ledger.store.read() as view:
        lines = lines_of_task(view, task.id, present)
    files = _named(lines) if lines else {}
    return _commit(publisher, branch, files, f"log: publish events of {task.id}")


def _split(content: bytes) -> list[bytes]:
    return [line.rstrip(b"\r") for line in content.split(b"\n") if line.strip()]


def _lines_on(publisher: Publisher, branch: str) -> set[bytes]:
    return {line for name in publisher.sizes(branch) for line in _split(publisher.read(branch, name))}


def _in_no_file(ledger: Ledger, publisher: Publisher, branch: str, files: Iterable[bytes]) -> list[bytes]:
    """The groups of which the ledger alone has an event: its file was deleted or reverted."""
    present = _lines_on(publisher, branch)
    for content in files:
        present.update(_split(content))
    with ledger.store.read() as view:
        return groups_without(view, present)


def _named(lines: list[bytes]) -> dict[str, bytes]:
    """Lines as a new file, named after its content: two who bring the same back make the same file."""
    content = _joined(lines)
    first = min(signatures.read(line).ts if is_group(line) else codec.recall(line).ts for line in lines)
    return {f"{session_name(first, sha256(content).hexdigest()[:8])}.jsonl": content}


def _joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _commit(publisher: Publisher, branch: str, files: dict[str, bytes], message: str) -> Published:
    commit = publisher.commit(branch, files, message) if files else ""
    count = sum(1 for content in files.values() for line in _split(content) if not is_group(line))
    return Published(branch, commit, sorted(files), count)
