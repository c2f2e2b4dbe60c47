"""A job on its way: the process that launched it, the job's own first process, and the pipes to both."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from io import FileIO
from typing import NamedTuple

from remand.adapters.sandbox.ending import Handle, end_all_below
from remand.adapters.sandbox.limits import Fence, is_full, set_limits
from remand.adapters.sandbox.output import Kept
from remand.adapters.sandbox.pipes import file_of, pipe_of
from remand.adapters.sandbox.status import StatusPipe
from remand.app.gates.ports import Job

START_SECONDS = 30.0
END_SECONDS = 5.0
PATIENCE_SECONDS = 0.5
LOOK_SECONDS = 0.25
CHUNK = 1 << 18


class Launch(NamedTuple):
    """How a job is started: by a program that says what it does, and that waits for leave."""

    argv: Callable[[int, int, int], list[str]]
    """Its arguments, given the descriptors of its plan, of what it says, and of the leave it waits for."""
    plan: bytes
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
        told, says = pipe_of(stack)
        leave, self._leave = pipe_of(stack)
        heard, output = pipe_of(stack)
        warned, errors = pipe_of(stack)
        plan = stack.enter_context(file_of(launch.plan))
        self.status = StatusPipe(told)
        self.output, self.errors = Kept(job.limits.output), Kept(job.limits.output)
        self._streams = ((heard, self.output), (warned, self.errors))
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            launch.argv(plan, says.fileno(), leave.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env={},
            cwd="/",
            pass_fds=(plan, says.fileno(), leave.fileno()),
            start_new_session=True,
            umask=0o022,
        )
        for end in (says, leave, output, errors):
            end.close()

    def begin(self) -> bool:
        """Sets the job's bounds and gives it leave; False when it did not get that far."""
        if not self.status.await_child(START_SECONDS):
            return False
        self._child = Handle(self.status.child)
        try:
            self._fence.hold(self.status.child)
            set_limits(self.status.child, self._launch.limits)
            self._leave.write(b"\n")
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
        """Lets the launcher go, and makes it when it stays."""
        self._leave.close()
        for seconds in (PATIENCE_SECONDS, END_SECONDS):
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
            else:
                return True
        return False


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
