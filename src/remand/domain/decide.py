"""What may happen: a command on a task becomes events, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from remand.domain import assigning, escalations, forge_reviews, forging, ids, lockouts, objections
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain import gating as g
from remand.domain import handoffs as h
from remand.domain import reviews as v
from remand.domain import rules as r
from remand.domain.broken_gates import note_measured
from remand.domain.former_names import note_team
from remand.domain.instant import plus
from remand.domain.notices import mark_overrides
from remand.domain.questions import opened
from remand.domain.refusals import Refused
from remand.domain.task import CLAIMABLE, TERMINAL, Status, Task

Events = tuple[e.Event, ...]
HANDOFF_ASKS = (c.AcceptHandoff, c.CompleteHandoff, c.RejectHandoff, c.AnswerRejection, c.GiveOpinion)
"""Asks that name a handoff, and by it the task."""


def decide(task: Task | None, command: c.Command) -> Events | Refused:
    """The events that follow from a command, or the refusal of it."""
    try:
        r.require_distinct_names(command.facts)
        r.require_permission(command.ask, command.actor)
        r.require_names(command.actor.name)
        r.require_own_name(command.ask, command.actor)
        if isinstance(command.ask, c.ImportIssue):
            return _import(task, command.ask, command)
        if isinstance(command.ask, c.AddTask):
            return _add(task, command.ask, command)
        if task is None:
            raise _nothing_there(command)
        events = _RULES[type(command.ask)](task, command.ask, command)
        if any(map(r.is_release, events)):
            r.require_whole_log(task, command.facts)
        return mark_overrides(note_team(task, events, command.facts.members), command.actor)
    except Refused as refusal:
        return refusal


def _nothing_there(command: c.Command) -> Refused:
    ask = command.ask
    if isinstance(ask, c.ClaimTask) and not ask.task_id:
        r.require_agent(command.actor, command.facts)
    if isinstance(ask, c.ClaimTask | c.AssignTask) and not ask.task_id:
        return Refused("nothing_to_claim", f"There is no free task for {ask.agent} now.")
    if isinstance(ask, HANDOFF_ASKS):
        return Refused("unknown_handoff", f"There is no handoff {ask.handoff_id}.")
    return Refused("unknown_task", f"There is no task {getattr(ask, 'task_id', '')}.")


def _add(task: Task | None, ask: c.AddTask, command: c.Command) -> Events:
    facts = command.facts
    if task is not None:
        raise Refused("taken", f"There is a task {task.id} already.")
    r.require_own_task_id(ask, command.actor)
    r.require_text("title", ask.title, r.MAX_TITLE, may_be_empty=False)
    for name, value in (("scope", ask.scope), ("category", ask.category)):
        r.require_text(name, value)
    r.require_branch(ask.branch)
    r.require_skills(ask.skills)
    r.require_priority(ask.priority)
    r.require_aliases(ask.aliases, facts)
    r.require_known(facts)
    node = ids.task_node(ids.task_id(ask.own_id) or facts.fresh_task_id)
    added = e.TaskAdded(
        id=node,
        type="TASK",
        data=e.TaskData(
            title=ask.title,
            description=ask.scope,
            status="pending",
            priority=ask.priority,
            category=ask.category,
            skills=_sorted(ask.skills),
            branch=ask.branch,
            aliases=_sorted(ask.aliases),
        ),
    )
    return (added, *(_depends(node, on) for on in _unique(ask.depends_on)))


def _import(task: Task | None, ask: c.ImportIssue, command: c.Command) -> Events:
    """The task of an issue, under an id that is the same in every ledger."""
    forging.require_issue(ask, command)
    own = replace(command.facts, fresh_task_id=forging.issue_task_id(ask))
    added = _add(task, ask, replace(command, facts=own))
    return (*added, forging.imported(ask, own.fresh_task_id))


def _depends(node: str, on: str) -> e.EdgeCreated:
    return e.EdgeCreated(src=node, tgt=ids.task_node(on), type="DEPENDS_ON")


def _edit(task: Task, ask: c.EditTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status} and cannot be edited.")
    if ask.title is not None:
        r.require_text("title", ask.title, r.MAX_TITLE, may_be_empty=False)
    for name, value in (("scope", ask.scope), ("category", ask.category)):
        r.require_text(name, value or "")
    r.require_branch(ask.branch or "")
    if ask.priority is not None:
        r.require_priority(ask.priority)
    r.require_skills(ask.skills or ())
    r.require_number("pull request number", ask.pr or 0)
    r.require_own_pull_request(ask.pr or 0, command.facts)
    r.require_aliases(ask.aliases or (), command.facts)
    r.require_known(command.facts)
    r.require_no_cycle(command.facts)
    changes = e.TaskChanges(
        title=ask.title,
        description=ask.scope,
        priority=ask.priority,
        category=ask.category,
        skills=None if ask.skills is None else _sorted(ask.skills),
        branch=ask.branch,
        aliases=None if ask.aliases is None else _sorted(ask.aliases),
        pr=ask.pr,
    )
    node = ids.task_node(task.id)
    edited = (e.TaskEdited(id=node, changes=changes),) if changes != e.TaskChanges() else ()
    linked = tuple(_depends(node, on) for on in _unique(ask.depends_on) if on not in task.depends_on)
    dropped = tuple(
        e.EdgeDeleted(src=node, tgt=ids.task_node(on), type="DEPENDS_ON")
        for on in _unique(ask.drop_depends_on)
        if on in task.depends_on
    )
    return (*edited, *linked, *dropped)


def _claim(task: Task, ask: c.ClaimTask, command: c.Command) -> tuple[e.TaskClaimed | e.HandoffAccepted]:
    r.require_claimable(task, command.actor, command)
    offer = next((o for o in task.offers if o.target == ask.agent and o.lapses_at > command.at), None)
    if offer is not None:
        return (h.accepted(task, offer, command),)
    return (
        e.TaskClaimed(
            task_id=task.id,
            handoff_id=command.facts.fresh_handoff_id,
            agent=command.actor.name,
            attempt=task.attempt_count + 1,
            epoch=task.epoch + 1,
            lease_expires_at=plus(command.at, command.facts.lease_seconds),
            branch=task.branch,
            base=command.facts.base,
        ),
    )


def _assign(task: Task, ask: c.AssignTask, command: c.Command) -> Events:
    """A claim for an agent, by the agent's own rights, and the beginning of its run."""
    agent = command.facts.target
    if agent is None:
        raise Refused("bad_value", "Say which agent is to be given the task.")
    if task.runs:
        run = task.runs[0]
        raise Refused("already_running", f"{run.agent} is still at work on task {task.id} (run {run.id}).")
    own = replace(command, actor=agent, ask=c.ClaimTask(agent=agent.name, task_id=task.id))
    (claimed,) = _claim(task, c.ClaimTask(agent=agent.name, task_id=task.id), own)
    return (claimed, assigning.begun(task, claimed, command))


def _check_staff(task: Task, ask: c.CheckStaff, command: c.Command) -> Events:
    """The question to the user, should nobody be left for a task that waits, or an agent have given it up."""
    if task.status is Status.FAILED:
        who = task.invalid_by[-1] if task.invalid_by else "Its agent"
        return (opened(task, "given_up", f"{who} gave {task.label} up without having earned it", command),)
    return escalations.deadlock(task, command) if task.status in CLAIMABLE else ()


def _heartbeat(task: Task, ask: c.Heartbeat, command: c.Command) -> Events:
    claim = r.require_claim(task, ask, command.at)
    lease = command.facts.lease_seconds
    if claim.lease_expires_at > plus(command.at, lease / 2):
        return ()
    return (
        e.LeaseRenewed(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            lease_expires_at=plus(command.at, lease),
        ),
    )


def _under_claim(
    kind: type[e.TaskReleased | e.TaskContinued],
) -> Callable[..., Events]:
    """A decision that ends the agent's own claim with a reason."""

    def rule(task: Task, ask: c.ClaimAsk, command: c.Command) -> Events:
        claim = r.require_claim(task, ask, command.at)
        r.require_text("reason", ask.reason)
        r.require_unused_exit(task, claim.agent, kind)
        ended = kind(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=ask.reason)
        return (ended, *_given_back(task, command))

    return rule


def _fail(task: Task, ask: c.FailTask, command: c.Command) -> Events:
    claim = r.require_claim(task, ask, command.at)
    r.require_text("reason", ask.reason)
    failed = e.TaskFailed(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=ask.reason)
    return (failed, *h.given_up(task, claim.agent, command))


def _wait(task: Task, ask: c.WaitTask, command: c.Command) -> Events:
    claim = r.require_claim(task, ask, command.at)
    r.require_text("thing waited for (--for)", ask.reason, may_be_empty=False)
    r.require_unused_exit(task, claim.agent, e.TaskWaiting)
    if command.facts.closed_tasks:
        ended = ", ".join(command.facts.closed_tasks)
        raise Refused("nothing_to_wait_for", f"What is waited for has ended or never was: {ended}.")
    return (
        e.TaskWaiting(
            task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, waiting_for=ask.reason
        ),
    )


def _submit(task: Task, ask: c.SubmitTask, command: c.Command) -> Events:
    claim = h.done_claim(task, ask, command)
    facts = command.facts
    return (
        *g.released(task, claim, command),
        e.TaskSubmitted(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            commit=facts.commit,
            tree=facts.tree,
            branch=h.branch_taken(task, ask, facts),
            is_branch_given=ask.is_branch_given,
            pr=ask.pr,
        ),
    )


def _about_a_rejection(task: Task, ask: c.Ask, command: c.Command) -> Events:
    """A decision about task rejections. Its module reads much to judge them, so it is loaded with the first one."""
    from remand.domain import rejections

    return rejections.decided(task, ask, command)


def _cancel(task: Task, ask: c.CancelTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    r.require_status(task, "task.cancel", "cancelled")
    r.require_text("reason", ask.reason)
    answered = escalations.answered_by(task, escalations.WONTFIX, command)
    return (*answered, e.TaskCancelled(task_id=task.id, reason=ask.reason))


def _reopen(task: Task, ask: c.ReopenTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    r.require_status(task, "task.reopen", "reopened")
    r.require_text("reason", ask.reason)
    answered = escalations.answered_by(task, escalations.REOPEN, command)
    if answered:
        escalations.require_somebody(task, command)
        return answered
    return (e.TaskReopened(task_id=task.id, reason=ask.reason), *escalations.deadlock(task, command))


def _defer(task: Task, ask: c.DeferTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    r.require_status(task, "task.defer", "deferred")
    r.require_known(command.facts)
    r.require_no_cycle(command.facts)
    r.require_text("reason", ask.reason)
    if not command.facts.open_blockers:
        raise Refused("bad_value", "Deferring needs at least one open task to wait for.")
    return (e.TaskDeferred(task_id=task.id, waits_for=_unique(ask.waits_for), reason=ask.reason),)


def _expire(task: Task, ask: c.ExpireLease, command: c.Command) -> Events:
    lapsed = tuple(
        e.HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id)
        for offer in task.offers
        if offer.lapses_at <= command.at
    )
    claim = task.claim
    if claim is None or claim.lease_expires_at > command.at:
        return lapsed
    expired = e.LeaseExpired(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent)
    runs, question = assigning.lost(task, claim, command)
    return (*lapsed, *runs, expired, *(question or _given_back(task, command)))


def _given_back(task: Task, command: c.Command) -> Events:
    """The question once more, when the user who took a task on does not finish it: maybe nobody else may have it."""
    if task.claim is None or task.claim.agent != task.fixer:
        return ()
    return (opened(task, "asked", f"{task.fixer} gave {task.label} back unfinished", command),)


def _wake(task: Task, ask: c.WakeTask, command: c.Command) -> Events:
    if task.status != Status.DEFERRED or command.facts.open_blockers:
        return ()
    return (e.TaskWoken(task_id=task.id, because=task.waits_for),)


def _settle(task: Task, ask: c.SettleTask, command: c.Command) -> Events:
    statuses = command.facts.child_statuses
    if task.status != Status.DECOMPOSED or not all(status in TERMINAL for status in statuses):
        return ()
    if command.facts.missing:
        return ()
    status = Status.DONE if Status.DONE in statuses else Status.CANCELLED
    return (e.TaskSettled(task_id=task.id, status=status),)


def _sorted(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


_RULES: dict[type[c.Ask], Callable[[Task, Any, c.Command], Events]] = {
    c.EditTask: _edit,
    c.AssignTask: _assign,
    c.StartRun: assigning.start,
    c.EndRun: assigning.end,
    c.CheckStaff: _check_staff,
    c.ClaimTask: _claim,
    c.AcceptHandoff: h.accept,
    c.CompleteHandoff: h.complete,
    c.RejectHandoff: _about_a_rejection,
    c.AnswerRejection: _about_a_rejection,
    c.GiveOpinion: _about_a_rejection,
    c.IntendAct: forging.intend,
    c.NoteAct: forging.note,
    c.NoteActFailure: forging.note_failure,
    c.Heartbeat: _heartbeat,
    c.ReleaseTask: _under_claim(e.TaskReleased),
    c.ContinueTask: _under_claim(e.TaskContinued),
    c.FailTask: _fail,
    c.WaitTask: _wait,
    c.SubmitTask: _submit,
    c.CancelTask: _cancel,
    c.ReopenTask: _reopen,
    c.DeferTask: _defer,
    c.InitiateHandoff: h.initiate,
    c.LockOut: lockouts.lock_out,
    c.Unlock: lockouts.unlock,
    c.ReassignTask: lockouts.reassign,
    c.RequestReview: v.request,
    c.ApproveReview: v.approve,
    c.RejectReview: v.reject,
    c.RetractReview: v.retract,
    c.DismissObjections: objections.dismiss,
    c.FetchFeedback: v.fetch,
    c.NoteReview: forge_reviews.note,
    c.AddComments: forge_reviews.add_comments,
    c.NoteMerge: forge_reviews.note_merge,
    c.EscalateTask: escalations.escalate,
    c.AnswerEscalation: escalations.answer,
    c.AcknowledgeEscalation: escalations.acknowledge,
    c.RepeatEscalation: escalations.repeat,
    c.NoteDelivery: escalations.delivered,
    c.SettleFinding: g.settle,
    c.OverrideGate: g.override,
    c.RecordVerdict: g.record,
    c.NoteGatesMeasured: note_measured,
    c.OpenEscalation: escalations.open_by_itself,
    c.ExpireLease: _expire,
    c.WakeTask: _wake,
    c.SettleTask: _settle,
}
