"""Pull requests read through GitHub's REST API, with conditional requests."""

from __future__ import annotations

from collections.abc import Sequence

from remand.adapters.forges.github_api import (
    KIND,
    GitHubApi,
    ReviewLineComment,
    account,
    comment_line,
    parse_time,
    pull_state,
    review_state,
    with_comments,
    without_review,
)
from remand.adapters.forges.transport import none_if_missing
from remand.domain.pull_request.records import Account, ForgeComment, ForgeReview, PullRequest
from remand.domain.record import Record

REPOSITORY = "/repos/{owner}/{name}"
# Addresses stay the same from poll to poll: an ETag holds for one address.
LATEST = f"{REPOSITORY}/pulls?state=all&sort=updated&direction=desc&per_page=100"
LATEST_COMMENTS = f"{REPOSITORY}/pulls/comments?sort=updated&direction=desc&per_page=100"
PULL = f"{REPOSITORY}/pulls/{{number}}"
PERMISSION = f"{REPOSITORY}/collaborators/{{login}}/permission"
WRITERS = ("write", "maintain", "admin")
READERS = ("none", "read", "triage")


class GitHubUser(Record, kw_only=True):
    """An account."""

    id: int
    login: str
    type: str = "User"

    def account(self) -> Account:
        """The account."""
        return account(self.id, self.login, is_bot=self.type == "Bot")


class GitHubHead(Record, kw_only=True):
    """Where a pull request comes from."""

    sha: str
    ref: str = ""


class GitHubPull(Record, kw_only=True):
    """A pull request."""

    number: int
    state: str
    head: GitHubHead
    updated_at: str
    html_url: str = ""
    user: GitHubUser | None = None
    merged_at: str | None = None
    merged_by: GitHubUser | None = None


class GitHubReview(Record, kw_only=True):
    """A review."""

    id: int
    state: str
    user: GitHubUser | None = None
    body: str | None = ""
    commit_id: str | None = ""
    submitted_at: str | None = ""
    html_url: str = ""


class GitHubComment(Record, kw_only=True):
    """What somebody wrote."""

    id: int
    body: str | None = ""
    user: GitHubUser | None = None
    created_at: str = ""
    updated_at: str = ""
    html_url: str = ""

    def comment(self) -> ForgeComment:
        """The remark as a comment on the whole."""
        return ForgeComment(
            id=str(self.id),
            text=self.body or "",
            author=self.user.account() if self.user else None,
            created_at=parse_time(self.created_at),
            updated_at=parse_time(self.updated_at),
            is_edited=self.updated_at != self.created_at,
            url=self.html_url,
        )


class GitHubLineComment(GitHubComment, kw_only=True):
    """What somebody wrote on a line."""

    path: str
    line: int | None = None
    original_line: int | None = None
    subject_type: str = "line"
    in_reply_to_id: int | None = None
    pull_request_review_id: int | None = None


class CommentUpdate(Record, kw_only=True):
    """A line comment, as far as it shows that its pull request has changed."""

    pull_request_url: str
    updated_at: str

    @property
    def number(self) -> int:
        """Its pull request's number."""
        last = self.pull_request_url.rpartition("/")[2]
        return int(last) if last.isascii() and last.isdigit() and len(last) < 12 else 0


class GitHubPermission(Record, kw_only=True):
    """What an account may do."""

    permission: str = ""
    role_name: str = ""
    user: GitHubUser | None = None


async def change_marks(api: GitHubApi, numbers: Sequence[int]) -> dict[int, str]:
    """A mark of each pull request that is there: those updated last in one question, others one by one."""
    latest = {pull.number: pull for pull in await api.get(LATEST, list[GitHubPull])}
    for number in sorted(set(numbers) - set(latest)):
        pull = await none_if_missing(api.get(PULL, GitHubPull, number=str(number)))
        if pull is not None:
            latest[number] = pull
    return {number: _mark(latest[number]) for number in numbers if number in latest}


def _mark(pull: GitHubPull) -> str:
    return " ".join((pull.updated_at, pull.head.sha, pull.state, pull.merged_at or ""))


async def latest_comment_times(api: GitHubApi) -> dict[int, str]:
    """When a line comment of each pull request was last written or edited, among those that were lately."""
    last: dict[int, str] = {}
    for comment in await api.get(LATEST_COMMENTS, list[CommentUpdate]):
        last[comment.number] = max(last.get(comment.number, ""), comment.updated_at)
    return last


async def pull_request(api: GitHubApi, number: int) -> PullRequest:
    """A pull request with every page. Reviews come first: the comments of one that is there are there too."""
    asked = {"number": str(number)}
    pull = await api.get(PULL, GitHubPull, **asked)
    reviews = await api.pages(f"{PULL}/reviews", list[GitHubReview], **asked)
    comments = await api.pages(f"{PULL}/comments", list[GitHubLineComment], **asked)
    remarks = await api.pages(f"{REPOSITORY}/issues/{{number}}/comments", list[GitHubComment], **asked)
    said = [_line_comment(one) for one in comments]
    return PullRequest(
        number=pull.number,
        head=pull.head.sha,
        state=pull_state(pull.state, is_merged=pull.merged_at is not None),
        branch=pull.head.ref,
        author=pull.user.account() if pull.user else None,
        merged_by=pull.merged_by.account() if pull.merged_by else None,
        merged_at=parse_time(pull.merged_at),
        url=pull.html_url,
        reviews=with_comments(map(_review, reviews), said),
        remarks=(*(remark.comment() for remark in remarks), *without_review(said)),
    )


def _review(given: GitHubReview) -> ForgeReview:
    return ForgeReview(
        id=str(given.id),
        state=review_state(given.state),
        author=given.user.account() if given.user else None,
        text=given.body or "",
        commit=given.commit_id or "",
        submitted_at=parse_time(given.submitted_at),
        updated_at=parse_time(given.submitted_at),
        url=given.html_url,
    )


def _line_comment(said: GitHubLineComment) -> ReviewLineComment:
    comment = ForgeComment(
        id=str(said.id),
        text=said.body or "",
        author=said.user.account() if said.user else None,
        path=said.path,
        line=comment_line(said.subject_type, said.line, said.original_line),
        created_at=parse_time(said.created_at),
        updated_at=parse_time(said.updated_at),
        is_outdated=said.line is None and said.subject_type != "file",
        reply_to=str(said.in_reply_to_id or ""),
        url=said.html_url,
    )
    return ReviewLineComment(comment, str(said.pull_request_review_id or ""))


async def may_write(api: GitHubApi, who: Account) -> bool:
    """True when the account, and not another by its login, may write now."""
    login = who.login.removeprefix(KIND)
    if not who.id.startswith(KIND) or not login:
        return False
    told = await none_if_missing(api.get(PERMISSION, GitHubPermission, login=login))
    if told is None:
        return False
    is_same = told.user is not None and told.user.account().id == who.id
    # A custom role has a name of its own, and `permission` tells what it amounts to.
    return is_same and told.permission in WRITERS and told.role_name not in READERS
