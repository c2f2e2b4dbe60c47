"""Telling the user: through real channels on this machine, and by a line on every call when none works."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.system import notice_channels
from remand.adapters.system.background_runs import BackgroundRuns
from remand.adapters.system.notice_channels import (
    FIRST,
    LONGEST,
    AppriseChannel,
    FilePace,
    addresses_file,
    read_addresses,
)
from tests.integration.machine import PATIENCE, Machine, Repository, wait_for

pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
"""Who tells the user outlives the call that started it, which here is no process of its own."""

REMINDER = "remand: 1 question waits for you: remand inbox\n"


class Service:
    """A chat service on this machine, which keeps what it is sent."""

    def __init__(self) -> None:
        self.notices: list[dict[str, Any]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                service.notices.append(json.loads(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


@pytest.fixture
def machine(near_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine whose notices have all ended with the test."""
    for name in ("NO_PROXY", "no_proxy"):
        near_machine.environment[name] = "127.0.0.1"
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    yield near_machine
    for folder in near_machine.state.glob("remand/*/notices"):
        assert BackgroundRuns(str(folder)).wait("notify", PATIENCE)


@pytest.fixture
def repository(machine: Machine) -> Repository:
    """A repository whose notices keep no pace."""
    made = machine.repository()
    made.ok("task", "ready")
    ledger = (made.path / ".got" / "ledger.id").read_text()
    (machine.state / "remand" / ledger / "notices" / "pace").mkdir(parents=True)
    return made


def name_channels(machine: Machine, *urls: str) -> Path:
    """Writes the user's own file of addresses."""
    path = machine.home / ".config" / "remand" / "notify.urls"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("# mine", *urls)))
    path.chmod(0o600)
    return path


def escalated(repository: Repository) -> str:
    task = repository.add()
    repository.ok("escalate", task, "--reason", "which colour?")
    return task


def notified(repository: Repository, task: str) -> list[str]:
    history = repository.ok("task", "show", task)["history"]
    return [row["channel"] for row in history if row["event"] == "escalation.notify"]


def test_without_a_channel_every_call_reminds_the_user_and_no_agent(
    machine: Machine, repository: Repository
) -> None:
    task = repository.add()
    assert repository.people("task", "list").err == ""
    assert repository.people("escalate", task, "--reason", "which colour?").err == REMINDER
    for call in (("task", "list"), ("task", "show", task), ("task", "show", "#99"), ("log", "verify")):
        assert repository.people(*call).err.endswith(REMINDER)
        assert repository.call(*call).err == REMINDER
    assert repository.people("explain", "locked_out").err == REMINDER
    assert repository.people("completion", "bash").err == "", "a shell reads it whenever it starts"
    assert machine.remand(repository.path, "task", "list", "--json").err == REMINDER
    confined = repository.people("task", "list", "--json", env={"REMAND_TASK": task, "REMAND_ACTOR": "Alice"})
    assert confined.err == ""
    assert repository.people("explain", env={"REMAND_TASK": task, "REMAND_ACTOR": "Alice"}).err == ""
    repository.call("inbox", "ack", task)
    assert repository.people("task", "list").err == ""


def test_the_command_that_asks_has_the_user_told_and_does_not_wait(
    machine: Machine, repository: Repository, service: Service
) -> None:
    name_channels(machine, service.url)
    task = escalated(repository)

    wait_for(lambda: service.notices, "the notice")
    (notice,) = service.notices
    assert "which colour?" in notice["message"]
    wait_for(lambda: notified(repository, task) == ["json"], "the delivery on record")
    assert repository.people("task", "list").err == ""


class Place:
    """A file that notices go to; without its folder it is down."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"file://{path}"

    def is_up(self, up: bool) -> None:
        if up:
            self.path.parent.mkdir(exist_ok=True)
        elif self.path.parent.exists():
            shutil.rmtree(self.path.parent)

    def text(self) -> str:
        return self.path.read_text() if self.path.exists() else ""


def test_whichever_channel_is_down_the_user_is_told_through_the_other(
    machine: Machine, repository: Repository, tmp_path: Path
) -> None:
    places = [Place(tmp_path / name / "notices") for name in ("a", "b")]
    name_channels(machine, *(f"{place.path.parent.name} = {place.url}" for place in places))
    for down, up in (places, places[::-1]):
        down.is_up(False)
        up.is_up(True)
        task = repository.add()
        repository.call("escalate", task, "--reason", "which colour?")
        repository.call("notify")
        assert task in up.text()
        assert notified(repository, task) == [up.path.parent.name]
    places[1].is_up(True)
    repository.call("notify")
    assert sorted(notified(repository, task)) == ["a", "b"]


def test_while_every_channel_is_down_every_call_reminds_the_user(
    machine: Machine, repository: Repository, tmp_path: Path
) -> None:
    place = Place(tmp_path / "down" / "notices")
    name_channels(machine, place.url)
    task = repository.add()
    for call in (("escalate", task, "--reason", "why?"), ("task", "list"), ("inbox",)):
        assert repository.people(*call).err == REMINDER
    said = repository.call("notify")
    assert (said.code, said.data["problems"]) == (
        3,
        ["file: the file cannot be written: No such file or directory"],
    )
    place.is_up(True)
    repository.call("notify")
    assert repository.people("task", "list").err == ""


def test_a_coordinator_tells_the_user_by_itself(
    machine: Machine, repository: Repository, tmp_path: Path
) -> None:
    task = repository.add()
    with repository.coordinator():
        repository.call("escalate", task, "--reason", "which colour?")
        name_channels(machine, f"file://{tmp_path}/notices")
        wait_for((tmp_path / "notices").exists, "the notice")
        wait_for(lambda: notified(repository, task) == ["file"], "the delivery on record")


def test_a_file_is_a_channel_that_needs_nothing(
    machine: Machine, repository: Repository, tmp_path: Path
) -> None:
    target = tmp_path / "notices.txt"
    name_channels(machine, f"mine = file://{target}")
    task = repository.add()
    repository.call("escalate", task, "--reason", "which colour?")
    repository.call("notify")

    assert "which colour?" in wait_for(lambda: target.exists() and target.read_text(), "the notice")
    wait_for(lambda: notified(repository, task) == ["mine"], "the delivery on record")


def test_addresses_are_read_from_the_users_own_places_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMAND_NOTIFY", "slack://token-a json://host json://other")
    path = name_channels(machine, "oncall = mailto://me:secret@example.org", "nonsense")
    assert str(path) == addresses_file()

    found = read_addresses()
    assert [one.name for one in found.channels] == ["slack", "json", "json-2", "oncall"]
    assert len(found.problems) == 1
    path.chmod(0o640)
    found = read_addresses()
    assert [one.name for one in found.channels] == ["slack", "json", "json-2"]
    assert "chmod 600" in found.problems[0]
    assert "secret" not in str(found.problems)


def test_what_a_channel_says_of_its_failure_never_holds_its_address() -> None:
    for url in ("json://user:hunter2@127.0.0.1:9/", "nosuch://hunter2", "json://["):
        problem = AppriseChannel("chat", url).send("title", "body")
        assert problem
        assert "hunter2" not in problem


def test_without_the_library_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(notice_channels, "import_module", missing)
    assert "pip install 'remand[notify]'" in AppriseChannel("chat", "json://127.0.0.1").send("title", "body")


def test_many_notices_come_in_ever_longer_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    slept: list[float] = []
    monkeypatch.setattr("remand.adapters.system.notice_channels.time.time", lambda: now[0])
    monkeypatch.setattr("remand.adapters.system.notice_channels.time.sleep", slept.append)
    pace = FilePace(os.fspath(tmp_path / "state" / "pace"))
    for _ in range(12):
        pace.wait()
        now[0] += slept[-1] if slept else 0
        pace.note()

    assert slept[0] == FIRST
    assert slept == sorted(slept)
    assert slept[-1] == LONGEST
    now[0] += 10_000
    count = len(slept)
    pace.wait()
    assert len(slept) == count


def test_a_delivery_that_takes_its_last_look_keeps_no_other_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import sys, time; from pathlib import Path; from remand.adapters.system import notice_channels as notices\n"
        "notices.release_delivery(); root = Path(sys.argv[2]); (root / 'released').touch()\n"
        "while not (root / 'go').exists(): time.sleep(0.01)"
    )
    monkeypatch.setattr(notice_channels, "COMMAND_LINE", (sys.executable, "-c", script))
    runs = BackgroundRuns(str(tmp_path / "runs"))

    notice_channels.start_delivery(str(tmp_path / "runs"), str(tmp_path), os.environ)
    wait_for((tmp_path / "released").exists, "the release")

    assert not runs.is_running("notify")
    (tmp_path / "go").touch()


def test_the_variable_takes_names_as_the_file_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "REMAND_NOTIFY", "oncall = json://host/?a=b\nchat=slack://token-a\nmailto://me@example.org"
    )

    found = read_addresses()

    assert [one.name for one in found.channels] == ["oncall", "chat", "mailto"]
    assert not found.problems


def test_an_agent_names_no_channel_and_nobody_one_that_writes_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMAND_NOTIFY", "json://host log = file:///tmp/x syslog://")
    found = read_addresses()
    assert [one.name for one in found.channels] == ["json"]
    assert [addresses_file() in problem for problem in found.problems] == [True, True], (
        "it says where to write them"
    )

    monkeypatch.setenv("REMAND_TASK", "T-1")
    assert read_addresses().channels == ()


FAILING_GATE = """
[gates.words]
command = ["false"]
parser = "exit"
mode = "strict"

[policy]
alert_after_gates = 2
escalate_after_gates = 9
"""


def test_an_alert_and_an_override_go_out_through_the_channel_once_each(
    machine: Machine, tmp_path: Path
) -> None:
    repository = machine.repository(config=FAILING_GATE)
    repository.ok("task", "ready")
    ledger = (repository.path / ".got" / "ledger.id").read_text()
    (machine.state / "remand" / ledger / "notices" / "pace").mkdir(parents=True)
    name_channels(machine, f"file://{tmp_path}/notices")
    task = repository.ok("task", "add", "Mend the roof", "--branch", "work")["task_id"]
    repository.ok("task", "claim", task, "--agent", "Alice")
    repository.git("checkout", "-q", "-b", "work")
    repository.git("commit", "-q", "--allow-empty", "-m", "work")
    submit = ("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")

    def told() -> str:
        repository.call("notify")
        return (tmp_path / "notices").read_text() if (tmp_path / "notices").exists() else ""

    repository.call(*submit)
    assert told() == ""
    repository.call(*submit)
    assert told().count("Alice's work was rejected twice: Mend the roof") == 1
    repository.ok("gate", "override", task, "--gate", "words", "--reason", "It must go out.")
    assert told().count("an override in your name: Mend the roof") == 1
    assert "user let the gate words pass: It must go out." in told()
    assert told().count("Alice's work was rejected twice: Mend the roof") == 1


def test_a_test_notice_goes_through_every_channel(
    machine: Machine, repository: Repository, tmp_path: Path
) -> None:
    target = tmp_path / "notices.txt"
    name_channels(machine, f"mine = file://{target}")

    assert repository.call("notify", "--test").data == [{"channel": "mine", "ok": True, "problem": ""}]
    assert "This is a test" in target.read_text()
