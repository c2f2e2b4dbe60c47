"""How a run begins: a place to work, a door, what is told, and the process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.scheduling.books import Books
from remand.app.scheduling.ports import (
    Bounds,
    CannotRun,
    Crew,
    Doors,
    Hosts,
    Order,
    Running,
    Workplace,
    Workplaces,
)
from remand.domain.events import Purpose
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.roles import Member
from remand.domain.task import Task


class Assigned(Record, kw_only=True):
    """A run that the ledger knows, and that is to be begun."""

    run_id: str
    task: Task
    member: Member
    purpose: Purpose
    note: str = ""
    """What the agent is told before all else: why its last run was not the end."""
    is_trial: bool = False
    """It is begun to find out whether what was wrong still is: should it fail, the task has no part in that."""
    left: tuple[str, ...] = ()
    """What an earlier run left uncommitted in the workplace."""


class UnderWay(NamedTuple):
    """A run that is under way."""

    assigned: Assigned
    workplace: Workplace
    running: Running
    started_at: Instant


class Site(NamedTuple):
    """What all runs have in common."""

    workplaces: Workplaces
    doors: Doors
    hosts: Hosts
    crew: Crew
    bounds: Callable[[], Bounds]
    environment: Callable[[], dict[str, str]]
    """What the scheduler's own environment hands on."""
    log: Callable[[str], str]
    """The file that a run's output is written to."""


Brief = Callable[[Assigned], str]
"""What an agent is told."""


class Beginning:
    """Begins runs. Whatever goes wrong is a `CannotRun`, and leaves nothing behind."""

    def __init__(self, site: Site, books: Books, brief: Brief) -> None:
        self._site = site
        self._books = books
        self._brief = brief

    def begin(self, assigned: Assigned) -> UnderWay:
        """Starts the process of a run."""
        site, run_id = self._site, assigned.run_id
        workplace = self._workplace(assigned)
        prompt = self._brief(replace(assigned, left=self._left(assigned, workplace)))
        bounds = site.bounds()
        try:
            fitted = site.hosts.fit(assigned.member.command, run_id, prompt)
            door = site.doors.open(run_id, assigned.member.name, assigned.task.id, workplace)
            running = site.crew.start(
                Order(
                    run_id=run_id,
                    agent=assigned.member.name,
                    command=fitted.command,
                    prompt="" if fitted.has_prompt else prompt,
                    workplace=workplace,
                    door=door,
                    log=site.log(run_id),
                    environment={
                        **site.environment(),
                        **fitted.environment,
                        **self._identity(assigned, door),
                    },
                    bounds=Bounds(
                        seconds=bounds.seconds,
                        has_network=bounds.has_network,
                        read=(*bounds.read, *fitted.read),
                        write=(*bounds.write, *fitted.write),
                        hide=bounds.hide,
                    ),
                )
            )
        except (CannotRun, EnvironmentFault, OSError):
            self.clear_away(run_id)
            raise
        return UnderWay(assigned, workplace, running, self._books.now())

    def _left(self, assigned: Assigned, workplace: Workplace) -> tuple[str, ...]:
        """What there is to go on from besides commits; what cannot be looked at is not told."""
        if assigned.purpose != Purpose.WORK or assigned.note or not assigned.task.spent.runs:
            return ()
        with suppress(CannotRun):
            return self._site.workplaces.look(workplace).uncommitted
        return ()

    def clear_away(self, run_id: str) -> None:
        """Takes down what was put up for a run."""
        self._site.doors.close(run_id)
        self._site.hosts.drop(run_id)

    def _workplace(self, assigned: Assigned) -> Workplace:
        task, is_confined = assigned.task, self._site.crew.tier != "plain"
        if assigned.purpose == Purpose.WORK:
            start = (task.claim.base if task.claim else "") or self._books.rules.base
            return self._site.workplaces.prepare(
                task.id, task.branch or branch_of(task), start, is_confined=is_confined
            )
        commit = task.submission.commit if task.submission else self._books.rules.base
        place = f"{task.id}-{assigned.purpose}"
        # A branch of an earlier review would be taken as it is, at the commit that was rejected then.
        branch = f"remand/{assigned.purpose}/{task.id}-{commit[:12]}"
        return self._site.workplaces.prepare(place, branch, commit, is_confined=is_confined)

    @staticmethod
    def _identity(assigned: Assigned, door: str) -> dict[str, str]:
        """Who the agent is. Behind its own door nothing of it is asked for; without a sandbox it is how it is known."""
        claim = assigned.task.claim
        return {
            "REMAND_ACTOR": assigned.member.name,
            "REMAND_TASK": assigned.task.id,
            "REMAND_HANDOFF": claim.handoff_id if claim and assigned.purpose == Purpose.WORK else "",
            "REMAND_SOCKET": door,
        }


def branch_of(task: Task) -> str:
    """The branch that a task without one is worked on."""
    return f"remand/{task.id}"
