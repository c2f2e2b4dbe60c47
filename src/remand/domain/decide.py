"""What may happen: a command on a task becomes events, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain import ids
from remand.domain import rules as r
from remand.domain.instant import plus
from remand.domain.refusals import Refused
from remand.domain.task import TERMINAL, Claim, Offer, Status, Task

Events = tuple[e.Event, ...]


def decide(task: Task | None, command: c.Command) -> Events | Refused:
    """The events that follow from a command, or the refusal of it."""
    try:
        r.require_permission(command.ask, command.actor)
        r.require_names(command.actor.name)
        if isinstance(command.ask, c.AddTask):
            return _add(task, command.ask, command)
        if task is None:
            raise _nothing_there(command)
        return _RULES[type(command.ask)](task, command.ask, command)
    except Refused as refusal:
        return refusal


def _nothing_there(command: c.Command) -> Refused:
    ask = command.ask
    if isinstance(ask, c.ClaimTask) and not ask.task_id:
        return Refused("nothing_to_claim", f"There is no free task for {ask.agent} now.")
    if isinstance(ask, c.AcceptHandoff | c.CompleteHandoff):
        return Refused("unknown_handoff", f"There is no handoff {ask.handoff_id}.")
    return Refused("unknown_task", f"There is no task {getattr(ask, 'task_id', '')}.")


def _add(task: Task | None, ask: c.AddTask, command: c.Command) -> Events:
    facts = command.facts
    if task is not None:
        raise Refused("taken", f"There is a task {task.id} already.")
    r.require_text("title", ask.title, r.MAX_TITLE, may_be_empty=False)
    for name, value in (("scope", ask.scope), ("category", ask.category), ("branch", ask.branch)):
        r.require_text(name, value)
    for skill in ask.skills:
        r.require_text("skill", skill, 64, may_be_empty=False)
    r.require_priority(ask.priority)
    r.require_aliases(ask.aliases, facts)
    r.require_known(facts)
    node = ids.task_node(facts.fresh_task_id)
    added = e.TaskAdded(
        id=node,
        data=e.TaskData(
            title=ask.title,
            description=ask.scope,
            priority=ask.priority,
            category=ask.category,
            skills=_sorted(ask.skills),
            branch=ask.branch,
            aliases=_sorted(ask.aliases),
        ),
    )
    return (added, *(_depends(node, on) for on in _unique(ask.depends_on)))


def _depends(node: str, on: str) -> e.EdgeCreated:
    return e.EdgeCreated(src=node, tgt=ids.task_node(on), type="DEPENDS_ON")


def _edit(task: Task, ask: c.EditTask, command: c.Command) -> Events:
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status} and cannot be edited.")
    if ask.title is not None:
        r.require_text("title", ask.title, r.MAX_TITLE, may_be_empty=False)
    for name, value in (("scope", ask.scope), ("category", ask.category), ("branch", ask.branch)):
        r.require_text(name, value or "")
    if ask.priority is not None:
        r.require_priority(ask.priority)
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


def _claim(task: Task, ask: c.ClaimTask, command: c.Command) -> Events:
    r.require_claimable(task, command.actor, command)
    offer = next((o for o in task.offers if o.target == ask.agent and o.lapses_at > command.at), None)
    if offer is not None:
        return (_accepted(task, offer, command),)
    return (
        e.TaskClaimed(
            task_id=task.id,
            handoff_id=command.facts.fresh_handoff_id,
            agent=command.actor.name,
            attempt=task.attempt_count + 1,
            epoch=task.epoch + 1,
            lease_expires_at=plus(command.at, command.facts.lease_seconds),
            branch=task.branch,
        ),
    )


def _accepted(task: Task, offer: Offer, command: c.Command, acknowledgment: str = "") -> e.HandoffAccepted:
    return e.HandoffAccepted(
        task_id=task.id,
        handoff_id=offer.handoff_id,
        agent=command.actor.name,
        acknowledgment=acknowledgment,
        attempt=task.attempt_count + 1,
        epoch=task.epoch + 1,
        lease_expires_at=plus(command.at, command.facts.lease_seconds),
        branch=task.branch,
    )


def _accept(task: Task, ask: c.AcceptHandoff, command: c.Command) -> Events:
    r.require_text("acknowledgment", ask.acknowledgment)
    offer = task.offer(ask.handoff_id)
    if offer is None or offer.lapses_at <= command.at:
        raise Refused("handoff_closed", f"The handoff {ask.handoff_id} on task {task.id} is not open.")
    if offer.target != command.actor.name:
        raise Refused(
            "not_yours", f"The handoff {ask.handoff_id} is for {offer.target}, not for {ask.agent}."
        )
    r.require_claimable(task, command.actor, command)
    return (_accepted(task, offer, command, ask.acknowledgment),)


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
    kind: type[e.TaskReleased | e.TaskContinued | e.TaskFailed],
) -> Callable[..., Events]:
    """A decision that ends the agent's own claim with a reason."""

    def rule(task: Task, ask: c.ClaimAsk, command: c.Command) -> Events:
        claim = r.require_claim(task, ask, command.at)
        r.require_text("reason", ask.reason)
        return (kind(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason=ask.reason),)

    return rule


def _wait(task: Task, ask: c.WaitTask, command: c.Command) -> Events:
    claim = r.require_claim(task, ask, command.at)
    r.require_text("thing waited for (--for)", ask.reason, may_be_empty=False)
    return (
        e.TaskWaiting(
            task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, waiting_for=ask.reason
        ),
    )


def _submit(task: Task, ask: c.SubmitTask, command: c.Command) -> Events:
    claim = _done_claim(task, ask, command)
    facts = command.facts
    return (
        e.TaskSubmitted(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            commit=facts.commit,
            tree=facts.tree,
            branch=ask.branch,
            pr=ask.pr,
        ),
    )


def _done_claim(task: Task, ask: c.ClaimAsk, command: c.Command) -> Claim:
    """The claim under which work may be handed in: held, not locked out, at a real commit, past its gates."""
    if task.is_locked_out(ask.agent):
        raise Refused("locked_out", f"{ask.agent} may not hand in work on task {task.id} any more.")
    claim = r.require_claim(task, ask, command.at)
    facts = command.facts
    if not facts.commit:
        raise Refused("unknown_commit", f"The repository has no commit {getattr(ask, 'commit', '')!r}.")
    if facts.gates is None:
        raise Refused(
            "no_gates",
            "remand.toml has no [gates] table. Add the line `[gates]` to it (empty: there are no gates).",
        )
    if facts.gates:
        raise Refused(
            "gates_unavailable",
            f"The gates {', '.join(facts.gates)} are configured, but this version cannot run gates yet; "
            "nothing is handed in unmeasured.",
        )
    return claim


def _complete(task: Task, ask: c.CompleteHandoff, command: c.Command) -> Events:
    if task.offer(ask.handoff_id) is not None:
        raise Refused("bad_transition", f"The handoff {ask.handoff_id} is not accepted yet. Accept it first.")
    if task.claim is None or task.claim.handoff_id != ask.handoff_id:
        raise Refused("handoff_closed", f"The handoff {ask.handoff_id} on task {task.id} is not open.")
    under = c.SubmitTask(
        task_id=task.id, agent=ask.agent, handoff_id=ask.handoff_id, commit=ask.commit, branch=ask.branch
    )
    claim = _done_claim(task, under, command)
    r.require_text("result", ask.result)
    return (
        e.HandoffCompleted(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            commit=command.facts.commit,
            tree=command.facts.tree,
            branch=ask.branch,
            pr=ask.pr,
            result={"text": ask.result} if ask.result else {},
        ),
    )


def _cancel(task: Task, ask: c.CancelTask, command: c.Command) -> Events:
    r.require_status(task, "task.cancel", "cancelled")
    r.require_text("reason", ask.reason)
    return (e.TaskCancelled(task_id=task.id, reason=ask.reason),)


def _reopen(task: Task, ask: c.ReopenTask, command: c.Command) -> Events:
    r.require_status(task, "task.reopen", "reopened")
    r.require_text("reason", ask.reason)
    return (e.TaskReopened(task_id=task.id, reason=ask.reason),)


def _defer(task: Task, ask: c.DeferTask, command: c.Command) -> Events:
    r.require_status(task, "task.defer", "deferred")
    r.require_known(command.facts)
    r.require_no_cycle(command.facts)
    r.require_text("reason", ask.reason)
    if not command.facts.open_blockers:
        raise Refused("bad_value", "Deferring needs at least one open task to wait for.")
    return (e.TaskDeferred(task_id=task.id, waits_for=_unique(ask.waits_for), reason=ask.reason),)


def _initiate(task: Task, ask: c.InitiateHandoff, command: c.Command) -> Events:
    facts = command.facts
    r.require_names(ask.target, ask.source)
    r.require_text("instructions", ask.instructions)
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status}; it cannot be handed to anyone.")
    if facts.target is None:
        raise Refused("bad_value", "Say to whom the task is handed.")
    r.require_claimable(task, facts.target, command)
    return (
        e.HandoffInitiated(
            task_id=task.id,
            handoff_id=facts.fresh_handoff_id,
            source_agent=ask.source or command.actor.name,
            target_agent=facts.target.name,
            instructions=ask.instructions,
            lapses_at=plus(command.at, facts.lease_seconds),
            context={"task_title": task.title, "task_status": task.status, "task_priority": task.priority},
        ),
    )


def _lock_out(task: Task, ask: c.LockOut, command: c.Command) -> Events:
    r.require_names(ask.agent)
    r.require_text("reason", ask.reason, may_be_empty=False)
    if task.status in TERMINAL:
        raise Refused("bad_transition", f"Task {task.id} is {task.status}; nobody works on it any more.")
    if task.is_locked_out(ask.agent):
        return ()
    ended: Events = ()
    if task.claim is not None and task.claim.agent == ask.agent:
        claim = task.claim
        ended = (
            e.TaskReleased(
                task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, reason="locked out"
            ),
        )
    lapsed = tuple(
        e.HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id)
        for offer in task.offers
        if offer.target == ask.agent
    )
    return (*ended, *lapsed, e.LockoutSet(task_id=task.id, agent=ask.agent, reason=ask.reason))


def _unlock(task: Task, ask: c.Unlock, command: c.Command) -> Events:
    r.require_text("reason", ask.reason, may_be_empty=False)
    if not task.is_locked_out(ask.agent):
        raise Refused("bad_value", f"{ask.agent} is not locked out of task {task.id}.")
    return (e.LockoutCleared(task_id=task.id, agent=ask.agent, reason=ask.reason),)


def _approve(task: Task, ask: c.ApproveReview, command: c.Command) -> Events:
    tree = _under_review(task, ask.commit, command)
    return (
        e.ReviewApproved(
            task_id=task.id, reviewer=command.actor.name, commit=command.facts.commit, tree=tree
        ),
    )


def _reject(task: Task, ask: c.RejectReview, command: c.Command) -> Events:
    tree = _under_review(task, ask.commit, command)
    for finding in ask.findings:
        r.require_text("finding", finding.text, may_be_empty=False)
    if not any(finding.is_blocking for finding in ask.findings):
        raise Refused(
            "bad_value", "A rejection needs at least one blocking finding; nits alone do not reject."
        )
    assert task.submission is not None
    rejected = e.ReviewRejected(
        task_id=task.id,
        reviewer=command.actor.name,
        commit=command.facts.commit,
        tree=tree,
        findings=ask.findings,
    )
    if not command.facts.locks_out:
        return (rejected,)
    reason = next(finding.text for finding in ask.findings if finding.is_blocking)
    return (rejected, e.LockoutSet(task_id=task.id, agent=task.submission.agent, reason=reason[:500]))


def _under_review(task: Task, commit: str, command: c.Command) -> str:
    """The code tree under review; refuses the author, and any other commit than the one submitted last."""
    if command.actor.name in task.authors:
        raise Refused("own_work", f"{command.actor.name} worked on task {task.id} and cannot review it.")
    if task.status != Status.PROVISIONAL or task.submission is None:
        raise Refused("nothing_to_review", f"Task {task.id} is {task.status}; nothing of it awaits review.")
    if not command.facts.commit:
        raise Refused("unknown_commit", f"The repository has no commit {commit!r}.")
    if command.facts.commit != task.submission.commit:
        raise Refused(
            "stale_review",
            f"The review names {command.facts.commit[:12]}, but {task.submission.commit[:12]} was submitted last.",
        )
    return task.submission.tree


def _expire(task: Task, ask: c.ExpireLease, command: c.Command) -> Events:
    lapsed = tuple(
        e.HandoffLapsed(task_id=task.id, handoff_id=offer.handoff_id)
        for offer in task.offers
        if offer.lapses_at <= command.at
    )
    claim = task.claim
    if claim is None or claim.lease_expires_at > command.at:
        return lapsed
    return (*lapsed, e.LeaseExpired(task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent))


def _wake(task: Task, ask: c.WakeTask, command: c.Command) -> Events:
    if task.status != Status.DEFERRED or command.facts.open_blockers:
        return ()
    return (e.TaskWoken(task_id=task.id, because=task.waits_for),)


def _settle(task: Task, ask: c.SettleTask, command: c.Command) -> Events:
    statuses = command.facts.child_statuses
    if task.status != Status.DECOMPOSED or not all(status in TERMINAL for status in statuses):
        return ()
    status = Status.DONE if Status.DONE in statuses else Status.CANCELLED
    return (e.TaskSettled(task_id=task.id, status=status),)


def _sorted(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


_RULES: dict[type[c.Ask], Callable[[Task, Any, c.Command], Events]] = {
    c.EditTask: _edit,
    c.ClaimTask: _claim,
    c.AcceptHandoff: _accept,
    c.CompleteHandoff: _complete,
    c.Heartbeat: _heartbeat,
    c.ReleaseTask: _under_claim(e.TaskReleased),
    c.ContinueTask: _under_claim(e.TaskContinued),
    c.FailTask: _under_claim(e.TaskFailed),
    c.WaitTask: _wait,
    c.SubmitTask: _submit,
    c.CancelTask: _cancel,
    c.ReopenTask: _reopen,
    c.DeferTask: _defer,
    c.InitiateHandoff: _initiate,
    c.LockOut: _lock_out,
    c.Unlock: _unlock,
    c.ApproveReview: _approve,
    c.RejectReview: _reject,
    c.ExpireLease: _expire,
    c.WakeTask: _wake,
    c.SettleTask: _settle,
}
