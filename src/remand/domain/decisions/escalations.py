"""Decisions on questions to the user: asked once, repeated until seen, and answered only by the user."""

from __future__ import annotations

from collections.abc import Container, Sequence

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.access.team import Actor, Role
from remand.domain.decisions.findings import is_still_rejected, open_findings
from remand.domain.decisions.gates import settle_finding
from remand.domain.decisions.handoffs import make_offer, pass_to_agent, remaining_agents
from remand.domain.decisions.notices import ask_user, open_alert
from remand.domain.decisions.objections import require_objections_answered
from remand.domain.decisions.reviews import has_worked_on
from remand.domain.events.event import Events
from remand.domain.events.reviews import (
    EscalationAcknowledged,
    EscalationAnswered,
    EscalationNotified,
    EscalationOpened,
    EscalationRepeated,
    LockoutCleared,
    ReviewApproved,
)
from remand.domain.events.tasks import TaskCancelled, TaskClaimed
from remand.domain.feedback import pull_request_reviews
from remand.domain.gate.state import RETRY, GateAlert
from remand.domain.instant import add_seconds
from remand.domain.record import Record
from remand.domain.refusals import Refused, unknown_option_refusal
from remand.domain.task import MAX_LEASE_SECONDS, TERMINAL, Escalation, Status, Submission, Task

FIX, UNLOCK, REASSIGN, REOPEN, WONTFIX = "fix", "unlock", "reassign", "reopen", "wontfix"
ACCEPT = "accept"
ACK = "ack"
ACCEPT_TEXT = "Let the rejected change pass when it is submitted again"


class EscalationOption(Record, kw_only=True):
    """One option of the user."""

    key: str
    text: str
    number: int = 0
    """Its number in answers; 0: its position in the list."""


def startable_options(
    offered: Sequence[EscalationOption], unable: Container[str]
) -> tuple[EscalationOption, ...]:
    """The options except those that give the task to members that cannot be started.

    The others keep their numbers, as a member may become startable between the question and its answer.
    """
    options = [
        (number, option)
        for number, option in enumerate(offered, start=1)
        if not (option.key.startswith(f"{REASSIGN}:") and option.key.partition(":")[2] in unable)
    ]
    return tuple(
        option if number == place else replace(option, number=number)
        for place, (number, option) in enumerate(options, start=1)
    )


def number_options(offered: Sequence[EscalationOption]) -> list[tuple[int, EscalationOption]]:
    """The options with their numbers for answers."""
    return [(option.number or place, option) for place, option in enumerate(offered, start=1)]


def escalation_options(
    task: Task, agents: list[Actor], inherited: tuple[tuple[str, str], ...] = (), *, has_team: bool = True
) -> tuple[EscalationOption, ...]:
    """The options for an escalated task, those of the requirements first. `agents` may take it over."""
    if task.gates_asked_about:
        return (
            EscalationOption(
                key=RETRY, text="Try again: one agent continues, and the others once the gate has run"
            ),
        )
    if open_alert(task) is not None:
        return _alert_options(task, agents)
    above = (agent for agent, _ in inherited if agent not in task.people.unlocked)
    locked = dict.fromkeys((*(lockout.agent for lockout in task.people.lockouts), *above))
    merged = _find_merged_submission(task)
    return (
        *(
            (EscalationOption(key=ACCEPT, text=f"Accept the merge: done at {merged.commit[:12]}"),)
            if merged
            else ()
        ),
        *(EscalationOption(key=f"{ACCEPT}:{name}", text=ACCEPT_TEXT) for name in open_findings(task)),
        EscalationOption(key=FIX, text="Fix it manually: the task is yours until you submit it"),
        *(
            EscalationOption(key=f"{UNLOCK}:{agent}", text=f"Unlock {agent}, with guidance")
            for agent in locked
        ),
        *(
            EscalationOption(key=f"{REASSIGN}:{agent.name}", text=f"Reassign it to {agent.name}")
            for agent in agents
        ),
        *(
            (EscalationOption(key=REOPEN, text="Return it to the queue as it is"),)
            if agents or not has_team
            else ()
        ),
        EscalationOption(key=WONTFIX, text="Close it as won't-fix"),
    )


def _alert_options(task: Task, agents: list[Actor]) -> tuple[EscalationOption, ...]:
    """The options for an alert; without an answer the agent continues."""
    holder = task.claim.agent if task.claim else ""
    others = (agent.name for agent in agents if agent.name != holder)
    return (
        EscalationOption(key=ACK, text=f"Acknowledge it: {holder} continues"),
        EscalationOption(
            key=FIX, text="Take it over and fix it manually: the task is yours until you submit it"
        ),
        *(EscalationOption(key=f"{REASSIGN}:{name}", text=f"Reassign it to {name}") for name in others),
    )


def _find_merged_submission(task: Task) -> Submission | None:
    """The submitted work, if it was merged past the rules and no rejection or failed verdict on it stands."""
    work, escalation = task.submission, task.open_escalation
    if work is None or escalation is None or escalation.kind != "bypassed" or is_still_rejected(task):
        return None
    if work.is_refuted:
        return None
    return (
        work
        if any(pull_request_reviews.is_merge_of(source, work.commit) for source in task.reviews.sources)
        else None
    )


def require_agent_left(task: Task, context: c.CommandContext) -> None:
    """Refuses to return a task to the queue if nobody on the team may take it there."""
    if context.facts.team.has_team and not remaining_agents(task, context.facts):
        raise Refused(
            "bad_value",
            f"No agent may claim {task.label} from the queue: unlock an agent or reassign the task to one.",
        )


def deadlock_question(task: Task, context: c.CommandContext, *, without: tuple[str, ...] = ()) -> Events:
    """The question to ask if nobody on the team can take the task; otherwise none."""
    is_nobodys = task.status in TERMINAL or task.status in (Status.ESCALATED, Status.DECOMPOSED)
    if (
        not context.facts.team.has_team
        or is_nobodys
        or remaining_agents(task, context.facts, without=without)
    ):
        return ()
    why = f"All agents are locked out of {task.label}, or lack what it asks for"
    return (ask_user(task, "deadlock", why, context),)


def escalate_task(task: Task, command: c.EscalateTask, context: c.CommandContext) -> Events:
    """Asks the user. The task's holder may do so once; anybody else needs a role in it."""
    r.require_text("reason", command.reason, may_be_empty=False)
    known = task.open_escalation
    if known is not None:
        raise Refused(
            "bad_transition",
            f"Task {task.id} is already escalated: the question {known.id} awaits the user's answer.",
        )
    r.require_status(task, "escalation.open", "escalated")
    actor = context.actor
    is_holder = task.claim is not None and task.claim.agent == actor.name
    if not actor.has(Role.USER, Role.DIRECTOR, Role.LEAD, Role.TESTER):
        if not is_holder:
            raise Refused("not_yours", f"{actor.name} does not hold {task.label} and cannot escalate it.")
        r.require_unused_exit(task, actor.name, EscalationOpened)
    return (ask_user(task, "asked", command.reason, context),)


def repeat_escalation(task: Task, command: c.RepeatEscalation, context: c.CommandContext) -> Events:
    escalation = task.open_escalation
    if escalation is None or escalation.acknowledged_by or escalation.deadline > context.at:
        return ()
    deadline = add_seconds(context.at, context.facts.policy.deadline_seconds)
    return (EscalationRepeated(task_id=task.id, escalation_id=escalation.id, deadline=deadline),)


def record_delivery(task: Task, command: c.NoteDelivery, context: c.CommandContext) -> Events:
    """Records that a channel received the notice of an open question, alert or override."""
    for one in (task.open_escalation, open_alert(task), *task.inbox.notices):
        if one is not None and one.id == command.escalation_id and command.channel not in one.notified:
            notified = EscalationNotified(
                task_id=task.id, escalation_id=one.id, channel=command.channel, is_last=command.is_last
            )
            return (notified,)
    return ()


def acknowledge_escalation(task: Task, command: c.AcknowledgeEscalation, context: c.CommandContext) -> Events:
    alert = _find_alert(task, command.escalation_id)
    if alert is not None:
        return (EscalationAcknowledged(task_id=task.id, escalation_id=alert.id),)
    escalation = _require_open_escalation(task, command.escalation_id)
    if escalation.acknowledged_by:
        return ()
    return (EscalationAcknowledged(task_id=task.id, escalation_id=escalation.id),)


def answer_escalation(task: Task, command: c.AnswerEscalation, context: c.CommandContext) -> Events:
    """The consequences of the user's decision."""
    r.require_text("guidance", command.guidance)
    alert = _find_alert(task, command.escalation_id)
    if alert is not None:
        return _answer_alert(task, alert, command, context)
    escalation = _require_open_escalation(task, command.escalation_id)
    choice, _, name = command.option.partition(":")
    answer = EscalationAnswered(
        task_id=task.id,
        escalation_id=escalation.id,
        option=command.option,
        guidance="" if choice == UNLOCK else command.guidance,
    )
    match choice:
        case "fix" if not name:
            return (*_clear_own_lockout(task, context), answer, _claim_for_user(task, context))
        case "unlock" if name:
            unlocked = clear_lockout(task, name, "the escalation was answered", command.guidance, context)
            return (*unlocked, answer, *reserve_for_agent(task, name, context))
        case "reassign" if name:
            return (answer, *_reassign_to(task, name, command.guidance, context))
        case "retry" if not name and task.gates_asked_about:
            return (answer,)
        case "reopen" if not name:
            require_agent_left(task, context)
            return (answer,)
        case "accept" if not name and (merged := _find_merged_submission(task)) is not None:
            return (answer, _approve_merge(task, merged, context))
        case "accept" if name in open_findings(task):
            acceptance = c.SettleFinding(
                task_id=task.id, finding=name, is_accepted=True, reason=command.guidance
            )
            return settle_finding(task, acceptance, context)
        case "wontfix" if not name:
            return (answer, TaskCancelled(task_id=task.id, reason=command.guidance or "won't fix"))
        case _:
            raise _unknown_option_refusal(task, command, context)


def _unknown_option_refusal(task: Task, command: c.AnswerEscalation, context: c.CommandContext) -> Refused:
    facts = context.facts
    known = escalation_options(
        task, remaining_agents(task, facts), facts.lockouts.inherited, has_team=facts.team.has_team
    )
    return unknown_option_refusal(command.option, [option.key for option in known])


def _find_alert(task: Task, name: str) -> GateAlert | None:
    """The open alert with that id, or the task's own without an id."""
    alert = open_alert(task)
    return alert if alert is not None and name in ("", alert.id) else None


def _answer_alert(
    task: Task, alert: GateAlert, command: c.AnswerEscalation, context: c.CommandContext
) -> Events:
    """The consequences of the user's answer to an alert: the agent continues, or loses the task."""
    choice, _, name = command.option.partition(":")
    answer = EscalationAnswered(
        task_id=task.id, escalation_id=alert.id, option=command.option, guidance=command.guidance
    )
    match choice:
        case "ack" if not name:
            return (EscalationAcknowledged(task_id=task.id, escalation_id=alert.id),)
        case "fix" if not name:
            return (*_clear_own_lockout(task, context), answer, _claim_for_user(task, context))
        case "reassign" if name and name != alert.agent:
            return (answer, *_reassign_to(task, name, command.guidance, context))
        case _:
            raise _unknown_option_refusal(task, command, context)


def _approve_merge(task: Task, merged: Submission, context: c.CommandContext) -> ReviewApproved:
    """The user's approval of work that was merged without one. Its author cannot approve it here either."""
    name = context.actor.name
    if has_worked_on(task, context.actor):
        raise Refused("own_work", f"{name} worked on task {task.id} and cannot review it.")
    require_objections_answered(task, context.facts)
    return ReviewApproved(task_id=task.id, reviewer=name, commit=merged.commit, tree=merged.tree)


def _require_open_escalation(task: Task, escalation_id: str) -> Escalation:
    escalation = task.open_escalation
    if escalation is None:
        raise Refused("nothing_to_answer", f"Task {task.id} is {task.status}; it has no open question.")
    if escalation_id not in ("", escalation.id):
        raise Refused(
            "nothing_to_answer",
            f"The question {escalation_id[:40]} is closed; the open question of task {task.id} is {escalation.id}.",
        )
    return escalation


def _clear_own_lockout(task: Task, context: c.CommandContext) -> Events:
    """Clears the user's own lockout: the user is never locked out."""
    name = context.actor.name
    is_barred = (
        any(who == name for who, _ in context.facts.lockouts.inherited) and name not in task.people.unlocked
    )
    if not is_barred and not task.is_locked_out(name):
        return ()
    return clear_lockout(task, name, "the user fixes the task manually", "", context)


def _claim_for_user(task: Task, context: c.CommandContext) -> TaskClaimed:
    """The user's own claim for a manual fix, with the longest lease."""
    return TaskClaimed(
        task_id=task.id,
        handoff_id=context.facts.fresh.handoff_id,
        agent=context.actor.name,
        attempt=task.claims.attempt_count + 1,
        epoch=task.claims.epoch + 1,
        lease_expires_at=add_seconds(context.at, MAX_LEASE_SECONDS - 1),
        branch=task.branch,
        base=context.facts.work.base,
    )


def clear_lockout(task: Task, agent: str, reason: str, guidance: str, context: c.CommandContext) -> Events:
    """Clears an agent's lockout on the task and its descendants."""
    is_inherited = any(name == agent for name, _ in context.facts.lockouts.inherited)
    if not task.is_locked_out(agent) and (not is_inherited or agent in task.people.unlocked):
        raise Refused("bad_value", f"{agent} is not locked out of task {task.id}.")
    own = LockoutCleared(task_id=task.id, agent=agent, reason=reason, guidance=guidance)
    descendants = tuple(
        LockoutCleared(
            task_id=descendant,
            agent=agent,
            reason=f"unlocked on {task.id}: {reason}"[:500],
            inherited_from=task.id,
        )
        for descendant, name in context.facts.lockouts.descendants
        if name == agent
    )
    return (own, *descendants)


def reserve_for_agent(task: Task, agent: str, context: c.CommandContext) -> Events:
    """Reserves the task for the unlocked agent, unless it reviews the task or lacks a required skill."""
    target = next((one for one in context.facts.team.agents if one.name == agent), None)
    if target is None or not r.is_eligible(task, target):
        return ()
    return (make_offer(task, agent, context.facts.fresh.handoff_id, context),)


def _reassign_to(task: Task, name: str, guidance: str, context: c.CommandContext) -> Events:
    facts = context.facts
    target = facts.team.target
    if target is None or target.name != name:
        raise Refused("bad_value", f"There is no agent {name[:64]!r}.")
    r.require_may_work(task, target, facts)
    others = remaining_agents(task, facts, without=(name,))
    had = task.claim or task.submission
    source = had.agent if had else ""
    return pass_to_agent(
        task,
        target,
        context,
        source=source,
        why="by the user's decision",
        is_last=facts.team.has_team and not others,
        guidance=guidance,
    )


def answer_by_command(task: Task, option: str, context: c.CommandContext) -> Events:
    """The answer to the open question that another command of the user implies; empty without a question."""
    escalation = task.open_escalation
    if escalation is None:
        return ()
    if not context.actor.is_user:
        raise Refused("user_only", f"{task.label} awaits the user's decision; only the user may make it.")
    return (EscalationAnswered(task_id=task.id, escalation_id=escalation.id, option=option),)
