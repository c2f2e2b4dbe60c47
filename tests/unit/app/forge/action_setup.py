"""A ledger, a forge and a remote in memory, where work is handed in, shown, approved and merged, and things fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from remand.app.events.task_folds import task_events
from remand.app.forge.actions import (
    ActionReport,
    CloseAction,
    ForgeActionHandler,
    ForgeActions,
    MergeAction,
    OpenAction,
    PushAction,
    RequestReviewAction,
)
from remand.app.forge.ports import ForgeFault, ForgeFaultKind, ForgeIssue
from remand.app.forge.review_import import Accounts
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Member, Role, Team
from remand.domain.events.event import Event
from remand.domain.events.reviews import Finding
from remand.domain.forge import ForgeAction
from remand.domain.policy import Policy
from remand.domain.task import Task
from remand.testing.builders import NOW
from tests.support.builders import FakeLedger
from tests.support.fakes import ProcessKilled
from tests.support.forge_fakes import MemoryForge, MemoryNotes, MemoryRemote, an_account

LEAD = an_account("octocat")
TEAM = Team(
    (
        Member(name="Alice"),
        Member(name="Bob"),
        Member(name="Lead", roles=(Role.LEAD,), accounts=("github:octocat",)),
        Member(name="Tess", roles=(Role.TESTER,), accounts=("github:77",)),
        Member(name="owner", roles=(Role.USER,), aliases=("user",), accounts=("github:owner",)),
    )
)
EVERYTHING = Policy(open_pr=True, request_review=True, merge_on_approve=True)
DOWN = ForgeFault(ForgeFaultKind.UNREACHABLE, "The forge cannot be reached.")
NO = ForgeFault(ForgeFaultKind.REFUSED, "No.")


class Tapped:
    """Something whose calls are counted, and one of which the process does not survive."""

    def __init__(self, inner: Any, tap: Callable[[str, Callable[[], Any]], Any]) -> None:
        self._inner, self._tap = inner, tap

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found
        return lambda *given, **named: self._tap(name, lambda: found(*given, **named))


class Workshop:
    """A task whose work goes to the forge. Every tick is by a process that knows nothing but what was kept."""

    def __init__(self, policy: Policy = EVERYTHING, *, is_issue: bool = True) -> None:
        self.world = FakeLedger(rules=Rules(team=TEAM, gates=(), policy=policy))
        self.forge, self.notes = MemoryForge(), MemoryNotes()
        self.remote = MemoryRemote(self.forge.tips)
        self.forge.writers = {LEAD.id}
        self.opened = 0
        self.is_alone = True
        self.calls: list[str] = []
        self.dies_at = -1
        """The call during which the process ends; it is carried out when `dies_after` says so."""
        self.dies_after = False
        self.task_id = self.from_issue(12) if is_issue else self.world.add(branch="work/1")
        self.world.repository.add("work")

    def from_issue(self, number: int) -> str:
        """A task that an issue stands for."""
        self.forge.listed[number] = ForgeIssue(number=number, title="It leaks", labels=("remand",))
        ask = c.ImportIssue(
            title="It leaks",
            issue=number,
            source=f"github:o/r#{number}",
            opened_at=NOW,
            aliases=(f"#{number}",),
            branch=f"work/{number}",
        )
        answer = self.world.ledger.ask_as(THE_COORDINATOR, ask)
        assert not isinstance(answer, Exception)
        return answer.task.id

    def hand_in(self, commit: str = "work", agent: str = "Alice", task_id: str = "") -> str:
        """An agent hands in; returns the commit's id."""
        sha = self.world.repository.add(commit)
        name = task_id or self.task_id
        self.world.claim(name, agent)
        self.world.submit(name, agent, commit)
        return sha

    def approve(self, commit: str = "work", task_id: str = "") -> None:
        """The user approves."""
        self.world.ask(c.ApproveReview(task_id=task_id or self.task_id, commit=commit))

    def reject(self, commit: str = "work") -> None:
        """The user rejects."""
        finding = Finding(text="It leaks")
        self.world.ask(c.RejectReview(task_id=self.task_id, commit=commit, findings=(finding,)))

    def tick(self, *, is_again: bool = False) -> ActionReport:
        """One look by a process of its own."""
        self.world.reopen()
        acting = ForgeActions(
            self.world.ledger,
            self.notes,
            self.world.rules.policy,
            base="main",
            open_forge=self._opened,
            lock=self._alone,
        )
        return acting.tick(is_again=is_again)

    def dies(self, at: int, *, after: bool) -> bool:
        """Lets a tick's process end at a call; False when it makes no more than these calls."""
        self.calls, self.dies_at, self.dies_after = [], at, after
        try:
            self.tick()
        except ProcessKilled:
            return True
        finally:
            self.dies_at = -1
        return False

    def wait_until(self, until: str) -> None:
        """Lets time pass until then."""
        self.world.clock.advance(
            (datetime.fromisoformat(until) - datetime.fromisoformat(self.world.clock.now())).total_seconds()
        )

    def set_policy(self, **fields: bool) -> None:
        """Changes the policy."""
        policy = replace(self.world.rules.policy, **fields)
        self.world.rules = replace_rules(self.world.rules, policy)

    @property
    def task(self) -> Task:
        """The task as it is now."""
        return self.world.task(self.task_id)

    def events(self, *kinds: type[Event]) -> list[Event]:
        """The task's events of these kinds."""
        with self.world.store.read() as view:
            return [event for event in task_events(view, self.task_id) if isinstance(event, kinds)]

    @contextmanager
    def _opened(self) -> Iterator[dict[ForgeAction, ForgeActionHandler]]:
        self.opened += 1
        forge: Any = Tapped(self.forge, self._tap)
        remote: Any = Tapped(self.remote, self._tap)
        yield {
            ForgeAction.PUSH: PushAction(remote),
            ForgeAction.OPEN: OpenAction(forge, "main"),
            ForgeAction.REQUEST: RequestReviewAction(forge, TEAM, "github"),
            ForgeAction.MERGE: MergeAction(forge, Accounts(TEAM, forge, self.notes).writing_member),
            ForgeAction.CLOSE: CloseAction(forge),
        }

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        yield self.is_alone

    def _tap(self, name: str, call: Callable[[], Any]) -> Any:
        self.calls.append(name)
        is_end = len(self.calls) - 1 == self.dies_at
        if is_end and not self.dies_after:
            raise ProcessKilled
        found = call()
        if is_end:
            raise ProcessKilled
        return found


def replace_rules(rules: Rules, policy: Policy) -> Rules:
    """The same rules under another policy."""
    return Rules(team=rules.team, gates=rules.gates, policy=policy)
