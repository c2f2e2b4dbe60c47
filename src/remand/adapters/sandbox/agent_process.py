"""An agent's processes, output and end, and the one thread that starts and watches all agents."""

from __future__ import annotations

import errno
import heapq
import itertools
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from io import FileIO
from typing import NamedTuple, Protocol, TypeVar

from remand.adapters.sandbox.file_view import AgentSetting, agent_setting
from remand.adapters.sandbox.job_setup import CannotStart
from remand.adapters.sandbox.limits import ResourceLimits, is_full
from remand.adapters.sandbox.processes import (
    LEFT_OUT,
    BoundedOutput,
    ProcessTable,
    descendants,
    is_ready,
    make_pipe,
)
from remand.app.scheduler.ports import AgentLaunch, CannotRun, RunEnd

HEAD = 1 << 19
TAIL = 1 << 16


class AgentLog:
    """Written as it comes up to a size; of what follows the end is kept, and written last.

    A log that cannot be written, as on a full disk, is cut short: the agent goes on.
    """

    def __init__(self, path: str, *, head: int = HEAD, tail: int = TAIL) -> None:
        self._path = path
        self._room = head
        self._tail_size = tail
        self._tail = bytearray()
        self._is_cut = False
        if path:
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))

    def add(self, part: bytes) -> None:
        """Takes the next bytes in."""
        if not self._path:
            return
        head, rest = part[: self._room], part[self._room :]
        self._room -= len(head)
        self._append(head)
        self._tail += rest
        if len(self._tail) > 2 * self._tail_size:
            self._is_cut = True
            del self._tail[: -self._tail_size]

    def close(self) -> None:
        """Writes what was kept for the end."""
        is_cut = self._is_cut or len(self._tail) > self._tail_size
        self._append((LEFT_OUT if is_cut else b"") + self._tail[-self._tail_size :])
        self._tail.clear()

    def _append(self, part: bytes) -> None:
        if part:
            # Opened anew each time: hundreds of agents would hold as many files open.
            with suppress(OSError):
                descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
                try:
                    os.write(descriptor, part)
                finally:
                    os.close(descriptor)


PACE_SECONDS = 0.004
"""Between two rounds of listening: an agent that floods its pipe takes no more than a part of this process."""

MAX_PATIENCE = 3600.0
T = TypeVar("T")
Callback = Callable[[], None]


class Timer:
    """Something to be done at a time, unless it is cancelled before."""

    __slots__ = ("task",)

    def __init__(self, task: Callback | None) -> None:
        self.task = task

    def cancel(self) -> None:
        """Lets go of it."""
        self.task = None


class WatchThread:
    """Does what it is given, one after the other: at once, at a time, or when a descriptor has something to read.

    What it is given raises nothing, but for what `call` is given: of that the caller is told.
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
        """Has something done and waits for its answer."""
        answer: Future[T] = Future()

        def do() -> None:
            try:
                answer.set_result(task())
            except (OSError, ValueError) as fault:
                answer.set_exception(fault)

        self.call_soon(do)
        return answer.result()

    def call_soon(self, task: Callback) -> None:
        """Has something done without waiting for it."""
        self._tasks.append(task)
        self.ensure_running()
        # A pipe that is full wakes as well.
        with suppress(BlockingIOError):
            os.write(self._wake, b"\n")

    def ensure_running(self) -> None:
        """Sees to it that the thread runs. Should a fault of ours have ended it, and with it every agent, it goes on."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._serve, name="remand-crew", daemon=True)
                self._thread.start()

    def call_later(self, seconds: float, task: Callback) -> Timer:
        """Has something done later; to be called in this thread."""
        timer = Timer(task)
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._count), timer))
        return timer

    def on_readable(self, descriptor: int, task: Callback) -> None:
        """Has something done whenever a descriptor has something to read; to be called in this thread."""
        self._selector.register(descriptor, selectors.EVENT_READ, task)

    def forget(self, descriptor: int) -> None:
        """Ends that."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(descriptor)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select(self._patience()):
                if key.data is None:
                    self._do_tasks()
                elif self._selector.get_map().get(key.fd) is key:
                    key.data()
            self._do_timers()
            is_ready(self._woken, PACE_SECONDS)

    def _patience(self) -> float | None:
        return min(MAX_PATIENCE, max(0.0, self._timers[0][0] - time.monotonic())) if self._timers else None

    def _do_tasks(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._woken, 1 << 16)
        while self._tasks:
            self._tasks.popleft()()

    def _do_timers(self) -> None:
        now = time.monotonic()
        while self._timers and (self._timers[0][0] <= now or self._timers[0][2].task is None):
            timer = heapq.heappop(self._timers)[2]
            if timer.task is not None:
                timer.task()


@cache
def watch_thread() -> WatchThread:
    """That of this process: it has one, however many crews there are."""
    return WatchThread()


GRACE_SECONDS = 5.0
"""What an agent has to end by itself once it is asked to."""

OUTPUT = 1 << 17
ERRORS = 1 << 15
"""What is kept of what an agent says: what its host tells of a session is at the end of it."""

LOOK_SECONDS = 1.0
RETRY_SECONDS = 0.002
CHUNK = 1 << 16
LAST_CHUNKS = 64
MAX_COMPLAINT = 500

CAUSES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "disk"),
    **dict.fromkeys((errno.E2BIG, errno.ENAMETOOLONG, errno.ENOEXEC), "program"),
}
ADVICE = {
    "disk": "Make room there.",
    "program": "Mend the command in remand.toml.",
    "sandbox": "Repeat when it can.",
}


class AgentExit(NamedTuple):
    """How an agent's processes ended."""

    how: str
    status: int
    note: str = ""
    """Which bound they ran into."""


class HeldProcesses(Protocol):
    """The processes of one agent, in the hands of what confines or at least keeps them."""

    @property
    def end(self) -> int:
        """A descriptor that has something to read when they have ended, or may have."""

    @property
    def keeper(self) -> int:
        """The process that all of them descend from."""

    @property
    def first(self) -> int:
        """The first of them."""

    def kill(self) -> None:
        """Ends all of them."""

    def outcome(self) -> AgentExit | None:
        """How they ended, once none of them is left; None before. Never waits."""

    def close(self) -> bool:
        """Lets go of what is held; False when that has to be tried again."""


class OutputStream:
    """One of an agent's outputs."""

    def __init__(self, pipe: FileIO, limit: int, log: AgentLog) -> None:
        self._pipe = pipe
        self._kept = BoundedOutput(limit)
        self._log = log
        os.set_blocking(pipe.fileno(), False)

    @property
    def descriptor(self) -> int:
        """Where it is read."""
        return self._pipe.fileno()

    def read(self) -> bool:
        """Takes in what is there; False when nothing more can come."""
        part = self._pipe.read(CHUNK)
        self._kept.add(part or b"")
        self._log.add(part or b"")
        return part != b""

    def read_rest(self) -> None:
        """Takes in what is left. Should somebody still be there to write more, that is not waited for."""
        for _ in range(LAST_CHUNKS):
            part = self._pipe.read(CHUNK)
            if not part:
                break
            self._kept.add(part)
            self._log.add(part)

    def text(self) -> str:
        """What it has said so far: head and tail when that was much."""
        return self._kept.content().decode("utf-8", "replace")

    def close(self) -> None:
        """Hears no more."""
        self._pipe.close()


class OutputStreams:
    """What an agent says, and the ends of its pipes that it says it to."""

    def __init__(self, stack: ExitStack, log: str) -> None:
        self.log = AgentLog(log)
        heard, self.to_output = make_pipe(stack)
        warned, self.to_errors = make_pipe(stack)
        self.output, self.errors = (
            OutputStream(heard, OUTPUT, self.log),
            OutputStream(warned, ERRORS, self.log),
        )

    def both(self) -> tuple[OutputStream, OutputStream]:
        """Output and errors."""
        return self.output, self.errors

    def close_child_ends(self) -> None:
        """Leaves writing to the agent alone."""
        self.to_output.close()
        self.to_errors.close()

    def complaint(self) -> str:
        """The last of what was said by something that did not get to start an agent."""
        self.errors.read_rest()
        return self.errors.text().strip()[-MAX_COMPLAINT:]


def spawn(
    watch: WatchThread,
    command: Sequence[str | bytes],
    stdin: int,
    streams: OutputStreams,
    given: Sequence[int],
) -> subprocess.Popen[bytes]:
    """Starts what holds an agent, with nothing of ours but its streams and the descriptors it is given."""
    process = watch.call(
        lambda: subprocess.Popen(
            command,
            stdin=stdin,
            stdout=streams.to_output,
            stderr=streams.to_errors,
            env={},
            cwd="/",
            pass_fds=given,
            start_new_session=True,
            umask=0o022,
        )
    )
    streams.close_child_ends()
    return process


@contextmanager
def as_cannot_run() -> Iterator[None]:
    """Says in the scheduler's words what kept an agent from being started."""
    try:
        yield
    except CannotStart as fault:
        raise CannotRun("program", str(fault)) from None
    except OSError as fault:
        cause = CAUSES.get(fault.errno or 0, "sandbox")
        raise CannotRun(cause, f"The system cannot start an agent: {fault}. {ADVICE[cause]}") from None


class AgentProcess:
    """An agent that was started. Everything but what callers ask happens in the thread that watches over it."""

    def __init__(
        self, watch: WatchThread, census: ProcessTable, held: HeldProcesses, streams: OutputStreams
    ) -> None:
        self._watch, self._census, self._held, self._streams = watch, census, held, streams
        self._began = time.monotonic()
        self._asked = ""
        self._because = ""
        self._timer: Timer | None = None
        self._ended: RunEnd | None = None
        self._told: Callable[[], None] = lambda: None

    def poll(self) -> RunEnd | None:
        """How it ended; None while it runs."""
        if self._ended is None:
            self._watch.ensure_running()
        return self._ended

    def notify_end(self, ended: Callable[[], None]) -> None:
        """Has something told as soon as it has ended; should that be just now, perhaps twice."""
        self._told = ended
        if self._ended is not None:
            ended()

    def stop(self) -> None:
        """Asks it to end, and makes it after a while."""
        self._watch.call_soon(lambda: self._ask("stopped"))

    def begin(self, seconds: float, folder: str) -> None:
        """Is watched over from now on: it runs for no longer than so many seconds, and while its disk has room."""
        for stream in self._streams.both():
            self._watch.on_readable(stream.descriptor, partial(self._read_stream, stream))
        self._watch.on_readable(self._held.end, self._check_end)
        self._timer = self._watch.call_later(seconds, lambda: self._ask("timed_out"))
        self._watch_disk(folder)

    def _watch_disk(self, folder: str) -> None:
        """Ends the agent before the disk of its worktree is full: the ledger may be on that disk, too."""
        if self._asked or self._ended:
            return
        if is_full(folder):
            self._because = (
                f"Remand ended it: hardly any room is left on the disk of {folder}. Make room there."
            )
            self._ask("stopped")
        else:
            self._watch.call_later(LOOK_SECONDS, partial(self._watch_disk, folder))

    def _read_stream(self, stream: OutputStream) -> None:
        if not stream.read():
            self._watch.forget(stream.descriptor)

    def _ask(self, why: str) -> None:
        """Asks every process to end. What it is ended for is what was said first."""
        if self._asked or self._ended:
            return
        self._asked = why
        for pid in self._process_ids():
            with suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        self._set(self._watch.call_later(GRACE_SECONDS, self._held.kill))

    def _process_ids(self) -> set[int]:
        """Its processes; where the system does not tell, the group that the first of them leads."""
        table = self._census.now()
        return descendants(self._held.keeper, table) if table else {-self._held.first}

    def _set(self, timer: Timer | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def _check_end(self) -> None:
        """Puts down how it ended, once it has."""
        outcome = self._held.outcome()
        if outcome is None:
            return
        seconds = time.monotonic() - self._began
        self._set(None)
        self._watch.forget(self._held.end)
        said = [self._final_text(stream) for stream in self._streams.both()]
        self._streams.log.close()
        self._release()
        how, status, note = outcome
        note = " ".join(filter(None, (note, self._because)))
        errors = f"{said[1]}\n[{note}]\n" if note else said[1]
        self._ended = RunEnd(self._asked or how, status, seconds, said[0], errors)
        self._told()

    def _final_text(self, stream: OutputStream) -> str:
        self._watch.forget(stream.descriptor)
        stream.read_rest()
        stream.close()
        return stream.text()

    def _release(self) -> None:
        if not self._held.close():
            self._watch.call_later(RETRY_SECONDS, self._release)


StartHeld = Callable[[AgentLaunch, AgentSetting, OutputStreams, ResourceLimits], HeldProcesses]
"""Starts an agent's processes and holds them; nothing is left of them when that fails."""


class AgentStarter:
    """Starts agents, one way of holding them given, and watches over all of them."""

    def __init__(self, hold: Callable[[WatchThread], StartHeld], processes: int) -> None:
        self._watch, self._census = watch_thread(), ProcessTable()
        self._hold = hold(self._watch)
        self._processes = processes

    def start(self, order: AgentLaunch) -> AgentProcess:
        """Starts a run; raises CannotRun."""
        with as_cannot_run(), ExitStack() as stack:
            given = agent_setting(order, self._processes)
            streams = OutputStreams(stack, order.log)
            fence = stack.enter_context(ResourceLimits(given.job.limits))
            held = self._hold(order, given, streams, fence)
            agent = AgentProcess(self._watch, self._census, held, streams)
            try:
                self._watch.call(lambda: agent.begin(order.bounds.seconds, given.job.folder))
            except OSError:
                held.kill()
                raise
            stack.pop_all()
        return agent
