"""The programs that launch jobs and agents (bubblewrap and our own launcher), and the connections that end them with us."""

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
"""Starts bubblewrap, and exits with its status."""

# The first process inside. It waits for permission, then starts the program and reaps orphans. When the
# program
# ends, it ends everything inside.
FIRST = (
    "echo >&0 && read -r permission || exit 125;"
    ' exec 3>&2 2>/dev/null <"$1"; shift; (exec "$@" 2>&3 3>&-); exit $?'
)
FIRST_NAME = "remand-sandbox"
"""The name by which the first process reports that a program cannot be run."""

IGNORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores and that its child processes would inherit as ignored."""


class LauncherReport(Record, kw_only=True, rename="kebab"):
    """One status line; bubblewrap sends only the first field, our launcher any."""

    child_pid: int = 0
    exit_code: int | None = None
    signal: int | None = None
    fault: str = ""


class LaunchConnection(ABC):
    """The connection to a launching program, which waits for permission to start the job and ends it with us."""

    command: Sequence[str | bytes]
    stdin: int
    descriptors: tuple[int, ...]
    """Further descriptors that the program inherits."""
    reports_end = False
    """True if the program reports how the job ended; otherwise it exits with the job's status."""
    mark = ""
    """A variable in the environment of this job's processes alone; empty if none is needed."""

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
        """True if the job's first process is waiting for permission within so many seconds."""

    @abstractmethod
    def permit_start(self, process: subprocess.Popen[bytes]) -> None:
        """Lets the job begin, bound to this process."""

    def ancestor(self, process: subprocess.Popen[bytes]) -> int:
        """The process of which all of the job's processes are descendants, orphans included."""
        return process.pid

    @abstractmethod
    def end_descriptor(self, first: ProcessHandle) -> int:
        """Becomes readable when the job may have ended."""

    @abstractmethod
    def has_ended(self) -> bool:
        """True if the job has ended. Call it when that descriptor is readable; it does not wait."""

    @abstractmethod
    def revoke(self) -> None:
        """Ends a job that waits for permission, or a launcher with everything it started."""

    def close(self) -> None:
        """Closes our ends, which ends whatever is still bound to them."""
        self.child_ends.close()
        self.own_ends.close()


class BubblewrapConnection(LaunchConnection):
    """The connection to bubblewrap, under a shell that the kernel kills when our end of a socket closes."""

    def __init__(
        self, path: str, plan: bytes, entry: str, program: Sequence[str], limits: Mapping[int, int]
    ) -> None:
        """`plan` is bubblewrap's arguments, `entry` the file inside that the program reads as its input."""
        super().__init__(limits)
        first = encode_arguments(["/bin/sh", "-c", FIRST, FIRST_NAME, entry, *program])
        with self.own_ends, self.child_ends:
            # A file, not a pipe: if nobody read the pipe any more, bubblewrap would end before the job that
            # it started.
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
            # Nothing is ever written to it: bubblewrap reads an empty list of arguments, and closes it.
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
        """The process id, seen from outside, of the first process inside; 0 while there is none."""
        try:
            return msgspec.json.decode(os.pread(self._info, MAX_REPORT, 0), type=LauncherReport).child_pid
        except msgspec.MsgspecError:
            return 0

    def permit_start(self, process: subprocess.Popen[bytes]) -> None:
        # Bubblewrap's own --die-with-parent has gaps while it sets a sandbox up. So the kernel kills the
        # shell that
        # holds it as soon as the tether closes, which happens however this process ends.
        fcntl.fcntl(self._held, fcntl.F_SETOWN, process.pid)
        fcntl.fcntl(self._held, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(self._held, fcntl.F_SETFL, fcntl.fcntl(self._held, fcntl.F_GETFL) | os.O_ASYNC)
        self._held.close()
        if process.poll() is not None:
            raise ChildProcessError("the process that holds the sandbox was ended")
        self._pipe.sendall(b"permission\n")
        # With hundreds of agents, that many would stay open.
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
    """The pipes to our own launcher: its plan, its reports, and the permission that it needs as long as it lives."""

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
    """The command of our own launcher, given the descriptors of plan, reports and permission."""
    return [sys.executable, "-I", "-S", launcher.__file__, *map(str, descriptors)]


def launcher_plan(
    job: Job,
    program: str,
    environment: Mapping[str, str],
    limits: Mapping[int, int],
    rules: Sequence[tuple[str, bool]] | None = None,
) -> bytes:
    """The launcher's plan. `rules` maps paths for Landlock to whether they are writable; None for no rules."""
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
