"""What can be asked about reviews, lockouts, reassignments and escalations."""

from __future__ import annotations

from remand.domain.ask import ClaimAsk, TaskAsk
from remand.domain.review_events import Finding


class LockOut(TaskAsk, kw_only=True):
    """Keep an agent away from the task."""

    agent: str
    reason: str


class Unlock(TaskAsk, kw_only=True):
    """Let a locked-out agent work on the task again."""

    agent: str
    reason: str
    guidance: str = ""


class RequestReview(TaskAsk, kw_only=True):
    """Ask a reviewer to look at the submission."""

    reviewer: str


class ApproveReview(TaskAsk, kw_only=True):
    """Accept the submission at a commit."""

    commit: str
    checked: tuple[Finding, ...] = ()
    """What was looked at, line by line, and found to hold."""
    source: str = ""


class RejectReview(TaskAsk, kw_only=True):
    """Send the submission at a commit back with findings."""

    commit: str
    findings: tuple[Finding, ...] = ()
    source: str = ""


class DismissObjections(TaskAsk, kw_only=True):
    """Dismiss what was said against the task under keys that are not trusted."""

    signer: str = ""
    """The id of the key; empty: every such key that said something so far."""
    reason: str


class RetractReview(TaskAsk, kw_only=True):
    """Take a rejection back; without an id the reviewer's last one that stands."""

    reason: str
    review_id: str = ""


class ReassignTask(TaskAsk, kw_only=True):
    """Let another agent go on with the task."""

    target: str
    source: str = ""
    reason: str = ""


class EscalateTask(TaskAsk, kw_only=True):
    """Ask the user what becomes of the task."""

    reason: str


class AnswerEscalation(TaskAsk, kw_only=True):
    """Decide what becomes of an escalated task."""

    option: str
    escalation_id: str = ""
    guidance: str = ""


class AcknowledgeEscalation(TaskAsk, kw_only=True):
    """Say that the question was seen."""

    escalation_id: str = ""


class FetchFeedback(ClaimAsk, kw_only=True):
    """Note that the agent that holds the task was given its feedback."""


class OpenEscalation(TaskAsk, kw_only=True):
    """Give a task that cannot go on by itself to a human."""

    reason: str


class NoteReview(TaskAsk, kw_only=True):
    """Keep a review of a forge that cannot count, with the reason."""

    reviewer: str
    source: str
    why: str
    commit: str = ""
    findings: tuple[Finding, ...] = ()


class AddComments(TaskAsk, kw_only=True):
    """Add a reviewer's comments on a forge to the rejection of the work that they are about."""

    handoff_id: str
    tree: str
    """With the handoff, which rejection: the code tree that was rejected."""
    findings: tuple[Finding, ...]
    source: str = ""


class NoteMerge(TaskAsk, kw_only=True):
    """Keep that work was merged on the forge although it had not passed here."""

    by: str
    commit: str
    why: str
    source: str


class NoteDelivery(TaskAsk, kw_only=True):
    """Note that a channel took the notice of an escalation, an alert or an override."""

    escalation_id: str
    channel: str
    is_last: bool = False
    """No channel is left that has to be told of it."""


class RepeatEscalation(TaskAsk, kw_only=True):
    """Tell the user again of a question nobody has answered in time."""
