"""Holds what a director's own answer to a rejection may be, and what follows from each of the five."""

from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import Actor, Role
from remand.domain.events.event import Event
from remand.domain.events.reviews import LockoutSet
from remand.domain.events.tasks import EdgeCreated, HandoffResumed, RejectionAnswered, TaskCancelled
from remand.domain.reasons import DecisionType
from remand.domain.rejection import TaskRejection
from remand.domain.task import Status, Task, update_task
from remand.domain.validation.assessment import NamedTask, ValidationFacts
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    H2,
    LATER,
    NOW,
    T1,
    T2,
    T3,
    a_claim,
    a_lockout,
    a_task,
    actor,
    an_offer,
    task_id,
)
from tests.support.builders import LEAD, R1, THE_USER, a_filed_rejection, decide_events, refusal_code
from tests.support.rejection_records import LAZY, SCOPE, TITLE, a_rejection

N1, N2, N3 = task_id(91), task_id(92), task_id(93)
DIRECTOR = actor("Boss", Role.DIRECTOR)
WAITING = a_task(title=TITLE, scope=SCOPE, status=Status.BLOCKED, last_rejection=a_filed_rejection())
OVERRIDDEN = a_task(
    title=TITLE,
    scope=SCOPE,
    status=Status.CLAIMED,
    claim=a_claim("Alice", H1),
    last_rejection=a_filed_rejection("OVERRIDE", is_valid=False),
    invalid_by=("Alice",),
)


def answering(decision: str, *created: str, **fields: Any) -> c.AnswerRejection:
    return c.AnswerRejection(handoff_id=H1, decision=decision, created_tasks=created, **fields)


def facts(reason: str = "BLOCKER", **more: Any) -> dict[str, Any]:
    record = {
        **(LAZY if reason == "LAZY" else a_rejection(reason)),
        "task_id": T1,
        "handoff_id": H1,
        "agent_id": "Alice",
    }
    named = NamedTask(name=T2, task_id=T2, status="incoming", is_open=True)
    standard = {
        "record": record,
        "task_ids": (N1, N2, N3),
        "handoff_id": H2,
        "validation": ValidationFacts(named=(named,)),
        "open_blockers": (T2, T3),
    }
    return {**standard, **more}


def follows(
    ask: c.AnswerRejection, task: Task = WAITING, by: Actor = DIRECTOR, **given: Any
) -> tuple[Event, ...]:
    return decide_events(task, ask, by, **facts(**given))


def names(events: tuple[Event, ...]) -> list[str]:
    return [event.name for event in events]


def edges(events: tuple[Event, ...]) -> list[tuple[str, str, str]]:
    return [
        (event.src.removeprefix("task:"), event.type, event.tgt.removeprefix("task:"))
        for event in events
        if isinstance(event, EdgeCreated)
    ]


# The five answers.


def test_an_answer_says_its_type_who_gave_it_and_to_which_rejection() -> None:
    answer = follows(answering("ACCEPT", rationale="So it is", message="Thanks"))[0]

    assert isinstance(answer, RejectionAnswered)
    assert (answer.handoff_id, answer.rejection_id, answer.director) == (H1, R1, "")
    assert (answer.decision.decision_type, answer.decision.rationale) == ("ACCEPT", "So it is")


def test_accepting_leaves_the_task_blocked() -> None:
    assert names(follows(answering("ACCEPT"))) == ["handoff.reject.response"]


def test_accepting_that_a_task_is_obsolete_cancels_it() -> None:
    answer, cancelled = follows(answering("ACCEPT"), reason="OBSOLETE")

    assert isinstance(cancelled, TaskCancelled)
    assert cancelled.superseded_by == T2
    assert isinstance(answer, RejectionAnswered)


def test_deferring_creates_what_blocks_unless_it_is_named() -> None:
    made = follows(answering("ACCEPT_AND_DEFER"))
    named = follows(answering("ACCEPT_AND_DEFER", T2, T3))

    assert names(made) == ["handoff.reject.response", "node.create", "edge.create", "task.defer"]
    assert edges(made) == [(N1, "BLOCKS", T1)]
    assert names(named) == ["handoff.reject.response", "edge.create", "edge.create", "task.defer"]
    assert edges(named) == [(T2, "BLOCKS", T1), (T3, "BLOCKS", T1)]
    assert named[-1].waits_for == (T2, T3)
    assert named[0].decision.created_tasks == (T2, T3)


def test_a_rationale_names_each_task_once() -> None:
    answer = follows(answering("ACCEPT_AND_DEFER", T2, T2), reason="MISSING_DEPENDENCY")[0]

    assert answer.decision.rationale == f"Valid dependency. Task depends on {T2}."
    assert answer.decision.created_tasks == (T2,)


def test_decomposing_takes_the_records_sub_tasks_or_the_named_ones() -> None:
    made = follows(answering("ACCEPT_AND_DECOMPOSE"), reason="SCOPE_CREEP")
    named = follows(answering("ACCEPT_AND_DECOMPOSE", T2, T3), reason="SCOPE_CREEP")

    assert made[-1].children == (N1, N2, N3)
    assert named[-1].children == (T2, T3)
    assert edges(named) == [(T2, "REFINES", T1), (T3, "REFINES", T1)]
    assert named[0].decision.created_tasks == (T2, T3)


def test_reformulating_takes_the_suggestion_or_the_named_task() -> None:
    made = follows(answering("ACCEPT_AND_REFORMULATE"), reason="INFEASIBLE")
    named = follows(answering("ACCEPT_AND_REFORMULATE", T2), reason="BLOCKER")

    assert made[-1].reformulated_as == N1
    assert (named[-1].reformulated_as, edges(named)) == (T2, [(T2, "REFINES", T1)])


@pytest.mark.parametrize("decision", ["ACCEPT_AND_DECOMPOSE", "ACCEPT_AND_REFORMULATE"])
def test_a_lockout_holds_for_the_tasks_a_director_names_too(decision: str) -> None:
    task = update_task(WAITING, lockouts=(a_lockout("Bob"),))
    created = (T2, T3) if decision.endswith("DECOMPOSE") else (T2,)

    found = follows(answering(decision, *created), task)

    locked = [(event.task_id, event.agent) for event in found if isinstance(event, LockoutSet)]
    assert locked == [(name, "Bob") for name in created]


def test_overriding_gives_the_claim_back_under_the_same_handoff() -> None:
    found = follows(answering("OVERRIDE", message="The token is in the vault"), lease_seconds=1800)

    answer, resumed = found
    assert answer.decision.override_message == "The token is in the vault"
    assert answer.decision.reassign_to == "Alice"
    assert isinstance(resumed, HandoffResumed)
    assert (resumed.handoff_id, resumed.agent, resumed.lease_expires_at) == (H1, "Alice", LATER)


def test_overriding_a_rejected_offer_offers_it_again_under_the_same_handoff() -> None:
    task = update_task(WAITING, last_rejection=a_filed_rejection(was_claimed=False))

    found = follows(answering("OVERRIDE", message="Do it"), task)

    assert names(found) == ["handoff.reject.response", "task.reopen", "handoff.initiate"]
    assert (found[-1].handoff_id, found[-1].target_agent, found[-1].instructions) == (H1, "Alice", "Do it")


def test_an_override_without_a_word_has_one() -> None:
    assert follows(answering("OVERRIDE"))[0].decision.override_message


def test_overriding_can_pass_the_task_to_another() -> None:
    found = follows(answering("OVERRIDE", reassign_to="Bob"), target=BOB)

    assert names(found) == ["handoff.reject.response", "task.reopen", "handoff.initiate"]
    assert (found[-1].handoff_id, found[-1].target_agent) == (H2, "Bob")
    assert found[0].decision.reassign_to == "Bob"


def test_passing_on_what_the_agent_still_holds_ends_its_claim() -> None:
    found = follows(answering("OVERRIDE", reassign_to="Bob"), OVERRIDDEN, target=BOB, reason="LAZY")

    assert names(found) == ["handoff.reject.response", "task.release", "handoff.initiate"]


def test_reassigning_to_the_same_agent_is_a_plain_override() -> None:
    assert names(follows(answering("OVERRIDE", reassign_to="Alice"), target=ALICE))[-1] == "handoff.resume"


@pytest.mark.parametrize("decision", ["ACCEPT", "ACCEPT_AND_DEFER", "ACCEPT_AND_REFORMULATE"])
def test_a_rejection_that_was_overridden_can_be_accepted_while_the_agent_holds_the_task(
    decision: str,
) -> None:
    found = follows(answering(decision), OVERRIDDEN, reason="LAZY")

    assert found[0].decision.decision_type == decision
    assert names(found)[-1] in ("task.block", "task.defer", "task.infeasible")


def test_a_rejected_offer_that_was_overridden_can_be_accepted_too() -> None:
    task = a_task(
        offers=(an_offer("Alice", H1),), last_rejection=a_filed_rejection("OVERRIDE", was_claimed=False)
    )

    assert names(follows(answering("ACCEPT"), task, reason="LAZY")) == [
        "handoff.reject.response",
        "task.block",
    ]


def test_what_was_overridden_and_is_held_may_be_overridden_again_with_other_words() -> None:
    found = follows(answering("OVERRIDE", message="Really"), OVERRIDDEN, reason="LAZY")

    assert names(found) == ["handoff.reject.response"]
    assert found[0].decision.override_message == "Really"


# Who may answer, what, and when.


@pytest.mark.parametrize("by", [THE_USER, DIRECTOR], ids=["user", "director"])
def test_directors_and_the_user_answer(by: Actor) -> None:
    assert names(follows(answering("ACCEPT"), by=by)) == ["handoff.reject.response"]


@pytest.mark.parametrize(
    ("by", "code"),
    [
        (BOB, "not_authorised"),
        (LEAD, "not_authorised"),
        (actor("Tess", Role.TESTER), "not_authorised"),
        (actor("user", Role.USER, confined=True), "user_only"),
    ],
    ids=["agent", "lead", "tester", "user in an agent's place"],
)
def test_nobody_else_answers(by: Actor, code: str) -> None:
    assert refusal_code(WAITING, answering("ACCEPT"), by, **facts()) == code


def test_nobody_answers_a_rejection_of_their_own() -> None:
    both = actor("Alice", Role.AGENT, Role.DIRECTOR)

    assert refusal_code(WAITING, answering("ACCEPT"), both, **facts()) == "own_work"


@pytest.mark.parametrize(
    ("task", "code"),
    [
        pytest.param(None, "unknown_handoff", id="no such handoff"),
        pytest.param(a_task(status=Status.BLOCKED), "nothing_to_answer", id="never rejected"),
        pytest.param(
            update_task(WAITING, last_rejection=a_filed_rejection(handoff_id=H2)),
            "nothing_to_answer",
            id="another handoff was rejected",
        ),
        pytest.param(
            update_task(WAITING, last_rejection=a_filed_rejection("ACCEPT")),
            "nothing_to_answer",
            id="accepted already",
        ),
        pytest.param(
            update_task(
                WAITING, status=Status.DEFERRED, last_rejection=a_filed_rejection("ACCEPT_AND_DEFER")
            ),
            "nothing_to_answer",
            id="deferred already",
        ),
        pytest.param(replace(WAITING, status=Status.INCOMING), "handoff_closed", id="reopened since"),
        pytest.param(
            update_task(WAITING, last_rejection=a_filed_rejection("OVERRIDE")),
            "handoff_closed",
            id="overridden and blocked since",
        ),
        pytest.param(
            replace(OVERRIDDEN, claim=a_claim("Bob", H2)), "handoff_closed", id="another holds it since"
        ),
        pytest.param(
            replace(OVERRIDDEN, status=Status.DONE, claim=None), "handoff_closed", id="done in the meantime"
        ),
    ],
)
def test_only_a_rejection_that_still_matters_is_answered(task: Task | None, code: str) -> None:
    assert refusal_code(task, answering("ACCEPT"), DIRECTOR, **facts()) == code


@pytest.mark.parametrize(
    "ask",
    [
        answering("PERHAPS"),
        answering(""),
        answering("ACCEPT", T2),
        answering("OVERRIDE", T2),
        answering("ACCEPT_AND_DECOMPOSE", T2),
        answering("ACCEPT_AND_DECOMPOSE", T2, T2),
        answering("ACCEPT_AND_DECOMPOSE"),
        answering("ACCEPT_AND_REFORMULATE", T2, T3),
        answering("ACCEPT", rationale="x" * 70_000),
        answering("OVERRIDE", message="a\x00b"),
        answering("OVERRIDE", reassign_to="a\nb"),
    ],
    ids=lambda ask: f"{ask.decision} {len(ask.created_tasks)} {ask.rationale[:1]}{ask.message[:1]}",
)
def test_an_answer_that_does_not_add_up_is_refused(ask: c.AnswerRejection) -> None:
    assert refusal_code(WAITING, ask, DIRECTOR, **facts()) == "bad_value"


def test_deferring_for_tasks_that_have_ended_is_refused() -> None:
    assert (
        refusal_code(WAITING, answering("ACCEPT_AND_DEFER", T2), DIRECTOR, **facts(open_blockers=()))
        == "bad_value"
    )


def test_tasks_nobody_knows_are_refused() -> None:
    given = facts(unknown_tasks=(T3,))

    assert refusal_code(WAITING, answering("ACCEPT_AND_DEFER", T3), DIRECTOR, **given) == "unknown_task"


@pytest.mark.parametrize("decision", ["ACCEPT_AND_DEFER", "ACCEPT_AND_DECOMPOSE", "ACCEPT_AND_REFORMULATE"])
def test_tasks_that_wait_for_this_one_are_refused(decision: str) -> None:
    given = facts(cycle=(T1, T2, T1))

    assert refusal_code(WAITING, answering(decision, T2, T3), DIRECTOR, **given) == "closes_cycle"


def test_the_task_is_not_passed_to_someone_who_may_not_have_it() -> None:
    ask = answering("OVERRIDE", reassign_to="Bob")

    locked = update_task(WAITING, lockouts=(a_lockout("Bob"),))
    assert refusal_code(locked, ask, DIRECTOR, **facts(target=BOB)) == "locked_out"
    assert refusal_code(WAITING, ask, DIRECTOR, **facts(target=Actor(name="Bob"))) == "not_eligible"
    skilled = update_task(WAITING, skills=("paint",))
    assert refusal_code(skilled, ask, DIRECTOR, **facts(target=BOB, has_team=True)) == "not_eligible"


@pytest.mark.parametrize("was_claimed", [True, False])
def test_an_override_does_not_give_the_task_back_to_an_agent_locked_out_since(was_claimed: bool) -> None:
    task = update_task(
        WAITING, last_rejection=a_filed_rejection(was_claimed=was_claimed), lockouts=(a_lockout("Alice"),)
    )

    assert refusal_code(task, answering("OVERRIDE"), DIRECTOR, **facts()) == "locked_out"
    assert (
        names(follows(answering("OVERRIDE", reassign_to="Bob"), task, target=BOB))[-1] == "handoff.initiate"
    )


@pytest.mark.parametrize("decision", [name for name in DecisionType.__members__ if name != "OVERRIDE"])
def test_no_accepted_answer_needs_a_valid_record(decision: str) -> None:
    """A director may accept what the rules would not, and whatever the record lacks has a stand-in or a refusal."""
    given = facts(record={"reason_type": "?", "blocking_factor": ["odd"], "alternative_tasks": {"a": 1}})

    if decision == "ACCEPT_AND_DECOMPOSE":
        assert refusal_code(OVERRIDDEN, answering(decision), DIRECTOR, **given) == "bad_value"
    else:
        assert decide_events(OVERRIDDEN, answering(decision), DIRECTOR, **given)


@pytest.mark.parametrize(
    "reason", ["BLOCKER", "SCOPE_CREEP", "UNCLEAR_REQUIREMENTS", "INFEASIBLE", "OBSOLETE"]
)
def test_a_deferral_to_named_tasks_is_given_the_reason_of_the_rejection(reason: str) -> None:
    answer = follows(answering("ACCEPT_AND_DEFER", T2), reason=reason)[0]

    words = {
        "BLOCKER": "Valid blocker",
        "SCOPE_CREEP": "Valid scope creep",
        "UNCLEAR_REQUIREMENTS": "Valid unclear requirements",
        "INFEASIBLE": "Valid infeasibility",
        "OBSOLETE": "the task is obsolete",
    }
    assert words[reason] in answer.decision.rationale
    assert T2 in answer.decision.rationale


def test_an_override_without_a_rationale_says_what_it_did_not_accept() -> None:
    record = {**facts()["record"], "blocking_factor": "THE FACTOR"}
    answer = follows(answering("OVERRIDE"), record=record)[0]

    assert (
        answer.decision.rationale == "The rejection (BLOCKER) is not accepted. Blocking factor: THE FACTOR."
    )


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        ("ACCEPT", "BLOCKER"),
        ("ACCEPT_AND_DEFER", "BLOCKER"),
        ("ACCEPT_AND_DECOMPOSE", "SCOPE_CREEP"),
        ("ACCEPT_AND_REFORMULATE", "INFEASIBLE"),
        ("OVERRIDE", "BLOCKER"),
    ],
)
def test_an_answer_carries_the_whole_rejection_that_it_answers(decision: str, reason: str) -> None:
    given = facts(reason=reason)
    answer = decide_events(WAITING, answering(decision), DIRECTOR, **given)[0]

    assert isinstance(answer, RejectionAnswered)
    whole = TaskRejection.from_dict({"rejected_at": NOW, **given["record"]})
    assert answer.decision.rejection == whole.to_dict()
