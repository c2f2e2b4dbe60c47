"""The scheduler's status file: written by the scheduler alone, read by anybody, trusted by nobody."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from remand.domain.access.team import Member
from remand.domain.decisions.runs import unstartable_members
from remand.domain.instant import Instant, is_instant
from remand.domain.record import Record

MAX_SIZE = 1 << 20


class BreachStatus(Record, kw_only=True, omit_defaults=False):
    """Something wrong with the system, for which nothing is started, as it is told to whoever looks on."""

    cause: str
    """What is wrong, in one word that stays the same."""
    message: str
    since: Instant
    until: Instant = ""
    """When one run is let through to try."""

    @property
    def member(self) -> str:
        """The one member that is not started for it; empty when it is everybody who uses the program, or everybody."""
        return self.cause.partition(" of ")[2]


class ActiveAgent(Record, kw_only=True, omit_defaults=False):
    """An agent's process that the scheduler has started."""

    run_id: str
    task_id: str
    agent: str
    purpose: str
    started_at: Instant
    last_line: str = ""
    """What it said last."""


class ActiveMeasurement(Record, kw_only=True, omit_defaults=False):
    """A done claim that the scheduler measures."""

    task_id: str
    agent: str
    started_at: Instant
    commit: str = ""


class SchedulerStatus(Record, kw_only=True, omit_defaults=False):
    """How a scheduler is doing."""

    pid: int
    started_at: Instant
    tick_at: Instant
    """When it last looked at the ledger."""
    tier: str = ""
    detail: str = ""
    """Why the tier is no better."""
    breaker: tuple[BreachStatus, ...] = ()
    waiting: str = ""
    """Why nothing is started; empty when nothing keeps it."""
    forge: str = ""
    """The trouble with the forge; empty when there is none."""
    agents: tuple[ActiveAgent, ...] = ()
    gates: tuple[ActiveMeasurement, ...] = ()


def unstartable_by_status(
    status: SchedulerStatus | None, members: Iterable[Member], missing: Collection[str] = ()
) -> dict[str, str]:
    """The members that cannot be started, and why: by what a scheduler says that runs, and the programs not found."""
    faults = {breach.cause: breach.message for breach in status.breaker} if status else {}
    return unstartable_members(members, faults, missing)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SchedulerStatus).decode


def encode_status(status: SchedulerStatus) -> bytes:
    """A status as it is kept."""
    return _encode(status)


def decode_status(content: bytes) -> SchedulerStatus | None:
    """A status as it was kept; None for what is torn, too much, or was never one."""
    if len(content) > MAX_SIZE:
        return None
    try:
        found = _decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if _is_sound(found) else None


def _is_sound(status: SchedulerStatus) -> bool:
    """True when the number is a process's and every time a time: both are reckoned with."""
    times = [status.started_at, status.tick_at]
    times += [breach.since for breach in status.breaker]
    times += [breach.until for breach in status.breaker if breach.until]
    times += [agent.started_at for agent in status.agents]
    times += [measurement.started_at for measurement in status.gates]
    return 1 < status.pid < 1 << 31 and all(map(is_instant, times))
