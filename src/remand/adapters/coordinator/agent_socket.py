"""Agent sockets: one for each run. One thread listens at all of them; worker threads and processes carry the calls out."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import NamedTuple, Protocol

from remand.adapters.coordinator import protocol
from remand.adapters.coordinator.server import is_same_user
from remand.app.scheduler.ports import CannotRun, TaskWorktree

CallResult = tuple[int, bytes, bytes]
"""Exit code, output and errors."""

TOO_LONG: CallResult = (
    3,
    b"",
    b"remand: the answer is too long to be passed through a door. Ask for less of it.\n",
)


class AgentCaller(NamedTuple):
    """Whose door it is: settled when it was opened, and by nothing that is said there."""

    run_id: str
    agent: str
    task_id: str
    workplace: TaskWorktree

    @property
    def is_worker(self) -> bool:
        """True for the agent of the task itself. One that judges has a place of its own, with others' code in it."""
        return self.workplace.task_id == self.task_id


class AgentCall(NamedTuple):
    """One call through a door. All but the caller and the time is the agent's own word."""

    caller: AgentCaller
    at: float
    """When it came, by the monotonic clock."""
    folder: str
    settings: list[str]
    arguments: list[str]
    given: bytes = b""
    """What would have been read from standard input."""


class CallHandler(Protocol):
    """Answers calls, in threads of its own. Should it raise, that call alone has failed."""

    def is_long(self, asked: AgentCall) -> bool:
        """True for a call that may take minutes. This itself takes no time."""

    def answer(self, asked: AgentCall) -> CallResult:
        """Carries a call out."""

    def leave(self, caller: AgentCaller) -> None:
        """Ends what still goes on for a run whose door has closed. Called once for each."""


class AgentConnection:
    """One connection to a door: it asks, waits, is answered, and may ask again."""

    def __init__(self, door: AgentSocket, connection: socket.socket, now: float) -> None:
        self.door = door
        self.connection = connection
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.is_waiting = False
        """True while a call of its is under way."""
        self.is_gone = False
        self.since = now
        """When it began to ask, or to be answered."""

    def next_call(self, now: float) -> AgentCall | None:
        """The next call, when it is here as a whole; raises ValueError or IndexError on what is none."""
        found = protocol.unpack(self.incoming)
        if found is None:
            return None
        kind, payload, taken = found
        del self.incoming[:taken]
        return AgentCall(self.door.caller, now, *protocol.unpack_call_with_input(kind, payload))

    def queue_answer(self, answer: CallResult, now: float) -> None:
        """Takes an answer to be sent."""
        code, output, errors = answer
        if len(output) + len(errors) > protocol.MAX_FRAME - 64:
            code, output, errors = TOO_LONG
        self.outgoing += protocol.pack_result(code & 0xFF, output, errors)
        self.is_waiting, self.since = False, now

    def send(self) -> bool:
        """Sends what can be sent now; True when something is left. Raises OSError when nobody is there."""
        with suppress(BlockingIOError):
            while self.outgoing:
                del self.outgoing[: self.connection.send(self.outgoing)]
        return bool(self.outgoing)


class AgentSocket:
    """A run's socket, who is there, and what they wait for."""

    def __init__(self, caller: AgentCaller, path: str, listener: socket.socket) -> None:
        self.caller = caller
        self.path = path
        self.listener = listener
        self.visitors: set[AgentConnection] = set()
        self.waiting: dict[bool, deque[tuple[AgentConnection, AgentCall]]] = {False: deque(), True: deque()}
        """Calls whose turn has not come, short and long ones."""
        self.running: dict[bool, int] = {False: 0, True: 0}
        """How many are being carried out, short and long ones."""
        self.sorted = 0
        """How many were just heard, and it is not known yet which they are."""
        self.is_listening = False
        self.closes_at = 0.0
        """When what is still under way is ended; 0 while the door is open."""

    @property
    def is_busy(self) -> bool:
        """True while a call is under way."""
        return bool(self.sorted) or any(self.running.values()) or any(self.waiting.values())

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of calls that are not whole yet are kept for it."""
        return sum(len(visitor.incoming) for visitor in self.visitors)


ENDED: CallResult = (3, b"", b"remand: this was ended, as the run it belongs to is over.\n")


class CommandProcesses:
    """Processes of our own by the run they belong to. Nothing of an agent's chooses what is run, where, or with what.

    A call is handed over on standard input: the system takes no argument of more than 128 KiB. The folder is not
    where modules are looked for.
    """

    def __init__(self, module: str, folder: str, environment: Mapping[str, str]) -> None:
        self._command = [sys.executable, "-P", "-m", module]
        self._folder = folder
        self._environment = dict(environment)
        self._processes: dict[str, set[subprocess.Popen[bytes]]] = {}
        self._ended: set[str] = set()
        self._lock = threading.Lock()

    def run(self, run_id: str, frame: bytes, seconds: float) -> CallResult:
        """Runs a call to its end; one that takes longer is ended."""
        with self._lock:
            if run_id in self._ended:
                return ENDED
            own = self._processes.setdefault(run_id, set())
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._folder,
                env=self._environment,
                start_new_session=True,
            )
            own.add(process)
        with process:
            try:
                output, errors = process.communicate(frame, seconds)
            except subprocess.TimeoutExpired:
                _kill(process)
                return 3, b"", f"remand: this took longer than {seconds:.0f} s and was ended.\n".encode()
            finally:
                with self._lock:
                    own.discard(process)
        return (process.returncode, output, errors) if process.returncode >= 0 else ENDED

    def end(self, run_id: str) -> None:
        """Ends what still goes on for a run, and lets nothing begin any more."""
        with self._lock:
            self._ended.add(run_id)
            for process in self._processes.pop(run_id, set()):
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


MAX_PATH = 100
"""The system takes no longer path of a socket than 107 bytes."""
MAX_CONNECTIONS = 12
"""Who is at one door at a time; further ones wait outside until one leaves."""
MAX_BUFFERED = 16 << 20
"""How many bytes of unfinished calls one door keeps."""
BACKLOG = 64
AT_ONCE = {False: 4, True: 1}
"""How many calls through one door are carried out at a time, short and long ones."""
SHORT_WORKERS = 8
LONG_WORKERS = 256
PATIENCE = 15.0
"""How long a visitor may take to say what it wants, and to hear the answer."""
GRACE = 120.0
"""How long calls under way may go on after their door was closed."""
LOOK_SECONDS = 0.25
FAILED = "remand: the scheduler could not do this: {}: {}\n"


class AgentSocketListener:
    """The doors of a scheduler. Nothing said at one is heard at another, or keeps another waiting."""

    def __init__(
        self, folder: str, answering: CallHandler, *, patience: float = PATIENCE, grace: float = GRACE
    ) -> None:
        self._folder = folder
        self._answering = answering
        self._patience = patience
        self._grace = grace
        self._doors: dict[str, AgentSocket] = {}
        self._all: set[AgentSocket] = set()
        self._selector = selectors.DefaultSelector()
        self._jobs: deque[Callable[[], None]] = deque()
        self._wakeup = socket.socketpair()
        for end in self._wakeup:
            end.setblocking(False)
        self._selector.register(self._wakeup[0], selectors.EVENT_READ, None)
        self._workers = {
            is_long: ThreadPoolExecutor(size, thread_name_prefix="door")
            for is_long, size in ((False, SHORT_WORKERS), (True, LONG_WORKERS))
        }
        self._sorting = ThreadPoolExecutor(1, thread_name_prefix="door-sorting")
        self._is_ending = False
        self._are_shut = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="doors", daemon=True)
        self._thread.start()

    def open(self, run_id: str, agent: str, task_id: str, workplace: TaskWorktree) -> str:
        """A socket for one run; gives its path. Raises `CannotRun`."""
        if run_id in self._doors or self._is_ending:
            raise CannotRun(
                "door", f"The run {run_id} already has an agent socket, or the scheduler is stopping."
            )
        path = os.path.join(self._folder, _file_name(run_id, self._folder))
        try:
            listener = _listen(path)
        except OSError as error:
            raise CannotRun("door", f"The socket {path} cannot be made: {error}.") from None
        door = AgentSocket(AgentCaller(run_id, agent, task_id, workplace), path, listener)
        self._doors[run_id] = door
        self._run_in_loop(partial(self._add_socket, door))
        return path

    def close(self, run_id: str) -> None:
        """Ends it. Calls that are under way are finished, should it not take them too long."""
        door = self._doors.pop(run_id, None)
        if door is not None:
            with suppress(OSError):
                os.unlink(door.path)
            self._run_in_loop(partial(self._close_socket, door))

    def end(self, seconds: float = 10.0) -> None:
        """Closes every door, and ends what is under way when it takes longer than that."""
        for run_id in list(self._doors):
            self.close(run_id)
        self._is_ending = True
        self._run_in_loop(lambda: None)
        if not self._are_shut.wait(seconds):
            self._run_in_loop(self._remove_all_sockets)
            self._are_shut.wait(seconds)
        self._thread.join(seconds)
        for workers in (*self._workers.values(), self._sorting):
            workers.shutdown(wait=False, cancel_futures=True)

    def _run_in_loop(self, job: Callable[[], None]) -> None:
        """Has the loop do something: it alone touches sockets and doors."""
        self._jobs.append(job)
        with suppress(BlockingIOError, OSError):
            self._wakeup[1].send(b"x")

    def _serve(self) -> None:
        next_look = 0.0
        while not (self._is_ending and not self._all and not self._jobs):
            for key, mask in self._selector.select(LOOK_SECONDS if self._needs_checks else None):
                if key.data is None:
                    with suppress(BlockingIOError):
                        self._wakeup[0].recv(1 << 12)
                elif isinstance(key.data, AgentSocket):
                    self._accept(key.data)
                elif mask & selectors.EVENT_READ:
                    self._read(key.data)
                else:
                    self._flush(key.data)
            while self._jobs:
                self._jobs.popleft()()
            if time.monotonic() >= next_look:
                self._check_all()
                next_look = time.monotonic() + LOOK_SECONDS
        self._selector.close()
        for end in self._wakeup:
            end.close()
        self._are_shut.set()

    @property
    def _needs_checks(self) -> bool:
        return any(door.visitors or door.closes_at or not door.is_listening for door in self._all)

    def _add_socket(self, door: AgentSocket) -> None:
        self._all.add(door)
        self._set_listening(door)

    def _set_listening(self, door: AgentSocket, *, is_wanted: bool = True) -> None:
        if is_wanted == door.is_listening:
            return
        if is_wanted:
            self._selector.register(door.listener, selectors.EVENT_READ, door)
        else:
            self._selector.unregister(door.listener)
        door.is_listening = is_wanted

    def _accept(self, door: AgentSocket) -> None:
        """Lets visitors in while there is room; without room, or descriptors, the others wait outside."""
        while len(door.visitors) < MAX_CONNECTIONS:
            try:
                connection, _ = door.listener.accept()
            except BlockingIOError:
                return
            except OSError:
                break
            if not is_same_user(connection):
                connection.close()
                continue
            connection.setblocking(False)
            visitor = AgentConnection(door, connection, time.monotonic())
            door.visitors.add(visitor)
            self._selector.register(connection, selectors.EVENT_READ, visitor)
        self._set_listening(door, is_wanted=False)

    def _read(self, visitor: AgentConnection) -> None:
        try:
            part = visitor.connection.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        visitor.incoming += part
        if not part or visitor.door.buffered_bytes > MAX_BUFFERED:
            self._disconnect(visitor)
        else:
            self._read_call(visitor)

    def _read_call(self, visitor: AgentConnection) -> None:
        """Takes the visitor's call, when it is whole. What is no call is not answered."""
        try:
            asked = visitor.next_call(time.monotonic())
        except (ValueError, IndexError):
            self._disconnect(visitor)
            return
        if asked is None:
            return
        self._selector.unregister(visitor.connection)
        visitor.is_waiting = True
        visitor.door.sorted += 1
        sorting = self._sorting.submit(self._answering.is_long, asked)
        sorting.add_done_callback(
            lambda done: self._run_in_loop(partial(self._queue_call, visitor, asked, done))
        )

    def _queue_call(self, visitor: AgentConnection, asked: AgentCall, done: Future[bool]) -> None:
        """Puts a call with the short or the long ones. What is said there is not looked at in the loop itself."""
        visitor.door.sorted -= 1
        if visitor.is_gone:
            return
        is_long = done.exception() is None and done.result()
        visitor.door.waiting[is_long].append((visitor, asked))
        self._start_next_calls(visitor.door, is_long)

    def _start_next_calls(self, door: AgentSocket, is_long: bool) -> None:
        """Has the next calls carried out, as far as the door may have them."""
        while door.waiting[is_long] and door.running[is_long] < AT_ONCE[is_long]:
            visitor, asked = door.waiting[is_long].popleft()
            door.running[is_long] += 1
            future = self._workers[is_long].submit(self._answering.answer, asked)
            future.add_done_callback(partial(self._report_to_loop, visitor, is_long))

    def _report_to_loop(self, visitor: AgentConnection, is_long: bool, done: Future[CallResult]) -> None:
        """Tells the loop, from the thread that has carried the call out."""
        self._run_in_loop(partial(self._send_answer, visitor, is_long, done))

    def _send_answer(self, visitor: AgentConnection, is_long: bool, done: Future[CallResult]) -> None:
        door = visitor.door
        door.running[is_long] -= 1
        self._start_next_calls(door, is_long)
        if visitor.is_gone:
            return
        error = done.exception()
        answer = done.result() if error is None else _failure_result(error)
        visitor.queue_answer(answer, time.monotonic())
        self._selector.register(visitor.connection, selectors.EVENT_WRITE, visitor)
        self._flush(visitor)

    def _flush(self, visitor: AgentConnection) -> None:
        try:
            if visitor.send():
                return
        except OSError:
            self._disconnect(visitor)
            return
        if visitor.door.closes_at:
            self._disconnect(visitor)
            return
        visitor.since = time.monotonic()
        self._selector.modify(visitor.connection, selectors.EVENT_READ, visitor)
        self._read_call(visitor)

    def _disconnect(self, visitor: AgentConnection) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(visitor.connection)
        visitor.connection.close()
        visitor.is_gone = True
        visitor.door.visitors.discard(visitor)
        if not visitor.door.closes_at:
            self._set_listening(visitor.door)

    def _close_socket(self, door: AgentSocket) -> None:
        """Closes a door to whoever is not waiting for an answer."""
        door.closes_at = time.monotonic() + self._grace
        self._set_listening(door, is_wanted=False)
        door.listener.close()
        for visitor in [one for one in door.visitors if not one.is_waiting and not one.outgoing]:
            self._disconnect(visitor)
        self._check_socket(door)

    def _check_all(self) -> None:
        for door in list(self._all):
            self._check_socket(door)

    def _check_socket(self, door: AgentSocket) -> None:
        """Sends away who takes too long, lets others in again, and gives a closed door up."""
        now = time.monotonic()
        for visitor in [one for one in door.visitors if not one.is_waiting]:
            if now - visitor.since > self._patience:
                self._disconnect(visitor)
        if not door.closes_at:
            self._set_listening(door, is_wanted=len(door.visitors) < MAX_CONNECTIONS)
        elif now > door.closes_at or not (door.is_busy or door.visitors):
            self._remove_socket(door)

    def _remove_socket(self, door: AgentSocket) -> None:
        self._all.discard(door)
        for visitor in list(door.visitors):
            self._disconnect(visitor)
        for waiting in door.waiting.values():
            waiting.clear()
        self._answering.leave(door.caller)

    def _remove_all_sockets(self) -> None:
        for door in list(self._all):
            self._remove_socket(door)


def _failure_result(error: BaseException) -> CallResult:
    return 3, b"", FAILED.format(type(error).__name__, error).encode("utf-8", "replace")


def _file_name(run_id: str, folder: str) -> str:
    """A run's id where it can name a file, else something as good."""
    is_plain = run_id.isascii() and run_id.replace("-", "").isalnum()
    fits = len(os.fsencode(folder)) + len(run_id) + 6 <= MAX_PATH
    return f"{run_id if is_plain and fits else sha256(run_id.encode()).hexdigest()[:16]}.sock"


def _listen(path: str) -> socket.socket:
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
