"""Holds that the transition table is whole: every status can be left, every row is obeyed."""

import pytest
from msgspec.structs import replace

from remand.domain.events.catalogue import NATIVE
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationAnswered, ReviewRetracted, TaskReassigned
from remand.domain.events.tasks import TaskBlocked, TaskReopened
from remand.domain.events.work import TaskReturned
from remand.domain.evolve import evolve
from remand.domain.gate.state import GateState
from remand.domain.task import CLAIMABLE, QUEUES, TERMINAL, TRANSITIONS, LastRejection, Status, Task
from remand.testing.builders import H1, SHA, TREE, Session, a_claim, a_submission, a_task
from tests.support.builders import E1, R1, V1, a_round, an_escalation, an_event, stamp_events

KINDS = {str(kind.__struct_config__.tag): kind for kind in NATIVE}
ROWS = [name for name in TRANSITIONS if name in KINDS]
BEATS_AN_APPROVAL = ("review.reject", Status.DONE)
"""Whatever their order; `test_evolve.py` holds it."""


def task_in(status: Status) -> Task:
    answer = (Session().name, 9)
    overridden = LastRejection(
        rejection_id=R1, handoff_id=H1, agent="Alice", decision="OVERRIDE", answer=answer
    )
    is_sent_back = status in TRANSITIONS["review.retract"].sources
    return a_task(
        status=status,
        claim=a_claim() if status == Status.CLAIMED else None,
        submission=a_submission(),
        rounds=(a_round(),) if is_sent_back else (),
        escalation=an_escalation("reviews"),
        last_rejection=overridden,
        gates=GateState(is_released=True, commit=SHA, tree=TREE),
    )


def about_it(event: Event) -> Event:
    """The event, about the question, the rejection and the holder that the task has."""
    match event:
        case ReviewRetracted():
            return replace(event, review_id=V1)
        case EscalationAnswered():
            return replace(event, escalation_id=E1)
        case TaskBlocked():
            return replace(event, rejection_id=R1)
        case TaskReturned():
            return replace(event, has_work=False)
        case TaskReopened():
            return replace(event, undoes="")
        case TaskReassigned():
            return replace(event, source="Alice", target="Bob")
    return event


@pytest.mark.parametrize("name", TRANSITIONS)
def test_every_row_is_of_an_event_there_is_or_of_one_that_is_to_come(name: str) -> None:
    assert name in KINDS


@pytest.mark.parametrize("status", sorted(Status))
def test_a_status_can_be_left_unless_it_is_terminal(status: Status) -> None:
    ways_out = {
        name for name, step in TRANSITIONS.items() if status in step.sources and step.target != status
    }

    assert bool(ways_out) == (status not in TERMINAL)


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.INCOMING}))
def test_every_status_can_be_come_to(status: Status) -> None:
    targets = {step.target for step in TRANSITIONS.values()}

    assert status in targets | {Status.CANCELLED}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("status", sorted(Status))
def test_an_event_applies_where_its_row_says_and_nowhere_else(name: str, status: Status) -> None:
    step, before = TRANSITIONS[name], task_in(status)

    after = evolve(before, stamp_events(about_it(an_event(KINDS[name])))[0])

    assert after is not None
    if status in step.sources:
        assert after.status == (step.target or before.queue)
        assert not after.inbox.conflicts
    elif (name, status) != BEATS_AN_APPROVAL:
        assert after.status == status


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("queue", QUEUES)
def test_a_row_without_a_target_leads_back_to_the_queue(name: str, queue: Status) -> None:
    step = TRANSITIONS[name]
    if step.target is not None:
        return
    before = replace(task_in(min(step.sources)), queue=queue)

    after = evolve(before, stamp_events(about_it(an_event(KINDS[name])))[0])

    assert after is not None
    assert after.status == queue


def test_what_can_be_claimed_is_what_stands_in_a_queue() -> None:
    assert set(QUEUES) == CLAIMABLE
    assert TRANSITIONS["task.claim"].sources == TRANSITIONS["handoff.accept"].sources == CLAIMABLE
