"""What can be undone: the facts that the rules need, and what a page may offer by the same rules."""

from __future__ import annotations

from collections.abc import Sequence

from remand.app.events.task_folds import task_events
from remand.domain import commands as c
from remand.domain.access.team import Actor
from remand.domain.decide import decide
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.reviews import EscalationAnswered
from remand.domain.events.tasks import RejectionAnswered, TaskCancelled
from remand.domain.events.work import ActDone, ActIntended, FindingAccepted
from remand.domain.evolve import ANSWERS, command_end, last_answer, replay
from remand.domain.facts import Facts, OwnDecision, UndoFacts
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task
from remand.ledger import codec
from remand.ledger.store import Transaction

MAX_DEPENDENTS = 200
MAX_EVENTS = 2000
"""How many events are searched for one command."""
_AT_WORK = frozenset({Status.CLAIMED, Status.PROVISIONAL, Status.DONE})


class PossibleUndo(NamedTuple):
    """The command that undoes the last decision about a task."""

    command: str
    task_id: str
    what: str
    at: Instant


def undo_facts(view: Transaction, task: Task) -> UndoFacts:
    """What can be undone for a task; nothing if its events here do not explain its state."""
    events = task_events(view, task.id)
    if replay(events) != task:
        return UndoFacts()
    return UndoFacts(
        answer=_find_answer(view, task, events),
        cancellation=_find_cancellation(task, events),
        dependents=_dependents(view, task) if task.is_terminal else (),
    )


def undo_of_task(view: Transaction, task: Task, actor: Actor) -> PossibleUndo | None:
    """What a member could undo for a task now, as the rules would decide."""
    facts = Facts(undo=undo_facts(view, task))
    own_decision = facts.undo.answer or facts.undo.cancellation
    if own_decision is None:
        return None
    tries: tuple[tuple[str, c.TaskCommand, OwnDecision | None], ...] = (
        ("inbox retract", c.RetractAnswer(task_id=task.id), facts.undo.answer),
        ("task reopen", c.ReopenTask(task_id=task.id), facts.undo.cancellation),
    )
    for name, command, decision in tries:
        context = c.CommandContext(command=command, actor=actor, at="", facts=facts)
        if decision is not None and not isinstance(decide(task, context), Refused):
            return PossibleUndo(name, task.id, decision.option, decision.at)
    return None


def may_retract_review(task: Task, review_id: str, actor: Actor) -> bool:
    """True if the rules would let a member retract that rejection of the task."""
    command = c.RetractReview(task_id=task.id, review_id=review_id, reason="undo")
    return not isinstance(decide(task, c.CommandContext(command=command, actor=actor, at="")), Refused)


def _find_answer(view: Transaction, task: Task, events: Sequence[Event]) -> OwnDecision | None:
    found = last_answer(events)
    answer = next((event for event in found if isinstance(event, ANSWERS)), None)
    if answer is None:
        return None
    session, last = end = command_end(answer)
    lines = view.events.lines(session, max(1, last - MAX_EVENTS), last)
    others = (event for event in map(codec.decode_stored_line, lines) if command_end(event) == end)
    named = dict.fromkeys(event_task_id(event) for event in others)
    return OwnDecision(
        id=answer.meta.origin,
        by=answer.meta.actor,
        at=answer.ts,
        option=_answer_text(answer),
        changed=tuple(name for name in named if name not in ("", task.id)),
    )


def _answer_text(answer: Event) -> str:
    match answer:
        case EscalationAnswered():
            return answer.option
        case RejectionAnswered():
            return answer.decision.decision_type
        case _:
            return "accept" if isinstance(answer, FindingAccepted) else "refuse"


def _find_cancellation(task: Task, events: Sequence[Event]) -> OwnDecision | None:
    """The last cancellation, if a member gave it and no other task replaced this one."""
    at = max((place for place, event in enumerate(events) if isinstance(event, TaskCancelled)), default=-1)
    if task.status is not Status.CANCELLED or at < 0:
        return None
    event, before = events[at], replay(events[:at])
    if not isinstance(event, TaskCancelled) or event.rejection_id or event.superseded_by:
        return None
    if before is None or before.is_terminal or before.status is Status.DECOMPOSED:
        return None
    return OwnDecision(
        id=event.meta.origin,
        by=event.meta.actor,
        at=event.ts,
        option="cancel",
        was_under_review=before.status is Status.PROVISIONAL,
        has_forge_action=any(isinstance(one, ActIntended | ActDone) for one in events[at:]),
    )


def _dependents(view: Transaction, task: Task) -> tuple[str, ...]:
    """The tasks that proceeded because this one ended: in progress or done since, or closed with their last part."""
    return tuple(
        one.id
        for one in view.dependencies.predecessors(task.id, MAX_DEPENDENTS)
        if one.status in _AT_WORK or (task.id in one.links.children and one.is_terminal)
    )
