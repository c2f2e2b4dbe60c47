"""Records what the tools of a solo session do. Two hook calls for each tool run this, so it loads little."""

from __future__ import annotations

import os

from remand.app import hook_calls
from remand.app.hook_calls import HookCall
from remand.wiring.startup import LedgerLocation, folders_of, solo_sessions

TOOL_EVENTS = (hook_calls.PRE_TOOL, *hook_calls.TOOL_RESULT_EVENTS)
HOSTS_WITHOUT_NOTICES = frozenset({"copilot", "cursor", "openhands"})
"""Hosts that show their user nothing about an allowed stop: the agent is asked to pass it on."""
MAX_PATHS = 200


def is_noted(call: HookCall, place: LedgerLocation) -> bool:
    """Records a tool use; True if nothing else has to be done: the session is known, and HEAD has not moved."""
    if call.event not in TOOL_EVENTS:
        return False
    sessions = solo_sessions.SoloSessions(folders_of(place).solo)
    record = sessions.find(call.session, place.worktree)
    if record is None or record.head_log != head_log_size(place):
        return False
    if call.host in HOSTS_WITHOUT_NOTICES and call.event in hook_calls.TOOL_RESULT_EVENTS:
        return False
    note_tool(call, place, sessions, record)
    return True


def note_tool(
    call: HookCall,
    place: LedgerLocation,
    sessions: solo_sessions.SoloSessions,
    record: solo_sessions.SoloSession,
) -> None:
    """Records which files a tool writes, or when a command starts or ends."""
    tool = call.tool
    if tool is None:
        return
    top = os.path.realpath(place.worktree)
    for path in tool.paths[:MAX_PATHS]:
        whole = os.path.join(call.cwd or place.worktree, os.path.expanduser(path))
        sessions.note(record, "path", os.path.relpath(os.path.realpath(whole), top))
    if tool.command:
        kind = "end" if call.event in hook_calls.TOOL_RESULT_EVENTS else "begin"
        sessions.note(record, kind, f"{tool.use_id or '-'} {tool.duration or 0:.3f}")


def head_log(place: LedgerLocation) -> str:
    """Git's own record of what was checked out in a worktree."""
    return os.path.join(place.git_dir, "logs", "HEAD")


def head_log_size(place: LedgerLocation) -> int:
    """The size of that record; 0 if there is none."""
    try:
        return os.stat(head_log(place)).st_size
    except OSError:
        return 0
