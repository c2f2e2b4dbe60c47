"""What can be asked: one class per command, and `CommandContext`, which adds time, actor and facts."""

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
    """What somebody wants to happen. Only `decide` says what follows from it."""


class TaskCommand(Command, kw_only=True):
    """A command about one task."""

    task_id: str


class ClaimCommand(TaskCommand, kw_only=True):
    """A command of the agent that holds the task; the handoff, when given, must be the current one."""

    agent: str
    handoff_id: str = ""
    reason: str = ""


class HandoffCommand(Command, kw_only=True):
    """A command about a handoff, and by it about its task."""

    handoff_id: str


class PlanForgeAction(TaskCommand, kw_only=True, tag="intendact"):
    """Begin an action. Asked again for an action that is begun, it says whether that may still be done."""

    act: ForgeAction
    about: str = ""
    """The commit that is meant; nothing else is pushed, shown or merged."""
    base: str = ""
    """The branch that work is merged into."""
    is_again: bool = False
    """Also when it was given up: the user wants it tried again."""


class RecordForgeAction(TaskCommand, kw_only=True, tag="noteact"):
    """Note that an action has happened."""

    act: ForgeAction
    about: str = ""
    pr: int = 0
    url: str = ""
    is_found: bool = False


class RecordForgeActionFailure(TaskCommand, kw_only=True, tag="noteactfailure"):
    """Note that an action could not be done."""

    act: ForgeAction
    about: str = ""
    why: str
    is_final: bool = False
    """Trying again would change nothing."""


class SettleFinding(TaskCommand, kw_only=True):
    """Accept or refuse a finding of the integrity gate."""

    finding: str
    is_accepted: bool
    reason: str = ""


class OverrideGate(TaskCommand, kw_only=True):
    """Let a gate's failure pass, for the code tree it was measured on."""

    gate: str
    reason: str


class RecordVerdict(TaskCommand, kw_only=True):
    """Note what the gates measured of an agent's done claim."""

    agent: str
    handoff_id: str = ""
    verdict: Verdict
    branch: str = ""
    is_branch_given: bool = False
    pr: int = 0


class CountIdleStop(TaskCommand, kw_only=True):
    """Count a stop that left nothing to measure; at the policy's limit the task goes to a human."""

    handoff_id: str
    """The claim under which the agent stopped."""
    key: str = ""
    """The same for the same stop, however often it is reported."""
    reason: str = ""
    """What the agent was told."""
    commit: str = ""
    """The rejected commit that was submitted once more, if that is why there is nothing to measure."""


class RecordSessionVerdict(TaskCommand, kw_only=True):
    """Record what the gates said of a session that holds no task; the task stands for the session."""

    verdict: Verdict
    host: str = ""
    is_own: bool = True
    left_out: tuple[str, ...] = ()


class NoteGatesMeasured(TaskCommand, kw_only=True):
    """Note that gates could be measured again, and close the task's question about its gates once none is broken."""

    gates: tuple[str, ...] = ()
    """None: the rules may have changed."""


class LockOut(TaskCommand, kw_only=True):
    """Keep an agent away from the task."""

    agent: str
    reason: str


class Unlock(TaskCommand, kw_only=True):
    """Let a locked-out agent work on the task again."""

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
    """What was looked at, line by line, and found to hold."""
    source: str = ""


class RejectReview(TaskCommand, kw_only=True):
    """Send the submission at a commit back with findings."""

    commit: str
    findings: tuple[Finding, ...] = ()
    source: str = ""


class DismissObjections(TaskCommand, kw_only=True):
    """Dismiss what was said against the task under keys that are not trusted."""

    signer: str = ""
    """The id of the key; empty: every such key that said something so far."""
    reason: str


class RetractReview(TaskCommand, kw_only=True):
    """Take a rejection back; without an id the reviewer's last one that stands."""

    reason: str
    review_id: str = ""


class RetractAnswer(TaskCommand, kw_only=True):
    """Take back the last answer about the task: to a question, a held finding or a rejection."""

    reason: str = ""


class ReassignTask(TaskCommand, kw_only=True):
    """Let another agent continue the task."""

    target: str
    source: str = ""
    reason: str = ""


class EscalateTask(TaskCommand, kw_only=True):
    """Ask the user what becomes of the task."""

    reason: str


class AnswerEscalation(TaskCommand, kw_only=True):
    """Decide what becomes of an escalated task."""

    option: str
    escalation_id: str = ""
    guidance: str = ""


class AcknowledgeEscalation(TaskCommand, kw_only=True):
    """Say that the question was seen."""

    escalation_id: str = ""


class FetchFeedback(ClaimCommand, kw_only=True):
    """Note that the agent that holds the task was given its feedback."""


class NoteReview(TaskCommand, kw_only=True):
    """Keep a review of a forge that cannot count, with the reason."""

    reviewer: str
    source: str
    why: str
    commit: str = ""
    findings: tuple[Finding, ...] = ()


class AddComments(TaskCommand, kw_only=True):
    """Add a reviewer's comments on a forge to the rejection of the work that they are about."""

    handoff_id: str
    tree: str
    """With the handoff, which rejection: the code tree that was rejected."""
    findings: tuple[Finding, ...]
    source: str = ""


class NoteMerge(TaskCommand, kw_only=True):
    """Keep that work was merged on the forge although it had not passed here."""

    by: str
    commit: str
    why: str
    source: str


class NoteDelivery(TaskCommand, kw_only=True):
    """Note that a channel took the notice of an escalation, an alert or an override."""

    escalation_id: str
    channel: str
    is_last: bool = False
    """No channel is left that has to be told of it."""


class RepeatEscalation(TaskCommand, kw_only=True):
    """Tell the user again of a question nobody has answered in time."""


class AssignTask(Command, kw_only=True):
    """Claim a task for an agent and begin its run, in one; with no id the next one that suits the agent."""

    agent: str
    run_id: str
    task_id: str = ""
    tier: str = ""


class StartRun(TaskCommand, kw_only=True):
    """Begin another run: of the agent that holds the task, or of a reviewer or director."""

    agent: str
    run_id: str
    purpose: Purpose = Purpose.WORK
    tier: str = ""


class EndRun(TaskCommand, kw_only=True):
    """Note how a run ended."""

    run_id: str
    how: How
    status: int = 0
    seconds: float = 0.0
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    detail: str = ""
    has_work: bool = False
    """There are commits or uncommitted files of it."""
    is_systems: bool = False
    """It is known to be the system's fault: nothing is counted against the task either."""
    is_answered: bool = False
    """It did what it was started for, whatever its exit status."""


class CheckStaff(TaskCommand, kw_only=True):
    """Ask the user, should nobody on the team be left for the task, or its agent have given it up."""


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
    """Patterns of the tests that prove the work: they must pass, whatever they did before."""
    own_id: str = ""
    """An id that the user or a director chose; empty: a new one."""


class ImportIssue(AddTask, kw_only=True):
    """Add the task that an issue of the forge stands for."""

    issue: int
    source: str
    """The issue's place, which no other has: `github:owner/name#12`."""
    author: str = ""
    opened_at: Instant = ""


class EditTask(TaskCommand, kw_only=True):
    """Change what a task says; None leaves a field as it is."""

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
    """Take a task, or with no id the next one that suits the agent."""

    agent: str
    task_id: str = ""


class Heartbeat(ClaimCommand, kw_only=True):
    """Say that the agent is still at work."""


class ReleaseTask(ClaimCommand, kw_only=True):
    """Give the task back untouched."""


class ContinueTask(ClaimCommand, kw_only=True):
    """Pause the task so that another session can continue it."""


class WaitTask(ClaimCommand, kw_only=True):
    """Wait for something outside, named in `reason`."""


class FailTask(ClaimCommand, kw_only=True):
    """Give up."""


class SubmitTask(ClaimCommand, kw_only=True):
    """Claim that the task is done at a commit."""

    commit: str
    branch: str = ""
    is_branch_given: bool = False
    """The branch was named for this, and is not only the one that was checked out."""
    pr: int = 0


class CancelTask(TaskCommand, kw_only=True):
    """Decide that the task will not be done."""

    reason: str = ""


class ReopenTask(TaskCommand, kw_only=True):
    """Bring a failed, blocked or escalated task back to its queue, or one that was cancelled."""

    reason: str = ""


class DeferTask(TaskCommand, kw_only=True):
    """Let the task sleep until others are done."""

    waits_for: tuple[str, ...]
    reason: str = ""


class InitiateHandoff(TaskCommand, kw_only=True):
    """Pass the task to one agent."""

    target: str
    source: str = ""
    instructions: str = ""
    own_id: str = ""
    """An id for the handoff that was chosen; empty: a new one."""


class AcceptHandoff(HandoffCommand, kw_only=True):
    """Take a handoff as its target."""

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
    """Reject the task of a handoff, with a record of what was tried and what stands in the way."""

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
    """Note what an adviser says of the last rejection of a handoff."""

    opinion: str


class ExpireLease(TaskCommand, kw_only=True):
    """End what has run out on a task: its lease, or offers nobody accepted."""


class WakeTask(TaskCommand, kw_only=True):
    """Wake a deferred task whose blockers are done."""


class SettleTask(TaskCommand, kw_only=True):
    """Close a decomposed task whose sub-tasks have ended."""


class CommandContext(Record, kw_only=True):
    """A command with everything `decide` may look at besides the task itself."""

    command: Command
    actor: Actor
    at: Instant
    facts: Facts = Facts()
