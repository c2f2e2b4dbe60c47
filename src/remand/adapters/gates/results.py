"""Gate results: reported through a pipe while tests run, stored in a sealed cache, and written as reports."""

from __future__ import annotations

import hmac
import os
import re
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256

import msgspec

from remand.adapters.gates.runner_plugins import VARIABLE, find_plugin_loader
from remand.adapters.system.files import atomic_write
from remand.app.gates.ports import MIB, ResultWatch
from remand.integrity.result_records import ResultRecord

KEPT_RESULTS = 2000
_RESULT_KEY = re.compile(r"[0-9a-f]{64}")
_SEAL = 32


class FileCache:
    """A cache with one file per result. Damaged entries, and those with a foreign seal, count as missing."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._secret = b""

    def get(self, key: str) -> bytes | None:
        try:
            with open(self._path(key), "rb") as file:
                content = file.read()
        except OSError:
            return None
        seal, value = content[:_SEAL], content[_SEAL:]
        return value if hmac.compare_digest(seal, self._seal(key, value)) else None

    def put(self, key: str, value: bytes) -> None:
        """Stores a value under a key, atomically. If the disk is full, it is not stored."""
        path = self._path(key)
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._make_room()
            atomic_write(path, self._seal(key, value) + value)

    def _path(self, key: str) -> str:
        if not _RESULT_KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key of a result")
        return os.path.join(self._folder, key)

    def _seal(self, key: str, value: bytes) -> bytes:
        return hmac.digest(self._own_secret(), key.encode() + b"\0" + value, sha256)

    def _own_secret(self) -> bytes:
        """This folder's secret, created once; of concurrent creators, the first one wins."""
        if not self._secret:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            path = os.path.join(self._folder, "secret")
            if not os.path.exists(path):
                draft = f"{path}.{os.urandom(4).hex()}.draft"
                handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(handle, "wb") as file:
                    file.write(os.urandom(32))
                with suppress(FileExistsError):
                    os.link(draft, path)
                os.unlink(draft)
            with open(path, "rb") as file:
                self._secret = file.read()
        return self._secret

    def _make_room(self) -> None:
        """Removes the oldest results when there are too many."""
        names = [name for name in os.listdir(self._folder) if _RESULT_KEY.fullmatch(name)]
        if len(names) < KEPT_RESULTS:
            return
        paths = sorted((os.path.join(self._folder, name) for name in names), key=os.path.getmtime)
        for path in paths[: KEPT_RESULTS // 4]:
            with suppress(OSError):
                os.unlink(path)


MAX_REPORT = 128 << 20
KEPT_REPORTS = 200
OUTPUT_PREFIX = "output-"
"""The file-name prefix of a command's output, which is stored next to the reports of verdicts."""


class FileReports:
    """Reports in a folder of ours, and short-lived ones in the system's temporary folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @contextmanager
    def folder(self) -> Iterator[str]:
        from tempfile import TemporaryDirectory  # loaded only when something is measured

        with TemporaryDirectory(prefix="remand-report-", ignore_cleanup_errors=True) as path:
            yield path

    def read(self, path: str) -> bytes | None:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_REPORT:
            os.close(handle)
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read(MAX_REPORT)

    def write(self, name: str, content: str) -> str:
        path = os.path.join(self._folder, f"{name}.md")
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._make_room(name.startswith(OUTPUT_PREFIX))
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(content)
        except OSError:
            return ""
        return name

    def _make_room(self, is_output: bool) -> None:
        """Removes the oldest reports or outputs, which are counted separately because there are more of the latter."""
        every = [entry for entry in os.scandir(self._folder) if entry.name.endswith(".md")]
        paths = [entry.path for entry in every if entry.name.startswith(OUTPUT_PREFIX) == is_output]
        for path in sorted(paths, key=os.path.getmtime)[:-KEPT_REPORTS]:
            with suppress(OSError):
                os.unlink(path)


FILES_VARIABLE = "REMAND_TEST_FILES"
MAX_RECORDS, MAX_LINE = 64 * MIB, MIB
_decode = msgspec.json.Decoder(ResultRecord).decode


@contextmanager
def watch_results(
    command: Sequence[str], folder: str, files: Sequence[str] = ()
) -> Iterator[ResultWatch | None]:
    """What a command needs in order to report its results; None if its runner cannot report them."""
    load = find_plugin_loader(command)
    if load is None:
        yield None
        return
    place = os.path.join(folder, "results")
    os.mkdir(place, 0o700)
    pipe = os.path.join(place, "pipe")
    os.mkfifo(pipe, 0o600)
    told_by, environment = load(command, place)
    if files and VARIABLE in environment:
        environment[FILES_VARIABLE] = "\n".join(files)
    reader = _PipeReader(pipe)
    try:
        yield ResultWatch(told_by, environment, lambda: (*reader.records(), *_closed_runs(place)))
    finally:
        reader.records()


_CLOSING = "closing-"
_BLOCK = 4096


def _closed_runs(folder: str) -> Iterator[ResultRecord]:
    """The programs whose closing record is present in a file that names their process.

    Go writes the file in blocks of a fixed size and the rest when all tests have ended.
    """
    for entry in os.scandir(folder):
        pid = entry.name.removeprefix(_CLOSING)
        if (
            not entry.name.startswith(_CLOSING)
            or not entry.is_file(follow_symlinks=False)
            or not pid.isdecimal()
        ):
            continue
        size = entry.stat(follow_symlinks=False).st_size
        if size and (size % _BLOCK or _ends_a_line(entry.path)):
            yield ResultRecord(kind="end", pid=int(pid))


def _ends_a_line(path: str) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


class _PipeReader:
    """Reads a pipe in its own thread until it is told that all writers are done."""

    def __init__(self, path: str) -> None:
        # Holding a write end ourselves prevents an end of file, however often others open and close the pipe.
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._lines: list[bytes] = []
        self._size = 0
        self._is_open = True
        self._thread = threading.Thread(target=self._read, name="remand-results", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        rest = b""
        while not (rest.endswith(_LAST) and not self._is_open):
            # An overlong line without an end is not one of our records, so buffering it stops.
            rest = self._keep(rest[-MAX_LINE:] + os.read(self._descriptor, 1 << 16))

    def _keep(self, content: bytes) -> bytes:
        *lines, rest = content.split(b"\n")
        self._size += sum(map(len, lines))
        if self._size <= MAX_RECORDS:
            self._lines += lines
        return rest

    def records(self) -> tuple[ResultRecord, ...]:
        """All records that arrived, in order; closes the pipe."""
        if self._is_open:
            self._is_open = False
            os.write(self._descriptor, _LAST)
            self._thread.join()
            os.close(self._descriptor)
        found: list[ResultRecord] = []
        begun = ResultRecord(kind="start")
        for line in self._lines:
            try:
                record = _decode(line)
            except (msgspec.DecodeError, ValueError):
                found += _read_libtest_line(line, begun)
                continue
            begun = record if record.kind == "start" else begun
            found.append(record)
        return tuple(found)


_LIBTEST = re.compile(r"(ok|failed|ignored)(?:[:(, ].*)? (\S+)")
_LIBTEST_OUTCOMES = {"ok": "passed", "failed": "failed", "ignored": "skipped"}


def _read_libtest_line(line: bytes, begun: ResultRecord) -> Iterator[ResultRecord]:
    """The result in a line of Rust's libtest harness, for the program that started last."""
    match = _LIBTEST.fullmatch(line.decode("utf-8", "replace"))
    if match:
        test_id, outcome = f"{begun.id}::{match[2]}", _LIBTEST_OUTCOMES[match[1]]
        yield ResultRecord(kind="result", when="call", pid=begun.pid, id=test_id, outcome=outcome)


_LAST = b"\0end\0"
"""Written by ourselves after the command has ended, so that the reader ends."""
