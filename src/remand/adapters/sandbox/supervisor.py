"""Starts gates and agents, supervises them until all of their processes have ended, and limits their output."""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache, partial
from io import FileIO
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from remand.adapters.sandbox import processes
from remand.adapters.sandbox.connections import LaunchConnection
from remand.adapters.sandbox.limits import ResourceLimits, is_full, set_limits
from remand.app.gates.ports import MIB

START_SECONDS = 30.0
END_SECONDS = 60.0
"""How long a killed process may take to end: usually a moment, unless the machine is very busy."""
RETRY_SECONDS = 0.002
TIME_CHECK_SECONDS = 0.5
"""The least time between two checks of the time limit, since uncounted time may grow meanwhile."""
MAX_COMPLAINT = 500
SIGNAL_BASE = 128
"""Bubblewrap and the shell add this to a signal's number to form an exit code."""
CANNOT_RUN = 126
HOLDER_ENDED = "The process that watches it was ended."
TEMPORARY_FAILURE = "Unable to apply mount flags"
MORE_TRIES = 3

PACE_SECONDS = 0.004
"""Pause between two rounds, so that an agent that floods its pipe takes only part of this process's time."""
MAX_WAIT_SECONDS = 3600.0

R = TypeVar("R")
T = TypeVar("T")
Callback = Callable[[], None]


class LaunchFailed(Exception):  # noqa: N818 - a state of affairs; it never leaves the package
    """The launching program failed; the message is its output."""


class Timer:
    """An action at a certain time, unless cancelled before."""

    __slots__ = ("task",)

    def __init__(self, task: Callback | None) -> None:
        self.task = task

    def cancel(self) -> None:
        self.task = None


class WatchThread:
    """Runs tasks one after the other: at once, at a time, or when a descriptor is readable.

    Tasks must not raise, except those of `call`, whose caller receives the exception.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._tasks: deque[Callback] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = itertools.count()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def call(self, task: Callable[[], T]) -> T:
        """Runs a task in this thread and returns its result."""
        answers: SimpleQueue[T | OSError | ValueError] = SimpleQueue()

        def run() -> None:
            try:
                answers.put(task())
            except (OSError, ValueError) as fault:
                answers.put(fault)

        self.call_soon(run)
        answer = answers.get()
        if isinstance(answer, OSError | ValueError):
            raise answer
        return answer

    def call_soon(self, task: Callback) -> None:
        self._tasks.append(task)
        self.ensure_running()
        # A full pipe wakes the thread, too.
        with suppress(BlockingIOError):
            os.write(self._wake, b"\n")

    def ensure_running(self) -> None:
        """Starts the thread, also if an error ended it: a bubblewrap process ends with the thread that started it."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="remand-watch", daemon=True)
                self._thread.start()

    def call_later(self, seconds: float, task: Callback) -> Timer:
        """Schedules a task; call it only in this thread."""
        timer = Timer(task)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._count), timer))
        return timer

    def on_readable(self, descriptor: int, task: Callback) -> None:
        """Runs a task whenever a descriptor is readable; call it only in this thread."""
        self._selector.register(descriptor, selectors.EVENT_READ, task)

    def forget(self, descriptor: int) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def _serve(self) -> None:
        while True:
            wait = None
            if self._timers:
                wait = min(MAX_WAIT_SECONDS, max(0.0, self._timers[0][0] - time.monotonic()))
            for key, _ in self._selector.select(wait):
                if key.data is None:
                    with suppress(BlockingIOError):
                        os.read(self._woken, 1 << 16)
                    while self._tasks:
                        self._tasks.popleft()()
                elif self._selector.get_map().get(key.fd) is key:
                    key.data()
            now = time.monotonic()
            while self._timers and (self._timers[0][0] <= now or self._timers[0][2].task is None):
                timer = heapq.heappop(self._timers)[2]
                if timer.task is not None:
                    timer.task()
            processes.is_ready(self._woken, PACE_SECONDS)


_watch_threads: list[WatchThread] = []
_starting = threading.Lock()


def watch_thread() -> WatchThread:
    """The process's only watch thread, however many gates and agents start at once."""
    with _starting:
        if not _watch_threads:
            _watch_threads.append(WatchThread())
        return _watch_threads[0]


@cache
def process_table() -> processes.ProcessTable:
    return processes.ProcessTable()


class OutputBounds(NamedTuple):
    """How many bytes of each stream are kept, and the file that logs both; empty for none."""

    output: int
    errors: int
    log: str = ""


class StopRules(NamedTuple):
    """When a job is stopped, and how."""

    seconds: float
    """The time limit."""
    folder: str
    """The job is stopped before the disk of this folder is full, because the ledger may be on that disk."""
    disk_check_seconds: float
    grace_seconds: float = 0.0
    """How long it has to end after it is asked to; 0 to kill it at once."""
    uncounted: Callable[[], float] = float
    """Returns how many seconds do not count, because the job waited for us. By default none."""


class ProcessEnd(NamedTuple):
    """How a job's processes ended, once none of them is left."""

    how: str
    """`exited` or `signalled`."""
    status: int
    note: str
    """The limit that they reached."""
    fault: str
    """Why the program did not start."""
    stopped_for: str
    """`timed_out`, `disk` or `stopped`, if the supervisor stopped it."""
    seconds: float
    output: processes.BoundedOutput
    errors: processes.BoundedOutput


class SupervisedProcess(Generic[R]):
    """A job or an agent, from its start until all of its processes have ended.

    Everything except its callers' methods runs in the watch thread. `result` makes the caller's own record of
    the end.
    """

    def __init__(
        self,
        connection: LaunchConnection,
        limits: ResourceLimits,
        rules: StopRules,
        bounds: OutputBounds,
        result: Callable[[ProcessEnd], R],
    ) -> None:
        """Starts the launching program; `start` does the rest."""
        self._connection, self._limits, self._rules, self._result = connection, limits, rules, result
        self._watch = watch_thread()
        self._ends = ExitStack()
        self._ends.callback(connection.close)
        with self._ends, ExitStack() as child_ends:
            self._log = processes.OutputLog(bounds.log)
            pipes = [processes.make_pipe(self._ends, child_ends) for _ in range(2)]
            self._output = processes.OutputStream(pipes[0][0], bounds.output, self._log)
            self._errors = processes.OutputStream(pipes[1][0], bounds.errors, self._log)
            self._process = self._watch.call(partial(self._spawn, pipes[0][1], pipes[1][1]))
            connection.child_ends.close()
            self._ends = self._ends.pop_all()
        self._orphans = processes.OrphanKiller(self._process.pid, connection.mark, END_SECONDS)
        self._first: processes.ProcessHandle | None = None
        self._began = time.monotonic()
        self._end_descriptor = -1
        self._stopped_for = ""
        self._timer: Timer | None = None
        """Kills it, or asks it to end, when its time is up."""
        self._holder_deadline = 0.0
        self._ended: R | None = None
        self._has_ended = threading.Event()
        self._on_end: Callback = lambda: None

    def _spawn(self, output: FileIO, errors: FileIO) -> subprocess.Popen[bytes]:
        """Starts the launching program, which inherits only its streams and the given descriptors."""
        return subprocess.Popen(
            self._connection.command,
            stdin=self._connection.stdin,
            stdout=output,
            stderr=errors,
            env={},
            cwd="/",
            pass_fds=self._connection.descriptors,
            start_new_session=True,
            umask=0o022,
        )

    def start(self) -> None:
        """Sets the limits on the first process, prepares its surroundings, and permits it to begin.

        Raises LaunchFailed or OSError, and then leaves no process.
        """
        connection = self._connection
        with ExitStack() as undo:
            undo.callback(self._abandon)
            if connection.await_child(START_SECONDS):
                self._first = processes.ProcessHandle(connection.child)
                self._limits.add_process(connection.child)
                set_limits(connection.child, connection.limits)
                connection.prepare(connection.child)
                self._end_descriptor = connection.end_descriptor(self._first)
                connection.permit_start(self._process)
                self._watch.call(self._begin)
                undo.pop_all()
                return
        complaint = connection.end.fault or self._errors.kept.text().strip()[-MAX_COMPLAINT:]
        raise LaunchFailed(complaint or "its launcher printed nothing")

    def _abandon(self) -> None:
        """Ends a job that was not started, and reads its error message."""
        if self._first is not None:
            self._first.kill()
            self._watch.call(self._unwatch)
            self._first.close()
        self._connection.revoke()
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.returncode < 0:
            processes.kill_orphans(self._process.pid, self._connection.mark, END_SECONDS)
        self._errors.read_rest()
        self._ends.close()

    # ------------------------------------------------------------------------------------- the callers'
    # methods

    def poll(self) -> R | None:
        """The result; None while it runs."""
        if self._ended is None:
            self._watch.ensure_running()
        return self._ended

    def wait(self) -> R:
        """Waits for its end. If the waiting is interrupted, kills the job with all its processes."""
        try:
            while (ended := self._ended) is None:
                self._watch.ensure_running()
                self._has_ended.wait(END_SECONDS)
        finally:
            if self._ended is None:
                self._watch.call_soon(self._kill)
                self._has_ended.wait(3 * END_SECONDS)
        return ended

    def notify_end(self, callback: Callback) -> None:
        """Calls back when it has ended; if it is just ending, perhaps twice."""
        self._on_end = callback
        if self._ended is not None:
            callback()

    def stop(self) -> None:
        """Asks it to end, and kills it after a while."""
        self._watch.call_soon(partial(self._stop, "stopped"))

    # --------------------------------------------------------------------------------- run by the watch
    # thread

    def _begin(self) -> None:
        self._began = time.monotonic()
        for stream in (self._output, self._errors):
            self._watch.on_readable(stream.descriptor, partial(self._read_stream, stream))
        self._watch.on_readable(self._end_descriptor, self._check_end)
        self._timer = self._watch.call_later(self._rules.seconds, self._check_time)
        self._check_disk()

    def _check_time(self) -> None:
        """Stops it when its time is up, not counting time that it waited for us."""
        left = self._rules.seconds + self._rules.uncounted() - (time.monotonic() - self._began)
        if left > 0:
            self._set_timer(self._watch.call_later(max(left, TIME_CHECK_SECONDS), self._check_time))
        else:
            self._stop("timed_out")

    def _unwatch(self) -> None:
        self._stopped_for = self._stopped_for or "stopped"
        self._set_timer(None)
        for descriptor in (self._end_descriptor, self._output.descriptor, self._errors.descriptor):
            self._watch.forget(descriptor)

    def _set_timer(self, timer: Timer | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def _read_stream(self, stream: processes.OutputStream) -> None:
        if stream.read() == b"":
            self._watch.forget(stream.descriptor)

    def _check_disk(self) -> None:
        if self._stopped_for or self._ended is not None:
            return
        if is_full(self._rules.folder):
            self._stop("disk")
        else:
            self._watch.call_later(self._rules.disk_check_seconds, self._check_disk)

    def _stop(self, reason: str) -> None:
        """Asks every process to end, and kills them after the grace period. The first reason is recorded."""
        if self._stopped_for or self._ended is not None:
            return
        self._stopped_for = reason
        self._set_timer(None)
        if not self._rules.grace_seconds:
            self._kill()
            return
        connection = self._connection
        table = process_table().now(connection.child)
        # If the system does not list processes, use the process group of the first.
        for pid in (
            processes.descendants(connection.ancestor(self._process), table) if table else {-connection.child}
        ):
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        self._set_timer(self._watch.call_later(self._rules.grace_seconds, self._kill))

    def _kill(self) -> None:
        if self._ended is not None:
            return
        if self._first is not None:
            self._first.kill()
        self._limits.kill()
        self._connection.revoke()
        # The job may have stopped its launcher. Kill it if it does not end.
        self._process.send_signal(signal.SIGCONT)
        self._watch.call_later(END_SECONDS, self._kill_holder)

    def _kill_holder(self) -> None:
        if self._ended is None:
            self._process.kill()

    def _check_end(self) -> None:
        """Records how it ended, once no process is left."""
        if not self._connection.has_ended():
            return
        code = self._process.poll()
        if code is None:
            now = time.monotonic()
            self._holder_deadline = self._holder_deadline or now + END_SECONDS
            if now > self._holder_deadline:
                self._process.kill()
            return
        # A holder that ended by itself has waited for everything it started; one that was killed has not.
        if code < 0 and not self._orphans.is_done():
            return
        self._finish(code)

    def _finish(self, code: int) -> None:
        seconds = time.monotonic() - self._began
        stopped_for = self._stopped_for
        self._unwatch()
        for stream in (self._output, self._errors):
            stream.read_rest()
        self._log.close()
        self._limits.kill()
        how, status, note, fault = self._outcome(code)
        if self._orphans.has_failed:
            note = f"{note} A process of it did not end.".strip()
        if self._first is not None:
            self._first.close()
        self._ends.close()
        self._remove_group(RETRY_SECONDS)
        self._ended = self._result(
            ProcessEnd(how, status, note, fault, stopped_for, seconds, self._output.kept, self._errors.kept)
        )
        self._has_ended.set()
        self._on_end()

    def _outcome(self, code: int) -> tuple[str, int, str, str]:
        """How it ended, the exit code or signal, the limit it reached, and why it did not start."""
        report, reached = self._connection.end, self._limits.reached_bound()
        number, status = report.signal, report.exit_code
        if report.fault:
            return "exited", CANNOT_RUN, "", report.fault
        if number is None and status is None:
            if code < 0:
                return "signalled", -code, reached or HOLDER_ENDED, ""
            if self._connection.reports_end:
                return "exited", CANNOT_RUN, "", "its launcher ended without a report"
            is_signal = 0 < code - SIGNAL_BASE <= int(signal.SIGSYS)
            number, status = (code - SIGNAL_BASE, None) if is_signal else (None, code)
        if number is None:
            return "exited", status or 0, reached, ""
        if number == signal.SIGXFSZ:
            reached = f"It ran into the file size limit of {self._limits.limits.file_size // MIB} MiB."
        elif number == signal.SIGXCPU:
            reached = "It used up its CPU time."
        return "signalled", number, reached, ""

    def _remove_group(self, seconds: float) -> None:
        """Removes the control group as soon as the kernel allows it."""
        if not self._limits.try_close():
            self._watch.call_later(seconds, partial(self._remove_group, min(2 * seconds, 1.0)))


def supervise(
    connect: Callable[[], LaunchConnection],
    limits: ResourceLimits,
    rules: StopRules,
    bounds: OutputBounds,
    result: Callable[[ProcessEnd], R],
) -> SupervisedProcess[R]:
    """Starts a job or an agent and supervises it; raises LaunchFailed or OSError.

    Retries if bubblewrap met a mount that another process was just removing; nothing has run then.
    """
    tries = 0
    while True:
        process = SupervisedProcess(connect(), limits, rules, bounds, result)
        try:
            process.start()
        except LaunchFailed as fault:
            tries += 1
            if tries > MORE_TRIES or TEMPORARY_FAILURE not in str(fault):
                raise
        else:
            return process
