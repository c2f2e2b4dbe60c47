"""What has happened, an event at a time, in a few words that people read as it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from remand.app.escalations import line
from remand.domain import events as e
from remand.domain.gates.outages import outages_of
from remand.domain.ids import task_id
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.ledger import codec
from remand.ledger.order import place
from remand.ledger.store import Entry, Transaction

MAX_WORDS = 160
MANY = 200
QUIET = frozenset({e.LeaseRenewed, e.FeedbackFetched, e.EscalationNotified, e.ActIntended})
"""Kinds of events that say nothing new."""
ABOUT_REJECTIONS = (e.HandoffRejected, e.HandoffRejectionInvalid, e.RejectionAnswered)
"""Kinds of events whose words say more than their fields in a row."""


class Happening(Record, kw_only=True, omit_defaults=False):
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


_WORDS: dict[type[e.Event], str] = {
    e.TaskAdded: "was written down: {0.data.title}",
    e.PauseBegun: "sessions may stop unmeasured until {0.until}",
    e.PauseEnded: "the pause was ended",
    e.TaskEdited: "was edited",
    e.TaskDeleted: "was taken away by a GoT tool",
    e.TaskClaimed: "{0.agent} took it, attempt {0.attempt}",
    e.HandoffInitiated: "is reserved for {0.target_agent}",
    e.HandoffAccepted: "{0.agent} took it, as it was handed over",
    e.HandoffCompleted: "{0.agent} handed in {0.commit:.12}",
    e.OpinionGiven: "the adviser said of its rejection: {0.opinion}",
    e.HandoffResumed: "{0.agent} goes on: its rejection did not hold",
    e.HandoffLapsed: "is free again: nobody took the handoff",
    e.LeaseRenewed: "{0.agent} is still at work",
    e.LeaseExpired: "is back in the queue: {0.agent} was not heard of",
    e.TaskReleased: "{0.agent} gave it back",
    e.TaskContinued: "{0.agent} stopped in the middle",
    e.TaskWaiting: "{0.agent} waits for {0.waiting_for}",
    e.TaskFailed: "{0.agent} gave up",
    e.TaskSubmitted: "{0.agent} handed in {0.commit:.12}",
    e.TaskCancelled: "was cancelled",
    e.TaskBlocked: "is blocked",
    e.TaskInfeasible: "cannot be done as it was stated",
    e.TaskReopened: "is back in the queue",
    e.TaskDeferred: "sleeps",
    e.TaskWoken: "woke up",
    e.TaskSettled: "is {0.status}: its sub-tasks have ended",
    e.LockoutSet: "{0.agent} is locked out",
    e.LockoutCleared: "{0.agent} is unlocked",
    e.ReviewRequested: "{0.reviewer} was asked for a review",
    e.ReviewApproved: "{0.reviewer} approved {0.commit:.12}",
    e.ReviewRetracted: "{0.reviewer} no longer rejects it",
    e.ReviewNoted: "{0.reviewer}'s review does not count: {0.why}",
    e.ReviewCommented: "{0.reviewer} commented on {0.commit:.12}",
    e.ReviewBypassed: "{0.by} merged it past the rules: {0.why}",
    e.ObjectionsDismissed: "the user dismissed objections under keys that are not trusted",
    e.FeedbackFetched: "{0.agent} was given the feedback",
    e.TaskReassigned: "goes on to {0.target}",
    e.EscalationOpened: "asks the user",
    e.EscalationRepeated: "asks the user again",
    e.EscalationNotified: "the user was told through {0.channel}",
    e.EscalationAcknowledged: "the user has seen the question",
    e.EscalationAnswered: "the user answered: {0.option}",
    e.GatePassed: "the gates let {0.agent}'s work through",
    e.GateHeld: "findings in {0.agent}'s work wait for a reviewer",
    e.GateAlerted: "the gates rejected {0.agent}'s work {0.number} times",
    e.FindingAccepted: "{0.reviewer} accepted the finding {0.finding}",
    e.FindingRefused: "{0.reviewer} refused the finding {0.finding}",
    e.GateOverridden: "the user let the gate {0.gate} pass",
    e.GateRecovered: "gates can be measured again",
    e.RunStarted: "{0.agent} was started to {0.purpose}",
    e.TaskReturned: "was taken back from {0.agent}, without blame",
    e.IssueImported: "was made from issue #{0.issue}",
    e.ActIntended: "on the forge, about to {0.act}",
    e.ActDone: "on the forge: {0.act}, done",
    e.ActFailed: "on the forge: {0.act}, failed: {0.why}",
    e.Unknown: "{0.kind}, which this version does not know",
}
"""Events that say what they say in one line; a reason is added where there is one."""


def _linked(event: Any) -> str:
    verb = "waits" if isinstance(event, e.EdgeCreated) else "no longer waits"
    other = event.tgt if event.type == "DEPENDS_ON" else event.src
    return f"{verb} for {task_id(other) or other}"


def _decomposed(event: Any) -> str:
    return f"was cut into {len(event.children)} sub-tasks"


def _rejected(event: Any) -> str:
    how = "" if isinstance(event, e.HandoffRejected) else " without cause"
    who = event.agent or "an agent without a name"
    return f"{who} rejected the task{how}{_because(e.record_of(event).get('reason_summary'))}"


def _answered(event: Any) -> str:
    return f"its rejection was answered: {event.decision.decision_type}{_because(event.decision.rationale)}"


def _sent_back(event: Any) -> str:
    first = next((finding.text for finding in event.findings if finding.is_blocking), "")
    return f"{event.reviewer} rejected {event.commit[:12]}{_because(first)}"


def _refused(event: Any) -> str:
    missed = event.because or ", ".join(event.verdict.standing)
    return f"the gates rejected {event.agent}'s work, number {event.number}{_because(missed)}"


def _unmeasured(event: Any) -> str:
    causes = "; ".join(f"{one.gate}: {one.text}" for one in outages_of(event.verdict))
    return f"{event.agent}'s work could not be measured{_because(causes)}"


def _imported(event: Any) -> str:
    lines = "1 line was" if event.count == 1 else f"{event.count} lines were"
    return f"{lines} imported from {event.file}"


def _adopted(event: Any) -> str:
    events = "1 event" if event.count == 1 else f"{event.count} events"
    return f"the user vouched for {events} of session {event.session}{_because(event.reason)}"


def _given_up(event: Any) -> str:
    count = sum(one.last - one.first + 1 for one in event.lines)
    lines = "1 missing line was" if count == 1 else f"{count} missing lines were"
    return f"{lines} given up{_because(event.reason)}"


def _voided(event: Any) -> str:
    count = len(event.events)
    events = "1 event was" if count == 1 else f"{count} events were"
    return f"{events} voided and written again with the right time{_because(event.reason)}"


def _ended(event: Any) -> str:
    how = "failed" if event.is_fault else str(event.how).replace("_", " ")
    cost = f", ${event.cost:.2f}" if event.cost else ""
    return f"{event.agent}'s run {how} after {event.seconds:.0f} s{cost}{_because(event.detail)}"


_LONGER: dict[type[e.Event], Callable[[Any], str]] = {
    e.EdgeCreated: _linked,
    e.EdgeDeleted: _linked,
    e.TaskDecomposed: _decomposed,
    e.HandoffRejected: _rejected,
    e.HandoffRejectionInvalid: _rejected,
    e.RejectionAnswered: _answered,
    e.ReviewRejected: _sent_back,
    e.GateRejected: _refused,
    e.GateErrored: _unmeasured,
    e.RunEnded: _ended,
    e.LinesImported: _imported,
    e.SessionAdopted: _adopted,
    e.LinesGivenUp: _given_up,
    e.EventsVoided: _voided,
}


def words(event: e.Event) -> str:
    """An event in a few words, on one line and with nothing hidden in it."""
    longer = _LONGER.get(type(event))
    if longer is not None:
        return line(longer(event), MAX_WORDS)
    said = _WORDS.get(type(event), "{0.name}").format(event)
    return line(f"{said}{_because(getattr(event, 'reason', ''))}", MAX_WORDS)


def _because(reason: object) -> str:
    return f": {reason}" if reason else ""


def happening(event: e.Event, label: str = "", *, is_unconfirmed: bool = False) -> Happening:
    """An event as people read it."""
    task = e.subject(event)
    return Happening(
        at=event.ts,
        event=event.name,
        task_id=task,
        label=label or task,
        actor=event.meta.actor,
        text=words(event),
        is_unconfirmed=is_unconfirmed,
    )


def latest(view: Transaction, most: int) -> tuple[Happening, ...]:
    """What has happened last, the newest first, without what says nothing new."""
    found = _read(view.events.tail(MANY))
    told = [pair for pair in reversed(found) if type(pair[0]) not in QUIET]
    return _told(view, told[:most])


class Follower:
    """Tells what has happened since it was last asked."""

    def __init__(self, recent: int = 0) -> None:
        self._recent = recent
        self._others: set[str] | None = None
        self._session = ""
        self._seq = 0

    def news(self, view: Transaction) -> tuple[Happening, ...]:
        """What is new, in its order; the first time, as much of what has happened last as was asked for."""
        is_first = self._others is None
        fresh = [*self._of_this_ledger(view), *self._of_others(view)]
        if is_first:
            return latest(view, self._recent)[::-1] if self._recent else ()
        told = [pair for pair in fresh if type(pair[0]) not in QUIET]
        return _told(view, sorted(told, key=lambda pair: place(pair[0])))

    def _of_this_ledger(self, view: Transaction) -> list[_Read]:
        """Every event that the ledger's own session has gained."""
        head, session, seq = view.head, self._session, self._seq
        self._session, self._seq = head.session, head.seq
        if head.session != session or head.seq <= seq:
            return []
        return _read(view.events.lines(session, seq + 1))

    def _of_others(self, view: Transaction) -> list[_Read]:
        """What files of others have brought, of very much the latest."""
        found = [pair for pair in _read(view.events.tail(MANY)) if pair[0].meta.session != view.head.session]
        known, self._others = self._others, {event.meta.id for event, _ in found}
        return [] if known is None else [pair for pair in found if pair[0].meta.id not in known]


_Read = tuple[e.Event, bytes]


def _read(lines: Iterable[bytes]) -> list[_Read]:
    """Events with their lines, in their order."""
    return sorted(((codec.recall(one), one) for one in lines), key=lambda pair: place(pair[0]))


def _told(view: Transaction, pairs: Sequence[_Read]) -> tuple[Happening, ...]:
    return tuple(
        happening(event, _label(view, event), is_unconfirmed=_is_doubted(view, event, written))
        for event, written in pairs
    )


def _label(view: Transaction, event: e.Event) -> str:
    name = e.subject(event)
    task = view.tasks.get(name) if name else None
    return task.label if task else ""


def _is_doubted(view: Transaction, event: e.Event, written: bytes) -> bool:
    return bool(view.unconfirmed.verdict(Entry(event, written, e.subject(event))))
