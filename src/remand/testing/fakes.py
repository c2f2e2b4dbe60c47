"""Ports without a machine behind them: a clock, ids, keys, a repository, worktrees, event files, record files and a channel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256, sha512
from zlib import crc32

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.ports import Clock, Commit, CommitDifference, Ids, SignedClaim
from remand.app.record_files import RecordKind
from remand.app.scheduler.ports import CannotRun, TaskWorktree, WorktreeState
from remand.domain.access.keys import PublicKey
from remand.domain.ids import make_session_name
from remand.domain.instant import Instant, add_seconds, next_instant
from remand.ledger import codec, signatures
from remand.ledger.event_tables import FileMark
from remand.ledger.store import LedgerHead

START: Instant = "2026-11-15T09:00:00.000000Z"


class FakeClock:
    """A clock that moves when told to, and by a microsecond whenever it is read."""

    def __init__(self, start: Instant = START) -> None:
        self.time = start

    def now(self) -> Instant:
        self.time = next_instant(self.time)
        return self.time

    def advance(self, seconds: float) -> None:
        """Lets time pass; a negative number sets the clock back."""
        self.time = add_seconds(self.time, seconds)


class CountingIds:
    """Digits that count up, instead of random ones."""

    def __init__(self, first: int = 1) -> None:
        self._next = first

    def hex(self) -> str:
        """Eight hex digits."""
        self._next += 1
        return f"{self._next - 1:08x}"


class FakeRepository:
    """A repository of commits one writes down by name. Each commit's code tree is its own unless given."""

    def __init__(self, branch: str = "main") -> None:
        self.commits: dict[str, Commit] = {}
        self.differences: dict[str, CommitDifference] = {}
        self.current = branch
        self.histories: dict[str, tuple[str, ...]] = {}
        """The commits that branches, and commits, have besides their tips."""

    def add(self, name: str, tree: str = "") -> str:
        """Makes a commit that goes by that name; returns its full id."""
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
        """True for the commit at the branch's tip, which is written down as `refs/heads/NAME`, and what it is said to hold."""
        tip = self.commits.get(f"refs/heads/{branch}")
        return None if tip is None else commit in (tip.sha, *self.histories.get(branch, ()))

    def is_ancestor(self, commit: str, of: str) -> bool:
        """True for the commit itself, and for those that it is said to hold."""
        return commit in (of, *self.histories.get(of, ()))

    def difference(self, base: str, commit: str) -> CommitDifference | None:
        """What was added as the commit's change, whatever the base; its own patch unless given."""
        found = self.commits.get(commit)
        return self.differences.get(commit, CommitDifference((), f"patch of {found.tree}")) if found else None


class MemoryMarks:
    """High-water marks that last as long as the test."""

    def __init__(self) -> None:
        self.folder = "/state"
        self._marks: dict[str, tuple[int, str]] = {}

    def raise_to(self, session: str, seq: int, tip: str) -> None:
        """Remembers that a session was seen that far; never takes a mark back."""
        if seq > self._marks.get(session, (0, ""))[0]:
            self._marks[session] = (seq, tip)

    def all(self) -> dict[str, tuple[int, str]]:
        """Every session's mark."""
        return self._marks.copy()

    def close(self) -> None:
        """Holds nothing open."""


class FakeKeys:
    """A key that is made from a name. Anyone who knows the public part can sign with it, so it is for tests alone."""

    def __init__(self, name: str = "machine") -> None:
        self._key = PublicKey(raw=sha256(name.encode()).digest(), name=name)

    def own(self) -> PublicKey | None:
        """The public key."""
        return self._key

    def ensure_key(self) -> PublicKey:
        """The public key."""
        return self._key

    def load(self) -> None:
        """Is always ready."""

    def sign(self, content: bytes) -> bytes:
        """A signature of 64 bytes."""
        return sha512(self._key.raw + content).digest()

    def verify(self, claims: Sequence[SignedClaim]) -> list[bool]:
        """Of each, True when the signature is of that key and content."""
        return [claim.signature == sha512(claim.key + claim.content).digest() for claim in claims]


class ProcessKilled(BaseException):
    """The process was killed at this point."""


class MemoryFile:
    """One event file."""

    def __init__(self, inode: int, data: bytes = b"") -> None:
        self.data = data
        self.inode = inode
        self.synced = b""
        self.is_tracked = False


class MemoryExchange:
    """Event files in memory. What can befall real ones is a method here."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self.contents: dict[str, MemoryFile] = {}
        self.set_aside: list[bytes] = []
        """What was torn, and moved out of the way."""
        self._clock = clock
        self._ids = ids
        self._changes = 0
        self._dies_after_append = False
        self._is_full = False

    # What the ledger asks of its files.

    def files(self) -> list[FileMark]:
        return [
            FileMark(path, len(file.data), crc32(file.data), file.inode)
            for path, file in sorted(self.contents.items())
        ]

    def file_stamp(self) -> tuple[int, ...]:
        """Changes when files come or go, and not when one grows."""
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
        """Writes lines to the open segment, or to a new one when git tracks it."""
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
        """Makes what a segment holds safe from a power cut."""
        if segment:
            file = self.contents[self.path(segment)]
            file.synced = file.data

    # What it asks after something went wrong.

    def close(self) -> None:
        """Holds nothing open."""

    def path(self, segment: str) -> str:
        """Where a segment's file is."""
        return f"/events/{segment}.jsonl"

    def is_whole(self, head: LedgerHead) -> bool:
        """True when the open segment is as the head says."""
        file = self.contents.get(self.path(head.segment))
        if not head.segment or file is None:
            return not head.segment
        is_same = (len(file.data), file.inode) == (head.size, head.inode)
        return is_same and head.changed in (0, crc32(file.data))

    def stamp_head(self, head: LedgerHead) -> LedgerHead:
        """The head with when the segment was last changed: each content is its own time."""
        return replace(head, changed=crc32(self.contents[self.path(head.segment)].data))

    def cut_off(self, head: LedgerHead) -> str:
        """Moves what is behind the head away, if anything is."""
        tail = self._tail(head)
        if not tail:
            return ""
        self.set_aside.append(tail)
        self.truncate(self.path(head.segment), head.size)
        return f"/quarantine/{head.segment}"

    def surplus(self, head: LedgerHead) -> list[bytes]:
        """Whole lines behind what the ledger knows of."""
        return self._tail(head).split(b"\n")[:-1]

    def _tail(self, head: LedgerHead) -> bytes:
        file = self.contents.get(self.path(head.segment))
        return file.data[head.size :] if file is not None and file.inode == head.inode else b""

    def has_all(self, head: LedgerHead, lines: Iterable[bytes]) -> bool:
        """True when the segment has lost none of these lines."""
        file = self.contents.get(self.path(head.segment))
        there = set(file.data.split(b"\n")) if file else set()
        return all(line in there for line in lines)

    def shrink(self, segment: str, size: int) -> None:
        """Takes back what was appended."""
        file = self.contents[self.path(segment)]
        file.data = file.data[:size]

    # What can befall them.

    def put(self, path: str, lines: Iterable[bytes]) -> None:
        """A file comes in from elsewhere, or takes the place of another of that name."""
        self._changes += 1
        self.contents[path] = MemoryFile(self._changes, b"".join(line + b"\n" for line in lines))

    def grow(self, path: str, data: bytes) -> None:
        """Someone writes to the end of a file."""
        self.contents[path].data += data

    def truncate(self, path: str, size: int) -> None:
        """Everything behind that many bytes is lost."""
        self.contents[path].data = self.contents[path].data[:size]

    def lose(self, path: str) -> None:
        """A file is deleted, as by the checkout of a branch that does not have it."""
        self._changes += 1
        del self.contents[path]

    def track(self) -> None:
        """Git takes every file there is under its wing."""
        for file in self.contents.values():
            file.is_tracked = True

    def die_after_next_append(self, dies: bool = True) -> None:
        """The process is killed when the lines are written and the ledger is not."""
        self._dies_after_append = dies

    def fill_up(self, is_full: bool = True) -> None:
        """The disk is full, or has space again."""
        self._is_full = is_full

    def cut_power(self) -> None:
        """What was not synced is lost."""
        for file in self.contents.values():
            file.data = file.synced

    def lines(self) -> list[bytes]:
        """The line of every event in every file."""
        return [line for line in self.all_lines() if not signatures.is_group(line)]

    def all_lines(self) -> list[bytes]:
        """Every line of every file, those of signed groups too."""
        return [line for file in self.contents.values() for line in file.data.split(b"\n") if line]


class MemoryRecordFiles:
    """Files of this process. Whoever takes one away changes the stamp."""

    def __init__(self) -> None:
        self.texts: dict[tuple[RecordKind, str], str] = {}
        self.failure: OSError | None = None
        self.writes = 0
        self.whole_logs = 0

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

    def stamp(self, *, seals: bool = False) -> str:
        return " ".join(sorted(f"{kind}/{name}" for kind, name in self.texts)) or "-"

    def lock(self) -> AbstractContextManager[bool]:
        return nullcontext(True)

    def of(self, kind: RecordKind) -> dict[str, str]:
        """The files of a kind: name to text."""
        return {name: text for (one, name), text in self.texts.items() if one is kind}


class MemoryChannel:
    """A channel that keeps what it was given, while it works."""

    def __init__(self, name: str = "chat", *, is_down: bool = False) -> None:
        self.name = name
        self.is_down = is_down
        self.notices: list[tuple[str, str]] = []

    def send(self, title: str, body: str) -> str:
        """Takes a notice, or says that it is down."""
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
