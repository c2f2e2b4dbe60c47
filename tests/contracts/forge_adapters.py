"""Every forge adapter with a fake forge in its own dialect, and what that kind of forge does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from remand.adapters.forges.gitea import Gitea
from remand.adapters.forges.github import GitHub
from remand.adapters.forges.gitlab import GitLab
from remand.adapters.forges.transport import HttpTransport
from remand.app.forge.ports import CachedAnswer, Forge, ForgeFault, ForgeFaultKind
from remand.domain.forge import Account, PullRequest, ReviewState
from remand.testing.fakes import FakeClock
from tests.support.forge.gitea import GiteaDialect
from tests.support.forge.github import GitHubDialect
from tests.support.forge.gitlab import GitLabDialect
from tests.support.forge.server import Dialect, Fault, ForgeServer
from tests.support.forge.state import ForgeState, NewLineComment, Person, StoredReview

SECONDS = 60.0
SOON = 0.3
"""The patience with what is never answered; whatever is answered may take a slow machine longer."""
HTML = {"content-type": "text/html"}
JSON = {"content-type": "application/json"}


class Notes:
    """A memory that lasts as long as the test."""

    def __init__(self) -> None:
        self.kept: dict[str, CachedAnswer] = {}

    def get(self, address: str) -> CachedAnswer | None:
        return self.kept.get(address)

    def put(self, address: str, answer: CachedAnswer) -> None:
        self.kept[address] = answer


@dataclass(kw_only=True)
class World:
    """A forge with people and one pull request, and an adapter that asks it."""

    kind: str
    state: ForgeState
    server: ForgeServer
    make: Callable[[World, float], Forge]
    clock: FakeClock = field(default_factory=FakeClock)
    memory: Notes = field(default_factory=Notes)
    opened: list[Forge] = field(default_factory=list)
    patience: float = SECONDS

    def __post_init__(self) -> None:
        self.ann = self.state.person("ann", "write")
        self.bob = self.state.person("bob", "read")
        self.pull = self.state.open(self.bob)
        self.forge = self.another()

    def another(self) -> Forge:
        """One more adapter, as the next process has it: with the same memory."""
        self.opened.append(self.make(self, self.patience))
        return self.opened[-1]

    def account(self, person: Person) -> Account:
        return Account(
            id=f"{self.kind}:{person.id}", login=f"{self.kind}:{person.login}", is_bot=person.is_bot
        )

    def rejected(self, *said: NewLineComment, text: str = "Not yet.") -> StoredReview:
        return self.state.review(self.pull, self.ann, ReviewState.CHANGES_REQUESTED, text, *said)

    def read(self) -> PullRequest:
        return self.forge.pull_request(self.pull.number)

    def mark(self) -> str:
        return self.forge.change_marks([self.pull.number])[self.pull.number]

    def fault(self, ask: Callable[[], object] | None = None) -> ForgeFault:
        with pytest.raises(ForgeFault) as raised:
            (ask or self.read)()
        return raised.value


class Setup(NamedTuple):
    """How one adapter and its forge are made, and what that kind of forge does not have."""

    name: str
    kind: str
    dialect: Callable[[ForgeState], Dialect]
    forge: Callable[[World, float], Forge]
    lacks: frozenset[str] = frozenset()


def _github(world: World, seconds: float) -> Forge:
    carrier = HttpTransport(world.server.url, seconds)
    return GitHub(
        "octo/demo",
        clock=world.clock,
        memory=world.memory,
        api=world.server.url,
        token=world.state.token,
        transport=carrier,
    )


def _gitea(world: World, seconds: float) -> Forge:
    carrier = HttpTransport(world.server.url, seconds)
    return Gitea(
        "octo/demo",
        clock=world.clock,
        memory=world.memory,
        api=world.server.url,
        token=world.state.token,
        transport=carrier,
    )


def _gitlab(world: World, seconds: float) -> Forge:
    carrier = HttpTransport(world.server.url, seconds)
    return GitLab(
        "octo/demo",
        clock=world.clock,
        memory=world.memory,
        api=world.server.url,
        token=world.state.token,
        transport=carrier,
    )


GITEA_LACKS = frozenset(
    {
        "bots",
        "conditional reading",
        "file comments",
        "marked comment edits",
        "marked edits",
        "outdated lines",
        "reasons",
        "drafts for some",
    }
)
GITLAB_LACKS = frozenset(
    {
        "bots",
        "comment reviews",
        "conditional reading",
        "dismissal",
        "drafts for some",
        "merge methods",
        "own work",
        "reasons",
        "rebinding",
        "refused reviewers",
    }
)
SETUPS = [
    Setup("github", "github", GitHubDialect, _github, frozenset({"marked edits"})),
    Setup("gitea", "gitea", GiteaDialect, _gitea, GITEA_LACKS),
    Setup("gitlab", "gitlab", GitLabDialect, _gitlab, GITLAB_LACKS),
]


def on(*features: str) -> pytest.MarkDecorator:
    """The forges that have all of these."""
    able = [setup for setup in SETUPS if not setup.lacks & set(features)]
    return pytest.mark.parametrize("world", able, ids=[setup.name for setup in able], indirect=True)


@contextmanager
def opened(setup: Setup) -> Iterator[World]:
    """The world of a setup, let go of afterwards."""
    state = ForgeState()
    with ForgeServer(setup.dialect(state)) as server:
        world = World(kind=setup.kind, state=state, server=server, make=setup.forge)
        yield world
        for forge in world.opened:
            forge.close()


FAULTS: dict[str, tuple[Fault, set[ForgeFaultKind]]] = {
    "500": (Fault(status=500, headers=JSON, body=b'{"message": "boom"}'), {ForgeFaultKind.UNREACHABLE}),
    "502 page": (Fault(status=502, headers=HTML, body=b"<h1>Bad gateway"), {ForgeFaultKind.UNREACHABLE}),
    "503": (Fault(status=503), {ForgeFaultKind.UNREACHABLE}),
    "599": (Fault(status=599), {ForgeFaultKind.UNREACHABLE}),
    "401": (Fault(status=401, headers=JSON, body=b'{"message": "Bad credentials"}'), {ForgeFaultKind.DENIED}),
    "429": (Fault(status=429), {ForgeFaultKind.LIMITED}),
    "page": (Fault(status=200, headers=HTML, body=b"<html>Welcome</html>"), {ForgeFaultKind.GARBLED}),
    "empty": (Fault(status=200, headers=JSON), {ForgeFaultKind.GARBLED}),
    "half": (Fault(status=200, headers=JSON, body=b'[{"number": 1, "he'), {ForgeFaultKind.GARBLED}),
    "shape": (Fault(status=200, headers=JSON, body=b'{"data": 7}'), {ForgeFaultKind.GARBLED}),
    "deep": (Fault(status=200, headers=JSON, body=b"[" * 200_000), {ForgeFaultKind.GARBLED}),
    "latin": (Fault(status=200, headers=JSON, body=b'"\xff\xfe"'), {ForgeFaultKind.GARBLED}),
    "charset": (
        Fault(status=200, headers={"content-type": "application/json; charset=bogus"}, body=b"[1]"),
        {ForgeFaultKind.GARBLED},
    ),
    "packed": (
        Fault(status=200, headers={**JSON, "content-encoding": "gzip"}, body=b"no gzip"),
        {ForgeFaultKind.GARBLED, ForgeFaultKind.UNREACHABLE},
    ),
    "unasked 304": (Fault(status=304), {ForgeFaultKind.GARBLED}),
    "cut": (Fault(is_cut=True), {ForgeFaultKind.UNREACHABLE, ForgeFaultKind.GARBLED}),
}


def fields_of(fault: Fault) -> dict[str, object]:
    """What a fault is made of."""
    return {name: getattr(fault, name) for name in Fault.__slots__}
