"""Answers what agents say at their doors: as themselves, about their own task, and outside of their reach."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from remand.app.errors import EnvironmentFault, RemandError
from remand.app.scheduling.ports import CannotRun, Look, Workplace
from remand.bootstrap import doors, quick
from remand.bootstrap.doors import Answered, Asked, Caller, SocketDoors
from remand.bootstrap.ledger import find_place
from remand.domain.event import KnownBy
from remand.domain.refusals import Refused
from remand.interfaces.cli import door, main
from remand.interfaces.cli.arguments import Call, split
from remand.interfaces.cli.context import Surroundings
from remand.interfaces.cli.door import Admitted
from remand.interfaces.cli.door_hooks import DoorHooks, is_hook, is_stop
from remand.interfaces.cli.entry import ENVIRONMENT
from remand.interfaces.cli.registry import COMMANDS

OUTSIDE = "remand.interfaces.cli.outside"
LONGEST = 7200.0
"""Seconds after which a call is ended, however it came about."""
LONGEST_WAIT = 3600.0
LOOK_AGAIN = 0.2
AT_WORK = max(4, 2 * (os.cpu_count() or 1))
"""How many calls are measured at a time; the others wait for their turn."""

Bring = Callable[[Workplace], str]
"""Takes a confined agent's commits into the repository; gives the tip of its branch. Raises `CannotRun`."""
LookAt = Callable[[Workplace], Look]


def doors_of(root: str, *, bring: Bring, look: LookAt) -> SocketDoors:
    """Doors for the agents of the ledger in a repository. Its `end` closes them all."""
    return doors.make_doors(find_place(root), Keeper(root, bring=bring, look=look))


class Keeper:
    """Carries out what may be carried out, in the agent's name; all else is refused."""

    def __init__(self, root: str, *, bring: Bring, look: LookAt) -> None:
        self._place = find_place(root)
        self._bring = bring
        self._look = look
        self._outside = doors.outside_of(self._place, OUTSIDE)
        self._room = threading.Semaphore(AT_WORK)
        self._hooks = DoorHooks(self._place, self, look)
        self._left: set[str] = set()

    def is_long(self, asked: Asked) -> bool:
        """True for a call that measures, or waits for that."""
        if is_hook(asked.arguments):
            return is_stop(asked.arguments)
        admission = door.ADMITTED.get(split(asked.arguments).command)
        return admission is not None and admission.is_long

    def answer(self, asked: Asked) -> Answered:
        """Answers a call through a door."""
        if is_hook(asked.arguments):
            return self._hooks.answer(asked)
        call = split(asked.arguments)
        try:
            return self._answer(asked, door.admitted(asked, call))
        except (Refused, RemandError, OSError) as error:
            return _said(call, error)

    def leave(self, caller: Caller) -> None:
        """Ends what still goes on for a run."""
        self._left.add(caller.run_id)
        self._outside.end(caller.run_id)

    def bring(self, caller: Caller) -> str:
        """The tip of the caller's branch, with all that it has committed. Raises `CannotRun`."""
        return self._bring(caller.workplace)

    def _answer(self, asked: Asked, found: Admitted) -> Answered:
        caller, call = asked.caller, found.call
        if found.subject and found.subject != caller.task_id:
            door.require_own(caller, found, self._task_of(asked, found))
        settled: dict[str, str] = {}
        if found.admission.hands_in:
            settled = self._handed_in(caller, found)
        elif call.command == "handoff reject":
            with suppress(CannotRun):
                self.bring(caller)
        elif call.command in ("review approve", "review reject"):
            settled = {"--commit": self._reviewed(caller, str(found.options.commit))}
        elif call.command == "gate wait":
            self._wait_for_gates(caller, found.options.timeout)
            settled = {"--timeout": "0"}
        arguments = door.worded(caller, call, settled)
        if found.admission.is_long and call.command != "gate wait":
            return self.measured(asked, arguments, LONGEST)
        return self.carried_out(asked, arguments)

    def _task_of(self, asked: Asked, found: Admitted) -> str:
        """The task that a call is about, by whatever name it was given; what is not there is said as the ledger says it."""
        words = ("task", "show") if found.admission.about == door.TASK else ("handoff", "status")
        code, output, _ = self.carried_out(asked, ["--json", *words, "--", found.subject])
        try:
            known = msgspec.json.decode(output)
        except msgspec.MsgspecError:
            raise EnvironmentFault(f"It cannot be told what {found.subject!r} is. Repeat the call.") from None
        if code:
            raise Refused(str(known.get("refused", "unknown_task")), str(known.get("message", "")))
        return str(known.get("task_id", ""))

    def _handed_in(self, caller: Caller, found: Admitted) -> dict[str, str]:
        """The commit and branch of a done claim: what the agent has committed, and nothing else it could name."""
        workplace = caller.workplace
        door.require_own_branch(found, workplace)
        tip = self.bring(caller)
        commit = door.tip_named(str(found.options.commit), tip, workplace)
        return {"--commit": commit, "--branch": workplace.branch}

    def _reviewed(self, caller: Caller, name: str) -> str:
        """The commit that a reviewer speaks of."""
        if door.is_tip_by_name(name, caller.workplace):
            return self._look(caller.workplace).head or name
        if not door.is_commit_id(name):
            raise Refused("unknown_commit", "Name the commit by its id, as `remand review list` shows it.")
        return name

    def _wait_for_gates(self, caller: Caller, seconds: float) -> None:
        """Waits for the gates of the caller's task, without a process that does nothing else."""
        runs = doors.gate_runs(self._place)
        until = time.monotonic() + max(0.0, min(seconds, LONGEST_WAIT))
        while runs.is_running(caller.task_id) and time.monotonic() < until:
            if caller.run_id in self._left:
                break
            time.sleep(LOOK_AGAIN)

    def measured(self, asked: Asked, arguments: list[str], seconds: float) -> Answered:
        """Carries out a call that measures, when its turn has come."""
        while not self._room.acquire(timeout=LOOK_AGAIN):
            if asked.caller.run_id in self._left:
                raise EnvironmentFault("The run is over.")
        try:
            return self._run(asked, arguments, seconds)
        finally:
            self._room.release()

    def carried_out(self, asked: Asked, arguments: list[str]) -> Answered:
        """Carries a call out, by the coordinator where it can."""
        call = split(arguments)
        path = quick.find_socket(self._place)
        if path and not asked.given and COMMANDS[call.command].may_be_forwarded and call.is_self_contained:
            with suppress(quick.Lost):
                return quick.forward(path, self._place.root, settings(asked), arguments)
        return self._run(asked, arguments, LONGEST)

    def _run(self, asked: Asked, arguments: list[str], seconds: float) -> Answered:
        frame = doors.packed(self._place.root, settings(asked), arguments, asked.given)
        return self._outside.run(asked.caller.run_id, frame, seconds)


def settings(asked: Asked) -> list[str]:
    """What a call is carried out under: the door's own agent and task, and how wide the agent's screen is."""
    said = dict(zip((*ENVIRONMENT, "is_terminal", "width"), asked.settings, strict=False))
    forced = {"REMAND_ACTOR": asked.caller.agent, "REMAND_TASK": asked.caller.task_id}
    width = said.get("width", "")
    own = [forced.get(name, said.get(name, "")[:200]) for name in ENVIRONMENT]
    is_width = width.isascii() and width.isdigit() and len(width) <= 4
    return [*own, "1" if said.get("is_terminal") else "", width if is_width else "", KnownBy.SOCKET]


def _said(call: Call, error: Refused | RemandError | OSError) -> Answered:
    """A failure as the command line says it."""
    out, errors = io.StringIO(), io.StringIO()
    code = main.say_failure(call, Surroundings("", {}, out, errors), error)
    return code, _encoded(out), _encoded(errors)


def _encoded(text: io.StringIO) -> bytes:
    return text.getvalue().encode("utf-8", "surrogateescape")
