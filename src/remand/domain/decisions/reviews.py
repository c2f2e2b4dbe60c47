"""Decisions on reviews: who may review which commit, and the consequences of a rejection."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.access.team import REVIEWERS, Actor, paths_outside_scope, review_scope
from remand.domain.decisions.findings import is_still_rejected
from remand.domain.decisions.gates import unsettled_control_changes
from remand.domain.decisions.handoffs import best_agent, pass_to_agent, remaining_agents
from remand.domain.decisions.notices import ask_user
from remand.domain.decisions.objections import require_objections_answered
from remand.domain.events import reviews as review_events
from remand.domain.events.event import Events
from remand.domain.facts import Facts
from remand.domain.feedback import pull_request_reviews
from remand.domain.refusals import Refused, unknown_commit_refusal
from remand.domain.task import TERMINAL, Review, Status, Submission, Task
from remand.domain.text.words import format_count

MAX_SOURCE = 200
MIN_CHECKED_WORDS = 4


def request_review(task: Task, command: c.RequestReview, context: c.CommandContext) -> Events:
    """Requests a review of the submission."""
    reviewer = context.facts.team.target
    if reviewer is None or not reviewer.has(*REVIEWERS):
        raise Refused("bad_value", f"{command.reviewer[:64] or 'Nobody'} is not a reviewer on this team.")
    if task.status != Status.PROVISIONAL or task.submission is None:
        raise Refused(
            "nothing_to_review", f"Task {task.id} is {task.status}; it has no submission that awaits review."
        )
    require_not_author(task, reviewer, context.facts)
    if reviewer.name in task.reviews.requested:
        return ()
    return (
        review_events.ReviewRequested(task_id=task.id, reviewer=reviewer.name, commit=task.submission.commit),
    )


def approve_review(task: Task, command: c.ApproveReview, context: c.CommandContext) -> Events:
    """Accepts the submission. A forge review that was imported before has no further effect."""
    r.require_text("source", command.source, MAX_SOURCE)
    if task.has_imported_review(command.source):
        return ()
    submission = _require_under_review(task, command.commit, context)
    _require_whole_scope(context)
    _require_unmoved_branch(task, submission, context)
    _require_control_settled(task, context)
    _require_standing_verdict(task, submission)
    if is_still_rejected(task):
        raise Refused(
            "rejected_before",
            f"The code of {submission.commit[:12]} was rejected before, and that rejection is in force.",
        )
    _require_checked_places(command, context)
    require_objections_answered(task, context.facts)
    return (
        review_events.ReviewApproved(
            task_id=task.id,
            reviewer=context.actor.name,
            commit=submission.commit,
            tree=submission.tree,
            checked=command.checked,
            source=command.source,
        ),
    )


def _require_standing_verdict(task: Task, submission: Submission) -> None:
    """Refuses to approve code that was measured again after submission without being released."""
    if submission.is_refuted:
        raise Refused(
            "not_measured",
            f"The gates did not pass when the code of {submission.commit[:12]} was measured again, so it cannot be approved."
            f" Reject it, or have the user put it back into the queue (`remand escalate {task.id}`).",
        )


def _require_control_settled(task: Task, context: c.CommandContext) -> None:
    """Refuses to approve work, or a branch that moved, with unsettled changes of the ledger's own files."""
    for change in unsettled_control_changes(task, context.facts.work.control):
        raise Refused("control_changed", f"In {change.commit[:12]} {change.text}.")


def _require_checked_places(command: c.ApproveReview, context: c.CommandContext) -> None:
    """Refuses an agent's approval that does not cite lines of the change and what was checked there."""
    if len(command.checked) > r.MAX_FINDINGS:
        raise Refused(
            "bad_value", f"A review names at most {r.MAX_FINDINGS} places, not {len(command.checked)}."
        )
    for finding in command.checked:
        r.require_text("text of what was checked", finding.text)
        r.require_text("path of what was checked", finding.path, 4096)
        r.require_number("line of what was checked", finding.line)
    if not context.actor.confined:
        return
    changed = context.facts.work.changed
    looked = [one for one in command.checked if one.path and (changed is None or one.path in changed)]
    if not any(len(set(one.text.lower().split())) >= MIN_CHECKED_WORDS for one in looked):
        raise Refused(
            "vacuous_approval",
            f"{context.actor.name} approves without saying what it checked: name at least one line of the change and what is correct there.",
        )


def reject_review(task: Task, command: c.RejectReview, context: c.CommandContext) -> Events:
    """Rejects the submission: its author is locked out, and another agent takes over or the user is asked.

    A forge review that was imported before has no further effect.
    """
    r.require_text("source", command.source, MAX_SOURCE)
    if task.has_imported_review(command.source):
        return ()
    submission = _require_rejectable(task, command.commit, context)
    is_forges = ":" in command.source
    rejected = review_events.ReviewRejected(
        task_id=task.id,
        reviewer=context.actor.name,
        commit=submission.commit,
        tree=submission.tree,
        findings=_require_valid_findings(
            command.findings if is_forges else _without_forge_ids(command.findings), context.actor
        ),
        review_id=pull_request_reviews.make_forge_review_id(task.id, command.source)
        if is_forges
        else context.facts.fresh.review_id,
        patch=context.facts.work.patch,
        source=command.source,
        author=submission.agent,
        handoff_id=submission.handoff_id,
    )
    if task.status != Status.PROVISIONAL:
        return (rejected, *_add_lockout_cause(task, submission.agent, rejected))
    lockout = _lockout(task, submission, rejected, context)
    return (
        rejected,
        *lockout,
        *_follow_up_events(task, submission, rejected, context, is_locked=bool(lockout)),
    )


def _require_valid_findings(
    findings: tuple[review_events.Finding, ...], reviewer: Actor
) -> tuple[review_events.Finding, ...]:
    """The findings of a rejection; at least one must be blocking within the reviewer's scope."""
    require_findings(findings)
    if not any(finding.is_blocking for finding in findings):
        raise Refused(
            "bad_value", "A rejection needs at least one blocking finding; nits alone do not reject."
        )
    within = limit_to_scope(findings, reviewer)
    if not any(finding.is_blocking for finding in within):
        raise Refused(
            "out_of_scope",
            f"{reviewer.name} reviews {', '.join(review_scope(reviewer))}; every blocking finding is about another file.",
        )
    return within


def _without_forge_ids(findings: tuple[review_events.Finding, ...]) -> tuple[review_events.Finding, ...]:
    """Removes forge comment ids, so that a local review cannot mark a forge comment as delivered."""
    return tuple(replace(finding, comment="", reply_to="", at="") for finding in findings)


def require_findings(findings: tuple[review_events.Finding, ...]) -> None:
    """Refuses too many findings for an event, and invalid text."""
    if len(findings) > r.MAX_FINDINGS:
        raise Refused("bad_value", f"A review has at most {r.MAX_FINDINGS} findings, not {len(findings)}.")
    for finding in findings:
        r.require_text("finding", finding.text, may_be_empty=False)
        r.require_text("finding's path", finding.path, 4096)
        r.require_number("finding's line", finding.line)
        for name in (finding.comment, finding.reply_to):
            r.require_text("comment's id", name, MAX_SOURCE)


def limit_to_scope(
    findings: tuple[review_events.Finding, ...], reviewer: Actor
) -> tuple[review_events.Finding, ...]:
    """The findings as they count: those outside the reviewer's scope become suggestions."""
    beyond = set(paths_outside_scope(reviewer, (finding.path for finding in findings if finding.path)))
    return tuple(
        replace(finding, is_blocking=False) if finding.path in beyond else finding for finding in findings
    )


def _lockout(
    task: Task, submission: Submission, rejected: review_events.ReviewRejected, context: c.CommandContext
) -> Events:
    """Locks out the author after as many rejections of its work as the policy allows; never the user."""
    after, author = context.facts.policy.lockout_after, submission.agent
    times = sum(one.agent == author for one in task.standing_rounds) + 1
    if not after or times < after or task.is_locked_out(author) or author == task.people.fixer:
        return ()
    return (_make_lockout(author, rejected),)


def _add_lockout_cause(task: Task, author: str, rejected: review_events.ReviewRejected) -> Events:
    """Adds this review as a further cause of the author's lockout, which then survives the retraction of the first review.

    An author whom the user has unlocked is not locked out again.
    """
    is_locked = any(one.agent == author and one.review_id for one in task.people.lockouts)
    return (_make_lockout(author, rejected),) if is_locked else ()


def _make_lockout(author: str, rejected: review_events.ReviewRejected) -> review_events.LockoutSet:
    blocking = review_events.first_blocking(rejected.findings)
    reason = blocking.text if blocking else ""
    return review_events.LockoutSet(
        task_id=rejected.task_id, agent=author, reason=reason[:500], review_id=rejected.review_id
    )


def _follow_up_events(
    task: Task,
    submission: Submission,
    rejected: review_events.ReviewRejected,
    context: c.CommandContext,
    *,
    is_locked: bool,
) -> Events:
    """Another agent with the skill continues, or the user is asked. An author without a lockout may continue."""
    facts, number = context.facts, len(task.standing_rounds) + 1
    if number >= facts.policy.escalate_after_reviews:
        why = f"{task.label[0].upper()}{task.label[1:]} was rejected {format_count(number, 'time')}. It needs guidance or a manual fix"
        return (ask_user(task, "reviews", why, context),)
    if not facts.team.has_team:
        return ()
    author = submission.agent
    agents = remaining_agents(task, facts, without=(rejected.reviewer, *((author,) if is_locked else ())))
    if any(agent.name == author for agent in agents):
        return ()
    if not agents:
        return (ask_user(task, "deadlock", f"All agents are locked out of {task.label}", context),)
    about = " ".join(finding.text for finding in rejected.findings)
    chosen, skills = best_agent(agents, about, dict(facts.team.free_capacity))
    why = f"{', '.join(skills)} expertise" if skills else "next eligible agent"
    return pass_to_agent(task, chosen, context, source=author, why=why, is_last=len(agents) == 1)


def retract_review(task: Task, command: c.RetractReview, context: c.CommandContext) -> Events:
    """Retracts a rejection; the lockout is cleared as well if too few rejections remain for it."""
    r.require_text("reason", command.reason, may_be_empty=False)
    if task.status in (Status.DONE, Status.CANCELLED):
        raise Refused("bad_transition", f"Task {task.id} is {task.status}; it has no rejection to retract.")
    review = _find_retractable(task, command.review_id, context.actor)
    retracted = review_events.ReviewRetracted(
        task_id=task.id, review_id=review.id, reviewer=review.reviewer, reason=command.reason
    )
    return (retracted, *_clear_lockouts(task, review, context))


def _find_retractable(task: Task, review_id: str, actor: Actor) -> Review:
    """The rejection to retract: the named one, or the last standing one that the actor may retract."""
    is_user = actor.is_user
    standing = [
        review
        for one in reversed(task.reviews.rounds)
        for review in reversed(one.reviews)
        if not review.is_retracted
    ]
    meant = [review for review in standing if review_id in ("", review.id)]
    if not meant:
        raise Refused(
            "nothing_to_retract",
            f"No rejection {review_id[:64]} of task {task.id} is in force.".replace("  ", " "),
        )
    own = [review for review in meant if review.reviewer == actor.name]
    if not own and not is_user:
        raise Refused(
            "not_yours", f"That rejection is {meant[0].reviewer}'s; {actor.name} cannot retract it."
        )
    return own[0] if own else meant[0]


def _clear_lockouts(task: Task, review: Review, context: c.CommandContext) -> Events:
    """Clears the lockouts that lose their last cause, on this task and its descendants."""
    review_round = next(one for one in task.reviews.rounds if review in one.reviews)
    if sum(not other.is_retracted for other in review_round.reviews) > 1:
        return ()
    why: dict[str, Any] = {"reason": f"rejection {review.id} was retracted", "review_id": review.id}
    freed = {
        lockout.agent for lockout in task.people.lockouts if all(map(review_round.has_led_to, lockout.causes))
    }
    own: Events = ()
    if review_round.agent not in freed and _has_lost_its_cause(task, review_round.agent, context):
        own = (review_events.LockoutCleared(task_id=task.id, agent=review_round.agent, **why),)
        freed.add(review_round.agent)
    descendants = tuple(
        review_events.LockoutCleared(task_id=descendant, agent=agent, inherited_from=task.id, **why)
        for descendant, agent in context.facts.lockouts.descendants
        if agent in freed
    )
    return (*own, *descendants)


def _has_lost_its_cause(task: Task, agent: str, context: c.CommandContext) -> bool:
    """True if an agent's lockout rests on rejections of which too few remain without this one."""
    standing = sum(one.agent == agent for one in task.standing_rounds) - 1
    causes = (cause for lockout in task.people.lockouts if lockout.agent == agent for cause in lockout.causes)
    return any(cause.review_id for cause in causes) and standing < (context.facts.policy.lockout_after or 1)


def record_feedback_fetch(task: Task, command: c.FetchFeedback, context: c.CommandContext) -> Events:
    """Records that the agent received all feedback.

    Anybody who is not locked out may read the feedback of an unclaimed task; that of a claimed one is for its agent,
    reviewers and directors.
    """
    r.require_not_locked_out(task, command.agent, context.facts)
    claim = task.claim
    if claim is None or claim.lease_expires_at <= context.at:
        return ()
    if claim.agent != command.agent:
        r.require_leader(task, context.actor)
        return ()
    if claim.read >= task.reviews.feedback:
        return ()
    return (
        review_events.FeedbackFetched(
            task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, count=task.reviews.feedback
        ),
    )


def _require_rejectable(task: Task, commit: str, context: c.CommandContext) -> Submission:
    """The submission to reject: under review, or already sent back by another review of the same work."""
    work = task.submission
    known = task.find_rejected_round(work.handoff_id, work.tree) if work else None
    if known is None or task.status in TERMINAL:
        return _require_under_review(task, commit, context)
    require_not_author(task, context.actor, context.facts)
    return _require_submission(task, commit, context)


def _require_under_review(task: Task, commit: str, context: c.CommandContext) -> Submission:
    """The submission under review; refuses its author, and any commit but the last submitted one."""
    require_not_author(task, context.actor, context.facts)
    if task.status == Status.DONE:
        raise Refused("too_late", f"Task {task.id} is done at {task.reviews.approved_commit[:12]}.")
    if task.status != Status.PROVISIONAL:
        text = f"Task {task.id} is {task.status}; it has no submission that awaits review."
        raise Refused("nothing_to_review", f"{text}{_retract_advice(task)}")
    return _require_submission(task, commit, context)


def _retract_advice(task: Task) -> str:
    """How rejected work can return to review; empty if the last submission was not rejected."""
    work = task.submission
    known = task.find_rejected_round(work.handoff_id, work.tree) if work else None
    if known is None or task.status not in (Status.REJECTED, Status.ESCALATED):
        return ""
    names = " and ".join(dict.fromkeys(one.reviewer for one in known.reviews if not one.is_retracted))
    return (
        f" {known.commit[:12]} was rejected by {names}. They or the user can retract that:"
        f" `remand review retract {task.id} --reason TEXT`."
    )


def require_awaiting_review(task: Task) -> Submission:
    """The task's submission; refuses a task without one."""
    if task.submission is None:
        raise Refused(
            "nothing_to_review", f"Task {task.id} is {task.status}; it has no submission that awaits review."
        )
    return task.submission


def require_shown_work(task: Task, work: Submission | None) -> Submission:
    """The work of a task for a diff; refuses a task without a submission."""
    if work is None:
        raise Refused("nothing_to_review", f"Task {task.id} is {task.status}; it has no submission.")
    return work


def _require_submission(task: Task, commit: str, context: c.CommandContext) -> Submission:
    submission = require_awaiting_review(task)
    if not context.facts.work.commit:
        raise unknown_commit_refusal(commit)
    is_same_tree = bool(submission.tree) and context.facts.work.tree == submission.tree
    if context.facts.work.commit != submission.commit and not is_same_tree:
        raise Refused(
            "stale_review",
            f"The review names {context.facts.work.commit[:12]}, but the latest submission is {submission.commit[:12]}.",
        )
    return submission


def has_worked_on(task: Task, reviewer: Actor) -> bool:
    """True for anybody who worked on the task under any name. The user's manual fixes need no second review."""
    is_user = reviewer.is_user
    worked = task.people.authors if is_user else (*task.people.authors, *task.people.holders)
    return reviewer.name in worked and not (is_user and task.people.fixer == reviewer.name)


def require_not_author(task: Task, reviewer: Actor, facts: Facts) -> None:
    """Refuses anybody who worked on the task or is locked out of it or an ancestor; never the user."""
    if has_worked_on(task, reviewer):
        raise Refused("own_work", f"{reviewer.name} worked on task {task.id} and cannot review it.")
    if not reviewer.is_user:
        r.require_not_locked_out(task, reviewer.name, facts)


def _require_whole_scope(context: c.CommandContext) -> None:
    """Refuses an approval by a reviewer whose scope does not include every changed file."""
    actor, changed = context.actor, context.facts.work.changed
    if not review_scope(actor):
        return
    if changed is None:
        raise Refused(
            "out_of_scope", f"The commit's changes are not known, so {actor.name} cannot approve it."
        )
    beyond = paths_outside_scope(actor, changed)
    if beyond:
        paths = ", ".join(beyond[:3]) + (f" and {len(beyond) - 3} more" if len(beyond) > 3 else "")
        raise Refused(
            "out_of_scope",
            f"{actor.name} reviews {', '.join(review_scope(actor))}; the commit also changes {paths}.",
        )


def _require_unmoved_branch(task: Task, submission: Submission, context: c.CommandContext) -> None:
    """Refuses to approve work whose branch has moved: the merge would not be what was measured."""
    head, actor = context.facts.work.head_tree, context.actor
    if actor.is_user or not head or head == submission.tree:
        return
    raise Refused(
        "head_moved",
        f"{submission.commit[:12]} was submitted, but the branch {task.branch} has moved since.",
    )


MAX_COMMENTS = 1000
"""The most forge comments passed on with one rejection."""


def add_review_comments(task: Task, command: c.AddComments, context: c.CommandContext) -> Events:
    """Adds a reviewer's comments to the rejection of the work they concern, each comment once.

    They do not count as a rejection, but the next agent must read them before submitting.
    """
    r.require_text("source", command.source, MAX_SOURCE)
    require_findings(command.findings)
    known = task.find_rejected_round(command.handoff_id, command.tree)
    if known is None or task.status in TERMINAL:
        raise Refused(
            "nothing_to_review", f"Task {task.id} has no rejection in force that these comments belong to."
        )
    require_not_author(task, context.actor, context.facts)
    added = {name for one in task.standing_rounds for name in one.comments}
    fresh = tuple(finding for finding in command.findings if finding.comment and finding.comment not in added)
    fresh = fresh[: max(MAX_COMMENTS - len(known.comments), 0)]
    if not fresh:
        return ()
    return (
        review_events.ReviewCommented(
            task_id=task.id,
            reviewer=context.actor.name,
            commit=known.commit,
            tree=known.tree,
            handoff_id=known.handoff_id,
            findings=limit_to_scope(fresh, context.actor),
            source=command.source,
        ),
    )


def record_review(task: Task, command: c.NoteReview, context: c.CommandContext) -> Events:
    """Records a review that does not count, once."""
    if task.has_imported_review(command.source):
        return ()
    return (
        review_events.ReviewNoted(
            task_id=task.id,
            reviewer=command.reviewer,
            commit=command.commit,
            why=command.why,
            findings=command.findings,
            source=command.source,
        ),
    )


def record_merge(task: Task, command: c.NoteMerge, context: c.CommandContext) -> Events:
    """Records that work was merged past the rules, and notifies the user."""
    if task.has_imported_review(command.source):
        return ()
    bypassed = review_events.ReviewBypassed(
        task_id=task.id, by=command.by, commit=command.commit, why=command.why, source=command.source
    )
    if task.status in TERMINAL or task.status in (Status.ESCALATED, Status.DECOMPOSED):
        return (bypassed,)
    why = f"{command.by} merged {command.commit[:12]} of {task.label} although {command.why}"
    return (bypassed, ask_user(task, "bypassed", why, context))
