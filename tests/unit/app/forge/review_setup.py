"""A ledger with a task under review, and the forge in memory where it is reviewed."""

from __future__ import annotations

from typing import Any

from remand.app.events.task_folds import task_events
from remand.app.forge.poll import ForgeReporter, Poller, PollResult
from remand.app.forge.review_import import Accounts, ReviewImporter
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Actor, Member, Role, Team
from remand.domain.events.event import Event
from remand.domain.forge import Account, ForgeComment
from remand.domain.policy import Policy
from remand.domain.task import Task
from remand.testing.fakes import START
from tests.support.builders import FakeLedger
from tests.support.forge_fakes import MemoryForge, MemoryNotes, an_account

LEAD, TESTER, STRANGER = an_account("octocat"), an_account("tess"), an_account("stranger")
TEAM = Team(
    (
        Member(name="Alice", accounts=("github:alice",)),
        Member(name="Bob"),
        Member(name="Carol"),
        Member(name="Lead", roles=(Role.LEAD,), accounts=("github:octocat",)),
        Member(name="Tess", roles=(Role.TESTER,), accounts=(TESTER.id,), paths=("tests/**",)),
        Member(name="owner", roles=(Role.USER,), aliases=("user",)),
    )
)
PR = 12


def a_remark(author: Account | None, text: str, **fields: Any) -> ForgeComment:
    """Something said in the discussion just now."""
    return ForgeComment(id="9", text=text, author=author, **{"updated_at": START, **fields})


class Forged:
    """A ledger, a forge, and a task whose work was handed in as a pull request."""

    def __init__(self, *, report: tuple[str, ...] = (), policy: Policy = Policy()) -> None:  # noqa: B008
        self.world = FakeLedger(rules=Rules(team=TEAM, gates=(), policy=policy))
        self.forge, self.notes = MemoryForge(), MemoryNotes()
        self.forge.writers = {LEAD.id, TESTER.id, an_account("alice").id}
        self.obeyed: list[tuple[str, str, str]] = []
        self.report = report
        self.task_id = self.world.add(aliases=("#42",))
        self.head = self.hand_in("Alice", "first")

    def hand_in(self, agent: str, commit: str) -> str:
        """An agent claims, reads and hands in; returns the commit."""
        sha = self.world.repository.add(commit)
        held = self.world.claim(self.task_id, agent).claim
        assert held is not None
        self.world.ask(c.FetchFeedback(task_id=self.task_id, agent=agent), agent)
        self.world.ask(c.SubmitTask(task_id=self.task_id, agent=agent, commit=commit, pr=PR), agent)
        return sha

    def another(self, number: int, agent: str = "Bob") -> tuple[str, str]:
        """One more task whose work was handed in; returns its id and the commit."""
        task_id, commit = self.world.add(), self.world.repository.add(f"work {number}")
        self.world.claim(task_id, agent)
        self.world.ask(c.SubmitTask(task_id=task_id, agent=agent, commit=commit, pr=number), agent)
        return task_id, commit

    def poll(self) -> PollResult:
        """One poll, by a process that knows nothing but what was kept."""
        accounts = Accounts(self.world.rules.team, self.forge, self.notes)
        taking = ReviewImporter(
            self.world.ledger,
            accounts,
            self.notes,
            kind="github",
            home="https://github.com/owner/name",
            run_command=self.obey,
        )
        reporter = ForgeReporter(self.forge, self.notes, "github", self.report, self.events)
        return Poller(
            self.world.ledger, self.forge, self.notes, taking.import_pull_request, reporter.report
        ).poll()

    def obey(self, actor: Actor, text: str, key: str) -> str:
        """Keeps what was said."""
        self.obeyed.append((actor.name, text, key))
        return "Done."

    def events(self, task_id: str = "") -> list[Event]:
        """The task's events."""
        with self.world.store.read() as view:
            return task_events(view, task_id or self.task_id)

    def named(self, kind: type[Event]) -> list[Event]:
        """The task's events of a kind."""
        return [event for event in self.events() if isinstance(event, kind)]

    @property
    def task(self) -> Task:
        """The task as it is now."""
        return self.world.task(self.task_id)
