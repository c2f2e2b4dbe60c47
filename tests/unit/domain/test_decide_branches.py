"""Holds which branch work is handed in from: the one that has the commit, or a refusal that names what to do."""

from typing import Any

import pytest

from remand.domain import commands as c
from remand.domain.decide import decide
from remand.domain.events.tasks import TaskSubmitted
from remand.domain.evolve import evolve
from remand.domain.forge import TaskForgeState
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task, update_task
from remand.testing.builders import ALICE, H1, SHA, T1, T2, TREE, a_claim, a_task
from tests.support.builders import command, decide_events, stamp_events

FACTS: dict[str, Any] = {"commit": SHA, "tree": TREE, "gates": (), "base_branch": "main"}
HELD = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1), attempt_count=1, epoch=1, branch="task-42")


def submit(branch: str = "", *, given: bool = True, pr: int = 0) -> c.SubmitTask:
    return c.SubmitTask(task_id=T1, agent="Alice", commit="HEAD", branch=branch, is_branch_given=given, pr=pr)


def complete(branch: str = "", *, given: bool = True, pr: int = 0) -> c.CompleteHandoff:
    return c.CompleteHandoff(
        handoff_id=H1, agent="Alice", commit="HEAD", branch=branch, is_branch_given=given, pr=pr
    )


each_interface = pytest.mark.parametrize("ask", [submit, complete], ids=["submit", "complete"])


def after(task: Task, ask: c.Command, **facts: Any) -> Task:
    """The task once the work was handed in."""
    for event in stamp_events(*decide_events(task, ask, ALICE, **FACTS, **facts)):
        task = evolve(task, event) or task
    return task


def refusal(ask: c.Command, task: Task = HELD, **facts: Any) -> Refused:
    answer = decide(task, command(ask, ALICE, **{**FACTS, **facts}))
    assert isinstance(answer, Refused), answer
    return answer


@each_interface
def test_a_branch_that_is_named_and_has_the_commit_is_the_tasks_from_then_on(ask: Any) -> None:
    task = after(HELD, ask("hockney-fix", pr=13), on_branch=True)

    assert (task.status, task.branch, task.pr) == (Status.PROVISIONAL, "hockney-fix", 13)


@each_interface
@pytest.mark.parametrize(
    ("branch", "facts", "code"),
    [
        ("hockney-fix", {"on_branch": False}, "not_on_branch"),
        ("hockney-fix", {"on_branch": None}, "not_on_branch"),
        ("hockney-fix", {"on_branch": True, "branch_of": T2}, "taken"),
        ("main", {"on_branch": True}, "bad_value"),
    ],
)
def test_a_branch_that_cannot_be_the_works_is_refused_with_its_name(
    ask: Any, branch: str, facts: dict[str, Any], code: str
) -> None:
    refused = refusal(ask(branch), **facts)

    assert (refused.code, branch in refused.message) == (code, True)


@each_interface
def test_without_a_name_the_work_is_handed_in_from_the_tasks_branch(ask: Any) -> None:
    assert after(HELD, ask("elsewhere", given=False), on_branch=True).branch == "task-42"
    assert after(HELD, ask("elsewhere", given=False), on_branch=None).branch == "task-42"
    refused = refusal(ask("elsewhere", given=False), on_branch=False)

    assert refused.code == "not_on_branch"
    assert "task-42" in refused.message
    assert "--branch elsewhere" in refused.message


def test_a_checked_out_branch_without_the_commit_is_not_taken_for_the_works() -> None:
    free = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1), attempt_count=1, epoch=1)

    assert after(free, submit("main", given=False), on_branch=False).branch == ""
    assert after(free, submit("roof", given=False), on_branch=True).branch == "roof"
    assert after(free, submit("roof"), on_branch=None).branch == "roof"
    assert refusal(submit("roof"), free, on_branch=False).code == "not_on_branch"


def test_the_base_is_not_proposed_and_the_user_who_mends_it_by_hand_may_use_any_branch() -> None:
    on_base = refusal(submit("main", given=False), on_branch=False)
    mended = update_task(HELD, fixer="Alice")

    assert "--branch main" not in on_base.message
    assert after(mended, submit("main", given=False), on_branch=False).status == Status.PROVISIONAL


def test_a_pull_request_that_remand_opened_stays_with_the_branch_it_shows() -> None:
    pushed = a_task(
        status=Status.CLAIMED,
        claim=a_claim("Alice", H1),
        branch="task-42",
        pr=12,
        forge=TaskForgeState(pushed=SHA, requested=SHA),
    )
    moved = after(pushed, submit("hockney-fix"), on_branch=True)
    stayed = after(pushed, submit("task-42"), on_branch=True)

    assert (moved.pr, moved.forge.pushed, moved.forge.is_branch_agents) == (0, "", True)
    assert (stayed.pr, stayed.forge.pushed) == (12, SHA)


def test_a_submission_of_an_earlier_version_leaves_the_branch_as_it_was() -> None:
    event = TaskSubmitted(task_id=T1, handoff_id=H1, agent="Alice", commit=SHA, tree=TREE, branch="main")
    passed, _ = decide_events(HELD, submit(), ALICE, **FACTS, on_branch=True)
    task = HELD
    for one in stamp_events(passed, event):
        task = evolve(task, one) or task

    assert task.branch == "task-42"
