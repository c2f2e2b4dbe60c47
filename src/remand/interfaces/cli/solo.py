"""`remand solo`: the user's switch for sessions without a task, and what was measured of them."""

from __future__ import annotations

import os
from typing import Any

from remand import config
from remand.domain.access.agent_calls import require_outside_agent
from remand.domain.access.coordinator_start import AGENT_VARIABLES
from remand.domain.instant import Instant, add_seconds
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.hosts import parse_duration
from remand.interfaces.cli.output import Result
from remand.interfaces.cli.tasks import sessions
from remand.wiring.startup import folders_of
from remand.wiring.startup import solo_sessions as notes

SHOWN = 5


def solo_state(context: Context) -> tuple[str, float]:
    """`on` or `off`, and until when it is off."""
    word, until = _sessions(context).switch()
    if word:
        return word, until
    return (notes.ON if notes.asks_for_all(os.path.join(context.place.root, config.NAME)) else notes.OFF), 0.0


@command("solo on")
def _on(context: Context) -> Result:
    require_user(context, "solo")
    _sessions(context).set_switch(notes.ON)
    return Result({"sessions": "on", "until": None}, "Every session here is measured when it stops.")


@command(
    "solo off",
    argument(
        "--for", dest="lasts", default="", metavar="2h", help="for how long; without it, until `solo on`"
    ),
)
def _off(context: Context) -> Result:
    require_user(context, "solo")
    own = _sessions(context)
    until = own.now() + parse_duration(context.arguments.lasts) if context.arguments.lasts else 0.0
    own.set_switch(notes.OFF, until)
    when = _instant(until) if until else None
    ends = f" until {when[:19]}Z" if when else ""
    return Result(
        {"sessions": "off", "until": when},
        f"Sessions without a task are left alone{ends}. `remand solo on` measures them again.",
    )


@command("solo status")
def _status(context: Context) -> Result:
    word, until = solo_state(context)
    when = _instant(until) if until else None
    settings = context.opened_ledger.settings.settings()
    gates = list(settings.gates or ())
    rows = sessions.session_rows(context)
    text = (
        f"Sessions are measured when they stop. Gates: {', '.join(gates) or 'none'}."
        if word == notes.ON
        else f"Sessions without a task are left alone{f' until {when[:19]}Z' if when else ''}. `remand solo on` measures them."
    )
    data = {"sessions": word, "until": when, "gates": gates, "last": rows[-SHOWN:]}

    def show(out: Any) -> None:
        out.print(text, highlight=False)
        sessions.session_table(rows[-SHOWN:])(out)

    return Result(data, show)


def require_user(context: Context, what: str) -> None:
    """Refuses a command that is the user's where an agent's shell calls it."""
    environment = config.inherited_environment()
    is_agent = context.is_confined or any(environment.get(name) for name in AGENT_VARIABLES)
    require_outside_agent(what, is_confined=is_agent)


def _instant(seconds: float) -> Instant:
    return add_seconds("1970-01-01T00:00:00.000000Z", seconds)


def _sessions(context: Context) -> notes.SoloSessions:
    return notes.SoloSessions(folders_of(context.place).solo)
