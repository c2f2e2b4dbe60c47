"""Checks what a branch changes below `.got`: only event files of complete groups signed by trusted keys are acceptable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol

from remand.app.events.signatures import Verifier
from remand.app.ports import Commit, Repository
from remand.domain.events.catalogue import event_task_id
from remand.domain.gate.control_files import (
    NO_CHANGE,
    ControlChange,
    ControlFile,
    is_event_file,
    make_control_change,
)
from remand.domain.record import NamedTuple
from remand.domain.task import Task
from remand.ledger import codec, signatures
from remand.ledger.problems import BadLine
from remand.ledger.signatures import IMPORT, VOID, EventGroup, adoption_session

MAX_FILE = 64 << 20
"""The largest event file that is read, in bytes; a segment of ours has at most 8 MiB and one group."""
MAX_READ = 1 << 30
"""The most bytes of event files read in total."""
PLAIN = "100644"

ADDED, CHANGED, DELETED = "added", "changed", "deleted"
NO_EVENT = "has a line that is not an event"
UNTRUSTED = "has lines that no trusted key covers"
NOT_WHOLE = "lacks events of its groups"
NOT_PLAIN = "is a link, an executable or a submodule"
TOO_LARGE = "is too large to be checked"


class ControlSource(Protocol):
    """The ledger's folder in the commits of a repository."""

    def changes(self, tip: str, before: str, commit: str) -> list[ControlFile]:
        """The paths below `.got` in which a commit differs both from the point where it left the base and from the base."""

    def contents(
        self, files: Iterable[ControlFile], most: int, in_all: int
    ) -> Iterator[tuple[ControlFile, bytes | None]]:
        """The content of files; None for one over `most` bytes, and after `in_all` bytes in total."""

    def event_files(self, commit: str) -> list[ControlFile]:
        """All event files of a commit."""


ControlLookup = Callable[[str, str], ControlChange]
"""Finds what a commit (the second argument) changes below `.got`; for work on the base itself, since the first."""


def find_no_change(before: str, commit: str) -> ControlChange:  # noqa: ARG001 - as every look
    """For places without a repository."""
    return NO_CHANGE


class ControlChanges:
    """Finds what commits change below `.got`, examining only those that differ from the base there."""

    def __init__(
        self,
        source: ControlSource,
        own: Mapping[str, bytes],
        *,
        base: Callable[[], str],
        is_same: Callable[[Iterable[str]], bool],
        verifier: Callable[[], Verifier],
    ) -> None:
        """`own` are Remand's own files there besides events; `is_same` says whether two commits are known to be identical."""
        self._source = source
        self._own = own
        self._base = base
        self._is_same = is_same
        self._verifier = verifier

    def find(self, before: str, commit: str) -> ControlChange:
        """The changes of a commit; for work on the base itself, since the commit `before`."""
        tip = self._base()
        if self._is_same(name for name in (tip, before, commit) if name):
            return NO_CHANGE
        return ControlCheck(self._source, self._verifier(), self._own).check(tip, before, commit)


class WorkControl:
    """Compares the commits and branches of tasks with the base, inside and outside `.got`."""

    def __init__(self, repository: Repository, find_changes: ControlLookup) -> None:
        self._repository = repository
        self._find_changes = find_changes

    def find_change(self, task: Task | None, commit: str) -> ControlChange:
        """The changes of a commit since it left the base; on the base itself, since the task was claimed."""
        at = task and (task.claim or task.submission)
        return self._find_changes(at.base if at else "", commit)

    def forbidden_changes(self, task: Task, *commits: str) -> tuple[ControlChange, ...]:
        """The forbidden changes of commits."""
        found = (self.find_change(task, commit) for commit in dict.fromkeys(commits))
        return tuple(one for one in found if one.name)

    def forbidden_changes_under_review(self, task: Task, commit: str) -> tuple[ControlChange, ...]:
        """The same for everything that an approval covers: the named commit, the submission, and the branch as it is now."""
        head = self._head(task)
        handed_in = (task.submission.commit,) if task.submission else ()
        return self.forbidden_changes(task, commit, *handed_in, *((head.sha,) if head else ()))

    def head_tree(self, task: Task, base: str) -> str:
        """The code tree at the tip of the task's branch; empty if it has no branch of its own."""
        head = self._head(task)
        return head.tree if head and head.sha != base else ""

    def _head(self, task: Task) -> Commit | None:
        return self._repository.commit(f"refs/heads/{task.branch}") if task.branch else None


class _NamedEvent(NamedTuple):
    """An event as identified by a group."""

    id: str
    session: str
    seq: int
    task: str
    is_legacy: bool


class _EventFile(NamedTuple):
    """The lines of an event file."""

    groups: list[EventGroup]
    events: list[_NamedEvent]
    problem: str = ""


class ControlCheck:
    """Checks what commits change below `.got`."""

    def __init__(self, source: ControlSource, verifier: Verifier, own: Mapping[str, bytes]) -> None:
        """`own` are Remand's own files there besides events, by path."""
        self._source = source
        self._verifier = verifier
        self._own = own

    def check(self, tip: str, before: str, commit: str) -> ControlChange:
        """The changes of a commit since it left the base at `tip`; for work on the base itself, since `before`."""
        files = self._source.changes(tip, before, commit)
        rest = {file: done for file in files if (done := _file_status(file, self._own))}
        lines: dict[ControlFile, _EventFile] = {}
        read = self._source.contents([file for file in files if file not in rest], MAX_FILE, MAX_READ)
        for file, content in read:
            if is_event_file(file.path):
                lines[file] = _read_lines(content)
            elif content != self._own[file.path]:
                rest[file] = CHANGED if file.before else ADDED
        wrong = self._rejected_files(commit, lines)
        rest |= wrong
        ordered = [(file, rest[file]) for file in files if file in rest]
        return make_control_change(commit, len(lines) - len(wrong), ordered)

    def _rejected_files(self, commit: str, files: Mapping[ControlFile, _EventFile]) -> dict[ControlFile, str]:
        """The event files that must be rejected, each with the reason."""
        found = {file: lines.problem for file, lines in files.items() if lines.problem}
        doubts = self._verifier.doubts(group for lines in files.values() for group in lines.groups)
        trusted = [group for group, doubt in doubts.items() if not doubt]
        named = {name.id: (group, seq) for group in trusted for seq, name in group.numbered_events()}
        for file, lines in files.items():
            is_trusted = all(not doubts[group] for group in lines.groups)
            if file not in found and not (is_trusted and all(_is_named(one, named) for one in lines.events)):
                found[file] = UNTRUSTED
        sound = {file: lines for file, lines in files.items() if file not in found}
        return found | dict.fromkeys(self._incomplete_files(commit, sound), NOT_WHOLE)

    def _incomplete_files(self, commit: str, files: Mapping[ControlFile, _EventFile]) -> list[ControlFile]:
        """Files that lack an event of a task they contain, or a group between others, unless another file of the commit has it.

        Events of other tasks may be missing: a task's branch contains only its own.
        """
        lacking = {file: missing for file, lines in files.items() if (missing := _missing_events(lines))}
        if not lacking:
            return []
        there: set[str | tuple[str, int]] = set()
        for _, content in self._source.contents(self._source.event_files(commit), MAX_FILE, MAX_READ):
            lines = _read_lines(content)
            there.update(event.id for event in lines.events)
            there.update((group.session, seq) for group in lines.groups for seq, _ in group.numbered_events())
        return [file for file, missing in lacking.items() if not missing <= there]


def _file_status(file: ControlFile, own: Collection[str]) -> str:
    """What was done to a path; empty if its content decides (an added event file, or a file of our own)."""
    if not file.after:
        return DELETED
    if not file.after.startswith(f"{PLAIN} "):
        return NOT_PLAIN
    if file.path in own or (is_event_file(file.path) and not file.before):
        return ""
    return CHANGED if file.before else ADDED


def _is_named(event: _NamedEvent, named: Mapping[str, tuple[EventGroup, int]]) -> bool:
    """True if a group names an event with its session, number and task, or vouches for it."""
    found = named.get(event.id)
    if found is None:
        return False
    group, seq = found
    if event.is_legacy:
        return group.session.startswith(IMPORT)
    task = group.events[seq - group.first].task
    is_its_place = (group.session, seq) == (event.session, event.seq)
    return (is_its_place or group.session == adoption_session(event.session)) and task in (event.task, VOID)


def _missing_events(lines: _EventFile) -> set[str | tuple[str, int]]:
    """The ids of events, and the places in sessions, that a file lacks given the rest of its content."""
    ids = {event.id for event in lines.events}
    tasks = {event.task for event in lines.events}
    found: set[str | tuple[str, int]] = {
        name.id
        for group in lines.groups
        for name in group.events
        if name.task in tasks and name.id not in ids
    }
    sessions: dict[str, set[int]] = defaultdict(set)
    for group in lines.groups:
        sessions[group.session].update(seq for seq, _ in group.numbered_events())
    for session, numbers in sessions.items():
        gaps = set(range(min(numbers), max(numbers))) - numbers
        found |= {(session, seq) for seq in gaps}
    return found


def _read_lines(content: bytes | None) -> _EventFile:
    """The lines of a file up to the first invalid one."""
    groups: list[EventGroup] = []
    events: list[_NamedEvent] = []
    if content is None:
        return _EventFile(groups, events, TOO_LARGE)
    rows = content.split(b"\n")
    if rows.pop():
        return _EventFile(groups, events, NO_EVENT)
    for row in rows:
        try:
            if signatures.is_group(row):
                groups.append(signatures.decode_group(row))
            else:
                event = codec.decode_line(row)
                meta = event.meta
                events.append(
                    _NamedEvent(meta.id, meta.session, meta.seq, event_task_id(event), event.is_legacy)
                )
        except BadLine:
            return _EventFile(groups, events, NO_EVENT)
    return _EventFile(groups, events, UNTRUSTED if not groups else "" if events else NOT_WHOLE)
