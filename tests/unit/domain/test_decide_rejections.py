"""Holds how an agent's rejection is judged and what follows: by the reason when it is earned, bounded when it is not."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationOpened, LockoutSet
from remand.domain.events.tasks import (
    EdgeCreated,
    HandoffInitiated,
    HandoffRejected,
    HandoffRejectionInvalid,
    RejectionAnswered,
    TaskAdded,
    TaskBlocked,
    TaskCancelled,
    TaskDecomposed,
    TaskDeferred,
    TaskInfeasible,
)
from remand.domain.folds.tasks import apply_rejection_filed
from remand.domain.ids import task_node_id
from remand.domain.reasons import RejectionReason
from remand.domain.task import Offer, RejectionSlip, Status, Task, update_task
from remand.domain.validation.assessment import EvidenceGrade, NamedTask, ValidationFacts
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    H2,
    LATER,
    T1,
    T2,
    T3,
    a_claim,
    a_lockout,
    a_task,
    an_offer,
    task_id,
)
from tests.support.builders import LEAD, R1, THE_USER, a_filed_rejection, decide_events, refusal_code
from tests.support.rejection_records import LAZY, SCOPE, TITLE, a_rejection

N1, N2, N3 = task_id(91), task_id(92), task_id(93)
HELD = a_task(title=TITLE, scope=SCOPE, status=Status.CLAIMED, claim=a_claim("Alice", H1))
OFFERED = a_task(title=TITLE, scope=SCOPE, offers=(an_offer("Alice", H1),))
DEPENDENCY = NamedTask(name=T2, task_id=T2, status="incoming", is_open=True)
FACTS: dict[str, Any] = {
    "rejection_id": R1,
    "task_ids": (N1, N2, N3),
    "handoff_id": H2,
    "validation": ValidationFacts(named=(DEPENDENCY,)),
    "auto_reformulate": True,
}


def filing(record: dict[str, Any], handoff: str = H1, agent: str = "Alice") -> c.RejectHandoff:
    return c.RejectHandoff(handoff_id=handoff, agent=agent, rejection=record)


def follows(record: dict[str, Any], task: Task = HELD, **facts: Any) -> tuple[Event, ...]:
    """The events that follow from a rejection by Alice."""
    return decide_events(task, filing(record), ALICE, **{**FACTS, **facts})


def names(events: tuple[Event, ...]) -> list[str]:
    return [event.name for event in events]


def the(kind: type[Event], events: tuple[Event, ...]) -> Any:
    """The one event of that kind."""
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


def edges(events: tuple[Event, ...]) -> list[tuple[str, str, str]]:
    return [
        (event.src.removeprefix("task:"), event.type, event.tgt.removeprefix("task:"))
        for event in events
        if isinstance(event, EdgeCreated)
    ]


# An earned rejection.


@pytest.mark.parametrize("task", [HELD, OFFERED], ids=["held", "offered"])
@pytest.mark.parametrize(
    ("reason", "events", "decision"),
    [
        ("BLOCKER", ["node.create", "edge.create", "task.defer"], "ACCEPT_AND_DEFER"),
        ("MISSING_DEPENDENCY", ["edge.create", "task.defer"], "ACCEPT_AND_DEFER"),
        ("INFEASIBLE", ["node.create", "edge.create", "task.infeasible"], "ACCEPT_AND_REFORMULATE"),
        ("UNCLEAR_REQUIREMENTS", ["node.create", "edge.create", "task.defer"], "ACCEPT_AND_DEFER"),
        ("OBSOLETE", ["task.cancel"], "ACCEPT"),
    ],
)
def test_each_reason_leads_to_its_decision_and_events(
    task: Task, reason: str, events: list[str], decision: str
) -> None:
    found = follows(a_rejection(reason), task)

    assert names(found) == ["handoff.reject", "handoff.reject.response", *events]
    assert the(RejectionAnswered, found).decision.decision_type == decision
    assert the(RejectionAnswered, found).director == "auto"


def test_scope_creep_leads_to_sub_tasks_and_their_links() -> None:
    found = follows(a_rejection("SCOPE_CREEP"))

    assert the(RejectionAnswered, found).decision.decision_type == "ACCEPT_AND_DECOMPOSE"
    assert [event.id for event in found if isinstance(event, TaskAdded)] == [
        task_node_id(n) for n in (N1, N2, N3)
    ]
    assert the(TaskDecomposed, found).children == (N1, N2, N3)
    assert edges(found) == [
        (N2, "DEPENDS_ON", N1),
        (N3, "DEPENDS_ON", N2),
        (N1, "REFINES", T1),
        (N2, "REFINES", T1),
        (N3, "REFINES", T1),
    ]


def test_what_is_filed_is_the_record_with_the_ledgers_own_ids_and_time() -> None:
    given_ids = {"task_id": f"task:{T1}", "handoff_id": f"handoff:{H1}", "agent_id": "Alice"}
    record = {**a_rejection(), **given_ids, "rejected_at": "1999-01-01T00:00:00"}

    filed = the(HandoffRejected, follows(record))

    assert (filed.task_id, filed.handoff_id, filed.agent, filed.rejection_id) == (T1, H1, "Alice", R1)
    told = filed.rejection
    assert (told["task_id"], told["handoff_id"], told["agent_id"]) == (T1, H1, "Alice")
    assert told["rejected_at"].startswith("2026-11-15T09:00:00")
    assert told["what_attempted"] == record["what_attempted"]
    assert filed.score > 0


def test_a_blocker_blocks_the_task_and_not_the_other_way_round() -> None:
    assert edges(follows(a_rejection("BLOCKER"))) == [(N1, "BLOCKS", T1)]
    assert edges(follows(a_rejection("UNCLEAR_REQUIREMENTS"))) == [(N1, "BLOCKS", T1)]


def test_a_task_depends_on_its_missing_dependency() -> None:
    found = follows(a_rejection("MISSING_DEPENDENCY"))

    assert edges(found) == [(T1, "DEPENDS_ON", T2)]
    assert the(TaskDeferred, found).waits_for == (T2,)
    assert the(RejectionAnswered, found).decision.created_tasks == ()


def test_a_dependency_that_is_linked_already_is_not_linked_again() -> None:
    found = follows(a_rejection("MISSING_DEPENDENCY"), update_task(HELD, depends_on=(T2,)))

    assert edges(found) == []
    assert the(TaskDeferred, found).waits_for == (T2,)


@pytest.mark.parametrize("reason", ["BLOCKER", "UNCLEAR_REQUIREMENTS", "INFEASIBLE"])
def test_a_task_that_was_created_is_reported_as_created(reason: str) -> None:
    found = follows(a_rejection(reason))

    assert the(RejectionAnswered, found).decision.created_tasks == (N1,)
    assert the(TaskAdded, found).id == task_node_id(N1)


def test_a_dependency_that_had_to_be_created_is_reported_as_created() -> None:
    factor = "NET-2207 of the network team is open: GET /report.pdf answers 501"

    found = follows(a_rejection("MISSING_DEPENDENCY", blocking_factor=factor))

    assert the(RejectionAnswered, found).decision.created_tasks == (N1,)
    assert edges(found) == [(T1, "DEPENDS_ON", N1)]
    assert the(TaskDeferred, found).waits_for == (N1,)


@pytest.mark.parametrize("reason", ["BLOCKER", "MISSING_DEPENDENCY", "UNCLEAR_REQUIREMENTS"])
def test_a_deferral_names_the_deferred_task(reason: str) -> None:
    assert the(RejectionAnswered, follows(a_rejection(reason))).decision.deferred_task == T1


@pytest.mark.parametrize("reason", ["SCOPE_CREEP", "INFEASIBLE", "OBSOLETE"])
def test_what_is_no_deferral_defers_nothing(reason: str) -> None:
    assert the(RejectionAnswered, follows(a_rejection(reason))).decision.deferred_task == ""


def test_the_infeasible_names_the_task_that_replaces_it() -> None:
    found = follows(a_rejection("INFEASIBLE"))

    assert the(TaskInfeasible, found).reformulated_as == N1
    assert edges(found) == [(N1, "REFINES", T1)]
    assert the(TaskAdded, found).data.parent == T1


def test_the_obsolete_is_cancelled_in_favour_of_what_superseded_it() -> None:
    assert the(TaskCancelled, follows(a_rejection("OBSOLETE"))).superseded_by == T2


def test_the_obsolete_is_cancelled_also_when_a_place_in_the_code_shows_it() -> None:
    record = a_rejection("OBSOLETE")
    without_ids = {
        name: value.replace(T2, "The weekly job") if isinstance(value, str) else value
        for name, value in record.items()
    }

    found = follows(without_ids)

    assert names(found)[-1] == "task.cancel"


@pytest.mark.parametrize("reason", ["SCOPE_CREEP", "INFEASIBLE"])
def test_who_is_locked_out_of_a_task_is_locked_out_of_what_is_cut_from_it(reason: str) -> None:
    found = follows(a_rejection(reason), update_task(HELD, lockouts=(a_lockout("Bob"),), skills=("paint",)))

    created = [event.id.removeprefix("task:") for event in found if isinstance(event, TaskAdded)]
    locked = [(event.task_id, event.agent) for event in found if isinstance(event, LockoutSet)]
    assert created
    assert locked == [(name, "Bob") for name in created]
    assert all(event.data.skills == ("paint",) for event in found if isinstance(event, TaskAdded))


@pytest.mark.parametrize("reason", ["BLOCKER", "UNCLEAR_REQUIREMENTS"])
def test_what_clears_the_way_is_open_to_all(reason: str) -> None:
    found = follows(a_rejection(reason), update_task(HELD, lockouts=(a_lockout("Bob"),), skills=("paint",)))

    assert not any(isinstance(event, LockoutSet) for event in found)
    assert the(TaskAdded, found).data.skills == ()
    assert the(TaskAdded, found).data.parent == ""


def test_grades_of_evidence_are_kept_with_the_rejection() -> None:
    graded = (EvidenceGrade(index=0, grade="reproduced", detail="as stated"),)

    found = follows(a_rejection(), validation=ValidationFacts(graded=graded))

    assert the(HandoffRejected, found).graded == graded


@pytest.mark.parametrize("reason", RejectionReason)
def test_under_another_director_an_earned_rejection_waits_for_the_answer(reason: RejectionReason) -> None:
    found = follows(a_rejection(reason), human_reason="later")

    assert names(found) == ["handoff.reject", "task.block"]


# One that is not earned.


def test_a_lazy_rejection_is_overridden_with_its_issues_and_changes_nothing_else() -> None:
    found = follows(LAZY)

    assert names(found) == ["handoff.reject.invalid", "handoff.reject.response"]
    invalid, answer = the(HandoffRejectionInvalid, found), the(RejectionAnswered, found)
    assert {"effort_vague", "blocking_factor_vague", "alternative_generic", "evidence_missing"} <= {
        issue.code for issue in invalid.issues
    }
    assert invalid.validation_issues == tuple(issue.message for issue in invalid.issues)
    assert (answer.decision.decision_type, answer.director) == ("OVERRIDE", "auto")
    assert answer.decision.reassign_to == "Alice"
    assert all(message in answer.decision.override_message for message in invalid.validation_issues)
    assert answer.rejection_id == invalid.rejection_id == R1


@pytest.mark.parametrize("human_reason", ["", "later"])
def test_a_lazy_rejection_bothers_no_director(human_reason: str) -> None:
    assert "task.block" not in names(follows(LAZY, human_reason=human_reason))


def test_an_overridden_blocker_creates_no_task_and_no_link() -> None:
    second = update_task(HELD, invalid_by=("Alice",))

    for task in (HELD, second):
        kinds = {type(event) for event in follows(LAZY, task)}
        assert not kinds & {TaskAdded, EdgeCreated, TaskDeferred, TaskBlocked}


@pytest.mark.parametrize("reason", RejectionReason)
def test_disproved_evidence_makes_a_rejection_invalid(reason: RejectionReason) -> None:
    disproved = ValidationFacts(
        named=(DEPENDENCY,), graded=(EvidenceGrade(index=1, grade="disproved", detail="it exists"),)
    )

    invalid = the(HandoffRejectionInvalid, follows(a_rejection(reason), validation=disproved))

    assert [issue.code for issue in invalid.issues] == ["evidence_disproved"]
    assert "2" in invalid.issues[0].message
    assert "it exists" in invalid.issues[0].message


@pytest.mark.parametrize(
    ("known", "code"),
    [
        ({"task_id": ""}, "dependency_unknown"),
        ({"is_self": True}, "dependency_is_itself"),
        ({"is_descendant": True}, "dependency_circular"),
        ({"is_open": False, "status": "done"}, "dependency_done"),
    ],
)
def test_a_dependency_that_is_none_makes_a_rejection_invalid(known: dict[str, Any], code: str) -> None:
    named = NamedTask(**{"name": T2, "task_id": T2, "is_open": True, **known})

    invalid = the(
        HandoffRejectionInvalid,
        follows(a_rejection("MISSING_DEPENDENCY"), validation=ValidationFacts(named=(named,))),
    )

    assert code in [issue.code for issue in invalid.issues]


def test_a_reason_nobody_knows_is_overridden() -> None:
    invalid = the(HandoffRejectionInvalid, follows(a_rejection(reason_type="TOO_HARD")))

    assert "reason_unknown" in [issue.code for issue in invalid.issues]
    assert invalid.rejection["reason_type"] == "TOO_HARD"


def test_evidence_is_stale_by_the_time_of_the_ledger_when_the_record_gives_none() -> None:
    old = {
        "type": "error_log",
        "data": "2026-01-02T10:00:00 535 5.7.8 credentials expired",
        "source": "mail.log",
    }

    invalid = the(HandoffRejectionInvalid, follows(a_rejection(evidence=[old])))

    assert [issue.code for issue in invalid.issues] == ["evidence_stale"]


# How often.


SECOND = update_task(HELD, invalid_by=("Alice",))


def test_the_second_invalid_rejection_ends_the_handoff_and_frees_the_task() -> None:
    found = follows(LAZY, SECOND)

    assert names(found) == ["handoff.reject.invalid", "handoff.reject.response", "lockout.set"]
    assert the(LockoutSet, found).agent == "Alice"
    assert the(RejectionAnswered, found).decision.reassign_to == ""
    assert "another agent or to a human" in the(RejectionAnswered, found).decision.override_message


def test_then_the_next_eligible_agent_is_offered_the_task() -> None:
    found = follows(LAZY, SECOND, has_team=True, next_agent="Bob", lease_seconds=1800)

    assert names(found)[-2:] == ["lockout.set", "handoff.initiate"]
    offer = the(HandoffInitiated, found)
    assert (offer.handoff_id, offer.target_agent, offer.lapses_at) == (H2, "Bob", LATER)
    assert the(RejectionAnswered, found).decision.reassign_to == "Bob"


def test_then_a_human_is_asked_when_the_team_has_no_other() -> None:
    found = follows(LAZY, SECOND, has_team=True)

    assert names(found)[-2:] == ["lockout.set", "escalation.open"]
    assert "Alice" in the(EscalationOpened, found).reason


def test_invalid_rejections_are_counted_by_agent() -> None:
    of_others = update_task(HELD, invalid_by=("Bob", "Carol", "Bob"))

    assert "lockout.set" not in names(follows(LAZY, of_others))


def test_a_valid_rejection_does_not_count() -> None:
    assert names(follows(a_rejection(), SECOND))[0] == "handoff.reject"
    assert "lockout.set" not in names(follows(a_rejection(), SECOND))


@pytest.mark.parametrize(("limit", "before", "is_last"), [(1, 0, True), (3, 1, False), (3, 2, True)])
def test_the_policy_says_how_often(limit: int, before: int, is_last: bool) -> None:
    found = follows(LAZY, update_task(HELD, invalid_by=("Alice",) * before), max_invalid_rejections=limit)

    assert ("lockout.set" in names(found)) is is_last
    reasons = [event.reason for event in found if isinstance(event, LockoutSet)]
    often = {0: "once", 2: "3 times"}.get(before)
    assert reasons == ([f"it rejected this task {often} without justification"] if is_last else [])


def test_giving_up_counts_as_an_invalid_rejection() -> None:
    fail = c.FailTask(task_id=T1, agent="Alice", reason="No idea")

    assert names(decide_events(HELD, fail, ALICE)) == ["task.fail"]
    assert names(decide_events(SECOND, fail, ALICE)) == ["task.fail", "lockout.set"]


# Whose handoff.


def test_a_handoff_nobody_knows_is_not_rejected() -> None:
    assert refusal_code(None, filing(a_rejection()), ALICE, **FACTS) == "unknown_handoff"


@pytest.mark.parametrize("task", [HELD, OFFERED], ids=["held", "offered"])
def test_only_its_own_agent_rejects_a_handoff(task: Task) -> None:
    assert refusal_code(task, filing(a_rejection(), agent="Bob"), BOB, **FACTS) == "not_yours"
    assert refusal_code(task, filing(a_rejection(), agent="Alice"), BOB, **FACTS) == "not_yours"
    assert refusal_code(task, filing(a_rejection(), agent="Alice"), THE_USER, **FACTS) == "not_yours"
    assert refusal_code(task, filing(a_rejection(), agent="Lead"), LEAD, **FACTS) == "not_yours"


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(replace(HELD, status=Status.INCOMING, claim=None), id="in the queue"),
        pytest.param(replace(HELD, status=Status.PROVISIONAL, claim=None), id="handed in"),
        pytest.param(replace(HELD, status=Status.DONE, claim=None), id="done"),
        pytest.param(replace(HELD, status=Status.BLOCKED, claim=None), id="rejected already"),
        pytest.param(replace(HELD, claim=a_claim("Alice", H2)), id="held under another handoff"),
        pytest.param(replace(HELD, claim=a_claim("Bob", H2)), id="held by another"),
    ],
)
def test_a_handoff_that_is_over_is_not_rejected(task: Task) -> None:
    assert refusal_code(task, filing(a_rejection()), ALICE, **FACTS) == "handoff_closed"


def test_a_lease_or_offer_that_ran_out_is_not_rejected() -> None:
    assert refusal_code(HELD, filing(a_rejection()), ALICE, at=LATER, **FACTS) == "lease_lost"
    assert refusal_code(OFFERED, filing(a_rejection()), ALICE, at=LATER, **FACTS) == "handoff_closed"


def test_an_offer_is_not_rejected_while_another_holds_the_task() -> None:
    offer = Offer(handoff_id=H1, source="Lead", target="Alice", lapses_at=LATER)
    merged = update_task(HELD, claim=a_claim("Bob", H2), offers=(offer,))

    assert refusal_code(merged, filing(a_rejection()), ALICE, **FACTS) == "handoff_closed"


@pytest.mark.parametrize(
    "other",
    [{"task_id": T3}, {"handoff_id": H2}, {"agent_id": "Bob"}, {"task_id": 7}, {"agent_id": ["Alice"]}],
)
def test_the_ids_in_record_and_call_must_agree(other: dict[str, Any]) -> None:
    assert refusal_code(HELD, filing({**a_rejection(), **other}), ALICE, **FACTS) == "bad_value"


def test_a_record_that_is_nested_without_end_is_refused() -> None:
    deep: Any = "end"
    for _ in range(30):
        deep = [deep]

    assert refusal_code(HELD, filing(a_rejection(evidence=deep)), ALICE, **FACTS) == "bad_value"


def test_the_context_of_the_record_does_not_count_only_the_tasks() -> None:
    """A record is judged once, against the task as it is written down, whatever it says of itself."""
    record = {
        **a_rejection("SCOPE_CREEP", task_original_scope="Rewrite the kernel in a fortnight"),
        "scope": SCOPE,
    }

    invalid = the(HandoffRejectionInvalid, follows(record))

    assert "scope_misquoted" in [issue.code for issue in invalid.issues]


# An adviser.


def test_an_opinion_is_noted_beside_the_rejection_it_is_about() -> None:
    task = update_task(HELD, last_rejection=a_filed_rejection())
    ask = c.GiveOpinion(handoff_id=H1, opinion="x" * 10_000)

    (event,) = decide_events(task, ask, THE_COORDINATOR)

    assert (event.rejection_id, len(event.opinion)) == (R1, 4000)
    assert (
        refusal_code(task, c.GiveOpinion(handoff_id=H2, opinion="?"), THE_COORDINATOR) == "nothing_to_answer"
    )
    assert refusal_code(task, ask, ALICE) == "not_authorised"
    assert refusal_code(task, ask, THE_USER) == "not_authorised"


# A task that is called infeasible.


def test_the_infeasible_waits_for_a_director_although_the_director_is_automatic() -> None:
    found = follows(a_rejection("INFEASIBLE"), auto_reformulate=False)

    assert names(found) == ["handoff.reject", "task.block"]
    assert "INFEASIBLE ends the task" in the(TaskBlocked, found).reason


@pytest.mark.parametrize("reason", ["BLOCKER", "SCOPE_CREEP", "MISSING_DEPENDENCY", "OBSOLETE"])
def test_only_the_infeasible_waits_so(reason: str) -> None:
    found = follows(a_rejection(reason), auto_reformulate=False)

    assert "task.block" not in names(found)


# Formal slips.

UNQUOTED = {"task_original_scope": "Write a poem about the sea. 4 hours."}
NO_FACTOR = {"scope_growth_factor": None}


def after(task: Task, events: tuple[Event, ...]) -> Task:
    """The task with what follows from an invalid rejection."""
    return apply_rejection_filed(task, the(HandoffRejectionInvalid, events))


def test_a_formal_slip_asks_for_the_missing_part_and_does_not_count() -> None:
    found = follows(a_rejection("SCOPE_CREEP", **UNQUOTED))

    invalid, answer = the(HandoffRejectionInvalid, found), the(RejectionAnswered, found)
    assert names(found) == ["handoff.reject.invalid", "handoff.reject.response"]
    assert [issue.code for issue in invalid.issues] == ["scope_misquoted"]
    assert invalid.is_formal
    assert answer.decision.decision_type == "OVERRIDE"
    assert "does not count" in answer.decision.override_message
    assert "quote the task's own scope" in answer.decision.override_message


def test_two_different_formal_slips_lock_nobody_out() -> None:
    once = after(HELD, follows(a_rejection("SCOPE_CREEP", **UNQUOTED)))

    found = follows(a_rejection("SCOPE_CREEP", **NO_FACTOR), once)

    assert "lockout.set" not in names(found)
    assert after(once, found).rejections.invalid_by == ()


def test_the_same_formal_slip_counts_from_the_third_time_on() -> None:
    task, counted = HELD, []
    for _ in range(4):
        found = follows(a_rejection("SCOPE_CREEP", **UNQUOTED), task)
        counted.append(not the(HandoffRejectionInvalid, found).is_formal)
        task = after(task, found)

    assert counted == [False, False, True, True]
    assert "lockout.set" in names(found)


def test_many_different_formal_slips_count_in_the_end() -> None:
    spoilt = [
        {"reason_summary": ""},
        {"reason_detail": "-"},
        {"task_original_scope": ""},
        {"scope_growth_factor": None},
        {"scope_growth_factor": 40.0},
        {"alternative_tasks": []},
        {"suggested_alternative": "TODO"},
    ]
    task, counted = HELD, []
    for change in spoilt:
        found = follows(a_rejection("SCOPE_CREEP", **change), task)
        counted.append(not the(HandoffRejectionInvalid, found).is_formal)
        task = after(task, found)

    assert counted == [False] * 6 + [True]


def test_a_formal_slip_beside_a_poor_part_counts() -> None:
    found = follows(
        a_rejection("SCOPE_CREEP", **UNQUOTED, what_attempted=["Looked at it", "Thought about it"])
    )

    assert not the(HandoffRejectionInvalid, found).is_formal


def test_a_slip_of_one_agent_is_none_of_another() -> None:
    task = update_task(HELD, slips=(RejectionSlip(agent="Bob", codes=("scope_misquoted",)),) * 3)

    assert the(HandoffRejectionInvalid, follows(a_rejection("SCOPE_CREEP", **UNQUOTED), task)).is_formal


def test_a_lazy_rejection_still_counts_after_a_formal_slip() -> None:
    once = after(HELD, follows(a_rejection("SCOPE_CREEP", **UNQUOTED)))
    twice = after(once, follows(LAZY, once))

    assert twice.rejections.invalid_by == ("Alice",)
    assert "lockout.set" in names(follows(LAZY, twice))
