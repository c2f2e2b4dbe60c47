"""Fake ports that only our own tests need: ids, a repository, worktrees, event files, record files and a channel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from zlib import crc32

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.ports import Clock, Commit, CommitDifference, Ids
from remand.app.record_files import RecordKind
from remand.app.scheduler.ports import CannotRun, TaskWorktree, WorktreeState
from remand.domain.ids import make_session_name
from remand.ledger import codec, signatures
from remand.ledger.event_tables import FileMark
from remand.ledger.store import LedgerHead


class CountingIds:
    """Digits that count up instead of random ones."""

    def __init__(self, first: int = 1) -> None:
        self._next = first

    def hex(self) -> str:
        """Eight hex digits."""
        self._next += 1
        return f"{self._next - 1:08x}"


class FakeRepository:
    """A repository whose commits the test adds by name. By default each commit has a code tree of its own."""

    def __init__(self, branch: str = "main") -> None:
        self.commits: dict[str, Commit] = {}
        self.differences: dict[str, CommitDifference] = {}
        self.current = branch
        self.histories: dict[str, tuple[str, ...]] = {}
        """The commits that branches, and commits, have besides their tips."""

    def add(self, name: str, tree: str = "") -> str:
        """Adds a commit with that name; returns its full id."""
        sha = name.encode().hex().ljust(40, "0")[:40]
        self.commits[name] = self.commits[sha] = Commit(sha=sha, tree=tree or f"tree of {name}")
        return sha

    def commit(self, name: str) -> Commit | None:
        """The commit behind a name."""
        return self.commits.get(name)

    def branch(self) -> str:
        """The branch checked out."""
        return self.current

    def has_commit(self, branch: str, commit: str) -> bool | None:
        """True for the commit at the branch's tip, which the test adds as `refs/heads/NAME`, and for its given ancestors."""
        tip = self.commits.get(f"refs/heads/{branch}")
        return None if tip is None else commit in (tip.sha, *self.histories.get(branch, ()))

    def is_ancestor(self, commit: str, of: str) -> bool:
        """True for the commit itself, and for its given ancestors."""
        return commit in (of, *self.histories.get(of, ()))

    def difference(self, base: str, commit: str) -> CommitDifference | None:
        """The given change of the commit, whatever the base; by default its own patch."""
        found = self.commits.get(commit)
        return self.differences.get(commit, CommitDifference((), f"patch of {found.tree}")) if found else None


class MemoryMarks:
    """High-water marks that last as long as the test."""

    def __init__(self) -> None:
        self.folder = "/state"
        self._marks: dict[str, tuple[int, str]] = {}

    def raise_to(self, session: str, seq: int, tip: str) -> None:
        """Records that a session was read that far; never lowers a mark."""
        if seq > self._marks.get(session, (0, ""))[0]:
            self._marks[session] = (seq, tip)

    def all(self) -> dict[str, tuple[int, str]]:
        """Every session's mark."""
        return self._marks.copy()

    def close(self) -> None:
        """Does nothing."""


class ProcessKilled(BaseException):
    """Simulates that the process is killed at this point."""


class MemoryFile:
    """One event file."""

    def __init__(self, inode: int, data: bytes = b"") -> None:
        self.data = data
        self.inode = inode
        self.synced = b""
        self.is_tracked = False


class MemoryExchange:
    """Event files in memory. Methods simulate what can happen to real ones."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self.contents: dict[str, MemoryFile] = {}
        self.set_aside: list[bytes] = []
        """What was torn, and moved out of the way."""
        self._clock = clock
        self._ids = ids
        self._changes = 0
        self._dies_after_append = False
        self._is_full = False

    # What the ledger needs of its files.

    def files(self) -> list[FileMark]:
        return [
            FileMark(path, len(file.data), crc32(file.data), file.inode)
            for path, file in sorted(self.contents.items())
        ]

    def file_stamp(self) -> tuple[int, ...]:
        """A value that changes when files are added or removed, but not when one grows."""
        return (self._changes,)

    def read(self, path: str) -> Iterator[tuple[int, bytes | str]]:
        """A file's lines with their numbers."""
        file = self.contents.get(path)
        if file is None:
            yield 0, "cannot be read: No such file or directory"
            return
        *lines, rest = codec.iterate_lines(file.data)
        yield from enumerate(lines, 1)
        if rest:
            yield len(lines) + 1, rest

    def content(self, path: str) -> bytes:
        """A file's bytes."""
        return self.contents[path].data

    def append(self, head: LedgerHead, first: int, lines: Sequence[bytes]) -> LedgerHead:
        """Appends lines to the open segment, or to a new one if git tracks it."""
        if self._is_full:
            raise EnvironmentFault("Nothing was recorded: no space left.")
        if not head.segment or self.contents[self.path(head.segment)].is_tracked:
            head = self._begin(head, first)
        file = self.contents[self.path(head.segment)]
        file.data += b"".join(line + b"\n" for line in lines)
        if self._dies_after_append:
            self._dies_after_append = False
            raise ProcessKilled
        return replace(head, size=len(file.data), changed=crc32(file.data))

    def _begin(self, head: LedgerHead, first: int) -> LedgerHead:
        segment = make_session_name(self._clock.now(), self._ids.hex())
        self.put(self.path(segment), [])
        inode = self.contents[self.path(segment)].inode
        return replace(head, segment=segment, first=first, size=0, inode=inode)

    def sync(self, segment: str) -> None:
        """Makes a segment's content survive a power cut."""
        if segment:
            file = self.contents[self.path(segment)]
            file.synced = file.data

    # What the ledger needs after something went wrong.

    def close(self) -> None:
        """Does nothing."""

    def path(self, segment: str) -> str:
        """The path of a segment's file."""
        return f"/events/{segment}.jsonl"

    def is_whole(self, head: LedgerHead) -> bool:
        """True if the open segment matches the head."""
        file = self.contents.get(self.path(head.segment))
        if not head.segment or file is None:
            return not head.segment
        is_same = (len(file.data), file.inode) == (head.size, head.inode)
        return is_same and head.changed in (0, crc32(file.data))

    def stamp_head(self, head: LedgerHead) -> LedgerHead:
        """The head with the time of the segment's last change: each content is its own time."""
        return replace(head, changed=crc32(self.contents[self.path(head.segment)].data))

    def cut_off(self, head: LedgerHead) -> str:
        """Moves what follows the head away, if anything does."""
        tail = self._tail(head)
        if not tail:
            return ""
        self.set_aside.append(tail)
        self.truncate(self.path(head.segment), head.size)
        return f"/quarantine/{head.segment}"

    def surplus(self, head: LedgerHead) -> list[bytes]:
        """Whole lines after those that the ledger knows."""
        return self._tail(head).split(b"\n")[:-1]

    def _tail(self, head: LedgerHead) -> bytes:
        file = self.contents.get(self.path(head.segment))
        return file.data[head.size :] if file is not None and file.inode == head.inode else b""

    def has_all(self, head: LedgerHead, lines: Iterable[bytes]) -> bool:
        """True if the segment still has all these lines."""
        file = self.contents.get(self.path(head.segment))
        there = set(file.data.split(b"\n")) if file else set()
        return all(line in there for line in lines)

    def shrink(self, segment: str, size: int) -> None:
        """Removes what was appended."""
        file = self.contents[self.path(segment)]
        file.data = file.data[:size]

    # What can happen to the files.

    def put(self, path: str, lines: Iterable[bytes]) -> None:
        """Adds a file from elsewhere, or replaces one of that name."""
        self._changes += 1
        self.contents[path] = MemoryFile(self._changes, b"".join(line + b"\n" for line in lines))

    def grow(self, path: str, data: bytes) -> None:
        """Appends to a file as a stranger."""
        self.contents[path].data += data

    def truncate(self, path: str, size: int) -> None:
        """Cuts a file after so many bytes."""
        self.contents[path].data = self.contents[path].data[:size]

    def lose(self, path: str) -> None:
        """Deletes a file, as by checking out a branch that lacks it."""
        self._changes += 1
        del self.contents[path]

    def track(self) -> None:
        """Lets git track every existing file."""
        for file in self.contents.values():
            file.is_tracked = True

    def die_after_next_append(self, dies: bool = True) -> None:
        """Kills the process after the next append, before the ledger is written."""
        self._dies_after_append = dies

    def fill_up(self, is_full: bool = True) -> None:
        """Fills the disk, or frees space again."""
        self._is_full = is_full

    def cut_power(self) -> None:
        """Loses everything that was not synced."""
        for file in self.contents.values():
            file.data = file.synced

    def lines(self) -> list[bytes]:
        """The lines of all events in all files."""
        return [line for line in self.all_lines() if not signatures.is_group(line)]

    def all_lines(self) -> list[bytes]:
        """All lines of all files, including those of signed groups."""
        return [line for file in self.contents.values() for line in file.data.split(b"\n") if line]


class MemoryRecordFiles:
    """Record files in memory. A test that removes one changes the stamp."""

    def __init__(self) -> None:
        self.texts: dict[tuple[RecordKind, str], str] = {}
        self.failure: OSError | None = None
        self.writes = 0
        self.whole_logs = 0
        self.is_edited = False

    def put(self, kind: RecordKind, name: str, text: str, after: str = "") -> str:
        if self.failure is not None:
            raise self.failure
        present = self.texts.get((kind, name), "")
        if after and after != f"as {len(present)}":
            return ""
        self.whole_logs += kind is RecordKind.LOG and not after
        wanted = present + text if after else text
        if present != wanted:
            self.texts[kind, name] = wanted
            self.writes += 1
        return f"as {len(wanted)}"

    def drop(self, kind: RecordKind, name: str) -> None:
        self.texts.pop((kind, name), None)

    def names(self, kind: RecordKind) -> set[str]:
        return {name for one, name in self.texts if one is kind}

    def stamp(self, *, seals: bool = False, sees_edits: bool = False) -> str:
        if sees_edits and self.is_edited:
            return ""
        return " ".join(sorted(f"{kind}/{name}" for kind, name in self.texts)) or "-"

    def lock(self) -> AbstractContextManager[bool]:
        return nullcontext(True)

    def of(self, kind: RecordKind) -> dict[str, str]:
        """The files of a kind: name to text."""
        return {name: text for (one, name), text in self.texts.items() if one is kind}


class MemoryChannel:
    """A channel that stores what it gets, while it works."""

    def __init__(self, name: str = "chat", *, is_down: bool = False) -> None:
        self.name = name
        self.is_down = is_down
        self.notices: list[tuple[str, str]] = []

    def send(self, title: str, body: str) -> str:
        """Stores a notice, or reports that it is down."""
        if self.is_down:
            return "it is down"
        self.notices.append((title, body))
        return ""


class FakeTaskWorktrees:
    """Worktrees by task, with what their agents put there."""

    def __init__(self) -> None:
        self.looks: dict[str, WorktreeState] = {}
        self.prepared: list[tuple[str, str, str]] = []
        self.retired: list[str] = []
        self.left: list[str] = []
        self.kept: set[str] | None = None
        self.fault: CannotRun | None = None
        self.hindrance: CannotRun | None = None
        """Why what is in a place cannot be looked at or taken."""

    def prepare(self, task_id: str, branch: str, start: str, *, is_confined: bool) -> TaskWorktree:
        if self.fault is not None:
            raise self.fault
        self.prepared.append((task_id, branch, start))
        self.looks.setdefault(task_id, WorktreeState(head=start))
        return TaskWorktree(task_id=task_id, folder=f"/w/{task_id}", branch=branch, common_dir="/r/.git")

    def inspect(self, worktree: TaskWorktree) -> WorktreeState:
        if self.hindrance is not None:
            raise self.hindrance
        return self.looks.get(worktree.task_id, WorktreeState())

    def import_commits(self, worktree: TaskWorktree) -> str:
        return self.inspect(worktree).head

    def restore_git_links(self, worktree: TaskWorktree) -> None:
        self.left.append(worktree.task_id)

    def remove(self, task_id: str, *, is_kept: bool = True) -> None:
        self.retired.append(task_id)

    def names(self) -> list[str]:
        return sorted(self.looks)

    def remove_others(self, kept: Collection[str]) -> list[str]:
        self.kept = set(kept)
        return []
