"""Answers that were taken back: which events they were, and a history without them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from remand.domain.events.event import Event
from remand.domain.events.reviews import AnswerRetracted, EscalationAnswered, EscalationNotified
from remand.domain.events.tasks import HandoffRejected, HandoffRejectionInvalid, RejectionAnswered
from remand.domain.events.work import FindingAccepted, FindingRefused, GateOverridden, GateRecovered

ANSWERS = (EscalationAnswered, RejectionAnswered, FindingAccepted, FindingRefused)
_OTHER_COMMANDS = (HandoffRejected, HandoffRejectionInvalid, GateOverridden, GateRecovered)
"""What an answer comes with that is no decision of its own: the rules answered a rejection, a gate was overridden or runs again."""
_WITHOUT_EFFECT = (EscalationNotified, AnswerRetracted)
"""What may follow an answer while nobody has acted on it."""


def last_answer(events: Sequence[Event]) -> list[Event]:
    """All events of the command that gave a task's last answer, while nothing has followed; else none."""
    told = [event for event in events if not isinstance(event, _WITHOUT_EFFECT)]
    if not told or told[-1].is_legacy:
        return []
    end = command_end(told[-1])
    found = [event for event in told if command_end(event) == end]
    is_answer = any(isinstance(event, ANSWERS) for event in found)
    return found if is_answer and not any(isinstance(event, _OTHER_COMMANDS) for event in found) else []


def command_end(event: Event) -> tuple[str, int]:
    """The session and number of the last event of the command that an event follows from."""
    return event.meta.session, event.meta.seq + event.meta.more


def effective_events(events: Sequence[Event]) -> Sequence[Event]:
    """A task's events in their order, without the answers that were taken back.

    A retraction counts when nobody had acted on the answer before it, in the order that all ledgers agree on. One that
    does not keeps the id of its answer, and `evolve` records a conflict.
    """
    if not any(isinstance(event, AnswerRetracted) and event.answer for event in events):
        return events
    kept: list[Event] = []
    for event in events:
        found = last_answer(kept) if isinstance(event, AnswerRetracted) and event.answer else []
        if isinstance(event, AnswerRetracted) and event.answer in [one.meta.origin for one in found]:
            gone = {one.meta.id for one in found}
            kept = [one for one in kept if one.meta.id not in gone]
            kept.append(replace(event, answer=""))
        else:
            kept.append(event)
    return kept
