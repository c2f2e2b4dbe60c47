"""A repository on Gitea or Forgejo, which speak the same API."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from remand.adapters.forges import gitea_shapes as shapes
from remand.adapters.forges.doing import Doing
from remand.adapters.forges.faults import if_there
from remand.adapters.forges.gitea_acts import MAX_TEXT, GiteaHand
from remand.adapters.forges.limits import Limits
from remand.adapters.forges.rest import Rest, Service, has_more
from remand.adapters.forges.transport import HttpTransport, Transport
from remand.adapters.forges.wording import CONTEXT, cut, is_placed, whole
from remand.app.errors import UsageError
from remand.app.forges.ports import CheckState, ForgeFault, Memory, Remembered, Trouble, Usage
from remand.app.ports import Clock
from remand.domain.instant import Instant
from remand.domain.pulls.shapes import Account, Comment, PullRequest, Review, ReviewState
from remand.domain.record import Record

API = "/api/v1"
TOKEN_NAME = "GITEA_TOKEN"  # noqa: S105 - the name of the variable
MAX_STATUS = 255
PAGE_SIZE = "limit=50"
"""As long as pages are unless the server's settings say otherwise."""
RECENT_PAGES = 4
"""How far the latest changes are read before pull requests are asked for one by one."""
WRITERS = ("write", "admin", "owner")
EVENTS = {"REQUEST_CHANGES": ReviewState.CHANGES_REQUESTED, "COMMENT": ReviewState.COMMENTED}


class Marks(Record, kw_only=True):
    """What was last seen of pull requests: true of all that did not change since."""

    since: Instant = ""
    seen: dict[int, str] = msgspec.field(default_factory=dict)


class LineData(Record, kw_only=True):
    """A comment to leave at a line of the new file."""

    path: str
    new_position: int
    body: str


class ReviewData(Record, kw_only=True):
    """A review to leave."""

    event: str
    commit_id: str
    body: str
    comments: tuple[LineData, ...]


class Latest(NamedTuple):
    """The pull requests that changed last."""

    pulls: tuple[shapes.Pull, ...]
    is_all: bool = False
    """There are no others."""
    reaches_known: bool = False
    """Everything that changed since the marks were made is among them."""


class Gitea(Doing):
    """Implements `Forge`. It waits for each answer, and keeps its connections until it is closed."""

    def __init__(
        self,
        repository: str,
        *,
        clock: Clock,
        memory: Memory,
        api: str,
        token: str = "",
        transport: Transport | None = None,
    ) -> None:
        owner, _, name = repository.partition("/")
        if not owner or not name or "/" in name:
            raise UsageError(f"{repository} is no repository on Gitea or Forgejo. Write it as OWNER/NAME.")
        service = _service(api, token)
        self._rest = Rest(
            service, transport or HttpTransport(service.api), Limits(clock, memory, service.api), memory
        )
        self._memory = memory
        self._repository = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
        self._marks = f"{service.api}{self._repository}/pulls#marks"
        self._hand = GiteaHand(self._rest, self._repository)
        self._runner = asyncio.Runner()

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        return self._rest.usage

    def glance(self, numbers: Sequence[int]) -> dict[int, str]:
        """A mark of each pull request, made of the list of those that changed last.

        Only as much of the list is read as changed since the last time. The server does not call a pull request
        changed when a comment is edited or settled.
        """
        return self._done(self._glance(sorted(set(numbers)))) if numbers else {}

    def pull_request(self, number: int) -> PullRequest:
        """A pull request, whole."""
        return self._done(self._pull_request(number))

    def may_write(self, account: Account) -> bool:
        """True when the account may write, by the forge's word of this moment. The token must be a repository admin's."""
        return self._done(self._may_write(account))

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Leaves a status."""
        data = {"context": CONTEXT, "state": state.value, "description": cut(text, MAX_STATUS)}
        self._done(self._rest.send(f"{self._repository}/statuses/{quote(commit, safe='')}", data))

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[Comment]
    ) -> ReviewState:
        """Leaves a review; says whether it could ask for changes."""
        return self._done(self._request_changes(number, commit, text, comments))

    def comment(self, number: int, text: str) -> None:
        """Leaves a comment."""
        self._done(
            self._rest.send(f"{self._repository}/issues/{number}/comments", {"body": cut(text, MAX_TEXT)})
        )

    def close(self) -> None:
        """Lets go of connections."""
        self._done(self._rest.close())
        self._runner.close()

    async def _glance(self, numbers: Sequence[int]) -> dict[int, str]:
        known = self._known()
        latest = await self._latest(known, numbers)
        seen = {pull.number: pull.glance for pull in latest.pulls}
        if latest.reaches_known:
            seen = {**known.seen, **seen}
        for number in numbers:
            if number not in seen and not latest.is_all:
                seen.update(await self._one(number))
        since = max((known.since, *(shapes.at(pull.updated_at) for pull in latest.pulls)))
        kept = {*numbers, *known.seen} & seen.keys()
        marks = Marks(since=since, seen={number: seen[number] for number in sorted(kept)})
        if marks != known:
            self._memory.put(self._marks, Remembered(etag="", body=msgspec.json.encode(marks).decode()))
        return {number: seen[number] for number in numbers if number in seen}

    async def _latest(self, known: Marks, numbers: Sequence[int]) -> Latest:
        """Pull requests from the latest change back, until no more of them can matter.

        Times are told in seconds: what changed in the last second that is known is read again.
        """
        found: dict[int, shapes.Pull] = {}
        reaches_known = False
        for page in range(1, RECENT_PAGES + 1):
            query = f"state=all&sort=recentupdate&{PAGE_SIZE}&page={page}"
            reply = await self._rest.again(f"{self._repository}/pulls?{query}")
            pulls = self._rest.read(reply, list[shapes.Pull])
            found.update((pull.number, pull) for pull in pulls)
            if not has_more(reply, len(found), len(pulls)):
                return Latest(tuple(found.values()), is_all=True)
            reaches_known = shapes.at(pulls[-1].updated_at) < known.since
            if all(number in found or (reaches_known and number in known.seen) for number in numbers):
                break
        return Latest(tuple(found.values()), reaches_known=reaches_known)

    async def _one(self, number: int) -> dict[int, str]:
        pull = await if_there(self._rest.get(f"{self._repository}/pulls/{number}", shapes.Pull))
        return {} if pull is None else {number: pull.glance}

    def _known(self) -> Marks:
        kept = self._memory.get(self._marks)
        try:
            return msgspec.json.decode(kept.body, type=Marks) if kept is not None else Marks()
        except (msgspec.DecodeError, RecursionError):
            return Marks()

    async def _pull_request(self, number: int) -> PullRequest:
        place = f"{self._repository}/pulls/{number}"
        pull = await self._rest.get(place, shapes.Pull)
        given = await self._rest.listed(f"{place}/reviews", shapes.GivenReview)
        remarks = await self._rest.listed(f"{self._repository}/issues/{number}/comments", shapes.Remark)
        reviews = [await self._review(place, one) for one in given if one.is_review]
        said = [shapes.remark(one) for one in sorted(remarks, key=lambda one: one.id)]
        return shapes.pull_request(pull, reviews, said)

    async def _review(self, place: str, given: shapes.GivenReview) -> Review:
        comments: list[shapes.LineComment] = []
        if given.comments_count != 0:
            comments = await self._rest.listed(f"{place}/reviews/{given.id}/comments", shapes.LineComment)
        return shapes.review(given, comments)

    async def _may_write(self, account: Account) -> bool:
        login = account.login.removeprefix(f"{shapes.KIND}:")
        if not login or not account.id.startswith(f"{shapes.KIND}:"):
            return False
        path = f"{self._repository}/collaborators/{quote(login, safe='')}/permission"
        told = await if_there(self._rest.get(path, shapes.Permission))
        if told is None:
            return False
        found = shapes.account(told.user)
        return told.permission in WRITERS and found is not None and found.id == account.id

    async def _request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[Comment]
    ) -> ReviewState:
        """Hands a review in; what is refused at lines, or as a request, is told another way."""
        placed = [one for one in comments if is_placed(one)]
        lines = [placed, []] if placed else [[]]
        *ways, last = [
            _review_data(commit, event, text, some, comments) for event in EVENTS for some in lines
        ]
        for way in ways:
            try:
                return await self._handed_in(number, way)
            except ForgeFault as fault:
                if fault.trouble is not Trouble.REFUSED:
                    raise
        return await self._handed_in(number, last)

    async def _handed_in(self, number: int, review: ReviewData) -> ReviewState:
        await self._rest.send(f"{self._repository}/pulls/{number}/reviews", review)
        return EVENTS[review.event]


def _review_data(
    commit: str, event: str, text: str, placed: Sequence[Comment], comments: Sequence[Comment]
) -> ReviewData:
    """A review with comments on lines; the others stand in its text."""
    others = (one for one in comments if one not in placed)
    return ReviewData(
        event=event,
        commit_id=commit,
        body=cut(whole(text, others), MAX_TEXT),
        comments=tuple(
            LineData(path=one.path, new_position=one.line, body=cut(one.text, MAX_TEXT)) for one in placed
        ),
    )


def _service(address: str, token: str) -> Service:
    """How the server is asked; its API is found below its address."""
    api = address.rstrip("/")
    return Service(
        forge="Gitea",
        api=api if api.endswith(API) else api + API,
        token=token,
        token_name=TOKEN_NAME,
        headers={"authorization": f"token {token}"} if token else {},
        page_size=PAGE_SIZE,
    )
