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
    """The rejection it follows from; empty when it follows from none."""
    inherited_from: str = ""
    """The task it was set on, when this one was split from that."""
    by: str = ""
    """On whose word, when that is not who asked."""
    team: tuple[str, ...] = ()
    """The other members of the team then: none of them is the agent, whatever it may be called later."""
    rejection_id: str = ""
    """The agent's own rejection of the task that cost it the task; empty when it follows from none."""


class LockoutCleared(OverridingEvent, tag="lockout.clear", kw_only=True):
    """An agent may work on the task again."""

    agent: str
    reason: str = ""
    guidance: str = ""
    """What the user wants the agent to know."""
    review_id: str = ""
    """The rejection whose retraction it follows from; empty when the user unlocked the agent."""
    inherited_from: str = ""
    """The task it was cleared on, when this one was split from that."""
    rejection_id: str = ""
    """The agent's own rejection of the task, when its appeal about that was accepted: nothing else is cleared."""


class Finding(Record, kw_only=True):
    """One remark of a review."""

    text: str
    path: str = ""
    line: int = 0
    is_blocking: bool = True
    comment: str = ""
    """The id of the comment on the forge; empty when it was given here."""
    reply_to: str = ""
    """The comment that its thread begins with; empty when it begins one."""
    at: Instant = ""
    """When it was given on the forge."""


def first_blocking(findings: Iterable[Finding]) -> Finding | None:
    """The finding that a rejection is known by: the first that blocks."""
    return next((finding for finding in findings if finding.is_blocking), None)


class ReviewRequested(TaskEvent, tag="review.request", kw_only=True):
    """Somebody asked a reviewer to look at the submission."""

    reviewer: str
    commit: str = ""


class ReviewApproved(TaskEvent, tag="review.approve", kw_only=True):
    """A reviewer accepted the submission at that commit."""

    reviewer: str
    commit: str
    checked: tuple[Finding, ...] = ()
    """What was looked at and found to hold."""
    tree: str = ""
    source: str = ""
    """Where the review was given, and its id there; empty when it was given here."""


class ReviewRejected(TaskEvent, tag="review.reject", kw_only=True):
    """A reviewer sent the submission back. Several reviews of one submission are one rejection."""

    reviewer: str
    commit: str
    tree: str = ""
    findings: tuple[Finding, ...] = ()
    review_id: str = ""
    patch: str = ""
    """A fingerprint of what the submission changes; empty when it could not be had."""
    source: str = ""
    author: str = ""
    """Whose work it was, and under which claim: the rejection counts even where a merge has undone the submission."""
    handoff_id: str = ""


class ReviewRetracted(OverridingEvent, tag="review.retract", kw_only=True):
    """A rejection was retracted, with its count and its lockout."""

    review_id: str
    reviewer: str
    """Whose rejection it was."""
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
    """The kind of forge, with a colon."""


class ReviewBypassed(TaskEvent, tag="review.bypass", kw_only=True):
    """Work was merged on the forge although no gate had passed it or no reviewer had approved it."""

    by: str
    commit: str
    why: str = ""
    source: str = ""


class ObjectionsDismissed(OverridingEvent, tag="objection.dismiss", kw_only=True):
    """The user dismissed the objections of an untrusted key to the task: approvals no longer wait for them."""

    signer: str = ""
    """The id of the key; empty: every key that is not trusted."""
    works: tuple[str, ...] = ()
    """The code trees or commits that it is about."""
    reason: str = ""


class FeedbackFetched(ClaimEvent, tag="feedback.fetch", kw_only=True):
    """The agent that holds the task received all feedback on it."""

    count: int
    """How many pieces of feedback the task had then."""


class TaskReassigned(TaskEvent, tag="task.reassign", kw_only=True):
    """The task passes to another agent; the handoff that follows reserves it."""

    target: str
    source: str = ""
    """Who had it."""
    reason: str = ""
    is_last: bool = False
    """No other agent is left that may take it after this one."""


class EscalationOpened(TaskEvent, tag="escalation.open", kw_only=True):
    """A question that only a human can answer."""

    reason: str = ""
    kind: str = ""
    """What led to it: `deadlock`, `reviews`, `gates`, `gate`, `asked`, `bypassed`, `rejected_before`."""
    deadline: Instant = ""
    gates: tuple[str, ...] = ()
    """The gates that cannot be measured, where the question is about them (`gate`)."""


class EscalationRepeated(TaskEvent, tag="escalation.repeat", kw_only=True):
    """Nobody answered in time: the user is notified again."""

    escalation_id: str
    deadline: Instant = ""


class EscalationNotified(TaskEvent, tag="escalation.notify", kw_only=True):
    """A notice about a question, an alert or an override was sent to the user through a channel that accepted it."""

    escalation_id: str
    channel: str
    is_last: bool = False
    """No channel is left that has to be told of it."""


class EscalationAcknowledged(TaskEvent, tag="escalation.acknowledge", kw_only=True):
    """The user has seen the question, or the alert."""

    escalation_id: str


class EscalationAnswered(OverridingEvent, tag="escalation.answer", kw_only=True):
    """The user has decided a question, or acted on an alert; separate events record the consequences."""

    escalation_id: str
    option: str
    guidance: str = ""


class AnswerRetracted(TaskEvent, tag="answer.retract", kw_only=True):
    """A member retracted their answer before anybody had acted on it: the task is again as it was without that answer."""

    answer: str = ""
    """The id of the event that says the answer; empty in a history from which the answer is gone."""
    option: str = ""
    """What the answer was."""
    reason: str = ""
