"""Holds that nothing is released of a task while lines of the log are missing that may be a no to it."""

from typing import Any

import pytest

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Actor
from remand.domain.events.log import AbandonedLines, MissingLines
from remand.domain.events.reviews import EscalationOpened, Finding, LockoutSet, ReviewApproved, ReviewRejected
from remand.domain.events.tasks import TaskChanges, TaskEdited
from remand.domain.events.work import GateHeld, GateRejected
from remand.domain.forge import ForgeAction
from remand.domain.gate.verdict import GateStatus
from remand.domain.task import Status, Task
from remand.testing.builders import (
    ALICE,
    H1,
    NOW,
    SHA,
    T1,
    T2,
    TREE,
    a_task,
    an_offer,
    task_added,
    task_claimed,
)
from tests.support.builders import (
    THE_USER,
    a_result,
    a_verdict,
    decide_events,
    gate_passed_and_submitted,
    refusal_code,
    task_after,
)

LINE = MissingLines(session="s", first=7, last=7, id="a", task=T1)
GAP = MissingLines(session="s", first=5, last=8, until=NOW)
HELD = a_verdict(a_result("integrity", GateStatus.HELD, suspicions=("c0ffee001122",)))
RED = a_verdict(a_result("lint"))
UNDER: dict[str, Any] = {"task_id": T1, "handoff_id": H1, "agent": "Alice"}
LOCKED = (task_added(), task_claimed(), *gate_passed_and_submitted(), LockoutSet(task_id=T1, agent="Alice"))
REJECTED = ReviewRejected(
    task_id=T1, reviewer="Lead", commit=SHA, tree=TREE, review_id="V-1", author="Alice", handoff_id=H1
)
ASKED = EscalationOpened(task_id=T1, kind="asked", reason="?", deadline=NOW)
RELEASES: dict[str, tuple[Task, c.Command, Actor, dict[str, Any]]] = {
    "claim": (task_after(task_added()), c.ClaimTask(agent="Alice", task_id=T1), ALICE, {}),
    "accept a handoff": (
        a_task(offers=(an_offer(),)),
        c.AcceptHandoff(handoff_id=H1, agent="Alice"),
        ALICE,
        {},
    ),
    "be assigned": (
        task_after(task_added()),
        c.AssignTask(agent="Alice", run_id="RUN-20261115-090000-00000001", task_id=T1),
        THE_COORDINATOR,
        {"target": ALICE},
    ),
    "submit": (
        task_after(task_added(), task_claimed()),
        c.SubmitTask(task_id=T1, agent="Alice", commit=SHA),
        ALICE,
        {"gates": (), "commit": SHA, "tree": TREE},
    ),
    "complete": (
        task_after(task_added(), task_claimed()),
        c.CompleteHandoff(handoff_id=H1, agent="Alice", commit=SHA),
        ALICE,
        {"gates": (), "commit": SHA, "tree": TREE},
    ),
    "pass the gates": (
        task_after(task_added(), task_claimed()),
        c.RecordVerdict(task_id=T1, agent="Alice", verdict=a_verdict()),
        THE_COORDINATOR,
        {},
    ),
    "accept a finding": (
        task_after(task_added(), task_claimed(), GateHeld(verdict=HELD, lease_expires_at="2027", **UNDER)),
        c.SettleFinding(task_id=T1, finding="c0ffee001122", is_accepted=True, reason="fine"),
        THE_USER,
        {},
    ),
    "override a gate": (
        task_after(task_added(), task_claimed(), GateRejected(verdict=RED, number=1, **UNDER)),
        c.OverrideGate(task_id=T1, gate="lint", reason="fine"),
        THE_USER,
        {"commit": SHA, "tree": TREE},
    ),
    "approve": (
        task_after(task_added(), task_claimed(), *gate_passed_and_submitted()),
        c.ApproveReview(task_id=T1, commit=SHA),
        THE_USER,
        {"commit": SHA, "tree": TREE},
    ),
    "retract a rejection": (
        task_after(task_added(), task_claimed(), *gate_passed_and_submitted(), REJECTED),
        c.RetractReview(task_id=T1, reason="wrong"),
        THE_USER,
        {},
    ),
    "unlock": (task_after(*LOCKED), c.Unlock(task_id=T1, agent="Alice", reason="fine"), THE_USER, {}),
    "answer with an unlock": (
        task_after(*LOCKED, ASKED),
        c.AnswerEscalation(task_id=T1, option="unlock:Alice"),
        THE_USER,
        {},
    ),
    "take it over by hand": (
        task_after(task_added(), ASKED),
        c.AnswerEscalation(task_id=T1, option="fix"),
        THE_USER,
        {},
    ),
}


@pytest.mark.parametrize(("task", "ask", "by", "facts"), RELEASES.values(), ids=RELEASES.keys())
@pytest.mark.parametrize("lines", [LINE, GAP], ids=["a line", "a gap"])
def test_a_release_is_refused_while_lines_are_missing(
    task: Task, ask: c.Command, by: Actor, facts: dict[str, Any], lines: MissingLines
) -> None:
    assert decide_events(task, ask, by, **facts)
    assert refusal_code(task, ask, by, **facts, missing=(lines,)) == "lines_missing"


def test_a_merge_on_the_forge_is_refused_while_lines_are_missing() -> None:
    approved = ReviewApproved(task_id=T1, reviewer="Lead", commit=SHA, tree=TREE)
    edited = TaskEdited(id=f"task:{T1}", changes=TaskChanges(pr=7))
    task = task_after(task_added(), task_claimed(), *gate_passed_and_submitted(), edited, approved)
    merge = c.PlanForgeAction(task_id=T1, act=ForgeAction.MERGE, about=SHA)

    assert decide_events(task, merge, THE_COORDINATOR, forge_actions=(ForgeAction.MERGE,))
    assert (
        refusal_code(task, merge, THE_COORDINATOR, forge_actions=(ForgeAction.MERGE,), missing=(LINE,))
        == "lines_missing"
    )


def test_a_task_whose_sub_tasks_have_ended_stays_open_while_lines_are_missing() -> None:
    task = a_task(status=Status.DECOMPOSED, children=(T2,))
    settle = c.SettleTask(task_id=T1)

    assert decide_events(task, settle, THE_COORDINATOR, child_statuses=("done",))
    assert decide_events(task, settle, THE_COORDINATOR, child_statuses=("done",), missing=(GAP,)) == ()


@pytest.mark.parametrize(
    "ask",
    [
        c.RejectReview(task_id=T1, commit=SHA, findings=(Finding(text="It leaks"),)),
        c.CancelTask(task_id=T1),
        c.LockOut(task_id=T1, agent="Alice", reason="x"),
    ],
    ids=["reject", "cancel", "lock out"],
)
def test_a_no_is_taken_although_lines_are_missing(ask: c.Command) -> None:
    task = task_after(task_added(), task_claimed(), *gate_passed_and_submitted())

    assert decide_events(task, ask, THE_USER, commit=SHA, tree=TREE, missing=(LINE, GAP))


def test_lines_whose_task_is_known_concern_that_task_alone() -> None:
    assert LINE.may_concern({T1}, NOW)
    assert not LINE.may_concern({T2}, NOW)


def test_a_gap_concerns_every_task_that_was_there_before_its_end() -> None:
    assert GAP.may_concern({T2}, "2026-11-15T08:59:59.000000Z")
    assert not GAP.may_concern({T2}, NOW)
    assert MissingLines(session="s", first=5, last=8).may_concern({T2}, NOW)


def test_what_was_given_up_are_the_numbers_of_one_session() -> None:
    given_up = AbandonedLines(session="s", first=2, last=3)

    assert [given_up.covers("s", n) for n in (1, 2, 3, 4)] == [False, True, True, False]
    assert not given_up.covers("t", 2)
