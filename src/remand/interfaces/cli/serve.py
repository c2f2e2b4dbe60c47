"""The resident coordinator."""

from __future__ import annotations

import io
import os
import signal
from argparse import ArgumentParser

from remand.app.errors import LedgerReplaced, UsageError
from remand.bootstrap.coordinator import make_coordinator
from remand.bootstrap.ledger import Opened
from remand.bootstrap.quick import find_socket
from remand.interfaces.cli import main
from remand.interfaces.cli.arguments import split
from remand.interfaces.cli.context import Command, Context, Surroundings
from remand.interfaces.cli.entry import ENVIRONMENT
from remand.interfaces.cli.output import Result
from remand.interfaces.cli.registry import COMMANDS as COMMANDS_BY_NAME


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--no-http", action="store_true", help="the socket alone (all that this version has)")


def _serve(context: Context) -> Result:
    if not context.arguments.no_http:
        raise UsageError("This version has no HTTP interface yet. Use `remand serve --no-http`.")
    opened = context.opened
    coordinator = make_coordinator(opened, lambda *call: _called(opened, *call))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: coordinator.stop())
    if not context.call.is_json:
        context.surroundings.stdout.write(
            f"Coordinator of {opened.place.root} (pid {os.getpid()}): {find_socket(opened.place)}\n"
        )
        context.surroundings.stdout.flush()
    coordinator.serve()
    opened.store.close()
    return Result({"stopped": True}, "Stopped.")


def _called(
    opened: Opened, folder: str, settings: list[str], arguments: list[str]
) -> tuple[int, bytes, bytes]:
    """Runs a forwarded call of the command line in this process."""
    call = split(arguments)
    entry = COMMANDS_BY_NAME.get(call.command)
    if entry is None or not entry.may_be_forwarded or not call.is_self_contained:
        return main.USAGE, b"", b"remand: this command is not run by a coordinator.\n"
    environment = dict(zip(ENVIRONMENT, settings, strict=False))
    is_terminal, width = settings[len(ENVIRONMENT) :]
    out, err = io.StringIO(), io.StringIO()
    surroundings = Surroundings(
        folder=folder,
        environment=environment,
        stdout=out,
        stderr=err,
        is_terminal=bool(is_terminal),
        width=int(width or 0),
        opened=opened,
    )
    opened.store.require_same_file()
    try:
        code = main.run(arguments, surroundings)
    except LedgerReplaced:
        raise
    except Exception as error:  # noqa: BLE001 - one client's call must not end the others' coordinator
        code = main.ENVIRONMENT
        err.write(f"remand: the coordinator could not do this: {type(error).__name__}: {error}\n")
    return (
        code,
        out.getvalue().encode("utf-8", "surrogateescape"),
        err.getvalue().encode("utf-8", "surrogateescape"),
    )


COMMANDS = {"serve": Command(_arguments, _serve)}
