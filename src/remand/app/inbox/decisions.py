"""Rejected tasks that wait for a person's decision; the whole inbox, and the answers to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from remand.app.events.task_folds import task_events
from remand.app.history.rejections import RejectionView, rejection_facts, task_rejections, value_text
from remand.app.inbox.held_findings import HELD_KIND, HeldQuestion, held_questions, settlement_command
from remand.app.inbox.objections import (
    ObjectionQuestion,
    dismissal_command,
    objection_questions,
)
from remand.app.inbox.questions import (
    ALERT_KIND,
    NOBODY,
    WAIT,
    EventsOf,
    Question,
    alert_questions,
    attempt_lines,
    eligible_team_agents,
    missing_text,
    open_escalations,
)
from remand.app.requests import Rules
from remand.app.tasks.queue import able_directors
from remand.domain import commands as c
from remand.domain.access.team import USER, Actor
from remand.domain.decisions import director
from remand.domain.decisions.escalations import (
    REASSIGN,
    EscalationOption,
    number_options,
    startable_options,
)
from remand.domain.decisions.findings import acceptable_findings, open_findings
from remand.domain.decisions.notices import open_alert
from remand.domain.instant import Instant
from remand.domain.reasons import DecisionType, RejectionReason, parse_reason
from remand.domain.record import NamedTuple
from remand.domain.refusals import require_option
from remand.domain.task import LastRejection, Status, Task
from remand.domain.text.words import flatten, single_line
from remand.ledger.store import Transaction

AnswerCommand = c.AnswerEscalation | c.AnswerRejection | c.SettleFinding | c.DismissObjections
"""The command for an answer."""
DECISION_KIND = "decision"
MAX_GROUND = 2000
MAX_GROUNDS = 60
_FOLLOWS = {
    DecisionType.ACCEPT: "Accept: the task stays blocked until it is reopened",
    DecisionType.ACCEPT_AND_DEFER: "Accept and defer: the task is deferred until what blocks it is done",
    DecisionType.ACCEPT_AND_DECOMPOSE: "Accept and decompose: the proposed sub-tasks replace it",
    DecisionType.ACCEPT_AND_REFORMULATE: "Accept and reformulate: the proposed task replaces it",
}
_OBSOLETE = "Accept: the task is cancelled as obsolete"


class DecisionQuestion(Question, kw_only=True, omit_defaults=False):
    """A rejection of a task that waits for a person; its question id is the rejection's id."""

    agent: str
    """The agent that rejected the task."""
    handoff_id: str
    answer: str
    """The full command that answers it."""
    grounds: tuple[str, ...] = ()
    """The grounds for the decision: what the rejection claims, shows and proposes, one line each."""


def open_questions(
    view: Transaction,
    rules: Rules,
    who: Actor | None = None,
    unable: Mapping[str, str] = NOBODY,
    *,
    tasks: Sequence[Task] | None = None,
) -> list[Question]:
    """Everything that waits for the user, oldest first, then objections, then alerts.

    If `tasks` are given, only their questions, without objections.

    Objections come later whatever their date, because anybody can write them.

    Held findings are included if `who` may settle them. No task is offered to members that cannot be started.
    """
    waiting = view.task_lists.pages.waiting_tasks() if tasks is None else tasks
    events_of = partial(task_events, view, beside=[task.id for task in waiting])
    found = open_escalations(view, rules.team, events_of, unable, waiting)
    found += decision_questions(view, rules, waiting, events_of, unable)
    found += held_questions(view, rules.team, events_of, who or rules.team.actor(USER), waiting)
    alerts = alert_questions(view, rules.team, waiting, events_of, unable)
    return [
        *sorted(found, key=lambda one: (one.since, one.task_id)),
        *(objection_questions(view, rules.policy) if tasks is None else ()),
        *sorted(alerts, key=lambda one: (one.since, one.task_id)),
    ]


class WaitingEntry(NamedTuple):
    """A question of a task, as far as its state alone shows."""

    kind: str
    since: Instant
    task: Task
    number: int = 1
    """The number of questions: one per held finding."""


def waiting_entries(view: Transaction, rules: Rules, who: Actor) -> Iterator[WaitingEntry]:
    """The questions of all waiting tasks, without reading histories. Held findings are those that `who` may settle."""
    for task in view.task_lists.pages.waiting_tasks():
        asked, filed, alert = task.open_escalation, pending_rejection(task), open_alert(task)
        if asked is not None:
            yield WaitingEntry(asked.kind, asked.opened_at, task)
        if filed is not None and _awaits_person(task, rules):
            yield WaitingEntry(DECISION_KIND, _instant_of_id(filed.rejection_id), task)
        held = acceptable_findings(task, open_findings(task), who) if asked is None else ()
        if held:
            yield WaitingEntry(HELD_KIND, task.claim.claimed_at if task.claim else "", task, len(held))
        if alert is not None:
            yield WaitingEntry(ALERT_KIND, alert.at, task)


def _instant_of_id(name: str) -> str:
    """The time encoded in an id such as `R-20261115-090000-…`; the earliest time for any other id."""
    day, time = [*name.split("-"), "", ""][1:3]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}"


def decision_questions(
    view: Transaction,
    rules: Rules,
    blocked: Iterable[Task],
    events_of: EventsOf,
    unable: Mapping[str, str] = NOBODY,
) -> Iterator[DecisionQuestion]:
    """The blocked tasks whose rejection no agent of the team will decide."""
    for task in blocked:
        filed = pending_rejection(task)
        if filed is not None and _awaits_person(task, rules):
            yield decision_question(view, rules, task, filed, events_of, unable=unable)


def _awaits_person(task: Task, rules: Rules) -> bool:
    """True if no agent of the team will decide on a task's rejection."""
    return bool(rules.policy.has_director_command or not able_directors(task, rules.team))


def pending_rejection(task: Task) -> LastRejection | None:
    filed = task.rejections.last_rejection
    return filed if task.status == Status.BLOCKED and filed is not None and filed.is_pending else None


def find_task_by_rejection(view: Transaction, rejection_id: str) -> Task | None:
    tasks = view.task_lists.with_status(Status.BLOCKED)
    return next(
        (
            task
            for task in tasks
            if task.rejections.last_rejection and task.rejections.last_rejection.rejection_id == rejection_id
        ),
        None,
    )


def decision_options(
    view: Transaction, rules: Rules, task: Task, filed: LastRejection
) -> tuple[EscalationOption, ...]:
    """The possible decisions on a rejection that name no further tasks; the automatic director's comes first."""
    reason = parse_reason(filed.reason)
    likely = director.AUTOMATIC[reason] if reason else DecisionType.ACCEPT
    accepted = [likely, *({DecisionType.ACCEPT} - {likely})]
    is_obsolete = reason is RejectionReason.OBSOLETE
    texts = {
        kind.name: _OBSOLETE if is_obsolete and kind is DecisionType.ACCEPT else _FOLLOWS[kind]
        for kind in accepted
    }
    if not task.is_locked_out(filed.agent):
        texts[DecisionType.OVERRIDE.name] = f"Override: {filed.agent} continues it"
    elif filed.is_appealed:
        texts[DecisionType.OVERRIDE.name] = "Override: another agent takes it from the queue"
    for agent in eligible_team_agents(view, rules.team, task):
        if agent.name != filed.agent:
            texts[f"{REASSIGN}:{agent.name}"] = f"Override, and reassign to {agent.name}"
    return tuple(EscalationOption(key=key, text=text) for key, text in texts.items())


def command_for_answer(question: Question, key: str, guidance: str) -> AnswerCommand:
    """The command for an option of a question, with guidance for the agent that continues."""
    if isinstance(question, ObjectionQuestion):
        return dismissal_command(question.task_id, question.signer, key, guidance)
    if isinstance(question, HeldQuestion):
        return settlement_command(question.task_id, question.finding, key, guidance)
    if not isinstance(question, DecisionQuestion):
        return c.AnswerEscalation(
            task_id=question.task_id, escalation_id=question.escalation_id, option=key, guidance=guidance
        )
    offered = [option.key for option in question.options]
    require_option(key, offered, f", or say more: {question.answer}")
    decision, name = decision_for_answer(key)
    is_override = decision == DecisionType.OVERRIDE.name
    return c.AnswerRejection(
        handoff_id=question.handoff_id,
        decision=decision,
        message=guidance if is_override else "",
        rationale="" if is_override else guidance,
        reassign_to=name,
    )


def decision_for_answer(key: str) -> tuple[str, str]:
    """The decision for an option, and who receives the task."""
    choice, _, name = key.partition(":")
    return DecisionType.OVERRIDE.name if choice == REASSIGN else choice, name


def rejection_grounds(found: RejectionView) -> tuple[str, ...]:
    """What a director must know about a rejection, one line each, and the command that shows it in full."""
    facts, record = rejection_facts(found), found.rejection
    growth = facts.scope_growth_factor
    proposed = [
        "; ".join(
            part
            for part in (
                task.title,
                task.scope,
                f"depends on: {task.dependencies}" if task.dependencies else "",
                task.estimate,
            )
            if part
        )
        for task in facts.alternative_tasks
    ]
    rows = (
        ("appeal", found.appeal),
        ("in the way", facts.blocking_factor),
        ("why", value_text(record.get("reason_detail"))),
        *((f"attempt ({attempt.grade})", attempt.text) for attempt in facts.attempts),
        *((f"evidence ({evidence.grade})", evidence.text) for evidence in facts.evidence),
        ("growth", f"{value_text(growth)} times" if growth is not None else ""),
        ("proposed instead", facts.suggested_alternative),
        *(("sub-task", text) for text in proposed),
        *(("issue", issue.message) for issue in facts.issues),
        ("adviser", found.opinion),
    )
    lines = [_ground_line(label, text) for label, text in rows if text]
    if len(lines) > MAX_GROUNDS:
        lines[MAX_GROUNDS:] = [f"[cut: {len(lines) - MAX_GROUNDS} more parts]"]
    return (*lines, f"in full: remand handoff status {found.handoff_id}")


def _ground_line(label: str, text: str) -> str:
    flat = flatten(f"{label}: {text}")
    cut = len(flat) - MAX_GROUND
    return flat if cut <= 0 else f"{flat[:MAX_GROUND]}… [cut: {cut} more characters]"


def decision_question(
    view: Transaction,
    rules: Rules,
    task: Task,
    filed: LastRejection,
    events_of: EventsOf,
    *,
    unable: Mapping[str, str] = NOBODY,
) -> DecisionQuestion:
    events = list(events_of(task.id))
    options = decision_options(view, rules, task, filed)
    offered = startable_options(options, unable)
    found = next(
        (rejection for rejection in task_rejections(events) if rejection.rejection_id == filed.rejection_id),
        None,
    )
    summary = found.rejection.get("reason_summary") if found else ""
    numbered = ", ".join(f"{number}) {option.text}" for number, option in number_options(offered))
    label = task.label[:1].upper() + task.label[1:]
    how = "appeals, as the rules overrode its rejection" if filed.is_appealed else "rejected it"
    why = single_line(
        f"{label} needs a decision: {filed.agent} {how} ({filed.reason}): {summary or ''}"
    ).rstrip(" :.")
    return DecisionQuestion(
        escalation_id=filed.rejection_id,
        task_id=task.id,
        title=task.title,
        kind=DECISION_KIND,
        question=f"{why}.{missing_text(options, offered, unable)} Options: {numbered}.",
        options=offered,
        deadline="",
        default=WAIT,
        tried=attempt_lines(task, events),
        grounds=rejection_grounds(found) if found else (),
        since=found.at if found else "",
        agent=filed.agent,
        handoff_id=filed.handoff_id,
        answer=f"remand handoff rejection-response {filed.handoff_id} --decision DECISION",
    )
