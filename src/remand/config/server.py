"""The `[server]` table: where people find the server, how often a token may call, and who says who people are."""

from __future__ import annotations

from typing import Any

from remand.config.values import NAME, ConfigError, count, require_known_keys, table, text
from remand.domain.record import Record

_SERVER = ("url", "calls_per_second", "oidc")
_OIDC = ("issuer", "client_id")
MAX_RATE = 100_000


class OpenIdSettings(Record, kw_only=True):
    """The OpenID Connect provider. Its client secret comes from the environment (`REMAND_OIDC_SECRET`)."""

    issuer: str
    client_id: str


class ServerSettings(Record, kw_only=True):
    """What the base says of the server."""

    url: str = ""
    """Its address as browsers see it; empty: as they call it."""
    calls_per_second: int = 100
    """How often a member's token may call. Hosts, workers and the user may twenty times as often."""
    oidc: OpenIdSettings | None = None


def parse_server(data: dict[str, Any]) -> ServerSettings:
    """The table. Raises `ConfigError`."""
    require_known_keys(data, _SERVER, "server.")
    return ServerSettings(
        url=_address(data.get("url", ""), "server.url") if "url" in data else "",
        calls_per_second=count(data.get("calls_per_second", 100), "server.calls_per_second", most=MAX_RATE),
        oidc=_openid(table(data, "oidc", "server.")) if "oidc" in data else None,
    )


def _openid(data: dict[str, Any]) -> OpenIdSettings:
    require_known_keys(data, _OIDC, "server.oidc.")
    client_id = text(data.get("client_id", ""), "server.oidc.client_id")
    if not client_id:
        raise ConfigError(f"{NAME}: `server.oidc.client_id` is missing; the provider gives one for Remand.")
    return OpenIdSettings(issuer=_address(data.get("issuer", ""), "server.oidc.issuer"), client_id=client_id)


def _address(value: Any, key: str) -> str:
    found = text(value, key)
    scheme, has_mark, rest = found.partition("://")
    host = rest.partition("/")[0]
    is_here = host.partition(":")[0] in ("localhost", "127.0.0.1") or host.startswith("[::1]")
    is_plain = found.isascii() and found.isprintable() and not set("@?#\\ ") & set(found)
    if not (has_mark and host and is_plain and (scheme == "https" or (scheme == "http" and is_here))):
        raise ConfigError(
            f"{NAME}: `{key}` must be an address with https://; http:// is for this machine alone."
        )
    return found.rstrip("/") if key == "server.url" else found
