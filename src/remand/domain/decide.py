"""What may happen: a command on a task becomes events, or a refusal."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.decisions.lockouts import add_team_to_lockouts
from remand.domain.decisions.notices import mark_overrides
from remand.domain.events.event import Events
from remand.domain.refusals import Refused, unknown_handoff_refusal, unknown_task_refusal
from remand.domain.registry import RULES
from remand.domain.task import Task


def decide(task: Task | None, context: c.CommandContext) -> Events | Refused:
    """The events that follow from a command, or the refusal of it."""
    command, actor, facts = context.command, context.actor, context.facts
    rule = RULES[type(command)]
    try:
        r.require_distinct_names(facts)
        r.require_role(rule.roles, actor)
        r.require_names(actor.name)
        if rule.is_by_agent:
            r.require_own_name(getattr(command, "agent", ""), actor)
        if isinstance(command, c.AddTask):
            return rule.decide(task, command, context)
        if task is None:
            raise _missing_task_refusal(context)
        events = rule.decide(task, command, context)
        if any(map(r.needs_complete_log, events)):
            r.require_whole_log(task, facts)
        return mark_overrides(add_team_to_lockouts(task, events, facts.team.members), actor)
    except Refused as refusal:
        return refusal


def _missing_task_refusal(context: c.CommandContext) -> Refused:
    command = context.command
    if isinstance(command, c.ClaimTask) and not command.task_id:
        r.require_agent(context.actor, context.facts)
    if isinstance(command, c.ClaimTask | c.AssignTask) and not command.task_id:
        return Refused("nothing_to_claim", f"There is no free task for {command.agent} now.")
    if isinstance(command, c.HandoffCommand):
        return unknown_handoff_refusal(command.handoff_id)
    return unknown_task_refusal(getattr(command, "task_id", ""))
