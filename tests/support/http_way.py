"""Calls of the command line made over HTTP: each becomes the request that its command's route takes, and its answer what the command line would print."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from litestar.testing import TestClient

from remand.app.errors import RemandError
from remand.domain.access.team import USER
from remand.domain.access.tokens import Caller, TokenRole
from remand.interfaces.cli.main import parse_values
from remand.interfaces.cli.registry import CommandCall, parse_call
from remand.interfaces.http.authentication import Authenticator, RequestFacts
from remand.interfaces.http.calls import CallRunner
from remand.interfaces.http.commands import RemoteCommand, remote_commands
from remand.interfaces.http.routes import ServerContext
from remand.interfaces.http.serve import EmbeddedLedger, TeamLedger
from remand.interfaces.http.server import make_app
from remand.interfaces.http.telemetry import Metrics
from remand.wiring.ledger import find_place

OK, SERVER_FAILED = 200, 503
REFUSED, USAGE, ENVIRONMENT = 1, 2, 3
SUBMITS = ("task submit", "handoff complete")


class _Users(Authenticator):
    async def caller(self, facts: RequestFacts) -> Caller:
        return Caller(member=USER, role=TokenRole.USER)


class HttpWay:
    """A server of one repository inside this process. Every request is the user's."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        place, url = find_place(folder), os.environ.get("REMAND_STORE", "")
        runner = CallRunner(TeamLedger(place, url) if url else EmbeddedLedger(place))
        self._client = TestClient(make_app(ServerContext(runner, _Users(runner.read_ledger), Metrics())))
        self._client.__enter__()

    def close(self) -> None:
        """Ends the server."""
        self._client.__exit__(None, None, None)

    def call(self, arguments: tuple[str, ...]) -> tuple[int, str, str] | None:
        """Exit code, output and errors; None for a call that has no route, or asks for text."""
        call = parse_call(list(arguments))
        command = remote_commands().get(call.command)
        if (
            command is None
            or not call.is_json
            or call.actor
            or call.usage_error
            or call.wants_help
            or call.folder != "."
        ):
            return None
        try:
            values = parse_values(call)
            given = request_values(command, values)
        except (RemandError, OSError, ValueError):
            return None
        if given is None:
            return None
        if call.command in SUBMITS and "branch" not in given:
            return self._forward(arguments, call.key)
        return self._send(command, call, given)

    def _forward(self, arguments: tuple[str, ...], key: str) -> tuple[int, str, str]:
        """Sends the whole call with the branch that is checked out here, which a server cannot know."""
        answer = self._client.post(
            "/api/calls",
            json={"arguments": list(arguments), "settings": {"branch": self._branch()}},
            headers={"idempotency-key": key} if key else {},
        )
        assert answer.status_code == OK, answer.text
        result = answer.json()
        return result["code"], result["output"], result["errors"]

    def _branch(self) -> str:
        shown = subprocess.run(
            ["git", "branch", "--show-current"], cwd=self._folder, capture_output=True, text=True, check=True
        )
        return shown.stdout.strip()

    def _send(self, command: RemoteCommand, call: CommandCall, given: dict[str, Any]) -> tuple[int, str, str]:
        headers = {"idempotency-key": call.key} if call.key else {}
        if command.is_query:
            answer = self._client.get(command.path, params=given, headers=headers)
        else:
            answer = self._client.post(command.path, json=given, headers=headers)
        if answer.status_code == OK:
            return int(answer.headers.get("remand-exit-code", "0")), f"{answer.text}\n", ""
        problem = answer.json()
        assert answer.headers["content-type"] == "application/problem+json", answer.text
        assert answer.status_code == problem["status"], problem
        return as_printed(problem)


def request_values(command: RemoteCommand, values: object) -> dict[str, Any] | None:
    """What a request gives for the values of a command line; None when one of them is not offered over HTTP."""
    offered = {one.argument.dest: one for one in command.parameters}
    given: dict[str, Any] = {}
    for name, value in vars(values).items():
        one = offered.get(name)
        if one is None or one.is_text:
            if value not in (None, False, "", [], ()):
                return None
        elif names_file(value):
            return None
        elif value != one.argument.default:
            given[one.name] = (
                as_objects(value) if one.type in (dict[str, Any], list[dict[str, Any]]) else value
            )
    return given


def as_objects(value: Any) -> Any:
    """Objects in place of their texts. Raises ValueError on what is none."""
    return [json.loads(one) for one in value] if isinstance(value, list) else json.loads(value)


def names_file(value: object) -> bool:
    """True for `@file`, which a client reads before it sends anything."""
    return any(
        isinstance(one, str) and one.startswith("@")
        for one in (value if isinstance(value, list) else [value])
    )


def as_printed(problem: dict[str, Any]) -> tuple[int, str, str]:
    """A problem as the command line would print it."""
    code, detail = problem["code"], problem["detail"]
    more = {
        "status" if name == "task_status" else name: value
        for name, value in problem.items()
        if name not in ("type", "title", "status", "detail", "code", "remedy")
    }
    if code in ("bad_request", "unavailable"):
        kind, number = ("usage", USAGE) if code == "bad_request" else ("environment", ENVIRONMENT)
        return number, json.dumps(more | {"error": kind, "message": detail}) + "\n", ""
    return REFUSED, json.dumps(more | {"refused": code, "message": detail}) + "\n", ""
