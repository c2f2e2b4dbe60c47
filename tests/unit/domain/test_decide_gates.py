"""Holds what follows from a verdict on a done claim: counts, alerts, escalations, and what people may settle."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Actor
from remand.domain.decisions.gates import MergeFacts, has_progress, require_release
from remand.domain.events.reviews import EscalationOpened
from remand.domain.events.tasks import LeaseExpired
from remand.domain.events.work import GateAlerted, GateErrored, GatePassed, GateRejected
from remand.domain.gate.control_files import ControlChange
from remand.domain.gate.state import ANY_CAUSE, GateState, find_outages, update_gates
from remand.domain.gate.verdict import GateStatus, Verdict
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task, update_task
from remand.testing.builders import ALICE, BOB, H1, H2, LATER, SHA, T1, TREE, a_claim, a_task, task_claimed
from tests.support.builders import LEAD, OTHER_SHA, THE_USER, a_result, a_verdict, decide_events, refusal_code
from tests.unit.domain.done_claims import (
    SUBMIT,
    WORK,
    Story,
    failed,
    held,
    names,
    passed,
    recording,
    settling,
    unmeasured,
)

HELD_CLAIM = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1), attempt_count=1, epoch=1)
COMPLETE = c.CompleteHandoff(handoff_id=H1, agent="Alice", commit="HEAD", branch="roof", pr=7)
each_interface = pytest.mark.parametrize("ask", [SUBMIT, COMPLETE], ids=lambda ask: type(ask).__name__)


# What has to be there before work is handed in.


@each_interface
def test_nothing_is_handed_in_that_was_not_measured(ask: c.Command) -> None:
    assert refusal_code(HELD_CLAIM, ask, ALICE, **WORK) == "not_measured"


@each_interface
def test_where_it_is_not_decided_what_to_measure_nothing_is_handed_in(ask: c.Command) -> None:
    assert refusal_code(HELD_CLAIM, ask, ALICE, **{**WORK, "gates": None}) == "no_gates"


@each_interface
def test_where_there_are_no_gates_an_empty_verdict_says_so(ask: c.Command) -> None:
    verdict, work = decide_events(HELD_CLAIM, ask, ALICE, **{**WORK, "gates": ()})

    empty = Verdict(status=GateStatus.PASSED, commit=SHA, tree=TREE, policy="p1", tier="none")
    assert verdict == GatePassed(task_id=T1, handoff_id=H1, agent="Alice", verdict=empty)
    assert (work.commit, work.tree) == (SHA, TREE)


@each_interface
def test_tests_that_must_pass_need_a_gate(ask: c.Command) -> None:
    named = update_task(HELD_CLAIM, must_pass=("tests/test_x.py::test_y",))
    assert refusal_code(named, ask, ALICE, **{**WORK, "gates": ()}) == "no_gates"


@each_interface
def test_released_work_is_handed_in(ask: c.Command) -> None:
    story = Story()
    story.ask(recording(passed()))

    (event,) = story.ask(ask, ALICE, **WORK)

    assert (event.commit, event.tree, event.branch, event.pr) == (SHA, TREE, "roof", 7)
    assert story.task.status == Status.PROVISIONAL


@each_interface
@pytest.mark.parametrize(
    "facts",
    [
        {**WORK, "commit": OTHER_SHA, "tree": "other"},
        {**WORK, "tree": "other"},
        {**WORK, "tree": ""},
        {**WORK, "gates_digest": "p2"},
        {**WORK, "gates_digest": ""},
    ],
    ids=["another commit", "another tree", "no tree", "other rules", "no rules"],
)
def test_a_release_is_for_one_code_tree_by_the_rules_of_now(ask: c.Command, facts: dict[str, Any]) -> None:
    story = Story()
    story.ask(recording(passed()))

    assert refusal_code(story.task, ask, ALICE, **facts) == "not_measured"


@each_interface
def test_what_has_no_code_tree_is_not_released_by_what_has_none(ask: c.Command) -> None:
    story = Story()
    story.ask(recording(passed(tree="")))

    assert refusal_code(story.task, ask, ALICE, **{**WORK, "tree": ""}) == "not_measured"


@each_interface
def test_another_commit_with_the_released_code_is_released_in_its_own_name(ask: c.Command) -> None:
    story = Story()
    story.ask(recording(passed()))

    verdict, work = story.ask(ask, ALICE, **{**WORK, "commit": OTHER_SHA})

    assert isinstance(verdict, GatePassed)
    assert (verdict.verdict.commit, verdict.verdict.tree) == (OTHER_SHA, TREE)
    assert (verdict.verdict.status, verdict.verdict.policy) == (GateStatus.PASSED, "p1")
    assert [gate.name for gate in verdict.verdict.gates] == ["tests", "lint"]
    assert (work.commit, work.tree) == (OTHER_SHA, TREE)
    assert story.task.status == Status.PROVISIONAL


@pytest.mark.parametrize(
    "verdict", [failed(), held(), unmeasured(), a_verdict(a_result("x", GateStatus.STALE))], ids=str
)
def test_a_later_verdict_that_is_no_release_takes_an_earlier_one_away(verdict: Verdict) -> None:
    story = Story()
    story.ask(recording(passed()))
    story.ask(recording(verdict))
    claim = story.task.claim or a_claim()
    task = a_task(status=Status.CLAIMED, claim=claim, gates=story.task.gates)

    assert refusal_code(task, SUBMIT, ALICE, **WORK) == "not_measured"


def test_a_release_outlives_the_claim_it_was_given_under() -> None:
    story = Story()
    story.ask(recording(passed()))
    story.events += [LeaseExpired(task_id=T1, handoff_id=H1, agent="Alice"), task_claimed("Bob", H2)]
    ask = c.SubmitTask(task_id=T1, agent="Bob", commit="HEAD")

    assert names(story.ask(ask, BOB, **WORK)) == ["task.submit"]


# Whose verdict.


def test_a_verdict_is_on_the_claim_it_was_measured_for() -> None:
    verdict = passed()

    for ask, code in (
        (recording(verdict, "Bob"), "not_yours"),
        (recording(verdict, "Alice", H2), "lease_lost"),
    ):
        assert refusal_code(HELD_CLAIM, ask, THE_COORDINATOR) == code
    assert refusal_code(HELD_CLAIM, recording(verdict), THE_COORDINATOR, at=LATER) == "lease_lost"
    assert refusal_code(a_task(), recording(verdict), THE_COORDINATOR) == "not_yours"


@pytest.mark.parametrize("who", [ALICE, LEAD, THE_USER], ids=lambda who: who.name)
def test_nobody_but_the_coordinator_records_a_verdict(who: Actor) -> None:
    assert refusal_code(HELD_CLAIM, recording(passed()), who) == "not_authorised"


@pytest.mark.parametrize("status", [GateStatus.PASSED, GateStatus.OVERRIDDEN])
def test_a_release_is_recorded_and_the_claim_goes_on(status: GateStatus) -> None:
    verdict = a_verdict(a_result("tests", status))

    assert decide_events(HELD_CLAIM, recording(verdict), THE_COORDINATOR) == (
        GatePassed(task_id=T1, handoff_id=H1, agent="Alice", verdict=verdict),
    )


# Counting, alert and escalation.


def test_a_rejection_is_counted_and_the_claim_goes_on() -> None:
    story = Story()

    (event,) = story.ask(recording(failed(failing=3, excess=5.0)))

    assert isinstance(event, GateRejected)
    assert (event.number, event.has_progress, event.stalled, event.because) == (1, True, 0, "")
    assert (event.agent, event.handoff_id) == ("Alice", H1)
    assert story.task.status == Status.CLAIMED
    assert story.task.gates.rejection_count == 1
    assert story.task.reviews.rejection_count == 0


def test_the_third_rejection_of_a_claim_alerts_and_no_other() -> None:
    story = Story()

    outcomes = story.rejected(7, 6, 5, 4, 3)

    assert outcomes == [
        ["gate.reject"],
        ["gate.reject"],
        ["gate.reject", "gate.alert"],
        ["gate.reject"],
        ["gate.reject"],
    ]
    (alert,) = [event for event in story.events if isinstance(event, GateAlerted)]
    assert (alert.agent, alert.number) == ("Alice", 3)


def test_the_eighth_rejection_escalates_however_much_progress_there_is() -> None:
    story = Story()

    *before, last = story.rejected(*range(80, 72, -1))

    assert all("escalation.open" not in outcome for outcome in before)
    assert last == ["gate.reject", "escalation.open"]
    assert "8 times" in story.events[-1].reason
    assert "tests" in story.events[-1].reason


def test_two_in_a_row_without_progress_after_the_alert_escalate() -> None:
    story = Story()

    outcomes = story.rejected(5, 5, 5, 5, 5)

    assert [outcome[-1] for outcome in outcomes] == [
        "gate.reject",
        "gate.reject",
        "gate.alert",
        "gate.reject",
        "escalation.open",
    ]
    assert "without progress" in story.events[-1].reason


def test_what_stalled_before_the_alert_does_not_count() -> None:
    story = Story()
    story.rejected(5, 5, 5)

    assert story.rejected(5) == [["gate.reject"]]
    assert story.task.gates.progress.stalled == 1
    rejections = [event for event in story.events if isinstance(event, GateRejected)]
    assert [event.has_progress for event in rejections] == [True, False, False, False]


def test_a_rejection_leaves_an_ordinary_lease_as_it_is() -> None:
    story = Story()
    story.rejected(5, lease_seconds=60)

    assert story.task.claim is not None
    assert story.task.claim.lease_expires_at == LATER


def test_progress_begins_the_count_of_stalls_again() -> None:
    story = Story()

    outcomes = story.rejected(9, 9, 9, 9, 8, 8, 7)

    assert all("escalation.open" not in outcome for outcome in outcomes)
    assert story.rejected(7) == [["gate.reject", "escalation.open"]]


@pytest.mark.parametrize(
    ("failing", "excess", "expected"),
    [(4, 10, True), (5, 9.5, True), (4, 99, True), (99, 9, True), (5, 10, False), (6, 11, False)],
)
def test_progress_is_fewer_failing_tests_or_a_smaller_sum(
    failing: int, excess: float, expected: bool
) -> None:
    task = a_task(gates=update_gates(GateState(), count=1, failing=5, excess=10))

    assert has_progress(task, failed(failing, excess)) == expected


def test_the_first_rejection_of_a_claim_is_no_stall() -> None:
    assert has_progress(a_task(), failed(9, 9))


def test_the_policy_says_when_to_alert_and_to_escalate() -> None:
    story = Story()

    outcomes = story.rejected(5, 4, 3, alert_after_gates=1, escalate_after_gates=3)

    assert outcomes == [
        ["gate.reject", "gate.alert"],
        ["gate.reject"],
        ["gate.reject", "escalation.open"],
    ]


def test_after_an_escalation_the_claim_has_ended_without_a_lockout() -> None:
    story = Story()
    story.rejected(5, 5, 5, 5, 5)

    assert story.task.status == Status.ESCALATED
    assert story.task.claim is None
    assert story.task.people.lockouts == ()
    assert story.task.people.authors == ()

    story.ask(c.ReopenTask(task_id=T1), THE_USER)
    story.ask(c.ClaimTask(task_id=T1, agent="Alice"), ALICE, handoff_id=H2)

    assert story.task.claim is not None


def test_another_claim_is_counted_anew_and_the_tasks_history_goes_on() -> None:
    story = Story()
    story.rejected(5, 5)
    story.ask(c.ReleaseTask(task_id=T1, agent="Alice"), ALICE)
    story.ask(c.ClaimTask(task_id=T1, agent="Bob"), BOB, handoff_id=H2)

    assert story.rejected(9, 9) == [["gate.reject"], ["gate.reject"]]
    numbers = [event.number for event in story.events if isinstance(event, GateRejected)]
    assert numbers == [1, 2, 1, 2]
    assert story.task.gates.rejection_count == 4


# What could not be measured.


@pytest.mark.parametrize("status", [GateStatus.ERRORED, GateStatus.TIMED_OUT, GateStatus.STALE])
def test_what_could_not_be_measured_goes_to_another_session_and_counts_against_nobody(
    status: GateStatus,
) -> None:
    story = Story()
    story.rejected(5)

    (event,) = story.ask(recording(unmeasured(status)))

    assert isinstance(event, GateErrored)
    assert story.task.status == Status.NEEDS_CONTINUATION
    assert story.task.claim is None
    assert (story.task.gates.rejection_count, story.task.people.lockouts) == (1, ())


def test_a_failure_beside_what_could_not_be_measured_is_a_rejection() -> None:
    broken = a_result("lint", GateStatus.ERRORED)

    assert names(Story().ask(recording(failed(0, 1.0, broken)))) == ["gate.reject"]


# Where nothing is enforced.


@pytest.mark.parametrize("verdict", [failed(), held(), unmeasured()], ids=lambda verdict: verdict.status)
def test_where_nothing_is_enforced_everything_is_recorded_and_nothing_stopped(verdict: Verdict) -> None:
    story = Story()

    (event,) = story.ask(recording(verdict), is_enforced=False)

    assert isinstance(event, GatePassed)
    assert (event.is_observed, event.verdict) == (True, verdict)
    assert names(story.ask(SUBMIT, ALICE, **WORK)) == ["task.submit"]
    assert story.task.gates.rejection_count == 0


def test_a_pass_is_no_mere_observation() -> None:
    (event,) = decide_events(HELD_CLAIM, recording(passed()), THE_COORDINATOR, is_enforced=False)

    assert isinstance(event, GatePassed)
    assert not event.is_observed


def test_what_was_observed_of_a_code_tree_holds_for_another_commit_with_it() -> None:
    story = Story()
    story.ask(recording(failed()), is_enforced=False)

    verdict, work = story.ask(SUBMIT, ALICE, **{**WORK, "commit": OTHER_SHA})

    assert isinstance(verdict, GatePassed)
    assert (verdict.is_observed, verdict.verdict.status) == (True, GateStatus.FAILED)
    assert verdict.verdict.blocking_gates == ("tests",)
    assert work.commit == OTHER_SHA


def test_a_refused_finding_stops_nothing_where_nothing_is_enforced() -> None:
    story = Story()
    story.ask(recording(held("f1")), is_enforced=False)

    assert names(story.ask(settling(is_accepted=False), LEAD, is_enforced=False)) == ["gate.refuse"]
    assert names(story.ask(SUBMIT, ALICE, **WORK)) == ["task.submit"]


def test_a_rejection_that_shows_a_gate_to_be_broken_asks_the_user_about_that_gate() -> None:
    verdict = failed(1, 1.0, a_result("lint", GateStatus.TIMED_OUT))
    known = replace(find_outages(verdict)[0], commit=OTHER_SHA)

    events = Story().ask(recording(verdict), outages=(known,) * ANY_CAUSE, escalate_after_gates=9)

    assert names(events) == ["gate.reject", "escalation.open"]
    asked = events[-1]
    assert isinstance(asked, EscalationOpened)
    assert asked.gates == ("lint",)


# What may be merged.

MERGE = MergeFacts(commit=SHA, tree=TREE, base="origin/main", gates_digest="p1")


def released(**fields: Any) -> Task:
    gates = GateState(status=GateStatus.PASSED, commit=SHA, tree=TREE, policy="p1", is_released=True)
    return a_task(gates=update_gates(gates, **fields))


def merge_refusal(*tasks: Task, facts: MergeFacts = MERGE) -> Refused:
    with pytest.raises(Refused) as refused:
        require_release(tasks, facts)
    return refused.value


def test_code_whose_gates_passed_may_be_merged_whatever_other_tasks_have_it() -> None:
    unreleased = released(status=GateStatus.FAILED, is_released=False)

    assert require_release([unreleased, released()], MERGE) == released()


def test_code_without_a_verdict_that_counts_may_not_be_merged_and_the_reason_is_told() -> None:
    assert merge_refusal().code == "not_measured"
    doubted = merge_refusal(facts=replace(MERGE, doubts=("no key has signed it",)))
    assert "in the log, but no key has signed it" in doubted.message


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (GateStatus.FAILED, "gate_rejected"),
        (GateStatus.HELD, "gate_held"),
        (GateStatus.ERRORED, "gate_errored"),
        (GateStatus.PASSED, "gate_rejected"),
    ],
)
def test_code_that_its_gates_did_not_release_may_not_be_merged(status: GateStatus, code: str) -> None:
    """Also a verdict that passed by a finding's acceptance, which a reviewer has taken back since."""
    assert merge_refusal(released(status=status, is_released=False)).code == code


def test_code_that_was_measured_by_other_rules_than_the_bases_may_not_be_merged() -> None:
    assert merge_refusal(released(policy="p0")).code == "not_measured"


def test_code_beside_changes_of_the_ledgers_own_files_may_not_be_merged_until_they_are_accepted() -> None:
    change = ControlChange(
        commit=OTHER_SHA, paths=(".got/x",), name="got-1", text="the branch changes .got/x"
    )
    facts = replace(MERGE, commit=OTHER_SHA, control=change)

    assert merge_refusal(released(), facts=facts).code == "control_changed"
    assert require_release([released(accepted=("got-1",))], facts) == released(accepted=("got-1",))
