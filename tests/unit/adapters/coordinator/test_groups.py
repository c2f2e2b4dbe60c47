"""Groups of requests: the next one is decided while one is synced, and none is answered before its own sync."""

from __future__ import annotations

import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import ClassVar, cast

import pytest

from remand.adapters.coordinator import protocol, remote_ledger, server
from remand.adapters.coordinator.server import Coordinator, SchedulerCoordinator
from remand.adapters.system.files import acquire_lock
from remand.app.errors import EnvironmentFault
from remand.app.ledger import Ledger, UnsyncedAnswers
from remand.app.requests import Request
from remand.domain import commands as c
from remand.domain.refusals import Refused
from remand.ledger.store import LedgerHead

PATIENCE = 120.0
FRAME = protocol.pack(
    protocol.ASKS, remote_ledger._encode([Request(command=c.ClaimTask(agent="Alice"), actor="Alice")])
)


class SlowLedger:
    """Answers with a number each, and syncs when it is told to."""

    def __init__(self) -> None:
        self.decided = 0
        self.synced = 0
        self.files_made = threading.Event()
        self.is_deciding = threading.Event()
        self.may_decide = threading.Event()
        self.may_sync = threading.Event()
        self.fault: Exception | None = None
        self.files_fault: Exception | None = None
        self.due_fault: Exception | None = None

    def ask_all(self, requests: Sequence[Request]) -> list[Refused]:
        if self.due_fault:
            raise self.due_fault
        return [Refused("bad_value", "") for _ in requests]

    def decide_all(self, requests: Sequence[Request]) -> UnsyncedAnswers:
        self.is_deciding.set()
        assert self.may_decide.wait(PATIENCE)
        self.decided += 1
        head = LedgerHead(session="s", segment="s", seq=self.decided)
        answers = [Refused("bad_value", f"group {self.decided}") for _ in requests]
        return UnsyncedAnswers([*answers], head, has_outdated_files=True)

    def sync(self, head: LedgerHead) -> None:
        assert self.may_sync.wait(PATIENCE)
        if self.fault:
            raise self.fault
        self.synced = head.seq

    def update_files(self) -> None:
        self.files_made.set()
        if self.files_fault:
            raise self.files_fault


@pytest.fixture
def ledger() -> SlowLedger:
    return SlowLedger()


@pytest.fixture
def ask(ledger: SlowLedger, tmp_path: Path) -> Iterator[Callable[[], socket.socket]]:
    """Sends a request; gives the connection that the answer comes back on."""
    path = str(tmp_path / "socket")
    coordinator = Coordinator(cast(Ledger, ledger), path, lambda *_: (0, b"", b""))
    serving = threading.Thread(target=coordinator.serve)
    serving.start()
    connections: list[socket.socket] = []

    def ask() -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connections.append(connection)
        connection.settimeout(PATIENCE)
        connection.connect(path)
        connection.sendall(FRAME)
        return connection

    yield ask
    ledger.may_decide.set()
    ledger.may_sync.set()
    coordinator.stop()
    serving.join(PATIENCE)
    for connection in connections:
        connection.close()


def answer(connection: socket.socket) -> bytes:
    found = protocol.unpack(connection.recv(1 << 16))
    assert found is not None
    return found[1]


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)


def test_the_next_group_is_decided_while_one_is_synced_and_neither_is_answered_before(
    ledger: SlowLedger, ask: Callable[[], socket.socket]
) -> None:
    connections = [ask()]
    assert ledger.is_deciding.wait(PATIENCE)
    connections.append(ask())

    ledger.may_decide.set()
    wait_for(lambda: ledger.decided == 2)
    assert ledger.synced == 0
    assert wait(connections, 0.1) == []

    ledger.may_sync.set()
    assert b"group 1" in answer(connections[0])
    assert b"group 2" in answer(connections[1])


def test_a_group_that_cannot_be_synced_is_not_acknowledged(
    ledger: SlowLedger, ask: Callable[[], socket.socket]
) -> None:
    ledger.fault = EnvironmentFault("It is recorded, but not known to be on disk.")
    ledger.may_decide.set()
    ledger.may_sync.set()

    with pytest.raises(EnvironmentFault, match="not known to be on disk"):
        remote_ledger.decode_answers(answer(ask()))


def test_the_files_for_people_are_made_once_nobody_asks(
    ledger: SlowLedger, ask: Callable[[], socket.socket]
) -> None:
    ledger.may_decide.set()
    ledger.may_sync.set()

    answer(ask())

    assert ledger.files_made.wait(PATIENCE)


def test_whatever_a_sync_raises_is_a_fault_of_its_groups_and_the_next_ones_are_synced(
    ledger: SlowLedger, ask: Callable[[], socket.socket]
) -> None:
    ledger.fault = RuntimeError("a slip")
    connections = [ask()]
    assert ledger.is_deciding.wait(PATIENCE)
    connections.append(ask())
    ledger.may_decide.set()
    wait_for(lambda: ledger.decided == 2)
    ledger.may_sync.set()
    for connection in connections:
        with pytest.raises(EnvironmentFault, match="RuntimeError: a slip"):
            remote_ledger.decode_answers(answer(connection))

    ledger.fault = None
    assert b"group 3" in answer(ask())


def test_files_for_people_that_cannot_be_made_do_not_end_the_coordinator(
    ledger: SlowLedger, ask: Callable[[], socket.socket]
) -> None:
    ledger.files_fault = RuntimeError("a slip")
    ledger.may_decide.set()
    ledger.may_sync.set()
    answer(ask())
    assert ledger.files_made.wait(PATIENCE)

    assert b"group 2" in answer(ask())


@pytest.fixture
def behind(
    ledger: SlowLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[float], threading.Thread]]:
    """Runs a coordinator that was started behind a command, and may be idle for so many seconds."""
    monkeypatch.setattr(server, "HOUSEKEEPING_SECONDS", 0.01)
    started: list[tuple[Coordinator, threading.Thread]] = []

    def run(seconds: float) -> threading.Thread:
        path = str(tmp_path / "socket")
        coordinator = Coordinator(
            cast(Ledger, ledger), path, lambda *_: (0, b"", b""), max_idle_seconds=seconds
        )
        serving = threading.Thread(target=coordinator.serve)
        started.append((coordinator, serving))
        serving.start()
        return serving

    yield run
    for coordinator, serving in started:
        coordinator.stop()
        serving.join(PATIENCE)


def test_one_behind_a_command_ends_when_nobody_calls(
    behind: Callable[[float], threading.Thread], tmp_path: Path
) -> None:
    serving = behind(0.05)

    serving.join(PATIENCE)
    assert not serving.is_alive()
    assert not (tmp_path / "socket").exists()


def test_one_behind_a_command_ends_when_another_version_is_installed(
    behind: Callable[[float], threading.Thread], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = behind(3600.0)
    assert remote_ledger.ask_status(str(tmp_path / "socket"))

    monkeypatch.setattr(server, "_installation_mark", lambda: None)
    serving.join(PATIENCE)
    assert not serving.is_alive()


def test_one_behind_a_command_ends_when_its_ledger_cannot_be_used_any_more(
    behind: Callable[[float], threading.Thread], ledger: SlowLedger
) -> None:
    ledger.due_fault = EnvironmentFault("The ledger is gone.")
    serving = behind(3600.0)

    serving.join(PATIENCE)
    assert not serving.is_alive()


def test_who_is_asked_to_stop_says_who_it_is_answers_what_came_before_and_ends(
    behind: Callable[[float], threading.Thread], ledger: SlowLedger, tmp_path: Path
) -> None:
    serving, path = behind(3600.0), str(tmp_path / "socket")
    ledger.may_decide.set()
    ledger.may_sync.set()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(path)
        connection.sendall(FRAME + protocol.pack(protocol.STOP, b""))
        received = b""
        while part := connection.recv(1 << 16):
            received += part

    assert b"group 1" in received
    assert f'"pid":{os.getpid()}'.encode() in received
    serving.join(PATIENCE)
    assert not serving.is_alive()
    assert remote_ledger.ask_status(path) is None


def test_one_starts_once_the_one_before_that_no_longer_listens_has_released_the_lock(
    ledger: SlowLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "socket")
    held = [acquire_lock(f"{path}.lock")]

    def is_listening(_: str) -> bool:
        os.close(held.pop())
        return False

    monkeypatch.setattr(server, "is_listening", is_listening)

    coordinator = Coordinator(cast(Ledger, ledger), path, lambda *_: (0, b"", b""))
    coordinator.stop()
    coordinator.serve()
    assert held == []


def test_a_client_that_leaves_in_the_midst_of_its_answer_does_not_end_the_coordinator(
    ledger: SlowLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The selector reports that the client can be written to, and then the client leaves."""
    path = str(tmp_path / "socket")
    coordinator = Coordinator(cast(Ledger, ledger), path, lambda *_: (0, b"x" * (1 << 24), b""))
    select, leaving = selectors.DefaultSelector.select, threading.Event()
    client = socket.socket(socket.AF_UNIX)

    def select_then_leave(
        selector: selectors.BaseSelector, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        found = select(selector, timeout)
        if any(mask == selectors.EVENT_WRITE for _, mask in found):
            client.close()
            leaving.set()
        return found

    monkeypatch.setattr(selectors.DefaultSelector, "select", select_then_leave)
    serving = threading.Thread(target=coordinator.serve)
    serving.start()
    client.settimeout(PATIENCE)
    client.connect(path)
    client.sendall(protocol.pack_call("/", [""] * 7, ["task", "list"]))
    while not leaving.wait(0.01):
        with suppress(OSError):
            client.recv(1 << 16)

    assert remote_ledger.ask_status(path)
    coordinator.stop()
    serving.join(PATIENCE)


class StartedProcess:
    """A coordinator's process that listens at once, or never."""

    started: ClassVar[list[StartedProcess]] = []
    listens = True

    def __init__(self, *_: object) -> None:
        self.is_closed = False
        self.started.append(self)

    def wait_for(self, _: str) -> bool:
        return self.listens

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], SchedulerCoordinator]:
    """Makes what sees to it that a coordinator runs beside a scheduler."""
    monkeypatch.setattr(server, "CoordinatorProcess", StartedProcess)
    monkeypatch.setattr(StartedProcess, "started", [])
    return lambda path: SchedulerCoordinator(path, "module", "/", {})


def test_a_scheduler_starts_its_own_in_place_of_one_behind_a_command(
    scheduler: Callable[[str], SchedulerCoordinator],
    behind: Callable[[float], threading.Thread],
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "socket")
    serving = behind(3600.0)
    scheduler(path).ensure()

    assert len(StartedProcess.started) == 1
    assert remote_ledger.ask_status(path, stops=True)
    serving.join(PATIENCE)


def test_a_scheduler_uses_the_coordinator_that_is_there_and_starts_its_own_once_that_has_ended(
    scheduler: Callable[[str], SchedulerCoordinator],
    behind: Callable[[float], threading.Thread],
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "socket")
    serving, found = behind(0.0), scheduler(path)
    found.ensure()
    assert StartedProcess.started == []

    assert remote_ledger.ask_status(path, stops=True)
    serving.join(PATIENCE)
    found.ensure()
    (own,) = StartedProcess.started
    found.close()
    assert own.is_closed


def test_a_scheduler_that_wants_none_starts_none_and_one_that_does_not_start_is_said(
    scheduler: Callable[[str], SchedulerCoordinator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler("").ensure()
    assert StartedProcess.started == []

    monkeypatch.setattr(StartedProcess, "listens", False)
    with pytest.raises(EnvironmentFault, match="does not start"):
        scheduler(str(tmp_path / "nowhere")).ensure()
    assert StartedProcess.started[0].is_closed
