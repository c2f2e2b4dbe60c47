"""Authenticates requests by token or browser session, and limits how often each caller may call."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from ipaddress import ip_address
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from remand.app.tokens import IdentityProvider, TokenLookup
from remand.domain.access.team import USER
from remand.domain.access.tokens import (
    MACHINES,
    Caller,
    TokenRole,
    rate_refusal,
    unauthenticated_refusal,
)
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused
from remand.interfaces.http.problems import (
    FORBIDDEN,
    HIDDEN,
    UNAVAILABLE,
    HttpProblem,
    note_hidden,
    refusal_problem,
)
from remand.interfaces.http.sessions import (
    CODE_SECONDS,
    MAX_ATTEMPTS,
    MAX_CODES,
    MAX_SESSIONS_EACH,
    BrowserSession,
    BrowserSessions,
    ExpiringSecrets,
    RateLimiter,
    address_key,
)
from remand.wiring.open_ledger import OpenLedger

SAFE_METHODS = ("GET", "HEAD")
MISDIRECTED = 421
CSRF = "x-csrf-token"
LOG_IN_SECONDS = 600.0
"""How long a log-in at the provider may take."""
FAILURES_PER_SECOND, FAILURES_AT_ONCE = 10.0, 200.0
"""How often one address may present an invalid token or code."""
ATTEMPTS_PER_SECOND, ATTEMPTS_AT_ONCE = 0.5, 20.0
"""How often one address may start a log-in at the provider; within `LOG_IN_SECONDS` well below `MAX_ATTEMPTS`."""
UNKNOWN_PER_SECOND, UNKNOWN_AT_ONCE = 50.0, 500.0
"""How often one address may cause a lookup of sessions that this server has not seen yet."""
BURST_SECONDS = 5
READ_PAUSE_SECONDS = 0.05
"""The shortest time between two reads of the log for unknown tokens: another server may just have created them."""
PRIVILEGE = 20
"""How many times the rate of other members is allowed to hosts, workers and the user."""
_BEARER = "bearer "
_FACTS = "remand.facts"
"""Where a request's scope keeps its facts: several steps of an answer need them."""
_CHALLENGE = {"www-authenticate": 'Bearer realm="remand"'}

IS_KNOWN: ContextVar[bool] = ContextVar("IS_KNOWN", default=False)
"""Whether the caller is authenticated. Answers to unauthenticated callers reveal nothing about the machine."""

ReadLedger = Callable[[Callable[[OpenLedger], None]], Awaitable[None]]
"""Runs a function with the open ledger in a thread."""


class AccessOptions(NamedTuple):
    """Who may log in to a server, and how often it may be called."""

    own_names: tuple[str, ...] = ()
    """The host names that requests may be addressed to; empty: any. Protects against DNS rebinding."""
    session_name: str = ""
    """The only host name that accepts sessions; empty: any that other servers on this machine do not share."""
    name: str = "remand"
    """Distinguishes its cookies from those of other servers on the same machine; browsers ignore the port."""
    url: str = ""
    """The server's public address; empty: the one that the request was sent to."""
    calls_per_second: int = 100
    provider: IdentityProvider | None = None
    """The provider that identifies people."""


class RequestFacts(NamedTuple):
    """The parts of a request that authentication needs."""

    headers: Mapping[str, str]
    """Keyed by lower-case name."""
    method: str = "GET"
    address: str = ""
    """The client's address."""


def request_facts(scope: Any) -> RequestFacts:
    """The facts of an ASGI request. If a header is repeated, the last value counts."""
    facts: RequestFacts | None = scope.get(_FACTS)
    if facts is None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        address = scope.get("client") or ("", 0)
        facts = scope[_FACTS] = RequestFacts(headers, str(scope.get("method", "GET")), str(address[0]))
    return facts


class Authenticator:
    """Identifies the caller of a request, and refuses unknown callers and those that call too often. For one event loop."""

    def __init__(self, read_ledger: ReadLedger, options: AccessOptions = AccessOptions()) -> None:  # noqa: B008 - a frozen value
        self._read_ledger = read_ledger
        self.options = options
        self._tokens = TokenLookup()
        self._lock = asyncio.Lock()
        self._codes: ExpiringSecrets[Caller] = ExpiringSecrets(
            CODE_SECONDS, MAX_CODES, most_each=MAX_SESSIONS_EACH
        )
        self._sessions = BrowserSessions()
        self.used_attempts: ExpiringSecrets[bool] = ExpiringSecrets(LOG_IN_SECONDS, MAX_ATTEMPTS)
        """Log-ins at the provider that were completed here, so that each is used only once."""
        rate = float(options.calls_per_second)
        self._member_calls = RateLimiter(rate, rate * BURST_SECONDS)
        self._other_calls = RateLimiter(rate * PRIVILEGE, rate * PRIVILEGE * BURST_SECONDS)
        self._failures = RateLimiter(FAILURES_PER_SECOND, FAILURES_AT_ONCE)
        self._begun = RateLimiter(ATTEMPTS_PER_SECOND, ATTEMPTS_AT_ONCE)
        self._unknown_sessions = RateLimiter(UNKNOWN_PER_SECOND, UNKNOWN_AT_ONCE)

    @property
    def cookie(self) -> str:
        """The name of the session cookie."""
        return f"{self.options.name}_session"

    def make_log_in_path(self, caller: Caller = Caller(member=USER, role=TokenRole.USER)) -> str:  # noqa: B008 - a frozen value
        """A path that logs a caller in once; by default the user."""
        return f"/login?code={self._codes.add(caller, caller.member)}"

    async def caller(self, facts: RequestFacts) -> Caller:
        """The caller of a request. Raises `HttpProblem`."""
        is_new = self._tokens.may_be_new(_bearer(facts.headers))
        await self._refresh_tokens(monotonic() if is_new else float("-inf"))
        await self._read_session(facts)
        try:
            caller = self._find_caller(facts)
        except Refused as refusal:
            raise self._failure(refusal, facts, is_guess=bool(_bearer(facts.headers))) from None
        limiter = self._other_calls if caller.role in (TokenRole.USER, *MACHINES) else self._member_calls
        seconds = limiter.take(caller.token_id or caller.member)
        if seconds:
            raise _too_many(seconds)
        IS_KNOWN.set(True)
        return caller

    async def token_caller(self, facts: RequestFacts) -> Caller:
        """The caller of a request with a token; refuses sessions. Raises `HttpProblem`."""
        if not _bearer(facts.headers):
            raise refusal_problem(unauthenticated_refusal(), _CHALLENGE)
        return await self.caller(facts)

    def require_may_begin(self, facts: RequestFacts) -> None:
        """Limits how often one address may start a log-in at the provider. Raises `HttpProblem`."""
        seconds = self._begun.take(address_key(facts.address))
        if seconds:
            raise _too_many(seconds)

    def require_own_host(self, headers: Mapping[str, str]) -> None:
        """Refuses a request that is addressed to another host name (DNS rebinding). Raises `HttpProblem`."""
        host = headers.get("host", "").casefold()
        if self.options.own_names and host not in self.options.own_names:
            raise HttpProblem(
                MISDIRECTED,
                "wrong_host",
                "This server does not answer under that name. Where it was started again, open the link that it printed.",
            )

    def takes_sessions(self, headers: Mapping[str, str]) -> bool:
        """True when sessions are accepted under the host name that a request was sent to.

        Browsers send a cookie to every port of a host: under `127.0.0.1` any local program that listens would receive it.
        """
        host = headers.get("host", "").casefold()
        return host == self.options.session_name if self.options.session_name else not is_shared_name(host)

    def require_session_name(self, headers: Mapping[str, str]) -> None:
        """Refuses a log-in under a host name for which sessions are not accepted, without revealing the accepted one."""
        if not self.takes_sessions(headers):
            raise HttpProblem(
                MISDIRECTED,
                "wrong_host",
                "Nobody logs in under this name: other servers have it, too. Use the link that the server printed.",
            )

    async def open_session(self, caller: Caller, headers: Mapping[str, str], *, is_secure: bool) -> str:
        """Opens a session and returns its cookie. Raises `HttpProblem`."""
        self.require_session_name(headers)
        made: list[str] = []
        await self._read_ledger(lambda opened: made.append(self._sessions.open(opened, caller)))
        return cookie_text(self.cookie, made[0], is_secure=is_secure)

    async def close_session(self, headers: Mapping[str, str]) -> None:
        """Ends a browser's session."""
        secret = read_cookie(headers, self.cookie)
        await self._read_ledger(lambda opened: self._sessions.close(opened, secret))

    def session(self, headers: Mapping[str, str]) -> BrowserSession | None:
        """The browser session of a request that `caller` accepted; None if there is none."""
        return self._sessions.find(self._session_secret(headers))

    def _session_secret(self, headers: Mapping[str, str]) -> str:
        return read_cookie(headers, self.cookie) if self.takes_sessions(headers) else ""

    async def _read_session(self, facts: RequestFacts) -> None:
        """Reads the request's session from the ledger unless it was read recently. Raises `HttpProblem`."""
        secret = "" if _bearer(facts.headers) else self._session_secret(facts.headers)
        if not secret or not self._sessions.is_due(secret):
            return
        if self._sessions.find(secret) is None:
            # Anyone can send something that looks like a session, so lookups of unknown ones are rate-limited.
            seconds = self._unknown_sessions.take(address_key(facts.address))
            if seconds:
                raise _too_many(seconds)
        await self._read_ledger(lambda opened: self._sessions.read(opened, secret))

    def take_code(self, code: str, facts: RequestFacts) -> Caller:
        """Uses up a log-in code and returns its caller. Raises `HttpProblem`."""
        self.require_session_name(facts.headers)
        found = self._codes.take(code)
        if found is None:
            raise self._failure(unauthenticated_refusal(), facts)
        return found

    async def account_caller(self, log_in: Callable[[TokenLookup], Caller], facts: RequestFacts) -> Caller:
        """The caller who logs in with an account of the provider. Raises `HttpProblem`."""
        await self._refresh_tokens()
        try:
            return log_in(self._tokens)
        except Refused as refusal:
            raise self._failure(refusal, facts) from None

    def note_words(self, words: Collection[str]) -> None:
        """Forgets the cached tokens after a command that may have changed them."""
        if "token" in words:
            self._tokens.forget()

    def _find_caller(self, facts: RequestFacts) -> Caller:
        given = _bearer(facts.headers)
        if given:
            return self._tokens.caller(given)
        session = self.session(facts.headers)
        if session is None:
            raise unauthenticated_refusal()
        _require_own_page(session, facts)
        return self._tokens.current_caller(session.caller)

    async def _refresh_tokens(self, since: float = float("-inf")) -> None:
        """Reads the tokens unless they were read recently and after `since`; concurrent requests share one read."""
        if not self._is_behind(since):
            return
        async with self._lock:
            if self._is_behind(since):
                # Anyone can send something that looks like a token, so such reads are spaced out.
                await asyncio.sleep(
                    min(READ_PAUSE_SECONDS, self._tokens.read_at + READ_PAUSE_SECONDS - monotonic())
                )
                await self._read_ledger(
                    lambda opened: self._tokens.read(opened.ledger, opened.settings.rules().team)
                )

    def _is_behind(self, since: float) -> bool:
        return self._tokens.is_due or self._tokens.read_at < since

    def _failure(self, refusal: Refused, facts: RequestFacts, *, is_guess: bool = True) -> HttpProblem:
        """The answer to an unknown caller. A request without credentials, or with an expired session, is not a guess."""
        if refusal.code == "lines_missing":
            note_hidden(refusal)
            return HttpProblem(UNAVAILABLE, refusal.code, HIDDEN)
        seconds = self._failures.take(address_key(facts.address)) if is_guess else 0.0
        return _too_many(seconds) if seconds else refusal_problem(refusal, _CHALLENGE)


def _too_many(seconds: float) -> HttpProblem:
    return refusal_problem(rate_refusal(seconds), {"retry-after": str(max(1, round(seconds)))})


def _require_own_page(session: BrowserSession, facts: RequestFacts) -> None:
    """Refuses a cross-site request that changes something (CSRF)."""
    if facts.method in SAFE_METHODS:
        return
    given = facts.headers.get(CSRF, "")
    if not is_from_own_page(facts) or not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise HttpProblem(
            FORBIDDEN,
            "wrong_page",
            "Send the text of GET /api/session in X-CSRF-Token, from the server's own page.",
        )


def is_from_own_page(facts: RequestFacts) -> bool:
    """True unless the browser says that another site's page made the request."""
    origin, site = facts.headers.get("origin", ""), facts.headers.get("sec-fetch-site", "same-origin")
    is_own = not origin or urlsplit(origin).netloc.casefold() == facts.headers.get("host", "").casefold()
    return is_own and site == "same-origin"


def is_shared_name(host: str) -> bool:
    """True for host names that all servers on this machine share."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _bearer(headers: Mapping[str, str]) -> str:
    value = headers.get("authorization", "")
    return value[len(_BEARER) :].strip() if value[: len(_BEARER)].lower() == _BEARER else ""


def read_cookie(headers: Mapping[str, str], name: str) -> str:
    """The value of a cookie, the last if there are several; empty if there is none.

    Other cookies are ignored, whatever their format: other sites of the same domain may have set them.
    """
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return next((value for own, _, value in reversed([*pairs]) if own == name), "")


def cookie_text(
    name: str, value: str, *, is_secure: bool, site: str = "Strict", seconds: int = 43_200
) -> str:
    """A `Set-Cookie` value; scripts cannot read the cookie."""
    secure = "; Secure" if is_secure else ""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite={site}{secure}"
