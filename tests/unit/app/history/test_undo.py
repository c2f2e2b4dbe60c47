"""Holds what may be undone: an own cancellation, and an own answer on which nothing rests yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from remand.app.events.task_folds import rebuild_tables, task_events
from remand.app.history.undo import undo_of_task
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Role, Team
from remand.domain.events.reviews import AnswerRetracted, EscalationAnswered
from remand.domain.evolve import evolve, replay
from remand.domain.feedback.rounds import read_feedback
from remand.domain.gate.verdict import GateResult, GateStatus
from remand.domain.policy import Policy
from remand.domain.task import Status, Task
from tests.support.builders import FakeLedger, a_verdict, member, send_back
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

TEAM = Team(
    (
        member("Alice"),
        member("Bob"),
        member("Lea", Role.LEAD),
        member("Dora", Role.DIRECTOR),
        member("Dan", Role.DIRECTOR),
        member("owner", Role.USER),
    )
)
MISTAKE = "my mistake"


def a_world(**policy: Any) -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), team=TEAM, policy=Policy(**policy), base="base"))


def asked(world: FakeLedger) -> str:
    """A task whose author is locked out, and about which the user is asked."""
    task = world.add()
    send_back(world, task, "Alice", "work", "Lea")
    world.ask(c.EscalateTask(task_id=task, reason="Which way?"), "Lea")
    return task


def take_back(task: str) -> c.RetractAnswer:
    return c.RetractAnswer(task_id=task, reason=MISTAKE)


def history(world: FakeLedger, task: str) -> list[str]:
    with world.store.read() as view:
        return [event.name for event in task_events(view, task)]


def rebuilt(world: FakeLedger) -> dict[str, Task]:
    with world.store.write() as tx:
        rebuild_tables(tx)
    return world.tasks()


# An answer.


@pytest.mark.parametrize("option", ["fix", "unlock:Alice", "reassign:Bob", "reopen", "wontfix"])
def test_an_answer_that_nobody_acted_on_is_taken_back_whole(option: str) -> None:
    world = a_world()
    task = asked(world)
    before = world.task(task)
    world.ask(c.AnswerEscalation(task_id=task, option=option, guidance="Mind the gutter"), "owner")
    assert world.task(task).open_escalation is None

    after = world.ask(take_back(task), "owner").task

    assert after == before
    assert rebuilt(world)[task] == before
    assert history(world, task)[-1] == "answer.retract"
    with world.store.read() as view:
        assert not read_feedback(after, task_events(view, task)).guidance
    again = world.ask(c.AnswerEscalation(task_id=task, option="reassign:Bob"), "owner").task
    assert again.claims.offers[0].target == "Bob"
    assert world.ask(take_back(task), "owner").task == before
    world.reopen()  # another process folds the task from its signed events
    assert world.refusal(take_back(task), "owner").code == "nothing_to_retract"


def test_the_decision_on_a_rejection_is_taken_back_by_who_made_it() -> None:
    world = a_world(director="human")
    task, taken = world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    world.reject(taken, a_rejection("INFEASIBLE"))
    before = world.task(task)
    assert before.status == Status.BLOCKED
    world.ask(c.AnswerRejection(handoff_id=taken, decision="ACCEPT"), "Dora")

    assert world.refusal(take_back(task), "Dan").code == "not_yours"
    assert world.ask(take_back(task), "Dora").task == before
    assert world.ask(c.AnswerRejection(handoff_id=taken, decision="OVERRIDE"), "Dan").task.claim


@pytest.mark.parametrize("is_accepted", [True, False])
def test_the_decision_on_a_held_finding_is_taken_back(is_accepted: bool) -> None:
    world = FakeLedger(rules=Rules(gates=("tests",), team=TEAM, base="base"))
    task, _ = world.add_and_claim("Alice")
    sha = world.repository.add("work")
    suspect = GateResult(name="integrity", status=GateStatus.HELD, suspicions=("c0ffee001122",))
    verdict = a_verdict(
        suspect, commit=sha, tree=world.repository.commit("work").tree, status=GateStatus.HELD
    )
    world.ledger.ask_as(THE_COORDINATOR, c.RecordVerdict(task_id=task, agent="Alice", verdict=verdict))
    before = world.task(task)
    assert before.gates.held
    settle = c.SettleFinding(task_id=task, finding="c0ffee001122", is_accepted=is_accepted, reason="So")
    assert world.ask(settle, "Lea").task != before

    assert world.refusal(take_back(task), "owner").code == "not_yours"
    assert world.ask(take_back(task), "Lea").task == before
    assert rebuilt(world)[task] == before


def test_what_others_did_since_keeps_an_answer() -> None:
    world = a_world()
    task = asked(world)
    world.ask(c.AnswerEscalation(task_id=task, option="reassign:Bob"), "owner")
    world.claim(task, "Bob")

    assert world.refusal(take_back(task), "owner").code == "nothing_to_retract"


def test_an_answer_that_made_other_tasks_stays() -> None:
    world = a_world(director="human")
    task, taken = world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    world.reject(taken, a_rejection("BLOCKER"))
    answered = world.ask(c.AnswerRejection(handoff_id=taken, decision="ACCEPT_AND_DEFER"), "Dora")
    assert any(event.name == "node.create" for event in answered.events)

    assert world.refusal(take_back(task), "Dora").code == "too_late"


def test_an_answer_that_ended_a_task_stays_once_another_has_begun_that_waited_for_it() -> None:
    world = a_world()
    task = asked(world)
    other = world.add(depends_on=(task,))
    world.ask(c.AnswerEscalation(task_id=task, option="wontfix"), "owner")
    world.claim(other, "Bob")

    assert world.refusal(take_back(task), "owner").code == "too_late"
    assert world.refusal(c.ReopenTask(task_id=task), "owner").code == "too_late"


def test_a_word_of_the_rules_or_of_an_agent_is_no_answer_of_anybodys() -> None:
    world = a_world()
    task, taken = world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    world.reject(taken, a_rejection("BLOCKER"))

    assert world.refusal(take_back(task), "owner").code == "nothing_to_retract"
    assert world.refusal(take_back(world.add()), "owner").code == "nothing_to_retract"


def test_after_a_merge_an_answer_stays_that_somebody_had_acted_on_by_then() -> None:
    world = a_world()
    task = asked(world)
    world.ask(c.AnswerEscalation(task_id=task, option="reassign:Bob"), "owner")
    with world.store.read() as view:
        told = task_events(view, task)
    answer = next(event for event in told if isinstance(event, EscalationAnswered))
    world.claim(task, "Bob")
    meta = replace(answer.meta, id="f" * 64, session="elsewhere", seq=1, more=0)
    late = AnswerRetracted(task_id=task, answer=answer.meta.id, option="reassign:Bob", meta=meta)
    claimed = world.task(task)

    with world.store.read() as view:
        merged = [*task_events(view, task), late]
    in_time = replay([*told, late])
    assert in_time is not None
    assert in_time.status == Status.ESCALATED
    found = replay(merged)

    assert found is not None
    assert found.claim == claimed.claim
    assert [one.event for one in found.inbox.conflicts] == ["answer.retract"]
    assert evolve(claimed, late) == found


# A cancellation.


@pytest.mark.parametrize(
    ("prepare", "status"),
    [
        (lambda world, task: None, Status.INCOMING),
        (lambda world, task: world.claim(task), Status.INCOMING),
        (lambda world, task: (world.claim(task), world.submit(task)), Status.PROVISIONAL),
        (lambda world, task: send_back(world, task, "Alice", "work", "Lea"), Status.REJECTED),
    ],
    ids=["waiting", "claimed", "under review", "rejected"],
)
def test_a_cancelled_task_is_reopened_by_who_cancelled_it(
    prepare: Callable[[FakeLedger, str], object], status: Status
) -> None:
    world = a_world()
    task = world.add()
    prepare(world, task)
    locked = world.task(task).people.lockouts
    world.ask(c.CancelTask(task_id=task, reason="Not needed"), "Dora")

    assert world.refusal(c.ReopenTask(task_id=task), "Dan").code == "not_yours"
    after = world.ask(c.ReopenTask(task_id=task, reason=MISTAKE), "Dora").task

    assert (after.status, after.claim, after.people.lockouts) == (status, None, locked)
    assert rebuilt(world)[task] == after


def test_the_user_reopens_what_a_director_cancelled() -> None:
    world = a_world()
    task = world.add()
    world.ask(c.CancelTask(task_id=task), "Dora")

    assert world.ask(c.ReopenTask(task_id=task), "owner").task.status == Status.INCOMING


def test_a_task_that_was_split_or_is_done_stays_ended() -> None:
    world = a_world()
    done = world.add()
    world.finish(done)

    assert world.refusal(c.ReopenTask(task_id=done), "owner").code == "bad_transition"


def test_a_parent_that_was_closed_with_its_last_part_keeps_that_part_cancelled() -> None:
    world = a_world(director="human")
    task, taken = world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    parts = (world.add("One"), world.add("Two"))
    world.reject(taken, a_rejection("SCOPE_CREEP"))
    split = c.AnswerRejection(handoff_id=taken, decision="ACCEPT_AND_DECOMPOSE", created_tasks=parts)
    world.ask(split, "Dora")
    for part in parts:
        world.ask(c.CancelTask(task_id=part), "owner")
    assert world.task(task).status == Status.CANCELLED

    assert world.refusal(c.ReopenTask(task_id=parts[1]), "owner").code == "too_late"
    assert world.refusal(c.ReopenTask(task_id=task), "owner").code == "bad_transition"


# What the page offers.


def test_what_is_offered_is_what_would_be_accepted() -> None:
    world = a_world()
    task = asked(world)

    def offered(who: str) -> str:
        known = world.task(task)
        with world.store.read() as view:
            found = undo_of_task(view, known, world.rules.team.actor(who))
        return found.command if found else ""

    assert offered("owner") == ""
    world.ask(c.AnswerEscalation(task_id=task, option="reassign:Bob"), "owner")
    assert [offered(who) for who in ("owner", "Lea", "Alice")] == ["inbox retract", "", ""]
    world.claim(task, "Bob")
    assert offered("owner") == ""
    world.ask(c.CancelTask(task_id=task), "Dora")
    assert [offered(who) for who in ("owner", "Dora", "Dan")] == ["task reopen", "task reopen", ""]
