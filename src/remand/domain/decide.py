"""What may happen: a command on a task becomes events, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import ids
from remand.domain import preconditions as r
from remand.domain.decisions import escalations, forge_actions, lockouts, rejections, reviews, runs
from remand.domain.decisions import handoffs as h
from remand.domain.decisions.gates import (
    override_gate,
    record_measured_gates,
    record_verdict,
    require_release,
    settle_finding,
)
from remand.domain.decisions.lockouts import add_team_to_lockouts
from remand.domain.decisions.notices import ask_user, mark_overrides
from remand.domain.decisions.objections import dismiss_objections
from remand.domain.decisions.reviews import (
    approve_review,
    record_feedback_fetch,
    reject_review,
    request_review,
    retract_review,
)
from remand.domain.decisions.runs import end_lost_runs
from remand.domain.decisions.stops import count_idle_stop
from remand.domain.events.event import Events
from remand.domain.events.tasks import (
    EdgeCreated,
    EdgeDeleted,
    HandoffAccepted,
    HandoffLapsed,
    LeaseExpired,
    LeaseRenewed,
    TaskAdded,
    TaskCancelled,
    TaskChanges,
    TaskClaimed,
    TaskContinued,
    TaskData,
    TaskDeferred,
    TaskEdited,
    TaskFailed,
    TaskReleased,
    TaskReopened,
    TaskSettled,
    TaskSubmitted,
    TaskWaiting,
    TaskWoken,
)
from remand.domain.instant import add_seconds
from remand.domain.references import unknown_handoff_refusal, unknown_task_refusal
from remand.domain.refusals import Refused
from remand.domain.task import CLAIMABLE, TERMINAL, Status, Task

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
            return _import_issue(task, command.ask, command)
        if isinstance(command.ask, c.AddTask):
            return _add_task(task, command.ask, command)
        if task is None:
            raise _missing_task_refusal(command)
        events = _DECISIONS[type(command.ask)](task, command.ask, command)
        if any(map(r.is_release, events)):
            r.require_whole_log(task, command.facts)
        return mark_overrides(add_team_to_lockouts(task, events, command.facts.members), command.actor)
    except Refused as refusal:
        return refusal


def _missing_task_refusal(command: c.Command) -> Refused:
    ask = command.ask
    if isinstance(ask, c.ClaimTask) and not ask.task_id:
        r.require_agent(command.actor, command.facts)
    if isinstance(ask, c.ClaimTask | c.AssignTask) and not ask.task_id:
        return Refused("nothing_to_claim", f"There is no free task for {ask.agent} now.")
    if isinstance(ask, HANDOFF_ASKS):
        return unknown_handoff_refusal(ask.handoff_id)
    return unknown_task_refusal(getattr(ask, "task_id", ""))


def _add_task(task: Task | None, ask: c.AddTask, command: c.Command) -> Events:
    facts = command.facts
    if task is not None:
        raise Refused("taken", f"Task {task.id} already exists.")
    r.require_own_task_id(ask, command.actor)
    r.require_text("title", ask.title, r.MAX_TITLE, may_be_empty=False)
    for name, value in (("scope", ask.scope), ("category", ask.category)):
        r.require_text(name, value)
    r.require_branch(ask.branch)
    r.require_skills(ask.skills)
    r.require_priority(ask.priority)
    r.require_aliases(ask.aliases, facts)
    r.require_known_tasks(facts)
    node = ids.task_node_id(ids.parse_task_id(ask.own_id) or facts.fresh_task_id)
    added = TaskAdded(
        id=node,
        type="TASK",
        data=TaskData(
            title=ask.title,
            description=ask.scope,
            status="pending",
            priority=ask.priority,
            category=ask.category,
            skills=_sorted_unique(ask.skills),
            branch=ask.branch,
            aliases=_sorted_unique(ask.aliases),
        ),
    )
    return (added, *(_dependency(node, on) for on in _unique(ask.depends_on)))


def _import_issue(task: Task | None, ask: c.ImportIssue, command: c.Command) -> Events:
    """The task of an issue, under an id that is the same in every ledger."""
    forge_actions.require_issue(ask, command)
    own = replace(command.facts, fresh_task_id=forge_actions.issue_task_id(ask))
    added = _add_task(task, ask, replace(command, facts=own))
    return (*added, forge_actions.make_issue_import(ask, own.fresh_task_id))


def _dependency(node: str, on: str) -> EdgeCreated:
    return EdgeCreated(src=node, tgt=ids.task_node_id(on), type="DEPENDS_ON")


def _edit_task(task: Task, ask: c.EditTask, command: c.Command) -> Events:
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
    r.require_known_tasks(command.facts)
    r.require_no_cycle(command.facts)
    changes = TaskChanges(
        title=ask.title,
        description=ask.scope,
        priority=ask.priority,
        category=ask.category,
        skills=None if ask.skills is None else _sorted_unique(ask.skills),
        branch=ask.branch,
        aliases=None if ask.aliases is None else _sorted_unique(ask.aliases),
        pr=ask.pr,
    )
    node = ids.task_node_id(task.id)
    edited = (TaskEdited(id=node, changes=changes),) if changes != TaskChanges() else ()
    linked = tuple(_dependency(node, on) for on in _unique(ask.depends_on) if on not in task.links.depends_on)
    dropped = tuple(
        EdgeDeleted(src=node, tgt=ids.task_node_id(on), type="DEPENDS_ON")
        for on in _unique(ask.drop_depends_on)
        if on in task.links.depends_on
    )
    return (*edited, *linked, *dropped)


def _claim_task(task: Task, ask: c.ClaimTask, command: c.Command) -> tuple[TaskClaimed | HandoffAccepted]:
    r.require_claimable(task, command.actor, command)
    offer = next((o for o in task.claims.offers if o.target == ask.agent and o.lapses_at > command.at), None)
    if offer is not None:
        return (h.accept_offer(task, offer, command),)
    return (
        TaskClaimed(
            task_id=task.id,
            handoff_id=command.facts.fresh_handoff_id,
            agent=command.actor.name,
            attempt=task.claims.attempt_count + 1,
            epoch=task.claims.epoch + 1,
            lease_expires_at=add_seconds(command.at, command.facts.lease_seconds),
            branch=task.branch,
            base=command.facts.base,
        ),
    )


def _assign_task(task: Task, ask: c.AssignTask, command: c.Command) -> Events:
    """A claim for an agent, by the agent's own rights, and the beginning of its run."""
    agent = command.facts.target
    if agent is None:
        raise Refused("bad_value", "Name the agent that gets the task.")
    if task.runs:
        run = task.runs[0]
        raise Refused("already_running", f"{run.agent} is still working on task {task.id} (run {run.id}).")
    own = replace(command, actor=agent, ask=c.ClaimTask(agent=agent.name, task_id=task.id))
    (claimed,) = _claim_task(task, c.ClaimTask(agent=agent.name, task_id=task.id), own)
    return (claimed, runs.begin_assigned_run(task, claimed, command))


def _check_staff(task: Task, ask: c.CheckStaff, command: c.Command) -> Events:
    """The question to the user, should nobody be left for a task that waits, or an agent have given it up."""
    if task.status is Status.FAILED:
        who = task.rejections.invalid_by[-1] if task.rejections.invalid_by else "Its agent"
        return (
            ask_user(task, "given_up", f"{who} gave up {task.label} without a justified rejection", command),
        )
    return escalations.deadlock_question(task, command) if task.status in CLAIMABLE else ()


def _renew_lease(task: Task, ask: c.Heartbeat, command: c.Command) -> Events:
    claim = r.require_claim(task, ask, command.at)
    lease = command.facts.lease_seconds
    if claim.lease_expires_at > add_seconds(command.at, lease / 2):
        return ()
    return (
        LeaseRenewed(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            lease_expires_at=add_seconds(command.at, lease),
        ),
    )


def _claim_end_rule(
    kind: type[TaskReleased | TaskContinued],
) -> Callable[..., Events]:
    """A decision that ends the agent's own claim with a reason."""

    def rule(task: Task, ask: c.ClaimAsk, command: c.Command) -> Events:
        claim = r.require_claim(task, ask, command.at)
        r.require_text("reason", ask.reason)
        r.require_unused_exit(task, claim.agent, kind)
        ended = kind(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=ask.reason)
        return (ended, *_question_after_return(task, command))

    return rule


def _fail_task(task: Task, ask: c.FailTask, command: c.Command) -> Events:
    claim = r.require_claim(task, ask, command.at)
    r.require_text("reason", ask.reason)
    failed = TaskFailed(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=ask.reason)
    return (failed, *h.lock_out_after_giving_up(task, claim.agent, command))


def _wait_task(task: Task, ask: c.WaitTask, command: c.Command) -> Events:
    claim = r.require_claim(task, ask, command.at)
    r.require_text("thing waited for (--for)", ask.reason, may_be_empty=False)
    r.require_unused_exit(task, claim.agent, TaskWaiting)
    if command.facts.closed_tasks:
        ended = ", ".join(command.facts.closed_tasks)
        raise Refused(
            "nothing_to_wait_for", f"The task cannot wait for what has ended or does not exist: {ended}."
        )
    return (
        TaskWaiting(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, waiting_for=ask.reason),
    )


def _submit_task(task: Task, ask: c.SubmitTask, command: c.Command) -> Events:
    claim = h.require_done_claim(task, ask, command)
    facts = command.facts
    return (
        *require_release(task, claim, command),
        TaskSubmitted(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            commit=facts.commit,
            tree=facts.tree,
            branch=h.recorded_branch(task, ask, facts),
            is_branch_given=ask.is_branch_given,
            pr=ask.pr,
        ),
    )


def _decide_rejection(task: Task, ask: c.Ask, command: c.Command) -> Events:
    """A decision about task rejections. Its module reads much to judge them, so it is loaded with the first one."""
    return rejections.decide_rejection(task, ask, command)


def _cancel_task(task: Task, ask: c.CancelTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    r.require_status(task, "task.cancel", "cancelled")
    r.require_text("reason", ask.reason)
    answered = escalations.answer_by_command(task, escalations.WONTFIX, command)
    return (*answered, TaskCancelled(task_id=task.id, reason=ask.reason))


def _reopen_task(task: Task, ask: c.ReopenTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    r.require_status(task, "task.reopen", "reopened")
    r.require_text("reason", ask.reason)
    answered = escalations.answer_by_command(task, escalations.REOPEN, command)
    if answered:
        escalations.require_agent_left(task, command)
        return answered
    return (TaskReopened(task_id=task.id, reason=ask.reason), *escalations.deadlock_question(task, command))


def _defer_task(task: Task, ask: c.DeferTask, command: c.Command) -> Events:
    r.require_disinterested(task, command.actor)
    r.require_status(task, "task.defer", "deferred")
    r.require_known_tasks(command.facts)
    r.require_no_cycle(command.facts)
    r.require_text("reason", ask.reason)
    if not command.facts.open_blockers:
        raise Refused("bad_value", "Deferring needs at least one open task to wait for.")
    return (TaskDeferred(task_id=task.id, waits_for=_unique(ask.waits_for), reason=ask.reason),)


def _expire_lease(task: Task, ask: c.ExpireLease, command: c.Command) -> Events:
    lapsed = tuple(
        HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id)
        for offer in task.claims.offers
        if offer.lapses_at <= command.at
    )
    claim = task.claim
    if claim is None or claim.lease_expires_at > command.at:
        return lapsed
    expired = LeaseExpired(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent)
    runs, question = end_lost_runs(task, claim, command)
    return (*lapsed, *runs, expired, *(question or _question_after_return(task, command)))


def _question_after_return(task: Task, command: c.Command) -> Events:
    """The question once more, when the user who took a task on does not finish it: maybe nobody else may have it."""
    if task.claim is None or task.claim.agent != task.people.fixer:
        return ()
    return (ask_user(task, "asked", f"{task.people.fixer} returned {task.label} unfinished", command),)


def _wake_task(task: Task, ask: c.WakeTask, command: c.Command) -> Events:
    if task.status != Status.DEFERRED or command.facts.open_blockers:
        return ()
    return (TaskWoken(task_id=task.id, because=task.links.waits_for),)


def _settle_task(task: Task, ask: c.SettleTask, command: c.Command) -> Events:
    statuses = command.facts.child_statuses
    if task.status != Status.DECOMPOSED or not all(status in TERMINAL for status in statuses):
        return ()
    if command.facts.missing:
        return ()
    status = Status.DONE if Status.DONE in statuses else Status.CANCELLED
    return (TaskSettled(task_id=task.id, status=status),)


def _sorted_unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


_DECISIONS: dict[type[c.Ask], Callable[[Task, Any, c.Command], Events]] = {
    c.EditTask: _edit_task,
    c.AssignTask: _assign_task,
    c.StartRun: runs.start_run,
    c.EndRun: runs.end_run,
    c.CheckStaff: _check_staff,
    c.ClaimTask: _claim_task,
    c.AcceptHandoff: h.accept_handoff,
    c.CompleteHandoff: h.complete_handoff,
    c.RejectHandoff: _decide_rejection,
    c.AnswerRejection: _decide_rejection,
    c.GiveOpinion: _decide_rejection,
    c.IntendAct: forge_actions.plan_action,
    c.NoteAct: forge_actions.record_action,
    c.NoteActFailure: forge_actions.record_action_failure,
    c.Heartbeat: _renew_lease,
    c.ReleaseTask: _claim_end_rule(TaskReleased),
    c.ContinueTask: _claim_end_rule(TaskContinued),
    c.FailTask: _fail_task,
    c.WaitTask: _wait_task,
    c.SubmitTask: _submit_task,
    c.CancelTask: _cancel_task,
    c.ReopenTask: _reopen_task,
    c.DeferTask: _defer_task,
    c.InitiateHandoff: h.initiate_handoff,
    c.LockOut: lockouts.lock_out_agent,
    c.Unlock: lockouts.unlock_agent,
    c.ReassignTask: lockouts.reassign_task,
    c.RequestReview: request_review,
    c.ApproveReview: approve_review,
    c.RejectReview: reject_review,
    c.RetractReview: retract_review,
    c.DismissObjections: dismiss_objections,
    c.FetchFeedback: record_feedback_fetch,
    c.NoteReview: reviews.record_review,
    c.AddComments: reviews.add_review_comments,
    c.NoteMerge: reviews.record_merge,
    c.EscalateTask: escalations.escalate_task,
    c.AnswerEscalation: escalations.answer_escalation,
    c.AcknowledgeEscalation: escalations.acknowledge_escalation,
    c.RepeatEscalation: escalations.repeat_escalation,
    c.NoteDelivery: escalations.record_delivery,
    c.SettleFinding: settle_finding,
    c.OverrideGate: override_gate,
    c.RecordVerdict: record_verdict,
    c.CountIdleStop: count_idle_stop,
    c.NoteGatesMeasured: record_measured_gates,
    c.ExpireLease: _expire_lease,
    c.WakeTask: _wake_task,
    c.SettleTask: _settle_task,
}
