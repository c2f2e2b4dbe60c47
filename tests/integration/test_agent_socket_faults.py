"""Doors under fire: whatever is done at one of them, the others are answered."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from remand.adapters.coordinator import agent_socket as module
from remand.adapters.coordinator import protocol
from remand.adapters.coordinator.agent_socket import AgentSocketListener
from remand.app.scheduler.ports import AgentCall, AgentCaller, CallResult, CannotRun, TaskWorktree
from remand.wiring.startup import CoordinatorUnavailable, forward_call
from tests.integration.machine import PATIENCE, wait_for

WORKTREE = TaskWorktree(task_id="T", folder="/w", branch="b", common_dir="/r/.git")


class Answers:
    """Says who asked what. What is to be slow waits until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun: list[str] = []
        self.left: list[str] = []

    def is_long(self, asked: AgentCall) -> bool:
        return asked.arguments[0] == "long"

    def answer(self, asked: AgentCall) -> CallResult:
        self.begun.append(asked.caller.run_id)
        if asked.arguments[0] in ("long", "slow"):
            assert self.go.wait(PATIENCE)
        if asked.arguments[0] == "fail":
            raise RuntimeError("as it was told to")
        if asked.arguments[0] == "much":
            return 0, b"x" * int(asked.arguments[1]), b""
        return len(asked.arguments), f"{asked.caller.agent} {asked.caller.task_id}".encode(), asked.given

    def leave(self, caller: AgentCaller) -> None:
        self.left.append(caller.run_id)
        if caller.run_id in self.begun:
            self.go.set()


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def sockets(answers: Answers, tmp_path: Path) -> Iterator[AgentSocketListener]:
    with short_folder(tmp_path) as folder:
        made = AgentSocketListener(folder, answers, patience=PATIENCE, grace=PATIENCE)
        yield made
        answers.go.set()
        made.end(5)


class short_folder:  # noqa: N801 - a way to write a `with`
    """A path that is short enough for sockets, wherever the test's own folder is."""

    def __init__(self, folder: Path) -> None:
        self._link = f"/tmp/rmd-{os.getpid()}-{os.urandom(4).hex()}"
        os.symlink(folder, self._link)

    def __enter__(self) -> str:
        return self._link

    def __exit__(self, *_: object) -> None:
        os.unlink(self._link)


def opened(sockets: AgentSocketListener, name: str = "A") -> str:
    return sockets.open(f"R-{name}", name, f"T-{name}", WORKTREE)


def said(path: str, *arguments: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
    return forward_call(
        path, "/elsewhere", ["Mallory", "T-0"], list(arguments), given=given, patience=PATIENCE
    )


def connected(path: str) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)  # without a time limit: with one, it does not wait until there is room
    client.settimeout(PATIENCE)
    return client


def is_dropped(client: socket.socket) -> bool:
    """True when the other side has closed without a word."""
    with suppress(ConnectionResetError):
        return client.recv(100) == b""
    return True


def test_who_speaks_is_settled_by_the_socket(sockets: AgentSocketListener) -> None:
    one, two = opened(sockets, "A"), opened(sockets, "B")
    assert said(one, "x", "y", given=b"\0payload") == (2, b"A T-A", b"\0payload")
    assert said(two, "x")[1] == b"B T-B"


def test_how_long_calls_are_measured_is_known_for_each_run(
    sockets: AgentSocketListener, answers: Answers
) -> None:
    path = opened(sockets, "A")
    opened(sockets, "B")
    said(path, "short")
    assert sockets.gate_seconds("R-A") == 0.0
    asking = threading.Thread(target=said, args=(path, "long"))
    asking.start()
    wait_for(lambda: sockets.gate_seconds("R-A") > 0.01, "the call is measured")
    answers.go.set()
    asking.join()
    spent = sockets.gate_seconds("R-A")
    said(path, "short")
    assert spent > 0.01
    assert sockets.gate_seconds("R-A") == spent
    assert sockets.gate_seconds("R-B") == sockets.gate_seconds("R-C") == 0.0


def test_a_socket_is_for_its_user_alone(sockets: AgentSocketListener) -> None:
    assert os.stat(opened(sockets)).st_mode & 0o077 == 0


def test_a_run_has_one_socket(sockets: AgentSocketListener) -> None:
    opened(sockets)
    with pytest.raises(CannotRun) as fault:
        opened(sockets)
    assert fault.value.cause == "socket"


@pytest.mark.parametrize("run_id", ["../../etc/x", "a/b", "R\n", "R" * 300, "ü"])
def test_a_strange_id_leads_nowhere(sockets: AgentSocketListener, run_id: str, tmp_path: Path) -> None:
    path = sockets.open(run_id, "A", "T", WORKTREE)
    assert Path(path).resolve().parent == tmp_path
    assert said(path, "x")[0] == 1


def test_a_folder_without_room_is_a_fault_of_the_system(sockets: AgentSocketListener, tmp_path: Path) -> None:
    sockets._folder = str(tmp_path / "missing")
    with pytest.raises(CannotRun, match="cannot be made"):
        opened(sockets)


@pytest.mark.parametrize(
    "junk",
    [
        b"\xff\xff\xff\xffx",
        b"\0\0\0\0",
        b"GET / HTTP/1.1\r\n\r\n",
        protocol.pack(protocol.ASKS, b'[{"ask": {}, "actor": "user"}]'),
        protocol.pack(protocol.ANSWER, b"x"),
        protocol.pack(protocol.CALL, b""),
        protocol.pack(protocol.CALL_WITH_INPUT, b"\xff\xff\xff\xff"),
        protocol.pack(protocol.CALL, b"\0" * (4 << 20)),
        os.urandom(4096),
    ],
    ids=["huge", "empty", "http", "asks", "answer", "no-call", "no-given", "zeros", "noise"],
)
def test_what_is_no_call_ends_its_connection_and_nothing_else(
    sockets: AgentSocketListener, junk: bytes
) -> None:
    one, two = opened(sockets, "A"), opened(sockets, "B")
    with connected(one) as client, connected(one) as other:
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(junk)
            client.shutdown(socket.SHUT_WR)
        assert is_dropped(client)
        other.sendall(protocol.pack_call("", [], ["x"]))
        assert protocol.unpack(other.recv(1 << 16))
    assert said(two, "x")[0] == 1


def test_half_a_call_is_not_waited_for_for_long(sockets: AgentSocketListener) -> None:
    path = opened(sockets)
    frame = protocol.pack_call("", [], ["x"])
    with connected(path) as client:
        client.sendall(frame[:-1])
        assert said(path, "y")[0] == 1
        sockets._patience = 0.1
        assert is_dropped(client)


def test_more_than_a_socket_holds_is_not_kept(
    sockets: AgentSocketListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BUFFERED", 1 << 20)
    path = opened(sockets)
    with connected(path) as client:
        with suppress(BrokenPipeError, ConnectionResetError):
            client.sendall((6 << 20).to_bytes(4, "big") + b"C" + b"x" * (2 << 20))
        assert is_dropped(client)
    assert said(path, "y")[0] == 1


def test_an_answer_that_nobody_reads_is_given_up(sockets: AgentSocketListener) -> None:
    path = opened(sockets)
    with connected(path) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(protocol.pack_call("", [], ["much", str(6 << 20)]))
        assert said(path, "y")[0] == 1
        sockets._patience = 0.1
        wait_for(lambda: not next(iter(sockets._all)).connections, "the end of the visitor")


def test_an_answer_too_long_for_a_frame_is_said_to_be(sockets: AgentSocketListener) -> None:
    code, output, errors = said(opened(sockets), "much", str(protocol.MAX_FRAME))
    assert (code, output) == (3, b"")
    assert b"too long" in errors


def test_a_failure_of_our_own_is_said_and_ends_nothing(sockets: AgentSocketListener) -> None:
    path = opened(sockets)
    code, _, errors = said(path, "fail")
    assert code == 3
    assert b"RuntimeError" in errors
    assert said(path, "x")[0] == 1


def test_a_visitor_may_ask_again(sockets: AgentSocketListener) -> None:
    with connected(opened(sockets)) as client:
        client.sendall(protocol.pack_call("", [], ["x"]) + protocol.pack_call("", [], ["x", "y"]))
        heard = b""
        codes = []
        while len(codes) < 2:
            heard += client.recv(1 << 16)
            while (found := protocol.unpack(heard)) is not None:
                codes.append(protocol.unpack_result(found[1])[0])
                heard = heard[found[2] :]
    assert codes == [1, 2]


def test_a_thousand_connections_to_one_socket_keep_no_other_waiting(sockets: AgentSocketListener) -> None:
    one, two = opened(sockets, "A"), opened(sockets, "B")
    with ExitStack() as stack:
        refused = 0
        for _ in range(1000):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            try:
                client.connect(one)
            except BlockingIOError:
                refused += 1
        assert refused >= 1000 - module.MAX_CONNECTIONS - 2 * module.BACKLOG
        assert said(two, "x")[0] == 1
        beleaguered = next(agent_socket for agent_socket in sockets._all if agent_socket.caller.agent == "A")
        assert len(beleaguered.connections) <= module.MAX_CONNECTIONS
    assert wait_for(lambda: said(one, "x")[0] == 1, "room at the socket")


def test_two_hundred_sockets_are_answered_at_once(sockets: AgentSocketListener) -> None:
    paths = [opened(sockets, f"A{number}") for number in range(200)]
    found: dict[int, bytes] = {}

    def ask(number: int) -> None:
        found[number] = said(paths[number], "x")[1]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"A{number} T-A{number}".encode() for number in range(200)}


def asking(path: str, *arguments: str) -> tuple[threading.Thread, list[object]]:
    """Asks in the background."""
    heard: list[object] = []

    def ask() -> None:
        try:
            heard.append(said(path, *arguments))
        except CoordinatorUnavailable as lost:
            heard.append(lost)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, heard


def test_one_socket_has_only_so_many_calls_carried_out_at_once(
    sockets: AgentSocketListener, answers: Answers
) -> None:
    one, two = opened(sockets, "A"), opened(sockets, "B")
    slow = [asking(one, "slow") for _ in range(6)]
    long = [asking(one, "long") for _ in range(3)]
    most = sum(module.AT_ONCE.values())
    wait_for(lambda: len(answers.begun) >= most, "the first calls")
    assert said(two, "x")[0] == 1
    assert answers.begun.count("R-A") == most
    answers.go.set()
    for thread, heard in (*slow, *long):
        thread.join()
        assert heard == [(1, b"A T-A", b"")]


def test_long_calls_keep_no_short_one_waiting(sockets: AgentSocketListener, answers: Answers) -> None:
    path = opened(sockets)
    thread, heard = asking(path, "long")
    wait_for(lambda: answers.begun, "the long call")
    assert said(path, "x")[0] == 1
    answers.go.set()
    thread.join()
    assert heard


def test_a_closed_socket_lets_a_call_under_way_end(sockets: AgentSocketListener, answers: Answers) -> None:
    path = opened(sockets)
    thread, heard = asking(path, "long")
    wait_for(lambda: answers.begun, "the call")
    with connected(path) as idle:
        sockets.close("R-A")
        assert not os.path.exists(path)
        assert is_dropped(idle)
    with pytest.raises(CoordinatorUnavailable):
        said(path, "x")
    assert answers.left == []
    answers.go.set()
    thread.join()
    assert heard == [(1, b"A T-A", b"")]
    wait_for(lambda: answers.left == ["R-A"], "that the run is left")


def test_what_takes_too_long_after_its_socket_was_closed_is_ended(
    sockets: AgentSocketListener, answers: Answers
) -> None:
    one, two = opened(sockets, "A"), opened(sockets, "B")
    thread, heard = asking(one, "long")
    wait_for(lambda: answers.begun, "the call")
    sockets._grace = 0.1
    sockets.close("R-A")
    wait_for(lambda: answers.left == ["R-A"], "the end of grace")
    thread.join()
    assert isinstance(heard[0], CoordinatorUnavailable)
    assert said(two, "x")[0] == 1


def test_in_the_end_every_socket_is_closed_and_every_run_left(answers: Answers, tmp_path: Path) -> None:
    with short_folder(tmp_path) as folder:
        sockets = AgentSocketListener(folder, answers)
        paths = [opened(sockets, str(number)) for number in range(3)]
        thread, heard = asking(paths[0], "long")
        wait_for(lambda: answers.begun, "the call")
        sockets.end(0.5)
        thread.join()
        assert isinstance(heard[0], CoordinatorUnavailable)
        wait_for(lambda: sorted(answers.left) == ["R-0", "R-1", "R-2"], "that every run is left")
        assert os.listdir(tmp_path) == []
        with pytest.raises(CannotRun):
            opened(sockets, "late")


def test_noise_from_many_sides_harms_nobody(
    sockets: AgentSocketListener, campaign: Callable[[int, int], int]
) -> None:
    one, two = opened(sockets, "A"), opened(sockets, "B")
    seed = os.urandom(8)
    print(f"seed {seed.hex()}")
    chance = random.Random(seed)
    whole = protocol.pack_call("", ["a"], ["x"], b"given")
    for _ in range(campaign(150, 5000)):
        with connected(one) as client, suppress(BrokenPipeError, ConnectionResetError):
            spoilt = bytearray(whole)
            for _ in range(chance.randint(0, 3)):
                spoilt[chance.randrange(len(spoilt))] = chance.randrange(256)
            client.sendall(bytes(spoilt[: chance.randint(0, len(spoilt))]))
    assert said(two, "x")[0] == 1
    assert wait_for(lambda: said(one, "x")[0] == 1, "room at the socket")
