"""What is learned from rejections: counts, shares with their intervals, blockers, waits and outcomes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from remand.app.patterns.cases import OVERRIDE, UNKNOWN, Cases, Outcome, cases
from remand.app.patterns.clusters import Cluster, Clusters, clusters
from remand.app.patterns.intervals import Quantile, Share, quantile, share
from remand.domain.instant import Instant
from remand.domain.reasons import RejectionReason
from remand.domain.record import Record
from remand.ledger.store import Transaction

BREAKDOWNS = ("agent", "reason", "task", "blocker")
COMMON = 10
MOST_CLUSTERS = 50
MOST_ROWS = 1000
UNANSWERED = "UNANSWERED"
_BLOCKER = RejectionReason.BLOCKER.name


class Row(Record, kw_only=True, omit_defaults=False):
    """One agent, reason or task: how much it was rejected, and how that was answered."""

    key: str
    rejections: int
    overridden: Share
    invalid: Share
    decisions: dict[str, int]


class Unblocking(Record, kw_only=True, omit_defaults=False):
    """How long deferred tasks slept, in seconds, and how many still do."""

    woken: int
    still_waiting: int
    median_seconds: Quantile
    p90_seconds: Quantile


class Outcomes(Record, kw_only=True, omit_defaults=False):
    """What came of rejections that were answered in one way, each outcome with its share."""

    rejections: int
    by_outcome: dict[str, Share]


class Day(Record, kw_only=True, omit_defaults=False):
    """The rejections of one day."""

    day: str
    rejections: int
    overridden: int


class Analysis(Record, kw_only=True, omit_defaults=False):
    """Everything that is learned from the rejections since a time."""

    since: Instant | None
    total_rejections: int
    invalid_rejections: int
    answered: int
    unanswered: int
    override_rate: float
    override_share: Share
    by_reason: dict[str, int]
    by_agent: dict[str, int]
    by_task: dict[str, int]
    decision_outcomes: dict[str, int]
    common_blockers: list[str]
    blocker_clusters: list[Cluster]
    blocker_clusters_in_all: int
    reasons: list[Row]
    agents: list[Row]
    time_to_unblock: Unblocking
    outcomes: dict[str, Outcomes]
    by_day: list[Day]


class Breakdown(Record, kw_only=True, omit_defaults=False):
    """The rejections by one thing, most frequent first; rows past the most are counted alone."""

    by: str
    rows: list[Row] | list[Cluster]
    rows_in_all: int


def ledger_cases(tx: Transaction, since: Instant = "") -> Cases:
    """The rejections a ledger holds, filed since then."""
    return cases(tx.traces, tx.tasks, since)


class _Kind(NamedTuple):
    """What cases have in common as far as counting goes."""

    reason: str
    agent: str
    is_valid: bool
    decision: str
    outcome: Outcome


class Tally:
    """Cases counted by what they have in common: a few hundred kinds, however many cases."""

    def __init__(self, found: Cases) -> None:
        columns = (found.reasons, found.agents, found.valid, found.decisions, found.outcomes)
        counts = Counter(zip(*columns, strict=True))
        self.kinds = [(_Kind._make(kind), count) for kind, count in counts.items()]

    def count(self, holds: Callable[[_Kind], object]) -> int:
        """How many cases of which this holds."""
        return sum(count for kind, count in self.kinds if holds(kind))

    def by(self, name: str) -> dict[str, int]:
        """How many cases of each, the most frequent first."""
        counts: Counter[str] = Counter()
        for kind, count in self.kinds:
            counts[getattr(kind, name)] += count
        return ranked(counts)

    def decisions(self) -> dict[str, int]:
        """How rejections were answered, those that were."""
        return {name: count for name, count in self.by("decision").items() if name}

    def overridden(self) -> Share:
        """How many of the rejections whose answer is known were overridden."""
        decided = self.decisions()
        return share(decided.get(OVERRIDE, 0), sum(decided.values()) - decided.get(UNKNOWN, 0))

    def answered(self) -> int:
        """How many rejections were answered, in whatever way."""
        return sum(self.decisions().values())

    def rows(self, name: str) -> list[Row]:
        """Every value of a field with how its cases were answered, the most frequent first."""
        return rows((getattr(kind, name), kind.is_valid, kind.decision, count) for kind, count in self.kinds)


def analyze(found: Cases, since: Instant = "") -> Analysis:
    """Everything that cases teach."""
    tally = Tally(found)
    overridden = tally.overridden()
    blockers = blocker_clusters(found, MOST_CLUSTERS)
    return Analysis(
        since=since or None,
        total_rejections=len(found),
        invalid_rejections=tally.count(lambda kind: not kind.is_valid),
        answered=tally.answered(),
        unanswered=len(found) - tally.answered(),
        override_rate=overridden.rate or 0.0,
        override_share=overridden,
        by_reason=tally.by("reason"),
        by_agent=tally.by("agent"),
        by_task=by_task(found),
        decision_outcomes=tally.decisions(),
        common_blockers=[cluster.example for cluster in blockers.largest[:COMMON]],
        blocker_clusters=blockers.largest,
        blocker_clusters_in_all=blockers.in_all,
        reasons=tally.rows("reason"),
        agents=tally.rows("agent"),
        time_to_unblock=_unblocking(found),
        outcomes={
            "overridden": _outcomes(tally, lambda kind: kind.decision == OVERRIDE),
            "accepted": _outcomes(tally, lambda kind: kind.decision.startswith("ACCEPT")),
        },
        by_day=_days(found),
    )


def breakdown(found: Cases, by: str) -> Breakdown:
    """The cases by agent, reason, task or blocker."""
    if by == "blocker":
        merged = blocker_clusters(found, MOST_ROWS)
        return Breakdown(by=by, rows=merged.largest, rows_in_all=merged.in_all)
    if by == "task":
        return _task_rows(found)
    every = Tally(found).rows(by)
    return Breakdown(by=by, rows=every[:MOST_ROWS], rows_in_all=len(every))


def _task_rows(found: Cases) -> Breakdown:
    """The tasks that were rejected most. Of tens of thousands only those that are shown are looked at closely."""
    counts = by_task(found)
    shown = set(islice(counts, MOST_ROWS))
    kinds = Counter(
        (task or UNKNOWN, is_valid, decision)
        for task, is_valid, decision in zip(found.tasks, found.valid, found.decisions, strict=True)
        if (task or UNKNOWN) in shown
    )
    return Breakdown(
        by="task", rows=rows((*kind, count) for kind, count in kinds.items()), rows_in_all=len(counts)
    )


def blocker_clusters(found: Cases, most: int) -> Clusters:
    """What blocked tasks, by rejections that were accepted: a claim that was overridden blocked nothing."""
    columns = (found.blockers, found.tasks, found.reasons, found.decisions)
    said = (
        (blocker, task)
        for blocker, task, reason, decision in zip(*columns, strict=True)
        if reason == _BLOCKER and blocker and decision.startswith("ACCEPT")
    )
    return clusters(said, most)


def by_task(found: Cases) -> dict[str, int]:
    """How often each task was rejected, the most frequent first."""
    counts = Counter(found.tasks)
    if counts[""]:
        counts[UNKNOWN] = counts.pop("")
    return ranked(counts)


def rows(counted: Iterable[tuple[str, bool, str, int]]) -> list[Row]:
    """Rows of what was counted by key, validity and decision; the most frequent first."""
    decisions: defaultdict[str, Counter[str]] = defaultdict(Counter)
    invalid: Counter[str] = Counter()
    for key, is_valid, decision, count in counted:
        decisions[key][decision or UNANSWERED] += count
        invalid[key] += 0 if is_valid else count
    made = [_row(key, counts, invalid[key]) for key, counts in decisions.items()]
    return sorted(made, key=lambda row: (-row.rejections, row.key))


def _row(key: str, counts: Counter[str], invalid: int) -> Row:
    total = counts.total()
    return Row(
        key=key,
        rejections=total,
        overridden=share(counts[OVERRIDE], total - counts[UNANSWERED] - counts[UNKNOWN]),
        invalid=share(invalid, total),
        decisions=ranked(counts),
    )


def ranked(counts: Counter[str]) -> dict[str, int]:
    """Counts, the most frequent first; of equals, by name."""
    names = sorted(counts)
    names.sort(key=counts.__getitem__, reverse=True)
    return {name: counts[name] for name in names if counts[name]}


def _unblocking(found: Cases) -> Unblocking:
    return Unblocking(
        woken=len(found.slept),
        still_waiting=found.asleep,
        median_seconds=quantile(found.slept, 0.5),
        p90_seconds=quantile(found.slept, 0.9),
    )


def _outcomes(tally: Tally, holds: Callable[[_Kind], object]) -> Outcomes:
    counts: Counter[Outcome] = Counter()
    for kind, count in tally.kinds:
        if holds(kind):
            counts[kind.outcome] += count
    total = counts.total()
    listed = (outcome for outcome in Outcome if counts[outcome] or outcome is not Outcome.UNKNOWN)
    return Outcomes(
        rejections=total, by_outcome={outcome.value: share(counts[outcome], total) for outcome in listed}
    )


def _days(found: Cases) -> list[Day]:
    days = [time[:10] for time in found.times]
    overridden = Counter(zip(days, found.decisions, strict=True))
    return [
        Day(day=day, rejections=count, overridden=overridden[day, OVERRIDE])
        for day, count in sorted(Counter(days).items())
    ]
