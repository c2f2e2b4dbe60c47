"""Holds that a handoff names an open task, is for one agent, and is worth nothing to another."""

import pytest

from remand.domain import commands as c
from remand.domain.access.team import Actor
from remand.domain.events.tasks import HandoffAccepted, HandoffCompleted, HandoffInitiated
from remand.domain.task import TERMINAL, Status
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    H2,
    LATER,
    NOW,
    SHA,
    T1,
    T2,
    TREE,
    a_claim,
    a_lockout,
    a_task,
    an_offer,
)
from tests.support.builders import LEAD, decide_events, refusal_code

INITIATE = c.InitiateHandoff(task_id=T1, target="Alice", instructions="Mind the chimney")
OFFERED = a_task(offers=(an_offer("Alice", H1, until=LATER),))
WORK = {"commit": SHA, "tree": TREE, "gates": ()}


def accept(agent: str = "Alice", handoff_id: str = H1) -> c.AcceptHandoff:
    return c.AcceptHandoff(handoff_id=handoff_id, agent=agent, acknowledgment="On it")


def complete(agent: str = "Alice", handoff_id: str = H1) -> c.CompleteHandoff:
    return c.CompleteHandoff(handoff_id=handoff_id, agent=agent, commit="HEAD", result="Mended", pr=3)


def test_a_handoff_reserves_the_task_for_one_lease() -> None:
    (event,) = decide_events(a_task(), INITIATE, LEAD, target=ALICE, handoff_id=H1, lease_seconds=1800)

    assert isinstance(event, HandoffInitiated)
    assert (event.handoff_id, event.source_agent, event.target_agent) == (H1, "Lead", "Alice")
    assert (event.lapses_at, event.instructions) == (LATER, "Mind the chimney")
    assert event.context == {
        "task_title": "Mend the roof",
        "task_status": "incoming",
        "task_priority": "medium",
    }


def test_a_handoff_may_have_an_id_that_was_chosen_and_nobody_has() -> None:
    ask = c.InitiateHandoff(task_id=T1, target="Alice", own_id="handoff:H-roof-1")

    (event,) = decide_events(a_task(), ask, LEAD, target=ALICE)

    assert event.handoff_id == "H-roof-1"
    assert refusal_code(a_task(), ask, LEAD, target=ALICE, is_handoff_taken=True) == "taken"


@pytest.mark.parametrize("name", ["roof", "H-", "T-1", "H-a b", "handoff:"])
def test_an_id_that_is_none_is_not_given_to_a_handoff(name: str) -> None:
    ask = c.InitiateHandoff(task_id=T1, target="Alice", own_id=name)

    assert refusal_code(a_task(), ask, LEAD, target=ALICE) == "bad_value"


def test_a_handoff_can_name_another_source() -> None:
    ask = c.InitiateHandoff(task_id=T1, target="Alice", source="Bob")

    (event,) = decide_events(a_task(), ask, LEAD, target=ALICE)

    assert event.source_agent == "Bob"


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_a_task_that_has_ended_is_handed_to_nobody(status: Status) -> None:
    assert refusal_code(a_task(status=status), INITIATE, LEAD, target=ALICE) == "bad_transition"


def test_a_task_nobody_knows_is_handed_to_nobody() -> None:
    assert refusal_code(None, INITIATE, LEAD, target=ALICE) == "unknown_task"


@pytest.mark.parametrize(
    ("fields", "facts", "code"),
    [
        ({"lockouts": (a_lockout("Alice"),)}, {}, "locked_out"),
        ({}, {"target": Actor(name="Alice")}, "not_eligible"),
        ({"skills": ("paint",)}, {"has_team": True}, "not_eligible"),
        ({"status": Status.CLAIMED, "claim": a_claim("Bob")}, {}, "already_claimed"),
        ({"status": Status.FAILED}, {}, "bad_transition"),
        ({}, {"open_blockers": (T2,)}, "waits_on_other"),
        ({"offers": (an_offer("Bob"),)}, {}, "waits_on_other"),
        ({}, {"target": None}, "bad_value"),
    ],
)
def test_a_task_is_handed_only_to_an_agent_that_could_claim_it(
    fields: dict[str, object], facts: dict[str, object], code: str
) -> None:
    assert refusal_code(a_task(**fields), INITIATE, LEAD, **{"target": ALICE, **facts}) == code


def test_accepting_a_handoff_is_a_claim_under_its_own_id() -> None:
    (event,) = decide_events(OFFERED, accept(), ALICE, lease_seconds=1800)

    assert event == HandoffAccepted(
        task_id=T1,
        handoff_id=H1,
        agent="Alice",
        acknowledgment="On it",
        attempt=1,
        epoch=1,
        lease_expires_at=LATER,
    )


def test_only_its_target_accepts_a_handoff() -> None:
    assert refusal_code(OFFERED, accept("Bob"), BOB) == "not_yours"


def test_a_handoff_that_has_lapsed_or_never_was_is_not_accepted() -> None:
    assert refusal_code(OFFERED, accept(), ALICE, at=LATER) == "handoff_closed"
    assert refusal_code(OFFERED, accept(handoff_id=H2), ALICE) == "handoff_closed"
    assert refusal_code(None, accept(), ALICE) == "unknown_handoff"


def test_a_target_that_was_locked_out_since_does_not_accept() -> None:
    task = a_task(offers=(an_offer("Alice", H1),), lockouts=(a_lockout("Alice"),))

    assert refusal_code(task, accept(), ALICE) == "locked_out"


def test_a_handoff_is_not_accepted_while_its_task_waits() -> None:
    assert refusal_code(OFFERED, accept(), ALICE, open_blockers=(T2,)) == "waits_on_other"


def test_completing_a_handoff_is_a_done_claim() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1))

    *_, event = decide_events(task, complete(), ALICE, **WORK)

    assert event == HandoffCompleted(
        task_id=T1, handoff_id=H1, agent="Alice", commit=SHA, tree=TREE, pr=3, result={"text": "Mended"}
    )


@pytest.mark.parametrize("text", ["a\x00b", "x" * 70_000], ids=["NUL", "too long"])
def test_what_is_said_with_a_handoff_is_text_of_some_length(text: str) -> None:
    held = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1))
    initiating = c.InitiateHandoff(task_id=T1, target="Alice", instructions=text)
    accepting = c.AcceptHandoff(handoff_id=H1, agent="Alice", acknowledgment=text)
    completing = c.CompleteHandoff(handoff_id=H1, agent="Alice", commit="HEAD", result=text)
    on_a_branch = c.CompleteHandoff(handoff_id=H1, agent="Alice", commit="HEAD", branch=text)

    assert refusal_code(a_task(), initiating, LEAD, target=ALICE) == "bad_value"
    assert refusal_code(OFFERED, accepting, ALICE) == "bad_value"
    assert refusal_code(held, completing, ALICE, **WORK) == "bad_value"
    assert refusal_code(held, on_a_branch, ALICE, **WORK) == "bad_value"


@pytest.mark.parametrize("name", ["a\nb", "x" * 65])
def test_a_handoff_goes_from_one_name_to_another(name: str) -> None:
    for ask in (
        c.InitiateHandoff(task_id=T1, target=name),
        c.InitiateHandoff(task_id=T1, target="Alice", source=name),
    ):
        assert refusal_code(a_task(), ask, LEAD, target=ALICE) == "bad_value"


def test_only_its_target_completes_a_handoff() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1))

    assert refusal_code(task, complete("Bob"), BOB, **WORK) == "not_yours"


def test_a_handoff_is_accepted_before_it_is_completed() -> None:
    assert refusal_code(OFFERED, complete(), ALICE, **WORK) == "bad_transition"


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(a_task(), id="lapsed"),
        pytest.param(a_task(status=Status.CLAIMED, claim=a_claim("Alice", H2)), id="another claim"),
        pytest.param(a_task(status=Status.PROVISIONAL), id="handed in"),
        pytest.param(a_task(status=Status.DONE), id="done"),
    ],
)
def test_a_handoff_that_is_over_is_not_completed(task: object) -> None:
    assert refusal_code(task, complete(), ALICE, **WORK) == "handoff_closed"


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({**WORK, "at": LATER}, "lease_lost"),
        ({**WORK, "commit": ""}, "unknown_commit"),
        ({**WORK, "gates": None}, "no_gates"),
        ({**WORK, "gates": ("tests",)}, "not_measured"),
    ],
)
def test_completing_a_handoff_asks_for_what_submitting_asks_for(facts: dict[str, object], code: str) -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1, until=LATER))

    assert refusal_code(task, complete(), ALICE, **{"at": NOW, **facts}) == code
