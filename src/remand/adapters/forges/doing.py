"""What is done on a forge, whichever it is: each thing is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from remand.app.forges.ports import ForgeFault, Issue, OpenPull, Trouble

MAX_TITLE = 250

Result = TypeVar("Result")


class Hand(Protocol):
    """How one kind of forge is asked to do things; see `Pulls` and `Issues`."""

    async def opened(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch into the base."""

    async def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens one."""

    async def mark_ready(self, number: int) -> None:
        """Makes a draft one that is to be reviewed."""

    async def ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        """Asks all of these accounts at once, or none."""

    async def merge(self, number: int, commit: str) -> None:
        """Merges it while the commit is its head."""

    async def issues(self, label: str) -> list[Issue]:
        """The open issues, at least those with the label."""

    async def issue(self, number: int) -> Issue:
        """One issue."""

    async def remarks(self, number: int) -> list[str]:
        """What was said about an issue."""

    async def remark(self, number: int, text: str) -> None:
        """Says something about an issue."""

    async def close_issue(self, number: int, *, is_done: bool) -> None:
        """Closes an issue."""


class Doing:
    """Does what a forge's hand does, from outside of any loop."""

    _runner: asyncio.Runner
    _hand: Hand

    def opened(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch of this very repository into the base."""
        return self._done(self._hand.opened(branch, base))

    def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a pull request as a draft."""
        return self._done(self._hand.open_draft(branch, base, title[:MAX_TITLE], text))

    def mark_ready(self, number: int) -> None:
        """Makes a draft one that is to be reviewed."""
        self._done(self._hand.mark_ready(number))

    def request_review(self, number: int, names: Sequence[str]) -> None:
        """Asks accounts to review; whom the forge does not let be asked is left out."""
        if names:
            self._done(self._request_review(number, names))

    def merge(self, number: int, commit: str) -> None:
        """Merges a pull request while the commit is its head."""
        self._done(self._hand.merge(number, commit))

    def issues(self, label: str) -> list[Issue]:
        """The open issues with a label. What a forge makes of a label it does not know, the label itself tells."""
        found = self._done(self._hand.issues(label))
        return [issue for issue in found if issue.is_open and label in issue.labels]

    def issue(self, number: int) -> Issue:
        """One issue."""
        return self._done(self._hand.issue(number))

    def close_issue(self, number: int, text: str, *, is_done: bool) -> None:
        """Closes an issue with a comment, which is left once."""
        self._done(self._close_issue(number, text, is_done=is_done))

    async def _close_issue(self, number: int, text: str, *, is_done: bool) -> None:
        first = text.partition("\n")[0]
        if text and not any(first in said for said in await self._hand.remarks(number)):
            await self._hand.remark(number, text)
        await self._hand.close_issue(number, is_done=is_done)

    async def _request_review(self, number: int, names: Sequence[str]) -> None:
        """Asks all at once, or one by one when the forge refuses: it does so for one that cannot be asked."""
        refused = await self._refused(number, names)
        if refused is None:
            return
        each = [await self._refused(number, [name]) for name in names] if len(names) > 1 else [refused]
        if None not in each:
            raise refused

    async def _refused(self, number: int, names: Sequence[str]) -> ForgeFault | None:
        """Asks accounts; the fault when the forge understood, and will not."""
        try:
            await self._hand.ask_reviewers(number, names)
        except ForgeFault as fault:
            if fault.trouble is not Trouble.REFUSED:
                raise
            return fault
        return None

    def _done(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)


async def in_first_way(ways: Sequence[str], do: Callable[[str], Awaitable[None]], not_allowed: str) -> None:
    """Does something in the first of some ways that the forge allows; it says in these words that it allows one not."""
    *most, last = ways
    for way in most:
        try:
            return await do(way)
        except ForgeFault as fault:
            if fault.trouble is not Trouble.REFUSED or not_allowed not in str(fault).casefold():
                raise
    return await do(last)
