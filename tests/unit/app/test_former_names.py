"""Holds that a lockout does not end when its member is renamed, and that an honest new member can be let in."""

from msgspec.structs import replace

from remand.app.history.rejections import explain_lockouts
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Member, Role, Team
from remand.domain.events.reviews import Finding, LockoutSet
from remand.testing.builders import T3, Session, task_added
from tests.support.builders import FakeLedger, member

LEA, BOB = member("Lea", Role.LEAD), member("Bob")
FENSTER = member("Fenster")
LEAKS = (Finding(text="It leaks"),)


def rejected(*team: Member) -> tuple[FakeLedger, str]:
    """A task from which Fenster is locked out."""
    world = FakeLedger(rules=Rules(gates=(), team=Team(team)))
    task = world.add()
    world.claim(task, "Fenster")
    world.submit(task, "Fenster")
    world.ask(c.RejectReview(task_id=task, commit="work", findings=LEAKS))
    return world, task


def regroup(world: FakeLedger, *team: Member, former: tuple[str, ...] = ()) -> None:
    world.rules = replace(world.rules, team=Team(team, former=former))


def test_a_member_renamed_without_an_alias_stays_locked_out() -> None:
    world, task = rejected(LEA, FENSTER, BOB)
    regroup(world, LEA, member("Keaton"), BOB)
    for ask in (
        c.ClaimTask(agent="Keaton", task_id=task),
        c.SubmitTask(task_id=task, agent="Keaton", commit="work"),
    ):
        refusal = world.refusal(ask, "Keaton")
        assert refusal.code == "locked_out"
        assert "Fenster" in refusal.message
        assert "aliases" in refusal.message
        assert "former" in refusal.message
    assert world.refusal(c.InitiateHandoff(task_id=task, target="Keaton")).code == "locked_out"
    assert world.refusal(c.ReassignTask(task_id=task, target="Keaton")).code == "locked_out"
    assert world.refusal(c.ClaimTask(agent="Keaton"), "Keaton").code == "nothing_to_claim"


def test_who_asks_why_is_told_that_the_new_member_may_be_the_old_one() -> None:
    world, task = rejected(LEA, FENSTER, BOB)
    regroup(world, LEA, member("Keaton"), BOB)
    with world.store.read() as view:
        (found,) = explain_lockouts(view, world.rules.team, "keaton", task)
        (other,) = explain_lockouts(view, world.rules.team, "Bob", task)
    assert found.is_locked_out
    assert "Fenster" in found.why
    assert not other.is_locked_out


def test_other_tasks_are_free_for_a_new_member_and_change_nothing() -> None:
    world, task = rejected(LEA, FENSTER, BOB)
    regroup(world, LEA, member("Keaton"), BOB)
    other = world.add("Another")
    world.claim(other, "Keaton")
    world.submit(other, "Keaton", "other")
    assert world.refusal(c.ClaimTask(agent="Keaton", task_id=task), "Keaton").code == "locked_out"


def test_a_member_that_was_there_beside_the_locked_out_one_is_somebody_else() -> None:
    world, task = rejected(LEA, FENSTER, BOB)
    regroup(world, LEA, member("Keaton"), BOB)
    world.ask(c.ReassignTask(task_id=task, target="Bob"))
    assert world.claim(task, "Bob").claim is not None


def test_a_colleague_renamed_with_an_alias_is_still_somebody_else() -> None:
    world, task = rejected(LEA, FENSTER, BOB)
    regroup(world, LEA, member("Robert", aliases=("Bob",)))
    world.ask(c.ReassignTask(task_id=task, target="Robert"))
    assert world.claim(task, "Robert").claim is not None


def test_the_user_says_in_the_configuration_that_the_former_member_left() -> None:
    world, task = rejected(LEA, FENSTER)
    regroup(world, LEA, member("Keaton"), former=("Fenster",))
    world.ask(c.ReassignTask(task_id=task, target="Keaton"))
    assert world.claim(task, "Keaton").claim is not None


def test_an_alias_says_that_the_new_name_is_the_same_member() -> None:
    world, task = rejected(LEA, FENSTER, BOB)
    regroup(world, LEA, member("Keaton", aliases=("Fenster",)), BOB)
    refusal = world.refusal(c.ClaimTask(agent="Keaton", task_id=task), "Keaton")
    assert refusal.code == "locked_out"
    assert "former" not in refusal.message


def test_a_renamed_author_of_rejected_work_does_not_review_it_either() -> None:
    world, task = rejected(LEA, FENSTER, BOB)
    regroup(world, LEA, member("Keaton", Role.AGENT, Role.LEAD), BOB)
    world.ask(c.ReassignTask(task_id=task, target="Bob"))
    world.claim(task, "Bob")
    world.submit(task, "Bob", "better")
    assert world.refusal(c.ApproveReview(task_id=task, commit="better"), "Keaton").code == "locked_out"


def test_with_nobody_left_but_a_member_that_may_be_the_locked_out_one_the_user_is_asked() -> None:
    world, task = rejected(LEA, FENSTER, BOB)
    regroup(world, LEA, member("Keaton"), BOB)
    world.ask(c.LockOut(task_id=task, agent="Bob", reason="no"))
    assert world.task(task).status == "escalated"


def test_a_lockout_of_a_time_without_a_team_holds_for_whoever_has_no_part_in_any_task() -> None:
    world, task = rejected()
    world.claim(world.add("Another"), "Bob")
    regroup(world, LEA, BOB, member("Keaton"))
    assert world.refusal(c.ClaimTask(agent="Keaton", task_id=task), "Keaton").code == "locked_out"
    assert world.claim(task, "Bob").claim is not None


def test_what_was_cut_from_a_task_is_kept_from_the_renamed_member_too() -> None:
    world, task = rejected(LEA, FENSTER, BOB)
    regroup(world, LEA, member("Keaton"), BOB)
    session = Session()
    session.write(task_added(T3, "A part", parent=task))
    world.exchange.put("/events/theirs.jsonl", session.lines)
    world.ledger.refresh()
    assert world.refusal(c.ClaimTask(agent="Keaton", task_id=T3), "Keaton").code == "locked_out"
    assert world.claim(T3, "Bob").claim is not None


def test_an_event_of_a_lockout_names_the_others_of_the_team_and_old_ones_none() -> None:
    world, _ = rejected(LEA, FENSTER, BOB)
    (locked,) = [event for event in world.events() if isinstance(event, LockoutSet)]
    assert locked.team == ("Bob", "Lea")
    world, _ = rejected()
    (locked,) = [event for event in world.events() if isinstance(event, LockoutSet)]
    assert locked.team == ()
