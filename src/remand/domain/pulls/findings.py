"""The findings of a forge's review: its own comments by how they begin, and its body when none of them blocks."""

from __future__ import annotations

from remand.domain.events import Finding
from remand.domain.feedback.sanitise import sanitise, sanitise_findings
from remand.domain.feedback.severity import finding_of, is_blocking, review_findings
from remand.domain.pulls.accounts import is_same
from remand.domain.pulls.shapes import Comment, Review, ReviewState
from remand.domain.rules import MAX_FINDINGS

MAX_PATH = 4096
REST = "{count} more comments are not handed on; they are at the pull request."


def is_rejection(review: Review, *, is_own: bool) -> bool:
    """True when a review says no: it requests changes, or is a comment on one's own work that says it blocks.

    A forge does not let anyone request changes of their own pull request, and agents may share its account.
    """
    if review.state is ReviewState.CHANGES_REQUESTED:
        return True
    if review.state is not ReviewState.COMMENTED or not is_own:
        return False
    texts = (review.text, *(comment.text for comment in _own_comments(review)))
    return any(is_blocking(sanitise(text).text, default=False) for text in texts if text)


def findings_of(review: Review, home: str = "") -> tuple[Finding, ...]:
    """What a review finds, made safe to hand on: as much as a rejection takes, what blocks before what does not."""
    comments = [
        finding_of(text, comment.path[:MAX_PATH], comment.line)
        for comment in _own_comments(review)
        if (text := sanitise(comment.text, home).text.strip())
    ]
    whole = review_findings(sanitise(review.text, home).text, comments)
    left = len(whole) - MAX_FINDINGS
    if left > 0:
        kept = sorted(range(len(whole)), key=lambda at: not whole[at].is_blocking)[: MAX_FINDINGS - 1]
        rest = Finding(text=REST.format(count=left + 1), is_blocking=False)
        whole = (*(whole[at] for at in sorted(kept)), rest)
    return sanitise_findings(whole, home).findings


def _own_comments(review: Review) -> list[Comment]:
    """The comments the reviewer made with the review: no replies, nothing of others. Who resolved one settled nothing."""
    return [
        comment
        for comment in review.comments
        if not comment.is_reply and is_same(comment.author, review.author)
    ]
