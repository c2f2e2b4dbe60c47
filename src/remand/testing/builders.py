"""Builders for tests: ids, people, tasks, events and sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace

from remand.app.events.signatures import Signer
from remand.app.ports import Keys
from remand.domain.access.team import Actor, Role
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event, Meta
from remand.domain.events.tasks import (
    Decision,
    HandoffRejected,
    HandoffRejectionInvalid,
    RejectionAnswered,
    TaskAdded,
    TaskClaimed,
    TaskData,
    TaskWoken,
)
from remand.domain.ids import task_node_id
from remand.domain.instant import Instant, add_seconds
from remand.domain.task import (
    Claim,
    Lockout,
    Offer,
    Submission,
    Task,
    make_task,
)
from remand.ledger import codec, signatures
from remand.ledger.event_tables import EventEntry
from remand.ledger.signatures import GroupedEvent, chain_start
from remand.testing.fakes import (
    START,
    FakeClock,
    FakeKeys,
)

MACHINE = FakeKeys()
"""The default key of the test's machine, for every world and session."""
NOW: Instant = START
LATER: Instant = add_seconds(NOW, 1800)
MUCH_LATER: Instant = add_seconds(NOW, 7200)
SHA = "c0ffee00" * 5
TREE = "7ree" * 10


def task_id(number: int) -> str:
    """The id of the test's nth task."""
    return f"T-20261115-080000-{number:08x}"


def handoff_id(number: int) -> str:
    """The id of the test's nth handoff."""
    return f"H-20261115-080000-{number:08x}"


T1, T2, T3 = task_id(1), task_id(2), task_id(3)
H1, H2, H3 = handoff_id(1), handoff_id(2), handoff_id(3)


def actor(name: str, *roles: Role, skills: Iterable[str] = (), **fields: Any) -> Actor:
    """An actor with these roles; by default an agent."""
    return Actor(name=name, roles=frozenset(roles or {Role.AGENT}), skills=frozenset(skills), **fields)


ALICE, BOB = actor("Alice"), actor("Bob")


def a_task(task_id: str = T1, **fields: Any) -> Task:
    """A task in the queue, with these fields."""
    return make_task(**{"id": task_id, "title": "Mend the roof", "created_at": NOW, **fields})


def a_claim(agent: str = "Alice", handoff_id: str = H1, until: Instant = LATER, epoch: int = 1) -> Claim:
    """A lease on a task."""
    return Claim(handoff_id=handoff_id, agent=agent, epoch=epoch, claimed_at=NOW, lease_expires_at=until)


def an_offer(target: str = "Alice", handoff_id: str = H1, until: Instant = LATER) -> Offer:
    """A handoff that nobody accepted yet."""
    return Offer(handoff_id=handoff_id, source="Lead", target=target, lapses_at=until)


def a_lockout(agent: str = "Alice", **fields: Any) -> Lockout:
    """An agent's lockout."""
    return Lockout(agent=agent, **{"by": "Lead", "reason": "The roof leaks", "since": NOW, **fields})


def a_submission(agent: str = "Alice", commit: str = SHA, handoff_id: str = H1) -> Submission:
    """A submission."""
    return Submission(commit=commit, tree=TREE, agent=agent, handoff_id=handoff_id, at=NOW)


def task_added(task_id: str = T1, title: str = "Mend the roof", **data: Any) -> TaskAdded:
    """The event of an added task."""
    standard = {"description": "", "status": "pending", "priority": "medium", "category": ""}
    return TaskAdded(
        id=task_node_id(task_id), type="TASK", data=TaskData(title=title, **{**standard, **data})
    )


def task_claimed(
    agent: str = "Alice",
    handoff_id: str = H1,
    task_id: str = T1,
    *,
    until: Instant = LATER,
    attempt: int = 1,
    epoch: int = 1,
) -> TaskClaimed:
    """The event of an agent's claim from the queue."""
    return TaskClaimed(
        task_id=task_id,
        handoff_id=handoff_id,
        agent=agent,
        attempt=attempt,
        epoch=epoch,
        lease_expires_at=until,
    )


class Session:
    """A log of one session: events get time, number, hash and predecessor in the order they are written.

    Each is signed with the given key, by default that of the test's machine.
    """

    def __init__(
        self,
        name: str = "20261115-080000-0000000a",
        clock: FakeClock | None = None,
        *,
        keys: Keys | None = MACHINE,
        project: str = "",
    ) -> None:
        self.name = name
        self.clock = clock or FakeClock()
        self.signer = None if keys is None else Signer(keys, project)
        self.chain = chain_start(name, self.signer.key) if self.signer else ""
        self.seq = 0
        self.tip = ""
        self.lines: list[bytes] = []

    def write(
        self, event: Event, *, at: Instant = "", actor: str = "somebody", key: str = "", ask: str = ""
    ) -> Event:
        """Stamps an event and writes its line."""
        self.seq += 1
        place: dict[str, Any] = {"session": self.name, "seq": self.seq, "prev": self.tip}
        meta = Meta(id="", actor=actor, branch="main", key=key, ask=ask, **place)
        stamped, line = codec.encode_event(replace(event, ts=at or self.clock.now()), meta)
        self.tip = stamped.meta.id
        if self.signer:
            named = [GroupedEvent(stamped.meta.id, event_task_id(stamped))]
            (group,) = self.signer.sign(self.name, self.seq, self.chain, named, stamped.ts)
            self.chain = group.after
            self.lines.append(signatures.encode_group(group))
        self.lines.append(line)
        return stamped

    @property
    def event_lines(self) -> list[bytes]:
        """The lines of the events only."""
        return [line for line in self.lines if not signatures.is_group(line)]

    def entry(self, event: Event, **options: str) -> EventEntry:
        """Stamps an event, ready to be stored."""
        stamped = self.write(event, **options)
        return EventEntry(stamped, self.lines[-1], event_task_id(stamped))


def rejection_filed(task_id: str = T1, number: int = 1, **fields: Any) -> HandoffRejected:
    """The event of Alice's rejection of a task because of a blocker."""
    record = {"reason_type": "BLOCKER", "blocking_factor": "The ladder is gone"}
    standard = {"handoff_id": H1, "agent": "Alice", "rejection_id": f"R-{number}", "rejection": record}
    return HandoffRejected(task_id=task_id, **{**standard, **fields})


def invalid_rejection_filed(task_id: str = T1, number: int = 1, **fields: Any) -> HandoffRejectionInvalid:
    """The event of an invalid rejection by Alice."""
    valid = rejection_filed(task_id, number, **fields)
    told = {name: getattr(valid, name) for name in ("handoff_id", "agent", "rejection_id", "rejection")}
    return HandoffRejectionInvalid(task_id=task_id, **told)


def rejection_answered(
    decision: str, task_id: str = T1, number: int = 1, created: tuple[str, ...] = ()
) -> RejectionAnswered:
    """The event of the director's answer to a rejection."""
    told = Decision(decision_type=decision, rationale="So it is.", created_tasks=created)
    return RejectionAnswered(task_id=task_id, handoff_id=H1, rejection_id=f"R-{number}", decision=told)


def task_woken(task_id: str = T1) -> TaskWoken:
    """The event of a deferred task waking."""
    return TaskWoken(task_id=task_id)


def got_tool_entry(event: str, at: str = "2025-12-20T10:00:00Z", **fields: object) -> EventEntry:
    """A line of a GoT tool."""
    told = {"ts": at, "event": event, "meta": {"branch": "main", "session": "s"}, **fields}
    line = msgspec.json.encode(told)
    return EventEntry(codec.decode_line(line), line, "")


@contextmanager
def assert_raises(kind: type[Exception]) -> Iterator[None]:
    """Fails unless the block raises this exception; for contract suites, which need no test runner."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__} was raised")
