"""Telling the user of open questions through the channels they named."""

from __future__ import annotations

from argparse import ArgumentParser
from importlib import import_module
from typing import Any

from remand.domain.refusals import Refused
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result, table

_NONE = "No channel is named. Write an address a line to {}, readable by you alone, or set REMAND_NOTIFY."


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--test", action="store_true", help="send a test notice through every channel")
    parser.add_argument(
        "--paced", action="store_true", help="keep the pace of notices, as Remand itself does"
    )


def _notify(context: Context) -> Result:
    if context.is_confined:
        raise Refused("user_only", "Only the user has notices sent.")
    notices: Any = import_module("remand.bootstrap.notices")
    if context.arguments.test:
        return _tested(notices)
    deliver = notices.deliver_paced if context.arguments.paced else notices.deliver
    told = deliver(context.opened)
    data = {
        "channels": [address.name for address in notices.addresses().channels],
        "notices": told.notices,
        "delivered": [{"escalation_id": asked, "channel": channel} for asked, channel in told.delivered],
        "problems": list(told.problems),
    }
    rows = [f"{told.notices} notices about {len(told.delivered)} questions", *told.problems]
    if not data["channels"]:
        rows.append(_NONE.format(notices.addresses_file()))
    return Result(data, "\n".join(rows), code=3 if told.problems else 0)


def _tested(notices: Any) -> Result:
    found = notices.addresses()
    results = [
        (channel.name, channel.send("Remand", "This is a test: questions will reach you here."))
        for channel in notices.channels(found)
    ]
    data = [{"channel": name, "ok": not problem, "problem": problem} for name, problem in results]
    data += [{"channel": "", "ok": False, "problem": problem} for problem in found.problems]
    rows = [(row["channel"], "took it" if row["ok"] else row["problem"]) for row in data]
    is_well = all(row["ok"] for row in data)
    none = _NONE.format(notices.addresses_file())
    return Result(data, table(("channel", "result"), rows, none, wraps=True), code=0 if is_well else 3)


COMMANDS = {"notify": Command(_arguments, _notify)}
