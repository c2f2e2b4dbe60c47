"""The commands: one class each, and `CommandContext`, which adds time, actor and facts."""

from __future__ import annotations

from typing import Any

from remand.domain.access.team import Actor
from remand.domain.events.reviews import Finding
from remand.domain.events.work import How, Purpose
from remand.domain.facts import Facts
from remand.domain.forge import ForgeAction
from remand.domain.gate.verdict import Verdict
from remand.domain.instant import Instant
from remand.domain.record import Record


class Command(Record, tag_field="ask", tag=str.lower):
    """A request for a change. Only `decide` determines what follows from it."""


class TaskCommand(Command, kw_only=True):
    """A command about one task."""

    task_id: str


class ClaimCommand(TaskCommand, kw_only=True):
    """A command by the task's holder; if a handoff is given, it must be the current one."""

    agent: str
    handoff_id: str = ""
    reason: str = ""


class HandoffCommand(Command, kw_only=True):
    """A command about a handoff and its task."""

    handoff_id: str


class PlanForgeAction(TaskCommand, kw_only=True, tag="intendact"):
    """Begins an action. For an action that has begun, it says whether it may still be carried out."""

    act: ForgeAction
    about: str = ""
    """The commit concerned; nothing else is pushed, shown or merged."""
    base: str = ""
    """The branch that work is merged into."""
    is_again: bool = False
    """Whether the user wants to retry an action that was given up."""


class RecordForgeAction(TaskCommand, kw_only=True, tag="noteact"):
    """Records that an action has happened."""

    act: ForgeAction
    about: str = ""
    pr: int = 0
    url: str = ""
    is_found: bool = False


class RecordForgeActionFailure(TaskCommand, kw_only=True, tag="noteactfailure"):
    """Records that an action failed."""

    act: ForgeAction
    about: str = ""
    why: str
    is_final: bool = False
    """Whether retrying is pointless."""


class SettleFinding(TaskCommand, kw_only=True):
    """Accept or refuse a finding of the integrity gate."""

    finding: str
    is_accepted: bool
    reason: str = ""


class OverrideGate(TaskCommand, kw_only=True):
    """Override a gate's failure for the measured code tree."""

    gate: str
    reason: str


class RecordVerdict(TaskCommand, kw_only=True):
    """Record the gates' result for an agent's done claim."""

    agent: str
    handoff_id: str = ""
    verdict: Verdict
    branch: str = ""
    is_branch_given: bool = False
    pr: int = 0


class CountIdleStop(TaskCommand, kw_only=True):
    """Count a stop that left nothing to measure; at the policy's limit the task is escalated to a human."""

    handoff_id: str
    """The claim under which the agent stopped."""
    key: str = ""
    """Identifies the stop, so that repeated reports count once."""
    reason: str = ""
    """What the agent was told."""
    commit: str = ""
    """The rejected commit that was resubmitted, if that is why there is nothing to measure."""


class RecordSessionVerdict(TaskCommand, kw_only=True):
    """Record the gates' result for a session without a task; the task argument stands for the session."""

    verdict: Verdict
    host: str = ""
    is_own: bool = True
    left_out: tuple[str, ...] = ()


class NoteGatesMeasured(TaskCommand, kw_only=True):
    """Record that gates ran again, and close the task's question about gates if none is broken any more."""

    gates: tuple[str, ...] = ()
    """Empty: the rules may have changed."""


class LockOut(TaskCommand, kw_only=True):
    """Lock an agent out of the task."""

    agent: str
    reason: str


class Unlock(TaskCommand, kw_only=True):
    """Clear an agent's lockout."""

    agent: str
    reason: str
    guidance: str = ""


class RequestReview(TaskCommand, kw_only=True):
    """Ask a reviewer to look at the submission."""

    reviewer: str


class ApproveReview(TaskCommand, kw_only=True):
    """Accept the submission at a commit."""

    commit: str
    checked: tuple[Finding, ...] = ()
    """The lines that were checked and found correct."""
    source: str = ""


class RejectReview(TaskCommand, kw_only=True):
    """Reject the submission at a commit with findings."""

    commit: str
    findings: tuple[Finding, ...] = ()
    source: str = ""


class DismissObjections(TaskCommand, kw_only=True):
    """Dismiss objections to the task signed by untrusted keys."""

    signer: str = ""
    """The id of the key; empty: all untrusted keys with objections so far."""
    reason: str


class RetractReview(TaskCommand, kw_only=True):
    """Retract a rejection; without an id, the reviewer's last standing one."""

    reason: str
    review_id: str = ""


class RetractAnswer(TaskCommand, kw_only=True):
    """Retract the last answer about the task: to a question, a held finding or a rejection."""

    reason: str = ""


class ReassignTask(TaskCommand, kw_only=True):
    """Let another agent continue the task."""

    target: str
    source: str = ""
    reason: str = ""


class EscalateTask(TaskCommand, kw_only=True):
    """Ask the user how to continue with the task."""

    reason: str


class AnswerEscalation(TaskCommand, kw_only=True):
    """Answer the question of an escalated task."""

    option: str
    escalation_id: str = ""
    guidance: str = ""


class AcknowledgeEscalation(TaskCommand, kw_only=True):
    """Acknowledge a question."""

    escalation_id: str = ""


class FetchFeedback(ClaimCommand, kw_only=True):
    """Record that the task's holder received its feedback."""


class NoteReview(TaskCommand, kw_only=True):
    """Record a forge review that does not count, with the reason."""

    reviewer: str
    source: str
    why: str
    commit: str = ""
    findings: tuple[Finding, ...] = ()


class AddComments(TaskCommand, kw_only=True):
    """Add a reviewer's forge comments to the rejection of the work they concern."""

    handoff_id: str
    tree: str
    """Identifies the rejection, together with the handoff: the rejected code tree."""
    findings: tuple[Finding, ...]
    source: str = ""


class NoteMerge(TaskCommand, kw_only=True):
    """Record that work was merged on the forge without having passed here."""

    by: str
    commit: str
    why: str
    source: str


class NoteDelivery(TaskCommand, kw_only=True):
    """Record that a channel received the notice of an escalation, an alert or an override."""

    escalation_id: str
    channel: str
    is_last: bool = False
    """Whether all channels have now received it."""


class RepeatEscalation(TaskCommand, kw_only=True):
    """Remind the user of a question that was not answered in time."""


class AssignTask(Command, kw_only=True):
    """Claim a task for an agent and begin its run; without an id, the next suitable task."""

    agent: str
    run_id: str
    task_id: str = ""
    tier: str = ""


class StartRun(TaskCommand, kw_only=True):
    """Begin another run of the task's holder, or of a reviewer or director."""

    agent: str
    run_id: str
    purpose: Purpose = Purpose.WORK
    tier: str = ""


class EndRun(TaskCommand, kw_only=True):
    """Record how a run ended."""

    run_id: str
    how: How
    status: int = 0
    seconds: float = 0.0
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    detail: str = ""
    has_work: bool = False
    """Whether it left commits or uncommitted files."""
    is_systems: bool = False
    """Whether the system is certainly at fault, so that it is not charged to the task."""
    is_answered: bool = False
    """Whether it fulfilled its purpose, whatever its exit status."""


class CheckStaff(TaskCommand, kw_only=True):
    """Ask the user if nobody on the team can take the task, or its agent gave it up."""


class AddTask(Command, kw_only=True):
    """Add a task."""

    title: str
    scope: str = ""
    priority: str = "medium"
    category: str = ""
    skills: tuple[str, ...] = ()
    branch: str = ""
    aliases: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    must_pass: tuple[str, ...] = ()
    """Patterns of the tests that prove the work: they must pass, whatever their results before."""
    own_id: str = ""
    """An id chosen by the user or a director; empty: a new one."""


class ImportIssue(AddTask, kw_only=True):
    """Add the task for an issue of the forge."""

    issue: int
    source: str
    """The issue's unique source: `github:owner/name#12`."""
    author: str = ""
    opened_at: Instant = ""


class EditTask(TaskCommand, kw_only=True):
    """Edit the task; None leaves a field unchanged."""

    title: str | None = None
    scope: str | None = None
    priority: str | None = None
    category: str | None = None
    skills: tuple[str, ...] | None = None
    branch: str | None = None
    aliases: tuple[str, ...] | None = None
    pr: int | None = None
    depends_on: tuple[str, ...] = ()
    drop_depends_on: tuple[str, ...] = ()


class ClaimTask(Command, kw_only=True):
    """Claim a task; without an id, the next suitable one."""

    agent: str
    task_id: str = ""


class Heartbeat(ClaimCommand, kw_only=True):
    """Renew the lease."""


class ReleaseTask(ClaimCommand, kw_only=True):
    """Return the task unchanged."""


class ContinueTask(ClaimCommand, kw_only=True):
    """Pause the task so that another session can continue it."""


class WaitTask(ClaimCommand, kw_only=True):
    """Wait for an external condition, named in `reason`."""


class FailTask(ClaimCommand, kw_only=True):
    """Give up the task."""


class SubmitTask(ClaimCommand, kw_only=True):
    """Claim that the task is done at a commit."""

    commit: str
    branch: str = ""
    is_branch_given: bool = False
    """Whether the branch was given explicitly, not merely checked out."""
    pr: int = 0


class CancelTask(TaskCommand, kw_only=True):
    """Cancel the task."""

    reason: str = ""


class ReopenTask(TaskCommand, kw_only=True):
    """Return a failed, blocked, escalated or cancelled task to its queue."""

    reason: str = ""


class DeferTask(TaskCommand, kw_only=True):
    """Defer the task until others are done."""

    waits_for: tuple[str, ...]
    reason: str = ""


class InitiateHandoff(TaskCommand, kw_only=True):
    """Offer the task to one agent."""

    target: str
    source: str = ""
    instructions: str = ""
    own_id: str = ""
    """A chosen id for the handoff; empty: a new one."""


class AcceptHandoff(HandoffCommand, kw_only=True):
    """Accept a handoff as its target."""

    agent: str
    acknowledgment: str = ""


class CompleteHandoff(HandoffCommand, kw_only=True):
    """Claim that a handoff's task is done at a commit."""

    agent: str
    commit: str
    branch: str = ""
    is_branch_given: bool = False
    pr: int = 0
    result: str = ""


class RejectHandoff(HandoffCommand, kw_only=True):
    """Reject the task of a handoff, with a record of the attempts and the blocker."""

    agent: str
    rejection: dict[str, Any]


class AppealRejection(HandoffCommand, kw_only=True):
    """Ask a director to decide on a rejection that the rules overrode."""

    agent: str
    reason: str


class AnswerRejection(HandoffCommand, kw_only=True):
    """Answer a rejection as the director."""

    decision: str
    created_tasks: tuple[str, ...] = ()
    rationale: str = ""
    message: str = ""
    reassign_to: str = ""


class GiveOpinion(HandoffCommand, kw_only=True):
    """Record an adviser's opinion on the last rejection of a handoff."""

    opinion: str


class ExpireLease(TaskCommand, kw_only=True):
    """End an expired lease or expired offers."""


class WakeTask(TaskCommand, kw_only=True):
    """Wake a deferred task whose blockers are done."""


class SettleTask(TaskCommand, kw_only=True):
    """Close a decomposed task whose subtasks have ended."""


class CommandContext(Record, kw_only=True):
    """A command with everything besides the task that `decide` may use."""

    command: Command
    actor: Actor
    at: Instant
    facts: Facts = Facts()
