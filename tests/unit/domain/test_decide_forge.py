"""Holds what may be done on a forge for a task, when it is due, and what becomes of an act that fails."""

from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.acts import Act, GivenUp, Intent, OnForge
from remand.domain.decide import decide
from remand.domain.forging import EVERY, INTENT, PAUSES, acts_of, due, errands, issue_task_id, waits_for
from remand.domain.instant import plus
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.roles import THE_COORDINATOR
from remand.domain.task import Status, Task
from remand.testing.builders import (
    ALICE,
    LATER,
    LEAD,
    NOW,
    OTHER_SHA,
    SHA,
    T1,
    T2,
    THE_USER,
    a_submission,
    a_task,
    command,
    decided,
    refused,
)
from remand.testing.reviewing import V1, a_round

ALL = {"acts": EVERY}
UNDER_REVIEW = a_task(status=Status.PROVISIONAL, submission=a_submission(), branch="work/1")
SHOWN = replace(UNDER_REVIEW, pr=7, forge=OnForge(pushed=SHA))
DONE = replace(SHOWN, status=Status.DONE, approved_commit=SHA)
OF_AN_ISSUE = a_task(forge=OnForge(issue=12))
PUSH = c.IntendAct(task_id=T1, act=Act.PUSH, about=SHA, base="main")
OPEN = replace(PUSH, act=Act.OPEN)
REQUEST = c.IntendAct(task_id=T1, act=Act.REQUEST, about=SHA)
MERGE = c.IntendAct(task_id=T1, act=Act.MERGE, about=SHA)
CLOSE = c.IntendAct(task_id=T1, act=Act.CLOSE)
GIVEN_UP = GivenUp(act=Act.MERGE, about=SHA, why="No.")


def intended(task: Task, ask: c.IntendAct, **facts: Any) -> e.ActIntended:
    (event,) = decided(task, ask, THE_COORDINATOR, **{**ALL, **facts})
    assert isinstance(event, e.ActIntended)
    return event


def no(task: Task, ask: c.IntendAct, **facts: Any) -> str:
    return refused(task, ask, THE_COORDINATOR, **{**ALL, **facts})


# What the policy says.


def test_nothing_but_closing_is_allowed_by_default() -> None:
    assert acts_of(Policy()) == (Act.CLOSE,)
    assert acts_of(Policy(open_pr=True, close_issue=False)) == (Act.PUSH, Act.OPEN)
    assert acts_of(Policy(request_review=True, merge_on_approve=True, close_issue=False)) == (
        Act.REQUEST,
        Act.MERGE,
    )


@pytest.mark.parametrize(
    ("task", "ask"),
    [
        (UNDER_REVIEW, PUSH),
        (UNDER_REVIEW, OPEN),
        (SHOWN, REQUEST),
        (DONE, MERGE),
        (replace(OF_AN_ISSUE, status=Status.DONE), CLOSE),
    ],
    ids=lambda value: getattr(value, "act", None),
)
def test_what_the_policy_does_not_allow_is_refused(task: Task, ask: c.IntendAct) -> None:
    others = tuple(act for act in Act if act is not ask.act)

    assert intended(task, ask).act == ask.act
    assert no(task, ask, acts=others) == no(task, ask, acts=()) == "policy_off"


@pytest.mark.parametrize("who", [ALICE, LEAD, THE_USER])
@pytest.mark.parametrize(
    "ask",
    [
        PUSH,
        c.NoteAct(task_id=T1, act=Act.PUSH, about=SHA),
        c.NoteActFailure(task_id=T1, act=Act.PUSH, about=SHA, why="No."),
        c.ImportIssue(title="x", issue=1, source="github:o/r#1", opened_at=NOW),
    ],
    ids=lambda ask: type(ask).__name__,
)
def test_only_the_system_itself_asks_for_acts(who: Any, ask: c.Ask) -> None:
    assert refused(UNDER_REVIEW, ask, who, **ALL) == "not_authorised"


# What the task bears.


@pytest.mark.parametrize("ask", [PUSH, OPEN, REQUEST], ids=lambda ask: ask.act)
def test_work_that_nobody_has_handed_in_is_shown_to_nobody(ask: c.IntendAct) -> None:
    for status in Status:
        if status != Status.PROVISIONAL:
            assert no(replace(SHOWN, status=status), ask) == "nothing_to_review", status
    assert no(replace(SHOWN, submission=None), ask) == "nothing_to_review"


@pytest.mark.parametrize("ask", [PUSH, OPEN, REQUEST], ids=lambda ask: ask.act)
def test_no_other_commit_than_the_one_handed_in_is_shown(ask: c.IntendAct) -> None:
    assert no(SHOWN, replace(ask, about=OTHER_SHA)) == "stale_review"


@pytest.mark.parametrize("ask", [PUSH, OPEN], ids=lambda ask: ask.act)
def test_work_never_goes_to_the_branch_it_is_to_be_merged_into(ask: c.IntendAct) -> None:
    assert no(replace(UNDER_REVIEW, branch="main"), ask) == "bad_value"
    assert no(replace(UNDER_REVIEW, branch=""), ask) == "bad_value"
    assert no(UNDER_REVIEW, replace(ask, base="")) == "bad_value"


def test_without_a_pull_request_nobody_is_asked_and_nothing_merged() -> None:
    assert no(replace(SHOWN, pr=0), REQUEST) == "not_due"
    assert no(replace(DONE, pr=0), MERGE) == "not_due"


def test_only_the_approved_commit_of_a_task_that_is_done_is_merged() -> None:
    for status in Status:
        if status != Status.DONE:
            assert no(replace(DONE, status=status), MERGE) == "not_approved", status
    assert no(replace(DONE, approved_commit=""), MERGE) == "not_approved"
    assert no(DONE, replace(MERGE, about=OTHER_SHA)) == "not_approved"
    assert no(DONE, replace(MERGE, about="")) == "not_approved"
    assert no(replace(DONE, submission=a_submission(commit=OTHER_SHA)), MERGE) == "not_approved"


def test_nothing_is_merged_while_a_rejection_of_it_stands() -> None:
    rejected = replace(DONE, rounds=(a_round(V1),))

    assert no(rejected, MERGE) == "rejected_before"
    assert due(rejected, EVERY) is None
    assert intended(replace(DONE, rounds=(a_round(V1, tree="older"),)), MERGE).act == Act.MERGE


def test_an_issue_is_closed_with_the_task_that_was_made_from_it() -> None:
    assert intended(replace(OF_AN_ISSUE, status=Status.DONE), CLOSE).issue == 12
    assert intended(replace(OF_AN_ISSUE, status=Status.CANCELLED), CLOSE).issue == 12
    assert no(a_task(status=Status.DONE, aliases=("#12",)), CLOSE) == "not_due"
    for status in set(Status) - {Status.DONE, Status.CANCELLED}:
        assert no(replace(OF_AN_ISSUE, status=status), CLOSE) == "not_due", status
    superseded = replace(OF_AN_ISSUE, status=Status.CANCELLED, superseded_by=T2)
    assert no(superseded, CLOSE) == "not_due"


def test_an_issue_waits_for_the_merge_where_there_is_to_be_one() -> None:
    task = replace(DONE, forge=OnForge(issue=12, pushed=SHA))

    assert no(task, CLOSE) == "not_due"
    assert intended(task, CLOSE, acts=(Act.CLOSE,)).act == Act.CLOSE
    assert intended(replace(task, forge=OnForge(issue=12, merged=SHA)), CLOSE).act == Act.CLOSE


# One act at a time, once.


def test_an_intent_says_what_is_about_to_be_done() -> None:
    assert intended(UNDER_REVIEW, OPEN) == e.ActIntended(
        task_id=T1, act="open", about=SHA, branch="work/1", base="main"
    )
    assert intended(DONE, MERGE) == e.ActIntended(task_id=T1, act="merge", about=SHA, pr=7)


def test_what_is_begun_is_not_begun_again_but_may_not_be_wanted_any_more() -> None:
    begun = replace(UNDER_REVIEW, forge=OnForge(intent=Intent(act=Act.PUSH, about=SHA)))

    assert decided(begun, PUSH, THE_COORDINATOR, **ALL) == ()
    assert no(replace(begun, status=Status.REJECTED), PUSH) == "nothing_to_review"
    assert no(begun, PUSH, acts=()) == "policy_off"
    assert no(replace(begun, pr=7), REQUEST) == "not_due"


def test_what_was_given_up_is_begun_again_only_when_the_user_says_so() -> None:
    hopeless = replace(DONE, forge=OnForge(given_up=(GIVEN_UP,)))

    assert no(hopeless, MERGE) == "given_up"
    assert intended(hopeless, replace(MERGE, is_again=True)).about == SHA
    assert due(hopeless, EVERY) is None
    assert due(hopeless, EVERY, is_again=True) == (Act.MERGE, SHA)


def test_an_outcome_without_an_intent_changes_nothing() -> None:
    done = c.NoteAct(task_id=T1, act=Act.MERGE, about=SHA)
    failed = c.NoteActFailure(task_id=T1, act=Act.MERGE, about=SHA, why="No.")
    other = replace(DONE, forge=OnForge(intent=Intent(act=Act.CLOSE)))

    for task in (DONE, other):
        assert decided(task, done, THE_COORDINATOR) == ()
        assert decided(task, failed, THE_COORDINATOR) == ()
    assert decided(other, replace(failed, is_final=True), THE_COORDINATOR) == ()


def test_a_pull_request_that_was_opened_has_a_number() -> None:
    begun = replace(UNDER_REVIEW, forge=OnForge(intent=Intent(act=Act.OPEN, about=SHA)))
    done = c.NoteAct(task_id=T1, act=Act.OPEN, about=SHA)

    assert refused(begun, done, THE_COORDINATOR) == "bad_value"
    assert refused(begun, replace(done, pr=1 << 31), THE_COORDINATOR) == "bad_value"
    assert decided(begun, replace(done, pr=7), THE_COORDINATOR) == (
        e.ActDone(task_id=T1, act="open", about=SHA, pr=7),
    )


# What fails.


def test_an_act_that_fails_is_tried_again_each_time_later_and_then_given_up() -> None:
    task = replace(DONE, forge=OnForge(intent=Intent(act=Act.MERGE, about=SHA)))
    ask = c.NoteActFailure(task_id=T1, act=Act.MERGE, about=SHA, why="No.")
    waits = []
    for tries in range(len(PAUSES) + 1):
        intent = Intent(act=Act.MERGE, about=SHA, tries=tries)
        (event,) = decided(replace(task, forge=OnForge(intent=intent)), ask, THE_COORDINATOR)
        assert isinstance(event, e.ActFailed)
        waits.append((event.tries, event.until, event.is_final))

    assert waits[:-1] == [(n + 1, plus(NOW, pause), False) for n, pause in enumerate(PAUSES)]
    assert waits[-1] == (len(PAUSES) + 1, "", True)
    assert list(PAUSES) == sorted(PAUSES)


def test_what_can_never_be_done_is_given_up_at_once_and_even_before_it_is_begun() -> None:
    ask = c.NoteActFailure(task_id=T1, act=Act.MERGE, about=SHA, why="No." * 1000, is_final=True)
    begun = replace(DONE, forge=OnForge(intent=Intent(act=Act.MERGE, about=SHA)))
    for task, tries in ((begun, 1), (DONE, 0)):
        (event,) = decided(task, ask, THE_COORDINATOR)
        assert event == e.ActFailed(
            task_id=T1, act="merge", about=SHA, why=("No." * 1000)[:500], tries=tries, is_final=True
        )
    assert decided(replace(DONE, forge=OnForge(given_up=(GIVEN_UP,))), ask, THE_COORDINATOR) == ()


def test_a_task_says_what_it_waits_for() -> None:
    waiting = OnForge(intent=Intent(act=Act.MERGE, about=SHA, why="No.", until=LATER))

    assert waits_for(replace(DONE, forge=waiting)) == (
        f"the forge to merge pull request #7: No. It is tried again at {LATER}."
    )
    assert "sync --again" in waits_for(replace(DONE, forge=OnForge(given_up=(GIVEN_UP,))))
    assert waits_for(DONE) == waits_for(replace(DONE, forge=OnForge(merged=SHA, given_up=(GIVEN_UP,)))) == ""


# What is due.


def test_acts_come_in_their_order_as_far_as_the_policy_goes() -> None:
    review, opening = (Act.REQUEST,), (Act.PUSH, Act.OPEN)

    assert due(UNDER_REVIEW, EVERY) == (Act.PUSH, SHA)
    assert due(replace(UNDER_REVIEW, forge=OnForge(pushed=SHA)), EVERY) == (Act.OPEN, SHA)
    assert due(SHOWN, EVERY) == due(replace(SHOWN, forge=OnForge()), review) == (Act.REQUEST, SHA)
    assert due(UNDER_REVIEW, review) is None
    assert due(replace(SHOWN, forge=OnForge(pushed=OTHER_SHA, requested=OTHER_SHA)), EVERY) == (Act.PUSH, SHA)
    assert due(SHOWN, opening) is None
    assert due(DONE, EVERY) == (Act.MERGE, SHA)
    assert due(DONE, (*opening, *review)) is None
    assert due(replace(DONE, forge=OnForge(merged=SHA)), EVERY) is None


def test_what_follows_on_something_given_up_is_not_due() -> None:
    no_push = OnForge(issue=12, given_up=(GivenUp(act=Act.PUSH, about=SHA), GIVEN_UP))

    assert due(replace(SHOWN, forge=no_push), EVERY) is None
    assert due(replace(DONE, forge=no_push), EVERY) is None
    fresh = a_submission(commit=OTHER_SHA)
    assert due(replace(SHOWN, submission=fresh, forge=no_push), EVERY) == (Act.PUSH, OTHER_SHA)


forges = st.builds(
    OnForge,
    issue=st.sampled_from([0, 12]),
    pushed=st.sampled_from(["", SHA, OTHER_SHA]),
    requested=st.sampled_from(["", SHA, OTHER_SHA]),
    merged=st.sampled_from(["", SHA]),
    is_closed=st.booleans(),
    given_up=st.lists(st.builds(GivenUp, act=st.sampled_from(Act), about=st.sampled_from(["", SHA]))).map(
        tuple
    ),
)
tasks = st.builds(
    a_task,
    status=st.sampled_from(Status),
    submission=st.sampled_from([None, a_submission(), a_submission(commit=OTHER_SHA)]),
    approved_commit=st.sampled_from(["", SHA]),
    branch=st.sampled_from(["", "work/1", "main"]),
    pr=st.sampled_from([0, 7]),
    rounds=st.sampled_from([(), (a_round(V1),)]),
    superseded_by=st.sampled_from(["", T2]),
    forge=forges,
)


@over(tasks, st.sets(st.sampled_from(Act)))
def test_what_is_due_may_be_done_and_is_what_the_task_is_found_by(task: Task, acts: set[Act]) -> None:
    found = due(task, acts)
    if found is None:
        return
    ask = c.IntendAct(task_id=T1, act=found[0], about=found[1], base="main")
    answer = decide(task, command(ask, THE_COORDINATOR, acts=tuple(acts)))

    assert found[0] in errands(task)
    if isinstance(answer, Refused):
        assert (answer.code, task.branch) == ("bad_value", "main")


def test_a_task_with_an_open_intent_is_found_whatever_the_policy() -> None:
    task = a_task(forge=OnForge(intent=Intent(act=Act.MERGE, about=SHA)))

    assert errands(task) == (INTENT,)
    assert errands(a_task()) == ()


# Where tasks come from.

ISSUE = c.ImportIssue(title="It leaks", issue=12, source="github:o/r#12", author="github:ann", opened_at=NOW)


def test_an_issue_becomes_a_task_that_knows_where_it_comes_from() -> None:
    added, imported = decided(None, ISSUE, THE_COORDINATOR)
    name = issue_task_id(ISSUE)

    assert isinstance(added, e.TaskAdded)
    assert (added.id, added.data.title) == (f"task:{name}", "It leaks")
    assert imported == e.IssueImported(task_id=name, issue=12, source="github:o/r#12", author="github:ann")


def test_an_issue_has_the_same_id_in_every_ledger_and_no_other_has_it() -> None:
    assert issue_task_id(ISSUE) == issue_task_id(replace(ISSUE, title="Edited"))
    assert issue_task_id(ISSUE) != issue_task_id(replace(ISSUE, source="github:o/r#13"))
    assert refused(a_task(issue_task_id(ISSUE)), ISSUE, THE_COORDINATOR) == "taken"


@pytest.mark.parametrize(
    "change",
    [
        {"issue": 0},
        {"issue": -1},
        {"source": ""},
        {"opened_at": ""},
        {"opened_at": plus(NOW, 3601)},
        {"opened_at": "x" * 27},
    ],
    ids=str,
)
def test_what_cannot_be_an_issue_is_none(change: dict[str, Any]) -> None:
    assert refused(None, replace(ISSUE, **change), THE_COORDINATOR) == "bad_value"
