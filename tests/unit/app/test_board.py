"""Holds what the board shows: counts, who is at work, who waits for whom, and what goes wrong first."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from remand.adapters.stores import sqlite_queue
from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.stores.sqlite_queue import decode_task
from remand.adapters.stores.sqlite_views import LedgerView
from remand.app import board
from remand.app.board import (
    BOARD_ORDER,
    BY_ID,
    MAX_TASKS,
    MAX_WITH_HISTORY,
    OPEN_FIRST,
    Board,
    BoardContext,
    StatusGroups,
    read_board,
    read_task_page,
)
from remand.app.requests import Rules
from remand.app.scheduler.ports import ActiveAgent, ActiveMeasurement, BreachStatus, SchedulerStatus
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.gate.state import GateState, update_gates
from remand.domain.gate.verdict import GateStatus
from remand.domain.instant import add_seconds
from remand.domain.policy import Policy
from remand.domain.run import Run, RunCosts
from remand.domain.task import Status, Task
from remand.ledger.event_tables import FileMark
from remand.ledger.problems import Problem
from remand.ledger.store import TaskFilter
from remand.testing.builders import (
    H1,
    H2,
    LATER,
    NOW,
    T1,
    T2,
    T3,
    a_claim,
    a_submission,
    a_task,
    an_offer,
    task_id,
)
from tests.support.builders import FakeLedger, a_filed_rejection, a_round, an_escalation, member, send_back

EVERY_TASK = TaskFilter()
SOON = add_seconds(LATER, -60)
TEAM = Team((member("Alice"), member("Bob"), member("Lea", Role.LEAD), member("Boss", Role.USER)))


def a_status(**fields: Any) -> SchedulerStatus:
    return SchedulerStatus(**{"pid": 4711, "started_at": NOW, "tick_at": NOW, **fields})


def a_run(number: int = 1, agent: str = "Alice", **fields: Any) -> Run:
    return Run(**{"id": f"RUN-{number}", "agent": agent, "purpose": "work", "started_at": NOW, **fields})


def shown(*tasks: Task, now: str = NOW, focus: str = "", **around: Any) -> Board:
    """The board of a ledger that has these tasks."""
    store = SqliteStore.in_memory("20261115-090000-00000000")
    with store.write() as tx:
        for task in tasks:
            tx.tasks.put(task)
    with store.read() as view:
        return read_board(view, BoardContext(now=now, **around), focus)


def told(*tasks: Task, **more: Any) -> list[str]:
    """What goes wrong, in order, in words."""
    return [f"{one.label}: {one.text}" if one.label else one.text for one in shown(*tasks, **more).troubles]


def held(task: str = T1, **fields: Any) -> Task:
    return a_task(task, **{"status": Status.CLAIMED, "claim": a_claim(), "attempt_count": 1, **fields})


# What is there.


def test_tasks_are_counted_by_status_in_the_order_of_a_tasks_life() -> None:
    found = shown(a_task(T1, status=Status.DONE), a_task(T2), held(T3))

    assert list(found.counts.items()) == [("incoming", 1), ("claimed", 1), ("done", 1)]
    assert found.ready == 1


def test_whoever_holds_a_task_is_at_work_with_attempt_and_lease() -> None:
    (one,) = shown(held(attempt_count=3, aliases=("#42",))).at_work

    assert (one.agent, one.label, one.purpose, one.attempt) == ("Alice", "issue #42", "work", 3)
    assert (one.since, one.lease_until, one.run_id) == (NOW, LATER, "")


def test_a_run_is_told_with_its_holder_and_with_what_it_said_last() -> None:
    run = a_run(handoff_id=H1, tier="bubblewrap")
    said = ActiveAgent(
        run_id="RUN-1", task_id=T1, agent="Alice", purpose="work", started_at=NOW, last_line="reading roof.py"
    )

    (one,) = shown(held(runs=(run,)), scheduler=a_status(agents=(said,)), is_scheduled=True).at_work

    assert (one.run_id, one.tier, one.last_line) == ("RUN-1", "bubblewrap", "reading roof.py")


def test_a_run_that_reviews_stands_beside_what_waits_for_it() -> None:
    review = a_run(2, "Lea", purpose="review", started_at=LATER)
    task = a_task(T1, status=Status.PROVISIONAL, submission=a_submission(), runs=(review,))

    found = shown(task, held(T2))

    assert [(one.agent, one.purpose) for one in found.at_work] == [("Alice", "work"), ("Lea", "review")]
    assert [one.task_id for one in found.waiting] == [T1]


def test_a_run_of_an_earlier_claim_is_not_taken_for_the_holders() -> None:
    found = shown(held(claim=a_claim("Bob", H2), runs=(a_run(handoff_id=H1),)))

    assert {one.agent: one.run_id for one in found.at_work} == {"Alice": "RUN-1", "Bob": ""}


def test_what_is_handed_in_waits_for_whoever_was_asked_the_longest_first() -> None:
    first = a_task(T2, status=Status.PROVISIONAL, submission=a_submission(), requested=("Lea",), pr=7)
    second = a_task(T1, status=Status.PROVISIONAL, submission=replace(a_submission("Bob"), at=LATER))

    found = shown(first, second).waiting

    assert [(one.task_id, one.whom, one.since, one.author, one.pr) for one in found] == [
        (T2, ("Lea",), NOW, "Alice", 7),
        (T1, (), LATER, "Bob", 0),
    ]


def test_what_was_sent_back_waits_for_whom_it_is_reserved_for() -> None:
    task = a_task(status=Status.REJECTED, rejection_count=1, offers=(an_offer("Bob"),))

    (one,) = shown(task).waiting
    (lapsed,) = shown(task, now=add_seconds(LATER, 1)).waiting

    assert (one.whom, one.rejection_count) == (("Bob",), 1)
    assert lapsed.whom == ()


def test_gates_run_by_the_schedulers_hand_or_in_the_background() -> None:
    by_hand = ActiveMeasurement(task_id=T1, agent="Alice", started_at=NOW)

    found = shown(
        held(T1),
        held(T2, claim=a_claim("Bob", H2)),
        held(T3, claim=a_claim("Carol", H2)),
        scheduler=a_status(gates=(by_hand,)),
        is_scheduled=True,
        is_measured=lambda name: name == T2,
    )

    assert [(one.task_id, one.agent) for one in found.gates] == [(T1, "Alice"), (T2, "Bob")]
    assert {one.agent: one.is_measured for one in found.at_work} == {
        "Alice": True,
        "Bob": True,
        "Carol": False,
    }


def test_what_a_dead_scheduler_measured_is_measured_no_more() -> None:
    by_hand = ActiveMeasurement(task_id=T1, agent="Alice", started_at=NOW)

    assert shown(held(), scheduler=a_status(gates=(by_hand,))).gates == ()


def test_the_questions_have_their_options_and_what_was_tried() -> None:
    world = FakeLedger(rules=Rules(gates=(), team=TEAM))
    name = world.add()
    send_back(world, name, "Alice", "one")
    world.ask(c.EscalateTask(task_id=name, reason="Which colour?"))

    with world.store.read() as view:
        (question,) = read_board(view, BoardContext(now=NOW, rules=world.rules)).questions

    assert [option.key for option in question.options] == [
        "fix",
        "unlock:Alice",
        "reassign:Bob",
        "reopen",
        "wontfix",
    ]
    assert question.tried == ("Boss rejected Alice's work: It leaks",)


def test_of_many_questions_what_was_tried_is_read_for_a_few_and_for_the_one_looked_at() -> None:
    world = FakeLedger()
    for number in range(MAX_WITH_HISTORY + 2):
        name = world.add(f"Task {number}")
        send_back(world, name, "Alice", f"work {number}")
        world.ask(c.EscalateTask(task_id=name, reason="What now?"))

    def with_story(focus: str) -> list[bool]:
        with world.store.read() as view:
            return [bool(one.tried) for one in read_board(view, BoardContext(now=NOW), focus).questions]

    with world.store.read() as view:
        last = read_board(view, BoardContext(now=NOW)).questions[-1].escalation_id

    assert with_story("") == [True] * MAX_WITH_HISTORY + [False, False]
    assert with_story(last) == [True] * MAX_WITH_HISTORY + [False, True]


def test_no_more_tasks_of_a_status_are_read_than_anybody_looks_at() -> None:
    found = shown(*(a_task(task_id(number), status=Status.FAILED) for number in range(MAX_TASKS + 50)))

    assert found.counts == {"failed": MAX_TASKS + 50}
    assert len(found.troubles) == MAX_TASKS


# What goes wrong.


def test_each_task_that_waits_for_the_user_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FakeLedger()
    names = [world.add(f"Task {number}") for number in range(5)]
    for name in names:
        world.ask(c.EscalateTask(task_id=name, reason="What now?"))
    found: list[str] = []

    def decode(state: str) -> Task:
        task = decode_task(state)
        found.append(task.id)
        return task

    with world.store.read() as view:
        monkeypatch.setattr(sqlite_queue, "decode_task", decode)
        monkeypatch.setattr(board, "latest_activity", lambda *_: ())
        assert len(read_board(view, BoardContext(now=NOW)).questions) == 5

    assert sorted(found) == names


def test_a_ledger_without_trouble_tells_of_none() -> None:
    submitted = a_task(T2, status=Status.PROVISIONAL, submission=a_submission())

    assert told(held(), submitted, a_task(T3), scheduler=a_status(), is_scheduled=True) == []


def test_what_keeps_one_member_is_not_told_as_if_nothing_was_started() -> None:
    breach = BreachStatus(cause="runs of Bob", message="A run of claude failed.", since=NOW)
    found = shown(scheduler=a_status(breaker=(breach,)), is_scheduled=True)

    assert [one.text for one in found.troubles] == [
        "Bob is not started (runs of Bob): A run of claude failed."
    ]


def test_the_system_comes_first_then_questions_then_tasks() -> None:
    breach = BreachStatus(cause="disk", message="The disk is full.", since=NOW, until=LATER)
    asked = a_task(T1, status=Status.ESCALATED, escalation=an_escalation())

    found = shown(
        asked,
        a_task(T2, status=Status.FAILED),
        scheduler=a_status(breaker=(breach,), forge="it does not answer"),
        is_scheduled=True,
    )

    assert [one.kind for one in found.troubles] == ["system", "system", "questions", "task"]
    assert found.troubles[0].text == "Nothing is started (disk): The disk is full; tried again at 09:30:00."
    assert found.troubles[1].text == "The forge: it does not answer"
    assert found.troubles[2].text == "One question waits for the user."


def test_a_scheduler_that_died_is_a_trouble_and_what_it_said_is_not() -> None:
    breach = BreachStatus(cause="disk", message="The disk is full.", since=NOW)

    assert told(scheduler=a_status(breaker=(breach,))) == [
        "The scheduler ended unexpectedly; start it again."
    ]


@pytest.mark.parametrize(("seconds", "is_told"), [(59, False), (61, True)])
def test_a_scheduler_that_looks_at_nothing_any_more_is_a_trouble(seconds: float, is_told: bool) -> None:
    found = told(now=add_seconds(NOW, seconds), scheduler=a_status(), is_scheduled=True)

    assert found == ["The scheduler has stopped looking at the ledger."] * is_told


def test_event_files_that_cannot_be_read_are_a_trouble() -> None:
    store = SqliteStore.in_memory("20261115-090000-00000000")
    with store.write() as tx:
        tx.files.note(FileMark("a", 1, 1, 1), [Problem(file="a", line=1, problem="torn")])
    with store.read() as view:
        (one,) = read_board(view, BoardContext(now=NOW)).troubles

    assert one.text == "One line of the event files cannot be read; `remand log verify` says which."


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (add_seconds(LATER, -200), []),
        (SOON, [f"task {T1}: Alice's lease ends at 09:30:00"]),
        (add_seconds(LATER, 1), [f"task {T1}: Alice's lease has ended"]),
    ],
    ids=["far", "near", "over"],
)
def test_a_lease_that_is_about_to_end_is_a_trouble(now: str, expected: list[str]) -> None:
    assert told(held(), now=now) == expected


@pytest.mark.parametrize(("count", "is_told"), [(2, False), (3, True)])
def test_gates_that_reject_again_and_again_are_a_trouble_from_the_alert_on(count: int, is_told: bool) -> None:
    task = held(gates=update_gates(GateState(), handoff_id=H1, count=count, status=GateStatus.FAILED))

    assert told(task) == [f"task {T1}: the gates rejected Alice's work {count} times"] * is_told


def test_the_gates_rejections_of_an_earlier_claim_are_none_of_the_holders() -> None:
    task = held(claim=a_claim("Bob", H2), gates=update_gates(GateState(), handoff_id=H1, count=5))

    assert told(task) == []
    assert shown(task).at_work[0].gate_rejections == 0


def test_findings_that_wait_for_a_reviewer_are_a_trouble() -> None:
    task = held(gates=GateState(handoff_id=H1, status=GateStatus.HELD, held=("S-1",)))

    assert told(task) == [f"task {T1}: findings in Alice's work wait for a reviewer"]


@pytest.mark.parametrize(("faults", "words"), [(1, "its last run failed"), (2, "its last 2 runs failed")])
def test_runs_that_failed_are_a_trouble(faults: int, words: str) -> None:
    assert told(held(spent=RunCosts(runs=4, faults=faults, last_fault=NOW))) == [f"task {T1}: {words}"]


@pytest.mark.parametrize("status", [Status.CLAIMED, Status.PROVISIONAL, Status.REJECTED])
def test_a_task_whose_next_rejection_goes_to_the_user_is_a_trouble(status: Status) -> None:
    once, twice = (a_round("V-1"),), (a_round("V-1"), a_round("V-2"))
    rules = Rules(policy=Policy(escalate_after_reviews=3))

    assert told(a_task(status=status, rounds=once), rules=rules) == []
    assert told(a_task(status=status, rounds=twice), rules=rules) == [
        f"task {T1}: was rejected in 2 reviews; the next rejection goes to the user"
    ]


def test_what_failed_or_is_blocked_is_a_trouble_that_says_what_to_do() -> None:
    rejected = a_task(T3, status=Status.BLOCKED, last_rejection=a_filed_rejection())

    assert told(a_task(T1, status=Status.FAILED), a_task(T2, status=Status.BLOCKED), rejected) == [
        "One question waits for the user.",
        f"task {T1}: is failed, and only `remand task reopen` restores it",
        f"task {T2}: is blocked, and only `remand task reopen` restores it",
        f"task {T3}: Alice rejected it, and a director has to answer",
    ]


def test_pages_of_a_list_have_its_order_and_say_what_the_whole_list_says() -> None:
    store = SqliteStore.in_memory("20261115-090000-00000000")
    order = [Status.DONE, Status.INCOMING, Status.REJECTED, Status.CLAIMED, Status.PROVISIONAL]
    with store.write() as tx:
        for number in range(10):
            status = order[number % 5]
            more: dict[str, Any] = {"claim": a_claim("Bob")} if status is Status.CLAIMED else {}
            more |= {"submission": a_submission(), "pr": 7} if status is Status.PROVISIONAL else {}
            tx.tasks.put(a_task(task_id(number), status=status, aliases=("#1",) if number else (), **more))
    whole = json.loads(LedgerView("", store.connection).tasks())

    def pages(order: StatusGroups, wanted: TaskFilter = EVERY_TASK) -> list[Any]:
        rows: list[Any] = []
        after = ""
        while True:
            with store.read() as view:
                page = read_task_page(view, wanted, limit=3, after=after, order=order)
            rows += json.loads(msgspec.json.encode(page.rows))
            if not (after := page.after):
                assert page.counts == {row["status"]: 2 for row in whole}
                return rows

    assert pages(BY_ID) == whole
    assert pages(OPEN_FIRST) == sorted(whole, key=lambda row: row["status"] == "done")
    first = ["rejected", "claimed", "provisional", "incoming", "done"]
    assert pages(BOARD_ORDER) == sorted(whole, key=lambda row: first.index(row["status"]))
    found = pages(BOARD_ORDER, TaskFilter(statuses=("done", "rejected")))
    assert [row["status"] for row in found] == ["rejected", "rejected", "done", "done"]
