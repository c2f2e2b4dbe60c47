"""The hook's start: is this call from a measured session? Loads nothing heavy before that is known."""

from __future__ import annotations

import gc
import os
import sys
from _thread import start_new_thread
from time import sleep

from remand.app import hook_calls
from remand.app.hook_calls import HookAnswer, HookCall
from remand.app.scheduler.agent_socket import find_agent_socket
from remand.domain.hosts import HOSTS
from remand.interfaces.hook import dispatch, remote
from remand.wiring import startup

MAX_PAYLOAD = 32 << 20
PROBE = "remand hook probe"
FAILED = 3
"""The exit code of a call that an agent socket could not carry out; no host treats it as a block."""
LATE = "Remand did not decide in time whether this session may stop. Continue your task and stop again later; if this persists, tell the user."
WATCH_MARGIN = 2.0
"""How many seconds after the hook's own deadline, and still before the host's, the watchdog answers."""
NO_LEDGER = "This session works on task {task}, but there is no ledger in its folder. Return to the task's repository; if its ledger was deleted, tell the user."
HOOK_FAILED = "Remand's hook could not decide whether this session may stop: {why}. Continue your task, or tell the user; `remand doctor` shows details."


def run(arguments: list[str], environment: dict[str, str]) -> int:
    """Answers one call of a host, in its own process. If Remand fails, a stop is blocked a few times, then allowed."""
    gc.disable()  # the process ends with the call, and looking for garbage takes longer than all that is left behind
    found = parse_arguments(arguments)
    if found is None:
        sys.stderr.write(f"remand: usage: remand hook --host {'|'.join(HOSTS)} EVENT\n")
        return 2
    host, event, folder = found
    module = startup.load_host(host)
    if module is None:
        return 2
    if environment.get("REMAND_HOOK_PROBE"):
        return _write_rendered(module.render(event, HookAnswer.block(PROBE)))
    project = environment.get(module.SETUP.project, "") if module.SETUP.project else ""
    agent_socket, kind, call = find_agent_socket(environment), event, HookCall(host, event)
    places: list[str] = []
    try:
        payload = sys.stdin.buffer.read(MAX_PAYLOAD + 1)
        call = module.read(event, payload)
        kind = call.event
        late = HookAnswer.block(LATE) if kind in hook_calls.ENDINGS else HookAnswer.allow()
        _start_watchdog(hook_calls.deadline(kind) + WATCH_MARGIN, module.render(event, late))
        if agent_socket:
            return _forward_to_socket(agent_socket, arguments, call, payload, environment)
        places = [call.cwd, project, folder or os.getcwd()]
        said = answer(call, places, environment)
        if said.kind not in hook_calls.KINDS:
            said = late
    except Exception as error:  # noqa: BLE001 - hosts let an agent go when its hook fails
        why = HOOK_FAILED.format(why=f"{type(error).__name__}: {error}"[:600])
        is_ours = environment.get("REMAND_TASK", "") or agent_socket or getattr(error, "session_task", "")
        may_block = is_ours and kind in hook_calls.ENDINGS and startup.may_block_again("broken", is_ours)
        if may_block:
            said = HookAnswer.block(why)
        else:
            said = HookAnswer.allow(why if is_ours else _explain_solo_fault(call, places, error))
    return _write_rendered(module.render(event, said))


def _forward_to_socket(
    agent_socket: str, arguments: list[str], call: HookCall, payload: bytes, environment: dict[str, str]
) -> int:
    """Sends the call to the agent's own socket, where everything that matters is looked up.

    Raises CoordinatorUnavailable.
    """
    settings = [environment.get("REMAND_ACTOR", ""), environment.get("REMAND_TASK", ""), "", "", "", "", ""]
    patience = hook_calls.deadline(call.event) + 2 * WATCH_MARGIN
    try:
        code, out, errors = startup.forward_call(
            agent_socket,
            "",
            [*settings, call.firing_key],
            ["hook", *arguments],
            given=payload[: startup.MAX_CALL],
            patience=patience,
        )
    except startup.CoordinatorUnavailable as lost:
        raise startup.CoordinatorUnavailable(f"the agent socket of this run is closed ({lost})") from None
    if code == FAILED:
        raise startup.CoordinatorUnavailable(errors.decode("utf-8", "replace"))
    return _write_rendered((out.decode("utf-8", "replace"), errors.decode("utf-8", "replace"), code))


def _start_watchdog(seconds: float, rendered: tuple[str, str, int]) -> None:
    """Sends the late answer if the call hangs on a lock or a socket; otherwise the host would let the agent stop."""

    def answer_late() -> None:
        sleep(seconds)
        os._exit(_write_rendered(rendered, is_last=True))

    start_new_thread(answer_late, ())  # threading itself would cost a tenth of Python's start


def answer(call: HookCall, folders: list[str], environment: dict[str, str]) -> HookAnswer:
    """The answer to a call: nothing for sessions that are not measured."""
    named = environment.get("REMAND_TASK", "")
    if not call.event or (not call.session and not named):
        return HookAnswer.allow()
    is_remote = bool(environment.get("REMAND_SERVER"))
    place = remote.find_place(folders) if is_remote else _place(folders)
    if place is None:
        return _answer_without_ledger(call, named) if named and not call.subagent else HookAnswer.allow()
    if named and call.event != hook_calls.SUBAGENT_STOP:
        bound: startup.SessionTask | None = startup.SessionTask(named, environment.get("REMAND_ACTOR", ""))
    else:
        bound = find_session_task(place, call.session)
    is_claim_open = is_remote and bound is None and remote.has_open_claim(place, call.session)
    if bound is None and not is_claim_open and not _may_have_claimed(call):
        return HookAnswer.allow() if is_remote else dispatch.answer_solo(call, place, environment)
    is_by_branch = bound is not None and not bound.task_id and not is_remote
    if bound is not None and is_by_branch and dispatch.is_free_branch(place, bound, call.session):
        return dispatch.answer_solo(call, place, environment)
    if call.is_broken and call.event not in hook_calls.ENDINGS:
        return HookAnswer.allow()
    if is_remote:
        return remote.answer_call(call, place, bound, environment)
    return dispatch.answer_call(call, place, bound, environment)


def _explain_solo_fault(call: HookCall, folders: list[str], error: Exception) -> str:
    """The message if the call of a session without a task fails:

    nothing, unless the session should have been measured.
    """
    try:
        place = _place(folders)
        return dispatch.explain_solo_fault(call, place, error) if place is not None else ""
    except (OSError, ValueError):
        return ""


def _place(folders: list[str]) -> startup.LedgerLocation | None:
    """The first of the session's possible folders that has a ledger: an agent may be in any folder when it stops."""
    for folder in folders:
        place = startup.locate(folder) if folder and os.path.isdir(folder) else None
        if place is not None and startup.ledger_id(place):
            return place
    return None


def find_session_task(place: startup.LedgerLocation, session: str) -> startup.SessionTask | None:
    """The task of a session: the one that it claimed, or in whose worktree it runs; None if there is none."""
    claimed = startup.session_tasks.claimed_task(startup.folders_of(place).sessions, session)
    if claimed is not None or place.git_dir == place.common_dir:
        return claimed
    branch = startup.current_branch(place.git_dir)
    return startup.SessionTask(branch=branch) if branch else None


def _answer_without_ledger(call: HookCall, named: str) -> HookAnswer:
    """The answer to a session whose environment names a task although there is no ledger:

    blocked a few times, then allowed.
    """
    if call.event not in hook_calls.ENDINGS or not startup.may_block_again(named, call.session):
        return HookAnswer.allow()
    return HookAnswer.block(NO_LEDGER.format(task=named))


def _may_have_claimed(call: HookCall) -> bool:
    """True if the call is about a command, or a tool of Remand's, that may have claimed a task for this session."""
    if call.tool is None or call.event not in hook_calls.TOOL_RESULT_EVENTS:
        return False
    command = call.tool.command
    is_command = "remand" in command and ("claim" in command or "accept" in command)
    return is_command or call.tool.name.endswith("next_task")


def parse_arguments(arguments: list[str]) -> tuple[str, str, str] | None:
    """The host, the event and the folder that a call names."""
    host = event = folder = ""
    words = iter(arguments)
    for word in words:
        if word in ("--host", "-C"):
            value = next(words, "")
            host, folder = (value, folder) if word == "--host" else (host, value)
        elif not word.startswith("-"):
            event = word
    return (host, event, folder) if host in HOSTS and event else None


def _write_rendered(rendered: tuple[str, str, int], *, is_last: bool = False) -> int:
    out, errors, code = rendered
    sys.stdout.write(out)
    sys.stderr.write(errors)
    sys.stderr.flush()
    if is_last:
        sys.stdout.flush()
    return code
