"""Event files: segments that only grow until git tracks them, and then never change again."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.ports import Clock, Ids, TrackedFiles
from remand.domain.ids import make_session_name
from remand.ledger.codec import MAX_EVENT, is_packed, unpack_chunks
from remand.ledger.event_tables import FileMark
from remand.ledger.problems import BadLine
from remand.ledger.store import LedgerHead

MAX_SEGMENT = 8 << 20
_CHUNK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Segments:
    """The event files of a repository; only one ledger writes the open segment."""

    def __init__(
        self, folders: Sequence[str], quarantine: str, tracking: TrackedFiles, clock: Clock, ids: Ids
    ) -> None:
        self._folders = folders
        self._home = folders[0]
        self._tracking = tracking
        self._quarantine = quarantine
        self._clock = clock
        self._ids = ids
        self._open = ("", -1)
        self._synced = ("", -1)
        """Its own handle for syncing: what is synced may be a segment that another process writes."""
        self._sync_lock = threading.Lock()
        self._failed: set[str] = set()
        """Segments that could not be synced. The kernel tells that once, so a later sync of them proves nothing."""
        self._seen_index: tuple[object, str, bool] = (None, "", False)

    def files(self) -> list[FileMark]:
        """Every event file, even one that turns out to be unreadable."""
        found: list[FileMark] = []
        for folder in self._folders:
            try:
                with os.scandir(folder) as entries:
                    named = sorted((entry for entry in entries if entry.name.endswith(".jsonl")), key=_name)
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in named:
                status = entry.stat(follow_symlinks=False)
                # A name that is not valid text is shown escaped; reading it fails and reports the problem.
                path = entry.path.encode("utf-8", "backslashreplace").decode()
                found.append(FileMark(path, status.st_size, status.st_mtime_ns, status.st_ino))
        return found

    def file_stamp(self) -> tuple[int, ...]:
        return tuple(_mtime(folder) for folder in self._folders)

    def read(self, path: str) -> Iterator[tuple[int, bytes | str]]:
        """A file's lines with their numbers.

        For a line that is too long, or an unreadable file, yields the problem as text.
        """
        try:
            handle = os.open(path, _FLAGS)
        except OSError as error:
            yield 0, _unreadable(error)
            return
        try:
            flaw = _flaw(handle)
            if flaw:
                yield 0, flaw
                return
            yield from _lines(_chunks(handle))
        except OSError as error:
            yield 0, _unreadable(error)
        except BadLine as bad:
            yield 0, str(bad)
        finally:
            os.close(handle)

    def content(self, path: str) -> bytes:
        handle = os.open(path, _FLAGS)
        try:
            return b"".join(iter(lambda: os.read(handle, _CHUNK), b""))
        finally:
            os.close(handle)

    def path(self, segment: str) -> str:
        """The path of a segment's file."""
        return os.path.join(self._home, f"{segment}.jsonl")

    def is_whole(self, head: LedgerHead) -> bool:
        """True if the open segment matches the head, git does not track it yet, and none of its syncs has failed."""
        if not head.segment:
            return True
        if head.segment in self._failed:
            return False
        try:
            status = os.stat(self.path(head.segment), follow_symlinks=False)
        except OSError:
            return False
        is_same = (status.st_size, status.st_ino) == (head.size, head.inode)
        return is_same and head.changed in (0, status.st_ctime_ns)

    def stamp_head(self, head: LedgerHead) -> LedgerHead:
        """The head with the time of the segment file's last change."""
        status = os.stat(self.path(head.segment), follow_symlinks=False)
        return replace(head, changed=status.st_ctime_ns)

    def append(self, head: LedgerHead, first: int, lines: Sequence[bytes]) -> LedgerHead:
        """Appends lines: afterwards either all of them are there, or none."""
        data = b"\n".join(lines) + b"\n"
        if not head.segment or head.size > MAX_SEGMENT or self._is_tracked(head.segment):
            return self._begin(head, first, data)
        try:
            _write_whole(self._handle(head.segment), data)
            changed = os.fstat(self._open[1]).st_ctime_ns
        except OSError as error:
            self.shrink(head.segment, head.size)
            raise _cannot_write(self.path(head.segment), error) from error
        return replace(head, size=head.size + len(data), changed=changed)

    def shrink(self, segment: str, size: int) -> None:
        """Removes what a failed change appended; removes a segment that becomes empty."""
        os.ftruncate(self._handle(segment), size)
        if not size:
            os.unlink(self.path(segment))
            os.close(self._open[1])
            self._open = ("", -1)

    def close(self) -> None:
        for handle in (self._open[1], self._synced[1]):
            if handle >= 0:
                os.close(handle)
        self._open = self._synced = ("", -1)

    def rename(self, segment: str) -> None:
        """Renames a segment that git does not track, because another ledger still writes under its name."""
        if not self._is_tracked(segment) and os.path.exists(self.path(segment)):
            fresh = make_session_name(self._clock.now(), self._ids.hex())
            os.rename(self.path(segment), self.path(fresh))

    def sync(self, segment: str) -> None:
        """Returns once a segment's content is on disk, whoever wrote it.

        Once a sync fails, it fails for good: the next change writes the lines again into another segment.
        """
        if not segment:
            return
        try:
            with self._sync_lock:
                self._sync_file(segment)
        except OSError as error:
            raise EnvironmentFault(
                f"It is recorded, but not known to be on disk: {self.path(segment)} cannot be synced "
                f"({error.strerror}). Check the disk; repeat the command with the same --key to be sure."
            ) from error

    def _sync_file(self, segment: str) -> None:
        if segment in self._failed:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self._synced[0] != segment:
            self._close_synced()
            self._synced = (segment, os.open(self.path(segment), _FLAGS))
        try:
            os.fdatasync(self._synced[1])
        except OSError:
            self._failed.add(segment)
            self._close_synced()
            raise

    def _close_synced(self) -> None:
        if self._synced[1] >= 0:
            os.close(self._synced[1])
        self._synced = ("", -1)

    def surplus(self, head: LedgerHead) -> list[bytes]:
        """Whole lines in the file after those that the ledger knows."""
        return self._tail(head).split(b"\n")[:-1]

    def _tail(self, head: LedgerHead) -> bytes:
        """The rest of the segment's file after what the ledger knows; empty if it is another file."""
        try:
            with open(self.path(head.segment), "rb") as file:
                if os.fstat(file.fileno()).st_ino != head.inode:
                    return b""
                file.seek(head.size)
                return file.read()
        except OSError:
            return b""

    def has_all(self, head: LedgerHead, lines: Iterable[bytes]) -> bool:
        """True if the segment's file still has all these lines. A file that could not be synced may have lost some."""
        if head.segment in self._failed:
            return False
        try:
            with open(self.path(head.segment), "rb") as file:
                there = set(file.read().replace(b"\r\n", b"\n").split(b"\n"))
        except OSError:
            there = set()
        return all(line in there for line in lines)

    def cut_off(self, head: LedgerHead) -> str:
        """Moves what follows the head to quarantine; returns its path, or an empty string if there is nothing."""
        tail = self._tail(head)
        if not tail:
            return ""
        path = self._set_aside(head.segment, head.size, tail)
        self.shrink(head.segment, head.size)
        return path

    def _set_aside(self, segment: str, offset: int, torn: bytes) -> str:
        os.makedirs(self._quarantine, exist_ok=True)
        path = os.path.join(self._quarantine, f"{segment}.{offset}.torn")
        with open(path, "ab") as file:
            file.write(torn)
        return path

    def _begin(self, head: LedgerHead, first: int, data: bytes) -> LedgerHead:
        """Starts a new segment with its first lines, and makes its name durable.

        It gets its name once the lines are on disk: killed or without power before that, it is no event file.
        """
        if head.segment:
            self.sync(head.segment)
        segment = make_session_name(self._clock.now(), self._ids.hex())
        draft = os.path.join(self._quarantine, f"{segment}.begun")
        try:
            os.makedirs(self._home, exist_ok=True)
            os.makedirs(self._quarantine, exist_ok=True)
            self._keep(
                segment,
                os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644),
            )
            _write_whole(self._open[1], data)
            os.fdatasync(self._open[1])
            os.rename(draft, self.path(segment))
            _sync_folder(self._home)
        except OSError as error:
            with suppress(OSError):
                os.unlink(draft)
            self._keep("", -1)
            raise _cannot_write(self.path(segment), error) from error
        status = os.fstat(self._open[1])
        return replace(
            head,
            segment=segment,
            first=first,
            size=len(data),
            inode=status.st_ino,
            changed=status.st_ctime_ns,
        )

    def _handle(self, segment: str) -> int:
        if self._open[0] != segment:
            self._keep(
                segment, os.open(self.path(segment), os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
            )
        return self._open[1]

    def _keep(self, segment: str, handle: int) -> None:
        if self._open[1] >= 0:
            os.close(self._open[1])
        self._open = (segment, handle)

    def _is_tracked(self, segment: str) -> bool:
        """True if git tracks the segment; asks git again only if its index has changed."""
        stamp = self._tracking.file_stamp()
        if self._seen_index[:2] != (stamp, segment):
            self._seen_index = (stamp, segment, self._tracking.has(self.path(segment)))
        return self._seen_index[2]


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_whole(handle: int, data: bytes) -> None:
    """Writes everything or raises: a full disk accepts a part without an error."""
    if os.write(handle, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class NoSegments(Segments):
    """The event files of a ledger whose lines are only in a database: reads and writes nothing."""

    def files(self) -> list[FileMark]:
        return []

    def file_stamp(self) -> tuple[int, ...]:
        return ()

    def append(self, head: LedgerHead, _first: int, _lines: Sequence[bytes]) -> LedgerHead:
        return head

    def shrink(self, segment: str, size: int) -> None:
        """Does nothing."""

    def is_whole(self, _head: LedgerHead) -> bool:
        return True


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _mtime(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _chunks(handle: int) -> Iterator[bytes]:
    """The content of a file in chunks, unpacked if it is packed."""
    first = os.read(handle, _CHUNK)
    chunks = chain([first], iter(lambda: os.read(handle, _CHUNK), b""))
    return unpack_chunks(chunks) if is_packed(first) else chunks


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes | str]]:
    """Splits at newlines only. Skips a line over the limit without holding it in memory."""
    number, rest, too_long = 1, b"", 0
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        if not others:
            rest, too_long = (
                (b"", too_long + len(rest) + len(first))
                if too_long or len(rest) > MAX_EVENT
                else (rest + first, 0)
            )
            continue
        yield (
            number,
            f"is {too_long + len(first)} bytes long; an event has at most {MAX_EVENT}"
            if too_long
            else rest + first,
        )
        yield from enumerate(others[:-1], number + 1)
        number, rest, too_long = number + len(others), others[-1], 0
    if too_long:
        yield number, f"is {too_long} bytes long; an event has at most {MAX_EVENT}"
    elif rest:
        yield number, rest


def _flaw(handle: int) -> str:
    """Why an open file must not be read; empty if it may."""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    if status.st_size > _CHUNK and os.lseek(handle, 0, os.SEEK_HOLE) < status.st_size:
        return f"is a sparse file of {status.st_size} bytes; event files have no holes"
    os.lseek(handle, 0, os.SEEK_SET)
    return ""


def _unreadable(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "is a symbolic link; event files are regular files"
    hint = " (a name that is not UTF-8 is shown escaped)" if error.errno == errno.ENOENT else ""
    return f"cannot be read: {error.strerror}{hint}"


def _cannot_write(path: str, error: OSError) -> EnvironmentFault:
    hint = (
        "Free some space, then repeat."
        if error.errno in (errno.ENOSPC, errno.EDQUOT)
        else "Fix that, then repeat."
    )
    return EnvironmentFault(f"Nothing was recorded: {path} cannot be written ({error.strerror}). {hint}")
