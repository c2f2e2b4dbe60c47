"""The read-out, against histories counted by hand."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from remand.app.analysis.work_report import (
    RejectionEntry,
    RunCost,
    WorkReport,
    build_work_report,
    read_work_report,
    rejection_entry,
)
from remand.app.events.task_folds import task_events
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationAnswered, EscalationOpened, Finding, TaskReassigned
from remand.domain.events.tasks import LeaseExpired, TaskCancelled
from remand.domain.events.work import GateHeld, GateRejected, RunEnded, RunStarted
from remand.domain.gate.gate import GateFinding
from remand.domain.gate.verdict import GateStatus
from remand.domain.instant import add_seconds
from remand.testing.builders import (
    H1,
    H2,
    LATER,
    NOW,
    T1,
    Session,
    rejection_answered,
    rejection_filed,
    task_added,
    task_claimed,
)
from tests.support.builders import (
    LEAKS,
    NIT,
    V1,
    FakeLedger,
    a_result,
    a_verdict,
    gate_passed,
    gate_passed_and_submitted,
    lockout_set,
    member,
    review_rejected,
    review_retracted,
    stamp_events,
)
from tests.support.rejection_records import LAZY, SCOPE, TITLE, a_rejection

RUN, AGAIN = "RUN-20261115-090000-00000001", "RUN-20261115-090000-00000002"
TEAM = Team((member("Alice"), member("Bob"), member("Lead", Role.LEAD), member("owner", Role.USER)))


def started(run_id: str = RUN, agent: str = "Alice", handoff_id: str = H1) -> RunStarted:
    return RunStarted(task_id=T1, run_id=run_id, agent=agent, handoff_id=handoff_id)


def ended(run_id: str = RUN, agent: str = "Alice", **fields: object) -> RunEnded:
    standard = {"how": "exited", "seconds": 60.0, "turns": 7, "tokens": 900, "cost": 0.5}
    return RunEnded(**{**standard, "task_id": T1, "run_id": run_id, "agent": agent, **fields})


def failed(number: int = 1) -> GateRejected:
    gates = (
        a_result("tests", line="- Tests: 1 failure (requires 100% pass)"),
        a_result("lint", GateStatus.PASSED, line="- Lint: 0 errors"),
    )
    return GateRejected(task_id=T1, handoff_id=H1, agent="Alice", verdict=a_verdict(*gates), number=number)


def held() -> GateHeld:
    finding = GateFinding(path="tests/test_tax.py", line=4, code="test_deleted", text="1 test deleted")
    gate = a_result("integrity", GateStatus.HELD, findings=(finding,), suspicions=("abc",))
    return GateHeld(task_id=T1, handoff_id=H1, agent="Alice", verdict=a_verdict(gate))


def of(*events: Event, since: str = "") -> WorkReport:
    return build_work_report([stamp_events(task_added(), *events)], since)


def the_no(found: WorkReport) -> RejectionEntry:
    (no,) = found.noes
    return no


# What it cost.


def test_runs_are_added_up_by_agent_by_task_and_in_all() -> None:
    found = of(
        task_claimed(),
        started(),
        ended(is_fault=True, status=1),
        started(AGAIN, "Bob", ""),
        ended(AGAIN, "Bob", seconds=30.0, turns=1, cost=0.25),
    )

    alice = RunCost(name="Alice", runs=1, faults=1, seconds=60.0, turns=7, tokens=900, cost=0.5)
    bob = RunCost(name="Bob", runs=1, seconds=30.0, turns=1, tokens=900, cost=0.25)
    assert found.agents == (alice, bob)
    assert found.total == RunCost(name="all", runs=2, faults=1, seconds=90.0, turns=8, tokens=1800, cost=0.75)
    assert found.tasks[0].bill.cost == found.total.cost


def test_a_run_that_was_not_under_way_costs_nothing() -> None:
    assert of(task_claimed(), started(), ended(), ended()).total.runs == 1
    assert of(task_claimed(), ended()).agents == ()


def test_figures_that_are_none_count_as_nothing() -> None:
    found = of(task_claimed(), started(), ended(cost=math.inf, seconds=-1.0, turns=-5))

    assert (found.total.cost, found.total.seconds, found.total.turns) == (0.0, 0.0, 0)


# What was rejected.


def test_a_done_claim_that_the_gates_reject_is_told_by_what_it_missed_and_mended_by_whom() -> None:
    no = the_no(of(task_claimed(), failed()))
    assert (no.kind, no.by, no.of, no.outcome) == ("gate", "the gates", "Alice", "")
    assert no.why == "Tests: 1 failure (requires 100% pass)"

    mended = (task_claimed(), failed(), gate_passed())
    assert the_no(of(*mended)).outcome == "Alice fixed it"
    assert the_no(of(*mended, TaskCancelled(task_id=T1))).outcome == "Alice fixed it"


def test_work_that_is_held_is_a_no_by_what_was_found() -> None:
    assert the_no(of(task_claimed(), held())).why == "held: tests/test_tax.py: test_deleted"
    cancelled = of(task_claimed(), held(), TaskCancelled(task_id=T1, reason="Not worth it"))
    assert the_no(cancelled).outcome == "the task was cancelled"


REVIEWED = (
    task_claimed(),
    *gate_passed_and_submitted(),
    review_rejected(author="Alice", findings=(NIT, LEAKS)),
    lockout_set(),
)


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        ((), ""),
        ((TaskReassigned(task_id=T1, target="Bob"),), "on to Bob"),
        ((task_claimed("Bob", H2, epoch=2),), "Bob continued"),
        ((EscalationOpened(task_id=T1, reason="Who?"),), "the user was asked"),
        ((TaskReassigned(task_id=T1, target="Bob"), review_retracted()), "taken back"),
        ((TaskReassigned(task_id=T1, target="Bob"), review_retracted("V-9")), "on to Bob"),
    ],
)
def test_a_review_s_no_is_told_by_its_blocking_findings_and_what_came_of_it(
    after: tuple[Event, ...], outcome: str
) -> None:
    no = the_no(of(*REVIEWED, *after))

    assert (no.kind, no.by, no.of, no.id) == ("reviewer", "Lead", "Alice", V1)
    assert no.why == "roof.py:7: It leaks"
    assert no.outcome == outcome


def test_an_agent_s_no_is_told_by_its_reason_and_the_answer_to_that_very_rejection() -> None:
    world = FakeLedger(rules=Rules(team=TEAM, gates=()))
    task_id, handoff_id = world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    world.reject(handoff_id, LAZY)
    world.reject(handoff_id, a_rejection("BLOCKER"))

    with world.store.read() as view:
        found = build_work_report([task_events(view, task_id)])

    assert [(no.kind, no.by, no.outcome) for no in found.noes] == [
        ("agent", "Alice", "OVERRIDE"),
        ("agent", "Alice", "ACCEPT_AND_DEFER"),
    ]
    assert found.noes[1].why.startswith("BLOCKER: ")


def test_an_answer_counts_for_the_rejection_that_it_answers() -> None:
    found = of(
        task_claimed(), rejection_filed(T1, 1), rejection_filed(T1, 2), rejection_answered("ACCEPT", T1, 2)
    )

    assert [no.outcome for no in found.noes] == ["", "ACCEPT"]


def test_the_second_lazy_no_says_who_got_the_task() -> None:
    world = FakeLedger(rules=Rules(team=TEAM, gates=()))
    task_id, handoff_id = world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    world.reject(handoff_id, LAZY)
    world.reject(handoff_id, LAZY)

    with world.store.read() as view:
        found = build_work_report([task_events(view, task_id)])

    assert [no.outcome for no in found.noes] == ["OVERRIDE", "OVERRIDE, on to Bob"]


@pytest.mark.parametrize("why", ["a\x1b[31mb", "a\N{RIGHT-TO-LEFT OVERRIDE}b", "a\nb" * 1000])
def test_what_others_wrote_is_one_short_visible_line(why: str) -> None:
    no = rejection_entry(review_rejected(findings=(Finding(text=why),)))

    assert no is not None
    assert len(no.why) <= 300
    assert no.why.isprintable()


# Questions, and where tasks are.


def test_questions_are_told_with_their_answers() -> None:
    asked = EscalationOpened(task_id=T1, reason="All are locked out", kind="deadlock")
    unlocked = EscalationAnswered(task_id=T1, escalation_id="E-1", option="unlock:Alice")

    (first, second) = of(asked, unlocked, asked).questions

    assert (first.why, first.answer) == ("All are locked out", "unlock:Alice")
    assert second.answer == ""

    closed = EscalationAnswered(task_id=T1, escalation_id="E-2", option="wontfix")
    assert [one.answer for one in of(asked, unlocked, asked, closed).questions] == ["unlock:Alice", "wontfix"]


def test_tasks_are_told_by_where_they_are_in_the_order_of_their_life() -> None:
    world = FakeLedger(rules=Rules(team=TEAM, gates=()))
    one, two, three = (world.add(f"Task {number}", aliases=(f"#{number}",)) for number in range(3))
    world.claim(one)
    world.submit(one)
    world.ask(c.ApproveReview(task_id=one, commit="work"), "owner")
    world.ask(c.CancelTask(task_id=two, reason="No"), "owner")

    with world.store.read() as view:
        found = build_work_report(task_events(view, task.id) for task in view.tasks.every())

    assert list(found.statuses.items()) == [("incoming", 1), ("done", 1), ("cancelled", 1)]
    told = {fate.task_id: (fate.label, fate.status, fate.author) for fate in found.tasks}
    assert told[one] == ("issue #0", "done", "Alice")
    assert told[three] == ("issue #2", "incoming", "")


def test_a_report_on_a_ledger_is_that_on_all_events_of_all_its_tasks() -> None:
    world = FakeLedger(rules=Rules(team=TEAM, gates=()))
    plain, rejected, run, expired, asked = (world.add(f"Task {number}") for number in range(5))
    world.claim(plain)
    world.claim(rejected)
    world.submit(rejected)
    findings = (Finding(path="roof.py", line=7, text="It leaks"),)
    world.ask(c.RejectReview(task_id=rejected, commit="work", findings=findings), "owner")
    events: list[Event] = []
    for task, lost in ((run, ()), (expired, (LeaseExpired(task_id=expired, handoff_id=H1, agent="Alice"),))):
        begun = RunStarted(task_id=task, run_id=RUN, agent="Alice", handoff_id=H1)
        ends = (replace(ended(run_id), task_id=task) for run_id in (RUN, AGAIN))
        events += [task_claimed(task_id=task), begun, *lost, *ends]
    events.append(EscalationOpened(task_id=asked, reason="All are locked out", kind="deadlock"))
    session = Session()
    session.write(replace(review_rejected(), task_id=plain), at=add_seconds(NOW, -60))
    for number, event in enumerate(events, 60):
        session.write(event, at=add_seconds(NOW, number))
    world.exchange.put("/events/theirs.jsonl", session.lines)
    world.ledger.refresh()

    with world.store.read() as view:
        found = read_work_report(view)
        everything = build_work_report(task_events(view, task.id) for task in view.tasks.every())

    assert found == everything
    assert (len(found.noes), len(found.questions), len(found.tasks)) == (1, 1, 5)
    assert found.total.runs == 1, "a run that a lease took with it, and one that nobody started, do not count"


def test_since_leaves_out_what_was_before_and_tasks_that_rested() -> None:
    early = stamp_events(task_added(), task_claimed(), started(), ended(), failed())
    late = add_seconds(NOW, 3600)
    both = [*early, *stamp_events(TaskCancelled(ts=add_seconds(NOW, 7200), task_id=T1))]

    assert build_work_report([early], late).tasks == ()
    found = build_work_report([both], late)
    assert (found.noes, found.total.runs, found.statuses) == ((), 0, {"cancelled": 1})
    assert build_work_report([early], NOW).total.runs == 1
    assert late > LATER
