"""Holds that lockouts go along to what was cut from a task, whenever they were set, and end there with their cause."""

from __future__ import annotations

import pytest

from remand.app.requests import Request, Rules
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.tasks.lookup import Lineage
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.events.catalogue import event_task_id
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import Status
from tests.support.builders import LEAKS, FakeLedger, member, send_back
from tests.support.rejection_records import LAZY, SCOPE, TITLE, a_rejection

TEAM = Team(
    (
        member("Alice"),
        member("Bob"),
        member("Carol"),
        member("Lea", Role.LEAD),
        member("owner", Role.USER),
    )
)


def a_family(reason: str = "SCOPE_CREEP", *, is_rejected: bool = True) -> tuple[FakeLedger, str, str]:
    """A task whose author was rejected, unless said otherwise, and the first of those cut from it."""
    world = FakeLedger(rules=Rules(gates=(), team=TEAM, policy=Policy(auto_reformulate=True)))
    task = world.add(TITLE, scope=SCOPE)
    if is_rejected:
        send_back(world, task, "Alice", "work", "Lea")
    return world, task, cut(world, task, "Bob", reason)


def cut(world: FakeLedger, task: str, by: str, reason: str = "SCOPE_CREEP") -> str:
    """An agent rejects a task, which is cut into parts or stated anew; the first of these."""
    claim = world.claim(task, by).claim
    assert claim is not None
    world.reject(claim.handoff_id, a_rejection(reason), by)
    found = world.task(task)
    return (*found.links.children, found.links.superseded_by)[0]


def may_work(world: FakeLedger, task: str, agent: str) -> bool:
    """True when an agent is not kept away from a task, whatever else it waits for."""
    answer = world.ledger.ask(Request(command=c.InitiateHandoff(task_id=task, target=agent), actor="owner"))
    return not isinstance(answer, Refused) or answer.code != "locked_out"


@pytest.mark.parametrize("reason", ["SCOPE_CREEP", "INFEASIBLE"], ids=["sub-task", "reformulation"])
def test_who_is_locked_out_of_a_task_is_of_what_was_cut_from_it(reason: str) -> None:
    world, task, part = a_family(reason)

    (lockout,) = world.task(part).people.lockouts

    assert (lockout.agent, lockout.inherited_from, lockout.review_id) == ("Alice", task, "")
    assert world.refusal(c.ClaimTask(agent="Alice", task_id=part), "Alice").code == "locked_out"
    assert world.claim(part, "Carol").claim is not None


def test_a_lockout_that_comes_after_the_cut_holds_for_the_parts_as_well() -> None:
    world, task, part = a_family(is_rejected=False)
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="Not her"), "Lea")

    assert world.task(part).people.lockouts == ()
    refusal = world.refusal(c.ClaimTask(agent="Alice", task_id=part), "Alice")
    assert refusal.code == "locked_out"
    assert task in refusal.message
    handed = world.refusal(c.InitiateHandoff(task_id=part, target="Alice"))
    assert handed.code == "locked_out"
    assert world.refusal(c.ReassignTask(task_id=part, target="Alice")).code == "locked_out"


def test_the_next_task_is_none_that_was_cut_from_one_the_agent_is_locked_out_of() -> None:
    world, task, part = a_family(is_rejected=False)
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="Not her"), "Lea")

    assert world.refusal(c.ClaimTask(agent="Alice"), "Alice").code == "nothing_to_claim"
    other = world.add("Paint the fence", priority="low")
    assert world.claim(by="Alice").id == other
    assert world.claim(by="Carol").id == part


def test_who_holds_a_part_when_the_lockout_comes_hands_nothing_in() -> None:
    world, task, part = a_family(is_rejected=False)
    world.claim(part, "Alice")
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="Not her"), "Lea")
    world.repository.add("part")

    ask = c.SubmitTask(task_id=part, agent="Alice", commit="part")

    assert world.refusal(ask, "Alice").code == "locked_out"


def test_parts_of_parts_keep_away_whom_the_whole_keeps_away() -> None:
    world, task, part = a_family()
    world.ask(c.EditTask(task_id=part, title=TITLE, scope=SCOPE))
    deeper = cut(world, part, "Carol")

    assert deeper not in ("", part)
    assert world.refusal(c.ClaimTask(agent="Alice", task_id=deeper), "Alice").code == "locked_out"
    world.ask(c.LockOut(task_id=task, agent="Bob", reason="Nor him"), "Lea")
    assert world.refusal(c.ClaimTask(agent="Bob", task_id=deeper), "Bob").code == "locked_out"


@pytest.mark.parametrize("is_kept_away", [True, False], ids=["for itself too", "from above alone"])
def test_what_went_along_to_parts_of_parts_ends_unless_a_part_between_keeps_the_agent_away(
    is_kept_away: bool,
) -> None:
    world, task, part = a_family()
    if is_kept_away:
        world.ask(c.LockOut(task_id=part, agent="Alice", reason="Nor here"), "Lea")
    world.ask(c.EditTask(task_id=part, title=TITLE, scope=SCOPE))
    deeper = cut(world, part, "Carol")
    assert world.task(deeper).is_locked_out("Alice")

    world.ask(c.Unlock(task_id=task, agent="Alice", reason="Taught"))

    found = [world.task(name).is_locked_out("Alice") for name in (task, part, deeper)]
    assert found == [False, is_kept_away, is_kept_away]


@pytest.mark.parametrize("reason", ["SCOPE_CREEP", "INFEASIBLE"], ids=["sub-task", "reformulation"])
def test_an_unlock_above_ends_what_was_inherited(reason: str) -> None:
    world, task, part = a_family(reason)

    answer = world.ask(c.Unlock(task_id=task, agent="Alice", reason="Taught"))

    assert {event_task_id(event) for event in answer.events} >= {task, part}
    assert world.task(part).people.lockouts == ()
    assert world.task(part).people.unlocked == (), "not for the part alone: another lockout above would hold"
    assert world.claim(part, "Alice").claim is not None


def test_another_lockout_above_holds_after_an_unlock_above() -> None:
    world, task, part = a_family()
    world.ask(c.Unlock(task_id=task, agent="Alice", reason="Taught"))

    world.ask(c.LockOut(task_id=task, agent="Alice", reason="After all"), "Lea")

    assert world.refusal(c.ClaimTask(agent="Alice", task_id=part), "Alice").code == "locked_out"


@pytest.mark.parametrize("is_rejected", [True, False], ids=["copied", "looked up"])
def test_an_unlock_on_a_part_is_for_that_part_alone(is_rejected: bool) -> None:
    world, task, part = a_family(is_rejected=is_rejected)
    if not is_rejected:
        world.ask(c.LockOut(task_id=task, agent="Alice", reason="Not her"), "Lea")
    other = world.task(task).links.children[1]

    world.ask(c.Unlock(task_id=part, agent="Alice", reason="This one"))

    assert world.task(task).is_locked_out("Alice")
    assert may_work(world, part, "Alice")
    assert not may_work(world, other, "Alice")
    client = LedgerClient(world.ledger, lambda: world.rules, lambda: "", world.ids.hex)
    assert "Alice" not in client.barred_agents(world.task(part)), "the scheduler goes by the same rule"
    assert "Alice" in client.barred_agents(world.task(other))
    assert world.claim(part, "Alice").claim is not None


def test_the_scheduler_keeps_a_renamed_member_from_parts_of_what_it_was_locked_out_of() -> None:
    world, task, part = a_family(is_rejected=False)
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="Not her"), "Lea")
    members = (member("Alicia", aliases=("Alice",)), *TEAM.members[1:])
    rules = Rules(gates=(), team=Team(members))
    client = LedgerClient(world.ledger, lambda: rules, lambda: "", world.ids.hex)

    assert client.barred_agents(world.task(part)) == ("Alice",)


@pytest.mark.parametrize("reason", ["SCOPE_CREEP", "INFEASIBLE"], ids=["sub-task", "reformulation"])
def test_a_retraction_above_ends_what_was_inherited(reason: str) -> None:
    world, task, part = a_family(reason)

    world.ask(c.RetractReview(task_id=task, reason="It was right"), "Lea")

    assert world.task(task).people.lockouts == ()
    assert world.task(part).people.lockouts == ()
    assert world.claim(part, "Alice").claim is not None


def test_a_part_keeps_its_own_lockout_when_the_one_above_ends() -> None:
    world, task, part = a_family(is_rejected=False)
    send_back(world, part, "Alice", "part", "Lea")

    assert world.task(part).is_locked_out("Alice")
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="Not her"), "Lea")
    answer = world.ask(c.Unlock(task_id=task, agent="Alice", reason="Taught"))
    assert [event_task_id(event) for event in answer.events] == [task]
    assert world.task(part).is_locked_out("Alice")


def test_a_task_that_is_done_keeps_nobody_away_from_others() -> None:
    world, task, part = a_family()
    with world.store.read() as view:
        assert Lineage(view).inherited_lockouts(view.tasks.get(part)) == (("Alice", task),)
    for child in world.task(task).links.children:
        world.ask(c.EditTask(task_id=child, drop_depends_on=world.task(child).links.depends_on))
        world.claim(child, "Carol")
        world.submit(child, "Carol", f"part {child}")
        world.ask(c.ApproveReview(task_id=child, commit=f"part {child}"))

    assert world.task(task).status == Status.DONE
    with world.store.read() as view:
        assert Lineage(view).inherited_lockouts(view.tasks.get(part)) == ()


def test_a_part_is_not_passed_on_to_who_is_locked_out_of_the_whole() -> None:
    world, task, part = a_family(is_rejected=False)
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="Not her"), "Lea")
    claim = world.claim(part, "Bob").claim
    assert claim is not None

    for _ in range(2):
        world.reject(claim.handoff_id, LAZY, "Bob")

    assert [offer.target for offer in world.task(part).claims.offers] == ["Carol"]


def test_a_part_that_nobody_is_left_for_is_brought_before_the_user() -> None:
    world, task, part = a_family(is_rejected=False)
    for agent in ("Alice", "Bob"):
        world.ask(c.LockOut(task_id=task, agent=agent, reason="Not this one"), "Lea")
    world.claim(part, "Carol")
    world.submit(part, "Carol", "part")

    found = world.ask(c.RejectReview(task_id=part, commit="part", findings=(LEAKS,)), "Lea").task

    assert found.inbox.escalation is not None
    assert (found.status, found.inbox.escalation.kind) == (Status.ESCALATED, "deadlock")
    world.ask(c.AnswerEscalation(task_id=part, option="unlock:Alice"))
    assert world.claim(part, "Alice").claim is not None
