"""Noting what an agent ran: the journal, the session's claim, and that the agent is at work."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

from remand.bootstrap import noting, quick
from remand.bootstrap.hosts import Call
from remand.bootstrap.quick import Bound, Place
from remand.config import inherited_environment

HEARTBEAT_SECONDS = 240.0
_TASK = re.compile(r"T-[0-9]{8}-[0-9]{6}-[0-9a-f]{4,8}")
_CLAIM = re.compile(r"\bremand\b[^|;&\n]*\b(?:task\s+claim|handoff\s+accept)\b")
_AGENT = re.compile(r"--agent[= ]+[\"']?([\w@.+:/-]{1,64})")


def note(call: Call, place: Place, bound: Bound | None) -> None:
    """Writes down what was run, for the task it was run for."""
    bound = _claimed(call, place) or bound
    if bound is None or not bound.task_id:
        return
    _write_down(call, place, bound)
    _keep_alive(place, bound)


def _claimed(call: Call, place: Place) -> Bound | None:
    """The task that this very command has claimed for the session."""
    tool = call.tool
    if tool is None or tool.has_failed or not _CLAIM.search(tool.command):
        return None
    found = _TASK.search(tool.output) or _TASK.search(tool.command)
    agent = _AGENT.search(tool.command)
    if found is None:
        return None
    holder = _holder(place, found[0])
    if not holder or (agent and agent[1] != holder):
        return None
    quick.bind(place, call.session, found[0], holder)
    return Bound(found[0], holder)


def _holder(place: Place, task_id: str) -> str:
    """The agent that holds a task, by the ledger's word; what a command prints proves nothing."""
    opened = import_module("remand.bootstrap.ledger").open_at(place)
    with opened.store.read() as view:
        task = view.tasks.get(task_id)
    name: str = task.claim.agent if task is not None and task.claim is not None else ""
    return name


def _write_down(call: Call, place: Place, bound: Bound) -> None:
    tool = call.tool
    if tool is None:
        return
    noting.append(
        noting.journal_folder(quick.ledger_id(place)),
        bound.task_id.removeprefix("task:"),
        agent=bound.agent,
        host=call.host,
        session=call.session,
        tool=tool.name,
        tool_use_id=tool.use_id,
        command=tool.command,
        paths=tool.paths,
        exit_status=tool.exit_code,
        output=tool.output,
        duration_ms=None if tool.duration is None else int(tool.duration * 1000),
        transcript=call.transcript,
    )


def _keep_alive(place: Place, bound: Bound) -> None:
    """Renews the lease of an agent that is at work, now and then, without anyone waiting for it."""
    if not bound.agent or not noting.is_due(quick.ledger_id(place), bound.task_id, HEARTBEAT_SECONDS):
        return
    subprocess.Popen(
        [
            *(sys.executable, "-m", "remand.interfaces.cli.entry", "-C", place.worktree, "--json"),
            *("task", "heartbeat", bound.task_id, "--agent", bound.agent),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=inherited_environment("REMAND_") | {"REMAND_TASK": bound.task_id},
        start_new_session=True,
    )
