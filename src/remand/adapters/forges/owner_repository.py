"""What GitHub and Gitea, whose API is modelled on GitHub's, have in common: repositories of an owner, JSON and requests."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote

from remand.adapters.forges import client
from remand.app.errors import UsageError
from remand.app.forge.ports import CheckState, ForgeIssue
from remand.domain.forge import (
    Account,
    ForgeComment,
    ForgeReview,
    PullRequest,
    PullState,
    ReviewState,
)
from remand.domain.record import Record
from remand.domain.text.words import shorten


class RepositoryUser(Record, kw_only=True):
    id: int
    login: str = ""
    type: str = "User"
    """`Bot` for bots on GitHub."""


class RepositoryName(Record, kw_only=True):
    full_name: str | None = None


class RepositoryBranch(Record, kw_only=True):
    """One end of a pull request, with its repository: by name on GitHub, by id on Gitea."""

    sha: str = ""
    ref: str = ""
    repo: RepositoryName | None = None
    repo_id: int = 0


class RepositoryPull(Record, kw_only=True):
    """A pull request, in a list or alone; each forge has some of the optional fields."""

    id: int
    number: int
    state: str
    head: RepositoryBranch | None = None
    base: RepositoryBranch | None = None
    title: str = ""
    node_id: str = ""
    draft: bool = False
    user: RepositoryUser | None = None
    merged: bool | None = None
    merged_at: str | None = None
    merged_by: RepositoryUser | None = None
    updated_at: str | None = None
    comments: int | None = None
    review_comments: int | None = None
    html_url: str | None = None

    @property
    def source(self) -> RepositoryBranch:
        return self.head or RepositoryBranch()

    @property
    def target(self) -> RepositoryBranch:
        return self.base or RepositoryBranch()


class RepositoryComment(Record, kw_only=True):
    """A comment in the discussion of a pull request or an issue."""

    id: int
    user: RepositoryUser | None = None
    body: str | None = None
    created_at: str | None = None
    updated_at: str | None = None


class RepositoryLabel(Record, kw_only=True):
    name: str | None = None


class RepositoryIssue(Record, kw_only=True):
    """An issue, or a pull request, which the forges list as an issue too."""

    id: int
    number: int
    title: str
    state: str
    body: str | None = None
    user: RepositoryUser | None = None
    labels: tuple[RepositoryLabel | str, ...] | None = ()
    created_at: str | None = None
    html_url: str | None = None
    pull_request: dict[str, object] | None = None


class OwnerRepositoryClient(client.ForgeClient):
    """The requests that GitHub and Gitea share."""

    _max_status: int
    _issue_query: str

    def __init__(self, repository: str, forges: str) -> None:
        owner, _, name = repository.partition("/")
        if not owner or not name or "/" in name:
            raise UsageError(f"{repository} is not a repository on {forges}. Write it as OWNER/NAME.")
        self._owner, self._full_name = owner, repository.casefold()
        self._repository = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"

    @abstractmethod
    def _account(self, user: RepositoryUser | None) -> Account | None:
        """The account of a user; None if it was deleted."""

    @abstractmethod
    def _line_data(self, comment: ForgeComment) -> dict[str, object]:
        """The fields that place a new line comment."""

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        data = {
            "context": client.CHECK_NAME,
            "state": state.value,
            "description": shorten(text, self._max_status),
        }
        self._rest.send(f"{self._repository}/statuses/{quote(commit, safe='')}", data)

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        def submit(event: str, placed: Sequence[ForgeComment]) -> None:
            others = [comment for comment in comments if comment not in placed]
            review = {
                "commit_id": commit,
                "event": event,
                "body": shorten(client.review_text(text, others), client.MAX_TEXT),
                "comments": [
                    {**self._line_data(comment), "body": shorten(comment.text, client.MAX_TEXT)}
                    for comment in placed
                ],
            }
            self._rest.send(f"{self._pull(number)}/reviews", review)

        return client.submit_review(comments, submit)

    def comment(self, number: int, text: str) -> None:
        reply = self._rest.send(f"{self._issue(number)}/comments", {"body": shorten(text, client.MAX_TEXT)})
        self._rest.read(reply, RepositoryComment)

    def issue(self, number: int) -> ForgeIssue:
        return self._make_issue(self._rest.get(self._issue(number), RepositoryIssue))

    def _issues(self, label: str) -> Iterator[ForgeIssue]:
        """The open issues with a label; for an unknown label, Gitea returns all."""
        path = f"{self._repository}/issues?{self._issue_query}&labels={quote(label, safe='')}"
        issues = self._rest.list_all(path, RepositoryIssue)
        return (self._make_issue(issue) for issue in issues if issue.pull_request is None)

    def _issue_comments(self, number: int) -> list[str]:
        comments = self._rest.list_all(f"{self._issue(number)}/comments", RepositoryComment)
        return [comment.body or "" for comment in comments]

    def _comment_on_issue(self, number: int, text: str) -> None:
        self.comment(number, text)

    def _pull(self, number: int) -> str:
        return f"{self._repository}/pulls/{number}"

    def _issue(self, number: int) -> str:
        return f"{self._repository}/issues/{number}"

    def _make_issue(self, issue: RepositoryIssue) -> ForgeIssue:
        names = (label if isinstance(label, str) else label.name for label in issue.labels or ())
        return ForgeIssue(
            number=issue.number,
            title=issue.title,
            text=issue.body or "",
            author=self._account(issue.user),
            labels=tuple(name for name in names if name),
            opened_at=client.parse_time(issue.created_at),
            is_open=issue.state == "open",
            url=issue.html_url or "",
        )

    def _make_comment(
        self, comment: RepositoryComment, path: str = "", line: int = 0, reply_to: str = ""
    ) -> ForgeComment:
        """A comment. `is_edited` is set only for those of the discussion, which may contain commands."""
        return ForgeComment(
            id=str(comment.id),
            text=comment.body or "",
            author=self._account(comment.user),
            path=path,
            line=line,
            created_at=client.parse_time(comment.created_at),
            updated_at=client.parse_time(comment.updated_at),
            is_edited=not path and comment.updated_at != comment.created_at,
            reply_to=reply_to,
        )

    def _make_pull_request(
        self,
        pull: RepositoryPull,
        state: PullState,
        reviews: Iterable[ForgeReview],
        remarks: Iterable[ForgeComment],
    ) -> PullRequest:
        return PullRequest(
            number=pull.number,
            head=pull.source.sha,
            state=state,
            branch=pull.source.ref,
            author=self._account(pull.user),
            merged_by=self._account(pull.merged_by),
            merged_at=client.parse_time(pull.merged_at),
            url=pull.html_url or "",
            reviews=tuple(reviews),
            remarks=tuple(remarks),
        )
