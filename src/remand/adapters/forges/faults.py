"""What an answer that is none means, in words for the user: what is so, and what to do."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import msgspec

from remand.adapters.forges.transport import Reply
from remand.app.forges.ports import ForgeFault, Trouble

MAX_SAID = 200

Found = TypeVar("Found")


def fault_of(reply: Reply, forge: str, token_name: str, said: str) -> ForgeFault | None:
    """The fault behind a status; None when the answer is one."""
    why = f"{reply.status}: {said}" if said else f"{reply.status}"
    if reply.status < 400:
        return None
    if reply.status >= 500:
        return ForgeFault(
            Trouble.UNREACHABLE, f"{forge} has an error of its own ({why}); it is asked again later."
        )
    if reply.status == 401:
        return ForgeFault(
            Trouble.DENIED,
            f"{forge} does not take the token ({why}). Set {token_name} to one that is valid and may read the "
            "repository's pull requests.",
        )
    if reply.status == 403:
        return ForgeFault(
            Trouble.DENIED,
            f"{forge} does not allow this ({why}). Give the token of {token_name} the right to read pull requests, "
            "and to write what is configured.",
        )
    if reply.status in (404, 410):
        return ForgeFault(
            Trouble.MISSING, f"{forge} has nothing there ({why}), or not for the token of {token_name}."
        )
    return ForgeFault(Trouble.REFUSED, f"{forge} refuses ({why}).")


def said_in(reply: Reply, *secrets: str) -> str:
    """What an error's body says, short, printable and without secrets; empty when it says nothing."""
    try:
        body = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    fields = body if isinstance(body, dict) else {}
    errors = fields.get("errors")
    parts = [fields.get("message"), *(errors if isinstance(errors, list) else [errors])]
    texts = [part.get("message") if isinstance(part, dict) else part for part in parts]
    return plain(": ".join(text for text in texts if isinstance(text, str)), *secrets)


def plain(text: str, *secrets: str) -> str:
    """Text of a forge's, fit to be shown in one line."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "…")
    return "".join(sign if sign.isprintable() else " " for sign in text[:MAX_SAID])


async def if_there(answer: Awaitable[Found]) -> Found | None:
    """What the forge answers; None when it has nothing there."""
    try:
        return await answer
    except ForgeFault as fault:
        if fault.trouble is Trouble.MISSING:
            return None
        raise
