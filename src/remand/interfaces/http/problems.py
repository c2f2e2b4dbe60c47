"""Problem details (RFC 9457) for requests that were not carried out, with the command line's refusal codes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from remand.domain.refusals import MEANINGS, Refused
from remand.interfaces.http.sessions import RateLimiter

BAD_REQUEST, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND, CONFLICT = 400, 401, 403, 404, 409
UNPROCESSABLE, TOO_MANY, UNAVAILABLE = 422, 429, 503
MEDIA_TYPE = "application/problem+json"
HIDDEN = "The server cannot answer this now. Its log says why."
"""The detail for unauthenticated callers: the real message may name files, sockets and addresses of the machine."""
_log = logging.getLogger("remand.http")
_log_lines = RateLimiter(rate=0.1, burst=10.0)
"""Keeps unauthenticated callers from filling the log."""

_STATUSES = {
    UNAUTHENTICATED: "not_authenticated",
    FORBIDDEN: "locked_out not_authorised not_eligible not_yours out_of_scope own_work policy_off user_only",
    NOT_FOUND: "unknown_commit unknown_handoff unknown_rejection unknown_task unknown_token",
    UNPROCESSABLE: (
        "ambiguous_id bad_value closes_cycle gate_rejected invalid_rejection not_understood unsure vacuous_approval"
    ),
    TOO_MANY: "too_many_calls",
    UNAVAILABLE: "clock_ahead key_not_trusted",
}
STATUS_OF_REFUSAL: Mapping[str, int] = {
    code: status for status, codes in _STATUSES.items() for code in codes.split()
}
"""The HTTP status of each refusal; all others are 409."""
TITLES = {
    "bad_request": "The request does not fit the command.",
    "not_found": "There is nothing at this address.",
    "method_not_allowed": "This address does not accept this method.",
    "too_large": "The request is too large.",
    "too_slow": "The request, or its answer, took too long.",
    "wrong_host": "The request was sent to a name that is not this server's.",
    "wrong_page": "A page of another site may have made a logged-in browser send this request.",
    "unavailable": "The server cannot carry out the command now.",
    "failed": "The server failed. Its log says how.",
}
"""Titles of problems that are not refusals of a command."""


SHOWS_FILES = frozenset({"gate report"})
"""Commands that show a file of the server's machine: an environment error there means that the file does not exist."""


def note_hidden(error: Exception) -> None:
    """Logs the error that is hidden from an unauthenticated caller."""
    if not _log_lines.take(""):
        _log.error("a request was not answered: %r", str(error))


class HttpProblem(Exception):  # noqa: N818 - what RFC 9457 calls it
    """A request that was not carried out, with its HTTP status."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}


def refusal_problem(refusal: Refused, headers: Mapping[str, str] | None = None) -> HttpProblem:
    """A refusal of the request itself, before any command runs."""
    status = STATUS_OF_REFUSAL.get(refusal.code, CONFLICT)
    return HttpProblem(status, refusal.code, refusal.message, headers)


def problem_document(
    status: int, code: str, detail: str, more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The members of a problem document; `more` adds those of a refusal, with its `status` as `task_status`."""
    meaning, remedy = MEANINGS.get(code, (TITLES.get(code, code), ""))
    document = {
        "type": f"/api/explain?code={code}",
        "title": meaning,
        "status": status,
        "detail": detail,
        "code": code,
    }
    others = {("task_status" if name == "status" else name): value for name, value in (more or {}).items()}
    return others | document | ({"remedy": remedy} if remedy else {})


def refusal_document(code: str, message: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The problem document of a refusal."""
    return problem_document(STATUS_OF_REFUSAL.get(code, CONFLICT), code, message, more)


def problem_of_answer(data: Any, command: str = "") -> dict[str, Any] | None:
    """The problem document of a command's answer; None if the command was carried out."""
    if not isinstance(data, dict):
        return None
    if "refused" in data:
        code = str(data["refused"])
        more = {name: value for name, value in data.items() if name not in ("refused", "message")}
        return refusal_document(code, str(data.get("message", "")), more)
    if "error" in data:
        is_usage = data["error"] == "usage"
        status, code = (BAD_REQUEST, "bad_request") if is_usage else (UNAVAILABLE, "unavailable")
        if command in SHOWS_FILES and not is_usage:
            status, code = NOT_FOUND, "not_found"
        more = {name: value for name, value in data.items() if name not in ("error", "message")}
        return problem_document(status, code, str(data.get("message", "")), more)
    return None
