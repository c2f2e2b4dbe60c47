"""What is warned of when a task is handed over."""

from __future__ import annotations

from typing import Any

import pytest

from remand.app.analysis.warnings import MAX_TEXT, MAX_WARNINGS, HandoffWarning, handoff_warnings
from remand.domain import commands as c
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.reviews import Finding, ReviewRejected
from remand.domain.events.tasks import (
    Decision,
    HandoffRejected,
    HandoffRejectionInvalid,
    RejectionAnswered,
    TaskReleased,
)
from remand.testing.builders import H1, LATER, Session, task_added, task_claimed, task_id
from tests.support.builders import FakeLedger, gate_passed_and_submitted

ROOF = "Export invoices as PDF"


def no(number: int, agent: str = "Bob", *, is_valid: bool = False, **told: Any) -> list[Event]:
    """The events of a rejection, and of the answer to it."""
    record = {"reason_type": "BLOCKER", "reason_summary": "The render service is down", **told}
    handoff, name = f"{H1}-{number}", task_id(number)
    kind = HandoffRejected if is_valid else HandoffRejectionInvalid
    filed = kind(task_id=name, handoff_id=handoff, agent=agent, rejection_id=f"R-{number}", rejection=record)
    decision = Decision(decision_type="ACCEPT_AND_DEFER" if is_valid else "OVERRIDE")
    answer = RejectionAnswered(
        task_id=name, handoff_id=handoff, rejection_id=filed.rejection_id, decision=decision
    )
    return [task_claimed(agent, handoff, name), filed, answer]


def sent_back(number: int, text: str = "Umlauts are lost") -> list[Event]:
    name, handoff = task_id(number), f"{H1}-{number}"
    findings = (Finding(text="Nice", is_blocking=False), Finding(text=text))
    return [
        task_claimed("Bob", handoff, name),
        *gate_passed_and_submitted("Bob", handoff, name, commit="a" * 40),
        ReviewRejected(task_id=name, reviewer="Lead", commit="a" * 40, findings=findings),
    ]


def warned(*events: Event, task: int = 0, agent: str = "Alice", title: str = ROOF) -> list[HandoffWarning]:
    """The warnings in a ledger with these events."""
    world, session = FakeLedger(), Session()
    own = (
        []
        if any(event_task_id(event) == task_id(task) for event in events)
        else [task_added(task_id(task), title)]
    )
    for event in (*own, *events):
        session.write(event, actor=getattr(event, "agent", "somebody"))
    world.exchange.put("other.jsonl", session.lines)
    world.ledger.refresh()
    with world.store.read() as view:
        return handoff_warnings(view, view.tasks.get(task_id(task)), agent)


def test_there_is_nothing_to_warn_of_in_a_ledger_without_rejections() -> None:
    assert warned(task_added(task_id(1), ROOF)) == []


def test_a_similar_task_that_was_rejected_is_told_with_who_why_and_what_was_decided() -> None:
    (warning,) = warned(task_added(task_id(1), f"{ROOF} files"), *no(1, is_valid=True))

    assert warning.kind == "similar_rejected"
    assert (warning.task_id, warning.title, warning.agent) == (task_id(1), f"{ROOF} files", "Bob")
    assert (warning.reason, warning.decision) == ("BLOCKER", "ACCEPT_AND_DEFER")
    assert warning.summary == "The render service is down"
    assert warning.similarity
    assert 0.62 <= warning.similarity <= 1


def test_an_invalid_rejection_of_a_similar_task_is_told_too() -> None:
    (warning,) = warned(task_added(task_id(1), ROOF), *no(1))

    assert (warning.kind, warning.decision) == ("similar_rejected", "OVERRIDE")


def test_a_review_that_sent_similar_work_back_is_told_with_its_first_blocking_finding() -> None:
    (warning,) = warned(task_added(task_id(1), ROOF), *sent_back(1))

    assert (warning.kind, warning.agent, warning.reason) == ("similar_rejected", "Lead", "REVIEW")
    assert warning.summary == "Umlauts are lost"


def test_of_several_noes_to_a_similar_task_the_latest_is_told() -> None:
    later = ReviewRejected(
        task_id=task_id(1),
        reviewer="Lead",
        commit="a" * 40,
        findings=(Finding(text="Still lost"),),
        ts=LATER,
    )
    resubmitted = [
        task_claimed("Bob", "H-2", task_id(1)),
        *gate_passed_and_submitted("Bob", "H-2", task_id(1), commit="a" * 40),
    ]
    (warning,) = warned(task_added(task_id(1), ROOF), *sent_back(1), *resubmitted, later)

    assert warning.summary == "Still lost"


def test_that_this_very_task_was_rejected_is_told_first() -> None:
    first, second = warned(
        task_added(task_id(0), ROOF), task_added(task_id(1), ROOF), *no(0), *no(1), agent="Alice"
    )

    assert (first.kind, first.agent, first.task_id) == ("task_rejected", "Bob", task_id(0))
    assert second.kind == "similar_rejected"


def test_that_this_agent_rejected_this_task_is_told_as_such() -> None:
    (warning,) = warned(task_added(task_id(0), ROOF), *no(0), agent="Bob")

    assert warning.kind == "agent_rejected_task"
    assert "Bob rejected this task" in warning.message


@pytest.mark.parametrize(
    ("invalid", "valid", "is_told"), [(4, 0, True), (3, 0, False), (9, 1, True), (5, 5, False)]
)
def test_an_agent_is_warned_of_when_most_of_enough_rejections_were_invalid(
    invalid: int, valid: int, is_told: bool
) -> None:
    events: list[Event] = []
    for number in range(1, 1 + invalid + valid):
        title = f"{chr(96 + number) * 5} {chr(97 + number) * 6}"
        events += [task_added(task_id(number), title), *no(number, "Alice", is_valid=number > invalid)]
    found = [warning for warning in warned(*events) if warning.kind == "agent_often_invalid"]

    assert bool(found) == is_told
    assert all(f"{invalid} of the last {invalid + valid}" in warning.message for warning in found)


def test_there_are_never_many_warnings() -> None:
    events = [event for n in range(1, 30) for event in (task_added(task_id(n), ROOF), *no(n))]

    assert len(warned(*events)) == MAX_WARNINGS


def test_a_task_that_met_many_noes_does_not_drown_its_reader() -> None:
    events: list[Event] = [task_added(task_id(0), ROOF)]
    for number in range(9):
        handoff = f"H-{number}"
        filed = HandoffRejectionInvalid(
            task_id=task_id(0), handoff_id=handoff, agent=f"agent-{number}", rejection_id=f"R-{number}"
        )
        released = TaskReleased(task_id=task_id(0), handoff_id=handoff, agent=f"agent-{number}")
        events += [task_claimed(f"agent-{number}", handoff, task_id(0)), filed, released]

    assert [warning.agent for warning in warned(*events)] == [f"agent-{n}" for n in (8, 7, 6, 5, 4)]


def test_hostile_records_are_told_short_and_never_fail() -> None:
    strange = {"reason_type": ["x"], "reason_summary": {"a": 1}, "blocking_factor": "long\n" * 100_000}
    (warning,) = warned(task_added(task_id(1), ROOF), *no(1, **strange))

    assert warning.reason == ""
    assert len(warning.summary) <= MAX_TEXT
    assert "\n" not in warning.message


def test_a_task_that_was_given_another_title_after_a_rejection_is_found_by_the_new_one() -> None:
    world = FakeLedger()
    first, second = world.add(ROOF), world.add("Paint the garden fence")
    world.claim(first)
    world.submit(first)
    world.ask(c.RejectReview(task_id=first, commit="work", findings=(Finding(text="It leaks"),)))
    world.ask(c.EditTask(task_id=first, title="Paint the garden fence"))

    with world.store.read() as view:
        (warning,) = handoff_warnings(view, view.tasks.get(second), "Alice")
    assert warning.task_id == first
