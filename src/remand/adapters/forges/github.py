"""A repository on GitHub: by GraphQL where it is to be had, by REST where not."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from remand.adapters.forges import github_graphql, github_rest, github_writing
from remand.adapters.forges.doing import Doing
from remand.adapters.forges.gh import PROGRAM, GhTransport, Processes
from remand.adapters.forges.github_acts import GitHubHand
from remand.adapters.forges.github_api import TOKEN_NAME, Api, GraphqlMissing, Place
from remand.adapters.forges.limits import Limits
from remand.adapters.forges.transport import HttpTransport, Transport
from remand.app.errors import UsageError
from remand.app.forges.ports import CheckState, ForgeFault, Memory, Remembered, Trouble, Usage
from remand.app.ports import Clock
from remand.domain.instant import is_instant, plus
from remand.domain.pulls.shapes import Account, Comment, PullRequest, ReviewState

API = "https://api.github.com"
MAX_NUMBER = (1 << 31) - 1
MISSING_SECONDS = 3600.0

Result = TypeVar("Result")


class Presence:
    """Whether GraphQL is to be had. That it was not is remembered for a while, also by the next process."""

    def __init__(self, clock: Clock, memory: Memory, address: str) -> None:
        self._clock, self._memory, self._address = clock, memory, f"{address}#missing"

    @property
    def is_likely(self) -> bool:
        """True when it is worth asking."""
        kept = self._memory.get(self._address)
        return kept is None or not is_instant(kept.body) or kept.body <= self._clock.now()

    def note_missing(self) -> None:
        """Notes that it is not there now."""
        until = plus(self._clock.now(), MISSING_SECONDS)
        self._memory.put(self._address, Remembered(etag="", body=until))


class GitHub(Doing):
    """Implements `Forge`. It waits for each answer, and keeps its connections until it is closed."""

    def __init__(
        self,
        repository: str,
        *,
        clock: Clock,
        memory: Memory,
        api: str = "",
        token: str = "",
        transport: Transport | None = None,
    ) -> None:
        owner, _, name = repository.partition("/")
        if not owner or not name or "/" in name:
            raise UsageError(f"{repository} is no repository on GitHub. Write it as OWNER/NAME.")
        place = Place((api or API).rstrip("/"), owner, name)
        if not token.isascii() or not token.isprintable():
            raise ForgeFault(Trouble.DENIED, f"{TOKEN_NAME} holds no token: signs in it cannot be sent.")
        carrier = transport or transport_for(place.api, token)
        self._api = Api(place, carrier, Limits(clock, memory, place.api), memory, token)
        self._hand = GitHubHand(self._api)
        self._graphql = Presence(clock, memory, place.graphql)
        self._runner = asyncio.Runner()

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        return self._api.usage

    def glance(self, numbers: Sequence[int]) -> dict[int, str]:
        """A mark of each pull request, made of what is cheap to ask and of line comments that were edited lately."""
        known = sorted({number for number in numbers if 0 < number <= MAX_NUMBER})
        return self._done(self._glance(known)) if known else {}

    async def _glance(self, numbers: Sequence[int]) -> dict[int, str]:
        marks = await self._either(
            lambda: github_graphql.glance(self._api, numbers), lambda: github_rest.glance(self._api, numbers)
        )
        touched = await github_rest.touched(self._api)
        return {number: f"{mark} {touched.get(number, '')}" for number, mark in marks.items()}

    def pull_request(self, number: int) -> PullRequest:
        """A pull request, whole."""
        return self._done(
            self._either(
                lambda: github_graphql.pull_request(self._api, number),
                lambda: github_rest.pull_request(self._api, number),
            )
        )

    def may_write(self, account: Account) -> bool:
        """True when the account may write, by GitHub's word of this moment."""
        return self._done(github_rest.may_write(self._api, account))

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Leaves a status."""
        self._done(github_writing.set_status(self._api, commit, state, text))

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[Comment]
    ) -> ReviewState:
        """Leaves a review; says whether it could ask for changes."""
        return self._done(github_writing.request_changes(self._api, number, commit, text, comments))

    def comment(self, number: int, text: str) -> None:
        """Leaves a comment."""
        self._done(github_writing.comment(self._api, number, text))

    def close(self) -> None:
        """Lets go of connections."""
        self._done(self._api.close())
        self._runner.close()

    async def _either(
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
            Trouble.DENIED,
            f"There is no token for {api}. Set {TOKEN_NAME}, or install `gh` and log in with `gh auth login`.",
        )
    return GhTransport(api, Processes(), program)
