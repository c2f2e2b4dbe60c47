"""What GitLab says, as its API tells it, and what it means here."""

from __future__ import annotations

import re

from remand.domain.instant import Instant, parse
from remand.domain.pulls.shapes import Account, PullState
from remand.domain.record import Record

KIND = "gitlab"
GHOST = "ghost"
"""Who has said what was said by accounts that are gone."""
BOT = re.compile(r"(project|group)_\d+_bot(_[0-9a-z]+)?")
"""The accounts that project and group tokens go by."""
DEVELOPER = 30
"""From this access level on a member may push."""
STATES = {"merged": PullState.MERGED, "closed": PullState.CLOSED}


class User(Record, kw_only=True):
    """An account."""

    id: int
    username: str = ""
    bot: bool | None = None


class DiffRefs(Record, kw_only=True):
    """The commits a diff is made of."""

    base_sha: str | None = None
    start_sha: str | None = None
    head_sha: str | None = None


class MergeRequest(Record, kw_only=True):
    """A merge request, in a list or alone."""

    iid: int
    state: str
    sha: str | None = None
    diff_refs: DiffRefs | None = None
    source_branch: str | None = None
    author: User | None = None
    merge_user: User | None = None
    merged_by: User | None = None
    merged_at: str | None = None
    updated_at: str | None = None
    user_notes_count: int | None = None
    detailed_merge_status: str | None = None
    blocking_discussions_resolved: bool | None = None
    web_url: str | None = None

    @property
    def head(self) -> str:
        """The commit at its tip."""
        refs = self.diff_refs or DiffRefs()
        return self.sha or refs.head_sha or ""

    @property
    def glance(self) -> str:
        """Changes with every push and every note, those of the system among them."""
        said = f"{self.user_notes_count} {self.blocking_discussions_resolved}"
        return f"{self.updated_at} {self.head} {self.state} {said} {self.detailed_merge_status}"


class Version(Record, kw_only=True):
    """A diff of the merge request as it was after a push."""

    id: int
    head_commit_sha: str | None = None
    created_at: str | None = None


class Position(Record, kw_only=True):
    """Where in a diff a note stands. One whose line has changed since keeps the commits it was written for."""

    head_sha: str | None = None
    new_path: str | None = None
    old_path: str | None = None
    new_line: int | None = None
    old_line: int | None = None


class Note(Record, kw_only=True):
    """Something said, by a person or (`system`) by GitLab about what a person did."""

    id: int
    created_at: str
    body: str | None = None
    author: User | None = None
    updated_at: str | None = None
    system: bool = False
    resolvable: bool | None = None
    resolved: bool | None = None
    position: Position | None = None


class Discussion(Record, kw_only=True):
    """Notes that belong together. An individual note is no thread and cannot be resolved."""

    id: str
    notes: tuple[Note, ...]
    individual_note: bool = False


class Reviewer(Record, kw_only=True):
    """Somebody who is asked to review, and where they are with it."""

    state: str
    user: User | None = None
    created_at: str | None = None
    """When they were asked, which says nothing of the state."""


class Approval(Record, kw_only=True):
    """An approval that stands."""

    user: User | None = None
    approved_at: str | None = None
    """Not told by older servers."""


class Approvals(Record, kw_only=True):
    """Who approves of a merge request now."""

    approved_by: tuple[Approval, ...]


class Member(Record, kw_only=True):
    """What somebody may do in a project, by membership there or in a group above."""

    id: int
    username: str
    access_level: int
    state: str = "active"

    def is_writer(self, account: Account) -> bool:
        """True when this is the account, under the name it goes by now, and it may push."""
        is_same = account.id == f"{KIND}:{self.id}" and account.login == f"{KIND}:{self.username}"
        return is_same and self.state == "active" and self.access_level >= DEVELOPER


def account(user: User | None) -> Account | None:
    """Who somebody is; None when the account is gone."""
    if user is None or user.username == GHOST:
        return None
    is_bot = bool(user.bot) or BOT.fullmatch(user.username) is not None
    return Account(id=f"{KIND}:{user.id}", login=f"{KIND}:{user.username}", is_bot=is_bot)


def at(time: str | None) -> Instant:
    """A time as an instant; empty when it is none."""
    return parse(time or "") or ""
