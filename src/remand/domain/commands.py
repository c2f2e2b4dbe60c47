"""What can be asked: one class per ask, and the command that carries it with time, actor and facts."""

from __future__ import annotations

from typing import Any

from remand.domain.ask import Ask, ClaimAsk, TaskAsk
from remand.domain.facts import Facts
from remand.domain.forge_asks import IntendAct, NoteAct, NoteActFailure
from remand.domain.gate_asks import NoteGatesMeasured, OverrideGate, RecordVerdict, SettleFinding
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.review_asks import (
    AcknowledgeEscalation,
    AddComments,
    AnswerEscalation,
    ApproveReview,
    DismissObjections,
    EscalateTask,
    FetchFeedback,
    LockOut,
    NoteDelivery,
    NoteMerge,
    NoteReview,
    OpenEscalation,
    ReassignTask,
    RejectReview,
    RepeatEscalation,
    RequestReview,
    RetractReview,
    Unlock,
)
from remand.domain.roles import Actor
from remand.domain.run_asks import AssignTask, CheckStaff, EndRun, StartRun

__all__ = [
    "ASKS",
    "AcceptHandoff",
    "AcknowledgeEscalation",
    "AddComments",
    "AddTask",
    "AnswerEscalation",
    "AnswerRejection",
    "ApproveReview",
    "Ask",
    "AssignTask",
    "CancelTask",
    "CheckStaff",
    "ClaimAsk",
    "ClaimTask",
    "Command",
    "CompleteHandoff",
    "ContinueTask",
    "DeferTask",
    "DismissObjections",
    "EditTask",
    "EndRun",
    "EscalateTask",
    "ExpireLease",
    "Facts",
    "FailTask",
    "FetchFeedback",
    "GiveOpinion",
    "Heartbeat",
    "ImportIssue",
    "InitiateHandoff",
    "IntendAct",
    "LockOut",
    "NoteAct",
    "NoteActFailure",
    "NoteDelivery",
    "NoteGatesMeasured",
    "NoteMerge",
    "NoteReview",
    "OpenEscalation",
    "OverrideGate",
    "ReassignTask",
    "RecordVerdict",
    "RejectHandoff",
    "RejectReview",
    "ReleaseTask",
    "ReopenTask",
    "RepeatEscalation",
    "RequestReview",
    "RetractReview",
    "SettleFinding",
    "SettleTask",
    "StartRun",
    "SubmitTask",
    "TaskAsk",
    "Unlock",
    "WaitTask",
    "WakeTask",
]


class AddTask(Ask, kw_only=True):
    """Write a task down."""

    title: str
    scope: str = ""
    priority: str = "medium"
    category: str = ""
    skills: tuple[str, ...] = ()
    branch: str = ""
    aliases: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    own_id: str = ""
    """An id that the user or a director chose; empty: a new one."""


class ImportIssue(AddTask, kw_only=True):
    """Write down the task that an issue of the forge stands for."""

    issue: int
    source: str
    """The issue's place, which no other has: `github:owner/name#12`."""
    author: str = ""
    opened_at: Instant = ""


class EditTask(TaskAsk, kw_only=True):
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


class ClaimTask(Ask, kw_only=True):
    """Take a task, or with no id the next one that suits the agent."""

    agent: str
    task_id: str = ""


class Heartbeat(ClaimAsk, kw_only=True):
    """Say that the agent is still at work."""


class ReleaseTask(ClaimAsk, kw_only=True):
    """Give the task back untouched."""


class ContinueTask(ClaimAsk, kw_only=True):
    """Stop in the middle and let another session go on."""


class WaitTask(ClaimAsk, kw_only=True):
    """Wait for something outside, named in `reason`."""


class FailTask(ClaimAsk, kw_only=True):
    """Give up."""


class SubmitTask(ClaimAsk, kw_only=True):
    """Claim that the task is done at a commit."""

    commit: str
    branch: str = ""
    is_branch_given: bool = False
    """The branch was named for this, and is not only the one that was checked out."""
    pr: int = 0


class CancelTask(TaskAsk, kw_only=True):
    """Decide that the task will not be done."""

    reason: str = ""


class ReopenTask(TaskAsk, kw_only=True):
    """Bring a failed, blocked or escalated task back to its queue."""

    reason: str = ""


class DeferTask(TaskAsk, kw_only=True):
    """Let the task sleep until others are done."""

    waits_for: tuple[str, ...]
    reason: str = ""


class InitiateHandoff(TaskAsk, kw_only=True):
    """Pass the task to one agent."""

    target: str
    source: str = ""
    instructions: str = ""
    own_id: str = ""
    """An id for the handoff that was chosen; empty: a new one."""


class AcceptHandoff(Ask, kw_only=True):
    """Take a handoff as its target."""

    handoff_id: str
    agent: str
    acknowledgment: str = ""


class CompleteHandoff(Ask, kw_only=True):
    """Claim that a handoff's task is done at a commit."""

    handoff_id: str
    agent: str
    commit: str
    branch: str = ""
    is_branch_given: bool = False
    pr: int = 0
    result: str = ""


class RejectHandoff(Ask, kw_only=True):
    """Reject the task of a handoff, with a record of what was tried and what stands in the way."""

    handoff_id: str
    agent: str
    rejection: dict[str, Any]


class AnswerRejection(Ask, kw_only=True):
    """Answer a rejection as the director."""

    handoff_id: str
    decision: str
    created_tasks: tuple[str, ...] = ()
    rationale: str = ""
    message: str = ""
    reassign_to: str = ""


class GiveOpinion(Ask, kw_only=True):
    """Note what an adviser says of the last rejection of a handoff."""

    handoff_id: str
    opinion: str


class ExpireLease(TaskAsk, kw_only=True):
    """End what has run out on a task: its lease, or offers nobody accepted."""


class WakeTask(TaskAsk, kw_only=True):
    """Wake a deferred task whose blockers are done."""


class SettleTask(TaskAsk, kw_only=True):
    """Close a decomposed task whose sub-tasks have ended."""


class Command(Record, kw_only=True):
    """An ask with everything `decide` may look at besides the task itself."""

    ask: Ask
    actor: Actor
    at: Instant
    facts: Facts = Facts()


ASKS = (
    AddTask,
    EditTask,
    ClaimTask,
    Heartbeat,
    ReleaseTask,
    ContinueTask,
    WaitTask,
    FailTask,
    SubmitTask,
    CancelTask,
    ReopenTask,
    DeferTask,
    InitiateHandoff,
    AcceptHandoff,
    CompleteHandoff,
    RejectHandoff,
    AnswerRejection,
    LockOut,
    Unlock,
    RequestReview,
    ApproveReview,
    RejectReview,
    RetractReview,
    ReassignTask,
    EscalateTask,
    AnswerEscalation,
    AcknowledgeEscalation,
    FetchFeedback,
    SettleFinding,
    OverrideGate,
    DismissObjections,
)
"""What may come through a door. The rest (verdicts, opinions, notes, expire, wake, settle) only the coordinator asks."""
