"""What a poll of a hundred unchanged pull requests asks of GitHub, beside one that reads each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import httpx2

from benchmarks.report import Report
from remand.adapters.forges.github import GitHub
from remand.app.forge.ports import CachedAnswer
from remand.domain.forge import ReviewState
from remand.testing.fakes import FakeClock
from tests.support.forge.github import GitHubDialect
from tests.support.forge.server import ForgeServer
from tests.support.forge.state import ForgeState, NewLineComment

PULLS = 100
LISTS = ("pulls/{0}", "pulls/{0}/reviews", "pulls/{0}/comments", "issues/{0}/comments")

Tick = Callable[[], object]


class Notes(dict[str, CachedAnswer]):
    """What a poll remembers for the next."""

    def put(self, address: str, answer: CachedAnswer) -> None:
        """Keeps an answer."""
        self[address] = answer


class Spent(NamedTuple):
    """What one tick took."""

    requests: int
    points: int


class Hub:
    """A GitHub on loopback with a hundred reviewed pull requests, which counts what is asked of it."""

    def __init__(self, server: ForgeServer, dialect: GitHubDialect, state: ForgeState) -> None:
        self.server, self.dialect, self.state = server, dialect, state

    def spent(self, tick: Tick) -> Spent:
        """What a tick takes when the one before has seen everything."""
        tick()
        asked, points = len(self.server.requests), sum(self.dialect.used.values())
        tick()
        return Spent(len(self.server.requests) - asked, sum(self.dialect.used.values()) - points)


def run(report: Report) -> None:
    """Prints the table."""
    report.heading(f"A poll of GitHub, {PULLS} open pull requests, nothing changed")
    with _hub() as hub, _adapter(hub) as forge:
        ours = hub.spent(lambda: forge.change_marks(range(1, PULLS + 1)))
        naive = hub.spent(lambda: _each(hub))
    rows = {
        "remand: lists with ETags": ours,
        "each pull request, its reviews and comments by REST": naive,
    }
    report.table(
        ("way", "requests", "points of 5,000 an hour"),
        [(name, *found) for name, found in rows.items()],
    )
    report.goal("requests per tick, 100 pull requests", ours.requests, most=2, unit="requests")
    report.goal("points per tick, 100 pull requests", ours.points, most=0, unit="points")


@contextmanager
def _hub() -> Iterator[Hub]:
    state = ForgeState()
    reviewer, author = state.person("reviewer", "write"), state.person("author")
    for _ in range(PULLS):
        pull = state.open(author)
        said = [NewLineComment(text=f"Finding {number}", line=number + 1) for number in range(3)]
        state.review(pull, reviewer, ReviewState.CHANGES_REQUESTED, "Not yet.", *said)
        state.remark(pull, author, "On it.")
    dialect = GitHubDialect(state)
    with ForgeServer(dialect) as server:
        yield Hub(server, dialect, state)


@contextmanager
def _adapter(hub: Hub) -> Iterator[GitHub]:
    forge = GitHub("octo/demo", clock=FakeClock(), memory=Notes(), api=hub.server.url, token=hub.state.token)
    try:
        yield forge
    finally:
        forge.close()


def _each(hub: Hub) -> None:
    """The straightforward way: four questions for each pull request, none of them conditional."""
    headers = {"authorization": f"token {hub.state.token}"}
    with httpx2.Client(base_url=f"{hub.server.url}/repos/octo/demo/", headers=headers) as client:
        for number in range(1, PULLS + 1):
            for path in LISTS:
                client.get(path.format(number)).raise_for_status()
