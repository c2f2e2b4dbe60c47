"""Made-up lives of tasks that agents reject: one event in ten is a rejection."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from benchmarks.history import Clock, added, released, task_name
from remand.domain.events.event import Event
from remand.domain.events.reviews import ReviewApproved
from remand.domain.events.tasks import (
    Decision,
    EdgeCreated,
    HandoffRejected,
    HandoffRejectionInvalid,
    LeaseRenewed,
    RejectionAnswered,
    TaskBlocked,
    TaskClaimed,
    TaskDeferred,
    TaskReopened,
    TaskSubmitted,
    TaskWoken,
)
from remand.domain.ids import task_node_id

_SHA, _TREE = "c0ffee00" * 5, "deadbeef" * 5
_BLOCKERS = (
    "The registry answers 403 for package {word}-{n} since {day} November",
    "Table {word}_{n} is locked by the migration that runs on the staging database",
    "The API key for {word} is not in the vault, secret/{word}/{n} is empty",
    "CI runner {n} has no {word} toolchain installed and nobody may install one",
    "The {word} service on port {n} refuses every connection with ECONNREFUSED",
    "License server for {word} is down, checkout fails with error {n}",
    "Certificate of {word}.example.org expired {day} days ago",
    "The upstream pull request #{n} for {word} is not merged and holds the interface",
)
_WORDS = (
    "auth",
    "billing",
    "cart",
    "docs",
    "export",
    "feed",
    "geo",
    "hooks",
    "index",
    "jobs",
    "keys",
    "login",
)
_REASONS = ("BLOCKER",) * 4 + ("SCOPE_CREEP", "MISSING_DEPENDENCY", "INFEASIBLE", "UNCLEAR_REQUIREMENTS")
_DECISIONS = {
    "BLOCKER": "ACCEPT_AND_DEFER",
    "MISSING_DEPENDENCY": "ACCEPT_AND_DEFER",
    "UNCLEAR_REQUIREMENTS": "ACCEPT_AND_DEFER",
    "SCOPE_CREEP": "ACCEPT",
    "INFEASIBLE": "ACCEPT",
}
_BLOCKING = 10_000_000
"""Tasks that clear the way are numbered from here on."""


def rejected_life(number: int, clock: Clock, rng: random.Random) -> Iterator[tuple[Event, str]]:
    """A task that is written down, taken, rejected, answered, and in the end done."""
    task, agent = task_name(number), f"agent-{rng.randrange(64):02d}"
    yield added(number), "user"
    yield from _taken(task, agent, 1, clock)
    reason = rng.choice(_REASONS)
    if rng.random() < 0.7:
        yield from _accepted(number, agent, reason, clock, rng)
        yield from _taken(task, agent, 2, clock)
    else:
        yield from _overridden(task, agent, reason, clock, rng)
    yield from _finished(task, agent, clock)


def _taken(task: str, agent: str, attempt: int, clock: Clock) -> Iterator[tuple[Event, str]]:
    common: dict[str, Any] = {"task_id": task, "handoff_id": _handoff(task), "agent": agent}
    until = clock.lease()
    yield TaskClaimed(**common, attempt=attempt, epoch=attempt, lease_expires_at=until), agent
    yield LeaseRenewed(**common, lease_expires_at=until), agent


def _finished(task: str, agent: str, clock: Clock) -> Iterator[tuple[Event, str]]:
    handoff = _handoff(task)
    yield released(task, handoff, agent), "coordinator"
    yield TaskSubmitted(task_id=task, handoff_id=handoff, agent=agent, commit=_SHA, tree=_TREE), agent
    yield ReviewApproved(task_id=task, reviewer="lead", commit=_SHA, tree=_TREE), "lead"


def _accepted(
    number: int, agent: str, reason: str, clock: Clock, rng: random.Random
) -> Iterator[tuple[Event, str]]:
    task, blocker = task_name(number), _BLOCKING + number
    common: dict[str, Any] = {"task_id": task, "handoff_id": _handoff(task), "rejection_id": f"R{task[1:]}-1"}
    yield HandoffRejected(**common, agent=agent, rejection=_record(reason, rng), score=0.8), agent
    decision = _DECISIONS[reason]
    answer = Decision(decision_type=decision, rationale="Valid.", created_tasks=(task_name(blocker),))
    yield RejectionAnswered(**common, decision=answer), "director"
    if decision == "ACCEPT":
        yield TaskBlocked(task_id=task, reason="accepted"), "director"
        yield TaskReopened(task_id=task), "user"
        return
    yield added(blocker, title=f"Resolve blocker of {number}", category="blocker"), "director"
    edge = {"src": task_node_id(task_name(blocker)), "tgt": task_node_id(task)}
    yield EdgeCreated(**edge, type="BLOCKS"), "director"
    yield TaskDeferred(task_id=task, waits_for=(task_name(blocker),)), "director"
    yield TaskWoken(task_id=task, because=(task_name(blocker),)), "coordinator"


def _overridden(
    task: str, agent: str, reason: str, clock: Clock, rng: random.Random
) -> Iterator[tuple[Event, str]]:
    for time in (1, 2) if rng.random() < 0.5 else (1,):
        common: dict[str, Any] = {
            "task_id": task,
            "handoff_id": _handoff(task),
            "rejection_id": f"R{task[1:]}-{time}",
        }
        yield HandoffRejectionInvalid(**common, agent=agent, rejection=_record(reason, rng)), agent
        answer = Decision(decision_type="OVERRIDE", rationale="Too few attempts.", reassign_to=agent)
        yield RejectionAnswered(**common, decision=answer), "director"
        yield (
            LeaseRenewed(
                task_id=task, handoff_id=_handoff(task), agent=agent, lease_expires_at=clock.lease()
            ),
            agent,
        )


def _handoff(task: str) -> str:
    return f"H{task[1:]}"


def _record(reason: str, rng: random.Random) -> dict[str, Any]:
    """A rejection's record, about a kilobyte of it."""
    fill = {"word": rng.choice(_WORDS), "n": rng.randrange(10_000), "day": rng.randrange(30)}
    blocker = rng.choice(_BLOCKERS).format(**fill)
    return {
        "reason_type": reason,
        "reason_summary": f"Cannot go on with {fill['word']}",
        "reason_detail": f"{blocker}. Without it none of the acceptance tests can be run as they are written.",
        "what_attempted": [
            f"Ran make {fill['word']} three times: exit {fill['n'] % 128} after 40 s each time",
            f"Read src/{fill['word']}/client.py:{fill['n']} and the log of the last deployment",
            "Asked in the channel of the team that runs it; the answer is due on Monday",
        ],
        "blocking_factor": blocker,
        "evidence": [
            {"type": "error_log", "data": f"{fill['word']}: error {fill['n']}, gave up after 3 tries"}
        ],
        "suggested_alternative": f"Restore {fill['word']}, then take the task up again from commit c0ffee00",
        "rejected_at": "2026-01-01T00:00:00.000000Z",
    }
