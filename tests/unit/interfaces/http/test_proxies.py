"""Of a proxy's headers counts what the proxy itself wrote; the rest of them anybody can write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from remand.interfaces.http.server import ProxiedRequests


def seen(proxies: int, *headers: tuple[str, str]) -> tuple[str, str]:
    """Where a request comes from, and by which scheme, as the application sees it."""
    found: list[Any] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        found.append(scope)

    scope: dict[str, Any] = {"type": "http", "scheme": "http", "client": ("10.0.0.1", 4000)}
    scope["headers"] = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    nothing: Any = None
    asyncio.run(ProxiedRequests(app, proxies)(scope, nothing, nothing))
    return found[0]["client"][0], found[0]["scheme"]


@pytest.mark.parametrize(
    ("proxies", "said", "address"),
    [
        (1, ["192.0.2.7"], "192.0.2.7"),
        (1, ["203.0.113.9, 192.0.2.7"], "192.0.2.7"),
        (1, ["203.0.113.9", "192.0.2.7"], "192.0.2.7"),
        (2, ["203.0.113.9, 192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        (2, ["192.0.2.7"], "10.0.0.1"),
        (1, [], "10.0.0.1"),
        (1, ["203.0.113.9, nonsense"], "10.0.0.1"),
        (1, [""], "10.0.0.1"),
        (1, ["192.0.2.7:5123"], "192.0.2.7"),
        (1, ["[2001:db8::1]:5123"], "2001:db8::1"),
        (1, ["2001:db8::1"], "2001:db8::1"),
        (0, ["192.0.2.7"], "10.0.0.1"),
    ],
)
def test_the_address_is_the_one_that_the_outermost_proxy_wrote(
    proxies: int, said: list[str], address: str
) -> None:
    assert seen(proxies, *(("x-forwarded-for", one) for one in said))[0] == address


@pytest.mark.parametrize(
    ("said", "scheme"), [("https", "https"), ("http, https", "https"), ("gopher", "http"), ("", "http")]
)
def test_the_scheme_is_the_one_that_the_proxy_wrote(said: str, scheme: str) -> None:
    assert seen(1, ("x-forwarded-proto", said))[1] == scheme
