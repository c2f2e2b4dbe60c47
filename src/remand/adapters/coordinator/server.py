"""The coordinator: a resident process that answers requests in groups, each made durable by one sync, and how a scheduler starts one as its child."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

import msgspec

from remand import startup
from remand.adapters.coordinator import protocol, remote_ledger
from remand.adapters.coordinator.protocol import Connection, CoordinatorUnavailable
from remand.adapters.coordinator.remote_ledger import CoordinatorStatus, encode_status
from remand.adapters.system.files import acquire_lock
from remand.app.errors import EnvironmentFault, LedgerReplaced
from remand.app.ledger import Ledger, UnsyncedAnswers
from remand.app.requests import Acceptance, Answer, Request
from remand.ledger.problems import BadLine


class FrameConnection:
    """One connection, with what was read of it and what is still to be sent."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.incoming = bytearray()
        self.outgoing = bytearray()

    def receive(self) -> bool:
        """Reads what is there; False when the other side is gone."""
        try:
            part = self.connection.recv(1 << 18)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.incoming += part
        return bool(part)

    def next_frame(self) -> tuple[bytes, bytes] | None:
        """Kind and payload of the next frame, when it is here as a whole. Raises ValueError on what is none."""
        found = protocol.unpack(self.incoming)
        if found is None:
            return None
        kind, payload, taken = found
        del self.incoming[:taken]
        return kind, payload

    def send(self) -> bool:
        """Sends what can be sent now; True when something is left. Raises OSError when nobody is there."""
        with suppress(BlockingIOError):
            while self.outgoing:
                del self.outgoing[: self.connection.send(self.outgoing)]
        return bool(self.outgoing)


def listen(path: str, backlog: int) -> socket.socket:
    """A socket for this user alone, in place of one that was left there. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def accept(listener: socket.socket) -> socket.socket | None:
    """The next connection of this very user, or root; None for one of somebody else. Raises OSError when there is none."""
    connection, _ = listener.accept()
    if not _is_same_user(connection):
        connection.close()
        return None
    connection.setblocking(False)
    return connection


def _is_same_user(connection: socket.socket) -> bool:
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    answer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", answer)
    return user in (0, os.getuid())


HOUSEKEEPING_SECONDS = 5.0
BACKLOG = 1024

IDLE_SECONDS = 0.02
"""How long nobody must have asked for anything before the files for people are made."""
MAX_OUTDATED_SECONDS = 2.0
"""How long these wait at most, however many ask."""

CommandLineCall = Callable[[str, list[str], list[str]], tuple[int, bytes, bytes]]
"""Runs a forwarded call of the command line: folder, settings, arguments to exit code, output, errors."""


Result = TypeVar("Result")
Askers = list[tuple[FrameConnection, list[Request]]]


class DecidedGroup:
    """Requests that were answered as one group, and what came of the sync that the answers wait for."""

    def __init__(self, askers: Askers, decided: UnsyncedAnswers) -> None:
        self.askers = askers
        self.decided = decided
        self.fault: EnvironmentFault | None = None


class GroupSync:
    """Syncs groups in a thread of its own, so that the next one is decided meanwhile. One sync covers all that wait."""

    def __init__(self, ledger: Ledger, wake: Callable[[], None]) -> None:
        self._ledger = ledger
        self._wake = wake
        self._waiting: SimpleQueue[DecidedGroup] = SimpleQueue()
        self._finished: SimpleQueue[DecidedGroup] = SimpleQueue()
        self.count = 0
        """How many groups were added and not taken back."""
        self._thread: threading.Thread | None = None

    def add(self, group: DecidedGroup) -> None:
        """Has a group synced; `wake` is called when it is."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self.count += 1
        self._waiting.put(group)

    def finished_groups(self, *, waits: bool = False) -> Iterator[DecidedGroup]:
        """The groups that are on disk since, in their order; on request all that were added."""
        while self.count and (waits or not self._finished.empty()):
            yield self._finished.get()
            self.count -= 1

    def _run(self) -> None:
        while True:
            groups = [self._waiting.get()]
            while not self._waiting.empty():
                groups.append(self._waiting.get())
            sync_groups(self._ledger, groups)
            for group in groups:
                self._finished.put(group)
            self._wake()


def sync_groups(ledger: Ledger, groups: Sequence[DecidedGroup]) -> None:
    """Syncs what groups have written, each event file once; says in each group what went wrong."""
    heads = {group.decided.head.segment: group.decided.head for group in groups if group.decided.head}
    for head in heads.values():
        error = _attempt(partial(ledger.sync, head))
        if error is not None:
            for group in groups:
                group.fault = _as_fault(error)
            return


def _attempt(action: Callable[[], Result]) -> Result | Exception:
    """What an action returns or raises: whatever goes wrong for some clients must not end the others' coordinator."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - without it, a slip ends the loop or the thread that all clients wait for
        return error


def _as_fault(error: Exception) -> EnvironmentFault:
    """What a client is told of an error."""
    is_known = isinstance(error, EnvironmentFault | BadLine | OSError)
    return EnvironmentFault(str(error) if is_known else f"{type(error).__name__}: {error}")


class Coordinator:
    """Owns the socket of a ledger. Killed at any moment it leaves nothing that the next writer does not repair."""

    def __init__(
        self,
        ledger: Ledger,
        path: str,
        call: CommandLineCall,
        consult: Callable[[str], None] = lambda _: None,
        finish_call: Callable[[], object] = lambda: None,
        *,
        max_idle_seconds: float = 0.0,
    ) -> None:
        """Given a time, it ends when nobody has called for that long, and when another version is installed."""
        self._ledger = ledger
        self._call = call
        self._consult = consult
        self._look_after = finish_call
        self._selector = selectors.DefaultSelector()
        self._path = path
        self._stopping = False
        self._listener, self._lock = _listen_alone(self._path, takes_over=not max_idle_seconds)
        self._wakeup = socket.socketpair()
        for end in self._wakeup:
            end.setblocking(False)
        self._sync = GroupSync(ledger, self._wake)
        self._max_idle_seconds = max_idle_seconds
        self._last_call = time.monotonic()
        self._status = encode_status(
            CoordinatorStatus(
                pid=os.getpid(),
                version=startup.VERSION,
                since=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                ends_when_idle=bool(max_idle_seconds),
            )
        )
        self._installation = _installation_mark()
        self._outdated_since = 0.0
        """Since when files for people are out of date; 0 when none is."""

    def stop(self) -> None:
        """Asks the loop to end; may be called from a signal handler or another thread."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):
            self._wakeup[1].send(b"x")

    def serve(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(self._wakeup[0], selectors.EVENT_READ, "wakeup")
        try:
            next_look = time.monotonic() + HOUSEKEEPING_SECONDS
            while not self._stopping:
                wait = max(0.0, next_look - time.monotonic())
                ready = self._selector.select(min(wait, IDLE_SECONDS) if self._outdated_since else wait)
                self._serve_ready(ready)
                self._update_files(is_idle=not ready)
                if time.monotonic() >= next_look and not self._is_over():
                    self._apply_due()
                    next_look = time.monotonic() + HOUSEKEEPING_SECONDS
        finally:
            self._close()

    def _is_over(self) -> bool:
        """Ends one that stays behind commands when it is not wanted any more, and says so.

        What another version has installed must not be loaded into this process, which has loaded only parts so far.
        """
        if self._max_idle_seconds:
            is_idle = time.monotonic() - self._last_call >= self._max_idle_seconds
            self._stopping |= is_idle or _installation_mark() != self._installation
        return self._stopping

    def _update_files(self, *, is_idle: bool) -> None:
        """Makes the files for people when nobody waits for an answer, or when they are out of date for long."""
        since, now = self._outdated_since, time.monotonic()
        if since and not self._sync.count and (is_idle or now - since > MAX_OUTDATED_SECONDS):
            self._outdated_since = 0.0
            # Should that fail, they stay out of date until the next change.
            if isinstance(_attempt(self._ledger.update_files), LedgerReplaced):
                self._stopping = True

    def _apply_due(self) -> None:
        """Applies what is due, although nobody sends a request."""
        try:
            self._ledger.ask_all([])
            self._look_after()
        except LedgerReplaced:
            self._stopping = True
        except (EnvironmentFault, BadLine, OSError):
            # Whoever comes next says what is wrong. The ledger may be gone for good, and one that was started behind a
            # command nobody would end.
            self._stopping |= bool(self._max_idle_seconds)

    def _serve_ready(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        """One turn: accept, read, answer all asks that are there as one group, send."""
        waiting: Askers = []
        for key, mask in ready:
            if key.data is None:
                self._accept()
            elif key.data == "wakeup":
                with suppress(OSError):
                    self._wakeup[0].recv(4096)
            elif isinstance(key.data, FrameConnection):
                if mask & selectors.EVENT_READ:
                    self._read(key.data, waiting)
                elif not key.data.send():
                    self._selector.modify(key.data.connection, selectors.EVENT_READ, key.data)
        for group in self._sync.finished_groups():
            self._reply_to_group(group)
        if waiting:
            self._answer(waiting)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection = accept(self._listener)
                if connection is not None:
                    self._selector.register(connection, selectors.EVENT_READ, FrameConnection(connection))

    def _read(self, client: FrameConnection, waiting: Askers) -> None:
        if not client.receive():
            self._drop(client)
            return
        try:
            while (frame := client.next_frame()) is not None:
                self._handle_frame(client, *frame, waiting)
        except (ValueError, IndexError, RecursionError, msgspec.MsgspecError) as error:
            self._reply(
                client, remote_ledger.encode_answers([EnvironmentFault(f"That is not a request: {error}")])
            )
            self._drop(client)

    def _handle_frame(
        self,
        client: FrameConnection,
        kind: bytes,
        payload: bytes,
        waiting: Askers,
    ) -> None:
        self._last_call = time.monotonic()
        if kind in (protocol.STATUS, protocol.STOP):
            self._stopping |= kind == protocol.STOP
            self._reply(client, self._status)
            return
        if kind == protocol.CALL:
            try:
                client.outgoing += protocol.pack_result(*self._call(*protocol.unpack_call(payload)))
            except LedgerReplaced:
                self._stopping = True
                return
            self._flush(client)
        elif kind == protocol.ASKS:
            waiting.append((client, remote_ledger.decode_requests(payload)))
        else:
            raise ValueError(f"kind {kind!r}")

    def _answer(self, waiting: Askers) -> None:
        """Decides every client's asks as one group; should it fail, each client's are tried on their own.

        Who asks alone is answered at once. With others waiting, the group is synced in the background and they come next.
        """
        decided = _attempt(lambda: self._ledger.decide_all([ask for _, asks in waiting for ask in asks]))
        if isinstance(decided, LedgerReplaced):
            # Its clients open the new ledger themselves.
            self._stopping = True
            return
        if isinstance(decided, Exception):
            if len(waiting) == 1:
                client, requests = waiting[0]
                fault = _as_fault(decided)
                self._reply(client, remote_ledger.encode_answers([fault] * max(len(requests), 1)))
                return
            for one in waiting:
                self._answer([one])
            return
        if decided.has_outdated_files:
            self._outdated_since = self._outdated_since or time.monotonic()
        group = DecidedGroup(waiting, decided)
        if self._sync.count or self._selector.select(0):
            self._sync.add(group)
        else:
            sync_groups(self._ledger, [group])
            self._reply_to_group(group)

    def _reply_to_group(self, group: DecidedGroup) -> None:
        answers = group.decided.answers
        start = 0
        for client, requests in group.askers:
            part: list[Answer | EnvironmentFault] = [*answers[start : start + len(requests)]]
            start += len(requests)
            self._reply(
                client, remote_ledger.encode_answers([group.fault] * len(part) if group.fault else part)
            )
        if group.fault is None:
            self._consult_about_rejections(answers)

    def _consult_about_rejections(self, answers: Sequence[Answer | EnvironmentFault]) -> None:
        """Has the user's commands asked about the rejections that were just filed."""
        for answer in answers:
            filed = answer.task.rejections.last_rejection if isinstance(answer, Acceptance) else None
            if filed is not None and isinstance(answer, Acceptance):
                names = {event.name for event in answer.events}
                if names & {"handoff.reject", "handoff.reject.invalid", "handoff.appeal"}:
                    self._consult(filed.handoff_id)

    def _reply(self, client: FrameConnection, payload: bytes) -> None:
        client.outgoing += protocol.pack(protocol.ANSWER, payload)
        self._flush(client)

    def _flush(self, client: FrameConnection) -> None:
        try:
            if client.send():
                both = selectors.EVENT_READ | selectors.EVENT_WRITE
                self._selector.modify(client.connection, both, client)
        except OSError:
            self._drop(client)

    def _drop(self, client: FrameConnection) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(client.connection)
        client.connection.close()

    def _close(self) -> None:
        for group in self._sync.finished_groups(waits=True):
            self._reply_to_group(group)
        with suppress(OSError):
            os.unlink(self._path)
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, FrameConnection):
                key.data.connection.close()
        for one in (self._listener, *self._wakeup):
            one.close()
        self._selector.close()
        os.close(self._lock)


def _listen_alone(path: str, *, takes_over: bool) -> tuple[socket.socket, int]:
    """The socket, and the lock that keeps a second coordinator of the same ledger away.

    Commands hold the lock for a moment to see whether it is free. One that the user starts, with an environment of the
    user's own, ends one that was started behind a command.
    """
    until = time.monotonic() + LOOK_SECONDS
    while (lock := acquire_lock(f"{path}.lock")) < 0:
        found = remote_ledger.ask_status(path) if takes_over else None
        if found is not None and found.ends_when_idle:
            remote_ledger.ask_status(path, stops=True)
            until, takes_over = time.monotonic() + END_SECONDS, False
        if time.monotonic() > until:
            raise EnvironmentFault("A coordinator of this ledger is already running.")
        time.sleep(0.01)
    return listen(path, BACKLOG), lock


def _installation_mark() -> tuple[int, int, int] | None:
    """Changes when Remand is installed anew; None while it is not there."""
    try:
        status = os.stat(startup.__file__)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


START_SECONDS = 60.0
END_SECONDS = 10.0
LOOK_SECONDS = 0.1
"""How long a lock may be held by those who only look whether it is free."""


def is_listening(path: str) -> bool:
    """True when somebody listens at a socket, and it is not only left over."""
    try:
        Connection(path).close()
    except CoordinatorUnavailable:
        return False
    return True


def _has_lasting_coordinator(path: str) -> bool:
    """True when one listens, busy or not, that was not started behind a command."""
    found = remote_ledger.ask_status(path)
    return is_listening(path) if found is None else not found.ends_when_idle


class CoordinatorProcess:
    """The process, as long as it is wanted. Killed with -9, a scheduler closes its end all the same."""

    def __init__(self, module: str, folder: str, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, "-C", folder, "serve", "--no-http", "--until-closed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, path: str) -> bool:
        """Waits for its socket; False when it ended first, or takes too long."""
        until = time.monotonic() + START_SECONDS
        while not _has_lasting_coordinator(path):
            if not self.is_alive or time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def close(self) -> None:
        """Lets it end, and kills it if it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class SchedulerCoordinator:
    """Sees to it that a coordinator runs as long as a scheduler does: another's, or one of its own, which ends with it."""

    def __init__(self, path: str, module: str, folder: str, environment: Mapping[str, str]) -> None:
        """Without a path, none is wanted."""
        self._path = path
        self._process = partial(CoordinatorProcess, module, folder, environment)
        self._own: CoordinatorProcess | None = None

    def ensure(self) -> None:
        """Starts one where none answers, or only one without the user's environment, in whose place it comes.

        Raises `EnvironmentFault` when none starts.
        """
        if not self._path or _has_lasting_coordinator(self._path):
            return
        self.close()
        self._own = self._process()
        if not self._own.wait_for(self._path):
            self.close()
            raise EnvironmentFault("The coordinator does not start. Try `remand serve --no-http` to see why.")

    def close(self) -> None:
        """Ends its own."""
        if self._own is not None:
            self._own.close()
            self._own = None


class ConsultationProcesses:
    """Has a process of its own ask the user's commands about each rejection, so that nobody waits for them."""

    def __init__(self, folder: str, environment: Mapping[str, str], is_wanted: Callable[[], bool]) -> None:
        """`is_wanted` says whether the policy names someone to ask."""
        self._folder = folder
        self._environment = dict(environment)
        self._is_wanted = is_wanted
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, handoff_id: str) -> None:
        """Starts asking about the last rejection of a handoff."""
        self._running = [process for process in self._running if process.poll() is None]
        if self._is_wanted():
            call = [
                "-P",
                "-m",
                "remand.interfaces.cli.entry",
                "-C",
                self._folder,
                "handoff",
                "consult",
                handoff_id,
            ]
            self._running.append(
                subprocess.Popen(
                    [sys.executable, *call],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=self._environment,
                    start_new_session=True,
                )
            )
