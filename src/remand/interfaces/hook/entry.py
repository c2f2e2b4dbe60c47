"""The hook's first steps: is this call ours at all? Loads nothing heavy before that is known."""

from __future__ import annotations

import gc
import os
import sys
from _thread import start_new_thread
from importlib import import_module
from time import sleep

from remand.app.agent_socket import agent_socket
from remand.bootstrap import hosts, quick
from remand.bootstrap.hosts import Answer, Call

MAX_PAYLOAD = 32 << 20
PROBE = "remand hook probe"
FAILED = 3
"""The exit code of a call that a door could not carry out, which no host takes for a no."""
LATE = (
    "Remand could not answer in time whether this session may stop. Go on with your task and stop again later; "
    "if it stays so, tell the user."
)
WATCH_MARGIN = 2.0
"""So much later than our own deadlines, and still before the host's."""
LOST = (
    "This session works on task {task}, and there is no ledger where it runs. Go back to the repository of the "
    "task; if its ledger was deleted, tell the user."
)
BROKEN = (
    "Remand's hook could not tell whether this session may stop: {why}. Go on with your task, or tell the "
    "user; `remand doctor` says more."
)


def run(arguments: list[str], environment: dict[str, str]) -> int:
    """Answers one call of a host, in a process of its own. A failure of our own is a no, never silence."""
    gc.disable()  # the process ends with the call, and looking for garbage takes longer than all that is left behind
    found = named(arguments)
    if found is None:
        sys.stderr.write(f"remand: usage: remand hook --host {'|'.join(hosts.HOSTS)} EVENT\n")
        return 2
    host, event, folder = found
    module = hosts.host(host)
    if module is None:
        return 2
    if environment.get("REMAND_HOOK_PROBE"):
        return _say(module.render(event, Answer.block(PROBE)))
    project = environment.get(module.SETUP.project, "") if module.SETUP.project else ""
    door, kind = agent_socket(environment), event
    try:
        payload = sys.stdin.buffer.read(MAX_PAYLOAD + 1)
        call = module.read(event, payload)
        kind = call.event
        late = Answer.block(LATE) if kind in hosts.ENDINGS else Answer.allow()
        _watch(hosts.deadline(kind) + WATCH_MARGIN, module.render(event, late))
        if door:
            return _through(door, arguments, call, payload, environment)
        said = answer(call, [call.cwd, project, folder or os.getcwd()], environment)
        if said.kind not in hosts.KINDS:
            said = late
    except Exception as error:  # noqa: BLE001 - hosts let an agent go when its hook fails
        why = BROKEN.format(why=f"{type(error).__name__}: {error}"[:600])
        is_ours = environment.get("REMAND_TASK", "") or door
        may_block = is_ours and kind in hosts.ENDINGS and quick.may_tell_again("broken", is_ours)
        said = Answer.block(why) if may_block else Answer.allow(why if is_ours else "")
    return _say(module.render(event, said))


def _through(door: str, arguments: list[str], call: Call, payload: bytes, environment: dict[str, str]) -> int:
    """Has the call answered at the agent's door, where all that counts of it is looked up. Raises `Lost`."""
    settings = [environment.get("REMAND_ACTOR", ""), environment.get("REMAND_TASK", ""), "", "", "", "", ""]
    patience = hosts.deadline(call.event) + 2 * WATCH_MARGIN
    try:
        code, out, errors = quick.forward(
            door,
            "",
            [*settings, call.firing],
            ["hook", *arguments],
            given=payload[: quick.MAX_CALL],
            patience=patience,
        )
    except quick.Lost as lost:
        raise quick.Lost(f"the door of this run is closed ({lost})") from None
    if code == FAILED:
        raise quick.Lost(errors.decode("utf-8", "replace"))
    return _say((out.decode("utf-8", "replace"), errors.decode("utf-8", "replace"), code))


def _watch(seconds: float, rendered: tuple[str, str, int]) -> None:
    """Answers in our stead should we hang on a lock or a socket: a host that waits in vain lets the agent go."""

    def speak() -> None:
        sleep(seconds)
        os._exit(_say(rendered, is_last=True))

    start_new_thread(speak, ())  # threading itself would cost a tenth of Python's start


def answer(call: Call, folders: list[str], environment: dict[str, str]) -> Answer:
    """The answer to a call: silence for sessions that are not ours, and a word for those that are."""
    named = environment.get("REMAND_TASK", "")
    if not call.event or (not call.session and not named):
        return Answer.allow()
    place = _place(folders)
    if place is None:
        return _lost(call, named) if named and not call.subagent else Answer.allow()
    bound = quick.bound_task(
        place,
        call.session,
        "" if call.event == hosts.SUBAGENT_STOP else named,
        environment.get("REMAND_ACTOR", ""),
    )
    if bound is None and not _may_bind(call):
        return Answer.allow()
    if call.is_broken and call.event not in hosts.ENDINGS:
        return Answer.allow()
    ours = import_module("remand.interfaces.hook.ours")
    replied: Answer = ours.reply(call, place, bound, environment)
    return replied


def _place(folders: list[str]) -> quick.Place | None:
    """The first of the folders a session may be in that has a ledger: an agent may be anywhere when it stops."""
    for folder in folders:
        place = quick.locate(folder) if folder and os.path.isdir(folder) else None
        if place is not None and quick.ledger_id(place):
            return place
    return None


def _lost(call: Call, named: str) -> Answer:
    """The answer to a session whose environment names a task where no ledger is: told a few times, then let go."""
    if call.event not in hosts.ENDINGS or not quick.may_tell_again(named, call.session):
        return Answer.allow()
    return Answer.block(LOST.format(task=named))


def _may_bind(call: Call) -> bool:
    """True when the call tells of a command, or of a tool of ours, that may have claimed a task for this session."""
    if call.tool is None or call.event not in hosts.AFTER_TOOLS:
        return False
    command = call.tool.command
    is_command = "remand" in command and ("claim" in command or "accept" in command)
    return is_command or call.tool.name.endswith("next_task")


def named(arguments: list[str]) -> tuple[str, str, str] | None:
    """The host, the event and the folder that a call names."""
    host = event = folder = ""
    words = iter(arguments)
    for word in words:
        if word in ("--host", "-C"):
            value = next(words, "")
            host, folder = (value, folder) if word == "--host" else (host, value)
        elif not word.startswith("-"):
            event = word
    return (host, event, folder) if host in hosts.HOSTS and event else None


def _say(rendered: tuple[str, str, int], *, is_last: bool = False) -> int:
    out, errors, code = rendered
    sys.stdout.write(out)
    sys.stderr.write(errors)
    sys.stderr.flush()
    if is_last:
        sys.stdout.flush()
    return code
