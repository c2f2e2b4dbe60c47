"""HTTP requests to a forge, with size limits, rate limits, and every failure as a ForgeFault."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple, Protocol
from urllib.parse import urljoin, urlsplit

import httpx2
import msgspec

from remand.app.errors import EnvironmentFault
from remand.app.forge.ports import AnswerCache, CachedAnswer, ForgeFault, ForgeFaultKind
from remand.app.ports import Clock
from remand.domain.instant import Instant, add_seconds, format_instant, is_instant, seconds_between

MAX_ANSWER = 16 << 20
SECONDS = 30.0
MAX_HOPS = 3
REDIRECTS = (301, 302, 307, 308)


class ForgeReply(NamedTuple):
    """An HTTP answer, whatever its status."""

    status: int
    headers: Mapping[str, str]
    """Keyed by lower-case name."""
    body: bytes


class Transport(Protocol):
    """Sends requests to a forge."""

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> ForgeReply:
        """The answer; raises `ForgeFault` if there is none."""

    def close(self) -> None:
        """Closes the connections."""


class HttpTransport:
    """Sends requests to one origin only: neither links nor redirects lead elsewhere."""

    def __init__(self, api: str, seconds: float = SECONDS) -> None:
        self._origin = origin_of(api)
        if self._origin is None:
            raise EnvironmentFault(
                f"{api} is not the address of a forge. Use https://…; http is allowed only on this machine."
            )
        self._seconds = seconds
        # Plain http stays on this machine: no proxy from the environment, and no CA certificates, which are slow to load.
        is_encrypted = self._origin[0] == "https"
        self._client = httpx2.AsyncClient(
            timeout=seconds, follow_redirects=False, verify=is_encrypted, trust_env=is_encrypted
        )
        # Only an event loop can limit the time of a whole exchange, however slowly data arrives.
        self._runner = asyncio.Runner()

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> ForgeReply:
        """The answer, after following redirects within the origin."""
        try:
            return self._runner.run(self._send(method, url, headers, body))
        except (httpx2.DecodingError, httpx2.InvalidURL, UnicodeError) as error:
            raise ForgeFault(
                ForgeFaultKind.GARBLED, f"The forge's answer cannot be read ({type(error).__name__})."
            ) from None
        except (TimeoutError, httpx2.TimeoutException):
            raise ForgeFault(
                ForgeFaultKind.UNREACHABLE, f"The forge did not answer within {self._seconds:g} s."
            ) from None
        except (httpx2.HTTPError, OSError) as error:
            raise ForgeFault(
                ForgeFaultKind.UNREACHABLE, f"The forge cannot be reached ({type(error).__name__})."
            ) from None

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> ForgeReply:
        async with asyncio.timeout(self._seconds):
            for _ in range(MAX_HOPS):
                if origin_of(url) != self._origin:
                    raise ForgeFault(
                        ForgeFaultKind.GARBLED, "The forge redirects to another host; Remand does not follow."
                    )
                async with self._client.stream(method, url, headers=dict(headers), content=body) as response:
                    content = bytearray()
                    async for part in response.aiter_bytes():
                        content += part
                        if len(content) > MAX_ANSWER:
                            raise ForgeFault(
                                ForgeFaultKind.GARBLED,
                                f"The forge's answer is longer than {MAX_ANSWER >> 20} MB.",
                            )
                    named = {name.lower(): value for name, value in response.headers.items()}
                if response.status_code not in REDIRECTS:
                    return ForgeReply(response.status_code, named, bytes(content))
                url = urljoin(url, named.get("location", ""))
        raise ForgeFault(ForgeFaultKind.GARBLED, f"The forge redirects more than {MAX_HOPS} times.")

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()


def origin_of(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for a URL to which no token may be sent."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(host))
    if not is_safe or not host or parts.username is not None:
        return None
    return parts.scheme, host.casefold(), port or (443 if parts.scheme == "https" else 80)


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


PAUSE = 60.0
"""The seconds to wait if the forge does not say; doubled with each consecutive limit."""
WINDOW = 3600.0
"""No primary limit lasts longer, even if the two clocks differ."""
LONGEST = 24 * 3600.0
WORDS = ("rate limit", "abuse detection", "too many requests")


class RateLimits:
    """Remembers a rate limit, also across processes, and refuses every request while it is in force."""

    def __init__(self, clock: Clock, memory: AnswerCache, address: str) -> None:
        self._clock, self._memory = clock, memory
        self._address = f"{address}#limited"
        self._in_a_row = 0
        kept = memory.get(self._address)
        self._until: Instant = kept.body if kept is not None and is_instant(kept.body) else ""

    def check(self) -> None:
        """Raises a fault while a limit is in force."""
        if self._until and self._clock.now() < self._until:
            raise self.fault()

    def fault(self) -> ForgeFault:
        return ForgeFault(
            ForgeFaultKind.LIMITED,
            f"The forge's rate limit is used up; Remand retries at {self._until}.",
            self._until,
        )

    def note_limit(self, reply: ForgeReply) -> ForgeFault:
        """Records a limit that an answer reports, and returns the fault."""
        self._set_pause(pause_seconds(reply, self._clock.now(), self._in_a_row))
        self._in_a_row += 1
        return self.fault()

    def note_reply(self, reply: ForgeReply) -> None:
        """Records an answer that may be the last one that the limit allows."""
        self._in_a_row = 0
        if is_quota_empty(reply):
            self._set_pause(pause_seconds(reply, self._clock.now(), 0))

    def _set_pause(self, seconds: float) -> None:
        self._until = add_seconds(self._clock.now(), seconds)
        self._memory.put(self._address, CachedAnswer(etag="", body=self._until))


def is_rate_limited(reply: ForgeReply, message: str) -> bool:
    """True if an answer reports a limit: 429, or a 403 with one of the known indications."""
    if reply.status == 429:
        return True
    words = message.casefold()
    return reply.status == 403 and (
        "retry-after" in reply.headers or is_quota_empty(reply) or any(word in words for word in WORDS)
    )


def is_quota_empty(reply: ForgeReply) -> bool:
    """True if nothing remains of the primary limit."""
    return _header(reply, "remaining") == "0"


def pause_seconds(reply: ForgeReply, now: Instant, in_a_row: int) -> float:
    """The seconds to wait: as the forge says, else until the limit resets, else longer with each consecutive limit."""
    retry_after = _retry_after(reply.headers.get("retry-after", ""), now)
    if retry_after is not None:
        return min(max(retry_after, 1.0), LONGEST)
    reset = _seconds(_header(reply, "reset"))
    if is_quota_empty(reply) and reset is not None:
        left = reset - _epoch(now)
        return min(left, WINDOW) if left > 0 else PAUSE
    return min(PAUSE * 2.0 ** min(in_a_row, 10), WINDOW)


def _header(reply: ForgeReply, name: str) -> str:
    return reply.headers.get(f"x-ratelimit-{name}", reply.headers.get(f"ratelimit-{name}", ""))


def _retry_after(text: str, now: Instant) -> float | None:
    """The value of Retry-After in seconds, whether given as seconds or a date; None if it is neither."""
    seconds = _seconds(text)
    if seconds is not None or not text:
        return seconds
    try:
        when = format_instant(parsedate_to_datetime(text))
    except (ValueError, OverflowError):
        return None
    return seconds_between(now, when)


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _epoch(value: Instant) -> float:
    return datetime.fromisoformat(value[:-1]).replace(tzinfo=UTC).timestamp()


MAX_MESSAGE = 200


def status_fault(
    reply: ForgeReply, forge: str, token_name: str, message: str, path: str
) -> ForgeFault | None:
    """The fault for an error status of a request to that path; None below 400."""
    why = f"{reply.status}: {message}" if message else f"{reply.status}"
    if reply.status < 400:
        return None
    if reply.status >= 500:
        return ForgeFault(
            ForgeFaultKind.UNREACHABLE, f"{forge} reported an internal error ({why}); Remand retries later."
        )
    if reply.status == 401:
        return ForgeFault(
            ForgeFaultKind.DENIED,
            f"{forge} rejects the token ({why}). Set {token_name} to one that is valid and may read the "
            "repository's pull requests.",
        )
    if reply.status == 403:
        return ForgeFault(
            ForgeFaultKind.DENIED,
            f"{forge} does not allow this ({why}). Give the token of {token_name} the right to read pull requests, "
            "and to write what is configured.",
        )
    if reply.status in (404, 410):
        return ForgeFault(
            ForgeFaultKind.MISSING,
            f"{forge} has nothing at {path} ({why}), or not for the token of {token_name}.",
        )
    return ForgeFault(ForgeFaultKind.REFUSED, f"{forge} refuses ({why}).")


def error_text(reply: ForgeReply, *secrets: str) -> str:
    """The message in an error's body, short, printable and without secrets; empty if there is none."""
    try:
        body = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    fields = body if isinstance(body, dict) else {}
    errors = fields.get("errors")
    parts = [fields.get("message"), *(errors if isinstance(errors, list) else [errors])]
    texts = [part.get("message") if isinstance(part, dict) else part for part in parts]
    return printable_text(": ".join(text for text in texts if isinstance(text, str)), *secrets)


def printable_text(text: str, *secrets: str) -> str:
    """A forge's text on one line, without secrets and unprintable characters."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "…")
    return "".join(sign if sign.isprintable() else " " for sign in text[:MAX_MESSAGE])
