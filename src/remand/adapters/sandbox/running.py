"""A job on its way: the process that launched it, the job's own first process, and the pipes to both."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from io import FileIO
from socket import socket
from typing import NamedTuple, Protocol

from remand.adapters.sandbox.ending import Handle, end_all_below
from remand.adapters.sandbox.limits import Fence, is_full, set_limits
from remand.adapters.sandbox.output import Kept
from remand.adapters.sandbox.pipes import pipe_of
from remand.app.gates.ports import Job

START_SECONDS = 30.0
END_SECONDS = 60.0
"""How long a killed process may take to go: a moment, unless the machine is very busy."""
PATIENCE_SECONDS = 0.5
LOOK_SECONDS = 0.25
CHUNK = 1 << 18


class Line(Protocol):
    """The way to speak with what launches a job, and what is known of the job by that."""

    @property
    def command(self) -> Sequence[str | bytes]:
        """What is started."""

    @property
    def stdin(self) -> int:
        """What it reads."""

    @property
    def given(self) -> Sequence[int]:
        """Further descriptors that it inherits."""

    @property
    def pipe(self) -> FileIO | socket:
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

    def hand_over(self) -> None:
        """Leaves their ends to what was started."""

    def await_child(self, seconds: float) -> bool:
        """True when the job's first process waits for leave within so many seconds."""

    def read(self) -> None:
        """Takes in what is there; to be called when something is."""

    def give_leave(self, process: subprocess.Popen[bytes]) -> None:
        """Lets the job begin, bound to this process."""

    def give_up(self) -> None:
        """Ends what waits for leave, or will."""

    def let_go(self) -> None:
        """Ends what was given leave."""


class Launch(NamedTuple):
    """How a job is started: by a program that says what it does, and that waits for leave."""

    line: Callable[[ExitStack], Line]
    """Makes the way to that program, for as long as a stack is open."""
    mark: str
    """Stands in the environment of every process of the job, and of no other."""
    limits: Mapping[int, int]
    """Limits to be set from outside."""
    has_own_processes: bool
    """True when the job's first process takes all others with it."""
    signal_base: int = 0
    """What is added to a signal's number to make an exit code of it; 0 where signals are told as such."""


class Running:
    """A job that was started; `end` leaves nothing of it."""

    def __init__(self, launch: Launch, job: Job, fence: Fence, stack: ExitStack) -> None:
        self._launch, self._job, self._fence = launch, job, fence
        self._child: Handle | None = None
        self._has_ended: bool | None = None
        self.hindrance = ""
        self.status = line = launch.line(stack)
        stack.callback(line.let_go)
        heard, output = pipe_of(stack)
        warned, errors = pipe_of(stack)
        self.output, self.errors = Kept(job.limits.output), Kept(job.limits.output)
        self._streams = ((heard, self.output), (warned, self.errors))
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            line.command,
            stdin=line.stdin,
            stdout=output,
            stderr=errors,
            env={},
            cwd="/",
            pass_fds=line.given,
            start_new_session=True,
            umask=0o022,
        )
        line.hand_over()
        for end in (output, errors):
            end.close()

    def begin(self) -> bool:
        """Sets the job's bounds and gives it leave; False when it did not get that far."""
        if not self.status.await_child(START_SECONDS):
            return False
        self._child = Handle(self.status.child)
        try:
            self._fence.hold(self.status.child)
            set_limits(self.status.child, self._launch.limits)
            self.status.give_leave(self.process)
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
            elif not _hear(*key.data):
                selector.unregister(key.fileobj)

    def end(self) -> bool:
        """Ends the job and all it has started; False when something would not end."""
        if self._has_ended is None:
            is_gone = self._end_job()
            self._has_ended = self._end_launcher() and is_gone
            for pipe, kept in self._streams:
                _hear_the_rest(pipe, kept)
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


def _hear(pipe: FileIO, kept: Kept) -> bool:
    """Takes in what a stream has to say; False when it is closed."""
    part = pipe.read(CHUNK)
    kept.add(part or b"")
    return part != b""


def _hear_the_rest(pipe: FileIO, kept: Kept) -> None:
    """Takes in what is left in a pipe. Should something still write to it, it is not waited for."""
    os.set_blocking(pipe.fileno(), False)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        part = pipe.read(CHUNK)
        if not part:
            return
        kept.add(part)
