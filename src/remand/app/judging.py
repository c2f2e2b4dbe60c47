"""What has to be looked up before a rejection can be judged or answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from remand.app.asking import Rules
from remand.app.naming import locate
from remand.app.witness import merged, task_grades
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.director import MAX_SUBTASKS
from remand.domain.events import HandoffRejected, HandoffRejectionInvalid
from remand.domain.rejection import TaskRejection
from remand.domain.rules import is_eligible
from remand.domain.task import Task
from remand.domain.validation.mentions import mentions
from remand.domain.validation.world import Graded, Named, World
from remand.ledger import codec
from remand.ledger.store import Transaction

MAX_NAMED = 200


class Judging:
    """Gathers from the ledger what a rejection is held against."""

    def __init__(self, tx: Transaction, rules: Rules, fresh_task: Callable[[], str]) -> None:
        self._tx = tx
        self._rules = rules
        self._fresh_task = fresh_task

    def filing(self, ask: c.RejectHandoff, task: Task, graded: tuple[Graded, ...]) -> dict[str, Any]:
        """What a rejection is held against, and what a decision on it will need."""
        policy = self._rules.policy
        record = TaskRejection.from_dict(ask.rejection)
        grades = merged(graded, task_grades(record.evidence, self._find))
        return {
            "world": World(named=self._all_named(record, task), graded=grades),
            "director": "auto" if policy.director == ("auto",) else "later",
            "max_invalid_rejections": policy.max_invalid_rejections,
            "next_agent": self._next_agent(task, ask.agent),
            "fresh_task_ids": self._fresh(record),
        }

    def answering(self, ask: c.AnswerRejection, task: Task) -> dict[str, Any]:
        """The rejection that is answered, and what the answer names."""
        filed = self._filed(task)
        record = TaskRejection.from_dict(filed)
        return {
            "rejection": filed,
            "world": World(named=self._all_named(record, task)),
            "target": self._rules.team.actor(ask.reassign_to) if ask.reassign_to else None,
            "fresh_task_ids": self._fresh(record),
        }

    def _fresh(self, record: TaskRejection) -> tuple[str, ...]:
        rows = record.alternative_tasks
        count = min(len(rows), MAX_SUBTASKS) if isinstance(rows, list) else 0
        names: dict[str, None] = {}
        while len(names) < max(count, 1):
            names[self._fresh_task()] = None
        return tuple(names)

    def _all_named(self, record: TaskRejection, task: Task) -> tuple[Named, ...]:
        """What the ledger knows of the tasks that a rejection names."""
        found = (self._named(name, task) for name in mentions(record)[:MAX_NAMED])
        return tuple(named for named in found if named is not None)

    def _filed(self, task: Task) -> dict[str, Any]:
        """The last rejection of the task, as its agent filed it."""
        wanted = task.filed.rejection_id if task.filed else ""
        for line in reversed(self._tx.events.of_task(task.id)):
            event = codec.recall(line)
            if isinstance(event, HandoffRejected | HandoffRejectionInvalid) and event.rejection_id == wanted:
                return event.rejection
        return {}

    def _find(self, name: str) -> Task | None:
        return self._tx.tasks.get(locate(self._tx, name))

    def _named(self, name: str, task: Task) -> Named | None:
        """A task by its name; None for what is no task of ours, such as a decision or another's pull request."""
        known = self._find(name)
        if known is None:
            return Named(name=name) if ids.task_id(name) else None
        return Named(
            name=name,
            task_id=known.id,
            title=known.title,
            status=str(known.status),
            is_self=known.id == task.id,
            is_descendant=bool(self._tx.queue.path(known.id, task.id)) or self._is_part(known, task),
            is_open=not known.is_terminal,
        )

    def _is_part(self, other: Task, task: Task) -> bool:
        """True when the other was cut from the task, directly or by way of others."""
        seen: set[str] = set()
        while other.parent and other.parent not in seen:
            if other.parent == task.id:
                return True
            seen.add(other.parent)
            above = self._tx.tasks.get(other.parent)
            if above is None:
                return False
            other = above
        return False

    def _next_agent(self, task: Task, agent: str) -> str:
        """Another member that may take the task over, in the order of the team."""
        for member in self._rules.team.members:
            actor = self._rules.team.actor(member.name)
            if actor.name != agent and not task.is_locked_out(actor.name) and is_eligible(task, actor):
                return actor.name
        return ""
