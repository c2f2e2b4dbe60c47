"""A day's work in one repository, as a seed has it. Run as a script:

    seeded_work.py FOLDER SEED EVENTS

Agents and a user add, edit, claim, give back, hand in, approve, send back, put off and cancel, whatever the
ledger allows, until so many events are written. Their ids are printed, one a line.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from remand.app.requests import Acceptance, Request
from remand.domain import commands as c
from remand.domain.access.team import USER
from remand.domain.events.reviews import Finding
from remand.wiring.ledger import open_ledger

AGENTS = ("Alice", "Bob", "Carol", "Dave", "Erin")
PRIORITIES = ("low", "medium", "high", "critical")


class Worker:
    """Asks at random; what is refused is no harm."""

    def __init__(self, folder: str, seed: str) -> None:
        self._opened = open_ledger(folder)
        self._ledger = self._opened.ledger
        self._chance = random.Random(seed)
        self._count = 0
        self._seed = seed
        self.written: list[str] = []

    def close(self) -> None:
        """Lets go of the ledger."""
        self._opened.store.close()

    def step(self) -> None:
        """One ask."""
        kinds = (self._add, self._claim, self._submit, self._review, self._end, self._change, self._sleep)
        weights = (4, 6, 5, 4, 2, 2, 1)
        ask, actor = self._chance.choices(kinds, weights)[0]()
        self._count += 1
        answer = self._ledger.ask(Request(command=ask, actor=actor, key=f"{self._seed}-{self._count}"))
        if isinstance(answer, Acceptance):
            self.written += [event.meta.id for event in answer.events]

    def _task(self, is_wanted: Callable[[str], bool] = bool) -> str:
        """A task that is there, with a status that is wanted where there is one."""
        with self._ledger.store.read() as view:
            tasks = list(view.tasks.every())
        wanted = [task.id for task in tasks if is_wanted(task.status)] or [task.id for task in tasks]
        return self._chance.choice(wanted) if wanted else "T-none"

    def _holder(self, task_id: str) -> str:
        with self._ledger.store.read() as view:
            task = view.tasks.get(task_id)
        return task.claim.agent if task and task.claim else self._chance.choice(AGENTS)

    def _add(self) -> tuple[c.Command, str]:
        depends_on = (self._task(),) if self._chance.random() < 0.2 else ()
        title = f"task {self._seed} {self._count} " + "\u2028 \x85 \u202e é" * self._chance.randint(0, 2)
        ask = c.AddTask(
            title=title,
            priority=self._chance.choice(PRIORITIES),
            depends_on=tuple(name for name in depends_on if name != "T-none"),
        )
        return ask, USER

    def _claim(self) -> tuple[c.Command, str]:
        agent = self._chance.choice(AGENTS)
        task_id = self._task(lambda s: s in ("incoming", "rejected")) if self._chance.random() < 0.7 else ""
        return c.ClaimTask(agent=agent, task_id=task_id), agent

    def _submit(self) -> tuple[c.Command, str]:
        task_id = self._task("claimed".__eq__)
        agent = self._holder(task_id)
        return c.SubmitTask(task_id=task_id, agent=agent, commit="start"), agent

    def _review(self) -> tuple[c.Command, str]:
        task_id = self._task("provisional".__eq__)
        if self._chance.random() < 0.5:
            return c.ApproveReview(task_id=task_id, commit="start"), USER
        finding = Finding(text="It leaks.", path="roof.py", line=self._chance.randint(1, 99))
        return c.RejectReview(task_id=task_id, commit="start", findings=(finding,)), USER

    def _end(self) -> tuple[c.Command, str]:
        task_id = self._task("claimed".__eq__)
        agent = self._holder(task_id)
        kind = self._chance.choice((c.ReleaseTask, c.ContinueTask, c.FailTask, c.Heartbeat))
        return kind(task_id=task_id, agent=agent, reason="enough"), agent

    def _change(self) -> tuple[c.Command, str]:
        task_id = self._task()
        choice = self._chance.random()
        if choice < 0.2:
            return c.CancelTask(task_id=task_id, reason="not needed"), USER
        if choice < 0.4:
            return c.ReopenTask(task_id=task_id), USER
        if choice < 0.6:
            return c.EditTask(task_id=task_id, depends_on=(self._task(),)), USER
        return c.EditTask(task_id=task_id, priority=self._chance.choice(PRIORITIES)), USER

    def _sleep(self) -> tuple[c.Command, str]:
        if self._chance.random() < 0.5:
            return c.DeferTask(task_id=self._task(), waits_for=(self._task(),)), USER
        return c.InitiateHandoff(task_id=self._task(), target=self._chance.choice(AGENTS)), USER


def do_work(folder: str, seed: str, events: int) -> list[str]:
    """Works until so many events are written; returns their ids."""
    worker = Worker(folder, seed)
    while len(worker.written) < events:
        worker.step()
    worker.close()
    return worker.written


def main() -> None:
    """A process that works."""
    folder, seed, events = sys.argv[1:]
    print("\n".join(do_work(folder, seed, int(events))))


if __name__ == "__main__":
    main()
