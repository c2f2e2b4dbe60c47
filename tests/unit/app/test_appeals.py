"""Holds what an appeal does in a whole ledger: once, a director decides on a rejection that the rules overrode."""

from __future__ import annotations

from typing import Any

import pytest

from remand.app.events.task_folds import rebuild_tables, task_events
from remand.app.history.rejections import RejectionView, director_brief, task_rejections
from remand.app.history.task_history import task_handoffs
from remand.app.inbox.decisions import DecisionQuestion, open_questions
from remand.app.rejection_facts import MAX_TWINS
from remand.app.requests import Rules
from remand.app.scheduler.review_runs import direct_prompt
from remand.app.tasks.queue import Load, choose_director
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.policy import Policy
from remand.domain.task import Status
from tests.support.builders import LEAKS, FakeLedger, member
from tests.support.rejection_records import LAZY, SCOPE, TITLE, a_rejection

TEAM = Team((member("Alice"), member("Bob"), member("Boss", Role.DIRECTOR)))
WHY = "The vault is not mine, as the first attempt says."


def a_world(team: Team = TEAM, **policy: Any) -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), policy=Policy(**policy), team=team))


def overridden(world: FakeLedger, record: dict[str, Any] = LAZY) -> tuple[str, str]:
    """A task whose rejection by Alice the rules did not accept: its id and the handoff's."""
    task, taken = world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    world.reject(taken, record)
    return task, taken


def appeal(taken: str, reason: str = WHY, agent: str = "Alice") -> c.AppealRejection:
    return c.AppealRejection(handoff_id=taken, agent=agent, reason=reason)


def answer(taken: str, decision: str, **fields: Any) -> c.AnswerRejection:
    return c.AnswerRejection(handoff_id=taken, decision=decision, **fields)


def last(world: FakeLedger, task: str) -> RejectionView:
    with world.store.read() as view:
        return task_rejections(task_events(view, task))[-1]


def test_an_appeal_has_the_rejection_wait_for_a_director() -> None:
    world = a_world()
    task, taken = overridden(world)

    world.ask(appeal(taken), "Alice")

    assert world.task(task).status == Status.BLOCKED
    assert world.task(task).claim is None
    assert (last(world, task).appeal, last(world, task).decision) == (WHY, None)
    with world.store.read() as view:
        (handoff,) = task_handoffs(task_events(view, task))
    assert handoff.status == "rejected"


def test_the_agent_is_told_that_it_may_appeal_as_long_as_it_may() -> None:
    world = a_world()
    task, taken = overridden(world)
    first = last(world, task).decision
    assert first is not None
    assert f"`remand handoff appeal {taken} --agent Alice --reason TEXT`" in first.override_message
    world.ask(appeal(taken), "Alice")
    world.ask(answer(taken, "OVERRIDE"), "Boss")

    world.rules = Rules(gates=(), policy=Policy(max_invalid_rejections=9), team=TEAM)
    world.reject(taken, LAZY)

    second = last(world, task).decision
    assert second is not None
    assert "appeal" not in second.override_message


def test_a_director_that_accepts_an_appeal_takes_the_count_back() -> None:
    world = a_world()
    task, taken = overridden(world)
    assert world.task(task).rejections.invalid_by == ("Alice",)
    world.ask(appeal(taken), "Alice")

    world.ask(answer(taken, "ACCEPT", rationale="True"), "Boss")

    found = world.task(task).rejections
    assert (found.invalid_by, found.accepted_by) == ((), ("Alice",))


def test_a_director_that_overrides_an_appeal_gives_the_task_back_and_the_count_stays() -> None:
    world = a_world()
    task, taken = overridden(world)
    world.ask(appeal(taken), "Alice")

    world.ask(answer(taken, "OVERRIDE", message="The key is in the vault"), "Boss")

    assert world.task(task).is_held_under(taken, "Alice")
    assert world.task(task).rejections.invalid_by == ("Alice",)


@pytest.mark.parametrize("between", ["OVERRIDE", ""])
def test_an_agent_appeals_once_about_a_task(between: str) -> None:
    world = a_world()
    task, taken = overridden(world)
    world.ask(appeal(taken), "Alice")
    if between:
        world.ask(answer(taken, between), "Boss")
        world.rules = Rules(gates=(), policy=Policy(max_invalid_rejections=9), team=TEAM)
        world.reject(taken, LAZY)

    assert world.refusal(appeal(taken), "Alice").code == "exit_used"
    assert world.task(task).rejections.last_rejection


def test_nobody_appeals_for_another() -> None:
    world = a_world()
    _, taken = overridden(world)

    assert world.refusal(appeal(taken, agent="Bob"), "Bob").code == "not_yours"


def test_what_a_director_has_decided_is_not_appealed() -> None:
    world = a_world()
    _, taken = overridden(world)
    world.ask(answer(taken, "OVERRIDE"), "Boss")

    assert world.refusal(appeal(taken), "Alice").code == "nothing_to_appeal"


def test_a_valid_rejection_is_not_appealed() -> None:
    world = a_world(director=("human",))
    _, taken = overridden(world, a_rejection("BLOCKER"))

    assert world.refusal(appeal(taken), "Alice").code == "nothing_to_appeal"


@pytest.mark.parametrize("is_distrusted", [True, False])
def test_the_refusal_of_an_appeal_says_what_the_rules_did_with_a_valid_rejection(is_distrusted: bool) -> None:
    world = a_world()
    for _ in range(MAX_TWINS * is_distrusted):
        overridden(world, a_rejection("SCOPE_CREEP"))
    _, taken = overridden(world, a_rejection("SCOPE_CREEP"))

    refusal = world.refusal(appeal(taken), "Alice")

    assert (refusal.code, "auto" in refusal.message) == ("nothing_to_appeal", False)
    assert (
        "The rejection is not acted upon: the same was filed" if is_distrusted else "The rules accepted"
    ) in refusal.message


def test_a_formal_slip_is_completed_and_not_appealed() -> None:
    world = a_world()
    task, taken = overridden(world, {**a_rejection("SCOPE_CREEP"), "task_original_scope": "Something else"})
    assert world.task(task).rejections.invalid_by == ()

    refusal = world.refusal(appeal(taken), "Alice")

    assert refusal.code == "nothing_to_appeal"
    assert "Add what is missing" in refusal.message


def test_an_agent_does_not_appeal_when_another_has_the_task() -> None:
    world = a_world(max_invalid_rejections=1)
    task, taken = overridden(world)
    world.claim(task, "Bob")

    assert world.refusal(appeal(taken), "Alice").code == "handoff_closed"


def test_an_agent_does_not_appeal_when_the_user_is_asked_already() -> None:
    world = a_world(Team((member("Alice"),)), max_invalid_rejections=1)
    task, taken = overridden(world)
    assert world.task(task).status == Status.ESCALATED
    decision = last(world, task).decision
    assert decision is not None
    assert "appeal" not in decision.override_message

    assert world.refusal(appeal(taken), "Alice").code == "handoff_closed"


# The rejection that cost the agent the task.


def test_the_last_rejection_is_appealed_as_long_as_nobody_has_taken_the_task_over() -> None:
    world = a_world(max_invalid_rejections=1)
    task, taken = overridden(world)
    found = world.task(task)
    assert (found.is_locked_out("Alice"), found.claims.offers[0].target) == (True, "Bob")
    decision = last(world, task).decision
    assert decision is not None
    assert "remand handoff appeal" in decision.override_message

    world.ask(appeal(taken), "Alice")

    assert (world.task(task).status, world.task(task).claims.offers) == (Status.BLOCKED, ())


def test_accepting_it_lifts_the_lockout_here_and_on_the_parts() -> None:
    record = {**a_rejection("SCOPE_CREEP"), "what_attempted": LAZY["what_attempted"]}
    world = a_world(max_invalid_rejections=1)
    task, taken = overridden(world, record)
    assert world.task(task).is_locked_out("Alice")
    world.ask(appeal(taken), "Alice")

    world.ask(answer(taken, "ACCEPT_AND_DECOMPOSE"), "Boss")

    parts = world.task(task).links.children
    assert len(parts) > 1
    assert not any(world.task(name).is_locked_out("Alice") for name in (task, *parts))
    assert world.task(task).rejections.invalid_by == ()


def test_an_appeal_ends_no_lockout_by_a_review() -> None:
    world = a_world(Team((*TEAM.members, member("Lead", Role.LEAD))))
    task, taken = overridden(world)
    world.submit(task, "Alice")
    world.ask(c.RejectReview(task_id=task, commit="work", findings=(LEAKS,)), "Lead")
    assert world.task(task).is_locked_out("Alice")

    refusal = world.refusal(appeal(taken), "Alice")

    assert refusal.code == "nothing_to_appeal"
    assert "submitted after that rejection" in refusal.message


def test_an_appeal_does_not_stop_a_task_that_another_has_worked_on_since() -> None:
    world = a_world(
        Team((*TEAM.members, member("Lead", Role.LEAD))), max_invalid_rejections=1, lockout_after=2
    )
    task, taken = overridden(world)
    world.claim(task, "Bob")
    world.submit(task, "Bob")
    world.ask(c.RejectReview(task_id=task, commit="work", findings=(LEAKS,)), "Lead")
    assert world.task(task).claim is None

    assert world.refusal(appeal(taken), "Alice").code == "nothing_to_appeal"


@pytest.mark.parametrize("limit", [1, 2])
def test_accepting_it_ends_no_lockout_that_the_user_has_set(limit: int) -> None:
    record = {**a_rejection("SCOPE_CREEP"), "what_attempted": LAZY["what_attempted"]}
    world = a_world(max_invalid_rejections=limit)
    task, taken = overridden(world, record)
    world.ask(appeal(taken), "Alice")
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="I do not want her on this"))

    world.ask(answer(taken, "ACCEPT_AND_DECOMPOSE"), "Boss")

    parts = world.task(task).links.children
    assert len(parts) > 1
    assert all(world.task(name).is_locked_out("Alice") for name in (task, *parts))
    assert world.task(task).people.unlocked == ()


def test_accepting_it_leaves_what_the_user_may_still_lift() -> None:
    world = a_world(max_invalid_rejections=1)
    task, taken = overridden(world)
    world.ask(appeal(taken), "Alice")
    world.ask(answer(taken, "ACCEPT", rationale="True"), "Boss")

    assert (world.task(task).is_locked_out("Alice"), world.task(task).people.unlocked) == (False, ())
    world.ask(c.ReopenTask(task_id=task, reason="go on"))
    claim = world.claim(task, "Alice").claim
    assert claim is not None


def test_overriding_it_leaves_the_task_to_others() -> None:
    world = a_world(max_invalid_rejections=1)
    task, taken = overridden(world)
    world.ask(appeal(taken), "Alice")
    with world.store.read() as view:
        (question,) = open_questions(view, world.rules)
    assert "OVERRIDE" in [option.key for option in question.options]

    world.ask(answer(taken, "OVERRIDE"), "Boss")

    assert world.task(task).is_locked_out("Alice")
    assert world.ready() == [task]


def test_an_appeal_gives_its_reason() -> None:
    world = a_world()
    _, taken = overridden(world)

    assert world.refusal(appeal(taken, " "), "Alice").code == "bad_value"


def test_a_rebuild_finds_the_appeal() -> None:
    world = a_world()
    task, taken = overridden(world)
    world.ask(appeal(taken), "Alice")
    before = world.task(task)

    with world.store.write() as tx:
        rebuild_tables(tx)

    assert world.task(task) == before


# Whoever decides.


def test_an_appeal_stands_in_the_inbox_where_no_agent_directs() -> None:
    world = a_world()
    task, taken = overridden(world)
    world.ask(appeal(taken), "Alice")

    with world.store.read() as view:
        (question,) = open_questions(view, world.rules)

    assert isinstance(question, DecisionQuestion)
    assert "Alice appeals" in question.question
    assert f"appeal: {WHY}" in question.grounds
    assert question.escalation_id == last(world, task).rejection_id


def test_an_agent_that_directs_is_asked_about_an_appeal_with_its_reason() -> None:
    team = Team((member("Alice"), member("Judge", Role.DIRECTOR, command=("claude", "-p"))))
    world = a_world(team)
    task, taken = overridden(world)
    world.ask(appeal(taken), "Alice")
    found = world.task(task)

    chosen = choose_director(found, team, Load({}))

    assert chosen is not None
    with world.store.read() as view:
        events = task_events(view, task)
    text = direct_prompt(found, events, director=team.actor("Judge"), run_id="RUN-1", mark="x")
    assert WHY in text
    assert "appeals" in text
    assert director_brief(found, events, taken)["rejection"]["appeal"] == WHY
