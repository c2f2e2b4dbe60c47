"""Events of reviews, lockouts, reassignments, objections and escalations."""

from collections.abc import Iterable

from remand.domain.events.event import ClaimEvent, OverridingEvent, TaskEvent
from remand.domain.instant import Instant
from remand.domain.record import Record


class LockoutSet(TaskEvent, tag="lockout.set", kw_only=True):
    """An agent may no longer work on the task."""

    agent: str
    reason: str = ""
    review_id: str = ""
    """The rejection that caused it; empty if none did."""
    inherited_from: str = ""
    """The parent task on which it was set, if inherited."""
    by: str = ""
    """Who decided it, if not the actor."""
    team: tuple[str, ...] = ()
    """The other team members at that time: none of them is the agent, whatever it is called later."""
    rejection_id: str = ""
    """The agent's own rejection that cost it the task; empty if none did."""


class LockoutCleared(OverridingEvent, tag="lockout.clear", kw_only=True):
    """An agent may work on the task again."""

    agent: str
    reason: str = ""
    guidance: str = ""
    """The user's guidance for the agent."""
    review_id: str = ""
    """The retracted rejection that caused it; empty if the user unlocked the agent."""
    inherited_from: str = ""
    """The parent task on which it was cleared, if inherited."""
    rejection_id: str = ""
    """The agent's own rejection whose appeal was accepted: only its lockout is cleared."""


class Finding(Record, kw_only=True):
    """One remark of a review."""

    text: str
    path: str = ""
    line: int = 0
    is_blocking: bool = True
    comment: str = ""
    """The forge comment's id; empty if it was given here."""
    reply_to: str = ""
    """The first comment of its thread; empty if it is the first."""
    at: Instant = ""
    """When it was given on the forge."""


def first_blocking(findings: Iterable[Finding]) -> Finding | None:
    """The finding that represents a rejection: the first blocking one."""
    return next((finding for finding in findings if finding.is_blocking), None)


class ReviewRequested(TaskEvent, tag="review.request", kw_only=True):
    """A review of the submission was requested."""

    reviewer: str
    commit: str = ""


class ReviewApproved(TaskEvent, tag="review.approve", kw_only=True):
    """A reviewer accepted the submission at that commit."""

    reviewer: str
    commit: str
    checked: tuple[Finding, ...] = ()
    """What was checked and found correct."""
    tree: str = ""
    source: str = ""
    """The forge and its id of the review; empty if it was given here."""


class ReviewRejected(TaskEvent, tag="review.reject", kw_only=True):
    """A reviewer rejected the submission. Several reviews of one submission count as one rejection."""

    reviewer: str
    commit: str
    tree: str = ""
    findings: tuple[Finding, ...] = ()
    review_id: str = ""
    patch: str = ""
    """A fingerprint of the submission's changes; empty if unavailable."""
    source: str = ""
    author: str = ""
    """The author and claim of the work: the rejection counts even if a merge has undone the submission."""
    handoff_id: str = ""


class ReviewRetracted(OverridingEvent, tag="review.retract", kw_only=True):
    """A rejection was retracted, with its count and its lockout."""

    review_id: str
    reviewer: str
    """The author of the rejection."""
    reason: str = ""


class ReviewNoted(TaskEvent, tag="review.note", kw_only=True):
    """A review that did not count, kept with the reason, for example because it was late or about another commit."""

    reviewer: str
    commit: str = ""
    why: str = ""
    findings: tuple[Finding, ...] = ()
    source: str = ""


class ReviewCommented(TaskEvent, tag="review.comment", kw_only=True):
    """A reviewer commented on the forge on rejected work, before or after the rejection."""

    reviewer: str
    commit: str
    tree: str = ""
    handoff_id: str = ""
    """The claim under which the rejected work was submitted."""
    findings: tuple[Finding, ...] = ()
    source: str = ""
    """The kind of forge with a colon."""


class ReviewBypassed(TaskEvent, tag="review.bypass", kw_only=True):
    """Work was merged on the forge although no gate had passed it or no reviewer had approved it."""

    by: str
    commit: str
    why: str = ""
    source: str = ""


class ObjectionsDismissed(OverridingEvent, tag="objection.dismiss", kw_only=True):
    """The user dismissed the objections of an untrusted key to the task: approvals no longer wait for them."""

    signer: str = ""
    """The id of the key; empty: all untrusted keys."""
    works: tuple[str, ...] = ()
    """The code trees or commits concerned."""
    reason: str = ""


class FeedbackFetched(ClaimEvent, tag="feedback.fetch", kw_only=True):
    """The agent that holds the task received all feedback on it."""

    count: int
    """The number of pieces of feedback at that time."""


class TaskReassigned(TaskEvent, tag="task.reassign", kw_only=True):
    """The task goes to another agent; the handoff that follows reserves it."""

    target: str
    source: str = ""
    """The previous agent."""
    reason: str = ""
    is_last: bool = False
    """Whether no further agent may take it after this one."""


class EscalationOpened(TaskEvent, tag="escalation.open", kw_only=True):
    """A question that only a human can answer."""

    reason: str = ""
    kind: str = ""
    """Its cause: `deadlock`, `reviews`, `gates`, `gate`, `asked`, `bypassed`, `rejected_before`."""
    deadline: Instant = ""
    gates: tuple[str, ...] = ()
    """The gates that cannot run, if the question is about them (`gate`)."""


class EscalationRepeated(TaskEvent, tag="escalation.repeat", kw_only=True):
    """Nobody answered in time: the user is notified again."""

    escalation_id: str
    deadline: Instant = ""


class EscalationNotified(TaskEvent, tag="escalation.notify", kw_only=True):
    """A notice about a question, an alert or an override was sent to the user through a channel that accepted it."""

    escalation_id: str
    channel: str
    is_last: bool = False
    """Whether all channels have now delivered it."""


class EscalationAcknowledged(TaskEvent, tag="escalation.acknowledge", kw_only=True):
    """The user has seen the question or alert."""

    escalation_id: str


class EscalationAnswered(OverridingEvent, tag="escalation.answer", kw_only=True):
    """The user has decided a question, or acted on an alert; separate events record the consequences."""

    escalation_id: str
    option: str
    guidance: str = ""


class AnswerRetracted(TaskEvent, tag="answer.retract", kw_only=True):
    """A member retracted their answer before anybody had acted on it: the task is again as it was without that answer."""

    answer: str = ""
    """The id of the answer's event; empty in a history without the answer."""
    option: str = ""
    """The answer."""
    reason: str = ""
