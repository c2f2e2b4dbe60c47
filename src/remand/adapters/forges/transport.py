"""The way to a forge over HTTP: one origin, bounded answers, a token that goes nowhere else."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from urllib.parse import urljoin, urlsplit

import httpx2

from remand.app.errors import EnvironmentFault
from remand.app.forges.ports import ForgeFault, Trouble

MAX_ANSWER = 16 << 20
SECONDS = 30.0
MAX_HOPS = 3
REDIRECTS = (301, 302, 307, 308)


class Reply(NamedTuple):
    """What was answered, whatever it is."""

    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes


class Transport(Protocol):
    """Carries one request to a forge and its answer back."""

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The answer; a `ForgeFault` when there is none."""

    async def close(self) -> None:
        """Lets go of connections."""


class HttpTransport:
    """Asks one origin, and no other: neither a link nor a redirect leads a request away from it."""

    def __init__(self, api: str, seconds: float = SECONDS) -> None:
        self._origin = origin_of(api)
        if self._origin is None:
            raise EnvironmentFault(
                f"{api} is no address of a forge. It is https://…; http is taken on this machine alone."
            )
        self._seconds = seconds
        # Plain http stays on this machine: no proxy of the environment's, and no authorities, which take a while to load.
        is_encrypted = self._origin[0] == "https"
        self._client = httpx2.AsyncClient(
            timeout=seconds, follow_redirects=False, verify=is_encrypted, trust_env=is_encrypted
        )

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The answer, after redirects within the origin."""
        try:
            async with asyncio.timeout(self._seconds):
                for _ in range(MAX_HOPS):
                    reply = await self._sent(method, url, headers, body)
                    if reply.status not in REDIRECTS:
                        return reply
                    url = urljoin(url, reply.headers.get("location", ""))
        except (httpx2.DecodingError, httpx2.InvalidURL, UnicodeError) as error:
            raise ForgeFault(
                Trouble.GARBLED, f"The forge's answer cannot be read ({type(error).__name__})."
            ) from None
        except (TimeoutError, httpx2.TimeoutException):
            raise ForgeFault(
                Trouble.UNREACHABLE, f"The forge did not answer within {self._seconds:g} s."
            ) from None
        except (httpx2.HTTPError, OSError) as error:
            raise ForgeFault(
                Trouble.UNREACHABLE, f"The forge cannot be reached ({type(error).__name__})."
            ) from None
        raise ForgeFault(Trouble.GARBLED, f"The forge redirects more than {MAX_HOPS} times.")

    async def _sent(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        if origin_of(url) != self._origin:
            raise ForgeFault(Trouble.GARBLED, "The forge leads to another host; it is not followed.")
        async with self._client.stream(method, url, headers=dict(headers), content=body) as response:
            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MAX_ANSWER:
                    raise ForgeFault(
                        Trouble.GARBLED, f"The forge's answer is longer than {MAX_ANSWER >> 20} MB."
                    )
            named = {name.lower(): value for name, value in response.headers.items()}
            return Reply(response.status_code, named, bytes(content))

    async def close(self) -> None:
        """Lets go of connections."""
        await self._client.aclose()


def origin_of(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None for what may not be asked."""
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
