"""A coordinator that is simply there: a command of the user starts one behind its answer, and nobody else does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, wait_for

pytestmark = pytest.mark.timeout(1200)

ON = {"REMAND_COORDINATOR": "on"}


@pytest.fixture
def repository(machine: Machine) -> Iterator[Repository]:
    """A repository with a ledger, in which the user's commands may start a coordinator."""
    made = machine.repository()
    made.add("Written before")
    machine.environment.update(ON)
    yield made
    made.call("coordinator", "stop")


def status(repository: Repository) -> dict[str, Any]:
    found: dict[str, Any] = repository.ok("coordinator", "status")
    return found


def started(repository: Repository) -> dict[str, Any]:
    """The coordinator that a command has started."""

    def running() -> dict[str, Any] | None:
        found = status(repository)
        return found if found["running"] else None

    found: dict[str, Any] = wait_for(running, "a coordinator")
    return found


def has_started_none(repository: Repository) -> bool:
    """True when no coordinator was started: its lock is made first of all, and by the command itself."""
    return not list((repository.machine.runtime / "remand").glob("*.start"))


def process_fields(pid: int) -> tuple[str, int, int]:
    """Name, parent and session of a process."""
    name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    return name, int(rest.split()[1]), int(rest.split()[3])


def test_a_command_of_the_user_starts_one_that_answers_the_next(repository: Repository) -> None:
    repository.add("Starts it")
    found = started(repository)

    assert found["ends_when_idle"] is True
    before = repository.machine.environment["XDG_RUNTIME_DIR"]
    assert found["socket"].startswith(before)
    repository.ok("task", "add", "Forwarded")
    shown = repository.people("coordinator", "status").out
    assert f"pid {found['pid']}" in shown
    assert f"version {found['version']}" in shown
    assert str(found["pid"]) in repository.people("doctor").out
    assert repository.verify() == []


def test_it_has_nothing_of_the_command_that_started_it(repository: Repository) -> None:
    read, write = os.pipe()
    with subprocess.Popen(
        [REMAND, "task", "add", "Starts it"],
        cwd=repository.path,
        env=repository.machine.environment | {"GITHUB_TOKEN": "secret", "PYTHONPATH": "/nowhere"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        pass_fds=(write,),
    ) as command:
        os.close(write)
        # Both pipes end with the command, although the coordinator goes on.
        said, _ = command.communicate(timeout=PATIENCE)
        assert os.read(read, 1) == b""
    os.close(read)
    assert b"added T-" in said
    pid = started(repository)["pid"]

    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    environment = Path(f"/proc/{pid}/environ").read_text()
    assert "secret" not in environment
    assert "REMAND_" not in environment
    assert "PYTHONPATH" not in environment
    opened = {path.name: os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    assert not [name for name in opened.values() if name.startswith("pipe:")]
    assert (opened["0"], opened["1"]) == ("/dev/null", "/dev/null")
    name, _, session = process_fields(pid)
    assert name == "remand-serve"
    assert session not in (pid, os.getsid(0)), "it has a session that it does not lead"


@pytest.mark.parametrize(
    "environment",
    [
        {"REMAND_TASK": "T-20260101-000000-00000000"},
        {"REMAND_ACTOR": "Alice"},
        {"CLAUDECODE": "1"},
        {"REMAND_COORDINATOR": "off"},
        {"REMAND_COORDINATOR": "", "CI": "true"},
    ],
)
def test_no_agent_and_no_continuous_integration_starts_one(
    repository: Repository, environment: dict[str, str]
) -> None:
    repository.call("task", "list", env=environment)
    repository.call("task", "add", "Starts nothing", env=environment)

    assert has_started_none(repository)


@pytest.mark.parametrize(
    "arguments",
    [
        ("coordinator", "stop"),
        ("serve", "--no-http"),
        ("serve", "--no-http", "--background"),
        ("serve", "--webhooks"),
    ],
)
def test_an_agent_can_neither_serve_nor_stop_the_coordinator(
    repository: Repository, arguments: tuple[str, ...]
) -> None:
    said = repository.call(*arguments, env={"REMAND_TASK": "T-20260101-000000-00000000"})

    assert "Only the user may" in said.out + said.err
    assert said.code == 1
    assert not status(repository)["running"]


def test_one_that_detaches_is_refused_where_no_command_would_start_one(repository: Repository) -> None:
    said = repository.call("serve", "--no-http", "--background", env={"CLAUDECODE": "1"})

    assert "CLAUDECODE shows that an agent is calling" in said.out + said.err
    assert said.code != 0
    assert not status(repository)["running"]


def test_neither_a_hook_nor_an_agents_own_command_starts_one(repository: Repository) -> None:
    task = repository.ok("task", "add", "Claimed", env={"REMAND_COORDINATOR": "off"})["task_id"]
    repository.ok("task", "claim", task, "--agent", "Alice")
    given = {"session_id": "s1", "cwd": str(repository.path), "hook_event_name": "Stop"}
    repository.machine.remand(
        repository.path,
        "hook",
        "--host",
        "claude",
        "Stop",
        stdin=json.dumps(given),
        env={"REMAND_TASK": task},
    )
    repository.machine.remand(repository.path, "hook", "--host", "claude", "Stop", stdin=json.dumps(given))

    assert has_started_none(repository)


def test_the_configuration_switches_it_off_and_doctor_says_so(repository: Repository) -> None:
    repository.configure('[gates]\n[run]\ncoordinator = "off"\n')
    repository.add("Starts nothing")

    assert has_started_none(repository)
    assert "`[run] coordinator` in remand.toml is off" in repository.people("doctor").out


def test_a_process_in_a_namespace_of_its_own_starts_none(repository: Repository) -> None:
    call = [REMAND, "-C", str(repository.path), "task", "add", "Starts nothing"]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", *call],
        env=repository.machine.environment,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    if b"unshare" in done.stderr:
        pytest.skip(f"namespaces are not permitted here: {done.stderr.decode()}")

    assert done.returncode == 0, done.stderr
    assert has_started_none(repository)


def test_of_many_commands_at_once_one_starts_it_and_none_fails(repository: Repository) -> None:
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda n: repository.call("task", "add", f"Task {n}"), range(24)))

    assert [one.code for one in said] == [0] * 24
    pid = started(repository)["pid"]
    named = [path for path in Path("/proc").glob("[0-9]*") if is_coordinator(path, repository)]
    assert [int(path.name) for path in named] == [pid]
    assert len(repository.ok("task", "list", "--all")) == 25


def is_coordinator(process: Path, repository: Repository) -> bool:
    """True for the process of a coordinator of a repository that was started behind a command."""
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"--background" in words and str(repository.path).encode() in words


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1, 0.3])
def test_killed_at_its_start_it_keeps_no_command_from_its_answer_or_from_starting_another(
    repository: Repository, delay: float
) -> None:
    repository.add("Starts it")
    threading.Event().wait(delay)
    for path in Path("/proc").glob("[0-9]*"):
        if is_coordinator(path, repository):
            os.kill(int(path.name), signal.SIGKILL)

    repository.add("Is answered all the same")
    repository.add("And this")

    def restarted() -> bool:
        repository.add("Once more")
        return bool(status(repository)["running"])

    wait_for(restarted, "another coordinator")
    assert repository.verify() == []


def test_commands_go_on_while_it_ends_and_another_takes_its_place(repository: Repository) -> None:
    repository.add("Starts it")
    pids = [started(repository)["pid"]]
    codes: list[int] = []

    def work() -> None:
        codes.extend(repository.call("task", "add", f"Task {n}").code for n in range(12))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        repository.ok("coordinator", "stop")
        repository.add("Starts another")
        pids.append(started(repository)["pid"])
    for thread in threads:
        thread.join()

    assert codes == [0] * 36
    assert len(set(pids)) == 4
    assert len(repository.ok("task", "list", "--all")) == 2 + 3 + 36


def test_it_ends_when_its_repository_is_deleted(machine: Machine, repository: Repository) -> None:
    other = machine.repository("other")
    other.add("Starts it")
    pid = started(other)["pid"]
    machine.folder.joinpath("other").rename(machine.folder / "gone")
    subprocess.run(["rm", "-rf", str(machine.folder / "gone")], check=True, timeout=PATIENCE)

    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the end of the coordinator")


def test_one_that_the_user_starts_takes_the_place_of_one_behind_a_command(repository: Repository) -> None:
    repository.add("Starts it")
    before = started(repository)["pid"]
    with repository.coordinator() as own:
        wait_for(lambda: status(repository).get("pid") == own.pid, "the user's own coordinator")
        assert status(repository)["ends_when_idle"] is False
        wait_for(lambda: not Path(f"/proc/{before}").exists(), "the end of the other")
        assert "already running" in repository.call("serve", "--no-http").out
        assert status(repository)["pid"] == own.pid


@pytest.mark.more
def test_one_that_does_not_end_is_not_said_to_have_ended(repository: Repository) -> None:
    with repository.coordinator() as own:
        os.kill(own.pid, signal.SIGSTOP)
        try:
            said = repository.call("coordinator", "stop")
        finally:
            os.kill(own.pid, signal.SIGCONT)
        assert said.code != 0
        assert "still running" in said.out + said.err
