"""What the proxies before a server say of a request: where it comes from, and whether by TLS."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from litestar.types import Receive, Send

_SCHEMES = ("http", "https")


class ProxiedRequests:
    """An application behind so many proxies.

    Each proxy adds to the right of `X-Forwarded-For` whom it was called by. What stands further left than the outermost of
    them wrote was sent by the caller, who can write anything there.
    """

    def __init__(self, app: Any, proxies: int) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._proxies:
            addresses = _values(scope, b"x-forwarded-for")
            address = _address(addresses[-self._proxies]) if len(addresses) >= self._proxies else ""
            # A proxy that has no TLS itself may leave the scheme as the one before it said: there can be fewer of them.
            schemes = _values(scope, b"x-forwarded-proto")[-self._proxies :]
            scheme = schemes[0] if schemes and schemes[0] in _SCHEMES else scope["scheme"]
            scope = {**scope, "scheme": scheme, "client": (address, 0) if address else scope["client"]}
        await self._app(scope, receive, send)


def _values(scope: Any, name: bytes) -> list[str]:
    """The values of a header that is a list, which may be given several times."""
    given = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return [part.strip() for part in ",".join(given).split(",")] if given else []


def _address(text: str) -> str:
    """An address without its port; empty when it is none."""
    try:
        return str(ip_address(text))
    except ValueError:
        pass
    try:
        return str(ip_address(urlsplit(f"//{text}").hostname or ""))
    except ValueError:
        return ""
