"""Runs one call of the command line, from its words to its exit code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from remand.app.errors import LedgerReplaced, RemandError, UsageError
from remand.app.reminders import UnseenCounts, held_events_warning, key_warning, log_warning, reminder
from remand.domain import refusals
from remand.domain.access.coordinator_start import NEVER_STARTING
from remand.domain.refusals import MEANINGS, Refused
from remand.interfaces.cli import argument_parser
from remand.interfaces.cli.context import (
    SPECS,
    CallOrigin,
    CallWarnings,
    CommandSpec,
    Context,
    Steps,
    Value,
    parse_usual,
)
from remand.interfaces.cli.output import (
    NamedValues,
    ProgressLines,
    Result,
    as_json,
    clean,
    console,
    short_names,
)
from remand.interfaces.cli.registry import COMMANDS, COMMON_COMMANDS, GROUPS, CommandCall, parse_call
from remand.ledger.problems import BadLine
from remand.startup import TYPE_CHECKING
from remand.wiring.after_call import after_call, unseen_counts
from remand.wiring.startup import files, locate, views

if TYPE_CHECKING:
    from argparse import Namespace

    from remand.app.requests import Answer, Request
    from remand.wiring.open_ledger import OpenLedger
    from remand.wiring.startup import LedgerLocation

REFUSED, USAGE, ENVIRONMENT = 1, 2, 3
LOCK_TIMEOUT_SECONDS = 60
_WITHOUT_WARNINGS = ("serve", "hook", "hook relay", "completion")
"""Commands after which nobody reads warnings: agents or starting shells read the output, or nobody does."""
_UNATTENDED = (*_WITHOUT_WARNINGS, "top", "mcp", "run", "demo")
"""Commands that show their progress themselves."""
_WITH_WHOLE_IDS = ("task prompt", "review diff", "gate report", "graph export", "log tail", "completion")
"""Commands whose output is a document or for programs. All others print short ids on a terminal."""
_SLOW = frozenset(
    (
        *(
            "sync",
            "task import",
            "review diff",
            "doctor",
            "simulate",
            "journal",
            "graph stats",
            "graph export",
        ),
        *(name for name in COMMANDS if name.startswith(("log ", "analyze "))),
    )
)
"""Slow commands that people run: in a pipe they print a progress line now and then."""


def run(arguments: list[str], origin: CallOrigin) -> int:
    """Runs a call and returns its exit code. Every failure is printed, never raised."""
    warnings = _Warnings()
    token = short_names.set(None)
    try:
        code = _run(parse_call(arguments), origin, warnings)
    finally:
        short_names.reset(token)
    origin.stderr.write(f"{warnings.fault}{warnings.key}{warnings.held}{warnings.damage}{warnings.reminder}")
    if origin.is_own_process and warnings.context and warnings.context.call.command not in NEVER_STARTING:
        origin.stdout.flush()  # nobody waits for what is started behind the answer
        warnings.context.start_coordinator_if_missing()
    return code


class _Warnings:
    """The warnings printed after an answer, and the call they follow, once it was carried out or refused."""

    context: Context | None = None
    fault = key = held = damage = reminder = ""

    def ask(self, request: Request) -> Answer:
        if self.context is None:
            raise AssertionError("no command has begun")
        return self.context.gateway.ask(request)

    @property
    def data(self) -> dict[str, str]:
        return {"log_warning": self.damage.removeprefix("remand: ").strip()} if self.damage else {}


def _run(call: CommandCall, origin: CallOrigin, warnings: _Warnings) -> int:
    try:
        with _show_progress(call, origin) as progress:
            result = _result(call, origin, warnings, progress)
    except (Refused, BadLine, RemandError, OSError) as error:
        if isinstance(error, LedgerReplaced) and origin.opened is not None:
            raise
        if clean(str(error)) in warnings.fault:
            warnings.fault = ""
        return report_failure(call, origin, error, warnings.data)
    if call.is_json:
        origin.stdout.write(as_json(_marked_data(result, warnings)) + "\n")
    elif isinstance(result.show, str) or (isinstance(result.show, NamedValues) and not origin.is_terminal):
        origin.stdout.write(f"{text}\n" if (text := clean(result.show)) else "")
    else:
        columns = origin.environment.get("COLUMNS", "")
        width = origin.width or (int(columns) if columns.isdecimal() else 0)
        has_color = not origin.environment.get("NO_COLOR")
        result.show(console(origin.stdout, is_terminal=origin.is_terminal, width=width, has_color=has_color))
    return result.code


def answer(call: CommandCall, values: SimpleNamespace, origin: CallOrigin) -> Steps[tuple[int, Any]]:
    """Runs a call whose arguments were given by name; returns its exit code and its `--json` output.

    Raises only `LedgerReplaced`: whoever holds the ledger open opens it again.
    """
    warnings = _Warnings()
    try:
        result = yield from _carry_out(call, values, origin, warnings, ProgressLines(origin.stderr))
    except (Refused, BadLine, RemandError, OSError) as error:
        if isinstance(error, LedgerReplaced):
            raise
        code, data, _ = _describe_failure(error, warnings.data)
        return code, data
    return result.code, _marked_data(result, warnings)


def _marked_data(result: Result, warnings: _Warnings) -> Any:
    """The JSON data, with the warning about a damaged log if it is an object."""
    is_marked = bool(warnings.data) and type(result.data) is dict
    return result.data | warnings.data if is_marked else result.data


def report_failure(
    call: CommandCall,
    origin: CallOrigin,
    error: Refused | BadLine | RemandError | OSError,
    more: Mapping[str, str] | None = None,
) -> int:
    """Prints why a call was not carried out, and returns its exit code."""
    code, data, text = _describe_failure(error, more or {})
    if call.is_json:
        origin.stdout.write(as_json(data) + "\n")
    else:
        origin.stderr.write(f"{text}\n")
    return code


def _describe_failure(
    error: Refused | BadLine | RemandError | OSError, more: Mapping[str, str]
) -> tuple[int, dict[str, str], str]:
    """The exit code of a call that was not carried out, and the reason: for programs, and for people."""
    if isinstance(error, Refused):
        code = ENVIRONMENT if error.code in refusals.ENVIRONMENT else REFUSED
        remedy = MEANINGS.get(error.code, ("", ""))[1]
        text = f"refused ({error.code}): {clean(error.message)}" + (f"\n  {remedy}" if remedy else "")
        return code, {"refused": error.code, "message": error.message, **more}, text
    kind, code = ("usage", USAGE) if isinstance(error, UsageError) else ("environment", ENVIRONMENT)
    message = str(error)
    if isinstance(error, BadLine):
        message = f"The ledger is damaged: a line in it {error}. `remand log verify` shows details."
    return code, {"error": kind, "message": message}, f"remand: {clean(message)}"


def _result(call: CommandCall, origin: CallOrigin, warnings: _Warnings, progress: ProgressLines) -> Result:
    if call.usage_error:
        raise UsageError(call.usage_error)
    if call.command in GROUPS and not call.wants_help:
        raise UsageError(f"`remand {call.command}` needs one of its commands:\n{help_text(call.command)}")
    if call.command in ("", "help") or (call.wants_help and call.command not in COMMANDS):
        group = " ".join(call.rest) if call.command == "help" else call.command.split(" ")[0]
        return Result(sorted(COMMANDS), help_text(group))
    if call.command == "--version":
        from importlib.metadata import version  # loaded for this alone

        found = version("remand")
        return Result({"version": found}, f"remand {found}")
    if call.command not in COMMANDS:
        raise UsageError(unknown_command_message(call.command))
    if call.wants_help:
        text = command_parser(call.command)[1].format_help()
        return Result({"help": text}, text.rstrip())
    if origin.is_terminal and not call.is_json and call.command not in _WITH_WHOLE_IDS:
        short_names.set(_ShortNames(call, origin))
    steps = _carry_out(call, parse_values(call), origin, warnings, progress)
    return complete(steps, warnings.ask)


def complete(steps: Steps[Value], ask: Callable[[Request], Answer]) -> Value:
    """Takes all steps of a command."""
    try:
        request = next(steps)
        while True:
            try:
                found = ask(request)
            except RemandError as error:
                request = steps.throw(error)
            else:
                request = steps.send(found)
    except StopIteration as end:
        value: Value = end.value
        return value


def parse_values(call: CommandCall) -> Namespace | SimpleNamespace:
    """The values of a call's arguments. Raises `UsageError`."""
    usual = parse_usual(command_spec(call.command).arguments, call.rest)
    return usual if usual is not None else command_parser(call.command)[1].parse_args(call.rest)


def _carry_out(
    call: CommandCall,
    arguments: Namespace | SimpleNamespace,
    origin: CallOrigin,
    warnings: _Warnings,
    progress: ProgressLines,
) -> Steps[Result]:
    """Runs a command with the values of its arguments, and what follows every call."""
    context = warnings.context = Context(call, arguments, origin, progress)
    try:
        result = command_spec(call.command).run(context)
        if not isinstance(result, Result):
            result = yield from result
    finally:
        if call.command not in _WITHOUT_WARNINGS:
            _finish(context, warnings)
    has_written = context.has_opened_ledger and context.gateway.has_written
    if (
        isinstance(result.data, dict)
        and call.command not in _WITHOUT_WARNINGS
        and has_written
        and warnings.key
    ):
        return result._replace(data={"unconfirmed": True} | result.data)
    return result


class _ShortNames:
    """Short names for the ledger's tasks in a call; each is looked up once."""

    def __init__(self, call: CommandCall, origin: CallOrigin) -> None:
        self._folder, self._opened = os.path.join(origin.folder, call.folder), origin.opened
        self._known: dict[str, tuple[str, str]] = {}

    def __call__(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        new = [name for name in ids if name not in self._known]
        place = (self._opened.place if self._opened else locate(self._folder)) if new else None
        if place is not None:
            view = self._opened.view if self._opened else None
            found = view.short_names(new) if view else views.read_short_names(place.database, new)
            self._known |= {name: ("", name) for name in new} | found
        return {name: self._known[name] for name in ids if name in self._known}


def _finish(context: Context, warnings: _Warnings) -> None:
    """Updates the files beside the ledger, warns about a damaged log, and reminds the user of open questions."""
    opened, known = context.origin.opened, context.origin.warnings
    if known is None and context.has_opened_ledger:
        known = finish_call(context.place, context.gateway.already_open_ledger)
    elif known is None:
        place = opened.place if opened else locate(context.folder)
        counts = unseen_counts(place, opened) if place else UnseenCounts()
        known = CallWarnings(damage=log_warning(counts), reminder=reminder(counts))
    warnings.damage, warnings.reminder = known.damage, "" if context.is_confined else known.reminder
    if context.has_opened_ledger:
        warnings.fault, warnings.key, warnings.held = known.fault, known.key, known.held


def finish_call(place: LedgerLocation, opened: OpenLedger | None) -> CallWarnings:
    """The steps after a call, or after many calls of a server; returns the warnings."""
    counts, fault = after_call(place, opened).run()
    return CallWarnings(
        fault=f"remand: {clean(fault)}\n" if fault else "",
        key=key_warning(views.untrusted_writer(place.database, opened.view if opened else None)),
        held=held_events_warning(opened.store) if opened else "",
        damage=log_warning(counts),
        reminder=reminder(counts),
    )


def command_parser(name: str) -> tuple[CommandSpec, argument_parser.CommandParser]:
    """A command, and the parser of its arguments."""
    spec = command_spec(name)
    return spec, argument_parser.build_parser(name, COMMANDS[name].help, spec)


def command_spec(name: str) -> CommandSpec:
    """The declaration of a command; loads its module."""
    import_module(COMMANDS[name].module_name)
    return SPECS[name]


def unknown_command_message(words: str) -> str:
    """What to print for an unknown command, with the nearest one that exists."""
    group = [name for name in COMMANDS if name.split(" ")[0] == words.split(" ", maxsplit=1)[0]]
    from difflib import get_close_matches  # loaded for a mistyped command alone

    for close in get_close_matches(words, COMMANDS, 1):
        return f"There is no command `{clean(words)}`; did you mean `remand {close}`?"
    if group:
        return f"There is no command `{clean(words)}`; the commands are {', '.join(group)}."
    return f"There is no command `{clean(words)}`. `remand --help` lists them all."


def help_text(group: str) -> str:
    """The short help; with the first word of a group, that of the group; with `all`, a line for every command."""
    listed = {"": COMMON_COMMANDS, "all": tuple(COMMANDS)}.get(group) or tuple(
        name for name in COMMANDS if name.split(" ")[0] == group
    )
    if group in COMMANDS:
        return command_parser(group)[1].format_help().rstrip()
    if not listed:
        raise UsageError(unknown_command_message(group))
    wide = max(map(len, listed))
    rows = [f"  {name:<{wide}}  {COMMANDS[name].help}" for name in listed]
    if group:
        return "\n".join([*rows, "", "`--help` after a command shows its options."])
    return "\n".join(
        [
            'Remand: makes "no" count in a team of AI coding agents.',
            "",
            "Common commands:",
            *rows,
            "",
            "More commands (`remand help WORD` explains one or a group, `remand help all` lists every command):",
            *_command_words(),
            "",
            "Every command takes --json, -C DIR, --as NAME, --key KEY and --help.",
            "Start with `remand demo`, then `remand init` in your own repository.",
        ]
    )


def _command_words() -> list[str]:
    """The commands grouped by their first word."""
    words: dict[str, list[str]] = {}
    for name in COMMANDS:
        first, _, rest = name.partition(" ")
        words.setdefault(first, []).extend([rest] if rest else [])
    alone = [word for word, rest in words.items() if not rest]
    rows = [f"  {word}: {', '.join(rest)}" for word, rest in words.items() if rest]
    return [*rows, f"  {', '.join(alone)}"]


@contextmanager
def _show_progress(call: CommandCall, origin: CallOrigin) -> Iterator[ProgressLines]:
    """Shows the progress of slow steps, and ends a short call that waits too long for a lock; a coordinator has its own time limit."""
    entry, progress = COMMANDS.get(call.command), ProgressLines(origin.stderr)
    if entry is None or call.command in _UNATTENDED or origin.opened is not None:
        yield progress
        return
    # Who reads a pipe reads the outcome, and a program that asks for JSON reads nothing else.
    is_seen = origin.stderr.isatty() or (call.command in _SLOW and not call.is_json)
    if not entry.may_be_forwarded and is_seen and call.is_self_contained:
        progress.watch(call.command)
    try:
        with files.limit_lock_wait(LOCK_TIMEOUT_SECONDS if entry.may_be_forwarded else 0, progress.show):
            yield progress
    finally:
        progress.close()
