"""What may be decided about task rejections: filed by the agent, judged, and answered by the director."""

from __future__ import annotations

from typing import Any

from remand.domain import commands as c
from remand.domain import director, ids
from remand.domain import events as e
from remand.domain import handoffs as h
from remand.domain import rules as r
from remand.domain.instant import plus
from remand.domain.reasons import DecisionType, decision_named
from remand.domain.refusals import Refused
from remand.domain.rejection import TaskRejection
from remand.domain.secrets import redacted, redacted_values
from remand.domain.task import Filed, Status, Task
from remand.domain.validation.assessment import Assessment
from remand.domain.validation.validator import assess

Events = tuple[e.Event, ...]
MAX_NESTING = 16
MAX_OPINION = 4000


def context(task: Task) -> dict[str, Any]:
    """What a rejection is held against: the task as it is written down."""
    return {
        "id": task.id,
        "title": task.title,
        "scope": task.scope,
        "priority": str(task.priority),
        "category": task.category,
    }


def reject(task: Task, ask: c.RejectHandoff, command: c.Command) -> Events:
    """Judges a rejection: a valid one goes to the director, an invalid one is overridden."""
    _require_held(task, ask, command)
    record = _record(task, ask, command)
    found = assess(record, context(task), command.facts.world)
    if not found.is_valid:
        return _overridden(task, record, found, command)
    filed = e.HandoffRejected(
        task_id=task.id,
        handoff_id=ask.handoff_id,
        agent=command.actor.name,
        rejection_id=command.facts.fresh_rejection_id,
        rejection=record.to_dict(),
        score=found.score,
        graded=command.facts.world.graded,
    )
    if command.facts.director != "auto" or record.reason is None:
        return (filed, e.TaskBlocked(task_id=task.id, reason="a director has to answer the rejection"))
    return (filed, *_answered(task, record, director.AUTOMATIC[record.reason], None, command))


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
    record = TaskRejection.from_dict(command.facts.rejection)
    if decision is DecisionType.OVERRIDE:
        return _sent_back(task, filed, ask, command)
    return _answered(task, record, decision, ask, command)


def advise(task: Task, ask: c.GiveOpinion, command: c.Command) -> Events:
    """Notes an adviser's opinion beside the rejection it is about."""
    filed = task.filed
    if filed is None or filed.handoff_id != ask.handoff_id:
        raise Refused("nothing_to_answer", f"There is no rejection of the handoff {ask.handoff_id}.")
    return (
        e.OpinionGiven(
            task_id=task.id,
            handoff_id=ask.handoff_id,
            rejection_id=filed.rejection_id,
            opinion=redacted(ask.opinion)[:MAX_OPINION],
        ),
    )


def _require_held(task: Task, ask: c.RejectHandoff, command: c.Command) -> None:
    """Refuses a rejection of a handoff that is not open, or not this agent's."""
    offer = task.offer(ask.handoff_id)
    if offer is not None:
        if offer.target != ask.agent:
            raise Refused(
                "not_yours", f"The handoff {ask.handoff_id} is for {offer.target}, not for {ask.agent}."
            )
        if offer.lapses_at > command.at:
            return
    elif task.claim is not None and task.claim.handoff_id == ask.handoff_id:
        under = c.ReleaseTask(task_id=task.id, agent=ask.agent, handoff_id=ask.handoff_id)
        r.require_claim(task, under, command.at)
        return
    raise Refused("handoff_closed", f"The handoff {ask.handoff_id} on task {task.id} is not open.")


def _record(task: Task, ask: c.RejectHandoff, command: c.Command) -> TaskRejection:
    """The record with the ids the ledger knows; refuses one that was written for another task."""
    given: dict[str, Any] = redacted_values(ask.rejection)
    if _nesting(ask.rejection) > MAX_NESTING:
        raise Refused(
            "bad_value", f"The record is nested more than {MAX_NESTING} deep. Flatten its evidence."
        )
    own = {"task_id": task.id, "handoff_id": ask.handoff_id, "agent_id": command.actor.name}
    for name, value in own.items():
        stated = given.get(name)
        if stated and stated not in (value, f"task:{value}", f"handoff:{value}"):
            raise Refused("bad_value", f"The record's {name} is {str(stated)[:80]!r}, but this is {value}.")
    return TaskRejection.from_dict({**given, **own, "rejected_at": command.at})


def _nesting(value: Any) -> int:
    depth, level = 0, [value]
    while level and depth <= MAX_NESTING:
        depth += 1
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def _overridden(task: Task, record: TaskRejection, found: Assessment, command: c.Command) -> Events:
    """An invalid rejection: the work goes on, with the same agent until it has tried that too often."""
    facts, agent = command.facts, command.actor.name
    ended = h.given_up(task, agent, command)
    invalid = e.HandoffRejectionInvalid(
        task_id=task.id,
        handoff_id=record.handoff_id,
        agent=agent,
        rejection_id=facts.fresh_rejection_id,
        rejection=record.to_dict(),
        validation_issues=tuple(issue.message for issue in found.issues),
        issues=found.issues,
        score=found.score,
        graded=facts.world.graded,
    )
    answer = e.RejectionAnswered(
        task_id=task.id,
        handoff_id=record.handoff_id,
        rejection_id=facts.fresh_rejection_id,
        decision=e.Decision(
            decision_type=DecisionType.OVERRIDE.name,
            rationale=f"Rejection validation failed: {', '.join(issue.code for issue in found.issues)}.",
            override_message=director.override_message(found.issues, is_last=bool(ended)),
            reassign_to=facts.next_agent if ended else agent,
        ),
        director="auto",
    )
    return (invalid, answer, *ended, *(_passed_on(task, command) if ended else ()))


def _passed_on(task: Task, command: c.Command) -> Events:
    """Hands the task to the next agent, or to a human when the team has none left. Without a team it is free."""
    facts = command.facts
    if facts.next_agent:
        return (_offer(task, facts.next_agent, facts.fresh_handoff_id, command),)
    if not facts.has_team:
        return ()
    reason = f"{command.actor.name} rejected the task without cause too often, and no other agent is eligible"
    return (e.EscalationOpened(task_id=task.id, reason=reason),)


def _offer(task: Task, agent: str, handoff_id: str, command: c.Command, text: str = "") -> e.HandoffInitiated:
    return e.HandoffInitiated(
        task_id=task.id,
        handoff_id=handoff_id,
        source_agent=command.actor.name,
        target_agent=agent,
        instructions=text,
        lapses_at=plus(command.at, command.facts.lease_seconds),
        context={"task_title": task.title, "task_status": task.status, "task_priority": task.priority},
    )


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


def _sent_back(task: Task, filed: Filed, ask: c.AnswerRejection, command: c.Command) -> Events:
    """The director's own override: back to the agent, or on to another."""
    facts = command.facts
    if ask.created_tasks:
        raise Refused("bad_value", "An override creates no tasks. Leave out --created-tasks.")
    other = facts.target.name if facts.target is not None and facts.target.name != filed.agent else ""
    if other and facts.target is not None:
        _require_takeover(task, filed, command)
    message = ask.message or "The director does not accept the rejection. Go on with the task."
    answer = e.RejectionAnswered(
        task_id=task.id,
        handoff_id=filed.handoff_id,
        rejection_id=filed.rejection_id,
        decision=e.Decision(
            decision_type=DecisionType.OVERRIDE.name,
            rationale=ask.rationale,
            override_message=message,
            reassign_to=other or filed.agent,
        ),
    )
    if other:
        offer = _offer(task, other, facts.fresh_handoff_id, command, message)
        return (answer, *_ended(task, "passed on"), offer)
    if task.status != Status.BLOCKED:
        return (answer,)
    if not filed.was_claimed:
        return (
            answer,
            *_ended(task, message[:200]),
            _offer(task, filed.agent, filed.handoff_id, command, message),
        )
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
    r.require_not_locked_out(task, target.name)
    r.require_eligible(task, target, command.facts.has_team)


def _ended(task: Task, reason: str) -> Events:
    """Brings the task back to its queue: ends the claim or offer that is still there, or the wait."""
    if task.status == Status.BLOCKED:
        return (e.TaskReopened(task_id=task.id, reason=reason),)
    lapsed = tuple(e.HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id) for offer in task.offers)
    claim = task.claim
    if claim is None:
        return lapsed
    released = e.TaskReleased(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=reason)
    return (*lapsed, released)


def _answered(
    task: Task,
    record: TaskRejection,
    decision: DecisionType,
    ask: c.AnswerRejection | None,
    command: c.Command,
) -> Events:
    """The answer to a rejection that is accepted, and what follows for this and other tasks."""
    facts = command.facts
    given = ask.created_tasks if ask else ()
    drawn = director.plan(decision, record, context(task), facts.world)
    if given:
        drawn = director.Plan(decision=decision, waits_for=given, link=drawn.link or "DEPENDS_ON")
    _require_enough(task, drawn, given, command)
    created = given or facts.fresh_task_ids[: len(drawn.sketches)]
    is_deferred = decision is DecisionType.ACCEPT_AND_DEFER
    answer = e.RejectionAnswered(
        task_id=task.id,
        handoff_id=record.handoff_id,
        rejection_id=facts.fresh_rejection_id or (task.filed.rejection_id if task.filed else ""),
        decision=e.Decision(
            decision_type=decision.name,
            rationale=(ask.rationale if ask else "") or drawn.rationale(created),
            override_message=ask.message if ask else "",
            created_tasks=created,
            deferred_task=task.id if is_deferred else "",
        ),
        director="" if ask else "auto",
    )
    made = _made(task, drawn, facts.fresh_task_ids) if not given else ()
    return (answer, *made, *_links(task, drawn, created), *_outcome(task, record, drawn, created))


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
            description=sketch.scope,
            priority=sketch.priority,
            category=sketch.category,
            skills=task.skills if is_part else (),
            parent=task.id if is_part else "",
        )
        made.append(e.TaskAdded(id=ids.task_node(name), type="TASK", data=data))
        if is_part:
            made += [
                e.LockoutSet(
                    task_id=name,
                    agent=lockout.agent,
                    reason=f"locked out of {task.id}: {lockout.reason}"[:500],
                )
                for lockout in task.active_lockouts
            ]
        needs = (*(fresh[sibling] for sibling in sketch.siblings), *sketch.tasks)
        made += [_edge(name, other, "DEPENDS_ON") for other in needs]
    return tuple(made)


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


def _outcome(task: Task, record: TaskRejection, drawn: director.Plan, created: tuple[str, ...]) -> Events:
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
        case _ if drawn.superseded_by:
            return (e.TaskCancelled(task_id=task.id, reason=why, superseded_by=drawn.superseded_by),)
        case _ if task.status == Status.BLOCKED:
            return ()
        case _:
            return (e.TaskBlocked(task_id=task.id, reason=why),)
