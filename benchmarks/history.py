"""Made-up histories: event files as several sessions would have written them, with true ids and chains."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from benchmarks.scratch import SCOPE
from remand.app.events.signatures import Signer
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event, Meta
from remand.domain.events.reviews import Finding, LockoutSet, ReviewApproved, ReviewRejected
from remand.domain.events.tasks import (
    EdgeCreated,
    LeaseRenewed,
    TaskAdded,
    TaskClaimed,
    TaskData,
    TaskSubmitted,
    TaskWaiting,
)
from remand.domain.events.work import GatePassed
from remand.domain.gate.verdict import GateResult, GateStatus, Verdict
from remand.domain.ids import task_node_id
from remand.domain.instant import Instant, format_instant
from remand.ledger import codec, signatures
from remand.ledger.signatures import GroupedEvent, chain_start
from remand.wiring.ledger import machine_keys

START = datetime(2026, 1, 1, tzinfo=UTC)
_STEP = timedelta(milliseconds=17)
_LEASE = timedelta(minutes=30)
_SHA, _TREE = "c0ffee00" * 5, "deadbeef" * 5
_NOTES = "Looked at the battens under the ridge, took the broken tiles off and laid new ones. " * 5
_FINDING = Finding(
    text="The third row of tiles does not overlap the fourth. " * 4, path="src/roof.py", line=42
)
_OTHERS_SHARE = 0.01
"""How many steps of a task's life another session than its own writes."""


class Author:
    """One session: numbers its events, chains each to the one before, and signs each with this machine's key."""

    def __init__(self, number: int) -> None:
        self.name = f"20260101-000000-{number:08x}"
        keys = machine_keys()
        keys.load()
        self._signer = Signer(keys, "")
        self._chain = chain_start(self.name, self._signer.key)
        self._seq = 0
        self._tip = ""

    def write(self, event: Event, at: Instant, actor: str) -> bytes:
        """The line of an event, after that of the group which names and signs it."""
        self._seq += 1
        meta = Meta(id="", session=self.name, seq=self._seq, actor=actor, branch="main", prev=self._tip)
        stamped, line = codec.encode_event(replace(event, ts=at), meta)
        self._tip = stamped.meta.id
        named = [GroupedEvent(self._tip, event_task_id(stamped))]
        (group,) = self._signer.sign(self.name, self._seq, self._chain, named, at)
        self._chain = group.after
        return signatures.encode_group(group) + b"\n" + line

    def sign(self, events: Sequence[Event], lines: Sequence[bytes], size: int) -> Iterator[bytes]:
        """The lines of events of this session with those of the groups that name and sign so many of them each."""
        for start in range(0, len(events), size):
            part = events[start : start + size]
            named = [GroupedEvent(event.meta.id, event_task_id(event)) for event in part]
            for group in self._signer.sign(self.name, part[0].meta.seq, self._chain, named, part[-1].ts):
                self._chain = group.after
                yield signatures.encode_group(group)
            yield from lines[start : start + size]


class Clock:
    """A clock that goes on by one step a look."""

    def __init__(self) -> None:
        self._now = START

    def tick(self) -> Instant:
        """The next moment."""
        self._now += _STEP
        return format_instant(self._now)

    def lease(self) -> Instant:
        """When a lease given now ends."""
        return format_instant(self._now + _LEASE)


Life = Callable[[int, Clock, random.Random], Iterator[tuple[Event, str]]]
"""A task's events with their actors, by the task's number."""


def task_name(number: int) -> str:
    """The id of the nth task."""
    return f"T-20260101-{number // 100000:06d}-{number % 100000:08x}"


def added(number: int, **data: Any) -> TaskAdded:
    """The nth task was written down."""
    fields: dict[str, Any] = {"title": f"Mend roof {number}", "description": SCOPE, **data}
    return TaskAdded(id=task_node_id(task_name(number)), data=TaskData(**fields))


def life(number: int, clock: Clock, rng: random.Random) -> Iterator[tuple[Event, str]]:
    """A task's events with their actors: written down, worked on, handed in, reviewed, sometimes twice."""
    task = task_name(number)
    yield added(number, priority=rng.choice(("medium", "high", "low"))), "user"
    if number and rng.random() < 0.3:
        other = task_node_id(task_name(rng.randrange(max(number - 500, 0), number)))
        yield EdgeCreated(src=task_node_id(task), tgt=other, type="DEPENDS_ON"), "user"
    for attempt in range(1, 4):
        agent = f"agent-{rng.randrange(64):02d}"
        yield from _work(task, agent, attempt, clock)
        if attempt == 3 or rng.random() > 0.2:
            yield ReviewApproved(task_id=task, reviewer="lead", commit=_SHA, tree=_TREE), "lead"
            return
        yield (
            ReviewRejected(task_id=task, reviewer="lead", commit=_SHA, tree=_TREE, findings=(_FINDING,)),
            "lead",
        )
        yield LockoutSet(task_id=task, agent=agent, reason=_FINDING.text), "lead"


def _work(task: str, agent: str, attempt: int, clock: Clock) -> Iterator[tuple[Event, str]]:
    handoff = f"H{task[1:]}-{attempt}"
    yield (
        TaskClaimed(
            task_id=task,
            handoff_id=handoff,
            agent=agent,
            attempt=attempt,
            epoch=attempt,
            lease_expires_at=clock.lease(),
            branch=f"{agent}/mend-roof",
        ),
        agent,
    )
    yield TaskWaiting(task_id=task, handoff_id=handoff, agent=agent, waiting_for=_NOTES), agent
    for _ in range(2):
        yield (
            LeaseRenewed(task_id=task, handoff_id=handoff, agent=agent, lease_expires_at=clock.lease()),
            agent,
        )
    yield released(task, handoff, agent), "coordinator"
    yield (
        TaskSubmitted(
            task_id=task,
            handoff_id=handoff,
            agent=agent,
            commit=_SHA,
            tree=_TREE,
            branch=f"{agent}/mend-roof",
        ),
        agent,
    )


def released(task: str, handoff: str, agent: str) -> GatePassed:
    """The gates let an agent's work through."""
    gates = tuple(
        GateResult(
            name=name, status=GateStatus.PASSED, measured={"errors": 0.0}, required={"max_errors": 0.0}
        )
        for name in ("build", "lint", "tests")
    )
    verdict = Verdict(status=GateStatus.PASSED, commit=_SHA, tree=_TREE, gates=gates)
    return GatePassed(task_id=task, handoff_id=handoff, agent=agent, verdict=verdict)


def stories(
    count: int, sessions: int = 4, open_tasks: int = 64, *, tell: Life | None = None
) -> Iterator[tuple[int, bytes]]:
    """Signed events of many tasks in progress at once, each with the number of the session that wrote it."""
    tell = tell or life
    rng = random.Random(7)
    clock = Clock()
    authors = [Author(number) for number in range(sessions)]
    started = open_tasks
    going = [(number, tell(number, clock, rng)) for number in range(open_tasks)]
    for _ in range(count):
        place = rng.randrange(open_tasks)
        step = next(going[place][1], None)
        if step is None:
            going[place] = (started, tell(started, clock, rng))
            started += 1
            step = next(going[place][1])
        own = going[place][0] % sessions
        writer = rng.randrange(sessions) if rng.random() < _OTHERS_SHARE else own
        yield writer, authors[writer].write(step[0], clock.tick(), step[1])


def write_stories(
    folder: str, count: int, parts: Sequence[int], *, tell: Life | None = None
) -> list[list[str]]:
    """Writes lines into one file per session for each part of the whole; gives the paths of each part."""
    lines = stories(count, tell=tell)
    written: list[list[str]] = []
    for number, size in enumerate(parts):
        os.makedirs(folder, exist_ok=True)
        paths = [os.path.join(folder, f"part-{number}-{session}.jsonl") for session in range(4)]
        files = [open(path, "wb") for path in paths]  # noqa: SIM115 - closed below, all together
        for _ in range(size):
            session, line = next(lines)
            files[session].write(line + b"\n")
        for file in files:
            file.close()
        written.append(paths)
    return written


def write_file(path: str, events: Iterable[Event], number: int = 0) -> None:
    """Writes events of one session into a file."""
    author, clock = Author(number), Clock()
    with open(path, "wb") as file:
        file.writelines(author.write(event, clock.tick(), "user") + b"\n" for event in events)
