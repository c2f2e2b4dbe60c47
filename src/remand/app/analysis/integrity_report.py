"""Statistics on integrity findings: how often each kind was found, accepted and refused."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from remand.domain.events.event import Event
from remand.domain.events.work import (
    FindingAccepted,
    FindingRefused,
    GateErrored,
    GateHeld,
    GatePassed,
    GateRejected,
)
from remand.domain.gate.verdict import INTEGRITY_GATE
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple, Record

FINDING_EVENTS = (GateHeld, GateRejected, GatePassed, GateErrored, FindingAccepted, FindingRefused)
"""The events that contain findings and reviewers' decisions on them."""


class KindReport(Record, kw_only=True):
    """One kind of finding, over all tasks."""

    kind: str
    found: int
    """The number of distinct findings that held work."""
    accepted: int
    refused: int
    undone: int
    """Neither accepted nor refused: removed by the agent, or still open."""


def count_settlements(events: Iterable[Event], since: Instant = "") -> list[KindReport]:
    """How often each kind of finding held work, and reviewers' decisions on it; the most accepted first."""
    kinds: dict[tuple[str, str], str] = {}
    settled: dict[tuple[str, str], bool] = {}
    for event in events:
        if event.ts < since:
            continue
        if isinstance(event, FindingAccepted | FindingRefused):
            settled[event.task_id, event.finding] = isinstance(event, FindingAccepted)
        elif isinstance(event, GateHeld | GateRejected | GatePassed | GateErrored):
            for gate in event.verdict.gates:
                if gate.name == INTEGRITY_GATE:
                    kinds |= {(event.task_id, name): one.code for name, one in gate.held_findings if one.code}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for place, kind in kinds.items():
        answer = settled.get(place)
        counts[kind]["undone" if answer is None else "accepted" if answer else "refused"] += 1
    reports = [
        KindReport(
            kind=kind,
            found=count.total(),
            accepted=count["accepted"],
            refused=count["refused"],
            undone=count["undone"],
        )
        for kind, count in counts.items()
    ]
    return sorted(reports, key=lambda one: (-one.accepted, -one.found, one.kind))


class ExaminedCommit(NamedTuple):
    """A past commit with the kinds of findings that would have held it, each with its file's language."""

    commit: str
    held: frozenset[tuple[str, str]]


class AuditRow(Record, kw_only=True):
    """One kind of finding in one language, and the number of commits with it."""

    kind: str
    language: str
    commits: int
    share: float
    """The share of all examined commits."""
    example: str
    """The latest such commit."""


def audit_rows(examined: Iterable[ExaminedCommit]) -> list[AuditRow]:
    """The number of commits with each kind by language, most frequent first; commits must be given oldest first."""
    counts: Counter[tuple[str, str]] = Counter()
    latest: dict[tuple[str, str], str] = {}
    total = 0
    for one in examined:
        total += 1
        counts.update(one.held)
        latest |= dict.fromkeys(one.held, one.commit)
    return [
        AuditRow(
            kind=kind, language=language, commits=count, share=count / total, example=latest[kind, language]
        )
        for (kind, language), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
