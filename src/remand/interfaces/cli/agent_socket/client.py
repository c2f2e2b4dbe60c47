"""The agent's side of its socket:

sends a call and prints the answer. Imports only what the command line has already loaded.
"""

from __future__ import annotations

import os
import sys
from itertools import islice

from remand.interfaces.cli.registry import COMMANDS, CommandCall
from remand.startup import TYPE_CHECKING
from remand.wiring import startup

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

LOCAL = ("", "help", "--version", "completion", "mcp")
"""Commands that need no ledger, or that send each of their own calls through the socket."""
MAX_VALUE = 4 << 20
LONGEST = 7200.0
"""How many seconds a call that runs gates may take; if the socket closes, the client notices at once."""
SHORT = 120.0
USAGE, ENVIRONMENT = 2, 3
_VALUED = ("-C", "--as", "--key")
_FILES = (("handoff reject", "--from"), ("simulate", "--policy"))
"""Options that name a file, whose content is sent."""
SOCKET_CLOSED = "The agent socket of this run is closed ({why}): {socket}. The run has ended, or its scheduler has stopped, so calls no longer have any effect. Stop; commits are kept."


class UnusableValue(Exception):  # noqa: N818 - it is the value that cannot be used
    """A value that cannot be sent, with what to do about it."""


def is_local(call: CommandCall) -> bool:
    """True for a call that runs here although there is an agent socket."""
    return call.command in LOCAL or call.wants_help


def run(socket: str, call: CommandCall, arguments: list[str], settings: list[str]) -> int:
    """Sends a call to the agent socket, and prints the answer."""
    entry = COMMANDS.get(call.command)
    patience = SHORT if entry is None or entry.may_be_forwarded else LONGEST
    try:
        arguments, input_bytes = resolve_arguments(call, arguments)
        code, output, errors = startup.forward_call(
            socket, _working_folder(), settings, arguments, given=input_bytes, patience=patience
        )
    except UnusableValue as error:
        return report_failure(call, "usage", str(error), USAGE)
    except startup.CoordinatorUnavailable as error:
        return report_failure(
            call, "environment", SOCKET_CLOSED.format(why=error, socket=socket), ENVIRONMENT
        )
    sys.stdout.buffer.write(output)
    sys.stderr.buffer.write(errors)
    sys.stderr.buffer.flush()
    return code


def resolve_arguments(call: CommandCall, arguments: list[str]) -> tuple[list[str], bytes]:
    """The arguments with the content of files and standard input, which only the agent can read, and of a record file."""
    found: list[str] = []
    input_bytes = b""
    items = iter(arguments)
    for item in items:
        name, is_joined, value = item.partition("=")
        if item == "--":
            found += [item, *map(_text, items)]
        elif item in _VALUED:
            found += [item, *islice(items, 1)]
        elif (call.command, name) in _FILES:
            sources = [value] if is_joined else list(islice(items, 1))
            input_bytes = "".join(_text(source, is_file=True) for source in sources).encode(
                "utf-8", "replace"
            )
            found += [name, *("-" for _ in sources)]
        elif is_joined and name.startswith("--"):
            found.append(f"{name}={_text(value)}")
        else:
            found.append(_text(item))
    size = len(input_bytes) + sum(len(text.encode("utf-8", "surrogateescape")) + 1 for text in found)
    if size > startup.MAX_CALL:
        raise UnusableValue(f"The call has {size} bytes; at most {startup.MAX_CALL} are taken. Shorten it.")
    if any("\0" in text for text in found):
        raise UnusableValue("A text contains a NUL character. Remove it.")
    return found, input_bytes


def without_options(words: Sequence[str], options: Collection[str]) -> list[str]:
    """The words of a call without some options and their values."""
    rest: list[str] = []
    items = iter(words)
    for item in items:
        if item == "--":
            return [*rest, item, *items]
        if item in options:
            next(items, None)
        elif item.partition("=")[0] not in options:
            rest.append(item)
    return rest


def _text(value: str, *, is_file: bool = False) -> str:
    """A value, or what it refers to: `@file` a file, `-` standard input."""
    if value == "-":
        return _require_length(sys.stdin.read(MAX_VALUE + 1), "standard input")
    if not is_file and (not value.startswith("@") or len(value) == 1):
        return value
    path = os.path.join(_working_folder(), value.removeprefix("@"))
    try:
        with open(path, encoding="utf-8") as file:
            return _require_length(file.read(MAX_VALUE + 1), path)
    except (OSError, ValueError) as error:
        raise UnusableValue(f"The file {path} cannot be read: {error}.") from None


def _working_folder() -> str:
    """The agent's current folder; empty if it no longer exists."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _require_length(text: str, where: str) -> str:
    if len(text) > MAX_VALUE:
        raise UnusableValue(f"{where} has more than {MAX_VALUE} characters. Shorten it.")
    return text


def report_failure(call: CommandCall, kind: str, message: str, code: int) -> int:
    """Prints why a call was not sent or answered, and returns its exit code."""
    if call.is_json:
        import json  # loaded only when something fails

        sys.stdout.write(json.dumps({"error": kind, "message": message}) + "\n")
    else:
        sys.stderr.write(f"remand: {message}\n")
    return code
