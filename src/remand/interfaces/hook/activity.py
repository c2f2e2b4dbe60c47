"""Records what an agent ran: the journal, the session's claim, and the heartbeat."""

from __future__ import annotations

import re
import subprocess

from remand.app.hook_calls import HookCall
from remand.app.scheduler.agent_socket import SERVER_VARIABLES
from remand.interfaces.hook import session as hook_session
from remand.startup import COMMAND_LINE
from remand.wiring import startup
from remand.wiring.startup import LedgerLocation, SessionTask

HEARTBEAT_SECONDS = 240.0
LATELY_SECONDS = 600.0
_TASK = re.compile(r"T-[0-9]{8}-[0-9]{6}-[0-9a-f]{4,8}")
_CLAIM = re.compile(
    r"(?:^|[;&|(\n]|\b(?:then|do|else|time|exec|env)\b)\s*(?:\w+=\S*\s+)*(?:\S*/)?remand(?:\s+-\S+(?:\s+[^-\s]\S*)?)*"
    r"\s+(?:task\s+claim|handoff\s+accept)\b"
)
_OWN_TOOL = re.compile(r"(?:mcp_{1,2}(?:plugin_remand_)?remand_{1,2}|remand[-_.:/]{1,2}|MCP:)next_task")
"""Remand's own tool for claiming, as hosts call it."""
_GIVEN = re.compile(r'"task_id":\s*"(T-[0-9]{8}-[0-9]{6}-[0-9a-f]{4,8})"')
_AGENT = re.compile(r"--agent[= ]+[\"']?([\w@.+:/-]{1,64})")


def record_tool_use(
    call: HookCall, place: LedgerLocation, bound: SessionTask | None, environment: dict[str, str]
) -> None:
    """Records a tool use for the session's task."""
    claim = find_claim_words(call)
    if claim is not None:
        found = hook_session.find_recent_claim(place, *claim, LATELY_SECONDS)
        bound = note_claim(call, place, found) or bound
    if bound is not None and not is_task_id(bound.task_id):
        bound = hook_session.resolve_session_task(place, bound)
    if bound is not None:
        record_work(call, place, bound, environment)


def record_work(
    call: HookCall, place: LedgerLocation, bound: SessionTask, environment: dict[str, str]
) -> None:
    """Records a tool use for a task, and renews the task's lease now and then."""
    append_to_journal(call, place, bound)
    _send_heartbeat(place, bound, environment)


def is_task_id(name: str) -> bool:
    return bool(_TASK.fullmatch(name))


def find_claim_words(call: HookCall) -> tuple[str, set[str]] | None:
    """The agent and the tasks named by a tool use that may have claimed one; None for any other tool.

    The output of a command proves nothing: a claim counts only if the ledger says that this agent has just claimed
    the task.
    """
    tool = call.tool
    if tool is None or tool.has_failed:
        return None
    is_own_tool = bool(_OWN_TOOL.fullmatch(tool.name))
    if not is_own_tool and not _CLAIM.search(tool.command):
        return None
    named = _AGENT.search(tool.command)
    words = {*_TASK.findall(tool.output), *_TASK.findall(tool.command)}
    return named[1] if named else "", set(_GIVEN.findall(tool.output)) if is_own_tool else words


def note_claim(call: HookCall, place: LedgerLocation, found: tuple[str, str] | None) -> SessionTask | None:
    """Stores the task that this command has claimed for the session, if any."""
    if found is None:
        return None
    startup.session_tasks.record_claim(startup.folders_of(place).sessions, call.session, *found)
    return SessionTask(*found)


def append_to_journal(call: HookCall, place: LedgerLocation, bound: SessionTask) -> None:
    """Adds a tool use to the journal of its task."""
    tool = call.tool
    if tool is None:
        return
    startup.journal.append(
        startup.folders_of(place).journal,
        bound.task_id,
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


def is_heartbeat_due(place: LedgerLocation, task_id: str) -> bool:
    """True if the last heartbeat for the task's agent was a while ago; also stores the time of this one."""
    sessions = startup.journal.Sessions(startup.folders_of(place).sessions)
    return sessions.is_due("heartbeat", task_id, "", HEARTBEAT_SECONDS)


def _send_heartbeat(place: LedgerLocation, bound: SessionTask, environment: dict[str, str]) -> None:
    """Renews the lease of a working agent now and then, in the background."""
    if not bound.agent or not is_heartbeat_due(place, bound.task_id):
        return
    subprocess.Popen(
        [
            *(*COMMAND_LINE, "-C", place.worktree, "--json"),
            *("task", "heartbeat", bound.task_id, "--agent", bound.agent),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={
            name: value
            for name, value in environment.items()
            if not name.startswith("REMAND_") or name in SERVER_VARIABLES
        }
        | {"REMAND_TASK": bound.task_id},
        start_new_session=True,
    )
