"""What may happen: a command on a task becomes events, or a refusal."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.decisions.lockouts import add_team_to_lockouts
from remand.domain.decisions.notices import mark_overrides
from remand.domain.events.event import Events
from remand.domain.references import unknown_handoff_refusal, unknown_task_refusal
from remand.domain.refusals import Refused
from remand.domain.registry import RULES
from remand.domain.task import Task


def decide(task: Task | None, command: c.Command) -> Events | Refused:
    """The events that follow from a command, or the refusal of it."""
    ask, actor, facts = command.ask, command.actor, command.facts
    rule = RULES[type(ask)]
    try:
        r.require_distinct_names(facts)
        r.require_role(rule.roles, actor)
        r.require_names(actor.name)
        if rule.is_by_agent:
            r.require_own_name(getattr(ask, "agent", ""), actor)
        if isinstance(ask, c.AddTask):
            return rule.decide(task, ask, command)
        if task is None:
            raise _missing_task_refusal(command)
        events = rule.decide(task, ask, command)
        if any(map(r.is_release, events)):
            r.require_whole_log(task, facts)
        return mark_overrides(add_team_to_lockouts(task, events, facts.team.members), actor)
    except Refused as refusal:
        return refusal


def _missing_task_refusal(command: c.Command) -> Refused:
    ask = command.ask
    if isinstance(ask, c.ClaimTask) and not ask.task_id:
        r.require_agent(command.actor, command.facts)
    if isinstance(ask, c.ClaimTask | c.AssignTask) and not ask.task_id:
        return Refused("nothing_to_claim", f"There is no free task for {ask.agent} now.")
    if isinstance(ask, c.HandoffAsk):
        return unknown_handoff_refusal(ask.handoff_id)
    return unknown_task_refusal(getattr(ask, "task_id", ""))
