"""Lines of the log that are known to be missing, and which tasks they may concern."""

from __future__ import annotations

from collections.abc import Collection

from remand.domain.instant import Instant
from remand.domain.record import Record


class MissingLines(Record, kw_only=True):
    """Events of a session that are not here: one that a signed group names, or a gap that no group names."""

    session: str
    first: int
    last: int
    id: str = ""
    """The event's id; empty for a gap."""
    task: str = ""
    """The task of the event; empty when it belongs to none, or nobody knows."""
    until: Instant = ""
    """They were written before this time; empty where the task is known."""
    is_unsigned: bool = False
    """True when the line is here, and no signature that covers it."""

    @property
    def numbers(self) -> str:
        """Which lines they are, in words."""
        if self.first == self.last:
            return f"event {self.first} of session {self.session}"
        return f"events {self.first} to {self.last} of session {self.session}"

    @property
    def description(self) -> str:
        """What is missing, in one sentence without its end."""
        if self.id:
            about = f" about {self.task}" if self.task else ""
            what = "the signature of " if self.is_unsigned else ""
            return f"{what}{self.numbers}{about} is missing"
        verb = "is" if self.first == self.last else "are"
        return f"{self.numbers} {verb} missing: neither the lines nor their ids are here"

    def may_concern(self, tasks: Collection[str], created_at: Instant) -> bool:
        """True when one of the tasks, the oldest of which is from that time, may be what the lines are about.

        Nobody writes about a task before it was created: a clock never runs behind the events that it has seen.
        """
        return self.task in tasks if self.task else not self.until or created_at < self.until


class GivenUp(Record, kw_only=True):
    """Missing lines that the user has given up. Without a session: a line that is gone from a published file."""

    session: str
    first: int
    last: int
    id: str = ""
    task: str = ""

    def covers(self, session: str, number: int) -> bool:
        """True when an event of that number is among them."""
        return session == self.session and self.first <= number <= self.last
