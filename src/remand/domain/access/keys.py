"""Public keys in text form, the keys a project trusts, and a machine's request to be trusted."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from enum import StrEnum
from functools import cache, lru_cache
from hashlib import sha256

import msgspec

from remand.domain.access.team import Member, Role, Team
from remand.domain.events import log
from remand.domain.events.event import Event
from remand.domain.record import Record

KEY_PREFIX = "ed25519:"
KEY_BYTES, SIGNATURE_BYTES = 32, 64
ID_DIGITS = 16
MAX_KEY_NAME = 64
_PURPOSE = b"remand log v1"


class ChainEnd(Record, kw_only=True):
    """The place in a session's chain up to which a key counts: the last event's number and the chain's value there."""

    session: str
    number: int
    chain: str

    @property
    def text(self) -> str:
        """The place as one word."""
        return f"{self.session}:{self.number}:{self.chain}"


class PublicKey(Record, kw_only=True):
    """A machine's public key with its name and the end of its trust."""

    raw: bytes
    name: str = ""
    until: tuple[ChainEnd, ...] | None = None
    """The ends of the key's sessions; nothing counts in other sessions. None: the trust has no end."""

    @property
    def id(self) -> str:
        """The short name under which events are signed."""
        return key_id(self.raw)

    @property
    def text(self) -> str:
        """The key in text form."""
        return f"{KEY_PREFIX}{b64encode(self.raw).decode()}"

    @property
    def entry(self) -> str:
        """The key with its name as in `remand.toml`."""
        return f"{self.text} {self.name}".rstrip()

    def end_of_trust(self, session: str) -> ChainEnd | None:
        """Where the trust ends in a session; None if nothing of it counts, or the trust has no end."""
        return next((end for end in self.until or () if end.session == session), None)


@cache
def key_id(raw: bytes) -> str:
    """A key's short name: the start of its hash."""
    return sha256(raw).hexdigest()[:ID_DIGITS]


def parse_public_key(entry: str) -> PublicKey | None:
    """The key in `ed25519:BASE64 name`; None if invalid. The name is optional."""
    text, _, name = entry.strip().partition(" ")
    name = name.strip()
    if not text.startswith(KEY_PREFIX) or len(name) > MAX_KEY_NAME or not name.isprintable():
        return None
    body = text.removeprefix(KEY_PREFIX).rstrip("=")
    try:
        raw = b64decode(body + "=" * (-len(body) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    key = PublicKey(raw=raw, name=name)
    return key if len(raw) == KEY_BYTES and key.text.rstrip("=") == KEY_PREFIX + body else None


class Authority(StrEnum):
    """Who may write an event about the log itself, in addition to the requirement of a trusted key."""

    USER = "user"
    """Anybody who may be the user."""
    OWN = "own"
    """The same, and any key holder for events covered by that key."""
    KEY = "key"
    """Any key holder: the event only removes rights, or depends on what other keys cover."""


AUTHORITIES: dict[type[Event], Authority] = {
    log.LinesImported: Authority.USER,
    log.SessionAdopted: Authority.USER,
    log.LinesGivenUp: Authority.USER,
    log.EventsVoided: Authority.OWN,
    log.MoveBegun: Authority.USER,
    log.LedgerMoved: Authority.USER,
    log.LogArchived: Authority.USER,
    log.TaskArchived: Authority.KEY,
    log.PauseBegun: Authority.USER,
    log.PauseEnded: Authority.USER,
    log.TokenCreated: Authority.USER,
    log.TokenRevoked: Authority.KEY,
}
"""All kinds of events about the log itself. A trusted key alone does not make its holder the user."""


class Trust(Record, kw_only=True):
    """The trusted keys, the project they sign for, and who is the user."""

    project: str = ""
    keys: tuple[PublicKey, ...] = ()
    members: tuple[tuple[bool, tuple[str, ...]], ...] = ()
    """For each team member: whether it is the user, and its names."""

    def may_give(self, event: Event) -> bool:
        """False for an event about the log itself that only the user may give, if its actor is not the user."""
        is_users = AUTHORITIES.get(type(event), Authority.KEY) is not Authority.KEY
        return not is_users or _team(self.members).may_be_user(event.meta.actor)

    def find_key(self, signer: str) -> PublicKey | None:
        """The trusted key with that id; None if there is none."""
        for key in self.keys:
            if key.id == signer:
                return key
        return None

    @property
    def has_ends(self) -> bool:
        """True if the trust in any key ends."""
        return any(key.until is not None for key in self.keys)

    @property
    def text(self) -> str:
        """One line that identifies this trust. Names are not part of it."""
        people = (
            [_TEAM_MARK + urlsafe_b64encode(msgspec.json.encode(self.members)).decode()]
            if self.members
            else []
        )
        return " ".join(
            [f"project:{self.project}", *sorted({_trust_text(key) for key in self.keys}), *people]
        )

    def signed_content(self, content: bytes) -> bytes:
        """The content that is actually signed: the purpose and the project come first, so that it is invalid elsewhere."""
        return b"\0".join((_PURPOSE, self.project.encode(), content))


def is_untrusted(key: str, trusted: tuple[PublicKey, ...], *, has_keys: bool, has_remote: bool) -> bool:
    """True if signatures with a machine's key do not count for others, as the base does not list it.

    Without a remote, or without a list of keys on the base, this does not matter.
    """
    is_listed = any(other.id == key and other.until is None for other in trusted)
    return has_keys and has_remote and not is_listed


@lru_cache(maxsize=8)
def parse_trust(text: str) -> Trust:
    """Parses the line that identifies a trust."""
    project, *entries = text.split(" ")
    keys = (_trusted_key(entry) for entry in entries)
    people = next((entry for entry in entries if entry.startswith(_TEAM_MARK)), "")
    return Trust(
        project=project.removeprefix("project:"),
        keys=tuple(key for key in keys if key),
        members=_members(urlsafe_b64decode(people.removeprefix(_TEAM_MARK))) if people else (),
    )


_TEAM_MARK = "team:"
_members = msgspec.json.Decoder(tuple[tuple[bool, tuple[str, ...]], ...]).decode


def trust_members(team: Team) -> tuple[tuple[bool, tuple[str, ...]], ...]:
    """The data of a team that is part of a trust."""
    return tuple(
        (Role.USER in member.roles, (member.name, *member.aliases, *member.accounts))
        for member in team.members
    )


@lru_cache(maxsize=8)
def _team(members: tuple[tuple[bool, tuple[str, ...]], ...]) -> Team:
    return Team(
        tuple(
            Member(name=names[0], aliases=names[1:], roles=(Role.USER if is_user else Role.AGENT,))
            for is_user, names in members
        )
    )


_UNTIL_MARK = "@"
"""The separator between a key and its ends in the line that identifies a trust."""


def _trust_text(key: PublicKey) -> str:
    ends = () if key.until is None else sorted(end.text for end in key.until)
    return key.text if key.until is None else f"{key.text}{_UNTIL_MARK}{','.join(ends)}"


def _trusted_key(entry: str) -> PublicKey | None:
    text, has_end, ends = entry.partition(_UNTIL_MARK)
    key = parse_public_key(text)
    if key is None or not has_end:
        return key
    parts = (end.split(":") for end in ends.split(",") if end)
    until = (ChainEnd(session=session, number=int(number), chain=chain) for session, number, chain in parts)
    return PublicKey(raw=key.raw, until=tuple(until))


def format_signature(signature: bytes) -> str:
    """A signature as text for an event."""
    return urlsafe_b64encode(signature).rstrip(b"=").decode()


def parse_signature(text: str) -> bytes | None:
    """Parses a signature; None if it is invalid or not in canonical form."""
    if len(text) > 2 * SIGNATURE_BYTES or not text.isascii():
        return None
    try:
        signature = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
    is_own_form = len(signature) == SIGNATURE_BYTES and format_signature(signature) == text
    return signature if is_own_form else None


_REQUEST_PREFIX = "remand-key:"


class KeyRequest(Record, kw_only=True):
    """A key that requests trust in a project."""

    project: str
    key: PublicKey

    @property
    def text(self) -> str:
        """The request in one line."""
        body = self.key.text.removeprefix(KEY_PREFIX).rstrip("=")
        return f"{_REQUEST_PREFIX}{self.project}:{body}:{self.key.name}"


def is_key_request(text: str) -> bool:
    """True if a text is, or claims to be, a request."""
    return text.strip().startswith(_REQUEST_PREFIX)


def parse_key_request(text: str) -> KeyRequest | None:
    """Parses a request; None if it is damaged."""
    project, _, rest = text.strip().removeprefix(_REQUEST_PREFIX).partition(":")
    body, has_name, name = rest.partition(":")
    key = parse_public_key(f"{KEY_PREFIX}{body} {name}") if has_name and " " not in body else None
    return KeyRequest(project=project, key=key) if key else None
