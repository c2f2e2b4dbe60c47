"""Holds who may claim a task, and in which order a claim is refused."""

import pytest

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Actor, Role
from remand.domain.decide import decide
from remand.domain.events.tasks import HandoffAccepted, TaskClaimed
from remand.domain.facts import Facts, update_facts
from remand.domain.refusals import Refused
from remand.domain.task import Status
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    H2,
    LATER,
    MUCH_LATER,
    NOW,
    T1,
    T2,
    a_claim,
    a_lockout,
    a_task,
    actor,
    an_offer,
)
from tests.support.builders import THE_USER, decide_events, refusal_code

CLAIM = c.ClaimTask(agent="Alice", task_id=T1)


def test_a_free_task_is_claimed_under_a_lease() -> None:
    task = a_task(branch="roof", attempt_count=2, epoch=5)

    claimed = decide_events(task, CLAIM, ALICE, handoff_id=H1, lease_seconds=1800)

    assert claimed == (
        TaskClaimed(
            task_id=T1,
            handoff_id=H1,
            agent="Alice",
            attempt=3,
            epoch=6,
            lease_expires_at=LATER,
            branch="roof",
        ),
    )


@pytest.mark.parametrize("status", ["incoming", "rejected", "needs_continuation"])
def test_a_task_is_claimed_from_any_queue(status: str) -> None:
    assert decide_events(a_task(status=Status(status)), CLAIM, ALICE)


@pytest.mark.parametrize(
    "status", sorted(set(Status) - {"incoming", "rejected", "needs_continuation", "claimed"})
)
def test_a_task_in_no_queue_cannot_be_claimed(status: Status) -> None:
    assert refusal_code(a_task(status=status), CLAIM, ALICE) == "bad_transition"


def test_a_task_somebody_holds_cannot_be_claimed() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Bob"))

    assert refusal_code(task, CLAIM, ALICE) == "already_claimed"


def test_a_task_one_holds_cannot_be_claimed_twice() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Alice"))

    assert refusal_code(task, CLAIM, ALICE) == "already_claimed"


def test_a_locked_out_agent_may_not_claim_again_and_another_may() -> None:
    task = a_task(status=Status.REJECTED, lockouts=(a_lockout("Alice"),))

    assert refusal_code(task, CLAIM, ALICE) == "locked_out"
    assert decide_events(task, c.ClaimTask(agent="Bob", task_id=T1), BOB)


def test_a_task_that_waits_for_others_cannot_be_claimed() -> None:
    assert refusal_code(a_task(), CLAIM, ALICE, open_blockers=(T2,)) == "waits_on_other"


def test_a_reserved_task_is_kept_for_its_agent_until_the_offer_lapses() -> None:
    task = a_task(offers=(an_offer("Bob", until=LATER),))

    assert refusal_code(task, CLAIM, ALICE, at=NOW) == "waits_on_other"
    assert decide_events(task, CLAIM, ALICE, at=LATER)


def test_claiming_a_task_that_is_reserved_for_one_accepts_the_handoff() -> None:
    task = a_task(offers=(an_offer("Alice", H2, until=LATER),))

    (event,) = decide_events(task, CLAIM, ALICE)

    assert isinstance(event, HandoffAccepted)
    assert (event.handoff_id, event.agent, event.epoch) == (H2, "Alice", 1)


def test_claiming_after_ones_offer_lapsed_is_a_claim_like_any_other() -> None:
    task = a_task(offers=(an_offer("Alice", H2, until=LATER),))

    (event,) = decide_events(task, CLAIM, ALICE, at=MUCH_LATER, handoff_id=H1)

    assert isinstance(event, TaskClaimed)
    assert event.handoff_id == H1


@pytest.mark.parametrize(
    ("agent", "has_team", "expected"),
    [
        (actor("Alice", skills=("paint", "weld")), True, ""),
        (actor("Alice", skills=("paint", "weld", "sew")), True, ""),
        (actor("Alice", skills=("paint",)), True, "not_eligible"),
        (actor("Alice"), True, "not_eligible"),
        (actor("Alice"), False, ""),
    ],
    ids=["all skills", "more skills", "one skill missing", "not a skill", "no team"],
)
def test_an_agent_of_a_team_needs_all_skills_the_task_asks_for(
    agent: Actor, has_team: bool, expected: str
) -> None:
    task = a_task(skills=("paint", "weld"))

    if expected:
        assert refusal_code(task, CLAIM, agent, has_team=has_team) == expected
    else:
        assert decide_events(task, CLAIM, agent, has_team=has_team)


def test_a_task_that_asks_for_no_skill_suits_every_agent() -> None:
    assert decide_events(a_task(), CLAIM, ALICE, has_team=True)


@pytest.mark.parametrize(
    "stranger",
    [
        THE_USER,
        actor("Lead", Role.LEAD),
        actor("Dir", Role.DIRECTOR),
        Actor(name="nobody"),
    ],
    ids=["user", "lead", "director", "stranger"],
)
def test_only_agents_claim(stranger: Actor) -> None:
    ask = c.ClaimTask(agent=stranger.name, task_id=T1)

    assert refusal_code(a_task(), ask, stranger, has_team=True) == "not_eligible"


def test_whoever_reviewed_a_task_does_not_work_on_it() -> None:
    task = a_task(status=Status.REJECTED, reviewers=("Alice",))

    assert refusal_code(task, CLAIM, ALICE) == "not_eligible"
    assert decide_events(task, c.ClaimTask(agent="Bob", task_id=T1), BOB)


def test_a_claim_is_refused_for_the_gravest_reason_first() -> None:
    held = {"status": Status.CLAIMED, "claim": a_claim("Bob")}
    locked = {"lockouts": (a_lockout("Alice"),)}
    asking = {"skills": ("paint",)}
    more = {"open_blockers": (T2,), "has_team": True}

    assert refusal_code(a_task(**held, **locked, **asking), CLAIM, ALICE, **more) == "locked_out"
    assert refusal_code(a_task(**held, **asking), CLAIM, ALICE, **more) == "not_eligible"
    assert refusal_code(a_task(**held), CLAIM, ALICE, **more) == "already_claimed"
    assert refusal_code(a_task(), CLAIM, ALICE, **more) == "waits_on_other"


def test_without_a_task_for_it_an_agent_hears_that_there_is_none() -> None:
    assert refusal_code(None, c.ClaimTask(agent="Alice"), ALICE) == "nothing_to_claim"


@pytest.mark.parametrize(
    "stranger", [actor("Lead", Role.LEAD), Actor(name="Alcie")], ids=["no agent", "no member"]
)
def test_who_is_no_agent_of_a_team_is_told_so_and_does_not_wait_for_work(stranger: Actor) -> None:
    ask = c.ClaimTask(agent=stranger.name)
    command = c.CommandContext(
        command=ask, actor=stranger, at=NOW, facts=update_facts(Facts(), has_team=True, agents=(ALICE, BOB))
    )

    told = decide(None, command)

    assert isinstance(told, Refused)
    assert told.code == "not_eligible"
    assert "Alice, Bob" in told.message


def test_a_task_nobody_knows_cannot_be_claimed() -> None:
    assert refusal_code(None, CLAIM, ALICE) == "unknown_task"


@pytest.mark.parametrize("name", ["a\nb", "x" * 65, " Alice"])
def test_a_name_that_would_break_a_line_may_do_nothing(name: str) -> None:
    assert refusal_code(a_task(), c.ClaimTask(agent=name, task_id=T1), actor(name)) == "bad_value"


@pytest.mark.parametrize("who", [BOB, THE_USER], ids=["another agent", "the user"])
def test_nobody_claims_in_another_agents_name(who: Actor) -> None:
    assert refusal_code(a_task(), CLAIM, who) == "not_yours"


def test_whether_anybody_is_left_is_asked_only_about_a_task_that_waits() -> None:
    nobody: dict[str, object] = {"has_team": True, "agents": ()}
    ask = c.CheckStaff(task_id=T1)
    held = a_task(status=Status.CLAIMED, claim=a_claim())

    assert [one.name for one in decide_events(a_task(), ask, THE_COORDINATOR, **nobody)] == [
        "escalation.open"
    ]
    assert decide_events(held, ask, THE_COORDINATOR, **nobody) == ()
    assert decide_events(a_task(), ask, THE_COORDINATOR, has_team=True, agents=(ALICE,)) == ()
