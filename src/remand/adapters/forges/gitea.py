"""The client for repositories on Gitea and Forgejo, which have the same API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from remand.adapters.forges import gitea_records as shapes
from remand.adapters.forges.client import (
    CONTEXT,
    ForgeClient,
    ForgeService,
    RestClient,
    has_more,
    is_placed,
    review_text,
    try_each_way,
    without_draft_prefix,
)
from remand.adapters.forges.gitea_records import GiteaComment, GiteaUser, account, parse_time
from remand.adapters.forges.transport import HttpTransport, RateLimits, Transport, none_if_missing
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
from remand.domain.instant import Instant
from remand.domain.pull_request.records import Account, ForgeComment, ForgeReview, PullRequest, ReviewState
from remand.domain.record import Record
from remand.domain.text.visible import shorten

MAX_TEXT = 65_000
DRAFT = "WIP: "
"""How the title of a draft begins; the first of the two that servers know by themselves."""
_DRAFT = re.compile(r"\s*(?:WIP:|\[WIP\])\s*", re.IGNORECASE)
STYLES = ("merge", "squash", "rebase")
NOT_ALLOWED = "merge style"


class GiteaPullEnd(Record, kw_only=True):
    """One end of a pull request."""

    ref: str = ""
    sha: str = ""
    repo_id: int = 0


class GiteaOpenPull(Record, kw_only=True):
    """A pull request, as far as acts go."""

    id: int
    number: int
    state: str
    title: str = ""
    head: GiteaPullEnd | None = None
    base: GiteaPullEnd | None = None
    html_url: str | None = None

    def open_pull(self) -> OpenPull:
        """The pull request."""
        head = self.head or GiteaPullEnd()
        is_draft = _DRAFT.match(self.title) is not None
        return OpenPull(number=self.number, head=head.sha, url=self.html_url or "", is_draft=is_draft)

    def is_from(self, branch: str, base: str) -> bool:
        """True when it is open, and brings this branch of the same repository into the base."""
        head, into = self.head or GiteaPullEnd(), self.base or GiteaPullEnd()
        is_own = head.repo_id == into.repo_id != 0
        return is_own and (self.state, head.ref, into.ref) == ("open", branch, base)


class GiteaLabel(Record, kw_only=True):
    """A label."""

    name: str


class GiteaIssue(Record, kw_only=True):
    """An issue."""

    id: int
    number: int
    title: str
    state: str
    body: str | None = None
    user: GiteaUser | None = None
    labels: tuple[GiteaLabel, ...] | None = ()
    created_at: str | None = None
    html_url: str | None = None
    pull_request: dict[str, object] | None = None

    def issue(self) -> ForgeIssue:
        """The issue."""
        return ForgeIssue(
            number=self.number,
            title=self.title,
            text=self.body or "",
            author=account(self.user),
            labels=tuple(label.name for label in self.labels or ()),
            opened_at=parse_time(self.created_at),
            is_open=self.state == "open",
            url=self.html_url or "",
        )


class GiteaUsers(Record, kw_only=True):
    """Accounts that were looked for."""

    data: tuple[GiteaUser, ...] = ()


class GiteaWriter:
    """Implements `Hand`."""

    def __init__(self, rest: RestClient, repository: str) -> None:
        self._rest, self._repository = rest, repository

    async def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch, looked for in the list of all that are open."""
        found = await self._rest.list_all(f"{self._repository}/pulls?state=open", GiteaOpenPull)
        return next((pull.open_pull() for pull in found if pull.is_from(branch, base)), None)

    async def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a pull request whose title says that it is a draft."""
        data = {"title": f"{DRAFT}{title}", "head": branch, "base": base, "body": shorten(text, MAX_TEXT)}
        reply = await self._rest.send(f"{self._repository}/pulls", data)
        return self._rest.read(reply, GiteaOpenPull).open_pull()

    async def mark_ready(self, number: int) -> None:
        """Takes the sign of a draft out of the title."""
        path = f"{self._repository}/pulls/{number}"
        title = (await self._rest.get(path, GiteaOpenPull)).title
        ready = without_draft_prefix(title, _DRAFT)
        if ready != title:
            title = ready or f"Pull request {number}"
            self._rest.read(await self._rest.send(path, {"title": title}, "PATCH"), GiteaOpenPull)

    async def ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        """Asks accounts to review."""
        logins = [await self._login(name) for name in names]
        path = f"{self._repository}/pulls/{number}/requested_reviewers"
        self._rest.read(await self._rest.send(path, {"reviewers": logins}), list[object])

    async def _login(self, name: str) -> str:
        if not name.isdecimal():
            return name
        found = await self._rest.get(f"/users/search?uid={name}&limit=1", GiteaUsers)
        for user in found.data:
            if str(user.id) == name:
                return user.login
        raise ForgeFault(ForgeFaultKind.REFUSED, f"Gitea has no account with the id {name}.")

    async def merge(self, number: int, commit: str) -> None:
        """Merges in the first of the ways that the repository allows."""
        path = f"{self._repository}/pulls/{number}/merge"

        async def merge_by(way: str) -> None:
            await self._rest.send(path, {"Do": way, "head_commit_id": commit})

        await try_each_way(STYLES, merge_by, NOT_ALLOWED)

    async def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues with a label; for one that is not there the server lists all."""
        path = f"{self._repository}/issues?state=open&type=issues&labels={quote(label, safe='')}"
        found = await self._rest.list_all(path, GiteaIssue)
        return [one.issue() for one in found if one.pull_request is None]

    async def issue(self, number: int) -> ForgeIssue:
        """One issue."""
        return (await self._rest.get(f"{self._repository}/issues/{number}", GiteaIssue)).issue()

    async def comments(self, number: int) -> list[str]:
        """What was said about an issue."""
        said = await self._rest.list_all(f"{self._repository}/issues/{number}/comments", GiteaComment)
        return [one.body or "" for one in said]

    async def add_comment(self, number: int, text: str) -> None:
        """Says something about an issue."""
        path = f"{self._repository}/issues/{number}/comments"
        self._rest.read(await self._rest.send(path, {"body": shorten(text, MAX_TEXT)}), GiteaComment)

    async def close_issue(self, number: int, *, is_done: bool) -> None:  # noqa: ARG002 - others tell it
        """Closes an issue; the server has no word for why."""
        path = f"{self._repository}/issues/{number}"
        self._rest.read(await self._rest.send(path, {"state": "closed"}, "PATCH"), GiteaIssue)


API = "/api/v1"
TOKEN_NAME = "GITEA_TOKEN"  # noqa: S105 - the name of the variable
MAX_STATUS = 255
PAGE_SIZE = "limit=50"
"""As long as pages are unless the server's settings say otherwise."""
RECENT_PAGES = 4
"""How far the latest changes are read before pull requests are asked for one by one."""
WRITERS = ("write", "admin", "owner")
EVENTS = {"REQUEST_CHANGES": ReviewState.CHANGES_REQUESTED, "COMMENT": ReviewState.COMMENTED}


class GiteaMarks(Record, kw_only=True):
    """What was last seen of pull requests: true of all that did not change since."""

    since: Instant = ""
    seen: dict[int, str] = msgspec.field(default_factory=dict)


class GiteaLineData(Record, kw_only=True):
    """A comment to leave at a line of the new file."""

    path: str
    new_position: int
    body: str


class GiteaReviewData(Record, kw_only=True):
    """A review to leave."""

    event: str
    commit_id: str
    body: str
    comments: tuple[GiteaLineData, ...]


class LatestPulls(NamedTuple):
    """The pull requests that changed last."""

    pulls: tuple[shapes.GiteaPull, ...]
    is_all: bool = False
    """There are no others."""
    reaches_known: bool = False
    """Everything that changed since the marks were made is among them."""


class Gitea(ForgeClient):
    """Implements `Forge`. It waits for each answer, and keeps its connections until it is closed."""

    def __init__(
        self,
        repository: str,
        *,
        clock: Clock,
        memory: AnswerCache,
        api: str,
        token: str = "",
        transport: Transport | None = None,
    ) -> None:
        owner, _, name = repository.partition("/")
        if not owner or not name or "/" in name:
            raise UsageError(f"{repository} is not a repository on Gitea or Forgejo. Write it as OWNER/NAME.")
        service = _service(api, token)
        self._rest = RestClient(
            service, transport or HttpTransport(service.api), RateLimits(clock, memory, service.api), memory
        )
        self._memory = memory
        self._repository = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
        self._marks = f"{service.api}{self._repository}/pulls#marks"
        self._hand = GiteaWriter(self._rest, self._repository)
        self._runner = asyncio.Runner()

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        return self._rest.usage

    def change_marks(self, numbers: Sequence[int]) -> dict[int, str]:
        """A mark of each pull request, made of the list of those that changed last.

        Only as much of the list is read as changed since the last time. The server does not call a pull request
        changed when a comment is edited or settled.
        """
        return self._run(self._glance(sorted(set(numbers)))) if numbers else {}

    def pull_request(self, number: int) -> PullRequest:
        """A pull request, whole."""
        return self._run(self._pull_request(number))

    def may_write(self, account: Account) -> bool:
        """True when the account may write, by the forge's word of this moment. The token must be a repository admin's."""
        return self._run(self._may_write(account))

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Leaves a status."""
        data = {"context": CONTEXT, "state": state.value, "description": shorten(text, MAX_STATUS)}
        self._run(self._rest.send(f"{self._repository}/statuses/{quote(commit, safe='')}", data))

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        """Leaves a review; says whether it could ask for changes."""
        return self._run(self._request_changes(number, commit, text, comments))

    def comment(self, number: int, text: str) -> None:
        """Leaves a comment."""
        self._run(
            self._rest.send(f"{self._repository}/issues/{number}/comments", {"body": shorten(text, MAX_TEXT)})
        )

    def close(self) -> None:
        """Lets go of connections."""
        self._run(self._rest.close())
        self._runner.close()

    async def _glance(self, numbers: Sequence[int]) -> dict[int, str]:
        known = self._stored_marks()
        latest = await self._latest(known, numbers)
        seen = {pull.number: pull.change_mark for pull in latest.pulls}
        if latest.reaches_known:
            seen = {**known.seen, **seen}
        for number in numbers:
            if number not in seen and not latest.is_all:
                seen.update(await self._mark_of(number))
        since = max((known.since, *(shapes.parse_time(pull.updated_at) for pull in latest.pulls)))
        kept = {*numbers, *known.seen} & seen.keys()
        marks = GiteaMarks(since=since, seen={number: seen[number] for number in sorted(kept)})
        if marks != known:
            self._memory.put(self._marks, CachedAnswer(etag="", body=msgspec.json.encode(marks).decode()))
        return {number: seen[number] for number in numbers if number in seen}

    async def _latest(self, known: GiteaMarks, numbers: Sequence[int]) -> LatestPulls:
        """Pull requests from the latest change back, until no more of them can matter.

        Times are told in seconds: what changed in the last second that is known is read again.
        """
        found: dict[int, shapes.GiteaPull] = {}
        reaches_known = False
        for page in range(1, RECENT_PAGES + 1):
            query = f"state=all&sort=recentupdate&{PAGE_SIZE}&page={page}"
            reply = await self._rest.get_if_changed(f"{self._repository}/pulls?{query}")
            pulls = self._rest.read(reply, list[shapes.GiteaPull])
            found.update((pull.number, pull) for pull in pulls)
            if not has_more(reply, len(found), len(pulls)):
                return LatestPulls(tuple(found.values()), is_all=True)
            reaches_known = shapes.parse_time(pulls[-1].updated_at) < known.since
            if all(number in found or (reaches_known and number in known.seen) for number in numbers):
                break
        return LatestPulls(tuple(found.values()), reaches_known=reaches_known)

    async def _mark_of(self, number: int) -> dict[int, str]:
        pull = await none_if_missing(self._rest.get(f"{self._repository}/pulls/{number}", shapes.GiteaPull))
        return {} if pull is None else {number: pull.change_mark}

    def _stored_marks(self) -> GiteaMarks:
        kept = self._memory.get(self._marks)
        try:
            return msgspec.json.decode(kept.body, type=GiteaMarks) if kept is not None else GiteaMarks()
        except (msgspec.DecodeError, RecursionError):
            return GiteaMarks()

    async def _pull_request(self, number: int) -> PullRequest:
        place = f"{self._repository}/pulls/{number}"
        pull = await self._rest.get(place, shapes.GiteaPull)
        given = await self._rest.list_all(f"{place}/reviews", shapes.GiteaReview)
        remarks = await self._rest.list_all(
            f"{self._repository}/issues/{number}/comments", shapes.GiteaComment
        )
        reviews = [await self._review(place, one) for one in given if one.is_review]
        said = [shapes.discussion_comment(one) for one in sorted(remarks, key=lambda one: one.id)]
        return shapes.pull_request(pull, reviews, said)

    async def _review(self, place: str, given: shapes.GiteaReview) -> ForgeReview:
        comments: list[shapes.GiteaLineComment] = []
        if given.comments_count != 0:
            comments = await self._rest.list_all(
                f"{place}/reviews/{given.id}/comments", shapes.GiteaLineComment
            )
        return shapes.review(given, comments)

    async def _may_write(self, account: Account) -> bool:
        login = account.login.removeprefix(f"{shapes.KIND}:")
        if not login or not account.id.startswith(f"{shapes.KIND}:"):
            return False
        path = f"{self._repository}/collaborators/{quote(login, safe='')}/permission"
        told = await none_if_missing(self._rest.get(path, shapes.GiteaPermission))
        if told is None:
            return False
        found = shapes.account(told.user)
        return told.permission in WRITERS and found is not None and found.id == account.id

    async def _request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        """Hands a review in; what is refused at lines, or as a request, is told another way."""
        placed = [one for one in comments if is_placed(one)]
        lines = [placed, []] if placed else [[]]
        *ways, last = [
            _review_data(commit, event, text, some, comments) for event in EVENTS for some in lines
        ]
        for way in ways:
            try:
                return await self._submit_review(number, way)
            except ForgeFault as fault:
                if fault.trouble is not ForgeFaultKind.REFUSED:
                    raise
        return await self._submit_review(number, last)

    async def _submit_review(self, number: int, review: GiteaReviewData) -> ReviewState:
        await self._rest.send(f"{self._repository}/pulls/{number}/reviews", review)
        return EVENTS[review.event]


def _review_data(
    commit: str, event: str, text: str, placed: Sequence[ForgeComment], comments: Sequence[ForgeComment]
) -> GiteaReviewData:
    """A review with comments on lines; the others stand in its text."""
    others = (one for one in comments if one not in placed)
    return GiteaReviewData(
        event=event,
        commit_id=commit,
        body=shorten(review_text(text, others), MAX_TEXT),
        comments=tuple(
            GiteaLineData(path=one.path, new_position=one.line, body=shorten(one.text, MAX_TEXT))
            for one in placed
        ),
    )


def _service(address: str, token: str) -> ForgeService:
    """How the server is asked; its API is found below its address."""
    api = address.rstrip("/")
    return ForgeService(
        forge="Gitea",
        api=api if api.endswith(API) else api + API,
        token=token,
        token_name=TOKEN_NAME,
        headers={"authorization": f"token {token}"} if token else {},
        page_size=PAGE_SIZE,
    )
