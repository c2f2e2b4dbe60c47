"""Doors: a socket for each run of an agent. One thread listens at all of them, others carry the calls out."""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256

from remand.adapters.coordinator.server import is_own
from remand.adapters.coordinator.visitors import Answered, Answering, Asked, Caller, Door, Visitor
from remand.app.scheduling.ports import CannotRun, Workplace

MAX_PATH = 100
"""The system takes no longer path of a socket than 107 bytes."""
MAX_VISITORS = 12
"""Who is at one door at a time; further ones wait outside until one leaves."""
MAX_HELD = 16 << 20
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


class SocketDoors:
    """The doors of a scheduler. Nothing said at one is heard at another, or keeps another waiting."""

    def __init__(
        self, folder: str, answering: Answering, *, patience: float = PATIENCE, grace: float = GRACE
    ) -> None:
        self._folder = folder
        self._answering = answering
        self._patience = patience
        self._grace = grace
        self._doors: dict[str, Door] = {}
        self._all: set[Door] = set()
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

    def open(self, run_id: str, agent: str, task_id: str, workplace: Workplace) -> str:
        """A socket for one run; gives its path. Raises `CannotRun`."""
        if run_id in self._doors or self._is_ending:
            raise CannotRun("door", f"The run {run_id} has a door already, or the scheduler ends.")
        path = os.path.join(self._folder, _file_name(run_id, self._folder))
        try:
            listener = _listen(path)
        except OSError as error:
            raise CannotRun("door", f"The socket {path} cannot be made: {error}.") from None
        door = Door(Caller(run_id, agent, task_id, workplace), path, listener)
        self._doors[run_id] = door
        self._do(partial(self._begin, door))
        return path

    def close(self, run_id: str) -> None:
        """Ends it. Calls that are under way are finished, should it not take them too long."""
        door = self._doors.pop(run_id, None)
        if door is not None:
            with suppress(OSError):
                os.unlink(door.path)
            self._do(partial(self._shut, door))

    def end(self, seconds: float = 10.0) -> None:
        """Closes every door, and ends what is under way when it takes longer than that."""
        for run_id in list(self._doors):
            self.close(run_id)
        self._is_ending = True
        self._do(lambda: None)
        if not self._are_shut.wait(seconds):
            self._do(self._leave_all)
            self._are_shut.wait(seconds)
        self._thread.join(seconds)
        for workers in (*self._workers.values(), self._sorting):
            workers.shutdown(wait=False, cancel_futures=True)

    def _do(self, job: Callable[[], None]) -> None:
        """Has the loop do something: it alone touches sockets and doors."""
        self._jobs.append(job)
        with suppress(BlockingIOError, OSError):
            self._wakeup[1].send(b"x")

    def _serve(self) -> None:
        next_look = 0.0
        while not (self._is_ending and not self._all and not self._jobs):
            for key, mask in self._selector.select(LOOK_SECONDS if self._has_to_look else None):
                if key.data is None:
                    with suppress(BlockingIOError):
                        self._wakeup[0].recv(1 << 12)
                elif isinstance(key.data, Door):
                    self._accept(key.data)
                elif mask & selectors.EVENT_READ:
                    self._read(key.data)
                else:
                    self._flush(key.data)
            while self._jobs:
                self._jobs.popleft()()
            if time.monotonic() >= next_look:
                self._look()
                next_look = time.monotonic() + LOOK_SECONDS
        self._selector.close()
        for end in self._wakeup:
            end.close()
        self._are_shut.set()

    @property
    def _has_to_look(self) -> bool:
        return any(door.visitors or door.closes_at or not door.is_listening for door in self._all)

    def _begin(self, door: Door) -> None:
        self._all.add(door)
        self._listen_at(door)

    def _listen_at(self, door: Door, *, is_wanted: bool = True) -> None:
        if is_wanted == door.is_listening:
            return
        if is_wanted:
            self._selector.register(door.listener, selectors.EVENT_READ, door)
        else:
            self._selector.unregister(door.listener)
        door.is_listening = is_wanted

    def _accept(self, door: Door) -> None:
        """Lets visitors in while there is room; without room, or descriptors, the others wait outside."""
        while len(door.visitors) < MAX_VISITORS:
            try:
                connection, _ = door.listener.accept()
            except BlockingIOError:
                return
            except OSError:
                break
            if not is_own(connection):
                connection.close()
                continue
            connection.setblocking(False)
            visitor = Visitor(door, connection, time.monotonic())
            door.visitors.add(visitor)
            self._selector.register(connection, selectors.EVENT_READ, visitor)
        self._listen_at(door, is_wanted=False)

    def _read(self, visitor: Visitor) -> None:
        try:
            part = visitor.connection.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        visitor.incoming += part
        if not part or visitor.door.held > MAX_HELD:
            self._drop(visitor)
        else:
            self._hear(visitor)

    def _hear(self, visitor: Visitor) -> None:
        """Takes the visitor's call, when it is whole. What is no call is not answered."""
        try:
            asked = visitor.call(time.monotonic())
        except (ValueError, IndexError):
            self._drop(visitor)
            return
        if asked is None:
            return
        self._selector.unregister(visitor.connection)
        visitor.is_waiting = True
        visitor.door.sorted += 1
        sorting = self._sorting.submit(self._answering.is_long, asked)
        sorting.add_done_callback(lambda done: self._do(partial(self._sorted, visitor, asked, done)))

    def _sorted(self, visitor: Visitor, asked: Asked, done: Future[bool]) -> None:
        """Puts a call with the short or the long ones. What is said there is not looked at in the loop itself."""
        visitor.door.sorted -= 1
        if visitor.is_gone:
            return
        is_long = done.exception() is None and done.result()
        visitor.door.waiting[is_long].append((visitor, asked))
        self._go_on(visitor.door, is_long)

    def _go_on(self, door: Door, is_long: bool) -> None:
        """Has the next calls carried out, as far as the door may have them."""
        while door.waiting[is_long] and door.running[is_long] < AT_ONCE[is_long]:
            visitor, asked = door.waiting[is_long].popleft()
            door.running[is_long] += 1
            future = self._workers[is_long].submit(self._answering.answer, asked)
            future.add_done_callback(partial(self._finished, visitor, is_long))

    def _finished(self, visitor: Visitor, is_long: bool, done: Future[Answered]) -> None:
        """Tells the loop, from the thread that has carried the call out."""
        self._do(partial(self._answered, visitor, is_long, done))

    def _answered(self, visitor: Visitor, is_long: bool, done: Future[Answered]) -> None:
        door = visitor.door
        door.running[is_long] -= 1
        self._go_on(door, is_long)
        if visitor.is_gone:
            return
        error = done.exception()
        answer = done.result() if error is None else _failed(error)
        visitor.answered(answer, time.monotonic())
        self._selector.register(visitor.connection, selectors.EVENT_WRITE, visitor)
        self._flush(visitor)

    def _flush(self, visitor: Visitor) -> None:
        try:
            if visitor.send():
                return
        except OSError:
            self._drop(visitor)
            return
        if visitor.door.closes_at:
            self._drop(visitor)
            return
        visitor.since = time.monotonic()
        self._selector.modify(visitor.connection, selectors.EVENT_READ, visitor)
        self._hear(visitor)

    def _drop(self, visitor: Visitor) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(visitor.connection)
        visitor.connection.close()
        visitor.is_gone = True
        visitor.door.visitors.discard(visitor)
        if not visitor.door.closes_at:
            self._listen_at(visitor.door)

    def _shut(self, door: Door) -> None:
        """Closes a door to whoever is not waiting for an answer."""
        door.closes_at = time.monotonic() + self._grace
        self._listen_at(door, is_wanted=False)
        door.listener.close()
        for visitor in [one for one in door.visitors if not one.is_waiting and not one.outgoing]:
            self._drop(visitor)
        self._look_at(door)

    def _look(self) -> None:
        for door in list(self._all):
            self._look_at(door)

    def _look_at(self, door: Door) -> None:
        """Sends away who takes too long, lets others in again, and gives a closed door up."""
        now = time.monotonic()
        for visitor in [one for one in door.visitors if not one.is_waiting]:
            if now - visitor.since > self._patience:
                self._drop(visitor)
        if not door.closes_at:
            self._listen_at(door, is_wanted=len(door.visitors) < MAX_VISITORS)
        elif now > door.closes_at or not (door.is_busy or door.visitors):
            self._leave(door)

    def _leave(self, door: Door) -> None:
        self._all.discard(door)
        for visitor in list(door.visitors):
            self._drop(visitor)
        for waiting in door.waiting.values():
            waiting.clear()
        self._answering.leave(door.caller)

    def _leave_all(self) -> None:
        for door in list(self._all):
            self._leave(door)


def _failed(error: BaseException) -> Answered:
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
