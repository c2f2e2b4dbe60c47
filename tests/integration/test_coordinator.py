"""The coordinator: nobody can tell from an answer whether one runs, and nothing breaks when it goes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.coordinator import protocol
from tests.integration.machine import PATIENCE, Machine, Repository, end, wait_for

pytestmark = pytest.mark.timeout(1200)

NAMED = re.compile(r"[TH]-\d{8}-\d{6}-[0-9a-f]{8}")
RANDOM = re.compile(
    r"\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\d{8}-\d{6}-[0-9a-f]{8}|(cli-)?\b[0-9a-f]{16,64}\b|\b[0-9a-f]{12}\b"
    r'|(?<=")[\w-]{86}(?=")'
)


def known_by_order(text: str, names: dict[str, str]) -> str:
    """The text with ids called by the order in which they came up, and without times and hashes."""
    called = NAMED.sub(lambda found: names.setdefault(found[0], f"<{len(names)}>"), text)
    return RANDOM.sub("<>", called)


STORY: list[tuple[str, ...]] = [
    ("task", "add", "First", "--scope", "all of it", "--priority", "high", "--alias", "#1"),
    ("task", "add", "Second", "--skills", "a,b", "--depends-on", "#1", "--alias", "#2"),
    ("task", "add", "Third", "--category", "c", "--branch", "third", "--alias", "#3"),
    ("task", "add", "First again", "--alias", "#1"),
    ("task", "add", ""),
    ("task", "add"),
    ("task", "add", "x", "--priority", "huge"),
    ("task", "add", "x", "--scope=@scope.txt", "--alias", "#4"),
    ("task", "add", "x", "--scope", "@scope.txt"),
    ("task", "add", "x", "--scope", "@/missing.txt"),
    ("task", "add", "escape \x1b[31m \u202e", "--alias", "#5"),
    ("task", "list"),
    ("task", "list", "--status", "incoming"),
    ("task", "list", "--status", "bogus"),
    ("task", "ready"),
    ("task", "show", "#1"),
    ("task", "show", "#99"),
    ("task", "claim", "#2", "--agent", "Alice"),
    ("task", "claim", "#1", "--agent", "Alice"),
    ("task", "claim", "#1", "--agent", "Bob"),
    ("task", "claim", "#1"),
    ("task", "heartbeat", "#1", "--agent", "Alice"),
    ("task", "heartbeat", "#1", "--agent", "Bob"),
    ("task", "prompt", "#1", "--agent", "Alice"),
    ("task", "prompt", "#1", "--agent", "Bob"),
    ("task", "wait", "#1", "--agent", "Alice", "--for", "the rain"),
    ("task", "submit", "#1", "--agent", "Alice", "--commit", "nonsense"),
    ("task", "submit", "#1", "--agent", "Alice", "--commit", "HEAD", "--pr", "7"),
    ("task", "show", "#1"),
    ("review", "reject", "#1", "--commit", "HEAD", "--suggestion", "a.py:1: nit"),
    ("review", "reject", "#1", "--commit", "HEAD", "--finding", "a.py:1: no", "--suggestion", "b"),
    ("task", "claim", "#1", "--agent", "Alice"),
    ("task", "claim", "#1", "--agent", "Bob"),
    ("task", "submit", "#1", "--agent", "Bob", "--commit", "HEAD"),
    ("review", "approve", "#1", "--commit", "HEAD", "--reviewer", "Bob"),
    ("review", "approve", "#1", "--commit", "HEAD"),
    ("task", "edit", "#2", "--title", "Second, again", "--pr", "8"),
    ("task", "edit", "#2", "--depends-on", "#2"),
    ("task", "defer", "#2", "--until", "#3"),
    ("task", "reopen", "#2"),
    ("task", "claim", "#3", "--agent", "Carol"),
    ("task", "release", "#3", "--agent", "Carol", "--reason", "no time"),
    ("handoff", "initiate", "#3", "--to", "Dave", "--instructions", "gently"),
    ("task", "claim", "#3", "--agent", "Carol"),
    ("task", "claim", "#3", "--agent", "Dave"),
    ("task", "continue", "#3", "--agent", "Dave"),
    ("task", "claim", "#3", "--agent", "Dave"),
    ("task", "fail", "#3", "--agent", "Dave", "--reason", "too hard"),
    ("task", "cancel", "#4", "--reason", "not needed"),
    ("task", "cancel", "#4"),
    ("handoff", "status", "H-none"),
    ("task", "list"),
    ("log", "tail", "-n", "100"),
    ("log", "verify"),
    ("log", "digest"),
    ("graph", "stats"),
    ("graph", "export", "--format", "json"),
    ("explain", "locked_out"),
    ("explain", "nonsense"),
    ("nonsense",),
    ("task", "nonsense"),
]


SHOWN = [*STORY[:3], *STORY[11:20], STORY[23], *STORY[-12:-6], *STORY[-4:]]
"""The calls whose output for people is compared as well."""


def tell(repository: Repository, form: str) -> list[tuple[Any, ...]]:
    """Tells the story; returns every exit code and what was said, ids, times and the order of rows apart."""
    (repository.path / "scope.txt").write_text("from a file")
    names: dict[str, str] = {}
    told = []
    for call in STORY if form == "json" else SHOWN:
        if form == "json":
            said = repository.call(*call)
            out: Any = in_any_order(json.loads(known_by_order(said.out, names)))
        else:
            said = repository.people(*call)
            out = sorted(known_by_order(said.out, names).splitlines())
        told.append((call, said.code, out, known_by_order(said.err, names)))
    return told


def in_any_order(data: Any) -> Any:
    """Data whose rows stand in no order that counts: ids of one second are ordered by chance."""
    return sorted(map(json.dumps, data)) if isinstance(data, list) else data


@pytest.mark.parametrize("form", ["json", pytest.param("people", marks=pytest.mark.more)])
def test_the_same_calls_have_the_same_answers(machine: Machine, form: str) -> None:
    alone, led = machine.repository("a/repo"), machine.repository("b/repo")
    without = tell(alone, form)
    with led.coordinator():
        told = tell(led, form)
    assert len(without) == len(told) >= 20
    for one, other in zip(without, told, strict=True):
        if one[0] in HASHED:
            assert one[:2] == other[:2]
        else:
            assert one == other


HASHED = [("log", "digest"), ("graph", "export", "--format", "json")]
"""What is made from ids and times, and cannot be the same in two ledgers."""


class TestItGoes:
    def test_killed_it_is_not_missed(self, repository: Repository) -> None:
        process = repository.start_coordinator()
        task = repository.add("through it")
        process.kill()
        process.wait(timeout=PATIENCE)
        assert os.path.exists(repository.socket()), "the socket is left behind"
        repository.ok("task", "claim", task, "--agent", "Alice")
        assert repository.verify() == []
        with repository.coordinator():
            repository.add("through the next one")
        assert len(repository.ok("task", "list")) == 2
        assert repository.verify() == []

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_told_to_stop_it_leaves_nothing_behind(self, repository: Repository, number: int) -> None:
        process = repository.start_coordinator()
        path = repository.socket()
        repository.add()
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, (out, err)
        assert err == ""
        assert not os.path.exists(path)
        assert repository.verify() == []

    def test_told_to_stop_while_clients_are_connected_it_stops(self, repository: Repository) -> None:
        process = repository.start_coordinator()
        with connected(repository) as client:
            client.sendall(b"\x00\x00")
            process.terminate()
            process.communicate(timeout=PATIENCE)
        assert process.returncode == 0

    def test_a_second_one_is_refused_and_the_first_goes_on(self, repository: Repository) -> None:
        with repository.coordinator():
            said = repository.people("serve", "--no-http")
            assert said.code == 3
            assert "already" in said.err
            repository.add("through the first")
        assert len(repository.ok("task", "list")) == 1

    def test_two_ledgers_have_two(self, machine: Machine) -> None:
        one, two = machine.repository("one"), machine.repository("two")
        with one.coordinator(), two.coordinator():
            one.add("in one")
            two.add("in two")
        assert [row["title"] for row in one.ok("task", "list")] == ["in one"]
        assert [row["title"] for row in two.ok("task", "list")] == ["in two"]

    def test_a_socket_folder_of_someone_else_is_not_used(self, repository: Repository) -> None:
        folder = repository.machine.runtime / "remand"
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        said = repository.people("serve", "--no-http")
        assert said.code == 3
        assert "XDG_RUNTIME_DIR" in said.err
        repository.add("works without")

    def test_the_socket_is_for_its_user_alone(self, repository: Repository) -> None:
        with repository.coordinator():
            status = os.stat(repository.socket())
            assert status.st_mode & 0o077 == 0
            assert os.stat(os.path.dirname(repository.socket())).st_mode & 0o077 == 0

    def test_it_notices_files_that_git_brings(self, machine: Machine, repository: Repository) -> None:
        other = machine.clone(repository, "other")
        task = other.add("from elsewhere")
        other.ok("log", "publish")
        with repository.coordinator():
            repository.add("here")
            repository.git("pull", "-q", str(other.path), "main")
            repository.ok("task", "claim", task, "--agent", "Alice")

    def test_a_ledger_deleted_under_it_loses_nothing_acknowledged(self, repository: Repository) -> None:
        with repository.coordinator():
            repository.add("before")
            repository.forget_ledger()
            for number in range(3):
                said = repository.call("task", "add", f"after {number}")
                assert said.code in (0, 3), said
        titles = {row["title"] for row in repository.ok("task", "list")}
        assert "before" in titles
        repository.add("later")
        repository.forget_ledger()
        assert titles <= {row["title"] for row in repository.ok("task", "list")}

    def test_leases_end_by_themselves(self, machine: Machine) -> None:
        repository = machine.repository(config='[gates]\n[policy]\nlease = "1s"\n')
        with repository.coordinator():
            task = repository.add()
            repository.ok("task", "claim", task, "--agent", "Alice")
            wait_for(
                lambda: repository.ok("task", "show", task)["status"] == "incoming", "the end of the lease"
            )
        assert [event["event"] for event in repository.written().values()].count("task.expire") == 1


@contextmanager
def connected(repository: Repository) -> Iterator[socket.socket]:
    """A connection to the coordinator."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(PATIENCE)
        client.connect(repository.socket())
        yield client


def call_frame(repository: Repository, *arguments: str, folder: str = "") -> bytes:
    """A call of the command line as the client sends it."""
    return protocol.pack_call(folder or str(repository.path), [""] * 7, list(arguments))


HOSTILE = {
    "garbage": b"\x47\x45\x54 / HTTP/1.1\r\n\r\n",
    "a huge length": b"\xff\xff\xff\xff" + b"x" * 100,
    "no length": b"\x00\x00\x00\x00",
    "an unknown kind": protocol.pack(b"Z", b"x"),
    "asks that are no JSON": protocol.pack(protocol.ASKS, b"{"),
    "asks nested deeply": protocol.pack(protocol.ASKS, b"[" * 100_000),
    "a rejection nested deeply": protocol.pack(
        protocol.ASKS,
        b'[{"ask": {"ask": "rejecthandoff", "handoff_id": "H-1", "agent": "A", "rejection": {"evidence": '
        + b"[" * 20_000
        + b"]" * 20_000
        + b'}}, "actor": "A"}]',
    ),
    "asks of the wrong shape": protocol.pack(protocol.ASKS, b'[{"ask": 5}]'),
    "an ask nobody may make": protocol.pack(
        protocol.ASKS, b'[{"ask": {"ask": "expirelease", "task_id": "T-1"}, "actor": "user"}]'
    ),
    "half a surrogate": protocol.pack(
        protocol.ASKS, b'[{"ask": {"ask": "addtask", "title": "\\ud800"}, "actor": "user"}]'
    ),
    "a strange actor": protocol.pack(
        protocol.ASKS, b'[{"ask": {"ask": "addtask", "title": "x"}, "actor": "a\\u0000b"}]'
    ),
    "a strange commit": protocol.pack(
        protocol.ASKS,
        b'[{"ask":{"ask":"submittask","task_id":"T-1","agent":"a","commit":"--help\\n"},"actor":"a"}]',
    ),
    "a call without anything": protocol.pack(protocol.CALL, b""),
    "a call with a wrong count": protocol.pack(protocol.CALL, b"\xff/tmp"),
    "a call that is no text": protocol.pack(protocol.CALL, b"\x07" + b"\xff\xfe\x00" * 20),
}


@pytest.fixture(scope="class")
def led() -> Iterator[Repository]:
    """A repository with a coordinator that is shared by many hostile clients."""
    machine = Machine()
    repository = machine.repository()
    with repository.coordinator():
        yield repository
    machine.close()


class TestHostileClients:
    @pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
    def test_a_hostile_frame_disturbs_nobody(self, led: Repository, data: bytes) -> None:
        before = led.digest()
        with connected(led) as client:
            client.sendall(data)
            client.recv(1 << 16)
            check_it_answers(led)
        assert led.digest() == before

    @pytest.mark.parametrize(
        "arguments",
        [
            ("log", "tail", "-f"),
            ("serve", "--no-http"),
            ("demo",),
            ("task", "add", "-"),
            ("task", "add", "@/dev/zero"),
        ],
    )
    def test_a_call_that_is_not_to_be_forwarded_keeps_nobody_waiting(
        self, led: Repository, arguments: tuple[str, ...]
    ) -> None:
        before = led.digest()
        with connected(led) as client:
            client.sendall(call_frame(led, *arguments))
            check_it_answers(led)
        assert led.digest() == before

    def test_every_cut_of_a_frame_disturbs_nobody(self, led: Repository) -> None:
        frame = call_frame(led, "task", "list", "--json")
        for cut in range(1, len(frame)):
            with connected(led) as client:
                client.sendall(frame[:cut])
        check_it_answers(led)

    def test_a_frame_sent_byte_by_byte_is_answered(self, led: Repository) -> None:
        with connected(led) as client:
            for byte in call_frame(led, "task", "list", "--json"):
                client.sendall(bytes([byte]))
            check_it_answers(led)
            assert client.recv(5)[4:5] == protocol.ANSWER

    def test_many_who_connect_and_say_nothing_disturb_nobody(self, led: Repository) -> None:
        clients = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(300)]
        try:
            for client in clients:
                client.connect(led.socket())
            check_it_answers(led)
        finally:
            for client in clients:
                client.close()
        check_it_answers(led)

    def test_one_who_asks_and_never_listens_costs_little_memory(self, led: Repository) -> None:
        with connected(led) as client:
            client.setblocking(False)
            frame = call_frame(led, "--help") * 100
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:
                try:
                    client.send(frame)
                except BlockingIOError:
                    time.sleep(0.01)
            check_it_answers(led)
            assert memory_of_coordinator(led) < 300_000

    def test_one_who_leaves_before_the_answer_disturbs_nobody(self, led: Repository) -> None:
        for _ in range(50):
            with connected(led) as client:
                client.sendall(call_frame(led, "task", "list", "--json"))
        check_it_answers(led)


def check_it_answers(repository: Repository) -> None:
    """The coordinator itself answers another client, and soon."""
    with connected(repository) as client:
        client.sendall(call_frame(repository, "task", "list", "--json"))
        buffer = b""
        while (found := protocol.unpack(buffer)) is None:
            part = client.recv(1 << 16)
            assert part, "the coordinator hung up"
            buffer += part
    code, out, _ = protocol.unpack_result(found[1])
    assert code == 0
    assert json.loads(out) == repository.ok("task", "list")


def memory_of_coordinator(repository: Repository) -> int:
    """The memory of the coordinator in kB."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if b"serve" in command and os.readlink(folder / "cwd") == str(repository.path):
                text = (folder / "status").read_text()
                return int(re.search(r"VmRSS:\s+(\d+)", text)[1])  # type: ignore[index]
        except OSError:
            continue
    raise AssertionError("no coordinator is running")


class TestStopped:
    """A coordinator that is stopped (SIGSTOP) holds connections and does not answer."""

    PATIENT = (
        "import sys; from remand.adapters.coordinator import protocol as client; client.PATIENCE = 1.0\n"
        "from remand.interfaces.cli import main; main.LOCK_TIMEOUT_SECONDS = 3\n"
        "from remand.interfaces.cli.entry import main; main()"
    )

    def impatient(self, repository: Repository, *arguments: str) -> subprocess.Popen[str]:
        """A call that waits a second where others wait a minute."""
        command = (sys.executable, "-c", self.PATIENT, *arguments)
        return repository.machine.start(repository.path, *command)

    def test_the_call_goes_on_alone_or_says_what_is_so(self, repository: Repository) -> None:
        process = repository.start_coordinator()
        repository.add("before")
        process.send_signal(signal.SIGSTOP)
        call = self.impatient(repository, "task", "add", "once", "--json")
        out, err = call.communicate(timeout=PATIENCE)
        assert call.returncode in (0, 3), (out, err)
        assert call.returncode == 0 or "coordinator" in json.loads(out)["message"]
        process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        titles = [row["title"] for row in repository.ok("task", "list")]
        assert titles.count("once") == (call.returncode == 0), "it happened once, or not at all"
        assert repository.verify() == []
        end(process)

    def test_a_claim_is_not_made_twice_when_it_goes_on(self, repository: Repository) -> None:
        process = repository.start_coordinator()
        task = repository.add("before")
        process.send_signal(signal.SIGSTOP)
        call = self.impatient(repository, "task", "claim", "--agent", "Alice", "--json")
        out, err = call.communicate(timeout=PATIENCE)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        assert repository.ok("task", "show", task)["attempt_count"] == (call.returncode == 0), (out, err)
        end(process)

    def test_one_stopped_with_the_lock_in_hand_is_named(self, repository: Repository) -> None:
        repository.add("before")
        holder = (
            "import sys, os, signal; from remand.wiring.ledger import open_ledger\n"
            "with open_ledger(sys.argv[1]).store.write(): os.kill(os.getpid(), signal.SIGSTOP)"
        )
        process = repository.machine.start(
            repository.path, sys.executable, "-c", holder, str(repository.path)
        )
        wait_for(lambda: " T " in process_state(process.pid), "the stop")
        call = self.impatient(repository, "task", "add", "x", "--json")
        out, err = call.communicate(timeout=PATIENCE)
        assert call.returncode == 3, (out, err)
        assert "suspended" in json.loads(out)["message"]
        end(process)
        repository.add("after")
        assert repository.verify() == []


def process_state(number: int) -> str:
    """The line in which the system tells the state of a process."""
    return Path(f"/proc/{number}/stat").read_text()


def test_many_clients_at_once_are_all_answered(repository: Repository) -> None:
    with repository.coordinator():
        answers: list[str] = []
        threads = [
            threading.Thread(target=lambda n=n: answers.append(repository.add(f"task {n}")))
            for n in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=PATIENCE)
    assert len(set(answers)) == 16
    assert len(repository.ok("task", "list")) == 16
    assert repository.verify() == []
