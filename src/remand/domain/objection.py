"""Objections: a no that is signed by a key which is not trusted here.

An objection changes no state. But people are told of it, and an approval of the work that it names waits until the
user has trusted the key or dismissed the objection. Which key signed is only a claim: the signature of a key that is
not trusted cannot be verified, and anybody can write its id.
"""

from __future__ import annotations

from remand.domain import events as e
from remand.domain.instant import Instant
from remand.domain.record import Record


class Objection(Record, kw_only=True):
    """What a key that is not trusted said against one piece of work on a task."""

    signer: str
    work: str
    """The code tree that it names, or else the commit; empty when it names none."""
    at: Instant
    """When it was last said, as the event has it."""
    text: str = ""
    """What was said, in one line."""


class Dismissal(Record, kw_only=True):
    """The user's answer to objections."""

    signer: str = ""
    """The key; empty: every such key."""
    works: tuple[str, ...] = ()
    """The code trees or commits that it is about."""
    at: Instant


def objected_work(event: e.Event) -> str | None:
    """The code tree, or else the commit, that an event says no to; empty when it names none, None when it is no no.

    A lockout that follows from a rejection is about what was rejected: it names the rejection, which is no code tree.
    """
    match event:
        case e.ReviewRejected():
            return event.tree or event.commit
        case e.GateRejected() | e.GateHeld():
            return event.verdict.tree or event.verdict.commit
        case e.LockoutSet():
            return event.review_id
        case e.HandoffRejected() | e.FindingRefused():
            return ""
        case _:
            return None
