"""Holds what is kept of reviewers' comments on a forge: with the rejection they belong to, each once."""

import pytest
from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import Role
from remand.domain.decisions.reviews import MAX_COMMENTS
from remand.domain.events.reviews import Finding, ReviewCommented, ReviewRejected
from remand.domain.preconditions import MAX_FINDINGS
from remand.domain.task import Status, Task, update_task
from remand.testing.builders import ALICE, H1, SHA, T1, TREE, a_submission, a_task, actor
from tests.support.builders import (
    LEAD,
    THE_USER,
    V1,
    a_round,
    decide_events,
    refusal_code,
    review_rejected,
    review_retracted,
    task_after_review,
)

TESTER = actor("Tess", Role.TESTER, paths=("tests/**",))
SENT_BACK = a_task(
    status=Status.REJECTED, submission=a_submission("Alice"), rounds=(a_round(),), authors=("Alice",)
)


def a_comment(number: int = 1, **fields: object) -> Finding:
    return Finding(**{"text": f"Comment {number}", "comment": f"github:comment-{number}", **fields})  # type: ignore[arg-type]


def adding(*findings: Finding) -> c.AddComments:
    return c.AddComments(task_id=T1, handoff_id=H1, tree=TREE, findings=findings, source="github:")


def added(*findings: Finding, reviewer: str = "Lead") -> ReviewCommented:
    return ReviewCommented(
        task_id=T1, reviewer=reviewer, commit=SHA, tree=TREE, handoff_id=H1, findings=findings
    )


def with_comments(*names: str) -> Task:
    return update_task(SENT_BACK, rounds=(replace(SENT_BACK.reviews.rounds[0], comments=names),))


def test_comments_are_added_to_the_rejection_of_the_work_they_are_about() -> None:
    assert decide_events(SENT_BACK, adding(a_comment()), LEAD) == (
        replace(added(a_comment()), source="github:"),
    )


def test_what_was_handed_on_before_is_not_added_again() -> None:
    known = with_comments("github:comment-1")

    assert decide_events(known, adding(a_comment(1)), LEAD) == ()
    (event,) = decide_events(known, adding(a_comment(1), a_comment(2)), LEAD)
    assert isinstance(event, ReviewCommented)
    assert [one.text for one in event.findings] == ["Comment 2"]


def test_beyond_a_reviewers_paths_a_comment_is_a_suggestion() -> None:
    (event,) = decide_events(
        SENT_BACK, adding(a_comment(1, path="src/a.py"), a_comment(2, path="tests/a.py")), TESTER
    )

    assert isinstance(event, ReviewCommented)
    assert [one.is_blocking for one in event.findings] == [False, True]


@pytest.mark.parametrize(
    ("task", "by", "code"),
    [
        (SENT_BACK, ALICE, "not_authorised"),
        (SENT_BACK, actor("Alice", Role.LEAD), "own_work"),
        (a_task(status=Status.PROVISIONAL, submission=a_submission("Alice")), LEAD, "nothing_to_review"),
        (replace(SENT_BACK, status=Status.CANCELLED), LEAD, "nothing_to_review"),
        (update_task(SENT_BACK, rounds=(a_round(handoff_id="H-other"),)), LEAD, "nothing_to_review"),
    ],
    ids=["an agent", "the author", "not rejected", "over", "other work"],
)
def test_nobody_adds_comments_where_none_belong(task: Task, by: object, code: str) -> None:
    assert refusal_code(task, adding(a_comment()), by) == code  # type: ignore[arg-type]


def test_a_rejection_takes_so_many_comments_and_an_event_so_many_findings() -> None:
    full = with_comments(*(f"github:comment-{number}" for number in range(1, MAX_COMMENTS + 1)))
    many = [a_comment(number) for number in range(MAX_FINDINGS + 1)]

    assert decide_events(full, adding(a_comment(MAX_COMMENTS + 1)), LEAD) == ()
    assert refusal_code(SENT_BACK, adding(*many), LEAD) == "bad_value"


def test_comments_that_two_ledgers_added_are_feedback_once() -> None:
    once = task_after_review(review_rejected(V1), added(a_comment()))
    twice = task_after_review(review_rejected(V1), added(a_comment()), added(a_comment()))

    assert (once.reviews.feedback, twice.reviews.feedback) == (2, 2)
    assert once.reviews.rounds[0].comments == twice.reviews.rounds[0].comments == ("github:comment-1",)
    assert (once.reviews.rejection_count, once.status) == (1, Status.REJECTED)


def test_comments_keep_no_rejection_standing() -> None:
    task = task_after_review(review_rejected(V1), added(a_comment()), review_retracted(V1))

    assert (task.status, task.reviews.rejection_count) == (Status.PROVISIONAL, 0)


def test_comments_without_their_rejection_change_nothing() -> None:
    assert task_after_review(added(a_comment())) == task_after_review()


def test_findings_given_here_name_no_comment_of_a_forge() -> None:
    under_review = a_task(status=Status.PROVISIONAL, submission=a_submission("Alice"))
    ask = c.RejectReview(task_id=T1, commit=SHA, findings=(a_comment(1, reply_to="github:comment-2"),))
    event = decide_events(under_review, ask, THE_USER, commit=SHA, tree=TREE)[0]

    assert isinstance(event, ReviewRejected)
    assert event.findings == (Finding(text="Comment 1"),)
