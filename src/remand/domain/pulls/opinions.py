"""Which reviews of a pull request say something, of all that anybody ever said there."""

from __future__ import annotations

from remand.domain.pulls.accounts import is_same
from remand.domain.pulls.findings import is_rejection
from remand.domain.pulls.ours import is_ours
from remand.domain.pulls.shapes import PullRequest, Review, ReviewState
from remand.domain.task import Task


def opinions(task: Task, pull: PullRequest) -> list[Review]:
    """Of every account its last opinion, and every comment that blocks one's own work; nothing that we left there.

    Those that say no come first: an approval of the same poll cannot overtake them.
    """
    latest: dict[str, Review] = {}
    for review in pull.reviews:
        is_own = is_same(review.author, pull.author)
        if review.author is None or is_ours(review, task) or not _is_opinion(review, is_own=is_own):
            continue
        is_comment = review.state is ReviewState.COMMENTED
        latest[review.id if is_comment else review.author.id] = review
    return sorted(latest.values(), key=lambda review: review.state is ReviewState.APPROVED)


def _is_opinion(review: Review, *, is_own: bool) -> bool:
    settled = (ReviewState.APPROVED, ReviewState.DISMISSED)
    return review.state in settled or is_rejection(review, is_own=is_own)


def objections(pull: PullRequest) -> list[Review]:
    """The reviews by which an account's last word on this very head is that it needs changes, however late it came."""
    last = {
        review.author.id: review
        for review in pull.reviews
        if review.author is not None and review.state is not ReviewState.COMMENTED
    }
    return [
        review
        for review in last.values()
        if review.state is ReviewState.CHANGES_REQUESTED and review.commit in ("", pull.head)
    ]
