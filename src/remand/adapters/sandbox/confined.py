"""Agents in a sandbox: bubblewrap around each, with its worktree, its tools and one socket."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec

from remand.adapters.sandbox import scope
from remand.adapters.sandbox.agent_view import DOOR, PROCESSES, PROMPT, Setting, agent_view, environment_of
from remand.adapters.sandbox.bubblewrap import (
    HOME,
    SIGNAL_BASE,
    TEMPORARY,
    TRIES,
    Wrapper,
    is_fleeting,
    setting,
)
from remand.adapters.sandbox.crew import Held, Outcome, Starter, Streams, spawn
from remand.adapters.sandbox.ending import Handle
from remand.adapters.sandbox.limits import Fence, set_limits
from remand.adapters.sandbox.pipes import file_of
from remand.adapters.sandbox.polling import is_ready
from remand.adapters.sandbox.running import END_SECONDS, START_SECONDS
from remand.adapters.sandbox.setting import encoded
from remand.adapters.sandbox.status import Said
from remand.adapters.sandbox.watching import Watch
from remand.app.gates.ports import MIB
from remand.app.scheduling.ports import CannotRun, Order, Running

ROOM = 1024 * MIB
"""What each of an agent's own folders for temporary files can hold."""

# The first process inside. It is there before it asks for leave, and bound by then to die with whoever started it; when
# nobody is left to give leave it ends. It fetches orphans, and takes everything inside with it when the agent ends.
FIRST = 'echo >&0 && read -r leave || exit 125; exec 3>&2 2>/dev/null <"$0"; (exec "$@" 2>&3 3>&-); exit $?'
LAST_SIGNAL = 64
MAX_TOLD = 4096


class ConfinedCrew:
    """Starts agents apart from everything that is not theirs."""

    tier = "bubblewrap"

    def __init__(self, path: str, *, detail: str = "", processes: int = PROCESSES) -> None:
        self.detail = detail
        wrapper = Wrapper(path)
        self._starter = Starter(lambda watch: _Wrapping(wrapper, watch), processes)

    def start(self, order: Order) -> Running:
        """Starts a run."""
        for _ in range(TRIES):
            try:
                return self._starter.start(order)
            except CannotRun as fault:
                if not is_fleeting(str(fault)):
                    raise
        return self._starter.start(order)


class _Wrapping:
    """Puts bubblewrap around agents."""

    def __init__(self, wrapper: Wrapper, watch: Watch) -> None:
        self._wrapper, self._watch = wrapper, watch
        # Read now: what is run inside is what was there when we began.
        has_scopes = scope.version() >= scope.FIRST_VERSION
        self._scope = Path(scope.__file__).read_text(encoding="utf-8") if has_scopes else ""

    def __call__(self, order: Order, given: Setting, streams: Streams, fence: Fence) -> Held:
        """Starts the first process inside, sets its bounds, and gives it leave."""
        with ExitStack() as stack:
            control, theirs = (stack.enter_context(end) for end in socket.socketpair())
            # A file, not a pipe: should nobody be left to hear it, bubblewrap would end before what it has begun.
            told = stack.enter_context(file_of(b""))
            prompt = stack.enter_context(file_of(order.prompt.encode("utf-8", "replace")))
            plan = stack.enter_context(file_of(self._plan(order, given, prompt)))
            options = ("--info-fd", str(told), "--args", str(plan), "--")
            command = encoded([self._wrapper.path, *options, *self._command(order, given)])
            process = spawn(self._watch, command, theirs.fileno(), streams, (plan, prompt, told))
            theirs.close()
            first = _first(process, control, told, streams)
            try:
                fence.hold(first.pid)
                set_limits(first.pid, fence.of_each_process(has_own_users=True))
                control.sendall(b"leave\n")
            except OSError:
                first.kill()
                process.wait()
                first.close()
                raise
        return _Wrapped(process, first, fence)

    def _plan(self, order: Order, given: Setting, prompt: int) -> bytes:
        """What bubblewrap is asked for."""
        door = DOOR if order.door else ""
        environment = environment_of(order, given.job, home=HOME, temporary=TEMPORARY, door=door)
        asked = (
            *self._wrapper.arguments(
                agent_view(order, given),
                has_network=order.bounds.has_network,
                room=ROOM,
                files={PROMPT: prompt},
            ),
            *setting(given.job.folder, environment),
            "--as-pid-1",
        )
        return b"".join(argument + b"\x00" for argument in encoded([*asked]))

    def _command(self, order: Order, given: Setting) -> Iterator[str]:
        """The first process inside, and what it starts."""
        yield from ("/bin/sh", "-c", FIRST, PROMPT)
        if self._scope and order.bounds.has_network:
            yield from (sys.executable, "-I", "-S", "-c", self._scope)
        yield from (given.program, *order.command[1:])


def _first(process: subprocess.Popen[bytes], control: socket.socket, told: int, streams: Streams) -> Handle:
    """The first process inside, once it asks for leave."""
    is_there = is_ready(control.fileno(), START_SECONDS) and control.recv(1)
    if is_there:
        first = Handle(msgspec.json.decode(os.pread(told, MAX_TOLD, 0), type=Said).child_pid)
        if first.descriptor >= 0:
            return first
    process.kill()
    process.wait()
    said = streams.complaint() or ("Linux 5.3 is needed" if is_there else "bubblewrap said nothing")
    raise CannotRun(
        "disk" if os.strerror(errno.ENOSPC) in said else "sandbox",
        f"The sandbox could not be made: {said}. See `remand doctor`.",
    )


class _Wrapped:
    """An agent's processes inside bubblewrap: they end with the first of them."""

    def __init__(self, process: subprocess.Popen[bytes], first: Handle, fence: Fence) -> None:
        self._process, self._handle, self._fence = process, first, fence
        self._patience = 0.0
        self.keeper = self.first = first.pid
        self.end = first.descriptor

    def kill(self) -> None:
        """Ends all of them."""
        self._handle.kill()

    def outcome(self) -> Outcome | None:
        """How they ended: bubblewrap tells a moment after the last of them has."""
        code = self._process.poll()
        if code is None:
            self._wait_no_longer()
            return None
        self._fence.kill()
        number = -code if code < 0 else code - SIGNAL_BASE
        if 0 < number <= LAST_SIGNAL:
            return Outcome("signalled", number, self._fence.reached())
        return Outcome("exited", code, self._fence.reached())

    def _wait_no_longer(self) -> None:
        now = time.monotonic()
        self._patience = self._patience or now + END_SECONDS
        if now > self._patience:
            self._process.kill()

    def close(self) -> bool:
        """Lets go of the first process and of what bounded it."""
        self._handle.close()
        return self._fence.is_closed()
