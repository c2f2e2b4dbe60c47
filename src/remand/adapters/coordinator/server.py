"""The coordinator: a resident process that answers requests in groups, each made durable by one sync, and how a scheduler starts one as its child."""

from __future__ import annotations

import gc
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
from remand.adapters.system.files import claim_lock
from remand.app.errors import EnvironmentFault, LedgerReplaced
from remand.app.ledger import Ledger, UnsyncedAnswers
from remand.app.requests import Acceptance, Answer, Request
from remand.ledger.problems import BadLine
from remand.startup import COMMAND_LINE


class FrameConnection:
    """One connection with its input and output buffers."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.incoming = bytearray()
        self.outgoing = bytearray()

    def receive(self) -> bool:
        """Reads the available data; False if the client has disconnected."""
        try:
            part = self.connection.recv(1 << 18)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.incoming += part
        return bool(part)

    def next_frame(self) -> tuple[bytes, bytes] | None:
        """Kind and payload of the next frame once it is complete, otherwise None. Raises ValueError if the data is no frame."""
        found = protocol.unpack(self.incoming)
        if found is None:
            return None
        kind, payload, taken = found
        del self.incoming[:taken]
        return kind, payload

    def send(self) -> bool:
        """Sends what can be sent without blocking; True if something is left. Raises OSError if the client is gone."""
        with suppress(BlockingIOError):
            while self.outgoing:
                del self.outgoing[: self.connection.send(self.outgoing)]
        return bool(self.outgoing)


def listen(path: str, backlog: int) -> socket.socket:
    """Opens a socket that only this user can access, replacing a stale one. Raises OSError."""
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
    """The next connection if it comes from this user or root; None if from another user. Raises OSError if there is none."""
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
"""The idle seconds after which generated files are updated."""
MAX_OUTDATED_SECONDS = 2.0
"""The most seconds that generated files stay outdated under constant load."""

CommandLineCall = Callable[[str, list[str], list[str]], tuple[int, bytes, bytes]]
"""Runs a forwarded command line: folder, settings and arguments in; exit code, output and errors out."""


Result = TypeVar("Result")
Askers = list[tuple[FrameConnection, list[Request]]]


class DecidedGroup:
    """Requests that were decided as one group, and the error of the sync that their answers wait for, if any."""

    def __init__(self, askers: Askers, decided: UnsyncedAnswers) -> None:
        self.askers = askers
        self.decided = decided
        self.fault: EnvironmentFault | None = None


class GroupSync:
    """Syncs groups in its own thread while the next group is decided. One sync covers all groups that wait."""

    def __init__(self, ledger: Ledger, wake: Callable[[], None]) -> None:
        self._ledger = ledger
        self._wake = wake
        self._waiting: SimpleQueue[DecidedGroup] = SimpleQueue()
        self._finished: SimpleQueue[DecidedGroup] = SimpleQueue()
        self.count = 0
        """The number of groups added but not yet returned by `finished_groups`."""
        self._thread: threading.Thread | None = None

    def add(self, group: DecidedGroup) -> None:
        """Queues a group for syncing; `wake` is called when it is done."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self.count += 1
        self._waiting.put(group)

    def finished_groups(self, *, waits: bool = False) -> Iterator[DecidedGroup]:
        """The groups that have been synced, in order; with `waits`, waits for all that were added."""
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
    """Syncs what the groups have written, each event file once; on failure sets the fault of every group."""
    heads = {group.decided.head.segment: group.decided.head for group in groups if group.decided.head}
    for head in heads.values():
        error = _attempt(partial(ledger.sync, head))
        if error is not None:
            for group in groups:
                group.fault = _as_fault(error)
            return


def _attempt(action: Callable[[], Result]) -> Result | Exception:
    """The result or the exception of an action: an error of some clients' requests must not stop the coordinator for all."""
    try:
        return action()
    except Exception as error:  # noqa: BLE001 - without it, a slip ends the loop or the thread that all clients wait for
        return error


def _as_fault(error: Exception) -> EnvironmentFault:
    """The fault that a client receives for an exception."""
    is_known = isinstance(error, EnvironmentFault | BadLine | OSError)
    return EnvironmentFault(str(error) if is_known else f"{type(error).__name__}: {error}")


class Coordinator:
    """Owns the socket of a ledger. If it is killed at any moment, the next writer repairs what it left behind."""

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
        """With `max_idle_seconds`, it ends after that time without calls, and when another version is installed."""
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
        """Since when generated files have been outdated; 0 if they are up to date."""

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
        gc.freeze()  # a collection need not look at the modules, which stay
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
        """True once it should end: a background coordinator that is idle for too long or whose installation has changed.

        This process has loaded only some of its modules, and must not load the others from another version.
        """
        if self._max_idle_seconds:
            is_idle = time.monotonic() - self._last_call >= self._max_idle_seconds
            self._stopping |= is_idle or _installation_mark() != self._installation
        return self._stopping

    def _update_files(self, *, is_idle: bool) -> None:
        """Updates generated files when no client is waiting, or when they have been outdated for too long."""
        since, now = self._outdated_since, time.monotonic()
        if since and not self._sync.count and (is_idle or now - since > MAX_OUTDATED_SECONDS):
            self._outdated_since = 0.0
            # If this fails, they stay outdated until the next change.
            if isinstance(_attempt(self._ledger.update_files), LedgerReplaced):
                self._stopping = True

    def _apply_due(self) -> None:
        """Applies what is due even if no client sends a request."""
        try:
            self._ledger.ask_all([])
            self._look_after()
        except LedgerReplaced:
            self._stopping = True
        except (EnvironmentFault, BadLine, OSError):
            # The next client gets the error. The ledger may be gone for good, and a coordinator that a command started
            # would never be stopped.
            self._stopping |= bool(self._max_idle_seconds)

    def _serve_ready(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        """One iteration: accept, read, decide all pending requests as one group, send."""
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
                else:
                    self._flush(key.data)
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
        """Decides all clients' requests as one group; if that fails, each client's requests on their own.

        A single client is answered at once. If others are waiting, the group is synced in the background and they come next.
        """
        self._ledger.syncs_early = len(waiting) == 1 and not self._sync.count
        decided = _attempt(lambda: self._ledger.decide_all([ask for _, asks in waiting for ask in asks]))
        if isinstance(decided, LedgerReplaced):
            # Its clients reopen the new ledger themselves.
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
        """Starts the user's consultation commands for the rejections that were just recorded."""
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
            is_left = client.send()
        except OSError:
            self._drop(client)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if is_left else 0)
        if self._selector.get_key(client.connection).events != events:
            self._selector.modify(client.connection, events, client)

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
    """The listening socket, and the lock that excludes a second coordinator of the same ledger.

    One that holds the lock but does not listen is ending. A coordinator that the user starts, with the user's own
    environment, replaces one that a command started.
    """
    until, is_ending = time.monotonic() + END_SECONDS, False
    while (lock := claim_lock(f"{path}.lock")) < 0:
        found = remote_ledger.ask_status(path) if takes_over and not is_ending else None
        if found is not None and found.ends_when_idle:
            remote_ledger.ask_status(path, stops=True)
            until, is_ending = time.monotonic() + END_SECONDS, True
        elif time.monotonic() > until or (not is_ending and is_listening(path)):
            raise EnvironmentFault("A coordinator of this ledger is already running.")
        time.sleep(0.01)
    return listen(path, BACKLOG), lock


def _installation_mark() -> tuple[int, int, int] | None:
    """A value that changes when Remand is reinstalled; None while the installation is missing."""
    try:
        status = os.stat(startup.__file__)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


START_SECONDS = 60.0
END_SECONDS = 10.0


def is_listening(path: str) -> bool:
    """True if a process listens on the socket; False if it is stale."""
    try:
        Connection(path).close()
    except CoordinatorUnavailable:
        return False
    return True


def _has_lasting_coordinator(path: str) -> bool:
    """True if a coordinator listens, busy or not, that no command started."""
    found = remote_ledger.ask_status(path)
    return is_listening(path) if found is None else not found.ends_when_idle


class CoordinatorProcess:
    """A coordinator as a child process. Its standard input closes when the scheduler dies, even by SIGKILL, and it ends."""

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
        """Waits for its socket; False if the process ends first or takes too long."""
        until = time.monotonic() + START_SECONDS
        while not _has_lasting_coordinator(path):
            if not self.is_alive or time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    def close(self) -> None:
        """Stops it, and kills it if it does not end in time."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class SchedulerCoordinator:
    """Keeps a coordinator running while a scheduler does: an existing one, or its own child, which it stops at the end."""

    def __init__(self, path: str, module: str, folder: str, environment: Mapping[str, str] | None) -> None:
        """Without an environment for its own child, no coordinator is used."""
        self._path = path if environment is not None else ""
        self._process = partial(CoordinatorProcess, module, folder, environment or {})
        self._own: CoordinatorProcess | None = None

    def ensure(self) -> None:
        """Starts a coordinator if none answers, or replaces one that lacks the user's environment.

        Raises `EnvironmentFault` if none starts.
        """
        if not self._path or _has_lasting_coordinator(self._path):
            return
        self.close()
        self._own = self._process()
        if not self._own.wait_for(self._path):
            self.close()
            raise EnvironmentFault("The coordinator does not start. Try `remand serve --no-http` to see why.")

    def close(self) -> None:
        """Stops its own coordinator."""
        if self._own is not None:
            self._own.close()
            self._own = None


class ConsultationProcesses:
    """Consults the user's commands about each rejection in a separate process, so that no client waits for them."""

    def __init__(self, folder: str, environment: Mapping[str, str], is_wanted: Callable[[], bool]) -> None:
        """`is_wanted` tells whether the policy names someone to consult."""
        self._folder = folder
        self._environment = dict(environment)
        self._is_wanted = is_wanted
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, handoff_id: str) -> None:
        """Starts a consultation about the last rejection of a handoff."""
        self._running = [process for process in self._running if process.poll() is None]
        if self._is_wanted():
            self._running.append(
                subprocess.Popen(
                    [*COMMAND_LINE, "-C", self._folder, "handoff", "consult", handoff_id],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=self._environment,
                    start_new_session=True,
                )
            )
