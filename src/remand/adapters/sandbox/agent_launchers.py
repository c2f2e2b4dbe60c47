"""Starts agents: confined by bubblewrap, or as plain programs of this user."""

from __future__ import annotations

import errno
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path

from remand.adapters.sandbox import socket_scope, system_links
from remand.adapters.sandbox.agent_process import (
    AgentExit,
    AgentStarter,
    HeldProcesses,
    OutputStreams,
    WatchThread,
    spawn,
)
from remand.adapters.sandbox.file_view import (
    PROCESSES,
    PROMPT,
    AgentSetting,
    FileView,
    agent_environment,
    agent_file_view,
    link_folders,
    own_program,
)
from remand.adapters.sandbox.job_process import END_SECONDS, START_SECONDS, BubblewrapConnection
from remand.adapters.sandbox.limits import ResourceLimits, set_limits
from remand.adapters.sandbox.processes import (
    OrphanKiller,
    ProcessHandle,
    StatusPipe,
    end_all_below,
    make_pipe,
    memory_file,
)
from remand.adapters.sandbox.sandboxes import (
    HOME,
    SIGNAL_BASE,
    TEMPORARY,
    TRIES,
    BubblewrapArguments,
    Confinement,
    argument_list,
    is_temporary_failure,
    launcher_command,
    launcher_plan,
    start_arguments,
)
from remand.app.agent_socket import AGENT_SOCKET_PATH
from remand.app.gates.ports import MIB
from remand.app.scheduler.ports import AgentLaunch, CannotRun, RunningAgent

ROOM = 1024 * MIB
"""What each of an agent's own folders for temporary files can hold."""

LAST_SIGNAL = 64


class ConfinedAgentLauncher:
    """Starts agents apart from everything that is not theirs."""

    tier = "bubblewrap"

    def __init__(self, path: str, *, detail: str = "", processes: int = PROCESSES) -> None:
        self.detail = detail
        wrapper = BubblewrapArguments(path)
        self._starter = AgentStarter(lambda watch: _BubblewrapStarter(wrapper, watch), processes)

    def start(self, order: AgentLaunch) -> RunningAgent:
        """Starts a run."""
        for _ in range(TRIES):
            try:
                return self._starter.start(order)
            except CannotRun as fault:
                if not is_temporary_failure(str(fault)):
                    raise
        return self._starter.start(order)


class _BubblewrapStarter:
    """Puts bubblewrap around agents."""

    def __init__(self, wrapper: BubblewrapArguments, watch: WatchThread) -> None:
        self._wrapper, self._watch = wrapper, watch
        # Read now: what is run inside is what was there when we began.
        has_scopes = socket_scope.landlock_version() >= socket_scope.FIRST_VERSION
        self._scope = Path(socket_scope.__file__).read_text(encoding="utf-8") if has_scopes else ""
        self._linking = Path(system_links.__file__).read_text(encoding="utf-8")

    def __call__(
        self, order: AgentLaunch, given: AgentSetting, streams: OutputStreams, fence: ResourceLimits
    ) -> HeldProcesses:
        """Starts the first process inside, sets its bounds, and gives it leave."""
        with ExitStack() as kept, ExitStack() as stack:
            prompt = stack.enter_context(memory_file(order.prompt.encode("utf-8", "replace")))
            view = agent_file_view(order, given)
            plan, program = self._plan(order, given, view, prompt), [*self._command(order, given)]
            binding = BubblewrapConnection(stack, self._wrapper.path, plan, PROMPT, program)
            kept.callback(binding.let_go)
            process = spawn(
                self._watch, binding.command, binding.stdin, streams, (*binding.descriptors, prompt)
            )
            binding.close_child_ends()
            first = _await_first_process(process, binding, streams)
            try:
                fence.add_process(first.pid)
                set_limits(first.pid, fence.of_each_process(has_own_users=True))
                self._link_own_program(first.pid, view)
                binding.permit_start(process)
            except OSError:
                first.kill()
                process.wait()
                first.close()
                raise
            kept.pop_all()
        return _BubblewrapProcesses(process, first, fence, binding)

    def _link_own_program(self, pid: int, view: FileView) -> None:
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

    def _plan(self, order: AgentLaunch, given: AgentSetting, view: FileView, prompt: int) -> bytes:
        """What bubblewrap is asked for."""
        door = AGENT_SOCKET_PATH if order.door else ""
        environment = agent_environment(order, given.job, home=HOME, temporary=TEMPORARY, door=door)
        asked = (
            *self._wrapper.arguments(
                view,
                has_network=order.bounds.has_network,
                room=ROOM,
                files={PROMPT: prompt},
            ),
            *start_arguments(given.job.folder, environment),
            "--as-pid-1",
        )
        return argument_list([*asked])

    def _command(self, order: AgentLaunch, given: AgentSetting) -> Iterator[str]:
        """What the first process inside starts."""
        if self._scope and order.bounds.has_network:
            yield from (sys.executable, "-I", "-S", "-c", self._scope)
        yield from (given.program, *order.command[1:])


def _await_first_process(
    process: subprocess.Popen[bytes], binding: BubblewrapConnection, streams: OutputStreams
) -> ProcessHandle:
    """The first process inside, once it asks for leave."""
    is_there = binding.await_child(START_SECONDS)
    if is_there:
        first = ProcessHandle(binding.child)
        if first.descriptor >= 0:
            return first
    binding.give_up()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        end_all_below(process.pid, "", END_SECONDS)
    said = streams.complaint() or ("Linux 5.3 is needed" if is_there else "bubblewrap printed nothing")
    raise CannotRun(
        "disk" if os.strerror(errno.ENOSPC) in said else "sandbox",
        f"The sandbox could not be created: {said}. See `remand doctor`.",
    )


class _BubblewrapProcesses:
    """An agent's processes inside bubblewrap: they end with the first of them."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        first: ProcessHandle,
        fence: ResourceLimits,
        binding: BubblewrapConnection,
    ) -> None:
        self._process, self._handle, self._fence, self._binding = process, first, fence, binding
        self._patience = 0.0
        self._hunt = OrphanKiller(process.pid, "", END_SECONDS)
        self.keeper = self.first = first.pid
        self.end = first.descriptor

    def kill(self) -> None:
        """Ends all of them."""
        self._handle.kill()

    def outcome(self) -> AgentExit | None:
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
            return AgentExit("signalled", number, self._fence.reached_bound())
        return AgentExit("exited", code, self._fence.reached_bound())

    def _wait_no_longer(self) -> None:
        now = time.monotonic()
        self._patience = self._patience or now + END_SECONDS
        if now > self._patience:
            self._process.kill()

    def close(self) -> bool:
        """Lets go of the first process and of what bound and bounded it."""
        self._handle.close()
        self._binding.let_go()
        return self._fence.try_close()


MARK = "REMAND_MARK"
"""Stands in the environment of an agent's processes, with a word that no others have."""
NOT_RUN = 126


class PlainAgentLauncher:
    """Starts agents as what they are: what the user may do, they may."""

    tier = "plain"

    def __init__(self, *, detail: str = "", processes: int = PROCESSES) -> None:
        self.detail = detail
        self._starter = AgentStarter(_LauncherStarter, processes)

    def start(self, order: AgentLaunch) -> RunningAgent:
        """Starts a run."""
        return self._starter.start(order)


class _LauncherStarter:
    """Has agents started by our own launcher, which ends with them whatever they leave behind."""

    def __init__(self, watch: WatchThread) -> None:
        self._watch = watch

    def __call__(
        self, order: AgentLaunch, given: AgentSetting, streams: OutputStreams, fence: ResourceLimits
    ) -> HeldProcesses:
        """Starts the launcher, sets the agent's bounds, and gives it leave."""
        with ExitStack() as kept, ExitStack() as stack:
            told, says = make_pipe(kept)
            leave, to_leave = make_pipe(kept)
            mark = secrets.token_hex(16)
            prompt = stack.enter_context(memory_file(order.prompt.encode("utf-8", "replace")))
            plan = stack.enter_context(memory_file(_plan(order, given, fence, mark)))
            ends = (plan, says.fileno(), leave.fileno())
            process = spawn(self._watch, launcher_command(*ends), prompt, streams, ends)
            for end in (says, leave):
                end.close()
            status = StatusPipe(told)
            kept.callback(process.wait)
            kept.callback(to_leave.close)
            if not status.await_child(START_SECONDS):
                said = status.fault or streams.complaint() or "its launcher ended without a word"
                raise CannotRun("sandbox", f"The agent could not start: {said}. See `remand doctor`.")
            fence.add_process(status.child)
            to_leave.write(b"\n")
            kept.pop_all()
        return _LauncherProcesses(process, status, to_leave, fence, mark)


def _plan(order: AgentLaunch, given: AgentSetting, fence: ResourceLimits, mark: str) -> bytes:
    environment = agent_environment(
        order, given.job, home=os.path.expanduser("~"), temporary=tempfile.gettempdir(), door=order.door
    )
    return launcher_plan(
        given.job, given.program, environment | {MARK: mark}, Confinement(), fence, clears=True
    )


class _LauncherProcesses:
    """An agent's processes, which its launcher ends with the first of them."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        status: StatusPipe,
        leave: FileIO,
        fence: ResourceLimits,
        mark: str,
    ) -> None:
        self._process, self._status, self._leave, self._fence = process, status, leave, fence
        self._hunt = OrphanKiller(process.pid, mark, END_SECONDS)
        self.keeper, self.first = process.pid, status.child
        self.end = status.pipe.fileno()

    def kill(self) -> None:
        """Ends all of them."""
        self._leave.close()

    def outcome(self) -> AgentExit | None:
        """How they ended: the launcher tells when nothing is left of them."""
        if not self._status.is_closed:
            self._status.read()
        code = self._process.poll() if self._status.is_closed else None
        if code is None or (code < 0 and not self._hunt.is_over()):
            return None
        self._fence.kill()
        said, reached = self._status, self._fence.reached_bound()
        if said.fault:
            return AgentExit("exited", NOT_RUN, said.fault)
        if said.signal is not None:
            return AgentExit("signalled", said.signal, reached)
        if said.exit_code is not None:
            return AgentExit("exited", said.exit_code, reached)
        return AgentExit("signalled", abs(code), "The process that watches over it was ended.")

    def close(self) -> bool:
        """Lets go of the launcher and of what bounded the agent."""
        self._leave.close()
        self._status.pipe.close()
        return self._fence.try_close()
