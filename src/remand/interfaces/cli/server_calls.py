"""Calls of a host that has a server:

sends them, waits while the server is unreachable, and delivers the commits they name.
"""

from __future__ import annotations

import os
import sys

from remand.app import errors, hook_calls
from remand.interfaces.cli import main as cli
from remand.interfaces.cli.agent_socket import client
from remand.interfaces.cli.registry import COMMANDS, FORWARDED_VARIABLES, CommandCall
from remand.startup import TYPE_CHECKING
from remand.wiring import startup

if TYPE_CHECKING:
    from collections.abc import Mapping


LOCAL = (
    *(*client.LOCAL, "init", "demo", "doctor", "serve", "worker", "run", "journal", "keys request"),
    *("coordinator status", "coordinator stop", "solo on", "solo off", "solo status"),
)
"""Commands that concern this machine, or start something on it."""
UNAVAILABLE = {
    "top": "shows a ledger of this machine. The server has a dashboard at its address.",
    "log import": "reads files of this machine. Run it where the server is.",
    "log move": "moves a ledger of this machine. Run it where the server is.",
}
"""Commands that cannot be sent, each with the reason."""
WAIT_SECONDS = 10.0
CLAIM_WAIT_SECONDS = 60.0
"""How long a command waits for an unreachable server: any command, and one with which an agent gets or submits work."""
CLAIMS = (
    *("task claim", "task prompt", "task submit", "task heartbeat"),
    *("handoff accept", "handoff complete", "handoff reject"),
)
SUBMISSIONS = {
    "task submit": ("task", "id"),
    "handoff complete": ("handoff", "handoff"),
    "gate run": ("task", "task"),
}
"""Commands that need a commit on the server: what they name, and with which argument."""
WRONG_CALLS = ("bad_request", "too_large")
"""The server's codes for wrong usage."""
REVIEWS = ("review approve", "review reject")
"""Commands that name a commit which the server already has."""
AWAY = (
    "remand: the server cannot be reached ({why}); waiting up to {seconds:.0f} s. Running work continues.\n"
)
GIVEN_UP = (
    "The server cannot be reached: {why}. Commits and work stay here, and nothing that it answered is lost. Repeat the command later; "
    "with `--key {key}` it is not carried out twice if only its answer was lost. REMAND_SERVER_WAIT is how many seconds to wait."
)


def is_local(call: CommandCall) -> bool:
    """True for a call that runs here although there is a server."""
    return call.command in LOCAL or call.wants_help or bool(call.usage_error) or call.command not in COMMANDS


def run(call: CommandCall, settings: list[str], environment: Mapping[str, str]) -> int:
    """Sends a call to the server, and prints the answer."""
    if call.command in UNAVAILABLE:
        text = f"`remand {call.command}` {UNAVAILABLE[call.command]}"
        return client.report_failure(call, "environment", text, client.ENVIRONMENT)
    try:
        code, output, errors_text = _send(call, settings, environment)
    except (client.UnusableValue, errors.UsageError) as error:
        return client.report_failure(call, "usage", str(error), client.USAGE)
    except startup.server.ServerUnavailable as away:
        text = GIVEN_UP.format(why=away, key=call.key)
        return client.report_failure(call, "environment", text, client.ENVIRONMENT)
    except (startup.server.UnusableServer, errors.RemandError) as fault:
        return client.report_failure(call, "environment", str(fault), client.ENVIRONMENT)
    except startup.server.CallDenied as denied:
        return _report_denial(call, denied)
    sys.stdout.buffer.write(output)
    sys.stderr.buffer.write(errors_text)
    sys.stderr.buffer.flush()
    return code


def _send(call: CommandCall, settings: list[str], environment: Mapping[str, str]) -> tuple[int, bytes, bytes]:
    server = startup.server.ServerClient(environment)
    seconds = startup.server.wait_seconds(
        environment, CLAIM_WAIT_SECONDS if call.command in CLAIMS else WAIT_SECONDS
    )
    rest, output_file = list(call.rest), ""
    if call.command == "graph export":
        rest, output_file = _take_output_file(rest)
    if call.command in SUBMISSIONS or call.command in REVIEWS:
        rest = _with_commit(server, call, environment, seconds)
    if call.command == "gate wait":
        _wait_for_own_gates(server, call)
    arguments, input_bytes = client.resolve_arguments(call, [*call.command.split(" "), *rest])
    place = startup.locate(call.folder)
    is_terminal, width = settings[len(FORWARDED_VARIABLES) :]
    own = dict(zip(FORWARDED_VARIABLES, settings, strict=False))
    fields: dict[str, object] = {
        "arguments": [*_common_options(call), *arguments],
        "settings": own
        | {"is_terminal": "" if output_file else is_terminal, "width": width}
        | {"branch": startup.current_branch(place.git_dir) if place is not None else ""},
        "given": input_bytes.decode("utf-8", "replace"),
    }
    patience = client.SHORT if COMMANDS[call.command].may_be_forwarded else client.LONGEST
    code, output, errors_text = send(server, fields, call.key, seconds, patience=patience)
    if output_file and not code:
        output = _write_output(call, output, output_file)
    return code, output, errors_text


def send(
    server: startup.server.ServerClient,
    fields: dict[str, object],
    key: str,
    seconds: float,
    *,
    patience: float,
) -> tuple[int, bytes, bytes]:
    """Sends a call, repeatedly while the server is unreachable, for this many seconds.

    Raises what the client raises.
    """
    return startup.server.retry_while_unavailable(
        lambda: server.call(fields, key, patience=patience),
        seconds,
        lambda away: _report_unavailable(away, seconds),
    )


def _report_unavailable(away: Exception, seconds: float) -> None:
    sys.stderr.write(AWAY.format(why=away, seconds=seconds))
    sys.stderr.flush()


def _common_options(call: CommandCall) -> list[str]:
    own = ["--key", call.key] if call.key else []
    own += ["--as", call.actor] if call.actor else []
    return [*own, "--json"] if call.is_json else own


def _take_output_file(rest: list[str]) -> tuple[list[str], str]:
    """The words of a call without its output file, and that file, which is on this machine."""
    options = ("-o", "--output")
    named = [rest[at + 1] for at, word in enumerate(rest[:-1]) if word in options]
    named += [word.partition("=")[2] for word in rest if word.startswith("--output=")]
    return client.without_options(rest, options), named[-1] if named else ""


def _write_output(call: CommandCall, output: bytes, name: str) -> bytes:
    """Writes a document to a file, and reports it as the command does with a local ledger."""
    path = os.path.join(os.getcwd(), name)
    payload = hook_calls.parse(output)
    text = payload.first("text") if call.is_json else None
    try:
        with open(path, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else output)
    except OSError as error:
        raise errors.EnvironmentFault(f"{path} cannot be written: {error.strerror}.") from None
    shape = payload.text("format") or "json"
    said = hook_calls.compose({"format": shape, "file": path}) if call.is_json else f"written to {path}"
    return f"{said}\n".encode("utf-8", "surrogateescape")


def _with_commit(
    server: startup.server.ServerClient, call: CommandCall, environment: Mapping[str, str], seconds: float
) -> list[str]:
    """The words of a call with the full id of its commit, which is delivered to the server if needed."""
    options = cli.command_parser(call.command)[1].parse_args(call.rest)
    place = startup.locate(call.folder)
    commit = startup.repository.GitRepository(place).commit(options.commit) if place is not None else None
    if commit is None or place is None:
        return call.rest  # the server may have what is not here
    if call.command in SUBMISSIONS:
        kind, argument = SUBMISSIONS[call.command]
        name = getattr(options, argument) or ""
        clone = startup.remote.CloneCommits(place, environment)
        startup.server.CommitDelivery(server, clone).deliver(
            kind, name, commit.sha, seconds, lambda away: _report_unavailable(away, seconds)
        )
    return [f"--commit={commit.sha}", *client.without_options(call.rest, ("--commit",))]


def _wait_for_own_gates(server: startup.server.ServerClient, call: CommandCall) -> None:
    """Waits for a done claim that a hook on this machine is making."""
    options = cli.command_parser(call.command)[1].parse_args(call.rest)
    folders = startup.LedgerFolders(server.address.ledger_id)
    startup.background_runs.BackgroundRuns(folders.gate_runs).wait(options.task, options.timeout)


def _report_denial(call: CommandCall, denied: startup.server.CallDenied) -> int:
    """Prints a refusal by the server itself like a refusal by the rules, and wrong usage as usual."""
    if denied.code in WRONG_CALLS:
        return client.report_failure(call, "usage", str(denied), client.USAGE)
    if not call.is_json:
        sys.stderr.write(f"refused ({denied.code}): {denied}\n")
    else:
        import json  # loaded only when something fails

        sys.stdout.write(json.dumps({"refused": denied.code, "message": str(denied)}) + "\n")
    return cli.REFUSED
