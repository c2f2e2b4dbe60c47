"""Plain REST APIs of forges: conditional questions, lists to their last page, and every fault in its kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from remand.adapters.forges.faults import fault_of, plain, said_in
from remand.adapters.forges.limits import Limits, is_limit
from remand.adapters.forges.transport import Reply, Transport
from remand.app.forges.ports import ForgeFault, Memory, Remembered, Trouble, Usage

MAX_PAGES = 200
MAX_LISTED = 64 << 20

Shape = TypeVar("Shape")


class Identified(Protocol):
    """Something that a list holds once."""

    @property
    def id(self) -> int | str:
        """What tells it from the others."""


Item = TypeVar("Item", bound=Identified)


class Service(NamedTuple):
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


class Rest:
    """One forge, asked with one token. Whatever goes wrong is a `ForgeFault`."""

    def __init__(self, service: Service, transport: Transport, limits: Limits, memory: Memory) -> None:
        self.usage = Usage()
        self._service, self._transport = service, transport
        self._limits, self._memory = limits, memory

    async def get(self, path: str, shape: type[Shape]) -> Shape:
        """What is at a path."""
        return self.read(await self._asked("GET", path), shape)

    async def again(self, path: str) -> Reply:
        """What is at a path, asked for on condition that it has changed."""
        url = self._service.api + path
        known = self._memory.get(url)
        is_known = known is not None and bool(known.etag)
        reply = await self._asked("GET", path, {"if-none-match": known.etag} if known and is_known else {})
        if known is not None and reply.status == 304:
            self.usage = self.usage._replace(not_modified=self.usage.not_modified + 1)
            return Reply(200, {"link": known.next_page, **reply.headers}, known.body.encode())
        etag, link = reply.headers.get("etag", ""), reply.headers.get("link", "")
        if etag:
            body = reply.body.decode("utf-8", "replace")
            self._memory.put(url, Remembered(etag=etag, body=body, next_page=link))
        return reply

    async def listed(self, path: str, shape: type[Item]) -> list[Item]:
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
                raise self.garbled(f"lists more than {MAX_LISTED >> 20} MB at once")
            if not has_more(reply, len(found), len(items)):
                return list(found.values())
            if len(found) == before:
                raise self.garbled("tells the same page of a list again and again")
        raise self.garbled(f"has more than {MAX_PAGES} pages of one list")

    async def send(self, path: str, data: object, method: str = "POST") -> Reply:
        """Leaves or changes something there."""
        content = {"content-type": "application/json"}
        return await self._asked(method, path, content, msgspec.json.encode(data))

    async def close(self) -> None:
        """Lets go of connections."""
        await self._transport.close()

    def read(self, reply: Reply, shape: type[Shape]) -> Shape:
        """An answer in the shape it must have; fields nobody asks for may hold anything."""
        try:
            return msgspec.json.decode(reply.body, type=shape)
        except (ValueError, RecursionError) as error:
            raise self.garbled(
                f"answers what cannot be read ({plain(str(error), self._service.token)})"
            ) from None

    def garbled(self, what: str) -> ForgeFault:
        """What the forge says makes no sense."""
        return ForgeFault(Trouble.GARBLED, f"{self._service.forge} {what}.")

    async def _pages(self, path: str) -> AsyncIterator[Reply]:
        join = "&" if "?" in path else "?"
        for number in range(1, MAX_PAGES + 1):
            yield await self._asked("GET", f"{path}{join}{self._service.page_size}&page={number}")

    async def _asked(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Reply:
        """Sends a request unless a limit forbids it, and lets only answers through."""
        service = self._service
        self._limits.check()
        self.usage = self.usage._replace(requests=self.usage.requests + 1)
        sent = {**service.headers, "accept": "application/json", "user-agent": "remand", **(headers or {})}
        reply = await self._transport.send(method, service.api + path, sent, body)
        said = said_in(reply, service.token) if reply.status >= 400 else ""
        if is_limit(reply, said):
            raise self._limits.hit(reply)
        self._limits.spent(reply)
        if "ratelimit-remaining" in reply.headers:
            self.usage = self.usage._replace(points=self.usage.points + 1)
        fault = fault_of(reply, service.forge, service.token_name, said)
        if fault is not None:
            raise fault
        return reply


def has_more(reply: Reply, seen: int, on_page: int) -> bool:
    """True when another page follows: by the link to it, else by how many there are in all.

    A total may be counted before what the token may not see is taken out, so an empty page ends a list too.
    """
    if not on_page:
        return False
    if "link" in reply.headers or "x-next-page" in reply.headers:
        return 'rel="next"' in reply.headers.get("link", "") or bool(reply.headers.get("x-next-page"))
    total = reply.headers.get("x-total-count", "")
    return total.isdecimal() and seen < int(total[:9])
