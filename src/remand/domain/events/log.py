"""Events about the log itself and about sessions, and descriptions of missing lines."""

from collections.abc import Collection

from remand.domain.events.event import Event, TaskEvent
from remand.domain.instant import Instant
from remand.domain.record import Record

WAITING = "archive:"
"""A prefix of task ids in place of a session: lines of the task are in an archive and needed. No session has such a name."""


class MissingLines(Record, kw_only=True):
    """Missing events of a session: one that a signed group names, or a gap that no group names."""

    session: str
    first: int
    last: int
    id: str = ""
    """The event's id; empty for a gap."""
    task: str = ""
    """The task of the event; empty if it has none, or it is unknown."""
    until: Instant = ""
    """They were written before this time; empty if the task is known."""
    is_unsigned: bool = False
    """Whether the line is present but no signature covers it."""

    @property
    def numbers(self) -> str:
        """The missing numbers, in words."""
        if self.first == self.last:
            return f"event {self.first} of session {self.session}"
        return f"events {self.first} to {self.last} of session {self.session}"

    @property
    def description(self) -> str:
        """What is missing, as a sentence without full stop."""
        if self.session.startswith(WAITING):
            return (
                f"archived lines of {self.task} are needed: an event came that belongs among them, or what stands in "
                "their place cannot be read or does not agree with the log; `remand log archive --fetch` brings them"
            )
        if self.id:
            about = f" about {self.task}" if self.task else ""
            what = "the signature of " if self.is_unsigned else ""
            return f"{what}{self.numbers}{about} is missing"
        verb = "is" if self.first == self.last else "are"
        return f"{self.numbers} {verb} missing: neither the lines nor their ids are here"

    def may_concern(self, tasks: Collection[str], created_at: Instant) -> bool:
        """True if the lines may concern one of the tasks, the oldest of which was created at that time.

        Nobody writes about a task before it is created: a clock never runs behind the events it has seen.
        """
        return self.task in tasks if self.task else not self.until or created_at < self.until


class AbandonedLines(Record, kw_only=True):
    """Missing lines that the user gave up. Without a session: a line that is gone from a published file."""

    session: str
    first: int
    last: int
    id: str = ""
    task: str = ""

    def covers(self, session: str, number: int) -> bool:
        """True if the event with that number is included."""
        return session == self.session and self.first <= number <= self.last


class LinesImported(Event, tag="log.import", kw_only=True):
    """The lines of a GoT tool in a file were imported: from then on they count like other lines of these tools."""

    file: str
    sha256: str
    count: int


class SessionAdopted(Event, tag="keys.adopt", kw_only=True):
    """The user vouched for events of a session that no trusted key covered: they count from then on."""

    session: str
    number: int
    """The number of the last one."""
    count: int
    chain: str
    """The value of the adoption's own chain after the last one."""
    reason: str


class LinesGivenUp(Event, tag="log.repair", kw_only=True):
    """The user gave up missing lines of the log: they no longer block anything. If they arrive after all, they count."""

    lines: tuple[AbandonedLines, ...]
    reason: str = ""


class EventsVoided(Event, tag="log.void", kw_only=True):
    """Events that were written while the clock ran ahead have no effect. The events that follow restate them, in the same order."""

    session: str
    """The session of the events."""
    first: int
    last: int
    chain: str
    """The value of the session's chain after the last."""
    events: tuple[str, ...]
    """Their ids."""
    reason: str = ""


class MoveBegun(Event, tag="log.move.begin", kw_only=True):
    """The user began to move the log to another ledger, which stays closed until the move has ended."""

    ledger: str
    """The id of the source ledger."""
    to_ledger: str
    to: str
    """The target's location, for people."""


class LedgerMoved(Event, tag="log.move", kw_only=True):
    """The log has moved into another ledger and continues only there."""

    ledger: str
    to_ledger: str
    to: str
    events: int
    """The number of events in both ledgers, and the digest of their state."""
    digest: str = ""


MOVES = "log.move"
"""Pseudo-task of events about moves of the log, by which they are found."""
VOIDS = "log.void"
"""Pseudo-task of voiding events, by which they are found."""


class ArchivedFile(Record, kw_only=True):
    """An event file that was moved unchanged out of the work tree."""

    name: str
    size: int
    sha256: str


class ArchivedSession(Record, kw_only=True):
    """How far a session is archived: its key, the last number, and the chain's value there.

    For a session in which the archiver vouches for remaining lines: how far those groups reach.
    """

    session: str
    key: str
    number: int
    chain: str


class LogArchived(Event, tag="log.archive", kw_only=True):
    """Event files were removed from the work tree. A large archive has several of these events, with the same hash."""

    archive: str
    """A hash over the names and hashes of all its files."""
    before: Instant
    files: tuple[ArchivedFile, ...] = ()
    sessions: tuple[ArchivedSession, ...] = ()
    tasks: int = 0
    events: int = 0


ARCHIVED_ID = 6
"""How many digits of each event's id an archived task keeps."""


class TaskArchived(TaskEvent, tag="task.archive", kw_only=True):
    """The final state of a task, instead of its events."""

    archive: str
    state: str
    """The task as JSON, as in the tables."""
    last: tuple[Instant, str, int, str]
    """The position of its last event in the order of all events."""
    ids: str
    """The first digits of its events' ids."""
    signed: tuple[tuple[str, str, int], ...]
    """Its writers: session, key, and the number of the last event."""
    handoffs: tuple[str, ...] = ()
    traces: tuple[tuple[str, str, str, int, str, str, str, str, str, str], ...] = ()
    """The traces of its rejections (`ledger/traces`)."""

    @property
    def event_ids(self) -> frozenset[str]:
        """The first digits of its events' ids."""
        return frozenset(self.ids[n : n + ARCHIVED_ID] for n in range(0, len(self.ids), ARCHIVED_ID))


class PauseBegun(Event, tag="pause.begin", kw_only=True):
    """The user lets every session stop without measurement for a while. A pause makes nothing done."""

    until: Instant
    reason: str


class PauseEnded(Event, tag="pause.end", kw_only=True):
    """The user ended the pause."""


class TokenCreated(Event, tag="token.create", kw_only=True):
    """The user issued a token that identifies a member, a worker or a host to the server."""

    token_id: str
    sha256: str
    """The hash of the whole token, which is stored nowhere."""
    member: str
    """Its owner: the member's name, or the machine's for a worker or host."""
    role: str
    starts: tuple[str, ...] = ()
    """For a host: the members that it may start and call for."""
    expires_at: Instant


class TokenRevoked(Event, tag="token.revoke", kw_only=True):
    """A token is invalid from now on, permanently."""

    token_id: str
    reason: str = ""


TOKENS = "log.token"
"""Pseudo-task of token events, by which they are found and their signatures verified."""
NO_TASKS = ("", MOVES, TOKENS, VOIDS)
"""The pseudo-tasks of events that belong to no task."""
