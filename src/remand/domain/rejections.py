"""What may be decided about task rejections: filed by the agent, judged, and answered by the director."""

from __future__ import annotations

import dataclasses
from typing import Any

from remand.domain import answers, director
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain import handoffs as h
from remand.domain import rules as r
from remand.domain.questions import opened
from remand.domain.reasons import DecisionType, RejectionReason
from remand.domain.refusals import Refused
from remand.domain.rejection import TaskRejection
from remand.domain.secrets import redacted, redacted_values
from remand.domain.task import Task
from remand.domain.validation.assessment import Assessment
from remand.domain.validation.validator import assess

Events = tuple[e.Event, ...]
MAX_NESTING = 16
MAX_OPINION = 4000


def decided(task: Task, ask: c.Ask, command: c.Command) -> Events:
    """The events that follow from an ask about a rejection."""
    match ask:
        case c.RejectHandoff():
            return reject(task, ask, command)
        case c.AnswerRejection():
            return answers.respond(task, ask, command)
        case c.GiveOpinion():
            return advise(task, ask, command)
        case _:
            raise AssertionError(f"{type(ask).__name__} is not about a rejection")


def reject(task: Task, ask: c.RejectHandoff, command: c.Command) -> Events:
    """Judges a rejection: a valid one goes to the director, an invalid one is overridden."""
    _require_held(task, ask, command)
    record = _record(task, ask, command)
    found = assess(record, answers.context(task), command.facts.world)
    record = dataclasses.replace(record, rejected_at=command.at)
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
        attempts=command.facts.world.attempts,
    )
    if command.facts.distrust:
        return (filed, *_distrusted(task, record, command))
    why = _undecided(record, command)
    if why or record.reason is None:
        reason = f"a director has to answer the rejection: {why}"
        return (filed, e.TaskBlocked(task_id=task.id, reason=reason))
    return (filed, *answers.accepted(task, record, director.AUTOMATIC[record.reason], None, command))


def _undecided(record: TaskRejection, command: c.Command) -> str:
    """Why the automatic director does not answer a valid rejection; empty when it does."""
    if command.facts.director != "auto":
        return command.facts.director
    is_infeasible = record.reason is RejectionReason.INFEASIBLE
    return director.ENDS_THE_TASK if is_infeasible and not command.facts.auto_reformulate else ""


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
        if offer.lapses_at > command.at and task.is_held_under(ask.handoff_id, ask.agent):
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
    return TaskRejection.from_dict({**given, **own, "rejected_at": given.get("rejected_at") or command.at})


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
    is_formal = director.is_formal_slip(found.issues, task.slips_by(agent))
    ended = () if is_formal else h.given_up(task, agent, command)
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
        attempts=facts.world.attempts,
        is_formal=is_formal,
    )
    message = director.override_message(found.issues, is_last=bool(ended))
    answer = e.RejectionAnswered(
        task_id=task.id,
        handoff_id=record.handoff_id,
        rejection_id=facts.fresh_rejection_id,
        decision=e.Decision(
            decision_type=DecisionType.OVERRIDE.name,
            rejection=record.to_dict(),
            rationale=f"Rejection validation failed: {', '.join(issue.code for issue in found.issues)}.",
            override_message=director.slip_message(found.issues) if is_formal else message,
            reassign_to=facts.next_agent if ended else agent,
        ),
        director="auto",
    )
    return (invalid, answer, *ended, *(_passed_on(task, command) if ended else ()))


def _distrusted(task: Task, record: TaskRejection, command: c.Command) -> Events:
    """A rejection like too many others: the agent is rid of the task, and the task does not wait for it."""
    facts, agent = command.facts, command.actor.name
    message = f"The rejection is not acted upon: {facts.distrust}. Another agent takes the task over."
    answer = e.RejectionAnswered(
        task_id=task.id,
        handoff_id=record.handoff_id,
        rejection_id=facts.fresh_rejection_id,
        decision=e.Decision(
            decision_type=DecisionType.OVERRIDE.name,
            rejection=record.to_dict(),
            rationale=f"Not acted upon: {facts.distrust}.",
            override_message=message,
            reassign_to=facts.next_agent,
        ),
        director="auto",
    )
    lockout = (
        ()
        if task.is_locked_out(agent)
        else (e.LockoutSet(task_id=task.id, agent=agent, reason=facts.distrust),)
    )
    return (answer, *lockout, *_passed_on(task, command))


def _passed_on(task: Task, command: c.Command) -> Events:
    """Hands the task to the next agent, or to a human when the team has none left. Without a team it is free."""
    facts = command.facts
    if facts.next_agent:
        return (h.offered(task, facts.next_agent, facts.fresh_handoff_id, command),)
    if not facts.has_team:
        return ()
    reason = f"{command.actor.name} is not to have the task any more, and no other agent is eligible"
    return (opened(task, "deadlock", reason, command),)
