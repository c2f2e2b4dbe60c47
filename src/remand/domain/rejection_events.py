"""The events of task rejections: filed, judged invalid, advised on, answered, resumed."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.domain.event import ClaimEvent, OverridingEvent, TaskEvent
from remand.domain.instant import Instant
from remand.domain.reasons import reason_named
from remand.domain.record import Record
from remand.domain.validation.assessment import Issue
from remand.domain.validation.world import Graded


class HandoffRejected(ClaimEvent, tag="handoff.reject", kw_only=True):
    """The agent rejected the task, and the rejection is valid."""

    rejection_id: str = ""
    rejection: dict[str, Any] = msgspec.field(default_factory=dict)
    score: float = 0.0
    graded: tuple[Graded, ...] = ()
    attempts: tuple[Graded, ...] = ()
    reason: str = ""
    """As GoT tools wrote a rejection: a line of text, and nothing else."""
    suggestion: str = ""


class HandoffRejectionInvalid(ClaimEvent, tag="handoff.reject.invalid", kw_only=True):
    """The agent rejected the task without having earned it."""

    rejection_id: str = ""
    rejection: dict[str, Any] = msgspec.field(default_factory=dict)
    validation_issues: tuple[str, ...] = ()
    issues: tuple[Issue, ...] = ()
    score: float = 0.0
    graded: tuple[Graded, ...] = ()
    attempts: tuple[Graded, ...] = ()
    is_formal: bool = False
    """Only a part is missing that the agent can add; it does not count as a rejection without cause."""


def record_of(event: HandoffRejected | HandoffRejectionInvalid) -> dict[str, Any]:
    """The record of a rejection. Where a GoT tool wrote a line of text, the text stands for its summary."""
    if event.rejection or isinstance(event, HandoffRejectionInvalid):
        return event.rejection
    named = reason_named(event.reason)
    return {
        "reason_type": named.name if named else "UNKNOWN",
        "reason_summary": event.reason,
        "suggested_alternative": event.suggestion,
    }


class OpinionGiven(TaskEvent, tag="handoff.reject.opinion", kw_only=True):
    """What an adviser of the user's said of a rejection: advice, and never the verdict."""

    handoff_id: str
    rejection_id: str
    opinion: str


class Decision(Record, kw_only=True, omit_defaults=False):
    """What the director decided, with its type as such: all that a `RejectionDecision` is made of."""

    decision_type: str
    rejection: dict[str, Any] = msgspec.field(default_factory=dict)
    """The whole record that it answers; empty in events that were written without it."""
    rationale: str = ""
    override_message: str = ""
    reassign_to: str = ""
    created_tasks: tuple[str, ...] = ()
    deferred_task: str = ""


class RejectionAnswered(OverridingEvent, tag="handoff.reject.response", kw_only=True):
    """The director answered a rejection. What follows for tasks are events of their own."""

    handoff_id: str
    rejection_id: str = ""
    decision: Decision
    director: str = ""
    """Who decided, when it was not the actor of the event: `auto`."""


class HandoffResumed(ClaimEvent, tag="handoff.resume", kw_only=True):
    """A rejection that waited for a director was overridden: the agent holds the task again."""

    lease_expires_at: Instant
