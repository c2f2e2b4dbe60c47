"""Holds what follows from a rejection: who is locked out, who goes on, and who may let whom back."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import Actor, Role
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.reviews import (
    EscalationAnswered,
    EscalationOpened,
    Finding,
    LockoutCleared,
    LockoutSet,
    TaskReassigned,
)
from remand.domain.events.tasks import HandoffInitiated, HandoffLapsed
from remand.domain.task import TERMINAL, ReviewRound, Status, Task, update_task
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    H2,
    H3,
    SHA,
    T1,
    T2,
    T3,
    a_claim,
    a_lockout,
    a_submission,
    a_task,
    actor,
    an_offer,
)
from tests.support.builders import (
    LEAD,
    LEAKS,
    NIT,
    THE_USER,
    V1,
    V2,
    V3,
    a_filed_rejection,
    a_round,
    an_escalation,
    decide_events,
    refusal_code,
)

HANDED_IN = a_task(status=Status.PROVISIONAL, submission=a_submission("Alice"), authors=("Alice",))
REJECT = c.RejectReview(task_id=T1, commit="HEAD", findings=(NIT, LEAKS))
CAROL, DAVE = actor("Carol", skills=("accessibility",)), actor("Dave")
TEAM = {"has_team": True, "agents": (ALICE, BOB, CAROL, DAVE)}


def names(events: tuple[Event, ...]) -> list[str]:
    return [event.name for event in events]


def after(*rounds: ReviewRound, **fields: Any) -> Task:
    return update_task(HANDED_IN, rounds=rounds, **fields)


def following(task: Task, by: Actor = LEAD, ask: c.Command = REJECT, **facts: Any) -> tuple[Event, ...]:
    """What follows from a rejection besides itself."""
    return decide_events(task, ask, by, **{"commit": SHA, **facts})[1:]


# The lockout.


def test_a_rejection_locks_its_author_out_with_the_first_blocking_finding_as_reason() -> None:
    assert following(HANDED_IN) == (LockoutSet(task_id=T1, agent="Alice", reason="It leaks", review_id=V1),)


def test_a_long_finding_is_a_shorter_reason() -> None:
    ask = replace(REJECT, findings=(Finding(text="x" * 600),))

    (locked,) = following(HANDED_IN, ask=ask)

    assert isinstance(locked, LockoutSet)
    assert locked.reason == "x" * 500


def test_a_rejection_locks_nobody_out_when_the_policy_says_so() -> None:
    assert following(HANDED_IN, lockout_after=0) == ()
    assert following(after(a_round(V2)), lockout_after=0) == ()


def test_only_the_agents_own_rejections_count_for_its_lockout() -> None:
    bobs, own = a_round(V2, agent="Bob", handoff_id=H2), a_round(V3, handoff_id=H3)
    gone = replace(own, reviews=(replace(own.reviews[0], is_retracted=True),))

    assert following(after(bobs), lockout_after=2) == ()
    assert following(after(gone), lockout_after=2) == ()
    assert names(following(after(own), lockout_after=2)) == ["lockout.set"]
    assert following(after(own), lockout_after=3) == ()


def test_who_is_locked_out_is_not_locked_out_again() -> None:
    assert following(update_task(HANDED_IN, lockouts=(a_lockout("Alice"),))) == ()


def test_the_user_who_mends_a_task_by_hand_is_not_locked_out() -> None:
    task = update_task(HANDED_IN, submission=a_submission("user"), authors=("user",), fixer="user")

    assert following(task) == ()
    assert names(following(task, **TEAM)) == ["task.reassign", "handoff.initiate"]


# Who goes on.


def test_the_next_agent_of_the_team_goes_on() -> None:
    _, reassigned, offered = following(HANDED_IN, **TEAM, handoff_id=H2)

    assert reassigned == TaskReassigned(
        task_id=T1, target="Bob", source="Alice", reason="next eligible agent"
    )
    assert isinstance(offered, HandoffInitiated)
    assert (offered.handoff_id, offered.target_agent) == (H2, "Bob")


def test_the_agent_goes_on_that_knows_what_the_findings_are_about() -> None:
    ask = replace(REJECT, findings=(Finding(text="Accessibility issues"),))

    reassigned = following(HANDED_IN, ask=ask, **TEAM)[1]

    assert isinstance(reassigned, TaskReassigned)
    assert (reassigned.target, reassigned.reason) == ("Carol", "accessibility expertise")


def test_neither_who_is_locked_out_nor_a_reviewer_of_the_task_goes_on() -> None:
    lead = actor("Lead", Role.LEAD, Role.AGENT)
    team = {"has_team": True, "agents": (lead, ALICE, BOB, CAROL, DAVE)}
    task = update_task(HANDED_IN, lockouts=(a_lockout("Bob"),), reviewers=("Carol",))

    reassigned = following(task, lead, **team)[1]

    assert isinstance(reassigned, TaskReassigned)
    assert (reassigned.target, reassigned.is_last) == ("Dave", True)


def test_who_is_locked_out_of_a_task_above_does_not_go_on_unless_let_back_here() -> None:
    above = {**TEAM, "inherited": (("Bob", T2), ("Carol", T3))}

    for task, expected in ((HANDED_IN, "Dave"), (update_task(HANDED_IN, unlocked=("Carol",)), "Carol")):
        reassigned = following(task, **above)[1]
        assert isinstance(reassigned, TaskReassigned)
        assert reassigned.target == expected


def test_the_last_eligible_agent_is_announced_as_such() -> None:
    for agents, is_last in (((ALICE, BOB), True), ((ALICE, BOB, CAROL), False)):
        reassigned = following(HANDED_IN, has_team=True, agents=agents)[1]
        assert isinstance(reassigned, TaskReassigned)
        assert reassigned.is_last == is_last


def test_with_the_last_agent_locked_out_the_user_is_asked() -> None:
    locked, asked = following(HANDED_IN, has_team=True, agents=(ALICE,))

    assert isinstance(locked, LockoutSet)
    assert isinstance(asked, EscalationOpened)
    assert asked.kind == "deadlock"


def test_without_a_team_anybody_may_go_on_and_nobody_is_chosen() -> None:
    assert names(following(HANDED_IN)) == ["lockout.set"]


def test_an_author_who_may_go_on_is_left_to() -> None:
    assert following(HANDED_IN, lockout_after=0, **TEAM) == ()


@pytest.mark.parametrize(
    "barred",
    [{"lockouts": (a_lockout("Alice"),)}, {"skills": ("accessibility",)}],
    ids=["locked out by hand", "lacks a skill by now"],
)
@pytest.mark.parametrize("after_so_many", [0, 1])
def test_an_author_who_may_not_go_on_for_another_reason_is_replaced(
    barred: dict[str, Any], after_so_many: int
) -> None:
    found = names(following(update_task(HANDED_IN, **barred), lockout_after=after_so_many, **TEAM))

    assert found[-2:] == ["task.reassign", "handoff.initiate"]


def test_with_nobody_left_for_an_author_who_may_not_go_on_the_user_is_asked() -> None:
    task = update_task(HANDED_IN, lockouts=(a_lockout("Alice"),))

    assert names(following(task, has_team=True, agents=(ALICE,))) == ["escalation.open"]


def test_the_third_rejection_is_brought_before_the_user_although_agents_are_left() -> None:
    rounds = (a_round(V2, agent="Bob", handoff_id=H2), a_round(V3, agent="Carol", handoff_id=H3))

    locked, asked = following(after(*rounds), has_team=True, agents=(ALICE, DAVE))

    assert isinstance(locked, LockoutSet)
    assert isinstance(asked, EscalationOpened)
    assert asked.kind == "reviews"
    assert asked.reason.startswith(f"Task {T1} was rejected 3 times.")
    assert names(following(after(rounds[0]), **TEAM)) == ["lockout.set", "task.reassign", "handoff.initiate"]


def test_as_many_rejections_as_the_policy_says_are_brought_before_the_user() -> None:
    assert names(following(HANDED_IN, escalate_after_reviews=1)) == ["lockout.set", "escalation.open"]


# On a reviewer's word.


def lock_out(agent: str = "Alice") -> c.LockOut:
    return c.LockOut(task_id=T1, agent=agent, reason="Not this one")


def test_a_reviewer_keeps_an_agent_away_with_a_reason() -> None:
    assert decide_events(a_task(), lock_out(), LEAD) == (
        LockoutSet(task_id=T1, agent="Alice", reason="Not this one"),
    )
    assert refusal_code(a_task(), replace(lock_out(), reason=" "), LEAD) == "bad_value"
    assert refusal_code(a_task(), lock_out("no\nname"), LEAD) == "bad_value"


def test_a_lockout_that_is_there_on_somebodys_word_is_not_set_again() -> None:
    assert decide_events(a_task(lockouts=(a_lockout("Alice"),)), lock_out()) == ()


def test_a_lockout_that_follows_from_a_rejection_may_be_made_to_outlive_it() -> None:
    task = a_task(lockouts=(a_lockout("Alice", review_id=V1),))

    assert names(decide_events(task, lock_out())) == ["lockout.set"]


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_nobody_is_locked_out_of_a_task_that_has_ended(status: Status) -> None:
    assert refusal_code(a_task(status=status), lock_out()) == "bad_transition"


@pytest.mark.parametrize(
    "part",
    [
        {"status": Status.CLAIMED, "claim": a_claim("Lead", H1)},
        {"lockouts": (a_lockout("Lead"),)},
        {"last_rejection": a_filed_rejection(agent="Lead")},
    ],
    ids=["holds it", "is locked out", "rejected it"],
)
def test_who_has_a_part_in_a_task_locks_nobody_else_out_of_it(part: dict[str, Any]) -> None:
    task = a_task(**part)

    assert refusal_code(task, lock_out("Bob"), LEAD) == "own_work"
    assert decide_events(task, lock_out("Bob"), THE_USER)


def test_a_lockout_that_leaves_nobody_for_a_free_task_asks_the_user() -> None:
    held = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1))
    alone = {"has_team": True, "agents": (ALICE,)}

    for task in (a_task(), held):
        assert names(decide_events(task, lock_out(), **alone)) == ["lockout.set", "escalation.open"]
        assert names(decide_events(task, lock_out(), has_team=True, agents=(ALICE, BOB))) == ["lockout.set"]
    by_bob = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H1))
    for task in (by_bob, HANDED_IN, a_task(status=Status.ESCALATED, escalation=an_escalation())):
        assert names(decide_events(task, lock_out(), **alone)) == ["lockout.set"]
    assert names(decide_events(a_task(), lock_out())) == ["lockout.set"], "without a team anybody may take it"


# Letting back.


def unlock(agent: str = "Alice", guidance: str = "") -> c.Unlock:
    return c.Unlock(task_id=T1, agent=agent, reason="Taught", guidance=guidance)


def test_an_unlock_takes_back_one_agents_lockout() -> None:
    task = a_task(lockouts=(a_lockout("Alice"), a_lockout("Bob")))

    assert decide_events(task, unlock(guidance="Look twice")) == (
        LockoutCleared(task_id=T1, agent="Alice", reason="Taught", guidance="Look twice", by_user=True),
    )
    assert refusal_code(task, unlock("Carol")) == "bad_value"
    assert refusal_code(task, replace(unlock(), reason=" ")) == "bad_value"
    assert refusal_code(task, unlock(guidance="\ud800")) == "bad_value"


def test_an_unlock_that_answers_nothing_keeps_the_task_for_nobody() -> None:
    task = a_task(lockouts=(a_lockout("Alice"),))

    assert names(decide_events(task, unlock(), **TEAM)) == ["lockout.clear"]


def test_an_unlock_frees_what_was_reserved_for_others_and_keeps_the_agents_own_offer() -> None:
    offers = (an_offer("Alice", H1), an_offer("Bob", H2))
    task = a_task(lockouts=(a_lockout("Alice"),), offers=offers)

    cleared, *lapsed = decide_events(task, unlock(), **TEAM)

    assert cleared.name == "lockout.clear"
    assert lapsed == [HandoffLapsed(task_id=T1, handoff_id=H2)]


def test_an_unlock_also_ends_what_was_inherited_from_the_task() -> None:
    descendants = ((T2, "Alice"), (T3, "Alice"), (T3, "Bob"))

    own, *others = decide_events(a_task(lockouts=(a_lockout("Alice"),)), unlock(), descendants=descendants)

    assert event_task_id(own) == T1
    assert [(event.task_id, event.agent, event.inherited_from) for event in others] == [
        (T2, "Alice", T1),
        (T3, "Alice", T1),
    ]


def test_an_agent_is_let_back_to_a_task_alone_that_was_cut_from_one_it_is_locked_out_of() -> None:
    above = {"inherited": (("Alice", T2),)}

    assert names(decide_events(a_task(), unlock(), **above)) == ["lockout.clear"]
    assert refusal_code(a_task(unlocked=("Alice",)), unlock(), **above) == "bad_value"
    assert refusal_code(a_task(), unlock("Bob"), **above) == "bad_value"


def test_an_unlock_answers_the_open_question_and_keeps_the_task_for_the_agent() -> None:
    task = a_task(
        status=Status.ESCALATED, escalation=an_escalation("deadlock"), lockouts=(a_lockout("Alice"),)
    )

    cleared, answered, offered = decide_events(task, unlock(), **TEAM)

    assert isinstance(cleared, LockoutCleared)
    assert answered == EscalationAnswered(task_id=T1, escalation_id=an_escalation().id, option="unlock:Alice")
    assert isinstance(offered, HandoffInitiated)
    assert offered.target_agent == "Alice"


@pytest.mark.parametrize(
    ("fields", "agents"),
    [
        ({}, ()),
        ({}, (BOB,)),
        ({"skills": ("weld",)}, (ALICE,)),
        ({"reviewers": ("Alice",)}, (ALICE,)),
    ],
    ids=["no team", "not of the team", "lacks a skill", "reviews it"],
)
def test_the_task_is_kept_for_nobody_who_could_not_take_it(
    fields: dict[str, Any], agents: tuple[Actor, ...]
) -> None:
    escalated = {"status": Status.ESCALATED, "escalation": an_escalation(), "lockouts": (a_lockout(),)}

    found = decide_events(a_task(**escalated, **fields), unlock(), agents=agents)

    assert names(found) == ["lockout.clear", "escalation.answer"]


# Reassigning.


def reassign(to: str = "Bob", source: str = "", reason: str = "") -> c.ReassignTask:
    return c.ReassignTask(task_id=T1, target=to, source=source, reason=reason)


HELD = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1))
SENT_BACK = update_task(
    HANDED_IN, status=Status.REJECTED, rounds=(a_round(),), lockouts=(a_lockout("Alice"),)
)


def test_a_leader_lets_another_agent_go_on() -> None:
    for task in (HELD, SENT_BACK):
        reassigned, offered = decide_events(
            task, reassign(reason="Knows roofs"), LEAD, target=BOB, handoff_id=H2, **TEAM
        )
        assert reassigned == TaskReassigned(task_id=T1, target="Bob", source="Alice", reason="Knows roofs")
        assert isinstance(offered, HandoffInitiated)
        assert (offered.target_agent, offered.handoff_id) == ("Bob", H2)


def test_without_a_reason_it_is_said_who_reassigned() -> None:
    (reassigned, _) = decide_events(a_task(), reassign(), LEAD, target=BOB)

    assert isinstance(reassigned, TaskReassigned)
    assert (reassigned.source, reassigned.reason) == ("", "by Lead")


def test_a_task_goes_to_nobody_who_may_not_work_on_it() -> None:
    assert (
        refusal_code(update_task(SENT_BACK, lockouts=(a_lockout("Bob"),)), reassign(), target=BOB)
        == "locked_out"
    )
    assert refusal_code(SENT_BACK, reassign(), target=BOB, inherited=(("Bob", T2),)) == "locked_out"
    assert refusal_code(update_task(SENT_BACK, reviewers=("Bob",)), reassign(), target=BOB) == "not_eligible"
    assert refusal_code(SENT_BACK, reassign("Lead"), target=LEAD) == "not_eligible"
    assert refusal_code(SENT_BACK, reassign(), target=None) == "bad_value"
    assert refusal_code(SENT_BACK, reassign(), target=BOB, open_blockers=(T2,)) == "waits_on_other"


@pytest.mark.parametrize(
    "ask", [reassign("no\nname"), reassign(source="no\nname"), reassign(reason="\ud800")], ids=str
)
def test_a_reassignment_is_told_in_names_and_words(ask: c.Command) -> None:
    assert refusal_code(a_task(), ask, target=BOB) == "bad_value"


@pytest.mark.parametrize(
    "status", sorted(set(Status) - {Status.CLAIMED, Status.ESCALATED, Status.INCOMING, Status.REJECTED})
)
def test_only_a_task_that_waits_or_is_held_is_reassigned(status: Status) -> None:
    if status == Status.NEEDS_CONTINUATION:
        assert decide_events(a_task(status=status), reassign(), target=BOB)
    else:
        assert refusal_code(a_task(status=status), reassign(), target=BOB) == "bad_transition"


def test_the_task_is_taken_from_whom_it_is_said_to_be() -> None:
    locked = update_task(HELD, lockouts=(a_lockout("Carol"),))

    assert decide_events(HELD, reassign(source="Alice"), target=BOB)
    assert decide_events(SENT_BACK, reassign(source="Alice"), target=BOB)
    assert refusal_code(HELD, reassign(source="Carol"), target=BOB) == "bad_value"
    assert refusal_code(SENT_BACK, reassign(source="Carol"), target=BOB) == "bad_value"
    assert refusal_code(locked, reassign(source="Carol"), target=BOB) == "bad_value", "Alice has it now"
    earlier = update_task(SENT_BACK, lockouts=(a_lockout("Carol"),))
    (reassigned, _) = decide_events(earlier, reassign(source="Carol"), target=BOB)
    assert isinstance(reassigned, TaskReassigned)
    assert reassigned.source == "Carol", "one who was locked out before may be named"


def test_a_task_is_not_taken_from_who_is_to_have_it() -> None:
    assert decide_events(HELD, reassign("Alice"), target=ALICE) == ()


def test_a_reassignment_says_when_nobody_else_is_left() -> None:
    for agents, is_last in (((ALICE, BOB), True), ((ALICE, BOB, CAROL), False)):
        (reassigned, _) = decide_events(SENT_BACK, reassign(), target=BOB, has_team=True, agents=agents)
        assert isinstance(reassigned, TaskReassigned)
        assert reassigned.is_last == is_last
    (alone, _) = decide_events(SENT_BACK, reassign(), target=BOB)
    assert isinstance(alone, TaskReassigned)
    assert not alone.is_last, "without a team there is always somebody"


def test_who_has_a_part_in_a_task_does_not_reassign_it() -> None:
    mine = a_task(status=Status.CLAIMED, claim=a_claim("Lead", H1), offers=(an_offer("Bob", H2),))

    assert refusal_code(mine, reassign(), LEAD, target=BOB) == "own_work"


def test_a_task_that_waits_for_the_user_only_the_user_reassigns() -> None:
    task = a_task(status=Status.ESCALATED, escalation=an_escalation())
    confined = actor("u", Role.USER, Role.LEAD, confined=True)

    for who in (LEAD, confined):
        assert refusal_code(task, reassign(), who, target=BOB) == "user_only"
    answered, *rest = decide_events(task, reassign(), target=BOB)
    assert answered == EscalationAnswered(task_id=T1, escalation_id=an_escalation().id, option="reassign:Bob")
    assert names(tuple(rest)) == ["task.reassign", "handoff.initiate"]
