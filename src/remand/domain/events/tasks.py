"""Events of tasks: their creation and changes, dependencies, claims, handoffs and rejections."""

from typing import Any

import msgspec

from remand.domain.events.event import AnswerEvent, ClaimEvent, Event, OverridingEvent, TaskEvent
from remand.domain.instant import Instant
from remand.domain.reasons import parse_reason
from remand.domain.record import Record
from remand.domain.validation.assessment import EvidenceGrade, Issue


class TaskData(Record, kw_only=True, omit_defaults=False):
    """A task as first recorded. The fields that GoT tools read are always present."""

    title: str
    description: str = ""
    status: str = "pending"
    priority: str = "medium"
    category: str = ""
    skills: tuple[str, ...] = ()
    branch: str = ""
    aliases: tuple[str, ...] = ()
    parent: str = ""
    must_pass: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Omitted if the task names no tests."""


class TaskChanges(Record, kw_only=True):
    """The changes of an edit; None leaves a field unchanged."""

    title: str | None = None
    description: str | None = None
    status: str | None = None
    priority: str | None = None
    category: str | None = None
    skills: tuple[str, ...] | None = None
    branch: str | None = None
    aliases: tuple[str, ...] | None = None
    pr: int | None = None


class TaskAdded(Event, tag="node.create", kw_only=True, omit_defaults=False):
    """A task was added; in the graph it is a node of type TASK."""

    id: str
    type: str = "TASK"
    data: TaskData


class TaskEdited(Event, tag="node.update", kw_only=True):
    """A task's title, scope or other fields were changed."""

    id: str
    changes: TaskChanges


class TaskDeleted(Event, tag="node.delete", kw_only=True):
    """A GoT tool deleted the node; Remand cancels a task instead."""

    id: str


class EdgeCreated(Event, tag="edge.create", kw_only=True):
    """Two nodes were linked; DEPENDS_ON and BLOCKS between tasks are dependencies."""

    src: str
    tgt: str
    type: str
    weight: float = 1.0


class EdgeDeleted(Event, tag="edge.delete", kw_only=True):
    """A link was removed."""

    src: str
    tgt: str
    type: str


class TaskCancelled(AnswerEvent, tag="task.cancel", kw_only=True):
    """The task will not be done."""

    reason: str = ""
    superseded_by: str = ""


class TaskBlocked(AnswerEvent, tag="task.block", kw_only=True):
    """The task cannot continue until a human or director decides."""

    reason: str = ""


class TaskInfeasible(AnswerEvent, tag="task.infeasible", kw_only=True):
    """The task cannot be done as stated; another one replaces it."""

    reformulated_as: str = ""
    reason: str = ""


class TaskReopened(AnswerEvent, tag="task.reopen", kw_only=True):
    """The task returned to its queue."""

    reason: str = ""
    undoes: str = ""
    """The id of the event that cancelled the task, if that is undone."""
    to_review: bool = False
    """Whether its work was under review when it was cancelled, and is again."""


class TaskDeferred(AnswerEvent, tag="task.defer", kw_only=True):
    """The task is deferred until the tasks that it waits for are done."""

    waits_for: tuple[str, ...]
    reason: str = ""


class TaskWoken(TaskEvent, tag="task.wake", kw_only=True):
    """The blockers of a deferred task are done."""

    because: tuple[str, ...] = ()


class TaskSettled(TaskEvent, tag="task.settle", kw_only=True):
    """All subtasks of a decomposed task have ended."""

    status: str


class TaskDecomposed(AnswerEvent, tag="task.decompose", kw_only=True):
    """The task was split into subtasks and is done when they are."""

    children: tuple[str, ...]


class TaskClaimed(ClaimEvent, tag="task.claim", kw_only=True):
    """An agent claimed the task from the queue, which is a handoff from the queue."""

    attempt: int
    epoch: int
    lease_expires_at: Instant
    branch: str = ""
    base: str = ""
    """The base at that time: the work is compared with it if it is done on the base itself."""


class HandoffInitiated(AnswerEvent, tag="handoff.initiate", kw_only=True):
    """The task was offered to one agent and is reserved for it until the offer expires."""

    handoff_id: str
    source_agent: str = ""
    target_agent: str = ""
    instructions: str = ""
    lapses_at: Instant = ""
    context: dict[str, Any] = msgspec.field(default_factory=dict)


class HandoffAccepted(ClaimEvent, tag="handoff.accept", kw_only=True):
    """The target agent accepted the handoff: a claim with a lease."""

    acknowledgment: str = ""
    attempt: int = 0
    epoch: int = 0
    lease_expires_at: Instant = ""
    branch: str = ""
    base: str = ""


class HandoffCompleted(ClaimEvent, tag="handoff.complete", kw_only=True):
    """The agent submitted its work under an accepted handoff: a done claim."""

    commit: str = ""
    tree: str = ""
    branch: str = ""
    is_branch_given: bool = False
    """Whether this becomes the task's branch."""
    pr: int = 0
    result: dict[str, Any] = msgspec.field(default_factory=dict)
    artifacts: list[Any] = msgspec.field(default_factory=list)


class HandoffLapsed(TaskEvent, tag="handoff.lapse", kw_only=True):
    """Nobody accepted the handoff in time; others may claim the task again."""

    handoff_id: str


class LeaseRenewed(ClaimEvent, tag="task.heartbeat", kw_only=True):
    """The agent is still working."""

    lease_expires_at: Instant


class LeaseExpired(ClaimEvent, tag="task.expire", kw_only=True):
    """The agent gave no sign of life; the task returned to its queue without blame."""


class TaskReleased(ClaimEvent, tag="task.release", kw_only=True):
    """The agent returned the task unchanged."""

    reason: str = ""


class TaskContinued(ClaimEvent, tag="task.continue", kw_only=True):
    """The agent paused the task; another session continues it."""

    reason: str = ""


class TaskWaiting(ClaimEvent, tag="task.wait", kw_only=True):
    """The agent waits for an external condition."""

    waiting_for: str


class TaskFailed(ClaimEvent, tag="task.fail", kw_only=True):
    """The agent gave up without a valid rejection."""

    reason: str = ""


class TaskSubmitted(ClaimEvent, tag="task.submit", kw_only=True):
    """A done claim passed its gates and awaits review."""

    commit: str
    tree: str = ""
    branch: str = ""
    is_branch_given: bool = False
    """Whether this becomes the task's branch."""
    pr: int = 0
    gates: tuple[str, ...] = ()


class HandoffRejected(ClaimEvent, tag="handoff.reject", kw_only=True):
    """The agent rejected the task, and the rejection is valid."""

    rejection_id: str = ""
    rejection: dict[str, Any] = msgspec.field(default_factory=dict)
    score: float = 0.0
    graded: tuple[EvidenceGrade, ...] = ()
    attempts: tuple[EvidenceGrade, ...] = ()
    reason: str = ""
    """The only content of a rejection by a GoT tool: a line of text."""
    suggestion: str = ""


class HandoffRejectionInvalid(ClaimEvent, tag="handoff.reject.invalid", kw_only=True):
    """The agent rejected the task without sufficient justification."""

    rejection_id: str = ""
    rejection: dict[str, Any] = msgspec.field(default_factory=dict)
    validation_issues: tuple[str, ...] = ()
    issues: tuple[Issue, ...] = ()
    score: float = 0.0
    graded: tuple[EvidenceGrade, ...] = ()
    attempts: tuple[EvidenceGrade, ...] = ()
    is_formal: bool = False
    """Whether it only lacks a part that the agent can add; it then does not count as an invalid rejection."""


def record_of(event: HandoffRejected | HandoffRejectionInvalid) -> dict[str, Any]:
    """The record of a rejection; a GoT tool's line of text becomes its summary."""
    if event.rejection or isinstance(event, HandoffRejectionInvalid):
        return event.rejection
    named = parse_reason(event.reason)
    return {
        "reason_type": named.name if named else "UNKNOWN",
        "reason_summary": event.reason,
        "suggested_alternative": event.suggestion,
    }


class RejectionAppealed(ClaimEvent, tag="handoff.appeal", kw_only=True):
    """The agent appealed to a director after the rules overrode its rejection."""

    rejection_id: str
    reason: str


class OpinionGiven(TaskEvent, tag="handoff.reject.opinion", kw_only=True):
    """The user's adviser gave an opinion on a rejection: it never decides."""

    handoff_id: str
    rejection_id: str
    opinion: str


class Decision(Record, kw_only=True, omit_defaults=False):
    """The director's decision with its type: the content of a `RejectionDecision`."""

    decision_type: str
    rejection: dict[str, Any] = msgspec.field(default_factory=dict)
    """The whole record that it answers; empty in older events."""
    rationale: str = ""
    override_message: str = ""
    reassign_to: str = ""
    created_tasks: tuple[str, ...] = ()
    deferred_task: str = ""


class RejectionAnswered(OverridingEvent, tag="handoff.reject.response", kw_only=True):
    """The director answered a rejection. Separate events record the consequences for tasks."""

    handoff_id: str
    rejection_id: str = ""
    decision: Decision
    director: str = ""
    """Who decided, if not the actor: `auto`."""


class HandoffResumed(ClaimEvent, tag="handoff.resume", kw_only=True):
    """A rejection that waited for a director was overridden: the agent holds the task again."""

    lease_expires_at: Instant
