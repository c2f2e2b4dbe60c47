"""What every event has: when it was, where it comes from, and whose it is."""

from enum import StrEnum

from remand.domain.instant import Instant
from remand.domain.record import Record


class KnownBy(StrEnum):
    """How it is known who the actor of an event was."""

    UNSAID = ""
    """The system itself acted, or an earlier version wrote the event."""
    SOCKET = "socket"
    """The agent's own socket, or the run that Remand started it in."""
    TOKEN = "token"  # noqa: S105 - the name of a way, not a secret
    """A token that the server gave out."""
    FORGE = "forge"
    """The account it used on the forge."""
    WORD = "word"
    """Its own word alone: an option, an environment variable, or the user's name where nobody is named."""


class Meta(Record, kw_only=True):
    """Where an event comes from.

    `id` is the hash of the rest of its line, `prev` the id before it in its session, `key` the idempotency
    key it was asked under and `ask` the fingerprint of what was asked with it.
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
    """How many events of the same command follow: a command is there whole or not at all."""
    restates: str = ""
    """The id of the event, void now, that this one says again with the right time; of the first, if that was repeated."""
    signer: str = ""
    signature: str = ""
    """Both are of an earlier form, in which single events were signed. They say nothing any more."""
    known_by: str = ""
    """How the actor was known: one of `KnownBy`, or what a later version adds."""

    @property
    def is_asserted(self) -> bool:
        """True when nothing but its own word says that the actor is who it says."""
        return self.known_by == KnownBy.WORD

    @property
    def origin(self) -> str:
        """The id by which others know what the event began: its own, or that of the event it restates."""
        return self.restates or self.id


UNSTAMPED = Meta(id="")


class Event(Record, tag_field="event", tag="", kw_only=True):
    """A fact in the ledger: when, from where, and (in its subclass) what."""

    ts: Instant = ""
    meta: Meta = UNSTAMPED

    @property
    def name(self) -> str:
        """The event's name in the log."""
        return str(self.__struct_config__.tag)

    @property
    def is_legacy(self) -> bool:
        """True when a GoT tool wrote it: such events have no place in a chain."""
        return self.meta.seq <= 0


Events = tuple[Event, ...]
"""What a decision leads to, in the order in which it happens."""


def event_names(*kinds: type[Event]) -> frozenset[str]:
    """The names of events in the log."""
    return frozenset(str(kind.__struct_config__.tag) for kind in kinds)


class TaskEvent(Event, tag="", kw_only=True):
    """An event of one task."""

    task_id: str


class OverridingEvent(TaskEvent, tag="", kw_only=True):
    """An event by which the user may set aside what a gate, a reviewer, a rule or an agent said."""

    by_user: bool = False
    """True when the user did that: they are told of it, so that they see one that was not theirs."""


class ClaimEvent(TaskEvent, tag="", kw_only=True):
    """An event under one claim, by the agent that holds it."""

    handoff_id: str
    agent: str


class AnswerEvent(TaskEvent, tag="", kw_only=True):
    """An event that may follow from the answer to a rejection, which it then names."""

    rejection_id: str = ""
