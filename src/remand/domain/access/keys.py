"""Public keys as people write them, which of them a project trusts, and how a machine asks for trust."""

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
    """A place in a session's chain up to which a key counts: the last event's number, and the chain's value there."""

    session: str
    number: int
    chain: str

    @property
    def text(self) -> str:
        """The place in one word."""
        return f"{self.session}:{self.number}:{self.chain}"


class PublicKey(Record, kw_only=True):
    """One machine's public key, the name it was given, and where its trust ends."""

    raw: bytes
    name: str = ""
    until: tuple[ChainEnd, ...] | None = None
    """Where the key's sessions end: of others nothing counts. None: the key is trusted without an end."""

    @property
    def id(self) -> str:
        """The short name under which events are signed."""
        return key_id(self.raw)

    @property
    def text(self) -> str:
        """The key as it is written."""
        return f"{KEY_PREFIX}{b64encode(self.raw).decode()}"

    @property
    def entry(self) -> str:
        """The key with its name, as `remand.toml` has it."""
        return f"{self.text} {self.name}".rstrip()

    def end_of_trust(self, session: str) -> ChainEnd | None:
        """Where the trust ends in a session; None when nothing of that session counts, or the key has no end."""
        return next((end for end in self.until or () if end.session == session), None)


@cache
def key_id(raw: bytes) -> str:
    """The short name of a key: the beginning of its hash."""
    return sha256(raw).hexdigest()[:ID_DIGITS]


def parse_public_key(entry: str) -> PublicKey | None:
    """The key in `ed25519:BASE64 name`; None when there is none. The name may be left out."""
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
    """Who may write an event about the log itself, besides that a trusted key has to cover it."""

    USER = "user"
    """Whoever may be the user."""
    OWN = "own"
    """The same; and whoever has a key, about events that this very key covers."""
    KEY = "key"
    """Whoever has a key: it takes rights away alone, or rests on what other keys cover."""


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
"""Every kind of event about the log itself. A trusted key alone does not make its holder the user."""


class Trust(Record, kw_only=True):
    """Whose signatures count, for which project, and who is the user."""

    project: str = ""
    keys: tuple[PublicKey, ...] = ()
    members: tuple[tuple[bool, tuple[str, ...]], ...] = ()
    """Of each member of the team: whether it is the user, and its names."""

    def may_give(self, event: Event) -> bool:
        """True unless an event about the log itself is only the user's to give, and its actor is not the user."""
        is_users = AUTHORITIES.get(type(event), Authority.KEY) is not Authority.KEY
        return not is_users or _team(self.members).may_be_user(event.meta.actor)

    def find_key(self, signer: str) -> PublicKey | None:
        """The trusted key with that id; None when there is none."""
        for key in self.keys:
            if key.id == signer:
                return key
        return None

    @property
    def has_ends(self) -> bool:
        """True when the trust in some key ends somewhere."""
        return any(key.until is not None for key in self.keys)

    @property
    def text(self) -> str:
        """One line that tells this trust from any other. Names do not matter."""
        people = (
            [_TEAM_MARK + urlsafe_b64encode(msgspec.json.encode(self.members)).decode()]
            if self.members
            else []
        )
        return " ".join(
            [f"project:{self.project}", *sorted({_trust_text(key) for key in self.keys}), *people]
        )

    def signed_content(self, content: bytes) -> bytes:
        """What is signed in truth: the purpose and the project come before it, so that it is worth nothing elsewhere."""
        return b"\0".join((_PURPOSE, self.project.encode(), content))


def is_untrusted(key: str, trusted: tuple[PublicKey, ...], *, has_keys: bool, has_remote: bool) -> bool:
    """True when what a machine signs with a key does not count for others, because the base does not list it.

    Where there is no remote, or the base has no list of keys, nobody else is there to be told by.
    """
    is_listed = any(other.id == key and other.until is None for other in trusted)
    return has_keys and has_remote and not is_listed


@lru_cache(maxsize=8)
def parse_trust(text: str) -> Trust:
    """The trust in the line that tells it."""
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
    """What a trust keeps of a team."""
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
"""What stands between a key and its ends in the line that tells a trust."""


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
    """A signature as an event bears it."""
    return urlsafe_b64encode(signature).rstrip(b"=").decode()


def parse_signature(text: str) -> bytes | None:
    """The signature in a text; None when it is none, or is written otherwise than here."""
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
    """A key that asks to be trusted in a project."""

    project: str
    key: PublicKey

    @property
    def text(self) -> str:
        """The request in one line."""
        body = self.key.text.removeprefix(KEY_PREFIX).rstrip("=")
        return f"{_REQUEST_PREFIX}{self.project}:{body}:{self.key.name}"


def is_key_request(text: str) -> bool:
    """True when a text is, or claims to be, a request."""
    return text.strip().startswith(_REQUEST_PREFIX)


def parse_key_request(text: str) -> KeyRequest | None:
    """The request in a text; None when it is damaged."""
    project, _, rest = text.strip().removeprefix(_REQUEST_PREFIX).partition(":")
    body, has_name, name = rest.partition(":")
    key = parse_public_key(f"{KEY_PREFIX}{body} {name}") if has_name and " " not in body else None
    return KeyRequest(project=project, key=key) if key else None
