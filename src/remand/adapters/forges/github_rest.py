"""Pull requests as GitHub's REST tells them, every question a conditional one."""

from __future__ import annotations

from collections.abc import Sequence

from remand.adapters.forges.faults import if_there
from remand.adapters.forges.github_api import Api
from remand.adapters.forges.github_shapes import (
    KIND,
    Said,
    account,
    at,
    line_of,
    pull_state,
    review_state,
    with_comments,
    without_review,
)
from remand.domain.pulls.shapes import Account, Comment, PullRequest, Review
from remand.domain.record import Record

REPOSITORY = "/repos/{owner}/{name}"
# Addresses stay the same from poll to poll: an ETag holds for one address.
LATEST = f"{REPOSITORY}/pulls?state=all&sort=updated&direction=desc&per_page=100"
LATEST_COMMENTS = f"{REPOSITORY}/pulls/comments?sort=updated&direction=desc&per_page=100"
PULL = f"{REPOSITORY}/pulls/{{number}}"
PERMISSION = f"{REPOSITORY}/collaborators/{{login}}/permission"
WRITERS = ("write", "maintain", "admin")
READERS = ("none", "read", "triage")


class User(Record, kw_only=True):
    """An account."""

    id: int
    login: str
    type: str = "User"

    def account(self) -> Account:
        """The account."""
        return account(self.id, self.login, is_bot=self.type == "Bot")


class Head(Record, kw_only=True):
    """Where a pull request comes from."""

    sha: str
    ref: str = ""


class Pull(Record, kw_only=True):
    """A pull request."""

    number: int
    state: str
    head: Head
    updated_at: str
    html_url: str = ""
    user: User | None = None
    merged_at: str | None = None
    merged_by: User | None = None


class GivenReview(Record, kw_only=True):
    """A review."""

    id: int
    state: str
    user: User | None = None
    body: str | None = ""
    commit_id: str | None = ""
    submitted_at: str | None = ""
    html_url: str = ""


class Remark(Record, kw_only=True):
    """What somebody wrote."""

    id: int
    body: str | None = ""
    user: User | None = None
    created_at: str = ""
    updated_at: str = ""
    html_url: str = ""

    def comment(self) -> Comment:
        """The remark as a comment on the whole."""
        return Comment(
            id=str(self.id),
            text=self.body or "",
            author=self.user.account() if self.user else None,
            created_at=at(self.created_at),
            updated_at=at(self.updated_at),
            is_edited=self.updated_at != self.created_at,
            url=self.html_url,
        )


class LineRemark(Remark, kw_only=True):
    """What somebody wrote on a line."""

    path: str
    line: int | None = None
    original_line: int | None = None
    subject_type: str = "line"
    in_reply_to_id: int | None = None
    pull_request_review_id: int | None = None


class Touched(Record, kw_only=True):
    """A line comment, as far as it shows that its pull request has changed."""

    pull_request_url: str
    updated_at: str

    @property
    def number(self) -> int:
        """Its pull request's number."""
        last = self.pull_request_url.rpartition("/")[2]
        return int(last) if last.isascii() and last.isdigit() and len(last) < 12 else 0


class Permission(Record, kw_only=True):
    """What an account may do."""

    permission: str = ""
    role_name: str = ""
    user: User | None = None


async def glance(api: Api, numbers: Sequence[int]) -> dict[int, str]:
    """A mark of each pull request that is there: those updated last in one question, others one by one."""
    latest = {pull.number: pull for pull in await api.get(LATEST, list[Pull])}
    for number in sorted(set(numbers) - set(latest)):
        pull = await if_there(api.get(PULL, Pull, number=str(number)))
        if pull is not None:
            latest[number] = pull
    return {number: _mark(latest[number]) for number in numbers if number in latest}


def _mark(pull: Pull) -> str:
    return " ".join((pull.updated_at, pull.head.sha, pull.state, pull.merged_at or ""))


async def touched(api: Api) -> dict[int, str]:
    """When a line comment of each pull request was last written or edited, among those that were lately."""
    last: dict[int, str] = {}
    for comment in await api.get(LATEST_COMMENTS, list[Touched]):
        last[comment.number] = max(last.get(comment.number, ""), comment.updated_at)
    return last


async def pull_request(api: Api, number: int) -> PullRequest:
    """A pull request with every page. Reviews come first: the comments of one that is there are there too."""
    asked = {"number": str(number)}
    pull = await api.get(PULL, Pull, **asked)
    reviews = await api.pages(f"{PULL}/reviews", list[GivenReview], **asked)
    comments = await api.pages(f"{PULL}/comments", list[LineRemark], **asked)
    remarks = await api.pages(f"{REPOSITORY}/issues/{{number}}/comments", list[Remark], **asked)
    said = [_line_comment(one) for one in comments]
    return PullRequest(
        number=pull.number,
        head=pull.head.sha,
        state=pull_state(pull.state, is_merged=pull.merged_at is not None),
        branch=pull.head.ref,
        author=pull.user.account() if pull.user else None,
        merged_by=pull.merged_by.account() if pull.merged_by else None,
        merged_at=at(pull.merged_at),
        url=pull.html_url,
        reviews=with_comments(map(_review, reviews), said),
        remarks=(*(remark.comment() for remark in remarks), *without_review(said)),
    )


def _review(given: GivenReview) -> Review:
    return Review(
        id=str(given.id),
        state=review_state(given.state),
        author=given.user.account() if given.user else None,
        text=given.body or "",
        commit=given.commit_id or "",
        submitted_at=at(given.submitted_at),
        updated_at=at(given.submitted_at),
        url=given.html_url,
    )


def _line_comment(said: LineRemark) -> Said:
    comment = Comment(
        id=str(said.id),
        text=said.body or "",
        author=said.user.account() if said.user else None,
        path=said.path,
        line=line_of(said.subject_type, said.line, said.original_line),
        created_at=at(said.created_at),
        updated_at=at(said.updated_at),
        is_outdated=said.line is None and said.subject_type != "file",
        reply_to=str(said.in_reply_to_id or ""),
        url=said.html_url,
    )
    return Said(comment, str(said.pull_request_review_id or ""))


async def may_write(api: Api, who: Account) -> bool:
    """True when the account, and not another by its login, may write now."""
    login = who.login.removeprefix(KIND)
    if not who.id.startswith(KIND) or not login:
        return False
    told = await if_there(api.get(PERMISSION, Permission, login=login))
    if told is None:
        return False
    is_same = told.user is not None and told.user.account().id == who.id
    # A custom role has a name of its own, and `permission` tells what it amounts to.
    return is_same and told.permission in WRITERS and told.role_name not in READERS
