"""Addresses of databases as they are given on the command line."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from remand.app.errors import UsageError

_SECRETS = ("password", "sslpassword")


def require_no_password(address: str, option: str) -> None:
    """Refuses a password in an option: every process of the machine can read it there."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return  # no address at all, which whoever opens it says
    if parts.password or any(name in _SECRETS for name, _ in parse_qsl(parts.query)):
        raise UsageError(
            f"{option} has a password in it, which every process of this machine can read. Leave it out, and put it into "
            "~/.pgpass or PGPASSWORD, or the whole address into REMAND_STORE."
        )
