"""Holds what follows from the events of rejections, also when a merge brings two answers to one rejection."""

from typing import Any

import pytest

from remand.domain.events.reviews import LockoutSet
from remand.domain.events.tasks import (
    Decision,
    HandoffInitiated,
    HandoffRejected,
    HandoffRejectionInvalid,
    HandoffResumed,
    LeaseExpired,
    RejectionAnswered,
    TaskBlocked,
    TaskCancelled,
    TaskFailed,
    TaskInfeasible,
    TaskReleased,
    TaskReopened,
)
from remand.domain.reasons import DecisionType
from remand.domain.task import Status, Task
from remand.testing.builders import H1, H2, LATER, T1, T2, task_added, task_claimed
from tests.support.builders import R1, R2, task_after
from tests.support.rejection_records import LAZY, a_rejection

CLAIMED = (task_added(T1), task_claimed("Alice", H1))


def rejected(
    rejection_id: str = R1, record: dict[str, Any] | None = None, agent: str = "Alice", handoff: str = H1
) -> HandoffRejected:
    return HandoffRejected(
        task_id=T1,
        handoff_id=handoff,
        agent=agent,
        rejection_id=rejection_id,
        rejection=record or a_rejection(),
    )


def invalid(rejection_id: str = R1, agent: str = "Alice", handoff: str = H1) -> HandoffRejectionInvalid:
    return HandoffRejectionInvalid(
        task_id=T1, handoff_id=handoff, agent=agent, rejection_id=rejection_id, rejection=LAZY
    )


def answered(decision: str, rejection_id: str = R1, message: str = "") -> RejectionAnswered:
    return RejectionAnswered(
        task_id=T1,
        handoff_id=H1,
        rejection_id=rejection_id,
        decision=Decision(decision_type=decision, override_message=message),
    )


BLOCKED = TaskBlocked(task_id=T1)
RESUMED = HandoffResumed(task_id=T1, handoff_id=H1, agent="Alice", lease_expires_at=LATER)


def conflicts(task: Task) -> list[str]:
    return [conflict.event for conflict in task.inbox.conflicts]


def test_a_rejection_is_noted_with_its_reason_and_how_the_agent_held_the_task() -> None:
    held = task_after(*CLAIMED, rejected()).rejections.last_rejection
    offer = HandoffInitiated(task_id=T1, handoff_id=H1, target_agent="Alice", lapses_at=LATER)
    offered = task_after(task_added(T1), offer, invalid()).rejections.last_rejection

    assert held is not None
    assert offered is not None
    assert (held.reason, held.is_valid, held.was_claimed, held.decision) == ("BLOCKER", True, True, "")
    assert (offered.is_valid, offered.was_claimed) == (False, False)


def test_the_type_of_an_answer_is_kept_and_not_guessed() -> None:
    for decision in DecisionType.__members__:
        filed = task_after(
            *CLAIMED, rejected(), BLOCKED, answered(decision, message="Override nothing")
        ).rejections.last_rejection
        assert filed is not None
        assert (filed.decision, filed.message) == (decision, "Override nothing")


def test_invalid_rejections_and_giving_up_are_counted_by_agent() -> None:
    task = task_after(
        *CLAIMED,
        invalid(R1),
        invalid(R2),
        TaskFailed(task_id=T1, handoff_id=H1, agent="Alice"),
        TaskReopened(task_id=T1),
        task_claimed("Bob", H2),
        invalid("R-3", "Bob", H2),
    )

    assert task.rejections.invalid_by == ("Alice", "Alice", "Alice", "Bob")


def test_a_valid_rejection_is_not_counted() -> None:
    assert task_after(*CLAIMED, rejected()).rejections.invalid_by == ()


def test_a_rejection_by_someone_who_does_not_hold_the_handoff_is_a_conflict() -> None:
    for event in (rejected(agent="Bob"), rejected(handoff=H2), invalid(agent="Bob")):
        task = task_after(*CLAIMED, event)
        assert task.rejections.last_rejection is None
        assert task.rejections.invalid_by == ()
        assert conflicts(task) == [event.name]


def test_a_task_stops_only_over_a_rejection_by_who_holds_it() -> None:
    """A line that stops a task could be in any file, of any date."""
    released = TaskReleased(task_id=T1, handoff_id=H1, agent="Alice")
    for before in (
        (task_added(T1),),
        CLAIMED,
        (*CLAIMED, rejected(agent="Bob")),
        (*CLAIMED, invalid()),
        (*CLAIMED, rejected(), answered("OVERRIDE")),
        (*CLAIMED, rejected(), released),
    ):
        task = task_after(*before, BLOCKED)
        assert task.status == task_after(*before).status
        assert conflicts(task)[-1] == "task.block"
    assert task_after(*CLAIMED, rejected(), BLOCKED).status == Status.BLOCKED


def test_a_late_rejection_does_not_take_the_task_from_who_has_it_now() -> None:
    expired = LeaseExpired(task_id=T1, handoff_id=H1, agent="Alice")
    task = task_after(*CLAIMED, expired, task_claimed("Bob", H2), rejected(), BLOCKED)

    assert task.claim is not None
    assert (task.claim.agent, conflicts(task)) == ("Bob", ["handoff.reject", "task.block"])


def test_an_answer_to_no_rejection_is_a_conflict() -> None:
    assert conflicts(task_after(*CLAIMED, answered("ACCEPT"))) == ["handoff.reject.response"]
    assert conflicts(task_after(*CLAIMED, rejected(R1), answered("ACCEPT", R2))) == [
        "handoff.reject.response"
    ]


@pytest.mark.parametrize("first", [name for name in DecisionType.__members__ if name != "OVERRIDE"])
@pytest.mark.parametrize("second", list(DecisionType.__members__))
def test_the_first_answer_that_accepts_wins_and_the_other_is_a_conflict(first: str, second: str) -> None:
    task = task_after(*CLAIMED, rejected(), BLOCKED, answered(first), answered(second))

    assert task.rejections.last_rejection is not None
    assert task.rejections.last_rejection.decision == first
    assert conflicts(task) == ["handoff.reject.response"]


@pytest.mark.parametrize("second", list(DecisionType.__members__))
def test_an_override_does_not_stand_in_the_way_of_a_later_answer(second: str) -> None:
    task = task_after(*CLAIMED, rejected(), BLOCKED, answered("OVERRIDE"), RESUMED, answered(second))

    assert task.rejections.last_rejection is not None
    assert task.rejections.last_rejection.decision == second
    assert conflicts(task) == []


def test_an_override_gives_the_task_back_in_a_new_epoch_that_is_no_new_attempt() -> None:
    task = task_after(*CLAIMED, rejected(), BLOCKED, answered("OVERRIDE"), RESUMED)

    assert task.claim is not None
    assert (task.status, task.claim.agent, task.claim.handoff_id) == (Status.CLAIMED, "Alice", H1)
    assert (task.claims.epoch, task.claim.epoch, task.claims.attempt_count) == (2, 2, 1)


def test_a_claim_is_not_resumed_when_the_rejection_was_accepted_first() -> None:
    task = task_after(*CLAIMED, rejected(), BLOCKED, answered("ACCEPT"), answered("OVERRIDE"), RESUMED)

    assert (task.status, task.claim) == (Status.BLOCKED, None)
    assert conflicts(task) == ["handoff.reject.response", "handoff.resume"]


def test_a_claim_is_resumed_by_the_agent_whose_rejection_it_was_and_no_other() -> None:
    start = (*CLAIMED, rejected(), BLOCKED, answered("OVERRIDE"))
    by_bob = HandoffResumed(task_id=T1, handoff_id=H1, agent="Bob", lease_expires_at=LATER)
    elsewhere = HandoffResumed(task_id=T1, handoff_id=H2, agent="Alice", lease_expires_at=LATER)

    for event in (by_bob, elsewhere):
        task = task_after(*start, event)
        assert task.claim is None
        assert conflicts(task) == ["handoff.resume"]


def test_a_claim_is_not_resumed_by_an_agent_locked_out_since() -> None:
    lockout = LockoutSet(task_id=T1, agent="Alice", reason="It leaks")

    task = task_after(*CLAIMED, rejected(), BLOCKED, lockout, answered("OVERRIDE"), RESUMED)

    assert task.claim is None
    assert conflicts(task) == ["handoff.resume"]


def test_what_replaced_a_task_is_kept_with_it() -> None:
    cancelled = task_after(task_added(T1), TaskCancelled(task_id=T1, superseded_by=T2))
    infeasible = task_after(task_added(T1), TaskInfeasible(task_id=T1, reformulated_as=T2))

    assert (cancelled.status, cancelled.links.superseded_by) == (Status.CANCELLED, T2)
    assert (infeasible.status, infeasible.links.superseded_by) == (Status.INFEASIBLE, T2)


@pytest.mark.parametrize(
    "record",
    [{}, {"reason_type": None}, {"reason_type": ["odd"]}, {"reason_type": "x" * 5000}],
    ids=["empty", "none", "list", "long"],
)
def test_any_record_a_file_brings_is_noted(record: dict[str, Any]) -> None:
    filed = task_after(*CLAIMED, rejected(record=record or {"a": 1})).rejections.last_rejection

    assert filed is not None
    assert len(filed.reason) <= 64


def test_the_count_of_invalid_rejections_does_not_grow_without_end() -> None:
    task = task_after(*CLAIMED, *(invalid(f"R-{n}") for n in range(150)))

    assert len(task.rejections.invalid_by) == 100
