"""The ports of a forge: pull requests, issues, permissions and a remote, and the kinds of faults."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from remand.app.errors import RemandError
from remand.domain.forge import Account, ForgeComment, PullRequest, ReviewState
from remand.domain.instant import Instant
from remand.domain.record import Record


class OpenPull(Record, kw_only=True):
    """An open pull request, without its reviews and comments."""

    number: int
    head: str
    """The commit at its head."""
    url: str = ""
    is_draft: bool = False


class ForgeIssue(Record, kw_only=True):
    """An issue as written by its author."""

    number: int
    title: str
    text: str = ""
    author: Account | None = None
    """None if the account was deleted."""
    labels: tuple[str, ...] = ()
    opened_at: Instant = ""
    is_open: bool = True
    url: str = ""


class CheckState(StrEnum):
    """The state of a check at a commit."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILURE = "failure"
    ERROR = "error"


class ForgeFaultKind(StrEnum):
    """Why a request to a forge failed."""

    LIMITED = "limited"
    """A rate limit."""
    UNREACHABLE = "unreachable"
    """No response, a timeout, or a server error."""
    DENIED = "denied"
    """The token is missing, invalid or lacks a right."""
    MISSING = "missing"
    """It does not exist, or is not visible with this token."""
    GARBLED = "garbled"
    """The response could not be parsed."""
    REFUSED = "refused"
    """The forge refuses the request."""


class ForgeFault(RemandError):  # noqa: N818 - the fault is the forge's
    """A request to a forge failed. Nothing is lost: the next poll retries."""

    def __init__(self, kind: ForgeFaultKind, message: str, until: Instant = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.until = until
        """When the forge may be called again; empty if unknown."""


class Usage(NamedTuple):
    """The requests since the forge was opened."""

    requests: int = 0
    not_modified: int = 0
    points: int = 0
    """Points of the primary rate limit, if the forge reports them."""


class CachedAnswer(Record, kw_only=True):
    """A response with its ETag, kept for conditional requests."""

    etag: str
    body: str
    next_page: str = ""


class AnswerCache(Protocol):
    """Responses kept between calls, inaccessible to agents."""

    def get(self, address: str) -> CachedAnswer | None:
        """The last response for an address."""

    def put(self, address: str, answer: CachedAnswer) -> None: ...


class PollMarks(Protocol):
    """Short notes from one poll to the next, inaccessible to agents."""

    def get(self, key: str) -> str:
        """Empty if there is none."""

    def put(self, key: str, value: str) -> None: ...


class PullReader(Protocol):
    """Reads pull requests with their reviews and comments."""

    @property
    def usage(self) -> Usage:
        """The requests since the forge was opened."""

    def change_marks(self, numbers: Sequence[int]) -> dict[int, str]:
        """A text per pull request that changes whenever it may have changed; missing ones are omitted."""

    def pull_request(self, number: int) -> PullRequest:
        """A complete pull request, all pages of it, or a fault."""


class Permissions(Protocol):
    """The permissions of accounts in the repository."""

    def may_write(self, account: Account) -> bool:
        """True if the account currently has write access."""


class ReviewWriter(Protocol):
    """Posts to a pull request or commit."""

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Sets the status `remand` of a commit."""

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        """Posts a review that requests changes; a comment if the forge refuses reviews of one's own work."""

    def comment(self, number: int, text: str) -> None:
        """Posts a comment in the discussion."""


class Pulls(Protocol):
    """Changes pull requests. A caller that is unsure whether a change happened must check before repeating it."""

    def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch of this repository into the base; None if there is none."""

    def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens one, as a draft if the forge supports drafts. A second one for the same branch is refused."""

    def mark_ready(self, number: int) -> None:
        """Marks a draft as ready for review; others remain unchanged."""

    def request_review(self, number: int, names: Sequence[str]) -> None:
        """Requests reviews from accounts by login or, if numeric, by id.

        Accounts that the forge does not accept are skipped; it is a fault if it accepts none.
        """

    def merge(self, number: int, commit: str) -> None:
        """Merges it if the forge confirms the commit as its head; otherwise refused."""


class Issues(Protocol):
    """The issues from which tasks are created."""

    def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues with a label, all pages, without pull requests."""

    def issue(self, number: int) -> ForgeIssue: ...

    def close_issue(self, number: int, text: str, *, is_done: bool) -> None:
        """Closes an issue with a comment, unless one with the same first line exists."""


class Forge(PullReader, Permissions, ReviewWriter, Pulls, Issues, Protocol):
    """One repository on a forge. All methods raise `ForgeFault` if the forge does not respond."""

    def close(self) -> None:
        """Closes connections."""


class Remote(Protocol):
    """The remote to which branches are pushed. All methods raise `ForgeFault` if it cannot be reached."""

    def tip(self, branch: str) -> str:
        """The commit of a branch there; empty if there is no such branch."""

    def is_main(self, branch: str) -> bool:
        """True for the default branch."""

    def is_ahead(self, commit: str, tip: str) -> bool:
        """True if a commit is a descendant of the tip, so that nothing would be lost."""

    def push(self, commit: str, branch: str, over: str) -> None:
        """Moves a branch from `over` to a commit, or creates it if `over` is empty; refused if it is elsewhere."""
