"""Holds whom a name means on a ledger: spellings of a known name act as it, look-alikes are refused."""

import pytest

from remand.app.events.task_folds import rebuild_tables
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.events.reviews import Finding
from remand.domain.task import Status
from remand.testing.builders import T3, a_task
from tests.support.builders import FakeLedger, member

SPELLINGS = (
    "fenster",
    "FENSTER",
    "Ｆｅｎｓｔｅｒ",
    " Fenster ",
    "fenster\u00a0",
    "Fenster/2",
    "fenster/17",
    "Fenster/b",
)
LOOK_ALIKES = (
    "Fenst\u0435r",
    "Fenste\u0433",
    "F\u0395NSTER",
    "Fen\u200bster",
    "\u202eFenster",
    "Fenst\u0323er",
    "Fenst\u0435r/2",
)
TEAM = Rules(
    gates=(),
    team=Team(
        (
            member("Hockney", Role.LEAD),
            member("Fenster", Role.AGENT, aliases=("fen",)),
            member("McManus", Role.AGENT),
        )
    ),
)
EVERYONE = pytest.mark.parametrize("rules", [Rules(gates=()), TEAM], ids=["no team", "team"])


def rejected(world: FakeLedger, by: str = "Fenster") -> str:
    """A task whose author is locked out after a rejection."""
    task_id = world.add()
    world.claim(task_id, by)
    world.submit(task_id, by)
    world.ask(c.RejectReview(task_id=task_id, commit="work", findings=(Finding(text="It leaks"),)))
    return task_id


@EVERYONE
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_lockout_holds_for_every_spelling_of_the_name(rules: Rules, spelling: str) -> None:
    world = FakeLedger(rules=rules)
    task_id = rejected(world)

    assert world.refusal(c.ClaimTask(agent=spelling, task_id=task_id), spelling).code == "locked_out"


@EVERYONE
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_spelling_of_a_known_name_is_recorded_as_that_name(rules: Rules, spelling: str) -> None:
    world = FakeLedger(rules=rules)
    world.claim(world.add("The first"), "Fenster")

    answer = world.ask(c.ClaimTask(agent=spelling, task_id=world.add("The second")), spelling)

    assert answer.task.claim is not None
    assert answer.task.claim.agent == "Fenster"
    assert {event.meta.actor for event in answer.events} == {"Fenster"}


@EVERYONE
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_new_name_that_looks_like_a_known_one_is_refused_with_that_one(rules: Rules, name: str) -> None:
    world = FakeLedger(rules=rules)
    task_id = rejected(world)

    for ask in (
        c.ClaimTask(agent=name, task_id=task_id),
        c.ClaimTask(agent=name),
        c.AddTask(title="Another"),
        c.ClaimTask(agent=name, task_id=world.add("Another one")),
    ):
        refusal = world.refusal(ask, name)
        assert refusal.code == "name_taken"
        assert "Fenster" in refusal.message


@pytest.mark.parametrize(
    "name",
    ["Fenster.sub", "fenster.2", "Fenster.a.b", "Fenster:2", "Fenster@home", "Fenst\u0435r.sub", "Fenster."],
)
def test_what_only_adds_to_a_known_name_after_a_dot_is_refused(name: str) -> None:
    world = FakeLedger()
    task_id = rejected(world)
    assert world.refusal(c.ClaimTask(agent=name, task_id=task_id), name).code == "name_taken"


def test_a_new_name_is_recorded_in_its_plain_form() -> None:
    world = FakeLedger()
    task = world.claim(world.add(), "  Ｋeyser\u3000 Söze ")
    assert task.claim is not None
    assert task.claim.agent == "Keyser Söze"


@pytest.mark.parametrize("name", ["us\u0435r", "u\u200bser", "c\u043eordinator"])
def test_no_name_looks_like_one_of_the_systems_own(name: str) -> None:
    world = FakeLedger()
    assert world.refusal(c.AddTask(title="x"), name).code == "name_taken"


@EVERYONE
def test_somebody_elses_name_is_read_like_ones_own(rules: Rules) -> None:
    world = FakeLedger(rules=rules)
    world.claim(world.add("The first"), "Fenster")
    task_id = world.add("The second")

    locked = world.ask(c.LockOut(task_id=task_id, agent="fenster", reason="no")).task
    assert [lockout.agent for lockout in locked.people.lockouts] == ["Fenster"]
    free = world.ask(c.Unlock(task_id=task_id, agent=" FENSTER", reason="yes")).task
    assert free.people.lockouts == ()
    refusal = world.refusal(c.LockOut(task_id=task_id, agent="Fenst\u0435r", reason="no"))
    assert (refusal.code, "Fenster" in refusal.message) == ("name_taken", True)
    refusal = world.refusal(c.InitiateHandoff(task_id=task_id, target="Fenst\u0435r"))
    assert refusal.code == "name_taken"


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("dev.a", "dev.b"),
        ("bob.smith", "bob"),
        ("Ana", "Anna"),
        ("Jan", "Jon"),
        ("agent-1", "agent-2"),
        ("claude", "claude-2"),
        ("Саша", "Маша"),
        ("田中", "中田"),
        ("Fenster", "Keyser"),
        ("team/alice", "team/bob"),
    ],
)
def test_honest_new_names_are_taken(known: str, new: str) -> None:
    world = FakeLedger()
    world.claim(world.add(), known)
    task = world.claim(world.add(), new)
    assert task.claim is not None
    assert task.claim.agent == new


def test_names_are_known_again_after_a_rebuild_and_on_another_ledger_that_reads_the_log() -> None:
    world = FakeLedger()
    task_id = rejected(world)
    with world.store.write() as tx:
        rebuild_tables(tx)
    assert (
        world.refusal(c.ClaimTask(agent="Fenst\u0435r", task_id=task_id), "Fenst\u0435r").code == "name_taken"
    )
    assert world.refusal(c.ClaimTask(agent="fenster", task_id=task_id), "fenster").code == "locked_out"


def test_two_spellings_that_came_together_by_a_merge_share_their_lockouts() -> None:
    """Two ledgers may each take a new name in; where they meet, the one that is locked out of a task counts there."""
    world = FakeLedger()
    task_id = rejected(world)
    with world.store.write() as tx:
        tx.tasks.put(a_task(T3, holders=("fenster",), status=Status.DONE))

    assert world.refusal(c.ClaimTask(agent="fenster", task_id=task_id), "fenster").code == "locked_out"
    assert world.refusal(c.ClaimTask(agent="fenster"), "fenster").code == "nothing_to_claim"


def test_a_member_whose_name_looks_like_anothers_is_refused_as_long_as_it_is_new() -> None:
    world = FakeLedger(rules=TEAM)
    task_id = rejected(world)
    fake = "Fenst\u0435r"
    for team in ((member("Fenster"), member(fake)), (member("Hockney", Role.LEAD), member(fake))):
        world.rules = Rules(gates=(), team=Team(team))
        for said in (fake, fake.upper()):
            refusal = world.refusal(c.ClaimTask(agent=said, task_id=task_id), said)
            assert (refusal.code, "Fenster" in refusal.message) == ("name_taken", True)


def test_a_team_of_another_script_acts_under_its_names() -> None:
    names = ("Саша", "Маша", "Οδυσσέας", "田中", "김민수", "José", "Łukasz")
    world = FakeLedger(rules=Rules(gates=(), team=Team(tuple(map(member, names)))))
    for name in names:
        task = world.claim(world.add(), name)
        assert task.claim is not None
        assert task.claim.agent == name


def test_a_former_members_name_is_not_taken_by_a_look_alike() -> None:
    world = FakeLedger(rules=Rules(gates=(), team=Team((member("Bob"),), former=("Fenster",))))
    assert world.refusal(c.AddTask(title="x"), "Fenst\u0435r").code == "name_taken"


def test_a_member_may_be_called_by_its_alias_in_any_case() -> None:
    world = FakeLedger(rules=TEAM)
    task = world.claim(world.add(), "FEN")
    assert task.claim is not None
    assert task.claim.agent == "Fenster"


def test_members_that_look_alike_are_named_and_others_are_not() -> None:
    team = Team(
        (member("Carmen"), member("Carrnen"), member("User", Role.USER), member("Ana"), member("Anna"))
    )
    assert team.look_alikes() == (("Carmen", "Carrnen"),)
