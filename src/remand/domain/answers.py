"""What a director may answer to a rejection, and what follows from it for this and other tasks."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import director, ids
from remand.domain import events as e
from remand.domain import handoffs as h
from remand.domain import rules as r
from remand.domain.filed import Filed
from remand.domain.instant import plus
from remand.domain.reasons import DecisionType, RejectionReason, decision_named
from remand.domain.refusals import Refused
from remand.domain.rejection import TaskRejection
from remand.domain.task import Status, Task

Events = tuple[e.Event, ...]


def context(task: Task) -> dict[str, Any]:
    """What a rejection is held against: the task as it is written down."""
    return {
        "id": task.id,
        "title": task.title,
        "scope": task.scope,
        "priority": str(task.priority),
        "category": task.category,
    }


def respond(task: Task, ask: c.AnswerRejection, command: c.Command) -> Events:
    """Answers the last rejection of a task, also one that was overridden while the agent still has it."""
    filed = _require_answerable(task, ask, command)
    decision = decision_named(ask.decision)
    if decision is None:
        names = ", ".join(DecisionType.__members__)
        raise Refused("bad_value", f"There is no decision {ask.decision[:80]!r}; use one of {names}.")
    r.require_text("rationale", ask.rationale)
    r.require_text("message", ask.message)
    r.require_names(ask.reassign_to)
    r.require_known(command.facts)
    r.require_no_cycle(command.facts)
    record = TaskRejection.from_dict({"rejected_at": command.at, **command.facts.rejection})
    if decision is DecisionType.OVERRIDE:
        return _sent_back(task, filed, record, ask, command)
    return accepted(task, record, decision, ask, command)


def _require_answerable(task: Task, ask: c.AnswerRejection, command: c.Command) -> Filed:
    filed = task.filed
    if filed is None or filed.handoff_id != ask.handoff_id:
        raise Refused(
            "nothing_to_answer", f"No rejection of the handoff {ask.handoff_id} waits for an answer."
        )
    if filed.agent == command.actor.name:
        raise Refused("own_work", f"{filed.agent} filed this rejection and cannot answer it.")
    if filed.decision and filed.decision != DecisionType.OVERRIDE.name:
        raise Refused("nothing_to_answer", f"That rejection was answered already, by {filed.decision}.")
    is_waiting = not filed.decision and task.status == Status.BLOCKED
    if not is_waiting and not task.is_held_under(filed.handoff_id, filed.agent):
        raise Refused(
            "handoff_closed", f"{filed.agent} does not have the handoff {filed.handoff_id} any more."
        )
    return filed


def _sent_back(
    task: Task, filed: Filed, record: TaskRejection, ask: c.AnswerRejection, command: c.Command
) -> Events:
    """The director's own override: back to the agent, or on to another."""
    facts = command.facts
    if ask.created_tasks:
        raise Refused("bad_value", "An override creates no tasks. Leave out --created-tasks.")
    other = facts.target.name if facts.target is not None and facts.target.name != filed.agent else ""
    if other and facts.target is not None:
        _require_takeover(task, filed, command)
    if not other and task.is_locked_out(filed.agent):
        raise Refused("locked_out", f"{filed.agent} may not go on with task {task.id}. Use --reassign-to.")
    message = ask.message or "The director does not accept the rejection. Go on with the task."
    answer = e.RejectionAnswered(
        task_id=task.id,
        handoff_id=filed.handoff_id,
        rejection_id=filed.rejection_id,
        decision=e.Decision(
            decision_type=DecisionType.OVERRIDE.name,
            rejection=record.to_dict(),
            rationale=ask.rationale or director.refusal_rationale(record),
            override_message=message,
            reassign_to=other or filed.agent,
        ),
    )
    if other:
        offer = h.offered(task, other, facts.fresh_handoff_id, command, message)
        return (answer, *_ended(task, "passed on"), replace(offer, rejection_id=filed.rejection_id))
    if task.status != Status.BLOCKED:
        return (answer,)
    if not filed.was_claimed:
        offer = h.offered(task, filed.agent, filed.handoff_id, command, message)
        return (answer, *_ended(task, message[:200]), replace(offer, rejection_id=filed.rejection_id))
    until = plus(command.at, facts.lease_seconds)
    return (
        answer,
        e.HandoffResumed(
            task_id=task.id, handoff_id=filed.handoff_id, agent=filed.agent, lease_expires_at=until
        ),
    )


def _require_takeover(task: Task, filed: Filed, command: c.Command) -> None:
    """Refuses to pass the task to an agent that may not have it."""
    target = command.facts.target
    if target is None:
        return
    r.require_may_work(task, target, command.facts)


def _ended(task: Task, reason: str) -> Events:
    """Brings the task back to its queue: ends the claim or offer that is still there, or the wait."""
    if task.status == Status.BLOCKED:
        name = task.filed.rejection_id if task.filed else ""
        return (e.TaskReopened(task_id=task.id, reason=reason, rejection_id=name),)
    lapsed = tuple(e.HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id) for offer in task.offers)
    claim = task.claim
    if claim is None:
        return lapsed
    released = e.TaskReleased(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=reason)
    return (*lapsed, released)


def accepted(
    task: Task,
    record: TaskRejection,
    decision: DecisionType,
    ask: c.AnswerRejection | None,
    command: c.Command,
) -> Events:
    """The answer to a rejection that is accepted, and what follows for this and other tasks."""
    facts = command.facts
    given = tuple(dict.fromkeys(ask.created_tasks)) if ask else ()
    drawn = director.plan(decision, record, context(task), facts.world)
    if facts.joins and ask is None and drawn.sketches and drawn.link in ("BLOCKS", "DEPENDS_ON"):
        drawn = drawn.with_existing(facts.joins)
    if given:
        drawn = drawn.with_existing(given)
    _require_enough(task, drawn, given, command)
    created = given or facts.fresh_task_ids[: len(drawn.sketches)]
    is_deferred = decision is DecisionType.ACCEPT_AND_DEFER
    answer = e.RejectionAnswered(
        task_id=task.id,
        handoff_id=record.handoff_id,
        rejection_id=facts.fresh_rejection_id or (task.filed.rejection_id if task.filed else ""),
        decision=e.Decision(
            decision_type=decision.name,
            rejection=record.to_dict(),
            rationale=(ask.rationale if ask else "") or drawn.rationale(created),
            override_message=ask.message if ask else "",
            created_tasks=created,
            deferred_task=task.id if is_deferred else "",
        ),
        director="" if ask else "auto",
    )
    made = _made(task, drawn, facts.fresh_task_ids)
    if given and drawn.link == "REFINES":
        made = tuple(lockout for name in given for lockout in _inherited(task, name))
    outcome = _outcome(task, record, drawn, created)
    named = tuple(replace(event, rejection_id=answer.rejection_id) for event in outcome)
    return (answer, *made, *_links(task, drawn, created), *named)


def _require_enough(task: Task, drawn: director.Plan, given: tuple[str, ...], command: c.Command) -> None:
    """Refuses a decision that names too few tasks, or comes too late for the task."""
    tasks = len(given) or len(drawn.sketches)
    match drawn.decision:
        case DecisionType.ACCEPT_AND_DECOMPOSE:
            if tasks < 2:
                raise Refused(
                    "bad_value", "A decomposition needs at least 2 sub-tasks. Name them by --created-tasks."
                )
            r.require_status(task, "task.decompose", "decomposed")
        case DecisionType.ACCEPT_AND_REFORMULATE:
            if tasks != 1:
                raise Refused("bad_value", "A reformulation is exactly one task. Name it by --created-tasks.")
            r.require_status(task, "task.infeasible", "reformulated")
        case DecisionType.ACCEPT_AND_DEFER:
            if given and not command.facts.open_blockers:
                raise Refused("bad_value", "Deferring needs at least one open task to wait for.")
            r.require_status(task, "task.defer", "deferred")
        case _:
            if given:
                raise Refused("bad_value", "Accepting alone creates no tasks. Leave out --created-tasks.")


def _made(task: Task, drawn: director.Plan, fresh: tuple[str, ...]) -> Events:
    """The new tasks. What is cut from a task keeps away those who are locked out of it."""
    is_part = drawn.link == "REFINES"
    made: list[e.Event] = []
    for name, sketch in zip(fresh, drawn.sketches, strict=False):
        data = e.TaskData(
            title=sketch.title,
            description=sketch.description,
            priority=sketch.priority,
            category=sketch.category,
            skills=task.skills if is_part else (),
            parent=task.id if is_part else "",
        )
        made.append(e.TaskAdded(id=ids.task_node(name), type="TASK", data=data))
        if is_part:
            made += _inherited(task, name)
        needs = (*(fresh[sibling] for sibling in sketch.siblings), *sketch.tasks)
        made += [_edge(name, other, "DEPENDS_ON") for other in needs]
    return tuple(made)


def _inherited(task: Task, name: str) -> list[e.Event]:
    """The lockouts of a task on another that was cut from it."""
    return [
        e.LockoutSet(
            task_id=name,
            agent=lockout.agent,
            reason=f"locked out of {task.id}: {lockout.reason}"[:500],
            inherited_from=task.id,
            by=lockout.by,
            team=lockout.team,
        )
        for lockout in task.inheritable_lockouts
    ]


def _links(task: Task, drawn: director.Plan, created: tuple[str, ...]) -> Events:
    """How the tasks of a decision are linked to the rejected one."""
    if drawn.link == "REFINES":
        weight = 0.8 if drawn.decision is DecisionType.ACCEPT_AND_DECOMPOSE else 1.0
        return tuple(_edge(name, task.id, "REFINES", weight) for name in created)
    others = [name for name in dict.fromkeys((*drawn.waits_for, *created)) if name not in task.depends_on]
    if drawn.link == "BLOCKS":
        return tuple(_edge(name, task.id, "BLOCKS") for name in others)
    return tuple(_edge(task.id, name, "DEPENDS_ON") for name in others)


def _edge(source: str, target: str, kind: str, weight: float = 1.0) -> e.EdgeCreated:
    return e.EdgeCreated(src=ids.task_node(source), tgt=ids.task_node(target), type=kind, weight=weight)


def _outcome(
    task: Task, record: TaskRejection, drawn: director.Plan, created: tuple[str, ...]
) -> tuple[e.AnswerEvent, ...]:
    """What becomes of the rejected task."""
    why = str(record.reason_summary)[:500]
    match drawn.decision:
        case DecisionType.ACCEPT_AND_DEFER:
            waits_for = tuple(dict.fromkeys((*drawn.waits_for, *created)))
            return (e.TaskDeferred(task_id=task.id, waits_for=waits_for, reason=why),)
        case DecisionType.ACCEPT_AND_DECOMPOSE:
            return (e.TaskDecomposed(task_id=task.id, children=created),)
        case DecisionType.ACCEPT_AND_REFORMULATE:
            return (e.TaskInfeasible(task_id=task.id, reformulated_as=created[0], reason=why),)
        case _ if drawn.superseded_by or record.reason is RejectionReason.OBSOLETE:
            return (e.TaskCancelled(task_id=task.id, reason=why, superseded_by=drawn.superseded_by),)
        case _ if task.status == Status.BLOCKED:
            return ()
        case _:
            return (e.TaskBlocked(task_id=task.id, reason=why),)
