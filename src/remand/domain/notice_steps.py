"""What follows from events about what the user is told without being asked: alerts, and overrides in their name."""

from __future__ import annotations

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.gates.standing import Alert
from remand.domain.notices import MAX_NOTICES, notice, open_alert
from remand.domain.task import Task


def alerted(task: Task, event: e.GateAlerted) -> Task:
    """Keeps the alert about the claim that holds."""
    if task.claim is None or not event.handoff_id or task.claim.handoff_id != event.handoff_id:
        return task
    found = Alert(
        id=f"A-{event.meta.origin[:12]}",
        handoff_id=event.handoff_id,
        agent=event.agent,
        number=event.number,
        alert_after=event.alert_after,
        escalate_after=event.escalate_after,
        at=event.ts,
    )
    return _with_alert(task, found)


def noted(task: Task, event: e.Event) -> Task:
    """Keeps what the user has to be told of an event."""
    found = notice(event)
    if found is None or any(one.id == found.id for one in task.notices):
        return task
    return replace(task, notices=(*task.notices, found)[-MAX_NOTICES:])


def notified(task: Task, event: e.EscalationNotified) -> Task:
    """Notes that a channel took an alert, or an override, which is forgotten with the last channel."""
    found = open_alert(task)
    if found is not None and found.id == event.escalation_id:
        return _with_alert(task, replace(found, notified=_with(found.notified, event.channel)))
    left = tuple(
        replace(one, notified=_with(one.notified, event.channel)) if one.id == event.escalation_id else one
        for one in task.notices
        if one.id != event.escalation_id or not event.is_last
    )
    return task if left == task.notices else replace(task, notices=left)


def acknowledged(task: Task, event: e.EscalationAcknowledged) -> Task:
    found = open_alert(task)
    if found is None or found.id != event.escalation_id:
        return task
    return _with_alert(task, replace(found, acknowledged_by=event.meta.actor or "somebody"))


def answered(task: Task, event: e.EscalationAnswered) -> Task | None:
    """The task that the user took from its agent on an alert; None when the answer is about no alert."""
    found = open_alert(task)
    if found is None or found.id != event.escalation_id:
        return None
    return replace(
        task,
        status=task.queue,
        claim=None,
        waiting_for="",
        offers=(),
        feedback=task.feedback + bool(event.guidance),
        gating=replace(task.gating, alert=None),
    )


def _with_alert(task: Task, found: Alert) -> Task:
    return replace(task, gating=replace(task.gating, alert=found))


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)
