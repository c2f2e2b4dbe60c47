"""The two programs that launch a job or an agent, bubblewrap and our own launcher, and the ties that bind them to us."""

from __future__ import annotations

import fcntl
import marshal
import os
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType

import msgspec

from remand.adapters.sandbox import launcher
from remand.adapters.sandbox.job_setup import encode_arguments
from remand.adapters.sandbox.processes import ProcessHandle, is_ready, make_pipe, memory_file
from remand.app.gates.ports import Job
from remand.domain.record import Record

MAX_REPORT = 1 << 16
NO_LIMITS: Mapping[int, int] = MappingProxyType({})

HOLDER = '"$@"; exit $?'
"""Starts bubblewrap, and ends as it does."""

# The first process inside. It reads its permission, then starts the program and waits for orphans; it takes everything
# inside with it when the program ends.
FIRST = (
    "echo >&0 && read -r permission || exit 125;"
    ' exec 3>&2 2>/dev/null <"$1"; shift; (exec "$@" 2>&3 3>&-); exit $?'
)
FIRST_NAME = "remand-sandbox"
"""What the first process calls itself when it reports that a program cannot be run."""

IGNORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores, and that what it starts would ignore as well."""


class LauncherReport(Record, kw_only=True, rename="kebab"):
    """One line; bubblewrap writes the first field, our own launcher any."""

    child_pid: int = 0
    exit_code: int | None = None
    signal: int | None = None
    fault: str = ""


class LaunchConnection(ABC):
    """The ties to a program that launches a job, waits for permission to start it, and ends it with us."""

    command: Sequence[str | bytes]
    stdin: int
    descriptors: tuple[int, ...]
    """Further descriptors that the program inherits."""
    reports_end = False
    """True when the program reports how the job ended; else it ends as the job does."""
    mark = ""
    """In the environment of every process of the job, and of no other; empty where none is needed."""

    def __init__(self, limits: Mapping[int, int] = NO_LIMITS) -> None:
        self.limits = limits
        """Limits to be set on the first process from outside."""
        self.child = 0
        """The job's first process; 0 while there is none."""
        self.end = LauncherReport()
        """How the job ended, as far as that was reported."""
        self.prepare: Callable[[int], None] = lambda _: None
        """Prepares the surroundings of the first process, given its number, before it begins."""
        self.child_ends, self.own_ends = ExitStack(), ExitStack()
        """What the program inherits is closed once it has started, the rest when nothing of it is left."""

    @abstractmethod
    def await_child(self, seconds: float) -> bool:
        """True when the job's first process waits for permission within so many seconds."""

    @abstractmethod
    def permit_start(self, process: subprocess.Popen[bytes]) -> None:
        """Lets the job begin, bound to this process."""

    def ancestor(self, process: subprocess.Popen[bytes]) -> int:
        """The process that the job's processes descend from, orphans among them."""
        return process.pid

    @abstractmethod
    def end_descriptor(self, first: ProcessHandle) -> int:
        """Readable when the job has ended, or may have."""

    @abstractmethod
    def has_ended(self) -> bool:
        """True when the job has. To be called when that descriptor is readable; never waits."""

    @abstractmethod
    def revoke(self) -> None:
        """Ends what waits for permission, and a launcher with all it has started."""

    def close(self) -> None:
        """Closes our ends: whatever is still bound to them ends."""
        self.child_ends.close()
        self.own_ends.close()


class BubblewrapConnection(LaunchConnection):
    """Ties to bubblewrap, held by a shell that the kernel kills when our end of a socket is closed."""

    def __init__(
        self, path: str, plan: bytes, entry: str, program: Sequence[str], limits: Mapping[int, int]
    ) -> None:
        """`plan` are bubblewrap's arguments, `entry` is the file inside that the program reads as its input."""
        super().__init__(limits)
        first = encode_arguments(["/bin/sh", "-c", FIRST, FIRST_NAME, entry, *program])
        with self.own_ends, self.child_ends:
            # A file, not a pipe: should nobody be left to read it, bubblewrap would end before what it has begun.
            self._info_file = self.own_ends.enter_context(ExitStack())
            self._info = self._info_file.enter_context(memory_file(b""))
            self._plan = self.child_ends.enter_context(memory_file(plan))
            self._pipe, theirs = socket.socketpair()
            self._needs_pipe = True
            self.own_ends.enter_context(self._pipe)
            self.child_ends.enter_context(theirs)
            self._tether, self._held = socket.socketpair()
            self.own_ends.enter_context(self._tether)
            self.own_ends.enter_context(self._held)
            # Nothing is ever written to it: bubblewrap takes it for a list of no arguments, and closes it.
            self._tether.shutdown(socket.SHUT_WR)
            self.child_ends, self.own_ends = self.child_ends.pop_all(), self.own_ends.pop_all()
        self.stdin = theirs.fileno()
        self.descriptors = (self._info, self._held.fileno(), self._plan)
        info, *lists = map(str, self.descriptors)
        options = ("--info-fd", info, *(word for each in lists for word in ("--args", each)), "--")
        self.command = [*encode_arguments(["/bin/sh", "-c", HOLDER, "sh", path, *options]), *first]

    def await_child(self, seconds: float) -> bool:
        if is_ready(self._pipe.fileno(), seconds) and self._has_request():
            self.child = self._first()
        return bool(self.child)

    def _has_request(self) -> bool:
        try:
            return bool(self._pipe.recv(1))
        except ConnectionError:
            return False

    def _first(self) -> int:
        """The first process inside, by its number outside; 0 while there is none."""
        try:
            return msgspec.json.decode(os.pread(self._info, MAX_REPORT, 0), type=LauncherReport).child_pid
        except msgspec.MsgspecError:
            return 0

    def permit_start(self, process: subprocess.Popen[bytes]) -> None:
        # Bubblewrap's own binding to its parent has gaps while it makes a sandbox. So the kernel is told to kill the
        # shell that holds it as soon as the tether is closed, which it is when this process ends in any way.
        fcntl.fcntl(self._held, fcntl.F_SETOWN, process.pid)
        fcntl.fcntl(self._held, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(self._held, fcntl.F_SETFL, fcntl.fcntl(self._held, fcntl.F_GETFL) | os.O_ASYNC)
        self._held.close()
        if process.poll() is not None:
            raise ChildProcessError("what holds the sandbox was ended")
        self._pipe.sendall(b"permission\n")
        # Hundreds of agents would hold as many of these open.
        self._info_file.close()
        if not self._needs_pipe:
            self._pipe.close()

    def ancestor(self, process: subprocess.Popen[bytes]) -> int:  # noqa: ARG002 - bubblewrap itself is not the job's
        return self.child

    def end_descriptor(self, first: ProcessHandle) -> int:
        self._needs_pipe = first.descriptor < 0
        return self._pipe.fileno() if self._needs_pipe else first.descriptor

    def has_ended(self) -> bool:
        return True

    def revoke(self) -> None:
        if not self.child:
            self._pipe.close()
            if first := self._first():
                handle = ProcessHandle(first)
                handle.kill()
                handle.close()


class LauncherConnection(LaunchConnection):
    """Pipes to our own launcher: its plan, what it reports, and the permission that it needs for as long as it lives."""

    reports_end = True

    def __init__(self, plan: bytes, mark: str, stdin: int = subprocess.DEVNULL) -> None:
        super().__init__()
        self.stdin, self.mark = stdin, mark
        with self.own_ends, self.child_ends:
            self._pipe, status = make_pipe(self.own_ends, self.child_ends)
            permission, self._permission = make_pipe(self.child_ends, self.own_ends)
            memory = self.child_ends.enter_context(memory_file(plan))
            self.child_ends, self.own_ends = self.child_ends.pop_all(), self.own_ends.pop_all()
        self.descriptors = (memory, status.fileno(), permission.fileno())
        self.command = launcher_command(*self.descriptors)
        self._unread = b""
        self._is_closed = False

    def await_child(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self.child and not self.end.fault and not self._is_closed:
            left = deadline - time.monotonic()
            if left <= 0 or not is_ready(self._pipe.fileno(), left):
                return False
            self._read()
        return bool(self.child) and not self.end.fault and not self._is_closed

    def _read(self) -> None:
        part = self._pipe.read(MAX_REPORT) or b""
        self._is_closed = not part
        *lines, self._unread = (self._unread + part).split(b"\n")
        for line in lines:
            try:
                report = msgspec.json.decode(line, type=LauncherReport)
            except msgspec.MsgspecError:
                continue
            if report.child_pid:
                self.child = report.child_pid
            elif not self.end.fault:
                self.end = report

    def permit_start(self, process: subprocess.Popen[bytes]) -> None:  # noqa: ARG002 - the launcher looks after itself
        self._permission.write(b"\n")

    def end_descriptor(self, first: ProcessHandle) -> int:  # noqa: ARG002 - the launcher reports when nothing is left
        return self._pipe.fileno()

    def has_ended(self) -> bool:
        if not self._is_closed:
            self._read()
        return self._is_closed

    def revoke(self) -> None:
        self._permission.close()


def launcher_command(*descriptors: int) -> list[str]:
    """How our own launcher is run, given the descriptors of its plan, its reports, and its permission."""
    return [sys.executable, "-I", "-S", launcher.__file__, *map(str, descriptors)]


def launcher_plan(
    job: Job,
    program: str,
    environment: Mapping[str, str],
    limits: Mapping[int, int],
    rules: Sequence[tuple[str, bool]] | None = None,
) -> bytes:
    """What our own launcher reads. `rules` are paths for Landlock, and whether they may be written; None for no rules."""
    names, values = encode_arguments(list(environment)), encode_arguments(list(environment.values()))
    plan = {
        "program": os.fsencode(program),
        "arguments": encode_arguments([program, *job.command[1:]]),
        "environment": dict(zip(names, values, strict=True)),
        "folder": os.fsencode(job.folder),
        "network": job.has_network,
        "signals": [int(number) for number in IGNORED_SIGNALS],
        "limits": dict(limits),
        "rules": None if rules is None else [(os.fsencode(path), may_write) for path, may_write in rules],
    }
    return marshal.dumps(plan)
