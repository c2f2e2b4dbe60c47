"""Holds that an approval or a merge on a forge counts past an objection only after the user's answer."""

from __future__ import annotations

import pytest

from remand.app.forge.poll import forge_wait
from remand.domain import commands as c
from remand.domain.events.reviews import ReviewBypassed, ReviewNoted, ReviewRejected
from remand.domain.forge import PullState, ReviewState
from remand.domain.policy import Policy
from remand.domain.task import Status
from remand.testing.builders import Session
from remand.testing.fakes import FakeKeys
from tests.support.forge_fakes import a_review
from tests.unit.app.forge.review_setup import LEAD, PR, Forged

KEYS = FakeKeys("a stranger")


def objected(policy: Policy = Policy()) -> Forged:  # noqa: B008 - a frozen value
    """Work that is handed in as a pull request, and that a stranger has rejected."""
    forged = Forged(policy=policy)
    session = Session("20261115-070000-000000ff", keys=KEYS)
    session.write(ReviewRejected(task_id=forged.task_id, reviewer="Lead", commit=forged.head))
    forged.world.exchange.put("/events/theirs.jsonl", session.lines)
    forged.world.ledger.refresh()
    return forged


def dismiss(forged: Forged) -> None:
    signer = KEYS.ensure_key().id
    forged.world.ask(c.DismissObjections(task_id=forged.task_id, signer=signer, reason="x"), "owner")


def test_an_approval_on_the_forge_is_not_lost_and_counts_once_the_user_has_answered() -> None:
    forged = objected()
    forged.forge.put(PR, forged.head, a_review(LEAD, forged.head, ReviewState.APPROVED))

    assert [forged.poll().approvals for _ in range(3)] == [0, 0, 0]
    assert (forged.task.status, forged.named(ReviewNoted)) == (Status.PROVISIONAL, [])
    assert "not trusted" in forge_wait(forged.notes, forged.task_id)
    dismiss(forged)

    assert (forged.poll().approvals, forged.task.status) == (1, Status.DONE)


def test_a_merge_on_the_forge_goes_past_the_rules_and_is_accepted_after_the_answer() -> None:
    forged = objected()
    forged.forge.put(PR, forged.head, state=PullState.MERGED, merged_by=LEAD)
    forged.poll()
    accept = c.AnswerEscalation(task_id=forged.task_id, option="accept")

    assert (forged.task.status, len(forged.named(ReviewBypassed))) == (Status.ESCALATED, 1)
    assert forged.world.refusal(accept, "owner").code == "unconfirmed_no"
    dismiss(forged)
    assert forged.world.ask(accept, "owner").task.status == Status.DONE


@pytest.mark.parametrize("state", [PullState.OPEN, PullState.MERGED])
def test_where_objections_are_ignored_the_forge_is_believed_as_before(state: PullState) -> None:
    forged = objected(Policy(unconfirmed_no="ignore"))
    approval = a_review(LEAD, forged.head, ReviewState.APPROVED)
    forged.forge.put(PR, forged.head, approval, state=state, merged_by=LEAD)

    assert (forged.poll().approvals, forged.task.status) == (1, Status.DONE)
