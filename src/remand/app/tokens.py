"""Tokens as the signed events of the log make them: created, revoked, and looked up for whoever calls the server."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping

from remand.app.events.signatures import Verifier
from remand.app.events.task_folds import signed_task_events, signed_voids
from remand.app.handler import RequestHandler
from remand.app.ledger import Ledger
from remand.app.requests import Rules
from remand.domain.access.team import Actor
from remand.domain.access.tokens import (
    SECRET_BYTES,
    Caller,
    Token,
    TokenRole,
    find_token,
    fold_tokens,
    require_whole_token_log,
    token_caller,
    token_hash,
    token_text,
)
from remand.domain.decisions import tokens as decisions
from remand.domain.events.event import KnownBy
from remand.domain.events.log import TOKENS, VOIDS, MissingLines
from remand.domain.ids import make_id
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.ledger.store import Transaction

LOOK_AGAIN_SECONDS = 0.5
"""How long a process may not know of a token that another one has revoked."""


class SignedTokens(NamedTuple):
    """The tokens that verified signatures cover, and the lines about tokens that are missing."""

    tokens: Mapping[str, Token]
    missing: tuple[MissingLines, ...]


def signed_tokens(tx: Transaction, verifier: Verifier) -> SignedTokens:
    """The tokens. What a table says without a signed event, or of an event that is void, does not count."""
    found = signed_task_events(tx, TOKENS, verifier, signed_voids(tx, verifier), is_verified=True)
    return SignedTokens(fold_tokens(found.events), found.missing)


class TokenLookup:
    """Finds out whose a token is. What was verified is kept as long as the lines are the same."""

    def __init__(self, ledger: Ledger, rules: Callable[[], Rules]) -> None:
        self._ledger = ledger
        self._rules = rules
        self._lock = threading.Lock()
        self._found = SignedTokens({}, ())
        self._source: tuple[object, ...] = ()
        """The lines and the trust that the tokens were read from."""
        self._seen = -1
        self._looked = float("-inf")

    def caller(self, text: str) -> Caller:
        """Whom a token stands for; refuses one that does not count."""
        found = self._current()
        require_whole_token_log(found.missing)
        token = find_token(found.tokens, text, self._ledger.clock.now())
        return token_caller(token, self._rules().team)

    def _current(self) -> SignedTokens:
        with self._lock:
            seen, now = self._ledger.log_changes, time.monotonic()
            if seen != self._seen or now - self._looked >= LOOK_AGAIN_SECONDS:
                self._read()
                self._seen, self._looked = seen, now
            return self._found

    def _read(self) -> None:
        with self._ledger.store.read() as view:
            verifier = self._ledger.verifier(view)
            events = (sorted(view.events.of_task(kind)) for kind in (TOKENS, VOIDS))
            groups = sorted(one.line for one in view.groups.of_task(TOKENS))
            source = (*events, groups, verifier.trust_text)
            if source != self._source:
                self._found, self._source = signed_tokens(view, verifier), source


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
