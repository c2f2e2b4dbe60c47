"""An agent's side of its door: what is called here is carried out there, and nothing of it is done here.

This runs on every call of an agent's, so it imports nothing that the command line has not loaded already.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from itertools import islice

from remand.bootstrap import quick
from remand.interfaces.cli.arguments import Call
from remand.interfaces.cli.registry import COMMANDS

LOCAL = ("", "help", "--version", "completion", "mcp")
"""What needs no ledger, or has each of its calls come by here."""
MAX_VALUE = 4 << 20
LONGEST = 7200.0
"""Seconds that a call which is measured may take; a door that closes is noticed at once."""
SHORT = 120.0
USAGE, ENVIRONMENT = 2, 3
_VALUED = ("-C", "--as", "--key")
GONE = (
    "The door of this run is closed ({why}): {door}. The run is over, or its scheduler is gone; nothing that is said "
    "here is heard any more. Stop; commits are kept."
)


class Unusable(Exception):  # noqa: N818 - it is the value that cannot be used
    """A value that cannot be sent, with what to do about it."""


def is_local(call: Call) -> bool:
    """True for a call that is carried out here, though there is a door."""
    return call.command in LOCAL or call.wants_help


def run(door: str, call: Call, arguments: list[str], settings: list[str]) -> int:
    """Has a call carried out at the door, and says what was said there."""
    entry = COMMANDS.get(call.command)
    patience = SHORT if entry is None or entry.may_be_forwarded else LONGEST
    try:
        arguments, given = _resolved(call, arguments)
        code, output, errors = quick.forward(
            door, _here(), settings, arguments, given=given, patience=patience
        )
    except Unusable as error:
        return _failed(call, "usage", str(error), USAGE)
    except quick.Lost as error:
        return _failed(call, "environment", GONE.format(why=error, door=door), ENVIRONMENT)
    sys.stdout.buffer.write(output)
    sys.stderr.buffer.write(errors)
    sys.stderr.buffer.flush()
    return code


def _resolved(call: Call, arguments: list[str]) -> tuple[list[str], bytes]:
    """The arguments with texts in place of files and standard input, which only the agent can read, and a whole record."""
    found: list[str] = []
    given = b""
    items = iter(arguments)
    for item in items:
        name, is_joined, value = item.partition("=")
        if item == "--":
            found += [item, *map(_text, items)]
        elif item in _VALUED:
            found += [item, *islice(items, 1)]
        elif name == "--from" and call.command == "handoff reject":
            sources = [value] if is_joined else list(islice(items, 1))
            given = "".join(_text(source, is_file=True) for source in sources).encode("utf-8", "replace")
            found += ["--from", *("-" for _ in sources)]
        elif is_joined and name.startswith("--"):
            found.append(f"{name}={_text(value)}")
        else:
            found.append(_text(item))
    size = len(given) + sum(len(text.encode("utf-8", "surrogateescape")) + 1 for text in found)
    if size > quick.MAX_CALL:
        raise Unusable(f"The call has {size} bytes; at most {quick.MAX_CALL} go through a door. Shorten it.")
    if any("\0" in text for text in found):
        raise Unusable("A text has a NUL character in it. Leave it out.")
    return found, given


def _text(value: str, *, is_file: bool = False) -> str:
    """A value, or what it points to: `@file` a file, `-` standard input."""
    if value == "-":
        return _within(sys.stdin.read(MAX_VALUE + 1), "standard input")
    if not is_file and (not value.startswith("@") or len(value) == 1):
        return value
    path = os.path.join(_here(), value.removeprefix("@"))
    try:
        with open(path, encoding="utf-8") as file:
            return _within(file.read(MAX_VALUE + 1), path)
    except (OSError, ValueError) as error:
        raise Unusable(f"The file {path} cannot be read: {error}.") from None


def _here() -> str:
    """Where the agent is; empty when that folder is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _within(text: str, where: str) -> str:
    if len(text) > MAX_VALUE:
        raise Unusable(f"{where} holds more than {MAX_VALUE} characters. Shorten it.")
    return text


def _failed(call: Call, kind: str, message: str, code: int) -> int:
    if call.is_json:
        json = import_module("json")  # loaded only when something fails
        sys.stdout.write(json.dumps({"error": kind, "message": message}) + "\n")
    else:
        sys.stderr.write(f"remand: {message}\n")
    return code
