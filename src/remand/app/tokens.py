"""The tokens by the signed events of the log: created, revoked, and looked up for callers of the server."""

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
from remand.app.events.task_folds import verified_task_events
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
"""The kind under which browser sessions are stored."""
LOOK_AGAIN_SECONDS = 0.5
"""How long a process may take to notice that another one has revoked a token."""
COMPARE_SECONDS = 30.0
"""How often the lines about tokens are compared with those that were read, although none was added or removed."""


class SignedTokens(NamedTuple):
    """The tokens with verified signatures, and the missing lines about tokens."""

    tokens: Mapping[str, Token]
    missing: tuple[MissingLines, ...]


def signed_tokens(tx: Transaction, verifier: Verifier) -> SignedTokens:
    """The tokens. A row without a signed event, or of a void event, does not count."""
    events = verified_task_events(tx, TOKENS, verifier)
    return SignedTokens(fold_tokens(events.events), events.missing)


class TokenLookup:
    """Identifies callers by their tokens, as last read. Verified events are reused while the lines are unchanged."""

    def __init__(self) -> None:
        self._found = SignedTokens({}, ())
        self._source: tuple[object, ...] = ()
        """A value for the lines and the trust from which the tokens were read."""
        self._counts: tuple[object, ...] = ()
        """How many lines there were, and the trust."""
        self._compared_at = float("-inf")
        self._team = Team()
        self._clock: Clock | None = None
        self.read_at = float("-inf")
        """When the log was last read, by `time.monotonic`."""

    @property
    def is_due(self) -> bool:
        """True if the log must be read again before a caller is admitted."""
        return time.monotonic() - self.read_at >= LOOK_AGAIN_SECONDS

    def forget(self) -> None:
        """Makes the next call read the log again, because this process may have changed it."""
        self.read_at = float("-inf")

    def may_be_new(self, text: str) -> bool:
        """True for a text in the form of a token that was unknown when the log was read: another process may have created it."""
        token_id = parse_token_id(text)
        return bool(token_id) and token_id not in self._found.tokens

    def read(self, ledger: Ledger, team: Team) -> None:
        """Reads the tokens from the log, and the current team."""
        read_at = time.monotonic()
        with ledger.store.read() as view:
            verifier = ledger.verifier(view)
            counts = (view.events.count(TOKENS), view.events.count(VOIDS), verifier.trust_text)
            if counts != self._counts or read_at - self._compared_at >= COMPARE_SECONDS:
                self._compare(view, verifier)
                self._counts, self._compared_at = counts, read_at
        self._team, self._clock, self.read_at = team, ledger.clock, read_at

    def _compare(self, view: Transaction, verifier: Verifier) -> None:
        """Reads the lines, and verifies them unless they are the same."""
        events = (sorted(view.events.of_task(kind)) for kind in (TOKENS, VOIDS))
        groups = sorted(one.line for one in view.groups.of_task(TOKENS))
        source = (*events, groups, verifier.trust_text)
        if source != self._source:
            self._found, self._source = signed_tokens(view, verifier), source

    def caller(self, text: str) -> Caller:
        """The caller with a token; refuses an invalid one."""
        require_whole_token_log(self._found.missing)
        return token_caller(find_token(self._found.tokens, text, self._now()), self._team)

    def current_caller(self, caller: Caller) -> Caller:
        """The caller of a session; refuses if its token or role no longer exists."""
        if caller.token_id:
            require_whole_token_log(self._found.missing)
            token = require_valid_token(self._found.tokens.get(caller.token_id), self._now())
            return token_caller(token, self._team)
        return require_member(caller, self._team)

    def account_caller(self, account: OpenIdAccount, role: TokenRole | None) -> Caller:
        """The caller with an account; refuses an unknown account."""
        return account_caller(account, self._team, role)

    def _now(self) -> Instant:
        return self._clock.now() if self._clock else END


class SignatureStamp(Record, kw_only=True):
    """The signature on data in a place where others can write, and its key."""

    key: str
    """The id of the signer's key."""
    signature: str

    def covers(self, content: bytes, rules: Rules, keys: Keys) -> bool:
        """True if a key that is trusted here now signed exactly this content for this project."""
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
    """A stored browser session: found by a hash of its secret, and signed by the server that opened it.

    Whoever can write to the database but has no trusted key can open none.
    """

    caller: Caller
    until: Instant
    stamp: SignatureStamp | None = None

    def content(self, name: str) -> bytes:
        """The signed content, with the hash by which it is found."""
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
    """Opens a session with a secret, for a limited time; the number for each member and each token is limited."""
    now, name = ledger.clock.now(), secret_hash(secret)
    session = StoredSession(caller=caller, until=add_seconds(now, seconds))
    signed = replace(session, stamp=sign_content(session.content(name), rules.project, ledger.keys))
    owner = caller.token_id or caller.member
    shared.put(SESSIONS, name, _encode(signed), owner=owner, until=session.until, now=now, most=most)


def find_session(ledger: Ledger, rules: Rules, shared: SharedData, secret: str) -> Caller | None:
    """The caller of the session with a secret; None if there is none, it has expired, or no trusted server opened it."""
    now, name = ledger.clock.now(), secret_hash(secret)
    try:
        session = _decode_session(shared.get(SESSIONS, name, now) or b"")
    except msgspec.MsgspecError:
        return None
    is_signed = session.stamp is not None and session.stamp.covers(session.content(name), rules, ledger.keys)
    return session.caller if is_signed and now < session.until else None


def secret_hash(secret: str) -> str:
    """The hash of a secret, which does not reveal it."""
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


class LogInAttempt(NamedTuple):
    """The values by which a log-in is recognised when the browser returns, perhaps to another server."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str

    @classmethod
    def of(cls, secret: str, redirect_uri: str) -> LogInAttempt:
        """Derives all values from a secret that only the browser has."""
        state, nonce, verifier = (derived_secret(secret, name) for name in ("state", "nonce", "verifier"))
        return cls(state, nonce, verifier, redirect_uri)


def derived_secret(secret: str, name: str) -> str:
    """Another secret that is derived from one and does not reveal it."""
    digest = hmac.digest(secret.encode("utf-8", "replace"), name.encode(), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_session = msgspec.json.Decoder(StoredSession).decode


class IdentityProvider(Protocol):
    """Identifies people. Raises `EnvironmentFault`."""

    def authorization_url(self, attempt: LogInAttempt) -> str:
        """The address to which the browser is sent."""

    def account(self, code: str, attempt: LogInAttempt) -> OpenIdAccount:
        """The account that has logged in, by the code with which the browser returns."""


class CreatedToken(NamedTuple):
    """A new token: its id, and its text, which is shown once and not stored."""

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
    """Issues a token, and records its hash."""
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
    """Revokes a token; a revoked one stays revoked."""

    def decide(handler: RequestHandler, _: object) -> None:
        known = signed_tokens(handler.tx, ledger.verifier(handler.tx)).tokens
        event = decisions.revoke_token(token_id, reason, actor, known)
        if event is not None:
            handler.record_events([event], actor, known_by)

    ledger.change_log(decide)


def visible_tokens(ledger: Ledger, actor: Actor) -> list[Token]:
    """The tokens that an actor may see, by id: the user sees all, a member its own."""
    with ledger.store.read() as view:
        found = signed_tokens(view, ledger.verifier(view)).tokens
    return sorted((token for token in found.values() if decisions.may_see_token(token, actor)), key=_token_id)


def _token_id(token: Token) -> str:
    return token.id
