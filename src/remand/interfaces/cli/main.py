"""Runs one call of the command line, from its words to its exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from remand.app.errors import EnvironmentFault, LedgerReplaced, RemandError, UsageError
from remand.domain import refusals
from remand.domain.refusals import MEANINGS, Refused
from remand.interfaces.cli.context import SPECS, CallOrigin, CommandParser, CommandSpec, Context
from remand.interfaces.cli.output import Result, as_json, clean, console
from remand.interfaces.cli.registry import COMMANDS, CommandCall, parse_call
from remand.ledger.problems import BadLine
from remand.wiring.reminders import (
    held_events_warning,
    key_warning,
    log_warning,
    read_unseen_at,
    reminder,
    run_after_call,
    untrusted_key,
)

NOTHING_MORE: Mapping[str, str] = {}
DONE, REFUSED, USAGE, ENVIRONMENT = 0, 1, 2, 3
LOCK_PATIENCE = 60
_UNATTENDED = ("serve", "hook", "hook relay", "completion")
"""Commands after which nobody reads what is said, or an agent does, or a shell that starts."""

__all__ = ["CallOrigin", "command_parser", "report_failure", "run", "unknown_command_message"]


def run(arguments: list[str], surroundings: CallOrigin) -> int:
    """Runs a call and returns its exit code. Every failure is said, never thrown."""
    asides = _TrailingMessages()
    code = _run(parse_call(arguments), surroundings, asides)
    surroundings.stderr.write(f"{asides.fault}{asides.key}{asides.held}{asides.warning}{asides.reminder}")
    return code


class _TrailingMessages:
    """What is said after an answer."""

    def __init__(self) -> None:
        self.fault = self.key = self.held = self.warning = self.reminder = ""

    @property
    def data(self) -> dict[str, str]:
        """The same for programs."""
        return {"log_warning": self.warning.removeprefix("remand: ").strip()} if self.warning else {}


def _run(call: CommandCall, surroundings: CallOrigin, asides: _TrailingMessages) -> int:
    """Runs a call; what is to be said after its answer is left aside."""
    try:
        with _lock_timeout(call, surroundings):
            result = _result(call, surroundings, asides)
    except (Refused, BadLine, RemandError, OSError) as error:
        if isinstance(error, LedgerReplaced) and surroundings.opened is not None:
            raise
        if clean(str(error)) in asides.fault:
            asides.fault = ""
        return report_failure(call, surroundings, error, asides.data)
    if call.is_json and asides.data and type(result.data) is dict:
        result = result._replace(data=result.data | asides.data)
    _show(call, surroundings, result)
    return result.code


def report_failure(
    call: CommandCall,
    surroundings: CallOrigin,
    error: Refused | BadLine | RemandError | OSError,
    more: Mapping[str, str] = NOTHING_MORE,
) -> int:
    """Says why a call was not carried out; gives its exit code."""
    match error:
        case Refused():
            return _report_refusal(call, surroundings, error, more)
        case UsageError():
            return _report_error(call, surroundings, "usage", str(error), USAGE)
        case BadLine():
            message = f"The ledger is damaged: a line in it {error}. `remand log verify` shows details."
            return _report_error(call, surroundings, "environment", message, ENVIRONMENT)
        case _:
            return _report_error(call, surroundings, "environment", str(error), ENVIRONMENT)


def _result(call: CommandCall, surroundings: CallOrigin, asides: _TrailingMessages) -> Result:
    if call.is_broken:
        raise UsageError(call.is_broken)
    if call.command in ("", "help") or (call.wants_help and call.command not in COMMANDS):
        return Result(sorted(COMMANDS), _overview())
    if call.command == "--version":
        return _version()
    if call.command not in COMMANDS:
        raise UsageError(unknown_command_message(call))
    command, parser = command_parser(call.command)
    if call.wants_help:
        return Result({"help": parser.format_help()}, parser.format_help().rstrip())
    context = Context(call, parser.parse_args(call.rest), surroundings)
    try:
        result = command.run(context)
    finally:
        _run_after_command(context, asides)
    return _mark_unconfirmed(result, context)


def _mark_unconfirmed(result: Result, context: Context) -> Result:
    """The answer of a command that wrote events, marked where the base does not trust the key that signed them."""
    is_answer = isinstance(result.data, dict) and context.call.command not in _UNATTENDED
    if not is_answer or not context.has_opened_ledger or not context.gateway.has_written:
        return result
    is_unconfirmed = bool(untrusted_key(context.place, context.gateway.already_open_ledger))
    return result._replace(data={"unconfirmed": True} | result.data) if is_unconfirmed else result


def _run_after_command(context: Context, asides: _TrailingMessages) -> None:
    """Keeps the files in step with the ledger, warns of a damaged log, and reminds the user of open questions."""
    if context.call.command in _UNATTENDED:
        return
    if context.has_opened_ledger:
        found, fault = run_after_call(context.place, context.gateway.already_open_ledger)
        asides.fault = f"remand: {clean(fault)}\n" if fault else ""
        asides.key = key_warning(untrusted_key(context.place, context.gateway.already_open_ledger))
        asides.held = held_events_warning(context.gateway.already_open_ledger)
    else:
        found = read_unseen_at(context.folder, context.surroundings.opened)
    asides.warning = log_warning(found)
    asides.reminder = "" if context.is_confined else reminder(found)


def command_parser(name: str) -> tuple[CommandSpec, CommandParser]:
    """A command and the parser of its arguments."""
    entry = COMMANDS[name]
    import_module(f"remand.interfaces.cli.{entry.module}")
    spec = SPECS[name]
    parser = CommandParser(
        prog=f"remand {name}",
        description=f"{entry.help[0].upper()}{entry.help[1:]}.",
        epilog="Every command takes --json, -C DIR, --as NAME and --key KEY.",
        add_help=False,
        allow_abbrev=False,
    )
    for argument in spec.arguments:
        parser.add_argument(*argument.names, **argument.options)
    return spec, parser


def unknown_command_message(call: CommandCall) -> str:
    """What to say of a command that there is not."""
    group = [name for name in COMMANDS if name.split(" ")[0] == call.command.split(" ")[0]]
    from difflib import get_close_matches  # loaded for a mistyped command alone

    close = get_close_matches(call.command, COMMANDS, 1)
    if close:
        return f"There is no command `{clean(call.command)}`; did you mean `remand {close[0]}`?"
    if group:
        return f"There is no command `{clean(call.command)}`; the commands are {', '.join(group)}."
    return f"There is no command `{clean(call.command)}`. `remand --help` lists them all."


def _overview() -> str:
    wide = max(map(len, COMMANDS))
    rows = [f"  {name:<{wide}}  {entry.help}" for name, entry in COMMANDS.items()]
    return "\n".join(
        [
            "Remand: how a team of AI coding agents says no, and how no is respected.",
            "",
            *rows,
            "",
            "Every command takes --json, -C DIR, --as NAME, --key KEY and --help.",
            "Start with `remand demo`, then `remand init` in your own repository.",
        ]
    )


def _version() -> Result:
    version = import_module("importlib.metadata").version("remand")
    return Result({"version": version}, f"remand {version}")


@contextmanager
def _lock_timeout(call: CommandCall, surroundings: CallOrigin) -> Iterator[None]:
    """Ends a short call that waits too long for the ledger's lock; a coordinator has its own patience."""
    entry = COMMANDS.get(call.command)
    if entry is None or not entry.may_be_forwarded or surroundings.opened is not None:
        yield
        return

    def give_up(*_: Any) -> None:
        raise EnvironmentFault(
            f"A lock was not released within {LOCK_PATIENCE} s. If another remand process is suspended, resume or end it, then repeat."
        )

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LOCK_PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _show(call: CommandCall, surroundings: CallOrigin, result: Result) -> None:
    if call.is_json:
        surroundings.stdout.write(as_json(result.data) + "\n")
    elif isinstance(result.show, str):
        if result.show:
            surroundings.stdout.write(clean(result.show) + "\n")
    else:
        has_color = not surroundings.environment.get("NO_COLOR")
        columns = surroundings.environment.get("COLUMNS", "")
        width = surroundings.width or (int(columns) if columns.isdecimal() else 0)
        result.show(
            console(
                surroundings.stdout, is_terminal=surroundings.is_terminal, width=width, has_color=has_color
            )
        )


def _report_refusal(
    call: CommandCall, surroundings: CallOrigin, refusal: Refused, more: Mapping[str, str]
) -> int:
    if call.is_json:
        data = {"refused": refusal.code, "message": refusal.message, **more}
        surroundings.stdout.write(as_json(data) + "\n")
    else:
        remedy = MEANINGS.get(refusal.code, ("", ""))[1]
        lines = [f"refused ({refusal.code}): {clean(refusal.message)}"]
        if remedy:
            lines.append(f"  {remedy}")
        surroundings.stderr.write("\n".join(lines) + "\n")
    return ENVIRONMENT if refusal.code in refusals.ENVIRONMENT else REFUSED


def _report_error(call: CommandCall, surroundings: CallOrigin, kind: str, message: str, code: int) -> int:
    if call.is_json:
        surroundings.stdout.write(as_json({"error": kind, "message": message}) + "\n")
    else:
        surroundings.stderr.write(f"remand: {clean(message)}\n")
    return code
