"""Comments on a pull request: which are Remand's own, which may command, and which findings the others are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum

from remand.domain.events.reviews import Finding
from remand.domain.feedback.comments import is_blocking, parse_comment_commands
from remand.domain.feedback.sanitiser import sanitise, sanitise_findings
from remand.domain.instant import Instant, add_seconds
from remand.domain.preconditions import MAX_FINDINGS
from remand.domain.pull_request.records import (
    Account,
    ForgeComment,
    ForgeReview,
    PullRequest,
    ReviewState,
    is_same_account,
)
from remand.domain.record import Record
from remand.domain.task import Task

REMAND_MARK = "Left here by remand"
"""Begins a line of everything that is left, so that it is not taken for somebody's word."""
_MARK_LINE = re.compile(rf"^{REMAND_MARK}(?:: (\S+))?\.[ \t\r]*$", re.MULTILINE)


def is_from_remand(text: str) -> bool:
    """True when a text says of itself that it was left by us. Nothing in it is obeyed."""
    return _MARK_LINE.search(text) is not None


def find_reported_rejections(text: str) -> list[str]:
    """The rejections of which a text says that we left them."""
    return [name for name in _MARK_LINE.findall(text) if name]


def is_own_review(review: ForgeReview, task: Task) -> bool:
    """True when everything in a review was left by us, of rejections that the task knows."""
    known = {given.id for one in task.reviews.rounds for given in one.reviews}
    texts = [text for text in (review.text, *(comment.text for comment in review.comments)) if text.strip()]
    return bool(texts) and all(known & set(find_reported_rejections(text)) for text in texts)


MAX_COMMAND_AGE = 24 * 3600.0
"""How old a command may be. A machine that polls for the first time obeys nothing of long ago."""


def may_command(remark: ForgeComment, pull: PullRequest, now: Instant) -> bool:
    """True for a fresh comment in its author's own words, if not by who opened the pull request.

    Whoever may write can edit the comments of others, what we leave there may repeat what others said, and agents may
    share the account that opened it.
    """
    is_fresh = bool(remark.updated_at) and remark.updated_at >= add_seconds(now, -MAX_COMMAND_AGE)
    is_own_word = not remark.is_edited and not is_from_remand(remark.text)
    return is_fresh and is_own_word and not is_same_account(remark.author, pull.author)


MAX_PATH = 4096
REST_TEXT = "{count} more comments are omitted; see the pull request."


class CommentPlace(StrEnum):
    """Where on a pull request something was said."""

    REVIEW = "review"
    """The text of a review."""
    LINE = "comment"
    """A comment that belongs to a review, on a line, a file or the whole."""
    DISCUSSION = "remark"
    """The discussion, outside of reviews."""


class PullComment(Record, kw_only=True):
    """One thing that somebody said about a pull request."""

    id: str
    """With the kind of forge and the place before it, as forges count each kind of comment by itself."""
    author: Account
    place: CommentPlace
    text: str
    at: Instant = ""
    path: str = ""
    line: int = 0
    reply_to: str = ""
    """The id of the comment that its thread begins with; empty when it begins one."""
    review: ForgeReview | None = None
    """The review that it belongs to; None in the discussion."""


def is_rejecting_review(review: ForgeReview, *, is_own: bool) -> bool:
    """True when a review says no: it requests changes, or is a comment on one's own work that says it blocks.

    A forge does not let anyone request changes of their own pull request, and agents may share its account.
    """
    if review.state is ReviewState.CHANGES_REQUESTED:
        return True
    if review.state is not ReviewState.COMMENTED or not is_own:
        return False
    texts = (review.text, *(comment.text for comment in _own_comments(review)))
    return any(is_blocking(sanitise(text).text, default=False) for text in texts if text)


def countable_comments(
    pull: PullRequest, kind: str, known: Collection[str], home: str = ""
) -> list[PullComment]:
    """Everything that accounts said about a pull request and that may be handed on.

    Left out are reviews that were dismissed, the text of approvals, commands to Remand, and what Remand itself left
    there: `known` are the ids of the rejections that it may have reported.
    """
    found = [
        said
        for review in pull.reviews
        if review.state not in (ReviewState.DISMISSED, ReviewState.PENDING)
        for said in _review_comments(review, kind)
    ]
    found += [
        _make_comment(remark, remark.author, kind, CommentPlace.DISCUSSION)
        for remark in pull.remarks
        if remark.author is not None
        and not is_from_remand(remark.text)
        and not parse_comment_commands(remark.text, home)
    ]
    return [said for said in found if not set(find_reported_rejections(said.text)) & set(known)]


def findings_from_comments(
    comments: Sequence[PullComment], home: str = "", *, has_rejected: bool = True
) -> tuple[Finding, ...]:
    """One reviewer's comments as findings, made safe to hand on; those that are empty are left out.

    A comment of a reviewer who has requested changes (`has_rejected`) blocks unless it says that it does not; of another
    only when it says so. Replies and the discussion block only when they say so.
    """
    texts = {said.id: text for said in comments if (text := sanitise(said.text, home).text.strip())}
    shown = [said for said in comments if said.id in texts]
    blocking = [said for said in shown if _is_blocking(said, texts[said.id], has_rejected)]
    opinions = sorted({one.submitted_at for said in shown if (one := said.review) and _is_opinion(one)})
    found = [
        Finding(
            text=texts[said.id],
            path=said.path,
            line=said.line,
            comment=said.id,
            reply_to=said.reply_to,
            at=said.at,
            is_blocking=_is_blocking(said, texts[said.id], has_rejected)
            if said.place is not CommentPlace.REVIEW
            else _is_text_blocking(said, texts[said.id], blocking, opinions, has_rejected),
        )
        for said in shown
    ]
    return sanitise_findings(found, home).findings


def findings_from_review(review: ForgeReview, kind: str = "", home: str = "") -> tuple[Finding, ...]:
    """What one review finds by itself: as much as an event takes, what blocks before what does not."""
    own = [] if review.author is None else list(_review_comments(review, kind, is_own=True))
    whole = findings_from_comments(own, home)
    left = len(whole) - MAX_FINDINGS
    if left <= 0:
        return whole
    rest = Finding(text=REST_TEXT.format(count=left + 1), is_blocking=False)
    return (*select_findings(whole, MAX_FINDINGS - 1), rest)


def select_findings(findings: Sequence[Finding], count: int = MAX_FINDINGS) -> tuple[Finding, ...]:
    """At most so many findings in their order: what blocks before what does not."""
    if len(findings) <= count:
        return tuple(findings)
    kept = sorted(range(len(findings)), key=lambda at: not findings[at].is_blocking)[:count]
    return tuple(findings[at] for at in sorted(kept))


def _own_comments(review: ForgeReview) -> list[ForgeComment]:
    """The comments the reviewer made with the review: no replies, nothing of others. Who resolved one settled nothing."""
    return [
        comment
        for comment in review.comments
        if not comment.is_reply and is_same_account(comment.author, review.author)
    ]


def _review_comments(review: ForgeReview, kind: str, *, is_own: bool = False) -> Iterator[PullComment]:
    """The comments of a review and its text, which for an approval speaks for that alone; `is_own`: what it says itself."""
    comments: Iterable[ForgeComment] = _own_comments(review) if is_own else review.comments
    for comment in comments:
        if comment.author is not None:
            yield _make_comment(comment, comment.author, kind, CommentPlace.LINE, review)
    if review.author is not None and review.text.strip() and (is_own or not _is_approval(review)):
        yield PullComment(
            id=f"{kind}:{CommentPlace.REVIEW}-{review.id}",
            author=review.author,
            place=CommentPlace.REVIEW,
            text=review.text,
            at=review.submitted_at,
            review=review,
        )


def _is_approval(review: ForgeReview) -> bool:
    return review.state is ReviewState.APPROVED


def _make_comment(
    comment: ForgeComment, author: Account, kind: str, place: CommentPlace, review: ForgeReview | None = None
) -> PullComment:
    at = comment.created_at or (review.submitted_at if review is not None else "")
    return PullComment(
        id=f"{kind}:{place}-{comment.id}",
        author=author,
        place=place,
        text=comment.text,
        at=at or comment.updated_at,
        path=comment.path[:MAX_PATH],
        line=max(comment.line, 0),
        reply_to=f"{kind}:{place}-{comment.reply_to}" if comment.is_reply else "",
        review=review,
    )


def _is_blocking(said: PullComment, text: str, has_rejected: bool) -> bool:
    is_aside = bool(said.reply_to) or said.place is CommentPlace.DISCUSSION
    return is_blocking(text, default=has_rejected and not is_aside)


def _is_text_blocking(
    said: PullComment,
    text: str,
    blocking: Sequence[PullComment],
    opinions: Sequence[Instant],
    has_rejected: bool,
) -> bool:
    """True when the text of a review blocks: it says so, or it rejects and none of the comments it speaks of blocks."""
    review = said.review
    if review is None:
        return is_blocking(text, default=False)
    before = max((at for at in opinions if at < review.submitted_at), default="")
    if any(_covers_comment(review, one, before) for one in blocking if one is not said):
        return is_blocking(text, default=False)
    return review.state is ReviewState.CHANGES_REQUESTED or is_blocking(text, default=has_rejected)


def _covers_comment(review: ForgeReview, one: PullComment, before: Instant) -> bool:
    """True for a comment of the review itself, and for one that its reviewer gave by itself since the opinion before."""
    given = one.review
    if given is None or one.reply_to:
        return False
    if given.id == review.id:
        return True
    is_by_itself = _is_opinion(review) and not _is_opinion(given)
    return is_by_itself and before < one.at <= review.submitted_at


def _is_opinion(review: ForgeReview) -> bool:
    return review.state is not ReviewState.COMMENTED
