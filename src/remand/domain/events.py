"""What has happened: one class per event of the ledger, tagged with its name in the log."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.domain import ids
from remand.domain.claim_events import (
    HandoffAccepted,
    HandoffCompleted,
    HandoffInitiated,
    HandoffLapsed,
    LeaseExpired,
    LeaseRenewed,
    TaskClaimed,
    TaskContinued,
    TaskFailed,
    TaskReleased,
    TaskSubmitted,
    TaskWaiting,
)
from remand.domain.event import UNSTAMPED, AnswerEvent, ClaimEvent, Event, Meta, OverridingEvent, TaskEvent
from remand.domain.forge_events import ActDone, ActFailed, ActIntended, IssueImported
from remand.domain.gate_events import (
    FindingAccepted,
    FindingRefused,
    GateAlerted,
    GateErrored,
    GateHeld,
    GateOverridden,
    GatePassed,
    GateRecovered,
    GateRejected,
)
from remand.domain.log_events import (
    VOIDS,
    EventsVoided,
    LinesGivenUp,
    LinesImported,
    PauseBegun,
    PauseEnded,
    SessionAdopted,
)
from remand.domain.missing import GivenUp
from remand.domain.record import Record
from remand.domain.rejection_events import (
    Decision,
    HandoffRejected,
    HandoffRejectionInvalid,
    HandoffResumed,
    OpinionGiven,
    RejectionAnswered,
    record_of,
)
from remand.domain.review_events import (
    EscalationAcknowledged,
    EscalationAnswered,
    EscalationNotified,
    EscalationOpened,
    EscalationRepeated,
    FeedbackFetched,
    Finding,
    LockoutCleared,
    LockoutSet,
    ObjectionsDismissed,
    ReviewApproved,
    ReviewBypassed,
    ReviewCommented,
    ReviewNoted,
    ReviewRejected,
    ReviewRequested,
    ReviewRetracted,
    TaskReassigned,
)
from remand.domain.run_events import How, Purpose, RunEnded, RunStarted, TaskReturned

__all__ = [
    "NATIVE",
    "UNSTAMPED",
    "VOIDS",
    "ActDone",
    "ActFailed",
    "ActIntended",
    "AnswerEvent",
    "ClaimEvent",
    "Decision",
    "EdgeCreated",
    "EdgeDeleted",
    "EscalationAcknowledged",
    "EscalationAnswered",
    "EscalationNotified",
    "EscalationOpened",
    "EscalationRepeated",
    "Event",
    "EventsVoided",
    "FeedbackFetched",
    "Finding",
    "FindingAccepted",
    "FindingRefused",
    "GateAlerted",
    "GateErrored",
    "GateHeld",
    "GateOverridden",
    "GatePassed",
    "GateRecovered",
    "GateRejected",
    "GivenUp",
    "HandoffAccepted",
    "HandoffCompleted",
    "HandoffInitiated",
    "HandoffLapsed",
    "HandoffRejected",
    "HandoffRejectionInvalid",
    "HandoffResumed",
    "How",
    "IssueImported",
    "LeaseExpired",
    "LeaseRenewed",
    "LinesGivenUp",
    "LinesImported",
    "LockoutCleared",
    "LockoutSet",
    "Meta",
    "ObjectionsDismissed",
    "OpinionGiven",
    "OverridingEvent",
    "PauseBegun",
    "PauseEnded",
    "Purpose",
    "RejectionAnswered",
    "ReviewApproved",
    "ReviewBypassed",
    "ReviewCommented",
    "ReviewNoted",
    "ReviewRejected",
    "ReviewRequested",
    "ReviewRetracted",
    "RunEnded",
    "RunStarted",
    "SessionAdopted",
    "TaskAdded",
    "TaskBlocked",
    "TaskCancelled",
    "TaskChanges",
    "TaskClaimed",
    "TaskContinued",
    "TaskData",
    "TaskDecomposed",
    "TaskDeferred",
    "TaskDeleted",
    "TaskEdited",
    "TaskEvent",
    "TaskFailed",
    "TaskInfeasible",
    "TaskReassigned",
    "TaskReleased",
    "TaskReopened",
    "TaskReturned",
    "TaskSettled",
    "TaskSubmitted",
    "TaskWaiting",
    "TaskWoken",
    "Unknown",
    "record_of",
    "subject",
]


class TaskData(Record, kw_only=True, omit_defaults=False):
    """A task as it is first written down. What GoT tools read is always there."""

    title: str
    description: str = ""
    status: str = "pending"
    priority: str = "medium"
    category: str = ""
    skills: tuple[str, ...] = ()
    branch: str = ""
    aliases: tuple[str, ...] = ()
    parent: str = ""


class TaskChanges(Record, kw_only=True):
    """What an edit changes; None leaves a field as it is."""

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
    """A task was written down; in the graph it is a node of type TASK."""

    id: str
    type: str = "TASK"
    data: TaskData


class TaskEdited(Event, tag="node.update", kw_only=True):
    """What a task says was changed."""

    id: str
    changes: TaskChanges


class TaskDeleted(Event, tag="node.delete", kw_only=True):
    """A GoT tool took the node away; ours cancel a task instead."""

    id: str


class EdgeCreated(Event, tag="edge.create", kw_only=True):
    """Two nodes were linked; DEPENDS_ON and BLOCKS between tasks make one wait for the other."""

    src: str
    tgt: str
    type: str
    weight: float = 1.0


class EdgeDeleted(Event, tag="edge.delete", kw_only=True):
    """A link was taken away."""

    src: str
    tgt: str
    type: str


class TaskCancelled(AnswerEvent, tag="task.cancel", kw_only=True):
    """The task will not be done."""

    reason: str = ""
    superseded_by: str = ""


class TaskBlocked(AnswerEvent, tag="task.block", kw_only=True):
    """The task cannot go on, and nothing in the ledger will free it: a human or director has to."""

    reason: str = ""


class TaskInfeasible(AnswerEvent, tag="task.infeasible", kw_only=True):
    """The task cannot be done as it was stated; another one takes its place."""

    reformulated_as: str = ""
    reason: str = ""


class TaskReopened(AnswerEvent, tag="task.reopen", kw_only=True):
    """The task came back to its queue."""

    reason: str = ""


class TaskDeferred(AnswerEvent, tag="task.defer", kw_only=True):
    """The task sleeps until the tasks it waits for are done."""

    waits_for: tuple[str, ...]
    reason: str = ""


class TaskWoken(TaskEvent, tag="task.wake", kw_only=True):
    """What a deferred task waited for is there."""

    because: tuple[str, ...] = ()


class TaskSettled(TaskEvent, tag="task.settle", kw_only=True):
    """All sub-tasks of a decomposed task have ended."""

    status: str


class TaskDecomposed(AnswerEvent, tag="task.decompose", kw_only=True):
    """The task was cut into sub-tasks and is done when they are."""

    children: tuple[str, ...]


class Unknown(Event, tag="?", kw_only=True):
    """An event kept and carried without effect: of another graph element, or of a newer version."""

    kind: str
    fields: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.kind


def subject(event: Event) -> str:
    """The task an event belongs to; empty when it belongs to none."""
    if isinstance(event, TaskEvent):
        return event.task_id
    if isinstance(event, TaskAdded) and event.id.startswith("task:") and event.meta.seq > 0:
        return event.id[5:]
    if isinstance(event, TaskAdded | TaskEdited | TaskDeleted):
        return ids.task_id(event.id) or ""
    if isinstance(event, EdgeCreated | EdgeDeleted):
        return _waiting_task(event)
    if isinstance(event, EventsVoided):
        return VOIDS
    return ""


def _waiting_task(edge: EdgeCreated | EdgeDeleted) -> str:
    src, tgt = ids.task_id(edge.src), ids.task_id(edge.tgt)
    if src is None or tgt is None:
        return ""
    return {"DEPENDS_ON": src, "BLOCKS": tgt}.get(edge.type, "")


NATIVE = (
    TaskAdded,
    TaskEdited,
    TaskDeleted,
    EdgeCreated,
    EdgeDeleted,
    TaskClaimed,
    HandoffInitiated,
    HandoffAccepted,
    HandoffCompleted,
    HandoffRejected,
    HandoffRejectionInvalid,
    RejectionAnswered,
    OpinionGiven,
    HandoffResumed,
    HandoffLapsed,
    LeaseRenewed,
    LeaseExpired,
    TaskReleased,
    TaskContinued,
    TaskWaiting,
    TaskFailed,
    TaskSubmitted,
    TaskCancelled,
    TaskBlocked,
    TaskInfeasible,
    TaskReopened,
    TaskDeferred,
    TaskWoken,
    TaskSettled,
    TaskDecomposed,
    LinesImported,
    SessionAdopted,
    LinesGivenUp,
    EventsVoided,
    PauseBegun,
    PauseEnded,
    LockoutSet,
    LockoutCleared,
    ReviewRequested,
    ReviewApproved,
    ReviewRejected,
    ReviewRetracted,
    ReviewNoted,
    ReviewCommented,
    ReviewBypassed,
    ObjectionsDismissed,
    FeedbackFetched,
    TaskReassigned,
    EscalationOpened,
    EscalationRepeated,
    EscalationNotified,
    EscalationAcknowledged,
    EscalationAnswered,
    GatePassed,
    GateRejected,
    GateHeld,
    GateErrored,
    GateAlerted,
    FindingAccepted,
    FindingRefused,
    GateOverridden,
    GateRecovered,
    RunStarted,
    RunEnded,
    TaskReturned,
    IssueImported,
    ActIntended,
    ActDone,
    ActFailed,
)
