"""The hook on a machine whose ledger is on a server: it inspects local state, and the server decides what it means."""

from __future__ import annotations

import os
from time import monotonic, sleep

from remand.app import errors, hook_calls
from remand.app.hook_calls import HookAnswer, HookCall
from remand.app.settings import SettingsSource
from remand.interfaces.hook import activity, answers, dispatch, session, tool_guard
from remand.startup import TYPE_CHECKING, load_msgspec
from remand.wiring import startup
from remand.wiring.startup import LedgerLocation, SessionTask

if TYPE_CHECKING:
    from typing import Any

AWAY_SECONDS = 5.0
"""How much of its time a hook waits for an unreachable server."""
FIRST_LOOK, LONGEST_LOOK = 0.1, 2.0
"""The seconds between two questions whether the gates have finished: the shortest, growing to the longest."""
SESSIONS = "server"
"""The folder for records of sessions, independent of the server's address, so that a changed address loses no session its task.
"""
MAYBE_CLAIMED = "a task that it may have claimed"
MARGIN = 2.0
"""How many seconds before its deadline a hook that waits for gates answers."""
NOT_DELIVERED = "Your commit {commit} could not be sent to the server for task {task}: {why}. Stop again when that is fixed; if you cannot, tell the user."


class ServerFault(Exception):  # noqa: N818 - the hook's own failure is an answer
    """The server could not be reached or refused.

    Contains the session's task; this alone does not let the session stop.
    """

    def __init__(self, text: str, session_task: str) -> None:
        super().__init__(text)
        self.session_task = session_task


def find_place(folders: list[str]) -> LedgerLocation | None:
    """The first of the folders that is in a repository; its ledger is on the server."""
    for folder in folders:
        place = startup.locate(folder) if folder and os.path.isdir(folder) else None
        if place is not None and place.git_dir:
            place.server_ledger = SESSIONS
            return place
    return None


def answer_call(
    call: HookCall, place: LedgerLocation, bound: SessionTask | None, environment: dict[str, str]
) -> HookAnswer:
    """The answer to a session that is measured, or may become so.

    Raises ServerFault if the server is unreachable or refuses the call.
    """
    try:
        server = startup.server.ServerClient(environment)
        return _RemoteSession(server, place, call, bound, environment).answer()
    except (
        startup.server.ServerUnavailable,
        startup.server.UnusableServer,
        startup.server.CallDenied,
    ) as error:
        away = isinstance(error, startup.server.ServerUnavailable)
        text = f"the server {'cannot be reached' if away else 'refused'} ({error})"
        if isinstance(error, startup.server.UnusableServer):
            text = f"the server cannot be used ({error})"
        known = (bound.task_id or bound.branch) if bound else ""
        raise ServerFault(
            text, known or (MAYBE_CLAIMED if has_open_claim(place, call.session) else "")
        ) from None


def has_open_claim(place: LedgerLocation, known_session: str) -> bool:
    """True if a session may have claimed a task and the server could not be asked about it."""
    return startup.session_tasks.open_claim(startup.folders_of(place).sessions, known_session) is not None


class _RemoteSession:
    """One call of a session, and the connection to the server."""

    def __init__(
        self,
        server: startup.server.ServerClient,
        place: LedgerLocation,
        call: HookCall,
        bound: SessionTask | None,
        environment: dict[str, str],
    ) -> None:
        self._server = server
        self._place = place
        self._call = call
        self._bound = bound
        self._environment = environment
        self._until = monotonic() + dispatch.deadline(call.event, environment)

    def answer(self) -> HookAnswer:
        """The answer to any call."""
        call = self._call
        self._settle_claim()
        if call.event in hook_calls.TOOL_RESULT_EVENTS:
            self._record_tool_use()
            return HookAnswer.allow()
        if self._bound is None or call.is_aborted:
            return HookAnswer.allow()
        bound = self._bound if activity.is_task_id(self._bound.task_id) else self._resolve(self._bound)
        if bound is None:
            return HookAnswer.allow()
        self._bound = bound
        fields = dispatch.session_call_fields(call, bound)
        fields["branch"] = startup.current_branch(self._place.git_dir)
        fields["worktree"] = {
            "folder": self._place.worktree,
            "head": startup.repository.head_commit(self._place),
        }
        load_msgspec()
        if call.event in (hook_calls.PRE_TOOL, hook_calls.CONFIG_CHANGE):
            denial = self._guard(fields)
            if denial is not None:
                return denial
        if call.event == hook_calls.STOP:
            return self._stop(bound, fields)
        return _parse(self._relay(fields))

    def _record_tool_use(self) -> None:
        """Records the tool use locally, and finds out whether it has claimed a task."""
        call, place, bound = self._call, self._place, self._bound
        claim = activity.find_claim_words(call)
        if claim is not None:
            agent, ids = claim
            startup.session_tasks.note_open_claim(self._sessions, call.session, agent, sorted(ids)[:50])
            self._settle_claim()
            bound = self._bound
        if bound is not None and not activity.is_task_id(bound.task_id):
            bound = self._resolve(bound)
        if bound is not None:
            activity.record_work(call, place, bound, self._environment)

    @property
    def _sessions(self) -> str:
        return startup.folders_of(self._place).sessions

    def _settle_claim(self) -> None:
        """Finds out whether the session has claimed a task; stays open while the server is unreachable."""
        opened = startup.session_tasks.open_claim(self._sessions, self._call.session)
        if opened is None:
            return
        agent, ids, since = opened
        found = self._find_task({"agent": agent, "earlier": ids, "since": since})
        self._bound = activity.note_claim(self._call, self._place, found) or self._bound
        startup.session_tasks.close_claim(self._sessions, self._call.session)

    def _resolve(self, bound: SessionTask) -> SessionTask | None:
        found = self._find_task({"task_id": bound.task_id, "agent": bound.agent, "branch": bound.branch})
        return SessionTask(*found) if found else None

    def _find_task(self, words: dict[str, Any]) -> tuple[str, str] | None:
        """The task and agent that the server finds for a session."""
        fields = {"event": hook_calls.POST_TOOL, "host": self._call.host, "session": self._call.session}
        task_id, _, agent = self._relay(fields | words).text("text").partition(" ")
        return (task_id, agent) if task_id else None

    def _guard(self, fields: dict[str, Any]) -> HookAnswer | None:
        """Denies a tool use that would change guarded files, as far as its input and this clone show."""
        call = session.SessionCall(**fields | {"worktree": session.SocketWorktree()})
        if call.event == hook_calls.CONFIG_CHANGE:
            return tool_guard.settings_answer(call, self._place)
        place = self._place
        settings = SettingsSource(startup.repository.GitRepository(place), place.root, place.common_dir)
        protected = settings.settings().gate_policy.protected
        found = tool_guard.find_guarded(call, place, settings.base_branch(), protected)
        if not found:
            return None
        return tool_guard.guard_answer(found, is_enforced=settings.rules().is_enforced)

    def _stop(self, bound: SessionTask, fields: dict[str, Any]) -> HookAnswer:
        """A stop: sends the commit to the server, which measures it while this waits."""
        worktree: dict[str, Any] = fields["worktree"]
        worktree["uncommitted"] = list(startup.repository.uncommitted_files(self._place, answers.own_files))
        if worktree["head"]:
            worktree["fault"] = self._deliver(bound, worktree["head"])
        pause = FIRST_LOOK
        while True:
            answered = self._relay(fields)
            if answered.text("kind") != answers.MEASURE:
                return _parse(answered)
            if monotonic() + pause > self._until - MARGIN:
                waits = answers.WAIT.format(task=bound.task_id, commit=worktree["head"][:12])
                return HookAnswer.block(waits)
            fields["key"] = answered.text("text")
            sleep(pause)
            pause = min(1.5 * pause, LONGEST_LOOK)

    def _deliver(self, bound: SessionTask, commit: str) -> str:
        """Sends a commit to the server; returns the message to the agent if that fails."""
        clone = startup.remote.CloneCommits(self._place, self._environment)
        delivery = startup.server.CommitDelivery(self._server, clone)
        try:
            delivery.deliver("task", bound.task_id, commit, self._wait_seconds())
        except (startup.server.CallDenied, OSError, errors.RemandError) as error:
            return NOT_DELIVERED.format(commit=commit[:12], task=bound.task_id, why=f"{error}".rstrip("."))
        return ""

    def _relay(self, fields: dict[str, Any]) -> hook_calls.Payload:
        """The server's answer to a call, in Remand's own format."""
        call = {
            "arguments": ["--json", "hook", "relay", hook_calls.compose(fields)],
            "settings": {name: self._environment.get(name, "") for name in ("REMAND_ACTOR", "REMAND_TASK")},
        }
        patience = max(MARGIN, self._until - monotonic())
        code, output, complaint = startup.server.retry_while_unavailable(
            lambda: self._server.call(dict(call), "", patience=patience), self._wait_seconds(), lambda _: None
        )
        answered = hook_calls.parse(output)
        if code:
            message = answered.text("message") or complaint.decode("utf-8", "replace").strip()
            raise startup.server.CallDenied(answered.text("refused") or "environment", message)
        return answered

    def _wait_seconds(self) -> float:
        left = self._until - monotonic() - MARGIN
        return max(0.0, min(left, startup.server.wait_seconds(self._environment, AWAY_SECONDS)))


def _parse(answered: hook_calls.Payload) -> HookAnswer:
    if answered.text("kind") not in hook_calls.KINDS:
        raise startup.server.CallDenied("environment", "it gave no valid answer to a hook")
    return HookAnswer(answered.text("kind"), answered.text("text"), notice=answered.text("notice"))
