"""Calls of agents that a host has started: each is run on the server's ledger in the agent's name, by the host's token."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from remand.app import hook_calls
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.ports import AgentCall, AgentCaller, AgentSockets, CallResult, CannotRun
from remand.domain.refusals import restore_refusal
from remand.interfaces.cli.agent_socket.server import (
    AgentCallHandler,
    ImportCommits,
    LookAt,
    SocketHooks,
    call_settings,
)
from remand.interfaces.cli.registry import FORWARDED_VARIABLES, parse_call
from remand.interfaces.hook import answers
from remand.wiring import coordinator, startup

AWAY_SECONDS = 60.0
"""How long a call of an agent waits for a server that is away."""
SHORT = 120.0
LOOK_AGAIN = 1.0


def make_host_sockets(
    place: startup.LedgerLocation, environment: Mapping[str, str], bring: ImportCommits, look: LookAt
) -> AgentSockets:
    """Sockets for the agents of a host. Its `end` closes them all."""
    return coordinator.make_agent_sockets(place, HostCallHandler(place, environment, bring=bring, look=look))


class HostCallHandler(AgentCallHandler):
    """Runs what an agent may call. Commits come to the server before anything is said of them."""

    def __init__(
        self,
        place: startup.LedgerLocation,
        environment: Mapping[str, str],
        *,
        bring: ImportCommits,
        look: LookAt,
    ) -> None:
        super().__init__(place.root, bring=bring, look=look)
        self._place = place
        self._server = startup.server.ServerClient(environment)
        self._delivery = startup.server.CommitDelivery(
            self._server, startup.submissions.CloneCommits(place, environment)
        )
        self._hooks = SocketHooks(place, self, look)

    def import_commits(self, caller: AgentCaller) -> str:
        """Imports an agent's commits and brings the tip to the server. Raises CannotRun."""
        tip = super().import_commits(caller)
        try:
            self._delivery.deliver("task", caller.task_id, tip, AWAY_SECONDS)
        except (startup.server.ServerUnavailable, startup.server.CallDenied, EnvironmentFault) as error:
            raise CannotRun("git", f"The commit {tip[:12]} did not reach the server: {error}") from None
        return tip

    def run_call(self, asked: AgentCall, arguments: list[str]) -> CallResult:
        return self._run(asked, arguments, SHORT)

    def run_measured_call(self, asked: AgentCall, arguments: list[str], seconds: float) -> CallResult:
        """Runs a call that measures; a stop is asked about again until it is measured, or its time is up."""
        if arguments[:3] != ["--json", "hook", "relay"]:
            return self._run(asked, arguments, seconds)
        words, until = json.loads(arguments[3]), time.monotonic() + seconds - LOOK_AGAIN
        while True:
            relayed = self._run(asked, [*arguments[:3], hook_calls.compose(words)], SHORT)
            answered = hook_calls.parse(relayed[1])
            if relayed[0] or answered.text("kind") != answers.MEASURE:
                return relayed
            if time.monotonic() > until:
                text = answers.WAIT.format(task=words["task_id"], commit=words["worktree"]["head"][:12])
                waits = hook_calls.compose({"kind": hook_calls.BLOCK, "text": text, "notice": ""})
                return 0, waits.encode(), b""
            words["key"] = answered.text("text")
            time.sleep(LOOK_AGAIN)

    def _wait_for_gates(self, caller: AgentCaller, seconds: float) -> None:
        """Waits on the server, and then asks it once more."""
        asked = AgentCall(caller, time.monotonic(), "", [], [])
        self._run(asked, ["--json", "gate", "wait", caller.task_id, f"--timeout={seconds}"], seconds + SHORT)

    def _run(self, asked: AgentCall, arguments: list[str], seconds: float) -> CallResult:
        names = (*FORWARDED_VARIABLES, "is_terminal", "width")
        settings: dict[str, object] = dict(zip(names, call_settings(asked), strict=False))
        fields: dict[str, object] = {
            "arguments": ["--as", asked.caller.agent, *arguments],
            "settings": settings | {"branch": asked.caller.worktree.branch},
            "given": asked.given.decode("utf-8", "replace"),
        }
        key = parse_call(arguments).key
        try:
            return startup.server.retry_while_away(
                lambda: self._server.call(fields, key, patience=seconds), AWAY_SECONDS, lambda _: None
            )
        except startup.server.ServerUnavailable as away:
            raise EnvironmentFault(f"The server is away: {away}. Repeat the call later.") from None
        except startup.server.CallDenied as denied:
            raise restore_refusal(denied.code, str(denied)) from None
