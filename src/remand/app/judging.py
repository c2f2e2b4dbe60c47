"""What has to be looked up before a rejection can be judged or answered."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from remand.app.asking import Rules
from remand.app.family import Family
from remand.app.in_hand import room
from remand.app.named import described
from remand.app.naming import locate
from remand.app.people import may_be_locked_out
from remand.app.ports import LookedUp
from remand.app.witness import merged, task_grades
from remand.domain import commands as c
from remand.domain.director import MAX_SUBTASKS, may_wait_for
from remand.domain.events import HandoffRejected, HandoffRejectionInvalid
from remand.domain.instant import Instant, plus
from remand.domain.reasons import RejectionReason
from remand.domain.rejection import TaskRejection
from remand.domain.rules import is_eligible
from remand.domain.task import Task
from remand.domain.validation.mentions import mentions
from remand.domain.validation.world import Named, World
from remand.ledger import codec
from remand.ledger.store import Transaction
from remand.ledger.traces import FILED, MAX_TEXT, Trace

MAX_NAMED = 200
RUN = 300
"""How many rejections with cause one agent may file in a day before others get its tasks."""
LATELY = 50
"""How many of the last rejections are looked at for the same text."""
MAX_TWINS = 10
"""For how many other tasks the same may have been filed lately."""
SAME_SHARE = 0.8
MAX_ACCEPTED = 3
"""How often a task may be rejected with cause before a human has to look at it."""
MAX_CUTS = 3
"""How often a task may be cut or reformulated before a human has to look at it."""


class Judging:
    """Gathers from the ledger what a rejection is held against."""

    def __init__(self, tx: Transaction, rules: Rules, fresh_task: Callable[[], str]) -> None:
        self._tx = tx
        self._rules = rules
        self._fresh_task = fresh_task
        self._family = Family(tx)

    def filing(
        self, ask: c.RejectHandoff, task: Task, now: Instant, looked_up: LookedUp | None
    ) -> dict[str, Any]:
        """What a rejection is held against, and what a decision on it will need."""
        record = TaskRejection.from_dict(ask.rejection)
        seen = looked_up or LookedUp()
        world = World(
            named=self._all_named(record, task),
            graded=merged(seen.graded, task_grades(record.evidence, self._find, task.id)),
            attempts=seen.attempts,
            merged=seen.merged,
            has_repository=looked_up is not None,
        )
        why = self._human_needed(task, ask.agent)
        joins, distrust = ((), "") if why else self._believed(record, task, ask.agent, now)
        return {
            "world": world,
            "director": why or "auto",
            "distrust": distrust,
            "joins": joins,
            "auto_reformulate": self._rules.policy.auto_reformulate,
            "max_invalid_rejections": self._rules.policy.max_invalid_rejections,
            "next_agent": self._next_agent(task, ask.agent, now),
            "fresh_task_ids": self._fresh(record),
        }

    def _human_needed(self, task: Task, agent: str) -> str:
        """Why the automatic director may not answer; empty when it may."""
        if self._rules.policy.director != ("auto",):
            return "the policy names another director"
        if self._depth(task) >= MAX_CUTS:
            return f"the task was cut from others {MAX_CUTS} times"
        if agent in task.accepted_by:
            return f"a rejection of this task by {agent} was accepted before"
        if len(task.accepted_by) >= MAX_ACCEPTED:
            return f"the task was rejected with cause {MAX_ACCEPTED} times"
        return ""

    def _believed(
        self, record: TaskRejection, task: Task, agent: str, now: Instant
    ) -> tuple[tuple[str, ...], str]:
        """Tasks that resolve the same blocker already, and why the rejection is not believed, if it is not."""
        own = _native(self._tx.traces.of_agent(agent, 2 * RUN))
        if sum(one.event == FILED and _is_recent(one, now) for one in own) >= RUN:
            return (), f"{agent} has rejected {RUN} tasks with cause within a day"
        recent = [*own[:LATELY], *_native(self._tx.traces.latest(LATELY))]
        twins = dict.fromkeys(one.task for one in recent if one.task != task.id and _is_same(one, record))
        is_known = any(map(may_wait_for, self._all_named(record, task)))
        if record.reason is RejectionReason.MISSING_DEPENDENCY and is_known:
            return (), ""
        if record.reason in (RejectionReason.BLOCKER, RejectionReason.MISSING_DEPENDENCY):
            joins = next(filter(None, (self._still_open(twin, task) for twin in twins)), ())
            if joins:
                return joins, ""
        if len(twins) >= MAX_TWINS:
            return (), f"the same was filed for {len(twins)} other tasks"
        return (), ""

    def _still_open(self, task_id: str, task: Task) -> tuple[str, ...]:
        """What the other task waits for to have its blocker resolved, and what this one may wait for too."""
        other = self._tx.tasks.get(task_id)
        names = other.waits_for if other else ()
        known = filter(None, (self._named(name, task) for name in names))
        return tuple(one.task_id for one in known if may_wait_for(one))

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
        if not wanted:
            return {}
        for line in reversed(self._tx.events.of_task(task.id)):
            event = codec.recall(line)
            if isinstance(event, HandoffRejected | HandoffRejectionInvalid) and event.rejection_id == wanted:
                return event.rejection
        return {}

    def _find(self, name: str) -> Task | None:
        return self._tx.tasks.get(locate(self._tx, name))

    def _named(self, name: str, task: Task) -> Named | None:
        known = self._find(name)
        is_behind = known is not None and (
            bool(self._tx.queue.path(known.id, task.id)) or self._is_part(known, task)
        )
        return described(name, known, task, is_descendant=is_behind)

    def _is_part(self, other: Task, task: Task) -> bool:
        """True when the other was cut from the task, directly or by way of others."""
        return any(above.id == task.id for above in self._family.above(other))

    def _depth(self, task: Task) -> int:
        return sum(1 for _ in self._family.above(task))

    def _next_agent(self, task: Task, agent: str, now: Instant) -> str:
        """Of the other members that may take the task over, the one that could take on most; then the first."""
        barred = {name for name, _ in self._family.inherited(task)} - set(task.unlocked) | {agent}
        barred |= {name for name, _ in may_be_locked_out(self._tx, self._rules.team, task)}
        actors = [self._rules.team.actor(member.name) for member in self._rules.team.members]
        able = [
            actor.name
            for actor in actors
            if actor.name not in barred and not task.is_locked_out(actor.name) and is_eligible(task, actor)
        ]
        free = dict(room(self._tx, self._rules.team, now)) if len(able) > 1 else {}
        return max(able, key=lambda name: free.get(name, 0), default="")


def _native(traces: list[Trace]) -> list[Trace]:
    """Those of the ledger's own events: lines of GoT tools decide nothing about its tasks."""
    return [one for one in traces if one.seq > 0]


def _is_same(earlier: Trace, record: TaskRejection) -> bool:
    """True when the blocking factor was told in nearly the same words, whatever the figures."""
    told = record.blocking_factor if isinstance(record.blocking_factor, str) else ""
    one, other = _words(earlier.text), _words(told[:MAX_TEXT])
    return bool(one) and len(one & other) >= SAME_SHARE * len(one | other)


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in re.split(r"[\W\d_]+", text.lower()) if word)


def _is_recent(trace: Trace, now: Instant) -> bool:
    return plus(trace.ts, 86_400) > now
