"""What the user does to the log itself, and to all sessions at once."""

from __future__ import annotations

from remand.domain.event import Event
from remand.domain.instant import Instant
from remand.domain.missing import GivenUp


class LinesImported(Event, tag="log.import", kw_only=True):
    """The lines of a GoT tool in a file were imported: from then on they count, as far as such lines do."""

    file: str
    sha256: str
    count: int


class SessionAdopted(Event, tag="keys.adopt", kw_only=True):
    """The user vouched for events of a session that no trusted key covered: from then on they count."""

    session: str
    number: int
    """The number of the last one."""
    count: int
    chain: str
    """The value of the adoption's own chain after the last one."""
    reason: str


class LinesGivenUp(Event, tag="log.repair", kw_only=True):
    """The user has given lines of the log up that are missing: they bar nothing any more. Should they come, they count."""

    lines: tuple[GivenUp, ...]
    reason: str = ""


class EventsVoided(Event, tag="log.void", kw_only=True):
    """Events that were written under a clock that ran ahead have no effect. Those that follow restate them, in their order."""

    session: str
    """Whose events they are."""
    first: int
    last: int
    chain: str
    """The value of the session's chain after the last."""
    events: tuple[str, ...]
    """Their ids."""
    reason: str = ""


VOIDS = "log.void"
"""Stands in place of a task for the events that void others, so that they are found."""


class PauseBegun(Event, tag="pause.begin", kw_only=True):
    """The user lets every session stop unmeasured for a while. Nothing becomes done by that."""

    until: Instant
    reason: str


class PauseEnded(Event, tag="pause.end", kw_only=True):
    """The user ended the pause."""
