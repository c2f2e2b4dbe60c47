"""Events of the log itself and of all sessions, and the lines of it that are known to be missing."""

from collections.abc import Collection

from remand.domain.events.event import Event, TaskEvent
from remand.domain.instant import Instant
from remand.domain.record import Record

WAITING = "archive:"
"""Stands before a task's id in place of a session: lines of the task are in an archive and needed. No session is named so."""


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
        """True when one of the tasks, the oldest of which is from that time, may be what the lines are about.

        Nobody writes about a task before it was created: a clock never runs behind the events that it has seen.
        """
        return self.task in tasks if self.task else not self.until or created_at < self.until


class AbandonedLines(Record, kw_only=True):
    """Missing lines that the user has given up. Without a session: a line that is gone from a published file."""

    session: str
    first: int
    last: int
    id: str = ""
    task: str = ""

    def covers(self, session: str, number: int) -> bool:
        """True when an event of that number is among them."""
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
    """Whose events they are."""
    first: int
    last: int
    chain: str
    """The value of the session's chain after the last."""
    events: tuple[str, ...]
    """Their ids."""
    reason: str = ""


class MoveBegun(Event, tag="log.move.begin", kw_only=True):
    """The user began to move the log into another ledger, which stays closed until the move has ended."""

    ledger: str
    """The id of the ledger that the log leaves."""
    to_ledger: str
    to: str
    """Where that is, for people."""


class LedgerMoved(Event, tag="log.move", kw_only=True):
    """The log has moved into another ledger and continues only there."""

    ledger: str
    to_ledger: str
    to: str
    events: int
    """How many events both ledgers had, and the digest of their state."""
    digest: str = ""


MOVES = "log.move"
"""Stands in place of a task for the events about moves of the log, so that they are found."""
VOIDS = "log.void"
"""Stands in place of a task for the events that void others, so that they are found."""


class ArchivedFile(Record, kw_only=True):
    """An event file that was taken out of the work tree, as it was."""

    name: str
    size: int
    sha256: str


class ArchivedSession(Record, kw_only=True):
    """How far a session is archived: its key, the last number, and the chain's value there.

    Of a session in which the archiver vouches for lines that stay: how far those groups reach.
    """

    session: str
    key: str
    number: int
    chain: str


class LogArchived(Event, tag="log.archive", kw_only=True):
    """Event files were removed from the work tree. A large archive has several of these events, with the same hash."""

    archive: str
    """The hash over the names and hashes of all its files."""
    before: Instant
    files: tuple[ArchivedFile, ...] = ()
    sessions: tuple[ArchivedSession, ...] = ()
    tasks: int = 0
    events: int = 0


ARCHIVED_ID = 6
"""How many digits of an event's id an archived task keeps."""


class TaskArchived(TaskEvent, tag="task.archive", kw_only=True):
    """The final state of a task, in place of its events."""

    archive: str
    state: str
    """The task as JSON, as the tables hold it."""
    last: tuple[Instant, str, int, str]
    """Where its last event stands in the order of all events."""
    ids: str
    """The first digits of the ids of its events."""
    signed: tuple[tuple[str, str, int], ...]
    """Who wrote them: session, key, and the number of the last."""
    handoffs: tuple[str, ...] = ()
    traces: tuple[tuple[str, str, str, int, str, str, str, str, str, str], ...] = ()
    """What is kept of its rejections (`ledger/traces`)."""

    @property
    def event_ids(self) -> frozenset[str]:
        """The first digits of the ids of its events."""
        return frozenset(self.ids[n : n + ARCHIVED_ID] for n in range(0, len(self.ids), ARCHIVED_ID))


class PauseBegun(Event, tag="pause.begin", kw_only=True):
    """The user lets every session stop without measurement for a while. A pause makes nothing done."""

    until: Instant
    reason: str


class PauseEnded(Event, tag="pause.end", kw_only=True):
    """The user ended the pause."""


class TokenCreated(Event, tag="token.create", kw_only=True):
    """The user gave out a token by which a member, a worker or a host is known to the server."""

    token_id: str
    sha256: str
    """The hash of the whole token, which is written nowhere."""
    member: str
    """Whose it is: the member's name; for a worker or a host, the machine's."""
    role: str
    starts: tuple[str, ...] = ()
    """For a host: the members that it may start and speak for."""
    expires_at: Instant


class TokenRevoked(Event, tag="token.revoke", kw_only=True):
    """A token no longer counts, and never will again."""

    token_id: str
    reason: str = ""


TOKENS = "log.token"
"""Stands in place of a task for the events of tokens, so that they are found and their signatures verified."""
NO_TASKS = ("", MOVES, TOKENS, VOIDS)
"""What stands in place of a task for events that belong to none."""
