"""Analysis of rejections from a ledger or a graph: counts, shares with intervals, blockers, waits and outcomes."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import islice, zip_longest
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from remand.app.analysis.statistics import (
    Cluster,
    Clusters,
    Quantile,
    Share,
    cluster_texts,
    quantile,
    wilson_share,
)
from remand.domain.graph import DECISION_CONTENT, REJECTION_PREFIX, EdgeType, GraphNode, ThoughtGraph
from remand.domain.instant import Instant, seconds_between
from remand.domain.reasons import DecisionType, RejectionReason, parse_decision_type, parse_reason
from remand.domain.record import Record
from remand.ledger.event_tables import TraceTable
from remand.ledger.store import TaskTable, Transaction
from remand.ledger.traces import ESCALATED, FILED, LOCKED_OUT, FiledRejection, Trace

UNKNOWN = "UNKNOWN"
UNKNOWN_AGENT = "unknown"
OVERRIDE = DecisionType.OVERRIDE.name
DEFER = DecisionType.ACCEPT_AND_DEFER.name
REFORMULATE = DecisionType.ACCEPT_AND_REFORMULATE.name


class RejectionOutcome(StrEnum):
    """The first consequence of a rejection."""

    DONE = "done"
    REJECTED_AGAIN = "rejected_again"
    LOCKOUT = "lockout"
    """The agent that rejected the task was locked out of it."""
    ESCALATED = "escalated"
    CANCELLED = "cancelled"
    OPEN = "open"
    UNKNOWN = "unknown"
    """The ledger does not know the task."""


class RejectionCases(Record, kw_only=True):
    """Rejections as columns of equal length."""

    times: Sequence[Instant]
    tasks: Sequence[str]
    agents: Sequence[str]
    reasons: Sequence[str]
    valid: Sequence[bool]
    decisions: Sequence[str]
    """The type of the effective answer; empty if there is none."""
    outcomes: Sequence[RejectionOutcome]
    blockers: Sequence[str]
    slept: Sequence[float] = ()
    """Seconds between deferral and waking, for deferred tasks that woke."""
    asleep: int = 0
    """How many are still deferred."""

    def __len__(self) -> int:
        return len(self.times)


NO_CASES = RejectionCases(
    times=(), tasks=(), agents=(), reasons=(), valid=(), decisions=(), outcomes=(), blockers=()
)
_Place = tuple[Instant, str, int]
_place_columns = itemgetter(slice(1, 4))
"""The position of a filing or trace in the order of events."""
_Turn = tuple[_Place, RejectionOutcome, str]
"""A lockout or escalation of a task: position, kind and agent."""


def read_cases(traces: TraceTable, tasks: TaskTable, since: Instant = "") -> RejectionCases:
    """The rejections filed since a time."""
    filed = list(traces.filed_rejections(since))
    if not filed:
        return NO_CASES
    events, times, _, _, names, agents, reasons, blockers, decisions, answered, created, woken = zip(
        *filed, strict=True
    )
    statuses = tasks.statuses({*names, *created})
    valid = [event == FILED for event in events]
    sleeping = zip(names, decisions, woken, strict=True)
    asleep = {name for name, decision, wake in sleeping if decision == DEFER and not wake}
    slept = zip(answered, woken, strict=True)
    return RejectionCases(
        times=times,
        tasks=names,
        agents=[agent or UNKNOWN_AGENT for agent in agents],
        reasons=[reason or UNKNOWN for reason in reasons],
        valid=valid,
        decisions=list(map(_answer_type, decisions, answered, valid)),
        outcomes=_first_outcomes(filed, traces.every(LOCKED_OUT, ESCALATED), _task_ends(filed, statuses)),
        blockers=blockers,
        slept=[seconds_between(start, end) for start, end in slept if end],
        asleep=sum(statuses.get(name) == "deferred" for name in asleep),
    )


def _answer_type(named: str, answered: Instant, is_valid: bool) -> str:
    """The answer to a rejection; an invalid one counts as overridden even without an answer."""
    if answered:
        return named or UNKNOWN
    return "" if is_valid else OVERRIDE


def _first_outcomes(
    filed: Sequence[FiledRejection], traces: Iterable[Trace], ends: list[RejectionOutcome]
) -> list[RejectionOutcome]:
    """The first consequence of each rejection: the end of the task, unless something else came before."""
    turns: defaultdict[str, list[_Turn]] = defaultdict(list)
    for trace in sorted(traces, key=_place_columns):
        outcome = RejectionOutcome.LOCKOUT if trace.event == LOCKED_OUT else RejectionOutcome.ESCALATED
        turns[trace.task].append((_place_columns(trace), outcome, trace.agent))
    counts = Counter(map(_task_column, filed))
    turned = {task for task, count in counts.items() if task and (count > 1 or task in turns)}
    rows = sorted((one[4], _place_columns(one), at) for at, one in enumerate(filed) if one[4] in turned)
    for (task, place, at), later in zip_longest(rows, rows[1:]):
        again = later[1] if later is not None and later[0] == task else None
        ends[at] = _first_turn(filed[at].agent, place, again, turns.get(task, ())) or ends[at]
    return ends


def _task_ends(filed: Sequence[FiledRejection], statuses: Mapping[str, str]) -> list[RejectionOutcome]:
    """How each task ended, or the last of its replacements."""
    found = [statuses.get(name, "") for name in map(_task_column, filed)]
    if "infeasible" in found:
        replaced = {one.task: one.created for one in filed if one.decision == REFORMULATE and one.created}
        for at, status in enumerate(found):
            if status == "infeasible":
                found[at] = statuses.get(_last_replacement(filed[at].task, replaced, statuses), "")
    return [_ENDS.get(status, RejectionOutcome.OPEN) for status in found]


def _last_replacement(task: str, replaced: Mapping[str, str], statuses: Mapping[str, str]) -> str:
    """The last in a series of replacements."""
    seen: set[str] = set()
    while statuses.get(task) == "infeasible" and task in replaced and task not in seen:
        seen.add(task)
        task = replaced[task]
    return task


def _first_turn(
    agent: str, place: _Place, again: _Place | None, turns: Sequence[_Turn]
) -> RejectionOutcome | None:
    """The first consequence other than the end of the task; None if there is none."""
    for at in range(bisect_right(turns, place, key=itemgetter(0)), len(turns)):
        when, outcome, whose = turns[at]
        if again is not None and when > again:
            break
        if outcome is RejectionOutcome.ESCALATED or whose == agent:
            return outcome
    return None if again is None else RejectionOutcome.REJECTED_AGAIN


_ENDS = {
    "done": RejectionOutcome.DONE,
    "cancelled": RejectionOutcome.CANCELLED,
    "infeasible": RejectionOutcome.CANCELLED,
    "": RejectionOutcome.UNKNOWN,
}
_task_column = itemgetter(4)


BREAKDOWNS = ("agent", "reason", "task", "blocker")
COMMON = 10
MOST_CLUSTERS = 50
MOST_ROWS = 1000
UNANSWERED = "UNANSWERED"
_BLOCKER = RejectionReason.BLOCKER.name


class RejectionRow(Record, kw_only=True, omit_defaults=False):
    """One agent, reason or task with its rejections and their answers."""

    key: str
    rejections: int
    overridden: Share
    invalid: Share
    decisions: dict[str, int]


class UnblockTimes(Record, kw_only=True, omit_defaults=False):
    """How long deferred tasks slept in seconds, and how many still do."""

    woken: int
    still_waiting: int
    median_seconds: Quantile
    p90_seconds: Quantile


class OutcomeShares(Record, kw_only=True, omit_defaults=False):
    """The outcomes of rejections with the same kind of answer, each with its share."""

    rejections: int
    by_outcome: dict[str, Share]


class RejectionDay(Record, kw_only=True, omit_defaults=False):
    day: str
    rejections: int
    overridden: int


class Analysis(Record, kw_only=True, omit_defaults=False):
    """The complete analysis of the rejections since a time."""

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
    reasons: list[RejectionRow]
    agents: list[RejectionRow]
    time_to_unblock: UnblockTimes
    outcomes: dict[str, OutcomeShares]
    by_day: list[RejectionDay]


class Breakdown(Record, kw_only=True, omit_defaults=False):
    """The rejections by one field, most frequent first; further rows are only counted."""

    by: str
    rows: list[RejectionRow] | list[Cluster]
    rows_in_all: int


def ledger_cases(tx: Transaction, since: Instant = "") -> RejectionCases:
    """A ledger's rejections filed since a time."""
    return read_cases(tx.traces, tx.tasks, since)


class _CaseKind(NamedTuple):
    """The fields by which cases are counted."""

    reason: str
    agent: str
    is_valid: bool
    decision: str
    outcome: RejectionOutcome


class RejectionTally:
    """Cases counted by kind: a few hundred kinds, however many cases."""

    def __init__(self, found: RejectionCases) -> None:
        columns = (found.reasons, found.agents, found.valid, found.decisions, found.outcomes)
        counts = Counter(zip(*columns, strict=True))
        self.kinds = [(_CaseKind._make(kind), count) for kind, count in counts.items()]

    def count(self, holds: Callable[[_CaseKind], object]) -> int:
        """The number of cases that match."""
        return sum(count for kind, count in self.kinds if holds(kind))

    def counts_by(self, name: str) -> dict[str, int]:
        """The number of cases by field value, most frequent first."""
        counts: Counter[str] = Counter()
        for kind, count in self.kinds:
            counts[getattr(kind, name)] += count
        return rank_counts(counts)

    def decisions(self) -> dict[str, int]:
        """The answers of the answered rejections."""
        return {name: count for name, count in self.counts_by("decision").items() if name}

    def override_share(self) -> Share:
        """The share of overridden rejections among those with a known answer."""
        decided = self.decisions()
        return wilson_share(decided.get(OVERRIDE, 0), sum(decided.values()) - decided.get(UNKNOWN, 0))

    def answered_count(self) -> int:
        """The number of answered rejections."""
        return sum(self.decisions().values())

    def rows(self, name: str) -> list[RejectionRow]:
        """Each value of a field with the answers to its cases, most frequent first."""
        return rejection_rows(
            (getattr(kind, name), kind.is_valid, kind.decision, count) for kind, count in self.kinds
        )


def analyze(found: RejectionCases, since: Instant = "") -> Analysis:
    tally = RejectionTally(found)
    overridden = tally.override_share()
    blockers = blocker_clusters(found, MOST_CLUSTERS)
    return Analysis(
        since=since or None,
        total_rejections=len(found),
        invalid_rejections=tally.count(lambda kind: not kind.is_valid),
        answered=tally.answered_count(),
        unanswered=len(found) - tally.answered_count(),
        override_rate=overridden.rate or 0.0,
        override_share=overridden,
        by_reason=tally.counts_by("reason"),
        by_agent=tally.counts_by("agent"),
        by_task=counts_by_task(found),
        decision_outcomes=tally.decisions(),
        common_blockers=[cluster.example for cluster in blockers.largest[:COMMON]],
        blocker_clusters=blockers.largest,
        blocker_clusters_in_all=blockers.in_all,
        reasons=tally.rows("reason"),
        agents=tally.rows("agent"),
        time_to_unblock=UnblockTimes(
            woken=len(found.slept),
            still_waiting=found.asleep,
            median_seconds=quantile(found.slept, 0.5),
            p90_seconds=quantile(found.slept, 0.9),
        ),
        outcomes={
            "overridden": _outcome_shares(tally, lambda kind: kind.decision == OVERRIDE),
            "accepted": _outcome_shares(tally, lambda kind: kind.decision.startswith("ACCEPT")),
        },
        by_day=_rejections_by_day(found),
    )


def break_down(found: RejectionCases, by: str) -> Breakdown:
    """The cases by agent, reason, task or blocker."""
    if by == "blocker":
        merged = blocker_clusters(found, MOST_ROWS)
        return Breakdown(by=by, rows=merged.largest, rows_in_all=merged.in_all)
    if by == "task":
        return _task_rows(found)
    every = RejectionTally(found).rows(by)
    return Breakdown(by=by, rows=every[:MOST_ROWS], rows_in_all=len(every))


def _task_rows(found: RejectionCases) -> Breakdown:
    """The most rejected tasks. Of tens of thousands only the shown ones are examined closely."""
    counts = counts_by_task(found)
    shown = set(islice(counts, MOST_ROWS))
    kinds = Counter(
        (task or UNKNOWN, is_valid, decision)
        for task, is_valid, decision in zip(found.tasks, found.valid, found.decisions, strict=True)
        if (task or UNKNOWN) in shown
    )
    return Breakdown(
        by="task",
        rows=rejection_rows((*kind, count) for kind, count in kinds.items()),
        rows_in_all=len(counts),
    )


def blocker_clusters(found: RejectionCases, most: int) -> Clusters:
    """The blockers in accepted rejections; one that was overridden blocked nothing."""
    columns = (found.blockers, found.tasks, found.reasons, found.decisions)
    said = (
        (blocker, task)
        for blocker, task, reason, decision in zip(*columns, strict=True)
        if reason == _BLOCKER and blocker and decision.startswith("ACCEPT")
    )
    return cluster_texts(said, most)


def counts_by_task(found: RejectionCases) -> dict[str, int]:
    """The number of rejections per task, highest first."""
    counts = Counter(found.tasks)
    if counts[""]:
        counts[UNKNOWN] = counts.pop("")
    return rank_counts(counts)


def rejection_rows(counted: Iterable[tuple[str, bool, str, int]]) -> list[RejectionRow]:
    """Rows from counts by key, validity and decision; most frequent first."""
    decisions: defaultdict[str, Counter[str]] = defaultdict(Counter)
    invalid: Counter[str] = Counter()
    for key, is_valid, decision, count in counted:
        decisions[key][decision or UNANSWERED] += count
        invalid[key] += 0 if is_valid else count
    made = [_rejection_row(key, counts, invalid[key]) for key, counts in decisions.items()]
    return sorted(made, key=lambda row: (-row.rejections, row.key))


def _rejection_row(key: str, counts: Counter[str], invalid: int) -> RejectionRow:
    total = counts.total()
    return RejectionRow(
        key=key,
        rejections=total,
        overridden=wilson_share(counts[OVERRIDE], total - counts[UNANSWERED] - counts[UNKNOWN]),
        invalid=wilson_share(invalid, total),
        decisions=rank_counts(counts),
    )


def rank_counts(counts: Counter[str]) -> dict[str, int]:
    """Counts, highest first, then by name."""
    names = sorted(counts)
    names.sort(key=counts.__getitem__, reverse=True)
    return {name: counts[name] for name in names if counts[name]}


def _outcome_shares(tally: RejectionTally, holds: Callable[[_CaseKind], object]) -> OutcomeShares:
    counts: Counter[RejectionOutcome] = Counter()
    for kind, count in tally.kinds:
        if holds(kind):
            counts[kind.outcome] += count
    total = counts.total()
    listed = (
        outcome for outcome in RejectionOutcome if counts[outcome] or outcome is not RejectionOutcome.UNKNOWN
    )
    return OutcomeShares(
        rejections=total,
        by_outcome={outcome.value: wilson_share(counts[outcome], total) for outcome in listed},
    )


def _rejections_by_day(found: RejectionCases) -> list[RejectionDay]:
    days = [time[:10] for time in found.times]
    overridden = Counter(zip(days, found.decisions, strict=True))
    return [
        RejectionDay(day=day, rejections=count, overridden=overridden[day, OVERRIDE])
        for day, count in sorted(Counter(days).items())
    ]


_RANKS = {"": 0, UNKNOWN: 1, OVERRIDE: 2}
_FINAL = 3
"""Of several answers the most definite one counts, among equals the first: what was accepted stays accepted."""


def analyze_rejection_patterns(graph: ThoughtGraph) -> dict[str, Any]:
    """Which tasks and agents reject most, the most frequent blockers, and the answers to rejections.

    An invalid rejection counts as overridden. Unknown answers are excluded from rates and not guessed from the
    rationale: graphs of other tools have no type of decision, but their content or links may show it. Blockers are
    those of accepted rejections with near-duplicates merged, most common first.
    """
    found = _graph_cases(graph)
    tally = RejectionTally(found)
    overridden = tally.override_share()
    merged = blocker_clusters(found, MOST_CLUSTERS).largest
    return {
        "total_rejections": len(found),
        "invalid_rejections": tally.count(lambda kind: not kind.is_valid),
        "unanswered": len(found) - tally.answered_count(),
        "by_reason": tally.counts_by("reason"),
        "by_agent": tally.counts_by("agent"),
        "by_task": counts_by_task(found),
        "common_blockers": [cluster.example for cluster in merged[:COMMON]],
        "blocker_clusters": msgspec.to_builtins(merged),
        "decision_outcomes": tally.decisions(),
        "override_rate": overridden.rate or 0.0,
        "override_share": msgspec.to_builtins(overridden),
    }


def _graph_cases(graph: ThoughtGraph) -> RejectionCases:
    """The rejections in a graph, each with its task and effective decision."""
    tasks: dict[str, str] = {}
    decisions: dict[str, str] = {}
    refining = {(edge.source, edge.target) for edge in graph.edges if edge.edge_type == EdgeType.REFINES}
    for edge in graph.edges:
        if edge.edge_type == EdgeType.OBSERVES:
            tasks[edge.source] = edge.target
    for edge in graph.edges:
        name, node = edge.target, graph.get_node(edge.source)
        if edge.edge_type == EdgeType.ANSWERS and node is not None:
            made = _graph_decision(node, tasks.get(name, ""), refining)
            if _RANKS.get(made, _FINAL) > _RANKS.get(decisions.get(name, ""), _FINAL):
                decisions[name] = made
    nodes = [node for node in graph.nodes.values() if node.id.startswith(REJECTION_PREFIX)]
    return RejectionCases(
        times=[_text_property(node, "rejected_at") for node in nodes],
        tasks=[
            tasks.get(node.id) or _text_property(node, "task_id") or _task_of_rejection_id(node.id)
            for node in nodes
        ],
        agents=[_text_property(node, "agent_id") or UNKNOWN_AGENT for node in nodes],
        reasons=[_reason_name(node) for node in nodes],
        valid=[_is_valid(node) for node in nodes],
        decisions=[decisions.get(node.id) or ("" if _is_valid(node) else OVERRIDE) for node in nodes],
        outcomes=[RejectionOutcome.UNKNOWN] * len(nodes),
        blockers=[_text_property(node, "blocking_factor") for node in nodes],
    )


def _is_valid(node: GraphNode) -> bool:
    return node.properties.get("is_valid") is not False


def _reason_name(node: GraphNode) -> str:
    named = parse_reason(node.properties.get("reason_type"))
    return named.name if named else UNKNOWN


def _graph_decision(node: GraphNode, task: str, refining: AbstractSet[tuple[str, str]]) -> str:
    """The type of a decision: as stored or written in its content, else if its links are unambiguous."""
    stored = parse_decision_type(node.properties.get("decision_type")) or parse_decision_type(
        node.content.removeprefix(DECISION_CONTENT) if node.content.startswith(DECISION_CONTENT) else None
    )
    if stored is not None:
        return stored.name
    if _text_property(node, "deferred_task"):
        return DecisionType.ACCEPT_AND_DEFER.name
    created = node.properties.get("created_tasks")
    if not isinstance(created, list | tuple) or not created:
        return UNKNOWN
    if not all(isinstance(name, str) and (name, task) in refining for name in created):
        return UNKNOWN
    made = DecisionType.ACCEPT_AND_REFORMULATE if len(created) == 1 else DecisionType.ACCEPT_AND_DECOMPOSE
    return made.name


def _task_of_rejection_id(name: str) -> str:
    """The task in a rejection's id: `rejection:TASK:TIME`."""
    return name.removeprefix(REJECTION_PREFIX).rpartition(":")[0]


def _text_property(node: GraphNode, name: str) -> str:
    value = node.properties.get(name)
    return value if isinstance(value, str) else ""
