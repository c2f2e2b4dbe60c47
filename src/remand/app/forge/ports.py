"""What the use cases need of a forge: pull requests, issues, permissions and a remote; and how a request fails."""

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
    """The commit at its tip."""
    url: str = ""
    is_draft: bool = False


class ForgeIssue(Record, kw_only=True):
    """An issue as its author wrote it."""

    number: int
    title: str
    text: str = ""
    author: Account | None = None
    """None when the account is gone."""
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
    """No answer, a timeout, or an error of its own."""
    DENIED = "denied"
    """The token is missing, invalid or lacks a right."""
    MISSING = "missing"
    """It does not exist, or this token may not see it."""
    GARBLED = "garbled"
    """The answer could not be read."""
    REFUSED = "refused"
    """The forge understood, and will not do it."""


class ForgeFault(RemandError):  # noqa: N818 - the fault is the forge's
    """A request to a forge failed. Nothing is lost: the next poll asks again."""

    def __init__(self, kind: ForgeFaultKind, message: str, until: Instant = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.until = until
        """When the forge may be asked again; empty when it did not say."""


class Usage(NamedTuple):
    """The requests to the forge since it was opened."""

    requests: int = 0
    not_modified: int = 0
    points: int = 0
    """Of the primary rate limit, as far as the forge says."""


class CachedAnswer(Record, kw_only=True):
    """An answer with its ETag, kept so that the next request can be conditional."""

    etag: str
    body: str
    next_page: str = ""


class AnswerCache(Protocol):
    """Answers kept between calls, out of agents' reach."""

    def get(self, address: str) -> CachedAnswer | None:
        """The last answer of an address."""

    def put(self, address: str, answer: CachedAnswer) -> None: ...


class PollMarks(Protocol):
    """Short notes that a poll leaves for the next one, out of agents' reach."""

    def get(self, key: str) -> str:
        """Empty when nothing was noted."""

    def put(self, key: str, value: str) -> None: ...


class PullReader(Protocol):
    """Pull requests and what people wrote there, as a poll reads them."""

    @property
    def usage(self) -> Usage:
        """The requests since the forge was opened."""

    def change_marks(self, numbers: Sequence[int]) -> dict[int, str]:
        """A text for each pull request that changes whenever the pull request may have; those not there are left out."""

    def pull_request(self, number: int) -> PullRequest:
        """A pull request, whole: every page of it, or a fault."""


class Permissions(Protocol):
    """Who may do what in the repository."""

    def may_write(self, account: Account) -> bool:
        """True when the account may write to the repository now."""


class ReviewWriter(Protocol):
    """What is posted to a pull request or a commit."""

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Posts a status at a commit, as the check `remand`."""

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        """Posts a review that requests changes; a comment where the forge refuses one of one's own work."""

    def comment(self, number: int, text: str) -> None:
        """Posts a comment in the discussion."""


class Pulls(Protocol):
    """What is done with pull requests. Whoever does not know whether something was done looks before doing it again."""

    def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch of this very repository into the base; None when there is none."""

    def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens one, as a draft where the forge has drafts. A second one of the same branch is refused."""

    def mark_ready(self, number: int) -> None:
        """Makes a draft ready for review; any other stays as it is."""

    def request_review(self, number: int, names: Sequence[str]) -> None:
        """Asks accounts to review, by login or, when it is a number, by id.

        Accounts that the forge does not accept are left out; it is a fault when it accepts none.
        """

    def merge(self, number: int, commit: str) -> None:
        """Merges it while the commit is its head, by the forge's own comparison; refused otherwise."""


class Issues(Protocol):
    """The issues that tasks are made from."""

    def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues with a label, every page of them, without pull requests."""

    def issue(self, number: int) -> ForgeIssue: ...

    def close_issue(self, number: int, text: str, *, is_done: bool) -> None:
        """Closes an issue with a comment, unless one with the same first line is there already."""


class Forge(PullReader, Permissions, ReviewWriter, Pulls, Issues, Protocol):
    """One repository on a forge. Every method raises `ForgeFault` when the forge does not answer."""

    def close(self) -> None:
        """Closes connections."""


class Remote(Protocol):
    """Where branches are pushed to. Every method raises `ForgeFault` when it cannot be asked."""

    def tip(self, branch: str) -> str:
        """The commit that a branch is at there; empty when there is no such branch."""

    def is_main(self, branch: str) -> bool:
        """True for the branch that is checked out of it by default."""

    def is_ahead(self, commit: str, tip: str) -> bool:
        """True when a commit comes after what is there, so that nothing would be lost."""

    def push(self, commit: str, branch: str, over: str) -> None:
        """Puts a commit on a branch that is at `over` there, or is not there when that is empty; refused otherwise."""
