"""The client for repositories on GitHub: reads by GraphQL where available and else by REST, writes by REST."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from remand.adapters.forges import github_graphql, github_rest
from remand.adapters.forges.client import CONTEXT, ForgeClient, is_placed, review_text, try_each_way
from remand.adapters.forges.github_api import (
    TOKEN_NAME,
    GitHubApi,
    GitHubRepository,
    GraphqlMissing,
    convert_answer,
    parse_time,
)
from remand.adapters.forges.github_graphql import READY
from remand.adapters.forges.github_rest import PULL, REPOSITORY, GitHubComment, GitHubHead, GitHubUser
from remand.adapters.forges.transport import (
    PROGRAM,
    GhProcessRunner,
    GhTransport,
    HttpTransport,
    RateLimits,
    Transport,
)
from remand.app.errors import UsageError
from remand.app.forge.ports import (
    AnswerCache,
    CachedAnswer,
    CheckState,
    ForgeFault,
    ForgeFaultKind,
    ForgeIssue,
    OpenPull,
    Usage,
)
from remand.app.ports import Clock
from remand.domain.instant import add_seconds, is_instant
from remand.domain.pull_request.records import Account, ForgeComment, PullRequest, ReviewState
from remand.domain.record import Record
from remand.domain.text.visible import shorten

MAX_STATUS = 140
MAX_TEXT = 65_000
OWN_WORK = "own pull request"


async def post_status(api: GitHubApi, commit: str, state: CheckState, text: str) -> None:
    """A status at a commit."""
    status = {"state": state.value, "context": CONTEXT, "description": shorten(text, MAX_STATUS)}
    await api.send(f"{REPOSITORY}/statuses/{{sha}}", status, sha=commit)


async def post_comment(api: GitHubApi, number: int, text: str) -> None:
    """A comment in the discussion."""
    said = {"body": shorten(text, MAX_TEXT)}
    await api.send(f"{REPOSITORY}/issues/{{number}}/comments", said, number=str(number))


async def post_review(
    api: GitHubApi, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
) -> ReviewState:
    """A review that asks for changes. What GitHub does not take, on one's own work or on a line, it takes otherwise."""
    event, placed = "REQUEST_CHANGES", [one for one in comments if is_placed(one)]
    while True:
        review = _review_data(commit, event, text, comments, placed)
        try:
            await api.send(f"{PULL}/reviews", review, number=str(number))
        except ForgeFault as fault:
            if fault.trouble is not ForgeFaultKind.REFUSED:
                raise
            if event != "COMMENT" and OWN_WORK in str(fault).casefold():
                event = "COMMENT"
            elif placed:
                placed = []
            else:
                raise
        else:
            return ReviewState.COMMENTED if event == "COMMENT" else ReviewState.CHANGES_REQUESTED


def _review_data(
    commit: str, event: str, text: str, comments: Sequence[ForgeComment], placed: Sequence[ForgeComment]
) -> dict[str, object]:
    """A review with comments on lines; the others stand in its text."""
    others = [one for one in comments if one not in placed]
    return {
        "commit_id": commit,
        "event": event,
        "body": shorten(review_text(text, others), MAX_TEXT),
        "comments": [
            {"path": one.path, "line": one.line, "side": "RIGHT", "body": shorten(one.text, MAX_TEXT)}
            for one in placed
        ],
    }


ISSUE = f"{REPOSITORY}/issues/{{number}}"
PULLS = f"{REPOSITORY}/pulls"
METHODS = ("merge", "squash", "rebase")
"""How a pull request may be merged; a repository may allow some of them alone."""
NOT_ALLOWED = "not allowed on this repository"
NO_DRAFTS = "draft pull requests are not supported"


class GitHubRepositoryName(Record, kw_only=True):
    """A repository by its name."""

    full_name: str | None = None


class GitHubPullEnd(GitHubHead, kw_only=True):
    """Where a pull request comes from, or leads to."""

    repo: GitHubRepositoryName | None = None


class GitHubOpenPull(Record, kw_only=True):
    """A pull request, as far as acts go."""

    number: int
    state: str
    head: GitHubPullEnd
    base: GitHubPullEnd
    node_id: str = ""
    html_url: str = ""
    draft: bool = False

    def open_pull(self) -> OpenPull:
        """The pull request."""
        return OpenPull(number=self.number, head=self.head.sha, url=self.html_url, is_draft=self.draft)


class GitHubLabel(Record, kw_only=True):
    """A label."""

    name: str | None = None


class GitHubIssue(Record, kw_only=True):
    """An issue, or a pull request, which GitHub tells as one too."""

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
        """The issue."""
        names = (label if isinstance(label, str) else label.name for label in self.labels)
        return ForgeIssue(
            number=self.number,
            title=self.title,
            text=self.body or "",
            author=self.user.account() if self.user else None,
            labels=tuple(name for name in names if name),
            opened_at=parse_time(self.created_at),
            is_open=self.state == "open",
            url=self.html_url,
        )


class GitHubWriter:
    """Implements `Hand` by REST; only what that has no word for by GraphQL."""

    def __init__(self, api: GitHubApi) -> None:
        self._api = api

    async def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch; those of other repositories' branches by that name are left out."""
        own = self._api.place.full_name.casefold()
        asked = {"head": f"{self._api.place.owner}:{branch}", "base": base}
        found = await self._api.pages(
            f"{PULLS}?state=open&head={{head}}&base={{base}}", list[GitHubOpenPull], **asked
        )
        for pull in found:
            home = ((pull.head.repo or GitHubRepositoryName()).full_name or "").casefold()
            if (home, pull.head.ref, pull.base.ref, pull.state) == (own, branch, base, "open"):
                return pull.open_pull()
        return None

    async def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a draft; where a repository has none, an ordinary one."""
        data = {"title": title, "head": branch, "base": base, "body": shorten(text, MAX_TEXT), "draft": True}
        try:
            answer = await self._api.send(PULLS, data)
        except ForgeFault as fault:
            if fault.trouble is not ForgeFaultKind.REFUSED or NO_DRAFTS not in str(fault).casefold():
                raise
            answer = await self._api.send(PULLS, {**data, "draft": False})
        return convert_answer(answer, GitHubOpenPull).open_pull()

    async def mark_ready(self, number: int) -> None:
        """Makes a draft ready, which only GraphQL can."""
        pull = await self._api.get(PULL, GitHubOpenPull, number=str(number))
        if not pull.draft:
            return
        try:
            await self._api.query_graphql(READY, {"id": pull.node_id})
        except GraphqlMissing:
            raise ForgeFault(
                ForgeFaultKind.REFUSED,
                f"GitHub can mark drafts as ready only through GraphQL, which is not available here. Mark pull request #{number} as ready for review manually.",
            ) from None

    async def ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        """Asks accounts to review."""
        logins = [await self._login(name) for name in names]
        await self._api.send(f"{PULL}/requested_reviewers", {"reviewers": logins}, number=str(number))

    async def _login(self, name: str) -> str:
        if not name.isdecimal():
            return name
        return (await self._api.get("/user/{id}", GitHubUser, id=name)).login

    async def merge(self, number: int, commit: str) -> None:
        """Merges in the first of the ways that the repository allows."""

        async def merge_by(way: str) -> None:
            data = {"sha": commit, "merge_method": way}
            await self._api.send(f"{PULL}/merge", data, method="PUT", number=str(number))

        await try_each_way(METHODS, merge_by, NOT_ALLOWED)

    async def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues with a label."""
        path = f"{REPOSITORY}/issues?state=open&labels={{label}}"
        found = await self._api.pages(path, list[GitHubIssue], label=label)
        return [one.issue() for one in found if one.pull_request is None]

    async def issue(self, number: int) -> ForgeIssue:
        """One issue."""
        return (await self._api.get(ISSUE, GitHubIssue, number=str(number))).issue()

    async def comments(self, number: int) -> list[str]:
        """What was said about an issue."""
        said = await self._api.pages(f"{ISSUE}/comments", list[GitHubComment], number=str(number))
        return [one.body or "" for one in said]

    async def add_comment(self, number: int, text: str) -> None:
        """Says something about an issue."""
        await post_comment(self._api, number, text)

    async def close_issue(self, number: int, *, is_done: bool) -> None:
        """Closes an issue, and says whether it is done."""
        data = {"state": "closed", "state_reason": "completed" if is_done else "not_planned"}
        await self._api.send(ISSUE, data, method="PATCH", number=str(number))


API = "https://api.github.com"
MAX_NUMBER = (1 << 31) - 1
MISSING_SECONDS = 3600.0

Result = TypeVar("Result")


class GraphqlAvailability:
    """Whether GraphQL is to be had. That it was not is remembered for a while, also by the next process."""

    def __init__(self, clock: Clock, memory: AnswerCache, address: str) -> None:
        self._clock, self._memory, self._address = clock, memory, f"{address}#missing"

    @property
    def is_likely(self) -> bool:
        """True when it is worth asking."""
        kept = self._memory.get(self._address)
        return kept is None or not is_instant(kept.body) or kept.body <= self._clock.now()

    def note_missing(self) -> None:
        """Notes that it is not there now."""
        until = add_seconds(self._clock.now(), MISSING_SECONDS)
        self._memory.put(self._address, CachedAnswer(etag="", body=until))


class GitHub(ForgeClient):
    """Implements `Forge`. It waits for each answer, and keeps its connections until it is closed."""

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
        place = GitHubRepository((api or API).rstrip("/"), owner, name)
        if not token.isascii() or not token.isprintable():
            raise ForgeFault(
                ForgeFaultKind.DENIED, f"{TOKEN_NAME} holds no token: signs in it cannot be sent."
            )
        carrier = transport or transport_for(place.api, token)
        self._api = GitHubApi(place, carrier, RateLimits(clock, memory, place.api), memory, token)
        self._hand = GitHubWriter(self._api)
        self._graphql = GraphqlAvailability(clock, memory, place.graphql)
        self._runner = asyncio.Runner()

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        return self._api.usage

    def change_marks(self, numbers: Sequence[int]) -> dict[int, str]:
        """A mark of each pull request, made of what is cheap to ask and of line comments that were edited lately."""
        known = sorted({number for number in numbers if 0 < number <= MAX_NUMBER})
        return self._run(self._glance(known)) if known else {}

    async def _glance(self, numbers: Sequence[int]) -> dict[int, str]:
        marks = await self._graphql_or_rest(
            lambda: github_graphql.change_marks(self._api, numbers),
            lambda: github_rest.change_marks(self._api, numbers),
        )
        touched = await github_rest.latest_comment_times(self._api)
        return {number: f"{mark} {touched.get(number, '')}" for number, mark in marks.items()}

    def pull_request(self, number: int) -> PullRequest:
        """A pull request, whole."""
        return self._run(
            self._graphql_or_rest(
                lambda: github_graphql.pull_request(self._api, number),
                lambda: github_rest.pull_request(self._api, number),
            )
        )

    def may_write(self, account: Account) -> bool:
        """True when the account may write, by GitHub's word of this moment."""
        return self._run(github_rest.may_write(self._api, account))

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Leaves a status."""
        self._run(post_status(self._api, commit, state, text))

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        """Leaves a review; says whether it could ask for changes."""
        return self._run(post_review(self._api, number, commit, text, comments))

    def comment(self, number: int, text: str) -> None:
        """Leaves a comment."""
        self._run(post_comment(self._api, number, text))

    def close(self) -> None:
        """Lets go of connections."""
        self._run(self._api.close())
        self._runner.close()

    async def _graphql_or_rest(
        self, by_graphql: Callable[[], Awaitable[Result]], by_rest: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Asks by GraphQL until it turns out not to be there."""
        if self._graphql.is_likely:
            try:
                return await by_graphql()
            except GraphqlMissing:
                self._graphql.note_missing()
        return await by_rest()


def transport_for(api: str, token: str) -> Transport:
    """HTTP with a token; without one, `gh` with its own."""
    if token:
        return HttpTransport(api)
    program = shutil.which(PROGRAM)
    if program is None:
        raise ForgeFault(
            ForgeFaultKind.DENIED,
            f"There is no token for {api}. Set {TOKEN_NAME}, or install `gh` and log in with `gh auth login`.",
        )
    return GhTransport(api, GhProcessRunner(), program)
