"""Holds that nothing is handed in without its gates' release, whatever a file says."""

from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from msgspec.structs import replace

from remand.domain.events.event import Event, Meta
from remand.domain.events.reviews import EscalationOpened, ReviewApproved, ReviewRejected
from remand.domain.events.tasks import (
    HandoffAccepted,
    HandoffCompleted,
    HandoffInitiated,
    LeaseExpired,
    LeaseRenewed,
    TaskContinued,
    TaskFailed,
    TaskReleased,
    TaskReopened,
    TaskWaiting,
)
from remand.domain.events.work import (
    FindingAccepted,
    FindingRefused,
    GateAlerted,
    GateErrored,
    GateHeld,
    GateOverridden,
    GatePassed,
    GateRejected,
)
from remand.domain.evolve import evolve, replay
from remand.domain.gate.state import GateState, update_gates
from remand.domain.gate.verdict import INTEGRITY_GATE, PASSING, GateStatus, Verdict
from remand.domain.instant import add_seconds
from remand.domain.task import Status, Task, update_task
from remand.testing.builders import H1, H2, LATER, NOW, SHA, T1, TREE, task_added, task_claimed
from tests.support.builders import (
    OTHER_SHA,
    a_result,
    a_verdict,
    gate_passed,
    gate_passed_and_submitted,
    stamp_events,
    task_after,
    task_submitted,
)

FAILED = a_verdict(a_result("tests", failing_count=3, excess=4.0), base="b", policy="p", tier="plain")
HELD = a_verdict(a_result(INTEGRITY_GATE, GateStatus.HELD, suspicions=("f1", "f2")))
ERRORED = a_verdict(a_result("tests", GateStatus.ERRORED))
RELEASED = TaskReleased(task_id=T1, handoff_id=H1, agent="Alice")
APPROVED = ReviewApproved(task_id=T1, reviewer="Lead", commit=SHA, tree=TREE)


def own(agent: str = "Alice", handoff_id: str = H1) -> dict[str, Any]:
    return {"task_id": T1, "handoff_id": handoff_id, "agent": agent}


def completed(commit: str = SHA, tree: str = TREE) -> HandoffCompleted:
    return HandoffCompleted(**own(), commit=commit, tree=tree)


def observed(verdict: Verdict = FAILED) -> GatePassed:
    return GatePassed(**own(), verdict=verdict, is_observed=True)


def rejected(
    verdict: Verdict = FAILED, agent: str = "Alice", handoff_id: str = H1, **more: Any
) -> GateRejected:
    return GateRejected(**own(agent, handoff_id), verdict=verdict, **more)


def holds(verdict: Verdict = HELD, until: str = LATER) -> GateHeld:
    return GateHeld(**own(), verdict=verdict, lease_expires_at=until, branch="roof", pr=7)


def errored() -> GateErrored:
    return GateErrored(**own(), verdict=ERRORED)


def accepted(finding: str = "f1") -> FindingAccepted:
    return FindingAccepted(task_id=T1, finding=finding, reviewer="Lead")


def refused(finding: str = "f1") -> FindingRefused:
    return FindingRefused(task_id=T1, finding=finding, reviewer="Lead")


def overridden(gate: str = "tests", tree: str = TREE) -> GateOverridden:
    return GateOverridden(task_id=T1, gate=gate, tree=tree, reason="It must go out.")


def conflicts(task: Task) -> list[str]:
    return [conflict.event for conflict in task.inbox.conflicts]


# What is handed in.


@pytest.mark.parametrize("work", [task_submitted(), completed()], ids=lambda event: event.name)
def test_work_that_no_verdict_released_is_a_conflict(work: Event) -> None:
    task = task_after(task_added(), task_claimed(), work)

    assert (task.status, task.submission, task.people.authors) == (Status.CLAIMED, None, ())
    assert conflicts(task) == [work.name]
    assert "released" in task.inbox.conflicts[0].why


@pytest.mark.parametrize("work", [task_submitted(), completed()], ids=lambda event: event.name)
def test_released_work_awaits_review(work: Event) -> None:
    task = task_after(task_added(), task_claimed(), gate_passed(), work)

    assert task.status == Status.PROVISIONAL
    assert task.inbox.conflicts == ()


@pytest.mark.parametrize(
    "work",
    [
        task_submitted(commit=OTHER_SHA, tree="other"),
        task_submitted(commit=OTHER_SHA),
        task_submitted(tree="other"),
        task_submitted(tree=""),
        task_submitted(commit=""),
        completed(commit=OTHER_SHA),
        completed(tree="other"),
        HandoffCompleted(**own()),
    ],
    ids=lambda event: f"{event.name} {event.commit[:4]} {event.tree[:5]}",
)
def test_a_release_is_for_the_commit_and_the_code_tree_it_names(work: Event) -> None:
    task = task_after(task_added(), task_claimed(), gate_passed(), work)

    assert task.status == Status.CLAIMED
    assert conflicts(task) == [work.name]


def test_a_release_without_a_code_tree_is_for_its_commit() -> None:
    through, work = gate_passed_and_submitted(tree="")

    assert task_after(task_added(), task_claimed(), through, work).status == Status.PROVISIONAL
    assert (
        task_after(task_added(), task_claimed(), through, replace(work, commit=OTHER_SHA)).status
        == Status.CLAIMED
    )


@pytest.mark.parametrize("verdict", [FAILED, HELD, ERRORED], ids=lambda verdict: verdict.status)
def test_a_pass_whose_verdict_is_none_releases_nothing(verdict: Verdict) -> None:
    task = task_after(task_added(), task_claimed(), GatePassed(**own(), verdict=verdict), task_submitted())

    assert task.status == Status.CLAIMED
    assert conflicts(task) == ["task.submit"]


@pytest.mark.parametrize("verdict", [FAILED, HELD, ERRORED], ids=lambda verdict: verdict.status)
def test_where_nothing_is_enforced_work_is_let_through_whatever_was_measured(verdict: Verdict) -> None:
    task = task_after(task_added(), task_claimed(), observed(verdict), task_submitted())

    assert task.status == Status.PROVISIONAL


@pytest.mark.parametrize("later", [rejected(), holds()], ids=lambda event: event.name)
def test_a_verdict_that_is_no_release_takes_an_earlier_one_away(later: Event) -> None:
    task = task_after(task_added(), task_claimed(), gate_passed(), later, task_submitted())

    assert task.status == Status.CLAIMED
    assert conflicts(task) == ["task.submit"]


def test_a_release_of_other_work_takes_an_earlier_one_away() -> None:
    other = gate_passed(commit=OTHER_SHA, tree="other")

    assert conflicts(task_after(task_added(), task_claimed(), gate_passed(), other, task_submitted())) == [
        "task.submit"
    ]


def test_an_approval_of_work_that_was_not_handed_in_is_a_conflict() -> None:
    task = task_after(task_added(), task_claimed(), task_submitted(), APPROVED)

    assert task.status == Status.CLAIMED
    assert conflicts(task) == ["task.submit", "review.approve"]


def test_a_release_outlives_its_claim() -> None:
    task = task_after(
        task_added(),
        task_claimed(),
        gate_passed(),
        RELEASED,
        task_claimed("Bob", H2),
        task_submitted("Bob", H2),
    )

    assert task.status == Status.PROVISIONAL


# Whose verdict.


@pytest.mark.parametrize(
    "event",
    [
        gate_passed("Bob", H2),
        gate_passed("Bob", H1),
        gate_passed("Alice", H2),
        rejected(agent="Bob", handoff_id=H2),
        replace(holds(), agent="Bob", handoff_id=H2),
        replace(errored(), agent="Bob", handoff_id=H2),
    ],
    ids=lambda event: f"{event.name} {event.agent} {event.handoff_id[-1]}",
)
def test_a_verdict_applies_to_its_own_claim_alone(event: Event) -> None:
    before = task_after(task_added(), task_claimed("Alice", H1))

    task = task_after(task_added(), task_claimed("Alice", H1), event)

    assert conflicts(task) == [event.name]
    assert update_task(task, conflicts=()) == before


@pytest.mark.parametrize(
    "event", [gate_passed(), rejected(), holds(), errored()], ids=lambda event: event.name
)
def test_a_verdict_on_a_task_nobody_holds_does_not_apply(event: Event) -> None:
    task = task_after(task_added(), task_claimed(), RELEASED, event)

    assert conflicts(task) == [event.name]
    assert task.gates == GateState()


@pytest.mark.parametrize(
    "event",
    [gate_passed(), rejected(), holds(), errored(), accepted(), refused(), overridden()],
    ids=lambda event: event.name,
)
def test_gate_events_without_a_place_in_a_chain_have_no_effect(event: Event) -> None:
    task = task_after(task_added(), task_claimed())

    assert evolve(task, replace(event, ts=NOW, meta=Meta(id="old", seq=-1))) == task


# What a verdict leaves.


def test_a_rejection_is_remembered_with_what_was_measured() -> None:
    task = task_after(task_added(), task_claimed(), rejected(number=1))

    assert (task.status, task.gates.rejection_count, task.reviews.rejection_count) == (Status.CLAIMED, 1, 0)
    assert task.gates == update_gates(
        GateState(),
        status=GateStatus.FAILED,
        handoff_id=H1,
        commit=SHA,
        tree=TREE,
        base="b",
        policy="p",
        tier="plain",
        blocking=("tests",),
        rejection_count=1,
        failing=3,
        excess=4.0,
        count=1,
    )


def test_rejections_are_counted_here_whatever_they_say() -> None:
    task = task_after(
        task_added(), task_claimed(), rejected(number=7, stalled=1), rejected(number=7, stalled=2)
    )

    assert (task.gates.progress.count, task.gates.rejection_count, task.gates.progress.stalled) == (2, 2, 2)


def test_an_alert_changes_nothing() -> None:
    alert = GateAlerted(task_id=T1, agent="Alice", number=3)

    assert task_after(task_added(), task_claimed(), alert) == task_after(task_added(), task_claimed())


def test_a_held_claim_keeps_its_work_and_its_findings() -> None:
    task = task_after(task_added(), task_claimed(), holds())

    assert task.status == Status.CLAIMED
    assert (task.gates.held, task.gates.branch, task.gates.pr) == (("f1", "f2"), "roof", 7)
    assert (task.gates.is_released, task.gates.rejection_count) == (False, 0)


@pytest.mark.parametrize("until", ["", "never", "9999-12-31T23:59:59.999999Z"])
def test_whatever_a_file_says_a_held_claim_ends_within_a_week(until: str) -> None:
    task = task_after(task_added(), task_claimed(), holds(until=until))

    assert task.claim is not None
    assert task.claim.lease_expires_at < add_seconds(NOW, 7 * 86400 + 1)


def test_what_could_not_be_measured_waits_for_another_session() -> None:
    waiting = TaskWaiting(**own(), waiting_for="paint")

    task = task_after(task_added(), task_claimed(), waiting, errored())

    assert (task.status, task.queue, task.claim) == (
        Status.NEEDS_CONTINUATION,
        Status.NEEDS_CONTINUATION,
        None,
    )
    assert (task.claims.waiting_for, task.gates.rejection_count, task.claims.exits) == (
        "",
        0,
        (("Alice", "task.wait"),),
    )


def test_another_claim_begins_the_counts_again_and_keeps_what_was_settled() -> None:
    settled = [accepted("f1"), overridden("lint")]
    before = [task_claimed(), holds(), rejected(stalled=1), *settled, RELEASED]

    task = task_after(task_added(), *before, task_claimed("Bob", H2))

    gates = task.gates
    assert (gates.progress.count, gates.progress.stalled, gates.progress.failing, gates.progress.excess) == (
        0,
        0,
        0,
        0,
    )
    assert (gates.decisions.accepted, gates.decisions.overridden) == (("f1",), (("lint", TREE),))
    assert (gates.status, gates.blocking) == (GateStatus.FAILED, ("tests",))
    assert gates.decisions.questioned == ("Alice",)
    assert task.gates.rejection_count == 1


def test_a_handoff_that_is_accepted_begins_the_counts_again_too() -> None:
    offered = HandoffInitiated(task_id=T1, handoff_id=H2, target_agent="Bob", lapses_at=LATER)
    taken = HandoffAccepted(task_id=T1, handoff_id=H2, agent="Bob", lease_expires_at=LATER)

    task = task_after(task_added(), task_claimed(), rejected(), RELEASED, offered, taken)

    assert task.gates.progress.count == 0


# What people said.


def test_an_acceptance_counts_once_and_a_refusal_takes_it_back() -> None:
    assert task_after(
        task_added(), accepted("f1"), accepted("f1"), accepted("f2")
    ).gates.decisions.accepted == (
        "f1",
        "f2",
    )
    assert task_after(
        task_added(), accepted("f1"), accepted("f2"), refused("f1")
    ).gates.decisions.accepted == ("f2",)


def test_a_refusal_counts_once_with_its_last_reason_and_an_acceptance_takes_it_back() -> None:
    again = replace(refused("f1"), reason="It hides a bug.")

    assert task_after(task_added(), refused("f1"), refused("f2"), again).gates.decisions.refused == (
        ("f2", ""),
        ("f1", "It hides a bug."),
    )
    assert task_after(task_added(), refused("f1"), refused("f2"), accepted("f1")).gates.decisions.refused == (
        ("f2", ""),
    )


def test_an_override_counts_once_for_each_gate_and_code_tree() -> None:
    task = task_after(task_added(), overridden(), overridden(), overridden(tree="other"), overridden("lint"))

    assert task.gates.decisions.overridden == (("tests", TREE), ("tests", "other"), ("lint", TREE))


def test_neither_an_acceptance_nor_an_override_releases_by_itself() -> None:
    words = [accepted("f1"), accepted("f2"), overridden(INTEGRITY_GATE), overridden("tests")]

    task = task_after(task_added(), task_claimed(), holds(), *words, task_submitted())

    assert task.status == Status.CLAIMED
    assert conflicts(task) == ["task.submit"]


def test_a_refusal_that_comes_between_a_release_and_the_work_stops_it() -> None:
    assert (
        task_after(task_added(), task_claimed(), gate_passed(), refused(), task_submitted()).status
        == Status.CLAIMED
    )


def test_a_refusal_stops_nothing_where_nothing_is_enforced() -> None:
    assert (
        task_after(task_added(), task_claimed(), observed(HELD), refused(), task_submitted()).status
        == Status.PROVISIONAL
    )


@pytest.mark.parametrize(
    ("verdict", "questioned"),
    [
        (HELD, ("Alice",)),
        (a_verdict(a_result(INTEGRITY_GATE, suspicions=("f1",))), ("Alice",)),
        (FAILED, ()),
        (a_verdict(), ()),
    ],
    ids=["held", "refused before", "failed", "ok"],
)
def test_whose_work_had_findings_is_remembered(verdict: Verdict, questioned: tuple[str, ...]) -> None:
    task = task_after(task_added(), task_claimed(), rejected(verdict), rejected(verdict))

    assert task.gates.decisions.questioned == questioned


# Ways out.


@pytest.mark.parametrize(
    "event",
    [
        RELEASED,
        TaskContinued(**own()),
        TaskWaiting(**own(), waiting_for="paint"),
    ],
    ids=lambda event: event.name,
)
def test_who_left_and_how_is_remembered_once(event: Event) -> None:
    again = replace(event, handoff_id=H2)

    once = task_after(task_added(), task_claimed(), event)
    twice = task_after(
        task_added(), task_claimed(), event, *([] if once.claim else [task_claimed("Alice", H2), again])
    )

    assert once.claims.exits == twice.claims.exits == (("Alice", event.name),)


@pytest.mark.parametrize(
    "event",
    [
        LeaseExpired(**own()),
        LeaseRenewed(**own(), lease_expires_at=LATER),
        TaskFailed(**own()),
        errored(),
    ],
    ids=lambda event: event.name,
)
def test_what_an_agent_did_not_choose_is_no_way_out_it_used(event: Event) -> None:
    assert task_after(task_added(), task_claimed(), event).claims.exits == ()


# Whatever comes.

COMMITS = [(SHA, TREE), (OTHER_SHA, "other"), (SHA, "other"), (OTHER_SHA, TREE)]
FORGED = [
    *(task_claimed(agent, handoff) for agent, handoff in (("Alice", H1), ("Bob", H2))),
    *(gate_passed("Alice", H1, commit=commit, tree=tree) for commit, tree in COMMITS[:2]),
    *(task_submitted("Alice", H1, commit=commit, tree=tree) for commit, tree in COMMITS),
    *(completed(commit, tree) for commit, tree in COMMITS),
    *(ReviewApproved(task_id=T1, reviewer="Eve", commit=commit, tree=tree) for commit, tree in COMMITS),
    GatePassed(**own(), verdict=FAILED),
    rejected(),
    holds(),
    errored(),
    accepted("f1"),
    accepted("f2"),
    overridden(INTEGRITY_GATE),
    RELEASED,
    ReviewRejected(task_id=T1, reviewer="Eve", commit=SHA, tree=TREE),
    EscalationOpened(task_id=T1),
    TaskReopened(task_id=T1),
]


@for_all(st.lists(st.sampled_from(FORGED), max_size=20))
def test_nothing_is_provisional_or_done_that_no_release_of_that_very_code_precedes(
    events: list[Event],
) -> None:
    released: set[tuple[str, str]] = set()
    task = replay(stamp_events(task_added()))
    for event in stamp_events(task_added(), task_claimed(), *events)[1:]:
        if isinstance(event, GatePassed) and event.verdict.status in PASSING:
            released.add((event.verdict.commit, event.verdict.tree))
        task = evolve(task, event)

    assert task is not None
    if task.status in (Status.PROVISIONAL, Status.DONE):
        assert task.submission is not None
        assert (task.submission.commit, task.submission.tree) in released
