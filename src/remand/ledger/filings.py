"""Rejections with what is known of each: the answer that counts, and when its task woke after that.

The answer that counts is the first that accepts the rejection, else the override: what was accepted stays so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from remand.domain.instant import Instant
from remand.domain.reasons import DecisionType
from remand.ledger.traces import ANSWERED, FILED, INVALID, WOKEN, Trace

OVERRIDE = DecisionType.OVERRIDE.name


class Filing(NamedTuple):
    """A rejection, and what is known of it."""

    event: str
    ts: Instant
    session: str
    seq: int
    task: str
    agent: str
    reason: str
    blocker: str
    decision: str = ""
    """Empty when there is no answer, or its type is none of the known ones."""
    answered_at: Instant = ""
    """Empty when there is no answer."""
    created: str = ""
    """The first task that the answer created."""
    woken_at: Instant = ""
    """When the task woke after a deferral; empty when it did not."""


def filings(traces: Iterable[Trace], task_of: Callable[[str], str], since: Instant) -> Iterator[Filing]:
    """Puts traces together, for a store that has no query language. `task_of` tells the task of a handoff."""
    filed: list[Trace] = []
    answers: defaultdict[str, list[Trace]] = defaultdict(list)
    wakes: defaultdict[str, list[Instant]] = defaultdict(list)
    for trace in traces:
        if trace.event in (FILED, INVALID) and trace.ts >= since:
            filed.append(trace)
        elif trace.event == ANSWERED and trace.rejection:
            answers[trace.rejection].append(trace)
        elif trace.event == WOKEN:
            wakes[trace.task].append(trace.ts)
    for trace in filed:
        found = Filing(*trace[:4], trace.task or task_of(trace.handoff), trace.agent, trace.said, trace.text)
        later = (answer for answer in answers[trace.rejection] if answer.ts >= trace.ts)
        answer = min(later, key=lambda one: (one.said == OVERRIDE, *one[1:4]), default=None)
        yield _answered(found, answer, wakes[trace.task]) if answer else found


def _answered(found: Filing, answer: Trace, wakes: list[Instant]) -> Filing:
    is_deferred = answer.said == DecisionType.ACCEPT_AND_DEFER.name
    woken = min((ts for ts in wakes if ts > answer.ts), default="") if is_deferred else ""
    return found._replace(decision=answer.said, answered_at=answer.ts, created=answer.text, woken_at=woken)
