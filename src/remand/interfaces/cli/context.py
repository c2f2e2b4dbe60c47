"""What a command works with: its arguments, the actor, and the ledger."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from types import SimpleNamespace
from typing import Any, TypeVar

from msgspec.structs import replace

from remand.app.errors import RemandError, UsageError
from remand.app.requests import Acceptance, Answer, Request, actor_name, is_agent_environment
from remand.config import inherited_environment
from remand.domain import commands as c
from remand.domain.access.coordinator_start import StartFacts
from remand.domain.access.team import USER, Actor
from remand.domain.events.event import KnownBy
from remand.domain.instant import Instant, parse_local_instant
from remand.domain.preconditions import require_user
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused
from remand.interfaces.cli.output import ProgressLines, Result, clean
from remand.interfaces.cli.registry import CommandCall
from remand.startup import TYPE_CHECKING
from remand.wiring import gates as gates_of_ledger
from remand.wiring.ledger import Gateway, background_start, find_place
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation, current_branch, socket_folder

if TYPE_CHECKING:
    from argparse import Namespace

    from remand.app.gates.done_claims import ClaimOutcome
    from remand.app.gates.gates import Gates
    from remand.domain.access.tokens import Caller

MAX_VALUE = 4 << 20
Value = TypeVar("Value")
Steps = Generator[Request, Answer, Value]
"""A command that yields its requests and is sent their answers, so that a server can answer those of many calls together."""
Run = TypeVar("Run", bound="Callable[[Context], Result | Steps[Result]]")


class CommandSpec(NamedTuple):
    arguments: tuple[Argument, ...]
    run: Callable[[Context], Result | Steps[Result]]


SPECS: dict[str, CommandSpec] = {}
"""The commands of the modules loaded so far. `registry.COMMANDS` names the module of each."""


class Argument(NamedTuple):
    names: tuple[str, ...]
    options: dict[str, Any]
    help: str

    @property
    def dest(self) -> str:
        """The name of its value."""
        long = next((name for name in self.names if name.startswith("--")), self.names[0])
        usual = long.lstrip("-").replace("-", "_") if long.startswith("-") else long
        return str(self.options.get("dest") or usual)

    @property
    def default(self) -> Any:
        """Its value if none is given."""
        is_flag = self.options.get("action") == "store_true"
        return self.options.get("default", False if is_flag else None)

    def takes_more(self, count: int) -> bool:
        """True if an option with this many values takes another word."""
        if self.options.get("action") == "store_true":
            return False
        return self.options.get("nargs") == "+" or not count

    def store(self, values: dict[str, Any], words: list[str]) -> bool:
        """Stores the given values; False if they are unusual and need the full parser."""
        action, nargs = self.options.get("action", "store"), self.options.get("nargs")
        is_list = action == "extend" and nargs == "+"
        if action == "store_true" and not words:
            values[self.dest] = True
            return True
        if not words or not (is_list or (action in ("store", "append") and nargs in (None, "?"))):
            return False
        if len(words) > 1 and not is_list:
            return False
        try:
            found = [self.options.get("type", str)(word) for word in words]
        except (TypeError, ValueError):
            return False
        if "choices" in self.options and not all(one in self.options["choices"] for one in found):
            return False
        values[self.dest] = found[0] if action == "store" else [*(values[self.dest] or ()), *found]
        return True


def argument(*names: str, **options: Any) -> Argument:
    """One argument of a command, as for `ArgumentParser.add_argument`.

    Without a help line it gets the usual one for its name.
    """
    text = options.pop("help", "") or _USUAL_HELP.get(names[0], "")
    if "choices" in options and "metavar" in options:
        text = f"{text}: {', '.join(map(str, options['choices']))}"
    return Argument(names, options, text)


_TASK = "the task, by its id, an alias such as '#42', or the last characters of its id"
_HANDOFF = "the handoff, by its id (H-…) or the last characters of it"
_USUAL_HELP = {
    "id": _TASK,
    "task": _TASK,
    "--task": _TASK,
    "handoff": _HANDOFF,
    "agent": "the agent, by name",
    "--agent": "the acting agent; by default the caller",
    "--reviewer": "the acting reviewer; by default the caller",
    "--commit": "the commit, by its id or a name that git knows",
    "--branch": "the branch of the work",
    "--pr": "the number of the pull request",
    "--reason": "why, for the record",
    "--priority": "how urgent the task is",
    "--category": "a word by which tasks are grouped",
    "--depends-on": "tasks that have to be done first",
    "--to": "the agent to receive it",
    "--title": "a new title",
    "--status": "only tasks of these statuses",
    "--drop-depends-on": "tasks to wait for no longer",
}
"""The help lines of arguments that mean the same in most commands."""


MAX_ROWS = 2**31 - 1
"""No store takes a larger number as a limit."""

PAGE = (
    argument("--limit", type=int, default=50, metavar="N", help="show N rows (50)"),
    argument("--all", action="store_true", help="show every row"),
)
"""How many rows of a list text output shows. JSON is always complete."""


def command(name: str, *arguments: Argument) -> Callable[[Run], Run]:
    """Declares the function that runs a command, and the command's arguments."""

    def register(run: Run) -> Run:
        SPECS[name] = CommandSpec(arguments, run)
        return run

    return register


class CallWarnings(NamedTuple):
    """Warnings printed after an answer: each a line, or empty."""

    fault: str = ""
    key: str = ""
    held: str = ""
    damage: str = ""
    reminder: str = ""


class CallOrigin(NamedTuple):
    """The process from which a call comes."""

    folder: str
    environment: Mapping[str, str]
    stdout: Any
    stderr: Any
    is_terminal: bool = False
    width: int = 0
    opened: OpenLedger | None = None
    """The ledger, if it is already open, as in the coordinator."""
    given: str | None = None
    """The text that an agent's socket or an HTTP request sent as standard input.

    No file is read then: a value is plain text.
    """

    known_by: KnownBy = KnownBy.WORD
    """How the caller was identified."""
    branch: str | None = None
    """The branch that is checked out where the call comes from; None: that of the folder here."""
    warnings: CallWarnings | None = None
    """The warnings, if a server collects them. None: the call looks them up itself."""
    is_own_process: bool = False
    """True if the process was started just for this call."""
    caller: Caller | None = None
    """The caller that the server identified; None elsewhere. If set, it alone determines the actor and its roles."""

    @classmethod
    def of_this_process(cls, environment: Mapping[str, str]) -> CallOrigin:
        return cls(os.getcwd(), environment, sys.stdout, sys.stderr, sys.stdout.isatty(), is_own_process=True)


class Context:
    """One call, with everything it may use, each opened at first use."""

    def __init__(
        self,
        call: CommandCall,
        arguments: Namespace | SimpleNamespace,
        origin: CallOrigin,
        progress: ProgressLines | None = None,
    ) -> None:
        self.call = call
        self.arguments = arguments
        self.origin = origin
        self.progress = progress or ProgressLines(origin.stderr)
        is_known = origin.caller is not None and not call.folder  # a server's own folder has its normal form
        self.folder = (
            origin.folder if is_known else os.path.normpath(os.path.join(origin.folder, call.folder))
        )

    @property
    def row_limit(self) -> int:
        """How many rows of a list to show; 0 for all."""
        return 0 if self.arguments.all else min(max(self.arguments.limit, 1), MAX_ROWS)

    @cached_property
    def place(self) -> LedgerLocation:
        caller, opened = self.origin.caller, self.origin.opened
        if caller is not None and opened is not None and opened.place.worktree == self.folder:
            return opened.place  # a server has one place, which it need not find again for every call
        return find_place(self.folder)

    @cached_property
    def gateway(self) -> Gateway:
        return Gateway(self.place, self.origin.opened)

    @property
    def has_opened_ledger(self) -> bool:
        """True if the call has used the ledger."""
        return "gateway" in vars(self)

    @cached_property
    def opened_ledger(self) -> OpenLedger:
        """The ledger itself, with all event files read."""
        opened = self.gateway.opened_ledger
        opened.ledger.refresh()
        return opened

    @property
    def is_confined(self) -> bool:
        """True inside an agent's environment, and for a caller with no more rights than that."""
        caller = self.origin.caller
        return is_agent_environment(self.origin.environment) or (caller is not None and caller.is_confined)

    def actor(self, *, option: str = "") -> str:
        """The actor: from the command's own option, `--as`, the environment, or the user."""
        named = (option and getattr(self.arguments, option, "")) or self.call.actor
        if self.origin.caller is None:
            return actor_name(named, self.origin.environment)
        # The environment is the client's: what it says is no more than a name.
        own = self.origin.environment.get("REMAND_ACTOR", "")
        return self.origin.caller.acting_name(named or own)

    def limit(self, actor: Actor) -> Actor:
        """An actor in whose name the caller acts, without roles that the caller's token does not grant."""
        roles = self.origin.caller.roles_as(actor.name) if self.origin.caller else None
        return actor if roles is None else actor.limit(roles)

    def known_by(self, actor: str) -> KnownBy:
        """How the actor was identified."""
        return self.origin.caller.known_by(actor) if self.origin.caller else self.origin.known_by

    def user(self) -> Actor:
        """The actor of a command that only the user may give."""
        team = self.opened_ledger.settings.rules().team
        actor = self.limit(team.actor(self.actor(), confined=self.is_confined))
        require_user(actor)
        return actor

    def agent(self) -> str:
        """The agent that acts; refuses to guess."""
        name = self.actor(option="agent")
        if name == USER and not (self.call.actor or getattr(self.arguments, "agent", "")):
            raise UsageError("Name the agent: --agent NAME.")
        return name

    def ask(self, command: c.Command, actor: str, *, step: int = 0) -> Acceptance:
        """Sends a command to the ledger; a refusal is raised.

        A call that sends several commands numbers them with `step`.
        """
        request = self._request(command, actor)
        if step and request.key:
            request = replace(request, key=f"{request.key}.{step}")
        answer = self.gateway.ask(request)
        if isinstance(answer, Refused):
            raise answer
        return answer

    def ask_by_step(self, command: c.Command, actor: str) -> Steps[Acceptance]:
        """The same as a step of the command."""
        answer = yield self._request(command, actor)
        self.gateway.note_answer(answer)
        if isinstance(answer, Refused):
            raise answer
        return answer

    def claim_done(self, command: c.SubmitTask | c.CompleteHandoff, actor: str) -> ClaimOutcome:
        """Makes a done claim, which is measured before it counts."""
        # Who reads a pipe reads the outcome; only a person who waits is shown how far it is.
        with self.gate_progress() if self.origin.stderr.isatty() else nullcontext():
            return self.gates.claim(self._request(command, actor), self.gateway.ask)

    def claim_known(self, command: c.SubmitTask, actor: str, *, step: int = 0) -> ClaimOutcome | None:
        """Makes a done claim after a step of a call, if no gate has to run for it."""
        request = self._request(command, actor)
        return self.gates.claim_known(
            replace(request, key=f"{request.key}.{step}.claim" if request.key else ""), self.gateway.ask
        )

    @cached_property
    def gates(self) -> Gates:
        """The gates of the ledger, loaded at first use."""
        return gates_of_ledger.make_gates(self.opened_ledger)

    @contextmanager
    def gate_progress(self) -> Iterator[None]:
        """Shows on standard error which gate is running; not with `--json`."""
        if self.call.is_json and not self.origin.stderr.isatty():
            yield
            return
        self.gates.progress = self.progress
        try:
            yield
        finally:
            self.progress.clear()

    def start_facts(self) -> StartFacts:
        """The facts that decide whether this call may start a coordinator."""
        named = getattr(self.arguments, "agent", "") or self.actor()
        return background_start.collect_facts(
            inherited_environment(),
            self.place.got,
            setting=self.gateway.opened_ledger.settings.settings().run.coordinator,
            actor="" if named == USER else named,
        )

    def start_coordinator_if_missing(self) -> None:
        """Starts a coordinator after a call that had to open the ledger itself."""
        opened = self.gateway.already_open_ledger if self.has_opened_ledger else None
        if opened is not None and socket_folder():
            with suppress(RemandError, Refused):
                folders, facts = opened.folders, self.start_facts()
                background_start.start_if_missing(
                    folders.socket, folders.coordinator_log, opened.place.root, facts
                )

    def _request(self, command: c.Command, actor: str) -> Request:
        caller = self.origin.caller
        if caller is not None:
            actor = caller.acting_name(actor)
        return Request(
            command=command,
            actor=actor,
            confined=self.is_confined,
            key=self.call.key,
            branch=self.branch,
            known_by=self.known_by(actor),
            roles=caller.roles_as(actor) if caller else None,
        )

    @property
    def branch(self) -> str:
        """The branch that is checked out where the call comes from; empty if there is none."""
        return current_branch(self.place.git_dir) if self.origin.branch is None else self.origin.branch

    def commit(self, name: str) -> str:
        """The full id of a commit by any name; a name that git does not know is passed on, to be refused."""
        found = self.gateway.repository.commit(name)
        return found.sha if found else name

    def write_line(self, text: str) -> None:
        """Prints progress for people at once; a program gets one document at the end."""
        if not self.call.is_json:
            self.progress.clear()
            self.origin.stdout.write(f"{clean(text)}\n")
            self.origin.stdout.flush()

    def text(self, value: str | None) -> str:
        """A value, or what it refers to: `@file` a file, `-` standard input."""
        if value is None:
            return ""
        if self.origin.given is not None:
            return value
        if value == "-" or (value.startswith("@") and len(value) > 1):
            return self.file(value.removeprefix("@"))
        return value

    def require_own_machine(self, option: str) -> None:
        """Refuses, for calls from another machine, an option that writes a file or runs without end."""
        if self.origin.given is not None:
            raise UsageError(
                f"`remand {self.call.command}` takes no {option} here: it is meaningful only on the caller's own machine."
            )

    def since(self) -> Instant:
        """The time that `--since` names, in UTC; empty if it is not given. Without a zone it is local time."""
        text = self.arguments.since
        found = parse_local_instant(text) if text else ""
        if found is None:
            raise UsageError(
                f"--since {text[:40]!r} is not a date. Write a day as 2026-11-15 or a time as 2026-11-15T09:00:00, "
                "in your time zone, or with Z in UTC."
            )
        return found

    def file(self, name: str) -> str:
        """The content of a file; `-` is standard input."""
        given = self.origin.given
        if given is not None and name != "-":
            raise UsageError("The agent socket does not read files. Give the text itself.")
        if name == "-":
            if self.origin.opened is not None and given is None:
                raise UsageError("Standard input cannot be read here. Give the text itself, or @file.")
            text = sys.stdin.read(MAX_VALUE + 1) if given is None else given
            return _require_length(text, "standard input")
        path = os.path.join(self.origin.folder, name)
        try:
            with open(path, encoding="utf-8") as file:
                return _require_length(file.read(MAX_VALUE + 1), path)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"The file {path} cannot be read: {error}.") from None


def _require_length(text: str, where: str) -> str:
    """The text, if it is not too long; nothing is silently cut."""
    if len(text) > MAX_VALUE:
        raise UsageError(f"{where} has more than {MAX_VALUE} characters. Shorten it.")
    return text


def parse_usual(arguments: tuple[Argument, ...], words: list[str]) -> SimpleNamespace | None:
    """The values of a command's arguments, as `CommandParser` finds them; None if they need the full parser.

    Loading and building that parser takes a twentieth of a short command. It handles every call that is wrong or
    unusual: `--`, values that begin with a dash, and positional words on both sides of an option.
    """
    options = {name: one for one in arguments if one.names[0].startswith("-") for name in one.names}
    values = {one.dest: one.default for one in arguments}
    positional: list[str] = []
    given: set[str] = set()
    end, number = 0, 0
    while number < len(words):
        word, equals, value = words[number].partition("=")
        number += 1
        if not words[number - 1].startswith("-"):
            if positional and end != number - 1:
                return None
            positional.append(words[number - 1])
            end = number
            continue
        found = options.get(word)
        if found is None or value == "--":
            return None
        taken = [value] if equals else []
        # What follows `--option=value` is no value of that option, even where it takes several.
        while (
            not equals
            and number < len(words)
            and not words[number].startswith("-")
            and found.takes_more(len(taken))
        ):
            taken.append(words[number])
            number += 1
        if not found.store(values, taken):
            return None
        given.add(found.dest)
    named = [one for one in arguments if not one.names[0].startswith("-")]
    if any(one.options.get("required") and one.dest not in given for one in options.values()):
        return None
    if not all(one.store(values, [word]) for one, word in zip(named, positional, strict=False)):
        return None
    is_enough = all(one.options.get("nargs") == "?" for one in named[len(positional) :])
    return SimpleNamespace(**values) if is_enough and len(positional) <= len(named) else None


def split_commas(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())


def require_json_object(value: str) -> str:
    """A text that must be a JSON object, kept as text."""
    try:
        found = json.loads(value)
    except ValueError as error:
        raise UsageError(f"That is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise UsageError('That must be a JSON object, as in \'{"key": "value"}\'.')
    return value


def require_no_password(address: str, option: str) -> None:
    """Refuses a password in an option, because every process on the machine can read it there."""
    from urllib.parse import parse_qsl, urlsplit

    try:
        parts = urlsplit(address)
    except ValueError:
        return  # no address at all, which whoever opens it says
    if parts.password or any(name in ("password", "sslpassword") for name, _ in parse_qsl(parts.query)):
        raise UsageError(
            f"{option} has a password in it, which every process of this machine can read. Leave it out, and put it into "
            "~/.pgpass or PGPASSWORD, or the whole address into REMAND_STORE."
        )
