"""Recent events in a few words each, for people who follow them live."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from remand.domain.events import reviews, tasks, work
from remand.domain.events.catalogue import Unknown, event_task_id
from remand.domain.events.event import Event
from remand.domain.events.log import (
    MOVES,
    TOKENS,
    EventsVoided,
    LedgerMoved,
    LinesGivenUp,
    LinesImported,
    LogArchived,
    MoveBegun,
    PauseBegun,
    PauseEnded,
    SessionAdopted,
    TaskArchived,
    TokenCreated,
    TokenRevoked,
)
from remand.domain.gate.state import find_outages
from remand.domain.ids import parse_task_id
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.text.words import format_count, single_line, times_text
from remand.ledger import codec
from remand.ledger.event_tables import EventEntry
from remand.ledger.order import order_key
from remand.ledger.store import Transaction

MAX_WORDS = 160
MAX_READ = 200
QUIET_EVENTS = frozenset(
    {tasks.LeaseRenewed, reviews.FeedbackFetched, reviews.EscalationNotified, work.ActIntended, TaskArchived}
)
"""Events that are not worth showing."""
REJECTION_EVENTS = (tasks.HandoffRejected, tasks.HandoffRejectionInvalid, tasks.RejectionAnswered)
"""Events with their own text, as a list of their fields would say less."""


class ActivityEntry(Record, kw_only=True, omit_defaults=False):
    """One event, ready for display."""

    at: Instant
    event: str
    """The event's name."""
    task_id: str = ""
    label: str = ""
    """The task's label."""
    actor: str = ""
    text: str
    is_unconfirmed: bool = False
    """Whether it has no effect, as no trusted key signed it."""


_TEMPLATES: dict[type[Event], str] = {
    tasks.TaskAdded: "was added: {0.data.title}",
    PauseBegun: "sessions may stop unmeasured until {0.until}",
    PauseEnded: "the pause was ended",
    TokenCreated: "{0.member} was given the token {0.token_id} as {0.role}",
    TokenRevoked: "the token {0.token_id} was revoked",
    TaskArchived: "was archived",
    tasks.TaskEdited: "was edited",
    tasks.TaskDeleted: "was removed by a GoT tool",
    tasks.TaskClaimed: "{0.agent} claimed it, attempt {0.attempt}",
    tasks.HandoffInitiated: "is reserved for {0.target_agent}",
    tasks.HandoffAccepted: "{0.agent} accepted the handoff",
    tasks.HandoffCompleted: "{0.agent} submitted {0.commit:.12}",
    tasks.RejectionAppealed: "{0.agent} appeals to a director",
    tasks.OpinionGiven: "the adviser's opinion on its rejection: {0.opinion}",
    tasks.HandoffResumed: "{0.agent} continues: its rejection was not accepted",
    tasks.HandoffLapsed: "is free again: nobody took the handoff",
    tasks.LeaseRenewed: "{0.agent} is still working",
    tasks.LeaseExpired: "is back in the queue: the lease of {0.agent} expired",
    tasks.TaskReleased: "{0.agent} released it",
    tasks.TaskContinued: "{0.agent} stopped in the middle",
    tasks.TaskWaiting: "{0.agent} waits for {0.waiting_for}",
    tasks.TaskFailed: "{0.agent} gave up",
    tasks.TaskSubmitted: "{0.agent} submitted {0.commit:.12}",
    tasks.TaskCancelled: "was cancelled",
    tasks.TaskBlocked: "is blocked",
    tasks.TaskInfeasible: "cannot be done as it was stated",
    tasks.TaskReopened: "is back in the queue",
    tasks.TaskDeferred: "is deferred",
    tasks.TaskWoken: "is no longer deferred",
    tasks.TaskSettled: "is {0.status}: its sub-tasks have ended",
    reviews.LockoutSet: "{0.agent} is locked out",
    reviews.LockoutCleared: "{0.agent} is unlocked",
    reviews.ReviewRequested: "{0.reviewer} was asked for a review",
    reviews.ReviewApproved: "{0.reviewer} approved {0.commit:.12}",
    reviews.ReviewRetracted: "{0.reviewer} retracted the rejection",
    reviews.ReviewNoted: "{0.reviewer}'s review does not count: {0.why}",
    reviews.ReviewCommented: "{0.reviewer} commented on {0.commit:.12}",
    reviews.ReviewBypassed: "{0.by} bypassed the rules and merged it: {0.why}",
    reviews.ObjectionsDismissed: "the user dismissed objections under keys that are not trusted",
    reviews.FeedbackFetched: "{0.agent} read the feedback",
    reviews.TaskReassigned: "goes to {0.target}",
    reviews.EscalationOpened: "asks the user",
    reviews.EscalationRepeated: "asks the user again",
    reviews.EscalationNotified: "the user was notified through {0.channel}",
    reviews.EscalationAcknowledged: "the user has seen the question",
    reviews.EscalationAnswered: "the user answered: {0.option}",
    reviews.AnswerRetracted: "{0.meta.actor} retracted the answer: {0.option}",
    work.GatePassed: "the gates passed {0.agent}'s work",
    work.GateHeld: "findings in {0.agent}'s work wait for a reviewer",
    work.FindingAccepted: "{0.reviewer} accepted the finding {0.finding}",
    work.FindingRefused: "{0.reviewer} refused the finding {0.finding}",
    work.GateOverridden: "the user overrode the gate {0.gate}",
    work.GateRecovered: "gates can be measured again",
    work.SessionMeasured: "the gates measured the session: {0.verdict.status}",
    work.RunStarted: "{0.agent} was started to {0.purpose}",
    work.TaskReturned: "was taken from {0.agent}, without blame",
    work.IssueImported: "was created from issue #{0.issue}",
    work.ActIntended: "on the forge, about to {0.act}",
    work.ActDone: "on the forge: {0.act}, done",
    work.ActFailed: "on the forge: {0.act}, failed: {0.why}",
    Unknown: "{0.kind}, which this version does not know",
}
"""The text of most events; a reason is appended if there is one."""


def _longer_text(event: Event) -> str | None:  # noqa: C901, PLR0912 - one case for each kind of event
    """The text of an event that needs more than a template; None for others."""
    match event:
        case tasks.EdgeCreated() | tasks.EdgeDeleted():
            verb = "waits" if isinstance(event, tasks.EdgeCreated) else "no longer waits"
            other = event.tgt if event.type == "DEPENDS_ON" else event.src
            return f"{verb} for {parse_task_id(other) or other}"
        case tasks.TaskDecomposed():
            return f"was split into {len(event.children)} sub-tasks"
        case tasks.HandoffRejected() | tasks.HandoffRejectionInvalid():
            how = "" if isinstance(event, tasks.HandoffRejected) else " without cause"
            reason = _reason_suffix(tasks.record_of(event).get("reason_summary"))
            return f"{event.agent or 'an agent without a name'} rejected the task{how}{reason}"
        case tasks.RejectionAnswered(decision=decision):
            return f"its rejection was answered: {decision.decision_type}{_reason_suffix(decision.rationale)}"
        case reviews.ReviewRejected():
            first = reviews.first_blocking(event.findings)
            return (
                f"{event.reviewer} rejected {event.commit[:12]}{_reason_suffix(first.text if first else '')}"
            )
        case work.GateRejected():
            missed = event.because or ", ".join(event.verdict.blocking_gates)
            return f"the gates rejected {event.agent}'s work, number {event.number}{_reason_suffix(missed)}"
        case work.GateErrored():
            causes = "; ".join(f"{outage.gate}: {outage.text}" for outage in find_outages(event.verdict))
            return f"{event.agent}'s work could not be measured{_reason_suffix(causes)}"
        case work.RunEnded():
            how = "failed" if event.is_fault else str(event.how).replace("_", " ")
            cost = f", ${event.cost:.2f}" if event.cost else ""
            return (
                f"{event.agent}'s run {how} after {event.seconds:.0f} s{cost}{_reason_suffix(event.detail)}"
            )
        case LinesImported():
            lines = "1 line was" if event.count == 1 else f"{event.count} lines were"
            return f"{lines} imported from {event.file}"
        case SessionAdopted():
            events = format_count(event.count, "event")
            return f"the user vouched for {events} of session {event.session}{_reason_suffix(event.reason)}"
        case LinesGivenUp():
            count = sum(lines.last - lines.first + 1 for lines in event.lines)
            lines = "1 missing line was" if count == 1 else f"{count} missing lines were"
            return f"{lines} given up{_reason_suffix(event.reason)}"
        case LogArchived():
            return f"{format_count(event.events, 'event')} of {format_count(event.tasks, 'task')} archived"
        case EventsVoided():
            count = len(event.events)
            events = "1 event was" if count == 1 else f"{count} events were"
            return f"{events} voided and written again with the right time{_reason_suffix(event.reason)}"
        case MoveBegun():
            return f"the user began to move the log to {event.to}"
        case LedgerMoved():
            return f"the log, of {format_count(event.events, 'event')}, moved to {event.to}"
        case work.GateAlerted():
            return f"the gates rejected {event.agent}'s work {times_text(event.number)}"
        case work.IdleStopCounted(commit=commit):
            what = (
                f"submitted the rejected commit {commit:.12} again"
                if commit
                else "stopped with nothing to measure"
            )
            return f"{event.agent} {what}" + (f" ({event.number} in a row)" if event.number > 1 else "")
        case _:
            return None


def event_words(event: Event) -> str:
    """An event in words, with all of its reason."""
    text = _longer_text(event)
    if text is None:
        reason = _reason_suffix(getattr(event, "reason", ""))
        text = f"{_TEMPLATES.get(type(event), '{0.name}').format(event)}{reason}"
    return text


def event_text(event: Event) -> str:
    """An event in a few words on one line, without invisible characters."""
    return single_line(event_words(event), MAX_WORDS)


def _reason_suffix(reason: object) -> str:
    return f": {reason}" if reason else ""


def activity_entry(event: Event, label: str = "", *, is_unconfirmed: bool = False) -> ActivityEntry:
    task = event_task_id(event)
    task = "" if task in (MOVES, TOKENS) else task
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
    """The latest events, newest first, without quiet ones."""
    return _activity_entries(view, recent_events(view, MAX_READ)[:most])


def recent_events(view: Transaction, most: int) -> list[tuple[Event, bytes]]:
    """The latest events with their lines, newest first, without quiet ones."""
    found = _read_events(view.event_rows.tail(most))[-most:]
    return [pair for pair in reversed(found) if type(pair[0]) not in QUIET_EVENTS]


class ActivityFollower:
    """Reports the events since the last call."""

    def __init__(self, recent: int = 0) -> None:
        self._recent = recent
        self._others: set[str] | None = None
        self._session = ""
        self._seq = 0

    def news(self, view: Transaction) -> tuple[ActivityEntry, ...]:
        """New events in order; on the first call, as many past ones as requested."""
        is_first = self._others is None
        fresh = [*self._of_this_ledger(view), *self._of_others(view)]
        if is_first:
            return latest_activity(view, self._recent)[::-1] if self._recent else ()
        rows = [pair for pair in fresh if type(pair[0]) not in QUIET_EVENTS]
        return _activity_entries(view, sorted(rows, key=lambda pair: order_key(pair[0])))

    def _of_this_ledger(self, view: Transaction) -> list[_EventLine]:
        """The new events of the ledger's own session."""
        head, session, seq = view.head, self._session, self._seq
        self._session, self._seq = head.session, head.seq
        if head.session != session or head.seq <= seq:
            return []
        return _read_events(view.events.lines(session, seq + 1))

    def _of_others(self, view: Transaction) -> list[_EventLine]:
        """The new events from others' files; of very many only the latest."""
        found = [
            pair
            for pair in _read_events(view.event_rows.tail(MAX_READ))
            if pair[0].meta.session != view.head.session
        ]
        known, self._others = self._others, {event.meta.id for event, _ in found}
        return [] if known is None else [pair for pair in found if pair[0].meta.id not in known]


_EventLine = tuple[Event, bytes]


def _read_events(lines: Iterable[bytes]) -> list[_EventLine]:
    return sorted(
        ((codec.decode_stored_line(line), line) for line in lines), key=lambda pair: order_key(pair[0])
    )


def _activity_entries(view: Transaction, pairs: Sequence[_EventLine]) -> tuple[ActivityEntry, ...]:
    unconfirmed = unconfirmed_lines(view, pairs)
    return tuple(
        activity_entry(event, _task_label(view, event), is_unconfirmed=line in unconfirmed)
        for event, line in pairs
    )


def _task_label(view: Transaction, event: Event) -> str:
    name = event_task_id(event)
    task = view.tasks.get(name) if name else None
    return task.label if task else ""


def unconfirmed_lines(view: Transaction, pairs: Iterable[_EventLine]) -> set[bytes]:
    """The lines of events without effect, as no trusted key signed them. Each session is looked up once."""
    numbers: dict[str, list[int]] = defaultdict(list)
    found: set[bytes] = set()
    for event, line in pairs:
        if not event.is_legacy:
            numbers[event.meta.session].append(event.meta.seq)
        elif view.unconfirmed.verdict(EventEntry(event, line, event_task_id(event))):
            found.add(line)
    for session, some in numbers.items():
        found |= {one.line for one in view.unconfirmed.of_session(session, min(some), max(some))}
    return found
