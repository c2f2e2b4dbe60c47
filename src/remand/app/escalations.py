"""The questions that wait for the user: what is asked, how it may be answered, and what was tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from remand.app.family import Family
from remand.app.people import may_be_locked_out
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.escalations import FIX, REASSIGN, REOPEN, UNLOCK, WONTFIX, Option, options
from remand.domain.gates.outages import outages_of
from remand.domain.holds import open_findings, settle_command
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.roles import Actor, Role, Team
from remand.domain.staffing import left
from remand.domain.task import Task
from remand.domain.visible import visible
from remand.ledger.store import Transaction

WAIT = "wait"
"""What happens without an answer: nothing but being asked again. No default releases or closes work."""
MAX_TRIED = 20
MAX_LINE = 200
MAX_CAUSES = 2000

EventsOf = Callable[[str], Iterable[e.Event]]


class Question(Record, kw_only=True, omit_defaults=False):
    """A question that waits for the user."""

    escalation_id: str
    task_id: str
    title: str
    kind: str
    question: str
    options: tuple[Option, ...]
    deadline: Instant
    """When the user is told again."""
    default: str = WAIT
    tried: tuple[str, ...] = ()
    """What was tried by whom, and why it did not do: one line each."""
    since: Instant
    repeats: int = 0
    is_delivered: bool = False
    """True when a channel took the notice since it was last repeated."""
    acknowledged_by: str = ""


def open_escalations(view: Transaction, team: Team, events_of: EventsOf) -> list[Question]:
    """Every open question, the oldest first."""
    found = [question_of(view, team, task, events_of) for task in view.tasks.escalated()]
    return sorted(found, key=lambda asked: (asked.since, asked.task_id))


def question_of(view: Transaction, team: Team, task: Task, events_of: EventsOf) -> Question:
    """What an escalated task asks."""
    escalation, offered = task.escalation, ways(view, team, task)
    if escalation is None:
        raise AssertionError(f"{task.id} asks nothing")
    return Question(
        escalation_id=escalation.id,
        task_id=task.id,
        title=task.title,
        kind=escalation.kind,
        question=question(task, offered),
        options=offered,
        deadline=escalation.deadline,
        tried=tried(task, events_of(task.id)),
        since=escalation.opened_at,
        repeats=escalation.repeats,
        is_delivered=bool(escalation.notified),
        acknowledged_by=escalation.acknowledged_by,
    )


def asked_under(view: Transaction, escalation_id: str) -> Task | None:
    """The task whose last question has that id, open or not."""
    tasks = view.tasks.every()
    return next((task for task in tasks if task.escalation and task.escalation.id == escalation_id), None)


def ways(view: Transaction, team: Team, task: Task) -> tuple[Option, ...]:
    """How the user may decide a task, in the order in which the options are numbered."""
    inherited = Family(view).inherited(task) if task.parent else ()
    return options(task, able(view, team, task), inherited, has_team=team.has_members)


def able(view: Transaction, team: Team, task: Task) -> list[Actor]:
    """The agents of the team that may work on a task, by the names that it knows them by."""
    team = team.as_known(Family(view).names(task))
    members = [team.actor(member.name) for member in team.members]
    agents = tuple(actor for actor in members if Role.AGENT in actor.roles)
    inherited = Family(view).inherited(task) if task.parent else ()
    unsure = may_be_locked_out(view, team, task)
    return left(task, c.Facts(agents=agents, inherited=inherited, may_be=unsure))


def question(task: Task, offered: Sequence[Option]) -> str:
    """What the user is asked, with the ways to decide it, numbered as they may be answered."""
    numbered = ", ".join(f"{number}) {_short(option)}" for number, option in enumerate(offered, start=1))
    return f"{_why(task)} Options: {numbered}."


def _why(task: Task) -> str:
    """Why the task cannot go on by itself."""
    label, escalation = task.label, task.escalation
    times, kind = len(task.standing_rounds), escalation.kind if escalation else ""
    rejected = f"{_capital(label)} rejected {often(times)}. Need guidance or manual fix."
    match kind:
        case "deadlock":
            stuck = (
                f"All agents locked out for {label}." if task.lockouts else f"No agent is left for {label}."
            )
            return f"{rejected} {stuck}" if times > 1 else stuck
        case "reviews":
            return rejected
        case "gate":
            return f"{line(escalation.reason if escalation else '', MAX_CAUSES).rstrip('.')}."
        case _:
            reason = line(escalation.reason if escalation else "").rstrip(".")
            passes = "".join(f" `{settle_command(task, one)}` lets it pass." for one in open_findings(task))
            return f"{_capital(label)} needs a decision: {reason or 'it was escalated'}.{passes}"


def _short(option: Option) -> str:
    """An option in the requirement's words."""
    choice, _, name = option.key.partition(":")
    return {
        FIX: "Manual fix",
        UNLOCK: f"Unlock {name} and provide guidance",
        REASSIGN: f"Reassign to {name}",
        REOPEN: "Put it back into the queue",
        WONTFIX: "Close as won't-fix",
    }.get(choice, option.text)


def often(times: int) -> str:
    """A number of times in words."""
    return {1: "once", 2: "twice"}.get(times, f"{times} times")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def tried(task: Task, events: Iterable[e.Event]) -> tuple[str, ...]:
    """What was tried by whom and why it did not do, one line each; of very much, the latest."""
    reviews = {review.id: (one.agent, review.is_retracted) for one in task.rounds for review in one.reviews}
    found: list[tuple[str, str]] = []
    for event in events:
        said = _said(event, reviews)
        if said is None:
            continue
        if isinstance(event, e.GateRejected) and found and found[-1][0] == event.handoff_id:
            found.pop()
        found.append(said)
    lines = [text for _, text in found]
    more = len(lines) - MAX_TRIED
    return (f"and {more} earlier", *lines[-MAX_TRIED:]) if more > 0 else tuple(lines)


def _said(event: e.Event, reviews: dict[str, tuple[str, bool]]) -> tuple[str, str] | None:
    """What an event adds to the list of what was tried: under which claim, and the line; None for nothing.

    Of the gates' rejections of one claim only the last is listed, with its number.
    """
    match event:
        case e.ReviewRejected():
            agent, is_retracted = reviews.get(event.review_id or event.meta.origin, ("", True))
            if is_retracted:
                return None
            return "", line(f"{event.reviewer} rejected {agent}'s work: {_first(event.findings)}")
        case e.GateRejected():
            return event.handoff_id, line(
                f"the gates rejected {event.agent}'s work {often(event.number)}: {_missed(event)}"
            )
        case e.HandoffRejected() | e.HandoffRejectionInvalid() if not event.is_legacy:
            kind = (
                "rejected the task" if isinstance(event, e.HandoffRejected) else "rejected it without cause"
            )
            return "", line(f"{event.agent} {kind}: {e.record_of(event).get('reason_summary') or ''}")
        case e.GateErrored():
            causes = "; ".join(f"{one.gate}: {one.text}" for one in outages_of(event.verdict))
            return "", line(
                f"{event.agent}'s work at {event.verdict.commit[:12]} could not be measured: {causes}"
            )
        case e.TaskFailed():
            return "", line(f"{event.agent} gave up: {event.reason or 'without a reason'}")
        case _:
            return None


def _missed(event: e.GateRejected) -> str:
    """What stood in the way, as the gates measured it."""
    gates = [gate for gate in event.verdict.gates if gate.name in event.verdict.standing]
    return event.because or "; ".join(gate.line.removeprefix("- ") for gate in gates)


def _first(findings: Sequence[e.Finding]) -> str:
    """The first blocking finding, with its place."""
    found = next((finding for finding in findings if finding.is_blocking), None)
    if found is None:
        return "without a finding"
    where = f"{found.path}:{found.line}: " if found.line else f"{found.path}: " if found.path else ""
    return f"{where}{found.text}"


def line(text: str, limit: int = MAX_LINE) -> str:
    """Text of others on one line, with nothing hidden in it and not too long."""
    flat = " ".join(visible(text).split())
    return flat if len(flat) <= limit else f"{flat[: limit - 1]}…"
