"""Holds that the audit of runs sees what it is there to see."""

from typing import Any

import pytest

from tests.integration.machine import PATIENCE, Machine
from tests.integration.run_audit import Audit, Event
from tests.integration.scripted_agents import Office

TASK = "T-1"


def event(name: str, **fields: Any) -> Event:
    return {"event": name, "task_id": TASK, **fields}


def claim(agent: str = "Alice", handoff: str = "H-1") -> Event:
    return event("task.claim", agent=agent, handoff_id=handoff)


def start(run: str = "RUN-1", agent: str = "Alice", handoff: str = "H-1", **more: str) -> Event:
    return event("run.start", run_id=run, agent=agent, handoff_id=handoff, **more)


def end(run: str = "RUN-1", how: str = "exited") -> Event:
    return event("run.end", run_id=run, how=how)


def submit(agent: str = "Alice", handoff: str = "H-1", tree: str = "tree") -> Event:
    return event("task.submit", agent=agent, handoff_id=handoff, tree=tree, commit="commit")


ADDED: Event = {"event": "node.create", "type": "TASK", "id": f"task:{TASK}"}
PASSED = event("gate.pass", verdict={"tree": "tree"})
APPROVED = event("review.approve", reviewer="Lead", commit="commit", tree="tree")
RETURNED = event("task.return", handoff_id="H-1", agent="Alice")
LOCKED = event("lockout.set", agent="Alice")


def test_a_life_without_fault_is_done() -> None:
    audit = Audit([ADDED, claim(), start(), end(), PASSED, submit(), APPROVED])

    assert audit.broken == audit.open_runs == []
    assert audit.statuses == {TASK: "done"}


@pytest.mark.parametrize(
    ("what", "events"),
    [
        ("claimed while", [claim(), claim("Bob", "H-2")]),
        ("won twice", [claim(), RETURNED, claim("Bob")]),
        ("locked out", [LOCKED, claim()]),
        ("locked out", [claim(), PASSED, LOCKED, submit()]),
        ("holds it", [claim(), PASSED, LOCKED, submit()]),
        ("holds it", [claim(), PASSED, RETURNED, submit()]),
        ("holds it", [claim(), PASSED, submit("Bob")]),
        ("not let through", [claim(), submit()]),
        ("not let through", [claim(), PASSED, submit(), {**APPROVED, "tree": "other"}]),
        ("its author", [claim(), PASSED, submit(), {**APPROVED, "reviewer": "Alice"}]),
        ("is at work", [claim(), start(), start("RUN-2")]),
        ("is at work", [claim(), start(), RETURNED, claim("Bob", "H-2"), start("RUN-2", "Bob", "H-2")]),
        ("not under way", [claim(), start(), end(), end()]),
        ("holds it", [start()]),
        ("never written down", [{**claim(), "task_id": "T-2"}]),
    ],
)
def test_what_must_not_be_is_seen(what: str, events: list[Event]) -> None:
    assert any(what in row for row in Audit([ADDED, *events]).broken)


def test_a_run_without_an_end_is_seen() -> None:
    assert Audit([ADDED, claim(), start()]).open_runs == ["RUN-1"]


def test_two_agents_at_once_on_one_task_give_themselves_away(machine: Machine) -> None:
    office = Office(machine, {"Alice": "until_let\n"})
    given = {"REMAND_TASK": TASK, "REMAND_HANDOFF": "H-1"}
    first, second = (
        machine.start(office.notes, str(office.scripts / "Alice"), env={**given, "REMAND_ACTOR": name})
        for name in ("Alice", "Bob")
    )

    for name in ("Alice", "Bob"):
        office.wait_for_note(f"folder.{TASK}.{name}.1")
    office.let_go()

    assert first.wait(PATIENCE) == second.wait(PATIENCE) == 0
    assert office.noted("twice").strip() in ("Alice", "Bob")
