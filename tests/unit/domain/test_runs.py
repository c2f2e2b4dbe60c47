"""Holds that one agent at a time is at work on a task, within its budget, and that its faults are nobody's blame."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Role
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationAnswered, EscalationOpened, Finding, ReviewApproved
from remand.domain.events.tasks import HandoffAccepted, TaskClaimed
from remand.domain.events.work import How, Purpose, RunEnded, RunStarted
from remand.domain.evolve import evolve
from remand.domain.instant import add_seconds
from remand.domain.run import Budget, Run, RunCosts, add_run_cost, grant_after_answer
from remand.domain.task import Status, Task, update_task
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    LATER,
    NOW,
    SHA,
    T1,
    a_claim,
    a_lockout,
    a_submission,
    a_task,
    actor,
    an_offer,
)
from tests.support.builders import (
    E1,
    LEAD,
    THE_USER,
    a_filed_rejection,
    an_escalation,
    decide_events,
    refusal_code,
    stamp_events,
)

RUN = "RUN-20261115-090000-00000001"
OTHER = "RUN-20261115-090000-00000002"
AT_WORK = Run(id=RUN, agent="Alice", purpose="work", started_at=NOW, handoff_id=H1)
HELD = a_task(status=Status.CLAIMED, claim=replace(a_claim(), runner="s"))
RUNNING = replace(HELD, runs=(AT_WORK,))
ASSIGN = c.AssignTask(agent="Alice", run_id=RUN)
HANDED_IN = a_task(
    status=Status.PROVISIONAL, submission=a_submission("Alice"), authors=("Alice",), holders=("Alice",)
)
DIRECTOR = actor("Dora", Role.DIRECTOR)


def asked(task: Task, ask: c.Command, **facts: Any) -> tuple[Event, ...]:
    return decide_events(task, ask, THE_COORDINATOR, **facts)


def no(task: Task, ask: c.Command, **facts: Any) -> str:
    return refusal_code(task, ask, THE_COORDINATOR, **facts)


def folded(task: Task, *events: Event) -> Task:
    for event in stamp_events(*events):
        found = evolve(task, event)
        assert found is not None
        task = found
    return task


def ended(how: How = How.EXITED, **fields: Any) -> c.EndRun:
    return c.EndRun(task_id=T1, run_id=RUN, how=how, **fields)


# Giving a task to an agent.


def test_a_task_is_claimed_and_its_run_begun_in_one() -> None:
    claimed, started = asked(a_task(), ASSIGN, target=ALICE, handoff_id=H1)

    assert isinstance(claimed, TaskClaimed)
    assert claimed.agent == "Alice"
    assert started == RunStarted(task_id=T1, run_id=RUN, agent="Alice", handoff_id=H1)
    task = folded(a_task(), claimed, started)
    assert task.claim is not None
    assert task.claim.runner
    assert [run.id for run in task.runs] == [RUN]


def test_an_offer_to_the_agent_is_taken_up() -> None:
    accepted, started = asked(a_task(offers=(an_offer("Alice", H1, LATER),)), ASSIGN, target=ALICE)

    assert isinstance(accepted, HandoffAccepted)
    assert isinstance(started, RunStarted)
    assert started.handoff_id == H1


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (a_task(lockouts=(a_lockout("Alice"),)), "locked_out"),
        (a_task(reviewers=("Alice",)), "not_eligible"),
        (HELD, "already_claimed"),
        (a_task(offers=(an_offer("Bob"),)), "waits_on_other"),
        (a_task(runs=(AT_WORK,)), "already_running"),
    ],
)
def test_an_agent_is_given_nothing_that_it_could_not_claim(task: Task, code: str) -> None:
    assert no(task, ASSIGN, target=ALICE, handoff_id=H1) == code


@pytest.mark.parametrize("ask", [ASSIGN, c.StartRun(task_id=T1, agent="Alice", run_id=RUN), ended()])
def test_nobody_but_the_system_itself_begins_or_ends_runs(ask: c.Command) -> None:
    for who in (THE_USER, ALICE, LEAD, DIRECTOR):
        assert refusal_code(RUNNING, ask, who) in ("not_authorised", "user_only")


# Further runs.


def test_the_agent_that_holds_a_task_is_started_again_under_its_claim() -> None:
    (started,) = asked(HELD, c.StartRun(task_id=T1, agent="Alice", run_id=RUN), target=ALICE)

    assert isinstance(started, RunStarted)
    assert started.handoff_id == H1


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (RUNNING, "already_running"),
        (a_task(status=Status.CLAIMED, claim=a_claim()), "not_yours"),
        (replace(HELD, claim=replace(a_claim("Bob"), runner="s")), "not_yours"),
        (update_task(HELD, lockouts=(a_lockout("Alice"),)), "locked_out"),
        (a_task(), "not_yours"),
    ],
)
def test_nobody_is_started_on_what_is_not_theirs(task: Task, code: str) -> None:
    assert no(task, c.StartRun(task_id=T1, agent="Alice", run_id=OTHER), target=ALICE) == code


def test_a_reviewer_is_started_on_what_others_handed_in() -> None:
    ask = c.StartRun(task_id=T1, agent="Lead", run_id=RUN, purpose=Purpose.REVIEW)

    (started,) = asked(HANDED_IN, ask, target=LEAD)

    assert isinstance(started, RunStarted)
    assert (started.purpose, started.commit) == ("review", SHA)
    assert no(HANDED_IN, ask, target=BOB) == "not_authorised"
    assert no(HELD, ask, target=LEAD) == "nothing_to_review"
    own = update_task(HANDED_IN, holders=("Alice", "Lead"))
    assert no(own, ask, target=LEAD) == "own_work"


def test_a_director_is_started_on_rejections_of_others() -> None:
    ask = c.StartRun(task_id=T1, agent="Dora", run_id=RUN, purpose=Purpose.DIRECT)
    waiting = a_task(status=Status.BLOCKED, last_rejection=a_filed_rejection())

    assert len(asked(waiting, ask, target=DIRECTOR)) == 1
    assert no(waiting, ask, target=ALICE) == "not_authorised"
    assert (
        no(update_task(waiting, last_rejection=a_filed_rejection("OVERRIDE")), ask, target=DIRECTOR)
        == "bad_transition"
    )
    assert (
        no(update_task(waiting, last_rejection=a_filed_rejection(agent="Dora")), ask, target=DIRECTOR)
        == "own_work"
    )


# How runs end.


def test_a_run_that_did_its_work_costs_what_it_costs() -> None:
    (event,) = asked(RUNNING, ended(seconds=90.0, turns=7, cost=0.5, tokens=10))
    task = folded(RUNNING, event)

    assert (task.runs, task.status) == ((), Status.CLAIMED)
    assert task.spent == RunCosts(runs=1, turns=7, seconds=90.0, cost=0.5, tokens=10)


def test_a_run_ends_once() -> None:
    assert asked(HELD, ended()) == ()


@pytest.mark.parametrize("ask", [ended(status=1), ended(How.SIGNALLED, status=9), ended(How.TIMED_OUT)])
@pytest.mark.parametrize("has_work", [False, True])
def test_a_failed_run_gives_the_task_back_without_blame(ask: c.EndRun, has_work: bool) -> None:
    task = folded(RUNNING, *asked(RUNNING, replace(ask, has_work=has_work)))

    assert task.status == (Status.NEEDS_CONTINUATION if has_work else Status.INCOMING)
    assert (task.claim, task.claims.exits, task.rejections.invalid_by, task.people.lockouts) == (
        None,
        (),
        (),
        (),
    )
    assert task.spent.faults == 1


def test_rejected_work_stays_before_all_else_after_a_failed_run() -> None:
    rework = replace(RUNNING, queue=Status.REJECTED)

    assert folded(rework, *asked(rework, ended(status=1, has_work=True))).status == Status.REJECTED


@pytest.mark.parametrize("how", [How.STOPPED, How.LOST])
def test_an_agent_that_was_ended_with_the_scheduler_keeps_its_task(how: How) -> None:
    task = folded(RUNNING, *asked(RUNNING, ended(how)))

    assert task.claim is not None
    assert (task.runs, task.spent.faults) == ((), 0)


def test_what_the_system_did_wrong_counts_against_no_task() -> None:
    task = folded(RUNNING, *asked(RUNNING, ended(How.NOT_STARTED, is_systems=True)))

    assert (task.status, task.spent.faults) == (Status.INCOMING, 0)


def test_a_run_that_never_began_is_no_attempt_and_no_fault() -> None:
    before = update_task(RUNNING, attempt_count=1)

    task = folded(before, *asked(before, ended(How.NOT_STARTED)))

    assert (task.status, task.claim, task.claims.attempt_count) == (Status.INCOMING, None, 0)
    assert (task.spent.runs, task.spent.faults, task.spent.unbegun) == (0, 0, 1)


def test_what_an_agent_did_before_stays_its_attempt() -> None:
    again = replace(AT_WORK, id=OTHER)
    before = update_task(RUNNING, attempt_count=1)
    task = replace(folded(before, *asked(before, ended())), runs=(again,))

    task = folded(task, *asked(task, replace(ended(How.NOT_STARTED), run_id=OTHER)))

    assert (task.status, task.claims.attempt_count, task.spent.runs) == (Status.INCOMING, 1, 1)


def test_runs_that_cannot_be_begun_again_and_again_are_a_question_to_the_user() -> None:
    stuck = replace(RUNNING, spent=RunCosts(unbegun=2, faults=1))

    event, question = asked(stuck, ended(How.NOT_STARTED, detail="no worktree"), max_faults=3)

    assert isinstance(event, RunEnded)
    assert not event.is_fault
    assert isinstance(question, EscalationOpened)
    assert "3 runs in a row could not start; the last one could not start: no worktree" in question.reason
    systems = ended(How.NOT_STARTED, is_systems=True)
    assert not any(isinstance(one, EscalationOpened) for one in asked(stuck, systems, max_faults=3))
    assert folded(stuck, *asked(stuck, ended())).spent.unbegun == 0, "one that did begin ends the row"


def test_an_error_after_the_work_was_handed_in_is_none() -> None:
    task = replace(HANDED_IN, runs=(AT_WORK,))

    (event,) = asked(task, ended(status=1))

    assert isinstance(event, RunEnded)
    assert not event.is_fault


def test_runs_that_fail_again_and_again_are_a_question_to_the_user() -> None:
    tired = replace(RUNNING, spent=RunCosts(faults=2))

    _, question = asked(tired, ended(status=1), max_faults=3)

    assert isinstance(question, EscalationOpened)
    assert question.kind == "runs"
    assert "3 runs in a row failed; the last one exited with status 1" in question.reason
    assert not any(
        isinstance(event, EscalationOpened) for event in asked(RUNNING, ended(status=1), max_faults=3)
    )


def test_a_run_without_a_fault_ends_the_row() -> None:
    assert folded(replace(RUNNING, spent=RunCosts(faults=2)), *asked(RUNNING, ended())).spent.faults == 0


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(runs=2), "2 runs of 2 runs"),
        (Budget(turns=10), "12 turns of 10 turns"),
        (Budget(seconds=120.0), "180 seconds of 120 seconds"),
        (Budget(cost=1.0), "$1.50 of $1.00"),
    ],
)
def test_a_spent_budget_is_a_question_to_the_user(budget: Budget, said: str) -> None:
    before = replace(RUNNING, spent=RunCosts(runs=1, turns=5, seconds=90.0, cost=0.75))

    _, question = asked(before, ended(seconds=90.0, turns=7, cost=0.75), budget=budget)

    assert isinstance(question, EscalationOpened)
    assert (question.kind, said in question.reason) == ("budget", True)


def test_a_lost_run_spends_the_budget_too_and_one_that_was_told_to_stop_goes_on() -> None:
    facts = {"budget": Budget(seconds=60.0)}

    assert [type(one) for one in asked(RUNNING, ended(How.LOST, seconds=60.0), **facts)] == [
        RunEnded,
        EscalationOpened,
    ]
    assert len(asked(RUNNING, ended(How.STOPPED, seconds=60.0), **facts)) == 1


def test_work_that_was_handed_in_is_reviewed_whatever_it_cost() -> None:
    task = replace(HANDED_IN, runs=(AT_WORK,))

    assert len(asked(task, ended(cost=5.0), budget=Budget(cost=1.0))) == 1


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("budget", RunCosts(cost=5.0, faults=3, unbegun=1, grants=1)), ("runs", RunCosts(cost=5.0))],
)
def test_the_user_s_answer_lets_the_task_go_on(kind: str, expected: RunCosts) -> None:
    asked_for = a_task(
        status=Status.ESCALATED, escalation=an_escalation(kind), spent=RunCosts(cost=5.0, faults=3, unbegun=1)
    )

    task = folded(asked_for, EscalationAnswered(task_id=T1, escalation_id=E1, option="reopen"))

    assert task.spent == expected == grant_after_answer(asked_for.spent, kind)
    assert not Budget(cost=3.0).describe_overrun(replace(expected, grants=1))


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
def test_figures_that_are_none_count_as_nothing(cost: float) -> None:
    event = RunEnded(task_id=T1, run_id=RUN, agent="Alice", how="exited", cost=cost, turns=-3)

    assert add_run_cost(RunCosts(cost=1.0, turns=1), event) == RunCosts(runs=1, cost=1.0, turns=1)


def test_one_who_judges_and_runs_out_of_turns_has_failed() -> None:
    """Else it would be started again for ever: nothing else of the task changes meanwhile."""
    judging = replace(AT_WORK, purpose="review", agent="Lead", handoff_id="")
    task = replace(HANDED_IN, runs=(judging,), spent=RunCosts(faults=2))

    ended_run, question = asked(task, ended(How.EXHAUSTED), max_faults=3)

    assert isinstance(ended_run, RunEnded)
    assert ended_run.is_fault
    assert isinstance(question, EscalationOpened)


def test_a_run_may_be_found_lost_by_two() -> None:
    event = RunEnded(task_id=T1, run_id=RUN, agent="Alice", how="lost", seconds=9.0)

    task = folded(RUNNING, event, event)

    assert (task.inbox.conflicts, task.spent.seconds) == ((), 9.0)


def test_the_end_of_a_run_that_was_not_there_is_a_conflict() -> None:
    event = RunEnded(task_id=T1, run_id=RUN, agent="Alice", how="exited", cost=9.0)

    task = folded(HELD, event)

    assert [one.event for one in task.inbox.conflicts] == ["run.end"]
    assert task.spent == RunCosts()


def test_a_run_ends_with_the_lease_that_nobody_renewed() -> None:
    """Whoever had begun it may be gone for good, and no other knows of it."""
    claim = replace(HELD.claim, lease_expires_at=add_seconds(NOW, -300.0)) if HELD.claim else None
    over = replace(RUNNING, claim=claim, runs=(replace(AT_WORK, started_at=add_seconds(NOW, -1000.0)),))

    task = folded(over, *asked(over, c.ExpireLease(task_id=T1), lease_seconds=600.0))

    assert (task.runs, task.status, task.inbox.conflicts) == ((), Status.INCOMING, ())
    assert (task.spent.seconds, task.spent.faults) == (400.0, 0), (
        "it would have been renewed after half of it"
    )
    assert asked(task, replace(ASSIGN, run_id=OTHER), target=ALICE, handoff_id=H1)


# A reviewer's yes.


def test_an_agent_s_yes_says_what_it_looked_at() -> None:
    agent = actor("Rita", Role.LEAD, confined=True)
    looked = Finding(text="The new branch is covered by two tests", path="a.py", line=3, is_blocking=False)
    approve = c.ApproveReview(task_id=T1, commit="HEAD")
    facts = {"commit": SHA, "changed": ("a.py",)}

    assert refusal_code(HANDED_IN, approve, agent, **facts) == "vacuous_approval"
    for vacuous in (
        replace(looked, text="LGTM"),
        replace(looked, text="good good good good good"),
        replace(looked, path="b.py"),
        replace(looked, path=""),
    ):
        ask = replace(approve, checked=(vacuous,))
        assert refusal_code(HANDED_IN, ask, agent, **facts) == "vacuous_approval"
    (event,) = decide_events(HANDED_IN, replace(approve, checked=(looked,)), agent, **facts)
    assert isinstance(event, ReviewApproved)
    assert event.checked == (looked,)
    assert decide_events(HANDED_IN, approve, LEAD, commit=SHA)
