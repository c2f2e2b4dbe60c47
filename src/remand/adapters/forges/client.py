"""What the clients of all forges share: REST requests with pages, blocking calls over an asynchronous writer, and texts that fit a forge."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from remand.adapters.forges.transport import (
    ForgeReply,
    RateLimits,
    Transport,
    error_text,
    is_rate_limited,
    printable_text,
    status_fault,
)
from remand.app.forge.ports import (
    AnswerCache,
    CachedAnswer,
    ForgeFault,
    ForgeFaultKind,
    ForgeIssue,
    OpenPull,
    Usage,
)
from remand.domain.pull_request.records import ForgeComment

MAX_PAGES = 200
MAX_LISTED = 64 << 20

Shape = TypeVar("Shape")


class HasId(Protocol):
    """Something that a list holds once."""

    @property
    def id(self) -> int | str:
        """What tells it from the others."""


Item = TypeVar("Item", bound=HasId)


class ForgeService(NamedTuple):
    """Where a forge is, and how it is asked."""

    forge: str
    """Its name in messages."""
    api: str
    token: str
    token_name: str
    headers: Mapping[str, str]
    """What every request carries, the token among it."""
    page_size: str
    """The query that asks for long pages."""


class RestClient:
    """One forge, asked with one token. Whatever goes wrong is a `ForgeFault`."""

    def __init__(
        self, service: ForgeService, transport: Transport, limits: RateLimits, memory: AnswerCache
    ) -> None:
        self.usage = Usage()
        self._service, self._transport = service, transport
        self._limits, self._memory = limits, memory

    async def get(self, path: str, shape: type[Shape]) -> Shape:
        """What is at a path."""
        return self.read(await self._request("GET", path), shape)

    async def get_if_changed(self, path: str) -> ForgeReply:
        """What is at a path, asked for on condition that it has changed."""
        url = self._service.api + path
        known = self._memory.get(url)
        is_known = known is not None and bool(known.etag)
        reply = await self._request("GET", path, {"if-none-match": known.etag} if known and is_known else {})
        if known is not None and reply.status == 304:
            self.usage = self.usage._replace(not_modified=self.usage.not_modified + 1)
            return ForgeReply(200, {"link": known.next_page, **reply.headers}, known.body.encode())
        etag, link = reply.headers.get("etag", ""), reply.headers.get("link", "")
        if etag:
            body = reply.body.decode("utf-8", "replace")
            self._memory.put(url, CachedAnswer(etag=etag, body=body, next_page=link))
        return reply

    async def list_all(self, path: str, shape: type[Item]) -> list[Item]:
        """Everything in a list, in the order it is told.

        One that grows while it is read tells some items twice: they are taken once. One that never ends, or tells
        the same page again and again, is a fault.
        """
        found: dict[int | str, Item] = {}
        left = MAX_LISTED
        async for reply in self._pages(path):
            items: list[Item] = self.read(reply, list[shape])  # type: ignore[valid-type]
            before, left = len(found), left - len(reply.body)
            found.update((item.id, item) for item in items)
            if left < 0:
                raise self.garbled_fault(f"lists more than {MAX_LISTED >> 20} MB at once")
            if not has_more(reply, len(found), len(items)):
                return list(found.values())
            if len(found) == before:
                raise self.garbled_fault("returns the same page of a list again and again")
        raise self.garbled_fault(f"has more than {MAX_PAGES} pages of one list")

    async def send(self, path: str, data: object, method: str = "POST") -> ForgeReply:
        """Leaves or changes something there."""
        content = {"content-type": "application/json"}
        return await self._request(method, path, content, msgspec.json.encode(data))

    async def close(self) -> None:
        """Lets go of connections."""
        await self._transport.close()

    def read(self, reply: ForgeReply, shape: type[Shape]) -> Shape:
        """An answer in the shape it must have; fields nobody asks for may hold anything."""
        try:
            return msgspec.json.decode(reply.body, type=shape)
        except (ValueError, RecursionError) as error:
            raise self.garbled_fault(
                f"answers what cannot be read ({printable_text(str(error), self._service.token)})"
            ) from None

    def garbled_fault(self, what: str) -> ForgeFault:
        """What the forge says makes no sense."""
        return ForgeFault(ForgeFaultKind.GARBLED, f"{self._service.forge} {what}.")

    async def _pages(self, path: str) -> AsyncIterator[ForgeReply]:
        join = "&" if "?" in path else "?"
        for number in range(1, MAX_PAGES + 1):
            yield await self._request("GET", f"{path}{join}{self._service.page_size}&page={number}")

    async def _request(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> ForgeReply:
        """Sends a request unless a limit forbids it, and lets only answers through."""
        service = self._service
        self._limits.check()
        self.usage = self.usage._replace(requests=self.usage.requests + 1)
        sent = {**service.headers, "accept": "application/json", "user-agent": "remand", **(headers or {})}
        reply = await self._transport.send(method, service.api + path, sent, body)
        said = error_text(reply, service.token) if reply.status >= 400 else ""
        if is_rate_limited(reply, said):
            raise self._limits.note_limit(reply)
        self._limits.note_reply(reply)
        if "ratelimit-remaining" in reply.headers:
            self.usage = self.usage._replace(points=self.usage.points + 1)
        fault = status_fault(reply, service.forge, service.token_name, said)
        if fault is not None:
            raise fault
        return reply


def has_more(reply: ForgeReply, seen: int, on_page: int) -> bool:
    """True when another page follows: by the link to it, else by how many there are in all.

    A total may be counted before what the token may not see is taken out, so an empty page ends a list too.
    """
    if not on_page:
        return False
    if "link" in reply.headers or "x-next-page" in reply.headers:
        return 'rel="next"' in reply.headers.get("link", "") or bool(reply.headers.get("x-next-page"))
    total = reply.headers.get("x-total-count", "")
    return total.isdecimal() and seen < int(total[:9])


MAX_TITLE = 250

Result = TypeVar("Result")


class ForgeWriter(Protocol):
    """How one kind of forge is asked to do things; see `Pulls` and `Issues`."""

    async def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch into the base."""

    async def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens one."""

    async def mark_ready(self, number: int) -> None:
        """Makes a draft one that is to be reviewed."""

    async def ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        """Asks all of these accounts at once, or none."""

    async def merge(self, number: int, commit: str) -> None:
        """Merges it while the commit is its head."""

    async def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues, at least those with the label."""

    async def issue(self, number: int) -> ForgeIssue:
        """One issue."""

    async def comments(self, number: int) -> list[str]:
        """What was said about an issue."""

    async def add_comment(self, number: int, text: str) -> None:
        """Says something about an issue."""

    async def close_issue(self, number: int, *, is_done: bool) -> None:
        """Closes an issue."""


class ForgeClient:
    """Does what a forge's hand does, from outside of any loop."""

    _runner: asyncio.Runner
    _hand: ForgeWriter

    def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch of this very repository into the base."""
        return self._run(self._hand.find_open_pull(branch, base))

    def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a pull request as a draft."""
        return self._run(self._hand.open_draft(branch, base, title[:MAX_TITLE], text))

    def mark_ready(self, number: int) -> None:
        """Makes a draft one that is to be reviewed."""
        self._run(self._hand.mark_ready(number))

    def request_review(self, number: int, names: Sequence[str]) -> None:
        """Asks accounts to review; whom the forge does not let be asked is left out."""
        if names:
            self._run(self._request_review(number, names))

    def merge(self, number: int, commit: str) -> None:
        """Merges a pull request while the commit is its head."""
        self._run(self._hand.merge(number, commit))

    def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues with a label. What a forge makes of a label it does not know, the label itself tells."""
        found = self._run(self._hand.issues(label))
        return [issue for issue in found if issue.is_open and label in issue.labels]

    def issue(self, number: int) -> ForgeIssue:
        """One issue."""
        return self._run(self._hand.issue(number))

    def close_issue(self, number: int, text: str, *, is_done: bool) -> None:
        """Closes an issue with a comment, which is left once."""
        self._run(self._close_issue(number, text, is_done=is_done))

    async def _close_issue(self, number: int, text: str, *, is_done: bool) -> None:
        first = text.partition("\n")[0]
        if text and not any(first in said for said in await self._hand.comments(number)):
            await self._hand.add_comment(number, text)
        await self._hand.close_issue(number, is_done=is_done)

    async def _request_review(self, number: int, names: Sequence[str]) -> None:
        """Asks all at once, or one by one when the forge refuses: it does so for one that cannot be asked."""
        refused = await self._review_request_fault(number, names)
        if refused is None:
            return
        each = (
            [await self._review_request_fault(number, [name]) for name in names]
            if len(names) > 1
            else [refused]
        )
        if None not in each:
            raise refused

    async def _review_request_fault(self, number: int, names: Sequence[str]) -> ForgeFault | None:
        """Asks accounts; the fault when the forge understood, and will not."""
        try:
            await self._hand.ask_reviewers(number, names)
        except ForgeFault as fault:
            if fault.trouble is not ForgeFaultKind.REFUSED:
                raise
            return fault
        return None

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)


async def try_each_way(ways: Sequence[str], do: Callable[[str], Awaitable[None]], not_allowed: str) -> None:
    """Does something in the first of some ways that the forge allows; it says in these words that it allows one not."""
    *most, last = ways
    for way in most:
        try:
            return await do(way)
        except ForgeFault as fault:
            if fault.trouble is not ForgeFaultKind.REFUSED or not_allowed not in str(fault).casefold():
                raise
    return await do(last)


CONTEXT = "remand"
ASKED = "Changes are asked for."


def review_text(text: str, comments: Iterable[ForgeComment]) -> str:
    """A review's text with the comments that have no place of their own."""
    parts = (text, *(located_comment(comment) for comment in comments))
    return "\n\n".join(part for part in parts if part) or ASKED


def located_comment(comment: ForgeComment) -> str:
    """A comment with its place in front."""
    line = f":{comment.line}" if comment.line else ""
    return f"`{comment.path}{line}`: {comment.text}" if comment.path else comment.text


def is_placed(comment: ForgeComment) -> bool:
    """True when a comment is about a line."""
    return bool(comment.path) and comment.line > 0


def without_draft_prefix(title: str, sign: re.Pattern[str]) -> str:
    """A title without the signs that it begins with, however many."""
    while (found := sign.match(title)) is not None:
        title = title[found.end() :]
    return title
