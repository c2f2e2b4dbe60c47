"""Holds what the scheduler does next, case by case: given what it saw, which actions."""

import pytest
from msgspec.structs import replace

from remand.app.gates.known_results import BrokenGates
from remand.app.requests import Rules
from remand.app.scheduler import decide as d
from remand.app.scheduler.ports import TaskWorktree
from remand.app.scheduler.runs import ActiveRun, RunAssignment
from remand.app.tasks.queue import Load
from remand.domain.access.team import Member, Team
from remand.domain.events.work import How, Purpose
from remand.domain.policy import Policy
from remand.domain.run import Run, RunCosts
from remand.domain.task import Claim, Status, Submission, Task, update_task
from remand.testing.builders import a_task

NOW = "2026-11-15T12:00:00.000000Z"
SOON = "2026-11-15T12:00:10.000000Z"
LATER = "2026-11-15T14:00:00.000000Z"
ALICE = Member(name="Alice", command=("agent",), capacity=2)
BOB = Member(name="Bob", command=("agent",))
PERSON = Member(name="Carol")
RULES = Rules(team=Team((ALICE, BOB, PERSON)), policy=Policy(lease_seconds=60.0, max_waiting_reviews=3))


def held(agent: str = "Alice", *, expires: str = LATER, runner: str = "ours", ended: str = "") -> Task:
    claim = Claim(
        agent=agent,
        epoch=1,
        handoff_id="H-1",
        claimed_at=NOW,
        lease_expires_at=expires,
        runner=runner,
        run_ended=ended,
    )
    return replace(a_task(), status=Status.CLAIMED, claim=claim)


def submitted(**fields: object) -> Task:
    work = Submission(commit="c", agent="Alice", handoff_id="H-1", at=NOW)
    return update_task(a_task(), status=Status.PROVISIONAL, submission=work, **fields)


def a_run(purpose: Purpose = Purpose.WORK) -> ActiveRun:
    assignment = RunAssignment(run_id="RUN-1", task=held(), member=ALICE, purpose=purpose)
    tree = TaskWorktree(task_id=held().id, folder="/w", branch="b", common_dir="/r/.git")
    return ActiveRun(assignment, tree, None, NOW)  # type: ignore[arg-type]


RUN, REVIEW = a_run(), a_run(Purpose.REVIEW)
AT_WORK = (Run(id="RUN-1", agent="Alice", purpose="work", started_at=NOW),)
EXITED = held(ended=How.EXITED)
FAILED = RunCosts(faults=2, last_fault=NOW)


@pytest.mark.parametrize(
    ("watched", "action"),
    [
        (d.WatchedRun(RUN, held()), None),
        (d.WatchedRun(RUN, held(expires=SOON)), d.RenewLease(held(expires=SOON))),
        (d.WatchedRun(RUN, None), d.StopAgent(RUN)),
        (d.WatchedRun(RUN, replace(held(), status=Status.CANCELLED, claim=None)), d.StopAgent(RUN)),
        (d.WatchedRun(RUN, submitted(), 1.0), None),
        (d.WatchedRun(RUN, submitted(), d.LINGER_SECONDS), d.StopAgent(RUN)),
        (d.WatchedRun(REVIEW, submitted()), None),
        (d.WatchedRun(REVIEW, held()), d.StopAgent(REVIEW)),
    ],
    ids=["works", "lease ends", "unknown", "cancelled", "handed in", "lingers", "reviews", "withdrawn"],
)
@pytest.mark.parametrize("is_stopping", [False, True])
def test_a_run_is_watched(watched: d.WatchedRun, action: d.Action | None, is_stopping: bool) -> None:
    seen = d.SchedulerView(now=NOW, session="ours", rules=RULES, runs=(watched,), is_stopping=is_stopping)

    assert d.decide(seen) == ([] if action is None else [action])


@pytest.mark.parametrize(
    ("task", "action"),
    [
        (held(), d.ContinueWork(held(), ALICE)),
        (EXITED, d.AnswerStop(EXITED, ALICE)),
        (held(runner="theirs"), None),
        (held("Carol"), None),
        (replace(held(), runs=AT_WORK), None),
        (update_task(held(), waiting_for="a key"), None),
        (submitted(), d.StartReviewRun(submitted(), Purpose.REVIEW)),
        (submitted(runs=AT_WORK), None),
        (submitted(spent=FAILED), None),
        (replace(a_task(), status=Status.BLOCKED), d.StartReviewRun(replace(a_task(), status=Status.BLOCKED), Purpose.DIRECT)),
        (a_task(), None),
    ],
    ids=["held", "stopped", "another's", "a person's", "works", "waits", "submitted", "reviewed", "fails", "rejected", "new"],
)  # fmt: skip
def test_a_task_has_a_next_step(task: Task, action: d.Action | None) -> None:
    seen = d.SchedulerView(now=NOW, session="ours", rules=RULES, tasks=(task,))

    assert d.decide(seen) == ([] if action is None else [action])
    assert d.decide(seen._replace(busy={task.id})) == []
    assert d.decide(seen._replace(is_stopping=True)) == []


def test_the_lease_of_a_task_whose_work_is_measured_is_renewed() -> None:
    task = held(expires=SOON, ended=How.EXITED)

    assert d.decide(d.SchedulerView(now=NOW, session="ours", rules=RULES, tasks=(task,), busy={task.id})) == [
        d.RenewLease(task)
    ]


@pytest.mark.parametrize(
    ("load", "waiting", "last", "expected"),
    [
        ({}, 0, "", (("Alice", "Bob"), 3)),
        ({"Alice": 1}, 0, "", (("Alice", "Bob"), 2)),
        ({"Alice": 1}, 0, "Alice", (("Bob", "Alice"), 2)),
        ({"Alice": 2}, 1, "", (("Bob",), 0)),
        ({"Alice": 2, "Bob": 1}, 3, "", ((), -3)),
    ],
)
def test_new_tasks_go_to_whom_has_capacity(
    load: dict[str, int], waiting: int, last: str, expected: tuple[tuple[str, ...], int]
) -> None:
    found = d.decide_assignments(RULES, Load(load), waiting, last, lambda _: True)

    assert (tuple(member.name for member in found.members), found.max_new) == expected


def test_nobody_whom_the_breaker_stops_is_given_a_task() -> None:
    found = d.decide_assignments(RULES, Load({}), 0, "", lambda member: member == BOB)

    assert found.members == (BOB,)


def test_a_gate_on_trial_lets_one_task_work_at_a_time() -> None:
    trial = BrokenGates(broken=frozenset({"tests"}))

    assert d.may_work(BrokenGates(), {"T-1"}, "T-2")
    assert d.may_work(trial, set(), "T-2")
    assert d.may_work(trial, {"T-2"}, "T-2")
    assert not d.may_work(trial, {"T-1"}, "T-2")
