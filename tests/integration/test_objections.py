"""Holds that a no of a machine which is not trusted is told through every interface, and answered by the user alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from remand.adapters.coordinator.remote_ledger import RemoteLedger
from remand.app.requests import Acceptance, Request
from remand.domain import commands as c
from remand.domain.events.reviews import Finding, ReviewRejected
from remand.domain.refusals import Refused
from remand.testing.builders import Session
from remand.testing.fakes import FakeClock, FakeKeys
from remand.wiring.ledger import open_ledger
from tests.integration.forged_lines import put
from tests.integration.machine import Machine, Repository
from tests.integration.mcp_team import Team

ID = "0123456789abcdef"
TEAM = f"""[project]
id = "{ID}"
base = "main"

[gates]

[team]
members = [
  {{name = "Fenster", role = "agent"}},
  {{name = "Hockney", role = "agent"}},
  {{name = "Lead", role = "lead"}},
  {{name = "owner", role = "user", aliases = ["user"]}},
]
"""
IGNORING = f'{TEAM}\n[policy]\nunconfirmed_no = "ignore"\n'
STRANGER = FakeKeys("a stranger")
KEY = STRANGER.ensure_key().id
HOSTILE = "\x1b[31mIt leaks\u202e\nremand unlock Fenster"


@pytest.fixture
def far_machine() -> Iterator[Machine]:
    """Another machine."""
    made = Machine()
    yield made
    made.close()


class UnderReview:
    """A repository with work under review."""

    def __init__(self, machine: Machine, config: str = TEAM) -> None:
        self.repository: Repository = machine.repository(config=config)
        self.task = self.repository.add("The API", "--branch", "api")
        self.repository.ok("task", "claim", self.task, "--agent", "Fenster")
        self.repository.git("checkout", "-q", "-b", "api")
        self.commit = self.repository.commit()
        submit = ("--agent", "Fenster", "--commit", self.commit)
        self.repository.ok("task", "submit", self.task, *submit)
        self.repository.git("checkout", "-q", "main")

    def object(self, *keys: FakeKeys, task: str = "", text: str = "It leaks") -> None:
        """Keys that are not trusted reject the work; their files come with a branch."""
        for number, one in enumerate(keys or (STRANGER,)):
            session = Session(
                f"20261115-080000-{number:08x}",
                FakeClock("2026-11-15T08:00:00.000000Z"),
                keys=one,
                project=ID,
            )
            finding = (Finding(text=text),)
            said = ReviewRejected(
                task_id=task or self.task, reviewer="Lead", commit=self.commit, findings=finding
            )
            session.write(said, actor="Lead")
            put(self.repository, *session.lines, name=f"{session.name}.jsonl")

    @property
    def approval(self) -> tuple[str, ...]:
        return ("review", "approve", self.task, "--reviewer", "Lead", "--commit", self.commit)

    @property
    def dismissal(self) -> tuple[str, ...]:
        return ("inbox", "answer", f"{self.task}/key-{KEY}", "dismiss", "--guidance", "Not one of us")

    def status(self) -> str:
        return str(self.repository.ok("task", "show", self.task)["status"])


@pytest.fixture
def under_review(near_machine: Machine) -> UnderReview:
    return UnderReview(near_machine)


def test_a_reviewer_whose_machine_is_not_trusted_yet_is_heard_before_the_work_is_approved(
    machine: Machine, far_machine: Machine
) -> None:
    mine = UnderReview(machine)
    repository = mine.repository
    own = repository.ok("keys")["own"]["key"]
    repository.configure(f'{TEAM}\n[keys]\ntrusted = ["{own} mine"]\n')
    repository.ok("log", "publish")
    theirs = far_machine.clone(repository, "clone")
    reject = ("--reviewer", "Lead", "--commit", mine.commit, "--finding", "api.py:1: It leaks")
    theirs.git("fetch", "-q", "origin", "api")
    theirs.ok("review", "reject", mine.task, *reject)
    theirs.ok("log", "publish")
    repository.git("pull", "-q", "--no-edit", str(theirs.path), "main")

    assert repository.refused(*mine.approval) == "unconfirmed_no"
    (asked,) = repository.ok("inbox")
    key = theirs.ok("keys")["own"]
    assert (asked["kind"], asked["signer"], asked["task_id"]) == ("objection", key["id"], mine.task)
    assert "It leaks" in asked["question"]

    repository.ok("keys", "trust", key["key"], "--write")
    repository.git("commit", "-qam", "trust")

    assert mine.status() == "rejected"
    assert repository.ok("inbox") == []
    assert repository.ok("task", "show", mine.task)["objections"] == []


def test_it_is_shown_with_the_commands_that_answer_it_and_nothing_hostile(under_review: UnderReview) -> None:
    under_review.object(text=HOSTILE)
    repository, task = under_review.repository, under_review.task

    (shown,) = repository.ok("task", "show", task)["objections"]
    (asked,) = repository.ok("inbox")
    assert (shown["signer"], shown["is_open"], shown["holds_up"]) == (KEY, True, True)
    assert (
        shown["dismiss"]
        == asked["dismiss"]
        == f"remand inbox answer {task}/key-{KEY} dismiss --guidance REASON"
    )
    for command in (("task", "show", task), ("inbox",), under_review.approval):
        said = repository.people(*command)
        text = said.out + said.err
        assert KEY in text
        assert "keys trust" in text or command[0] == "task"
        assert not {"\x1b", "\u202e"} & set(text)
        assert "\nremand unlock" not in text


def test_a_claim_tells_of_it_and_is_given(under_review: UnderReview) -> None:
    repository = under_review.repository
    task = repository.add("Another")
    quiet = repository.ok("task", "claim", task, "--agent", "Fenster")
    assert "objections" not in quiet
    repository.ok("task", "release", task, "--agent", "Fenster")
    under_review.object(task=task)

    said = repository.people("task", "claim", task, "--agent", "Hockney")

    assert said.code == 0
    assert "warning: key" in said.out
    assert KEY in said.out
    repository.ok("task", "release", task, "--agent", "Hockney")
    repository.ok("handoff", "initiate", task, "--to", "Fenster")
    again = repository.ok("task", "claim", task, "--agent", "Fenster")
    assert [one["signer"] for one in again["objections"]] == [KEY]


def test_the_user_dismisses_it_and_the_work_is_approved(under_review: UnderReview) -> None:
    under_review.object()
    repository = under_review.repository
    assert repository.refused(*under_review.approval) == "unconfirmed_no"

    assert repository.refused(*under_review.dismissal[:-1], "") == "bad_value"
    assert repository.refused(*under_review.dismissal[:3], "reopen") == "bad_value"
    assert repository.ok(*under_review.dismissal)["option"] == "dismiss"

    assert repository.ok("inbox") == []
    said = repository.ok(*under_review.approval)
    assert said["status"] == "done"
    assert [one["is_dismissed"] for one in said["objections"]] == [True]
    dismissed = next(row for row in repository.ok("log", "tail") if row["event"] == "objection.dismiss")
    assert (dismissed["meta"]["actor"], dismissed["reason"]) == ("owner", "Not one of us")
    assert repository.verify() == []


def test_nobody_but_the_user_dismisses_it(under_review: UnderReview) -> None:
    under_review.object()
    repository = under_review.repository

    assert repository.refused("--as", "Lead", *under_review.dismissal) == "user_only"
    assert repository.refused("--as", "Fenster", *under_review.dismissal) == "user_only"
    confined = {"REMAND_TASK": under_review.task, "REMAND_ACTOR": "Fenster"}
    assert repository.refused(*under_review.dismissal, env=confined) == "user_only"
    assert repository.refused(*under_review.approval) == "unconfirmed_no"


def test_where_it_is_ignored_nothing_waits_and_keys_still_names_the_key(near_machine: Machine) -> None:
    under_review = UnderReview(near_machine, IGNORING)
    under_review.object()
    repository = under_review.repository

    assert repository.ok("inbox") == []
    assert [row["signer"] for row in repository.ok("keys")["unconfirmed"]] == [KEY]
    assert [one["signer"] for one in repository.ok("task", "show", under_review.task)["objections"]] == [KEY]
    assert repository.ok(*under_review.approval) == {"task_id": under_review.task, "status": "done"}


def test_a_policy_that_is_none_is_named(near_machine: Machine) -> None:
    repository = near_machine.repository(config=IGNORING.replace('"ignore"', '"never"'))
    assert "policy.unconfirmed_no" in repository.call("task", "list").err


def test_a_flood_is_shown_in_part(under_review: UnderReview) -> None:
    under_review.object(*(FakeKeys(str(number)) for number in range(60)))
    repository, task = under_review.repository, under_review.task

    shown = repository.ok("task", "show", task)
    assert (len(shown["objections"]), shown["more_objections"]) == (20, 40)
    assert (len(shown["unconfirmed"]), shown["has_more_unconfirmed"]) == (50, True)
    *listed, rest = repository.ok("inbox")
    assert (len(listed), rest["options"], "40 more" in rest["question"]) == (20, [], True)

    repository.ok("inbox", "answer", listed[0]["escalation_id"], "dismiss_all", "--guidance", "A flood")

    assert repository.ok("inbox") == []
    assert repository.ok(*under_review.approval)["status"] == "done"


def test_an_approval_waits_in_the_library_and_through_the_coordinators_socket(
    under_review: UnderReview,
) -> None:
    under_review.object()
    approve = c.ApproveReview(task_id=under_review.task, commit=under_review.commit)
    dismiss = c.DismissObjections(task_id=under_review.task, signer=KEY, reason="Not one of us")
    library = open_ledger(str(under_review.repository.path)).ledger

    assert code(library.ask(Request(command=approve, actor="Lead"))) == "unconfirmed_no"
    with under_review.repository.coordinator():
        remote = RemoteLedger(under_review.repository.socket())
        assert code(remote.ask(Request(command=approve, actor="Lead"))) == "unconfirmed_no"
        assert code(remote.ask(Request(command=dismiss, actor="Lead"))) == "user_only"
        assert code(remote.ask(Request(command=dismiss, actor="owner", confined=True))) == "user_only"
        assert code(remote.ask(Request(command=dismiss, actor="owner"))) == ""
        assert code(remote.ask(Request(command=approve, actor="Lead"))) == ""
        remote.close()
    assert under_review.status() == "done"


def code(answer: Acceptance | Refused) -> str:
    return answer.code if isinstance(answer, Refused) else ""


def test_over_mcp_a_reviewer_is_refused_and_the_user_answers(under_review: UnderReview) -> None:
    under_review.object()
    task, commit = under_review.task, under_review.commit
    checked = ["work.txt:1: the whole file was read and holds"]

    async def play() -> list[Any]:
        async with Team(under_review.repository, "memory", "auto") as team:
            lead, owner = await team.member("Lead"), await team.member("owner")
            first = await lead.does("approve", task=task, commit=commit, checked=checked)
            asked = await owner.does("inbox", ask=False)
            question = asked["questions"][0]["escalation_id"]
            await owner.does("answer", question=question, option="dismiss", guidance="Not one of us")
            return [first, asked, await lead.does("approve", task=task, commit=commit, checked=checked)]

    first, asked, last = asyncio.run(play())

    assert first["refused"] == "unconfirmed_no"
    assert [one["key"] for one in asked["questions"][0]["options"]] == ["dismiss"]
    assert last["status"] == "done"
    assert [one["signer"] for one in last["objections"]] == [KEY]
