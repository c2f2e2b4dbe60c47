"""Whether a session that holds a task may stop, and what it is told when it may not."""

from __future__ import annotations

from collections.abc import Callable

from remand.app.gates.done_claims import ClaimOutcome
from remand.app.gates.ports import SessionRecords
from remand.app.ledger import Ledger
from remand.app.requests import Request
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR
from remand.domain.decisions.claims import StopMeaning, StopState, stop_meaning
from remand.domain.events.event import KnownBy
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task

MAX_NAMED = 10


class Stop(NamedTuple):
    """A host's word that an agent's session wants to end."""

    task_id: str
    session: str
    key: str
    """The same for two hooks that one stop has fired."""
    agent: str = ""
    commit: str = ""
    branch: str = ""
    uncommitted: tuple[str, ...] = ()
    has_background_work: bool = False
    is_broken: str = ""
    """Why the host's word could not be read."""
    known_by: KnownBy = KnownBy.WORD
    """How it is known whose session it is."""
    fault: str = ""
    """What keeps the work from being looked at, as the agent is told it."""


class StopReply(NamedTuple):
    """The answer to a stop: whether the session may end, and what the agent or the user is told."""

    may_stop: bool
    text: str = ""
    notice: str = ""


ALLOW_STOP = StopReply(may_stop=True)
CODES_ALLOWING_STOP = ("gate_held", "gate_errored", "key_not_trusted")
"""Answers to a done claim after which a session may stop; after any other it continues."""


class StopResponder:
    """Answers stops. Only the ledger can finish a task, whatever the host does with the answer."""

    def __init__(
        self,
        ledger: Ledger,
        claim: Callable[[Request], ClaimOutcome | None],
        marks: SessionRecords,
        *,
        is_enforced: bool = True,
    ) -> None:
        self._ledger = ledger
        self._claim = claim
        self._marks = marks
        self._is_enforced = is_enforced

    def reply(self, stop: Stop) -> StopReply | None:
        """The answer to a stop; None when the gates have to be run first."""
        task = self._ledger.task_of(c.TaskCommand(task_id=stop.task_id))
        meaning = stop_meaning(task, _stop_state(stop))
        if meaning == StopMeaning.WAIT and task is not None:
            if self._marks.is_first("waiting", task.id, stop.session, stop.key):
                return ALLOW_STOP
            meaning = stop_meaning(task, _stop_state(stop, has_waited=True))
        if task is None or meaning == StopMeaning.END:
            return ALLOW_STOP
        if meaning == StopMeaning.DONE_CLAIM:
            return self._done_claim(task, stop)
        return self.send_back(task, stop, _send_back_text(task, stop, meaning))

    def send_back(self, task: Task, stop: Stop, text: str) -> StopReply:
        """Sends the session back without measuring anything, until it has stopped so too often in a row."""
        if not self._is_enforced:
            return StopReply(may_stop=True, notice=f"Would have been sent back: {text}")
        handoff = task.claim.handoff_id if task.claim else ""
        self._ledger.ask_as(
            THE_COORDINATOR, c.CountIdleStop(task_id=task.id, handoff_id=handoff, key=stop.key)
        )
        after = self._ledger.task_of(c.TaskCommand(task_id=task.id))
        asked = after.open_escalation if after and after.status == Status.ESCALATED else None
        if asked is None:
            return StopReply(may_stop=False, text=text)
        return StopReply(may_stop=True, notice=f"Task {task.id} was escalated to the user: {asked.reason}.")

    def _done_claim(self, task: Task, stop: Stop) -> StopReply | None:
        """Stopping with commits is a done claim."""
        agent = task.claim.agent if task.claim else ""
        handoff = task.claim.handoff_id if task.claim else ""
        claimed = self._claim(
            Request(
                command=c.SubmitTask(
                    task_id=task.id,
                    agent=agent,
                    handoff_id=handoff,
                    commit=stop.commit,
                    branch=stop.branch,
                ),
                actor=agent,
                confined=True,
                known_by=stop.known_by,
                key=stop.key,
                branch=stop.branch,
            )
        )
        return None if claimed is None else self._reply_to_claim(stop, claimed)

    def _reply_to_claim(self, stop: Stop, claimed: ClaimOutcome) -> StopReply:
        """What a session is told of its done claim."""
        answer = claimed.answer
        if not isinstance(answer, Refused):
            return StopReply(may_stop=True, notice=claimed.message.partition("\n")[0])
        task = self._ledger.task_of(c.TaskCommand(task_id=stop.task_id))
        if task is None or task.claim is None or answer.code in CODES_ALLOWING_STOP:
            return StopReply(may_stop=True, notice=claimed.notice or answer.message)
        if answer.code == "gate_rejected":
            return StopReply(may_stop=False, text=answer.message)
        return self.send_back(task, stop, answer.message)


def _stop_state(stop: Stop, *, has_waited: bool = False) -> StopState:
    return StopState(
        agent=stop.agent,
        commit=stop.commit,
        uncommitted=stop.uncommitted,
        has_fault=bool(stop.fault),
        is_unreadable=bool(stop.is_broken),
        has_background_work=stop.has_background_work,
        has_waited=has_waited,
    )


def _send_back_text(task: Task, stop: Stop, meaning: StopMeaning) -> str:
    """What an agent is told that stopped with nothing to measure."""
    match meaning:
        case StopMeaning.UNREADABLE:
            return f"Remand could not read the host's message ({stop.is_broken}). Continue your task, or tell the user."
        case StopMeaning.FAULT:
            return stop.fault
        case StopMeaning.UNCOMMITTED:
            return _uncommitted_text(task, stop.uncommitted)
        case _:
            return (
                f"Task {task.id} ({task.title[:200]}) is yours, and it has no commit yet. Continue it and commit. If something blocks you, reject it with a record of what you tried "
                "(`remand handoff reject`, or the MCP tool `reject_task`), or say what you wait for "
                "(`remand task wait`, or the MCP tool `waiting`)."
            )


def _uncommitted_text(task: Task, paths: tuple[str, ...]) -> str:
    shown = "\n".join(f"- {path}" for path in paths[:MAX_NAMED])
    more = f"\n- and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return f"There are uncommitted changes, and the gates measure only commits for task {task.id}. Commit them, or undo them:\n{shown}{more}"
