"""Holds what may be done on a forge for a task, when it is due, and what becomes of an act that fails."""

from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR
from remand.domain.decide import decide
from remand.domain.decisions.forge_actions import (
    ALL_ACTIONS,
    PLANNED,
    RETRY_DELAYS,
    allowed_actions,
    describe_forge_wait,
    due_action,
    due_kinds,
    issue_task_id,
)
from remand.domain.events.tasks import TaskAdded
from remand.domain.events.work import ActDone, ActFailed, ActIntended, IssueImported
from remand.domain.forge import AbandonedAction, ForgeAction, PlannedAction, TaskForgeState
from remand.domain.instant import add_seconds
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task, update_task
from remand.testing.builders import ALICE, LATER, NOW, SHA, T1, T2, a_submission, a_task
from tests.support.builders import (
    LEAD,
    OTHER_SHA,
    THE_USER,
    V1,
    a_round,
    command,
    decide_events,
    refusal_code,
)

ALL = {"forge_actions": ALL_ACTIONS}
UNDER_REVIEW = a_task(status=Status.PROVISIONAL, submission=a_submission(), branch="work/1")
SHOWN = replace(UNDER_REVIEW, pr=7, forge=TaskForgeState(pushed=SHA))
DONE = update_task(SHOWN, status=Status.DONE, approved_commit=SHA)
OF_AN_ISSUE = a_task(forge=TaskForgeState(issue=12))
PUSH = c.PlanForgeAction(task_id=T1, act=ForgeAction.PUSH, about=SHA, base="main")
OPEN = replace(PUSH, act=ForgeAction.OPEN)
REQUEST = c.PlanForgeAction(task_id=T1, act=ForgeAction.REQUEST, about=SHA)
MERGE = c.PlanForgeAction(task_id=T1, act=ForgeAction.MERGE, about=SHA)
CLOSE = c.PlanForgeAction(task_id=T1, act=ForgeAction.CLOSE)
GIVEN_UP = AbandonedAction(act=ForgeAction.MERGE, about=SHA, why="No.")


def intended(task: Task, ask: c.PlanForgeAction, **facts: Any) -> ActIntended:
    (event,) = decide_events(task, ask, THE_COORDINATOR, **{**ALL, **facts})
    assert isinstance(event, ActIntended)
    return event


def no(task: Task, ask: c.PlanForgeAction, **facts: Any) -> str:
    return refusal_code(task, ask, THE_COORDINATOR, **{**ALL, **facts})


# What the policy says.


def test_nothing_but_closing_is_allowed_by_default() -> None:
    assert allowed_actions(Policy()) == (ForgeAction.CLOSE,)
    assert allowed_actions(Policy(open_pr=True, close_issue=False)) == (ForgeAction.PUSH, ForgeAction.OPEN)
    assert allowed_actions(Policy(request_review=True, merge_on_approve=True, close_issue=False)) == (
        ForgeAction.REQUEST,
        ForgeAction.MERGE,
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
def test_what_the_policy_does_not_allow_is_refused(task: Task, ask: c.PlanForgeAction) -> None:
    others = tuple(act for act in ForgeAction if act is not ask.act)

    assert intended(task, ask).act == ask.act
    assert no(task, ask, forge_actions=others) == no(task, ask, forge_actions=()) == "policy_off"


@pytest.mark.parametrize("who", [ALICE, LEAD, THE_USER])
@pytest.mark.parametrize(
    "ask",
    [
        PUSH,
        c.RecordForgeAction(task_id=T1, act=ForgeAction.PUSH, about=SHA),
        c.RecordForgeActionFailure(task_id=T1, act=ForgeAction.PUSH, about=SHA, why="No."),
        c.ImportIssue(title="x", issue=1, source="github:o/r#1", opened_at=NOW),
    ],
    ids=lambda ask: type(ask).__name__,
)
def test_only_the_system_itself_asks_for_acts(who: Any, ask: c.Command) -> None:
    assert refusal_code(UNDER_REVIEW, ask, who, **ALL) == "not_authorised"


# What the task bears.


@pytest.mark.parametrize("ask", [PUSH, OPEN, REQUEST], ids=lambda ask: ask.act)
def test_work_that_nobody_has_handed_in_is_shown_to_nobody(ask: c.PlanForgeAction) -> None:
    for status in Status:
        if status != Status.PROVISIONAL:
            assert no(replace(SHOWN, status=status), ask) == "nothing_to_review", status
    assert no(replace(SHOWN, submission=None), ask) == "nothing_to_review"


@pytest.mark.parametrize("ask", [PUSH, OPEN, REQUEST], ids=lambda ask: ask.act)
def test_no_other_commit_than_the_one_handed_in_is_shown(ask: c.PlanForgeAction) -> None:
    assert no(SHOWN, replace(ask, about=OTHER_SHA)) == "stale_review"


@pytest.mark.parametrize("ask", [PUSH, OPEN], ids=lambda ask: ask.act)
def test_work_never_goes_to_the_branch_it_is_to_be_merged_into(ask: c.PlanForgeAction) -> None:
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
    assert no(update_task(DONE, approved_commit=""), MERGE) == "not_approved"
    assert no(DONE, replace(MERGE, about=OTHER_SHA)) == "not_approved"
    assert no(DONE, replace(MERGE, about="")) == "not_approved"
    assert no(replace(DONE, submission=a_submission(commit=OTHER_SHA)), MERGE) == "not_approved"


def test_nothing_is_merged_while_a_rejection_of_it_stands() -> None:
    rejected = update_task(DONE, rounds=(a_round(V1),))

    assert no(rejected, MERGE) == "rejected_before"
    assert due_action(rejected, ALL_ACTIONS) is None
    assert intended(update_task(DONE, rounds=(a_round(V1, tree="older"),)), MERGE).act == ForgeAction.MERGE


def test_an_issue_is_closed_with_the_task_that_was_made_from_it() -> None:
    assert intended(replace(OF_AN_ISSUE, status=Status.DONE), CLOSE).issue == 12
    assert intended(replace(OF_AN_ISSUE, status=Status.CANCELLED), CLOSE).issue == 12
    assert no(a_task(status=Status.DONE, aliases=("#12",)), CLOSE) == "not_due"
    for status in set(Status) - {Status.DONE, Status.CANCELLED}:
        assert no(replace(OF_AN_ISSUE, status=status), CLOSE) == "not_due", status
    superseded = update_task(OF_AN_ISSUE, status=Status.CANCELLED, superseded_by=T2)
    assert no(superseded, CLOSE) == "not_due"


def test_an_issue_waits_for_the_merge_where_there_is_to_be_one() -> None:
    task = replace(DONE, forge=TaskForgeState(issue=12, pushed=SHA))

    assert no(task, CLOSE) == "not_due"
    assert intended(task, CLOSE, forge_actions=(ForgeAction.CLOSE,)).act == ForgeAction.CLOSE
    assert intended(replace(task, forge=TaskForgeState(issue=12, merged=SHA)), CLOSE).act == ForgeAction.CLOSE


# One act at a time, once.


def test_an_intent_says_what_is_about_to_be_done() -> None:
    assert intended(UNDER_REVIEW, OPEN) == ActIntended(
        task_id=T1, act="open", about=SHA, branch="work/1", base="main"
    )
    assert intended(DONE, MERGE) == ActIntended(task_id=T1, act="merge", about=SHA, pr=7)


def test_what_is_begun_is_not_begun_again_but_may_not_be_wanted_any_more() -> None:
    begun = replace(UNDER_REVIEW, forge=TaskForgeState(intent=PlannedAction(act=ForgeAction.PUSH, about=SHA)))

    assert decide_events(begun, PUSH, THE_COORDINATOR, **ALL) == ()
    assert no(replace(begun, status=Status.REJECTED), PUSH) == "nothing_to_review"
    assert no(begun, PUSH, forge_actions=()) == "policy_off"
    assert no(replace(begun, pr=7), REQUEST) == "not_due"


def test_what_was_given_up_is_begun_again_only_when_the_user_says_so() -> None:
    hopeless = replace(DONE, forge=TaskForgeState(given_up=(GIVEN_UP,)))

    assert no(hopeless, MERGE) == "given_up"
    assert intended(hopeless, replace(MERGE, is_again=True)).about == SHA
    assert due_action(hopeless, ALL_ACTIONS) is None
    assert due_action(hopeless, ALL_ACTIONS, is_again=True) == (ForgeAction.MERGE, SHA)


def test_an_outcome_without_an_intent_changes_nothing() -> None:
    done = c.RecordForgeAction(task_id=T1, act=ForgeAction.MERGE, about=SHA)
    failed = c.RecordForgeActionFailure(task_id=T1, act=ForgeAction.MERGE, about=SHA, why="No.")
    other = replace(DONE, forge=TaskForgeState(intent=PlannedAction(act=ForgeAction.CLOSE)))

    for task in (DONE, other):
        assert decide_events(task, done, THE_COORDINATOR) == ()
        assert decide_events(task, failed, THE_COORDINATOR) == ()
    assert decide_events(other, replace(failed, is_final=True), THE_COORDINATOR) == ()


def test_a_pull_request_that_was_opened_has_a_number() -> None:
    begun = replace(UNDER_REVIEW, forge=TaskForgeState(intent=PlannedAction(act=ForgeAction.OPEN, about=SHA)))
    done = c.RecordForgeAction(task_id=T1, act=ForgeAction.OPEN, about=SHA)

    assert refusal_code(begun, done, THE_COORDINATOR) == "bad_value"
    assert refusal_code(begun, replace(done, pr=1 << 31), THE_COORDINATOR) == "bad_value"
    assert decide_events(begun, replace(done, pr=7), THE_COORDINATOR) == (
        ActDone(task_id=T1, act="open", about=SHA, pr=7),
    )


# What fails.


def test_an_act_that_fails_is_tried_again_each_time_later_and_then_given_up() -> None:
    task = replace(DONE, forge=TaskForgeState(intent=PlannedAction(act=ForgeAction.MERGE, about=SHA)))
    ask = c.RecordForgeActionFailure(task_id=T1, act=ForgeAction.MERGE, about=SHA, why="No.")
    waits = []
    for tries in range(len(RETRY_DELAYS) + 1):
        intent = PlannedAction(act=ForgeAction.MERGE, about=SHA, tries=tries)
        (event,) = decide_events(replace(task, forge=TaskForgeState(intent=intent)), ask, THE_COORDINATOR)
        assert isinstance(event, ActFailed)
        waits.append((event.tries, event.until, event.is_final))

    assert waits[:-1] == [(n + 1, add_seconds(NOW, pause), False) for n, pause in enumerate(RETRY_DELAYS)]
    assert waits[-1] == (len(RETRY_DELAYS) + 1, "", True)
    assert list(RETRY_DELAYS) == sorted(RETRY_DELAYS)


def test_what_can_never_be_done_is_given_up_at_once_and_even_before_it_is_begun() -> None:
    ask = c.RecordForgeActionFailure(
        task_id=T1, act=ForgeAction.MERGE, about=SHA, why="No." * 1000, is_final=True
    )
    begun = replace(DONE, forge=TaskForgeState(intent=PlannedAction(act=ForgeAction.MERGE, about=SHA)))
    for task, tries in ((begun, 1), (DONE, 0)):
        (event,) = decide_events(task, ask, THE_COORDINATOR)
        assert event == ActFailed(
            task_id=T1, act="merge", about=SHA, why=("No." * 1000)[:500], tries=tries, is_final=True
        )
    assert (
        decide_events(replace(DONE, forge=TaskForgeState(given_up=(GIVEN_UP,))), ask, THE_COORDINATOR) == ()
    )


def test_a_task_says_what_it_waits_for() -> None:
    waiting = TaskForgeState(intent=PlannedAction(act=ForgeAction.MERGE, about=SHA, why="No.", until=LATER))

    assert describe_forge_wait(replace(DONE, forge=waiting)) == (
        f"the forge to merge pull request #7: No. The next attempt is at {LATER}."
    )
    assert "sync --again" in describe_forge_wait(replace(DONE, forge=TaskForgeState(given_up=(GIVEN_UP,))))
    assert (
        describe_forge_wait(DONE)
        == describe_forge_wait(replace(DONE, forge=TaskForgeState(merged=SHA, given_up=(GIVEN_UP,))))
        == ""
    )


# What is due.


def test_acts_come_in_their_order_as_far_as_the_policy_goes() -> None:
    review, opening = (ForgeAction.REQUEST,), (ForgeAction.PUSH, ForgeAction.OPEN)

    assert due_action(UNDER_REVIEW, ALL_ACTIONS) == (ForgeAction.PUSH, SHA)
    assert due_action(replace(UNDER_REVIEW, forge=TaskForgeState(pushed=SHA)), ALL_ACTIONS) == (
        ForgeAction.OPEN,
        SHA,
    )
    assert (
        due_action(SHOWN, ALL_ACTIONS)
        == due_action(replace(SHOWN, forge=TaskForgeState()), review)
        == (ForgeAction.REQUEST, SHA)
    )
    assert due_action(UNDER_REVIEW, review) is None
    assert due_action(
        replace(SHOWN, forge=TaskForgeState(pushed=OTHER_SHA, requested=OTHER_SHA)), ALL_ACTIONS
    ) == (ForgeAction.PUSH, SHA)
    assert due_action(SHOWN, opening) is None
    assert due_action(DONE, ALL_ACTIONS) == (ForgeAction.MERGE, SHA)
    assert due_action(DONE, (*opening, *review)) is None
    assert due_action(replace(DONE, forge=TaskForgeState(merged=SHA)), ALL_ACTIONS) is None


def test_what_follows_on_something_given_up_is_not_due() -> None:
    no_push = TaskForgeState(issue=12, given_up=(AbandonedAction(act=ForgeAction.PUSH, about=SHA), GIVEN_UP))

    assert due_action(replace(SHOWN, forge=no_push), ALL_ACTIONS) is None
    assert due_action(replace(DONE, forge=no_push), ALL_ACTIONS) is None
    fresh = a_submission(commit=OTHER_SHA)
    assert due_action(replace(SHOWN, submission=fresh, forge=no_push), ALL_ACTIONS) == (
        ForgeAction.PUSH,
        OTHER_SHA,
    )


forges = st.builds(
    TaskForgeState,
    issue=st.sampled_from([0, 12]),
    pushed=st.sampled_from(["", SHA, OTHER_SHA]),
    requested=st.sampled_from(["", SHA, OTHER_SHA]),
    merged=st.sampled_from(["", SHA]),
    is_closed=st.booleans(),
    given_up=st.lists(
        st.builds(AbandonedAction, act=st.sampled_from(ForgeAction), about=st.sampled_from(["", SHA]))
    ).map(tuple),
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


@over(tasks, st.sets(st.sampled_from(ForgeAction)))
def test_what_is_due_may_be_done_and_is_what_the_task_is_found_by(task: Task, acts: set[ForgeAction]) -> None:
    found = due_action(task, acts)
    if found is None:
        return
    ask = c.PlanForgeAction(task_id=T1, act=found[0], about=found[1], base="main")
    answer = decide(task, command(ask, THE_COORDINATOR, forge_actions=tuple(acts)))

    assert found[0] in due_kinds(task)
    if isinstance(answer, Refused):
        assert (answer.code, task.branch) == ("bad_value", "main")


def test_work_without_a_branch_gets_no_pull_request() -> None:
    pushed = TaskForgeState(pushed=SHA)

    assert due_action(replace(UNDER_REVIEW, forge=pushed), {ForgeAction.OPEN}) == (ForgeAction.OPEN, SHA)
    assert due_action(replace(UNDER_REVIEW, forge=pushed, branch=""), {ForgeAction.OPEN}) is None


def test_only_the_work_that_was_approved_awaits_its_merge() -> None:
    assert due_action(DONE, {ForgeAction.MERGE}) == (ForgeAction.MERGE, SHA)
    for work in (None, a_submission(commit=OTHER_SHA)):
        assert due_action(replace(DONE, submission=work), {ForgeAction.MERGE}) is None


def test_a_task_with_an_open_intent_is_found_whatever_the_policy() -> None:
    task = a_task(forge=TaskForgeState(intent=PlannedAction(act=ForgeAction.MERGE, about=SHA)))

    assert due_kinds(task) == (PLANNED,)
    assert due_kinds(a_task()) == ()


# Where tasks come from.

ISSUE = c.ImportIssue(title="It leaks", issue=12, source="github:o/r#12", author="github:ann", opened_at=NOW)


def test_an_issue_becomes_a_task_that_knows_where_it_comes_from() -> None:
    added, imported = decide_events(None, ISSUE, THE_COORDINATOR)
    name = issue_task_id(ISSUE)

    assert isinstance(added, TaskAdded)
    assert (added.id, added.data.title) == (f"task:{name}", "It leaks")
    assert imported == IssueImported(task_id=name, issue=12, source="github:o/r#12", author="github:ann")


def test_an_issue_has_the_same_id_in_every_ledger_and_no_other_has_it() -> None:
    assert issue_task_id(ISSUE) == issue_task_id(replace(ISSUE, title="Edited"))
    assert issue_task_id(ISSUE) != issue_task_id(replace(ISSUE, source="github:o/r#13"))
    assert refusal_code(a_task(issue_task_id(ISSUE)), ISSUE, THE_COORDINATOR) == "taken"


@pytest.mark.parametrize(
    "change",
    [
        {"issue": 0},
        {"issue": -1},
        {"source": ""},
        {"opened_at": ""},
        {"opened_at": add_seconds(NOW, 3601)},
        {"opened_at": "x" * 27},
    ],
    ids=str,
)
def test_what_cannot_be_an_issue_is_none(change: dict[str, Any]) -> None:
    assert refusal_code(None, replace(ISSUE, **change), THE_COORDINATOR) == "bad_value"
