"""Every event that Remand writes, events it does not know, and the task that an event belongs to."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.domain import ids
from remand.domain.events.event import (
    Event,
    TaskEvent,
)
from remand.domain.events.log import (
    VOIDS,
    EventsVoided,
    LinesGivenUp,
    LinesImported,
    PauseBegun,
    PauseEnded,
    SessionAdopted,
)
from remand.domain.events.reviews import (
    EscalationAcknowledged,
    EscalationAnswered,
    EscalationNotified,
    EscalationOpened,
    EscalationRepeated,
    FeedbackFetched,
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
from remand.domain.events.tasks import (
    EdgeCreated,
    EdgeDeleted,
    HandoffAccepted,
    HandoffCompleted,
    HandoffInitiated,
    HandoffLapsed,
    HandoffRejected,
    HandoffRejectionInvalid,
    HandoffResumed,
    LeaseExpired,
    LeaseRenewed,
    OpinionGiven,
    RejectionAnswered,
    TaskAdded,
    TaskBlocked,
    TaskCancelled,
    TaskClaimed,
    TaskContinued,
    TaskDecomposed,
    TaskDeferred,
    TaskDeleted,
    TaskEdited,
    TaskFailed,
    TaskInfeasible,
    TaskReleased,
    TaskReopened,
    TaskSettled,
    TaskSubmitted,
    TaskWaiting,
    TaskWoken,
)
from remand.domain.events.work import (
    ActDone,
    ActFailed,
    ActIntended,
    FindingAccepted,
    FindingRefused,
    GateAlerted,
    GateErrored,
    GateHeld,
    GateOverridden,
    GatePassed,
    GateRecovered,
    GateRejected,
    IdleStopCounted,
    IssueImported,
    RunEnded,
    RunStarted,
    TaskReturned,
)


class Unknown(Event, tag="?", kw_only=True):
    """An event kept and carried without effect: of another graph element, or of a newer version."""

    kind: str
    fields: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.kind


def event_task_id(event: Event) -> str:
    """The task an event belongs to; empty when it belongs to none."""
    if isinstance(event, TaskEvent):
        return event.task_id
    if isinstance(event, TaskAdded) and event.id.startswith("task:") and event.meta.seq > 0:
        return event.id[5:]
    if isinstance(event, TaskAdded | TaskEdited | TaskDeleted):
        return ids.parse_task_id(event.id) or ""
    if isinstance(event, EdgeCreated | EdgeDeleted):
        return _waiting_task(event)
    if isinstance(event, EventsVoided):
        return VOIDS
    return ""


def _waiting_task(edge: EdgeCreated | EdgeDeleted) -> str:
    src, tgt = ids.parse_task_id(edge.src), ids.parse_task_id(edge.tgt)
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
    IdleStopCounted,
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
