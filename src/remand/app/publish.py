"""A task's story travels with its branch: event files are committed, and nothing else."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from remand.app.errors import UsageError
from remand.app.ledger import Ledger
from remand.domain.ids import session_name
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.order import place


class Publisher(Protocol):
    """Puts files on branches."""

    def current_branch(self) -> str:
        """The branch checked out where we were called."""

    def names(self, branch: str) -> set[str]:
        """The event files a branch has already."""

    def read(self, branch: str, name: str) -> bytes:
        """An event file's content on a branch."""

    def commit(self, branch: str, files: dict[str, bytes], message: str) -> str:
        """Commits files on a branch."""


class Published(NamedTuple):
    """What was committed where; no commit when the branch had it all."""

    branch: str
    commit: str
    files: list[str]
    events: int


def publish_all(ledger: Ledger, publisher: Publisher) -> Published:
    """Commits every event file that the current branch does not have. The open segment is closed by that."""
    branch = publisher.current_branch()
    if not branch:
        raise UsageError("No branch is checked out here. Check one out, or name a task with --task.")
    present = publisher.names(branch)
    files = {name: content for name, content in ledger.event_files().items() if name not in present}
    return _commit(publisher, branch, files, "log: publish events")


def publish_task(ledger: Ledger, publisher: Publisher, task: Task, random_hex: str) -> Published:
    """Commits the task's own events on its branch, those that the branch does not have yet."""
    branch = task.branch or publisher.current_branch()
    if not branch:
        raise UsageError(
            f"Task {task.id} has no branch yet. Give it one: remand task edit {task.id} --branch B"
        )
    present = {
        line.rstrip(b"\r")
        for name in publisher.names(branch)
        for line in publisher.read(branch, name).split(b"\n")
    }
    lines = [line for line in ledger.lines_of(task.id) if line not in present]
    lines.sort(key=lambda line: place(codec.recall(line)))
    name = f"{session_name(ledger.clock.now(), random_hex)}.jsonl"
    files = {name: b"\n".join(lines) + b"\n"} if lines else {}
    return _commit(publisher, branch, files, f"log: publish events of {task.id}")


def _commit(publisher: Publisher, branch: str, files: dict[str, bytes], message: str) -> Published:
    commit = publisher.commit(branch, files, message) if files else ""
    count = sum(content.count(b"\n") for content in files.values())
    return Published(branch, commit, sorted(files), count)
