"""Holds who may say no to submitted work, to what exactly, and what follows for its author."""

import pytest

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.roles import Actor, Role
from remand.domain.task import TERMINAL, Status
from remand.testing.builders import (
    H1,
    H2,
    LEAD,
    OTHER_SHA,
    SHA,
    T1,
    THE_USER,
    TREE,
    a_claim,
    a_lockout,
    a_submission,
    a_task,
    actor,
    an_offer,
    decided,
    refused,
)

HANDED_IN = a_task(status=Status.PROVISIONAL, submission=a_submission("Alice"), authors=("Alice",))
LEAKS = e.Finding(text="It leaks", path="roof.py", line=7)
NIT = e.Finding(text="Odd colour", is_blocking=False)
APPROVE = c.ApproveReview(task_id=T1, commit="HEAD")
REJECT = c.RejectReview(task_id=T1, commit="HEAD", findings=(NIT, LEAKS))
both = pytest.mark.parametrize("ask", [APPROVE, REJECT], ids=["approve", "reject"])


def test_an_approval_names_the_commit_and_tree_it_is_about() -> None:
    assert decided(HANDED_IN, APPROVE, LEAD, commit=SHA) == (
        e.ReviewApproved(task_id=T1, reviewer="Lead", commit=SHA, tree=TREE),
    )


def test_a_rejection_locks_its_author_out_with_the_first_blocking_finding_as_reason() -> None:
    assert decided(HANDED_IN, REJECT, LEAD, commit=SHA) == (
        e.ReviewRejected(task_id=T1, reviewer="Lead", commit=SHA, tree=TREE, findings=(NIT, LEAKS)),
        e.LockoutSet(task_id=T1, agent="Alice", reason="It leaks"),
    )


def test_a_rejection_locks_nobody_out_when_the_policy_says_so() -> None:
    (event,) = decided(HANDED_IN, REJECT, LEAD, commit=SHA, locks_out=False)

    assert isinstance(event, e.ReviewRejected)


@pytest.mark.parametrize("findings", [(), (NIT,), (NIT, NIT)], ids=["none", "a nit", "nits"])
def test_nits_alone_do_not_reject(findings: tuple[e.Finding, ...]) -> None:
    ask = c.RejectReview(task_id=T1, commit="HEAD", findings=findings)

    assert refused(HANDED_IN, ask, LEAD, commit=SHA) == "bad_value"


@pytest.mark.parametrize(
    "finding",
    [
        e.Finding(text=" "),
        e.Finding(text="\ud800"),
        e.Finding(text="a", path="\ud800"),
        e.Finding(text="a", line=-1),
        e.Finding(text="a", line=10**30),
    ],
    ids=["empty", "no text", "no path", "negative line", "huge line"],
)
def test_a_finding_says_something(finding: e.Finding) -> None:
    ask = c.RejectReview(task_id=T1, commit="HEAD", findings=(LEAKS, finding))

    assert refused(HANDED_IN, ask, LEAD, commit=SHA) == "bad_value"


def test_there_are_only_so_many_findings_in_a_review() -> None:
    ask = c.RejectReview(task_id=T1, commit="HEAD", findings=(LEAKS,) * 5000)

    assert refused(HANDED_IN, ask, LEAD, commit=SHA) == "bad_value"


@both
@pytest.mark.parametrize("roles", [(Role.LEAD, Role.AGENT), (Role.USER,)], ids=["lead", "user"])
def test_nobody_reviews_work_they_authored(ask: c.Ask, roles: tuple[Role, ...]) -> None:
    assert refused(HANDED_IN, ask, actor("Alice", *roles), commit=SHA) == "own_work"


@both
def test_an_author_of_an_earlier_attempt_does_not_review_a_later_one(ask: c.Ask) -> None:
    task = a_task(status=Status.PROVISIONAL, submission=a_submission("Bob"), authors=("Alice", "Bob"))

    assert refused(task, ask, actor("Alice", Role.LEAD), commit=SHA) == "own_work"


@both
def test_a_review_is_about_the_commit_submitted_last(ask: c.Ask) -> None:
    assert refused(HANDED_IN, ask, LEAD, commit=OTHER_SHA) == "stale_review"
    assert refused(HANDED_IN, ask, LEAD, commit="") == "unknown_commit"


@both
@pytest.mark.parametrize("status", sorted(set(Status) - {Status.PROVISIONAL}))
def test_only_what_was_handed_in_is_reviewed(ask: c.Ask, status: Status) -> None:
    task = a_task(status=status, submission=a_submission("Alice"))

    assert refused(task, ask, LEAD, commit=SHA) == "nothing_to_review"


def test_a_lockout_ends_the_claim_and_the_offers_of_its_agent_and_nobody_elses() -> None:
    held = a_task(status=Status.CLAIMED, claim=a_claim("Alice", H1), offers=(an_offer("Bob", H2),))
    offered = a_task(offers=(an_offer("Alice", H1), an_offer("Bob", H2)))
    ask = c.LockOut(task_id=T1, agent="Alice", reason="It leaks")

    assert [event.name for event in decided(held, ask)] == ["task.release", "lockout.set"]
    lapsed, locked = decided(offered, ask)
    assert lapsed == e.HandoffLapsed(task_id=T1, handoff_id=H1)
    assert locked == e.LockoutSet(task_id=T1, agent="Alice", reason="It leaks")


def test_a_lockout_that_is_there_is_not_set_again() -> None:
    task = a_task(lockouts=(a_lockout("Alice"),))

    assert decided(task, c.LockOut(task_id=T1, agent="Alice", reason="Again")) == ()


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_nobody_is_locked_out_of_a_task_that_has_ended(status: Status) -> None:
    ask = c.LockOut(task_id=T1, agent="Alice", reason="Late")

    assert refused(a_task(status=status), ask) == "bad_transition"


def test_an_unlock_takes_back_one_agents_lockout() -> None:
    task = a_task(lockouts=(a_lockout("Alice"), a_lockout("Bob")))

    assert decided(task, c.Unlock(task_id=T1, agent="Alice", reason="Taught")) == (
        e.LockoutCleared(task_id=T1, agent="Alice", reason="Taught"),
    )
    assert refused(task, c.Unlock(task_id=T1, agent="Carol", reason="Taught")) == "bad_value"


@pytest.mark.parametrize("kind", [c.LockOut, c.Unlock])
def test_lockouts_come_and_go_with_a_reason(kind: type[c.LockOut]) -> None:
    task = a_task(lockouts=() if kind is c.LockOut else (a_lockout("Alice"),))

    assert refused(task, kind(task_id=T1, agent="Alice", reason=" ")) == "bad_value"


@pytest.mark.parametrize("reviewer", [LEAD, THE_USER, actor("Tess", Role.TESTER)], ids=lambda who: who.name)
def test_reviewers_and_the_user_review(reviewer: Actor) -> None:
    assert decided(HANDED_IN, APPROVE, reviewer, commit=SHA)
