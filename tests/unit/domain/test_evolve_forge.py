"""Holds what follows from the events of acts on a forge, wherever they come from."""

import pytest
from msgspec.structs import replace

from remand.domain.events.event import Event
from remand.domain.events.work import ActDone, ActFailed, ActIntended, IssueImported
from remand.domain.forge import AbandonedAction, ForgeAction, PlannedAction, TaskForgeState
from remand.domain.task import Task
from remand.testing.builders import LATER, SHA, T1, task_added, task_claimed
from tests.support.builders import OTHER_SHA, gate_passed_and_submitted, task_after

WHY = "The forge said no."


def intended(act: str, about: str = SHA) -> ActIntended:
    return ActIntended(task_id=T1, act=act, about=about)


def done(act: str, about: str = SHA, pr: int = 0) -> ActDone:
    return ActDone(task_id=T1, act=act, about=about, pr=pr)


def failed(act: str, about: str = SHA, **fields: object) -> ActFailed:
    return ActFailed(task_id=T1, act=act, about=about, why=WHY, **fields)  # type: ignore[arg-type]


def after(*events: Event) -> Task:
    return task_after(task_added(), *events)


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        ("push", TaskForgeState(pushed=SHA)),
        ("request", TaskForgeState(requested=SHA)),
        ("merge", TaskForgeState(merged=SHA)),
        ("close", TaskForgeState(is_closed=True)),
    ],
)
def test_what_has_happened_is_known_and_its_intent_settled(act: str, expected: TaskForgeState) -> None:
    begun = after(intended(act))

    assert begun.forge == TaskForgeState(intent=PlannedAction(act=ForgeAction(act), about=SHA))
    assert after(intended(act), done(act)).forge == expected


def test_a_pull_request_that_was_opened_is_the_tasks() -> None:
    assert after(intended("open"), done("open", pr=7)).pr == 7
    assert after(intended("open"), done("open", pr=-1)).pr == 0


def test_an_outcome_settles_its_own_intent_alone() -> None:
    task = after(intended("push"), done("push", OTHER_SHA), done("merge"))

    assert task.forge.intent == PlannedAction(act=ForgeAction.PUSH, about=SHA)
    assert (task.forge.pushed, task.forge.merged) == (OTHER_SHA, SHA)


def test_a_failure_waits_or_gives_up_and_an_intent_begins_anew() -> None:
    waits = after(intended("push"), failed("push", tries=2, until=LATER))
    hopeless = after(intended("push"), failed("push", is_final=True))
    again = after(intended("push"), failed("push", is_final=True), intended("push"))

    assert waits.forge.intent == PlannedAction(act=ForgeAction.PUSH, about=SHA, tries=2, until=LATER, why=WHY)
    assert hopeless.forge == TaskForgeState(
        given_up=(AbandonedAction(act=ForgeAction.PUSH, about=SHA, why=WHY),)
    )
    assert again.forge == TaskForgeState(intent=PlannedAction(act=ForgeAction.PUSH, about=SHA))
    assert after(failed("merge", is_final=True)).forge.given_up[0].act is ForgeAction.MERGE


def test_two_ledgers_that_intend_the_same_forget_nothing_of_what_was_tried() -> None:
    task = after(intended("push"), failed("push", tries=2, until=LATER), intended("push"))

    assert task.forge.intent is not None
    assert task.forge.intent.tries == 2


def test_what_no_ledger_of_ours_would_write_changes_nothing() -> None:
    plain = after()
    for event in (
        intended("conquer"),
        done("conquer"),
        failed("conquer", is_final=True),
        failed("push"),
        IssueImported(task_id=T1, issue=0),
    ):
        assert after(event) == plain
    far = after(intended("push"), failed("push", tries=1 << 60, until="9999-12-31T23:59:59.999999Z"))
    assert far.forge.intent is not None
    assert far.forge.intent.tries <= 1000
    assert far.forge.intent.until < "2027"


def test_a_task_comes_from_one_issue() -> None:
    task = after(IssueImported(task_id=T1, issue=12), IssueImported(task_id=T1, issue=13))

    assert task.forge.issue == 12


def test_a_branch_that_an_agent_named_is_known_as_such() -> None:
    passed, submitted = gate_passed_and_submitted()
    own = replace(submitted, branch="work/1")

    assert task_after(task_added(), task_claimed(), passed, own).forge.is_branch_agents
    assert not task_after(task_added(branch="work/0"), task_claimed(), passed, own).forge.is_branch_agents
    assert not task_after(task_added(), task_claimed(), passed, submitted).forge.is_branch_agents


def test_what_was_given_up_is_bounded() -> None:
    events = [
        event
        for n in range(30)
        for event in (intended("push", f"{n}"), failed("push", f"{n}", is_final=True))
    ]

    assert len(after(*events).forge.given_up) == 20
