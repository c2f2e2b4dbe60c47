"""Questions and alerts for the user: the text, the possible answers, and earlier attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from remand.app.tasks.lookup import Lineage, lockout_facts
from remand.domain.access.team import Actor, Role, Team
from remand.domain.decisions.escalations import (
    FIX,
    REASSIGN,
    REOPEN,
    UNLOCK,
    WONTFIX,
    EscalationOption,
    escalation_options,
    number_options,
    startable_options,
)
from remand.domain.decisions.findings import open_findings, settle_command
from remand.domain.decisions.handoffs import remaining_agents
from remand.domain.decisions.notices import describe_takeover, open_alert
from remand.domain.events.event import Event
from remand.domain.events.reviews import ReviewRejected, first_blocking
from remand.domain.events.tasks import HandoffRejected, HandoffRejectionInvalid, TaskFailed, record_of
from remand.domain.events.work import GateErrored, GateRejected
from remand.domain.facts import Facts, TeamFacts
from remand.domain.gate.state import find_outages
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.task import Status, Task
from remand.domain.text.words import capitalize_first, single_line, times_text
from remand.ledger.store import Transaction

WAIT = "wait"
"""Without an answer, the question is only repeated. No default releases or closes work."""
MAX_TRIED = 20


MAX_CAUSES = 2000

EventsOf = Callable[[str], Iterable[Event]]


class Question(Record, kw_only=True, omit_defaults=False):
    """A question that waits for the user."""

    escalation_id: str
    task_id: str
    title: str
    kind: str
    question: str
    options: tuple[EscalationOption, ...]
    deadline: Instant
    """When the user is notified again."""
    default: str = WAIT
    tried: tuple[str, ...] = ()
    """Earlier attempts and why they failed, one line each."""
    since: Instant
    repeats: int = 0
    is_delivered: bool = False
    """Whether a channel has received the notice since the last reminder."""
    acknowledged_by: str = ""


NOBODY: Mapping[str, str] = MappingProxyType({})
"""No unstartable members."""


def open_escalations(
    view: Transaction,
    team: Team,
    events_of: EventsOf,
    unable: Mapping[str, str] = NOBODY,
    tasks: Iterable[Task] | None = None,
) -> list[Question]:
    """All open questions, or those of the given tasks, oldest first."""
    tasks = view.task_lists.with_status(Status.ESCALATED) if tasks is None else tasks
    questions = [
        escalation_question(view, team, task, events_of, unable)
        for task in tasks
        if task.status is Status.ESCALATED
    ]
    return sorted(questions, key=lambda question: (question.since, question.task_id))


def escalation_question(
    view: Transaction, team: Team, task: Task, events_of: EventsOf, unable: Mapping[str, str] = NOBODY
) -> Question:
    """The question of an escalated task. Unstartable members are not offered, and the reasons are given."""
    escalation, options = task.inbox.escalation, answer_options(view, team, task)
    offered = startable_options(options, unable)
    if escalation is None:
        raise AssertionError(f"{task.id} asks nothing")
    return Question(
        escalation_id=escalation.id,
        task_id=task.id,
        title=task.title,
        kind=escalation.kind,
        question=question_text(task, offered, missing_text(options, offered, unable)),
        options=offered,
        deadline=escalation.deadline,
        tried=attempt_lines(task, events_of(task.id)),
        since=escalation.opened_at,
        repeats=escalation.repeats,
        is_delivered=bool(escalation.notified),
        acknowledged_by=escalation.acknowledged_by,
    )


def missing_text(
    options: Sequence[EscalationOption], offered: Sequence[EscalationOption], unable: Mapping[str, str]
) -> str:
    """Sentences that say whom the task is not offered to, and why; empty when it is offered to everybody."""
    keys = {option.key for option in offered}
    names = [option.key.partition(":")[2] for option in options if option.key not in keys]
    return "".join(f" {name} cannot be started: {single_line(unable[name]).rstrip('.')}." for name in names)


def find_task_by_question(view: Transaction, escalation_id: str) -> Task | None:
    """The task that asked a question, open or not: those that wait are looked at first."""
    tasks = chain(view.task_lists.pages.waiting_tasks(), view.tasks.every())
    return next(
        (task for task in tasks if task.inbox.escalation and task.inbox.escalation.id == escalation_id), None
    )


def answer_options(view: Transaction, team: Team, task: Task) -> tuple[EscalationOption, ...]:
    """The user's possible decisions on a task, in the order of their numbers."""
    inherited = Lineage(view).inherited_lockouts(task) if task.links.parent else ()
    return escalation_options(
        task, eligible_team_agents(view, team, task), inherited, has_team=team.has_members
    )


def eligible_team_agents(view: Transaction, team: Team, task: Task) -> list[Actor]:
    """The team's agents that may work on a task, by the names the task knows."""
    team = team.with_task_names(Lineage(view).participant_names(task))
    members = [team.actor(member.name) for member in team.members]
    agents = tuple(actor for actor in members if Role.AGENT in actor.roles)
    facts = Facts(team=TeamFacts(agents=agents), lockouts=lockout_facts(view, team, task))
    return remaining_agents(task, facts)


def question_text(task: Task, offered: Sequence[EscalationOption], missing: str = "") -> str:
    """The question with its numbered options and what is missing."""
    numbered = []
    for number, option in number_options(offered):
        choice, _, name = option.key.partition(":")
        # The requirements prescribe this wording.
        text = {
            FIX: "Manual fix",
            UNLOCK: f"Unlock {name} and provide guidance",
            REASSIGN: f"Reassign to {name}",
            REOPEN: "Put it back into the queue",
            WONTFIX: "Close as won't-fix",
        }.get(choice, option.text)
        numbered.append(f"{number}) {text}")
    return f"{_escalation_reason(task)}{missing} Options: {', '.join(numbered)}."


def _escalation_reason(task: Task) -> str:
    """Why the task cannot continue without the user."""
    label, escalation = task.label, task.inbox.escalation
    times, kind = len(task.standing_rounds), escalation.kind if escalation else ""
    reason = escalation.reason if escalation else ""
    rejected = f"{capitalize_first(label)} rejected {times_text(times)}. Need guidance or manual fix."
    match kind:
        case "deadlock":
            who = "All agents locked out for" if task.people.lockouts else "No agent is left for"
            return f"{rejected} {who} {label}." if times > 1 else f"{who} {label}."
        case "reviews":
            return rejected
        case "gate":
            return f"{single_line(reason, MAX_CAUSES).rstrip('.')}."
        case _:
            reason = single_line(reason).rstrip(".") or "it was escalated"
            reason += "" if reason.endswith(("?", "!")) else "."
            passes = "".join(f" `{settle_command(task, name)}` lets it pass." for name in open_findings(task))
            return f"{capitalize_first(label)} needs a decision: {reason}{passes}"


def attempt_lines(task: Task, events: Iterable[Event]) -> tuple[str, ...]:
    """Earlier attempts and why they failed, one line each; only the latest if there are very many."""
    reviews = {
        review.id: (review_round.agent, review.is_retracted)
        for review_round in task.reviews.rounds
        for review in review_round.reviews
    }
    lines: list[str] = []
    rejected_claim = ""
    for event in events:
        line = _attempt_line(event, reviews)
        if not line:
            continue
        # Of the gates' rejections of a claim, only the last is listed, with its number.
        if isinstance(event, GateRejected) and lines and rejected_claim == event.handoff_id:
            lines.pop()
        rejected_claim = event.handoff_id if isinstance(event, GateRejected) else ""
        lines.append(single_line(line))
    more = len(lines) - MAX_TRIED
    return (f"and {more} earlier", *lines[-MAX_TRIED:]) if more > 0 else tuple(lines)


def _attempt_line(event: Event, reviews: dict[str, tuple[str, bool]]) -> str:
    """An event's line in the list of attempts; empty if it has none."""
    match event:
        case ReviewRejected():
            agent, is_retracted = reviews.get(event.review_id or event.meta.origin, ("", True))
            finding = first_blocking(event.findings)
            place = f"{finding.path}:{finding.line}: " if finding and finding.line else ""
            place = f"{finding.path}: " if finding and finding.path and not place else place
            text = f"{place}{finding.text}" if finding else "without a finding"
            return "" if is_retracted else f"{event.reviewer} rejected {agent}'s work: {text}"
        case GateRejected():
            gates = [gate for gate in event.verdict.gates if gate.name in event.verdict.blocking_gates]
            missed = event.because or "; ".join(gate.line.removeprefix("- ") for gate in gates)
            return f"the gates rejected {event.agent}'s work {times_text(event.number)}: {missed}"
        case HandoffRejected() | HandoffRejectionInvalid() if not event.is_legacy:
            kind = "rejected the task" if isinstance(event, HandoffRejected) else "rejected it without cause"
            return f"{event.agent} {kind}: {record_of(event).get('reason_summary') or ''}"
        case GateErrored():
            causes = "; ".join(f"{outage.gate}: {outage.text}" for outage in find_outages(event.verdict))
            return f"{event.agent}'s work at {event.verdict.commit[:12]} could not be measured: {causes}"
        case TaskFailed():
            return f"{event.agent} gave up: {event.reason or 'without a reason'}"
        case _:
            return ""


ALERT_KIND = "alert"
ALERT_DEFAULT = "continue"
"""What happens without an answer: the agent continues."""


class AlertQuestion(Question, kw_only=True, omit_defaults=False):
    """An alert about a claim."""

    agent: str
    number: int
    """The number of gate rejections of the claim at that time."""


def alert_questions(
    view: Transaction,
    team: Team,
    tasks: Iterable[Task],
    events_of: EventsOf,
    unable: Mapping[str, str] = NOBODY,
) -> Iterator[AlertQuestion]:
    """The alerts about claimed tasks, each with earlier attempts and possible actions."""
    for task in tasks:
        alert = open_alert(task)
        if alert is None:
            continue
        label, options = task.label[:1].upper() + task.label[1:], answer_options(view, team, task)
        offered = startable_options(options, unable)
        numbered = ", ".join(f"{number}) {option.text}" for number, option in number_options(offered))
        why = (
            f"{label}: {alert_text(alert.agent, alert.number)}, and {alert.agent} continues; "
            f"{describe_takeover(alert.escalate_after)}, you are asked to decide."
            f"{missing_text(options, offered, unable)}"
        )
        yield AlertQuestion(
            escalation_id=alert.id,
            task_id=task.id,
            title=task.title,
            kind=ALERT_KIND,
            question=f"{why} Options: {numbered}.",
            options=offered,
            deadline="",
            default=ALERT_DEFAULT,
            tried=attempt_lines(task, events_of(task.id)),
            since=alert.at,
            is_delivered=bool(alert.notified),
            agent=alert.agent,
            number=alert.number,
        )


def alert_text(agent: str, number: int) -> str:
    return f"The gates rejected {agent}'s work {times_text(number)}"


def find_task_by_alert(view: Transaction, alert_id: str) -> Task | None:
    tasks = view.task_lists.with_status(Status.CLAIMED)
    return next((task for task in tasks if (found := open_alert(task)) and found.id == alert_id), None)
