"""The MCP server, in a process of its own."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from importlib import import_module
from typing import Any

from remand.app.agent_socket import agent_socket
from remand.app.errors import EnvironmentFault, UsageError
from remand.bootstrap.tokens import SHORTEST, forget_token, keep_token, new_token
from remand.config import inherited_environment
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result, as_json

TOKEN = "REMAND_MCP_TOKEN"  # noqa: S105 - the name of a variable
NOBODY = "agent"
"""Who speaks where nobody is named: a model, which is never the user."""


UNFILLED = "$"
"""How a value begins that a host should have filled in, and handed on as it was written."""


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--http", type=int, metavar="PORT", help="over HTTP at that port (0: any); else stdio"
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="the address for --http")


def _serve(context: Context) -> Result:
    environment = inherited_environment()
    folder = context.surroundings.folder if context.call.folder.startswith(UNFILLED) else context.folder
    desk = _loaded("desk").CommandLine(folder, _actor(context, environment), environment)
    if context.arguments.http is not None:
        return _over_http(context, desk, environment.get(TOKEN, ""))
    context.call.is_json = False  # nothing but the protocol is written
    _loaded("serving").over_stdio(desk)
    return Result(None, "")


def _actor(context: Context, environment: dict[str, str]) -> str:
    """Whom the server speaks for. At an agent's door that is settled; a host may hand on what it should have filled in."""
    own = environment.get("REMAND_ACTOR", "")
    named = context.call.actor or ("" if own.startswith(UNFILLED) else own)
    return named or ("" if agent_socket(environment) else NOBODY)


def _loaded(name: str) -> Any:
    """A module of the server. They are loaded here and by no other command."""
    try:
        return import_module(f"remand.interfaces.mcp.{name}")
    except ModuleNotFoundError as missing:
        raise EnvironmentFault(
            f"The MCP server needs the package `{missing.name}`. Install it: pip install 'mcp>=2.3,<3'."
        ) from None


def _over_http(context: Context, desk: Any, given: str) -> Result:
    serving, host = _loaded("http"), context.arguments.host
    if given and len(given) < SHORTEST:
        raise UsageError(f"{TOKEN} has fewer than {SHORTEST} characters. Use a longer one.")
    if not given and not serving.is_loopback(host):
        raise UsageError(
            f"{host} can be reached from other machines: set {TOKEN} to a token of your own, or leave --host out."
        )
    token = given or new_token()
    listening = serving.listen(host, context.arguments.http)
    port = listening.getsockname()[1]
    path = "" if given else keep_token(token, port)
    try:
        _say(context, host, port, path)
        serving.over_http(desk, listening, token)
    finally:
        if path:
            forget_token(path)
    return Result({"stopped": True}, "Stopped.")


def _say(context: Context, host: str, port: int, path: str) -> None:
    shown = f"[{host}]" if ":" in host else host
    data = {"url": f"http://{shown}:{port}/mcp", "token_file": path or None, "pid": os.getpid()}
    where = f"the token is in {path}" if path else f"the token is that of {TOKEN}"
    text = as_json(data) if context.call.is_json else f"MCP at {data['url']} (pid {os.getpid()}); {where}"
    context.surroundings.stdout.write(f"{text}\n")
    context.surroundings.stdout.flush()


COMMANDS = {"mcp": Command(_arguments, _serve)}
