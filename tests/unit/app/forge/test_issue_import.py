"""Holds how issues become tasks: once, only of accounts that may write, their text made safe."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.app.forge.ports import ForgeFault, ForgeFaultKind, ForgeIssue
from remand.app.forge.sync import IssueImport, IssueImporter, read_labels
from remand.app.requests import Rules
from remand.config import ForgeSettings
from remand.domain import commands as c
from remand.domain.events.work import IssueImported
from remand.domain.forge import Account
from remand.domain.task import Priority
from remand.testing.builders import LATER, MUCH_LATER, NOW, Session
from tests.corpus.comments import MARKER, hostile_comments
from tests.support.builders import FakeLedger
from tests.support.forge_fakes import MemoryForge, an_account

ANN, EVE = an_account("ann"), an_account("eve")
SOURCE = ForgeSettings(kind="github", repository="octo/demo", api="https://api.github.com")


class ImportSetup:
    """A ledger, and a forge with issues."""

    def __init__(self, world: FakeLedger | None = None) -> None:
        self.world = world or FakeLedger(rules=Rules(gates=()))
        self.forge = MemoryForge()
        self.forge.writers = {ANN.id}

    def report(self, number: int, author: Account | None = ANN, **fields: Any) -> None:
        """Somebody opens an issue."""
        standard = {"title": f"Issue {number}", "labels": ("remand",), "opened_at": NOW, "author": author}
        self.forge.listed[number] = ForgeIssue(number=number, **{**standard, **fields})

    def bring_in(self, label: str = "remand", *, is_dry: bool = False, **fields: bool) -> IssueImport:
        """Looks once, as a process of its own."""
        bringing = IssueImporter(self.world.reopen(), self.forge, replace(SOURCE, **fields))
        return bringing.import_issues(label, is_dry=is_dry)


def test_issues_with_the_label_become_tasks_the_oldest_first_and_once() -> None:
    setup = ImportSetup()
    for number in (7, 3):
        setup.report(number, text=f"Text {number}")
    setup.report(5, labels=("bug",))
    first, again = setup.bring_in(), setup.bring_in()
    tasks = [setup.world.task(one.task_id) for one in first.imported]

    assert [(task.details.aliases, task.title, task.details.scope) for task in tasks] == [
        (("#3",), "Issue 3", "Text 3"),
        (("#7",), "Issue 7", "Text 7"),
    ]
    assert [task.forge.issue for task in tasks] == [3, 7]
    assert (again.imported, again.known) == ((), first.imported)
    assert len(setup.world.tasks()) == 2


def test_looking_first_writes_nothing_down() -> None:
    setup = ImportSetup()
    setup.report(3)
    shown = setup.bring_in(is_dry=True)

    assert setup.world.tasks() == {}
    assert shown == setup.bring_in()


def test_only_what_accounts_that_may_write_have_opened_becomes_a_task() -> None:
    setup = ImportSetup()
    setup.report(1, EVE)
    setup.report(2, None)
    setup.report(3)
    found = setup.bring_in()

    assert [one.alias for one in found.imported] == ["#3"]
    assert [(one.alias, "import_from" in one.why) for one in found.skipped] == [("#1", True), ("#2", False)]
    assert [one.alias for one in setup.bring_in(import_from="anyone").imported] == ["#1", "#2"]


def test_when_the_forge_does_not_say_who_may_write_nothing_becomes_a_task() -> None:
    setup = ImportSetup()
    setup.report(1)
    setup.report(2, EVE)

    def unknown(account: Account) -> bool:
        if account == EVE:
            raise ForgeFault(ForgeFaultKind.UNREACHABLE, "Away.")
        return True

    setup.forge.may_write = unknown  # type: ignore[method-assign]
    with pytest.raises(ForgeFault):
        setup.bring_in()

    assert setup.world.tasks() == {}


def test_each_author_is_asked_about_once() -> None:
    setup = ImportSetup()
    for number in range(1, 30):
        setup.report(number)
    setup.bring_in()

    assert setup.forge.usage.requests == 2


def test_a_task_that_somebody_wrote_down_by_hand_stays_theirs() -> None:
    setup = ImportSetup()
    own = setup.world.add(aliases=("#3",))
    setup.report(3)
    found = setup.bring_in()

    assert [one.task_id for one in found.known] == [own]
    assert setup.world.task(own).forge.issue == 0


def test_an_issue_is_known_although_its_task_lost_the_number() -> None:
    setup = ImportSetup()
    setup.report(3)
    (made,) = setup.bring_in().imported
    setup.world.ask(c.EditTask(task_id=made.task_id, aliases=()))

    assert [one.task_id for one in setup.bring_in().known] == [made.task_id]


def test_two_ledgers_make_the_same_task_of_an_issue() -> None:
    one, two = (
        ImportSetup(),
        ImportSetup(FakeLedger(session="20261115-090000-00000001", rules=Rules(gates=()))),
    )
    for setup in (one, two):
        setup.report(3)

    assert one.bring_in() == two.bring_in()


def test_an_issue_that_is_said_to_be_of_tomorrow_is_one_of_now() -> None:
    setup = ImportSetup()
    setup.report(3, opened_at=MUCH_LATER)
    setup.report(4, opened_at="")

    assert len(setup.bring_in().imported) == 2


def test_a_forge_whose_clock_is_ahead_makes_the_same_task_all_the_same() -> None:
    setup = ImportSetup()
    setup.report(3, opened_at=LATER)
    shown = setup.bring_in(is_dry=True)
    setup.world.clock.advance(60)

    assert setup.bring_in() == shown


@pytest.mark.parametrize(
    ("labels", "priority", "skills"),
    [
        (("remand",), "medium", ()),
        (("priority: high",), "high", ()),
        (("Priority::Critical", "priority/low"), "critical", ()),
        (("priority=low",), "low", ()),
        (("priority: whatever", "my priority: high"), "medium", ()),
        (("skill: frontend", "skill::sql", "Skill/frontend"), "medium", ("frontend", "sql")),
        (("skill:", "skill: a\nb", "skill: " + "x" * 65, "skills: x", "skill: <b>"), "medium", ()),
        (tuple(f"skill: s{n}" for n in range(50)), "medium", tuple(f"s{n}" for n in range(32))),
    ],
)
def test_labels_tell_priority_and_skills(
    labels: tuple[str, ...], priority: str, skills: tuple[str, ...]
) -> None:
    assert read_labels(labels) == (priority, skills)
    setup = ImportSetup()
    setup.report(3, labels=("remand", *labels))
    (made,) = setup.bring_in().imported
    task = setup.world.task(made.task_id)

    assert (task.details.priority, set(task.details.skills)) == (Priority(priority), set(skills))


def test_hostile_issues_are_text_and_no_more() -> None:
    setup = ImportSetup()
    hidden = [one.text for one in hostile_comments() if one.is_hidden][::5]
    for number, text in enumerate(hidden, 1):
        setup.report(number, title=text[:5000], text=text)
    found = setup.bring_in()

    assert (len(found.imported), found.skipped) == (len(hidden), ())
    for task in setup.world.tasks().values():
        assert MARKER not in f"{task.title} {task.details.scope}".lower()
        assert "\n" not in task.title
        assert len(task.title) <= 200
        assert len(task.details.scope.encode()) <= 8 * 1024


@pytest.mark.parametrize("title", ["", "   ", "\u200b\u202e", "<!-- hidden -->"])
def test_an_issue_without_a_title_is_called_by_its_number(title: str) -> None:
    setup = ImportSetup()
    setup.report(3, title=title)

    assert setup.bring_in().imported[0].title == "Issue #3"


def test_a_line_in_a_file_makes_no_task_an_issues() -> None:
    world = FakeLedger(rules=Rules(gates=()))
    name = world.add()
    session = Session(keys=None, clock=world.clock)
    session.write(IssueImported(task_id=name, issue=12))
    world.exchange.put("forged.jsonl", session.lines)
    world.ledger.refresh()

    assert world.task(name).forge.issue == 0
