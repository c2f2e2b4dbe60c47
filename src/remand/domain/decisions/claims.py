"""Decisions on claims: taking, keeping and returning tasks, submitting work, the meaning of stops, lockouts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.access.team import Member, Role, Team, fold_name
from remand.domain.decisions import escalations, runs
from remand.domain.decisions import handoffs as h
from remand.domain.decisions.gates import require_passing_verdict
from remand.domain.decisions.handoffs import pass_to_agent, remaining_agents
from remand.domain.decisions.notices import ask_user
from remand.domain.decisions.runs import end_lost_runs
from remand.domain.events import tasks as task_events
from remand.domain.events.event import Event, Events
from remand.domain.events.reviews import LockoutSet
from remand.domain.events.tasks import HandoffLapsed
from remand.domain.events.work import IdleStopCounted
from remand.domain.instant import add_seconds
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.task import CLAIMABLE, TERMINAL, Lockout, LockoutCause, Status, Task
from remand.domain.text.words import format_count


def claim_task(
    task: Task, command: c.ClaimTask, context: c.CommandContext
) -> tuple[task_events.TaskClaimed | task_events.HandoffAccepted]:
    r.require_claimable(task, context.actor, context)
    for offer in task.claims.offers:
        if offer.target == command.agent and offer.lapses_at > context.at:
            return (h.accept_offer(task, offer, context),)
    return (
        task_events.TaskClaimed(
            task_id=task.id,
            handoff_id=context.facts.fresh.handoff_id,
            agent=context.actor.name,
            attempt=task.claims.attempt_count + 1,
            epoch=task.claims.epoch + 1,
            lease_expires_at=add_seconds(context.at, context.facts.policy.lease_seconds),
            branch=task.branch,
            base=context.facts.work.base,
        ),
    )


def assign_task(task: Task, command: c.AssignTask, context: c.CommandContext) -> Events:
    """A claim for an agent with its own rights, and the start of its run."""
    agent = context.facts.team.target
    if agent is None:
        raise Refused("bad_value", "Name the agent for the task.")
    if task.runs:
        run = task.runs[0]
        raise Refused("already_running", f"{run.agent} is still working on task {task.id} (run {run.id}).")
    own = replace(context, actor=agent, command=c.ClaimTask(agent=agent.name, task_id=task.id))
    (claimed,) = claim_task(task, c.ClaimTask(agent=agent.name, task_id=task.id), own)
    return (claimed, runs.begin_assigned_run(task, claimed, context))


def renew_lease(task: Task, command: c.Heartbeat, context: c.CommandContext) -> Events:
    claim = r.require_claim(task, command, context.at)
    lease = context.facts.policy.lease_seconds
    if claim.lease_expires_at > add_seconds(context.at, lease / 2):
        return ()
    return (
        task_events.LeaseRenewed(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            lease_expires_at=add_seconds(context.at, lease),
        ),
    )


def release_task(task: Task, command: c.ReleaseTask, context: c.CommandContext) -> Events:
    """Returns the task unchanged."""
    return _end_claim(task_events.TaskReleased, task, command, context)


def continue_task(task: Task, command: c.ContinueTask, context: c.CommandContext) -> Events:
    """Pauses the task so that another session can continue it."""
    return _end_claim(task_events.TaskContinued, task, command, context)


def _end_claim(
    kind: type[task_events.TaskReleased | task_events.TaskContinued],
    task: Task,
    command: c.ClaimCommand,
    context: c.CommandContext,
) -> Events:
    claim = r.require_claim(task, command, context.at)
    r.require_text("reason", command.reason)
    r.require_unused_exit(task, claim.agent, kind)
    ended = kind(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=command.reason)
    return (ended, *_question_after_return(task, context))


def fail_task(task: Task, command: c.FailTask, context: c.CommandContext) -> Events:
    claim = r.require_claim(task, command, context.at)
    r.require_text("reason", command.reason)
    failed = task_events.TaskFailed(
        task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=command.reason
    )
    return (failed, *h.lock_out_after_giving_up(task, claim.agent, context))


def wait_task(task: Task, command: c.WaitTask, context: c.CommandContext) -> Events:
    claim = r.require_claim(task, command, context.at)
    r.require_text("thing waited for (--for)", command.reason, may_be_empty=False)
    r.require_unused_exit(task, claim.agent, task_events.TaskWaiting)
    if context.facts.links.closed_tasks:
        ended = ", ".join(context.facts.links.closed_tasks)
        raise Refused(
            "nothing_to_wait_for", f"The task cannot wait for what has ended or does not exist: {ended}."
        )
    return (
        task_events.TaskWaiting(
            task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, waiting_for=command.reason
        ),
    )


def submit_task(task: Task, command: c.SubmitTask, context: c.CommandContext) -> Events:
    claim = h.require_done_claim(task, command, context)
    facts = context.facts
    return (
        *require_passing_verdict(task, claim, context),
        task_events.TaskSubmitted(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            commit=facts.work.commit,
            tree=facts.work.tree,
            branch=h.recorded_branch(task, command, facts),
            is_branch_given=command.is_branch_given,
            pr=command.pr,
        ),
    )


def expire_lease(task: Task, command: c.ExpireLease, context: c.CommandContext) -> Events:
    lapsed = tuple(
        task_events.HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id)
        for offer in task.claims.offers
        if offer.lapses_at <= context.at
    )
    claim = task.claim
    if claim is None or claim.lease_expires_at > context.at:
        return lapsed
    expired = task_events.LeaseExpired(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent)
    runs, question = end_lost_runs(task, claim, context)
    return (*lapsed, *runs, expired, *(question or _question_after_return(task, context)))


def _question_after_return(task: Task, context: c.CommandContext) -> Events:
    """Repeats the question if the user took over the task and does not finish it: perhaps nobody else may have it."""
    if task.claim is None or task.claim.agent != task.people.fixer:
        return ()
    return (ask_user(task, "asked", f"{task.people.fixer} returned {task.label} unfinished", context),)


# Stops.


class StopState(Record, kw_only=True):
    """The known facts about a stop."""

    agent: str = ""
    """The agent that stopped; empty if only the task is known."""
    commit: str = ""
    """The head of the branch."""
    uncommitted: tuple[str, ...] = ()
    has_fault: bool = False
    """Whether the work cannot be read."""
    is_unreadable: bool = False
    """Whether the host's call could not be parsed."""
    has_background_work: bool = False
    has_waited: bool = False
    """Whether the session was already allowed to stop once to wait for something."""


class StopMeaning(StrEnum):
    """The interpretation of a stop."""

    END = "end"
    """The session may end: it no longer holds the task, or its own background work continues."""
    WAIT = "wait"
    """The agent waits for a named condition and may end once."""
    UNREADABLE = "unreadable"
    FAULT = "fault"
    UNCOMMITTED = "uncommitted"
    NOTHING_COMMITTED = "nothing_committed"
    DONE_CLAIM = "done_claim"
    """There are commits to measure."""


def stop_meaning(task: Task | None, stop: StopState) -> StopMeaning:
    """The meaning of an agent's stop for the task it holds."""
    claim = task.claim if task is not None else None
    if task is None or claim is None or task.status != Status.CLAIMED or stop.agent not in ("", claim.agent):
        return StopMeaning.END
    if stop.is_unreadable:
        return StopMeaning.UNREADABLE
    if stop.has_background_work:
        return StopMeaning.END
    if task.claims.waiting_for and not stop.has_waited:
        return StopMeaning.WAIT
    if stop.has_fault:
        return StopMeaning.FAULT
    if stop.uncommitted:
        return StopMeaning.UNCOMMITTED
    if stop.commit in ("", claim.base):
        return StopMeaning.NOTHING_COMMITTED
    return StopMeaning.DONE_CLAIM


def count_idle_stop(task: Task, command: c.CountIdleStop, context: c.CommandContext) -> Events:
    """Counts a stop with nothing to measure, on any host; the last permitted one in a row asks the user.

    A repeated report is not another stop, and one of an earlier claim does not count for this one.
    """
    claim = task.claim
    if (
        claim is None
        or claim.handoff_id != command.handoff_id
        or (command.key and command.key == claim.idle_key)
    ):
        return ()
    number = claim.idle_stops + 1
    counted = IdleStopCounted(
        task_id=task.id,
        handoff_id=claim.handoff_id,
        agent=claim.agent,
        number=number,
        key=command.key,
        commit=command.commit,
    )
    if number < context.facts.policy.escalate_after_gates:
        return (counted,)
    why = f"{claim.agent} stopped {format_count(number, 'time')} with nothing to measure"
    detail = f": {command.reason[:300]}" if command.reason else ""
    return (counted, ask_user(task, "gates", f"{why}{detail}", context))


def lock_out_agent(task: Task, command: c.LockOut, context: c.CommandContext) -> Events:
    """Locks an agent out of the task; if nobody can take it then, the user is asked."""
    r.require_names(command.agent)
    r.require_text("reason", command.reason, may_be_empty=False)
    r.require_disinterested(task, context.actor)
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status}; nobody can work on it.")
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
    """Clears an agent's lockout; for an escalated task that is the answer.

    A reservation for another agent that nobody has taken ends: the user wants this agent to continue.
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
    """Gives the task to another agent. The previous agent's lockout remains."""
    facts = context.facts
    r.require_names(command.source, command.target)
    r.require_text("reason", command.reason)
    r.require_disinterested(task, context.actor)
    if facts.team.target is None:
        raise Refused("bad_value", "Name the agent for the task.")
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
"""Members by name, each with the locked-out name that may be theirs."""


def add_team_to_lockouts(task: Task, events: Sequence[Event], members: Sequence[str]) -> tuple[Event, ...]:
    """The events of a command, with the other current team members added to each lockout.

    These are not the locked-out agent, whatever names are used later. That is known only while the agent itself is on
    the team; further lockouts then inherit what was known at the first.
    """
    if LockoutSet not in map(type, events):
        return tuple(events)
    return tuple(
        [_with_team(task, event, members) if isinstance(event, LockoutSet) else event for event in events]
    )


def _with_team(task: Task, event: LockoutSet, members: Sequence[str]) -> LockoutSet:
    if event.agent in members:
        return replace(event, team=tuple(sorted(name for name in members if name != event.agent)))
    known = next((lockout.team for lockout in task.people.lockouts if lockout.agent == event.agent), ())
    return replace(event, team=event.team or known)


def find_possible_identities(
    team: Team, lockouts: Iterable[Lockout], has_part: Callable[[str], bool]
) -> PossibleIdentities:
    """The members who joined after a locked-out one had left: each may be the same person under a new name.

    The user says which one: with `aliases` of the member, or `former` of the team. If a lockout does not record the
    team, members who `has_part` says are involved in a task count as others.
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
