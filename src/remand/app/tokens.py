"""Tokens as the signed events of the log make them: created, revoked, and looked up for whoever calls the server."""

from __future__ import annotations

import base64
import hmac
import secrets
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Protocol

import msgspec
from msgspec.structs import replace

from remand.app.events.signatures import Verifier
from remand.app.events.task_folds import signed_task_events, signed_voids
from remand.app.handler import RequestHandler
from remand.app.ledger import Ledger
from remand.app.ports import Clock, Keys, SharedData, SignedClaim
from remand.app.requests import Rules
from remand.domain.access.keys import Trust, format_signature, parse_signature
from remand.domain.access.team import Actor, Team
from remand.domain.access.tokens import (
    SECRET_BYTES,
    Caller,
    OpenIdAccount,
    Token,
    TokenRole,
    account_caller,
    find_token,
    fold_tokens,
    parse_token_id,
    require_member,
    require_valid_token,
    require_whole_token_log,
    token_caller,
    token_hash,
    token_text,
)
from remand.domain.decisions import tokens as decisions
from remand.domain.events.event import KnownBy
from remand.domain.events.log import TOKENS, VOIDS, MissingLines
from remand.domain.ids import make_id
from remand.domain.instant import END, Instant, add_seconds
from remand.domain.record import NamedTuple, Record
from remand.ledger.store import Transaction

SESSIONS = "session"
"""What sessions of browsers are kept as."""
LOOK_AGAIN_SECONDS = 0.5
"""How long a process may not know of a token that another one has revoked."""


class SignedTokens(NamedTuple):
    """The tokens that verified signatures cover, and the lines about tokens that are missing."""

    tokens: Mapping[str, Token]
    missing: tuple[MissingLines, ...]


def signed_tokens(tx: Transaction, verifier: Verifier) -> SignedTokens:
    """The tokens. What a table says without a signed event, or of an event that is void, does not count."""
    events = signed_task_events(tx, TOKENS, verifier, signed_voids(tx, verifier), is_verified=True)
    return SignedTokens(fold_tokens(events.events), events.missing)


class TokenLookup:
    """Finds out whose a token is, by what was last read. What was verified is kept while the lines are the same."""

    def __init__(self) -> None:
        self._found = SignedTokens({}, ())
        self._source: tuple[object, ...] = ()
        """The lines and the trust that the tokens were read from."""
        self._team = Team()
        self._clock: Clock | None = None
        self.read_at = float("-inf")
        """When the log was last read, by `time.monotonic`."""

    @property
    def is_due(self) -> bool:
        """True when the log has to be read again before anybody is let in."""
        return time.monotonic() - self.read_at >= LOOK_AGAIN_SECONDS

    def forget(self) -> None:
        """Has the log read again: this process may have changed it."""
        self.read_at = float("-inf")

    def may_be_new(self, text: str) -> bool:
        """True for what has the form of a token and was not there when the log was read: another process may have made it."""
        token_id = parse_token_id(text)
        return bool(token_id) and token_id not in self._found.tokens

    def read(self, ledger: Ledger, team: Team) -> None:
        """Reads the tokens from the log, and takes the team as it is now."""
        read_at = time.monotonic()
        with ledger.store.read() as view:
            verifier = ledger.verifier(view)
            events = (sorted(view.events.of_task(kind)) for kind in (TOKENS, VOIDS))
            groups = sorted(one.line for one in view.groups.of_task(TOKENS))
            source = (*events, groups, verifier.trust_text)
            if source != self._source:
                self._found, self._source = signed_tokens(view, verifier), source
        self._team, self._clock, self.read_at = team, ledger.clock, read_at

    def caller(self, text: str) -> Caller:
        """Whom a token stands for; refuses one that does not count."""
        require_whole_token_log(self._found.missing)
        return token_caller(find_token(self._found.tokens, text, self._now()), self._team)

    def current_caller(self, caller: Caller) -> Caller:
        """The caller of a session as things are now; refuses one whose token or role is gone since."""
        if caller.token_id:
            require_whole_token_log(self._found.missing)
            token = require_valid_token(self._found.tokens.get(caller.token_id), self._now())
            return token_caller(token, self._team)
        return require_member(caller, self._team)

    def account_caller(self, account: OpenIdAccount, role: TokenRole | None) -> Caller:
        """Whom an account stands for; refuses a stranger's."""
        return account_caller(account, self._team, role)

    def _now(self) -> Instant:
        return self._clock.now() if self._clock else END


class SignatureStamp(Record, kw_only=True):
    """Who signed something that lies where others can write, and the signature."""

    key: str
    """The id of the signer's key."""
    signature: str

    def covers(self, content: bytes, rules: Rules, keys: Keys) -> bool:
        """True when a key that counts here now signed exactly that, for this project."""
        trust = rules.trust(keys.own())
        key, signature = trust.find_key(self.key), parse_signature(self.signature)
        if key is None or key.until is not None or signature is None:
            return False
        return keys.verify([SignedClaim(key.raw, trust.signed_content(content), signature)])[0]


def sign_content(content: bytes, project: str, keys: Keys) -> SignatureStamp:
    """Signs something for a project with the machine's key."""
    signature = keys.sign(Trust(project=project).signed_content(content))
    return SignatureStamp(key=keys.ensure_key().id, signature=format_signature(signature))


class StoredSession(Record, kw_only=True):
    """A browser's session as it is kept: found by a hash of its secret, and signed by the server that opened it.

    Whoever can write to the database but has no trusted key can open none.
    """

    caller: Caller
    until: Instant
    stamp: SignatureStamp | None = None

    def content(self, name: str) -> bytes:
        """What is signed, with the hash that it is found by."""
        return b"remand session v1\n" + name.encode() + b"\n" + _encode(replace(self, stamp=None))


def keep_session(
    ledger: Ledger,
    rules: Rules,
    shared: SharedData,
    caller: Caller,
    secret: str,
    *,
    seconds: float,
    most: int,
) -> None:
    """Opens a session for whoever brings the secret, for a while; so many of a member, or of a token, at once."""
    now, name = ledger.clock.now(), secret_hash(secret)
    session = StoredSession(caller=caller, until=add_seconds(now, seconds))
    signed = replace(session, stamp=sign_content(session.content(name), rules.project, ledger.keys))
    owner = caller.token_id or caller.member
    shared.put(SESSIONS, name, _encode(signed), owner=owner, until=session.until, now=now, most=most)


def find_session(ledger: Ledger, rules: Rules, shared: SharedData, secret: str) -> Caller | None:
    """Whose session a secret is; None when there is none, its time is over, or no server that counts has opened it."""
    now, name = ledger.clock.now(), secret_hash(secret)
    try:
        session = _decode_session(shared.get(SESSIONS, name, now) or b"")
    except msgspec.MsgspecError:
        return None
    is_signed = session.stamp is not None and session.stamp.covers(session.content(name), rules, ledger.keys)
    return session.caller if is_signed and now < session.until else None


def secret_hash(secret: str) -> str:
    """What a secret is found by: nobody who reads that has it."""
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


class LogInAttempt(NamedTuple):
    """What a log-in that was begun is recognised by when the browser comes back, which may be to another server."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str

    @classmethod
    def of(cls, secret: str, redirect_uri: str) -> LogInAttempt:
        """All of it follows from a secret that the browser alone keeps."""
        state, nonce, verifier = (derived_secret(secret, name) for name in ("state", "nonce", "verifier"))
        return cls(state, nonce, verifier, redirect_uri)


def derived_secret(secret: str, name: str) -> str:
    """Another secret that follows from one, which nobody finds out by it."""
    digest = hmac.digest(secret.encode("utf-8", "replace"), name.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_session = msgspec.json.Decoder(StoredSession).decode


class IdentityProvider(Protocol):
    """Says who people are. Its failures are `EnvironmentFault`s."""

    def authorization_url(self, attempt: LogInAttempt) -> str:
        """Where the browser is sent."""

    def account(self, code: str, attempt: LogInAttempt) -> OpenIdAccount:
        """Who has logged in, by the code that the browser brings back."""


class CreatedToken(NamedTuple):
    """A new token: its id, and its text, which is shown once and written nowhere."""

    token_id: str
    text: str
    role: str
    expires_at: Instant


def create_token(
    ledger: Ledger,
    rules: Rules,
    actor: Actor,
    *,
    member: str,
    role: TokenRole | None,
    starts: tuple[str, ...],
    expires_at: Instant,
    known_by: KnownBy = KnownBy.WORD,
) -> CreatedToken:
    """Gives a token out, and records its hash."""
    now = ledger.clock.now()
    token_id = make_id("TK", now, secrets.token_hex(4))
    text = token_text(token_id, secrets.token_urlsafe(SECRET_BYTES))
    new = decisions.NewToken(
        token_id=token_id,
        sha256=token_hash(text),
        member=member,
        role=role,
        starts=starts,
        expires_at=expires_at,
    )
    given: list[str] = []

    def decide(handler: RequestHandler, _: object) -> None:
        known = signed_tokens(handler.tx, ledger.verifier(handler.tx)).tokens
        event = decisions.create_token(new, actor, team=rules.team, tokens=known, now=now)
        handler.record_events([event], actor, known_by)
        given.append(event.role)

    ledger.change_log(decide)
    return CreatedToken(token_id, text, given[0], expires_at)


def revoke_token(
    ledger: Ledger, actor: Actor, token_id: str, reason: str, known_by: KnownBy = KnownBy.WORD
) -> None:
    """Revokes a token; one that is revoked already stays so."""

    def decide(handler: RequestHandler, _: object) -> None:
        known = signed_tokens(handler.tx, ledger.verifier(handler.tx)).tokens
        event = decisions.revoke_token(token_id, reason, actor, known)
        if event is not None:
            handler.record_events([event], actor, known_by)

    ledger.change_log(decide)


def visible_tokens(ledger: Ledger, actor: Actor) -> list[Token]:
    """The tokens that somebody may see, by id: the user all, a member its own."""
    with ledger.store.read() as view:
        found = signed_tokens(view, ledger.verifier(view)).tokens
    return sorted((token for token in found.values() if decisions.may_see_token(token, actor)), key=_token_id)


def _token_id(token: Token) -> str:
    return token.id
