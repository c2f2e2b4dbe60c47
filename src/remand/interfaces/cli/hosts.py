"""Commands that agent hosts call (hook, mcp), the user's pause, and `remand solo` for sessions without a task."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from remand import config
from remand.app import hook_calls
from remand.app.errors import EnvironmentFault, UsageError
from remand.app.scheduler.agent_socket import find_agent_socket
from remand.config import inherited_environment
from remand.domain.access.agent_calls import require_commit_id, require_outside_agent
from remand.domain.access.coordinator_start import AGENT_VARIABLES
from remand.domain.access.team import NAMELESS_AGENT
from remand.domain.access.tokens import Caller, TokenRole, own_session_claims
from remand.domain.events.log import PauseBegun, PauseEnded
from remand.domain.hosts import HOSTS
from remand.domain.instant import Instant, add_seconds
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import Result, as_json
from remand.interfaces.cli.tasks import verdicts
from remand.interfaces.hook import activity
from remand.interfaces.hook.answers import answer_session
from remand.interfaces.hook.session import SessionCall, find_recent_claim, resolve_session_task
from remand.interfaces.mcp import command_runner, http, server
from remand.wiring.startup import SessionTask, folders_of, locate, socket_folder
from remand.wiring.startup import solo_sessions as notes

MIN_TOKEN_LENGTH = 16


def _write_token(token: str, port: int) -> str:
    """Writes a server's token to a file for clients of the same user, and returns its path."""
    folder = socket_folder()
    if not folder:
        raise EnvironmentFault(
            "The folder for sockets belongs to another user. Set XDG_RUNTIME_DIR, then repeat."
        )
    path = os.path.join(folder, f"mcp-{port}.token")
    with suppress(FileNotFoundError):
        os.unlink(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(token)
    return path


TOKEN = "REMAND_MCP_TOKEN"  # noqa: S105 - the name of a variable

PLACEHOLDER_PREFIX = "$"
"""The prefix of a placeholder that a host should have replaced, but passed on."""


@command(
    "mcp",
    argument(
        "--http",
        type=int,
        metavar="PORT",
        help="serve over HTTP at this port (0: any free one) instead of stdio",
    ),
    argument("--host", default="127.0.0.1", metavar="H", help="the address for --http"),
)
def _serve(context: Context) -> Result:
    environment = inherited_environment()
    folder = context.origin.folder if context.call.folder.startswith(PLACEHOLDER_PREFIX) else context.folder
    runner = command_runner.CommandLineRunner(folder, _actor(context, environment), environment)
    if context.arguments.http is not None:
        return _serve_http(context, runner, environment.get(TOKEN, ""))
    context.call.is_json = False  # nothing but the protocol is written
    server.serve_stdio(runner)
    return Result(None, "")


def _actor(context: Context, environment: dict[str, str]) -> str:
    """The member for whom the server acts.

    In an agent's sandbox its socket determines that; a host may pass on a placeholder that it should have replaced.
    """
    own = environment.get("REMAND_ACTOR", "")
    named = context.call.actor or ("" if own.startswith(PLACEHOLDER_PREFIX) else own)
    return named or ("" if find_agent_socket(environment) else NAMELESS_AGENT)


def _serve_http(context: Context, runner: command_runner.CommandLineRunner, given: str) -> Result:
    host = context.arguments.host
    if given and len(given) < MIN_TOKEN_LENGTH:
        raise UsageError(f"{TOKEN} has fewer than {MIN_TOKEN_LENGTH} characters. Use a longer one.")
    if not given and not http.is_loopback(host):
        raise UsageError(
            f"{host} can be reached from other machines: set {TOKEN} to a token of your own, or omit --host."
        )
    token = given or secrets.token_urlsafe(32)
    listening = http.listen(host, context.arguments.http)
    port, shown_host = listening.getsockname()[1], f"[{host}]" if ":" in host else host
    path = "" if given else _write_token(token, port)
    try:
        data = {"url": f"http://{shown_host}:{port}/mcp", "token_file": path or None, "pid": os.getpid()}
        where = f"the token is in {path}" if path else f"the token is the value of {TOKEN}"
        text = f"MCP at {data['url']} (pid {os.getpid()}); {where}"
        context.origin.stdout.write(f"{as_json(data) if context.call.is_json else text}\n")
        context.origin.stdout.flush()
        http.serve_http(runner, listening, token)
    finally:
        if path:
            with suppress(OSError):
                os.unlink(path)
    return Result({"stopped": True}, "Stopped.")


DAY = 86400.0
MAX_REASON = 4000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@command("hook relay", argument("words", help="the call, as JSON"))
def _relay(context: Context) -> Result:
    try:
        words = msgspec.json.decode(context.arguments.words, type=SessionCall)
    except msgspec.MsgspecError as error:
        raise UsageError(f"This is not a hook call: {error}.") from None
    place, origin = locate(context.folder) or context.place, context.origin
    known_by = origin.known_by
    if origin.caller is not None:
        words = _own_words(origin.caller, words)
        known_by = origin.caller.known_by(words.agent)
        if words.event in hook_calls.TOOL_RESULT_EVENTS:
            return _claimed_task(context, words)
    answer = answer_session(
        words,
        place,
        deadline=words.patience,
        opened=origin.opened,
        known_by=known_by,
        caller=origin.caller,
    )
    data = {"kind": answer.kind, "text": answer.text, "notice": answer.notice}
    return Result(data, answer.text or answer.kind)


def _own_words(caller: Caller, words: SessionCall) -> SessionCall:
    """A call from another machine: its token limits the names it may use, and it does not wait for gates."""
    if words.worktree.head:
        require_commit_id(words.worktree.head)
    agent = words.agent if caller.role is TokenRole.USER else caller.acting_name(words.agent)
    has_own_key = words.key.startswith("hook-")
    return replace(
        words,
        agent=agent,
        earlier=own_session_claims(caller, words.earlier),
        patience=0.0,
        key=words.key[:200] if has_own_key else "",
    )


def _claimed_task(context: Context, words: SessionCall) -> Result:
    """The task of a session on another machine:

    the one that it names, whose branch it is on, or that it just claimed.
    """
    opened, place = context.opened_ledger, context.place
    if words.task_id or words.branch:
        named = SessionTask(words.task_id, words.agent, words.branch)
        bound = resolve_session_task(place, named, opened)
        found = (bound.task_id, bound.agent) if bound else None
    else:
        found = find_recent_claim(
            place, words.agent, set(words.earlier), activity.LATELY_SECONDS + words.since, opened
        )
    text = " ".join(found) if found else ""
    return Result({"kind": "bound", "text": text, "notice": ""}, text)


@command(
    "hook",
    argument("--host", required=True, help=f"the agent host: {', '.join(HOSTS)}"),
    argument("event", help="the host's own name of the event"),
)
def _hook(_: Context) -> Result:
    raise UsageError("`hook` must come first: `remand hook --host HOST EVENT`.")


@command(
    "pause",
    argument("--for", dest="lasts", default="1h", metavar="2h", help="how long, at most 7d"),
    argument("--reason", required=True, metavar="TEXT"),
)
def _pause(context: Context) -> Result:
    actor = context.user()
    if not context.text(context.arguments.reason).strip():
        raise UsageError("Give a reason: --reason TEXT.")
    until = add_seconds(context.opened_ledger.ledger.clock.now(), parse_duration(context.arguments.lasts))
    reason = context.text(context.arguments.reason)
    context.opened_ledger.ledger.record([PauseBegun(until=until, reason=reason[:MAX_REASON])], actor)
    context.gates.pause(until, context.actor(), reason)
    return Result(
        {"paused_until": until},
        f"Sessions may stop without gates until {until}. No task becomes done by that. `remand resume` ends the pause.",
    )


@command("resume")
def _resume(context: Context) -> Result:
    actor = context.user()
    if context.gates.current_pause is not None:
        context.opened_ledger.ledger.record([PauseEnded()], actor)
    was: bool = context.gates.resume()
    return Result({"paused_until": None}, "The pause is over." if was else "There was no pause.")


def parse_duration(text: str) -> float:
    """The seconds of an option `--for`."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isdecimal() or not 0 < int(number) * _UNITS[unit] <= 7 * DAY:
        raise UsageError(
            f"--for {text[:20]!r} is not a duration of at most 7 days; write it as 90s, 30m, 2h or 1d."
        )
    return float(int(number) * _UNITS[unit])


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
        f"Sessions without a task are not measured{ends}. `remand solo on` measures them again.",
    )


@command("solo status")
def _status(context: Context) -> Result:
    word, until = solo_state(context)
    when = _instant(until) if until else None
    settings = context.opened_ledger.settings.settings()
    gates = list(settings.gates or ())
    rows = verdicts.session_rows(context)
    text = (
        f"Sessions are measured when they stop. Gates: {', '.join(gates) or 'none'}."
        if word == notes.ON
        else f"Sessions without a task are not measured{f' until {when[:19]}Z' if when else ''}. `remand solo on` measures them."
    )
    data = {"sessions": word, "until": when, "gates": gates, "last": rows[-SHOWN:]}

    def show(out: Any) -> None:
        out.print(text, highlight=False)
        verdicts.session_table(rows[-SHOWN:])(out)

    return Result(data, show)


def require_user(context: Context, what: str) -> None:
    """Refuses a command of the user in an agent's shell."""
    environment = config.inherited_environment()
    is_agent = context.is_confined or any(environment.get(name) for name in AGENT_VARIABLES)
    require_outside_agent(what, is_confined=is_agent)


def _instant(seconds: float) -> Instant:
    return add_seconds("1970-01-01T00:00:00.000000Z", seconds)


def _sessions(context: Context) -> notes.SoloSessions:
    return notes.SoloSessions(folders_of(context.place).solo)
