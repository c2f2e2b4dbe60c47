"""Decisions on task rejections: filing by the agent, judging, and the director's answer."""

from __future__ import annotations

import dataclasses
from typing import Any

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import ids
from remand.domain import preconditions as r
from remand.domain.access.team import Actor
from remand.domain.decisions import director
from remand.domain.decisions import handoffs as h
from remand.domain.decisions.notices import ask_user
from remand.domain.events import tasks as task_events
from remand.domain.events.event import AnswerEvent, Event, Events
from remand.domain.events.reviews import LockoutCleared, LockoutSet
from remand.domain.instant import add_seconds
from remand.domain.reasons import DecisionType, RejectionReason, parse_decision_type
from remand.domain.refusals import Refused
from remand.domain.rejection import TaskRejection
from remand.domain.task import CLAIMABLE, LastRejection, Lockout, LockoutCause, Status, Task
from remand.domain.text.redaction import redact, redact_values
from remand.domain.validation import validator
from remand.domain.validation.assessment import Assessment


def task_context(task: Task) -> dict[str, Any]:
    """The task as it was added, for comparison with a rejection."""
    return {
        "id": task.id,
        "title": task.title,
        "scope": task.details.scope,
        "priority": str(task.details.priority),
        "category": task.details.category,
    }


def answer_rejection(task: Task, command: c.AnswerRejection, context: c.CommandContext) -> Events:
    """Answers the last rejection of a task; an overridden one can be answered while the agent holds the task."""
    filed = _require_answerable(task, command, context)
    decision = parse_decision_type(command.decision)
    if decision is None:
        names = ", ".join(DecisionType.__members__)
        raise Refused("bad_value", f"There is no decision {command.decision[:80]!r}; use one of {names}.")
    r.require_text("rationale", command.rationale)
    r.require_text("message", command.message)
    r.require_names(command.reassign_to)
    r.require_known_tasks(context.facts)
    r.require_no_cycle(context.facts)
    record = TaskRejection.from_dict({"rejected_at": context.at, **context.facts.rejection.record})
    if decision is DecisionType.OVERRIDE:
        return _override_by_director(task, filed, record, command, context)
    answer, *rest = accept_rejection(task, record, decision, command, context)
    if not filed.is_appealed or not task.is_locked_out_for(filed.agent, filed.rejection_id):
        return (answer, *rest)
    lifted = LockoutCleared(
        task_id=task.id,
        agent=filed.agent,
        reason="its appeal was accepted",
        rejection_id=filed.rejection_id,
    )
    return (answer, lifted, *rest)


def _ends_with_appeal(task: Task, lockout: Lockout) -> bool:
    """True for a lockout whose only cause is the rejection that was appealed; an accepted appeal clears it."""
    filed = task.rejections.last_rejection
    cause = LockoutCause(rejection_id=filed.rejection_id) if filed and filed.is_appealed else None
    return all(other == cause for other in lockout.causes)


def _require_answerable(task: Task, command: c.AnswerRejection, context: c.CommandContext) -> LastRejection:
    filed = task.rejections.last_rejection
    if filed is None or filed.handoff_id != command.handoff_id:
        raise Refused(
            "nothing_to_answer", f"No rejection of the handoff {command.handoff_id} awaits an answer."
        )
    if filed.agent == context.actor.name:
        raise Refused("own_work", f"{filed.agent} filed this rejection and cannot answer it.")
    if filed.decision and filed.decision != DecisionType.OVERRIDE.name:
        raise Refused("nothing_to_answer", f"That rejection was already answered with {filed.decision}.")
    is_waiting = not filed.decision and task.status == Status.BLOCKED
    if not is_waiting and not task.is_held_under(filed.handoff_id, filed.agent):
        raise Refused("handoff_closed", f"{filed.agent} no longer holds the handoff {filed.handoff_id}.")
    return filed


def _override_by_director(
    task: Task,
    filed: LastRejection,
    record: TaskRejection,
    command: c.AnswerRejection,
    context: c.CommandContext,
) -> Events:
    """The director's own override: the task returns to the agent or goes to another."""
    facts = context.facts
    if command.created_tasks:
        raise Refused("bad_value", "An override creates no tasks. Omit --created-tasks.")
    other = (
        facts.team.target.name
        if facts.team.target is not None and facts.team.target.name != filed.agent
        else ""
    )
    if other and facts.team.target is not None:
        r.require_may_work(task, facts.team.target, facts)
    is_out = task.is_locked_out(filed.agent)
    if not other and is_out and not filed.is_appealed:
        raise Refused("locked_out", f"{filed.agent} may not continue task {task.id}. Use --reassign-to.")
    message = command.message or "The director does not accept the rejection. Continue the task."
    answer = task_events.RejectionAnswered(
        task_id=task.id,
        handoff_id=filed.handoff_id,
        rejection_id=filed.rejection_id,
        decision=task_events.Decision(
            decision_type=DecisionType.OVERRIDE.name,
            rejection=record.to_dict(),
            rationale=command.rationale or director.refusal_rationale(record),
            override_message=message,
            reassign_to=other or ("" if is_out else filed.agent),
        ),
    )
    if is_out and not other:
        return (answer, *_return_to_queue(task, "the appeal was not accepted"))
    if other:
        offer = h.make_offer(task, other, facts.fresh.handoff_id, context, message)
        return (answer, *_return_to_queue(task, "passed on"), replace(offer, rejection_id=filed.rejection_id))
    if task.status != Status.BLOCKED:
        return (answer,)
    if not filed.was_claimed:
        offer = h.make_offer(task, filed.agent, filed.handoff_id, context, message)
        return (
            answer,
            *_return_to_queue(task, message[:200]),
            replace(offer, rejection_id=filed.rejection_id),
        )
    until = add_seconds(context.at, facts.policy.lease_seconds)
    return (
        answer,
        task_events.HandoffResumed(
            task_id=task.id, handoff_id=filed.handoff_id, agent=filed.agent, lease_expires_at=until
        ),
    )


def _return_to_queue(task: Task, reason: str) -> Events:
    """Returns the task to its queue, ending its claim, offer or wait."""
    if task.status == Status.BLOCKED:
        name = task.rejections.last_rejection.rejection_id if task.rejections.last_rejection else ""
        return (task_events.TaskReopened(task_id=task.id, reason=reason, rejection_id=name),)
    lapsed = tuple(
        task_events.HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id)
        for offer in task.claims.offers
    )
    claim = task.claim
    if claim is None:
        return lapsed
    released = task_events.TaskReleased(
        task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=reason
    )
    return (*lapsed, released)


def accept_rejection(
    task: Task,
    record: TaskRejection,
    decision: DecisionType,
    command: c.AnswerRejection | None,
    context: c.CommandContext,
) -> Events:
    """The answer that accepts a rejection, and its consequences for this and other tasks."""
    facts = context.facts
    given = tuple(dict.fromkeys(command.created_tasks)) if command else ()
    drawn = director.plan_decision(decision, record, task_context(task), facts.rejection.validation)
    if (
        facts.rejection.joins
        and command is None
        and drawn.sketches
        and drawn.link in ("BLOCKS", "DEPENDS_ON")
    ):
        drawn = drawn.with_existing(facts.rejection.joins)
    if given:
        drawn = drawn.with_existing(given)
    _require_valid_plan(task, drawn, given, context)
    created = given or facts.fresh.task_ids[: len(drawn.sketches)]
    is_deferred = decision is DecisionType.ACCEPT_AND_DEFER
    answer = task_events.RejectionAnswered(
        task_id=task.id,
        handoff_id=record.handoff_id,
        rejection_id=facts.fresh.rejection_id
        or (task.rejections.last_rejection.rejection_id if task.rejections.last_rejection else ""),
        decision=task_events.Decision(
            decision_type=decision.name,
            rejection=record.to_dict(),
            rationale=(command.rationale if command else "") or drawn.rationale(created),
            override_message=command.message if command else "",
            created_tasks=created,
            deferred_task=task.id if is_deferred else "",
        ),
        director="" if command else director.AUTO,
    )
    events = _create_tasks(task, drawn, facts.fresh.task_ids)
    if given and drawn.link == "REFINES":
        events = tuple(lockout for name in given for lockout in _inherit_lockouts(task, name))
    outcome = _task_outcome(task, record, drawn, created)
    named = tuple(replace(event, rejection_id=answer.rejection_id) for event in outcome)
    return (answer, *events, *_link_tasks(task, drawn, created), *named)


def _require_valid_plan(
    task: Task, drawn: director.DecisionPlan, created: tuple[str, ...], context: c.CommandContext
) -> None:
    """Refuses a decision that names too few tasks or comes too late for the task."""
    tasks = len(created) or len(drawn.sketches)
    match drawn.decision:
        case DecisionType.ACCEPT_AND_DECOMPOSE:
            if tasks < 2:
                raise Refused(
                    "bad_value", "A decomposition needs at least 2 sub-tasks. Name them with --created-tasks."
                )
            r.require_status(task, "task.decompose", "decomposed")
        case DecisionType.ACCEPT_AND_REFORMULATE:
            if tasks != 1:
                raise Refused(
                    "bad_value", "A reformulation is exactly one task. Name it with --created-tasks."
                )
            r.require_status(task, "task.infeasible", "reformulated")
        case DecisionType.ACCEPT_AND_DEFER:
            if created and not context.facts.links.open_blockers:
                raise Refused("bad_value", "Deferring needs at least one open task to wait for.")
            r.require_status(task, "task.defer", "deferred")
        case _:
            if created:
                raise Refused("bad_value", "Accepting alone creates no tasks. Omit --created-tasks.")


def _create_tasks(task: Task, drawn: director.DecisionPlan, fresh: tuple[str, ...]) -> Events:
    """The new tasks. Subtasks inherit the task's lockouts."""
    is_part = drawn.link == "REFINES"
    events: list[Event] = []
    for name, sketch in zip(fresh, drawn.sketches, strict=False):
        data = task_events.TaskData(
            title=sketch.title,
            description=sketch.description,
            priority=sketch.priority,
            category=sketch.category,
            skills=task.details.skills if is_part else (),
            parent=task.id if is_part else "",
        )
        events.append(task_events.TaskAdded(id=ids.task_node_id(name), type="TASK", data=data))
        if is_part:
            events += _inherit_lockouts(task, name)
        needs = (*(fresh[sibling] for sibling in sketch.siblings), *sketch.tasks)
        events += [_edge(name, other, "DEPENDS_ON") for other in needs]
    return tuple(events)


def _inherit_lockouts(task: Task, name: str) -> list[Event]:
    """The task's lockouts for a subtask."""
    return [
        LockoutSet(
            task_id=name,
            agent=lockout.agent,
            reason=f"locked out of {task.id}: {lockout.reason}"[:500],
            inherited_from=task.id,
            by=lockout.by,
            team=lockout.team,
        )
        for lockout in task.inheritable_lockouts
        if not _ends_with_appeal(task, lockout)
    ]


def _link_tasks(task: Task, drawn: director.DecisionPlan, created: tuple[str, ...]) -> Events:
    """The links between a decision's tasks and the rejected one."""
    if drawn.link == "REFINES":
        weight = 0.8 if drawn.decision is DecisionType.ACCEPT_AND_DECOMPOSE else 1.0
        return tuple(_edge(name, task.id, "REFINES", weight) for name in created)
    others = [
        name for name in dict.fromkeys((*drawn.waits_for, *created)) if name not in task.links.depends_on
    ]
    if drawn.link == "BLOCKS":
        return tuple(_edge(name, task.id, "BLOCKS") for name in others)
    return tuple(_edge(task.id, name, "DEPENDS_ON") for name in others)


def _edge(source: str, target: str, kind: str, weight: float = 1.0) -> task_events.EdgeCreated:
    return task_events.EdgeCreated(
        src=ids.task_node_id(source), tgt=ids.task_node_id(target), type=kind, weight=weight
    )


def _task_outcome(
    task: Task, record: TaskRejection, drawn: director.DecisionPlan, created: tuple[str, ...]
) -> tuple[AnswerEvent, ...]:
    """The consequence for the rejected task."""
    why = str(record.reason_summary)[:500]
    match drawn.decision:
        case DecisionType.ACCEPT_AND_DEFER:
            waits_for = tuple(dict.fromkeys((*drawn.waits_for, *created)))
            return (task_events.TaskDeferred(task_id=task.id, waits_for=waits_for, reason=why),)
        case DecisionType.ACCEPT_AND_DECOMPOSE:
            return (task_events.TaskDecomposed(task_id=task.id, children=created),)
        case DecisionType.ACCEPT_AND_REFORMULATE:
            return (task_events.TaskInfeasible(task_id=task.id, reformulated_as=created[0], reason=why),)
        case _ if drawn.superseded_by or record.reason is RejectionReason.OBSOLETE:
            return (
                task_events.TaskCancelled(task_id=task.id, reason=why, superseded_by=drawn.superseded_by),
            )
        case _ if task.status == Status.BLOCKED:
            return ()
        case _:
            return (task_events.TaskBlocked(task_id=task.id, reason=why),)


MAX_NESTING = 16
MAX_OPINION = 4000


def file_rejection(task: Task, command: c.RejectHandoff, context: c.CommandContext) -> Events:
    """Judges a rejection: a valid one goes to the director, an invalid one is overridden."""
    _require_open_handoff(task, command, context)
    record = _make_record(task, command, context)
    assessment = validator.assess(record, task_context(task), context.facts.rejection.validation)
    record = dataclasses.replace(record, rejected_at=context.at)
    if not assessment.is_valid:
        return _override_invalid(task, record, assessment, context)
    filed = task_events.HandoffRejected(
        task_id=task.id,
        handoff_id=command.handoff_id,
        agent=context.actor.name,
        rejection_id=context.facts.fresh.rejection_id,
        rejection=record.to_dict(),
        score=assessment.score,
        graded=context.facts.rejection.validation.graded,
        attempts=context.facts.rejection.validation.attempts,
    )
    if context.facts.rejection.distrust:
        return (filed, *_override_distrusted(task, record, context))
    why = _manual_decision_reason(record, context)
    if why or record.reason is None:
        reason = f"a director must answer the rejection: {why}"
        return (filed, task_events.TaskBlocked(task_id=task.id, reason=reason))
    return (filed, *accept_rejection(task, record, director.AUTOMATIC[record.reason], None, context))


def appeal_rejection(task: Task, command: c.AppealRejection, context: c.CommandContext) -> Events:
    """Appeals a rejection that the rules overrode to a director, once per agent and task."""
    filed, known = task.rejections.last_rejection, context.facts.rejection
    r.require_text("reason", command.reason, may_be_empty=False)
    if filed is None or filed.handoff_id != command.handoff_id:
        raise Refused(
            "nothing_to_appeal", f"No rejection of the handoff {command.handoff_id} was overridden."
        )
    if filed.agent != context.actor.name:
        raise Refused("not_yours", f"{filed.agent} filed that rejection, and nobody else may appeal.")
    if has_appealed(task, filed.agent):
        raise Refused("exit_used", f"{filed.agent} has already appealed about task {task.id}.")
    if known.is_formal:
        raise Refused(
            "nothing_to_appeal",
            "That rejection only lacks a part, so it cannot be appealed. Add what is missing and reject the task again.",
        )
    _require_overridden_by_rules(filed, known.decided_by)
    if known.is_before_submission:
        raise Refused(
            "nothing_to_appeal",
            f"Work on task {task.id} was submitted after that rejection, and is what counts now.",
        )
    if not has_lost_task(task, filed):
        _require_open_handoff(task, command, context)
    appeal = task_events.RejectionAppealed(
        task_id=task.id,
        handoff_id=filed.handoff_id,
        agent=filed.agent,
        rejection_id=filed.rejection_id,
        reason=redact(command.reason),
    )
    why = f"a director must answer the appeal of {filed.agent}"
    return (appeal, task_events.TaskBlocked(task_id=task.id, reason=why))


def _require_overridden_by_rules(filed: LastRejection, decided_by: str) -> None:
    """Refuses an appeal against a director's decision, or about a valid rejection."""
    is_by_rules, is_override = decided_by == director.AUTO, filed.decision == DecisionType.OVERRIDE.name
    if is_by_rules and is_override and not filed.is_valid:
        return
    if is_by_rules and is_override:
        text = f"That rejection is valid, and an appeal is about one that the rules found invalid. {filed.message}"
    elif is_by_rules:
        text = f"The rules accepted that rejection: {filed.decision}."
    else:
        text = f"The rules did not override that rejection; {decided_by or 'a director'} decides."
    raise Refused("nothing_to_appeal", text)


def has_lost_task(task: Task, filed: LastRejection) -> bool:
    """True if that rejection cost its agent the task, and nobody has taken it since."""
    is_free = task.claim is None and task.status in CLAIMABLE
    return is_free and task.is_locked_out_for(filed.agent, filed.rejection_id)


def has_appealed(task: Task, agent: str) -> bool:
    return (agent, task_events.RejectionAppealed.__struct_config__.tag) in task.claims.exits


def _manual_decision_reason(record: TaskRejection, context: c.CommandContext) -> str:
    """Why the automatic director does not answer a valid rejection; empty if it does."""
    if context.facts.rejection.human_reason:
        return context.facts.rejection.human_reason
    is_infeasible = record.reason is RejectionReason.INFEASIBLE
    return director.ENDS_THE_TASK if is_infeasible and not context.facts.policy.auto_reformulate else ""


def require_filed_rejection(task: Task | None, handoff_id: str, named: str) -> Task:
    """The task whose last rejection belongs to a handoff; refuses if there is no rejection to consult about."""
    if (
        task is None
        or task.rejections.last_rejection is None
        or task.rejections.last_rejection.handoff_id != handoff_id
    ):
        raise Refused("nothing_to_answer", f"There is no rejection of {named} to ask about.")
    return task


def require_not_filer(task: Task, actor: Actor) -> None:
    """Refuses to let the filer of a rejection request its answer."""
    if task.rejections.last_rejection is not None and actor.name == task.rejections.last_rejection.agent:
        raise Refused("own_work", f"{actor.name} filed this rejection and may not choose who answers it.")


def overridden_rejection_refusal(message: str) -> Refused:
    """The answer to a valid rejection that the system overrides, with the override's text."""
    return Refused("not_acted_upon", message)


def invalid_rejection_refusal(task_id: str, issues: str) -> Refused:
    """The answer to an invalid rejection."""
    return Refused("invalid_rejection", f"The rejection of {task_id} is not valid: {issues}")


def record_opinion(task: Task, command: c.GiveOpinion, context: c.CommandContext) -> Events:
    """Records an adviser's opinion on a rejection."""
    filed = task.rejections.last_rejection
    if filed is None or filed.handoff_id != command.handoff_id:
        raise Refused("nothing_to_answer", f"There is no rejection of the handoff {command.handoff_id}.")
    return (
        task_events.OpinionGiven(
            task_id=task.id,
            handoff_id=command.handoff_id,
            rejection_id=filed.rejection_id,
            opinion=redact(command.opinion)[:MAX_OPINION],
        ),
    )


def _require_open_handoff(
    task: Task, command: c.RejectHandoff | c.AppealRejection, context: c.CommandContext
) -> None:
    """Refuses a rejection of a handoff that is not open, or not this agent's."""
    offer = task.find_offer(command.handoff_id)
    if offer is not None:
        if offer.target != command.agent:
            raise Refused(
                "not_yours",
                f"The handoff {command.handoff_id} is for {offer.target}, not for {command.agent}.",
            )
        if offer.lapses_at > context.at and task.is_held_under(command.handoff_id, command.agent):
            return
    elif task.claim is not None and task.claim.handoff_id == command.handoff_id:
        under = c.ReleaseTask(task_id=task.id, agent=command.agent, handoff_id=command.handoff_id)
        r.require_claim(task, under, context.at)
        return
    raise Refused("handoff_closed", f"The handoff {command.handoff_id} on task {task.id} is not open.")


def _make_record(task: Task, command: c.RejectHandoff, context: c.CommandContext) -> TaskRejection:
    """The record with canonical ids; refuses one that was written for another task."""
    fields: dict[str, Any] = redact_values(command.rejection)
    if _nesting_depth(command.rejection) > MAX_NESTING:
        raise Refused(
            "bad_value", f"The record is nested more than {MAX_NESTING} deep. Flatten its evidence."
        )
    own = {"task_id": task.id, "handoff_id": command.handoff_id, "agent_id": context.actor.name}
    for name, value in own.items():
        stated = fields.get(name)
        if stated and stated not in (value, f"task:{value}", f"handoff:{value}"):
            raise Refused("bad_value", f"The record's {name} is {str(stated)[:80]!r}, but this is {value}.")
    return TaskRejection.from_dict({**fields, **own, "rejected_at": fields.get("rejected_at") or context.at})


def _nesting_depth(value: Any) -> int:
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


def _override_invalid(
    task: Task, record: TaskRejection, assessment: Assessment, context: c.CommandContext
) -> Events:
    """Overrides an invalid rejection: the same agent continues until it has tried that too often."""
    facts, agent = context.facts, context.actor.name
    is_formal = director.is_formal_slip(assessment.issues, task.slips_by(agent))
    ended = () if is_formal else h.lock_out_after_giving_up(task, agent, context, facts.fresh.rejection_id)
    invalid = task_events.HandoffRejectionInvalid(
        task_id=task.id,
        handoff_id=record.handoff_id,
        agent=agent,
        rejection_id=facts.fresh.rejection_id,
        rejection=record.to_dict(),
        validation_issues=tuple(issue.message for issue in assessment.issues),
        issues=assessment.issues,
        score=assessment.score,
        graded=facts.rejection.validation.graded,
        attempts=facts.rejection.validation.attempts,
        is_formal=is_formal,
    )
    is_user_asked = bool(ended) and facts.team.has_team and not facts.team.next_agent
    may_appeal = not is_user_asked and not has_appealed(task, agent)
    appeal = f"remand handoff appeal {record.handoff_id} --agent {agent}" if may_appeal else ""
    message = director.override_message(assessment.issues, is_last=bool(ended), appeal=appeal)
    answer = task_events.RejectionAnswered(
        task_id=task.id,
        handoff_id=record.handoff_id,
        rejection_id=facts.fresh.rejection_id,
        decision=task_events.Decision(
            decision_type=DecisionType.OVERRIDE.name,
            rejection=record.to_dict(),
            rationale=f"Rejection validation failed: {', '.join(issue.code for issue in assessment.issues)}.",
            override_message=director.slip_message(assessment.issues) if is_formal else message,
            reassign_to=facts.team.next_agent if ended else agent,
        ),
        director=director.AUTO,
    )
    return (invalid, answer, *ended, *(_pass_to_next_agent(task, context) if ended else ()))


def _override_distrusted(task: Task, record: TaskRejection, context: c.CommandContext) -> Events:
    """Overrides a rejection like too many others: the agent loses the task, which does not wait."""
    facts, agent = context.facts, context.actor.name
    message = (
        f"The rejection is not acted upon: {facts.rejection.distrust}. Another agent takes over the task."
    )
    answer = task_events.RejectionAnswered(
        task_id=task.id,
        handoff_id=record.handoff_id,
        rejection_id=facts.fresh.rejection_id,
        decision=task_events.Decision(
            decision_type=DecisionType.OVERRIDE.name,
            rejection=record.to_dict(),
            rationale=f"Not acted upon: {facts.rejection.distrust}.",
            override_message=message,
            reassign_to=facts.team.next_agent,
        ),
        director=director.AUTO,
    )
    lockout = (
        ()
        if task.is_locked_out(agent)
        else (LockoutSet(task_id=task.id, agent=agent, reason=facts.rejection.distrust),)
    )
    return (answer, *lockout, *_pass_to_next_agent(task, context))


def _pass_to_next_agent(task: Task, context: c.CommandContext) -> Events:
    """Offers the task to the next agent, or escalates it if there is none. Without a team it becomes free."""
    facts = context.facts
    if facts.team.next_agent:
        return (h.make_offer(task, facts.team.next_agent, facts.fresh.handoff_id, context),)
    if not facts.team.has_team:
        return ()
    reason = f"{context.actor.name} may not keep the task, and no other agent is eligible"
    return (ask_user(task, "deadlock", reason, context),)
