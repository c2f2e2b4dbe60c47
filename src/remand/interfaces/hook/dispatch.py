"""A call from a measured session: tool uses are recorded here; a coordinator, if one is running, answers the rest."""

from __future__ import annotations

import os

from remand.app import hook_calls
from remand.app.hook_calls import HookAnswer, HookCall
from remand.interfaces.hook import activity, answers, session, solo, solo_notes
from remand.startup import TYPE_CHECKING, load_msgspec
from remand.wiring import startup
from remand.wiring.startup import LedgerLocation, SessionTask

if TYPE_CHECKING:
    from typing import Any

CONFIG = "remand.toml"
SOLO_EVENTS = (
    *(hook_calls.STOP, hook_calls.PRE_TOOL),
    *(*hook_calls.TOOL_RESULT_EVENTS, *hook_calls.START_EVENTS),
)
NOT_MEASURED = "Remand could not measure this session: {why}"
MIN_DEADLINE_SECONDS = 0.5
"""The shortest time for an answer in seconds, whatever the environment says."""


def answer_call(
    call: HookCall, place: LedgerLocation, bound: SessionTask | None, environment: dict[str, str]
) -> HookAnswer:
    """The answer to a call of a session that is measured, or may become so."""
    if call.event in hook_calls.TOOL_RESULT_EVENTS:
        activity.record_tool_use(call, place, bound, environment)
        return HookAnswer.allow()
    if bound is None or call.is_aborted:
        return HookAnswer.allow()
    fields = session_call_fields(call, bound)
    forwarded = _ask_coordinator(place, fields, environment)
    if forwarded is not None:
        return forwarded
    load_msgspec()
    status = startup.repository.start_worktree_status(place) if call.event == hook_calls.STOP else None
    try:
        known = session.SessionCall(**fields)
        return answers.answer_session(known, place, deadline=deadline(call.event, environment), status=status)
    finally:
        if status is not None:
            status.close()


def answer_solo(call: HookCall, place: LedgerLocation, environment: dict[str, str]) -> HookAnswer:
    """The answer to a session that holds no task: silence, unless every session here is measured."""
    if call.event not in SOLO_EVENTS or not is_solo(place, call.session):
        return HookAnswer.allow()
    if solo_notes.is_noted(call, place):
        return HookAnswer.allow()
    load_msgspec()
    return solo.answer(call, place, deadline(call.event, environment))


def explain_solo_fault(call: HookCall, place: LedgerLocation, error: Exception) -> str:
    """The message to the user if a session's stop cannot be measured, given once; empty otherwise."""
    is_over = call.event == hook_calls.STOP and not (call.subagent or call.is_aborted)
    if not is_over or not is_solo(place, call.session):
        return ""
    sessions = startup.solo_sessions.SoloSessions(startup.folders_of(place).solo)
    name = startup.solo_sessions.SoloSession(call.session, place.worktree).name
    text = NOT_MEASURED.format(why=f"{type(error).__name__}: {error}"[:600])
    try:
        if not sessions.is_first(f"fault-{name}"):
            return ""
        if call.host in solo_notes.HOSTS_WITHOUT_NOTICES:
            sessions.add_notice(name, text)
    except OSError:
        pass  # where nothing can be written, it is said each time
    return text


def is_solo(place: LedgerLocation, known_session: str = "") -> bool:
    """True if the sessions of a place are measured: by the user's switch, or by its configuration.

    A session that was measured before stays so even if it changes the configuration: only the user ends that.
    """
    if not place.git_dir:
        return False
    sessions = startup.solo_sessions.SoloSessions(startup.folders_of(place).solo)
    word, _ = sessions.switch()
    if word:
        return word == startup.solo_sessions.ON
    if known_session and sessions.find(known_session, place.worktree) is not None:
        return True
    return startup.solo_sessions.asks_for_all(os.path.join(place.root, CONFIG))


def is_free_branch(place: LedgerLocation, bound: SessionTask, known_session: str = "") -> bool:
    """True if every session is measured and the linked worktree's branch belongs to no claimed task."""
    return is_solo(place, known_session) and session.resolve_session_task(place, bound) is None


def deadline(event: str, environment: dict[str, str]) -> float:
    """How long the answer may take. The environment can shorten it, but not extend it."""
    own = hook_calls.deadline(event)
    try:
        return max(MIN_DEADLINE_SECONDS, min(own, float(environment.get("REMAND_HOOK_DEADLINE", "") or own)))
    except ValueError:
        return own


def session_call_fields(call: HookCall, bound: SessionTask) -> dict[str, Any]:
    """The values of a call on which the answer depends."""
    tool = call.tool
    return {
        "event": call.event,
        "session": call.session,
        "firing": call.firing_key,
        "is_timed": call.is_timed,
        "task_id": bound.task_id,
        "agent": bound.agent,
        "branch": bound.branch,
        "earlier": list(bound.earlier),
        "has_background_work": call.has_background_work,
        "is_broken": call.is_broken,
        "tool": tool.name if tool else "",
        "command": tool.command[:20000] if tool else "",
        "cwd": call.cwd,
        "paths": list(tool.paths[:200]) if tool else [],
        "config_source": call.config_source,
        "host": call.host,
    }


def _ask_coordinator(
    place: LedgerLocation, fields: dict[str, object], environment: dict[str, str]
) -> HookAnswer | None:
    """The coordinator's answer; None if none is running, or a gate has to run."""
    path = startup.find_socket(place)
    if not path or any(os.path.isdir(folder) for folder in place.event_folders[1:]):
        return None
    settings = ["", environment.get("REMAND_TASK", "") or "hook", "", "", "", "", ""]
    try:
        code, output, _ = startup.forward_call(
            path, place.worktree, settings, ["--json", "hook relay", hook_calls.compose(fields)]
        )
    except startup.CoordinatorUnavailable:
        return None
    return parse_relayed_answer(code, output)


def parse_relayed_answer(code: int, output: bytes) -> HookAnswer | None:
    """The answer to a forwarded call; None if there is none because it failed, or because a gate has to run."""
    payload = hook_calls.parse(output)
    if code or payload.text("kind") not in hook_calls.KINDS:
        return None
    return HookAnswer(payload.text("kind"), payload.text("text"), notice=payload.text("notice"))
