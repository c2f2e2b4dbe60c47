"""Work that the gates hold, for whoever may settle it: each finding with the commands that accept and refuse it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from remand.app.escalations import WAIT, EventsOf, Question, line
from remand.app.family import Family
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.escalations import Option
from remand.domain.gates.figures import GateFinding
from remand.domain.gates.verdict import Verdict
from remand.domain.holds import (
    acceptable,
    held_count,
    open_findings,
    override_command,
    settle_command,
    settlers,
)
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.roles import Actor, Team
from remand.domain.secrets import redacted
from remand.domain.task import Status, Task
from remand.ledger.store import Transaction

KIND = "held"
ACCEPT, REFUSE = "accept", "refuse"
HELD_OPTIONS = (
    Option(key=ACCEPT, text="Accept the finding: the work goes on once nothing else is held"),
    Option(key=REFUSE, text="Refuse it: the work goes back to its agent"),
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
    """The command that accepts it; empty for whom it is not to settle."""
    refuse: str = ""

    @property
    def place(self) -> str:
        """Where it is and what was found, on one line."""
        where = f"{self.path}:{self.line}" if self.line else self.path
        return line(": ".join(part for part in (where, self.code, self.text) if part))


class HeldWork(Record, kw_only=True, omit_defaults=False):
    """A done claim that the gates hold."""

    task_id: str
    label: str
    title: str
    agent: str
    """Whose work it is."""
    commit: str
    since: Instant = ""
    report: str = ""
    """The name of the full report on the machine that measured."""
    settlers: tuple[str, ...] = ()
    """Who may settle at least one of the findings."""
    override: str = ""
    """The command by which the user lets the work pass; only where nobody may settle the findings."""
    findings: tuple[HeldFinding, ...]


class HeldQuestion(Question, kw_only=True, omit_defaults=False):
    """A held finding as a question to whoever may settle it; what it is asked under names the task and the finding."""

    agent: str
    finding: str
    path: str = ""
    line: int = 0
    accept: str = ""
    """The command that accepts the finding, and the one that refuses it."""
    refuse: str = ""
    report: str = ""


def held_tasks(view: Transaction) -> list[Task]:
    """The tasks whose work is held, by id."""
    found = [*view.tasks.active(Status.CLAIMED), *view.tasks.escalated()]
    return sorted(filter(open_findings, found), key=lambda task: task.id)


def held_work(view: Transaction, team: Team, events_of: EventsOf, who: Actor) -> list[HeldWork]:
    """The held work that somebody may settle, with the findings in reach, the oldest first."""
    found = [_in_reach(work_of(view, team, task, events_of(task.id), who)) for task in held_tasks(view)]
    return sorted((one for one in found if one.findings), key=lambda one: (one.since, one.task_id))


def _in_reach(work: HeldWork) -> HeldWork:
    return replace(work, findings=tuple(one for one in work.findings if one.accept))


def work_of(view: Transaction, team: Team, task: Task, events: Iterable[e.Event], who: Actor) -> HeldWork:
    """Everything that is held of a task, with commands for the findings that somebody may settle."""
    team = team.as_known(Family(view).names(task))
    actor = team.actor(who.name, confined=who.confined)
    hold = _hold(task, events)
    described = dict(_described(hold.verdict)) if hold else {}
    names, findings = settlers(task, team), open_findings(task)
    reached = set(acceptable(task, findings, actor))
    return HeldWork(
        task_id=task.id,
        label=task.label,
        title=task.title,
        agent=hold.agent if hold else task.claim.agent if task.claim else "",
        commit=task.gating.commit,
        since=hold.ts if hold else "",
        report=hold.verdict.report_name if hold else "",
        settlers=names,
        override="" if names else override_command(task),
        findings=tuple(
            _finding(task, name, described.get(name), actor if name in reached else None) for name in findings
        ),
    )


def _hold(task: Task, events: Iterable[e.Event]) -> e.GateHeld | None:
    """The verdict by which the task's work is held now."""
    gating = task.gating
    found = [
        event
        for event in events
        if isinstance(event, e.GateHeld)
        and (event.handoff_id, event.verdict.commit) == (gating.handoff_id, gating.commit)
        and event.verdict.suspicions == gating.held
    ]
    return found[-1] if found else None


def _described(verdict: Verdict) -> Iterator[tuple[str, GateFinding]]:
    for gate in reversed(verdict.gates):
        yield from reversed(gate.held)


def _finding(task: Task, name: str, found: GateFinding | None, actor: Actor | None) -> HeldFinding:
    """A finding of the task, with the commands for an actor that may settle it."""
    known = found or GateFinding()
    return HeldFinding(
        finding=name,
        path=line(redacted(known.path)),
        line=known.line,
        code=line(redacted(known.code)),
        text=line(redacted(known.text.removesuffix(f"[{name}]"))),
        accept=settle_command(task, name, actor) if actor else "",
        refuse=settle_command(task, name, actor, is_accepted=False) if actor else "",
    )


def held_questions(view: Transaction, team: Team, events_of: EventsOf, who: Actor) -> Iterator[HeldQuestion]:
    """The held findings that somebody may settle, each as a question.

    A rejected change that was handed in again is a question of its task already. Where nobody may settle what is held,
    the user is asked to let it pass.
    """
    for task in held_tasks(view):
        if task.open_escalation is not None:
            continue
        work = work_of(view, team, task, events_of(task.id), who)
        yield from (_question(work, one) for one in _in_reach(work).findings)
        if who.is_user and not work.settlers:
            yield _question_to_its_author(work)


def question_id(task_id: str, finding: str) -> str:
    """The id under which a held finding is asked about."""
    return f"{task_id}/{finding}"


def _question(work: HeldWork, one: HeldFinding) -> HeldQuestion:
    label = work.label[:1].upper() + work.label[1:]
    numbered = ", ".join(f"{number}) {option.text}" for number, option in enumerate(HELD_OPTIONS, start=1))
    why = f"{label} is held: `{one.accept}` accepts this finding in {work.agent}'s work: {one.place}"
    return HeldQuestion(
        escalation_id=question_id(work.task_id, one.finding),
        task_id=work.task_id,
        title=work.title,
        kind=KIND,
        question=f"{why.rstrip(' :.')}. Options: {numbered}.",
        options=HELD_OPTIONS,
        deadline="",
        default=WAIT,
        since=work.since,
        agent=work.agent,
        finding=one.finding,
        path=one.path,
        line=one.line,
        accept=one.accept,
        refuse=one.refuse,
        report=work.report,
    )


def _question_to_its_author(work: HeldWork) -> HeldQuestion:
    first = work.findings[0]
    why = (
        f"{held_count(len(work.findings))} in {work.agent}'s work on {work.label}, and nobody else may settle this. "
        f"`{work.override}` lets it pass. The first: {first.finding}: {first.place}"
    )
    return HeldQuestion(
        escalation_id=question_id(work.task_id, first.finding),
        task_id=work.task_id,
        title=work.title,
        kind=KIND,
        question=f"{why.rstrip(' :.')}. Options: none.",
        options=(),
        deadline="",
        default=WAIT,
        since=work.since,
        agent=work.agent,
        finding=first.finding,
        report=work.report,
    )


def settle_ask(task_id: str, finding: str, key: str, reason: str) -> c.SettleFinding:
    """The ask that settles a finding by the key of an option."""
    if key not in (ACCEPT, REFUSE):
        raise Refused("bad_value", f"There is no option {key[:80]!r}; choose one of {ACCEPT}, {REFUSE}.")
    return c.SettleFinding(task_id=task_id, finding=finding, is_accepted=key == ACCEPT, reason=reason)
