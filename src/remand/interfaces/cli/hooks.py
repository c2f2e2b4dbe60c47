"""Commands around hooks: a call that was handed on, and the user's pause."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

import msgspec

from remand.app.errors import UsageError
from remand.bootstrap.quick import locate
from remand.domain.events import PauseBegun, PauseEnded
from remand.domain.instant import plus
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result
from remand.interfaces.hook.answering import answer
from remand.interfaces.hook.words import Words

DAY = 86400.0
MAX_REASON = 4000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _relay_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("words", help="the call, as JSON")


def _relay(context: Context) -> Result:
    try:
        words = msgspec.json.decode(context.arguments.words, type=Words)
    except msgspec.MsgspecError as error:
        raise UsageError(f"That is no call of a hook: {error}.") from None
    place = locate(context.folder) or context.place
    found = answer(words, place, deadline=words.patience, opened=context.surroundings.opened)
    data = {"kind": found.kind, "text": found.text, "notice": found.notice}
    return Result(data, found.text or found.kind)


def _hook_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--host", required=True)
    parser.add_argument("event")


def _hook(_: Context) -> Result:
    raise UsageError("A hook is called first: `remand hook --host HOST EVENT`, with nothing before `hook`.")


def _pause_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--for", dest="lasts", default="1h", metavar="2h", help="how long, at most 7d")
    parser.add_argument("--reason", required=True, metavar="TEXT")


def _pause(context: Context) -> Result:
    actor = context.user()
    if not context.text(context.arguments.reason).strip():
        raise UsageError("Say why: --reason TEXT.")
    until = plus(context.opened.ledger.clock.now(), _seconds(context.arguments.lasts))
    reason = context.text(context.arguments.reason)
    context.opened.ledger.record([PauseBegun(until=until, reason=reason[:MAX_REASON])], actor)
    context.gates.pause(until, context.actor(), reason)
    return Result(
        {"paused_until": until},
        f"Sessions may stop unmeasured until {until}. Nothing becomes done by that. `remand resume` ends it.",
    )


def _nothing(parser: ArgumentParser) -> None:
    """Takes no arguments."""


def _resume(context: Context) -> Result:
    actor = context.user()
    if context.gates.is_paused:
        context.opened.ledger.record([PauseEnded()], actor)
    was: bool = context.gates.resume()
    return Result({"paused_until": None}, "The pause is over." if was else "There was no pause.")


def _seconds(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isdecimal() or not 0 < int(number) * _UNITS[unit] <= 7 * DAY:
        raise UsageError(
            f"--for {text[:20]!r} is no duration of up to 7 days; write it as 90s, 30m, 2h or 1d."
        )
    return float(int(number) * _UNITS[unit])


COMMANDS: dict[str, Any] = {
    "hook": Command(_hook_arguments, _hook),
    "hook relay": Command(_relay_arguments, _relay),
    "pause": Command(_pause_arguments, _pause),
    "resume": Command(_nothing, _resume),
}
