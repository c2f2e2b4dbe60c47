"""Agents without a sandbox: programs of this user that nothing holds, but that end when they are to."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from contextlib import ExitStack
from io import FileIO

from remand.adapters.sandbox.agent_view import PROCESSES, Setting, environment_of
from remand.adapters.sandbox.crew import Held, Outcome, Starter, Streams, spawn
from remand.adapters.sandbox.ending import Hunt
from remand.adapters.sandbox.launched import Confinement, launcher_command, plan_of
from remand.adapters.sandbox.limits import Fence
from remand.adapters.sandbox.pipes import file_of, pipe_of
from remand.adapters.sandbox.running import END_SECONDS, START_SECONDS
from remand.adapters.sandbox.status import StatusPipe
from remand.adapters.sandbox.watching import Watch
from remand.app.scheduling.ports import CannotRun, Order, Running

MARK = "REMAND_MARK"
"""Stands in the environment of an agent's processes, with a word that no others have."""
NOT_RUN = 126


class UnconfinedCrew:
    """Starts agents as what they are: what the user may do, they may."""

    tier = "plain"

    def __init__(self, *, detail: str = "", processes: int = PROCESSES) -> None:
        self.detail = detail
        self._starter = Starter(_Launching, processes)

    def start(self, order: Order) -> Running:
        """Starts a run."""
        return self._starter.start(order)


class _Launching:
    """Has agents started by our own launcher, which ends with them whatever they leave behind."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __call__(self, order: Order, given: Setting, streams: Streams, fence: Fence) -> Held:
        """Starts the launcher, sets the agent's bounds, and gives it leave."""
        with ExitStack() as kept, ExitStack() as stack:
            told, says = pipe_of(kept)
            leave, to_leave = pipe_of(kept)
            mark = secrets.token_hex(16)
            prompt = stack.enter_context(file_of(order.prompt.encode("utf-8", "replace")))
            plan = stack.enter_context(file_of(_plan(order, given, fence, mark)))
            ends = (plan, says.fileno(), leave.fileno())
            process = spawn(self._watch, launcher_command(*ends), prompt, streams, ends)
            for end in (says, leave):
                end.close()
            status = StatusPipe(told)
            kept.callback(process.wait)
            kept.callback(to_leave.close)
            if not status.await_child(START_SECONDS):
                said = status.fault or streams.complaint() or "its launcher ended without a word"
                raise CannotRun("sandbox", f"The agent could not be started: {said}. See `remand doctor`.")
            fence.hold(status.child)
            to_leave.write(b"\n")
            kept.pop_all()
        return _Launched(process, status, to_leave, fence, mark)


def _plan(order: Order, given: Setting, fence: Fence, mark: str) -> bytes:
    environment = environment_of(
        order, given.job, home=os.path.expanduser("~"), temporary=tempfile.gettempdir(), door=order.door
    )
    return plan_of(given.job, given.program, environment | {MARK: mark}, Confinement(), fence, clears=True)


class _Launched:
    """An agent's processes, which its launcher ends with the first of them."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        status: StatusPipe,
        leave: FileIO,
        fence: Fence,
        mark: str,
    ) -> None:
        self._process, self._status, self._leave, self._fence = process, status, leave, fence
        self._hunt = Hunt(process.pid, mark, END_SECONDS)
        self.keeper, self.first = process.pid, status.child
        self.end = status.pipe.fileno()

    def kill(self) -> None:
        """Ends all of them."""
        self._leave.close()

    def outcome(self) -> Outcome | None:
        """How they ended: the launcher tells when nothing is left of them."""
        if not self._status.is_closed:
            self._status.read()
        code = self._process.poll() if self._status.is_closed else None
        if code is None or (code < 0 and not self._hunt.is_over()):
            return None
        self._fence.kill()
        said, reached = self._status, self._fence.reached()
        if said.fault:
            return Outcome("exited", NOT_RUN, said.fault)
        if said.signal is not None:
            return Outcome("signalled", said.signal, reached)
        if said.exit_code is not None:
            return Outcome("exited", said.exit_code, reached)
        return Outcome("signalled", abs(code), "The process that watches over it was ended.")

    def close(self) -> bool:
        """Lets go of the launcher and of what bounded the agent."""
        self._leave.close()
        self._status.pipe.close()
        return self._fence.is_closed()
