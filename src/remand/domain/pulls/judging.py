"""What a review on a forge counts for: whose it is, what it says, and which commit it is about."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain.events import Finding
from remand.domain.pulls.accounts import called, is_same
from remand.domain.pulls.findings import findings_from, findings_of, most_important
from remand.domain.pulls.rounds import Reading, is_about, is_of_what_followed, of_reviewer
from remand.domain.pulls.shapes import Review, ReviewState
from remand.domain.pulls.sources import review_source, source_for_now
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.roles import Actor
from remand.domain.task import Status, Submission

FOR_GOOD = ("nothing_to_review", "not_authorised", "own_work", "stale_review", "too_late")
"""Refusals that no later poll would take back: the review is kept as one that does not count."""
FOR_NOW = ("bad_value", "out_of_scope", "head_moved", "control_changed")
"""Refusals that a further comment, or another branch, may take back: the review is kept, and judged again when read."""
NOT_BLOCKING = "it has no blocking finding; a comment that begins with BLOCKING: makes it a rejection"
OWN_ACCOUNT = "it comes from the account that opened the pull request, which agents may share"
MAX_WHY = 500
_TO_BE_HANDED_IN = (Status.CLAIMED, Status.INCOMING, Status.NEEDS_CONTINUATION, Status.REJECTED)


class Seen(Reading, kw_only=True):
    """A review as it was read, with all that has to be known to judge it."""

    review: Review
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
        return review_source(self.kind, self.review)

    @property
    def source_for_now(self) -> str:
        """What the review is known by while it is kept and may count later."""
        return source_for_now(self.kind, self.review)


class Judged(Record, kw_only=True):
    """What follows from a review: one ask, or what it waits for."""

    ask: c.ApproveReview | c.RejectReview | c.NoteReview | None = None
    waits_for: str = ""
    is_ignored: bool = False
    """It is nobody's word."""
    is_unsettled: bool = False
    """It has to be looked at again though nothing changes on the forge."""


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
    if answer.code in FOR_NOW:
        return noted(seen, answer.message, is_for_now=True)
    return Judged(is_unsettled=True, waits_for=f"{seen.task.id}: {answer.message}")


def noted(seen: Seen, why: str, *, is_for_now: bool = False) -> Judged:
    """A review that does not count, kept with the reason; `is_for_now`: it is judged again when it is read again."""
    return Judged(
        ask=c.NoteReview(
            task_id=seen.task.id,
            reviewer=seen.member.name if seen.member else "",
            source=seen.source_for_now if is_for_now else seen.source,
            why=why[:MAX_WHY],
            commit=seen.review.commit,
            findings=findings_of(seen.review, seen.kind, seen.home),
        )
    )


def _rejection(seen: Seen) -> Judged:
    task, submission = seen.task, seen.task.submission
    if submission is None or not (
        _is_about(seen, submission) or is_of_what_followed(seen.review, task, submission)
    ):
        return _of_other_work(seen)
    findings = _findings(seen, submission)
    if not any(finding.is_blocking for finding in findings):
        return noted(seen, NOT_BLOCKING, is_for_now=True)
    return Judged(
        ask=c.RejectReview(task_id=task.id, commit=submission.commit, findings=findings, source=seen.source)
    )


def _findings(seen: Seen, submission: Submission) -> tuple[Finding, ...]:
    """All that the reviewer said of the work; of the account that opened the pull request, this review alone."""
    if is_same(seen.review.author, seen.pull.author):
        return findings_of(seen.review, seen.kind, seen.home)
    return most_important(findings_from(of_reviewer(seen, seen.review, submission), seen.home))


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
    if seen.source_for_now in task.sources:
        return Judged()
    return noted(seen, "it is about a commit that is not the one handed in")


def _is_about(seen: Seen, submission: Submission) -> bool:
    return is_about(seen.review, submission, seen.tree)


def _is_tree(tree: str, submission: Submission) -> bool:
    return bool(tree) and tree == submission.tree


def _is_older_than_a_rejection(seen: Seen, submission: Submission) -> bool:
    """True when the same work was sent back before, and the review was given before it was handed in again."""
    rounds = seen.task.rounds
    was_rejected = any(one.commit == submission.commit or one.tree == submission.tree for one in rounds)
    return was_rejected and seen.review.submitted_at < submission.at
