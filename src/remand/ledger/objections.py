"""How a store keeps the noes under keys that are not trusted."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from remand.domain.events import Event
from remand.domain.instant import Instant
from remand.domain.objection import objected_work
from remand.domain.task import Task
from remand.ledger.signatures import Doubt

MAX_OBJECTIONS = 5000
"""How many objections to one task are told at most, the latest.

It is far more than the user can have answered one by one, so that one which waits for an answer is among them: an answer
to all keys is to everything that was said until then.
"""
_MAX_TEXT = 200
_UNTRUSTED = (Doubt.UNKNOWN_SIGNER, Doubt.REVOKED)
"""What is doubted of events whose key is not trusted: never, or not any more."""


class KeptObjection(NamedTuple):
    """What a key that is not trusted says against one piece of work on a task (`domain/objection`)."""

    signer: str
    work: str
    at: Instant
    """The latest time that its events have."""
    events: int
    """How many events say so."""
    place: int
    """Where the first of them is kept: those that came earlier have lower ones."""


class ObjectionRow(NamedTuple):
    """One event that is an objection."""

    task: str
    signer: str
    work: str
    at: Instant


def as_objection(event: Event, task: str, doubt: Doubt, signer: str) -> ObjectionRow | None:
    """An event as the objection that it is; None when it is none."""
    work = objected_work(event) if doubt in _UNTRUSTED and task else None
    if work is None:
        return None
    return ObjectionRow(task[:_MAX_TEXT], signer[:_MAX_TEXT], work[:_MAX_TEXT], event.ts)


class ObjectionTable(Protocol):
    """The noes among the unconfirmed events whose key is not trusted. They come and go with those."""

    def tasks(self) -> list[Task]:
        """The tasks that have some and have not ended, by id."""

    def keys(self, task_id: str) -> list[KeptObjection]:
        """The keys that object to a task, each with all that it said, the latest first (`MAX_OBJECTIONS`)."""

    def of_task(self, task_id: str, *, works: Collection[str] = (), signer: str = "") -> list[KeptObjection]:
        """Those to these works, or of this key, or both: one for each key and work, the latest first."""

    def line(self, place: int) -> bytes:
        """The line of the event that is kept there."""
