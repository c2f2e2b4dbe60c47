"""What a review on a forge counts for: by whose it is, what it says, and which commit it is about."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.feedback.pull_request_reviews import (
    FINAL_REFUSALS,
    PROVISIONAL_REFUSALS,
    ReviewOutcome,
    ReviewReading,
    is_known_review,
    judge_refusal,
    judge_review,
)
from remand.domain.forge import ForgeComment, PullRequest, ReviewState
from remand.domain.instant import add_seconds
from remand.domain.refusals import MEANINGS, Refused
from remand.domain.task import Status, update_task
from remand.testing.builders import NOW, SHA, TREE, a_submission, a_task
from tests.support.builders import LEAD, OTHER_SHA, a_round
from tests.support.forge_fakes import a_review, an_account

ACCOUNT = an_account("octocat")
TASK = a_task(status=Status.PROVISIONAL, submission=a_submission("Alice"))
PULL = PullRequest(number=12, head=SHA, author=an_account("alice"))
BEFORE, AFTER = add_seconds(NOW, -3600), add_seconds(NOW, 3600)
NO, YES = ReviewState.CHANGES_REQUESTED, ReviewState.APPROVED


def seen(state: ReviewState = NO, commit: str = SHA, at: str = AFTER, **fields: Any) -> ReviewReading:
    """A review by a member that may write, of the work that was handed in unless it says otherwise."""
    review = a_review(ACCOUNT, commit, state, submitted_at=at)
    standard = {"task": TASK, "pull": PULL, "review": review, "kind": "github", "member": LEAD}
    given = {**standard, "may_write": True, **fields}
    return ReviewReading(**{**given, "pull": replace(given["pull"], reviews=(given["review"],))})


def why(judgement: ReviewOutcome) -> str:
    """Why a review is kept and does not count."""
    assert isinstance(judgement.ask, c.NoteReview), judgement
    return judgement.ask.why


# Whose it is.


def test_a_review_of_nobody_is_ignored_and_one_of_a_member_waits_for_the_forges_word() -> None:
    assert judge_review(seen(member=None, may_write=False)) == ReviewOutcome(is_ignored=True)
    barred = judge_review(seen(may_write=False))

    assert (barred.ask, barred.is_ignored, barred.is_unsettled) == (None, True, True)
    assert "octocat" in barred.waits_for


def test_a_review_that_was_taken_in_is_known_whatever_it_is_bound_to_now() -> None:
    taken = update_task(TASK, sources=(f"github:R1@{SHA}",))

    assert is_known_review(taken, "github", a_review(ACCOUNT, OTHER_SHA, id="R1"))
    assert not is_known_review(taken, "github", a_review(ACCOUNT, SHA, id="R11"))
    assert not is_known_review(taken, "gitea", a_review(ACCOUNT, SHA, id="R1"))


# What it says.


def test_changes_requested_of_the_work_handed_in_reject_it() -> None:
    ask = judge_review(seen()).ask

    assert isinstance(ask, c.RejectReview)
    assert (ask.commit, ask.source, len(ask.findings)) == (SHA, f"github:R1@{SHA}", 1)


def test_an_approval_of_the_work_handed_in_approves_it() -> None:
    assert judge_review(seen(YES)).ask == c.ApproveReview(
        task_id=TASK.id, commit=SHA, source=f"github:R1@{SHA}"
    )


def test_nits_alone_and_what_was_dismissed_count_for_nothing() -> None:
    nit = ForgeComment(id="1", text="nit: a blank line", author=ACCOUNT, path="a.py", line=3)
    review = a_review(ACCOUNT, SHA, text="", comments=(nit,))

    assert "no blocking finding" in why(judge_review(seen(review=review)))
    assert "dismissed" in why(judge_review(seen(ReviewState.DISMISSED)))


def test_who_opened_the_pull_request_rejects_and_does_not_approve() -> None:
    own = replace(PULL, author=ACCOUNT)

    assert isinstance(judge_review(seen(pull=own)).ask, c.RejectReview)
    assert "account that opened" in why(judge_review(seen(YES, pull=own)))


# Which commit it is about.


@pytest.mark.parametrize("state", [NO, YES])
def test_the_same_code_and_a_review_that_names_no_commit_are_of_the_work_handed_in(
    state: ReviewState,
) -> None:
    for one in (
        seen(state, OTHER_SHA, BEFORE, tree=TREE),
        seen(state, "", NOW),
    ):
        assert not isinstance(judge_review(one).ask, c.NoteReview | None)
    assert isinstance(judge_review(seen(state, "", BEFORE)).ask, c.NoteReview)


def test_a_no_to_what_was_pushed_on_top_counts_and_a_yes_to_it_does_not() -> None:
    assert isinstance(judge_review(seen(NO, OTHER_SHA)).ask, c.RejectReview)
    assert isinstance(judge_review(seen(NO, OTHER_SHA, add_seconds(NOW, -299))).ask, c.RejectReview), (
        "clocks apart"
    )
    assert "other than the submitted one" in why(judge_review(seen(NO, OTHER_SHA, add_seconds(NOW, -301))))
    assert "other than the submitted one" in why(judge_review(seen(YES, OTHER_SHA)))


def test_a_late_no_to_work_that_was_sent_back_before_counts_no_more() -> None:
    again = update_task(TASK, rounds=(a_round(commit=OTHER_SHA, tree="other"),))

    assert "other than the submitted one" in why(judge_review(seen(NO, OTHER_SHA, task=again)))


@pytest.mark.parametrize("status", [Status.CLAIMED, Status.INCOMING, Status.REJECTED])
def test_a_review_of_what_nobody_has_handed_in_yet_waits_for_that(status: Status) -> None:
    task = replace(TASK, status=status)

    for one in (task, replace(task, submission=None)):
        early = judge_review(seen(NO, OTHER_SHA, AFTER, task=one))
        assert (early.ask, OTHER_SHA[:12] in early.waits_for, early.is_unsettled) == (None, True, False)
    assert why(judge_review(seen(NO, OTHER_SHA, BEFORE, task=task)))


def test_an_approval_needs_the_work_handed_in_to_be_the_head() -> None:
    on = replace(PULL, head=OTHER_SHA)

    assert "has moved" in why(judge_review(seen(YES, pull=on)))
    assert isinstance(judge_review(seen(YES, pull=on, head_tree=TREE)).ask, c.ApproveReview)


def test_an_approval_from_before_a_rejection_of_the_same_work_does_not_count() -> None:
    again = update_task(TASK, rounds=(a_round(),))

    assert "rejected after it" in why(judge_review(seen(YES, at=BEFORE, task=again)))
    assert isinstance(judge_review(seen(YES, at=AFTER, task=again)).ask, c.ApproveReview)


# What the rules refuse.


def test_what_no_later_poll_would_take_in_is_kept_and_the_rest_is_looked_at_again() -> None:
    kept = judge_refusal(seen(), Refused("too_late", "It is done. " + "x" * 600))
    waiting = judge_refusal(seen(), Refused("unknown_commit", "The repository has no such commit."))

    assert why(kept) == ("It is done. " + "x" * 600)[:500]
    assert (waiting.ask, waiting.is_unsettled) == (None, True)
    assert "no such commit" in waiting.waits_for
    assert {*FINAL_REFUSALS, *PROVISIONAL_REFUSALS} <= set(MEANINGS)
