"""A done claim's way through the ledger: asked once whether it needs measuring, and once to record."""

from types import SimpleNamespace
from typing import Any

import pytest

from remand.app.gates.done_claims import ClaimOutcome, DoneClaims
from remand.app.gates.known_results import VerdictResult
from remand.app.requests import Acceptance, Request, Rules
from remand.domain import commands as c
from remand.domain.events.tasks import TaskSubmitted
from remand.domain.gate.verdict import GateStatus, Verdict
from remand.domain.refusals import Refused
from tests.support.builders import FakeLedger, a_result, a_verdict


def a_world(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeLedger, str, list[str]]:
    """A ledger with a claimed task, and a list that grows with every change of the ledger."""
    world = FakeLedger(rules=Rules(gates=("tests",), gates_digest="p1"))
    task, _ = world.add_and_claim()
    changes: list[str] = []
    write = world.store.write
    monkeypatch.setattr(world.store, "write", lambda: (changes.append("change"), write())[1])
    return world, task, changes


def claim(world: FakeLedger, task: str, verdict: Verdict) -> ClaimOutcome | None:
    def terms(*_: object) -> Any:
        return SimpleNamespace(claimed_under=None)

    claims = DoneClaims(world.ledger, terms, lambda _: VerdictResult(verdict))
    request = Request(command=c.SubmitTask(task_id=task, agent="Alice", commit="work"), actor="Alice")
    return claims.claim(request, world.ledger.ask)


def passing(world: FakeLedger) -> Verdict:
    sha = world.repository.add("work")
    return a_verdict(a_result("tests", GateStatus.PASSED), commit=sha, tree="tree of work", policy="p1")


def test_a_claim_that_passes_takes_two_changes_of_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    world, task, changes = a_world(monkeypatch)

    found = claim(world, task, passing(world))

    assert found is not None
    assert isinstance(found.answer, Acceptance)
    assert any(isinstance(event, TaskSubmitted) for event in found.answer.events)
    assert len(changes) == 2


def test_a_claim_that_fails_takes_two_changes_and_is_not_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    world, task, changes = a_world(monkeypatch)
    world.repository.add("work")

    found = claim(world, task, a_verdict(a_result("tests", excess=3.0), policy="p1"))

    assert found is not None
    assert isinstance(found.answer, Refused)
    assert found.answer.code == "gate_rejected"
    assert len(changes) == 2


def test_a_claim_that_needs_no_measuring_takes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world, task, changes = a_world(monkeypatch)

    found = claim(world, task, a_verdict(policy="p1"))

    assert found is not None
    assert isinstance(found.answer, Refused)
    assert found.answer.code != "not_measured"
    assert len(changes) == 1
