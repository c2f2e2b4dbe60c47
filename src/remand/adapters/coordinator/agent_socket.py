"""Agent sockets, one per run, and the processes that run agents' calls and done claims. One thread listens on all sockets."""

from __future__ import annotations

import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import BinaryIO

import msgspec

from remand.adapters.coordinator import protocol
from remand.adapters.coordinator.server import FrameConnection, accept, listen
from remand.adapters.system.files import acquire_lock
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.ports import (
    AgentCall,
    AgentCaller,
    CallHandler,
    CallResult,
    CannotRun,
    ClaimAnswer,
    TaskWorktree,
)

TOO_LONG: CallResult = (
    3,
    b"",
    b"remand: the answer is too long to be passed through the agent socket. Ask for less of it.\n",
)


def read_call(stream: BinaryIO) -> tuple[str, list[str], list[str], bytes]:
    """Reads the call that was passed to this process: folder, settings, arguments and attached input."""
    found = protocol.unpack(stream.read())
    if found is None:
        raise EnvironmentFault("Only a scheduler runs this.")
    return protocol.unpack_call_with_input(*found[:2])


class AgentConnection(FrameConnection):
    """One connection to an agent socket; it may send several calls, one after another."""

    def __init__(self, agent_socket: AgentSocket, connection: socket.socket, now: float) -> None:
        super().__init__(connection)
        self.agent_socket = agent_socket
        self.is_waiting = False
        """True while one of its calls is queued or running."""
        self.is_gone = False
        self.since = now
        """When the client began to send its call or to receive the answer."""

    def next_call(self, now: float) -> AgentCall | None:
        """The next call once it is complete, otherwise None. Raises ValueError or IndexError if the data is not a call."""
        frame = self.next_frame()
        return (
            AgentCall(self.agent_socket.caller, now, *protocol.unpack_call_with_input(*frame))
            if frame
            else None
        )

    def queue_answer(self, answer: CallResult, now: float) -> None:
        code, output, errors = answer
        if len(output) + len(errors) > protocol.MAX_FRAME - 64:
            code, output, errors = TOO_LONG
        self.outgoing += protocol.pack_result(code & 0xFF, output, errors)
        self.is_waiting, self.since = False, now


class AgentSocket:
    """The socket of a run with its connections and calls."""

    def __init__(self, caller: AgentCaller, path: str, listener: socket.socket) -> None:
        self.caller = caller
        self.path = path
        self.listener = listener
        self.connections: set[AgentConnection] = set()
        self.waiting: dict[bool, deque[tuple[AgentConnection, AgentCall]]] = {False: deque(), True: deque()}
        """Queued calls: short ones under False, long ones under True."""
        self.running: dict[bool, int] = {False: 0, True: 0}
        """The number of running calls, short and long."""
        self.measured_since = 0.0
        """When the running long call started; 0 if none is running."""
        self.measured_seconds = 0.0
        """The total duration of all finished long calls."""
        self.sorted = 0
        """The number of received calls not yet classified as short or long."""
        self.is_listening = False
        self.closes_at = 0.0
        """When the calls still running are abandoned; 0 while the agent socket is open."""

    @property
    def is_busy(self) -> bool:
        return bool(self.sorted) or any(self.running.values()) or any(self.waiting.values())

    @property
    def buffered_bytes(self) -> int:
        """The number of buffered bytes of incomplete calls."""
        return sum(len(client.incoming) for client in self.connections)


ENDED: CallResult = (3, b"", b"remand: this was ended, as the run it belongs to is over.\n")


class ChildProcesses:
    """Runs commands in child processes by group, each in a session of its own, so that it is killed with its descendants."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._processes: dict[str, set[subprocess.Popen[bytes]]] = {}
        self._ended: set[str] = set()
        self._lock = threading.Lock()

    def run(
        self,
        group: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        seconds: float,
        given: bytes = b"",
    ) -> subprocess.CompletedProcess[bytes] | None:
        """Runs a command to completion; None if its group has ended. Kills it after `seconds`, and raises `TimeoutExpired`."""
        with self._lock:
            if group in self._ended:
                return None
            own = self._processes.setdefault(group, set())
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._folder,
                env=dict(environment),
                start_new_session=True,
            )
            own.add(process)
        with process:
            try:
                output, errors = process.communicate(given, seconds)
            except subprocess.TimeoutExpired:
                _kill(process)
                raise
            finally:
                with self._lock:
                    own.discard(process)
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def end(self, group: str) -> None:
        """Kills all processes of a group and refuses new ones."""
        with self._lock:
            self._ended.add(group)
            for process in self._processes.pop(group, set()):
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class CommandProcesses:
    """Runs calls in child processes, grouped by run. An agent cannot choose the program, its folder or its environment.

    A call is passed on standard input because Linux limits a single argument to 128 KiB. `-P` keeps the working folder
    out of the module search path.
    """

    def __init__(self, module: str, folder: str, environment: Mapping[str, str]) -> None:
        self._command = [sys.executable, "-P", "-m", module]
        self._environment = dict(environment)
        self._children = ChildProcesses(folder)
        self.end = self._children.end
        """Kills all processes of a run and refuses new ones."""

    def run(self, run_id: str, frame: bytes, seconds: float) -> CallResult:
        """Runs a call to completion and kills it after `seconds`."""
        try:
            done = self._children.run(run_id, self._command, self._environment, seconds, frame)
        except subprocess.TimeoutExpired:
            return 3, b"", f"remand: this took longer than {seconds:.0f} s and was ended.\n".encode()
        if done is None or done.returncode < 0:
            return ENDED
        return done.returncode, done.stdout, done.stderr


CLAIM_SECONDS = 6 * 3600.0
_MAX_CLAIM_TEXT = 2000
_REFUSED = 1
_decode = msgspec.json.Decoder(dict).decode
BOUND = """
import ctypes, os, runpy, sys
libc = ctypes.CDLL(None)
if hasattr(libc, "prctl"):
    libc.prctl(1, ctypes.c_ulong(9))
if os.getppid() == int(sys.argv[1]):
    del sys.argv[:2]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Runs a module in a process that is killed when its parent dies for any reason, where the system supports that."""


class CommandClaims:
    """Calls `remand task submit` as the agent, without anything from the agent's environment.

    It runs in the repository itself: the agent can write to its worktree, including `.git` and `.got`, and could
    thereby choose the repository, the ledger and the rules.
    """

    def __init__(self, module: str, root: str, environment: Mapping[str, str]) -> None:
        self._module = module
        self._root = root
        self._environment = dict(environment)
        self._children = ChildProcesses(root)

    def submit(self, worktree: TaskWorktree, agent: str, commit: str) -> ClaimAnswer:
        """Claims that a task is done at a commit."""
        command = (
            *(sys.executable, "-P", "-c", BOUND, str(os.getpid()), self._module, "--json"),
            *("-C", self._root),
            *("task", "submit", worktree.task_id, f"--agent={agent}", f"--commit={commit}"),
            f"--branch={worktree.branch}",
        )
        identity = {"REMAND_TASK": worktree.task_id, "REMAND_ACTOR": agent}
        try:
            done = self._children.run("", command, self._environment | identity, CLAIM_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotRun("gates", f"The gates could not run: {error}") from None
        if done is None:
            raise CannotRun("gates", "The scheduler is stopping, so no more gates run.")
        return _parse_answer(done)

    def close(self) -> None:
        """Kills the running claims and refuses further ones."""
        self._children.end("")


def _parse_answer(ended: subprocess.CompletedProcess[bytes]) -> ClaimAnswer:
    if ended.returncode == 0:
        return ClaimAnswer()
    said = ended.stderr.decode("utf-8", "replace").strip()[-_MAX_CLAIM_TEXT:]
    if ended.returncode == _REFUSED:
        with suppress(msgspec.MsgspecError):
            told = _decode(ended.stdout)
            return ClaimAnswer(str(told.get("refused") or "refused"), str(told.get("message") or said))
    raise CannotRun("gates", f"A done claim could not be measured: {said or f'exit {ended.returncode}'}")


MAX_PATH = 100
"""Socket paths are limited to 107 bytes by the system."""
MAX_CONNECTIONS = 12
"""The most connections per agent socket; further clients wait in the backlog until one disconnects."""
MAX_BUFFERED = 16 << 20
"""The most bytes of incomplete calls that one agent socket buffers."""
BACKLOG = 64
AT_ONCE = {False: 4, True: 1}
"""The number of calls that one agent socket runs at once, short and long."""
SHORT_WORKERS = 8
LONG_WORKERS = 256
PATIENCE = 15.0
"""The seconds a client may take to send a call, and to receive the answer."""
GRACE = 120.0
"""The seconds that running calls may continue after their agent socket was closed."""
LOOK_SECONDS = 0.25
FAILED = "remand: the scheduler could not do this: {}: {}\n"


class AgentSocketListener:
    """The agent sockets of a scheduler. No socket sees another's calls or delays them."""

    def __init__(
        self, folder: str, answering: CallHandler, *, patience: float = PATIENCE, grace: float = GRACE
    ) -> None:
        self._folder = folder
        self._answering = answering
        self._patience = patience
        self._grace = grace
        self._by_run: dict[str, AgentSocket] = {}
        self._all: set[AgentSocket] = set()
        self._selector = selectors.DefaultSelector()
        self._jobs: deque[Callable[[], None]] = deque()
        self._wakeup = socket.socketpair()
        for end in self._wakeup:
            end.setblocking(False)
        self._selector.register(self._wakeup[0], selectors.EVENT_READ, None)
        self._workers = {
            is_long: ThreadPoolExecutor(size, thread_name_prefix="agent-socket")
            for is_long, size in ((False, SHORT_WORKERS), (True, LONG_WORKERS))
        }
        self._sorting = ThreadPoolExecutor(1, thread_name_prefix="agent-socket-sorting")
        self._is_ending = False
        self._are_shut = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="agent-sockets", daemon=True)
        self._thread.start()

    def open(self, run_id: str, agent: str, task_id: str, worktree: TaskWorktree) -> str:
        if run_id in self._by_run or self._is_ending:
            raise CannotRun(
                "socket", f"The run {run_id} already has an agent socket, or the scheduler is stopping."
            )
        path = os.path.join(self._folder, _file_name(run_id, self._folder))
        try:
            listener = listen(path, BACKLOG)
        except OSError as error:
            raise CannotRun("socket", f"The socket {path} cannot be made: {error}.") from None
        agent_socket = AgentSocket(AgentCaller(run_id, agent, task_id, worktree), path, listener)
        self._by_run[run_id] = agent_socket
        self._run_in_loop(partial(self._add_socket, agent_socket))
        return path

    def close(self, run_id: str) -> None:
        """Closes the socket of a run. Calls in progress may finish within the grace period."""
        agent_socket = self._by_run.pop(run_id, None)
        if agent_socket is not None:
            with suppress(OSError):
                os.unlink(agent_socket.path)
            self._run_in_loop(partial(self._close_socket, agent_socket))

    def gate_seconds(self, run_id: str) -> float:
        agent_socket = self._by_run.get(run_id)
        if agent_socket is None:
            return 0.0
        # Read before the sum: a call that ends in between is counted twice this once, but never missed.
        since = agent_socket.measured_since
        return agent_socket.measured_seconds + (time.monotonic() - since if since else 0.0)

    def end(self, seconds: float = 10.0) -> None:
        """Closes every agent socket, and kills calls that are still running after `seconds`."""
        for run_id in list(self._by_run):
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
        """Schedules a job in the loop's thread, the only one that touches sockets."""
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
                for agent_socket in list(self._all):
                    self._check_socket(agent_socket)
                next_look = time.monotonic() + LOOK_SECONDS
        self._selector.close()
        for end in self._wakeup:
            end.close()
        self._are_shut.set()

    @property
    def _needs_checks(self) -> bool:
        return any(
            agent_socket.connections or agent_socket.closes_at or not agent_socket.is_listening
            for agent_socket in self._all
        )

    def _add_socket(self, agent_socket: AgentSocket) -> None:
        self._all.add(agent_socket)
        self._set_listening(agent_socket)

    def _set_listening(self, agent_socket: AgentSocket, *, is_wanted: bool = True) -> None:
        if is_wanted == agent_socket.is_listening:
            return
        if is_wanted:
            self._selector.register(agent_socket.listener, selectors.EVENT_READ, agent_socket)
        else:
            self._selector.unregister(agent_socket.listener)
        agent_socket.is_listening = is_wanted

    def _accept(self, agent_socket: AgentSocket) -> None:
        """Accepts connections up to the limit. Above it, or when out of descriptors, clients wait in the backlog."""
        while len(agent_socket.connections) < MAX_CONNECTIONS:
            try:
                connection = accept(agent_socket.listener)
            except BlockingIOError:
                return
            except OSError:
                break
            if connection is None:
                continue
            client = AgentConnection(agent_socket, connection, time.monotonic())
            agent_socket.connections.add(client)
            self._selector.register(connection, selectors.EVENT_READ, client)
        self._set_listening(agent_socket, is_wanted=False)

    def _read(self, client: AgentConnection) -> None:
        if not client.receive() or client.agent_socket.buffered_bytes > MAX_BUFFERED:
            self._disconnect(client)
        else:
            self._read_call(client)

    def _read_call(self, client: AgentConnection) -> None:
        """Reads the client's next call if it is complete. Disconnects a client that sends an invalid call."""
        try:
            call = client.next_call(time.monotonic())
        except (ValueError, IndexError):
            self._disconnect(client)
            return
        if call is None:
            return
        self._selector.unregister(client.connection)
        client.is_waiting = True
        client.agent_socket.sorted += 1
        sorting = self._sorting.submit(self._answering.is_long, call)
        sorting.add_done_callback(
            lambda done: self._run_in_loop(partial(self._queue_call, client, call, done))
        )

    def _queue_call(self, client: AgentConnection, call: AgentCall, done: Future[bool]) -> None:
        """Queues a call as short or long. The loop does not parse calls itself."""
        client.agent_socket.sorted -= 1
        if client.is_gone:
            return
        is_long = done.exception() is None and done.result()
        client.agent_socket.waiting[is_long].append((client, call))
        self._start_next_calls(client.agent_socket, is_long)

    def _start_next_calls(self, agent_socket: AgentSocket, is_long: bool) -> None:
        """Starts queued calls, as many as the socket may run at once."""
        while agent_socket.waiting[is_long] and agent_socket.running[is_long] < AT_ONCE[is_long]:
            client, call = agent_socket.waiting[is_long].popleft()
            agent_socket.running[is_long] += 1
            if is_long:
                agent_socket.measured_since = time.monotonic()
            future = self._workers[is_long].submit(self._answering.answer, call)
            future.add_done_callback(partial(self._report_answer, client, is_long))

    def _report_answer(self, client: AgentConnection, is_long: bool, done: Future[CallResult]) -> None:
        """Called by the worker thread that has run the call."""
        self._run_in_loop(partial(self._send_answer, client, is_long, done))

    def _send_answer(self, client: AgentConnection, is_long: bool, done: Future[CallResult]) -> None:
        agent_socket = client.agent_socket
        agent_socket.running[is_long] -= 1
        if is_long:
            agent_socket.measured_seconds += time.monotonic() - agent_socket.measured_since
            agent_socket.measured_since = 0.0
        self._start_next_calls(agent_socket, is_long)
        if client.is_gone:
            return
        error = done.exception()
        failure = FAILED.format(type(error).__name__, error).encode("utf-8", "replace")
        client.queue_answer(done.result() if error is None else (3, b"", failure), time.monotonic())
        self._selector.register(client.connection, selectors.EVENT_WRITE, client)
        self._flush(client)

    def _flush(self, client: AgentConnection) -> None:
        try:
            if client.send():
                return
        except OSError:
            self._disconnect(client)
            return
        if client.agent_socket.closes_at:
            self._disconnect(client)
            return
        client.since = time.monotonic()
        self._selector.modify(client.connection, selectors.EVENT_READ, client)
        self._read_call(client)

    def _disconnect(self, client: AgentConnection) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(client.connection)
        client.connection.close()
        client.is_gone = True
        client.agent_socket.connections.discard(client)
        if not client.agent_socket.closes_at:
            self._set_listening(client.agent_socket)

    def _close_socket(self, agent_socket: AgentSocket) -> None:
        """Closes an agent socket and disconnects every client that is not waiting for an answer."""
        agent_socket.closes_at = time.monotonic() + self._grace
        self._set_listening(agent_socket, is_wanted=False)
        agent_socket.listener.close()
        for client in [one for one in agent_socket.connections if not one.is_waiting and not one.outgoing]:
            self._disconnect(client)
        self._check_socket(agent_socket)

    def _check_socket(self, agent_socket: AgentSocket) -> None:
        """Disconnects slow clients, resumes accepting, and removes a closed socket once it is idle or its time is up."""
        now = time.monotonic()
        for client in [one for one in agent_socket.connections if not one.is_waiting]:
            if now - client.since > self._patience:
                self._disconnect(client)
        if not agent_socket.closes_at:
            self._set_listening(agent_socket, is_wanted=len(agent_socket.connections) < MAX_CONNECTIONS)
        elif now > agent_socket.closes_at or not (agent_socket.is_busy or agent_socket.connections):
            self._remove_socket(agent_socket)

    def _remove_socket(self, agent_socket: AgentSocket) -> None:
        self._all.discard(agent_socket)
        for client in list(agent_socket.connections):
            self._disconnect(client)
        for waiting in agent_socket.waiting.values():
            waiting.clear()
        self._answering.leave(agent_socket.caller)

    def _remove_all_sockets(self) -> None:
        for agent_socket in list(self._all):
            self._remove_socket(agent_socket)


def _file_name(run_id: str, folder: str) -> str:
    """A run's id if it can be a file name, otherwise a name derived from it."""
    is_plain = run_id.isascii() and run_id.replace("-", "").isalnum()
    fits = len(os.fsencode(folder)) + len(run_id) + 6 <= MAX_PATH
    return f"{run_id if is_plain and fits else sha256(run_id.encode()).hexdigest()[:16]}.sock"


MAX_DESCRIPTORS = 4096
"""The descriptors that a scheduler with 200 agent sockets needs if all of them are flooded with connections."""


def prepare_socket_folder(folder: str) -> None:
    """Creates the folder and removes stale sockets, unless another scheduler that uses the folder is running."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    # The lock, and its descriptor, are held for the lifetime of this process.
    if acquire_lock(os.path.join(folder, "lock")) < 0:
        return
    for name in os.listdir(folder):
        if name.endswith(".sock"):
            with suppress(OSError):
                os.unlink(os.path.join(folder, name))


def open_agent_sockets(sockets: str, ledger_id: str, handler: CallHandler) -> AgentSocketListener:
    """Opens agent sockets in a folder, below that of all sockets, that only the schedulers of one ledger use."""
    folder = os.path.join(sockets, f"agents-{sha256(ledger_id.encode()).hexdigest()[:8]}")
    prepare_socket_folder(folder)
    allow_descriptors()
    return AgentSocketListener(folder, handler)


def allow_descriptors() -> None:
    """Raises the limit on open files to what many agent sockets need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MAX_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
