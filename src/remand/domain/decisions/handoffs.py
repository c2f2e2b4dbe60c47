"""What may be decided about handoffs and the claims they become, and who may take a task over."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from remand.domain import commands as c
from remand.domain import ids
from remand.domain import preconditions as r
from remand.domain.access.team import Actor
from remand.domain.decisions.gates import require_release
from remand.domain.events.event import Events
from remand.domain.events.reviews import LockoutSet, TaskReassigned
from remand.domain.events.tasks import HandoffAccepted, HandoffCompleted, HandoffInitiated
from remand.domain.facts import Facts
from remand.domain.instant import add_seconds
from remand.domain.preconditions import is_eligible
from remand.domain.references import unknown_commit_refusal
from remand.domain.refusals import Refused
from remand.domain.task import TERMINAL, Claim, Offer, Task


def accept_offer(task: Task, offer: Offer, command: c.Command, acknowledgment: str = "") -> HandoffAccepted:
    return HandoffAccepted(
        task_id=task.id,
        handoff_id=offer.handoff_id,
        agent=command.actor.name,
        acknowledgment=acknowledgment,
        attempt=task.claims.attempt_count + 1,
        epoch=task.claims.epoch + 1,
        lease_expires_at=add_seconds(command.at, command.facts.policy.lease_seconds),
        branch=task.branch,
        base=command.facts.work.base,
    )


def accept_handoff(task: Task, ask: c.AcceptHandoff, command: c.Command) -> Events:
    r.require_text("acknowledgment", ask.acknowledgment)
    offer = task.find_offer(ask.handoff_id)
    if offer is None or offer.lapses_at <= command.at:
        raise Refused("handoff_closed", f"The handoff {ask.handoff_id} on task {task.id} is not open.")
    if offer.target != command.actor.name:
        raise Refused(
            "not_yours", f"The handoff {ask.handoff_id} is for {offer.target}, not for {ask.agent}."
        )
    r.require_claimable(task, command.actor, command)
    return (accept_offer(task, offer, command, ask.acknowledgment),)


def complete_handoff(task: Task, ask: c.CompleteHandoff, command: c.Command) -> Events:
    if task.find_offer(ask.handoff_id) is not None:
        raise Refused("bad_transition", f"The handoff {ask.handoff_id} is not accepted yet. Accept it first.")
    if task.claim is None or task.claim.handoff_id != ask.handoff_id:
        raise Refused("handoff_closed", f"The handoff {ask.handoff_id} on task {task.id} is not open.")
    under = c.SubmitTask(
        task_id=task.id,
        agent=ask.agent,
        handoff_id=ask.handoff_id,
        commit=ask.commit,
        branch=ask.branch,
        is_branch_given=ask.is_branch_given,
        pr=ask.pr,
    )
    claim = require_done_claim(task, under, command)
    r.require_text("result", ask.result)
    return (
        *require_release(task, claim, command),
        HandoffCompleted(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            commit=command.facts.work.commit,
            tree=command.facts.work.tree,
            branch=recorded_branch(task, under, command.facts),
            is_branch_given=ask.is_branch_given,
            pr=ask.pr,
            result={"text": ask.result} if ask.result else {},
        ),
    )


def initiate_handoff(task: Task, ask: c.InitiateHandoff, command: c.Command) -> Events:
    facts = command.facts
    r.require_names(ask.target, ask.source)
    r.require_text("instructions", ask.instructions)
    r.require_own_handoff_id(ask, facts)
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status}; it cannot be handed off.")
    if facts.team.target is None:
        raise Refused("bad_value", "Name the agent that gets the task.")
    r.require_claimable(task, facts.team.target, command)
    return (
        HandoffInitiated(
            task_id=task.id,
            handoff_id=ids.parse_handoff_id(ask.own_id) or facts.fresh.handoff_id,
            source_agent=ask.source or command.actor.name,
            target_agent=facts.team.target.name,
            instructions=ask.instructions,
            lapses_at=add_seconds(command.at, facts.policy.lease_seconds),
            context={
                "task_title": task.title,
                "task_status": task.status,
                "task_priority": task.details.priority,
            },
        ),
    )


def require_done_claim(task: Task, ask: c.SubmitTask, command: c.Command) -> Claim:
    """The claim under which work may be handed in: held, not locked out, at a real commit."""
    r.require_not_locked_out(task, ask.agent, command.facts)
    r.require_branch(ask.branch)
    r.require_number("pull request number", ask.pr)
    r.require_own_pull_request(ask.pr, command.facts)
    claim = r.require_claim(task, ask, command.at)
    if not command.facts.work.commit:
        raise unknown_commit_refusal(ask.commit)
    if claim.read < task.reviews.feedback and task.people.fixer != ask.agent:
        raise Refused(
            "feedback_unread",
            f"{ask.agent} has not read the latest feedback on task {task.id}. Read `remand task prompt {task.id} --agent {ask.agent}` first.",
        )
    _require_commit_on_branch(task, ask, command.facts)
    r.require_whole_log(task, command.facts)
    return claim


def submission_branch(task: Task, ask: c.SubmitTask | c.CompleteHandoff) -> str:
    """The branch that work is handed in from: the one that is named, else the task's, else the one checked out."""
    return ask.branch if ask.is_branch_given else task.branch or ask.branch


def recorded_branch(task: Task, ask: c.SubmitTask, facts: Facts) -> str:
    """The branch that goes into the event; a checked-out one that does not have the commit says nothing of the work."""
    is_unrelated = not ask.is_branch_given and not task.branch and facts.work.on_branch is False
    return "" if is_unrelated else ask.branch


def _require_commit_on_branch(task: Task, ask: c.SubmitTask, facts: Facts) -> None:
    """Refuses a branch that does not have the commit, and a new one that is the base or another task's.

    What is reviewed and merged is the branch: were it another, no approval could ever count. The user who mends a task
    by hand may do so anywhere.
    """
    if ask.agent == task.people.fixer:
        return
    name, short = submission_branch(task, ask), facts.work.commit[:12]
    is_new = ask.is_branch_given and name != task.branch
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
    if facts.work.on_branch is False and (ask.is_branch_given or task.branch):
        raise Refused(
            "not_on_branch", f"{short} is not on the branch {name}. {_branch_advice(task, ask, facts)}"
        )


def _branch_advice(task: Task, ask: c.SubmitTask, facts: Facts) -> str:
    """What to do about a commit that is not on the branch that it is handed in from."""
    if not ask.is_branch_given and ask.branch not in ("", task.branch, facts.work.base_branch):
        return f"If it is on {ask.branch}, submit it with `--branch {ask.branch}`."
    if ask.is_branch_given and task.branch not in ("", ask.branch):
        return f"The branch of task {task.id} is {task.branch}."
    return "Move it to that branch, or name the branch that contains it with `--branch`."


def lock_out_after_giving_up(task: Task, agent: str, command: c.Command) -> Events:
    """What follows when an agent has rejected a task without earning it, or given it up, once too often."""
    if task.rejections.invalid_by.count(agent) + 1 < command.facts.policy.max_invalid_rejections:
        return ()
    if task.is_locked_out(agent):
        return ()
    times = task.rejections.invalid_by.count(agent) + 1
    reason = f"it rejected this task {times} times without justification"
    return (LockoutSet(task_id=task.id, agent=agent, reason=reason),)


def make_offer(
    task: Task, agent: str, handoff_id: str, command: c.Command, text: str = ""
) -> HandoffInitiated:
    return HandoffInitiated(
        task_id=task.id,
        handoff_id=handoff_id,
        source_agent=command.actor.name,
        target_agent=agent,
        instructions=text,
        lapses_at=add_seconds(command.at, command.facts.policy.lease_seconds),
        context={
            "task_title": task.title,
            "task_status": task.status,
            "task_priority": task.details.priority,
        },
    )


_STEM = 3
"""A skill is found in a text by its first letters: so many at least, and more than half of the longer word."""


def remaining_agents(task: Task, facts: Facts, *, without: Collection[str] = ()) -> list[Actor]:
    """The agents of the team that may work on the task, in the team's order."""
    return [
        agent
        for agent in facts.team.agents
        if agent.name not in without
        and r.find_lockout(task, agent.name, facts.lockouts) is None
        and is_eligible(task, agent)
    ]


def best_agent(
    agents: Iterable[Actor], text: str, room: Mapping[str, int] | None = None
) -> tuple[Actor, tuple[str, ...]]:
    """The agent that knows most of what a text is about, with those skills.

    Of those who know as much it is the one that could take on most; then the team's order settles it.
    """
    free = room or {}
    words = frozenset(re.findall(r"\w+", text.lower()))
    known = [
        (agent, tuple(sorted(skill for skill in agent.skills if _mentions_skill(skill, words))))
        for agent in agents
    ]
    return max(known, key=lambda pair: (len(pair[1]), free.get(pair[0].name, 0)))


def _mentions_skill(skill: str, words: Collection[str]) -> bool:
    """True when a text has words that are or begin like those of the skill: `accessibility`, `accessible`."""
    parts = re.findall(r"\w+", skill.lower())
    return bool(parts) and all(any(_is_similar_word(part, word) for word in words) for part in parts)


def _is_similar_word(one: str, other: str) -> bool:
    pairs = enumerate(zip(one, other, strict=False))
    same = next((place for place, (mine, its) in pairs if mine != its), min(len(one), len(other)))
    return one == other or (same >= _STEM and same > 0.55 * max(len(one), len(other)))


def pass_to_agent(
    task: Task, to: Actor, command: c.Command, *, source: str, why: str, is_last: bool, guidance: str = ""
) -> Events:
    """Gives the task to another agent: said once, and reserved for one lease."""
    return (
        TaskReassigned(task_id=task.id, target=to.name, source=source, reason=why, is_last=is_last),
        make_offer(task, to.name, command.facts.fresh.handoff_id, command, guidance),
    )
