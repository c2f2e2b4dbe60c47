"""Answers calls and hooks that agents send through their sockets, outside their sandboxes."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

import msgspec

from remand.app import hook_calls
from remand.app.errors import EnvironmentFault, RemandError, UsageError
from remand.app.hook_calls import HookAnswer, HookCall
from remand.app.scheduler.ports import (
    AgentCall,
    AgentCaller,
    AgentSockets,
    CallResult,
    CannotRun,
    TaskWorktree,
    WorktreeState,
)
from remand.config import inherited_environment
from remand.domain.access import agent_calls
from remand.domain.events.event import KnownBy
from remand.domain.refusals import Refused, restore_refusal
from remand.interfaces.cli import main
from remand.interfaces.cli.agent_socket import client
from remand.interfaces.cli.context import CallOrigin
from remand.interfaces.cli.main import command_parser, unknown_command_message
from remand.interfaces.cli.registry import COMMANDS, FORWARDED_VARIABLES, CommandCall, parse_call
from remand.interfaces.hook import activity, answers, dispatch, entry
from remand.startup import AGENT_ENTRY_MODULE
from remand.wiring import coordinator, startup
from remand.wiring.ledger import find_place
from remand.wiring.startup import LedgerLocation, SessionTask, may_block_again

MARGIN = 3.0
"""How many seconds before its own deadline a hook gets its answer."""
MIN_GATE_SECONDS = 0.5
FIRING_INDEX = 7
"""The position, among a call's settings, of the value that two hooks of the same event share."""
IMPORT_FAILED = "Your commits could not be imported for task {task}: {why} Fix that and stop again; if you cannot, tell the user."


_NAMES = ("agent", "reviewer")
"""Options that name the actor."""


class PermittedCall(NamedTuple):
    """A call that may run, because what it names belongs to the caller."""

    permission: agent_calls.CommandPermission
    call: CommandCall
    options: Namespace

    @property
    def subject(self) -> str:
        """What it names; empty if it names nothing, or only reads."""
        return str(getattr(self.options, self.permission.named, "") or "") if self.permission.about else ""


def require_permitted(agent_call: AgentCall, call: CommandCall) -> PermittedCall:
    """The permitted call; raises if the caller may not make it."""
    caller = agent_call.caller
    agent_calls.require_call_size(agent_call.arguments)
    if call.usage_error:
        raise UsageError(call.usage_error)
    if call.command not in COMMANDS:
        raise UsageError(unknown_command_message(call.command))
    permission = agent_calls.require_agent_command(call.command, is_worker=caller.is_worker)
    if call.wants_help:
        raise UsageError("Run `--help` outside the agent socket.")
    _require_own_place(agent_call, call)
    options = command_parser(call.command)[1].parse_args(call.rest)
    found = PermittedCall(permission, call, options)
    agent_calls.require_agent_name(caller.agent, _acting_names(found))
    if getattr(options, "follow", False):
        raise UsageError("The agent socket cannot follow a log. Omit -f, and call again later.")
    if call.command == "task claim":
        agent_calls.require_named_task(caller.agent, caller.task_id, found.subject)
    return found


def _require_own_place(agent_call: AgentCall, call: CommandCall) -> None:
    """Refuses a folder outside the worktree. The folder is not read: inside the worktree there is only one ledger."""
    if call.folder != ".":
        own = os.path.normpath(agent_call.caller.worktree.folder)
        meant = os.path.normpath(os.path.join(agent_call.folder or own, call.folder))
        agent_calls.require_own_folder(own, meant, call.folder)


def _acting_names(found: PermittedCall) -> list[str]:
    """The names under which a call would act. A reading command may ask about anybody."""
    names = [found.call.actor]
    if found.permission.about and found.call.command != "review request":
        names += [str(getattr(found.options, name, "") or "") for name in _NAMES]
    return names


def build_arguments(caller: AgentCaller, call: CommandCall, settled: Mapping[str, str]) -> list[str]:
    """The arguments with which a call runs; some options are set here, whatever the call gave for them.

    An idempotency key applies only to the run, so that nobody can use up another's.
    """
    common = ["--json"] if call.is_json else []
    if call.key:
        common += [
            "--key",
            f"agent-{sha256(f'{caller.run_id} {call.key}'.encode('utf-8', 'replace')).hexdigest()[:40]}",
        ]
    own = [f"{name}={value}" for name, value in settled.items()]
    return [*common, *call.command.split(" "), *own, *client.without_options(call.rest, settled)]


def is_hook(arguments: list[str]) -> bool:
    """True for a host's hook call. A relayed call is not one, and never comes through an agent socket."""
    return arguments[:1] == ["hook"] and arguments[1:2] != ["relay"]


def is_stop(arguments: list[str]) -> bool:
    found = entry.parse_arguments(arguments[1:])
    module = startup.load_host(found[0]) if found else None
    return found is not None and module is not None and module.read(found[1], b"{}").event == hook_calls.STOP


class SocketHooks:
    """Answers hooks. The socket determines the session and its task."""

    def __init__(
        self,
        place: LedgerLocation,
        handler: AgentCallHandler,
        inspect: Callable[[TaskWorktree], WorktreeState],
    ) -> None:
        self._place = place
        self._handler = handler
        self._inspect = inspect

    def answer(self, agent_call: AgentCall) -> CallResult:
        """The answer to a hook in its host's format. If Remand itself fails, a stop is blocked."""
        found = entry.parse_arguments(agent_call.arguments[1:])
        module = startup.load_host(found[0]) if found else None
        if found is None or module is None:
            return 2, b"", b"remand: not a valid hook call.\n"
        event = found[1]
        call = module.read(event, agent_call.given)
        call.transcript = ""  # a path of the agent's, which nobody follows out here
        try:
            answer = self._answer(agent_call._replace(given=b""), call)
        except (Refused, RemandError, OSError) as error:
            why = entry.HOOK_FAILED.format(why=f"{error}"[:600])
            may_block = call.event in hook_calls.ENDINGS and may_block_again(
                "broken", agent_call.caller.run_id
            )
            answer = HookAnswer.block(why) if may_block else HookAnswer.allow(why)
        out, errors, code = module.render(event, answer)
        return code, out.encode("utf-8", "replace"), errors.encode("utf-8", "replace")

    def _answer(self, agent_call: AgentCall, call: HookCall) -> HookAnswer:
        caller = agent_call.caller
        bound = SessionTask(caller.task_id, caller.agent)
        if call.event in hook_calls.TOOL_RESULT_EVENTS:
            self._record_tool_use(agent_call, call, bound)
            return HookAnswer.allow()
        if call.event in hook_calls.START_EVENTS:
            # What there is to read stands in the prompt that the run began with.
            return HookAnswer.allow()
        is_broken = call.is_broken and call.event not in hook_calls.ENDINGS
        if not call.event or call.event == hook_calls.SUBAGENT_STOP or call.is_aborted or is_broken:
            return HookAnswer.allow()
        words = dispatch.session_call_fields(call, bound) | self._fixed_fields(agent_call, call)
        relayed = self._handler.run_call(agent_call, _relay_arguments(words))
        if call.event == hook_calls.STOP and dispatch.parse_relayed_answer(*relayed[:2]) is None:
            relayed = self._run_gates(agent_call, words)
        return _parse_relayed_answer(relayed)

    def _record_tool_use(self, agent_call: AgentCall, call: HookCall, bound: SessionTask) -> None:
        """Records the tool use, and renews the lease now and then."""
        activity.append_to_journal(call, self._place, bound)
        if activity.is_heartbeat_due(self._place, bound.task_id):
            self._handler.run_call(agent_call, ["--json", "task", "heartbeat", bound.task_id])

    def _fixed_fields(self, agent_call: AgentCall, call: HookCall) -> dict[str, object]:
        """Fields of a call that the agent cannot set:

        one run is one session, and the state of its work is read here.
        """
        caller = agent_call.caller
        firing = (
            agent_call.settings[FIRING_INDEX][:600]
            if len(agent_call.settings) > FIRING_INDEX
            else call.firing_key
        )
        own: dict[str, object] = {
            "session": caller.run_id,
            "firing": f"{caller.run_id} {firing}",
            "branch": caller.worktree.branch,
        }
        worktree = {"folder": caller.worktree.folder, "head": self._tip(caller.worktree)}
        found = self._worktree_fields(caller) if call.event == hook_calls.STOP else {}
        return own | {"worktree": worktree | found}

    @staticmethod
    def _tip(worktree: TaskWorktree) -> str:
        """The commit at the tip of a worktree's branch, as the repository has it; empty if there is none."""
        return coordinator.read_ref(worktree.common_dir, f"refs/heads/{worktree.branch}")

    def _worktree_fields(self, caller: AgentCaller) -> dict[str, object]:
        """The state of the worktree of an agent that wants to stop, after its commits were imported."""
        try:
            head = self._handler.import_commits(caller)
            return {"head": head, "uncommitted": list(self._inspect(caller.worktree).uncommitted)}
        except CannotRun as why:
            return {"fault": IMPORT_FAILED.format(task=caller.task_id, why=why)}

    def _run_gates(self, agent_call: AgentCall, words: dict[str, object]) -> CallResult:
        """Runs the gates, for as long as the host waits."""
        spent = time.monotonic() - agent_call.at
        patience = max(MIN_GATE_SECONDS, hook_calls.deadline(hook_calls.STOP) - MARGIN - spent)
        return self._handler.run_measured_call(
            agent_call, _relay_arguments(words | {"patience": patience}), patience + MARGIN
        )


def _relay_arguments(words: dict[str, object]) -> list[str]:
    return ["--json", "hook", "relay", hook_calls.compose(words)]


def _parse_relayed_answer(relayed: CallResult) -> HookAnswer:
    """The answer to a relayed call; raises if there is none."""
    code, output, errors = relayed
    found = dispatch.parse_relayed_answer(code, output)
    if found is None:
        said = hook_calls.parse(output).text("message") or errors.decode("utf-8", "replace").strip()
        raise EnvironmentFault(said or f"no answer (exit code {code})")
    return found


LONGEST = 7200.0
"""After how many seconds any call is ended."""
LONGEST_WAIT = 3600.0
LOOK_AGAIN = 0.2
MAX_MEASURED_CALLS = max(4, 2 * (os.cpu_count() or 1))
"""How many calls may run gates at a time; the others wait."""

ImportCommits = Callable[[TaskWorktree], str]
"""Imports a confined agent's commits into the repository and returns the tip of its branch. Raises `CannotRun`."""
InspectWorktree = Callable[[TaskWorktree], WorktreeState]


def make_sockets(
    root: str,
    import_commits: ImportCommits,
    inspect: InspectWorktree,
    environment: Mapping[str, str] | None = None,
) -> AgentSockets:
    """Sockets for the agents of a repository's ledger; processes open the ledger with this environment.

    Its `end` closes them all.
    """
    handler = AgentCallHandler(root, import_commits=import_commits, inspect=inspect, environment=environment)
    return coordinator.make_agent_sockets(find_place(root), handler)


class AgentCallHandler:
    """Runs the permitted calls of agents in their names, and refuses all others."""

    def __init__(
        self,
        root: str,
        *,
        import_commits: ImportCommits,
        inspect: InspectWorktree,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._place = find_place(root)
        self._import_commits = import_commits
        self._inspect = inspect
        self._outside = coordinator.CommandProcesses(
            AGENT_ENTRY_MODULE,
            self._place.root,
            inherited_environment("REMAND_") if environment is None else environment,
        )
        self._room = threading.Semaphore(MAX_MEASURED_CALLS)
        self._hooks = SocketHooks(self._place, self, inspect)
        self._left: set[str] = set()

    def is_long(self, agent_call: AgentCall) -> bool:
        """True for a call that runs gates or waits for them."""
        if is_hook(agent_call.arguments):
            return is_stop(agent_call.arguments)
        permission = agent_calls.PERMITTED_COMMANDS.get(parse_call(agent_call.arguments).command)
        return permission is not None and permission.is_long

    def answer(self, agent_call: AgentCall) -> CallResult:
        if is_hook(agent_call.arguments):
            return self._hooks.answer(agent_call)
        call = parse_call(agent_call.arguments)
        try:
            return self._answer(agent_call, require_permitted(agent_call, call))
        except (Refused, RemandError, OSError) as error:
            return _render_failure(call, error)

    def leave(self, caller: AgentCaller) -> None:
        self._left.add(caller.run_id)
        self._outside.end(caller.run_id)

    def import_commits(self, caller: AgentCaller) -> str:
        return self._import_commits(caller.worktree)

    def _answer(self, agent_call: AgentCall, found: PermittedCall) -> CallResult:
        caller, call = agent_call.caller, found.call
        if found.subject and found.subject != caller.task_id:
            agent_calls.require_own_task(
                caller.agent, caller.task_id, self._task_of(agent_call, found), found.subject
            )
        settled: dict[str, str] = {}
        if found.permission.hands_in:
            settled = self._submission_options(caller, found)
        elif call.command == "handoff reject":
            with suppress(CannotRun):
                self.import_commits(caller)
        elif call.command in ("review approve", "review reject"):
            settled = {"--commit": self._reviewed_commit(caller, str(found.options.commit))}
        elif call.command == "gate wait":
            self._wait_for_gates(caller, found.options.timeout)
            settled = {"--timeout": "0"}
        arguments = build_arguments(caller, call, settled)
        if found.permission.is_long and call.command != "gate wait":
            return self.run_measured_call(agent_call, arguments, LONGEST)
        return self.run_call(agent_call, arguments)

    def _task_of(self, agent_call: AgentCall, found: PermittedCall) -> str:
        """The task that a call names, by any of its names; an unknown task is refused with the ledger's message."""
        words = ("task", "show") if found.permission.about == agent_calls.TASK else ("handoff", "status")
        code, output, _ = self.run_call(agent_call, ["--json", *words, "--", found.subject])
        try:
            known = msgspec.json.decode(output)
        except msgspec.MsgspecError:
            raise EnvironmentFault(f"Remand could not resolve {found.subject!r}. Repeat the call.") from None
        if code:
            raise restore_refusal(str(known.get("refused", "unknown_task")), str(known.get("message", "")))
        return str(known.get("task_id", ""))

    def _submission_options(self, caller: AgentCaller, found: PermittedCall) -> dict[str, str]:
        """The commit and branch of a done claim: always what the agent has committed."""
        worktree = caller.worktree
        agent_calls.require_own_branch(worktree.branch, getattr(found.options, "branch", "") or "")
        tip = self.import_commits(caller)
        commit = agent_calls.require_tip(str(found.options.commit), tip, worktree.branch)
        return {"--commit": commit, "--branch": worktree.branch}

    def _reviewed_commit(self, caller: AgentCaller, name: str) -> str:
        """The commit that a review is about."""
        if agent_calls.is_tip_by_name(name, caller.worktree.branch):
            return self._inspect(caller.worktree).head or name
        agent_calls.require_commit_id(name)
        return name

    def _wait_for_gates(self, caller: AgentCaller, seconds: float) -> None:
        """Waits for the gates of the caller's task without starting a process just for that."""
        runs = coordinator.BackgroundRuns(startup.folders_of(self._place).gate_runs)
        until = time.monotonic() + max(0.0, min(seconds, LONGEST_WAIT))
        while runs.is_running(caller.task_id) and time.monotonic() < until:
            if caller.run_id in self._left:
                break
            time.sleep(LOOK_AGAIN)

    def run_measured_call(self, agent_call: AgentCall, arguments: list[str], seconds: float) -> CallResult:
        """Runs a call that runs gates, when it is its turn."""
        while not self._room.acquire(timeout=LOOK_AGAIN):
            if agent_call.caller.run_id in self._left:
                raise EnvironmentFault("The run is over.")
        try:
            return self._run(agent_call, arguments, seconds)
        finally:
            self._room.release()

    def run_call(self, agent_call: AgentCall, arguments: list[str]) -> CallResult:
        """Runs a call, through the coordinator if possible."""
        call = parse_call(arguments)
        path = startup.find_socket(self._place)
        if (
            path
            and not agent_call.given
            and COMMANDS[call.command].may_be_forwarded
            and call.is_self_contained
        ):
            with suppress(startup.CoordinatorUnavailable):
                return startup.forward_call(path, self._place.root, call_settings(agent_call), arguments)
        return self._run(agent_call, arguments, LONGEST)

    def _run(self, agent_call: AgentCall, arguments: list[str], seconds: float) -> CallResult:
        frame = coordinator.pack_call(
            self._place.root, call_settings(agent_call), arguments, agent_call.given
        )
        return self._outside.run(agent_call.caller.run_id, frame, seconds)


def call_settings(agent_call: AgentCall) -> list[str]:
    """The settings of a call: the socket's own agent and task, and the width of the agent's screen."""
    said = dict(zip((*FORWARDED_VARIABLES, "is_terminal", "width"), agent_call.settings, strict=False))
    forced = {"REMAND_ACTOR": agent_call.caller.agent, "REMAND_TASK": agent_call.caller.task_id}
    width = said.get("width", "")
    own = [forced.get(name, said.get(name, "")[:200]) for name in FORWARDED_VARIABLES]
    is_width = width.isascii() and width.isdigit() and len(width) <= 4
    return [*own, "1" if said.get("is_terminal") else "", width if is_width else "", KnownBy.SOCKET]


def _render_failure(call: CommandCall, error: Refused | RemandError | OSError) -> CallResult:
    out, errors = io.StringIO(), io.StringIO()
    code = main.report_failure(call, CallOrigin("", {}, out, errors), error)
    return code, _encode_stream(out), _encode_stream(errors)


def _encode_stream(text: io.StringIO) -> bytes:
    return text.getvalue().encode("utf-8", "surrogateescape")


AWAY_SECONDS = 60.0
"""How long an agent's call waits for an unreachable server."""
SHORT = 120.0
SERVER_LOOK_AGAIN = 1.0


def make_host_sockets(
    place: startup.LedgerLocation,
    environment: Mapping[str, str],
    import_commits: ImportCommits,
    inspect: InspectWorktree,
) -> AgentSockets:
    """Sockets for the agents of a host. Its `end` closes them all."""
    return coordinator.make_agent_sockets(
        place, HostCallHandler(place, environment, import_commits=import_commits, inspect=inspect)
    )


class HostCallHandler(AgentCallHandler):
    """Runs the permitted calls of a host's agents. Commits are sent to the server before calls that name them."""

    def __init__(
        self,
        place: startup.LedgerLocation,
        environment: Mapping[str, str],
        *,
        import_commits: ImportCommits,
        inspect: InspectWorktree,
    ) -> None:
        super().__init__(place.root, import_commits=import_commits, inspect=inspect)
        self._place = place
        self._server = startup.server.ServerClient(environment)
        self._delivery = startup.server.CommitDelivery(
            self._server, startup.remote.CloneCommits(place, environment)
        )
        self._hooks = SocketHooks(place, self, inspect)

    def import_commits(self, caller: AgentCaller) -> str:
        """Imports an agent's commits and sends the tip to the server. Raises CannotRun."""
        tip = super().import_commits(caller)
        try:
            self._delivery.deliver("task", caller.task_id, tip, AWAY_SECONDS)
        except (startup.server.ServerUnavailable, startup.server.CallDenied, EnvironmentFault) as error:
            raise CannotRun("git", f"The commit {tip[:12]} did not reach the server: {error}") from None
        return tip

    def run_call(self, agent_call: AgentCall, arguments: list[str]) -> CallResult:
        return self._run(agent_call, arguments, SHORT)

    def run_measured_call(self, agent_call: AgentCall, arguments: list[str], seconds: float) -> CallResult:
        """Runs a call that runs gates; asks again about a stop until the gates have finished or its time is up."""
        if arguments[:3] != ["--json", "hook", "relay"]:
            return self._run(agent_call, arguments, seconds)
        words, until = json.loads(arguments[3]), time.monotonic() + seconds - SERVER_LOOK_AGAIN
        while True:
            relayed = self._run(agent_call, [*arguments[:3], hook_calls.compose(words)], SHORT)
            answered = hook_calls.parse(relayed[1])
            if relayed[0] or answered.text("kind") != answers.MEASURE:
                return relayed
            if time.monotonic() > until:
                text = answers.WAIT.format(task=words["task_id"], commit=words["worktree"]["head"][:12])
                waits = hook_calls.compose({"kind": hook_calls.BLOCK, "text": text, "notice": ""})
                return 0, waits.encode(), b""
            words["key"] = answered.text("text")
            time.sleep(SERVER_LOOK_AGAIN)

    def _wait_for_gates(self, caller: AgentCaller, seconds: float) -> None:
        """Waits on the server, then asks it once more."""
        agent_call = AgentCall(caller, time.monotonic(), "", [], [])
        self._run(
            agent_call, ["--json", "gate", "wait", caller.task_id, f"--timeout={seconds}"], seconds + SHORT
        )

    def _run(self, agent_call: AgentCall, arguments: list[str], seconds: float) -> CallResult:
        names = (*FORWARDED_VARIABLES, "is_terminal", "width")
        settings: dict[str, object] = dict(zip(names, call_settings(agent_call), strict=False))
        fields: dict[str, object] = {
            "arguments": ["--as", agent_call.caller.agent, *arguments],
            "settings": settings | {"branch": agent_call.caller.worktree.branch},
            "given": agent_call.given.decode("utf-8", "replace"),
        }
        key = parse_call(arguments).key
        try:
            return startup.server.retry_while_unavailable(
                lambda: self._server.call(fields, key, patience=seconds), AWAY_SECONDS, lambda _: None
            )
        except startup.server.ServerUnavailable as away:
            raise EnvironmentFault(f"The server cannot be reached: {away}. Repeat the call later.") from None
        except startup.server.CallDenied as denied:
            raise restore_refusal(denied.code, str(denied)) from None
