"""Holds that an agent is the same agent under every name its member has or had."""

from msgspec.structs import replace

from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.events.reviews import Finding
from remand.domain.task import Status
from tests.support.builders import FakeLedger, member
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

LEAKS = (Finding(text="It leaks"),)
OTHERS = (member("Bob"), member("Lea", Role.LEAD))


def a_world() -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), team=Team((member("Alice", Role.AGENT, Role.LEAD), *OTHERS))))


def renamed(world: FakeLedger) -> FakeLedger:
    """Alice is called Eve from now on."""
    eve = member("Eve", Role.AGENT, Role.LEAD, aliases=("Alice",))
    world.rules = replace(world.rules, team=Team((eve, *OTHERS)))
    return world


def a_rejected_task(world: FakeLedger) -> str:
    """A task from which Alice is locked out."""
    task = world.add(TITLE, scope=SCOPE)
    world.claim(task)
    world.submit(task)
    world.ask(c.RejectReview(task_id=task, commit="work", findings=LEAKS), "Lea")
    return task


def test_a_renamed_agent_stays_locked_out_under_every_name() -> None:
    world = a_world()
    task = a_rejected_task(world)
    renamed(world)
    for name in ("Eve", "Alice"):
        assert world.refusal(c.ClaimTask(agent=name, task_id=task), name).code == "locked_out"
        assert world.refusal(c.SubmitTask(task_id=task, agent=name, commit="work"), name).code == "locked_out"
        assert world.refusal(c.InitiateHandoff(task_id=task, target=name)).code == "locked_out"
        assert world.refusal(c.ReassignTask(task_id=task, target=name)).code == "locked_out"


def test_a_renamed_author_does_not_review_its_own_work() -> None:
    world = a_world()
    task = world.add()
    world.claim(task)
    world.submit(task)
    renamed(world)
    for name in ("Eve", "Alice"):
        assert world.refusal(c.ApproveReview(task_id=task, commit="work"), name).code == "own_work"


def test_a_renamed_agent_goes_on_with_its_claim() -> None:
    world = a_world()
    task = world.claim(world.add()).id
    assert renamed(world).submit(task, "Eve").status == Status.PROVISIONAL


def test_a_renamed_reviewer_takes_its_rejection_back() -> None:
    world = a_world()
    task = a_rejected_task(world)
    world.rules = replace(
        world.rules, team=Team((member("Alice"), member("Kim", Role.LEAD, aliases=("Lea",))))
    )
    assert not world.ask(c.RetractReview(task_id=task, reason="It was right"), "Kim").task.people.lockouts


def test_the_user_unlocks_a_renamed_agent_by_any_name() -> None:
    for name in ("Eve", "Alice"):
        world = a_world()
        task = a_rejected_task(world)
        renamed(world)
        world.ask(c.Unlock(task_id=task, agent=name, reason="Again"))
        assert not world.task(task).people.lockouts


def test_the_next_task_is_none_from_which_the_agent_was_locked_out_under_an_older_name() -> None:
    world = a_world()
    task = a_rejected_task(world)
    world.clock.advance(3600)
    world.ledger.ask_all([])
    renamed(world)
    assert world.refusal(c.ClaimTask(agent="Eve"), "Eve").code == "nothing_to_claim"
    other = world.add("Paint the door")
    assert world.claim(by="Eve").id == other
    assert world.claim(by="Bob").id == task


def test_who_is_locked_out_of_a_task_does_not_review_what_was_cut_from_it() -> None:
    world = a_world()
    task = a_rejected_task(world)
    claim = world.claim(task, "Bob").claim
    assert claim is not None
    world.reject(claim.handoff_id, a_rejection("SCOPE_CREEP"), "Bob")
    part = next(
        name for name, one in world.tasks().items() if one.links.parent == task and not one.links.depends_on
    )
    world.claim(part, "Bob")
    world.submit(part, "Bob", "part")
    for name in ("Alice", "Eve"):
        assert world.refusal(c.ApproveReview(task_id=part, commit="part"), name).code == "locked_out"
        renamed(world)
    assert world.ask(c.ApproveReview(task_id=part, commit="part"), "Lea").task.status == Status.DONE
