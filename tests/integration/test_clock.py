"""A machine whose clock runs ahead for a while, and what others see of it: real git, files and processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from remand.domain.task import Task
from remand.ledger.task_state import flat_state
from tests.integration.machine import HERE, PATIENCE, Machine, Repository, Said, end

DAY = 86_400
CONFIG = """
[project]
id = "0123456789abcdef"

[gates]

[team]
members = [
  {name = "Alice", role = "agent"},
  {name = "Lea", role = "lead"},
  {name = "owner", role = "user"},
]
"""


class Wrong:
    """A machine's clock that one can set wrong."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._shift = machine.folder / "shift"
        self.set(0)

    def set(self, seconds: float) -> None:
        """Makes the clock wrong by so much from now on."""
        self._shift.write_text(str(seconds))

    @property
    def command(self) -> tuple[str, ...]:
        """The command line under this clock."""
        return (sys.executable, str(HERE / "wrong_clock.py"), str(self._shift))

    def ok(self, repository: Repository, *arguments: str) -> Said:
        """Calls the command line under this clock; fails the test when it was not done."""
        process = self._machine.start(repository.path, *self.command, *arguments, "--json")
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, f"{arguments} → {process.returncode}: {out} {err}"
        return Said(0, out, err)


@pytest.fixture
def far_machine() -> Iterator[Machine]:
    """Another machine."""
    made = Machine()
    yield made
    made.close()


def trust(repository: Repository, *others: Repository) -> None:
    """Has the base trust the keys of machines."""
    for other in others:
        repository.ok("keys", "trust", other.ok("keys")["own"]["key"], "--name", other.path.name, "--write")
    repository.git("commit", "-qam", "trust")


def rejected(repository: Repository, clock: Wrong, seconds: float) -> str:
    """Alice's work is rejected by one command that runs while the clock is ahead."""
    task = repository.add("Mend the roof", "--branch", "work")
    repository.ok("task", "claim", task, "--agent", "Alice")
    repository.git("checkout", "-q", "-b", "work")
    commit = repository.commit()
    repository.git("checkout", "-q", "main")
    repository.ok("task", "submit", task, "--agent", "Alice", "--commit", commit, "--branch", "work")
    clock.set(seconds)
    finding = ("--finding", "work.txt:1: It leaks")
    clock.ok(repository, "review", "reject", task, "--reviewer", "Lea", "--commit", commit, *finding)
    clock.set(0)
    return task


def may_claim(repository: Repository, task: str) -> bool:
    """Whether the author may work on the task again."""
    return repository.call("task", "claim", task, "--agent", "Alice").code == 0


def is_locked_out(repository: Repository, task: str) -> bool:
    return [row["agent"] for row in repository.ok("lockout", "list") if row["task_id"] == task] == ["Alice"]


def test_after_a_repair_a_fresh_clone_has_the_lockout_and_the_same_digest(
    near_machine: Machine, far_machine: Machine
) -> None:
    mine = near_machine.repository(config=CONFIG)
    mine.add("First")
    theirs = far_machine.clone(mine, "theirs")
    theirs.ok("keys")
    theirs.add("Theirs")
    trust(mine, mine, theirs)
    task = rejected(mine, Wrong(near_machine), 400 * DAY)

    said = mine.call("task", "add", "Later")
    assert (said.code, said.data["refused"]) == (3, "clock_ahead")
    people = mine.people("task", "add", "Later")
    assert "remand log repair" in people.err
    assert any("clock" in problem["problem"] for problem in mine.verify())
    failed = [check for check in mine.call("doctor").data["checks"] if check["name"] == "clock"]
    assert (failed[0]["ok"], "remand log repair" in failed[0]["fix"]) == (False, True)

    mine.ok("log", "publish")
    theirs.git("pull", "-q", "--no-edit")
    line = theirs.people("task", "list").err
    assert "held back" in line
    assert line.count("\n") == 1
    assert not is_locked_out(theirs, task)
    assert theirs.verify()

    proposed = mine.ok("log", "repair")
    assert [row["kind"] for row in proposed["found"]] == ["ahead_own"]
    assert mine.call("task", "add", "Later").code == 3, "nothing is changed without --yes"
    assert mine.call("log", "repair", "--yes", "--as", "Alice").data["refused"] == "user_only"
    assert mine.ok("log", "repair", "--yes", "--reason", "the battery was empty")["repaired"]
    assert is_locked_out(mine, task)
    assert mine.verify() == []
    later = mine.add("Later")
    tail = mine.ok("log", "tail", "-n", "100")
    assert [event["event"] for event in tail if event.get("void")] == [
        event["event"] for event in tail if event["meta"].get("restates")
    ]

    mine.ok("log", "publish")
    theirs.git("pull", "-q", "--no-edit")
    theirs.ok("log", "publish")
    mine.git("pull", "-q", "--no-edit", str(theirs.path), "main")
    fresh = far_machine.clone(mine, "fresh")
    for clone in (mine, theirs, fresh):
        assert is_locked_out(clone, task)
        assert not may_claim(clone, task)
        assert clone.verify() == []
        assert clone.ok("task", "show", later)["status"] == "incoming"
    assert mine.digest() == theirs.digest() == fresh.digest()
    mine.forget_ledger()
    assert mine.digest() == fresh.digest()


def test_a_coordinator_whose_clock_jumps_refuses_once_it_is_right_again(machine: Machine) -> None:
    repository = machine.repository(config=CONFIG)
    clock = Wrong(machine)
    first = repository.add("First")
    process = machine.start(repository.path, *clock.command, "serve", "--no-http")
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        clock.set(400 * DAY)
        second = repository.add("Second")
        clock.set(0)

        said = repository.call("task", "edit", first, "--title", "Changed")
        assert (said.code, said.data["refused"]) == (3, "clock_ahead")
        assert repository.ok("log", "repair", "--yes")["repaired"]
        repository.ok("task", "edit", second, "--title", "Changed")
    finally:
        end(process)

    assert repository.ok("task", "show", second)["title"] == "Changed"
    assert repository.verify() == []
    before = repository.digest()
    repository.forget_ledger()
    assert repository.digest() == before


def test_a_ledger_of_an_earlier_version_keeps_what_it_had_taken_in(near_machine: Machine) -> None:
    """Before version 14 of the tables, events could be a day ahead."""
    repository = near_machine.repository(config=CONFIG)
    clock = Wrong(near_machine)
    clock.set(5 * 3600)
    clock.ok(repository, "task", "add", "Ahead")
    before = repository.digest()
    _age(repository.ledger)

    assert repository.digest() == before
    assert len(repository.ok("task", "list")) == 1


def _age(path: Path) -> None:
    """Makes a ledger what version 13 left, but for the groups, which are kept as they are since version 15."""
    import apsw

    connection = apsw.Connection(str(path))
    for name, state in connection.execute("SELECT id, state FROM task").fetchall():
        flat = flat_state(msgspec.json.decode(str(state), type=Task))
        connection.execute(
            "UPDATE task SET state = ? WHERE id = ?", (msgspec.json.encode(flat).decode(), name)
        )
    connection.execute("ALTER TABLE head DROP COLUMN bounded_from")
    connection.pragma("user_version", 13)
    connection.close()
