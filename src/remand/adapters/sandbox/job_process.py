"""A running job: its launcher, its first process, the pipes to both, and how it ended."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from io import FileIO
from typing import NamedTuple, Protocol

import msgspec

from remand.adapters.sandbox.job_setup import CannotStart, encode_arguments
from remand.adapters.sandbox.limits import ResourceLimits, is_full, set_limits
from remand.adapters.sandbox.processes import (
    BoundedOutput,
    LauncherMessage,
    LauncherStatus,
    ProcessHandle,
    end_all_below,
    is_ready,
    make_pipe,
    memory_file,
)
from remand.app.gates.ports import MIB, Job, JobResult

START_SECONDS = 30.0
END_SECONDS = 60.0
"""How long a killed process may take to go: a moment, unless the machine is very busy."""
PATIENCE_SECONDS = 0.5
LOOK_SECONDS = 0.25
CHUNK = 1 << 18


class JobConnection(Protocol):
    """The way to speak with what launches a job, and what is known of the job by that."""

    @property
    def command(self) -> Sequence[str | bytes]:
        """What is started."""

    @property
    def stdin(self) -> int:
        """What it reads."""

    @property
    def descriptors(self) -> Sequence[int]:
        """Further descriptors that it inherits."""

    @property
    def pipe(self) -> FileIO | socket.socket:
        """Has something to read when there is something to be known."""

    @property
    def child(self) -> int:
        """The job's first process; 0 while there is none."""

    @property
    def exit_code(self) -> int | None:
        """How the job ended, if it was said."""

    @property
    def signal(self) -> int | None:
        """By which signal it ended, if it was said."""

    @property
    def fault(self) -> str:
        """What kept it from being started."""

    @property
    def has_ended(self) -> bool:
        """True when nothing more is to come that matters."""

    def close_child_ends(self) -> None:
        """Leaves their ends to what was started."""

    def await_child(self, seconds: float) -> bool:
        """True when the job's first process waits for leave within so many seconds."""

    def read(self) -> None:
        """Takes in what is there; to be called when something is."""

    def permit_start(self, process: subprocess.Popen[bytes]) -> None:
        """Lets the job begin, bound to this process."""

    def give_up(self) -> None:
        """Ends what waits for leave, or will."""

    def let_go(self) -> None:
        """Ends what was given leave."""


class JobLaunch(NamedTuple):
    """How a job is started: by a program that says what it does, and that waits for leave."""

    line: Callable[[ExitStack], JobConnection]
    """Makes the way to that program, for as long as a stack is open."""
    mark: str
    """Stands in the environment of every process of the job, and of no other."""
    limits: Mapping[int, int]
    """Limits to be set from outside."""
    has_own_processes: bool
    """True when the job's first process takes all others with it."""
    signal_base: int = 0
    """What is added to a signal's number to make an exit code of it; 0 where signals are told as such."""


class RunningJob:
    """A job that was started; `end` leaves nothing of it."""

    def __init__(self, launch: JobLaunch, job: Job, fence: ResourceLimits, stack: ExitStack) -> None:
        self._launch, self._job, self._fence = launch, job, fence
        self._child: ProcessHandle | None = None
        self._has_ended: bool | None = None
        self.hindrance = ""
        self.status = line = launch.line(stack)
        stack.callback(line.let_go)
        heard, output = make_pipe(stack)
        warned, errors = make_pipe(stack)
        self.output, self.errors = BoundedOutput(job.limits.output), BoundedOutput(job.limits.output)
        self._streams = ((heard, self.output), (warned, self.errors))
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            line.command,
            stdin=line.stdin,
            stdout=output,
            stderr=errors,
            env={},
            cwd="/",
            pass_fds=line.descriptors,
            start_new_session=True,
            umask=0o022,
        )
        line.close_child_ends()
        for end in (output, errors):
            end.close()

    def begin(self) -> bool:
        """Sets the job's bounds and gives it leave; False when it did not get that far."""
        if not self.status.await_child(START_SECONDS):
            return False
        self._child = ProcessHandle(self.status.child)
        try:
            self._fence.add_process(self.status.child)
            set_limits(self.status.child, self._launch.limits)
            self.status.permit_start(self.process)
        except OSError as fault:
            self.hindrance = f"its bounds could not be set: {fault}"
            return False
        self.began = time.monotonic()
        return True

    def listen(self) -> str:
        """Hears the job until it has `ended`, or has to be: `timed_out`, or the disk is `full`."""
        deadline = self.began + self._job.limits.seconds
        look = 0.0
        with selectors.DefaultSelector() as selector:
            for stream in self._streams:
                selector.register(stream[0], selectors.EVENT_READ, stream)
            selector.register(self.status.pipe, selectors.EVENT_READ)
            while not self.status.has_ended:
                now = time.monotonic()
                if now >= deadline:
                    return "timed_out"
                if now >= look:
                    look = now + LOOK_SECONDS
                    if is_full(self._job.folder):
                        return "full"
                self._take(selector, min(deadline - now, LOOK_SECONDS))
        return "ended"

    def _take(self, selector: selectors.BaseSelector, seconds: float) -> None:
        for key, _ in selector.select(seconds):
            if key.data is None:
                self.status.read()
            elif not _read_stream(*key.data):
                selector.unregister(key.fileobj)

    def end(self) -> bool:
        """Ends the job and all it has started; False when something would not end."""
        if self._has_ended is None:
            is_gone = self._end_job()
            self._has_ended = self._end_launcher() and is_gone
            for pipe, kept in self._streams:
                _read_rest(pipe, kept)
        return self._has_ended

    def _end_job(self) -> bool:
        is_gone = True
        if self._child:
            self._child.kill()
            self._fence.kill()
            is_gone = self._child.has_ended(END_SECONDS)
            self._child.close()
        if not self._launch.has_own_processes:
            is_gone = end_all_below(self.process.pid, self._launch.mark, END_SECONDS) and is_gone
        return is_gone

    def _end_launcher(self) -> bool:
        """Lets the launcher go, and kills it when it stays; False when something of it would not end."""
        if self._child is None:
            self.status.give_up()
        self.status.let_go()
        # The job may have stopped it.
        self.process.send_signal(signal.SIGCONT)
        if not self._has_launcher_ended():
            self.process.kill()
        if not self._has_launcher_ended():
            return False
        # One that ended by itself has waited for all it started; one that was killed has not.
        is_orderly = self.process.returncode >= 0
        return is_orderly or end_all_below(self.process.pid, self._launch.mark, END_SECONDS)

    def _has_launcher_ended(self) -> bool:
        """True when it ends in time."""
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True


def _read_stream(pipe: FileIO, kept: BoundedOutput) -> bool:
    """Takes in what a stream has to say; False when it is closed."""
    part = pipe.read(CHUNK)
    kept.add(part or b"")
    return part != b""


def _read_rest(pipe: FileIO, kept: BoundedOutput) -> None:
    """Takes in what is left in a pipe. Should something still write to it, it is not waited for."""
    os.set_blocking(pipe.fileno(), False)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        part = pipe.read(CHUNK)
        if not part:
            return
        kept.add(part)


HOLDER = '"$@"; exit $?'
"""What starts bubblewrap, and ends as it does."""

# The first process inside. It reads its leave, then starts the program and fetches orphans; it takes everything inside
# with it when the program ends.
FIRST = (
    "echo >&0 && read -r leave || exit 125;"
    ' exec 3>&2 2>/dev/null <"$1"; shift; (exec "$@" 2>&3 3>&-); exit $?'
)
NAME = "remand-sandbox"
"""How the first process calls itself when it has to say that a program cannot be run."""
CANNOT_RUN = (126, 127)
MAX_TOLD = 4096


class BubblewrapConnection(LauncherStatus):
    """The ties to one bubblewrap: what its first process asks, and what ends it with us."""

    def __init__(self, stack: ExitStack, path: str, plan: bytes, entry: str, program: Sequence[str]) -> None:
        """`plan` are bubblewrap's arguments, `entry` is the file inside that the program reads as its input."""
        super().__init__()
        first = encode_arguments(["/bin/sh", "-c", FIRST, NAME, entry, *program])
        self.pipe, self._theirs = (stack.enter_context(end) for end in socket.socketpair())
        # A file, not a pipe: should nobody be left to hear it, bubblewrap would end before what it has begun.
        self._told, asked = (stack.enter_context(memory_file(content)) for content in (b"", plan))
        self._tether, self._held = socket.socketpair()
        stack.enter_context(self._held)
        # Nothing is ever said on it: bubblewrap takes it for a list of no arguments, and lets go of it.
        self._tether.shutdown(socket.SHUT_WR)
        self.stdin = self._theirs.fileno()
        self.descriptors = (self._told, self._held.fileno(), asked)
        """The descriptors to be inherited."""
        told, *lists = map(str, self.descriptors)
        options = ("--info-fd", told, *(word for each in lists for word in ("--args", each)), "--")
        self.command = [*encode_arguments(["/bin/sh", "-c", HOLDER, "sh", path, *options]), *first]

    def close_child_ends(self) -> None:
        """Leaves their end of what is said to them alone."""
        self._theirs.close()

    def await_child(self, seconds: float) -> bool:
        """True when the first process asks for leave within so many seconds."""
        if not self.child and is_ready(self.pipe.fileno(), seconds):
            self.read()
            self.child = 0 if self.is_closed else self._first()
        return bool(self.child)

    def read(self) -> None:
        """Takes in what is said; to be called when something is. When all have ended, nobody is left to say anything."""
        try:
            self.is_closed = not self.pipe.recv(1)
        except ConnectionError:
            self.is_closed = True

    def permit_start(self, holder: subprocess.Popen[bytes]) -> None:
        """Binds the holder to this process, and lets the program begin."""
        fcntl.fcntl(self._held, fcntl.F_SETOWN, holder.pid)
        fcntl.fcntl(self._held, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(self._held, fcntl.F_SETFL, fcntl.fcntl(self._held, fcntl.F_GETFL) | os.O_ASYNC)
        self._held.close()
        if holder.poll() is not None:
            raise ChildProcessError("what holds the sandbox was ended")
        self.pipe.sendall(b"leave\n")

    def give_up(self) -> None:
        """Ends what has yet to be given leave, should it take too long to end by itself."""
        self.pipe.close()
        if not self.is_closed and (first := self._first()):
            handle = ProcessHandle(first)
            handle.kill()
            handle.close()

    def let_go(self) -> None:
        """Ends whatever is still bound."""
        self._tether.close()

    def _first(self) -> int:
        """The first process inside, as seen from here; 0 while there is none."""
        try:
            return msgspec.json.decode(os.pread(self._told, MAX_TOLD, 0), type=LauncherMessage).child_pid
        except msgspec.MsgspecError:
            return 0


NOT_STARTED = 127
_MAX_COMPLAINT = 500
_KILLED = int(signal.SIGKILL)


def not_started(detail: str) -> JobResult:
    """The answer for a job that never began."""
    return JobResult("not_started", NOT_STARTED, detail=detail)


def run_job(launch: JobLaunch, job: Job, fence: ResourceLimits) -> JobResult:
    """Runs a job and ends all of it; raises CannotStart when it never began."""
    with ExitStack() as stack:
        try:
            running = RunningJob(launch, job, fence, stack)
        except OSError as fault:
            raise CannotStart(f"The system cannot start a process: {fault}. Repeat when it can.") from None
        stack.callback(running.end)
        if not running.begin():
            running.end()
            raise CannotStart(_complaint(running))
        why = running.listen()
        seconds = time.monotonic() - running.began
        is_gone = running.end()
        how, status, detail = _outcome(running, launch, why, fence)
        if why == "timed_out":
            detail = f"It took longer than {job.limits.seconds:g} s."
    return JobResult(
        how,
        status,
        output=running.output.content(),
        errors=running.errors.content(),
        is_cut=running.output.is_cut or running.errors.is_cut,
        seconds=seconds,
        detail=detail if is_gone else f"{detail} Something of it would not end.".strip(),
    )


def _outcome(running: RunningJob, launch: JobLaunch, why: str, fence: ResourceLimits) -> tuple[str, int, str]:
    """How it ended, with which number, and which bound it ran into."""
    said = running.status
    if said.fault:
        raise CannotStart(_complaint(running))
    if why == "timed_out":
        return "timed_out", _KILLED, ""
    if why == "full":
        return (
            "signalled",
            _KILLED,
            "It was stopped, as the disk it writes to is nearly full. Make room there.",
        )
    if said.signal is not None:
        return "signalled", said.signal, _reached_bound(said.signal, fence)
    code = running.process.returncode
    if said.exit_code is not None:
        return "exited", said.exit_code, fence.reached_bound()
    if code < 0:
        return "signalled", -code, "The process that watches over it was ended."
    if not launch.signal_base or _could_not_run(running, code):
        raise CannotStart(_complaint(running))
    number = code - launch.signal_base
    if 0 < number <= int(signal.SIGSYS):
        return "signalled", number, _reached_bound(number, fence)
    return "exited", code, fence.reached_bound()


def _could_not_run(running: RunningJob, code: int) -> bool:
    """True when the first process inside bubblewrap says, before anything else is, that it cannot run the program."""
    return code in CANNOT_RUN and running.errors.content().startswith(f"{NAME}: ".encode())


def _reached_bound(number: int, fence: ResourceLimits) -> str:
    """Which bound a job ran into, by the signal it ended with and what was counted."""
    if number == signal.SIGXFSZ:
        return f"It ran into the file size limit of {fence.limits.file_size // MIB} MiB."
    if number == signal.SIGXCPU:
        return "It used up its processor time."
    return fence.reached_bound()


def _complaint(running: RunningJob) -> str:
    """Why a job did not begin, in the launcher's words."""
    said = running.status.fault or running.errors.content().decode("utf-8", "replace").strip()
    reason = said[-_MAX_COMPLAINT:] or running.hindrance or "its launcher ended without a word"
    return (
        f"It could not be started: {reason}. Check that the program and what it is run by are there to read."
    )
