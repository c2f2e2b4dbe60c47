"""The common part of all events: time, origin and actor."""

from enum import StrEnum

from remand.domain.instant import Instant
from remand.domain.record import Record


class KnownBy(StrEnum):
    """How the actor of an event was identified."""

    UNSAID = ""
    """The system itself acted, or an earlier version wrote the event."""
    SOCKET = "socket"
    """By the agent's own socket, or the run in which Remand started it."""
    TOKEN = "token"  # noqa: S105 - the name of a way, not a secret
    """By a token issued by the server."""
    FORGE = "forge"
    """By its account on the forge."""
    WORD = "word"
    """Only by its own word: an option, an environment variable, or the user as the default."""


class Meta(Record, kw_only=True):
    """The origin of an event.

    `id` is the hash of the rest of its line, `prev` the previous id in its session, `key` the idempotency key of its
    request, and `ask` the fingerprint of that request.
    """

    id: str
    session: str = ""
    seq: int = 0
    actor: str = ""
    branch: str = ""
    prev: str = ""
    key: str = ""
    ask: str = ""
    more: int = 0
    """How many events of the same command follow: a command is complete or absent."""
    restates: str = ""
    """The id of the void event that this one restates with a corrected time; of the original if that was a restatement."""
    signer: str = ""
    signature: str = ""
    """Both fields are from an earlier format with signatures on single events. They have no meaning any more."""
    known_by: str = ""
    """How the actor was identified: a `KnownBy`, or a value from a later version."""

    @property
    def is_asserted(self) -> bool:
        """True if the actor is identified only by its own word."""
        return self.known_by == KnownBy.WORD

    @property
    def origin(self) -> str:
        """The id under which others know what the event started: its own, or that of the event it restates."""
        return self.restates or self.id


UNSTAMPED = Meta(id="")


class Event(Record, tag_field="event", tag="", kw_only=True):
    """A fact in the ledger: its time, its origin, and in subclasses its content."""

    ts: Instant = ""
    meta: Meta = UNSTAMPED

    @property
    def name(self) -> str:
        """The event's name in the log."""
        return str(self.__struct_config__.tag)

    @property
    def is_legacy(self) -> bool:
        """True if a GoT tool wrote it: such events have no place in a chain."""
        return self.meta.seq <= 0


Events = tuple[Event, ...]
"""The events of a decision in order."""


def event_names(*kinds: type[Event]) -> frozenset[str]:
    """The names of events in the log."""
    return frozenset(str(kind.__struct_config__.tag) for kind in kinds)


class TaskEvent(Event, tag="", kw_only=True):
    """An event of one task."""

    task_id: str


class OverridingEvent(TaskEvent, tag="", kw_only=True):
    """An event with which the user may override a gate, a reviewer, a rule or an agent."""

    by_user: bool = False
    """Whether the user did so: they are notified, so that they notice an override that was not theirs."""


class ClaimEvent(TaskEvent, tag="", kw_only=True):
    """An event under a claim, by the agent that holds it."""

    handoff_id: str
    agent: str


class AnswerEvent(TaskEvent, tag="", kw_only=True):
    """An event that may follow from the answer to a rejection, which it then names."""

    rejection_id: str = ""
