"""The answers to calls of measured sessions, with the ledger open: stops, tool uses, feedback."""

from __future__ import annotations

from hashlib import sha256
from time import monotonic

import msgspec

from remand.app import hook_calls, prompts
from remand.app.events.task_folds import task_events
from remand.app.gates.done_claims import Stop, StopReply, StopResponder
from remand.app.hook_calls import HookAnswer
from remand.app.requests import Request
from remand.app.tasks.lookup import Lineage, find_task_id, lockout_facts
from remand.domain import commands as c
from remand.domain.access import tool_calls
from remand.domain.access.team import Team
from remand.domain.access.tokens import Caller
from remand.domain.events.event import KnownBy
from remand.domain.gate import message
from remand.domain.gate.verdict import GateStatus
from remand.domain.hosts import SetupFiles
from remand.domain.preconditions import find_lockout
from remand.domain.task import Status, Task
from remand.interfaces.hook import tool_guard
from remand.interfaces.hook.session import SessionCall
from remand.ledger.store import Transaction
from remand.startup import AGENT_COMMAND_LINE, COMMAND_LINE
from remand.wiring import startup
from remand.wiring.gates import make_gates
from remand.wiring.ledger import open_at
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation, current_branch, repository

MEASURE = "measure"
"""Not an answer to a host: the gates have to run first."""
WAIT = (
    "The gates for task {task} are still running at {commit}. This stop is not counted. Wait for them with "
    "`remand gate wait {task}`, or the MCP tool `submit`, then stop again."
)
TASK_UNKNOWN = (
    "The ledger here does not know task {task}, which this session works on. If it was deleted, tell the user: "
    "`remand log verify` says what is missing."
)
MAX_UNKNOWN_BLOCKS = 3
NO_VERDICT = "The gates for task {task} ended without a verdict, so the work was not measured. Continue with it, and tell the user. The gates' output: {said}"


def answer_session(
    call: SessionCall,
    place: LedgerLocation,
    *,
    deadline: float,
    opened: OpenLedger | None = None,
    status: repository.WorktreeStatus | None = None,
    known_by: KnownBy = KnownBy.WORD,
    caller: Caller | None = None,
) -> HookAnswer:
    """The answer to a call, in Remand's own format; a coordinator runs no gates.

    `caller` is set for calls from another machine.
    """
    own = opened or open_at(place)
    own.ledger.refresh()
    session = _Session(own, place, call, status)
    session.known_by, session.caller = known_by, caller
    if call.worktree.folder and caller is None:
        session.known_by = KnownBy.SOCKET
    return session.answer(deadline=0.0 if opened else deadline)


class _Session:
    """One call of a session, and its task."""

    def __init__(
        self,
        opened: OpenLedger,
        place: LedgerLocation,
        call: SessionCall,
        status: repository.WorktreeStatus | None,
    ) -> None:
        self.known_by = KnownBy.WORD
        """How the agent was identified."""
        self.caller: Caller | None = None
        """The caller that the server identified, if the session is on another machine."""
        self._opened = opened
        self._place = place
        self._call = call
        self._status = status
        self._task = self._find()
        self._gates = make_gates(opened)

    @property
    def is_remote(self) -> bool:
        """True if the session is on another machine, which inspects its worktree and asks again while gates run."""
        return self.caller is not None

    def answer(self, *, deadline: float) -> HookAnswer:
        """The answer to any call."""
        task, event = self._task, self._call.event
        if event == hook_calls.CONFIG_CHANGE:
            return tool_guard.settings_answer(self._call, self._place)
        if self._gates.current_pause is not None:
            return HookAnswer.allow()
        if task is None:
            return self._answer_unknown_task()
        if event == hook_calls.PRE_TOOL:
            return self._guard(task)
        if not self._may_act(task):
            return HookAnswer.allow()
        if event in hook_calls.START_EVENTS:
            return self._feedback(task)
        if event == hook_calls.TASK_COMPLETED:
            return self._answer_item_completed(task)
        return self._stop(task, deadline) if event == hook_calls.STOP else HookAnswer.allow()

    def _answer_item_completed(self, task: Task) -> HookAnswer:
        """A completed item of the host's own list is not a done claim; the agent only gets the state of its work."""
        commit = self._head
        if task.claim is None or task.status != Status.CLAIMED or not commit:
            return HookAnswer.allow()
        judged = self._gates.known_verdict(self._gates.terms(task, commit))
        is_failed = judged is not None and judged.verdict.status is GateStatus.FAILED
        return (
            HookAnswer.block(message.render_verdict(judged.verdict))
            if judged and is_failed
            else HookAnswer.allow()
        )

    def _answer_unknown_task(self) -> HookAnswer:
        """The answer to a session whose task is not in the ledger."""
        name, event = self._call.task_id, self._call.event
        if not name or self._call.earlier or event not in hook_calls.ENDINGS:
            return HookAnswer.allow()
        if self._gates.sessions.count(name, self._call.session, self._call.firing) > MAX_UNKNOWN_BLOCKS:
            return HookAnswer.allow(TASK_UNKNOWN.format(task=name))
        return HookAnswer.block(TASK_UNKNOWN.format(task=name))

    def _find(self) -> Task | None:
        """The task by its name, or the claimed task on the branch of this worktree."""
        name, branch = self._call.task_id, self._call.branch
        with self._opened.store.read() as view:
            if not name:
                held = (task for task in view.tasks.every() if task.branch == branch and task.claim)
                return next(held, None)
            found = view.tasks.get(find_task_id(view, name))
            before = (view.tasks.get(line.partition(" ")[0]) for line in self._call.earlier)
            open_before = [task for task in before if task is not None and self._holds(task)]
            return found if found is None or self._holds(found) or not open_before else open_before[-1]

    def _holds(self, task: Task) -> bool:
        """True if the session's agent still holds a task that the session claimed."""
        claims = {f"{self._call.task_id} {self._call.agent}", *self._call.earlier}
        return task.claim is not None and f"{task.id} {task.claim.agent}" in claims

    def _may_act(self, task: Task) -> bool:
        """True unless a remote caller may not act as the task's holder: then nothing is said or done for it."""
        if self.caller is None:
            return True
        with self._opened.store.read() as view:
            return self.caller.may_act_for(task.claim.agent if task.claim else "", self._team(view, task))

    def _agent(self, task: Task) -> str:
        """The session's agent, by its own name even if an alias was given; empty if unknown."""
        lines = (f"{self._call.task_id} {self._call.agent}", *self._call.earlier)
        said = next((who for line in lines for name, _, who in [line.partition(" ")] if name == task.id), "")
        name = said or self._call.agent
        with self._opened.store.read() as view:
            team = self._team(view, task)
        return team.actor(name).name if name else ""

    def _team(self, view: Transaction, task: Task) -> Team:
        """The team, each member by the name by which the task knows it."""
        return self._opened.settings.rules().team.with_task_names(Lineage(view).participant_names(task))

    def _guard(self, task: Task) -> HookAnswer:
        """Denies tool uses that change guarded files, and tool uses of a locked-out agent."""
        agent = self._agent(task) or (task.claim.agent if task.claim else "")
        why = self._lockout_reason(task, agent)
        if why and not tool_guard.is_read_only(self._call):
            return self._deny(
                f"{agent} may no longer work on task {task.id}. Reason: “{' '.join(why.split())[:300]}”. Claim another task: `remand task claim`, or the MCP tool `next_task`."
            )
        if self.is_remote:  # its own machine has looked at the paths
            return HookAnswer.allow()
        found = self._guarded_paths()
        return (
            tool_guard.guard_answer(found, is_enforced=self._opened.settings.rules().is_enforced)
            if found
            else HookAnswer.allow()
        )

    def _guarded_paths(self) -> list[str]:
        """The guarded paths that a tool is about to touch. Its socket, if any, decides which commands it may call."""
        place, worktree = self._place, self._call.worktree.folder
        if worktree:
            place = LedgerLocation(
                root=place.root, worktree=worktree, git_dir=place.git_dir, common_dir=place.common_dir
            )
        protected = self._opened.settings.settings().gate_policy.protected
        found = tool_guard.find_guarded(self._call, place, self._opened.settings.base_branch(), protected)
        return [name for name in found if not worktree or name != tool_calls.USER_COMMANDS]

    @property
    def _head(self) -> str:
        return self._call.worktree.head if self._is_elsewhere else repository.head_commit(self._place)

    @property
    def _is_elsewhere(self) -> bool:
        """True if the session's worktree is on another machine: the call then describes its state."""
        return self.is_remote or bool(self._call.worktree.folder)

    def _lockout_reason(self, task: Task, agent: str) -> str:
        """Why the agent may not work on the task; empty if it may, or if the task has ended."""
        if task.status in (Status.DONE, Status.CANCELLED):
            return ""
        with self._opened.store.read() as view:
            team = self._team(view, task)
            lockouts = lockout_facts(view, team, task)
        ground = find_lockout(task, team.actor(agent).name, lockouts) if agent else None
        if ground is None:
            return ""
        if ground.own is not None:
            return ground.own.reason or "rejected"
        if ground.above:
            return f"it is locked out of {ground.above}, which this task was split from"
        return f"it may be {ground.former}, who is locked out and no longer on the team"

    def _deny(self, text: str) -> HookAnswer:
        """Denies a tool use; without enforcement, tells the user instead."""
        return tool_guard.deny(text, is_enforced=self._opened.settings.rules().is_enforced)

    def _feedback(self, task: Task) -> HookAnswer:
        """The feedback for a session that starts."""
        if task.claim is None or task.status != Status.CLAIMED:
            return HookAnswer.allow()
        is_start = self._call.event == hook_calls.SESSION_START
        with self._opened.store.read() as view:
            events = task_events(view, task.id)
        agent = self._agent(task)
        if agent not in ("", task.claim.agent):
            return HookAnswer.allow()
        if not is_start and not self._is_news(task, len(events)):
            return HookAnswer.allow()
        if agent:
            self._record_receipt(task)
        # `prompts` is loaded only here: the sanitiser of feedback takes longer to load than a stop takes to answer.
        with self._opened.store.read() as view:
            context = prompts.read_rejection_context(view, task, events)
        return HookAnswer.context(
            prompts.render_prompt(task, events, context, self._opened.settings.settings().forge.home)
        )

    def _record_receipt(self, task: Task) -> None:
        """Records that the agent received its feedback."""
        claim = task.claim
        if claim is None or claim.read >= task.reviews.feedback:
            return
        ask = c.FetchFeedback(task_id=task.id, agent=claim.agent, handoff_id=claim.handoff_id)
        self._opened.ledger.ask(
            Request(command=ask, actor=claim.agent, confined=True, known_by=self.known_by)
        )

    def _is_news(self, task: Task, count: int) -> bool:
        """True if something was rejected since this session last received feedback."""
        kind = f"told-{count}"
        has_feedback = task.reviews.feedback or task.gates.rejection_count
        return bool(has_feedback) and self._gates.sessions.is_due(kind, task.id, self._call.session, 1e9)

    def _stop(self, task: Task, deadline: float) -> HookAnswer:
        commit, call = self._head, self._call
        sessions = self._gates.sessions
        number = 1 if call.is_timed or call.key else sessions.occurrence(task.id, call.firing, call.host)
        key = f"hook-{sha256(call.firing.encode()).hexdigest()[:40]}-{number}-{commit[:12]}"
        stop = Stop(
            task_id=task.id,
            session=call.session or "unnamed",
            key=call.key or sessions.awaited_key(task.id, call.session, key),
            agent=self._agent(task),
            commit=commit,
            branch=call.branch if self._is_elsewhere else current_branch(self._place.git_dir),
            uncommitted=call.worktree.uncommitted if self._is_elsewhere else self._uncommitted_paths(),
            has_background_work=call.has_background_work,
            is_broken=call.is_broken,
            fault=call.worktree.fault,
            known_by=self.known_by,
        )
        responder = self._gates.stop_responder()
        reply = responder.reply(stop)
        if reply is None and not deadline:
            if not self.is_remote:
                return HookAnswer(MEASURE)
            reply = self._reply_to_poll(task, stop, responder)
            if reply is None:
                return HookAnswer(MEASURE, stop.key)
        reply = reply or self._run_gates(task, stop, responder, deadline)
        sessions.note_answer(task.id, call.firing)
        return _render_reply(reply)

    def _uncommitted_paths(self) -> tuple[str, ...]:
        return (
            self._status.uncommitted_files(own_files)
            if self._status
            else repository.uncommitted_files(self._place, own_files)
        )

    def _reply_to_poll(self, task: Task, stop: Stop, responder: StopResponder) -> StopReply | None:
        """Runs the gates for a stop on another machine, which asks again; None while they run."""
        runs = self._gates.runs
        if self._gates.is_measured_by_workers:  # its gate run is queued
            self._gates.sessions.note_waiting(stop.task_id, self._call.session, stop.key)
            return None
        if not runs.wait(stop.task_id, 0.0):
            return None
        said = runs.take(stop.task_id) or b""
        if self._call.key and said:
            reply = responder.reply(stop)  # it may have ended since that was asked
            if reply is not None:
                return reply if reply.notice or reply.text else reply._replace(notice=_message(said))
            if stop.commit.encode() in said or b'"error"' in said:
                return self._reply_without_verdict(task, stop, responder, said)
        self._gates.sessions.note_waiting(stop.task_id, self._call.session, stop.key)
        self._start_run(stop)
        return None

    def _run_gates(self, task: Task, stop: Stop, responder: StopResponder, deadline: float) -> StopReply:
        """Runs the gates in a process that continues if they take longer than the host waits.

        If a run for an earlier commit is in progress, this takes a second run.
        """
        runs, until = self._gates.runs, monotonic() + deadline
        for _ in range(2):
            self._start_run(stop)
            if not runs.wait(stop.task_id, until - monotonic()):
                self._gates.sessions.note_waiting(stop.task_id, self._call.session, stop.key)
                return StopReply(may_stop=False, text=WAIT.format(task=stop.task_id, commit=stop.commit[:12]))
            reply = responder.reply(stop)
            if reply is not None:
                output = runs.take(stop.task_id) or b""
                return reply if reply.notice or reply.text else reply._replace(notice=_message(output))
        return self._reply_without_verdict(task, stop, responder, runs.take(stop.task_id) or b"nothing")

    def _reply_without_verdict(
        self, task: Task, stop: Stop, responder: StopResponder, said: bytes
    ) -> StopReply:
        """The reply if the gates could not run.

        Remand's own failure is not an idle stop: the agent is told a few times, then the user.
        """
        text = NO_VERDICT.format(task=task.id, said=said[:1000].decode("utf-8", "replace"))
        if b'"error"' not in said:
            return responder.send_back(task, stop, text)
        count = self._gates.sessions.count(task.id, self._call.session, stop.key)
        if count > MAX_UNKNOWN_BLOCKS:
            return StopReply(may_stop=True, notice=text)
        return StopReply(may_stop=False, text=text)

    def _start_run(self, stop: Stop) -> None:
        environment = self._opened.process_environment | {"REMAND_TASK": stop.task_id}
        self._gates.runs.start(stop.task_id, self._submit_command(stop), environment)

    def _submit_command(self, stop: Stop) -> list[str]:
        claim = self._task.claim if self._task else None
        # The branch of an agent's own worktree is the task's. One that is only checked out may be another task's.
        is_own = not self.is_remote or (self._task and self._task.branch in ("", stop.branch))
        branch = ("--branch", stop.branch) if self._is_elsewhere and stop.branch and is_own else ()
        known = (f"--known-by={stop.known_by}",) if self.is_remote else ()
        return [
            *(AGENT_COMMAND_LINE if self._is_elsewhere else COMMAND_LINE),
            *(*known, "-C", self._place.worktree, "--json"),
            *("task", "submit", stop.task_id, "--commit", stop.commit, "--key", stop.key),
            *("--agent", claim.agent if claim else "", *branch),
        ]


def own_files() -> SetupFiles:
    """The files of Remand's set-up."""
    return SetupFiles(startup.server_files(), startup.guarded_files())


def _message(output: bytes) -> str:
    """The beginning of a run's output about its verdict."""
    try:
        found = msgspec.json.decode(output)
    except msgspec.MsgspecError:
        return ""
    text = found.get("message", "") if isinstance(found, dict) else ""
    return str(text).partition("\n\nIt does not")[0][:600]


def _render_reply(reply: StopReply) -> HookAnswer:
    if reply.may_stop:
        return HookAnswer.allow(reply.notice)
    return HookAnswer.block(reply.text)
