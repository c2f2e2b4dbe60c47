"""Holds that a question is put to the user once, repeated until it was seen, and answered by the user alone."""

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Actor, Role
from remand.domain.decisions.escalations import escalation_options
from remand.domain.events.event import Event
from remand.domain.events.reviews import (
    EscalationAcknowledged,
    EscalationAnswered,
    EscalationNotified,
    EscalationOpened,
    EscalationRepeated,
    LockoutCleared,
    ReviewApproved,
    TaskReassigned,
)
from remand.domain.events.tasks import HandoffInitiated, TaskCancelled, TaskClaimed
from remand.domain.instant import add_seconds
from remand.domain.task import TERMINAL, Status, update_task
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    H2,
    LATER,
    MUCH_LATER,
    NOW,
    SHA,
    T1,
    T2,
    TREE,
    a_claim,
    a_lockout,
    a_submission,
    a_task,
    actor,
)
from tests.support.builders import (
    E1,
    LEAD,
    OTHER_SHA,
    THE_USER,
    a_round,
    an_escalation,
    decide_events,
    refusal_code,
)

ASKED = a_task(status=Status.ESCALATED, escalation=an_escalation("reviews"), submission=a_submission("Alice"))
LOCKED = update_task(ASKED, lockouts=(a_lockout("Alice"),))
ESCALATE = c.EscalateTask(task_id=T1, reason="What now?")
CAROL = actor("Carol")
TEAM = {"has_team": True, "agents": (ALICE, BOB, CAROL)}


def names(events: tuple[Event, ...]) -> list[str]:
    return [event.name for event in events]


def answer(option: str, **fields: str) -> c.AnswerEscalation:
    return c.AnswerEscalation(task_id=T1, option=option, **fields)


# Asking.


@pytest.mark.parametrize(
    "who", [LEAD, THE_USER, actor("Dir", Role.DIRECTOR), actor("Tess", Role.TESTER)], ids=lambda who: who.name
)
def test_leaders_bring_a_task_before_the_user(who: Actor) -> None:
    (event,) = decide_events(a_task(), ESCALATE, who, deadline_seconds=60.0)

    assert event == EscalationOpened(
        task_id=T1, reason="What now?", kind="asked", deadline=add_seconds(NOW, 60)
    )


def test_the_agent_that_holds_a_task_does_so_once() -> None:
    held = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1))
    again = update_task(held, exits=(("Alice", "escalation.open"),))

    assert names(decide_events(held, ESCALATE, ALICE)) == ["escalation.open"]
    assert refusal_code(again, ESCALATE, ALICE) == "exit_used"
    assert decide_events(again, ESCALATE, LEAD)


def test_an_agent_that_does_not_hold_it_does_not() -> None:
    assert refusal_code(a_task(), ESCALATE, ALICE) == "not_yours"
    assert (
        refusal_code(a_task(status=Status.CLAIMED, claim=a_claim("Bob", H1)), ESCALATE, ALICE) == "not_yours"
    )


@pytest.mark.parametrize("status", sorted(TERMINAL | {Status.ESCALATED, Status.DECOMPOSED}))
def test_there_is_one_question_a_task_and_none_where_nothing_is_to_be_decided(status: Status) -> None:
    task = a_task(status=status, escalation=an_escalation())

    assert refusal_code(task, ESCALATE, LEAD) == "bad_transition"


def test_a_question_has_a_reason() -> None:
    assert refusal_code(a_task(), replace(ESCALATE, reason=" "), LEAD) == "bad_value"


def test_a_task_that_is_reopened_with_nobody_left_for_it_is_brought_before_the_user() -> None:
    failed = a_task(status=Status.FAILED, lockouts=(a_lockout("Alice"),))
    ask = c.ReopenTask(task_id=T1)

    assert names(decide_events(failed, ask, has_team=True, agents=(ALICE,))) == [
        "task.reopen",
        "escalation.open",
    ]
    assert names(decide_events(failed, ask, has_team=True, agents=(ALICE, BOB))) == ["task.reopen"]
    assert names(decide_events(failed, ask)) == ["task.reopen"]


# Repeating, and being seen.

REPEAT = c.RepeatEscalation(task_id=T1)


def test_at_its_deadline_a_question_is_repeated() -> None:
    (event,) = decide_events(ASKED, REPEAT, THE_COORDINATOR, at=LATER, deadline_seconds=60.0)

    assert event == EscalationRepeated(task_id=T1, escalation_id=E1, deadline=add_seconds(LATER, 60))
    assert decide_events(ASKED, REPEAT, THE_COORDINATOR, at=NOW) == ()
    assert decide_events(a_task(escalation=an_escalation()), REPEAT, THE_COORDINATOR, at=MUCH_LATER) == ()


def test_a_question_that_was_seen_is_not_repeated() -> None:
    ask = c.AcknowledgeEscalation(task_id=T1)
    seen = update_task(ASKED, escalation=replace(an_escalation(), acknowledged_by="user"))

    assert decide_events(ASKED, ask) == (EscalationAcknowledged(task_id=T1, escalation_id=E1),)
    assert decide_events(seen, ask) == ()
    assert decide_events(seen, REPEAT, THE_COORDINATOR, at=MUCH_LATER) == ()


def test_only_the_question_that_is_open_is_seen_and_answered() -> None:
    for ask in (
        c.AcknowledgeEscalation(task_id=T1, escalation_id="E-other"),
        answer("fix", escalation_id="E-other"),
    ):
        assert refusal_code(ASKED, ask) == "nothing_to_answer"
        named = replace(ask, escalation_id=E1)
        assert decide_events(ASKED, named)
        for status in (Status.REJECTED, Status.CANCELLED):
            assert refusal_code(replace(ASKED, status=status), named) == "nothing_to_answer"


def test_a_channel_that_took_the_notice_is_noted_once() -> None:
    ask = c.NoteDelivery(task_id=T1, escalation_id=E1, channel="mail")
    told = update_task(ASKED, escalation=replace(an_escalation(), notified=("mail",)))

    assert decide_events(ASKED, ask, THE_COORDINATOR) == (
        EscalationNotified(task_id=T1, escalation_id=E1, channel="mail"),
    )
    assert decide_events(told, ask, THE_COORDINATOR) == ()
    assert decide_events(told, replace(ask, channel="phone"), THE_COORDINATOR)
    assert decide_events(ASKED, replace(ask, escalation_id="E-other"), THE_COORDINATOR) == ()
    assert decide_events(replace(ASKED, status=Status.REJECTED), ask, THE_COORDINATOR) == ()


# Answering.


def test_the_user_takes_the_task_to_mend_it_by_hand_for_as_long_as_a_lease_may_last() -> None:
    said, taken = decide_events(ASKED, answer("fix", guidance="Mine"), handoff_id=H2, base="b")

    assert said == EscalationAnswered(task_id=T1, escalation_id=E1, option="fix", guidance="Mine")
    assert isinstance(taken, TaskClaimed)
    assert (taken.agent, taken.handoff_id, taken.attempt, taken.epoch, taken.base) == ("user", H2, 1, 1, "b")
    assert (datetime.fromisoformat(taken.lease_expires_at) - datetime.fromisoformat(NOW)).days >= 6


def test_the_user_is_let_in_whoever_had_locked_the_user_out() -> None:
    above = {"inherited": (("user", T2),)}
    freed = ["lockout.clear", "escalation.answer", "task.claim"]

    assert names(decide_events(update_task(ASKED, lockouts=(a_lockout("user"),)), answer("fix"))) == freed
    assert names(decide_events(ASKED, answer("fix"), **above)) == freed
    assert names(decide_events(update_task(ASKED, unlocked=("user",)), answer("fix"), **above)) == freed[1:]


def test_an_agent_is_unlocked_with_guidance_and_has_the_task() -> None:
    cleared, said, offered = decide_events(LOCKED, answer("unlock:Alice", guidance="Look twice"), **TEAM)

    assert isinstance(cleared, LockoutCleared)
    assert (cleared.agent, cleared.guidance) == ("Alice", "Look twice")
    assert said == EscalationAnswered(task_id=T1, escalation_id=E1, option="unlock:Alice"), "said once"
    assert isinstance(offered, HandoffInitiated)
    assert offered.target_agent == "Alice"
    assert refusal_code(LOCKED, answer("unlock:Bob"), **TEAM) == "bad_value"


def test_another_agent_gets_the_task_with_the_users_words() -> None:
    said, reassigned, offered = decide_events(
        LOCKED, answer("reassign:Bob", guidance="Look"), target=BOB, **TEAM
    )

    assert isinstance(said, EscalationAnswered)
    assert said.guidance == "Look"
    assert reassigned == TaskReassigned(
        task_id=T1, target="Bob", source="Alice", reason="by the user's decision"
    )
    assert isinstance(offered, HandoffInitiated)
    assert (offered.target_agent, offered.instructions) == ("Bob", "Look")


def test_the_last_agent_is_announced_here_as_well() -> None:
    for task, is_last in (
        (LOCKED, False),
        (update_task(LOCKED, lockouts=(a_lockout(), a_lockout("Carol"))), True),
    ):
        reassigned = decide_events(task, answer("reassign:Bob"), target=BOB, **TEAM)[1]
        assert isinstance(reassigned, TaskReassigned)
        assert reassigned.is_last == is_last


def test_the_task_goes_to_nobody_who_may_not_have_it() -> None:
    assert refusal_code(LOCKED, answer("reassign:Alice"), target=ALICE, **TEAM) == "locked_out"
    assert refusal_code(LOCKED, answer("reassign:Lead"), target=LEAD, **TEAM) == "not_eligible"
    assert refusal_code(LOCKED, answer("reassign:Bob"), target=None, **TEAM) == "bad_value"
    assert refusal_code(LOCKED, answer("reassign:Bob"), target=CAROL, **TEAM) == "bad_value"


def test_the_task_is_put_back_or_given_up() -> None:
    assert names(decide_events(ASKED, answer("reopen"))) == ["escalation.answer"]
    _, cancelled = decide_events(ASKED, answer("wontfix"))
    assert cancelled == TaskCancelled(task_id=T1, reason="won't fix")
    _, cancelled = decide_events(ASKED, answer("wontfix", guidance="Too dear"))
    assert cancelled == TaskCancelled(task_id=T1, reason="Too dear")


@pytest.mark.parametrize("ask", [answer("reopen"), c.ReopenTask(task_id=T1)], ids=["answer", "reopen"])
def test_a_task_is_not_put_back_into_a_queue_that_nobody_may_take_it_from(ask: c.Command) -> None:
    assert refusal_code(LOCKED, ask, has_team=True, agents=(ALICE,)) == "bad_value"
    assert decide_events(LOCKED, ask, has_team=True, agents=(ALICE, BOB))
    assert decide_events(LOCKED, ask), "without a team anybody may"


@pytest.mark.parametrize(
    "option",
    ["", "Fix", "fix:Alice", "unlock", "unlock:", "reassign", "reopen:x", "wontfix:x", "wait", "accept"],
)
def test_there_are_no_other_answers(option: str) -> None:
    assert refusal_code(LOCKED, answer(option), target=BOB, **TEAM) == "bad_value"


def test_the_users_words_are_text() -> None:
    assert refusal_code(ASKED, answer("reopen", guidance="\ud800")) == "bad_value"


def keys(*options: Any) -> list[str]:
    return [option.key for option in options]


def test_the_options_are_those_of_the_requirement() -> None:
    assert keys(*escalation_options(LOCKED, [BOB, CAROL])) == [
        "fix",
        "unlock:Alice",
        "reassign:Bob",
        "reassign:Carol",
        "reopen",
        "wontfix",
    ]
    assert keys(*escalation_options(ASKED, [])) == ["fix", "wontfix"]


MERGED = update_task(ASKED, escalation=an_escalation("bypassed"), sources=(f"github:merge-12@{SHA}",))


def test_a_merge_past_the_rules_of_what_was_handed_in_is_accepted_with_one_answer() -> None:
    said, approved = decide_events(MERGED, answer("accept"))

    assert said == EscalationAnswered(task_id=T1, escalation_id=E1, option="accept", by_user=True)
    assert approved == ReviewApproved(task_id=T1, reviewer=THE_USER.name, commit=SHA, tree=TREE)
    assert keys(*escalation_options(MERGED, [BOB])) == ["accept", "fix", "reassign:Bob", "reopen", "wontfix"]


@pytest.mark.parametrize(
    "fields",
    [
        {"sources": (f"github:merge-12@{OTHER_SHA}",)},
        {"sources": (f"github:R1@{SHA}",)},
        {"submission": None},
        {"escalation": an_escalation("reviews")},
        {"rounds": (a_round(),)},
    ],
    ids=["another commit", "a review", "nothing handed in", "another question", "rejected"],
)
def test_no_other_merge_can_be_accepted(fields: dict[str, Any]) -> None:
    task = update_task(MERGED, **fields)

    assert refusal_code(task, answer("accept")) == "bad_value"
    assert "accept" not in keys(*escalation_options(task, [BOB]))


def test_who_did_the_work_does_not_accept_its_merge() -> None:
    own = update_task(MERGED, authors=(THE_USER.name,))

    assert refusal_code(own, answer("accept")) == "own_work"
    assert decide_events(update_task(own, fixer=THE_USER.name), answer("accept"))


def test_who_is_locked_out_of_a_task_above_can_be_unlocked_here() -> None:
    above = (("Alice", T2), ("Bob", T2), ("Carol", T2))
    task = update_task(LOCKED, unlocked=("Carol",))

    assert keys(*escalation_options(task, [], above))[1:3] == ["unlock:Alice", "unlock:Bob"]
    assert "unlock:Carol" not in keys(*escalation_options(task, [], above))


def test_every_option_that_is_offered_is_accepted() -> None:
    for option in escalation_options(LOCKED, [BOB, CAROL]):
        target = {"Bob": BOB, "Carol": CAROL}.get(option.key.partition(":")[2])
        assert decide_events(LOCKED, answer(option.key), target=target, **TEAM), option.key
