"""The commands served over HTTP and the names of their arguments, derived from the declarations of the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from inspect import isgeneratorfunction
from types import SimpleNamespace
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec

from remand.app.errors import UsageError
from remand.domain.record import NamedTuple
from remand.interfaces.cli.context import Argument, split_commas
from remand.interfaces.cli.main import command_spec
from remand.interfaces.cli.output import ListPage, RawJson
from remand.interfaces.cli.registry import COMMANDS

_MACHINE = "it concerns the machine that it runs on"
_LASTS = "it runs until somebody stops it, on its own machine"
_KEYS = "it concerns the key of the machine that it runs on, or writes the configuration in its working tree"
_MAINTENANCE = "it repairs or moves the log: run it on the server's machine"

LOCAL: Mapping[str, str] = {
    "init": "it sets up the repository that it runs in",
    "demo": "it creates a repository in a temporary folder",
    "doctor": _MACHINE,
    "completion": "it prints a script for the shell that it runs in",
    "top": _LASTS,
    "run": _LASTS,
    "mcp": _LASTS,
    "serve": _LASTS,
    "worker": _LASTS,
    "coordinator status": _MACHINE,
    "coordinator stop": _MACHINE,
    "hook": "an agent's host calls it, and it looks at the worktree there",
    "hook relay": "only the client of a hook can send it, through /api/calls",
    "pause": "it concerns the sessions of agent hosts on the machine that it runs on",
    "resume": "it concerns the sessions of agent hosts on the machine that it runs on",
    "solo on": "it concerns the sessions of agent hosts on the machine that it runs on",
    "solo off": "it concerns the sessions of agent hosts on the machine that it runs on",
    "solo status": "it concerns the sessions of agent hosts on the machine that it runs on",
    "journal": "it reads what hooks recorded on an agent's machine",
    "notify": "it sends through the channels of the user on the machine that it runs on",
    "keys": _KEYS,
    "keys trust": _KEYS,
    "keys revoke": _KEYS,
    "keys request": _KEYS,
    "keys adopt": _KEYS,
    "log rebuild": _MAINTENANCE,
    "log repair": _MAINTENANCE,
    "log import": _MAINTENANCE,
    "log move": _MAINTENANCE,
    "log archive": _MAINTENANCE,
    "handoff consult": "it runs the user's own commands, which the server does automatically after a rejection",
}
"""Commands without a route, and why. `/api/calls` accepts those in `BY_CALLS` as well as the served ones."""
BY_CALLS = frozenset({"hook relay"})

QUERIES = frozenset(
    {
        *(
            "task list",
            "task show",
            "task ready",
            "handoff status",
            "gate history",
            "gate report",
            "gate check",
            "gate examine",
            "gate wait",
        ),
        *("review list", "review diff", "lockout list", "why", "inbox", "explain", "whoami"),
        *("log tail", "log verify", "log digest", "graph stats", "graph export"),
        *("analyze rejections", "analyze rework", "analyze runs", "analyze integrity", "audit", "token list"),
    }
)
"""Commands that change nothing: their method is GET, and their answers have an ETag."""
CHANGES = frozenset(
    {
        *("task add", "task import", "task claim", "task prompt", "task submit", "task heartbeat"),
        *("task release", "task continue", "task wait", "task fail", "task edit", "task cancel"),
        *("task reopen", "task defer", "handoff initiate", "handoff accept", "handoff complete"),
        *("handoff reject", "handoff appeal", "handoff rejection-response"),
        *("gate run", "gate accept", "gate refuse", "gate override"),
        *("review request", "review approve", "review reject", "review retract", "reject-task"),
        *("reassign", "escalate", "unlock", "say", "inbox answer", "inbox retract", "inbox ack"),
        *("log publish", "simulate", "sync", "token create", "token revoke"),
    }
)
"""Commands that change something, or take a text too long for a URL: their method is POST."""
LONG = frozenset(
    {
        *(
            "task import",
            "task submit",
            "handoff complete",
            "handoff reject",
            "gate run",
            "gate check",
            "gate examine",
            "gate wait",
        ),
        *("review diff", "log verify", "log digest", "log publish", "graph stats", "graph export"),
        *(
            "analyze rejections",
            "analyze rework",
            "analyze runs",
            "analyze integrity",
            "audit",
            "simulate",
            "sync",
        ),
    }
)
"""Commands that run other programs or read the whole log: other calls do not wait for them."""

TEXTS = {("handoff reject", "source"): "record", ("simulate", "policy"): "policy"}
"""Arguments that name a file on the command line, with the name under which HTTP takes its text."""
LEFT_OUT = {("graph export", "output"), ("analyze rejections", "plot"), ("log tail", "follow")}
"""Arguments that write a file or never end: no route offers them, and no command line may use them."""
_OBJECTS = "JSON"
"""The metavar of arguments that take an object as JSON text; over HTTP they take the object itself."""
_LIST_LIMIT = ("limit", "all")
"""The options that limit lists for people; over HTTP lists have pages instead."""


MAX_ROWS = 10_000
"""The most rows a page may have."""


class Parameter(NamedTuple):
    """One argument over HTTP."""

    name: str
    argument: Argument
    type: Any
    is_text: bool = False
    """True if it is the text of what is a file on the command line."""

    @property
    def is_required(self) -> bool:
        options = self.argument.options
        is_positional = not self.argument.names[0].startswith("-")
        return bool(options.get("required")) or (is_positional and options.get("nargs") != "?")


class RemoteCommand:
    """A served command: its path and its parameters."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = f"/api/{name.replace(' ', '/')}"
        self.is_query = name in QUERIES
        self.is_long = name in LONG
        self.has_steps = isgeneratorfunction(command_spec(name).run)
        """Whether it can be carried out together with others."""
        self.help = COMMANDS[name].help
        spec = command_spec(name)
        self.parameters = tuple(_parameter(name, one) for one in spec.arguments if _is_offered(name, one))
        self.has_pages = any(one.dest in _LIST_LIMIT for one in spec.arguments) and self.is_query
        self.record = msgspec.defstruct(
            "".join(word.capitalize() for word in name.replace("-", " ").split()) + "Arguments",
            [
                (one.argument.dest, one.type)
                if one.is_required
                else (one.argument.dest, one.type | msgspec.UnsetType, msgspec.UNSET)
                for one in self.parameters
            ],
            kw_only=True,
            frozen=True,
            forbid_unknown_fields=True,
            rename={one.argument.dest: one.name for one in self.parameters},
        )
        self._defaults = {one.dest: one.default for one in spec.arguments}
        self._by_dest = [(one.argument.dest, one) for one in self.parameters]
        self._decode = msgspec.json.Decoder(self.record).decode

    @property
    def method(self) -> str:
        return "GET" if self.is_query else "POST"

    def read_body(self, body: bytes) -> tuple[SimpleNamespace, str]:
        """The argument values in a JSON body, and the text that replaces a file. Raises `UsageError`."""
        try:
            return self._values(self._decode(body or b"{}"))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"The body does not fit: {error}.") from None

    def read_query(self, query: bytes) -> tuple[SimpleNamespace, str, Mapping[str, str]]:
        """The same from a query string, with its page parameters."""
        try:
            pairs = parse_qsl(
                query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=200
            )
        except ValueError as error:
            raise UsageError(f"The query cannot be read: {error}.") from None
        page = {name: value for name, value in pairs if self.has_pages and name in PAGE_NAMES}
        given = self._gather(pair for pair in pairs if pair[0] not in page)
        try:
            record = msgspec.convert(given, self.record, strict=False)
        except msgspec.MsgspecError as error:
            raise UsageError(f"The query does not fit: {error}.") from None
        return *self._values(record), page

    def read_values(self, given: Mapping[str, Any]) -> tuple[SimpleNamespace, str]:
        """The same from values by name, which may be strings. Raises `UsageError`."""
        try:
            return self._values(msgspec.convert(given, self.record, strict=False))
        except msgspec.MsgspecError as error:
            raise UsageError(f"The values do not fit: {error}.") from None

    def read_form(self, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """The argument values in a form's fields; empty fields are ignored. Raises `UsageError`."""
        names = {one.name for one in self.parameters}
        return self._gather(pair for pair in pairs if pair[0] in names and pair[1])

    def command_line(self, given: Mapping[str, Any]) -> list[str]:
        """The equivalent command line."""
        words, options = ["remand", *self.name.split(" ")], []
        for one in self.parameters:
            if one.name not in given:
                continue
            value, option = given[one.name], one.argument.names[-1]
            values = [str(part) for part in (value if isinstance(value, list) else [value])]
            if not option.startswith("-"):
                words += values
            elif one.type is bool:
                options.append(option)
            else:
                options += [word for part in values for word in (option, part)]
        return words + options

    def _gather(self, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """The values of a query string by name; refuses repeated values for a single-valued argument."""
        lists = {one.name for one in self.parameters if _is_list(one.argument)}
        given: dict[str, Any] = {}
        for name, value in pairs:
            if name in lists:
                given.setdefault(name, []).append(value)
            elif name in given:
                raise UsageError(f"{name} is given more than once.")
            else:
                given[name] = value
        return given

    def _values(self, record: Any) -> tuple[SimpleNamespace, str]:
        values, text = dict(self._defaults), ""
        for dest, one in self._by_dest:
            value = getattr(record, dest)
            if value is msgspec.UNSET:
                continue
            _require_whole_texts(value)
            if one.is_text:
                text, value = value if isinstance(value, str) else json.dumps(value), "-"
            values[dest] = _as_on_the_command_line(one.argument, value)
        return SimpleNamespace(**values), text


PAGE_NAMES = ("limit", "after")
_PLACE = re.compile(r"(\d{1,9})-([0-9a-f]{16})")


def cut_page(data: Any, page: Mapping[str, str]) -> tuple[Any, str]:
    """One page of a list, and the cursor of the next page; empty after the last page. Raises `UsageError`.

    A cursor is the number and hash of the last row: rows added or removed before it do not matter as long as that row
    is unchanged.
    """
    if isinstance(data, ListPage):
        return data
    rows = json.loads(data) if isinstance(data, RawJson) else data
    if not isinstance(rows, list):
        return data, ""
    limit, after = require_limit(page), page.get("after", "")
    start = _find_place(rows, after) if after else 0
    end = min(start + limit, len(rows)) if limit else len(rows)
    return rows[start:end], f"{end}-{_row_hash(rows[end - 1])}" if start < end < len(rows) else ""


def require_limit(page: Mapping[str, str]) -> int:
    """The requested page length; 0 for all. Raises `UsageError`."""
    limit = page.get("limit", "")
    if limit and not (limit.isascii() and limit.isdigit() and 0 < int(limit[:10]) <= MAX_ROWS):
        raise UsageError(f"limit is a number from 1 to {MAX_ROWS}.")
    return int(limit or 0)


def _find_place(rows: list[Any], after: str) -> int:
    found = _PLACE.fullmatch(after)
    if found is None:
        raise UsageError("after is not a place in the list. Take it from the Link header of the page before.")
    number, mark = int(found[1]), found[2]
    if 0 < number <= len(rows) and _row_hash(rows[number - 1]) == mark:
        return number
    moved = (place for place, row in enumerate(rows, start=1) if _row_hash(row) == mark)
    return next(moved, min(number, len(rows)))


def _row_hash(row: Any) -> str:
    return sha256(json.dumps(row).encode()).hexdigest()[:16]


@cache
def remote_commands() -> dict[str, RemoteCommand]:
    """All served commands by name."""
    return {name: RemoteCommand(name) for name in COMMANDS if name not in LOCAL}


def require_served(command: str, values: object) -> None:
    """Refuses a call with one of `LEFT_OUT`, in whichever form. Raises `UsageError`."""
    for one in command_spec(command).arguments:
        if (command, one.dest) in LEFT_OUT and getattr(values, one.dest, one.default) != one.default:
            raise UsageError(
                f"`remand {command}` takes no {one.names[-1]} on a server. Leave it out, or run the command where the ledger is."
            )


def _is_offered(command: str, argument: Argument) -> bool:
    return (command, argument.dest) not in LEFT_OUT and argument.dest not in _LIST_LIMIT


def _is_list(argument: Argument) -> bool:
    options = argument.options
    return options.get("action") in ("append", "extend") or options.get("nargs") == "+"


def _parameter(command: str, argument: Argument) -> Parameter:
    if (command, argument.dest) in TEXTS:
        kind = dict[str, Any] if command == "handoff reject" else str
        return Parameter(TEXTS[command, argument.dest], argument, kind, is_text=True)
    long = next((name for name in argument.names if name.startswith("--")), "")
    name = long.removeprefix("--").replace("-", "_") or argument.dest
    return Parameter(name, argument, _type(argument))


def _type(argument: Argument) -> Any:
    """The type of an argument, which msgspec checks."""
    options = argument.options
    if options.get("action") == "store_true":
        return bool
    convert = options.get("type", str)
    one: Any = convert if convert in (int, float) else str
    if "choices" in options:
        one = Literal[tuple(map(str, options["choices"]))]
    elif options.get("metavar") == _OBJECTS:
        one = dict[str, Any]
    elif convert not in (int, float, str, split_commas):
        one = str | float
    return list[one] if _is_list(argument) or convert is split_commas else one


def _as_on_the_command_line(argument: Argument, value: Any) -> Any:
    """A value converted as on the command line. Raises `UsageError`."""
    convert = argument.options.get("type", str)
    if isinstance(value, list):
        return (
            tuple(value)
            if convert is split_commas
            else [_as_on_the_command_line(argument, one) for one in value]
        )
    if isinstance(value, dict):
        return json.dumps(value)
    if convert in (str, int, float, split_commas) or isinstance(value, bool):
        return value
    try:
        return convert(str(value))
    except (TypeError, ValueError):
        raise UsageError(f"{argument.dest} does not take {str(value)[:80]!r}.") from None


def _require_whole_texts(value: Any) -> None:
    """Refuses a text with a NUL character, at any depth: no program accepts one."""
    if isinstance(value, str):
        if "\0" in value:
            raise UsageError("A text contains a NUL character. Remove it.")
    elif isinstance(value, dict | list):
        for one in (*value, *value.values()) if isinstance(value, dict) else value:
            _require_whole_texts(one)
