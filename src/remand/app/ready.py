"""How a task stands in the queue: its rank, the pool of agents it suits, and when it is due."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

import msgspec

from remand.domain.instant import Instant
from remand.domain.roles import Actor, Role
from remand.domain.task import CLAIMABLE, PRIORITIES, QUEUES, Status, Task

_LANES = {status: str(lane) for lane, status in enumerate(QUEUES)}
_LEVELS = {priority: str(level) for level, priority in enumerate(PRIORITIES)}
_RANK_PREFIX = 2 + len("2026-11-15T09:00:00.000000Z")
_encode = msgspec.json.Encoder().encode
_decode_pool = msgspec.json.Decoder(tuple[tuple[str, ...], tuple[str, ...], str | None]).decode
DUE_NOW: Instant = ""


def rank(task: Task, open_blockers: Collection[str]) -> str | None:
    """Where the task stands in the queue: lane, priority, age, id. None when it cannot be claimed."""
    if task.status not in CLAIMABLE or open_blockers:
        return None
    return f"{_LANES[task.status]}{_LEVELS[task.priority]}{task.created_at}{task.id}"


def ranked(text: str) -> str:
    """The id of the task with that rank."""
    return text[_RANK_PREFIX:]


def pool(task: Task) -> str:
    """The agents the task suits, as a key: skills asked for, agents barred from it, agent reserved for."""
    barred = sorted({*(lockout.agent for lockout in task.lockouts), *task.reviewers})
    reserved = task.offers[-1].target if task.offers else None
    return _encode((task.skills, barred, reserved)).decode()


@lru_cache(maxsize=4096)
def suits(key: str, agent: Actor, has_team: bool) -> bool:
    """True when the agent is one of those a pool is for. One that cannot be read, as its row was changed, is for nobody."""
    try:
        skills, barred, reserved = _decode_pool(key)
    except (msgspec.MsgspecError, TypeError):
        return False
    if Role.AGENT not in agent.roles or agent.name in barred or reserved not in (None, agent.name):
        return False
    return not has_team or all(skill in agent.skills for skill in skills)


def due(task: Task, open_blockers: Collection[str]) -> Instant | None:
    """When something happens to the task by itself; None when nothing does."""
    if task.status == Status.DEFERRED:
        return DUE_NOW if task.waits_for and not set(task.waits_for) & set(open_blockers) else None
    if task.status == Status.DECOMPOSED:
        return DUE_NOW if not set(task.children) & set(open_blockers) else None
    if task.open_escalation is not None:
        return None if task.open_escalation.acknowledged_by else task.open_escalation.deadline
    times = [offer.lapses_at for offer in task.offers]
    if task.claim is not None:
        times.append(task.claim.lease_expires_at)
    return min(times, default=None)
