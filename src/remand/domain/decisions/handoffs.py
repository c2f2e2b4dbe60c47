"""Decisions on handoffs and the claims they become, and who may take over a task."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from remand.domain import commands as c
from remand.domain import ids
from remand.domain import preconditions as r
from remand.domain.access.team import Actor
from remand.domain.decisions.gates import require_passing_verdict
from remand.domain.events.event import Events
from remand.domain.events.reviews import LockoutSet, TaskReassigned
from remand.domain.events.tasks import HandoffAccepted, HandoffCompleted, HandoffInitiated
from remand.domain.facts import Facts
from remand.domain.instant import add_seconds
from remand.domain.preconditions import is_eligible
from remand.domain.refusals import Refused, unknown_commit_refusal
from remand.domain.task import TERMINAL, Claim, Offer, Task
from remand.domain.text.words import times_text


def accept_offer(
    task: Task, offer: Offer, context: c.CommandContext, acknowledgment: str = ""
) -> HandoffAccepted:
    return HandoffAccepted(
        task_id=task.id,
        handoff_id=offer.handoff_id,
        agent=context.actor.name,
        acknowledgment=acknowledgment,
        attempt=task.claims.attempt_count + 1,
        epoch=task.claims.epoch + 1,
        lease_expires_at=add_seconds(context.at, context.facts.policy.lease_seconds),
        branch=task.branch,
        base=context.facts.work.base,
    )


def accept_handoff(task: Task, command: c.AcceptHandoff, context: c.CommandContext) -> Events:
    r.require_text("acknowledgment", command.acknowledgment)
    offer = task.find_offer(command.handoff_id)
    if offer is None or offer.lapses_at <= context.at:
        raise Refused("handoff_closed", f"The handoff {command.handoff_id} on task {task.id} is not open.")
    if offer.target != context.actor.name:
        raise Refused(
            "not_yours", f"The handoff {command.handoff_id} is for {offer.target}, not for {command.agent}."
        )
    r.require_claimable(task, context.actor, context)
    return (accept_offer(task, offer, context, command.acknowledgment),)


def complete_handoff(task: Task, command: c.CompleteHandoff, context: c.CommandContext) -> Events:
    if task.find_offer(command.handoff_id) is not None:
        raise Refused(
            "bad_transition", f"The handoff {command.handoff_id} is not accepted yet. Accept it first."
        )
    if task.claim is None or task.claim.handoff_id != command.handoff_id:
        raise Refused("handoff_closed", f"The handoff {command.handoff_id} on task {task.id} is not open.")
    under = c.SubmitTask(
        task_id=task.id,
        agent=command.agent,
        handoff_id=command.handoff_id,
        commit=command.commit,
        branch=command.branch,
        is_branch_given=command.is_branch_given,
        pr=command.pr,
    )
    claim = require_done_claim(task, under, context)
    r.require_text("result", command.result)
    return (
        *require_passing_verdict(task, claim, context),
        HandoffCompleted(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            commit=context.facts.work.commit,
            tree=context.facts.work.tree,
            branch=recorded_branch(task, under, context.facts),
            is_branch_given=command.is_branch_given,
            pr=command.pr,
            result={"text": command.result} if command.result else {},
        ),
    )


def initiate_handoff(task: Task, command: c.InitiateHandoff, context: c.CommandContext) -> Events:
    facts = context.facts
    r.require_names(command.target, command.source)
    r.require_text("instructions", command.instructions)
    r.require_own_handoff_id(command, facts)
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status}; it cannot be handed off.")
    if facts.team.target is None:
        raise Refused("bad_value", "Name the agent for the task.")
    r.require_claimable(task, facts.team.target, context)
    return (
        HandoffInitiated(
            task_id=task.id,
            handoff_id=ids.parse_handoff_id(command.own_id) or facts.fresh.handoff_id,
            source_agent=command.source or context.actor.name,
            target_agent=facts.team.target.name,
            instructions=command.instructions,
            lapses_at=add_seconds(context.at, facts.policy.lease_seconds),
            context={
                "task_title": task.title,
                "task_status": task.status,
                "task_priority": task.details.priority,
            },
        ),
    )


def require_done_claim(task: Task, command: c.SubmitTask, context: c.CommandContext) -> Claim:
    """The claim under which work may be submitted: active, not locked out, at an existing commit."""
    r.require_not_locked_out(task, command.agent, context.facts)
    r.require_branch(command.branch)
    r.require_number("pull request number", command.pr)
    r.require_own_pull_request(command.pr, context.facts)
    claim = r.require_claim(task, command, context.at)
    if not context.facts.work.commit:
        raise unknown_commit_refusal(command.commit)
    if claim.read < task.reviews.feedback and task.people.fixer != command.agent:
        raise Refused(
            "feedback_unread",
            f"{command.agent} has not read the latest feedback on task {task.id}. First read "
            f"`remand task prompt {task.id} --agent {command.agent}`, or call the MCP tool `feedback`.",
        )
    _require_commit_on_branch(task, command, context.facts)
    r.require_whole_log(task, context.facts)
    return claim


def submission_branch(task: Task, command: c.SubmitTask | c.CompleteHandoff) -> str:
    """The branch of a submission: the given one, else the task's, else the one checked out."""
    return command.branch if command.is_branch_given else task.branch or command.branch


def recorded_branch(task: Task, command: c.SubmitTask, facts: Facts) -> str:
    """The branch to record; a checked-out branch without the commit is irrelevant."""
    is_unrelated = not command.is_branch_given and not task.branch and facts.work.on_branch is False
    return "" if is_unrelated else command.branch


def _require_commit_on_branch(task: Task, command: c.SubmitTask, facts: Facts) -> None:
    """Refuses a branch without the commit, and a new one that is the base or another task's.

    The branch is what is reviewed and merged: with another one no approval could ever count. A user who fixes a task by
    hand may use any branch.
    """
    if command.agent == task.people.fixer:
        return
    name, short = submission_branch(task, command), facts.work.commit[:12]
    is_new = command.is_branch_given and name != task.branch
    if is_new and facts.work.branch_of:
        raise Refused(
            "taken",
            f"The branch {name} belongs to task {facts.work.branch_of}. Submit the work from another branch.",
        )
    if is_new and task.branch and name == facts.work.base_branch:
        raise Refused(
            "bad_value",
            f"{name} is the base. Submit the work from {task.branch}, or from another branch of its own.",
        )
    if is_new and task.branch and facts.work.on_branch is None:
        raise Refused(
            "not_on_branch", f"There is no branch {name} here. The branch of task {task.id} is {task.branch}."
        )
    if facts.work.on_branch is False and (command.is_branch_given or task.branch):
        raise Refused(
            "not_on_branch", f"{short} is not on the branch {name}. {_branch_advice(task, command, facts)}"
        )


def _branch_advice(task: Task, command: c.SubmitTask, facts: Facts) -> str:
    """What to do about a commit that is not on its submission's branch."""
    if not command.is_branch_given and command.branch not in ("", task.branch, facts.work.base_branch):
        return f"If it is on {command.branch}, submit it with `--branch {command.branch}`."
    if command.is_branch_given and task.branch not in ("", command.branch):
        return f"The branch of task {task.id} is {task.branch}."
    return "Move it to that branch, or name the branch that contains it with `--branch`."


def lock_out_after_giving_up(
    task: Task, agent: str, context: c.CommandContext, rejection_id: str = ""
) -> Events:
    """The consequences when an agent has filed too many invalid rejections of a task, or given it up too often."""
    if task.rejections.invalid_by.count(agent) + 1 < context.facts.policy.max_invalid_rejections:
        return ()
    if task.is_locked_out(agent):
        return ()
    times = task.rejections.invalid_by.count(agent) + 1
    reason = f"it rejected this task {times_text(times)} without justification"
    return (LockoutSet(task_id=task.id, agent=agent, reason=reason, rejection_id=rejection_id),)


def make_offer(
    task: Task, agent: str, handoff_id: str, context: c.CommandContext, text: str = ""
) -> HandoffInitiated:
    return HandoffInitiated(
        task_id=task.id,
        handoff_id=handoff_id,
        source_agent=context.actor.name,
        target_agent=agent,
        instructions=text,
        lapses_at=add_seconds(context.at, context.facts.policy.lease_seconds),
        context={
            "task_title": task.title,
            "task_status": task.status,
            "task_priority": task.details.priority,
        },
    )


_STEM = 3
"""Skills match words by their first letters: at least this many, and more than half of the longer word."""


def remaining_agents(task: Task, facts: Facts, *, without: Collection[str] = ()) -> list[Actor]:
    """The team's agents that may work on the task, in the team's order."""
    return [
        agent
        for agent in facts.team.agents
        if agent.name not in without
        and r.find_lockout(task, agent.name, facts.lockouts) is None
        and is_eligible(task, agent)
    ]


def best_agent(
    agents: Iterable[Actor], text: str, free_capacity: Mapping[str, int] | None = None
) -> tuple[Actor, tuple[str, ...]]:
    """The agent with the most skills that a text mentions, with those skills.

    Ties are broken by free capacity, then by the team's order.
    """
    free = free_capacity or {}
    words = frozenset(re.findall(r"\w+", text.lower()))
    known = [
        (agent, tuple(sorted(skill for skill in agent.skills if _mentions_skill(skill, words))))
        for agent in agents
    ]
    return max(known, key=lambda pair: (len(pair[1]), free.get(pair[0].name, 0)))


def _mentions_skill(skill: str, words: Collection[str]) -> bool:
    """True if a text contains words that equal or start like those of the skill: `accessibility`, `accessible`."""
    parts = re.findall(r"\w+", skill.lower())
    return bool(parts) and all(any(_is_similar_word(part, word) for word in words) for part in parts)


def _is_similar_word(one: str, other: str) -> bool:
    pairs = enumerate(zip(one, other, strict=False))
    same = next((place for place, (mine, its) in pairs if mine != its), min(len(one), len(other)))
    return one == other or (same >= _STEM and same > 0.55 * max(len(one), len(other)))


def pass_to_agent(
    task: Task,
    to: Actor,
    context: c.CommandContext,
    *,
    source: str,
    why: str,
    is_last: bool,
    guidance: str = "",
) -> Events:
    """Gives the task to another agent: recorded once, and reserved for one lease."""
    return (
        TaskReassigned(task_id=task.id, target=to.name, source=source, reason=why, is_last=is_last),
        make_offer(task, to.name, context.facts.fresh.handoff_id, context, guidance),
    )
