"""Questions and notices to the user: questions, alerts about failing claims, and overrides in their name."""

from __future__ import annotations

from msgspec.structs import replace

from remand.domain import commands as c
from remand.domain.access.team import Actor, Role
from remand.domain.decisions.findings import is_same_change
from remand.domain.events.event import Event, Events, OverridingEvent
from remand.domain.events.reviews import (
    EscalationAnswered,
    EscalationOpened,
    LockoutCleared,
    ObjectionsDismissed,
    ReviewRetracted,
)
from remand.domain.events.tasks import RejectionAnswered
from remand.domain.events.work import FindingAccepted, GateAlerted, GateOverridden
from remand.domain.facts import Facts
from remand.domain.gate.state import GateAlert
from remand.domain.instant import add_seconds
from remand.domain.reasons import DecisionType
from remand.domain.task import Claim, OverrideNotice, Status, Task
from remand.domain.text.words import flatten, shorten


def ask_user(task: Task, kind: str, reason: str, context: c.CommandContext) -> EscalationOpened:
    """The question, with the time at which it is repeated."""
    deadline = add_seconds(context.at, context.facts.policy.deadline_seconds)
    return EscalationOpened(task_id=task.id, kind=kind, reason=reason, deadline=deadline)


_USER = Role.USER
MAX_STALLED = 2
"""After the alert, this many rejections in a row without progress escalate to a human."""
NOTICE_DUE = "tell"
"""Marks tasks with an undelivered notice."""
MAX_NOTICES = 20
"""How many undelivered overrides of one task are kept, the latest ones."""
_MAX_WORDS = 200
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


# Alerts.


def raise_alert(task: Task, claim: Claim, number: int, facts: Facts) -> Events:
    """The alert due with this rejection of a claim: one for each threshold reached."""
    known, threshold = task.gates.progress.alert, facts.policy.alert_after_gates
    is_known = known is not None and known.handoff_id == claim.handoff_id and known.alert_after >= threshold
    if number < threshold or is_known:
        return ()
    return (
        GateAlerted(
            task_id=task.id,
            handoff_id=claim.handoff_id,
            agent=claim.agent,
            number=number,
            alert_after=threshold,
            escalate_after=facts.policy.escalate_after_gates,
        ),
    )


def open_alert(task: Task) -> GateAlert | None:
    """The unacknowledged alert, while the claim is active and its work has not passed."""
    alert, claim = task.gates.progress.alert, task.claim
    if alert is None or alert.acknowledged_by or claim is None or task.status != Status.CLAIMED:
        return None
    return alert if alert.handoff_id == claim.handoff_id else None


def describe_takeover(escalate_after: int) -> str:
    """When a human takes over a claim."""
    return f"at {escalate_after}, or after two without progress"


def render_alert(number: int, escalate_after: int) -> str:
    """The agent's message with an alert about its claim."""
    return f"This is the {format_ordinal(number)} rejection; {describe_takeover(escalate_after)}, a human takes over."


def render_escalation_notice(number: int, *, is_stalled: bool) -> str:
    """The agent's message with a rejection that escalates its claim to a human."""
    stalled = ", and the last two showed no progress" if is_stalled else ""
    return f"This was the {format_ordinal(number)} rejection{stalled}. A human takes over now; this session may stop."


def format_ordinal(number: int) -> str:
    """A number as an ordinal: third, 12th."""
    if 1 <= number <= len(_ORDINALS):
        return _ORDINALS[number - 1]
    ending = "th" if number % 100 in (11, 12, 13) else _ENDINGS.get(number % 10, "th")
    return f"{number}{ending}"


# Overrides.


def mark_overrides(events: Events, actor: Actor) -> Events:
    """The decided events, with those marked in which the user overrides others."""
    if actor.confined or _USER not in actor.roles:
        return events
    return tuple(
        replace(event, by_user=True)
        if isinstance(event, OverridingEvent) and describe_override(event, actor.name)
        else event
        for event in events
    )


def describe_override(event: Event, actor: str) -> tuple[str, str] | None:
    """What an event overrides, and the reason; None if it overrides nothing."""
    match event:
        case GateOverridden():
            return f"let the gate {_shorten_words(event.gate)} pass", _shorten_words(event.reason)
        case FindingAccepted() if is_same_change(event.finding):
            what = f"let a change pass that was rejected before ({_shorten_words(event.finding)})"
            return what, _shorten_words(event.reason)
        case LockoutCleared() if not event.review_id and not event.inherited_from:
            return f"unlocked {_shorten_words(event.agent)}", _shorten_words(event.reason)
        case RejectionAnswered() if _is_override(event):
            agent = _shorten_words(str(event.decision.rejection.get("agent_id") or "an agent"))
            return f"overrode {agent}'s rejection of the task", _shorten_words(
                event.decision.override_message
            )
        case ReviewRetracted() if event.reviewer != actor:
            return f"retracted {_shorten_words(event.reviewer)}'s rejection of the work", _shorten_words(
                event.reason
            )
        case ObjectionsDismissed():
            whose = (
                f"of key {_shorten_words(event.signer)}"
                if event.signer
                else "of every key that is not trusted"
            )
            return f"dismissed the objections {whose}", _shorten_words(event.reason)
        case EscalationAnswered() if event.option == "accept":
            return "accepted work that was merged past the rules", _shorten_words(event.guidance)
        case _:
            return None


def _is_override(event: RejectionAnswered) -> bool:
    """True for an override by a person rather than a rule."""
    return event.decision.decision_type == DecisionType.OVERRIDE.name and not event.director


def find_notice(event: Event) -> OverrideNotice | None:
    """The notice to the user about an event; None if there is none."""
    if not isinstance(event, OverridingEvent) or not event.by_user:
        return None
    found = describe_override(event, event.meta.actor)
    if found is None:
        return None
    what, why = found
    text = f"{_shorten_words(event.meta.actor) or 'somebody'} {what}{': ' if why else ''}{why}"
    return OverrideNotice(id=f"N-{event.meta.origin[:12]}", text=text, at=event.ts)


def _shorten_words(text: str) -> str:
    """A foreign text, shortened to one line without invisible characters."""
    flat = flatten(text)
    return shorten(flat, _MAX_WORDS)
