"""Recent events in a few words each, as people read them while they happen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from remand.app.text import single_line
from remand.domain.events.catalogue import Unknown, event_task_id
from remand.domain.events.event import Event
from remand.domain.events.log import (
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
    first_blocking,
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
    record_of,
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
from remand.domain.gate.state import find_outages
from remand.domain.ids import parse_task_id
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.ledger import codec
from remand.ledger.event_tables import EventEntry
from remand.ledger.order import order_key
from remand.ledger.store import Transaction

MAX_WORDS = 160
MAX_READ = 200
QUIET_EVENTS = frozenset({LeaseRenewed, FeedbackFetched, EscalationNotified, ActIntended})
"""Kinds of events that say nothing new."""
REJECTION_EVENTS = (HandoffRejected, HandoffRejectionInvalid, RejectionAnswered)
"""Kinds of events whose words say more than their fields in a row."""


class ActivityEntry(Record, kw_only=True, omit_defaults=False):
    """One thing that has happened, ready to be read."""

    at: Instant
    event: str
    """The event's name."""
    task_id: str = ""
    label: str = ""
    """What people call the task."""
    actor: str = ""
    text: str
    is_unconfirmed: bool = False
    """It has no effect here: nobody who is trusted has signed it."""


_TEMPLATES: dict[type[Event], str] = {
    TaskAdded: "was written down: {0.data.title}",
    PauseBegun: "sessions may stop unmeasured until {0.until}",
    PauseEnded: "the pause was ended",
    TaskEdited: "was edited",
    TaskDeleted: "was removed by a GoT tool",
    TaskClaimed: "{0.agent} took it, attempt {0.attempt}",
    HandoffInitiated: "is reserved for {0.target_agent}",
    HandoffAccepted: "{0.agent} accepted the handoff",
    HandoffCompleted: "{0.agent} submitted {0.commit:.12}",
    OpinionGiven: "the adviser said of its rejection: {0.opinion}",
    HandoffResumed: "{0.agent} continues: its rejection was not accepted",
    HandoffLapsed: "is free again: nobody took the handoff",
    LeaseRenewed: "{0.agent} is still at work",
    LeaseExpired: "is back in the queue: {0.agent} was not heard of",
    TaskReleased: "{0.agent} gave it back",
    TaskContinued: "{0.agent} stopped in the middle",
    TaskWaiting: "{0.agent} waits for {0.waiting_for}",
    TaskFailed: "{0.agent} gave up",
    TaskSubmitted: "{0.agent} submitted {0.commit:.12}",
    TaskCancelled: "was cancelled",
    TaskBlocked: "is blocked",
    TaskInfeasible: "cannot be done as it was stated",
    TaskReopened: "is back in the queue",
    TaskDeferred: "sleeps",
    TaskWoken: "woke up",
    TaskSettled: "is {0.status}: its sub-tasks have ended",
    LockoutSet: "{0.agent} is locked out",
    LockoutCleared: "{0.agent} is unlocked",
    ReviewRequested: "{0.reviewer} was asked for a review",
    ReviewApproved: "{0.reviewer} approved {0.commit:.12}",
    ReviewRetracted: "{0.reviewer} no longer rejects it",
    ReviewNoted: "{0.reviewer}'s review does not count: {0.why}",
    ReviewCommented: "{0.reviewer} commented on {0.commit:.12}",
    ReviewBypassed: "{0.by} merged it past the rules: {0.why}",
    ObjectionsDismissed: "the user dismissed objections under keys that are not trusted",
    FeedbackFetched: "{0.agent} was given the feedback",
    TaskReassigned: "goes on to {0.target}",
    EscalationOpened: "asks the user",
    EscalationRepeated: "asks the user again",
    EscalationNotified: "the user was told through {0.channel}",
    EscalationAcknowledged: "the user has seen the question",
    EscalationAnswered: "the user answered: {0.option}",
    GatePassed: "the gates let {0.agent}'s work through",
    GateHeld: "findings in {0.agent}'s work wait for a reviewer",
    IdleStopCounted: "{0.agent} stopped with nothing to measure ({0.number} in a row)",
    GateAlerted: "the gates rejected {0.agent}'s work {0.number} times",
    FindingAccepted: "{0.reviewer} accepted the finding {0.finding}",
    FindingRefused: "{0.reviewer} refused the finding {0.finding}",
    GateOverridden: "the user let the gate {0.gate} pass",
    GateRecovered: "gates can be measured again",
    RunStarted: "{0.agent} was started to {0.purpose}",
    TaskReturned: "was taken from {0.agent}, without blame",
    IssueImported: "was made from issue #{0.issue}",
    ActIntended: "on the forge, about to {0.act}",
    ActDone: "on the forge: {0.act}, done",
    ActFailed: "on the forge: {0.act}, failed: {0.why}",
    Unknown: "{0.kind}, which this version does not know",
}
"""Events that say what they say in one line; a reason is added where there is one."""


def _link_text(event: Any) -> str:
    verb = "waits" if isinstance(event, EdgeCreated) else "no longer waits"
    other = event.tgt if event.type == "DEPENDS_ON" else event.src
    return f"{verb} for {parse_task_id(other) or other}"


def _decomposition_text(event: Any) -> str:
    return f"was split into {len(event.children)} sub-tasks"


def _rejection_text(event: Any) -> str:
    how = "" if isinstance(event, HandoffRejected) else " without cause"
    who = event.agent or "an agent without a name"
    return f"{who} rejected the task{how}{_reason_suffix(record_of(event).get('reason_summary'))}"


def _answer_text(event: Any) -> str:
    return f"its rejection was answered: {event.decision.decision_type}{_reason_suffix(event.decision.rationale)}"


def _review_rejection_text(event: Any) -> str:
    first = first_blocking(event.findings)
    return f"{event.reviewer} rejected {event.commit[:12]}{_reason_suffix(first.text if first else '')}"


def _gate_rejection_text(event: Any) -> str:
    missed = event.because or ", ".join(event.verdict.blocking_gates)
    return f"the gates rejected {event.agent}'s work, number {event.number}{_reason_suffix(missed)}"


def _gate_error_text(event: Any) -> str:
    causes = "; ".join(f"{one.gate}: {one.text}" for one in find_outages(event.verdict))
    return f"{event.agent}'s work could not be measured{_reason_suffix(causes)}"


def _import_text(event: Any) -> str:
    lines = "1 line was" if event.count == 1 else f"{event.count} lines were"
    return f"{lines} imported from {event.file}"


def _adoption_text(event: Any) -> str:
    events = "1 event" if event.count == 1 else f"{event.count} events"
    return f"the user vouched for {events} of session {event.session}{_reason_suffix(event.reason)}"


def _given_up_text(event: Any) -> str:
    count = sum(one.last - one.first + 1 for one in event.lines)
    lines = "1 missing line was" if count == 1 else f"{count} missing lines were"
    return f"{lines} given up{_reason_suffix(event.reason)}"


def _void_text(event: Any) -> str:
    count = len(event.events)
    events = "1 event was" if count == 1 else f"{count} events were"
    return f"{events} voided and written again with the right time{_reason_suffix(event.reason)}"


def _run_end_text(event: Any) -> str:
    how = "failed" if event.is_fault else str(event.how).replace("_", " ")
    cost = f", ${event.cost:.2f}" if event.cost else ""
    return f"{event.agent}'s run {how} after {event.seconds:.0f} s{cost}{_reason_suffix(event.detail)}"


_TEXT_FUNCTIONS: dict[type[Event], Callable[[Any], str]] = {
    EdgeCreated: _link_text,
    EdgeDeleted: _link_text,
    TaskDecomposed: _decomposition_text,
    HandoffRejected: _rejection_text,
    HandoffRejectionInvalid: _rejection_text,
    RejectionAnswered: _answer_text,
    ReviewRejected: _review_rejection_text,
    GateRejected: _gate_rejection_text,
    GateErrored: _gate_error_text,
    RunEnded: _run_end_text,
    LinesImported: _import_text,
    SessionAdopted: _adoption_text,
    LinesGivenUp: _given_up_text,
    EventsVoided: _void_text,
}


def event_text(event: Event) -> str:
    """An event in a few words, on one line and with nothing hidden in it."""
    longer = _TEXT_FUNCTIONS.get(type(event))
    if longer is not None:
        return single_line(longer(event), MAX_WORDS)
    said = _TEMPLATES.get(type(event), "{0.name}").format(event)
    return single_line(f"{said}{_reason_suffix(getattr(event, 'reason', ''))}", MAX_WORDS)


def _reason_suffix(reason: object) -> str:
    return f": {reason}" if reason else ""


def activity_entry(event: Event, label: str = "", *, is_unconfirmed: bool = False) -> ActivityEntry:
    """An event as people read it."""
    task = event_task_id(event)
    return ActivityEntry(
        at=event.ts,
        event=event.name,
        task_id=task,
        label=label or task,
        actor=event.meta.actor,
        text=event_text(event),
        is_unconfirmed=is_unconfirmed,
    )


def latest_activity(view: Transaction, most: int) -> tuple[ActivityEntry, ...]:
    """What has happened last, the newest first, without what says nothing new."""
    found = _read_events(view.events.tail(MAX_READ))
    told = [pair for pair in reversed(found) if type(pair[0]) not in QUIET_EVENTS]
    return _activity_entries(view, told[:most])


class ActivityFollower:
    """Tells what has happened since it was last asked."""

    def __init__(self, recent: int = 0) -> None:
        self._recent = recent
        self._others: set[str] | None = None
        self._session = ""
        self._seq = 0

    def news(self, view: Transaction) -> tuple[ActivityEntry, ...]:
        """What is new, in its order; the first time, as much of what has happened last as was asked for."""
        is_first = self._others is None
        fresh = [*self._of_this_ledger(view), *self._of_others(view)]
        if is_first:
            return latest_activity(view, self._recent)[::-1] if self._recent else ()
        told = [pair for pair in fresh if type(pair[0]) not in QUIET_EVENTS]
        return _activity_entries(view, sorted(told, key=lambda pair: order_key(pair[0])))

    def _of_this_ledger(self, view: Transaction) -> list[_EventLine]:
        """Every event that the ledger's own session has gained."""
        head, session, seq = view.head, self._session, self._seq
        self._session, self._seq = head.session, head.seq
        if head.session != session or head.seq <= seq:
            return []
        return _read_events(view.events.lines(session, seq + 1))

    def _of_others(self, view: Transaction) -> list[_EventLine]:
        """What files of others have brought, of very much the latest."""
        found = [
            pair
            for pair in _read_events(view.events.tail(MAX_READ))
            if pair[0].meta.session != view.head.session
        ]
        known, self._others = self._others, {event.meta.id for event, _ in found}
        return [] if known is None else [pair for pair in found if pair[0].meta.id not in known]


_EventLine = tuple[Event, bytes]


def _read_events(lines: Iterable[bytes]) -> list[_EventLine]:
    """Events with their lines, in their order."""
    return sorted(
        ((codec.decode_stored_line(one), one) for one in lines), key=lambda pair: order_key(pair[0])
    )


def _activity_entries(view: Transaction, pairs: Sequence[_EventLine]) -> tuple[ActivityEntry, ...]:
    return tuple(
        activity_entry(event, _task_label(view, event), is_unconfirmed=_is_unconfirmed(view, event, written))
        for event, written in pairs
    )


def _task_label(view: Transaction, event: Event) -> str:
    name = event_task_id(event)
    task = view.tasks.get(name) if name else None
    return task.label if task else ""


def _is_unconfirmed(view: Transaction, event: Event, written: bytes) -> bool:
    return bool(view.unconfirmed.verdict(EventEntry(event, written, event_task_id(event))))
