"""Starts agents: confined by bubblewrap, or as plain programs of this user."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from remand.adapters.sandbox import connections, job_setup, launcher, supervisor, system_links
from remand.adapters.sandbox.limits import ResourceLimits, is_full
from remand.adapters.sandbox.processes import memory_file
from remand.adapters.sandbox.sandboxes import HOME, TEMPORARY, BubblewrapArguments
from remand.adapters.system.files import program_folders
from remand.app.gates.ports import MIB, Job, JobLimits
from remand.app.scheduler.agent_socket import AGENT_SOCKET_PATH
from remand.app.scheduler.ports import AgentLaunch, CannotRun, RunEnd, RunningAgent

FRESH_SIZE = 1024 * MIB
"""Size limit of each private folder for temporary files."""

GRACE_SECONDS = 5.0
"""How long an agent has to end after it is asked to."""
DISK_CHECK_SECONDS = 1.0

OUTPUT = 1 << 17
ERRORS = 1 << 15
"""How much of an agent's output is kept: the host's report of a session comes at the end."""

MARK = "REMAND_MARK"
"""Environment variable by which the processes of an unconfined agent are found; each agent has its own value."""

CAUSES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "disk"),
    **dict.fromkeys((errno.E2BIG, errno.ENAMETOOLONG, errno.ENOEXEC), "program"),
}
REMEDIES = {
    "disk": "Free some space there.",
    "program": "Fix the command in remand.toml.",
    "sandbox": "Try again later.",
}


class _AgentLauncher(ABC):
    """Starts agents; subclasses decide how they are confined."""

    tier: str

    def __init__(self, *, detail: str = "", processes: int = 0) -> None:
        self.detail = detail
        self._processes = processes or PROCESSES

    def start(self, order: AgentLaunch) -> RunningAgent:
        """Starts a run; raises CannotRun."""
        try:
            with ExitStack() as stack, ExitStack() as inputs:
                setting = _agent_setting(order, self._processes)
                prompt = inputs.enter_context(memory_file(order.prompt.encode("utf-8", "replace")))
                limits = stack.enter_context(ResourceLimits(setting.job.limits))
                agent = supervisor.supervise(
                    lambda: self._connect(order, setting, limits, prompt),
                    limits,
                    supervisor.StopRules(
                        order.bounds.seconds,
                        setting.job.folder,
                        DISK_CHECK_SECONDS,
                        GRACE_SECONDS,
                        order.uncounted,
                    ),
                    supervisor.OutputBounds(OUTPUT, ERRORS, order.log),
                    lambda end: _run_end(end, setting.job.folder),
                )
                stack.pop_all()  # The supervisor removes the group when the agent has ended.
                return agent
        except job_setup.CannotStart as fault:
            raise CannotRun("program", str(fault)) from None
        except supervisor.LaunchFailed as fault:
            cause = "disk" if os.strerror(errno.ENOSPC) in str(fault) else "sandbox"
            raise CannotRun(cause, f"The agent could not start: {fault}. See `remand doctor`.") from None
        except OSError as fault:
            cause = CAUSES.get(fault.errno or 0, "sandbox")
            text = f"The system cannot start an agent: {fault}. {REMEDIES[cause]}"
            raise CannotRun(cause, text) from None

    @abstractmethod
    def _connect(
        self, order: AgentLaunch, setting: AgentSetting, limits: ResourceLimits, prompt: int
    ) -> connections.LaunchConnection:
        """The connection to the process that starts the agent."""


def _run_end(end: supervisor.ProcessEnd, folder: str) -> RunEnd:
    how, note = end.stopped_for or end.how, end.fault or end.note
    if how == "disk":
        how = "stopped"
        text = f"Remand ended it: the disk of {folder} is nearly full. Free some space there."
        note = " ".join(filter(None, (note, text)))
    errors = end.errors.text()
    return RunEnd(
        how, end.status, end.seconds, end.output.text(), f"{errors}\n[{note}]\n" if note else errors
    )


class ConfinedAgentLauncher(_AgentLauncher):
    """Starts agents in a sandbox that shows them only their own files."""

    tier = "bubblewrap"

    def __init__(self, path: str, *, detail: str = "", processes: int = 0) -> None:
        super().__init__(detail=detail, processes=processes)
        self._bubblewrap = BubblewrapArguments(path)
        # Read now, so that the script cannot change between now and the agent's start.
        has_scopes = launcher.landlock_version() >= launcher.SCOPE_VERSION
        self._scope = Path(launcher.__file__).read_text(encoding="utf-8") if has_scopes else ""
        self._linking = Path(system_links.__file__).read_text(encoding="utf-8")

    def _connect(
        self, order: AgentLaunch, setting: AgentSetting, limits: ResourceLimits, prompt: int
    ) -> connections.LaunchConnection:
        socket = AGENT_SOCKET_PATH if order.socket else ""
        # Each attempt reads the prompt from its start.
        os.lseek(prompt, 0, os.SEEK_SET)
        view = _agent_file_view(order, setting)
        plan = self._bubblewrap.arguments(
            view,
            _agent_environment(order, setting.job, home=HOME, temporary=TEMPORARY, socket=socket),
            setting.job.folder,
            has_network=order.bounds.has_network,
            fresh_size=FRESH_SIZE,
            files={PROMPT: prompt},
        )
        command = [setting.program, *order.command[1:]]
        if self._scope and order.bounds.has_network:
            command = [sys.executable, "-I", "-S", "-c", self._scope, "scope", *command]
        each_process = limits.of_each_process(has_own_users=True)
        connection = connections.BubblewrapConnection(
            self._bubblewrap.path, plan, PROMPT, command, each_process
        )
        connection.descriptors += (prompt,)
        connection.prepare = partial(self._link_own_program, link_folders(view))
        return connection

    def _link_own_program(self, folders: list[str], pid: int) -> None:
        """Adds our program to the system folders inside, so that every shell finds it.

        If that fails, it is still on the agent's own PATH.
        """
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", self._linking, str(pid), own_program(), *folders],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={},
                cwd="/",
                timeout=supervisor.START_SECONDS,
                check=False,
            )


class PlainAgentLauncher(_AgentLauncher):
    """Starts agents with all the user's rights."""

    tier = "plain"

    def _connect(
        self, order: AgentLaunch, setting: AgentSetting, limits: ResourceLimits, prompt: int
    ) -> connections.LaunchConnection:
        mark = secrets.token_hex(16)
        home, temporary = os.path.expanduser("~"), tempfile.gettempdir()
        environment = _agent_environment(
            order, setting.job, home=home, temporary=temporary, socket=order.socket
        )
        each_process = limits.of_each_process(has_own_users=False)
        plan = connections.launcher_plan(
            setting.job, setting.program, environment | {MARK: mark}, each_process
        )
        return connections.LauncherConnection(plan, mark, prompt)


# ------------------------------------------------------------------------------------ what an agent is started with

PROMPT = "/run/remand/prompt"
BASE_OBJECTS = "base-objects"
"""The path under which a confined agent's git folder refers to the real repository's objects."""

PROGRAM = "remand"
OWN = str(Path(__file__).parents[2])
"""Our own package, which agents call: it may be inside the repository that is hidden from them."""

LONGEST = 1 << 17
"""The longest argument that the system accepts."""

PROCESSES = 2048
FILE_SIZE = 4096 * MIB
LEAST_MEMORY = 2048 * MIB
"""The least memory that an agent may use, over all of its processes if they can be counted together."""


class AgentSetting(NamedTuple):
    """What an agent is started with, confined or not."""

    program: str
    job: Job


def _agent_setting(order: AgentLaunch, processes: int) -> AgentSetting:
    """The program and the job of a run, after checking that both exist; raises CannotRun."""
    folder = order.worktree.folder
    if not os.path.isabs(folder) or not os.path.isdir(folder) or os.path.islink(folder):
        raise CannotRun("git", f"The worktree {folder} was not found. It must be created again.")
    if is_full(folder):
        raise CannotRun("disk", f"The disk of {folder} is nearly full. Free some space there.")
    if order.socket and not job_setup.is_socket(order.socket):
        raise CannotRun(
            "socket", f"The agent's socket {order.socket} was not found. It must be opened again."
        )
    path = tuple(_search_path(order))
    bounds = order.bounds
    job = Job(
        command=order.command,
        folder=folder,
        has_network=bounds.has_network,
        read=(*bounds.read, OWN),
        hide=(*bounds.hide, *_siblings(order)),
        path=path,
        limits=JobLimits(
            seconds=bounds.seconds, memory=_memory(), processes=processes, file_size=FILE_SIZE, output=0
        ),
    )
    return AgentSetting(_program(order, os.pathsep.join((*path, *job_setup.SYSTEM_PATH))), job)


def _agent_environment(
    order: AgentLaunch, job: Job, *, home: str, temporary: str, socket: str
) -> dict[str, str]:
    """The complete environment of an agent. The order cannot override which socket is its own."""
    for name in order.environment:
        if not name or "=" in name:
            raise CannotRun("program", f"{name!r} cannot be the name of a variable. Fix it in remand.toml.")
    environment = {"LANG": os.environ.get("LANG") or "C.UTF-8", "HOME": home, "TMPDIR": temporary}
    own = {"PATH": os.pathsep.join(dict.fromkeys((*job.path, *job_setup.SYSTEM_PATH))), "PWD": job.folder}
    return environment | order.environment | own | ({"REMAND_SOCKET": socket} if socket else {})


def _agent_file_view(order: AgentLaunch, setting: AgentSetting) -> job_setup.FileView:
    """The files that a confined agent sees; raises CannotRun."""
    place = order.worktree
    for folder in (place.private_dir, os.path.join(place.private_dir, BASE_OBJECTS)):
        if not os.path.isabs(folder) or os.path.islink(folder) or not os.path.isdir(folder):
            raise CannotRun(
                "git", f"The agent's git folder {folder} was not found. It must be created again."
            )
    objects = os.path.join(place.common_dir, "objects")
    if not os.path.isdir(objects):
        raise CannotRun("git", f"The repository {place.common_dir} was not found. Restore it, then repeat.")
    view = job_setup.job_file_view(
        setting.job, setting.program, own=order.bounds.write, hide=job_setup.listening_sockets()
    )
    view.cover(place.common_dir, place.private_dir, job_setup.Visibility.WRITE)
    view.cover(os.path.join(place.common_dir, BASE_OBJECTS), objects, job_setup.Visibility.READ)
    if os.path.isfile(os.path.join(objects, "info", "alternates")):
        # The agent's own folder has what the repository borrows from another one, which must stay hidden.
        empty = os.path.join(place.private_dir, BASE_OBJECTS)
        view.cover(os.path.join(place.common_dir, BASE_OBJECTS, "info"), empty, job_setup.Visibility.READ)
    view.show(place.folder, job_setup.Visibility.WRITE)
    if order.socket:
        view.cover(AGENT_SOCKET_PATH, order.socket, job_setup.Visibility.WRITE)
    return view


def _siblings(order: AgentLaunch) -> list[str]:
    """The folders with the worktrees and git folders of other agents, beside this one's."""
    own = (order.worktree.folder, order.worktree.private_dir)
    above = {os.path.dirname(os.path.realpath(path)) for path in own if path}
    return [folder for folder in above if not job_setup.is_system_folder(folder)]


def _memory() -> int:
    """The memory limit of an agent: most of the machine's memory."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return LEAST_MEMORY
    return max(total // 4 * 3, LEAST_MEMORY)


def own_program() -> str:
    """The absolute path of our own executable, because an agent's PATH may find another."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), PROGRAM)
    return beside if os.access(beside, os.X_OK) else os.path.abspath(shutil.which(PROGRAM) or beside)


def link_folders(view: job_setup.FileView) -> list[str]:
    """The read-only system folders in which every shell should find our program."""
    folders = {os.path.realpath(folder): None for folder in job_setup.SYSTEM_PATH if os.path.isdir(folder)}
    return [folder for folder in folders if view.at(folder) is job_setup.Visibility.READ]


def _program(order: AgentLaunch, path: str) -> str:
    """The absolute path of the agent's program."""
    if not order.command:
        raise CannotRun("program", f"The command of {order.agent} is empty. Name a program in remand.toml.")
    if any(len(word.encode("utf-8", "replace")) >= LONGEST for word in order.command):
        raise CannotRun("program", f"The command of {order.agent} is too long for the system. Shorten it.")
    name = order.command[0]
    found = shutil.which(os.path.join(order.worktree.folder, name) if "/" in name else name, path=path)
    if found is None:
        raise CannotRun(
            "program",
            f"{order.agent}'s program `{name}` was not found or is not executable. Install it, or fix the command in remand.toml.",
        )
    interpreter = job_setup.interpreter_of(found)
    if interpreter and shutil.which(interpreter, path=path) is None:
        raise CannotRun("program", f"{found} is run by {interpreter}, which was not found. Install that.")
    return found


def _search_path(order: AgentLaunch) -> Iterator[str]:
    """Where an agent finds programs: the project's folders, the user's PATH at the scheduler's start, and ours."""
    common = order.worktree.common_dir
    root = os.path.dirname(common) if os.path.basename(common) == ".git" else ""
    yield from program_folders(root) if root else ()
    masked = [
        os.path.realpath(path)
        for path in (*job_setup.hidden_paths(), *job_setup.shared_folders(), tempfile.gettempdir())
    ]
    secret = [os.path.realpath(path) for path in order.bounds.hide]
    named = order.environment.get("PATH") or os.environ.get("PATH", "")
    for folder in named.split(os.pathsep):
        real = os.path.realpath(folder)
        shows_masked = any(_holds(real, path) for path in (*masked, *secret))
        is_secret = any(_holds(path, real) for path in secret)
        if os.path.isabs(folder) and not shows_masked and not is_secret:
            yield folder
    yield os.path.dirname(os.path.abspath(sys.executable))


def _holds(folder: str, path: str) -> bool:
    """True if a path is the folder or inside it."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")
