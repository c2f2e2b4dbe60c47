"""Work held by the gates: each finding with the commands to accept or refuse it, and how often each kind was found."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from remand.app.events.signatures import confirmed_events
from remand.app.inbox.questions import WAIT, EventsOf, Question
from remand.app.tasks.lookup import Lineage
from remand.domain import commands as c
from remand.domain.access.team import Actor, Team
from remand.domain.decisions.escalations import EscalationOption
from remand.domain.decisions.findings import (
    acceptable_findings,
    describe_held_count,
    open_findings,
    override_command,
    possible_settlers,
    settle_command,
)
from remand.domain.events.event import Event, event_names
from remand.domain.events.work import (
    FindingAccepted,
    FindingRefused,
    GateErrored,
    GateHeld,
    GatePassed,
    GateRejected,
)
from remand.domain.gate.gate import GateFinding
from remand.domain.gate.verdict import INTEGRITY_GATE
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple, Record
from remand.domain.refusals import require_option
from remand.domain.task import Task
from remand.domain.text.redaction import redact
from remand.domain.text.words import single_line
from remand.integrity.suspicions import NEVER_SETTLED, Settlement, describe_change, explain_kind
from remand.ledger.store import Transaction

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
    for commit in examined:
        total += 1
        counts.update(commit.held)
        latest |= dict.fromkeys(commit.held, commit.commit)
    return [
        AuditRow(
            kind=kind, language=language, commits=count, share=count / total, example=latest[kind, language]
        )
        for (kind, language), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


HELD_KIND = "held"
ACCEPT, REFUSE = "accept", "refuse"
HELD_OPTIONS = (
    EscalationOption(key=ACCEPT, text="Accept the finding: the work continues once nothing else is held"),
    EscalationOption(key=REFUSE, text="Refuse it: the work goes back to its agent"),
)


class HeldFinding(Record, kw_only=True, omit_defaults=False):
    """A finding that waits for a person."""

    finding: str
    """Its id."""
    path: str = ""
    line: int = 0
    code: str = ""
    text: str = ""
    accept: str = ""
    """The command that accepts it; empty if the actor may not settle it."""
    refuse: str = ""
    accepted_before: int = 0
    """How many of the settled findings of its kind reviewers accepted."""
    settled_before: int = 0

    @property
    def place(self) -> str:
        """Its place and summary on one line."""
        return self._place(self.text)

    @property
    def lines(self) -> tuple[str, ...]:
        """What changed and where; then why it matters, what settles it, and how its kind was settled before."""
        before = Settlement(self.accepted_before, self.settled_before)
        rows = self._place(describe_change(self.code, self.text)), explain_kind(self.code, before)
        return tuple(row for row in rows if row)

    def _place(self, text: str) -> str:
        where = f"{self.path}:{self.line}" if self.line else self.path
        return single_line(": ".join(part for part in (where, self.code, text) if part))


class HeldWork(Record, kw_only=True, omit_defaults=False):
    """A done claim held by the gates."""

    task_id: str
    label: str
    title: str
    agent: str
    """The author of the work."""
    commit: str
    since: Instant = ""
    report: str = ""
    """The name of the full report on the measuring machine."""
    settlers: tuple[str, ...] = ()
    """Who may settle at least one of the findings."""
    override: str = ""
    """The command with which the user lets the work pass; only if nobody may settle the findings."""
    findings: tuple[HeldFinding, ...]


class HeldQuestion(Question, kw_only=True, omit_defaults=False):
    """A held finding as a question to those who may settle it; its id contains the task and the finding."""

    agent: str
    finding: str
    path: str = ""
    line: int = 0
    accept: str = ""
    """The commands that accept and refuse the finding."""
    refuse: str = ""
    report: str = ""


def tasks_with_held_findings(view: Transaction, tasks: Iterable[Task] | None = None) -> list[Task]:
    return list(filter(open_findings, view.task_lists.pages.waiting_tasks() if tasks is None else tasks))


def held_work(view: Transaction, team: Team, events_of: EventsOf, who: Actor) -> list[HeldWork]:
    """The held work that somebody may settle, with its findings, oldest first."""
    held_works = []
    tasks = tasks_with_held_findings(view)
    settled = settled_kinds(view) if tasks else {}
    for task in tasks:
        work = with_settlements(held_work_of_task(view, team, task, events_of(task.id), who), settled)
        if settleable := tuple(finding for finding in work.findings if finding.accept):
            held_works.append(replace(work, findings=settleable))
    return sorted(held_works, key=lambda work: (work.since, work.task_id))


def settled_kinds(view: Transaction) -> dict[str, Settlement]:
    """How often reviewers accepted each kind of finding."""
    reports = count_settlements(confirmed_events(view, event_names(*FINDING_EVENTS)))
    return {one.kind: Settlement(one.accepted, one.accepted + one.refused) for one in reports}


def with_settlements(work: HeldWork, settled: Mapping[str, Settlement]) -> HeldWork:
    """Held work, each finding with the earlier settlements of its kind."""
    pairs = ((one, settled.get(one.code, NEVER_SETTLED)) for one in work.findings)
    found = (
        replace(one, accepted_before=before.accepted, settled_before=before.settled) for one, before in pairs
    )
    return replace(work, findings=tuple(found))


def held_work_of_task(
    view: Transaction, team: Team, task: Task, events: Iterable[Event], who: Actor
) -> HeldWork:
    """All held work of a task, with commands for the findings that can be settled."""
    team = team.with_task_names(Lineage(view).participant_names(task))
    actor = team.actor(who.name, confined=who.confined)
    gating = task.gates
    holds = [
        event
        for event in events
        if isinstance(event, GateHeld)
        and (event.handoff_id, event.verdict.commit) == (gating.handoff_id, gating.commit)
        and event.verdict.suspicions == gating.held
    ]
    hold = holds[-1] if holds else None
    gates = hold.verdict.gates if hold else ()
    # If two gates hold the same finding, the first one describes it.
    described = {name: finding for gate in reversed(gates) for name, finding in reversed(gate.held_findings)}
    names, findings = possible_settlers(task, team), open_findings(task)
    reached = set(acceptable_findings(task, findings, actor))
    return HeldWork(
        task_id=task.id,
        label=task.label,
        title=task.title,
        agent=hold.agent if hold else task.claim.agent if task.claim else "",
        commit=task.gates.commit,
        since=hold.ts if hold else "",
        report=hold.verdict.report_name if hold else "",
        settlers=names,
        override="" if names else override_command(task),
        findings=tuple(
            _held_finding(task, name, described.get(name), actor if name in reached else None)
            for name in findings
        ),
    )


def _held_finding(task: Task, name: str, finding: GateFinding | None, actor: Actor | None) -> HeldFinding:
    known = finding or GateFinding()
    return HeldFinding(
        finding=name,
        path=single_line(redact(known.path)),
        line=known.line,
        code=single_line(redact(known.code)),
        text=single_line(redact(known.text.removesuffix(f"[{name}]"))),
        accept=settle_command(task, name, actor) if actor else "",
        refuse=settle_command(task, name, actor, is_accepted=False) if actor else "",
    )


def held_questions(
    view: Transaction, team: Team, events_of: EventsOf, who: Actor, tasks: Iterable[Task] | None = None
) -> Iterator[HeldQuestion]:
    """The held findings that somebody may settle, of all or the given tasks, each as a question.

    A resubmitted rejected change is already a question of its task. If nobody may settle what is held, the user is
    asked to let it pass.
    """
    for task in tasks_with_held_findings(view, tasks):
        if task.open_escalation is not None:
            continue
        work = held_work_of_task(view, team, task, events_of(task.id), who)
        yield from (_held_question(work, finding) for finding in work.findings if finding.accept)
        if who.is_user and not work.settlers:
            yield _override_question(work)


def held_question_id(task_id: str, finding: str) -> str:
    return f"{task_id}/{finding}"


def _held_question(work: HeldWork, finding: HeldFinding) -> HeldQuestion:
    label = work.label[:1].upper() + work.label[1:]
    numbered = ", ".join(f"{number}) {option.text}" for number, option in enumerate(HELD_OPTIONS, start=1))
    why = f"{label} is held: `{finding.accept}` accepts this finding in {work.agent}'s work: {finding.place}"
    return HeldQuestion(
        escalation_id=held_question_id(work.task_id, finding.finding),
        task_id=work.task_id,
        title=work.title,
        kind=HELD_KIND,
        question=f"{why.rstrip(' :.')}. Options: {numbered}.",
        options=HELD_OPTIONS,
        deadline="",
        default=WAIT,
        since=work.since,
        agent=work.agent,
        finding=finding.finding,
        path=finding.path,
        line=finding.line,
        accept=finding.accept,
        refuse=finding.refuse,
        report=work.report,
    )


def _override_question(work: HeldWork) -> HeldQuestion:
    first = work.findings[0]
    why = (
        f"{describe_held_count(len(work.findings))} in {work.agent}'s work on {work.label}, and nobody else may settle this. "
        f"`{work.override}` lets it pass. The first: {first.finding}: {first.place}"
    )
    return HeldQuestion(
        escalation_id=held_question_id(work.task_id, first.finding),
        task_id=work.task_id,
        title=work.title,
        kind=HELD_KIND,
        question=f"{why.rstrip(' :.')}. Options: none.",
        options=(),
        deadline="",
        default=WAIT,
        since=work.since,
        agent=work.agent,
        finding=first.finding,
        report=work.report,
    )


def settlement_command(task_id: str, finding: str, key: str, reason: str) -> c.SettleFinding:
    """The command that settles a finding by the key of an option."""
    require_option(key, (ACCEPT, REFUSE))
    return c.SettleFinding(task_id=task_id, finding=finding, is_accepted=key == ACCEPT, reason=reason)
