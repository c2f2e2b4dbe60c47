"""From an ask to its answer, inside one transaction: look up the facts, decide, fold, keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from remand.app.asking import Accepted, Answer, Request, Rules
from remand.app.ports import Clock, Commit, Ids, Repository
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain import ids
from remand.domain.decide import decide
from remand.domain.evolve import evolve
from remand.domain.instant import Instant
from remand.domain.refusals import Refused
from remand.domain.roles import THE_COORDINATOR, Actor
from remand.domain.task import Status, Task
from remand.ledger import codec
from remand.ledger.order import tick
from remand.ledger.store import Entry, Transaction

_encode = msgspec.json.Encoder().encode


class Handler:
    """Answers asks one after the other in an open transaction, and gathers the lines they lead to."""

    def __init__(
        self, tx: Transaction, rules: Rules, clock: Clock, id_source: Ids, repository: Repository
    ) -> None:
        self.tx = tx
        self.lines: list[bytes] = []
        self._rules = rules
        self._clock = clock
        self._ids = id_source
        self._repository = repository
        self._branch: str | None = None

    def answer(self, request: Request, commit: Commit | None = None) -> Answer:
        """Answers one ask; a key that was answered before gets the same answer again."""
        fingerprint = _fingerprint(request) if request.key else ""
        if request.key:
            known = self.tx.events.of_key(request.key)
            if known:
                return self._repeat(known, fingerprint)
        actor = self._rules.team.actor(request.actor, confined=request.confined)
        ask = _spoken_by(request.ask, actor)
        now = self._clock.now()
        task = self._task(ask, actor)
        command = c.Command(ask=ask, actor=actor, at=now, facts=self._facts(ask, task, now, commit))
        return self._carry_out(task, command, request.key, fingerprint)

    def settle_due(self) -> None:
        """Lets happen what happens by itself: leases end, offers lapse, deferred tasks wake, parents close."""
        now = self._clock.now()
        while True:
            found = [self._settle(task_id, now) for task_id in self.tx.queue.due(now)]
            if not any(found):
                return

    def _settle(self, task_id: str, now: Instant) -> bool:
        task = self.tx.tasks.get(task_id)
        if task is None:
            return False
        ask = _DUE.get(task.status, c.ExpireLease)(task_id=task_id)
        facts = c.Facts(
            open_blockers=self.tx.queue.open_blockers(task.waits_for),
            child_statuses=tuple(self._status(child) for child in task.children),
        )
        command = c.Command(ask=ask, actor=THE_COORDINATOR, at=now, facts=facts)
        answer = self._carry_out(task, command, "", "")
        return isinstance(answer, Accepted) and bool(answer.events)

    def _status(self, task_id: str) -> str:
        task = self.tx.tasks.get(task_id)
        return task.status if task else ""

    def _carry_out(self, task: Task | None, command: c.Command, key: str, fingerprint: str) -> Answer:
        decided = decide(task, command)
        if isinstance(decided, Refused):
            return decided
        was_open = task is not None and not task.is_terminal
        kept, task = self._record(task, decided, command.actor, key, fingerprint)
        if task is None:
            raise AssertionError(f"{type(command.ask).__name__} led to no task")
        if was_open and task.is_terminal and command.actor is not THE_COORDINATOR:
            self.settle_due()
        return Accepted(events=kept, task=task)

    def _record(
        self, task: Task | None, decided: Iterable[e.Event], actor: Actor, key: str, fingerprint: str
    ) -> tuple[tuple[e.Event, ...], Task | None]:
        """Stamps the events, folds them into the task, and keeps both."""
        head = self.tx.head
        entries: list[Entry] = []
        for event in decided:
            ts = tick(self._clock.now(), head.clock)
            meta = e.Meta(
                id="",
                session=head.session,
                seq=head.seq + 1,
                actor=actor.name,
                branch=self._current_branch(),
                prev=head.tip,
                key=key,
                ask=fingerprint,
            )
            stamped, line = codec.write(replace(event, ts=ts), meta)
            head = replace(head, seq=head.seq + 1, tip=stamped.meta.id, clock=ts)
            task = evolve(task, stamped)
            entries.append(Entry(stamped, line, e.subject(stamped)))
        if entries and task is not None:
            self.tx.events.add(entries)
            self.tx.tasks.put(task)
            self.tx.head = head
            self.lines += [entry.line for entry in entries]
        return tuple(entry.event for entry in entries), task

    def _current_branch(self) -> str:
        if self._branch is None:
            self._branch = self._repository.branch()
        return self._branch

    def _repeat(self, known: list[e.Event], fingerprint: str) -> Answer:
        if known[0].meta.ask != fingerprint:
            return Refused("key_reused", "This idempotency key was used for another command.")
        task = self.tx.tasks.get(e.subject(known[0]))
        if task is None:
            return Refused("key_reused", "This idempotency key belongs to a task that is not there any more.")
        return Accepted(events=tuple(known), task=task)

    def _task(self, ask: c.Ask, actor: Actor) -> Task | None:
        """The task an ask is about, named by id, alias or handoff, or found in the queue."""
        if isinstance(ask, c.AddTask):
            return None
        if isinstance(ask, c.AcceptHandoff | c.CompleteHandoff):
            name = ids.handoff_id(ask.handoff_id) or ""
            return self.tx.tasks.get(self.tx.tasks.named(name))
        name = getattr(ask, "task_id", "")
        if isinstance(ask, c.ClaimTask) and not name:
            found = self.tx.queue.next(actor, has_team=self._rules.team.has_members)
            return self.tx.tasks.get(found) if found else None
        return self.tx.tasks.get(self.locate(name))

    def locate(self, name: str) -> str:
        """The task id behind an id or alias; empty when there is none."""
        bare = ids.task_id(name)
        if bare is not None and self.tx.tasks.get(bare) is not None:
            return bare
        return self.tx.tasks.named(name)

    def _facts(self, ask: c.Ask, task: Task | None, now: Instant, commit: Commit | None) -> c.Facts:
        gather = _GATHER.get(type(ask))
        facts = c.Facts(
            lease_seconds=self._rules.policy.lease_seconds,
            has_team=self._rules.team.has_members,
            gates=self._rules.gates,
            commit=commit.sha if commit else "",
            tree=commit.tree if commit else "",
            open_blockers=self.tx.queue.open_blockers(task.blockers) if task and task.blockers else (),
        )
        return replace(facts, **gather(self, ask, task, now)) if gather else facts

    def _for_adding(self, ask: c.AddTask, task: Task | None, now: Instant) -> dict[str, Any]:
        return {"fresh_task_id": self._fresh("T", now, self.tx.tasks.get), **self._for_naming(ask, task)}

    def _for_editing(self, ask: c.EditTask, task: Task | None, now: Instant) -> dict[str, Any]:
        return self._for_naming(ask, task)

    def _for_naming(self, ask: c.AddTask | c.EditTask | c.DeferTask, task: Task | None) -> dict[str, Any]:
        aliases = getattr(ask, "aliases", None) or ()
        others = ask.waits_for if isinstance(ask, c.DeferTask) else ask.depends_on
        owners = {alias: self.tx.tasks.named(alias) for alias in aliases}
        paths = [self.tx.queue.path(other, task.id) for other in others] if task else []
        return {
            "unknown_tasks": tuple(name for name in others if self.tx.tasks.get(name) is None),
            "taken_aliases": tuple(
                alias for alias, owner in owners.items() if owner and (task is None or owner != task.id)
            ),
            "cycle": next(((task.id, *path) for path in paths if path), ()) if task else (),
        }

    def _for_deferring(self, ask: c.DeferTask, task: Task | None, now: Instant) -> dict[str, Any]:
        return {**self._for_naming(ask, task), "open_blockers": self.tx.queue.open_blockers(ask.waits_for)}

    def _for_claiming(self, ask: c.ClaimTask, task: Task | None, now: Instant) -> dict[str, Any]:
        return {"fresh_handoff_id": self._fresh("H", now, self.tx.tasks.named)}

    def _for_handing(self, ask: c.InitiateHandoff, task: Task | None, now: Instant) -> dict[str, Any]:
        target = self._rules.team.actor(ask.target) if ask.target else None
        return {"fresh_handoff_id": self._fresh("H", now, self.tx.tasks.named), "target": target}

    def _for_rejecting(self, ask: c.RejectReview, task: Task | None, now: Instant) -> dict[str, Any]:
        after = self._rules.policy.lockout_after
        return {"locks_out": bool(after) and (task.rejection_count if task else 0) + 1 >= after}

    def _fresh(self, prefix: str, now: Instant, taken: Callable[[str], object]) -> str:
        """A new id that nothing here has yet."""
        while taken(name := ids.stamp_id(prefix, now, self._ids.hex())):
            continue
        return name


def _spoken_by(ask: c.Ask, actor: Actor) -> c.Ask:
    """The ask under the actor's own name, whatever alias it came under, with ids in their bare form."""
    changes: dict[str, Any] = {}
    if hasattr(ask, "agent") and not isinstance(ask, c.LockOut | c.Unlock):
        changes["agent"] = actor.name
    for name in ("depends_on", "drop_depends_on", "waits_for"):
        value = getattr(ask, name, None)
        if value:
            changes[name] = tuple(ids.task_id(item) or item for item in value)
    handoff = getattr(ask, "handoff_id", "")
    if handoff:
        changes["handoff_id"] = ids.handoff_id(handoff) or handoff
    return replace(ask, **changes) if changes else ask


def _fingerprint(request: Request) -> str:
    return sha256(_encode((request.actor, request.ask))).hexdigest()[:16]


_DUE: dict[Status, type[c.TaskAsk]] = {Status.DEFERRED: c.WakeTask, Status.DECOMPOSED: c.SettleTask}

_GATHER: dict[type[c.Ask], Callable[..., dict[str, Any]]] = {
    c.AddTask: Handler._for_adding,
    c.EditTask: Handler._for_editing,
    c.DeferTask: Handler._for_deferring,
    c.ClaimTask: Handler._for_claiming,
    c.InitiateHandoff: Handler._for_handing,
    c.RejectReview: Handler._for_rejecting,
}
"""What has to be looked up for an ask, beyond what every ask needs."""
