"""What a review on a forge counts for: whose it is, what it says, and which commit it is about."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain.instant import BEGINNING, plus
from remand.domain.pulls.accounts import called, is_same
from remand.domain.pulls.findings import findings_of
from remand.domain.pulls.shapes import PullRequest, Review, ReviewState
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.roles import Actor
from remand.domain.task import Status, Submission, Task

FOR_GOOD = (
    "bad_value",
    "nothing_to_review",
    "not_authorised",
    "out_of_scope",
    "own_work",
    "stale_review",
    "too_late",
    "head_moved",
)
"""Refusals that no later poll would take back: the review is kept as one that does not count."""
OWN_ACCOUNT = "it comes from the account that opened the pull request, which agents may share"
CLOCKS_APART = 300.0
"""So many seconds the forge's clock may be behind ours, where that could swallow a no."""
MAX_WHY = 500
_TO_BE_HANDED_IN = (Status.CLAIMED, Status.INCOMING, Status.NEEDS_CONTINUATION, Status.REJECTED)


class Seen(Record, kw_only=True):
    """A review as it was read, with all that has to be known to judge it."""

    task: Task
    pull: PullRequest
    review: Review
    kind: str
    """Of the forge."""
    home: str = ""
    """The repository's address there."""
    member: Actor | None = None
    """Whose account wrote it; None when it is no member's."""
    may_write: bool = False
    """By the forge's word, just now."""
    tree: str = ""
    """The code tree of the commit the review names; empty when it is not known here."""
    head_tree: str = ""
    """The code tree of the pull request's head, likewise."""

    @property
    def source(self) -> str:
        """Where the review was given, with the commit that it was bound to when it was seen."""
        return f"{self.kind}:{self.review.id}@{self.review.commit}"


class Judged(Record, kw_only=True):
    """What follows from a review: one ask, or what it waits for."""

    ask: c.ApproveReview | c.RejectReview | c.NoteReview | None = None
    waits_for: str = ""
    is_ignored: bool = False
    """It is nobody's word."""
    is_unsettled: bool = False
    """It has to be looked at again though nothing changes on the forge."""


def is_known(task: Task, kind: str, review: Review) -> bool:
    """True when the review was taken in before, whatever it says and whatever commit the forge binds it to now."""
    return any(source.partition("@")[0] == f"{kind}:{review.id}" for source in task.sources)


def judged(seen: Seen) -> Judged:
    """What a review that was not taken in before counts for."""
    if seen.member is None:
        return Judged(is_ignored=True)
    if not seen.may_write:
        who = called(seen.review.author)
        return Judged(
            is_ignored=True, is_unsettled=True, waits_for=f"{who} to be allowed to write on the forge"
        )
    match seen.review.state:
        case ReviewState.DISMISSED:
            return noted(seen, "it was dismissed before it was seen")
        case ReviewState.APPROVED:
            return _approval(seen)
        case _:
            return _rejection(seen)


def refused(seen: Seen, answer: Refused) -> Judged:
    """What follows when the rules refused what a review asks for: it is kept, unless a later poll may bring it in."""
    if answer.code in FOR_GOOD:
        return noted(seen, answer.message)
    return Judged(is_unsettled=True, waits_for=f"{seen.task.id}: {answer.message}")


def noted(seen: Seen, why: str) -> Judged:
    """A review that does not count, kept with the reason."""
    return Judged(
        ask=c.NoteReview(
            task_id=seen.task.id,
            reviewer=seen.member.name if seen.member else "",
            source=seen.source,
            why=why[:MAX_WHY],
            commit=seen.review.commit,
            findings=findings_of(seen.review, seen.home),
        )
    )


def _rejection(seen: Seen) -> Judged:
    task, submission = seen.task, seen.task.submission
    if submission is None or not (_is_about(seen, submission) or _is_of_what_followed(seen, submission)):
        return _of_other_work(seen)
    findings = findings_of(seen.review, seen.home)
    if not any(finding.is_blocking for finding in findings):
        return noted(seen, "it has no blocking finding")
    return Judged(
        ask=c.RejectReview(task_id=task.id, commit=submission.commit, findings=findings, source=seen.source)
    )


def _approval(seen: Seen) -> Judged:
    task, pull, submission = seen.task, seen.pull, seen.task.submission
    if submission is None or not _is_about(seen, submission):
        return _of_other_work(seen)
    if is_same(seen.review.author, pull.author):
        return noted(seen, OWN_ACCOUNT)
    if _is_older_than_a_rejection(seen, submission):
        return noted(seen, "the same work was rejected after it")
    if pull.head != submission.commit and not _is_tree(seen.head_tree, submission):
        return noted(seen, f"the pull request has gone on to {pull.head[:12]}")
    return Judged(ask=c.ApproveReview(task_id=task.id, commit=submission.commit, source=seen.source))


def _of_other_work(seen: Seen) -> Judged:
    """A review of what nobody has handed in yet waits for that; one of earlier work is kept and counts no more."""
    task, review, submission = seen.task, seen.review, seen.task.submission
    is_early = submission is None or review.submitted_at >= submission.at
    if is_early and task.status in _TO_BE_HANDED_IN:
        return Judged(waits_for=f"{task.id} to be handed in at {review.commit[:12]}, which was reviewed")
    return noted(seen, "it is about a commit that is not the one handed in")


def _is_about(seen: Seen, submission: Submission) -> bool:
    """True when a review is about the work that was handed in. One that names no commit is, when it came after it."""
    review = seen.review
    if not review.commit:
        return review.submitted_at >= submission.at
    return review.commit == submission.commit or _is_tree(seen.tree, submission)


def _is_tree(tree: str, submission: Submission) -> bool:
    return bool(tree) and tree == submission.tree


def _is_of_what_followed(seen: Seen, submission: Submission) -> bool:
    """True when a rejection came while the work was under review, of a head that was pushed on top of it.

    A reviewer can only review the head, so a push after handing in takes nothing away from a no. One of work that
    was handed in earlier, given late, is about that.
    """
    task, review = seen.task, seen.review
    if task.status != Status.PROVISIONAL:
        return False
    earlier = {one.commit for one in task.rounds}
    given = plus(review.submitted_at or BEGINNING, CLOCKS_APART)
    return given >= submission.at and review.commit not in earlier


def _is_older_than_a_rejection(seen: Seen, submission: Submission) -> bool:
    """True when the same work was sent back before, and the review was given before it was handed in again."""
    rounds = seen.task.rounds
    was_rejected = any(one.commit == submission.commit or one.tree == submission.tree for one in rounds)
    return was_rejected and seen.review.submitted_at < submission.at
