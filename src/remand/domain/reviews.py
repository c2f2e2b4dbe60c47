"""What may be decided about reviews and lockouts."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain import rules as r
from remand.domain.refusals import Refused
from remand.domain.task import TERMINAL, Status, Submission, Task

Events = tuple[e.Event, ...]


def lock_out(task: Task, ask: c.LockOut, command: c.Command) -> Events:
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


def unlock(task: Task, ask: c.Unlock, command: c.Command) -> Events:
    r.require_text("reason", ask.reason, may_be_empty=False)
    if not task.is_locked_out(ask.agent):
        raise Refused("bad_value", f"{ask.agent} is not locked out of task {task.id}.")
    return (e.LockoutCleared(task_id=task.id, agent=ask.agent, reason=ask.reason),)


def approve(task: Task, ask: c.ApproveReview, command: c.Command) -> Events:
    submission = _under_review(task, ask.commit, command)
    return (
        e.ReviewApproved(
            task_id=task.id, reviewer=command.actor.name, commit=submission.commit, tree=submission.tree
        ),
    )


def reject(task: Task, ask: c.RejectReview, command: c.Command) -> Events:
    submission = _under_review(task, ask.commit, command)
    if len(ask.findings) > r.MAX_FINDINGS:
        raise Refused(
            "bad_value", f"A review has at most {r.MAX_FINDINGS} findings, not {len(ask.findings)}."
        )
    for finding in ask.findings:
        r.require_text("finding", finding.text, may_be_empty=False)
        r.require_text("finding's path", finding.path, 4096)
        r.require_number("finding's line", finding.line)
    if not any(finding.is_blocking for finding in ask.findings):
        raise Refused(
            "bad_value", "A rejection needs at least one blocking finding; nits alone do not reject."
        )
    rejected = e.ReviewRejected(
        task_id=task.id,
        reviewer=command.actor.name,
        commit=submission.commit,
        tree=submission.tree,
        findings=ask.findings,
    )
    if not command.facts.locks_out:
        return (rejected,)
    reason = next(finding.text for finding in ask.findings if finding.is_blocking)
    return (rejected, e.LockoutSet(task_id=task.id, agent=submission.agent, reason=reason[:500]))


def _under_review(task: Task, commit: str, command: c.Command) -> Submission:
    """The submission under review; refuses the author, and any other commit than the one submitted last."""
    if command.actor.name in task.authors:
        raise Refused("own_work", f"{command.actor.name} worked on task {task.id} and cannot review it.")
    if task.status != Status.PROVISIONAL or task.submission is None:
        raise Refused("nothing_to_review", f"Task {task.id} is {task.status}; nothing of it awaits review.")
    if not command.facts.commit:
        raise Refused("unknown_commit", f"The repository has no commit {commit!r}.")
    is_same_tree = bool(task.submission.tree) and command.facts.tree == task.submission.tree
    if command.facts.commit != task.submission.commit and not is_same_tree:
        raise Refused(
            "stale_review",
            f"The review names {command.facts.commit[:12]}, but {task.submission.commit[:12]} was submitted last.",
        )
    return task.submission
