"""A task on the forge: pull requests with their reviews, comments and accounts as the forge reports them, and how far we have come there."""

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


class ForgeComment(Record, kw_only=True):
    """A comment on a line, a file, or the whole."""

    id: str
    text: str
    author: Account | None = None
    """None when the account is gone."""
    path: str = ""
    line: int = 0
    """0 when it is about the file, or the line is gone and was never reported."""
    created_at: Instant = ""
    updated_at: Instant = ""
    is_edited: bool = False
    """Changed since it was made; on some forges by others than its author."""
    reply_to: str = ""
    """The id of the first comment of its thread; empty for that comment itself."""

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
    """Who dismissed it; None when nobody did, or the forge does not say, or a push did."""


class PullState(StrEnum):
    """Where a pull request is."""

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
    """Oldest first, every page of them."""
    remarks: tuple[ForgeComment, ...] = ()
    """The comments of its discussion, outside of reviews; oldest first."""


def is_listed_account(name: str, account: Account, first_id: str) -> bool:
    """True when a name that a member lists is this account: its id, or a login that always had this id.

    `first_id` is the id that this login had when it was first seen, empty before that. A listed name of digits is an id,
    and no login: anybody may be called by a number.
    """
    if name == account.id:
        return True
    if name.rpartition(":")[2].isdigit():
        return False
    return first_id == account.id if first_id else name.casefold() == account.login.casefold()


def is_same_account(account: Account | None, other: Account | None) -> bool:
    """True when both are the same account. One that is gone is nobody's."""
    return account is not None and other is not None and account.id == other.id


def account_name(account: Account | None) -> str:
    """What people know an account by."""
    return account.login if account else "an account that is gone"


class ForgeAction(StrEnum):
    """Something that is done on the forge, in the order in which it comes."""

    PUSH = "push"
    """The submitted commit goes to the task's branch there."""
    OPEN = "open"
    """A draft pull request of that branch."""
    REQUEST = "request"
    """The pull request is ready, and reviewers are asked."""
    MERGE = "merge"
    CLOSE = "close"
    """The issue that the task was made from."""


class PlannedAction(Record, kw_only=True):
    """An action that is begun, and not known to have happened."""

    act: ForgeAction
    about: str = ""
    """The commit; empty when it is about an issue."""
    tries: int = 0
    """How often it failed."""
    until: Instant = ""
    """Before this it is not tried again."""
    why: str = ""
    """What was wrong the last time."""


class AbandonedAction(Record, kw_only=True):
    """An action that is not tried any more, unless the user has it tried again."""

    act: ForgeAction
    about: str = ""
    why: str = ""


class TaskForgeState(Record, kw_only=True):
    """How far a task has come on the forge, by our own doing."""

    issue: int = 0
    """The number of the issue it was made from."""
    pushed: str = ""
    """The commit that was pushed last."""
    requested: str = ""
    """The commit that reviewers were asked to look at."""
    merged: str = ""
    is_closed: bool = False
    """The issue is."""
    is_branch_agents: bool = False
    """An agent named the branch when it submitted, and nobody before."""
    intent: PlannedAction | None = None
    given_up: tuple[AbandonedAction, ...] = ()

    def find_abandoned(self, act: ForgeAction, about: str) -> AbandonedAction | None:
        """The action, when it is not tried any more."""
        return next((one for one in self.given_up if (one.act, one.about) == (act, about)), None)
