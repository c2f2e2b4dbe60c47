"""Holds what two ledgers of one project make of the reviews that each of them took in."""

from __future__ import annotations

import pytest

from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.events.reviews import Finding
from remand.domain.instant import add_seconds
from remand.domain.task import Status
from remand.testing.fakes import FakeClock
from tests.support.builders import FakeLedger, member

TEAM = Team(
    (
        member("Alice"),
        member("Bob"),
        member("Carol", skills=("accessibility",)),
        member("Lea", Role.LEAD),
        member("owner", Role.USER),
    )
)


def rejecting(task: str, source: str = "", text: str = "It leaks") -> c.RejectReview:
    return c.RejectReview(task_id=task, commit="work", findings=(Finding(text=text),), source=source)


def two_worlds() -> tuple[FakeLedger, FakeLedger, str]:
    """Two clones that know the same submission."""
    first = FakeLedger(rules=Rules(gates=(), team=TEAM))
    task = first.add()
    first.claim(task)
    first.submit(task)
    second = FakeLedger(
        rules=first.rules,
        session="20261115-100000-bbbbbbbb",
        clock=FakeClock(add_seconds(first.clock.now(), 60)),
    )
    second.repository = first.repository
    second.reopen()
    meet(first, second)
    return first, second, task


def meet(*worlds: FakeLedger) -> None:
    """Everybody reads what everybody wrote."""
    lines = [line for world in worlds for line in world.exchange.all_lines()]
    for world in worlds:
        world.exchange.put("/events/others.jsonl", lines)
        world.ledger.refresh()
    assert len({str(world.tasks()) for world in worlds}) == 1, "the same events, the same state"


def test_the_same_forge_review_taken_in_by_two_clones_counts_once() -> None:
    first, second, task = two_worlds()
    for world in (first, second):
        world.ask(rejecting(task, source="forge:1"), "Lea")
    meet(first, second)

    found = first.task(task)

    assert (
        found.reviews.rejection_count,
        len(found.reviews.rounds[0].reviews),
        len(found.people.lockouts),
    ) == (1, 1, 1)
    second.ask(c.RetractReview(task_id=task, reason="It was right"), "Lea")
    meet(first, second)
    assert (first.task(task).status, first.task(task).people.lockouts) == (Status.PROVISIONAL, ())


def test_a_forge_review_that_one_clone_retracted_before_the_other_saw_it_stays_retracted() -> None:
    first, second, task = two_worlds()
    first.ask(rejecting(task, source="forge:1"), "Lea")
    first.ask(c.RetractReview(task_id=task, reason="It was right"), "Lea")
    second.ask(rejecting(task, source="forge:1"), "Lea")
    meet(first, second)

    found = first.task(task)

    assert (found.reviews.rejection_count, found.people.lockouts) == (0, ())


def test_two_reviewers_who_reject_in_two_clones_reject_once() -> None:
    first, second, task = two_worlds()
    first.ask(rejecting(task), "Lea")
    second.ask(rejecting(task), "owner")
    meet(first, second)

    found = first.task(task)

    assert (
        found.reviews.rejection_count,
        len(found.reviews.rounds),
        len(found.reviews.rounds[0].reviews),
    ) == (1, 1, 2)
    first.ask(c.RetractReview(task_id=task, reason="It was right"), "Lea")
    assert first.task(task).is_locked_out("Alice"), "the other's rejection stands"
    first.ask(c.RetractReview(task_id=task, reason="It was right"), "owner")
    assert first.task(task).people.lockouts == ()


@pytest.mark.parametrize("approves_first", [True, False])
def test_of_an_approval_and_a_rejection_in_two_clones_the_rejection_counts(approves_first: bool) -> None:
    first, second, task = two_worlds()
    yes, no = (first, second) if approves_first else (second, first)
    yes.ask(c.ApproveReview(task_id=task, commit="work"), "owner")
    no.ask(rejecting(task), "Lea")
    meet(first, second)

    found = first.task(task)

    assert (found.status, found.reviews.rejection_count, found.reviews.approved_commit) == (
        Status.REJECTED,
        1,
        "",
    )
    assert found.is_locked_out("Alice")


def test_who_took_the_task_over_in_one_clone_keeps_it_when_another_passed_it_on_too() -> None:
    first, second, task = two_worlds()
    first.ask(rejecting(task), "Lea")
    first.claim(task, "Bob")
    second.ask(rejecting(task, text="Accessibility issues"), "owner")
    assert [offer.target for offer in second.task(task).claims.offers] == ["Carol"]
    meet(first, second)

    claim = first.task(task).claim

    assert claim is not None
    assert claim.agent == "Bob"
