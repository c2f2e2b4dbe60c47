"""A task's whole life over MCP, by the official client: in memory, over standard input and output, and over HTTP."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from tests.integration.machine import Machine, Repository
from tests.integration.mcp_team import TEAM, Member, Team, User

LOOKED = "work.txt:1: the slates lie as the task asks for"
WAYS = [("memory", "auto"), ("memory", "legacy"), ("stdio", "auto"), ("http", "auto"), ("http", "legacy")]


@pytest.fixture
def machine(near_machine: Machine) -> Machine:
    return near_machine


@pytest.fixture
def repository(machine: Machine) -> Repository:
    return machine.repository(config=TEAM)


@pytest.mark.parametrize(("way", "mode"), WAYS, ids=[f"{way}-{mode}" for way, mode in WAYS])
def test_from_a_premature_done_to_a_rejection_a_lockout_the_user_and_the_end(
    repository: Repository, way: str, mode: str
) -> None:
    task = repository.add("Mend the roof", "--branch", "work")
    with repository.coordinator() if way == "stdio" else nullcontext():
        asyncio.run(_live(repository, way, mode, task))
    shown = repository.ok("task", "show", task)
    assert shown["status"] == "done"
    assert [row["actor"] for row in shown["history"] if row["event"] == "lockout.clear"] == ["owner"]
    assert repository.verify() == []


async def _live(repository: Repository, way: str, mode: str, task: str) -> None:
    async with Team(repository, way, mode) as team:
        fenster, lead = await team.member("Fenster"), await team.member("Lead")
        await _premature(repository, fenster, task)
        await _sent_back(lead, fenster, task)
        hockney = await team.member("Hockney")
        await _taken_over(repository, hockney, task)
        commit = (await lead.does("review_diff", task=task))["commit"]
        rejected = await lead.does("reject", task=task, commit=commit, findings=["Still leaks"])
        assert rejected["status"] == "escalated"
        assert rejected["escalation_id"]
        user = User("unlock:Fenster", "Use slates")
        await _answered(await team.member("owner", user), rejected["escalation_id"])
        assert len(user.forms) == 1
        await _finished(repository, fenster, lead, task)


async def _premature(repository: Repository, fenster: Member, task: str) -> None:
    """A claim, a done claim that misses, and the one that passes."""
    claimed = await fenster.does("next_task")
    assert (claimed["task_id"], claimed["status"], claimed["branch"]) == (task, "claimed", "work")
    assert "Mend the roof" in claimed["prompt"]
    repository.git("checkout", "-q", "-b", "work")
    repository.commit(text="bad\n")
    rejected = await fenster.does("submit", task=task)
    assert rejected["refused"] == "gate_rejected"
    assert rejected["message"].startswith("REJECTED: ")
    assert "submit again" in rejected["next"]
    assert rejected["status"] == "claimed"
    assert ("words", "failed") in [(gate["name"], gate["status"]) for gate in rejected["verdict"]["gates"]]
    repository.commit(text="good\n")
    passed = await fenster.does("submit", task=task)
    assert (passed["refused"], passed["status"], passed["verdict"]["status"]) == (
        None,
        "provisional",
        "passed",
    )
    again = await fenster.does("submit", task=task)
    assert (again["refused"], "awaits review" in again["message"]) == ("lease_lost", True)
    assert again["next"] == passed["next"] == "It awaits review. Call next_task for other work."


async def _sent_back(lead: Member, fenster: Member, task: str) -> None:
    """A reviewer's no, which locks the author out."""
    (waiting,) = (await lead.does("review_queue"))["submissions"]
    change = await lead.does("review_diff", task=task)
    assert (waiting["commit"], waiting["author"]) == (change["commit"], "Fenster")
    assert change["paths"] == ["work.txt"]
    assert "+good" in change["diff"]
    rejected = await lead.does(
        "reject",
        task=task,
        commit=change["commit"],
        findings=["work.txt:1: It leaks"],
        suggestions=["Paint it"],
    )
    assert (rejected["status"], rejected["locked_out"]) == ("rejected", ["Fenster"])
    assert rejected["reassigned_to"] == "Hockney"
    again = await fenster.does("next_task", task=task)
    assert again["refused"] == "locked_out"
    assert again["message"]
    assert (await fenster.does("why", agent="Fenster", task=task))["locked_out"] is True


async def _taken_over(repository: Repository, hockney: Member, task: str) -> None:
    """Another agent goes on, with the feedback first."""
    claimed = await hockney.does("next_task")
    assert claimed["task_id"] == task
    assert claimed["prompt"].startswith("## Review Feedback (rejection #1)")
    feedback = await hockney.reads(f"task://{task}/feedback")
    assert "It leaks" in feedback
    assert "## Task" not in feedback
    repository.commit(text="good, and dry\n")
    assert (await hockney.does("submit", task=task))["status"] == "provisional"


async def _answered(owner: Member, question: str) -> None:
    """The user is asked in a form, and what was chosen there is done."""
    answered = await owner.does("inbox")
    assert answered["refused"] is None, answered
    assert answered["given"]["escalation_id"] == question
    assert answered["given"]["option"] == "unlock:Fenster"
    assert answered["questions"] == []


async def _finished(repository: Repository, fenster: Member, lead: Member, task: str) -> None:
    claimed = await fenster.does("next_task")
    assert claimed["task_id"] == task
    assert "Use slates" in claimed["prompt"]
    commit = repository.commit(text="good, with slates\n")
    assert (await fenster.does("submit", task=task, commit=commit))["status"] == "provisional"
    assert (await lead.does("approve", task=task, commit=commit, checked=[LOOKED]))["status"] == "done"
