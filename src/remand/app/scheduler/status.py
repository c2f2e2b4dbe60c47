"""The scheduler's status file: written only by the scheduler, read by anybody, trusted by nobody."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from remand.domain.access.team import Member
from remand.domain.decisions.runs import unstartable_members
from remand.domain.instant import Instant, is_instant
from remand.domain.record import Record

MAX_SIZE = 1 << 20


class BreachStatus(Record, kw_only=True, omit_defaults=False):
    """A fault of the system that prevents starts, as shown to users."""

    cause: str
    """The cause as a stable word."""
    message: str
    since: Instant
    until: Instant = ""
    """When one trial run is permitted."""

    @property
    def member(self) -> str:
        """The only affected member; empty if it affects all users of the program, or everybody."""
        return self.cause.partition(" of ")[2]


class ActiveAgent(Record, kw_only=True, omit_defaults=False):
    """An agent's process that the scheduler has started."""

    run_id: str
    task_id: str
    agent: str
    purpose: str
    started_at: Instant
    last_line: str = ""
    """Its last output."""


class ActiveMeasurement(Record, kw_only=True, omit_defaults=False):
    """A done claim being measured by the scheduler."""

    task_id: str
    agent: str
    started_at: Instant
    commit: str = ""


class SchedulerStatus(Record, kw_only=True, omit_defaults=False):
    """The state of a scheduler."""

    pid: int
    started_at: Instant
    tick_at: Instant
    """When it last looked at the ledger."""
    tier: str = ""
    detail: str = ""
    """Why the confinement is no better."""
    breaker: tuple[BreachStatus, ...] = ()
    waiting: str = ""
    """Why nothing starts; empty if nothing prevents it."""
    forge: str = ""
    """The problem with the forge; empty if there is none."""
    agents: tuple[ActiveAgent, ...] = ()
    gates: tuple[ActiveMeasurement, ...] = ()


def unstartable_by_status(
    status: SchedulerStatus | None, members: Iterable[Member], missing: Collection[str] = ()
) -> dict[str, str]:
    """The members that cannot be started and why, from a running scheduler's status and from missing programs."""
    faults = {breach.cause: breach.message for breach in status.breaker} if status else {}
    return unstartable_members(members, faults, missing)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SchedulerStatus).decode


def encode_status(status: SchedulerStatus) -> bytes:
    """Serialises a status."""
    return _encode(status)


def decode_status(content: bytes) -> SchedulerStatus | None:
    """Parses a status; None if it is truncated, too large or invalid."""
    if len(content) > MAX_SIZE:
        return None
    try:
        found = _decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if _is_sound(found) else None


def _is_sound(status: SchedulerStatus) -> bool:
    """True if the process id and all times are valid, as calculations use them."""
    times = [status.started_at, status.tick_at]
    times += [breach.since for breach in status.breaker]
    times += [breach.until for breach in status.breaker if breach.until]
    times += [agent.started_at for agent in status.agents]
    times += [measurement.started_at for measurement in status.gates]
    return 1 < status.pid < 1 << 31 and all(map(is_instant, times))
