"""Holds that a task or a handoff may be named by the end of its id, and that the end of several is refused."""

import pytest

from remand.app.rejection_facts import RejectionChecks
from remand.app.tasks.lookup import resolve_handoff_id, resolve_task_id
from remand.domain import commands as c
from remand.domain.ids import parse_id_end
from remand.domain.refusals import Refused
from remand.domain.task import Task
from tests.support.builders import FakeLedger
from tests.support.rejection_records import a_rejection

FIRST, SECOND = "T-roof-1a2b3c4d", "T-wall-99993c4d"


def a_ledger() -> FakeLedger:
    world = FakeLedger()
    for name in (FIRST, SECOND):
        world.ask(c.AddTask(title="Mend the roof", own_id=name))
    return world


def resolved(world: FakeLedger, name: str) -> str:
    with world.store.read() as view:
        return resolve_task_id(view, name)


@pytest.mark.parametrize("name", [FIRST, f"task:{FIRST}", "1a2b3c4d", "T-2b3c4d"])
def test_an_end_that_only_one_id_has_names_it(name: str) -> None:
    assert resolved(a_ledger(), name) == FIRST


def test_the_end_of_several_ids_is_refused_with_their_names() -> None:
    with pytest.raises(Refused, match=f"3c4d is the end of several ids: {FIRST}, {SECOND}") as refused:
        resolved(a_ledger(), "3c4d")
    assert refused.value.code == "ambiguous_id"


@pytest.mark.parametrize("name", ["c4d", "beef", "#3c4d", "roof", "", "T-20261115-090000-ffff3c4d"])
def test_what_is_too_short_or_no_end_names_nothing(name: str) -> None:
    assert resolved(a_ledger(), name) == ""


def test_figures_that_are_an_issues_number_too_are_refused() -> None:
    world = a_ledger()
    world.ask(c.AddTask(title="Another", own_id="T-door-aaaa1234"))
    assert resolved(world, "1234") == "T-door-aaaa1234"
    world.ask(c.AddTask(title="An issue", aliases=("#1234",)))

    with pytest.raises(Refused, match="#1234, T-door-aaaa1234"):
        resolved(world, "1234")


def test_figures_that_are_only_an_issues_number_name_its_task() -> None:
    world = a_ledger()
    issue = world.ask(c.AddTask(title="An issue", aliases=("#1234",))).task.id
    world.ask(c.AddTask(title="Its own end", own_id="T-door-aaaa5678", aliases=("#5678",)))

    assert (resolved(world, "1234"), resolved(world, "5678")) == (issue, "T-door-aaaa5678")
    assert resolved(world, "T-1234") == "", "that is no issue's number"
    later = world.ask(c.AddTask(title="Later", depends_on=("1234",))).task
    assert later.links.depends_on == (issue,)


def test_the_end_of_a_handoff_stands_for_its_task_and_never_for_a_task_that_ends_so() -> None:
    world = a_ledger()
    claim = world.ask(c.ClaimTask(task_id=FIRST, agent="Alice"), "Alice").task.claim
    assert claim is not None
    end = claim.handoff_id[-8:]
    unrelated = world.ask(c.AddTask(title="Unrelated", own_id=f"T-door-{end}")).task.id

    assert [resolved(world, name) for name in (f"H-{end}", f"handoff:{end}")] == [FIRST, FIRST]
    assert [resolved(world, name) for name in (f"T-{end}", end, "H-3c4d")] == [unrelated, unrelated, ""]
    with world.store.read() as view:
        assert [resolve_handoff_id(view, f"{kind}{end}") for kind in ("T-", "task:", "task:H-")] == [""] * 3
    release = c.ReleaseTask(task_id=FIRST, agent="Alice", handoff_id=f"T-{end}", reason="No time")
    world.refusal(release, "Alice")


def test_commands_take_the_ends_of_tasks_and_handoffs() -> None:
    world = a_ledger()
    claim = world.ask(c.ClaimTask(task_id="1a2b3c4d", agent="Alice"), "Alice").task.claim
    assert claim is not None
    end = claim.handoff_id[-8:]
    with world.store.read() as view:
        assert resolve_handoff_id(view, end) == claim.handoff_id
    world.ask(c.AddTask(title="Later", depends_on=("T-1a2b3c4d",)))
    after = world.ask(
        c.ReleaseTask(task_id="1a2b3c4d", agent="Alice", handoff_id=end, reason="No time"), "Alice"
    )

    assert after.task.claim is None
    assert world.refusal(c.ClaimTask(task_id="3c4d", agent="Alice"), "Alice").code == "ambiguous_id"


@pytest.mark.parametrize("length", [0, 8])
def test_evidence_is_looked_at_whether_the_handoff_is_named_by_its_id_or_the_end_of_it(length: int) -> None:
    world = a_ledger()
    asked: list[str] = []

    def look_up(rejection: object, task: Task) -> RejectionChecks:
        asked.append(task.id)
        return RejectionChecks()

    world.ledger._look_up = look_up
    claim = world.claim(FIRST, "Alice").claim
    assert claim is not None

    world.reject(claim.handoff_id[-length:], a_rejection())

    assert asked == [FIRST]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("9a56", "9a56"),
        ("T-9a560905", "9a560905"),
        ("081125-9a560905", "081125-9a560905"),
        ("T-20261115-090000-1a2b3c4d", ""),
        ("H-20261115-090000-1a2b3c4d", ""),
        ("fenster", ""),
        ("9A56", ""),
    ],
)
def test_what_may_be_an_end(text: str, end: str) -> None:
    assert parse_id_end(text) == end
