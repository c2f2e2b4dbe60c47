"""The client for repositories on GitHub, through its REST API."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import quote, urlsplit

from remand.adapters.forges.client import MAX_TEXT, MAX_TITLE, ForgeService, RestClient, parse_time, try_each
from remand.adapters.forges.owner_repository import (
    OwnerRepositoryClient,
    RepositoryComment,
    RepositoryName,
    RepositoryPull,
    RepositoryUser,
)
from remand.adapters.forges.transport import WORDS, Transport, printable_text
from remand.app.forge.ports import AnswerCache, ForgeFault, ForgeFaultKind, OpenPull
from remand.app.ports import Clock
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

API = "https://api.github.com"
TOKEN_NAME = "GITHUB_TOKEN"  # noqa: S105 - the name of the variable
VERSION = "2022-11-28"
KIND = "github:"
BOT = "[bot]"
MAX_NUMBER = (1 << 31) - 1
PER_PAGE = 100
MERGE_METHODS = ("merge", "squash", "rebase")
"""A repository may allow only some of them."""
NOT_ALLOWED = "not allowed on this repository"
NO_DRAFTS = "draft pull requests are not supported"
WRITERS = ("write", "maintain", "admin")
READERS = ("none", "read", "triage")
READY = """
mutation Ready($id: ID!) {
  markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } }
}
"""
"""Marks a draft as ready for review: the only action that the REST API lacks."""
GH_SECONDS = 30.0


class GitHubReview(Record, kw_only=True):
    id: int
    state: str
    user: RepositoryUser | None = None
    body: str | None = ""
    commit_id: str | None = ""
    submitted_at: str | None = ""

    @property
    def review_state(self) -> ReviewState:
        """Unknown states count as comments."""
        try:
            return ReviewState(self.state.lower())
        except ValueError:
            return ReviewState.COMMENTED


class GitHubLineComment(RepositoryComment, kw_only=True):
    """A comment on a line or a file."""

    path: str
    line: int | None = None
    original_line: int | None = None
    subject_type: str = "line"
    in_reply_to_id: int | None = None
    pull_request_review_id: int | None = None


class CommentUpdate(Record, kw_only=True):
    """The fields of a line comment that show that its pull request has changed."""

    pull_request_url: str
    updated_at: str

    @property
    def number(self) -> int:
        last = self.pull_request_url.rpartition("/")[2]
        return int(last) if last.isascii() and last.isdigit() and len(last) < 12 else 0


class GitHubDismissal(Record, kw_only=True):
    """Which review was dismissed, and by which push if a push dismissed it."""

    review_id: int = 0
    dismissal_commit_id: str | None = None


class GitHubIssueEvent(Record, kw_only=True):
    """The fields of an issue event that describe a dismissal."""

    id: int
    actor: RepositoryUser | None = None
    dismissed_review: GitHubDismissal | None = None


class GitHubPermission(Record, kw_only=True):
    permission: str = ""
    role_name: str = ""
    user: RepositoryUser | None = None


class GraphqlError(Record, kw_only=True):
    message: str = ""
    type: str = ""


class GraphqlAnswer(Record, kw_only=True):
    data: dict[str, object] | None = None
    errors: tuple[GraphqlError, ...] = ()


class GitHub(OwnerRepositoryClient):
    """Implements `Forge`. It keeps its connections open until it is closed."""

    _max_status = 140
    _issue_query = "state=open"

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
        super().__init__(repository, "GitHub")
        if not token.isascii() or not token.isprintable():
            raise ForgeFault(
                ForgeFaultKind.DENIED,
                f"{TOKEN_NAME} contains no token: it has characters that cannot be sent.",
            )
        self._token, self._api = token, (api or API).rstrip("/")
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
        """A change mark for each pull request, from the lists of recently updated pull requests and line comments.

        GitHub does not consider a pull request updated when a line comment is edited. A pull request that is not in the
        list is fetched individually.
        """
        wanted = sorted({number for number in numbers if 0 < number <= MAX_NUMBER})
        if not wanted:
            return {}
        # The URLs stay the same from poll to poll, since an ETag is valid for one URL only.
        latest_first = f"sort=updated&direction=desc&per_page={PER_PAGE}"
        pulls = {
            pull.number: pull
            for pull in self._rest.get(
                f"{self._repository}/pulls?state=all&{latest_first}", list[RepositoryPull]
            )
        }
        for number in wanted:
            if number not in pulls:
                pull = self._rest.get_if_present(self._pull(number), RepositoryPull)
                pulls |= {number: pull} if pull is not None else {}
        edits: dict[int, str] = {}
        for comment in self._latest_comments(f"{self._repository}/pulls/comments?{latest_first}"):
            edits[comment.number] = max(edits.get(comment.number, ""), comment.updated_at)
        return {
            number: f"{_change_mark(pulls[number])} {edits.get(number, '')}"
            for number in wanted
            if number in pulls
        }

    def _latest_comments(self, path: str) -> list[CommentUpdate]:
        """The most recently edited line comments; empty if they cannot be read. They are a hint, so errors do not stop a poll."""
        try:
            return self._rest.get(path, list[CommentUpdate])
        except ForgeFault as fault:
            if fault.kind is ForgeFaultKind.LIMITED:
                raise
            return []

    def _dismissals(self, number: int) -> dict[int, Account | None]:
        """Who dismissed which review, except dismissals by a push; empty if the token may not read it."""
        events = self._rest.list_if_allowed(f"{self._issue(number)}/events", GitHubIssueEvent)
        return {
            event.dismissed_review.review_id: self._account(event.actor)
            for event in events
            if event.dismissed_review is not None and not event.dismissed_review.dismissal_commit_id
        }

    def pull_request(self, number: int) -> PullRequest:
        """A pull request with all pages of its content."""
        place = self._pull(number)
        pull = self._rest.get(place, RepositoryPull)
        # Reviews are read first: once a review is listed, its comments are available too.
        reviews = self._rest.list_all(f"{place}/reviews", GitHubReview)
        line_comments: dict[int | None, list[ForgeComment]] = defaultdict(list)
        for comment in self._rest.list_all(f"{place}/comments", GitHubLineComment):
            is_on_file = comment.subject_type.lower() == "file"
            # A comment on a removed line has its original line.
            line = 0 if is_on_file else comment.line or comment.original_line or 0
            line_comments[comment.pull_request_review_id].append(
                self._make_comment(comment, comment.path, line, str(comment.in_reply_to_id or ""))
            )
        discussion = self._rest.list_all(f"{self._issue(number)}/comments", RepositoryComment)
        is_dismissed = any(review.review_state is ReviewState.DISMISSED for review in reviews)
        dismissals = self._dismissals(number) if is_dismissed else {}
        found = [
            ForgeReview(
                id=str(review.id),
                state=review.review_state,
                author=self._account(review.user),
                text=review.body or "",
                commit=review.commit_id or "",
                submitted_at=parse_time(review.submitted_at),
                comments=tuple(line_comments[review.id]),
                dismissed_by=dismissals.get(review.id),
            )
            for review in reviews
            if review.review_state is not ReviewState.PENDING
        ]
        try:
            state = PullState.MERGED if pull.merged_at is not None else PullState(pull.state.lower())
        except ValueError:
            raise self._rest.garbled_fault("returned an unknown state of a pull request") from None
        remarks = [*map(self._make_comment, discussion), *line_comments[None]]
        return self._make_pull_request(pull, state, found, remarks)

    def _account(self, user: RepositoryUser | None) -> Account | None:
        if user is None:
            return None
        is_bot = user.type == "Bot"
        name = user.login if not is_bot or user.login.endswith(BOT) else user.login + BOT
        return Account(id=f"{KIND}{user.id}", login=f"{KIND}{name}", is_bot=is_bot)

    def may_write(self, account: Account) -> bool:
        """True if this account, identified by id and not only by login, currently has write access."""
        login = account.login.removeprefix(KIND)
        if not account.id.startswith(KIND) or not login:
            return False
        path = f"{self._repository}/collaborators/{quote(login, safe='')}/permission"
        permission = self._rest.get_if_present(path, GitHubPermission)
        holder = self._account(permission.user) if permission is not None else None
        if permission is None or holder is None or holder.id != account.id:
            return False
        # A custom role has its own name; `permission` is the permission that it includes.
        return permission.permission in WRITERS and permission.role_name not in READERS

    def _line_data(self, comment: ForgeComment) -> dict[str, object]:
        return {"path": comment.path, "line": comment.line, "side": "RIGHT"}

    def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch; branches of the same name in other repositories do not count."""
        ends = f"head={quote(f'{self._owner}:{branch}', safe='')}&base={quote(base, safe='')}"
        for pull in self._rest.list_all(f"{self._repository}/pulls?state=open&{ends}", RepositoryPull):
            home = ((pull.source.repo or RepositoryName()).full_name or "").casefold()
            if (home, pull.source.ref, pull.target.ref, pull.state) == (
                self._full_name,
                branch,
                base,
                "open",
            ):
                return _open_pull(pull)
        return None

    def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a draft, or an ordinary pull request if the repository does not support drafts."""
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
        return _open_pull(self._rest.read(reply, RepositoryPull))

    def mark_ready(self, number: int) -> None:
        """Marks a draft as ready for review through GraphQL, which reports errors with the status 200."""
        pull = self._rest.get(self._pull(number), RepositoryPull)
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
            ForgeFaultKind.UNREACHABLE, f"GitHub could not answer ({message}); Remand retries later."
        )

    def merge(self, number: int, commit: str) -> None:
        path = f"{self._pull(number)}/merge"
        try_each(
            MERGE_METHODS,
            lambda method: self._rest.send(path, {"sha": commit, "merge_method": method}, "PUT"),
            NOT_ALLOWED,
        )

    def _ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        logins = [
            self._rest.get(f"/user/{name}", RepositoryUser).login if name.isdecimal() else name
            for name in names
        ]
        self._rest.send(f"{self._pull(number)}/requested_reviewers", {"reviewers": logins})

    def _close_issue(self, number: int, *, is_done: bool) -> None:
        data = {"state": "closed", "state_reason": "completed" if is_done else "not_planned"}
        self._rest.send(self._issue(number), data, "PATCH")


def _change_mark(pull: RepositoryPull) -> str:
    return " ".join((pull.updated_at or "", pull.source.sha, pull.state, pull.merged_at or ""))


def _open_pull(pull: RepositoryPull) -> OpenPull:
    return OpenPull(number=pull.number, head=pull.source.sha, url=pull.html_url or "", is_draft=pull.draft)


def graphql_address(api: str) -> str:
    """The GraphQL URL: next to `/api/v3` on Enterprise servers."""
    return f"{api.removesuffix('/v3')}/graphql"


def gh_token(api: str) -> str:
    """The token that `gh` has for a host. If there is none, raises a fault that tells what to do."""
    host = urlsplit(api or API).hostname or ""
    program = shutil.which("gh")
    if program is not None:
        command = [program, "auth", "token", "--hostname", "github.com" if host == "api.github.com" else host]
        try:
            process = subprocess.run(
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
        token = process.stdout.decode("utf-8", "replace").strip()
        if process.returncode == 0 and token:
            return token
    raise ForgeFault(
        ForgeFaultKind.DENIED,
        f"There is no token for {host}. Set {TOKEN_NAME}, or install `gh` and log in with `gh auth login`.",
    )
