"""What awaits review."""

from __future__ import annotations

from remand.app.rebuild import story
from remand.app.stories import UncountedReview, uncounted_reviews
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.reviews import has_part
from remand.domain.roles import Actor
from remand.domain.task import Status, Submission, Task
from remand.ledger.store import Transaction


class UnderReview(Record, kw_only=True, omit_defaults=False):
    """A submission that awaits review."""

    task_id: str
    title: str
    commit: str
    author: str
    since: Instant
    branch: str | None = None
    pr: int | None = None
    requested: tuple[str, ...] = ()
    """The reviewers who were asked for their word."""
    attempt: int = 0
    rejection_count: int = 0
    asserted: bool = False
    """Only the author's own word says who it is."""
    not_counted: tuple[UncountedReview, ...] = ()
    """Reviews of it on the forge that were seen and do not count."""


def awaiting(view: Transaction, reviewer: Actor | None = None) -> list[UnderReview]:
    """Every submission that awaits review, the oldest first; with a reviewer, those it had no part in."""
    found = [
        _entry(task, task.submission, view)
        for task in view.tasks.every()
        if task.status == Status.PROVISIONAL
        and task.submission
        and not (reviewer and has_part(task, reviewer))
    ]
    return sorted(found, key=lambda entry: (entry.since, entry.task_id))


def _entry(task: Task, submission: Submission, view: Transaction) -> UnderReview:
    uncounted = uncounted_reviews(story(view, task.id)) if task.sources else ()
    return UnderReview(
        task_id=task.id,
        title=task.title,
        commit=submission.commit,
        author=submission.agent,
        since=submission.at,
        branch=task.branch or None,
        pr=task.pr or None,
        requested=task.requested,
        attempt=task.attempt_count,
        rejection_count=task.rejection_count,
        asserted=submission.is_asserted,
        not_counted=tuple(uncounted),
    )
