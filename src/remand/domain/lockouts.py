"""What may be decided about lockouts and reassignments."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain import escalations
from remand.domain import events as e
from remand.domain import rules as r
from remand.domain.refusals import Refused
from remand.domain.staffing import left, passed_on
from remand.domain.task import CLAIMABLE, TERMINAL, Cause, Status, Task

Events = tuple[e.Event, ...]


def lock_out(task: Task, ask: c.LockOut, command: c.Command) -> Events:
    """Keeps an agent away from the task; with nobody left for it, the user is asked."""
    r.require_names(ask.agent)
    r.require_text("reason", ask.reason, may_be_empty=False)
    r.require_disinterested(task, command.actor)
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status}; nobody works on it any more.")
    if any(lockout.agent == ask.agent and Cause() in lockout.causes for lockout in task.lockouts):
        return ()
    lockout = e.LockoutSet(task_id=task.id, agent=ask.agent, reason=ask.reason)
    is_free = task.status in CLAIMABLE or (task.claim is not None and task.claim.agent == ask.agent)
    return (lockout, *(escalations.deadlock(task, command, without=(ask.agent,)) if is_free else ()))


def unlock(task: Task, ask: c.Unlock, command: c.Command) -> Events:
    """Lets an agent work on the task again; on an escalated task that is the answer.

    What was reserved for a colleague and nobody has taken yet is free: the user wants this agent to go on.
    """
    r.require_text("reason", ask.reason, may_be_empty=False)
    r.require_text("guidance", ask.guidance)
    cleared = escalations.cleared(task, ask.agent, ask.reason, ask.guidance, command)
    answered = escalations.answered_by(task, f"unlock:{ask.agent}", command)
    if not answered:
        others = (offer for offer in task.offers if offer.target != ask.agent)
        freed = (e.HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id) for offer in others)
        return (*cleared, *freed)
    return (*cleared, *answered, *escalations.reserved(task, ask.agent, command))


def reassign(task: Task, ask: c.ReassignTask, command: c.Command) -> Events:
    """Lets another agent go on. Who had the task keeps its lockout."""
    facts = command.facts
    r.require_names(ask.source, ask.target)
    r.require_text("reason", ask.reason)
    r.require_disinterested(task, command.actor)
    if facts.target is None:
        raise Refused("bad_value", "Say to whom the task goes.")
    if task.status not in CLAIMABLE | {Status.CLAIMED, Status.ESCALATED}:
        raise Refused(
            "bad_transition", f"Task {task.id} is {task.status}; it cannot be reassigned from there."
        )
    had = task.claim.agent if task.claim else (task.submission.agent if task.submission else "")
    is_reserved = any(offer.target == ask.source for offer in task.offers)
    is_free_to_name = task.claim is None and (is_reserved or task.is_locked_out(ask.source))
    if ask.source and ask.source != had and not is_free_to_name:
        raise Refused("bad_value", f"{ask.source} does not have {task.label}; {had or 'nobody'} had it last.")
    if task.claim is not None and task.claim.agent == facts.target.name:
        return ()
    r.require_may_work(task, facts.target, facts)
    if facts.open_blockers:
        raise Refused("waits_on_other", f"Task {task.id} waits for {', '.join(facts.open_blockers)}.")
    answered = escalations.answered_by(task, f"reassign:{facts.target.name}", command)
    is_last = facts.has_team and not left(task, facts, without=(facts.target.name,))
    why = ask.reason or f"by {command.actor.name}"
    return (
        *answered,
        *passed_on(task, facts.target, command, source=ask.source or had, why=why, is_last=is_last),
    )
