"""Signed groups: a line that names the events of one durable write and covers them with a signature.

A group's line stands before its events and names each by id and task. So a missing event's number, id and
task are known, and a part of a log can be checked without the rest. The groups of a session form a chain:
c(n) = H(c(n-1), id(n), task(n)). A signature is over c of the group's last event, and so covers every event
before it in its session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from functools import cached_property, partial
from hashlib import sha256

import msgspec

from remand.domain.instant import Instant, is_instant
from remand.domain.record import NamedTuple, Record
from remand.ledger.problems import BadLine
from remand.startup import lazy_pattern

GROUP_EVENT = "log.sign"
IMPORT = "import-"
"""The prefix of sessions whose groups name imported lines of GoT tools, which have no session of their own."""
ADOPT = "adopt-"
"""The prefix of sessions whose groups name events of another session, for which somebody else vouches."""
MAX_ADOPTED_NAME = 64 - len(ADOPT)
VOID = "-"
"""Stands for the task of an event without effect."""
MAX_GROUP = 2000
"""How many events a group names at most, so that its line stays below the limit of a line."""
MAX_SEQ = 1 << 40
GROUP_MARK = f'{{"event":"{GROUP_EVENT}",'.encode()
"""The start of every group's line."""
_SESSION = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_KEY = lazy_pattern(r"[0-9a-f]{16}")
_HASH = lazy_pattern(r"[0-9a-f]{32}")
_HASH_LENGTH = 32


class Doubt(StrEnum):
    """Why an event has no effect."""

    NONE = ""
    UNSIGNED = "unsigned"
    NOT_IMPORTED = "not_imported"
    """A line of a GoT tool that nobody has imported."""
    UNKNOWN_SIGNER = "unknown_signer"
    WRONG_SIGNATURE = "wrong_signature"
    REVOKED = "revoked"
    """Its key is trusted up to a certain place, and this event is not before it."""
    NOT_USERS = "not_users"
    """Signed by a trusted key, but only the user may write such an event, and its actor is not the user."""
    VOID = "void"
    """Signed, and marked as having no effect."""


ChainPlace = tuple[str, str, str, int]
"""A place in a chain: session, key, the chain's value there, and the number of the event before it."""


class GroupedEvent(NamedTuple):
    """An event as its group names it."""

    id: str
    task: str


new_grouped: Callable[[tuple[str, str]], GroupedEvent] = partial(tuple.__new__, GroupedEvent)
"""Makes one of both its values, faster than its class."""


class GroupOrigin(Record, kw_only=True):
    """Whose events a group names."""

    session: str


class EventGroup(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=GROUP_EVENT, dict=True, cache_hash=True
):
    """The events of one durable write, and the signature that covers them.

    Its hash covers every field: otherwise many forged groups with equal hashes would take quadratic time to
    read.
    """

    ts: Instant
    meta: GroupOrigin
    first: int
    """The number of the first event in its session."""
    before: str
    """The chain's value before the first event."""
    events: tuple[GroupedEvent, ...]
    key: str
    """The id of the key that signed."""
    signature: str = ""

    @property
    def session(self) -> str:
        """The session of these events."""
        return self.meta.session

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self.first + len(self.events) - 1

    @property
    def after(self) -> str:
        """The chain's value after the last event, which is signed."""
        known: str | None = self.__dict__.get("after")
        if known is None:
            known = self.__dict__["after"] = self._chain_after(self.events)
        return known

    @cached_property
    def numbers_by_task(self) -> dict[str, list[int]]:
        """The numbers of its events, by task."""
        found: dict[str, list[int]] = {}
        for number, (_, task) in self.numbered_events():
            found.setdefault(task, []).append(number)
        return found

    @property
    def content(self) -> bytes:
        """The signed content, without the project."""
        return f"{self.session}\0{self.last}\0{self.after}".encode()

    @property
    def start(self) -> ChainPlace:
        """The place in the chain where the group begins, which is where the previous one ends."""
        return (self.session, self.key, self.before, self.first - 1)

    @property
    def end(self) -> ChainPlace:
        """The place in the chain where the group ends."""
        return (self.session, self.key, self.after, self.last)

    def numbered_events(self) -> Iterator[tuple[int, GroupedEvent]]:
        """Its events with their numbers in the session."""
        return enumerate(self.events, self.first)

    def chain_at(self, number: int) -> str:
        """The chain's value after the event with that number; empty if the group does not name it."""
        if not self.first <= number <= self.last:
            return ""
        return self._chain_after(self.events[: number - self.first + 1])

    def _chain_after(self, events: Iterable[GroupedEvent]) -> str:
        value = self.before
        for event_id, task in events:  # as `next_chain_value` does
            value = sha256(f"{value}\0{event_id}\0{task}".encode()).hexdigest()[:_HASH_LENGTH]
        return value

    def has_event(self, seq: int, event_id: str, task: str) -> bool:
        """True if the group names exactly that event under that number."""
        place = seq - self.first
        return 0 <= place < len(self.events) and self.events[place] == (event_id, task)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(EventGroup).decode


def chain_start(session: str, key: str) -> str:
    """The chain's value before a session's first event. It includes the key, because a session has one."""
    return _hash(f"remand chain v1\0{session}\0{key}")


def adoption_session(session: str) -> str:
    """The session of the groups by which others vouch for a session's events."""
    return f"{ADOPT}{session}"


def next_chain_value(before: str, event_id: str, task: str) -> str:
    """The chain's value after one more event."""
    return _hash(f"{before}\0{event_id}\0{task}")


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_HASH_LENGTH]


def encode_group(group: EventGroup) -> bytes:
    """A group's line, without the newline."""
    return _encode(group)


def is_group(line: bytes) -> bool:
    """True if a line is, or claims to be, a group."""
    return line.startswith(GROUP_MARK)


def decode_stored_group(line: bytes) -> EventGroup:
    """Decodes a group's line that was checked when it entered the ledger; raises `BadLine` if it was damaged since."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadLine("names signed events in a way that cannot be read") from None


class NamedEvents(msgspec.Struct, frozen=True, gc=False):
    """What a group's line names, without its signature."""

    meta: GroupOrigin
    first: int
    events: tuple[tuple[str, str], ...]
    """The id and the task of each."""


_decode_names = msgspec.json.Decoder(NamedEvents).decode


def decode_names(line: bytes) -> NamedEvents | None:
    """What a stored group's line names; None if the line was damaged: then it covers nothing."""
    try:
        return _decode_names(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def decode_group(line: bytes) -> EventGroup:
    """Decodes a group's line from any source, or raises `BadLine` with the reason."""
    try:
        group = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadLine(f"names signed events in a way that cannot be read: {error}") from None
    if _encode(group) != line:
        raise BadLine("names signed events in an unknown form")
    if not _SESSION.fullmatch(group.meta.session) or not 0 < group.first <= group.last < MAX_SEQ:
        raise BadLine("names signed events without a place in a session")
    if not _KEY.fullmatch(group.key):
        raise BadLine("names signed events without the id of a key")
    if len(group.events) > MAX_GROUP or not is_instant(group.ts) or not _HASH.fullmatch(group.before):
        raise BadLine("names signed events with an invalid time, number or hash")
    return group


def decode_groups(lines: Iterable[bytes]) -> list[EventGroup]:
    """The groups among lines, without damaged ones."""
    found = []
    for line in lines:
        if is_group(line):
            with suppress(BadLine):
                found.append(decode_group(line.rstrip(b"\r")))
    return found
