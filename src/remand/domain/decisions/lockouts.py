"""What may be decided about lockouts and reassignments, and which members may be a locked-out one under a new name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.access.team import Member, Role, Team, fold_name
from remand.domain.decisions import escalations
from remand.domain.decisions.handoffs import pass_to_agent, remaining_agents
from remand.domain.events.event import Event, Events
from remand.domain.events.reviews import LockoutSet
from remand.domain.events.tasks import HandoffLapsed
from remand.domain.refusals import Refused
from remand.domain.task import CLAIMABLE, TERMINAL, Lockout, LockoutCause, Status, Task


def lock_out_agent(task: Task, command: c.LockOut, context: c.CommandContext) -> Events:
    """Keeps an agent away from the task; with nobody left for it, the user is asked."""
    r.require_names(command.agent)
    r.require_text("reason", command.reason, may_be_empty=False)
    r.require_disinterested(task, context.actor)
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status}; nobody can work on it any more.")
    if any(
        lockout.agent == command.agent and LockoutCause() in lockout.causes
        for lockout in task.people.lockouts
    ):
        return ()
    lockout = LockoutSet(task_id=task.id, agent=command.agent, reason=command.reason)
    is_free = task.status in CLAIMABLE or (task.claim is not None and task.claim.agent == command.agent)
    return (
        lockout,
        *(escalations.deadlock_question(task, context, without=(command.agent,)) if is_free else ()),
    )


def unlock_agent(task: Task, command: c.Unlock, context: c.CommandContext) -> Events:
    """Lets an agent work on the task again; on an escalated task that is the answer.

    What was reserved for a colleague and nobody has taken yet is free: the user wants this agent to continue.
    """
    r.require_text("reason", command.reason, may_be_empty=False)
    r.require_text("guidance", command.guidance)
    cleared = escalations.clear_lockout(task, command.agent, command.reason, command.guidance, context)
    answered = escalations.answer_by_command(task, f"unlock:{command.agent}", context)
    if not answered:
        others = (offer for offer in task.claims.offers if offer.target != command.agent)
        freed = (HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id) for offer in others)
        return (*cleared, *freed)
    return (*cleared, *answered, *escalations.reserve_for_agent(task, command.agent, context))


def reassign_task(task: Task, command: c.ReassignTask, context: c.CommandContext) -> Events:
    """Lets another agent continue. Who had the task keeps its lockout."""
    facts = context.facts
    r.require_names(command.source, command.target)
    r.require_text("reason", command.reason)
    r.require_disinterested(task, context.actor)
    if facts.team.target is None:
        raise Refused("bad_value", "Name the agent that gets the task.")
    if task.status not in CLAIMABLE | {Status.CLAIMED, Status.ESCALATED}:
        raise Refused(
            "bad_transition", f"Task {task.id} is {task.status}; it cannot be reassigned from there."
        )
    had = task.claim.agent if task.claim else (task.submission.agent if task.submission else "")
    is_reserved = any(offer.target == command.source for offer in task.claims.offers)
    is_free_to_name = task.claim is None and (is_reserved or task.is_locked_out(command.source))
    if command.source and command.source != had and not is_free_to_name:
        raise Refused(
            "bad_value", f"{command.source} does not have {task.label}; {had or 'nobody'} had it last."
        )
    if task.claim is not None and task.claim.agent == facts.team.target.name:
        return ()
    r.require_may_work(task, facts.team.target, facts)
    if facts.links.open_blockers:
        raise Refused("waits_on_other", f"Task {task.id} waits for {', '.join(facts.links.open_blockers)}.")
    answered = escalations.answer_by_command(task, f"reassign:{facts.team.target.name}", context)
    is_last = facts.team.has_team and not remaining_agents(task, facts, without=(facts.team.target.name,))
    why = command.reason or f"by {context.actor.name}"
    return (
        *answered,
        *pass_to_agent(
            task, facts.team.target, context, source=command.source or had, why=why, is_last=is_last
        ),
    )


PossibleIdentities = tuple[tuple[str, str], ...]
"""Members by name, each with the name of the locked-out one that it may be."""


def add_team_to_lockouts(task: Task, events: Sequence[Event], members: Sequence[str]) -> tuple[Event, ...]:
    """The events of a command, each lockout with the other members of the team as it is now.

    They are not the one that is locked out, whatever either will be called. That is only known while it is on the team
    itself; later on, what was known of its first lockout goes on to further ones.
    """
    return tuple(
        _with_team(task, event, members) if isinstance(event, LockoutSet) else event for event in events
    )


def _with_team(task: Task, event: LockoutSet, members: Sequence[str]) -> LockoutSet:
    if event.agent in members:
        return replace(event, team=tuple(sorted(name for name in members if name != event.agent)))
    known = next((lockout.team for lockout in task.people.lockouts if lockout.agent == event.agent), ())
    return replace(event, team=event.team or known)


def find_possible_identities(
    team: Team, lockouts: Iterable[Lockout], has_part: Callable[[str], bool]
) -> PossibleIdentities:
    """The members who came after a locked-out one had left: each may be the same under a new name.

    The user says which it is: `aliases` of the member, or `former` of the team. Where a lockout does not tell who was
    there, those count as others who `has_part` says have a part in a task.
    """
    if not team.members:
        return ()
    gone = [lockout for lockout in lockouts if not team.has_name(lockout.agent)]
    return tuple(
        (member.name, lockout.agent)
        for lockout in gone
        for member in team.members
        if Role.USER not in member.roles and not _was_on_team(member, lockout, has_part)
    )


def _was_on_team(member: Member, lockout: Lockout, has_part: Callable[[str], bool]) -> bool:
    names = (member.name, *member.aliases, *member.accounts)
    if not lockout.team:
        return any(map(has_part, names))
    return not {fold_name(name) for name in lockout.team}.isdisjoint(map(fold_name, names))
