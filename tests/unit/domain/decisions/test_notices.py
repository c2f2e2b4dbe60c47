"""Holds what the user is told without being asked: alerts about a claim, and overrides in their name."""

from typing import Any

import pytest

from remand.domain import commands as c
from remand.domain.access.team import Actor, Role
from remand.domain.decisions.escalations import escalation_options
from remand.domain.decisions.notices import open_alert, render_alert
from remand.domain.events.event import Event
from remand.domain.events.reviews import LockoutCleared, LockoutSet, ReviewRejected
from remand.domain.events.tasks import RejectionAnswered
from remand.domain.events.work import GateAlerted, GateOverridden
from remand.domain.task import Status, Task
from remand.testing.builders import ALICE, BOB, H1, H2, SHA, T1, TREE, a_lockout, a_task, actor, task_claimed
from tests.support.builders import (
    LEAD,
    THE_USER,
    a_filed_rejection,
    decide_events,
    refusal_code,
    stamp_events,
)
from tests.support.rejection_records import a_rejection
from tests.unit.domain.done_claims import (
    WORK,
    Story,
    held,
    names,
    overriding,
    passed,
    recording,
    settling,
)

SAME = "same-0123456789ab"


def alerts(story: Story) -> list[GateAlerted]:
    return [event for event in story.events if isinstance(event, GateAlerted)]


def alerted(**facts: Any) -> Story:
    story = Story()
    story.rejected(9, 8, 7, **facts)
    return story


# Alerts.


def test_an_alert_names_the_claim_and_when_a_human_takes_over() -> None:
    (alert,) = alerts(alerted(escalate_after_gates=6))

    assert (alert.handoff_id, alert.agent, alert.number) == (H1, "Alice", 3)
    assert (alert.alert_after, alert.escalate_after) == (3, 6)


def test_an_alert_is_open_until_it_is_acknowledged() -> None:
    story = alerted()
    found = open_alert(story.task)
    assert found is not None
    assert found.id.startswith("A-")
    assert (found.number, found.notified, found.acknowledged_by) == (3, (), "")

    story.ask(c.AcknowledgeEscalation(task_id=T1, escalation_id=found.id), THE_USER)

    assert open_alert(story.task) is None
    assert (story.task.status, story.holder()) == (Status.CLAIMED, "Alice")


@pytest.mark.parametrize("amounts", [(6,), (6, 5, 4, 3)], ids=["the fourth", "up to the seventh"])
def test_further_rejections_of_a_claim_alert_no_more(amounts: tuple[float, ...]) -> None:
    story = alerted()
    found = open_alert(story.task)
    story.rejected(*amounts)

    assert len(alerts(story)) == 1
    assert open_alert(story.task) == found


def test_an_acknowledged_alert_does_not_come_back_with_the_next_rejection() -> None:
    story = alerted()
    story.ask(c.AcknowledgeEscalation(task_id=T1), THE_USER)
    story.rejected(6, 5)

    assert open_alert(story.task) is None


def test_a_threshold_that_was_lowered_below_the_count_alerts_at_the_next_rejection() -> None:
    story = Story()
    story.rejected(9, 8, 7, 6, alert_after_gates=6)
    assert not alerts(story)

    assert story.rejected(5, 4, alert_after_gates=2) == [["gate.reject", "gate.alert"], ["gate.reject"]]
    assert alerts(story)[0].number == 5


def test_a_threshold_that_was_raised_alerts_once_more() -> None:
    story = alerted()

    assert story.rejected(6, 5, 4, alert_after_gates=5) == [
        ["gate.reject"],
        ["gate.reject", "gate.alert"],
        ["gate.reject"],
    ]


def test_another_claim_has_an_alert_of_its_own() -> None:
    story = alerted()
    story.ask(c.ReleaseTask(task_id=T1, agent="Alice"), ALICE)
    assert open_alert(story.task) is None
    story.ask(c.ClaimTask(task_id=T1, agent="Bob"), BOB, handoff_id=H2)
    assert open_alert(story.task) is None

    story.rejected(9, 8, 7)

    assert [alert.agent for alert in alerts(story)] == ["Alice", "Bob"]
    assert open_alert(story.task) is not None


@pytest.mark.parametrize(
    "end",
    [
        lambda story: story.ask(recording(passed())),
        lambda story: story.rejected(7, 7),
        lambda story: story.ask(c.ReleaseTask(task_id=T1, agent="Alice"), ALICE),
        lambda story: story.ask(c.EscalateTask(task_id=T1, reason="stuck"), THE_USER),
        lambda story: story.ask(c.CancelTask(task_id=T1), THE_USER),
    ],
    ids=["it passes", "it is escalated", "it is released", "the user is asked", "it is cancelled"],
)
def test_an_alert_ends_with_what_it_is_about(end: Any) -> None:
    story = alerted()
    end(story)

    assert open_alert(story.task) is None


def test_an_alert_is_told_once_a_channel() -> None:
    story = alerted()
    found = open_alert(story.task)
    assert found is not None
    note = c.NoteDelivery(task_id=T1, escalation_id=found.id, channel="chat")

    assert names(story.ask(note)) == ["escalation.notify"]
    assert story.ask(note) == ()
    told = open_alert(story.task)
    assert told is not None
    assert told.notified == ("chat",)


def test_an_alert_offers_to_acknowledge_or_to_take_over_and_not_its_own_agent() -> None:
    task = alerted().task

    assert [one.key for one in escalation_options(task, [ALICE, BOB])] == ["ack", "fix", "reassign:Bob"]


def answer(story: Story, option: str, **facts: Any) -> tuple[Event, ...]:
    found = open_alert(story.task)
    ask = c.AnswerEscalation(task_id=T1, escalation_id=found.id if found else "", option=option)
    return story.ask(ask, THE_USER, agents=(ALICE, BOB), has_team=True, handoff_id=H2, **facts)


def test_the_user_may_acknowledge_an_alert_as_an_answer() -> None:
    story = alerted()
    answer(story, "ack")

    assert open_alert(story.task) is None
    assert story.holder() == "Alice"


def test_the_user_may_take_the_task_over_on_an_alert() -> None:
    story = alerted()
    answer(story, "fix")

    assert story.task.claim is not None
    assert (story.task.claim.agent, bool(story.task.people.fixer)) == ("user", True)
    assert open_alert(story.task) is None


def test_the_user_may_give_the_task_to_another_agent_on_an_alert() -> None:
    story = alerted()
    answer(story, "reassign:Bob", target=BOB)

    assert story.task.claim is None
    assert [offer.target for offer in story.task.claims.offers] == ["Bob"]


@pytest.mark.parametrize("option", ["reassign:Alice", "nonsense", "unlock:Alice", "reopen", "retry", ""])
def test_an_alert_takes_no_other_answer(option: str) -> None:
    story = alerted()
    ask = c.AnswerEscalation(task_id=T1, option=option)

    assert refusal_code(story.task, ask, THE_USER, agents=(ALICE, BOB), target=ALICE) == "bad_value"


def test_an_answer_to_an_alert_that_has_ended_is_refused() -> None:
    story = alerted()
    found = open_alert(story.task)
    story.ask(recording(passed()))

    assert found is not None
    ask = c.AnswerEscalation(task_id=T1, escalation_id=found.id, option="fix")
    assert refusal_code(story.task, ask, THE_USER) == "nothing_to_answer"


@pytest.mark.parametrize("who", [ALICE, LEAD], ids=lambda who: who.name)
def test_nobody_but_the_user_answers_an_alert(who: Actor) -> None:
    task = alerted().task

    for ask in (c.AcknowledgeEscalation(task_id=T1), c.AnswerEscalation(task_id=T1, option="fix")):
        assert refusal_code(task, ask, who) == "user_only"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, "first"),
        (3, "third"),
        (8, "eighth"),
        (11, "11th"),
        (12, "12th"),
        (21, "21st"),
        (22, "22nd"),
        (113, "113th"),
    ],
)
def test_an_agent_reads_the_policys_own_numbers(number: int, expected: str) -> None:
    assert render_alert(number, 40) == (
        f"This is the {expected} rejection; at 40, or after two without progress, a human takes over."
    )


# Overrides in the user's name.


def texts(task: Task) -> list[str]:
    return [notice.text for notice in task.inbox.notices]


def after(task: Task, *events: Event) -> Task:
    """The task after what was decided, by whom it was asked."""
    from remand.domain.evolve import evolve

    found: Task | None = task
    for event in stamp_events(*events):
        found = evolve(found, event)
    assert found is not None
    return found


def test_a_gate_override_is_to_be_told() -> None:
    story = Story()
    story.rejected(3)
    story.ask(overriding(), THE_USER)

    (notice,) = story.task.inbox.notices
    assert notice.id.startswith("N-")
    assert "let the gate tests pass" in notice.text
    assert "It must go out." in notice.text


def test_an_unlock_is_to_be_told() -> None:
    task = a_task(lockouts=(a_lockout("Alice"),))
    events = decide_events(task, c.Unlock(task_id=T1, agent="Alice", reason="it was a mistake"), THE_USER)

    (text,) = texts(after(task, *events))
    assert "unlocked Alice" in text
    assert "it was a mistake" in text


def test_an_unlock_by_an_answer_is_to_be_told() -> None:
    story = Story()
    story.rejected(9, 9, 9, 9, 9)
    story.events.append(LockoutSet(task_id=T1, agent="Alice", reason="no"))
    story.ask(c.AnswerEscalation(task_id=T1, option="unlock:Alice"), THE_USER, agents=(ALICE,), handoff_id=H2)

    (text,) = texts(story.task)
    assert "unlocked Alice" in text


def test_what_is_unlocked_with_it_is_not_told_again() -> None:
    task = a_task(lockouts=(a_lockout("Alice"),))
    ask = c.Unlock(task_id=T1, agent="Alice", reason="it was a mistake")
    events = decide_events(task, ask, THE_USER, descendants=(("T-20261115-090000-00000099", "Alice"),))

    assert [event.by_user for event in events if isinstance(event, LockoutCleared)] == [True, False]


def test_a_rejected_change_that_the_user_lets_pass_is_to_be_told() -> None:
    story = Story()
    story.ask(recording(held(SAME)))
    story.ask(settling(SAME, reason="fine now"), THE_USER)

    (text,) = texts(story.task)
    assert SAME in text
    assert "rejected before" in text


def test_a_finding_that_a_reviewer_accepts_is_an_ordinary_review() -> None:
    story = Story()
    story.ask(recording(held("f1")))
    story.ask(settling("f1"), LEAD)

    assert texts(story.task) == []


def overruling(by: Actor) -> tuple[Task, tuple[Event, ...]]:
    task = a_task(
        status=Status.BLOCKED,
        last_rejection=a_filed_rejection(agent="Alice", reason="BLOCKER", was_claimed=True),
        attempt_count=1,
    )
    ask = c.AnswerRejection(handoff_id=H1, decision="OVERRIDE", message="The key is in the vault.")
    return task, decide_events(task, ask, by, record=a_rejection("BLOCKER"))


def test_a_rejection_that_the_user_overrides_is_to_be_told() -> None:
    task, events = overruling(THE_USER)

    (text,) = texts(after(task, *events))
    assert "overrode" in text
    assert "The key is in the vault." in text


def test_a_directors_override_is_no_override_of_the_users() -> None:
    task, events = overruling(actor("Dora", Role.DIRECTOR))

    assert texts(after(task, *events)) == []


def test_an_override_that_a_rule_gives_is_not_told() -> None:
    task = a_task(status=Status.CLAIMED, claim=Story().task.claim)
    events = decide_events(task, c.RejectHandoff(handoff_id=H1, agent="Alice", rejection={}), ALICE)

    assert any(isinstance(one, RejectionAnswered) for one in events)
    assert texts(after(task, *events)) == []


@pytest.mark.parametrize(("reviewer", "count"), [("Lead", 1), ("user", 0)], ids=["another's", "their own"])
def test_a_reviewers_rejection_that_the_user_takes_back_is_to_be_told(reviewer: str, count: int) -> None:
    story = Story(task_claimed("Alice", H1), *_submitted())
    story.events.append(
        ReviewRejected(
            task_id=T1,
            reviewer=reviewer,
            commit=SHA,
            tree=TREE,
            review_id="r1",
            author="Alice",
            handoff_id=H1,
        )
    )
    story.ask(c.RetractReview(task_id=T1, review_id="r1", reason="wrong task"), THE_USER)

    assert len(texts(story.task)) == count


def _submitted() -> tuple[Event, ...]:
    story = Story()
    story.ask(recording(passed()))
    story.ask(c.SubmitTask(task_id=T1, agent="Alice", commit="HEAD"), ALICE, **WORK)
    return tuple(story.events[2:])


def test_an_override_is_told_once_a_channel_and_forgotten_after_the_last() -> None:
    story = Story()
    story.rejected(3)
    story.ask(overriding(), THE_USER)
    (notice,) = story.task.inbox.notices

    story.ask(c.NoteDelivery(task_id=T1, escalation_id=notice.id, channel="chat"))
    assert story.task.inbox.notices[0].notified == ("chat",)
    assert story.ask(c.NoteDelivery(task_id=T1, escalation_id=notice.id, channel="chat")) == ()
    story.ask(c.NoteDelivery(task_id=T1, escalation_id=notice.id, channel="mail", is_last=True))
    assert story.task.inbox.notices == ()


def test_an_override_stays_to_be_told_whatever_becomes_of_the_task() -> None:
    story = Story()
    story.rejected(3)
    story.ask(overriding(), THE_USER)
    story.ask(c.CancelTask(task_id=T1), THE_USER)

    assert len(texts(story.task)) == 1


def test_events_of_before_are_not_told_now() -> None:
    task = after(a_task(), GateOverridden(task_id=T1, gate="tests", tree=TREE, reason="old"))

    assert task.inbox.notices == ()


def test_the_text_of_a_notice_is_short_and_hides_nothing() -> None:
    story = Story()
    story.rejected(3)
    story.ask(overriding(reason="x" * 5000 + "\u202e\x1b[31m"), THE_USER)

    (text,) = texts(story.task)
    assert len(text) <= 500
    assert text.isprintable()
