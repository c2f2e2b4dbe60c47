"""Answers hosts' hooks that come through an agent's door: what is in its workplace is looked up out of its reach."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from remand.app.errors import EnvironmentFault, RemandError
from remand.app.scheduling.ports import CannotRun, Look, Workplace
from remand.bootstrap import hosts
from remand.bootstrap.doors import Answered, Asked, Caller, brought_tip
from remand.bootstrap.hosts import Answer, Call
from remand.bootstrap.quick import Bound, Place, may_tell_again
from remand.domain.refusals import Refused
from remand.interfaces.hook import entry, noting, ours

MARGIN = 3.0
"""How much earlier than at its own deadline a hook is answered from here."""
SHORTEST = 0.5
FIRING = 7
"""Where among the settings of a call stands what two hooks of one event have in common."""
UNTAKEN = (
    "Your commits could not be taken over for task {task}: {why} Mend that and stop again; if you cannot, tell "
    "the user."
)


class Carrying(Protocol):
    """Carries calls out in an agent's name."""

    def bring(self, caller: Caller) -> str:
        """The tip of the caller's branch, with all that it has committed. Raises `CannotRun`."""

    def carried_out(self, asked: Asked, arguments: list[str]) -> Answered:
        """Carries a call out."""

    def measured(self, asked: Asked, arguments: list[str], seconds: float) -> Answered:
        """Carries out a call that may run the gates."""


def is_hook(arguments: list[str]) -> bool:
    """True for a call of a host's hook; one that is handed on is none, and goes through no door."""
    return arguments[:1] == ["hook"] and arguments[1:2] != ["relay"]


def is_stop(arguments: list[str]) -> bool:
    """True for a hook's call that says that the agent wants to stop."""
    found = entry.named(arguments[1:])
    module = hosts.host(found[0]) if found else None
    return found is not None and module is not None and module.read(found[1], b"{}").event == hosts.STOP


class DoorHooks:
    """Answers hooks. Whose session it is and which task it is about is settled by the door."""

    def __init__(self, place: Place, carrying: Carrying, look: Callable[[Workplace], Look]) -> None:
        self._place = place
        self._carrying = carrying
        self._look = look

    def answer(self, asked: Asked) -> Answered:
        """The answer to a hook in its host's own form. A failure of our own is a no to a stop."""
        found = entry.named(asked.arguments[1:])
        module = hosts.host(found[0]) if found else None
        if found is None or module is None:
            return 2, b"", b"remand: that is no call of a host's hook.\n"
        event = found[1]
        call = module.read(event, asked.given)
        call.transcript = ""  # a path of the agent's, which nobody follows out here
        try:
            said = self._answer(asked._replace(given=b""), call)
        except (Refused, RemandError, OSError) as error:
            why = entry.BROKEN.format(why=f"{error}"[:600])
            may_block = call.event in hosts.ENDINGS and may_tell_again("broken", asked.caller.run_id)
            said = Answer.block(why) if may_block else Answer.allow(why)
        out, errors, code = module.render(event, said)
        return code, out.encode("utf-8", "replace"), errors.encode("utf-8", "replace")

    def _answer(self, asked: Asked, call: Call) -> Answer:
        caller = asked.caller
        bound = Bound(caller.task_id, caller.agent)
        if call.event in hosts.AFTER_TOOLS:
            self._note(asked, call, bound)
            return Answer.allow()
        if call.event in hosts.BEGINNINGS:
            # What there is to read stands in the prompt that the run began with.
            return Answer.allow()
        is_broken = call.is_broken and call.event not in hosts.ENDINGS
        if not call.event or call.event == hosts.SUBAGENT_STOP or call.is_aborted or is_broken:
            return Answer.allow()
        words = ours.words_of(call, bound) | self._settled(asked, call)
        relayed = self._carrying.carried_out(asked, _relay(words))
        if call.event == hosts.STOP and ours.relayed(*relayed[:2]) is None:
            relayed = self._measured(asked, words)
        return _heard(relayed)

    def _note(self, asked: Asked, call: Call, bound: Bound) -> None:
        """Writes down what was run, and renews the lease now and then."""
        noting.write_down(call, self._place, bound)
        if noting.is_heartbeat_due(self._place, bound.task_id):
            self._carrying.carried_out(asked, ["--json", "task", "heartbeat", bound.task_id])

    def _settled(self, asked: Asked, call: Call) -> dict[str, object]:
        """What of a call is not the agent's to say: one run is one session, and its work is as we find it."""
        caller = asked.caller
        told = asked.settings[FIRING][:600] if len(asked.settings) > FIRING else call.firing
        own: dict[str, object] = {
            "session": caller.run_id,
            "firing": f"{caller.run_id} {told}",
            "workplace": caller.workplace.folder,
            "branch": caller.workplace.branch,
            "head": brought_tip(caller.workplace),
        }
        return own | self._looked(caller) if call.event == hosts.STOP else own

    def _looked(self, caller: Caller) -> dict[str, object]:
        """What is in the workplace of an agent that wants to stop, its commits taken over."""
        try:
            head = self._carrying.bring(caller)
            return {"head": head, "uncommitted": list(self._look(caller.workplace).uncommitted)}
        except CannotRun as why:
            return {"fault": UNTAKEN.format(task=caller.task_id, why=why)}

    def _measured(self, asked: Asked, words: dict[str, object]) -> Answered:
        """Runs the gates, for as long as the host waits."""
        spent = time.monotonic() - asked.at
        patience = max(SHORTEST, hosts.deadline(hosts.STOP) - MARGIN - spent)
        return self._carrying.measured(asked, _relay(words | {"patience": patience}), patience + MARGIN)


def _relay(words: dict[str, object]) -> list[str]:
    return ["--json", "hook", "relay", hosts.compose(words)]


def _heard(relayed: Answered) -> Answer:
    """The answer to a call that was handed on; raises when there is none."""
    code, output, errors = relayed
    found = ours.relayed(code, output)
    if found is None:
        said = hosts.parse(output).text("message") or errors.decode("utf-8", "replace").strip()
        raise EnvironmentFault(said or f"no answer came (exit code {code})")
    return found
