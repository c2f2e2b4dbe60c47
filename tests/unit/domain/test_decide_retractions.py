"""Holds that a false rejection takes back what followed from it, and by whom it is taken back."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import Role
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.reviews import LockoutCleared, ReviewApproved, ReviewRetracted
from remand.domain.events.tasks import TaskReleased
from remand.domain.events.work import GateRejected
from remand.domain.task import Review, Status, Task, update_task
from remand.testing.builders import (
    H2,
    H3,
    SHA,
    T1,
    T2,
    TREE,
    Session,
    a_lockout,
    a_submission,
    a_task,
    actor,
    task_added,
    task_claimed,
)
from tests.support.builders import (
    LEAD,
    OTHER_SHA,
    THE_USER,
    V1,
    V2,
    V3,
    a_result,
    a_round,
    a_verdict,
    decide_events,
    gate_passed,
    gate_passed_and_submitted,
    refusal_code,
    review_rejected,
    review_retracted,
    task_after,
)
from tests.support.log_check import log_faults

TESS = actor("Tess", Role.TESTER)
RETRACT = c.RetractReview(task_id=T1, reason="It was right")
LOCKED = a_lockout("Alice", review_id=V1)
SENT_BACK = a_task(
    status=Status.REJECTED, submission=a_submission(), rounds=(a_round(V1),), lockouts=(LOCKED,)
)


def reviews(*said: tuple[str, str], gone: tuple[str, ...] = ()) -> tuple[Review, ...]:
    return tuple(Review(id=name, reviewer=who, is_retracted=name in gone) for name, who in said)


def retracted(task: Task, by: Any = LEAD, review_id: str = "", **facts: Any) -> str:
    event = decide_events(task, replace(RETRACT, review_id=review_id), by, **facts)[0]
    assert isinstance(event, ReviewRetracted)
    return event.review_id


def test_a_reviewer_takes_its_own_rejection_back_with_a_reason() -> None:
    assert decide_events(SENT_BACK, RETRACT, LEAD) == (
        ReviewRetracted(task_id=T1, review_id=V1, reviewer="Lead", reason="It was right"),
    )
    assert refusal_code(SENT_BACK, replace(RETRACT, reason=" "), LEAD) == "bad_value"


def test_nobody_else_does_but_the_user() -> None:
    for name in ("", V1):
        assert refusal_code(SENT_BACK, replace(RETRACT, review_id=name), TESS) == "not_yours"
        assert retracted(SENT_BACK, THE_USER, name) == V1
    confined = actor("u", Role.USER, Role.LEAD, confined=True)
    assert refusal_code(SENT_BACK, RETRACT, confined) == "not_yours"


def test_without_an_id_it_is_the_last_of_the_reviewers_own_that_stands() -> None:
    said = reviews((V1, "Lead"), (V2, "Lead"), (V3, "Tess"), gone=(V2,))
    task = update_task(SENT_BACK, rounds=(a_round(reviews=said),))

    assert retracted(task, LEAD) == V1
    assert retracted(task, TESS) == V3
    assert retracted(task, THE_USER) == V3
    later = a_round(agent="Bob", handoff_id=H2, reviews=reviews(("V-4", "Lead")))
    assert retracted(update_task(task, rounds=(*task.reviews.rounds, later)), LEAD) == "V-4"


def test_the_users_own_rejection_is_meant_before_that_of_others() -> None:
    said = reviews((V1, "user"), (V2, "Tess"))

    assert retracted(update_task(SENT_BACK, rounds=(a_round(reviews=said),)), THE_USER) == V1


def test_what_does_not_stand_is_not_taken_back() -> None:
    gone = update_task(SENT_BACK, rounds=(a_round(reviews=reviews((V1, "Lead"), gone=(V1,))),))

    assert refusal_code(gone, RETRACT, LEAD) == "nothing_to_retract"
    assert refusal_code(gone, replace(RETRACT, review_id=V1), LEAD) == "nothing_to_retract"
    assert refusal_code(SENT_BACK, replace(RETRACT, review_id=V2), THE_USER) == "nothing_to_retract"
    assert refusal_code(a_task(), RETRACT, THE_USER) == "nothing_to_retract"


@pytest.mark.parametrize("status", sorted(Status))
def test_a_rejection_is_taken_back_whatever_became_of_the_task_unless_that_changes_nothing(
    status: Status,
) -> None:
    task = replace(SENT_BACK, status=status)

    if status in (Status.DONE, Status.CANCELLED):
        assert refusal_code(task, RETRACT, LEAD) == "bad_transition"
    else:
        assert retracted(task) == V1


# The lockout that several rejections brought about.

FIRST, SECOND = a_round(V1), a_round(V2, handoff_id=H2)
TWICE = update_task(SENT_BACK, rounds=(FIRST, SECOND), lockouts=(a_lockout("Alice", review_id=V2),))


def cleared(task: Task, review_id: str, **facts: Any) -> list[Event]:
    return list(decide_events(task, replace(RETRACT, review_id=review_id), LEAD, **facts)[1:])


def test_a_lockout_ends_when_too_few_rejections_are_left_for_it() -> None:
    (event,) = cleared(TWICE, V1, lockout_after=2)

    assert event == LockoutCleared(
        task_id=T1, agent="Alice", reason=f"rejection {V1} was retracted", review_id=V1
    )


@pytest.mark.parametrize("after", [0, 1])
def test_a_lockout_stays_while_enough_rejections_are_left_for_it(after: int) -> None:
    assert cleared(TWICE, V1, lockout_after=after) == []


def test_with_no_rejection_left_a_lockout_for_rejections_ends_whatever_the_policy_says_by_now() -> None:
    task = update_task(SENT_BACK, lockouts=(a_lockout("Alice", review_id=V2),))

    for after in (0, 1, 2):
        assert len(cleared(task, V1, lockout_after=after)) == 1


def test_what_others_were_rejected_for_does_not_keep_a_lockout() -> None:
    bobs = a_round(V3, agent="Bob", handoff_id=H3)

    assert len(cleared(update_task(TWICE, rounds=(FIRST, bobs, SECOND)), V1, lockout_after=2)) == 1


def test_a_lockout_stays_while_another_review_of_the_same_work_stands() -> None:
    both = a_round(reviews=reviews((V1, "Lead"), (V3, "Tess")))

    assert cleared(update_task(TWICE, rounds=(both, SECOND)), V1, lockout_after=2) == []


def test_a_lockout_on_somebodys_own_word_stays() -> None:
    task = update_task(TWICE, lockouts=(a_lockout("Alice"),))

    assert cleared(task, V1, lockout_after=2) == []
    assert cleared(task, V2, lockout_after=2) == []


def test_what_the_fold_ends_by_itself_is_not_said_again() -> None:
    assert cleared(TWICE, V2, lockout_after=2) == []
    assert cleared(SENT_BACK, V1) == []


# Tasks that were cut from it.


def test_a_lockout_that_went_along_to_other_tasks_ends_there_too() -> None:
    descendants = ((T2, "Alice"), (T2, "Bob"))

    (event,) = cleared(SENT_BACK, V1, descendants=descendants)

    assert event == LockoutCleared(
        task_id=T2,
        agent="Alice",
        reason=f"rejection {V1} was retracted",
        review_id=V1,
        inherited_from=T1,
    )


def test_a_lockout_that_stays_stays_on_other_tasks() -> None:
    descendants = ((T2, "Alice"),)
    both = a_round(reviews=reviews((V1, "Lead"), (V3, "Tess")))

    assert cleared(TWICE, V1, descendants=descendants) == []
    assert cleared(update_task(SENT_BACK, rounds=(both,)), V1, descendants=descendants) == []
    assert [
        event_task_id(event) for event in cleared(TWICE, V1, descendants=descendants, lockout_after=2)
    ] == [T1, T2]


def test_a_retraction_ends_no_lockout_that_somebody_set_by_word_because_another_agent_was_rejected() -> None:
    by_word, others = a_lockout("Alice"), a_lockout("Bob", review_id=V2)
    task = update_task(SENT_BACK, lockouts=(by_word, others))

    assert [event.name for event in decide_events(task, RETRACT, LEAD)] == ["review.retract"]


OF_BOB: dict[str, Any] = {"task_id": T1, "handoff_id": H2, "agent": "Bob"}
GIVEN_BACK = TaskReleased(**OF_BOB)
FAILED = GateRejected(**OF_BOB, verdict=a_verdict(a_result()), number=1)
OTHER_FAILED = GateRejected(**OF_BOB, verdict=a_verdict(a_result(), commit=OTHER_SHA, tree="other"), number=1)
PASSED = gate_passed("Bob", H2)
MEASURED_SINCE: dict[str, tuple[tuple[Event, ...], bool]] = {
    "nothing": ((GIVEN_BACK,), True),
    "other code, which failed": ((OTHER_FAILED, GIVEN_BACK), True),
    "the same code, which failed": ((FAILED, GIVEN_BACK), False),
    "the same code and then other code": ((FAILED, OTHER_FAILED, GIVEN_BACK), False),
    "the same code, which failed and then passed": ((FAILED, PASSED, GIVEN_BACK), True),
}
"""What another agent had measured before a rejection was retracted, and whether the work can be approved then."""


@pytest.mark.parametrize("measured", MEASURED_SINCE)
def test_work_that_comes_under_review_again_is_approved_only_while_its_last_verdict_released_it(
    measured: str,
) -> None:
    since, is_released = MEASURED_SINCE[measured]
    submitted = (task_added(), task_claimed(), *gate_passed_and_submitted())
    events = (
        *submitted,
        review_rejected(),
        task_claimed("Bob", H2, epoch=2),
        *since,
        review_retracted(),
    )
    task, log = task_after(*events), Session()
    for event in (*events, ReviewApproved(task_id=T1, reviewer="Lead", commit=SHA, tree=TREE)):
        log.write(event)
    approve = c.ApproveReview(task_id=T1, commit="HEAD")

    assert task.status == Status.PROVISIONAL
    assert bool(log_faults(log.lines)) is not is_released, "the checker of logs says the same"
    if is_released:
        assert [event.name for event in decide_events(task, approve, LEAD, commit=SHA)] == ["review.approve"]
    else:
        assert refusal_code(task, approve, LEAD, commit=SHA) == "not_measured"
