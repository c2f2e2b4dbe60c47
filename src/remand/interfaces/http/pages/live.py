"""Live updates of open pages: a change is rendered once per page and member, however many windows show it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any

from remand.interfaces.http.problems import UNAVAILABLE, HttpProblem

POLL_SECONDS = 0.15
"""How often the ledger is polled for changes while a page is open."""
RETRY_SECONDS = 2.0
"""How long a page that could not be rendered waits for the next attempt, unless the ledger changes."""
BEAT_SECONDS = 15.0
"""How often a heartbeat is sent, which also detects closed connections."""
MAX_STREAMS = 1000
MAX_STREAMS_EACH, MAX_PAGES_EACH = 250, 50
"""The most streams per member, and the most distinct pages, as each is rendered after every change."""

NOTE = "note"
"""The fragment that describes the page's current state in words."""
STALE = "live_stale"
"""The fragment that says that a page is out of date; it depends only on the ledger's position."""
WAITING = "live_waiting"
"""The fragment with the number of waiting items, part of every page."""
Fragments = Mapping[str, str]
_LINE_ENDS = re.compile(r"\r\n|\r|\n")


class LivePage:
    """One open page as one member sees it."""

    def __init__(self, render: Callable[[str], Awaitable[Fragments]], mark: str) -> None:
        self.render = render
        self.mark = mark
        """The ledger's position before and after the page was last rendered; empty if it changed meanwhile."""
        self.failed_mark, self.retry_time = "", 0.0
        """The position at which the page could not be rendered, and when to try again."""
        self.fragments: Fragments = {}
        self.readers = 0
        self.news = asyncio.Event()


class LiveUpdates:
    """All open pages. For one event loop."""

    def __init__(self, read_mark: Callable[[], Awaitable[str]], is_ending: Callable[[], bool]) -> None:
        self._read_mark = read_mark
        self._is_ending = is_ending
        self._pages: dict[Hashable, LivePage] = {}
        self._watch: asyncio.Task[None] | None = None

    @property
    def stream_count(self) -> int:
        return sum(page.readers for page in self._pages.values())

    def require_room(self, owner: Callable[[Hashable], bool]) -> None:
        """Refuses another stream if there are too many, in total or of one member. Raises `HttpProblem`."""
        own = [page.readers for key, page in self._pages.items() if owner(key)]
        if self.stream_count >= MAX_STREAMS or sum(own) >= MAX_STREAMS_EACH or len(own) >= MAX_PAGES_EACH:
            raise HttpProblem(UNAVAILABLE, "unavailable", "Too many pages are open.", {"retry-after": "30"})

    async def changes(
        self, key: Hashable, render: Callable[[str], Awaitable[Fragments]], since: str
    ) -> AsyncIterator[Fragments]:
        """Yields the fragments that have changed since the page was shown, and an empty set as a heartbeat."""
        page = self._pages.setdefault(key, LivePage(render, ""))
        page.readers += 1
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._render_changes())
        try:
            await self._refresh(page, await self._read_mark())
            sent: Fragments = page.fragments if since and page.mark == since else {}
            while not self._is_ending():
                event = page.news  # taken before the comparison, so that a later change sets it
                news = {name: text for name, text in page.fragments.items() if sent.get(name) != text}
                sent = page.fragments
                # The note about a change is repeated for each change, even with the same words.
                yield news | {NOTE: sent[NOTE]} if news.keys() - {WAITING} else news
                with suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), BEAT_SECONDS)
        finally:
            page.readers -= 1
            if not page.readers:
                self._pages.pop(key, None)

    async def _render_changes(self) -> None:
        """Renders the open pages after each change, using at most half of the time."""
        while self._pages and not self._is_ending():
            begun = asyncio.get_running_loop().time()
            with suppress(Exception):  # whatever the error, other open pages must continue to receive changes
                mark = await self._read_mark()
                for page in list(self._pages.values()):
                    await self._refresh(page, mark)
            spent = asyncio.get_running_loop().time() - begun
            await asyncio.sleep(max(POLL_SECONDS, spent))
        for page in self._pages.values():
            page.news.set()

    async def _refresh(self, page: LivePage, mark: str) -> None:
        """Renders a page unless it shows this position of the ledger already.

        What is rendered while the ledger changes may show the change or not, so it belongs to no position: the page is
        sent to everybody who has it open, and rendered again.
        """
        now = asyncio.get_running_loop().time()
        if page.mark == mark or (page.failed_mark == mark and now < page.retry_time):
            return
        found: Fragments | None = None
        with suppress(Exception):  # a page that cannot be rendered shows its error when it is reloaded
            found = await page.render(mark)
        if found is None:
            page.failed_mark, page.retry_time = mark, now + RETRY_SECONDS
            return
        page.mark = mark if await self._read_mark() == mark else ""
        if found != page.fragments:
            page.fragments = found
            page.news.set()
            page.news = asyncio.Event()


def event_text(name: str, text: str) -> bytes:
    """A server-sent event; the format has three line terminators."""
    lines = "".join(f"data: {line}\n" for line in _LINE_ENDS.split(text))
    return f"event: {name}\n{lines}\n".encode()


BEAT = b": still there\n\n"


async def send_stream(send: Any, parts: AsyncIterator[bytes]) -> None:
    """Sends a stream of server-sent events until it ends."""
    headers = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
