"""A lockout holds for the person and not for the spelling, whatever interface is used and whatever the team is called."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from remand import HandoffManager, Refused, TaskRejection
from remand.adapters.coordinator.remote_ledger import RemoteLedger
from remand.app.requests import Request
from remand.domain import commands as c
from remand.wiring.ledger import open_ledger
from tests.integration.agent_sockets import Yard
from tests.integration.machine import Machine, Repository
from tests.integration.mcp_team import Team
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

SPELLINGS = ("fenster", "FENSTER", "Ｆｅｎｓｔｅｒ", " Fenster ", "Fenster/2", "Fenster/two")
LOOK_ALIKES = (
    "Fenst\u0435r",
    "Fenste\u0433",
    "F\u0395NSTER",
    "Fen\u200bster",
    "\u2067Fenster",
    "Fenst\u0323er",
    "Fenst\u0435r/3",
)
TEAM = """
[project]
base = "main"

[gates]

[team]
members = [
  {{name = "{author}", roles = ["agent", "lead"]{more}}},
  {{name = "McManus", role = "agent"}},
  {{name = "Lead", role = "lead"}},
]
{former}
"""


@pytest.fixture
def repository(near_machine: Machine) -> Repository:
    return near_machine.repository()


def rejected(repository: Repository, author: str = "Fenster") -> str:
    """A task whose author's work was rejected."""
    task = repository.add(TITLE, "--scope", SCOPE)
    repository.ok("task", "claim", task, "--agent", author)
    commit = repository.commit()
    repository.ok("task", "submit", task, "--agent", author, "--commit", commit)
    answer = repository.ok("review", "reject", task, "--commit", commit, "--finding", "work.txt:1: It leaks")
    assert answer["locked_out"] == [author]
    return task


def team(author: str, more: str = "", former: str = "") -> str:
    return TEAM.format(author=author, more=more, former=former)


def test_without_a_team_no_spelling_of_a_name_gets_round_its_lockout(repository: Repository) -> None:
    task = rejected(repository)
    for name in SPELLINGS:
        assert repository.refused("task", "claim", task, "--agent", name) == "locked_out", name
        assert repository.refused("--as", name, "task", "claim", task) == "locked_out", name
        assert repository.ok("why", name, "--task", task)["locked_out"] is True, name
    for name in LOOK_ALIKES:
        assert repository.refused("task", "claim", task, "--agent", name) == "name_taken", name
        assert repository.refused("task", "claim", "--agent", name) == "name_taken", name
    assert repository.ok("task", "claim", task, "--agent", "Keyser")["handoff_id"]


def test_the_coordinators_socket_reads_names_alike(repository: Repository) -> None:
    task = rejected(repository)
    with repository.coordinator():
        remote = RemoteLedger(repository.socket())
        for name, code in ((SPELLINGS[0], "locked_out"), (LOOK_ALIKES[0], "name_taken")):
            answer = remote.ask(Request(command=c.ClaimTask(agent=name, task_id=task), actor=name))
            assert isinstance(answer, Refused)
            assert answer.code == code
        remote.close()
        assert repository.refused("task", "claim", task, "--agent", "fenster") == "locked_out"


def test_the_library_reads_names_alike(repository: Repository) -> None:
    task = repository.add(TITLE, "--scope", SCOPE)
    handoff = repository.ok("task", "claim", task, "--agent", "Fenster")["handoff_id"]
    manager = HandoffManager(str(repository.path))
    record = {**a_rejection(), "task_id": task, "handoff_id": handoff}

    with pytest.raises(Refused) as refused:
        manager.reject_handoff(
            handoff, LOOK_ALIKES[0], TaskRejection.from_dict(record | {"agent_id": LOOK_ALIKES[0]})
        )
    assert refused.value.code == "name_taken"
    manager.reject_handoff(handoff, "fenster", TaskRejection.from_dict(record | {"agent_id": "FENSTER"}))
    assert manager.status(handoff)["agent"] == "Fenster"


def test_mcp_reads_names_alike(repository: Repository) -> None:
    repository.configure(team("Fenster"))
    task = rejected(repository)

    async def play() -> list[str]:
        async with Team(repository, "memory") as members:
            people = [await members.member(name) for name in ("fenster", LOOK_ALIKES[0])]
            return [(await one.does("next_task", task=task))["refused"] for one in people]

    assert asyncio.run(play()) == ["locked_out", "name_taken"]


def test_a_name_stays_known_in_a_fresh_clone(repository: Repository) -> None:
    task = rejected(repository)
    repository.ok("log", "publish")
    repository.git("add", ".got")
    repository.git("commit", "-q", "-m", "events")
    clone = repository.machine.clone(repository, "clone")
    assert clone.refused("task", "claim", task, "--agent", "fenster") == "locked_out"
    assert clone.refused("task", "claim", task, "--agent", LOOK_ALIKES[0]) == "name_taken"


def test_a_merged_change_that_renames_a_member_does_not_end_its_lockout(repository: Repository) -> None:
    repository.configure(team("Fenster"))
    task = rejected(repository)
    repository.git("checkout", "-q", "-b", "rename")
    repository.configure(team("Keaton"))
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "rename", "rename")

    assert repository.refused("task", "claim", task, "--agent", "Keaton") == "locked_out"
    (names,) = [check for check in repository.call("doctor").data["checks"] if check["name"] == "names"]
    assert "Fenster is locked out and no longer on the team" in names["detail"]
    assert "former" in names["fix"]
    other = repository.add("Another task")
    repository.ok("task", "claim", other, "--agent", "Keaton")

    repository.configure(team("Keaton", ', aliases = ["Fenster"]'))
    assert repository.refused("task", "claim", task, "--agent", "Keaton") == "locked_out"
    repository.configure(team("Keaton", former='former = ["Fenster"]'))
    repository.ok("reassign", task, "--to", "Keaton")
    assert repository.ok("task", "claim", task, "--agent", "Keaton")["handoff_id"]


def test_the_doctor_names_members_that_look_alike(repository: Repository) -> None:
    repository.configure(team("McMan\u03c5s"))
    (names,) = [check for check in repository.call("doctor").data["checks"] if check["name"] == "names"]
    assert "looks like" in names["detail"]
    assert repository.refused("task", "claim", "--agent", "McMan\u03c5s") == "name_taken"


def test_what_was_done_in_the_users_name_by_word_alone_is_shown_as_asserted(repository: Repository) -> None:
    """Nothing keeps an agent without a sandbox from using the user's name; that it was only said is on record."""
    task = rejected(repository)
    repository.ok("unlock", "Fenster", "--task", task, "--reason", "I say so")

    shown = repository.ok("task", "show", task)
    unlocked = next(row for row in shown["history"] if row["event"] == "lockout.clear")
    assert (unlocked["actor"], unlocked["asserted"]) == ("user", True)
    assert shown["asserted"] == ["Fenster", "user"]
    assert [row["asserted"] for row in shown["reviews"]] == [True]
    text = " ".join(repository.people("task", "show", task).out.split())
    assert "asserted Fenster, user" in text
    assert "user (asserted) rejected" in text


def test_reviewers_see_whose_work_is_only_said_to_be_theirs(repository: Repository) -> None:
    task = repository.add()
    repository.ok("task", "claim", task, "--agent", "Fenster")
    repository.ok("task", "submit", task, "--agent", "Fenster", "--commit", repository.commit())
    (row,) = repository.ok("review", "list")
    assert (row["author"], row["asserted"]) == ("Fenster", True)
    assert "(asserted)" in repository.people("review", "list").out


def test_a_user_alone_is_not_told_that_the_own_name_is_asserted(repository: Repository) -> None:
    task = repository.add()
    assert repository.ok("task", "show", task)["asserted"] == []
    assert "asserted" not in repository.people("task", "show", task).out


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    machine = Machine(is_near=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in machine.environment.items():
            patch.setenv(name, value)
        made = Yard(machine)
        yield made
        made.close()
    machine.close()


def test_an_agent_is_known_by_its_socket_and_not_by_an_environment_that_says_so(yard: Yard) -> None:
    alice = yard.agent("Alice")
    alice.commit("good")
    assert (
        alice.remand("task", "submit", alice.task, "--commit", "HEAD", "--json").data["status"]
        == "provisional"
    )
    (submitted,) = [row for row in alice.story["history"] if row["event"] == "task.submit"]
    assert (submitted["actor"], submitted["asserted"]) == ("Alice", False)
    opened = open_ledger(str(yard.repository.path))
    with opened.store.read() as view:
        found = view.tasks.get(alice.task)
    assert found is not None
    assert found.submission is not None
    assert not found.submission.is_asserted
    other = yard.repository.add("Another")
    claimed = yard.repository.machine.remand(
        yard.repository.path,
        *("task", "claim", other, "--json"),
        env={"REMAND_ACTOR": "Alice", "REMAND_KNOWN_BY": "socket"},
    )
    assert claimed.code == 0, claimed
    shown = yard.repository.ok("task", "show", other)
    assert "Alice" in shown["asserted"]
