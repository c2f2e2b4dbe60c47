"""The program's start: sends the call to a coordinator if one is running, or runs it here.

Imports nothing heavy before that.
"""

from __future__ import annotations

import gc
import os
import sys

from remand.app import errors
from remand.app.reminders import log_warning, reminder
from remand.app.scheduler.agent_socket import find_agent_socket
from remand.interfaces.cli import context, server_calls
from remand.interfaces.cli import main as cli
from remand.interfaces.cli.agent_socket import client
from remand.interfaces.cli.registry import COMMANDS, FORWARDED_VARIABLES, CommandCall, parse_call
from remand.interfaces.hook import entry as hook_entry
from remand.startup import load_msgspec
from remand.wiring import startup


def main() -> None:
    """Runs one call of the command line and exits with its exit code."""
    _ensure_streams()
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except (KeyboardInterrupt, BrokenPipeError) as error:
        code = 130 if isinstance(error, KeyboardInterrupt) else 141
    except OSError as error:
        code = 3
        sys.stderr.write(f"remand: cannot write the output: {error.strerror}\n")
    # The output is flushed; the interpreter's own shutdown would only take time.
    os._exit(code)


def _ensure_streams() -> None:
    """Opens closed streams on the null device; characters that the terminal cannot show are escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def run(arguments: list[str]) -> int:
    """Runs one call, here or in the coordinator."""
    if arguments[:1] == ["hook"] and arguments[1:] and arguments[1] not in ("relay", "-h", "--help"):
        return hook_entry.run(arguments[1:], dict(os.environ))
    call = parse_call(arguments)
    try:
        os.getcwd()
    except FileNotFoundError:
        fault = errors.EnvironmentFault("This folder was deleted. Change to an existing one, then repeat.")
        return cli.report_failure(call, context.CallOrigin("", {}, sys.stdout, sys.stderr), fault)
    if not call.key:
        # Under one key, a call that a lost coordinator may have carried out is not carried out again.
        call.key = f"cli-{os.urandom(8).hex()}"
        arguments = ["--key", call.key, *arguments]
    agent_socket = find_agent_socket(os.environ)
    if agent_socket and not client.is_local(call):
        return client.run(agent_socket, call, arguments, _forwarded_settings())
    if os.environ.get("REMAND_SERVER") and not server_calls.is_local(call):
        return server_calls.run(call, _forwarded_settings(), os.environ)
    forwarded = _forward_to_coordinator(call, arguments)
    if forwarded is not None:
        return forwarded
    if (
        call.command == "task list"
        and call.is_json
        and not call.wants_help
        and not os.environ.get("REMAND_STORE")
    ):
        place = startup.locate(call.folder)
        if place is not None and _list_tasks(place, call.rest):
            return 0
    environment = {name: os.environ.get(name, "") for name in FORWARDED_VARIABLES}
    load_command_line()
    return cli.run(arguments, context.CallOrigin.of_this_process(environment))


def load_command_line() -> None:
    """Loads what runs a call in this process."""
    gc.disable()  # what is loaded lasts as long as the process; looking for garbage in it takes a twentieth of the start
    load_msgspec()
    cli.run  # noqa: B018 - loads the module
    gc.freeze()
    gc.enable()


def _list_tasks(place: startup.LedgerLocation, arguments: list[str]) -> bool:
    """Prints the tasks from the tables; False if that takes more than reading them."""
    listed = startup.views.read_task_list(place.database, place.event_folders, arguments)
    if listed is None:
        return False
    unseen = startup.views.read_unseen(place.database)
    is_users = not os.environ.get("REMAND_TASK")
    sys.stdout.write(listed + "\n")
    sys.stderr.write(log_warning(unseen) + (reminder(unseen) if is_users else ""))
    return True


def _forward_to_coordinator(call: CommandCall, arguments: list[str]) -> int | None:
    """The exit code of a call that a coordinator ran; None if it has to run here."""
    entry = COMMANDS.get(call.command)
    if (
        entry is None
        or not entry.may_be_forwarded
        or not call.is_self_contained
        or os.environ.get("REMAND_STORE")
    ):
        return None
    place = startup.locate(call.folder)
    if place is None or any(os.path.isdir(folder) for folder in place.event_folders[1:]):
        return None
    if not (path := startup.find_socket(place)):
        return None
    try:
        code, output, errors = startup.forward_call(path, os.getcwd(), _forwarded_settings(), arguments)
    except startup.CoordinatorUnavailable:
        return None
    sys.stdout.buffer.write(output)
    sys.stderr.buffer.write(errors)
    sys.stderr.buffer.flush()
    return code


def _forwarded_settings() -> list[str]:
    """Everything besides its arguments on which a call depends."""
    try:
        width = str(os.get_terminal_size().columns)
    except OSError:
        width = ""
    own = [os.environ.get(name, "") for name in FORWARDED_VARIABLES]
    return [*own, "1" if sys.stdout.isatty() else "", width]


if __name__ == "__main__":
    main()
