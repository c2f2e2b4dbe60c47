"""A pull request and all that is said about it, as a forge tells it now."""

from __future__ import annotations

from enum import StrEnum

from remand.domain.instant import Instant
from remand.domain.record import Record


class Account(Record, kw_only=True):
    """Who someone is on a forge. The id never changes; a login can be given up and taken by another."""

    id: str
    """With the kind of forge before it: `github:583231`."""
    login: str
    """The same way: `github:octocat`."""
    is_bot: bool = False


class ReviewState(StrEnum):
    """What a review on a forge says."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    COMMENTED = "commented"
    DISMISSED = "dismissed"
    PENDING = "pending"


class Comment(Record, kw_only=True):
    """A comment on a line, a file, or the whole."""

    id: str
    text: str
    author: Account | None = None
    """None when the account is gone."""
    path: str = ""
    line: int = 0
    """0 when it is about the file, or the line is not there any more and was never told."""
    created_at: Instant = ""
    updated_at: Instant = ""
    is_edited: bool = False
    """Changed since it was made; on some forges by others than its author."""
    is_resolved: bool = False
    is_outdated: bool = False
    reply_to: str = ""
    """The id of the comment that its thread begins with; empty when it begins one."""
    url: str = ""

    @property
    def is_reply(self) -> bool:
        """True when it answers in a thread that another comment began."""
        return bool(self.reply_to)


class Review(Record, kw_only=True):
    """A review as the forge tells it now; forges may bind it to another commit later."""

    id: str
    state: ReviewState
    author: Account | None = None
    text: str = ""
    commit: str = ""
    submitted_at: Instant = ""
    updated_at: Instant = ""
    comments: tuple[Comment, ...] = ()
    url: str = ""


class PullState(StrEnum):
    """Where a pull request is."""

    OPEN = "open"
    CLOSED = "closed"
    MERGED = "merged"


class PullRequest(Record, kw_only=True):
    """A pull request with everything said about it."""

    number: int
    head: str
    """The commit at its tip."""
    state: PullState = PullState.OPEN
    branch: str = ""
    author: Account | None = None
    merged_by: Account | None = None
    merged_at: Instant = ""
    url: str = ""
    reviews: tuple[Review, ...] = ()
    """Oldest first, every page of them."""
    remarks: tuple[Comment, ...] = ()
    """What was said in its discussion, outside of reviews; oldest first."""
