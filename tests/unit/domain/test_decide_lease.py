"""Holds what a lease allows, and that a lost one allows nothing."""

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR
from remand.domain.decide import decide
from remand.domain.events.tasks import (
    LeaseExpired,
    LeaseRenewed,
    TaskContinued,
    TaskFailed,
    TaskReleased,
    TaskSubmitted,
)
from remand.domain.instant import add_seconds
from remand.domain.refusals import Refused
from remand.domain.run import Budget, Run, RunCosts
from remand.domain.task import Status, Task
from remand.testing.builders import (
    ALICE,
    BOB,
    H1,
    H2,
    LATER,
    NOW,
    SHA,
    T1,
    TREE,
    a_claim,
    a_lockout,
    a_submission,
    a_task,
    actor,
    an_offer,
)
from tests.support.builders import OTHER_SHA, command, decide_events, refusal_code

HELD = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1, until=LATER), attempt_count=1, epoch=1)
WORK = {"commit": SHA, "tree": TREE, "gates": ()}


def heartbeat(agent: str = "Alice", handoff_id: str = "") -> c.Heartbeat:
    return c.Heartbeat(task_id=T1, agent=agent, handoff_id=handoff_id)


def submit(agent: str = "Alice", handoff_id: str = "", **more: str | int) -> c.SubmitTask:
    return c.SubmitTask(task_id=T1, agent=agent, handoff_id=handoff_id, commit="HEAD", **more)


UNDER_CLAIM = [
    heartbeat(),
    submit(),
    c.ReleaseTask(task_id=T1, agent="Alice"),
    c.ContinueTask(task_id=T1, agent="Alice"),
    c.FailTask(task_id=T1, agent="Alice"),
    c.WaitTask(task_id=T1, agent="Alice", reason="the paint"),
]
each = pytest.mark.parametrize("ask", UNDER_CLAIM, ids=lambda ask: type(ask).__name__)


def with_handoff(ask: c.ClaimCommand, handoff_id: str) -> c.ClaimCommand:
    fields = {name: getattr(ask, name) for name in ask.__struct_fields__}
    return type(ask)(**{**fields, "handoff_id": handoff_id})


def by_bob(ask: c.ClaimCommand) -> c.ClaimCommand:
    fields = {name: getattr(ask, name) for name in ask.__struct_fields__}
    return type(ask)(**{**fields, "agent": "Bob"})


def test_a_heartbeat_renews_the_lease() -> None:
    late = add_seconds(LATER, -60)

    assert decide_events(HELD, heartbeat(), ALICE, at=late, lease_seconds=1800) == (
        LeaseRenewed(task_id=T1, handoff_id=H1, agent="Alice", lease_expires_at=add_seconds(late, 1800)),
    )


def test_a_heartbeat_writes_nothing_while_more_than_half_of_the_lease_is_left() -> None:
    assert decide_events(HELD, heartbeat(), ALICE, at=add_seconds(NOW, 899), lease_seconds=1800) == ()
    assert decide_events(HELD, heartbeat(), ALICE, at=add_seconds(NOW, 900), lease_seconds=1800) != ()


@each
def test_what_is_asked_under_a_claim_is_accepted_from_its_holder(ask: c.ClaimCommand) -> None:
    late = add_seconds(LATER, -60)

    *_, event = decide_events(HELD, ask, ALICE, at=late, **WORK)
    *_, same = decide_events(HELD, with_handoff(ask, H1), ALICE, at=late, **WORK)

    assert event == same
    assert (event.handoff_id, event.agent) == (H1, "Alice")


@each
def test_only_its_holder_acts_under_a_claim(ask: c.ClaimCommand) -> None:
    assert refusal_code(HELD, by_bob(ask), BOB, **WORK) == "not_yours"


@each
def test_nobody_acts_under_a_lease_that_has_run_out(ask: c.ClaimCommand) -> None:
    assert refusal_code(HELD, ask, ALICE, at=LATER, **WORK) == "lease_lost"


@each
def test_an_earlier_claim_of_the_same_agent_is_fenced_off(ask: c.ClaimCommand) -> None:
    claimed_again = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H2, epoch=2))

    assert refusal_code(claimed_again, with_handoff(ask, H1), ALICE, **WORK) == "lease_lost"


@each
def test_a_lost_lease_is_told_apart_from_none_by_the_handoff(ask: c.ClaimCommand) -> None:
    free = a_task()

    assert refusal_code(free, with_handoff(ask, H1), ALICE, **WORK) == "lease_lost"
    assert refusal_code(free, ask, ALICE, **WORK) == "not_yours"


def test_a_late_submit_is_refused_after_another_took_over() -> None:
    taken_over = a_task(status=Status.CLAIMED, claim=a_claim("Bob", H2, epoch=2))

    assert refusal_code(taken_over, submit("Alice", H1), ALICE, **WORK) == "lease_lost"
    assert refusal_code(taken_over, submit("Alice"), ALICE, **WORK) == "not_yours"


def test_a_submission_names_commit_tree_and_claim() -> None:
    *_, event = decide_events(HELD, submit(branch="roof", pr=7), ALICE, **WORK)

    assert event == TaskSubmitted(
        task_id=T1, handoff_id=H1, agent="Alice", commit=SHA, tree=TREE, branch="roof", pr=7
    )


def test_work_is_not_handed_in_twice() -> None:
    handed_in = a_task(status=Status.PROVISIONAL, submission=a_submission(), authors=("Alice",))
    refused = decide(handed_in, command(submit(), ALICE, **WORK))

    assert isinstance(refused, Refused)
    assert refused.code == "lease_lost"
    assert f"Alice submitted {SHA[:12]}, which awaits review" in refused.message


def test_a_locked_out_agent_hands_nothing_in() -> None:
    task = a_task(status=Status.CLAIMED, claim=a_claim("Alice"), lockouts=(a_lockout("Alice"),))

    assert refusal_code(task, submit(), ALICE, **WORK) == "locked_out"


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({**WORK, "commit": ""}, "unknown_commit"),
        ({**WORK, "gates": None}, "no_gates"),
        ({**WORK, "gates": ("tests", "lint")}, "not_measured"),
    ],
)
def test_nothing_is_handed_in_unmeasured(facts: dict[str, object], code: str) -> None:
    assert refusal_code(HELD, submit(), ALICE, **facts) == code


@each
@pytest.mark.parametrize("reason", ["a\x00b", "x" * 70_000, "\ud800"], ids=["NUL", "too long", "no text"])
def test_a_reason_is_text_of_some_length(ask: c.ClaimCommand, reason: str) -> None:
    if isinstance(ask, c.Heartbeat | c.SubmitTask):
        return
    fields = {name: getattr(ask, name) for name in ask.__struct_fields__}

    assert refusal_code(HELD, type(ask)(**{**fields, "reason": reason}), ALICE) == "bad_value"


@pytest.mark.parametrize("branch", ["a\x00b", "x" * 70_000], ids=["NUL", "too long"])
def test_a_branch_is_text_of_some_length(branch: str) -> None:
    assert refusal_code(HELD, submit(branch=branch), ALICE, **WORK) == "bad_value"


def test_what_one_waits_for_must_be_named() -> None:
    assert refusal_code(HELD, c.WaitTask(task_id=T1, agent="Alice", reason=" "), ALICE) == "bad_value"


@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (c.ReleaseTask(task_id=T1, agent="Alice", reason="ill"), TaskReleased),
        (c.ContinueTask(task_id=T1, agent="Alice", reason="ill"), TaskContinued),
        (c.FailTask(task_id=T1, agent="Alice", reason="ill"), TaskFailed),
    ],
    ids=["release", "continue", "fail"],
)
def test_a_claim_ends_with_its_reason(ask: c.ClaimCommand, kind: type[TaskReleased]) -> None:
    assert decide_events(HELD, ask, ALICE) == (kind(task_id=T1, handoff_id=H1, agent="Alice", reason="ill"),)


@pytest.mark.parametrize(
    ("task", "at", "expected"),
    [
        pytest.param(HELD, add_seconds(LATER, -0.000001), [], id="lease runs"),
        pytest.param(HELD, LATER, ["task.expire"], id="lease has run out"),
        pytest.param(a_task(offers=(an_offer(),)), NOW, [], id="offer stands"),
        pytest.param(a_task(offers=(an_offer(),)), LATER, ["handoff.lapse"], id="offer has lapsed"),
        pytest.param(a_task(), LATER, [], id="nothing to end"),
    ],
)
def test_what_has_run_out_ends_and_nothing_else(task: Task, at: str, expected: list[str]) -> None:
    ended = decide_events(task, c.ExpireLease(task_id=T1), THE_COORDINATOR, at=at)

    assert [event.name for event in ended] == expected


def test_an_ended_lease_names_whose_it_was() -> None:
    assert decide_events(HELD, c.ExpireLease(task_id=T1), THE_COORDINATOR, at=LATER) == (
        LeaseExpired(task_id=T1, handoff_id=H1, agent="Alice"),
    )


def test_when_the_users_own_lease_ends_the_user_is_asked_again() -> None:
    mended = a_task(status=Status.CLAIMED, claim=a_claim("user"), fixer="user")

    ended = decide_events(mended, c.ExpireLease(task_id=T1), THE_COORDINATOR, at=LATER)

    assert [event.name for event in ended] == ["task.expire", "escalation.open"]


def test_a_lost_run_that_spends_the_budget_asks_the_user_about_that() -> None:
    run = Run(id="RUN-1", agent="Alice", purpose="work", handoff_id=H1, started_at=NOW)
    task = a_task(status=Status.CLAIMED, claim=a_claim(), runs=(run,), spent=RunCosts(runs=3))

    ended = decide_events(
        task, c.ExpireLease(task_id=T1), THE_COORDINATOR, at=LATER, budget=Budget(runs=3), lease_seconds=1800
    )

    assert [event.name for event in ended] == ["run.end", "task.expire", "escalation.open"]


@pytest.mark.parametrize(
    ("branch", "before", "now", "is_refused"),
    [
        ("", SHA, SHA, True),
        ("work", SHA, OTHER_SHA, True),
        ("work", OTHER_SHA, SHA, True),
        ("", OTHER_SHA, SHA, False),
        ("main", OTHER_SHA, SHA, False),
        ("work", OTHER_SHA, OTHER_SHA, False),
        ("work", "", "", False),
    ],
    ids=[
        "as claimed",
        "as claimed, moved on",
        "others' work",
        "work on the base",
        "same, named",
        "own",
        "no base",
    ],
)
def test_without_gates_too_a_commit_that_the_base_has_is_no_work_of_an_agent_at_work(
    branch: str, before: str, now: str, is_refused: bool
) -> None:
    claim = replace(a_claim(), base=before)
    task = a_task(status=Status.CLAIMED, claim=claim, branch=branch)
    ask = c.SubmitTask(task_id=T1, agent="Alice", commit=SHA)
    facts = {"commit": SHA, "tree": TREE, "gates": (), "base": now, "base_branch": "main"}
    confined = actor("Alice", confined=True)

    if is_refused:
        assert refusal_code(task, ask, confined, **facts) == "nothing_committed"
    for who in (ALICE,) if is_refused else (ALICE, confined):
        assert [event.name for event in decide_events(task, ask, who, **facts)] == [
            "gate.pass",
            "task.submit",
        ]
