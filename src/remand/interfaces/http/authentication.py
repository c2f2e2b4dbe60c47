"""Who makes a request: by the session of a browser that followed the log-in link, or by a token."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from remand.domain.access.team import USER
from remand.domain.access.tokens import Caller, TokenRole, require_call
from remand.interfaces.cli.registry import CommandCall
from remand.interfaces.http.commands import CHANGES as ACTS_BY_NAME
from remand.interfaces.http.problems import UNAUTHENTICATED, HttpProblem

COOKIE = "remand_session"
_BEARER = "bearer "


class Authenticator:
    """Says whose request it is. On the embedded server that is the user, by a link that works once."""

    def __init__(self) -> None:
        self._login_code = secrets.token_urlsafe(24)
        self._session = secrets.token_urlsafe(32)

    @property
    def login_path(self) -> str:
        """The address that logs the user in, once."""
        return f"/login?code={self._login_code}"

    def log_in(self, code: str) -> str:
        """The session for a log-in code, which is used up by it. Raises `HttpProblem`."""
        is_right = bool(self._login_code) and hmac.compare_digest(code.encode(), self._login_code.encode())
        if not is_right:
            raise HttpProblem(
                UNAUTHENTICATED,
                "not_authenticated",
                "The log-in link was used already, or is not whole. Start `remand serve` again for a new one.",
            )
        self._login_code = ""
        return self._session

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Who makes a request with these headers (their names in lower case). Raises `HttpProblem`."""
        given = _bearer(headers) or _session(headers)
        if given and hmac.compare_digest(given.encode(), self._session.encode()):
            return Caller(member=USER, role=TokenRole.USER)
        raise HttpProblem(
            UNAUTHENTICATED,
            "not_authenticated",
            "Send a token as `Authorization: Bearer TOKEN`, or follow the log-in link of `remand serve`.",
            {"www-authenticate": 'Bearer realm="remand"'},
        )


def _bearer(headers: Mapping[str, str]) -> str:
    value = headers.get("authorization", "")
    return value[len(_BEARER) :].strip() if value[: len(_BEARER)].lower() == _BEARER else ""


def _session(headers: Mapping[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def acting_name(caller: Caller, call: CommandCall, values: object) -> str:
    """As whom a call acts; refuses a command that is not the caller's to give, and a name that is not the caller's."""
    require_call(caller, call.command)
    options = ("agent", "reviewer") if call.command in ACTS_BY_NAME else ()
    names = [call.actor, *(str(getattr(values, option, "") or "") for option in options)]
    for name in names:
        caller.acting_name(name)
    return next(filter(None, reversed(names)), caller.member)
