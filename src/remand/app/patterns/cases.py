"""Rejections as cases: each with how it was answered, what came of it, and how long its task slept.

A hundred thousand cases are looked at within a second because they are kept in columns.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest
from operator import itemgetter

from remand.domain.instant import Instant
from remand.domain.reasons import DecisionType
from remand.domain.record import Record
from remand.ledger.filings import Filing
from remand.ledger.store import TaskTable, TraceTable
from remand.ledger.traces import ESCALATED, FILED, LOCKED_OUT, Trace

UNKNOWN = "UNKNOWN"
NOBODY = "unknown"
OVERRIDE = DecisionType.OVERRIDE.name
DEFER = DecisionType.ACCEPT_AND_DEFER.name
REFORMULATE = DecisionType.ACCEPT_AND_REFORMULATE.name


class Outcome(StrEnum):
    """What came of a rejection first, after it was filed."""

    DONE = "done"
    REJECTED_AGAIN = "rejected_again"
    LOCKOUT = "lockout"
    """The agent that rejected the task was locked out of it."""
    ESCALATED = "escalated"
    CANCELLED = "cancelled"
    OPEN = "open"
    UNKNOWN = "unknown"
    """The ledger does not know the task."""


class Cases(Record, kw_only=True):
    """Rejections in columns, all equally long."""

    times: Sequence[Instant]
    tasks: Sequence[str]
    agents: Sequence[str]
    reasons: Sequence[str]
    valid: Sequence[bool]
    decisions: Sequence[str]
    """The type of the answer that counts; empty while there is none."""
    outcomes: Sequence[Outcome]
    blockers: Sequence[str]
    slept: Sequence[float] = ()
    """For how many seconds tasks slept that were deferred and woke."""
    asleep: int = 0
    """How many are deferred still."""

    def __len__(self) -> int:
        return len(self.times)


NONE = Cases(times=(), tasks=(), agents=(), reasons=(), valid=(), decisions=(), outcomes=(), blockers=())
_Place = tuple[Instant, str, int]
_place = itemgetter(slice(1, 4))
"""Where a filing or a trace stands in the order of events."""
_Turn = tuple[_Place, Outcome, str]
"""A lockout or an escalation of a task: when, which, and whose."""


def cases(traces: TraceTable, tasks: TaskTable, since: Instant = "") -> Cases:
    """The rejections filed since then."""
    filed = list(traces.filings(since))
    if not filed:
        return NONE
    events, times, _, _, names, agents, reasons, blockers, decisions, answered, created, woken = zip(
        *filed, strict=True
    )
    statuses = tasks.statuses({*names, *created})
    valid = [event == FILED for event in events]
    sleeping = zip(names, decisions, woken, strict=True)
    asleep = {name for name, decision, wake in sleeping if decision == DEFER and not wake}
    slept = zip(answered, woken, strict=True)
    return Cases(
        times=times,
        tasks=names,
        agents=[agent or NOBODY for agent in agents],
        reasons=[reason or UNKNOWN for reason in reasons],
        valid=valid,
        decisions=list(map(_decision, decisions, answered, valid)),
        outcomes=_outcomes(filed, traces.every(LOCKED_OUT, ESCALATED), _ends(filed, statuses)),
        blockers=blockers,
        slept=[_seconds(start, end) for start, end in slept if end],
        asleep=sum(statuses.get(name) == "deferred" for name in asleep),
    )


def _decision(named: str, answered: Instant, is_valid: bool) -> str:
    """How a rejection was answered; that an invalid one is overridden needs no answer to say so."""
    if answered:
        return named or UNKNOWN
    return "" if is_valid else OVERRIDE


def _seconds(start: Instant, end: Instant) -> float:
    return (datetime.fromisoformat(end[:-1]) - datetime.fromisoformat(start[:-1])).total_seconds()


def _outcomes(filed: Sequence[Filing], traces: Iterable[Trace], ends: list[Outcome]) -> list[Outcome]:
    """What came first of each rejection: how the task ended, unless something else came before."""
    turns: defaultdict[str, list[_Turn]] = defaultdict(list)
    for trace in sorted(traces, key=_place):
        outcome = Outcome.LOCKOUT if trace.event == LOCKED_OUT else Outcome.ESCALATED
        turns[trace.task].append((_place(trace), outcome, trace.agent))
    counts = Counter(map(_task, filed))
    turned = {task for task, count in counts.items() if task and (count > 1 or task in turns)}
    rows = sorted((one[4], _place(one), at) for at, one in enumerate(filed) if one[4] in turned)
    for (task, place, at), later in zip_longest(rows, rows[1:]):
        again = later[1] if later is not None and later[0] == task else None
        ends[at] = _first(filed[at].agent, place, again, turns.get(task, ())) or ends[at]
    return ends


def _ends(filed: Sequence[Filing], statuses: Mapping[str, str]) -> list[Outcome]:
    """How each task has ended, or the last one in the row of those that took its place."""
    found = [statuses.get(name, "") for name in map(_task, filed)]
    if "infeasible" in found:
        replaced = {one.task: one.created for one in filed if one.decision == REFORMULATE and one.created}
        for at, status in enumerate(found):
            if status == "infeasible":
                found[at] = statuses.get(_last(filed[at].task, replaced, statuses), "")
    return [_ENDS.get(status, Outcome.OPEN) for status in found]


def _last(task: str, replaced: Mapping[str, str], statuses: Mapping[str, str]) -> str:
    """The last in a row of tasks that took each other's place."""
    seen: set[str] = set()
    while statuses.get(task) == "infeasible" and task in replaced and task not in seen:
        seen.add(task)
        task = replaced[task]
    return task


def _first(agent: str, place: _Place, again: _Place | None, turns: Sequence[_Turn]) -> Outcome | None:
    """What came first after a rejection; None when nothing did but the end of the task, or not even that."""
    for at in range(bisect_right(turns, place, key=itemgetter(0)), len(turns)):
        when, outcome, whose = turns[at]
        if again is not None and when > again:
            break
        if outcome is Outcome.ESCALATED or whose == agent:
            return outcome
    return None if again is None else Outcome.REJECTED_AGAIN


_ENDS = {
    "done": Outcome.DONE,
    "cancelled": Outcome.CANCELLED,
    "infeasible": Outcome.CANCELLED,
    "": Outcome.UNKNOWN,
}
_task = itemgetter(4)
