"""A hook call as plain values, and the task that the ledger knows its session by."""

from __future__ import annotations

import os

from remand.app.tasks.lookup import People, find_task_id
from remand.domain.instant import add_seconds
from remand.domain.record import Record
from remand.wiring.ledger import open_at
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import LedgerLocation, SessionTask, folders_of


class SocketWorktree(Record, kw_only=True):
    """The worktree of an agent that calls through its socket, with its state as inspected from outside."""

    folder: str = ""
    head: str = ""
    uncommitted: tuple[str, ...] = ()
    fault: str = ""
    """Why its commits could not be imported."""


class SessionCall(Record, kw_only=True):
    """A call as plain values, so that it can be forwarded."""

    event: str
    host: str
    session: str = ""
    firing: str = ""
    is_timed: bool = False
    """The host's timestamp identifies the event: equal ones are one stop, however far apart the hook calls are."""
    task_id: str = ""
    agent: str = ""
    branch: str = ""
    earlier: tuple[str, ...] = ()
    """Tasks that the session claimed before, each followed by a space and its agent."""
    has_background_work: bool = False
    is_broken: str = ""
    """Why the host's payload could not be read."""
    tool: str = ""
    command: str = ""
    cwd: str = ""
    """The session's folder."""
    paths: tuple[str, ...] = ()
    config_source: str = ""
    worktree: SocketWorktree = SocketWorktree()
    patience: float = 0.0
    """How many seconds the gates may take, if they may run at all."""
    since: float = 0.0
    """For a tool use that may have claimed a task: how many seconds ago it was."""
    key: str = ""
    """For a stop that is asked about again: its original key."""


def open_session_ledger(place: LedgerLocation) -> OpenLedger:
    """The ledger of sessions without a task: local to this machine, outside the repository, and never published."""
    folder = folders_of(place).session_ledger
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return open_at(LedgerLocation(root=folder, worktree=folder), store_url="")


def find_recent_claim(
    place: LedgerLocation, agent: str, ids: set[str], seconds: float, opened: OpenLedger | None = None
) -> tuple[str, str] | None:
    """The task and agent of the latest matching claim: by that agent, or of one of the named tasks."""
    opened = opened or open_at(place)
    now = opened.ledger.clock.now()
    with opened.store.read() as view:
        own = People(view, opened.settings.rules().team).recorded_name(agent)
        tasks = [task for task in view.tasks.every() if task.claim is not None]
    fitting = [
        (task.claim.claimed_at, task.id, task.claim.agent)
        for task in tasks
        if task.claim is not None
        and add_seconds(task.claim.claimed_at, seconds) > now
        and (task.claim.agent == own if own else task.id in ids)
    ]
    return max(fitting)[1:] if fitting else None


def resolve_session_task(
    place: LedgerLocation, bound: SessionTask, opened: OpenLedger | None = None
) -> SessionTask | None:
    """A session's task by its own id, if only an alias or the branch of its worktree is known."""
    with (opened or open_at(place)).store.read() as view:
        if bound.task_id:
            task = view.tasks.get(find_task_id(view, bound.task_id))
        else:
            claimed = (task for task in view.tasks.every() if task.branch == bound.branch and task.claim)
            task = next(claimed, None)
    if task is None:
        return None
    return SessionTask(task.id, bound.agent or (task.claim.agent if task.claim else ""))
