"""What a poll asks of a forge: of a hundred open pull requests, none of which has changed, next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from remand.adapters.forges.gitea import Gitea
from remand.adapters.forges.github import GitHub
from remand.adapters.forges.gitlab import GitLab
from remand.app.forge.poll import Poller, PollResult
from remand.app.forge.ports import CachedAnswer, Forge
from remand.app.forge.review_import import Accounts, ReviewImporter
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Member, Role, Team
from remand.domain.forge import ReviewState
from tests.integration.forge_reviews import DIALECTS, Spoken
from tests.support.builders import FakeLedger
from tests.support.forge.server import ForgeServer
from tests.support.forge.state import ForgeState, NewLineComment
from tests.support.forge_fakes import MemoryNotes

OPEN = 100
ADAPTERS: dict[str, Callable[..., Forge]] = {"github": GitHub, "gitea": Gitea, "gitlab": GitLab}


class Answers(dict[str, CachedAnswer]):
    """What is kept of answers from poll to poll."""

    def put(self, address: str, answer: CachedAnswer) -> None:
        self[address] = answer


class Watched:
    """A ledger with a hundred tasks under review on a forge."""

    def __init__(self, spoken: Spoken, server: ForgeServer, state: ForgeState) -> None:
        self.spoken, self.server, self.state = spoken, server, state
        lead = Member(name="Lead", roles=(Role.LEAD,), accounts=(f"{spoken.kind}:lead",))
        team = Team((Member(name="Alice"), Member(name="Bob"), lead))
        self.world = FakeLedger(rules=Rules(team=team, gates=()))
        self.marks, self.answers = MemoryNotes(), Answers()
        self.lead, self.bot = state.person("lead", "write"), state.person("bot")
        for number in range(1, OPEN + 1):
            self.hand_in(number)

    def hand_in(self, number: int) -> None:
        """A task with a pull request that was reviewed and talked about."""
        task_id, commit = self.world.add(), self.world.repository.add(f"work {number}")
        self.world.claim(task_id, "Alice")
        ask = c.SubmitTask(task_id=task_id, agent="Alice", commit=commit, pr=number)
        self.world.ask(ask, "Alice")
        pull = self.state.open(self.bot, head=commit)
        self.state.review(pull, self.lead, ReviewState.COMMENTED, "Looking.", NewLineComment(text="Hm."))
        self.state.remark(pull, self.bot, "On it.")

    def poll(self, *only: int) -> PollResult:
        """One poll, by a process that begins anew."""
        forge = ADAPTERS[self.spoken.kind](
            "octo/demo",
            clock=self.world.clock,
            memory=self.answers,
            api=self.server.url,
            token=self.state.token,
        )
        try:
            accounts = Accounts(self.world.rules.team, forge, self.marks)
            taking = ReviewImporter(
                self.world.ledger,
                accounts,
                self.marks,
                kind=self.spoken.kind,
                home="https://octo.example/octo/demo",
                run_command=lambda *_: "",
            )
            return Poller(self.world.ledger, forge, self.marks, taking.import_pull_request).poll(only)
        finally:
            forge.close()


@pytest.fixture(params=DIALECTS)
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    state, spoken = ForgeState(), DIALECTS[request.param]
    with ForgeServer(spoken.dialect(state)) as server:
        yield Watched(spoken, server, state)


def test_what_has_not_changed_costs_two_requests_and_a_point_at_most(watched: Watched) -> None:
    first = watched.poll()
    asked = len(watched.server.requests)
    second = watched.poll()

    assert (first.polled, first.read, first.trouble) == (OPEN, OPEN, "")
    assert (second.polled, second.read, second.trouble) == (OPEN, 0, "")
    assert second.requests == len(watched.server.requests) - asked <= 2
    assert second.points <= 1

    pull = watched.state.pulls[7]
    watched.state.review(pull, watched.lead, ReviewState.CHANGES_REQUESTED, "No")
    woken = watched.poll(7)
    after = watched.poll()

    assert (woken.polled, woken.read, woken.rejections) == (1, 1, 1)
    assert (after.read, after.requests <= 2, after.points <= 1) == (0, True, True)
