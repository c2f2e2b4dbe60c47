"""Answering a session that is ours, with the ledger at hand."""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib import import_module
from time import monotonic
from typing import Any

import msgspec

from remand.app.asking import Request
from remand.app.family import Family
from remand.app.gates.stopping import Reply, Stop, Stopping
from remand.app.naming import locate
from remand.app.rebuild import story
from remand.bootstrap import hosts
from remand.bootstrap.gates import Gates, Look, head, uncommitted
from remand.bootstrap.hosts import Answer
from remand.bootstrap.ledger import Opened, open_at
from remand.bootstrap.quick import Place, current_branch
from remand.config import inherited_environment
from remand.domain import commands as c
from remand.domain.event import KnownBy
from remand.domain.gates import message
from remand.domain.gates.verdict import GateStatus
from remand.domain.own_files import OwnFiles
from remand.domain.task import Status, Task
from remand.interfaces.hook.words import Words

MEASURE = "measure"
"""Not an answer to a host: the gates have to be run before there is one."""
WAIT = (
    "The gates for task {task} are still running at {commit}. This is not counted. Wait for them with "
    "`remand gate wait {task}`, then stop again."
)
LOST = (
    "The ledger here does not know task {task}, which this session works on. If it was deleted, tell the user: "
    "`remand log verify` says what is missing."
)
LOST_PATIENCE = 3
BROKEN = (
    "The gates for task {task} ended without a verdict, so it is not known whether the work is done. Go on "
    "with it, and tell the user. The run said: {said}"
)


def answer(
    words: Words, place: Place, *, deadline: float, opened: Opened | None = None, look: Look | None = None
) -> Answer:
    """The answer to a call, in our own form; within a coordinator no gate is run."""
    own = opened or open_at(place)
    own.ledger.refresh()
    session = _Session(own, place, words, look)
    return session.answer(deadline=0.0 if opened else deadline)


class _Session:
    """One call of a session, and the task it belongs to."""

    def __init__(self, opened: Opened, place: Place, words: Words, look: Look | None) -> None:
        self._opened = opened
        self._place = place
        self._words = words
        self._look = look
        self._task = self._find()
        self._gates = Gates(opened)

    def answer(self, *, deadline: float) -> Answer:
        """The answer to whatever the call is about."""
        task, event = self._task, self._words.event
        if event == hosts.CONFIG_CHANGE:
            kept: Answer = _guarding().settings_answer(self._words, self._place)
            return kept
        if self._gates.is_paused:
            return Answer.allow()
        if task is None:
            return self._unknown()
        if event == hosts.PRE_TOOL:
            return self._guard(task)
        if event in hosts.BEGINNINGS:
            return self._feedback(task)
        if event == hosts.TASK_COMPLETED:
            return self._item(task)
        return self._stop(task, deadline) if event == hosts.STOP else Answer.allow()

    def _item(self, task: Task) -> Answer:
        """An item of the host's own list is no done claim; it is only told what is known of the work."""
        commit = self._head
        if task.claim is None or task.status != Status.CLAIMED or not commit:
            return Answer.allow()
        judged = self._gates.known(self._gates.terms(task, commit))
        is_failed = judged is not None and judged.verdict.status is GateStatus.FAILED
        return Answer.block(message.told(judged.verdict)) if judged and is_failed else Answer.allow()

    def _unknown(self) -> Answer:
        """The answer to a session whose task the ledger does not know: it is gone, or was never there."""
        name, event = self._words.task_id, self._words.event
        if not name or self._words.earlier or event not in hosts.ENDINGS:
            return Answer.allow()
        if self._gates.sessions.count(name, self._words.session, self._words.firing) > LOST_PATIENCE:
            return Answer.allow(LOST.format(task=name))
        return Answer.block(LOST.format(task=name))

    def _find(self) -> Task | None:
        """The task by its name, or the one that is held on the branch of this worktree."""
        name, branch = self._words.task_id, self._words.branch
        with self._opened.store.read() as view:
            if not name:
                held = (task for task in view.tasks.every() if task.branch == branch and task.claim)
                return next(held, None)
            found = view.tasks.get(locate(view, name))
            before = (view.tasks.get(line.partition(" ")[0]) for line in self._words.earlier)
            open_before = [task for task in before if task is not None and self._holds(task)]
            return found if found is None or self._holds(found) or not open_before else open_before[-1]

    def _holds(self, task: Task) -> bool:
        """True when the session's agent still holds a task that the session claimed."""
        claims = {f"{self._words.task_id} {self._words.agent}", *self._words.earlier}
        return task.claim is not None and f"{task.id} {task.claim.agent}" in claims

    def _agent(self, task: Task) -> str:
        """The agent whose session this is, by its own name whatever alias it goes by; empty when nobody says."""
        lines = (f"{self._words.task_id} {self._words.agent}", *self._words.earlier)
        said = next((who for line in lines for name, _, who in [line.partition(" ")] if name == task.id), "")
        name = said or self._words.agent
        with self._opened.store.read() as view:
            team = self._opened.settings.rules().team.as_known(Family(view).names(task))
        return team.actor(name).name if name else ""

    def _guard(self, task: Task) -> Answer:
        """Keeps what is not an agent's to change from its tools, and a locked-out agent from its task."""
        agent = self._agent(task) or (task.claim.agent if task.claim else "")
        why = self._locked_out(task, agent)
        if why and not _guarding().is_reading(self._words):
            return self._denied(
                f"{agent} may not work on task {task.id} any more. Said of its work: “{' '.join(why.split())[:300]}”. "
                "Other tasks are free: `remand task claim`."
            )
        found = self._guarded()
        if not found:
            return Answer.allow()
        return self._denied(
            f"Not an agent's to touch, as it steers how this work is judged: {', '.join(found[:5])}. "
            "Leave it as it is; if the task needs it, say so in a rejection or ask the user."
        )

    def _guarded(self) -> list[str]:
        """What a tool is about to touch that is not an agent's. What it may call is for its door to say, if it has one."""
        place, worktree = self._place, self._words.workplace
        if worktree:
            place = Place(
                root=place.root, worktree=worktree, git_dir=place.git_dir, common_dir=place.common_dir
            )
        protected = self._opened.settings.settings().gate_policy.protected
        found: list[str] = _guarding().guarded(self._words, place, self._base(), protected)
        return [name for name in found if not worktree or name != _guarding().PERSONS_ONLY]

    @property
    def _head(self) -> str:
        return self._words.head if self._words.workplace else head(self._place)

    def _locked_out(self, task: Task, agent: str) -> str:
        """Why the agent is locked out of the task, or of one it was cut from; empty when it is not."""
        own = next((one.reason or "rejected" for one in task.active_lockouts if one.agent == agent), "")
        if own or not task.parent or agent in task.unlocked:
            return own
        with self._opened.store.read() as view:
            above = next((name for who, name in Family(view).inherited(task) if who == agent), "")
        return f"it is locked out of {above}, which this was cut from" if above else ""

    def _base(self) -> str:
        settings = self._opened.settings
        return settings.settings().base or settings.base()

    def _denied(self, text: str) -> Answer:
        """A no to a tool; where nothing is enforced, the user is told instead."""
        if self._opened.settings.rules().is_enforced:
            return Answer.deny(text)
        return Answer.allow(f"Would have been denied: {text}")

    def _feedback(self, task: Task) -> Answer:
        """What the session should know of its task before it begins."""
        if task.claim is None or task.status != Status.CLAIMED:
            return Answer.allow()
        is_start = self._words.event == hosts.SESSION_START
        with self._opened.store.read() as view:
            events = story(view, task.id)
        agent = self._agent(task)
        if agent not in ("", task.claim.agent):
            return Answer.allow()
        if not is_start and not self._is_news(task, len(events)):
            return Answer.allow()
        if agent:
            self._receipt(task)
        # Loaded when feedback is told: what cleans it takes longer to load than a stop to answer.
        prompt = import_module("remand.app.prompts").prompt
        rejection_context = import_module("remand.app.rejection_context").rejection_context
        with self._opened.store.read() as view:
            context = rejection_context(view, task, events)
        return Answer.context(prompt(task, events, context, self._opened.settings.settings().forge.home))

    @property
    def _known_by(self) -> KnownBy:
        return KnownBy.SOCKET if self._words.workplace else KnownBy.WORD

    def _receipt(self, task: Task) -> None:
        """Notes that the agent was given its feedback."""
        claim = task.claim
        if claim is None or claim.read >= task.feedback:
            return
        ask = c.FetchFeedback(task_id=task.id, agent=claim.agent, handoff_id=claim.handoff_id)
        self._opened.ledger.ask(Request(ask=ask, actor=claim.agent, confined=True, known_by=self._known_by))

    def _is_news(self, task: Task, count: int) -> bool:
        """True when something was rejected since this session was last told."""
        kind = f"told-{count}"
        has_feedback = task.feedback or task.gate_rejection_count
        return bool(has_feedback) and self._gates.sessions.is_due(kind, task.id, self._words.session, 1e9)

    def _stop(self, task: Task, deadline: float) -> Answer:
        commit, words = self._head, self._words
        number = self._gates.sessions.occurrence(task.id, self._words.firing)
        stop = Stop(
            task_id=task.id,
            session=self._words.session or "unnamed",
            key=f"hook-{sha256(self._words.firing.encode()).hexdigest()[:40]}-{number}-{commit[:12]}",
            agent=self._agent(task),
            commit=commit,
            branch=words.branch if words.workplace else current_branch(self._place.git_dir),
            uncommitted=words.uncommitted if words.workplace else self._uncommitted(),
            has_background_work=words.has_background_work,
            is_broken=words.is_broken,
            fault=words.fault,
            is_through_socket=bool(words.workplace),
        )
        stopping = self._gates.stopping()
        reply = stopping.reply(stop)
        if reply is None and not deadline:
            return Answer(MEASURE)
        return _told(reply or self._measured(task, stop, stopping, deadline))

    def _uncommitted(self) -> tuple[str, ...]:
        return self._look.uncommitted(_of_ours) if self._look else uncommitted(self._place, _of_ours)

    def _measured(self, task: Task, stop: Stop, stopping: Stopping, deadline: float) -> Reply:
        """Runs the gates, in a process that goes on should they outlast the host's patience.

        A run for an earlier commit may be going on; then it takes a second one.
        """
        runs, until = self._gates.runs, monotonic() + deadline
        for _ in range(2):
            runs.start(stop.task_id, self._call(stop), _environment(stop.task_id))
            if not runs.wait(stop.task_id, until - monotonic()):
                return Reply(may_stop=False, text=WAIT.format(task=stop.task_id, commit=stop.commit[:12]))
            reply = stopping.reply(stop)
            if reply is not None:
                told = runs.take(stop.task_id) or b""
                return reply if reply.notice or reply.text else reply._replace(notice=_message(told))
        said = (runs.take(stop.task_id) or b"nothing")[:1000].decode("utf-8", "replace")
        return stopping.sent_back(task, stop, BROKEN.format(task=task.id, said=said))

    def _call(self, stop: Stop) -> list[str]:
        claim = self._task.claim if self._task else None
        # The branch of an agent's own worktree is the task's. One that is only checked out may be another task's.
        branch = ("--branch", stop.branch) if self._words.workplace else ()
        module = "outside" if stop.is_through_socket else "entry"
        return [
            *(sys.executable, "-m", f"remand.interfaces.cli.{module}", "-C", self._place.worktree, "--json"),
            *("task", "submit", stop.task_id, "--commit", stop.commit, "--key", stop.key),
            *("--agent", claim.agent if claim else "", *branch),
        ]


def _of_ours() -> OwnFiles:
    """The files of the set-up."""
    return OwnFiles(hosts.server_files(), hosts.guarded_files())


def _message(said: bytes) -> str:
    """What a run told of its verdict, in its first words."""
    try:
        found = msgspec.json.decode(said)
    except msgspec.MsgspecError:
        return ""
    text = found.get("message", "") if isinstance(found, dict) else ""
    return str(text).partition("\n\nIt does not")[0][:600]


def _guarding() -> Any:
    """What guards files, loaded only for the calls that are about files."""
    return import_module("remand.interfaces.hook.guarding")


def _environment(task_id: str) -> dict[str, str]:
    return inherited_environment("REMAND_") | {"REMAND_TASK": task_id}


def _told(reply: Reply) -> Answer:
    if reply.may_stop:
        return Answer.allow(reply.notice)
    return Answer.block(reply.text)
