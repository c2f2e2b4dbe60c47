"""A scheduler on fakes: agents are functions, worktrees are names, and time stands still until it is moved."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from msgspec.structs import replace

from remand.app.asking import Rules
from remand.app.scheduling.beginning import Beginning, Site
from remand.app.scheduling.books import Books
from remand.app.scheduling.briefs import Briefs
from remand.app.scheduling.ending import Ending
from remand.app.scheduling.floor import Floor
from remand.app.scheduling.ports import (
    Bounds,
    CannotRun,
    Ended,
    Fitted,
    Look,
    Order,
    Submitted,
    Told,
    Workplace,
)
from remand.app.scheduling.scheduler import Choose, Choosers, Scheduler
from remand.app.scheduling.settling import Settling
from remand.app.scheduling.staff import Load
from remand.domain import commands as c
from remand.domain.events import Purpose
from remand.domain.roles import Member, Role, Team
from remand.domain.task import Task
from remand.testing.builders import World

WORKED = Ended("exited", 0, 1.0)
LONGEST = 3600.0
CRASHED = Ended("exited", 1, 1.0, errors="Traceback\nValueError: no")

Script = Callable[["Shop", Order], Ended | None]
"""What an agent does when it is looked at: how it ended, or None while it goes on."""


class FakeRunning:
    """An agent's process: its script, asked again until it has ended."""

    def __init__(self, shop: Shop, order: Order, script: Script) -> None:
        self.order = order
        self.is_stopped = False
        self._shop = shop
        self._script = script
        self._told: Callable[[], None] = lambda: None

    def ended(self) -> Ended | None:
        """How it ended."""
        return Ended("stopped", 15, 1.0) if self.is_stopped else self._script(self._shop, self.order)

    def tell(self, ended: Callable[[], None]) -> None:
        """Says at once that there is something to look at: a script does its work when it is looked at."""
        self._told = ended
        ended()

    def stop(self) -> None:
        """Ends it."""
        self.is_stopped = True
        self._told()


class FakeWorkplaces:
    """Worktrees by task, with what their agents put there."""

    def __init__(self) -> None:
        self.looks: dict[str, Look] = {}
        self.prepared: list[tuple[str, str, str]] = []
        self.retired: list[str] = []
        self.left: list[str] = []
        self.kept: set[str] | None = None
        self.fault: CannotRun | None = None
        self.hindrance: CannotRun | None = None
        """Why what is in a place cannot be looked at or taken."""

    def prepare(self, task_id: str, branch: str, start: str, *, is_confined: bool) -> Workplace:
        if self.fault is not None:
            raise self.fault
        self.prepared.append((task_id, branch, start))
        self.looks.setdefault(task_id, Look(head=start))
        return Workplace(task_id=task_id, folder=f"/w/{task_id}", branch=branch, common_dir="/r/.git")

    def look(self, workplace: Workplace) -> Look:
        if self.hindrance is not None:
            raise self.hindrance
        return self.looks.get(workplace.task_id, Look())

    def bring(self, workplace: Workplace) -> str:
        return self.look(workplace).head

    def leave(self, workplace: Workplace) -> None:
        self.left.append(workplace.task_id)

    def retire(self, task_id: str, *, is_kept: bool = True) -> None:
        self.retired.append(task_id)

    def names(self) -> list[str]:
        return sorted(self.looks)

    def sweep(self, kept: Collection[str]) -> list[str]:
        self.kept = set(kept)
        return []


class Shop:
    """A whole ledger with a scheduler at work on it. `scripts` says what each agent does."""

    tier, detail = "plain", "fake"

    def __init__(self, *members: Member, **policy: Any) -> None:
        people = (Member(name="Lead", roles=(Role.LEAD,)), Member(name="owner", roles=(Role.USER,)))
        team = Team((*members, *people))
        rules = Rules(gates=(), team=team, base="base")
        self.world = World(rules=replace(rules, policy=replace(rules.policy, **policy)))
        self.world.repository.add("base")
        self.workplaces = FakeWorkplaces()
        self.scripts: dict[str, Script] = {}
        self.orders: list[Order] = []
        self.answers: list[Submitted] = []
        self.reviewer: Member | None = None
        self.choose: Choose = lambda *_: self.reviewer
        self.opinions: list[str] = []
        self.fault: CannotRun | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens while a done claim is measured."""
        self.seconds = 0.0
        self.signs: dict[str, str] = {}
        """When something was last heard of a run, should its scheduler be killed."""
        self.open_doors: set[str] = set()
        self.scheduler = self.started()

    def started(self) -> Scheduler:
        """A scheduler that has just been started on the ledger as it is."""
        self.running: list[FakeRunning] = []
        books = Books(self.world.ledger, lambda: self.world.rules, lambda: "", self.world.ids.hex)
        ending = Ending(books, self.workplaces, self, lambda _, told: "" if told.text else "it said nothing")
        site = Site(
            workplaces=self.workplaces,
            doors=_Doors(self.open_doors),
            hosts=self,
            crew=self,
            bounds=Bounds,
            environment=dict,
            log=lambda run_id: f"/l/{run_id}",
        )
        self.floor = Floor(
            Beginning(site, books, Briefs(books, {Purpose.REVIEW: lambda _: "review"}).brief),
            ending,
            self,
            self,
            clock=lambda: self.seconds,
        )
        self.scheduler = Scheduler(
            books=books,
            floor=self.floor,
            workplaces=self.workplaces,
            ending=ending,
            settling=Settling(books, self.workplaces, self),
            choosers=Choosers(self._chosen, lambda *_: None),
            tier="plain",
            longest=lambda: LONGEST,
            last_sign=lambda run_id: self.signs.get(run_id, ""),
            clock=lambda: self.seconds,
        )
        self.scheduler.recover()
        return self.scheduler

    def ticks(self, times: int = 1, seconds: float = 1.0) -> None:
        """Lets time pass, one look at a time."""
        for _ in range(times):
            self.scheduler.tick()
            self.seconds += seconds
            self.world.clock.advance(seconds)

    def _chosen(self, task: Task, load: Load) -> Member | None:
        return self.choose(task, load)

    # The ports that are a line each.

    def do(self, work: Callable[[], None]) -> None:
        """Does it at once."""
        work()

    def start(self, order: Order) -> FakeRunning:
        """Starts an agent's script."""
        if self.fault is not None:
            raise self.fault
        self.orders.append(order)
        self.running.append(FakeRunning(self, order, self.scripts.get(order.agent, _goes_on)))
        return self.running[-1]

    def fit(self, command: tuple[str, ...], run_id: str, prompt: str) -> Fitted:
        """The command as it is."""
        return Fitted(command=command)

    def drop(self, run_id: str) -> None:
        """Nothing was made for it."""

    def told(self, command: tuple[str, ...], output: str, status: int = 0) -> Told:
        """What the test says that the output tells."""
        return Told(text=output)

    def submit(self, workplace: Workplace, agent: str, commit: str) -> Submitted:
        """Hands the work in, unless the test has another answer ready."""
        self.meanwhile()
        if self.answers:
            return self.answers.pop(0)
        self.world.repository.add(commit)
        answer = self.world.ask(c.SubmitTask(task_id=workplace.task_id, agent=agent, commit=commit), agent)
        return Submitted("" if answer.task.submission else "gate_rejected")

    def close(self) -> None:
        """Nothing is being measured."""


class _Doors:
    def __init__(self, doors: set[str]) -> None:
        self._doors = doors

    def open(self, run_id: str, agent: str, task_id: str, workplace: Workplace) -> str:
        self._doors.add(run_id)
        return f"/d/{run_id}"

    def close(self, run_id: str) -> None:
        self._doors.discard(run_id)

    def end(self) -> None:
        self._doors.clear()


def _goes_on(shop: Shop, order: Order) -> None:
    """An agent that never ends."""


def commits(name: str) -> Script:
    """An agent that commits once and is done."""

    def script(shop: Shop, order: Order) -> Ended:
        shop.workplaces.looks[order.workplace.task_id] = Look(head=name)
        return WORKED

    return script


def says(ended: Ended) -> Script:
    """An agent that ends like that and does nothing."""
    return lambda *_: ended
