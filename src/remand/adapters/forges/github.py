"""The client for repositories on GitHub, through its REST API."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from urllib.parse import quote, urlsplit

from remand.adapters.forges.client import (
    CHECK_NAME,
    MAX_TEXT,
    MAX_TITLE,
    ForgeClient,
    ForgeService,
    RestClient,
    parse_time,
    review_text,
    submit_review,
    try_each,
)
from remand.adapters.forges.transport import WORDS, Transport, printable_text
from remand.app.errors import UsageError
from remand.app.forge.ports import (
    AnswerCache,
    CheckState,
    ForgeFault,
    ForgeFaultKind,
    ForgeIssue,
    OpenPull,
)
from remand.app.ports import Clock
from remand.domain.pull_request.records import (
    Account,
    ForgeComment,
    ForgeReview,
    PullRequest,
    PullState,
    ReviewState,
)
from remand.domain.record import Record
from remand.domain.text.visible import shorten

API = "https://api.github.com"
TOKEN_NAME = "GITHUB_TOKEN"  # noqa: S105 - the name of the variable
VERSION = "2022-11-28"
KIND = "github:"
BOT = "[bot]"
MAX_STATUS = 140
MAX_NUMBER = (1 << 31) - 1
PER_PAGE = 100
MERGE_METHODS = ("merge", "squash", "rebase")
"""A repository may allow some of them only."""
NOT_ALLOWED = "not allowed on this repository"
NO_DRAFTS = "draft pull requests are not supported"
WRITERS = ("write", "maintain", "admin")
READERS = ("none", "read", "triage")
READY = """
mutation Ready($id: ID!) {
  markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } }
}
"""
"""The one thing that the REST API cannot do: it makes a draft ready for review."""
GH_SECONDS = 30.0


class GitHubUser(Record, kw_only=True):
    id: int
    login: str
    type: str = "User"

    def account(self) -> Account:
        is_bot = self.type == "Bot"
        name = self.login if not is_bot or self.login.endswith(BOT) else self.login + BOT
        return Account(id=f"{KIND}{self.id}", login=f"{KIND}{name}", is_bot=is_bot)


class GitHubRepositoryName(Record, kw_only=True):
    full_name: str | None = None


class GitHubBranch(Record, kw_only=True):
    """One end of a pull request."""

    sha: str
    ref: str = ""
    repo: GitHubRepositoryName | None = None


class GitHubPull(Record, kw_only=True):
    number: int
    state: str
    head: GitHubBranch
    updated_at: str
    base: GitHubBranch | None = None
    id: int
    node_id: str = ""
    draft: bool = False
    html_url: str = ""
    user: GitHubUser | None = None
    merged_at: str | None = None
    merged_by: GitHubUser | None = None

    def open_pull(self) -> OpenPull:
        return OpenPull(number=self.number, head=self.head.sha, url=self.html_url, is_draft=self.draft)

    @property
    def change_mark(self) -> str:
        return " ".join((self.updated_at, self.head.sha, self.state, self.merged_at or ""))

    @property
    def pull_state(self) -> PullState:
        if self.merged_at is not None:
            return PullState.MERGED
        try:
            return PullState(self.state.lower())
        except ValueError:
            raise ForgeFault(
                ForgeFaultKind.GARBLED, "GitHub returned an unknown state of a pull request."
            ) from None


class GitHubReview(Record, kw_only=True):
    id: int
    state: str
    user: GitHubUser | None = None
    body: str | None = ""
    commit_id: str | None = ""
    submitted_at: str | None = ""
    html_url: str = ""

    def review(self, comments: Sequence[ForgeComment]) -> ForgeReview:
        return ForgeReview(
            id=str(self.id),
            state=self.review_state,
            author=_account(self.user),
            text=self.body or "",
            commit=self.commit_id or "",
            submitted_at=parse_time(self.submitted_at),
            updated_at=parse_time(self.submitted_at),
            comments=tuple(comments),
            url=self.html_url,
        )

    @property
    def review_state(self) -> ReviewState:
        """A state that is not known yet counts as a comment."""
        try:
            return ReviewState(self.state.lower())
        except ValueError:
            return ReviewState.COMMENTED


class GitHubComment(Record, kw_only=True):
    """A comment in the discussion of a pull request or an issue."""

    id: int
    body: str | None = ""
    user: GitHubUser | None = None
    created_at: str = ""
    updated_at: str = ""
    html_url: str = ""

    def comment(self) -> ForgeComment:
        return ForgeComment(
            id=str(self.id),
            text=self.body or "",
            author=_account(self.user),
            created_at=parse_time(self.created_at),
            updated_at=parse_time(self.updated_at),
            is_edited=self.updated_at != self.created_at,
            url=self.html_url,
        )


class GitHubLineComment(GitHubComment, kw_only=True):
    """A comment on a line, or on a file."""

    path: str
    line: int | None = None
    original_line: int | None = None
    subject_type: str = "line"
    in_reply_to_id: int | None = None
    pull_request_review_id: int | None = None

    def comment(self) -> ForgeComment:
        """The comment at its line; at the one it was on when that is gone, and at none for a whole file."""
        is_on_file = self.subject_type.lower() == "file"
        return ForgeComment(
            id=str(self.id),
            text=self.body or "",
            author=_account(self.user),
            path=self.path,
            line=0 if is_on_file else self.line or self.original_line or 0,
            created_at=parse_time(self.created_at),
            updated_at=parse_time(self.updated_at),
            reply_to=str(self.in_reply_to_id or ""),
            url=self.html_url,
        )


class CommentUpdate(Record, kw_only=True):
    """A line comment, as far as it shows that its pull request has changed."""

    pull_request_url: str
    updated_at: str

    @property
    def number(self) -> int:
        last = self.pull_request_url.rpartition("/")[2]
        return int(last) if last.isascii() and last.isdigit() and len(last) < 12 else 0


class GitHubPermission(Record, kw_only=True):
    permission: str = ""
    role_name: str = ""
    user: GitHubUser | None = None


class GitHubLabel(Record, kw_only=True):
    name: str | None = None


class GitHubIssue(Record, kw_only=True):
    """An issue, or a pull request, which GitHub lists as one too."""

    id: int
    number: int
    title: str
    state: str
    body: str | None = None
    user: GitHubUser | None = None
    labels: tuple[GitHubLabel | str, ...] = ()
    created_at: str = ""
    html_url: str = ""
    pull_request: dict[str, object] | None = None

    def issue(self) -> ForgeIssue:
        names = (label if isinstance(label, str) else label.name for label in self.labels)
        return ForgeIssue(
            number=self.number,
            title=self.title,
            text=self.body or "",
            author=_account(self.user),
            labels=tuple(name for name in names if name),
            opened_at=parse_time(self.created_at),
            is_open=self.state == "open",
            url=self.html_url,
        )


class GraphqlError(Record, kw_only=True):
    message: str = ""
    type: str = ""


class GraphqlAnswer(Record, kw_only=True):
    data: dict[str, object] | None = None
    errors: tuple[GraphqlError, ...] = ()


def _account(user: GitHubUser | None) -> Account | None:
    return user.account() if user is not None else None


class GitHub(ForgeClient):
    """Implements `Forge`. It keeps its connections until it is closed."""

    def __init__(
        self,
        repository: str,
        *,
        clock: Clock,
        memory: AnswerCache,
        api: str = "",
        token: str = "",
        transport: Transport | None = None,
    ) -> None:
        owner, _, name = repository.partition("/")
        if not owner or not name or "/" in name:
            raise UsageError(f"{repository} is not a repository on GitHub. Write it as OWNER/NAME.")
        if not token.isascii() or not token.isprintable():
            raise ForgeFault(
                ForgeFaultKind.DENIED,
                f"{TOKEN_NAME} contains no token: it has characters that cannot be sent.",
            )
        self._owner, self._full_name, self._token = owner, repository.casefold(), token
        self._api = (api or API).rstrip("/")
        self._repository = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
        service = ForgeService(
            forge="GitHub",
            api=self._api,
            token=token,
            token_name=TOKEN_NAME,
            headers={
                "accept": "application/vnd.github+json",
                "x-github-api-version": VERSION,
                "authorization": f"token {token}",
            },
            page_parameter="per_page",
            page_size=PER_PAGE,
        )
        self._rest = RestClient(service, clock, memory, transport)

    def change_marks(self, numbers: Sequence[int]) -> dict[int, str]:
        """A mark of each pull request, from the lists of the last updated pull requests and line comments.

        GitHub does not call a pull request updated when a line comment is edited. A pull request that is not on the
        list is asked for on its own.
        """
        wanted = sorted({number for number in numbers if 0 < number <= MAX_NUMBER})
        if not wanted:
            return {}
        # Addresses stay the same from poll to poll: an ETag is valid for one address.
        latest_first = f"sort=updated&direction=desc&per_page={PER_PAGE}"
        pulls = {
            pull.number: pull
            for pull in self._rest.get(f"{self._repository}/pulls?state=all&{latest_first}", list[GitHubPull])
        }
        for number in wanted:
            if number not in pulls:
                pull = self._rest.get_if_present(self._pull(number), GitHubPull)
                pulls |= {number: pull} if pull is not None else {}
        edits: dict[int, str] = {}
        comments = self._rest.get(f"{self._repository}/pulls/comments?{latest_first}", list[CommentUpdate])
        for comment in comments:
            edits[comment.number] = max(edits.get(comment.number, ""), comment.updated_at)
        return {
            number: f"{pulls[number].change_mark} {edits.get(number, '')}"
            for number in wanted
            if number in pulls
        }

    def pull_request(self, number: int) -> PullRequest:
        """A pull request with every page."""
        place = self._pull(number)
        pull = self._rest.get(place, GitHubPull)
        # Reviews come first: when one is listed, its comments are there too.
        reviews = self._rest.list_all(f"{place}/reviews", GitHubReview)
        line_comments: dict[int | None, list[ForgeComment]] = defaultdict(list)
        for comment in self._rest.list_all(f"{place}/comments", GitHubLineComment):
            line_comments[comment.pull_request_review_id].append(comment.comment())
        discussion = self._rest.list_all(f"{self._issue(number)}/comments", GitHubComment)
        return PullRequest(
            number=pull.number,
            head=pull.head.sha,
            state=pull.pull_state,
            branch=pull.head.ref,
            author=_account(pull.user),
            merged_by=_account(pull.merged_by),
            merged_at=parse_time(pull.merged_at),
            url=pull.html_url,
            reviews=tuple(
                review.review(line_comments[review.id])
                for review in reviews
                if review.review_state is not ReviewState.PENDING
            ),
            remarks=(*(comment.comment() for comment in discussion), *line_comments[None]),
        )

    def may_write(self, account: Account) -> bool:
        """True when this account, and not another by its login, may write now."""
        login = account.login.removeprefix(KIND)
        if not account.id.startswith(KIND) or not login:
            return False
        path = f"{self._repository}/collaborators/{quote(login, safe='')}/permission"
        found = self._rest.get_if_present(path, GitHubPermission)
        if found is None or found.user is None or found.user.account().id != account.id:
            return False
        # A custom role has a name of its own; `permission` says which right it includes.
        return found.permission in WRITERS and found.role_name not in READERS

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        data = {"state": state.value, "context": CHECK_NAME, "description": shorten(text, MAX_STATUS)}
        self._rest.send(f"{self._repository}/statuses/{quote(commit, safe='')}", data)

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        def submit(event: str, placed: Sequence[ForgeComment]) -> None:
            others = [comment for comment in comments if comment not in placed]
            review = {
                "commit_id": commit,
                "event": event,
                "body": shorten(review_text(text, others), MAX_TEXT),
                "comments": [
                    {
                        "path": comment.path,
                        "line": comment.line,
                        "side": "RIGHT",
                        "body": shorten(comment.text, MAX_TEXT),
                    }
                    for comment in placed
                ],
            }
            self._rest.send(f"{self._pull(number)}/reviews", review)

        return submit_review(comments, submit)

    def comment(self, number: int, text: str) -> None:
        self._rest.send(f"{self._issue(number)}/comments", {"body": shorten(text, MAX_TEXT)})

    def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch; those of other repositories' branches by that name do not count."""
        ends = f"head={quote(f'{self._owner}:{branch}', safe='')}&base={quote(base, safe='')}"
        for pull in self._rest.list_all(f"{self._repository}/pulls?state=open&{ends}", GitHubPull):
            home = ((pull.head.repo or GitHubRepositoryName()).full_name or "").casefold()
            into = pull.base.ref if pull.base is not None else ""
            if (home, pull.head.ref, into, pull.state) == (self._full_name, branch, base, "open"):
                return pull.open_pull()
        return None

    def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a draft; where a repository has none, an ordinary pull request."""
        path = f"{self._repository}/pulls"
        data = {
            "title": title[:MAX_TITLE],
            "head": branch,
            "base": base,
            "body": shorten(text, MAX_TEXT),
            "draft": True,
        }
        try:
            reply = self._rest.send(path, data)
        except ForgeFault as fault:
            if fault.kind is not ForgeFaultKind.REFUSED or NO_DRAFTS not in str(fault).casefold():
                raise
            reply = self._rest.send(path, {**data, "draft": False})
        return self._rest.read(reply, GitHubPull).open_pull()

    def mark_ready(self, number: int) -> None:
        """Makes a draft ready for review, which only GraphQL can; its answer to an error has the status 200."""
        pull = self._rest.get(self._pull(number), GitHubPull)
        if not pull.draft:
            return
        try:
            reply = self._rest.send(
                graphql_address(self._api), {"query": READY, "variables": {"id": pull.node_id}}
            )
        except ForgeFault as fault:
            if fault.kind not in (ForgeFaultKind.DENIED, ForgeFaultKind.MISSING):
                raise
            raise ForgeFault(
                ForgeFaultKind.REFUSED,
                "GitHub can mark drafts as ready only through GraphQL, which is not available here. "
                f"Mark pull request #{number} as ready for review manually.",
            ) from None
        errors = self._rest.read(reply, GraphqlAnswer).errors
        if not errors:
            return
        message, types = printable_text(errors[0].message, self._token), {error.type for error in errors}
        if types & {"RATE_LIMITED", "RATE_LIMIT"} or any(word in message.casefold() for word in WORDS):
            raise self._rest.limits.note_limit(reply)
        if types & {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
            raise ForgeFault(
                ForgeFaultKind.DENIED,
                f"GitHub does not allow this ({message}). Give the token of {TOKEN_NAME} the right to write "
                "pull requests.",
            )
        raise ForgeFault(
            ForgeFaultKind.UNREACHABLE, f"GitHub could not answer ({message}); it is asked again later."
        )

    def merge(self, number: int, commit: str) -> None:
        path = f"{self._pull(number)}/merge"
        try_each(
            MERGE_METHODS,
            lambda method: self._rest.send(path, {"sha": commit, "merge_method": method}, "PUT"),
            NOT_ALLOWED,
        )

    def issue(self, number: int) -> ForgeIssue:
        return self._rest.get(self._issue(number), GitHubIssue).issue()

    def _ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        logins = [
            self._rest.get(f"/user/{name}", GitHubUser).login if name.isdecimal() else name for name in names
        ]
        self._rest.send(f"{self._pull(number)}/requested_reviewers", {"reviewers": logins})

    def _issues(self, label: str) -> Iterator[ForgeIssue]:
        path = f"{self._repository}/issues?state=open&labels={quote(label, safe='')}"
        found = self._rest.list_all(path, GitHubIssue)
        return (issue.issue() for issue in found if issue.pull_request is None)

    def _issue_comments(self, number: int) -> list[str]:
        found = self._rest.list_all(f"{self._issue(number)}/comments", GitHubComment)
        return [comment.body or "" for comment in found]

    def _comment_on_issue(self, number: int, text: str) -> None:
        self.comment(number, text)

    def _close_issue(self, number: int, *, is_done: bool) -> None:
        data = {"state": "closed", "state_reason": "completed" if is_done else "not_planned"}
        self._rest.send(self._issue(number), data, "PATCH")

    def _pull(self, number: int) -> str:
        return f"{self._repository}/pulls/{number}"

    def _issue(self, number: int) -> str:
        return f"{self._repository}/issues/{number}"


def graphql_address(api: str) -> str:
    """Beside `/api/v3` on Enterprise servers."""
    return f"{api.removesuffix('/v3')}/graphql"


def gh_token(api: str) -> str:
    """The token that `gh` has for a host. Without one the fault says what to do."""
    host = urlsplit(api or API).hostname or ""
    program = shutil.which("gh")
    if program is not None:
        command = [program, "auth", "token", "--hostname", "github.com" if host == "api.github.com" else host]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=GH_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            raise ForgeFault(
                ForgeFaultKind.UNREACHABLE, f"`gh auth token` failed to run for {host}."
            ) from None
        token = done.stdout.decode("utf-8", "replace").strip()
        if done.returncode == 0 and token:
            return token
    raise ForgeFault(
        ForgeFaultKind.DENIED,
        f"There is no token for {host}. Set {TOKEN_NAME}, or install `gh` and log in with `gh auth login`.",
    )
