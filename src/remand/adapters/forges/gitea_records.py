"""Gitea's and Forgejo's JSON as records, and their conversion to pull requests and reviews."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from remand.domain.instant import Instant, parse_instant
from remand.domain.pull_request.records import (
    Account,
    ForgeComment,
    ForgeReview,
    PullRequest,
    PullState,
    ReviewState,
)
from remand.domain.record import Record

KIND = "gitea"
"""Forgejo's accounts go by it too."""
STATES = {
    "APPROVED": ReviewState.APPROVED,
    "COMMENT": ReviewState.COMMENTED,
    "REQUEST_CHANGES": ReviewState.CHANGES_REQUESTED,
}
"""A review that is only asked for (`REQUEST_REVIEW`), or not handed in yet (`PENDING`), is none."""
GHOST = -1
"""The id of whoever is gone. The forge's own automation has ids below zero too."""


class GiteaUser(Record, kw_only=True):
    """An account."""

    id: int
    login: str = ""


class GiteaBranch(Record, kw_only=True):
    """One end of a pull request."""

    ref: str = ""
    sha: str = ""


class GiteaPull(Record, kw_only=True):
    """A pull request, in a list or alone."""

    number: int
    state: str
    user: GiteaUser | None = None
    merged: bool | None = None
    merged_at: str | None = None
    merged_by: GiteaUser | None = None
    head: GiteaBranch | None = None
    updated_at: str | None = None
    comments: int | None = None
    review_comments: int | None = None
    html_url: str | None = None

    @property
    def change_mark(self) -> str:
        """Changes with every push, review, dismissal and comment. Times are told in seconds: the counts help."""
        head = self.head.sha if self.head is not None else ""
        counts = f"{self.comments or 0} {self.review_comments or 0}"
        return f"{self.updated_at or ''} {head} {self.state} {bool(self.merged)} {counts}"


class GiteaReview(Record, kw_only=True):
    """A review. `stale` and `official` are the forge's judgement and are not needed here."""

    id: int
    state: str
    user: GiteaUser | None = None
    body: str | None = None
    commit_id: str | None = None
    dismissed: bool | None = None
    comments_count: int | None = None
    submitted_at: str | None = None
    updated_at: str | None = None
    html_url: str | None = None

    @property
    def is_review(self) -> bool:
        """False for what is none yet."""
        return self.state in STATES


class GiteaLineComment(Record, kw_only=True):
    """A comment of a review. A position is a line, of the new file or else of the old."""

    id: int
    user: GiteaUser | None = None
    resolver: GiteaUser | None = None
    body: str | None = None
    path: str | None = None
    position: int | None = None
    original_position: int | None = None
    created_at: str | None = None
    updated_at: str | None = None
    html_url: str | None = None

    @property
    def place(self) -> tuple[str, int, int]:
        """Comments at one place are one thread."""
        return self.path or "", self.position or 0, self.original_position or 0


class GiteaComment(Record, kw_only=True):
    """A comment in the discussion."""

    id: int
    user: GiteaUser | None = None
    body: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    html_url: str | None = None


class GiteaPermission(Record, kw_only=True):
    """What an account may do in a repository."""

    permission: str
    user: GiteaUser | None = None


def account(user: GiteaUser | None) -> Account | None:
    """Who somebody is; None when the account is gone: what it said is then told as a ghost's, whose id is -1."""
    if user is None or user.id == GHOST:
        return None
    return Account(id=f"{KIND}:{user.id}", login=f"{KIND}:{user.login}", is_bot=user.id < 0)


def pull_request(
    pull: GiteaPull, reviews: Iterable[ForgeReview], remarks: Iterable[ForgeComment]
) -> PullRequest:
    """A pull request with everything said about it."""
    head = pull.head or GiteaBranch()
    state = PullState.CLOSED if pull.state == "closed" else PullState.OPEN
    return PullRequest(
        number=pull.number,
        head=head.sha,
        state=PullState.MERGED if pull.merged else state,
        branch=head.ref,
        author=account(pull.user),
        merged_by=account(pull.merged_by),
        merged_at=parse_time(pull.merged_at),
        url=pull.html_url or "",
        reviews=tuple(reviews),
        remarks=tuple(remarks),
    )


def review(given: GiteaReview, comments: Sequence[GiteaLineComment]) -> ForgeReview:
    """A review with its comments; one that was dismissed says only that."""
    return ForgeReview(
        id=str(given.id),
        state=ReviewState.DISMISSED if given.dismissed else STATES[given.state],
        author=account(given.user),
        text=given.body or "",
        commit=given.commit_id or "",
        submitted_at=parse_time(given.submitted_at),
        updated_at=parse_time(given.updated_at) or parse_time(given.submitted_at),
        comments=tuple(_line_comments(given, comments)),
        url=given.html_url or "",
    )


def discussion_comment(said: GiteaComment) -> ForgeComment:
    """A comment in the discussion."""
    return ForgeComment(
        id=str(said.id),
        text=said.body or "",
        author=account(said.user),
        created_at=parse_time(said.created_at),
        updated_at=parse_time(said.updated_at),
        is_edited=said.updated_at != said.created_at,
        url=said.html_url or "",
    )


def _line_comments(given: GiteaReview, comments: Sequence[GiteaLineComment]) -> Iterable[ForgeComment]:
    """Comments oldest first; only the one that begins a thread tells whether it is settled."""
    begun: dict[tuple[str, int, int], GiteaLineComment] = {}
    for said in sorted(comments, key=lambda one: one.id):
        first = begun.setdefault(said.place, said)
        is_reply = said is not first and _is_later(said, given)
        yield ForgeComment(
            id=str(said.id),
            text=said.body or "",
            author=account(said.user),
            path=said.path or "",
            line=said.position or said.original_position or 0,
            created_at=parse_time(said.created_at),
            updated_at=parse_time(said.updated_at),
            is_resolved=said.resolver is not None or (is_reply and first.resolver is not None),
            reply_to=str(first.id) if is_reply else "",
            url=said.html_url or "",
        )


def _is_later(said: GiteaLineComment, given: GiteaReview) -> bool:
    """True when a comment was not part of the review as it was handed in."""
    is_same = said.user is not None and given.user is not None and said.user.id == given.user.id
    return not is_same or parse_time(said.created_at) > parse_time(given.submitted_at)


def parse_time(time: str | None) -> Instant:
    """A time as an instant; empty when it is none."""
    return parse_instant(time or "") or ""
