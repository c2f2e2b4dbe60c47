"""Holds what follows from the events of acts on a forge, wherever they come from."""

import pytest
from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.acts import Act, GivenUp, Intent, OnForge
from remand.domain.task import Task
from remand.testing.builders import LATER, OTHER_SHA, SHA, T1, added, claimed, given, handed_in

WHY = "The forge said no."


def intended(act: str, about: str = SHA) -> e.ActIntended:
    return e.ActIntended(task_id=T1, act=act, about=about)


def done(act: str, about: str = SHA, pr: int = 0) -> e.ActDone:
    return e.ActDone(task_id=T1, act=act, about=about, pr=pr)


def failed(act: str, about: str = SHA, **fields: object) -> e.ActFailed:
    return e.ActFailed(task_id=T1, act=act, about=about, why=WHY, **fields)  # type: ignore[arg-type]


def after(*events: e.Event) -> Task:
    return given(added(), *events)


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        ("push", OnForge(pushed=SHA)),
        ("request", OnForge(requested=SHA)),
        ("merge", OnForge(merged=SHA)),
        ("close", OnForge(is_closed=True)),
    ],
)
def test_what_has_happened_is_known_and_its_intent_settled(act: str, expected: OnForge) -> None:
    begun = after(intended(act))

    assert begun.forge == OnForge(intent=Intent(act=Act(act), about=SHA))
    assert after(intended(act), done(act)).forge == expected


def test_a_pull_request_that_was_opened_is_the_tasks() -> None:
    assert after(intended("open"), done("open", pr=7)).pr == 7
    assert after(intended("open"), done("open", pr=-1)).pr == 0


def test_an_outcome_settles_its_own_intent_alone() -> None:
    task = after(intended("push"), done("push", OTHER_SHA), done("merge"))

    assert task.forge.intent == Intent(act=Act.PUSH, about=SHA)
    assert (task.forge.pushed, task.forge.merged) == (OTHER_SHA, SHA)


def test_a_failure_waits_or_gives_up_and_an_intent_begins_anew() -> None:
    waits = after(intended("push"), failed("push", tries=2, until=LATER))
    hopeless = after(intended("push"), failed("push", is_final=True))
    again = after(intended("push"), failed("push", is_final=True), intended("push"))

    assert waits.forge.intent == Intent(act=Act.PUSH, about=SHA, tries=2, until=LATER, why=WHY)
    assert hopeless.forge == OnForge(given_up=(GivenUp(act=Act.PUSH, about=SHA, why=WHY),))
    assert again.forge == OnForge(intent=Intent(act=Act.PUSH, about=SHA))
    assert after(failed("merge", is_final=True)).forge.given_up[0].act is Act.MERGE


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
        e.IssueImported(task_id=T1, issue=0),
    ):
        assert after(event) == plain
    far = after(intended("push"), failed("push", tries=1 << 60, until="9999-12-31T23:59:59.999999Z"))
    assert far.forge.intent is not None
    assert far.forge.intent.tries <= 1000
    assert far.forge.intent.until < "2027"


def test_a_task_comes_from_one_issue() -> None:
    task = after(e.IssueImported(task_id=T1, issue=12), e.IssueImported(task_id=T1, issue=13))

    assert task.forge.issue == 12


def test_a_branch_that_an_agent_named_is_known_as_such() -> None:
    passed, submitted = handed_in()
    own = replace(submitted, branch="work/1")

    assert given(added(), claimed(), passed, own).forge.is_branch_agents
    assert not given(added(branch="work/0"), claimed(), passed, own).forge.is_branch_agents
    assert not given(added(), claimed(), passed, submitted).forge.is_branch_agents


def test_what_was_given_up_is_bounded() -> None:
    events = [
        event
        for n in range(30)
        for event in (intended("push", f"{n}"), failed("push", f"{n}", is_final=True))
    ]

    assert len(after(*events).forge.given_up) == 20
