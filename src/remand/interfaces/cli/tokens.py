"""Commands on tokens: who may call the server, as what, and until when."""

from __future__ import annotations

from typing import Any

from remand.app import tokens
from remand.app.errors import UsageError
from remand.domain.access.team import Role
from remand.domain.access.tokens import Token, TokenRole, parse_token_role
from remand.domain.instant import Instant, add_seconds, format_time, parse_local_instant
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import Result, table
from remand.interfaces.cli.tasks.verdicts import acting_member

ROLES = (*TokenRole, Role.LEAD, Role.TESTER)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MAX_DIGITS = 9


@command(
    "token create",
    argument("--member", required=True, metavar="NAME", help="whose it is; for a worker or a host, the machine's name"),
    argument("--role", default="", choices=ROLES, metavar="R", help="what the holder may be; the member's only role by default, else one of"),
    argument("--expires", default="90d", metavar="D", help="for how long it counts, as 12h or 90d, or until when, as 2027-01-31 (90d)"),
    argument("--starts", action="extend", nargs="+", metavar="NAME", help="for a host: the members that it may start and speak for, or '*' for all but the user"),
)  # fmt: skip
def _create(context: Context) -> Result:
    actor, options, opened = context.user(), context.arguments, context.opened_ledger
    made = tokens.create_token(
        opened.ledger,
        opened.settings.rules(),
        actor,
        member=options.member,
        role=parse_token_role(options.role),
        starts=tuple(options.starts or ()),
        expires_at=_expiry(options.expires, opened.ledger.clock.now()),
        known_by=context.known_by(actor.name),
    )
    data = {
        "token_id": made.token_id,
        "token": made.text,
        "member": options.member,
        "role": made.role,
        "expires_at": made.expires_at,
    }
    text = f"{made.text}\nThis token counts as {made.role} until {format_time(made.expires_at)}. It is not shown again."
    return Result(data, text)


def _expiry(text: str, now: Instant) -> Instant:
    """When a token ends to count: after a duration, or at a time."""
    number, unit = text[:-1], text[-1:]
    if unit in _SECONDS and number.isascii() and number.isdecimal() and len(number) <= _MAX_DIGITS:
        return add_seconds(now, int(number) * _SECONDS[unit])
    found = parse_local_instant(text)
    if found is None:
        raise UsageError(
            f"--expires {text[:40]!r} is neither a duration such as 12h or 90d nor a date such as 2027-01-31."
        )
    return found


@command("token list")
def _list(context: Context) -> Result:
    opened = context.opened_ledger
    now = opened.ledger.clock.now()
    found = tokens.visible_tokens(opened.ledger, acting_member(context))
    rows = [
        (token.id, token.member, token.role, " ".join(token.starts), _state(token, now), format_time(token.expires_at))
        for token in found
    ]  # fmt: skip
    show = table(
        ("id", "member", "role", "may start", "", "expires"),
        rows,
        "No tokens. `remand token create` makes one.",
    )
    return Result([_row(token, now) for token in found], show)


def _row(token: Token, now: Instant) -> dict[str, Any]:
    return {
        "token_id": token.id,
        "member": token.member,
        "role": token.role,
        "starts": list(token.starts),
        "status": _state(token, now),
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at or None,
    }


def _state(token: Token, now: Instant) -> str:
    if token.revoked_at:
        return "revoked"
    return "valid" if token.is_valid(now) else "expired"


@command(
    "token revoke",
    argument("token_id", metavar="ID", help="the token's id, as `remand token list` shows it"),
    argument("--reason", default="", metavar="T"),
)
def _revoke(context: Context) -> Result:
    token_id, actor = context.arguments.token_id, acting_member(context)
    reason = context.text(context.arguments.reason)
    known_by = context.known_by(actor.name)
    tokens.revoke_token(context.opened_ledger.ledger, actor, token_id, reason, known_by)
    return Result({"token_id": token_id, "revoked": True}, f"Token {token_id} is revoked permanently.")
