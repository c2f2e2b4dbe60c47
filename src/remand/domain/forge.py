"""A task on the forge: pull requests with reviews, comments and accounts as the forge reports them, and the actions that we have done there."""

from enum import StrEnum

from remand.domain.instant import Instant
from remand.domain.record import Record


class Account(Record, kw_only=True):
    """Who someone is on a forge. The id never changes; a login can be given up and taken by another."""

    id: str
    """Prefixed with the kind of forge: `github:583231`."""
    login: str
    """Prefixed likewise: `github:octocat`."""
    is_bot: bool = False


class ReviewState(StrEnum):
    """What a review on a forge says."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    COMMENTED = "commented"
    DISMISSED = "dismissed"
    PENDING = "pending"


class ForgeComment(Record, kw_only=True):
    """A comment on a line, a file, or the whole."""

    id: str
    text: str
    author: Account | None = None
    """None if the account no longer exists."""
    path: str = ""
    line: int = 0
    """0 for a comment on the file, or if the line no longer exists and was never reported."""
    created_at: Instant = ""
    updated_at: Instant = ""
    is_edited: bool = False
    """True if it was edited; on some forges others than its author may do that."""
    reply_to: str = ""
    """The id of the first comment of its thread; empty for the first comment."""

    @property
    def is_reply(self) -> bool:
        return bool(self.reply_to)


class ForgeReview(Record, kw_only=True):
    """A review as the forge reports it now; forges may bind it to another commit later."""

    id: str
    state: ReviewState
    author: Account | None = None
    text: str = ""
    commit: str = ""
    submitted_at: Instant = ""
    comments: tuple[ForgeComment, ...] = ()
    dismissed_by: Account | None = None
    """Who dismissed it; None if nobody did, a push did, or the forge does not say."""


class PullState(StrEnum):
    """The state of a pull request."""

    OPEN = "open"
    CLOSED = "closed"
    MERGED = "merged"


class PullRequest(Record, kw_only=True):
    """A pull request with its reviews and comments."""

    number: int
    head: str
    """The commit at its tip."""
    state: PullState = PullState.OPEN
    branch: str = ""
    author: Account | None = None
    merged_by: Account | None = None
    merged_at: Instant = ""
    url: str = ""
    reviews: tuple[ForgeReview, ...] = ()
    """All of them, oldest first."""
    remarks: tuple[ForgeComment, ...] = ()
    """The comments of its discussion, outside of reviews; oldest first."""


def is_listed_account(name: str, account: Account, first_id: str) -> bool:
    """True if a name in a member's entry means this account: its id, or a login that always had this id.

    `first_id` is the id that this login had when it was first seen, empty before that. A listed name of digits is an id,
    and no login: anybody may be called by a number.
    """
    if name == account.id:
        return True
    if name.rpartition(":")[2].isdigit():
        return False
    return first_id == account.id if first_id else name.casefold() == account.login.casefold()


def is_same_account(account: Account | None, other: Account | None) -> bool:
    """True if both are the same account. A deleted account equals no other."""
    return account is not None and other is not None and account.id == other.id


def account_name(account: Account | None) -> str:
    """The name of an account for people."""
    return account.login if account else "an account that is gone"


class ForgeAction(StrEnum):
    """The actions on the forge, in their order."""

    PUSH = "push"
    """Pushes the submitted commit to the task's branch there."""
    OPEN = "open"
    """Opens a draft pull request of that branch."""
    REQUEST = "request"
    """Marks the pull request as ready and requests reviews."""
    MERGE = "merge"
    CLOSE = "close"
    """Closes the issue from which the task was created."""


class PlannedAction(Record, kw_only=True):
    """An action that was begun and whose outcome is unknown."""

    act: ForgeAction
    about: str = ""
    """The commit; empty for an action on an issue."""
    tries: int = 0
    """How many times it failed."""
    until: Instant = ""
    """The earliest time of the next attempt."""
    why: str = ""
    """Why the last attempt failed."""


class AbandonedAction(Record, kw_only=True):
    """An action that is not attempted any more unless the user asks for it."""

    act: ForgeAction
    about: str = ""
    why: str = ""


class TaskForgeState(Record, kw_only=True):
    """The state of a task on the forge, as far as it follows from our own actions."""

    issue: int = 0
    """The number of the issue from which it was created."""
    pushed: str = ""
    """The last pushed commit."""
    requested: str = ""
    """The commit for which reviews were requested."""
    merged: str = ""
    is_closed: bool = False
    """True if the issue is closed."""
    is_branch_agents: bool = False
    """True if an agent named the branch when it submitted, and nobody had before."""
    intent: PlannedAction | None = None
    given_up: tuple[AbandonedAction, ...] = ()

    def find_abandoned(self, act: ForgeAction, about: str) -> AbandonedAction | None:
        """The action if it was abandoned."""
        return next((one for one in self.given_up if (one.act, one.about) == (act, about)), None)
