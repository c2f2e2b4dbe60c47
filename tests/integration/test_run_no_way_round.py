"""Holds that what an agent leaves in its worktree is never taken for a repository, a ledger or rules of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from tests.integration.machine import Machine
from tests.integration.sandboxes import sandbox_of
from tests.integration.scripted_agents import GOOD_WORK, Office, Scheduler

pytestmark = pytest.mark.timeout(1200)
OTHER_REPOSITORY = """
commit good
rm .git; git init -q -b main .; mkdir -p .got
git add -A; git commit -qm mine
"""
"""The worktree becomes a repository of the agent's own, with a ledger and rules to its liking."""
PLANTED = """
commit good
mkdir -p .got/events
cp "$NOTES/forged" .got/events/20261116-000000-aaaaaaaa.jsonl
"""
COMMITTED = """
mkdir -p .got/events
cp "$NOTES/forged" .got/events/20261116-000000-aaaaaaaa.jsonl
git add -f .got
commit good
"""
EMPTY = b"0" * 32
Run = Callable[[Office], Scheduler]


@pytest.fixture
def run() -> Iterator[Run]:
    """Runs a scheduler once, to its end."""
    started: list[Scheduler] = []

    def run_once(office: Office) -> Scheduler:
        started.append(Scheduler(office, "--once"))
        assert started[-1].wait() == 0, office.told()
        return started[-1]

    yield run_once
    for one in started:
        one.close()


def office_of(machine: Machine, script: str) -> Office:
    sandbox_of("bubblewrap")
    return Office(machine, {"Fenster": script}, gates=GOOD_WORK, sandbox="required", policy="max_faults = 1")


def test_a_worktree_that_became_another_repository_is_not_taken_for_ours(machine: Machine, run: Run) -> None:
    office = office_of(machine, OTHER_REPOSITORY)
    task = office.add()

    run(office)

    assert office.shown(task)["status"] == "provisional"
    (place,) = machine.state.glob(f"remand/*/worktrees/{task}")
    assert not (place / ".got" / "ledger.db").exists(), "a ledger was made there"
    office.check()


def test_event_files_in_a_worktree_are_not_read(machine: Machine, run: Run) -> None:
    """A worktree of an agent is no part of the repository's log: what stands there is not even kept as unconfirmed."""
    office = office_of(machine, PLANTED)
    other = office.add("Another task", "--depends-on", office.add("The agent's own"))
    (office.notes / "forged").write_bytes(forged(other))

    run(office)

    assert office.wait("task.submit")
    assert office.shown(other)["status"] == "incoming"
    said = office.repository.ok("log", "verify")
    assert (said["problems"], said["unconfirmed"]) == ([], [])


def test_event_files_that_a_confined_agent_commits_hold_its_work(machine: Machine, run: Run) -> None:
    office = office_of(machine, COMMITTED)
    task = office.add()
    (office.notes / "forged").write_bytes(forged(task))

    run(office)

    shown = office.shown(task)
    assert shown["status"] == "claimed", office.told()
    assert [(one["code"], one["path"]) for one in shown["held"]] == [("control_changed", ".got")]


def forged(task: str) -> bytes:
    """A line that says a task was escalated; its id is right."""
    event = {
        "event": "escalation.open",
        "ts": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "meta": {"id": EMPTY.decode(), "session": "20261116-000000-aaaaaaaa", "seq": 1, "actor": "Lead"},
        "task_id": task,
        "reason": "no",
        "deadline": "2099-11-17T03:00:00.000000Z",
    }
    line = json.dumps(event, separators=(",", ":")).encode()
    bare = line.replace(EMPTY, b"")
    return line.replace(EMPTY, sha256(bare).hexdigest()[:32].encode()) + b"\n"
