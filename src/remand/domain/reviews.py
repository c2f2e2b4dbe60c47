"""What may be decided about reviews: whose word counts, for which commit, and what follows from a no."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain import rules as r
from remand.domain.gating import is_rejected_still, open_control
from remand.domain.objections import require_answered
from remand.domain.questions import opened
from remand.domain.refusals import Refused
from remand.domain.roles import REVIEWERS, Actor
from remand.domain.scopes import outside, scope
from remand.domain.staffing import best, left, passed_on
from remand.domain.task import TERMINAL, Review, Status, Submission, Task

Events = tuple[e.Event, ...]
MAX_SOURCE = 200
WORDS_OF_A_LOOK = 4


def request(task: Task, ask: c.RequestReview, command: c.Command) -> Events:
    """Asks a reviewer to look at the submission."""
    reviewer = command.facts.target
    if reviewer is None or not reviewer.has(*REVIEWERS):
        raise Refused("bad_value", f"{ask.reviewer[:64] or 'Nobody'} is no reviewer of this team.")
    if task.status != Status.PROVISIONAL or task.submission is None:
        raise Refused("nothing_to_review", f"Task {task.id} is {task.status}; nothing of it awaits review.")
    require_no_part(task, reviewer, command.facts)
    if reviewer.name in task.requested:
        return ()
    return (e.ReviewRequested(task_id=task.id, reviewer=reviewer.name, commit=task.submission.commit),)


def approve(task: Task, ask: c.ApproveReview, command: c.Command) -> Events:
    """Accepts the submission. A review of a forge that was taken in before changes nothing any more."""
    r.require_text("source", ask.source, MAX_SOURCE)
    if task.has_taken_in(ask.source):
        return ()
    submission = _under_review(task, ask.commit, command)
    _require_whole_scope(command)
    _require_still_head(task, submission, command)
    _require_control(task, command)
    if is_rejected_still(task):
        raise Refused(
            "rejected_before",
            f"The code of {submission.commit[:12]} was rejected before, and nobody took that back.",
        )
    _require_looked(ask, command)
    require_answered(task, command.facts)
    return (
        e.ReviewApproved(
            task_id=task.id,
            reviewer=command.actor.name,
            commit=submission.commit,
            tree=submission.tree,
            checked=ask.checked,
            source=ask.source,
        ),
    )


def _require_control(task: Task, command: c.Command) -> None:
    """Refuses to approve work, or a branch that went on, that changes the ledger's own files unsettled."""
    for change in open_control(task, command.facts.control):
        raise Refused("control_changed", f"In {change.commit[:12]} {change.text}.")


def _require_looked(ask: c.ApproveReview, command: c.Command) -> None:
    """Refuses a yes of an agent that does not say what it looked at: a line of the change, and what holds there."""
    if len(ask.checked) > r.MAX_FINDINGS:
        raise Refused("bad_value", f"A review names at most {r.MAX_FINDINGS} places, not {len(ask.checked)}.")
    for one in ask.checked:
        r.require_text("text of what was checked", one.text)
        r.require_text("path of what was checked", one.path, 4096)
        r.require_number("line of what was checked", one.line)
    if not command.actor.confined:
        return
    changed = command.facts.changed
    looked = [one for one in ask.checked if one.path and (changed is None or one.path in changed)]
    if not any(len(set(one.text.lower().split())) >= WORDS_OF_A_LOOK for one in looked):
        raise Refused(
            "vacuous_approval",
            f"{command.actor.name} approves without saying what it looked at: name at least one line of the change"
            " and what was found to hold there.",
        )


def reject(task: Task, ask: c.RejectReview, command: c.Command) -> Events:
    """Sends the submission back: its author is locked out, another agent takes over, or the user is asked.

    A review of a forge that was taken in before changes nothing any more.
    """
    r.require_text("source", ask.source, MAX_SOURCE)
    if task.has_taken_in(ask.source):
        return ()
    submission = _rejectable(task, ask.commit, command)
    is_forges = ":" in ask.source
    rejected = e.ReviewRejected(
        task_id=task.id,
        reviewer=command.actor.name,
        commit=submission.commit,
        tree=submission.tree,
        findings=_sound(ask.findings if is_forges else _given_here(ask.findings), command.actor),
        review_id=forge_review_id(task.id, ask.source) if is_forges else command.facts.fresh_review_id,
        patch=command.facts.patch,
        source=ask.source,
        author=submission.agent,
        handoff_id=submission.handoff_id,
    )
    if task.status != Status.PROVISIONAL:
        return (rejected, *_one_cause_more(task, submission.agent, rejected))
    lockout = _lockout(task, submission, rejected, command)
    return (rejected, *lockout, *_what_next(task, submission, rejected, command, is_locked=bool(lockout)))


def forge_review_id(task_id: str, source: str) -> str:
    """The id of a review that was given elsewhere: the same in every ledger that takes it in."""
    return f"V-{sha256(f'{task_id} {source}'.encode()).hexdigest()[:16]}"


def _sound(findings: tuple[e.Finding, ...], reviewer: Actor) -> tuple[e.Finding, ...]:
    """The findings of a rejection: one of them blocks, within the reviewer's scope."""
    require_findings(findings)
    if not any(finding.is_blocking for finding in findings):
        raise Refused(
            "bad_value", "A rejection needs at least one blocking finding; nits alone do not reject."
        )
    within = within_scope(findings, reviewer)
    if not any(finding.is_blocking for finding in within):
        raise Refused(
            "out_of_scope",
            f"{reviewer.name} reviews {', '.join(scope(reviewer))}; every blocking finding is about another file.",
        )
    return within


def _given_here(findings: tuple[e.Finding, ...]) -> tuple[e.Finding, ...]:
    """Findings that no forge has: nobody takes a comment there for told by naming it here."""
    return tuple(replace(finding, comment="", reply_to="", at="") for finding in findings)


def require_findings(findings: tuple[e.Finding, ...]) -> None:
    """Refuses more findings than an event takes, and what is no text."""
    if len(findings) > r.MAX_FINDINGS:
        raise Refused("bad_value", f"A review has at most {r.MAX_FINDINGS} findings, not {len(findings)}.")
    for finding in findings:
        r.require_text("finding", finding.text, may_be_empty=False)
        r.require_text("finding's path", finding.path, 4096)
        r.require_number("finding's line", finding.line)
        for name in (finding.comment, finding.reply_to):
            r.require_text("comment's id", name, MAX_SOURCE)


def within_scope(findings: tuple[e.Finding, ...], reviewer: Actor) -> tuple[e.Finding, ...]:
    """The findings as they count: what a reviewer says of files beyond its scope is a suggestion."""
    beyond = set(outside(reviewer, (finding.path for finding in findings if finding.path)))
    return tuple(
        replace(finding, is_blocking=False) if finding.path in beyond else finding for finding in findings
    )


def _lockout(task: Task, submission: Submission, rejected: e.ReviewRejected, command: c.Command) -> Events:
    """Locks the author out, when its work on the task was rejected as often as the policy says; never the user."""
    after, author = command.facts.lockout_after, submission.agent
    times = sum(one.agent == author for one in task.standing_rounds) + 1
    if not after or times < after or task.is_locked_out(author) or author == task.fixer:
        return ()
    return (_locked(author, rejected),)


def _one_cause_more(task: Task, author: str, rejected: e.ReviewRejected) -> Events:
    """A lockout that stands by this review, too, should the one before be retracted; none of whom the user let back."""
    is_locked = any(one.agent == author and one.review_id for one in task.lockouts)
    return (_locked(author, rejected),) if is_locked else ()


def _locked(author: str, rejected: e.ReviewRejected) -> e.LockoutSet:
    reason = next(finding.text for finding in rejected.findings if finding.is_blocking)
    return e.LockoutSet(
        task_id=rejected.task_id, agent=author, reason=reason[:500], review_id=rejected.review_id
    )


def _what_next(
    task: Task, submission: Submission, rejected: e.ReviewRejected, command: c.Command, *, is_locked: bool
) -> Events:
    """Another agent with the skill goes on, or the user is asked. An author who may go on is left to."""
    facts, number = command.facts, len(task.standing_rounds) + 1
    if number >= facts.escalate_after_reviews:
        why = f"{task.label[0].upper()}{task.label[1:]} was rejected {number} times. It needs guidance or a manual fix"
        return (opened(task, "reviews", why, command),)
    if not facts.has_team:
        return ()
    author = submission.agent
    agents = left(task, facts, without=(rejected.reviewer, *((author,) if is_locked else ())))
    if any(agent.name == author for agent in agents):
        return ()
    if not agents:
        return (opened(task, "deadlock", f"All agents are locked out of {task.label}", command),)
    about = " ".join(finding.text for finding in rejected.findings)
    chosen, skills = best(agents, about, dict(facts.room))
    why = f"{', '.join(skills)} expertise" if skills else "next eligible agent"
    return passed_on(task, chosen, command, source=author, why=why, is_last=len(agents) == 1)


def retract(task: Task, ask: c.RetractReview, command: c.Command) -> Events:
    """Takes a rejection back, with its count; the lockout too, as soon as too few rejections are left for it."""
    r.require_text("reason", ask.reason, may_be_empty=False)
    if task.status in (Status.DONE, Status.CANCELLED):
        raise Refused("bad_transition", f"Task {task.id} is {task.status}; there is nothing to take back.")
    review = _retractable(task, ask.review_id, command.actor)
    retracted = e.ReviewRetracted(
        task_id=task.id, review_id=review.id, reviewer=review.reviewer, reason=ask.reason
    )
    return (retracted, *_let_back(task, review, command))


def _retractable(task: Task, review_id: str, actor: Actor) -> Review:
    """The rejection that is meant: named, or the last that stands and is the actor's to take back."""
    is_user = actor.is_user
    standing = [
        review for one in reversed(task.rounds) for review in reversed(one.reviews) if not review.is_retracted
    ]
    meant = [review for review in standing if review_id in ("", review.id)]
    if not meant:
        raise Refused(
            "nothing_to_retract",
            f"No rejection {review_id[:64]} of task {task.id} stands.".replace("  ", " "),
        )
    own = [review for review in meant if review.reviewer == actor.name]
    if not own and not is_user:
        raise Refused(
            "not_yours", f"That rejection is {meant[0].reviewer}'s; {actor.name} cannot take it back."
        )
    return own[0] if own else meant[0]


def _let_back(task: Task, review: Review, command: c.Command) -> Events:
    """Ends what an earlier rejection had brought about with later ones, and what went along to other tasks."""
    found = next(one for one in task.rounds if review in one.reviews)
    if sum(not other.is_retracted for other in found.reviews) > 1:
        return ()
    why: dict[str, Any] = {"reason": f"rejection {review.id} was retracted", "review_id": review.id}
    freed = {lockout.agent for lockout in task.lockouts if all(map(found.has_led_to, lockout.causes))}
    own: Events = ()
    if found.agent not in freed and _is_spent(task, found.agent, command):
        own = (e.LockoutCleared(task_id=task.id, agent=found.agent, **why),)
        freed.add(found.agent)
    heirs = tuple(
        e.LockoutCleared(task_id=heir, agent=agent, inherited_from=task.id, **why)
        for heir, agent in command.facts.heirs
        if agent in freed
    )
    return (*own, *heirs)


def _is_spent(task: Task, agent: str, command: c.Command) -> bool:
    """True when an agent is locked out for rejections of which too few are left without this one."""
    standing = sum(one.agent == agent for one in task.standing_rounds) - 1
    causes = (cause for lockout in task.lockouts if lockout.agent == agent for cause in lockout.causes)
    return any(cause.review_id for cause in causes) and standing < (command.facts.lockout_after or 1)


def fetch(task: Task, ask: c.FetchFeedback, command: c.Command) -> Events:
    """Notes that the agent was given all feedback there is. What nobody holds everybody may look at who is not locked
    out; what another agent holds, only those who review and direct.
    """
    r.require_not_locked_out(task, ask.agent, command.facts)
    claim = task.claim
    if claim is None or claim.lease_expires_at <= command.at:
        return ()
    if claim.agent != ask.agent:
        r.require_leader(task, command.actor)
        return ()
    if claim.read >= task.feedback:
        return ()
    return (
        e.FeedbackFetched(
            task_id=task.id, handoff_id=claim.handoff_id, agent=claim.agent, count=task.feedback
        ),
    )


def _rejectable(task: Task, commit: str, command: c.Command) -> Submission:
    """The submission that is rejected: under review, or sent back already by another review of the same work."""
    work = task.submission
    known = task.sent_back(work.handoff_id, work.tree) if work else None
    if known is None or task.status in TERMINAL:
        return _under_review(task, commit, command)
    require_no_part(task, command.actor, command.facts)
    return _submitted(task, commit, command)


def _under_review(task: Task, commit: str, command: c.Command) -> Submission:
    """The submission under review; refuses the author, and any other commit than the one submitted last."""
    require_no_part(task, command.actor, command.facts)
    if task.status == Status.DONE:
        raise Refused("too_late", f"Task {task.id} is done at {task.approved_commit[:12]}.")
    if task.status != Status.PROVISIONAL:
        text = f"Task {task.id} is {task.status}; nothing of it awaits review."
        raise Refused("nothing_to_review", f"{text}{_how_again(task)}")
    return _submitted(task, commit, command)


def _how_again(task: Task) -> str:
    """How rejected work comes under review again; empty when nothing that was handed in last was rejected."""
    work = task.submission
    known = task.sent_back(work.handoff_id, work.tree) if work else None
    if known is None or task.status not in (Status.REJECTED, Status.ESCALATED):
        return ""
    names = " and ".join(dict.fromkeys(one.reviewer for one in known.reviews if not one.is_retracted))
    return (
        f" {known.commit[:12]} was rejected by {names}, who or the user can take that back:"
        f" `remand review retract {task.id} --reason TEXT`."
    )


def _submitted(task: Task, commit: str, command: c.Command) -> Submission:
    submission = task.submission
    if submission is None:
        raise Refused("nothing_to_review", f"Task {task.id} is {task.status}; nothing of it awaits review.")
    if not command.facts.commit:
        raise Refused("unknown_commit", f"The repository has no commit {commit!r}.")
    is_same_tree = bool(submission.tree) and command.facts.tree == submission.tree
    if command.facts.commit != submission.commit and not is_same_tree:
        raise Refused(
            "stale_review",
            f"The review names {command.facts.commit[:12]}, but {submission.commit[:12]} was submitted last.",
        )
    return submission


def has_part(task: Task, reviewer: Actor) -> bool:
    """True for who worked on the task, under any name. What the user mended by hand needs no second word."""
    is_user = reviewer.is_user
    worked = task.authors if is_user else (*task.authors, *task.holders)
    return reviewer.name in worked and not (is_user and task.fixer == reviewer.name)


def require_no_part(task: Task, reviewer: Actor, facts: c.Facts) -> None:
    """Refuses who worked on the task, or is kept away from it or from one it was cut from; never the user for that."""
    if has_part(task, reviewer):
        raise Refused("own_work", f"{reviewer.name} worked on task {task.id} and cannot review it.")
    if not reviewer.is_user:
        r.require_not_locked_out(task, reviewer.name, facts)


def _require_whole_scope(command: c.Command) -> None:
    """Refuses an approval by a reviewer whose word does not reach every file that was changed."""
    actor, changed = command.actor, command.facts.changed
    if not scope(actor):
        return
    if changed is None:
        raise Refused(
            "out_of_scope", f"What the commit changes is not known, so {actor.name} cannot approve it."
        )
    beyond = outside(actor, changed)
    if beyond:
        shown = ", ".join(beyond[:3]) + (f" and {len(beyond) - 3} more" if len(beyond) > 3 else "")
        raise Refused(
            "out_of_scope",
            f"{actor.name} reviews {', '.join(scope(actor))}; the commit also changes {shown}.",
        )


def _require_still_head(task: Task, submission: Submission, command: c.Command) -> None:
    """Refuses to approve work whose branch has gone on: what would be merged is not what was measured."""
    head, actor = command.facts.head_tree, command.actor
    if actor.is_user or not head or head == submission.tree:
        return
    raise Refused(
        "head_moved",
        f"{submission.commit[:12]} was submitted, but the branch {task.branch} has gone on since.",
    )
