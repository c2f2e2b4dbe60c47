"""Agents in a sandbox: bubblewrap around each, with its worktree, its tools and one socket."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from remand.adapters.sandbox import scope, system_links
from remand.adapters.sandbox.agent_view import (
    PROCESSES,
    PROMPT,
    Setting,
    agent_view,
    environment_of,
    link_folders,
    own_program,
)
from remand.adapters.sandbox.binding import Binding
from remand.adapters.sandbox.bubblewrap import (
    HOME,
    SIGNAL_BASE,
    TEMPORARY,
    TRIES,
    Wrapper,
    is_fleeting,
    listed,
    setting,
)
from remand.adapters.sandbox.crew import Held, Outcome, Starter, Streams, spawn
from remand.adapters.sandbox.ending import Handle, Hunt, end_all_below
from remand.adapters.sandbox.limits import Fence, set_limits
from remand.adapters.sandbox.pipes import file_of
from remand.adapters.sandbox.running import END_SECONDS, START_SECONDS
from remand.adapters.sandbox.view import View
from remand.adapters.sandbox.watching import Watch
from remand.app.agent_socket import DOOR
from remand.app.gates.ports import MIB
from remand.app.scheduling.ports import CannotRun, Order, Running

ROOM = 1024 * MIB
"""What each of an agent's own folders for temporary files can hold."""

LAST_SIGNAL = 64


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
        self._linking = Path(system_links.__file__).read_text(encoding="utf-8")

    def __call__(self, order: Order, given: Setting, streams: Streams, fence: Fence) -> Held:
        """Starts the first process inside, sets its bounds, and gives it leave."""
        with ExitStack() as kept, ExitStack() as stack:
            prompt = stack.enter_context(file_of(order.prompt.encode("utf-8", "replace")))
            view = agent_view(order, given)
            plan, program = self._plan(order, given, view, prompt), [*self._command(order, given)]
            binding = Binding(stack, self._wrapper.path, plan, PROMPT, program)
            kept.callback(binding.let_go)
            process = spawn(self._watch, binding.command, binding.stdin, streams, (*binding.given, prompt))
            binding.hand_over()
            first = _first(process, binding, streams)
            try:
                fence.hold(first.pid)
                set_limits(first.pid, fence.of_each_process(has_own_users=True))
                self._link_own_program(first.pid, view)
                binding.give_leave(process)
            except OSError:
                first.kill()
                process.wait()
                first.close()
                raise
            kept.pop_all()
        return _Wrapped(process, first, fence, binding)

    def _link_own_program(self, pid: int, view: View) -> None:
        """Has every shell inside find our program. An agent whose shell does not still has it on its own PATH."""
        words = (str(pid), own_program(), *link_folders(view))
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", self._linking, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={},
                cwd="/",
                timeout=START_SECONDS,
                check=False,
            )

    def _plan(self, order: Order, given: Setting, view: View, prompt: int) -> bytes:
        """What bubblewrap is asked for."""
        door = DOOR if order.door else ""
        environment = environment_of(order, given.job, home=HOME, temporary=TEMPORARY, door=door)
        asked = (
            *self._wrapper.arguments(
                view,
                has_network=order.bounds.has_network,
                room=ROOM,
                files={PROMPT: prompt},
            ),
            *setting(given.job.folder, environment),
            "--as-pid-1",
        )
        return listed([*asked])

    def _command(self, order: Order, given: Setting) -> Iterator[str]:
        """What the first process inside starts."""
        if self._scope and order.bounds.has_network:
            yield from (sys.executable, "-I", "-S", "-c", self._scope)
        yield from (given.program, *order.command[1:])


def _first(process: subprocess.Popen[bytes], binding: Binding, streams: Streams) -> Handle:
    """The first process inside, once it asks for leave."""
    is_there = binding.await_child(START_SECONDS)
    if is_there:
        first = Handle(binding.child)
        if first.descriptor >= 0:
            return first
    binding.give_up()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        end_all_below(process.pid, "", END_SECONDS)
    said = streams.complaint() or ("Linux 5.3 is needed" if is_there else "bubblewrap said nothing")
    raise CannotRun(
        "disk" if os.strerror(errno.ENOSPC) in said else "sandbox",
        f"The sandbox could not be made: {said}. See `remand doctor`.",
    )


class _Wrapped:
    """An agent's processes inside bubblewrap: they end with the first of them."""

    def __init__(
        self, process: subprocess.Popen[bytes], first: Handle, fence: Fence, binding: Binding
    ) -> None:
        self._process, self._handle, self._fence, self._binding = process, first, fence, binding
        self._patience = 0.0
        self._hunt = Hunt(process.pid, "", END_SECONDS)
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
        if code < 0 and not self._hunt.is_over():
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
        """Lets go of the first process and of what bound and bounded it."""
        self._handle.close()
        self._binding.let_go()
        return self._fence.is_closed()
